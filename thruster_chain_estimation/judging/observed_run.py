"""Observability along a recorded or simulated run of a thruster chain, beside what its filter claimed.

At the last true masses and inertias, else at the last estimated ones; at the estimated headings and rates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Matrix, Vector
from onboard_estimation.base.series import Series
from onboard_estimation.contract.result import EvaluationResult
from thruster_chain_estimation.judging.information import Forecast, Trajectory, forecast, gramians, predict
from thruster_chain_estimation.judging.observability import (
    Conditions,
    Observability,
    common_directions,
    observability,
    theorem_conditions,
)
from thruster_chain_estimation.judging.observed_chain import AssumedChain, blocks, packed, quantities
from thruster_chain_estimation.model.space import COMMAND

STEP_S = 0.01
"""Of the trajectory that sensitivities are taken along; samples within a step are averaged."""
_LIE_STEP_S = 0.05
_MOST_LINKS_OF_TWO_LETTERS = 4
_LONGEST_GAP_S = 0.1
"""Without a sample of a link's IMU for as long, nothing is seen of it."""
_MOST_INSTANTS = 60_000
_HIDDEN = 1e-9
"""Of the largest element of a Gramian: a direction with less is hidden."""


@dataclass(frozen=True, eq=False)
class ObservedRun:
    """A run seen through Theorem 4, Lie derivatives and information.

    Attributes
    ----------
    time_s
        (K,) of the trajectory, since the first estimate.
    thrust_n
        (K, N) that acted, as far as is known.
    parameters
        2N names: m1, ..., j1, ...
    prior, estimate, predicted, claimed, error
        (2N,) standard deviations that the filter began with; (K, 2N) estimates, the least possible standard deviations,
        the filter's, and its errors; kg, kg m^2, NaN where not known.
    lie_time_s, conditions, seen
        At (L,) instants: Theorem 4, and rank and singular values.
    window_starts_s, window_smallest
        (W,) windows and the smallest eigenvalue of the Gramian, beside what symmetries hide.
    forecast
        From where the filter stood at the end.
    """

    time_s: Vector
    thrust_n: Matrix
    parameters: tuple[str, ...]
    prior: Vector
    estimate: Matrix
    predicted: Matrix
    claimed: Matrix
    error: Matrix
    lie_time_s: Vector
    conditions: Conditions
    seen: Observability
    window_starts_s: Vector
    window_smallest: Vector
    forecast: Forecast


def observe_run(
    assumed: AssumedChain,
    link_names: tuple[str, ...],
    series: Sequence[Series],
    result: EvaluationResult,
    window_s: float,
) -> ObservedRun:
    """All of it, for a replayed and judged run.

    Parameters
    ----------
    series
        What was measured and commanded, one of each sensor.
    result
        Estimates, errors and truth by part.
    window_s
        Of the Gramians.

    Raises
    ------
    UserError
        No commands, or a run too short or too long.
    """
    sensors = {one.channel.sensor: one for one in series}
    if (command := sensors.get(COMMAND)) is None or not len(command.stamps_ns):
        raise UserError(f"no commands ({COMMAND}) were used, and without thrust nothing is told of masses")
    stamps = _grid(result.stamps_ns)
    rows = np.searchsorted(result.stamps_ns, stamps, side="right") - 1
    time = (stamps - result.stamps_ns[0]) / NANOSECONDS_PER_SECOND
    count, parameters = len(link_names), slice(2 * len(link_names), 4 * len(link_names))  # here as in `Blocks`
    estimate, unknown = result.mean[rows, parameters], np.full((len(rows), count), np.nan)
    parts = [result.parts.get(name) for name in ("masses", "inertias")]
    true = np.hstack([unknown if part is None else part.truth[rows] for part in parts])
    known = np.split(_constant(true, estimate), 2, axis=1)
    states = packed(*np.split(result.mean[rows, : 2 * count], 2, axis=1), *known)
    thrust = _acting(assumed, command, stamps)
    assumed = replace(assumed, rate_hz=_rate_hz(sensors, link_names, assumed.rate_hz))
    prior = _begun(assumed, result, states[0])
    prior_stddev = np.sqrt(np.diag(prior))
    path = Trajectory(time, states, thrust)
    seen_imus = _seen(sensors, link_names, stamps)
    chain = assumed.chain.averaged(assumed.rate_hz * STEP_S)
    least, _ = predict(chain, path, prior, assumed.noise_about(states[0]), seen_imus)
    sparse = slice(None, None, round(_LIE_STEP_S / STEP_S))
    letters = 2 if count <= _MOST_LINKS_OF_TWO_LETTERS else 1
    faint = max(assumed.dead_band_n, 1e-3 * assumed.limit_n)
    lie_thrust = np.where(np.abs(thrust[sparse]) < faint, 0.0, thrust[sparse])
    starts, windows = gramians(chain, path, prior_stddev, window_s)
    best = forecast(assumed, *assumed.from_published(result.mean[-1], result.covariance[-1]))
    variances = np.diagonal(result.covariance[rows], axis1=1, axis2=2)
    return ObservedRun(
        time,
        thrust,
        quantities(count)[parameters],
        prior_stddev[parameters],
        estimate,
        least[:, parameters],
        np.sqrt(variances[:, parameters]),
        estimate - true,
        time[sparse],
        theorem_conditions(assumed.chain, states[sparse], lie_thrust),
        observability(assumed.chain, states[sparse], lie_thrust, prior_stddev, letters),
        starts,
        _smallest_eigenvalues(windows, states, prior_stddev, time, starts),
        best,
    )


