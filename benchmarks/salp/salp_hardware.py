"""LandSalp in the scenario `hardware`: accuracy and consistency of the estimators, with and without residual models.

Every seed is another robot: friction, harness, delays, mounting and gyro biases are drawn anew, and so is the error of
the initial state. Models are trained on seeds from 900000 up and judged on seeds from 100; nothing is chosen on the
latter. The first 6 s of 60 s are left out. NEES is averaged over seeds at each of five instants a second and judged by
its 95 % band there; coverage counts single errors.

    python -m benchmarks --only salp_hardware          # all of it: about two hours
    python -m benchmarks.salp.salp_hardware --estimators calibrated plain --gaits left --seeds 2

The second form does a part, prints it and keeps nothing but the runs, which the first then does not do again.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.salp import salp_hardware_models as models
from benchmarks.salp.salp_hardware_models import ALL_GAITS, TrainingSet
from benchmarks.salp.salp_hardware_runs import Campaign, Line, compute, instants, line_key, rms
from benchmarks.scenarios import scenario_hash
from benchmarks.table import case_lines, further_lines
from benchmarks.timing import rounded
from onboard_estimation.filtering.consistency import Consistency, judge_consistency
from salp_estimation.hardware_scenario import FILE

Array = NDArray[np.float64]
Row = dict[str, Any]

PARTS = {"joint_angles": "joint angles", "pose": "pose"}
IN_BAND, COVERAGE_1, COVERAGE_3 = 0.80, (0.55, 0.80), 0.97
NAMES = tuple(models.subjects(TrainingSet()))
BOUNDED = 1.5
"""Drift with a beacon is bounded where the last period's is at most so many times the second one's."""


@dataclass(frozen=True)
class Plan:
    """What is compared, and on how much.

    Attributes
    ----------
    estimators
        Of NAMES.
    compared_seeds
        For all but `plain` and the estimator that is followed, `calibrated`.
    followed
        The estimator that further runs are about.
    rates_hz
        Of further runs, beside 50 Hz.
    beacon_s
        Period of the poses from motion capture in further runs; 0: no such runs.
    workers
        Processes; None: one for each core. 0: none but this.
    """

    estimators: tuple[str, ...] = NAMES
    gaits: tuple[str, ...] = ALL_GAITS
    seeds: int = 20
    compared_seeds: int = 6
    duration_s: float = 60.0
    data: TrainingSet = field(default_factory=TrainingSet)
    followed: str = "calibrated"
    rates_hz: tuple[float, ...] = (5.0, 200.0)
    rate_seeds: int = 6
    beacon_s: float = 30.0
    beacon_seeds: int = 5
    beacon_duration_s: float = 180.0
    workers: int | None = None


QUICK = Plan(
    estimators=("plain", "ideal_noise", "local"),
    gaits=("left", "turning"),
    seeds=2,
    duration_s=12.0,
    data=TrainingSet(seeds=1),
    rates_hz=(),
    beacon_s=0.0,
    workers=0,
)


def run(quick: bool) -> list[Row]:
    """All rows."""
    return rows(QUICK if quick else Plan())


def rows(plan: Plan) -> list[Row]:
    """Targets first, then the tables by estimator and gait."""
    known = models.subjects(plan.data)
    campaigns = {
        name: Campaign(known[name], _seeds(plan, name), plan.gaits, plan.duration_s) for name in plan.estimators
    }
    for rate_hz in plan.rates_hz:
        subject = replace(
            known[plan.followed], name=f"{known[plan.followed].name}, {rate_hz:g} Hz", used_rate_hz=rate_hz
        )
        campaigns[f"{rate_hz:g} Hz"] = Campaign(subject, _first(plan.rate_seeds), plan.gaits, plan.duration_s)
    drifts = {}
    if plan.beacon_s:
        for name, period_s in (("without a beacon", None), (f"a beacon every {plan.beacon_s:g} s", plan.beacon_s)):
            subject = replace(known[plan.followed], name=name, beacon_s=period_s)
            drifts[name] = Campaign(subject, _first(plan.beacon_seeds), plan.gaits, plan.beacon_duration_s)
    lines = compute([*campaigns.values(), *drifts.values()], plan.workers)
    tables = [row for one in campaigns.values() for row in _table(one, lines)]
    drift_rows = [row for one in drifts.values() for row in _drift(one, lines, plan.beacon_s)]
    conditions = {
        "case": "scenario file and training",
        "figure": f"hash {scenario_hash(FILE)}; {len(plan.data.runs())} runs of {plan.data.duration_s:g} s a model",
        "scenario_hash": scenario_hash(FILE),
        "training_runs": plan.data.runs(),
    }
    return [conditions, *_targets(campaigns, lines), *_drift_targets(drift_rows), *tables, *drift_rows]


FIRST_TEST_SEED = 100
"""Seeds below were looked at while the training was being written."""


def _first(count: int) -> tuple[int, ...]:
    return tuple(range(FIRST_TEST_SEED, FIRST_TEST_SEED + count))


def _seeds(plan: Plan, name: str) -> tuple[int, ...]:
    return _first(plan.seeds if name in ("plain", plan.followed) else min(plan.seeds, plan.compared_seeds))


def _of(campaign: Campaign, lines: Mapping[str, Line], gait: str | None = None) -> list[Line]:
    """Lines of a campaign, of one gait or of all."""
    return [
        lines[line_key(campaign.subject, name, seed, campaign.duration_s)]
        for name in campaign.gaits
        for seed in campaign.seeds
        if gait in (None, name)
    ]


def joint_rms_deg(lines: Sequence[Line]) -> Array:
    """(S,) RMS of the joint angles' errors of each run."""
    return np.array([np.rad2deg(rms(np.array(line["joint_angles"]["error"]))) for line in lines])


