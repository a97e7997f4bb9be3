"""Names and namespaces of nodes."""

from __future__ import annotations

import re

_TOKEN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def joined(base: str | None, namespace: str | None) -> str | None:
    """Absolute namespace of a relative one below a base; an absolute one is taken as it is. None where both are None.

    Raises
    ------
    ValueError
        That is no valid namespace.
    """
    if base is None and namespace is None:
        return None
    if namespace is None:
        whole = base or "/"
    elif not base or namespace.startswith("/"):
        whole = namespace
    else:
        whole = f"{base.rstrip('/')}/{namespace}"
    whole = "/" + whole.strip("/") if not whole.startswith("//") else whole
    if whole != "/" and not all(_TOKEN.fullmatch(part) for part in whole[1:].split("/")):
        raise ValueError(f"invalid namespace '{whole}': parts are letters, digits and _, and start with no digit")
    return whole


def checked_node_name(name: str) -> str:
    """The name; ValueError where no node can be called that."""
    if not _TOKEN.fullmatch(name):
        raise ValueError(f"invalid node name '{name}': letters, digits and _, and no digit first")
    return name
