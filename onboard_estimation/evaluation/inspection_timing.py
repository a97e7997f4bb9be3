"""Faults in the times of a topic, and in the poses of a ground truth. Arrays in, numbers out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.evaluation.inspection_report import INTERVAL_EDGES, TimingReport, TruthReport
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Matrix, Vector

Integers = NDArray[np.int64]

GAP_PERIODS = 5.0
"""A step of more median steps than this is a gap."""

JUMP_SPEED_M_S = 10.0
JUMP_STEP_M = 0.01
JUMP_RATE_RAD_S = 35.0
JUMP_TURN_RAD = 0.2

_FLIPS_RAD = np.deg2rad([90.0, 120.0, 180.0])
_NEAR_FLIP_RAD = float(np.deg2rad(6.0))
_SAME_RAD = 1e-6
_LEAST_FROZEN_S = 0.1
_FEWEST_FROZEN = 4
_OUT_OF_FREEZE = 5.0

_REGULAR_SHARE = 0.8
_REGULAR_BAND = 2.0
_FEWEST_REGULAR = 10
_QUATERNION_TOLERANCE = 0.01


def timing(times_ns: Integers, zero_ns: int) -> TimingReport:
    """Faults in a topic's times (K,), in the order of the bag; moments count in seconds from `zero_ns`."""
    steps = np.diff(times_ns) / NANOSECONDS_PER_SECOND
    forward = steps[steps > 0]
    if not len(forward):
        backward = steps[steps < 0]
        duplicates = int(np.count_nonzero(steps == 0))
        return TimingReport(None, 0.0, False, 0, 0.0, 0.0, duplicates, len(backward), float(-backward.min(initial=0.0)))
    median = float(np.median(forward))
    near = (forward > median / _REGULAR_BAND) & (forward < median * _REGULAR_BAND)
    longest = int(np.argmax(steps))
    is_gap = bool(steps[longest] > GAP_PERIODS * median)
    return TimingReport(
        rate_hz=1.0 / median,
        duration_s=float(times_ns[-1] - times_ns[0]) / NANOSECONDS_PER_SECOND,
        regular=len(forward) >= _FEWEST_REGULAR and float(near.mean()) > _REGULAR_SHARE,
        gaps=int(np.count_nonzero(steps > GAP_PERIODS * median)),
        longest_gap_s=float(steps[longest]) if is_gap else 0.0,
        longest_gap_at_s=(int(times_ns[longest]) - zero_ns) / NANOSECONDS_PER_SECOND if is_gap else 0.0,
        duplicates=int(np.count_nonzero(steps == 0)),
        backward_jumps=int(np.count_nonzero(steps < 0)),
        largest_backward_s=float(-steps.min(initial=0.0)),
        intervals=tuple(np.histogram(forward / median, INTERVAL_EDGES)[0].tolist()),
    )


def delays_s(stamps_ns: Integers, log_times_ns: Integers) -> tuple[float, float]:
    """Log time minus stamp: (median, the value farthest from the median), seconds."""
    delays = (log_times_ns - stamps_ns) / NANOSECONDS_PER_SECOND
    median = float(np.median(delays))
    return median, float(delays[np.argmax(np.abs(delays - median))])


def truth(topic: str, stamps_ns: Integers, values: Matrix, span_ns: tuple[int, int], zero_ns: int) -> TruthReport:
    """Quality of a ground truth of poses (K, 7) or positions (K, 3), for sensors whose stamps span `span_ns`."""
    usable = np.isfinite(values).all(axis=1)
    if values.shape[1] == 7:
        with np.errstate(over="ignore"):
            norms = np.linalg.norm(np.where(np.isfinite(values[:, 3:]), values[:, 3:], 0.0), axis=1)
        usable &= np.abs(norms - 1.0) < _QUATERNION_TOLERANCE
    stamps, first = np.unique(stamps_ns[usable], return_index=True)
    poses = values[usable][first]
    steps = np.diff(stamps) / NANOSECONDS_PER_SECOND
    longest_step = GAP_PERIODS * float(np.median(steps)) if len(steps) else 0.0
    coverage, hole_s, hole_at_ns = _coverage(stamps, longest_step, span_ns)
    # Across a hole a body may have gone anywhere.
    near = steps <= longest_step
    distances, turns = _steps(poses)
    jumps = near & (
        ((distances > JUMP_STEP_M) & (distances > JUMP_SPEED_M_S * steps))
        | ((turns > JUMP_TURN_RAD) & (turns > JUMP_RATE_RAD_S * steps))
    )
    flips = jumps & (np.abs(turns[:, None] - _FLIPS_RAD) < _NEAR_FLIP_RAD).any(axis=1)
    frozen_s, frozen_at_ns = _frozen(stamps, distances, turns)
    return TruthReport(
        topic=topic,
        coverage=coverage,
        longest_hole_s=hole_s,
        longest_hole_at_s=(hole_at_ns - zero_ns) / NANOSECONDS_PER_SECOND,
        jumps=int(np.count_nonzero(jumps)),
        first_jump_at_s=(int(stamps[np.argmax(jumps)]) - zero_ns) / NANOSECONDS_PER_SECOND if jumps.any() else 0.0,
        largest_step_m=float(distances[near].max(initial=0.0)),
        largest_turn_rad=float(turns[near].max(initial=0.0)),
        unusable=int(np.count_nonzero(~usable)),
        flips=int(np.count_nonzero(flips)),
        frozen_s=frozen_s,
        frozen_at_s=(frozen_at_ns - zero_ns) / NANOSECONDS_PER_SECOND if frozen_s else 0.0,
    )


