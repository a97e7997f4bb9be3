"""Parameters of the node `vicon`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from drivers.motion_capture.configuration import TruthConfiguration
from drivers.vicon.protocol import PORT
from onboard_estimation.configuration import parameter


@dataclass(frozen=True)
class ViconConfiguration(TruthConfiguration):
    """The server, and what becomes of its bodies."""

    host: str = parameter("127.0.0.1", "address or name of the DataStream server: Tracker, Nexus, Shogun, emulator")
    port: int = parameter(PORT, "of the server", minimum=1, maximum=65535)
    interface: str = parameter("", "address of this machine to reach it from; empty: the system chooses")
    latency_s: float = parameter(
        0.0, "least time on the network, which one way does not tell", unit="s", minimum=0.0, maximum=1.0
    )
    silent_s: float = parameter(
        1.0, "a server without frames for so long is said to be silent", unit="s", minimum=0.05, maximum=60.0
    )

    def faults(self) -> Iterable[str]:
        """Of names, and a server without an address."""
        yield from super().faults()
        if not self.host.strip():
            yield "host: '', allowed: an address or a name"
