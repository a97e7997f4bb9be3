"""Recordings of other groups, and of devices, as ROS 2 bags."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from onboard_estimation.evaluation.bag_writing import BagWriter
from onboard_estimation.evaluation.bulk_writing import serialise_alike
from onboard_estimation.evaluation.message_factory import new
from onboard_estimation.evaluation.simulated_bags import write_series
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Vector
from onboard_estimation.robots import Series
from onboard_estimation.ros.sensor_messages import to_message
from strapdown_estimation.pyshoe import read_pyshoe
from strapdown_estimation.quadruped import read_quadruped

Converter = Callable[[Path, Path, str, bool], dict[str, Any]]

_SERIALISED_AT_ONCE = 50_000
# Of recordings without a date: zero is no time in ROS.
_EPOCH_NS = NANOSECONDS_PER_SECOND


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
    return _summary(description, output, series, count, content.notes)


def convert_quadruped(
    csv_path: Path, output: Path, storage: str = "mcap", clocks_as_recorded: bool = False
) -> dict[str, Any]:
    """Write the contact data of a walking quadruped as a bag; what was written, for a summary.

    The bag holds `imu/foot/data_raw` (SI units) and `foot/contact_force` (`sensor_msgs/msg/JointState`, the force in
    counts as `effort` of `fz_counts`), the IMU's clock fitted to the force's unless `clocks_as_recorded`.

    Raises
    ------
    UserError
        The file is no such table (see `read_quadruped`), or the bag cannot be written.
    """
    content = read_quadruped(Path(csv_path), clocks_as_recorded)
    series = content.recording.sensors
    description = {"source": "recorded", "format": "quadruped", "file": Path(csv_path).name}
    with BagWriter(output, cast(Literal["mcap", "sqlite3"], storage), custom_data=description) as writer:
        write_series(writer, series, "", _EPOCH_NS)
        count = writer.message_count
    return _summary(description, output, series, count, content.notes) | {"next": "inspect"}


def convert_serial_log(log_path: Path, output: Path, storage: str = "mcap", _: bool = False) -> dict[str, Any]:
    """Write a log of the inertial sensors' serial line as a bag; what was written, for a summary.

    The bag holds `imu/low_g/data_raw` and `imu/high_g/data_raw` (no angular velocity: element 0 of its covariance is
    -1), stamped with the device's time from 1 s on. The summary's `counts` says what was left out.

    Raises
    ------
    UserError
        The file holds nothing that can be scaled (see `read_serial_log`), or the bag cannot be written.
    """
    # Needs a package that only the serial line does.
    from hopper_estimation.serial_log import read_serial_log

    content = read_serial_log(Path(log_path))
    series = (content.low_g, content.high_g)
    description = {"source": "recorded", "format": "serial_log", "file": Path(log_path).name}
    with BagWriter(output, cast(Literal["mcap", "sqlite3"], storage), custom_data=description) as writer:
        for topic, message_type, stamp_ns, data in _both_sensors(*series):
            writer.write_serialized(topic, message_type, stamp_ns, data)
        count = writer.message_count
    return _summary(description, output, series, count, content.notes) | {"counts": content.counts, "next": "inspect"}


def _summary(
    description: Mapping[str, str], output: Path, series: Sequence[Series], messages: int, notes: Sequence[str]
) -> dict[str, Any]:
    filled = [one.stamps_ns for one in series if len(one.stamps_ns)]
    duration_ns = max(stamps[-1] for stamps in filled) - min(stamps[0] for stamps in filled)
    return {
        **description,
        "path": str(output),
        "messages": messages,
        "topics": len(filled),
        "duration_s": float(duration_ns) / NANOSECONDS_PER_SECOND,
        "notes": list(notes),
    }


def _both_sensors(low_g: Series, high_g: Series) -> Iterator[tuple[str, str, int, memoryview]]:
    """Topic, type, stamp and message of both, in the order of their stamps; of one stamp the low-g sensor first."""

    def low_g_message(stamp_ns: int, value: Vector) -> Any:
        return to_message(new, low_g.channel, stamp_ns, value)

    def high_g_message(stamp_ns: int, acceleration: Vector) -> Any:
        message = to_message(new, high_g.channel, stamp_ns, np.concatenate([np.zeros(3), acceleration]))
        message.angular_velocity_covariance[0] = -1.0
        return message

    both = ((low_g, low_g.values, low_g_message), (high_g, high_g.values[:, 3:], high_g_message))
    stamps = np.concatenate([low_g.stamps_ns, high_g.stamps_ns])
    numbers = np.repeat([0, 1], [len(low_g.stamps_ns), len(high_g.stamps_ns)])
    order = np.argsort(stamps, kind="stable")
    first = [0, 0]
    for start in range(0, len(order), _SERIALISED_AT_ONCE):
        piece = numbers[order[start : start + _SERIALISED_AT_ONCE]]
        rows = []
        for number, count in enumerate(np.bincount(piece, minlength=2).tolist()):
            series, values, make = both[number]
            part = slice(first[number], first[number] + count)
            first[number] += count
            part_ns = series.stamps_ns[part] + _EPOCH_NS
            messages = serialise_alike(series.channel.message_type, make, part_ns, values[part])
            rows.append(zip(part_ns.tolist(), messages, strict=True))
        for number in piece.tolist():
            stamp_ns, row = next(rows[number])
            channel = both[number][0].channel
            yield f"/{channel.topic}", channel.message_type, stamp_ns, row.data


CONVERTERS: Mapping[str, Converter] = {
    "pyshoe": convert_pyshoe,
    "quadruped": convert_quadruped,
    "serial_log": convert_serial_log,
}
"""By the name that users type: functions of file, bag to write, its storage, and whether to leave all as recorded."""
