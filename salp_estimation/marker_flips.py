"""Frames of motion capture in which a body was taken for something else: flipped, swapped, or a marker lost.

A solver of rigid bodies that confuses markers gives a pose that jumps by centimetres or many degrees, stays there for
some frames and jumps back. A median over a window finds such frames only while they are fewer than half of the window,
so a track is cut wherever it jumps faster than the body can move, and the longest chain of pieces that fit each other
is kept: a flip of any length is found as long as more frames are right than wrong. Single frames that stray less than
a jump are found by a running median.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import median_filter

from onboard_estimation.measurement import NANOSECONDS_PER_SECOND

Stamps = NDArray[np.int64]
Rows = NDArray[np.float64]
Mask = NDArray[np.bool_]

_PIECES_BACK = 60  # so many pieces before one are tried as its predecessor: bounds the work on a very poor track
_MEDIAN_FRAMES = 7
_ROBUST_SIGMAS = 8.0  # of white noise, one frame in 1e15 strays so far
_SIGMA_OF_MEDIAN = 1.4826  # standard deviation of a Gaussian by its median absolute deviation


JUMP_M, JUMP_RAD = 0.015, float(np.deg2rad(5.0))
"""Change of pose beyond the noise of the motion capture at any frame rate."""
_SPEED_M_S, _TURNING_RATE_RAD_S = 0.5, 2.0
"""Fastest motion of a link, added for the time between frames. LandSalp's gaits reach 0.1 m/s and 0.3 rad/s."""
_SPIKE_M, _SPIKE_RAD = 0.002, float(np.deg2rad(0.5))
"""A single frame may stray so far from the median of its neighbours, and eight robust standard deviations more."""


def flipped_frames(stamps_ns: Stamps, poses: Rows) -> Mask:
    """Frames (M,) of one body that are no motion of it.

    Parameters
    ----------
    stamps_ns
        (M,) int64, increasing.
    poses
        (M, 3) x, y in metres, heading in rad (wrapped or not).
    """
    count = len(stamps_ns)
    if count < 2:
        return np.zeros(count, dtype=np.bool_)
    breaks = ~_reachable(stamps_ns[:-1], poses[:-1], stamps_ns[1:], poses[1:])
    starts = np.concatenate([[0], np.flatnonzero(breaks) + 1])
    stops = np.append(starts[1:], count)
    kept = np.zeros(count, dtype=np.bool_)
    for piece in _longest_chain(stamps_ns, poses, starts, stops):
        kept[starts[piece] : stops[piece]] = True
    good = np.flatnonzero(kept)
    kept[good[_spikes(poses[good])]] = False
    return ~kept


def _reachable(stamps_a: Stamps, poses_a: Rows, stamps_b: Stamps, poses_b: Rows) -> Mask:
    """Whether a body can be at the poses b (K, 3) after having been at the poses a (K, 3)."""
    seconds = (stamps_b - stamps_a) / NANOSECONDS_PER_SECOND
    distance = np.hypot(poses_b[:, 0] - poses_a[:, 0], poses_b[:, 1] - poses_a[:, 1])
    turn = np.abs(np.remainder(poses_b[:, 2] - poses_a[:, 2] + np.pi, 2.0 * np.pi) - np.pi)
    near: Mask = (distance <= JUMP_M + _SPEED_M_S * seconds) & (turn <= JUMP_RAD + _TURNING_RATE_RAD_S * seconds)
    return near


def _longest_chain(stamps_ns: Stamps, poses: Rows, starts: NDArray[np.intp], stops: NDArray[np.intp]) -> list[int]:
    """Pieces, in order, each reachable from the one before, that hold the most frames (dynamic programming)."""
    lengths = stops - starts
    total, before = lengths.copy(), np.full(len(starts), -1)
    for piece in range(1, len(starts)):
        earlier = np.arange(max(0, piece - _PIECES_BACK), piece)
        last, first = stops[earlier] - 1, np.full(len(earlier), starts[piece])
        near = _reachable(stamps_ns[last], poses[last], stamps_ns[first], poses[first])
        if near.any():
            best = earlier[near][np.argmax(total[earlier[near]])]
            before[piece], total[piece] = best, total[best] + lengths[piece]
    chain = [int(np.argmax(total))]
    while before[chain[-1]] >= 0:
        chain.append(int(before[chain[-1]]))
    return chain[::-1]


def _spikes(poses: Rows) -> Mask:
    """Frames (K,) that stray from the running median of their neighbours."""
    if len(poses) < _MEDIAN_FRAMES:
        return np.zeros(len(poses), dtype=np.bool_)
    smooth = np.column_stack([poses[:, :2], np.unwrap(poses[:, 2])])
    stray = np.abs(smooth - median_filter(smooth, size=(_MEDIAN_FRAMES, 1), mode="nearest"))
    allowed = np.array([_SPIKE_M, _SPIKE_M, _SPIKE_RAD])
    allowed = allowed + _ROBUST_SIGMAS * _SIGMA_OF_MEDIAN * np.median(stray, axis=0)
    spikes: Mask = np.asarray((stray > allowed).any(axis=1), dtype=np.bool_)
    return spikes
