"""From process data of one device to stamped wrenches or pressures, with what the device says against them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivers.ethercat.compensation import LEAST_READINGS, Compensation
from drivers.ethercat.configuration import PressureConfiguration, WrenchConfiguration
from drivers.ethercat.decimation import Decimator
from drivers.ethercat.description import SensorDescription, StatusBits
from drivers.ethercat.device import Device
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Matrix, Vector

_BAD = ("overload", "error")
_GAP_NS = 100_000_000
"""What was read before such a gap is no part of a zero."""


class Batch(NamedTuple):
    """K stamps, ns, and values (K, m)."""

    stamps_ns: list[int]
    values: Matrix


class Stream:
    """Readings of one device.

    Attributes
    ----------
    received
        Readings that came.
    """

    def __init__(self, description: SensorDescription, decimation: int, cycle_hz: float) -> None:
        self._status = description.status
        self._masks: dict[str, int] = {}
        for bits in description.status:
            self._masks[bits.field] = self._masks.get(bits.field, 0) | bits.mask
        self._said: dict[StatusBits, int] = {}
        self.received = 0
        self.decimator = Decimator(decimation, 1.0 / cycle_hz) if decimation > 1 else None

    def said(self) -> dict[StatusBits, int]:
        """Status bits that were set since the last call, and in how many readings."""
        said, self._said = self._said, {}
        return said

    def _read(self, device: Device, data: bytes) -> tuple[Matrix, list[tuple[StatusBits, NDArray[np.bool_]]]]:
        """Values (K, m) of K cycles' process data; status bits that speak against them, and in which (K,)."""
        records = np.frombuffer(data, device.input_type)
        self.received += len(records)
        assert device.conversion is not None  # it was in operation
        return device.conversion(records), self._spoken(records)

    def _spoken(self, records: NDArray[Any]) -> list[tuple[StatusBits, NDArray[np.bool_]]]:
        if not any(int(one) & mask for name, mask in self._masks.items() for one in records[name].tolist()):
            return []  # as a rule
        found = []
        for bits in self._status:
            is_set = records[bits.field] & records.dtype[bits.field].type(bits.mask) != 0
            if is_set.any():
                self._said[bits] = self._said.get(bits, 0) + int(is_set.sum())
                if bits.level in _BAD:
                    found.append((bits, is_set))
        return found

    def _thinned(self, stamps_ns: Sequence[int], values: Matrix) -> Batch:
        batch = Batch(list(stamps_ns), values)
        return batch if self.decimator is None else Batch(*self.decimator(*batch))


class WrenchStream(Stream):
    """Wrenches of a force-torque sensor.

    Attributes
    ----------
    raw
        Of the last readings (6,) each: N, N m, along the sensor's axes, robot on sensor, nothing taken off.
    refused
        Readings not published for what the device says of them.
    """

    def __init__(self, description: SensorDescription, chosen: WrenchConfiguration, cycle_hz: float) -> None:
        super().__init__(description, chosen.decimation, cycle_hz)
        self.compensation = Compensation(chosen)
        self.raw: deque[Vector] = deque(maxlen=max(LEAST_READINGS, round(chosen.tare_s * cycle_hz)))
        self._newest_ns = self.refused = 0
        self._sign = 1.0 if chosen.device_sign == "robot_on_sensor" else -1.0
        self._publish_faulty = chosen.publish_faulty
        self._latency_ns = round(chosen.latency_s * NANOSECONDS_PER_SECOND)

    def __call__(self, device: Device, stamps_ns: Sequence[int], data: bytes) -> Batch:
        """What is to be published of K cycles' process data, one behind the other."""
        readings, spoken = self._read(device, data)
        readings = self._sign * readings
        keeps = np.asarray(np.isfinite(readings).all(axis=1))
        for _, is_set in spoken if not self._publish_faulty else ():
            keeps = keeps & ~is_set
        stamps = [stamp_ns - self._latency_ns for stamp_ns in stamps_ns]
        if not keeps.all():
            self.refused += int((~keeps).sum())
            readings = readings[keeps]
            stamps = [stamp_ns for stamp_ns, keep in zip(stamps, keeps.tolist(), strict=True) if keep]
        if stamps_ns[0] - self._newest_ns > _GAP_NS:
            self.raw.clear()
        self._newest_ns = stamps_ns[-1]
        self.raw.extend(readings)
        return self._thinned(stamps, self.compensation(readings))


class PressureStream(Stream):
    """Absolute pressures of sensors on analogue inputs of one device.

    Parameters
    ----------
    inputs
        Of those that have a sensor: its column among the device's, and the offset to be taken off, Pa.
    """

    def __init__(
        self,
        description: SensorDescription,
        chosen: PressureConfiguration,
        inputs: Sequence[tuple[int, float]],
        cycle_hz: float,
    ) -> None:
        super().__init__(description, chosen.decimation, cycle_hz)
        self._chosen, self._columns = chosen, [column for column, _ in inputs]
        self._offsets_pa = np.array([offset_pa for _, offset_pa in inputs])
        self._names = [description.voltages[column] for column in self._columns]
        self._beyond = np.zeros(len(inputs), dtype=np.int64)

    def __call__(self, device: Device, stamps_ns: Sequence[int], data: bytes) -> Batch:
        """Stamps and pressures (K, n), Pa; NaN where there is none."""
        values, spoken = self._read(device, data)
        voltages = values[:, self._columns]
        missing = self._chosen.beyond(voltages)
        self._beyond += missing.sum(axis=0)
        for bits, is_set in spoken:  # those of `status_2` speak of `voltage_2`
            number = bits.field.rpartition("_")[2]
            about = [not number.isdigit() or name == f"voltage_{number}" for name in self._names]
            missing |= is_set[:, None] & np.array(about)
        pressures = self._chosen.absolute(voltages, self._offsets_pa)
        pressures[missing] = np.nan
        return self._thinned(stamps_ns, pressures)

    def beyond(self) -> NDArray[np.int64]:
        """(n,) readings since the last call whose voltage such a sensor does not give."""
        beyond, self._beyond = self._beyond, np.zeros_like(self._beyond)
        return beyond
