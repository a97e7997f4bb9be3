"""The strapdown robot's launch files: one bag through its node gives what the pipeline gives."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from evaluation_samples import command
from launched import LAUNCH, Launch, nothing_is_left, recorded
from live_graph import LONGEST_WAIT_S

from onboard_estimation.bags.bag import open_bag
from onboard_estimation.judging.options import EvaluateOptions
from onboard_estimation.report.evaluate import evaluate_bag

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.usefixtures("ros_domain"),
    pytest.mark.live,
]


def test_a_robot_without_a_live_simulator_offers_none() -> None:
    words = [*LAUNCH, "strapdown.launch.py", "--show-args"]
    shown = subprocess.run(words, capture_output=True, text=True, timeout=LONGEST_WAIT_S, check=True).stdout
    assert "['hardware', 'bag']" in shown
    assert "scenario" not in shown
    assert "config/strapdown.yaml" in shown


@pytest.mark.slow
def test_a_bag_is_replayed(tmp_path: Path) -> None:
    bag, replayed = tmp_path / "bag", tmp_path / "replayed"
    assert command("simulate", "strapdown", "--duration", "6", "--output", bag).code == 0
    words = (f"bag:={bag}", "rate:=0", f"record:={replayed}", "markers:=false")
    replay = Launch("strapdown_replay.launch.py", *words, log=tmp_path / "log")
    try:
        assert replay.process.wait(2 * LONGEST_WAIT_S) == 0, replay.output
    finally:
        replay.kill()
    nothing_is_left()
    judged = evaluate_bag(bag, EvaluateOptions(), write=False).result
    with open_bag(replayed) as opened:
        assert opened.damage is None
    assert recorded(replayed, "/strapdown/state") == len(judged.stamps_ns) > 500
