"""Ctrl-C at every moment of a program's life, also where it was started with SIGINT ignored, as in a background job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from live_graph import LONGEST_WAIT_S, wait_until

pytestmark = [pytest.mark.usefixtures("ros_domain"), pytest.mark.timeout(300)]

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
NODE = """
import os, signal, sys
from rclpy.node import Node
from std_msgs.msg import String

class Interrupted(Node):
    def __init__(self):
        super().__init__("interrupted")
        self.output = self.create_publisher(String, "words", 10)
        self.create_timer(0.01, self.take)

    def take(self):
        if SIGNAL:
            os.kill(os.getpid(), SIGNAL)
            self.output.publish(String(data="the context is still there"))
            print("interrupted now", file=sys.stderr, flush=True)
        else:
            raise RuntimeError("a message could not be made")
"""
COMMAND = "runpy.run_module('onboard_estimation', run_name='__main__', alter_sys=True)"


def program(*words: str | Path, code: str | None = None, ignoring: bool = False) -> subprocess.Popen[str]:
    """The command line, or other code with these arguments, perhaps with SIGINT ignored."""
    how = ["-m", "onboard_estimation"] if code is None else ["-c", code]
    return subprocess.Popen(
        [sys.executable, *how, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=(lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) if ignoring else None,
    )


def ended(process: subprocess.Popen[str]) -> str:
    """What it says on standard error until it has ended with 0; it outlives no test."""
    try:
        _, errors = process.communicate(timeout=LONGEST_WAIT_S)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert process.returncode == 0, errors
    return errors


def interrupted_at(moment: str, code: str) -> str:
    return INTERRUPTED_AT.replace("MOMENT", repr(moment)) + code


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["typer", "mcap.writer", "exit"])
def test_a_recorder_that_is_interrupted_leaves_a_bag_and_ends_with_0(moment: str, tmp_path: Path) -> None:
    """While it is imported, before it has a node; and when all is done, at Python's own end."""
    bag = tmp_path / "bag"
    recorder = program("record", "--all", "-o", bag, "--duration", "0.1", code=interrupted_at(moment, COMMAND))
    errors = ended(recorder)
    assert "interrupted now" in errors
    assert "Traceback" not in errors
    assert (bag / "metadata.yaml").is_file()  # closed in order; it may hold no messages


@pytest.mark.parametrize("moment", ["rclpy", "numba", "salp_estimation.nodes"])
def test_a_node_that_is_interrupted_while_it_starts_ends_in_order(moment: str) -> None:
    code = "from salp_estimation.main import estimator; estimator()"
    node = program(code=interrupted_at(moment, code))
    errors = ended(node)
    assert "interrupted now" in errors
    assert "Traceback" not in errors


@pytest.mark.live
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, 0])
@pytest.mark.parametrize("executor", ["events", "ordinary"])
def test_a_callback_amid_which_a_signal_comes_goes_on_and_an_error_is_told(
    executor: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONBOARD_ESTIMATION_EXECUTOR", executor)
    (tmp_path / "interrupted.py").write_text(NODE.replace("SIGNAL", str(int(number))))
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    code += "from onboard_estimation.nodes.run import NodeExecutable; NodeExecutable('interrupted:Interrupted')()"
    node = program(code=code)
    _, errors = node.communicate(timeout=LONGEST_WAIT_S)
    if number:
        assert node.returncode == 0
        assert "interrupted now" in errors
        assert not any(word in errors for word in ("Traceback", "FATAL", "Error"))
    else:
        assert node.returncode == 1
        assert "RuntimeError: a message could not be made" in errors


@pytest.mark.slow
@pytest.mark.usefixtures("compiled_kernels")
@pytest.mark.live
def test_what_was_started_with_sigint_ignored_ends_at_sigint(tmp_path: Path) -> None:
    bag, log = tmp_path / "bag", tmp_path / "launch.log"
    recorder = program("record", "--all", "-o", bag, ignoring=True)
    with log.open("w") as file:
        launch = subprocess.Popen(
            [sys.executable, "-m", "onboard_estimation", "launch", "salp.launch.py", "markers:=false"],
            stdout=file,
            stderr=file,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        )
    try:
        wait_until(lambda: bag.is_dir() and "started from the ground truth" in log.read_text())
        launch.send_signal(signal.SIGINT)
        assert launch.wait(LONGEST_WAIT_S) == 0, log.read_text()
        assert "SIGTERM" not in log.read_text()  # its nodes have heard the first signal
        recorder.send_signal(signal.SIGINT)
        out, errors = recorder.communicate(timeout=LONGEST_WAIT_S)
    finally:
        for process in (launch, recorder):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    assert recorder.returncode == 0, errors
    assert "messages on " in out


def test_a_recorder_that_was_started_to_outlive_its_terminal_does(tmp_path: Path) -> None:
    """`nohup` has SIGHUP ignored."""
    bag = tmp_path / "bag"
    code = f"import runpy, signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); {COMMAND}"
    recorder = program("record", "--all", "-o", bag, code=code)
    try:
        wait_until(bag.is_dir)
        recorder.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            recorder.wait(1.0)
        recorder.send_signal(signal.SIGINT)
        _, errors = recorder.communicate(timeout=LONGEST_WAIT_S)
    finally:
        recorder.kill()
    assert recorder.returncode == 0, errors
