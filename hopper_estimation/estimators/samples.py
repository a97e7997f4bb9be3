"""From messages of several sensors to samples, and to what filters take of them.

A sample is taken at every message of the low-g sensor, with what else arrived since the sample before: the high-g
reading (of the same stamp it comes first, see `KINDS`), attitude, duty cycles, commanded height. Where the low-g sensor
is silent for longer than `silent_s`, the high-g one goes on alone.

One compiled loop does that of messages that arrived together, be they a live block or a whole recording.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hopper_estimation.estimators import readings_kernels
from hopper_estimation.estimators.readings_kernels import read
from hopper_estimation.model import configuration as robot
from hopper_estimation.model.phases import SIGNAL, Array, Record, Records, layout, new_state
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Block
from onboard_estimation.base.series import Series, blocks_of
from onboard_estimation.pipeline.reading_limits import finite_readings

Integers = NDArray[np.int64]

NOMINAL_DT_S = 1.0 / 840.0
KINDS = (robot.COMMANDED_HEIGHT, robot.MOTORS, robot.ATTITUDE, robot.LEG, robot.HIGH_G, robot.LOW_G)
"""What samples are made of, in the order of messages with one stamp."""
GOAL, THRUST, UP, LEG, HIGH, LOW = range(len(KINDS))
KIND_OF = {channel.sensor: kind for kind, channel in enumerate(KINDS)}
_NEVER = np.iinfo(np.int64).min

SAMPLE = layout(
    [
        ("low", np.float64, 6),
        ("high", np.float64, 6),
        ("up", np.float64, 3),
        *((name, np.float64) for name in ("goal", "thrust", "leg", "dt")),
        *((name, np.int64) for name in ("has", "taken", "last_ns", "last_low_ns")),
    ]
)
"""What arrived since the sample before, and what was commanded last.

low, high
    Readings: gyro rad/s, accelerometer m/s^2; zeros where there is none. The high-g sensor may have no gyro.
up
    In the body's frame by an attitude sensor that reported since the sample before, else NaN.
goal, thrust, leg
    Commanded hop height, m; specific thrust of the commanded duty cycles, m/s^2; compression of the leg since the
    sample before, m: NaN where there is none.
dt
    Time since the sample before, s.
has, taken
    Bit 1: low-g reading, bit 2: high-g reading; whether it was taken as a sample.
last_ns, last_low_ns
    Stamps of the last sample, and of the last low-g reading.
