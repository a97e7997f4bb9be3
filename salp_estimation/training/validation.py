"""Measured against predicted rates over the cycle of a gait, as in the paper's figure 6.

The prediction takes the shape from motion capture and the commands, and nothing else: body velocity and joint rates by
equation (5), gyros by equation (6). Both sides went through the same low-pass. Cycles are those of the commands'
strongest frequency; a recording without one is a single cycle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Vector
from onboard_estimation.contract.trained import ReportTable
from onboard_estimation.report.plots import INK, SERIES, plain
from salp_estimation.model.chain import Chain, DragTerms, predicted_rates, wheel_jacobians
from salp_estimation.training.runs import Run

Array = NDArray[np.float64]

_DRAWN = 8  # recordings in a picture
GYROS = "gyros"
_PANELS = ("base, speed", "base and joints, rates", GYROS)
_AT_ONCE = 20_000  # instants, for the memory's sake
_BINS = 60
_SAMPLES_PER_PERIOD = 20.0  # of the cut-off: enough for pictures and figures


_MEASURED: dict[str, Any] = {"linewidth": 2.0, "alpha": 0.55}
_FITTED: dict[str, Any] = {"linestyle": "--", "linewidth": 1.2}
_UNSEEN: dict[str, Any] = {"linestyle": ":", "linewidth": 1.4}


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
    variance_explained
        One minus the mean square of measured minus predicted over the variance of measured.
    rms_before
        The same RMS with the configured drag.
    """

    name: str
    panel: str
    unit: str
    measured: Array
    predicted: Array
    rms: float
    offset: float
    variance_explained: float
    rms_before: float


@dataclass(frozen=True, eq=False)
class Validation:
    """One recording: its signals over `period_s`; `cycles` of them are seen, in part or as a whole."""

    name: str
    period_s: float
    cycles: int
    signals: tuple[Signal, ...]

    def summary(self) -> dict[str, Any]:
        """All figures, for JSON."""
        figures = ("name", "unit", "rms", "rms_before", "offset", "variance_explained")
        signals = [{name: getattr(one, name) for name in figures} for one in self.signals]
        return {"name": self.name, "period_s": self.period_s, "cycles": self.cycles, "signals": signals}


