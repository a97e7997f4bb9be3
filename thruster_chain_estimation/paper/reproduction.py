"""The paper's tables and figures, its theorems, and what its text claims of its filter, made again.

Table I has symbols alone: there is nothing to make. What its figures show is printed as pictures; their claims are
those of section VI-B, and each is a criterion here. Runs of the simulation are of the same robot and noise with pulses
of 1 N, which the paper does not state, synchronous; the filter is `paper_ukf` corrected once
(`paper.iterated: false`), and as it is by default, iterated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Vector
from onboard_estimation.base.workers import all_of
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.reproduced import Item, Outcome, Paper, find_paper
from onboard_estimation.contract.trained import ReportTable
from thruster_chain_estimation.judging.observability import theorem_conditions
from thruster_chain_estimation.judging.thrust_design import design
from thruster_chain_estimation.model import space
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration
from thruster_chain_estimation.model.dynamics import propagate
from thruster_chain_estimation.paper.runs import (
    DURATION_S,
    INSTANTS,
    STEP_S,
    Case,
    Judged,
    Runs,
    Watched,
    judged,
    run_case,
    time_s,
)
from thruster_chain_estimation.paper.theorems import theorem_items
from thruster_chain_estimation.simulation.simulator import square_waves

SEEDS, MANY_SEEDS, FEW_SEEDS = 100, 400, 10
AT_089 = 89
ESTIMATORS = ("paper_ukf", "robust", "gyros")
SMALLER = 95.0
"""Per cent of a deviation or less is smaller."""
NEAR_BOUND = 1.25
"""Stated deviations within this factor of the least possible ones are said to be near them."""
COVERED_3 = 0.985
CONVERGED = 0.004, 0.003, 3e-5
"""RMSE of link angles (rad), masses (kg) and inertias (kg m^2) that are to be reached at 0.89 s."""
NEES_SIGMAS = 5.0
"""Of the mean of that many chi-squared numbers, within which mean NEES of runs with matched noise are to be always."""
_KINDS = ("link angles [rad]", "angular velocities [rad/s]", "masses [kg]", "inertias [kg m^2]")
_LETTER, _ITERATED = "paper's filter, one correction", "ours (`paper_ukf`), iterated"


def reproduce(
    configuration: ThrusterChainConfiguration, recordings: Mapping[str, LoadedRecording], quick: bool
) -> Iterator[Item]:
    """In the paper's order; of recordings what can be told of the paper's filter on them, see `Reproduced`."""
    if recordings:
        yield _recorded(configuration, recordings)
        return
    paper, case = find_paper("multilink"), partial(Case, configuration)
    seeds, many = (FEW_SEEDS, FEW_SEEDS) if quick else (SEEDS, MANY_SEEDS)
    yield _imu_item(configuration, seeds)
    yield from theorem_items(configuration)
    yield _off(case, many)
    yield _equal(paper, "Section VI", "the run that is simulated", _simulated(configuration))
    chain = configuration.chain
    design = {
        "half_lengths_m": 0.5 * chain.lengths,
        "masses_kg": chain.masses,
        "inertias_kg_m2": chain.inertias,
        "thruster_angles_pi": chain.thruster_angles / np.pi,
    }
    yield _equal(paper, "Table II", "parameters of the robot", design)
    yield _snapshots(paper, configuration)
    first = {f"{name}_stddev_{unit}": getattr(configuration.initial, f"{name}_stddev_{unit}") for name, unit in _MOVING}
    learned = {name: getattr(configuration.paper, name) for name in ("mass_stddev_kg", "inertia_stddev_kg_m2")}
    yield _equal(paper, "Table III", "initial standard deviations", first | learned)
    noise = {name: getattr(configuration.paper, name) for name in paper.printed["Table IV"]}
    yield _equal(paper, "Table IV", "process and measurement noise", noise)
    yield _consistency(case, many)
    letter, iterated = run_case(case(iterated=False), seeds), run_case(case(), seeds)
    yield _figure_4(paper, case(iterated=False), letter, iterated)
    yield _bound_item(case(iterated=False), letter, iterated)
    yield _designed(case)


_MOVING = (("heading", "rad"), ("rate", "rad_s"))


def _outcome(*held: bool) -> Outcome:
    return "reproduced" if all(held) else "partly" if any(held) else "not reproduced"


# Parameters.


def _equal(paper: Paper, place: str, title: str, ours: Mapping[str, Any]) -> Item:
    """A table of parameters: reproduced where all are the same."""
    rows, other = [], []
    for name, value in paper.printed[place].items():
        if not np.allclose(ours[name], value, rtol=1e-9):
            other.append(name)
        rows.append((name, _shown(value), _shown(ours[name])))
    what = f"{', '.join(other)} differ" if other else f"all {len(rows)} are the same"
    table = ReportTable("parameters of the scenario `thrusters` and of `paper_ukf`", ("", "printed", "ours"), (*rows,))
    return Item(place, title, _outcome(*(name not in other for name in ours)), what, (table,))


def _shown(value: Any) -> str:
    return ", ".join(f"{one:.6g}" for one in np.atleast_1d(value))


def _simulated(configuration: ThrusterChainConfiguration) -> dict[str, float]:
    """When the square waves of the scenario are on, from its own pattern, s; where its motion starts."""
    at_s = 1e-3 * np.arange(round(1e3 * DURATION_S), dtype=np.float64)
    on = square_waves(1)(at_s)[:, 0] > 0.0
    edges = at_s[1:][np.diff(on)]
    start = Case(configuration).path().states[0]
    return {
        "imu_rate_hz": configuration.paper.rate_hz,
        "duration_s": DURATION_S,
        "first_pulse_s": edges[0],
        "pulse_on_s": edges[1] - edges[0],
        "pulse_off_s": edges[2] - edges[1],
        "initial_heading_rad": np.abs(start[: configuration.chain.count]).max(),
        "initial_rate_rad_s": np.abs(start[configuration.chain.count : 2 * configuration.chain.count]).max(),
    }


# Figures.


def _snapshots(paper: Paper, configuration: ThrusterChainConfiguration) -> Item:
    """Figure 3: the chain at each of its instants."""
    every = round(paper.figure("Figure 3", "snapshots_every_s") / STEP_S)
    case, chain = Case(configuration), configuration.chain
    thrust, links = case.thrust(), case.assumed.chain.links
    motion, poses = np.zeros((2 * chain.count + 4, 1)), []
    for k in range(INSTANTS):
        poses.append(motion[:, 0].copy())
        given = np.concatenate([1.0 / chain.masses, 1.0 / chain.inertias, thrust[k]])[:, None]
        propagate(links, given, motion, STEP_S, 0.1 * STEP_S)
    shown = np.array(poses, dtype=np.float64)[::every]
    headings, position = shown[:, : chain.count], shown[:, 2 * chain.count : 2 * chain.count + 2]
    outlines = space.outline(chain, headings, np.tile(chain.masses, (len(shown), 1)), position)
    times = [STEP_S * every * number for number in range(len(shown))]
    names = tuple(f"{name} [deg]" for name in chain.link_names)
    rows = tuple(
        (f"{at:.1f}", *(f"{angle:.1f}" for angle in np.rad2deg(one))) for at, one in zip(times, headings, strict=True)
    )

    def draw() -> Any:
        from thruster_chain_estimation.paper.figures import draw_snapshots

        words = "simulated, pulses of 1 N on all thrusters; the square is the first link's free end"
        return draw_snapshots(outlines, times, "Figure 3: snapshots", words)

    return Item(
        "Figure 3",
        "snapshots of the chain",
        "needs the authors' data",
        "no number of it is printed, nor the thrust, which its motion is proportional to; here with 1 N the links stay "
        f"in a row until 0.2 s and have turned by {', '.join(rows[-1][1:])} deg after {times[-1]:g} s",
        (ReportTable("headings", ("time [s]", *names), rows, names),),
        draw,
        f"The simulated chain every {STEP_S * every:g} s.",
    )


def _figure_4(paper: Paper, case: Case, letter: Runs, iterated: Runs) -> Item:
    """Figure 4, a to f, of seed 0, and over all seeds what section VI-B claims of it."""
    path, sigma = case.path(), paper.figure("Figure 4", "bounds_sigma")
    conditions = theorem_conditions(case.assumed.chain, path.states, path.thrust_n)
    met = np.asarray(conditions.met().all(axis=1))
    claims = {name: _claims(runs, met, case.base) for name, runs in ((_LETTER, letter), (_ITERATED, iterated))}
    rows = [
        (claim, *(f"{'yes' if found[claim][0] else 'no'}: {found[claim][1]}" for found in claims.values()))
        for claim in claims[_LETTER]
    ]
    held = [found[0] for found in claims[_LETTER].values()]
    missing = [claim for claim, found in claims[_LETTER].items() if not found[0]]
    because = f"{sum(held)} of {len(held)} claims of section VI-B hold of the filter that corrects once"
    because += f"; not: {', '.join(missing)}" if missing else ""

    def draw() -> Any:
        from thruster_chain_estimation.paper.figures import draw_run

        words = f"simulated, seed 0, one correction an instant; dotted: {sigma} standard deviations"
        return draw_run(time_s(), path.thrust_n, conditions, letter.error[0], letter.stddev[0], sigma, words)

    table = ReportTable(f"claims of section VI-B, {len(letter.nees)} seeds", ("printed", *claims), tuple(rows))
    caption = "Thrusts, Theorem 4's conditions, and errors of angles, angular velocities, masses and inertias."
    return Item("Figure 4", "thrusts, conditions and errors", _outcome(*held), because, (table,), draw, caption)


def _claims(runs: Runs, met: NDArray[np.bool_], base: ThrusterChainConfiguration) -> dict[str, tuple[bool, str]]:
    """By claim of section VI-B whether it holds, and the figures: over seeds, mean deviations and RMSE."""
    n, gyro = base.chain.count, base.paper.gyro_stddev_rad_s
    edges = np.flatnonzero(np.diff(met.astype(int)))  # last instants before the conditions change
    pulses = [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    pauses = [(0, pulses[0][0]), *((a, b) for (_, a), (b, _) in pairwise(pulses))]
    rate, sure = (np.array([of(k)[1] for k in range(INSTANTS)]) for of in (runs.rmse, runs.stated))
    rest = np.r_[0:n, 2 * n : 4 * n]
    stated, error = np.nanmean(runs.stddev, axis=0)[:, rest], np.sqrt(np.nanmean(runs.error**2, axis=0))[:, rest]
    falls = np.array([stated[b] < stated[a] for a, b in pulses])
    nearer = np.array([error[b] < error[a] for a, b in pulses])
    rises = np.array([stated[b] > stated[a] for a, b in pauses])
    inertia = np.nanmean(runs.stddev[:, :, 3 * n :], axis=0)
    at = [b for _, b in pulses] + [INSTANTS - 1]
    largest = [int(inertia[k].argmax()) + 1 for k in at]
    steps = int(np.flatnonzero(rate <= gyro)[0])
    shown = ", ".join(f"{name} after {k * STEP_S:.2f} s" for name, k in zip(largest, at, strict=True))
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
        "the inertia of link 2 is known worst": (largest[-1] == 2, f"link {shown}"),
    }


# The filter over many seeds.


def _bound_item(case: Case, letter: Runs, iterated: Runs) -> Item:
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
    outcome = _outcome(
        bool(converged.all()) and not letter.failed,
        bool((near < NEAR_BOUND).all()),
        bool((near > 1.0 / NEAR_BOUND).all()),
    )
    title = f"three links, pulses of 1 N, IMUs of (32), {len(letter.nees)} seeds from 0, at 0.89 s"
    return Item(
        "Section VI-B", "errors converge, deviations approach the Cramer-Rao bound", outcome, because,
        (ReportTable(title, headings, rows, headings[1:]),),
    )  # fmt: skip


def _consistency(case: Any, seeds: int) -> Item:
    """Whether deviations are true, where the truth has the process noise that the filter reckons with."""
    headings = ("", "mean NEES, least", "mean NEES, largest", "within 1 sigma", "within 3 sigma", "failed")
    kinds = {
        f"{_LETTER}": case(iterated=False, matched=True),
        f"{_ITERATED}": case(matched=True),
        f"{_ITERATED}, IMUs on links, first heading given": case("physical", matched=True, heading_given=True),
        f"{_ITERATED}, IMUs on links": case("physical", matched=True),
    }
    rows, held, largest = [], [], []
    for name, one in kinds.items():
        runs = run_case(one, seeds)
        nees, size = np.nanmean(runs.nees[:, 1:], axis=0), runs.error.shape[2]
        three = runs.covered(3.0)
        consistent = bool(np.abs(nees - size).max() < NEES_SIGMAS * np.sqrt(2.0 * size / seeds))
        held.append(consistent and three > COVERED_3)
        largest.append(nees.max())
        shares = f"{runs.covered(1.0):.2f}", f"{three:.3f}"
        rows.append((name, f"{nees.min():.1f}", f"{nees.max():.1f}", *shares, str(runs.failed)))
    because = (
        f"the paper's filter has a mean NEES of {largest[0]:.0f} where {size} is right at the first reading of the "
        f"first pulse, which bends most: corrected once, it is too sure of itself; iterated {largest[1]:.1f}"
    )
    table = ReportTable(
        f"process noise of Table IV in the truth, {seeds} seeds, {size} states", headings, (*rows,), headings[1:]
    )
    return Item("Section VI-A", "the filter's deviations are true", _outcome(held[0], held[1]), because, (table,))


def _off(case: Any, seeds: int) -> Item:
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
    outcome = _outcome(stated[1] > 0.5 * prior and stated[0] < 0.05 * prior)
    return Item("Section V-D", "without a thrust its link's mass is unknown", outcome, because, (table,))


def _designed(case: Any) -> Item:
    """Observability-optimal thrusts, which section VI-B leaves as outlook, against the square waves."""
    of_each = ("square waves", "designed")
    headings = ("", *(f"{what}, {one}" for what in ("predicted", "stated", "RMSE") for one in of_each))
    rows, smaller = [], []
    for name, imus in (("IMUs of (32)", "paper"), ("IMUs on links", "physical")):
        plain = case(imus, matched=True)
        found = design(plain.configuration, ESTIMATORS[0], DURATION_S - plain.base.initial.rest_s)
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
    title = f"nine pulses each, at the end of the last; matched noise, {FEW_SEEDS} seeds, means over links"
    table = ReportTable(title, headings, tuple(rows), headings[1:])
    outcome = _outcome(*(bool((one[:2] < SMALLER).all()) for one in (inertias, also_masses, also_inertias, masses)))
    return Item("Section VI-B, outlook", "observability-optimal thrusts", outcome, because, (table,))


def _shares(values: Vector) -> str:
    return ", ".join(f"{one:.0f}" for one in values)


# Estimators on recordings.


def _imu_item(configuration: ThrusterChainConfiguration, seeds: int) -> Item:
    """Equation (32) is not what an accelerometer on a link reads: with that, the paper's filter, ours, and gyros."""
    physical, wrong = replace(configuration, imu_model="physical"), replace(configuration, imu_model="paper")
    kinds = {name: (physical, name) for name in ESTIMATORS}
    kinds = {"paper_ukf, model (32)": (wrong, "paper_ukf"), **kinds}
    rows, found = [], {}
    for name, (known, estimator) in kinds.items():
        runs = all_of(judged_or_failed, [Watched(known, estimator, seed) for seed in range(seeds)])
        found[name] = [one for one in runs if one is not None]
        rows.append((name, *_line(found[name]), str(seeds - len(found[name]))))
    shares = [np.median([one.angles_covered for one in found[name]]) for name in list(kinds)[:2]]
    masses = {name: 100.0 * np.median([one.masses for one in found[name]]) for name in ESTIMATORS[:2]}
    because = (
        "an accelerometer on a link also feels the joints' forces, and reads along the link's axes: with what it "
        f"reads, the filter of (32) has {100 * shares[0]:.0f} % of its angles within 3 sigma, with that of such an IMU "
        f"{100 * shares[1]:.0f} % (medians); the absolute heading is then not observed by any. After this second masses "
        f"are off by {masses['paper_ukf']:.2g} %, of `robust`, which has to find lags and biases too, by "
        f"{masses['robust']:.2g} %"
    )
    title = f"IMUs as they are on links, scenario `thrusters`, {DURATION_S:g} s, {seeds} seeds; medians (worst)"
    table = ReportTable(title, ("estimator", *_HEADINGS, "failed"), tuple(rows), (*_HEADINGS, "failed"))
    return Item(
        "Section III", "what IMUs on links read, equation (32)", _outcome(shares[0] > COVERED_3), because, (table,)
    )


