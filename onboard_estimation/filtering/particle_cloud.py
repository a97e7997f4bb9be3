"""What a marginalised particle filter is given and what it hands out: model, settings, cloud, estimates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.filtering.draws import Draws
from onboard_estimation.filtering.gating import Gate, Innovation
from onboard_estimation.filtering.normal_inverse_gamma import Statistics
from onboard_estimation.filtering.walking_prior import WalkingStatistics

Array = NDArray[np.float64]

SETTLING_STEPS = 10
"""Measurements after a recovery during which the cloud is moved as a whole."""
MOST_DOUBLINGS = 4
"""Of the spread, in recoveries that do not help."""


class GreyBoxModel(Protocol):
    """What is known of a robot: functions of N particles at once.

    `inputs` are whatever the caller of `MarginalizedParticleFilter.step` passes; `values` (N, p) are k. Rows that have
    no answer are NaN: such particles die.
    """

    def propagate(self, states: Array, inputs: Array, values: Array, step_s: float) -> Array:
        """f: states (N, n) after a step, without noise."""
        ...

    def outputs(self, states: Array, inputs: Array, values: Array) -> Array:
        """h: (N, m)."""
        ...

    def places(self, states: Array) -> Array:
        """What the unknown function depends on, (N, d) in the units of its basis."""
        ...


@dataclass(frozen=True)
class ParticleFilterSettings:
    """Noise and recovery.

    Attributes
    ----------
    process_noise
        (n,) standard deviations per sqrt(s) of the states' components; 0: without noise.
    measurement_covariance
        (m, m) of e.
    recovery_stddevs
        (n,) how far a lost cloud is spread; doubled with every recovery that does not help.
    particle_count
        N.
    offset_noise, offset_stddevs
        (m,) of the outputs' offsets: per sqrt(s), and at the start. None: there are no offsets.
    gate
        A measurement beyond its probability is left out, after `recover_after` of them in a row the cloud is spread.
    least_effective_share
        A first-stage effective sample size below this share of N, as often in a row, spreads the cloud as well.
    """

    process_noise: ArrayLike
    measurement_covariance: ArrayLike
    recovery_stddevs: ArrayLike
    particle_count: int = 500
    offset_noise: ArrayLike | None = None
    offset_stddevs: ArrayLike | None = None
    gate: Gate = field(default_factory=lambda: Gate(1.0 - 1e-6, 20))
    least_effective_share: float = 0.005


class Cloud(NamedTuple):
    """State of the filter: a value, all random numbers to come included. Arrays in it are never written.

    Attributes
    ----------
    states, values
        (N, n) and (N, p).
    log_weights
        (N,), normalised.
    learned
        Statistics of the unknown function.
    offsets, offset_covariance
        (N, m) means, and their covariance (m, m), the same for all particles.
    surplus
        (m, m) by how much outputs scatter about auxiliary ones; None before the first measurement.
    draws
        Random numbers to come.
    rejected_in_a_row, collapsed_in_a_row
        Measurements left out, and steps with hardly an effective particle, up to now.
    spreads, spreads_in_vain
        How often the cloud was spread anew: in all, and of late.
    steps_since_spread
        Measurements since the last time; None where there was none.
    """

    states: Array
    values: Array
    log_weights: Array
    learned: Statistics | WalkingStatistics
    offsets: Array
    offset_covariance: Array
    surplus: Array | None
    draws: Draws
    rejected_in_a_row: int = 0
    collapsed_in_a_row: int = 0
    spreads: int = 0
    spreads_in_vain: int = 0
    steps_since_spread: int | None = None

    @property
    def settling(self) -> bool:
        """Whether it was spread a short while ago."""
        return self.steps_since_spread is not None and self.steps_since_spread < SETTLING_STEPS

    @property
    def spread_factor(self) -> float:
        """By how much the settings' deviations are multiplied in a recovery."""
        return float(2.0 ** min(self.spreads_in_vain, MOST_DOUBLINGS))


class StepInfo(NamedTuple):
    """What a step saw.

    Attributes
    ----------
    innovation
        Measured less predicted, of the elements that were measured; None where there were none.
    log_likelihood
        Of the measurement given all before: an unbiased estimate of the likelihood; 0 where it was left out.
    effective_sample_size, first_stage_sample_size
        Of the weights after the step, and of those that were resampled by (N where nothing was).
    clamped
        Particles outside the box of the basis.
    spread
        Whether the cloud was spread anew.
    """

    innovation: Innovation | None
    log_likelihood: float
    effective_sample_size: float
    first_stage_sample_size: float
    clamped: int
    spread: bool


class CloudEstimate(NamedTuple):
    """Means and covariances: of the state (n), the function's value (p), and the offsets (m)."""

    state: Array
    state_covariance: Array
    values: Array
    values_covariance: Array
    offsets: Array
    offsets_covariance: Array
