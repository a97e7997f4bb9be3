"""What a live node holds: nothing that is for evaluation, training, plots or the command line, and not much memory."""

from __future__ import annotations

import subprocess
import sys

import pytest
from node_memory import NEVER, started

from onboard_estimation.nodes.run import unchanged_ranges

OFFLINE = {
    "hopper": tuple(f"hopper_estimation.{one}" for one in ("training", "judging.report", "judging.hop_metrics")),
    "salp": (
        "onboard_estimation.learning",
        "salp_estimation.simulation.hardware_simulator",
        "salp_estimation.training",
    ),
    "softrobot": tuple(
        f"softrobot_estimation.{one}"
        for one in ("training", "simulator", "ground_truth", "identified", "stiffness_report")
    ),
}
TARGETS = {
    "hopper": "hopper_estimation.nodes:HopperEstimatorNode",
    "salp": "salp_estimation.nodes:SalpPoseShapeNode",
    "softrobot": "softrobot_estimation.nodes:SoftRobotNode",
}
COMPILES = ("numba.cpython.setobj", "numba.misc.cffiimpl", "numba.typed.dictimpl")
LARGEST_MB = {"softrobot": 180.0}
"""The others take 85 to 110."""


@pytest.mark.slow
@pytest.mark.usefixtures("compiled_kernels")
@pytest.mark.parametrize("robot", TARGETS)
def test_a_node_loads_nothing_for_offline_use_nor_what_compiles_and_is_small(
    robot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "OFF")
    found = started(robot, TARGETS[robot])
    others = {f"{other}_estimation" for other in ("salp", "hopper", "strapdown", "softrobot") if other != robot}
    assert found.loaded(*NEVER, *OFFLINE[robot], *others, "recorded_robots", *COMPILES) == []
    assert set(found.scipy()) <= ({"special"} if robot == "softrobot" else set())  # its gate's threshold
    if sys.platform.startswith("linux"):  # measured there only
        assert found.resident_mb < LARGEST_MB.get(robot, 120.0)


SMAPS = """\
7f00-7f10 r--p 00000000 fe:00 7                          /some where/libllvmlite.so
Rss:                  64 kB
Private_Dirty:         0 kB
Shared_Dirty:          0 kB
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd mr mw me sd
7f10-7f30 r-xp 00000010 fe:00 7                          /some where/libllvmlite.so
Private_Dirty:         0 kB
Shared_Dirty:          0 kB
Anonymous:             4 kB
Swap:                  0 kB
7f30-7f40 rw-p 00000030 fe:00 7                          /some where/libllvmlite.so
Private_Dirty:         0 kB
Shared_Dirty:          0 kB
Anonymous:             0 kB
Swap:                  0 kB
7f50-7f51 rw-p 00000000 00:00 0 
7f60-7f80 r-xp 00000040 fe:00 7                          /some where/libllvmlite.so
Private_Dirty:         0 kB
Shared_Dirty:          0 kB
Anonymous:             0 kB
Swap:                  0 kB
"""  # noqa: W291 as Linux writes it


def test_only_what_is_read_only_and_as_in_the_file_is_given_back() -> None:
    assert list(unchanged_ranges(SMAPS.splitlines())) == [(0x7F00, 0x10), (0x7F60, 0x20)]
    # Where the system does not tell whether it changed, it stays.
    assert list(unchanged_ranges(SMAPS.replace("Anonymous:             0 kB\n", "").splitlines())) == []


@pytest.mark.slow
def test_kernels_compile_and_run_after_the_compiler_was_given_back() -> None:
    code = (
        "import numpy as np\n"
        "from numba import njit\n"
        "from onboard_estimation.nodes.run import release_libraries\n"
        "total = njit(lambda values: values.sum())\n"
        "a = total(np.ones(3))\n"
        "release_libraries()\n"
        "print(a, total(np.ones(4, dtype=np.float32)), total(np.ones(3)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "3.0 4.0 3.0\n"), done.stderr