_HEADINGS = (
    "link angles [deg]", "joint angles [deg]", "masses [%]", "inertias [%]",
    "angles within 3 sigma", "masses, inertias within 3 sigma",
)  # fmt: skip


def judged_or_failed(task: Watched) -> Judged | None:
    """None where the estimator gives nothing."""
    try:
        return judged(task)
    except UserError:
        return None


def _line(runs: Sequence[Judged]) -> tuple[str, ...]:
    """Cells below `_HEADINGS`: errors with the largest in brackets, shares with the least."""
    columns = np.array(runs, dtype=np.float64).reshape(len(runs), len(Judged._fields))
    return tuple(_cell(column, 100.0 if 2 <= at < 4 else 1.0, at >= 4) for at, column in enumerate(columns.T))


def _cell(values: Vector, scale: float, least: bool) -> str:
    known = values[np.isfinite(values)]
    if not len(known):
        return "-"
    worst = known.min() if least else known.max()
    return f"{scale * np.median(known):.3g}" + (f" ({scale * worst:.3g})" if len(known) > 1 else "")


def _recorded(configuration: ThrusterChainConfiguration, recordings: Mapping[str, LoadedRecording]) -> Item:
    """The three estimators on a user's recordings; UserError where none gives an estimate of any."""
    rows, faults, covered = [], [], []
    for name, recording in recordings.items():
        for estimator in ESTIMATORS:
            try:
                found = judged(Watched(configuration, estimator, recording=recording))
            except UserError as error:
                faults.append(f"{name}: {error}")
                continue
            rows.append((name, estimator, *_line([found])))
            if estimator == ESTIMATORS[0]:
                shares = np.array([found.angles_covered, found.parameters_covered])
                covered += shares[np.isfinite(shares)].tolist()
    if not rows:
        raise UserError(f"none of {len(recordings)} recordings gives an estimate: {'; '.join(dict.fromkeys(faults))}")
    held = [share > COVERED_3 for share in covered]
    because = f"{sum(held)} of {len(held)} shares of `paper_ukf` within 3 sigma are above {COVERED_3:g}"
    because += f"; without an estimate: {'; '.join(faults)}" if faults else ""
    table = ReportTable(
        "RMSE over each run; masses and inertias at its end",
        ("recording", "estimator", *_HEADINGS),
        tuple(rows),
        _HEADINGS,
    )
    return Item("Figure 4", "errors on recordings", _outcome(*held) if held else "not reproduced", because, (table,))
