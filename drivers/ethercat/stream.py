"""From process data of one device to stamped wrenches or pressures, with what the device says against them."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import compress
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from drivers.ethercat.configuration import PressureConfiguration, WrenchConfiguration
from drivers.ethercat.description import COUNTER, WRENCH, SensorDescription, StatusBits
from drivers.ethercat.device import Device
from drivers.repeats import CountedRepeats
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Matrix, Vector
from onboard_estimation.base.series import STANDARD_GRAVITY_M_S2
from onboard_estimation.filtering.manifold_kernels import rotation_matrix
from onboard_estimation.ros.transforms import from_roll_pitch_yaw

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
    return firwin(int(taps) | 1, 0.5 * (PASS + STOP) / nyquist, window=("kaiser", beta))


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
    """

    def __init__(self, factor: int, period_s: float) -> None:
        self.factor = factor
        self._taps = low_pass(factor)
        self._period_ns = period_s * NANOSECONDS_PER_SECOND
        self.delay_s = 0.5 * (len(self._taps) - 1) * period_s
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
        if self._stamps:
            before_ns, before = self._stamps[-1], self._values[-1]
            steps = max(1, round((stamp_ns - before_ns) / self._period_ns))
            if steps > MOST_FILLED or stamp_ns <= before_ns:
                self._values, self._stamps, steps = [], [], 1
            self._stamps += [before_ns + (stamp_ns - before_ns) * step // steps for step in range(1, steps)]
            self._values += [before + (value - before) * (step / steps) for step in range(1, steps)]
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
    return readings.mean(axis=0)


_BAD = ("overload", "error")
_NO_VOLTAGE = "voltages that its sensor does not give: is a wire off?"
_LONGEST_S, _STEP_S = 2.0, 0.002
"""Beyond their own time readings for a zero are waited for; in such steps."""
_STANDS_S = 1.0
"""So long the process data of a device without a counter may be the same: of a quiet pressure they are."""


class Batch(NamedTuple):
    """K stamps, ns, and values (K, m)."""

    stamps_ns: list[int]
    values: Matrix


_Decides: TypeAlias = Callable[[Matrix], NDArray[np.bool_]]


class Readout:
    """What is published of some fields of a device: readings that the device does not speak against, and can be.

    Parameters
    ----------
    fields
        Of the description's.
    convert
        What is published, of values (K, m).
    is_beyond
        (K, m) whether no such sensor gives a value.
    unlike
        What is to be said of such.
    latency_s
        By which readings are older than their stamps.

    Attributes
    ----------
    columns
        Of the fields among the description's.
    status
        Bits that speak against it: those of `status_2` of `voltage_2` only, others of all.
    beyond
        Readings that no such sensor gives, for whoever sets it back; they are left out.
    refused
        Readings left out.
    """

    def __init__(
        self,
        description: SensorDescription,
        fields: Sequence[str],
        convert: Callable[[Matrix], Matrix],
        is_beyond: _Decides,
        unlike: str,
        decimation: int,
        cycle_hz: float,
        latency_s: float = 0.0,
    ) -> None:
        self.columns = [description.fields.index(one) for one in fields]
        bad = [bits for bits in description.status if bits.level in _BAD]
        self.status = [bits for bits in bad if not _is_of_another(bits.field, fields[0])]
        self.beyond = self.refused = 0
        self.decimator = Decimator(decimation, 1.0 / cycle_hz) if decimation > 1 else None
        self.unlike, self._convert, self._is_beyond = unlike, convert, is_beyond
        self._latency_ns = round(latency_s * NANOSECONDS_PER_SECOND)

    def __call__(self, stamps_ns: Sequence[int], values: Matrix, faulty: NDArray[np.bool_]) -> Batch:
        """Of fresh readings (K, m), and (K,) whether the device speaks against them."""
        beyond = np.asarray(self._is_beyond(values).any(axis=1))
        keeps = ~(beyond | faulty)
        self.beyond += int(beyond.sum())
        self.refused += int((~keeps).sum())
        kept_ns = [at_ns - self._latency_ns for at_ns in compress(stamps_ns, keeps)]
        return Batch(*(self.decimator or Batch)(kept_ns, self._convert(values[keeps])))


def _is_of_another(status: str, field: str) -> bool:
    told, number = (name.rpartition("_")[2] for name in (status, field))
    return told.isdigit() and number.isdigit() and told != number


class Wrench:
    """From readings of a force-torque sensor to wrenches; makes and forgets their zero.

    Attributes
    ----------
    weight
        (6,) N, N m: of what hangs on the sensor, along its axes.
    zero
        (6,) N, N m, along the sensor's axes: what is taken off beside the weight.
    raw
        Of the last readings (6,) each: N, N m, along the sensor's axes, robot on sensor, nothing taken off.
    is_tared
        Whether there is a zero.
    """

    def __init__(self, chosen: WrenchConfiguration, cycle_hz: float) -> None:
        self._chosen, self._cycle_hz = chosen, cycle_hz
        direction = np.array(chosen.gravity_direction)
        force = chosen.mass_kg * (STANDARD_GRAVITY_M_S2 * direction / np.linalg.norm(direction))
        self.weight: Vector = np.concatenate([force, np.cross(chosen.centre_of_mass_m, force)])
        x, y, z = chosen.lever_arm_m
        sign, self._sign = (1.0 if one == "robot_on_sensor" else -1.0 for one in (chosen.sign, chosen.device_sign))
        turn = from_roll_pitch_yaw([0.0, 0.0, 0.0, *np.deg2rad(chosen.mounting_rpy_deg)])
        rotation = rotation_matrix(*turn[3:])
        self._matrix = np.zeros((6, 6))
        self._matrix[:3, :3] = self._matrix[3:, 3:] = sign * rotation
        self._matrix[3:, :3] = -sign * rotation @ np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
        self.raw: deque[Vector] = deque(maxlen=max(LEAST_READINGS, round(chosen.tare_s * cycle_hz)))
        self.clear_tare()

    def __call__(self, values: Matrix) -> Matrix:
        """(K, 6) wrenches to publish, of what the device gives."""
        readings = self._sign * values
        self.raw.extend(readings)
        return readings @ self._matrix.T + self._offset

    def _set_zero(self, zero: Vector) -> None:
        weight = self.weight if self._chosen.compensates_weight else np.zeros(6)
        self.zero, self._offset = zero, -self._matrix @ (zero + weight)

    def zero_at(self, mean: Vector) -> None:
        """Take a mean at rest (6,) as zero: all of it, or without the weight, so that the weight goes on being read."""
        self._set_zero(mean if self._chosen.tare_includes_weight else mean - self.weight)
        self.is_tared = True

    def readout(self, description: SensorDescription) -> Readout:
        """Of a force-torque sensor."""
        largest, chosen = np.array(description.largest), self._chosen
        unlike = f"readings beyond {largest[0]:g} N and {largest[3]:g} N m, or no numbers: is it calibrated?"
        kept = chosen.decimation, self._cycle_hz, chosen.latency_s
        return Readout(description, WRENCH, self, lambda values: ~(np.abs(values) <= largest), unlike, *kept)

    def tare(self, advance: Callable[[], object]) -> str:
        """Take what is read at rest, from now on, as zero; what was done, in a sentence.

        Parameters
        ----------
        advance
            Takes in what the bus has read meanwhile.

        Raises
        ------
        UserError
            The sensor moves, or gives too few readings.
        """
        chosen, raw = self._chosen, self.raw
        raw.clear()
        until_s = time.monotonic() + _LONGEST_S + chosen.tare_s
        while len(raw) < (raw.maxlen or 0):
            if time.monotonic() > until_s:
                raise UserError(f"{len(raw)} of {raw.maxlen} readings came for the tare: is the sensor in operation?")
            time.sleep(_STEP_S)
            advance()
        readings = np.array(raw).reshape(-1, 6)
        self.zero_at(mean_at_rest(readings, chosen.still_force_n, chosen.still_torque_n_m))
        return f"zeroed on the host: {_shown(self.zero)} taken off, {chosen.tare_s:g} s at rest; {self._weight()}"

    def clear_tare(self) -> str:
        """Forget the zero; what was done, in a sentence."""
        self._set_zero(np.zeros(6))
        self.is_tared = False
        return "zero of the host forgotten"

    def _weight(self) -> str:
        chosen = self._chosen
        if not chosen.mass_kg:
            return (
                "whatever hung on the sensor meanwhile is in the zero, for wrench.mass_kg is 0 "
                "(the soft robot's wrench.tare: with_robot where the robot hung on it, else without_robot)"
            )
        read = "in the zero (with_robot)" if chosen.tare_includes_weight else "read on (without_robot)"
        read = "compensated (with_robot)" if chosen.compensates_weight else read
        return f"the weight of {chosen.mass_kg:g} kg is {read}"


def pressure_readout(
    description: SensorDescription, field: str, chosen: PressureConfiguration, offset_pa: float, cycle_hz: float
) -> Readout:
    """Absolute pressure, Pa, of a sensor on that analogue input."""
    convert = partial(chosen.absolute, offsets_pa=np.array([offset_pa]))
    return Readout(description, [field], convert, chosen.beyond, _NO_VOLTAGE, chosen.decimation, cycle_hz)


class Stream:
    """Readings of one device.

    Parameters
    ----------
    readouts
        What is published of them, by name.

    Attributes
    ----------
    received
        Readings that came.
    repeats
        Those that came again.
    said
        Status bits that were set, and in how many readings, for whoever clears it.
    """

    def __init__(self, description: SensorDescription, readouts: dict[str, Readout], cycle_hz: float) -> None:
        self.readouts, self._description = readouts, description
        self._fields = {bits.field for bits in description.status}
        self.received = 0
        self.repeats = CountedRepeats(0 if description.has_counter else round(_STANDS_S * cycle_hz))
        self.said: Counter[StatusBits] = Counter()

    def __call__(self, device: Device, stamps_ns: Sequence[int], data: bytes) -> dict[str, Batch]:
        """By name, what is to be published of K cycles' process data, one behind the other."""
        records = np.frombuffer(data, device.input_type)
        self.received += len(records)
        assert device.conversion is not None  # it was in operation
        bytewise = np.frombuffer(data, np.uint8).reshape(len(records), -1)
        fresh = self.repeats.fresh(records[COUNTER] if self._description.has_counter else bytewise)
        words = {name: int(np.bitwise_or.reduce(records[name])) for name in self._fields}
        is_set = {
            bits: records[bits.field] & records.dtype[bits.field].type(bits.mask) != 0
            for bits in self._description.status
            if words[bits.field] & bits.mask
        }
        self.said.update({bits: int(one.sum()) for bits, one in is_set.items()})
        values, fresh_ns = device.conversion(records[fresh]), list(compress(stamps_ns, fresh))
        none = np.zeros(len(records), dtype=np.bool_)
        return {
            name: one(
                fresh_ns, values[:, one.columns], sum((is_set.get(bits, none) for bits in one.status), none)[fresh]
            )
            for name, one in self.readouts.items()
        }


def _shown(wrench: Vector) -> str:
    force, torque = (", ".join(f"{value:.4g}" for value in part) for part in (wrench[:3], wrench[3:]))
    return f"force {force} N, torque {torque} N m"
