"""Zero of a force-torque sensor: by the host or by the device's own bias, and what is said of it."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from drivers.ethercat.compensation import mean_at_rest
from drivers.ethercat.configuration import WrenchConfiguration
from drivers.ethercat.device import Device
from drivers.ethercat.stream import WrenchStream
from onboard_estimation.errors import UserError
from onboard_estimation.measurement import Vector

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
