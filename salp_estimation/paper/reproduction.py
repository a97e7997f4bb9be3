"""The LandSalp paper's figures 2, 3 and 5 to 8 and the numbers of its text, made again (see `Reproduced.reproduce`).

Simulated with the scenario `hardware`. The paper's training and held-out runs are of one robot; so are those of one day
here. Beside them stand days that taught nothing, each another robot: there it shows what the paper's covariance lacks.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.presentation import display_unit
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.reproduced import Item, Outcome, Paper, find_paper
from onboard_estimation.contract.trained import ReportTable
from salp_estimation.judging.observability import heuristic, relation
from salp_estimation.model.configuration import PAPER, SalpConfiguration
from salp_estimation.model.gait_design import describe, gait_for
from salp_estimation.model.gait_fit import effort
from salp_estimation.model.gaits import GAITS, SETTLE_S
from salp_estimation.paper import figures
from salp_estimation.paper.models import Followed, distribution, followed
from salp_estimation.paper.runs import CALIBRATED, Drive, Filter, Judged, Lesson, judged, taught_by, true_states
from salp_estimation.paper.work import (
    AS_ONE,
    FIRST_DAY,
    FIVE_DAYS,
    FORWARD_ONLY,
    MULTI_GAIT,
    OURS,
    PLAIN,
    SHOWN_RUN,
    WIDER,
    Plan,
    Work,
    plan,
)  # fmt: skip
from salp_estimation.simulation.hardware_scenario import hardware_scenario
from salp_estimation.training.paper_training import ITERATIONS

Rows = NDArray[np.float64]

SIMILAR, COVERED = 1.5, 0.95
"""Errors of two filters are comparable within this factor, and covered by three sigma where this share is."""


def reproduce(
    configuration: SalpConfiguration, recordings: Mapping[str, LoadedRecording], quick: bool
) -> Iterator[Item]:
    """See `Reproduced.reproduce`; of a user's recordings the last one judges, the others teach."""
    paper = find_paper("landsalp")
    made = plan(paper, quick)
    with tempfile.TemporaryDirectory() as folder:
        if recordings:
            yield from _of_recordings(configuration, paper, recordings, made, Path(folder))
            return
        yield _gaits(configuration, paper)
        shown = Drive("forward", FIRST_DAY, SHOWN_RUN, 54.0)
        recording = shown.recording(configuration)
        models = _followed(configuration, paper, recording, shown.name)
        yield _residuals(paper, models, shown.name)
        yield _snapshots(configuration, paper, recording, shown)
        yield _validation(paper, models, shown.name)
        work = Work(configuration, made, Path(folder))
        yield _training(paper, work)
        yield _errors(work)
        yield _by_gait(paper, work)
        yield _observability(configuration, paper, work)


# The models.


def _gaits(configuration: SalpConfiguration, paper: Paper) -> Item:
    chain = configuration.chain.build()
    found = {name: describe(chain, gait_for(configuration.chain, name)) for name in GAITS}
    printed = partial(paper.figure, "Section V-A")
    rows = []
    for name, one in found.items():
        x, y, turn = one.states[-1, :3]
        speed = np.abs(one.gait.controls(one.time_s)).max()
        said = f"{printed('forward_cm_per_cycle')} cm, {printed('period_s')} s" if name == "forward" else ""
        moved = f"{100.0 * x:.2f}, {100.0 * y:.2f} cm, {np.rad2deg(turn):.1f} deg"
        rows.append(
            (name, said, f"{one.gait.period_s:g} s", moved, f"{100.0 * speed:.1f}", f"{1e3 * effort(one.gait):.2f}")
        )
    headings = (
        "gait",
        "printed",
        "period",
        "a cycle moves forward, left, turns",
        "peak cm/s",
        "mean square of u, 1e-3 m^2/s^2",
    )
    efforts = {name: effort(one.gait) for name, one in found.items()}
    forward_cm = 100.0 * float(found["forward"].states[-1, 0])
    largest, smallest = max(efforts, key=efforts.__getitem__), min(efforts, key=efforts.__getitem__)
    right = abs(forward_cm - printed("forward_cm_per_cycle")) < 0.1 and found["forward"].gait.period_s == printed(
        "period_s"
    )
    ordered = largest == "turning" and smallest in ("left", "right")
    because = f"forward {forward_cm:.2f} cm a cycle; the most thrust takes {largest}, the least {smallest}, as printed"
    return Item(
        "Figure 2",
        "gaits: controls and joint angles",
        _outcome(right and ordered, right or ordered),
        because + "; coefficients of forward are published, the others designed here",
        (ReportTable("Gaits of the quasi-static model", headings, tuple(rows), headings[2:]),),
        partial(figures.gaits_figure, found),
        "Rim speeds over a cycle, and the joint angles that they lead to.",
    )


