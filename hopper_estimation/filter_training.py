"""Training of the hopper's filters: parameters by an optimiser, then what their covariance and events need.

Section IV-B of the paper: the filters are run on recordings with motion capture, exactly as on the robot, and their
parameters are those of the lowest cost (`cost_kernels`). Their own covariance then says little, for only accuracy was
asked for; so the parameters are kept, and standard deviations are scaled in each phase as the training hops ask for.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hopper_estimation import vertical_kernels as kernels
from hopper_estimation.configuration import HopperConfiguration
from hopper_estimation.cost_kernels import BOUNCE, ERROR_STATE, JoinedTrials, population_costs
from hopper_estimation.filter_calibration import calibrated
from hopper_estimation.filter_kinds import kernel_body, state_filter
from hopper_estimation.filter_model import PARAMETERS, FilterEntry
from hopper_estimation.phases import DROP
from hopper_estimation.training_trials import Trial
from hopper_estimation.vertical_kernels import Signals
from onboard_estimation.learning.optimisation.minimise import SeedResults, minimise_seeds
from onboard_estimation.learning.optimisation.problem import LINEAR, LOG, Problem, Progress, Settings

Array = NDArray[np.float64]

START_VARIANCES = (0.01**2, 0.1**2)
"""Of height (m^2) and velocity (m^2/s^2) at the first drop while parameters are searched."""

_COMMON = (
    kernels.F_STATE,
    kernels.F_PHASE,
    kernels.SWITCH,
    kernels.SIGMA_A,
    kernels.SIGMA_P,
    kernels.JERK,
    kernels.DELAY_TD,
)
_STANCE = (kernels.SIGMA_V, kernels.DELAY_MS, kernels.DELAY_LO)
# The constant of the commanded height's fit is left out: it is the same as that of the velocity's.
_LIFTOFF = (kernels.VEL2, kernels.VEL1, kernels.VEL0, kernels.CH1)
_BIAS = (kernels.SIGMA_B, kernels.THRUST1, kernels.THRUST0)
SEARCHED: dict[str, tuple[int, ...]] = {
    "bounce": (*_COMMON, kernels.SIGMA_V, kernels.DELAY_MS, *_LIFTOFF[:3], kernels.STANCE_TIME),
    "kf1": (*_COMMON, *_STANCE, *_LIFTOFF),
    "kf2": (*_COMMON, *_STANCE, *_LIFTOFF, *_BIAS),
    "eskf1": (*_COMMON, *_STANCE),
    "eskf2": (*_COMMON, *_STANCE, *_BIAS),
    "kf3": _COMMON,
}
"""Which parameters each filter has; the others stay at values that they do not look at."""
_KIND = {
    "bounce": BOUNCE,
    "kf1": kernels.KF1,
    "kf2": kernels.KF2,
    "kf3": kernels.KF3,
    "eskf1": ERROR_STATE,
    "eskf2": ERROR_STATE + 1,
}
_DELAYS = (kernels.DELAY_TD, kernels.DELAY_MS, kernels.DELAY_LO)


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
        self._kind = _KIND[estimator]
        self._body = kernel_body(configuration)
        self.places = tuple(place for place in SEARCHED[estimator] if delays or place not in _DELAYS)
        self._threads = threads or os.cpu_count() or 1
        start = state_filter(estimator, configuration.robot).start
        covariance = np.diag(START_VARIANCES)
        starts = np.array([start(trial.start_height_m, 0.0, covariance, DROP) for trial in trials])

        def offsets(counts: Iterable[int]) -> NDArray[np.int64]:
            return np.cumsum([0, *counts])

        cycles = [trial.hops.cycles for trial in trials]
        self._trials = JoinedTrials(
            starts,
            offsets(len(trial.signals.dt) for trial in trials),
            offsets(len(one) for one in cycles),
            Signals._make(map(np.concatenate, zip(*(trial.signals for trial in trials), strict=True))),
            np.concatenate([trial.true_height_m for trial in trials]),
            np.concatenate([trial.true_velocity_m_s for trial in trials]),
            np.concatenate([one.touchdown_s - _start_s(trial) for one, trial in zip(cycles, trials, strict=True)]),
            np.concatenate([one.next_touchdown_s - _start_s(trial) for one, trial in zip(cycles, trials, strict=True)]),
            np.concatenate([one.hop_height_m for one in cycles]),
        )

    def problem(self) -> Problem:
        """Names, units and bounds of what is searched."""
        digest = hashlib.sha256(self.estimator.encode())
        _, _, _, signals, *truth = self._trials
        # Of the signals what all filters look at, as they lie in a file of a search to be continued.
        dt, acceleration, usable, goal, thrust, _ = signals
        low, high, side = acceleration[:, 0], acceleration[:, 1], acceleration[:, 2:]
        looked_at: list[NDArray[Any]] = [dt, low, high, usable, goal, thrust, side, *truth]
        for array in looked_at:
            digest.update(array.tobytes())
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
        whole = self.full(np.atleast_2d(population))
        costs = np.empty(len(whole))
        pieces = np.array_split(np.arange(len(whole)), min(4 * self._threads, len(whole)))

        def evaluate(rows: NDArray[np.int64]) -> None:
            part = np.empty(len(rows))
            population_costs(self._kind, whole[rows], self._body, self._trials, part)
            costs[rows] = part

        if self._threads == 1:
            evaluate(np.arange(len(whole)))
        else:
            with ThreadPoolExecutor(self._threads) as pool:
                list(pool.map(evaluate, pieces))
        return costs


def neutral_parameters() -> Array:
    """(18,) values of parameters that a filter does not look at."""
    middle = [
        np.sqrt(one.lower * one.upper) if one.logarithmic else 0.5 * (one.lower + one.upper) for one in PARAMETERS
    ]
    values = np.array(middle)
    values[[kernels.VEL2, kernels.VEL1, kernels.VEL0, kernels.CH1, kernels.CH0, kernels.THRUST0]] = 0.0
    values[kernels.THRUST1] = 1.0
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


def _start_s(trial: Trial) -> float:
    """Time of the kernels' clock, which starts one step before the first sample."""
    return float(trial.time_s[0] - trial.signals.dt[0])
