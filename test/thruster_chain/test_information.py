"""Sensitivities along a trajectory, Gramians and predicted covariances, against dense algebra and other derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from observed_chains import drawn_state, paper_chain, paper_noise, paper_prior, paper_state, square_waves
from scipy.integrate import solve_ivp
from thruster_chains import drawn_links, read, slope

from thruster_chain_estimation.judging.information import (
    ObservedChain,
    Trajectory,
    blocks,
    given_and_motion,
    gramians,
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


# Sensitivities.


def outputs_in(chain: ObservedChain, states: np.ndarray, thrust: np.ndarray) -> np.ndarray:
    """(3N, P) in states (5N, P)."""
    return read(chain.physical, chain.links, *given_and_motion(states, thrust[:, None]))


def test_gradients_of_the_outputs_are_those_of_central_differences() -> None:
    chain, path = drawn_path()
    _, gradients = scaled_jacobians(chain, path, SCALE)
    for k in range(len(path.time_s)):
        ahead, behind = (
            outputs_in(chain, path.states[k, :, None] + step * np.diag(SCALE), path.thrust_n[k])
            for step in (1e-5, -1e-5)
        )
        exact = (ahead - behind) / 2e-5 / chain.noise[:, None]
        np.testing.assert_allclose(gradients[k], exact, rtol=1e-6, atol=1e-7 * np.abs(exact).max())


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


# What they add up to.


def dense(chain: ObservedChain, path: Trajectory, scale: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """Full transitions (M, M) and gradients, scaled."""
    transitions, gradients = scaled_jacobians(chain, path, scale)
    size, moving = gradients.shape[2], transitions.shape[1]
    full = [np.vstack([one, np.eye(size)[moving:]]) for one in transitions]
    return full, gradients


def test_gramians_are_sums_over_their_windows() -> None:
    chain = paper_chain(True)
    time, thrust = square_waves()
    path = moved(chain, paper_state(), thrust, time)[0]
    starts, found = gramians(chain, path, paper_prior(), 0.25)
    np.testing.assert_allclose(starts, [0.0, 0.25, 0.5, 0.75])
    full, gradients = dense(chain, path, paper_prior())
    for window in range(4):
        flow, total = np.eye(12), np.zeros((12, 12))
        for k in range(25 * window, 25 * (window + 1)):
            total += (gradients[k] @ flow).T @ gradients[k] @ flow
            flow = full[k] @ flow
        np.testing.assert_allclose(found[window], total, rtol=1e-9, atol=1e-9 * np.abs(total).max())
    values, vectors = np.linalg.eigh(found[1])
    # The common heading, and nothing else, is hidden.
    np.testing.assert_allclose(np.abs(vectors[:3, 0]), 3**-0.5, atol=1e-6)
    assert values[0] < 1e-6 < 0.05 < values[1]


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


def test_paper_case_reaches_what_models_says_can_be_reached() -> None:
    """At 0.89 s: angle 0.003 rad, mass 0.0025 kg, inertia 2e-5 kg m^2 (errors); a bound must not be above them."""
    time, thrust = square_waves()
    path = moved(paper_chain(), paper_state(), thrust, time)[0]
    at = blocks(3)
    noisy = predict(paper_chain(), path, paper_prior(), paper_noise())[0][89]
    assert noisy[at.theta] == pytest.approx(0.0039, rel=0.05)
    assert noisy[at.mass] == pytest.approx(0.0024, rel=0.05)
    # The truth has no process noise, so the errors lie below what the filter believes, and above this.
    clean = predict(paper_chain(), path, paper_prior())[0][89]
    assert (clean[at.theta] < 0.003).all()
    assert (clean[at.mass] < 0.0025).all()
    assert (clean[at.inertia] < 2e-5).all()
