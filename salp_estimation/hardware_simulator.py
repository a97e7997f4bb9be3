"""Simulated LandSalp of the scenario `hardware`: its residuals are neither zero-mean, nor white, nor Gaussian.

Every seed is another robot on another day: friction and drag of each wheel, stiffness and rest angles of the harness,
delays, thrust and mounting angles of the wheels, biases, scale factors and mountings of the gyros, mounting of the
markers and latency of the motion capture are drawn anew. Unevenness of the floor, vibration, noise, jitter and losses
are drawn along the run. Magnitudes: `hardware_scenario`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Vector
from onboard_estimation.series import Recording
from onboard_estimation.simulation import STANDARD_GRAVITY_M_S2, stamps_between
from salp_estimation import chain_kernels
from salp_estimation.chain import poses_behind
from salp_estimation.configuration import ChainConfiguration
from salp_estimation.foreign_effects import ForeignEffects, ForeignScenario
from salp_estimation.hardware_kernels import Mechanics, drive
from salp_estimation.hardware_scenario import HardwareScenario, hardware_scenario
from salp_estimation.simulator import recorded

Rows = NDArray[np.float64]
Stamps = NDArray[np.int64]

_STEP_NS = 2_500_000
_FOREIGN_STEPS = 4  # friction and slope are held so long: 10 ms, about the memory of friction itself
_LONGEST_SPREAD = 2.5  # draws are cut off at so many standard deviations: no wheel with negative friction


class HardwareRobot:
    """What is drawn once a seed: the robot of that day.

    Attributes
    ----------
    mechanics
        What resists and moves it.
    delay_s, latency_s
        (N,) of the wheels, and of the motion capture.
    gyro_bias, gyro_scale, gyro_tilt
        (N, 3) rad/s, (N,), and (N, 2) rad.
    marker_heading
        (N,) rad.
    """

    def __init__(self, configuration: ChainConfiguration, scenario: HardwareScenario, rng: np.random.Generator) -> None:
        def spread(stddev: float, *shape: int) -> Rows:
            return stddev * np.clip(rng.normal(size=shape), -_LONGEST_SPREAD, _LONGEST_SPREAD)

        n = len(configuration.link_names)
        floor, harness, actuator = scenario.floor, scenario.harness, scenario.actuator
        angles = np.array(configuration.wheel_angles_deg) + spread(actuator.wheel_angle_stddev_deg, n)
        links = replace(configuration, wheel_angles_deg=tuple(angles.tolist())).build().links
        nominal = links[:, chain_kernels.DRAG : chain_kernels.DRAG + 9].reshape(n, 3, 3)
        share = np.sqrt(1.0 + spread(floor.drag_spread, n, 3))
        drag = np.ascontiguousarray(nominal * share[:, :, None] * share[:, None, :])
        friction = np.array([floor.friction_along_n, floor.friction_across_n, floor.friction_turning_n_m])
        friction = friction * (1.0 + spread(floor.friction_spread, n, 3))
        thrust = nominal[:, 0, 0] * (1.0 + spread(actuator.gain_spread, n))
        self.delay_s = np.maximum(actuator.delay_s + spread(actuator.delay_spread_s, n), 0.0)
        self.mechanics = Mechanics(
            links,
            drag,
            friction,
            slip=np.array([floor.slip_speed_m_s, floor.slip_speed_m_s, floor.slip_rate_rad_s]),
            joint_slip=harness.slip_rate_rad_s,
            thrust=thrust,
            joint_friction=np.full(n - 1, harness.joint_friction_n_m),
            stiffness=harness.stiffness_n_m_rad * (1.0 + spread(harness.stiffness_spread, n - 1)),
            rest_angles=np.deg2rad(spread(harness.rest_angle_stddev_deg, n - 1)),
        )
        self.gyro_bias = spread(scenario.gyro.bias_stddev_rad_s, n, 3)
        self.gyro_scale = 1.0 + spread(scenario.gyro.scale_stddev, n)
        self.gyro_tilt = np.deg2rad(spread(scenario.gyro.tilt_stddev_deg, n, 2))
        self.marker_heading = np.deg2rad(spread(scenario.capture.mounting_stddev_deg, n))
        self.latency_s = max(scenario.capture.latency_s + float(spread(scenario.capture.latency_spread_s)), 0.0)


class HardwareSimulation:
    """A LandSalp on a real floor, from rest at the origin at stamp zero; its chain starts without torque.

    Parameters
    ----------
    controls
        Commanded rim speeds (K, N), m/s, at times (K,), s, after the rest: a gait's `controls`.
    rng
        Source of all draws: the same generator gives the same recording, if it is advanced in the same steps.
    foreign
        Effects that no estimator has a term for.
    """

    def __init__(
        self,
        configuration: ChainConfiguration,
        controls: Callable[[Vector], Rows],
        rng: np.random.Generator,
        scenario: HardwareScenario | None = None,
        foreign: ForeignScenario | None = None,
    ) -> None:
        self.scenario = scenario or hardware_scenario()
        self._configuration = configuration
        self._controls = controls
        self._rng = rng
        self.robot = HardwareRobot(configuration, self.scenario, rng)
        self._nominal = configuration.build()
        n = self._nominal.link_count
        self._at_ns = 0
        rest_angles = self.robot.mechanics.rest_angles
        self._state = np.concatenate([np.zeros(3), rest_angles])
        self._rates = np.zeros(n + 2)
        self._speeds = np.zeros(n)
        self._uneven = rng.normal(size=(n, 3))  # in its standard deviations
        self._walk = np.zeros((n, 3))
        self._roller_phase = rng.uniform(0.0, 2.0 * np.pi, n)
        self._past: tuple[Stamps, Rows] | None = None
        self.foreign: ForeignEffects | None = None
        if foreign is not None:
            rollers, radius_m = self.scenario.gyro.rollers, configuration.wheel_radius_m
            (apart,) = rng.spawn(1)  # all else stays as it is in `hardware`
            self.foreign = ForeignEffects(foreign, rest_angles, radius_m, rollers, apart)
        self._rolled_m = np.zeros(n)

    def advance(self, stop_ns: int) -> Recording:
        """What is recorded from where it stands up to `stop_ns`, which is left out."""
        start_ns = self._at_ns
        self._at_ns = max(start_ns, stop_ns)
        scenario = self.scenario
        command_ns = stamps_between(start_ns, stop_ns, scenario.actuator.command_rate_hz)
        commands = self._commanded(command_ns / NANOSECONDS_PER_SECOND)
        grid_ns, states, rates, speeds = self._drive(start_ns, stop_ns)
        gyro_ns, imu = self._imus(start_ns, stop_ns, grid_ns, rates, speeds)
        truth_ns, poses = self._capture(start_ns, stop_ns, grid_ns, states)
        return recorded(self._configuration, (command_ns, commands), gyro_ns, imu, (truth_ns, poses))

    def _commanded(self, time_s: Vector) -> Rows:
        """Rim speeds asked for at each time: none while the robot rests."""
        after_s = np.atleast_1d(time_s) - self.scenario.rest_s
        return np.where(after_s[:, None] >= 0.0, self._controls(np.maximum(after_s, 0.0)), 0.0)

    def _drive(self, start_ns: int, stop_ns: int) -> tuple[Stamps, Rows, Rows, Rows]:
        """Stamps (K,) from start to stop, states of link 1 and joints, rates, actual rim speeds there."""
        scenario, mechanics, rng = self.scenario, self.robot.mechanics, self._rng
        count = max(1, int(np.ceil((stop_ns - start_ns) / _STEP_NS)))
        grid_ns = np.round(np.linspace(start_ns, stop_ns, count + 1)).astype(np.int64)
        step_s = (stop_ns - start_ns) / count / NANOSECONDS_PER_SECOND
        speeds = self._actual_speeds(grid_ns / NANOSECONDS_PER_SECOND, step_s)
        self._speeds = speeds[-1].copy()
        if self.foreign is not None:
            speeds = self.foreign.speeds(grid_ns / NANOSECONDS_PER_SECOND, speeds)
        keep = np.exp(-step_s / scenario.floor.unevenness_time_s)
        drawn = np.sqrt(1.0 - keep**2) * rng.normal(size=(count, *self._uneven.shape))
        uneven = np.empty((count + 1, *self._uneven.shape))
        uneven[0] = self._uneven
        for k in range(count):
            uneven[k + 1] = keep * uneven[k] + drawn[k]
        self._uneven = uneven[-1]
        floor = scenario.floor
        # A robot that stands still stays where the floor holds it: unevenness is met by moving over it.
        moving = np.minimum(np.abs(speeds).max(axis=1) / (10.0 * floor.slip_speed_m_s), 1.0)
        size = np.array([floor.unevenness_n, floor.unevenness_n, floor.unevenness_n_m])
        wrenches = uneven * size * moving[:, None, None]
        if self.foreign is None:
            states, rates = self._moved(mechanics, speeds, wrenches, step_s)
        else:
            states, rates = self._moved_foreign(self.foreign, grid_ns, speeds, wrenches, step_s)
        return grid_ns, states, rates, speeds

    def _moved(self, mechanics: Mechanics, speeds: Rows, wrenches: Rows, step_s: float) -> tuple[Rows, Rows]:
        """States and rates (K, N + 2) from where the robot is, with wheels' speeds (K, N) and wrenches (K, N, 3)."""
        states, rates = drive(mechanics, self._state, self._rates, speeds, wrenches, step_s)
        self._state, self._rates = states[-1].copy(), rates[-1].copy()
        return states, rates

    def _moved_foreign(
        self, foreign: ForeignEffects, grid_ns: Stamps, speeds: Rows, wrenches: Rows, step_s: float
    ) -> tuple[Rows, Rows]:
        """The same in short pieces, each with the friction, slope and harness of its start."""
        nominal = self.robot.mechanics
        links, unturned = nominal.links, np.zeros(len(nominal.links))
        states, rates = np.empty((2, len(speeds), len(self._state)))
        for first in range(0, len(speeds) - 1, _FOREIGN_STEPS):
            rows = slice(first, min(first + _FOREIGN_STEPS, len(speeds) - 1) + 1)
            jacobians, _ = chain_kernels.wheel_jacobians(links, self._state[3:].copy(), unturned)
            twists = jacobians @ self._rates
            headings = self._state[2] + np.concatenate([[0.0], np.cumsum(self._state[3:])])
            friction = foreign.friction(nominal.friction, twists, self._rolled_m, 1e-9 * float(grid_ns[first]))
            downhill = foreign.downhill(headings + links[:, chain_kernels.WHEEL_ANGLE])
            length_s = (rows.stop - 1 - first) * step_s
            rest_angles = foreign.rest_angles(self._state[3:], length_s)
            now = nominal._replace(friction=friction, rest_angles=rest_angles)
            states[rows], rates[rows] = self._moved(now, speeds[rows], wrenches[rows] + downhill, step_s)
            self._rolled_m += speeds[first] * length_s
        return states, rates

    def _actual_speeds(self, time_s: Vector, step_s: float) -> Rows:
        """(K, N): commands, held between their stamps, delayed and lagged."""
        actuator = self.scenario.actuator
        out = np.empty((len(time_s), len(self._speeds)))
        keep = np.exp(-step_s / actuator.lag_s)
        for i, delay_s in enumerate(self.robot.delay_s):
            held_s = np.floor((time_s - delay_s) * actuator.command_rate_hz) / actuator.command_rate_hz
            asked = self._commanded(held_s)[:, i]
            speed = self._speeds[i]
            out[0, i] = speed
            for k in range(1, len(time_s)):
                speed = asked[k - 1] + keep * (speed - asked[k - 1])
                out[k, i] = speed
        return out

    def _imus(
        self, start_ns: int, stop_ns: int, grid_ns: Stamps, rates: Rows, speeds: Rows
    ) -> tuple[list[Stamps], list[Rows]]:
        """Per link, stamps and values (gyro, accelerometer) of what is not lost."""
        gyro, robot, rng = self.scenario.gyro, self.robot, self._rng
        n = len(speeds[0])
        step_s = (grid_ns[1] - grid_ns[0]) / NANOSECONDS_PER_SECOND
        # Roller impacts: phase runs with the wheel's turning, amplitude with its speed.
        turned = np.cumsum(speeds * step_s, axis=0) / self._configuration.wheel_radius_m
        phase = self._roller_phase + gyro.rollers * turned
        self._roller_phase = phase[-1] % (2.0 * np.pi)
        shaken = gyro.vibration_rad_s * np.abs(speeds) / 0.1 * (np.sin(phase) + 0.5 * np.sin(2.0 * phase + 1.0))
        mixing = np.full((n, n), gyro.vibration_of_others) + (1.0 - gyro.vibration_of_others) * np.eye(n)
        turning = rates[:, 2:].cumsum(axis=1)
        if self.foreign is not None:
            turning = turning + self.foreign.gyro_rates(grid_ns / NANOSECONDS_PER_SECOND, turning)
        turning = turning + shaken @ mixing.T
        all_stamps, all_values = [], []
        for i in range(n):
            nominal_ns = stamps_between(start_ns, stop_ns, gyro.rate_hz)
            jitter = np.clip(rng.normal(size=len(nominal_ns)), -3.0, 3.0) * gyro.jitter_stddev_s
            stamps = np.clip(nominal_ns + np.round(jitter * 1e9).astype(np.int64), start_ns, max(stop_ns - 1, start_ns))
            stamps = stamps[rng.uniform(size=len(stamps)) >= gyro.lost_share]
            stamps = np.unique(stamps)
            rate = np.interp(stamps, grid_ns, turning[:, i])
            period_s = 1.0 / gyro.rate_hz
            walk = self._walk[i] + np.cumsum(
                gyro.bias_walk_rad_s_sqrt_s * np.sqrt(period_s) * rng.normal(size=(len(stamps), 3)), axis=0
            )
            self._walk[i] = walk[-1] if len(walk) else self._walk[i]
            values = np.zeros((len(stamps), 6))
            tilt = robot.gyro_tilt[i]
            axes = np.array([tilt[0], tilt[1], np.cos(tilt[0]) * np.cos(tilt[1])])
            values[:, :3] = robot.gyro_scale[i] * rate[:, None] * axes + robot.gyro_bias[i] + walk
            values[:, :3] += gyro.noise_stddev_rad_s * rng.normal(size=(len(stamps), 3))
            values[:, 3:] = STANDARD_GRAVITY_M_S2 * axes
            values[:, 3:] += gyro.accelerometer_noise_m_s2 * rng.normal(size=(len(stamps), 3))
            all_stamps.append(stamps)
            all_values.append(values)
        return all_stamps, all_values

    def _capture(self, start_ns: int, stop_ns: int, grid_ns: Stamps, states: Rows) -> tuple[Stamps, Rows]:
        """Stamps (K,) and measured poses (K, N, 3) of the links, which lag by the latency."""
        capture, robot, rng = self.scenario.capture, self.robot, self._rng
        stamps = stamps_between(start_ns, stop_ns, capture.rate_hz)
        stamps = stamps[rng.uniform(size=len(stamps)) >= capture.lost_share]
        seen_ns, seen = grid_ns, states
        if self._past is not None:
            seen_ns, seen = np.concatenate([self._past[0][:-1], grid_ns]), np.vstack([self._past[1][:-1], states])
        keep = seen_ns >= stop_ns - NANOSECONDS_PER_SECOND
        self._past = seen_ns[keep], seen[keep]
        when = stamps - round(robot.latency_s * NANOSECONDS_PER_SECOND)
        unwrapped = seen.copy()
        unwrapped[:, 2] = np.unwrap(seen[:, 2])
        at = np.column_stack([np.interp(when, seen_ns, column) for column in unwrapped.T])
        poses = poses_behind(self._nominal.links, at)
        poses[..., :2] += capture.position_stddev_m * rng.normal(size=poses[..., :2].shape)
        poses[..., 2] += robot.marker_heading + np.deg2rad(capture.heading_stddev_deg) * rng.normal(
            size=poses.shape[:2]
        )
        return stamps, poses
