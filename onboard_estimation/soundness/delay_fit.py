"""The delay between two clocks that saw the same motion: truth in some frame, a sensor in another, by least squares.

Nothing is differentiated. The truth's (K, 3) quantity q (an angle, a position) is compared with the sensor's reading
integrated as often as need be, s, through an unknown matrix M, apart from a polynomial p in each window of some
seconds, which takes up where the integration started, and what biases become:

    q(t) = M s(t + offset) + p(t) + noise                                                                 (1)

Offset and M by Gauss-Newton, M eliminated (variable projection: Golub and Pereyra, SIAM J. Numer. Anal. 10, 1973).
Noise is the truth's, white or not, plus what the sensor's integrated noise leaves: the covariance is the sandwich with
overlapping blocks, which counts correlated residuals as they are (Newey and West, Econometrica 55, 1987).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import cumulative_simpson, cumulative_trapezoid
from scipy.interpolate import CubicHermiteSpline
from scipy.sparse import csr_array
from scipy.spatial.transform import Rotation

Rows = NDArray[np.float64]

_STEPS = 15
_LARGEST_STEP_S = 0.02
_CONVERGED_S = 1e-7
_RANK = 1e-9
_PLANE = 0.2
BLOCKS_S = (0.0, 0.25, 1.0)
"""Spans over which residuals may be correlated; the span with the largest variance counts."""
_BREAK_SIGMAS = 8.0
_BREAK_STEPS = 0.02
"""A step of the residual is a break beyond this share of the motion's own spread, too: small steps harm nothing."""

_TURN_WINDOW_S, _TURN_DEGREE = 5.0, 2
_WAY_WINDOW_S, _WAY_DEGREE = 3.0, 3
_LARGEST_TURN_RAD = 0.3
"""Between two poses further apart than this, the way that a body turned is not known."""


class Sensed(NamedTuple):
    """What a sensor integrates to: times (N,) in s, values (N, k), and their derivatives (N, k)."""

    times_s: Rows
    values: Rows
    rates: Rows

    def longest_step_s(self) -> float:
        """Longer steps between readings are gaps."""
        return 5.0 * float(np.median(np.diff(self.times_s)))


@dataclass(frozen=True)
class Motion:
    """Truth to compare with a sensor.

    Attributes
    ----------
    times_s
        (K,) increasing.
    values
        (K, 3): angles in rad, or positions in m.
    breaks
        (K,) bool: nothing is known of the motion from the row before to this one.
    window_s, degree
        Longest span, and degree, of the polynomials of equation (1).
    one_frame
        M is the same throughout; false: one M for each window, where the sensor's own frame drifts.
    """

    times_s: Rows
    values: Rows
    breaks: NDArray[np.bool_]
    window_s: float
    degree: int
    one_frame: bool

    def thinned(self, rate_hz: float) -> Motion:
        """With fewer rows, where there are more than that a second; a break stays one."""
        every = max(1, round(1.0 / (rate_hz * float(np.median(np.diff(self.times_s))))))
        parts = np.cumsum(self.breaks)[::every]
        broken = np.diff(parts, prepend=parts[:1]) > 0
        return replace(self, times_s=self.times_s[::every], values=self.values[::every], breaks=broken)


@dataclass(frozen=True)
class DelayFit:
    """An offset that fits: add it to the truth's stamps.

    Attributes
    ----------
    offset_s, stddev_s
        And its standard deviation.
    explained
        Share of the truth's motion, within windows, that the sensor explains.
    spread
        RMS of that motion (rad or m).
    matrix
        (3, k) M of equation (1), where it is one for all; the first window's otherwise.
    handedness
        Between -1, a mirror image in all that tells it, and 1; near 0 where the motion does not tell.
    sensed, left
        (R, k) and (R, 3): s and the residual within windows, of the rows used.
    rows, times_s
        (R,) numbers of these rows in the motion, and their times.
    """

    offset_s: float
    stddev_s: float
    explained: float
    spread: float
    matrix: Rows
    handedness: float
    rows: NDArray[np.int64]
    times_s: Rows
    sensed: Rows
    left: Rows

    def slack_s(self) -> float:
        """How far what is not explained would move the offset if all of it went along with the motion's own change."""
        predicted = self.sensed @ self.matrix.T
        near = np.diff(self.times_s) < 10.0 * np.median(np.diff(self.times_s))  # not from one window to another
        rates = np.diff(predicted, axis=0)[near] / np.diff(self.times_s)[near, None]
        speed = float(np.sqrt(np.median(np.sum(rates**2, axis=1))))
        return float(np.sqrt(max(1.0 - self.explained, 0.0)) * self.spread / speed) if speed > 0.0 else np.inf

    def squares(self, stretch_s: float) -> Rows:
        """Sum of squared residuals in each stretch of that many seconds, counted from time zero."""
        stretch = (self.times_s / stretch_s).astype(np.int64)
        return np.bincount(stretch, np.sum(self.left**2, axis=1)).astype(np.float64)


