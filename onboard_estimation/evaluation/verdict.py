"""The verdict: one sentence that says whether to believe an estimate, and whom to suspect if not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.evaluation.consistency_checks import (
    CONSERVATIVE_FACTOR,
    OVERCONFIDENT_FACTOR,
    SIGNIFICANCE,
    Check,
    checks,
    judged_instants,
    worst_pair,
)
from onboard_estimation.evaluation.presentation import format_number
from onboard_estimation.evaluation.result import PartResult
from onboard_estimation.measurement import Vector

FEWEST_ESTIMATES = 20
_LOST = ("too_late", "stray", "invalid", "out_of_range", "incomplete", "breakdowns")
_MOST_NAMED = 2
_COVERAGE_WORDS = {1: ("one standard deviation", "68"), 3: ("three standard deviations", "99.7")}


def verdict(
    parts: Mapping[str, PartResult],
    time_s: Vector,
    settle_s: float,
    sensors: Mapping[str, Mapping[str, float]],
    matched_ratio: float,
    stretches: Mapping[str, NDArray[np.bool_]] | None = None,
) -> str:
    """One sentence on accuracy, consistency and suspects.

    "Consistent" is said only where the errors of every dimension, of every part together and of each in every stretch
    of the run are as large as stated, and as often within one and three standard deviations as they should be. Of what
    has no covariance, only the accuracy is said.

    Parameters
    ----------
    stretches
        (K,) where each stretch of the run is that is to be judged on its own too, by its words (`while dropping`).
    """
    judged = {name: part for name, part in parts.items() if part.matched.any()}
    if not judged:
        return "not judged: no estimate has a ground truth" + _suspect(sensors, "; ")
    judged_count = min(int(judged_instants(part, time_s, settle_s).sum()) for part in judged.values())
    accuracy = ", ".join(_accuracy(part, time_s, settle_s) for part in judged.values())
    if matched_ratio <= 0.995:
        accuracy += f" (truth covers {100.0 * matched_ratio:.0f} % of the run)"
    stated = {
        name: part
        for name, part in judged.items()
        if np.isfinite(part.stddev[judged_instants(part, time_s, settle_s)]).all(axis=1).any()
    }
    if not stated:
        return f"accuracy only, for there is no covariance: {accuracy}"
    if judged_count < FEWEST_ESTIMATES:
        opinion = f"too short to judge consistency ({judged_count} estimates)"
        return f"{opinion}{_suspect(sensors, '; look at ')}: {accuracy}"
    found = checks(stated, time_s, settle_s, stretches or {})
    failing = [check for check in found if check.fails]
    # Of many looks at a consistent filter one shows something that is improbable by itself.
    significance = SIGNIFICANCE / len(found)
    proven = [check for check in failing if check.p_value() < significance]
    if proven:
        return f"{_overconfident(proven, time_s, settle_s)}{_suspect(sensors, '; suspect ')}: {accuracy}"
    if failing:
        opinion = f"not shown to be inconsistent by this one run, which leaves doubt in {_doubtful(failing)}"
        return f"{opinion}{_suspect(sensors, ', look at ')}: {accuracy}"
    whole = [check for check in found if len(check.columns) == len(check.part.names)]
    largest = max(check.factor for check in whole if not check.stretch)
    if largest < CONSERVATIVE_FACTOR:
        return f"conservative, errors are {largest:.2f} of the stated ones: {accuracy}"
    # A drift that happens to be small is no fault of the filter; of several dimensions one always is the smallest.
    unsure = [check for check in whole if check.factor < CONSERVATIVE_FACTOR and check.small_p_value() < significance]
    opinion = f"consistent, though too unsure {_unsure(unsure, whole)}" if unsure else "consistent"
    return f"{opinion}{_suspect(sensors, ', but look at ')}: {accuracy}"


def _overconfident(proven: Sequence[Check], time_s: Vector, settle_s: float) -> str:
    """What fails most: of the whole run before its stretches, of one quantity alone before several together."""
    worst = min(proven, key=lambda check: (bool(check.stretch), check.joint, -check.factor))
    if worst.factor <= OVERCONFIDENT_FACTOR:
        return f"overconfident in {_described(worst)}"
    if math.isinf(worst.factor):
        return f"overconfident in {worst.name}, which it states to be exact"
    first_s = worst.since_s(time_s)
    since = f" after {first_s:.0f} s" if first_s > time_s[0] + settle_s + 1.0 else ""
    by = f"by {format_number(worst.factor, 2)}{since}"
    if not worst.joint:
        return f"overconfident in {worst.name} {by}"
    pair = worst_pair(worst)
    which = f"of {pair[0]} and {pair[1]}" if pair else f"between {', '.join(worst.part.names)}"
    # A sign in a Jacobian leaves the variances right, or nearly so.
    return (
        f"overconfident in {worst.name} taken together {by}, though not in any of it alone: the cross-covariance "
        f"{which} is wrong, look at the Jacobians"
    )


def _doubtful(failing: Sequence[Check]) -> str:
    """What fails, by chance or not. A dimension that fails alone says more than its part."""
    alone = {(check.part.name, check.stretch) for check in failing if not check.joint}
    return _listed([check for check in failing if not check.joint or (check.part.name, check.stretch) not in alone])


def _unsure(unsure: Sequence[Check], found: Sequence[Check]) -> str:
    """What is far smaller than stated: a stretch in which every part is, else each part."""
    for stretch in {check.stretch: None for check in unsure}:
        smaller = [check for check in unsure if check.stretch == stretch]
        if len(smaller) == sum(check.stretch == stretch for check in found):
            largest = max(check.factor for check in smaller)
            return f"{stretch} (errors at most {format_number(largest, 2)} of the stated ones)"
    return f"in {_listed(unsure)}"


def _listed(found: Sequence[Check]) -> str:
    """The first of many; what holds for the whole run is not said of its stretches again."""
    whole = {(check.part.name, check.columns) for check in found if not check.stretch}
    chosen = [check for check in found if not check.stretch or (check.part.name, check.columns) not in whole]
    words = [_described(check) for check in chosen[:_MOST_NAMED]]
    if len(chosen) > _MOST_NAMED:
        words.append(f"{len(chosen) - _MOST_NAMED} more")
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _described(check: Check) -> str:
    size = f"errors {format_number(check.factor, 2)} of the stated ones"
    detail = size if check.too_small_coverage is None else _coverage(check)
    return f"{check.name[:-1]}: {detail})" if check.name.endswith(")") else f"{check.name} ({detail})"


def _coverage(check: Check) -> str:
    sigmas = check.too_small_coverage
    assert sigmas is not None
    words, expected = _COVERAGE_WORDS[sigmas]
    return f"{100.0 * check.coverage[sigmas]:.0f} % within {words}, {expected} expected"


def _accuracy(part: PartResult, time_s: Vector, settle_s: float) -> str:
    error = part.error[judged_instants(part, time_s, settle_s)]
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
