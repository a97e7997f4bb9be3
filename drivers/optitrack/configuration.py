"""Parameters of the OptiTrack node."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from drivers.motion_capture.axes import UP_AXES
from drivers.motion_capture.configuration import TruthConfiguration
from drivers.optitrack.protocol import COMMAND_PORT, DATA_PORT, MULTICAST_GROUP
from onboard_estimation.configuration import parameter


@dataclass(frozen=True)
class OptitrackConfiguration(TruthConfiguration):
    """The server, the way to it, and what becomes of its bodies."""

    server: str = parameter("127.0.0.1", "IPv4 address of the computer that runs Motive")
    interface: str = parameter("127.0.0.1", "IPv4 address of this host towards it; no other is listened at")
    transport: str = parameter(
        "multicast", "how Motive streams: Streaming Settings, Transmission Type", choices=("multicast", "unicast")
    )
    multicast_group: str = parameter(MULTICAST_GROUP, "Multicast Interface of Motive's settings")
    command_port: int = parameter(COMMAND_PORT, "Command Port of Motive's settings", minimum=1, maximum=65535)
    data_port: int = parameter(DATA_PORT, "Data Port of Motive's settings", minimum=1, maximum=65535)
    up_axis: str = parameter("y", "Up Axis of Motive's settings", choices=UP_AXES)
    latency_s: float = parameter(
        0.0,
        "from exposure to arrival at least; of use before NatNet 3.0, which does not tell it",
        unit="s",
        minimum=0.0,
        maximum=1.0,
    )

    @property
    def group(self) -> str | None:
        """Multicast group of the frames; None: the server sends them to the socket that asked."""
        return self.multicast_group if self.transport == "multicast" else None

    def faults(self) -> Iterable[str]:
        """Addresses that are none, names that do not go together."""
        addresses = {}
        for name in ("server", "interface", "multicast_group"):
            value = getattr(self, name)
            try:
                address = addresses[name] = ipaddress.IPv4Address(value)
            except ValueError:
                yield f"{name}: {value!r}, allowed: IPv4 address such as 192.168.1.5"
                continue
            if address.is_multicast != (name == "multicast_group"):
                yield f"{name}: {value}, allowed: {'a' if name == 'multicast_group' else 'no'} multicast address"
        if len(addresses) == 3 and addresses["interface"].is_loopback and not addresses["server"].is_loopback:
            yield f"interface: {self.interface} does not lead to {self.server}, allowed: this host's address towards it"
        yield from super().faults()
