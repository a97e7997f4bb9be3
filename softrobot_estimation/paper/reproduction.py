"""The tables and figures of the paper on Algorithm 1, made again on simulated robots, or told of a user's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Matrix, Vector
from onboard_estimation.base.workers import all_of
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.reproduced import Item, Outcome, Paper, find_paper
from onboard_estimation.contract.result import Panel
from onboard_estimation.contract.trained import ReportTable
from onboard_estimation.judging.side_by_side import side_by_side
from onboard_estimation.report.charts import Charts, charts_of
from onboard_estimation.report.plots import BAND, ESTIMATE, TRUTH, charts_figure
from softrobot_estimation.judging import foresight
from softrobot_estimation.judging.foresight import Filtered
from softrobot_estimation.judging.stiffness_report import maps
from softrobot_estimation.model.configuration import SoftRobotConfiguration
from softrobot_estimation.model.description import BASE, TIP
from softrobot_estimation.model.grey_box import STEP_S
from softrobot_estimation.paper.scenario import (
    CYCLE_S,
    HORIZONS,
    METHODS,
    SHARES,
    STEPS_S,
    Judged,
    Run,
    judged,
    simulated,
    tracked,
)
from softrobot_estimation.robot import ROBOT

ROBOTS = range(201, 211)
"""Seeds of robots; those of particles are 1 to 10."""
TARGET_MM, TARGET_PERCENT = 0.35, 20.0
LEAST_S = 15.0
"""Of motion capture in a user's recordings."""
PAPERS = ("particles_hyper_parameters", "particles", "ukf")
LEARNED = PAPERS[0]
MODELS = {
    LEARNED: ("learned", "learned (algorithm_1, hyper-parameters)"),
    "ukf": ("ukf", "the ukf's estimate, held"),
    "average": ("average", "average estimate, held"),
    "marginalized_pf": ("", "ours: learned (marginalized_pf)"),
    "best": ("", "ours: best constant"),
}
"""Of Table II: what is printed, and in words."""
PRINTED = {"position_rmse_mm": ("position, mm", 2), "velocity_rmse_mm_s": ("velocity, mm/s", 1), "nmse": ("NMSE", 3)}
BESIDE = {
    "tip_rmse_mm": ("tip, mm", 2),
    "stiffness_median_percent": ("stiffness off, median %", 1),
    "stiffness_rms_percent": ("stiffness off, RMS %", 1),
}
"""Columns of Table I with their digits, and what we have beside."""


def reproduce(
    configuration: SoftRobotConfiguration, recordings: Mapping[str, LoadedRecording], quick: bool
) -> Iterator[Item]:
    """Figure 2, Table I, Figure 3, Table II and the text's numbers; of recordings what they tell of the tables."""
    if recordings:
        yield from _recorded(configuration, recordings)
        return
    paper = find_paper("softrobot")
    seeds, run_s = ROBOTS[: 2 if quick else None], float(paper.figure("Figure 2", "run_s"))
    runs = 2 if quick else int(paper.figure("Table I", "runs"))
    tasks = [(configuration, seed, run_s, 1 if number else runs) for number, seed in enumerate(seeds)]
    robots: list[Judged] = all_of(judged, tasks)
    run = simulated(configuration, seeds[0], run_s)
    shown = {name: tracked(run, name) for name in (LEARNED, "ukf")}
    yield _figure_2(robots[0], run, shown, seeds[0])
    long = [] if quick else all_of(judged, [(configuration, seeds[0], CYCLE_S, 1)])
    yield _table_1(paper, robots, long, seeds, runs, run_s)
    yield _figure_3(paper, run, shown[LEARNED], seeds[0])
    yield _table_2(paper, robots, seeds)
    yield _text(paper, robots, seeds)


