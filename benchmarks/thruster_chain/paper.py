"""The paper's filter of a three-link thruster chain: runs of it, and whether what it states is true."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from benchmarks.measuring import Array, Row, rms, row
from onboard_estimation.filtering.consistency import coverage
from thruster_chain_estimation.estimators.paper_filter import PaperFilter
from thruster_chain_estimation.judging.information import ObservedChain, Trajectory, blocks, packed, predict
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration
from thruster_chain_estimation.model.dynamics import propagate, read_imus

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

    def deviations(self) -> tuple[Array, Array]:
        """Of the initial state, and of the process noise of a step: masses, inertias, headings, rates, (12,) each."""
        configuration = self.configuration
        paper, initial = configuration.paper, configuration.initial
        first = paper.mass_stddev_kg, paper.inertia_stddev_kg_m2, initial.heading_stddev_rad, initial.rate_stddev_rad_s
        noise = paper.mass_noise_kg, paper.inertia_noise_kg_m2, paper.heading_noise_rad, paper.rate_noise_rad_s
        prior = np.repeat(first, 3)
        if self.heading_given:
            prior[6] = GIVEN_HEADING_RAD
        return prior, np.repeat(noise, 3)

    @property
    def scale(self) -> Array:
        """(12,) of what the filter has logarithms of: masses and inertias."""
        chain = self.configuration.chain
        return np.concatenate([chain.masses, chain.inertias, np.ones(6)])

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
    learned_error, learned_stddev
        (S, K, 2N) of masses in kg and inertias in kg m^2.
    mean_heading_stddev_rad
        (S, K) of the mean of the headings.
    failed
        Runs that broke down.
    """

    error: Array
    stddev: Array
    nees: Array
    learned_error: Array
    learned_stddev: Array
    mean_heading_stddev_rad: Array
    failed: int


def run_case(case: Case, seeds: int) -> Runs:
    """So many runs, from seed 0 on."""
    columns = (12,), (12,), (), (6,), (6,), ()
    arrays = [np.full((seeds, STEPS + 1, *one), np.nan) for one in columns]
    tracker, failed = PaperFilter(case.configuration, dead_reckoned=False), 0
    for seed in range(seeds):
        try:
            _run(case, tracker, np.random.default_rng(seed), [one[seed] for one in arrays])
        except np.linalg.LinAlgError:
            failed += 1
    return Runs(*arrays, failed)


def bound(case: Case) -> Array:
    """(K, 3) standard deviations of the masses that no filter can be surer than, kg: Cramer and Rao's, with noise."""
    configuration = case.configuration
    chain, paper = configuration.chain, configuration.paper
    links = PaperFilter(configuration, dead_reckoned=False).links
    thrust, at = case.thrust(), blocks(3)
    states = packed(np.zeros((STEPS + 1, 3)), 0.0, chain.masses, chain.inertias)
    motion, reciprocal = np.zeros((6, 1)), 1.0 / case.scale[:6]
    for k in range(STEPS):
        propagate(links, np.concatenate([reciprocal, thrust[k]])[:, None], motion, STEP_S, STEP_S)
        states[k + 1, at.theta], states[k + 1, at.omega] = motion[:3, 0], motion[3:, 0]
    prior, density = (np.zeros(states.shape[1]) for _ in range(2))
    for values, own in zip((prior, density), case.deviations(), strict=True):
        values[at.mass], values[at.inertia], values[at.theta], values[at.omega] = np.split(own, 4)
    imus = paper.accelerometer_stddev_m_s2, paper.gyro_stddev_rad_s, case.imu_model == "physical"
    path = Trajectory(STEP_S * np.arange(STEPS + 1), states, thrust)
    return predict(ObservedChain(links, *imus), path, prior, density / np.sqrt(STEP_S))[0][:, at.mass]


