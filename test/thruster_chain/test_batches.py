"""Forces, IMU models, and motion of many states at once against one state at a time and against SciPy's integrator."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from thruster_chains import RandomChain, drawn_model

from benchmarks import paper_equations
from onboard_estimation.errors import UserError
from salp_estimation.thruster_chain.batches import propagate, read_imus
from salp_estimation.thruster_chain.chain_model import QUADRATIC_ALONG, QUADRATIC_TURNING, ChainModel, checked_inertia
from salp_estimation.thruster_chain.forces import accelerate_under_forces, external_forces, link_velocities
from salp_estimation.thruster_chain.imu import imu_readings

HALF = np.full((3, 2), (0.125, 0.0))


def drawn_states(count: int, points: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Reciprocals (2N, P), motion (2N + 4, P), thrust (N,)."""
    rng = np.random.default_rng(seed)
    reciprocal = np.vstack([rng.uniform(1.0, 4.0, (count, points)), rng.uniform(100.0, 500.0, (count, points))])
    return reciprocal, rng.normal(size=(2 * count + 4, points)), rng.normal(size=count)


def one_state(model: ChainModel, reciprocal: np.ndarray, motion: np.ndarray, point: int) -> tuple:
    """Its arguments for the functions of one state, but the thrust."""
    n = model.count
    heading, rate, _, centre = np.split(motion[:, point], [n, 2 * n, 2 * n + 2])
    mass, inertia = np.split(1.0 / reciprocal[:, point], 2)
    return model.links, model.gravity, model.pivoted, heading, rate, centre, mass, inertia


@pytest.mark.parametrize("physical", [False, True])
@pytest.mark.parametrize(("count", "pivoted"), [(1, True), (1, False), (2, False), (3, True), (30, False)])
def test_many_states_read_as_one_by_one(count: int, pivoted: bool, physical: bool) -> None:
    """Sigma points in numbers that fill no whole vectors of the processor."""
    model = drawn_model(count, 3, pivoted)
    for points in (1, 8, 17, 43):
        reciprocal, motion, thrust = drawn_states(count, points, points)
        found = np.full((3 * count, points), np.nan)
        read_imus(physical, model.links, model.gravity, pivoted, reciprocal, motion, thrust, found)
        expected = np.empty((points, count, 3))
        for point in range(points):
            imu_readings(physical, *one_state(model, reciprocal, motion, point), thrust, expected[point])
        np.testing.assert_allclose(found, expected.reshape(points, -1).T, rtol=0.0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("pivoted", [False, True])
def test_motion_is_that_of_an_accurate_integrator(pivoted: bool) -> None:
    model, n = drawn_model(4, 8, pivoted), 4
    model.links[:, QUADRATIC_ALONG : QUADRATIC_TURNING + 1] = 0.0  # has a kink where a speed changes its sign
    reciprocal, motion, thrust = drawn_states(n, 3, 9)

    def derivative(_: float, y: np.ndarray, point: int) -> np.ndarray:
        angular, linear, force = np.empty(n), np.empty((n, 2)), np.empty((n, 2))
        state = one_state(model, reciprocal, np.tile(y[:, None], point + 1), point)
        accelerate_under_forces(*state, thrust, angular, linear, force)
        mass = state[6]
        return np.concatenate([y[n : 2 * n], angular, y[2 * n + 2 :], force.sum(axis=0) / mass.sum()])

    exact = np.column_stack(
        [
            solve_ivp(derivative, (0.0, 0.1), motion[:, k], args=(k,), rtol=1e-12, atol=1e-13, method="DOP853").y[:, -1]
            for k in range(3)
        ]
    )
    errors = []
    for longest in (0.01, 0.005):
        found = motion.copy()
        propagate(model.links, model.gravity, pivoted, reciprocal, found, thrust, 0.1, longest)
        if pivoted:  # the whole chain's velocity is not a state of its own there
            found[2 * n :] = exact[2 * n :]
        errors.append(np.abs(found - exact).max())
    assert errors[0] < 1e-4
    assert errors[1] < errors[0] / 12.0  # of the fourth order: 16


def test_velocities_of_links_are_the_paper_s() -> None:
    chain = RandomChain.drawn(5, 2, rods=True)
    model, centre = ChainModel.rods(2.0 * chain.half_length), np.array([0.3, -0.2])
    found = np.empty((5, 2))
    link_velocities(model.links, False, chain.heading, chain.rate, chain.mass, centre, found)
    expected = paper_equations.link_velocities(chain.half_length, chain.heading, chain.rate, chain.mass, centre)
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-14)


