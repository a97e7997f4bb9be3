"""Pose, joint angles and gyro biases of a chain with a trained residual model.

As `SalpEstimator`, with rates from a trained model. Commands pass the lag that the model was trained with; between two
predictions their mean acts. The state of the filter holds more than it publishes: see `residual_filter_kernels`. A
linearisation serves all gyros that are read within a few milliseconds of each other, for it costs ten times as much as
a correction.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import (
    NANOSECONDS_PER_SECOND,
    Block,
    Estimate,
    FilteredBlock,
    Matrix,
    Measurement,
    Notice,
    Vector,
)
from onboard_estimation.filtering.gating import Gate, Innovation
from onboard_estimation.filtering.moments import Moments, innovate, joseph_update
from onboard_estimation.filtering.state_space import StateSpace, angles, se2, vector
from onboard_estimation.pipeline.estimator import Step
from onboard_estimation.pipeline.sensor_trust import bridged_s
from salp_estimation.estimators import residual_gyro_kernels as kernels
from salp_estimation.estimators.chain_estimator import (
    COMMAND,
    STANDING_M_S,
    ChainEstimator,
    ChainState,
    GivenPose,
)
from salp_estimation.estimators.gaussian_sum_start import WideComponent, mixture, widened
from salp_estimation.estimators.gyro_kernels import NEVER
from salp_estimation.estimators.residual_filter_kernels import Linearised
from salp_estimation.estimators.residual_gyro_kernels import FilterState, LaggedCommand, Robots
from salp_estimation.estimators.residual_model import Population, ResidualModel
from salp_estimation.model import friction_kernels as friction
from salp_estimation.model.configuration import SalpConfiguration

Rows = NDArray[np.float64]

POSE_GATE = Gate(1.0 - 1e-6, 0)
"""A pose from outside that is less probable than one minus this replaces the filter's instead of correcting it."""
GYRO_SCALE_STDDEV = 0.01
"""Of a MEMS gyro's scale factor, before calibration."""
POSE = StateSpace(se2("pose"))

ResidualState = ChainState[FilterState]


