"""Pose, joint angles and gyro biases of a chain with a trained residual model.

As `SalpEstimator`, with rates from a trained model. Commands pass the lag that the model was trained with; between two
predictions their mean acts. The state of the filter holds more than it publishes: see `residual_filter_kernels`. A
linearisation serves all gyros that are read within a few milliseconds of each other, for it costs ten times as much as
a correction.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Estimate, Matrix, Measurement, Notice, Vector
from onboard_estimation.filtering.gating import OPEN, Gate, Innovation, decide
from onboard_estimation.filtering.moments import Moments, innovate, joseph_update
from onboard_estimation.filtering.state_space import StateSpace, angles, se2, vector
from onboard_estimation.learning.sparse_kernels import predict_means, predict_variances
from onboard_estimation.pipeline.estimator import Step
from onboard_estimation.pipeline.sensor_trust import SensorTrust, bridged_s
from salp_estimation.estimators import residual_filter_kernels as kernels
from salp_estimation.estimators.chain_estimator import (
    COMMAND,
    COMMAND_LAG_S,
    STANDING_M_S,
    ChainEstimator,
    ChainState,
    GivenPose,
    Reading,
)
from salp_estimation.estimators.gaussian_sum_start import WideComponent, log_density, mixture, widened
from salp_estimation.estimators.residual_filter_kernels import ERROR_TIME_S, Linearised
from salp_estimation.estimators.residual_model import REST_S, SLIP, Population, ResidualModel
from salp_estimation.model import friction_kernels as friction
from salp_estimation.model.configuration import SalpConfiguration

Rows = NDArray[np.float64]

POSE_GATE = Gate(1.0 - 1e-6, 0)
"""A pose from outside that is less probable than one minus this replaces the filter's instead of correcting it."""
NOVEL_FROM, NOVEL_TO = 6.0, 4.0
"""Unlikeness of a robot to those in training from which on it is told, and below which it is over: none of twenty
robots as in training got there in a minute (`salp_surprises`)."""

LINEARISATION_S = 0.005
"""A linearisation serves so long: over this time a gait's controls change by half a per cent."""
ANGLE_NOISE = 1e-5
ROBOT_TIME_S = 200.0
"""A robot may change while it runs, by wear, load or floor: within minutes it may be any of its population."""
GYRO_SCALE_STDDEV = 0.01
"""Of a MEMS gyro's scale factor, before calibration."""
POSE = StateSpace(se2("pose"))


class Robots(NamedTuple):
    """Parameters of a robot before any reading: mean (p,), covariance (p, p) and its diagonal."""

    mean: Vector
    covariance: Matrix
    variances: Vector

    @classmethod
    def of(cls, population: Population) -> Robots:
        """Of a population."""
        prior = population.prior
        return cls(population.parameters, prior, np.diagonal(prior).copy())


class FilterState(NamedTuple):
    """State and covariance in the order of `residual_filter_kernels`; arrays are values, never written.

    Attributes
    ----------
    linearised, start
        The last linearisation, and where the next one's iteration starts.
    robots
        What is known of the robot beforehand.
    history
        The last of the steps that led here, where somebody will look back.
    evidence
        Sum of the `log_density` of all readings of the gyros.
    is_novel
        Whether it has been told that the robot is unlike those in training.
    given
        (3,) variances of the pose where it was last given, at the start or from outside.
    """

    state: Vector
    covariance: Matrix
    linearised: Linearised | None
    start: Vector
    robots: Robots
    history: Any = None
    evidence: float = 0.0
    is_novel: bool = False
    given: Vector = np.zeros(3)

    def with_moments(self, state: Vector, covariance: Matrix, evidence: float = 0.0) -> FilterState:
        """With another state and covariance, and more evidence; `_replace` would take a twentieth of a step."""
        return FilterState(state, covariance, *self[2:6], self.evidence + evidence, *self[7:])


