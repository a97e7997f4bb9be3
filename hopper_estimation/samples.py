"""From messages of several sensors to samples: what was known at each reading of the accelerometers.

A sample is taken at every message of the low-g sensor, with what else arrived since the sample before: the high-g
reading (of the same stamp it comes first, see `KINDS`), attitude, duty cycles, commanded height. Where the low-g sensor
is silent for longer than `silent_s`, the high-g one goes on alone.

The rule is one compiled function, `take`. A recording runs it in a loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hopper_estimation import topics
from hopper_estimation.configuration import HopperConfiguration
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Measurement
from onboard_estimation.reading_parts import POINT
from onboard_estimation.series import Series

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

NOMINAL_DT_S = 1.0 / 840.0
KINDS = (topics.COMMANDED_HEIGHT, topics.MOTORS, topics.ATTITUDE, topics.LEG, topics.HIGH_G, topics.LOW_G)
"""What samples are made of, in the order of messages with one stamp."""
GOAL, THRUST, UP, LEG, HIGH, LOW = range(len(KINDS))
KIND_OF = {channel.sensor: kind for kind, channel in enumerate(KINDS)}
_WIDTHS = (1, 1, 3, 1, 6, 6)

# Places in a row of what arrived: readings; which there are, time since the sample before, whether a sample was taken.
_LOW_AT, _HIGH_AT, _UP_AT, _GOAL_AT, _THRUST_AT, _LEG_AT, _HAS, _DT, _TAKEN = 0, 6, 12, 15, 16, 17, 18, 19, 20
_ROW_SIZE = 21
_PLACES = (_GOAL_AT, _THRUST_AT, _UP_AT, _LEG_AT, _HIGH_AT, _LOW_AT)
_LAST_SAMPLE, _LAST_LOW = 0, 1
_NEVER = np.iinfo(np.int64).min


class Samples(NamedTuple):
    """N samples.

    Attributes
    ----------
    stamps_ns
        (N,) int64.
    dt
        (N,) time since the sample before, s.
    low, high
        (N, 6) readings: gyro rad/s, accelerometer m/s^2; zeros where there is none. The high-g sensor may have no gyro.
    has
        (N,) uint8, bit 1: low-g reading, bit 2: high-g reading.
    up
        (N, 3) up in the body's frame by an attitude sensor that reported since the sample before, else NaN.
    goal
        (N,) commanded hop height, m; NaN: none was commanded.
    thrust
        (N,) specific thrust of the commanded duty cycles, m/s^2; NaN before the first command.
    leg
        (N,) compression of the leg since the sample before, m; NaN: no reading.
    """

    stamps_ns: Integers
    dt: Array
    low: Array
    high: Array
    has: NDArray[np.uint8]
    up: Array
    goal: Array
    thrust: Array
    leg: Array

    def part(self, start: int, stop: int) -> Samples:
        """Some of them."""
        return Samples._make(column[start:stop] for column in self)


class Arrived(NamedTuple):
    """What arrived since the sample before, and what was commanded last; arrays are values, never written.

    Attributes
    ----------
    row
        (_ROW_SIZE,).
    clock_ns
        (2,) int64: stamps of the last sample, and of the last low-g reading.
    """

    row: Array
    clock_ns: Integers


def nothing_arrived() -> Arrived:
    """Before the first message."""
    row = np.zeros(_ROW_SIZE)
    row[_UP_AT:_HAS] = np.nan
    return Arrived(row, np.full(2, _NEVER))


@njit(cache=True, error_model="numpy")
def take(silent_ns: int, row: Array, clock_ns: Integers, kind: int, stamp_ns: int, value: Array) -> bool:
    """Take a message; whether the row is now a sample.

    Parameters
    ----------
    silent_ns
        For how long the low-g sensor is waited for.
    row, clock_ns
        See `Arrived`; changed.
    kind, value
        Number in `KINDS`, and what `parts` leaves of the message.
    """
    if row[_TAKEN]:
        row[:_UP_AT] = 0.0
        row[_UP_AT:_GOAL_AT] = row[_LEG_AT] = np.nan
        row[_HAS] = row[_TAKEN] = 0.0
    place = _PLACES[kind]
    for i in range(_WIDTHS[kind]):
        row[place + i] = value[i]
    if kind == LOW:
        row[_HAS] += 1.0
        clock_ns[_LAST_LOW] = stamp_ns
    elif kind == HIGH:
        row[_HAS] = 2.0
        if clock_ns[_LAST_LOW] == _NEVER:
            # Which sensors there are shows in the first readings: the high-g one waits as long as for a silence.
            clock_ns[_LAST_LOW] = stamp_ns
        if stamp_ns - clock_ns[_LAST_LOW] <= silent_ns:
            return False
    else:
        return False
    before_ns = clock_ns[_LAST_SAMPLE]
    row[_DT] = NOMINAL_DT_S if before_ns == _NEVER else (stamp_ns - before_ns) / NANOSECONDS_PER_SECOND
    row[_TAKEN] = 1.0
    clock_ns[_LAST_SAMPLE] = stamp_ns
    return row[_DT] > 0.0


@njit(cache=True, error_model="numpy", inline="always")
def write(samples: Samples, n: int, row: Array, clock_ns: Integers) -> None:
    """The sample that the row is, into a place."""
    samples.stamps_ns[n], samples.dt[n], samples.has[n] = clock_ns[_LAST_SAMPLE], row[_DT], np.uint8(row[_HAS])
    samples.goal[n], samples.thrust[n], samples.leg[n] = row[_GOAL_AT], row[_THRUST_AT], row[_LEG_AT]
    for i in range(6):
        samples.low[n, i], samples.high[n, i] = row[i], row[_HIGH_AT + i]
    for i in range(3):
        samples.up[n, i] = row[_UP_AT + i]


@njit(cache=True, error_model="numpy", nogil=True)
def _take_all(
    silent_ns: int,
    row: Array,
    clock_ns: Integers,
    kinds: Integers,
    stamps_ns: tuple[Integers, ...],
    values: tuple[Array, ...],
    samples: Samples,
) -> int:
    """Take messages of those kinds (M,), one after another; how many samples were written."""
    rows = np.zeros(len(stamps_ns), dtype=np.int64)
    n = 0
    for kind in kinds:
        k = rows[kind]
        rows[kind] = k + 1
        if take(silent_ns, row, clock_ns, kind, stamps_ns[kind][k], values[kind][k]):
            write(samples, n, row, clock_ns)
            n += 1
    return n


def up_direction(quaternion: Array) -> Array:
    """(..., 3) the world's up in the body's frame, from quaternions (..., 4) x y z w, body to world."""
    x, y, z, w = np.moveaxis(quaternion, -1, 0)
    return np.stack([2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)], axis=-1)


def specific_thrust(configuration: HopperConfiguration, duties: Array) -> Array:
    """Thrust over mass of duty cycles (..., M): their squares, m/s^2."""
    full = configuration.rotors.full_thrust_weights * configuration.robot.gravity_m_s2
    return np.asarray(full * np.mean(np.square(duties), axis=-1))


def parts(configuration: HopperConfiguration, kind: int, values: Array) -> Array:
    """(..., w) what samples take of messages' values (..., d)."""
    if kind == UP:
        return up_direction(values)
    if kind == THRUST:
        return specific_thrust(configuration, values)[..., None]
    if kind == GOAL:
        return values[..., POINT.point][..., 2:]
    return values


