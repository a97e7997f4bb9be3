"""Pose, joint angles and gyro biases of a chain with a trained residual model.

As `SalpEstimator`, with rates from `residual_filter`. Commands pass the lag that the model was trained with; between
two predictions their mean acts.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Estimate, Matrix, Measurement, Notice, Vector
from onboard_estimation.filtering.gating import Gate, Innovation
from onboard_estimation.filtering.state_space import StateSpace, angles, se2, vector
from onboard_estimation.pipeline.estimator import Step
from onboard_estimation.pipeline.sensor_trust import SensorTrust, bridged_s
from salp_estimation.estimators.chain_estimator import (
    COMMAND,
    COMMAND_LAG_S,
    STANDING_M_S,
    ChainEstimator,
    ChainState,
    GivenPose,
    Reading,
)
from salp_estimation.estimators.gaussian_sum_start import WideComponent, mixture, widened
from salp_estimation.estimators.residual_filter import LINEARISATION_S, Drive, FilterState, ResidualFilter
from salp_estimation.estimators.residual_filter_kernels import Linearised
from salp_estimation.estimators.residual_model import ResidualModel
from salp_estimation.model.configuration import SalpConfiguration

POSE_GATE = Gate(1.0 - 1e-6, 0)
"""A pose from outside that is less probable than one minus this replaces the filter's instead of correcting it."""
NOVEL_FROM, NOVEL_TO = 6.0, 4.0
"""Unlikeness of a robot to those in training from which on it is told, and below which it is over: none of twenty
robots as in training got there in a minute (`salp_surprises`)."""


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

    _filter_type: type[ResidualFilter] = ResidualFilter

    def __init__(self, configuration: SalpConfiguration, model: ResidualModel) -> None:
        super().__init__(configuration)
        self.space = residual_space(len(self._link_of))
        rate_hz = configuration.gyro.used_rate_hz
        # A little early is on time: stamps jitter.
        self._least_period_ns = round(0.75 * NANOSECONDS_PER_SECOND / rate_hz) if rate_hz > 0.0 else 0
        bias_walk = configuration.gyro.bias_walk_rad_s_sqrt_s
        self._filter = self._filter_type(configuration.chain.build().links, model, bias_walk)

    def start(self, initial: Estimate | None) -> ResidualState:
        """As told, and in doubt of the joint angles."""
        told, probability = super().start(initial), self.configuration.initial.wrong_start_probability
        mean = self.space.origin() if initial is None else initial.mean
        covariance = initial_covariance(self.configuration) if initial is None else initial.covariance
        wider = widened(self.space, covariance) if probability > 0.0 else None
        if wider is None:
            return told
        other = replace(super().start(Estimate(0, mean, wider)), stamp_ns=told.stamp_ns)
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
        level = self._filter.novelty(filtered)
        is_novel = level > (NOVEL_TO if filtered.is_novel else NOVEL_FROM)
        if is_novel == filtered.is_novel:
            return step
        state = replace(step.state, filtered=filtered._replace(is_novel=is_novel))
        return step._replace(
            state=state,
            events=(*step.events, Notice(f"at {stamp_ns / NANOSECONDS_PER_SECOND:.3f} s: {_novelty_sentence(level)}"))
            if is_novel
            else step.events,
        )

    def sensor_faults(self, state: ResidualState) -> dict[str, str]:
        """Of the commands, where they move the robot otherwise than those in training."""
        filtered = state.filtered
        return {COMMAND: _novelty_sentence(self._filter.novelty(filtered))} if filtered.is_novel else {}

    def health(self, state: ResidualState) -> dict[str, float]:
        """How many times as far the robot is from those in training as they are from each other."""
        return {"novelty": math.sqrt(self._filter.novelty(self.leading(state).filtered))}

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

    def begun(self, initial: Estimate | None) -> tuple[FilterState, LaggedCommand]:
        """Moments of the initial state and of what the model says of the population."""
        mean = self.space.origin() if initial is None else initial.mean
        covariance = initial_covariance(self.configuration) if initial is None else initial.covariance
        pose, joints, biases = map(self.space.coordinates, ("pose", "joint_angles", "gyro_bias"))
        begun = self._filter.start(mean[pose], mean[joints], mean[biases], covariance)
        none = np.zeros(len(self._link_of))
        return begun, LaggedCommand(none, none, 0, none)

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
            filtered, linearised = self._near(filtered, at_ns, wheels.asked, mean_control)
            filtered = self._filter.predict(filtered, duration_s / steps, linearised)
        return filtered, LaggedCommand(wheels.asked, wheels.lagged, 0, np.zeros(len(wheels.area)))

    def _near(
        self, filtered: FilterState, at_ns: int, asked: Vector, controls: Vector
    ) -> tuple[FilterState, Linearised]:
        """The last linearisation if it is of about that time, else a new one."""
        last = filtered.linearised
        if last is not None and abs(at_ns - last.at_ns) <= LINEARISATION_S * NANOSECONDS_PER_SECOND:
            return filtered, last
        driven = bool(np.abs(controls).max() > STANDING_M_S)
        return self._filter.linearise(filtered, at_ns, Drive(controls, (asked - controls) / COMMAND_LAG_S, driven))

    def corrected(
        self,
        filtered: FilterState,
        wheels: LaggedCommand,
        stamp_ns: int,
        reading: Reading,
        gyro: SensorTrust,
        may_recover: bool,
    ) -> tuple[FilterState, Innovation, int]:
        """By one gyro, whose noise grows with the speed of its own wheel."""
        filtered, linearised = self._near(filtered, stamp_ns, wheels.asked, wheels.lagged)
        speed, rejected = float(wheels.lagged[reading.link]), gyro.rejected_in_a_row
        return self._filter.correct_gyro(filtered, reading, speed, linearised, self._gate, rejected, may_recover)

    def placed(self, filtered: FilterState, given: GivenPose) -> tuple[FilterState, Innovation]:
        """Corrected by the pose, or with it in the place of the filter's."""
        corrected, seen = self._filter.correct_pose(filtered, given.pose, given.covariance)
        if not given.is_known or seen.nis > POSE_GATE.threshold(3):
            corrected = self._filter.replace_pose(filtered, given.pose, given.covariance)
        return corrected, seen

    def published(self, filtered: FilterState) -> tuple[Vector, Matrix]:
        """Pose, joint angles and biases."""
        return self._filter.published(filtered)


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
