"""The paper's tables and figures, its theorems, and what its text claims of its filter, made again.

Table I has symbols alone: there is nothing to make. What its figures show is printed as pictures; their claims are
those of section VI-B, and each is a criterion here. Runs of the simulation are of the same robot and noise with pulses
of 1 N, which the paper does not state, synchronous; the filter is `paper_ukf` corrected once
(`paper.iterated: false`), and as it is by default, iterated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.base.workers import all_of
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.reproduced import Item, Outcome, Paper, find_paper
from onboard_estimation.contract.trained import ReportTable
from onboard_estimation.filtering.consistency import coverage
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.options import JudgeSettings
from onboard_estimation.judging.side_by_side import side_by_side
from onboard_estimation.judging.simulated_bags import simulated_recording
from onboard_estimation.report.plots import SERIES, add_legend, panels_of
from thruster_chain_estimation.judging.information import assumed_chain, moved, packed
from thruster_chain_estimation.judging.observability import Conditions, observability, theorem_conditions
from thruster_chain_estimation.judging.thrust_design import design
from thruster_chain_estimation.model import space
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration
from thruster_chain_estimation.model.dynamics import propagate
from thruster_chain_estimation.paper.runs import AT_089, DURATION_S, INSTANTS, STEP_S, TIME_S, Runs, bound, run, told
from thruster_chain_estimation.robot import ROBOT
from thruster_chain_estimation.simulation.simulator import square_waves

SEEDS, MANY_SEEDS, FEW_SEEDS = 100, 400, 10
COVERED_3 = 0.985
"""Of errors within three standard deviations: from there on, these are taken to be true."""
SMALLER = 0.95
"""Share of a deviation; so much or less is smaller."""
NEAR_BOUND = 1.25
"""Stated deviations within this factor of the least possible ones are said to be near them."""
CONVERGED = 0.004, 0.003, 3e-5
"""RMSE of link angles (rad), masses (kg) and inertias (kg m^2) that are to be reached at 0.89 s."""
NEES_SIGMAS = 5.0
"""Of the mean of that many chi-squared numbers, within which mean NEES of runs with matched noise are to be always."""
STATES, NONE = 300, 1e-9
"""Of the theorems: states that are tried; a condition, or a row of F, below is zero."""
KINDS = ("link angles [rad]", "angular velocities [rad/s]", "masses [kg]", "inertias [kg m^2]")
LETTER, ITERATED = "paper's filter, one correction", "ours (`paper_ukf`), iterated"
ESTIMATORS = ("paper_ukf", "robust", "gyros")


def reproduce(
    configuration: ThrusterChainConfiguration, recordings: Mapping[str, LoadedRecording], quick: bool
) -> Iterator[Item]:
    """In the paper's order; of recordings the estimators side by side, see `Reproduced`."""
    if recordings:
        filters = {name: (configuration, name) for name in ESTIMATORS}
        yield side_by_side(ROBOT, filters, recordings, "Figure 4")
        return
    paper, waves = find_paper("multilink"), square_waves(configuration.chain.count)(TIME_S)
    seeds, many = (FEW_SEEDS, FEW_SEEDS) if quick else (SEEDS, MANY_SEEDS)
    yield _imus(configuration, seeds)
    yield from _theorems(configuration)
    yield _off(configuration, waves, many)
    ours = _parameters(configuration)
    yield _equal(paper, "Section VI", "the run that is simulated", ours)
    yield _equal(paper, "Table II", "parameters of the robot", ours)
    yield _snapshots(paper, configuration, waves)
    yield _equal(paper, "Table III", "initial standard deviations", ours)
    yield _equal(paper, "Table IV", "process and measurement noise", ours)
    yield _consistency(configuration, waves, many)
    once = told(configuration, iterated=False)
    letter, iterated = (run(one, waves, seeds, matched=False) for one in (once, told(configuration)))
    yield _figure_4(paper, once, waves, letter, iterated)
    yield _bound(once, waves, letter, iterated)
    yield _designed(configuration, waves)


def _outcome(*held: bool) -> Outcome:
    """Of what a table or figure claims."""
    return "reproduced" if all(held) else "partly" if any(held) else "not reproduced"


