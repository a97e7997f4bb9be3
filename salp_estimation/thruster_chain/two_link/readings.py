"""The last readings of one IMU, and the motion between them: polynomials through a short window, to any stamp."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Matrix, Vector
from onboard_estimation.reading_parts import IMU

_FINE, _COARSE = 4, 2
"""Degrees of the polynomials."""
_CLEAR_DIFFERENCE = 16.0
"""Square of a difference of three elements in that of its standard deviation, which noise reaches once in a thousand."""
_CLEAR_SHARE = 0.75
"""Share of an angular acceleration's square that has to be motion."""
_LOST = 1.5
"""A step longer than so many typical ones has lost readings in it."""


class Motion(NamedTuple):
    """What a polynomial through the readings says at an instant.

    Attributes
    ----------
    fine, coarse
        (3, 3) angular rate, acceleration, angular acceleration in the IMU's frame; rad/s, m/s^2, rad/s^2.
    fine_slope_1_s, coarse_slope_1_s
        Roots of the sums of squares by which readings of the gyro enter the angular acceleration.
    """

    fine: Matrix
    coarse: Matrix
    fine_slope_1_s: float
    coarse_slope_1_s: float

    def angular_acceleration(self, rate_stddev_rad_s: float) -> tuple[Vector, float]:
        """What is to be expected of it (3,), and the variance of its noise per axis.

        Noise taken for angular acceleration, of which the accelerometer shows nothing, would tell that the lever arms
        are zero. So it is the coarse one, of less noise, unless the two differ by more than noise; shrunk as by James
        and Stein, and zero where noise might be a quarter of it.
        """
        fine, coarse = self.fine[2], self.coarse[2]
        variance, less = ((slope * rate_stddev_rad_s) ** 2 for slope in (self.fine_slope_1_s, self.coarse_slope_1_s))
        chosen = fine
        if float(np.sum((fine - coarse) ** 2)) < _CLEAR_DIFFERENCE * (variance - less):
            chosen, variance = coarse, less
        square = float(chosen @ chosen)
        share = 1.0 - 3.0 * variance / square if square > 0.0 else 0.0
        if share >= _CLEAR_SHARE:
            return share * chosen, variance
        return np.zeros(3), square


class Readings(NamedTuple):
    """Stamps (K,) ns, increasing, and values (K, 6), gyro and accelerometer; arrays are replaced, never written."""

    stamps_ns: NDArray[np.int64] = np.empty(0, dtype=np.int64)
    values: Matrix = np.empty((0, 6))

    @property
    def last_ns(self) -> int | None:
        """Stamp of the newest."""
        return int(self.stamps_ns[-1]) if len(self.stamps_ns) else None

    def followed(self, stamp_ns: int, value: Vector, from_ns: int) -> Readings:
        """With one more, and those before `from_ns` forgotten but for the two last of them."""
        first = max(0, int(np.searchsorted(self.stamps_ns, from_ns)) - 2)
        return Readings(np.append(self.stamps_ns[first:], stamp_ns), np.vstack([self.values[first:], value]))

    def motion(self, stamp_ns: int, half_window_ns: int) -> Motion | None:
        """At an instant; None unless there are two readings and more to both of its sides in the window."""
        first, last = np.searchsorted(self.stamps_ns, (stamp_ns - half_window_ns, stamp_ns + half_window_ns + 1))
        before, upto = np.searchsorted(self.stamps_ns, (stamp_ns, stamp_ns + 1))
        if before - first < 2 or last - upto < 2 or last - first <= _FINE:
            return None
        times = (self.stamps_ns[first:last] - stamp_ns) / half_window_ns
        values, unit_s = self.values[first:last], half_window_ns / NANOSECONDS_PER_SECOND
        fits, slopes = [], []
        for degree in (_FINE, _COARSE):
            weights = polynomial_weights(times, degree)
            value, slope = weights @ values
            fits.append(np.stack([value[IMU.angular_velocity], value[IMU.linear_acceleration], slope[:3] / unit_s]))
            slopes.append(float(np.sqrt(np.sum(weights[1] ** 2))) / unit_s)
        return Motion(*fits, *slopes)

    def rate(self, stamp_ns: int) -> Vector:
        """(3,) angular rate, rad/s: on the line between the readings around, held before the first and after the last."""
        if not len(self.stamps_ns):
            return np.zeros(3)
        after = int(np.searchsorted(self.stamps_ns, stamp_ns))
        if after == 0 or after == len(self.stamps_ns):
            return self.values[min(after, len(self.stamps_ns) - 1), IMU.angular_velocity]
        start, stop = int(self.stamps_ns[after - 1]), int(self.stamps_ns[after])
        share = (stamp_ns - start) / (stop - start)
        low, high = self.values[after - 1 : after + 1, IMU.angular_velocity]
        return (1.0 - share) * low + share * high

    def turn(self, from_ns: int, to_ns: int) -> Vector:
        """(3,) rotation vector of the turn between two instants, rad: rates linear in time, with their coning."""
        step_s = (to_ns - from_ns) / NANOSECONDS_PER_SECOND
        before, after = self.rate(from_ns), self.rate(to_ns)
        turn: Vector = 0.5 * step_s * (before + after) + step_s**2 / 12.0 * np.cross(before, after)
        return turn

    def unseen(self, from_ns: int, to_ns: int, longest_gap_ns: int) -> Unseen:
        """What was not read of the turn between two instants, with no reading between them."""
        before = int(np.searchsorted(self.stamps_ns, from_ns, side="right")) - 1
        if before < 0:
            return Unseen(True, (to_ns - from_ns) / NANOSECONDS_PER_SECOND, 0.0)
        since_ns, held = int(self.stamps_ns[before]), before + 1 == len(self.stamps_ns)
        gap_ns = (to_ns if held else int(self.stamps_ns[before + 1])) - since_ns
        begun_s, ended_s = ((one - since_ns) / NANOSECONDS_PER_SECOND for one in (from_ns, to_ns))
        if gap_ns > longest_gap_ns:
            return Unseen(True, float(np.sqrt(ended_s**2 - begun_s**2)), 0.0)
        if not held and gap_ns <= _LOST * np.median(np.diff(self.stamps_ns)):
            return Unseen(False, 0.0, 0.0)
        around = self.values[max(before - 1, 0) : before + 1] if held else self.values[before : before + 2]
        change = np.linalg.norm(around[-1, IMU.angular_velocity] - around[0, IMU.angular_velocity])
        return Unseen(False, 0.0, 0.5 * float(change) * (ended_s - begun_s))


class Unseen(NamedTuple):
    """What a gyro did not show of a turn.

    Of a lost reading one knows that it lay about between its neighbours; after the last one, that the rate has not
    changed by more than it did before. Of a longer gap one knows nothing.

    Attributes
    ----------
    wholly
        Nothing is known of it.
    time_s
        Then, the time that counts: the root of the difference of squares since the last reading, for the rate has one
        sign. Else zero.
    angle_stddev_rad
        Of a turn of which something is known.
    """

    wholly: bool
    time_s: float
    angle_stddev_rad: float


@njit(cache=True)
def polynomial_weights(times: Vector, degree: int) -> Matrix:
    """(2, K) weights of the values at `times` (K,) in the value and the slope at zero of the polynomial of best fit."""
    powers = np.ones((times.shape[0], degree + 1))
    for k in range(1, degree + 1):
        powers[:, k] = powers[:, k - 1] * times
    transposed = np.ascontiguousarray(powers.T)
    return np.linalg.solve(transposed @ powers, transposed)[:2]
