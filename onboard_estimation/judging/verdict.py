"""The verdict: one sentence that says whether to believe an estimate, and whom to suspect if not.

A mean NEES of one may hide errors that lie mostly between one and two sigma, a phase that is far too sure and another
that is too unsure, or marginals that are right with a cross-covariance that is not. So every dimension is checked
alone, by the size of its errors and by coverage, over the whole run and in each of its stretches; and every part of the
state together, by its joint NEES.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc, ndtr

from onboard_estimation.base.measurement import Vector
from onboard_estimation.base.presentation import format_number, percent, quantity
from onboard_estimation.contract.result import PartResult
from onboard_estimation.filtering.consistency import effective_sample_size, nees, overconfidence_p_value

FEWEST_ESTIMATES = 20
LEAST_SHARE = 0.2
"""Of the recording that estimates and truth must both cover to be judged."""
_WHOLE = 0.995
_LOST = ("too_late", "stray", "invalid", "out_of_range", "incomplete", "breakdowns")
_MOST_NAMED = 2
_EXPECTED = {1: "68", 3: "99.7"}

Mask = NDArray[np.bool_]
Rows = NDArray[np.float64]

# A filter's claims mislead when its errors are 1.5 times, or a third of, what it states.
OVERCONFIDENT_FACTOR = 1.5
CONSERVATIVE_FACTOR = 1.0 / 3.0
# Where one standard deviation holds what three should, half of it is too unsure already.
UNSURE_FACTOR, MOST_COVERAGE = 0.5, 0.997
# Coverage of Gaussian errors that are 1.5 times as large as stated, at one and at three standard deviations.
LEAST_COVERAGE = {1: 0.5, 3: 0.95}
_EXPECTED_COVERAGE = {sigmas: 2.0 * float(ndtr(sigmas)) - 1.0 for sigmas in LEAST_COVERAGE}
# Of a stretch with fewer estimates nothing is said.
FEWEST_IN_STRETCH = 50
# Errors of one run are correlated, often over most of the run, and then even a consistent filter's look too large in
# many runs. It is called overconfident only where that has less than this probability, over all that is checked.
SIGNIFICANCE = 0.01
FEWEST_SAMPLES = 5
"""Independent ones that the errors of each part must be worth to be called consistent: with fewer, not even errors
twice as large as stated would be beyond chance."""
_REFUSED = 0.05
"""Share of the readings that a gate may refuse, of outliers too; a sensor is looked at where more is beyond chance."""
_WINDOW_S = 2.0
_STARTS_AT_ONCE = 100_000


def verdict(
    parts: Mapping[str, PartResult],
    time_s: Vector,
    settle_s: float,
    sensors: Mapping[str, Mapping[str, float]],
    matched_ratio: float,
    stretches: Mapping[str, NDArray[np.bool_]] | None = None,
    estimated_ratio: float = 1.0,
) -> str:
    """One sentence on accuracy, consistency and suspects.

    "Consistent" is said only where the errors of every dimension, of every part together and of each in every stretch
    of the run are as large as stated, and as often within one and three standard deviations as they should be, and
    where the run is worth `FEWEST_SAMPLES` of each part. Of what has no covariance, only the accuracy is said.

    Parameters
    ----------
    matched_ratio
        Share of the estimates that have a truth.
    stretches
        (K,) where each stretch of the run is that is to be judged on its own too, by its words (`while dropping`).
    estimated_ratio
        Share of the recording that has estimates. Where both are there for less than `LEAST_SHARE` of it, there is no
        verdict.
    """
    judged = {name: part for name, part in parts.items() if part.matched.any()}
    if not judged:
        return "not judged: no estimate has a ground truth" + _suspect(sensors, "; ")
    judged_count = min(int(part.judged(time_s, settle_s).sum()) for part in judged.values())
    accuracy = ", ".join(_accuracy(part, time_s, settle_s) for part in judged.values())
    holes = []
    if estimated_ratio <= _WHOLE:
        holes.append(f"estimates cover {percent(estimated_ratio)} of the recording")
    if matched_ratio <= _WHOLE:
        holes.append(f"truth covers {percent(matched_ratio)} of the run")
    if is_too_small(matched_ratio, estimated_ratio):
        least = f"{percent(LEAST_SHARE)} of the recording at least need both"
        return f"not judged: {', '.join(holes)}; {least}{_suspect(sensors, '; look at ')} ({accuracy} there)"
    if holes:
        accuracy += f" ({', '.join(holes)})"
    stated = {
        name: part
        for name, part in judged.items()
        if np.isfinite(part.stddev[part.judged(time_s, settle_s)]).all(axis=1).any()
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
    unsure = _unsure(found, significance)
    also = f"; {unsure}" if unsure else ""
    if proven:
        return f"{_overconfident(proven, time_s, settle_s)}{also}{_suspect(sensors, '; suspect ')}: {accuracy}"
    if failing:
        most = max(check.samples for check in failing)
        opinion = f"doubtful in {_doubtful(failing)}; this run is worth {_samples(most)}, too few to prove it"
        return f"{opinion}{also}{_suspect(sensors, ', look at ')}: {accuracy}"
    return f"{_within_bounds(found, unsure)}{_suspect(sensors, ', but look at ')}: {accuracy}"


def _within_bounds(found: Sequence[Check], unsure: str) -> str:
    """Opinion where no errors are larger than stated; `unsure` tells what is too unsure, if anything."""
    whole = [check for check in found if check.of_part and not check.stretch]
    largest = max(check.factor for check in whole)
    if largest < CONSERVATIVE_FACTOR:
        return f"conservative, errors are {format_number(largest, 2)} of the stated ones"
    fewest = min((check for check in whole if check.factor >= CONSERVATIVE_FACTOR), key=lambda check: check.samples)
    rest = "consistent"
    if fewest.samples < FEWEST_SAMPLES:
        worth = f"this run is worth {_samples(fewest.samples)} of {fewest.name}, {FEWEST_SAMPLES} are needed"
        rest = f"undecided, for {worth}"
    return f"{unsure}, otherwise {rest}" if unsure else rest


def _samples(count: float) -> str:
    number = format_number(count, 2)
    return f"{number} independent sample{'' if number == '1' else 's'}"


def is_too_small(matched_ratio: float, estimated_ratio: float) -> bool:
    """Whether estimates with a truth, where there are any, stand for too little of the recording to judge it."""
    return 0.0 < matched_ratio * estimated_ratio < LEAST_SHARE


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


def _unsure(found: Sequence[Check], significance: float) -> str:
    """What is far smaller than stated, in words: each part; a stretch, or a dimension of another part, if proven."""
    small = [check for check in found if check.is_small]
    of_parts = [check for check in small if check.factor < CONSERVATIVE_FACTOR and check.of_part and not check.stretch]
    named = {check.part.name for check in of_parts}
    # A drift that happens to be small is no fault of the filter; of several dimensions one always is the smallest.
    others = [check for check in small if check.part.name not in named and (check.of_part or not check.stretch)]
    proven = [check for check in others if check.small_p_value() < significance]
    for stretch in {check.stretch: None for check in proven if check.stretch}:
        smaller = [check for check in proven if check.stretch == stretch]
        if len(smaller) == sum(check.of_part and check.stretch == stretch for check in found):
            largest = max(check.factor for check in smaller)
            return f"too unsure {stretch} (errors at most {format_number(largest, 2)} of the stated ones)"
    return f"too unsure in {_listed([*of_parts, *proven])}" if of_parts or proven else ""


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
    return f"{percent(check.coverage[sigmas])} within {sigmas} sigma, {_EXPECTED[sigmas]} expected"


def _accuracy(part: PartResult, time_s: Vector, settle_s: float) -> str:
    words = [quantity(rms, unit) for unit, rms in part.rms(part.judged(time_s, settle_s)).items()]
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
        elif gated and bdtrc(gated - 1, int(used + gated), _REFUSED) < SIGNIFICANCE:
            share = gated / (used + gated)
            conspicuous.append((10.0 * share + 1.0, f"{name} ({gated:.0f} of {used + gated:.0f} refused)"))
        elif nis > 2.0:
            conspicuous.append((nis, f"{name} (mean NIS {nis:.1f}, expected 1)"))
        elif abs(bias) > 0.3 and abs(bias) * math.sqrt(max(used, 1.0)) > 5.0:
            conspicuous.append((1.0 + abs(bias), f"the bias of {name} (mean innovation {bias:+.2f} sigma)"))
    first = lost or conspicuous
    return f"{lead}{max(first)[1]}" if first else ""


@dataclass(frozen=True)
class Check:
    """How errors compare with what the filter states of them.

    Attributes
    ----------
    name
        What is checked, in words: `alpha_2 (joint angles)`, `height while dropping`; of a joint check the part.
    part, columns
        Part of the state, and which of its dimensions.
    where
        (K,) the instants.
    stretch
        What stretch of the run, in words; empty: all of it.
    factor
        RMS of the errors in stated standard deviations; of several dimensions the root of the mean NEES for each.
        Infinite where the filter is wrong in what it states to be exact.
    coverage
        Share of the errors within one and three stated standard deviations; empty for several dimensions together.
    """

    name: str
    part: PartResult
    columns: tuple[int, ...]
    where: Mask
    stretch: str
    factor: float
    coverage: Mapping[int, float]

    @property
    def joint(self) -> bool:
        """Several dimensions together, cross-covariances included."""
        return len(self.columns) > 1

    @property
    def of_part(self) -> bool:
        """All dimensions of a part together, of which there may be one."""
        return len(self.columns) == len(self.part.names)

    @property
    def too_small_coverage(self) -> int | None:
        """The number of standard deviations within which too few errors lie; None: enough lie within each."""
        return next((n for n, share in self.coverage.items() if share < LEAST_COVERAGE[n]), None)

    @property
    def is_small(self) -> bool:
        """Errors are far smaller than stated, by chance or not."""
        if not self.part.stddev[self.where][:, self.columns].any():  # known exactly
            return False
        within_one = self.coverage.get(1, 0.0) >= MOST_COVERAGE and self.factor < UNSURE_FACTOR
        return self.factor < CONSERVATIVE_FACTOR or within_one

    @property
    def fails(self) -> bool:
        """Errors are larger than stated, by chance or not."""
        return self.factor > OVERCONFIDENT_FACTOR or self.too_small_coverage is not None

    def p_value(self) -> float:
        """Probability that a consistent filter looks as bad in one run whose errors are as correlated."""
        dimensions = len(self.columns)
        by_size = overconfidence_p_value(self.factor**2 * dimensions, dimensions, self.samples)
        sigmas = self.too_small_coverage
        if sigmas is None:
            return by_size
        count = round(self.samples)
        within = math.floor(self.coverage[sigmas] * count)
        return min(by_size, float(bdtr(within, count, _EXPECTED_COVERAGE[sigmas])))

    def small_p_value(self) -> float:
        """Probability that a consistent filter's errors look as small in one run in which they are as correlated."""
        dimensions = len(self.columns)
        return 1.0 - overconfidence_p_value(self.factor**2 * dimensions, dimensions, self.samples)

    @cached_property
    def samples(self) -> float:
        """How many independent samples the errors are worth."""
        return max(effective_sample_size(_normalised(self.part, self.where, self.columns)), 1.0)

    def since_s(self, time_s: Vector) -> float:
        """Start of the first two seconds that are mostly outside three stated deviations, else the first instant.

        Parameters
        ----------
        time_s
            (K,) of the run.
        """
        normalised = _normalised(self.part, self.where, self.columns)
        outside = np.max(np.abs(normalised), axis=1) > 2.0 * OVERCONFIDENT_FACTOR
        return _first_lasting(outside, time_s[self.where])


