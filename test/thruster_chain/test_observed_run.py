"""What can be known along a run, beside what filters claim; the command that shows it, and what is told live."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from evaluation_samples import command, refusal
from matplotlib import image

from onboard_estimation.base.errors import UserError
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.result import EvaluationResult
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.simulated_bags import simulated_recording
from thruster_chain_estimation.judging.observability import observed_now
from thruster_chain_estimation.judging.observed_chain import AssumedChain, assumed_chain, blocks
from thruster_chain_estimation.judging.observed_run import ObservedRun, observe_run
from thruster_chain_estimation.model.configuration import ChainConfiguration, ThrusterChainConfiguration
from thruster_chain_estimation.robot import ROBOT

pytestmark = pytest.mark.timeout(600)  # the first of them compiles the paper's filter

CONFIGURATION = ThrusterChainConfiguration()
LINKS = CONFIGURATION.chain.link_names


def replayed(
    configuration: ThrusterChainConfiguration, variant: str, estimator: str, seed: int, duration_s: float = 1.0
) -> tuple[LoadedRecording, EvaluationResult]:
    recording = simulated_recording(ROBOT, configuration, "thrusters", variant, duration_s, seed)
    return recording, judge(ROBOT, configuration, estimator, recording)


def observed(assumed: AssumedChain, recording: LoadedRecording, result: EvaluationResult) -> ObservedRun:
    return observe_run(assumed, LINKS, recording.series, result, 0.3)


@pytest.mark.parametrize(("imu_model", "seed"), [("physical", 3), ("physical", 4), ("paper", 3), ("paper", 5)])
def test_prediction_is_what_the_papers_filter_claims(imu_model: str, seed: int) -> None:
    """An unscented filter on sigma points, started off the truth, against sensitivities about the truth."""
    configuration = replace(CONFIGURATION, imu_model=imu_model)  # type: ignore[arg-type]
    recording, result = replayed(configuration, imu_model, "paper_ukf", seed)
    seen = observed(assumed_chain(configuration, papers=True), recording, result)
    np.testing.assert_allclose(seen.claimed[-1], seen.predicted[-1], rtol=0.12)
    assert (np.abs(seen.error[-1]) < 5.0 * seen.predicted[-1]).all()
    assert seen.predicted[-1].max() < 0.5 * seen.prior.max()
    # Before the first push both stand where the filter began.
    true = seen.estimate[5] - seen.error[5]
    np.testing.assert_allclose(seen.predicted[5] / true, seen.claimed[5] / seen.estimate[5], rtol=0.02)
    at_once = np.abs(np.log(seen.claimed / seen.predicted))
    assert np.median(at_once) < 0.1


def test_rank_and_conditions_follow_the_square_waves() -> None:
    recording, result = replayed(CONFIGURATION, "physical", "paper_ukf", 3)
    seen = observed(assumed_chain(CONFIGURATION, papers=True), recording, result)
    pushing = (np.abs(seen.conditions.normal_n) > 0.0).any(axis=1)
    assert 0.2 < pushing.mean() < 0.4
    np.testing.assert_array_equal(seen.conditions.met(), np.repeat(pushing[:, None], 3, axis=1))
    assert (seen.seen.rank[pushing] == 11).all()
    assert (seen.seen.rank[~pushing] <= 10).all()
    assert {"the common heading"} == set.intersection(
        *(set(seen.seen.unobservable[k]) for k in np.flatnonzero(pushing))
    )
    assert len(seen.window_starts_s) == 3
    assert 0.1 < seen.window_smallest[0] < seen.window_smallest[1:].max()


def test_tolerance_of_thrust_ends_what_can_be_known_of_the_scale() -> None:
    """Without paper: gains of the thrusters are uncertain, and with them the common scale of masses and inertias."""
    recording, result = replayed(CONFIGURATION, "physical", "gyros", 3, 4.0)
    # Weighed late only: a truth that follows an estimate is no jump from which a scale could be learned.
    for name in ("masses", "inertias"):
        result.parts[name].truth[: len(result.stamps_ns) // 2] = np.nan
    seen = observed(assumed_chain(CONFIGURATION), recording, result)
    assumed, scaled = assumed_chain(CONFIGURATION), slice(blocks(3).mass.start, None)
    scale_stddev = np.sum((assumed.design[scaled] / assumed.prior_stddev[scaled]) ** 2) ** -0.5
    known = np.abs(seen.estimate[-1] - seen.error[-1])
    assert (seen.predicted[-1] / known > 0.9 * scale_stddev).all()
    assert any("the common scale of masses, inertias and thrust" in hidden for hidden in seen.seen.unobservable)


def test_silent_imu_tells_nothing() -> None:
    recording, result = replayed(CONFIGURATION, "paper", "paper_ukf", 3)
    late = recording.first_stamp_ns() + 450_000_000
    series, dying = [
        [one if one.channel.sensor != "imu/link_2" else one.rows(one.stamps_ns < end) for one in recording.series]
        for end in (0, late)
    ]
    assumed = assumed_chain(replace(CONFIGURATION, imu_model="paper"), papers=True)
    both = [observe_run(assumed, LINKS, some, result, 0.3) for some in (recording.series, series, dying)]
    lost = both[1].predicted[-1] / both[0].predicted[-1]
    assert lost.min() > 1.0
    # The paper's accelerometers tell of their own link's mass alone; inertias show in the gyros.
    assert lost[[1, 3, 4, 5]].min() > 2.0
    assert lost[[0, 2]].max() < 1.2
    # One that falls silent after the first of three pulses tells as much until then, and no more.
    np.testing.assert_array_equal(both[2].predicted[:45], both[0].predicted[:45])
    assert (both[2].predicted[-1] > both[0].predicted[-1]).all()
    assert both[2].predicted[-1, 4] < both[1].predicted[-1, 4]
    np.testing.assert_allclose(both[1].predicted[-1, 0], both[0].predicted[-1, 0], rtol=0.1)


def test_without_commands_it_says_so() -> None:
    recording, result = replayed(CONFIGURATION, "physical", "gyros", 3)
    with pytest.raises(UserError, match="without thrust"):
        observe_run(assumed_chain(CONFIGURATION), LINKS, recording.series[1:], result, 0.3)


# Live.


def test_what_is_told_live_is_that_of_the_instant_with_a_forecast() -> None:
    assumed = assumed_chain(CONFIGURATION, papers=True)
    mean = np.concatenate([np.zeros(6), CONFIGURATION.chain.masses, CONFIGURATION.chain.inertias, np.zeros(4)])
    covariance = ROBOT.initial_covariance(CONFIGURATION)
    now = observed_now(assumed, LINKS, mean, covariance, np.array([1.0, 0.0, -1.0]))
    told = dict(zip(now.names, now.values, strict=True))
    psi = CONFIGURATION.chain.thruster_angles
    assert told["normal_n.link_1"] == pytest.approx(np.sin(psi[0]))
    assert told["normal_n.link_2"] == 0.0
    assert told["net_n.link_3"] == pytest.approx(-1.0)
    assert (told["rank"], told["states"]) == (11.0, 12.0)
    assert told["smallest"] > 0.1
    assert now.hidden == "the common heading"
    assert now.forecast.startswith("push thruster ")


def test_published_covariance_lands_where_it_belongs() -> None:
    assumed = assumed_chain(CONFIGURATION)
    rng = np.random.default_rng(1)
    root = rng.normal(size=(16, 16))
    mean, covariance = rng.uniform(0.1, 1.0, 16), root @ root.T
    state, whole = assumed.from_published(mean, covariance)
    at = blocks(3)
    for mine, theirs in (
        (at.theta, slice(0, 3)),
        (at.omega, slice(3, 6)),
        (at.mass, slice(6, 9)),
        (at.inertia, slice(9, 12)),
    ):
        np.testing.assert_array_equal(state[mine], mean[theirs])
        np.testing.assert_array_equal(whole[mine, at.inertia], covariance[theirs, 9:12])
    np.testing.assert_array_equal(state[at.gain], 1.0)
    np.testing.assert_allclose(np.diag(whole)[at.gain], 0.1**2 / 3.0)


# The command.


@pytest.fixture(scope="module")
def bag(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("observability") / "square"
    made = command(
        "simulate", "thruster_chain", "--scenario", "thrusters", "--duration", "1", "--seed", "3", "--output", folder
    )
    assert made.code == 0, made.error
    return folder


def test_command_tells_robots_apart_by_the_topics(bag: Path, tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    outcome = command("observability", bag, "--estimator", "paper_ukf", "--json", "--output", picture)
    assert outcome.code == 0, outcome.error
    (run,) = json.loads(outcome.out)["runs"]
    assert image.imread(picture).shape[0] > 600
    assert run["rank_largest"] == 11
    assert run["source"] == "simulated"
    assert set(run["parameters"]) == {"m1", "m2", "m3", "j1", "j2", "j3"}
    for one in run["parameters"].values():
        assert one["filter_stddev"] == pytest.approx(one["least_possible_stddev"], rel=0.12)
        assert abs(one["error"]) < 5.0 * one["filter_stddev"]
    assert len(run["series"]["time_s"]) == len(run["series"]["rank"]) >= 16
    text = command("observability", "thruster_chain", bag)
    assert text.code == 0
    assert "hidden for " in text.out
    assert "at the end: push thruster" in text.out
    assert max(map(len, text.out.partition("- ")[0].splitlines())) <= 100


def test_command_names_a_thruster_along_its_link(bag: Path) -> None:
    text = command("observability", bag, "--set", "chain.thruster_angles_rad=[0.785, 0.0, -1.571]")
    assert text.code == 0, text.error
    assert "the inertia of link_2 becomes unobservable" in text.out


def test_command_refuses_with_a_way_out(bag: Path) -> None:
    assert "are shown, not its joint angles" in refusal("observability", bag, "--joint", "1")
    assert "one picture shows one run" in refusal("observability", bag, bag, "--output", "x.png")
    assert "has no estimator 'none'" in refusal("observability", bag, "--estimator", "none")
    assert "not for 'hopper'" in refusal("observability", bag, "--robot", "hopper")


def test_ten_links_go_the_same_way() -> None:
    count = 10
    lists = {
        name: tuple(np.resize(getattr(CONFIGURATION.chain, name), count).tolist())
        for name in (
            "link_lengths_m",
            "masses_kg",
            "inertias_kg_m2",
            "thruster_x_m",
            "thruster_y_m",
            "thruster_angles_rad",
            "imu_x_m",
            "imu_y_m",
        )
    }
    chain = ChainConfiguration(link_names=tuple(f"link_{link}" for link in range(1, count + 1)), **lists)
    configuration = replace(CONFIGURATION, chain=chain)
    recording, result = replayed(configuration, "physical", "paper_ukf", 3)
    seen = observe_run(assumed_chain(configuration, papers=True), chain.link_names, recording.series, result, 0.3)
    assert seen.seen.rank.max() == 39
    ratio = seen.claimed[-1] / seen.predicted[-1]
    assert 0.8 < np.median(ratio) < 1.25