def _recorded(configuration: SoftRobotConfiguration, recordings: Mapping[str, LoadedRecording]) -> Iterator[Item]:
    """The tip by all filters, and how far they see ahead."""
    for run, recording in recordings.items():
        tip, base = (recording.tracks[one].stamps_ns if one in recording.tracks else () for one in (TIP, BASE))
        length_s = float(np.ptp(tip)) / NANOSECONDS_PER_SECOND if len(tip) else 0.0
        if length_s < LEAST_S or not len(base):
            raise UserError(
                f"{run}: {len(tip)} frames of the tip over {length_s:.1f} s and {len(base)} of the base; tip and base "
                f"over {LEAST_S:g} s are needed"
            )
    filters = {METHODS[LEARNED][0]: (configuration.with_parameters({"learning.hyper_parameters": True}), "algorithm_1")}
    filters |= {name: (configuration, name) for name in ("algorithm_1", "ukf", "marginalized_pf")}
    yield side_by_side(ROBOT, filters, recordings, "Table I")
    yield _foreseen(filters, recordings)


def _foreseen(
    filters: Mapping[str, tuple[SoftRobotConfiguration, str]], recordings: Mapping[str, LoadedRecording]
) -> Item:
    rows, ratios, ahead = [], [], partial(foresight.errors, steps=HORIZONS, step_s=STEP_S)
    for run, recording in recordings.items():
        found: dict[str, Any] = {label: ROBOT.estimator(*one) for label, one in filters.items()}
        found = {label: foresight.filtered(one, recording) for label, one in found.items()}
        ukf, truth = found["ukf"], foresight.true_states(found["ukf"].estimator.configuration, recording)
        best = foresight.best_constant([(ukf, truth)], SHARES, HORIZONS[-1], STEP_S)
        nmse = {label: ahead(one, truth) for label, one in found.items()}
        nmse[f"best constant, {best:.3f} N m/rad"] = ahead(ukf, truth, constant=best)
        rows += [(run, label, *(f"{one[count].mean():.3f}" for count in HORIZONS)) for label, one in nmse.items()]
        learned, *_, constant = (float(one[HORIZONS[-1]].mean()) for one in nmse.values())
        ratios.append(constant / learned)
    outcome: Outcome = "reproduced" if min(ratios) > 1.0 else "partly" if max(ratios) > 1.0 else "not reproduced"
    because = f"after {HORIZONS[-1]} steps the stiffness learned by Algorithm 1 is {min(ratios):.2f} to "
    because += f"{max(ratios):.2f} times better than the best constant one"
    headings = ("recording", "stiffness", *(f"{count} steps" for count in HORIZONS))
    title = f"NMSE after steps of {1e3 * STEP_S:g} ms, from {foresight.SETTLE_S:g} s on"
    table = ReportTable(title, headings, tuple(rows), headings[2:])
    return Item("Table II", "prediction over several steps", outcome, because, (table,))


def _figure_2(robot: Judged, run: Run, shown: Mapping[str, Filtered], seed: int) -> Item:
    learned, ukf = (next(one for one in robot.accuracies[name] if one) for name in shown)
    close = learned["nmse"] < 0.1 and learned["stiffness_median_percent"] < TARGET_PERCENT
    return Item(
        "Figure 2",
        "states and stiffness, true and estimated",
        "reproduced" if close else "partly",
        f"within an NMSE of {learned['nmse']:.3f} and a median error of the stiffness of "
        f"{learned['stiffness_median_percent']:.0f} % (ukf {ukf['nmse']:.3f}, {ukf['stiffness_median_percent']:.0f} "
        "%); the paper's stiffness has no truth",
        draw=partial(_draw_states, run, shown, seed),
        caption=f"Simulated robot, seed {seed}: pressures, states, rates and stiffness.",
    )


