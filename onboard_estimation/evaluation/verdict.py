"""The verdict: one sentence that says whether to believe an estimate, and whom to suspect if not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.evaluation.presentation import format_number
from onboard_estimation.evaluation.result import PartResult
from onboard_estimation.filtering.consistency import effective_sample_size, overconfidence_p_value
from onboard_estimation.measurement import Vector

# A filter's claims mislead when its errors are 1.5 times, or a third of, what it states.
OVERCONFIDENT_FACTOR = 1.5
CONSERVATIVE_FACTOR = 1.0 / 3.0
# Errors of one run are correlated, often over most of the run, and then even a consistent filter's look too large in
# many runs. It is called overconfident only where that has less than this probability.
SIGNIFICANCE = 0.01
FEWEST_ESTIMATES = 20
_LOST = ("too_late", "stray", "invalid", "breakdowns")
_WINDOW_S = 2.0
_STARTS_AT_ONCE = 100_000


@dataclass(frozen=True)
class Excess:
    """The dimension whose errors exceed the stated ones most: by what factor, since when, and whether by chance."""

    name: str
    factor: float
    since_s: float
    p_value: float


def verdict(
    parts: Mapping[str, PartResult],
    time_s: Vector,
    settle_s: float,
    sensors: Mapping[str, Mapping[str, float]],
    matched_ratio: float,
) -> str:
    """One sentence on accuracy, consistency and suspects."""
    judged = {name: part for name, part in parts.items() if part.matched.any()}
    if not judged:
        return "not judged: no estimate has a ground truth" + _suspect(sensors, "; ")
    judged_count = min(int(_used(part, time_s, settle_s).sum()) for part in judged.values())
    accuracy = ", ".join(_accuracy(part, time_s, settle_s) for part in judged.values())
    covered = "" if matched_ratio > 0.995 else f" (truth covers {100.0 * matched_ratio:.0f} % of the run)"
    if judged_count < FEWEST_ESTIMATES:
        opinion = f"too short to judge consistency ({judged_count} estimates)"
        return f"{opinion}{_suspect(sensors, '; look at ')}: {accuracy}{covered}"
    worst = max((_excess(part, time_s, settle_s) for part in judged.values()), key=lambda excess: excess.factor)
    if worst.factor > OVERCONFIDENT_FACTOR and worst.p_value < SIGNIFICANCE:
        since = f" after {worst.since_s:.0f} s" if worst.since_s > time_s[0] + settle_s + 1.0 else ""
        how = (
            f" by {format_number(worst.factor, 2)}" if math.isfinite(worst.factor) else ", which it states to be exact"
        )
        opinion = f"overconfident in {worst.name}{how}{since}"
        return f"{opinion}{_suspect(sensors, '; suspect ')}: {accuracy}{covered}"
    factors = [_factor(part, time_s, settle_s) for part in judged.values()]
    if max(factors) < CONSERVATIVE_FACTOR:
        return f"conservative, errors are {max(factors):.2f} of the stated ones: {accuracy}{covered}"
    opinion = "consistent" if worst.factor <= OVERCONFIDENT_FACTOR else "not shown to be inconsistent by this one run"
    return f"{opinion}{_suspect(sensors, ', but look at ')}: {accuracy}{covered}"


def _used(part: PartResult, time_s: Vector, settle_s: float) -> NDArray[np.bool_]:
    """(K,) where the part is judged: after the start that is left out, if it has a truth there."""
    used = np.asarray(part.matched & (time_s >= time_s[0] + settle_s), dtype=np.bool_)
    return used if used.any() else part.matched


def _accuracy(part: PartResult, time_s: Vector, settle_s: float) -> str:
    used = _used(part, time_s, settle_s)
    error = part.error[used]
    lengths = [i for i, unit in enumerate(part.units) if unit == "m"]
    angles = [i for i, unit in enumerate(part.units) if unit == "rad"]
    words = []
    if lengths:
        rms = float(np.sqrt(np.mean(np.sum(error[:, lengths] ** 2, axis=1))))
        words.append(f"{100.0 * rms:.1f} cm")
    if angles:
        words.append(f"{np.rad2deg(np.sqrt(np.mean(error[:, angles] ** 2))):.2f} deg")
    if not words:
        words.append(f"{np.sqrt(np.mean(error**2)):.3g} {part.units[0]}".rstrip())
    return f"{part.name.replace('_', ' ')} within {' and '.join(words)} RMS"


def _factor(part: PartResult, time_s: Vector, settle_s: float) -> float:
    """RMS of the errors in stated standard deviations, over all dimensions together (root of the mean NEES)."""
    return float(np.sqrt(_mean_nees(part, _used(part, time_s, settle_s)) / len(part.names)))


def _mean_nees(part: PartResult, used: NDArray[np.bool_]) -> float:
    """Infinite where the filter is wrong in what it states to be exact; a singular covariance has none."""
    if np.any((part.stddev[used] == 0.0) & (part.error[used] != 0.0)):
        return math.inf
    nees = part.nees[used & np.isfinite(part.nees)]
    return float(np.mean(nees)) if len(nees) else 0.0


def _excess(part: PartResult, time_s: Vector, settle_s: float) -> Excess:
    used = _used(part, time_s, settle_s)
    # What is stated to be exact, and is, is not in excess; and where it is not, without bound.
    error, stddev = part.error[used], part.stddev[used]
    normalised = np.divide(error, stddev, out=np.where(error == 0.0, 0.0, np.inf), where=stddev > 0.0)
    factors = np.sqrt(np.mean(normalised**2, axis=0))
    worst = int(np.argmax(factors))
    factor = max(float(factors[worst]), _factor(part, time_s, settle_s))
    outside = np.abs(normalised[:, worst]) > OVERCONFIDENT_FACTOR * 2.0
    times = time_s[used]
    since = _first_lasting(outside, times)
    samples = effective_sample_size(normalised)
    p_value = overconfidence_p_value(_mean_nees(part, used), len(part.names), max(samples, 1.0))
    return Excess(f"{part.names[worst]} ({part.name.replace('_', ' ')})", factor, since, p_value)


def _first_lasting(outside: np.ndarray, times: Vector) -> float:
    """Start of the first window that is mostly outside; the first instant where there is none."""
    outside_before = np.concatenate(([0], np.cumsum(outside)))
    starts = np.flatnonzero(outside)
    for piece in np.array_split(starts, max(len(starts) // _STARTS_AT_ONCE, 1)):
        ends = np.searchsorted(times, times[piece] + _WINDOW_S)
        lasting = 2 * (outside_before[ends] - outside_before[piece]) > ends - piece
        if lasting.any():
            return float(times[piece[np.argmax(lasting)]])
    return float(times[0])


def _suspect(sensors: Mapping[str, Mapping[str, float]], lead: str) -> str:
    """The sensor that is least what the filter expects of it, if any is conspicuous.

    Messages that never reached the filter come first: what the others show may follow from their absence.
    """
    lost: list[tuple[float, str]] = []
    conspicuous: list[tuple[float, str]] = []
    for name, row in sensors.items():
        nis, bias, used = row.get("mean_nis", math.nan), row.get("mean_innovation_sigma", math.nan), row.get("used", 0)
        gated, received = row.get("gated", 0), row.get("received", 0)
        missing = sum(row.get(reason, 0) for reason in _LOST)
        if missing > 0.05 * received:
            lost.append((missing / received, f"{name} ({missing:.0f} of {received:.0f} messages lost)"))
        elif gated and gated > 0.05 * (used + gated):
            share = gated / (used + gated)
            conspicuous.append((10.0 * share + 1.0, f"{name} ({gated:.0f} of {used + gated:.0f} refused)"))
        elif nis > 2.0:
            conspicuous.append((nis, f"{name} (mean NIS {nis:.1f}, expected 1)"))
        elif abs(bias) > 0.3 and abs(bias) * math.sqrt(max(used, 1.0)) > 5.0:
            conspicuous.append((1.0 + abs(bias), f"the bias of {name} (mean innovation {bias:+.2f} sigma)"))
    first = lost or conspicuous
    return f"{lead}{max(first)[1]}" if first else ""
