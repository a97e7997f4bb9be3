"""How well and how surely salps' filters know the joint angles, with and without residual models; nothing is timed.

Every seed is another robot: friction, harness, delays, mounting and gyro biases are drawn anew, and so is the error of
the initial state. The first 6 s are left out. NEES is averaged over seeds at each of five instants a second and judged
by its 95 % band there; coverage counts single errors. Nothing is chosen on seeds that judge.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.pool import in_turns
from benchmarks.recordings import recordings
from benchmarks.salp.changes import CHANGES
from benchmarks.salp.paper_filter import PaperFilter
from benchmarks.salp.runs import (
    GAIT_NAMES,
    OFF_DEG,
    SETTLE_S,
    Job,
    Run,
    Source,
    Trained,
    TrainingSet,
    all_judged,
    consistency,
    foreign,
    full_row,
    judged_row,
    off_jobs,
    simulated,
    trained,
    unknown,
)
from benchmarks.scenarios import scenario_hash
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.simulation.foreign_effects import ForeignScenario, foreign_scenario
from salp_estimation.simulation.hardware_scenario import FILE

Row = dict[str, Any]

IDEAL_NOISE = "config/salp_ideal.yaml"
DOUBTS: dict[str, dict[str, Any]] = {
    "one filter": {"initial.wrong_start_probability": 0.0},
    "in doubt of its start": {},
}
"""Settings of the filter, by what they are."""
PLAIN: dict[str, Any] = {"gyro.used_rate_hz": 50.0}
IN_BAND, COVERAGE_1, COVERAGE_3, BOUNDED = 0.80, (0.55, 0.80), 0.97, 1.5
FIRST_TEST_SEED = 100
"""Of `salp_hardware`; seeds below were looked at while the training was being written."""


def _split(found: Sequence[list[Run]], counts: Mapping[str, int]) -> dict[str, list[Run]]:
    """The first stretch of each run, by what they are, in that order."""
    runs = iter(found)
    return {name: [next(runs)[0] for _ in range(count)] for name, count in counts.items()}


def salp_own(quick: bool) -> list[Row]:
    """Salp in our own scenario `hardware`, trained on few runs and on more: usual starts, and starts 20 deg off.

    Five runs of 90 s, one a gait, or 25 of 20.5 s; judged on seeds 400 to 403 of five gaits, 60 s each. The form shares
    many terms with this simulator: what it does on robots that nobody here wrote says more (`salp_unknown`).
    """
    judging = [("forward", 400)] if quick else list(product(GAIT_NAMES, range(400, 404)))
    sets = {"5 runs of 90 s": TrainingSet(seeds=1, duration_s=90.0), "25 runs of 20.5 s": TrainingSet()}
    targets_deg = {"5 runs of 90 s": (1.2, 3.0), "25 runs of 20.5 s": (0.8, 2.0)}
    table, rows = "Salp, scenario `hardware`", []
    with tempfile.TemporaryDirectory() as name:
        taught = [(Path(name), "calibrated", one.sources()) for one in sets.values()]
        models = dict(zip(sets, in_turns(trained, taught), strict=True))
        jobs = [Job(simulated("hardware", *one, 60.0), {}, one[1]) for one in judging]
        for words, model in models.items():
            runs = [one for (one,) in all_judged([replace(job, settings=model.settings) for job in jobs])]
            row, (median, worst) = judged_row(table, words, "calibrated", runs, model.factor), targets_deg[words]
            found = sorted(one.joints_deg for one in runs)
            rows.append(row | {"met": found[len(found) // 2] <= median and found[-1] <= worst})
        for words, doubt in DOUBTS.items():
            settings = {**models["25 runs of 20.5 s"].settings, **doubt}
            off = [one for job in jobs for one in off_jobs(replace(job, settings=settings))]
            runs = [one for (one,) in all_judged(off)]
            rows.append(judged_row(table, f"25 runs, {OFF_DEG:g} deg off at the start, {words}", "calibrated", runs))
    return rows


def salp_surprises(quick: bool) -> list[Row]:
    """Salps of the scenario `hardware` that are not as in training: a silent gyro, a weak wheel, a loaded link.

    Magnitudes were fixed before anything was made for them, which was done with seed 300. Trained on 25 runs of 20.5 s;
    judged on seeds 410 to 413 of five gaits, 60 s each; which link it happens to goes round. "told": runs in which a
    sentence says it.
    """
    judging = list(product(GAIT_NAMES, range(410, 414)))[: 1 if quick else None]
    table, rows = "Salp that is not as in training, scenario `hardware`", []
    with tempfile.TemporaryDirectory() as name:
        model = trained(Path(name), "calibrated", TrainingSet().sources())
        for words, change in CHANGES.items():
            stretches = change.stretches_s
            jobs = [
                Job(
                    partial(change.recording, gait, seed, change.links[number % len(change.links)]),
                    model.settings, seed, stretches_s=tuple(stretches.values()),
                )
                for number, (gait, seed) in enumerate(judging)
            ]  # fmt: skip
            for stretch, runs in zip(stretches, zip(*all_judged(jobs), strict=True), strict=True):
                rows.append(judged_row(table, words + stretch, "calibrated", runs))
    return rows


def salp_foreign(quick: bool) -> list[Row]:
    """Salp in the scenario `foreign`: effects that no estimator has a term for; and each of them alone.

    Trained on ten runs of 30 s (two of each gait, each another robot), judged on robots that are not among them, 60 s
    each: seeds 500 to 503 with all effects, 500 and 501 with one at a time. Nothing was tuned to it.
    """
    everything = foreign_scenario()
    effects = [one.name for one in fields(ForeignScenario) if one.default == 0.0]  # a zero switches them off
    judging = [("forward", 500)] if quick else list(product(GAIT_NAMES, range(500, 504)))
    cases = [
        ("Salp, scenario `foreign`", "all effects", form, everything, judging)
        for form in ("", "calibrated", "gaussian_process")
    ]
    for effect in () if quick else ("", *effects):
        scenario = replace(everything, **{name: 0.0 for name in effects if name != effect})
        few = list(product(GAIT_NAMES, range(500, 502)))
        cases.append(("Salp, one effect at a time", effect or "none", "calibrated", scenario, few))
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for table, words, form, scenario, some in cases:
            taught = [(gait, 920_000 + 100 * number + k) for number, gait in enumerate(GAIT_NAMES) for k in range(2)]
            model = _trained(Path(name), form, [foreign(scenario, *one, 30.0) for one in taught])
            jobs = [Job(foreign(scenario, *one, 60.0), model.settings, one[1]) for one in some]
            runs = [one for (one,) in all_judged(jobs)]
            rows.append(judged_row(table, words, form or "no model", runs, model.factor if form else None))
    return rows


def _trained(folder: Path, form: str, sources: Sequence[Source]) -> Trained:
    """Without a form, the plain filter."""
    return trained(folder, form, sources) if form and sources else Trained({}, 1.0)


def salp_noise(quick: bool) -> list[Row]:
    """LandSalp's filter without a model: what noise covers a real robot, and what that costs where the model is right.

    The noise that ships was chosen on seeds 1 to 3; reported are seeds 101 to 107 of both scenarios, and the noise of
    the scenario `ideal`. Wanted, over all gaits: three standard deviations cover at least 95 % of the errors of joint
    angles and of the pose, each, and the joint angles' RMSE is at most the 8.1 deg (median) of the best noise raised by
    hand when errors of the model were still taken for white.
    """
    seeds, gaits, seconds = ((101,), ("forward",), 12.0) if quick else (range(101, 108), GAIT_NAMES, 60.0)
    cases = {
        "as shipped, hardware": ("hardware", "", seeds),
        "noise of `ideal`, hardware": ("hardware", IDEAL_NOISE, seeds[:2]),
        "as shipped, ideal": ("ideal", "", seeds),
        "noise of `ideal`, ideal": ("ideal", IDEAL_NOISE, seeds),
    }
    runs = {(name, gait): (*case[:2], gait, case[2]) for name, case in cases.items() for gait in gaits}
    jobs = [
        Job(simulated(scenario, gait, seed, seconds), PLAIN, seed, file)
        for scenario, file, gait, some in runs.values()
        for seed in some
    ]
    found = _split(all_judged(jobs), {key: len(one[-1]) for key, one in runs.items()})  # type: ignore[misc]
    shipped = [run for (name, _), some in found.items() if name == "as shipped, hardware" for run in some]
    joints, pose = (consistency(shipped, part).coverage_3_sigma for part in ("joint_angles", "pose"))
    error = float(np.median([one.joints_deg for one in shipped]))
    target = {
        "case": "without a model, as shipped, hardware, test seeds",
        "figure": f"3 sigma cover {joints:.3f} of the joint angles' errors, {pose:.3f} of the pose's; joint RMSE "
        f"{error:.2f} deg (median)",
        "target": ">= 0.95 each; <= 8.1 deg",
        "met": min(joints, pose) >= 0.95 and error <= 8.1,
        "scenario_hash": scenario_hash(FILE),
    }
    return [target, *(full_row("Noise and scenario, on test seeds", *key, some) for key, some in found.items())]


def salp_hardware(quick: bool) -> list[Row]:
    """LandSalp in the scenario `hardware`: accuracy and consistency, with and without residual models.

    Models are trained on seeds from 900000 up and judged on seeds from 100, 60 s each; further runs of the calibrated
    one with gyros at 5 and 200 Hz, and of 180 s with a pose of motion capture every 30 s. About two hours.
    """
    if quick:
        return hardware_rows(("ideal_noise", "local"), ("left", "turning"), 2, 12.0, TrainingSet(seeds=1))
    return hardware_rows(tuple(_subjects(TrainingSet())), GAIT_NAMES, 20, 60.0, TrainingSet(), (5.0, 200.0), 30.0)


def _subjects(data: TrainingSet) -> dict[str, tuple[str, str, TrainingSet]]:
    """What is compared: what it is called, its form, and what it is trained with."""
    forward = replace(data, forward_only=True)
    return {
        "plain": ("plain, as shipped", "", data),
        "ideal_noise": ("plain, noise of the scenario ideal", "", data),
        "gp_forward": ("paper's form, forward only, inducing points", "gaussian_process", forward),
        "gp_all": ("paper's form, all gaits, inducing points", "gaussian_process", data),
        "local": ("local, all gaits", "local", data),
        "calibrated_forward": ("calibrated, forward only", "calibrated", forward),
        "calibrated": ("calibrated, all gaits", "calibrated", data),
    }


def hardware_rows(
    names: Sequence[str],
    gaits: Sequence[str],
    count: int,
    seconds: float,
    data: TrainingSet,
    rates_hz: Sequence[float] = (),
    beacon_s: float = 0.0,
    followed: str = "calibrated",
    drift_s: float = 180.0,
) -> list[Row]:
    """Targets first, then the tables; all but `plain` and the estimator that is followed have six seeds at most."""
    with tempfile.TemporaryDirectory() as name:
        subjects = {key: one for key, one in _subjects(data).items() if key in (*names, followed)}
        trainings = [(Path(name), *one) for one in subjects.values()]
        models = dict(zip(subjects, in_turns(_model, trainings), strict=True))
        seeds = {key: count if key in ("plain", followed) else min(count, 6) for key in names}
        cases = {subjects[key][0]: (models[key].settings, seeds[key]) for key in names}
        label, settings = subjects[followed][0], models[followed].settings
        cases |= {
            f"{label}, {rate:g} Hz": ({**settings, "gyro.used_rate_hz": rate}, min(count, 6)) for rate in rates_hz
        }
        keys = {(words, gait): many for (words, (_, many)), gait in product(cases.items(), gaits)}
        jobs = [
            Job(
                simulated("hardware", gait, seed, seconds),
                cases[words][0],
                seed,
                IDEAL_NOISE if "ideal" in words else "",
            )
            for (words, gait), many in keys.items()
            for seed in range(FIRST_TEST_SEED, FIRST_TEST_SEED + many)
        ]
        drifts = {(period, gait): min(count, 5) for period in (None, beacon_s) for gait in gaits} if beacon_s else {}
        jobs += [
            Job(simulated("hardware", gait, seed, drift_s), settings, seed, beacon_s=period)
            for (period, gait), many in drifts.items()
            for seed in range(FIRST_TEST_SEED, FIRST_TEST_SEED + many)
        ]
        found = _split(all_judged(jobs), {**keys, **drifts})  # type: ignore[arg-type]
    told = f"hash {scenario_hash(FILE)}; {len(data.runs())} runs of {data.duration_s:g} s a model"
    runs: dict[Any, list[Run]] = {key: found[key] for key in keys}  # type: ignore[index]
    drift = [_drift(period, gait, found[period, gait], beacon_s, drift_s) for period, gait in drifts]  # type: ignore[index]
    return [
        {"case": "scenario file and training", "figure": told, "scenario_hash": scenario_hash(FILE)},
        *(_joint_target(words, [one for gait in gaits for one in runs[words, gait]]) for words in cases),
        *_consistent_rows(runs, {words: many for words, (_, many) in cases.items() if words.startswith(label)}, gaits),
        *_drift_target([one for one in drift if one["beacon_s"]]),
        *(full_row("By estimator and gait", *key, some) for key, some in runs.items()),
        *drift,
    ]  # fmt: skip


def _model(folder: Path, label: str, form: str, data: TrainingSet) -> Trained:
    return trained(folder, form, data.sources()) if form else Trained(PLAIN, 1.0)


def _joint_target(words: str, runs: Sequence[Run]) -> Row:
    """Joint angles over all gaits and seeds of an estimator."""
    errors = [one.joints_deg for one in runs]
    middle, worst = float(np.median(errors)), max(errors)
    row: Row = {"case": f"joint RMSE, {words}", "joint_rmse_median_deg": middle}
    row["figure"] = f"median {middle:.2f} deg, worst {worst:.2f} deg of {len(errors)} runs"
    if words == "calibrated, all gaits":
        row |= {"target": "median <= 1 deg, worst <= 3 deg", "met": middle <= 1.0 and worst <= 3.0}
    if words.startswith("plain, noise"):
        row |= {"target": "median >= 8 deg: hard enough to count", "met": middle >= 8.0}
    return row


def _consistent_rows(runs: Mapping[Any, list[Run]], counts: Mapping[str, int], gaits: Sequence[str]) -> list[Row]:
    """Of each estimator and part of the state."""
    return [
        _consistent(
            f"{part.replace('_', ' ')}, {words}, {many} seeds",
            {gait: consistency(runs[words, gait], part) for gait in gaits},
        )
        for words, many in counts.items()
        for part in ("joint_angles", "pose")
    ]


def _consistent(label: str, by_gait: Mapping[str, Any]) -> Row:
    """A row on the worst gait of each figure."""
    in_band = {gait: found.share_in_band for gait, found in by_gait.items()}
    once = [found.coverage_1_sigma for found in by_gait.values()]
    thrice = [found.coverage_3_sigma for found in by_gait.values()]
    worst = min(in_band, key=lambda gait: in_band[gait])
    text = f"in band {100.0 * in_band[worst]:.0f} % ({worst}) to {100.0 * max(in_band.values()):.0f} %; "
    text += f"1 sigma {min(once):.2f} to {max(once):.2f}, 3 sigma >= {min(thrice):.3f}"
    held = COVERAGE_1[0] <= min(once) and max(once) <= COVERAGE_1[1] and min(thrice) >= COVERAGE_3
    target = f">= {100.0 * IN_BAND:.0f} %; {COVERAGE_1[0]:g} to {COVERAGE_1[1]:g}; >= {COVERAGE_3:g}"
    met = in_band[worst] >= IN_BAND and held
    return {"case": f"consistency by gait, {label}", "figure": text, "target": target, "met": met}


def _drift(period: float | None, gait: str, runs: Sequence[Run], beacon_s: float, drift_s: float) -> Row:
    """RMS of the pose's error over seeds in the second and in the last period of a beacon, and its consistency."""
    at_s = SETTLE_S + np.arange(len(runs[0].nees["pose"])) / 5.0
    second, last = (at_s >= beacon_s) & (at_s < 2.0 * beacon_s), at_s >= drift_s - beacon_s
    error, found = np.array([one.error["pose"] for one in runs]), consistency(runs, "pose")
    position = [100.0 * np.sqrt(2.0 * np.nanmean(error[:, where, :2] ** 2)) for where in (second, last)]
    heading = [np.rad2deg(np.sqrt(np.nanmean(error[:, where, 2] ** 2))) for where in (second, last)]
    words = f"a beacon every {period:g} s" if period else "without a beacon"
    cells = {
        "": words,
        "gait": gait,
        "seeds": str(len(runs)),
        f"position RMS, {beacon_s:g} to {2.0 * beacon_s:g} s; last": f"{position[0]:.1f}; {position[1]:.1f} cm",
        "heading RMS": f"{heading[0]:.2f}; {heading[1]:.2f} deg",
        "NEES": f"{found.nees_per_degree_of_freedom:.2f}",
        "in band": f"{100.0 * found.share_in_band:.0f} %",
        "1, 3 sigma": f"{found.coverage_1_sigma:.2f}, {found.coverage_3_sigma:.3f}",
    }
    figures = {"beacon_s": period, "position_rms_cm": position, "found": (found.coverage_3_sigma, found.share_in_band)}
    table = f"Drift of the pose in {drift_s:g} s, with the residual model"
    return {"case": f"drift, {words}, {gait}", "table": table, "cells": cells, **figures}


