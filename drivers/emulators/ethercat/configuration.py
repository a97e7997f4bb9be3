"""Parameters of the emulator's node."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from drivers.ethercat.configuration import PressureSensors
from onboard_estimation.configuration import parameter

SDO_OBJECT = re.compile(r"0x([0-9A-Fa-f]{1,4}):([0-9A-Fa-f]{1,2})", re.ASCII)
"""Index and subindex."""


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
class EmulatedPressure(PressureSensors):
    """Pressure sensors on the bus's analogue inputs, as for the driver."""

    ambient_pa: float = parameter(
        101325.0, "pressure of the air around, the sensors' zero; 0: they measure absolute", unit="Pa", minimum=0.0
    )

    def faults(self) -> Iterable[str]:
        """A line needs two points."""
        if self.pascals[0] == self.pascals[1]:
            yield f"pascals: {list(self.pascals)}, allowed: two different ones"

    def voltage(self, pressure_pa: float) -> float:
        """V, of an absolute pressure."""
        slope = (self.volts[1] - self.volts[0]) / (self.pascals[1] - self.pascals[0])
        return self.volts[0] + slope * (pressure_pa - self.ambient_pa - self.pascals[0])


@dataclass(frozen=True)
class EthercatFaults:
    """Nothing by default. They begin `after_s` after the first frame; set while the node runs, at once."""

    after_s: float = parameter(5.0, "after the first frame, faults begin", unit="s", minimum=0.0)
    again_s: float = parameter(0.0, "what lasts for a time begins again so often; 0: once", unit="s", minimum=0.0)
    slave: int = parameter(0, "place on the bus of the device that has them", minimum=0)
    frame_loss_rate: float = parameter(0.0, "share of the frames that do not come back", minimum=0.0, maximum=1.0)
    unplugged_s: float = parameter(0.0, "the cable is out for so long; the devices have power", unit="s", minimum=0.0)
    power_off_s: float = parameter(
        0.0, "the device has no power for so long, and none behind it is reached", unit="s", minimum=0.0
    )
    leaves_op: bool = parameter(False, "the device falls into SAFEOP with an error, once or each again_s")
    refused_state: Literal["none", "pre_op", "safe_op", "op"] = parameter(
        "none", "a state of the application layer that the device does not enter"
    )
    sdo_aborts: tuple[str, ...] = parameter((), "objects that the device does not answer for: 0x2021:37")
    overload: bool = parameter(False, "the device says that a reading is out of range")
    error: bool = parameter(False, "the device says that it is out of order")
    warning: bool = parameter(False, "the device says that something is not as it should be")

    def faults(self) -> Iterable[str]:
        """Objects that are none."""
        for one in self.sdo_aborts:
            if not SDO_OBJECT.fullmatch(one):
                yield f"sdo_aborts: {one!r}, allowed: index and subindex in hexadecimal digits, 0x2021:37"
        if self.again_s and self.again_s <= max(self.unplugged_s, self.power_off_s):
            yield f"again_s: {self.again_s:g}, allowed: more than unplugged_s and power_off_s, or 0"


@dataclass(frozen=True)
class EmulatorConfiguration:
    """The bus, its sensors, and what goes wrong."""

    bus: EmulatedBus = EmulatedBus()
    pressure: EmulatedPressure = EmulatedPressure()
    fault: EthercatFaults = EthercatFaults()


@dataclass(frozen=True)
class EmulatorHost:
    """What is played."""

    bag: str = parameter("", "plays wrench and pressure/<chamber> of this bag; empty: they are made up")
    loops: bool = parameter(True, "the bag begins anew when it is over; else its last values stay")
    seed: int = parameter(0, "of the frames that get lost", minimum=0)