def test_drag_slows_along_the_link_s_own_axes() -> None:
    """Along a link that points up, 2 N s/m and 3 N s^2/m^2; friction acts on both neighbours alike."""
    model = ChainModel.build(-HALF, HALF, drag=(2.0, 5.0, 0.1), quadratic_drag=(3.0, 7.0, 0.2), joint_friction=0.01)
    force, torque = np.empty((3, 2)), np.empty(3)
    up, rate = np.full(3, 0.5 * np.pi), np.array([1.0, -2.0, 0.0])
    velocity = np.array([[0.0, 0.5], [0.5, 0.0], [0.0, -0.5]])
    external_forces(model.links, model.gravity, up, rate, velocity, np.ones(3), np.zeros(3), force, torque)
    np.testing.assert_allclose(force, [[0.0, -1.75], [-4.25, 0.0], [0.0, 1.75]], atol=1e-15)
    np.testing.assert_allclose(torque, [-0.3 - 0.03, 0.2 + 0.8 + 0.03 + 0.02, -0.02], atol=1e-15)


def test_the_paper_s_accelerometer_reads_external_forces_by_mass_in_the_room_s_frame() -> None:
    """Equations (21) and (33) with the IMUs in the centres of mass; (20) elsewhere."""
    rng = np.random.default_rng(0)
    heading, rate, thrust = rng.normal(size=3), rng.normal(size=3), rng.normal(size=3)
    mass, inertia, psi = rng.uniform(0.3, 1.0, 3), np.full(3, 2.6e-3), np.array([0.8, 2.1, -1.6])
    centred = ChainModel.rods(np.full(3, 0.25), psi)
    state, readings = (centred.gravity, False, heading, rate, np.zeros(2), mass, inertia, thrust), np.empty((3, 3))
    imu_readings(False, centred.links, *state, readings)
    angle = heading + psi
    expected = np.column_stack([thrust / mass * np.cos(angle), thrust / mass * np.sin(angle), rate])
    np.testing.assert_allclose(readings, expected, atol=1e-14)

    force = thrust[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    angular = paper_equations.angular_accelerations(np.full(3, 0.125), heading, rate, mass, inertia, force)
    place = 0.1 * np.column_stack([np.cos(heading), np.sin(heading)])
    expected[:, :2] += -(rate**2)[:, None] * place + angular[:, None] * np.column_stack([-place[:, 1], place[:, 0]])
    elsewhere = ChainModel.build(-HALF, HALF, psi, imu_places=(0.1, 0.0))
    imu_readings(False, elsewhere.links, *state, readings)
    np.testing.assert_allclose(readings, expected, atol=1e-12)


def test_a_floating_chain_s_readings_do_not_tell_its_heading() -> None:
    """All headings and the velocity turned alike: physical readings stay, the paper's turn."""
    model, turned_by = ChainModel.rods([0.2, 0.3, 0.25], [0.5, 2.0, -1.5]), 0.7
    reciprocal, motion, thrust = drawn_states(3, 1, 4)
    found = np.empty((2, 2, 9, 1))
    for turned in (0, 1):
        motion[:3] += turned * turned_by
        for physical in (0, 1):
            read_imus(
                bool(physical),
                model.links,
                model.gravity,
                False,
                reciprocal,
                motion[:6],
                thrust,
                found[turned, physical],
            )
    np.testing.assert_allclose(found[1, 1], found[0, 1], rtol=1e-12)
    assert np.abs(found[1, 0] - found[0, 0]).max() > 0.1


def test_complex_states_give_exact_derivatives() -> None:
    """By the mass of link 2, with all kinds of forces, against central differences."""
    model = drawn_model(3, 6)
    reciprocal, motion, thrust = drawn_states(3, 1, 7)
    state = one_state(model, reciprocal, motion, 0)

    def read(step: complex, kind: type) -> np.ndarray:
        mass = state[6].astype(kind)
        mass[1] += step
        arguments = [a.astype(kind) for a in (*state[3:6], mass, state[7], thrust)]
        out = np.empty((3, 3), kind)
        imu_readings(True, *state[:3], *arguments, out)
        return out

    exact = read(1e-30j, complex).imag / 1e-30
    np.testing.assert_allclose(exact, (read(1e-6, float) - read(-1e-6, float)) / 2e-6, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"ahead": -HALF}, "link 1 has no length"),
        ({"drag": (0.1, -0.2, 0.0)}, "link 1 has a drag or friction of -0.2"),
        ({"joint_friction": np.array([0.0, 0.0, -1.0])}, "link 3 has a drag or friction of -1"),
        ({"gravity": (0.0, np.nan)}, "infinite or none"),
    ],
)
def test_models_that_cannot_be_are_refused(change: dict, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        ChainModel.build(**{"behind": -HALF, "ahead": HALF, **change})


@pytest.mark.parametrize(
    ("mass", "inertia", "sentence"),
    [
        ([0.5, 0.0, 0.5], [1e-3] * 3, "mass of link 2: 0 kg; it must be positive"),
        ([0.5] * 3, [1e-3, 1e-3, -1e-3], "inertia of link 3: -0.001 kg m"),
        ([0.5] * 2, [1e-3] * 3, "2 values of mass given, 3 links need 3"),
        ([np.inf] * 3, [1e-3] * 3, "mass of link 1: inf"),
    ],
)
def test_inertias_that_cannot_be_are_refused(mass: list, inertia: list, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        checked_inertia(mass, inertia, 3)
