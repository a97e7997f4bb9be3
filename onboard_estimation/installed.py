"""What installed packages offer by entry points: robots, converters of recordings, commands."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from typing import Any

from onboard_estimation.errors import UserError

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
