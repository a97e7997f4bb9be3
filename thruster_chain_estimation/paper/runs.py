"""Runs of the paper's simulation (section VI) and of its filter, by seeds.

States are the paper's, equation (29), in its order: headings, turning rates, masses, inertias.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.base.workers import all_of
from onboard_estimation.contract.reproduced import Outcome
from onboard_estimation.filtering.consistency import coverage
from thruster_chain_estimation.estimators.paper_filter import PaperFilter
from thruster_chain_estimation.judging.information import AssumedChain, Trajectory, assumed_chain, moved, predict
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration
from thruster_chain_estimation.model.dynamics import propagate, read_imus
from thruster_chain_estimation.simulation.simulator import square_waves

STEP_S, DURATION_S = 0.01, 1.0
INSTANTS = 101
AT_089 = 89
"""The last instant of the third pulse."""
GIVEN_HEADING_RAD = 0.005
COVERED_3 = 0.985
"""Of errors within three standard deviations: from there on, these are taken to be true."""
_AT_ONCE = 25  # seeds of a task


@dataclass(frozen=True, eq=False)
class Case:
    """What is run.

    Attributes
    ----------
    base
        The robot, Tables III and IV.
    imu_model
        What the IMUs read, and the filter takes them to read.
    iterated
        Whether corrections are iterated; the paper corrects once.
    matched
        Whether the truth has the process noise that the filter reckons with; the paper's has none.
    off
        Number of a thruster that does nothing.
    heading_given
        Whether the first link's heading is known at the start; the others' are as in Table III.
    thrust_n
        (INSTANTS, N) in place of the paper's square waves.
    """

    base: ThrusterChainConfiguration = field(default_factory=ThrusterChainConfiguration)
    imu_model: Literal["paper", "physical"] = "paper"
    iterated: bool = True
    matched: bool = False
    off: int | None = None
    heading_given: bool = False
    thrust_n: Matrix | None = None

    @property
    def configuration(self) -> ThrusterChainConfiguration:
        """Of the filter."""
        paper = replace(self.base.paper, iterated=self.iterated)
        return replace(self.base, imu_model=self.imu_model, paper=paper)

    @property
    def assumed(self) -> AssumedChain:
        """The robot of Table II as the filter takes it, with the deviations of Tables III and IV."""
        assumed = assumed_chain(self.configuration, papers=True)
        if self.heading_given:
            prior = assumed.prior_stddev.copy()
            prior[0] = GIVEN_HEADING_RAD
            assumed = replace(assumed, prior_stddev=prior)
        return assumed

    def thrust(self) -> Matrix:
        """(INSTANTS, N) from each instant to the next, N."""
        if self.thrust_n is not None:
            return self.thrust_n
        return square_waves(self.base.chain.count, without=self.off)(time_s())

    def path(self) -> Trajectory:
        """The motion without noise, from rest in a row."""
        assumed = self.assumed
        return moved(assumed.chain, assumed.design, self.thrust(), time_s())[0]

    def bound(self) -> Matrix:
        """(INSTANTS, 4N) standard deviations that no filter can be surer than: Cramer and Rao's, with noise."""
        assumed = self.assumed
        return predict(assumed.chain, self.path(), assumed.prior_stddev, assumed.noise_density)[0][
            :, : 4 * self.base.chain.count
        ]


def time_s() -> Vector:
    """(INSTANTS,) of a run."""
    return np.asarray(STEP_S * np.arange(INSTANTS, dtype=np.float64))


class Runs(NamedTuple):
    """S runs at K instants, NaN after a breakdown.

    Attributes
    ----------
    error, stddev
        (S, K, 4N) estimate minus truth, and as the filter states it: rad, rad/s, kg, kg m^2.
    ratio
        (S, K, 4N) error by standard deviation in the filter's own state, which has logarithms.
    nees
        (S, K) of that.
    mean_heading_stddev_rad
        (S, K) of the mean of the headings.
    failed
        Runs that broke down.
    """

    error: Matrix
    stddev: Matrix
    ratio: Matrix
    nees: Matrix
    mean_heading_stddev_rad: Matrix
    failed: int

    def covered(self, sigmas: float) -> float:
        """Share of all errors within so many of the standard deviations that are stated."""
        return coverage(self.ratio, np.ones_like(self.ratio), sigmas)

    def rmse(self, instant: int) -> Vector:
        """(4,) of headings, rates, masses, inertias over runs and links."""
        square = np.nanmean(self.error[:, instant] ** 2, axis=0)
        return np.asarray(np.sqrt(square.reshape(4, -1).mean(axis=1)))

    def stated(self, instant: int) -> Vector:
        """(4,) mean standard deviations of headings, rates, masses, inertias over runs and links."""
        return np.asarray(np.nanmean(self.stddev[:, instant], axis=0).reshape(4, -1).mean(axis=1))


