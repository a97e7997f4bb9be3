"""Curves beside the picture: each dimension with its band of two standard deviations and its truth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from onboard_estimation import picture
from onboard_estimation.filtering.manifold_kernels import ANGLES, SE2, VECTOR
from onboard_estimation.filtering.state_space import Block
from onboard_estimation.live.followed import Rows, ShownRun
from onboard_estimation.measurement import Vector

MOST_PLOTS = 6
_POINTS = 700
_HEIGHT_PX = 150


@dataclass(frozen=True, eq=False)
class Curve:
    """One plot: all arrays (K,), in `unit`; NaN where there is none.

    Attributes
    ----------
    estimate
        What the curve shows: of a position, the distance from the truth.
    """

    title: str
    time_s: Vector
    estimate: Vector
    truth: Vector
    lower: Vector
    upper: Vector


def curves(record: ShownRun, until_now: bool = False) -> list[Curve]:
    """Joint angles against the truth, errors, then all other dimensions; at most six plots.

    Time counts from the first estimate, or, `until_now`, back from the last.

    A position drifts without bound where nothing measures it: its value would hide its error.
    """
    drawn = _Drawn(record, until_now)
    blocks = record.subject.space.blocks
    errors = record.errors()
    out = [curve for block in blocks if block.kind == ANGLES for curve in drawn.values(block)]
    for name, error in errors.items():
        if name == "position" or record.subject.space.block(name).kind == SE2:
            out += drawn.pose_errors(name, error)
    for name, error in errors.items():
        if record.subject.space.block(name).kind == ANGLES:
            out += drawn.angle_errors(name, error)
    out += [
        curve for block in blocks if block.kind == VECTOR and block.name != "position" for curve in drawn.values(block)
    ]
    return out[:MOST_PLOTS]


class _Drawn:
    """A record's curves at no more instants than a chart needs."""

    def __init__(self, record: ShownRun, until_now: bool) -> None:
        self._record, self._space = record, record.subject.space
        self._chosen = _evenly(len(record.stamps_ns), _POINTS)
        self._time_s = record.time_s[self._chosen] - (record.time_s[-1] if until_now else 0.0)
        variances = np.diagonal(record.covariances[self._chosen], axis1=1, axis2=2)
        self._deviations = np.sqrt(np.maximum(variances, 0.0))
        self._unknown = np.full(len(self._chosen), np.nan)

    def values(self, block: Block) -> Iterator[Curve]:
        """Each dimension and its truth."""
        coordinates, tangent = self._space.coordinates(block.name), self._space.tangent(block.name)
        true = self._record.truth.get(block.name)
        for index in range(block.dimension):
            name = picture.dimension_name(self._space, block, index)
            shown, factor = picture.display_unit(block.units[index])
            estimate = factor * self._record.means[self._chosen, coordinates.start + index]
            band = 2.0 * factor * self._deviations[:, tangent.start + index]
            truth = self._unknown if true is None else factor * true[self._chosen, index]
            yield Curve(f"{name} ({shown})", self._time_s, estimate, truth, estimate - band, estimate + band)

    def pose_errors(self, name: str, error: Rows) -> Iterator[Curve]:
        """Distance from the true position, and error of the heading where the block has one."""
        rows = self._space.tangent(name)
        plane = self._record.covariances[self._chosen][:, rows, rows][:, :2, :2]
        bound = 100.0 * np.sqrt(picture.ELLIPSE_SCALE * np.maximum(np.linalg.eigvalsh(plane)[:, -1], 0.0))
        distance = 100.0 * np.linalg.norm(error[self._chosen, :2], axis=1)
        title = "position error, long half-axis of the 95 % ellipse (cm)"
        yield Curve(title, self._time_s, distance, self._unknown, np.zeros(len(bound)), bound)
        if self._space.block(name).kind == SE2:
            yield self._angle_error("heading", rows.start + 2, error[:, 2])

    def angle_errors(self, name: str, error: Rows) -> Iterator[Curve]:
        """Error of each angle around zero: against the angle itself it would not be seen."""
        start = self._space.tangent(name).start
        for index, angle in enumerate(self._space.block(name).names):
            yield self._angle_error(angle, start + index, error[:, index])

    def _angle_error(self, name: str, row: int, error: Vector) -> Curve:
        band = 2.0 * np.rad2deg(self._deviations[:, row])
        return Curve(f"{name} error (deg)", self._time_s, np.rad2deg(error[self._chosen]), self._unknown, -band, band)


class Plots:
    """The curves of one robot as uPlot charts in viser's panel, under its namespace."""

    def __init__(self, server: Any, namespace: str) -> None:
        self._server, self._namespace = server, namespace
        self._charts: dict[str, Any] = {}

    def show(self, found: list[Curve], now_s: float | None = None) -> None:
        """Draw the curves; `now_s` marks the instant that the picture shows."""
        for curve in found:
            data = _data(curve, now_s)
            chart = self._charts.get(curve.title)
            if chart is None:
                self._charts[curve.title] = self._add(curve.title, data)
                continue
            chart.data = data
            if chart.scales != (scales := _scales(data)):
                chart.scales = scales

    def _add(self, title: str, data: tuple[Vector, ...]) -> Any:
        band = picture.BAND_COLOUR
        series: tuple[dict[str, Any], ...] = (
            {"label": "s"},
            {"label": "+2 sigma", "stroke": band, "width": 1, "points": {"show": False}},
            {"label": "-2 sigma", "stroke": band, "width": 1, "points": {"show": False}},
            # As points: a line would run straight through where there is no truth.
            {"label": "truth", "stroke": picture.TRUTH_COLOUR, "width": 0, "points": {"show": True, "size": 4}},
            {"label": "estimate", "stroke": picture.ESTIMATE_COLOUR, "width": 1.5, "points": {"show": False}},
            {"label": "now", "stroke": "#000000", "width": 0, "points": {"show": True, "size": 9, "fill": "#000000"}},
        )
        return self._server.gui.add_uplot(
            data,
            series,
            title=f"{self._namespace}: {title}",
            bands=({"series": (1, 2), "fill": f"{band}40"},),
            scales=_scales(data),
            legend={"show": False},
            height=_HEIGHT_PX,
        )


def _scales(data: tuple[Vector, ...]) -> dict[str, Any]:
    """Axes that hold all numbers: uPlot's own choice is lost where some are not known.

    In round steps, since a chart with other axes is made anew.
    """
    values = np.concatenate(data[1:])
    return {
        "x": {"time": False, "auto": False, "range": _round_range(data[0])},
        "y": {"auto": False, "range": _round_range(values[np.isfinite(values)])},
    }


def _round_range(values: Vector) -> tuple[float, float]:
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    span = max(high - low, 1e-6)
    step = 0.5 * 10.0 ** np.floor(np.log10(span))
    return float(step * np.floor(low / step)), float(step * np.ceil(high / step))


def _data(curve: Curve, now_s: float | None) -> tuple[Vector, ...]:
    now = np.full(len(curve.time_s), np.nan)
    if now_s is not None:
        at = int(np.argmin(np.abs(curve.time_s - now_s)))
        now[at] = curve.estimate[at]
    return curve.time_s, curve.upper, curve.lower, curve.truth, curve.estimate, now


def _evenly(count: int, most: int) -> Any:
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.intp))
