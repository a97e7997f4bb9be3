"""The paper's filter as an estimator: gathering, silence, lies, held parameters."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Estimate, Measurement, Notice
from onboard_estimation.filtering.gating import Innovation
from onboard_estimation.pipeline.estimator import Step
from thruster_chain_estimation.estimators.paper_estimator import PaperEstimator
from thruster_chain_estimation.estimators.paper_filter import PaperFilter
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration
from thruster_chain_estimation.model.dynamics import propagate, read_imus
from thruster_chain_estimation.model.space import COMMAND

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
        rng, links, chain = np.random.default_rng(seed), PaperFilter(CONFIGURATION).links, CONFIGURATION.chain
        reciprocal = 1.0 / np.concatenate([chain.masses, chain.inertias])
        motion, thrust, last_ns = np.zeros((10, 1)), np.zeros(3), 0
        self.truth: dict[int, np.ndarray] = {}
        self.messages: list[Measurement] = []
        for k, offset in product(range(steps), sorted({0, *offsets_ns})):
            stamp_ns = k * PERIOD_NS + offset
            if stamp_ns > last_ns:
                given = np.concatenate([reciprocal, thrust])[:, None]
                propagate(links, given, motion, 1e-9 * (stamp_ns - last_ns), 1e-3)
                last_ns = stamp_ns
            self.truth[stamp_ns] = motion[:, 0].copy()
            if offset == 0:
                thrust = np.full(3, 1.0 if k >= 20 and (k - 20) % 30 < 10 else 0.0)
                self.messages.append(Measurement(stamp_ns, COMMAND, thrust))
            readings = np.empty((9, 1))
            read_imus(True, links, np.concatenate([reciprocal, thrust])[:, None], motion, readings)
            noisy = readings.reshape(3, 3) + rng.normal(size=(3, 3)) * [0.01, 0.01, 0.001]
            for name, own, (ax, ay, rate) in zip(NAMES, offsets_ns, noisy, strict=True):
                if own == offset:
                    value = np.array([0.0, 0.0, rate, ax, ay, 9.8])
                    self.messages.append(Measurement(stamp_ns, f"imu/{name}", value))

    def lying(self, added: list[float], from_ns: int = 0) -> list[Measurement]:
        """The messages, with something added to what the IMU of link 1 reads."""
        return [
            replace(one, value=one.value + added) if one.sensor == "imu/link_1" and one.stamp_ns >= from_ns else one
            for one in self.messages
        ]


def given() -> Estimate:
    """A start with Table III's deviations, the first heading well known."""
    mean, covariance = PaperFilter(CONFIGURATION).published(PaperEstimator(CONFIGURATION).start(None).moments)
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


def estimates(steps: list[Step]) -> list[Estimate]:
    return [step.estimate for step in steps if step.estimate is not None]


def of_link_1(steps: list[Step], messages: list[Measurement]) -> list[Innovation]:
    pairs = zip(steps, messages, strict=True)
    return [step.innovation for step, one in pairs if one.sensor == "imu/link_1" and step.innovation is not None]


def worst_sigma(steps: list[Step], recording: Recording) -> float:
    """Largest error of headings, rates, place and velocity in its standard deviation."""
    largest, moving = 0.0, np.r_[0:6, 12:16]
    for estimate in estimates(steps):
        error = estimate.mean[moving] - recording.truth[estimate.stamp_ns]
        error[:3] = (error[:3] + np.pi) % (2.0 * np.pi) - np.pi
        largest = max(largest, np.abs(error / np.sqrt(np.diag(estimate.covariance))[moving]).max())
    return largest


def test_links_with_stamps_of_their_own_are_used_one_by_one() -> None:
    recording = Recording(100, 1, (1_000_000, 4_000_000, 7_000_000))
    steps = filtered(recording.messages, given())
    # The first three messages wait for each other in vain; then each has an estimate at its own stamp.
    pairs = zip(steps, recording.messages, strict=True)
    told = [step.estimate is not None for step, message in pairs if "imu" in message.sensor]
    assert told == [False] * 3 + [True] * 297
    assert worst_sigma(steps, recording) < 4.5
    final = estimates(steps)[-1]
    assert np.abs(final.mean[6:9] - 0.5).max() < 0.05


def test_a_silent_imu_is_told_of_once_and_the_others_go_on() -> None:
    """The second falls silent before the pushes end; it comes back later."""
    recording = Recording(260, 2)
    kept = [m for m in recording.messages if m.sensor != "imu/link_2" or not 85 <= m.stamp_ns // PERIOD_NS < 230]
    steps = filtered(kept, given())
    found, over = notices(steps)
    assert found.startswith("imu/link_2 is silent")
    assert "(at 1.8" in found
    assert over.startswith("imu/link_2 is as it should be again")
    assert worst_sigma(steps, recording) < 4.5
    deviation = {one.stamp_ns // PERIOD_NS: np.sqrt(np.diag(one.covariance)) for one in estimates(steps)}
    # Nothing is missing but at the stamp where the two others waited.
    assert set(range(260)) - set(deviation) == {85}
    rates = np.array([deviation[k][3:6] for k in (84, 200, 259)])
    assert rates[1, 1] > 3.0 * rates[0, 1]
    assert rates[1, 0] < 1.1 * rates[0, 0]
    assert rates[2, 1] < 1.1 * rates[0, 1]


def test_an_imu_that_contradicts_the_others_is_refused_and_told_of() -> None:
    recording = Recording(100, 3)
    lying = recording.lying([0.0, 0.0, 2.0, 0.0, 0.0, 0.0], 50 * PERIOD_NS)
    steps = filtered(lying, given())
    assert worst_sigma(steps, recording) < 4.5
    (found,) = notices(steps)
    assert found.startswith("20 turning rates in a row of imu/link_1, at 0.69")
    assert sum(not innovation.accepted for innovation in of_link_1(steps, lying)) >= 48


def test_an_accelerometer_that_lies_leaves_its_gyro_and_the_others() -> None:
    """A bias of 0.3 m/s^2, thirty standard deviations: refused at rest, its gyro used; nothing is widened by it."""
    recording = Recording(20, 3)
    lying = recording.lying([0.0, 0.0, 0.0, 0.3, 0.0, 0.0])
    steps = filtered(lying, given())
    refused, last = of_link_1(steps, lying), estimates(steps)[-1]
    assert len(refused) == 19
    assert not any(innovation.accepted for innovation in refused)
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
    final = estimates(steps)[-1]
    assert np.abs(final.mean[3:6] - recording.truth[final.stamp_ns][3:6]).max() < 0.01


def test_parameters_without_variance_are_held() -> None:
    recording, start, held = Recording(60, 5), given(), [6, 7, 9, 10, 11]  # two masses, all inertias
    start.covariance[held] = start.covariance[:, held] = 0.0
    steps = filtered(recording.messages, start)
    final = estimates(steps)[-1]
    np.testing.assert_allclose(final.mean[held], start.mean[held], rtol=1e-14)
    assert (final.covariance[held] == 0.0).all()
    assert 0.0 < final.covariance[8, 8] < 0.1 * start.covariance[8, 8]
    assert worst_sigma(steps, recording) < 4.5
    start.mean[7] = 0.0
    with pytest.raises(UserError, match="mass of link 2: 0 kg"):
        PaperEstimator(CONFIGURATION).start(start)