class Windows:
    """Rows of a motion in windows, less the polynomial of each."""

    def __init__(self, motion: Motion, sensed: Sensed, margin_s: float, offset_s: float) -> None:
        times = motion.times_s
        at = times + offset_s
        after = np.clip(np.searchsorted(sensed.times_s, at), 1, len(sensed.times_s) - 1)
        held = sensed.times_s[after] - sensed.times_s[after - 1] <= sensed.longest_step_s()
        inside = (at >= sensed.times_s[0] + margin_s) & (at <= sensed.times_s[-1] - margin_s) & held
        broken = motion.breaks | (np.diff(inside, prepend=True))
        broken |= np.diff(times, prepend=times[:1]) > motion.window_s / 4.0
        part = np.cumsum(broken)
        rows, numbers, columns = [], [], []
        count = 0
        starts = np.flatnonzero(np.diff(part, prepend=part[:1] - 1))
        for start, stop in zip(starts, [*starts[1:], len(times)], strict=True):
            if not inside[start] or times[stop - 1] - times[start] < motion.window_s / 4.0:
                continue
            pieces = int(np.ceil((times[stop - 1] - times[start]) / motion.window_s))
            edges = np.linspace(times[start], times[stop - 1], pieces + 1)
            cuts = [start, *np.searchsorted(times[start:stop], edges[1:-1]) + start, stop]
            for first, last in pairwise(cuts):
                if last - first < 4 * (motion.degree + 1):
                    continue
                span = times[first:last] - 0.5 * (times[first] + times[last - 1])
                q, _ = np.linalg.qr(np.vander(span / max(span[-1], 1e-9), motion.degree + 1))
                rows.append(np.arange(first, last))
                columns.append(q)
                numbers.append(np.full(last - first, count))
                count += 1
        self.count = count
        self.rows = np.concatenate(rows) if rows else np.empty(0, dtype=np.int64)
        self.times_s = times[self.rows]
        self._number = np.concatenate(numbers) if rows else np.empty(0, dtype=np.int64)
        self.groups = np.zeros_like(self._number) if motion.one_frame else self._number
        self.starts = np.flatnonzero(np.diff(self.groups, prepend=-1))
        if count:
            width = motion.degree + 1
            index = self._number[:, None] * width + np.arange(width)
            pointers = np.arange(len(self.rows) + 1) * width
            shape = (len(self.rows), count * width)
            self._basis = csr_array((np.vstack(columns).ravel(), index.ravel(), pointers), shape=shape)
            self.truth = self.projected(motion.values[self.rows])

    def projected(self, values: Rows) -> Rows:
        return values - self._basis @ (self._basis.T @ values)

    def regressed(self, sensed: Rows, values: Rows) -> tuple[Rows, Rows]:
        """Fit of values (R, c) by sensed (R, k) in each group: predicted (R, c), and matrices (G, k, c)."""
        square = np.add.reduceat(sensed[:, :, None] * sensed[:, None, :], self.starts)
        cross = np.add.reduceat(sensed[:, :, None] * values[:, None, :], self.starts)
        matrices: Rows = np.linalg.pinv(square, rcond=_RANK, hermitian=True) @ cross
        return np.einsum("rk,rkc->rc", sensed, matrices[self.groups]), matrices

    def handedness(self, sensed: Rows) -> float:
        """Mean sign of M's determinant in the groups whose motion fills space; 0 where there are none.

        Space is filled where the sensor explains the truth's motion even along the axis of its least motion.
        """
        if sensed.shape[1] < 3:
            return 0.0
        predicted, matrices = self.regressed(sensed, self.truth)
        left = self.truth - predicted
        extents, axes = np.linalg.eigh(np.add.reduceat(self.truth[:, :, None] * self.truth[:, None, :], self.starts))
        least = axes[self.groups, :, 0]
        missed = np.add.reduceat(np.einsum("rc,rc->r", left, least) ** 2, self.starts)
        filling = missed < _PLANE * extents[:, 0]
        return float(np.sign(np.linalg.det(matrices[filling, :3])).mean()) if filling.any() else 0.0


