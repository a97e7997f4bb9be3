"""What launch descriptions are made of, and how they become a plan; names and meaning are those of ROS 2's `launch`."""

from __future__ import annotations

import os
import runpy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from onboard_estimation.base.errors import UserError


class NeedsRos2Launch(UserError):
    """A launch file uses what only ROS 2's own launch has."""

    def __init__(self, what: str) -> None:
        super().__init__(f"it needs `ros2 launch`, for {what}: the launcher of this project knows less than ROS 2's")


@dataclass
class Process:
    """A program to start.

    Attributes
    ----------
    name
        Before the lines of its output: the program's with a number.
    command
        Program and arguments, but for parameters and remappings, which follow them.
    parameters
        In their order: paths of files, and values by name.
    parameters_for
        Which node the values are for.
    """

    name: str
    command: list[str]
    environment: dict[str, str]
    cwd: str | None = None
    on_exit: Any = None
    respawn: bool = False
    respawn_delay_s: float = 0.0
    parameters: list[str | dict[str, Any]] = field(default_factory=list)
    parameters_for: str = "/**"
    remappings: list[tuple[str, str]] = field(default_factory=list)


class LaunchContext:
    """What a description sees while it is evaluated, and what came of it beside the plan.

    Attributes
    ----------
    declared, faults
        Arguments of the launch by name, and what is wrong with their values: it is said of all together.
    """

    def __init__(self, arguments: Mapping[str, str], environment: Mapping[str, str]) -> None:
        self.launch_configurations: dict[str, Any] = dict(arguments)
        self.environment = dict(environment)
        self.is_shutdown = False
        self.declared: dict[str, DeclareLaunchArgument] = {}
        self.faults: list[str] = []
        self.processes = 0


def plan(entity: Any, context: LaunchContext) -> list[Process | LogInfo | Shutdown]:
    """What an entity, several or none amount to: processes, and lines and ends whose texts are known."""
    if isinstance(entity, Action):
        return (entity.steps(context) or []) if entity.condition is None or entity.condition.evaluate(context) else []
    several = entity.initial_entities if isinstance(entity, LaunchDescription) else entity
    if isinstance(several, str) or not isinstance(several, Iterable | None):
        raise TypeError(f"{several!r} is nothing that can be launched")
    return [step for one in several or () for step in plan(one, context)]


def read(path: Path) -> Any:
    """The description that a launch file makes."""
    if path.suffix != ".py":
        raise NeedsRos2Launch(f"a launch file that is not in Python ({path.name})")
    return runpy.run_path(str(path))["generate_launch_description"]()


def text(value: Any, context: LaunchContext) -> str:
    """What text, a substitution, or several of both that are joined, becomes."""
    if isinstance(value, Substitution):
        return value.perform(context)
    if isinstance(value, str | os.PathLike):
        return os.fspath(value)
    return "".join(text(one, context) for one in value)


def is_true(value: Any, context: LaunchContext) -> bool:
    """A truth value, or text that says one."""
    said = str(value) if isinstance(value, bool) else text(value, context)
    if (said := said.strip().lower()) not in ("true", "1", "false", "0"):
        raise ValueError(f"'{said}' is neither true nor false")
    return said in ("true", "1")


class Entity:
    """A dataclass that refuses options which only ROS 2's own launch has."""

    def __init_subclass__(cls) -> None:
        dataclass(eq=False)(cls)

    def __new__(cls, *args: Any, **options: Any) -> Any:
        """An instance, if all options are known."""
        for name in options.keys() - {one.name for one in fields(cls)}:  # type: ignore[arg-type]
            raise NeedsRos2Launch(f"{cls.__name__}({name}=...)")
        return super().__new__(cls)


class Substitution(Entity):
    """Text that is known only when the launch starts."""

    def perform(self, context: LaunchContext) -> Any:
        """The text."""


class TextSubstitution(Substitution):
    """Text as it is."""

    text: str

    def perform(self, context: LaunchContext) -> str:
        """The text."""
        return self.text


class LaunchConfiguration(Substitution):
    """The value of an argument."""

    variable_name: Any
    default: Any = None

    def perform(self, context: LaunchContext) -> str:
        """The value, else the default."""
        name = text(self.variable_name, context)
        value = context.launch_configurations.get(name, self.default)
        if value is None:
            raise LookupError(f"launch configuration '{name}' does not exist")
        return str(value) if isinstance(value, bool | int | float) else text(value, context)


class PathJoinSubstitution(Substitution):
    """A path of parts."""

    substitutions: Sequence[Any]

    def perform(self, context: LaunchContext) -> str:
        """The path."""
        return str(Path(*(text(one, context) for one in self.substitutions)))


class IfCondition(Entity):
    """Holds where a text is `true` or `1`."""

    predicate_expression: Any

    def evaluate(self, context: LaunchContext) -> bool:
        """Whether it holds."""
        return is_true(self.predicate_expression, context)


