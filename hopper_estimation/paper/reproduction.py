"""The paper's tables and figures, one after another: what it prints, and what comes out on simulated robots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from hopper_estimation.estimators.filters import PARAMETERS
from hopper_estimation.judging.hop_metrics import mean_of
from hopper_estimation.judging.report import agility_of
from hopper_estimation.model.agility import unified_hopping_agility
from hopper_estimation.model.configuration import HopperConfiguration
from hopper_estimation.model.phases import CH0
from hopper_estimation.paper import figures
from hopper_estimation.paper.study import (
    ALL_ENTERED,
    ALL_M,
    CONTROLLED,
    FOREIGN,
    PAPER_FILE,
    PAPERS,
    QUICK,
    TABLE_TWO,
    WHOLE,
    Judged,
    Study,
    hop_errors_of,
    paper_entry,
    shipped,
    shown,
    studied,
    trained,
    values_of,
)
from hopper_estimation.paper.trials import HEIGHTS_M, judged_on, told
from hopper_estimation.robot import ROBOT
from hopper_estimation.training.filter_calibration import Trial, judged, trials_of
from onboard_estimation.base.installed import resource
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.reproduced import Item, Outcome, Paper, find_paper
from onboard_estimation.contract.trained import ReportTable
from onboard_estimation.judging.side_by_side import side_by_side

_WITHIN = {"agility": 0.02, "hops": 0.2}
"""Of Table IV in m/s; of Table S1 as a share."""
_METRICS = {
    "m1_percent": ("m1", "M1, height", 1.0, "%"),
    "m2_percent": ("m2", "M2, velocity", 1.0, "%"),
    "m3_percent": ("m3", "M3, apex height", 1.0, "%"),
    "m4_s": ("m4_zero", "M4, apex time", 1000.0, "ms"),
    "m5_m": ("m5", "M5, apex height against the command", 1.0, "m"),
}
"""By their names in the paper's file: here, in words, scale of what is shown and its unit."""
_ROWS = {
    "ba1": ("ba1", "BA1, true state"),
    "dr1": ("dr1", "DR1, true state"),
    "kf3": ("kf3", "KF3, true state"),
    "hvse1": ("kf1", "HVSE1 (KF1, true state)"),
    "hvse2": (CONTROLLED, "HVSE2 (KF1, its own estimate)"),
    "hvse3": ("kf1", "HVSE3 (as HVSE1, in flight)"),
    "hvse4": (CONTROLLED, "HVSE4 (as HVSE2, in flight)"),
    "table two": (TABLE_TWO, "KF1, Table II held, rest trained"),
    "entered": (ALL_ENTERED, "KF1, all of Table II entered"),
    "foreign": (FOREIGN, "KF1, robots with foreign effects"),
    "ba1_best": ("ba1_best", "ours: BA1 at its best"),
    "dr1_best": ("dr1_best", "ours: DR1 at its best"),
    "bounce": ("bounce", "ours: bounce, as shipped"),
}
"""Of Table III, and more: which of those that were judged it is, and the words for it and what controls."""
_FLYING = {(key, metric): f"{metric}_flight" for key in ("hvse3", "hvse4") for metric in ("m1", "m2")}
_ALIKE, _NEAR, _IN_ORDER, _MOST = 1.1, 1.5, 0.99, 0.8


