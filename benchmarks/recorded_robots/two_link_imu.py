"""Two jointed IMUs on recordings with optical truth: relative orientation, its consistency, and a published filter.

The figures of `examples/recorded_robots/docs/two_link.md`. Needs the recordings; nothing here is timed. RMSE is that of
the whole turn, over the whole recording from its first reading, at which the filter knows the start to 20 deg per axis,
as the published does.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation, Slerp

from benchmarks.measuring import Row, cells_row, recordings, rms, row
from onboard_estimation.base.configuration import load
from onboard_estimation.base.measurement import IMU, NANOSECONDS_PER_SECOND, POSE
from onboard_estimation.base.series import Recording, Series
from onboard_estimation.contract.recorded import from_simulator
from onboard_estimation.contract.result import EvaluationResult
from onboard_estimation.judging.judge import judge
from recorded_robots.two_link.configuration import TwoLink
from recorded_robots.two_link.readings import Readings
from recorded_robots.two_link.recordings import read_two_link_imu
from recorded_robots.two_link.robot import ROBOT

PUBLISHED_DEG = {"1D_01": 4.2, "1D_02": 2.1, "1D_03": 1.9, "2D_01": 3.0, "3D_01": 4.1}
COVERAGE_TARGET = 0.985
PUBLISHED_DELAY_NS = 20_000_000
"""The published comparison delays the reference by one reading."""
AT_REST = 33
"""Readings at the start of each recording with the links at rest."""
VARIED = (
    "imus.rate_noise_share_sqrt_hz",
    "imus.accelerometer_error_stddev_m_s2",
    "joint.acceleration_stddev_m_s2",
    "joint.acceleration_time_s",
    "joint.roughness_share",
    "joint.lever_arm_stddev_m",
    "joint.play_rad",
)


def run(quick: bool) -> list[Row]:
    """Rows of each recording: the target, and a table; last, what halving and doubling of parameters changes."""
    folder = recordings("two_link_imu")
    rows, table = [], []
    for name, published in PUBLISHED_DEG.items():
        path = folder / f"data_{name}.mat"
        given = read_two_link_imu(path).recording
        kinds = ("free", "hinge") if name.startswith("1D") else ("free",)
        results = {kind: judged(given, {"joint.kind": kind}) for kind in kinds}
        best = results[kinds[-1]]
        rows += judged_rows(name, best, published)
        table.append(table_row(name, path, given, results, published))
    return [*rows, *([] if quick else sensitivity_rows(folder)), *table]


def judged(recording: Recording, overrides: dict[str, Any]) -> EvaluationResult:
    """As `evaluate` judges it."""
    bodies = ROBOT.truth_specification(TwoLink()).bodies
    return judge(ROBOT, load(TwoLink, None, overrides), "eskf", from_simulator(recording, bodies))


def rmse_deg(result: EvaluationResult) -> float:
    """Of the whole turn."""
    return whole_rmse_deg(result.parts["relative_orientation"].error)


def whole_rmse_deg(errors_rad: NDArray[np.float64]) -> float:
    """Of rotation vectors (K, 3), NaN where there is no truth."""
    return float(np.rad2deg(rms(np.linalg.norm(errors_rad, axis=1))))


def judged_rows(name: str, result: EvaluationResult, published: float) -> list[Row]:
    """RMSE against the published figure; coverage and NEES."""
    error, metrics = rmse_deg(result), result.metrics["relative_orientation"]
    coverage, nees = metrics["coverage_3_sigma"], metrics["mean_nees_per_degree_of_freedom"]
    case, figure = f"{name}, within 3 sigma; NEES per degree of freedom", f"{coverage:.3f}; {nees:.2f}"
    target = (f">= {COVERAGE_TARGET}", coverage >= COVERAGE_TARGET) if name.startswith("1D") else ()
    return [
        row(f"{name}, relative orientation", f"{error:.2f} deg", f"< {published:g} deg", error < published),
        row(case, figure, *target, coverage_1_sigma=round(metrics["coverage_1_sigma"], 3)),
    ]


def table_row(name: str, path: Path, given: Recording, results: dict[str, EvaluationResult], published: float) -> Row:
    """All filters side by side, and ours against other forms of the reference, deg."""
    recorded = read_two_link_imu(path, truth_as_recorded=True).recording
    drifting, at_rest = (gyros_alone_deg(given, freed) for freed in (False, True))
    free, last = results["free"], list(results)[-1]
    as_published = judged(delayed(recorded), {"joint.kind": last})
    aligned = judged(with_aligned_frames(given), {"joint.kind": last, "truth_stddev_rad": 0.0})
    metrics = aligned.metrics["relative_orientation"]
    cells = {
        "recording": name,
        "gyros alone": f"{drifting:.1f}",
        "less their bias at rest": f"{at_rest:.1f}",
        "published": f"{published:g}",
        "ours": f"{rmse_deg(free):.2f}",
        "as a hinge": f"{rmse_deg(results['hinge']):.2f}" if "hinge" in results else "",
        "ours, compared as published": f"{rmse_deg(as_published):.2f}",
        "ours, frames aligned": f"{rmse_deg(aligned):.2f}",
        "then within 3 sigma": f"{metrics['coverage_3_sigma']:.3f}",
        "NEES": f"{metrics['mean_nees_per_degree_of_freedom']:.2f}",
    }
    return cells_row("RMSE of relative orientation, deg", name, cells)


def delayed(recorded: Recording) -> Recording:
    """With the reference as recorded, all of it, one reading later."""
    truth = tuple(replace(one, stamps_ns=one.stamps_ns + PUBLISHED_DELAY_NS) for one in recorded.truth)
    return replace(recorded, truth=truth)


def with_aligned_frames(given: Recording) -> Recording:
    """With the reference's frame of each link turned onto that of its sensor, by the rates of both alone."""
    truth = []
    for sensor, body in zip(given.sensors, given.truth, strict=True):
        rotations = Rotation.from_quat(body.values[:, POSE.orientation])
        steps_s = np.diff(body.stamps_ns) / NANOSECONDS_PER_SECOND
        true = (rotations[:-1].inv() * rotations[1:]).as_rotvec() / steps_s[:, None]
        middle = body.stamps_ns[:-1] + np.diff(body.stamps_ns) // 2
        columns = sensor.values[:, IMU.angular_velocity].T
        seen = np.column_stack([np.interp(middle, sensor.stamps_ns, one) for one in columns])
        agreed = np.linalg.norm(true - seen, axis=1) < 0.5
        turn, _ = Rotation.align_vectors(true[agreed] - true[agreed].mean(0), seen[agreed] - seen[agreed].mean(0))
        values = body.values.copy()
        values[:, POSE.orientation] = (rotations * turn).as_quat()
        truth.append(replace(body, values=values))
    return replace(given, truth=tuple(truth))


