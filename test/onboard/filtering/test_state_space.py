"""Manifolds against SciPy: matrix exponentials for SE(2), its Rotation for SO(3)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy.linalg import block_diag, expm
from scipy.spatial.transform import Rotation

from onboard_estimation.filtering import manifold_kernels as kernels
from onboard_estimation.filtering.manifold_kernels import wrap
from onboard_estimation.filtering.state_space import StateSpace, angles, se2, so3, vector

SPACE = StateSpace(vector("offset", ("u", "v"), "m"), angles("joints", ("p", "q")), se2("pose"), so3("attitude"))
POSE, ATTITUDE = StateSpace(se2("pose")), StateSpace(so3("attitude"))

lengths = st.floats(-100.0, 100.0).map(lambda value: 0.0 if abs(value) < 1e-30 else value)
# Angles where something happens: nothing, next to nothing, where series and closed forms meet, anywhere, half a turn.
magnitudes = st.one_of(
    st.just(0.0),
    st.floats(1e-12, 1e-3),
    st.floats(0.9e-4, 1.1e-4),
    st.floats(0.05, 0.2),
    st.floats(0.0, 3.1),
    st.floats(0.0, 1e-6).map(lambda gap: np.pi - 1e-9 - gap),
)
turns = st.builds(lambda size, sign: size * sign, magnitudes, st.sampled_from([-1.0, 1.0]))
headings = st.one_of(turns, st.just(np.pi))


@st.composite
def rotation_vectors(draw: st.DrawFn) -> np.ndarray:
    direction = np.array([draw(st.floats(-1.0, 1.0)) for _ in range(3)])
    size = np.linalg.norm(direction)
    assume(size > 1e-3)
    return draw(magnitudes) * direction / size


@st.composite
def tangents(draw: st.DrawFn) -> np.ndarray:
    """Tangent vectors of SPACE with no rotation of half a turn or more."""
    flat = [draw(lengths), draw(lengths), draw(turns), draw(turns), draw(lengths), draw(lengths), draw(turns)]
    return np.hstack([flat, draw(rotation_vectors())])


@st.composite
def states(draw: st.DrawFn) -> np.ndarray:
    flat = [draw(lengths), draw(lengths), draw(headings), draw(headings), draw(lengths), draw(lengths), draw(headings)]
    return np.hstack([flat, Rotation.from_rotvec(draw(rotation_vectors())).as_quat()])


@settings(max_examples=40)
@given(states(), tangents())
def test_minus_undoes_plus_and_states_stay_in_range(state: np.ndarray, tangent: np.ndarray) -> None:
    reached = SPACE.plus(state, tangent)
    assert (-np.pi < reached[[2, 3, 6]]).all()
    assert (reached[[2, 3, 6]] <= np.pi).all()
    assert np.linalg.norm(reached[7:]) == pytest.approx(1.0, abs=1e-14)
    recovered = SPACE.minus(reached, state)
    np.testing.assert_allclose(recovered[[0, 1, 4, 5]], tangent[[0, 1, 4, 5]], rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(recovered[[2, 3, 6, 7, 8, 9]], tangent[[2, 3, 6, 7, 8, 9]], rtol=0.0, atol=1e-11)


@given(st.floats(-1e4, 1e4))
@example(np.pi)
@example(-np.pi)
@example(np.nextafter(np.pi, 4.0))
@example(np.nextafter(-np.pi, -4.0))
@example(np.nextafter(3.0 * np.pi, 10.0))
def test_wrapped_angle_is_the_same_angle_in_range(angle: float) -> None:
    wrapped = wrap(angle)
    assert -np.pi < wrapped <= np.pi
    assert abs(np.exp(1j * wrapped) - np.exp(1j * angle)) < 1e-11


def planar_matrix(pose: np.ndarray) -> np.ndarray:
    x, y, heading = pose
    return np.array([[np.cos(heading), -np.sin(heading), x], [np.sin(heading), np.cos(heading), y], [0.0, 0.0, 1.0]])


def planar_twist_matrix(twist: np.ndarray) -> np.ndarray:
    forward, left, turn = twist
    return np.array([[0.0, -turn, forward], [turn, 0.0, left], [0.0, 0.0, 0.0]])


@settings(max_examples=40)
@given(st.tuples(lengths, lengths, headings), st.tuples(lengths, lengths, turns))
def test_planar_pose_moves_by_the_matrix_exponential(pose: tuple[float, ...], twist: tuple[float, ...]) -> None:
    expected = planar_matrix(np.array(pose)) @ expm(planar_twist_matrix(np.array(twist)))
    np.testing.assert_allclose(planar_matrix(POSE.plus(pose, twist)), expected, rtol=0.0, atol=5e-12)


@settings(max_examples=40)
@given(rotation_vectors(), rotation_vectors())
def test_rotation_agrees_with_scipy(first: np.ndarray, second: np.ndarray) -> None:
    a, b = Rotation.from_rotvec(first), Rotation.from_rotvec(second)
    moved = Rotation.from_quat(ATTITUDE.plus(a.as_quat(), second))
    assert (moved.inv() * (a * b)).magnitude() < 1e-14
    relative = b.inv() * a
    assume(relative.magnitude() < np.pi - 1e-7)
    for sign in (1.0, -1.0):  # a quaternion and its negative are one rotation
        vector_between = ATTITUDE.minus(sign * a.as_quat(), b.as_quat())
        np.testing.assert_allclose(vector_between, relative.as_rotvec(), rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("turn", [0.0, 1e-7, 0.99e-4, 1.01e-4, 0.099, 0.101, 3.0])
def test_right_jacobian_agrees_with_the_series_of_the_adjoint(turn: float) -> None:
    """J = sum of (-ad)^k / (k + 1)!, to rounding, also where closed forms lose digits and series take over."""
    twist, rotation = np.array([0.7, -1.3, turn]), turn * np.array([0.6, 0.0, -0.8])
    planar = _series(np.array([[0.0, -turn, twist[1]], [turn, 0.0, -twist[0]], [0.0, 0.0, 0.0]]))
    x, y, z = rotation
    spatial = _series(np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]]))
    found = SPACE.right_jacobian([3.0, -2.0, 1.0, 0.5, *twist, *rotation])
    np.testing.assert_allclose(found, block_diag(np.eye(4), planar, spatial), rtol=0.0, atol=2e-15)


def _series(adjoint: np.ndarray) -> np.ndarray:
    total = term = np.eye(3)
    for k in range(1, 60):
        term = -term @ adjoint / (k + 1)
        total = total + term
    return total


def mean(space: StateSpace, points: np.ndarray) -> np.ndarray:
    """That of sigma points: of all but the first, which is where it is sought from."""
    centre, deviations = np.empty((1, space.coordinate_count)), np.empty((space.dimension, len(points) - 1))
    kernels.centred(points, space.layout, centre, deviations)
    np.testing.assert_array_equal(deviations.T, space.minus(points[1:], centre[0]))
    return centre[0]


def test_tangent_vectors_vanish_at_the_mean() -> None:
    """Which takes more than one step from the first point, and is across half a turn."""
    rng = np.random.default_rng(1)
    centre = SPACE.plus(SPACE.origin(), rng.normal(size=10))
    centre[6] = np.pi - 0.01
    points = SPACE.plus(centre, 0.6 * rng.normal(size=(9, 10)))
    np.testing.assert_allclose(SPACE.minus(points[1:], mean(SPACE, points)).mean(axis=0), 0.0, atol=1e-12)


def test_batches_equal_singles_and_arguments_need_not_be_contiguous() -> None:
    rng = np.random.default_rng(2)
    base = SPACE.plus(SPACE.origin(), rng.normal(size=(4, 1, 10)))
    steps = np.asfortranarray(rng.normal(size=(3, 20)))[:, ::2]
    kept = base.copy(), steps.copy()
    moved = SPACE.plus(base, steps)
    back = SPACE.minus(moved, base)
    assert (moved.shape, back.shape) == ((4, 3, 11), (4, 3, 10))
    for i in range(4):
        for j in range(3):
            np.testing.assert_array_equal(moved[i, j], SPACE.plus(base[i, 0], steps[j]))
            np.testing.assert_array_equal(back[i, j], SPACE.minus(moved[i, j], base[i, 0]))
    np.testing.assert_array_equal(base, kept[0])
    np.testing.assert_array_equal(steps, kept[1])
    assert SPACE.plus(SPACE.origin(), steps).shape == (3, 11)
    assert SPACE.plus(base[:0, 0], np.zeros(10)).shape == (0, 11)


def test_dimensions_are_found_by_name() -> None:
    assert (SPACE.dimension, SPACE.coordinate_count) == (10, 11)
    assert (SPACE.tangent("attitude"), SPACE.coordinates("attitude")) == (slice(7, 10), slice(7, 11))
    assert SPACE.names[4:8] == ("pose.x", "pose.y", "pose.heading", "attitude.roll")
    assert SPACE.part("attitude", "offset").names[-1] == "offset.v"
    with pytest.raises(KeyError, match=r"no block 'legs' in .*joints"):
        SPACE.block("legs")
    with pytest.raises(ValueError, match="different names"):
        StateSpace(se2("pose"), se2("pose"))


def test_what_is_no_number_stays_none() -> None:
    """An angle that was lost must not come back as one that is known."""
    space = StateSpace(angles("heading", ("heading",)), se2("pose"))
    for lost in (np.nan, np.inf, -np.inf):
        moved = space.plus(np.zeros(4), np.full(4, lost))
        assert np.isnan(moved[[0, 3]]).all()
        assert np.isnan(space.minus(moved, np.zeros(4))[[0, 3]]).all()