def checks(
    parts: Mapping[str, PartResult], time_s: Vector, settle_s: float, stretches: Mapping[str, Mask]
) -> list[Check]:
    """All that can be checked of a run: each dimension and each part together, over the run and in every stretch.

    Parameters
    ----------
    stretches
        (K,) where each is, by its words for a sentence (`while dropping`).
    """
    return [check for part in parts.values() for check in _of_part(part, time_s, settle_s, stretches)]


def _of_part(part: PartResult, time_s: Vector, settle_s: float, stretches: Mapping[str, Mask]) -> Iterator[Check]:
    judged = part.judged(time_s, settle_s) & np.isfinite(part.stddev).all(axis=1)
    if not judged.any():
        return
    for stretch, mask in {"": judged, **stretches}.items():
        where = judged & mask
        if stretch and np.count_nonzero(where) < FEWEST_IN_STRETCH:
            continue
        every = tuple(range(len(part.names)))
        for columns in [*((column,) for column in every), *([every] if len(every) > 1 else [])]:
            yield _checked(part, columns, where, stretch)


def _checked(part: PartResult, columns: tuple[int, ...], where: Mask, stretch: str) -> Check:
    normalised = np.abs(_normalised(part, where, columns))
    squares, coverage, name = np.sum(np.square(normalised), axis=1), {}, part.name.replace("_", " ")
    if len(columns) == 1:
        coverage = {sigmas: float(np.mean(normalised <= sigmas)) for sigmas in LEAST_COVERAGE}
        name = f"{part.names[columns[0]]} ({name})" if len(part.names) > 1 else name
    elif (known := np.isfinite(part.nees[where])).any() and np.isfinite(normalised).all():
        squares = part.nees[where][known]  # a singular covariance has none
    factor = math.sqrt(float(np.mean(squares)) / len(columns))
    return Check(f"{name} {stretch}".rstrip(), part, columns, where, stretch, factor, coverage)