def coarse(
    motion: Motion, sensed: Sensed, longest_s: float, step_s: float, rate_hz: float
) -> tuple[Rows, Rows, float, float]:
    """Every offset up to `longest_s` either way, with at most `rate_hz` rows a second.

    Returns
    -------
    Offsets (T,) in s, the share of the truth's motion that the sensor explains at each, and the RMS of both. All are
    judged on the same rows, those that the sensor knows at every one of the offsets; none without such rows.
    """
    windows = Windows(motion.thinned(rate_hz), sensed, longest_s, 0.0)
    if not windows.count:
        return np.empty(0), np.empty(0), 0.0, 0.0
    spline = CubicHermiteSpline(sensed.times_s, sensed.values, sensed.rates)
    reach = round(longest_s / step_s)
    offsets = np.arange(-reach, reach + 1, dtype=np.float64) * step_s
    total = float(np.sum(windows.truth**2))
    explained = []
    for offset in offsets:
        seen = windows.projected(spline(windows.times_s + offset))
        predicted, _ = windows.regressed(seen, windows.truth)
        explained.append(1.0 - float(np.sum((windows.truth - predicted) ** 2)) / total if total > 0.0 else 0.0)
    rows = len(windows.rows)
    found = np.array(explained, dtype=np.float64)
    return offsets, found, float(np.sqrt(total / rows)), float(np.sqrt(np.sum(seen**2) / rows))


def fit_delay(motion: Motion, sensed: Sensed, start_s: float) -> DelayFit | None:
    """The offset near `start_s`; None where too few rows are left, or the motion does not tell an offset at all.

    Where the residual steps (a marker that flips, a pose that jumps), the windows are cut and the fit is made again.
    """
    fit = _fitted(motion, sensed, start_s)
    broken = _with_breaks(motion, fit) if fit is not None else None
    return _fitted(broken, sensed, fit.offset_s) if fit is not None and broken is not None else fit


def _with_breaks(motion: Motion, fit: DelayFit) -> Motion | None:
    follows = np.diff(fit.rows) == 1
    steps = np.linalg.norm(np.diff(fit.left, axis=0), axis=1)
    usual = 1.4826 * float(np.median(steps[follows])) if follows.any() else 0.0
    jumps = follows & (steps > max(_BREAK_SIGMAS * usual, _BREAK_STEPS * fit.spread))
    if not jumps.any():
        return None
    breaks = motion.breaks.copy()
    breaks[fit.rows[1:][jumps]] = True
    return replace(motion, breaks=breaks)


def _fitted(motion: Motion, sensed: Sensed, start_s: float) -> DelayFit | None:
    windows = Windows(motion, sensed, 2.0 * _LARGEST_STEP_S, start_s)
    if not windows.count:
        return None
    spline = CubicHermiteSpline(sensed.times_s, sensed.values, sensed.rates)
    rate = spline.derivative()
    total = float(np.sum(windows.truth**2))
    offset = start_s
    for _ in range(_STEPS):
        at = np.clip(windows.times_s + offset, sensed.times_s[0], sensed.times_s[-1])
        seen = windows.projected(spline(at))
        predicted, matrices = windows.regressed(seen, windows.truth)
        left = windows.truth - predicted
        slope = np.einsum("rk,rkc->rc", windows.projected(rate(at)), matrices[windows.groups])
        slope -= windows.regressed(seen, slope)[0]
        information = float(np.sum(slope**2))
        if not information > 0.0 or not np.isfinite(information):
            return None
        step = float(np.sum(slope * left)) / information
        offset += float(np.clip(step, -_LARGEST_STEP_S, _LARGEST_STEP_S))
        if abs(step) < _CONVERGED_S:
            break
    # Rows in relation to those that the fit's own parameters leave.
    count = len(windows.rows)
    parameters = windows.count * (motion.degree + 1) + seen.shape[1] * (1 if motion.one_frame else windows.count)
    freedom = count / max(count - parameters, 1)
    # Where each window has its own M, what is wrong with it lasts as long as the window.
    blocks_s = BLOCKS_S if motion.one_frame else (*BLOCKS_S, motion.window_s)
    scores = np.sum(slope * left, axis=1)[:, None]
    variance = long_run_variance(windows.times_s, scores, blocks_s)[0, 0] / information**2
    return DelayFit(
        offset_s=offset,
        stddev_s=float(np.sqrt(variance * freedom)),
        explained=1.0 - float(np.sum(left**2)) / total,
        spread=float(np.sqrt(total / len(windows.rows))),
        matrix=matrices[0].T,
        handedness=windows.handedness(seen),
        rows=windows.rows,
        times_s=windows.times_s,
        sensed=seen,
        left=left,
    )


