"""What the filter with a residual model did, step by step, and how each step carries information back in time.

The backward pass is that of `onboard_estimation.filtering.looking_back`. Errors are tangent vectors as in
`residual_filter_kernels`; that a correction of the pose turns the axes of its own error is left out, as in the filter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.filtering.gating import Gate, Innovation
from onboard_estimation.filtering.looking_back import Later
from onboard_estimation.measurement import Matrix, Vector
from salp_estimation.chain_estimator import Reading
from salp_estimation.residual_filter import ROBOT_TIME_S, FilterState, ResidualFilter
from salp_estimation.residual_filter_kernels import Linearised, expected_rates

Rows = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PastStep(ABC):
    """One of a chain of steps, each of which knows the one before it (None: it is the first)."""

    before: PastStep | None

    @abstractmethod
    def back(self, adjoint: Vector, information: Matrix) -> tuple[Vector, Matrix]:
        """What later measurements say, (n,) and (n, n), after this step: the same before it."""


@dataclass(frozen=True, slots=True)
class Prediction(PastStep):
    """A step in time of `duration_s`; `twist` (3,) is that of the base."""

    linearised: Linearised
    duration_s: float
    twist: Vector
    correlation_times_s: Vector

    def times_transition(self, rows: Rows) -> Rows:
        """(..., n) rows times F, whose rows are those of the identity but for all except the gyros' own."""
        near, duration_s = self.linearised, self.duration_s
        m, p = near.by_parameters.shape
        a = m - 3
        first = a + 2 * (m - 2)
        parameters, residuals = slice(first, first + p), slice(first + p, first + p + m)
        rates = duration_s * np.concatenate([rows[..., -3:], rows[..., :a]], axis=-1)
        out: Rows = rows.copy()
        out[..., :a] += rates @ near.by_angles
        out[..., parameters] *= np.exp(-duration_s / ROBOT_TIME_S)
        out[..., parameters] += rates @ near.by_parameters
        out[..., residuals] *= np.exp(-duration_s / self.correlation_times_s)
        out[..., residuals] += rates * near.stddevs
        out[..., -3:] = rows[..., -3:] @ inverse_adjoint(self.twist)
        return out

    def back(self, adjoint: Vector, information: Matrix) -> tuple[Vector, Matrix]:
        """F^T adjoint, F^T information F."""
        return self.times_transition(adjoint), self.times_transition(self.times_transition(information).T)


@dataclass(frozen=True, slots=True)
class Correction(PastStep):
    """By a measurement of k numbers that entered the state.

    Attributes
    ----------
    slopes, gain
        H (k, n) and K (n, k).
    spread, innovation
        S (k, k) and v (k,).
    """

    slopes: Rows
    gain: Rows
    spread: Matrix
    innovation: Vector

    def back(self, adjoint: Vector, information: Matrix) -> tuple[Vector, Matrix]:
        """See `Later`."""
        precision: Matrix = np.linalg.inv(self.spread).astype(np.float64)
        return Later(adjoint, information).before_correction(self.slopes, self.gain, precision, self.innovation)


@dataclass(frozen=True, slots=True)
class PoseReplacement(PastStep):
    """Another pose took the place of the filter's: what came later says nothing of the old one."""

    def back(self, adjoint: Vector, information: Matrix) -> tuple[Vector, Matrix]:
        """Without the pose."""
        adjoint, information = adjoint.copy(), information.copy()
        adjoint[-3:] = 0.0
        information[-3:, :] = information[:, -3:] = 0.0
        return adjoint, information


@dataclass(frozen=True, slots=True)
class Instant(PastStep):
    """Where an estimate is asked for: the public state (q,), its rows (q, n) of the covariance, and `inflation`."""

    stamp_ns: int
    mean: Vector
    rows: Rows
    inflation: float

    def back(self, adjoint: Vector, information: Matrix) -> tuple[Vector, Matrix]:
        """As they are."""
        return adjoint, information


