"""The compiled segment against geometry: Lagrange's equations differentiated in 140 digits, and Newton's laws.

The oracles know circles only: where a point of an arc lies. They divide by the bending angle, as the kernels do not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal, localcontext

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad, solve_ivp
from scipy.optimize import root
from scipy.spatial.transform import Rotation

from onboard_estimation.errors import UserError
from softrobot_estimation import curvature_kernels as kernels
from softrobot_estimation.constant_curvature import ConstantCurvatureSegment

Array = NDArray[np.float64]
DIGITS = 140
VELOCITY_STEP, STEP = Decimal("1e-30"), Decimal("1e-15")

TIP_ONLY = ConstantCurvatureSegment(
    length_m=0.128,
    bending_radius_m=0.0146,
    tip_mass_kg=0.166,
    damping_n_s_m=(3.0, 2.0, 4.0),
    bending_stiffness_n_m=702.4,
    elongation_stiffness_n_m=1400.0,
    gravity_m_s2=(0.0, 0.0, 9.81),
    chamber_angles_rad=(0.5, 2.5, 4.6),
    chamber_centre_radius_m=0.0126,
    chamber_areas_m2=(1.5e-4, 1.6e-4, 1.7e-4),
)
SPREAD = replace(
    TIP_ONLY, tip_mass_kg=0.02, tip_mass_offset_m=0.003, backbone_mass_kg=0.15, gravity_m_s2=(2.0, -3.0, -9.0)
)


def states_of(bendings_rad: list[float], seed: int = 0) -> Array:
    """(K, 6), bent towards all sides by these angles, stretched and moving."""
    rng = np.random.default_rng(seed)
    sides = rng.uniform(-np.pi, np.pi, len(bendings_rad))
    q = TIP_ONLY.bending_radius_m * np.array(bendings_rad) * np.array([np.cos(sides), np.sin(sides)])
    return np.column_stack([q.T, rng.uniform(-0.02, 0.02, len(q.T)), rng.normal(scale=0.2, size=(len(q.T), 3))])


def sine_cosine(angle: Decimal) -> tuple[Decimal, Decimal]:
    sums, term, k = [Decimal(0), Decimal(0)], Decimal(1), 0
    while abs(term) > Decimal(10) ** (-DIGITS - 5) * (abs(angle) + Decimal("1e-60")):
        sums[k % 2] += term if k % 4 < 2 else -term
        k += 1
        term = term * angle / k
    return sums[1], sums[0]


def on_the_arc(segment: ConstantCurvatureSegment, fraction: float, offset: float, q: list[Decimal]) -> list[Decimal]:
    """A point of a circle of radius length / angle in the plane of bending, and on along its tangent."""
    dx, dy, stretch = q
    length = Decimal(segment.length_m) + stretch
    bend = (dx * dx + dy * dy).sqrt()
    if bend == 0:
        return [Decimal(0), Decimal(0), Decimal(fraction) * length + Decimal(offset)]
    angle = bend / Decimal(segment.bending_radius_m)
    sine, cosine = sine_cosine(Decimal(fraction) * angle)
    radius = length / angle
    out = radius * (1 - cosine) + Decimal(offset) * sine
    return [out * dx / bend, out * dy / bend, radius * sine + Decimal(offset) * cosine]


def lagrangian(segment: ConstantCurvatureSegment, q: list[Decimal], v: list[Decimal]) -> Decimal:
    """Kinetic energy less the weight's potential."""
    total = Decimal(0)
    for fraction, offset, mass in segment.arrays[1]:
        place = on_the_arc(segment, fraction, offset, q)
        ahead = on_the_arc(segment, fraction, offset, [a + VELOCITY_STEP * b for a, b in zip(q, v, strict=True)])
        behind = on_the_arc(segment, fraction, offset, [a - VELOCITY_STEP * b for a, b in zip(q, v, strict=True)])
        velocity = [(a - b) / (2 * VELOCITY_STEP) for a, b in zip(ahead, behind, strict=True)]
        energy = sum(a * a for a in velocity) / 2
        total += Decimal(mass) * (
            energy + sum(Decimal(g) * p for g, p in zip(segment.gravity_m_s2, place, strict=True))
        )
    return total


