"""What can be known along a run, beside what filters claim; the command that shows it, and what is told live."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from evaluation_samples import command, refusal
from matplotlib import image

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Estimate
from onboard_estimation.base.series import Series
from onboard_estimation.contract.observed import ReplayedRun
from onboard_estimation.contract.tracks import HeldValues
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.simulated_bags import simulate_to_bag, simulated_recording
from thruster_chain_estimation.judging.information import assumed_chain, blocks
from thruster_chain_estimation.judging.observability import observed_now
from thruster_chain_estimation.judging.observed_run import ObservedRun, observe_run
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration
from thruster_chain_estimation.model.space import TRUE_PARAMETERS
from thruster_chain_estimation.robot import ROBOT

CONFIGURATION = ThrusterChainConfiguration()
LINKS = CONFIGURATION.chain.link_names
ImuModel = Literal["physical", "paper"]


@cache
def replayed(
    variant: ImuModel,
    estimator: str,
    duration_s: float = 1.0,
    configuration: ThrusterChainConfiguration = CONFIGURATION,
) -> ReplayedRun:
    recording = simulated_recording(ROBOT, configuration, "thrusters", variant, duration_s, 3)
    result = judge(ROBOT, replace(configuration, imu_model=variant), estimator, recording)
    return ReplayedRun("run", variant, estimator, recording, result)


@cache
def observed(variant: ImuModel) -> ObservedRun:
    """What could be known, beside what the paper's filter claims."""
    return observe_run(replace(CONFIGURATION, imu_model=variant), replayed(variant, "paper_ukf"), 0.3)


@pytest.mark.parametrize("variant", ["physical", "paper"])
def test_prediction_is_what_the_papers_filter_claims(variant: ImuModel) -> None:
    """An unscented filter on sigma points, started off the truth, against sensitivities about the truth."""
    seen = observed(variant)
    np.testing.assert_allclose(seen.claimed[-1], seen.predicted[-1], rtol=0.12)
    assert (np.abs(seen.error[-1]) < 5.0 * seen.predicted[-1]).all()
    assert seen.predicted[-1].max() < 0.5 * seen.prior.max()
    # Before the first push both stand where the filter began.
    true = seen.estimate[5] - seen.error[5]
    np.testing.assert_allclose(seen.predicted[5] / true, seen.claimed[5] / seen.estimate[5], rtol=0.02)
    at_once = np.abs(np.log(seen.claimed / seen.predicted))
    assert np.median(at_once) < 0.1


def test_rank_and_conditions_follow_the_square_waves() -> None:
    seen = observed("physical")
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
    run = replayed("physical", "gyros", 4.0)
    # It learns neither, and is not judged on them.
    assert list(run.result.parts) == ["headings", "position"]
    assert any("gyros takes masses and inertias as known" in note for note in run.result.notes)
    # Weighed late only: a truth that follows an estimate is no jump from which a scale could be learned.
    weighed, half = run.recording.held[TRUE_PARAMETERS], run.result.stamps_ns[len(run.result.stamps_ns) // 2 :][:1]
    late = {TRUE_PARAMETERS: HeldValues(half, weighed.at(half))}
    run = replace(run, recording=replace(run.recording, held=late))
    assumed, scaled = assumed_chain(CONFIGURATION), slice(blocks(3).mass.start, None)
    seen = observe_run(CONFIGURATION, run, 0.3)
    scale_stddev = np.sum((assumed.design[scaled] / assumed.prior_stddev[scaled]) ** 2) ** -0.5
    known = np.abs(seen.estimate[-1] - seen.error[-1])
    assert (seen.predicted[-1] / known > 0.9 * scale_stddev).all()
    assert any("the common scale of masses, inertias and thrust" in hidden for hidden in seen.seen.unobservable)
    with pytest.raises(UserError, match="without thrust"):
        observe_run(CONFIGURATION, with_series(run, run.recording.series[1:]), 0.3)


def with_series(run: ReplayedRun, series: tuple[Series, ...]) -> ReplayedRun:
    return replace(run, recording=replace(run.recording, series=series))


def cut_off(run: ReplayedRun, end_ns: int) -> ReplayedRun:
    """With nothing of the second link's IMU from then on."""
    kept = (one.rows((one.stamps_ns < end_ns) | (one.channel.sensor != "imu/link_2")) for one in run.recording.series)
    return with_series(run, tuple(kept))


def test_silent_imu_tells_nothing() -> None:
    run, configuration = replayed("paper", "paper_ukf"), replace(CONFIGURATION, imu_model="paper")
    late = next(run.recording.measurements()).stamp_ns + 450_000_000
    heard, silent, dying = (
        observe_run(configuration, one, 0.3).predicted for one in (run, cut_off(run, 0), cut_off(run, late))
    )
    lost = silent[-1] / heard[-1]
    assert lost.min() > 1.0
    # The paper's accelerometers tell of their own link's mass alone; inertias show in the gyros.
    assert lost[[1, 3, 4, 5]].min() > 2.0
    assert lost[[0, 2]].max() < 1.2
    # One that falls silent after the first of three pulses tells as much until then, and no more.
    np.testing.assert_array_equal(dying[:45], heard[:45])
    assert (dying[-1] > heard[-1]).all()


# Live.


def test_what_is_told_live_is_that_of_the_instant_with_a_forecast() -> None:
    assumed = assumed_chain(CONFIGURATION, papers=True)
    mean = np.concatenate([np.zeros(6), CONFIGURATION.chain.masses, CONFIGURATION.chain.inertias, np.zeros(4)])
    covariance = ROBOT.initial_covariance(CONFIGURATION)
    now = observed_now(assumed, LINKS, Estimate(0, mean, covariance), np.array([1.0, 0.0, -1.0]))
    told = dict(zip(now.names, now.values, strict=True))
    psi = CONFIGURATION.chain.thruster_angles
    assert told["normal_n.link_1"] == pytest.approx(np.sin(psi[0]))
    assert told["normal_n.link_2"] == 0.0
    assert told["net_n.link_3"] == pytest.approx(-1.0)
    assert (told["rank"], told["states"]) == (11.0, 12.0)
    assert told["smallest"] > 0.1
    assert now.words.startswith("push thruster ")
    assert now.words.endswith("; nothing tells at this moment: the common heading")


# The command.


def test_the_command_tells_robots_apart_names_a_thruster_along_its_link_and_refuses_with_a_way_out(
    tmp_path: Path,
) -> None:
    bag, picture = tmp_path / "bag", tmp_path / "picture.png"
    simulate_to_bag(ROBOT, CONFIGURATION, "thrusters", "physical", 1.0, 3, bag)
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
    along = "chain.thruster_angles_rad=[0.785, 0.0, -1.571]"
    text = command("observability", "thruster_chain", bag, "--estimator", "gyros", "--set", along)
    assert text.code == 0, text.error
    assert "hidden for " in text.out
    assert "at the end: push thruster" in text.out
    assert "the inertia of link_2 becomes unobservable" in text.out
    assert max(map(len, text.out.partition("- ")[0].splitlines())) <= 100
    assert "are shown, not its joint angles" in refusal("observability", bag, "--joint", "1")
    assert "one picture shows one run" in refusal("observability", bag, bag, "--output", "x.png")
    assert "has no estimator 'none'" in refusal("observability", bag, "--estimator", "none")
    assert "these robots have: salp, thruster_chain" in refusal("observability", bag, "--robot", "hopper")
