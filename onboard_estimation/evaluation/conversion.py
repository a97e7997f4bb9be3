"""Recordings of other groups, and of devices, as ROS 2 bags."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, cast

from onboard_estimation.converters import GROUP, Converted, Converter
from onboard_estimation.evaluation.bag_configuration import write_configuration
from onboard_estimation.evaluation.bag_writing import BagWriter
from onboard_estimation.evaluation.simulated_bags import write_series
from onboard_estimation.installed import load
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND


def convert(form: str, file: Path, output: Path, storage: str = "mcap", as_recorded: bool = False) -> dict[str, Any]:
    """Write a file of an installed format as a bag; what was written, for a summary.

    Parameters
    ----------
    form
        Name of the format's converter.
    as_recorded
        Leave as it is what the converter would mend.

    Raises
    ------
    UserError
        No such format, the file is none of it, or the bag cannot be written.
    """
    read: Converter = load(GROUP, "format", form)
    content: Converted = read(Path(file), as_recorded)
    series = [*content.recording.sensors, *content.recording.truth]
    source = "simulated" if content.simulated else "recorded"
    description = {"source": source, "format": form, "file": Path(file).name}
    with BagWriter(output, cast(Literal["mcap", "sqlite3"], storage), custom_data=description) as writer:
        write_series(writer, series, "", content.epoch_ns)
        count = writer.message_count
    for robot, configuration in content.configurations.items():
        write_configuration(output, robot, configuration)
    filled = [one.stamps_ns for one in series if len(one.stamps_ns)]
    duration_ns = max(stamps[-1] for stamps in filled) - min(stamps[0] for stamps in filled)
    return {
        **description,
        "path": str(output),
        "messages": count,
        "topics": len(filled),
        "duration_s": float(duration_ns) / NANOSECONDS_PER_SECOND,
        "notes": list(content.notes),
        "counts": dict(content.counts),
        "next": "evaluate" if content.recording.sensors and content.recording.truth else "inspect",
    }
