"""The simulated hopper with its accelerometers behind a serial line, as an rclpy node."""

from __future__ import annotations

import atexit
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from drivers.emulators.serial_imu import Reading, SerialDevice, SerialFaults
from drivers.serial_frames import Settings
from hopper_estimation.nodes.simulator import HopperSimulatorNode
from hopper_estimation.topics import HIGH_G, LOW_G
from onboard_estimation.configuration import parameter
from onboard_estimation.measurement import Measurement, Vector
from onboard_estimation.nodes.simulator import SimulatorHost

RANGES = Settings(0, 0, low_g_range=3, gyro_range=3, high_g_range=1, low_pass=0, rate_hz=840, firmware=(0, 1, 0))
"""+-16 g, +-2000 deg/s, +-200 g."""


@dataclass(frozen=True)
class SerialEmulatorHost(SimulatorHost, SerialFaults):
    """What the node itself wants to know, beside the robot's configuration."""

    waits_s: float = parameter(
        120.0, "so long the robot waits for a driver that has the port for itself", unit="s", minimum=0.0
    )
    link: str = parameter("/tmp/serial_imu", "where the serial port is to be found, as /dev/ttyUSB0 would be")


class HopperSerialEmulatorNode(HopperSimulatorNode):
    """A simulated hopper whose accelerometers are read by a driver, as those of a real one.

    Both sensors go as frames (`drivers.serial_frames`) into a pseudo-terminal, in counts, stamped by a clock of their
    own; `link` leads to its other end, for `serial_imu`. Commands, attitude and ground truth are published as by the
    simulator. It begins once a driver has the port. Parameters: those of the simulator, and `SerialFaults`.
    """

    host_type = SerialEmulatorHost
    node_name = "serial_imu_emulator"

    def __init__(self) -> None:
        super().__init__()
        host = self._host
        assert isinstance(host, SerialEmulatorHost)
        self._device = SerialDevice(Path(host.link) if host.link else None, RANGES, host, host.seed)
        atexit.register(self._device.close)
        self._high: tuple[int, Vector] | None = None
        self.withhold({LOW_G.topic, HIGH_G.topic})
        self.hand_to(self._send, {LOW_G.topic, HIGH_G.topic})
        self._waits_until_s: float | None = time.monotonic() + host.waits_s
        self.get_logger().info(f"both sensors are at {host.link or self._device.port}")

    def _tick(self) -> None:
        """A first start of the driver may compile for a minute: the robot's rest must not be over by then."""
        if self._waits_until_s is not None:
            if not self._device.is_taken() and time.monotonic() < self._waits_until_s:
                return
            self._waits_until_s = None
            self._start_clock()
        super()._tick()

    def _send(self, readings: Sequence[Measurement]) -> float:
        """Readings of one instant make a sample; without a high-g one it could not be read."""
        samples = []
        for reading in readings:
            if reading.sensor == HIGH_G.sensor:
                self._high = reading.stamp_ns, reading.value
                continue
            high = self._high[1] if self._high is not None and self._high[0] == reading.stamp_ns else None
            samples.append(Reading(reading.stamp_ns - self._epoch_ns, reading.value, high))
        self._device.send(samples)
        return 0.0
