"""A particle filter whose corrections move particles: against an exact Kalman filter, and where weights alone fail."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from filterpy.kalman import KalmanFilter
from numpy.typing import NDArray
from scipy.linalg import block_diag

from onboard_estimation.filtering.marginalized_particles import (
    MarginalizedParticleFilter,
    ParticleFilterSettings,
    UnknownFunction,
)
from onboard_estimation.filtering.particle_weights import moments
from onboard_estimation.learning.reduced_rank import ReducedRankBasis

Array = NDArray[np.float64]

STATES, OUTPUTS, STEP_S, STEPS, PARTICLES = 10, 4, 0.1, 60, 1500
PROCESS, EXACT, SOFT = 0.3, 0.01, 3.0


class Linear:
    """x' = A x, y = C x; what is unknown hardly varies and does nothing."""

    def __init__(self) -> None:
        rng = np.random.default_rng(5)
        raw = rng.standard_normal((STATES, STATES))
        self.transition = 0.95 * raw / np.abs(np.linalg.eigvals(raw)).max()
        self.observation = rng.standard_normal((OUTPUTS, STATES))

    def propagate(self, states: Array, inputs: Array, values: Array, step_s: float) -> Array:
        return states @ self.transition.T

    def outputs(self, states: Array, inputs: Array, values: Array) -> Array:
        return states @ self.observation.T

    def places(self, states: Array) -> Array:
        return states[:, :1]


UNKNOWN = UnknownFunction(ReducedRankBasis((0.0,), (50.0,), (10.0,), function_count=4), (1.0,), (1e-6,))


class Compared(NamedTuple):
    """Against an exact filter: estimates (K, n) off by its deviations, variances by its own, effective sample sizes."""

    off: Array
    ratios: Array
    sizes: Array
    values: Array


def compared(noise: float, bridged: bool = True, offset_stddev: float = 0.0) -> Compared:
    """A run of the filter and of a Kalman filter that has the outputs' offsets in its state."""
    model, rng, size = Linear(), np.random.default_rng(11), STATES + OUTPUTS
    settings = ParticleFilterSettings(
        np.full(STATES, PROCESS), noise**2 * np.eye(OUTPUTS), np.ones(STATES), PARTICLES, bridged=bridged,
        offset_noise=np.full(OUTPUTS, 0.005 * offset_stddev), offset_stddevs=np.full(OUTPUTS, offset_stddev),
    )  # fmt: skip
    tracker, exact = MarginalizedParticleFilter(model, UNKNOWN, settings), KalmanFilter(dim_x=size, dim_z=OUTPUTS)
    exact.x, exact.P = np.zeros(size), np.diag([1.0] * STATES + [offset_stddev**2] * OUTPUTS)
    exact.F, exact.H = block_diag(model.transition, np.eye(OUTPUTS)), np.hstack([model.observation, np.eye(OUTPUTS)])
    exact.Q = STEP_S * np.diag([PROCESS**2] * STATES + [(0.005 * offset_stddev) ** 2] * OUTPUTS)
    exact.R = noise**2 * np.eye(OUTPUTS)
    cloud, state = tracker.start(np.zeros(STATES), np.eye(STATES), key=3), rng.standard_normal(STATES)
    offset = 0.5 * offset_stddev * np.array([1.5, -2.0, 0.5, 1.0])
    off, ratios, sizes = [], [], []
    told = slice(size if offset_stddev else STATES)
    for _ in range(STEPS):
        state = model.transition @ state + PROCESS * np.sqrt(STEP_S) * rng.standard_normal(STATES)
        measured = model.observation @ state + offset + noise * rng.standard_normal(OUTPUTS)
        cloud, info = tracker.step(cloud, STEP_S, measured)
        exact.predict()
        exact.update(measured)
        weights, deviation = np.exp(cloud.log_weights), np.sqrt(np.diag(exact.P))
        (mean, covariance), (offsets, spread) = moments(weights, cloud.states), moments(weights, cloud.offsets)
        variances = np.concatenate([np.diag(covariance), np.diag(spread + cloud.offset_covariance)])
        off.append((np.concatenate([mean, offsets]) - exact.x)[told] / deviation[told])
        ratios.append(variances[told] / deviation[told] ** 2)
        sizes.append(info.effective_sample_size)
    return Compared(np.array(off), np.array(ratios), np.array(sizes), cloud.values)


@pytest.mark.parametrize("noise", [EXACT, SOFT])
def test_a_linear_system_is_tracked_as_by_a_kalman_filter(noise: float) -> None:
    """Whatever share of the measurement moves particles: few where it says little, nearly all where it is exact."""
    found = compared(noise)
    assert np.sqrt((found.off**2).mean()) < 0.12  # of a standard deviation; 1500 samples alone err by 0.03
    assert np.median(found.ratios) == pytest.approx(1.0, abs=0.06)
    assert found.sizes.min() >= 0.45 * PARTICLES
    np.testing.assert_allclose(found.values, 1.0, atol=1e-4)


def test_offsets_are_told_as_by_a_kalman_filter_that_has_them_in_its_state() -> None:
    """Outputs of noise 0.3, each off by a constant of its own."""
    found = compared(0.3, offset_stddev=2.0)
    assert np.sqrt((found.off[-1, :STATES] ** 2).mean()) < 0.3
    assert np.sqrt((found.off[-1, STATES:] ** 2).mean()) < 0.3
    np.testing.assert_allclose(found.ratios[-1, STATES:], 1.0, atol=0.25)