def _followed(configuration: SalpConfiguration, paper: Paper, recording: LoadedRecording, name: str) -> Followed:
    printed = partial(paper.figure, "Figure 3")
    cycles = paper.figure("Figure 6", "cycles")
    return followed(configuration, recording, name, printed("rate_hz"), printed("duration_s"), cycles)


def _residuals(paper: Paper, models: Followed, name: str) -> Item:
    left, rate_hz = models.measured - models.modelled, paper.figure("Figure 3", "rate_hz")
    cycle = round((models.phase_s[-1] + models.phase_s[1]) * rate_hz)
    found = [distribution(column, cycle) for column in left.T]
    rows, shown, units = [], [], []
    for label, unit, column, one in zip(models.names, models.units, left.T, found, strict=True):
        words, factor = display_unit(unit, one.stddev)
        shown.append(factor * column)
        units.append(words)
        sizes = (f"{factor * size:.3g}" for size in (one.mean, one.stddev))
        errors = (f"{size:.1f}" for size in (one.mean_in_errors, one.cycles_in_errors))
        shape = (f"{one.skewness:.2f}", f"{one.excess_kurtosis:.2f}", f"{one.k_squared:.0f}", f"{one.p_value:.1g}")
        rows.append((label, words, *sizes, *errors, *shape))
    headings = (
        "residual", "unit", "mean", "deviation", "mean in its errors", "of whole cycles", "skewness",
        "excess kurtosis", "K^2", "normal: p",
    )  # fmt: skip
    biased, lasting = (
        sum(getattr(one, name) > 3.0 for one in found) for name in ("mean_in_errors", "cycles_in_errors")
    )
    skewed = sum(one.p_value < 1e-3 for one in found)
    of, printed = len(found), paper.figure("Figure 3", "residuals")
    return Item(
        "Figure 3",
        "residuals of the models, forward gait",
        _outcome(min(biased, lasting, skewed) > of / 2, min(biased, skewed) > of / 2),
        f"of {len(left)} residuals ({printed} printed), {biased} of {of} means are more than three standard errors "
        f"from zero as samples, {lasting} of {of} as means of whole cycles: residuals repeat themselves with the gait, "
        f"and little but a gyro's bias is left of a cycle; {skewed} of {of} are not Gaussian (p below 0.001)",
        (ReportTable(f"Residuals at {rate_hz} Hz, {name}", headings, tuple(rows), headings[2:]),),
        partial(figures.histograms_figure, models.names, units, np.column_stack(shown), models.links),
        "Rates and gyros, measured less modelled, low-passed at 2 Hz.",
    )


def _snapshots(configuration: SalpConfiguration, paper: Paper, recording: LoadedRecording, drive: Drive) -> Item:
    period_s, rest_s = paper.figure("Section V-A", "period_s"), hardware_scenario().rest_s
    cycles = int(drive.duration_s / period_s) - 1
    first_ns = recording.first_stamp_ns()
    quarters = rest_s + period_s * (1.0 + np.arange(5) / 4.0)
    whole = rest_s + period_s * np.array([1.0, cycles])
    states, ends = (
        true_states(configuration, recording, first_ns + np.round(1e9 * at_s).astype(np.int64))
        for at_s in (quarters, whole)
    )
    heading = states[0, 2]
    along = np.array([np.cos(heading), np.sin(heading)])
    moved_cm = float(100.0 * along @ (ends[1] - ends[0])[:2] / (cycles - 1))
    rows = tuple(
        (f"{at_s - quarters[0]:.1f} s", *(f"{value:.1f}" for value in (100.0 * along @ (one - states[0])[:2],
         *np.rad2deg(one[3:]))))
        for at_s, one in zip(quarters, states, strict=True)
    )  # fmt: skip
    headings = ("in the cycle", "forward, cm", *(f"alpha_{j + 1}, deg" for j in range(states.shape[1] - 3)))
    printed_cm = paper.figure("Section V-A", "forward_cm_per_cycle")
    off = abs(moved_cm / printed_cm - 1.0)
    return Item(
        "Figure 5",
        "snapshots of a forward cycle",
        _outcome(off <= 0.1, off <= 0.5),
        f"{moved_cm:.2f} cm a cycle over {cycles - 1} cycles ({printed_cm} printed): friction, lag and harness of "
        "the scenario move a robot otherwise than the quasi-static model that the gait was designed with",
        (ReportTable(f"A cycle, {drive.name}", headings, rows, headings[1:]),),
        partial(figures.snapshots_figure, configuration.chain, states, quarters - quarters[0]),
        "Link by link at quarters of a cycle; the cross is the base frame.",
    )


