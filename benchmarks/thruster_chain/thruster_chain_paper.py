"""The paper's filter of a three-link thruster chain: errors, consistency and failures over a hundred seeds and more.

What the paper shows for one run (its figure 4), and what it does not show: the model of a real accelerometer, a
thruster that is off, and whether stated deviations are true. NEES are of the filter's own 12 states. The mean NEES of
a perfect filter over 100 runs has a standard deviation of 0.5 about 12, so that in 100 instants it falls below 11 now
and then: consistency is judged over four times as many.

    python -m benchmarks --only thruster_chain_paper
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.thruster_chain.thruster_chain_runs import AT_089, Case, Runs, bound
from benchmarks.thruster_chain.thruster_chain_runs import run as run_case

Row = dict[str, Any]
Array = NDArray[np.float64]

SEEDS, CONSISTENCY_SEEDS = 100, 400
ANGLE_RAD, MASS_KG, INERTIA_KG_M2 = 0.004, 0.003, 3e-5
NEES_BAND = 11.0, 14.5
COVERED_1, COVERED_3 = (0.6, 0.8), 0.985
SECOND_MASS_KG = 0.06
NEAR_BOUND = 1.25
CONVERGED_ANGLE_RAD, CONVERGED_MASS_KG = 0.03, 0.03


def run(quick: bool) -> list[Row]:
    """All rows."""
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
    mass, inertia = (
        root_mean_square(all_of_them[:, AT_089]) for all_of_them in (runs.mass_error_kg, runs.inertia_error_kg_m2)
    )
    return {
        "case": f"the paper's case at 0.89 s, `paper`, {len(runs.nees)} seeds",
        "figure": f"RMSE {angle:.4f} rad, {mass:.4f} kg, {inertia:.2g} kg m^2; {runs.failed} failed",
        "target": f"<= {ANGLE_RAD:g}; {MASS_KG:g}; {INERTIA_KG_M2:.0e}; 0",
        "met": angle <= ANGLE_RAD and mass <= MASS_KG and inertia <= INERTIA_KG_M2 and runs.failed == 0,
    }


def _consistency(name: str, runs: Runs) -> Row:
    (least, most), (one, three) = nees_range(runs), covered(runs)
    few_least, few_most = nees_range(runs._replace(nees=runs.nees[:SEEDS]))
    return {
        "case": f"{name}, {len(runs.nees)} seeds",
        "figure": f"mean NEES {least:.1f} to {most:.1f}, {np.nanmean(runs.nees[:, 1:]):.2f} over all instants; "
        f"1 sigma {one:.2f}, 3 sigma {three:.4f}; the first {SEEDS} seeds alone {few_least:.2f} to {few_most:.1f}",
        "target": f"{NEES_BAND[0]:g} to {NEES_BAND[1]:g}; {COVERED_1[0]:g} to {COVERED_1[1]:g}; >= {COVERED_3:g}",
        "met": NEES_BAND[0] <= least
        and most <= NEES_BAND[1]
        and COVERED_1[0] <= one <= COVERED_1[1]
        and three >= COVERED_3,
    }


def _convergence(runs: Runs) -> Row:
    number = converged(runs)
    return {
        "case": "`physical`, heading given at the start",
        "figure": f"{number} of {len(runs.nees)} runs converge: headings' RMSE "
        f"{root_mean_square(runs.error[:, AT_089, 6:9]):.4f} rad, masses' "
        f"{root_mean_square(runs.mass_error_kg[:, AT_089]):.4f} kg",
        "target": "all",
        "met": number == len(runs.nees),
    }


def _heading(runs: Runs) -> Row:
    start, end = (float(np.nanmean(runs.mean_heading_stddev_rad[:, k])) for k in (0, AT_089))
    actual = float(np.sqrt(np.nanmean(runs.error[:, AT_089, 6:9].mean(axis=1) ** 2)))
    return {
        "case": "`physical`, heading not given: the mean heading is unobservable",
        "figure": f"stated {end:.3f} rad at 0.89 s, {start:.3f} rad before; error {actual:.3f} rad",
        "target": "not below the start's",
        "met": end >= start,
    }


def _unpushed(runs: Runs) -> Row:
    stated = float(np.nanmean(runs.mass_stddev_kg[:, AT_089, 1]))
    return {
        "case": "thruster 2 off, `paper`: standard deviation of mass 2",
        "figure": f"{stated:.3f} kg, error {root_mean_square(runs.mass_error_kg[:, AT_089, 1]):.3f} kg",
        "target": f">= {SECOND_MASS_KG:g} kg",
        "met": stated >= SECOND_MASS_KG,
    }


def _as_predicted(runs: Runs, limit: Array) -> Row:
    stated = np.nanmean(runs.mass_stddev_kg[:, AT_089], axis=0)
    ratio = stated / limit[AT_089]
    return {
        "case": "thruster 2 off, `physical`: standard deviations of the masses by the least possible ones",
        "figure": f"{', '.join(f'{one:.2f}' for one in ratio)}; mass 2: {stated[1]:.4f} kg",
        "target": f"1 / {NEAR_BOUND:g} to {NEAR_BOUND:g}",
        "met": bool((ratio < NEAR_BOUND).all() and (ratio > 1.0 / NEAR_BOUND).all()),
    }
