"""Two jointed links with an IMU on each as a robot of the suite."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from onboard_estimation.base.measurement import POSE, Channel
from onboard_estimation.base.series import Recording, imu_channel
from onboard_estimation.contract.robot import TruthSpecification
from onboard_estimation.contract.simulated import Scenario, Simulated
from onboard_estimation.pipeline.reading_limits import imu_limits
from recorded_robots.two_link import simulator
from recorded_robots.two_link.configuration import TwoLink
from recorded_robots.two_link.estimator import TwoLinkEstimator


class TwoLinkRobot(Simulated[TwoLink]):
    """Two links joined by a hinge, a two-axis or a ball joint."""

    name = "two_link"
    summary = "two jointed links with an IMU on each: how one is turned against the other"
    recovery_s = 5.0
    configuration_type = TwoLink
    estimators = ("eskf",)
    scenarios: Mapping[str, Scenario] = {
        "swing": Scenario("swung and turned by hand"),
        "slow": Scenario("moved slowly: gravity tells the tilt, and nothing but a hinge the heading"),
    }

    def channels(self, configuration: TwoLink) -> tuple[Channel, ...]:
        """The two IMUs."""
        imus = configuration.imus
        limits = imu_limits(
            gyro=(imus.gyro_range_rad_s, "imus.gyro_range_rad_s"),
            accelerometer=(imus.accelerometer_range_m_s2, "imus.accelerometer_range_m_s2"),
        )
        return imu_channel(imus.proximal, limits), imu_channel(imus.distal, limits)

    def estimator(self, configuration: TwoLink, name: str) -> TwoLinkEstimator:
        """The error-state filter."""
        return TwoLinkEstimator(configuration)

    def truth_specification(self, configuration: TwoLink) -> TruthSpecification:
        """The poses of both links; their frames are not quite those of the sensors."""
        imus, noise = configuration.imus, configuration.truth_stddev_rad**2 * np.eye(3)
        return TruthSpecification((imus.proximal, imus.distal), covariances={"relative_orientation": noise})

    def true_parts(
        self, configuration: TwoLink, bodies: Mapping[str, NDArray[np.float64]]
    ) -> dict[str, NDArray[np.float64]]:
        """How the second is turned against the first; nothing where one has no orientation."""
        imus = configuration.imus
        quaternions = [bodies[one][:, POSE.orientation] for one in (imus.proximal, imus.distal)]
        if not np.isfinite(quaternions).all():
            return {}
        first, second = map(Rotation.from_quat, quaternions)
        return {"relative_orientation": (first.inv() * second).as_quat()}

    def simulate(
        self, configuration: TwoLink, scenario: str, variant: str, duration_s: float, rng: np.random.Generator
    ) -> Recording:
        """A motion of links on the joint that is configured."""
        names = configuration.imus.proximal, configuration.imus.distal
        hinge = configuration.joint.kind == "hinge"
        return simulator.simulate(simulator.STYLES[scenario], hinge, duration_s, rng, names).recording


ROBOT = TwoLinkRobot()
