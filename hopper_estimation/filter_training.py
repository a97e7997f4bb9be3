"""Training of the hopper's filters: parameters by an optimiser, then what their covariance and events need.

Section IV-B of the paper: the filters are run on recordings with motion capture, exactly as on the robot, and their
parameters are those of the lowest cost (`cost_kernels`). Their own covariance then says little, for only accuracy was
asked for; so the parameters are kept, and standard deviations are scaled in each phase as the training hops ask for.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hopper_estimation import phases
from hopper_estimation.configuration import HopperConfiguration
from hopper_estimation.cost_kernels import SURPRISE_WEIGHT, CostedTrial, cost, room_for
from hopper_estimation.filter_calibration import calibrated
from hopper_estimation.filter_model import PARAMETERS, FilterEntry
from hopper_estimation.filters import body_of, state_filter
from hopper_estimation.phases import DROP, Array
from hopper_estimation.training_trials import Trial
from onboard_estimation.learning.optimisation.minimise import SeedResults, minimise_seeds
from onboard_estimation.learning.optimisation.problem import LINEAR, LOG, Problem, Progress, Settings

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
_DELAYS = (phases.DELAY_TD, phases.DELAY_MS, phases.DELAY_LO)


@dataclass(frozen=True)
class SearchSettings:
    """How parameters are searched.

    Attributes
    ----------
    method
        `genetic` (the paper's), `differential_evolution` or `cma`.
    individuals, generations, seeds
        See `onboard_estimation.learning.optimisation.Settings`; of several seeds the best is kept.
    threads
        None: as many as there are cores.
    delays
        Whether the delays of event detection are searched too; the paper's form is without, and does worse on robots
        that it was not trained with (`docs/hopper.md`).
    state_file
        To continue from after an interruption; None: none is written.
    """

    method: str = "genetic"
    individuals: int = 1000
    generations: int = 20
    seeds: tuple[int, ...] = (0,)
    threads: int | None = None
    delays: bool = True
    state_file: Path | None = None


class FilterObjective:
    """Cost of parameters over trials, for the optimisers.

    Parameters
    ----------
    estimator
        One of `SEARCHED`.
    threads
        That share a population; None: one a core.
    delays
        Whether the delays of event detection are among the parameters, else they are zero.
    """

    def __init__(
        self,
        configuration: HopperConfiguration,
        estimator: str,
        trials: Sequence[Trial],
        threads: int | None = None,
        delays: bool = True,
    ) -> None:
        self.estimator = estimator
        self.places = tuple(place for place in SEARCHED[estimator] if delays or place not in _DELAYS)
        self._body = body_of(configuration)
        self._threads = threads or os.cpu_count() or 1
        self._filter = state_filter(estimator, configuration.robot)
        self._trials = [self._costed(trial) for trial in trials]

    def _costed(self, trial: Trial) -> CostedTrial:
        start = self._filter.new_state(trial.start_height_m, 0.0, np.diag(START_VARIANCES), DROP)
        # The kernels' clock starts one step before the first sample.
        cycles, begins_s = trial.hops.cycles, float(trial.time_s[0] - trial.signals["dt"][0])
        return CostedTrial(
            start,
            trial.signals,
            trial.true_height_m,
            trial.true_velocity_m_s,
            cycles.touchdown_s - begins_s,
            cycles.next_touchdown_s - begins_s,
            cycles.hop_height_m,
        )

    def problem(self) -> Problem:
        """Names, units and bounds of what is searched."""
        digest = hashlib.sha256(self.estimator.encode())
        # Of the signals what all filters look at, as they lie in a file of a search to be continued.
        for name in ("dt", "low", "high", "usable", "goal", "thrust"):
            kind = np.uint8 if name == "usable" else np.float64
            for one in self._trials:
                digest.update(one.signals[name].astype(kind).tobytes())
        for one in self._trials:
            digest.update(np.column_stack([one.signals["side_x"], one.signals["side_y"]]).tobytes())
        for name in CostedTrial._fields[2:]:
            for one in self._trials:
                digest.update(getattr(one, name).tobytes())
        chosen = [PARAMETERS[place] for place in self.places]
        return Problem(
            tuple(one.name for one in chosen),
            tuple(one.unit for one in chosen),
            tuple(one.lower for one in chosen),
            tuple(one.upper for one in chosen),
            tuple(LOG if one.logarithmic else LINEAR for one in chosen),
            digest.hexdigest()[:16],
        )

    def full(self, population: Array) -> Array:
        """(P, 18) parameter vectors from those that are searched (P, n)."""
        out = np.tile(neutral_parameters(), (len(population), 1))
        out[:, list(self.places)] = population
        return out

    def __call__(self, population: Array) -> Array:
        """(P,) costs of (P, n) parameters in their units."""
        weight = SURPRISE_WEIGHT if self.estimator == "bounce" else 0.0

        def costs(rows: Array) -> list[float]:
            room = room_for(self._trials)
            return [cost(self._filter, one, self._body, self._trials, room, weight) for one in rows]

        whole = self.full(np.atleast_2d(population))
        if self._threads == 1:
            return np.array(costs(whole))
        with ThreadPoolExecutor(self._threads) as pool:
            pieces = pool.map(costs, np.array_split(whole, min(4 * self._threads, len(whole))))
            return np.concatenate(list(pieces))


def neutral_parameters() -> Array:
    """(18,) values of parameters that a filter does not look at."""
    middle = [
        np.sqrt(one.lower * one.upper) if one.logarithmic else 0.5 * (one.lower + one.upper) for one in PARAMETERS
    ]
    values = np.array(middle)
    values[[phases.VEL2, phases.VEL1, phases.VEL0, phases.CH1, phases.CH0, phases.THRUST0]] = 0.0
    values[phases.THRUST1] = 1.0
    values[list(_DELAYS)] = 0.0
    return values


@dataclass(frozen=True, eq=False)
class TrainedFilter:
    """A trained filter and how it came about."""

    entry: FilterEntry
    search: SeedResults
    problem: Problem


def train_filter(
    configuration: HopperConfiguration,
    estimator: str,
    trials: Sequence[Trial],
    settings: SearchSettings,
    progress: Callable[[Progress], None] | None = None,
) -> TrainedFilter:
    """Search a filter's parameters on trials and calibrate it with them."""
    objective = FilterObjective(configuration, estimator, trials, settings.threads, settings.delays)
    problem = objective.problem()
    search = minimise_seeds(
        settings.method,
        problem,
        objective,
        Settings(settings.individuals, settings.generations),
        settings.seeds,
        progress,
        settings.state_file,
    )
    parameters = objective.full(search.best.best[None])[0]
    return TrainedFilter(calibrated(configuration, estimator, parameters, trials), search, problem)
