"""The hopper, simulated or out of a bag, with its accelerometers behind a serial line, as an rclpy node."""

from __future__ import annotations

import atexit
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from drivers.emulators.serial_imu import PlayedBag, Reading, SerialBag, SerialDevice, SerialFaults
from drivers.serial_imu.frames import NOT_FOUND, Settings
from hopper_estimation.model.configuration import HIGH_G, LOW_G
from hopper_estimation.nodes import HopperSimulatorNode
from onboard_estimation.bags.bag import open_bag
from onboard_estimation.base.configuration import non_negative, parameter
from onboard_estimation.base.measurement import Measurement, Vector
from onboard_estimation.contract.robot import Robot
from onboard_estimation.contract.simulated import Simulation
from onboard_estimation.nodes.simulator import SimulatorHost

RANGES = Settings(0, 0, low_g_range=3, gyro_range=3, high_g_range=1, low_pass=0, rate_hz=840, firmware=(0, 1, 0))
"""+-16 g, +-2000 deg/s, +-200 g, no filter: as in firmware/settings.py."""
_BAG_AHEAD_S = 0.02
"""What is read of a bag at a time: decoding more at once would hold up what is due meanwhile."""


@dataclass(frozen=True)
class SerialEmulatorHost(SimulatorHost, SerialFaults, SerialBag):
    """What the node itself wants to know, beside the robot's configuration."""

    waits_s: float = non_negative(120.0, "so long the robot waits for a driver that has the port for itself", "s")
    link: str = parameter("/tmp/serial_imu", "where the serial port is to be found, as /dev/ttyUSB0 would be")

    def faults(self) -> Iterator[str]:
        """What a bag would not heed."""
        unheeded = {
            "control": self.control == "estimate",
            "scenario": bool(self.scenario),
            "variant": bool(self.variant),
            "imu_rate_hz": self.imu_rate_hz > 0.0,
        }
        if self.bag:
            yield from (f"{name}: of a simulated robot, and bag is set" for name, given in unheeded.items() if given)


class HopperSerialEmulatorNode(HopperSimulatorNode):
    """A hopper, simulated or out of a bag, whose accelerometers are read by a driver, as those of a real one.

    Both sensors go as frames (`drivers.serial_imu.frames`) into a pseudo-terminal, in counts, stamped by a clock of
    their own; `link` leads to its other end, for `serial_imu`. Commands, attitude and ground truth are published as by
    the simulator, those of a bag with the times at which they are played. It begins once a driver has the port, and is
    silent in the end, as a device that reads no more. Parameters: those of the simulator, `SerialFaults`, `SerialBag`.

    Raises
    ------
    UserError
        As by `SimulatorNode` and `PlayedBag`.
    """

    host_type = SerialEmulatorHost
    _host: SerialEmulatorHost
    node_name = "serial_imu_emulator"
    _played: PlayedBag | None = None
    _told = RANGES

    def __init__(self) -> None:
        super().__init__()
        host = self._host
        self._device = SerialDevice(Path(host.link) if host.link else None, self._told, host, host.seed)
        atexit.register(self._device.close)
        self.withhold({LOW_G.topic, HIGH_G.topic})
        self.hand_to(self._send, {LOW_G.topic, HIGH_G.topic})
        self._waits_until_s: float | None = time.monotonic() + host.waits_s
        self.get_logger().info(f"both sensors are at {host.link or self._device.port}")

    def _begin(self, robot: Robot, configuration: Any) -> tuple[Simulation, str]:
        host = self._host
        if not host.bag:
            self._told = replace(RANGES, rate_hz=round(host.imu_rate_hz) or RANGES.rate_hz)
            return super()._begin(robot, configuration)
        bag = open_bag(host.bag)
        atexit.register(bag.close)
        if bag.damage:
            self.get_logger().warning(f"{bag.path} is damaged: {bag.damage}")
        self._played = played = PlayedBag(bag, host, robot, configuration)
        self._ahead_s = _BAG_AHEAD_S
        absent: dict[str, Any] = {f"{played.absent.removeprefix('imu/')}_identity": NOT_FOUND} if played.absent else {}
        self._told = replace(RANGES, rate_hz=max(1, min(round(played.rate_hz), 65535)), **absent)
        lacks = f", without {played.absent}: marked unread" if played.absent else ""
        topics = ", ".join(played.topics.values())
        return played, f"playing {bag.path}: {bag.duration_s:.1f} s, {self._told.rate_hz} Hz{lacks}; {topics}"

    def _is_over(self) -> bool:
        return super()._is_over() or (self._played is not None and self._played.is_over)

    def _say_over(self) -> None:
        """What became of it, for a test to be judged by."""
        self._device.flush()
        device, played = self._device, self._played
        told = {
            "frames sent": device.sent - device.unsent,
            "dropped": device.dropped,
            "unsent": device.unsent,
            "readings clipped to the ranges": device.clipped,
        }
        if played is not None:
            told |= {"readings unpaired": played.unpaired, "messages left out": played.left_out}
        what = ", ".join(f"{count} {name}" for name, count in told.items())
        self.get_logger().info(f"{'the bag' if played else 'the simulation'} is over: {what}; the line is silent now")

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