class RecordingFilter(ResidualFilter):
    """The filter, whose states have a history."""

    def predict(self, now: FilterState, duration_s: float, linearised: Linearised) -> FilterState:
        """As the filter; recorded."""
        twist = duration_s * expected_rates(linearised, now.state)[:3]
        times_s = self.model.population.correlation_times_s
        after = super().predict(now, duration_s, linearised)
        return after._replace(history=Prediction(now.history, linearised, duration_s, twist, times_s))

    def _corrected(
        self, now: FilterState, reading: Reading, speed_m_s: float, linearised: Linearised, gate: Gate
    ) -> tuple[FilterState, Innovation]:
        after, seen = super()._corrected(now, reading, speed_m_s, linearised, gate)
        if not seen.accepted:
            return after, seen
        slope = gyro_slope(reading.link, now.state, linearised)
        spread = seen.covariance
        gain = now.covariance @ slope / spread[0, 0]
        return after._replace(history=Correction(now.history, slope[None], gain[:, None], spread, seen.value)), seen

    def correct_pose(self, now: FilterState, pose: Vector, covariance: Matrix) -> tuple[FilterState, Innovation]:
        """As the filter; recorded."""
        after, seen = super().correct_pose(now, pose, covariance)
        slopes = np.eye(self.size)[-3:]
        gain: Rows = np.linalg.solve(seen.covariance, now.covariance[-3:]).T.astype(np.float64)
        return after._replace(history=Correction(now.history, slopes, gain, seen.covariance, seen.value)), seen

    def replace_pose(self, now: FilterState, pose: Vector, covariance: Matrix) -> FilterState:
        """As the filter; recorded."""
        after = super().replace_pose(now, pose, covariance)
        return after._replace(history=PoseReplacement(now.history))

    def marked(self, now: FilterState, stamp_ns: int, apart_ns: int) -> FilterState:
        """With an estimate asked for here, unless there is one less than `apart_ns` before it."""
        step = now.history
        while step is not None and not isinstance(step, Instant):
            step = step.before
        if step is not None and stamp_ns - step.stamp_ns < apart_ns:
            return now
        public = self.public
        here = Instant(now.history, stamp_ns, now.state[public], now.covariance[public], self.inflation(now))
        return now._replace(history=here)


def inverse_adjoint(twist: Vector) -> Matrix:
    """(3, 3) what carries a pose's error, a body-frame twist, through a motion by `twist` (3,): Ad(exp(-twist))."""
    turn = -float(twist[2])
    c, s = np.cos(turn), np.sin(turn)
    small = abs(turn) < 1e-9
    half_sine, half_cosine = (1.0, 0.5 * turn) if small else (s / turn, (1.0 - c) / turn)
    x = -(half_sine * twist[0] - half_cosine * twist[1])
    y = -(half_cosine * twist[0] + half_sine * twist[1])
    return np.array([[c, -s, y], [s, c, -x], [0.0, 0.0, 1.0]])


def gyro_slope(link: int, state: Vector, linearised: Linearised) -> Vector:
    """(n,) slope of one gyro's expected rate by the state, as `kernels.update` has it."""
    m, p = linearised.by_parameters.shape
    links, a = m - 2, m - 3
    first = a + 2 * links
    parameters, residuals = slice(first, first + p), slice(first + p, first + p + m)
    # Heading rate of the link: of the base, which has the links' mean heading, plus shares of the joint rates.
    joints = np.arange(a)
    mix = np.concatenate([[0.0, 0.0, 1.0], (joints < link) - (links - 1.0 - joints) / links])
    rates = expected_rates(linearised, state)
    share = (1.0 + state[a + links + link]) * mix
    slope = np.zeros(len(state))
    slope[:a] = share @ linearised.by_angles
    slope[parameters] = share @ linearised.by_parameters
    slope[residuals] = share * linearised.stddevs
    slope[a + link] = 1.0
    slope[a + links + link] = mix @ rates
    return slope
