"""Training of the hopper's filters: parameters by an optimiser, then what their covariance and events need.

Section IV-B of the paper: the filters are run on recordings with motion capture, exactly as on the robot, and their
parameters are those of the lowest cost. Their own covariance then says little, for only accuracy was asked for; so the
parameters are kept, and standard deviations are scaled in each phase as the training hops ask for.

    cost = mean |h - h_true| / h_true over all hops + |n - n_true| / n_true + 0.01 RMSE(z) + 0.01 RMSE(vz)

(eqs. (8) to (10) of the paper, weights as MODELS settles them): h and n are heights and number of the apexes. A hop
whose apex was not seen counts as an error of 100 %.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numba import njit

from hopper_estimation.estimators.filters import PARAMETERS, Filtered, FilterEntry, body_of, state_filter
from hopper_estimation.model import phases
from hopper_estimation.model.configuration import HopperConfiguration, HopperTrainingConfiguration
from hopper_estimation.model.phases import APEX, DROP, EVENT, Array, Records, copied
from hopper_estimation.training.filter_calibration import Trial, calibrated
from onboard_estimation.base.workers import sharers
from onboard_estimation.learning.optimisation.methods import genetic
from onboard_estimation.learning.optimisation.minimise import minimise_seeds
from onboard_estimation.learning.optimisation.problem import LINEAR, LOG, Problem, Progress, Result, Settings

START_VARIANCES = (0.01**2, 0.1**2)
"""Of height (m^2) and velocity (m^2/s^2) at the first drop while parameters are searched."""

_COMMON = (
    phases.F_STATE,
    phases.F_PHASE,
    phases.SWITCH,
    phases.SIGMA_A,
    phases.SIGMA_P,
    phases.JERK,
    phases.DELAY_TD,
)
_STANCE = (phases.SIGMA_V, phases.DELAY_MS, phases.DELAY_LO)
# The constant of the commanded height's fit is left out: it is the same as that of the velocity's.
_LIFTOFF = (phases.VEL2, phases.VEL1, phases.VEL0, phases.CH1)
_BIAS = (phases.SIGMA_B, phases.THRUST1, phases.THRUST0)
SEARCHED: dict[str, tuple[int, ...]] = {
    "bounce": (*_COMMON, phases.SIGMA_V, phases.DELAY_MS, *_LIFTOFF[:3], phases.STANCE_TIME),
    "kf1": (*_COMMON, *_STANCE, *_LIFTOFF),
    "kf2": (*_COMMON, *_STANCE, *_LIFTOFF, *_BIAS),
    "eskf1": (*_COMMON, *_STANCE),
    "eskf2": (*_COMMON, *_STANCE, *_BIAS),
    "kf3": _COMMON,
}
"""Which parameters each filter has; the others stay at values that they do not look at."""
PAPERS_FORM = dict.fromkeys((phases.DELAY_TD, phases.DELAY_MS, phases.DELAY_LO), 0.0)
"""Held parameters of a filter as the paper has it: no delays of detection."""

RMSE_WEIGHT = 0.01
RMSE_STEPS = 4
"""The errors along the way only give a slope where hops are missed: every fourth sample tells as much."""
LARGEST_SQUARE = 1e6
SURPRISE_WEIGHT = 0.01
_LARGEST_ERROR = 10.0
_LARGEST_SURPRISE = 10.0
_USUAL_SURPRISE = 4.0
_TRUTH_SHARE = 0.003


class FilterObjective:
    """Cost of parameters over trials, for the optimisers.

    Parameters
    ----------
    estimator
        One of `SEARCHED`.
    threads
        That share a population; 0: one a core.
    held
        Values, by their places, of parameters that are not searched.
    """

    def __init__(
        self,
        configuration: HopperConfiguration,
        estimator: str,
        trials: Sequence[Trial],
        threads: int = 0,
        held: Mapping[int, float] = MappingProxyType({}),
    ) -> None:
        self.estimator = estimator
        self.places = tuple(place for place in SEARCHED[estimator] if place not in held)
        self._held = held
        self._body = body_of(configuration)
        self._threads = threads or os.cpu_count() or 1
        self._filter = state_filter(estimator, configuration.robot)
        self._trials = trials
        start = np.diag(START_VARIANCES)
        self._starts = [self._filter.new_state(trial.start_height_m, 0.0, start, DROP) for trial in trials]
        self._spans = [_on_the_kernels_clock(trial) for trial in trials]
        hops, samples = np.array([(len(trial.hops.cycles), len(trial.signals)) for trial in trials]).T
        self._hop_shares, self._sample_shares = hops / hops.sum(), samples / samples.sum()

    def problem(self) -> Problem:
        """Names and bounds of what is searched."""
        chosen = [PARAMETERS[place] for place in self.places]
        rows = ((one.name, one.lower, one.upper, LOG if one.logarithmic else LINEAR) for one in chosen)
        return Problem(*zip(*rows, strict=True))

    def full(self, population: Array) -> Array:
        """(P, 18) parameter vectors from those that are searched (P, n)."""
        out = np.tile(neutral_parameters(), (len(population), 1))
        out[:, list(self._held)] = list(self._held.values())
        out[:, list(self.places)] = population
        return out

    def __call__(self, population: Array) -> Array:
        """(P,) costs of (P, n) parameters in their units."""
        weight = SURPRISE_WEIGHT if self.estimator == "bounce" else 0.0
        longest = max(len(one.signals) for one in self._trials)

        def costs(rows: Array) -> list[float]:
            # Memory that is used again and again is fast.
            room = Filtered(np.empty((longest, 2)), np.empty(4 + longest // 20, EVENT))
            return [self._cost(one, room, weight) for one in rows]

        whole = self.full(np.atleast_2d(population))
        with ThreadPoolExecutor(self._threads) as pool:
            pieces = pool.map(costs, np.array_split(whole, min(4 * self._threads, len(whole))))
            return np.concatenate(list(pieces))

    def _cost(self, parameters: Array, room: Filtered, surprise_weight: float) -> float:
        """Of parameters (PARAMETER_COUNT,) over trials. Every hop counts the same, whichever trial it is of."""
        rows = []
        for one, start, spans in zip(self._trials, self._starts, self._spans, strict=True):
            run = self._filter.run(parameters, self._body, tuple(map(copied, start)), one.signals, room)
            square_z, square_v, count = squared_errors(run.out, one.true_height_m, one.true_velocity_m_s)
            apex, miscount, surprise, judged = apex_errors(run.events, self._body.length, *spans)
            if judged == 0 or count == 0:
                apex, miscount, square_z, square_v, count = 1.0, 1.0, 0.0, 0.0, 1
            rows.append((apex + miscount, surprise, square_z / count, square_v / count))
        apexes, surprises, squares_z, squares_v = np.array(rows).T
        rmse = np.sqrt(self._sample_shares @ squares_z) + np.sqrt(self._sample_shares @ squares_v)
        found = self._hop_shares @ apexes + RMSE_WEIGHT * rmse
        return float(found + surprise_weight * (self._hop_shares @ surprises + _USUAL_SURPRISE))


def _on_the_kernels_clock(trial: Trial) -> tuple[Array, Array, Array]:
    """Both touchdowns of each hop, s since one step before the first sample, and the hop's height, m."""
    cycles, begins_s = trial.hops.cycles, float(trial.time_s[0] - trial.signals["dt"][0])
    return cycles.touchdown_s - begins_s, cycles.next_touchdown_s - begins_s, cycles.hop_height_m


