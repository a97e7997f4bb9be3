"""Recordings as they should not be: one line that helps, or a judged run that says what was lost. Never a traceback."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bag_samples import IMU, POINT, POSE, PRESSURE, header, imu, point, pose, pressure
from evaluation_samples import (
    LINKS,
    Sample,
    command,
    messages_of,
    refusal,
    salp_messages,
    salp_recording,
    spoilt,
    write,
)

from onboard_estimation.bags.writing import BagWriter
from onboard_estimation.base.series import Recording
from onboard_estimation.contract.tracks import mirror
from onboard_estimation.judging.simulated_bags import EPOCH_NS
from onboard_estimation.report import run_folder
from strapdown_estimation.simulation import simulator as walking

SECONDS = 4.0
SECOND = 1_000_000_000


@pytest.fixture
def pictures() -> None:
    """Asked for by tests whose odd numbers plots and report must stand too."""


@pytest.fixture(autouse=True)
def _quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plots and report take four fifths of the time of a short evaluation, and have tests of their own."""
    if "pictures" not in request.fixturenames:
        monkeypatch.setattr(run_folder, "write_plots", lambda *_: None)
        monkeypatch.setattr(run_folder, "write_report", lambda *_: None)


def messages(namespace: str = "/salp") -> list[Sample]:
    return salp_messages(SECONDS, namespace)


def without(samples: list[Sample], *endings: str) -> list[Sample]:
    return [sample for sample in samples if not sample.topic.endswith(endings)]


def renamed(samples: list[Sample], names: dict[str, str]) -> list[Sample]:
    return [sample._replace(topic=names.get(sample.topic, sample.topic)) for sample in samples]


def judged(bag: Path, *options: str) -> dict[str, Any]:
    """What `evaluate --json` prints on a bag that it goes on with."""
    outcome = command("evaluate", bag, "--output", bag.parent / "run", "--json", *options)
    assert outcome.code == 0, outcome.error
    assert outcome.error == ""
    found: dict[str, Any] = json.loads(outcome.out)
    assert found["robot"] in ("salp", "strapdown")
    shutil.rmtree(bag.parent / "run")
    return found


def evaluated(samples: list[Sample], folder: Path, *options: str) -> dict[str, Any]:
    return judged(write(folder / "bag", samples), *options)


def refused(samples: list[Sample], folder: Path, *options: str) -> str:
    said = refusal("evaluate", write(folder / "bag", samples), "--output", folder / "run", *options)
    assert not (folder / "run").exists()
    return said


def one_note(found: dict[str, Any], start: str) -> str:
    notes = [note for note in found["notes"] if note.startswith(start)]
    assert len(notes) == 1, found["notes"]
    return str(notes[0])


# The command as a user starts it.


