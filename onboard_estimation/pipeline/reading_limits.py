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

from onboard_estimation.base.measurement import IMU_PARTS, Block, Channel, Limit, Matrix, Vector

RANGE_MARGIN = 0.05
"""Share by which a reading may exceed its range: sensors saturate a little late, and are calibrated after that."""
LARGEST_VALUE = 1e9
"""No quantity that a robot measures is larger, in SI units; holds where a channel states no limit of its own."""

ABSENT = "element 0 of its covariance is -1, or all of it is NaN"
"""How a message says that it lacks a part."""

_NOT_FINITE, _OUT_OF_RANGE, _LACKS = 1, 2, 4
"""Faults of a reading, as bits; that for a lack is shifted left by the number of the part in `IMU_PARTS`."""


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
        self._of_one: dict[tuple[str, int], _Expected] = {}
        self._of_several: dict[tuple[tuple[str, ...], tuple[int, ...]], _Expected] = {}

    def all_pass(self, block: Block) -> bool:
        """Whether all of them are readings; `passes` tells of one that is none."""
        key = block.sensors, block.sizes
        found = self._of_several.get(key)
        if found is None:
            widest = block.values.shape[1]
            one_by_one = [self._expected(sensor, size)._padded(widest) for sensor, size in zip(*key, strict=True)]
            found = self._of_several[key] = _Expected(*(np.array(parts) for parts in zip(*one_by_one, strict=True)))
        return bool(_all_pass(block.values, block.kinds, *found))

    def passes(self, sensor: str, value: Vector, tell: Callable[[str], None]) -> bool:
        """Whether a reading (d,) is one; `tell` takes the sentence on the first of a sensor that is none."""
        if not _faults(value, *self._expected(sensor, len(value))):
            return True
        rows, said = self.refused(sensor, value[None])
        for _, sentence in said:
            tell(sentence)
        return not len(rows)

    def refused(self, sensor: str, values: Matrix) -> tuple[NDArray[np.intp], list[tuple[int, str]]]:
        """Rows that are refused of all readings (K, d) of a sensor, and sentences with the rows that they are about.

        There is one on the first that is beyond the sensor's range, and one on the first that lacks a part. The same as
        `passes` for one row after another.
        """
        faults = _faults_of_all(values, *self._expected(sensor, values.shape[1]))
        rows = np.flatnonzero(faults)
        lacking, beyond = faults >= _LACKS, faults == _OUT_OF_RANGE
        said = []
        if lacking.any() and sensor not in self.incomplete:
            part, absent = next((part, absent) for part, absent in _lacks(faults).items() if absent.any())
            said.append((int(np.argmax(absent)), _absence(sensor, part)))
        if beyond.any() and sensor not in self.out_of_range:
            first = int(np.argmax(beyond))
            said.append((first, self._sentence(sensor, values[first])))
        for counts, more in (
            (self.incomplete, int(np.count_nonzero(lacking))),
            (self.out_of_range, int(np.count_nonzero(beyond))),
            (self.not_finite, len(rows) - int(np.count_nonzero(lacking | beyond))),
        ):
            if more:
                counts[sensor] = counts.get(sensor, 0) + more
        return rows, said

    def _expected(self, sensor: str, size: int) -> _Expected:
        found = self._of_one.get((sensor, size))
        if found is None:
            found = self._of_one[sensor, size] = _expected_of(self._channels.get(sensor), size)
        return found

    def _sentence(self, sensor: str, value: Vector) -> str:
        element = int(np.nanargmax(np.abs(value) / self._expected(sensor, len(value)).bound))
        limits = (one for one in self._channels[sensor].limits if one.first <= element < one.first + one.count)
        limit = next(limits, Limit("number", 0, len(value), LARGEST_VALUE, ""))
        unit = f" {limit.unit}" if limit.unit else ""
        way_out = f"raise {limit.parameter} if it can read more" if limit.parameter else "look at its driver"
        return (
            f"{limit.what} of {float(value[element]):.6g}{unit} from {sensor} is beyond its range of "
            f"{limit.largest:g}{unit}; such readings are refused, {way_out}"
        )


