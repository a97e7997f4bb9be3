"""How much less sure than a filter with a model says it may be taken to be, by runs that its model has not seen.

A regression knows the spread between robots from as many as it was given, perhaps two for each gait, and nothing of
the filter's own approximations, nor of what the model's form leaves out and repeats with each cycle of a gait. So the
filter itself is run on runs that were held out, from drawn initial errors, and the standard deviations of the joint
angles that it publishes are multiplied by the factor that their errors ask for. What it weighs inside stays as it is:
with larger spreads or residuals it would also learn less, and be further off. Only training runs are used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Estimate, Matrix, Measurement, Vector
from onboard_estimation.base.workers import all_of
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.filtering.planar import planar_pose
from onboard_estimation.filtering.square_root import covariance_root
from onboard_estimation.pipeline.pipeline import Pipeline
from salp_estimation.estimators.chain_estimator import COMMAND
from salp_estimation.estimators.residual_estimator import FilterState, ResidualEstimator, initial_covariance
from salp_estimation.estimators.residual_model import ResidualModel
from salp_estimation.model.configuration import SalpConfiguration

Rows = NDArray[np.float64]
Stamps = NDArray[np.int64]
Progress = Callable[[float, str], None]

RATE_HZ = 20.0
LARGE_FACTOR = 3.0
"""Errors three times as large as stated: the model's form is not the robot's."""
UNJUDGED_FACTOR = 4.5
"""Where no runs could be held out: what five runs of one day, each of another gait, asked for at most (`unknown_salp`,
docs/salp.md)."""
_SETTLE_S = 6.0
_MOST_LINK_RUNS = 75  # links times runs
_COMMANDS_HZ = 50.0
_SEED = 20260103
_COVERED = 0.985
"""Of the errors of held-out runs, within three standard deviations."""


@dataclass(frozen=True, eq=False)
class HeldOut:
    """A run that a model has not seen: its recording, the model, and what draws its initial error."""

    label: str
    recording: LoadedRecording
    model: ResidualModel
    seed: int


@dataclass(frozen=True, eq=False)
class HeldOutErrors:
    """Of the joint angles of a run that the model had not seen, its start left out.

    Attributes
    ----------
    errors_rad, ratios
        (K, N - 1): errors, and these over the standard deviations stated by the filter.
    nees
        (K,) per joint angle.
    """

    label: str
    errors_rad: Rows
    ratios: Rows
    nees: Rows

    @property
    def rms_deg(self) -> float:
        """Of all joint angles."""
        return float(np.rad2deg(np.sqrt(np.mean(self.errors_rad**2))))


def held_out_errors(
    configuration: SalpConfiguration, held_out: Sequence[HeldOut], progress: Progress = lambda share, text: None
) -> list[HeldOutErrors]:
    """Those of runs that are long enough to tell; of many runs some, from the first to the last."""
    most = max(2, _MOST_LINK_RUNS // len(configuration.chain.link_names))
    chosen = [held_out[round(k)] for k in np.linspace(0, len(held_out) - 1, min(most, len(held_out)))]

    def done(count: int) -> None:
        progress(count / len(chosen), f"is the filter as sure as it should be? run {count + 1} of {len(chosen)}")

    done(0)
    found = all_of(partial(_errors, configuration), chosen, lambda count: done(min(count, len(chosen) - 1)))
    return [one for one in found if one is not None]


def inflation(judged: Sequence[HeldOutErrors]) -> float:
    """What standard deviations are to be multiplied by; at least 1, and a lot where less than two runs can tell.

    With it the mean NEES of the held-out runs is the number of joint angles, and `_COVERED` of their errors lie within
    three standard deviations. Of n runs the mean is not that of all the others to come: as of a variance that n samples
    tell, (n + 1) / (n - 1) more is allowed for.
    """
    count = len(judged)
    if count < 2:
        return UNJUDGED_FACTOR
    mean = float(np.mean([one.nees.mean() for one in judged]))
    ratios = np.abs(np.concatenate([one.ratios.ravel() for one in judged]))
    square = max(mean, (float(np.quantile(ratios, _COVERED)) / 3.0) ** 2) * (count + 1.0) / (count - 1.0)
    return max(1.0, float(np.sqrt(square)))


class _AsStated(ResidualEstimator):
    """The filter, which nothing makes less sure than it is."""

    def published(self, filtered: FilterState) -> tuple[Vector, Matrix]:
        return self.stated(filtered)


def _errors(configuration: SalpConfiguration, one: HeldOut) -> HeldOutErrors | None:
    """None for a run that is too short."""
    names, recording = configuration.chain.link_names, one.recording
    stamps, measurements = _thinned(recording)
    at = stamps[:: max(1, len(stamps) // 2000)]
    links, valid = [], np.ones(len(at), dtype=np.bool_)
    for name in names:
        values, good = recording.tracks[name].at(at, 0.1)
        links.append(planar_pose(values))
        valid &= good
    if valid.sum() < 20:
        return None
    states = configuration.chain.build().state_from_links(np.stack(links, axis=1)[valid])
    true_ns = at[valid]
    n = len(names)
    covariance = initial_covariance(configuration)
    error = covariance_root(covariance) @ np.random.default_rng(one.seed + _SEED).normal(size=len(covariance))
    error[n + 2 :] = 0.0
    estimator = _AsStated(configuration, one.model)
    mean = estimator.space.plus(np.concatenate([states[0], np.zeros(n)]), error)
    initial = Estimate(int(true_ns[0]), mean, covariance)
    channels = [series.channel for series in recording.series]
    record = Pipeline(estimator, channels, initial, configuration.lag_s).run(measurements)
    known = {int(stamp): state for stamp, state in zip(true_ns, states, strict=True)}
    start_ns = int(true_ns[0]) + round(_SETTLE_S * NANOSECONDS_PER_SECOND)
    joints = estimator.space.tangent("joint_angles")
    noise = 2.0 * np.deg2rad(configuration.truth.heading_stddev_deg) ** 2 * np.eye(n - 1)
    errors, ratios, nees = [], [], []
    for estimate in record:
        if estimate.stamp_ns >= start_ns and estimate.stamp_ns in known:
            missed = estimate.mean[joints] - known[estimate.stamp_ns][3:]
            missed = np.arctan2(np.sin(missed), np.cos(missed))
            spread = estimate.covariance[joints, joints] + noise
            errors.append(missed)
            ratios.append(missed / np.sqrt(np.diag(spread)))
            nees.append(missed @ np.linalg.solve(spread, missed) / (n - 1))
    if len(errors) < 20:
        return None
    return HeldOutErrors(one.label, np.array(errors), np.array(ratios), np.array(nees))


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
