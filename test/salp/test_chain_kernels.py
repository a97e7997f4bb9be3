"""States side by side give what each gives alone, whatever their number; sine and cosine to the last digits."""

from __future__ import annotations

import numpy as np
import pytest

from onboard_estimation.filtering.manifold_kernels import sine_cosine
from salp_estimation.model import chain_kernels as kernels
from salp_estimation.model.chain import Chain


def a_chain(n: int) -> Chain:
    rng = np.random.default_rng(n)
    drag = np.column_stack([rng.uniform(40.0, 80.0, n), rng.uniform(20.0, 90.0, n), rng.uniform(0.2, 0.8, n)])
    offsets, angles = rng.normal(scale=0.01, size=(n, 2)), rng.uniform(-np.pi, np.pi, n)
    return Chain.build(rng.uniform(0.2, 0.3, n), offsets, angles, drag, rng.uniform(0.0, 0.02, n - 1), -0.4, 0.4)


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8, 9, kernels.LANES, kernels.LANES + 1, 3 * kernels.LANES + 5])
def test_any_number_of_states_equals_one_at_a_time(count: int) -> None:
    """To the last bit; about a third of the joints start at a limit, in other lanes other ones, and some are held."""
    links, rng = a_chain(5).links, np.random.default_rng(count)
    states = np.hstack([rng.normal(size=(count, 3)), np.clip(0.4 * rng.normal(size=(count, 4)), -0.4, 0.4)])
    controls = rng.normal(scale=0.1, size=5)
    angles = np.ascontiguousarray(states[:, 3:])
    velocities, gyros = kernels.velocities(links, angles, controls), kernels.gyro_rates(links, states, controls)
    moved = kernels.propagate(links, states, controls, 0.12, 0.05)
    assert velocities.shape == moved.shape == (count, 7)
    assert gyros.shape == (count, 5)
    for k in range(count):
        np.testing.assert_array_equal(velocities[k], kernels.velocities(links, angles[k : k + 1], controls)[0])
        np.testing.assert_array_equal(gyros[k], kernels.gyro_rates(links, states[k : k + 1], controls)[0])
        np.testing.assert_array_equal(moved[k], kernels.propagate(links, states[k : k + 1], controls, 0.12, 0.05)[0])
    if count > 8:
        at_limit = np.abs(angles) == 0.4
        held = at_limit & (velocities[:, 3:] == 0.0)
        assert held.any()
        assert (at_limit & ~held).any()


def test_columns_that_follow_from_the_others_change_nothing() -> None:
    bare = a_chain(4).links.copy()
    bare[:, kernels.DRAG_XX :] = 0.0
    full = kernels.completed(bare)
    np.testing.assert_array_equal(full[:, : kernels.DRAG_XX], bare[:, : kernels.DRAG_XX])
    assert (full[:, kernels.DRAG_XX] > 0.0).all()
    np.testing.assert_array_equal(kernels.completed(full), full)
    rng = np.random.default_rng(0)
    angles, controls = 0.1 * rng.normal(size=(3, 3)), rng.normal(size=4)
    expected = kernels.velocities(bare, angles, controls)
    np.testing.assert_array_equal(kernels.velocities(full, angles, controls), expected)
    np.testing.assert_array_equal(kernels.control_matrix(full, angles[0]), kernels.control_matrix(bare, angles[0]))


def test_sine_and_cosine_agree_with_the_library() -> None:
    rng = np.random.default_rng(1)
    quarters = np.arange(-80, 81) * (np.pi / 4.0)
    near = (quarters[:, None] + np.array([-1e-9, -1e-15, 0.0, 1e-15, 1e-9])).ravel()
    for angles, tolerance in (
        (np.r_[near, rng.uniform(-60.0, 60.0, 5000)], 3e-16),
        (rng.uniform(-1e5, 1e5, 5000), 4e-16),
    ):
        found = np.array([sine_cosine(angle) for angle in angles])
        np.testing.assert_allclose(found[:, 0], np.sin(angles), rtol=0.0, atol=tolerance)
        np.testing.assert_allclose(found[:, 1], np.cos(angles), rtol=0.0, atol=tolerance)
    assert sine_cosine(0.0) == (0.0, 1.0)
    assert np.isnan(sine_cosine(np.nan)).all()
