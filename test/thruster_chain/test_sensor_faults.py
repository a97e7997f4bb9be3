"""Sensors that fail in the middle of a run: told, left out or learned anew, and the headings right or unsure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.thruster_chain.unknown import laboratory
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.result import EvaluationResult
from onboard_estimation.filtering.moments import correction, see
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.simulated_bags import simulated_recording
from thruster_chain_estimation.estimators.inertial_kernels import Chain, transform
from thruster_chain_estimation.estimators.jumps import JUMP, Corrected, Jumps, carried, corrected
from thruster_chain_estimation.estimators.loose_links import anchored, close_joint, pin_lever
from thruster_chain_estimation.model import inertial_layout as parts
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration
from thruster_chain_estimation.robot import ROBOT
from thruster_chain_estimation.simulation.simulator import ThrusterChainSimulation

Array = NDArray[np.float64]
COUNT = 4
SIZE = parts.chain_part(COUNT) + parts.CHAIN
GEOMETRY = Chain(np.full(COUNT, 0.125), np.linspace(-0.03, 0.02, 2 * COUNT).reshape(COUNT, 2))
AT_S = 13.3


def imu_velocities(mean: Array) -> Array:
    """(N, 2) by the chain's and the joints'."""
    joints = parts.LINK * COUNT + parts.JOINT * np.arange(COUNT - 1)[:, None] + np.arange(2)
    chain = parts.chain_part(COUNT)
    return mean[chain : chain + 2] - np.vstack([np.zeros((1, 2)), np.cumsum(mean[joints], axis=0)])


@pytest.mark.parametrize(("link", "anchor"), [(0, 1), (1, 2), (2, 1), (3, 2)])
def test_closing_a_joint_leaves_all_else_and_its_errors_go_as_its_means(link: int, anchor: int) -> None:
    rng = np.random.default_rng(link)
    mean, rates = rng.normal(0.0, 0.3, SIZE), rng.normal(0.0, 2.0, COUNT)

    def closed(start: Array, found: tuple[float, float] | None = None) -> tuple[Array, Array, Array]:
        after, covariance = start.copy(), np.eye(SIZE)
        closing = close_joint(after, covariance, GEOMETRY, rates, 0.0, (link, anchor), found)
        assert np.linalg.eigvalsh(covariance).min() > 0.0
        return after, closing.rows, closing.by

    after, rows, by = closed(mean)
    numeric = np.array([(closed(mean + step)[0] - closed(mean - step)[0])[rows] / 2e-6 for step in 1e-6 * np.eye(SIZE)])
    headings = parts.LINK * np.arange(COUNT) + parts.HEADING
    told = np.concatenate([headings, np.arange(parts.LINK * COUNT, SIZE)])  # places of IMUs are taken as they are
    np.testing.assert_allclose(by[:, told], numeric.T[:, told], atol=1e-6)
    for found in (None, (0.7, 0.1)):
        after, _, _ = closed(mean, found)
        before_m_s, after_m_s = imu_velocities(mean), imu_velocities(after)
        np.testing.assert_allclose(np.delete(after_m_s, link, 0), np.delete(before_m_s, link, 0), atol=1e-12)
        side = float(anchor - link)
        ends = [
            complex(*after_m_s[k]) + 1j * rates[k] * pin_lever(after, GEOMETRY, k, at)
            for k, at in ((link, side), (anchor, -side))
        ]
        assert ends[0] == pytest.approx(ends[1], abs=1e-12)


def test_loose_links_are_closed_from_the_tight_ones_outward() -> None:
    assert anchored(np.array([False, False, True, False])) == [(1, 2), (3, 2), (0, 1)]
    assert anchored(np.zeros(3, dtype=np.bool_)) == []


def test_a_jump_that_is_told_leaves_the_state_of_a_bias_that_was_free_from_its_onset_on() -> None:
    """Friedland's separate bias against the plain filter of a linear system, one of whose biases jumps."""
    rng, count = np.random.default_rng(2), 2
    n, bias = parts.chain_part(count) + parts.CHAIN, parts.LINK + parts.GYRO_BIAS
    entries = np.column_stack([rng.integers(0, n, 60), rng.integers(0, n, 60), 0.1 * rng.normal(size=60)])
    slopes, noise = rng.normal(size=(3, n)), 0.01 * np.eye(3)
    free = np.diag(np.eye(n)[bias] * JUMP[0] ** 2)
    covariances, means, jumps = [np.eye(n), np.eye(n) + free], [np.zeros(n)] * 2, Jumps.of(np.array([[bias]]), n)
    plain = np.eye(n)
    np.add.at(plain, tuple(entries[:, :2].astype(int).T), entries[:, 2])
    for _ in range(20):
        value = rng.normal(size=3)
        jumps = carried(jumps, entries)
        for k in range(2):
            moved = plain @ means[k]
            transform(covariances[k], entries)
            seen = see(covariances[k], value - slopes @ moved, slopes, noise)
            if k == 0:
                jumps = corrected(jumps, Corrected(slopes, seen, 1.0), True)
            change, covariances[k] = correction(covariances[k], seen)
            means[k] = moved + change
    variance = 1.0 / (jumps.information[0, 0, 0] + 1.0 / JUMP[0] ** 2)
    effect = jumps.effect[:, 0, 0]
    np.testing.assert_allclose(means[0] + effect * variance * jumps.score[0, 0], means[1], atol=1e-9)
    np.testing.assert_allclose(covariances[0] + variance * np.outer(effect, effect), covariances[1], atol=1e-9)


