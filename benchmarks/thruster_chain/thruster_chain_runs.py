"""Runs of the paper's three-link chain for `thruster_chain_paper`: truth, readings, and the filter through them.

One second at 100 Hz from rest, square waves of 1 N from 0.2 s on (0.1 s on, 0.2 s off, all thrusters together), noise
and initial deviations of Tables III and IV, which are those of `ThrusterChainConfiguration`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from salp_estimation.thruster_chain.chain_model import ImuModel
from salp_estimation.thruster_chain.configuration import ThrusterChainConfiguration
from salp_estimation.thruster_chain.dynamics import propagate, read_imus
from salp_estimation.thruster_chain.information import Trajectory, predict
from salp_estimation.thruster_chain.observed_chain import ObservedChain, blocks, packed
from salp_estimation.thruster_chain.paper_filter import PaperFilter

Array = NDArray[np.float64]

STEP_S, STEPS = 0.01, 100
AT_089 = 89
PUSH_N = 1.0
GIVEN_HEADING_RAD = 0.005


@dataclass(frozen=True)
class Case:
    """What is run.

    Attributes
    ----------
    imu_model
        What the IMUs read, and the filter takes them to read.
    matched
        Whether the truth has the process noise that the filter reckons with; the paper's has none.
    off
        Number of a thruster that does nothing.
    heading_given
        Whether the first link's heading is known at the start; the others' are as in Table III.
    """

    imu_model: Literal["paper", "physical"] = "paper"
    matched: bool = False
    off: int | None = None
    heading_given: bool = False

    @property
    def configuration(self) -> ThrusterChainConfiguration:
        """Of the filter."""
        return replace(ThrusterChainConfiguration(), imu_model=self.imu_model)

    def prior(self) -> Array:
        """(12,) initial standard deviations of the filter's state: logarithms of masses and inertias first."""
        configuration = self.configuration
        chain, paper, initial = configuration.chain, configuration.paper, configuration.initial
        headings = np.full(3, initial.heading_stddev_rad)
        if self.heading_given:
            headings[0] = GIVEN_HEADING_RAD
        mass, inertia = paper.mass_stddev_kg / chain.masses, paper.inertia_stddev_kg_m2 / chain.inertias
        return np.concatenate([mass, inertia, headings, np.full(3, initial.rate_stddev_rad_s)])

    def thrust(self) -> Array:
        """(STEPS + 1, 3) from each instant to the next."""
        phase = (np.arange(STEPS + 1) - 20) % 30
        on = (np.arange(STEPS + 1) >= 20) & (phase < 10)
        thrust = np.where(on, PUSH_N, 0.0)[:, None] * np.ones(3)
        if self.off is not None:
            thrust[:, self.off] = 0.0
        return thrust


class Runs(NamedTuple):
    """S runs at K instants, of a chain of N links.

    Attributes
    ----------
    error
        (S, K, 4N) estimate minus truth in the filter's own state: logarithms first; NaN after a breakdown.
    stddev
        (S, K, 4N) as the filter states it.
    nees
        (S, K).
    mass_error_kg, inertia_error_kg_m2, mass_stddev_kg
        (S, K, N).
    mean_heading_stddev_rad
        (S, K) of the mean of the headings.
    failed
        Runs that broke down.
    """

    error: Array
    stddev: Array
    nees: Array
    mass_error_kg: Array
    inertia_error_kg_m2: Array
    mass_stddev_kg: Array
    mean_heading_stddev_rad: Array
    failed: int


def run(case: Case, seeds: int) -> Runs:
    """So many runs, from seed 0 on."""
    shape = seeds, STEPS + 1
    out = Runs(
        *(np.full((*shape, 12), np.nan) for _ in range(2)),
        np.full(shape, np.nan),
        *(np.full((*shape, 3), np.nan) for _ in range(3)),
        np.full(shape, np.nan),
        0,
    )
    tracker, failed = PaperFilter(case.configuration, dead_reckoned=False), 0
    for seed in range(seeds):
        try:
            _run(case, tracker, np.random.default_rng(seed), seed, out)
        except np.linalg.LinAlgError:
            failed += 1
    return out._replace(failed=failed)


