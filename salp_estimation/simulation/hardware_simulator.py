"""Simulated LandSalp of the scenario `hardware`: its residuals are neither zero-mean, nor white, nor Gaussian.

Every seed is another robot on another day: friction and drag of each wheel, stiffness and rest angles of the harness,
delays, thrust and mounting angles of the wheels, biases, scale factors and mountings of the gyros, mounting of the
markers and latency of the motion capture are drawn anew. Unevenness of the floor, vibration, noise, jitter and losses
are drawn along the run. Magnitudes: `hardware_scenario`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Vector
from onboard_estimation.base.series import STANDARD_GRAVITY_M_S2, Recording, stamps_between
from onboard_estimation.contract.signals import spread, wandered
from onboard_estimation.contract.simulated import Changing
from onboard_estimation.filtering.manifold_kernels import wrap
from salp_estimation.model import chain_kernels as chain
from salp_estimation.model.chain import poses_behind
from salp_estimation.model.configuration import ChainConfiguration
from salp_estimation.simulation.foreign_effects import ForeignEffects, ForeignScenario
from salp_estimation.simulation.hardware_scenario import HardwareScenario, hardware_scenario
from salp_estimation.simulation.simulator import recorded

Array = NDArray[np.float64]
Stamps = NDArray[np.int64]

_ITERATIONS = 60
_STEP_NS = 2_500_000
_FOREIGN_STEPS = 4  # friction and slope are held so long: 10 ms, about the memory of friction itself


class Mechanics(NamedTuple):
    """What resists and moves a chain of N links; all along the wheels' own axes.

    Attributes
    ----------
    links
        (N, .) as `chain_kernels` reads them: geometry, drag of the joints, and their limits.
    drag, friction
        (N, 3) viscous drag and Coulomb friction of the wheels, along, across and turning.
    slip, joint_slip
        (3,) and scalar: speeds at which friction has reached tanh 1 of its whole size.
    thrust
        (N,) N per m/s of rim speed.
    joint_friction
        (N - 1,) N m.
    stiffness, rest_angles
        (N - 1,) of the harness, N m/rad and rad.
    """

    links: Array
    drag: Array
    friction: Array
    slip: Array
    joint_slip: float
    thrust: Array
    joint_friction: Array
    stiffness: Array
    rest_angles: Array


@njit(cache=True, error_model="numpy")
def _dry(speed: float, friction: float, slip: float) -> tuple[float, float, float]:
    """Potential, force and stiffness of Coulomb friction at a speed."""
    ratio = speed / slip
    hold = np.tanh(ratio)
    # log cosh, without overflow
    potential = friction * slip * (abs(ratio) + np.log1p(np.exp(-2.0 * abs(ratio))))
    return potential, friction * hold, friction / slip * (1.0 - hold * hold)


@njit(cache=True, error_model="numpy")
def _residual(
    robot: Mechanics, jacobians: Array, rates: Array, push: Array, torque: Array, gradient: Array, hessian: Array
) -> float:
    """Into `gradient` and `hessian` those of the potential at the rates; returns the potential."""
    n, m = jacobians.shape[0], rates.shape[0]
    gradient[:] = 0.0
    hessian[:] = 0.0
    potential = 0.0
    for i in range(n):
        for a in range(3):
            twist = 0.0
            for c in range(m):
                twist += jacobians[i, a, c] * rates[c]
            drag = robot.drag[i, a]
            energy, held, stiff = _dry(twist, robot.friction[i, a], robot.slip[a])
            potential += 0.5 * twist * (drag * twist) - push[i, a] * twist
            potential += energy
            force = drag * twist - push[i, a] + held
            for c in range(m):
                along = jacobians[i, a, c]
                gradient[c] += along * force
                for d in range(m):
                    hessian[c, d] += along * (drag + stiff) * jacobians[i, a, d]
    for j in range(n - 1):
        rate, drag = rates[3 + j], robot.links[j, chain.JOINT_DRAG]
        energy, held, stiff = _dry(rate, robot.joint_friction[j], robot.joint_slip)
        potential += 0.5 * drag * rate * rate - torque[j] * rate
        potential += energy
        gradient[3 + j] += drag * rate - torque[j] + held
        hessian[3 + j, 3 + j] += drag + stiff
    return potential


@njit(cache=True, error_model="numpy")
def balance(robot: Mechanics, jacobians: Array, start: Array, push: Array, torque: Array) -> Array:
    """Rates (N + 2,) at which all forces balance, found from `start`.

    Parameters
    ----------
    push
        (N, 3) thrust and disturbing wrenches of the wheels.
    torque
        (N - 1,) of the harness.
    """
    m = start.shape[0]
    rates = start.copy()
    gradient, hessian = np.empty(m), np.empty((m, m))
    trial_gradient, trial_hessian = np.empty(m), np.empty((m, m))
    value = _residual(robot, jacobians, rates, push, torque, gradient, hessian)
    for _ in range(_ITERATIONS):
        step = np.linalg.solve(hessian, gradient)
        decrease = np.dot(step, gradient)
        if decrease < 1e-16:
            break
        share = 1.0
        while True:
            trial = rates - share * step
            ahead = _residual(robot, jacobians, trial, push, torque, trial_gradient, trial_hessian)
            if ahead <= value - 0.1 * share * decrease + 1e-15 or share < 1e-3:
                break
            share *= 0.5
        rates, value = trial, ahead
        gradient, trial_gradient = trial_gradient, gradient
        hessian, trial_hessian = trial_hessian, hessian
    return rates


@njit(cache=True, error_model="numpy")
def _moved(robot: Mechanics, point: Array, place: Array, rates: Array, duration: float) -> Array:
    """The state `point` (N + 2,) after a time at `rates` (N + 2,), which are along the axes of link 1 at `place`."""
    out = np.empty(point.shape[0])
    c, s = np.cos(place[2]), np.sin(place[2])
    x, y = c * rates[0] - s * rates[1], s * rates[0] + c * rates[1]
    out[0], out[1] = point[0] + duration * x, point[1] + duration * y
    out[2] = wrap(point[2] + duration * rates[2])
    for j in range(point.shape[0] - 3):
        reached = point[3 + j] + duration * rates[3 + j]
        out[3 + j] = min(max(reached, robot.links[j, chain.LOWER]), robot.links[j, chain.UPPER])
    return out


@njit(cache=True, error_model="numpy")
def drive(
    robot: Mechanics, state: Array, rates: Array, speeds: Array, disturbance: Array, step: float
) -> tuple[Array, Array]:
    """States (K + 1, N + 2) of link 1 (x, y, heading) and joints, and their rates, over K steps (midpoint rule).

    Parameters
    ----------
    state, rates
        (N + 2,) at the start.
    speeds, disturbance
        (K + 1, N) rim speeds and (K + 1, N, 3) disturbing wrenches of the wheels at the ends of the steps.
    """
    count, m = speeds.shape[0], state.shape[0]
    n = m - 2
    states, out = np.empty((count, m)), np.empty((count, m))
    push, torque, unturned = np.empty((n, 3)), np.empty(n - 1), np.zeros(n)
    point, current = state.copy(), rates.copy()
    for k in range(count):
        place = point
        for half in range(2):
            after = k if half == 0 else min(k + 1, count - 1)
            for i in range(n):
                for a in range(3):
                    push[i, a] = 0.5 * (disturbance[k, i, a] + disturbance[after, i, a])
                push[i, 0] += robot.thrust[i] * 0.5 * (speeds[k, i] + speeds[after, i])
            for j in range(n - 1):
                torque[j] = -robot.stiffness[j] * (place[3 + j] - robot.rest_angles[j])
            jacobians, _ = chain.wheel_jacobians(robot.links, place[3:].copy(), unturned)
            current = balance(robot, jacobians, current, push, torque)
            if half == 0:
                for i in range(m):
                    states[k, i], out[k, i] = point[i], current[i]
                if k == count - 1:
                    break
                place = _moved(robot, point, point, current, 0.5 * step)
            else:
                point = _moved(robot, point, place, current, step)
    return states, out


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
        draw, n = partial(spread, rng), len(configuration.link_names)
        floor, harness, actuator = scenario.floor, scenario.harness, scenario.actuator
        angles = np.array(configuration.wheel_angles_deg) + draw(actuator.wheel_angle_stddev_deg, n)
        links = replace(configuration, wheel_angles_deg=tuple(angles.tolist())).build().links
        nominal = links[:, chain.DRAG : chain.DRAG + 9 : 4]
        share = np.sqrt(1.0 + draw(floor.drag_spread, n, 3))
        friction = np.array([floor.friction_along_n, floor.friction_across_n, floor.friction_turning_n_m])
        friction = friction * (1.0 + draw(floor.friction_spread, n, 3))
        thrust = nominal[:, 0] * (1.0 + draw(actuator.gain_spread, n))
        self.delay_s = np.maximum(actuator.delay_s + draw(actuator.delay_spread_s, n), 0.0)
        self.mechanics = Mechanics(
            links,
            nominal * share * share,
            friction,
            slip=np.array([floor.slip_speed_m_s, floor.slip_speed_m_s, floor.slip_rate_rad_s]),
            joint_slip=harness.slip_rate_rad_s,
            thrust=thrust,
            joint_friction=np.full(n - 1, harness.joint_friction_n_m),
            stiffness=harness.stiffness_n_m_rad * (1.0 + draw(harness.stiffness_spread, n - 1)),
            rest_angles=np.deg2rad(draw(harness.rest_angle_stddev_deg, n - 1)),
        )
        self.gyro_bias = draw(scenario.gyro.bias_stddev_rad_s, n, 3)
        self.gyro_scale = 1.0 + draw(scenario.gyro.scale_stddev, n)
        self.gyro_tilt = np.deg2rad(draw(scenario.gyro.tilt_stddev_deg, n, 2))
        self.marker_heading = np.deg2rad(draw(scenario.capture.mounting_stddev_deg, n))
        self.latency_s = max(scenario.capture.latency_s + float(draw(scenario.capture.latency_spread_s)), 0.0)


class HardwareSimulation(Changing):
    """A LandSalp on a real floor, from rest at the origin at stamp zero; its chain starts without torque.

    Parameters
    ----------
    controls
        Commanded rim speeds (K, N), m/s, at times (K,), s, after the rest: a gait's `controls`.
    rng
        Source of all draws: the same generator gives the same recording, if it is advanced in the same steps.
    foreign
        Effects that no estimator has a term for.
    robot
        Of a day that was drawn before; None: drawn here.
    """

    def __init__(
        self,
        configuration: ChainConfiguration,
        controls: Callable[[Vector], Array],
        rng: np.random.Generator,
        scenario: HardwareScenario | None = None,
        foreign: ForeignScenario | None = None,
        robot: HardwareRobot | None = None,
    ) -> None:
        self.scenario = scenario or hardware_scenario()
        self._configuration = configuration
        self._controls = controls
        self._rng = rng
        self.robot = robot or HardwareRobot(configuration, self.scenario, rng)
        self._nominal = configuration.build()
        n = self._nominal.link_count
        self.changeable = {
            "harness": (("stiffness",), None),
            **{f"wheel_{link + 1}": (("thrust",), link) for link in range(n)},
            **{f"load_{link + 1}": (("friction", "drag"), link) for link in range(n)},
        }
        self._at_ns = 0
        rest_angles = self.robot.mechanics.rest_angles
        self._state = np.concatenate([np.zeros(3), rest_angles])
        self._rates = np.zeros(n + 2)
        self._speeds = np.zeros(n)
        self._uneven = rng.normal(size=(n, 3))  # in its standard deviations
        self._walk = np.zeros((n, 3))
        self._roller_phase = rng.uniform(0.0, 2.0 * np.pi, n)
        self._past: tuple[Stamps, Array] | None = None
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

    def _commanded(self, time_s: Vector) -> Array:
        """Rim speeds asked for at each time: none while the robot rests."""
        after_s = np.atleast_1d(time_s) - self.scenario.rest_s
        return np.where(after_s[:, None] >= 0.0, self._controls(np.maximum(after_s, 0.0)), 0.0)

    def _drive(self, start_ns: int, stop_ns: int) -> tuple[Stamps, Array, Array, Array]:
        """Stamps (K,) from start to stop, states of link 1 and joints, rates, actual rim speeds there."""
        scenario, rng = self.scenario, self._rng
        count = max(1, int(np.ceil((stop_ns - start_ns) / _STEP_NS)))
        grid_ns = np.round(np.linspace(start_ns, stop_ns, count + 1)).astype(np.int64)
        step_s = (stop_ns - start_ns) / count / NANOSECONDS_PER_SECOND
        speeds = self._actual_speeds(grid_ns / NANOSECONDS_PER_SECOND, step_s)
        self._speeds = speeds[-1].copy()
        if self.foreign is not None:
            speeds = self.foreign.speeds(grid_ns / NANOSECONDS_PER_SECOND, speeds)
        keep = np.exp(-step_s / scenario.floor.unevenness_time_s)
        uneven = np.concatenate([self._uneven[None], wandered(rng, keep, count, self._uneven)])
        self._uneven = uneven[-1]
        floor = scenario.floor
        # A robot that stands still stays where the floor holds it: unevenness is met by moving over it.
        moving = np.minimum(np.abs(speeds).max(axis=1) / (10.0 * floor.slip_speed_m_s), 1.0)
        size = np.array([floor.unevenness_n, floor.unevenness_n, floor.unevenness_n_m])
        wrenches = uneven * size * moving[:, None, None]
        states, rates = np.empty((2, count + 1, len(self._state)))
        longest = 0 if self.foreign is None else _FOREIGN_STEPS
        for first, stop in self.pieces(start_ns / NANOSECONDS_PER_SECOND, step_s, count, longest):
            rows, time_s = slice(first, stop + 1), 1e-9 * float(grid_ns[first])
            mechanics = self.changed(self.robot.mechanics, time_s + 0.5 * step_s)
            pushed = wrenches[rows]
            if self.foreign is not None:
                length_s = (rows.stop - 1 - first) * step_s
                mechanics, downhill = self._changed(self.foreign, mechanics, time_s, length_s)
                self._rolled_m += speeds[first] * length_s
                pushed = pushed + downhill
            states[rows], rates[rows] = drive(mechanics, self._state, self._rates, speeds[rows], pushed, step_s)
            self._state, self._rates = states[rows.stop - 1].copy(), rates[rows.stop - 1].copy()
        return grid_ns, states, rates, speeds

    def _changed(
        self, foreign: ForeignEffects, robot: Mechanics, time_s: float, length_s: float
    ) -> tuple[Mechanics, Array]:
        """The robot with its friction and harness of now, and the pull (N, 3) of the slope, for some time to come."""
        joint_angles = self._state[3:]
        jacobians, _ = chain.wheel_jacobians(robot.links, joint_angles.copy(), np.zeros(len(robot.links)))
        friction = foreign.friction(robot.friction, jacobians @ self._rates, self._rolled_m, time_s)
        headings = self._state[2] + np.concatenate([[0.0], np.cumsum(joint_angles)])
        downhill = foreign.downhill(headings + robot.links[:, chain.WHEEL_ANGLE])
        rest_angles = foreign.rest_angles(joint_angles, length_s)
        return robot._replace(friction=friction, rest_angles=rest_angles), downhill

    def _actual_speeds(self, time_s: Vector, step_s: float) -> Array:
        """(K, N): commands, held between their stamps, delayed and lagged."""
        actuator = self.scenario.actuator
        keep, rate_hz = np.exp(-step_s / actuator.lag_s), actuator.command_rate_hz
        held_s = np.floor((time_s - self.robot.delay_s[:, None]) * rate_hz) / rate_hz
        asked = np.column_stack([self._commanded(at_s)[:, wheel] for wheel, at_s in enumerate(held_s)])
        out = np.empty_like(asked)
        out[0] = self._speeds
        for k in range(1, len(out)):
            out[k] = asked[k - 1] + keep * (out[k - 1] - asked[k - 1])
        return out

    def _imus(
        self, start_ns: int, stop_ns: int, grid_ns: Stamps, rates: Array, speeds: Array
    ) -> tuple[list[Stamps], list[Array]]:
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
            stamps = np.unique(stamps[rng.uniform(size=len(stamps)) >= gyro.lost_share])
            rate = np.interp(stamps, grid_ns, turning[:, i])
            period_s = 1.0 / gyro.rate_hz
            walk = self._walk[i] + np.cumsum(
                gyro.bias_walk_rad_s_sqrt_s * np.sqrt(period_s) * rng.normal(size=(len(stamps), 3)), axis=0
            )
            self._walk[i] = walk[-1] if len(walk) else self._walk[i]
            tilt, noise = robot.gyro_tilt[i], rng.normal(size=(2, len(stamps), 3))
            axes = np.array([tilt[0], tilt[1], np.cos(tilt[0]) * np.cos(tilt[1])])
            read = robot.gyro_scale[i] * rate[:, None] * axes + robot.gyro_bias[i] + walk
            force = STANDARD_GRAVITY_M_S2 * axes + gyro.accelerometer_noise_m_s2 * noise[1]
            all_stamps.append(stamps)
            all_values.append(np.hstack([read + gyro.noise_stddev_rad_s * noise[0], force]))
        return all_stamps, all_values

    def _capture(self, start_ns: int, stop_ns: int, grid_ns: Stamps, states: Array) -> tuple[Stamps, Array]:
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
