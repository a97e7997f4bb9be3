"""What the filter with a residual model did, step by step, and how each step carries information back in time.

The backward pass is Bryson and Frazier's form of the Rauch-Tung-Striebel smoother (Bierman, "Fixed interval smoothing
with discrete measurements", Int. J. Control 18, 1973): the same means and covariances, but it goes back through single
measurements, needs no inverse of a covariance (some of the states are constants that hardly anything reveals) and keeps
a few vectors of each step instead of three matrices. With x and P the filter's state and covariance at an instant, all
measurements after it say

    smoothed state = x - P adjoint,    smoothed covariance = P - P information P,

and both are carried back through a prediction with transition F, and a correction with slope H, gain K, innovation v
and its covariance S, by

    adjoint <- F^T adjoint                              information <- F^T information F
    adjoint <- (I - K H)^T adjoint - H^T S^-1 v         information <- (I - K H)^T information (I - K H) + H^T S^-1 H.

The noise of the process does not appear: neither does an inflated covariance. Errors are tangent vectors as in
`residual_filter_kernels`; that a correction of the pose turns the axes of its own error is left out, as in the filter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.filtering.gating import Gate, Innovation
from onboard_estimation.measurement import Matrix, Vector
from salp_estimation import residual_filter_kernels as kernels
from salp_estimation.residual_filter import Drive, FilterState, Linearised, ResidualFilter

Rows = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Step(ABC):
    """One of a chain of steps, each of which knows the one before it (None: it is the first)."""

    before: Step | None

    @abstractmethod
    def back(self, adjoint: Vector, information: Matrix) -> tuple[Vector, Matrix]:
        """What later measurements say, (n,) and (n, n), after this step: the same before it."""


@dataclass(frozen=True, slots=True)
class Prediction(Step):
    """A step in time of `duration_s`; `twist` (3,) is that of the base."""

    linearised: Linearised
    duration_s: float
    twist: Vector
    correlation_times_s: Vector

    def times_transition(self, rows: Rows) -> Rows:
        """(..., n) rows times F, whose rows are those of the identity but for joint angles, residual rates, pose."""
        near, duration_s = self.linearised, self.duration_s
        m, p = near.by_parameters.shape
        a = m - 3
        first = a + 2 * (m - 2)
        parameters, residuals = slice(first, first + p), slice(first + p, first + p + m)
        rates = duration_s * np.concatenate([rows[..., -3:], rows[..., :a]], axis=-1)
        out: Rows = rows.copy()
        out[..., :a] += rates @ near.by_angles
        out[..., parameters] += rates @ near.by_parameters
        out[..., residuals] *= np.exp(-duration_s / self.correlation_times_s)
        out[..., residuals] += rates * near.stddevs
        out[..., -3:] = rows[..., -3:] @ inverse_adjoint(self.twist)
        return out

    def back(self, adjoint: Vector, information: Matrix) -> tuple[Vector, Matrix]:
        """F^T adjoint, F^T information F."""
        return self.times_transition(adjoint), self.times_transition(self.times_transition(information).T)


@dataclass(frozen=True, slots=True)
class Correction(Step):
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
        """See the module."""
        inverse = np.linalg.inv(self.spread)
        along = information @ self.gain
        half = self.slopes.T @ (0.5 * (self.gain.T @ along + inverse)) - along
        change = half @ self.slopes
        earlier = adjoint - self.slopes.T @ (self.gain.T @ adjoint + inverse @ self.innovation)
        return earlier, information + change + change.T


@dataclass(frozen=True, slots=True)
class PoseReplacement(Step):
    """Another pose took the place of the filter's: what came later says nothing of the old one."""

    def back(self, adjoint: Vector, information: Matrix) -> tuple[Vector, Matrix]:
        """Without the pose."""
        adjoint, information = adjoint.copy(), information.copy()
        adjoint[-3:] = 0.0
        information[-3:, :] = information[:, -3:] = 0.0
        return adjoint, information


@dataclass(frozen=True, slots=True)
class Start(Step):
    """The filter started anew."""

    def back(self, adjoint: Vector, information: Matrix) -> tuple[Vector, Matrix]:
        """Nothing."""
        return np.zeros_like(adjoint), np.zeros_like(information)


@dataclass(frozen=True, slots=True)
class Instant(Step):
    """Where an estimate is asked for: the public state (q,), and its rows (q, n) of the covariance."""

    stamp_ns: int
    mean: Vector
    rows: Rows

    def back(self, adjoint: Vector, information: Matrix) -> tuple[Vector, Matrix]:
        """As they are."""
        return adjoint, information


