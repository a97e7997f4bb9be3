"""Ctrl-C at every moment of a program's life, also one started with SIGINT ignored; how nodes end by themselves."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from launched import recorded
from live_graph import LONGEST_WAIT_S, die_with_this, kill_group, wait_until

from onboard_estimation.nodes.run import EXECUTOR_VARIABLE

pytestmark = pytest.mark.usefixtures("ros_domain")

INTERRUPTED_AT = """
import atexit, os, runpy, signal, sys

def interrupt():
    print("interrupted now", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGINT)

class AtImport:
    def find_spec(self, name, path, target=None):
        if name == MOMENT:
            sys.meta_path.remove(self)
            interrupt()

sys.meta_path.insert(0, AtImport())
if MOMENT == "exit":
    atexit.register(interrupt)
"""
NODES = """
import os, sys
from onboard_estimation.base.errors import UserError
from rclpy.node import Node
from std_msgs.msg import String

class Interrupted(Node):
    def __init__(self):
        super().__init__("interrupted")
        self.output = self.create_publisher(String, "words", 10)
        self.create_timer(0.01, self.take)
    def take(self):
        os.kill(os.getpid(), SIGNAL)
        self.output.publish(String(data="the context is still there"))
        print("interrupted now", file=sys.stderr, flush=True)

class Ticks(Interrupted):
    def take(self):
        print("tick", flush=True)

class Fails(Interrupted):
    def take(self):
        raise ValueError("of its own")

class Refuses(Interrupted):
    def take(self):
        raise UserError("the line is gone")
"""

FAILS = """
import threading
from onboard_estimation.live.session import run_node
from onboard_estimation.live.signals import heed_interrupts

def fail():
    raise ValueError("of its own")

def work(node, stop):
    if INTERRUPTED:
        heed_interrupts()
    node.create_timer(0.01, fail)
    while not stop:
        threading.Event().wait(None if INTERRUPTED else 0.01)

run_node("fails", work, [])
"""


def program(*words: str | Path, code: str | None = None, ignored: int | None = None) -> subprocess.Popen[str]:
    """The command line, or other code with these arguments, perhaps with a signal ignored."""
    how = ["-m", "onboard_estimation"] if code is None else ["-c", code]

    def prepare() -> None:
        die_with_this()
        if ignored is not None:
            signal.signal(ignored, signal.SIG_IGN)

    return subprocess.Popen(
        [sys.executable, *how, *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=prepare,
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What it says until it has ended with 0; it outlives no test."""
    try:
        out, errors = process.communicate(timeout=LONGEST_WAIT_S)
    finally:
        kill_group(process)
    assert process.returncode == 0, errors
    return out, errors


def ended_in_order(process: subprocess.Popen[str]) -> bool:
    _, errors = ended(process)
    assert "interrupted now" in errors
    return not any(word in errors for word in ("Traceback", "FATAL", "Error"))


def interrupted_at(moment: str, code: str) -> str:
    return INTERRUPTED_AT.replace("MOMENT", repr(moment)) + code


def test_a_node_that_is_interrupted_while_it_starts_ends_in_order() -> None:
    """And while it is imported: `test_small_launch`."""
    code = "from salp_estimation.main import estimator; estimator()"
    assert ended_in_order(program(code=interrupted_at("rclpy", code)))


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., subprocess.Popen[str]]:
    """Starts one of NODES on an executor."""

    def start(name: str, executor: str, number: int = 0) -> subprocess.Popen[str]:
        monkeypatch.setenv(EXECUTOR_VARIABLE, executor)
        (tmp_path / "some_nodes.py").write_text(NODES.replace("SIGNAL", str(int(number))))
        code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        code += f"from onboard_estimation.nodes.run import NodeExecutable; NodeExecutable('some_nodes:{name}')()"
        return program(code=code)

    return start


@pytest.mark.live
@pytest.mark.parametrize(("executor", "number"), [("events", signal.SIGINT), ("ordinary", signal.SIGTERM)])
def test_a_callback_amid_which_a_signal_comes_goes_on(executor: str, number: int, node: Any) -> None:
    assert ended_in_order(node("Interrupted", executor, number))


@pytest.mark.live
@pytest.mark.parametrize("executor", ["events", "ordinary"])
def test_an_interrupt_between_callbacks_ends_a_node_in_order(executor: str, node: Any) -> None:
    ticks = node("Ticks", executor)
    assert [ticks.stdout.readline() for _ in range(20)] == ["tick\n"] * 20
    ticks.send_signal(signal.SIGINT)
    assert ended(ticks)[1] == ""


@pytest.mark.live
def test_a_node_whose_log_cannot_be_written_says_so_and_goes_on(node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROS_LOG_DIR", "/dev/full/log")
    ticks = node("Ticks", "events")
    assert ticks.stdout.readline() == "tick\n"
    ticks.send_signal(signal.SIGINT)
    assert ended(ticks)[1] == "no log file in /dev/full/log: Not a directory; all else goes on\n"


@pytest.mark.live
@pytest.mark.parametrize(
    ("name", "executor", "code", "sentence"),
    [("Fails", "events", 1, "ValueError: of its own"), ("Refuses", "ordinary", 2, "error: the line is gone")],
)
def test_a_node_that_ends_itself_says_why(name: str, executor: str, code: int, sentence: str, node: Any) -> None:
    _, errors = (process := node(name, executor)).communicate()
    assert process.returncode == code, errors
    assert errors.splitlines()[-1] == sentence


@pytest.mark.slow
@pytest.mark.usefixtures("compiled_kernels")
@pytest.mark.live
def test_what_was_started_with_sigint_ignored_ends_at_sigint(tmp_path: Path) -> None:
    bag, launched = tmp_path / "bag", tmp_path / "launched"
    words = ("launch", "salp.launch.py", "markers:=false", f"record:={launched}")
    recorder, launch = (program(*one, ignored=signal.SIGINT) for one in (("record", "--all", "-o", bag), words))
    try:
        wait_until(lambda: bag.is_dir() and recorded(launched, "/salp/odometry") > 0)
        launch.send_signal(signal.SIGINT)
        assert "SIGTERM" not in "".join(ended(launch))  # its nodes have heard the first signal
        recorder.send_signal(signal.SIGINT)
        assert "messages on " in ended(recorder)[0]
    finally:
        for process in (launch, recorder):
            kill_group(process)


def test_a_recorder_that_was_started_to_outlive_its_terminal_does(tmp_path: Path) -> None:
    """`nohup` has SIGHUP ignored."""
    bag = tmp_path / "bag"
    recorder = program("record", "--all", "-o", bag, ignored=signal.SIGHUP)
    try:
        wait_until(bag.is_dir)
        recorder.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            recorder.wait(1.0)
        recorder.send_signal(signal.SIGINT)
    finally:
        ended(recorder)


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_callback_that_fails_ends_its_command_with_a_sentence(interrupted: bool) -> None:
    """As `record`, which ends when it is asked to, and as `topic echo`, which waits for ever."""
    process = program(code=FAILS.replace("INTERRUPTED", str(interrupted)))
    _, errors = process.communicate(timeout=LONGEST_WAIT_S)
    assert process.returncode == 2
    assert errors.endswith("error: a callback failed, which ended this: ValueError('of its own')\n")