def changed(recording: LoadedRecording, sensor: str, kind: str) -> LoadedRecording:
    """A recording with a fault of a sensor from AT_S on."""
    series = []
    for one in recording.series:
        if one.channel.sensor == sensor:
            time_s, values = 1e-9 * (one.stamps_ns - recording.series[0].stamps_ns[0]), one.values.copy()
            if kind == "gyro":
                values[time_s > AT_S, 2] += 0.03
            elif kind == "stuck":
                values[(time_s > AT_S) & (time_s < AT_S + 5.0)] = values[np.argmax(time_s > AT_S)]
            one = replace(one, values=values)
            if kind == "silent":
                one = one.rows((time_s < AT_S) | (time_s > AT_S + 8.0))
        series.append(one)
    arrival = np.repeat(np.arange(len(series)), [len(one.stamps_ns) for one in series])
    order = np.argsort(np.concatenate([one.stamps_ns for one in series]), kind="stable")
    return replace(recording, series=tuple(series), arrival=arrival[order])


def covered(result: EvaluationResult, part: str) -> float:
    """Share of the errors of a part within 3 sigma after the fault, of the element where it is least."""
    late = result.time_s > AT_S
    sigmas = np.abs(result.parts[part].error[late] / result.parts[part].stddev[late])
    return float(np.nanmin(np.nanmean(np.where(np.isfinite(sigmas), sigmas < 3.0, np.nan), axis=0)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sensor", "kind", "sentence"),
    [
        ("imu/link_2", "gyro", "gyro of imu/link_2 reads"),
        ("imu/link_1", "silent", "link_1 is found again"),
        ("imu/link_3", "stuck", "imu/link_3 repeats one reading"),
        ("", "draught", ""),
    ],
)
def test_faults_in_the_middle_of_a_run_are_told_and_covered(
    sensor: str, kind: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    draughts = ThrusterChainSimulation._draughts

    def draughty(self: ThrusterChainSimulation, count: int) -> Array:
        """With 0.3 N on the second link for two seconds."""
        out, time_s = draughts(self, count), 1e-3 * (self._next + np.arange(count))
        out[(time_s > AT_S) & (time_s < AT_S + 2.0), 1, 0] += 0.3
        return out

    if kind == "draught":
        monkeypatch.setattr(ThrusterChainSimulation, "_draughts", draughty)
    configuration = laboratory(3)
    recording = simulated_recording(ROBOT, configuration, "hardware", "mixed", 26.0, 1012)
    result = judge(ROBOT, configuration, "robust", changed(recording, sensor, kind))
    assert any(sentence in note for note in result.notes), result.notes
    assert not any("asses changed" in note for note in result.notes), result.notes
    for part in ("headings", "masses", "inertias"):
        assert covered(result, part) > 0.97, part
    assert np.rad2deg(np.nanmax(np.abs(result.parts["headings"].error[result.time_s > 25.0]))) < 4.0


@pytest.mark.parametrize(("variant", "model"), [("paper", "physical"), ("physical", "paper")])
def test_a_bag_says_what_its_accelerometers_read_and_a_wrong_model_is_told(variant: str, model: str) -> None:
    plain = ThrusterChainConfiguration()
    assert ROBOT.known_in(plain, "thrusters", variant).imu_model == variant
    wrong = replace(plain, imu_model=model)
    result = judge(ROBOT, wrong, "paper_ukf", simulated_recording(ROBOT, plain, "thrusters", variant, 0.9, 6))
    assert any(f"try --set imu_model={variant}" in note for note in result.notes), result.notes
