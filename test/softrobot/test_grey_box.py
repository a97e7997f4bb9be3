"""The grey box against equations written down a second time: scipy's integrator, integrals along the arc, statics."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad, quad_vec, solve_ivp
from scipy.spatial.transform import Rotation

from onboard_estimation.base.configuration import load
from softrobot_estimation.model import grey_box_kernels
from softrobot_estimation.model.configuration import SoftRobotConfiguration
from softrobot_estimation.model.constant_curvature import ConstantCurvatureSegment
from softrobot_estimation.model.grey_box import STEP_S, GreyBox, linearised

Array = NDArray[np.float64]

LENGTH_M, PLATE_M, PLATE_KG, SOFT_KG, STIFFNESS, AXIAL = 0.128, 0.006, 0.01, 0.146, 0.15, 1400.0
GRAVITY = 9.81
PRESSURES_PA = np.array([30e3, 12e3, 4e3])
PLAIN = {"behaviour.relaxation_shares": [0.0, 0.0], "behaviour.inertia_share": 0.0, "behaviour.load_share": 0.0}
ALL = {
    "behaviour.bending_stiffening_per_rad2": -0.35,
    "behaviour.pressure_stiffening_per_100_kpa": 0.4,
    "behaviour.anisotropy": 0.12,
    "behaviour.rest_bending_rad": [0.06, -0.04],
    "behaviour.rest_elongation_m": 0.001,
    "behaviour.bending_damping_ratio": 0.06,
    "behaviour.bending_damping_growth_per_rad2": 0.8,
    "behaviour.axial_damping_ratio": 0.2,
    "behaviour.chamber_gains": [1.1, 0.9, 1.05],
    "behaviour.moment_gain": 1.07,
    "behaviour.chambers_turned_deg": 12.0,
    "behaviour.relaxation_shares": [0.25, 0.15],
    "behaviour.relaxation_times_s": [0.1, 1.5],
    "mounting.tilt_deg": [1.2, -0.7],
    "filter.moment_time_s": 1e9,
}


def grey_box(**values: object) -> GreyBox:
    """Built by a configuration's dotted names."""
    return GreyBox(load(SoftRobotConfiguration, {name.replace("__", "."): value for name, value in values.items()}))


def levelling_off(squared_bending: float) -> float:
    """What stiffening grows with: the square of a small bending, half of its most at 0.8 rad."""
    return squared_bending * 0.64 / (0.64 + squared_bending)


def rows_of(*states: list[float]) -> Array:
    rows = np.zeros((len(states), grey_box_kernels.ROW))
    rows[:, :6] = states
    return rows


def segment(
    tip_kg: float, backbone_kg: float, gravity: tuple[float, float, float] = (0.0, 0.0, GRAVITY)
) -> ConstantCurvatureSegment:
    """The default robot without damping."""
    return ConstantCurvatureSegment(
        length_m=LENGTH_M, tip_mass_kg=tip_kg, tip_mass_offset_m=0.5 * PLATE_M, backbone_mass_kg=backbone_kg,
        bending_stiffness_n_m_per_rad=STIFFNESS, elongation_stiffness_n_m=AXIAL, gravity_m_s2=gravity,
    )  # fmt: skip


def critical(of: ConstantCurvatureSegment) -> Array:
    """(3,) damping of a straight, weightless segment at which it no longer swings, by its inertia."""
    frequencies = np.sqrt(-np.diag(linearised(replace(of, gravity_m_s2=(0.0, 0.0, 0.0)), np.zeros(3))[3:, :3]))
    return 2.0 * of.stiffness / frequencies