def lagrange_acceleration(segment: ConstantCurvatureSegment, state: Array, forces: Array) -> Array:
    """From d/dt (dL/dv) - dL/dq = forces; differences in 140 digits, exact to far more than a float holds."""
    with localcontext() as context:
        context.prec = DIGITS
        q, v = [Decimal(value) for value in state[:3]], [Decimal(value) for value in state[3:]]

        def moved(a: list[Decimal], towards: list[Decimal], by: Decimal) -> list[Decimal]:
            return [x + by * y for x, y in zip(a, towards, strict=True)]

        def mixed(first: Callable[[Decimal, Decimal], Decimal]) -> Decimal:
            total = first(STEP, STEP) - first(STEP, -STEP) - first(-STEP, STEP) + first(-STEP, -STEP)
            return total / (4 * STEP * STEP)

        axes = [[Decimal(i == j) for j in range(3)] for i in range(3)]
        mass, rest = np.empty((3, 3)), np.empty(3)
        for i in range(3):
            for j in range(3):
                mass[i, j] = mixed(
                    lambda a, b, i=i, j=j: lagrangian(segment, q, moved(moved(v, axes[i], a), axes[j], b))
                )
            turning = mixed(lambda a, b, i=i: lagrangian(segment, moved(q, v, b), moved(v, axes[i], a)))
            ahead, behind = (lagrangian(segment, moved(q, axes[i], by), v) for by in (STEP, -STEP))
            rest[i] = (ahead - behind) / (2 * STEP) - turning
    return np.linalg.solve(mass, forces + rest)


def point(segment: ConstantCurvatureSegment, fraction: float, offset: float, q: Array) -> Array:
    """As `on_the_arc`, for complex steps; not for a straight segment."""
    bend = np.sqrt(q[0] * q[0] + q[1] * q[1])
    angle = bend / segment.bending_radius_m
    radius = (segment.length_m + q[2]) / angle
    out = radius * (1.0 - np.cos(fraction * angle)) + offset * np.sin(fraction * angle)
    along = radius * np.sin(fraction * angle) + offset * np.cos(fraction * angle)
    return np.array([out * q[0] / bend, out * q[1] / bend, along])


def places_and_velocities(segment: ConstantCurvatureSegment, state: Array) -> tuple[Array, Array, Array]:
    """Masses (n,), positions (n, 3) and velocities (n, 3) of the points with mass."""
    points = segment.arrays[1]
    step = 1e-30
    stepped = np.array([point(segment, f, h, state[:3] + 1j * step * state[3:]) for f, h, _ in points])
    return points[:, 2], stepped.real, stepped.imag / step


@pytest.mark.parametrize("degrees", [1e-6, 0.1, 20.0, 90.0, 180.0, 270.0, 360.0])
def test_the_functions_of_bending_are_trigonometry_to_the_last_digits(degrees: float) -> None:
    x = np.radians(degrees) ** 2
    with localcontext() as context:
        context.prec = DIGITS
        exact_x = Decimal(x)
        angle = exact_x.sqrt()
        sine, cosine = sine_cosine(angle)
        expected = [cosine, sine / angle]
        factorial = Decimal(1)
        for k in range(2, 7):
            expected.append((1 / factorial - expected[k - 2]) / exact_x)
            factorial *= k - 1  # (k - 1)!, which c_{k+1} needs
        worst = max(abs(Decimal(value) - exact) for value, exact in zip(kernels.stumpff(x), expected, strict=True))
    assert worst < (1e-15 if degrees <= 180.0 else 3e-14)


def test_no_bending_is_a_state_as_any_other() -> None:
    assert np.array_equal(kernels.stumpff(0.0), [1.0, 1.0, 1 / 2, 1 / 6, 1 / 24, 1 / 120, 1 / 720])
    np.testing.assert_array_equal(TIP_ONLY.position([0.0, 0.0, 0.01, 0.0, 0.0, 0.0]), [0.0, 0.0, 0.138])