def start(*words: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "onboard_estimation", *map(str, words)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


@pytest.mark.slow
def test_the_real_command_refuses_in_one_line_and_its_own_advice_works(tmp_path: Path) -> None:
    write(tmp_path / "bag", renamed(messages(), {"/salp/imu/link_2/data_raw": "/mocap/imu number two"}))
    first = start("evaluate", "bag", folder=tmp_path)
    assert first.returncode == 2
    assert first.stdout == ""
    (line,) = first.stderr.splitlines()
    assert line.startswith(
        "error: salp: /salp/imu/link_2/data_raw (sensor_msgs/msg/Imu) is missing; of that type there"
    )
    found = re.search(r"\((--topic .*) or --drop imu/link_2\)", line)
    assert found is not None, line
    second = start("evaluate", "bag", "--json", *shlex.split(found[1]), folder=tmp_path)
    assert second.returncode == 0, second.stderr
    assert second.stderr == ""
    assert json.loads(second.stdout)["metrics"]["run"]["estimates"] == 81
    # And the line that repeats the run repeats it.
    again = shlex.split(json.loads(second.stdout)["command"])
    assert again[0] == "onboard-estimation"
    third = start(*again[1:], "--output", "again", folder=tmp_path)
    assert third.returncode == 0, third.stderr
    assert "report: again/report.html" in third.stdout


def test_what_is_no_bag(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a bag")
    (tmp_path / "cut.mcap").write_bytes(b"\x89MCAP0\r\n")
    done = start("evaluate", ".", folder=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("error: ")
    for name in ("no_such_bag", "notes.txt", "cut.mcap", "."):
        assert (name if name != "." else str(tmp_path)) in refusal("evaluate", tmp_path / name)
        assert refusal("inspect", tmp_path / name)
    assert {path.name for path in tmp_path.iterdir()} == {"notes.txt", "cut.mcap"}


# Topics.


def test_a_missing_topic_lists_those_there(tmp_path: Path) -> None:
    said = refused(without(messages(), "imu/link_2/data_raw"), tmp_path)
    assert said.startswith(
        "salp: /salp/imu/link_2/data_raw (sensor_msgs/msg/Imu) is missing; no other topic has that type"
    )
    assert "(--drop imu/link_2)" in said
    listed = said.partition("Topics in the bag: ")[2].split(", ")
    assert set(listed) == {sample.topic for sample in messages()} - {"/salp/imu/link_2/data_raw"}


def test_a_link_missing_from_the_recording_can_be_done_without(tmp_path: Path) -> None:
    bag = write(tmp_path / "bag", without(messages(), "imu/link_2/data_raw"))
    found = judged(bag, "--drop", "imu/link_2")
    assert "What if: left out imu/link_2." in found["notes"]
    assert "imu/link_2" not in found["sensors"]
    assert found["metrics"]["joint_angles"]["rmse_deg"] < 5.0
    assert "--drop imu/link_2" in found["command"]
    # Dropping what is there gives the same.
    whole = judged(write(tmp_path / "whole", messages()), "--drop", "imu/link_2")
    assert whole["metrics"] == found["metrics"]


def test_several_missing_topics_are_named_together_with_a_topic_each(tmp_path: Path) -> None:
    names = {f"/salp/imu/{link}/data_raw": f"/xsens/{link}/imu" for link in LINKS}
    bag = write(tmp_path / "bag", renamed(messages(), names))
    said = refusal("evaluate", bag)
    options = re.findall(r"--topic (\S+)", said)
    assert options == [f"imu/{link}/data_raw=/xsens/{link}/imu" for link in LINKS]
    found = judged(bag, *(word for option in options for word in ("--topic", option)))
    assert found["metrics"] == judged(write(tmp_path / "whole", messages()))["metrics"]


def test_each_missing_topic_is_offered_another_one(tmp_path: Path) -> None:
    names = {f"/salp/imu/{link}/data_raw": f"/{letter}" for letter, link in zip("xyz", LINKS, strict=True)}
    said = refused(renamed(messages(), names), tmp_path)
    assert sorted(re.findall(r"--topic \S+=(\S+)", said)) == ["/x", "/y", "/z"]


def test_the_command_topic_missing(tmp_path: Path) -> None:
    said = refused(without(messages(), "actuators/command"), tmp_path)
    assert "/salp/actuators/command (sensor_msgs/msg/JointState) is missing" in said


def test_topics_of_another_alphabet(tmp_path: Path) -> None:
    names = {"/salp/imu/link_1/data_raw": "/傾き/センサー", "/salp/imu/link_3/data_raw": "/größe/imu"}
    bag = write(tmp_path / "bag", renamed(messages(), names))
    options = re.findall(r"--topic (\S+)", refusal("evaluate", bag))
    assert sorted(option.partition("=")[2] for option in options) == sorted(names.values())
    right = [f"imu/link_1/data_raw={names['/salp/imu/link_1/data_raw']}", "imu/link_3/data_raw=/größe/imu"]
    found = judged(bag, "--topic", right[0], "--topic", right[1])
    assert "/größe/imu" in found["command"]


def test_topics_without_a_slash_in_front(tmp_path: Path) -> None:
    plain = [sample._replace(topic=sample.topic.removeprefix("/salp/")) for sample in messages()]
    assert evaluated(plain, tmp_path)["metrics"]["run"]["matched_ratio"] == 1.0


def test_control_characters_in_names_do_not_reach_the_terminal(tmp_path: Path) -> None:
    bad = "/imu\x1b[31m\nerror: all is well"
    said = refused(renamed(messages(), {"/salp/imu/link_2/data_raw": bad}), tmp_path)
    assert "\x1b" not in said
    assert "/imu?[31m?error: all is well" in said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--topic", "imu/link_2/data_raw=/nowhere"], "the bag has no /nowhere; it has /salp/actuators/command,"),
        (["--topic", "imu/link_9/data_raw=/salp/imu/link_1/data_raw", "--robot", "salp"], "salp has no such topic; it"),
        (["--topic", "imu/link_2/data_raw"], "--topic imu/link_2/data_raw: write --topic NAME=TOPIC"),
        (["--topic", "a=/b", "--topic", "a=/c"], "--topic a is given twice: /b and /c"),
        (["--namespace", "/robot1"], "--namespace /robot1: no topic of salp is there, there are some in /salp"),
        (["--namespace", "/robot1", "--robot", "strapdown"], "no topic of strapdown is there, nor anywhere else"),
        (["--robot", "strapdown"], "strapdown: /imu/foot/data_raw (sensor_msgs/msg/Imu) is missing"),
        (
            ["--robot", "robot"],
            "no robot 'robot'; installed are: hopper, pendulum, salp, softrobot, strapdown, thruster_chain",
        ),
        (["--estimator", "ekf"], "salp has no estimator 'ekf'; it has ukf"),
        (["--drop", "imu/link_9"], "--drop imu/link_9: no such sensor; there are actuators/command, imu/link_1"),
        (["--drop", "imu", "--drop", "actuators"], "--drop leaves no sensor"),
        (["--bias", "imu/link_1.gyro_w=1"], "say which component of imu/link_1: gyro_x"),
        (["--delay", "imu=1.2.3"], "--delay imu=1.2.3: '1.2.3' is no time"),
        (["--delay", "imu=20"], "--delay imu=20: '20' has no unit; write 20ms, 20s or 20us"),
        (["--delay", "imu=20min"], "--delay imu=20min: 'min' is no unit of time; write 20ms, 20s or 20us"),
        (["--noise", "imu.gyro=-1"], "must be 0 or more"),
        (["--initial", "guess"], "--initial guess: must be drawn or exact"),
        (["--mirror-truth", "w"], "--mirror-truth w: must be one or more of x, y, z"),
        (["--mirror-truth", "yy"], "--mirror-truth yy: must be one or more of x, y, z"),
        (["--mirror-truth", ""], "--mirror-truth : must be one or more of x, y, z"),
        (["--truth-gap", "-1"], "--truth-gap -1.0: must be a time of 0 s or more"),
        (["--settle", "nan"], "--settle nan: must be a time of 0 s or more"),
        (["--lag", "20"], "a lag of 20 s is not allowed"),
        (["--set", "gyro.axis"], "--set gyro.axis: write --set NAME=VALUE"),
        (["--set", "gyro.noise_stddev_rad_s={"], "the value is no YAML"),
        (["--config", "/nowhere/salp.yaml"], "/nowhere/salp.yaml"),
    ],
)
def test_options_that_do_not_fit(options: list[str], words: str, tmp_path: Path) -> None:
    assert words in refused(messages(), tmp_path, *options)


# Namespaces and robots.


def test_another_namespace_is_found(tmp_path: Path) -> None:
    found = evaluated(messages("/lab/robot1"), tmp_path)
    assert found["metrics"] == evaluated(messages(), tmp_path / "b")["metrics"]


def test_no_namespace_is_found(tmp_path: Path) -> None:
    assert evaluated(messages(""), tmp_path)["metrics"]["run"]["matched_ratio"] == 1.0


def test_two_robots_of_a_kind_are_told_apart(tmp_path: Path) -> None:
    first, second = messages("/robot1"), salp_messages(SECONDS, "/robot2", seed=2)
    both = write(tmp_path / "both", sorted(first + second, key=lambda sample: sample.log_time_ns))
    said = refusal("evaluate", both)
    assert said == f"{both} holds several robots of the kind salp; choose: --namespace /robot1 or --namespace /robot2"
    alone = [judged(write(tmp_path / name, one)) for name, one in (("one", first), ("two", second))]
    for option, expected in zip(("/robot1", "robot2"), alone, strict=True):
        found = judged(both, "--namespace", option)
        assert found["metrics"] == expected["metrics"]
        assert f"--namespace {option}" in found["command"]
    assert alone[0]["metrics"] != alone[1]["metrics"]


def walk(duration_s: float = 12.0) -> Recording:
    return walking.simulate(walking.GAITS["normal"], duration_s, np.random.default_rng(3))


def test_another_robot_in_the_bag_is_mentioned(tmp_path: Path) -> None:
    both = sorted(messages() + messages_of(walk(8.0), "/foot"), key=lambda sample: sample.log_time_ns)
    bag = write(tmp_path / "bag", both)
    found = judged(bag)
    assert found["robot"] == "salp"
    assert "The bag also holds another robot's topics: --robot strapdown." in found["notes"]
    assert judged(bag, "--robot", "strapdown")["robot"] == "strapdown"


def test_a_bag_of_no_known_robot_lists_what_is_there(tmp_path: Path) -> None:
    samples = [Sample("/tank/pressure", PRESSURE, EPOCH_NS + i, pressure(EPOCH_NS + i, 1.0)) for i in range(5)]
    said = refused(samples, tmp_path)
    assert said == (
        "no installed robot (hopper, pendulum, salp, softrobot, strapdown, thruster_chain, two_link) knows a topic of "
        "this bag: /tank/pressure (sensor_msgs/msg/FluidPressure)"
    )


def foreign(folder: Path, duration_s: float = 12.0) -> Path:
    """A walk as another laboratory names it: an IMU, and a marker's pose."""
    samples = messages_of(walk(duration_s), "")
    names = {sample.topic: "/vicon/heel" if "ground_truth" in sample.topic else "/imu/data" for sample in samples}
    assert len(names) == 2
    return write(folder / "bag", renamed(samples, names))


def test_a_foreign_bag_is_offered_the_whole_line_to_try_for_each_robot_whose_types_fit(tmp_path: Path) -> None:
    bag = foreign(tmp_path)
    said = refusal("evaluate", bag)
    lines = re.findall(r"--robot \S+(?: --topic \S+=\S+?)+(?=,|$)", said)
    assert [shlex.split(line)[1] for line in lines] == ["hopper", "strapdown"], said  # salp wants three IMUs
    assert "--topic imu/foot/data_raw=/imu/data" in lines[1]
    found = judged(bag, *shlex.split(lines[1]))
    assert found["robot"] == "strapdown"
    assert found["metrics"]["run"]["matched_ratio"] > 0.9
    # The same from `inspect`, to be pasted.
    inspected = command("inspect", bag)
    assert [line for line in inspected.out.splitlines() if line.endswith(f" evaluate {bag} {lines[1]}")]
    assert json.loads(command("inspect", bag, "--json").out)["suggested_options"] == lines


def test_a_bag_that_names_tell_is_offered_nothing(tmp_path: Path) -> None:
    bag = write(tmp_path / "bag", messages())
    assert "To try:" not in command("inspect", bag).out
    assert json.loads(command("inspect", bag, "--json").out)["suggested_options"] == []


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (
            "imu/link_2/data_raw=/nowhere",
            "--topic imu/link_2/data_raw=/nowhere: the bag has no /nowhere; it has /salp/",
        ),
        (
            "imu/link_9/data_raw=/salp/imu/link_1/data_raw",
            "--topic imu/link_9/data_raw=...: no installed robot has such a topic; the nearest are imu/link_",
        ),
    ],
)
def test_one_wrong_topic_is_complained_of_once(option: str, words: str, tmp_path: Path) -> None:
    said = refused(messages(), tmp_path, "--topic", option)
    assert said.startswith(words)
    assert said.count("--topic") == 1


