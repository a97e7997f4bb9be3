"""A rover on two wheels: its pose, the slip of its wheels and the bias of its gyro, from speeds, beacon and compass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.configuration import parameter
from onboard_estimation.base.measurement import ATTITUDE, IMU, POINT, Channel, Estimate, Matrix, Measurement
from onboard_estimation.base.series import Recording, Series, imu_channel, stamps_ns, truth_channel
from onboard_estimation.contract.robot import TruthSpecification
from onboard_estimation.contract.simulated import Scenario, Simulated
from onboard_estimation.contract.truth import StartedFromTruth
from onboard_estimation.filtering.gating import Gate
from onboard_estimation.filtering.moments import Moments, predict, update
from onboard_estimation.filtering.state_space import StateSpace, se2, vector
from onboard_estimation.pipeline.estimator import Estimator, Step

WHEELS = Channel("wheels/command", "sensor_msgs/msg/JointState", "wheels", names=("left", "right"), command=True)
GYRO = imu_channel("rover", needs=("angular_velocity",))
BEACON = Channel("beacon/point", "geometry_msgs/msg/PointStamped", "beacon")
COMPASS = Channel("compass", "sensor_msgs/msg/Imu", "compass", field="orientation")
SPACE = StateSpace(se2("pose"), vector("slip", ("wheels",), ""), vector("gyro_bias", ("z",), "rad/s"))


@dataclass(frozen=True)
class Parameters:
    """What is configured."""

    wheel_radius_m: float = parameter(0.05, "radius of the wheels", unit="m", exclusive_minimum=0.0)
    beacon_stddev_m: float = parameter(0.03, "noise of the beacon", unit="m", exclusive_minimum=0.0)
    compass_stddev_deg: float = parameter(3.0, "noise of the compass", unit="deg", exclusive_minimum=0.0)
    slip_stddev: float = parameter(0.1, "share of the way lost", exclusive_minimum=0.0)
    bias_stddev_deg_s: float = parameter(1.0, "bias of the gyro", unit="deg/s", exclusive_minimum=0.0)
    walk_m_sqrt_s: float = parameter(0.01, "random walk of the place", unit="m/sqrt(s)", minimum=0.0)
    turn_walk_deg_sqrt_s: float = parameter(0.3, "noise of the gyro", unit="deg/sqrt(s)", minimum=0.0)


class State(NamedTuple):
    """All that measurements change."""

    moments: Moments
    stamp_ns: int | None = None
    speed_m_s: float = 0.0
    rate_rad_s: float = 0.0
    rejected: tuple[int, int] = (0, 0)


class RoverEstimator(Estimator[State]):
    """Extended Kalman filter."""

    space = SPACE

    def __init__(self, configuration: Parameters) -> None:
        self.c = configuration
        self.gate = Gate(probability=0.999, recover_after=10)

    def start(self, initial: Estimate | None) -> State:
        if initial is None:
            return State(Moments(SPACE.origin(), ROBOT.initial_covariance(self.c)))
        return State(Moments(initial.mean, initial.covariance), initial.stamp_ns)

    def step(self, state: State, measurement: Measurement) -> Step:
        state = self.moved(state, measurement.stamp_ns)
        value, mean = measurement.value, state.moments.mean
        if measurement.sensor == WHEELS.sensor:
            return Step(state._replace(speed_m_s=0.5 * self.c.wheel_radius_m * float(value[0] + value[1])))
        if measurement.sensor == GYRO.sensor:
            state = state._replace(rate_rad_s=float(value[IMU.angular_velocity][2]))
            return Step(state, Estimate(measurement.stamp_ns, *state.moments))
        if measurement.sensor == BEACON.sensor:
            c, s = np.cos(mean[2]), np.sin(mean[2])
            difference = value[POINT.point][:2] - mean[:2]
            slope = np.array([[c, -s, 0.0, 0.0, 0.0], [s, c, 0.0, 0.0, 0.0]])
            noise = np.eye(2) * self.c.beacon_stddev_m**2
        else:
            quaternion = value[ATTITUDE.orientation]
            heading = 2.0 * np.arctan2(quaternion[2], quaternion[3])
            difference = np.array([np.remainder(heading - mean[2] + np.pi, 2.0 * np.pi) - np.pi])
            slope = np.array([[0.0, 0.0, 1.0, 0.0, 0.0]])
            noise = np.array([[np.deg2rad(self.c.compass_stddev_deg) ** 2]])
        which, counts = int(measurement.sensor == COMPASS.sensor), list(state.rejected)
        moments, seen, counts[which] = update(SPACE, state.moments, difference, slope, noise, self.gate, counts[which])
        state = state._replace(moments=moments, rejected=(counts[0], counts[1]))
        return Step(state, Estimate(measurement.stamp_ns, *moments), seen)

    def moved(self, state: State, stamp_ns: int) -> State:
        step_s = 0.0 if state.stamp_ns is None else (stamp_ns - state.stamp_ns) * 1e-9
        mean = state.moments.mean
        way, turn = state.speed_m_s * step_s, (state.rate_rad_s - mean[4]) * step_s
        twist = np.array([(1.0 - mean[3]) * way, 0.0, turn, 0.0, 0.0])
        moved = SPACE.plus(mean, twist)
        c, s, forward = np.cos(turn), np.sin(turn), twist[0]
        transition = np.eye(5)
        transition[:2, :2] = [[c, s], [-s, c]]
        transition[0, 2], transition[1, 2] = forward * s, forward * c
        transition[:2, 3] = -way * c, way * s
        transition[2, 4] = -step_s
        walk, turning = self.c.walk_m_sqrt_s**2, np.deg2rad(self.c.turn_walk_deg_sqrt_s) ** 2
        noise = np.diag([walk * step_s, walk * step_s, turning * step_s, 1e-8 * step_s, 1e-10 * step_s])
        moments = predict(state.moments, moved, transition, noise)
        return state._replace(moments=moments, stamp_ns=stamp_ns)


class RoverRobot(Simulated[Parameters], StartedFromTruth[Parameters]):
    """What the suite asks of it."""

    name = "rover"
    summary = "a rover on two wheels"
    configuration_type = Parameters
    scenarios: Mapping[str, Scenario] = {"round": Scenario("round and round", as_modelled=True)}

    def channels(self, configuration: Parameters) -> tuple[Channel, ...]:
        return WHEELS, GYRO, BEACON, COMPASS

    def estimator(self, configuration: Parameters, name: str) -> RoverEstimator:
        return RoverEstimator(configuration)

    def initial_covariance(self, configuration: Parameters) -> Matrix:
        bias = np.deg2rad(configuration.bias_stddev_deg_s)
        return np.diag([0.1, 0.1, 0.1, configuration.slip_stddev, bias]) ** 2

    def truth_specification(self, configuration: Parameters) -> TruthSpecification:
        return TruthSpecification(("body",))

    def true_parts(self, configuration: Parameters, bodies: Mapping[str, NDArray[np.float64]]) -> dict[str, Matrix]:
        body = bodies["body"]
        return {"pose": np.column_stack([body[:, :2], 2.0 * np.arctan2(body[:, 5], body[:, 6])])}

    def simulate(
        self, configuration: Parameters, scenario: str, variant: str, duration_s: float, rng: np.random.Generator
    ) -> Recording:
        stamps = stamps_ns(duration_s, 50.0)
        time, step_s = stamps * 1e-9, 0.02
        turning = 5.0 + 2.0 * np.sin(0.7 * time)
        rate = 0.5 + 0.4 * np.sin(0.9 * time)
        slip = rng.normal(0.0, configuration.slip_stddev)
        bias = np.deg2rad(rng.normal(0.0, configuration.bias_stddev_deg_s))
        walk = rng.normal(0.0, configuration.walk_m_sqrt_s * step_s**0.5, (len(stamps), 2))
        turn_walk = np.deg2rad(configuration.turn_walk_deg_sqrt_s) * rng.normal(0.0, step_s**0.5, len(stamps))
        poses = np.zeros((len(stamps), 3))
        pose_space = SPACE.part("pose")
        for k in range(len(stamps) - 1):
            way = (1.0 - slip) * configuration.wheel_radius_m * turning[k] * step_s
            poses[k + 1] = pose_space.plus(poses[k], [way + walk[k, 0], walk[k, 1], rate[k] * step_s])
        gyro = np.zeros((len(stamps), 6))
        gyro[:, 2] = rate + bias + turn_walk / step_s
        points = np.zeros((len(stamps), 3))
        points[:, :2] = poses[:, :2] + rng.normal(0.0, configuration.beacon_stddev_m, (len(stamps), 2))
        points[rng.random(len(stamps)) < 0.01, 0] += 1.0
        heading = poses[:, 2] + np.deg2rad(configuration.compass_stddev_deg) * rng.normal(size=len(stamps))
        quaternions, truth = np.zeros((len(stamps), 4)), np.zeros((len(stamps), 7))
        quaternions[:, 2], quaternions[:, 3] = np.sin(0.5 * heading), np.cos(0.5 * heading)
        truth[:, :2], truth[:, 5], truth[:, 6] = poses[:, :2], np.sin(0.5 * poses[:, 2]), np.cos(0.5 * poses[:, 2])
        wheels = np.column_stack([turning, turning])
        sensors = (
            Series(WHEELS, stamps, wheels),
            Series(GYRO, stamps, gyro),
            Series(BEACON, stamps[::10], points[::10]),
            Series(COMPASS, stamps[::5], quaternions[::5]),
        )
        return Recording(sensors, (Series(truth_channel("body"), stamps, truth),))


ROBOT = RoverRobot()
