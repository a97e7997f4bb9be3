"""Markers of a real soft arm and of a beam of silicone, as motion capture writes them (.c3d).

Set `soft_arm`: recordings of the Soft Robotics Lab of ETH Zurich for the sim-to-real comparison of DiffPD. A marker is
named after the body that it is on, and numbered: `Base - 1`, `Tip - 3`. The pressure of an arm is no signal there: it
is the setting of a valve, in the file's name, switched on and off at times that nobody wrote down.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import c3d
import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Channel
from onboard_estimation.base.series import Recording, Series, truth_channel
from onboard_estimation.contract.converters import Converted
from recorded_robots.files import reading

_METRES = {"m": 1.0, "cm": 0.01, "mm": 0.001}
_FARTHEST_M = 100.0  # from the capture's origin: what is farther away is another unit, or no marker
_MARKER = re.compile(r"(.*?)[\s_-]*(\d+)")
_PRESSURE = re.compile(r"(\d+)mbar", re.IGNORECASE)
_SLOWEST_HZ, _FASTEST_HZ = 0.1, 1e5
_FEWEST_OF_A_BODY = 3
_LEAST_SPREAD_M = 1e-3  # of markers across the line that fits them best: on a line, nobody sees turns about it


def read_soft_arm(path: Path, as_recorded: bool = False) -> Converted:
    """Markers of a soft arm or of a beam (.c3d): points, and poses of the bodies that carry three or more.

    A pose's origin is in the middle of the body's markers, its orientation the turn since the first frame that shows
    them all. Axes are those of the capture. Hidden markers are left out and counted. Stamps start at 1 s, for the file
    holds no date.

    Raises
    ------
    UserError
        No such file or none of its kind, no markers, names that repeat, an unknown unit.
    """
    path = Path(path)
    file = _read(path)
    markers, frames = _markers(path, file), len(file.points)
    notes = [] if file.unit == "m" else [f"Markers were in {file.unit}; they are in m."]
    if frames < file.announced:
        notes.append(f"The file is cut: {frames} of {file.announced} frames can be read.")
    if as_recorded:
        notes.append("Nothing of such a file is mended: --as-recorded changes nothing.")
    stamps_ns = np.round(np.arange(frames) * (NANOSECONDS_PER_SECOND / file.rate_hz)).astype(np.int64)
    series = []
    for name, positions in markers.items():
        seen = np.isfinite(positions).all(axis=1)
        if not seen.all():
            notes.append(f"{name}: hidden in {np.sum(~seen)} of {frames} frames.")
        topic = f"ground_truth/{name}/position"
        channel = Channel(topic, "geometry_msgs/msg/PointStamped", f"ground_truth/{name}")
        series.append(Series(channel, stamps_ns[seen], positions[seen]))
    for body, names in _bodies(markers).items():
        poses, said = _poses(body, np.stack([markers[name] for name in names], axis=1), stamps_ns)
        series += poses
        notes.append(said)
    notes.append("Axes are those of the capture, which need not have z up.")
    counts = {"markers": len(markers), "frames": frames}
    if nominal := _PRESSURE.search(path.name):
        counts["nominal_pressure_mbar"] = int(nominal.group(1))
        notes.append(f"The valve was set to {nominal.group(1)} mbar (the file's name), at times that nobody recorded.")
    return Converted(recording=Recording((), tuple(series)), notes=tuple(notes), counts=counts)


class _Content(NamedTuple):
    """What a .c3d file says: names, unit, frames a second and their number; (K, M, 4) x y z residual of those there."""

    labels: list[str]
    unit: str
    rate_hz: float
    announced: int
    points: NDArray[np.float64]


def _read(path: Path) -> _Content:
    with reading(path, "readable c3d file"), path.open("rb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "No analog data found in file"
        reader: Any = c3d.Reader(file)
        unit = reader.get("POINT:UNITS")
        rows = [points[:, :4].copy() for _, points, _ in reader.read_frames()]
        return _Content(
            [label.strip() for label in reader.point_labels],
            "" if unit is None else str(unit.string_value).strip(),
            float(reader.point_rate),
            int(reader.frame_count),
            np.array(rows, dtype=np.float64).reshape(len(rows), -1, 4),
        )


def _markers(path: Path, content: _Content) -> dict[str, NDArray[np.float64]]:
    """(K, 3) positions of each marker in m, NaN where hidden."""
    labels, points = content.labels, content.points
    shown, unit = ", ".join(label or "(none)" for label in labels), content.unit
    if not len(points) or not labels:
        raise UserError(
            f"{path} holds {len(points)} frames of {len(labels)} markers; there must be one of each at least"
        )
    if points.shape[1] != len(labels):
        raise UserError(f"{path} has {points.shape[1]} markers and names {len(labels)}: {shown}")
    if not _SLOWEST_HZ <= content.rate_hz <= _FASTEST_HZ:
        raise UserError(
            f"{path} has {content.rate_hz:g} frames a second; a capture has {_SLOWEST_HZ:g} to {_FASTEST_HZ:g}"
        )
    if unit not in _METRES:
        raise UserError(f"{path}: markers are in {unit or 'no unit'}; known are {', '.join(_METRES)}")
    names = [_topic_name(label) for label in labels]
    if len(set(names)) < len(names) or not all(names):
        raise UserError(f"{path}: names of markers must be there and differ, got {shown}")
    positions = points[:, :, :3] * _METRES[unit]
    positions[points[:, :, 3] < 0.0] = np.nan  # c3d: a negative residual marks what was not seen
    farthest = float(np.abs(positions[np.isfinite(positions)]).max(initial=0.0))
    if farthest > _FARTHEST_M:
        raise UserError(f"{path}: a marker is {farthest:.3g} m from the origin; its unit is said to be {unit}")
    empty = [name for place, name in enumerate(names) if not np.isfinite(positions[:, place]).all(axis=1).any()]
    if empty:
        raise UserError(f"{path}: {', '.join(empty)} can be seen in no frame")
    return {name: positions[:, place] for place, name in enumerate(names)}


def _topic_name(label: str) -> str:
    """A marker's name as a topic can have it: `Base - 1` is base_1."""
    return re.sub(r"[^a-z0-9]+", "_", label.lower()).strip("_")


