"""What an IMU and a tracked body both saw, cleaned, on one axis of time."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.evaluation.clock_parts import clock_parts
from onboard_estimation.evaluation.truth import BodyTrack
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND

Rows = NDArray[np.float64]
Integers = NDArray[np.int64]

_LONGEST_S = 300.0
_MOST_STRETCHES = 2000
_SHORTEST_S = 5.0
_OTHER_CLOCK_S = 0.5
_FARTHEST_S = 3e9
# Beyond these no body moves; sums and squares of such numbers would overflow.
_LARGEST_READING = 1e6
_LARGEST_POSITION_M = 1e6
# Weighs changes of rates (rad/s) against those of forces (m/s^2) where the liveliest part of a recording is looked for.
_LIVELY = np.repeat([1.0, 0.1], 3)


class ImuReadings(NamedTuple):
    """Readings of an IMU: stamps (N,) in the order of arrival, log times (N,), values (N, 6) with NaN for absent."""

    stamps_ns: Integers
    log_times_ns: Integers
    values: Rows


class TrackedBody(NamedTuple):
    """Truth of a body, and how long after its stamps it was recorded, in the median, s."""

    track: BodyTrack
    delay_s: float


class Overlap(NamedTuple):
    """What both know.

    Attributes
    ----------
    guess_s
        What was added to the truth's stamps, so that both are where the recorder saw them; 0 where they nearly are.
    common_s
        How long both know the motion; of long recordings the liveliest part.
    times_s, values
        (N,) and (N, 6) of the IMU, a little more than that.
    body_s, poses
        (K,) and (K, 7) or (K, 3) of the body, on the same axis of time.
    """

    guess_s: float
    common_s: float
    times_s: Rows
    values: Rows
    body_s: Rows
    poses: Rows


def overlap(readings: ImuReadings, tracked: TrackedBody, longest_offset_s: float) -> Overlap | str:
    """What both know, or in words why that is too little."""
    imu, imu_delay_s = _cleaned(readings)
    track = tracked.track
    if len(imu.stamps_ns) < 2 or len(track.stamps_ns) < 2:
        return "too few usable messages"
    guess_s = tracked.delay_s - imu_delay_s
    guess_s = guess_s if abs(guess_s) > _OTHER_CLOCK_S else 0.0
    if abs(guess_s) > _FARTHEST_S or np.ptp(imu.stamps_ns.astype(np.float64)) > _FARTHEST_S * NANOSECONDS_PER_SECOND:
        return "their clocks are decades apart"
    truth_ns = track.stamps_ns + round(guess_s * NANOSECONDS_PER_SECOND)
    start_ns, stop_ns = _liveliest(imu, int(truth_ns[0]), int(truth_ns[-1]))
    common_s = (stop_ns - start_ns) / NANOSECONDS_PER_SECOND
    if common_s < _SHORTEST_S:
        return f"they share {max(common_s, 0.0):.1f} s, {_SHORTEST_S:g} s are needed"
    inside = (truth_ns >= start_ns) & (truth_ns <= stop_ns)
    inside &= (np.abs(track.values) < _LARGEST_POSITION_M).all(axis=1)
    reach_ns = round((longest_offset_s + 0.1) * NANOSECONDS_PER_SECOND)
    near = (imu.stamps_ns >= start_ns - reach_ns) & (imu.stamps_ns <= stop_ns + reach_ns)
    times_s = (imu.stamps_ns[near] - start_ns) / NANOSECONDS_PER_SECOND
    body_s = (truth_ns[inside] - start_ns) / NANOSECONDS_PER_SECOND
    if len(body_s) < 2 or len(times_s) < 4:
        return "too few usable messages"
    return Overlap(guess_s, common_s, times_s, imu.values[near], body_s, track.values[inside])


def turning_axes(rates: Rows) -> NDArray[np.bool_]:
    """Axes of a gyro that are there: a planar robot's driver leaves two at zero, or absent."""
    known = np.isfinite(rates).all(axis=0)
    turning: NDArray[np.bool_] = np.array(known & (np.nan_to_num(rates).std(axis=0) > 0.0))
    return turning


def _cleaned(readings: ImuReadings) -> tuple[ImuReadings, float]:
    """Rows in the order of their stamps, each stamp once, without those that are not finite; and the median delay."""
    stamps_ns, logged_ns, values = readings
    known = np.count_nonzero(np.isfinite(values), axis=0) > 0.5 * len(values)
    usable = np.array((np.abs(values[:, known]) < _LARGEST_READING).all(axis=1))
    # Parts of a clock that jumps back are no motion at all.
    start, stop = clock_parts(stamps_ns, np.zeros(len(stamps_ns), dtype=np.int64), longest_gap_s=math.inf).longest()
    usable[:start] = usable[stop:] = False
    rows = np.flatnonzero(usable)
    _, first = np.unique(stamps_ns[rows], return_index=True)
    rows = rows[first]
    delay_s = float(np.median(logged_ns[rows] - stamps_ns[rows])) / NANOSECONDS_PER_SECOND if len(rows) else 0.0
    return ImuReadings(stamps_ns[rows], logged_ns[rows], values[rows]), delay_s


def _liveliest(imu: ImuReadings, start_ns: int, stop_ns: int) -> tuple[int, int]:
    """The stretch that both know, or the part of a long one with the most motion."""
    start_ns, stop_ns = max(start_ns, int(imu.stamps_ns[0])), min(stop_ns, int(imu.stamps_ns[-1]))
    longest_ns = round(_LONGEST_S * NANOSECONDS_PER_SECOND)
    if stop_ns - start_ns <= longest_ns:
        return start_ns, stop_ns
    moving = np.nansum(np.abs(np.diff(imu.values, axis=0, prepend=imu.values[:1])) * _LIVELY, axis=1)
    total = np.concatenate([[0.0], np.cumsum(moving)])
    count = min((stop_ns - start_ns) * 20 // longest_ns, _MOST_STRETCHES)
    starts = np.linspace(start_ns, stop_ns - longest_ns, count, dtype=np.int64)
    sums = total[np.searchsorted(imu.stamps_ns, starts + longest_ns)] - total[np.searchsorted(imu.stamps_ns, starts)]
    first = int(starts[np.argmax(sums)])
    return first, first + longest_ns