def _constant(true: Matrix, estimated: Matrix) -> Matrix:
    """(K, N) the last truth of each link, else the last estimate, all the time.

    Parameters that change along the trajectory would tell of a scale that no sensor sees.
    """
    last = estimated[-1].copy()
    for link in range(true.shape[1]):
        rows = np.flatnonzero(np.isfinite(true[:, link]))
        if len(rows):
            last[link] = true[rows[-1], link]
    return np.repeat(last[None], len(true), axis=0)


def _rate_hz(sensors: Mapping[str, Series], link_names: tuple[str, ...], otherwise: float) -> float:
    """Samples a second of the IMUs, the median over links and intervals."""
    steps = [np.median(np.diff(one.stamps_ns)) for one in _imus(sensors, link_names).values() if len(one.stamps_ns) > 1]
    return float(NANOSECONDS_PER_SECOND / np.median(steps)) if steps else otherwise


def _imus(sensors: Mapping[str, Series], link_names: tuple[str, ...]) -> dict[int, Series]:
    """By the link's number."""
    found = {link: sensors.get(f"imu/{name}") for link, name in enumerate(link_names)}
    return {link: one for link, one in found.items() if one is not None and len(one.stamps_ns)}


def _begun(assumed: AssumedChain, result: EvaluationResult, state: Vector) -> Matrix:
    """Covariance (5N, 5N) that the filter began with; masses and inertias keep their relative deviations."""
    estimate, covariance = assumed.from_published(result.mean[0], result.covariance[0])
    at, factor = blocks(assumed.chain.count), np.ones_like(state)
    for place in (at.mass, at.inertia):
        factor[place] = state[place] / estimate[place]
    return covariance * np.outer(factor, factor)


def _grid(stamps_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Stamps of the trajectory's instants."""
    step = round(STEP_S * NANOSECONDS_PER_SECOND)
    grid = np.arange(int(stamps_ns[0]), int(stamps_ns[-1]) + 1, step) if len(stamps_ns) else np.zeros(0, np.int64)
    if not 2 <= len(grid) <= _MOST_INSTANTS:
        longest = _MOST_INSTANTS * STEP_S
        raise UserError(
            f"{len(grid) * STEP_S:.3g} s of estimates: observability takes runs of {STEP_S:g} to {longest:g} s"
        )
    return grid


def _acting(assumed: AssumedChain, command: Series, stamps_ns: NDArray[np.int64]) -> Matrix:
    """Thrust (K, N) at the stamps: of the last command until then, through the thrusters' lag."""
    usable = np.isfinite(command.values).all(axis=1)
    order = np.argsort(command.stamps_ns[usable], kind="stable")
    given, values = command.stamps_ns[usable][order], assumed.started(command.values[usable][order])
    number = np.searchsorted(given, stamps_ns, side="right")
    held: Matrix = np.vstack([np.zeros(values.shape[1]), values])[number]
    if not assumed.time_constant_s:
        return held
    from scipy.signal import lfilter

    share = float(-np.expm1(-STEP_S / assumed.time_constant_s))
    # The step response half a step on, as the thrust is held from each instant to the next.
    lagged = lfilter([share], [1.0, share - 1.0], held, axis=0)
    return np.asarray(np.where(np.abs(lagged) < 1e-9, 0.0, lagged), dtype=np.float64)


def _seen(
    sensors: Mapping[str, Series], link_names: tuple[str, ...], stamps_ns: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """(K, 3N) where a link's IMU was heard shortly before."""
    heard = np.zeros((len(stamps_ns), len(link_names)), dtype=np.bool_)
    for link, one in _imus(sensors, link_names).items():
        usable = np.sort(one.stamps_ns[np.isfinite(one.values).any(axis=1)])
        place = np.searchsorted(usable, stamps_ns, side="right")
        last = np.concatenate([[np.iinfo(np.int64).min // 2], usable])[place]
        heard[:, link] = stamps_ns - last < _LONGEST_GAP_S * NANOSECONDS_PER_SECOND
    return np.repeat(heard, 3, axis=1)


def _smallest_eigenvalues(
    windows: NDArray[np.float64], states: Matrix, prior_stddev: Vector, time_s: Vector, starts_s: Vector
) -> Vector:
    """(W,) of each Gramian, beside what a symmetry hides: what is seen worst of all that can be seen."""
    out: Vector = np.zeros(len(windows))
    for number, (gramian, row) in enumerate(zip(windows, np.searchsorted(time_s, starts_s), strict=True)):
        largest = float(np.abs(gramian).max())
        shown = gramian.copy()
        for unit in common_directions(states[row], prior_stddev).values():
            if unit @ gramian @ unit < _HIDDEN * largest:
                shown += largest * np.outer(unit, unit)
        out[number] = max(float(np.linalg.eigvalsh(shown)[0]), 0.0)
    return out
