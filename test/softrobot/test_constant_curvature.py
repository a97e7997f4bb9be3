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
from scipy.spatial.transform import Rotation

from softrobot_estimation.model.constant_curvature import ConstantCurvatureSegment, tip_quaternion_xyzw

Array = NDArray[np.float64]
DIGITS = 140
VELOCITY_STEP, STEP = Decimal("1e-30"), Decimal("1e-15")

TIP_ONLY = ConstantCurvatureSegment(
    length_m=0.128, tip_mass_kg=0.166, damping=(6e-4, 4e-4, 4.0), bending_stiffness_n_m_per_rad=0.15,
    elongation_stiffness_n_m=1400.0, gravity_m_s2=(0.0, 0.0, 9.81),
)  # fmt: skip
SPREAD = replace(
    TIP_ONLY, tip_mass_kg=0.02, tip_mass_offset_m=0.003, backbone_mass_kg=0.15, gravity_m_s2=(2.0, -3.0, -9.0)
)


def states_of(bendings_rad: list[float], seed: int = 0) -> Array:
    """(K, 6), bent towards all sides by these angles, stretched and moving."""
    rng = np.random.default_rng(seed)
    sides = rng.uniform(-np.pi, np.pi, len(bendings_rad))
    q = np.array(bendings_rad) * np.array([np.cos(sides), np.sin(sides)])
    rates = rng.normal(scale=[14.0, 14.0, 0.2], size=(len(q.T), 3))
    return np.column_stack([q.T, rng.uniform(-0.02, 0.02, len(q.T)), rates])


def sine_cosine(angle: Decimal) -> tuple[Decimal, Decimal]:
    sums, term, k = [Decimal(0), Decimal(0)], Decimal(1), 0
    while abs(term) > Decimal(10) ** (-DIGITS - 5) * (abs(angle) + Decimal("1e-60")):
        sums[k % 2] += term if k % 4 < 2 else -term
        k += 1
        term = term * angle / k
    return sums[1], sums[0]


def on_the_arc(segment: ConstantCurvatureSegment, fraction: float, offset: float, q: list[Decimal]) -> list[Decimal]:
    """A point of a circle of radius length / angle in the plane of bending, and on along its tangent."""
    bx, by, stretch = q
    length = Decimal(segment.length_m) + stretch
    angle = (bx * bx + by * by).sqrt()
    if angle == 0:
        return [Decimal(0), Decimal(0), Decimal(fraction) * length + Decimal(offset)]
    sine, cosine = sine_cosine(Decimal(fraction) * angle)
    radius = length / angle
    out = radius * (1 - cosine) + Decimal(offset) * sine
    return [out * bx / angle, out * by / angle, radius * sine + Decimal(offset) * cosine]


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


@pytest.mark.parametrize("segment", [TIP_ONLY, SPREAD], ids=["tip", "spread"])
@pytest.mark.parametrize("bending_rad", [0.0, 1e-9, 1e-4, 1.0, 5.0])
def test_accelerations_are_those_of_lagranges_equations(segment: ConstantCurvatureSegment, bending_rad: float) -> None:
    state, actuation = states_of([bending_rad])[0], np.array([0.05, -0.08, 12.0])
    stiffness = np.array([0.1, 0.17, 1200.0])
    forces = actuation - stiffness * state[:3] - np.array(segment.damping) * state[3:]
    expected = lagrange_acceleration(segment, state, forces)
    given = segment.accelerations(state, actuation, stiffness)
    np.testing.assert_allclose(given, expected, rtol=0.0, atol=1e-11 * np.linalg.norm(expected))


@pytest.mark.parametrize("bending_rad", [1e-3, 0.7, 5.5])
def test_jacobian_and_its_rate_are_the_derivatives_of_the_position(bending_rad: float) -> None:
    state, short = states_of([bending_rad], seed=3)[0], 1e-6
    place = np.array(on_the_arc(SPREAD, 0.8, 0.01, [Decimal(value) for value in state[:3]]), dtype=float)
    np.testing.assert_allclose(SPREAD.position(state, 0.8, 0.01), place, atol=1e-13)
    jacobian, convective = SPREAD.jacobian(state, 0.8, 0.01)
    ahead, behind = (SPREAD.position(state + sign * short * np.eye(3, 6), 0.8, 0.01) for sign in (1.0, -1.0))
    np.testing.assert_allclose(jacobian, (ahead - behind).T / (2.0 * short), atol=1e-9)
    ahead, behind = (SPREAD.jacobian(state + np.r_[h * state[3:], 0, 0, 0], 0.8, 0.01)[0] for h in (1e-5, -1e-5))
    np.testing.assert_allclose(convective, (ahead - behind) @ state[3:] / 2e-5, rtol=1e-5)


@pytest.mark.parametrize("bending_rad", [1e-9, 0.5, 6.0])
def test_the_tip_looks_along_the_backbone_and_does_not_twist(bending_rad: float) -> None:
    state = states_of([bending_rad], seed=4)[0]
    turned = Rotation.from_quat(tip_quaternion_xyzw(state))
    expected = Rotation.from_rotvec([-state[1], state[0], 0.0])
    np.testing.assert_allclose(turned.as_matrix(), expected.as_matrix(), atol=1e-13)
    plate = SPREAD.position(state, 1.0, 0.01) - SPREAD.position(state)
    np.testing.assert_allclose(turned.apply([0.0, 0.0, 0.01]), plate, atol=1e-14)


def test_where_the_model_ends_there_is_no_acceleration() -> None:
    states = np.zeros((3, 6))
    states[0, 0], states[1, 0], states[2, 2] = 0.999 * 2.0 * np.pi, 1.001 * 2.0 * np.pi, -TIP_ONLY.length_m
    given = TIP_ONLY.accelerations(states, np.zeros(3), TIP_ONLY.stiffness)
    assert np.isfinite(given).all(axis=1).tolist() == [True, False, False]
