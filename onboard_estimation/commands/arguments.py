"""What several commands are asked: robots, workers, options of `evaluate`; and what a shell completes of it.

Paths are completed by the shell itself.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from importlib.util import find_spec
from operator import getitem
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onboard_estimation.base.atomic_file import check_output
from onboard_estimation.base.installed import offered
from onboard_estimation.commands import output
from onboard_estimation.judging.options import EvaluateOptions, Option, declared, from_typed

if TYPE_CHECKING:
    from onboard_estimation.base.workers import Workers


def argument(metavar: str, help: str, **more: Any) -> Any:
    """A word of the command line that no option names; more as `typer.Argument` takes it."""
    return typer.Argument(metavar=metavar, help=help, **more)


def option(metavar: str, help: str, *flags: str, **more: Any) -> Any:
    """An option with a value, under its parameter's name or these."""
    return typer.Option(*flags, metavar=metavar, help=help, **more)


def flag(help: str, *flags: str, **more: Any) -> Any:
    """An option without a value."""
    return typer.Option(*flags, help=help, **more)


JsonOption = Annotated[bool, flag("Print JSON instead of tables and sentences.", "--json")]


def robots(incomplete: str) -> list[str]:
    """Robots that installed packages offer; no code of theirs is imported."""
    return [name for name in offered("onboard_estimation.robots") if name.startswith(incomplete)]


RobotsArgument = Annotated[list[str] | None, argument("ROBOT...", "Robots; all otherwise.", autocompletion=robots)]
RobotArgument = Annotated[
    str, argument("ROBOT", "Robot, e.g. `salp`; see `onboard-estimation robots`.", autocompletion=robots)
]
RobotOption = Annotated[
    str | None, option("ROBOT", "Robot, see `onboard-estimation robots`; otherwise guessed.", autocompletion=robots)
]
EstimatorOption = Annotated[
    str | None, option("NAME", "Estimator; the robot's first otherwise, see `onboard-estimation robots`.")
]


def into(metavar: str, help: str, **kind: Any) -> Any:
    """The option that says where a command writes: tried before the command begins, see `check_output`."""

    def checked(path: Path | None) -> Path | None:
        if path is not None:
            check_output(path, **kind)
        return path

    return option(metavar, help, "--output", "-o", callback=checked)


def formats(incomplete: str) -> list[str]:
    """Formats that installed packages convert."""
    return [name for name in offered("onboard_estimation.converters") if name.startswith(incomplete)]


Command = Callable[..., None]


def taking(*names: str) -> Callable[[Command], Command]:
    """Give a command options of `evaluate`, by the names of their fields; without names, those of a configuration.

    In their place the command has an argument `options`, and gets an `EvaluateOptions` for it.
    """
    return _taking("options", EvaluateOptions(), names or ("config", "overrides"))


def taking_settings(settings: Any, place: str = "settings") -> Callable[[Command], Command]:
    """Give a command all options that the class of these settings declares, in the place of this argument."""
    return _taking(place, settings, [name for name, _, _ in declared(settings)])


def _taking(place: str, base: Any, names: Collection[str]) -> Callable[[Command], Command]:
    def decorated(command: Command) -> Command:
        @wraps(command)
        def run(**given: Any) -> None:
            typed = {name: given.pop(name) for name in names}
            command(**{place: from_typed(typed, base)}, **given)

        parameters: list[inspect.Parameter] = []
        for one in inspect.signature(command, eval_str=True).parameters.values():
            if one.name == place:
                parameters += [_parameter(name, it, value) for name, it, value in declared(base) if name in names]
            else:
                parameters.append(one.replace(kind=inspect.Parameter.KEYWORD_ONLY))
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        return run

    return decorated


def _parameter(name: str, option: Option, value: Any) -> inspect.Parameter:
    flags, panel = (option.flag, *option.other_flags), option.panel
    shown = typer.Option(*flags, metavar=option.metavar, help=option.help, rich_help_panel=panel, min=option.minimum)
    default = [] if option.typed == list[str] else False if option.typed is bool else value
    annotation = getitem(Annotated, (option.typed, shown))
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


taking_all = taking_settings(EvaluateOptions(), "options")
"""Give a command all options of `evaluate`."""


_working = partial(option, rich_help_panel="Who does the work")
_ALONE = "0: this process alone, without Dask."
WorkersOption = Annotated[
    int | None, _working("N", f"Processes of this machine; {_ALONE} One a core otherwise.", min=0)
]
FewWorkersOption = Annotated[int, _working("N", f"Processes of this machine that share the work; {_ALONE}", min=0)]
"""Of work that one process does in a minute."""
_CLUSTER = "Workers of a Dask cluster, e.g. `tcp://10.0.0.5:8786`; bags are read where the workers are."
SchedulerOption = Annotated[str | None, _working("ADDRESS", _CLUSTER)]


@contextmanager
def working(workers: int | None, scheduler: str | None, tasks: int, quiet: bool) -> Iterator[Workers]:
    """The workers asked for; of this machine no more than there are tasks, and this process alone for one task."""
    from onboard_estimation.base.workers import HINT, open_workers

    if workers is None:
        workers = min(os.cpu_count() or 1, tasks)
        workers = 0 if workers == 1 else workers
        if workers and scheduler is None and find_spec("distributed") is None:
            output.note(f"Dask is not installed ({HINT}): one run after the other", quiet)
            workers = 0
    with open_workers(workers, scheduler) as team:
        yield team


def configured(name: str, options: Any, bag: Path | None = None, ability: Any = None) -> tuple[Any, Any]:
    """A robot, which must have some ability where one is named, and its configuration, see `load_configuration`."""
    from onboard_estimation.contract.robot import find_robot
    from onboard_estimation.judging.sources import load_configuration

    robot = find_robot(name) if ability is None else ability.of(find_robot(name))
    return robot, load_configuration(robot, options, bag)