class ResidualEstimator(ChainEstimator[FilterState]):
    """Pose and shape of the chain, with what was learned of it.

    A pose from outside corrects the filter's where it fits it, and replaces it where it does not. For two cycles of a
    gait two filters are followed, see `gaussian_sum_start`.

    Parameters
    ----------
    model
        Trained for this configuration; noise of gyros and process are the model's.
    as_stated
        Publish it as sure as the filter says it is.
    """

    kernels = kernels
    linearised = False  # pose and joint angles are published less sure than they are filtered, see `less_sure`

    def __init__(self, configuration: SalpConfiguration, model: ResidualModel, as_stated: bool = False) -> None:
        super().__init__(configuration)
        n = len(self._link_of)
        self.space, self._initial_covariance = residual_space(n), initial_covariance(configuration)
        rate_hz, population = configuration.gyro.used_rate_hz, model.population
        # A little early is on time: stamps jitter.
        self._least_period_ns = round(0.75 * NANOSECONDS_PER_SECOND / rate_hz) if rate_hz > 0.0 else 0
        self._population, self._robots = population, _robots(population)
        means = gyro_means = np.zeros((2 * n - 1, 1)), np.zeros(2 * n - 1), np.zeros((0, 1))
        variances = *means, np.zeros((0, 1)), np.zeros(0)
        if model.processes is not None:  # of the rates, then of the gyros
            inducing, inverse_scales, weights = model.processes.mean_arrays
            means, gyro_means = ((inducing, inverse_scales, part) for part in (weights[: n + 2], weights[n + 2 :]))
            _, _, projections, shrinkages, signal = model.processes.variance_arrays
            variances = inducing, inverse_scales, projections, shrinkages[: n + 2], signal[: n + 2]
        self._biases = slice(n - 1, 2 * n - 1)
        self._parameters = slice(3 * n - 1, 3 * n - 1 + friction.parameter_count(n))
        self._size = self._parameters.stop + n + 5
        self._public = np.concatenate([np.arange(self._size - 3, self._size), np.arange(2 * n - 1)])
        self._public_block = np.ix_(self._public, self._public)
        self.settings = kernels.Settings(
            configuration.chain.build().links,
            self._wheel_radii_m,
            self._public,
            self._gyro_element,
            self._gyro_sign,
            self.gate,
            means,
            variances,
            gyro_means,
            population.residual_stddevs,
            population.correlation_times_s,
            population.rest_stddevs,
            population.force_stddevs,
            model.gyro_noise,
            np.zeros(2) if as_stated else model.inflation,
            configuration.gyro.bias_walk_rad_s_sqrt_s,
            configuration.process.longest_step_s,
            self._least_period_ns,
        )

    def start(self, initial: Estimate | None) -> ResidualState:
        """As told, and in doubt of the joint angles; with none, in doubt of the room's axes as well."""
        told, probability = super().start(initial), self.configuration.initial.wrong_start_probability
        known = initial or self.default_start()
        robots = self._robots if initial is not None else _robots(self._population.turned_anyhow())
        told = told._replace(filtered=self._begun(known.mean, known.covariance, robots))
        wider = widened(self.space, known.covariance) if probability > 0.0 else None
        if wider is None:
            return told
        other = told._replace(filtered=self._begun(known.mean, wider, robots))
        return told._replace(wide=WideComponent(other, math.log((1.0 - probability) / probability)))

    def step(self, state: ResidualState, measurement: Measurement) -> Step:
        """Take a command, or predict to the measurement's stamp and correct; while the start is in doubt, twice."""
        kind = self._kinds[measurement.sensor]
        if kind >= 0 and measurement.stamp_ns - int(state.gyros["last_ns"][kind]) < self._least_period_ns:
            return Step(state, used=False)
        step = self.followed(state, measurement)
        if state.wide is not None:
            return self._both(state, step, state.wide, measurement)
        if step.estimate is None:
            return step
        filtered: FilterState = step.state.filtered
        is_novel = kernels.is_unlike(filtered)
        if is_novel == filtered.is_novel:
            return step
        events = step.events
        if is_novel:
            stamp_s = measurement.stamp_ns / NANOSECONDS_PER_SECOND
            events = (*events, Notice(f"at {stamp_s:.3f} s: {_novelty_sentence(kernels.unlikeness(filtered))}"))
        state = step.state._replace(filtered=filtered._replace(is_novel=is_novel))
        return step._replace(state=state, events=events)

    def filter_block(self, state: ResidualState, block: Block) -> FilteredBlock | None:
        """See `ChainEstimator`; not while two filters are followed."""
        return None if state.wide is not None else super().filter_block(state, block)

    def sensor_faults(self, state: ResidualState) -> dict[str, str]:
        """Of the commands, where they move the robot otherwise than those in training."""
        filtered = state.filtered
        return {COMMAND: _novelty_sentence(kernels.unlikeness(filtered))} if filtered.is_novel else {}

    def health(self, state: ResidualState) -> dict[str, float]:
        """How many times as far the robot is from those in training as they are from each other."""
        return {"novelty": math.sqrt(kernels.unlikeness(self.leading(state).filtered))}

    def followed(self, state: ResidualState, measurement: Measurement) -> Step:
        """One filter after a measurement, whether or not there is another."""
        return super().step(state, measurement)

    def leading(self, state: ResidualState) -> ResidualState:
        """The likelier one of the filters that are followed."""
        return state if state.wide is None or _narrow_probability(state, state.wide) >= 0.5 else state.wide.state

    def _both(
        self, before: ResidualState, step: Step, wide: WideComponent[ResidualState], measurement: Measurement
    ) -> Step:
        """Both filters after a measurement, or the likelier one where it is time."""
        try:
            other = self.followed(wide.state, measurement)
        except (ArithmeticError, ValueError, np.linalg.LinAlgError):
            return step._replace(state=step.state._replace(wide=None))  # the other filter is well, and goes on
        after: ResidualState = step.state
        driven, driven_ns = wide.driven, wide.driven_ns
        if driven and before.stamp_ns is not None and after.stamp_ns is not None:
            driven_ns += after.stamp_ns - before.stamp_ns
        if measurement.sensor == COMMAND:
            driven = bool(np.abs(self._wheel_radii_m * measurement.value).max() > STANDING_M_S)
        wide = WideComponent(other.state, wide.prior, driven, driven_ns)
        weight = _narrow_probability(after, wide)
        if wide.is_over:
            return step._replace(state=after._replace(wide=None)) if weight >= 0.5 else other
        leading, estimate = step if weight >= 0.5 else other, step.estimate
        is_told_of = driven_ns > 0  # before, it is as sure as it was told
        if is_told_of and estimate is not None and other.estimate is not None:
            estimate = mixture(self.space, weight, estimate, other.estimate)
        return Step(after._replace(wide=wide), estimate, leading.innovation, leading.events, step.used)

    def begun(self, mean: Vector, covariance: Matrix) -> FilterState:
        """Those moments, and what the model says of the population."""
        return self._begun(mean, covariance, self._robots)

    def _begun(self, mean: Vector, covariance: Matrix, robots: Robots) -> FilterState:
        n, p = len(self._link_of), len(robots.mean)
        m, none = n + 2, np.zeros(n)
        state, whole = np.zeros(self._size), np.zeros((self._size, self._size))
        state[self._public], state[self._parameters] = mean, robots.mean
        scales = slice(self._biases.stop, self._biases.stop + n)
        whole[scales, scales] = GYRO_SCALE_STDDEV**2 * np.eye(n)
        whole[self._parameters, self._parameters] = robots.covariance
        residuals = slice(self._parameters.stop, self._size - 3)
        whole[residuals, residuals] = np.eye(m)
        whole[self._public_block] = covariance
        rates = np.zeros(m)
        slopes = np.zeros((m, n - 1)), np.zeros((m, p)), np.zeros((m, m))
        near = Linearised(NEVER, state, rates, *slopes, rates, none, rates)
        wheels, given = LaggedCommand(none, none, 0, none), np.diagonal(covariance)[:3].copy()
        return FilterState(state, whole, near, rates, wheels, robots, given, 0.0, False)

    def pending_ns(self, state: ResidualState, stamp_ns: int) -> int:
        """Commands are no reason to predict."""
        return super().pending_ns(state, stamp_ns) + state.filtered.wheels.pending_ns

    def predicted(self, state: ResidualState, stamp_ns: int) -> ResidualState:
        """By the mean command of the time since the last prediction."""
        bridged_s(self.pending_ns(state, stamp_ns))
        filtered = state.filtered
        wheels = kernels.advanced(filtered.wheels, super().pending_ns(state, stamp_ns))
        state = state._replace(filtered=filtered._replace(wheels=wheels), stamp_ns=stamp_ns)
        steps = kernels.step_count(self.settings, wheels)
        for step in range(steps):
            state = self.moved(state, stamp_ns, step, steps)
        return state

    def moved(self, state: ResidualState, stamp_ns: int, step: int, steps: int) -> ResidualState:
        """One step of a prediction to a stamp."""
        return state._replace(filtered=kernels.moved(self.settings, state.filtered, stamp_ns, step, steps))

    def placed(self, state: ResidualState, stamp_ns: int, given: GivenPose) -> tuple[ResidualState, Innovation]:
        """Corrected by the pose, or with it in the place of the filter's."""
        before = self.predicted(state, stamp_ns)
        after, seen = self._by_pose(before, given)
        if not given.is_known or seen.nis > POSE_GATE.threshold(3):
            after = self._replaced(before, given)
        variances = np.diagonal(after.filtered.covariance)[-3:].copy()
        return after._replace(filtered=after.filtered._replace(given=variances)), seen

    def _by_pose(self, state: ResidualState, given: GivenPose) -> tuple[ResidualState, Innovation]:
        now = state.filtered
        before, of_pose = Moments(now.state, now.covariance), np.eye(self._size)[-3:].copy()
        seen = innovate(before, POSE.minus(given.pose, now.state[-3:]), of_pose, given.covariance)
        step, after = joseph_update(now.covariance, of_pose, given.covariance, seen.root, seen.value)
        mean = np.concatenate([now.state[:-3] + step[:-3], POSE.plus(now.state[-3:], step[-3:])])
        return self._with_moments(state, mean, after), seen

    def _replaced(self, state: ResidualState, given: GivenPose) -> ResidualState:
        """With the pose and its covariance in the place of its own; the rest stays."""
        mean, whole = state.filtered.state.copy(), state.filtered.covariance.copy()
        mean[-3:] = given.pose
        whole[-3:, :] = whole[:, -3:] = 0.0
        whole[-3:, -3:] = given.covariance
        return self._with_moments(state, mean, whole)

    @staticmethod
    def _with_moments(state: ResidualState, mean: Vector, covariance: Matrix) -> ResidualState:
        """Others than those that were linearised at."""
        now = state.filtered
        near = now.near._replace(at_ns=NEVER)
        return state._replace(filtered=now._replace(state=mean, covariance=covariance, near=near))


