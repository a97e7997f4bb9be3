"""Frames and signs of the model on a robot whose simulator nobody here wrote: pressures in, tip and loads out.

The parameters are the laboratory's nominal ones, nothing is fitted: this is no measure of accuracy.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from softrobot_estimation.constant_curvature import ConstantCurvatureSegment

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
    segment = ConstantCurvatureSegment(
        length_m=0.1281,
        bending_radius_m=0.0146,
        tip_mass_kg=0.01,
        tip_mass_offset_m=0.003,
        backbone_mass_kg=0.146,
        damping_n_s_m=(3.0, 3.0, 3.0),
        bending_stiffness_n_m=0.15 / 0.0146**2,
        elongation_stiffness_n_m=1400.0,
        gravity_m_s2=tuple(mounting.inv().apply([0.0, 0.0, -9.81])),
        chamber_angles_rad=tuple(np.radians([90.0, 210.0, 330.0])),
        chamber_centre_radius_m=0.0126,
        chamber_areas_m2=(1.55e-4,) * 3,
    )
    states = np.zeros((len(stamps), 6))
    for k, elapsed in enumerate(np.diff(stamps)):
        states[k + 1] = segment.step(states[k], elapsed, pressures[k], sub_steps=int(np.ceil(elapsed / 0.01)))

    def alike(model: Array, recorded_stamps: Array, recorded: Array) -> float:
        """Correlation, the model's values taken late."""
        later = recorded_stamps > stamps[0] + SETTLED_S
        at = np.interp(recorded_stamps[later] - LATENESS_S, stamps, model)
        return float(np.corrcoef(at, recorded[later])[0, 1])

    places = segment.position(states, offset_m=0.006)
    measured = mounting.inv().apply(tip[:, :3] - base[:, :3].mean(axis=0))
    assert min(alike(places[:, i], tip_stamps, measured[:, i]) for i in range(3)) > 0.85
    turned = (mounting.inv() * Rotation.from_quat(tip[:, 3:])).as_rotvec()
    model_turned = Rotation.from_quat(segment.tip_quaternion_xyzw(states)).as_rotvec()
    assert min(alike(model_turned[:, i], tip_stamps, turned[:, i]) for i in range(2)) > 0.85
    # Sensor behind the base, turned about its axis.
    sensor = Rotation.from_euler("z", 30.0, degrees=True)
    measured_load = np.hstack([sensor.apply(wrench[:, :3]), sensor.apply(wrench[:, 3:])])
    load = segment.base_load(states, pressures, origin_m=(0.0, 0.0, -0.0142))
    assert min(alike(load[:, i], wrench_stamps, measured_load[:, i]) for i in (0, 1, 3, 4)) > 0.6
    assert load[:, 2].mean() == pytest.approx(measured_load[:, 2].mean(), rel=0.05)