def _run(case: Case, tracker: PaperFilter, rng: np.random.Generator, out: list[Array]) -> None:
    links, thrust, paper, scale = tracker.links, case.thrust(), case.configuration.paper, case.scale
    prior, process = (one / scale for one in case.deviations())
    noise = np.tile([paper.accelerometer_stddev_m_s2] * 2 + [paper.gyro_stddev_rad_s], 3)
    truth = np.concatenate([np.log(scale[:6]), np.zeros(6)])
    start, everything = truth + prior * rng.normal(size=12), np.arange(3)
    published = np.concatenate([start[6:], np.exp(start[:6])])
    stddev = np.concatenate([prior[6:], prior[:6] * published[6:]])
    moments = tracker.start(published, np.diag(stddev**2))

    def given(k: int) -> Array:
        return np.concatenate([np.exp(-truth[:6]), thrust[k]])[:, None]

    for k in range(STEPS + 1):
        if k > 0:
            motion = truth[6:, None].copy()
            propagate(links, given(k - 1), motion, STEP_S, 0.1 * STEP_S)
            truth[6:] = motion[:, 0]
            if case.matched:
                truth += process * rng.normal(size=12)
            moments = tracker.predict(moments, thrust[k - 1], STEP_S)
            readings = np.empty((9, 1))
            read_imus(case.imu_model == "physical", links, given(k), truth[6:, None].copy(), readings)
            measured = (readings[:, 0] + noise * rng.normal(size=9)).reshape(3, 3)
            moments, _ = tracker.update(moments, thrust[k], everything, measured)
        error, stddev, values = moments.mean - truth, np.sqrt(np.diag(moments.covariance)), np.exp(moments.mean[:6])
        nees, mean_heading = error @ np.linalg.solve(moments.covariance, error), moments.covariance[6:9, 6:9].mean()
        found = error, stddev, nees, values - np.exp(truth[:6]), values * stddev[:6], np.sqrt(mean_heading)
        for array, value in zip(out, found, strict=True):
            array[k] = value


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


def nees_range(runs: Runs) -> tuple[float, float]:
    """Least and largest mean over the runs of any instant after the start."""
    mean = np.nanmean(runs.nees[:, 1:], axis=0)
    return float(mean.min()), float(mean.max())


def covered(runs: Runs) -> tuple[float, float]:
    """Shares of all errors within one and three of the standard deviations that are stated."""
    return coverage(runs.error, runs.stddev, 1.0), coverage(runs.error, runs.stddev, 3.0)


def converged(runs: Runs) -> int:
    """Runs whose masses and differences of headings are at 0.89 s what they are said to converge to."""
    between = np.abs(np.diff(runs.error[:, AT_089, 6:9], axis=1)).max(axis=1)
    mass = np.abs(runs.learned_error[:, AT_089, :3]).max(axis=1)
    return int(np.sum((between < CONVERGED_ANGLE_RAD) & (mass < CONVERGED_MASS_KG)))


def errors(runs: Runs) -> tuple[float, float, float]:
    """RMS over runs and links at 0.89 s, of headings (rad), masses (kg) and inertias (kg m^2)."""
    learned = runs.learned_error[:, AT_089]
    return rms(runs.error[:, AT_089, 6:9]), rms(learned[:, :3]), rms(learned[:, 3:])


def _errors(runs: Runs) -> Row:
    angle, mass, inertia = errors(runs)
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
    number, (angle, mass, _) = converged(runs), errors(runs)
    figure = f"{number} of {len(runs.nees)} runs converge: headings' RMSE {angle:.4f} rad, masses' {mass:.4f} kg"
    return row("`physical`, heading given at the start", figure, "all", number == len(runs.nees))


def _heading(runs: Runs) -> Row:
    start, end = (float(np.nanmean(runs.mean_heading_stddev_rad[:, k])) for k in (0, AT_089))
    actual = rms(runs.error[:, AT_089, 6:9].mean(axis=1))
    case = "`physical`, heading not given: the mean heading is unobservable"
    figure = f"stated {end:.3f} rad at 0.89 s, {start:.3f} rad before; error {actual:.3f} rad"
    return row(case, figure, "not below the start's", end >= start)


def _unpushed(runs: Runs) -> Row:
    stated = float(np.nanmean(runs.learned_stddev[:, AT_089, 1]))
    figure = f"{stated:.3f} kg, error {rms(runs.learned_error[:, AT_089, 1]):.3f} kg"
    case = "thruster 2 off, `paper`: standard deviation of mass 2"
    return row(case, figure, f">= {SECOND_MASS_KG:g} kg", stated >= SECOND_MASS_KG)


def _as_predicted(runs: Runs, limit: Array) -> Row:
    stated = np.nanmean(runs.learned_stddev[:, AT_089, :3], axis=0)
    ratio = stated / limit[AT_089]
    figure = f"{', '.join(f'{one:.2f}' for one in ratio)}; mass 2: {stated[1]:.4f} kg"
    met = (ratio < NEAR_BOUND).all() and (ratio > 1.0 / NEAR_BOUND).all()
    case = "thruster 2 off, `physical`: standard deviations of the masses by the least possible ones"
    return row(case, figure, f"1 / {NEAR_BOUND:g} to {NEAR_BOUND:g}", met)
