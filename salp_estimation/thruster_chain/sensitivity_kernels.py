"""Exact sensitivities of a thruster chain along a trajectory, by the complex step through the model itself.

An imaginary part of 1e-30 on one of the 5N + 2 states (`observed_chain.Blocks`), carried through a step and the outputs
of `forces` and `imu`, is that column of the Jacobian, exact to rounding. Thrust is held from one instant to the next.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from salp_estimation.thruster_chain.forces import accelerate_under_forces
from salp_estimation.thruster_chain.imu import ImuModel, imu_readings
from salp_estimation.thruster_chain.observed_chain import ObservedChain

Array = NDArray[np.float64]
Numbers = NDArray[Any]
"""Real or complex."""

_STEP = 1e-30
LONGEST_STEP_S = 0.01
"""Of the integration (Runge-Kutta of fourth order); longer intervals are divided."""

# What runs for long lets other threads of a node go on (`nogil`).


class Kernel(NamedTuple):
    """An `ObservedChain` as kernels take it."""

    links: Array
    gravity: Array
    pivoted: bool
    physical: bool


def kernel(chain: ObservedChain) -> Kernel:
    """For the functions below."""
    model = chain.model
    return Kernel(model.links, model.gravity, model.pivoted, chain.imu_model == ImuModel.PHYSICAL)


@njit(cache=True, error_model="numpy")
def _pushed(gain: Numbers, thrust: Array) -> Numbers:
    """(N,) thrusts as they act; spelled out, as expressions of arrays take long to compile."""
    push = np.empty(thrust.shape[0], gain.dtype)
    for i in range(thrust.shape[0]):
        push[i] = gain[i] * thrust[i]
    return push


@njit(cache=True, error_model="numpy")
def read(chain: Kernel, z: Numbers, thrust: Array, outputs: Numbers) -> None:
    """Into `outputs` (N, 3) what the IMUs read in state z (5N + 2,) under commanded thrust (N,)."""
    n = thrust.shape[0]
    imu_readings(
        chain.physical,
        chain.links,
        chain.gravity,
        chain.pivoted,
        z[:n],
        z[n : 2 * n],
        z[2 * n : 2 * n + 2],
        z[2 * n + 2 : 3 * n + 2],
        z[3 * n + 2 : 4 * n + 2],
        _pushed(z[4 * n + 2 :], thrust),
        outputs,
    )


@njit(cache=True, error_model="numpy")
def slope(chain: Kernel, z: Numbers, thrust: Array, out: Numbers) -> None:
    """Into `out` (2N + 2,) the derivatives of headings, rates and velocity of the centre of mass."""
    n = thrust.shape[0]
    linear, force = np.empty((n, 2), z.dtype), np.empty((n, 2), z.dtype)
    accelerate_under_forces(
        chain.links,
        chain.gravity,
        chain.pivoted,
        z[:n],
        z[n : 2 * n],
        z[2 * n : 2 * n + 2],
        z[2 * n + 2 : 3 * n + 2],
        z[3 * n + 2 : 4 * n + 2],
        _pushed(z[4 * n + 2 :], thrust),
        out[n : 2 * n],
        linear,
        force,
    )
    out[2 * n] = out[2 * n + 1] = 0.0
    total = 0.0 * z[0]
    for i in range(n):
        out[i] = z[n + i]
        out[2 * n] += force[i, 0]
        out[2 * n + 1] += force[i, 1]
        total += z[2 * n + 2 + i]
    out[2 * n] /= total
    out[2 * n + 1] /= total


@njit(cache=True, error_model="numpy")
def advance(chain: Kernel, z: Numbers, thrust: Array, duration: float) -> None:
    """Move the state z (5N + 2,) on in place."""
    moving = 2 * thrust.shape[0] + 2
    steps = max(1, int(np.ceil(duration / LONGEST_STEP_S - 1e-9)))
    step = duration / steps
    rise, total, trial = np.empty(moving, z.dtype), np.empty(moving, z.dtype), z.copy()
    for _ in range(steps):
        for stage in range(4):
            if stage > 0:
                share = step if stage == 3 else 0.5 * step
                for i in range(moving):
                    trial[i] = z[i] + share * rise[i]
            slope(chain, trial, thrust, rise)
            weight = 2.0 if stage == 1 or stage == 2 else 1.0
            for i in range(moving):
                total[i] = weight * rise[i] + (total[i] if stage > 0 else 0.0)
        for i in range(moving):
            z[i] += (step / 6.0) * total[i]
            trial[i] = z[i]


@njit(cache=True, error_model="numpy", nogil=True)
def simulate(chain: Kernel, start: Array, thrust: Array, time: Array) -> tuple[Array, Array]:
    """States (K, 5N + 2) and outputs (K, 3N) at `time` (K,) s from `start`, thrust (K, N) held from each instant on."""
    count, n = thrust.shape
    states, outputs = np.empty((count, len(start))), np.empty((count, n, 3))
    z = start.copy()
    for k in range(count):
        for i in range(len(z)):
            states[k, i] = z[i]
        read(chain, z, thrust[k], outputs[k])
        if k + 1 < count:
            advance(chain, z, thrust[k], time[k + 1] - time[k])
    return states, outputs.reshape(count, 3 * n)


@njit(cache=True, error_model="numpy", nogil=True)
def jacobians(
    chain: Kernel, states: Array, thrust: Array, time: Array, columns: NDArray[np.int64], moving: int
) -> tuple[Array, Array]:
    """Exact derivatives of the first `moving` states one instant later (K - 1, moving, M), of the outputs (K, 3N, M).

    Each of the K instants on its own, about the states (K, 5N + 2) given; `columns` (M,) are the states to derive by.
    """
    count, n = thrust.shape
    transitions = np.empty((max(count - 1, 0), moving, len(columns)))
    gradients = np.empty((count, 3 * n, len(columns)))
    z, outputs = np.empty(states.shape[1], np.complex128), np.empty((n, 3), np.complex128)
    for k in range(count):
        for c in range(len(columns)):
            for i in range(len(z)):
                z[i] = states[k, i]
            z[columns[c]] += 1j * _STEP
            read(chain, z, thrust[k], outputs)
            for row in range(3 * n):
                gradients[k, row, c] = outputs[row // 3, row % 3].imag / _STEP
            if k + 1 < count:
                advance(chain, z, thrust[k], time[k + 1] - time[k])
                for row in range(moving):
                    transitions[k, row, c] = z[row].imag / _STEP
    return transitions, gradients


@njit(cache=True, error_model="numpy")
def update(covariance: Array, gradient: Array, seen: NDArray[np.bool_]) -> None:
    """Kalman's covariance (M, M) in place by outputs of unit noise (3N, M), one after the other, where `seen` (3N,)."""
    size = covariance.shape[0]
    across = np.empty(size)
    for row in range(gradient.shape[0]):
        if not seen[row]:
            continue
        innovation = 1.0
        for i in range(size):
            across[i] = 0.0
            for j in range(size):
                across[i] += covariance[i, j] * gradient[row, j]
            innovation += gradient[row, i] * across[i]
        for i in range(size):
            for j in range(size):
                covariance[i, j] -= across[i] * across[j] / innovation


