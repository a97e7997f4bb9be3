"""Processes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launch._unsupported import reject_options
from launch.action import Action
from launch.child import Child
from launch.event_handler import entities_of
from launch.event_handlers import OnProcessExit
from launch.events.process import ProcessExited, ProcessStarted
from launch.launch_description_entity import LaunchDescriptionEntity
from launch.logging import Output, get_logger
from launch.substitution import (
    SomeSubstitutionsType,
    Substitution,
    describe,
    normalize_to_list_of_substitutions,
    perform_substitutions,
)
from launch.substitutions import LaunchConfiguration
from launch.utilities.typed_values import coerce, normalize_typed, perform_typed

if TYPE_CHECKING:
    from launch.launch_context import LaunchContext

_TIMEOUT_S = "5"
_LEFT_BEHIND_S = 2.0
"""What a process leaves behind in its group gets SIGTERM with its end and SIGKILL that long after."""
_EMULATE_TTY = "emulate_tty"
_OUTPUT_OVERRIDE = "OVERRIDE_LAUNCH_PROCESS_OUTPUT"


class ExecuteProcess(Action):
    """A program.

    Parameters
    ----------
    cmd
        The program and its arguments, each text, a substitution or several of both that are joined.
    name
        Before each line of its output, with a number; the program's by default.
    cwd, env, additional_env
        Folder it starts in; its whole environment instead of this one; variables beside this one's.
    output
        `screen`, `log` (the default: its errors on the screen, all of it in the log file) or `both`.
    emulate_tty
        Its output goes to a pseudo-terminal, so that it writes colours and does not hold lines back.
    on_exit
        Entities, or a function of event and context that returns some, at each of its ends.
    respawn, respawn_delay, respawn_max_retries
        Whether it is started again whenever it ends, after how many seconds, and how often (negative: without end).
    sigterm_timeout, sigkill_timeout
        Seconds from SIGINT to SIGTERM, and from there to SIGKILL; by default the launch configurations of these names,
        else 5.
    """

    def __init__(
        self,
        *,
        cmd: Iterable[SomeSubstitutionsType],
        name: SomeSubstitutionsType | None = None,
        cwd: SomeSubstitutionsType | None = None,
        env: Mapping[Any, SomeSubstitutionsType] | None = None,
        additional_env: Mapping[Any, SomeSubstitutionsType] | None = None,
        output: Any = "log",
        emulate_tty: bool = False,
        log_cmd: bool = False,
        on_exit: Any = None,
        respawn: bool | SomeSubstitutionsType = False,
        respawn_delay: float | None = None,
        respawn_max_retries: int = -1,
        sigterm_timeout: SomeSubstitutionsType | None = None,
        sigkill_timeout: SomeSubstitutionsType | None = None,
        shell: bool = False,
        condition: Any = None,
        **unsupported: Any,
    ) -> None:
        super().__init__(condition=condition)
        reject_options(type(self).__name__, [*unsupported, *(["shell"] if shell else [])])
        self.cmd = [normalize_to_list_of_substitutions(part) for part in cmd]
        self._name = None if name is None else normalize_to_list_of_substitutions(name)
        self._cwd = None if cwd is None else normalize_to_list_of_substitutions(cwd)
        self._env = None if env is None else _pairs(env)
        self._additional_env = _pairs(additional_env or {})
        self._output = os.environ.get(_OUTPUT_OVERRIDE) or output
        self._emulate_tty = emulate_tty
        self._log_cmd = log_cmd
        self._on_exit = on_exit
        self._respawn: Any = normalize_typed(respawn, bool)
        self._respawn_delay_s = respawn_delay or 0.0
        self._starts_left = respawn_max_retries
        self._timeouts = {
            signal.SIGTERM: _timeout(sigterm_timeout, "sigterm_timeout"),
            signal.SIGKILL: _timeout(sigkill_timeout, "sigkill_timeout"),
        }
        self._context: LaunchContext | None = None
        self._child: Child | None = None
        self._details: dict[str, Any] = {}
        self._escalation: list[tuple[float, str, str, signal.Signals]] = []
        self._again_at: float | None = None
        self._left_behind: list[tuple[Child, float]] = []

    @property
    def process_details(self) -> dict[str, Any] | None:
        """`name`, `cmd`, `cwd`, `env`, `pid` and `action` of the process; None where it has not been started."""
        return self._details or None

    @property
    def name(self) -> str:
        """Name of the process, e.g. `salp_estimator-1`, once it is known."""
        return str(self._details.get("name", "")) or describe(self._name or self.cmd[0])

    def get_sub_entities(self) -> Sequence[LaunchDescriptionEntity]:
        return [] if self._on_exit is None or callable(self._on_exit) else entities_of(self._on_exit)

    def execute(self, context: LaunchContext) -> None:
        if self._details:
            raise RuntimeError(f"ExecuteProcess action '{self.name}': executed more than once")
        command = self._command(context)
        self._details = {
            "action": self,
            "name": context.process_name(self._label(context, command)),
            "cmd": command,
            "cwd": None if self._cwd is None else perform_substitutions(context, self._cwd),
            "env": self._environment(context),
            "pid": 0,
        }
        if context.is_shutdown:
            return
        self._context = context
        self._logger = get_logger(self.name)
        self._lines = Output(self.name, _output_of(self._output, context))
        self._respawn = perform_typed(context, self._respawn, bool)
        if _EMULATE_TTY in context.launch_configurations:
            self._emulate_tty = coerce(context.launch_configurations[_EMULATE_TTY], bool)
        self._seconds = {
            number: coerce(perform_substitutions(context, value), float) for number, value in self._timeouts.items()
        }
        if self._on_exit is not None:
            context.register_event_handler(OnProcessExit(target_action=self, on_exit=self._on_exit))
        context.service.start(self)

    def _command(self, context: LaunchContext) -> list[str]:
        return [perform_substitutions(context, part) for part in self.cmd]

    def _label(self, context: LaunchContext, command: Sequence[str]) -> str:
        return Path(command[0]).name if self._name is None else perform_substitutions(context, self._name)

    def _environment(self, context: LaunchContext) -> dict[str, str]:
        values = dict(context.environment) if self._env is None else {}
        for name, value in [*(self._env or []), *self._additional_env]:
            values[perform_substitutions(context, name)] = perform_substitutions(context, value)
        return values

    # What the service calls

    def begin(self) -> None:
        """Start the program; where it cannot be started, say so and be gone."""
        self._again_at = None
        command, cwd = self._details["cmd"], self._details["cwd"]
        if self._log_cmd:
            self._logger.info(f"process details: cmd='{' '.join(command)}', cwd='{cwd}'")
        try:
            self._child = Child(command, cwd, self._details["env"], self._emulate_tty, self._lines.line)
        except (OSError, ValueError) as error:
            self._logger.error(f"process could not be started: {_reason(command, cwd, error)}")
            return
        self._details["pid"] = self._child.pid
        self._logger.info(f"process started with pid [{self._child.pid}]")
        self._emit(ProcessStarted(**self._details))

    def outputs(self) -> list[int]:
        """File descriptors that `read` takes."""
        return [number for child in self._children() for number in child.outputs()]

    def read(self, number: int) -> None:
        """Hand on what the program, or what it left behind, wrote."""
        for child in self._children():
            if number in child.outputs():
                child.read(number)

    def look(self, context: LaunchContext) -> None:
        """See whether it has ended, and do what is due."""
        now = time.monotonic()
        if self._child and self._child.has_ended():
            self._finish(context, self._child, now)
        if self._again_at is not None and now >= self._again_at:
            self.begin()
        if self._child and self._escalation and now >= self._escalation[0][0]:
            _, seconds, before, harder = self._escalation.pop(0)
            self._logger.error(
                f"process[{self.name}] failed to terminate '{seconds}' seconds after receiving '{before}', "
                f"escalating to '{harder.name}'"
            )
            self._signal(harder)
        self._left_behind = [one for one in self._left_behind if _is_left(*one, now)]

    def next_look(self, poll_s: float) -> float | None:
        """When `look` is to be called next, in seconds of the monotonic clock; None: only when something happens."""
        times = [time.monotonic() + poll_s] if self._left_behind else []
        times += [] if self._again_at is None else [self._again_at]
        times += [self._escalation[0][0]] if self._child and self._escalation else []
        return min(times, default=None)

    def is_gone(self) -> bool:
        """Whether nothing of it runs, nor will."""
        return self._child is None and self._again_at is None and not self._left_behind

    def end(self, context: LaunchContext) -> None:
        """Interrupt it, with SIGTERM and SIGKILL to follow where it does not heed that."""
        self._again_at = None
        if self._child is None or self._escalation:
            return
        now, to_term, to_kill = time.monotonic(), self._seconds[signal.SIGTERM], self._seconds[signal.SIGKILL]
        self._escalation = [
            (now + to_term, f"{to_term:g}", "SIGINT", signal.SIGTERM),
            (now + to_term + to_kill, f"{to_term + to_kill:g}", "SIGTERM", signal.SIGKILL),
        ]
        self._signal(signal.SIGINT)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to it and to what it started."""
        if self._child:
            self._signal(number)
        for child, _ in self._left_behind:
            child.send(number)

    def abandon(self) -> None:
        """Kill all of it at once; the launch itself breaks off."""
        for child in self._children():
            child.send(signal.SIGKILL)

    def _children(self) -> list[Child]:
        return [*([self._child] if self._child else []), *(child for child, _ in self._left_behind)]

    def _signal(self, number: signal.Signals) -> None:
        self._logger.info(f"sending signal '{number.name}' to process[{self.name}]")
        if self._child:
            self._child.send(number)

    def _finish(self, context: LaunchContext, child: Child, now: float) -> None:
        child.drain()
        self._child = None
        if child.send(0):
            self._left_behind.append((child, now + _LEFT_BEHIND_S))
        else:
            child.close()
        if child.returncode == 0:
            self._logger.info(f"process has finished cleanly [pid {child.pid}]")
        else:
            command = " ".join(part for part in self._details["cmd"] if part.strip())
            self._logger.error(f"process has died [pid {child.pid}, exit code {child.returncode}, cmd '{command}'].")
        self._emit(ProcessExited(returncode=child.returncode or 0, **self._details))
        if self._respawn and not context.is_shutdown and self._starts_left != 0:
            self._starts_left -= 1
            self._again_at = now + self._respawn_delay_s

    def _emit(self, event: Any) -> None:
        if self._context is not None:
            self._context.emit_event_sync(event)


