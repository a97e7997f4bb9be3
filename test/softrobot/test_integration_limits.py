"""Limits of steps against what longer steps do to the segment itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import root

from onboard_estimation.base.errors import UserError
from softrobot_estimation.model.constant_curvature import ConstantCurvatureSegment
from softrobot_estimation.model.grey_box import SAFETY, largest_stable_step_s, sub_steps

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
    return np.r_[state[3:], segment.accelerations(state, PUSH, segment.stiffness)]


def moved(segment: ConstantCurvatureSegment, state: Array, step_s: float, count: int) -> Array:
    """After so many steps of the classical Runge-Kutta rule."""
    for _ in range(count):
        a = rates(segment, state)
        b = rates(segment, state + 0.5 * step_s * a)
        c = rates(segment, state + 0.5 * step_s * b)
        state = state + step_s / 6.0 * (a + 2.0 * (b + c) + rates(segment, state + step_s * c))
    return state


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
