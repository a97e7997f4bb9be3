"""The five figures that a report begins with, in words and units that need no key."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from onboard_estimation.evaluation.presentation import display_unit, format_number, unit_suffix, words
from onboard_estimation.evaluation.result import EvaluationResult, KeyFigure

COUNT = 5


def key_figures(result: EvaluationResult) -> tuple[KeyFigure, ...]:
    """Five: the robot's own, then errors, what sigma is worth, and, where there is no truth, what was estimated."""
    candidates = [
        *result.figures,
        *error_figures(result),
        *honesty_figures(result),
        *_path_figures(result),
        *_run_figures(result),
    ]
    found: dict[str, KeyFigure] = {}
    for figure in candidates:
        found.setdefault(figure.label, figure)
    return tuple(found.values())[:COUNT]


def error_figures(result: EvaluationResult) -> Iterator[KeyFigure]:
    """RMS error of each part with a truth: of a position as a distance, of angles as one."""
    for name in result.parts:
        group = _group(result, name)
        if (error := _number(group, "position_ate_rmse_m")) is not None:
            yield KeyFigure("Position error", _quantity(error, "m"), "RMS of the distance")
            if (heading := _number(group, "heading_rmse_deg")) is not None:
                yield KeyFigure("Heading error", f"{format_number(heading, 3)} deg", "RMS")
        elif (angle := _number(group, "rmse_deg")) is not None:
            yield KeyFigure(f"{words(name)}: error", f"{format_number(angle, 3)} deg", "RMS")
        else:
            part = result.parts[name]
            unit = part.units[0] if part.units and set(part.units) == {part.units[0]} else ""
            rms = [_number(group, f"{one}_rmse{unit_suffix(unit)}") for one in part.names]
            known = [one for one in rms if one is not None]
            if unit in ("m", "m/s", "m/s^2") and len(known) == len(part.names):
                yield KeyFigure(f"{words(name)}: error", _quantity(math.hypot(*known), unit), "RMS")


def honesty_figures(result: EvaluationResult) -> Iterator[KeyFigure]:
    """Of the part whose uncertainty is worst: share of errors within it, and mean NEES."""
    groups = {name: _group(result, name) for name in result.parts}
    shares = {name: one for name, group in groups.items() if (one := _number(group, "coverage_1_sigma")) is not None}
    if shares:
        worst = min(shares, key=lambda name: shares[name])
        third = _number(groups[worst], "coverage_3_sigma")
        value = f"{100.0 * shares[worst]:.0f} %" + (
            f" / {format_number(100.0 * third, 3)} %" if third is not None else ""
        )
        label = "Errors within 1 / 3 sigma" if third is not None else "Errors within 1 sigma"
        yield KeyFigure(label, value, f"{words(worst).lower()}; Gaussian: 68 / 99.7 %")
    key = "mean_nees_per_degree_of_freedom"
    nees = {name: one for name, group in groups.items() if (one := _number(group, key)) is not None}
    if nees:
        worst = max(nees, key=lambda name: nees[name])
        note = f"mean NEES per degree of freedom, {words(worst).lower()}; expected 1"
        yield KeyFigure("Squared error / claimed", format_number(nees[worst], 3), note)


def _path_figures(result: EvaluationResult) -> Iterator[KeyFigure]:
    for name in result.parts:
        group = _group(result, name)
        length = _number(group, "true_path_length_m")
        percent = _number(group, "final_position_error_percent_of_path")
        if percent is not None and length is not None:
            note = f"of the path of {_quantity(length, 'm')}"
            yield KeyFigure("Position error at the end", f"{format_number(percent, 3)} %", note)
        if (largest := _number(group, "position_ate_max_m")) is not None:
            yield KeyFigure("Largest position error", _quantity(largest, "m"))


def _run_figures(result: EvaluationResult) -> Iterator[KeyFigure]:
    """What can be said of every run."""
    duration_s = float(result.time_s[-1] - result.time_s[0])
    yield KeyFigure("Duration", f"{format_number(duration_s)} s")
    yield KeyFigure("Truth", f"{100.0 * result.matched_ratio:.0f} %", "of the estimates have one")
    received = sum(counts.get("received", 0.0) for counts in result.sensors.values())
    if received > 0.0:
        used = sum(counts.get("used", 0.0) for counts in result.sensors.values())
        yield KeyFigure("Readings used", f"{100.0 * used / received:.1f} %", f"of {received:.0f}")
    yield KeyFigure("Estimates", str(result.time_s.size))
    yield KeyFigure("Sensors", str(len(result.sensors)))
    yield KeyFigure("Parts estimated", str(len(result.parts)))


def _group(result: EvaluationResult, name: str) -> Mapping[str, Any]:
    group = result.metrics.get(name)
    return group if isinstance(group, Mapping) else {}


def _number(group: Mapping[str, Any], key: str) -> float | None:
    """None where it is missing, not finite or a list."""
    value = group.get(key)
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None


def _quantity(value: float, unit: str) -> str:
    shown, factor = display_unit(unit, abs(value))
    return f"{format_number(factor * value, 3)} {shown}"
