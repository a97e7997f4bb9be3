"""Clocks and frames of truth and IMU: offset, rotation, lever arm, axes and units are found as put in; or refused.

The same over a hundred seeds and other motions: `python -m benchmarks --only clock_alignment`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.io import loadmat
from scipy.spatial.transform import Rotation

from benchmarks.drivers.clock_alignment import START_NS, Moved, Recorded, readings_of, record
from onboard_estimation.bags.bulk import Column
from onboard_estimation.base.series import Series, imu_channel
from onboard_estimation.contract.tracks import BodyTrack, mirror
from onboard_estimation.inspection.inspect import inspect_bag, truth_report
from onboard_estimation.judging.options import EvaluateOptions
from onboard_estimation.judging.simulated_bags import convert
from onboard_estimation.report.evaluate import evaluate_bag
from onboard_estimation.soundness.at_rest import contradict_gravity, turns_of_gravity
from onboard_estimation.soundness.body_frames import FrameReport, find_frames
from onboard_estimation.soundness.clock_alignment import ClockReport, TrackedBody, find_offset, named_after, pair
from onboard_estimation.soundness.motion import checked_truth, frame_findings

STILL = Moved(rate_rad_s=0.0, reach_m=0.0, vibration_rad_s=0.0, vibration_m_s2=0.0)
UP = (0.0, 0.0, 1.0)


@pytest.fixture(scope="module")
def kept() -> list[Recorded]:
    """Recordings of a free motion; not to be changed."""
    return [record(seed) for seed in range(4)]


@pytest.fixture
def moved(kept: list[Recorded]) -> Recorded:
    """One of them, which a test may change."""
    return kept[3]._replace(readings=kept[3].readings.copy(), poses=kept[3].poses.copy())


def imu_of(recorded: Recorded) -> Column:
    return readings_of(recorded.imu_ns, recorded.readings, 2_000_000)


def body_of(recorded: Recorded, columns: int = 7) -> TrackedBody:
    return TrackedBody(BodyTrack.clean("body", recorded.truth_ns, recorded.poses[:, :columns]), 0.003)


def found_in(recorded: Recorded, columns: int = 7) -> ClockReport:
    return find_offset("imu", "body", imu_of(recorded), body_of(recorded, columns))


def frames_of(recorded: Recorded, report: ClockReport | None = None) -> FrameReport:
    return find_frames(report or found_in(recorded), imu_of(recorded), body_of(recorded))


def said(report: FrameReport) -> str:
    return "\n".join(f"{one.severity}: {one.text}" for one in frame_findings([report]))


def error_s(report: ClockReport, recorded: Recorded) -> float:
    assert report.refused == ""
    assert report.offset_s is not None
    return report.offset_s - recorded.truth.offset_s


def turn_about(recorded: Recorded, rows: slice, axis: str, degrees: float) -> None:
    """The truth's attitudes, as if the body had been turned about an axis of its own."""
    turn = Rotation.from_euler(axis, degrees, degrees=True)
    recorded.poses[rows, 3:] = (Rotation.from_quat(recorded.poses[rows, 3:]) * turn).as_quat()


def test_offset_rotation_and_lever_arm_are_found_and_their_uncertainties_cover_the_errors(kept: list[Recorded]) -> None:
    errors, within, lever_sigmas = [], [], []
    for recorded in kept:
        report = found_in(recorded)
        frames = frames_of(recorded, report)
        assert report.told_by == "turns"
        errors.append(abs(error_s(report, recorded)))
        within.append(errors[-1] < 3.0 * (report.stddev_s or 0.0))
        assert report.rotation_rad is not None
        assert report.rotation_stddev_rad is not None
        missed = Rotation.from_rotvec(report.rotation_rad) * recorded.truth.mounting.inv()
        assert np.all(np.abs(missed.as_rotvec()) < 4.0 * np.array(report.rotation_stddev_rad))
        assert missed.magnitude() < np.deg2rad(0.5)
        assert frames.refused == ""
        assert frames.gain == pytest.approx(1.0, abs=0.03)
        lever_errors = np.abs(np.array(frames.lever_m) - recorded.truth.lever_m)
        assert lever_errors.max() < 5e-3
        lever_sigmas += (lever_errors / frames.lever_stddev_m).tolist()
        assert frames.up == pytest.approx(UP, abs=0.08)
    assert max(errors) < 0.5e-3
    assert np.median(errors) < 0.1e-3
    assert sum(within) >= len(kept) - 1
    assert np.mean(np.array(lever_sigmas) < 3.0) >= 0.97


