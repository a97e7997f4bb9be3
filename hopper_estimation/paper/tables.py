"""What the paper prints of its filters and what came out here, side by side, and whether that is the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from hopper_estimation.paper.study import ALL_ENTERED, ALL_M, FOREIGN, TABLE_TWO, Judged, mean_error
from onboard_estimation.contract.reproduced import Outcome, Paper
from onboard_estimation.contract.trained import ReportTable

Runs = Sequence[Sequence[Judged]]
"""By training seed."""

METRICS = {
    "m1_percent": ("m1", "M1, height", 1.0, "%"),
    "m2_percent": ("m2", "M2, velocity", 1.0, "%"),
    "m3_percent": ("m3", "M3, apex height", 1.0, "%"),
    "m4_s": ("m4_zero", "M4, apex time", 1000.0, "ms"),
    "m5_m": ("m5", "M5, apex height against the command", 1.0, "m"),
}
"""By their names in the paper's file: here, in words, scale of what is shown and its unit."""
FLYING = {"m1": "m1_flight", "m2": "m2_flight"}
ROWS = {
    "ba1": ("ba1", "BA1, true state"),
    "dr1": ("dr1", "DR1, true state"),
    "kf3": ("kf3", "KF3, true state"),
    "hvse1": ("kf1", "HVSE1 (KF1, true state)"),
    "hvse2": ("", "HVSE2 (KF1, its own estimate)"),
    "hvse3": ("kf1", "HVSE3 (as HVSE1, in flight)"),
    "hvse4": ("", "HVSE4 (as HVSE2, in flight)"),
}
"""Of Table III: which of the filters it is (empty: the controlled ones), and the words for it and what controls."""
OURS = {
    TABLE_TWO: "KF1, Table II held, rest trained",
    ALL_ENTERED: "KF1, all of Table II entered",
    FOREIGN: "KF1, robots with foreign effects",
    "ba1_best": "ours: BA1 at its best",
    "dr1_best": "ours: DR1 at its best",
    "bounce": "ours: bounce, as shipped",
}
_ALIKE, _NEAR, _IN_ORDER, _MOST = 1.1, 1.5, 0.99, 0.8


def values_of(runs: Runs, metric: str, set_height_m: float = ALL_M) -> list[float]:
    """Mean over hops, by training seed."""
    return [mean_error(one, metric, set_height_m) for one in runs]


def shown(values: Sequence[float], scale: float = 1.0) -> str:
    """Median and, in brackets, the worst of several."""
    middle, worst = scale * float(np.median(values)), scale * float(np.max(values))
    return f"{middle:.3g} ({worst:.3g})" if len(values) > 1 else f"{middle:.3g}"


def runs_of(key: str, known: Mapping[str, Runs], controlled: Runs) -> Runs:
    """Of a row of Table III."""
    return known[ROWS[key][0]] if ROWS[key][0] else controlled


def metric_of(key: str, metric: str) -> str:
    """The metric's name here; HVSE3 and HVSE4 are judged in flight."""
    return FLYING[metric] if key in ("hvse3", "hvse4") else metric


def error_tables(paper: Paper, known: Mapping[str, Runs], controlled: Runs, about: str) -> tuple[ReportTable, ...]:
    """Table III, a table for each metric; those of M4 both ways."""
    tables = []
    for name, (metric, words, scale, unit) in METRICS.items():
        headings = ["estimator", f"printed ({unit})", f"here ({unit})"]
        if metric == "m4_zero":
            headings[2:] = ["here, zero of the estimated velocity (ms)", "here, trained delay taken off (ms)"]
        rows = []
        printed = paper.printed["Table III"][name]
        for key, value in printed.items():
            runs = runs_of(key, known, controlled)
            here = [shown(values_of(runs, metric_of(key, metric)), scale)]
            here += [shown(values_of(runs, "m4"), scale)] if metric == "m4_zero" else []
            rows.append((ROWS[key][1], f"{scale * value:.4g}", *here))
        for key, label in OURS.items() if metric != "m5" else ():
            if key in known:
                here = [shown(values_of(known[key], metric), scale)]
                here += [shown(values_of(known[key], "m4"), scale)] if metric == "m4_zero" else []
                rows.append((label, "", *here))
        tables.append(ReportTable(f"{words}; {about}", tuple(headings), tuple(rows), tuple(headings[1:])))
    return tuple(tables)


def by_height_tables(paper: Paper, known: Mapping[str, Runs], controlled: Runs, about: str) -> tuple[ReportTable, ...]:
    """Table S3, a table for each metric, by set height."""
    heights, tables = (1.0, 2.0, 3.0, 4.0), []
    for name, (metric, words, scale, unit) in METRICS.items():
        headings = [f"{height:g} m, {who}" for height in heights for who in ("printed", "here")]
        rows = []
        for key, printed in paper.printed["Table S3"][name].items():
            runs = runs_of(key, known, controlled)
            cells = []
            for height, value in zip(heights, printed, strict=True):
                here = values_of(runs, metric_of(key, metric), height)
                cells += [f"{scale * value:.4g}", f"{scale * float(np.median(here)):.3g}"]
            rows.append((ROWS[key][1], *cells))
        title = f"{words} ({unit}); {about}"
        tables.append(ReportTable(title, ("estimator", *headings), tuple(rows), tuple(headings)))
    return tuple(tables)


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
    outcome: Outcome = "partly" if share >= _MOST else "not reproduced"
    why = ": simulated robots lack some of what real ones do" if np.median(ratios) < 1.0 else ""
    return outcome, f"{order}, but {size}{why}."


def here_as_printed(
    paper: Paper, place: str, known: Mapping[str, Runs], controlled: Runs
) -> tuple[dict[str, dict[str, list[float]]], dict[str, dict[str, list[float]]]]:
    """Table III or S3: what is printed and what came out, by metric and estimator, a number for each set height."""
    printed: dict[str, dict[str, list[float]]] = {}
    here: dict[str, dict[str, list[float]]] = {}
    for name, (metric, *_) in METRICS.items():
        for key, values in paper.printed[place][name].items():
            each = values if isinstance(values, list) else [values]
            heights = (1.0, 2.0, 3.0, 4.0) if len(each) > 1 else (ALL_M,)
            runs, called = runs_of(key, known, controlled), metric_of(key, metric)
            printed.setdefault(name, {})[key] = list(map(float, each))
            found = [float(np.median(values_of(runs, called, height))) for height in heights]
            here.setdefault(name, {})[key] = found
    return printed, here
