"""Ground truth at the instants of the estimates: interpolation, matching, mirror images; where a clock jumps.

For jumps the pipeline's buffer has the rules, taken here for the recording as a whole. A pipeline resets its filter and
goes on. A judge cannot: the stamps of two parts may overlap, and then truth of the one would be compared with estimates
of the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Measurement
from onboard_estimation.pipeline.buffer import Filtered, MeasurementBuffer

Rows = NDArray[np.float64]

# Below this, no message can be one that the buffer suspects.
_SUSPICIOUS_STEP_NS = 1_000_000_000


@dataclass(frozen=True)
class BodyTrack:
    """Poses of one body over time, cleaned.

    Attributes
    ----------
    stamps_ns
        (M,) int64, strictly increasing.
    values
        (M, 7) position and unit quaternion x, y, z, w, or (M, 3) position alone.
    left_out
        Messages left out: not finite, no rotation, a stamp that repeats, or before or after the clock jumped back.
    made_up
        How many of these motion capture had made up, see `soundness.stretches`.
    oriented
        False where its orientations contradict a gyro: nothing is judged that depends on them.
    """

    body: str
    stamps_ns: NDArray[np.int64]
    values: Rows
    left_out: int = 0
    made_up: int = 0
    oriented: bool = True

    @classmethod
    def clean(cls, body: str, stamps_ns: NDArray[np.int64], values: Rows) -> BodyTrack:
        """Track from messages in the order of their arrival, which may differ a little from that of their stamps.

        Where the clock jumps back, the longest part is kept.
        """
        usable = usable_poses(values)
        good_ns, good = (stamps_ns, values) if usable.all() else (stamps_ns[usable], values[usable])
        # Parts of a clock that jumps back overlap in time: mixed, they would be no motion at all.
        start, stop = clock_parts(good_ns, np.zeros(len(good_ns), dtype=np.int64), longest_gap_s=math.inf).longest()
        stamps, good = good_ns[start:stop], good[start:stop]
        if np.any(stamps[1:] <= stamps[:-1]):
            stamps, first = np.unique(stamps, return_index=True)
            good = good[first]
        return cls(body, stamps, good, len(stamps_ns) - len(stamps))

    def without(self, made_up: NDArray[np.bool_]) -> BodyTrack:
        """Without some of its poses (M,)."""
        return replace(
            self,
            stamps_ns=self.stamps_ns[~made_up],
            values=self.values[~made_up],
            left_out=self.left_out + int(made_up.sum()),
            made_up=self.made_up + int(made_up.sum()),
        )

    def at(self, stamps_ns: NDArray[np.int64], longest_gap_s: float) -> tuple[Rows, NDArray[np.bool_]]:
        """Values (K, 7) or (K, 3) at the stamps, and where they are valid (K,).

        Positions are interpolated linearly, rotations along the shortest arc. A stamp is valid between two messages at
        most `longest_gap_s` apart, or on one; nothing is extrapolated.
        """
        if len(self.stamps_ns) == 0:
            return np.full((len(stamps_ns), self.values.shape[1]), np.nan), np.zeros(len(stamps_ns), dtype=np.bool_)
        longest_ns = min(longest_gap_s * NANOSECONDS_PER_SECOND, float(2**62))
        stamps = np.ascontiguousarray(stamps_ns, dtype=np.int64)
        return interpolate(self.stamps_ns, np.ascontiguousarray(self.values), stamps, round(longest_ns))


@dataclass(frozen=True)
class HeldValues:
    """Numbers that are known otherwise than by motion capture, each from its stamp on until the next.

    Attributes
    ----------
    stamps_ns
        (M,) int64, increasing.
    values
        (M, d).
    """

    stamps_ns: NDArray[np.int64]
    values: Rows

    @classmethod
    def clean(cls, stamps_ns: NDArray[np.int64], values: Rows) -> HeldValues:
        """Values from messages in any order; those that are not finite are left out."""
        order = np.argsort(stamps_ns, kind="stable")
        order = order[np.isfinite(values[order]).all(axis=1)]
        return cls(stamps_ns[order], values[order])

    def at(self, stamps_ns: NDArray[np.int64]) -> Rows:
        """(K, d) at the stamps; NaN before the first message."""
        with_none = np.vstack([np.full(self.values.shape[1], np.nan), self.values])
        found: Rows = with_none[np.searchsorted(self.stamps_ns, stamps_ns, side="right")]
        return found


def usable_poses(values: Rows) -> NDArray[np.bool_]:
    """(M,) which of positions (M, 3) or poses (M, 7) are finite, with a unit quaternion."""
    usable = np.asarray(np.isfinite(values).all(axis=1), dtype=np.bool_)
    if values.shape[1] == 7:
        with np.errstate(over="ignore"):
            norm = np.sqrt(np.einsum("ij,ij->i", values[:, 3:], values[:, 3:]))
        usable &= np.abs(np.where(usable, norm, 0.0) - 1.0) < 1e-2
    return usable


def mirror(values: Rows, axes: str) -> Rows:
    """Positions (K, 3) or poses (K, 7) with axes turned round: one, and a left-handed recording is right-handed.

    Two of them are a half turn about the third: `yz` takes z down (NED) to z up.
    """
    out = values.copy()
    for axis in axes:
        index = "xyz".index(axis)
        out[:, index] *= -1.0
        if out.shape[1] == 7:
            # Mirrored in a plane, a rotation keeps the axis component normal to it and turns the others round.
            others = [3 + i for i in range(3) if i != index]
            out[:, others] *= -1.0
    return out


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

    most_at_once = 0

    def rank(self, sensor: str) -> int:
        return 0

    def step(self, state: Any, measurement: Measurement) -> Filtered:
        return Filtered(state, 1, (), (), None)

    def several(self, state: Any, measurements: Sequence[Measurement]) -> None:
        return None

    def restarted(self, state: Any) -> Any:
        return state


Integers = NDArray[np.int64]

_AT_ONCE = 8192
"""Instants, of which all that is computed fits a processor's cache."""