@njit(cache=True, error_model="numpy")
def carry(covariance: Array, transition: Array, noise: Array) -> None:
    """The covariance one instant on, in place: `transition` (moving, M) for the states that move."""
    moving, size = transition.shape
    rows = np.zeros((moving, size))
    for i in range(moving):
        for k in range(size):
            for j in range(size):
                rows[i, j] += transition[i, k] * covariance[k, j]
    for i in range(moving):
        for j in range(moving, size):
            covariance[i, j] = covariance[j, i] = rows[i, j]
        for j in range(i + 1):
            total = 0.0
            for k in range(size):
                total += rows[i, k] * transition[j, k]
            covariance[i, j] = covariance[j, i] = total
    for i in range(size):
        covariance[i, i] += noise[i]


@njit(cache=True, error_model="numpy", nogil=True)
def bound(covariance: Array, transitions: Array, gradients: Array, noise: Array, seen: NDArray[np.bool_]) -> Array:
    """Variances (K, M) after each instant's outputs, the covariance itself in place; all scaled, noise (K - 1, M)."""
    variances = np.empty((gradients.shape[0], covariance.shape[0]))
    for k in range(gradients.shape[0]):
        update(covariance, gradients[k], seen[k])
        for i in range(covariance.shape[0]):
            variances[k, i] = covariance[i, i]
        if k < transitions.shape[0]:
            carry(covariance, transitions[k], noise[k])
    return variances
