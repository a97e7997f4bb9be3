"""From process data of one device to stamped wrenches or pressures, with what the device says against them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivers.ethercat.configuration import PressureConfiguration, WrenchConfiguration
from drivers.ethercat.description import COUNTER, SensorDescription, StatusBits
from drivers.ethercat.device import Device
from drivers.repeats import Repeats
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Matrix, Vector
from onboard_estimation.base.series import STANDARD_GRAVITY_M_S2

# Fewer readings a second, without what would be folded back: a linear-phase low-pass, whose delay the stamps know.

ATTENUATION_DB = 60.0
PASS, STOP = 0.3, 0.7
"""Edges of the bands as shares of the output rate: what is folded back lands between them, above 0.3 of that rate."""
MOST_FILLED = 10
_MARGIN_DB = 2.0
"""Kaiser's formula is an estimate."""


def low_pass(factor: int) -> Vector:
    """(taps,) of odd number, sum 1: symmetric, so that all frequencies are late alike, by (taps - 1) / 2 readings."""
    from scipy.signal import firwin, kaiserord

    nyquist = 0.5 * factor  # of the input, in units of the output rate
    taps, beta = kaiserord(ATTENUATION_DB + _MARGIN_DB, (STOP - PASS) / nyquist)
    window: Vector = firwin(int(taps) | 1, 0.5 * (PASS + STOP) / nyquist, window=("kaiser", beta))
    return window


