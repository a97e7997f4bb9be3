"""Recordings as they should not be: one line that helps, or a judged run that says what was lost. Never a traceback."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bag_samples import IMU, POINT, PRESSURE, header, point, pressure
from evaluation_samples import (
    LINKS,
    Sample,
    command,
    messages_of,
    refusal,
    salp_messages,
    spoilt,
    write,
)

from onboard_estimation.bags.writing import BagWriter
from onboard_estimation.base.atomic_file import to_json
from onboard_estimation.base.series import Recording
from onboard_estimation.judging.options import EvaluateOptions
from onboard_estimation.judging.simulated_bags import EPOCH_NS
from onboard_estimation.report.evaluate import evaluate_bag
from strapdown_estimation.simulation import simulator as walking

pytestmark = pytest.mark.usefixtures("without_pictures")
SECONDS = 4.0
SECOND = 1_000_000_000
IMU_2 = "/salp/imu/link_2/data_raw"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bag as it should be; not to be changed."""
    return write(tmp_path_factory.mktemp("whole") / "bag", messages())


@pytest.fixture(scope="module")
def metrics(whole: Path) -> dict[str, Any]:
    """Its figures."""
    found: dict[str, Any] = json.loads(to_json(evaluate_bag(whole, EvaluateOptions(), keep=None).result.metrics))
    return found


def messages(namespace: str = "/salp") -> list[Sample]:
    return salp_messages(SECONDS, namespace)


def renamed(names: dict[str, str]) -> list[Sample]:
    return [sample._replace(topic=names.get(sample.topic, sample.topic)) for sample in messages()]


def judged(bag: Path, *options: str) -> dict[str, Any]:
    """What `evaluate --json` prints on a bag that it goes on with."""
    run = bag.with_name(f"run of {bag.name}")
    outcome = command("evaluate", bag, "--output", run, "--json", *options)
    assert outcome.code == 0, outcome.error
    assert outcome.error == ""
    shutil.rmtree(run)
    found: dict[str, Any] = json.loads(outcome.out)
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


# Topics.


def test_a_missing_topic_lists_those_there_and_can_be_done_without(whole: Path, tmp_path: Path) -> None:
    bag = tmp_path / "bag"
    with BagWriter(bag) as writer:
        for sample in messages():
            if sample.topic == IMU_2:
                writer.add_topic(IMU_2, IMU)  # which is there, but holds nothing
            else:
                writer.write(sample.topic, sample.message_type, sample.log_time_ns, sample.message)
    assert "--drop imu/link_2" in refusal("evaluate", bag)
    bag = write(tmp_path / "another", [sample for sample in messages() if sample.topic != IMU_2])
    said = refusal("evaluate", bag)
    assert said.startswith(f"salp: {IMU_2} (sensor_msgs/msg/Imu) is missing; no other topic has that type")
    assert "(--drop imu/link_2)" in said
    listed = said.partition("Topics in the bag: ")[2].split(", ")
    assert set(listed) == {sample.topic for sample in messages()} - {IMU_2}
    found = judged(bag, "--drop", "imu/link_2")
    assert "What if: left out imu/link_2." in found["notes"]
    assert "imu/link_2" not in found["sensors"]
    assert found["metrics"]["joint_angles"]["rmse_deg"] < 5.0
    assert "--drop imu/link_2" in found["command"]
    # Dropping what is there gives the same.
    assert judged(whole, "--drop", "imu/link_2")["metrics"] == found["metrics"]


def test_the_advice_on_topics_under_other_names_works_and_the_line_that_repeats_the_run_too(
    metrics: dict[str, Any], tmp_path: Path
) -> None:
    bag = write(tmp_path / "bag", renamed({f"/salp/imu/{link}/data_raw": f"/傾き/größe {link}" for link in LINKS}))
    options = re.search(r"\((--topic .*)\)", refusal("evaluate", bag).replace(" or --drop", ") or --drop"))
    assert options is not None
    words = re.findall(r"--topic ('[^']*'|\S+)", options[1])
    assert [shlex.split(word)[0] for word in words] == [f"imu/{link}/data_raw=/傾き/größe {link}" for link in LINKS]
    found = judged(bag, *shlex.split(" ".join(f"--topic {word}" for word in words)))
    assert found["metrics"] == metrics
    again = shlex.split(found["command"])
    assert again[:2] == ["onboard-estimation", "evaluate"]
    assert command(*again[1:], "--output", tmp_path / "again").code == 0
    assert json.loads((tmp_path / "again" / "metrics.json").read_text()) == metrics


