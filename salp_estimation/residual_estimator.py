"""Pose, joint angles and gyro biases of a chain with a trained residual model.

As `SalpEstimator`, with rates from `residual_filter`. Commands pass the lag that the model was trained with; between
two predictions their mean acts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onboard_estimation.filtering.gating import Gate
from onboard_estimation.filtering.planar import planar_covariance, planar_pose
from onboard_estimation.filtering.state_space import StateSpace, angles, se2, vector
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Estimate, Matrix, Measurement, Vector
from onboard_estimation.pipeline import Estimator, FilterBreakdown
from onboard_estimation.simulation import SET_POSE
from salp_estimation.configuration import SalpConfiguration
from salp_estimation.estimator import COMMAND, GYRO_AXES, LONGEST_GAP_S
from salp_estimation.residual_filter import LINEARISATION_S, Drive, FilterState, Linearised, ResidualFilter
from salp_estimation.residual_model import ResidualModel
from salp_estimation.training_runs import COMMAND_LAG_S, STANDING_M_S

POSE_GATE = 1.0 - 1e-6
"""A pose from outside that is less probable than one minus this replaces the filter's instead of correcting it."""


@dataclass(frozen=True, slots=True)
class _Clock:
    """What is known of time and commands.

    Attributes
    ----------
    state_ns
        Where the filter's state belongs to; None before the first measurement.
    asked, lagged
        (N,) the command in force and its lag at `command_ns`, m/s.
    area
        (N,) integral of the lag from `state_ns` to `command_ns`, m.
    last_ns
        Of each gyro, the last sample used.
    """

    state_ns: int | None
    command_ns: int
    asked: Vector
    lagged: Vector
    area: Vector
    last_ns: tuple[int, ...]


