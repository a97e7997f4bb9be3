"""Launch files as a user starts and ends them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from live_graph import LONGEST_WAIT_S, die_with_this, kill_group, wait_until

from onboard_estimation.bags.bag import open_bag
from onboard_estimation.base.errors import UserError

LAUNCH = [sys.executable, "-m", "onboard_estimation", "launch"]


class Launch:
    """A running launch with its output; after a `with` block that went well nothing of it is left, nor a traceback."""

    def __init__(self, *words: str, log: Path, **environment: str) -> None:
        self.log = log
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                [*LAUNCH, *words],
                stdout=file,
                stderr=file,
                env={**os.environ, **environment},
                start_new_session=True,
                preexec_fn=die_with_this,
            )

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, words: str) -> None:
        wait_until(lambda: words in self.output or self.process.poll() is not None, LONGEST_WAIT_S)
        assert words in self.output, self.output

    def interrupt(self) -> int:
        """Ctrl-C in a terminal: everything in the foreground gets it; the launch's exit code."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(LONGEST_WAIT_S)

    def kill(self) -> None:
        """On every way out. Each node leads a group of its own, and dies with the launch."""
        kill_group(self.process)

    def __enter__(self) -> Launch:
        return self

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        self.kill()
        if failed is None:
            nothing_is_left()
            assert "Traceback" not in self.output, self.output


def children_in_domain() -> list[str]:
    return children_with("ROS_DOMAIN_ID")


def children_with(variable: str) -> list[str]:
    """Command lines of all processes that have this variable of ours in their environment, but for this one."""
    wanted = f"{variable}={os.environ[variable]}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append((entry / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue  # it has ended meanwhile
    return found


def nothing_is_left() -> None:
    try:
        wait_until(lambda: not children_in_domain())
    except AssertionError:
        raise AssertionError(f"left: {children_in_domain()}") from None


def recorded(bag: Path, topic: str) -> int:
    """Messages of a topic that a recording under way has on the disk."""
    try:
        with open_bag(bag) as opened:
            return opened.topics[topic].count if topic in opened.topics else 0
    except (UserError, OSError):
        return 0
