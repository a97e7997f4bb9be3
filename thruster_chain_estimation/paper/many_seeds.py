"""The paper's filter over many seeds: errors and bounds, consistency, a thruster that is off, designed thrusts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from onboard_estimation.base.measurement import Vector
from onboard_estimation.contract.reproduced import Item
from onboard_estimation.contract.trained import ReportTable
from thruster_chain_estimation.judging.thrust_design import design
from thruster_chain_estimation.paper.runs import AT_089, COVERED_3, DURATION_S, INSTANTS, Case, Runs, outcome, run_case

FEW_SEEDS = 10
SMALLER = 95.0
"""Per cent of a deviation or less is smaller."""
NEAR_BOUND = 1.25
"""Stated deviations within this factor of the least possible ones are said to be near them."""
CONVERGED = 0.004, 0.003, 3e-5
"""RMSE of link angles (rad), masses (kg) and inertias (kg m^2) that are to be reached at 0.89 s."""
NEES_SIGMAS = 5.0
"""Of the mean of that many chi-squared numbers, within which mean NEES of runs with matched noise are to be always."""
_KINDS = ("link angles [rad]", "angular velocities [rad/s]", "masses [kg]", "inertias [kg m^2]")
LETTER, ITERATED = "paper's filter, one correction", "ours (`paper_ukf`), iterated"


def bound_item(case: Case, letter: Runs, iterated: Runs) -> Item:
    """Section VI: errors converge, and the covariance approaches the Cramer-Rao lower bound."""
    least = case.bound()[AT_089].reshape(4, -1).mean(axis=1)
    converged = letter.rmse(AT_089) < np.append(CONVERGED, case.base.paper.gyro_stddev_rad_s)[[0, 3, 1, 2]]
    headings = (
        "",
        "prior",
        "RMSE, one correction",
        "RMSE, iterated",
        "stated, one correction",
        "stated, iterated",
        "least possible",
    )
    at = [of(AT_089) for of in (letter.rmse, iterated.rmse, letter.stated, iterated.stated)]
    columns = [letter.stated(0), *at, least]
    rows = tuple((kind, *(f"{one[row]:.2g}" for one in columns)) for row, kind in enumerate(_KINDS))
    near = letter.stated(AT_089) / least
    because = (
        f"corrected once, {letter.failed} of {len(letter.nees)} runs fail, RMSE of "
        f"{', '.join(f'{one:.2g}' for one in letter.rmse(AT_089))} (rad, rad/s, kg, kg m^2) at 0.89 s, the end of the "
        f"third pulse; stated deviations {near.min():.2f} to {near.max():.2f} times the least possible ones"
    )
    came_out = outcome(
        bool(converged.all()) and not letter.failed,
        bool((near < NEAR_BOUND).all()),
        bool((near > 1.0 / NEAR_BOUND).all()),
    )
    title = f"three links, pulses of 1 N, IMUs of (32), {len(letter.nees)} seeds from 0, at 0.89 s"
    return Item(
        "Section VI-B", "errors converge, deviations approach the Cramer-Rao bound", came_out, because,
        (ReportTable(title, headings, rows, headings[1:]),),
    )  # fmt: skip


def consistency_item(case: partial[Case], seeds: int) -> Item:
    """Whether deviations are true, where the truth has the process noise that the filter reckons with."""
    at = "at 0.89 s"
    counts = ("mean NEES, least", "mean NEES, largest", "within 1 sigma", "within 3 sigma", "failed")
    angles = (f"mean heading {at}, stated [rad]", f"RMSE of mean heading {at} [rad]")
    headings = ("", *counts, *angles, f"RMSE of masses {at} [kg]")
    kinds = {
        f"{LETTER}": case(iterated=False, matched=True),
        f"{ITERATED}": case(matched=True),
        f"{ITERATED}, IMUs on links, first heading given": case("physical", matched=True, heading_given=True),
        f"{ITERATED}, IMUs on links": case("physical", matched=True),
    }
    rows, held, found = [], [], []
    for name, one in kinds.items():
        runs = run_case(one, seeds)
        nees, size = np.nanmean(runs.nees[:, 1:], axis=0), runs.error.shape[2]
        three = runs.covered(3.0)
        consistent = bool(np.abs(nees - size).max() < NEES_SIGMAS * np.sqrt(2.0 * size / seeds))
        held.append(consistent and three > COVERED_3)
        found.append(nees)
        shares = f"{runs.covered(1.0):.2f}", f"{three:.3f}"
        mean_heading = np.sqrt(np.nanmean(runs.error[:, AT_089, : size // 4].mean(axis=1) ** 2))
        further = np.nanmean(runs.mean_heading_stddev_rad[:, AT_089]), mean_heading, runs.rmse(AT_089)[2]
        counted = f"{nees.min():.1f}", f"{nees.max():.1f}", *shares, str(runs.failed)
        rows.append((name, *counted, *(f"{number:.2g}" for number in further)))
    because = (
        f"the paper's filter has a mean NEES of {found[0].max():.0f} where {size} is right, "
        f"{found[0].argmax() + 1} steps after the start, by the first push, where readings bend most: corrected once, "
        f"it is too sure of itself; iterated {found[1].max():.1f} at most. With IMUs on links the mean heading stays "
        "as unknown as it was"
    )
    table = ReportTable(
        f"process noise of Table IV in the truth, {seeds} seeds, {size} states", headings, (*rows,), headings[1:]
    )
    return Item("Section VI-A", "the filter's deviations are true", outcome(held[0], held[1]), because, (table,))


def off_item(case: partial[Case], seeds: int) -> Item:
    """Thruster 2 off: where condition 1 fails, its mass stays unknown to the paper's IMUs, not to IMUs on links."""
    headings = (
        "deviation and error of mass 2 at 0.89 s [kg]",
        "stated",
        "RMSE",
        "Cramer-Rao, linearised",
        "within 3 sigma",
    )
    rows, stated = [], []
    for name, one in (
        ("all thrusters on, IMUs of (32)", case(matched=True)),
        ("thruster 2 off, IMUs of (32)", case(off=1, matched=True)),
        ("thruster 2 off, IMUs on links", case("physical", off=1, matched=True)),
    ):
        runs, at = run_case(one, seeds), 2 * one.base.chain.count + 1
        stated.append(float(np.nanmean(runs.stddev[:, AT_089, at])))
        error = float(np.sqrt(np.nanmean(runs.error[:, AT_089, at] ** 2)))
        numbers = stated[-1], error, one.bound()[AT_089, at]
        rows.append((name, *(f"{number:.2g}" for number in numbers), f"{runs.covered(3.0):.3f}"))
    prior = case().assumed.prior_stddev[2 * case().base.chain.count + 1]
    because = (
        f"the deviation of mass 2 stays at {stated[1]:.2g} kg of {prior:g} before ({stated[0]:.2g} with it on). An "
        f"accelerometer on the link tells it nevertheless ({stated[2]:.2g}), by the joints' forces, not in (32)"
    )
    table = ReportTable(f"iterated, matched noise, {seeds} seeds", headings, tuple(rows), headings[1:])
    came_out = outcome(stated[1] > 0.5 * prior and stated[0] < 0.05 * prior)
    return Item("Section V-D", "without a thrust its link's mass is unknown", came_out, because, (table,))


