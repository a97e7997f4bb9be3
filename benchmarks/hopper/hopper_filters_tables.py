"""Rows of `hopper_filters` from what its pieces gave: targets, and tables by estimator, phase, event and rate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.hopper import hopper_filters_ground as ground
from benchmarks.hopper.hop_tables import error_table
from benchmarks.hopper.hopper_filters_runs import HEIGHTS_M, errors_of
from benchmarks.timing import rounded
from hopper_estimation.phases import EVENTS, PHASES

Array = NDArray[np.float64]
Row = dict[str, Any]
Results = Mapping[str, Sequence[Mapping[str, Any]]]

MEANING = {"m1": "M1, height", "m2": "M2, velocity", "m3": "M3, apex height", "m4": "M4, apex time"}
UNIT = {"m1": " %", "m2": " %", "m3": " %", "m4": " ms"}
TARGETS = {"m1": 13.0, "m2": 14.0, "m3": 6.0, "m4": 0.04}
WORST_M3, TIMES_BETTER, HARD_PERCENT, GROUND_M = 10.0, 2.5, 12.0, 0.018
ONE_SIGMA, THREE_SIGMA = (0.5, 0.85), 0.95
KF3 = ("kf3", "kf3_kf1")
BASELINES = ("ba1", "dr1", *KF3, "ba1_best", "dr1_best")
QUANTITIES = ("height", "velocity")


def values_of(result: Mapping[str, Any], metric: str, height_m: float | None = None) -> Array:
    """(N,) of all hops of a judged filter, or of those of one commanded height; NaN: none."""
    found = []
    for line in result["errors"]:
        if line["part"] == "cycle":
            values, command = np.array(line["values"][metric]), np.array(line["command_m"])
            found.append(values if height_m is None else values[np.abs(command - height_m) < 1e-3])
    return np.concatenate(found)


def mean_of(result: Mapping[str, Any], metric: str, height_m: float | None = None) -> float:
    """Mean over hops; NaN where there is none."""
    values = values_of(result, metric, height_m)
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else float("nan")


def by_seed(results: Sequence[Mapping[str, Any]], metric: str, height_m: float | None = None) -> Array:
    """(S,) means of each training seed."""
    return np.array([mean_of(one, metric, height_m) for one in results])


def target_rows(results: Results) -> list[Row]:
    """What the filters must reach; `kf1` as it is trained by default, and in the paper's form."""
    out: list[Row] = []
    for name, label in (("kf1", "KF1"), ("kf1_paper", "KF1, paper's form")):
        for metric, limit in TARGETS.items():
            found = by_seed(results[name], metric)
            middle, worst = float(np.median(found)), float(found.max())
            words = f"median {_said(middle, metric)}, worst {_said(worst, metric)}"
            row: Row = {
                "case": f"{label}: {MEANING[metric]}",
                "figure": f"{words} of {len(found)} training seeds",
                "by_training_seed": [rounded(value) for value in found],
                "target": f"median <= {_said(limit, metric)}",
                "met": middle <= limit,
            }
            if metric == "m3":
                row |= {"target": f"{row['target']}, worst <= {WORST_M3:g} %"}
                row |= {"met": middle <= limit and worst <= WORST_M3}
            out.append(row)
    ours = float(np.median(by_seed(results["kf1"], "m3")))
    theirs = {name: float(np.median(by_seed(results[name], "m3"))) for name in BASELINES}
    for words, names, judged in (
        ("BA1, DR1 as published and KF3 retrained", ("ba1", "dr1", "kf3"), True),
        ("BA1, DR1 in their best forms and KF3", ("ba1_best", "dr1_best", *KF3), False),
    ):
        best = min(names, key=lambda name: theirs[name])
        row = {
            "case": f"apex error of the best of {words} over that of KF1",
            "figure": f"{theirs[best] / ours:.2f} times ({best}: {theirs[best]:.1f} %)",
            "apex_error_percent": {name: rounded(theirs[name]) for name in names},
        }
        if judged:
            row |= {"target": f">= {TIMES_BETTER:g} times", "met": theirs[best] >= TIMES_BETTER * ours}
        out.append(row)
    own = theirs["kf3"]
    out.append(
        {
            "case": "KF3 with its own tuning: M3, apex height",
            "figure": f"{own:.1f} %",
            "target": f">= {HARD_PERCENT:g} %: hard enough to count",
            "met": own >= HARD_PERCENT,
        }
    )
    return [*out, *_coverage_targets(results)]