def _validation(paper: Paper, models: Followed, name: str) -> Item:
    rows = tuple(
        (label, unit, f"{np.std(models.measured_cycle[:, k]):.4f}", f"{np.mean(models.spread_cycle[:, k]):.4f}",
         f"{models.missed(k):.2f}")
        for k, (label, unit) in enumerate(zip(models.names, models.units, strict=True))
    )  # fmt: skip
    place, shape = models.missed(0, 1), models.missed(*range(3, 2 + models.links))
    gyro = models.missed(2 + models.links + 1)
    headings = ("rate", "unit", "over a cycle", "between cycles", "model misses, of its RMS")
    return Item(
        "Figure 6",
        "models against motion capture and gyros",
        _outcome(place < shape and max(shape, gyro) < 1.0, place < shape),
        f"mean of {models.cycles} cycles ({paper.figure('Figure 6', 'cycles')} printed): the model misses {place:.2f} "
        f"of the velocity of the position and {shape:.2f} of the joints' (the paper, too, finds position the better "
        f"one), {gyro:.2f} of the second gyro",
        (ReportTable(f"Measured and modelled, {name}", headings, rows, headings[2:]),),
        partial(figures.validation_figure, models, 1),
        "Measured (solid, one deviation between cycles) and modelled (dashed).",
    )


# The filters.


def _training(paper: Paper, work: Work) -> Item:
    work.train()
    printed, configuration = partial(paper.figure, "Section V-B"), work.configuration
    links, initial = len(configuration.chain.link_names), configuration.initial
    points = work.points[MULTI_GAIT, FIRST_DAY]
    ours = {
        "training_points": points,
        "training_duration_s": points / printed("rate_hz"),
        "process_residuals": links + 2,
        "measurement_residuals": links,
        "input_dimensions": 2 * links - 1,
        "iterations": ITERATIONS,
        "initial_position_stddev_cm": 100.0 * initial.position_stddev_m,
        "initial_orientation_stddev_deg": initial.heading_stddev_deg,
        "initial_joint_angle_stddev_deg": initial.joint_angle_stddev_deg,
    }
    rows = tuple((name.replace("_", " "), f"{printed(name):g}", f"{value:g}") for name, value in ours.items())
    other = [name for name, value in ours.items() if abs(value - printed(name)) > 0.02 * printed(name)]
    same = "all numbers are those printed"
    return Item(
        "Section V-B",
        "parameters of the filter",
        _outcome(not other, len(other) < len(ours) / 2),
        same if not other else f"other than printed: {', '.join(name.replace('_', ' ') for name in other)}",
        (ReportTable("Training and start", ("number", "printed", "ours"), rows, ("printed", "ours")),),
    )


def _errors(work: Work) -> Item:
    work.judge()
    shown = next(drive for drive in work.outcomes if drive.gait == "forward" and drive.day == FIRST_DAY)
    names = (FORWARD_ONLY, MULTI_GAIT, OURS, PLAIN)
    both = {name: work.of(name, True, "forward") for name in names}
    rows = tuple((name, *_figures(runs)) for name, runs in both.items())
    ratio = _median([one.rmse_deg for one in both[MULTI_GAIT]]) / _median([one.rmse_deg for one in both[FORWARD_ONLY]])
    within = min(float(np.mean([one.within for one in both[name]])) for name in (FORWARD_ONLY, MULTI_GAIT))
    alike = 1.0 / SIMILAR <= ratio <= SIMILAR
    days = f"days {', '.join(map(str, work.days))}, {work.plan.test_s:g} s, from {SETTLE_S:g} s on"
    title = f"Held-out forward runs, {days}: medians (worst)"
    return Item(
        "Figure 7",
        "forward-only and multi-gait filter on a forward run",
        _outcome(alike and within >= COVERED, alike),
        f"joint RMSE of the multi-gait filter is {ratio:.2f} times that of the forward-only one (comparable: within "
        f"{SIMILAR:g} times); of the errors of the less sure one {within:.3f} lie within 3 sigma, where the paper sees "
        f"intermittent exceedances ({COVERED:g} wanted)",
        (ReportTable(title, ("filter", *_FIGURES), rows, _FIGURES),),
        partial(figures.errors_figure, shown.name, {name: work.outcomes[shown][name] for name in names[:2]}),
        "Pose errors along the body's axes; joint angles.",
    )


