"""The paper's filter as an estimator: gathering, silence, lies, held parameters; and its figures over many seeds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.thruster_chain import paper as figures
from benchmarks.thruster_chain.paper import AT_089, Case, run_case
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Estimate, Measurement, Notice
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.simulated_bags import simulated_recording
from onboard_estimation.pipeline.estimator import Step
from onboard_estimation.testing import Check, checks
from thruster_chain_estimation.estimators.paper_estimator import PaperEstimator, StampGroups
from thruster_chain_estimation.estimators.paper_filter import PaperFilter
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration
from thruster_chain_estimation.model.dynamics import propagate, read_imus
from thruster_chain_estimation.model.space import COMMAND
from thruster_chain_estimation.robot import ROBOT

PERIOD_NS = 10_000_000
CONFIGURATION = ThrusterChainConfiguration()
NAMES = CONFIGURATION.chain.link_names


class Recording:
    """Messages of a chain that is pushed as in the paper, and its true state at their stamps.

    Parameters
    ----------
    offsets_ns
        Of the stamps of each link's IMU.
    """

    def __init__(self, steps: int, seed: int = 0, offsets_ns: tuple[int, int, int] = (0, 0, 0)) -> None:
        rng, links = np.random.default_rng(seed), PaperFilter(CONFIGURATION).links
        chain = CONFIGURATION.chain
        reciprocal = 1.0 / np.concatenate([chain.masses, chain.inertias])
        motion, thrust, last_ns = np.zeros((10, 1)), np.zeros(3), 0
        self.truth: dict[int, np.ndarray] = {}
        self.messages: list[Measurement] = []
        for k in range(steps):
            stamps = sorted({k * PERIOD_NS + offset for offset in (0, *offsets_ns)})
            for stamp_ns in stamps:
                if stamp_ns > last_ns:
                    given = np.concatenate([reciprocal, thrust])[:, None]
                    propagate(links, given, motion, 1e-9 * (stamp_ns - last_ns), 1e-3)
                    last_ns = stamp_ns
                self.truth[stamp_ns] = motion[:, 0].copy()
                if stamp_ns == k * PERIOD_NS:
                    thrust = np.full(3, 1.0 if k >= 20 and (k - 20) % 30 < 10 else 0.0)
                    self.messages.append(Measurement(stamp_ns, COMMAND, thrust))
                readings = np.empty((9, 1))
                read_imus(True, links, np.concatenate([reciprocal, thrust])[:, None], motion, readings)
                readings[:, 0] += rng.normal(size=9) * np.tile([0.01, 0.01, 0.001], 3)
                for link, offset_ns in enumerate(offsets_ns):
                    if k * PERIOD_NS + offset_ns == stamp_ns:
                        ax, ay, rate = readings[3 * link : 3 * link + 3, 0]
                        value = np.array([0.0, 0.0, rate, ax, ay, 9.8])
                        self.messages.append(Measurement(stamp_ns, f"imu/{NAMES[link]}", value))


def given(stddev: float = 1.0) -> Estimate:
    """A start with Table III's deviations by that factor, the first heading well known."""
    estimator = PaperEstimator(CONFIGURATION)
    state = estimator.start(None)
    mean, covariance = PaperFilter(CONFIGURATION).published(state.moments)
    covariance = covariance * stddev**2
    covariance[0, 0] = 1e-6
    return Estimate(0, mean, covariance)


def filtered(messages: list[Measurement], initial: Estimate | None) -> list[Step]:
    estimator = PaperEstimator(CONFIGURATION)
    state, steps = estimator.start(initial), []
    for message in messages:
        step = estimator.step(state, message)
        state = step.state
        steps.append(step)
    return steps


def notices(steps: list[Step]) -> list[str]:
    return [event.sentence for step in steps for event in step.events if isinstance(event, Notice)]


def worst_sigma(steps: list[Step], recording: Recording) -> float:
    """Largest error of headings, rates, place and velocity in its standard deviation."""
    largest = 0.0
    for step in steps:
        if step.estimate is not None:
            moving = np.r_[0:6, 12:16]
            stddev = np.sqrt(np.diag(step.estimate.covariance))[moving]
            error = step.estimate.mean[moving] - recording.truth[step.estimate.stamp_ns]
            error[:3] = (error[:3] + np.pi) % (2.0 * np.pi) - np.pi
            largest = max(largest, np.abs(error / stddev).max())
    return largest