def designed_item(case: partial[Case]) -> Item:
    """Observability-optimal thrusts, which section VI-B leaves as outlook, against the square waves."""
    of_each = ("square waves", "designed")
    headings = ("", *(f"{what}, {one}" for what in ("predicted", "stated", "RMSE") for one in of_each))
    rows, smaller = [], []
    for name, imus in (("IMUs of (32)", "paper"), ("IMUs on links", "physical")):
        plain = case(imus, matched=True)
        found = design(plain.configuration, "paper_ukf", DURATION_S - plain.base.initial.rest_s)
        at = len(found.thrust_n) - 1
        thrust = np.vstack([found.thrust_n, np.zeros((INSTANTS - 1 - at, plain.base.chain.count))])
        runs = {AT_089: run_case(plain, FEW_SEEDS), at: run_case(replace(plain, thrust_n=thrust), FEW_SEEDS)}
        predicted = [one.reshape(2, -1).mean(axis=1) for one in (found.waves, found.designed)]
        stated, error = ([of(one, k)[2:] for k, one in runs.items()] for of in (Runs.stated, Runs.rmse))
        pairs = np.array([predicted, stated, error])
        smaller.append(pairs[:, 1] / pairs[:, 0])
        for row, kind in enumerate(_KINDS[2:]):
            rows.append((f"{name}: {kind}", *(f"{one:.2g}" for one in pairs[:, :, row].ravel())))
    (masses, inertias), (also_masses, also_inertias) = (100.0 * one.T for one in smaller)
    because = (
        "of the deviations and errors after the square waves (predicted, stated, RMSE), at equal effort: IMUs of (32) "
        f"masses {_shares(masses)}, inertias {_shares(inertias)} %; IMUs on links {_shares(also_masses)} and "
        f"{_shares(also_inertias)} %. Masses are at the noise of single readings, as the process noise has it"
    )
    title = f"{found.pulses} pulses each, at the end of the last; matched noise, {FEW_SEEDS} seeds, means over links"
    table = ReportTable(title, headings, tuple(rows), headings[1:])
    came_out = outcome(*(bool((one[:2] < SMALLER).all()) for one in (inertias, also_masses, also_inertias, masses)))
    return Item("Section VI-B, outlook", "observability-optimal thrusts", came_out, because, (table,))


def _shares(values: Vector) -> str:
    return ", ".join(f"{one:.0f}" for one in values)