def neutral_parameters() -> Array:
    """(18,) values of parameters that a filter does not look at."""
    middle = [
        np.sqrt(one.lower * one.upper) if one.logarithmic else 0.5 * (one.lower + one.upper) for one in PARAMETERS
    ]
    values = np.array(middle)
    values[[phases.VEL2, phases.VEL1, phases.VEL0, phases.CH1, phases.CH0, phases.THRUST0]] = 0.0
    values[phases.THRUST1] = 1.0
    values[list(PAPERS_FORM)] = 0.0
    return values


@njit(cache=True, error_model="numpy", nogil=True)
def squared_errors(out: Array, true_height: Array, true_velocity: Array) -> tuple[float, float, int]:
    """Sums of the squared errors of height and velocity, and how many were summed up."""
    square_z, square_v, count = 0.0, 0.0, 0
    for n in range(0, out.shape[0], RMSE_STEPS):
        ez, ev = out[n, 0] - true_height[n], out[n, 1] - true_velocity[n]
        if ez == ez and ev == ev:
            square_z += min(ez * ez, LARGEST_SQUARE)
            square_v += min(ev * ev, LARGEST_SQUARE)
            count += 1
    return square_z, square_v, count


@njit(cache=True, error_model="numpy", nogil=True)
def apex_errors(
    events: Records, length: float, touchdown_s: Array, next_touchdown_s: Array, hop_height: Array
) -> tuple[float, float, float, int]:
    """Apex error, miscount, surprise and number of the hops that are judged.

    The surprise is the mean negative log likelihood of the apex heights' errors, as shares of the heights, given the
    filter's own variance.

    Parameters
    ----------
    events
        Of `phases.EVENT`.
    touchdown_s, next_touchdown_s, hop_height
        (H,) both touchdowns of each hop, s on the events' clock, and the height of its apex above standing, m (NaN: not
        seen, not judged).
    """
    error, surprise, judged, apexes, event = 0.0, 0.0, 0, 0, 0
    for hop in range(touchdown_s.shape[0]):
        while event < len(events) and events[event].time < touchdown_s[hop]:
            event += 1
        seen = 0
        hop_error, hop_surprise = 1.0, _LARGEST_SURPRISE
        while event < len(events) and events[event].time < next_touchdown_s[hop]:
            if events[event].kind == APEX:
                if seen == 0:
                    miss = abs(events[event].height - length - hop_height[hop]) / hop_height[hop]
                    hop_error = min(miss, _LARGEST_ERROR) if miss == miss else _LARGEST_ERROR
                    variance = events[event].variance / hop_height[hop] ** 2 + _TRUTH_SHARE**2
                    hop_surprise = 0.5 * (hop_error * hop_error / variance + np.log(variance))
                seen += 1
            event += 1
        if hop_height[hop] == hop_height[hop]:
            error += hop_error
            surprise += min(hop_surprise, _LARGEST_SURPRISE) if hop_surprise == hop_surprise else _LARGEST_SURPRISE
            apexes += seen
            judged += 1
    if judged == 0:
        return 1.0, 1.0, _LARGEST_SURPRISE, 0
    return error / judged, abs(apexes - judged) / judged, surprise / judged, judged


@dataclass(frozen=True, eq=False)
class TrainedFilter:
    """A trained filter and how it came about: the results of all seeds and the best of them."""

    entry: FilterEntry
    results: list[Result]
    best: Result
    objective: FilterObjective


def train_filter(
    configuration: HopperConfiguration,
    estimator: str,
    trials: Sequence[Trial],
    search: HopperTrainingConfiguration,
    progress: Callable[[Progress], None] | None = None,
    held: Mapping[int, float] = MappingProxyType({}),
) -> TrainedFilter:
    """Search a filter's parameters on trials, but for those that are `held`, and calibrate it with them."""
    held = dict(held) if search.delays else {**PAPERS_FORM, **held}
    objective = FilterObjective(configuration, estimator, trials, search.threads, held)
    problem, budget = objective.problem(), Settings(search.individuals, search.generations)

    def costs(population: Array) -> Array:
        return sharers().once(lambda: objective(population))

    results = minimise_seeds(genetic, problem, costs, budget, search.seeds, progress)
    best = min(results, key=lambda one: one.cost)
    parameters = objective.full(best.best[None])[0]
    return TrainedFilter(calibrated(configuration, estimator, parameters, trials), results, best, objective)