def _drift_target(drift: Sequence[Row]) -> list[Row]:
    """Whether the drift with a beacon is bounded and inside its covariance."""
    if not drift:
        return []
    growth = max(one["position_rms_cm"][1] / one["position_rms_cm"][0] for one in drift)
    inside, in_band = (np.array([one["found"][k] for one in drift]) for k in range(2))
    worst_cm = max(max(one["position_rms_cm"]) for one in drift)
    figure = f"RMS <= {worst_cm:.1f} cm, last period {growth:.1f} times the second at most; 3 sigma >= "
    figure += f"{inside.min():.3f}, in band {100.0 * in_band.min():.0f} to {100.0 * in_band.max():.0f} %"
    met = bool(growth <= BOUNDED and inside.min() >= COVERAGE_3)
    target = f"<= {BOUNDED:g} times; >= {COVERAGE_3:g}"
    return [
        {"case": f"pose with a beacon every {drift[0]['beacon_s']:g} s", "figure": figure, "target": target, "met": met}
    ]


class Split(NamedTuple):
    """Runs (day, gait) that teach, runs that judge, and seeds of the initial errors that these begin with."""

    group: str
    name: str
    teach: tuple[tuple[int, str], ...]
    judge: tuple[tuple[int, str], ...]
    seeds: tuple[int, ...]


