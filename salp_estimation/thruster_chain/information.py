"""Information along a trajectory of a thruster chain: the empirical Gramian, and the covariance it leaves possible.

Both stand on exact sensitivities, in scaled units: states by their prior standard deviations, outputs by the noise of a
sample. An imaginary part of 1e-30 on one of the 5N + 2 states (`observed_chain.Blocks`), carried through a step and the
outputs of `dynamics`, is that column of the Jacobian, exact to rounding. Thrust is held from one instant to the next.

- `gramians`: W = sum of Phi^T C^T C Phi over a window, Phi the sensitivity of the state to that at the window's start.
  What the outputs of the window alone say of that state, without prior and without process noise.
- `predict`: the Cramer-Rao bound of filtering, by Riccati's recursion about the trajectory: prior, information and
  process noise together (van Trees's bound where the noise is zero). No unbiased filter of this model can be surer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.measurement import Matrix, Vector
from salp_estimation.thruster_chain.chain_model import ImuModel
from salp_estimation.thruster_chain.dynamics import propagate, read_imus
from salp_estimation.thruster_chain.observed_chain import ObservedChain, blocks, given_and_motion

Array = NDArray[np.float64]

LONGEST_STEP_S = 0.01
"""Of the integration; longer intervals are divided."""
_STEP = 1e-30


@dataclass(frozen=True, eq=False)
class Trajectory:
    """K instants of a motion that derivatives are taken about.

    Attributes
    ----------
    time_s
        (K,) increasing.
    states
        (K, 5N + 2), see `observed_chain.Blocks`.
    thrust_n
        (K, N) held from each instant to the next.
    """

    time_s: Vector
    states: Matrix
    thrust_n: Matrix

    def __post_init__(self) -> None:
        count, links = self.thrust_n.shape
        if self.time_s.shape != (count,) or self.states.shape != (count, 5 * links + 2):
            raise ValueError(
                f"expected time ({count},) and states ({count}, {5 * links + 2}) beside thrust ({count}, {links}), "
                f"got {self.time_s.shape} and {self.states.shape}"
            )
        if not (np.diff(self.time_s) > 0.0).all():
            raise ValueError("time does not increase")


def moved(chain: ObservedChain, start: Vector, thrust_n: ArrayLike, time_s: ArrayLike) -> tuple[Trajectory, Matrix]:
    """The motion from a state (5N + 2,) under thrust (K, N), and the outputs (K, 3N) without noise."""
    thrust, time = np.asarray(thrust_n, dtype=np.float64), np.asarray(time_s, dtype=np.float64)
    states, outputs = (
        np.tile(np.asarray(start, dtype=np.float64), (len(time), 1)),
        np.empty((len(time), 3 * chain.count)),
    )
    last = blocks(chain.count).velocity.stop
    for k in range(len(time)):
        lasts_s = time[k + 1] - time[k] if k + 1 < len(time) else 0.0
        read, after = _read_and_moved(chain, states[k, :, None], thrust[k], lasts_s)
        outputs[k] = read[:, 0]
        if lasts_s:
            states[k + 1, :last] = after[:, 0]
    return Trajectory(time, states, thrust), outputs


def _read_and_moved(
    chain: ObservedChain, states: NDArray[Any], thrust: Vector, lasts_s: float
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Outputs (3N, P) of states (5N + 2, P), and their headings, rates and velocities (2N + 2, P) so much later."""
    given, motion = given_and_motion(states, thrust[:, None])
    read = np.empty((3 * chain.count, states.shape[1]), states.dtype)
    read_imus(chain.imu_model == ImuModel.PHYSICAL, chain.model, given, motion, read)
    if lasts_s:
        propagate(chain.model, given, motion, lasts_s, LONGEST_STEP_S)
    return read, np.concatenate([motion[: 2 * chain.count], motion[2 * chain.count + 2 :]])


