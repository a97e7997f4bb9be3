"""The loop of a launch: events, timers, processes, signals."""

from __future__ import annotations

import logging
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from launch.event import Event
from launch.event_handler import EventHandler, entities_of
from launch.events import Shutdown, TimerEvent
from launch.launch_context import LaunchContext
from launch.launch_description_entity import LaunchDescriptionEntity
from launch.logging import get_logger, launch_config
from launch.wakeup import Wakeup

if TYPE_CHECKING:
    from launch.actions.execute_process import ExecuteProcess
    from launch.actions.timer_action import TimerAction
    from launch.launch_description import LaunchDescription

_POLL_S = 0.05
"""How often is looked for what ended processes left behind."""


class _Include(Event):
    name = "launch.events.IncludeLaunchDescription"

    def __init__(self, description: LaunchDescription) -> None:
        self.description = description


class LaunchService:
    """Runs launch descriptions.

    Parameters
    ----------
    debug
        Faults of launch files are shown with their traceback.
    """

    def __init__(self, *, argv: Iterable[str] | None = None, noninteractive: bool = False, debug: bool = False) -> None:
        launch_config.level = logging.DEBUG if debug else logging.INFO
        self.context = LaunchContext()
        self.context.service = self
        self.context.register_event_handler(
            EventHandler(matcher=lambda event: isinstance(event, TimerEvent), entities=_OfTimer())
        )
        self._logger = get_logger("launch")
        self._processes: list[ExecuteProcess] = []
        self._to_start: list[ExecuteProcess] = []
        self._timers: list[tuple[float, Callable[[], None], Callable[[], bool]]] = []
        self._return_code = 0
        self._shutting_down = False
        self._interrupts = 0
        self._visiting = False

    def include_launch_description(self, launch_description: LaunchDescription) -> None:
        """Add a description, before `run` or while it runs."""
        self.context.emit_event_sync(_Include(launch_description))

    def shutdown(self, force_sync: bool = False) -> None:
        """End the launch."""
        self._shut_down("LaunchService.shutdown() called")

    def run(self, *, shutdown_when_idle: bool = True) -> int:
        """Run until all processes have ended, or Ctrl-C; main thread only.

        Returns
        -------
        int
            0, or 1 where a launch file had a fault or another signal than Ctrl-C ended the launch. Exit codes of the
            processes are shown and do not count, as with ROS 2.
        """
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("LaunchService can only be run in the main thread.")
        if launch_config.log_dir is not None:
            self._logger.info(f"All log files can be found below {launch_config.log_dir}")
        self._logger.info(f"Default logging verbosity is set to {logging.getLevelName(launch_config.level)}")
        with Wakeup(self._interrupt_visit) as wakeup:
            try:
                while True:
                    self._process_events()
                    self._fire_timers()
                    if self._is_done(shutdown_when_idle):
                        break
                    for number in wakeup.wait(self._outputs(), self._seconds_to_wait()):
                        self._on_signal(number)
                    self._look_at_processes()
            finally:
                for process in self._processes:
                    process.abandon()
                self.context.restore()
                launch_config.close()
        return self._return_code

    # What actions call

    def start(self, process: ExecuteProcess) -> None:
        """Start a process once the entities at hand have all been visited without a fault."""
        self._to_start.append(process)

    def wait_for_timer(self, timer: TimerAction, period_s: float, fire: Callable[[], None]) -> None:
        """Call a function after a while, unless the timer is cancelled or the launch ends before."""
        self._timers.append((time.monotonic() + period_s, fire, lambda: timer.cancelled or self._shutting_down))

    # Events

    def _process_events(self) -> None:
        while self.context.events:
            event = self.context.events.popleft()
            try:
                self._visiting = True
                self._process(event)
            except KeyboardInterrupt:  # in the middle of a launch file; the wakeup tells of it as well
                self._to_start.clear()
            except Exception as error:
                self._visiting = False
                self._fail(error)
            finally:
                self._visiting = False
            if isinstance(event, Shutdown):
                self._end_processes()
            for process in self._to_start:
                self._processes.append(process)
                process.begin()
            self._to_start.clear()

    def _process(self, event: Event) -> None:
        if isinstance(event, Shutdown):
            self._shutting_down = self.context.is_shutdown = True
        if isinstance(event, _Include):
            self._visit_all([event.description])
        for handler in tuple(self.context.event_handlers):
            if handler.matches(event):
                self.context.push_locals()
                try:
                    self._visit_all(entities_of(handler.handle(event, self.context)))
                finally:
                    self.context.pop_locals()

    def _visit_all(self, entities: Sequence[LaunchDescriptionEntity]) -> None:
        for entity in entities:
            self._visit_all(entities_of(entity.visit(self.context)))

    def _fail(self, error: Exception) -> None:
        sentence = _sentence_on(error)
        self._to_start.clear()
        self._return_code = 1
        if launch_config.level <= logging.DEBUG:
            self._logger.debug(traceback.format_exc())
        self._logger.error(f"Caught exception in launch (see --debug for traceback): {sentence}")
        self._shut_down(sentence)

    def _shut_down(self, reason: str, due_to_sigint: bool = False) -> None:
        if not self._shutting_down:
            self._shutting_down = self.context.is_shutdown = True
            self.context.emit_event_sync(Shutdown(reason=reason, due_to_sigint=due_to_sigint))

    def _end_processes(self) -> None:
        for process in reversed(self._processes):
            process.end(self.context)
        self._forget_gone()  # one that was to start again is gone now, and nothing else would tell

    # Signals

    def _interrupt_visit(self) -> None:
        if self._visiting:
            raise KeyboardInterrupt

    def _on_signal(self, number: int) -> None:
        if number == signal.SIGCHLD:
            return
        if number != signal.SIGINT:
            self._logger.error(f"{signal.Signals(number).name} received: shutting down")
            self._return_code = 1
            self._shut_down(signal.Signals(number).name)
            return
        self._interrupts += 1
        what = "user interrupted with ctrl-c (SIGINT)"
        if self._interrupts == 1:
            self._logger.warning(what)
            self._shut_down("ctrl-c (SIGINT)", due_to_sigint=True)
            return
        harder = signal.SIGTERM if self._interrupts == 2 else signal.SIGKILL
        self._logger.warning(f"{what} again: sending {harder.name} to all processes")
        for process in self._processes:
            process.send(harder)

    # Processes and timers

    def _outputs(self) -> dict[int, Callable[[int], object]]:
        return {number: process.read for process in self._processes for number in process.outputs()}

    def _look_at_processes(self) -> None:
        if launch_config.screen_lost:
            self._shut_down("nobody reads the output any more")
        for process in self._processes:
            process.look(self.context)
        self._forget_gone()

    def _forget_gone(self) -> None:
        self._processes = [process for process in self._processes if not process.is_gone()]

    def _fire_timers(self) -> None:
        now = time.monotonic()
        due = [timer for timer in self._timers if timer[0] <= now and not timer[2]()]
        self._timers = [timer for timer in self._timers if timer[0] > now and not timer[2]()]
        for _, fire, _ in sorted(due, key=lambda timer: timer[0]):
            fire()

    def _seconds_to_wait(self) -> float | None:
        """Until something is to be done without a signal or output; None: for ever."""
        if self.context.events:
            return 0.0
        times = [at for at, _, _ in self._timers]
        times += [at for process in self._processes if (at := process.next_look(_POLL_S)) is not None]
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _is_done(self, shutdown_when_idle: bool) -> bool:
        idle = not (self.context.events or self._processes or self._timers or self._to_start)
        if idle and not self._shutting_down and shutdown_when_idle:
            self._shut_down("idle")  # its event is still to be handled
            return False
        return idle and self._shutting_down


def _sentence_on(error: Exception) -> str:
    """The message of an error; with its kind where Python raised it and the message alone says little."""
    kind = type(error).__name__
    if type(error).__module__ != "builtins" or isinstance(error, (RuntimeError, OSError, TypeError, ValueError)):
        return str(error) or kind
    return f"{kind}: {error}"


class _OfTimer(LaunchDescriptionEntity):
    """Stands for the entities of whatever timer has come to its end."""

    def visit(self, context: LaunchContext) -> Sequence[LaunchDescriptionEntity]:
        return context.get_locals_as_dict()["event"].timer_action.handle(context)