def test_tips_are_the_segments_and_the_law_leaves_a_fifth() -> None:
    box = grey_box(behaviour__bending_stiffening_per_rad2=-3.0, behaviour__pressure_stiffening_per_100_kpa=0.5)
    rows = rows_of([0.3, 0.4, 0.0, 2.0, -3.0, 0.1], [1.0, 1.0, -0.003, 0.0, 5.0, -0.2])
    tips, inertia = box.tips(rows, np.full(2, 0.2), np.full(3, 20e3)), segment(PLATE_KG, SOFT_KG)
    jacobian, _ = inertia.jacobian(rows[:, :6], offset_m=PLATE_M)
    np.testing.assert_allclose(tips[:, :3], inertia.position(rows[:, :6], offset_m=PLATE_M), atol=1e-15)
    np.testing.assert_allclose(tips[:, 3:6], np.einsum("kij,kj->ki", jacobian, rows[:, 3:6]), atol=1e-14)
    np.testing.assert_allclose(tips[:, 6], [0.2 * (1.0 - 3.0 * levelling_off(0.25) + 0.5 * 0.6), 0.2 * 0.2])


def test_pressures_push_as_their_chambers_lengthen() -> None:
    """Virtual work: length of each chamber, by integration along its own curve beside the backbone."""
    box, q, arm = grey_box(**PLAIN), np.array([0.75, -0.48, 0.006]), 0.0126

    def length_m(q: Array, angle: float) -> float:
        state, side = np.r_[q, 0, 0, 0], [arm * np.cos(angle), arm * np.sin(angle), 0.0]

        def place(s: float) -> Array:
            rotation = Rotation.from_rotvec(s * np.array([-q[1], q[0], 0.0]))
            return box.segment.position(state, s) + rotation.apply(side)

        return quad(lambda s: np.linalg.norm(place(s + 1e-5) - place(s - 1e-5)) / 2e-5, 0.0, 1.0)[0]

    for chamber, angle in enumerate(np.radians([90.0, 210.0, 330.0])):
        rates = [(length_m(q + h, angle) - length_m(q - h, angle)) / 2e-4 for h in 1e-4 * np.eye(3)]
        np.testing.assert_allclose(box.gains[:, chamber], 1.55e-4 * np.array(rates), rtol=1e-5, atol=1e-12)


def rates_by_hand(pressures_pa: Array, payload_kg: float, base: float, moments: Array) -> object:
    """Rates of q, q' and what has relaxed (12,), for the configuration `ALL`: as its parameters are described."""
    inertia = segment(PLATE_KG + 0.1545 * SOFT_KG, (1.0 - 0.1545) * SOFT_KG)
    ratios = np.array([0.06, 0.06, 0.2]) * critical(inertia)
    # A base turned by a small vector sees what points along z turned the other way.
    gx, gy, gz = Rotation.from_rotvec([-1.2, 0.7, 0.0], degrees=True).apply([0.0, 0.0, GRAVITY]).tolist()
    loaded = segment(PLATE_KG + 0.1545 * SOFT_KG + payload_kg, (1.0 - 0.1545) * SOFT_KG, (gx, gy, gz))
    angles, areas = np.radians([102.0, 222.0, 342.0]), 1.55e-4 * np.array([1.1, 0.9, 1.05])
    arm = -1.07 * 0.0126
    push = np.array([arm * np.cos(angles), arm * np.sin(angles), np.ones(3)]) @ (areas * pressures_pa)
    held = np.array([base, base, AXIAL])

    def rates(_: float, state: Array) -> Array:
        q, squared = state[:3], state[0] ** 2 + state[1] ** 2
        factor = 1.0 - 0.35 * levelling_off(squared) + 0.4 * 1e-5 * pressures_pa.sum()
        stiff = np.array([1.12 * base * factor, 0.88 * base * factor, AXIAL])
        force = push + np.array([moments[0] + STIFFNESS * 0.06, moments[1] + STIFFNESS * -0.04, AXIAL * 0.001])
        force -= 0.25 * held * (q - state[6:9]) + 0.15 * held * (q - state[9:])
        force -= ratios * np.array([1.0 + 0.8 * squared, 1.0 + 0.8 * squared, 1.0]) * state[3:6]
        second = loaded.accelerations(state[:6], force, stiff)
        return np.concatenate([state[3:6], second, (q - state[6:9]) / 0.1, (q - state[9:]) / 1.5])

    return rates