# Types.


def test_a_wrong_type_is_named_with_the_right_one(tmp_path: Path) -> None:
    wrong = [
        sample._replace(message_type=PRESSURE, message=pressure(sample.log_time_ns, 1.0))
        if sample.topic.endswith(("imu/link_1/data_raw", "imu/link_3/data_raw"))
        else sample
        for sample in messages()
    ]
    bag = write(tmp_path / "bag", wrong)
    kinds = "is sensor_msgs/msg/FluidPressure, not sensor_msgs/msg/Imu"
    assert refusal("evaluate", bag) == (
        f"salp: /salp/imu/link_1/data_raw {kinds} (--drop imu/link_1); "
        f"/salp/imu/link_3/data_raw {kinds} (--drop imu/link_3)"
    )
    found = judged(bag, "--drop", "imu/link_1", "--drop", "imu/link_3")
    assert "What if: left out imu/link_1, imu/link_3." in found["notes"]


def test_a_truth_of_the_wrong_type(tmp_path: Path) -> None:
    wrong = [
        sample._replace(message_type=POINT, message=point(sample.log_time_ns, [0.0, 0.0, 0.0]))
        if sample.topic.endswith("ground_truth/link_1/pose")
        else sample
        for sample in messages()
    ]
    bag = write(tmp_path / "bag", wrong)
    said = refusal("evaluate", bag)
    assert "/salp/ground_truth/link_1/pose is geometry_msgs/msg/PointStamped, not geometry_msgs/msg/PoseStamped" in said
    assert "(--drop ground_truth/link_1)" in said
    found = judged(bag, "--drop", "ground_truth/link_1")
    assert found["metrics"]["run"]["matched_ratio"] == 0.0


