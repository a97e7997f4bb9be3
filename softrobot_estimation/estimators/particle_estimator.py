"""Marginalised particle filter on pressures and wrench that learns the stiffness: `marginalized_pf`.

Algorithm 1 of the paper over the grey box: a particle is a row of it, its stiffness k a sample of a Gaussian process of
bending and elongation, whose weights are integrated out, as are the offsets of the six outputs. A row has 15 numbers
and a wrench is exact: weights alone leave a handful of 500 particles, and within seconds they are 12 mm astray, so that
part of each correction moves them (`onboard_estimation.filtering.marginalized_particles`).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from onboard_estimation.base.measurement import Matrix, Notice, Vector
from onboard_estimation.filtering.gating import Gate, Innovation
from onboard_estimation.filtering.marginalized_particles import (
    Cloud,
    MarginalizedParticleFilter,
    ParticleFilterSettings,
    UnknownFunction,
)
from onboard_estimation.filtering.particle_weights import moments
from onboard_estimation.filtering.walking_prior import HyperParameterWalk
from onboard_estimation.learning.reduced_rank import LearnedFunction, ReducedRankBasis
from softrobot_estimation.estimators.wrench_filter import FilterState, Pending, WrenchFilter
from softrobot_estimation.model import grey_box_kernels as kernels
from softrobot_estimation.model.configuration import SoftRobotConfiguration
from softrobot_estimation.model.grey_box import GreyBox

_LEAST_SHARE = 0.25
"""Of the configured stiffness: no sample is lower."""
_GATE = Gate(1.0 - 1e-9, 12)
_OUTSIDE_SHARE = 0.5
"""Of the particles outside the box of the basis: the robot is."""
_RECOVERY = (0.1, 0.1, 0.002, 0.5, 0.5, 0.02, 0.05, 0.05, 0.001, 0.05, 0.05, 0.001)
"""How far pose, rates and what has relaxed are spread anew: rad, m, and per second."""
_RECOVERY_PAYLOAD_KG = 0.01
LEARNED_WEIGHT = 0.25
"""Of the samples of a stiffness that was learned on another day: its deviations are doubled."""


class Tracked(NamedTuple):
    """A cloud, and how it has done.

    Attributes
    ----------
    effective_sample_size, summed_sizes, steps
        Of the last step; of all steps, and how many they were.
    """

    cloud: Cloud
    effective_sample_size: float
    summed_sizes: float = 0.0
    steps: int = 0
    outside: bool = False

    def after(self, cloud: Cloud, effective_sample_size: float) -> Tracked:
        """After a step."""
        summed = self.summed_sizes + effective_sample_size
        return Tracked(cloud, effective_sample_size, summed, self.steps + 1, self.outside)


class _Model:
    """The grey box as the filter asks for it; inputs are pressures in the chambers."""

    def __init__(self, box: GreyBox) -> None:
        self._box = box

    def propagate(self, states: Matrix, inputs: Vector, values: Matrix, step_s: float) -> Matrix:
        return self._box.propagate(states, values[:, 0], inputs, step_s)

    def outputs(self, states: Matrix, inputs: Vector, values: Matrix) -> Matrix:
        return self._box.loads(states, values[:, 0], inputs)

    def places(self, states: Matrix) -> Matrix:
        return np.ascontiguousarray(states[:, :3])


def stiffness_prior(configuration: SoftRobotConfiguration) -> UnknownFunction:
    """The stiffness (N m/rad) as a function of bending (rad, rad) and elongation (m), before anything is learned."""
    learning, mean = configuration.learning, configuration.stiffness.bending_n_m_per_rad
    chambers = configuration.chambers
    half_force_n = 0.5 * chambers.count * chambers.area_m2 * chambers.pressure_max_pa
    basis = ReducedRankBasis(
        centre=(0.0, 0.0, half_force_n / configuration.stiffness.axial_n_per_m),
        half_widths=(learning.half_width_rad, learning.half_width_rad, learning.half_width_m),
        length_scales=(learning.length_scale_rad, learning.length_scale_rad, learning.length_scale_m),
        function_count=learning.functions,
        kernel=learning.kernel,  # type: ignore[arg-type]  # checked by the configuration
    )
    return UnknownFunction(
        basis,
        (mean,),
        (learning.deviation_share * mean,),
        noise_share=learning.noise_share,
        sample_weight=learning.sample_weight,
        memory_s=learning.memory_s,
        lowest=(_LEAST_SHARE * mean,),
        walk=HyperParameterWalk() if learning.hyper_parameters else None,
    )


class ParticleEstimator(WrenchFilter[Tracked]):
    """Tip and stiffness by particles.

    Parameters
    ----------
    learned
        Stiffness that was learned before, under the same prior; None: it starts from nothing.

    Attributes
    ----------
    unknown
        Prior of the stiffness.
    """

    def __init__(self, configuration: SoftRobotConfiguration, learned: LearnedFunction | None = None) -> None:
        super().__init__(configuration)
        self._model, self.unknown, self._learned = _Model(self.grey_box), stiffness_prior(configuration), learned
        self._tracker = lru_cache(maxsize=8)(self._built)

    def _built(self, moment_stddev_n_m: float) -> MarginalizedParticleFilter:
        """The filter for moments of that size: they are larger while a chamber's pressure is not known."""
        settings = self.configuration.filter
        noise, recovery = np.zeros(kernels.ROW), np.zeros(kernels.ROW)
        noise[kernels.RATES : kernels.RELAXED] = self.rate_walk
        noise[kernels.MOMENTS : kernels.PAYLOAD] = moment_stddev_n_m * math.sqrt(2.0 / settings.moment_time_s)
        noise[kernels.PAYLOAD] = settings.payload_walk_kg_sqrt_s
        recovery[: kernels.MOMENTS] = _RECOVERY
        recovery[kernels.MOMENTS : kernels.PAYLOAD] = moment_stddev_n_m
        recovery[kernels.PAYLOAD] = _RECOVERY_PAYLOAD_KG
        recovery[kernels.REST :] = 0.5 * settings.rest_moment_stddev_n_m
        return MarginalizedParticleFilter(
            self._model,
            self.unknown,
            ParticleFilterSettings(
                noise,
                np.diag(self.wrench_stddev**2),
                recovery,
                particle_count=self.configuration.learning.particles,
                offset_noise=self.offset_walk,
                offset_stddevs=self.offset_stddev,
                gate=_GATE,
                bridged=True,
            ),
        )

    def begun(self, rows: Vector, stddev: Vector, stiffness: float, stiffness_stddev: float) -> Tracked:
        """Particles drawn there; of the stiffness they know what was learned before, else what the prior says."""
        tracker = self._tracker(self.configuration.filter.moment_stddev_n_m)
        cloud = tracker.start(rows, np.diag(stddev**2), self.configuration.learning.seed)
        cloud = cloud._replace(offsets=np.tile(self.offset_start, (len(cloud.states), 1)))
        if self._learned is not None:
            values, _ = self._learned.predict(self._model.places(cloud.states))
            cloud = cloud._replace(
                values=values, learned=tracker.prior.recall(len(values), self._learned, LEARNED_WEIGHT)
            )
        return Tracked(cloud, float(len(cloud.states)))

    def moved(self, filtered: Tracked, pending: Pending, chambers_pa: Vector) -> Tracked:
        """All particles, without a measurement."""
        tracker = self._tracker(pending.moment_stddev_n_m)
        cloud, info = tracker.step(filtered.cloud, pending.step_s, None, pending.mean_pa, chambers_pa)
        return filtered.after(cloud, info.effective_sample_size)

    def eased(self, filtered: Tracked, share: float) -> Tracked:
        """Every particle's."""
        states = filtered.cloud.states.copy()
        states[:, kernels.MOMENTS : kernels.PAYLOAD] *= share
        return filtered._replace(cloud=filtered.cloud._replace(states=states))

    def placed(self, filtered: Tracked, row: Vector, stddev: Vector) -> Tracked:
        """Drawn anew; particles keep what they have learned."""
        cloud, states = filtered.cloud, filtered.cloud.states.copy()
        rng, draws = cloud.draws.generator()
        pose = slice(0, kernels.PAYLOAD)
        states[:, pose] = row[pose] + stddev[pose] * rng.standard_normal(states[:, pose].shape)
        return filtered._replace(cloud=cloud._replace(states=states, draws=draws))

    def corrected(
        self, filtered: Tracked, state: FilterState[Tracked], wrench: Vector
    ) -> tuple[Tracked, Innovation, int, tuple[Notice, ...]]:
        """By all six outputs at once."""
        pending = state.pending or Pending(state.chambers_pa, 1e-6, self.configuration.filter.moment_stddev_n_m)
        tracker = self._tracker(pending.moment_stddev_n_m)
        cloud, info = tracker.step(filtered.cloud, pending.step_s, wrench, pending.mean_pa, state.chambers_pa)
        events: tuple[Notice, ...] = ()
        if info.spread:
            events = (
                Notice(f"the particles had lost the robot, for the {cloud.spreads}. time: they were spread anew"),
            )
        assert info.innovation is not None  # something was measured
        outside = info.clamped > _OUTSIDE_SHARE * len(cloud.states)
        if outside and not filtered.outside:
            learning = self.configuration.learning
            events += (
                Notice(
                    f"the robot is beyond the box in which its stiffness is learned ({learning.half_width_rad:g} rad, "
                    f"{learning.half_width_m:g} m either way): there it has the stiffness of the box's edge"
                ),
            )
        after = filtered.after(cloud, info.effective_sample_size)._replace(outside=outside)
        return after, info.innovation, cloud.rejected_in_a_row, events

    def published(self, filtered: Tracked, chambers_pa: Vector) -> tuple[Vector, Matrix]:
        """Moments of the tips that the particles have."""
        cloud = filtered.cloud
        tips = self.grey_box.tips(cloud.states, cloud.values[:, 0], chambers_pa)
        mean, covariance = moments(np.exp(cloud.log_weights), tips)
        return mean, covariance

    def health(self, state: FilterState[Tracked]) -> dict[str, float]:
        """Effective particles, now and on average, and how often the cloud was spread anew."""
        tracked = state.filtered
        if tracked is None:
            return {}
        return {
            "effective_particles": tracked.effective_sample_size,
            "mean_effective_particles": tracked.summed_sizes / max(tracked.steps, 1),
            "times_lost": float(tracked.cloud.spreads),
        }

    def learned(self, state: FilterState[Tracked]) -> LearnedFunction | None:
        """The stiffness as all particles have it, without the configuration's law; None before the first pressures."""
        tracked = state.filtered
        if tracked is None:
            return None
        return self._tracker(self.configuration.filter.moment_stddev_n_m).learned_function(tracked.cloud)

    def mean_weights(self, cloud: Cloud) -> Vector:
        """(M,) of the basis functions, over all particles."""
        return self._tracker(self.configuration.filter.moment_stddev_n_m).mean_weights(cloud)[0]