def _coverage_targets(results: Results) -> list[Row]:
    out: list[Row] = []
    for name, label in (("kf1", "KF1"), ("kf1_paper", "KF1, paper's form")):
        pooled = _shares(_summed(results[name]))[:, :4]
        each = np.array([_shares(np.array(one["within"]))[:, :4] for one in results[name]])
        once, thrice = pooled[..., 0], pooled[..., 1]
        held = (each[..., 0] >= ONE_SIGMA[0]) & (each[..., 0] <= ONE_SIGMA[1]) & (each[..., 1] >= THREE_SIGMA)
        out.append(
            {
                "case": f"{label}: coverage by phase, height and velocity",
                "figure": f"1 sigma {once.min():.2f} to {once.max():.2f}, 3 sigma >= {thrice.min():.3f}; "
                f"single training seeds hold in {held.sum()} of {held.size} (seed, phase, quantity)",
                "target": f"{ONE_SIGMA[0]:g} to {ONE_SIGMA[1]:g}, >= {THREE_SIGMA:g}",
                "met": bool(once.min() >= ONE_SIGMA[0] and once.max() <= ONE_SIGMA[1] and thrice.min() >= THREE_SIGMA),
            }
        )
    return out


def _summed(results: Sequence[Mapping[str, Any]]) -> Array:
    """(2, 5, 3) numbers of samples over training seeds."""
    return np.sum([one["within"] for one in results], axis=0)


def _shares(within: Array) -> Array:
    """(2, 5, 2) within one and three standard deviations, of height and velocity in each phase."""
    return np.asarray(within[..., 1:] / np.maximum(within[..., :1], 1.0))


def error_rows(results: Results, labels: Mapping[str, str]) -> list[Row]:
    """One row for each metric and filter: medians over training seeds by height, pooled, and the worst pooled one."""
    out = []
    for metric in MEANING:
        for name, some in results.items():
            pooled = by_seed(some, metric)
            heights = {height: float(np.median(by_seed(some, metric, height))) for height in HEIGHTS_M.values()}
            told = [
                (
                    sum(line["partner"].count(-1) for line in _cycles(one)),
                    sum(len(line["extra"]) for line in _cycles(one)),
                )
                for one in some
            ]
            hops = sum(len(line["command_m"]) for line in _cycles(some[0]))
            out.append(
                {
                    "case": f"{metric}, {labels[name]}",
                    "table": "Errors by hop on test robots, medians over training seeds",
                    "metric": metric,
                    "estimator": name,
                    "by_training_seed": [rounded(value) for value in pooled],
                    "by_height": {f"{height:g} m": rounded(value) for height, value in heights.items()},
                    "missed_extra_by_training_seed": told,
                    "cells": {
                        "": MEANING[metric],
                        "estimator": labels[name],
                        **{f"{height:g} m": _said(value, metric) for height, value in heights.items()},
                        "1-4 m": _said(float(np.median(pooled)), metric),
                        "worst seed": _said(float(pooled.max()), metric) if len(pooled) > 1 else "",
                        "hops": str(hops),
                        "missed": _range(one[0] for one in told),
                        "extra": _range(one[1] for one in told),
                    },
                }
            )
    return out


def coverage_rows(results: Results, labels: Mapping[str, str]) -> list[Row]:
    """Shares within one and three standard deviations, pooled over training seeds."""
    out = []
    for name, some in results.items():
        pooled = _shares(_summed(some))
        each = np.array([_shares(np.array(one["within"])) for one in some])
        for number, quantity in enumerate(QUANTITIES):
            cells = {"estimator": labels[name], "": quantity}
            for phase, words in enumerate(PHASES[:4]):
                once, thrice = pooled[number, phase]
                low, high = each[:, number, phase, 0].min(), each[:, number, phase, 0].max()
                cells[words.replace("_", " ")] = f"{once:.2f} ({low:.2f} to {high:.2f}), {thrice:.3f}"
            out.append(
                {
                    "case": f"coverage of {quantity}, {labels[name]}",
                    "table": "Within one standard deviation (range over training seeds), and within three",
                    "shares": pooled[number, :4].round(4).tolist(),
                    "cells": cells,
                }
            )
    return out


