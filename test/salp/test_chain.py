"""Chain against a dense model built here from the paper's equations (1) to (6) and numerical differentiation.

Nothing of the project's geometry is used: link positions are sums of complex numbers, Jacobians five-point differences.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from salp_estimation.model import chain_kernels as kernels
from salp_estimation.model.chain import Chain
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.model.gaits import GAITS, Gait


@dataclass(frozen=True)
class DenseChain:
    """q = (x, y, heading of the base, joint angles); the base is the mean of the wheels and of the link headings."""

    lengths: np.ndarray
    wheel_positions: np.ndarray
    wheel_angles: np.ndarray
    wheel_drag: np.ndarray
    joint_drag: np.ndarray

    def build(self, lower_rad: float = -np.pi, upper_rad: float = np.pi) -> Chain:
        links = np.zeros((len(self.lengths), kernels.COLUMNS))
        links[:, kernels.LENGTH], links[:, kernels.WHEEL_ANGLE] = self.lengths, self.wheel_angles
        links[:, kernels.WHEEL_X : kernels.WHEEL_Y + 1] = self.wheel_positions
        links[:, kernels.DRAG : kernels.DRAG + 9] = self.wheel_drag.reshape(-1, 9)
        links[:-1, kernels.JOINT_DRAG] = self.joint_drag
        links[:-1, kernels.LOWER], links[:-1, kernels.UPPER] = lower_rad, upper_rad
        return Chain(links)

    def poses(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Complex positions of link centres and wheels, and headings of the links, in the world."""
        headings = np.concatenate([[0.0], np.cumsum(q[3:])])
        along = np.exp(1j * headings)
        ends = np.concatenate([[0.0], np.cumsum(self.lengths * along)])
        centres = 0.5 * (ends[:-1] + ends[1:])
        wheels = centres + along * (self.wheel_positions @ [1.0, 1.0j])
        turn = np.exp(1j * (q[2] - headings.mean()))
        place = q[0] + 1j * q[1]
        origin = wheels.mean()
        return place + turn * (centres - origin), place + turn * (wheels - origin), headings - headings.mean() + q[2]

    def jacobians(self, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of the wheels' body twists (N, 3, N + 2) and of the links' turning rates (N, N + 2), base at the origin."""
        q, step = np.concatenate([np.zeros(3), r]), 1e-3
        n = len(self.lengths)
        twists, turning = np.empty((n, 3, n + 2)), np.empty((n, n + 2))
        along = np.exp(-1j * (self.poses(q)[2] + self.wheel_angles))
        for k in range(n + 2):
            change = step * np.eye(n + 2)[k]
            wheels, headings = 0.0, 0.0
            for count, weight in ((-2, 1.0), (-1, -8.0), (1, 8.0), (2, -1.0)):
                _, moved, turned = self.poses(q + count * change)
                wheels, headings = wheels + weight / (12.0 * step) * moved, headings + weight / (12.0 * step) * turned
            body = along * wheels
            twists[:, 0, k], twists[:, 1, k], twists[:, 2, k] = body.real, body.imag, headings
            turning[:, k] = headings
        return twists, turning

    def balance(self, r: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Drag of unit velocities (N + 2, N + 2), thrust of unit rim speeds (N + 2, N), gyros' rates (N, N + 2)."""
        twists, turning = self.jacobians(r)
        drag = np.einsum("iak,iab,ibl->kl", twists, self.wheel_drag, twists)
        drag[3:, 3:] += np.diag(self.joint_drag)
        return drag, (twists[:, 0] * self.wheel_drag[:, :1, 0]).T, turning

    def motion(self, r: np.ndarray, locked: tuple[int, ...] = ()) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """B(r), the gyros' rates and the torque on every joint for unit rim speeds; locked joints fuse their links."""
        n = len(self.lengths)
        drag, thrust, turning = self.balance(r)
        free = [k for k in range(n + 2) if k - 3 not in locked]
        control = np.zeros((n + 2, n))
        control[free] = np.linalg.solve(drag[np.ix_(free, free)], thrust[free])
        return control, turning @ control, (thrust - drag @ control)[3:]


def random_chain(seed: int, n: int) -> DenseChain:
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(n, 3, 3)) * np.array([5.0, 5.0, 0.5])[:, None]
    return DenseChain(
        rng.uniform(0.1, 0.5, size=n),
        rng.normal(scale=0.05, size=(n, 2)),
        rng.uniform(-np.pi, np.pi, size=n),
        roots @ roots.swapaxes(1, 2) + np.diag([2.0, 2.0, 0.02]),
        rng.uniform(0.0, 0.05, size=n - 1),
    )