class _Expected(NamedTuple):
    """Of the elements of a reading.

    Attributes
    ----------
    bound
        (d,) largest magnitudes.
    size
        (d,) at the first element of a part that may be absent, NaN throughout: how many elements it has; else 0.
    lack
        (d,) there, the fault that its absence is; 0 where it is none.
    """

    bound: Vector
    size: NDArray[np.int64]
    lack: NDArray[np.int64]

    def _padded(self, width: int) -> _Expected:
        """Of readings with zeros behind them."""
        rest = 0, width - len(self.bound)
        return _Expected(np.pad(self.bound, rest), np.pad(self.size, rest), np.pad(self.lack, rest))


def _expected_of(channel: Channel | None, count: int) -> _Expected:
    """Of readings of so many elements; those of no channel have to be finite, no more."""
    bound = np.full(count, np.finfo(np.float64).max if channel is None else LARGEST_VALUE)
    size, lack = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    if channel is not None:
        for limit in channel.limits:
            bound[limit.first : limit.first + limit.count] = limit.largest * (1.0 + RANGE_MARGIN)
        if channel.message_type == "sensor_msgs/msg/Imu" and channel.field != "orientation":
            for number, (part, elements) in enumerate(IMU_PARTS.items()):
                size[elements.start] = elements.stop - elements.start
                lack[elements.start] = _LACKS << number if part in channel.needs else 0
    return _Expected(bound, size, lack)


@njit(cache=True)
def _faults(value: Vector, bound: Vector, size: NDArray[np.int64], lack: NDArray[np.int64]) -> int:
    """Faults of a reading (d,); 0: there are none."""
    faults = 0
    i = 0
    while i < len(value):
        if not abs(value[i]) <= bound[i]:  # what is not finite is not below any
            missing = 0
            while missing < size[i] and np.isnan(value[i + missing]):
                missing += 1
            if missing > 0 and missing == size[i]:
                faults |= lack[i]
                i += missing
                continue
            faults |= _OUT_OF_RANGE if np.isfinite(value[i]) else _NOT_FINITE
        i += 1
    return faults


@njit(cache=True)
def _faults_of_all(
    values: Matrix, bound: Vector, size: NDArray[np.int64], lack: NDArray[np.int64]
) -> NDArray[np.int64]:
    """(K,) faults of each of the readings (K, d)."""
    faults = np.zeros(len(values), dtype=np.int64)
    for k in range(len(values)):
        for i in range(len(bound)):
            if not abs(values[k, i]) <= bound[i]:
                faults[k] = _faults(values[k], bound, size, lack)
                break
    return faults


@njit(cache=True)
def _all_pass(
    values: Matrix, kinds: NDArray[np.int64], bound: Matrix, size: NDArray[np.int64], lack: NDArray[np.int64]
) -> bool:
    """Whether no reading (K, W) has faults; of their kinds, what is expected of each."""
    for k in range(len(values)):
        kind = kinds[k]
        for i in range(values.shape[1]):
            if not abs(values[k, i]) <= bound[kind, i]:
                if _faults(values[k], bound[kind], size[kind], lack[kind]):
                    return False
                break
    return True


def _lacks(faults: NDArray[np.int64]) -> dict[str, NDArray[np.bool_]]:
    """By part, which of the readings (K,) lack it though it is needed."""
    return {part: (faults & (_LACKS << number)) != 0 for number, part in enumerate(IMU_PARTS)}


def finite_readings(channel: Channel, values: Matrix) -> NDArray[np.bool_]:
    """(K,) which of the readings (K, d) are finite numbers, and have what the channel needs."""
    usable: NDArray[np.bool_] = (_faults_of_all(values, *_expected_of(channel, values.shape[1])) & ~_OUT_OF_RANGE) == 0
    return usable


def missing_parts(channel: Channel, values: Matrix) -> dict[str, int]:
    """How many of the readings (K, d) lack each part that the channel needs; only of those that are missing."""
    lacks = _lacks(_faults_of_all(values, *_expected_of(channel, values.shape[1])))
    return {part: int(absent.sum()) for part, absent in lacks.items() if absent.any()}


def _absence(sensor: str, part: str) -> str:
    words = part.replace("_", " ")
    return (
        f"{sensor} has no {words} ({ABSENT}), which is needed: such messages are refused; let its driver fill "
        f"{part} in, or do without the sensor"
    )


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
