"""A recording for Rerun's viewer: curves with their bands, ways, and poses of the base, over the run's time."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from onboard_estimation import picture
from onboard_estimation.errors import UserError
from onboard_estimation.live.view_plots import Curve, whole_curves
from onboard_estimation.live.view_record import Rows, ShownRun
from onboard_estimation.measurement import Vector
from onboard_estimation.ros.transforms import base_pose

TIMELINE = "time"
"""Seconds since the first estimate."""
_CURVES, _SCENE, _NOTES = "curves", "scene", "notes"
_SERIES = (
    ("estimate", picture.ESTIMATE_COLOUR),
    ("truth", picture.TRUTH_COLOUR),
    ("lower", picture.BAND_COLOUR),
    ("upper", picture.BAND_COLOUR),
)


class _Robot(NamedTuple):
    """What it is called, and what is drawn of it."""

    name: str
    run: ShownRun
    curves: list[Curve]


def write_rerun(runs: list[ShownRun], path: Path) -> int:
    """Write robots into one recording, which must not exist; gives how many estimates it holds.

    Raises
    ------
    UserError
        Rerun's SDK is not installed, the file exists, or cannot be written.
    """
    rerun = _rerun()
    if path.exists():
        raise UserError(f"{path} exists; name another file")
    if not path.absolute().parent.is_dir():
        raise UserError(f"{path}: {path.absolute().parent} is no folder; make it first")
    stream = rerun.RecordingStream("onboard_estimation", recording_id=str(uuid.uuid4()))
    robots = [
        _Robot(run.subject.namespace.strip("/") or run.subject.robot.name, run, whole_curves(run)) for run in runs
    ]
    try:
        stream.save(str(path), default_blueprint=_layout(rerun, robots))
        for one in robots:
            _write(rerun, stream, one)
    except (OSError, RuntimeError) as error:
        raise UserError(f"cannot write {path}: {error}") from error
    finally:
        stream.disconnect()
    return sum(len(run.stamps_ns) for run in runs)


def _write(rerun: ModuleType, stream: Any, one: _Robot) -> None:
    robot, run, curves = one
    for curve in curves:
        for (name, colour), values in zip(
            _SERIES, (curve.estimate, curve.truth, curve.lower, curve.upper), strict=True
        ):
            known = np.isfinite(values)
            if not known.any():
                continue
            entity = rerun.new_entity_path([robot, _CURVES, curve.title, name])
            stream.log(entity, rerun.SeriesLines(names=name, colors=_colour(colour)), static=True)
            when = [_when(rerun, curve.time_s[known])]
            stream.send_columns(entity, indexes=when, columns=rerun.Scalars.columns(scalars=values[known]))
    for (name, colour), way in zip(_SERIES, run.ways(), strict=False):
        if len(way):
            lying = np.column_stack([way, np.zeros(len(way))])
            stream.log(f"{robot}/{_SCENE}/way/{name}", rerun.LineStrips3D([lying], colors=_colour(colour)), static=True)
    for name, colour, poses in _bodies(run):
        known = np.asarray(np.isfinite(poses).all(axis=1), dtype=np.bool_)
        if not known.any():
            continue
        entity, when = f"{robot}/{_SCENE}/{name}", [_when(rerun, run.time_s[known])]
        stream.log(entity, rerun.Points3D([[0.0, 0.0, 0.0]], radii=0.01, colors=_colour(colour)), static=True)
        moved = {"translation": poses[known, :3], "quaternion": poses[known, 3:]}
        if poses.shape[1] == 3:
            del moved["quaternion"]
        stream.send_columns(entity, indexes=when, columns=rerun.Transform3D.columns(**moved))
    if run.notes:
        markdown = rerun.MediaType.MARKDOWN
        stream.log(f"{robot}/{_NOTES}", rerun.TextDocument("\n\n".join(run.notes), media_type=markdown), static=True)


def _bodies(run: ShownRun) -> Iterator[tuple[str, str, Rows]]:
    """Name, colour and poses (K, 7), x, y, z, quaternion, or places (K, 3): of the base, and of bodies with truth."""
    bases = [base_pose(run.subject.space, mean) for mean in run.means]
    if bases[0] is not None:
        yield "base_link", picture.ESTIMATE_COLOUR, np.array(bases)
    for name, poses in run.bodies.items():
        yield f"truth/{name}", picture.TRUTH_COLOUR, poses


def _layout(rerun: ModuleType, robots: list[_Robot]) -> Any:
    """The scene beside the curves."""
    import rerun.blueprint as layout

    titles = [(robot, curve.title) for robot, _, curves in robots for curve in curves]
    charts = [
        layout.TimeSeriesView(origin=rerun.new_entity_path([robot, _CURVES, title]), name=title)
        for robot, title in titles
    ]
    contents = [f"/{robot}/{_SCENE}/**" for robot, _, _ in robots]
    scene = layout.Spatial3DView(origin="/", contents=contents, name="scene")
    notes = [layout.TextDocumentView(origin=f"{robot}/{_NOTES}", name="notes") for robot, run, _ in robots if run.notes]
    left = layout.Vertical(scene, *notes, row_shares=[3.0, *(1.0 for _ in notes)])
    return layout.Blueprint(layout.Horizontal(left, layout.Grid(*charts)), collapse_panels=True)


def _when(rerun: ModuleType, time_s: Vector) -> Any:
    return rerun.TimeColumn(TIMELINE, duration=time_s)


def _colour(text: str) -> list[int]:
    """Red, green, blue of `#rrggbb`."""
    return [int(text[place : place + 2], 16) for place in (1, 3, 5)]


def _rerun() -> ModuleType:
    try:
        import rerun
    except ImportError as error:
        raise UserError("a recording for Rerun needs its SDK: pip install 'onboard_estimation[rerun]'") from error
    return rerun
