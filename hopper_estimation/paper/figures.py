"""The paper's figures 4 to 8 as items: what is printed of them, what comes out on simulated robots, and the drawing.

Figure 5, the ground's height summed up over thirty hops, as the paper does and as this package does. With heights of
the filter at touchdown, z_TD (before its update), and at the apex before, z_HA, L the standing height:

    eq. (11)   change = (z_HA,k-1 - z_TD,k-1) - (z_HA,k - z_TD,k)      a drop that is shorter ends higher
    eq. (12)   change = z_TD,k - L
    eq. (13)   their mean

The text has lost the formulas; these follow from its words. Summed up, eq. (11) leaves nothing but the first and the
last drop: it neither drifts nor follows the ground. Eq. (12) adds up what each touchdown is seen too high.

Figure 6, KF1, trained at 840 Hz, where accelerometers are read more or less often. The robot is controlled by its true
state and goes on hopping, and touchdowns give its height anew: errors that would grow without end stay as large as hops
are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from hopper_estimation.estimators.estimator import HopperEstimator
from hopper_estimation.estimators.filters import Filtered, FilterEntry
from hopper_estimation.estimators.vertical_kernels import liftoff_velocity
from hopper_estimation.model.phases import APEX, DELAY_TD, EVENTS, LIFTOFF, MAX_SQUAT, TOUCHDOWN, Array
from hopper_estimation.paper.study import Size, Study, by_name, shown
from hopper_estimation.paper.trials import CONFIGURATION, FIRST_TEST_SEED, START_S, recorded, sensed, told
from hopper_estimation.training.filter_calibration import Trial, trial_of
from hopper_estimation.training.training import sensitivity_figure
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.base.workers import all_of
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.reproduced import Item, Outcome, Paper
from onboard_estimation.contract.result import Panel
from onboard_estimation.contract.trained import ReportTable
from onboard_estimation.pipeline.pipeline import Pipeline
from onboard_estimation.report.charts import Charts, charts_of
from onboard_estimation.report.plots import SERIES, add_legend, charts_figure, panels_of

HOPS, _GROUND_S = 30, 86.0
"""More than thirty hops, of 4 m too."""
_FLOORS = {
    "level, hops of 1 to 4 m": ("hardware", "mixed"),
    "level, hops of 4 m": ("hardware", "4m"),
    "uneven by 4 cm a hop": ("uneven", "mixed"),
}
"""Scenario and variant."""
_TOLD_M = {"as shipped, told 1 cm": 0.01, "as shipped, told 4 cm": 0.04}
"""By how much the estimator is told that the ground changes from hop to hop; uneven ground changes by 4 cm."""
_NEAR_S = 0.12

_SCENARIOS = {"ideal": "without noise", "hardware": "with noise"}
_HOPPING_S, _BIN_S = 24.0, 2.0
_BINS = round(_HOPPING_S / _BIN_S)
_TRAINED_HZ, _SENSED_M = 840, 3.0
_SMALL, _LARGE, _LOST = "small", "large", "lost"


def parameters_matter(paper: Paper, study: Study) -> Item:
    """Figure 4: by how much the cost changes with each parameter."""
    printed = paper.printed["Figure 4"]
    found = [one.sensitivity for one in study.learned["kf1"]]
    ratios = dict(zip(found[0].names, np.array([one.largest_ratios for one in found]).T, strict=True))
    rows = tuple(
        (name, "above 1" if name in printed["above"] else "", shown(values))
        for name, values in sorted(ratios.items(), key=lambda one: -np.nan_to_num(np.median(one[1])))
    )
    above = [name for name, values in ratios.items() if np.median(values) > printed["cost_percent_per_percent_above"]]
    alike, among = set(above) == set(printed["above"]), set(above) & set(printed["above"])
    outcome: Outcome = "reproduced" if alike else "partly" if among else "not reproduced"
    words = f"above 1 % for 1 % are here {', '.join(above) or 'none'}; in the paper {', '.join(printed['above'])}"
    because = f"within the same three parameters: {words}." if alike else f"{words}."
    headings = "parameter", "printed", "here (% of the cost for 1 %)"
    tables = (ReportTable(f"Largest change of the cost; {study.size.about}", headings, rows, headings[2:]),)
    draw = partial(sensitivity_figure, found[0], "KF1: change of the cost when one parameter changes")
    return Item("Figure 4", "sensitivity of the optimum", outcome, because, tables, draw, "Of the first training seed.")


def ground_height(paper: Paper, entries: Sequence[FilterEntry], size: Size) -> Item:
    """Figure 5: the ground's height over thirty hops, by eqs. (11) to (13) and as shipped."""
    printed = paper.printed["Figure 5"]
    robots = range(FIRST_TEST_SEED, FIRST_TEST_SEED + size.ground_robots)
    tasks = [(floor, entry, seed) for floor in _FLOORS for entry in entries for seed in robots]
    runs = by_name(_ground_errors, tasks)
    errors = {floor: {way: np.array([one[way] for one in each]) for way in each[0]} for floor, each in runs.items()}
    found = {(floor, way): statistics(each) for floor, ways in errors.items() for way, each in ways.items()}
    rows = [(f"{floor}: {way}", *(f"{one:.3f}" for one in figures)) for (floor, way), figures in found.items()]
    headings = ("floor, way", "mean size after 30 hops (m)", "with its sign (m)", "mean along the run (m)",
                "a hop alone, mean (m)", "its standard deviation (m)", "size foretold by these (m)")  # fmt: skip
    level, _, uneven = _FLOORS
    size_m, _, _, seen_m, *_ = found[level, "eq. (13)"]
    kept_m, open_m = (found[level, way][0] for way in _TOLD_M)
    uneven_m, _, _, _, hop_m, foretold_m = found[uneven, "as shipped, told 4 cm"]
    goal = printed["ground_height_error_m"]
    because = (
        f"printed {goal:g} m; eq. (13), summed up as printed, is {size_m:.2f} m off on level ground, as each touchdown "
        f"is seen {seen_m:+.3f} m off in the mean: training asks for the apex alone. Corrected, and told that ground "
        f"hardly changes, {kept_m:.3f} m; told 4 cm, {open_m:.3f} m on level and {uneven_m:.2f} m on uneven ground, "
        f"where {hop_m:.3f} m a hop add up as a random walk ({foretold_m:.2f} m foretold). {goal:g} m is also "
        f"{printed['untrained_step_error_m']:g} m a step less {printed['improvement_percent']:g} %: the mean of single "
        "hops, not their sum."
    )
    title = f"KF1, {size.ground_robots} robots from {FIRST_TEST_SEED}, {len(entries)} training seeds"
    table = ReportTable(title, headings, tuple(rows), headings[1:])
    outcome: Outcome = "reproduced" if size_m <= goal else "not reproduced"
    draw = partial(_ground_figure, errors)
    return Item("Figure 5", "ground height over thirty hops", outcome, because, (table,), draw)