def validate(run: Run, identified: Chain, configured: Chain) -> Validation:
    """How well the identified chain predicts what was measured in a recording."""
    motion = run.motion
    step = max(1, round(motion.rate_hz / (_SAMPLES_PER_PERIOD * motion.cutoff_hz)))
    chosen = np.flatnonzero(run.usable)[::step]
    time_s = (motion.stamps_ns[chosen] - motion.stamps_ns[0]) / NANOSECONDS_PER_SECOND
    period_s = 1.0 / run.frequency_hz if run.frequency_hz > 0.0 else float(np.ptp(time_s)) + 1.0 / motion.rate_hz
    cycle = np.floor(time_s / period_s).astype(np.int64)
    place = np.minimum((time_s / period_s - cycle) * _BINS, _BINS - 1).astype(np.int64)
    names, found = compared(run, identified, configured)
    measured, after, before = (one[chosen] for one in found)
    signals = []
    for column, name in enumerate(names):
        known = np.isfinite(measured[:, column]) & np.isfinite(after[:, column])
        if not known.any():
            continue
        true, model = measured[known, column], after[known, column]
        error = true - model
        signals.append(
            Signal(
                name,
                _PANELS[0 if column < 2 else 1 if column < 2 + identified.link_count else 2],
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


def compared(run: Run, *chains: Chain) -> tuple[tuple[str, ...], list[Array]]:
    """Names of a run's rates and gyros, and (K, 2 N + 2) of them: measured, and then as each of the chains has them.

    At the instants of its motion, m/s and rad/s, low-passed; NaN where something is not known.
    """
    gyros = [_gyro(run, link, chains) for link in range(run.controls.shape[1])]
    rates = (run.motion.rates, *(_rates(chain, run) for chain in chains))
    found = [np.column_stack([one, *(gyro[which] for gyro in gyros)]) for which, one in enumerate(rates)]
    joints = (f"alpha_{joint}" for joint in range(1, len(gyros)))
    return ("forward", "left", "turning", *joints, *(f"gyro {link + 1}" for link in range(len(gyros)))), found


def validation_table(validations: Sequence[Validation]) -> ReportTable:
    """How well the identified drag predicts what was measured, and how well the configured one did."""
    headings = ("recording", "signal", "RMS", "with configured drag", "unit", "variance explained")
    rows = []
    for validation in validations:
        for number, one in enumerate(validation.signals):
            factor, unit = _shown(one.unit)
            errors = (f"{factor * rms:.3g}" for rms in (one.rms, one.rms_before))
            explained = f"{100.0 * one.variance_explained:.2f} %"
            rows.append(("" if number else validation.name, one.name, *errors, unit, explained))
    return ReportTable("measured against predicted", headings, tuple(rows), right=(*headings[2:4], headings[5]))


def _shown(unit: str) -> tuple[float, str]:
    """Factor and unit in which a rate is shown."""
    return (100.0, "cm/s") if unit == "m/s" else (float(np.rad2deg(1.0)), "deg/s")


def model_rates(chain: Chain, joint_angles: Array, controls: Array) -> tuple[Array, Array]:
    """Body velocity and joint rates (K, N + 2), eq. (5), and turning rates of the links (K, N), eq. (6)."""
    terms = DragTerms(chain.link_count, full=True)
    values = terms.coefficients(chain)
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


def _gyro(run: Run, link: int, chains: tuple[Chain, ...]) -> Array:
    """Turning rates (1 + chains, K) of a link, measured and by each of the chains, low-passed alike.

    The model is evaluated at the gyro's own samples, with the command in force at each: between two of them commands
    step, and a gyro sampled right after a step reads the new one.
    """
    motion, gyro = run.motion, run.gyros.get(link)
    if gyro is None or len(gyro.stamps_ns) < 2:
        return np.full((1 + len(chains), len(motion.stamps_ns)), np.nan)
    known = np.flatnonzero(np.isfinite(motion.states[:, 3]))
    angles = np.column_stack([
        np.interp(gyro.stamps_ns - motion.stamps_ns[0], (motion.stamps_ns - motion.stamps_ns[0])[known], column[known])
        for column in motion.states[:, 3:].T
    ])  # fmt: skip
    signals = [gyro.rates, *(model_rates(chain, angles, gyro.controls)[1][:, link] for chain in chains)]
    return motion.low_pass(motion.sampled(gyro.stamps_ns, np.column_stack(signals))).T


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


def figure_of(validations: Sequence[Validation], unseen: Sequence[Validation], source: str, others: str) -> Figure:
    """A row for each recording, of more than eight the first eight.

    Parameters
    ----------
    unseen
        The same recordings, or their left-out parts, predicted by a fit that did not see them; fewer where there is no
        such fit.
    source
        For the title, simulated or recorded.
    others
        What that fit saw.
    """
    shown, by_others = validations[:_DRAWN], {one.name: one.signals for one in unseen}
    figure = Figure(figsize=(11.0, 1.1 + 2.5 * len(shown)), dpi=110.0, layout="constrained")
    grid = figure.subplots(len(shown), len(_PANELS), squeeze=False, sharex=True)
    for row, validation in zip(grid, shown, strict=True):
        for axes, title in zip(row, _PANELS, strict=True):
            chosen = [one.name for one in validation.signals if one.panel == title]
            left_out = [one for one in by_others.get(validation.name, ()) if one.name in chosen]
            _draw(axes, [one for one in validation.signals if one.name in chosen], left_out)
            axes.set_title(title if validation is shown[0] else "", loc="left")
        row[0].set_ylabel(
            f"{plain(validation.name)}\n{validation.cycles} cycles of {validation.period_s:.3g} s\n(cm/s)"
        )
        for axes in row[1:]:
            axes.set_ylabel("(deg/s)")
    for axes in grid[-1]:
        axes.set_xlabel("phase of the cycle")
    more = f", the first {_DRAWN} of {len(validations)} recordings" if len(validations) > _DRAWN else ""
    title = f"{source.upper()} data{more}: rates measured, and predicted from shape and commands"
    kinds = {"measured (band: one standard deviation over cycles)": _MEASURED}
    kinds["predicted by the fit to all" if unseen else "predicted"] = _FITTED
    kinds |= {f"predicted by {others}, which left it out": _UNSEEN} if unseen else {}
    handles = [Line2D([], [], color=INK, label=label, **look) for label, look in kinds.items()]
    figure.legend(
        handles=handles, loc="outside upper left", ncols=3, handlelength=3.0, title=plain(title), alignment="left"
    )
    return figure


def _draw(axes: Axes, signals: list[Signal], unseen: list[Signal]) -> None:
    phase = (np.arange(_BINS) + 0.5) / _BINS  # middle of each bin
    colours = {}
    for number, signal in enumerate(signals):
        factor = _shown(signal.unit)[0]
        colour = colours[signal.name] = SERIES[number % len(SERIES)]
        mean, spread = factor * signal.measured
        label = f"{signal.name} ({100.0 * signal.variance_explained:.1f} %)"
        axes.fill_between(phase, mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0)
        axes.plot(phase, mean, color=colour, label=label, **_MEASURED)
        axes.plot(phase, factor * signal.predicted[0], color=colour, **_FITTED)
    for signal in unseen:
        axes.plot(phase, _shown(signal.unit)[0] * signal.predicted[0], color=colours[signal.name], **_UNSEEN)
    if signals:
        axes.legend(
            loc="upper right", ncols=2, title="variance explained", title_fontsize=7.0, fontsize=7.5,
            handlelength=1.0, columnspacing=0.8,
        )  # fmt: skip
        low, high = axes.get_ylim()
        axes.set_ylim(low, high + 0.35 * (high - low))  # room for the legend
    else:
        axes.text(0.5, 0.5, "not recorded", transform=axes.transAxes, ha="center", va="center")
    axes.set_xlim(0.0, 1.0)
