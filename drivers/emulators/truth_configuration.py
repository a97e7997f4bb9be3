"""Parameters that both emulators of motion capture have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from onboard_estimation.configuration import parameter


@dataclass(frozen=True)
class TruthEmulatorConfiguration:
    """Where the truth is from."""

    bodies: tuple[str, ...] = parameter((), "names of the bodies; empty: all that there are")
    bag: str = parameter("", 'recording whose ground_truth/<body>/pose is streamed; "": emulated_truth/<body>/pose is')

    def faults(self) -> Iterable[str]:
        """Names that cannot be."""
        if len(set(self.bodies)) < len(self.bodies) or "" in self.bodies:
            yield f"bodies: {', '.join(self.bodies)}, allowed: each once, none empty"