def statistics(errors: Array) -> tuple[float, float, float, float, float, float]:
    """Of (R, HOPS + 1) errors of the ground's height, m, the first of each run zero.

    Mean size and mean after the last hop, mean along the runs; mean and standard deviation of a hop alone; mean size
    after all hops, if each hop's error has that mean and deviation and knows nothing of others.
    """
    hops, last = np.diff(errors, axis=1), errors[:, -1]
    drawn = HOPS * hops.mean() + np.sqrt(HOPS) * hops.std() * np.random.default_rng(0).normal(size=20_000)
    return np.abs(last).mean(), last.mean(), errors[:, 1:].mean(), hops.mean(), hops.std(), np.abs(drawn).mean()


def _ground_errors(task: tuple[str, FilterEntry, int]) -> dict[str, Array]:
    """(HOPS + 1,) errors of the ground's height under each touchdown, m, by way; the first is where the sum begins."""
    floor, entry, seed = task
    scenario, variant = _FLOORS[floor]
    recording = recorded(scenario, variant, START_S + _GROUND_S, seed)
    trial = trial_of(replace(CONFIGURATION, ground_changes=scenario == "uneven"), f"seed {seed}", recording)
    true_m = trial.hops.ground_m if scenario == "uneven" else 0.0
    ways = _summed(entry, trial) | {way: _shipped(entry, recording, trial, told_m) for way, told_m in _TOLD_M.items()}
    return {way: (one - true_m - (one - true_m)[0])[: HOPS + 1] for way, one in ways.items()}