def _by_gait(paper: Paper, work: Work) -> Item:
    printed = partial(paper.figure, "Section V-C")
    names, rows = (FORWARD_ONLY, MULTI_GAIT, OURS, PLAIN), []
    for gait, name in ((gait, name) for gait in work.plan.gaits for name in names):
        said = "degraded" if gait in printed("degraded_gaits") else "similar"
        rows.append((gait, name, said if name == MULTI_GAIT else "", *_figures(work.of(name, True, gait))))
    away = {
        "taught by that day": (MULTI_GAIT, True), f"taught by that day; {AS_ONE}": (AS_ONE, True),
        "taught by one day, judged on others": (MULTI_GAIT, False),
        "taught by five days, judged on others": (FIVE_DAYS, False),
        f"the same; {AS_ONE}": (AS_ONE, False), f"the same; {AS_ONE} {WIDER}": (WIDER, False),
        "ours (calibrated), five days, judged on others": (OURS, False),
        "ours (no model), others": (PLAIN, False),
    }  # fmt: skip
    why = tuple((words, *_figures(work.of(*key))) for words, key in away.items())
    honest = tuple(
        (words, f"{one.variance_ratio:.2f}", f"{one.instants_as_one:.1f}") for words, one in work.honest.items()
    )
    error = {gait: _median([one.rmse_deg for one in work.of(MULTI_GAIT, True, gait)]) for gait in work.plan.gaits}
    straight = [error[gait] for gait in error if gait in printed("similar_gaits")]
    turning = [error[gait] for gait in error if gait in printed("degraded_gaits")]
    similar, degraded = max(straight) <= 2.0 * min(straight), min(turning) > max(straight)
    home, others, best = (float(np.mean([one.within for one in work.of(*key)]))
                          for key in ((MULTI_GAIT, True), (FIVE_DAYS, False), (WIDER, False)))  # fmt: skip
    day = f"days {', '.join(map(str, work.days))} teach and judge; others: {', '.join(map(str, work.test_days))}"
    same, last = work.honest["same day"], work.honest["five days teach"]
    headings = ("gait", "filter", "printed", *_FIGURES)
    title = f"By gait, held-out runs of the days that taught ({day}), {work.plan.test_s:g} s: medians (worst)"
    told = ("checked on", "left, of the stated variance", "instants that count as one")
    return Item(
        "Section V-C",
        "the multi-gait filter on all gaits, and away from home",
        _outcome(similar and degraded, similar or degraded),
        f"joint RMSE {min(straight):.2f} to {max(straight):.2f} deg without turning, {max(turning):.2f} deg turning. "
        f"Within 3 sigma: {home:.3f} on the day that taught, {others:.3f} on other days though five days taught. "
        f"Residuals last: on the day that taught {same.instants_as_one:.1f} instants tell as much as one, on another "
        f"day, where a part of them stays, {last.instants_as_one:.1f}; Q and R count each. And they are "
        f"{last.variance_ratio:.1f} times as large (variance) as the processes state; with both in Q and R {best:.3f} "
        "lie within 3 sigma",
        (
            ReportTable(title, headings, tuple(rows), headings[3:]),
            ReportTable(
                "What the paper's covariance lacks, all gaits: medians (worst)", ("filter", *_FIGURES), why, _FIGURES
            ),
            ReportTable("Residuals of the processes on runs that they have not seen", told, honest, told[1:]),
        ),
    )