def _frozen(stamps: Integers, distances: Vector, turns: Vector) -> tuple[float, int]:
    """(longest time of one and the same pose out of which the body jumps, in seconds; where it starts, in ns)."""
    moves = np.flatnonzero((distances > 0.0) | (turns > _SAME_RAD))
    if len(moves) < 2:
        return 0.0, 0
    # Steps between moves stand still; what comes after is many times as long as usual, or it was rest.
    usual_m, usual_rad = float(np.median(distances[moves])), float(np.median(turns[moves]))
    starts, ends = moves[:-1] + 1, moves[1:]
    length_s = (stamps[ends] - stamps[starts]) / NANOSECONDS_PER_SECOND
    jumps = (distances[ends] > _OUT_OF_FREEZE * usual_m) | (turns[ends] > max(_OUT_OF_FREEZE * usual_rad, _SAME_RAD))
    frozen = np.where(jumps & (length_s > _LEAST_FROZEN_S) & (ends - starts > _FEWEST_FROZEN), length_s, 0.0)
    longest = int(np.argmax(frozen))
    return float(frozen[longest]), int(stamps[starts[longest]])


def _coverage(stamps: Integers, longest_step_s: float, span_ns: tuple[int, int]) -> tuple[float, float, int]:
    """(share of the span within steps that are no holes, longest hole in seconds, where it starts in ns)."""
    start, stop = span_ns
    inside = stamps[(stamps >= start) & (stamps <= stop)]
    before, after = stamps[stamps < start][-1:], stamps[stamps > stop][:1]
    limit = longest_step_s * NANOSECONDS_PER_SECOND
    # A pose just outside the span still covers its edge.
    if not (len(before) and len(inside) and inside[0] - before[0] <= limit):
        before = np.array([start])
    if not (len(after) and len(inside) and after[0] - inside[-1] <= limit):
        after = np.array([stop])
    edges = np.concatenate([before, inside, after])
    steps = np.diff(edges)
    holes = steps > max(limit, 1.0)
    longest = int(np.argmax(np.where(holes, steps, 0))) if len(steps) else 0
    if stop <= start:
        return (1.0 if len(inside) else 0.0), 0.0, start
    if not len(inside):
        return 0.0, (stop - start) / NANOSECONDS_PER_SECOND, start
    uncovered = float(steps[holes].sum())
    hole = float(steps[longest]) / NANOSECONDS_PER_SECOND if holes.any() else 0.0
    return max(0.0, 1.0 - uncovered / (stop - start)), hole, int(edges[longest])


def _steps(poses: Matrix) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Distances (K - 1,) in metres and turns (K - 1,) in radians between neighbouring poses."""
    with np.errstate(over="ignore"):
        distances = np.linalg.norm(np.diff(poses[:, :3], axis=0), axis=1)
    if poses.shape[1] == 3:
        return distances, np.zeros(len(distances))
    # A quaternion and its negative are the same rotation.
    cosines = np.abs((poses[1:, 3:] * poses[:-1, 3:]).sum(axis=1))
    norms = np.linalg.norm(poses[:, 3:], axis=1)
    return distances, 2.0 * np.arccos(np.clip(cosines / (norms[1:] * norms[:-1]), 0.0, 1.0))
