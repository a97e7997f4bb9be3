"""Words and units for readers: what plots, report and comparison call a quantity and how they print it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

CORRELATION_CAPTION = (
    "One run: its errors are correlated in time, so that leaving the band is not by itself proof of inconsistency. "
    "Judge over several runs."
)

SIGMA_CAPTION = "Sigma is the filter's own standard deviation, with the noise of the truth added where that is stated."

_ACRONYMS = {
    word.lower(): word
    for word in ("RMSE", "RMS", "ATE", "RPE", "NEES", "NIS", "IMU", "UKF", "EKF", "ESKF", "SE2", "SE3", "2D", "3D")
}

# Suffix of a metric's key -> symbol.
_UNITS = {one: one for one in ("m", "cm", "mm", "deg", "rad", "s", "ms", "us", "ns", "kg")} | {
    "hz": "Hz", "pa": "Pa", "kg_m2": "kg m^2", "n_m": "N m", "percent": "%", "m_s": "m/s", "m_s2": "m/s^2",
    "deg_s": "deg/s", "rad_s": "rad/s",
}  # fmt: skip
# `min` alone would take the key of a minimum for a time.
_DIVISORS = _UNITS | {"s2": "s^2", "min": "min", "h": "h", "cycle": "cycle"}
_ALTERNATIVES = "|".join(sorted(_UNITS, key=len, reverse=True))
_UNIT_SUFFIX = re.compile(
    rf"_(?P<unit>{_ALTERNATIVES})(?:_per_(?P<per>{'|'.join(sorted(_DIVISORS, key=len, reverse=True))}))?$"
)
_PERCENT_OF = re.compile(r"_percent_of_(?P<whole>\w+)$")
_SHARE = re.compile(r"^coverage_|_ratio$")
_HEADLINE = re.compile(r"(position_ate_|rotation_ate_)?rmse(_|$)")

# Below so much of a unit, another and the factor to it.
_SMALLER = {
    "m": ((0.01, "mm", 1000.0), (1.0, "cm", 100.0)),
    "m/s": ((0.1, "cm/s", 100.0),),
    "s": ((0.1, "ms", 1000.0),),
}

DIGITS = 3
"""Significant digits of a figure, wherever it is shown."""


def words(name: str) -> str:
    """`joint_angle_rmse` -> `Joint angle RMSE`. Names without underscores and acronyms stay as they are."""
    spelled = " ".join(_ACRONYMS.get(word.lower(), word) for word in name.split("_") if word)
    return spelled[:1].upper() + spelled[1:] if spelled else name


def unit_suffix(unit: str) -> str:
    """What a unit is at the end of a metric's key: `m/s^2` is _m_per_s2, `N m/rad` is _n_m_per_rad."""
    return "_" + unit.lower().replace("^", "").replace("/", "_per_").replace(" ", "_") if unit else ""


def metric_label(key: str) -> tuple[str, str]:
    """Label and unit of a metric's key: `joint_angle_rmse_deg` -> (`Joint angle RMSE`, `deg`).

    The unit is empty where the key names none.
    """
    if found := _PERCENT_OF.search(key):
        return words(key[: found.start()]), "% of the " + found["whole"].replace("_", " ")
    if found := _UNIT_SUFFIX.search(key):
        unit = _UNITS[found["unit"]]
        return words(key[: found.start()]), f"{unit}/{_DIVISORS[found['per']]}" if found["per"] else unit
    return words(key), ""


def headline_keys(keys: Iterable[str]) -> list[str]:
    """Of a part's figures the one to look at: the RMS of all of it together, else of each dimension."""
    known = list(keys)
    return [key for key in known if _HEADLINE.match(key)][:1] or [key for key in known if "_rmse" in key]


def error_keys(figures: Mapping[str, Any]) -> list[str]:
    """Of a part's figures the errors that stand for it: that to look at, and of a pose its heading's too."""
    return list(dict.fromkeys([*headline_keys(figures), *(key for key in figures if key == "heading_rmse_deg")]))


