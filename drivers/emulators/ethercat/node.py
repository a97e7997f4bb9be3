"""EtherCAT sensors at the far end of a cable, as an rclpy node."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from geometry_msgs.msg import WrenchStamped
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import FluidPressure

from drivers.emulators.ethercat.segment import EthercatFaults, Segment, Wire
from drivers.emulators.ethercat.sensor import EmulatedPressure, Played
from drivers.emulators.ethercat.slave import Slave
from drivers.ethercat.description import find
from onboard_estimation.base.configuration import parameter
from onboard_estimation.base.errors import UserError
from onboard_estimation.nodes.parameters import NodeParameters, SteadyNode

_LOOK_S = 0.05
_SWITCH_S = 2e-4
_NEWEST = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)


@dataclass(frozen=True)
class EmulatedBus:
    """The interface, and what is on it, as for the driver."""

    interface: str = parameter("ethercat_far", "network interface, the far end of the driver's cable")
    sensors: tuple[str, ...] = parameter(
        ("ati_axia80",), "devices in their order on the bus: names of config/ethercat, or paths of .yaml files"
    )

    def faults(self) -> Iterable[str]:
        """No sensor."""
        if not 0 < len(self.sensors) <= 64:
            yield f"sensors: {len(self.sensors)} of them, allowed: 1 to 64"


@dataclass(frozen=True)
class EmulatorConfiguration:
    """The bus, its sensors, and what goes wrong."""

    bus: EmulatedBus = EmulatedBus()
    pressure: EmulatedPressure = field(default_factory=EmulatedPressure)
    fault: EthercatFaults = field(default_factory=EthercatFaults)


@dataclass(frozen=True)
class EmulatorHost:
    """What is played."""

    bag: str = parameter("", "plays wrench and pressure/<chamber> of this bag; empty: they are made up")
    loops: bool = parameter(True, "the bag begins anew when it is over; else its last values stay")
    seed: int = parameter(0, "of the frames that get lost", minimum=0)


class EthercatEmulatorNode(SteadyNode):
    """Sensors that `config/ethercat` describes, answering an EtherCAT master on a network interface.

    They measure what `emulated_wrench` (WrenchStamped) and `emulated_pressure/<chamber>` (FluidPressure, absolute) say,
    or what the bag has, or something made up; the newest counts, as the device itself would give it, before any sign or
    tare of the driver. Faults on request, also while the node runs. Parameters: `EmulatorConfiguration` and
    `EmulatorHost`.

    Raises
    ------
    UserError
        Parameters or a sensor's description at fault; the interface is not there, or raw Ethernet is not allowed; the
        bag has nothing to play.
    """

    def __init__(self) -> None:
        self._wire: Wire | None = None
        self._thread: threading.Thread | None = None
        self._goes_on = True
        super().__init__("ethercat_wrench_emulator")
        parameters: NodeParameters[EmulatorConfiguration, EmulatorHost] = NodeParameters(
            self, EmulatorConfiguration, EmulatorHost, ("fault",), self._change
        )
        chosen, host = parameters.configuration, parameters.host
        pressure = chosen.pressure
        descriptions = [find(name) for name in chosen.bus.sensors]
        inputs = [len(one.voltages) for one in descriptions]
        if len(pressure.chambers) > sum(inputs):
            raise UserError(f"pressure.chambers: {len(pressure.chambers)} for {sum(inputs)} analogue inputs")
        if chosen.fault.slave >= len(descriptions):
            raise UserError(f"fault.slave: {chosen.fault.slave}, but the last of {len(descriptions)} devices has "
                            f"the place {len(descriptions) - 1}")  # fmt: skip
        self._played = Played(pressure, Path(host.bag) if host.bag else None, host.loops)
        self._slaves = [
            Slave(one, self._played.signal(one, sum(inputs[:place])), serial=place + 1)
            for place, one in enumerate(descriptions)
        ]
        self._bus = Segment(self._slaves, chosen.fault, host.seed)
        self._wire = Wire(chosen.bus.interface)
        self.create_subscription(WrenchStamped, "emulated_wrench", self._on_wrench, _NEWEST)
        for name in filter(None, pressure.chambers):
            self.create_subscription(
                FluidPressure, f"emulated_pressure/{name}", partial(self._on_pressure, name), _NEWEST
            )
        # The wire's thread has to get its turn at once: a master waits for 2 ms only.
        sys.setswitchinterval(_SWITCH_S)
        serve = partial(self._wire.serve, self._bus.process, lambda: self._goes_on)
        self._thread = threading.Thread(target=serve, name="wire", daemon=True)
        self._thread.start()
        self._told: list[tuple[int, int]] = [(slave.state, slave.error) for slave in self._slaves]
        self._fault = ""
        self.every(_LOOK_S, partial(self._look, self._wire))
        listed = ", ".join(slave.description.name for slave in self._slaves)
        self.get_logger().info(f"{listed} on {chosen.bus.interface}")

    def destroy_node(self) -> None:
        """The devices are gone."""
        self._goes_on = False
        if self._thread is not None:
            self._thread.join()
        if (wire := self._wire) is not None:
            wire.close()
            self.get_logger().info(f"{wire.received} frames came, {wire.returned} went back, {wire.refused} were none")
        super().destroy_node()

    def _change(self, configuration: EmulatorConfiguration) -> None:
        if configuration.fault.slave >= len(self._slaves):
            raise ValueError(f"fault.slave: there are {len(self._slaves)} devices, the first is 0")
        self._bus.change(configuration.fault)

    def _on_wrench(self, message: WrenchStamped) -> None:
        force, torque = message.wrench.force, message.wrench.torque
        self._played.messages["wrench"] = (force.x, force.y, force.z, torque.x, torque.y, torque.z)

    def _on_pressure(self, chamber: str, message: FluidPressure) -> None:
        self._played.messages[f"pressure/{chamber}"] = (message.fluid_pressure,)

    def _look(self, wire: Wire) -> None:
        """Say what has changed."""
        for place, slave in enumerate(self._slaves):
            now = (slave.state, slave.error)
            if now != self._told[place]:
                self._told[place] = now
                code = f", error 0x{slave.error:04X}" if slave.error else ""
                self.get_logger().info(f"{place}, {slave.description.name}: {slave.state.name}{code}")
        if self._thread is not None and not self._thread.is_alive():
            raise RuntimeError("the wire's thread has ended")
        if wire.fault != self._fault:
            self._fault = wire.fault
            self.get_logger().warning(wire.fault, throttle_duration_sec=1.0)
