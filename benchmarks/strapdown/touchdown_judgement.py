"""Touchdowns judged: onsets of a reference against those found, and references from labels, motion capture and force.

Matching is one to one, in order of time: each onset found is that of at most one in the reference.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import medfilt, savgol_filter

from onboard_estimation.errors import UserError

Times = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Matches:
    """What was matched.

    Attributes
    ----------
    errors_s
        Found minus reference, of the matched pairs.
    reference_count, found_count
        How many there are of each.
    """

    errors_s: Times
    reference_count: int
    found_count: int

    @property
    def recall(self) -> float:
        """Share of the reference that was found; NaN without any."""
        return len(self.errors_s) / self.reference_count if self.reference_count else float("nan")

    @property
    def precision(self) -> float:
        """Share of those found that are in the reference; NaN without any."""
        return len(self.errors_s) / self.found_count if self.found_count else float("nan")


def match_onsets(reference_s: Times, found_s: Times, tolerance_s: float = 0.05) -> Matches:
    """Match as many as can be, one to one, within the tolerance (inclusive, to a microsecond).

    Taking the earliest pair that fits, again and again, matches the most that can be matched.
    """
    reference, found = np.sort(reference_s), np.sort(found_s)
    errors = []
    i = k = 0
    while i < len(reference) and k < len(found):
        error = float(found[k] - reference[i])
        if abs(error) <= tolerance_s + 1e-6:
            errors.append(error)
            i, k = i + 1, k + 1
        elif error < 0.0:
            k += 1
        else:
            i += 1
    return Matches(np.array(errors), len(reference), len(found))


def cleaned_runs(flags: NDArray[np.bool_], times_s: Times, gap_s: float, short_s: float) -> Times:
    """Begins and ends (M, 2) of the runs in which a flag is set: gaps below `gap_s` merged, then short ones dropped.

    A run ends with its last sample.

    Raises
    ------
    UserError
        Flags and times differ in number.
    """
    if len(flags) != len(times_s):
        raise UserError(f"{len(flags)} flags for {len(times_s)} times")
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]]))).reshape(-1, 2)
    merged: list[list[float]] = []
    for begin, end in edges:
        run = [float(times_s[begin]), float(times_s[end - 1])]
        if merged and run[0] - merged[-1][1] < gap_s:
            merged[-1][1] = run[1]
        else:
            merged.append(run)
    return np.array([run for run in merged if run[1] - run[0] >= short_s]).reshape(-1, 2)


def label_onsets(labels: NDArray[np.bool_], times_s: Times) -> Times:
    """Onsets of labelled stances: gaps under 100 ms merged, runs under 100 ms dropped.

    A run that begins with the recording has no onset.
    """
    runs = cleaned_runs(labels, times_s, 0.1, 0.1)
    return onsets(runs, times_s)


def onsets(runs: Times, times_s: Times) -> Times:
    """Begins of runs; see `begun_later`."""
    return begun_later(runs, times_s)[:, 0]


def begun_later(runs: Times, times_s: Times) -> Times:
    """Runs (M, 2) without one that begins with the recording, or within 50 ms of that: its begin was not seen."""
    return runs[runs[:, 0] > times_s[0] + 0.05]


def match_stances(stances: Times, found_s: Times, early_s: float = 0.05) -> Matches:
    """Match by stance instead of by time: found is what lies in a stance (M, 2), or up to `early_s` before its begin.

    The first in a stance is its match; any further one has none. Errors count from the stance's begin.
    """
    found = np.sort(found_s)
    errors = []
    for begin, end in stances:
        inside = found[(found >= begin - early_s) & (found <= end)]
        if inside.size:
            errors.append(float(inside[0] - begin))
    return Matches(np.array(errors), len(stances), len(found))


def speed_from_position(position_m: Times, times_s: Times, samples: int = 9) -> Times:
    """Speed (K,), m/s, of positions (K, 3): of a parabola through `samples` of their running medians of as many."""
    position = np.column_stack([medfilt(column, samples) for column in position_m.T])
    step_s = float(np.median(np.diff(times_s)))
    speed: Times = np.linalg.norm(savgol_filter(position, samples, 2, deriv=1, delta=step_s, axis=0), axis=1)
    return speed


def stances_from_position(position_m: Times, times_s: Times, speed_m_s: float = 0.2, height_m: float = 0.05) -> Times:
    """Stances (M, 2) that motion capture shows: slower than `speed_m_s` and no higher than `height_m`.

    The position (K, 3) has z up; the height counts from the median of the first 50 samples, at rest, and is a median
    over 9 samples, which takes single outliers away. Gaps under 100 ms are merged.
    """
    height = medfilt(position_m[:, 2], 9) - np.median(position_m[:50, 2])
    slow = speed_from_position(position_m, times_s) < speed_m_s
    return cleaned_runs(slow & (height < height_m), times_s, 0.1, 0.0)


def stances_from_force(force: Times, times_s: Times, threshold: float) -> Times:
    """Stances (M, 2) in which the force is above a threshold: gaps under 100 ms merged, runs under 50 ms dropped."""
    return cleaned_runs(force > threshold, times_s, 0.1, 0.05)
