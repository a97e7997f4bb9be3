"""What a shell completes beside commands and options: robots, launch files. Paths are completed by the shell itself."""

from __future__ import annotations

import typer

from onboard_estimation.installed import offered


def robots(incomplete: str) -> list[str]:
    """Robots that installed packages offer; no code of theirs is imported."""
    return [name for name in offered("onboard_estimation.robots") if name.startswith(incomplete)]


def formats(incomplete: str) -> list[str]:
    """Formats that installed packages convert."""
    return [name for name in offered("onboard_estimation.converters") if name.startswith(incomplete)]


def launch_files(context: typer.Context, incomplete: str) -> list[str]:
    """This project's launch files, where the file is asked for and not its arguments."""
    from onboard_estimation.commands.launch import project_launch_files

    if context.params.get("words"):
        return []
    return [name for name in project_launch_files() if name.startswith(incomplete)]