def _draw_states(run: Run, shown: Mapping[str, Filtered], seed: int) -> Figure:
    """Pressures, six states, and the stiffness: true, and as filters have them."""
    d, one = run.known.chambers.centre_radius_m, shown[LEARNED]
    names = ("true", "algorithm_1", "ukf")
    states = (run.truth.at(one.stamps_s), *(found.rows for found in shown.values()))
    panels = [Panel("u", "Pa", dict(zip(run.known.chambers.names, one.readings_pa.T, strict=True)))]
    for column, (label, unit, scale) in enumerate(
        [("dx", "m", d), ("dy", "m", d), ("dL", "m", 1.0), ("dx'", "m/s", d), ("dy'", "m/s", d), ("dL'", "m/s", 1.0)]
    ):
        panels.append(Panel(label, unit, {name: scale * of[:, column] for name, of in zip(names, states, strict=True)}))
    stiffness = (_true(run, one), *(found.stiffness_now for found in shown.values()))
    panels.append(Panel("k", "N/m", {name: of / d**2 for name, of in zip(names, stiffness, strict=True)}))
    time_s = one.stamps_s - one.stamps_s[0]
    title = f"States and stiffness, simulated, seed {seed}"
    return charts_figure(title, [Charts("", time_s, charts_of(panels, time_s))])


def _true(run: Run, found: Filtered) -> Vector:
    """(K,) stiffness at a filter's wrenches, N m/rad."""
    return np.interp(found.stamps_s, run.truth.stamps_s, run.stiffness)


def _table_1(
    paper: Paper, robots: Sequence[Judged], long: Sequence[Judged], seeds: Sequence[int], runs: int, run_s: float
) -> Item:
    first = {name: [robot.accuracies[name][0] for robot in robots] for name in METHODS}
    medians = {
        name: {field: float(np.median([one[field] for one in first[name] if one])) for field in first["ukf"][0] or ()}
        for name in PAPERS
    }
    ranked = {
        field: (
            sorted(PAPERS, key=lambda name: float(paper.figure("Table I", name, field))),
            sorted(PAPERS, key=lambda name: medians[name][field]),
        )
        for field in PRINTED
    }
    alike = [field for field, (there, here) in ranked.items() if there == here]
    outcome: Outcome = "reproduced" if len(alike) == len(ranked) else "partly" if alike else "not reproduced"
    orders = "; ".join(
        f"by {field.split('_')[0]} {' < '.join(there)} there, {' < '.join(here)} here"
        for field, (there, here) in ranked.items()
        if there != here
    )
    learned, fixed, ukf = (medians[name] for name in PAPERS)
    because = f"the order of the three is that of the paper in {len(alike)} of {len(ranked)} columns"
    because += (f" ({orders})" if orders else "") + (
        f". Robots here have no model error but the stiffness, which the ukf follows: {ukf['position_rmse_mm']:.2f} "
        f"mm. Algorithm 1 has {learned['position_rmse_mm']:.2f} and {fixed['position_rmse_mm']:.2f} mm, "
        f"{'within' if learned['position_rmse_mm'] <= TARGET_MM else 'beyond'} {TARGET_MM} mm in the paper's "
        f"coordinates, {learned['tip_rmse_mm']:.2f} mm at the tip, and its stiffness errs by "
        f"{learned['stiffness_median_percent']:.0f} % in the median: of {paper.figure('Section VII-A', 'particles')} "
        f"particles {learned['effective_particles']:.0f} are effective, soon all have one past, and its samples of k "
        "are taken for independent"
    )
    who = f"simulated robot{{}}, {run_s:g} s"
    again = f"Seed {seeds[0]}: {who.format('')}, {runs} runs of particles; means, worst"
    tables = [
        _accuracies(paper, again, robots[0].accuracies, np.mean),
        _accuracies(paper, f"Seeds {seeds[0]} to {seeds[-1]}: {who.format('s')}; medians, worst", first),
    ]
    if long:
        whole = f"Seed {seeds[0]}: simulated robot, {CYCLE_S:g} s from rest on, one run of particles"
        tables.append(_accuracies(paper, whole, long[0].accuracies))
    return Item("Table I", "accuracy of the states", outcome, because, tuple(tables))


