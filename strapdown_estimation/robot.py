"""The strapped-down IMU as a robot of the suite."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Channel, Measurement
from onboard_estimation.base.series import Recording, imu_channel
from onboard_estimation.contract.robot import TruthSpecification
from onboard_estimation.contract.simulated import Scenario, Simulated
from onboard_estimation.pipeline.pipeline import Pipeline
from onboard_estimation.pipeline.reading_limits import imu_limits
from strapdown_estimation.estimators.estimator import StrapdownEstimator
from strapdown_estimation.model.configuration import Strapdown
from strapdown_estimation.simulation import simulator


class StrapdownRobot(Simulated[Strapdown]):
    """An IMU that is strapped to a foot, or to anything else that stands on the ground at times."""

    name = "strapdown"
    summary = "IMU on a foot or a hopping robot: position, velocity and attitude, from inertial data alone"
    recovery_s = 3.0
    configuration_type = Strapdown
    configuration_file = "config/strapdown.yaml"
    estimators = ("eskf",)
    scenarios: Mapping[str, Scenario] = {
        "walk": Scenario("a walk on level ground, starting and ending at rest", tuple(simulator.GAITS)),
        "stairs": Scenario("up and down a flight of stairs", tuple(simulator.GAITS)),
    }

    def channels(self, configuration: Strapdown) -> tuple[Channel, ...]:
        """The one IMU."""
        imu = configuration.imu
        gyro = imu.gyro_range_rad_s, "imu.gyro_range_rad_s"
        accelerometer = imu.accelerometer_range_m_s2, "imu.accelerometer_range_m_s2"
        return (imu_channel(imu.name, imu_limits(gyro, accelerometer)),)

    def estimator(self, configuration: Strapdown, name: str) -> StrapdownEstimator:
        """The error-state filter, which aligns itself at rest where it is given no state to start from."""
        return StrapdownEstimator(configuration)

    def exercise(self, configuration: Strapdown, estimator: str) -> None:
        """At rest until it is aligned, and a little longer: with neutral readings all would be left to compile."""
        pipeline = Pipeline(self.estimator(configuration, estimator), self.channels(configuration))
        (channel,) = self.channels(configuration)
        at_rest = np.array([0.0, 0.0, 0.0, 0.0, 0.0, configuration.start.gravity_m_s2])
        step_s = configuration.contact.window_s / 5.0
        for k in range(math.ceil(configuration.start.duration_s / step_s) + 10):
            pipeline.process(Measurement(round(k * step_s * NANOSECONDS_PER_SECOND), channel.sensor, at_rest))

    def truth_specification(self, configuration: Strapdown) -> TruthSpecification:
        """Position, of the marker or the body; the filter's origin and heading are its own."""
        noise = configuration.truth_stddev_m**2 * np.eye(3)
        return TruthSpecification((configuration.truth_body,), "heading", {"position": noise})

    def true_parts(
        self, configuration: Strapdown, bodies: Mapping[str, NDArray[np.float64]]
    ) -> dict[str, NDArray[np.float64]]:
        """Position; an attitude in the truth has an unknown turn against the IMU and is not judged."""
        return {"position": bodies[configuration.truth_body][:, :3]}

    def simulate(
        self, configuration: Strapdown, scenario: str, variant: str, duration_s: float, rng: np.random.Generator
    ) -> Recording:
        """A walk on level ground or on stairs."""
        gait, stairs = simulator.GAITS[variant], scenario == "stairs"
        return simulator.simulate(gait, duration_s, rng, stairs, configuration.imu.name)


ROBOT = StrapdownRobot()