def _observability(configuration: SalpConfiguration, paper: Paper, work: Work) -> Item:
    printed = partial(paper.figure, "Section V-C")
    drive = next(one for one in work.outcomes if one.gait == "left" and one.day == FIRST_DAY)
    run = work.outcomes[drive][MULTI_GAIT]
    total, parts = heuristic(configuration.chain.build(), run.joint_angles, run.controls, 0)
    seen, share = relation(run.time_s, total, run.stddev[:, 3], SETTLE_S), np.abs(parts[run.settled]).mean(axis=0)
    strongest = int(np.argmax(share)) + 1
    true = true_states(configuration, drive.recording(configuration), np.array([0, 10**9 * round(drive.duration_s)]))
    moved_cm = 100.0 * float(np.hypot(*(true[1] - true[0])[:2]))
    early = seen.strongest < 0.0 and seen.lag_s < printed("delay_below_s")
    far = moved_cm >= 0.7 * printed("left_gait_translation_cm")
    first = strongest == printed("strongest_actuator")
    rows = (
        ("actuator with the largest share", f"{printed('strongest_actuator')}", f"{strongest}"),
        ("delay of the covariance, s", f"below {printed('delay_below_s')}", f"{seen.lag_s:.2f}"),
        ("rank correlation there", "negative", f"{seen.strongest:.2f}"),
        ("lateral translation, cm", f"{printed('left_gait_translation_cm')}", f"{moved_cm:.0f}"),
        ("joint RMSE, deg", "", f"{run.rmse_deg:.2f}"),
    )
    return Item(
        "Figure 8",
        "left gait: error, Lambda, lambda_i, commands",
        _outcome(early and first and far, early or first),
        f"actuator {strongest} contributes most; the standard deviation of alpha_1 follows Lambda {seen.lag_s:.2f} s "
        f"later with a rank correlation of {seen.strongest:.2f}; the robot moves by {moved_cm:.0f} cm in "
        f"{drive.duration_s:g} s ({printed('left_gait_translation_cm')} printed, of a gait and a time that are not)",
        (ReportTable(f"Observability, {drive.name}", ("number", "printed", "ours"), rows, ("printed", "ours")),),
        partial(figures.observability_figure, run, total, parts),
        "Error with 3 sigma, the heuristic at the true joint angles, its share of each actuator, commands.",
    )


# A user's recordings.


def _of_recordings(
    configuration: SalpConfiguration,
    paper: Paper,
    recordings: Mapping[str, LoadedRecording],
    made: Plan,
    folder: Path,
) -> Iterator[Item]:
    """Figures 3, 6 and 7: the last one judges filters that all others taught."""
    if len(recordings) < 2:
        raise UserError(f"{len(recordings)} recording: at least 2 are needed, the last one judges, the others teach")
    *names, last = recordings
    models = _followed(configuration, paper, recordings[last], last)
    yield _residuals(paper, models, last)
    yield _validation(paper, models, last)
    others = {name: recordings[name] for name in names}
    files = {PAPER: folder / "paper.npz"}
    filters = [Filter("the paper's", files[PAPER])]
    if len(others) > 1:  # ours are told apart from run to run
        files[CALIBRATED] = folder / "ours.npz"
        filters.append(Filter(OURS, files[CALIBRATED]))
    taught_by(configuration, others, Lesson((), files, made.points, made.held_out))
    found = {one.name: judged(configuration, recordings[last], one) for one in (*filters, Filter(PLAIN))}
    rows = tuple((name, *_figures([run])) for name, run in found.items())
    within = found["the paper's"].within
    yield Item(
        "Figure 7",
        "the paper's filter and ours",
        _outcome(within >= COVERED, within >= 0.5),
        f"of the joint angles' errors of the paper's filter {within:.3f} lie within 3 sigma (intermittent exceedances)",
        (ReportTable(f"{last}, taught by {', '.join(names)}", ("filter", *_FIGURES), rows, _FIGURES),),
        partial(figures.errors_figure, last, dict(list(found.items())[:2])),
        "Pose errors along the body's axes; joint angles.",
    )


_FIGURES = ("joint RMSE, deg", "within 3 sigma", "NEES", "position off at the end, cm")


def _figures(runs: Sequence[Judged]) -> tuple[str, ...]:
    def of(value: Callable[[Judged], float], digits: int, worst: Callable[[list[float]], float] = max) -> str:
        values = [value(one) for one in runs]
        return f"{_median(values):.{digits}f} ({worst(values):.{digits}f})"

    return (
        of(lambda one: one.rmse_deg, 2), of(lambda one: one.within, 3, min), of(lambda one: one.mean_nees, 2),
        of(lambda one: one.drift_cm, 1),
    )  # fmt: skip


def _median(values: Sequence[float]) -> float:
    return float(np.median(values))


def _outcome(holds: bool, partly: bool) -> Outcome:
    return "reproduced" if holds else "partly" if partly else "not reproduced"
