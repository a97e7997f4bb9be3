"""How well and how surely a salp's joint angles are known in a run: for the benchmarks of unknown and of own robots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.salp.salp_hardware_runs import SETTLE_S, part_errors, replayed
from onboard_estimation.configuration import load
from onboard_estimation.evaluation.recording import LoadedRecording
from onboard_estimation.evaluation.replay import EstimateSeries
from onboard_estimation.filtering.consistency import nees
from onboard_estimation.robots import find_robot
from salp_estimation.configuration import SalpConfiguration

Array = NDArray[np.float64]

OFF_DEG, CYCLES_S = 20.0, 12.0
"""Of both joint angles at a start that was told wrong, and two cycles of a gait, after which it is judged."""
DOUBTS: dict[str, dict[str, Any]] = {
    "one filter": {"initial.wrong_start_probability": 0.0},
    "in doubt of its start": {},
}
"""Settings of the filter, by what they are."""
_SIGNS = ((1, 1), (1, -1), (-1, 1), (-1, -1))
_INSTANTS_S = 0.2
_TOLD = ("moves unlike", "contradicts", "contradict the state", "is silent since")
"""Words of sentences on robots and gyros that are not as the filter has them."""
_ROBOT = find_robot("salp")


class Judged(NamedTuple):
    """Joint angles of a run: RMS error, deg; share within three standard deviations; NEES per degree of freedom.

    `told` is whether a sentence said that the robot is not as the model has it, or that a gyro is silent.
    """

    rms_deg: float
    covered: float
    nees: float
    told: bool = False


def judged_run(
    configuration: SalpConfiguration,
    recording: LoadedRecording,
    seed: int,
    joint_error_rad: Array | None = None,
    from_s: float = SETTLE_S,
) -> Judged:
    """From an initial error that is drawn for this seed, or with these errors of the joint angles."""
    return judged_stretches(configuration, recording, seed, ((from_s, np.inf),), joint_error_rad)[0]


def judged_stretches(
    configuration: SalpConfiguration,
    recording: LoadedRecording,
    seed: int,
    stretches_s: Sequence[tuple[float, float]],
    joint_error_rad: Array | None = None,
) -> list[Judged]:
    """Each stretch of one run, from and until s since its start."""
    said: list[str] = []
    record, parts = replayed(_ROBOT, configuration, recording, seed, joint_error_rad, said.append)
    told = any(words in sentence for words in _TOLD for sentence in said)
    return [_judged(configuration, record, parts["joint_angles"], *one, told) for one in stretches_s]


def _judged(
    configuration: SalpConfiguration, record: EstimateSeries, true: Array, from_s: float, until_s: float, told: bool
) -> Judged:
    since_s = 1e-9 * (record.stamps_ns - record.stamps_ns[0])
    at_s = np.arange(from_s, min(until_s, since_s[-1] - 0.1), _INSTANTS_S)
    rows = np.searchsorted(since_s, at_s, side="right") - 1
    errors, covariances = part_errors(_ROBOT, configuration, record, "joint_angles", true, rows)
    known = np.isfinite(errors).all(axis=1)
    errors, covariances = errors[known], covariances[known]
    stddevs = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    return Judged(
        float(np.rad2deg(np.sqrt(np.mean(errors**2)))),
        float(np.mean(np.abs(errors) < 3.0 * stddevs)),
        float(np.mean(nees(errors, covariances))) / errors.shape[1],
        told,
    )


def judged_off(recording: LoadedRecording, settings: Mapping[str, Any]) -> list[Judged]:
    """From joint angles `OFF_DEG` off, told as they usually are, of all signs; after `CYCLES_S`."""
    configuration = load(SalpConfiguration, None, settings)
    errors = np.deg2rad(OFF_DEG) * np.array(_SIGNS)
    return [judged_run(configuration, recording, 0, error, CYCLES_S) for error in errors]


def judged_row(table: str, case: str, form: str, judged: Sequence[Judged], factor: str = "") -> dict[str, Any]:
    """Medians and worst cases over runs."""
    rms_deg, covered, ratio, told = (np.array(one) for one in zip(*judged, strict=True))
    cells = {
        "case": case,
        "form": form,
        "runs": str(len(judged)),
        "joint RMSE, median (worst)": f"{np.median(rms_deg):.2f} ({rms_deg.max():.2f}) deg",
        "3 sigma": f"{covered.mean():.3f}",
        "throughout": f"{(covered == 1.0).sum()} runs",
        "NEES": f"{ratio.mean():.2f}",
        "told": f"{told.sum()} runs",
        **({"factor": factor} if factor else {}),
    }
    return {"case": f"{case}, {form}", "table": table, "cells": cells}
