"""An iterated extended Kalman filter of a thruster chain on exact sensitivities: predictions are held to it.

States are headings, rates, 1/m and log j, so that both stay positive and the paper's accelerometer is linear in its
masses. It shares the model with the prediction, but neither its linearisation points nor its recursion.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from salp_estimation.thruster_chain import sensitivity_kernels as kernels
from salp_estimation.thruster_chain.information import Trajectory
from salp_estimation.thruster_chain.observed_chain import ObservedChain, blocks

Array = NDArray[np.float64]
_ITERATIONS = 4


class Filtered(NamedTuple):
    """Estimates (K, 5N + 2), their standard deviations, and the last covariance of the 4N states, both natural."""

    means: Array
    stddev: Array
    covariance: Array


def filtered(
    chain: ObservedChain, path: Trajectory, outputs: Array, mean: Array, prior_stddev: Array, noise_density: Array
) -> Filtered:
    """Run over outputs (K, 3N) under the thrust of a trajectory, whose states are not looked at."""
    at, kernel, noise = blocks(chain.count), kernels.kernel(chain), chain.noise
    free, moving = np.flatnonzero(prior_stddev), at.omega.stop
    assert len(free) == 4 * chain.count
    masses = slice(moving, moving + chain.count)
    inertias = slice(moving + chain.count, None)

    def inner(z: Array) -> Array:
        x = z[free].copy()
        x[masses], x[inertias] = 1.0 / x[masses], np.log(x[inertias])
        return x

    def natural(x: Array) -> tuple[Array, Array]:
        """State z, and the derivative of its free part by the inner one."""
        z, slope = mean.copy(), np.ones(len(x))
        z[free] = x
        z[at.mass], z[at.inertia] = 1.0 / x[masses], np.exp(x[inertias])
        slope[masses], slope[inertias] = -(z[at.mass] ** 2), z[at.inertia]
        return z, slope

    x = inner(mean)
    covariance = np.diag((prior_stddev[free] / natural(x)[1]) ** 2)
    means, deviations = np.empty_like(path.states), np.zeros_like(path.states)
    read = np.empty((chain.count, 3))
    for k in range(len(path.time_s)):
        point = x
        for _ in range(_ITERATIONS):
            z, slope = natural(point)
            kernels.read(kernel, z, path.thrust_n[k], read)
            gradient = kernels.jacobians(
                kernel, z[None], path.thrust_n[k : k + 1], path.time_s[k : k + 1], free, moving
            )[1][0]
            gradient = gradient * slope / noise[:, None]
            innovation = gradient @ covariance @ gradient.T + np.eye(len(noise))
            gain = np.linalg.solve(innovation, gradient @ covariance).T
            point = x + gain @ ((outputs[k] - read.ravel()) / noise - gradient @ (x - point))
        joseph = np.eye(len(x)) - gain @ gradient
        x, covariance = point, joseph @ covariance @ joseph.T + gain @ gain.T
        z, slope = natural(x)
        means[k], deviations[k, free] = z, np.sqrt(np.diag(covariance)) * np.abs(slope)
        if k + 1 < len(path.time_s):
            pair, step = slice(k, k + 2), path.time_s[k + 1] - path.time_s[k]
            rows = kernels.jacobians(kernel, np.stack([z, z]), path.thrust_n[pair], path.time_s[pair], free, moving)[0]
            transition = np.vstack([rows[0] * slope, np.eye(len(x))[moving:]])
            kernels.advance(kernel, z, path.thrust_n[k], step)
            x = inner(z)
            covariance = transition @ covariance @ transition.T
            covariance += np.diag((noise_density[free] / natural(x)[1]) ** 2 * step)
    slope = natural(x)[1]
    return Filtered(means, deviations, covariance * np.outer(slope, slope))
