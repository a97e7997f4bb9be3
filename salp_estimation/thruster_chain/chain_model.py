"""What the kernels are told about a chain: places of pins, thrusters and IMUs, and the smooth forces around it.

Masses and inertias are not part of it: they are estimated, so every state brings its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from onboard_estimation.errors import UserError
from onboard_estimation.measurement import Matrix, Vector

# Columns of `ChainModel.links`; places are seen from the centre of mass, in the link's frame.
BEHIND_X, BEHIND_Y, AHEAD_X, AHEAD_Y = range(4)
THRUST_X, THRUST_Y, THRUST_ARM = range(4, 7)  # force and torque of a thrust of one newton
DRAG_ALONG, DRAG_ACROSS, DRAG_TURNING = range(7, 10)
QUADRATIC_ALONG, QUADRATIC_ACROSS, QUADRATIC_TURNING = range(10, 13)
JOINT_FRICTION = 13  # of the joint behind the link
IMU_X, IMU_Y, IMU_COSINE, IMU_SINE = range(14, 18)
COLUMNS = 18


class ImuModel(IntEnum):
    """What IMUs on the links read, see `dynamics`."""

    PAPER = 0
    PHYSICAL = 1


class ChainModel(NamedTuple):
    """A planar chain of links for the kernels of `dynamics`.

    Attributes
    ----------
    links
        (N, COLUMNS), see the names above.
    gravity
        (2,) its part in the plane of motion, in the room's frame: zero where the plane is level, m/s^2.
    pivoted
        Whether the first pin is held by the room; else the chain floats.
    """

    links: Matrix
    gravity: Vector
    pivoted: bool = False

    @classmethod
    def build(
        cls,
        behind: ArrayLike,
        ahead: ArrayLike,
        thruster_angles: ArrayLike = 0.0,
        thruster_places: ArrayLike = (0.0, 0.0),
        drag: ArrayLike = (0.0, 0.0, 0.0),
        quadratic_drag: ArrayLike = (0.0, 0.0, 0.0),
        joint_friction: ArrayLike = 0.0,
        imu_places: ArrayLike = (0.0, 0.0),
        imu_angles: ArrayLike = 0.0,
        gravity: Sequence[float] = (0.0, 0.0),
        pivoted: bool = False,
    ) -> ChainModel:
        """From one row per link, or one for all links; places are seen from the centre of mass, in the link's frame.

        Parameters
        ----------
        behind, ahead
            (N, 2) pins towards the link before and towards the next, m.
        thruster_angles
            From the link's x to the thrust, counter-clockwise, rad.
        thruster_places, imu_places
            (2,) or (N, 2), m.
        drag, quadratic_drag
            (3,) or (N, 3) against motion along the link, across it, and against turning: N s/m, N s/m, N m s, and
            N s^2/m^2, N s^2/m^2, N m s^2.
        joint_friction
            Viscous, of the joint behind each link, N m s. The first is the pivot's, and nothing's without one.
        imu_angles
            From the link's x to the IMU's, counter-clockwise, rad.

        Raises
        ------
        UserError
            Pins in one place, friction or drag below zero, numbers that are none.
        """
        links = np.zeros((len(np.asarray(behind)), COLUMNS))
        links[:, BEHIND_X : BEHIND_Y + 1], links[:, AHEAD_X : AHEAD_Y + 1] = behind, ahead
        thrust = np.column_stack([np.cos(thruster_angles), np.sin(thruster_angles)])
        links[:, THRUST_X : THRUST_Y + 1] = thrust
        x, y = np.asarray(thruster_places, dtype=np.float64).T
        links[:, THRUST_ARM] = x * links[:, THRUST_Y] - y * links[:, THRUST_X]
        links[:, DRAG_ALONG : DRAG_TURNING + 1] = drag
        links[:, QUADRATIC_ALONG : QUADRATIC_TURNING + 1] = quadratic_drag
        links[:, JOINT_FRICTION] = joint_friction
        if not pivoted:
            links[0, JOINT_FRICTION] = 0.0
        links[:, IMU_X : IMU_Y + 1] = imu_places
        links[:, IMU_COSINE], links[:, IMU_SINE] = np.cos(imu_angles), np.sin(imu_angles)
        model = cls(links, np.array(gravity, dtype=np.float64), pivoted)
        model.check()
        return model

    @classmethod
    def rods(
        cls,
        lengths_m: ArrayLike,
        thruster_angles: ArrayLike = 0.0,
        thruster_places: ArrayLike = (0.0, 0.0),
        imu_places: ArrayLike = (0.0, 0.0),
    ) -> ChainModel:
        """The paper's chain: centres of mass halfway between the pins, and no forces but thrust; see `build`."""
        half = 0.5 * np.asarray(lengths_m, dtype=np.float64)
        ahead = np.column_stack([half, np.zeros_like(half)])
        return cls.build(-ahead, ahead, thruster_angles, thruster_places, imu_places=imu_places)

    def check(self) -> None:
        """Raise UserError where no chain is like that."""
        if not (np.isfinite(self.links).all() and np.isfinite(self.gravity).all()):
            raise UserError("the chain's model has numbers that are infinite or none: give each link finite ones")
        length = np.hypot(
            self.links[:, AHEAD_X] - self.links[:, BEHIND_X], self.links[:, AHEAD_Y] - self.links[:, BEHIND_Y]
        )
        for link in np.flatnonzero(length <= 0.0):
            raise UserError(f"link {link + 1} has no length: its two pins lie in one place; lengths must be positive")
        resistance = self.links[:, DRAG_ALONG : JOINT_FRICTION + 1]
        for link in np.flatnonzero((resistance < 0.0).any(axis=1)):
            least = resistance[link].min()
            raise UserError(f"link {link + 1} has a drag or friction of {least:g}: they must not be negative")


def checked_inertia(mass: ArrayLike, inertia: ArrayLike, count: int) -> tuple[Vector, Vector]:
    """Masses (N,) and inertias (N,) as arrays; UserError unless there is one positive number for each link."""
    checked = []
    for name, unit, values in (("mass", "kg", mass), ("inertia", "kg m^2", inertia)):
        array = np.asarray(values, dtype=np.float64)
        if array.shape != (count,):
            raise UserError(f"{array.size} values of {name} given, {count} links need {count}")
        for link in np.flatnonzero(~((array > 0.0) & np.isfinite(array))):
            raise UserError(f"{name} of link {link + 1}: {array[link]:g} {unit}; it must be positive")
        checked.append(array)
    return checked[0], checked[1]
