"""An inspection finds the faults that were put into a recording, with the numbers they were put in with."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from bag_samples import (
    IMU,
    JAZZY,
    JOINTS,
    POINT,
    POSE,
    START_NS,
    Sample,
    imu,
    joints,
    point,
    pose,
    type_of,
    write_rosbag2,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from rosbags.rosbag2 import StoragePlugin, Writer

from onboard_estimation.base.measurement import Channel, Limit
from onboard_estimation.inspection import inspect as inspecting
from onboard_estimation.inspection.inspect import inspect_bag, render, timing_report, truth_report
from onboard_estimation.inspection.report import Inspection, TopicReport, TruthReport
from onboard_estimation.soundness.motion import MotionCheck

MS = 1_000_000
IMU_1 = "/salp/imu/link_1/data_raw"

Edit = Callable[[int, Sample], Sample | None]


def recording(edits: Mapping[str, Edit] = {}, seconds: int = 10, imus: int = 2, bodies: int = 1) -> list[Sample]:
    """IMUs at 100 Hz and poses at 50 Hz, 2 ms from stamp to log; an edit changes or drops messages of its topic."""
    samples: list[Sample | None] = []

    def add(number: int, sample: Sample) -> None:
        edit = edits.get(sample.topic.removeprefix("/salp/").removesuffix("/data_raw"))
        samples.append(edit(number, sample) if edit else sample)

    for step in range(100 * seconds):
        stamp = START_NS + step * 10 * MS
        for link in range(1, imus + 1):
            message = imu(stamp, (0.1, 0.2, 0.3), (0.0, 0.0, 9.81), f"imu_{link}")
            add(step, Sample(f"/salp/imu/link_{link}/data_raw", IMU, stamp + 2 * MS + link, message))
        for link in range(1, bodies + 1) if step % 2 == 0 else ():
            message = pose(stamp, (step * 1e-4, 0, 0))
            add(step // 2, Sample(f"/salp/ground_truth/link_{link}/pose", POSE, stamp + 2 * MS + 10 + link, message))
    return sorted((sample for sample in samples if sample), key=lambda sample: sample.log_time_ns)


def with_stamp(sample: Sample, stamp_ns: int) -> Sample:
    sample.message.header.stamp = type_of("builtin_interfaces/msg/Time")(*divmod(stamp_ns, 10**9))
    return sample


def inspect(tmp_path: Path, samples: Sequence[Sample], robots: dict[str, list[Channel]] | None = None) -> Inspection:
    inspection = inspect_bag(write_rosbag2(tmp_path / "bag", samples), robots)
    json.dumps(inspection.summary(), allow_nan=False)
    return inspection


def topic(inspection: Inspection, name: str) -> TopicReport:
    return next(report for report in inspection.topics if report.name == name)


def texts(inspection: Inspection) -> list[str]:
    return [f"{finding.severity}: {finding.text}" for finding in inspection.findings]


def printed(inspection: Inspection, width: int = 100) -> list[str]:
    console = Console(width=width, force_terminal=False, color_system=None)
    with console.capture() as capture:
        console.print(render(inspection))
    return capture.get().splitlines()


def test_a_sound_recording_has_no_findings(tmp_path: Path) -> None:
    inspection = inspect(tmp_path, recording(seconds=5))
    assert texts(inspection) == []
    assert (inspection.format, inspection.message_count, inspection.namespace) == ("mcap", 1250, "/salp")
    assert inspection.duration_s == pytest.approx(4.99, abs=1e-6)
    report = topic(inspection, IMU_1)
    assert (report.message_type, report.count, report.has_header, report.frames) == (IMU, 500, True, ("imu_1",))
    assert (report.timing.rate_hz, report.timing.duration_s) == pytest.approx((100.0, 4.99))
    assert report.timing.regular
    assert report.delay_median_s == pytest.approx(0.002, abs=1e-6)
    assert (report.not_finite, report.undecodable) == (0, 0)
    (body,) = inspection.truth
    assert (body.coverage, body.largest_step_m) == pytest.approx((1.0, 2e-4))
    assert (body.made_up, body.unusable, body.largest_turn_rad) == ((), 0, 0.0)
    assert any("Nothing wrong was found" in line for line in printed(inspection))


# A recording in which each topic has a fault of its own


def gaps_and_a_rate_beyond_the_range(step: int, sample: Sample) -> Sample | None:
    if step in (100, 150):
        sample.message.angular_velocity.z = 57.3
    return None if 200 <= step < 220 or 500 <= step < 624 else sample


def repeated_stamps_and_a_jump_back(step: int, sample: Sample) -> Sample:
    if step in (300, 301, 302):
        return with_stamp(sample, START_NS + 299 * 10 * MS)
    return with_stamp(sample, START_NS + 100 * 10 * MS) if step == 700 else sample


def numbers_that_are_none(step: int, sample: Sample) -> Sample:
    if step in (5, 6):
        sample.message.angular_velocity.x = np.nan
    if step in (6, 7):
        sample.message.linear_acceleration.z = -np.inf
    sample.message.orientation.x = np.nan  # orientation is not measured, so it may be NaN
    return sample


def one_late_message(step: int, sample: Sample) -> Sample:
    return sample._replace(log_time_ns=sample.log_time_ns + 700 * MS) if step == 400 else sample


def half_the_rate_and_two_frames(step: int, sample: Sample) -> Sample | None:
    sample.message.header.frame_id = "imu_5" if step < 600 else "other"
    return sample if step % 2 else None


def late_stamps(step: int, sample: Sample) -> Sample | None:
    """50 messages come 3 ms late (1.3 and 0.7 intervals), one is lost; the last of the late ones stands alone."""
    if 100 <= step < 200 and step % 2:
        return with_stamp(sample, START_NS + step * 10 * MS + 3 * MS)
    return None if step == 400 else sample


def markers_that_swap(step: int, sample: Sample) -> Sample:
    if step in (100, 101):
        sample.message.pose.position.y += 0.5
    if step in (300, 400):
        turned = (0.0, 0.0, 1.0, 0.0) if step == 300 else (0.0, 0.0, 0.0, -1.0)
        sample.message.pose.orientation = type_of("geometry_msgs/msg/Quaternion")(*turned)
    return sample


def poses_that_are_none(step: int, sample: Sample) -> Sample:
    if step < 10:
        sample.message.pose.position.x = np.nan
    if 10 <= step < 15:
        sample.message.pose.orientation.w = 0.0
    return sample


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory: pytest.TempPathFactory) -> Inspection:
    edits: dict[str, Edit] = {
        "imu/link_1": gaps_and_a_rate_beyond_the_range,
        "imu/link_2": repeated_stamps_and_a_jump_back,
        "imu/link_3": numbers_that_are_none,
        "imu/link_4": one_late_message,
        "imu/link_5": half_the_rate_and_two_frames,
        "imu/link_6": late_stamps,
        "ground_truth/link_1/pose": lambda step, s: None if 100 <= step < 250 or step > 450 else s,
        "ground_truth/link_2/pose": markers_that_swap,
        "ground_truth/link_3/pose": poses_that_are_none,
    }
    samples = recording(edits, imus=6, bodies=3)
    for step in range(100):
        position, velocity = [np.nan if step == 3 else 1.0, 2.0], [1.0, np.inf if step in (3, 9) else 2.0]
        stamp = START_NS + step * 10 * MS
        samples.append(Sample("/salp/actuators/state", JOINTS, stamp, joints(stamp, ["a", "b"], position, velocity)))
    rate = Limit("angular rate", 0, 3, 34.9, "rad/s", "gyro.range_rad_s")
    channels = [Channel("imu/link_1/data_raw", IMU, "imu/link_1", limits=(rate,))]
    with pytest.MonkeyPatch.context() as patch:  # clocks have tests of their own, and eighteen pairs take seconds
        patch.setattr(inspecting, "_motion", lambda *_: MotionCheck((), ()))
        return inspect(tmp_path_factory.mktemp("spoilt"), samples, {"salp": channels})


@pytest.mark.parametrize(
    "said",
    [
        "imu/link_1/data_raw has 2, the longest 1.25 s at 4.99 s",
        "error: Times jump backwards: ",
        "imu/link_2/data_raw once, by up to 5.99 s",
        "warning: Messages repeat the stamp before them: imu/link_2/data_raw 3 of 1,000.",
        "imu/link_3/data_raw in 3 of 1,000 messages",
        "actuators/state in 2 of 100 messages",
        "warning: Messages reached the recorder late: ",
        "imu/link_4/data_raw by up to 700 ms",
        "note: More than one frame on a topic: imu/link_5/data_raw 'imu_5', 'other'.",
        "note: The IMUs run at different rates: ",
        "imu/link_5/data_raw at 50.0 Hz",
        "ground_truth/link_1/pose covers 59.9% of the sensors' time; the longest hole is 3.02 s at 1.98 s.",
        "ground_truth/link_2/pose leaps away as no body moves 2 times, the longest from 2.00 to ",
        "ground_truth/link_2/pose turns by 90, 120 or 180 deg at once, ",
        "warning: ground_truth/link_3/pose has 15 poses that are none.",
        "warning: For salp, /salp/imu/link_1/data_raw, 2 of 856 messages: angular rate of 57.3",
        "such readings are refused, raise gyro.range_rad_s if it can read more.",
    ],
)
def test_each_fault_is_said(said: str, spoilt: Inspection) -> None:
    assert said in "\n".join(texts(spoilt))


def test_faults_have_the_numbers_that_no_sentence_says(spoilt: Inspection) -> None:
    holes, swapped, none = spoilt.truth
    # From 1.98 s to 5.00 s, and from 9.00 s to 9.99 s.
    assert holes.coverage == pytest.approx(1.0 - (3.02 + 0.99) / 9.99, abs=2e-3)
    assert (swapped.largest_turn_rad, swapped.largest_step_m) == pytest.approx((np.pi, 0.5), abs=1e-3)
    assert none.longest_hole_s == pytest.approx(0.3)


@pytest.mark.parametrize("width", [100, 60])
def test_it_fits_the_terminal(width: int, spoilt: Inspection) -> None:
    lines = printed(spoilt, width)
    assert max(len(line) for line in lines) <= width
    if width == 100:  # one line for each topic: nothing is broken
        assert any(line.split()[:4] == ["imu/link_1/data_raw", "Imu", "856", "100.0"] for line in lines)
    assert not any("[" in line for line in lines)


# Other faults, alone


def test_stamps_of_another_clock(tmp_path: Path) -> None:
    unset = recording({"imu/link_1": lambda step, s: with_stamp(s, step * 10 * MS)}, seconds=2)
    found = texts(inspect(tmp_path / "a", unset))
    assert found[0].startswith("error: Header stamps are not set, or count from the device's start: imu/link_1")
    behind = recording({"imu/link_1": lambda n, s: with_stamp(s, START_NS + (n * 10 - 7_200_000) * MS)}, seconds=2)
    two = inspect(tmp_path / "b", behind)
    assert texts(two)[0].startswith("error: Header stamps are of another clock than the recorder's: imu/link_1")
    assert "7,200.00 s behind the log" in texts(two)[0]
    assert two.truth[0].coverage == pytest.approx(1.0)


def test_ground_truth_on_another_clock_than_the_sensors(tmp_path: Path) -> None:
    def shifted(by_ms: int) -> list[Sample]:
        moved = {"ground_truth/link_1/pose": lambda n, s: with_stamp(s, START_NS + (n * 20 - by_ms) * MS)}
        return recording(moved, seconds=2)

    assert any("may differ by 150 ms" in text for text in texts(inspect(tmp_path / "a", shifted(150))))
    far = inspect(tmp_path / "b", shifted(50_000))
    assert far.truth[0].coverage == 0.0
    assert "error: ground_truth/link_1/pose has no pose within the sensors' time." in texts(far)


def test_positions_are_ground_truth_too(tmp_path: Path) -> None:
    samples = recording(seconds=2, bodies=0)
    for step in range(100):
        stamp = START_NS + step * 20 * MS
        samples.append(Sample("/salp/ground_truth/foot/position", POINT, stamp, point(stamp, (step * 0.3, 0, 0))))
    inspection = inspect(tmp_path, samples)
    assert inspection.truth[0].coverage == pytest.approx(1.0)
    assert any("moves by 0.3 m from pose to pose, as no body does" in said for said in texts(inspection))


def test_messages_that_do_not_decode_and_topics_without_messages(tmp_path: Path) -> None:
    with Writer(tmp_path / "bag", version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connection = writer.add_connection("/imu", IMU, typestore=JAZZY)
        writer.add_connection("/silent", POSE, typestore=JAZZY)
        for step in range(30):
            data = bytes(JAZZY.serialize_cdr(imu(START_NS + step * MS, (0, 0, 0), (0, 0, 0)), IMU))
            writer.write(connection, START_NS + step * MS, data[: -9 if step == 4 else None])
    inspection = inspect_bag(tmp_path / "bag")
    assert topic(inspection, "/imu").undecodable == 1
    assert texts(inspection) == [
        "error: Messages are not what their type says: /imu 1 of 30 (sensor_msgs/msg/Imu).",
        "note: Topics without any message: /silent.",
    ]
    printed(inspection)


def test_damage_comes_first(tmp_path: Path) -> None:
    path = write_rosbag2(tmp_path / "bag", recording({"imu/link_1": gaps_and_a_rate_beyond_the_range}, seconds=3))
    file = path / "bag.mcap"
    file.write_bytes(file.read_bytes()[:-100_000])
    inspection = inspect_bag(path)
    assert inspection.damage is not None
    first, *rest = texts(inspection)
    assert first.startswith("error: The bag is damaged or incomplete: bag.mcap ends in the middle of a record")
    assert all(not text.startswith("error") for text in rest)


def test_known_robots(tmp_path: Path) -> None:
    imus = [Channel(f"imu/link_{link}/data_raw", IMU, f"imu/link_{link}") for link in (1, 2, 3)]
    optional = Channel("actuators/command", JOINTS, "command", required=False)
    wrong_type = Channel("ground_truth/link_1/pose", POINT, "link_1")
    other = [Channel("motors/command", JOINTS, "command")]
    path = write_rosbag2(tmp_path / "bag", recording(seconds=1))
    inspection = inspect_bag(path, {"salp": [*imus[:2], optional], "hopper": other})
    salp, hopper = inspection.robots
    assert salp.present == ("imu/link_1/data_raw", "imu/link_2/data_raw")
    assert (salp.missing, salp.missing_required) == (("actuators/command",), ())
    assert (hopper.present, hopper.missing_required) == ((), ("motors/command",))
    assert texts(inspection) == []
    assert any("salp" in line and "2 of 3" in line and "(optional)" in line for line in printed(inspection))
    assert texts(inspect_bag(path, {"salp": [*imus, wrong_type]})) == [
        "warning: Robot salp cannot be evaluated: imu/link_3/data_raw, ground_truth/link_1/pose missing."
    ]
    assert texts(inspect_bag(path, {"hopper": other})) == ["note: No topic of a known robot is here (hopper)."]


def test_many_topics_with_a_fault_are_one_sentence(tmp_path: Path) -> None:
    samples = []
    for link in range(1, 8):
        for step in range(100):
            stamp = START_NS + (step + (link if step > 50 else 0) * 20) * 10 * MS
            samples.append(Sample(f"/imu/link_{link}/data_raw", IMU, stamp, imu(stamp, (0, 0, 0), (0, 0, 0))))
    (found,) = texts(inspect(tmp_path, sorted(samples, key=lambda sample: sample.log_time_ns)))
    assert found.startswith("warning: Gaps of more than 5 periods: /imu/link_7/data_raw has 1, of 1.41 s at 0.50 s;")
    assert found.endswith("; and 4 more topics.")


def test_names_in_brackets_are_no_markup_and_topics_without_header_are_timed_by_the_log(tmp_path: Path) -> None:
    samples = [Sample("/[red]x", IMU, START_NS + n, imu(START_NS, (0, 0, 0), (0, 0, 0), "[/bold]")) for n in range(3)]
    text = "std_msgs/msg/String"
    samples += [Sample("/phase", text, START_NS + step * 500 * MS, type_of(text)("stance")) for step in range(20)]
    inspection = inspect(tmp_path, samples)
    assert "[red]x" in "\n".join(printed(inspection))
    report = topic(inspection, "/phase")
    assert not report.has_header
    assert report.timing.rate_hz == pytest.approx(2.0)
    assert (report.delay_median_s, report.not_finite, report.frames) == (None, None, ())


# The numbers alone


@settings(max_examples=40)
@given(st.lists(st.integers(-(2**31) * 10**9, 2**31 * 10**9), max_size=30), st.integers(-(2**65), 2**65))
def test_any_times_have_a_report(times: list[int], zero_ns: int) -> None:
    report = timing_report(np.array(times, dtype=np.int64), zero_ns)
    steps = [after - before for before, after in pairwise(times)]
    assert report.duplicates == sum(step == 0 for step in steps)
    assert report.backward_jumps == sum(step < 0 for step in steps)
    assert report.largest_backward_s == pytest.approx(-min([0, *steps]) / 1e9)
    if forward := [step for step in steps if step > 0]:
        assert report.rate_hz == pytest.approx(1e9 / np.median(forward))


numbers = st.floats(allow_nan=True, allow_infinity=True, width=64)


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 10**10), st.lists(numbers, min_size=7, max_size=7)), max_size=12),
    st.integers(0, 10**10),
    st.integers(0, 10**10),
)
def test_any_poses_have_a_report(poses: list[tuple[int, list[float]]], start: int, length: int) -> None:
    stamps = np.array([stamp for stamp, _ in poses], dtype=np.int64)
    values = np.array([value for _, value in poses]).reshape(-1, 7)
    report = truth_report("x", stamps, values, (start, start + length), 0)
    assert isinstance(report, TruthReport)
    assert 0.0 <= report.coverage <= 1.0
    assert 0 <= report.unusable <= len(poses)
    assert 0.0 <= report.longest_hole_s <= length / 1e9 + 1e-9
