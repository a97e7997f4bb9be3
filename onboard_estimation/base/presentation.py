"""Words and units for readers: what plots, report and comparison call a quantity and how they print it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
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

# Suffix of a metric's key -> (one of it, several of it).
_UNITS = {
    "m": ("metre", "metres"),
    "cm": ("centimetre", "centimetres"),
    "mm": ("millimetre", "millimetres"),
    "deg": ("degree", "degrees"),
    "rad": ("radian", "radians"),
    "s": ("second", "seconds"),
    "ms": ("millisecond", "milliseconds"),
    "us": ("microsecond", "microseconds"),
    "ns": ("nanosecond", "nanoseconds"),
    "hz": ("hertz", "hertz"),
    "kg": ("kilogram", "kilograms"),
    "pa": ("pascal", "pascals"),
    "kg_m2": ("kilogram metre squared", "kilogram metres squared"),
    "n_m": ("newton metre", "newton metres"),
    "percent": ("per cent", "per cent"),
    "m_s": ("metre per second", "metres per second"),
    "m_s2": ("metre per second squared", "metres per second squared"),
    "deg_s": ("degree per second", "degrees per second"),
    "rad_s": ("radian per second", "radians per second"),
}
# `min` alone would take the key of a minimum for a time.
_DIVISORS = {key: one for key, (one, _) in _UNITS.items()} | {
    "s2": "second squared",
    "min": "minute",
    "h": "hour",
    "cycle": "cycle",
}

# Where the suffix itself is none.
_SYMBOLS = {
    "hz": "Hz", "pa": "Pa", "kg_m2": "kg m^2", "n_m": "N m", "percent": "%", "m_s": "m/s", "m_s2": "m/s^2",
    "deg_s": "deg/s", "rad_s": "rad/s", "s2": "s^2",
}  # fmt: skip
_ALTERNATIVES = "|".join(sorted(_UNITS, key=len, reverse=True))
_UNIT_SUFFIX = re.compile(
    rf"_(?P<unit>{_ALTERNATIVES})(?:_per_(?P<per>{'|'.join(sorted(_DIVISORS, key=len, reverse=True))}))?$"
)
_PERCENT_OF = re.compile(r"_percent_of_(?P<whole>\w+)$")


def words(name: str) -> str:
    """`joint_angle_rmse` -> `Joint angle RMSE`. Names without underscores and acronyms stay as they are."""
    spelled = " ".join(_ACRONYMS.get(word.lower(), word) for word in name.split("_") if word)
    return spelled[:1].upper() + spelled[1:] if spelled else name


def unit_suffix(unit: str) -> str:
    """What a unit is at the end of a metric's key: `m/s^2` is _m_per_s2, `N m/rad` is _n_m_per_rad."""
    return "_" + unit.lower().replace("^", "").replace("/", "_per_").replace(" ", "_") if unit else ""


def metric_label(key: str) -> tuple[str, str]:
    """Label and unit in words of a metric's key: `joint_angle_rmse_deg` -> (`Joint angle RMSE`, `degrees`).

    The unit is empty where the key names none.
    """
    if found := _PERCENT_OF.search(key):
        return words(key[: found.start()]), "per cent of the " + found["whole"].replace("_", " ")
    if found := _UNIT_SUFFIX.search(key):
        unit = _UNITS[found["unit"]][1]
        return words(key[: found.start()]), f"{unit} per {_DIVISORS[found['per']]}" if found["per"] else unit
    return words(key), "share, 0 to 1" if key.split("_")[-1] == "ratio" else ""


def short_unit(key: str) -> str:
    """Symbol of the unit of a metric's key, for tables: `position_rmse_m_per_s` -> `m/s`; empty where it names none."""
    if _PERCENT_OF.search(key):
        return "%"
    found = _UNIT_SUFFIX.search(key)
    if found is None:
        return ""
    unit = _SYMBOLS.get(found["unit"], found["unit"])
    return f"{unit}/{_SYMBOLS.get(found['per'], found['per'])}" if found["per"] else unit


def flatten(metrics: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Leaves of nested mappings with the keys that lead there, in the order of the mapping."""
    for key, value in metrics.items():
        if isinstance(value, Mapping):
            yield from flatten(value, (*path, str(key)))
        else:
            yield (*path, str(key)), value


def format_value(value: Any) -> str:
    """A metric for people: four significant digits; what is missing or not finite is `not available`."""
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if value is None:
        return "not available"
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        return format_number(float(value)) if math.isfinite(value) else "not available"
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        shown = ", ".join(format_value(element) for element in value[:8])
        return shown + (f", ... ({len(value)} values)" if len(value) > 8 else "")
    return str(value)


def format_number(value: float, digits: int = 4) -> str:
    """Finite number with `digits` significant digits, an exponent only below 1e-4 and from 1e6 on."""
    if value == 0.0:
        return "0"
    exponent = math.floor(math.log10(abs(value)))
    if not -4 <= exponent < 6:
        return f"{value:.{digits - 1}e}"
    text = f"{value:.{max(digits - 1 - exponent, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def display_unit(unit: str, largest: float) -> tuple[str, float]:
    """Unit that a quantity is shown in, and the factor that leads to it: angles in degrees, lengths by their size.

    Parameters
    ----------
    unit
        As computed, e.g. `rad`, `m`.
    largest
        Largest magnitude shown, in `unit`.
    """
    degrees = 180.0 / math.pi
    if unit in ("rad", "rad/s", "rad/s^2"):
        return unit.replace("rad", "deg"), degrees
    if unit == "m" and largest < 0.01:
        return "mm", 1000.0
    if unit == "m" and largest < 1.0:
        return "cm", 100.0
    if unit == "m/s" and largest < 0.1:
        return "cm/s", 100.0
    return unit, 1.0


def axis_label(label: str, unit: str) -> str:
    """`x (m)` in the unit that the axis is drawn in."""
    return label.replace("(m)", f"({unit})")
