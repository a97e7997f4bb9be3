"""How an option of an evaluation is declared, and how what was typed becomes its value.

Help is made of this: it imports no NumPy.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onboard_estimation.errors import UserError


def _as_it_is(value: Any) -> Any:
    return value


def _one_text(value: Any) -> Sequence[str]:
    return [str(value)]


@dataclass(frozen=True)
class Option:
    """How a field is typed, said again and recorded.

    Attributes
    ----------
    flag, help, metavar, panel
        As the command's help shows it.
    typed
        What the command line gives: `list[str]` may be repeated, `bool` is a flag that turns the default round.
    minimum
        Least number that may be typed.
    read
        The value from what was typed; UserError where it is none.
    texts
        What is to be typed for a value, one text a repetition.
    is_recorded
        It stands in `run.json`; false: the run folder holds it otherwise.
    """

    flag: str
    help: str
    typed: Any = str | None
    metavar: str | None = None
    panel: str | None = None
    minimum: int | None = None
    read: Callable[[Any], Any] = _as_it_is
    texts: Callable[[Any], Sequence[str]] = _one_text
    is_recorded: bool = True


def option(default: Any, flag: str, help: str, **more: Any) -> Any:
    """A field of a dataclass that users set; `more` as for `Option`. A default that is a type makes one of it."""
    metadata = {"option": Option(flag, help, **more)}
    if isinstance(default, type):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def parse_pairs(texts: Sequence[str], flag: str, form: str = "NAME=VALUE") -> dict[str, str]:
    """`NAME=VALUE` options as a mapping; UserError where there is no equals sign, or a name comes twice."""
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise UserError(f"{flag} {text}: write {flag} {form}")
        if name in pairs:
            raise UserError(f"{flag} {name} is given twice: {pairs[name]} and {value}")
        pairs[name] = value
    return pairs


def parse_overrides(texts: Sequence[str]) -> dict[str, Any]:
    """`NAME=VALUE` with the value in YAML, as in a parameter file."""
    import yaml

    out: dict[str, Any] = {}
    for name, value in parse_pairs(texts, "--set").items():
        try:
            out[name] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise UserError(f"--set {name}={value}: the value is no YAML") from None
    return out


def override_texts(overrides: Mapping[str, Any]) -> list[str]:
    """Each as `--set` reads it: plain where that reads back as it is."""
    import yaml

    def text(value: Any) -> str:
        plain = str(value)
        return plain if isinstance(value, str) and yaml.safe_load(plain) == value else json.dumps(value)

    return [f"{name}={text(value)}" for name, value in overrides.items()]


def read_topics(texts: Sequence[str]) -> dict[str, str]:
    """Topics of the bag by the robot's own names, of `NAME=TOPIC`."""
    return parse_pairs(texts, "--topic", "NAME=TOPIC")


def topic_texts(topics: Mapping[str, str]) -> list[str]:
    """What is to be typed for topics."""
    return [f"{relative}={topic}" for relative, topic in topics.items()]


def read_axes(text: str | None) -> str | None:
    """Axes to be turned round; UserError where they are none."""
    if text is not None and not (0 < len(set(text)) == len(text) and set(text) <= set("xyz")):
        raise UserError(f"--mirror-truth {text}: must be one or more of x, y, z, e.g. y")
    return text


def read_one_of(flag: str, *known: str) -> Callable[[str | None], str | None]:
    """Of a flag that takes one of some words: what reads it."""

    def read(text: str | None) -> str | None:
        if text is not None and text not in known:
            raise UserError(f"{flag} {text}: must be {', '.join(known[:-1])} or {known[-1]}")
        return text

    return read


def read_time(flag: str) -> Callable[[float | None], float | None]:
    """Of a flag that takes a time of 0 s or more: what reads it."""

    def read(value: float | None) -> float | None:
        if value is not None and not 0.0 <= value < math.inf:
            raise UserError(f"{flag} {value}: must be a time of 0 s or more")
        return value

    return read


def read_path(text: str | Path | None) -> Path | None:
    """A path, or none."""
    return None if text is None else Path(text)


def read_rate(text: str | None) -> float | None:
    """Hz, infinite for `all`; UserError where it is none."""
    if text is None or text == "all":
        return None if text is None else math.inf
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not 0.0 < rate < math.inf:
        raise UserError(f"--estimates-rate {text}: must be a rate in Hz above 0, or all")
    return rate


def rate_texts(rate_hz: float) -> list[str]:
    """What is to be typed for a rate."""
    return [f"{rate_hz:g}" if math.isfinite(rate_hz) else "all"]


def read_turned(flag: bool) -> bool:
    """The other of true and false."""
    return not flag
