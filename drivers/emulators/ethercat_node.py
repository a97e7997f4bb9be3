"""EtherCAT sensors at the far end of a cable, as an rclpy node."""

from __future__ import annotations

import math
import sys
import threading
from dataclasses import dataclass, field
from functools import partial

from geometry_msgs.msg import WrenchStamped
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import FluidPressure

from drivers.emulators.ethercat_segment import EthercatFaults, Segment, Wire
from drivers.emulators.ethercat_slave import Signal, Slave
from drivers.ethercat.configuration import BusSensors, PressureSensors
from drivers.ethercat.description import SensorDescription, find
from drivers.node import NoRobot
from onboard_estimation.base.configuration import non_negative, parameter
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.nodes.parameters import NodeParameters, SteadyNode

_LOOK_S = 0.05
_SWITCH_S = 2e-4
_NEWEST = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)


@dataclass(frozen=True)
class EmulatedPressure(PressureSensors):
    """Pressure sensors on the bus's analogue inputs, as for the driver."""

    ambient_pa: float = non_negative(
        101325.0, "pressure of the air around, the sensors' zero; 0: they measure absolute", "Pa"
    )

    def voltage(self, pressure_pa: float) -> float:
        """V, of an absolute pressure."""
        return self.volts[0] + (pressure_pa - self.ambient_pa - self.pascals[0]) / self.slope_pa


# What the emulated sensors measure: forces, torques and pressures of messages as they come, or made up.

_WRENCH = ((0.0, 2.0), (0.0, 1.5), (-12.0, 6.0), (0.0, 0.10), (0.0, 0.08), (0.0, 0.04))
"""Middle and amplitude of what is made up: N, N m."""
_PRESSURE = (20_000.0, 15_000.0)
"""The same above the surroundings, Pa."""


def _swing(now_ns: int, place: int) -> float:
    """-1 to 1 in 5 s, each place a third of a turn behind the other."""
    turns = now_ns / (5.0 * NANOSECONDS_PER_SECOND) % 1.0 - place / 3.0
    return math.sin(2.0 * math.pi * turns)


# The node.


@dataclass(frozen=True)
class EmulatedBus(BusSensors):
    """The interface, and what is on it, as for the driver."""

    interface: str = parameter("ethercat_far", "network interface, the far end of the driver's cable")


@dataclass(frozen=True)
class EmulatorConfiguration:
    """The bus, its sensors, and what goes wrong."""

    bus: EmulatedBus = EmulatedBus()
    pressure: EmulatedPressure = field(default_factory=EmulatedPressure)
    fault: EthercatFaults = field(default_factory=EthercatFaults)
    seed: int = parameter(0, "of the frames that get lost", minimum=0)


class EthercatEmulatorNode(SteadyNode):
    """Sensors that `config/ethercat` describes, answering an EtherCAT master on a network interface.

    They measure what `emulated_wrench` (WrenchStamped) and `emulated_pressure/<chamber>` (FluidPressure, absolute) say,
    or something made up; the newest counts, as the device itself would give it, before any sign or tare of the driver.
    Faults on request, also while the node runs. Parameters: `EmulatorConfiguration`.

    Raises
    ------
    UserError
        Parameters or a sensor's description at fault; the interface is not there, or raw Ethernet is not allowed.
    """

    def __init__(self) -> None:
        self._wire: Wire | None = None
        self._thread: threading.Thread | None = None
        self._goes_on = True
        super().__init__("ethercat_wrench_emulator")
        chosen = NodeParameters(self, EmulatorConfiguration, NoRobot, ("fault",), self._change).configuration
        pressure = chosen.pressure
        descriptions = [find(name) for name in chosen.bus.sensors]
        inputs = [len(one.voltages) for one in descriptions]
        if len(pressure.chambers) > sum(inputs):
            raise UserError(f"pressure.chambers: {len(pressure.chambers)} for {sum(inputs)} analogue inputs")
        self._pressure = pressure
        self._messages: dict[str, tuple[float, ...]] = {}  # newest of `wrench` and `pressure/<chamber>`, if one came
        self._slaves = [
            Slave(one, self._signal(one, sum(inputs[:place])), serial=place + 1)
            for place, one in enumerate(descriptions)
        ]
        self._bus = Segment(self._slaves, chosen.fault, chosen.seed)
        if fault := self._fault_of_place(chosen):
            raise UserError(fault)
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

    def _signal(self, description: SensorDescription, first_input: int) -> Signal:
        """What a device measures, whose analogue inputs begin with that one of the bus: of messages, else made up."""
        if description.has_wrench:
            return lambda now_ns: (
                self._messages.get("wrench")
                or [middle + amplitude * _swing(now_ns, place) for place, (middle, amplitude) in enumerate(_WRENCH)]
            )
        sensors, stop = self._pressure, first_input + len(description.voltages)
        names = [*sensors.chambers, *stop * [""]][first_input:stop]

        def volts(now_ns: int, place: int, name: str) -> float:
            """0 without a sensor."""
            made_up = sensors.ambient_pa + _PRESSURE[0] + _PRESSURE[1] * _swing(now_ns, place)
            (pressure_pa,) = self._messages.get(f"pressure/{name}", (made_up,))
            return sensors.voltage(pressure_pa) if name else 0.0

        return lambda now_ns: [volts(now_ns, place, name) for place, name in enumerate(names, first_input)]

    def _change(self, configuration: EmulatorConfiguration) -> None:
        if fault := self._fault_of_place(configuration):
            raise ValueError(fault)
        self._bus.change(configuration.fault)

    def _fault_of_place(self, configuration: EmulatorConfiguration) -> str:
        place, last = configuration.fault.slave, len(self._slaves) - 1
        return f"fault.slave: {place}, but the last of {last + 1} devices has the place {last}" if place > last else ""

    def _on_wrench(self, message: WrenchStamped) -> None:
        force, torque = message.wrench.force, message.wrench.torque
        self._messages["wrench"] = (force.x, force.y, force.z, torque.x, torque.y, torque.z)

    def _on_pressure(self, chamber: str, message: FluidPressure) -> None:
        self._messages[f"pressure/{chamber}"] = (message.fluid_pressure,)

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
