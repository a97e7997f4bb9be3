"""Where the clock of a recording jumps: the same rules as the pipeline's buffer has, for the recording as a whole.

A pipeline resets its filter at a jump and goes on. A judge cannot: the stamps of two parts may overlap, and then truth
of the one would be compared with estimates of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.measurement import Measurement
from onboard_estimation.timing.buffer import MeasurementBuffer

# Below this, no message can be one that the buffer suspects.
_SUSPICIOUS_STEP_NS = 1_000_000_000


@dataclass(frozen=True)
class ClockParts:
    """Parts of a recording between jumps of its clock.

    Attributes
    ----------
    starts
        Number of the first message of each part; the first is 0.
    count
        Number of all messages.
    jumps
        One sentence for each jump.
    """

    starts: tuple[int, ...]
    count: int
    jumps: tuple[str, ...]

    def longest(self) -> tuple[int, int]:
        """First message of the part with the most messages, and the one after its last."""
        ends = (*self.starts[1:], self.count)
        part = max(range(len(self.starts)), key=lambda number: ends[number] - self.starts[number])
        return self.starts[part], ends[part]


def clock_parts(
    stamps_ns: NDArray[np.int64], sources: NDArray[np.int64], longest_gap_s: float = MeasurementBuffer.longest_gap_s
) -> ClockParts:
    """Parts of messages in their order of arrival, from their stamps (M,) and the number of their topics (M,).

    A step ahead by more than `longest_gap_s` begins a new part too.
    """
    if len(stamps_ns) < 2 or np.abs(np.diff(stamps_ns)).max() < _SUSPICIOUS_STEP_NS:
        return ClockParts((0,), len(stamps_ns), ())
    starts: list[int] = [0]
    jumps: list[str] = []
    buffer = MeasurementBuffer(_Nothing(), longest_gap_s=longest_gap_s, on_reset=jumps.append)
    nothing = np.empty(0)
    for place, (stamp_ns, source) in enumerate(zip(stamps_ns.tolist(), sources.tolist(), strict=True)):
        buffer.add(Measurement(stamp_ns, str(source), nothing))
        if len(jumps) == len(starts):
            # Told when the last message came that was needed to believe it.
            starts.append(place - buffer.jump_confirmations + 1)
    return ClockParts(tuple(starts), len(stamps_ns), tuple(jumps))


class _Nothing:
    """A filter that does nothing: the buffer's rules are all that is wanted."""

    def rank(self, sensor: str) -> int:
        return 0

    def step(self, state: Any, measurement: Measurement) -> tuple[Any, None, tuple[()]]:
        return state, None, ()

    def scan(self, state: Any, measurements: Sequence[Measurement]) -> None:
        return None

    def restarted(self, state: Any) -> Any:
        return state
