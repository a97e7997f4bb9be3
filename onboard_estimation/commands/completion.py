"""What a shell completes beside commands and options: robots, launch files. Paths are completed by the shell itself."""

from __future__ import annotations

from importlib.metadata import entry_points

import typer


def robots(incomplete: str) -> list[str]:
    """Robots that installed packages offer; no code of theirs is imported."""
    names = {entry.name for entry in entry_points(group="onboard_estimation.robots")}
    return sorted(name for name in names if name.startswith(incomplete))


def launch_files(context: typer.Context, incomplete: str) -> list[str]:
    """This project's launch files, where the file is asked for and not its arguments."""
    from onboard_estimation.commands.launch import project_launch_files

    if context.params.get("words"):
        return []
    return [name for name in project_launch_files() if name.startswith(incomplete)]