def test_a_truth_under_another_name_is_offered_and_can_be_pasted(tmp_path: Path) -> None:
    names = {f"/salp/ground_truth/{link}/pose": f"/vrpn/{link}" for link in LINKS}
    bag = write(tmp_path / "bag", renamed(messages(), names))
    note = one_note(judged(bag), "No ground truth of link_1, link_2, link_3 in the bag")
    options = shlex.split(note.partition("(")[2].partition("?")[0])
    assert judged(bag, *options)["metrics"] == judged(write(tmp_path / "whole", messages()))["metrics"]


# Numbers.


def test_some_numbers_that_are_none_are_left_out_and_counted(tmp_path: Path) -> None:
    def spoil(number: int, message: Any) -> None:
        if number % 10 == 3:
            message.angular_velocity.z = float("nan") if number % 20 == 3 else float("-inf")

    found = evaluated(spoilt(messages(), "imu/link_1/data_raw", spoil), tmp_path)
    assert "imu/link_1: of 81 messages 8 not finite were left out." in found["notes"]
    assert found["sensors"]["imu/link_1"]["invalid"] == 8
    assert found["metrics"]["joint_angles"]["rmse_deg"] < 5.0


def test_a_sensor_without_a_single_number_is_refused(tmp_path: Path) -> None:
    def spoil(number: int, message: Any) -> None:
        message.linear_acceleration.x = float("nan")

    bag = write(tmp_path / "bag", spoilt(messages(), "imu/link_3/data_raw", spoil))
    assert refusal("evaluate", bag) == (
        "none of the 81 messages on /salp/imu/link_3/data_raw can be used: 81 not finite "
        "(--drop imu/link_3 does without)"
    )
    assert judged(bag, "--drop", "imu/link_3")["robot"] == "salp"


