"""What a file holds as dataclasses: the annotation of each field says what is allowed; all faults are found at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

MOST = 256
"""Of elements in a list or a mapping."""


class Allowed(NamedTuple):
    """Of a single value, in an annotation: what is allowed, in words, and whether a value is."""

    words: str
    accepts: Callable[[Any], bool]


def whole(least: int, most: int) -> Allowed:
    """A whole number within limits."""
    return Allowed(
        f"a whole number from {least:#x} to {most:#x}", lambda one: type(one) is int and least <= one <= most
    )


def number(least: float = -math.inf, most: float = math.inf) -> Allowed:
    """A finite number within limits."""
    words = "a number" if least == -math.inf else f"a number from {least:g} to {most:g}"
    return Allowed(words, lambda one: type(one) in (int, float) and abs(one) < 1e300 and least <= one <= most)


def one_of(names: Collection[str]) -> Allowed:
    """One of these texts."""
    return Allowed(f"one of {', '.join(names)}", lambda one: isinstance(one, str) and one in names)


Flag = Annotated[bool, Allowed("true or false", lambda one: isinstance(one, bool))]
Number = Annotated[float, number()]
Text = Annotated[str, Allowed("a text", lambda one: isinstance(one, str) and 0 < len(one) <= 200 and one.isprintable())]
_LIST = Allowed(f"a list of at most {MOST}", lambda one: isinstance(one, list) and len(one) <= MOST)
_MAPPING = Allowed(f"a mapping of at most {MOST}", lambda one: isinstance(one, Mapping) and len(one) <= MOST)


def read(kind: Any, content: Any, faults: list[str], where: str = "") -> Any:
    """What the file has at a place, as its annotation says; None where it is wrong, and why is added to `faults`.

    Parameters
    ----------
    kind
        A dataclass, `Annotated` with `Allowed`, a `tuple[..., ...]` or `dict` of these, or a union of one with a
        dataclass or None.
    """
    origin, of = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        if content is None and NoneType in of:
            return None
        # A mapping is meant for the dataclass, anything else for the other.
        likely = sorted(set(of) - {NoneType}, key=lambda one: is_dataclass(one) != isinstance(content, Mapping))
        return read(likely[0], content, faults, where)
    if origin is Annotated:
        value = _checked(of[1], content, faults, where)
        return float(value) if of[0] is float and value is not None else value
    if origin is tuple:
        rows = _checked(_LIST, content, faults, where) or ()
        return tuple(read(of[0], one, faults, f"{where}[{place}]") for place, one in enumerate(rows))
    if origin is dict:
        rows = _checked(_MAPPING, content, faults, where) or {}
        return {
            read(of[0], _name(of[0], name), faults, where): read(of[1], one, faults, f"{where}[{name}]")
            for name, one in rows.items()
        }
    return _record(kind, content, faults, where)


def _record(kind: Any, content: Any, faults: list[str], where: str) -> Any:
    """A dataclass; what is null is as if it were not there."""
    hints, listed = _hints(kind), ", ".join(_hints(kind))
    if _checked(Allowed(f"a mapping with {listed}", _MAPPING.accepts), content, faults, where or "file") is None:
        return None
    strange = [str(name)[:40] for name in content if name not in hints]
    faults += [f"{where or 'file'}: {name!r} is unknown; known: {listed}" for name in strange]
    required = {one.name for one in fields(kind) if one.default is MISSING and one.default_factory is MISSING}
    return kind(
        **{
            name: read(hint, content.get(name), faults, f"{where}.{name}".lstrip("."))
            for name, hint in hints.items()
            if name in required or content.get(name) is not None
        }
    )


def _checked(allowed: Allowed, content: Any, faults: list[str], where: str) -> Any:
    if allowed.accepts(content):
        return content
    given = "nothing" if content is None else type(content).__name__
    if isinstance(content, (str, int, float)):
        given = repr(content) if not isinstance(content, int) or abs(content) < 2**70 else "a huge number"
    faults.append(f"{where}: {given[:80]} is not allowed; has to be {allowed.words}")
    return None


def _name(kind: Any, name: Any) -> Any:
    """Of an element of a mapping: the file's names are texts, also those that stand for whole numbers."""
    with suppress(ValueError):
        return int(name, 0) if get_args(kind)[0] is int else name
    return name


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)