def reproduce(
    configuration: HopperConfiguration, recordings: Mapping[str, LoadedRecording], quick: bool
) -> Iterator[Item]:
    """All of the paper on simulated robots, or what recordings can tell; see `Reproduced.reproduce`."""
    paper = find_paper("hopping")
    if recordings:
        trials = trials_of(configuration, recordings)
        yield _own_errors(paper, configuration, trials, quick)
        entry, table_two = shipped("kf1"), replace(configuration, filter_model=str(resource(PAPER_FILE)))
        runs = [judged(configuration, "kf1", entry, trial)[1] for trial in trials]
        yield figures.one_hop(paper, entry, trials, runs, "KF1 as shipped")
        filters = {name: (configuration, name) for name in (*PAPERS, "kf3", "bounce")}
        yield side_by_side(ROBOT, {**filters, "kf1, Table II": (table_two, "kf1")}, recordings, "Figure 8")
        return
    size = QUICK if quick else WHOLE
    study = studied(size)
    entries = study.entries["kf1"]
    yield training_errors(paper, study)
    yield optimum(paper, study)
    yield figures.parameters_matter(paper, study)
    yield figures.ground_height(paper, entries, size)
    yield figures.sensing_frequency(paper, entries[0], size)
    trials = judged_on(size.test_robots)
    runs = [told("kf1", entries[0], trial) for trial in trials]
    yield figures.one_hop(paper, entries[0], trials, runs, size.about)
    yield figures.all_hops(trials, runs, size.about)
    entered, foreign = (np.median(values_of(study.known[name], "m3")) for name in (ALL_ENTERED, FOREIGN))
    yield estimators(
        paper,
        "Table III",
        study,
        f" HVSE1's M3 is {paper.figure('Table III', 'm3_percent', 'hvse1'):g} % in print; here with Table II's "
        f"parameters {entered:.1f} %, and trained here, on robots with effects that no filter has a term for (scenario "
        f"`foreign`), {foreign:.1f} %.",
    )
    yield agilities(paper)
    yield agility_by_height(paper, study)
    yield robot_parameters(paper, configuration)
    yield estimators(paper, "Table S3", study)


def training_errors(paper: Paper, study: Study) -> Item:
    """Table I: the apex error of the four filters."""
    printed = paper.figure("Table I", "kf1_apex_height_error_percent")
    rows, middle = [], {}
    for name in PAPERS:
        others = values_of(study.known[name], "m3")
        middle[name] = float(np.median(others))
        here = shown([one.training_m3 for one in study.learned[name]])
        rows.append((name, f"{printed:g}" if name == "kf1" else "lost", here, shown(others)))
    best = min(middle, key=lambda name: middle[name])
    close = middle["kf1"] < min(printed, 1.25 * middle[best])
    because = (
        f"{best} has the least error here, {', '.join(f'{name} {value:.1f} %' for name, value in middle.items())}; "
        f"printed for KF1: {printed:g} %, the others' errors are lost from the text."
    )
    if best != "kf1" and close:
        because += f" KF1 is within a quarter of {best}."
    headings = "filter", "printed (%)", "here, hops learned from (%)", "here, other robots (%)"
    table = ReportTable(f"Apex error (M3); {study.size.about}", headings, tuple(rows), headings[1:])
    outcome: Outcome = "partly" if best == "kf1" or close else "not reproduced"
    return Item("Table I", "apex error of the four filters", outcome, because, (table,))


