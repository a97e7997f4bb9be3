"""Feedback that HEBI's tools recorded: `.hebilog`, read by HEBI's library."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from drivers.hebi.feedback import Feedback, Module, checked_imu, copied, hebi_library
from onboard_estimation.converters import Converted
from onboard_estimation.errors import UserError
from onboard_estimation.measurement import Vector
from onboard_estimation.series import Recording, Series
from onboard_estimation.simulation import imu_channel


def read_feedback(path: Path, modules: int | None = None) -> Iterator[Feedback]:
    """What a log holds, in its order. The library itself leaves out the first feedback of each log.

    Raises
    ------
    UserError
        No such file, none that the library can read, or one of another number of modules.
    """
    try:
        # Loaded at once it would be held in memory as a whole, each feedback with all of its hundred fields.
        log = hebi_library().util.load_log(str(path), load=False)
        if modules is not None and log.number_of_modules != modules:
            raise UserError(f"{path}: of {log.number_of_modules} modules, but {modules} are named")
        for feedback in log.feedback_iterate:
            yield copied(feedback)
    except (OSError, RuntimeError) as error:
        raise UserError(f"{path}: {error}") from error


class Coverage(NamedTuple):
    """How much of the time from first to last a log has feedback of: the library reads a log that is cut off silently.

    Attributes
    ----------
    feedbacks, expected
        How many there are, and how many the time from the first to the last would have at their median distance.
    duration_s
        From the first to the last.
    """

    feedbacks: int
    expected: int
    duration_s: float

    def __str__(self) -> str:
        share = 100.0 * self.feedbacks / self.expected if self.expected else 0.0
        return f"{self.feedbacks} of {self.expected} expected in {self.duration_s:.2f} s ({share:.1f} %)"


def coverage(received_us: Sequence[int]) -> Coverage:
    """Of feedbacks that arrived at these times. One that was cut off at its end covers its time all the same."""
    steps_us = np.diff(received_us)
    if not len(steps_us) or np.median(steps_us) <= 0:
        return Coverage(len(received_us), len(received_us), 0.0)
    duration_us = received_us[-1] - received_us[0]
    return Coverage(len(received_us), round(duration_us / float(np.median(steps_us))) + 1, 1e-6 * duration_us)


def read_hebi_log(path: Path, as_recorded: bool = False) -> Converted:
    """Log of HEBI modules (.hebilog): their IMUs, stamped by the modules' clocks; needs hebi-py.

    IMUs are `imu/module_1`, ... in the order of the group: the log does not hold names. With --as-recorded stamps are
    the times of arrival.

    Raises
    ------
    UserError
        The file cannot be read, or no module measured anything.
    """
    return converted(read_feedback(path), path, as_recorded)


def converted(feedback: Iterable[Feedback], path: Path, as_recorded: bool) -> Converted:
    """See `read_hebi_log`."""
    modules: list[Module] = []
    stamps: list[list[int]] = []
    values: list[list[Vector]] = []
    received_us: list[int] = []
    for one in feedback:
        received_us.append(int(one.received_us.max()))
        while len(modules) < len(one.received_us):
            modules.append(Module(f"module_{len(modules) + 1}", silent_s=math.inf, latency_s=0.0))
            stamps.append([])
            values.append([])
        times = zip(one.received_us.tolist(), one.hardware_us.tolist(), strict=True)
        for place, (arrived_us, hardware_us) in enumerate(times):
            stamp_ns = modules[place].stamp_ns(arrived_us, 0 if as_recorded else hardware_us, 0.0)
            value = checked_imu(one, place)[:6]
            if stamp_ns is not None and not np.isnan(value).all():
                stamps[place].append(stamp_ns)
                values[place].append(value)
    series = tuple(
        Series(imu_channel(module.name), np.array(stamps[place], dtype=np.int64), np.array(values[place]))
        for place, module in enumerate(modules)
        if stamps[place]
    )
    if not series:
        raise UserError(
            f"{path}: {len(received_us)} feedbacks of {len(modules)} modules, none with a reading of an IMU"
        )
    notes = [f"Feedback: {coverage(received_us)}. The library leaves out the first."]
    notes += [
        f"imu/{module.name}: {module.missed} feedbacks without it, {module.refused} with a time that cannot be right, "
        f"its clock started anew {module.clock.jumps} times."
        for module in modules
        if module.missed or module.refused or module.clock.jumps
    ]
    counts = {
        "feedbacks": len(received_us),
        "modules": len(modules),
        "readings": sum(len(one.stamps_ns) for one in series),
        "missed": sum(module.missed for module in modules),
        "refused": sum(module.refused for module in modules),
    }
    return Converted(recording=Recording(series, ()), epoch_ns=0, notes=tuple(notes), counts=counts)