def _robots(population: Population) -> Robots:
    """Of a population."""
    prior = population.prior
    return Robots(population.parameters, prior, np.diagonal(prior).copy())


def _novelty_sentence(level: float) -> str:
    """That a robot is unlike those in training, without a full stop."""
    return (
        f"the robot moves unlike those that its residual model was trained with, {math.sqrt(level):.1f} times as far "
        "from them as they are from each other; its joint angles are taken for that many times less sure. Is a wheel "
        "weak, is it loaded? Else train a model with this robot as it is"
    )


def _narrow_probability(state: ResidualState, wide: WideComponent[ResidualState]) -> float:
    return wide.narrow_probability(state.filtered.evidence, wide.state.filtered.evidence)


def residual_space(links: int) -> StateSpace:
    """Pose, joint angles and gyro biases of a chain of so many links."""
    return StateSpace(
        se2("pose"),
        angles("joint_angles", tuple(f"alpha_{j + 1}" for j in range(links - 1))),
        vector("gyro_bias", tuple(f"link_{i + 1}" for i in range(links)), "rad/s"),
    )


def initial_covariance(configuration: SalpConfiguration) -> Matrix:
    """(2 N + 2, 2 N + 2) covariance of the initial pose, joint angles and gyro biases."""
    links = len(configuration.chain.link_names)
    out = np.zeros((2 * links + 2, 2 * links + 2))
    out[: links + 2, : links + 2] = configuration.initial_covariance()
    out[links + 2 :, links + 2 :] = configuration.initial.gyro_bias_stddev_rad_s**2 * np.eye(links)
    return out