def event_rows(results: Results, labels: Mapping[str, str]) -> list[Row]:
    """Timing of events, pooled over training seeds."""
    out = []
    for name, some in results.items():
        for event in EVENTS:
            error = np.abs(np.concatenate([one["timing"][event]["error_s"] for one in some]))
            delay = np.concatenate([one["timing"][event]["delay_s"] for one in some])
            missed, extra = (sum(one["timing"][event][what] for one in some) for what in ("missed", "extra"))
            middle, most = (1e3 * float(np.quantile(error, share)) if len(error) else np.nan for share in (0.5, 0.95))
            out.append(
                {
                    "case": f"{event}, {labels[name]}",
                    "table": "Times of events: how late they are seen, and how far off the told time is",
                    "cells": {
                        "estimator": labels[name],
                        "event": event.replace("_", " "),
                        "events": str(len(error) + missed),
                        "seen after, median": f"{1e3 * float(np.median(delay)):.1f} ms" if len(delay) else "",
                        "off, median": f"{middle:.1f} ms",
                        "off, 95 %": f"{most:.1f} ms",
                        "missed": str(missed),
                        "extra": str(extra),
                    },
                }
            )
    return out


def optimiser_rows(
    results: Results,
    searched: Results,
    sizes: Mapping[str, tuple[int, int]],
    labels: Mapping[str, str],
) -> list[Row]:
    """Cost on training hops and apex error on test hops of each optimiser."""
    out = []
    for name, some in results.items():
        cost, apex = np.array([one["cost"] for one in searched[name]]), by_seed(some, "m3")
        evaluations = [one["evaluations"] for one in searched[name]]
        out.append(
            {
                "case": labels[name],
                "table": "Optimisers at equal evaluations, KF1",
                "cost_by_training_seed": [rounded(value) for value in cost],
                "apex_error_by_training_seed": [rounded(value) for value in apex],
                "stopped": [one["stopped"] for one in searched[name]],
                "cells": {
                    "optimiser": labels[name].partition(", ")[2],
                    "individuals x generations": f"{sizes[name][0]} x {sizes[name][1]}",
                    "evaluations": _range(evaluations),
                    "cost on training hops, median": f"{np.median(cost):.4f}",
                    "worst": f"{cost.max():.4f}",
                    "M3 on test hops, median": f"{np.median(apex):.2f} %",
                    "worst ": f"{apex.max():.2f} %",
                },
            }
        )
    return out


def paper_table_rows(results: Results, owner: Mapping[int, int], controlled: Sequence[Any]) -> list[Row]:
    """The layout of the paper's Table III: each test robot with the filters of one training seed, `owner`."""
    names = {
        "ba1": "BA1",
        "ba1_best": "BA1, best form",
        "dr1": "DR1",
        "dr1_best": "DR1, best form",
        "kf3": "KF3, retrained",
        "kf3_kf1": "KF3, KF1's parameters",
        "kf1": "HVSE1",
    }
    gaits = len(HEIGHTS_M)
    errors = []
    for name, label in names.items():
        for number, training in enumerate(owner.values()):
            some = results[name]
            lines = some[training if len(some) > 1 else 0]["errors"][2 * gaits * number : 2 * gaits * (number + 1)]
            errors += [errors_of(line, label) for line in lines if line["part"] == "cycle"]
            if name == "kf1":
                errors += [errors_of(line, "HVSE3") for line in lines if line["part"] == "aerial"]
    for lines in controlled:
        errors += [errors_of(line, "HVSE4" if line["part"] == "aerial" else "HVSE2") for line in lines]
    order = list(dict.fromkeys([*names.values(), "HVSE2", "HVSE3", "HVSE4"]))
    errors.sort(key=lambda one: order.index(one.estimator))
    shown = error_table(errors, "HVSE2", tuple(HEIGHTS_M.values())).report_table()
    title = "Layout of the paper's Table III: control by the true (GT) and by the estimated state (SE)"
    return [
        {
            "case": f"Table III, {row[0]}, {row[1]}",
            "table": f"{title}; {shown.title}",
            "cells": dict(zip(shown.headings, row, strict=True)),
        }
        for row in shown.rows
    ]


