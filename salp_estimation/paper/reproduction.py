"""The LandSalp paper's figures 2, 3 and 5 to 8 and the numbers of its text, made again (see `Reproduced.reproduce`).

Simulated with the scenario `hardware`. The paper's training and held-out runs are of one robot; so are those of one day
here. Beside them stand days that taught nothing, each another robot: there it shows what the paper's covariance lacks.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import normaltest

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.base.presentation import display_unit
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.reproduced import Item, Outcome, Paper, find_paper
from onboard_estimation.contract.trained import ReportTable
from onboard_estimation.judging.side_by_side import side_by_side
from onboard_estimation.judging.truth import truth_at
from onboard_estimation.report.charts import section_charts
from onboard_estimation.report.plots import charts_figure
from salp_estimation.estimators.chain_estimator import COMMAND
from salp_estimation.judging.observability import observe, section
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.model.gait_design import describe, gait_for
from salp_estimation.model.gait_fit import effort
from salp_estimation.model.gait_report import draw_snapshots
from salp_estimation.model.gaits import GAITS, SETTLE_S
from salp_estimation.paper import figures
from salp_estimation.paper.runs import (
    AS_ONE,
    FIRST_DAY,
    FIVE_DAYS,
    FORWARD_ONLY,
    MULTI_GAIT,
    OURS,
    PLAIN,
    SHOWN_RUN,
    Drive,
    Study,
    driven,
    evaluated,
    teach,
)
from salp_estimation.robot import ROBOT
from salp_estimation.simulation.hardware_scenario import hardware_scenario
from salp_estimation.training.motion import DEFAULT_CUTOFF_HZ
from salp_estimation.training.paper_training import ITERATIONS
from salp_estimation.training.runs import Run, run_from_recording
from salp_estimation.training.validation import compared, figure_of, validate

Rows = NDArray[np.float64]

SIMILAR, COVERED = 1.5, 0.95
"""Errors of two filters are comparable within this factor, and covered by three sigma where this share is."""
_MOVING_M_S = 1e-3
_FIGURES = ("joint RMSE, deg", "within 3 sigma", "NEES", "position off at the end, cm")


def reproduce(
    configuration: SalpConfiguration, recordings: Mapping[str, LoadedRecording], quick: bool
) -> Iterator[Item]:
    """See `Reproduced.reproduce`; of a user's recordings the last one judges, the others teach."""
    paper = find_paper("landsalp")
    lesson = (paper.figure("Section V-B", name) for name in ("training_points", "training_duration_s"))
    with tempfile.TemporaryDirectory() as folder:
        points, duration_s = lesson
        study = Study(configuration, Path(folder), points, duration_s / len(GAITS), quick)
        if recordings:
            yield from _of_recordings(paper, study, recordings)
            return
        yield _gaits(configuration, paper)
        shown = Drive("forward", FIRST_DAY, SHOWN_RUN, 54.0)
        recording = shown.recording(configuration)
        run = _run(configuration, recording, shown.name)
        yield _residuals(configuration, paper, run)
        yield _snapshots(configuration, paper, recording, shown)
        yield _validation(configuration, paper, run, "simulated")
        yield _training(paper, study)
        study.judge()
        yield _errors(study)
        yield _by_gait(paper, study)
        yield _observability(paper, study)


def _of_recordings(paper: Paper, study: Study, recordings: Mapping[str, LoadedRecording]) -> Iterator[Item]:
    """Figures 3, 6 and 7: the last one judges filters that all others taught."""
    if len(recordings) < 2:
        raise UserError(f"{len(recordings)} recording: at least 2 are needed, the last one judges, the others teach")
    *names, last = recordings
    run = _run(study.configuration, recordings[last], last)
    yield _residuals(study.configuration, paper, run)
    yield _validation(study.configuration, paper, run, "recorded")
    files = {name: study.model(name) for name in (MULTI_GAIT, OURS)[: len(names)]}  # ours tells runs apart
    teach(study.configuration, {name: recordings[name] for name in names}, files, study.points, study.quick)
    models = dict(zip(("the paper's", OURS, PLAIN), map(str, files.values()), strict=False)) | {PLAIN: ""}
    filters = {name: (replace(study.configuration, residual_model=one), "ukf") for name, one in models.items()}
    yield side_by_side(ROBOT, filters, {last: recordings[last]}, "Figure 7")


