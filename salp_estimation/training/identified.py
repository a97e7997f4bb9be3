"""`identify salp`: recordings go in, coefficients with intervals, a parameter file and a validation come out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from onboard_estimation.base.errors import UserError, first_of
from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.trained import IdentificationReport, ReportTable
from onboard_estimation.report.plots import write_figure
from salp_estimation.model import chain_kernels as kernels
from salp_estimation.model.chain import DragTerms, predicted_rates, wheel_jacobians
from salp_estimation.model.configuration import MIXED_DRAG, SalpConfiguration
from salp_estimation.model.gait_design import gait_for
from salp_estimation.model.gait_fit import held
from salp_estimation.model.gaits import GAITS, Gait
from salp_estimation.training.identification import (
    FARTHEST,
    NORMAL_95,
    DragFit,
    DragScale,
    coefficient_name,
    drag_scale,
    fit_determined,
    fit_drag,
    whitening,
)
from salp_estimation.training.motion import DEFAULT_CUTOFF_HZ
from salp_estimation.training.runs import Run, run_from_recording
from salp_estimation.training.validation import GYROS, Validation, figure_of, validate, validation_table

_PARAMETERS = {"wheel_drag_xx": "xx", "wheel_drag_yy": "yy", "wheel_drag_tt": "tt", "joint_drag": "joint"}
"""Of the configuration, and kinds of the coefficients that they hold."""
_DIGITS = 7
_NOTED_DELAY_S = 0.01
_GOOD_SHARE = 0.9  # of the variance: below it the model leaves out something that matters
_ADVICE_S = 60.0
_MARGIN_RAD = float(np.deg2rad(1.0))
_SETTLED_CYCLES = 2


@dataclass(frozen=True)
class Coefficient:
    """One line of the table; `low` and `high` bound the 95 % interval and are infinite where nothing is known.

    Attributes
    ----------
    ratio, ratio_low, ratio_high
        To d_xx of the first wheel: what commands and motion alone determine. In m for a mixed element, m^2 for turning.
    poor
        The interval is wider than a tenth of the value (of the geometric mean of both axes' for a mixed element).
    held
        Not estimated: the first, or as configured because the recordings do not determine it.
    """

    name: str
    unit: str
    value: float
    low: float
    high: float
    ratio: float
    ratio_low: float
    ratio_high: float
    configured: float
    poor: bool
    held: bool

    @property
    def interval(self) -> str:
        """The 95 % interval in words."""
        if self.held:
            return "held" if self.ratio == 1.0 else "not determined: kept"
        if not self.high < float("inf"):
            return "not determined"
        return f"{self.low:.5g} to {self.high:.5g}{' (poor)' if self.poor else ''}"


@dataclass(frozen=True, eq=False)
class Identification(IdentificationReport):
    """What the recordings tell of the drag; the configuration has it, or that of the diagonal fit.

    Attributes
    ----------
    fit
        The fit that is shown, full where that was asked for.
    configuration
        With its coefficients; with those of a diagonal fit where the full one has poorly determined ones,
        or matrices that are not positive definite.
    """

    subject = "Drag"
    picture = "validation.png"
    configuration: SalpConfiguration
    fit: DragFit
    full: bool
    scale: DragScale
    coefficients: tuple[Coefficient, ...]
    runs: tuple[Run, ...]
    validations: tuple[Validation, ...]

    def tables(self) -> list[ReportTable]:
        """Coefficients, and how well they predict what was measured."""
        headings = ("coefficient", "value", "95 % interval", "unit", "ratio to the first", "configured")
        rows = tuple(
            (one.name, f"{one.value:.6g}", one.interval, one.unit, f"{one.ratio:.5g}", f"{one.configured:.6g}")
            for one in self.coefficients
        )
        title = f"salp: {'full' if self.full else 'diagonal'} drag from {self.origin}"
        coefficients = ReportTable(title, headings, rows, right=(*headings[1:3], *headings[4:]))
        return [coefficients, validation_table(self.validations)]

    def parameters(self) -> dict[str, list[float]]:
        """Identified parameters by dotted name, as `--set` takes them."""
        chain = self.configuration.chain
        names = [*_PARAMETERS, *(MIXED_DRAG if self.full else ())]
        return {f"chain.{name}": list(getattr(chain, name)) for name in names}

    def found(self) -> dict[str, Any]:
        """All figures, for JSON."""
        return {
            "source": self.source,
            "model": "full" if self.full else "diagonal",
            "coefficients": [asdict(one) for one in self.coefficients],
            "scale": asdict(self.scale),
            "condition_number": self.fit.condition,
            "instants": self.fit.samples,
            "delay_s": self.fit.delay_s,
            "parameters": self.parameters(),
            "recordings": [
                {
                    "name": run.name,
                    "used_s": float(run.usable.sum()) / run.motion.rate_hz,
                    "cutoff_hz": run.motion.cutoff_hz,
                    "command_frequency_hz": run.frequency_hz,
                    "frames_left_out": dict(run.motion.left_out),
                    "open_joint_instants": run.motion.open_joints,
                }
                for run in self.runs
            ],
            "validation": [one.summary() for one in self.validations],
        }

    def draw(self, path: Path) -> None:
        """Rates over the cycle of a gait."""
        unseen = []
        for run in self.runs:
            if run.name in self.without:
                chain = self.without[run.name].chain.build()
                late = np.arange(len(run.usable)) >= len(run.usable) // 2 if self.halved else True
                unseen.append(validate(replace(run, usable=run.usable & late), chain, chain))
        others = "the fit to the first half" if self.halved else "the fit to the others"
        write_figure(path, partial(figure_of, self.validations, unseen, self.source, others))


def identify(
    configuration: SalpConfiguration,
    recordings: Mapping[str, LoadedRecording],
    full: bool = False,
    cutoff_hz: float | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> Identification:
    """Drag coefficients from recordings with commands and motion capture of all links.

    Parameters
    ----------
    recordings
        By name; several gaits determine more than one.
    full
        Symmetric drag matrices of the wheels beside diagonal ones.

    Raises
    ------
    UserError
        What cannot be identified, with the numbers and what would help.
    """
    cutoff = DEFAULT_CUTOFF_HZ if cutoff_hz is None else cutoff_hz
    runs = tuple(run_from_recording(configuration, one, name, cutoff) for name, one in recordings.items())
    samples = [run.samples() for run in runs]
    chain = configuration.chain.build()
    diagonal, kept = fit_determined(chain, samples)
    fit = fit_drag(chain, samples, full=True) if full else diagonal
    scale = drag_scale(fit, samples)
    identified = _with_drag(configuration, fit.terms, fit.values * scale.factor)
    table = _table(fit, scale, fit.terms.coefficients(chain), configuration.chain.link_names)
    poor = sum(one.poor for one in table)
    doubtful = full and (poor > 0 or any(identified.chain.faults()))
    if doubtful:
        identified = _with_drag(configuration, diagonal.terms, diagonal.values * drag_scale(diagonal, samples).factor)
    validations = tuple(validate(run, fit.chain, chain) for run in runs)
    notes = [f"Condition number of the regressor {fit.condition:.3g}."]
    notes += [f"{run.name}: {one}" if len(runs) > 1 else one for run in runs for one in run.notes]
    names = configuration.chain.link_names
    if kept:
        listed = "; ".join(f"{coefficient_name(diagonal.terms, k, names)} ({why})" for k, why in sorted(kept.items()))
        notes.append(
            f"Not determined, kept as configured, and the others fitted with that: {listed}. Its 95 % interval is as "
            f"wide as it is large, or it is over {FARTHEST:g} times off the configured value and takes up what the "
            "model leaves out (friction, harness, lag)."
        )
    notes += [scale.reason, *_advice(fit, table, configuration, samples[0].step_s), *_warnings(fit, validations)]
    if doubtful:
        reason = (
            f"{poor} of {len(table)} coefficients are poorly determined" if poor else "one is not positive definite"
        )
        notes.append(f"The parameter file holds the diagonal fit, not the full matrices: {reason}.")
    simulated = any(one.simulated for one in recordings.values())
    said = tuple(recordings), simulated, tuple(notes)
    return Identification(identified, *said, fit, full, scale, table, runs, validations)


def _table(fit: DragFit, scale: DragScale, configured: Vector, link_names: Sequence[str]) -> tuple[Coefficient, ...]:
    ratios, terms = fit.values / fit.values[0], fit.terms
    names = [coefficient_name(terms, number, link_names) for number in range(len(terms.kinds))]
    units = [("N s/m", "N s", "N m s")[turning] for turning in terms.turning]
    absolute = scale.factor * fit.values
    # The scale's error and that of the ratio are of different measurements.
    width = scale.factor * np.hypot(fit.half_widths, scale.half_width / scale.factor * fit.values)
    least = np.where(terms.mixed, -np.inf, 0.0)
    fixed = ~fit.free & ((np.arange(len(names)) > 0) | scale.held)
    intervals = np.maximum(absolute - width, least), absolute + width
    ratios_low, ratios_high = ((fit.values + sign * fit.half_widths) / fit.values[0] for sign in (-1.0, 1.0))
    columns = absolute, *intervals, ratios, np.maximum(ratios_low, least), ratios_high, configured, fit.poor, fixed
    return tuple(map(Coefficient, names, units, *(one.tolist() for one in columns)))


def _with_drag(configuration: SalpConfiguration, terms: DragTerms, values: Vector) -> SalpConfiguration:
    def of(kind: str) -> tuple[float, ...]:
        chosen = [value for one, value in zip(terms.kinds, values.tolist(), strict=True) if one == kind]
        return tuple(float(f"{value:.{_DIGITS}g}") for value in chosen)

    none = (0.0,) * terms.links
    found: dict[str, Any] = {name: of(kind) for name, kind in _PARAMETERS.items()}
    found |= {name: of(name.removeprefix("wheel_drag_")) or none for name in MIXED_DRAG}
    return replace(configuration, chain=replace(configuration.chain, **found))


def _advice(fit: DragFit, table: tuple[Coefficient, ...], configuration: SalpConfiguration, step_s: float) -> list[str]:
    """What is poorly determined, and which gait would help."""
    poor = np.flatnonzero(fit.poor)
    if len(poor) == 0:
        return []
    reference = fit.reference
    listed = ", ".join(f"{table[k].name} ({_share(fit.half_widths[k], reference[k])})" for k in poor)
    out = [f"Poorly determined, 95 % interval wider than a tenth of the value: {listed}."]
    try:
        expected = expected_half_widths(fit, _gaits(configuration), step_s, _ADVICE_S)
    except np.linalg.LinAlgError:  # a full fit may leave a chain whose gaits cannot be computed
        return out
    if not expected:
        return [*out, f"No gait is known for these {fit.chain.link_count} links: bend the joints further."]
    for k in poor:
        best = sorted(expected, key=lambda name: float(expected[name][k]))
        enough = [name for name in best if 2.0 * expected[name][k] <= 0.1 * reference[k]]
        named = ", ".join(f"{name} {_share(expected[name][k], reference[k])}" for name in (enough or best[:1]))
        verdict = "would do" if enough else "would help most, but not do"
        out.append(f"{table[k].name}: {_ADVICE_S:.0f} s more of {named} {verdict}.")
    return out


def _gaits(configuration: SalpConfiguration) -> dict[str, Gait]:
    found = {}
    for name in GAITS:
        with suppress(UserError):  # not every chain can be moved in every way
            found[name] = gait_for(configuration.chain, name)
    return found


def _share(half_width: float, reference: float) -> str:
    share = 100.0 * half_width / reference if reference > 0.0 else np.inf
    return f"+-{share:.2g} %" if share < 100.0 else "not determined"


def _warnings(fit: DragFit, validations: Sequence[Validation]) -> list[str]:
    """What makes the model, and with it the intervals, doubtful."""
    out = []
    if abs(fit.delay_s) > _NOTED_DELAY_S:
        out.append(
            f"The motion comes {1000.0 * fit.delay_s:.0f} ms after the commands: lag of the actuators, or a clock or "
            "latency of the motion capture. The model knows no lag; the coefficients take up part of it."
        )
    weak = [
        f"{one.name} in {validation.name} {100.0 * one.variance_explained:.0f} %"
        for validation in validations
        for one in validation.signals
        if one.panel != GYROS and one.variance_explained < _GOOD_SHARE
    ]
    if weak:
        out.append(
            f"The model explains less than 90 % of the variance of {first_of(weak, 6)}: intervals tell the scatter "
            "from noise only, not what the model leaves out (friction, harness, lag)."
        )
    return out


def expected_half_widths(
    fit: DragFit, gaits: Mapping[str, Gait], step_s: float, duration_s: float = 60.0
) -> dict[str, Vector]:
    """95 % half-widths (P,) after a further recording of each gait, all else the same.

    Parameters
    ----------
    step_s
        Between the instants that a fit uses.
    """
    finite = np.isfinite(fit.half_widths)
    inflation = np.where(
        finite,
        fit.noise_inflation,
        np.median(fit.noise_inflation[finite & fit.free]) if (finite & fit.free).any() else 1.0,
    )
    weight = whitening(fit.residual_covariance)
    out = {}
    for name, gait in gaits.items():
        added = _information(fit, weight, gait, step_s, duration_s)
        # In units of each coefficient's own information, so that the inverse is well conditioned.
        total = fit.information + added
        root = np.sqrt(np.diag(total)).clip(min=1e-300)
        variance = np.diag(np.linalg.pinv(total / np.outer(root, root), hermitian=True)) / root**2
        out[name] = np.zeros(len(fit.values))
        out[name][fit.free] = NORMAL_95 * np.sqrt(variance * inflation[fit.free])
    return out


def _information(fit: DragFit, weight: Matrix, gait: Gait, step_s: float, duration_s: float) -> Matrix:
    """(F, F) of the free coefficients."""
    count = max(1, round(_SETTLED_CYCLES * gait.period_s / step_s))
    controls = gait.controls(step_s * np.arange(count))
    angles = held(fit.chain.links, np.zeros(fit.chain.link_count + 2), controls, step_s)[:-1, 3:]  # from straight on
    lower, upper = fit.chain.links[:-1, kernels.LOWER], fit.chain.links[:-1, kernels.UPPER]
    free = ((angles > lower + _MARGIN_RAD) & (angles < upper - _MARGIN_RAD)).all(axis=1)
    _, slopes = predicted_rates(wheel_jacobians(fit.chain, angles[free]), controls[free], fit.terms, fit.values)
    weighted = np.einsum("ab,kbp->kap", weight, slopes[..., fit.free])
    cycles: float = duration_s / (step_s * len(angles))
    return np.asarray(cycles * np.einsum("kap,kaq->pq", weighted, weighted))
