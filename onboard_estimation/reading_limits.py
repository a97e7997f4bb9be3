"""What is refused before any filter sees it: readings that are not finite, that their sensor cannot have made, or that
lack what is needed of them.

A sensor that reads 156.9 m/s^2 at most may well read just that: it is saturated, which is the estimator's to know. What
lies beyond is no reading of it but a wrong unit, a wrong scale, or a damaged message.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onboard_estimation.measurement import Channel, Limit, Matrix, Measurement, Vector
from onboard_estimation.reading_parts import IMU_PARTS

RANGE_MARGIN = 0.05
"""Share by which a reading may exceed its range: sensors saturate a little late, and are calibrated after that."""
LARGEST_VALUE = 1e9
"""No quantity that a robot measures is larger, in SI units; holds where a channel states no limit of its own."""
_MOST_REMEMBERED = 100

ABSENT = "element 0 of its covariance is -1, or all of it is NaN"
"""How a message says that it lacks a part."""


class ReadingCheck:
    """Refuses and counts readings, and says so once a sensor, in words.

    Parameters
    ----------
    channels
        Of the robot, with their limits; readings of other sensors have to be finite, no more.

    Attributes
    ----------
    not_finite, out_of_range, incomplete
        Refused readings by sensor; incomplete ones lack a part that the channel needs.
    """

    def __init__(self, channels: Iterable[Channel] = ()) -> None:
        self.not_finite: dict[str, int] = {}
        self.out_of_range: dict[str, int] = {}
        self.incomplete: dict[str, int] = {}
        self._channels = {channel.sensor: channel for channel in channels}
        self._of_one: dict[tuple[str, int], _Allowed] = {}
        self._of_several: dict[tuple[tuple[str, int], ...], _Allowed] = {}

    def passes(self, sensor: str, value: Vector, tell: Callable[[str], None]) -> bool:
        """Whether a reading (d,) is one; `tell` takes the sentence on the first of a sensor that is none."""
        if _is_within(value, *self._allowed(sensor, len(value))):
            return True
        rows, said = self.refused(sensor, value[None])
        for _, sentence in said:
            tell(sentence)
        return not len(rows)

    def all_that_pass(self, readings: list[Measurement], tell: Callable[[str], None]) -> list[Measurement]:
        """Those of several readings that pass, see `passes`."""
        if not readings:
            return readings
        # Sensors take turns: readings that arrive together are soon of the same sensors as some before.
        key = tuple([(one.sensor, len(one.value)) for one in readings])
        allowed = self._of_several.get(key)
        if allowed is None:
            if len(self._of_several) == _MOST_REMEMBERED:
                self._of_several.clear()
            one_by_one = [self._allowed(*one) for one in key]
            allowed = _Allowed._make(np.concatenate(rows) for rows in zip(*one_by_one, strict=True))
            self._of_several[key] = allowed
        if _is_within(np.concatenate([one.value for one in readings]), *allowed):
            return readings
        return [one for one in readings if self.passes(one.sensor, one.value, tell)]

    def refused(self, sensor: str, values: Matrix) -> tuple[NDArray[np.intp], list[tuple[int, str]]]:
        """Rows that are refused of all readings (K, d) of a sensor, and sentences with the rows that they are about.

        There is one on the first that is beyond the sensor's range, and one on the first that lacks a part. The same as
        `passes` for one row after another.
        """
        if not len(values):
            return np.empty(0, dtype=np.intp), []
        bound = self._bound(sensor, values.shape[1])
        # No array of the size of the values is needed for most recordings. NaN passes through both.
        smallest, largest = _extremes(values)
        if (largest <= bound).all() and (smallest >= -bound).all():
            return np.empty(0, dtype=np.intp), []
        channel = self._channels.get(sensor)
        known, lacking = (np.isfinite(values), {}) if channel is None else _known(channel, values)
        incomplete: NDArray[np.bool_] = np.zeros(len(values), dtype=np.bool_)
        said = []
        for part, absent in lacking.items():
            if absent.any() and sensor not in self.incomplete and not incomplete.any():
                said.append((int(np.argmax(absent)), _absence(sensor, part)))
            incomplete |= absent
        passes = ((np.abs(values) <= bound) | (known & np.isnan(values))).all(axis=1) & ~incomplete
        rows = np.flatnonzero(~passes)
        finite = known[rows].all(axis=1) & ~incomplete[rows]
        if finite.any() and sensor not in self.out_of_range:
            first = int(rows[np.argmax(finite)])
            said.append((first, self._sentence(sensor, values[first])))
        for counts, more in (
            (self.incomplete, int(np.count_nonzero(incomplete))),
            (self.out_of_range, int(np.count_nonzero(finite))),
            (self.not_finite, int(np.count_nonzero(~finite & ~incomplete[rows]))),
        ):
            if more:
                counts[sensor] = counts.get(sensor, 0) + more
        return rows, said

    def _bound(self, sensor: str, size: int) -> Vector:
        """(d,) largest magnitudes that pass."""
        return self._allowed(sensor, size).bound

    def _allowed(self, sensor: str, size: int) -> _Allowed:
        found = self._of_one.get((sensor, size))
        if found is None:
            channel = self._channels.get(sensor)
            bound = np.full(size, np.finfo(np.float64).max if channel is None else LARGEST_VALUE)
            absent = np.zeros(size, dtype=np.int64)
            if channel is not None:
                for limit in channel.limits:
                    bound[limit.first : limit.first + limit.count] = limit.largest * (1.0 + RANGE_MARGIN)
                for part, elements in IMU_PARTS.items() if _has_parts(channel) else ():
                    if part not in channel.needs:
                        absent[elements.start] = elements.stop - elements.start
            found = self._of_one[sensor, size] = _Allowed(bound, absent)
        return found

    def _sentence(self, sensor: str, value: Vector) -> str:
        element = int(np.nanargmax(np.abs(value) / self._bound(sensor, len(value))))
        limits = (one for one in self._channels[sensor].limits if one.first <= element < one.first + one.count)
        limit = next(limits, Limit("number", 0, len(value), LARGEST_VALUE, ""))
        unit = f" {limit.unit}" if limit.unit else ""
        way_out = f"raise {limit.parameter} if it can read more" if limit.parameter else "look at its driver"
        return (
            f"{limit.what} of {float(value[element]):.6g}{unit} from {sensor} is beyond its range of "
            f"{limit.largest:g}{unit}; such readings are refused, {way_out}"
        )


class _Allowed(NamedTuple):
    """What passes.

    Attributes
    ----------
    bound
        (d,) largest magnitudes.
    absent
        (d,) at the first element of a part that may be absent, NaN throughout: how many elements it has; else 0.
    """

    bound: Vector
    absent: NDArray[np.int64]


@njit(cache=True)
def _is_within(value: Vector, bound: Vector, absent: NDArray[np.int64]) -> bool:
    """Whether no element (d,) is larger than its bound; what is not finite is not below any."""
    i = 0
    while i < len(value):
        missing = 0
        while missing < absent[i] and np.isnan(value[i + missing]):
            missing += 1
        if missing > 0 and missing == absent[i]:
            i += missing
        elif abs(value[i]) <= bound[i]:
            i += 1
        else:
            return False
    return True


def finite_readings(channel: Channel, values: Matrix) -> NDArray[np.bool_]:
    """(K,) which of the readings (K, d) are finite numbers, and have what the channel needs."""
    known, lacking = _known(channel, values)
    return np.logical_and.reduce([known.all(axis=1), *(~absent for absent in lacking.values())])


def missing_parts(channel: Channel, values: Matrix) -> dict[str, int]:
    """How many of the readings (K, d) lack each part that the channel needs; only of those that are missing."""
    return {part: int(absent.sum()) for part, absent in _known(channel, values)[1].items() if absent.any()}


def _known(channel: Channel, values: Matrix) -> tuple[NDArray[np.bool_], dict[str, NDArray[np.bool_]]]:
    """(K, d) which elements are finite, or in a part that is absent; and (K,) which readings lack each part needed."""
    known: NDArray[np.bool_] = np.isfinite(values)
    lacking = {}
    if _has_parts(channel):
        for part, elements in IMU_PARTS.items():
            absent: NDArray[np.bool_] = np.asarray(np.isnan(values[:, elements]).all(axis=1), dtype=np.bool_)
            known[absent, elements] = True
            if part in channel.needs:
                lacking[part] = absent
    return known, lacking


def _has_parts(channel: Channel) -> bool:
    return channel.message_type == "sensor_msgs/msg/Imu" and channel.field != "orientation"


def _absence(sensor: str, part: str) -> str:
    words = part.replace("_", " ")
    return (
        f"{sensor} has no {words} ({ABSENT}), which is needed: such messages are refused; let its driver fill "
        f"{part} in, or do without the sensor"
    )


def _extremes(values: Matrix) -> tuple[Vector, Vector]:
    """Smallest and largest (d,) of each column of (K, d); NaN where there is one.

    NumPy reduces long rows many times faster than short ones: many readings are taken as one row.
    """
    size, together = values.shape[1], 128
    whole = len(values) - len(values) % together
    if size == 0 or whole < together or not values.flags.c_contiguous:
        return values.min(axis=0), values.max(axis=0)
    rows, rest = values[:whole].reshape(-1, together * size), values[whole:]
    low = np.concatenate([rows.min(axis=0).reshape(together, size), rest])
    high = np.concatenate([rows.max(axis=0).reshape(together, size), rest])
    return low.min(axis=0), high.max(axis=0)


def imu_limits(gyro: tuple[float, str] | None, accelerometer: tuple[float, str] | None) -> tuple[Limit, ...]:
    """Limits of an IMU's channel from its ranges (rad/s and m/s^2), each with the name of its parameter.

    None: that sensor is not used, whatever it reads.
    """
    limits = []
    for first, range_of, what, unit in (
        (0, gyro, "angular rate", "rad/s"),
        (3, accelerometer, "acceleration", "m/s^2"),
    ):
        largest, name = range_of or (math.inf, "")
        if math.isfinite(largest):
            limits.append(Limit(what, first, 3, largest, unit, name))
    return tuple(limits)
