"""Options that are left out: giving one says so."""

from __future__ import annotations

from collections.abc import Iterable


def reject_options(call: str, options: Iterable[str]) -> None:
    """NotImplementedError that names the call and the keyword arguments it does not take."""
    names = ", ".join(sorted(options))
    if names:
        raise NotImplementedError(f"{call}({names}=...) is not supported without ROS 2")
