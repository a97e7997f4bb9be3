"""What tests with an installed ROS 2 share: where it is, and programs run by its interpreter or by ours.

An installed ROS 2, which has ros2cli, launch and rosbag2 as wheels have not, is the one whose setup.bash the
environment variable ONBOARD_ESTIMATION_ROS2_SETUP names, or the one that is sourced already. Tests that ask for it are
skipped where there is neither.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

SETUP_VARIABLE = "ONBOARD_ESTIMATION_ROS2_SETUP"
ROOT = Path(__file__).resolve().parents[2]
# What sourcing a ROS 2 sets.
_ROS_VARIABLES = ("AMENT_PREFIX_PATH", "CMAKE_PREFIX_PATH", "COLCON_PREFIX_PATH", "LD_LIBRARY_PATH", "PYTHONPATH")


@dataclass(frozen=True)
class Peer:
    """An interpreter with its environment: one side of a conversation."""

    python: str
    environment: Mapping[str, str] = field(repr=False)

    def run(
        self, *arguments: str | Path, timeout_s: float = 60.0, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a Python program to its end."""
        return self._finish([self.python, *map(str, arguments)], timeout_s, environment)

    def command(
        self, *arguments: str | Path, timeout_s: float = 60.0, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of the environment's PATH (`ros2 topic list`) to its end."""
        program = shutil.which(str(arguments[0]), path=self.environment["PATH"])
        assert program is not None, f"{arguments[0]} is not on the PATH of {self.python}"
        return self._finish([program, *map(str, arguments[1:])], timeout_s, environment)

    def _finish(
        self, arguments: list[str], timeout_s: float, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            arguments,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def start(self, *arguments: str | Path, **environment: str) -> Running:
        """Start a Python program."""
        return Running([self.python, "-u", *map(str, arguments)], {**self.environment, **environment})

    def start_command(self, *arguments: str | Path, **environment: str) -> Running:
        """Start a command of the environment's PATH."""
        program = shutil.which(str(arguments[0]), path=self.environment["PATH"])
        assert program is not None, f"{arguments[0]} is not on the PATH of {self.python}"
        return Running([program, *map(str, arguments[1:])], {**self.environment, **environment})


class Running:
    """A process whose lines are read as they come; it is ended at the end of a `with` block."""

    def __init__(self, arguments: list[str], environment: Mapping[str, str]) -> None:
        self.lines: list[str] = []
        self._process = subprocess.Popen(
            arguments,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip("\n"))

    @property
    def told(self) -> list[dict[str, Any]]:
        """What the program said in lines of JSON."""
        return [json.loads(line) for line in list(self.lines) if line.startswith("{")]

    def wait_until(self, condition: Callable[[list[dict[str, Any]]], Any], timeout_s: float = 20.0) -> Any:
        """The condition's value on all that was told, as soon as it is true."""
        until = time.monotonic() + timeout_s
        while not (value := condition(self.told)):
            assert time.monotonic() < until, "not seen in time; last lines:\n" + "\n".join(self.lines[-15:])
            assert self._process.poll() is None or self._reading.is_alive(), "ended:\n" + "\n".join(self.lines[-15:])
            time.sleep(0.05)
        return value

    def wait_ready(self) -> None:
        """Until the program says that it is ready."""
        self.wait_until(lambda told: any("ready" in line for line in told))

    def wait_for_line(self, words: str, timeout_s: float = 30.0) -> str:
        """The first line that holds the words."""
        return str(self.wait_until(lambda _: next((line for line in self.lines if words in line), ""), timeout_s))

    def wait(self, timeout_s: float = 20.0) -> int:
        """The exit code, once it has ended by itself."""
        code = self._process.wait(timeout_s)
        self._reading.join(5.0)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal to the process, as Ctrl-C in a terminal would to its whole group."""
        os.killpg(self._process.pid, number)

    def left(self) -> list[str]:
        """Commands of the processes that are left of what it started, itself included."""
        found = subprocess.run(["ps", "-o", "args=", "-s", str(self._process.pid)], capture_output=True, text=True)
        return found.stdout.splitlines()

    def stop(self, number: int = signal.SIGINT, timeout_s: float = 10.0) -> int:
        """End it with a signal; its exit code."""
        if self._process.poll() is None:
            self.send_signal(number)
        return self.wait(timeout_s)

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.stop(timeout_s=3.0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(5.0)


def ours() -> Peer:
    """This interpreter, on whatever ROS 2 it has."""
    return Peer(sys.executable, dict(os.environ))


def real_ros2() -> Peer:
    """The installed ROS 2 of this machine; the test is skipped where there is none."""
    found = _real_ros2()
    if found is None:
        pytest.skip(f"no ROS 2: source one, or name its setup.bash in {SETUP_VARIABLE}")
    return found


@cache
def _real_ros2() -> Peer | None:
    setup = os.environ.get(SETUP_VARIABLE)
    if setup:
        return _sourced(Path(setup))
    return ours() if importlib.util.find_spec("ros2cli") else None


def _sourced(setup: Path) -> Peer:
    clean = {name: value for name, value in os.environ.items() if name not in (*_ROS_VARIABLES, "VIRTUAL_ENV")}
    return sourced(setup, clean)


def sourced(setup: Path, environment: Mapping[str, str]) -> Peer:
    """The environment after a setup.bash, and its interpreter."""
    told = subprocess.run(
        ["bash", "-c", 'source "$1" >&2 && env -0', "bash", str(setup)],
        env=dict(environment),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert told.returncode == 0, f"{setup} cannot be sourced: {told.stderr.decode()}"
    pairs = (line.split("=", 1) for line in told.stdout.decode().split("\0") if "=" in line)
    found = {name: value for name, value in pairs if not name.startswith("BASH_FUNC")}
    python = shutil.which("python3", path=found["PATH"])
    assert python is not None
    return Peer(python, found)
