"""Limits of steps against textbook modes, and against what longer steps do to the segment itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import root

from onboard_estimation.base.errors import UserError
from softrobot_estimation.model.constant_curvature import MOTION, ConstantCurvatureSegment, acceleration
from softrobot_estimation.model.grey_box import SAFETY, largest_stable_step_s, linearised, sub_steps

Array = NDArray[np.float64]

MASS, LENGTH, BENDING, GRAVITY = 0.166, 0.128, 0.15, 9.81
SEGMENT = ConstantCurvatureSegment(
    length_m=LENGTH, tip_mass_kg=MASS, bending_stiffness_n_m_per_rad=BENDING, elongation_stiffness_n_m=1400.0,
    gravity_m_s2=(0.0, 0.0, GRAVITY),
)  # fmt: skip
SAG = MASS * GRAVITY / 1400.0
STRAIGHT = np.array([0.0, 0.0, SAG, 0.0, 0.0, 0.0])
PUSH = np.array([0.03, -0.05, 12.0])


def rates(segment: ConstantCurvatureSegment, state: Array) -> Array:
    """Of (q, q') under PUSH."""
    motions = np.empty((len(segment.arrays[1]), MOTION))
    return np.r_[state[3:], acceleration(*segment.arrays, state, PUSH, segment.stiffness, motions)]


def moved(segment: ConstantCurvatureSegment, state: Array, step_s: float, count: int) -> Array:
    """After so many steps of the classical Runge-Kutta rule."""
    for _ in range(count):
        a = rates(segment, state)
        b = rates(segment, state + 0.5 * step_s * a)
        c = rates(segment, state + 0.5 * step_s * b)
        state = state + step_s / 6.0 * (a + 2.0 * (b + c) + rates(segment, state + step_s * c))
    return state


def test_modes_of_a_straight_segment_are_a_pendulums_and_a_springs() -> None:
    """Bent by a small angle t the tip moves by l t / 2 and rises by l t^2 / 6."""
    length = LENGTH + SAG
    bending = np.sqrt((BENDING + MASS * GRAVITY * length / 3.0) / (MASS * length**2 / 4.0))
    modes = np.sort(np.abs(np.linalg.eigvals(linearised(SEGMENT, STRAIGHT[:3])).imag))[::2]
    np.testing.assert_allclose(modes, np.sort([bending, bending, np.sqrt(1400.0 / MASS)]), rtol=1e-6)


def test_what_stands_upright_and_is_too_soft_falls() -> None:
    upright = replace(SEGMENT, gravity_m_s2=(0.0, 0.0, -GRAVITY))
    state = np.array([0.0, 0.0, -SAG])
    bears = MASS * GRAVITY * (LENGTH - SAG) / 3.0
    for share, falls in ((1.01, False), (0.99, True)):
        stiffness = np.array([share * bears, share * bears, 1400.0])
        assert bool((np.linalg.eigvals(linearised(upright, state, stiffness)).real > 0.01).any()) is falls
        # Falling is no fault of the integrator: the step's limit is still that of the elongation.
        limit = largest_stable_step_s(upright, state, stiffness)
        assert limit == pytest.approx(2.0 * np.sqrt(2.0) / np.sqrt(1400.0 / MASS), rel=1e-4)


def test_limits_are_the_textbooks_for_one_mode() -> None:
    """The stretch of a stiff spring is the fastest mode of a straight segment."""
    frequency, ratio = np.sqrt(1e5 / MASS), 3.0
    state = np.array([0.0, 0.0, MASS * GRAVITY / 1e5])
    swinging = replace(SEGMENT, elongation_stiffness_n_m=1e5)
    assert largest_stable_step_s(swinging, state) * frequency == pytest.approx(2.0 * np.sqrt(2.0), rel=1e-4)
    damped = replace(swinging, damping=(0.0, 0.0, 2.0 * ratio * frequency * MASS))
    fastest = frequency * (ratio + np.sqrt(ratio**2 - 1.0))
    assert largest_stable_step_s(damped, state) * fastest == pytest.approx(2.785, rel=1e-3)


@pytest.mark.parametrize("damping", [(1e-4, 1e-4, 0.5), (0.0128, 0.0128, 60.0)])
def test_a_step_at_the_limit_stays_and_one_of_twice_it_does_not(damping: tuple[float, float, float]) -> None:
    segment = replace(SEGMENT, damping=damping, tip_mass_kg=0.02, backbone_mass_kg=0.15)
    still = root(lambda q: rates(segment, np.r_[q, 0.0, 0.0, 0.0])[3:], STRAIGHT[:3], tol=1e-13)
    rest = np.r_[still.x, 0.0, 0.0, 0.0]
    assert np.hypot(*rest[:2]) > 0.2
    limit = largest_stable_step_s(segment, rest[:3])

    def error_after(step_s: float, count: int) -> float:
        start = rest + np.r_[1e-9, -2e-9, 1e-9, 0, 0, 0]
        with np.errstate(invalid="ignore", over="ignore"):
            return float(np.linalg.norm(moved(segment, start, step_s, count)[:3] - rest[:3]))

    assert error_after(0.98 * limit, 2000) < 1e-8
    assert not error_after(2.0 * limit, 60) < 1e-3


def test_the_shortest_limit_of_all_places_counts_and_sub_steps_keep_below_it() -> None:
    bent = np.array([2.0, 0.0, -0.02])
    limits = [largest_stable_step_s(SEGMENT, place) for place in (STRAIGHT[:3], bent)]
    assert limits[1] < limits[0]
    assert largest_stable_step_s(SEGMENT, np.array([STRAIGHT[:3], bent])) == limits[1]
    with pytest.raises(UserError, match="full circle"):
        largest_stable_step_s(SEGMENT, [7.0, 0.0, 0.0])
    assert [sub_steps(step, 0.01) for step in (SAFETY * 0.008, SAFETY * 0.03, SAFETY * 0.0301)] == [1, 3, 4]
    for step, limit in ((0.0, 0.01), (float("nan"), 0.01), (0.008, 0.0)):
        with pytest.raises(UserError, match="above zero"):
            sub_steps(step, limit)
