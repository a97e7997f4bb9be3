"""Search of the filters' parameters on recordings with motion capture; the same procedure for both filters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np

from onboard_estimation.configuration import describe
from onboard_estimation.learning.optimisation.coordinate_search import Array, maximise
from softrobot_estimation.configuration import SoftRobotConfiguration
from softrobot_estimation.filter_score import SETTLE_S, JudgedRun, Score
from softrobot_estimation.identification_unknowns import with_parameters
from softrobot_estimation.particle_estimator import ParticleEstimator
from softrobot_estimation.unscented_estimator import UnscentedEstimator
from softrobot_estimation.wrench_filter import WrenchFilter

_FACTOR = 10.0
"""Either way, of where a parameter starts."""
_FIRST_STEP = math.log(2.0)
_LEAST_PART_S = 6.0

_NOISE = (
    ("filter.moment_stddev_n_m",),
    ("behaviour.load_share",),
    ("filter.torque_stddev_n_m",),
    ("filter.force_stddev_n",),
    ("filter.moment_time_s",),
    ("filter.torque_walk_n_m_sqrt_s",),
    ("filter.rest_moment_stddev_n_m",),
    ("filter.place_share",),
)
_LEARNING = (
    ("learning.deviation_share",),
    ("learning.noise_share",),
    ("learning.length_scale_rad", "learning.length_scale_m"),
    ("learning.memory_s",),
)


@dataclass(frozen=True)
class Search:
    """How a filter is tuned.

    Attributes
    ----------
    groups
        Parameters by dotted name; those of a group have a factor in common.
    evaluations
        Of the score, at most.
    total_s
        Of the recordings that are filtered for one evaluation, shared evenly among the runs.
    """

    groups: tuple[tuple[str, ...], ...]
    evaluations: int
    total_s: float

    def part_s(self, count: int) -> float:
        """Of each of so many runs."""
        return max(self.total_s / count, _LEAST_PART_S) + SETTLE_S


SEARCHES = {
    "ukf": Search((*_NOISE, ("filter.stiffness_walk_sqrt_s",)), 40, 24.0),
    "marginalized_pf": Search((*_LEARNING, *_NOISE), 20, 12.0),
}
_PARTICLES = 200
"""While parameters are searched."""
_LARGEST = {one.name: float(one.maximum) for one in describe(SoftRobotConfiguration) if one.maximum is not None}


@dataclass(frozen=True)
class Tuned:
    """A filter that was tuned.

    Attributes
    ----------
    before, after
        Values by dotted name.
    score_before, score_after
        On the parts of the runs that it was tuned on.
    at_bounds
        Parameters that would have gone further than a factor of 10 from where they were searched from.
    """

    before: Mapping[str, float]
    after: Mapping[str, float]
    score_before: Score
    score_after: Score
    evaluations: int
    at_bounds: tuple[str, ...] = ()

    @property
    def kept(self) -> bool:
        """Whether nothing better than the start was found."""
        return self.before == self.after


def build(configuration: SoftRobotConfiguration, estimator: str) -> WrenchFilter[object]:
    """The filter of that name, which has learned nothing."""
    kinds = {"ukf": UnscentedEstimator, "marginalized_pf": ParticleEstimator}
    return kinds[estimator](configuration)


def tune(
    configuration: SoftRobotConfiguration,
    estimator: str,
    runs: Sequence[JudgedRun],
    search: Search,
    hint: Mapping[str, float] | None = None,
    progress: Callable[[float, str], None] = lambda share, step: None,
) -> Tuned:
    """The parameters of the highest mean log density of the tip's true places.

    Parameters
    ----------
    runs
        With their delays.
    hint
        Parameters by dotted name, to search from where they are better than those of the configuration.
    """
    fewer = replace(configuration.learning, particles=min(_PARTICLES, configuration.learning.particles))
    configuration = replace(configuration, learning=fewer)
    hint, searched = hint or {}, [name for group in search.groups for name in group]
    before = {name: float(attrgetter(name)(configuration)) for name in (*searched, *sorted(set(hint) - set(searched)))}
    group_of = np.repeat(np.arange(len(search.groups)), [len(group) for group in search.groups])
    seen: list[tuple[Score, dict[str, float]]] = []

    def tried(values: dict[str, float]) -> float:
        score = judged(with_parameters(configuration, values), estimator, runs, search.part_s(len(runs)))
        seen.append((score, values))
        first, best = seen[0][0].log_density, _best(seen)[0].log_density
        progress(
            min(len(seen) / search.evaluations, 1.0),
            f"tuning {estimator}: {len(seen)} of at most {search.evaluations}, log density {first:.2f} to begin with, "
            f"{best:.2f} now",
        )
        return score.log_density

    tried(before)
    if hint:
        tried({**before, **hint})
    _, start = _best(seen)

    def moved(logarithms: Array) -> float:
        factors = dict(zip(searched, np.exp(logarithms)[group_of].tolist(), strict=True))
        values = {name: min(start[name] * factor, _LARGEST.get(name, math.inf)) for name, factor in factors.items()}
        return tried({**start, **values})

    steps = [_FIRST_STEP] * len(search.groups)
    maximise(moved, steps, math.log(_FACTOR), search.evaluations - len(seen), _best(seen)[0].log_density)
    score, after = _best(seen)
    at_bounds = tuple(name for name in searched if abs(math.log(after[name] / start[name])) > 0.99 * math.log(_FACTOR))
    return Tuned(before, after, seen[0][0], score, len(seen), at_bounds)


def _best(seen: Sequence[tuple[Score, dict[str, float]]]) -> tuple[Score, dict[str, float]]:
    """The first of the highest score."""
    return max(seen, key=lambda one: one[0].log_density)


def judged(
    configuration: SoftRobotConfiguration, estimator: str, runs: Sequence[JudgedRun], part_s: float = math.inf
) -> Score:
    """A filter's mean score over so much of each run."""
    return Score.mean(
        [
            run.score(configuration, run.filtered(configuration, build(configuration, estimator), part_s).record)
            for run in runs
        ]
    )
