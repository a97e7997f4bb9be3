"""Starts the roles of the live benchmarks, and estimators under either of rclpy's executors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from onboard_estimation.live.machine_facts import cpu_s
from onboard_estimation.nodes.run import EXECUTOR_VARIABLE

REPOSITORY = Path(__file__).resolve().parent.parent
EXECUTORS = ("events", "ordinary")
"""What an estimator is spun with."""
DOMAIN = str(60 + os.getpid() % 40)
"""Of its own for each run: two at once must not meet."""
_START_S = 60.0


def start(words: Sequence[str], executor: str = "events", **options: Any) -> subprocess.Popen[str]:
    """`python -m ...` in a process of its own."""
    own = {"ROS_DOMAIN_ID": DOMAIN, "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST", EXECUTOR_VARIABLE: executor}
    command, environment = [sys.executable, "-m", *words], {**os.environ, **own}
    return subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, text=True, **options)


def role(words: Sequence[str]) -> subprocess.Popen[str]:
    """One of `live_roles`."""
    return start(["benchmarks.live_roles", *words])


def result(process: subprocess.Popen[str], timeout_s: float) -> dict[str, Any]:
    """What a role printed; RuntimeError where it failed."""
    try:
        text, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    if process.returncode != 0 or not text.strip():
        raise RuntimeError(f"a role ended with exit code {process.returncode}: {text!r}")
    return dict(json.loads(text.strip().splitlines()[-1]))


@contextmanager
def estimator(
    executor: str = "events", robot: str = "salp", *parameters: str, composed: bool = False
) -> Iterator[subprocess.Popen[str]]:
    """A robot's live estimator, in a namespace with its name; parameters as `name:=value`.

    `composed`: with the simulator in its process.
    """
    code = ["benchmarks.live_estimator_node", *(["composed"] if composed else []), robot]
    code += ["--ros-args", "-r", f"__ns:=/{robot}", "--log-level", "warn"]
    code += [word for parameter in parameters for word in ("-p", parameter)]
    process = start(code, executor)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10.0)
        except subprocess.TimeoutExpired:
            process.kill()


def row(name: str, figure: str, target: str = "", met: bool | None = None, **numbers: Any) -> dict[str, Any]:
    """A case of a result that is a figure, not a ratio."""
    case = {"case": name, "figure": figure, "target": target, **numbers}
    return case if met is None else {**case, "met": met}


def await_rest(node: subprocess.Popen[str]) -> None:
    """Until the node has started: then it takes hardly any time on a core."""
    end_s = time.monotonic() + _START_S
    used_s = cpu_s(node.pid)
    while time.monotonic() < end_s:
        time.sleep(1.0)
        before_s, used_s = used_s, cpu_s(node.pid)
        if used_s > 0.5 and used_s - before_s < 0.1:
            return
    raise RuntimeError(f"the estimator was not ready within {_START_S:g} s")


def warm_up(robot: str) -> None:
    """Compile the robot's kernels: a node that has compiled holds what it compiled with."""
    with estimator(robot=robot) as node:
        await_rest(node)


def settle() -> None:
    """Let the graph of the last run go."""
    time.sleep(1.0)
