"""What is known of a soft robot beforehand: the default file, frames and weight."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from onboard_estimation.base.configuration import load
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.installed import resource
from softrobot_estimation.model.configuration import SoftRobotConfiguration


def test_the_file_has_the_defaults() -> None:
    assert load(SoftRobotConfiguration, resource("config/softrobot.yaml")) == SoftRobotConfiguration()


def test_gravity_of_a_tilted_base_points_where_the_base_sees_it() -> None:
    """Turned about its own x, a hanging base sees what was along its z part in +y; about y an upright one in +x."""
    tilted = load(SoftRobotConfiguration, {"mounting.tilt_deg": [30.0, 0.0]})
    np.testing.assert_allclose(tilted.gravity_in_base_m_s2, 9.81 * np.array([0.0, 0.5, np.sqrt(0.75)]))
    upright = load(SoftRobotConfiguration, {"mounting.attitude": "upright", "mounting.tilt_deg": [0.0, 30.0]})
    np.testing.assert_allclose(upright.gravity_in_base_m_s2, 9.81 * np.array([0.5, 0.0, -np.sqrt(0.75)]))


def test_the_resting_wrench_is_the_weight_in_the_sensors_frame() -> None:
    """A force along the base's +y shows along the sensor's +x where the sensor is turned by 90 deg about z."""
    known = {"mounting.tilt_deg": [30.0, 0.0], "wrench.angle_about_base_z_deg": 90.0, "segment.mass_kg": 0.2}
    configuration = load(SoftRobotConfiguration, known)
    expected = 0.2 * 9.81 * np.array([0.5, 0.0, np.sqrt(0.75)])
    np.testing.assert_allclose(configuration.resting_force_in_sensor_n, expected, atol=1e-12)
    back = replace(configuration, wrench=replace(configuration.wrench, sign="sensor_on_robot"))
    np.testing.assert_allclose(back.resting_force_in_sensor_n, -expected, atol=1e-12)
    tared = replace(configuration, wrench=replace(configuration.wrench, tare="with_robot"))
    np.testing.assert_allclose(tared.resting_force_in_sensor_n, 0.0)


def test_faults_are_said_together() -> None:
    with pytest.raises(UserError) as caught:
        load(SoftRobotConfiguration, {"chambers.names": ["a", "a", "b", "c"], "segment.tip_plate_mass_kg": 0.2})
    for words in ("names must differ, got a, a, b, c", "3 values given, 4 chambers need 4", "the whole robot is 0.156"):
        assert words in str(caught.value)
