"""What is installed: files beside the code (configurations, launch files, RViz set-ups), versions, offers of others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from onboard_estimation.base.errors import UserError

PACKAGE = "onboard_estimation"


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