@dataclass(frozen=True, slots=True)
class RecordedState(FilterState):
    """The filter's state, and the last of the steps that led to it."""

    history: Step | None


class RecordingFilter(ResidualFilter):
    """The filter with its history, which is part of `now`: whoever puts the state back puts it back too."""

    @property
    def history(self) -> Step | None:
        """The last step."""
        return self.now.history if isinstance(self.now, RecordedState) else None

    @property
    def public(self) -> NDArray[np.int64]:
        """(2 N + 2,) where pose, joint angles and biases stand in the state, as `published` has them."""
        return np.concatenate([np.arange(self.size - 3, self.size), np.arange(2 * self.link_count - 1)])

    def _record(self, step: Step | None) -> None:
        now = self.now
        self.now = RecordedState(now.state, now.covariance, now.linearised, now.start, step)

    def start(self, pose: Vector, joint_angles: Vector, biases: Vector, covariance: Matrix) -> None:
        """As the filter; what was recorded stays."""
        history = self.history
        super().start(pose, joint_angles, biases, covariance)
        self._record(Start(history))

    def linearise(self, at_ns: int, drive: Drive) -> Linearised:
        """As the filter."""
        history = self.history
        made = super().linearise(at_ns, drive)
        self._record(history)
        return made

    def predict(self, duration_s: float, linearised: Linearised) -> None:
        """As the filter; recorded."""
        history = self.history
        rates = kernels.expected_rates(
            self.link_count,
            self.now.state,
            linearised.reference,
            linearised.mean,
            linearised.by_angles,
            linearised.by_parameters,
            linearised.stddevs,
        )
        super().predict(duration_s, linearised)
        times_s = self._population.correlation_times_s
        self._record(Prediction(history, linearised, duration_s, duration_s * rates[:3], times_s))

    def correct_gyro(
        self, link: int, rate_rad_s: float, linearised: Linearised, speed_m_s: float, period_s: float, gate: Gate
    ) -> Innovation:
        """As the filter; recorded where it was not refused."""
        before, history = self.now, self.history
        seen = super().correct_gyro(link, rate_rad_s, linearised, speed_m_s, period_s, gate)
        if seen.inflation > 1.0:  # it came here once more, with an inflated covariance and no history
            inner = self.history
            self._record(history if inner is None else replace(inner, before=history))
        elif seen.accepted:
            slope = gyro_slope(link, before.state, linearised)
            spread = seen.covariance
            gain = before.covariance @ slope / spread[0, 0]
            self._record(Correction(history, slope[None], gain[:, None], spread, seen.value))
        return seen

    def correct_pose(self, pose: Vector, covariance: Matrix) -> Innovation:
        """As the filter; recorded."""
        before, history = self.now, self.history
        seen = super().correct_pose(pose, covariance)
        slopes = np.eye(self.size)[-3:]
        gain: Rows = np.linalg.solve(seen.covariance, before.covariance[-3:]).T.astype(np.float64)
        self._record(Correction(history, slopes, gain, seen.covariance, seen.value))
        return seen

    def replace_pose(self, pose: Vector, covariance: Matrix) -> None:
        """As the filter; recorded."""
        history = self.history
        super().replace_pose(pose, covariance)
        self._record(PoseReplacement(history))

    def mark(self, stamp_ns: int, apart_ns: int) -> None:
        """Ask for an estimate at the state now, unless there is one less than `apart_ns` before it."""
        step = self.history
        while step is not None and not isinstance(step, Instant | Start):
            step = step.before
        if isinstance(step, Instant) and stamp_ns - step.stamp_ns < apart_ns:
            return
        public, now = self.public, self.now
        self._record(Instant(self.history, stamp_ns, now.state[public], now.covariance[public]))


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
    rates = kernels.expected_rates(
        links,
        state,
        linearised.reference,
        linearised.mean,
        linearised.by_angles,
        linearised.by_parameters,
        linearised.stddevs,
    )
    share = (1.0 + state[a + links + link]) * mix
    slope = np.zeros(len(state))
    slope[:a] = share @ linearised.by_angles
    slope[parameters] = share @ linearised.by_parameters
    slope[residuals] = share * linearised.stddevs
    slope[a + link] = 1.0
    slope[a + links + link] = mix @ rates
    return slope
