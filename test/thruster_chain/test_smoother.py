"""Smoother of `robust` on runs of simulated hardware: nearer and as honest, wherever measurements come from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from evaluation_samples import command, refusal
from numpy.typing import NDArray

from benchmarks.thruster_chain.unknown import laboratory
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Estimate, Measurement
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.judging.replay import EstimateSeries
from onboard_estimation.judging.simulated_bags import simulated_recording
from onboard_estimation.pipeline.pipeline import Pipeline
from thruster_chain_estimation.estimators import robust_smoother
from thruster_chain_estimation.estimators.robust_smoother import SmootherState
from thruster_chain_estimation.model.space import published_space
from thruster_chain_estimation.robot import ROBOT

Array = NDArray[np.float64]

CONFIGURATION = laboratory(3)
CHANNELS = ROBOT.channels(CONFIGURATION)
SPACE = published_space(CONFIGURATION)
HEADINGS = SPACE.tangent("headings")


def pipeline(smooth: bool, initial: Estimate | None = None) -> Pipeline:
    estimator = ROBOT.smoother(CONFIGURATION, "robust") if smooth else ROBOT.estimator(CONFIGURATION, "robust")
    return Pipeline(estimator, CHANNELS, initial)


def smoothed(measurements: list[Measurement]) -> list[Estimate]:
    found = pipeline(smooth=True)
    found.run(measurements)
    return found.smoothed()


def errors(record: EstimateSeries, truth: Mapping[str, Array]) -> dict[str, Array]:
    """(K, ...) of headings, joint angles, position and, relative, masses and inertias; and all in deviations."""
    error = {name: record.means[:, SPACE.coordinates(name)] - true for name, true in truth.items()}
    error["headings"] = (error["headings"] + np.pi) % (2.0 * np.pi) - np.pi
    stddev = np.sqrt(np.diagonal(record.covariances, axis1=1, axis2=2))
    sigmas = np.hstack([error[name] / stddev[:, SPACE.tangent(name)] for name in truth])
    parameters = np.hstack([error[name] / truth[name] for name in ("masses", "inertias")])
    return error | {"joints": np.diff(error["headings"], axis=1), "parameters": parameters, "sigmas": sigmas}


def rms(errors: Array) -> float:
    return float(np.sqrt(np.mean(errors**2)))


def true_parts(loaded: LoadedRecording, at_ns: NDArray[np.int64]) -> dict[str, Array]:
    bodies = {name: track.at(at_ns, np.inf)[0] for name, track in loaded.tracks.items()}
    return ROBOT.true_parts(CONFIGURATION, bodies | {name: one.at(at_ns) for name, one in loaded.held.items()})


@pytest.fixture(scope="module")
def heard() -> list[Measurement]:
    """A run of 8 s, the first one and a half of it at rest."""
    return list(simulated_recording(ROBOT, CONFIGURATION, "hardware", "mixed", 8.0, 31).measurements())


@pytest.fixture(scope="module")
def measurements(heard: list[Measurement]) -> list[Measurement]:
    """Its first three seconds."""
    return [one for one in heard if one.stamp_ns < heard[0].stamp_ns + 3_000_000_000]


@pytest.fixture(scope="module")
def plain(measurements: list[Measurement]) -> list[Estimate]:
    """Those measurements smoothed as they are."""
    return smoothed(measurements)


def assert_equal(found: list[Estimate], expected: list[Estimate]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.stamp_ns == other.stamp_ns
        np.testing.assert_array_equal(one.mean, other.mean)
        np.testing.assert_array_equal(one.covariance, other.covariance)


def test_a_smoothed_run_is_nearer_and_as_honest() -> None:
    """But for what the filter's clocks were worth at the time it is nowhere less sure of headings than the filter."""
    loaded = simulated_recording(ROBOT, CONFIGURATION, "hardware", "mixed", 12.0, 17)
    start_ns = max(int(track.stamps_ns[0]) for track in loaded.tracks.values())
    mean, first = SPACE.origin(), true_parts(loaded, np.array([start_ns]))
    for name in ("headings", "position"):
        mean[SPACE.coordinates(name)] = first[name][0]
    mean[SPACE.coordinates("masses")] = CONFIGURATION.chain.masses
    mean[SPACE.coordinates("inertias")] = CONFIGURATION.chain.inertias
    run = pipeline(True, Estimate(start_ns, mean, ROBOT.initial_covariance(CONFIGURATION)))
    filtered, found = EstimateSeries.of(run.run(loaded.measurements())), EstimateSeries.of(run.smoothed())
    np.testing.assert_array_equal(found.stamps_ns, filtered.stamps_ns)
    np.testing.assert_array_equal(found.means[-1], filtered.means[-1])
    np.testing.assert_array_equal(found.covariances[-1], filtered.covariances[-1])
    np.testing.assert_allclose(found.covariances, found.covariances.transpose(0, 2, 1), rtol=0.0, atol=1e-15)
    assert (np.linalg.eigvalsh(found.covariances)[:, 0] > 0.0).all()
    less = (filtered.covariances - found.covariances)[:, HEADINGS, HEADINGS]
    assert np.linalg.eigvalsh(less)[:, 0].min() > -1e-5
    truth = true_parts(loaded, filtered.stamps_ns)
    ours, filters = errors(found, truth), errors(filtered, truth)
    for what, at_most in (("headings", 0.8), ("joints", 0.8), ("position", 1.0), ("parameters", 1.0)):
        assert rms(ours[what]) < at_most * rms(filters[what]), what
    assert np.mean(np.abs(ours["sigmas"]) < 3.0) >= 0.97