def gyros_alone_deg(given: Recording, freed: bool) -> float:
    """RMSE of the gyros integrated from the true start; freed of what they read at rest, or not."""
    turns = []
    for sensor in given.sensors:
        rates = sensor.values.copy()
        if freed:
            rates[:, :3] -= rates[:AT_REST, :3].mean(axis=0)
        turns.append(Readings(sensor.stamps_ns, rates).turns(sensor.stamps_ns, NANOSECONDS_PER_SECOND).turn)
    true = relative_truth(given.truth, given.sensors[0].stamps_ns)
    found = [true[1]]
    for first, second in zip(turns[0][1:], turns[1][1:], strict=True):
        found.append(Rotation.from_rotvec(-first) * found[-1] * Rotation.from_rotvec(second))
    return whole_rmse_deg((Rotation.concatenate(found).inv() * true[1:]).as_rotvec())


def relative_truth(truth: tuple[Series, ...], stamps_ns: NDArray[np.int64]) -> Rotation:
    """At those stamps; held before the first and after the last."""
    first, second = (
        Slerp(one.stamps_ns, Rotation.from_quat(one.values[:, POSE.orientation]))(
            np.clip(stamps_ns, one.stamps_ns[0], one.stamps_ns[-1])
        )
        for one in truth
    )
    return first.inv() * second


def sensitivity_rows(folder: Path) -> list[Row]:
    """The worst that halving or doubling any one noise parameter does to each recording."""
    rows, default = [], TwoLink()
    for name, published in PUBLISHED_DEG.items():
        given = read_two_link_imu(folder / f"data_{name}.mat").recording
        kind = "hinge" if name.startswith("1D") else "free"
        found = []
        for parameter in VARIED:
            section, _, short = parameter.partition(".")
            value = getattr(getattr(default, section), short)
            for factor in (0.5, 2.0):
                result = judged(given, {"joint.kind": kind, parameter: factor * value})
                coverage = result.metrics["relative_orientation"]["coverage_3_sigma"]
                found.append((rmse_deg(result), coverage, f"{parameter} times {factor:g}"))
        error, _, why = max(found)
        least, of = min((coverage, why) for _, coverage, why in found)
        case = f"{name}, any of {len(VARIED)} noise parameters halved or doubled, worst"
        figure = f"{error:.2f} deg ({why}); {least:.3f} within 3 sigma ({of})"
        rows.append(row(case, figure, f"< {published:g} deg", error < published))
    return rows