@pytest.mark.parametrize("namespace", ["/lab/robot1", None])
def test_other_namespaces_are_found(namespace: str | None, metrics: dict[str, Any], tmp_path: Path) -> None:
    samples = messages(namespace or "")
    if namespace is None:  # not even a slash
        samples = [sample._replace(topic=sample.topic.removeprefix("/")) for sample in samples]
    assert evaluated(samples, tmp_path)["metrics"] == metrics


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--topic imu/link_2/data_raw=/nowhere", "=/nowhere: the bag has no /nowhere; it has /salp/actuators/command,"),
        ("--topic imu/link_9/data_raw=/salp/imu/link_1/data_raw --robot salp", "salp has no such topic; it"),
        ("--topic imu/link_9/data_raw=/salp/imu/link_1/data_raw", "has such a topic; the nearest are imu/link_"),
        ("--namespace /robot1", "--namespace /robot1: no topic of salp is there, there are some in /salp"),
        ("--robot strapdown", "strapdown: /imu/foot/data_raw (sensor_msgs/msg/Imu) is missing"),
        ("--estimator ekf", "salp has no estimator 'ekf'; it has ukf"),
        ("--lag 20", "a lag of 20 s is not allowed"),
        ("--config /nowhere/salp.yaml", "/nowhere/salp.yaml"),
    ],
)
def test_options_that_do_not_fit(options: str, words: str, whole: Path, tmp_path: Path) -> None:
    said = refusal("evaluate", whole, "--output", tmp_path / "run", *options.split())
    assert words in said
    assert not (tmp_path / "run").exists()


# Robots.


def test_two_robots_of_a_kind_are_told_apart(tmp_path: Path) -> None:
    both = {"/robot1": messages("/robot1"), "/robot2": salp_messages(SECONDS, "/robot2", seed=2)}
    bag = write(tmp_path / "both", sorted(both["/robot1"] + both["/robot2"], key=lambda sample: sample.log_time_ns))
    said = refusal("evaluate", bag)
    assert said == f"{bag} holds several robots of the kind salp; choose: --namespace /robot1 or --namespace /robot2"
    found = judged(bag, "--namespace", "robot2")
    assert found["metrics"] == evaluated(both["/robot2"], tmp_path)["metrics"]
    assert "--namespace robot2" in found["command"]


def walk(duration_s: float = 12.0) -> Recording:
    return walking.simulate(walking.GAITS["normal"], duration_s, np.random.default_rng(3))


def test_another_robot_in_the_bag_is_mentioned(tmp_path: Path) -> None:
    both = sorted(messages() + messages_of(walk(8.0), "/foot"), key=lambda sample: sample.log_time_ns)
    bag = write(tmp_path / "bag", both)
    found = judged(bag)
    assert found["robot"] == "salp"
    assert "The bag also holds another robot's topics: --robot strapdown." in found["notes"]


def test_a_bag_of_no_known_robot_lists_what_is_there(tmp_path: Path) -> None:
    samples = [Sample("/tank/pressure", PRESSURE, EPOCH_NS + i, pressure(EPOCH_NS + i, 1.0)) for i in range(5)]
    said = refused(samples, tmp_path)
    assert said.startswith(
        "no installed robot (hopper, pendulum, salp, softrobot, strapdown, thruster_chain, two_link)"
    )
    assert said.endswith("knows a topic of this bag: /tank/pressure (sensor_msgs/msg/FluidPressure)")


