"""`onboard-estimation new robot NAME`: a package for a robot of one's own, that works from the start.

The files lie in `templates/robot`, with `$name` and `$Name` in the place of the robot's name.
"""

from __future__ import annotations

import keyword
import re
import shlex
import tempfile
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from onboard_estimation.commands import output
from onboard_estimation.errors import UserError, disk_fault
from onboard_estimation.resources import packaged_text

EXAMPLES = output.examples("new robot crawler", "new robot crawler --output my_lab/crawler")
LONGEST_NAME = 24
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_FILES = {
    "README.md": "README.md",
    "package.xml": "package.xml",
    "setup.py": "setup.py",
    "setup.cfg": "setup.cfg",
    "config.yaml": "config/{name}.yaml",
    "robot.py": "{name}_estimation/robot.py",
    "nodes.py": "{name}_estimation/nodes.py",
    "main.py": "{name}_estimation/main.py",
    "live.launch.py": "launch/{name}.launch.py",
    "replay.launch.py": "launch/{name}_replay.launch.py",
    "test_robot.py": "test/test_{name}.py",
}

app = typer.Typer(help="Begin something of your own.", no_args_is_help=True, rich_markup_mode="markdown")


@app.command("robot", epilog=EXAMPLES)
def robot(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="What the robot is called: small letters and underscores.")
    ],
    folder: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FOLDER", help="Folder to write; `./NAME` otherwise.")
    ] = None,
) -> None:
    """Write a package for a robot of your own that works from the start, to be changed file by file.

    A cart on a rail, until you change it: parameters, a filter, a simulator, node, launch files, and tests of the
    contract. It builds with pip and with colcon. See docs/your_robot.md.
    """
    place = folder or Path(name)
    written = write_package(name, place)
    output.say(f"{place}: {len(written)} files; the robot is in {name}_estimation/robot.py")
    where = shlex.quote(str(place))
    output.say(f"next: python -m pip install --editable {where}")
    output.say(f"then: {output.program()} simulate {name} --output bag; {output.program()} evaluate bag")
    output.say(f"      python -m pytest {where}/test")


def refuse_name(name: str) -> None:
    """Raise UserError where a robot cannot be called so."""
    from onboard_estimation.robots import robot_names

    if not _NAME.fullmatch(name) or keyword.iskeyword(name) or len(name) > LONGEST_NAME:
        raise UserError(
            f"a robot cannot be called {name!r}: small letters, digits and single underscores, a letter first, "
            f"{LONGEST_NAME} characters at most, e.g. crawler"
        )
    if name in robot_names():
        raise UserError(f"there is a robot {name} already; choose another name")
    for package in (name, f"{name}_estimation"):
        if find_spec(package) is not None:
            raise UserError(f"a package {package} is installed already: choose another name")


def files_of(name: str) -> dict[str, str]:
    """Text of every file of a robot's package, by path."""
    camel = "".join(part.capitalize() for part in name.split("_"))
    found = {
        path.format(name=name): Template(packaged_text("onboard_estimation", f"templates/robot/{part}.template"))
        for part, path in _FILES.items()
    }
    return {
        **{path: template.substitute(name=name, Name=camel) for path, template in found.items()},
        f"{name}_estimation/__init__.py": f'"""The robot {name}."""\n',
        f"resource/{name}_estimation": "",
    }


def write_package(name: str, folder: Path) -> list[str]:
    """Write the package into a folder that is not there yet; the paths of its files.

    Raises
    ------
    UserError
        The name cannot be one, or the folder is there or cannot be written.
    """
    refuse_name(name)
    if folder.exists():
        raise UserError(f"{folder} exists already; name another --output")
    files = files_of(name)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=folder.parent) as workshop:
            place = Path(workshop) / "package"
            for path, text in files.items():
                (place / path).parent.mkdir(parents=True, exist_ok=True)
                (place / path).write_text(text, encoding="utf-8")
            place.replace(folder)
    except OSError as error:
        raise UserError(f"cannot write {folder}: {disk_fault(error, folder)}") from error
    return list(files)
