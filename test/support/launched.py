"""Launch files as a user starts and ends them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from live_graph import LONGEST_WAIT_S, wait_until

from onboard_estimation.bags.bag import open_bag
from onboard_estimation.base.errors import UserError

LAUNCH = [sys.executable, "-m", "onboard_estimation", "launch"]


class Launch:
    """A running launch with its output."""

    def __init__(self, *words: str, log: Path, **environment: str) -> None:
        self.log = log
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                [*LAUNCH, *words], stdout=file, stderr=file, start_new_session=True, env={**os.environ, **environment}
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
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(LONGEST_WAIT_S)


def children_in_domain() -> list[str]:
    """Command lines of all processes that have this test's domain in their environment, but for this one."""
    wanted = f"ROS_DOMAIN_ID={os.environ['ROS_DOMAIN_ID']}".encode()
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
