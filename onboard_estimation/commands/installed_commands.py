"""Commands that packages of robots bring along, by entry points of the group `onboard_estimation.commands`.

    entry_points={"onboard_estimation.commands": ["spin = our_package.spin_command:app"]}

names a `typer.Typer` with one command or more. It is imported when it is asked for, or when all are listed: a module
that imports NumPy only where it needs it keeps `--help` quick.
"""

from __future__ import annotations

from typing import Any

import typer
import typer.core
import typer.main

from onboard_estimation.errors import UserError
from onboard_estimation.installed import load, offered

GROUP = "onboard_estimation.commands"


class Commands(typer.core.TyperGroup):
    """The project's own commands, then those of installed packages; a name that is taken stays with the project."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All names, for the help and the completion."""
        return list(dict.fromkeys([*super().list_commands(ctx), *offered(GROUP)]))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name; None where there is none."""
        found = super().get_command(ctx, cmd_name)
        if found is None and cmd_name in offered(GROUP):
            found = self.commands[cmd_name] = _command(cmd_name)
        return found


def _command(name: str) -> Any:
    """A package's command; where it cannot be loaded, one that says so: it must not hide the others."""
    try:
        app = load(GROUP, "command", name, typer.Typer)
    except UserError as error:
        app = _broken(error)
    command = typer.main.get_command(app)
    command.name = name
    return command


def _broken(error: UserError) -> typer.Typer:
    app = typer.Typer()

    @app.command(help=str(error), context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
    def broken() -> None:
        raise error

    return app