def landsalp() -> DenseChain:
    """Figures of MODELS section 1, typed in here once more."""
    return DenseChain(
        np.full(3, 0.272),
        np.array([[0.0140, 0.0091], [0.0128, -0.0107], [0.0140, 0.0091]]),
        np.deg2rad([-57.0, -130.0, -57.0]),
        np.array(
            [
                np.diag([55.93911, 42.72713, 0.6726102]),
                np.diag([73.65501, 86.92600, 0.7321637]),
                np.diag([57.76067, 23.29921, 0.2602415]),
            ]
        ),
        np.array([0.01154289, 0.01368611]),
    )


@pytest.mark.parametrize("n", [2, 10, 100])
def test_motion_solves_the_dense_balance_of_thrust_and_drag(n: int) -> None:
    """Full, correlated drag matrices; joints folded by half a radian either way."""
    dense, rng = random_chain(0, n), np.random.default_rng(100)
    chain, r, u = dense.build(), rng.normal(scale=0.5, size=n - 1), rng.normal(scale=0.1, size=n)
    control, gyros, _ = dense.motion(r)
    np.testing.assert_allclose(chain.control_matrix(r), control, rtol=0.0, atol=1e-9 * np.abs(control).max())
    np.testing.assert_allclose(chain.velocity(r, u), control @ u, rtol=0.0, atol=1e-9 * np.abs(control @ u).max())
    rates = chain.gyro_rates(r, u)
    np.testing.assert_allclose(rates, gyros @ u, rtol=0.0, atol=1e-9 * np.abs(gyros @ u).max())
    np.testing.assert_allclose(np.diff(rates), chain.velocity(r, u)[3:], rtol=0.0, atol=1e-15 * n)


LATERAL = Gait((-0.005581, -0.006465, -0.004457), (0.025144, -0.014667, -0.011315), (0.01176, 0.0204, -0.001686))


def integrated(velocity, gait: Gait, count: int = 25) -> np.ndarray:
    """(K, N + 2) one cycle from straight at the origin by SciPy; `velocity(r, u)`: of the body and the joints."""

    def rate(time: float, q: np.ndarray) -> np.ndarray:
        v = velocity(q[3:], gait.controls(time))
        cosine, sine = np.cos(q[2]), np.sin(q[2])
        return np.array([cosine * v[0] - sine * v[1], sine * v[0] + cosine * v[1], *v[2:]])

    start, times = np.zeros(len(gait.offset) + 2), np.linspace(0.0, gait.period_s, count)
    return solve_ivp(rate, (0.0, gait.period_s), start, "DOP853", times, rtol=1e-8, atol=1e-10).y.T


def test_forward_gait_gives_the_golden_figures() -> None:
    chain, dense, gait = SalpConfiguration().chain.build(), landsalp(), GAITS["forward"]
    times, states = np.linspace(0.0, 6.0, 241), integrated(chain.velocity, gait, 241)
    end = states[-1]
    np.testing.assert_allclose(end[:2], [0.0300, 0.0], atol=5e-6)
    np.testing.assert_allclose(np.rad2deg(end[2:]), 0.0, atol=1e-3)
    # MODELS prints the two minima as the range of alpha_1 and the two maxima as that of alpha_2; from zero shape, a
    # range without zero cannot be.
    alpha = np.rad2deg(states[:, 3:])
    np.testing.assert_allclose(alpha.min(axis=0), [-3.84, -0.13], atol=5e-3)
    np.testing.assert_allclose(alpha.max(axis=0), [0.03, 10.45], atol=5e-3)
    gyros = np.array([dense.motion(r)[1] @ gait.controls(t) for r, t in zip(states[:, 3:], times, strict=True)])
    np.testing.assert_allclose(np.abs(gyros).max(axis=0), [0.233, 0.265, 0.184], atol=5e-4)