def test_with_all_additions_it_moves_as_scipy_integrates_the_equations() -> None:
    """Law, anisotropy, rest, damping, two Maxwell elements, chambers, a payload, moments and tilt at once."""
    box, base, moments, payload_kg = grey_box(**ALL), 0.17, np.array([0.011, -0.006]), 0.025
    rows = rows_of([0.3, -0.5, 0.002, 1.0, 2.0, -0.05])
    rows[0, 6:12] = [0.2, -0.4, 0.001, 0.1, -0.2, 0.0005]
    rows[0, grey_box_kernels.MOMENTS : grey_box_kernels.PAYLOAD] = moments
    rows[0, grey_box_kernels.PAYLOAD] = payload_kg
    rows[0, grey_box_kernels.REST :] = rest = np.array([-0.004, 0.007])
    exact = solve_ivp(
        rates_by_hand(PRESSURES_PA, payload_kg, base, moments + rest), (0.0, 0.4), rows[0, :12], rtol=1e-10, atol=1e-12
    )
    for _ in range(400):
        rows = box.propagate(rows, np.array([base]), PRESSURES_PA, 0.001)
    np.testing.assert_allclose(rows[0, :12], exact.y[:, -1], rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(rows[0, grey_box_kernels.PAYLOAD :], [payload_kg, *rest])
    factor = 1.0 - 0.35 * levelling_off(rows[0, 0] ** 2 + rows[0, 1] ** 2) + 0.4 * 0.46
    np.testing.assert_allclose(box.tips(rows, np.array([base]), PRESSURES_PA)[0, 6], base * factor)


@pytest.mark.parametrize(
    ("stiff", "steps"),
    [
        ({}, 12),  # seven times what the elongation's vibration allows
        ({"behaviour.bending_damping_growth_per_rad2": 60.0, "behaviour.bending_damping_ratio": 1.0}, 1),
        ({"behaviour.bending_stiffening_per_rad2": 200.0}, 1),
        ({"behaviour.pressure_stiffening_per_100_kpa": 500.0}, 1),
    ],
)
def test_steps_are_divided_for_what_the_law_makes_of_stiffness_and_damping(stiff: dict[str, float], steps: int) -> None:
    box, row = grey_box(**PLAIN, **stiff), rows_of([0.6, -0.7, 0.004, 0.5, 0.5, 0.0])
    pressures, stiffness = np.full(3, 60e3), np.array([0.15])
    for _ in range(60):
        row = box.propagate(row, stiffness, pressures, STEP_S)
    assert np.hypot(*row[0, :2]) < 1.0
    fine = row
    for _ in range(8 * steps):
        fine = box.propagate(fine, stiffness, pressures, STEP_S / 8)
    np.testing.assert_allclose(box.propagate(row, stiffness, pressures, steps * STEP_S)[0, :3], fine[0, :3], atol=0.02)


@pytest.mark.parametrize(("share", "plate_kg"), [(0.1545, PLATE_KG), (0.0, 0.0)])
def test_in_motion_the_base_bears_the_rate_of_momentum(share: float, plate_kg: float) -> None:
    """Force and torque are weight less the masses' acceleration, by differences of where they are.

    A payload hangs at the tip, also of a robot that has no plate there.
    """
    box = grey_box(
        behaviour__inertia_share=share, behaviour__load_share=share, segment__tip_plate_mass_kg=plate_kg,
        segment__mass_kg=SOFT_KG + plate_kg,
    )  # fmt: skip
    row, h = rows_of([0.5, -0.3, 0.002, 3.0, 4.0, 0.1]), 1e-4
    payload_kg = row[0, grey_box_kernels.PAYLOAD] = 0.02
    origin, weight = np.array([0.0, 0.0, -0.0142]), np.array([0.0, 0.0, GRAVITY])
    path, stiffness = [row], np.array([0.15])
    for _ in range(4):
        path.append(box.propagate(path[-1], stiffness, PRESSURES_PA, h))
    force, torque = np.zeros(3), np.zeros(3)
    masses = segment(plate_kg + share * SOFT_KG, (1.0 - share) * SOFT_KG).arrays[1].tolist()
    for fraction, offset, kg in [*masses, [1.0, 0.5 * PLATE_M, payload_kg]]:
        places = [box.segment.position(one[0, :6], fraction, offset) for one in path]
        acceleration = np.array([-1.0, 16.0, -30.0, 16.0, -1.0]) @ places / (12.0 * h * h)
        force += kg * (weight - acceleration)
        torque += kg * np.cross(places[2] - origin, weight - acceleration)
    found = box.loads(path[2], stiffness, PRESSURES_PA)[0]
    np.testing.assert_allclose(found, [*force, *torque], rtol=1e-4, atol=2e-5)


def test_moments_decay_with_their_time_exactly_whatever_the_steps_are() -> None:
    box, row = grey_box(**PLAIN, filter__moment_time_s=0.3), rows_of([0.0] * 6)
    row[0, grey_box_kernels.MOMENTS : grey_box_kernels.PAYLOAD] = [0.02, -0.03]
    one = box.propagate(row, np.array([0.15]), np.zeros(3), 0.06)
    np.testing.assert_allclose(one[0, 12:14], np.exp(-0.2) * np.array([0.02, -0.03]), rtol=1e-12)
    for _ in range(10):
        row = box.propagate(row, np.array([0.15]), np.zeros(3), 0.006)
    np.testing.assert_allclose(row[0, 12:14], one[0, 12:14], rtol=1e-12)


@pytest.mark.parametrize(
    "mounted",
    [
        {"mounting.tilt_deg": [20.0, -15.0]},
        {
            "mounting.attitude": "upright", "behaviour.rest_bending_rad": [0.05, 0.1],
            "stiffness.bending_n_m_per_rad": 0.2,
        },
        {
            "mounting.tilt_deg": [8.0, 5.0], "behaviour.anisotropy": 0.3, "behaviour.bending_stiffening_per_rad2": 2.0,
            "behaviour.rest_bending_rad": [0.3, -0.2], "behaviour.rest_elongation_m": 0.002,
        },
    ],
)  # fmt: skip
def test_a_resting_row_is_at_rest(mounted: dict[str, object]) -> None:
    """It stays where it is, and what it bears is its weight, hanging, tilted, bent or upright."""
    configuration = load(SoftRobotConfiguration, mounted)
    box = GreyBox(configuration)
    rest = row = box.resting_row()[None]
    for _ in range(250):
        row = box.propagate(row, np.array([box.stiffness]), np.zeros(3), STEP_S)
    np.testing.assert_allclose(row, rest, atol=1e-9)
    load_n = box.loads(rest, np.array([box.stiffness]), np.zeros(3))[0, :3]
    np.testing.assert_allclose(load_n, 0.156 * configuration.gravity_in_base_m_s2, atol=1e-9)


def test_an_upright_robot_that_is_too_soft_falls_from_its_rest() -> None:
    """The rest next to straight is found all the same; who simulates it is told by NaN that it fell."""
    box = grey_box(mounting__attitude="upright", mounting__tilt_deg=[1.0, 0.0], stiffness__bending_n_m_per_rad=0.03)
    pushed, stamps = box.resting_row(), np.arange(0.0, 8.0, STEP_S)
    assert np.isfinite(pushed).all()
    pushed[3] = 0.1
    rows, places = box.simulate(stamps, np.tile([60e3, 0.0, 0.0], (len(stamps), 1)), pushed)
    fell = np.flatnonzero(np.isnan(places[:, 0]))
    assert len(fell)
    assert np.isnan(rows[fell[0] :]).all()
    assert np.isfinite(rows[: fell[0]]).all()


def test_pressures_behind_hoses_are_exact() -> None:
    box, readings, before = grey_box(behaviour__supply_lag_s=0.03), np.array([20e3, 5e3, 0.0]), np.array([0, 9e3, 1e3])
    after, mean = box.through_hoses(readings, before, 0.05)

    def course(t: float) -> Array:
        return readings + np.exp(-t / 0.03) * (before - readings)

    np.testing.assert_allclose(after, course(0.05))
    np.testing.assert_allclose(mean, quad_vec(course, 0.0, 0.05)[0] / 0.05)
