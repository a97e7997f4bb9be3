"""The last readings of one IMU, and the motion between them: polynomials through a short window, to any stamp."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Matrix, Vector

_FINE, _COARSE = 4, 2
"""Degrees of the polynomials; the fine one has fewer where there are not enough readings."""
_CLEAR_DIFFERENCE = 16.0
"""Square of a difference of three elements, in that of its standard deviation: noise reaches it once in a thousand."""
_CLEAR_SHARE = 0.75
"""Share of an angular acceleration's square that has to be motion."""
_LOST = 1.5
"""A step longer than so many typical ones has lost readings in it."""


class Motion(NamedTuple):
    """What polynomials through the readings say at an instant.

    Attributes
    ----------
    fine, coarse
        (3, 3) angular rate, acceleration, angular acceleration in the IMU's frame; rad/s, m/s^2, rad/s^2.
    expected
        (3, 3) the fine one, with the angular acceleration that is to be expected where it was measured with noise.
    variance
        Of that angular acceleration's noise, per axis, (rad/s^2)^2.
    """

    fine: Matrix
    coarse: Matrix
    expected: Matrix
    variance: float


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

    def motion(self, stamp_ns: int, half_window_ns: int, rate_stddev_rad_s: float) -> Motion | None:
        """At an instant; None where the window has no reading to one of its sides, or fewer than three."""
        first, last = np.searchsorted(self.stamps_ns, (stamp_ns - half_window_ns, stamp_ns + half_window_ns + 1))
        before, upto = np.searchsorted(self.stamps_ns, (stamp_ns, stamp_ns + 1))
        if before == first or upto == last or last - first <= _COARSE:
            return None
        times = (self.stamps_ns[first:last] - stamp_ns) / half_window_ns
        unit_s = half_window_ns / NANOSECONDS_PER_SECOND
        return Motion(*_fitted(times, self.values[first:last], unit_s, rate_stddev_rad_s))

    def turns(self, instants_ns: NDArray[np.int64], longest_gap_ns: int) -> Turns:
        """What the gyro shows of the turns between successive instants (K,), none of them with a reading inside."""
        turn, unseen_s, doubt = _turns(self.stamps_ns, self.values, instants_ns, longest_gap_ns)
        return Turns(turn, unseen_s, doubt)


class Turns(NamedTuple):
    """Turns of one IMU over K steps.

    Of a lost reading one knows that it lay about between its neighbours; after the last one, that the rate has not
    changed by more than it did before. Of a longer gap one knows nothing.

    Attributes
    ----------
    turn
        (K, 3) rotation vectors as read, rad; zero where nothing is known.
    unseen_s
        (K,) where nothing is known of a turn, the time that counts: the root of the difference of squares since the
        last reading, for the rate has one sign. Else zero.
    stddev_rad
        (K,) of turns of which something is known, by what was not read.
    """

    turn: Matrix
    unseen_s: Vector
    stddev_rad: Vector


@njit(cache=True)
def _turns(
    stamps: NDArray[np.int64], values: Matrix, instants: NDArray[np.int64], longest_gap: int
) -> tuple[Matrix, Vector, Vector]:
    """See `Readings.turns`: rates linear in time between two readings, held before the first and after the last."""
    count, steps = stamps.shape[0], instants.shape[0] - 1
    turn, unseen, doubt = np.zeros((steps, 3)), np.zeros(steps), np.zeros(steps)
    typical = np.median(np.diff(stamps)) if count > 1 else 0.0
    for k in range(steps):
        begin, end = instants[k], instants[k + 1]
        step_s = (end - begin) / NANOSECONDS_PER_SECOND
        after = np.searchsorted(stamps, begin, side="right")
        since = stamps[after - 1] if after > 0 else begin
        gap = (stamps[after] if after < count else end) - since
        if gap > longest_gap:
            ended, begun = (end - since) / NANOSECONDS_PER_SECOND, (begin - since) / NANOSECONDS_PER_SECOND
            unseen[k] = np.sqrt(ended**2 - begun**2)
            continue
        if count == 0:
            continue
        low, high = max(after - 1, 0), min(after, count - 1)
        first, last = values[low, :3].copy(), values[high, :3].copy()
        if high > low:
            change, from_low = last - first, 1.0 / (stamps[high] - stamps[low])
            last = first + (end - stamps[low]) * from_low * change
            first = first + (begin - stamps[low]) * from_low * change
        turn[k] = 0.5 * step_s * (first + last) + step_s**2 / 12.0 * np.cross(first, last)
        if high == low or gap > _LOST * typical:
            around = max(min(low, count - 2), 0)
            doubt[k] = (
                0.5 * step_s * np.sqrt(np.sum((values[min(around + 1, count - 1), :3] - values[around, :3]) ** 2))
            )
    return turn, unseen, doubt


@njit(cache=True)
def _fitted(
    times: Vector, values: Matrix, unit_s: float, rate_stddev_rad_s: float
) -> tuple[Matrix, Matrix, Matrix, float]:
    """The motion at zero, times (K,) in units of `unit_s`: see `Motion`."""
    fits, variances = np.empty((2, 3, 3)), np.empty(2)
    for row in range(2):
        weights = polynomial_weights(times, min(_FINE if row == 0 else _COARSE, times.shape[0] - 1))
        found = weights @ values
        fits[row, 0], fits[row, 1], fits[row, 2] = found[0, :3], found[0, 3:], found[1, :3] / unit_s
        variances[row] = np.sum(weights[1] ** 2) * (rate_stddev_rad_s / unit_s) ** 2
    expected = fits[0].copy()
    expected[2], variance = expected_acceleration(fits[0, 2], fits[1, 2], variances[0], variances[1])
    return fits[0], fits[1], expected, variance


@njit(cache=True)
def expected_acceleration(fine: Vector, coarse: Vector, variance: float, less: float) -> tuple[Vector, float]:
    """What is to be expected of an angular acceleration (3,), and the variance of its noise per axis.

    It was measured finely and coarsely, with noise of `variance` and of `less` than that. Noise taken for angular
    acceleration, of which the accelerometer shows nothing, would tell that the lever arms are zero. So it is the coarse
    one, unless the two differ by more than noise; shrunk as by James and Stein, and zero where noise might be a quarter
    of it.
    """
    chosen = fine
    if np.sum((fine - coarse) ** 2) < _CLEAR_DIFFERENCE * (variance - less):
        chosen, variance = coarse, less
    square = np.sum(chosen**2)
    share = 1.0 - 3.0 * variance / square if square > 0.0 else 0.0
    if share >= _CLEAR_SHARE:
        return share * chosen, variance
    return np.zeros(3), square


@njit(cache=True)
def polynomial_weights(times: Vector, degree: int) -> Matrix:
    """(2, K) weights of the values at `times` (K,) in the value and the slope at zero of the polynomial of best fit."""
    powers = np.ones((times.shape[0], degree + 1))
    for k in range(1, degree + 1):
        powers[:, k] = powers[:, k - 1] * times
    transposed = np.ascontiguousarray(powers.T)
    weights: Matrix = np.linalg.solve(transposed @ powers, transposed)[:2].astype(np.float64)
    return weights
