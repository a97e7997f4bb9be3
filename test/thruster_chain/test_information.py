"""Sensitivities along a trajectory and predicted covariances, against another integrator and dense algebra."""

from __future__ import annotations

import numpy as np
from observed_chains import drawn_state
from scipy.integrate import solve_ivp
from thruster_chains import drawn_links, slope

from thruster_chain_estimation.judging.information import (
    ObservedChain,
    Trajectory,
    blocks,
    moved,
    packed,
    predict,
    scaled_jacobians,
)


def drawn_path(count: int = 3, instants: int = 12, seed: int = 1) -> tuple[ObservedChain, Trajectory]:
    chain = ObservedChain(drawn_links(count, seed))
    thrust = np.random.default_rng(seed).normal(size=(instants, count))
    time = np.cumsum(np.random.default_rng(seed + 1).uniform(0.004, 0.012, instants))
    return chain, moved(chain, drawn_state(count, seed), thrust, time)[0]


SCALE = packed(np.full(3, 0.1), 0.05, 0.1, 1e-3, 0.1)


def test_transitions_are_those_of_the_variational_equation_by_another_integrator() -> None:
    chain, path = drawn_path(instants=4)
    transitions, _ = scaled_jacobians(chain, path, SCALE)
    moving, size = 6, len(SCALE)

    def field(_: float, flat: np.ndarray, thrust: np.ndarray) -> np.ndarray:
        z, flow = flat[:size], flat[size:].reshape(size, size)
        out = np.zeros((size + 1, size))
        out[0, :moving] = slope(chain.links, z[:, None], thrust)[:, 0]
        out[1:, :moving] = slope(chain.links, z[:, None] + 1e-30j * flow, thrust).T.imag / 1e-30
        return np.concatenate([out[0], out[1:].T.ravel()])

    for k in range(3):
        start = np.concatenate([path.states[k], np.eye(size).ravel()])
        span = (0.0, path.time_s[k + 1] - path.time_s[k])
        end = solve_ivp(field, span, start, args=(path.thrust_n[k],), rtol=1e-11, atol=1e-13, method="DOP853").y[:, -1]
        np.testing.assert_allclose(path.states[k + 1], end[:size], atol=1e-7)
        exact = end[size:].reshape(size, size)[:moving] * SCALE / SCALE[:moving, None]
        np.testing.assert_allclose(transitions[k], exact, rtol=1e-5, atol=1e-7 * np.abs(exact).max())


def dense(chain: ObservedChain, path: Trajectory, scale: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """Full transitions (M, M) and gradients, scaled."""
    transitions, gradients = scaled_jacobians(chain, path, scale)
    size, moving = gradients.shape[2], transitions.shape[1]
    full = [np.vstack([one, np.eye(size)[moving:]]) for one in transitions]
    return full, gradients


def test_prediction_is_kalmans_recursion_with_noise_held_states_and_silent_imus() -> None:
    chain, path = drawn_path(instants=15)
    scale, density = SCALE.copy(), 0.3 * SCALE
    scale[blocks(3).gain], scale[blocks(3).mass.start] = 0.0, 0.0
    seen = np.ones((15, 9), dtype=bool)
    seen[4:9, 3:6] = False
    stddev, left = predict(chain, path, scale, density, seen)
    free = np.flatnonzero(scale)
    full, gradients = dense(chain, path, scale)
    covariance = np.eye(len(free))
    for k in range(15):
        c = gradients[k][seen[k]]
        gain = np.linalg.solve(c @ covariance @ c.T + np.eye(len(c)), c @ covariance).T
        joseph = np.eye(len(free)) - gain @ c
        covariance = joseph @ covariance @ joseph.T + gain @ gain.T
        np.testing.assert_allclose(stddev[k, free], np.sqrt(np.diag(covariance)) * scale[free], rtol=1e-7)
        if k < 14:
            step = path.time_s[k + 1] - path.time_s[k]
            covariance = full[k] @ covariance @ full[k].T + np.diag((density[free] / scale[free]) ** 2 * step)
    np.testing.assert_array_equal(stddev[:, scale == 0.0], 0.0)
    again, _ = predict(chain, path, left)
    assert (again[0, free] <= stddev[-1, free] * (1.0 + 1e-9)).all()