class UnlessCondition(IfCondition):
    """Holds where the other does not."""

    def evaluate(self, context: LaunchContext) -> bool:
        """Whether it holds."""
        return not super().evaluate(context)


class LaunchDescription(Entity):
    """What a launch file returns."""

    initial_entities: Iterable[Any] | None = None

    def add_action(self, action: Action) -> None:
        """One more."""
        self.initial_entities = [*(self.initial_entities or ()), action]


class Action(Entity):
    """Something that a launch does, where its condition holds."""

    condition: Any = field(default=None, kw_only=True)

    def steps(self, context: LaunchContext) -> Any:
        """What it adds to the plan; or it changes the context."""


class DeclareLaunchArgument(Action):
    """An argument of the launch."""

    name: str
    default_value: Any = None
    description: str = "no description given"
    choices: Sequence[str] | None = None

    def steps(self, context: LaunchContext) -> Any:
        """Its default, where it was not given."""
        given = context.launch_configurations
        context.declared.setdefault(self.name, self)
        if self.name not in given and self.default_value is not None:
            given[self.name] = text(self.default_value, context)
        if self.name not in given:
            context.faults.append(f"argument {self.name}:=... is missing: {self.description}")
        elif self.choices is not None and (value := given[self.name]) not in self.choices:
            context.faults.append(f'argument {self.name}:="{value}" is none of {", ".join(self.choices)}')


class SetEnvironmentVariable(Action):
    """A variable for the programs that are started after it."""

    name: Any
    value: Any

    def steps(self, context: LaunchContext) -> Any:
        """Nothing but the variable."""
        context.environment[text(self.name, context)] = text(self.value, context)


class GroupAction(Action):
    """Several, which keep what they set to themselves."""

    actions: Iterable[Any]
    scoped: bool = True

    def steps(self, context: LaunchContext) -> Any:
        """Theirs."""
        before = dict(context.launch_configurations), dict(context.environment)
        steps = plan(self.actions, context)
        if self.scoped:
            context.launch_configurations, context.environment = before
        return steps


class PythonLaunchDescriptionSource(Entity):
    """Where a launch file is."""

    launch_file_path: Any


class IncludeLaunchDescription(Action):
    """Another launch file."""

    launch_description_source: PythonLaunchDescriptionSource
    launch_arguments: Iterable[tuple[Any, Any]] | None = None

    def steps(self, context: LaunchContext) -> Any:
        """Those of the other file."""
        for name, value in self.launch_arguments or ():
            context.launch_configurations[text(name, context)] = text(value, context)
        return plan(read(Path(text(self.launch_description_source.launch_file_path, context))), context)


class OpaqueFunction(Action):
    """A function that returns what to launch."""

    function: Callable[..., Any]
    args: Iterable[Any] = ()
    kwargs: Mapping[str, Any] | None = None

    def steps(self, context: LaunchContext) -> Any:
        """Those of what it returns."""
        return plan(self.function(context, *self.args, **(self.kwargs or {})), context)


class LogInfo(Action):
    """A line for the user."""

    msg: Any

    def steps(self, context: LaunchContext) -> Any:
        """The line."""
        return [LogInfo(msg=text(self.msg, context))]


class Shutdown(Action):
    """The end of the launch."""

    reason: Any = "the launch file asked for it"

    def steps(self, context: LaunchContext) -> Any:
        """The end."""
        return [Shutdown(reason=text(self.reason, context))]


class Program(Action):
    """What processes and nodes have in common."""

    additional_env: Mapping[Any, Any] | None = field(default=None, kw_only=True)
    cwd: Any = field(default=None, kw_only=True)
    emulate_tty: Any = field(default=None, kw_only=True)  # what it is for, lines at once, comes without it
    on_exit: Any = field(default=None, kw_only=True)
    output: Any = field(default=None, kw_only=True)  # there is no log file: all is shown
    respawn: Any = field(default=False, kw_only=True)
    respawn_delay: float | None = field(default=None, kw_only=True)

    def process(self, label: str, command: list[str], context: LaunchContext) -> Process:
        """The step of a program whose command line is known."""
        context.processes += 1
        name, cwd = f"{Path(label).name}-{context.processes}", None if self.cwd is None else text(self.cwd, context)
        own = {text(name, context): text(value, context) for name, value in (self.additional_env or {}).items()}
        environment = {"PYTHONUNBUFFERED": "1", **context.environment, **own}  # else what it prints comes at its end
        again = is_true(self.respawn, context)
        return Process(name, command, environment, cwd, self.on_exit, again, self.respawn_delay or 0.0)


class ExecuteProcess(Program):
    """A program."""

    cmd: Iterable[Any]
    name: Any = None

    def steps(self, context: LaunchContext) -> Any:
        """The program's start."""
        command = [text(part, context) for part in self.cmd]
        return [self.process(text(self.name or command[0], context), command, context)]
