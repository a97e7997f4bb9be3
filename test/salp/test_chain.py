"""Chain against a dense model built here from the paper's equations (1) to (6) and numerical differentiation.

Nothing of the project's geometry is used: link positions are sums of complex numbers, Jacobians five-point differences.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
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

    def build(self, **options) -> Chain:
        return Chain.build(
            self.lengths, self.wheel_positions, self.wheel_angles, self.wheel_drag, self.joint_drag, **options
        )

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


@pytest.mark.parametrize("n", [2, 3, 10, 100])
def test_motion_solves_the_dense_balance_of_thrust_and_drag(n: int) -> None:
    """Full, correlated drag matrices; joints folded by half a radian either way."""
    for seed in range(3 if n < 100 else 1):
        dense = random_chain(seed, n)
        rng = np.random.default_rng(100 + seed)
        chain, r, u = dense.build(), rng.normal(scale=0.5, size=n - 1), rng.normal(scale=0.1, size=n)
        control, gyros, _ = dense.motion(r)
        np.testing.assert_allclose(chain.control_matrix(r), control, rtol=0.0, atol=1e-9 * np.abs(control).max())
        np.testing.assert_allclose(chain.velocity(r, u), control @ u, rtol=0.0, atol=1e-9 * np.abs(control @ u).max())
        rates = chain.gyro_rates(r, u)
        np.testing.assert_allclose(rates, gyros @ u, rtol=0.0, atol=1e-9 * np.abs(gyros @ u).max())
        np.testing.assert_allclose(np.diff(rates), chain.velocity(r, u)[3:], rtol=0.0, atol=1e-15 * n)


def test_configured_robot_is_that_of_the_models() -> None:
    chain, dense = SalpConfiguration().chain.build(), landsalp()
    r = np.array([0.2, -0.4])
    np.testing.assert_allclose(chain.control_matrix(r), dense.motion(r)[0], rtol=1e-9, atol=1e-10)


def test_scaling_all_drag_changes_nothing() -> None:
    dense = random_chain(5, 4)
    r = np.array([0.3, -0.2, 0.5])
    scaled = replace(dense, wheel_drag=7.3 * dense.wheel_drag, joint_drag=7.3 * dense.joint_drag)
    np.testing.assert_allclose(scaled.build().control_matrix(r), dense.build().control_matrix(r), rtol=1e-12)
    other = replace(dense, wheel_drag=7.3 * dense.wheel_drag)
    assert not np.allclose(other.build().control_matrix(r), dense.build().control_matrix(r), rtol=1e-6)


def test_batch_equals_singles() -> None:
    chain = random_chain(6, 5).build()
    rng = np.random.default_rng(7)
    states, u = rng.normal(scale=0.4, size=(6, 7)), rng.normal(scale=0.1, size=5)
    velocities, gyros = chain.velocity(states[:, 3:], u), chain.gyro_rates(states[:, 3:], u)
    moved, poses = chain.propagate(states, u, 0.3), chain.link_poses(states)
    for k in range(6):
        np.testing.assert_array_equal(velocities[k], chain.velocity(states[k, 3:], u))
        np.testing.assert_array_equal(gyros[k], chain.gyro_rates(states[k, 3:], u))
        np.testing.assert_array_equal(moved[k], chain.propagate(states[k : k + 1], u, 0.3)[0])
        np.testing.assert_array_equal(poses[k], chain.link_poses(states[k])[0])


LATERAL = Gait((-0.005581, -0.006465, -0.004457), (0.025144, -0.014667, -0.011315), (0.01176, 0.0204, -0.001686))


def _integrate(velocity, gait: Gait):
    """One cycle from straight at the origin by SciPy; `velocity(r, u)` is the body velocity and the joint rates."""

    def rate(time: float, q: np.ndarray) -> np.ndarray:
        v = velocity(q[3:], gait.controls(time))
        cosine, sine = np.cos(q[2]), np.sin(q[2])
        return np.array([cosine * v[0] - sine * v[1], sine * v[0] + cosine * v[1], *v[2:]])

    solution = solve_ivp(
        rate, (0.0, gait.period_s), np.zeros(5), "DOP853", np.linspace(0.0, 6.0, 241), rtol=1e-9, atol=1e-11
    )
    return solution.t, solution.y.T


@pytest.mark.parametrize("source", ["dense", "project"])
def test_forward_gait_gives_the_golden_figures(source: str) -> None:
    chain, dense = SalpConfiguration().chain.build(), landsalp()
    gait = GAITS["forward"]
    velocity = chain.velocity if source == "project" else lambda r, u: dense.motion(r)[0] @ u
    times, states = _integrate(velocity, gait)
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


def test_gaits_move_as_the_models_say_by_the_projects_own_integration() -> None:
    chain = SalpConfiguration().chain.build()
    ends = {}
    for name, gait in {**GAITS, "lateral": LATERAL}.items():
        state = np.zeros((1, 5))
        for k in range(600):
            state = chain.propagate(state, gait.controls(0.01 * (k + 0.5)), 0.01)
        ends[name] = state[0]
    np.testing.assert_allclose(ends["forward"][:2], [0.0300, 0.0], atol=5e-6)
    np.testing.assert_allclose(ends["backward"][:2], [-0.0300, 0.0], atol=5e-6)
    np.testing.assert_allclose(ends["lateral"][:2], [0.0, 0.0300], atol=5e-6)
    np.testing.assert_allclose(np.rad2deg(ends["turning"][2]), 45.0, atol=5e-3)
    for name, end in ends.items():
        np.testing.assert_allclose(np.rad2deg(end[3 if name == "turning" else 2 :]), 0.0, atol=5e-3)
    np.testing.assert_allclose(ends["forward"], _integrate(chain.velocity, GAITS["forward"])[1][-1], atol=1e-6)


def test_backward_gait_is_the_forward_gait_run_backwards() -> None:
    times = np.linspace(0.0, 6.0, 13)
    np.testing.assert_allclose(GAITS["backward"].controls(times), -GAITS["forward"].controls(-times), atol=1e-16)


def test_integration_is_of_fourth_order() -> None:
    chain = landsalp().build()
    start = np.array([[0.1, -0.2, 3.0, 0.3, -0.5]])
    u, duration = np.array([0.15, -0.1, 0.12]), 2.0
    reference = chain.propagate(start, u, duration, duration / 512)
    errors = [np.abs(chain.propagate(start, u, duration, duration / steps) - reference).max() for steps in (8, 16, 32)]
    ratios = np.array(errors[:-1]) / errors[1:]
    np.testing.assert_allclose(ratios, 16.0, rtol=0.25)


def test_heading_is_wrapped_and_motion_does_not_depend_on_it() -> None:
    chain = SalpConfiguration().chain.build()
    u = np.array([0.3, -0.1, 0.2])
    at_zero = chain.propagate(np.array([[0.0, 0.0, 0.0, 0.1, 0.2]]), u, 1.0)[0]
    turned = chain.propagate(np.array([[1.0, 2.0, 3.1, 0.1, 0.2]]), u, 1.0)[0]
    assert -np.pi < turned[2] <= np.pi
    assert np.exp(1j * turned[2]) == pytest.approx(np.exp(1j * (at_zero[2] + 3.1)))
    moved = np.exp(3.1j) * (at_zero[0] + 1j * at_zero[1])
    assert complex(turned[0], turned[1]) == pytest.approx(1.0 + 2.0j + moved)
    np.testing.assert_allclose(turned[3:], at_zero[3:], rtol=1e-12)


def test_joint_driven_into_its_limit_stands_and_its_links_move_as_one() -> None:
    dense = random_chain(9, 4)
    r, u = np.array([0.3, -0.4, 0.2]), np.array([0.1, -0.2, 0.15, 0.05])
    free = dense.motion(r)[0] @ u
    fused = dense.motion(r, locked=(1,))[0] @ u
    upper = free[4] > 0.0
    limits = {("joint_upper_rad" if upper else "joint_lower_rad"): np.where([0, 1, 0], r, 3.0 if upper else -3.0)}
    velocity = dense.build(**limits).velocity(r, u)
    np.testing.assert_allclose(velocity, fused, atol=1e-10)
    assert velocity[4] == 0.0
    assert np.abs(fused - free).max() > 1e-3
    rates = dense.build(**limits).gyro_rates(r, u)
    assert rates[1] == rates[2]
    # Driven away from the limit it moves as if there were none.
    np.testing.assert_allclose(dense.build(**limits).velocity(r, -u), -free, atol=1e-10)


@pytest.mark.parametrize("seed", range(8))
def test_a_joint_before_its_limit_is_no_faster_than_gets_it_there_in_time(seed: int) -> None:
    """All rates are affine in that of the joint: between those of the free and of the standing one."""
    dense = random_chain(30 + seed, 4)
    r, u = np.random.default_rng(seed).normal(scale=0.4, size=3), np.array([0.1, -0.2, 0.15, 0.05])
    links, point = dense.build().links, np.concatenate([np.zeros(3), r])[None]
    free, stands = kernels.gyro_rates(links, point, u)[0], (dense.motion(r, locked=(1,))[0] @ u)[3:]
    rate = free[2] - free[1]
    fused = dense.build(joint_lower_rad=np.where([0, 1, 0], r, -3.0), joint_upper_rad=np.where([0, 1, 0], r, 3.0))
    fused_rates = fused.gyro_rates(r, u)
    np.testing.assert_allclose(np.diff(fused_rates), stands, atol=1e-10)
    side, within_s = kernels.UPPER if rate > 0.0 else kernels.LOWER, 0.2
    for share in (0.0, 0.3, 0.999, 1.001, 5.0):
        limited = links.copy()
        limited[1, side] = r[1] + share * rate * within_s
        expected = fused_rates + min(share, 1.0) * (free - fused_rates)
        np.testing.assert_allclose(kernels.gyro_rates(limited, point, u, within_s)[0], expected, atol=1e-9)
        at_once = kernels.gyro_rates(limited, point, u)[0]
        np.testing.assert_allclose(at_once, free if share > 0.0 else fused_rates, atol=1e-9)


@pytest.mark.parametrize("seed", range(40))
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
    chain = dense.build(joint_lower_rad=lower, joint_upper_rad=upper)
    np.testing.assert_allclose(chain.velocity(r, u), possible[0], atol=1e-9 * np.abs(possible[0]).max())
    # B(r) is the linear map without limits.
    np.testing.assert_allclose(chain.control_matrix(r), dense.motion(r)[0], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("seed", range(40))
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


def test_chain_runs_up_to_its_limit_and_not_beyond() -> None:
    configuration = SalpConfiguration()
    dense = landsalp()
    chain = dense.build(joint_lower_rad=[-0.05, -1.0], joint_upper_rad=[0.08, 1.0])
    u = 0.05 * np.array([1.0, -1.0, 0.5])
    u *= np.sign(configuration.chain.build().velocity(np.zeros(2), u)[3])
    end = chain.propagate(np.zeros((1, 5)), u, 20.0)[0]
    assert end[3] == 0.08
    assert chain.velocity(end[3:], u)[3] == 0.0
    inside = chain.propagate(np.array([[0.0, 0.0, 0.0, 0.5, -2.0]]), np.zeros(3), 0.1)[0]
    np.testing.assert_array_equal(inside[3:], [0.08, -1.0])


places = st.floats(-5.0, 5.0)
joint_angles = st.floats(-3.1, 3.1)


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


def test_outline_runs_through_the_joints() -> None:
    dense = random_chain(11, 4)
    state = np.array([[1.0, 2.0, 0.4, 0.5, -1.0, 2.0]])
    outline = dense.build().outline(state)[0]
    np.testing.assert_allclose(np.linalg.norm(np.diff(outline, axis=0), axis=1), dense.lengths)
    centres, _, _ = dense.poses(state[0])
    middles = 0.5 * (outline[:-1] + outline[1:])
    np.testing.assert_allclose(middles[:, 0] + 1j * middles[:, 1], centres, atol=1e-12)


def test_state_space_names_the_joints() -> None:
    space = random_chain(12, 3).build().space()
    assert space.names == ("pose.x", "pose.y", "pose.heading", "joint_angles.alpha_1", "joint_angles.alpha_2")


def test_impossible_chains_are_refused() -> None:
    dense = random_chain(13, 3)
    geometry = (dense.lengths, dense.wheel_positions, dense.wheel_angles)
    with pytest.raises(ValueError, match="two links or more"):
        Chain.build([0.3], [[0.0, 0.0]], [0.0], [[1.0, 1.0, 1.0]], [])
    with pytest.raises(ValueError, match=r"drag \(2, 3\)"):
        Chain.build(*geometry, np.ones((2, 3)), dense.joint_drag)
    with pytest.raises(ValueError, match="drag of link 2 is not positive definite: eigenvalue -1"):
        Chain.build(*geometry, [[1.0, 1.0, 1.0], [1.0, -1.0, 1.0], [1.0, 1.0, 1.0]], dense.joint_drag)
    skew = dense.wheel_drag.copy()
    skew[1, 0, 1] += 0.5
    with pytest.raises(ValueError, match="symmetric"):
        Chain.build(*geometry, skew, dense.joint_drag)
    with pytest.raises(ValueError, match="broadcast"):
        Chain.build(*geometry, dense.wheel_drag, [0.1, 0.1, 0.1])


@pytest.mark.parametrize(
    "call",
    [
        lambda chain: chain.velocity(np.zeros(3), np.zeros(3)),
        lambda chain: chain.velocity(np.zeros(2), np.zeros(2)),
        lambda chain: chain.control_matrix(np.zeros(4)),
        lambda chain: chain.gyro_rates(np.zeros((2, 4)), np.zeros(3)),
        lambda chain: chain.propagate(np.zeros((1, 4)), np.zeros(3), 0.1),
        lambda chain: chain.propagate(np.zeros((1, 5)), np.zeros(2), 0.1),
        lambda chain: chain.link_poses(np.zeros(4)),
    ],
)
def test_arrays_of_wrong_sizes_are_refused(call) -> None:
    with pytest.raises(ValueError, match="expected rows of"):
        call(SalpConfiguration().chain.build())