def interpolate(
    stamps_ns: Integers, values: Rows, at_ns: Integers, longest_gap_ns: int
) -> tuple[Rows, NDArray[np.bool_]]:
    """Values (K, d) at the instants (K,) and where they are valid (K,); NaN where not.

    Parameters
    ----------
    stamps_ns
        (M,) strictly increasing, M >= 1.
    values
        (M, d): positions (d = 3), or positions and quaternions x, y, z, w (d = 7).
    longest_gap_ns
        Between two messages that are interpolated. One at the very instant is taken as it is.
    """
    out, valid = np.full((len(at_ns), values.shape[1]), np.nan), np.zeros(len(at_ns), dtype=np.bool_)
    for start in range(0, len(at_ns), _AT_ONCE):
        at = at_ns[start : start + _AT_ONCE]
        after = np.minimum(np.searchsorted(stamps_ns, at), len(stamps_ns) - 1)
        before = np.maximum(after - 1, 0)
        exact, gap_ns = stamps_ns[after] == at, stamps_ns[after] - stamps_ns[before]
        known = (at >= stamps_ns[0]) & (at <= stamps_ns[-1]) & (exact | (gap_ns <= longest_gap_ns))
        share = np.where(exact, 1.0, (at - stamps_ns[before]) / np.maximum(gap_ns, 1))[known, None]
        first, second = values[before[known]], values[after[known]]
        found = (1.0 - share) * first + share * second
        if values.shape[1] == 7:
            found[:, 3:] = _rotations_between(first[:, 3:], second[:, 3:], share)
        rows = start + np.flatnonzero(known)
        out[rows], valid[rows] = found, True
    return out, valid


def _rotations_between(first: Rows, second: Rows, share: Rows) -> Rows:
    """Quaternions (K, 4) at a share (K, 1) of the shorter way from the one to the other, at a constant rate.

    Shoemake, "Animating rotation with quaternion curves", 1985; the angle from sum and difference, which is exact for
    small ones.
    """
    sign = np.copysign(1.0, (first * second).sum(axis=1, keepdims=True))
    first, second = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in (first, sign * second))
    apart, along = (np.linalg.norm(one, axis=1, keepdims=True) for one in (first - second, first + second))
    angle = 2.0 * np.arctan2(apart, along)
    turned = np.where(angle > 0.0, np.sin((1.0 - share) * angle) * first + np.sin(share * angle) * second, first)
    turned /= np.linalg.norm(turned, axis=1, keepdims=True)
    return np.asarray(turned)
