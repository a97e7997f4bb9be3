"""Measured against predicted rates over the cycle of a gait, as in the paper's figure 6.

The prediction takes the shape from motion capture and the commands, and nothing else: body velocity and joint rates by
equation (5), gyros by equation (6). Both sides went through the same low-pass. Cycles are those of the commands'
strongest frequency; a recording without one is a single cycle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.capabilities.tables import ReportTable
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Vector
from salp_estimation.chain import Chain
from salp_estimation.drag_regressor import coefficients, drag_terms, predicted_rates, wheel_jacobians
from salp_estimation.identification_runs import Run

Array = NDArray[np.float64]
Group = Literal["body", "joints", "gyros"]

_AT_ONCE = 20_000  # instants, for the memory's sake
_BINS = 60
_SAMPLES_PER_PERIOD = 20.0  # of the cut-off: enough for pictures and figures


@dataclass(frozen=True, eq=False)
class Signal:
    """One rate, measured and predicted, m/s or rad/s.

    Attributes
    ----------
    measured, predicted
        (2, B) mean and standard deviation over the cycles in B bins of a cycle; NaN where there is nothing, and the
        standard deviation where there are fewer than two cycles.
    rms
        Of measured minus predicted.
    offset
        Mean of measured minus predicted: a gyro's bias shows here.
    explained
        One minus the mean square of measured minus predicted over the variance of measured.
    rms_before
        The same RMS with the configured drag.
    """

    name: str
    group: Group
    unit: str
    measured: Array
    predicted: Array
    rms: float
    offset: float
    explained: float
    rms_before: float


@dataclass(frozen=True, eq=False)
class Validation:
    """One recording: its signals over `period_s`; `cycles` of them are seen, in part or as a whole."""

    name: str
    period_s: float
    cycles: int
    signals: tuple[Signal, ...]

    @property
    def phase(self) -> Vector:
        """(B,) middle of each bin, 0 to 1."""
        return (np.arange(_BINS) + 0.5) / _BINS


def validate(run: Run, identified: Chain, configured: Chain) -> Validation:
    """How well the identified chain predicts what was measured in a recording.

    Raises
    ------
    ValueError
        The run has no usable instant.
    """
    motion = run.motion
    step = max(1, round(motion.rate_hz / (_SAMPLES_PER_PERIOD * motion.cutoff_hz)))
    chosen = np.flatnonzero(run.usable)[::step]
    if len(chosen) == 0:
        raise ValueError(f"{run.name} has no usable instant")
    time_s = (motion.stamps_ns[chosen] - motion.stamps_ns[0]) / NANOSECONDS_PER_SECOND
    period_s = 1.0 / run.frequency_hz if run.frequency_hz > 0.0 else float(np.ptp(time_s)) + 1.0 / motion.rate_hz
    cycle = np.floor(time_s / period_s).astype(np.int64)
    place = np.minimum((time_s / period_s - cycle) * _BINS, _BINS - 1).astype(np.int64)
    gyros = [_gyro(run, link, (identified, configured)) for link in range(identified.link_count)]
    measured, after, before = (
        np.hstack([rates[chosen], *(gyro[which][chosen, None] for gyro in gyros)])
        for which, rates in enumerate((motion.rates, _rates(identified, run), _rates(configured, run)))
    )
    joints = identified.link_count - 1
    names = ["forward", "left", "turning", *(f"alpha_{j + 1}" for j in range(joints))]
    names += [f"gyro {i + 1}" for i in range(identified.link_count)]
    count = identified.link_count
    groups: list[Group] = [
        "body" if k < 3 else "joints" if k < 3 + joints else "gyros" for k in range(3 + joints + count)
    ]
    signals = []
    for column, (name, group) in enumerate(zip(names, groups, strict=True)):
        known = np.isfinite(measured[:, column]) & np.isfinite(after[:, column])
        if not known.any():
            continue
        true, model = measured[known, column], after[known, column]
        error = true - model
        signals.append(
            Signal(
                name,
                group,
                "m/s" if column < 2 else "rad/s",
                _folded(true, cycle[known], place[known]),
                _folded(model, cycle[known], place[known]),
                float(np.sqrt(np.mean(error**2))),
                float(error.mean()),
                float(1.0 - np.mean(error**2) / max(float(np.var(true)), 1e-300)),
                float(np.sqrt(np.mean((true - before[known, column]) ** 2))),
            )
        )
    return Validation(run.name, period_s, len(np.unique(cycle)), tuple(signals))


def validation_table(validations: Sequence[Validation]) -> ReportTable:
    """How well the identified drag predicts what was measured, and how well the configured one did."""
    headings = ("recording", "signal", "RMS", "with configured drag", "unit", "variance explained")
    rows = tuple(
        ("" if number else validation.name, *_signal_cells(one))
        for validation in validations
        for number, one in enumerate(validation.signals)
    )
    return ReportTable("measured against predicted", headings, rows, right=(*headings[2:4], headings[5]))


def _signal_cells(one: Signal) -> tuple[str, ...]:
    factor, unit = (100.0, "cm/s") if one.unit == "m/s" else (float(np.rad2deg(1.0)), "deg/s")
    errors = (f"{factor * rms:.3g}" for rms in (one.rms, one.rms_before))
    return (one.name, *errors, unit, f"{100.0 * one.explained:.2f} %")


def model_rates(chain: Chain, joint_angles: Array, controls: Array) -> tuple[Array, Array]:
    """Body velocity and joint rates (K, N + 2), eq. (5), and turning rates of the links (K, N), eq. (6)."""
    terms = drag_terms(chain.link_count, full=True)
    values = coefficients(chain, terms)
    rates, turning = [np.empty((0, chain.link_count + 2))], [np.empty((0, chain.link_count))]
    for first in range(0, len(joint_angles), _AT_ONCE):
        jacobians = wheel_jacobians(chain, joint_angles[first : first + _AT_ONCE])
        rates.append(predicted_rates(jacobians, controls[first : first + _AT_ONCE], terms, values)[0])
        turning.append(np.einsum("kib,kb->ki", jacobians[:, :, 2], rates[-1]))
    return np.concatenate(rates), np.concatenate(turning)


def _rates(chain: Chain, run: Run) -> Array:
    """Predicted body velocity and joint rates (K, N + 2) at the instants of the motion; NaN where it is not usable."""
    out = np.full(run.motion.rates.shape, np.nan)
    used = run.usable
    out[used] = model_rates(chain, run.motion.states[used, 3:], run.controls[used])[0]
    return out


def _gyro(run: Run, link: int, chains: tuple[Chain, Chain]) -> tuple[Vector, Vector, Vector]:
    """Measured and predicted turning rates (K,) of a link, low-passed alike.

    The model is evaluated at the gyro's own samples, with the command in force at each: between two of them commands
    step, and a gyro sampled right after a step reads the new one.
    """
    motion, gyro = run.motion, run.gyros[link]
    nothing = np.full(len(motion.stamps_ns), np.nan)
    if gyro is None or len(gyro.stamps_ns) < 2:
        return nothing, nothing, nothing
    known = np.flatnonzero(np.isfinite(motion.states[:, 3]))
    angles = np.column_stack([
        np.interp(gyro.stamps_ns - motion.stamps_ns[0], (motion.stamps_ns - motion.stamps_ns[0])[known], column[known])
        for column in motion.states[:, 3:].T
    ])  # fmt: skip
    signals = [gyro.rates, *(model_rates(chain, angles, gyro.controls)[1][:, link] for chain in chains)]
    measured, after, before = motion.low_pass(motion.sampled(gyro.stamps_ns, np.column_stack(signals))).T
    return measured, after, before


def _folded(values: Vector, cycle: NDArray[np.int64], place: NDArray[np.int64]) -> Array:
    """(2, B) mean and standard deviation over the cycles of the mean in each bin."""
    first = int(cycle.min())
    shape = (int(cycle.max()) - first + 1, _BINS)
    flat = (cycle - first) * _BINS + place
    counts = np.bincount(flat, minlength=shape[0] * _BINS).reshape(shape)
    sums = np.bincount(flat, values, minlength=shape[0] * _BINS).reshape(shape)
    seen = counts > 0
    means = np.where(seen, sums / np.maximum(counts, 1), 0.0)
    cycles = seen.sum(axis=0)
    mean = means.sum(axis=0) / np.maximum(cycles, 1)
    spread = np.where(seen, np.square(means - mean), 0.0).sum(axis=0) / np.maximum(cycles - 1, 1)
    out = np.stack([mean, np.sqrt(spread)])
    out[0, cycles < 1] = np.nan
    out[1, cycles < 2] = np.nan
    return out
