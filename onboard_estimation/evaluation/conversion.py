"""Recordings of other groups as ROS 2 bags."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, cast

from hopper_estimation.pyshoe import read_pyshoe
from onboard_estimation.evaluation.bag_writing import BagWriter
from onboard_estimation.evaluation.simulated_bags import write_series
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND

Converter = Callable[[Path, Path, str, bool], dict[str, Any]]


def convert_pyshoe(
    mat_path: Path, output: Path, storage: str = "mcap", truth_as_recorded: bool = False
) -> dict[str, Any]:
    """Write a walk of the PyShoe set as a bag; what was written, for a summary.

    The bag holds `imu/foot/data_raw` (frame `imu_foot`, no orientation) and `ground_truth/foot/position` (frame
    `world`, mirrored in y to be right-handed unless `truth_as_recorded`). The truth has no orientation.

    Raises
    ------
    UserError
        The file is no such recording (see `read_pyshoe`), or the bag cannot be written.
    """
    content = read_pyshoe(Path(mat_path), truth_as_recorded)
    series = [*content.recording.sensors, *content.recording.truth]
    description = {"source": "recorded", "format": "pyshoe", "file": Path(mat_path).name}
    with BagWriter(output, cast(Literal["mcap", "sqlite3"], storage), custom_data=description) as writer:
        write_series(writer, series, "", content.epoch_ns)
        count = writer.message_count
    stamps = content.recording.sensors[0].stamps_ns
    return {
        **description,
        "path": str(output),
        "messages": count,
        "topics": len(series),
        "duration_s": float(stamps[-1] - stamps[0]) / NANOSECONDS_PER_SECOND,
        "notes": list(content.notes),
    }


CONVERTERS: Mapping[str, Converter] = {"pyshoe": convert_pyshoe}
"""By the name that users type: functions of file, bag to write, its storage, and whether to leave the truth be."""
