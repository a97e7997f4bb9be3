"""Noise of a resting sensor by its Allan deviation, read as IEEE Std 952-1997, annex C, does.

A slope of -1/2 is white noise, sigma(tau) = N / sqrt(tau); a floor is bias instability, sigma = 0.664 B; a slope of
+1/2 is a random walk, sigma(tau) = K sqrt(tau / 3). What the length of the log does not show is not told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivers.calibration.logs import ImuLog, Section
from drivers.calibration.parameter_file import Noise
from onboard_estimation.base.errors import UserError
from onboard_estimation.soundness.stretches import longest

Array = NDArray[np.float64]

_LONGEST_GAP = 5.0
_FLOOR = np.sqrt(2.0 * np.log(2.0) / np.pi)  # 0.664
_MOST_SHARE = 9.0
"""Longest tau as a share of the log: there the deviation is known to 1 / sqrt(2 (9 - 1)) = 25 % (eq. C.13)."""
_PER_DECADE = 12
_SLOPE_RANGE = 0.15
_LEAST_FLAT = 4.0
_LEAST_POINTS = 4


class AxisNoise(NamedTuple):
    """Noise of one axis, u being the readings' unit; None where the log does not show it.

    Attributes
    ----------
    density
        N, u / sqrt(Hz).
    instability
        B, u.
    random_walk
        K, u / sqrt(s).
    why
        By what is not shown, the reason.
    """

    density: float | None
    instability: float | None
    random_walk: float | None
    why: Mapping[str, str]


def noise_of_rest(log: ImuLog, rests: Sequence[Section]) -> tuple[Noise, float, list[str]]:
    """Noise of the longest rest, how much of it has no gap (s), and sentences on what it does not show.

    Raises
    ------
    UserError
        There is no rest.
    """
    if not rests:
        raise UserError(f"{log.name}: no rest in {log.time_s[-1]:.4g} s; leave the sensor on a quiet table")
    rows = max(rests, key=lambda one: one.duration_s).rows(log)
    first, last = longest(np.diff(log.time_s[rows]) <= _LONGEST_GAP * log.period_s)
    values = log.values[rows][first : last + 1]
    duration_s = float(np.ptp(log.time_s[rows][[first, last]]))
    rate_hz = (len(values) - 1) / duration_s if duration_s > 0.0 else 1.0 / log.period_s
    known: dict[str, list[tuple[float, ...]]] = {"gyro": [()] * 3}
    sentences = []
    for part, columns in (("gyro", values[:, :3]), ("accelerometer", values[:, 3:])):
        if part == "gyro" and not log.has_gyro:
            continue
        *quantities, whys = zip(*(axis_noise(column, rate_hz) for column in columns.T), strict=True)
        known[part] = [() if None in one else tuple(float(f"{value:.4g}") for value in one) for one in quantities]
        for what in dict.fromkeys(what for why in whys for what in why):
            reasons = {axis: why[what] for axis, why in zip("xyz", whys, strict=True) if what in why}
            sentences.append(f"{part}, {what} not told of {', '.join(reasons)}: {list(reasons.values())[-1]}")
    return Noise(*known["accelerometer"], *known["gyro"]), duration_s, sentences


def allan_deviation(readings: Array, rate_hz: float) -> tuple[Array, Array, Array]:
    """Overlapping Allan deviation.

    Parameters
    ----------
    readings
        (K,) evenly spaced.

    Returns
    -------
    tau_s, deviation, relative_error
        (n,) each; tau in steps of equal ratio, up to a ninth of the log.
    """
    longest = int(len(readings) / _MOST_SHARE)
    if longest < 1:
        return np.empty(0), np.empty(0), np.empty(0)
    steps = int(_PER_DECADE * np.log10(longest)) + 1
    sizes = np.unique(np.round(np.geomspace(1.0, longest, max(steps, 1))).astype(np.int64))
    # Less the mean: the sums of a long log would lose digits.
    sums = np.concatenate([[0.0], np.cumsum(readings - readings.mean())]) / rate_hz
    tau = sizes / rate_hz
    variance = [np.mean((sums[2 * m :] - 2.0 * sums[m:-m] + sums[: -2 * m]) ** 2) for m in sizes]
    error = 1.0 / np.sqrt(2.0 * (len(readings) / sizes - 1.0))
    return tau, np.sqrt(np.array(variance) / 2.0) / tau, error


def axis_noise(readings: Array, rate_hz: float) -> AxisNoise:
    """N, B and K of one axis at rest, (K,) readings, as far as the log shows them."""
    tau, deviation, error = allan_deviation(readings, rate_hz)
    duration_s = len(readings) / rate_hz
    if len(tau) < _LEAST_POINTS or not np.all(deviation > 0.0):
        return AxisNoise(None, None, None, {"noise": f"{len(readings)} readings over {duration_s:.1f} s tell none"})
    why = {}
    slope = _slopes(tau, deviation)
    white = np.abs(slope + 0.5) < _SLOPE_RANGE
    lowest = int(np.argmin(deviation))
    white[lowest + 1 :] = False
    density = random_walk = instability = None

    def level(at: NDArray[np.bool_], shape: Array) -> float:
        """By which a line of that shape is multiplied: short times are known best."""
        return float(np.exp(np.average(np.log(deviation[at] * shape[at]), weights=1.0 / error[at] ** 2)))

    if np.count_nonzero(white) >= _LEAST_POINTS:
        density = level(white, np.sqrt(tau))
    else:
        why["noise density"] = "the Allan deviation nowhere falls by the root of the time (filtered, or quantised)"
    late = (tau >= tau[lowest]) & (np.abs(slope - 0.5) < 1.5 * _SLOPE_RANGE)
    rise = np.log(deviation[-1] / deviation[lowest])
    if np.count_nonzero(late) >= _LEAST_POINTS and rise > 2.0 * float(np.hypot(error[-1], error[lowest])):
        random_walk = level(late, np.sqrt(3.0 / tau))
    else:
        why["random walk"] = f"no rise by the root of the time up to {tau[-1]:.3g} s; rest longer"
    # A floor is flat over a factor of four (between white noise and a walk alone it would be flat over two), and above
    # what these two leave.
    known = (density or 0.0) ** 2 / tau + (random_walk or 0.0) ** 2 * tau / 3.0
    first, last = longest(np.abs(slope) < _SLOPE_RANGE)
    flat = slice(first, last)
    if last - first >= _LEAST_POINTS and tau[last - 1] >= _LEAST_FLAT * tau[first]:
        floor = float(np.average(deviation[flat] ** 2 - known[flat], weights=1.0 / error[flat] ** 2))
        if floor > 4.0 * error[(first + last) // 2] * float(np.mean(deviation[flat] ** 2)):
            instability = float(np.sqrt(floor) / _FLOOR)
    if instability is None:
        most = deviation[lowest] * (1.0 + 2.0 * error[lowest]) / _FLOOR
        why["bias instability"] = f"no floor is seen up to {tau[-1]:.3g} s (at most {most:.2g}); rest longer"
    return AxisNoise(density, instability, random_walk, why)


def _slopes(tau: Array, deviation: Array) -> Array:
    """(n,) d log deviation / d log tau, over a window of about a factor 3."""
    x, y = np.log(tau), np.log(deviation)
    slopes = np.empty_like(x)
    for place, middle in enumerate(x):
        near = np.abs(x - middle) < 0.6
        near[max(place - 1, 0) : place + 2] = True
        slopes[place] = np.polyfit(x[near], y[near], 1)[0]
    return slopes
