"""Frequency and damping ratio of a motion that rings down, read in several ways, and how far these agree."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import least_squares
from scipy.signal import find_peaks

from onboard_estimation.errors import UserError

Array = NDArray[np.float64]

CREEP_SINCE_S = 0.2
"""What rings also creeps, as the logarithm of its age: the first time counts as so old."""
LEAST_SHARE = 0.06
"""Of the largest swing: smaller ones are no longer read one by one."""
_FEWEST = 4


@dataclass(frozen=True)
class Reading:
    """One way's answer."""

    way: str
    frequency_hz: float
    damping_ratio: float


@dataclass(frozen=True)
class Measured:
    """A figure, and half of how far the ways and signals that give it are apart."""

    value: float
    uncertainty: float


def fit_decaying_sinusoid(times_s: ArrayLike, values: ArrayLike, near_hz: float | None = None) -> tuple[Reading, Array]:
    """Least squares with a background that creeps; and what is left of values (K,) without the background.

    The frequency is looked for from two swings in the whole time up to what the stamps can tell, or `near_hz`.

    Raises
    ------
    UserError
        Fewer than two swings are there.
    """
    times, seen = np.asarray(times_s, dtype=np.float64), np.asarray(values, dtype=np.float64)
    ages = times - times[0]
    background = np.column_stack([np.ones_like(ages), np.log(ages + CREEP_SINCE_S)])

    def parts(rates: Array) -> tuple[Array, Array]:
        decay, frequency = np.exp(rates)
        ring = np.exp(-decay * ages) * np.exp(2j * np.pi * frequency * ages)
        columns = np.column_stack([background, ring.real, ring.imag])
        return columns, np.linalg.lstsq(columns, seen, rcond=None)[0]

    def misfits(rates: Array) -> Array:
        columns, weights = parts(rates)
        return np.asarray(columns @ weights - seen)

    fastest_hz = 0.4 / float(np.median(np.diff(ages)))
    starts = np.geomspace(2.0 / ages[-1], fastest_hz, 24) if near_hz is None else np.array([near_hz])
    bounds = (np.log([0.05 / ages[-1], 0.5 / ages[-1]]), np.log([40.0, 1.2 * fastest_hz]))
    fits = [least_squares(misfits, np.log([2.0, hz]), bounds=bounds) for hz in starts]
    best = min(fits, key=lambda one: float(one.cost))
    decay, frequency = np.exp(best.x).tolist()
    if near_hz is None and frequency * ages[-1] < 2.0:
        raise UserError(f"in {ages[-1]:.2f} s nothing rings twice; give a longer stretch, after the release")
    columns, weights = parts(best.x)
    # The damping ratio belongs to the undamped angular frequency, what is seen is the damped one.
    reading = Reading("fit", frequency, decay / math.hypot(decay, 2.0 * math.pi * frequency))
    return reading, np.asarray(seen - columns[:, :2] @ weights[:2])


def ring_down(times_s: ArrayLike, values: ArrayLike) -> list[Reading]:
    """What the whole, its halves, and its swings say (frequency from where these cross zero, damping from their sizes).

    Raises
    ------
    UserError
        Too few swings for that.
    """
    times, seen = np.asarray(times_s, dtype=np.float64), np.asarray(values, dtype=np.float64)
    whole, ringing = fit_decaying_sinusoid(times, seen)
    readings, period_s = [whole], 1.0 / whole.frequency_hz
    step_s = float(np.median(np.diff(times)))
    swings, _ = find_peaks(np.abs(ringing), distance=max(1, int(0.3 * period_s / step_s)))
    sizes = np.abs(ringing[swings])
    small = np.flatnonzero(sizes < LEAST_SHARE * sizes.max())
    swings = swings[: small[0]] if len(small) else swings
    same_side = np.flatnonzero(np.diff(np.sign(ringing[swings])) == 0.0)
    swings = swings[: same_side[0] + 1] if len(same_side) else swings
    if len(swings) < _FEWEST:
        raise UserError(f"{len(swings)} swings are large enough; {_FEWEST} are needed")
    middle = swings[len(swings) // 2]
    for way, part in (("first half", slice(0, middle)), ("second half", slice(middle, swings[-1] + 1))):
        half, _ = fit_decaying_sinusoid(times[part], ringing[part], whole.frequency_hz)
        readings.append(Reading(way, half.frequency_hz, half.damping_ratio))
    crossings = [_crossing(times[a : b + 1], ringing[a : b + 1]) for a, b in itertools.pairwise(swings.tolist())]
    frequency_hz = 0.5 / float(np.polyfit(np.arange(len(crossings)), crossings, 1)[0])
    decay = -float(np.polyfit(times[swings], np.log(np.abs(ringing[swings])), 1)[0])
    damping_ratio = decay / math.hypot(decay, 2.0 * math.pi * frequency_hz)
    readings.append(Reading("swings", frequency_hz, damping_ratio))
    return readings


def _crossing(times: Array, values: Array) -> float:
    """When values change sign; noise may make them do so several times: in the middle of these."""
    before = np.flatnonzero(np.sign(values[:-1]) != np.sign(values[1:]))
    shares = values[before] / (values[before] - values[before + 1])
    return float(np.mean(times[before] + shares * (times[before + 1] - times[before])))


def agreed(values: Sequence[float]) -> Measured:
    """Their median, and half of their range."""
    return Measured(float(np.median(values)), 0.5 * float(np.ptp(values)))
