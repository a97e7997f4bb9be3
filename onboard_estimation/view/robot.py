"""A robot in viser: bodies, 95 % ellipses, the heading's wedge, ways, errors in words; and charts beside the picture.

The charts have the error of each dimension, or its value, with a band of two standard deviations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from onboard_estimation.base.measurement import Vector
from onboard_estimation.contract import picture
from onboard_estimation.contract.description import Shape
from onboard_estimation.contract.reported import outline_of, poses_of_bodies, shapes_of_bodies
from onboard_estimation.filtering.manifold_kernels import ANGLES, SO3
from onboard_estimation.live.followed import Moment, Rows, ShownRun, Subject
from onboard_estimation.ros.transforms import from_roll_pitch_yaw

_SHADE = {"body": 1.0, "wheel": 0.5, "joint": 0.3}
_LINE, _ABOVE, _WEDGE = 0.004, 0.055, 0.35
"""As shares of the robot's length: lines, height of what is drawn over the robot, radius of the wedge."""
_BESIDE, _CAP = 0.3, 0.05
"""The same of a robot that is seen from the side: distance of the bar beside it, half-width of its ends."""
_INK = (40, 40, 40)
MOST_PLOTS = 6
_POINTS = 700
_HEIGHT_PX = 150


class RobotPicture:
    """Draws one robot; all is in metres in the world.

    Parameters
    ----------
    server
        A `viser.ViserServer`.
    """

    def __init__(self, server: Any, subject: Subject) -> None:
        self._server, self._subject = server, subject
        self._root = f"/{subject.namespace.strip('/') or 'robot'}"
        self._shapes = shapes_of_bodies(subject.robot, subject.configuration)
        self.size_m = picture.size_m(subject.robot, subject.configuration, subject.space)
        blue = _rgb(picture.ESTIMATE_COLOUR)
        self._estimate = {name: self._body(f"estimate/{name}", shapes, blue) for name, shapes in self._shapes.items()}
        self._truth: dict[str, Any] = {}
        self._lines: dict[str, Any] = {}
        self._label = server.scene.add_label(f"{self._root}/error", "", anchor="bottom-left", font_screen_scale=1.1)

    def show(self, moment: Moment, way: Rows, true_way: Rows) -> None:
        """Draw a moment and the ways (k, 2) up to it."""
        estimate, subject = moment.estimate, self._subject
        with self._server.atomic():
            poses = poses_of_bodies(subject.robot, subject.configuration, subject.space, estimate.mean[None])
            for name, frame in self._estimate.items():
                _place(frame, poses[name][0])
            if not self._estimate:
                self._draw_outline(estimate.mean)
            self._draw_truth(moment.bodies)
            self._draw_uncertainty(moment, poses)
            self._draw_line("way", _joined(way), _rgb(picture.ESTIMATE_COLOUR), 0.0)
            self._draw_line("true_way", _joined(true_way), _rgb(picture.TRUTH_COLOUR), 0.0)

    def _body(
        self, name: str, shapes: tuple[Shape, ...], colour: tuple[int, int, int], opacity: float | None = None
    ) -> Any:
        """A frame with the body's solids in it."""
        scene = self._server.scene
        frame = scene.add_frame(f"{self._root}/{name}", show_axes=False)
        for index, shape in enumerate(shapes):
            pose = from_roll_pitch_yaw([*shape.position_m, *shape.rpy_rad])
            shade = _SHADE[shape.part]
            look: dict[str, Any] = {
                "color": tuple(round(shade * part) for part in colour),
                "opacity": opacity,
                "position": tuple(pose[:3]),
                "wxyz": (pose[6], *pose[3:6]),
                "cast_shadow": False,
            }
            part = f"{self._root}/{name}/{index}"
            if shape.kind == "box":
                scene.add_box(part, dimensions=shape.size_m, **look)
            else:
                scene.add_cylinder(part, radius=0.5 * shape.size_m[0], height=shape.size_m[2], **look)
        return frame

    def _draw_truth(self, bodies: Mapping[str, Vector]) -> None:
        ball = (Shape("box", (0.25 * self.size_m,) * 3),)  # of a body that nobody says more of
        for name, pose in bodies.items():
            if name not in self._truth:
                shapes = self._shapes.get(name, ball)
                self._truth[name] = self._body(f"truth/{name}", shapes, _rgb(picture.TRUTH_COLOUR), 0.6)
            _place(self._truth[name], np.concatenate([pose, [0.0, 0.0, 0.0, 1.0]])[:7] if len(pose) == 3 else pose)
        for name, frame in self._truth.items():
            if frame.visible != (name in bodies):
                frame.visible = name in bodies

    def _draw_outline(self, mean: Vector) -> None:
        subject = self._subject
        outline = outline_of(subject.robot, subject.configuration, subject.space, mean[None])
        if outline is None:
            return
        points = outline[0]
        if len(points) == 1:  # a cross at a point
            reach = 0.15 * self.size_m * np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, -1.0], [0.0, 1.0]])
            segments = (points + reach).reshape(2, 2, 2)
        else:
            segments = _joined(points)
        self._draw_line("outline", segments, _rgb(picture.ESTIMATE_COLOUR), _ABOVE, 3.0)

    def _draw_uncertainty(self, moment: Moment, poses: Mapping[str, Rows]) -> None:
        estimate, subject = moment.estimate, self._subject
        height = picture.height_uncertainty(subject.space, estimate)
        if height is not None:
            bar = picture.bar(height, _BESIDE * self.size_m, _CAP * self.size_m)
            self._draw_line("height_95", bar, _rgb(picture.BAND_COLOUR), 0.0)
            self._write(moment, (0.0, 0.0, height.height_m + 0.3 * self.size_m))
            return
        base = picture.base_uncertainty(subject.space, estimate)
        if base is None:
            return
        self._draw_line("position_95", _joined(picture.ellipse(base.position_m, base.covariance_m2)), _INK, _ABOVE)
        if poses:
            covariances = picture.body_covariances(subject.robot, subject.configuration, subject.space, estimate)
            outlines = [_joined(picture.ellipse(poses[name][0, :2], one)) for name, one in covariances.items()]
            self._draw_line("bodies_95", np.concatenate(outlines), _rgb(picture.BAND_COLOUR), _ABOVE)
        arc = picture.wedge(base, _WEDGE * self.size_m)
        if arc is not None:
            outline = np.vstack([base.position_m, arc, base.position_m])
            self._draw_line("heading_95", _joined(outline), _rgb(picture.BAND_COLOUR), _ABOVE)
        x, y = base.position_m
        self._write(moment, (x, y + 0.3 * self.size_m, _ABOVE * self.size_m))

    def _write(self, moment: Moment, place: tuple[float, float, float]) -> None:
        """Errors and standard deviations, in words, at a place."""
        rows = picture.error_rows(self._subject.space, moment.estimate, moment.truth)
        self._label.text = f"{self._subject.namespace}\n{picture.error_text(rows)}"
        self._label.position = place

    def _draw_line(
        self, name: str, segments: Rows, colour: tuple[int, int, int], above: float, width: float = 1.0
    ) -> None:
        """Segments (k, 2, 2) in the plane, drawn `above` it, or (k, 2, 3) in space."""
        heights = np.full((*segments.shape[:2], 1), above * self.size_m)
        points = np.concatenate([segments, heights], axis=2)[:, :, :3].astype(np.float32)
        handle = self._lines.get(name)
        if not len(points):
            if handle is not None:
                handle.visible = False
            return
        if handle is None:
            self._lines[name] = self._server.scene.add_line_segments(
                f"{self._root}/{name}", points, colour, thickness=width * _LINE * self.size_m
            )
            return
        handle.points = points
        if not handle.visible:
            handle.visible = True