def test_a_foreign_bag_is_offered_the_whole_line_to_try_for_each_robot_whose_types_fit(
    whole: Path, tmp_path: Path
) -> None:
    """A walk as another laboratory names it: an IMU, and a marker's pose."""
    samples = messages_of(walk(), "")
    names = {sample.topic: "/vicon/heel" if "ground_truth" in sample.topic else "/imu/data" for sample in samples}
    bag = write(tmp_path / "bag", [sample._replace(topic=names[sample.topic]) for sample in samples])
    said = refusal("evaluate", bag)
    lines = re.findall(r"--robot \S+(?: --topic \S+=\S+?)+(?=,|$)", said)
    assert [shlex.split(line)[1] for line in lines] == ["hopper", "strapdown"], said  # salp wants three IMUs
    assert "--topic imu/foot/data_raw=/imu/data" in lines[1]
    found = judged(bag, *shlex.split(lines[1]))
    assert found["robot"] == "strapdown"
    assert found["metrics"]["run"]["matched_ratio"] > 0.9
    # The same from `inspect`, to be pasted; where names tell, nothing is offered.
    assert f" evaluate {bag} {lines[1]}" in command("inspect", bag).out
    assert json.loads(command("inspect", bag, "--json").out)["suggested_options"] == lines
    assert json.loads(command("inspect", whole, "--json").out)["suggested_options"] == []


# Types.


def test_a_wrong_type_is_named_with_the_right_one_and_can_be_done_without(tmp_path: Path) -> None:
    samples = [
        sample._replace(message_type=PRESSURE, message=pressure(sample.log_time_ns, 1.0))
        if sample.topic.endswith(("imu/link_1/data_raw", "imu/link_3/data_raw"))
        else sample._replace(message_type=POINT, message=point(sample.log_time_ns, [0.0, 0.0, 0.0]))
        if sample.topic.endswith("ground_truth/link_1/pose")
        else sample
        for sample in messages()
    ]
    bag = write(tmp_path / "bag", samples)
    kinds = "is sensor_msgs/msg/FluidPressure, not sensor_msgs/msg/Imu"
    assert refusal("evaluate", bag) == (
        f"salp: /salp/imu/link_1/data_raw {kinds} (--drop imu/link_1); "
        f"/salp/imu/link_3/data_raw {kinds} (--drop imu/link_3); /salp/ground_truth/link_1/pose is "
        "geometry_msgs/msg/PointStamped, not geometry_msgs/msg/PoseStamped "
        "(--topic ground_truth/link_1/position=/salp/ground_truth/link_1/pose or --drop ground_truth/link_1)"
    )
    found = judged(bag, *["--drop", "imu/link_1", "--drop", "imu/link_3", "--drop", "ground_truth/link_1"])
    assert "What if: left out imu/link_1, imu/link_3, ground_truth/link_1." in found["notes"]
    assert found["metrics"]["run"]["matched_ratio"] == 0.0


def test_a_truth_under_another_name_is_offered_and_can_be_pasted(metrics: dict[str, Any], tmp_path: Path) -> None:
    bag = write(tmp_path / "bag", renamed({f"/salp/ground_truth/{link}/pose": f"/vrpn/{link}" for link in LINKS}))
    note = one_note(judged(bag), "No ground truth of link_1, link_2, link_3 in the bag")
    assert judged(bag, *shlex.split(note.partition("(")[2].partition("?")[0]))["metrics"] == metrics


# Numbers.


def not_finite(number: int, message: Any) -> None:
    message.angular_velocity.z = float("nan") if number % 20 == 3 else float("-inf")


def without_rates(number: int, message: Any) -> None:
    message.angular_velocity_covariance = np.array([-1.0, *np.zeros(8)])


def without_a_joint(number: int, message: Any) -> None:
    message.name, message.velocity = message.name[:2], message.velocity[:2].copy()


def at_times(change: Callable[[int, Any], None]) -> Callable[[int, Any], None]:
    return lambda number, message: change(number, message) if number % 10 == 3 else None


