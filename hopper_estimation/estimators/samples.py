"""From messages of several sensors to samples, and to what filters take of them.

A sample is taken at every message of the low-g sensor, with what else arrived since the sample before: the high-g
reading (of the same stamp it comes first, see `KINDS`), attitude, duty cycles, commanded height. Where the low-g sensor
is silent for longer than `silent_s`, the high-g one goes on alone.

One compiled loop does that of messages that arrived together, be they a live block or a whole recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hopper_estimation.estimators import readings_kernels
from hopper_estimation.estimators.readings_kernels import read
from hopper_estimation.model import configuration as robot
from hopper_estimation.model.phases import SIGNAL, Array, Record, Records, layout, new_state
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Measurement
from onboard_estimation.base.series import Series
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


class Messages(NamedTuple):
    """M messages in the order in which they are filtered.

    Attributes
    ----------
    kinds
        (M,) int8.
    layout
        (6, 3) by kind: where in `stamps_ns` and in `values` its messages begin, and how many values each has.
    stamps_ns, values
        (M,) and all of them one after another, kind by kind.
    """

    kinds: NDArray[np.int8]
    layout: Integers
    stamps_ns: Integers
    values: Array


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


def messages_of(measurements: Sequence[Measurement]) -> Messages:
    """Of measurements, all of `KINDS`."""
    kinds = [KIND_OF[one.sensor] for one in measurements]
    parts = []
    for kind in sorted(set(kinds)):
        ours = [one for one, its in zip(measurements, kinds, strict=True) if its == kind]
        parts.append((kind, np.array([one.stamp_ns for one in ours]), np.array([one.value for one in ours])))
    return _in_order(np.array(kinds, dtype=np.int8), parts)


def recorded_messages(series: Sequence[Series], arrival: Integers | None = None) -> Messages:
    """Of a whole recording.

    Parameters
    ----------
    series
        Each sensor's rows in the order of their stamps.
    arrival
        (M,) number of the series of each message, in the order in which they are filtered; None: by their stamps.
    """
    kind_of = np.array([KIND_OF.get(one.channel.sensor, -1) for one in series], dtype=np.int8)
    used = sorted((kind, number) for number, kind in enumerate(kind_of.tolist()) if kind >= 0)
    parts = [(kind, series[number].stamps_ns, series[number].values) for kind, number in used]
    if arrival is not None:
        kinds = kind_of[arrival]
        return _in_order(kinds[kinds >= 0], parts)
    kinds = np.repeat(np.array([kind for kind, *_ in parts], np.int8), [len(stamps_ns) for _, stamps_ns, _ in parts])
    stamps_ns = np.concatenate([np.empty(0, np.int64), *(one for _, one, _ in parts)])
    return _in_order(kinds[np.argsort(stamps_ns, kind="stable")], parts)


def _in_order(kinds: NDArray[np.int8], parts: Sequence[tuple[int, Integers, Array]]) -> Messages:
    """Messages of these kinds (M,), in that order, from kind, stamps and values (K, d) of each kind that there is."""
    layout, stamps_ns, values = np.zeros((len(KINDS), 3), dtype=np.int64), [np.empty(0, np.int64)], [np.empty(0)]
    for kind, its_ns, its_values in parts:
        layout[kind] = sum(map(len, stamps_ns)), sum(map(len, values)), its_values.shape[1]
        stamps_ns.append(its_ns)
        values.append(its_values.ravel())
    return Messages(kinds, layout, np.concatenate(stamps_ns), np.concatenate(values))


def take(settings: Records, sample: Records, readings: Records, messages: Messages) -> Taken:
    """What filters take of messages; `sample` and `readings`, a state of `readings_kernels`, are changed."""
    most = int(np.count_nonzero(messages.kinds >= HIGH))
    signals, stamps_ns, made_of = np.empty(most, SIGNAL), np.empty(most, np.int64), np.empty(most, np.int64)
    count = _take_all(settings, sample, readings, *messages, signals, stamps_ns, made_of)
    return Taken(signals[:count], stamps_ns[:count], made_of[:count])


def ordered(one: Series) -> Series:
    """Rows that filters see, without those that are no numbers, in the order of their stamps, each stamp once."""
    if not np.isfinite(one.values.sum()):
        one = one.rows(np.flatnonzero(finite_readings(one.channel, one.values)))  # a high-g sensor may have no gyro
    if np.any(one.stamps_ns[1:] <= one.stamps_ns[:-1]):
        one = one.rows(np.unique(one.stamps_ns, return_index=True)[1])
    return one


def taken_of(configuration: robot.HopperConfiguration, series: Sequence[Series]) -> tuple[Taken, Records]:
    """The samples of a whole recording, and what was found of its sensors: a state of `readings_kernels`."""
    readings = readings_kernels.new_state()
    settings = readings_kernels.reading_settings(configuration)
    return take(settings, nothing_arrived(), readings, recorded_messages(series)), readings


@njit(cache=True, error_model="numpy", nogil=True)
def _take_all(
    settings: Records,
    samples: Records,
    readings: Records,
    kinds: NDArray[np.int8],
    layout: Integers,
    messages_ns: Integers,
    values: Array,
    signals: Records,
    stamps_ns: Integers,
    made_of: Integers,
) -> int:
    """Messages one after another; how many samples were written."""
    known, sample, r, n = settings[0], samples[0], readings[0], 0
    row, first = layout[:, 0].copy(), layout[:, 1].copy()
    for k in range(len(kinds)):
        kind = kinds[k]
        stamp_ns = messages_ns[row[kind]]
        if _add(known, sample, kind, stamp_ns, values[first[kind] :]):
            read(known, r, sample, signals[n])
            stamps_ns[n], made_of[n] = stamp_ns, k
            n += 1
        row[kind] += 1
        first[kind] += layout[kind, 2]
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