# The models.


def _gaits(configuration: SalpConfiguration, paper: Paper) -> Item:
    chain = configuration.chain.build()
    found = {name: describe(chain, gait_for(configuration.chain, name)) for name in GAITS}
    wanted_cm, period_s = (paper.figure("Section V-A", name) for name in ("forward_cm_per_cycle", "period_s"))
    efforts, rows = {name: effort(one.gait) for name, one in found.items()}, []
    for name, one in found.items():
        x, y, turn = one.states[-1, :3]
        said = f"{wanted_cm} cm, {period_s} s" if name == "forward" else ""
        moved = f"{100.0 * x:.2f}, {100.0 * y:.2f} cm, {np.rad2deg(turn):.1f} deg"
        rows.append((name, said, f"{one.gait.period_s:g} s", moved, f"{1e3 * efforts[name]:.2f}"))
    headings = "gait", "printed", "period", "a cycle moves forward, left, turns", "mean square of u, 1e-3 m^2/s^2"
    forward_cm = 100.0 * float(found["forward"].states[-1, 0])
    largest, smallest = max(efforts, key=efforts.__getitem__), min(efforts, key=efforts.__getitem__)
    right = abs(forward_cm - wanted_cm) < 0.1 and found["forward"].gait.period_s == period_s
    ordered = largest == "turning" and smallest in ("left", "right")
    return Item(
        "Figure 2",
        "gaits: controls and joint angles",
        _outcome(right and ordered, right or ordered),
        f"forward {forward_cm:.2f} cm a cycle; the most thrust takes {largest}, the least {smallest}, as printed; "
        "coefficients of forward are published, the others designed here",
        (ReportTable("Gaits of the quasi-static model", headings, tuple(rows), headings[2:]),),
        partial(figures.gaits_figure, found, configuration.chain),
        "Rim speeds over a cycle, and the joint angles that they lead to.",
    )


def _run(configuration: SalpConfiguration, recording: LoadedRecording, name: str) -> Run:
    """Where the robot is driven with all gyros; UserError where that is for less than a cycle."""
    run = run_from_recording(configuration, recording, name, DEFAULT_CUTOFF_HZ)
    known = np.isfinite(compared(run)[1][0]).all(axis=1) & (np.abs(run.controls).max(axis=1) > _MOVING_M_S)
    run = replace(run, usable=run.usable & known)
    if run.frequency_hz <= 0.0 or run.usable.sum() < run.motion.rate_hz / run.frequency_hz:
        raise UserError(
            f"{name}: gyros of all links, and a cycle of commands that repeat themselves, in sight of the motion "
            "capture, are needed"
        )
    return run