def test_what_is_spoilt_at_times_is_left_out_counted_and_said(tmp_path: Path) -> None:
    def no_pose(number: int, message: Any) -> None:
        if number % 100 == 7:
            message.pose.position.y = float("inf")
        if number % 100 == 8:
            message.pose.orientation = type(message.pose.orientation)(0.0, 0.0, 0.0, 0.0)

    samples = spoilt(messages(), "imu/link_1/data_raw", at_times(not_finite))
    spoilt(samples, "imu/link_3/data_raw", at_times(without_rates))
    spoilt(samples, "actuators/command", at_times(without_a_joint))
    found = evaluated(spoilt(samples, "ground_truth/link_2/pose", no_pose), tmp_path)
    assert "imu/link_1: of 81 messages 8 not finite were left out." in found["notes"]
    assert found["sensors"]["imu/link_1"]["invalid"] == 8
    assert "imu/link_3: of 81 messages 8 without a part that is needed were left out." in found["notes"]
    assert found["sensors"]["imu/link_3"]["incomplete"] == 8
    assert one_note(found, "imu/link_3 has no angular velocity (element 0 of its covariance is -1,")
    assert one_note(found, "/salp/actuators/command: 8 messages left out: lacks 'link_3'")
    assert one_note(found, "Ground truth of link_2: 10 of 481 messages left out (not")
    assert found["metrics"]["joint_angles"]["rmse_deg"] < 5.0
    assert found["metrics"]["run"]["matched_ratio"] == 1.0


@pytest.mark.parametrize(
    ("topic", "change", "said"),
    [
        ("imu/link_3/data_raw", without_rates, "81 without angular velocity (element 0 of its covariance is -1, or"),
        ("actuators/command", without_a_joint, "81 lacks 'link_3'"),
    ],
)
def test_a_topic_that_is_spoilt_always_is_refused(
    topic: str, change: Callable[[int, Any], None], said: str, tmp_path: Path
) -> None:
    words = refused(spoilt(messages(), topic, change), tmp_path)
    assert words.startswith(f"none of the 81 messages on /salp/{topic} can be used: {said}")


# Times.


def restamped(new: Callable[[float, str], float]) -> list[Sample]:
    """Stamps by `new(seconds since the start, topic)`; the recorder's clock goes on as it did."""
    samples = messages()
    for sample in samples:
        stamp = round(new((sample.log_time_ns - EPOCH_NS) / SECOND, sample.topic) * SECOND) + EPOCH_NS
        sample.message.header = header(stamp, sample.message.header.frame_id)
    return samples


def test_what_comes_after_a_jump_of_the_clock_is_left_out(tmp_path: Path) -> None:
    found = evaluated(restamped(lambda time_s, _: time_s - (2.0 if time_s >= 3.0 else 0.0)), tmp_path)
    (said,) = (note for note in found["notes"] if "stamps that lie 2.00 s back from 3.00 to 4.00 s" in note)
    assert "messages left out; so it is with " in said
    assert found["metrics"]["run"]["duration_s"] == pytest.approx(3.0, abs=0.1)
    assert found["metrics"]["joint_angles"]["rmse_deg"] < 5.0
    assert found["metrics"]["run"]["matched_ratio"] == 1.0


def test_one_sensor_with_a_clock_of_its_own_or_without_any(tmp_path: Path) -> None:
    found = evaluated(restamped(lambda time_s, topic: time_s - (1e6 if topic == IMU_2 else 0.0)), tmp_path)
    assert "imu/link_2: of 81 messages 81 stray stamps were left out." in found["notes"]
    never = restamped(lambda time_s, topic: -EPOCH_NS / SECOND if topic == IMU_2 else time_s)
    assert refused(never, tmp_path / "b").startswith(f"all 81 messages on {IMU_2} have the same header.stamp, 0.000")


