"""What the reader of a judged run must know beside the figures: losses, gaps, where the truth lies; a sentence each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.evaluation.result import PartResult
from onboard_estimation.evaluation.truth import BodyTrack
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Vector
from onboard_estimation.series import Series

_LONG_GAP_S = 1.0
_LOSSES = {
    "invalid": "not finite",
    "out_of_range": "beyond the sensor's range",
    "incomplete": "without a part that is needed",
    "duplicates": "repeated stamps",
    "too_late": "too late",
    "stray": "stray stamps",
    "breakdowns": "on which the filter broke down",
}


def pipeline_notes(messages: Sequence[str], sensors: Mapping[str, Mapping[str, float]]) -> list[str]:
    """What the pipeline told, and what it lost of each sensor."""
    notes = list(dict.fromkeys(sentence[:1].upper() + sentence[1:] + "." for sentence in messages[:5]))
    if len(messages) > 5:
        notes.append(f"{len(messages) - 5} further messages of the filter are left out here.")
    for sensor, row in sensors.items():
        lost = [f"{row[key]:.0f} {meaning}" for key, meaning in _LOSSES.items() if row.get(key)]
        if lost:
            notes.append(f"{sensor}: of {row['received']:.0f} messages {', '.join(lost)} were left out.")
    return notes


def gap_note(time_s: Vector) -> str:
    """Sentence on the longest time without measurements, where it is long."""
    if len(time_s) < 2:
        return ""
    steps = np.diff(time_s)
    longest = int(np.argmax(steps))
    if steps[longest] < max(_LONG_GAP_S, 10.0 * float(np.median(steps))):
        return ""
    return f"No measurements for {steps[longest]:.1f} s after {time_s[longest]:.1f} s: bridged by prediction."


def truth_notes(
    tracks: Mapping[str, BodyTrack], stamps_ns: NDArray[np.int64], matched_ratio: float, longest_gap_s: float
) -> list[str]:
    """How much of the run has a truth; where it lies in time, if that is not most of it."""
    notes = [
        f"Truth matched by interpolation at {100.0 * matched_ratio:.1f} % of the estimates "
        f"(gaps up to {longest_gap_s:g} s)."
        if matched_ratio > 0.0
        else "No estimate has a ground truth: nothing is judged."
    ]
    if matched_ratio > 0.5:
        return notes
    end_s = (stamps_ns[-1] - stamps_ns[0]) / NANOSECONDS_PER_SECOND
    bodies: dict[str, list[str]] = {}
    for body, track in tracks.items():
        span = "has no message that can be used"
        if len(track.stamps_ns):
            first_s, last_s = (track.stamps_ns[[0, -1]] - stamps_ns[0]) / NANOSECONDS_PER_SECOND
            gap_s = np.diff(track.stamps_ns).max(initial=0) / NANOSECONDS_PER_SECOND
            span = f"runs from {first_s:.1f} to {last_s:.1f} s with gaps up to {gap_s:.2g} s"
        bodies.setdefault(span, []).append(body)
    for span, names in bodies.items():
        notes.append(
            f"By the stamps, the estimates run from 0 to {end_s:.1f} s; the truth of {', '.join(names)} {span}."
        )
    return notes


def nees_notes(parts: Mapping[str, PartResult]) -> list[str]:
    """Sentences on instants whose covariance has no inverse."""
    notes = []
    for name, part in parts.items():
        stated = np.isfinite(part.stddev).all(axis=1)
        lost = int(np.count_nonzero(part.matched & stated & ~np.isfinite(part.nees)))
        if lost:
            words = name.replace("_", " ")
            notes.append(f"NEES of {words}: left out at {lost} of {part.matched.sum()} instants, covariance singular.")
    return notes


def no_estimate(series: Sequence[Series], sensors: Mapping[str, Mapping[str, float]]) -> str:
    """Why there may be no estimate: of each sensor how many messages, from when to when, and what became of them."""
    filled = [one for one in series if len(one.stamps_ns)]
    start_ns = min(int(one.stamps_ns.min()) for one in filled)
    words = []
    for one in filled:
        name, count = one.channel.sensor, len(one.stamps_ns)
        first, last = (
            (int(stamp) - start_ns) / NANOSECONDS_PER_SECOND for stamp in (one.stamps_ns.min(), one.stamps_ns.max())
        )
        row = sensors.get(name, {})
        lost = [f", {row[key]:.0f} {meaning}" for key, meaning in _LOSSES.items() if row.get(key)]
        words.append(f"{name} {count} messages from {first:.1f} to {last:.1f} s{''.join(lost)}")
    return f"{'; '.join(words)} (seconds after the earliest stamp; see `inspect`)"
