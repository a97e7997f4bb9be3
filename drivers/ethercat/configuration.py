"""Parameters of the EtherCAT node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.configuration import bounded, non_negative, parameter, positive, topic_name_faults
from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.ros.transforms import AUTOMATIC

_LARGEST_DECIMATION = 100
_MARGIN = 0.05
"""Share of its span by which a pressure sensor's voltage may be beyond it."""


@dataclass(frozen=True)
class BusSensors:
    """The interface, and what is on it."""

    interface: str = parameter("", "network interface, for this bus alone; has to be set")
    sensors: tuple[str, ...] = parameter(
        ("ati_axia80",), "devices in their order on the bus: names of config/ethercat, or paths of .yaml files"
    )

    def faults(self) -> Iterable[str]:
        """No sensor."""
        if not self.sensors:
            yield "sensors: [], allowed: at least one"


@dataclass(frozen=True)
class BusConfiguration(BusSensors):
    """The interface, what is on it, and how often it is asked."""

    beside_network: bool = parameter(False, "be master of an interface that has an IP address too")
    cycle_hz: float = bounded(1000.0, 10.0, 4000.0, "cycles a second", "Hz")
    spin_s: float = bounded(0.00002, 0.0, 0.001, "so long before a cycle its thread does not sleep", "s")
    receive_timeout_us: int = bounded(4000, 100, 100_000, "so long a frame is waited for", "us")
    lost_after_cycles: int = bounded(
        10, 1, 1000, "cycles without the working counter expected, until the data count as lost"
    )
    realtime_priority: int = bounded(
        50, 0, 98, "of the cycle's thread (SCHED_FIFO), where the user may have one; 0: none"
    )


@dataclass(frozen=True)
class WrenchConfiguration:
    """What becomes of a force-torque sensor's readings; vectors are along the sensor's axes, from its origin."""

    sign: Literal["robot_on_sensor", "sensor_on_robot"] = parameter(
        "robot_on_sensor", "whose force on whom the messages hold, as wrench.sign of the soft robot"
    )
    device_sign: Literal["robot_on_sensor", "sensor_on_robot"] = parameter(
        "robot_on_sensor", "the same of what the device itself gives"
    )
    decimation: int = bounded(1, 1, _LARGEST_DECIMATION, "of so many readings one is published, low-passed before")
    latency_s: float = bounded(0.0, 0.0, 1.0, "of the device's own filter: taken off the stamps", "s")
    frame: str = parameter("wrench", "frame of the messages")
    mounting_rpy_deg: tuple[float, float, float] = bounded(
        (0.0, 0.0, 0.0),
        -360.0,
        360.0,
        "turns a vector of the sensor's axes into the frame's: roll, pitch, yaw as in URDF",
        "deg",
    )
    lever_arm_m: tuple[float, float, float] = parameter((0.0, 0.0, 0.0), "where the frame's origin is", unit="m")
    mass_kg: float = non_negative(0.0, "of what hangs on the sensor", "kg")
    centre_of_mass_m: tuple[float, float, float] = parameter((0.0, 0.0, 0.0), "of that", unit="m")
    gravity_direction: tuple[float, float, float] = parameter(
        (0.0, 0.0, 1.0), "down, of any length; the base stands still"
    )
    compensates_weight: bool = parameter(False, "take the weight of mass_kg off what is published")
    tare_includes_weight: bool = parameter(
        False, "a tare takes the weight of mass_kg into the zero, so that it is read no more"
    )
    tare_s: float = bounded(0.5, 0.05, 5.0, "readings of so long make a zero", "s")
    still_force_n: float = positive(0.2, "standard deviation and drift of a force at rest, at most", "N")
    still_torque_n_m: float = positive(0.01, "the same of a torque", "N m")

    def faults(self) -> Iterable[str]:
        """What does not go together."""
        if not any(self.gravity_direction):
            yield "gravity_direction: [0, 0, 0] has no direction"
        if self.compensates_weight and self.tare_includes_weight:
            yield "tare_includes_weight: true beside compensates_weight would take the weight off twice"
        if self.compensates_weight and not self.mass_kg:
            yield "mass_kg: 0, but compensates_weight is true"


@dataclass(frozen=True)
class PressureSensors:
    """Which analogue inputs have one, and the line from pressure to voltage, the same for all."""

    chambers: tuple[str, ...] = parameter(
        (), "of each analogue input in turn, as in pressure/<chamber>; empty text: an input without a sensor"
    )
    volts: tuple[float, float] = parameter((0.0, 10.0), "at the ends of the sensors' range", unit="V")
    pascals: tuple[float, float] = parameter((0.0, 100000.0), "at the ends of the sensors' range", unit="Pa")

    @property
    def slope_pa(self) -> float:
        """Pa for each volt."""
        return (self.pascals[1] - self.pascals[0]) / (self.volts[1] - self.volts[0])

    def faults(self) -> Iterable[str]:
        """A line needs two points, a topic a name."""
        for name in ("volts", "pascals"):
            first, last = getattr(self, name)
            if first == last:
                yield f"{name}: [{first}, {last}], allowed: two different ones"
        yield from topic_name_faults("chambers", [name for name in self.chambers if name])


@dataclass(frozen=True)
class PressureConfiguration(PressureSensors):
    """Pressure sensors on the bus's analogue inputs."""

    offsets_pa: tuple[float, ...] = parameter((), "taken off, one for each chamber; empty: none", unit="Pa")
    reference: Literal["gauge", "absolute"] = parameter(
        "gauge", "the sensors' zero: the air around, whose pressure is then added, or vacuum"
    )
    ambient_pa: float = non_negative(101325.0, "pressure of the air around", "Pa")
    variance_pa2: float = non_negative(0.0, "of a reading; 0: not known", "Pa^2")
    decimation: int = bounded(1, 1, _LARGEST_DECIMATION, "of so many readings one is published, low-passed before")

    def faults(self) -> Iterable[str]:
        """What does not go together."""
        yield from super().faults()
        named = [name for name in self.chambers if name]
        if self.offsets_pa and len(self.offsets_pa) != len(named):
            yield f"offsets_pa: {len(self.offsets_pa)} for {len(named)} chambers"

    def absolute(self, voltages: Matrix, offsets_pa: Vector) -> Matrix:
        """(K, n) Pa, absolute, of voltages (K, n) of n sensors, whose offsets (n,) are taken off."""
        ambient_pa = self.ambient_pa if self.reference == "gauge" else 0.0
        return self.pascals[0] + self.slope_pa * (voltages - self.volts[0]) - offsets_pa + ambient_pa

    def beyond(self, voltages: Matrix) -> NDArray[np.bool_]:
        """(K, n) whether a voltage is none that such a sensor gives: a wire is off, or it is another sensor."""
        margin = _MARGIN * abs(self.volts[1] - self.volts[0])
        within: NDArray[np.bool_] = (voltages >= min(self.volts) - margin) & (voltages <= max(self.volts) + margin)
        return ~within


@dataclass(frozen=True)
class EthercatConfiguration:
    """The bus, what is made of its readings, and what the node itself wants to know."""

    bus: BusConfiguration = BusConfiguration()
    wrench: WrenchConfiguration = WrenchConfiguration()
    pressure: PressureConfiguration = PressureConfiguration()
    frame_prefix: str = parameter(AUTOMATIC, 'before the names of frames; "auto": the node\'s namespace')
    diagnostics_period_s: float = bounded(1.0, 0.1, 3600.0, "time between two reports on /diagnostics", "s")