def long_run_variance(times_s: Rows, scores: Rows, blocks_s: Sequence[float] = BLOCKS_S) -> Rows:
    """(p, p) covariance of the sum of scores (R, p) that are correlated, by overlapping blocks of some seconds."""
    rate = (len(times_s) - 1) / max(float(times_s[-1] - times_s[0]), 1e-9)
    best: Rows | None = None
    for span_s in blocks_s:
        length = max(1, min(round(span_s * rate), len(scores)))
        edge = np.zeros((length, scores.shape[1]))
        sums = np.cumsum(np.vstack([edge, scores, edge[1:]]), axis=0)
        blocks = sums[length:] - sums[:-length]
        covariance: Rows = blocks.T @ blocks / length
        if best is None or np.trace(covariance) > np.trace(best):
            best = covariance
    assert best is not None
    return best


def body_turns(times_s: Rows, quaternions: Rows) -> Motion:
    """Angles (K, 3) that a body has turned about its own axes, rad: the integral of its angular velocity.

    Each step between two poses is exact where the axis of the turn holds still within it; the noise of the poses does
    not add up, but for the part that the body turns meanwhile. `quaternions` (K, 4) x y z w, body to world.
    """
    rotations = Rotation.from_quat(quaternions)
    steps = (rotations[:-1].inv() * rotations[1:]).as_rotvec()
    breaks = np.zeros(len(times_s), dtype=np.bool_)
    breaks[1:] = np.linalg.norm(steps, axis=1) > _LARGEST_TURN_RAD
    values = np.vstack([np.zeros(3), np.cumsum(steps, axis=0)])
    return Motion(times_s, values, breaks, _TURN_WINDOW_S, _TURN_DEGREE, one_frame=True)


def gyro_turns(times_s: Rows, rates: Rows) -> Sensed:
    """Angles (N, k) that a gyro with k axes has turned, rad, from its rates (N, k), rad/s."""
    return Sensed(times_s, cumulative_simpson(rates, x=times_s, axis=0, initial=0.0), rates)


def body_ways(times_s: Rows, positions: Rows) -> Motion:
    """Positions (K, 3) of a body, m, to be compared with `imu_ways`."""
    return Motion(times_s, positions, np.zeros(len(times_s), dtype=np.bool_), _WAY_WINDOW_S, _WAY_DEGREE, False)


def imu_ways(times_s: Rows, rates: Rows, forces: Rows) -> Sensed:
    """Twice integrated specific force, m, in a frame that the gyro keeps from the start on, but for drift; (N, 12).

    What gravity adds is a parabola in each window; what the frame drifts within it, a cubic. The last nine columns are
    the IMU's axes in that frame: along them lies the lever arm to the body's origin, whatever it is.
    """
    turned = strapdown(times_s, rates)
    forces = turned.apply(forces)
    forces -= forces.mean(axis=0)
    speeds = cumulative_trapezoid(forces, x=times_s, axis=0, initial=0.0)
    # Less a straight line, which no window sees: it keeps the numbers small.
    line = np.polynomial.polynomial.polyfit(times_s - times_s[0], speeds, 1)
    speeds -= np.polynomial.polynomial.polyval(times_s - times_s[0], line).T
    ways = cumulative_simpson(speeds, x=times_s, axis=0, initial=0.0)
    axes = turned.as_matrix()
    crossing = np.swapaxes(np.cross(rates[:, None], np.eye(3)), 1, 2)  # times a vector: rate x vector
    turning = np.einsum("nij,njk->nik", axes, crossing)
    return Sensed(times_s, np.hstack([ways, axes.reshape(-1, 9)]), np.hstack([speeds, turning.reshape(-1, 9)]))


def strapdown(times_s: Rows, rates: Rows) -> Rotation:
    """Attitude at each time against that at the first."""
    steps = 0.5 * (rates[1:] + rates[:-1]) * np.diff(times_s)[:, None]
    # Doubling: products of 1, 2, 4, ... steps, without a loop over all of them.
    product = Rotation.concatenate([Rotation.identity(1), Rotation.from_rotvec(steps)])
    reach = 1
    while reach < len(times_s):
        product = Rotation.concatenate([product[:reach], product[:-reach] * product[reach:]])
        reach *= 2
    return product
