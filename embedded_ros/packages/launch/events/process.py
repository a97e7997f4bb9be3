"""Events of processes."""

from __future__ import annotations

from typing import Any

from launch.event import Event


class ProcessEvent(Event):
    """Something about one process.

    Attributes
    ----------
    action
        The ExecuteProcess or Node.
    process_name
        E.g. `salp_estimator-1`.
    cmd, cwd, env, pid
        How and as what it was started.
    """

    name = "launch.events.process.RunningProcessEvent"

    def __init__(
        self, *, action: Any, name: str, cmd: list[str], cwd: str | None, env: dict[str, str], pid: int
    ) -> None:
        self.action = action
        self.process_name = name
        self.cmd = cmd
        self.cwd = cwd
        self.env = env
        self.pid = pid


class ProcessStarted(ProcessEvent):
    """A process runs."""

    name = "launch.events.process.ProcessStarted"


class ProcessExited(ProcessEvent):
    """A process has ended.

    Attributes
    ----------
    returncode
        Its exit code; minus the number of the signal that ended it.
    """

    name = "launch.events.process.ProcessExited"

    def __init__(self, *, returncode: int, **process: Any) -> None:
        super().__init__(**process)
        self.returncode = returncode