@pytest.mark.parametrize("seed", range(3))
def test_several_joints_at_their_limits(seed: int) -> None:
    """The one choice of standing joints at which no free one leaves its range and no stop pulls: all are tried."""
    rng = np.random.default_rng(1000 + seed)
    n = int(rng.integers(3, 6))
    dense = random_chain(seed, n)
    r, u = rng.normal(scale=0.6, size=n - 1), rng.normal(scale=0.1, size=n)
    side = rng.choice([-1, 1, 1, 0], size=n - 1)
    at_limit = np.flatnonzero(side)
    possible = []
    for count in range(len(at_limit) + 1):
        for locked in combinations(at_limit, count):
            control, _, torques = dense.motion(r, locked)
            leaves = side * (control @ u)[3:] > 1e-12
            pulls = side * (torques @ u) < 0.0
            if not leaves.any() and not any(pulls[j] for j in locked):
                possible.append(control @ u)
    assert len(possible) == 1
    lower, upper = np.where(side < 0, r, -3.0), np.where(side > 0, r, 3.0)
    chain = dense.build(lower, upper)
    np.testing.assert_allclose(chain.velocity(r, u), possible[0], atol=1e-9 * np.abs(possible[0]).max())
    # B(r) is the linear map without limits.
    np.testing.assert_allclose(chain.control_matrix(r), dense.motion(r)[0], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_several_joints_before_their_limits(seed: int) -> None:
    """The one choice of joints held back at which no other is too fast and none is driven on: all are tried."""
    rng = np.random.default_rng(2000 + seed)
    n, within_s = int(rng.integers(3, 6)), 0.2
    dense = random_chain(seed, n)
    r, u = rng.normal(scale=0.6, size=n - 1), rng.normal(scale=0.1, size=n)
    drag, thrust, turning = dense.balance(r)
    force = thrust @ u
    # Of the free rates' size, so that some joints are held back, and these hold back others or let them go.
    fastest = rng.uniform(0.0, 0.8, size=n - 1) * np.abs(np.linalg.solve(drag, force)[3:])
    possible = []
    for choice in product((-1, 0, 1), repeat=n - 1):
        held = np.flatnonzero(choice)
        free = [k for k in range(n + 2) if k - 3 not in held]
        velocity = np.concatenate([np.zeros(3), choice * fastest])
        velocity[free] = np.linalg.solve(drag[np.ix_(free, free)], (force - drag @ velocity)[free])
        driven_on = np.array(choice) * (force - drag @ velocity)[3:]
        if (np.abs(velocity[3:]) <= fastest * (1.0 + 1e-9)).all() and (driven_on[held] >= 0.0).all():
            possible.append(velocity)
    assert len(possible) == 1
    links = dense.build().links.copy()
    links[:-1, kernels.LOWER], links[:-1, kernels.UPPER] = r - within_s * fastest, r + within_s * fastest
    found = kernels.gyro_rates(links, np.concatenate([np.zeros(3), r])[None], u, within_s)[0]
    np.testing.assert_allclose(found, turning @ possible[0], atol=1e-8)


places = st.floats(-5.0, 5.0)
joint_angles = st.floats(-3.1, 3.1)


@settings(max_examples=30)
@given(places, places, st.floats(-3.14, 3.14), st.lists(joint_angles, min_size=4, max_size=4))
def test_states_are_found_again_from_the_poses_of_the_links(x: float, y: float, heading: float, r: list[float]) -> None:
    dense = random_chain(10, 5)
    chain, state = dense.build(), np.array([x, y, heading, *r])
    poses = chain.link_poses(state)
    centres, _, headings = dense.poses(state)
    np.testing.assert_allclose(poses[0, :, 0] + 1j * poses[0, :, 1], centres, atol=1e-12)
    np.testing.assert_allclose(poses[0, :, 2], headings, atol=1e-12)
    poses[..., 2] = np.arctan2(np.sin(poses[..., 2]), np.cos(poses[..., 2]))  # as motion capture gives them
    again = chain.state_from_links(poses)[0]
    np.testing.assert_allclose(again[[0, 1, 3, 4, 5, 6]], state[[0, 1, 3, 4, 5, 6]], atol=1e-12)
    # The mean heading is that of the links as they are numbered: modulo a turn of the first one.
    assert abs(np.exp(1j * again[2]) - np.exp(1j * heading)) < 1e-12


# States side by side.


@pytest.mark.parametrize("count", [0, 7, 3 * kernels.LANES + 5])
def test_any_number_of_states_equals_one_at_a_time(count: int) -> None:
    """To the last bit; about a third of the joints start at a limit, in other lanes other ones, and some are held."""
    links, rng = random_chain(5, 5).build(-0.4, 0.4).links, np.random.default_rng(count)
    states = np.hstack([rng.normal(size=(count, 3)), np.clip(0.4 * rng.normal(size=(count, 4)), -0.4, 0.4)])
    controls = rng.normal(scale=0.1, size=5)
    angles = np.ascontiguousarray(states[:, 3:])
    velocities, gyros = kernels.velocities(links, angles, controls), kernels.gyro_rates(links, states, controls, 0.0)
    moved = kernels.propagate(links, states, controls, 0.12, 0.05)
    assert velocities.shape == moved.shape == (count, 7)
    assert gyros.shape == (count, 5)
    for k in range(count):
        np.testing.assert_array_equal(velocities[k], kernels.velocities(links, angles[k : k + 1], controls)[0])
        np.testing.assert_array_equal(gyros[k], kernels.gyro_rates(links, states[k : k + 1], controls, 0.0)[0])
        np.testing.assert_array_equal(moved[k], kernels.propagate(links, states[k : k + 1], controls, 0.12, 0.05)[0])
    if count > 8:
        at_limit = np.abs(angles) == 0.4
        held = at_limit & (velocities[:, 3:] == 0.0)
        assert held.any()
        assert (at_limit & ~held).any()
