"""From process data of one device to stamped wrenches or pressures, with what the device says against them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivers.ethercat.compensation import Compensation
from drivers.ethercat.decimation import Decimator
from drivers.ethercat.description import SensorDescription, StatusBits
from drivers.ethercat.device import Device
from drivers.ethercat.pressure import PressureScale
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Matrix, Vector

_BAD = ("overload", "error")
_GAP_NS = 100_000_000
"""What was read before such a gap is no part of a zero."""


class Batch(NamedTuple):
    """K stamps, ns, and values (K, m)."""

    stamps_ns: list[int]
    values: Matrix


class StatusWatch:
    """What a device's status bits said since the last question, and which readings they speak against.

    Attributes
    ----------
    counts
        By status bits, readings in which one of them was set.
    """

    def __init__(self, description: SensorDescription) -> None:
        self._bits = description.status
        masks: dict[str, int] = {}
        for bits in self._bits:
            masks[bits.field] = masks.get(bits.field, 0) | bits.mask
        self._masks = masks
        self.counts: dict[StatusBits, int] = {}

    def __call__(self, records: NDArray[Any]) -> NDArray[np.bool_]:
        """(K,) whether a reading is out of range or an error, by the device."""
        bad = np.zeros(len(records), dtype=np.bool_)
        told = [field for field, mask in self._masks.items() if any(int(one) & mask for one in records[field].tolist())]
        for bits in self._bits if told else ():  # as a rule, none
            is_set = records[bits.field] & records.dtype[bits.field].type(bits.mask) != 0
            if is_set.any():
                self.counts[bits] = self.counts.get(bits, 0) + int(is_set.sum())
                if bits.level in _BAD:
                    bad |= is_set
        return bad

    def taken(self) -> dict[StatusBits, int]:
        """Since the last call."""
        counts, self.counts = self.counts, {}
        return counts


class WrenchStream:
    """Wrenches of a force-torque sensor.

    Attributes
    ----------
    status
        What its bits said.
    raw
        Of the last readings (6,) each: N, N m, along the sensor's axes, robot on sensor, nothing taken off.
    newest_ns
        Stamp of the last reading, the device's latency not taken off.
    received, refused
        Readings that came; those of them not published for what the device says of them.
    """

    def __init__(
        self,
        description: SensorDescription,
        compensation: Compensation,
        decimator: Decimator | None,
        device_sign: float,
        latency_s: float,
        publish_faulty: bool,
        kept: int,
    ) -> None:
        self.compensation, self.decimator = compensation, decimator
        self.status = StatusWatch(description)
        self.raw: deque[Vector] = deque(maxlen=kept)
        self.newest_ns = 0
        self.received = self.refused = 0
        self._sign, self._publish_faulty = device_sign, publish_faulty
        self._latency_ns = round(latency_s * NANOSECONDS_PER_SECOND)

    def __call__(self, device: Device, stamps_ns: Sequence[int], data: bytes) -> Batch:
        """What is to be published of K cycles' process data, one behind the other."""
        records = np.frombuffer(data, device.input_type)
        bad = self.status(records)
        conversion = device.conversion
        assert conversion is not None  # it was in operation
        readings = self._sign * conversion(records)
        finite = np.asarray(np.isfinite(readings).all(axis=1))
        bad |= ~finite
        self.received += len(readings)
        stamps = [stamp_ns - self._latency_ns for stamp_ns in stamps_ns]
        if bad.any():
            keeps = finite if self._publish_faulty else ~bad
            self.refused += int((~keeps).sum())
            readings = readings[keeps]
            stamps = [stamp_ns for stamp_ns, keep in zip(stamps, keeps.tolist(), strict=True) if keep]
        if stamps_ns[0] - self.newest_ns > _GAP_NS:
            self.raw.clear()
        self.newest_ns = stamps_ns[-1]
        self.raw.extend(readings)
        batch = Batch(stamps, self.compensation(readings))
        return batch if self.decimator is None else Batch(*self.decimator(*batch))


class PressureStream:
    """Absolute pressures of sensors on analogue inputs of one device.

    Parameters
    ----------
    columns
        Which of the device's inputs have a sensor.

    Attributes
    ----------
    received
        Readings that came.
    """

    def __init__(
        self,
        description: SensorDescription,
        columns: Sequence[int],
        scale: PressureScale,
        decimator: Decimator | None,
    ) -> None:
        self.scale, self.decimator = scale, decimator
        self.status = StatusWatch(description)
        self._description = description
        self._columns = list(columns)
        self._beyond = np.zeros(len(columns), dtype=np.int64)
        self.received = 0

    def __call__(self, device: Device, stamps_ns: Sequence[int], data: bytes) -> Batch:
        """Stamps and pressures (K, n), Pa; NaN where there is none."""
        records = np.frombuffer(data, device.input_type)
        self.status(records)
        conversion = device.conversion
        assert conversion is not None
        voltages = conversion(records)[:, self._columns]
        self.received += len(voltages)
        outside = self.scale.beyond(voltages)
        self._beyond += outside.sum(axis=0)
        pressures = self.scale(voltages)
        pressures[outside | self._bad(records)] = np.nan
        batch = Batch(list(stamps_ns), pressures)
        return batch if self.decimator is None else Batch(*self.decimator(*batch))

    def beyond_taken(self) -> NDArray[np.int64]:
        """(n,) readings since the last call whose voltage such a sensor does not give."""
        beyond, self._beyond = self._beyond, np.zeros_like(self._beyond)
        return beyond

    def _bad(self, records: NDArray[Any]) -> NDArray[np.bool_]:
        """(K, n) by the status bits of each input: those of `status_2` speak of `voltage_2`."""
        bad = np.zeros((len(records), len(self._columns)), dtype=np.bool_)
        for bits in self._description.status:
            if bits.level not in _BAD:
                continue
            is_set = records[bits.field] & records.dtype[bits.field].type(bits.mask) != 0
            number = bits.field.rpartition("_")[2]
            for place, column in enumerate(self._columns):
                if not number.isdigit() or self._description.voltages[column] == f"voltage_{number}":
                    bad[:, place] |= is_set
        return bad
