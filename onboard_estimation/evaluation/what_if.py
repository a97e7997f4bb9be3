"""What-if changes to a user's own bag: leave out sensors, delay their stamps, add biases and noise."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from onboard_estimation.errors import UserError
from onboard_estimation.evaluation.options import WhatIf, is_part
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, component_names
from onboard_estimation.series import Series

_DURATION = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*([^\W\d]*)")
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
_LONGEST_DELAY_S = 3600.0


def changed_series(series: Sequence[Series], what_if: WhatIf) -> list[Series]:
    """Changed copies; those that are dropped are left out.

    Raises
    ------
    UserError
        A change that names no sensor or component of these series, or has no number.
    """
    out = list(series)
    for name in what_if.drop:
        dropped = _matching(out, name, "--drop")
        out = [one for one in out if one not in dropped]
    for text in what_if.delay:
        sensor, value = _split(text, "--delay")
        shift = _delay_ns(text, value)
        for one in _matching(out, sensor, "--delay"):
            out[out.index(one)] = replace(one, stamps_ns=one.stamps_ns + shift)
    for text in what_if.bias:
        for place, columns, offset in _components(out, text, "--bias"):
            values = out[place].values.copy()
            values[:, columns] += offset
            out[place] = replace(out[place], values=values)
    rng = np.random.default_rng(what_if.seed)
    for text in what_if.noise:
        for place, columns, stddev in _components(out, text, "--noise", least=0.0):
            values = out[place].values.copy()
            values[:, columns] += rng.normal(0.0, stddev, (len(values), len(columns)))
            out[place] = replace(out[place], values=values)
    return out


def parse_duration(text: str) -> float:
    """Seconds from `20ms`, `0.02s`, `500us`; a number alone is refused, for it may be meant in any of them."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise UserError(f"{text!r} is no time; write 20ms, 0.02s or 500us")
    number, unit = found.groups()
    if not unit:
        raise UserError(f"{text!r} has no unit; write {number}ms, {number}s or {number}us")
    if unit not in _SECONDS:
        raise UserError(f"{unit!r} is no unit of time; write {number}ms, {number}s or {number}us")
    return float(number) * _SECONDS[unit]


def _delay_ns(text: str, value: str) -> int:
    try:
        seconds = parse_duration(value)
    except UserError as error:
        raise UserError(f"--delay {text}: {error}") from None
    if abs(seconds) > _LONGEST_DELAY_S:
        raise UserError(f"--delay {text}: must be at most {_LONGEST_DELAY_S:g} s either way")
    return round(seconds * NANOSECONDS_PER_SECOND)


def _matching(series: Iterable[Series], name: str, option: str) -> list[Series]:
    series = list(series)
    found = [one for one in series if is_part(one.channel.sensor, name)]
    if not found:
        raise UserError(f"{option} {name}: no such sensor; there are {', '.join(one.channel.sensor for one in series)}")
    return found


def _split(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise UserError(f"{option} {text}: write {option} SENSOR=VALUE")
    return name, value


def _components(
    series: Sequence[Series], text: str, option: str, least: float = -math.inf
) -> list[tuple[int, list[int], float]]:
    name, value = _split(text, option)
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"{option} {text}: {value!r} is no number")
    if number < least:
        raise UserError(f"{option} {text}: a standard deviation must be {least:g} or more")
    sensor, _, component = name.partition(".")
    out = []
    for one in _matching(series, sensor, option):
        names = component_names(one.channel)
        columns = [i for i, known in enumerate(names) if component and is_part(known, component)]
        if not columns:
            raise UserError(
                f"{option} {text}: say which component of {one.channel.sensor}: {', '.join(names)} or a prefix"
            )
        out.append((list(series).index(one), columns, number))
    return out