def optimum(paper: Paper, study: Study) -> Item:
    """Table II: the optimum of the genetic algorithm, and what the printed one is worth here (see Table III too)."""
    printed = paper.printed["Table II"]
    found, held = (np.array([one.parameters for one in study.entries[name]]) for name in ("kf1", TABLE_TWO))
    rows, inside = [], []
    for place, one in enumerate(PARAMETERS):
        if one.name not in printed or printed[one.name] == "NA":
            continue
        if place == CH0:  # the same as the other constant: here their sum is searched
            rows.append((one.name, one.unit, "", f"{printed[one.name]:g}", "in velocity_fit_0", "", ""))
            continue
        low, high = found[:, place].min(), found[:, place].max()
        near, ratio = (0.0, 1.2) if one.logarithmic else (0.05 * (one.upper - one.lower), 1.0)
        if low / ratio - near <= printed[one.name] <= high * ratio + near:
            inside.append(one.name)
        cells = f"{np.median(found[:, place]):.4g}", f"{low:.4g} to {high:.4g}", f"{np.median(held[:, place]):.4g}"
        rows.append((one.name, one.unit, f"{one.lower:g} to {one.upper:g}", f"{printed[one.name]:g}", *cells))
    known = len(rows) - 1
    m3 = {name: np.median(values_of(study.known[name], "m3")) for name in ("kf1", TABLE_TWO, ALL_ENTERED)}
    because = (
        f"{len(inside)} of {known} values are in or near the range of what is found here ({', '.join(inside)}). "
        f"All of Table II entered, M3 is {m3[ALL_ENTERED]:.1f} % on robots that it never saw "
        f"({paper.figure('Table I', 'kf1_apex_height_error_percent'):g} % printed in Table I for the paper's own); the "
        f"fit's coefficients, whose formula is lost, trained instead, {m3[TABLE_TWO]:.1f} %: with "
        f"{printed['velocity_stddev_m_s']:g} m/s inferred velocities hardly count. Trained wholly here, "
        f"{m3['kf1']:.1f} %."
    )
    headings = "parameter", "unit", "searched", "printed", "here, median", "here, of all seeds", "printed ones held"
    table = ReportTable(f"Parameters of KF1; {study.size.about}", headings, tuple(rows), headings[2:])
    outcome: Outcome = "reproduced" if len(inside) == known else "partly" if len(inside) >= 2 else "not reproduced"
    return Item("Table II", "the genetic algorithm's optimum", outcome, because, (table,))


def estimators(paper: Paper, place: str, study: Study, more: str = "") -> Item:
    """Table III, or S3 by set height: a table for each metric; in Table III more filters, and M4 both ways."""
    whole, tables = place == "Table III", []
    heights = (ALL_M,) if whole else tuple(HEIGHTS_M.values())
    printed: dict[str, dict[str, list[float]]] = {name: {} for name in _METRICS}
    here: dict[str, dict[str, list[float]]] = {name: {} for name in _METRICS}
    about = f"{study.size.about}; hopping by estimates: {study.size.controlled_robots} robots"
    for name, (metric, words, scale, unit) in _METRICS.items():
        rows = []
        of_paper = paper.printed[place][name]
        for key, (judged_as, label) in _ROWS.items():
            if key not in of_paper and (key in paper.printed[place]["m1_percent"] or not whole or metric == "m5"):
                continue
            ways = [_FLYING.get((key, metric), metric), *(["m4"] if whole and metric == "m4_zero" else [])]
            found = [[values_of(study.known[judged_as], way, height) for way in ways] for height in heights]
            values, cells = np.atleast_1d(of_paper.get(key, np.nan)).tolist(), []
            for value, each in zip(values, found, strict=True):
                cells.append(f"{scale * value:.4g}" if key in of_paper else "")
                cells += [shown(one if whole else [np.median(one)], scale) for one in each]
            rows.append((label, *cells))
            if key in of_paper:
                printed[name][key], here[name][key] = values, [float(np.median(each[0])) for each in found]
        columns = ["printed", "here"]
        if whole and metric == "m4_zero":
            columns[1:] = ["here, zero of the estimated velocity", "here, trained delay taken off"]
        headings = [f"{one} ({unit})" if whole else f"{height:g} m, {one}" for height in heights for one in columns]
        title = f"{words}; {about}" if whole else f"{words} ({unit}); {about}"
        tables.append(ReportTable(title, ("estimator", *headings), tuple(rows), tuple(headings)))
    outcome, because = judged_errors(printed, here)
    title = "errors of the estimators" if whole else "errors of the estimators by set height"
    return Item(place, title, outcome, because + more, tuple(tables))


