"""Compiled way of a set point into a chamber: a regulator of second order with a largest rate, hose and chamber."""

from __future__ import annotations

import numpy as np
from numba import njit

from onboard_estimation.measurement import Matrix, Vector


@njit(cache=True)
def pneumatics(
    regulators: Matrix, lags_s: Vector, goals: Matrix, step_s: float, state: Matrix, outlets: Matrix, chambers: Matrix
) -> None:
    """Pressures at outlets and in chambers (K, C) as each step starts; `state` (3, C): outlet, its rate, chamber."""
    for k in range(len(goals)):
        for c in range(goals.shape[1]):
            outlets[k, c], chambers[k, c] = state[0, c], state[2, c]
            frequency, damping, fastest = regulators[c, 0], regulators[c, 1], regulators[c, 2]
            pull = frequency * frequency * (goals[k, c] - state[0, c]) - 2.0 * damping * frequency * state[1, c]
            state[1, c] = min(max(state[1, c] + step_s * pull, -fastest), fastest)
            state[0, c] += step_s * state[1, c]
            state[2, c] += (1.0 - np.exp(-step_s / lags_s[c])) * (state[0, c] - state[2, c])