def test_one_axis_tells_the_offset_and_its_axis_but_neither_rotation_nor_lever_arm() -> None:
    recorded = record(1, Moved(planar=True))
    frames = frames_of(recorded)
    assert frames.lever_m is None
    assert frames.refused
    recorded.readings[:, [0, 1, 3, 4, 5]] = 0.0
    report = found_in(recorded)
    assert abs(error_s(report, recorded)) < 0.5e-3
    assert report.rotation_rad is None
    assert report.axis == pytest.approx(UP, abs=0.01)
    assert found_in(recorded._replace(readings=-recorded.readings)).axis == pytest.approx((0.0, 0.0, -1.0), abs=0.01)


def test_positions_alone_are_compared_with_accelerations() -> None:
    recorded = record(0, Moved(rate_rad_s=0.3))
    report = found_in(recorded, columns=3)
    assert report.told_by == "ways"
    assert abs(error_s(report, recorded)) < 3e-3
    assert not report.mirrored
    recorded.poses[:, 1] *= -1.0
    assert found_in(recorded, columns=3).mirrored


def test_rest_a_steady_turn_and_a_motion_that_repeats_are_refused() -> None:
    recorded = record(1, replace(STILL, gyro_bias_rad_s=0.0, duration_s=15.0))
    truth_s, imu_s = (recorded.truth_ns - START_NS) / 1e9, (recorded.imu_ns - START_NS) / 1e9
    rest = recorded.poses[:, 3:].copy(), recorded.readings.copy()
    refused = found_in(recorded).refused
    assert "deg RMS beside what is even" in refused
    assert "mm RMS beside what is even" in refused
    left = checked_truth({"imu": imu_of(recorded)}, {"body": body_of(recorded)}, (), True)
    np.testing.assert_array_equal(left.tracks["body"].stamps_ns, recorded.truth_ns)
    assert left.clock[0].startswith("The truth's clock is left as it was recorded")
    assert "deg RMS beside what is even" in left.clock[0]
    recorded.poses[:, 3:] = (Rotation.from_rotvec(np.outer(truth_s, UP)) * Rotation.from_quat(rest[0])).as_quat()
    recorded.readings[:, 2] += 1.0
    assert "a steady turn, tells nothing" in found_in(recorded).refused
    angle = 0.2 * np.cos(4.0 * np.pi * truth_s)
    recorded.poses[:, 3:] = Rotation.from_rotvec(np.outer(angle, UP)).as_quat()
    recorded.readings[:, :2] = 0.0
    recorded.readings[:, 2] = rest[1][:, 2] - 0.8 * np.pi * np.sin(4.0 * np.pi * imu_s)
    report = found_in(recorded)
    assert report.offset_s is None
    assert "repeats" in report.refused or "as far as was looked" in report.refused


def test_another_body_is_not_taken_for_the_own() -> None:
    first, second = (record(seed, Moved(duration_s=16.0)) for seed in (1, 2))
    strange = find_offset("imu", "body", imu_of(first), body_of(second))
    assert strange.offset_s is None
    assert "another body" in strange.refused
    bodies = {"a": body_of(first), "b": body_of(second)}
    imus = {"one": imu_of(first), "two": imu_of(second)}
    # One is named after the other's body, two after none.
    assert [(one.body, one.rather) for one in pair(imus, bodies, {"one": "b"})] == [("b", "a"), ("b", "")]
    names = ["/r/ground_truth/link_1/pose", "/r/ground_truth/link_2/pose"]
    assert named_after(["/r/imu/link_2/data_raw", "/r/imu/foot/data_raw"], names) == {
        "/r/imu/link_2/data_raw": "/r/ground_truth/link_2/pose"
    }


