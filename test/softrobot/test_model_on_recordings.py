"""Frames and signs of the model on a robot whose simulator nobody here wrote: pressures in, tip and loads out.

The parameters are the laboratory's nominal ones, nothing is fitted: this is no measure of accuracy.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from onboard_estimation.base.configuration import load
from softrobot_estimation.model.configuration import SoftRobotConfiguration
from softrobot_estimation.model.constant_curvature import tip_quaternion_xyzw
from softrobot_estimation.model.grey_box import GreyBox, nominal
from softrobot_estimation.model.grey_box_kernels import ROW

Array = NDArray[np.float64]

SETTLED_S, LATENESS_S = 5.0, 0.03
"""Where the guessed start no longer counts, and how late air in hoses moves the robot, about."""


def table(folder: Path, name: str) -> tuple[Array, Array]:
    """Stamps in s and the other columns."""
    rows = np.genfromtxt(folder / f"{name}.csv.gz", delimiter=",", skip_header=1)
    return rows[:, 0] * 1e-9, rows[:, 1:]


@pytest.mark.data
@pytest.mark.parametrize("run", ["run_1", "run_3"])
def test_the_model_moves_and_pulls_as_the_unknown_robot_does(shared_data: Path, run: str) -> None:
    folder = shared_data / "unknown_soft_robot" / run
    (stamps, pressures), (wrench_stamps, wrench) = table(folder, "pressure"), table(folder, "wrench")
    (tip_stamps, tip), (_, base) = table(folder, "truth_tip"), table(folder, "truth_base")
    mounting = Rotation.from_quat(base[:, 3:]).mean()
    configuration = load(
        SoftRobotConfiguration, {"segment.length_m": 0.1281, "model.damping_ratio": 0.09, "model.pressure_lag_s": 1e-6}
    )
    gravity = mounting.inv().apply([0.0, 0.0, -9.81])
    tilt_deg = tuple(np.degrees([-gravity[1] / 9.81, gravity[0] / 9.81]))
    box = GreyBox(nominal(replace(configuration, mounting=replace(configuration.mounting, tilt_deg=tilt_deg))))
    rows, stiffness = np.zeros((len(stamps), ROW)), np.array([0.15])
    for k, elapsed in enumerate(np.diff(stamps)):
        rows[k + 1] = box.propagate(rows[[k]], stiffness, pressures[k], elapsed)[0]

    def alike(model: Array, recorded_stamps: Array, recorded: Array) -> float:
        """Correlation, the model's values taken late."""
        later = recorded_stamps > stamps[0] + SETTLED_S
        at = np.interp(recorded_stamps[later] - LATENESS_S, stamps, model)
        return float(np.corrcoef(at, recorded[later])[0, 1])

    states = rows[:, :6]
    places = box.segment.position(states, offset_m=0.006)
    measured = mounting.inv().apply(tip[:, :3] - base[:, :3].mean(axis=0))
    assert min(alike(places[:, i], tip_stamps, measured[:, i]) for i in range(3)) > 0.85
    turned = (mounting.inv() * Rotation.from_quat(tip[:, 3:])).as_rotvec()
    model_turned = Rotation.from_quat(tip_quaternion_xyzw(states)).as_rotvec()
    assert min(alike(model_turned[:, i], tip_stamps, turned[:, i]) for i in range(2)) > 0.85
    # Sensor behind the base, turned about its axis.
    sensor = Rotation.from_euler("z", 30.0, degrees=True)
    measured_load = np.hstack([sensor.apply(wrench[:, :3]), sensor.apply(wrench[:, 3:])])
    load_of = box.loads(rows, np.full(len(rows), 0.15), pressures)
    assert min(alike(load_of[:, i], wrench_stamps, measured_load[:, i]) for i in (0, 1, 3, 4)) > 0.6
    assert load_of[:, 2].mean() == pytest.approx(measured_load[:, 2].mean(), rel=0.05)