def bound(case: Case) -> Array:
    """(K, 3) standard deviations of the masses that no filter can be surer than, kg: Cramer and Rao's, with noise."""
    configuration = case.configuration
    chain, paper = configuration.chain, configuration.paper
    model = PaperFilter(configuration, dead_reckoned=False).model
    thrust, at = case.thrust(), blocks(3)
    states = packed(np.zeros((STEPS + 1, 3)), 0.0, chain.masses, chain.inertias)
    motion, reciprocal = np.zeros((6, 1)), 1.0 / np.concatenate([chain.masses, chain.inertias])
    for k in range(STEPS):
        propagate(model, np.concatenate([reciprocal, thrust[k]])[:, None], motion, STEP_S, STEP_S)
        states[k + 1, at.theta], states[k + 1, at.omega] = motion[:3, 0], motion[3:, 0]
    own = case.prior()
    scale = np.concatenate([chain.masses, chain.inertias, np.ones(6)])
    masses, inertias, headings, rates = np.split(own * scale, 4)
    prior, density = np.zeros(states.shape[1]), np.zeros(states.shape[1])
    prior[at.theta], prior[at.omega], prior[at.mass], prior[at.inertia] = headings, rates, masses, inertias
    density[at.theta], density[at.omega] = paper.heading_noise_rad, paper.rate_noise_rad_s
    density[at.mass], density[at.inertia] = paper.mass_noise_kg, paper.inertia_noise_kg_m2
    observed = ObservedChain(
        model, paper.accelerometer_stddev_m_s2, paper.gyro_stddev_rad_s, ImuModel[case.imu_model.upper()]
    )
    path = Trajectory(STEP_S * np.arange(STEPS + 1), states, thrust)
    return predict(observed, path, prior, density / np.sqrt(STEP_S)).stddev[:, at.mass]


def _run(case: Case, tracker: PaperFilter, rng: np.random.Generator, seed: int, out: Runs) -> None:
    configuration, model, thrust = case.configuration, tracker.model, case.thrust()
    chain, paper, prior = configuration.chain, configuration.paper, case.prior()
    physical = case.imu_model == "physical"
    noise = np.tile([paper.accelerometer_stddev_m_s2] * 2 + [paper.gyro_stddev_rad_s], 3)
    process = np.concatenate(
        [
            paper.mass_noise_kg / chain.masses,
            paper.inertia_noise_kg_m2 / chain.inertias,
            np.full(3, paper.heading_noise_rad),
            np.full(3, paper.rate_noise_rad_s),
        ]
    )
    truth = np.concatenate([np.log(chain.masses), np.log(chain.inertias), np.zeros(6)])
    start, everything = truth + prior * rng.normal(size=12), np.arange(3)
    published = np.concatenate([start[6:], np.exp(start[:6])])
    scale = np.concatenate([np.ones(6), np.exp(start[:6])])
    moments = tracker.start(published, np.diag((np.concatenate([prior[6:], prior[:6]]) * scale) ** 2))
    for k in range(STEPS + 1):
        if k > 0:
            motion, given = truth[6:, None].copy(), np.concatenate([np.exp(-truth[:6]), thrust[k - 1]])[:, None]
            propagate(model, given, motion, STEP_S, 0.1 * STEP_S)
            truth[6:] = motion[:, 0]
            if case.matched:
                truth += process * rng.normal(size=12)
            moments = tracker.predict(moments, thrust[k - 1], STEP_S)
            readings, given = np.empty((9, 1)), np.concatenate([np.exp(-truth[:6]), thrust[k]])[:, None]
            read_imus(physical, model, given, truth[6:, None].copy(), readings)
            measured = (readings[:, 0] + noise * rng.normal(size=9)).reshape(3, 3)
            moments, _ = tracker.update(moments, thrust[k], everything, measured)
        error = moments.mean - truth
        out.error[seed, k], out.stddev[seed, k] = error, np.sqrt(np.diag(moments.covariance))
        out.nees[seed, k] = error @ np.linalg.solve(moments.covariance, error)
        values = np.exp(moments.mean[:6])
        apart = values - np.exp(truth[:6])
        out.mass_error_kg[seed, k], out.inertia_error_kg_m2[seed, k] = apart[:3], apart[3:]
        out.mass_stddev_kg[seed, k] = values[:3] * out.stddev[seed, k, :3]
        out.mean_heading_stddev_rad[seed, k] = np.sqrt(moments.covariance[6:9, 6:9].mean())
