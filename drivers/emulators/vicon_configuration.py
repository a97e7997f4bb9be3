"""Parameters of the node `vicon_emulator`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from drivers.motion_capture.axes import UP_AXES
from drivers.vicon.protocol import PORT
from onboard_estimation.configuration import parameter


@dataclass(frozen=True)
class ViconFaults:
    """What goes wrong; nothing by default."""

    frame_drop_rate: float = parameter(0.0, "share of the frames that are not sent", minimum=0.0, maximum=1.0)
    occlusion_rate: float = parameter(0.0, "share of the poses that are not seen", minimum=0.0, maximum=1.0)
    network_jitter_s: float = parameter(
        0.0, "mean of what the network adds, exponential, and nobody tells", unit="s", minimum=0.0, maximum=1.0
    )
    disconnect_every_s: float = parameter(0.0, "clients are sent away so often; 0: never", unit="s", minimum=0.0)
    restart_every_s: float = parameter(
        0.0, "the server goes so often, and frame numbers begin anew; 0: never", unit="s", minimum=0.0
    )
    restart_takes_s: float = parameter(1.0, "it is gone for so long", unit="s", minimum=0.0)


@dataclass(frozen=True)
class ViconEmulatorConfiguration(ViconFaults):
    """The server, and where its truth is from."""

    host: str = parameter("127.0.0.1", "address to listen at")
    port: int = parameter(PORT, "to listen at; below 1024 it takes a right of its own", minimum=0, maximum=65535)
    rate_hz: float = parameter(
        0.0, "frames a second; of truth that comes more often, the nearest; 0: as the truth comes", minimum=0.0
    )
    latency_s: float = parameter(0.005, "from exposure to sending, as told", unit="s", minimum=0.0, maximum=1.0)
    up_axis: str = parameter("z", "of the stream", choices=UP_AXES)
    bodies: tuple[str, ...] = parameter((), "names of the bodies; empty: all that there are")
    bag: str = parameter("", 'recording whose ground_truth/<body>/pose is streamed; "": emulated_truth/<body>/pose is')
    seed: int = parameter(0, "of the faults", minimum=0)

    def faults(self) -> Iterable[str]:
        """Names that cannot be."""
        if len(set(self.bodies)) < len(self.bodies) or "" in self.bodies:
            yield f"bodies: {', '.join(self.bodies)}, allowed: each once, none empty"