def _normalised(part: PartResult, where: Mask, columns: tuple[int, ...]) -> Rows:
    """(S, d) errors in stated standard deviations."""
    error, stddev = part.error[where][:, columns], part.stddev[where][:, columns]
    # What is stated to be exact, and is, is not in excess; and where it is not, without bound.
    return np.divide(error, stddev, out=np.where(error == 0.0, 0.0, np.inf), where=stddev > 0.0)


def worst_pair(check: Check) -> tuple[str, str] | None:
    """Of a joint check the two dimensions whose errors contradict their stated cross-covariance most.

    None where no two alone explain it, or the covariances are not known.
    """
    part = check.part
    if part.covariance is None:
        return None
    error, stddev, covariance = (values[check.where] for values in (part.error, part.stddev, part.covariance))
    factors = {}
    for pair in itertools.combinations(range(len(part.names)), 2):
        columns = list(pair)
        values = scaled_nees(error[:, columns], covariance[:, columns][:, :, columns], stddev[:, columns])
        values = values[np.isfinite(values)]
        factors[pair] = math.sqrt(float(np.mean(values)) / 2.0) if len(values) else 0.0
    (first, second), factor = max(factors.items(), key=lambda entry: entry[1])
    return (part.names[first], part.names[second]) if factor > OVERCONFIDENT_FACTOR else None