def silent_ns(configuration: HopperConfiguration) -> int:
    """For how long the low-g sensor is waited for."""
    return round(configuration.sensors.silent_s * NANOSECONDS_PER_SECOND)


def with_message(
    configuration: HopperConfiguration, arrived: Arrived, measurement: Measurement
) -> tuple[Arrived, Samples | None]:
    """After one more message, and the sample (N = 1) that it made, if any."""
    kind = KIND_OF.get(measurement.sensor)
    if kind is None:
        return arrived, None
    row, clock_ns = arrived.row.copy(), arrived.clock_ns.copy()
    value = parts(configuration, kind, measurement.value)
    is_sample = take(silent_ns(configuration), row, clock_ns, kind, measurement.stamp_ns, value)
    sample = None
    if is_sample:
        readings = row[:_UP_AT].reshape(2, 6)
        sample = Samples(
            clock_ns[:1],
            row[_DT : _DT + 1],
            readings[:1],
            readings[1:],
            np.array([row[_HAS]], dtype=np.uint8),
            row[None, _UP_AT:_GOAL_AT],
            row[_GOAL_AT:_THRUST_AT],
            row[_THRUST_AT:_LEG_AT],
            row[_LEG_AT:_HAS],
        )
    return Arrived(row, clock_ns), sample


def room(count: int) -> Samples:
    """For so many samples."""
    return Samples(
        np.empty(count, dtype=np.int64),
        np.empty(count),
        np.empty((count, 6)),
        np.empty((count, 6)),
        np.empty(count, dtype=np.uint8),
        np.empty((count, 3)),
        *np.empty((3, count)),
    )


def samples_of(
    configuration: HopperConfiguration, series: Sequence[Series], arrival: Integers | None = None
) -> Samples:
    """The samples of a whole recording.

    Parameters
    ----------
    series
        Each sensor's rows in the order of their stamps.
    arrival
        (M,) number of the series of each message, in the order in which they are filtered; None: by their stamps.
    """
    used = sorted(
        (KIND_OF[one.channel.sensor], number) for number, one in enumerate(series) if one.channel.sensor in KIND_OF
    )
    stamps = [np.empty(0, dtype=np.int64)] * len(KINDS)
    values = [np.empty((0, 1))] * len(KINDS)
    kind_of = np.full(len(series), -1)
    for kind, number in used:
        stamps[kind] = series[number].stamps_ns
        values[kind] = np.ascontiguousarray(parts(configuration, kind, series[number].values))
        kind_of[number] = kind
    if arrival is None:
        order = np.argsort(np.concatenate(stamps), kind="stable")
        kinds = np.repeat(np.arange(len(KINDS)), [len(one) for one in stamps])[order]
    else:
        kinds = kind_of[arrival]
        kinds = kinds[kinds >= 0]
    most = len(stamps[LOW]) + len(stamps[HIGH])
    samples = room(most)
    count = _take_all(silent_ns(configuration), *nothing_arrived(), kinds, tuple(stamps), tuple(values), samples)
    return samples.part(0, count)
