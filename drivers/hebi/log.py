"""Feedback that HEBI's tools recorded: `.hebilog`, read by HEBI's library in a process of its own."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from drivers.hebi.library import Feedback
from drivers.hebi.modules import Module, joint_values
from onboard_estimation.base.bounded_file import open_regular, reading
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Channel, Vector
from onboard_estimation.base.series import Recording, Series, imu_channel
from onboard_estimation.contract.converters import Converted

JOINTS = "sensor_msgs/msg/JointState"
_PROCESS = "drivers.hebi.log_process"
_ENDS = {-signal.SIGXCPU: "took too much processor time", -signal.SIGALRM: "did not go on for too long"}


def read_feedback(path: Path) -> Generator[Feedback]:
    """What a log holds, in its order, up to where it is damaged. The library itself leaves out the first feedback.

    Raises
    ------
    UserError
        No such file, or none that the library can read; also after feedbacks, where the library aborts, asks for too
        much memory or time, or reads no further.
    """
    with reading(path):
        open_regular(path).close()
    words = [sys.executable, "-m", _PROCESS, str(path.absolute())]
    here = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    nothing = subprocess.DEVNULL
    with subprocess.Popen(words, stdin=nothing, stdout=subprocess.PIPE, stderr=nothing, env=here) as process:
        try:
            yield from _feedbacks(path, process)
        finally:
            process.kill()


def _feedbacks(path: Path, process: subprocess.Popen[bytes]) -> Iterator[Feedback]:
    count = 0
    assert process.stdout is not None
    for line in process.stdout:
        said = json.loads(line) if line.endswith(b"\n") else []  # of one that was ended amid a line
        if isinstance(said, str):
            raise UserError(f"{path}: {_after(count)}{said}")
        if said:
            yield Feedback(*map(np.array, said))
            count += 1
    if code := process.wait():
        how = _ENDS.get(code) or f"ended by {signal.Signals(-code).name if code < 0 else code}"
        raise UserError(f"{path} is damaged: {_after(count)}HEBI's library {how}")


def _after(count: int) -> str:
    return f"after {count} feedbacks " if count else ""


def read_hebi_log(path: Path, as_recorded: bool = False) -> Converted:
    """Log of HEBI modules (.hebilog): IMUs and joints, stamped by the modules' clocks; needs hebi-py.

    IMUs are `imu/module_1`, ... in the order of the group: the log does not hold names; `joint_states` has positions,
    velocities and efforts. With --as-recorded stamps are the times of arrival. A damaged log is read up to there.

    Raises
    ------
    UserError
        The file cannot be read, or no module measured anything.
    """
    return converted(read_feedback(path), path, as_recorded)


def converted(feedback: Iterable[Feedback], path: Path, as_recorded: bool) -> Converted:
    """See `read_hebi_log`."""
    modules: list[Module] = []
    imus: list[list[tuple[int, Vector]]] = []
    joints: list[tuple[int, Vector]] = []
    received_us: list[int] = []
    notes = []
    try:
        for one in feedback:
            received_us.append(int(one.received_us.max()))
            while len(modules) < len(one.received_us):
                modules.append(Module(f"module_{len(modules) + 1}", silent_s=math.inf, latency_s=0.0))
                imus.append([])
            readings = [module.reading(one, place, 0.0, as_recorded) for place, module in enumerate(modules)]
            for rows, reading in zip(imus, readings, strict=True):
                if reading is None or reading.stamp_ns is None or not reading.is_new:
                    continue
                if not np.isnan(reading.imu[:6]).all():
                    rows.append((reading.stamp_ns, reading.imu[:6]))
            joints += filter(None, [joint_values(one, readings)])
    except UserError as error:
        if not received_us:
            raise
        notes.append(f"{error}; what came before is kept.")
    names = tuple(module.name for module in modules)
    series = [_series(imu_channel(name), rows) for name, rows in zip(names, imus, strict=True) if rows]
    readings_of_imus = sum(len(one.stamps_ns) for one in series)
    if not readings_of_imus:
        raise UserError(
            f"{path}: {len(received_us)} feedbacks of {len(modules)} modules, none with a reading of an IMU"
        )
    series.append(_series(Channel("joint_states", JOINTS, "joint_states", names=names), joints))
    duration_s = 1e-6 * (received_us[-1] - received_us[0])
    notes.append(f"Feedback: {len(received_us)} in {duration_s:.2f} s. The library leaves out the first.")
    notes += [
        f"imu/{module.name}: {module.missed} feedbacks without it, {module.refused} with a time that cannot be right, "
        f"{module.repeated} that repeat the one before, its clock started anew {module.clock.jumps} times."
        for module in modules
        if module.missed or module.refused or module.repeated or module.clock.jumps
    ]
    counts = {
        "feedbacks": len(received_us),
        "modules": len(modules),
        "readings": readings_of_imus,
        **{name: sum(getattr(module, name) for module in modules) for name in ("missed", "refused", "repeated")},
    }
    return Converted(recording=Recording(tuple(series), ()), epoch_ns=0, notes=tuple(notes), counts=counts)


def _series(channel: Channel, rows: Sequence[tuple[int, Vector]]) -> Series:
    stamps_ns, values = zip(*rows, strict=True)
    return Series(channel, np.array(stamps_ns, dtype=np.int64), np.array(values))
