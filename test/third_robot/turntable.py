"""A turntable with one gyro: its heading and the gyro's bias, which shows while the table rests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from onboard_estimation.base.configuration import parameter
from onboard_estimation.base.measurement import IMU, Channel, Estimate, Matrix, Measurement
from onboard_estimation.base.series import Recording, Series, imu_channel, stamps_ns, truth_channel
from onboard_estimation.contract.robot import TruthSpecification
from onboard_estimation.contract.simulated import Scenario, Simulated
from onboard_estimation.contract.truth import StartedFromTruth
from onboard_estimation.filtering.moments import Moments, predict, update
from onboard_estimation.filtering.state_space import StateSpace, angles, vector
from onboard_estimation.pipeline.estimator import Estimator, Step

TABLE = imu_channel("table", needs=("angular_velocity",))
SPACE = StateSpace(angles("heading", ("heading",)), vector("gyro_bias", ("z",), "rad/s"))


@dataclass(frozen=True)
class Turntable:
    """Parameters."""

    gyro_noise_rad_s: float = parameter(0.002, "white noise of a gyro sample", unit="rad/s", exclusive_minimum=0.0)
    bias_stddev_rad_s: float = parameter(0.02, "bias of the gyro at the start", unit="rad/s", exclusive_minimum=0.0)
    heading_stddev_deg: float = parameter(2.0, "error of the initial heading", unit="deg", exclusive_minimum=0.0)
    rest_s: float = parameter(2.0, "the table rests that long at the start", unit="s", minimum=0.0)


class TurntableState(NamedTuple):
    moments: Moments
    start_ns: int | None
    stamp_ns: int


class TurntableEstimator(Estimator[TurntableState]):
    """Turns by the gyro; while the table rests, the gyro reads its bias."""

    space = SPACE

    def __init__(self, configuration: Turntable) -> None:
        self._c = configuration

    def start(self, initial: Estimate | None) -> TurntableState:
        if initial is None:
            return TurntableState(Moments(SPACE.origin(), ROBOT.initial_covariance(self._c)), None, 0)
        return TurntableState(Moments(initial.mean, initial.covariance), initial.stamp_ns, initial.stamp_ns)

    def step(self, state: TurntableState, measurement: Measurement) -> Step:
        stamp, rate = measurement.stamp_ns, measurement.value[IMU.angular_velocity][2]
        moments, start_ns, last_ns = state if state.start_ns is not None else (state.moments, stamp, stamp)
        step_s, noise, innovation = (stamp - last_ns) * 1e-9, self._c.gyro_noise_rad_s**2, None
        moved = SPACE.plus(moments.mean, [(rate - moments.mean[1]) * step_s, 0.0])
        turned = np.diag([noise * step_s**2, 0.0])
        moments = predict(moments, moved, np.array([[1.0, -step_s], [0.0, 1.0]]), turned)
        if stamp - start_ns < self._c.rest_s * 1e9:
            rest = np.array([rate - moments.mean[1]])
            moments, innovation, _ = update(SPACE, moments, rest, np.array([[0.0, 1.0]]), np.array([[noise]]))
        return Step(TurntableState(moments, start_ns, stamp), Estimate(stamp, *moments), innovation)


class TurntableRobot(Simulated[Turntable], StartedFromTruth[Turntable]):
    name = "turntable"
    summary = "a turntable with one gyro: heading and gyro bias"
    configuration_type = Turntable
    scenarios: Mapping[str, Scenario] = {"swing": Scenario("a rest, then to and fro", ("slow", "fast"))}

    def channels(self, configuration: Turntable) -> tuple[Channel, ...]:
        return (TABLE,)

    def estimator(self, configuration: Turntable, name: str) -> TurntableEstimator:
        return TurntableEstimator(configuration)

    def initial_covariance(self, configuration: Turntable) -> Matrix:
        return np.diag([np.deg2rad(configuration.heading_stddev_deg), configuration.bias_stddev_rad_s]) ** 2

    def truth_specification(self, configuration: Turntable) -> TruthSpecification:
        return TruthSpecification(("table",))

    def true_parts(self, configuration: Turntable, bodies: Mapping[str, NDArray[np.float64]]) -> dict[str, Matrix]:
        return {"heading": Rotation.from_quat(bodies["table"][:, 3:]).as_euler("ZYX")[:, :1]}

    def simulate(
        self, configuration: Turntable, scenario: str, variant: str, duration_s: float, rng: np.random.Generator
    ) -> Recording:
        stamps = stamps_ns(duration_s, 100.0)
        swing = (0.5 if variant == "slow" else 1.5) * np.maximum(stamps * 1e-9 - configuration.rest_s, 0.0)
        heading = 1.0 - np.cos(swing)
        imu, poses = np.zeros((len(stamps), 6)), np.zeros((len(stamps), 7))
        imu[:, 2] = np.gradient(heading, 0.01) + rng.normal(0.0, configuration.bias_stddev_rad_s)
        imu[:, 2] += rng.normal(0.0, configuration.gyro_noise_rad_s, len(stamps))
        poses[:, 5], poses[:, 6] = np.sin(0.5 * heading), np.cos(0.5 * heading)
        return Recording((Series(TABLE, stamps, imu),), (Series(truth_channel("table"), stamps, poses),))


ROBOT = TurntableRobot()
