"""The simulated hopper with its accelerometers behind a serial line, as an rclpy node."""

from __future__ import annotations

import atexit
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from drivers.emulators.serial_imu import Reading, SerialDevice, SerialFaults
from drivers.serial_imu.frames import Settings
from hopper_estimation.model.configuration import HIGH_G, LOW_G
from hopper_estimation.nodes import HopperSimulatorNode
from onboard_estimation.base.configuration import non_negative, parameter
from onboard_estimation.base.measurement import Measurement, Vector
from onboard_estimation.nodes.simulator import SimulatorHost

RANGES = Settings(0, 0, low_g_range=3, gyro_range=3, high_g_range=1, low_pass=0, rate_hz=840, firmware=(0, 1, 0))
"""+-16 g, +-2000 deg/s, +-200 g, no filter: as in firmware/settings.py."""


@dataclass(frozen=True)
class SerialEmulatorHost(SimulatorHost, SerialFaults):
    """What the node itself wants to know, beside the robot's configuration."""

    waits_s: float = non_negative(120.0, "so long the robot waits for a driver that has the port for itself", "s")
    link: str = parameter("/tmp/serial_imu", "where the serial port is to be found, as /dev/ttyUSB0 would be")


class HopperSerialEmulatorNode(HopperSimulatorNode):
    """A simulated hopper whose accelerometers are read by a driver, as those of a real one.

    Both sensors go as frames (`drivers.serial_imu.frames`) into a pseudo-terminal, in counts, stamped by a clock of
    their own; `link` leads to its other end, for `serial_imu`. Commands, attitude and ground truth are published as by
    the simulator. It begins once a driver has the port, and is silent in the end, as a device that reads no more.
    Parameters: those of the simulator, `SerialFaults`.

    Raises
    ------
    UserError
        As by `SimulatorNode`.
    """

    host_type = SerialEmulatorHost
    _host: SerialEmulatorHost
    node_name = "serial_imu_emulator"

    def __init__(self) -> None:
        super().__init__()
        host = self._host
        told = replace(RANGES, rate_hz=round(host.imu_rate_hz) or RANGES.rate_hz)
        self._device = SerialDevice(Path(host.link) if host.link else None, told, host, host.seed)
        atexit.register(self._device.close)
        self.withhold({LOW_G.topic, HIGH_G.topic})
        self.hand_to(self._send, {LOW_G.topic, HIGH_G.topic})
        self._waits_until_s: float | None = time.monotonic() + host.waits_s
        self.get_logger().info(f"both sensors are at {host.link or self._device.port}")

    def _say_over(self) -> None:
        """What became of it, for a test to be judged by."""
        self._device.flush()
        device = self._device
        told = {
            "frames sent": device.sent - device.unsent,
            "dropped": device.dropped,
            "unsent": device.unsent,
            "readings clipped to the ranges": device.clipped,
        }
        what = ", ".join(f"{count} {name}" for name, count in told.items())
        self.get_logger().info(f"the simulation is over: {what}; the line is silent now")

    def _tick(self) -> None:
        """A first start of the driver may compile for a minute: the robot's rest must not be over by then."""
        if self._waits_until_s is not None:
            if not self._device.is_taken() and time.monotonic() < self._waits_until_s:
                return
            self._waits_until_s = None
            self._start_clock()
        super()._tick()

    def _send(self, readings: Sequence[Measurement]) -> float:
        """Readings of one instant make a sample; a sensor without one could not be read."""
        samples: dict[int, dict[str, Vector]] = {}
        for reading in readings:
            samples.setdefault(reading.stamp_ns, {})[reading.sensor] = reading.value
        unsent = self._device.unsent
        self._device.send(
            Reading(stamp_ns - self._epoch_ns, values.get(LOW_G.sensor), values.get(HIGH_G.sensor))
            for stamp_ns, values in samples.items()
        )
        if self._device.unsent > unsent:
            told = f"the line is full, the driver does not read: {self._device.unsent} frames are lost"
            self.get_logger().warning(told, throttle_duration_sec=1.0)
        return 0.0
