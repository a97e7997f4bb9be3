"""A LandSalp-like robot of unknown build (simulated by others), on three days: trained on some runs, judged on others.

Splits: two days teach and the third judges; one day teaches and the others judge; a gait is left out of all days.
Forms: none, `calibrated`, and the paper's `gaussian_process` where two days teach; there also from starts whose joint
angles are 20 deg off, told as 5. Needs the recordings `unknown_salp`; takes about a quarter of an hour on two cores.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.recordings import recordings
from benchmarks.salp_hardware_runs import SETTLE_S, replayed
from onboard_estimation.configuration import load
from onboard_estimation.evaluation.recording import LoadedRecording
from onboard_estimation.evaluation.training import TrainingOptions, read_training_bag
from onboard_estimation.filtering.consistency import nees
from onboard_estimation.robots import find_robot
from salp_estimation.configuration import SalpConfiguration
from salp_estimation.residual_training import train
from salp_estimation.training_runs import training_run

Array = NDArray[np.float64]
Run = tuple[int, str]

DAYS, GAITS = (1, 2, 3), ("forward", "backward", "left", "right", "turning")
_ROBOT = find_robot("salp")
_INSTANTS_S = 0.2
_USED_RATE_HZ = 50.0
_OFF_DEG, _OFF_SIGNS, _CYCLES_S = 20.0, ((1, 1), (1, -1), (-1, 1), (-1, -1)), 12.0
"""Both joint angles at the start; judged after two cycles of a gait."""


class Split(NamedTuple):
    """Runs that teach, runs that judge, and seeds of the initial errors that these begin with."""

    group: str
    name: str
    teach: tuple[Run, ...]
    judge: tuple[Run, ...]
    seeds: tuple[int, ...]


class Judged(NamedTuple):
    """Joint angles of a run: RMS error, deg; share within three standard deviations; NEES per degree of freedom."""

    rms_deg: float
    covered: float
    nees: float


def splits() -> list[Split]:
    """All of them."""
    found = [Split("nothing trained", "", (), _runs(DAYS, GAITS), (0, 1))]
    for day in DAYS:
        others = tuple(one for one in DAYS if one != day)
        found.append(Split("two days teach", f"day {day} judges", _runs(others, GAITS), _runs((day,), GAITS), (0, 1)))
        found.append(Split("one day teaches", f"day {day} teaches", _runs((day,), GAITS), _runs(others, GAITS), (0,)))
    for gait in GAITS:
        taught = tuple(one for one in GAITS if one != gait)
        found.append(Split("a gait left out", gait, _runs(DAYS, taught), _runs(DAYS, (gait,)), (0, 1)))
    return found


def run(quick: bool) -> list[dict[str, Any]]:
    """A row for each split, and one for each group."""
    recordings("unknown_salp")
    jobs = [(one, "calibrated") for one in splits()]
    jobs += [(one, "gaussian_process") for one in splits() if one.group == "two days teach"]
    if quick:
        jobs = jobs[:1]
    with ProcessPoolExecutor(2) as pool:
        found = list(pool.map(_of_split, *zip(*jobs, strict=True)))
    rows, groups = [], dict[tuple[str, str], list[Judged]]()
    for (split, form), (judged, off, factor) in zip(jobs, found, strict=True):
        told = "as shipped" if not split.teach else form
        groups.setdefault((split.group, told), []).extend(judged)
        if off:
            groups.setdefault((f"{split.group}, {_OFF_DEG:g} deg off at the start", told), []).extend(off)
        if split.teach:
            rows.append(_row("splits", f"{split.group}: {split.name}", told, judged, f"{factor:.2f}"))
    return [*(_row("groups", group, told, judged, "") for (group, told), judged in groups.items()), *rows]


def _of_split(split: Split, form: str) -> tuple[list[Judged], list[Judged], float]:
    """Of each run that judges, of the same from wrong starts, and the factor of the standard deviations."""
    settings: dict[str, Any] = {}
    factor = 1.0
    with tempfile.TemporaryDirectory() as folder:
        if split.teach:
            recordings = [_recording(one) for one in split.teach]
            nominal = SalpConfiguration()
            runs = [training_run(nominal, one, str(run)) for one, run in zip(recordings, split.teach, strict=True)]
            model, _ = train(nominal, runs, [""] * len(runs), form, recordings=recordings)
            path, factor = Path(folder) / "model.npz", model.inflation
            model.save(path)
            settings = {"residual_model": str(path), "gyro.used_rate_hz": _USED_RATE_HZ}
        configuration = load(SalpConfiguration, None, settings)
        judged = [_judged(configuration, _recording(one), seed) for one in split.judge for seed in split.seeds]
        off = []
        if split.group == "two days teach" and form == "calibrated":
            errors = np.deg2rad(_OFF_DEG) * np.array(_OFF_SIGNS)
            off = [
                _judged(configuration, _recording(one), 0, error, _CYCLES_S) for one in split.judge for error in errors
            ]
    return judged, off, factor


def _judged(
    configuration: SalpConfiguration,
    recording: LoadedRecording,
    seed: int,
    joint_error_rad: Array | None = None,
    from_s: float = SETTLE_S,
) -> Judged:
    record, parts = replayed(_ROBOT, configuration, recording, seed, joint_error_rad)
    since_s = 1e-9 * (record.stamps_ns - record.stamps_ns[0])
    rows = np.searchsorted(since_s, np.arange(from_s, since_s[-1] - 0.1, _INSTANTS_S), side="right") - 1
    space = _ROBOT.estimator(configuration, "ukf").space
    tangent, part = space.tangent("joint_angles"), space.part("joint_angles")
    true, means = parts["joint_angles"][rows], record.means[rows][:, space.coordinates("joint_angles")]
    errors: Array = part.minus(means, true)
    noise = _ROBOT.truth_specification(configuration).covariances["joint_angles"]
    covariances = record.covariances[rows][:, tangent, tangent] + noise
    known = np.isfinite(errors).all(axis=1)
    errors, covariances = errors[known], covariances[known]
    stddevs = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    return Judged(
        float(np.rad2deg(np.sqrt(np.mean(errors**2)))),
        float(np.mean(np.abs(errors) < 3.0 * stddevs)),
        float(np.mean(nees(errors, covariances))) / errors.shape[1],
    )


def _row(table: str, case: str, form: str, judged: Sequence[Judged], factor: str) -> dict[str, Any]:
    rms_deg, covered, ratio = (np.array(one) for one in zip(*judged, strict=True))
    cells = {
        "case": case,
        "form": form,
        "runs": str(len(judged)),
        "joint RMSE, median (worst)": f"{np.median(rms_deg):.2f} ({rms_deg.max():.2f}) deg",
        "3 sigma": f"{covered.mean():.3f}",
        "throughout": f"{(covered == 1.0).sum()} runs",
        "NEES": f"{ratio.mean():.2f}",
        **({"factor": factor} if factor else {}),
    }
    return {"case": f"{case}, {form}", "table": f"Unknown salp (simulated), {table}", "cells": cells}


def _runs(days: Sequence[int], gaits: Sequence[str]) -> tuple[Run, ...]:
    return tuple((day, gait) for day in days for gait in gaits)


def _recording(one: Run) -> LoadedRecording:
    day, gait = one
    return read_training_bag(
        _ROBOT, SalpConfiguration(), recordings("unknown_salp", f"day_{day}_{gait}"), TrainingOptions()
    )
