"""From what a force-torque sensor reads to the wrench that is published: weight, zero, mounting, lever arm, sign.

All of it is affine. With a reading w = (f, t), f in N and t in N m, along the sensor's axes, about its origin, exerted
on the sensor by what hangs on it (the sign that these sensors have):

    w' = w - zero - weight,         weight = (m g, c x m g)
    f_out = s R f',  t_out = s R (t' - r x f')

m, c: mass and centre of mass of what hangs on it; g: gravity, constant, for the base stands still; R: rotation from
the sensor's axes to those of the published frame; r: that frame's origin; s: -1 where the wrench is to be that of the
sensor on the robot. c, g and r are along the sensor's axes, from its origin.
"""

from __future__ import annotations

import numpy as np

from drivers.ethercat.configuration import WrenchConfiguration
from onboard_estimation.errors import UserError
from onboard_estimation.measurement import Matrix, Vector
from onboard_estimation.simulation import STANDARD_GRAVITY_M_S2

LEAST_READINGS = 20


def rotation_of(roll_pitch_yaw_deg: tuple[float, float, float]) -> Matrix:
    """(3, 3) Rz(yaw) Ry(pitch) Rx(roll), as in URDF: turns a vector of the sensor's axes into the published frame's."""
    cosine, sine = np.cos(np.radians(roll_pitch_yaw_deg)), np.sin(np.radians(roll_pitch_yaw_deg))
    about_x = np.array([[1.0, 0.0, 0.0], [0.0, cosine[0], -sine[0]], [0.0, sine[0], cosine[0]]])
    about_y = np.array([[cosine[1], 0.0, sine[1]], [0.0, 1.0, 0.0], [-sine[1], 0.0, cosine[1]]])
    about_z = np.array([[cosine[2], -sine[2], 0.0], [sine[2], cosine[2], 0.0], [0.0, 0.0, 1.0]])
    rotation: Matrix = about_z @ about_y @ about_x
    return rotation


class Compensation:
    """Applies what is known of the mounting, and a zero, to readings.

    Attributes
    ----------
    weight
        (6,) N, N m: of what hangs on the sensor, along its axes.
    zero
        (6,) N, N m, along the sensor's axes: what is taken off beside the weight.
    """

    def __init__(self, chosen: WrenchConfiguration) -> None:
        direction = np.array(chosen.gravity_direction)
        force = chosen.mass_kg * (STANDARD_GRAVITY_M_S2 * direction / np.linalg.norm(direction))
        self.weight: Vector = np.concatenate([force, np.cross(chosen.centre_of_mass_m, force)])
        self._chosen = chosen
        x, y, z = chosen.lever_arm_m
        sign, rotation = (1.0 if chosen.sign == "robot_on_sensor" else -1.0), rotation_of(chosen.mounting_rpy_deg)
        self._matrix = np.zeros((6, 6))
        self._matrix[:3, :3] = self._matrix[3:, 3:] = sign * rotation
        self._matrix[3:, :3] = -sign * rotation @ np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
        self.set_zero(np.zeros(6))

    def set_zero(self, zero: Vector) -> None:
        """(6,) N, N m, along the sensor's axes."""
        weight = self.weight if self._chosen.compensates_weight else np.zeros(6)
        self.zero, self._offset = zero, -self._matrix @ (zero + weight)

    def zero_at(self, mean: Vector) -> None:
        """Take a mean at rest (6,) as zero: all of it, or without the weight, so that the weight goes on being read."""
        self.set_zero(mean if self._chosen.tare_includes_weight else mean - self.weight)

    def __call__(self, readings: Matrix) -> Matrix:
        """(K, 6) wrenches to publish, of readings (K, 6)."""
        wrenches: Matrix = readings @ self._matrix.T + self._offset
        return wrenches


def mean_at_rest(readings: Matrix, largest_force_n: float, largest_torque_n_m: float) -> Vector:
    """(6,) mean of readings (K, 6) at rest.

    Parameters
    ----------
    largest_force_n, largest_torque_n_m
        Standard deviation of a resting sensor's readings, and drift over them, at most.

    Raises
    ------
    UserError
        There are too few, or they are not at rest; with the numbers.
    """
    if len(readings) < LEAST_READINGS:
        raise UserError(f"{len(readings)} readings, {LEAST_READINGS} are needed: is the sensor there?")
    third = len(readings) // 3
    drift = np.abs(readings[-third:].mean(axis=0) - readings[:third].mean(axis=0))
    moved = np.maximum(readings.std(axis=0), drift)
    force_n, torque_n_m = float(moved[:3].max()), float(moved[3:].max())
    if not (force_n <= largest_force_n and torque_n_m <= largest_torque_n_m):
        raise UserError(
            f"it is not at rest: the readings vary by {force_n:.3g} N and {torque_n_m:.3g} N m, at rest by at most "
            f"{largest_force_n:g} and {largest_torque_n_m:g}; let it hang still, then ask again"
        )
    mean: Vector = readings.mean(axis=0)
    return mean
