"""Recordings as users judge them: the paper's filter, `robust` and `gyros` on IMUs as they are on a link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.base.workers import all_of
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.reproduced import Item
from onboard_estimation.contract.trained import ReportTable
from onboard_estimation.filtering.consistency import coverage
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.options import JudgeSettings
from onboard_estimation.judging.simulated_bags import simulated_recording
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration
from thruster_chain_estimation.paper.runs import COVERED_3, DURATION_S, outcome
from thruster_chain_estimation.robot import ROBOT

ESTIMATORS = ("paper_ukf", "robust", "gyros")


class Judged(NamedTuple):
    """A recording as an estimator sees it; NaN where it is not known.

    Attributes
    ----------
    headings_deg, joints_deg
        RMSE over the run.
    masses, inertias
        RMSE over the links at the end, as shares of the true ones.
    angles_covered, parameters_covered
        Shares of the errors within three standard deviations: of headings, and of masses and inertias.
    """

    headings_deg: float
    joints_deg: float
    masses: float
    inertias: float
    angles_covered: float
    parameters_covered: float


class Watched(NamedTuple):
    """An estimator, and a seed of `thrusters` or a user's own recording."""

    configuration: ThrusterChainConfiguration
    estimator: str
    seed: int = 0
    recording: LoadedRecording | None = None
    variant: str = "physical"


def judged(task: Watched) -> Judged:
    """By the same judge as a user's; UserError where it gives no estimate."""
    recording = task.recording
    if recording is None:
        recording = simulated_recording(ROBOT, task.configuration, "thrusters", task.variant, DURATION_S, task.seed)
    result = judge(ROBOT, task.configuration, task.estimator, recording, JudgeSettings(seed=task.seed))
    figures = dict.fromkeys(Judged._fields, np.nan)
    if (headings := result.parts.get("headings")) is not None:
        error = headings.error
        figures["headings_deg"] = _rms(np.rad2deg(error))
        figures["joints_deg"] = _rms(np.rad2deg(np.diff(error, axis=1)))
        figures["angles_covered"] = coverage(error, headings.stddev, 3.0)
    learned = [one for name in ("masses", "inertias") if (one := result.parts.get(name)) is not None]
    for name, part in zip(("masses", "inertias"), learned, strict=False):
        known_at = np.flatnonzero(np.isfinite(part.error).any(axis=1))
        if len(known_at):
            figures[name] = _rms(part.error[known_at[-1]] / part.truth[known_at[-1]])
    if learned:
        errors, deviations = (np.hstack([getattr(one, what) for one in learned]) for what in ("error", "stddev"))
        figures["parameters_covered"] = coverage(errors, deviations, 3.0)
    return Judged(**figures)


def _rms(values: Matrix) -> float:
    finite = values[np.isfinite(values)]
    return float(np.sqrt(np.mean(finite**2))) if finite.size else float("nan")


def imu_item(configuration: ThrusterChainConfiguration, seeds: int) -> Item:
    """Equation (32) is not what an accelerometer on a link reads: with that, the paper's filter, ours, and gyros."""
    physical, wrong = replace(configuration, imu_model="physical"), replace(configuration, imu_model="paper")
    kinds = {name: (physical, name) for name in ESTIMATORS}
    kinds = {"paper_ukf, model (32)": (wrong, "paper_ukf"), **kinds}
    rows, found = [], {}
    for name, (known, estimator) in kinds.items():
        runs = all_of(_judged_or_failed, [Watched(known, estimator, seed) for seed in range(seeds)])
        found[name] = [one for one in runs if one is not None]
        rows.append((name, *_line(found[name]), str(seeds - len(found[name]))))
    shares = [np.median([one.angles_covered for one in found[name]]) for name in list(kinds)[:2]]
    masses = {name: 100.0 * np.median([one.masses for one in found[name]]) for name in ESTIMATORS[:2]}
    because = (
        "an accelerometer on a link also feels the joints' forces, and reads along the link's axes: with what it "
        f"reads, the filter of (32) has {100 * shares[0]:.0f} % of its angles within 3 sigma, with that of such an IMU "
        f"{100 * shares[1]:.0f} % (medians); the absolute heading is then not observed by any. After this second "
        f"masses are off by {masses['paper_ukf']:.2g} %, of `robust`, which has to find lags and biases too, by "
        f"{masses['robust']:.2g} %"
    )
    title = f"IMUs as they are on links, scenario `thrusters`, {DURATION_S:g} s, {seeds} seeds; medians (worst)"
    table = ReportTable(title, ("estimator", *_HEADINGS, "failed"), tuple(rows), (*_HEADINGS, "failed"))
    return Item(
        "Section III", "what IMUs on links read, equation (32)", outcome(shares[0] > COVERED_3), because, (table,)
    )


_HEADINGS = (
    "link angles [deg]", "joint angles [deg]", "masses [%]", "inertias [%]",
    "angles within 3 sigma", "masses, inertias within 3 sigma",
)  # fmt: skip


def _judged_or_failed(task: Watched) -> Judged | None:
    """None where the estimator gives nothing."""
    try:
        return judged(task)
    except UserError:
        return None


def _line(runs: Sequence[Judged]) -> tuple[str, ...]:
    """Cells below `_HEADINGS`: errors with the largest in brackets, shares with the least."""
    columns = np.array(runs, dtype=np.float64).reshape(len(runs), len(Judged._fields))
    return tuple(_cell(column, 100.0 if 2 <= at < 4 else 1.0, at >= 4) for at, column in enumerate(columns.T))


def _cell(values: Vector, scale: float, least: bool) -> str:
    known = values[np.isfinite(values)]
    if not len(known):
        return "-"
    worst = known.min() if least else known.max()
    return f"{scale * np.median(known):.3g}" + (f" ({scale * worst:.3g})" if len(known) > 1 else "")


def recorded_item(configuration: ThrusterChainConfiguration, recordings: Mapping[str, LoadedRecording]) -> Item:
    """The three estimators on a user's recordings; UserError where none gives an estimate of any."""
    rows, faults, covered = [], [], []
    for name, recording in recordings.items():
        for estimator in ESTIMATORS:
            try:
                found = judged(Watched(configuration, estimator, recording=recording))
            except UserError as error:
                faults.append(f"{name}: {error}")
                continue
            rows.append((name, estimator, *_line([found])))
            if estimator == ESTIMATORS[0]:
                shares = np.array([found.angles_covered, found.parameters_covered])
                covered += shares[np.isfinite(shares)].tolist()
    if not rows:
        raise UserError(f"none of {len(recordings)} recordings gives an estimate: {'; '.join(dict.fromkeys(faults))}")
    held = [share > COVERED_3 for share in covered]
    because = f"{sum(held)} of {len(held)} shares of `paper_ukf` within 3 sigma are above {COVERED_3:g}"
    because += f"; without an estimate: {'; '.join(faults)}" if faults else ""
    table = ReportTable(
        "RMSE over each run; masses and inertias at its end",
        ("recording", "estimator", *_HEADINGS),
        tuple(rows),
        _HEADINGS,
    )
    return Item("Figure 4", "errors on recordings", outcome(*held) if held else "not reproduced", because, (table,))
