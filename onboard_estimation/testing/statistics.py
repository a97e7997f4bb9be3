"""What an estimator states of its errors and of its readings, held against simulated runs, a seed each.

Two figures decide together: one that chance does not explain, and one that matters. The errors, normalised by what is
stated of them, are correlated in time: each run counts as so many independent samples as its correlation leaves
(`effective_sample_size`), and the sum over runs is chi-square (Bar-Shalom, Li and Kirubarajan, 2001, section 5.4).
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
from scipy.stats import chi2

from onboard_estimation.base.measurement import Matrix
from onboard_estimation.contract.simulated import Simulated
from onboard_estimation.filtering.consistency import effective_sample_size, overconfidence_p_value
from onboard_estimation.judging import verdict
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.options import JudgeSettings
from onboard_estimation.pipeline.guarded_filter import FARTHEST
from onboard_estimation.testing.case import Case, Innovations

FALSE_ALARMS = 1e-3
"""Probability that a consistent filter fails one of these promises, each over all that it looks at."""
_SMALLEST, _SMALLEST_SQUARE = 0.5, 0.7
"""Of the errors, and of the squares of the innovations, that are stated, where the scenario is as modelled."""
_SCALES = (0.8, 1.25)
_LARGEST_CORRELATION, _FEWEST = 0.3, 50
"""Of innovations, one with the next: chance alone makes it larger in 2 of 100 with so few, and in none of hundreds."""


def errors_are_as_large_as_stated(case: Case) -> None:
    """Each part of the state that the truth tells, alone and together, over all runs: at most 1.5 times, 3 of few."""
    found: dict[str, list[verdict.Check]] = {}
    for seed, recording in enumerate(case.simulated):
        judged = judge(case.robot, case.configuration, case.name, recording, JudgeSettings(seed=seed))
        for check in verdict.checks(judged.parts, judged.time_s, case.robot.settle_s, {}):
            found.setdefault(f"{check.name}, {len(check.columns)}", []).append(check)
    for runs in found.values():
        degrees, samples = len(runs[0].columns), sum(one.samples for one in runs)
        square = sum(one.factor**2 * one.samples for one in runs) / samples
        by_chance = overconfidence_p_value(square * degrees, degrees, samples)
        # The tails of few samples are not Gaussian: what they prove has to be gross.
        few = samples < verdict.FEWEST_SAMPLES * len(runs)
        largest = (2.0 if few else 1.0) * verdict.OVERCONFIDENT_FACTOR
        assert not _as_modelled(case) or square > _SMALLEST**2 or few, (
            f"errors of {runs[0].name} are {np.sqrt(square):.2f} times as large as stated, in a scenario that is as "
            "modelled: noise is told too large, as a deviation for a variance or in another unit"
        )
        assert square < largest**2 or by_chance > FALSE_ALARMS / len(found), (
            f"over {len(runs)} simulated runs, worth {samples:.0f} independent samples, errors of {runs[0].name} are "
            f"{np.sqrt(square):.2f} times as large as stated, which a consistent filter shows with a probability of "
            f"{by_chance:.1g}: look at process noise, measurement noise, Jacobians and units"
        )


def innovations_are_white(case: Case) -> None:
    """Where a sensor's innovations are as large as stated, one does not tell the next; and none are far larger."""
    found: dict[str, list[Matrix]] = {}
    for run in case.innovations:
        for sensor, values in _normalised(run).items():
            found.setdefault(sensor, []).append(np.clip(values, -3.0, 3.0))
    for sensor, runs in found.items():
        count, powers = sum(len(run) for run in runs), sum(np.sum(run**2, axis=0) for run in runs)
        sizes, products = powers / count, sum(np.sum(run[1:] * run[:-1], axis=0) for run in runs)
        alarms = FALSE_ALARMS / len(found) / len(sizes)
        least = min(_SMALLEST_SQUARE, chi2.ppf(alarms, count) / count) if _as_modelled(case) else 0.0
        few = f"of {count} innovations of {sensor}"
        assert sizes.max() < verdict.OVERCONFIDENT_FACTOR**2, (
            f"{few} the size is {np.sqrt(sizes.max()):.2f} times what is stated: look at its noise and its model"
        )
        assert sizes.min() >= least, (
            f"{few} the size is {np.sqrt(sizes.min()):.2f} times what is stated, in a scenario that is as modelled: "
            "noise is told too large, as a deviation or in another unit"
        )
        correlation = max(products / np.maximum(powers, np.finfo(np.float64).tiny), key=abs)
        chance = np.sqrt(chi2.isf(alarms, 1) / count)
        judged = sizes.min() > 0.5 and count > _FEWEST
        assert not judged or abs(correlation) < max(_LARGEST_CORRELATION, chance), (
            f"{few} each tells the next, with a correlation of {correlation:.2f}, where {chance:.2f} is chance: the "
            "model lacks something that lasts, or the noise is not split rightly between process and sensor"
        )


def commands_explain_the_readings_best(case: Case) -> None:
    """As they are, not scaled by 0.8 or 1.25, by the likelihood of all runs' readings."""
    commands, runs = case.commands, case.innovations
    as_they_are = sum(map(_log_likelihood, runs))
    # Innovations that tell each other count as the independent ones that they are worth.
    share = min((effective_sample_size(one) / len(one) for run in runs for one in _normalised(run).values()), default=1)
    bound = 0.5 * chi2.isf(FALSE_ALARMS / (len(_SCALES) * len(commands)), 1)
    for sensor, scale in itertools.product(commands, _SCALES):
        scaled = (
            [replace(one, value=scale * one.value) if one.sensor == sensor else one for one in case.passed(recording)]
            for recording in case.simulated
        )
        gain = share * (sum(_log_likelihood(case.innovations_of(run)) for run in scaled) - as_they_are)
        assert gain < bound, (
            f"commands of {sensor} that are {scale:g} times as large explain the readings better, by a log-likelihood "
            f"of {gain:.1f} over {len(runs)} simulated runs, where {bound:.1f} is chance: look at their scale (radius, "
            "gain, unit)"
        )


def _log_likelihood(run: Innovations) -> float:
    """Of all readings, but for a constant; those that are far off count for no more than `FARTHEST`."""
    return -sum(
        0.5 * min(seen.nis, FARTHEST**2 * len(seen.value)) + float(np.linalg.slogdet(seen.root)[1]) for _, seen in run
    )


def _normalised(run: Innovations) -> dict[str, Matrix]:
    """(K, m) innovations of each sensor in their standard deviations, of those with as many elements as its first."""
    found: dict[str, list[list[float]]] = {}
    for sensor, seen in run:
        found.setdefault(sensor, []).append(seen.normalised)
    return {name: np.array([one for one in all_ if len(one) == len(all_[0])]) for name, all_ in found.items()}


def _as_modelled(case: Case) -> bool:
    """Whether the scenario that is simulated has the noise that the filter is told."""
    return isinstance(case.robot, Simulated) and next(iter(case.robot.scenarios.values())).as_modelled