def _residuals(configuration: SalpConfiguration, paper: Paper, run: Run) -> Item:
    rate_hz, duration_s, printed = (paper.figure("Figure 3", name) for name in ("rate_hz", "duration_s", "residuals"))
    names, (measured, modelled) = compared(run, configuration.chain.build())
    left = (measured - modelled)[run.usable]
    known_s = run.motion.stamps_ns[run.usable] / NANOSECONDS_PER_SECOND
    at_s = known_s[0] + np.arange(0.0, min(duration_s, known_s[-1] - known_s[0]), 1.0 / rate_hz)
    left = np.column_stack([np.interp(at_s, known_s, column) for column in left.T])
    count, of = left.shape
    cycle = round(rate_hz / run.frequency_hz)
    cycles = left[: count // cycle * cycle].reshape(-1, cycle, of).mean(axis=1)
    in_errors = np.abs(left.mean(axis=0)) / left.std(axis=0) * np.sqrt(count)
    of_cycles = np.abs(cycles.mean(axis=0)) / cycles.std(axis=0) * np.sqrt(len(cycles) - 1.0)
    p_values = normaltest(left).pvalue
    rows, units = [], [display_unit("m/s" if k < 2 else "rad/s", column.std()) for k, column in enumerate(left.T)]
    for name, (unit, factor), column, *others in zip(names, units, left.T, in_errors, of_cycles, p_values, strict=True):
        sizes = (f"{factor * size:.3g}" for size in (column.mean(), column.std()))
        rows.append((name, unit, *sizes, f"{others[0]:.1f}", f"{others[1]:.1f}", f"{others[2]:.1g}"))
    headings = "residual", "unit", "mean", "deviation", "mean in its errors", "of whole cycles", "normal: p"
    biased, lasting, skewed = ((in_errors > 3.0).sum(), (of_cycles > 3.0).sum(), (p_values < 1e-3).sum())
    shown = [f"{name}, {unit}" for name, (unit, _) in zip(names, units, strict=True)]
    return Item(
        "Figure 3",
        "residuals of the models, forward gait",
        _outcome(min(biased, lasting, skewed) > of / 2, min(biased, skewed) > of / 2),
        f"of {count} residuals ({printed} printed), {biased} of {of} means are more than three standard errors "
        f"from zero as samples, {lasting} of {of} as means of whole cycles: residuals repeat themselves with the gait, "
        f"and little but a gyro's bias is left of a cycle; {skewed} of {of} are not Gaussian (p below 0.001)",
        (ReportTable(f"Residuals at {rate_hz} Hz, {run.name}", headings, tuple(rows), headings[2:]),),
        partial(figures.histograms_figure, shown, left * [factor for _, factor in units], of // 2 - 1),
        "Rates and gyros, measured less modelled, low-passed at 2 Hz.",
    )


def _snapshots(configuration: SalpConfiguration, paper: Paper, recording: LoadedRecording, drive: Drive) -> Item:
    period_s, printed_cm = (paper.figure("Section V-A", name) for name in ("period_s", "forward_cm_per_cycle"))
    cycles = int(drive.duration_s / period_s) - 1
    at_s = hardware_scenario().rest_s + period_s * np.array([1.0, 1.25, 1.5, 1.75, 2.0, cycles])
    states = np.hstack([*truth_at(ROBOT, configuration, recording, (1e9 * at_s).astype(np.int64), 0.1)[0].values()])
    along = np.array([np.cos(states[0, 2]), np.sin(states[0, 2])])
    moved_cm = float(100.0 * along @ (states[-1] - states[0])[:2] / (cycles - 1))
    off = abs(moved_cm / printed_cm - 1.0)

    def draw() -> Figure:
        figure = Figure(figsize=(6.0, 6.0), layout="constrained")
        draw_snapshots(figure.subplots(), at_s[:5] - at_s[0], states[:5], configuration.chain)
        return figure

    return Item(
        "Figure 5",
        "snapshots of a forward cycle",
        _outcome(off <= 0.1, off <= 0.5),
        f"{moved_cm:.2f} cm a cycle over {cycles - 1} cycles ({printed_cm} printed): friction, lag and harness of "
        "the scenario move a robot otherwise than the quasi-static model that the gait was designed with",
        draw=draw,
        caption=f"Link by link at quarters of a cycle, {drive.name}; dashed: at its start; the dot is the base frame.",
    )


def _validation(configuration: SalpConfiguration, paper: Paper, run: Run, source: str) -> Item:
    """Over as many whole cycles as the paper has, or as there are."""
    stamps_ns, most = run.motion.stamps_ns, paper.figure("Figure 6", "cycles")
    used_ns, period_ns = stamps_ns[run.usable], NANOSECONDS_PER_SECOND / run.frequency_hz
    cycles = min(most, int((used_ns[-1] - used_ns[0]) / period_ns))
    chain, late = configuration.chain.build(), stamps_ns >= used_ns[0] + cycles * period_ns
    found = validate(replace(run, usable=run.usable & ~late), chain, chain)
    cycle = {one.name: np.stack([one.measured[0], one.predicted[0]]) for one in found.signals}

    def missed(*names: str) -> float:
        measured, modelled = np.hstack([cycle[name] for name in names])
        return float(np.sqrt(np.nanmean((measured - modelled) ** 2) / np.nanmean(measured**2)))

    joints = [name for name in cycle if name.startswith("alpha")]
    place, shape, gyro = missed("forward", "left"), missed(*joints), missed("gyro 2")
    return Item(
        "Figure 6",
        "models against motion capture and gyros",
        _outcome(place < shape and max(shape, gyro) < 1.0, place < shape),
        f"mean of {cycles} cycles ({most} printed): the model misses {place:.2f} of the velocity of the position and "
        f"{shape:.2f} of the joints' (the paper, too, finds position the better one), {gyro:.2f} of the second gyro",
        draw=partial(figure_of, [found], [], source, ""),
        caption=f"Rates and gyros over a cycle, {run.name}.",
    )


# The filters.


def _training(paper: Paper, study: Study) -> Item:
    points, printed = study.train(), partial(paper.figure, "Section V-B")
    links, initial = len(study.configuration.chain.link_names), study.configuration.initial
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
    other = [name.replace("_", " ") for name, one in ours.items() if abs(one - printed(name)) > 0.02 * printed(name)]
    return Item(
        "Section V-B",
        "parameters of the filter",
        _outcome(not other, len(other) < len(ours) / 2),
        f"other than printed: {', '.join(other)}" if other else "all numbers are those printed",
        (ReportTable("Training and start", ("number", "printed", "ours"), rows, ("printed", "ours")),),
    )


def _errors(study: Study) -> Item:
    runs = {name: of[study.gaits.index("forward")] for name, of in study.home.items()}
    rows = tuple((name, *_cells(of)) for name, of in runs.items())
    ratio = np.divide(*(np.median(runs[name][:, 0]) for name in (MULTI_GAIT, FORWARD_ONLY)))
    within = min(runs[name][:, 1].mean() for name in (MULTI_GAIT, FORWARD_ONLY))
    alike = bool(1.0 / SIMILAR <= ratio <= SIMILAR)
    days = f"days {', '.join(map(str, study.days))}, {study.test_s:g} s, from {SETTLE_S:g} s on"
    drive = next(one for one in study.tests(study.days) if one.gait == "forward")

    recording = driven(drive.recording(study.configuration))
    shown = {name: evaluated(study.configuration, recording, study.model(name)) for name in (FORWARD_ONLY, MULTI_GAIT)}
    return Item(
        "Figure 7",
        "forward-only and multi-gait filter on a forward run",
        _outcome(alike and within >= COVERED, alike),
        f"joint RMSE of the multi-gait filter is {ratio:.2f} times that of the forward-only one (comparable: within "
        f"{SIMILAR:g} times); of the errors of the less sure one {within:.3f} lie within 3 sigma, where the paper sees "
        f"intermittent exceedances ({COVERED:g} wanted)",
        (ReportTable(f"Held-out forward runs, {days}: medians (worst)", ("filter", *_FIGURES), rows, _FIGURES),),
        partial(figures.errors_figure, drive.name, shown),
        "Pose errors along the body's axes; joint angles.",
    )


def _by_gait(paper: Paper, study: Study) -> Item:
    degraded_gaits = paper.figure("Section V-C", "degraded_gaits")
    rows, error = [], np.median(study.home[MULTI_GAIT][..., 0], axis=1)
    turns = np.array([gait in degraded_gaits for gait in study.gaits])
    for k, gait in enumerate(study.gaits):
        for name, of in study.home.items():
            said = "degraded" if turns[k] else "similar"
            rows.append((gait, name, said if name == MULTI_GAIT else "", *_cells(of[k])))
    straight, turning = error[~turns], error[turns]
    similar, degraded = straight.max() <= 2.0 * straight.min(), turning.min() > straight.max()
    why = {
        "taught by that day": study.home[MULTI_GAIT],
        "taught by one day, judged on others": study.away[MULTI_GAIT],
        "taught by five days, judged on others": study.away[FIVE_DAYS],
        "the same; errors that last count once": study.away[AS_ONE],
        "ours (calibrated), five days, judged on others": study.away[OURS],
        "ours (no model), others": study.away[PLAIN],
    }
    (at_home, lasts), (home, others, best) = study.lasts, (
        float(of[..., 1].mean()) for of in (study.home[MULTI_GAIT], study.away[FIVE_DAYS], study.away[AS_ONE])
    )  # fmt: skip
    day = f"days {', '.join(map(str, study.days))} teach and judge; others: {', '.join(map(str, study.test_days))}"
    headings = ("gait", "filter", "printed", *_FIGURES)
    title = f"By gait, held-out runs of the days that taught ({day}), {study.test_s:g} s: medians (worst)"
    lacking = tuple((words, *_cells(of.reshape(-1, len(_FIGURES)))) for words, of in why.items())
    return Item(
        "Section V-C",
        "the multi-gait filter on all gaits, and away from home",
        _outcome(bool(similar and degraded), bool(similar or degraded)),
        f"joint RMSE {straight.min():.2f} to {straight.max():.2f} deg without turning, {turning.max():.2f} deg "
        f"turning. Within 3 sigma: {home:.3f} on the day that taught, {others:.3f} on other days though five days "
        f"taught. Residuals last: on the day that taught {at_home:.1f} instants tell as much as one, on another "
        f"day, where a part of them stays, {lasts:.1f}; Q and R count each. And they are "
        f"{study.variance_ratio:.1f} times as large (variance) as the processes state. With Q and R {lasts:.1f} times "
        f"as large {best:.3f} lie within 3 sigma",
        (
            ReportTable(title, headings, tuple(rows), headings[3:]),
            ReportTable(
                "What the paper's covariance lacks, all gaits: medians (worst)",
                ("filter", *_FIGURES),
                lacking,
                _FIGURES,
            ),
        ),
    )


def _observability(paper: Paper, study: Study) -> Item:
    printed, configuration = partial(paper.figure, "Section V-C"), study.configuration
    drive = next(one for one in study.tests(study.days) if one.gait == "left")
    recording = driven(drive.recording(configuration))
    result = evaluated(configuration, recording, study.model(MULTI_GAIT))
    command = next(one for one in recording.series if one.channel.sensor == COMMAND)
    angles, pose = result.parts["joint_angles"], result.parts["pose"]
    seen = observe(configuration.chain, command, result.stamps_ns, angles, SETTLE_S, [0])
    (joint,) = seen.joints
    found, share = joint.relation, np.abs(joint.contributions[seen.time_s >= SETTLE_S]).mean(axis=0)
    strongest, places = int(np.argmax(share)) + 1, pose.truth[pose.matched, :2]
    moved_cm = 100.0 * float(np.hypot(*(places[-1] - places[0])))
    early = found.strongest < 0.0 and found.lag_s < printed("delay_below_s")
    far = moved_cm >= 0.7 * printed("left_gait_translation_cm")
    first = strongest == printed("strongest_actuator")
    rows = (
        ("actuator with the largest share", f"{printed('strongest_actuator')}", f"{strongest}"),
        ("delay of the covariance, s", f"below {printed('delay_below_s')}", f"{found.lag_s:.2f}"),
        ("rank correlation there", "negative", f"{found.strongest:.2f}"),
        ("lateral translation, cm", f"{printed('left_gait_translation_cm')}", f"{moved_cm:.0f}"),
    )
    return Item(
        "Figure 8",
        "left gait: error, Lambda, lambda_i, commands",
        _outcome(early and first and far, early or first),
        f"actuator {strongest} contributes most; the standard deviation of alpha_1 follows Lambda {found.lag_s:.2f} s "
        f"later with a rank correlation of {found.strongest:.2f}; the robot moves by {moved_cm:.0f} cm in "
        f"{drive.duration_s:g} s ({printed('left_gait_translation_cm')} printed, of a gait and a time that are not)",
        (ReportTable(f"Observability, {drive.name}", ("number", "printed", "ours"), rows, ("printed", "ours")),),
        partial(_charts, "Left gait, multi-gait filter", section(configuration.chain, seen)),
        "Error with 3 sigma, the heuristic at the true joint angles, its share of each actuator, commands.",
    )


def _charts(title: str, of: Any) -> Figure:
    return charts_figure(title, section_charts(of)[:1])


def _cells(runs: Rows) -> list[str]:
    """Medians and worst of `_FIGURES`, of runs (R, 4)."""
    worst = np.where([False, True, False, False], runs.min(axis=0), runs.max(axis=0))
    values = zip(np.median(runs, axis=0), worst, (2, 3, 2, 1), strict=True)
    return [f"{middle:.{digits}f} ({last:.{digits}f})" for middle, last, digits in values]


def _outcome(holds: bool, partly: bool) -> Outcome:
    return "reproduced" if holds else "partly" if partly else "not reproduced"
