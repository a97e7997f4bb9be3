"""Unscented Kalman filter of the chain's pose and joint angles from one gyro per link (paper, section IV).

State: pose of the base frame and joint angles, dimension N + 2; the pose's error is a body-frame twist. The process
model integrates q' = B(r) u, eq. (5), under the last command; the measurement model of link i is its turning rate under
that command, eq. (6). Each gyro is a scalar measurement of its own, filtered at its own stamp.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onboard_estimation.filtering.gating import Gate
from onboard_estimation.filtering.planar import planar_covariance, planar_pose
from onboard_estimation.filtering.unscented import UnscentedFilter
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Estimate, Matrix, Measurement, Vector
from onboard_estimation.pipeline import Estimator, FilterBreakdown
from onboard_estimation.simulation import SET_POSE
from salp_estimation import chain_kernels as kernels
from salp_estimation.configuration import SalpConfiguration

COMMAND = "actuators/command"
# The buffer resets the filter after longer gaps; this one stands between the initial state and the first measurement.
LONGEST_GAP_S = 100.0
# A gyro is well whose readings pass the gate in this share, averaged over about so many.
TRUST_READINGS = 20
WELL = 0.8
GYRO_AXES = {"x": (0, 1.0), "y": (1, 1.0), "z": (2, 1.0), "-x": (0, -1.0), "-y": (1, -1.0), "-z": (2, -1.0)}


class SalpEstimator(Estimator):
    """Pose and shape of the chain.

    Measurements
    ------------
    actuators/command
        (N,) wheel speeds, rad/s, acting until the next command. Before the first one the robot is taken to stand.
    imu/<link>
        (6,) gyro and accelerometer; the gyro's axis `gyro.axis` is used.
    set_pose
        (43,) pose of the base and its covariance along the fixed axes: replaces the filter's, whose joint angles stay.
        Where x, y or heading has no variance, the initial one is taken.

    Parameters
    ----------
    initial
        State at the start; measurements before its stamp are left out (a command among them is remembered). None: at
        the origin, straight, with the configured standard deviations, at the first measurement.
    """

    def __init__(self, configuration: SalpConfiguration, initial: Estimate | None = None) -> None:
        super().__init__()
        chain = configuration.chain
        self.model = chain.build()
        self.space = self.model.space()
        self._initial = initial
        self._links = self.model.links
        self._link_of = {f"imu/{name}": link for link, name in enumerate(chain.link_names)}
        self._rim_speed = chain.wheel_radius_m * np.array(chain.wheel_signs)
        self._disabled: set[str] = set()
        self._gates: list[Gate] = []
        self._tune(configuration)
        self.reset()
        self._stamp_ns: int | None = None if initial is None else initial.stamp_ns

    def _tune(self, configuration: SalpConfiguration) -> None:
        """Take the parameters that may change while the filter runs."""
        self.configuration = configuration
        self._gyro_axis, self._gyro_sign = GYRO_AXES[configuration.gyro.axis]
        self._gyro_root = np.array([[configuration.gyro.noise_stddev_rad_s]])
        rejected = [gate.snapshot() for gate in self._gates] or [0] * self.model.link_count
        self._gates = [Gate(configuration.gate_probability, configuration.recover_after) for _ in rejected]
        for gate, count in zip(self._gates, rejected, strict=True):
            gate.restore(count)
        process = configuration.process
        self._wheel_noise = process.wheel_speed_noise_m_s_sqrt_hz
        self._other_noise = np.diag(
            [process.body_speed_noise_m_s_sqrt_hz] * 2
            + [process.body_rate_noise_rad_s_sqrt_hz]
            + [process.joint_rate_noise_rad_s_sqrt_hz] * (self.model.link_count - 1)
        )

    def reconfigure(self, configuration: SalpConfiguration) -> None:
        """Go on with other noise densities and gates."""
        self._tune(configuration)

    def reset(self) -> None:
        """Return to the initial state; the next measurement starts the clock, which may be another one now."""
        start = self._initial
        mean = self.space.origin() if start is None else start.mean
        covariance = self.configuration.initial_covariance() if start is None else start.covariance
        self._filter = UnscentedFilter(self.space, mean, covariance)
        self._stamp_ns = None
        self._controls: Vector = np.zeros(self.model.link_count)
        self._trust = (0.0,) * self.model.link_count
        for gate in self._gates:
            gate.restore(0)

    def snapshot(self) -> Any:
        """State of the filter, its clock, the command in force, the gates and what is thought of the gyros."""
        gates = tuple(gate.snapshot() for gate in self._gates)
        return self._filter.snapshot(), self._stamp_ns, self._controls, gates, self._trust

    def restore(self, snapshot: Any) -> None:
        """Return to a snapshot."""
        state, self._stamp_ns, self._controls, gates, self._trust = snapshot
        self._filter.restore(state)
        for gate, rejected in zip(self._gates, gates, strict=True):
            gate.restore(rejected)

    def set_enabled(self, sensor: str, enabled: bool) -> None:
        """Use a gyro or leave it out from now on."""
        if sensor not in self._link_of:
            raise ValueError(f"no sensor {sensor!r}; there are {', '.join(self._link_of)}")
        (self._disabled.discard if enabled else self._disabled.add)(sensor)

    def apply(self, measurement: Measurement) -> Estimate | None:
        """Predict to the measurement's stamp, then take the command or correct by the gyro."""
        early = self._stamp_ns is not None and measurement.stamp_ns < self._stamp_ns
        if not early:
            self._predict_to(measurement.stamp_ns)
        if measurement.sensor == COMMAND:
            self._controls = self._rim_speed * measurement.value
            return None
        if early or measurement.sensor in self._disabled:
            self.left_out = True
            return None
        if measurement.sensor == SET_POSE:
            self._set_pose(measurement.value)
        else:
            self._correct(measurement)
        return Estimate(measurement.stamp_ns, self._filter.mean, self._filter.covariance)

    def _predict_to(self, stamp_ns: int) -> None:
        if self._stamp_ns is None:
            self._stamp_ns = stamp_ns
        duration_s = (stamp_ns - self._stamp_ns) / NANOSECONDS_PER_SECOND
        self._stamp_ns = stamp_ns
        if duration_s <= 0.0:
            return
        if duration_s > LONGEST_GAP_S:
            raise FilterBreakdown(
                f"{duration_s:.0f} s without a measurement, more than {LONGEST_GAP_S:.0f} s are not bridged"
            )
        links, controls = self._links, self._controls
        longest = self.configuration.process.longest_step_s
        steps = max(1, int(np.ceil(duration_s / longest - 1e-9)))
        step_s = duration_s / steps

        def propagate(points: Matrix) -> Matrix:
            return kernels.propagate(links, points, controls, step_s, longest)

        for _ in range(steps):
            noise_root = self._process_noise_root(step_s)
            self._filter.predict(propagate, noise_root)

    def _process_noise_root(self, duration_s: float) -> Matrix:
        """(N + 2, 2N + 2) factor: noise of the wheels through B(r), and what else the model may miss."""
        joint_angles = np.ascontiguousarray(self._filter.mean[3:])
        through_wheels = self._wheel_noise * kernels.control_matrix(self._links, joint_angles)
        root: Matrix = np.sqrt(duration_s) * np.hstack([through_wheels, self._other_noise])
        return root

    def _set_pose(self, value: Vector) -> None:
        mean, covariance = self._filter.mean.copy(), self._filter.covariance.copy()
        pose, tangent = self.space.coordinates("pose"), self.space.tangent("pose")
        mean[pose] = planar_pose(value[None, :7])[0]
        given = planar_covariance(value[7:], float(mean[pose][2]))
        if not (np.diag(given) > 0.0).all():
            given = self.configuration.initial_covariance()[tangent, tangent]
        covariance[tangent, :] = 0.0
        covariance[:, tangent] = 0.0
        covariance[tangent, tangent] = given
        self._filter.set_state(mean, covariance)

    def _correct(self, measurement: Measurement) -> None:
        link = self._link_of[measurement.sensor]
        links, controls = self._links, self._controls

        def measure(points: Matrix) -> Matrix:
            return kernels.gyro_rate(links, points, controls, link)

        rate = np.array([self._gyro_sign * measurement.value[self._gyro_axis]])
        gate = self._gates[link]
        gate.may_recover = not self._others_are_well(link)
        self.last_innovation = self._filter.update(measure, rate, self._gyro_root, gate)
        trust = self._trust[link] + (self.last_innovation.accepted - self._trust[link]) / TRUST_READINGS
        self._trust = (*self._trust[:link], trust, *self._trust[link + 1 :])
        if not gate.may_recover and gate.rejected_in_a_row == gate.recover_after > 0:
            self.notice = (
                f"{gate.recover_after} readings in a row of {measurement.sensor}, at "
                f"{measurement.stamp_ns / NANOSECONDS_PER_SECOND:.3f} s, contradict the state that the other gyros "
                "confirm: refused until they fit it"
            )

    def _others_are_well(self, link: int) -> bool:
        """Whether the other gyros in use confirm the state, which all of them measure."""
        others = {other for sensor, other in self._link_of.items() if sensor not in self._disabled} - {link}
        return bool(others) and all(self._trust[other] > WELL for other in others)
