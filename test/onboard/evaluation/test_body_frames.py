"""Lever arms, axes and units of a tracked body, found as they were put in."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.io import loadmat
from scipy.spatial.transform import Rotation

from benchmarks.drivers.moving_imu import START_NS, Moved, Recorded, readings_of, record
from onboard_estimation.contract.tracks import BodyTrack, mirror
from onboard_estimation.inspection.findings import frame_findings
from onboard_estimation.inspection.inspect import truth_report
from onboard_estimation.judging.body_frames import FrameReport, find_frames
from onboard_estimation.judging.clock_alignment import TrackedBody, find_offset

MS = 1_000_000


def frames_of(recorded: Recorded) -> FrameReport:
    imu = readings_of(recorded.imu_ns, recorded.readings)
    body = TrackedBody(BodyTrack.clean("body", recorded.truth_ns, recorded.poses), 0.0)
    return find_frames(find_offset("imu", "body", imu, body), imu, body)


def turned(recorded: Recorded, turn: Rotation) -> Recorded:
    """With the truth's world turned."""
    positions = turn.apply(recorded.poses[:, :3])
    attitudes = (turn * Rotation.from_quat(recorded.poses[:, 3:])).as_quat()
    return recorded._replace(poses=np.hstack([positions, attitudes]))


def said(report: FrameReport) -> list[str]:
    return [f"{one.severity}: {one.text}" for one in frame_findings([report])]


def test_the_lever_arm_is_found_and_its_uncertainty_covers_the_error() -> None:
    sigmas = []
    for seed in range(12):
        recorded = record(seed)
        report = frames_of(recorded)
        assert report.refused == ""
        assert report.gain == pytest.approx(1.0, abs=0.03)
        errors = np.array(report.lever_m) - recorded.truth.lever_m
        assert np.abs(errors).max() < 5e-3
        sigmas += (np.abs(errors) / report.lever_stddev_m).tolist()
        assert report.up == pytest.approx((0.0, 0.0, 1.0), abs=0.08)
    assert np.mean(np.array(sigmas) < 3.0) >= 0.97


def test_a_mirror_image_is_told_by_its_gain() -> None:
    recorded = record(2)
    report = frames_of(recorded._replace(poses=mirror(recorded.poses, "y")))
    assert report.gain == pytest.approx(-1.0, abs=0.03)
    assert any("error: body is a mirror image" in one and "--mirror-truth y" in one for one in said(report))


def test_accelerations_in_g() -> None:
    recorded = record(2)
    recorded.readings[:, 3:] /= 9.81
    assert any("they are in g, m/s^2 is meant" in one for one in said(frames_of(recorded)))


@pytest.mark.parametrize(
    ("axis", "degrees", "sentence"),
    [
        ("x", -90.0, "The y axis of body points up"),
        ("x", 180.0, "--mirror-truth yz"),
        ("y", 90.0, "The x axis of body"),
    ],
)
def test_which_axis_is_up(axis: str, degrees: float, sentence: str) -> None:
    # Of a world turned by -90 deg about x, what was z is y.
    report = frames_of(turned(record(3), Rotation.from_euler(axis, degrees, degrees=True)))
    assert any(one.startswith("error") and sentence in one for one in said(report))


def test_a_tilted_ground_plane() -> None:
    report = frames_of(turned(record(3), Rotation.from_euler("x", 12.0, degrees=True)))
    assert any("deg off its z axis" in one and one.startswith("note") for one in said(report))


def test_turns_about_one_axis_tell_no_lever_arm() -> None:
    report = frames_of(record(1, Moved(planar=True)))
    assert report.lever_m is None
    assert report.refused


def test_the_sensors_of_the_two_links_sit_at_the_same_places_in_all_recordings(shared_data: Path) -> None:
    places: list[list[tuple[float, float, float]]] = [[], []]
    for path in sorted((shared_data / "two_link_imu").glob("*.mat")):
        content = loadmat(path)["data"][0, 0]
        readings, reference = content["sensorData"], content["ref"]
        times = START_NS + np.round(np.arange(len(readings)) * 1e9 / content["rate"].item()).astype(np.int64)
        for link in range(2):
            attitudes = reference[:, [4 * link + place for place in (1, 2, 3, 0)]]
            poses = np.hstack([reference[:, 8 + 3 * link : 11 + 3 * link], attitudes])
            imu = readings[:, [6 * link + place for place in (3, 4, 5, 0, 1, 2)]]
            report = frames_of(Recorded(times, imu, times, poses, None))  # type: ignore[arg-type]
            assert report.lever_m is not None
            assert report.up == pytest.approx((0.0, 0.0, 1.0), abs=0.03)
            places[link].append(report.lever_m)
    for of_link in places:
        assert np.std(of_link, axis=0).max() < 2.5e-3
    assert [round(math.hypot(*np.mean(of_link, axis=0)), 2) for of_link in places] == [0.07, 0.1]


def poses(count: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Stamps and poses of a body that moves and turns evenly, 100 Hz."""
    stamps = START_NS + np.arange(count) * 10 * MS
    turns = Rotation.from_rotvec(np.deg2rad(0.2) * np.arange(count)[:, None] * [0.0, 0.0, 1.0]).as_quat()
    return stamps, np.hstack([np.arange(count)[:, None] * [1e-3, 0.0, 0.0], turns])


def test_flips_are_told_from_other_jumps() -> None:
    stamps, values = poses()
    values[200:220, 3:] = (
        Rotation.from_quat(values[200:220, 3:]) * Rotation.from_euler("y", 120.0, degrees=True)
    ).as_quat()
    values[300:, 3:] = (Rotation.from_quat(values[300:, 3:]) * Rotation.from_euler("y", 50.0, degrees=True)).as_quat()
    report = truth_report("body", stamps, values, (int(stamps[0]), int(stamps[-1])), START_NS)
    assert (report.jumps, report.flips) == (3, 2)


def test_a_frozen_truth_is_told_from_rest() -> None:
    stamps, values = poses()
    values[150:190] = values[150]
    report = truth_report("body", stamps, values, (int(stamps[0]), int(stamps[-1])), START_NS)
    assert report.frozen_s == pytest.approx(0.39)
    assert report.frozen_at_s == pytest.approx(1.5)
    # It rests, and goes on from where it was.
    _, rested = poses()
    rested[190:] = rested[150:-40]
    rested[150:190] = rested[150]
    assert truth_report("body", stamps, rested, (int(stamps[0]), int(stamps[-1])), START_NS).frozen_s == 0.0