def test_late_measurements_are_smoothed_in_their_place(measurements: list[Measurement], plain: list[Estimate]) -> None:
    delays_ns = np.random.default_rng(0).choice([0, 0, 0, 60_000_000], len(measurements))
    order = np.argsort([one.stamp_ns + late for one, late in zip(measurements, delays_ns, strict=True)], kind="stable")
    found = pipeline(smooth=True)
    found.run([measurements[k] for k in order])
    assert sum(row["late"] for row in found.statistics().values()) > 100
    assert_equal(found.smoothed(), plain)


def test_how_often_a_state_is_kept_changes_nothing(
    measurements: list[Measurement], plain: list[Estimate], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is filtered once more is what was filtered, by the filter alone; a state is kept once a second."""
    monkeypatch.setattr(robust_smoother, "STRETCH_TICKS", 37)
    found = pipeline(smooth=True)
    assert_equal(found.run(measurements), pipeline(smooth=False).run(measurements))
    state: SmootherState = found.state
    assert len(state.past) == state.filtered.ticks // 37
    assert_equal(found.smoothed(), plain)


def test_a_reset_starts_a_new_interval(measurements: list[Measurement]) -> None:
    half = len(measurements) // 2
    found = pipeline(smooth=True)
    found.run(measurements[:half])
    found.reset()
    found.run(measurements[half:])
    assert_equal(found.smoothed(), [*smoothed(measurements[:half]), *smoothed(measurements[half:])])


def test_what_comes_after_a_long_gap_says_nothing_of_headings_before(heard: list[Measurement]) -> None:
    """They were lost in it."""
    first_ns = heard[0].stamp_ns
    heard = [one for one in heard if not 2.5 < (one.stamp_ns - first_ns) / 1e9 < 7.6]
    found = smoothed(heard)
    alone = smoothed([one for one in heard if one.stamp_ns < first_ns + 2_500_000_000])
    assert found[-1].stamp_ns > found[len(alone)].stamp_ns > first_ns + 7_600_000_000
    assert found[-1].covariance[0, 0] > 1.0
    for one, other in zip(found, alone, strict=False):
        assert one.stamp_ns == other.stamp_ns
        np.testing.assert_array_equal(one.mean[HEADINGS], other.mean[HEADINGS])
        np.testing.assert_array_equal(one.covariance[HEADINGS, HEADINGS], other.covariance[HEADINGS, HEADINGS])


def test_the_command_smooths(tmp_path: Path) -> None:
    bag = tmp_path / "bag"
    scenario = ("--scenario", "thrusters", "--seed", "3", "--duration", "2")
    assert command("simulate", "thruster_chain", *scenario, "--output", bag).code == 0
    outcome = command("evaluate", bag, "--smooth", "--output", tmp_path / "run", "--json")
    assert outcome.code == 0, outcome
    assert json.loads(outcome.out)["estimator"] == "robust, smoothed"
    message = refusal("evaluate", bag, "--estimator", "gyros", "--smooth", "--output", tmp_path / "other")
    assert "gyros has none" in message
    with pytest.raises(UserError, match="paper_ukf has none"):
        ROBOT.smoother(CONFIGURATION, "paper_ukf")
    assert not (tmp_path / "other").exists()
