"""Unscented filter of a pendulum's joint angles and rates, and of what is unknown of its links.

State: joint angles (rad), joint rates (rad/s), and the logarithms of the masses, distances to the centres of mass,
inertias and frictions that are not held, so that all stay positive. Measured are the joint angles; torques of motors
act from their stamps on. Each joint's rate, and each unknown, makes a random walk.

A recording may have many pieces. After a gap nothing is known of the motion, and still all that was learned of the
links: the angles start at what is measured, the rates anywhere, the unknowns go on. So they do where the angles
contradict the filter for long: it is rather the motion that was disturbed than the links that changed.
"""

from __future__ import annotations

import math
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import (
    NANOSECONDS_PER_SECOND,
    Channel,
    Estimate,
    Matrix,
    Measurement,
    Notice,
    Vector,
)
from onboard_estimation.filtering.gating import Gate
from onboard_estimation.filtering.state_space import StateSpace, angles, vector
from onboard_estimation.filtering.unscented import SigmaPoints, Unscented
from onboard_estimation.pipeline.estimator import Estimator, Step
from recorded_robots.pendulum import dynamics
from recorded_robots.pendulum.configuration import QUANTITIES, Pendulum

ANGLES, TORQUES = "joints/angles", "joints/torques"
_JOINTS = "sensor_msgs/msg/JointState"


def angle_channel(names: tuple[str, ...]) -> Channel:
    """Measured angles (rad), each against the link before; all zero: hanging straight down."""
    return Channel(ANGLES, _JOINTS, ANGLES, "position", names)


def torque_channel(names: tuple[str, ...]) -> Channel:
    """Torques of the motors (N m) on the links behind their joints; there may be none."""
    return Channel(TORQUES, _JOINTS, TORQUES, "effort", names, required=False, command=True)


class PendulumState(NamedTuple):
    """All that measurements change.

    Attributes
    ----------
    points
        Sigma points; None before the first measured angles.
    stamp_ns, angles_ns
        What they belong to, and when angles were measured last.
    torque
        (N,) that acts from then on, N m.
    rejected_in_a_row
        Refused angles.
    """

    points: SigmaPoints | None
    stamp_ns: int
    angles_ns: int
    torque: Vector
    rejected_in_a_row: int = 0