def _accuracies(
    paper: Paper,
    title: str,
    found: Mapping[str, Sequence[dict[str, float] | None]],
    centre: Callable[[list[float]], Any] = np.median,
) -> ReportTable:
    """Of runs, None where all particles were lost; the worst in brackets."""
    rows = []
    for name, (words, *_) in METHODS.items():
        printed, cells, known = paper.printed["Table I"].get(name, {}), [words], [one for one in found[name] if one]
        lost = f", {len(found[name]) - len(known)} lost" if len(known) < len(found[name]) else ""
        for field, (_, digits) in (PRINTED | BESIDE).items():
            if field in PRINTED:
                cells.append(str(printed.get(field, "-")))
            values = [one[field] for one in known]
            cells.append(f"{centre(values):.{digits}f} ({max(values):.{digits}f}{lost})" if known else "lost")
        rows.append(tuple(cells))
    both = [f"{where}: {word}" for word, _ in PRINTED.values() for where in ("printed", "ours")]
    headings = ("filter", *both, *(word for word, _ in BESIDE.values()))
    return ReportTable(title, headings, tuple(rows), headings[1:])


def _figure_3(paper: Paper, run: Run, found: Filtered, seed: int) -> Item:
    learned: Any = found.estimator.learned(found.state)
    height_m = float(paper.figure("Figure 3", "elongation_m"))
    means, stddevs = learned.predict(found.rows[:, :3])
    apart = np.abs(found.drawn.mean(axis=1) - means[:, 0]) / np.hypot(stddevs[:, 0], learned.noise_stddevs[0])
    consistent = 100.0 * float(np.mean(apart < 3.0))
    off = 100.0 * float(np.median(np.abs(means[:, 0] / _true(run, found) - 1.0)))
    d = run.known.chambers.centre_radius_m
    return Item(
        "Figure 3",
        "learned stiffness over dx and dy, and samples of it over time",
        "reproduced" if consistent > 95.0 and off < TARGET_PERCENT else "partly",
        f"within three deviations of the learned function in {consistent:.0f} % of the steps particles have "
        f"their samples, as there; the function learned by {paper.figure('Figure 3', 'at_s')} s is "
        f"{off:.0f} % off the true one in the median where the robot was",
        draw=partial(_draw_stiffness, run, found, height_m, f"Simulated robot, seed {seed}: learned stiffness"),
        caption=(
            f"Simulated robot, seed {seed}. Left: the learned stiffness at dL = {height_m:g} m, with the estimated "
            f"states, and its standard deviation. Right: samples of particles, and the function at the end. In the "
            f"paper's units 1 rad is {1e3 * d:.3g} mm, and 0.1 N m/rad are {0.1 / d**2:.3g} N/m."
        ),
    )


def _draw_stiffness(run: Run, found: Filtered, elongation_m: float, title: str) -> Figure:
    """Mean and deviation over bending at an elongation; right, particles' samples and the learned function."""
    learned: Any = found.estimator.learned(found.state)
    figure, axes = maps(learned, found.rows[:, :3], title, elongation_m)
    time_s, samples = found.stamps_s - found.stamps_s[0], found.drawn
    dots = np.repeat(time_s, samples.shape[1]), samples.ravel()
    axes.plot(*dots, ".", color=BAND, markersize=1.0, label="samples of k")
    axes.plot(time_s, learned.predict(found.rows[:, :3])[0][:, 0], color=ESTIMATE, label="function learned by the end")
    axes.plot(time_s, _true(run, found), color=TRUTH, linewidth=0.8, label="true")
    low, high = np.percentile(samples, [0.5, 99.5])
    axes.set(xlabel="time (s)", ylabel="stiffness (N m/rad)", ylim=(1.1 * low - 0.1 * high, 1.1 * high - 0.1 * low))
    axes.legend()
    return figure


def _nmse(robots: Sequence[Judged], model: str, count: int, step_s: float) -> Matrix:
    """(R, 6)."""
    return np.array([robot.ahead[model][count, step_s] for robot in robots])


