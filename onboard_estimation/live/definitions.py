"""Definitions of message types as a bag holds them, so that a bag can be read where the types are not installed."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from rosbags.typesys import get_types_from_msg

from onboard_estimation.evaluation.bag_types import jazzy_types
from onboard_estimation.evaluation.message_factory import type_hash

_TYPE = re.compile(r"([a-z][a-z0-9_]*)/msg/([A-Za-z]\w*)", re.ASCII)
_SEPARATOR = "=" * 80
_MOST_TYPES = 200


@cache
def definition(message_type: str) -> str:
    """The text of the type and of all types in it; empty where neither the standard types nor ament have it."""
    if message_type in jazzy_types().fielddefs:
        return jazzy_types().generate_msgdef(message_type, ros_version=2)[0]
    texts: dict[str, str] = {}
    waiting = [message_type]
    while waiting:
        name = waiting.pop(0)
        if name in texts:
            continue
        text = _installed(name)
        if text is None or len(texts) >= _MOST_TYPES:
            return ""
        texts[name] = text
        waiting += _parts(name, text)
    own = texts.pop(message_type)
    short = {name: name.replace("/msg/", "/") for name in texts}
    return "\n".join([own, *(f"{_SEPARATOR}\nMSG: {short[name]}\n{text}" for name, text in texts.items())])


def standard_type_hash(message_type: str) -> str | None:
    """Hash of a standard type; None of another, which only its publishers can tell."""
    return type_hash(message_type) if message_type in jazzy_types().fielddefs else None


def _installed(message_type: str) -> str | None:
    """The `.msg` file of a package that ament knows."""
    parts = _TYPE.fullmatch(message_type)
    if parts is None:
        return None
    try:
        from ament_index_python.packages import get_package_share_directory

        file = Path(get_package_share_directory(parts[1])) / "msg" / f"{parts[2]}.msg"
        return file.read_text("utf-8")
    except (ImportError, LookupError, OSError, UnicodeDecodeError):
        return None


def _parts(name: str, text: str) -> list[str]:
    """Names of the types of a definition's fields."""
    try:
        found = get_types_from_msg(text, name)
    except Exception:  # whatever the parser makes of a text that it does not understand
        return []
    return sorted(set(re.findall(r"[a-z][a-z0-9_]*/msg/[A-Za-z]\w*", repr(found[name][1]))))
