"""Simulated robots that hopper filters learn from and are judged on, and what is said of filters on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.measuring import Array, Row, cells_row, recordings
from hopper_estimation.estimators.filters import FilterEntry
from hopper_estimation.paper.trials import CONFIGURATION, ROBOT
from hopper_estimation.training.filter_calibration import Trial, trial_of
from hopper_estimation.training.filter_calibration import judged as judged_hops
from onboard_estimation.campaigns.training import read_training_bag
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.judging.options import EvaluateOptions

FILTERS = ("bounce", "kf1", "dr1_best", "bounce_encoder")
CHANGE_M = 0.3
_UNKNOWN = ("robot_1", "robot_2", "robot_3", "robot_4")


def unknown_recording(name: str) -> LoadedRecording:
    """Of a robot of unknown build."""
    return read_training_bag(ROBOT, CONFIGURATION, recordings("unknown_hopper", name), EvaluateOptions())


def unknown(count: int = 4) -> list[Trial]:
    """The robots of unknown build."""
    return [trial_of(CONFIGURATION, name, unknown_recording(name)) for name in _UNKNOWN[:count]]


class Judged(NamedTuple):
    """Apex errors by hop, %, those after a change of height, and the shares within three standard deviations."""

    m3: Array
    changed: NDArray[np.bool_]
    covered: float
    covered_velocity: float


def judged_filter(name: str, entry: FilterEntry, trial: Trial) -> Judged:
    """A filter on a recording."""
    found, run = judged_hops(CONFIGURATION, name, entry, trial)
    heights = trial.hops.cycles.hop_height_m
    changed, known = np.abs(np.diff(heights, prepend=np.nan)) > CHANGE_M, np.isfinite(heights)
    covered = [float(np.mean(one[np.isfinite(one)] < 3.0)) for one in deviations(run.out, entry, trial)]
    return Judged(found.m3_with_missed[known], changed[known], *covered)


def deviations(out: Array, entry: FilterEntry, trial: Trial) -> Array:
    """(2, N) sizes of the errors of height and velocity over their stated standard deviations; NaN where unknown."""
    phase = out[:, 5].astype(np.int64)
    scales = np.array([entry.height_scale, entry.velocity_scale])[:, phase]
    floors = np.array([entry.height_floor_m, entry.velocity_floor_m_s])[:, phase]
    stddevs = np.sqrt(scales**2 * np.maximum(out[:, [2, 4]].T, 0.0) + floors**2)
    return np.abs(out[:, :2].T - [trial.true_height_m, trial.true_velocity_m_s]) / stddevs


def filter_row(table: str, case: str, judged: Sequence[Judged], targets: Mapping[str, float]) -> Row:
    """Mean over all hops, medians over robots and the worst of them; `met` where there are targets."""
    by_robot = [float(one.m3.mean()) for one in judged]
    hops, changed = (np.concatenate([one[k] for one in judged]) for k in (0, 1))
    after = float(hops[changed].mean()) if changed.any() else float("nan")
    covered, velocity = np.mean([one[2:] for one in judged], axis=0)
    cells = {
        "filter": case,
        "apex error (M3), mean": f"{hops.mean():.1f} %",
        "median and worst robot": f"{np.median(by_robot):.1f}, {max(by_robot):.1f} %",
        "worst hop": f"{hops.max():.0f} %",
        "after a change": f"{after:.1f} % ({int(changed.sum())} hops)" if changed.any() else "",
        "height, velocity within 3 sigma": f"{covered:.3f}, {velocity:.3f}",
        "worst robot's height": f"{min(one.covered for one in judged):.3f}",
    }
    held = {"m3": -hops.mean(), "changed": -after, "covered": covered}
    met = all(held[name] >= (bound if name == "covered" else -bound) for name, bound in targets.items())
    return cells_row(table, case, cells, **({"met": met} if targets else {}))