def ground_rows(found: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]]) -> list[Row]:
    """After 30 hops: mean size of the error over test robots, median and worst over training seeds."""
    targets, tables = [], []
    words = {"hardware": "flat ground", "uneven": "uneven ground"}
    for scenario, by_training in found.items():
        for way in (ground.SHIPPED, ground.DIRECT_EQUATION, ground.DROP_EQUATION, ground.UNTRAINED):
            errors = np.array([[one["errors_m"][way][: ground.HOPS + 1] for one in some] for some in by_training])
            last = errors[..., -1]
            size, signed = np.abs(last).mean(axis=1), last.mean(axis=1)
            step = np.abs(np.diff(errors, axis=-1)).mean()
            tables.append(
                {
                    "case": f"ground height, {words[scenario]}, {way}",
                    "table": f"Error of the ground's height after {ground.HOPS} hops of 1 to 4 m",
                    "mean_size_by_training_seed_m": [rounded(value) for value in size],
                    "mean_by_training_seed_m": [rounded(value) for value in signed],
                    "cells": {
                        "": words[scenario],
                        "way": way,
                        "mean size, median": f"{np.median(size):.3f} m",
                        "worst": f"{size.max():.3f} m",
                        "mean with sign, median": f"{np.median(signed):+.3f} m",
                        "one hop, mean size": f"{step:.3f} m",
                        "runs": str(last.size),
                    },
                }
            )
            if way == ground.SHIPPED:
                middle = float(np.median(size))
                targets.append(
                    {
                        "case": f"ground height after {ground.HOPS} hops, {words[scenario]}, {way}",
                        "figure": f"{middle:.3f} m mean size, worst training seed {size.max():.3f} m",
                        "target": f"<= {GROUND_M:g} m",
                        "met": middle <= GROUND_M,
                    }
                )
    return [*targets, *tables]


def rate_rows(found: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Errors at each rate; growth: deviation over the noise in the last quarter over that in the first."""
    out = []
    for one in found:
        deviation, exact = np.array(one["deviation"]), np.array(one["exact"])
        quarter = deviation.shape[1] // 4
        growth = np.sqrt(
            np.mean(deviation[:, -quarter:] ** 2, axis=1)
            / np.maximum(np.mean(deviation[:, :quarter] ** 2, axis=1), 1e-12)
        )
        hops = sum(run["hops"] for run in one["hops"])
        missed = sum(run["missed"] for run in one["hops"])
        apex = np.array([run["m3"] for run in one["hops"]], float)
        known = apex[np.isfinite(apex)]
        out.append(
            {
                "case": f"{one['rate_hz']:g} Hz",
                "table": "Sensing frequency: KF1 trained at 840 Hz, hops of 3 m",
                "rms": [rounded(value) for value in one["rms"]],
                "growth": [rounded(value) for value in growth],
                "cells": {
                    "rate": f"{one['rate_hz']:g} Hz",
                    "height RMS": f"{one['rms'][0]:.3g} m",
                    "velocity RMS": f"{one['rms'][1]:.3g} m/s",
                    "without noise": f"{np.sqrt(np.mean(exact[0] ** 2)):.3g} m",
                    "without noise ": f"{np.sqrt(np.mean(exact[1] ** 2)):.3g} m/s",
                    "deviation of height grows": f"{growth[0]:.2g} times",
                    "M3": f"{known.mean():.1f} %" if len(known) else "",
                    "missed": f"{missed} of {hops}",
                },
            }
        )
    return out


def _cycles(result: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return [line for line in result["errors"] if line["part"] == "cycle"]


def _said(value: float, metric: str) -> str:
    if np.isnan(value):
        return "-"
    return f"{1e3 * value:.0f} ms" if metric == "m4" else f"{value:.2f} %"


def _range(numbers: Iterable[int]) -> str:
    found = list(numbers)
    return str(found[0]) if min(found) == max(found) else f"{min(found)} to {max(found)}"