def test_messages_without_a_part_that_is_needed_are_refused_by_name(tmp_path: Path) -> None:
    def spoil(number: int, message: Any) -> None:
        if number % 10 == 3:
            message.angular_velocity_covariance = np.array([-1.0, *np.zeros(8)])

    found = evaluated(spoilt(messages(), "imu/link_1/data_raw", spoil), tmp_path)
    assert "imu/link_1: of 81 messages 8 without a part that is needed were left out." in found["notes"]
    assert found["sensors"]["imu/link_1"]["incomplete"] == 8
    assert one_note(found, "Imu/link_1 has no angular velocity (element 0 of its covariance is -1,")
    assert found["metrics"]["joint_angles"]["rmse_deg"] < 5.0

    def spoil_all(number: int, message: Any) -> None:
        spoil(3, message)

    bag = write(tmp_path / "none", spoilt(messages(), "imu/link_1/data_raw", spoil_all))
    assert refusal("evaluate", bag) == (
        "none of the 81 messages on /salp/imu/link_1/data_raw can be used: 81 without angular velocity "
        "(element 0 of its covariance is -1, or all of it is NaN) (--drop imu/link_1 does without)"
    )


def test_poses_that_are_none_are_left_out_and_counted(tmp_path: Path) -> None:
    def spoil(number: int, message: Any) -> None:
        if number % 100 == 7:
            message.pose.position.y = float("inf")
        if number % 100 == 8:
            message.pose.orientation = type(message.pose.orientation)(0.0, 0.0, 0.0, 0.0)

    found = evaluated(spoilt(messages(), "ground_truth/link_2/pose", spoil), tmp_path)
    assert one_note(found, "Ground truth of link_2").startswith(
        "Ground truth of link_2: 10 of 481 messages left out (not"
    )
    assert found["metrics"]["run"]["matched_ratio"] == 1.0


def test_joints_in_another_order_are_the_same(tmp_path: Path) -> None:
    def shuffle(number: int, message: Any) -> None:
        order = [2, 0, 1] if number % 2 else [1, 2, 0]
        message.name = [message.name[i] for i in order]
        message.velocity = message.velocity[order]

    found = evaluated(spoilt(messages(), "actuators/command", shuffle), tmp_path)
    assert found["metrics"] == evaluated(messages(), tmp_path / "b")["metrics"]


def test_a_joint_lacking_at_times_and_always(tmp_path: Path) -> None:
    def spoil(number: int, message: Any) -> None:
        if number % 4 == 1:
            message.name, message.velocity = message.name[:2], message.velocity[:2].copy()

    found = evaluated(spoilt(messages(), "actuators/command", spoil), tmp_path)
    assert one_note(found, "/salp/actuators/command") == (
        "/salp/actuators/command: 20 messages left out: lacks 'link_3' (it has: 'link_1', 'link_2')."
    )

    def spoil_all(number: int, message: Any) -> None:
        spoil(1, message)

    said = refused(spoilt(messages(), "actuators/command", spoil_all), tmp_path / "b")
    assert said.startswith("none of the 81 messages on /salp/actuators/command can be used: 81 lacks 'link_3'")


def test_odd_frames_change_nothing(tmp_path: Path) -> None:
    def spoil(number: int, message: Any) -> None:
        message.header.frame_id = ["", "/world", "wörld \x1b[31m", "a" * 500][number % 4]

    found = evaluated(spoilt(messages(), "", spoil), tmp_path)
    assert found["metrics"] == evaluated(messages(), tmp_path / "b")["metrics"]


# Times.


def restamped(samples: list[Sample], new: Callable[[float, str], float]) -> list[Sample]:
    """Stamps by `new(seconds since the start, topic)`; the recorder's clock goes on as it did."""
    for sample in samples:
        stamp = round(new((sample.log_time_ns - EPOCH_NS) / SECOND, sample.topic) * SECOND) + EPOCH_NS
        sample.message.header = header(stamp, sample.message.header.frame_id)
    return samples


@pytest.mark.parametrize(("at_s", "by_s", "kept_s"), [(3.0, -2.0, 3.0), (1.0, -20.0, 3.0), (1.0, 3600.0, 3.0)])
def test_a_clock_that_jumps_is_cut_there(at_s: float, by_s: float, kept_s: float, tmp_path: Path) -> None:
    samples = restamped(messages(), lambda time_s, _: time_s + (by_s if time_s >= at_s else 0.0))
    found = evaluated(samples, tmp_path)
    said = one_note(found, "Clock jumped by")
    assert f"{by_s + 0.05:+.3f} s" in said
    kept, count = map(int, re.findall(r"(\d+) of (\d+) measurements", said)[0])
    assert count == 4 * 81
    assert kept == pytest.approx(count * kept_s / SECONDS, abs=8)
    assert found["metrics"]["run"]["duration_s"] == pytest.approx(kept_s, abs=0.1)
    assert found["metrics"]["joint_angles"]["rmse_deg"] < 5.0
    assert found["metrics"]["run"]["matched_ratio"] == 1.0


def test_half_a_minute_without_messages_is_bridged_and_said(tmp_path: Path, pictures: None) -> None:
    samples = restamped(messages(), lambda time_s, _: time_s + (30.0 if time_s >= 2.0 else 0.0))
    assert one_note(evaluated(samples, tmp_path), "No measurements").startswith("No measurements for 30.1 s")