def _shipped(entry: FilterEntry, recording: LoadedRecording, trial: Trial, told_m: float) -> Array:
    """(N,) ground under each true touchdown, by the estimator as a user has it: standing height below its events."""
    configuration = replace(CONFIGURATION, ground_changes=True, ground_step_stddev_m=told_m)
    estimator = HopperEstimator(configuration, "kf1", entry)
    run = Pipeline(estimator)
    run.run(recording.measurements())
    landed = [(one.seen_ns, one.height_m) for one in run.events if one.name == EVENTS[TOUCHDOWN]]
    seen_ns, height_m = np.array(landed, dtype=np.float64).T
    start_ns = int(recording.tracks[configuration.truth_body].stamps_ns[0])
    by_s = trial.hops.events.times_s(TOUCHDOWN) + _NEAR_S
    last = np.searchsorted((seen_ns - start_ns) / NANOSECONDS_PER_SECOND, by_s)
    return np.append(0.0, height_m - configuration.robot.standing_height_m)[last]


def _summed(entry: FilterEntry, trial: Trial) -> dict[str, Array]:
    """(N,) the same by eqs. (11) to (13) as printed; of a touchdown or an apex that was not told no change is known."""
    events = told("kf1", entry, trial).events
    run = events[np.isin(events["kind"], (APEX, TOUCHDOWN))]
    landed = run["kind"] == TOUCHDOWN
    # The filter takes a touchdown for as late as its position update does.
    height = run["height"] - np.where(landed, entry.parameters[DELAY_TD] * run["velocity"], 0.0)
    drops = np.append(np.nan, np.where(landed[:-1], np.nan, height[:-1])) - height
    apart_s = np.abs(trial.time_s[run["sample"]][landed] - trial.hops.events.times_s(TOUCHDOWN)[:, None])
    near, missed = apart_s.argmin(axis=1), apart_s.min(axis=1) >= _NEAR_S
    touchdown, drop = (np.where(missed, np.nan, one[landed][near]) for one in (height, drops))
    by_drop = -np.diff(drop, prepend=drop[:1])
    by_touchdown = touchdown - CONFIGURATION.robot.standing_height_m
    changes = {"eq. (11)": by_drop, "eq. (12)": by_touchdown, "eq. (13)": 0.5 * (by_drop + by_touchdown)}
    return {way: np.cumsum(np.nan_to_num(one)) for way, one in changes.items()}


def _ground_figure(errors: Mapping[str, Mapping[str, Array]]) -> Figure:
    """By floor and way (R, HOPS + 1) errors of the ground's height: their mean size from hop to hop."""
    figure = Figure()
    axes = panels_of(figure, "Ground height", "KF1, over thirty hops", (), len(errors), 1.7, gap_in=0.55)[:, 0]
    for one, (floor, ways) in zip(axes, errors.items(), strict=True):
        for colour, (way, values) in zip(SERIES, ways.items(), strict=False):
            one.plot(np.arange(HOPS + 1), np.abs(values).mean(axis=0), color=colour, label=way)
        one.set_yscale("symlog", linthresh=0.01)
        one.set(ylabel="mean error (m)", title=floor)
    axes[-1].set(xlabel="hop")
    add_legend(figure, axes[0])
    return figure