def run_case(case: Case, seeds: int) -> Runs:
    """So many runs, from seed 0 on, shared by the workers."""
    tasks = [range(first, min(first + _AT_ONCE, seeds)) for first in range(0, seeds, _AT_ONCE)]
    parts = [one for part in all_of(partial(_runs, case), tasks) for one in part]
    error, stddev, ratio, nees, mean_heading = (np.array(one) for one in zip(*parts, strict=True))
    return Runs(error, stddev, ratio, nees, mean_heading, int(np.isnan(nees[:, -1]).sum()))


def _runs(case: Case, seeds: range) -> list[tuple[Matrix, ...]]:
    tracker = PaperFilter(case.configuration, dead_reckoned=False)
    return [_run(case, tracker, np.random.default_rng(seed)) for seed in seeds]


def _run(case: Case, tracker: PaperFilter, rng: np.random.Generator) -> tuple[Matrix, ...]:
    """What `Runs` has of one seed."""
    assumed, thrust, links = case.assumed, case.thrust(), case.base.chain.count
    everything, n = np.arange(links), 2 * links
    truth = assumed.design[: 2 * n].copy()
    scale = np.append(np.ones(n), truth[n:])  # masses and inertias walk in shares
    prior, walk = (one[: 2 * n] / scale for one in (assumed.prior_stddev, assumed.noise_density * np.sqrt(STEP_S)))

    def disturbed(state: Vector, by: Vector) -> Vector:
        return np.append(state[:n] + by[:n], state[n:] * np.exp(by[n:]))

    start = disturbed(truth, prior * rng.normal(size=2 * n))  # x0 ~ N(x0, P0), (57) and (58)
    moments = tracker.start(start, np.diag((prior * np.append(np.ones(n), start[n:])) ** 2))
    found = [np.full((INSTANTS, *one), np.nan) for one in ((2 * n,), (2 * n,), (2 * n,), (), ())]
    try:
        for k in range(INSTANTS):
            if k > 0:
                motion = truth[:n, None].copy()
                propagate(assumed.chain.links, _given(truth, thrust[k - 1]), motion, STEP_S, 0.1 * STEP_S)
                truth = np.append(motion[:, 0], truth[n:])
                if case.matched:
                    truth = disturbed(truth, walk * rng.normal(size=2 * n))
                moments = tracker.predict(moments, thrust[k - 1], STEP_S)
                readings, motion = np.empty((3 * links, 1)), truth[:n, None].copy()
                read_imus(assumed.chain.physical, assumed.chain.links, _given(truth, thrust[k]), motion, readings)
                measured = readings[:, 0] + assumed.chain.noise * rng.normal(
                    size=3 * links
                )  # y ~ N(h(x), R), (32) and (60)
                moments, _ = tracker.update(moments, thrust[k], everything, measured.reshape(links, 3))
            own = moments.mean - np.append(np.log(truth[n:]), truth[:n])
            mean, covariance = tracker.published(moments)
            found[0][k], found[1][k] = mean - truth, np.sqrt(np.diag(covariance))
            found[2][k] = own / np.sqrt(np.diag(moments.covariance))
            found[3][k] = own @ np.linalg.solve(moments.covariance, own)
            found[4][k] = np.sqrt(moments.covariance[n : n + links, n : n + links].mean())
    except np.linalg.LinAlgError:
        pass  # the rest stays NaN, and is counted
    return tuple(found)


def _given(truth: Vector, thrust_n: Vector) -> Matrix:
    """(3N, 1) as `dynamics` takes it."""
    return np.concatenate([1.0 / truth[len(truth) // 2 :], thrust_n])[:, None]


def outcome(*held: bool) -> Outcome:
    """Of what a table or figure claims."""
    return "reproduced" if all(held) else "partly" if any(held) else "not reproduced"
