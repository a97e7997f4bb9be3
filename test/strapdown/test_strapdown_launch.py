"""What the strapdown robot does for its host: kernels that are compiled, one bag through its node as offline."""

from __future__ import annotations

import subprocess
import sys

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
