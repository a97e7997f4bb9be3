"""Turns between rests: by how much the gyro says that the sensor was turned, and about which axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from drivers.calibration.logs import ImuLog
from drivers.calibration.sections import Section

Array = NDArray[np.float64]

_WITHIN = 0.15
_NEARLY = 0.5
_ALONG = 0.9
_LONGEST_GAP = 5.0
_HELD = 5


@dataclass(frozen=True, eq=False)
class Turn:
    """A turn about one axis.

    Attributes
    ----------
    turned_rad
        (3,) integral of the gyro less its bias, sensor frame.
    fault
        Why it cannot be used; empty where it can.
    """

    axis: str
    section: Section
    turned_rad: Array
    fault: str = ""

    @property
    def angle_rad(self) -> float:
        """About its axis, by the gyro."""
        return float(self.turned_rad["xyz".index(self.axis)])


def given_turn(log: ImuLog, section: Section, bias_rad_s: Array) -> Turn:
    """The turn of a section labelled "turn x"."""
    turned, _ = _integrals(log, section, bias_rad_s)
    return Turn(section.label[-1], section, turned, _fault(log, section))


def find_turns(
    log: ImuLog, rests: Sequence[Section], bias_rad_s: Array, turn_rad: float
) -> tuple[list[Turn], list[str]]:
    """Turns of about the angle between neighbouring rests, and sentences on what is nearly one.

    Parameters
    ----------
    rests
        In the order of time.
    bias_rad_s
        (3,)
    """
    turns, sentences = [], []
    for before, after in pairwise(rests):
        section = Section(before.end_s, after.start_s)
        turned, path = _integrals(log, section, bias_rad_s)
        place = int(np.argmax(np.abs(turned)))
        if abs(turned[place]) < _ALONG * path[place] or np.linalg.norm(np.delete(path, place)) > 0.25 * path[place]:
            continue
        off = abs(abs(turned[place]) / turn_rad - 1.0)
        if off <= _WITHIN:
            turns.append(Turn("xyz"[place], section, turned, _fault(log, section)))
        elif off < _NEARLY or abs(turned[place]) > 10.0 * turn_rad:
            hint = "; is its unit deg/s (--gyro-unit)?" if abs(turned[place]) > 10.0 * turn_rad else ""
            degrees = abs(np.rad2deg(turned[place]))
            sentences.append(
                f"a motion about {'xyz'[place]} at {section.start_s:.1f} s is {degrees:.0f} deg by the gyro, not "
                f"{np.rad2deg(turn_rad):g} to within {100 * _WITHIN:g} %: not used{hint}"
            )
    return turns, sentences


def _integrals(log: ImuLog, section: Section, bias_rad_s: Array) -> tuple[Array, Array]:
    """(3,) integral of the rate over the section by trapezoids, and of its magnitude, rad."""
    rows = section.rows(log)
    rates = log.values[rows, :3] - bias_rad_s
    steps = np.diff(log.time_s[rows])[:, None]
    middle = (rates[1:] + rates[:-1]) / 2.0
    return (middle * steps).sum(axis=0), (np.abs(middle) * steps).sum(axis=0)


def _fault(log: ImuLog, section: Section) -> str:
    """Why the gyro's integral over the section is wrong; empty where nothing says so."""
    rows = section.rows(log)
    rates, times = log.values[rows, :3], log.time_s[rows]
    where = f"the turn at {section.start_s:.1f} s is not used: "
    gap = float(np.diff(times).max(initial=0.0))
    if gap > _LONGEST_GAP * log.period_s:
        return f"{where}{1e3 * gap:.0f} ms of readings are missing in it; turn again"
    # The end of the range: the largest value of the turn, several times in a row.
    for axis, values in zip("xyz", np.abs(rates).T, strict=True):
        at_end = values == values.max(initial=0.0)
        held = np.convolve(at_end, np.ones(_HELD), "valid")
        if len(values) > _HELD and held.max(initial=0.0) >= _HELD and values.max() > 0.5:
            return (
                f"{where}the gyro stays at {values.max():.3g} rad/s about {axis} for "
                f"{np.count_nonzero(at_end)} readings, the end of its range; turn more slowly"
            )
    return ""