@pytest.mark.parametrize("segment", [TIP_ONLY, SPREAD], ids=["tip", "spread"])
@pytest.mark.parametrize("bending_rad", [0.0, 1e-9, 1e-4, 0.3, 1.0, 2.0, np.pi, 5.0])
def test_accelerations_are_those_of_lagranges_equations(segment: ConstantCurvatureSegment, bending_rad: float) -> None:
    state, pressures, stiffness = states_of([bending_rad])[0], [2e4, 5e4, 1e4], np.array([500.0, 800.0, 1200.0])
    forces = segment.actuation(pressures) - stiffness * state[:3] - np.array(segment.damping_n_s_m) * state[3:]
    expected = lagrange_acceleration(segment, state, forces)
    given = segment.acceleration(state, pressures, stiffness)
    np.testing.assert_allclose(given, expected, rtol=0.0, atol=1e-11 * np.linalg.norm(expected))


def test_at_rest_without_bending_too() -> None:
    forces = np.array([0.3, -0.2, 0.5])
    arms = 1e6 * TIP_ONLY.pressure_forces_m2
    pressures = 1e6 * np.linalg.solve(arms, forces)
    expected = lagrange_acceleration(TIP_ONLY, np.zeros(6), forces)
    np.testing.assert_allclose(TIP_ONLY.acceleration(np.zeros(6), pressures), expected, rtol=1e-12)


@pytest.mark.parametrize("bending_rad", [1e-3, 0.7, np.pi, 5.5])
def test_jacobian_and_its_rate_are_the_derivatives_of_the_position(bending_rad: float) -> None:
    state = states_of([bending_rad], seed=3)[0]
    jacobian, convective = SPREAD.jacobian(state, 0.8, 0.01)
    step = 1e-30
    columns = [point(SPREAD, 0.8, 0.01, state[:3] + 1j * step * axis).imag / step for axis in np.eye(3)]
    np.testing.assert_allclose(SPREAD.position(state, 0.8, 0.01), point(SPREAD, 0.8, 0.01, state[:3]), atol=1e-13)
    np.testing.assert_allclose(jacobian, np.array(columns).T, atol=1e-9)
    ahead, behind = (SPREAD.jacobian(state + np.r_[h * state[3:], 0, 0, 0], 0.8, 0.01)[0] for h in (1e-5, -1e-5))
    np.testing.assert_allclose(convective, (ahead - behind) @ state[3:] / 2e-5, rtol=1e-5)


@pytest.mark.parametrize("bending_rad", [1e-9, 0.5, 3.0, 6.0])
def test_the_tip_looks_along_the_backbone_and_does_not_twist(bending_rad: float) -> None:
    state = states_of([bending_rad], seed=4)[0]
    bend_x, bend_y = state[:2] / SPREAD.bending_radius_m
    turned = Rotation.from_quat(SPREAD.tip_quaternion_xyzw(state))
    np.testing.assert_allclose(turned.as_matrix(), Rotation.from_rotvec([-bend_y, bend_x, 0.0]).as_matrix(), atol=1e-13)
    plate = SPREAD.position(state, 1.0, 0.01) - SPREAD.position(state)
    np.testing.assert_allclose(turned.apply([0.0, 0.0, 0.01]), plate, atol=1e-14)