def judged_errors(
    printed: Mapping[str, Mapping[str, Sequence[float]]], here: Mapping[str, Mapping[str, Sequence[float]]]
) -> tuple[Outcome, str]:
    """Errors by metric and estimator, lists of the same length: are estimators in the printed order, KF1 as good?

    Reproduced: all pairs whose printed errors differ by more than a tenth are in the same order, and KF1's errors are
    within a factor of 1.5; partly: four fifths of the pairs are.
    """
    same = total = 0
    ratios = []
    for metric, of_paper in printed.items():
        for one, other in combinations(of_paper, 2):
            theirs = np.log(np.divide(of_paper[one], of_paper[other]))
            ours = np.log(np.divide(here[metric][one], here[metric][other]))
            clear = np.abs(theirs) > np.log(_ALIKE)
            same, total = same + int((clear & (theirs * ours > 0.0)).sum()), total + int(clear.sum())
        for one in of_paper:
            if one.startswith("hvse"):
                ratios += np.divide(here[metric][one], of_paper[one]).tolist()
    share, least, most = same / total, min(ratios), max(ratios)
    order = f"{same} of {total} pairs of estimators that clearly differ in print do so here in the same order"
    size = f"KF1's errors are {least:.2f} to {most:.2f} times those printed (median {np.median(ratios):.2f})"
    if share >= _IN_ORDER and least >= 1.0 / _NEAR and most <= _NEAR:
        return "reproduced", f"within a factor of {_NEAR}: {order}; {size}."
    why = ": simulated robots lack some of what real ones do" if np.median(ratios) < 1.0 else ""
    return "partly" if share >= _MOST else "not reproduced", f"{order}, but {size}{why}."


def agilities(paper: Paper) -> Item:
    """Table IV: agility from the heights and times that it prints."""
    rows, off = [], []
    for name, one in paper.printed["Table IV"].items():
        height, rising = one["height_m"], one["stance_to_apex_s"]
        drop = one["cycle_s"] - rising
        ours = [float(unified_hopping_agility(height, height, 0.0, rising, drop, eta)) for eta in (0.0, 1.0)]
        printed = one["jumping_m_s"], one["hopping_m_s"]
        off += np.abs(np.subtract(ours, printed)).tolist()
        cells = [f"{value:.2f}" for pair in zip(printed, ours, strict=True) for value in pair]
        rows.append((name, *(f"{one[key]:g}" for key in ("height_m", "stance_to_apex_s", "cycle_s")), *cells))
    headings = ("robot", "hop height (m)", "stance through apex (s)", "cycle (s)",
                "jumping agility, printed (m/s)", "jumping agility, here (m/s)",
                "hopping agility, printed (m/s)", "hopping agility, here (m/s)")  # fmt: skip
    outcome: Outcome = "reproduced" if max(off) <= _WITHIN["agility"] else "partly"
    because = f"within {max(off):.3f} m/s, from the printed heights and times, which are rounded."
    table = ReportTable("From the printed heights and times", headings, tuple(rows), headings[1:])
    return Item("Table IV", "agility of hopping robots", outcome, because, (table,))


_S1 = {
    "height_m": "hop_height_m",
    "stance_s": "stance_s",
    "stance_to_apex_s": "stance_and_rebound_s",
    "cycle_s": "cycle_s",
    "jumping_m_s": "vertical_jumping_agility_m_s",
    "hopping_m_s": "hopping_agility_m_s",
}