def _bodies(markers: Mapping[str, Any]) -> dict[str, list[str]]:
    """Names of the markers of each body that has enough of them."""
    bodies: dict[str, list[str]] = {}
    for name in markers:
        if (match := _MARKER.fullmatch(name)) and match.group(1):
            bodies.setdefault(match.group(1), []).append(name)
    return {body: names for body, names in bodies.items() if len(names) >= _FEWEST_OF_A_BODY}


def _poses(body: str, positions: NDArray[np.float64], stamps_ns: NDArray[np.int64]) -> tuple[list[Series], str]:
    """Pose of a body by its markers' (K, M, 3) positions, none where they cannot tell; and a sentence on it."""
    seen = np.isfinite(positions).all(axis=(1, 2))
    if not seen.any():
        return [], f"{body}: no frame shows all its {positions.shape[1]} markers, so that it has no pose."
    shown = positions[seen]
    middles = shown.mean(axis=1)
    arms = shown - middles[:, None]
    spread_m = float(np.linalg.svd(arms[0], compute_uv=False)[1])
    if spread_m < _LEAST_SPREAD_M:
        return [], f"{body}: its markers are on a line within {spread_m * 1e3:.2f} mm, so that it has no pose."
    poses, misfits = np.empty((len(shown), 7)), np.empty(len(shown))
    poses[:, :3] = middles
    for frame, turned in enumerate(arms):
        turn, misfits[frame] = Rotation.align_vectors(turned, arms[0])
        poses[frame, 3:] = turn.as_quat()
    misfit_mm = float(np.sqrt(np.mean(misfits**2) / positions.shape[1])) * 1e3
    said = f"{body}: pose of its {positions.shape[1]} markers, which fit a rigid body within {misfit_mm:.2f} mm RMS."
    return [Series(truth_channel(body), stamps_ns[seen], poses)], said