def test_a_few_stamps_that_were_not_set(tmp_path: Path) -> None:
    samples = messages()
    for sample in samples[:4] + samples[600:604]:
        sample.message.header = header(0, "")
    found = evaluated(samples, tmp_path)
    assert found["metrics"]["run"]["duration_s"] == pytest.approx(SECONDS, abs=0.1)


def test_one_sensor_with_a_clock_of_its_own(tmp_path: Path) -> None:
    samples = restamped(messages(), lambda time_s, topic: time_s - (1e6 if "imu/link_2" in topic else 0.0))
    found = evaluated(samples, tmp_path)
    assert "imu/link_2: of 81 messages 81 stray stamps were left out." in found["notes"]


def test_stamps_that_were_never_set(tmp_path: Path) -> None:
    samples = restamped(messages(), lambda time_s, topic: -EPOCH_NS / SECOND if "imu/link_2" in topic else time_s)
    assert refused(samples, tmp_path).startswith(
        "all 81 messages on /salp/imu/link_2/data_raw have the same header.stamp, 0.000000000 s"
    )


def test_every_message_twice(tmp_path: Path) -> None:
    found = evaluated([sample for sample in messages() for _ in range(2)], tmp_path)
    assert "imu/link_1: of 162 messages 81 repeated stamps were left out." in found["notes"]
    assert one_note(found, "Ground truth of link_1").startswith("Ground truth of link_1: 481 of 962 messages left out")
    assert found["metrics"] == evaluated(messages(), tmp_path / "b")["metrics"]


