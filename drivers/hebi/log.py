"""Feedback that HEBI's tools recorded: `.hebilog`, read by HEBI's library."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from drivers.hebi.feeds import Feedback, Module, checked_imu, coverage, read_feedback
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Vector
from onboard_estimation.base.series import Recording, Series, imu_channel
from onboard_estimation.contract.converters import Converted


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