def _place(frame: Any, pose: Vector) -> None:
    frame.position = tuple(pose[:3])
    frame.wxyz = (pose[6], *pose[3:6])


def _joined(points: Rows) -> Rows:
    """Segments (k - 1, 2, 2) of a polyline (k, 2)."""
    return np.stack([points[:-1], points[1:]], axis=1) if len(points) > 1 else np.zeros((0, 2, 2))


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


class Curve(NamedTuple):
    """One plot: all arrays (K,), in the unit of the title; NaN where there is none. The band is two deviations wide."""

    title: str
    time_s: Vector
    value: Vector
    lower: Vector
    upper: Vector


def curves(record: ShownRun) -> list[Curve]:
    """Of each dimension, angles first, its error where there is a truth, else its value; at most six plots.

    Time counts back from the last estimate. A value would hide its error.
    """
    space, errors, count = record.subject.space, record.errors(), len(record.stamps_ns)
    chosen = np.unique(np.linspace(0, count - 1, min(count, _POINTS)).astype(np.intp))
    time_s = record.time_s[chosen] - record.time_s[-1]
    deviations = np.sqrt(np.maximum(np.diagonal(record.covariances[chosen], axis1=1, axis2=2), 0.0))
    out = []
    for block in sorted(space.blocks, key=lambda one: one.kind != ANGLES):
        error = errors.get(block.name)
        if error is None and block.kind == SO3:
            continue  # a quaternion's numbers tell nothing
        shown = record.means[:, space.coordinates(block.name)] if error is None else error
        for index, unit in enumerate(block.units):
            name, (word, factor) = picture.dimension_name(space, block, index), picture.display_unit(unit)
            title = f"{name} ({word})" if error is None else f"{name} error ({word})"
            value = factor * shown[chosen, index]
            middle = value if error is None else np.zeros(len(value))
            band = 2.0 * factor * deviations[:, space.tangent(block.name).start + index]
            out.append(Curve(title, time_s, value, middle - band, middle + band))
    return out[:MOST_PLOTS]


class Plots:
    """The curves of one robot as uPlot charts in viser's panel, under its namespace."""

    def __init__(self, server: Any, namespace: str) -> None:
        self._server, self._namespace = server, namespace
        self._charts: dict[str, Any] = {}

    def show(self, found: list[Curve]) -> None:
        """Draw the curves."""
        for title in self._charts.keys() - {curve.title for curve in found}:  # truth has come, or has gone
            self._charts.pop(title).remove()
        for curve in found:
            data = curve.time_s, curve.upper, curve.lower, curve.value
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
            {"label": "estimate", "stroke": picture.ESTIMATE_COLOUR, "width": 1.5, "points": {"show": False}},
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
