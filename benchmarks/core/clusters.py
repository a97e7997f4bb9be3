"""A Dask scheduler and workers as processes of their own, as on a cluster; on this machine's loopback alone."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_STARTS_WITHIN_S = 40.0


class Cluster:
    """Scheduler and workers, each in a folder of its own; `address` stays when they are started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{port}"
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, workers: int, environment: Mapping[str, str] | None = None) -> None:
        """Start a scheduler, and workers with one thread each; returns when it listens."""
        host, port = self.address.removeprefix("tcp://").split(":")
        self._spawn("scheduler", ["scheduler", "--host", host, "--port", port, "--no-dashboard"], environment)
        end = time.monotonic() + _STARTS_WITHIN_S
        while time.monotonic() < end:
            with suppress(OSError), socket.create_connection((host, int(port)), 1.0):
                break
            time.sleep(0.1)
        for number in range(workers):
            self.add_worker(f"worker_{number}", environment)

    def add_worker(self, name: str, environment: Mapping[str, str] | None = None) -> None:
        """Start one worker more."""
        words = ["worker", self.address, "--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1"]
        self._spawn(name, words, environment)

    def kill(self) -> None:
        """End all of them at once, as a power failure does."""
        for process in self._processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(20.0)
        self._processes.clear()

    def _spawn(self, name: str, words: list[str], environment: Mapping[str, str] | None = None) -> None:
        place = self._folder / name
        place.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "distributed.cli.dask_" + words[0], *words[1:]]
        with (place / "log").open("ab") as log:
            output: dict[str, Any] = {"stdout": log, "stderr": log, "env": {**os.environ, **(environment or {})}}
            self._processes.append(subprocess.Popen(command, cwd=place, start_new_session=True, **output))


@contextmanager
def cluster(folder: Path, workers: int, environment: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """A cluster that ends with the block."""
    one = Cluster(folder)
    try:
        one.start(workers, environment)
        yield one
    finally:
        one.kill()