def splits() -> list[Split]:
    """Two days teach and the third judges; one teaches and the others judge; a gait is left out of all days."""
    days, everything = (1, 2, 3), tuple(product((1, 2, 3), GAIT_NAMES))
    found = [Split("nothing trained", "", (), everything, (0, 1))]
    for day in days:
        one, others = (tuple(run for run in everything if (run[0] == day) == is_it) for is_it in (True, False))
        found.append(Split("two days teach", f"day {day} judges", others, one, (0, 1)))
        found.append(Split("one day teaches", f"day {day} teaches", one, others, (0,)))
    for gait in GAIT_NAMES:
        one, others = (tuple(run for run in everything if (run[1] == gait) == is_it) for is_it in (True, False))
        found.append(Split("a gait left out", gait, others, one, (0, 1)))
    return found


def salp_unknown(quick: bool) -> list[Row]:
    """A LandSalp-like robot of unknown build (simulated by others), on three days: trained on some, judged on others.

    Forms: none, `calibrated`; `gaussian_process` where two days teach, and the paper's to the letter (`paper_filter`)
    where two or one do. `calibrated` with two days also from starts whose joint angles are 20 deg off, told as 5. Needs
    the recordings `unknown_salp`.
    """
    recordings("unknown_salp")
    cases = [(one, "calibrated") for one in splits()]
    cases += [(one, "gaussian_process") for one in splits() if one.group == "two days teach"]
    cases += [(one, _TO_THE_LETTER) for one in splits() if one.group in ("two days teach", "one day teaches")]
    rows, groups = [], dict[tuple[str, str], list[Run]]()
    with tempfile.TemporaryDirectory() as name:
        for split, form in cases[: 1 if quick else None]:
            sources, factor = {one: unknown(*one) for one in (*split.teach, *split.judge)}, None
            judging = [(sources[one], seed) for one in split.judge for seed in split.seeds]
            told = form if split.teach else "as shipped"
            if form == _TO_THE_LETTER:
                paper = PaperFilter(SalpConfiguration(), [sources[one]() for one in split.teach])
                runs = [paper.judged(source(), seed) for source, seed in judging]
            else:
                model = _trained(Path(name), form, [sources[one] for one in split.teach])
                jobs, factor = [Job(source, model.settings, seed) for source, seed in judging], model.factor
                runs = [one for (one,) in all_judged(jobs)]
                for words, doubt in DOUBTS.items() if (split.group, form) == ("two days teach", "calibrated") else ():
                    of = [Job(sources[one], {**model.settings, **doubt}, 0) for one in split.judge]
                    off = all_judged([one for job in of for one in off_jobs(job)])
                    key = f"{split.group}, {OFF_DEG:g} deg off at the start, {words}", told
                    groups.setdefault(key, []).extend(one for (one,) in off)
            groups.setdefault((split.group, told), []).extend(runs)
            if split.teach:
                rows.append(
                    judged_row("Unknown salp (simulated), splits", f"{split.group}: {split.name}", told, runs, factor)
                )
    return [*(judged_row("Unknown salp (simulated), groups", *key, runs) for key, runs in groups.items()), *rows]


_TO_THE_LETTER = "paper, to the letter"
