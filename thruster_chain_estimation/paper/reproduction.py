"""The paper's tables and figures, its theorems, and what its text claims of its filter, made again.

Table I has symbols alone: there is nothing to make. What its figures show is printed as pictures; their claims are
those of section VI-B, and each is a criterion here. Runs of the simulation are of the same robot and noise with pulses
of 1 N, which the paper does not state, synchronous; the filter is `paper_ukf` corrected once
(`paper.iterated: false`), and as it is by default, iterated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.reproduced import Item, Paper, find_paper
from onboard_estimation.contract.trained import ReportTable
from thruster_chain_estimation.judging.observability import theorem_conditions
from thruster_chain_estimation.model import space
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration
from thruster_chain_estimation.model.dynamics import propagate
from thruster_chain_estimation.paper.many_seeds import (
    FEW_SEEDS,
    ITERATED,
    LETTER,
    bound_item,
    consistency_item,
    designed_item,
    off_item,
)
from thruster_chain_estimation.paper.recordings import imu_item, recorded_item
from thruster_chain_estimation.paper.runs import DURATION_S, INSTANTS, STEP_S, Case, Runs, outcome, run_case, time_s
from thruster_chain_estimation.paper.theorems import theorem_items
from thruster_chain_estimation.simulation.simulator import square_waves

SEEDS, MANY_SEEDS = 100, 400


def reproduce(
    configuration: ThrusterChainConfiguration, recordings: Mapping[str, LoadedRecording], quick: bool
) -> Iterator[Item]:
    """In the paper's order; of recordings what can be told of the paper's filter on them, see `Reproduced`."""
    if recordings:
        yield recorded_item(configuration, recordings)
        return
    paper, case = find_paper("multilink"), partial(Case, configuration)
    seeds, many = (FEW_SEEDS, FEW_SEEDS) if quick else (SEEDS, MANY_SEEDS)
    yield imu_item(configuration, seeds)
    yield from theorem_items(configuration)
    yield off_item(case, many)
    ours = _parameters(configuration)
    yield _equal(paper, "Section VI", "the run that is simulated", ours)
    yield _equal(paper, "Table II", "parameters of the robot", ours)
    yield _snapshots(paper, configuration)
    yield _equal(paper, "Table III", "initial standard deviations", ours)
    yield _equal(paper, "Table IV", "process and measurement noise", ours)
    yield consistency_item(case, many)
    letter, iterated = run_case(case(iterated=False), seeds), run_case(case(), seeds)
    yield _figure_4(paper, case(iterated=False), letter, iterated)
    yield bound_item(case(iterated=False), letter, iterated)
    yield designed_item(case)


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
    return Item(place, title, outcome(*(name not in other for name in paper.printed[place])), what, (table,))


def _shown(value: Any) -> str:
    return ", ".join(f"{one:.6g}" for one in np.atleast_1d(value))


def _parameters(configuration: ThrusterChainConfiguration) -> dict[str, Any]:
    """All that is printed, as it is here: of the square waves' own pattern, of robot, start and noise."""
    at_s = 1e-3 * np.arange(round(1e3 * DURATION_S), dtype=np.float64)
    edges = at_s[1:][np.diff(square_waves(1)(at_s)[:, 0] > 0.0)]
    chain, start = configuration.chain, Case(configuration).path().states[0]
    return {
        "imu_rate_hz": configuration.paper.rate_hz,
        "duration_s": DURATION_S,
        "first_pulse_s": edges[0],
        "pulse_on_s": edges[1] - edges[0],
        "pulse_off_s": edges[2] - edges[1],
        "initial_heading_rad": np.abs(start[: chain.count]).max(),
        "initial_rate_rad_s": np.abs(start[chain.count : 2 * chain.count]).max(),
        "half_lengths_m": 0.5 * chain.lengths,
        "masses_kg": chain.masses,
        "inertias_kg_m2": chain.inertias,
        "thruster_angles_pi": chain.thruster_angles / np.pi,
        **vars(configuration.initial),
        **vars(configuration.paper),
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
        "no number of it is printed, nor the thrust, which its motion follows from; here with 1 N the links stay "
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
    claims = {name: _claims(runs, met, case.base) for name, runs in ((LETTER, letter), (ITERATED, iterated))}
    rows = [
        (claim, *(f"{'yes' if found[claim][0] else 'no'}: {found[claim][1]}" for found in claims.values()))
        for claim in claims[LETTER]
    ]
    held = [found[0] for found in claims[LETTER].values()]
    missing = [claim for claim, found in claims[LETTER].items() if not found[0]]
    because = f"{sum(held)} of {len(held)} claims of section VI-B hold of the filter that corrects once"
    because += f"; not: {', '.join(missing)}" if missing else ""

    def draw() -> Any:
        from thruster_chain_estimation.paper.figures import draw_run

        words = f"simulated, seed 0, one correction an instant; dotted: {sigma} standard deviations"
        return draw_run(time_s(), path.thrust_n, conditions, letter.error[0], letter.stddev[0], sigma, words)

    table = ReportTable(f"claims of section VI-B, {len(letter.nees)} seeds", ("printed", *claims), tuple(rows))
    caption = "Thrusts, Theorem 4's conditions, and errors of angles, angular velocities, masses and inertias."
    return Item("Figure 4", "thrusts, conditions and errors", outcome(*held), because, (table,), draw, caption)


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