class ResidualEstimator(Estimator):
    """Pose and shape of the chain, with what was learned of it.

    Measurements are those of `SalpEstimator`; a pose from outside corrects the filter's where it fits it, and replaces
    it where it does not.

    Parameters
    ----------
    model
        Trained for this configuration.
    initial
        State at the start, in the space of `space`; measurements before its stamp are left out. None: at the origin,
        straight, with the configured standard deviations, at the first measurement.
    """

    def __init__(self, configuration: SalpConfiguration, model: ResidualModel, initial: Estimate | None = None) -> None:
        super().__init__()
        chain = configuration.chain
        self.space = residual_space(len(chain.link_names))
        self._initial = initial
        self._link_of = {f"imu/{name}": link for link, name in enumerate(chain.link_names)}
        self._rim_speed = chain.wheel_radius_m * np.array(chain.wheel_signs)
        self._disabled: set[str] = set()
        self._no_area = np.zeros(len(chain.link_names))
        self._filter = ResidualFilter(chain.build().links, model, configuration.gyro.bias_walk_rad_s_sqrt_s)
        self._gates: list[Gate] = []
        self._clock: _Clock
        self._tune(configuration)
        self.reset()
        if initial is not None:
            self._clock = replace(self._clock, state_ns=initial.stamp_ns, command_ns=initial.stamp_ns)

    def _tune(self, configuration: SalpConfiguration) -> None:
        self.configuration = configuration
        self._gyro_axis, self._gyro_sign = GYRO_AXES[configuration.gyro.axis]
        rate_hz = configuration.gyro.used_rate_hz
        # A little early is on time: stamps jitter.
        self._least_period_ns = round(0.75 * NANOSECONDS_PER_SECOND / rate_hz) if rate_hz > 0.0 else 0
        rejected = [gate.snapshot() for gate in self._gates] or [0] * len(self._link_of)
        self._gates = [Gate(configuration.gate_probability, configuration.recover_after) for _ in rejected]
        for gate, count in zip(self._gates, rejected, strict=True):
            gate.restore(count)
        self._pose_gate = Gate(POSE_GATE, 0)
        self._filter.bias_walk = configuration.gyro.bias_walk_rad_s_sqrt_s

    def reconfigure(self, configuration: SalpConfiguration) -> None:
        """Go on with other gates, rates and densities; noise of gyros and process are the model's."""
        self._tune(configuration)

    def reset(self) -> None:
        """Return to the initial state; the next measurement starts the clock."""
        start, count = self._initial, len(self._link_of)
        mean = self.space.origin() if start is None else start.mean
        covariance = initial_covariance(self.configuration) if start is None else start.covariance
        joints, biases = self.space.coordinates("joint_angles"), self.space.coordinates("gyro_bias")
        self._filter.start(mean[self.space.coordinates("pose")], mean[joints], mean[biases], covariance)
        zero = np.zeros(count)
        self._clock = _Clock(None, 0, zero, zero, zero, (0,) * count)
        for gate in self._gates:
            gate.restore(0)

    def snapshot(self) -> Any:
        """State of the filter, its clock and the gates."""
        return self._filter.now, self._clock, tuple(gate.snapshot() for gate in self._gates)

    def restore(self, snapshot: tuple[FilterState, _Clock, tuple[Any, ...]]) -> None:
        """Return to a snapshot."""
        self._filter.now, self._clock, gates = snapshot
        for gate, rejected in zip(self._gates, gates, strict=True):
            gate.restore(rejected)

    def set_enabled(self, sensor: str, enabled: bool) -> None:
        """Use a gyro or leave it out from now on."""
        if sensor not in self._link_of:
            raise ValueError(f"no sensor {sensor!r}; there are {', '.join(self._link_of)}")
        (self._disabled.discard if enabled else self._disabled.add)(sensor)

    def apply(self, measurement: Measurement) -> Estimate | None:
        """Take a command, or predict to the measurement's stamp and correct."""
        stamp_ns, clock = measurement.stamp_ns, self._clock
        early = clock.state_ns is not None and stamp_ns < clock.state_ns
        if clock.state_ns is None:
            self._clock = clock = replace(clock, state_ns=stamp_ns, command_ns=stamp_ns)
        if measurement.sensor == COMMAND:
            if not early:
                self._advance_command(stamp_ns)
            clock, asked = self._clock, self._rim_speed * measurement.value
            self._clock = _Clock(clock.state_ns, clock.command_ns, asked, clock.lagged, clock.area, clock.last_ns)
            return None
        if early or measurement.sensor in self._disabled or self._too_soon(measurement):
            self.left_out = True
            return None
        self._predict_to(stamp_ns)
        if measurement.sensor == SET_POSE:
            self._take_pose(measurement.value)
        else:
            self._take_gyro(measurement)
        mean, covariance = self._filter.published()
        return Estimate(stamp_ns, mean, covariance)

    def _too_soon(self, measurement: Measurement) -> bool:
        link = self._link_of.get(measurement.sensor)
        return link is not None and measurement.stamp_ns - self._clock.last_ns[link] < self._least_period_ns

    def _advance_command(self, stamp_ns: int) -> None:
        """Lag and its integral up to a stamp under the command in force."""
        clock = self._clock
        duration_s = (stamp_ns - clock.command_ns) / NANOSECONDS_PER_SECOND
        if duration_s <= 0.0:
            return
        keep = math.exp(-duration_s / COMMAND_LAG_S)
        missing = clock.lagged - clock.asked
        area = clock.area + duration_s * clock.asked + COMMAND_LAG_S * (1.0 - keep) * missing
        self._clock = _Clock(clock.state_ns, stamp_ns, clock.asked, clock.asked + keep * missing, area, clock.last_ns)

    def _drive(self, controls: Vector) -> Drive:
        slopes = (self._clock.asked - controls) / COMMAND_LAG_S
        return Drive(controls, slopes, bool(np.abs(controls).max() > STANDING_M_S))

    def _predict_to(self, stamp_ns: int) -> None:
        start_ns = self._clock.state_ns
        assert start_ns is not None
        if stamp_ns <= start_ns:
            return
        if stamp_ns - start_ns > LONGEST_GAP_S * NANOSECONDS_PER_SECOND:
            gap_s = (stamp_ns - start_ns) / NANOSECONDS_PER_SECOND
            raise FilterBreakdown(
                f"{gap_s:.0f} s without a measurement, more than {LONGEST_GAP_S:.0f} s are not bridged"
            )
        self._advance_command(stamp_ns)
        duration_s = (stamp_ns - start_ns) / NANOSECONDS_PER_SECOND
        mean_control = self._clock.area / duration_s
        steps = max(1, math.ceil(duration_s / self.configuration.process.longest_step_s - 1e-9))
        for step in range(steps):
            at_ns = start_ns + round((step + 0.5) / steps * (stamp_ns - start_ns))
            self._filter.predict(duration_s / steps, self._near(at_ns, mean_control))
        clock = self._clock
        self._clock = _Clock(stamp_ns, clock.command_ns, clock.asked, clock.lagged, self._no_area, clock.last_ns)

    def _near(self, at_ns: int, controls: Vector) -> Linearised:
        """The last linearisation if it is of about that time, else a new one."""
        last = self._filter.now.linearised
        if last is not None and abs(at_ns - last.at_ns) <= LINEARISATION_S * NANOSECONDS_PER_SECOND:
            return last
        return self._filter.linearise(at_ns, self._drive(controls))

    def _take_gyro(self, measurement: Measurement) -> None:
        clock, link = self._clock, self._link_of[measurement.sensor]
        linearised = self._near(measurement.stamp_ns, clock.lagged)
        period_s = (measurement.stamp_ns - clock.last_ns[link]) / NANOSECONDS_PER_SECOND
        rate = self._gyro_sign * float(measurement.value[self._gyro_axis])
        speed = float(clock.lagged[link])
        self.last_innovation = self._filter.correct_gyro(link, rate, linearised, speed, period_s, self._gates[link])
        last_ns = (*clock.last_ns[:link], measurement.stamp_ns, *clock.last_ns[link + 1 :])
        self._clock = _Clock(clock.state_ns, clock.command_ns, clock.asked, clock.lagged, clock.area, last_ns)

    def _take_pose(self, value: Vector) -> None:
        pose = planar_pose(value[None, :7])[0]
        given = planar_covariance(value[7:], float(pose[2]))
        known = bool((np.diag(given) > 0.0).all())
        if not known:
            tangent = self.space.tangent("pose")
            given = initial_covariance(self.configuration)[tangent, tangent]
        before = self._filter.now
        seen = self._filter.correct_pose(pose, given)
        self.last_innovation = seen
        if not known or seen.nis > self._pose_gate.threshold(3):
            self._filter.now = before
            self._filter.replace_pose(pose, given)


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
