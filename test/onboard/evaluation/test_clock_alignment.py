"""Offsets between the clocks of truth and IMU, and between their frames, found as they were put in; or refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.io import loadmat
from scipy.spatial.transform import Rotation

from benchmarks.drivers.moving_imu import START_NS, Moved, Recorded, readings_of, record
from onboard_estimation.bags.bulk import Column
from onboard_estimation.bags.topics import truth_channels
from onboard_estimation.base.series import imu_channel
from onboard_estimation.contract.tracks import BodyTrack
from onboard_estimation.inspection.inspect import inspect_bag
from onboard_estimation.judging.clock_alignment import ClockReport, TrackedBody, aligned, find_offset, named_after, pair
from onboard_estimation.judging.options import EvaluateOptions
from onboard_estimation.judging.simulated_bags import convert
from onboard_estimation.report.evaluate import evaluate_bag

STILL = Moved(rate_rad_s=0.0, reach_m=0.0, vibration_rad_s=0.0, vibration_m_s2=0.0)


def imu_of(recorded: Recorded) -> Column:
    return readings_of(recorded.imu_ns, recorded.readings, 2_000_000)


def body_of(recorded: Recorded, columns: int = 7) -> TrackedBody:
    return TrackedBody(BodyTrack.clean("body", recorded.truth_ns, recorded.poses[:, :columns]), 0.003)


def found_in(recorded: Recorded, columns: int = 7) -> ClockReport:
    return find_offset("imu", "body", imu_of(recorded), body_of(recorded, columns))


def error_s(report: ClockReport, recorded: Recorded) -> float:
    assert report.refused == ""
    assert report.offset_s is not None
    return report.offset_s - recorded.truth.offset_s


def sigmas(report: ClockReport, recorded: Recorded) -> float:
    return abs(error_s(report, recorded)) / (report.stddev_s or np.nan)


def test_the_offset_is_found_and_its_uncertainty_covers_the_error() -> None:
    recordings = [record(seed) for seed in range(15)]
    reports = [found_in(one) for one in recordings]
    errors = [abs(error_s(report, one)) for report, one in zip(reports, recordings, strict=True)]
    assert max(errors) < 0.5e-3
    assert np.median(errors) < 0.1e-3
    assert sum(sigmas(report, one) < 3.0 for report, one in zip(reports, recordings, strict=True)) >= 14
    assert all(report.told_by == "turns" for report in reports)


@pytest.mark.slow
def test_three_sigma_cover_in_97_of_100_runs() -> None:
    recordings = [record(seed) for seed in range(1000, 1100)]
    reports = [found_in(one) for one in recordings]
    assert max(abs(error_s(report, one)) for report, one in zip(reports, recordings, strict=True)) < 0.5e-3
    assert sum(sigmas(report, one) < 3.0 for report, one in zip(reports, recordings, strict=True)) >= 97


def test_the_rotation_between_the_frames() -> None:
    for seed in range(5):
        recorded = record(seed)
        report = found_in(recorded)
        assert report.rotation_rad is not None
        assert report.rotation_stddev_rad is not None
        missed = Rotation.from_rotvec(report.rotation_rad) * recorded.truth.mounting.inv()
        assert np.all(np.abs(missed.as_rotvec()) < 4.0 * np.array(report.rotation_stddev_rad))
        assert missed.magnitude() < np.deg2rad(0.5)


def test_one_axis_tells_the_offset_and_its_axis_but_no_rotation() -> None:
    for seed in range(5):
        recorded = record(seed, Moved(planar=True))
        recorded.readings[:, [0, 1, 3, 4, 5]] = 0.0
        report = found_in(recorded)
        assert abs(error_s(report, recorded)) < 0.5e-3
        assert report.rotation_rad is None
        assert report.axis == pytest.approx((0.0, 0.0, 1.0), abs=0.01)
        upside_down = recorded._replace(readings=-recorded.readings)
        assert found_in(upside_down).axis == pytest.approx((0.0, 0.0, -1.0), abs=0.01)


@pytest.mark.slow
def test_positions_alone_are_compared_with_accelerations() -> None:
    how = Moved(rate_rad_s=0.3)
    for seed in range(5):
        recorded = record(seed, how)
        report = found_in(recorded, columns=3)
        assert report.told_by == "ways"
        assert abs(error_s(report, recorded)) < 3e-3
        assert not report.mirrored
        recorded.poses[:, 1] *= -1.0
        assert found_in(recorded, columns=3).mirrored


def test_rest_and_a_steady_turn_tell_nothing() -> None:
    recorded = record(1, STILL)
    assert "deg RMS beside what is even" in found_in(recorded).refused
    assert "mm RMS beside what is even" in found_in(recorded).refused
    times = (recorded.truth_ns - START_NS) / 1e9
    turned = Rotation.from_rotvec(np.outer(times, [0.0, 0.0, 1.0]))
    recorded.poses[:, 3:] = (turned * Rotation.from_quat(recorded.poses[:, 3:])).as_quat()
    recorded.readings[:, 2] += 1.0
    assert "a steady turn, tells nothing" in found_in(recorded).refused


def test_a_motion_that_repeats_is_refused() -> None:
    recorded = record(1, replace(STILL, gyro_bias_rad_s=0.0))
    truth_s, imu_s = (recorded.truth_ns - START_NS) / 1e9, (recorded.imu_ns - START_NS) / 1e9
    angle = 0.2 * np.cos(2.0 * np.pi * 2.0 * truth_s)
    recorded.poses[:, 3:] = Rotation.from_rotvec(np.outer(angle, [0.0, 0.0, 1.0])).as_quat()
    recorded.readings[:, :2] = 0.0
    recorded.readings[:, 2] -= 0.8 * np.pi * np.sin(2.0 * np.pi * 2.0 * imu_s)
    report = found_in(recorded)
    assert report.offset_s is None
    assert "repeats" in report.refused or "as far as was looked" in report.refused


def test_another_body_is_not_taken_for_the_own() -> None:
    first, second = record(1), record(2)
    strange = find_offset("imu", "body", imu_of(first), body_of(second))
    assert strange.offset_s is None
    assert "another body" in strange.refused
    bodies = {"a": body_of(first), "b": body_of(second)}
    imus = {"one": imu_of(first), "two": imu_of(second)}
    assert [(one.body, one.rather) for one in pair(imus, bodies, {})] == [("a", ""), ("b", "")]
    swapped = pair(imus, bodies, {"one": "b", "two": "a"})
    assert [(one.body, one.rather) for one in swapped] == [("b", "a"), ("a", "b")]


def test_clocks_that_are_far_apart_are_brought_together_by_the_recorder() -> None:
    recorded = record(3)
    body = body_of(recorded)
    track = replace(body.track, stamps_ns=body.track.stamps_ns - 5_000_000_000)
    report = find_offset("imu", "body", imu_of(recorded), TrackedBody(track, 5.003))
    assert report.offset_s == pytest.approx(5.0 + recorded.truth.offset_s, abs=0.5e-3)


def test_jumps_of_the_truth_harm_nothing() -> None:
    recorded = record(4)
    half = len(recorded.poses) // 2
    flip = Rotation.from_euler("x", 90.0, degrees=True)
    recorded.poses[half : half + 40, 3:] = (Rotation.from_quat(recorded.poses[half : half + 40, 3:]) * flip).as_quat()
    report = found_in(recorded)
    assert abs(error_s(report, recorded)) < 0.5e-3
    assert report.explained is not None
    assert report.explained > 0.99


def test_names_pair_imus_with_bodies() -> None:
    bodies = ["/r/ground_truth/link_1/pose", "/r/ground_truth/link_2/pose"]
    found = named_after(["/r/imu/link_2/data_raw", "/r/imu/foot/data_raw"], bodies)
    assert found == {"/r/imu/link_2/data_raw": "/r/ground_truth/link_2/pose"}


@pytest.mark.parametrize(
    "injected_s", [pytest.param(-0.02, marks=pytest.mark.slow), -0.007, pytest.param(0.02, marks=pytest.mark.slow)]
)
@pytest.mark.slow
def test_an_offset_put_into_a_recorded_walk_is_found(injected_s: float, shared_data: Path) -> None:
    for path in sorted((shared_data / "pyshoe_vicon").glob("*.mat")):
        content = loadmat(path)
        times = START_NS + np.round(content["ts"].ravel() * 1e9).astype(np.int64)
        imu = readings_of(times, content["imu"][:, [3, 4, 5, 0, 1, 2]])
        positions = content["gt"] * [1.0, -1.0, 1.0]
        as_is = find_offset("imu", "foot", imu, TrackedBody(BodyTrack.clean("foot", times, positions), 0.0))
        moved_ns = times[1::2] - round(injected_s * 1e9)
        moved = find_offset("imu", "foot", imu, TrackedBody(BodyTrack.clean("foot", moved_ns, positions[1::2]), 0.0))
        assert as_is.offset_s is not None
        assert moved.offset_s is not None
        assert moved.offset_s - as_is.offset_s == pytest.approx(injected_s, abs=3e-3)


def test_the_gyros_of_the_two_links_lag_the_reference(shared_data: Path) -> None:
    for path in sorted((shared_data / "two_link_imu").glob("*.mat")):
        content = loadmat(path)["data"][0, 0]
        readings, reference = content["sensorData"], content["ref"]
        times = START_NS + np.round(np.arange(len(readings)) * 1e9 / content["rate"].item()).astype(np.int64)
        offsets = []
        for link in range(2):
            imu = readings_of(times, readings[:, [6 * link + place for place in (3, 4, 5, 0, 1, 2)]])
            poses = np.hstack(
                [reference[:, 8 + 3 * link : 11 + 3 * link], reference[:, [4 * link + k for k in (1, 2, 3, 0)]]]
            )
            report = find_offset("imu", "link", imu, TrackedBody(BodyTrack.clean("link", times, poses), 0.0))
            assert report.offset_s is not None
            offsets.append(report.offset_s)
        assert all(8e-3 < offset < 22e-3 for offset in offsets)
        # Both sensors have one clock.
        assert abs(offsets[0] - offsets[1]) < 2e-3


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Path:
    bag = tmp_path_factory.mktemp("linked") / "bag"
    convert("two-link-imu", shared_data / "two_link_imu" / "data_3D_01.mat", bag, as_recorded=True)
    return bag


def test_inspect_says_it_with_its_remedy(linked: Path) -> None:
    found = inspect_bag(linked)
    (sentence,) = [one.text for one in found.findings if "--align-clock" in one.text]
    assert "imu/proximal/data_raw" in sentence
    assert "too early, or the IMU's readings too late" in sentence
    assert found.to_mapping()["clocks"][0]["told_by"] == "turns"


@pytest.mark.slow
def test_evaluate_moves_the_truth_and_says_so(linked: Path, tmp_path: Path) -> None:
    as_is = evaluate_bag(linked, EvaluateOptions(), write=False).result
    moved = evaluate_bag(linked, EvaluateOptions(align_clock=True), tmp_path / "run").result
    name = "relative_orientation_rmse_deg"
    errors = [_rmse_deg(one.metrics) for one in (as_is, moved)]
    assert errors[1] < 0.9 * errors[0], name
    (note,) = [one for one in moved.notes if "stamps are moved" in one]
    assert "3 sigma" in note
    assert "--align-clock" in moved.command
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert run["settings"]["align_clock"] is True


def test_evaluate_says_why_it_leaves_the_clock(tmp_path: Path) -> None:
    recorded = record(1, STILL)
    channel = imu_channel("foot")
    column = Column(recorded.imu_ns, recorded.imu_ns, recorded.readings, np.arange(len(recorded.imu_ns)))
    poses = Column(recorded.truth_ns, recorded.truth_ns, recorded.poses, np.arange(len(recorded.truth_ns)))
    tracks = {"foot": BodyTrack.clean("foot", recorded.truth_ns, recorded.poses)}
    left, note = aligned({channel: column}, {truth_channels("foot")[0]: poses}, tracks)
    assert left["foot"] is tracks["foot"]
    assert note.startswith("The truth's clock is left as it was recorded")
    assert "deg RMS beside what is even" in note


def _rmse_deg(metrics: Mapping[str, Mapping[str, float]]) -> float:
    part = metrics["relative_orientation"]
    return next(value for name, value in part.items() if "rmse" in name)
