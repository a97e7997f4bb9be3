"""Bags with bytes behind the ends of messages, as `serialize_message` leaves them under Fast DDS, and dead ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from evaluation_samples import command

from onboard_estimation.bags.bag import open_bag
from onboard_estimation.bags.writing import BagWriter
from onboard_estimation.contract.robot import find_robot
from onboard_estimation.inspection.inspect import inspect_bag
from onboard_estimation.judging.options import EvaluateOptions
from onboard_estimation.judging.simulated_bags import simulate_to_bag
from onboard_estimation.report import run_folder
from onboard_estimation.report.evaluate import evaluate_bag, evaluate_trajectory

DEAD = "does not decode as sensor_msgs/msg/JointState"


def recorded(name: str, path: Path, duration_s: float = 3.0) -> Path:
    robot: Any = find_robot(name)
    scenario, described = next(iter(robot.scenarios.items()))
    variant = next(iter(described.variants), "")
    simulate_to_bag(robot, robot.configuration_type(), scenario, variant, duration_s, 1, path)
    return path


def rewritten(bag: Path, path: Path, change: Callable[[str, int, bytes], bytes]) -> Path:
    """The bag with other bytes: `change` is given topic, number of the message on it, and its bytes."""
    counts: dict[str, int] = {}
    with open_bag(bag) as old, BagWriter(path, custom_data=old.custom_data) as new:
        for raw in old.messages():
            counts[raw.topic] = counts.get(raw.topic, -1) + 1
            data = change(raw.topic, counts[raw.topic], raw.data)
            new.write_serialized(raw.topic, old.topics[raw.topic].message_type, raw.log_time_ns, data)
    return path


def tail(topic: str, number: int, data: bytes) -> bytes:
    """Every third message has none, the others four or eight bytes that mean nothing."""
    return data + b"\x7f\xf0\x01\xff" * (number % 3)


def test_tails_change_no_figure_and_are_said(tmp_path: Path) -> None:
    plain = recorded("hopper", tmp_path / "plain")
    tailed = rewritten(plain, tmp_path / "tailed", tail)
    before, after = (evaluate_bag(bag, EvaluateOptions(robot="hopper"), write=False).result for bag in (plain, tailed))
    assert json.dumps(before.metrics) == json.dumps(after.metrics)
    with open_bag(plain) as bag:
        counts = {topic: found.count - (found.count + 2) // 3 for topic, found in bag.topics.items()}
    said = [f"{topic}: {count} messages carry up to 8 bytes behind their end" for topic, count in counts.items()]
    new = [note for note in after.notes if note not in before.notes]
    assert sorted(note.partition(", as rmw_fastrtps")[0] for note in new) == sorted(said)
    found = inspect_bag(tailed)
    (finding,) = [one for one in found.findings if "bytes behind their end" in one.text]
    assert finding.severity == "note"
    assert {topic.name: (topic.undecodable, topic.tailed) for topic in found.topics} == {
        topic: (0, count) for topic, count in counts.items()
    }


def test_dead_messages_are_said_also_where_the_estimator_does_not_listen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_folder, "write_plots", lambda *_: None)

    def kill(topic: str, number: int, data: bytes) -> bytes:
        return data[:-9] if topic == "/hopper/leg/state" or (topic == "/hopper/motors/command" and number % 2) else data

    bag = rewritten(recorded("hopper", tmp_path / "plain"), tmp_path / "dead", kill)
    with open_bag(bag) as opened:
        legs, motors = (opened.topics[f"/hopper/{one}"].count for one in ("leg/state", "motors/command"))
    run = tmp_path / "run"
    outcome = command("evaluate", bag, "--robot", "hopper", "--estimator", "bounce", "--output", run)
    assert outcome.code == 0, outcome
    told = json.loads((run / "run.json").read_text(encoding="utf-8"))
    report = (run / "report.html").read_text(encoding="utf-8")
    terminal = " ".join(outcome.out.split())
    for topic, count in (("leg/state", legs), ("motors/command", motors // 2)):
        sentence = f"/hopper/{topic}: {count} messages left out: {DEAD}."
        assert sentence in told["notes"]
        assert sentence in terminal
        assert sentence in report


def test_dead_truth_is_said_where_a_trajectory_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which reads no sensor of the robot's."""
    monkeypatch.setattr(run_folder, "write_plots", lambda *_: None)
    monkeypatch.setattr(run_folder, "write_report", lambda *_: None)
    topic = "/strapdown/ground_truth/foot/pose"

    def kill(name: str, number: int, data: bytes) -> bytes:
        return data[:30] if name == topic and number % 2 else data

    plain = recorded("strapdown", tmp_path / "plain")
    bag = rewritten(plain, tmp_path / "dead", kill)
    with open_bag(bag) as opened:
        count = opened.topics[topic].count
    for robot in ("strapdown", None):
        options = EvaluateOptions(robot=robot, trajectory=topic, truth=bag)
        notes = evaluate_trajectory(plain, options, tmp_path / f"run_{robot}").result.notes
        assert f"{topic}: {count // 2} messages left out: does not decode as geometry_msgs/msg/PoseStamped." in notes