def _table_2(paper: Paper, robots: Sequence[Judged], seeds: Sequence[int]) -> Item:
    rows, better = [], 0
    for count in HORIZONS:
        for model, (key, words) in MODELS.items():
            printed, cells = paper.printed["Table II"][f"h_{count}"].get(key), [f"h = {count}: {words}"]
            for column, step_s in enumerate(STEPS_S):
                stddevs = [f" ({one})" for one in printed["nmse_stddev"][column : column + 1]] if printed else []
                cells.append(f"{printed['nmse'][column]}{''.join(stddevs)}" if printed else "-")
                values = _nmse(robots, model, count, step_s)
                cells.append(f"{_short(values.mean(axis=1))} ({_short(values.std(axis=1))})")
            rows.append(tuple(cells))
        better += sum(_ratio(robots, "average", count, step_s) > 1.0 for step_s in STEPS_S)
    of = len(HORIZONS) * len(STEPS_S)
    far = [_ratio(robots, model, HORIZONS[-1], STEPS_S[-1]) for model in ("average", "ukf")]
    off = np.median([one["stiffness_rms_percent"] for robot in robots if (one := robot.accuracies[LEARNED][0])])
    all_better = better == of and min(far) > 1.0
    outcome: Outcome = "reproduced" if all_better else "partly" if better > of // 2 else "not reproduced"
    because = (
        f"the learned stiffness foresees better than the average one in {better} of {of} cells; at the far end (h = "
        f"{HORIZONS[-1]}, {1e3 * STEPS_S[-1]:g} ms) its NMSE is {far[0]:.2f} times less than the average's and "
        f"{far[1]:.2f} times less than with the ukf's held estimate, for it errs by {off:.0f} % (RMS). All start from "
        "true states. Steps only set how far is looked: the model is integrated in steps that are short enough"
    )
    headings = ("model", *(f"{where}, {1e3 * step_s:g} ms" for step_s in STEPS_S for where in ("printed", "ours")))
    title = f"Seeds {seeds[0]} to {seeds[-1]}: NMSE, mean (standard deviation) over states; medians over robots"
    table = ReportTable(title, headings, tuple(rows), headings[1:])
    return Item("Table II", "prediction over several steps", outcome, because, (table,))


def _short(values: Vector) -> str:
    median = np.median(values)
    return f"{median:.2g}" if median < 10.0 else ">10"


def _ratio(robots: Sequence[Judged], model: str, count: int, step_s: float) -> float:
    """Of a model's NMSE to that of Algorithm 1 with hyper-parameters: median over robots."""
    others, learned = (_nmse(robots, one, count, step_s).mean(axis=1) for one in (model, LEARNED))
    return float(np.median(others / learned))


def _text(paper: Paper, robots: Sequence[Judged], seeds: Sequence[int]) -> Item:
    far = [(count, step_s) for count in HORIZONS[1:] for step_s in STEPS_S[2:]]
    average, ukf, best = (
        np.array([_ratio(robots, model, *one) for one in far]) for model in ("average", "ukf", "best")
    )
    stiffness, percent = np.array([robot.average_n_per_m for robot in robots]), 100.0 * (1.0 - 1.0 / ukf)
    printed_n_per_m, times, printed_percent = paper.printed["Section VII-C"].values()
    rows = (
        ("average stiffness, N/m", str(printed_n_per_m), _span(stiffness, 0)),
        ("better than the average estimate, times", f"{times} or more", _span(average)),
        ("better than the ukf's estimate, %", f"approx. {printed_percent}", _span(percent)),
        ("better than the best constant, times", "-", _span(best)),
    )
    doubled, ahead = float(np.median(average)) >= times, float(np.median(ukf)) > 1.0
    outcome: Outcome = "reproduced" if doubled and ahead else "partly" if doubled or ahead else "not reproduced"
    because = (
        f"for larger steps and horizons learned stiffness is {np.median(average):.2f} times better than the average "
        f"one and {np.median(ukf):.2f} times better than the ukf's; stiffness in N/m is that of other robots"
    )
    headings = ("", "printed", "ours")
    title = f"h = 10 and 20, 5 to 10 ms: medians over robots {seeds[0]} to {seeds[-1]}, from least to largest"
    return Item("Section VII-C", "numbers of the text", outcome, because, (ReportTable(title, headings, rows),))


def _span(values: Vector, digits: int = 2) -> str:
    return f"{np.median(values):.{digits}f} ({values.min():.{digits}f} to {values.max():.{digits}f})"