def test_messages_in_a_slightly_wrong_order(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    late = [
        sample._replace(log_time_ns=sample.log_time_ns + int(rng.uniform(0.0, 0.15) * SECOND)) for sample in messages()
    ]
    found = evaluated(sorted(late, key=lambda sample: sample.log_time_ns), tmp_path)
    assert found["metrics"] == evaluated(messages(), tmp_path / "b")["metrics"]
    assert found["sensors"]["imu/link_1"]["late"] > 10


# Truth.


def test_truth_that_covers_a_part(tmp_path: Path, pictures: None) -> None:
    samples = [s for s in messages() if "ground_truth" not in s.topic or s.log_time_ns < EPOCH_NS + SECOND]
    found = evaluated(samples, tmp_path)
    assert found["metrics"]["run"]["matched_ratio"] == pytest.approx(20 / 81, abs=0.02)
    assert found["verdict"].endswith("(truth covers 25 % of the run)")
    assert "Truth matched by interpolation at 24.7 % of the estimates (gaps up to 0.1 s)." in found["notes"]


def test_truth_of_another_clock(tmp_path: Path, pictures: None) -> None:
    samples = restamped(messages(), lambda time_s, topic: time_s + (500.0 if "ground_truth" in topic else 0.0))
    found = evaluated(samples, tmp_path)
    assert found["verdict"] == "not judged: no estimate has a ground truth"
    assert "the truth of link_1, link_2, link_3 runs from 500.0 to 504.0 s" in " ".join(found["notes"])


def mirrored(recording: Recording, axes: str) -> Recording:
    return replace(recording, truth=tuple(replace(one, values=mirror(one.values, axes)) for one in recording.truth))


def test_a_left_handed_truth_of_the_chain(tmp_path: Path) -> None:
    """The filter starts from the mirrored truth and the path is straight, but the turns tell."""
    bag = write(tmp_path / "bag", messages_of(mirrored(salp_recording(SECONDS), "y")))
    said = refusal("evaluate", bag)
    found = re.search(
        r"left-handed: its turns miss the estimate by ([\d.]+) deg RMS as recorded and by ([\d.]+) deg mirrored; "
        r"evaluate with (--mirror-truth y),",
        said,
    )
    assert found is not None, said
    assert float(found[1]) > 5.0 * float(found[2])
    mended = judged(bag, *found[3].split())
    assert mended["metrics"] == evaluated(messages(), tmp_path / "b")["metrics"]
    assert "Ground truth mirrored in y." in mended["notes"]


def test_a_left_handed_truth_of_a_walk(tmp_path: Path) -> None:
    recording = walk()
    bag = write(tmp_path / "bag", messages_of(mirrored(recording, "y"), "/foot"))
    said = refusal("evaluate", bag)
    assert re.search(
        r"left-handed: its path misses .* m RMS as recorded and by .* m mirrored; .* --mirror-truth y,", said
    )
    mended = judged(bag, "--mirror-truth", "y")["metrics"]["position"]["position_ate_rmse_m"]
    right = judged(write(tmp_path / "right", messages_of(recording, "/foot")))["metrics"]["position"]
    assert mended == pytest.approx(right["position_ate_rmse_m"], rel=1e-6)
    # A truth with z down, as in NED, is right-handed and no less wrong.
    down = write(tmp_path / "down", messages_of(mirrored(recording, "yz"), "/foot"))
    assert "has its z axis down" in refusal("evaluate", down)
    assert judged(down, "--mirror-truth", "yz")["metrics"]["position"]["position_ate_rmse_m"] == pytest.approx(mended)


@pytest.mark.data
def test_a_recorded_walk_whose_truth_is_left_handed(tmp_path: Path, shared_data: Path) -> None:
    file = shared_data / "pyshoe_vicon" / "2017-11-22-11-27-30.mat"
    assert command("convert", "pyshoe", file, "--truth-as-recorded", "--output", tmp_path / "walk").code == 0
    said = refusal("evaluate", tmp_path / "walk")
    assert "left-handed: its path misses the estimate by" in said
    assert "--mirror-truth y," in said
    assert judged(tmp_path / "walk", "--mirror-truth", "y")["metrics"]["position"]["position_ate_rmse_m"] < 0.1


# Damage.


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_a_bag_that_was_cut_off_is_evaluated_as_far_as_it_goes(storage: str, tmp_path: Path) -> None:
    with BagWriter(tmp_path / "bag", storage) as writer:  # type: ignore[arg-type]
        for sample in salp_messages(8.0):
            writer.write(sample.topic, sample.message_type, sample.log_time_ns, sample.message)
    (file,) = (path for path in (tmp_path / "bag").iterdir() if path.suffix in (".mcap", ".db3"))
    file.write_bytes(file.read_bytes()[: int(0.7 * file.stat().st_size)])
    found = judged(tmp_path / "bag")
    duration = found["metrics"]["run"]["duration_s"]
    assert 2.0 < duration < 7.9
    assert any(re.search(r"readable are [\d,]+ of [\d,]+ \([\d.]+%\) messages", note) for note in found["notes"]), found
    assert found["metrics"]["run"]["matched_ratio"] > 0.9


def test_an_empty_bag(tmp_path: Path) -> None:
    with BagWriter(tmp_path / "bag") as writer:
        writer.add_topic("/salp/imu/link_1/data_raw", IMU)
    assert "no messages" in refusal("evaluate", tmp_path / "bag")


def test_topics_without_messages(tmp_path: Path) -> None:
    with BagWriter(tmp_path / "bag") as writer:
        for sample in without(messages(), "imu/link_2/data_raw"):
            writer.write(sample.topic, sample.message_type, sample.log_time_ns, sample.message)
        writer.add_topic("/salp/imu/link_2/data_raw", IMU)
    said = refusal("evaluate", tmp_path / "bag")
    assert "imu/link_2" in said
    assert "--drop imu/link_2" in said


def test_one_message_of_each(tmp_path: Path, pictures: None) -> None:
    seen: dict[str, Sample] = {}
    for sample in messages():
        seen.setdefault(sample.topic, sample)
    found = evaluated(list(seen.values()), tmp_path)
    assert found["metrics"]["run"]["estimates"] == 1


def test_a_robot_that_lies_on_its_back(tmp_path: Path, pictures: None) -> None:
    """Nonsense, but finite: judged, and not believed."""
    samples = [
        sample._replace(message=pose(sample.log_time_ns, [1e9, -1e9, 0.0], [1.0, 0.0, 0.0, 0.0]))
        if sample.message_type == POSE and sample.topic.endswith("link_2/pose")
        else sample._replace(message=imu(sample.log_time_ns, [1e8, -1e8, 1e8], [0.0, 0.0, -9.8]))
        if sample.topic.endswith("imu/link_1/data_raw")
        else sample
        for sample in messages()
    ]
    outcome = command("evaluate", write(tmp_path / "bag", samples), "--output", tmp_path / "run")
    assert outcome.code in (0, 2), outcome
    assert "Traceback" not in outcome.error


# Configuration and output.


def test_a_configuration_with_several_faults_lists_them_all(tmp_path: Path) -> None:
    text = command("config", "salp").out
    text = re.sub(r"(noise_stddev_rad_s:) \S+", r"\1 -1.0", text)
    text = re.sub(r"(gate_probability:) \S+", r"\1 1.5", text)
    text = re.sub(r"(axis:) \S+", r"\1 up", text)
    file = tmp_path / "salp.yaml"
    file.write_text(text.replace("recover_after", "recover_afterwards"))
    bag = write(tmp_path / "bag", messages())
    for words in (["evaluate", bag, "--config", file], ["config", "salp", "--config", file]):
        outcome = command(*words)
        assert outcome.code == 2
        assert outcome.out == ""
        title, *faults = outcome.error.splitlines()
        assert title == f"error: {file}: 4 faults"
        for name in ("gyro.noise_stddev_rad_s", "gate_probability", "gyro.axis", "recover_afterwards"):
            assert sum(name in fault for fault in faults) == 1, outcome.error


def test_another_robots_configuration(tmp_path: Path) -> None:
    file = tmp_path / "strapdown.yaml"
    assert command("config", "strapdown", "--output", file).code == 0
    outcome = command("evaluate", write(tmp_path / "bag", messages()), "--config", file)
    assert outcome.code == 2
    assert outcome.error.startswith(f"error: {file}: ")
    assert "Traceback" not in outcome.error


def test_a_run_is_not_written_over_anything(tmp_path: Path, pictures: None) -> None:
    bag = write(tmp_path / "bag", messages())
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    for name in ("file", "full"):
        assert refusal("evaluate", bag, "--output", tmp_path / name) == (
            f"{tmp_path / name} exists and is not empty; name another --output"
        )
    assert refusal("evaluate", bag, "--output", tmp_path / "file" / "run") == (
        f"cannot write the run to {tmp_path / 'file' / 'run'}: {tmp_path / 'file'} is no folder"
    )
    assert "cannot write the run to /proc/run" in refusal("evaluate", bag, "--output", "/proc/run")
    assert (tmp_path / "file").read_text() == (tmp_path / "full" / "mine").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    assert command("evaluate", bag, "--output", tmp_path / "empty").code == 0
    assert (tmp_path / "empty" / "report.html").is_file()
    assert {path.name for path in tmp_path.iterdir()} == {"bag", "file", "full", "empty"}  # no leftovers


def test_a_bag_is_not_written_over_anything(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    said = refusal("simulate", "salp", "--duration", "1", "--output", tmp_path / "full")
    assert said == f"{tmp_path / 'full'} exists already; name another path, or remove it"
    assert "cannot write a bag at" in refusal("simulate", "salp", "--duration", "1", "--output", "/proc/bag")
    file = tmp_path / "salp.yaml"
    file.write_text("mine")
    assert refusal("config", "salp", "--output", file) == f"{file} exists already; name another file"
    assert "cannot write" in refusal("config", "salp", "--output", tmp_path / "nowhere" / "salp.yaml")
    assert file.read_text() == "mine"


FOUR_LINKS = [
    word
    for name, value in {
        "link_names": "[a, b, c, d]",
        "link_lengths_m": "[0.1, 0.1, 0.1, 0.1]",
        "wheel_signs": "[1.0, 1.0, 1.0, 1.0]",
        "wheel_x_m": "[0.0, 0.0, 0.0, 0.0]",
        "wheel_y_m": "[0.0, 0.0, 0.0, 0.0]",
        "wheel_angles_deg": "[-57.0, -130.0, -57.0, -130.0]",
        "wheel_drag_xx": "[50.0, 50.0, 50.0, 50.0]",
        "wheel_drag_yy": "[50.0, 50.0, 50.0, 50.0]",
        "wheel_drag_tt": "[0.5, 0.5, 0.5, 0.5]",
        "joint_drag": "[0.01, 0.01, 0.01]",
        "joint_lower_deg": "[-90.0, -90.0, -90.0]",
        "joint_upper_deg": "[90.0, 90.0, 90.0]",
    }.items()
    for word in ("--set", f"chain.{name}={value}")
]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["salq"],
            "no robot 'salq'; installed are: hopper, pendulum, salp, softrobot, strapdown, thruster_chain, two_link",
        ),
        (["salp", "--scenario", "storm"], "salp has no scenario 'storm'; it has ideal, hardware"),
        (["salp", "--gait", "sideways"], "no variant 'sideways'; there are forward, backward"),
        (["salp", "--gait", ""], "no variant ''; there are forward, backward"),
        (["salp", "--duration", "-1"], "--duration -1: must be above 0 s"),
        (["salp", "--duration", "nan"], "--duration nan: must be above 0 s"),
        (["salp", "--duration", "long"], "--duration"),
        (["salp", "--seed", "-1"], "--seed"),
        (["salp", "--storage", "csv"], "--storage csv: must be mcap or sqlite3"),
        (["salp", "--set", "chain.link_names=[a,b]"], "chain: wheel_x_m: 3 values given, 2 links need 2"),
    ],
)
def test_what_cannot_be_simulated(words: list[str], said: str, tmp_path: Path) -> None:
    outcome = command("simulate", *words, "--output", tmp_path / "bag")
    assert outcome.code == 2
    assert outcome.error.startswith("error: ")
    assert said in outcome.error
    assert not (tmp_path / "bag").exists()


def test_what_cannot_be_compared_inspected_or_converted(tmp_path: Path) -> None:
    (tmp_path / "walk.mat").write_text("not a MATLAB file")
    assert "compare needs two or more run folders, got 1" in refusal("compare", tmp_path)
    assert "has no metrics.json" in refusal("compare", tmp_path, tmp_path)
    assert str(tmp_path / "nowhere") in refusal("inspect", tmp_path / "nowhere")
    formats = refusal("convert", "csv", tmp_path, "--output", tmp_path / "bag")
    assert "no format 'csv'; installed are: actuated-pendulum, hebi_log, pyshoe" in formats
    assert "walk.mat" in refusal("convert", "pyshoe", tmp_path / "walk.mat", "--output", tmp_path / "bag")
    assert "no robot 'salq'" in refusal("config", "salq")
    assert "no robot 'salq'" in refusal("robots", "salq")
    assert "no robot 'salq'" in refusal("demo", "salq", "--output", tmp_path / "demo")