def sensing_frequency(paper: Paper, entry: FilterEntry, size: Size) -> Item:
    """Figure 6: errors by how often the accelerometers are read.

    Small: no more than half as large again as at 840 Hz; lost: larger than half of the hop's height.
    """
    printed = paper.printed["Figure 6"]
    places = {_SMALL: "bounded_small_hz", _LARGE: "bounded_large_hz", _LOST: "unbounded_hz"}
    expected = {rate: name for name, place in places.items() for rate in printed[place]}
    rates = printed["frequencies_hz"]
    seeds = range(FIRST_TEST_SEED, FIRST_TEST_SEED + size.sensing_robots)
    tasks = [(entry, scenario, rate, seed) for scenario in _SCENARIOS for rate in rates for seed in seeds]
    runs = np.array(all_of(_sensing_errors, tasks)).reshape(len(_SCENARIOS), len(rates), len(seeds), _BINS, 2)
    overall = np.sqrt(np.nanmean(np.square(runs), axis=(2, 3)))
    height_m, usual_m = overall[..., 0], overall[:, rates.index(_TRAINED_HZ), :1]
    kinds = np.where(height_m <= 1.5 * usual_m, _SMALL, _LARGE)
    kinds = np.where(height_m <= _SENSED_M / 2.0, kinds, _LOST)
    rows = []
    for place, rate in enumerate(rates):
        cells = zip(overall[:, place], kinds[:, place].tolist(), strict=True)
        shown_cells = [cell for rms, kind in cells for cell in ("{:.2f} m, {:.2f} m/s".format(*rms), kind)]
        rows.append((f"{rate} Hz", expected.get(rate, ""), *shown_cells))
    wanted = np.array([expected.get(rate, "") for rate in rates])
    alike = (kinds == wanted)[:, wanted != ""]
    share = alike.mean()
    outcome: Outcome = "reproduced" if share == 1.0 else "partly" if share >= 0.6 else "not reproduced"
    because = (
        f"{alike.sum()} of {alike.size} as printed (small: no more than half as large again as at 840 Hz; lost: above "
        "half the hop's height). Where the paper's robot ceases to hop, the controller here goes by the truth, and "
        "goes on."
    )
    if outcome == "reproduced":
        because = f"within these classes: {because}"
    headings = ["frequency", "printed"]
    headings += [f"{what}, {words}" for words in _SCENARIOS.values() for what in ("RMS errors", "which is")]
    title = f"KF1 trained at 840 Hz, hops of 3 m, {len(seeds)} robots from {FIRST_TEST_SEED} each"
    tables = (ReportTable(title, tuple(headings), tuple(rows)),)
    draw = partial(_sensing_figure, rates, np.sqrt(np.nanmean(np.square(runs), axis=2)))
    return Item("Figure 6", "errors by sensing frequency", outcome, because, tables, draw)


def _sensing_errors(task: tuple[FilterEntry, str, float, int]) -> Array:
    """(_BINS, 2) RMS errors of height (m) and velocity (m/s) of a run at 3 m, by two seconds; NaN: nothing is known."""
    entry, scenario, rate_hz, seed = task
    out = np.full((_BINS, 2), np.nan)
    try:
        trial = sensed(scenario, f"{_SENSED_M:g}m", _HOPPING_S, seed, rate_hz)
    except UserError:  # so slow that nothing can be told
        return out
    run = told("kf1", entry, trial).out
    square = np.square(run[:, :2] - np.column_stack([trial.true_height_m, trial.true_velocity_m_s]))
    places = ((trial.time_s - trial.time_s[0]) / _BIN_S).astype(np.int64)
    for place in range(_BINS):
        rows = square[(places == place) & np.isfinite(square).all(axis=1)]
        if len(rows):
            out[place] = np.sqrt(rows.mean(axis=0))
    return out


def _sensing_figure(rates: Sequence[float], errors: Array) -> Figure:
    """RMS errors (scenarios, rates, _BINS, 2) of height and velocity over time."""
    figure = Figure()
    axes = panels_of(figure, "Sensing frequency", "KF1 trained at 840 Hz", (), 2, 2.2, 2)
    time_s = _BIN_S * (np.arange(_BINS) + 0.5)
    for column, words in enumerate(_SCENARIOS.values()):
        for row, quantity in enumerate(("height (m)", "velocity (m/s)")):
            one = axes[row, column]
            for number, rate in enumerate(rates):
                shade, line = (None, "-") if rate >= 600 else (str(0.75 * number / len(rates)), "--")
                one.plot(time_s, errors[column, number, :, row], color=shade, linestyle=line, label=f"{rate:g} Hz")
            one.set_yscale("log")
            one.set(ylabel=f"RMS error of {quantity}", title=words if row == 0 else "")
        axes[1, column].set(xlabel="time (s)")
    add_legend(figure, axes[0, 0], 6)
    return figure