def test_messages_that_come_twice_and_in_a_slightly_wrong_order(metrics: dict[str, Any], tmp_path: Path) -> None:
    found = evaluated([sample for sample in messages() for _ in range(2)], tmp_path)
    assert "imu/link_1: of 162 messages 81 repeated stamps were left out." in found["notes"]
    assert one_note(found, "Ground truth of link_1: 481 of 962 messages left out")
    assert found["metrics"] == metrics
    rng = np.random.default_rng(4)
    late = [
        sample._replace(log_time_ns=sample.log_time_ns + int(rng.uniform(0.0, 0.15) * SECOND)) for sample in messages()
    ]
    found = evaluated(sorted(late, key=lambda sample: sample.log_time_ns), tmp_path / "late")
    assert found["metrics"] == metrics
    assert found["sensors"]["imu/link_1"]["late"] > 10


# Truth.


# Damage.


def test_a_bag_that_was_cut_off_is_evaluated_as_far_as_it_goes(tmp_path: Path) -> None:
    bag = write(tmp_path / "bag", salp_messages(8.0), storage="sqlite3")
    file = bag / "bag.db3"
    file.write_bytes(file.read_bytes()[: int(0.7 * file.stat().st_size)])
    found = judged(bag)
    assert 2.0 < found["metrics"]["run"]["duration_s"] < 7.9
    assert any(re.search(r"readable are [\d,]+ of [\d,]+ \([\d.]+%\) messages", note) for note in found["notes"]), found
    assert found["metrics"]["run"]["matched_ratio"] > 0.9


def test_one_message_of_each(tmp_path: Path) -> None:
    seen = {sample.topic: sample for sample in reversed(messages())}
    assert evaluated(list(seen.values()), tmp_path)["metrics"]["run"]["estimates"] == 1


# Configuration and output.


def test_nothing_is_written_over_anything(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    for words, said in {
        ("evaluate", whole, "--output", tmp_path / "file"): " exists and is no folder; name another --output",
        ("evaluate", whole, "--output", tmp_path / "full"): " exists already and is not empty; name another --output",
        ("evaluate", whole, "--output", tmp_path / "file" / "run"): f"{tmp_path / 'file'} is no folder",
        ("config", "salp", "--output", tmp_path / "file"): " exists already; name another --output",
        ("config", "salp", "--output", tmp_path / "full"): " is a folder; name a file in it",
        ("observability", whole, "--output", tmp_path / "a.pdf"): "the name must end in .png",
    }.items():
        refusing = refusal(*words)
        assert said in refusing
        assert str(words[-1]) in refusing
    assert (tmp_path / "file").read_text() == (tmp_path / "full" / "mine").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    assert command("evaluate", whole, "--output", tmp_path / "empty").code == 0
    assert (tmp_path / "empty" / "metrics.json").is_file()
    assert {path.name for path in tmp_path.iterdir()} == {"file", "full", "empty"}  # no leftovers
    monkeypatch.chdir("/proc")
    assert refusal("evaluate", whole).startswith("cannot write runs/")


def test_what_cannot_be_simulated_compared_inspected_or_converted(tmp_path: Path) -> None:
    (tmp_path / "walk.mat").write_text("not a MATLAB file")
    bag = tmp_path / "bag"
    for words, said in {
        "simulate salq": "no robot 'salq'; installed are: hopper, pendulum, salp, softrobot, strapdown, thruster_chain",
        "simulate salp --scenario storm": "salp has no scenario 'storm'; it has ideal, hardware",
        "simulate salp --storage csv": "--storage csv: must be mcap or sqlite3",
        f"convert csv {tmp_path}": "no format 'csv'; installed are: actuated-pendulum, hebi_log, pyshoe",
        f"convert pyshoe {tmp_path / 'walk.mat'}": "walk.mat",
    }.items():
        outcome = command(*words.split(), "--output", bag)
        assert outcome.code == 2
        assert said in outcome.error
        assert not bag.exists()
    assert str(tmp_path / "nowhere") in refusal("inspect", tmp_path / "nowhere")
    assert "nan: must be a number" in refusal("observability", "thruster_chain", "--design", "nan")
    assert "name a robot in the place of bags" in refusal("observability", "thruster_chain", bag, "--design", "1")