class Decimator:
    """Every `factor`-th reading, filtered; its stamp is that of the reading in the middle of the filter.

    A few readings that are missing are put on the line between their neighbours; after more the filter starts anew.

    Parameters
    ----------
    factor
        2 or more.
    period_s
        Between readings.

    Attributes
    ----------
    delay_s
        By which what comes out is later than its stamp.
    filled, restarts
        Readings put in; times that the filter started anew.
    """

    def __init__(self, factor: int, period_s: float) -> None:
        self.factor = factor
        self._taps = low_pass(factor)
        self._period_ns = period_s * NANOSECONDS_PER_SECOND
        self.delay_s = 0.5 * (len(self._taps) - 1) * period_s
        self.filled = self.restarts = 0
        self._values: list[Vector] = []
        self._stamps: list[int] = []

    def __call__(self, stamps_ns: list[int], values: Matrix) -> tuple[list[int], Matrix]:
        """Stamps and values (L, m) that come out of K stamps and values (K, m)."""
        taps, out_stamps, out = len(self._taps), [], []
        for stamp_ns, value in zip(stamps_ns, values, strict=True):
            self._add(stamp_ns, value)
            while len(self._values) >= taps:
                out.append(self._taps @ np.array(self._values[:taps]))
                out_stamps.append(self._stamps[taps // 2])
                del self._values[: self.factor], self._stamps[: self.factor]
        return out_stamps, np.array(out).reshape(-1, values.shape[1])

    def _add(self, stamp_ns: int, value: Vector) -> None:
        """The reading, with those before it that are missing."""
        steps = 1
        if self._stamps:
            before_ns, before = self._stamps[-1], self._values[-1]
            steps = max(1, round((stamp_ns - before_ns) / self._period_ns))
            if steps > MOST_FILLED or stamp_ns <= before_ns:
                self.restarts, steps = self.restarts + 1, 1
                self._values, self._stamps = [], []
        for step in range(1, steps):
            self._stamps.append(before_ns + (stamp_ns - before_ns) * step // steps)
            self._values.append(before + (value - before) * (step / steps))
        self.filled += steps - 1
        self._stamps.append(stamp_ns)
        self._values.append(value)


# From what a force-torque sensor reads to the wrench that is published: weight, zero, mounting, lever arm, sign.
#
# All of it is affine. With a reading w = (f, t), f in N and t in N m, along the sensor's axes, about its origin,
# exerted on the sensor by what hangs on it (the sign that these sensors have):
#
#     w' = w - zero - weight,         weight = (m g, c x m g)
#     f_out = s R f',  t_out = s R (t' - r x f')
#
# m, c: mass and centre of mass of what hangs on it; g: gravity, constant, for the base stands still; R: rotation from
# the sensor's axes to those of the published frame; r: that frame's origin; s: -1 where the wrench is to be that of the
# sensor on the robot. c, g and r are along the sensor's axes, from its origin.

LEAST_READINGS = 20


def rotation_of(roll_pitch_yaw_deg: tuple[float, float, float]) -> Matrix:
    """(3, 3) Rz(yaw) Ry(pitch) Rx(roll), as in URDF: turns a vector of the sensor's axes into the published frame's."""
    cosine, sine = np.cos(np.radians(roll_pitch_yaw_deg)), np.sin(np.radians(roll_pitch_yaw_deg))
    about_x = np.array([[1.0, 0.0, 0.0], [0.0, cosine[0], -sine[0]], [0.0, sine[0], cosine[0]]])
    about_y = np.array([[cosine[1], 0.0, sine[1]], [0.0, 1.0, 0.0], [-sine[1], 0.0, cosine[1]]])
    about_z = np.array([[cosine[2], -sine[2], 0.0], [sine[2], cosine[2], 0.0], [0.0, 0.0, 1.0]])
    rotation: Matrix = about_z @ about_y @ about_x
    return rotation


class Compensation:
    """Applies what is known of the mounting, and a zero, to readings.

    Attributes
    ----------
    weight
        (6,) N, N m: of what hangs on the sensor, along its axes.
    zero
        (6,) N, N m, along the sensor's axes: what is taken off beside the weight.
    """

    def __init__(self, chosen: WrenchConfiguration) -> None:
        direction = np.array(chosen.gravity_direction)
        force = chosen.mass_kg * (STANDARD_GRAVITY_M_S2 * direction / np.linalg.norm(direction))
        self.weight: Vector = np.concatenate([force, np.cross(chosen.centre_of_mass_m, force)])
        self._chosen = chosen
        x, y, z = chosen.lever_arm_m
        sign, rotation = (1.0 if chosen.sign == "robot_on_sensor" else -1.0), rotation_of(chosen.mounting_rpy_deg)
        self._matrix = np.zeros((6, 6))
        self._matrix[:3, :3] = self._matrix[3:, 3:] = sign * rotation
        self._matrix[3:, :3] = -sign * rotation @ np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
        self.set_zero(np.zeros(6))

    def set_zero(self, zero: Vector) -> None:
        """(6,) N, N m, along the sensor's axes."""
        weight = self.weight if self._chosen.compensates_weight else np.zeros(6)
        self.zero, self._offset = zero, -self._matrix @ (zero + weight)

    def zero_at(self, mean: Vector) -> None:
        """Take a mean at rest (6,) as zero: all of it, or without the weight, so that the weight goes on being read."""
        self.set_zero(mean if self._chosen.tare_includes_weight else mean - self.weight)

    def __call__(self, readings: Matrix) -> Matrix:
        """(K, 6) wrenches to publish, of readings (K, 6)."""
        wrenches: Matrix = readings @ self._matrix.T + self._offset
        return wrenches


def mean_at_rest(readings: Matrix, largest_force_n: float, largest_torque_n_m: float) -> Vector:
    """(6,) mean of readings (K, 6) at rest.

    Parameters
    ----------
    largest_force_n, largest_torque_n_m
        Standard deviation of a resting sensor's readings, and drift over them, at most.

    Raises
    ------
    UserError
        There are too few, or they are not at rest; with the numbers.
    """
    if len(readings) < LEAST_READINGS:
        raise UserError(f"{len(readings)} readings, {LEAST_READINGS} are needed: is the sensor there?")
    third = len(readings) // 3
    drift = np.abs(readings[-third:].mean(axis=0) - readings[:third].mean(axis=0))
    moved = np.maximum(readings.std(axis=0), drift)
    force_n, torque_n_m = float(moved[:3].max()), float(moved[3:].max())
    if not (force_n <= largest_force_n and torque_n_m <= largest_torque_n_m):
        raise UserError(
            f"it is not at rest: the readings vary by {force_n:.3g} N and {torque_n_m:.3g} N m, at rest by at most "
            f"{largest_force_n:g} and {largest_torque_n_m:g}; let it hang still, then ask again"
        )
    mean: Vector = readings.mean(axis=0)
    return mean


_BAD = ("overload", "error")
_GAP_NS = 100_000_000
"""What was read before such a gap, or one of three cycles, is no part of a zero."""
_STANDS_S = 1.0
"""So long the process data of a device without a counter may be the same: of a quiet pressure they are."""


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
    repeats
        Those that came again.
    unlike
        What is to be said of a reading that no such sensor gives.
    """

    def __init__(
        self, description: SensorDescription, decimation: int, cycle_hz: float, names: Sequence[str] = ("wrench",)
    ) -> None:
        self._has_counter = description.has_counter
        self._said: dict[StatusBits, int] = {}
        self._beyond = np.zeros(len(names), dtype=np.int64)
        # Which channels status bits speak of: those of `status_2` of `voltage_2`, others of all.
        self._status: dict[StatusBits, NDArray[np.bool_]] = {}
        for bits in description.status:
            number = bits.field.rpartition("_")[2]
            about = [not number.isdigit() or name in (f"voltage_{number}", "wrench") for name in names]
            self._status[bits] = np.array(about)
        self.received = 0
        self.repeats = Repeats(0 if self._has_counter else round(_STANDS_S * cycle_hz))
        self.unlike = "voltages that its sensor does not give: is a wire off?"
        self.decimator = Decimator(decimation, 1.0 / cycle_hz) if decimation > 1 else None

    def said(self) -> dict[StatusBits, int]:
        """Status bits that were set since the last call, and in how many readings."""
        said, self._said = self._said, {}
        return said

    def beyond(self) -> NDArray[np.int64]:
        """Of each channel, readings since the last call that no such sensor gives; they are left out."""
        beyond, self._beyond = self._beyond, np.zeros_like(self._beyond)
        return beyond

    def _read(
        self, device: Device, stamps_ns: Sequence[int], data: bytes
    ) -> tuple[list[int], Matrix, NDArray[np.bool_]]:
        """Of K cycles' process data, those that repeat none.

        Returns
        -------
        stamps, values
            (L,) and (L, m).
        faulty
            (L, n) whether the device itself speaks against the reading of a channel.
        """
        records = np.frombuffer(data, device.input_type)
        self.received += len(records)
        assert device.conversion is not None  # it was in operation
        compared = records[COUNTER] if self._has_counter else np.frombuffer(data, np.uint8).reshape(len(records), -1)
        fresh = self.repeats.fresh(compared)
        faulty = np.zeros((len(records), len(self._beyond)), dtype=np.bool_)
        words = {name: int(np.bitwise_or.reduce(records[name])) for name in {bits.field for bits in self._status}}
        for bits, about in self._status.items():
            if words[bits.field] & bits.mask:
                is_set = records[bits.field] & records.dtype[bits.field].type(bits.mask) != 0
                self._said[bits] = self._said.get(bits, 0) + int(is_set.sum())
                if bits.level in _BAD:
                    faulty |= is_set[:, None] & about
        return list(compress(stamps_ns, fresh)), device.conversion(records[fresh]), faulty[fresh]

    def _thinned(self, stamps_ns: list[int], values: Matrix) -> Batch:
        return Batch(*(self.decimator or Batch)(stamps_ns, values))


class WrenchStream(Stream):
    """Wrenches of a force-torque sensor.

    Attributes
    ----------
    raw
        Of the last readings (6,) each: N, N m, along the sensor's axes, robot on sensor, nothing taken off.
    refused
        Readings not published for what the device says of them, or for what they are.
    """

    def __init__(self, description: SensorDescription, chosen: WrenchConfiguration, cycle_hz: float) -> None:
        super().__init__(description, chosen.decimation, cycle_hz)
        self.compensation = Compensation(chosen)
        self.raw: deque[Vector] = deque(maxlen=max(LEAST_READINGS, round(chosen.tare_s * cycle_hz)))
        self._newest_ns = self.refused = 0
        self._gap_ns = max(_GAP_NS, round(3 * NANOSECONDS_PER_SECOND / cycle_hz))
        self._sign = 1.0 if chosen.device_sign == "robot_on_sensor" else -1.0
        self._publish_faulty = chosen.publish_faulty
        self._latency_ns = round(chosen.latency_s * NANOSECONDS_PER_SECOND)
        self._largest = np.array(description.largest)
        force_n, torque_n_m = self._largest[0], self._largest[3]
        self.unlike = f"readings beyond {force_n:g} N and {torque_n_m:g} N m, or no numbers: is it calibrated?"

    def __call__(self, device: Device, stamps_ns: Sequence[int], data: bytes) -> Batch:
        """What is to be published of K cycles' process data, one behind the other."""
        fresh_ns, readings, faulty = self._read(device, stamps_ns, data)
        readings = self._sign * readings
        keeps = np.asarray((np.abs(readings) <= self._largest).all(axis=1))
        self._beyond += np.count_nonzero(~keeps)
        if not self._publish_faulty:
            keeps &= ~faulty[:, 0]
        self.refused += int(np.count_nonzero(~keeps))
        kept_ns, readings = list(compress(fresh_ns, keeps)), readings[keeps]
        if (kept_ns or stamps_ns[-1:])[0] - self._newest_ns > self._gap_ns:
            self.raw.clear()
        self._newest_ns = kept_ns[-1] if kept_ns else self._newest_ns
        self.raw.extend(readings)
        return self._thinned([at_ns - self._latency_ns for at_ns in kept_ns], self.compensation(readings))


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
        self._chosen, self._columns = chosen, [column for column, _ in inputs]
        self._offsets_pa = np.array([offset_pa for _, offset_pa in inputs])
        names = [description.voltages[column] for column in self._columns]
        super().__init__(description, chosen.decimation, cycle_hz, names)

    def __call__(self, device: Device, stamps_ns: Sequence[int], data: bytes) -> Batch:
        """Stamps and pressures (L, n), Pa; NaN where there is none."""
        fresh_ns, values, faulty = self._read(device, stamps_ns, data)
        voltages = values[:, self._columns]
        beyond = self._chosen.beyond(voltages)
        self._beyond += beyond.sum(axis=0)
        pressures = self._chosen.absolute(voltages, self._offsets_pa)
        pressures[beyond | faulty] = np.nan
        return self._thinned(fresh_ns, pressures)


# Zero of a force-torque sensor: by the host or by the device's own bias, and what is said of it.

_LONGEST_S = 2.0
_STEP_S = 0.002


class Tare:
    """Makes and forgets the zero.

    Parameters
    ----------
    advance
        Takes in what the bus has read meanwhile.

    Attributes
    ----------
    is_made
        Whether there is a zero.
    on_device
        The device whose own bias is in use, and its count of starts then: a later start has lost it.
    """

    def __init__(self, configuration: WrenchConfiguration, stream: WrenchStream, advance: Callable[[], object]) -> None:
        self._configuration, self._stream, self._advance = configuration, stream, advance
        self.is_made = False
        self.on_device: tuple[Device, int] | None = None

    def make(self, device: Device) -> str:
        """Take what is read at rest as zero; what was done, in a sentence.

        Raises
        ------
        UserError
            The sensor moves, or gives too few readings.
        """
        chosen, stream = self._configuration, self._stream
        mean, by = self._mean("before the tare"), ""
        bias = device.description.bias
        if chosen.tare_on_device and bias is None:
            raise UserError(f"{device.name} has no bias of its own: set wrench.tare_on_device to false")
        if chosen.tare_on_device and bias is not None:
            before = mean
            self._pulse(device, bias.output, bias.set, bias.hold_s)
            stream.raw.clear()
            mean = self._mean("after the device's bias")
            if np.linalg.norm(mean) > 0.5 * np.linalg.norm(before) and np.abs(before[:3]).max() > chosen.still_force_n:
                raise UserError(
                    f"{device.name} was told to take its reading as zero, and still reads {_shown(mean)}, "
                    f"{_shown(before)} before: set wrench.tare_on_device to false"
                )
            self.on_device, by = (device, device.starts), "by the device's own bias"
            by += f", which took off {_shown(before)}, and "
        stream.compensation.zero_at(mean)
        self.is_made, taken_off = True, _shown(stream.compensation.zero)
        return f"zeroed {by}on the host: {taken_off} taken off, {chosen.tare_s:g} s at rest; {self._weight()}"

    def clear(self, device: Device) -> str:
        """Forget the zero; what was done, in a sentence."""
        bias = device.description.bias
        told = "zero of the host forgotten"
        if bias is not None and bias.clear and self.on_device is not None:
            self._pulse(device, bias.output, bias.clear, bias.hold_s)
            told += ", and the device's own bias cleared"
        self._stream.compensation.set_zero(np.zeros(6))
        self.is_made, self.on_device = False, None
        return told

    def lost(self, device: Device) -> str:
        """A sentence where the device has lost its bias, since it was started again; else empty."""
        if self.on_device is None or self.on_device == (device, device.starts):
            return ""
        return "the device was started again and has lost its bias: call the service tare again, at rest"

    def _weight(self) -> str:
        chosen = self._configuration
        if not chosen.mass_kg:
            return (
                "tare_includes_weight: whatever hung on the sensor meanwhile is in the zero, for wrench.mass_kg is 0 "
                "(the soft robot's wrench.tare: with_robot where the robot hung on it, else without_robot)"
            )
        if chosen.tare_includes_weight:
            return f"tare_includes_weight true: the weight of {chosen.mass_kg:g} kg is in the zero (with_robot)"
        read = "compensated" if chosen.compensates_weight else "read on"
        return f"tare_includes_weight false: the weight of {chosen.mass_kg:g} kg is {read} (without_robot)"

    def _pulse(self, device: Device, output: str, bits: int, hold_s: float) -> None:
        """Set bits of an output for a while; the device acts on their rise."""
        before = device.output(output)
        device.set_output(output, before | bits)
        self._wait(hold_s)
        device.set_output(output, before)
        self._wait(hold_s)

    def _mean(self, when: str) -> Vector:
        """Of as many readings as a zero takes."""
        chosen, raw = self._configuration, self._stream.raw
        until_s = time.monotonic() + _LONGEST_S + chosen.tare_s
        while len(raw) < (raw.maxlen or 0):
            if time.monotonic() > until_s:
                raise UserError(f"{len(raw)} of {raw.maxlen} readings came {when}: is the sensor in operation?")
            self._wait(_STEP_S)
        return mean_at_rest(np.array(raw).reshape(-1, 6), chosen.still_force_n, chosen.still_torque_n_m)

    def _wait(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            time.sleep(_STEP_S)
            self._advance()


def _shown(wrench: Vector) -> str:
    force, torque = (", ".join(f"{value:.4g}" for value in part) for part in (wrench[:3], wrench[3:]))
    return f"force {force} N, torque {torque} N m"
