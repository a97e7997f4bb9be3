"""A robot in viser: the markers that RViz shows, drawn in the browser; and charts beside the picture.

The charts have the error of each dimension, or its value, with a band of two standard deviations.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import Vector
from onboard_estimation.contract import picture
from onboard_estimation.filtering.manifold_kernels import ANGLES, SO3
from onboard_estimation.live.followed import Moment, Rows, ShownRun, Subject
from onboard_estimation.ros.markers import CUBE, CYLINDER, LINE_LIST, LINE_STRIP, SPHERE, TEXT, TRIANGLE_LIST, Scene

_INK = "#282828"
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
        self._scene = _Scene(_plain, subject.robot, subject.configuration, subject.space, ink=_INK)
        self._looks: dict[str, Any] = {}
        self._drawn: dict[str, Any] = {}

    def show(self, moment: Moment, *ways: Rows) -> None:
        """Draw a moment, and the estimated and the true way (k, 2) up to it."""
        markers = self._scene.picture(moment.estimate, moment.bodies, ways, moment.truth)
        named = {f"{self._root}/{marker.ns}/{marker.id}": marker for marker in markers}
        with self._server.atomic():
            for name, marker in named.items():
                look = marker.type, marker.scale, marker.color  # another one where a body before it is not seen
                if self._looks.get(name) != look:
                    self._looks[name], self._drawn[name] = look, self._added(name, marker)
                self._move(self._drawn[name], marker)
            for name, handle in self._drawn.items():
                if handle.visible != (name in named):
                    handle.visible = name in named

    def _added(self, name: str, marker: Any) -> Any:
        scene, said = self._server.scene, marker.color
        colour = tuple(round(255 * part) for part in (said.r, said.g, said.b))
        look: dict[str, Any] = {"color": colour, "opacity": said.a, "cast_shadow": False}
        if marker.type == TEXT:
            return scene.add_label(name, "", anchor="bottom-center", font_screen_scale=1.1)
        if marker.type == CUBE:
            return scene.add_box(name, dimensions=_xyz(marker.scale), **look)
        if marker.type == CYLINDER:
            return scene.add_cylinder(name, radius=0.5 * marker.scale.x, height=marker.scale.z, **look)
        if marker.type == SPHERE:
            return scene.add_icosphere(name, radius=0.5 * marker.scale.x, **look)
        if marker.type == TRIANGLE_LIST:
            faces = np.arange(len(marker.points)).reshape(-1, 3)
            return scene.add_mesh_simple(name, marker.points, faces, side="double", **look)
        return scene.add_line_segments(name, _segments(marker), colour, thickness=marker.scale.x)

    def _move(self, handle: Any, marker: Any) -> None:
        """To where the marker is now, and what it says now."""
        if marker.type == TEXT:
            handle.text = f"{self._subject.namespace}\n{marker.text}"
        if marker.type == TRIANGLE_LIST:
            handle.vertices = marker.points
        elif marker.type in (LINE_STRIP, LINE_LIST):
            handle.points = _segments(marker)
        else:
            turn = marker.pose.orientation
            handle.position, handle.wxyz = _xyz(marker.pose.position), (turn.w, turn.x, turn.y, turn.z)


class _Scene(Scene):
    """Markers whose points are an array: of a way there are a thousand, many times a second."""

    def points(self, rows: Rows, height_m: float = 0.0) -> NDArray[np.float32]:
        """(K, 3)."""
        return np.column_stack([rows, np.full(len(rows), height_m)])[:, :3].astype(np.float32)


def _plain(_: str, **fields: Any) -> SimpleNamespace:
    """A message that nobody sends."""
    return SimpleNamespace(**fields)


def _xyz(one: Any) -> tuple[float, float, float]:
    return one.x, one.y, one.z


def _segments(marker: Any) -> NDArray[np.float32]:
    """(K, 2, 3) of a marker of lines."""
    joined = np.stack([marker.points[:-1], marker.points[1:]], axis=1)
    return joined if marker.type == LINE_STRIP else joined[::2]


def curves(record: ShownRun) -> dict[str, tuple[Vector, ...]]:
    """Of each dimension, angles first, its error where there is a truth, else its value; at most six plots.

    By title: time, upper and lower end of a band of two deviations, value (K,), where it is known, in the unit of the
    title. Time counts back from the last estimate. A value would hide its error.
    """
    space, errors, count = record.subject.space, record.errors(), len(record.stamps_ns)
    chosen = np.unique(np.linspace(0, count - 1, min(count, _POINTS)).astype(np.intp))
    time_s = record.time_s[chosen] - record.time_s[-1]
    deviations = np.sqrt(np.maximum(np.diagonal(record.covariances[chosen], axis1=1, axis2=2), 0.0))
    out: dict[str, tuple[Vector, ...]] = {}
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
            known = np.isfinite(value)  # without, uPlot finds no axes
            out[title] = tuple(one[known] for one in (time_s, middle + band, middle - band, value))
    return dict(islice(out.items(), MOST_PLOTS))


class Plots:
    """The curves of one robot as uPlot charts in viser's panel, under its namespace."""

    def __init__(self, server: Any, namespace: str) -> None:
        self._server, self._namespace = server, namespace
        self._charts: dict[str, Any] = {}

    def show(self, found: Mapping[str, tuple[Vector, ...]]) -> None:
        """Draw the curves."""
        for title in self._charts.keys() - found.keys():  # truth has come, or has gone
            self._charts.pop(title).remove()
        for title, data in found.items():
            if title in self._charts:
                self._charts[title].data = data
            else:
                self._charts[title] = self._add(title, data)

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
            scales={"x": {"time": False}},
            legend={"show": False},
            height=_HEIGHT_PX,
        )