def scaled_jacobians(chain: ObservedChain, path: Trajectory, scale: Vector) -> tuple[Array, Array]:
    """Transitions (K - 1, moving, M) and output gradients (K, 3N, M) of the M states of which `scale` is not zero.

    The velocity counts only where the chain has drag; elsewhere it changes nothing.

    Raises
    ------
    ValueError
        A heading or rate has no scale: these move, and cannot be held.
    """
    at = blocks(chain.count)
    moving = at.velocity.stop if scale[at.velocity].all() else at.omega.stop
    if not (scale[:moving] > 0.0).all():
        raise ValueError("headings and rates need prior standard deviations above zero")
    free, lasts_s = np.flatnonzero(scale), np.diff(path.time_s, append=path.time_s[-1])
    aside = 1j * _STEP * np.eye(len(scale))[:, free]
    gradients, transitions = (
        np.empty((len(lasts_s), 3 * chain.count, len(free))),
        np.empty((len(lasts_s), moving, len(free))),
    )
    for k, step_s in enumerate(lasts_s.tolist()):
        read, after = _read_and_moved(chain, path.states[k, :, None] + aside, path.thrust_n[k], step_s)
        gradients[k], transitions[k] = read.imag / _STEP, after[:moving].imag / _STEP
    return transitions[:-1] * (scale[free] / scale[:moving, None]), gradients * (scale[free] / chain.noise[:, None])


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a filter can reach.

    Attributes
    ----------
    stddev
        (K, 5N + 2) of the states after the outputs of each instant; zero where the prior is.
    covariance
        (5N + 2, 5N + 2) after the last.
    """

    stddev: Matrix
    covariance: Matrix


def predict(
    chain: ObservedChain,
    path: Trajectory,
    prior: ArrayLike,
    noise_density: ArrayLike = 0.0,
    seen: NDArray[np.bool_] | None = None,
) -> Prediction:
    """Standard deviations along a trajectory, by Riccati's recursion with exact sensitivities.

    Parameters
    ----------
    prior
        (5N + 2,) standard deviations of a diagonal covariance, or the covariance, before the first outputs. Velocity,
        masses, inertias and gains with a variance of zero are known.
    noise_density
        (5N + 2,) of the random walks of the states, per root second.
    seen
        (K, 3N) which outputs there were; None: all. An IMU that is silent tells nothing.
    """
    given = np.asarray(prior, dtype=np.float64)
    whole = np.diag(given**2) if given.ndim == 1 else given
    scale = np.sqrt(np.diag(whole))
    free = np.flatnonzero(scale)
    transitions, gradients = scaled_jacobians(chain, path, scale)
    covariance: Matrix = whole[np.ix_(free, free)] / np.outer(scale[free], scale[free])
    density = np.broadcast_to(np.asarray(noise_density, dtype=np.float64), scale.shape)
    noise = np.diff(path.time_s)[:, None] * (density[free] / scale[free]) ** 2
    variances = np.empty((len(gradients), len(free)))
    for k, gradient in enumerate(gradients):
        covariance = _updated(covariance, gradient if seen is None else gradient[seen[k]])
        variances[k] = np.diag(covariance)
        if k < len(transitions):
            covariance = _carried(covariance, transitions[k]) + np.diag(noise[k])
    stddev, final = np.zeros_like(path.states), np.zeros_like(whole)
    stddev[:, free] = np.sqrt(np.maximum(variances, 0.0)) * scale[free]
    final[np.ix_(free, free)] = covariance * np.outer(scale[free], scale[free])
    return Prediction(stddev, final)


def _updated(covariance: Matrix, gradient: Matrix) -> Matrix:
    """Kalman's covariance (M, M) after outputs of unit noise (m, M)."""
    across = gradient @ covariance
    root = np.linalg.cholesky(np.eye(len(gradient)) + across @ gradient.T)
    whitened = np.linalg.solve(root, across)
    updated: Matrix = covariance - whitened.T @ whitened
    return updated


def _carried(covariance: Matrix, transition: Matrix) -> Matrix:
    """The covariance one instant on: `transition` (moving, M) for the states that move."""
    moving, rows, carried = len(transition), transition @ covariance, covariance.copy()
    carried[:moving] = rows
    carried[:, :moving] = rows.T
    carried[:moving, :moving] = rows @ transition.T
    return carried


def gramians(chain: ObservedChain, path: Trajectory, prior_stddev: ArrayLike, window_s: float) -> tuple[Vector, Array]:
    """Starts (W,) s and Gramians (W, M, M) of windows one after the other, scaled; the last that is whole is the last.

    Raises
    ------
    ValueError
        The window is not longer than zero.
    """
    if not window_s > 0.0:
        raise ValueError(f"the window must be longer than zero, got {window_s} s")
    scale = np.asarray(prior_stddev, dtype=np.float64)
    transitions, gradients = scaled_jacobians(chain, path, scale)
    moving, size = transitions.shape[1], gradients.shape[2]
    step = float(np.median(np.diff(path.time_s))) if len(path.time_s) > 1 else window_s
    length = max(1, round(window_s / step))
    starts = np.arange(0, len(path.time_s) - length + 1, length)
    total, flow = np.zeros((len(starts), size, size)), np.broadcast_to(np.eye(size), (len(starts), size, size)).copy()
    for offset in range(length):
        read = gradients[starts + offset] @ flow
        total += read.swapaxes(1, 2) @ read
        if offset + 1 < length:
            flow[:, :moving] = transitions[starts + offset] @ flow
    return path.time_s[starts], total
