"""A LandSalp-like robot of unknown build (simulated by others), on three days: trained on some runs, judged on others.

Splits: two days teach and the third judges; one day teaches and the others judge; a gait is left out of all days.
Forms: none, `calibrated`; `gaussian_process` where two days teach, and the paper's to the letter (`salp_paper`) where
two or one do. `calibrated` with two days also from starts whose joint angles are 20 deg off, told as 5. Needs the
recordings `unknown_salp`; takes about twenty minutes on two cores.
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
from benchmarks.salp.salp_judged import DOUBTS, OFF_DEG, Judged, judged_off, judged_row, judged_run
from benchmarks.salp.salp_paper import PaperFilter
from onboard_estimation.configuration import load
from onboard_estimation.evaluation.recording import LoadedRecording
from onboard_estimation.evaluation.training import TrainingOptions, read_training_bag
from onboard_estimation.robots import find_robot
from salp_estimation.configuration import SalpConfiguration
from salp_estimation.residual_training import train
from salp_estimation.training_runs import training_run

Array = NDArray[np.float64]
Run = tuple[int, str]

DAYS, GAITS = (1, 2, 3), ("forward", "backward", "left", "right", "turning")
TO_THE_LETTER = "paper, to the letter"
_ROBOT = find_robot("salp")
_TABLE = "Unknown salp (simulated)"
_USED_RATE_HZ = 50.0


class Split(NamedTuple):
    """Runs that teach, runs that judge, and seeds of the initial errors that these begin with."""

    group: str
    name: str
    teach: tuple[Run, ...]
    judge: tuple[Run, ...]
    seeds: tuple[int, ...]


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
    jobs += [(one, TO_THE_LETTER) for one in splits() if one.group in ("two days teach", "one day teaches")]
    if quick:
        jobs = jobs[:1]
    with ProcessPoolExecutor(2) as pool:
        found = list(pool.map(_of_split, *zip(*jobs, strict=True)))
    rows, groups = [], dict[tuple[str, str], list[Judged]]()
    for (split, form), (judged, off, factor) in zip(jobs, found, strict=True):
        told = "as shipped" if not split.teach else form
        groups.setdefault((split.group, told), []).extend(judged)
        for filters, some in off.items():
            groups.setdefault((f"{split.group}, {OFF_DEG:g} deg off at the start, {filters}", told), []).extend(some)
        if split.teach:
            name, said = f"{split.group}: {split.name}", f"{factor:.2f}" if np.isfinite(factor) else "none"
            rows.append(judged_row(f"{_TABLE}, splits", name, told, judged, said))
    return [
        *(judged_row(f"{_TABLE}, groups", group, told, judged, "") for (group, told), judged in groups.items()),
        *rows,
    ]


def _of_split(split: Split, form: str) -> tuple[list[Judged], dict[str, list[Judged]], float]:
    """Of each run that judges, of the same from wrong starts, and the factor of the standard deviations."""
    if form == TO_THE_LETTER:
        paper = PaperFilter(SalpConfiguration(), [_recording(one) for one in split.teach])
        return [paper.judged(_recording(one), seed) for one in split.judge for seed in split.seeds], {}, np.nan
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
        judged = [judged_run(configuration, _recording(one), seed) for one in split.judge for seed in split.seeds]
        off: dict[str, list[Judged]] = {}
        if split.group == "two days teach" and form == "calibrated":
            off = {
                filters: [one for run in split.judge for one in judged_off(_recording(run), {**settings, **doubt})]
                for filters, doubt in DOUBTS.items()
            }
    return judged, off, factor


def _runs(days: Sequence[int], gaits: Sequence[str]) -> tuple[Run, ...]:
    return tuple((day, gait) for day in days for gait in gaits)


def _recording(one: Run) -> LoadedRecording:
    day, gait = one
    return read_training_bag(
        _ROBOT, SalpConfiguration(), recordings("unknown_salp", f"day_{day}_{gait}"), TrainingOptions()
    )
