"""The paper's filter of a three-link thruster chain: runs of it, and whether what it states is true."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.timing import row
from thruster_chain_estimation.estimators.paper_filter import PaperFilter
from thruster_chain_estimation.judging.information import ObservedChain, Trajectory, blocks, packed, predict
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration
from thruster_chain_estimation.model.dynamics import propagate, read_imus

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


def run_case(case: Case, seeds: int) -> Runs:
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
    links = PaperFilter(configuration, dead_reckoned=False).links
    thrust, at = case.thrust(), blocks(3)
    states = packed(np.zeros((STEPS + 1, 3)), 0.0, chain.masses, chain.inertias)
    motion, reciprocal = np.zeros((6, 1)), 1.0 / np.concatenate([chain.masses, chain.inertias])
    for k in range(STEPS):
        propagate(links, np.concatenate([reciprocal, thrust[k]])[:, None], motion, STEP_S, STEP_S)
        states[k + 1, at.theta], states[k + 1, at.omega] = motion[:3, 0], motion[3:, 0]
    own = case.prior()
    scale = np.concatenate([chain.masses, chain.inertias, np.ones(6)])
    masses, inertias, headings, rates = np.split(own * scale, 4)
    prior, density = np.zeros(states.shape[1]), np.zeros(states.shape[1])
    prior[at.theta], prior[at.omega], prior[at.mass], prior[at.inertia] = headings, rates, masses, inertias
    density[at.theta], density[at.omega] = paper.heading_noise_rad, paper.rate_noise_rad_s
    density[at.mass], density[at.inertia] = paper.mass_noise_kg, paper.inertia_noise_kg_m2
    imus = paper.accelerometer_stddev_m_s2, paper.gyro_stddev_rad_s, case.imu_model == "physical"
    path = Trajectory(STEP_S * np.arange(STEPS + 1), states, thrust)
    return predict(ObservedChain(links, *imus), path, prior, density / np.sqrt(STEP_S))[0][:, at.mass]


def _run(case: Case, tracker: PaperFilter, rng: np.random.Generator, seed: int, out: Runs) -> None:
    configuration, links, thrust = case.configuration, tracker.links, case.thrust()
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
            propagate(links, given, motion, STEP_S, 0.1 * STEP_S)
            truth[6:] = motion[:, 0]
            if case.matched:
                truth += process * rng.normal(size=12)
            moments = tracker.predict(moments, thrust[k - 1], STEP_S)
            readings, given = np.empty((9, 1)), np.concatenate([np.exp(-truth[:6]), thrust[k]])[:, None]
            read_imus(physical, links, given, truth[6:, None].copy(), readings)
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


Row = dict[str, Any]

SEEDS, CONSISTENCY_SEEDS = 100, 400
ANGLE_RAD, MASS_KG, INERTIA_KG_M2 = 0.004, 0.003, 3e-5
NEES_BAND = 11.0, 14.5
COVERED_1, COVERED_3 = (0.6, 0.8), 0.985
SECOND_MASS_KG = 0.06
NEAR_BOUND = 1.25
CONVERGED_ANGLE_RAD, CONVERGED_MASS_KG = 0.03, 0.03


def thruster_chain_paper(quick: bool) -> list[Row]:
    """The paper's filter of a three-link thruster chain: errors, consistency and failures over a hundred seeds.

    What the paper shows for one run (its figure 4), and what it does not show: the model of a real accelerometer, a
    thruster that is off, and whether stated deviations are true. NEES are of the filter's own 12 states. The mean NEES
    of a perfect filter over 100 runs has a standard deviation of 0.5 about 12, so that in 100 instants it falls below
    11 now and then: consistency is judged over four times as many.
    """
    seeds, many = (10, 10) if quick else (SEEDS, CONSISTENCY_SEEDS)
    paper, matched = run_case(Case(), seeds), run_case(Case(matched=True), many)
    given = run_case(Case("physical", heading_given=True), seeds)
    given_matched = run_case(Case("physical", matched=True, heading_given=True), many)
    unknown = run_case(Case("physical"), seeds)
    off = run_case(Case(off=1, matched=True), many)
    physical_off_case = Case("physical", off=1, matched=True)
    physical_off, limit = run_case(physical_off_case, many), bound(physical_off_case)
    return [
        _errors(paper),
        _consistency("consistency with matched noise, `paper`", matched),
        _convergence(given),
        _consistency("consistency with matched noise, `physical`, heading given", given_matched),
        _heading(unknown),
        _unpushed(off),
        _consistency("consistency with matched noise, `paper`, thruster 2 off", off),
        _as_predicted(physical_off, limit),
        _consistency("consistency with matched noise, `physical`, thruster 2 off", physical_off),
    ]


def root_mean_square(values: Array) -> float:
    """Over everything that is a number."""
    return float(np.sqrt(np.nanmean(values**2)))


def nees_range(runs: Runs) -> tuple[float, float]:
    """Least and largest mean over the runs of any instant after the start."""
    mean = np.nanmean(runs.nees[:, 1:], axis=0)
    return float(mean.min()), float(mean.max())


def covered(runs: Runs) -> tuple[float, float]:
    """Shares of all errors within one and three of the standard deviations that are stated."""
    sigmas = np.abs(runs.error / runs.stddev)
    sigmas = sigmas[np.isfinite(sigmas)]
    return float(np.mean(sigmas < 1.0)), float(np.mean(sigmas < 3.0))


def converged(runs: Runs) -> int:
    """Runs whose masses and differences of headings are at 0.89 s what they are said to converge to."""
    headings = runs.error[:, AT_089, 6:9]
    between = np.abs(np.diff(headings, axis=1)).max(axis=1)
    mass = np.abs(runs.mass_error_kg[:, AT_089]).max(axis=1)
    return int(np.sum((between < CONVERGED_ANGLE_RAD) & (mass < CONVERGED_MASS_KG)))


def _errors(runs: Runs) -> Row:
    angle = root_mean_square(runs.error[:, AT_089, 6:9])
    mass, inertia = (root_mean_square(one[:, AT_089]) for one in (runs.mass_error_kg, runs.inertia_error_kg_m2))
    figure = f"RMSE {angle:.4f} rad, {mass:.4f} kg, {inertia:.2g} kg m^2; {runs.failed} failed"
    met = angle <= ANGLE_RAD and mass <= MASS_KG and inertia <= INERTIA_KG_M2 and runs.failed == 0
    target = f"<= {ANGLE_RAD:g}; {MASS_KG:g}; {INERTIA_KG_M2:.0e}; 0"
    return row(f"the paper's case at 0.89 s, `paper`, {len(runs.nees)} seeds", figure, target, met)


def _consistency(name: str, runs: Runs) -> Row:
    (least, most), (one, three) = nees_range(runs), covered(runs)
    few_least, few_most = nees_range(runs._replace(nees=runs.nees[:SEEDS]))
    figure = f"mean NEES {least:.1f} to {most:.1f}, {np.nanmean(runs.nees[:, 1:]):.2f} over all instants; "
    figure += f"1 sigma {one:.2f}, 3 sigma {three:.4f}; the first {SEEDS} seeds alone {few_least:.2f} to {few_most:.1f}"
    target = f"{NEES_BAND[0]:g} to {NEES_BAND[1]:g}; {COVERED_1[0]:g} to {COVERED_1[1]:g}; >= {COVERED_3:g}"
    held = COVERED_1[0] <= one <= COVERED_1[1] and three >= COVERED_3
    met = NEES_BAND[0] <= least and most <= NEES_BAND[1] and held
    return row(f"{name}, {len(runs.nees)} seeds", figure, target, met)


def _convergence(runs: Runs) -> Row:
    number, mass = converged(runs), root_mean_square(runs.mass_error_kg[:, AT_089])
    figure = f"{number} of {len(runs.nees)} runs converge: headings' RMSE "
    figure += f"{root_mean_square(runs.error[:, AT_089, 6:9]):.4f} rad, masses' {mass:.4f} kg"
    return row("`physical`, heading given at the start", figure, "all", number == len(runs.nees))


def _heading(runs: Runs) -> Row:
    start, end = (float(np.nanmean(runs.mean_heading_stddev_rad[:, k])) for k in (0, AT_089))
    actual = float(np.sqrt(np.nanmean(runs.error[:, AT_089, 6:9].mean(axis=1) ** 2)))
    case = "`physical`, heading not given: the mean heading is unobservable"
    figure = f"stated {end:.3f} rad at 0.89 s, {start:.3f} rad before; error {actual:.3f} rad"
    return row(case, figure, "not below the start's", end >= start)


def _unpushed(runs: Runs) -> Row:
    stated = float(np.nanmean(runs.mass_stddev_kg[:, AT_089, 1]))
    figure = f"{stated:.3f} kg, error {root_mean_square(runs.mass_error_kg[:, AT_089, 1]):.3f} kg"
    case = "thruster 2 off, `paper`: standard deviation of mass 2"
    return row(case, figure, f">= {SECOND_MASS_KG:g} kg", stated >= SECOND_MASS_KG)


def _as_predicted(runs: Runs, limit: Array) -> Row:
    stated = np.nanmean(runs.mass_stddev_kg[:, AT_089], axis=0)
    ratio = stated / limit[AT_089]
    figure = f"{', '.join(f'{one:.2f}' for one in ratio)}; mass 2: {stated[1]:.4f} kg"
    met = (ratio < NEAR_BOUND).all() and (ratio > 1.0 / NEAR_BOUND).all()
    case = "thruster 2 off, `physical`: standard deviations of the masses by the least possible ones"
    return row(case, figure, f"1 / {NEAR_BOUND:g} to {NEAR_BOUND:g}", met)
