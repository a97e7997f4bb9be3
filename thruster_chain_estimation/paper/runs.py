"""Runs of the paper's simulation (section VI) and of its filter, by seeds."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.base.workers import all_of
from onboard_estimation.filtering import consistency
from thruster_chain_estimation.estimators.paper_filter import PaperFilter
from thruster_chain_estimation.judging.information import assumed_chain, moved, predict, read_and_moved
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration

STEP_S, DURATION_S, INSTANTS = 0.01, 1.0, 101
TIME_S: Vector = STEP_S * np.arange(INSTANTS, dtype=np.float64)
AT_089 = 89
"""The last instant of the third pulse."""


class Runs(NamedTuple):
    """S runs at K instants, NaN after a breakdown.

    Attributes
    ----------
    error, stddev
        (S, K, 4N) estimate minus truth, and as the filter states it: the paper's states, equation (29), in its order:
        headings, turning rates, masses, inertias; rad, rad/s, kg, kg m^2.
    own, covariance
        (S, K, 4N), (S, K, 4N, 4N) error and covariance in the filter's own state, which has logarithms.
    """

    error: Matrix
    stddev: Matrix
    own: Matrix
    covariance: NDArray[np.float64]

    @property
    def failed(self) -> int:
        """Runs that broke down."""
        return int(np.isnan(self.own[:, -1, 0]).sum())

    @property
    def nees(self) -> Matrix:
        """(S, K) of the filter's own state."""
        return consistency.nees(self.own, self.covariance)

    def covered(self, sigmas: float) -> float:
        """Share of all errors within so many of the standard deviations that are stated."""
        return consistency.coverage(self.own, np.sqrt(np.diagonal(self.covariance, axis1=2, axis2=3)), sigmas)

    def rmse(self, instant: int) -> Vector:
        """(4,) of headings, rates, masses, inertias over runs and links."""
        square = np.nanmean(self.error[:, instant] ** 2, axis=0)
        return np.asarray(np.sqrt(square.reshape(4, -1).mean(axis=1)))

    def stated(self, instant: int) -> Vector:
        """(4,) mean standard deviations of headings, rates, masses, inertias over runs and links."""
        return np.asarray(np.nanmean(self.stddev[:, instant], axis=0).reshape(4, -1).mean(axis=1))


def told(
    configuration: ThrusterChainConfiguration, imu_model: Literal["paper", "physical"] = "paper", iterated: bool = True
) -> ThrusterChainConfiguration:
    """The robot with IMUs of that model, and a filter that iterates its corrections, or, as the paper's, does not."""
    return replace(configuration, imu_model=imu_model, paper=replace(configuration.paper, iterated=iterated))


def bound(configuration: ThrusterChainConfiguration, thrust_n: Matrix) -> Matrix:
    """(INSTANTS, 4N) standard deviations that no filter can be surer than: Cramer and Rao's, with noise."""
    assumed = assumed_chain(configuration, papers=True)
    path, _ = moved(assumed.chain, assumed.design, thrust_n, TIME_S)
    return predict(assumed.chain, path, assumed.prior_stddev, assumed.noise_density)[0][:, : 4 * assumed.chain.count]


def run(configuration: ThrusterChainConfiguration, thrust_n: Matrix, seeds: int, matched: bool = True) -> Runs:
    """So many runs, from seed 0 on, under thrusts (INSTANTS, N), each until the next, shared by the workers.

    `matched`: the truth has the process noise that the filter reckons with; the paper's has none.
    """
    runs = all_of(partial(_run, configuration, thrust_n, matched), range(seeds))
    return Runs(*(np.array(one) for one in zip(*runs, strict=True)))


def _run(configuration: ThrusterChainConfiguration, thrust_n: Matrix, matched: bool, seed: int) -> tuple[Matrix, ...]:
    """What `Runs` has of one seed."""
    rng, tracker = np.random.default_rng(seed), PaperFilter(configuration, dead_reckoned=False)
    assumed = assumed_chain(configuration, papers=True)
    chain, truth, links = assumed.chain, assumed.design.copy(), np.arange(assumed.chain.count)
    n, size = 2 * chain.count, 4 * chain.count
    scale = np.append(np.ones(n), truth[n:size])  # masses and inertias walk in shares
    prior, walk = (one[:size] / scale for one in (assumed.prior_stddev, assumed.noise_density * np.sqrt(STEP_S)))

    def disturb(deviations: Vector) -> None:
        by = deviations * rng.normal(size=size)
        truth[:n] += by[:n]
        truth[n:size] *= np.exp(by[n:])

    disturb(prior)  # x0 ~ N(x0, P0), (57) and (58)
    moments = tracker.start(truth[:size].copy(), np.diag((prior * np.append(np.ones(n), truth[n:size])) ** 2))
    truth[:] = assumed.design
    error, stddev, own = np.full((3, INSTANTS, size), np.nan)
    covariances = np.full((INSTANTS, size, size), np.nan)
    try:
        for k, thrust in enumerate(thrust_n):
            read, after = read_and_moved(chain, truth[:, None], thrust, STEP_S)
            if k > 0:
                measured = read[:, 0] + chain.noise * rng.normal(size=len(read))  # y ~ N(h(x), R), (32) and (60)
                moments, _ = tracker.update(moments, thrust, links, measured.reshape(-1, 3))
            mean, covariance = tracker.published(moments)
            error[k], stddev[k] = mean - truth[:size], np.sqrt(np.diag(covariance))
            own[k] = moments.mean - np.append(np.log(truth[n:size]), truth[:n])
            covariances[k] = moments.covariance
            truth[:n] = after[:, 0]
            if matched:
                disturb(walk)
            moments = tracker.predict(moments, thrust, STEP_S)
    except np.linalg.LinAlgError:
        pass  # the rest stays NaN, and is counted
    return error, stddev, own, covariances