def test_messages_of_one_stamp_are_used_together() -> None:
    """One estimate a stamp, that of the filter by hand; innovations are told to each link's own counters."""
    recording = Recording(30)
    steps = filtered(recording.messages, given())
    assert [step.estimate is not None for step in steps] == [False, False, False, True] * 30
    assert [step.innovation is not None for step in steps[:8]] == [False, False, False, True, False, True, True, True]
    by_hand, thrust = PaperFilter(CONFIGURATION), np.zeros(3)
    moments = by_hand.start(given().mean, given().covariance)
    for k in range(30):
        command, *imus = recording.messages[4 * k : 4 * k + 4]
        if k > 0:
            moments = by_hand.predict(moments, thrust, 0.01)
        thrust = command.value
        measured = np.array([[*imu.value[3:5], imu.value[2]] for imu in imus])
        moments, seen = by_hand.update(moments, thrust, np.arange(3), measured)
        innovation = steps[4 * k + 3].innovation
        assert innovation is not None
        np.testing.assert_array_equal(innovation.value, seen.innovations[2])
        np.testing.assert_allclose(innovation.covariance, seen.roots[2] @ seen.roots[2].T)
    mean, covariance = by_hand.published(moments)
    estimate = steps[-1].estimate
    assert estimate is not None
    np.testing.assert_allclose(estimate.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(estimate.covariance, covariance, rtol=1e-9, atol=1e-20)
    assert worst_sigma(steps, recording) < 4.5
    assert notices(steps) == []


def test_links_with_stamps_of_their_own_are_used_one_by_one() -> None:
    recording = Recording(100, 1, (1_000_000, 4_000_000, 7_000_000))
    steps = filtered(recording.messages, given())
    # The first three messages wait for each other in vain; then each has an estimate at its own stamp.
    told = [
        step.estimate is not None
        for step, message in zip(steps, recording.messages, strict=True)
        if "imu" in message.sensor
    ]
    assert told == [False] * 3 + [True] * 297
    assert worst_sigma(steps, recording) < 4.5
    final = steps[-1].estimate
    assert final is not None
    assert np.abs(final.mean[6:9] - 0.5).max() < 0.05


def test_a_silent_imu_is_told_of_once_and_the_others_go_on() -> None:
    """The second falls silent before the pushes end; it comes back later."""
    recording = Recording(260, 2)
    kept = [m for m in recording.messages if m.sensor != "imu/link_2" or not 85 <= m.stamp_ns // PERIOD_NS < 230]
    steps = filtered(kept, given())
    found = notices(steps)
    assert len(found) == 1
    assert found[0].startswith("nothing of imu/link_2 for 1 s, at 1.8")
    assert worst_sigma(steps, recording) < 4.5
    deviation = {
        step.estimate.stamp_ns // PERIOD_NS: np.sqrt(np.diag(step.estimate.covariance))
        for step in steps
        if step.estimate
    }
    # Nothing is missing but at the stamp where the two others waited.
    assert set(range(260)) - set(deviation) == {85}
    rates = np.array([deviation[k][3:6] for k in (84, 200, 259)])
    assert rates[1, 1] > 3.0 * rates[0, 1]
    assert rates[1, 0] < 1.1 * rates[0, 0]
    assert rates[2, 1] < 1.1 * rates[0, 1]


def test_an_imu_that_contradicts_the_others_is_refused_and_told_of() -> None:
    recording = Recording(100, 3)
    lying = [
        replace(m, value=m.value + np.array([0.0, 0.0, 2.0, 0.0, 0.0, 0.0]))
        if m.sensor == "imu/link_1" and m.stamp_ns >= 50 * PERIOD_NS
        else m
        for m in recording.messages
    ]
    steps = filtered(lying, given())
    assert worst_sigma(steps, recording) < 4.5
    found = notices(steps)
    assert len(found) == 1
    assert found[0].startswith("20 turning rates in a row of imu/link_1, at 0.69")
    refused = [
        step.innovation for step, m in zip(steps, lying, strict=True) if m.sensor == "imu/link_1" and step.innovation
    ]
    assert sum(not innovation.accepted for innovation in refused) >= 48


def test_an_accelerometer_that_lies_leaves_its_gyro_and_the_others() -> None:
    """A bias of 0.3 m/s^2, thirty standard deviations: refused at rest, its gyro used; nothing is widened by it."""
    recording = Recording(20, 3)
    lying = [
        replace(m, value=m.value + np.array([0.0, 0.0, 0.0, 0.3, 0.0, 0.0])) if m.sensor == "imu/link_1" else m
        for m in recording.messages
    ]
    steps = filtered(lying, given())
    refused = [
        step.innovation for step, m in zip(steps, lying, strict=True) if m.sensor == "imu/link_1" and step.innovation
    ]
    assert len(refused) == 19
    assert not any(innovation.accepted for innovation in refused)
    last = [step.estimate for step in steps if step.estimate][-1]
    assert np.sqrt(last.covariance[3, 3]) < 1.5e-3
    assert np.abs(last.mean[6:9] - given().mean[6:9]).max() < 0.01
    assert worst_sigma(steps, recording) < 4.5
    assert notices(steps) == []


def test_a_filter_that_all_imus_contradict_recovers() -> None:
    """Started with rates that are wrong, and sure of them: refused at first, then the covariance is inflated."""
    recording, start = Recording(100, 4), given()
    start.mean[3:6] += 3.0
    start.covariance[3:6, 3:6] = 1e-8 * np.eye(3)
    steps = filtered(recording.messages, start)
    assert any(step.innovation is not None and step.innovation.inflation > 1.0 for step in steps)
    final = steps[-1].estimate
    assert final is not None
    assert np.abs(final.mean[3:6] - recording.truth[final.stamp_ns][3:6]).max() < 0.01


def test_parameters_without_variance_are_held() -> None:
    recording, start = Recording(60, 5), given()
    for row in (6, 7, 9, 10, 11):  # two masses, all inertias
        start.covariance[row] = start.covariance[:, row] = 0.0
    steps = filtered(recording.messages, start)
    final = steps[-1].estimate
    assert final is not None
    held = [6, 7, 9, 10, 11]
    np.testing.assert_allclose(final.mean[held], start.mean[held], rtol=1e-14)
    assert (final.covariance[held] == 0.0).all()
    assert 0.0 < final.covariance[8, 8] < 0.1 * start.covariance[8, 8]
    assert worst_sigma(steps, recording) < 4.5


def test_dead_reckoning_grows_uncertain() -> None:
    steps = filtered(Recording(100, 6).messages, given())
    estimates = [step.estimate for step in steps if step.estimate]
    place = [np.sqrt(estimate.covariance[12, 12]) for estimate in estimates]
    assert place[-1] > place[50] > place[0]


def test_masses_that_are_not_positive_are_refused() -> None:
    start = given()
    start.mean[7] = 0.0
    with pytest.raises(UserError, match="mass of link 2: 0 kg"):
        PaperEstimator(CONFIGURATION).start(start)


def test_stamps_are_learned() -> None:
    groups = StampGroups.start(3).with_sensor(0, 10).with_sensor(1, 10)
    assert not groups.is_whole
    assert groups.is_over(20)
    groups = groups.with_sensor(0, 20)
    assert not groups.is_whole  # the second came with it the last time
    groups = groups.with_sensor(1, 20)
    assert groups.is_whole
    groups = groups.with_sensor(2, 20)  # late, but of the same instant
    assert groups.is_whole
    groups = groups.with_sensor(1, 30).with_sensor(0, 30)
    assert not groups.is_whole
    assert groups.with_sensor(2, 30).is_whole
    alone = StampGroups.start(2).with_sensor(0, 1).with_sensor(1, 2).with_sensor(0, 3)
    assert alone.is_whole
    assert alone.with_sensor(1, 4).is_whole


def test_the_paper_s_case_comes_out_as_the_issue_asks() -> None:
    """A hundred seeds of the paper's own model; and the prior is not what comes out."""
    runs = run_case(Case(), 100)
    assert runs.failed == 0
    assert figures.root_mean_square(runs.error[:, AT_089, 6:9]) <= figures.ANGLE_RAD
    assert figures.root_mean_square(runs.mass_error_kg[:, AT_089]) <= figures.MASS_KG
    assert figures.root_mean_square(runs.inertia_error_kg_m2[:, AT_089]) <= figures.INERTIA_KG_M2
    assert figures.root_mean_square(runs.mass_error_kg[:, 0]) > 0.08


@pytest.mark.parametrize("case", [Case(matched=True), Case("physical", matched=True, off=1)], ids=str)
def test_with_matched_noise_the_filter_is_consistent_at_each_instant(case: Case) -> None:
    """The first pulse included, where a correction that is not iterated has a NEES of 50. 60 runs: 12 +- 0.63."""
    runs = run_case(case, 60)
    least, most = figures.nees_range(runs)
    assert least > 9.5
    assert most < 14.5
    one, three = figures.covered(runs)
    assert 0.6 < one < 0.8
    assert three > 0.985


def test_the_heading_of_physical_readings_stays_unknown_and_relative_headings_do_not() -> None:
    runs = run_case(Case("physical"), 30)
    assert (runs.mean_heading_stddev_rad[:, AT_089] > runs.mean_heading_stddev_rad[:, 0]).all()
    assert figures.converged(runs) == 30


@pytest.mark.parametrize("check", checks(ROBOT, estimator="paper_ukf"), ids=str)
def test_contract(check: Check) -> None:
    check()


@pytest.mark.parametrize("variant", ["physical", "paper"])
def test_simulated_runs_are_judged_well(variant: str) -> None:
    """The robot's own simulator, through the pipeline, by the model of the IMUs that the scenario has."""
    configuration = replace(CONFIGURATION, imu_model=variant)
    recording = simulated_recording(ROBOT, configuration, "thrusters", variant, 3.0, 3)
    result = judge(ROBOT, configuration, "paper_ukf", recording)
    headings, masses, inertias = (result.parts[name] for name in ("headings", "masses", "inertias"))
    between = np.diff(headings.error[-1])
    assert np.abs(between).max() < 0.03
    assert np.abs(masses.error[-1]).max() < 0.03
    for part in (headings, masses, inertias):
        assert np.nanmean(np.abs(part.error) < 3.0 * part.stddev) > 0.95
