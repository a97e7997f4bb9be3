"""How much less sure a model must be taken for the filter to be as sure as it should be.

A regression knows the spread between robots from as many as it was given, perhaps two for each gait, and nothing of the
filter's own approximations (parameters that enter as products are carried to first order). So the filter itself is run
on robots that were held out, from drawn initial errors, and all standard deviations of the model are multiplied by the
factor at which its NEES of the joint angles is what it should be. Only training runs are used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.evaluation.recording import LoadedRecording
from onboard_estimation.filtering.planar import planar_pose
from onboard_estimation.filtering.square_root import covariance_root
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Estimate, Measurement
from onboard_estimation.pipeline import Pipeline
from salp_estimation.chain_estimator import COMMAND
from salp_estimation.configuration import SalpConfiguration
from salp_estimation.residual_estimator import ResidualEstimator, initial_covariance
from salp_estimation.residual_model import ResidualModel

Rows = NDArray[np.float64]
Stamps = NDArray[np.int64]
Progress = Callable[[float, str], None]

RATE_HZ = 20.0
LARGEST_FACTOR = 4.0
_SETTLE_S = 6.0
_MOST_LINK_RUNS = 75  # links times runs
_COMMANDS_HZ = 50.0
_SEED = 20260103


@dataclass(frozen=True, eq=False)
class HeldOut:
    """A run that a model has not seen: its recording, the model, and what draws its initial error."""

    recording: LoadedRecording
    model: ResidualModel
    seed: int


def inflated(model: ResidualModel, factor: float) -> ResidualModel:
    """The model with standard deviations of so many times their size: of residuals, of forces and between robots."""
    old = model.population
    population = replace(
        old,
        spreads=factor * old.spreads,
        residual_stddevs=factor * old.residual_stddevs,
        force_stddevs=factor * old.force_stddevs,
    )
    return replace(model, population=population)


def inflation(
    configuration: SalpConfiguration, held_out: Sequence[HeldOut], progress: Progress = lambda share, text: None
) -> float:
    """The factor, from 1 to LARGEST_FACTOR, at which the mean NEES of the joint angles is their number.

    1 where none of the runs is long enough to tell. Two factors are tried, the third follows from the power law
    between them, a fourth from the nearest two.
    """
    most = max(2, _MOST_LINK_RUNS // len(configuration.chain.link_names))
    chosen = [held_out[round(k)] for k in np.linspace(0, len(held_out) - 1, min(most, len(held_out)))]
    tried: list[tuple[float, float]] = []
    factor = 1.0
    for number in range(4):
        values = []
        for k, one in enumerate(chosen):
            progress((number + k / len(chosen)) / 4.0, f"is the filter as sure as it should be? factor {factor:.2f}")
            values.append(_mean_nees(configuration, inflated(one.model, factor), one))
        known = np.array([value for value in values if np.isfinite(value)])
        if not len(known):
            return 1.0
        tried.append((np.log(factor), float(np.log(known.mean()))))
        if number == 0:
            if known.mean() <= 1.0:
                return 1.0
            factor = 2.0
            continue
        (a, at_a), (b, at_b) = sorted(tried, key=lambda one: abs(one[1]))[:2]
        if abs(at_a) < 0.05 or abs(at_b - at_a) < 1e-6:
            return float(np.exp(a))
        wanted = a - at_a * (b - a) / (at_b - at_a)
        factor = float(np.exp(np.clip(wanted, 0.0, np.log(LARGEST_FACTOR))))
        if any(abs(np.log(factor) - one[0]) < 0.02 for one in tried):
            break
    return factor


def _mean_nees(configuration: SalpConfiguration, model: ResidualModel, one: HeldOut) -> float:
    """Mean NEES of the joint angles per angle over a run, its start left out; NaN for one that is too short."""
    names, recording = configuration.chain.link_names, one.recording
    stamps, measurements = _thinned(recording)
    at = stamps[:: max(1, len(stamps) // 2000)]
    links, valid = [], np.ones(len(at), dtype=np.bool_)
    for name in names:
        values, good = recording.tracks[name].at(at, 0.1)
        links.append(planar_pose(values))
        valid &= good
    if valid.sum() < 20:
        return np.nan
    states = configuration.chain.build().state_from_links(np.stack(links, axis=1)[valid])
    true_ns = at[valid]
    n = len(names)
    covariance = initial_covariance(configuration)
    error = covariance_root(covariance) @ np.random.default_rng(one.seed + _SEED).normal(size=len(covariance))
    error[n + 2 :] = 0.0
    estimator = ResidualEstimator(configuration, model)
    mean = estimator.space.plus(np.concatenate([states[0], np.zeros(n)]), error)
    initial = Estimate(int(true_ns[0]), mean, covariance)
    channels = [one.channel for one in recording.series]
    record = Pipeline(estimator, channels, initial, configuration.lag_s).run(measurements)
    known = {int(stamp): state for stamp, state in zip(true_ns, states, strict=True)}
    start_ns = int(true_ns[0]) + round(_SETTLE_S * NANOSECONDS_PER_SECOND)
    joints = estimator.space.tangent("joint_angles")
    noise = 2.0 * np.deg2rad(configuration.truth.heading_stddev_deg) ** 2 * np.eye(n - 1)
    found = []
    for estimate in record:
        if estimate.stamp_ns >= start_ns and estimate.stamp_ns in known:
            missed = estimate.mean[joints] - known[estimate.stamp_ns][3:]
            missed = np.arctan2(np.sin(missed), np.cos(missed))
            found.append(missed @ np.linalg.solve(estimate.covariance[joints, joints] + noise, missed) / (n - 1))
    return float(np.mean(found)) if len(found) >= 20 else np.nan


def _thinned(recording: LoadedRecording) -> tuple[Stamps, list[Measurement]]:
    """Measurements in the order of their stamps, no more often than is needed, and the gyros' stamps."""
    kept: list[Measurement] = []
    gyros: list[Stamps] = []
    for one in recording.series:
        sensor = one.channel.sensor
        if sensor != COMMAND and not sensor.startswith("imu/"):
            continue
        rate_hz = _COMMANDS_HZ if sensor == COMMAND else RATE_HZ
        order = np.argsort(one.stamps_ns, kind="stable")
        stamps = one.stamps_ns[order]
        slots = (stamps - stamps[0]) // round(NANOSECONDS_PER_SECOND / rate_hz)
        first = np.flatnonzero(np.diff(slots, prepend=-1))
        kept += [Measurement(int(stamps[k]), sensor, one.values[order[k]]) for k in first]
        if sensor != COMMAND:
            gyros.append(stamps[first])
    kept.sort(key=lambda measurement: (measurement.stamp_ns, measurement.sensor != COMMAND))
    return np.unique(np.concatenate(gyros)), kept