def test_clocks_that_are_far_apart_are_brought_together_by_the_recorder_and_jumps_of_the_truth_harm_nothing(
    moved: Recorded,
) -> None:
    track = body_of(moved).track
    late = TrackedBody(replace(track, stamps_ns=track.stamps_ns - 5_000_000_000), 5.003)
    report = find_offset("imu", "body", imu_of(moved), late)
    assert report.offset_s == pytest.approx(5.0 + moved.truth.offset_s, abs=0.5e-3)
    half = len(moved.poses) // 2
    turn_about(moved, slice(half, half + 40), "x", 90.0)
    report = found_in(moved)
    assert abs(error_s(report, moved)) < 0.5e-3
    assert (report.explained or 0.0) > 0.99


# What contradicts


def times(factors: list[float]) -> Callable[[Recorded], Recorded]:
    """Readings, gyro x y z and accelerometer x y z, by factors."""
    return lambda one: one._replace(readings=one.readings * factors)


def posed(change: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> Callable[[Recorded], Recorded]:
    """Poses, x y z and quaternion x y z w, changed."""
    return lambda one: one._replace(poses=change(one.poses))


SPOILT: dict[str, tuple[Callable[[Recorded], Recorded], str]] = {
    "w first": (posed(lambda poses: poses[:, [0, 1, 2, 6, 3, 4, 5]]), "as w, x, y, z: its driver writes w first"),
    "inverse": (posed(lambda poses: poses * [1, 1, 1, -1, -1, -1, 1]), "from the world to the body"),
    "constant": (posed(lambda poses: poses * [1, 1, 1, 0, 0, 0, 0] + np.eye(7)[6]), "never changes"),
    "mm": (posed(lambda poses: poses * [1e3, 1e3, 1e3, 1, 1, 1, 1]), "one is in mm"),
    "cm": (posed(lambda poses: poses * [1e2, 1e2, 1e2, 1, 1, 1, 1]), "one is in cm"),
    "mirrored": (posed(lambda poses: mirror(poses, "y")), "mirror image"),
    "dead gyro": (times([0, 0, 0, 1, 1, 1]), "reads zero while the body turns"),
    "dead axis": (times([0, 1, 1, 1, 1, 1]), "reads 0 along x throughout"),
    "deg/s": (times([57.3, 57.3, 57.3, 1, 1, 1]), "in deg/s"),
    "other sign": (times([1, 1, 1, -1, -1, -1]), "other sign"),
    "late": (lambda one: one._replace(truth_ns=one.truth_ns + 60_000_000), "--align-clock"),
}


@pytest.mark.parametrize("fault", SPOILT)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_each_contradiction_is_named_and_nothing_innocent(fault: str, seed: int, kept: list[Recorded]) -> None:
    spoil, said = SPOILT[fault]
    sound = kept[seed]._replace(truth_ns=kept[seed].truth_ns + round(1e9 * kept[seed].truth.offset_s))
    for one, wanted in ((sound, []), (spoil(sound), [True])):
        series = Series(imu_channel("foot"), one.imu_ns, one.readings)
        condemned = contradict_gravity([series])
        found = checked_truth({series.channel.topic: imu_of(one)}, {"body": body_of(one)}, condemned, False)
        sentences = [*condemned.values(), *found.contradictions]
        assert [said in sentence for sentence in sentences] == wanted, sentences
        assert found.comparable or condemned or fault not in ("mirrored", "late")
        assert found.tracks["body"].oriented == (not wanted or fault not in ("w first", "inverse", "constant"))


def test_gravity_turns_as_a_gyro_says_and_tells_its_unit_and_its_hand() -> None:
    turned = record(0, Moved(reach_m=0.02))
    for factor in (1.0, np.rad2deg(1.0), -1.0):
        found = turns_of_gravity(turned.imu_ns, factor * turned.readings[:, :3], turned.readings[:, 3:])
        assert found == pytest.approx(1.0 / factor, rel=0.25)


def test_a_noisy_accelerometer_is_no_wrong_scale(moved: Recorded) -> None:
    moved.readings[:, 3:] += np.random.default_rng(0).normal(0.0, 10.0, moved.readings[:, 3:].shape)
    report = frames_of(moved)
    assert report.gain is not None
    assert report.gain < 0.85  # attenuated by noise that is integrated twice
    assert "times as far as" not in said(report)


def test_of_several_imus_the_odd_one_is_at_fault_and_not_the_truth(
    kept: list[Recorded],
) -> None:
    turned = kept[1]._replace(readings=kept[1].readings * [-1, -1, -1, 1, 1, 1])
    imus = {f"imu/{name}/data_raw": imu_of(one) for name, one in (("a", kept[0]), ("b", turned))}
    bodies = {f"ground_truth/{name}/pose": body_of(one) for name, one in (("a", kept[0]), ("b", kept[1]))}
    said = " ".join(checked_truth(imus, bodies, (), False).contradictions)
    assert "imu/b" in said
    assert "mirror" not in said


# Frames


def test_a_mirror_image_is_told_by_its_gain_and_accelerations_in_g_by_theirs(moved: Recorded) -> None:
    report = frames_of(moved._replace(poses=mirror(moved.poses, "y")))
    assert report.gain == pytest.approx(-1.0, abs=0.03)
    assert "error: body is a mirror image" in said(report)
    assert "--mirror-truth y" in said(report)
    moved.readings[:, 3:] /= 9.81
    assert "they are in g, m/s^2 is meant" in said(frames_of(moved))


@pytest.mark.parametrize(
    ("axis", "degrees", "severity", "sentence"),
    [
        ("x", -90.0, "error", "The y axis of body points up"),  # what was z is y
        ("x", 180.0, "error", "--mirror-truth yz"),
        ("y", 90.0, "error", "The x axis of body"),
        ("x", 12.0, "note", "deg off its z axis"),
    ],
)
def test_which_axis_of_the_truths_world_is_up(
    axis: str, degrees: float, severity: str, sentence: str, moved: Recorded
) -> None:
    turn = Rotation.from_euler(axis, degrees, degrees=True)
    turned = np.hstack([turn.apply(moved.poses[:, :3]), (turn * Rotation.from_quat(moved.poses[:, 3:])).as_quat()])
    found = said(frames_of(moved._replace(poses=turned)))
    assert any(line.startswith(severity) and sentence in line for line in found.splitlines()), found


def even_motion(count: int = 400) -> tuple[NDArray[np.int64], Recorded]:
    """Stamps and poses of a body that moves and turns evenly, 100 Hz."""
    stamps = START_NS + np.arange(count) * 10_000_000
    turns = Rotation.from_rotvec(np.deg2rad(0.2) * np.arange(count)[:, None] * UP).as_quat()
    poses = np.hstack([np.arange(count)[:, None] * [1e-3, 0.0, 0.0], turns])
    return stamps, Recorded(stamps, poses[:, :6], stamps, poses, None)  # type: ignore[arg-type]


def test_flips_are_told_from_other_jumps() -> None:
    stamps, moving = even_motion()
    ends = int(stamps[0]), int(stamps[-1])
    turn_about(moving, slice(200, 220), "y", 120.0)
    turn_about(moving, slice(300, None), "y", 50.0)
    report = truth_report("body", stamps, moving.poses, ends, START_NS)
    assert report.flips == 2
    assert "leaps away as no body moves from 2.00 to 2.99 s: 100 messages" in report.made_up[0]


# Recorded


@pytest.mark.slow
@pytest.mark.data
def test_an_offset_put_into_a_recorded_walk_is_found(shared_data: Path) -> None:
    for path, injected_s in zip(sorted((shared_data / "pyshoe_vicon").glob("*.mat")), (-0.007, 0.02), strict=False):
        content = loadmat(path)
        times = START_NS + np.round(content["ts"].ravel() * 1e9).astype(np.int64)
        imu = readings_of(times, content["imu"][:, [3, 4, 5, 0, 1, 2]])
        positions = content["gt"] * [1.0, -1.0, 1.0]
        as_is, later = (
            find_offset("imu", "foot", imu, TrackedBody(BodyTrack.clean("foot", stamps, rows), 0.0)).offset_s
            for stamps, rows in ((times, positions), (times[1::2] - round(injected_s * 1e9), positions[1::2]))
        )
        assert as_is is not None
        assert later is not None
        assert later - as_is == pytest.approx(injected_s, abs=3e-3)


def links_of(path: Path) -> Iterator[Recorded]:
    content = loadmat(path)["data"][0, 0]
    readings, reference = content["sensorData"], content["ref"]
    times = START_NS + np.round(np.arange(len(readings)) * 1e9 / content["rate"].item()).astype(np.int64)
    for link in range(2):
        attitudes = reference[:, [4 * link + place for place in (1, 2, 3, 0)]]
        poses = np.hstack([reference[:, 8 + 3 * link : 11 + 3 * link], attitudes])
        imu = readings[:, [6 * link + place for place in (3, 4, 5, 0, 1, 2)]]
        yield Recorded(times, imu, times, poses, None)  # type: ignore[arg-type]


@pytest.mark.data
def test_gyros_of_two_links_lag_alike_and_the_sensors_sit_at_the_same_places_in_all_recordings(
    shared_data: Path,
) -> None:
    places: list[list[tuple[float, float, float]]] = [[], []]
    for path in sorted((shared_data / "two_link_imu").glob("*.mat")):
        offsets = []
        for link, recorded in enumerate(links_of(path)):
            imu, body = readings_of(recorded.imu_ns, recorded.readings), body_of(recorded)
            body = body._replace(delay_s=0.0)
            clock = find_offset("imu", "link", imu, body)
            assert clock.offset_s is not None
            offsets.append(clock.offset_s)
            frames = find_frames(clock, imu, body)
            assert frames.lever_m is not None
            assert frames.up == pytest.approx(UP, abs=0.03)
            places[link].append(frames.lever_m)
        assert all(8e-3 < offset < 22e-3 for offset in offsets)
        assert abs(offsets[0] - offsets[1]) < 2e-3  # both sensors have one clock
    for of_link in places:
        assert np.std(of_link, axis=0).max() < 2.5e-3
    assert [round(math.hypot(*np.mean(of_link, axis=0)), 2) for of_link in places] == [0.07, 0.1]


@pytest.mark.slow
@pytest.mark.data
def test_inspect_says_the_offset_with_its_remedy_and_evaluate_moves_the_truth(
    tmp_path: Path, shared_data: Path
) -> None:
    linked = tmp_path / "bag"
    convert("two-link-imu", shared_data / "two_link_imu" / "data_3D_01.mat", linked, as_recorded=True)
    inspected = inspect_bag(linked)
    (sentence,) = [one.text for one in inspected.findings if "--align-clock" in one.text]
    assert "imu/proximal/data_raw" in sentence
    assert " ms early against /imu/" in sentence
    assert inspected.summary()["clocks"][0]["told_by"] == "turns"
    as_is, moved = (
        evaluate_bag(linked, EvaluateOptions(align_clock=align), keep=None).result for align in (False, True)
    )
    errors = [
        next(value for name, value in one.metrics["relative_orientation"].items() if "rmse" in name)
        for one in (as_is, moved)
    ]
    assert errors[1] < 0.9 * errors[0]
    (note,) = [one for one in moved.notes if "stamps are moved" in one]
    assert "3 sigma" in note
    assert "--align-clock" in moved.command