def consistency(lines: Sequence[Line], part: str) -> Consistency:
    """Of a part over runs."""
    nees, errors, stddevs = (np.array([line[part][name] for line in lines]) for name in ("nees", "error", "stddev"))
    return judge_consistency(nees, errors, stddevs)


def _table(campaign: Campaign, lines: Mapping[str, Line]) -> list[Row]:
    """One row a gait."""
    out = []
    for gait in campaign.gaits:
        runs = _of(campaign, lines, gait)
        name = campaign.subject.name
        row: Row = {"case": f"{name}, {gait}", "table": "By estimator and gait", "estimator": name, "gait": gait}
        row["seeds"] = len(runs)
        cells = {"estimator": name, "gait": gait, "seeds": str(len(runs))}
        errors_deg = joint_rms_deg(runs)
        row |= {
            "joint_rmse_median_deg": rounded(np.median(errors_deg)),
            "joint_rmse_worst_deg": rounded(max(errors_deg)),
        }
        row["joint_rmse_deg"] = [rounded(value) for value in errors_deg]
        cells["joint RMSE, median (worst)"] = f"{np.median(errors_deg):.2f} ({max(errors_deg):.2f}) deg"
        for part, label in PARTS.items():
            found = consistency(runs, part)
            row |= {f"{part}_{key}": rounded(value) for key, value in _figures(found).items()}
            cells[f"{label}: NEES"] = f"{found.nees_per_degree_of_freedom:.3g}"
            cells["in band" if part == "joint_angles" else "in band "] = f"{100.0 * found.share_in_band:.0f} %"
            coverage = f"{found.coverage_1_sigma:.2f}, {found.coverage_3_sigma:.3f}"
            cells["1, 3 sigma" if part == "joint_angles" else "1, 3 sigma "] = coverage
        out.append(row | {"cells": cells})
    return out


def _figures(found: Consistency) -> dict[str, float]:
    return {
        "nees_per_degree_of_freedom": found.nees_per_degree_of_freedom,
        "share_in_band": found.share_in_band,
        "coverage_1_sigma": found.coverage_1_sigma,
        "coverage_3_sigma": found.coverage_3_sigma,
    }


def _targets(campaigns: Mapping[str, Campaign], lines: Mapping[str, Line]) -> list[Row]:
    """Joint angles over all gaits and seeds of each estimator; consistency of the calibrated one, at each rate."""
    out = []
    for name, campaign in campaigns.items():
        errors_deg = joint_rms_deg(_of(campaign, lines))
        middle, worst = float(np.median(errors_deg)), float(errors_deg.max())
        text = f"median {middle:.2f} deg, worst {worst:.2f} deg of {len(errors_deg)} runs"
        row: Row = {"case": f"joint RMSE, {campaign.subject.name}", "figure": text}
        row |= {"joint_rmse_median_deg": rounded(middle), "joint_rmse_worst_deg": rounded(worst)}
        if name == "calibrated":
            row |= {"target": "median <= 1 deg, worst <= 3 deg", "met": middle <= 1.0 and worst <= 3.0}
        if name == "ideal_noise":
            row |= {"target": "median >= 8 deg: hard enough to count", "met": middle >= 8.0}
        out.append(row)
    judged = {name: one for name, one in campaigns.items() if name == "calibrated" or name.endswith(" Hz")}
    for campaign in judged.values():
        for part, label in PARTS.items():
            by_gait = {gait: consistency(_of(campaign, lines, gait), part) for gait in campaign.gaits}
            out.append(_consistent(f"{label}, {campaign.subject.name}, {len(campaign.seeds)} seeds", by_gait))
    return out


def _consistent(label: str, by_gait: Mapping[str, Consistency]) -> Row:
    """A row on the worst gait of each figure."""
    in_band = {gait: found.share_in_band for gait, found in by_gait.items()}
    once = [found.coverage_1_sigma for found in by_gait.values()]
    thrice = [found.coverage_3_sigma for found in by_gait.values()]
    worst = min(in_band, key=lambda gait: in_band[gait])
    text = f"in band {100.0 * in_band[worst]:.0f} % ({worst}) to {100.0 * max(in_band.values()):.0f} %; "
    text += f"1 sigma {min(once):.2f} to {max(once):.2f}, 3 sigma >= {min(thrice):.3f}"
    return {
        "case": f"consistency by gait, {label}",
        "figure": text,
        "share_in_band": {gait: rounded(share) for gait, share in in_band.items()},
        "target": f">= {100.0 * IN_BAND:.0f} %; {COVERAGE_1[0]:g} to {COVERAGE_1[1]:g}; >= {COVERAGE_3:g}",
        "met": in_band[worst] >= IN_BAND
        and min(once) >= COVERAGE_1[0]
        and max(once) <= COVERAGE_1[1]
        and min(thrice) >= COVERAGE_3,
    }