"""


class Taken(NamedTuple):
    """What came of messages: N samples.

    Attributes
    ----------
    signals
        (N,) of `SIGNAL`.
    stamps_ns
        (N,) of the samples.
    made_of
        (N,) number of the message that completed each.
    """

    signals: Records
    stamps_ns: Integers
    made_of: Integers


def nothing_arrived() -> Records:
    """(1,) of `SAMPLE` before the first message."""
    nan = np.nan
    return new_state(SAMPLE, up=nan, goal=nan, thrust=nan, leg=nan, last_ns=_NEVER, last_low_ns=_NEVER)


def take(settings: Records, sample: Records, readings: Records, block: Block) -> Taken:
    """What filters take of messages; `sample` and `readings`, a state of `readings_kernels`, are changed."""
    kind_of = np.array([KIND_OF.get(sensor, -1) for sensor in block.sensors])
    count = len(block.kinds)
    signals, stamps_ns, made_of = np.empty(count, SIGNAL), np.empty(count, np.int64), np.empty(count, np.int64)
    count = _take_all(settings, sample, readings, kind_of, *block[2:], signals, stamps_ns, made_of)
    return Taken(signals[:count], stamps_ns[:count], made_of[:count])


def ordered(one: Series) -> Series:
    """Rows that filters see, without those that are no numbers, in the order of their stamps, each stamp once."""
    if not np.isfinite(one.values.sum()):
        one = one.rows(np.flatnonzero(finite_readings(one.channel, one.values)))  # a high-g sensor may have no gyro
    if np.any(one.stamps_ns[1:] <= one.stamps_ns[:-1]):
        one = one.rows(np.unique(one.stamps_ns, return_index=True)[1])
    return one


def parts_of(settings: Records, readings: Records, series: Sequence[Series]) -> Iterator[Taken]:
    """The samples of a whole recording, part by part; `readings`, a state of `readings_kernels`, is changed."""
    sample = nothing_arrived()
    used = sorted((one for one in series if one.channel.sensor in KIND_OF), key=lambda one: KIND_OF[one.channel.sensor])
    return (take(settings, sample, readings, block) for block in blocks_of(used))


def taken_of(configuration: robot.HopperConfiguration, series: Sequence[Series]) -> tuple[Taken, Records]:
    """The samples of a whole recording, and what was found of its sensors: a state of `readings_kernels`."""
    readings = readings_kernels.new_state()
    parts = list(parts_of(readings_kernels.reading_settings(configuration), readings, series))
    nothing = np.empty(0, SIGNAL), np.empty(0, np.int64), np.empty(0, np.int64)
    return Taken(*map(np.concatenate, zip(nothing, *parts, strict=True))), readings


@njit(cache=True, error_model="numpy", nogil=True)
def _take_all(
    settings: Records,
    samples: Records,
    readings: Records,
    kind_of: Integers,
    kinds: Integers,
    messages_ns: Integers,
    values: Array,
    signals: Records,
    stamps_ns: Integers,
    made_of: Integers,
) -> int:
    """Messages one after another; how many samples were written. `kind_of`: kinds here by the block's, -1: none."""
    known, sample, r, n = settings[0], samples[0], readings[0], 0
    for k in range(len(kinds)):
        kind = kind_of[kinds[k]]
        if kind >= 0 and _add(known, sample, kind, messages_ns[k], values[k]):
            read(known, r, sample, signals[n])
            stamps_ns[n], made_of[n] = messages_ns[k], k
            n += 1
    return n


@njit(cache=True, error_model="numpy", nogil=True)
def _add(settings: Record, sample: Record, kind: int, stamp_ns: int, value: Array) -> bool:
    """Add a message to what arrived; whether that is now a sample."""
    if sample.taken:
        for i in range(6):
            sample.low[i] = sample.high[i] = 0.0
        for i in range(3):
            sample.up[i] = np.nan
        sample.leg, sample.has, sample.taken = np.nan, 0, 0
    if kind < LEG:
        _tell(settings, sample, kind, value)
        return False
    if kind == LEG:
        sample.leg = value[0]
        return False
    if kind == LOW:
        for i in range(6):
            sample.low[i] = value[i]
        sample.has += 1
        sample.last_low_ns = stamp_ns
    else:
        for i in range(6):
            sample.high[i] = value[i]
        sample.has = 2
        if sample.last_low_ns == _NEVER:
            # Which sensors there are shows in the first readings: the high-g one waits as long as for a silence.
            sample.last_low_ns = stamp_ns
        if stamp_ns - sample.last_low_ns <= settings.silent_ns:
            return False
    before_ns = sample.last_ns
    sample.dt = NOMINAL_DT_S if before_ns == _NEVER else (stamp_ns - before_ns) / NANOSECONDS_PER_SECOND
    sample.taken, sample.last_ns = 1, stamp_ns
    return sample.dt > 0.0


@njit(cache=True, error_model="numpy", nogil=True)
def _tell(settings: Record, sample: Record, kind: int, value: Array) -> None:
    """A message of commands or attitude: height, m; duty cycles, whose squares are thrust; x y z w, body to world."""
    if kind == GOAL:
        sample.goal = value[2]
    elif kind == THRUST:
        squares = 0.0
        for i in range(robot.MOTOR_COUNT):
            squares += value[i] * value[i]
        sample.thrust = settings.full_thrust * (squares / robot.MOTOR_COUNT)
    else:
        x, y, z, w = value[0], value[1], value[2], value[3]
        sample.up[0] = 2.0 * (x * z - w * y)
        sample.up[1] = 2.0 * (y * z + w * x)
        sample.up[2] = 1.0 - 2.0 * (x * x + y * y)