class LaggedCommand(NamedTuple):
    """What the wheels were asked for and what they do, at the stamp of the last measurement.

    Attributes
    ----------
    asked, lagged
        (N,) the command in force and its lag, m/s at the rim.
    pending_ns, area
        How long the filter has not been predicted over, and the integral (N,) of the lag over that time, m.
    """

    asked: Vector
    lagged: Vector
    pending_ns: int
    area: Vector

    def advanced(self, elapsed_ns: int) -> LaggedCommand:
        """Later, under the same command."""
        if elapsed_ns <= 0:
            return self
        duration_s = elapsed_ns / NANOSECONDS_PER_SECOND
        keep = math.exp(-duration_s / COMMAND_LAG_S)
        missing = self.lagged - self.asked
        area = self.area + duration_s * self.asked + COMMAND_LAG_S * (1.0 - keep) * missing
        return LaggedCommand(self.asked, self.asked + keep * missing, self.pending_ns + elapsed_ns, area)


ResidualState = ChainState[FilterState, LaggedCommand]


class ResidualEstimator(ChainEstimator[FilterState, LaggedCommand]):
    """Pose and shape of the chain, with what was learned of it.

    A pose from outside corrects the filter's where it fits it, and replaces it where it does not. For two cycles of a
    gait two filters are followed, see `gaussian_sum_start`.

    Parameters
    ----------
    model
        Trained for this configuration; noise of gyros and process are the model's.
    """

    linearised = False  # pose and joint angles are published less sure than they are filtered, see `inflation`

    def __init__(self, configuration: SalpConfiguration, model: ResidualModel) -> None:
        super().__init__(configuration)
        n = len(self._link_of)
        self.space, self._initial_covariance = residual_space(n), initial_covariance(configuration)
        rate_hz = configuration.gyro.used_rate_hz
        # A little early is on time: stamps jitter.
        self._least_period_ns = round(0.75 * NANOSECONDS_PER_SECOND / rate_hz) if rate_hz > 0.0 else 0
        self._links, self._model = configuration.chain.build().links, model
        self._population, self._robots = model.population, Robots.of(model.population)
        self._means: tuple[Rows, Vector, Rows] = np.zeros((2 * n - 1, 1)), np.zeros(2 * n - 1), np.zeros((0, 1))
        if model.processes is not None:  # of the rates, then of the gyros
            inducing, inverse_scales, weights = model.processes.mean_arrays
            self._means = inducing, inverse_scales, weights[: n + 2]
            self._gyro_means = inducing, inverse_scales, weights[n + 2 :]
            _, _, projections, shrinkages, signal = model.processes.variance_arrays
            self._variances = inducing, inverse_scales, projections, shrinkages[: n + 2], signal[: n + 2]
        self._angles, self._biases = slice(0, n - 1), slice(n - 1, 2 * n - 1)
        self._parameters = slice(3 * n - 1, 3 * n - 1 + friction.parameter_count(n))
        self._size = self._parameters.stop + n + 5
        # (2 N + 2,) where pose, joint angles and biases, in this order, stand in the state of the filter.
        self._public = np.concatenate([np.arange(self._size - 3, self._size), np.arange(2 * n - 1)])
        self._public_block = np.ix_(self._public, self._public)
        self._pose, self._joints = self.space.tangent("pose"), self.space.tangent("joint_angles")

    def start(self, initial: Estimate | None) -> ResidualState:
        """As told, and in doubt of the joint angles; with none, in doubt of the room's axes as well."""
        told, probability = super().start(initial), self.configuration.initial.wrong_start_probability
        known = initial or self.default_start()
        robots = self._robots if initial is not None else Robots.of(self._population.turned_anyhow())
        told = replace(told, filtered=self._begun(known.mean, known.covariance, robots)[0])
        wider = widened(self.space, known.covariance) if probability > 0.0 else None
        if wider is None:
            return told
        other = replace(told, filtered=self._begun(known.mean, wider, robots)[0])
        return replace(told, wide=WideComponent(other, math.log((1.0 - probability) / probability)))

    def step(self, state: ResidualState, measurement: Measurement) -> Step:
        """Take a command, or predict to the measurement's stamp and correct; while the start is in doubt, twice."""
        step = self.followed(state, measurement)
        if state.wide is not None:
            return self._both(state, step, state.wide, measurement)
        return step if step.estimate is None else self._likened(step, measurement.stamp_ns)

    def _likened(self, step: Step, stamp_ns: int) -> Step:
        """With a notice where the robot turns out to be unlike those in training."""
        filtered: FilterState = step.state.filtered
        level = self.novelty(filtered)
        is_novel = level > (NOVEL_TO if filtered.is_novel else NOVEL_FROM)
        if is_novel == filtered.is_novel:
            return step
        events = step.events
        if is_novel:
            events = (*events, Notice(f"at {stamp_ns / NANOSECONDS_PER_SECOND:.3f} s: {_novelty_sentence(level)}"))
        state = replace(step.state, filtered=filtered._replace(is_novel=is_novel))
        return step._replace(state=state, events=events)

    def sensor_faults(self, state: ResidualState) -> dict[str, str]:
        """Of the commands, where they move the robot otherwise than those in training."""
        filtered = state.filtered
        return {COMMAND: _novelty_sentence(self.novelty(filtered))} if filtered.is_novel else {}

    def health(self, state: ResidualState) -> dict[str, float]:
        """How many times as far the robot is from those in training as they are from each other."""
        return {"novelty": math.sqrt(self.novelty(self.leading(state).filtered))}

    def novelty(self, now: FilterState) -> float:
        """Of the robot to those in training, see `kernels.novelty`."""
        here = self._parameters
        deviations = now.state[here] - now.robots.mean
        return kernels.novelty(deviations, now.covariance[here, here], now.robots.variances)

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
            return step._replace(state=replace(step.state, wide=None))  # the other filter is well, and goes on
        after: ResidualState = step.state
        driven, driven_ns = wide.driven, wide.driven_ns
        if driven and before.stamp_ns is not None and after.stamp_ns is not None:
            driven_ns += after.stamp_ns - before.stamp_ns
        if measurement.sensor == COMMAND:
            driven = bool(np.abs(self._wheel_radii_m * measurement.value).max() > STANDING_M_S)
        wide = WideComponent(other.state, wide.prior, driven, driven_ns)
        weight = _narrow_probability(after, wide)
        if wide.is_over:
            return step._replace(state=replace(after, wide=None)) if weight >= 0.5 else other
        leading, estimate = step if weight >= 0.5 else other, step.estimate
        is_told_of = driven_ns > 0  # before, it is as sure as it was told
        if is_told_of and estimate is not None and other.estimate is not None:
            estimate = mixture(self.space, weight, estimate, other.estimate)
        return Step(replace(after, wide=wide), estimate, leading.innovation, leading.events, step.used)

    def begun(self, mean: Vector, covariance: Matrix) -> tuple[FilterState, LaggedCommand]:
        """Those moments, and what the model says of the population."""
        return self._begun(mean, covariance, self._robots)

    def _begun(self, mean: Vector, covariance: Matrix, robots: Robots) -> tuple[FilterState, LaggedCommand]:
        n, none = len(self._link_of), np.zeros(len(self._link_of))
        state, whole = np.zeros(self._size), np.zeros((self._size, self._size))
        state[self._public], state[self._parameters] = mean, robots.mean
        scales = slice(self._biases.stop, self._biases.stop + n)
        whole[scales, scales] = GYRO_SCALE_STDDEV**2 * np.eye(n)
        whole[self._parameters, self._parameters] = robots.covariance
        residuals = slice(self._parameters.stop, self._size - 3)
        whole[residuals, residuals] = np.eye(n + 2)
        whole[self._public_block] = covariance
        filtered = FilterState(state, whole, None, np.zeros(n + 2), robots, given=np.diagonal(covariance)[:3].copy())
        return filtered, LaggedCommand(none, none, 0, none)

    def commanded(
        self, filtered: FilterState, wheels: LaggedCommand, elapsed_ns: int, rim_speeds_m_s: Vector
    ) -> tuple[FilterState, LaggedCommand]:
        """The lag starts towards other speeds; the filter stays where it is."""
        return filtered, wheels.advanced(elapsed_ns)._replace(asked=rim_speeds_m_s)

    def predicted(
        self, filtered: FilterState, wheels: LaggedCommand, stamp_ns: int, elapsed_ns: int
    ) -> tuple[FilterState, LaggedCommand]:
        """By the mean command of the time since the last prediction."""
        wheels = wheels.advanced(elapsed_ns)
        pending_ns = wheels.pending_ns
        if pending_ns <= 0:
            return filtered, wheels
        duration_s = bridged_s(pending_ns)
        mean_control = wheels.area / duration_s
        steps = max(1, math.ceil(duration_s / self.configuration.process.longest_step_s - 1e-9))
        for step in range(steps):
            at_ns = stamp_ns - pending_ns + round((step + 0.5) / steps * pending_ns)
            filtered, linearised = self._linearised(filtered, at_ns, wheels.asked, mean_control)
            filtered = self._moved(filtered, duration_s / steps, linearised)
        return filtered, LaggedCommand(wheels.asked, wheels.lagged, 0, np.zeros(len(wheels.area)))

    def _linearised(
        self, now: FilterState, at_ns: int, asked: Vector, controls: Vector
    ) -> tuple[FilterState, Linearised]:
        """The last linearisation if it is of about that time, else a new one, which the state keeps.

        Parameters
        ----------
        asked, controls
            (N,) rim speeds of the command in force, and lagged ones, m/s.
        """
        last, n = now.linearised, len(self._link_of)
        if last is not None and abs(at_ns - last.at_ns) <= LINEARISATION_S * NANOSECONDS_PER_SECOND:
            return now, last
        m, offsets, population = n + 2, np.zeros(n), self._population
        if not np.abs(controls).max() > STANDING_M_S:  # harness and floor make it creep
            slopes = np.zeros((m, n - 1)), np.zeros((m, friction.parameter_count(n)))
            stddevs, lasts_s = population.rest_stddevs, np.full(m, REST_S)
            made = Linearised(at_ns, now.state, np.zeros(m), *slopes, np.zeros((m, m)), stddevs, offsets, lasts_s)
            return now._replace(linearised=made, start=np.zeros(m)), made
        drive = controls, (asked - controls) / COMMAND_LAG_S
        mean, by_angles, by_parameters, left_over, start = kernels.linearise(
            self._links, now.state, now.covariance, *drive, SLIP, now.start, *self._means
        )
        angles = now.state[self._angles]
        place = friction.Place(self._links, angles, now.state[-1], *drive, now.state[self._parameters], SLIP)
        stddevs = population.scale(friction.force_effects(place, start))
        if self._model.processes is not None:
            inputs = np.concatenate([angles, controls])[None]
            stddevs = np.sqrt(stddevs**2 + predict_variances(*self._variances, inputs)[0])
            offsets = predict_means(*self._gyro_means, inputs)[0]
        lasts_s = population.correlation_times_s
        made = Linearised(at_ns, now.state, mean, by_angles, by_parameters, left_over, stddevs, offsets, lasts_s)
        return now._replace(linearised=made, start=start), made

    def _moved(self, now: FilterState, duration_s: float, linearised: Linearised) -> FilterState:
        """A short time later."""
        walk = self.configuration.gyro.bias_walk_rad_s_sqrt_s
        noise = walk, ANGLE_NOISE
        state, covariance = kernels.predict(now.state, now.covariance, linearised, duration_s, *noise)
        keep = float(np.exp(-duration_s / ROBOT_TIME_S))
        kernels.drift(state, covariance, self._parameters.start, now.robots.mean, now.robots.covariance, keep)
        return now.with_moments(state, covariance)

    def corrected(
        self,
        filtered: FilterState,
        wheels: LaggedCommand,
        stamp_ns: int,
        reading: Reading,
        gyro: SensorTrust,
        may_recover: bool,
    ) -> tuple[FilterState, Innovation, int]:
        """By one gyro, whose noise grows with the speed of its own wheel, where the gate lets it pass."""
        now, linearised = self._linearised(filtered, stamp_ns, wheels.asked, wheels.lagged)
        speed_m_s = float(wheels.lagged[reading.link])
        after, seen = self._by_gyro(now, reading, speed_m_s, linearised, self._gate)
        _, inflation, rejected = decide(self._gate, seen.nis, 1, gyro.rejected_in_a_row, may_recover)
        if inflation > 1.0:
            wider = now.with_moments(now.state, self._inflated(now, inflation))
            evidence = after.evidence
            after, seen = self._by_gyro(wider, reading, speed_m_s, linearised, OPEN)
            after, seen = after._replace(evidence=evidence), replace(seen, inflation=inflation)
        return after, seen, rejected

    def _inflated(self, now: FilterState, factor: float) -> Matrix:
        """All less known, but no parameter less than before any reading."""
        scales = np.full(self._size, np.sqrt(factor))
        variances, prior = np.diagonal(now.covariance)[self._parameters], now.robots.variances
        known = variances > 0.0
        scales[self._parameters][known] = np.clip(np.sqrt(prior[known] / variances[known]), 1.0, np.sqrt(factor))
        return now.covariance * np.outer(scales, scales)

    def _by_gyro(
        self, now: FilterState, reading: Reading, speed_m_s: float, linearised: Linearised, gate: Gate
    ) -> tuple[FilterState, Innovation]:
        link, rate_rad_s, period_s = reading
        rest, growth = self._model.gyro_noise[link]
        variance = rest**2 + (growth * speed_m_s) ** 2
        threshold = gate.threshold(1)
        share = max(1.0, 2.0 * ERROR_TIME_S / max(period_s, 1e-3))
        innovation, spread, repeated, state, covariance = kernels.update(
            now.state, now.covariance, linearised, link, rate_rad_s, variance, share, threshold
        )
        nis = innovation * innovation / spread
        accepted = nis <= threshold
        seen = Innovation(np.array([innovation]), np.array([[np.sqrt(spread)]]), nis, accepted)
        evidence = log_density(innovation, spread, variance, repeated, share, threshold)
        return now.with_moments(state, covariance, evidence), seen

    def placed(self, filtered: FilterState, given: GivenPose) -> tuple[FilterState, Innovation]:
        """Corrected by the pose, or with it in the place of the filter's."""
        corrected, seen = self._by_pose(filtered, given)
        if not given.is_known or seen.nis > POSE_GATE.threshold(3):
            corrected = self._replaced(filtered, given)
        return corrected._replace(given=np.diagonal(corrected.covariance)[-3:].copy()), seen

    def _by_pose(self, now: FilterState, given: GivenPose) -> tuple[FilterState, Innovation]:
        before, of_pose = Moments(now.state, now.covariance), np.eye(self._size)[-3:].copy()
        seen = innovate(before, POSE.minus(given.pose, now.state[-3:]), of_pose, given.covariance)
        step, after = joseph_update(now.covariance, of_pose, given.covariance, seen.root, seen.value)
        state = np.concatenate([now.state[:-3] + step[:-3], POSE.plus(now.state[-3:], step[-3:])])
        return now._replace(state=state, covariance=after, linearised=None), seen

    def _replaced(self, now: FilterState, given: GivenPose) -> FilterState:
        """With the pose and its covariance in the place of its own; the rest stays."""
        state, whole = now.state.copy(), now.covariance.copy()
        state[-3:] = given.pose
        whole[-3:, :] = whole[:, -3:] = 0.0
        whole[-3:, -3:] = given.covariance
        return now._replace(state=state, covariance=whole, linearised=None)

    def stated(self, now: FilterState) -> tuple[Vector, Matrix]:
        """Mean (2 N + 2,) and covariance of pose, joint angles and biases, in this order, as the filter has them."""
        return now.state[self._public], now.covariance[self._public_block]

    def published(self, filtered: FilterState) -> tuple[Vector, Matrix]:
        """The same with pose and joint angles as sure as they may be taken to be."""
        mean, covariance = self.stated(filtered)
        scales = self.inflation(filtered)
        return mean, covariance * np.outer(scales, scales)

    def inflation(self, now: FilterState) -> Vector:
        """(2 N + 2,) by how much all is less sure where it is published: as held-out runs or this robot ask for.

        Of the pose, what it has drifted since it was given.
        """
        pose, joints = np.maximum(self._model.inflation, math.sqrt(self.novelty(now))).tolist()
        scales, variances = np.ones(len(self._public)), np.diagonal(now.covariance)[-3:]
        drifted = 1.0 - np.divide(now.given, variances, out=np.ones(3), where=variances > now.given)
        scales[self._pose] = np.sqrt(1.0 + (pose**2 - 1.0) * drifted)
        scales[self._joints] = joints
        return scales


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
