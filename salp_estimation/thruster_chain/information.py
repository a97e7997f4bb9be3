"""Information along a trajectory of a thruster chain: the empirical Gramian, and the covariance it leaves possible.

Both stand on exact sensitivities (`sensitivity_kernels`), in scaled units: states by their prior standard deviations,
outputs by the noise of a sample.

- `gramians`: W = sum of Phi^T C^T C Phi over a window, Phi the sensitivity of the state to that at the window's start.
  What the outputs of the window alone say of that state, without prior and without process noise.
- `predict`: the Cramer-Rao bound of filtering, by Riccati's recursion about the trajectory: prior, information and
  process noise together (van Trees's bound where the noise is zero). No unbiased filter of this model can be surer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.measurement import Matrix, Vector
from salp_estimation.thruster_chain import sensitivity_kernels as kernels
from salp_estimation.thruster_chain.observed_chain import ObservedChain, blocks

Array = NDArray[np.float64]


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
    thrust, time = np.ascontiguousarray(thrust_n, dtype=np.float64), np.ascontiguousarray(time_s, dtype=np.float64)
    states, outputs = kernels.simulate(kernels.kernel(chain), np.asarray(start, dtype=np.float64), thrust, time)
    return Trajectory(time, states, thrust), outputs


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
    free = np.flatnonzero(scale)
    transitions, gradients = kernels.jacobians(
        kernels.kernel(chain), path.states, path.thrust_n, path.time_s, free, moving
    )
    transitions *= scale[free] / scale[:moving, None]
    gradients *= scale[free] / chain.noise[:, None]
    return transitions, gradients


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
    covariance = np.ascontiguousarray(whole[np.ix_(free, free)] / np.outer(scale[free], scale[free]))
    density = np.broadcast_to(np.asarray(noise_density, dtype=np.float64), scale.shape)
    noise = np.diff(path.time_s)[:, None] * (density[free] / scale[free]) ** 2
    present = np.ones(gradients.shape[:2], dtype=np.bool_) if seen is None else np.ascontiguousarray(seen)
    variances = kernels.bound(covariance, transitions, gradients, noise, present)
    stddev, final = np.zeros_like(path.states), np.zeros_like(whole)
    stddev[:, free] = np.sqrt(np.maximum(variances, 0.0)) * scale[free]
    final[np.ix_(free, free)] = covariance * np.outer(scale[free], scale[free])
    return Prediction(stddev, final)


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
