"""Log lines of a launch and of its processes: on the screen and in `launch.log`.

The folder is ROS 2's: below ROS_LOG_DIR, else below ROS_HOME/log, else below ~/.ros/log, one per launch. Where none can
be made, one warning says so and nothing is written to files.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import time
from pathlib import Path
from typing import TextIO

_LAUNCH_LOG = "launch.log"
# Sources whose lines are shown, and whether the log file holds all lines.
_OUTPUTS = {
    "screen": (("stdout", "stderr"), False),
    "log": (("stderr",), True),
    "both": (("stdout", "stderr"), True),
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
        self._file: TextIO | None = None

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

    def write(self, line: str) -> None:
        """Append a line to the log file."""
        try:
            if self._file is None:
                if self.log_dir is None:
                    return
                path = self.log_dir / _LAUNCH_LOG
                self._file = path.open("a", encoding="utf-8", errors="backslashreplace")
            self._file.write(line + "\n")
            self._file.flush()
        except OSError as error:
            self._folder = None
            self.close()
            self.show(f"[WARNING] [launch]: no log files are written any more: {error}")

    def close(self) -> None:
        """Close the log file."""
        if self._file is not None:
            self._file.close()
            self._file = None


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
        launch_config.write(f"{time.time():.7f} {line}")


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
        `screen`, `log` or `both`. NotImplementedError for anything else.
    """

    def __init__(self, process: str, where: str) -> None:
        if where not in _OUTPUTS:
            raise NotImplementedError(
                f"ExecuteProcess(output={where}) is not supported without ROS 2; use 'screen', 'log' or 'both'"
            )
        self._process = process
        self._shown, self._logged = _OUTPUTS[where]

    def line(self, source: str, text: str) -> None:
        """A line that the process wrote to `stdout` or `stderr`."""
        marked = f"[{self._process}] {text}"
        if source in self._shown:
            launch_config.show(marked)
        if self._logged:
            launch_config.write(f"{time.time():.7f} {marked}")


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
