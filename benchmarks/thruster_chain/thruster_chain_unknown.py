"""Thruster chains of unknown build (simulated): headings, joint angles, masses and inertias of the estimator `robust`.

Nothing is trained, so that every run is of a robot left out, but where a row says that a robot was calibrated with one
other run of its own. There are two kinds, both simulated: the six recordings of `unknown_thruster_chain`, by a
simulator that is not ours, and the scenarios `hardware` and `load` with 2, 3, 5 and 8 links, where every seed is
another robot and its variant goes by the seed.

    python -m benchmarks --only thruster_chain_unknown
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.recordings import recordings
from benchmarks.thruster_chain.thruster_chain_unknown_runs import (
    FOUND_WITHIN_S,
    SETTLE_S,
    Job,
    Line,
    compute,
    scenario_load_s,
    step_share,
)
from onboard_estimation.errors import UserError

Array = NDArray[np.float64]
Row = dict[str, Any]

FOLDERS = tuple(f"robot_{robot}/run_{number}" for robot in "ab" for number in (1, 2, 3))
LINKS = (2, 3, 5, 8)
VARIANTS = {101: "mixed", 102: "one_off", 103: "mixed", 104: "one_off", 105: "mixed"}
"""Of each test seed; none was looked at while the estimator was written."""
STEPPED = (3, 5, 10)
RATIO, COVERAGE, BY_A_THIRD = 0.08, 0.95, 2.0 / 3.0


def run(quick: bool) -> list[Row]:
    """All rows."""
    recorded, simulated = recorded_jobs(), simulated_jobs()
    calibrated = calibrated_jobs() if recorded else []
    if quick:
        recorded, calibrated, simulated = recorded[:2], calibrated[:1], simulated[:2]
    lines = compute([*recorded, *calibrated, *simulated])
    tables = [*_recorded_rows(lines, [*recorded, *calibrated]), *_simulated_rows(lines, simulated)]
    return [*_targets(lines, recorded), *_found(lines, simulated), *([] if quick else _steps()), *tables]


def recorded_jobs() -> list[Job]:
    """The six recordings, each by both estimators; none where they are not there."""
    try:
        recordings("unknown_thruster_chain")
    except UserError as error:
        print(error)
        return []
    return [Job(estimator, folder) for folder in FOLDERS for estimator in ("gyros", "robust")]


def calibrated_jobs() -> list[Job]:
    """Every run of a robot, calibrated with the motion capture of one of its other two."""
    return [
        Job("robust", folder, trained_with=other)
        for folder in FOLDERS
        for other in FOLDERS
        if other != folder and Path(other).parent == Path(folder).parent
    ]


def simulated_jobs() -> list[Job]:
    """Seed by seed; gyros, to which masses are nothing, without loads."""
    return [
        Job(estimator, "", links, scenario, variant, seed)
        for seed, variant in VARIANTS.items()
        for links in LINKS
        for scenario, estimator in (("load", "robust"), ("hardware", "robust"), ("hardware", "gyros"))
    ]


def _targets(lines: Mapping[Job, Line], jobs: Sequence[Job]) -> list[Row]:
    """What the issue asks of robots that are left out."""
    runs = {
        folder: {job.estimator: lines[job] for job in jobs if job.folder == folder and "refused" not in lines[job]}
        for folder in FOLDERS
    }
    pairs = [(found["robust"], found["gyros"]) for found in runs.values() if {"robust", "gyros"} <= set(found)]
    if not pairs:
        return []
    out = []
    for name, what in (("heading_deg", "headings"), ("joint_deg", "joint angles")):
        ours, gyros = (np.array([pair[k][name] for pair in pairs]) for k in range(2))
        out.append(
            {
                "case": f"recorded unknown robots (simulated), {what}: RMSE by that of gyros, {len(pairs)} runs",
                "figure": f"median {np.median(ours / gyros):.2f}, worst {np.max(ours / gyros):.2f}",
                "target": "median <= 2/3, worst < 1",
                "met": bool(np.median(ours / gyros) <= BY_A_THIRD and np.max(ours / gyros) < 1.0),
            }
        )
    ratios = np.abs(np.concatenate([one["ratios"] for one, _ in pairs]))
    held = [float(np.mean([one[f"{part}_covered"] for one, _ in pairs])) for part in ("masses", "inertias")]
    out.append(
        {
            "case": "recorded unknown robots (simulated), mass ratios at the end",
            "figure": f"median {100 * np.median(ratios):.1f} %, worst {100 * ratios.max():.1f} %",
            "target": f"median <= {100 * RATIO:g} %",
            "met": bool(np.median(ratios) <= RATIO),
        }
    )
    out.append(
        {
            "case": f"recorded unknown robots (simulated), 3-sigma coverage of masses, inertias after {SETTLE_S:g} s",
            "figure": f"{held[0]:.3f}, {held[1]:.3f}",
            "target": f">= {COVERAGE:g}",
            "met": min(held) >= COVERAGE,
        }
    )
    return out


def _found(lines: Mapping[Job, Line], jobs: Sequence[Job]) -> list[Row]:
    """How soon loads are found, and how often one is told of that is none."""
    at_s, delays_s, missed, false, hours = scenario_load_s(), [], 0, 0, 0.0
    for job in jobs:
        line = lines[job]
        if job.estimator != "robust" or "refused" in line:
            continue
        changes = [told for told in line["changes_s"] if told < at_s or job.scenario != "load"]
        after = [told for told in line["changes_s"] if told >= at_s and job.scenario == "load"]
        hours += line["duration_s"] / 3600.0
        false += len(changes) + sum(told > at_s + FOUND_WITHIN_S for told in after)
        if job.scenario == "load":
            soon = [told - at_s for told in after if told <= at_s + FOUND_WITHIN_S]
            delays_s += soon[:1]
            missed += not soon
    if not hours:
        return []
    found = f"{len(delays_s)} of {len(delays_s) + missed} within {FOUND_WITHIN_S:g} s"
    if delays_s:
        found += f", after {np.median(delays_s):.1f} s in the median, {np.max(delays_s):.1f} s at most"
    return [
        {"case": "simulated loads of 40 % of a link", "figure": found},
        {
            "case": f"simulated, changes of masses told of that were none, in {60.0 * hours:.0f} min",
            "figure": f"{false}, {false / hours:.1f} an hour",
        },
    ]


def _steps() -> list[Row]:
    """Processor time by the time that a recording takes."""
    return [
        {
            "case": f"processor time of `robust`, {count} links, 200 Hz",
            "figure": f"{100 * step_share(count):.0f} % of real time",
        }
        for count in STEPPED
    ]


def _recorded_rows(lines: Mapping[Job, Line], jobs: Sequence[Job]) -> list[Row]:
    return [
        _row(
            "Recorded unknown robots (simulated)",
            f"{job.folder}, calibrated with {Path(job.trained_with).name}" if job.trained_with else job.folder,
            [job.estimator],
            [lines[job]],
        )
        for job in jobs
    ]


def _simulated_rows(lines: Mapping[Job, Line], jobs: Sequence[Job]) -> list[Row]:
    groups: dict[tuple[str, int, str], list[Line]] = {}
    for job in jobs:
        groups.setdefault((job.scenario, job.links, job.estimator), []).append(lines[job])
    title = "Simulated robots, medians (worst cases) over seeds"
    return [
        _row(title, f"{scenario}, {links} links, {len(found)} seeds", [estimator], found)
        for (scenario, links, estimator), found in sorted(groups.items())
    ]


def _row(table: str, what: str, estimator: Sequence[str], found: Sequence[Line]) -> Row:
    """Medians and worst cases of lines; what an estimator does not learn is left empty."""
    ran = [line for line in found if "refused" not in line]
    cells = {"run": what, "estimator": estimator[0]}
    if not ran:
        return {"table": table, "cells": cells | {"headings": f"refused: {found[0]['refused']}"}}
    lost = sum(line["broke_down"] for line in ran) / sum(line["messages"] for line in ran)
    for name, column in (("heading_deg", "headings, deg"), ("joint_deg", "joint angles, deg")):
        cells[column] = _spread([line[name] for line in ran], 1.0, "")
    cells["3 sigma"] = f"{np.min([line['headings_covered'] for line in ran]):.3f}"
    for name, column in (("ratios", "mass ratios"), ("masses", "masses"), ("inertias", "inertias")):
        cells[column] = _spread(np.abs(np.concatenate([line[name] for line in ran])), 100.0, " %")
        if name != "ratios":
            cells[f"3 sigma of {column}"] = f"{np.mean([line[f'{name}_covered'] for line in ran]):.3f}"
    cells["position, m"] = _spread([line["position_m"] for line in ran], 1.0, "")
    cells["3 sigma of position"] = f"{np.min([line['position_covered'] for line in ran]):.3f}"
    cells["broke down"] = f"at {100 * lost:.0f} % of the messages" if lost else ""
    return {"table": table, "cells": cells, "runs": list(ran)}


def _spread(values: Sequence[float] | Array, scale: float, unit: str) -> str:
    if len(values) == 1:
        return f"{scale * values[0]:.2f}{unit}"
    return f"{scale * np.median(values):.2f} ({scale * np.max(values):.2f}){unit}"
