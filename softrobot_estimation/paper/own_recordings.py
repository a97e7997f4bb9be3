"""What a user's recordings tell of the paper's tables: filters against motion capture of the tip."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.reproduced import Item
from onboard_estimation.contract.trained import ReportTable
from onboard_estimation.judging.judge import judge
from softrobot_estimation.judging.foresight import SETTLE_S, best_constant, errors, filtered, true_states
from softrobot_estimation.model.configuration import WRENCH, SoftRobotConfiguration
from softrobot_estimation.model.description import BASE, TIP
from softrobot_estimation.model.grey_box import STEP_S
from softrobot_estimation.paper.scenario import HORIZONS, SHARES
from softrobot_estimation.robot import ROBOT

LEAST_S = 15.0
_FILTERS = {
    "algorithm_1, hyper-parameters learned": ("algorithm_1", {"learning.hyper_parameters": True}),
    "algorithm_1": ("algorithm_1", {}),
    "ukf": ("ukf", {}),
    "marginalized_pf": ("marginalized_pf", {}),
}


def items_of_recordings(
    configuration: SoftRobotConfiguration, recordings: Mapping[str, LoadedRecording]
) -> Iterator[Item]:
    """The tip by all filters, and how far they see ahead.

    Raises
    ------
    UserError
        A recording has no wrench or no motion capture of tip and base, or is too short.
    """
    for name, recording in recordings.items():
        _refuse(name, recording)
    yield _tips(configuration, recordings)
    yield _foreseen(configuration, recordings)


def _refuse(name: str, recording: LoadedRecording) -> None:
    wrenches = sum(len(one.stamps_ns) for one in recording.series if one.channel.sensor == WRENCH.sensor)
    frames = {body: recording.tracks[body].stamps_ns for body in (TIP, BASE) if body in recording.tracks}
    counts = [len(frames.get(body, ())) for body in (TIP, BASE)]
    length_s = float(np.ptp(frames[TIP])) / NANOSECONDS_PER_SECOND if counts[0] else 0.0
    if not (wrenches and counts[1] and length_s >= LEAST_S):
        raise UserError(
            f"{name}: {wrenches} wrenches, {counts[0]} frames of the tip over {length_s:.1f} s and {counts[1]} of the "
            f"base; wrenches, and tip and base over {LEAST_S:g} s are needed"
        )


def _tips(configuration: SoftRobotConfiguration, recordings: Mapping[str, LoadedRecording]) -> Item:
    rows, places = [], {}
    for run, recording in recordings.items():
        for words, (name, parameters) in _FILTERS.items():
            place = judge(ROBOT, configuration.with_parameters(parameters), name, recording).metrics["position"]
            places[run, words] = 1e3 * place["position_ate_rmse_m"]
            covered = f"{place['coverage_1_sigma']:.2f}, {place['coverage_3_sigma']:.3f}"
            largest_mm = 1e3 * place["position_ate_max_m"]
            rows.append((run, words, f"{places[run, words]:.2f}", f"{largest_mm:.1f}", covered))
    first = next(iter(_FILTERS))
    median = {one: float(np.median([places[run, one] for run in recordings])) for one in _FILTERS}
    better = median[first] <= median["ukf"]
    headings = ("recording", "filter", "tip RMS, mm", "largest, mm", "within 1, 3 sigma")
    return Item(
        "Table I",
        "the tip in your recordings",
        "partly" if better else "not reproduced",
        f"Algorithm 1 with hyper-parameters has {median[first]:.2f} mm in the median, the ukf "
        f"{median['ukf']:.2f} mm; motion capture tells the tip, the paper's states follow from it by an arc",
        (ReportTable("Your recordings", headings, tuple(rows), headings[2:]),),
    )


def _foreseen(configuration: SoftRobotConfiguration, recordings: Mapping[str, LoadedRecording]) -> Item:
    rows, ratios = [], []
    for run, recording in recordings.items():
        truth = true_states(configuration, recording)
        found = {}
        for words, (name, parameters) in _FILTERS.items():
            estimator: Any = ROBOT.estimator(configuration.with_parameters(parameters), name)
            found[words] = filtered(estimator, recording)
        best = best_constant(configuration, [(found["ukf"], truth)], SHARES, HORIZONS[-1], STEP_S)
        by = {words: errors(one, truth, HORIZONS, STEP_S) for words, one in found.items()}
        by[f"best constant, {best:.3f} N m/rad"] = errors(found["ukf"], truth, HORIZONS, STEP_S, best)
        rows += [(run, words, *(f"{one[count].mean():.3f}" for count in HORIZONS)) for words, one in by.items()]
        *_, constant = by.values()
        ratios.append(float(constant[HORIZONS[-1]].mean() / by[next(iter(_FILTERS))][HORIZONS[-1]].mean()))
    headings = ("recording", "stiffness", *(f"{count} steps" for count in HORIZONS))
    title = f"NMSE after steps of {1e3 * STEP_S:g} ms, from {SETTLE_S:g} s on"
    return Item(
        "Table II",
        "prediction over several steps in your recordings",
        "reproduced" if min(ratios) > 1.0 else "partly" if max(ratios) > 1.0 else "not reproduced",
        f"after {HORIZONS[-1]} steps the stiffness learned by Algorithm 1 is {min(ratios):.2f} to "
        f"{max(ratios):.2f} times better than the best constant one",
        (ReportTable(title, headings, tuple(rows), headings[2:]),),
    )