def test_pressures_push_as_their_chambers_lengthen() -> None:
    """Virtual work: length of each chamber, by integration along its own curve beside the backbone."""
    q, arm = np.array([0.011, -0.007, 0.006]), TIP_ONLY.chamber_centre_radius_m

    def length_m(q: Array, angle: float) -> float:
        state, side = np.r_[q, 0, 0, 0], [arm * np.cos(angle), arm * np.sin(angle), 0.0]

        def place(s: float) -> Array:
            rotation = Rotation.from_rotvec(s * np.array([-q[1], q[0], 0.0]) / TIP_ONLY.bending_radius_m)
            return TIP_ONLY.position(state, s) + rotation.apply(side)

        return quad(lambda s: np.linalg.norm(place(s + 1e-5) - place(s - 1e-5)) / 2e-5, 0.0, 1.0)[0]

    for chamber, angle in enumerate(TIP_ONLY.chamber_angles_rad):
        rates = [(length_m(q + h, angle) - length_m(q - h, angle)) / 2e-4 for h in 1e-4 * np.eye(3)]
        pressures = 1e4 * np.eye(3)[chamber]
        expected = 1e4 * TIP_ONLY.chamber_areas_m2[chamber] * np.array(rates)
        np.testing.assert_allclose(TIP_ONLY.actuation(pressures), expected, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("segment", [TIP_ONLY, SPREAD], ids=["tip", "spread"])
def test_loads_on_the_base_are_weight_less_change_of_momentum(segment: ConstantCurvatureSegment) -> None:
    origin, pressures, step = np.array([0.003, -0.002, -0.0142]), [6e4, 1e4, 2e4], 2e-5
    for state in states_of([0.2, 1.2, 3.0], seed=5):

        def momenta(state: Array) -> Array:
            masses, places, velocities = places_and_velocities(segment, state)
            moved = masses[:, None] * velocities
            return np.r_[moved.sum(axis=0), np.cross(places - origin, moved).sum(axis=0)]

        change = (momenta(segment.step(state, step, pressures)) - momenta(segment.step(state, -step, pressures))) / (
            2.0 * step
        )
        masses, places, _ = places_and_velocities(segment, state)
        weights = masses[:, None] * np.array(segment.gravity_m_s2)
        weight = np.r_[weights.sum(axis=0), np.cross(places - origin, weights).sum(axis=0)]
        load = segment.base_load(state, pressures, origin_m=origin)
        np.testing.assert_allclose(load, weight - change, atol=3e-5 * np.linalg.norm(change))


@pytest.mark.parametrize("gravity", [(0.0, 0.0, 9.81), (0.0, 0.0, -9.81), (3.0, 2.0, 9.0)])
def test_at_rest_the_base_bears_the_weight(gravity: tuple[float, float, float]) -> None:
    segment, pressures = replace(SPREAD, gravity_m_s2=gravity), [4e4, 1e4, 0.0]
    scale = np.array([0.01, 0.01, 0.01])
    found = root(lambda q: segment.acceleration(np.r_[scale * q, 0, 0, 0], pressures), np.zeros(3), tol=1e-13)
    rest = np.r_[scale * found.x, 0, 0, 0]
    force, torque = np.split(segment.base_load(rest, pressures), 2)
    mass = segment.tip_mass_kg + segment.backbone_mass_kg
    masses, places, _ = places_and_velocities(segment, rest)
    np.testing.assert_allclose(force, mass * np.array(gravity), atol=1e-9)
    np.testing.assert_allclose(torque, np.cross(masses @ places, gravity), atol=1e-10)
    # What hangs on three stiffnesses sags until they bear it.
    if gravity[2] == 9.81:
        assert rest[2] > 0.0


def test_without_damping_and_pressures_energy_stays() -> None:
    segment = replace(SPREAD, damping_n_s_m=(0.0, 0.0, 0.0))
    stiffness = segment.stiffness()

    def energies(state: Array) -> tuple[float, float]:
        masses, places, velocities = places_and_velocities(segment, state)
        moving = 0.5 * masses @ (velocities**2).sum(axis=1)
        return moving, 0.5 * stiffness @ state[:3] ** 2 - masses @ places @ np.array(segment.gravity_m_s2)

    state = states_of([1.5], seed=6)[0]
    start, most_moving = sum(energies(state)), 0.0
    for _ in range(100):
        state = segment.step(state, 0.01, sub_steps=200)
        moving, potential = energies(state)
        most_moving = max(most_moving, moving)
        assert moving + potential == pytest.approx(start, abs=1e-8 * abs(start))
    assert most_moving > 0.1 * abs(start)


def test_the_integrator_comes_to_the_true_motion_with_its_order() -> None:
    start, pressures = states_of([0.8], seed=7)[0], [3e4, 0.0, 1e4]
    true = solve_ivp(
        lambda _, state: np.r_[state[3:], SPREAD.acceleration(state, pressures)],
        (0.0, 0.04), start, method="DOP853", rtol=1e-12, atol=1e-14,
    ).y[:, -1]  # fmt: skip
    errors = [np.linalg.norm(SPREAD.step(start, 0.04, pressures, sub_steps=n) - true) for n in (80, 160)]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(4, abs=0.25)
    assert errors[1] < 1e-6


@pytest.mark.parametrize("segment", [TIP_ONLY, SPREAD], ids=["tip", "spread"])
def test_a_batch_is_to_the_last_bit_what_its_particles_are_alone(segment: ConstantCurvatureSegment) -> None:
    rng = np.random.default_rng(8)
    states = states_of(list(rng.uniform(0.0, 3.0, 37)), seed=8)
    pressures, bending = rng.uniform(0.0, 6e4, (37, 3)), rng.uniform(400.0, 900.0, 37)
    stiffness = segment.stiffness(bending)
    batches = [
        segment.acceleration(states, pressures, stiffness),
        segment.base_load(states, pressures, stiffness),
        segment.step(states, 0.008, pressures, stiffness, sub_steps=3),
        segment.position(states),
        segment.tip_quaternion_xyzw(states),
        *segment.jacobian(states),
    ]
    for k in range(37):
        state, pressure, stiff = states[k], pressures[k], segment.stiffness(bending[k])
        alone = [
            segment.acceleration(state, pressure, stiff),
            segment.base_load(state, pressure, stiff),
            segment.step(state, 0.008, pressure, stiff, sub_steps=3),
            segment.position(state),
            segment.tip_quaternion_xyzw(state),
            *segment.jacobian(state),
        ]
        for batch, one in zip(batches, alone, strict=True):
            np.testing.assert_array_equal(batch[k], one)
    # One row of pressures and stiffness serves all.
    shared = segment.step(states, 0.008, pressures[0], stiffness[0])
    rows = segment.step(states, 0.008, np.tile(pressures[0], (37, 1)), np.tile(stiffness[0], (37, 1)))
    np.testing.assert_array_equal(shared, rows)


def test_stiffness_is_the_segments_own_where_none_is_given() -> None:
    np.testing.assert_array_equal(TIP_ONLY.stiffness(), [702.4, 702.4, 1400.0])
    expected = [[1.0, 1.0, 1400.0], [2.0, 2.0, 1400.0]]
    np.testing.assert_array_equal(TIP_ONLY.stiffness(bending_n_m=[1.0, 2.0]), expected)
    np.testing.assert_array_equal(TIP_ONLY.stiffness(3.0, [4.0, 5.0]), [[3.0, 3.0, 4.0], [3.0, 3.0, 5.0]])


def test_few_points_stand_for_mass_along_the_backbone() -> None:
    states = states_of(list(np.linspace(0.0, np.pi, 40)), seed=9)
    given, fine = (replace(SPREAD, backbone_points=n).acceleration(states) for n in (4, 40))
    sizes = np.linalg.norm(fine, axis=1)
    assert (np.linalg.norm(given - fine, axis=1) / sizes).max() < 3e-5
    # A rod that stretches only moves as a third of its mass would at the tip.
    rod = replace(TIP_ONLY, tip_mass_kg=0.0, backbone_mass_kg=0.15, gravity_m_s2=(0.0, 0.0, 0.0))
    pulled = rod.acceleration([0.0, 0.0, 0.01, 0.0, 0.0, 0.0])
    assert pulled[2] == pytest.approx(-14.0 / 0.05, rel=1e-12)


def test_where_the_model_ends_there_is_no_acceleration() -> None:
    full_circle = 2.0 * np.pi * TIP_ONLY.bending_radius_m
    states = np.zeros((3, 6))
    states[0, 0], states[1, 0], states[2, 2] = 0.999 * full_circle, 1.001 * full_circle, -TIP_ONLY.length_m
    known = np.isfinite(TIP_ONLY.acceleration(states)).all(axis=1)
    assert known.tolist() == [True, False, False]
    assert np.isnan(TIP_ONLY.base_load(states[1])).all()
    assert np.isnan(TIP_ONLY.step(states[2], 0.001)[3:]).all()


def test_wrong_shapes_and_names_are_said() -> None:
    states = np.zeros((4, 6))
    with pytest.raises(UserError, match=r"states of shape \(3,\)"):
        TIP_ONLY.acceleration(np.zeros(3))
    with pytest.raises(UserError, match="2 rows of stiffness_n_m for 4 states"):
        TIP_ONLY.acceleration(states, stiffness_n_m=np.zeros((2, 3)))
    with pytest.raises(UserError, match="3 chambers"):
        TIP_ONLY.acceleration(states, [1.0, 2.0])
    with pytest.raises(UserError, match="0 sub-steps"):
        TIP_ONLY.step(states, 0.01, sub_steps=0)
