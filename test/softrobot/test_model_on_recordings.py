"""Frames and signs of the model on a robot whose simulator nobody here wrote: pressures in, tip and loads out.

The parameters are the laboratory's nominal ones, nothing is fitted: this is no measure of accuracy.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from grey_box_recordings import unknown_robot
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from softrobot_estimation.model.constant_curvature import tip_quaternion_xyzw
from softrobot_estimation.model.grey_box import GreyBox, nominal
from softrobot_estimation.model.grey_box_kernels import ROW

Array = NDArray[np.float64]

SETTLED_S, LATENESS_S = 5.0, 0.03
"""Where the guessed start no longer counts, and how late air in hoses moves the robot, about."""


@pytest.mark.data
def test_the_model_moves_and_pulls_as_the_unknown_robot_does(shared_data: Path) -> None:
    known, recording = unknown_robot(shared_data, 3)
    by_sensor = {one.channel.sensor: one for one in recording.series}
    tip, base, wrench = recording.tracks["tip"], recording.tracks["base"], by_sensor["wrench"]
    mounting = Rotation.from_quat(base.values[:, 3:]).mean()
    gravity = mounting.inv().apply([0.0, 0.0, -9.81])
    tilt_deg = tuple(np.degrees([-gravity[1] / 9.81, gravity[0] / 9.81]))
    box = GreyBox(nominal(replace(known, mounting=replace(known.mounting, tilt_deg=tilt_deg))))
    stamps_ns = by_sensor["pressure/chamber_1"].stamps_ns
    pressures = np.hstack([by_sensor[f"pressure/chamber_{number}"].values for number in (1, 2, 3)]) - 101325.0
    rows = np.zeros((len(stamps_ns), ROW))
    for k, elapsed_ns in enumerate(np.diff(stamps_ns)):
        rows[k + 1] = box.propagate(rows[[k]], np.array([0.15]), pressures[k], 1e-9 * elapsed_ns)[0]

    def alike(model: Array, recorded_ns: NDArray[np.int64], recorded: Array) -> float:
        """Correlation, the model's values taken late."""
        later = (recorded_ns > stamps_ns[0] + 1e9 * SETTLED_S) & (recorded_ns < stamps_ns[-1])
        at = np.interp(recorded_ns[later] - 1e9 * LATENESS_S, stamps_ns, model)
        return float(np.corrcoef(at, recorded[later])[0, 1])

    places = box.segment.position(rows[:, :6], offset_m=0.006)
    measured = mounting.inv().apply(tip.values[:, :3] - base.values[:, :3].mean(axis=0))
    assert min(alike(places[:, i], tip.stamps_ns, measured[:, i]) for i in range(3)) > 0.85
    turned = (mounting.inv() * Rotation.from_quat(tip.values[:, 3:])).as_rotvec()
    model_turned = Rotation.from_quat(tip_quaternion_xyzw(rows[:, :6])).as_rotvec()
    assert min(alike(model_turned[:, i], tip.stamps_ns, turned[:, i]) for i in range(2)) > 0.85
    # Sensor behind the base, turned about its axis.
    measured_load = wrench.values.reshape(-1, 2, 3) @ Rotation.from_euler("z", -30.0, degrees=True).as_matrix()
    load_of, load = box.loads(rows, np.full(len(rows), 0.15), pressures), measured_load.reshape(-1, 6)
    assert min(alike(load_of[:, i], wrench.stamps_ns, load[:, i]) for i in (0, 1, 3, 4)) > 0.6
    assert load_of[:, 2].mean() == pytest.approx(load[:, 2].mean(), rel=0.05)
