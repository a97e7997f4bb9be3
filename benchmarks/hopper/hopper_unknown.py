"""Hopper: four robots of unknown build (simulated by others), each judged by a filter that the other three trained.

And beside them the filters that come with the package, on those four and on our own scenario `hardware` with heights
that change every few seconds, hops of 0.3 m and 5 m, and with readings lost for 20 to 70 ms around half of all
touchdowns or liftoffs. Needs the recordings `unknown_hopper`; a quarter of an hour on two cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.recordings import recordings
from hopper_estimation.configuration import HopperConfiguration
from hopper_estimation.filter_judgement import judge_filter
from hopper_estimation.filter_model import FilterEntry, filters_of
from hopper_estimation.filter_training import SearchSettings, train_filter
from hopper_estimation.training_trials import Trial, trial_of
from onboard_estimation.evaluation.simulated import simulated_recording
from onboard_estimation.evaluation.training import TrainingOptions, read_training_bag
from onboard_estimation.robots import find_robot

Array = NDArray[np.float64]
Row = dict[str, Any]

ROBOTS = ("robot_1", "robot_2", "robot_3", "robot_4")
OWN = {
    "varied": ("heights of 0.3 to 5 m, another every 2 to 8 s", range(7100, 7110), 60.0),
    "mixed": ("1 to 4 m, another every 12 s", range(7110, 7120), 60.0),
    "0.3m": ("0.3 m", range(7120, 7130), 40.0),
    "5m": ("5 m", range(7130, 7140), 40.0),
}
CHANGE_M = 0.3
GAP_S = (0.02, 0.07)
GAPPED = 0.5
FILTERS = ("bounce", "kf1", "dr1_best", "bounce_encoder")
TARGETS = {"m3": 7.0, "changed": 12.0, "covered": 0.97}
_ROBOT = find_robot("hopper")
_CONFIGURATION = HopperConfiguration()


class Judged(NamedTuple):
    """Apex errors by hop, %, those after a change of height, and the shares within three standard deviations."""

    m3: Array
    changed: NDArray[np.bool_]
    covered: float
    covered_velocity: float


def run(quick: bool) -> list[Row]:
    """Rows of the four tables; quick: fewer seeds, one split, a small search."""
    unknown = [_unknown(name) for name in (ROBOTS[:2] if quick else ROBOTS)]
    settings = SearchSettings(individuals=60, generations=3) if quick else SearchSettings()
    shipped = filters_of("")
    rows = _split_rows(unknown, settings, quick)
    table = "Unknown hoppers (simulated by others), with what comes with the package"
    for name in FILTERS:
        judged = [judged_filter(name, shipped.entry(name), one) for one in unknown]
        rows.append(filter_row(table, name, judged, {"m3": 12.0} if name == "bounce" else {}))
    own = {variant: _own(variant, 2 if quick else 10) for variant in OWN}
    for variant, trials in own.items():
        for name in FILTERS:
            judged = [judged_filter(name, shipped.entry(name), one) for one in trials]
            targets = {"covered": TARGETS["covered"]} if name == "bounce" else {}
            rows.append(filter_row("Own scenario `hardware`, " + OWN[variant][0], name, judged, targets))
    for event in ("touchdown", "liftoff"):
        for name in ("bounce", "kf1"):
            rng = np.random.default_rng(5)
            judged = [
                judged_filter(name, shipped.entry(name), _gapped(one, event, rng)) for one in (*unknown, *own["mixed"])
            ]
            table = f"Unknown and own robots, readings lost for 20 to 70 ms around half of the {event}s"
            rows.append(filter_row(table, name, judged, {"covered": TARGETS["covered"]} if name == "bounce" else {}))
    return rows


def _split_rows(unknown: Sequence[Trial], settings: SearchSettings, quick: bool) -> list[Row]:
    """Trained on all robots but one, judged on that one."""
    rows, table = [], "Unknown hoppers (simulated by others), trained on three, judged on the fourth"
    for form in ("bounce", "kf1"):
        judged = []
        for out in unknown[:1] if quick else unknown:
            learned = train_filter(_CONFIGURATION, form, [one for one in unknown if one is not out], settings)
            judged.append(judged_filter(form, learned.entry, out))
            rows.append(filter_row(table, f"{form}, {out.name}", judged[-1:], {}))
            print(rows[-1]["case"], rows[-1]["cells"], flush=True)
        targets = TARGETS if form == "bounce" and not quick else {}
        rows.append(filter_row(table, f"{form}, all", judged, targets))
    return rows


def _unknown(name: str) -> Trial:
    return trial_of(
        _CONFIGURATION,
        name,
        read_training_bag(_ROBOT, _CONFIGURATION, recordings("unknown_hopper") / name, TrainingOptions()),
    )


def _own(variant: str, count: int) -> list[Trial]:
    _, seeds, seconds = OWN[variant]
    return [
        trial_of(
            _CONFIGURATION,
            f"{variant}, seed {seed}",
            simulated_recording(_ROBOT, _CONFIGURATION, "hardware", variant, seconds, seed),
        )
        for seed in seeds[:count]
    ]


def judged_filter(name: str, entry: FilterEntry, trial: Trial) -> Judged:
    """A filter on a recording."""
    found = judge_filter(_CONFIGURATION, name, entry, trial)
    heights = trial.hops.cycles.hop_height_m
    changed = np.abs(np.diff(heights, prepend=np.nan)) > CHANGE_M
    within = found.within.sum(axis=1)
    known = np.isfinite(heights)
    height, velocity = within[:, 2] / within[:, 0]
    return Judged(found.errors.m3_with_missed[known], changed[known], float(height), float(velocity))


def _gapped(trial: Trial, event: str, rng: np.random.Generator) -> Trial:
    """Without its readings around some of the events."""
    kept = np.ones(len(trial.time_s), dtype=bool)
    for at_s in getattr(trial.hops.cycles, f"{event}_s"):
        if np.isfinite(at_s) and rng.random() < GAPPED:
            long_s = rng.uniform(*GAP_S)
            start_s = at_s - rng.uniform(0.0, long_s)
            kept[(trial.time_s >= start_s) & (trial.time_s < start_s + long_s)] = False
    kept[0] = True
    before = trial.time_s[0] - trial.signals["dt"][0]
    steps = np.diff(trial.time_s[kept], prepend=before)
    signals = trial.signals[kept]
    signals["dt"] = steps
    return replace(
        trial,
        signals=signals,
        true_height_m=trial.true_height_m[kept],
        true_velocity_m_s=trial.true_velocity_m_s[kept],
        time_s=trial.time_s[kept],
    )


def filter_row(table: str, case: str, judged: Sequence[Judged], targets: dict[str, float]) -> Row:
    """Mean over all hops, medians over robots and the worst of them; `met` where there are targets."""
    by_robot = [float(one.m3.mean()) for one in judged]
    hops, changed = (np.concatenate([one[k] for one in judged]) for k in (0, 1))
    after = float(hops[changed].mean()) if changed.any() else float("nan")
    covered, velocity = (float(np.mean([one[k] for one in judged])) for k in (2, 3))
    figures = {"m3": float(hops.mean()), "changed": after, "covered": covered}
    worse = {"m3": 1.0, "changed": 1.0, "covered": -1.0}
    row: Row = {
        "case": case,
        "table": table,
        "cells": {
            "filter": case,
            "apex error (M3), mean": f"{hops.mean():.1f} %",
            "median and worst robot": f"{np.median(by_robot):.1f}, {max(by_robot):.1f} %",
            "worst hop": f"{hops.max():.0f} %",
            "after a change": f"{after:.1f} % ({int(changed.sum())} hops)" if changed.any() else "",
            "height, velocity within 3 sigma": f"{covered:.3f}, {velocity:.3f}",
            "worst robot's height": f"{min(one.covered for one in judged):.3f}",
        },
    }
    if targets:
        row["met"] = all(worse[name] * figures[name] <= worse[name] * bound for name, bound in targets.items())
    return row