class PendulumEstimator(Estimator[PendulumState]):
    """Joint angles in, estimates of motion and links out."""

    def __init__(self, configuration: Pendulum) -> None:
        self.configuration, names, noise = configuration, configuration.links.joint_names, configuration.noise
        deviations = configuration.deviations()
        self.given, self.free = configuration.parameters(), np.argwhere(deviations > 0.0)
        self.setting = dynamics.Setting(
            np.array(configuration.links.lengths_m), configuration.gravity_m_s2, configuration.smooth_rate_rad_s
        )
        free = {name: tuple(compress(names, row > 0.0)) for name, row in zip(QUANTITIES, deviations, strict=True)}
        unknown = [vector(f"log_{quantity}", joints, "") for quantity, joints in free.items() if joints]
        joint_angles = angles("joint_angles", names)
        self.space = StateSpace(joint_angles, vector("joint_rates", names, "rad/s"), *unknown)
        self._count, self._measured = len(names), StateSpace(joint_angles)
        self._unscented, self._gate = Unscented(self.space), Gate(configuration.gate_probability, 0)
        self._angle_root = np.diag(noise.angle_stddev_rad)
        walk = [*noise.rate_walk_rad_s_sqrt_s, *(noise.parameter_walk_sqrt_s,) * len(self.free)]
        self._walk_root = np.vstack([np.zeros((self._count, len(walk))), np.diag(walk)])
        rows, columns = self.free.T
        self._prior = np.log(self.given[rows, columns]), np.diag(deviations[rows, columns] ** 2)

    def parameters(self, logarithms: NDArray[Any]) -> NDArray[Any]:
        """(6, N) parameters with the unknowns of those logarithms (F,), real or complex."""
        parameters = self.given.astype(logarithms.dtype)
        parameters[self.free[:, 0], self.free[:, 1]] = np.exp(logarithms)
        return parameters

    def start(self, initial: Estimate | None) -> PendulumState:
        """From the first measured angles on; or from what is given."""
        torque = np.zeros(self._count)
        if initial is None:
            return PendulumState(None, 0, 0, torque)
        points = self._unscented.start(initial.mean, initial.covariance)
        return PendulumState(points, initial.stamp_ns, initial.stamp_ns, torque)

    def step(self, state: PendulumState, measurement: Measurement) -> Step:
        """Take torques (N,) or angles (N,)."""
        silent_s = (measurement.stamp_ns - state.angles_ns) / NANOSECONDS_PER_SECOND
        if silent_s <= self.configuration.longest_gap_s:
            state = self._moved(state, measurement.stamp_ns)
        if measurement.sensor == TORQUES:
            return Step(state._replace(torque=measurement.value))
        if state.points is None:
            return self._begun(state, measurement, "")
        if silent_s > self.configuration.longest_gap_s:
            return self._begun(state, measurement, f"no angles for {silent_s:.2f} s")
        rejected = state.rejected_in_a_row
        points, seen, rejected = self._unscented.update(
            state.points, self._angles, measurement.value, self._angle_root, self._gate, rejected, space=self._measured
        )
        if rejected >= self.configuration.start_anew_after:
            return self._begun(state, measurement, f"{rejected} angles in a row contradict the motion")
        state = PendulumState(points, measurement.stamp_ns, measurement.stamp_ns, state.torque, rejected)
        return Step(state, self._estimate(state.stamp_ns, points), seen)

    def _moved(self, state: PendulumState, stamp_ns: int) -> PendulumState:
        if state.points is None or stamp_ns == state.stamp_ns:
            return state
        elapsed_s = (stamp_ns - state.stamp_ns) / NANOSECONDS_PER_SECOND
        return state._replace(points=self.predicted(state.points, state.torque, elapsed_s), stamp_ns=stamp_ns)

    def _begun(self, state: PendulumState, measurement: Measurement, reason: str) -> Step:
        """At the measured angles, with what is known of the links and nothing of the motion."""
        motion, stamp_ns = 2 * self._count, measurement.stamp_ns
        covariance = np.zeros((self.space.dimension, self.space.dimension))
        covariance[: self._count, : self._count] = self._angle_root**2
        rates = np.arange(self._count, motion)
        covariance[rates, rates] = self.configuration.initial_rate_stddev_rad_s**2
        unknown, covariance[motion:, motion:] = self._prior
        if state.points is not None:
            unknown = state.points.mean[motion:]
            covariance[motion:, motion:] = self._unscented.covariance(state.points)[motion:, motion:]
        mean = np.concatenate([measurement.value, np.zeros(self._count), unknown])
        points = self._unscented.start(mean, covariance)
        sentence = f"{reason}, at {stamp_ns / NANOSECONDS_PER_SECOND:.3f} s: the motion starts anew, the links go on"
        events = (Notice(sentence),) if reason else ()
        begun = PendulumState(points, stamp_ns, stamp_ns, state.torque)
        return Step(begun, self._estimate(stamp_ns, points), events=events)

    def _estimate(self, stamp_ns: int, points: SigmaPoints) -> Estimate:
        return Estimate(stamp_ns, points.mean, self._unscented.covariance(points))

    def _angles(self, points: Matrix) -> Matrix:
        return np.ascontiguousarray(points[:, : self._count])

    def predicted(self, points: SigmaPoints, torque: Vector, duration_s: float) -> SigmaPoints:
        """Moved under constant torques, in steps of `longest_step_s` at most."""
        steps = math.ceil(duration_s / self.configuration.longest_step_s - 1e-9)
        step_s = duration_s / max(steps, 1)

        def propagate(before: Matrix) -> Matrix:
            return dynamics.propagate(before, self.given, self.free, torque, self.setting, step_s)

        for _ in range(steps):
            points = self._unscented.predict(points, propagate, math.sqrt(step_s) * self._walk_root)
        return points
