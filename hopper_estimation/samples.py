"""From messages of several sensors to samples: what was known at each reading of the accelerometers.

A sample is taken at every message of the low-g sensor, with what else arrived since the sample before: the high-g
reading (the same stamp comes first, see `RANKS`), attitude, duty cycles, commanded height. Where the low-g sensor is
silent for longer than `silent_s`, the high-g one goes on alone.

The same rule twice: `SampleMaker` for one message after another, `samples_of` for a whole recording. A test holds them
against each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hopper_estimation.configuration import HopperConfiguration
from hopper_estimation.topics import ATTITUDE, COMMANDED_HEIGHT, HIGH_G, LEG, LOW_G, MOTORS
from onboard_estimation.bulk_record import MeasurementSeries
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Measurement

Array = NDArray[np.float64]

NOMINAL_DT_S = 1.0 / 840.0
RANKS: Mapping[str, int] = {ATTITUDE.sensor: 1, LEG.sensor: 1, HIGH_G.sensor: 2, LOW_G.sensor: 3}
"""Order of messages with one stamp; commands come first."""


class Samples(NamedTuple):
    """N samples.

    Attributes
    ----------
    stamps_ns
        (N,) int64.
    dt
        (N,) time since the sample before, s.
    low, high
        (N, 6) readings: gyro rad/s, accelerometer m/s^2; zeros where there is none.
    has
        (N,) uint8, bit 1: low-g reading, bit 2: high-g reading.
    up
        (N, 3) up in the body's frame by an attitude sensor that reported since the sample before, else NaN.
    goal
        (N,) commanded hop height, m; NaN: none was told.
    thrust
        (N,) specific thrust of the commanded duty cycles, m/s^2; NaN before the first command.
    leg
        (N,) compression of the leg since the sample before, m; NaN: no reading.
    """

    stamps_ns: NDArray[np.int64]
    dt: Array
    low: Array
    high: Array
    has: NDArray[np.uint8]
    up: Array
    goal: Array
    thrust: Array
    leg: Array

    def part(self, start: int, stop: int) -> Samples:
        """Some of them, in contiguous arrays."""
        rows = slice(start, stop)
        return Samples(
            self.stamps_ns[rows],
            self.dt[rows],
            self.low[rows],
            self.high[rows],
            self.has[rows],
            self.up[rows],
            self.goal[rows],
            self.thrust[rows],
            self.leg[rows],
        )


def up_direction(quaternion: Array) -> Array:
    """(..., 3) the world's up in the body's frame, from quaternions (..., 4) x y z w, body to world."""
    x, y, z, w = np.moveaxis(quaternion, -1, 0)
    return np.stack([2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)], axis=-1)


def specific_thrust(configuration: HopperConfiguration, duties: Array) -> Array:
    """Thrust over mass of duty cycles (..., M): their squares, m/s^2."""
    full = configuration.rotors.full_thrust_weights * configuration.robot.gravity_m_s2
    return np.asarray(full * np.mean(np.square(duties), axis=-1))


@dataclass(frozen=True, slots=True)
class _Held:
    """What arrived since the sample before."""

    stamp_ns: int | None = None
    low_ns: int | None = None
    high: Array | None = None
    up: Array | None = None
    leg: float = np.nan
    goal: float = np.nan
    thrust: float = np.nan


class SampleMaker:
    """Messages in, one after another; a sample out where one is due."""

    def __init__(self, configuration: HopperConfiguration) -> None:
        self._configuration = configuration
        self._silent_ns = round(configuration.sensors.silent_s * NANOSECONDS_PER_SECOND)
        self._held = _Held()

    def snapshot(self) -> _Held:
        """All that messages change."""
        return self._held

    def restore(self, snapshot: _Held) -> None:
        """Return to a snapshot."""
        self._held = snapshot

    def add(self, measurement: Measurement) -> Samples | None:
        """One sample (N = 1), or None where none is due."""
        held, value, stamp_ns = self._held, measurement.value, measurement.stamp_ns
        sensor = measurement.sensor
        if sensor == LOW_G.sensor:
            return self._sample(replace(held, low_ns=stamp_ns), stamp_ns, value)
        if sensor == HIGH_G.sensor:
            held = replace(held, high=value)
            if held.low_ns is None:
                # Which sensors there are shows in the first readings: the high-g one waits as long as for a silence.
                held = replace(held, low_ns=stamp_ns)
            elif stamp_ns - held.low_ns > self._silent_ns:
                return self._sample(held, stamp_ns, None)
        elif sensor == ATTITUDE.sensor:
            held = replace(held, up=up_direction(value))
        elif sensor == LEG.sensor:
            held = replace(held, leg=float(value[0]))
        elif sensor == MOTORS.sensor:
            held = replace(held, thrust=float(specific_thrust(self._configuration, value)))
        elif sensor == COMMANDED_HEIGHT.sensor:
            held = replace(held, goal=float(value[2]))
        self._held = held
        return None

    def _sample(self, held: _Held, stamp_ns: int, low: Array | None) -> Samples | None:
        self._held = replace(held, stamp_ns=stamp_ns, high=None, up=None, leg=np.nan)
        dt = NOMINAL_DT_S if held.stamp_ns is None else (stamp_ns - held.stamp_ns) / NANOSECONDS_PER_SECOND
        if dt <= 0.0:
            return None
        has = (low is not None) + 2 * (held.high is not None)
        return Samples(
            np.array([stamp_ns], dtype=np.int64),
            np.array([dt]),
            np.zeros((1, 6)) if low is None else low[None],
            np.zeros((1, 6)) if held.high is None else held.high[None],
            np.array([has], dtype=np.uint8),
            np.full((1, 3), np.nan) if held.up is None else held.up[None],
            np.array([held.goal]),
            np.array([held.thrust]),
            np.array([held.leg]),
        )


def samples_of(configuration: HopperConfiguration, series: Sequence[MeasurementSeries]) -> Samples:
    """The samples of a whole recording; each sensor's rows in the order of their stamps."""
    found = {one.channel.sensor: one for one in series if len(one.stamps_ns)}
    empty = np.empty(0, dtype=np.int64)
    low_ns = found[LOW_G.sensor].stamps_ns if LOW_G.sensor in found else empty
    high_ns = found[HIGH_G.sensor].stamps_ns if HIGH_G.sensor in found else empty
    stamps, low_row = low_ns, np.arange(len(low_ns))
    alone = _alone(configuration, low_ns, high_ns)
    if len(alone):
        both = np.concatenate([low_ns, high_ns[alone]])
        # A high-g reading of the same stamp was taken first; the low-g one then has no time of its own.
        order = np.lexsort((np.concatenate([np.ones(len(low_ns)), np.zeros(len(alone))]), both))
        low_row = np.concatenate([low_row, np.full(len(alone), -1)])[order]
        stamps = both[order]
        first = np.append(True, stamps[1:] > stamps[:-1])
        stamps, low_row = stamps[first], low_row[first]
    count = len(stamps)
    dt = np.empty(count)
    dt[:1] = NOMINAL_DT_S
    dt[1:] = np.diff(stamps) / NANOSECONDS_PER_SECOND
    low = np.zeros((count, 6))
    has = np.zeros(count, dtype=np.uint8)
    if LOW_G.sensor in found:
        if count == len(low_ns) and not len(alone):
            low = np.ascontiguousarray(found[LOW_G.sensor].values)
            has[:] = 1
        else:
            there = low_row >= 0
            low[there] = found[LOW_G.sensor].values[low_row[there]]
            has[there] = 1
    high = np.zeros((count, 6))
    if HIGH_G.sensor in found:
        row, new = _newest(stamps, high_ns)
        high[new] = found[HIGH_G.sensor].values[row[new]]
        has[new] |= 2
    up = np.full((count, 3), np.nan)
    if ATTITUDE.sensor in found:
        row, new = _newest(stamps, found[ATTITUDE.sensor].stamps_ns)
        up[new] = up_direction(found[ATTITUDE.sensor].values[row[new]])
    leg = np.full(count, np.nan)
    if LEG.sensor in found:
        row, new = _newest(stamps, found[LEG.sensor].stamps_ns)
        leg[new] = found[LEG.sensor].values[row[new], 0]
    goal, thrust = np.full(count, np.nan), np.full(count, np.nan)
    if COMMANDED_HEIGHT.sensor in found:
        row, _ = _newest(stamps, found[COMMANDED_HEIGHT.sensor].stamps_ns)
        goal[row >= 0] = found[COMMANDED_HEIGHT.sensor].values[row[row >= 0], 2]
    if MOTORS.sensor in found:
        row, _ = _newest(stamps, found[MOTORS.sensor].stamps_ns)
        duties = found[MOTORS.sensor].values
        thrust[row >= 0] = specific_thrust(configuration, duties)[row[row >= 0]]
    return Samples(stamps, dt, low, high, has, up, goal, thrust, leg)


def _alone(
    configuration: HopperConfiguration, low_ns: NDArray[np.int64], high_ns: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Rows of the high-g sensor that are samples of their own, the low-g one being silent."""
    silent_ns = round(configuration.sensors.silent_s * NANOSECONDS_PER_SECOND)
    if not len(high_ns):
        return np.empty(0, dtype=np.int64)
    before = np.searchsorted(low_ns, high_ns, side="left") - 1
    last_low = low_ns[before] if len(low_ns) else np.full(len(high_ns), high_ns[0])
    last_low = np.where(before >= 0, last_low, high_ns[0])
    return np.flatnonzero(high_ns - last_low > silent_ns)


def _newest(stamps: NDArray[np.int64], of_ns: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """For each sample the newest row of a sensor up to its stamp (-1: none), and whether it is new since the last."""
    row = np.searchsorted(of_ns, stamps, side="right") - 1
    new = np.append(row[:1] >= 0, row[1:] > row[:-1])
    return row, new
