"""What a user's own recordings, with motion capture, tell of the paper's filters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from hopper_estimation.estimators.filters import FilterEntry, untrained_entry
from hopper_estimation.judging.report import agility_of
from hopper_estimation.model.configuration import HopperConfiguration
from hopper_estimation.paper.pictures import hops_figure
from hopper_estimation.paper.study import PAPERS, hop_errors_of, paper_entry, shipped, trained_on
from hopper_estimation.training.filter_calibration import Trial, judged, trials_of
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.reproduced import Item, Outcome, Paper
from onboard_estimation.contract.trained import ReportTable

_NEAR = 1.5
_METRICS = {"m1": 1.0, "m2": 1.0, "m3": 1.0, "m4_zero": 1000.0, "m4": 1000.0, "m5": 1.0}
_HEADINGS = ("M1 (%)", "M2 (%)", "M3 (%)", "M4, velocity's zero (ms)", "M4, trained delay off (ms)", "M5 (m)")
_PRINTED = {"m1": ("m1_percent", 1.0), "m2": ("m2_percent", 1.0), "m3": ("m3_percent", 1.0), "m4_zero": ("m4_s", 1e3)}


def own_items(
    paper: Paper, configuration: HopperConfiguration, recordings: Mapping[str, LoadedRecording], quick: bool
) -> Iterator[Item]:
    """Errors of the filters, KF1 trained on all recordings but the last, hops and agility, a picture of a hop.

    Raises
    ------
    UserError
        A recording has no ground truth of the body, or too few hops.
    """
    trials = trials_of(configuration, recordings)
    hops = sum(len(one.hops.cycles) for one in trials)
    rows = {f"{name}, as shipped": _errors(configuration, name, shipped(name), trials) for name in (*PAPERS, "kf3")}
    rows["kf1, Table II"] = _errors(configuration, "kf1", paper_entry(), trials)
    if all(np.isfinite(one.signals["leg"]).any() for one in trials):
        rows |= {name: _errors(configuration, name, untrained_entry(), trials) for name in ("ba1", "dr1")}
    rows["ours (bounce), as shipped"] = _errors(configuration, "bounce", shipped("bounce"), trials)
    tables = [_table(f"{hops} hops of {len(trials)} recordings", paper, rows)]
    best, where = rows["kf1, as shipped"], "as shipped"
    if len(trials) > 1 and not quick:
        trained = trained_on(configuration, PAPERS["kf1"], trials[:-1], 0).entry
        last = {"kf1, trained on the others": _errors(configuration, "kf1", trained, trials[-1:])}
        last["kf1, as shipped"] = _errors(configuration, "kf1", shipped("kf1"), trials[-1:])
        last["ours (bounce), as shipped"] = _errors(configuration, "bounce", shipped("bounce"), trials[-1:])
        tables.append(_table(f"{trials[-1].name} alone", paper, last))
        best, where = last["kf1, trained on the others"], f"trained on {len(trials) - 1} of them"
    outcome, because = _judged(paper, best, where)
    yield Item("Table III", "errors of the estimators on these recordings", outcome, because, tuple(tables))
    yield _hop(configuration, trials[0])
    found = [(one.name, agility_of(one.hops.cycles)) for one in trials]
    names = ("hop_height_m", "stance_s", "stance_and_rebound_s", "cycle_s", "vertical_jumping_agility_m_s",
             "hopping_agility_m_s")  # fmt: skip
    cells = tuple((name, *(f"{one[key]:.3g}" if one else "" for key in names)) for name, one in found)
    table = ReportTable("Means over hops, by motion capture", ("recording", *names), cells, names)
    yield Item("Table S1", "hops and agility", "needs the authors' data", "these are of other robots.", (table,))


def _errors(configuration: HopperConfiguration, name: str, entry: FilterEntry, trials: list[Trial]) -> dict[str, float]:
    found = [hop_errors_of(configuration, name, entry, one) for one in trials]
    joined = {metric: np.concatenate([one[metric] for one in found]) for metric in _METRICS}
    return {metric: float(np.nanmean(one)) if np.isfinite(one).any() else np.nan for metric, one in joined.items()}


def _table(title: str, paper: Paper, rows: Mapping[str, Mapping[str, float]]) -> ReportTable:
    printed = {name: scale * paper.figure("Table III", key, "hvse1") for name, (key, scale) in _PRINTED.items()}
    printed["m5"] = paper.figure("Table III", "m5_m", "hvse1")
    lines = [("printed (HVSE1)", *(f"{printed[name]:.4g}" if name in printed else "" for name in _METRICS))]
    for name, one in rows.items():
        cells = (f"{scale * one[metric]:.3g}" if np.isfinite(one[metric]) else "" for metric, scale in _METRICS.items())
        lines.append((name, *cells))
    return ReportTable(title, ("filter", *_HEADINGS), tuple(lines), _HEADINGS)


def _judged(paper: Paper, found: Mapping[str, float], where: str) -> tuple[Outcome, str]:
    """Reproduced: M1 to M4 of KF1 are no more than half as large again as printed."""
    ratios = {
        name: _METRICS[name] * found[name] / (scale * paper.figure("Table III", key, "hvse1"))
        for name, (key, scale) in _PRINTED.items()
    }
    within = sum(one <= _NEAR for one in ratios.values())
    figures = ", ".join(f"{name[:2].upper()} {one:.2f}" for name, one in ratios.items())
    words = f"KF1, {where}, has these shares of HVSE1's printed errors: {figures}."
    if within == len(ratios):
        return "reproduced", f"within {_NEAR} times: {words}"
    return "partly" if within else "not reproduced", words


def _hop(configuration: HopperConfiguration, trial: Trial) -> Item:
    """Figure 7 of the second hop."""
    errors, run = judged(configuration, "kf1", shipped("kf1"), trial)
    cycles = trial.hops.cycles
    span = float(cycles.touchdown_s[1]) - 0.2, float(cycles.next_touchdown_s[1]) + 0.2
    draw = partial(hops_figure, f"A hop of {trial.name}", [trial], [run.out], [span])
    missed = errors.matches.missed
    outcome: Outcome = "reproduced" if missed == 0 else "partly"
    because = f"within all {len(cycles)} hops: " if missed == 0 else ""
    return Item(
        "Figure 7", "a hop and its phases", outcome, f"{because}{missed} of {len(cycles)} are missed.", (), draw
    )