def _table(title: str, headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> tuple[ReportTable]:
    return (ReportTable(title, headings, tuple(rows), headings[1:]),)


def _short(numbers: Iterable[float]) -> Iterator[str]:
    return (f"{one:.2g}" for one in numbers)


# What IMUs on links read.


def _imus(configuration: ThrusterChainConfiguration, seeds: int) -> Item:
    """Equation (32) is not what an accelerometer on a link reads: with that, the paper's filter, ours, and gyros."""
    physical = told(configuration, "physical", configuration.paper.iterated)
    kinds = {"paper_ukf, model (32)": (replace(physical, imu_model="paper"), "paper_ukf")}
    kinds |= {name: (physical, name) for name in ESTIMATORS}
    errors = ("link angles [deg]", "joint angles [deg]", "masses [%]", "inertias [%]")
    headings = ("estimator", *errors, "angles within 3 sigma", "masses, inertias within 3 sigma", "failed")
    rows, medians = [], {}
    for name, (known, estimator) in kinds.items():
        found = np.array(all_of(partial(_judged, known, estimator), range(seeds)))
        failed = np.isnan(found).all(axis=1)
        middle, sign = np.median(found[~failed], axis=0), np.repeat([1.0, -1.0], [4, 2])  # of shares the least is worst
        worst, medians[name] = sign * np.max(sign * found[~failed], axis=0), middle
        cells = (f"{one:.3g} ({far:.3g})" if np.isfinite(one) else "-" for one, far in zip(middle, worst, strict=True))
        rows.append((name, *cells, str(failed.sum())))
    shares = [medians[name][4] for name in list(kinds)[:2]]
    because = (
        "an accelerometer on a link also feels the joints' forces, and reads along the link's axes: with what it "
        f"reads, the filter of (32) has {100 * shares[0]:.0f} % of its angles within 3 sigma, with that of such an IMU "
        f"{100 * shares[1]:.0f} % (medians); the absolute heading is then not observed by any. After this second "
        f"masses are off by {medians['paper_ukf'][2]:.2g} %, of `robust`, which has to find lags and biases too, by "
        f"{medians['robust'][2]:.2g} %"
    )
    title = f"IMUs as they are on links, scenario `thrusters`, {DURATION_S:g} s, {seeds} seeds; medians (worst)"
    table = _table(title, headings, rows)
    return Item(
        "Section III", "what IMUs on links read, equation (32)", _outcome(shares[0] > COVERED_3), because, table
    )


def _judged(configuration: ThrusterChainConfiguration, estimator: str, seed: int) -> Vector:
    """Of a recording as a user judges one: RMSE of headings and joints, deg, of masses and inertias at the end, %;
    shares within three standard deviations of headings, and of masses and inertias. NaN where nothing is estimated."""
    recording = simulated_recording(ROBOT, configuration, "thrusters", "physical", DURATION_S, seed)
    try:
        parts = judge(ROBOT, configuration, estimator, recording, JudgeSettings(seed=seed)).parts
    except UserError:
        return np.full(6, np.nan)
    headings, learned = parts["headings"], [parts[name] for name in ("masses", "inertias") if name in parts]
    degrees = np.rad2deg(headings.error)
    errors = [degrees, np.diff(degrees, axis=1), *(100.0 * (one.error / one.truth)[-1] for one in learned)]
    covered = [coverage(headings.error, headings.stddev, 3.0), np.nan]
    if learned:
        both, stddev = (np.hstack([getattr(one, of) for one in learned]) for of in ("error", "stddev"))
        covered[1] = coverage(both, stddev, 3.0)
    rms = [float(np.sqrt(np.nanmean(one**2))) for one in errors]
    return np.array([*rms, *[np.nan] * (4 - len(rms)), *covered])


# Theorems.


def _theorems(configuration: ThrusterChainConfiguration) -> tuple[Item, Item]:
    """Theorem 3, whose proof overlooks a case, and Theorem 4: of drawn states, and last of that case."""
    assumed, chain, rng = assumed_chain(configuration, papers=True), configuration.chain, np.random.default_rng(0)
    n, psi, whole = chain.count, chain.thruster_angles, 4 * chain.count
    states, thrust = np.tile(assumed.design, (STATES + 1, 1)), np.full((STATES + 1, n), assumed.limit_n)
    states[:-1, : 2 * n] = rng.uniform(-np.pi, np.pi, (STATES, 2 * n))
    thrust[:-1] *= rng.uniform(0.2, 1.0, (STATES, n)) * (rng.uniform(size=(STATES, n)) < 0.8)
    states[-1] = packed(np.where(np.arange(n) % 2, 0.0, -psi), 0.0, chain.masses, chain.inertias)
    conditions = theorem_conditions(assumed.chain, states, thrust)
    met, turned = (np.asarray(one.all(axis=1)) for one in (conditions.met(NONE), conditions.turning > NONE))
    imus = (replace(assumed.chain, physical=physical) for physical in (False, True))
    rank, other = (observability(one, states, thrust, assumed.prior_stddev, letters=1).rank for one in imus)
    drawn = np.arange(len(states)) < STATES
    cases = {
        "both conditions hold of all links": drawn & met,
        "a condition fails of some link": drawn & ~met,
        "headings -psi_1, 0, -psi_3, all thrusters on": ~drawn,
    }
    counts = {name: [np.sum(at & one) for one in (at, turned, rank == whole)] for name, at in cases.items()}
    headings = ("states", "number", "no row of F is zero", f"rank {whole}, IMUs of (32)", "IMUs on links, largest rank")
    table = _table(
        f"three links, {STATES} states with a fifth of the thrusters off, seed 0; Lie derivatives of first order",
        headings,
        ((name, *map(str, counts[name]), str(other[at].max(initial=0))) for name, at in cases.items()),
    )
    turning, sines = conditions.turning[-1], np.abs(np.sin(psi)).min()
    third = (
        f"at headings -psi_1, 0, -psi_3 a row of F has nothing above {turning.min():.1g}, though the smallest sin(psi) "
        f"is {sines:.2g} in size: the proof permutes the columns of K without the sine's indices, and for equal masses "
        f"K_22 is 0. So the rank of (45) is {whole - (turning < NONE).sum()} there; that of the whole matrix is "
        f"{rank[-1]}"
    )
    (number, _, full), (fails, _, also), _ = counts.values()
    fourth = (
        f"rank {whole} in {full} of {number} states in which both hold, and where Theorem 3 fails; it is sufficient, "
        f"not necessary: also in {also} of {fails} in which one fails. IMUs as they are on links leave the common "
        f"heading hidden: rank {other[:-1].max()} at most"
    )
    outcome: Outcome = "reproduced" if number == full and rank[-1] == whole else "partly" if full else "not reproduced"
    return (
        Item("Theorem 3", "no row of F is zero where no sin(psi) is", _outcome(bool(turned[-1])), third, table),
        Item("Theorem 4", "where both conditions hold, all states are observable", outcome, fourth),
    )


# Parameters.


def _equal(paper: Paper, place: str, title: str, ours: Mapping[str, Any]) -> Item:
    """A table of parameters: reproduced where all are the same."""
    printed = paper.printed[place]
    same = {name: np.allclose(ours[name], value, rtol=1e-9) for name, value in printed.items()}
    other = ", ".join(name for name, is_same in same.items() if not is_same)
    what = f"{other} differ" if other else f"all {len(same)} are the same"
    rows = tuple((name, _shown(value), _shown(ours[name])) for name, value in printed.items())
    table = ReportTable("parameters of the scenario `thrusters` and of `paper_ukf`", ("", "printed", "ours"), rows)
    return Item(place, title, _outcome(*same.values()), what, (table,))


def _shown(value: Any) -> str:
    return ", ".join(f"{one:.6g}" for one in np.atleast_1d(value))


def _parameters(configuration: ThrusterChainConfiguration) -> dict[str, Any]:
    """All that is printed, as it is here: of the square waves' own pattern, of robot, start and noise."""
    at_s = 1e-3 * np.arange(round(1e3 * DURATION_S), dtype=np.float64)
    edges = at_s[1:][np.diff(square_waves(1)(at_s)[:, 0] > 0.0)]
    chain, start = configuration.chain, np.abs(assumed_chain(configuration, papers=True).design)
    return {
        "imu_rate_hz": configuration.paper.rate_hz,
        "duration_s": DURATION_S,
        "first_pulse_s": edges[0],
        "pulse_on_s": edges[1] - edges[0],
        "pulse_off_s": edges[2] - edges[1],
        "initial_heading_rad": start[: chain.count].max(),
        "initial_rate_rad_s": start[chain.count : 2 * chain.count].max(),
        "half_lengths_m": 0.5 * chain.lengths,
        "masses_kg": chain.masses,
        "inertias_kg_m2": chain.inertias,
        "thruster_angles_pi": chain.thruster_angles / np.pi,
        **vars(configuration.initial),
        **vars(configuration.paper),
    }


# The paper's filter over many seeds.


def _off(configuration: ThrusterChainConfiguration, waves: Matrix, seeds: int) -> Item:
    """Thruster 2 off: where condition 1 fails, its mass stays unknown to the paper's IMUs, not to IMUs on links."""
    without, at = waves * (np.arange(waves.shape[1]) != 1), 2 * waves.shape[1] + 1
    columns = ("stated", "RMSE", "Cramer-Rao, linearised", "within 3 sigma")
    rows, stated = [], []
    for name, known, thrust in (
        ("all thrusters on, IMUs of (32)", told(configuration), waves),
        ("thruster 2 off, IMUs of (32)", told(configuration), without),
        ("thruster 2 off, IMUs on links", told(configuration, "physical"), without),
    ):
        runs = run(known, thrust, seeds)
        stated.append(float(np.nanmean(runs.stddev[:, AT_089, at])))
        error = float(np.sqrt(np.nanmean(runs.error[:, AT_089, at] ** 2)))
        numbers = _short((stated[-1], error, bound(known, thrust)[AT_089, at]))
        rows.append((name, *numbers, f"{runs.covered(3.0):.3f}"))
    prior = configuration.paper.mass_stddev_kg
    because = (
        f"the deviation of mass 2 stays at {stated[1]:.2g} kg of {prior:g} before ({stated[0]:.2g} with it on). An "
        f"accelerometer on the link tells it nevertheless ({stated[2]:.2g}), by the joints' forces, not in (32)"
    )
    headings = ("deviation and error of mass 2 at 0.89 s [kg]", *columns)
    table = _table(f"iterated, matched noise, {seeds} seeds", headings, rows)
    came_out = _outcome(stated[1] > 0.5 * prior and stated[0] < 0.05 * prior)
    return Item("Section V-D", "without a thrust its link's mass is unknown", came_out, because, table)


def _consistency(configuration: ThrusterChainConfiguration, waves: Matrix, seeds: int) -> Item:
    """Whether deviations are true, where the truth has the process noise that the filter reckons with."""
    kinds = {
        LETTER: told(configuration, iterated=False),
        ITERATED: told(configuration),
        f"{ITERATED}, IMUs on links": told(configuration, "physical"),
    }
    size, rows, held, found = 4 * waves.shape[1], [], [], []
    for name, known in kinds.items():
        runs = run(known, waves, seeds)
        found.append(nees := np.nanmean(runs.nees[:, 1:], axis=0))
        consistent = bool(np.abs(nees - size).max() < NEES_SIGMAS * np.sqrt(2.0 * size / seeds))
        held.append(consistent and runs.covered(3.0) > COVERED_3)
        shares = f"{runs.covered(1.0):.2f}", f"{runs.covered(3.0):.3f}"
        mean_heading = np.sqrt(np.nanmean(runs.error[:, AT_089, : size // 4].mean(axis=1) ** 2))
        further = _short((mean_heading, runs.rmse(AT_089)[2]))
        rows.append((name, f"{nees.min():.1f}", f"{nees.max():.1f}", *shares, str(runs.failed), *further))
    because = (
        f"the paper's filter has a mean NEES of {found[0].max():.0f} where {size} is right, "
        f"{found[0].argmax() + 1} steps after the start, by the first push, where readings bend most: corrected once, "
        f"it is too sure of itself; iterated {found[1].max():.1f} at most. With IMUs on links the mean heading stays "
        "as unknown as it was"
    )
    counts = ("mean NEES, least", "mean NEES, largest", "within 1 sigma", "within 3 sigma", "failed")
    headings = ("", *counts, "RMSE of mean heading at 0.89 s [rad]", "RMSE of masses at 0.89 s [kg]")
    table = _table(f"process noise of Table IV in the truth, {seeds} seeds, {size} states", headings, rows)
    return Item("Section VI-A", "the filter's deviations are true", _outcome(*held[:2]), because, table)


def _bound(once: ThrusterChainConfiguration, waves: Matrix, letter: Runs, iterated: Runs) -> Item:
    """Section VI: errors converge, and the covariance approaches the Cramer-Rao lower bound."""
    least, rmse = bound(once, waves)[AT_089].reshape(4, -1).mean(axis=1), letter.rmse(AT_089)
    largest = np.insert(CONVERGED, 1, once.paper.gyro_stddev_rad_s)
    filters = "one correction", "iterated"
    headings = ("", "prior", *(f"{of}, {one}" for of in ("RMSE", "stated") for one in filters), "least possible")
    at = [of(AT_089) for of in (letter.rmse, iterated.rmse, letter.stated, iterated.stated)]
    columns = np.array([letter.stated(0), *at, least])
    near = letter.stated(AT_089) / least
    because = (
        f"corrected once, {letter.failed} of {len(letter.error)} runs fail, RMSE of "
        f"{', '.join(_short(rmse))} (rad, rad/s, kg, kg m^2) at 0.89 s, the end of the "
        f"third pulse; stated deviations {near.min():.2f} to {near.max():.2f} times the least possible ones"
    )
    came_out = _outcome(
        bool((rmse < largest).all()) and not letter.failed,
        bool((near < NEAR_BOUND).all()),
        bool((near > 1.0 / NEAR_BOUND).all()),
    )
    title = f"three links, pulses of 1 N, IMUs of (32), {len(letter.error)} seeds from 0, at 0.89 s"
    table = _table(title, headings, ((kind, *_short(row)) for kind, row in zip(KINDS, columns.T, strict=True)))
    words = "errors converge, deviations approach the Cramer-Rao bound"
    return Item("Section VI-B", words, came_out, because, table)


def _designed(configuration: ThrusterChainConfiguration, waves: Matrix) -> Item:
    """Observability-optimal thrusts, which section VI-B leaves as outlook, against the square waves."""
    of_each = ("square waves", "designed")
    headings = ("", *(f"{what}, {one}" for what in ("predicted", "stated", "RMSE") for one in of_each))
    rows, ratios = [], []
    for name, imus in (("IMUs of (32)", "paper"), ("IMUs on links", "physical")):
        known = told(configuration, imus)  # type: ignore[arg-type]
        found = design(known, "paper_ukf", DURATION_S - configuration.initial.rest_s)
        at, thrust = len(found.thrust_n) - 1, np.zeros_like(waves)
        thrust[: at + 1] = found.thrust_n
        runs = {AT_089: run(known, waves, FEW_SEEDS), at: run(known, thrust, FEW_SEEDS)}
        predicted = [one.reshape(2, -1).mean(axis=1) for one in (found.waves, found.designed)]
        stated, error = ([of(one, k)[2:] for k, one in runs.items()] for of in (Runs.stated, Runs.rmse))
        pairs = np.array([predicted, stated, error])
        ratios += list((pairs[:, 1] / pairs[:, 0]).T)
        rows += [(f"{name}: {kind}", *_short(pairs[:, :, row].ravel())) for row, kind in enumerate(KINDS[2:])]
    masses, inertias, also_masses, also_inertias = (
        ", ".join(f"{100.0 * one:.0f}" for one in three) for three in ratios
    )
    because = (
        "of the deviations and errors after the square waves (predicted, stated, RMSE), at equal effort: IMUs of (32) "
        f"masses {masses}, inertias {inertias} %; IMUs on links {also_masses} and "
        f"{also_inertias} %. Masses are at the noise of single readings, as the process noise has it"
    )
    title = f"{found.pulses} pulses each, at the end of the last; matched noise, {FEW_SEEDS} seeds, means over links"
    came_out = _outcome(*(bool((one[:2] < SMALLER).all()) for one in ratios))
    table = _table(title, headings, rows)
    return Item("Section VI-B, outlook", "observability-optimal thrusts", came_out, because, table)


# Figures.


def _snapshots(paper: Paper, configuration: ThrusterChainConfiguration, waves: Matrix) -> Item:
    """Figure 3: the chain at each of its instants."""
    every, chain = round(paper.figure("Figure 3", "snapshots_every_s") / STEP_S), configuration.chain
    links, motion, poses = assumed_chain(configuration).chain.links, np.zeros((2 * chain.count + 4, 1)), []
    for thrust in waves:
        poses.append(motion[:, 0].copy())
        given = np.concatenate([1.0 / chain.masses, 1.0 / chain.inertias, thrust])[:, None]
        propagate(links, given, motion, STEP_S, 0.1 * STEP_S)
    shown, times = np.array(poses)[::every], TIME_S[::every]
    headings, position = shown[:, : chain.count], shown[:, 2 * chain.count : 2 * chain.count + 2]
    outlines = space.outline(chain, headings, np.tile(chain.masses, (len(shown), 1)), position)
    angles = [tuple(f"{angle:.1f}" for angle in np.rad2deg(one)) for one in headings]

    draw = partial(_draw_snapshots, outlines, times.tolist())
    because = (
        "no number of it is printed, nor the thrust, which its motion follows from; here with 1 N the links stay "
        f"in a row until 0.2 s and have turned by {', '.join(angles[-1])} deg after {times[-1]:g} s"
    )
    names = ("time [s]", *(f"{name} [deg]" for name in chain.link_names))
    table = _table("headings", names, ((f"{at:.1f}", *one) for at, one in zip(times, angles, strict=True)))
    caption = f"The simulated chain every {STEP_S * every:g} s."
    return Item("Figure 3", "snapshots of the chain", "needs the authors' data", because, table, draw, caption)


def _draw_snapshots(outlines: Matrix, times_s: Sequence[float]) -> Figure:
    """Figure 3 from polylines (T, N + 1, 2) at T instants, m: one below the other would hide how the chain turns."""
    figure = Figure()
    words = "simulated, pulses of 1 N on all thrusters; the square is the first link's free end"
    ((axes,),) = panels_of(figure, "Figure 3: snapshots", words, (), 1, 4.0)
    for line, time_s, colour in zip(outlines, times_s, SERIES, strict=False):
        axes.plot(*line.T, "o-", color=colour, label=f"{time_s:.1f} s", markersize=3.5)
        axes.plot(*line[0], "s", color=colour, markersize=6)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set(xlabel="x [m]", ylabel="y [m]")
    add_legend(figure, axes)
    return figure


def _figure_4(paper: Paper, once: ThrusterChainConfiguration, waves: Matrix, letter: Runs, iterated: Runs) -> Item:
    """Figure 4, a to f, of seed 0, and over all seeds what section VI-B claims of it."""
    assumed, sigma = assumed_chain(once, papers=True), paper.figure("Figure 4", "bounds_sigma")
    path, _ = moved(assumed.chain, assumed.design, waves, TIME_S)
    conditions = theorem_conditions(assumed.chain, path.states, waves)
    met = np.asarray(conditions.met().all(axis=1))
    claims, ours = (_claims(runs, met, once.paper.gyro_stddev_rad_s) for runs in (letter, iterated))
    rows = tuple(
        (claim, *(f"{'yes' if found[claim][0] else 'no'}: {found[claim][1]}" for found in (claims, ours)))
        for claim in claims
    )
    missing = [claim for claim, (holds, _) in claims.items() if not holds]
    because = (
        f"{len(claims) - len(missing)} of {len(claims)} claims of section VI-B hold of the filter that corrects once"
    )
    because += f"; not: {', '.join(missing)}" if missing else ""

    draw = partial(_draw_run, waves, conditions, letter.error[0], sigma * letter.stddev[0])
    table = ReportTable(f"claims of section VI-B, {len(letter.error)} seeds", ("printed", LETTER, ITERATED), rows)
    caption = "Thrusts, Theorem 4's conditions, and errors of angles, angular velocities, masses and inertias."
    came_out = _outcome(*(holds for holds, _ in claims.values()))
    return Item("Figure 4", "thrusts, conditions and errors", came_out, because, (table,), draw, caption)


def _draw_run(thrust_n: Matrix, conditions: Conditions, error: Matrix, bound_of: Matrix) -> Figure:
    """Figure 4, a to f, of a run: thrusts (K, N), Theorem 4's conditions, errors (K, 4N) with their bounds (K, 4N)."""
    figure, links = Figure(), [f"link {link + 1}" for link in range(thrust_n.shape[1])]
    words = "simulated, seed 0, one correction an instant; dotted: net force, three standard deviations"
    title = "Figure 4: thrusts, conditions, errors"
    panels = panels_of(figure, title, words, (), 3, 1.7, columns=2, width_in=10.0).ravel()
    names = ["(a) thrust [N]", "(b) |u sin psi|, net force [N]", "(c) angle [rad]", "(d) rate [rad/s]"]
    names += ["(e) mass [kg]", "(f) inertia [kg m^2]"]
    solid = thrust_n, np.abs(conditions.normal_n), *np.split(error, 4, 1)
    dotted = (thrust_n,), (np.abs(conditions.net_n),), *((one, -one) for one in np.split(bound_of, 4, 1))
    for axes, name, lines, around in zip(panels, names, solid, dotted, strict=True):
        axes.set_prop_cycle(color=SERIES[: len(links)])
        axes.plot(TIME_S, lines, label=links)
        for one in around:
            axes.plot(TIME_S, one, ":", linewidth=0.8)
        axes.set_ylabel(name)
        # What is seen of later times counts: the prior would hide it.
        late = np.hstack(around)[INSTANTS // 3 :]
        axes.set_ylim(1.5 * late.min() - 0.05 * late.max(), 1.5 * late.max())
    panels[-2].set_xlabel("time [s]")
    panels[-1].set_xlabel("time [s]")
    add_legend(figure, panels[0])
    return figure


def _claims(runs: Runs, met: NDArray[np.bool_], gyro: float) -> dict[str, tuple[bool, str]]:
    """By claim of section VI-B whether it holds, and the figures: over seeds, mean deviations and RMSE."""
    n = runs.error.shape[2] // 4
    edges = np.flatnonzero(np.diff(met.astype(int))).tolist()  # last instants before the conditions change
    pulses, pauses = list(zip(edges[::2], edges[1::2], strict=True)), list(pairwise([0, *edges]))[::2]
    rate, sure = (np.array([of(k)[1] for k in range(INSTANTS)]) for of in (runs.rmse, runs.stated))
    rest = np.r_[0:n, 2 * n : 4 * n]
    stated, error = np.nanmean(runs.stddev, axis=0), np.sqrt(np.nanmean(runs.error**2, axis=0))
    falls, nearer = (np.array([of[b, rest] < of[a, rest] for a, b in pulses]) for of in (stated, error))
    rises = np.array([stated[b, rest] > stated[a, rest] for a, b in pauses])
    largest = {k: int(stated[k, 3 * n :].argmax()) + 1 for k in (*(b for _, b in pulses), INSTANTS - 1)}
    steps = int(np.flatnonzero(rate <= gyro)[0])
    shown = ", ".join(f"{name} after {k * STEP_S:.2f} s" for k, name in largest.items())
    return {
        "angular velocities converge immediately": (
            steps <= 1 and bool((sure[steps:] <= gyro).all()),
            f"RMSE {rate[0]:.2g} rad/s, {rate[steps]:.2g} after {steps} step; from there on "
            f"{rate[steps:].max():.2g} at most, stated {sure[steps:].max():.2g}; of one gyro {gyro:g}",
        ),
        "deviations of the rest decrease while the conditions hold": (
            bool(falls.all()),
            f"{falls.sum()} of {falls.size} (three pulses, {len(rest)} states)",
        ),
        "errors of the rest decrease while the conditions hold": (
            bool(nearer.all()),
            f"RMSE of {nearer.sum()} of {nearer.size}, in the first pulse of {nearer[0].sum()} of {nearer[0].size}; "
            "later some are near the noise, and between pulses nothing disturbs the truth",
        ),
        "deviations grow while they do not": (bool(rises.all()), f"{rises.sum()} of {rises.size} (before and between)"),
        "the inertia of link 2 is known worst": (largest[INSTANTS - 1] == 2, f"link {shown}"),
    }
