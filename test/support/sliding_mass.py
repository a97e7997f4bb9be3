"""A mass on a line with friction that nobody knows: pushed by a known force, its position measured with noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.filtering.marginalized_particles import (
    MarginalizedParticleFilter,
    ParticleFilterSettings,
    UnknownFunction,
)
from onboard_estimation.filtering.walking_prior import HyperParameterWalk
from onboard_estimation.learning.reduced_rank import ReducedRankBasis

Array = NDArray[np.float64]

MASS_KG, STEP_S, NOISE_M = 1.0, 0.01, 1e-3


def friction_n(speed_m_s: Array) -> Array:
    """Stribeck's curve: much friction at low speed, less as a film of oil forms, then viscous."""
    return (1.0 + 1.5 * np.exp(-((speed_m_s / 0.25) ** 2))) * np.tanh(speed_m_s / 0.1) + 0.8 * speed_m_s


class SlidingMass:
    """x = (position, speed), u = (force,), k = friction as a function of speed."""

    def propagate(self, states: Array, inputs: Array, values: Array, step_s: float) -> Array:
        acceleration = (inputs[0] - values[:, 0]) / MASS_KG
        position, speed = states.T
        return np.column_stack([position + step_s * speed, speed + step_s * acceleration])

    def outputs(self, states: Array, inputs: Array, values: Array) -> Array:
        return states[:, :1]

    def places(self, states: Array) -> Array:
        return states[:, 1:]


def run(seconds: float, seed: int) -> tuple[Array, Array, Array]:
    """Forces (K,), states (K + 1, 2) and measured positions (K,)."""
    rng = np.random.default_rng(seed)
    time_s = np.arange(round(seconds / STEP_S)) * STEP_S
    force = 3.0 * np.sin(2.0 * np.pi * 0.31 * time_s) + 2.0 * np.sin(2.0 * np.pi * 0.73 * time_s + 1.0)
    states, fine = [np.zeros(2)], 10
    for pushed in force:
        position, speed = states[-1]
        for _ in range(fine):
            speed += STEP_S / fine * (pushed - float(friction_n(np.asarray(speed)))) / MASS_KG
            position += STEP_S / fine * speed
        states.append(np.array([position, speed]))
    true = np.array(states)
    return force, true, true[1:, 0] + NOISE_M * rng.standard_normal(len(force))


def tracker(particles: int = 400, walk: HyperParameterWalk | None = None) -> MarginalizedParticleFilter:
    """A filter of the mass that knows nothing of friction but its size."""
    basis = ReducedRankBasis((0.0,), (3.5,), (0.35,), function_count=30)
    unknown = UnknownFunction(basis, (0.0,), (2.5,), noise_share=0.3, walk=walk)
    settings = ParticleFilterSettings(
        [1e-4, 0.1], [[NOISE_M**2]], recovery_stddevs=[0.1, 0.3], particle_count=particles
    )
    return MarginalizedParticleFilter(SlidingMass(), unknown, settings)
