"""The processes of a launch: started, shown line by line, started again, and ended."""

from __future__ import annotations

import ctypes
import errno
import os
import selectors
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT, Popen
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

from onboard_estimation.base.parameter_file import PARAMETERS_KEY, to_yaml
from onboard_estimation.launching.entities import LaunchContext, LogInfo, Process, Shutdown, plan

_LOOK_S = 0.1
"""How often is looked for signals, ends of processes and what is due, when nobody writes anything."""
_LEFT_BEHIND_S = 2.0
"""What a process leaves behind in its group gets SIGTERM with its end and SIGKILL that long after."""
_READ_BYTES = 65536
"""At once: what a pipe holds."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
"""At the end, one after the other."""
_PATIENCE_S = 5.0
"""How long to wait for each before the next."""
_OPTIONS: Any = {"stdin": DEVNULL, "stdout": PIPE, "stderr": STDOUT, "start_new_session": True}
# PR_SET_PDEATHSIG: processes get SIGTERM when this one dies without a chance to end them (kill -9).
_die_with_this = partial(ctypes.CDLL(None).prctl, 1, signal.SIGTERM) if sys.platform == "linux" else None


class Launch:
    """Runs what a launch has planned; main thread only.

    Each process leads a group of its own, and so no Ctrl-C comes straight from the terminal: every member gets each
    signal once, and what a program leaves behind is found at its end.

    Parameters
    ----------
    context
        That the steps were planned in; handlers of ends go on with it.
    """

    def __init__(self, context: LaunchContext) -> None:
        self._context = context
        self._waiting: list[tuple[float, Process]] = []
        self._running: dict[int, tuple[Process, Any]] = {}
        self._left_behind: dict[int, float] = {}
        self._outputs = selectors.DefaultSelector()
        self._heard: list[int] = []
        self._stage, self._next_stage_s, self._code = 0, 0.0, 0
        self._failed: list[str] = []

    def run(self, steps: Iterable[Process | LogInfo | Shutdown]) -> int:
        """Run until all has ended; 1 where a process failed, or a fault or another signal than Ctrl-C ended it.

        A process that failed is said at the end once more; not one that is started again, or after which others are.
        """
        hang_up = [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN else []  # nohup
        for number in (signal.SIGINT, signal.SIGTERM, *hang_up):
            signal.signal(number, lambda heard, _: self._heard.append(heard))
        with TemporaryDirectory(prefix="onboard_estimation-launch-") as folder:
            self._folder = Path(folder)
            self._do(steps)
            while self._running or self._waiting or self._left_behind:
                for key, _ in self._outputs.select(_LOOK_S):
                    self._read(key)
                self._look()
        for sentence in self._failed:
            self._print(f"[ERROR] [launch]: {sentence}")
        return 1 if self._failed else self._code

    def _look(self) -> None:
        """What has happened, and what is due."""
        while self._heard:
            number = signal.Signals(self._heard.pop(0))
            self._code = self._code if number == signal.SIGINT else 1
            self._end_harder(f"user interrupted with {number.name}")
        for pid in list(self._running):
            # Its number stays taken until `wait`, so that no other group can have it.
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                self._finish(*self._running.pop(pid))
        now_s = time.monotonic()
        if 0 < self._stage < len(_SIGNALS) and now_s >= self._next_stage_s and self._running:
            self._end_harder(f"some have not ended after {_SIGNALS[self._stage - 1].name}")
        due = [process for when_s, process in self._waiting if when_s <= now_s]
        self._waiting = [one for one in self._waiting if one[0] > now_s]
        self._do(due)
        for group, until_s in list(self._left_behind.items()):
            # Where nobody reaps orphans, as in some containers, a group of dead ones stays.
            if not _send(group, signal.SIGKILL if now_s >= until_s else 0) or now_s >= until_s:
                del self._left_behind[group]

    def _do(self, steps: Iterable[Process | LogInfo | Shutdown]) -> None:
        for step in steps:
            if isinstance(step, LogInfo):
                self._print(f"[INFO] [launch.user]: {step.msg}")
            elif isinstance(step, Shutdown) and not self._stage:
                self._end_harder(step.reason)
            elif isinstance(step, Process) and not self._stage:
                self._start(step)

    def _start(self, process: Process) -> None:
        cwd, environment = process.cwd, process.environment
        try:
            words = words_of(process, self._folder)
            popen: Any = Popen(words, cwd=cwd, env=environment, preexec_fn=_die_with_this, **_OPTIONS)
        except OSError as error:
            self._failed.append(f"{process.name} could not be started: {error}")
            self._print(f"[ERROR] [{process.name}]: process could not be started: {error}")
            return
        os.set_blocking(popen.stdout.fileno(), False)
        self._outputs.register(popen.stdout, selectors.EVENT_READ, (process.name, bytearray()))
        self._running[popen.pid] = process, popen
        self._print(f"[INFO] [{process.name}]: process started with pid [{popen.pid}]")

    def _read(self, key: Any) -> bool:
        """Show the lines that have come; False where there is nothing for now, or where no more will come."""
        name, rest = key.data
        try:
            data = os.read(key.fd, _READ_BYTES)
        except BlockingIOError:
            return False
        *lines, rest[:] = (rest + data).split(b"\n")
        if rest and (not data or len(rest) > _READ_BYTES):
            lines, rest[:] = [*lines, bytes(rest)], b""
        for line in lines:
            self._print(f"[{name}] {line.removesuffix(bytes([13])).decode('utf-8', 'replace')}")
        if not data:
            self._outputs.unregister(key.fileobj)
            key.fileobj.close()
        return bool(data)

    def _finish(self, process: Process, popen: Any) -> None:
        """After the end of a process: what of its group is left, its last lines, its handlers, its next start."""
        _send(popen.pid, signal.SIGTERM)
        code = popen.wait()
        if _send(popen.pid, 0):
            self._left_behind[popen.pid] = time.monotonic() + _LEFT_BEHIND_S
        for key in [one for one in self._outputs.get_map().values() if one.data[0] == process.name]:
            _ = self._read(key) and self._read(key)  # and once more for its end; others may go on writing
        how = f"died [pid {popen.pid}, exit code {code}, cmd '{' '.join(popen.args)}']." if code else "finished cleanly"
        self._print(f"[{'ERROR' if code else 'INFO'}] [{process.name}]: process has {how}")
        event = SimpleNamespace(process_name=process.name, returncode=code, pid=popen.pid, cmd=popen.args)
        try:
            handler = process.on_exit
            steps = plan(handler(event, self._context) if callable(handler) else handler, self._context)
        except Exception as error:  # a launch file may raise anything
            steps = [Shutdown(reason=f"on_exit of {process.name}: {type(error).__name__}: {error}")]
            code = code or 1
        if (
            code
            and not self._stage
            and (any(isinstance(one, Shutdown) for one in steps) or not (steps or process.respawn))
        ):
            self._failed.append(f"{process.name} has failed (exit code {code}): what it said before tells why")
        self._do(steps)
        if process.respawn and not self._stage:
            self._waiting.append((time.monotonic() + process.respawn_delay_s, process))

    def _end_harder(self, why: str) -> None:
        """The next signal, to all."""
        number = _SIGNALS[min(self._stage, len(_SIGNALS) - 1)]
        self._context.is_shutdown = True
        self._waiting.clear()
        self._print(f"[WARNING] [launch]: {why}: {number.name} to all processes")
        self._next_stage_s = time.monotonic() + _PATIENCE_S
        self._stage += 1
        for pid in self._running:
            _send(pid, number)

    def _print(self, line: str) -> None:
        try:
            print(line, flush=True)
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if error.errno in (errno.EPIPE, errno.EIO):  # nobody reads any more: a closed terminal, `| head`
                self._heard.append(signal.SIGHUP)
            else:
                with suppress(OSError):
                    print(f"no more output of the launch: {error.strerror}; all else goes on", file=sys.stderr)


def words_of(process: Process, folder: Path) -> list[str]:
    """The whole command line of a process; its parameters are in files that are written into a folder."""
    words = list(process.command)
    for number, given in enumerate(process.parameters):
        path = folder / f"launch_params_{process.name}_{number}.yaml"
        if not isinstance(given, str) and not path.exists():  # it is started again
            path.write_text(to_yaml({process.parameters_for: {PARAMETERS_KEY: given}}), encoding="utf-8")
        words += ["--params-file", given if isinstance(given, str) else str(path)]
    return [*words, *(word for pair in process.remappings for word in ("-r", ":=".join(pair)))]


def _send(group: int, number: int) -> bool:
    """Send a signal to a whole group; False where nobody is left."""
    with suppress(ProcessLookupError, PermissionError):  # PermissionError: macOS's answer for a zombie
        os.killpg(group, number)
        return True
    return False
