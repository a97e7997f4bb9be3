"""Ground truth at the instants of the estimates: interpolation, matching, alignment, handedness."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation, Slerp

from onboard_estimation.errors import UserError
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Vector

Rows = NDArray[np.float64]


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
        Messages left out: not finite, no rotation, or a stamp that repeats.
    """

    body: str
    stamps_ns: NDArray[np.int64]
    values: Rows
    left_out: int = 0

    @classmethod
    def clean(cls, body: str, stamps_ns: NDArray[np.int64], values: Rows) -> BodyTrack:
        """Track from messages in any order."""
        usable = np.isfinite(values).all(axis=1)
        if values.shape[1] == 7:
            usable &= np.abs(np.linalg.norm(np.where(np.isfinite(values), values, 0.0)[:, 3:], axis=1) - 1.0) < 1e-2
        stamps, first = np.unique(stamps_ns[usable], return_index=True)
        return cls(body, stamps, values[usable][first], len(stamps_ns) - len(stamps))

    def at(self, stamps_ns: NDArray[np.int64], longest_gap_s: float) -> tuple[Rows, NDArray[np.bool_]]:
        """Values (K, 7) or (K, 3) at the stamps, and where they are valid (K,).

        Positions are interpolated linearly, rotations along the shortest arc. A stamp is valid between two messages at
        most `longest_gap_s` apart, or on one; nothing is extrapolated.
        """
        if len(self.stamps_ns) == 0:
            return np.full((len(stamps_ns), self.values.shape[1]), np.nan), np.zeros(len(stamps_ns), dtype=np.bool_)
        after = np.clip(np.searchsorted(self.stamps_ns, stamps_ns), 0, len(self.stamps_ns) - 1)
        exact = self.stamps_ns[after] == stamps_ns
        before = np.maximum(after - 1, 0)
        gap = self.stamps_ns[after] - self.stamps_ns[before]
        inside = (stamps_ns >= self.stamps_ns[0]) & (stamps_ns <= self.stamps_ns[-1])
        valid = exact | (inside & (gap <= round(longest_gap_s * NANOSECONDS_PER_SECOND)))
        share = np.where(gap > 0, (stamps_ns - self.stamps_ns[before]) / np.maximum(gap, 1), 0.0)[:, None]
        out = (1.0 - share) * self.values[before] + share * self.values[after]
        out[exact] = self.values[after[exact]]
        if self.values.shape[1] == 7 and len(self.stamps_ns) > 1:
            start = self.stamps_ns[0]
            slerp = Slerp((self.stamps_ns - start).astype(np.float64), Rotation.from_quat(self.values[:, 3:]))
            times = np.clip(stamps_ns, start, self.stamps_ns[-1]) - start
            out[:, 3:] = slerp(times.astype(np.float64)).as_quat()
        out[~valid] = np.nan
        return out, valid


@dataclass(frozen=True)
class HeadingAlignment:
    """Turn about the vertical and shift that take the estimate's frame to the truth's: p' = R(heading) p + shift."""

    heading_rad: float
    shift: Vector

    @property
    def rotation(self) -> Rows:
        """(3, 3) rotation about z."""
        cosine, sine = np.cos(self.heading_rad), np.sin(self.heading_rad)
        return np.array([[cosine, -sine, 0.0], [sine, cosine, 0.0], [0.0, 0.0, 1.0]])

    def positions(self, positions: Rows) -> Rows:
        """Positions (K, 3) in the truth's frame."""
        return positions @ self.rotation.T + self.shift


def align_heading(estimate: Rows, truth: Rows) -> HeadingAlignment:
    """Heading by least squares over all matched positions (K, 3); shift such that the first ones coincide.

    The drift of a dead-reckoning filter is counted from its start, so the shift must not absorb it.
    """
    matched = np.flatnonzero(np.isfinite(estimate).all(axis=1) & np.isfinite(truth).all(axis=1))
    if len(matched) == 0:
        return HeadingAlignment(0.0, np.zeros(3))
    first = matched[0]
    a = estimate[matched] - estimate[first]
    b = truth[matched] - truth[first]
    heading = float(
        np.arctan2(np.sum(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]), np.sum(a[:, 0] * b[:, 0] + a[:, 1] * b[:, 1]))
    )
    turned = HeadingAlignment(heading, np.zeros(3))
    return HeadingAlignment(heading, truth[first] - turned.positions(estimate[first : first + 1])[0])


def mirror(values: Rows, axis: str) -> Rows:
    """Positions or poses with one axis turned round: a left-handed recording made right-handed."""
    index = "xyz".index(axis)
    out = values.copy()
    out[:, index] *= -1.0
    if out.shape[1] == 7:
        # Mirrored in a plane, a rotation keeps the axis component normal to it and turns the others round.
        others = [3 + i for i in range(3) if i != index]
        out[:, others] *= -1.0
    return out


@dataclass(frozen=True)
class Handedness:
    """Horizontal misfit of two paths after the best rigid motion, as recorded and with the truth mirrored, m RMS."""

    as_recorded_m: float
    mirrored_m: float
    extent_m: float

    @property
    def left_handed(self) -> bool:
        """The mirrored truth fits the estimate, the recorded one does not."""
        return self.as_recorded_m > 0.1 * self.extent_m and self.mirrored_m < self.as_recorded_m / 3.0


def judge_handedness(estimate: Rows, truth: Rows) -> Handedness | None:
    """Compare horizontal paths (K, 2); None where they are too short or too straight to tell."""
    matched = np.isfinite(estimate).all(axis=1) & np.isfinite(truth).all(axis=1)
    if matched.sum() < 10:
        return None
    a = estimate[matched] - estimate[matched].mean(axis=0)
    b = truth[matched] - truth[matched].mean(axis=0)
    spread = np.linalg.svd(b, compute_uv=False) / np.sqrt(len(b))
    if spread[1] < 0.1 * spread[0] or spread[0] < 0.05:
        return None
    return Handedness(_misfit(a, b), _misfit(a, b * np.array([1.0, -1.0])), float(spread[0]))


def _misfit(a: Rows, b: Rows) -> float:
    dot, cross = np.sum(a * b), np.sum(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0])
    angle = np.arctan2(cross, dot)
    turned = a @ np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    return float(np.sqrt(np.mean(np.sum((turned - b) ** 2, axis=1))))


def refuse_left_handed(estimate: Rows, truth: Rows) -> None:
    """Raise UserError with both misfits where the truth is a mirror image of the estimate (paths (K, 2))."""
    judged = judge_handedness(estimate, truth)
    if judged is not None and judged.left_handed:
        raise UserError(
            f"the ground truth is left-handed: its path misses the estimate by {judged.as_recorded_m:.2f} m RMS "
            f"as recorded and by {judged.mirrored_m:.2f} m mirrored; evaluate with --mirror-truth y, "
            "or convert the recording"
        )
