"""Recordings of markers, written as .c3d by the library's own writer."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ARMS_M = np.array([[0.02, 0.0, 0.0], [-0.01, 0.02, 0.0], [-0.01, -0.02, 0.0]])
"""Of three markers on a body, about their middle."""


def write_markers(
    file: Path,
    markers: NDArray[np.float64],
    labels: Sequence[str],
    unit: str = "m",
    hidden: Sequence[tuple[int, int]] = (),
) -> Path:
    """Frames of markers (K, M, 3) at 100 Hz; `hidden` by frame and marker."""
    import c3d

    writer = c3d.Writer(point_rate=100.0, point_units=unit)
    points = np.zeros((*markers.shape[:2], 5), dtype=np.float32)
    points[:, :, :3] = markers
    for frame, marker in hidden:
        points[frame, marker, 3] = -1.0
    writer.add_frames([(frame, np.array([[]])) for frame in points])
    writer.set_point_labels(list(labels))
    with file.open("wb") as stream, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        writer.write(stream)
    return file


def write_two_bodies(
    file: Path, tip_m: NDArray[np.float64], turns_xyzw: NDArray[np.float64], base_m: NDArray[np.float64]
) -> Path:
    """A tip whose middle is at (K, 3) with orientations (K, 4), and a base that rests with markers at (3, 3)."""
    from scipy.spatial.transform import Rotation

    arms = Rotation.from_quat(np.repeat(turns_xyzw, 3, axis=0)).apply(np.tile(ARMS_M, (len(tip_m), 1)))
    tips = tip_m[:, None] + arms.reshape(-1, 3, 3)
    markers = np.concatenate([np.broadcast_to(base_m, tips.shape), tips], axis=1)
    return write_markers(file, markers, [f"{body} - {k}" for body in ("Base", "Tip") for k in (1, 2, 3)])
