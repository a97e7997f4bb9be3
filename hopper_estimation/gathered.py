"""Messages that arrived together as what filters take, in one compiled call: live, calls cost more than the work.

The rules are those of `samples` and `readings_kernels`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hopper_estimation.configuration import HopperConfiguration
from hopper_estimation.readings_kernels import ReadingSettings, vertical_accelerations
from hopper_estimation.samples import (
    GOAL,
    KIND_OF,
    THRUST,
    UP,
    Arrived,
    Samples,
    parts,
    silent_ns,
    take,
    write,
)
from hopper_estimation.vertical_kernels import Signals
from onboard_estimation.measurement import Measurement

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


class Gathered(NamedTuple):
    """What came of M messages: N samples.

    Attributes
    ----------
    signals
        Of the samples.
    stamps_ns
        (N,) of the samples.
    made_of
        (N,) number of the message that completed each.
    """

    signals: Signals
    stamps_ns: Integers
    made_of: Integers


def gathered(
    configuration: HopperConfiguration,
    settings: ReadingSettings,
    arrived: Arrived,
    readings: Array,
    measurements: Sequence[Measurement],
) -> tuple[Arrived, Gathered]:
    """After more messages, all of `KINDS`; `readings` (STATE_SIZE,) of `readings_kernels` is changed."""
    kinds = [KIND_OF[one.sensor] for one in measurements]
    values = [
        parts(configuration, kind, one.value) if kind in (GOAL, THRUST) else one.value
        for kind, one in zip(kinds, measurements, strict=True)
    ]
    about = np.array([kinds, [len(value) for value in values], [one.stamp_ns for one in measurements]])
    row, clock_ns = arrived.row.copy(), arrived.clock_ns.copy()
    found = _gathered(silent_ns(configuration), settings, row, clock_ns, readings, about, np.concatenate(values))
    return Arrived(row, clock_ns), Gathered(*found)


@njit(cache=True, error_model="numpy")
def _gathered(
    silent_for_ns: int,
    settings: ReadingSettings,
    row: Array,
    clock_ns: Integers,
    readings: Array,
    about: Integers,
    values: Array,
) -> tuple[Signals, Integers, Integers]:
    """`about` (3, M): kinds, sizes and stamps of messages, whose values follow on one another in `values`."""
    count = about.shape[1]
    stamps_ns, made_of = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    dt, low, high, has = np.empty(count), np.empty((count, 6)), np.empty((count, 6)), np.empty(count, dtype=np.uint8)
    up, goal, thrust, leg = np.empty((count, 3)), np.empty(count), np.empty(count), np.empty(count)
    samples = Samples(stamps_ns, dt, low, high, has, up, goal, thrust, leg)
    n = first = 0
    for k in range(count):
        kind, size, stamp_ns = about[0, k], about[1, k], about[2, k]
        value = values[first : first + size]
        first += size
        if kind == UP:
            value = _up_direction(value)
        if take(silent_for_ns, row, clock_ns, kind, stamp_ns, value):
            write(samples, n, row, clock_ns)
            made_of[n] = k
            n += 1
    accelerations, usable = np.empty((n, 4)), np.empty(n, dtype=np.uint8)
    made = Samples(stamps_ns[:n], dt[:n], low[:n], high[:n], has[:n], up[:n], goal[:n], thrust[:n], leg[:n])
    vertical_accelerations(settings, readings, made, accelerations, usable)
    return Signals(dt[:n], accelerations, usable, goal[:n], thrust[:n], leg[:n]), stamps_ns[:n], made_of[:n]


@njit(cache=True, error_model="numpy")
def _up_direction(quaternion: Array) -> Array:
    """As `samples.up_direction`, of one."""
    x, y, z, w = quaternion[0], quaternion[1], quaternion[2], quaternion[3]
    return np.array([2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)])
