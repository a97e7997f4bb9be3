"""What is installed: files beside the code (configurations, launch files, RViz set-ups), versions, offers of others.

Executables of a package, as `ros2 run PACKAGE EXECUTABLE` knows them, are found and started without `ros2`: they are
the console scripts of the Python distribution with the package's name, a laboratory's own as ours. Scripts themselves
are not looked for: in a source tree there are none, and with ROS 2 they are not on PATH.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, PackageNotFoundError, distributions, entry_points, version
from importlib.resources import files
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from typing import Any

from onboard_estimation.base.errors import UserError

PACKAGE = "onboard_estimation"
_SCRIPTS = "console_scripts"
# Ctrl-C while this package is still imported, which takes a while on a busy machine, ends it without a traceback.
_START = (
    "import os, signal; signal.signal(signal.SIGINT, lambda *_: os._exit(0)); "
    "from onboard_estimation.base.installed import run_executable; run_executable()"
)


def resource(name: str, package: str = PACKAGE) -> Path:
    """Path of a resource, e.g. `config/salp.yaml`, of this or another package; of the folder of all of them: `""`.

    It is the one that belongs to the code that runs: of the source tree for an editable or symlinked installation, so
    that an edit counts at once; else of the prefix that pip or colcon installed into. ament's index comes last, since a
    sourced workspace may hold another version than the one that runs.

    Raises
    ------
    UserError
        It is nowhere; the message names the places.
    """
    places = []
    for place in _places(name, package):
        if place.exists():
            return place
        places.append(str(place))
    raise UserError(f"{f'resource {name}' if name else package} not found; looked at {', '.join(places) or 'nothing'}")


def packaged_text(package: str, name: str) -> str:
    """Text of a file that lies among the modules of a package, e.g. the report's style sheet.

    Raises
    ------
    UserError
        It is not there: whoever built or copied this installation left it out.
    """
    file = Path(str(files(package).joinpath(name)))
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        reason = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
        raise UserError(f"this installation of {PACKAGE} is incomplete: {file} {reason}; install it anew") from error


def _places(name: str, package: str) -> Iterator[Path]:
    spec = find_spec(package) if package.isidentifier() else None
    if spec is not None and spec.origin is not None:
        code = Path(spec.origin).resolve().parent.parent
        if (code / "package.xml").is_file():
            yield code / name
            return
        # Of <prefix>/lib/python3.12/site-packages, or one folder deeper; `pip install --target` has it beside.
        for prefix in (code, *code.parents[:4]):
            yield prefix / "share" / package / name
    try:
        from ament_index_python.packages import get_package_share_directory

        yield Path(get_package_share_directory(package)) / name
    except (ImportError, LookupError, ValueError, OSError):  # no ROS 2, no workspace is sourced or has it, no such name
        return


# What installed packages offer by entry points: robots, converters of recordings, commands.

IN_EXAMPLES = dict.fromkeys(
    ("actuated-pendulum", "pendulum", "pyshoe", "quadruped", "soft-arm", "triple-pendulum", "two-link-imu", "two_link"),
    "recorded_robots",
)
"""Robots and formats of packages below `examples/` in the source tree, which are installed by themselves."""


@cache
def _points(group: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=group)}


def offered(group: str) -> list[str]:
    """Names that installed packages offer in a group; no code of theirs is imported."""
    return sorted(_points(group))


def load(group: str, kind: str, name: str, expected: type = object) -> Any:
    """What a name of a group stands for; `kind` says in sentences what that is, e.g. `robot`.

    Raises
    ------
    UserError
        No package offers it, it cannot be imported, or it is not of the expected type.
    """
    points = _points(group)
    if name not in points:
        example = f"; it comes with: pip install ./examples/{IN_EXAMPLES[name]}" if name in IN_EXAMPLES else ""
        raise UserError(f"no {kind} {name!r}{example}; installed are: {', '.join(offered(group)) or 'none'}")
    try:
        found = points[name].load()
    except (ImportError, AttributeError) as error:
        raise UserError(f"{kind} {name!r} cannot be loaded from {points[name].value!r}: {error}") from error
    if not isinstance(found, expected):
        what = f"entry point {points[name].value!r} of {kind} {name!r}"
        raise UserError(f"{what} is no {expected.__name__} but {type(found).__name__}")
    return found


def optional(module: str, package: str, extra: str, remedy: str = "") -> Any:
    """A module of a package that not everybody needs.

    Parameters
    ----------
    extra
        Of this package, that brings it along.
    remedy
        What else may be done; begins with a comma, a semicolon or a bracket.

    Raises
    ------
    UserError
        It is not there, or its binary is for another machine; with the way to get it.
    """
    try:
        return import_module(module)
    except (ImportError, OSError) as error:
        way = f"pip install 'onboard_estimation[{extra}]'{remedy}"
        raise UserError(f"{package} cannot be loaded ({error}): {way}") from error


def package_of(group: str, name: str) -> str:
    """The package, by its ROS name, that offers a name of a group; empty where that is not known."""
    point = _points(group).get(name)
    return point.dist.name.replace("-", "_") if point is not None and point.dist is not None else ""


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Of packages by name, in words where one is not installed."""
    found = {}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def executables(package: str = PACKAGE) -> dict[str, str]:
    """Entry points `module:function` of a package's executables by name; empty where it has none or is not there.

    A source tree where the program starts may hold older metadata (`.egg-info`) than the installation, so all that is
    there counts, and the installation's first.
    """
    found: dict[str, str] = {}
    for one in sorted(distributions(name=package), key=lambda one: one.read_text("METADATA") is None):
        for point in one.entry_points:
            if point.group == _SCRIPTS:
                found.setdefault(point.name, point.value)
    return dict(sorted(found.items()))


def command(executable: str, package: str = PACKAGE) -> list[str]:
    """How that executable is started, without its arguments. Raises as `entry_point` does."""
    return [sys.executable, "-c", _START, entry_point(executable, package)]


def entry_point(executable: str, package: str = PACKAGE) -> str:
    """The `module:function` of that executable.

    Raises
    ------
    UserError
        The package has no such executable; the message lists those it has.
    """
    there = executables(package)
    if executable not in there:
        listed = ", ".join(there) or "none"
        raise UserError(f"no executable '{executable}' in package '{package}'; it has: {listed}")
    return there[executable]


def run_executable() -> None:
    """Run the entry point that the first argument names; the others are left in `sys.argv` for it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    module, _, path = sys.argv.pop(1).partition(":")
    sys.argv[0] = path.rpartition(".")[2]
    try:
        sys.exit(attrgetter(path)(import_module(module))())
    except KeyboardInterrupt:  # while it was imported
        sys.exit(0)
