"""Options of `evaluate` on a command line, for `evaluate` itself and for commands that share some of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from operator import getitem
from typing import Annotated, Any

import typer

from onboard_estimation.evaluation.options import Option, declared, from_typed

_PLACE = "options"
_CONFIGURATION = ("config", "overrides")
Command = Callable[..., None]


def taking(*names: str) -> Callable[[Command], Command]:
    """Give a command options of `evaluate`, by the names of their fields; without names, those of a configuration.

    In their place the command has an argument `options`, and gets an `EvaluateOptions` for it.
    """
    return _taking(frozenset(names or _CONFIGURATION))


def taking_all(command: Command) -> Command:
    """Give a command all of them."""
    return _taking(frozenset(name for name, _, _ in declared()))(command)


def _taking(names: frozenset[str]) -> Callable[[Command], Command]:
    def decorated(command: Command) -> Command:
        @wraps(command)
        def run(**given: Any) -> None:
            typed = {name: given.pop(name) for name in names}
            command(options=from_typed(typed), **given)

        parameters: list[inspect.Parameter] = []
        for one in inspect.signature(command, eval_str=True).parameters.values():
            if one.name == _PLACE:
                parameters += [_parameter(name, it, value) for name, it, value in declared() if name in names]
            else:
                parameters.append(one.replace(kind=inspect.Parameter.KEYWORD_ONLY))
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        return run

    return decorated


def _parameter(name: str, option: Option, value: Any) -> inspect.Parameter:
    shown = typer.Option(
        option.flag, metavar=option.metavar, help=option.help, rich_help_panel=option.panel, min=option.minimum
    )
    default = [] if option.typed == list[str] else False if option.typed is bool else value
    annotation = getitem(Annotated, (option.typed, shown))
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