def _pairs(variables: Mapping[Any, SomeSubstitutionsType]) -> list[tuple[list[Substitution], list[Substitution]]]:
    return [
        (normalize_to_list_of_substitutions(name), normalize_to_list_of_substitutions(value))
        for name, value in variables.items()
    ]


def _timeout(given: Any, name: str) -> list[Substitution]:
    value = LaunchConfiguration(name, default=_TIMEOUT_S) if given is None else given
    return normalize_to_list_of_substitutions(str(value) if isinstance(value, (int, float)) else value)


def _output_of(output: Any, context: LaunchContext) -> str:
    if isinstance(output, Mapping):
        return repr(output)
    return perform_substitutions(context, normalize_to_list_of_substitutions(output))


def _is_left(child: Child, kill_at: float, now: float) -> bool:
    if child.send(signal.SIGKILL if now >= kill_at else 0):
        return True
    child.drain()
    child.close()
    return False


def _reason(command: Sequence[str], cwd: str | None, error: Exception) -> str:
    if isinstance(error, FileNotFoundError) and (cwd is None or Path(cwd).is_dir()):
        sentence = f"there is no program '{command[0]}'"
        if command[0] == "ros2":
            other = "onboard-estimation record, play, topic, node, param"
            sentence += f"; ROS 2 is not in use here: source it, or use '{other}'"
        return sentence
    return f"{error}"