def agility_by_height(paper: Paper, study: Study) -> Item:
    """Table S1: hops of the simulated robot by set height."""
    runs = {"GT": study.known["kf1"][0], "HVSE": [one for run in study.known[CONTROLLED] for one in run]}
    rows, ratios = [], {}
    for name, printed in paper.printed["Table S1"].items():
        who, height = name.split()
        ours, cells = _mean_agility(runs[who], float(height)), []
        for key, quantity in _S1.items():
            cells += [f"{printed[key]:g}", f"{ours[quantity]:.3g}"]
            ratios[name, key] = abs(ours[quantity] / printed[key] - 1.0)
        rows.append((f"{who}, {height} m", *cells))
    headings = [f"{key.replace('_', ' ')}, {who}" for key in _S1 for who in ("printed", "here")]
    worst = max(ratios, key=lambda one: ratios[one])
    share = np.mean([one <= _WITHIN["hops"] for one in ratios.values()])
    outcome: Outcome = "reproduced" if share == 1.0 else "partly" if share >= 0.8 else "not reproduced"
    because = (
        f"within {100.0 * np.median(list(ratios.values())):.0f} % in the median, {100.0 * ratios[worst]:.0f} % at "
        f"worst ({worst[0]} m, {worst[1]}): thrust and drag of the paper's robot are not printed."
    )
    about = f"{study.size.about}; hopping by estimates: {study.size.controlled_robots} robots"
    table = ReportTable(about, ("control, set height", *headings), tuple(rows), tuple(headings))
    return Item("Table S1", "hops and agility by set height", outcome, because, (table,))


def _mean_agility(runs: Sequence[Judged], set_height_m: float) -> dict[str, float]:
    """Means over the hops of a set height."""
    found = [one for run in runs if run.set_height_m == set_height_m and (one := agility_of(run.cycles))]
    weights = [one["hops"] for one in found]
    return {name: float(np.average([one[name] for one in found], weights=weights)) for name in _S1.values()}


def robot_parameters(paper: Paper, configuration: HopperConfiguration) -> Item:
    """Table S2: what of the robot's parameters the suite has."""
    printed = paper.printed["Table S2"]
    ours = {name: getattr(configuration.robot, name) for name in printed if hasattr(configuration.robot, name)}
    rows = [(name, f"{value:g}", f"{ours[name]:g}" if name in ours else "") for name, value in printed.items()]
    same = all(value == printed[name] for name, value in ours.items())
    because = f"within rounding: {', '.join(ours)} are used as printed; the rest does not matter to a vertical motion."
    if not same:
        because = "the configured robot is another one."
    table = ReportTable("Configured robot", ("parameter", "printed", "here"), tuple(rows), ("printed", "here"))
    return Item("Table S2", "the robot's parameters", "reproduced" if same else "partly", because, (table,))


def _own_errors(paper: Paper, configuration: HopperConfiguration, trials: Sequence[Trial], quick: bool) -> Item:
    """M1 to M4; of several recordings KF1 is trained on all but the last, and the last is judged."""
    entries = {"kf1, as shipped": shipped("kf1"), "kf1, Table II": paper_entry(), "bounce": shipped("bounce")}
    if len(trials) > 1 and not quick:
        entries = {"kf1, trained on the others": trained(configuration, "kf1", trials[:-1], 0), **entries}
        trials = trials[-1:]
    metrics = {name: one for name, one in _METRICS.items() if name != "m5_m"}
    printed = [one[2] * paper.figure("Table III", name, "hvse1") for name, one in metrics.items()]
    rows, ratios = [("printed (HVSE1)", *(f"{value:.4g}" for value in printed))], []
    for name, entry in entries.items():
        found = [hop_errors_of(configuration, name.partition(",")[0], entry, one) for one in trials]
        means = [one[2] * mean_of(np.concatenate([each[one[0]] for each in found])) for one in metrics.values()]
        rows.append((name, *(f"{value:.3g}" for value in means)))
        ratios.append(np.divide(means, printed))
    within = int((ratios[0] <= _NEAR).sum())
    outcome: Outcome = "reproduced" if within == len(printed) else "partly" if within else "not reproduced"
    because = f"within {_NEAR} times HVSE1's printed errors are {within} of M1 to M4 of {next(iter(entries))}."
    headings = tuple(f"{words} ({unit})" for _, words, _, unit in metrics.values())
    title = f"{sum(len(one.hops.cycles) for one in trials)} hops: {', '.join(one.name for one in trials)}"
    table = ReportTable(title, ("filter", *headings), tuple(rows), headings)
    return Item("Table III", "errors of KF1 by hop", outcome, because, (table,))