def scaled_nees(error: Rows, covariance: Rows, stddev: Rows) -> Vector:
    """NEES (K,) of (K, d) errors; NaN where rounding has made the covariance singular, as after a gross inflation."""
    if error.shape[1] == 1:  # a number has no correlation, and there may be millions of them
        variance = covariance[:, 0, 0]
        usable = (variance > 0.0) & np.isfinite(variance)
        return np.divide(error[:, 0] ** 2, variance, out=np.full(len(error), np.nan), where=usable)
    with np.errstate(divide="ignore", invalid="ignore"):  # what is exactly known has no correlation
        correlation = covariance / (stddev[:, :, None] * stddev[:, None, :])
        normalised = error / stddev
    usable = np.asarray(np.isfinite(correlation).all(axis=(1, 2)), dtype=np.bool_)
    smallest = np.linalg.eigvalsh(np.where(usable[:, None, None], correlation, 0.0))[:, 0]
    usable &= smallest > error.shape[1] * np.finfo(np.float64).eps
    return nees(np.where(usable[:, None], normalised, np.nan), correlation)


def _first_lasting(outside: Mask, times: Vector) -> float:
    """Start of the first window that is mostly outside; the first instant where there is none."""
    outside_before = np.concatenate(([0], np.cumsum(outside)))
    starts = np.flatnonzero(outside)
    for piece in np.array_split(starts, max(len(starts) // _STARTS_AT_ONCE, 1)):
        ends = np.searchsorted(times, times[piece] + _WINDOW_S)
        lasting = 2 * (outside_before[ends] - outside_before[piece]) > ends - piece
        if lasting.any():
            return float(times[piece[np.argmax(lasting)]])
    return float(times[0])