def one_hop(paper: Paper, entry: FilterEntry, trials: Sequence[Trial], runs: Sequence[Filtered], about: str) -> Item:
    """Figure 7: a hop, and its phases."""
    shares = []
    for trial, run in zip(trials, runs, strict=True):
        left = run.events[run.events["kind"] == LIFTOFF]
        for v, h in zip(left["velocity"], trial.signals["goal"][left["sample"]], strict=True):
            shares.append(100.0 * (liftoff_velocity(entry.parameters, v, h) / v - 1.0))
    counts = np.array([np.bincount(one.events["kind"], minlength=len(EVENTS)) for one in runs])
    true = np.array([[len(one.hops.events.times_s(kind)) for kind in range(len(EVENTS))] for one in trials])
    off = int(np.abs(counts - true).max())
    sums = zip(EVENTS, counts.sum(axis=0).tolist(), true.sum(axis=0).tolist(), strict=True)
    rows = [(name.replace("_", " "), str(told_of), str(there)) for name, told_of, there in sums]
    headings = "event", "told", "in truth"
    printed = paper.figure("Figure 7", "liftoff_velocity_adjustment_percent")
    outcome: Outcome = "reproduced" if off <= 1 else "partly"
    because = (
        f"within {off} events a run of those in truth, all phases follow one another; the liftoff velocity is adjusted "
        f"by {np.median(shares):+.1f} % (median), {printed:g} % in the paper's one hop."
    )
    chosen = slice(2, 3) if len(trials) > 2 else slice(1)  # 3 m, of those simulated
    cycles = trials[chosen][0].hops.cycles
    span = float(cycles.touchdown_s[1]) - 0.2, float(cycles.next_touchdown_s[1]) + 0.2
    draw = partial(_hops_figure, "A hop and its phases", trials[chosen], runs[chosen], [span])
    tables = (ReportTable(f"Events; {about}", headings, tuple(rows), headings[1:]),)
    return Item("Figure 7", "a hop and its phases", outcome, because, tables, draw)


def all_hops(trials: Sequence[Trial], runs: Sequence[Filtered], about: str) -> Item:
    """Figure 8: height and velocity along the hops, and what each inferred measurement does to their errors."""
    rows, better = [], {}
    for kind, quantity, unit in ((TOUCHDOWN, 0, "m"), (MAX_SQUAT, 1, "m/s"), (LIFTOFF, 0, "m"), (LIFTOFF, 1, "m/s")):
        errors = []
        for trial, run in zip(trials, runs, strict=True):
            at = run.events["sample"][run.events["kind"] == kind]
            off = run.out[:, quantity] - (trial.true_height_m, trial.true_velocity_m_s)[quantity]
            errors.append([off[at - 1], off[at]])
        before, after = (one[np.isfinite(one)] for one in np.concatenate(errors, axis=1))
        name = f"{EVENTS[kind].replace('_', ' ')}, {('height', 'velocity')[quantity]}"
        better[kind, quantity] = after.std() < before.std()
        rows.append((name, *(f"{one.mean():+.2f} ± {one.std():.2f} {unit}" for one in (before, after))))
    wanted = better[TOUCHDOWN, 0], better[LIFTOFF, 1]
    outcome: Outcome = "reproduced" if all(wanted) else "partly" if any(wanted) else "not reproduced"
    because = (
        "errors at the inferred measurements (the paper: less spread of height at touchdown, of velocity at liftoff): "
        f"{'; '.join(f'{name} {before} before, {after} after' for name, before, after in rows)}."
    )
    if outcome == "reproduced":
        because = f"within the sign of each change: {because}"
    headings = "measurement", "error before", "error after"
    table = ReportTable(f"Mean and standard deviation over hops; {about}", headings, tuple(rows), headings[1:])
    spans = [(float(one.time_s[0]), float(one.time_s[0]) + 8.0) for one in trials[:4]]
    draw = partial(_hops_figure, "Height and velocity by set height", trials[:4], runs[:4], spans)
    return Item("Figure 8", "height and velocity along the hops", outcome, because, (table,), draw)


def _hops_figure(
    title: str, trials: Sequence[Trial], runs: Sequence[Filtered], span_s: Sequence[tuple[float, float]]
) -> Figure:
    """Height, velocity and number of the phase over time, by the filter and in truth."""
    columns = []
    for trial, run, (start_s, stop_s) in zip(trials, runs, span_s, strict=True):
        rows = (trial.time_s >= start_s) & (trial.time_s < stop_s)
        panels = (
            Panel("height", "m", {"KF1": run.out[rows, 0], "truth": trial.true_height_m[rows]}),
            Panel("velocity", "m/s", {"KF1": run.out[rows, 1], "truth": trial.true_velocity_m_s[rows]}),
            Panel("phase", "", {"KF1": run.out[rows, 5]}, note="0, 3: flight; 1, 2: stance"),
        )
        columns.append(Charts(trial.name, trial.time_s[rows], charts_of(panels, trial.time_s[rows])))
    return charts_figure(title, columns)
