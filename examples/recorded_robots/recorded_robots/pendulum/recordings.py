"""Recordings of pendulums by other groups, as bags.

`triple-pendulum`: 22 free swings of three links on a fixed pivot (MultiArm-Pendulum, Washington), a MATLAB file with
`segments` (22 x 6 x n: three angles from the upright, each link's own, and their rates) and `dt`. `actuated-pendulum`:
one link, or two, driven by motors (torque_limited_simple_pendulum and double_pendulum, DFKI), tables of time, angles,
rates and measured torques.

In the bags each angle is that of a joint, against the link before, and all are zero where it hangs straight down. What
is known of each machine before goes along, as its configuration. The truth of a link's heading is what was recorded,
for there is no other; it serves to judge rates (see `robot`).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.configuration import load
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Channel, Matrix, Vector
from onboard_estimation.base.series import Recording, Series, truth_channel
from onboard_estimation.contract.converters import Converted
from recorded_robots.files import increasing, read_matlab, reading, size
from recorded_robots.pendulum.configuration import Pendulum, link_names
from recorded_robots.pendulum.estimator import angle_channel, torque_channel

SEGMENTS_FILE = "identification_segments.mat"
GAP_S = 1.0
"""Between the segments of a bag; how long the pendulum swung on in between is not recorded."""

_SINGLE = ("time", "position", "velocity", "torque")
_DOUBLE = ("time", "pos_meas1", "pos_meas2", "vel_meas1", "vel_meas2", "tau_meas1", "tau_meas2")


def read_triple_pendulum(path: Path, as_recorded: bool = False) -> Converted:
    """Free swings of a triple pendulum (identification_segments.mat of MultiArm-Pendulum, or its folder).

    Segments follow one another with gaps of a second. Angles from the upright become those of the joints. The rates,
    which the authors smoothed, go along on `joints/rates`; the filter does not use them.

    Raises
    ------
    UserError
        No such MATLAB file, an array that is missing or has the wrong shape, or values that are not finite.
    """
    if as_recorded:
        raise UserError("--as-recorded: angles from the upright are no angles of joints; there is nothing else to mend")
    path = path / SEGMENTS_FILE if path.is_dir() else path
    segments, step_s = _segments(path)
    count, _, length = segments.shape
    headings, rates = segments[:, :3].swapaxes(1, 2).copy(), segments[:, 3:].swapaxes(1, 2)
    headings -= np.pi
    seconds = np.arange(count)[:, None] * (length * step_s + GAP_S) + np.arange(length) * step_s
    notes = (
        f"{count} segments of {length * step_s:.2f} s, with gaps of {GAP_S:g} s, at which the motion starts anew; how "
        "long the pendulum swung on in between is not recorded.",
        "Angles from the upright became angles of the joints, zero where it hangs.",
    )
    return Converted(
        recording=_recording(seconds.ravel(), _joints(headings), _joints(rates), None),
        notes=notes,
        counts={"segments": count},
        configurations={"pendulum": Pendulum()},
    )


def read_actuated_pendulum(path: Path, as_recorded: bool = False) -> Converted:
    """A pendulum of one or two links driven by motors (a table of DFKI's single or double pendulum, .csv).

    Angles, rates and torques as measured; filtered and commanded ones are left out.

    Raises
    ------
    UserError
        No such table, a column that is missing, values that are not finite, time that does not increase.
    """
    if as_recorded:
        raise UserError("--as-recorded: nothing of such a table is mended")
    table = _table(path)
    wanted = _SINGLE if "position" in table else _DOUBLE
    missing = [name for name in wanted if name not in table]
    if missing:
        raise UserError(f"{path} has no column {', '.join(missing)}; it has {', '.join(table)}")
    columns = np.column_stack([table[name] for name in wanted])
    joints = (len(wanted) - 1) // 3
    time_s, angles, rates, torques = np.split(columns, [1, 1 + joints, 1 + 2 * joints], axis=1)
    increasing(path, time_s[:, 0])
    notes = [f"{joints} joint{'s' if joints > 1 else ''}; angles, rates and torques as measured."]
    if joints == 2:
        notes.append("The torques' scale is not that of the authors' models: go by ratios.")
    machine = load(Pendulum, Path(__file__).with_name("single.yaml" if joints == 1 else "double.yaml"))
    return Converted(
        recording=_recording(time_s[:, 0] - time_s[0, 0], angles, rates, torques),
        notes=tuple(notes),
        configurations={"pendulum": machine},
    )


def _recording(seconds: Vector, angles: Matrix, rates: Matrix, torques: Matrix | None) -> Recording:
    """Of instants (K,), angles, rates and torques of the joints (K, N): sensors, and the links' headings as truth."""
    stamps_ns = np.round(seconds * NANOSECONDS_PER_SECOND).astype(np.int64)
    joints = tuple(f"joint_{i + 1}" for i in range(angles.shape[1]))
    rate_channel = Channel("joints/rates", "sensor_msgs/msg/JointState", "joints/rates", "velocity", joints)
    sensors = [] if torques is None else [Series(torque_channel(joints), stamps_ns, torques)]
    sensors += [Series(angle_channel(joints), stamps_ns, angles), Series(rate_channel, stamps_ns, rates)]
    truth = []
    for link, half in zip(link_names(len(joints)), 0.5 * np.cumsum(angles, axis=1).T, strict=True):
        poses = np.zeros((len(half), 7))
        poses[:, 5], poses[:, 6] = np.sin(half), np.cos(half)
        truth.append(Series(truth_channel(link), stamps_ns, poses))
    return Recording(tuple(sensors), tuple(truth))


def _joints(links: NDArray[np.float64]) -> Matrix:
    """(K, 3) each link against the one before, of segments (S, n, 3)."""
    return np.diff(links, axis=-1, prepend=0.0).reshape(-1, 3)


def _segments(path: Path) -> tuple[NDArray[np.float64], float]:
    """(S, 6, n) segments and the time step, s."""
    content = read_matlab(path, "segments", "dt")
    missing = [name for name in ("segments", "dt") if name not in content]
    if missing:
        raise UserError(f"{path} has no array {', '.join(missing)}; a recording has segments and dt")
    cells = content["segments"]
    try:  # a cell array has a cell for each number
        flat = np.array([np.asarray(cell, dtype=np.float64).item() for cell in cells.ravel()])
        step_s = float(np.asarray(content["dt"], dtype=np.float64).item())
    except (TypeError, ValueError) as error:
        raise UserError(f"{path}: segments or dt hold something other than single numbers ({error})") from error
    if cells.ndim != 3 or cells.shape[1] != 6 or cells.shape[2] < 2:
        raise UserError(f"{path}: segments is {size(cells)}, it must be S x 6 x n: three angles and their rates")
    if not np.isfinite(flat).all() or not step_s > 0.0:
        raise UserError(
            f"{path}: {np.sum(~np.isfinite(flat))} of {flat.size} values are not finite; dt is {step_s:g} s"
        )
    return flat.reshape(cells.shape), step_s


def _table(path: Path) -> dict[str, Vector]:
    """Columns of a table with a line of names, by name."""
    with reading(path, "table of numbers below a line of names"):
        names = path.read_text(encoding="utf-8").partition("\n")[0].strip().split(",")
        if names == [""]:
            raise UserError(f"{path} is empty, or its first line is")
        values = np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)
    if values.shape[1] != len(names) or len(values) < 2:
        raise UserError(f"{path}: {len(names)} names, {values.shape[1]} columns and {len(values)} rows of numbers")
    if not np.isfinite(values).all():
        raise UserError(f"{path}: {np.sum(~np.isfinite(values))} of {values.size} values are not finite")
    return dict(zip(names, values.T, strict=True))
