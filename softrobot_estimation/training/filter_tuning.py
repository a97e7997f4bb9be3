"""How well a filter tells where the tip is, and the search for the parameters with which it tells it best.

The score is the mean log density of the tip's true places under the filter's own claim, the truth's noise added: a
proper score, so that errors count, and so does a covariance that is too small or too large for them. Motion capture is
stamped late; by how much, each run's wrench tells. The search is the same for both filters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.configuration import describe
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.kept_results import keepable
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Matrix, Measurement, Vector
from onboard_estimation.base.workers import sharers
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.tracks import BodyTrack
from onboard_estimation.filtering.consistency import coverage, nees
from onboard_estimation.judging.replay import EstimateSeries
from onboard_estimation.learning.optimisation.methods import pattern
from onboard_estimation.learning.optimisation.minimise import minimise
from onboard_estimation.learning.optimisation.problem import LINEAR, Problem, Settings
from onboard_estimation.pipeline.pipeline import Pipeline
from softrobot_estimation.estimators.particle_estimator import ParticleEstimator
from softrobot_estimation.estimators.unscented_estimator import UnscentedEstimator
from softrobot_estimation.estimators.wrench_filter import WrenchFilter
from softrobot_estimation.judging.ground_truth import covariances, in_base, lateness
from softrobot_estimation.model.configuration import SETTLE_S, SPACE, SoftRobotConfiguration, channels
from softrobot_estimation.model.description import BASE, TIP

_LONGEST_GAP_S = 0.05
_LEAST_FRAMES = 100


_NOTHING = BodyTrack("", np.zeros(0, dtype=np.int64), np.zeros((0, 7)))
_FACTOR = 10.0
"""Either way, of where a parameter starts."""
_FIRST_STEP = 0.5 * math.log(2.0) / math.log(_FACTOR)
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
_PARTICLES = 200
"""While parameters are searched."""
_LARGEST = {one.name: float(one.maximum) for one in describe(SoftRobotConfiguration) if one.maximum is not None}


@dataclass(frozen=True)
class Score:
    """Of one run, or the mean of several.

    Attributes
    ----------
    log_density
        Mean of the frames, natural logarithm, of m^-3; minus infinity where the filter gave nothing to judge.
    rmse_m
        Of the tip, root of the mean squared distance.
    within_one, within_three
        Share of the errors, each axis for itself, within so many stated standard deviations.
    nees
        Mean normalised squared error, 3 for a filter that is as sure as it should be.
    """

    log_density: float
    rmse_m: float = np.nan
    within_one: float = np.nan
    within_three: float = np.nan
    nees: float = np.nan

    @classmethod
    def mean(cls, scores: list[Score]) -> Score:
        """Of several runs; of errors the root of the mean square."""
        names = ("log_density", "within_one", "within_three", "nees")
        figures = {name: float(np.mean([getattr(one, name) for one in scores])) for name in names}
        return cls(**figures, rmse_m=float(np.sqrt(np.mean([one.rmse_m**2 for one in scores]))))


keepable(Score)


@dataclass(frozen=True, eq=False)
class JudgedRun:
    """A recording to run filters over, and what motion capture says of the tip.

    Attributes
    ----------
    frames_ns, places
        (K,) and (K, 3) in the base's frame, as they were stamped.
    delay_s
        By which those stamps are late.
    """

    name: str
    recording: LoadedRecording
    frames_ns: NDArray[np.int64]
    places: Matrix
    delay_s: float

    @classmethod
    def of(cls, configuration: SoftRobotConfiguration, name: str, recording: LoadedRecording) -> JudgedRun:
        """UserError where there is no motion capture of tip and base, or too little of it."""
        tip, base = (recording.tracks.get(body, _NOTHING) for body in (TIP, BASE))
        if len(tip.stamps_ns) < _LEAST_FRAMES or not len(base.stamps_ns):
            raise UserError(
                f"{name}: {len(tip.stamps_ns)} frames of the tip and {len(base.stamps_ns)} of the base; filters are "
                f"tuned on {_LEAST_FRAMES} or more of the one and any of the other"
            )
        delay_s, _ = lateness(configuration, recording.series, recording.tracks)
        return cls(name, recording, tip.stamps_ns, in_base(tip.values[:, :3], base.values), delay_s)

    @cached_property
    def _measurements(self) -> list[Measurement]:
        return [one for one in self.recording.measurements() if not one.sensor.endswith("/command")]

    @property
    def duration_s(self) -> float:
        """From the first measurement to the last."""
        stamps = [stamp for one in self.recording.series for stamp in one.stamps_ns[[0, -1]].tolist()]
        return float(max(stamps) - min(stamps)) / NANOSECONDS_PER_SECOND

    def filtered(
        self, configuration: SoftRobotConfiguration, estimator: WrenchFilter[Any], part_s: float = np.inf
    ) -> tuple[EstimateSeries, Pipeline]:
        """Estimates of a filter over so much of the run, from its middle, and the pipeline at its end."""
        first_ns = self._measurements[0].stamp_ns
        skipped_s = max(0.5 * (self.duration_s - part_s), 0.0)
        begin_ns = first_ns + round(skipped_s * NANOSECONDS_PER_SECOND)
        end_ns = begin_ns + round(min(part_s, self.duration_s) * NANOSECONDS_PER_SECOND)
        pipeline = Pipeline(estimator, channels(configuration.chambers.names))
        estimates = pipeline.run(one for one in self._measurements if begin_ns <= one.stamp_ns <= end_ns)
        return EstimateSeries.of(estimates), pipeline

    def score(self, configuration: SoftRobotConfiguration, record: EstimateSeries) -> Score:
        """Of estimates, against the frames of their time."""
        stamps_ns = record.stamps_ns
        if len(stamps_ns) < 2:
            return Score(-np.inf)
        at_ns = self.frames_ns - round(self.delay_s * NANOSECONDS_PER_SECOND)
        first_ns = stamps_ns[0] + round(SETTLE_S * NANOSECONDS_PER_SECOND)
        after = np.clip(np.searchsorted(stamps_ns, at_ns), 1, len(stamps_ns) - 1)
        steps_ns = stamps_ns[after] - stamps_ns[after - 1]
        known = (at_ns >= first_ns) & (at_ns <= stamps_ns[-1]) & (steps_ns <= _LONGEST_GAP_S * NANOSECONDS_PER_SECOND)
        if not known.any():
            return Score(-np.inf)
        after, share = after[known], ((at_ns - stamps_ns[after - 1]) / steps_ns)[known, None]
        position = SPACE.coordinates("position")
        means, claims = record.means[:, position], record.covariances[:, position, position]
        errors = (1.0 - share) * means[after - 1] + share * means[after] - self.places[known]
        claimed = (1.0 - share[:, None]) * claims[after - 1] + share[:, None] * claims[after]
        return _score(errors, claimed + covariances(configuration)["position"])


def _score(errors: Matrix, claimed: NDArray[np.float64]) -> Score:
    """Of errors (K, 3) under covariances (K, 3, 3)."""
    squares, stddevs = nees(errors, claimed), np.sqrt(np.diagonal(claimed, axis1=1, axis2=2))
    density = float(np.mean(-0.5 * (squares + np.linalg.slogdet(claimed)[1]) - 1.5 * np.log(2.0 * np.pi)))
    within_one, within_three = (coverage(errors, stddevs, sigmas) for sigmas in (1.0, 3.0))
    rmse_m = float(np.sqrt((errors**2).sum(axis=1).mean()))
    return Score(density, rmse_m, within_one, within_three, float(squares.mean()))


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
    hint
        Parameters by dotted name, to search from where they are better than those of the configuration.
    """
    fewer = min(_PARTICLES, configuration.learning.particles)
    configuration = configuration.with_parameters({"learning.particles": fewer})
    hint, searched = hint or {}, [name for group in search.groups for name in group]
    before = {name: float(attrgetter(name)(configuration)) for name in (*searched, *sorted(set(hint) - set(searched)))}
    group_of = np.repeat(np.arange(len(search.groups)), [len(group) for group in search.groups])
    seen: list[tuple[Score, dict[str, float]]] = []

    def cost(values: dict[str, float]) -> float:
        changed, part_s = configuration.with_parameters(values), search.part_s(len(runs))
        score = sharers().once(lambda: judged(changed, estimator, runs, part_s))
        seen.append((score, values))
        first, best = seen[0][0].log_density, _best(seen)[0].log_density
        progress(
            min(len(seen) / search.evaluations, 1.0),
            f"tuning {estimator}: {len(seen)} of at most {search.evaluations}, log density {first:.2f} to begin with, "
            f"{best:.2f} now",
        )
        return -score.log_density

    cost(before)
    if hint:
        cost({**before, **hint})
    score, start = _best(seen)

    def costs(logarithms: Matrix) -> Vector:
        """Of common factors of the groups (1, n)."""
        if not logarithms.any():
            return np.array([-score.log_density])  # where it starts, which is known
        factors = dict(zip(searched, np.exp(logarithms[0])[group_of].tolist(), strict=True))
        values = {name: min(start[name] * factor, _LARGEST.get(name, math.inf)) for name, factor in factors.items()}
        return np.array([cost({**start, **values})])

    farthest, count = math.log(_FACTOR), len(search.groups)
    names = tuple(", ".join(group) for group in search.groups)
    problem = Problem(names, (-farthest,) * count, (farthest,) * count, (LINEAR,) * count)
    settings = Settings(generations=search.evaluations - len(seen) + 1, initial_step=_FIRST_STEP)
    minimise(pattern, problem, costs, settings, initial=np.zeros(count))
    score_after, after = _best(seen)
    at_bounds = tuple(name for name in searched if abs(math.log(after[name] / start[name])) > 0.99 * farthest)
    return Tuned(before, after, seen[0][0], score_after, len(seen), at_bounds)


def _best(seen: Sequence[tuple[Score, dict[str, float]]]) -> tuple[Score, dict[str, float]]:
    """The first of the highest score."""
    return max(seen, key=lambda one: one[0].log_density)


def judged(
    configuration: SoftRobotConfiguration, estimator: str, runs: Sequence[JudgedRun], part_s: float = math.inf
) -> Score:
    """A filter's mean score over so much of each run."""
    records = [run.filtered(configuration, build(configuration, estimator), part_s)[0] for run in runs]
    return Score.mean([run.score(configuration, record) for run, record in zip(runs, records, strict=True)])
