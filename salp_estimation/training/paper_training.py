"""Training of the paper's own filter (sections IV and V-B): D_f and D_h at 5 Hz, and eight exact Gaussian processes.

Motion capture and gyros are taken as they are, unfiltered, at 5 Hz. Hyper-parameters are those of the greatest
marginal likelihood, after 30 iterations at most, as the paper allows `fitrgp`; of more than 2000 points `fitrgp` by
default takes 1000 for that (here evenly spaced) and predicts with all. Samples of a robot that stands teach nothing,
and more than 2250 points are thinned to as many.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, lapack
from scipy.optimize import minimize

from onboard_estimation.base.errors import UserError, said_of
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Vector
from onboard_estimation.base.presentation import display_unit
from onboard_estimation.base.workers import all_of
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.trained import ReportTable
from onboard_estimation.filtering.planar import planar_pose
from salp_estimation.estimators.chain_estimator import COMMAND, STANDING_M_S
from salp_estimation.estimators.paper_filter import (
    FRESH_S,
    PERIOD_NS,
    RATE_HZ,
    PaperModel,
    moments,
    squared_distances,
)
from salp_estimation.estimators.residual_model import header_of
from salp_estimation.model.chain import Chain
from salp_estimation.model.configuration import PAPER, SalpConfiguration
from salp_estimation.training.motion import Stamps
from salp_estimation.training.runs import gyro_rates, in_force, rim_speeds

Rows = NDArray[np.float64]

MOST_POINTS, ITERATIONS = 2250, 30
ALL_UP_TO, ACTIVE = 2000, 1000
"""Hyper-parameters come from all points up to so many, else from so many of them."""
START = 1.0, 1.0, 0.1
"""Signal variance, length and noise variance, standardised, at the start of the search."""
BOUNDS = 1e-5, 1e5
FEWEST_POINTS = 200


class Sampled(NamedTuple):
    """A recording of a chain of N links at K instants of the filter, from the first command on.

    States (K, N + 2), NaN where unknown; rim speeds in force (K, N), m/s; gyros (K, N), rad/s, NaN where unknown.
    """

    states: Rows
    controls: Rows
    gyros: Rows


def sampled(configuration: SalpConfiguration, recording: LoadedRecording, period_ns: int = PERIOD_NS) -> Sampled:
    """A recording with commands, gyros and motion capture of all links; UserError where one lacks."""
    chain, series = configuration.chain, {one.channel.sensor: one for one in recording.series}
    wanted = [COMMAND, *(f"imu/{name}" for name in chain.link_names)]
    missing = [name for name in wanted if name not in series or len(series[name].stamps_ns) < 2]
    if missing := [*missing, *(name for name in chain.link_names if name not in recording.tracks)]:
        raise UserError(f"training needs {', '.join(missing)}, which it does not hold")
    commanded_ns, speeds = rim_speeds(chain, series[COMMAND])
    at_ns = np.arange(commanded_ns[0], commanded_ns[-1], period_ns)
    links = [gyro_rates(configuration, series[f"imu/{name}"]) for name in chain.link_names]
    gyros = np.column_stack([_last(*one, at_ns) for one in links])
    poses, known = zip(*(recording.tracks[name].at(at_ns, FRESH_S) for name in chain.link_names), strict=True)
    states = chain.build().state_from_links(np.stack([planar_pose(one) for one in poses], axis=1))
    states[~np.all(known, axis=0)] = np.nan
    return Sampled(states, in_force(commanded_ns, speeds, at_ns), gyros)


def _last(stamps_ns: Stamps, values: Vector, at_ns: Stamps) -> Vector:
    """(K,) last one until then, NaN where there is none that is fresh."""
    last = np.searchsorted(stamps_ns, at_ns, side="right") - 1
    fresh = (last >= 0) & (at_ns - stamps_ns[last] < FRESH_S * NANOSECONDS_PER_SECOND)
    return np.where(fresh, values[last], np.nan)


def increments(states: Rows) -> Rows:
    """(K - 1, N + 2) between neighbouring states (K, N + 2); of the pose in the body frame, half turned."""
    step = np.diff(states, axis=0)
    turn = np.arctan2(np.sin(step[:, 2]), np.cos(step[:, 2]))
    middle = states[:-1, 2] + 0.5 * turn
    forward = np.cos(middle) * step[:, 0] + np.sin(middle) * step[:, 1]
    left = np.cos(middle) * step[:, 1] - np.sin(middle) * step[:, 0]
    return np.column_stack([forward, left, turn, step[:, 3:]])


def residuals(chain: Chain, one: Sampled, period_s: float = 1.0 / RATE_HZ) -> tuple[Rows, Rows]:
    """Inputs (K - 1, 2 N - 1) and residuals (K - 1, 2 N + 2), D_f and D_h; NaN where one is not known."""
    inputs = np.hstack([one.states[:, 3:], one.controls])[:-1]
    n = chain.link_count
    f, h = np.empty((len(inputs), n + 2)), np.empty((len(inputs), n))
    for k, row in enumerate(inputs):
        f[k], h[k] = chain.velocity(row[: n - 1], row[n - 1 :]), chain.gyro_rates(row[: n - 1], row[n - 1 :])
    return inputs, np.hstack([increments(one.states) - period_s * f, one.gyros[:-1] - h])


def driving(inputs: Rows, targets: Rows, links: int) -> NDArray[np.bool_]:
    """(K,) where all is known and a wheel is told to turn."""
    known = np.isfinite(inputs).all(axis=1) & np.isfinite(targets).all(axis=1)
    return np.asarray(known & (np.abs(inputs[:, links - 1 :]).max(axis=1) > STANDING_M_S), dtype=np.bool_)


# Hyper-parameters.


def likelihood(logarithms: Vector, distances: Rows, target: Vector) -> tuple[float, Vector]:
    """Negative log marginal likelihood of a standardised target (n,), and its slopes (3,).

    Parameters
    ----------
    logarithms
        (3,) of signal variance, length and noise variance.
    distances
        (n, n) squared, of standardised inputs.
    """
    signal, length, noise = np.exp(logarithms)
    kernel = signal * np.exp(-0.5 / length**2 * distances)
    covariance = kernel.copy()
    covariance[np.diag_indices_from(covariance)] += noise
    try:
        factor = cholesky(covariance.T, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return np.inf, np.zeros(3)
    weights, _ = lapack.dpotrs(factor, target, lower=1)
    value = 0.5 * target @ weights + np.log(np.diag(factor)).sum() + 0.5 * len(target) * np.log(2.0 * np.pi)
    inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)  # its lower half
    # tr((K^-1 - w w^T) dK) / 2, of which the halves are alike.
    diagonal = np.diag(inverse).copy()
    inverse[np.diag_indices_from(inverse)] *= 0.5
    half = np.tril(inverse)
    by_signal = np.sum(half * kernel) - 0.5 * weights @ kernel @ weights
    kernel *= distances / length**2
    by_length = np.sum(half * kernel) - 0.5 * weights @ kernel @ weights
    by_noise = 0.5 * noise * (diagonal.sum() - weights @ weights)
    return float(value), np.array([by_signal, by_length, by_noise])


def hyper_parameters(inputs: Rows, target: Vector) -> Vector:
    """(3,) of the greatest likelihood for standardised inputs (n, d) and a standardised target (n,)."""
    found = minimize(
        likelihood,
        np.log(START),
        args=(squared_distances(inputs, inputs), target),
        method="L-BFGS-B",
        jac=True,
        bounds=[tuple(np.log(BOUNDS))] * 3,
        options={"maxiter": ITERATIONS},
    )
    return np.exp(found.x)


def fitted(
    configuration: SalpConfiguration,
    recordings: Mapping[str, LoadedRecording],
    hashes: Sequence[str],
    most_points: int = MOST_POINTS,
    progress: Callable[[float, str], None] = lambda share, step: None,
) -> PaperModel:
    """A model of recordings, by name; UserError where they hold too little."""
    chain, known = configuration.chain.build(), []
    for label, recording in recordings.items():
        with said_of(label):
            inputs, targets = residuals(chain, sampled(configuration, recording))
        rows = driving(inputs, targets, chain.link_count)
        known.append((inputs[rows], targets[rows]))
    inputs, targets = (np.vstack(kind) for kind in zip(*known, strict=True))
    if len(inputs) < FEWEST_POINTS:
        raise UserError(
            f"{len(inputs)} points at {RATE_HZ:g} Hz of a robot that drives in sight of the motion capture: at least "
            f"{FEWEST_POINTS} are needed, {FEWEST_POINTS / RATE_HZ:.0f} s"
        )
    thin = _spread(len(inputs), most_points)
    inputs, targets = inputs[thin], targets[thin]
    (centre, scale), (mean, stddev) = moments(inputs), moments(targets)
    active = _spread(len(inputs), len(inputs) if len(inputs) <= ALL_UP_TO else ACTIVE)
    count = targets.shape[1]
    found = all_of(
        partial(hyper_parameters, ((inputs - centre) / scale)[active]),
        list(np.ascontiguousarray(((targets - mean) / stddev)[active].T)),
        lambda done: progress(done / count, f"Gaussian process {min(done + 1, count)} of {count}"),
    )
    header = header_of(configuration, PAPER, list(recordings), hashes, RATE_HZ, inputs, increments=True)
    return PaperModel(header, inputs, targets, np.array(found))


def _spread(count: int, most: int) -> NDArray[np.intp]:
    return np.linspace(0, count - 1, min(most, count)).round().astype(np.intp)


# What `train` shows of it.


@dataclass(frozen=True, eq=False)
class PaperTraining:
    """A trained model of the paper's filter."""

    model: PaperModel
    duration_s: float

    def processes(self) -> list[dict[str, Any]]:
        """Of each output: mean and standard deviation of the residual, and what its process found."""
        model = self.model
        signal, length, noise = model.hyper_parameters.T
        mean, stddev = moments(model.targets)
        columns = (mean, stddev, stddev * np.sqrt(signal), stddev * np.sqrt(noise), length)
        names = ("name", "unit", "mean", "standard_deviation", "signal", "noise", "length")
        rows = zip(model.header.output_names, model.header.output_units, *map(np.ndarray.tolist, columns), strict=True)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def summary(self) -> dict[str, Any]:
        """All figures, units in the names."""
        header, training = self.model.header, self.model.header.training
        return {
            "robot": header.robot,
            "form": header.kind,
            "points": training.point_count,
            "rate_hz": training.rate_hz,
            "training_s": self.duration_s,
            "runs": dict(zip(training.runs, training.hashes, strict=True)),
            "processes": self.processes(),
        }

    def sentences(self) -> list[str]:
        """What it was trained with, and what it is for."""
        training = self.model.header.training
        return [
            f"{training.point_count} points at {training.rate_hz:g} Hz of {len(training.runs)} runs, trained in "
            f"{self.duration_s:.1f} s.",
            "The paper's own filter, for comparison: its standard deviations are what the processes say of these runs, "
            "and nothing is held out to judge them.",
        ]

    def tables(self) -> list[ReportTable]:
        """Residuals and what their processes found."""
        rows = []
        for name, unit, mean, stddev, *found, length in map(dict.values, self.processes()):
            shown, factor = display_unit(unit, stddev)
            rows.append((name, shown, *(f"{factor * size:.3g}" for size in (mean, stddev, *found)), f"{length:.3g}"))
        headings = ("residual", "unit", "mean", "standard deviation", "signal", "noise", "length (standardised)")
        return [ReportTable("residuals of a period, and of the gyros", headings, tuple(rows), headings[2:])]

    def save(self, path: Path) -> Sequence[Path]:
        """Write the model's file; UserError where it cannot be written."""
        self.model.save(path)
        return ()