def error_sizes(figures: Any) -> dict[str, float]:
    """RMS error of a part of the state, by unit: by it the unit is chosen that all of its errors are shown in.

    Parameters
    ----------
    figures
        Of the part; nothing is known of what is no group of them.
    """
    if not isinstance(figures, Mapping):
        return {}
    keys = headline_keys(key for key, value in figures.items() if isinstance(value, Real))
    return {metric_label(key)[1]: abs(float(figures[key])) for key in reversed(keys)}


def shown_metric(key: str, value: Any, sizes: Mapping[str, float]) -> tuple[str, str, str]:
    """Label, value and unit of a metric as every screen shows them.

    Parameters
    ----------
    sizes
        What the units of errors are chosen by, see `error_sizes`, or by the key; of all else the value's own size
        decides.
    """
    label, unit = metric_label(key)
    if isinstance(value, (bool, np.bool_, Integral)) or not isinstance(value, Real):
        return label, format_value(value), unit
    size = abs(float(value))
    size = sizes.get(key, size if key.startswith("true_") else sizes.get(unit, size))
    shown, factor = display_unit(unit, size)
    if _SHARE.search(key):
        shown, factor = "%", 100.0
    return label, format_value(factor * float(value), DIGITS), shown


def shown_alike(key: str, values: Sequence[Any]) -> tuple[str, list[str], str]:
    """Label, values and unit of a metric of several runs: all in the unit of the largest."""
    sizes = [abs(float(one)) for one in values if isinstance(one, Real) and math.isfinite(one)]
    label, *_, unit = shown_metric(key, max(sizes, default=None), {})
    return label, [shown_metric(key, one, {key: max(sizes, default=0.0)})[1] for one in values], unit


def shown_figures(figures: Mapping[str, Any]) -> dict[str, str]:
    """Figures of one group for a sentence, each with its unit, by key."""
    sizes = error_sizes(figures)
    return {key: " ".join(shown_metric(key, value, sizes)[1:]).rstrip() for key, value in figures.items()}


def format_value(value: Any, digits: int = 4) -> str:
    """A metric for people, with so many significant digits; what is missing or not finite is `not available`."""
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if value is None:
        return "not available"
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        return format_number(float(value), digits) if math.isfinite(value) else "not available"
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        shown = ", ".join(format_value(element) for element in value[:8])
        return shown + (f", ... ({len(value)} values)" if len(value) > 8 else "")
    return str(value)


def format_number(value: float, digits: int = DIGITS) -> str:
    """A number with `digits` significant digits, an exponent only below 1e-4 and from 1e6 on; `-` if not finite."""
    if not math.isfinite(value):
        return "-"
    if value == 0.0:
        return "0"
    exponent = math.floor(math.log10(abs(value)))
    if not -4 <= exponent < 6:
        return f"{value:.{digits - 1}e}"
    text = f"{value:.{max(digits - 1 - exponent, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(share: float) -> str:
    """A share of one: `81.2 %`."""
    return f"{format_number(100.0 * share)} %"


_NOTHING = 1e-12


def quantity(value: float, unit: str) -> str:
    """A value as computed, in `rad`, `m` and so on, with the unit that its size asks for: `8.71 mm`."""
    shown, factor = display_unit(unit, abs(value))
    number = factor * value if abs(value) > _NOTHING else 0.0  # what rounding leaves is no error
    return f"{format_number(number)} {shown}".rstrip()


def display_unit(unit: str, largest: float) -> tuple[str, float]:
    """Unit that a quantity is shown in, and the factor that leads to it: angles in degrees, others by their size.

    Parameters
    ----------
    unit
        As computed, e.g. `rad`, `m`.
    largest
        Largest magnitude shown, in `unit`.
    """
    if unit in ("rad", "rad/s", "rad/s^2"):
        return unit.replace("rad", "deg"), 180.0 / math.pi
    smaller = (one for one in _SMALLER.get(unit, ()) if 0.0 < largest < one[0])
    return next(smaller, (0.0, unit, 1.0))[1:]


def axis_label(label: str, unit: str) -> str:
    """`x (m)` in the unit that the axis is drawn in."""
    return label.replace("(m)", f"({unit})")