def _drift(campaign: Campaign, lines: Mapping[str, Line], period_s: float) -> list[Row]:
    """RMS of the pose's error over seeds in the second and in the last period, and its consistency."""
    at_s = instants(campaign.duration_s)
    second = (at_s >= period_s) & (at_s < 2.0 * period_s)
    last = at_s >= campaign.duration_s - period_s
    out = []
    for gait in campaign.gaits:
        runs = _of(campaign, lines, gait)
        error, found = np.array([line["pose"]["error"] for line in runs]), consistency(runs, "pose")
        position = [100.0 * np.sqrt(2.0) * rms(error[:, where, :2]) for where in (second, last)]
        heading = [np.rad2deg(rms(error[:, where, 2])) for where in (second, last)]
        name = campaign.subject.name
        out.append(
            {
                "case": f"drift, {name}, {gait}",
                "table": f"Drift of the pose in {campaign.duration_s:g} s, with the residual model",
                "beacon_s": campaign.subject.beacon_s,
                "gait": gait,
                "seeds": len(runs),
                "position_rms_cm": [rounded(value) for value in position],
                "heading_rms_deg": [rounded(value) for value in heading],
                **{key: rounded(value) for key, value in _figures(found).items()},
                "cells": {
                    "": name,
                    "gait": gait,
                    "seeds": str(len(runs)),
                    f"position RMS, {period_s:g} to {2.0 * period_s:g} s": f"{position[0]:.1f} cm",
                    f"last {period_s:g} s": f"{position[1]:.1f} cm",
                    "heading RMS": f"{heading[0]:.2f} deg",
                    f"last {period_s:g} s ": f"{heading[1]:.2f} deg",
                    "NEES": f"{found.nees_per_degree_of_freedom:.2f}",
                    "in band": f"{100.0 * found.share_in_band:.0f} %",
                    "1, 3 sigma": f"{found.coverage_1_sigma:.2f}, {found.coverage_3_sigma:.3f}",
                },
            }
        )
    return out


def _drift_targets(drift: Sequence[Row]) -> list[Row]:
    """Whether the drift with a beacon is bounded and inside its covariance."""
    with_beacon = [row for row in drift if row["beacon_s"]]
    if not with_beacon:
        return []
    growth = max(row["position_rms_cm"][1] / row["position_rms_cm"][0] for row in with_beacon)
    inside = min(row["coverage_3_sigma"] for row in with_beacon)
    in_band = [100.0 * row["share_in_band"] for row in with_beacon]
    worst_cm = max(max(row["position_rms_cm"]) for row in with_beacon)
    return [
        {
            "case": f"pose with a beacon every {with_beacon[0]['beacon_s']:g} s",
            "figure": f"RMS <= {worst_cm:.1f} cm, last period {growth:.1f} times the second at most; "
            f"3 sigma >= {inside:.3f}, in band {min(in_band):.0f} to {max(in_band):.0f} %",
            "target": f"<= {BOUNDED:g} times; >= {COVERAGE_3:g}",
            "met": growth <= BOUNDED and inside >= COVERAGE_3,
        }
    ]


def main(arguments: list[str] | None = None) -> None:
    """A part of it."""
    plan = Plan()
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.salp.salp_hardware", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--estimators", nargs="*", default=[], choices=NAMES, help="none: rates and beacon only")
    parser.add_argument("--gaits", nargs="+", default=list(plan.gaits), choices=plan.gaits)
    parser.add_argument("--seeds", type=int, default=plan.seeds, help="how many, from 100 up")
    parser.add_argument("--compared-seeds", type=int, default=plan.compared_seeds, help="of all but two")
    parser.add_argument("--rates", nargs="*", type=float, default=[], help="further rates of `calibrated`, Hz")
    parser.add_argument("--rate-seeds", type=int, default=plan.rate_seeds)
    parser.add_argument("--beacon", type=float, default=0.0, help="period of a beacon, s")
    parser.add_argument("--beacon-seeds", type=int, default=plan.beacon_seeds)
    parser.add_argument("--workers", type=int, help="processes; 0: none but this")
    options = parser.parse_args(arguments)
    plan = replace(
        plan,
        estimators=tuple(options.estimators),
        gaits=tuple(options.gaits),
        seeds=options.seeds,
        compared_seeds=options.compared_seeds,
        rates_hz=tuple(options.rates),
        rate_seeds=options.rate_seeds,
        beacon_s=options.beacon,
        beacon_seeds=options.beacon_seeds,
        workers=options.workers,
    )
    result = {"cases": rows(plan)}
    print("\n".join([*case_lines(result), *further_lines(result)]))


if __name__ == "__main__":
    main()
