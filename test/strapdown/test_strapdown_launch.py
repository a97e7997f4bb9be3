"""What the strapdown robot does for its host: kernels that are compiled, one bag through its node as offline."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from evaluation_samples import command
from launched import Launch, nothing_is_left, recorded
from live_graph import LONGEST_WAIT_S

from onboard_estimation.bags.bag import open_bag
from onboard_estimation.judging.options import EvaluateOptions
from onboard_estimation.report.evaluate import evaluate_bag

COUNT_COMPILED = """
import sys
import numpy as np
from numba.core.dispatcher import Dispatcher
from onboard_estimation.base.measurement import Measurement
from onboard_estimation.pipeline.pipeline import Pipeline
from strapdown_estimation.model.configuration import Strapdown
from strapdown_estimation.robot import ROBOT

def compiled():
    modules = [module for name, module in sys.modules.items() if name.split(".")[0].endswith("_estimation")]
    kernels = {kernel for module in modules for kernel in vars(module).values() if isinstance(kernel, Dispatcher)}
    return {(kernel.__name__, signature) for kernel in kernels for signature in kernel.signatures}

recording = ROBOT.simulate(Strapdown(), "walk", "normal", 8.0, np.random.default_rng(1)).sensors[0]
ROBOT.exercise(Strapdown(), "eskf")
before = compiled()
given = [Measurement(int(s), "imu/foot", one) for s, one in zip(recording.stamps_ns, recording.values)]
assert Pipeline(ROBOT.estimator(Strapdown(), "eskf")).run(given)
print(len(before) > 8, sorted(name for name, _ in compiled() - before))
"""


def test_nothing_is_left_to_compile_when_the_first_reading_comes() -> None:
    """In a process of its own: here other tests have compiled what they need."""
    found = subprocess.run(
        [sys.executable, "-c", COUNT_COMPILED], capture_output=True, text=True, timeout=600, check=False
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout == "True []\n"


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("ros_domain")
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
