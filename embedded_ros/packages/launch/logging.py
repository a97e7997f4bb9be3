"""Log lines of a launch and of its processes: on the screen, in `launch.log`, in files of a process's own.

The folder is ROS 2's: below ROS_LOG_DIR, else below ROS_HOME/log, else below ~/.ros/log, one per launch. Where none can
be made, one warning says so and nothing is written to files.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from embedded_ros.absent import refuse

_LAUNCH_LOG = "launch.log"
_SCREEN, _LOG, _OWN = "screen", "log", "own_log"
_SOURCES = ("stdout", "stderr", "both")
_PRESETS: dict[str, dict[str, tuple[str, ...]]] = {
    "screen": {"both": (_SCREEN,)},
    "log": {"both": (_LOG,), "stderr": (_SCREEN,)},
    "both": {"both": (_LOG, _SCREEN)},
    "own_log": {"both": (_OWN,), "stdout": (_OWN,), "stderr": (_OWN,)},
    "full": {"both": (_SCREEN, _LOG, _OWN), "stdout": (_OWN,), "stderr": (_OWN,)},
}


class LaunchConfig:
    """Where a launch's lines go.

    Attributes
    ----------
    level
        Least severity that is shown, as `logging` has it.
    screen_lost
        The reader of standard output has gone.
    """

    def __init__(self) -> None:
        self.level = logging.INFO
        self.screen_lost = False
        self._folder: Path | None = None
        self._asked_for_folder = False
        self._files: dict[str, TextIO] = {}

    @property
    def log_dir(self) -> Path | None:
        """Folder of this launch's files, made when it is first asked for; None where it cannot be made."""
        if not self._asked_for_folder:
            self._asked_for_folder = True
            try:
                self._folder = _new_folder()
            except (OSError, RuntimeError) as error:
                self.show(f"[WARNING] [launch]: no log files are written: {error}")
        return self._folder

    def show(self, line: str) -> None:
        """Print a line at once."""
        if self.screen_lost:
            return
        try:
            print(line, flush=True)
        except UnicodeEncodeError:
            encoding = sys.stdout.encoding or "ascii"
            print(line.encode(encoding, "backslashreplace").decode(encoding), flush=True)
        except (BrokenPipeError, ValueError):
            self.screen_lost = True

    def write(self, file_name: str, line: str) -> None:
        """Append a line to a file of the folder."""
        try:
            if file_name not in self._files:
                if self.log_dir is None:
                    return
                self._files[file_name] = (self.log_dir / file_name).open(
                    "a", encoding="utf-8", errors="backslashreplace"
                )
            self._files[file_name].write(line + "\n")
            self._files[file_name].flush()
        except OSError as error:
            self._folder = None
            self.close()
            self.show(f"[WARNING] [launch]: no log files are written any more: {error}")

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.close()
        self._files.clear()


launch_config = LaunchConfig()


class Logger:
    """Lines of the launch itself about one thing, e.g. `launch` or `salp_estimator-1`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def debug(self, message: object) -> None:
        """For those who debug a launch."""
        self._say(logging.DEBUG, message)

    def info(self, message: object) -> None:
        """What happens."""
        self._say(logging.INFO, message)

    def warning(self, message: object) -> None:
        """What may be a fault."""
        self._say(logging.WARNING, message)

    def error(self, message: object) -> None:
        """What is a fault."""
        self._say(logging.ERROR, message)

    def _say(self, level: int, message: object) -> None:
        if level < launch_config.level:
            return
        line = f"[{logging.getLevelName(level)}] [{self.name}]: {message}"
        launch_config.show(line)
        launch_config.write(_LAUNCH_LOG, f"{time.time():.7f} {line}")


def get_logger(name: str | None = None) -> Logger:
    """Logger of that name."""
    return Logger(name or "root")


class Output:
    """Where the lines of one process go.

    Parameters
    ----------
    process
        E.g. `salp_estimator-1`; every line on the screen and in `launch.log` starts with it.
    where
        `screen`, `log`, `both`, `own_log`, `full`, or a mapping of `stdout`, `stderr`, `both` to `screen`, `log`,
        `own_log` or several of them. ValueError for anything else.
    """

    def __init__(self, process: str, where: str | Mapping[str, Any]) -> None:
        self._process = process
        goals = _goals(where)
        self._goals = {source: {*goals["both"], *goals[source]} for source in ("stdout", "stderr")}
        self._own_files = {
            source: [
                *([f"{process}-{source}.log"] if _OWN in goals[source] else []),
                *([f"{process}.log"] if _OWN in goals["both"] else []),
            ]
            for source in ("stdout", "stderr")
        }

    def line(self, source: str, text: str) -> None:
        """A line that the process wrote to `stdout` or `stderr`."""
        marked = f"[{self._process}] {text}"
        if _SCREEN in self._goals[source]:
            launch_config.show(marked)
        if _LOG in self._goals[source]:
            launch_config.write(_LAUNCH_LOG, f"{time.time():.7f} {marked}")
        for file_name in self._own_files[source]:
            launch_config.write(file_name, text)


def _goals(where: str | Mapping[str, Any]) -> dict[str, set[str]]:
    if isinstance(where, str):
        if where not in _PRESETS:
            raise ValueError(f"output '{where}' is none of {', '.join(_PRESETS)}")
        where = _PRESETS[where]
    out: dict[str, set[str]] = {source: set() for source in _SOURCES}
    for source, goals in where.items():
        several = {goals} if isinstance(goals, str) else set(goals)
        if source not in _SOURCES or not several <= {_SCREEN, _LOG, _OWN}:
            raise ValueError(
                f"output of {source!r} to {sorted(several)}: sources are {_SOURCES}, goals screen, log, own_log"
            )
        out[source] = several
    return out


def _new_folder() -> Path:
    base = os.environ.get("ROS_LOG_DIR") or os.path.join(os.environ.get("ROS_HOME") or "~/.ros", "log")  # noqa: PTH118
    parent = Path(base).expanduser()
    parent.mkdir(parents=True, exist_ok=True)
    stamp = time.strftime("%Y-%m-%d-%H-%M-%S") + f"-{time.time_ns() // 1000 % 1_000_000:06d}"
    folder = parent / f"{stamp}-{socket.gethostname()}-{os.getpid()}"
    folder.mkdir()
    latest = parent / "latest"
    if latest.is_symlink() or not latest.exists():
        latest.unlink(missing_ok=True)
        latest.symlink_to(folder, target_is_directory=True)
    return folder


__getattr__ = refuse(__name__, ("get_output_loggers", "handlers", "log_launch_config", "reset"))
