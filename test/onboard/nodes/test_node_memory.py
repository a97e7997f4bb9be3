"""What a live node holds: nothing that is for evaluation, training, plots or the command line, and not much memory."""

from __future__ import annotations

import subprocess
import sys

import pytest
from node_memory import NEVER, Started, started

from onboard_estimation.nodes.run import unchanged_ranges

TARGETS = {
    "hopper": "hopper_estimation.nodes:HopperEstimatorNode",
    "salp": "salp_estimation.nodes:SalpPoseShapeNode",
    "strapdown": "strapdown_estimation.nodes:StrapdownEstimatorNode",
}
OFFLINE = {
    "hopper": tuple(f"hopper_estimation.{one}" for one in ("training", "judging.report", "judging.hop_metrics")),
    "salp": (
        "onboard_estimation.learning",
        "salp_estimation.simulation.hardware_simulator",
        "salp_estimation.training",
    ),
    "strapdown": (),
}
WITHOUT_SCIPY = ("hopper", "salp")
"""Strapdown takes scipy's rotations and, in its kernels, its linear algebra."""
LARGEST_MB = 120.0
"""They take 85 to 110."""


@pytest.fixture(scope="module", params=sorted(TARGETS))
def node(request: pytest.FixtureRequest, compiled_kernels: None) -> tuple[str, Started]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "OFF")
        return request.param, started(request.param, TARGETS[request.param])


@pytest.mark.slow
def test_nothing_for_offline_use_is_loaded(node: tuple[str, Started]) -> None:
    robot, found = node
    assert found.loaded(*NEVER, *OFFLINE[robot]) == []
    others = {f"{other}_estimation" for other in ("salp", "hopper", "strapdown", "softrobot") if other != robot}
    assert found.loaded(*others, "recorded_robots") == []


def test_scipy_is_loaded_only_where_it_is_used(node: tuple[str, Started]) -> None:
    robot, found = node
    assert robot not in WITHOUT_SCIPY or found.scipy() == []


def test_what_compiles_is_not_loaded_where_all_kernels_are_on_disk(node: tuple[str, Started]) -> None:
    assert node[1].loaded("numba.cpython.setobj", "numba.misc.cffiimpl", "numba.typed.dictimpl") == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="measured there only")
def test_memory(node: tuple[str, Started]) -> None:
    assert node[1].resident_mb < LARGEST_MB


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
7f40-7f50 r-xp 00000000 fe:00 9                          /some where/libother.so
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
    assert list(unchanged_ranges(SMAPS.splitlines())) == [(0x7F00, 0x10), (0x7F40, 0x10), (0x7F60, 0x20)]


def test_where_the_system_does_not_tell_whether_it_changed_it_stays() -> None:
    text = SMAPS.replace("Anonymous:             0 kB\n", "")
    assert list(unchanged_ranges(text.splitlines())) == []


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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=100)
    assert (done.returncode, done.stdout) == (0, "3.0 4.0 3.0\n"), done.stderr
