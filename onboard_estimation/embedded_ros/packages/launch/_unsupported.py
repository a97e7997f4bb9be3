"""What is left out: asking for it says so, where a plain ImportError would look like a broken installation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NoReturn


def refuse(module: str, names: Iterable[str]) -> Callable[[str], NoReturn]:
    """A module's `__getattr__`: NotImplementedError for names that ROS 2 has and this package leaves out."""
    known = frozenset(names)

    def missing(name: str) -> NoReturn:
        if name in known:
            raise NotImplementedError(f"{module}.{name} is not supported without ROS 2")
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return missing


def reject_options(call: str, options: Iterable[str]) -> None:
    """NotImplementedError that names the call and the keyword arguments it does not take."""
    names = ", ".join(sorted(options))
    if names:
        raise NotImplementedError(f"{call}({names}=...) is not supported without ROS 2")
