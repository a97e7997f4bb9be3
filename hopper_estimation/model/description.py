"""How the hopper looks: a quadrotor's body on a springy leg, seen from the side.

The state knows neither tilt nor leg length, so the robot is drawn upright. Its foot is drawn at the lower end of the
extended leg, or on the ground of the start where that end would be below it: there the leg slides through the body.

The root of the URDF, for `robot_state_publisher` and RViz's RobotModel, is `body`, so that `base_link` -> `body` stays
the estimator's; the leg hangs on it by a prismatic joint whose position is the height of the foot in the body's frame:
minus the standing height with the leg extended, and never above the centre of mass.
"""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.contract.description import Shape, joint_element, link_element, number, robot_element, urdf_text
from onboard_estimation.filtering.planar import HEIGHT
from onboard_estimation.filtering.state_space import StateSpace

BODY, LEG, JOINT = "body", "leg", "leg_slide"

_BODY_WIDTH, _BODY_HEIGHT = 0.35, 0.25
_ROTOR_REACH, _ROTOR_DIAMETER, _ROTOR_HEIGHT, _ROTOR_ABOVE = 0.35, 0.45, 0.03, 0.2
_LEG_DIAMETER, _FOOT_DIAMETER, _FOOT_HEIGHT = 0.05, 0.12, 0.06
"""As shares of the standing height, which the paper gives; it gives no other lengths."""
_FASTEST_M_S = 10.0
"""URDF asks for a limit of every joint's speed: that of a fall from 5 m."""


def hopper_shapes(standing_height_m: float) -> dict[str, tuple[Shape, ...]]:
    """Solids of `body`, in its centre of mass, and of `leg`, at the foot; z along the leg, upwards.

    Parameters
    ----------
    standing_height_m
        Height of the centre of mass above the foot with the leg extended.
    """

    def lengths(x: float, y: float, z: float) -> tuple[float, float, float]:
        return standing_height_m * x, standing_height_m * y, standing_height_m * z

    rotor = lengths(_ROTOR_DIAMETER, _ROTOR_DIAMETER, _ROTOR_HEIGHT)
    corners = (
        lengths(x * _ROTOR_REACH, y * _ROTOR_REACH, _ROTOR_ABOVE) for x, y in ((1, 1), (-1, 1), (-1, -1), (1, -1))
    )
    rotors = (Shape("cylinder", rotor, corner, part="wheel") for corner in corners)
    body = Shape("box", lengths(_BODY_WIDTH, _BODY_WIDTH, _BODY_HEIGHT))
    leg = Shape("cylinder", lengths(_LEG_DIAMETER, _LEG_DIAMETER, 1.0), lengths(0.0, 0.0, 0.5))
    foot_size, middle = lengths(_FOOT_DIAMETER, _FOOT_DIAMETER, _FOOT_HEIGHT), lengths(0.0, 0.0, 0.5 * _FOOT_HEIGHT)
    return {BODY: (body, *rotors), LEG: (leg, Shape("cylinder", foot_size, middle, part="joint"))}


def hopper_body_poses(
    space: StateSpace, means: NDArray[np.float64], standing_height_m: float
) -> dict[str, NDArray[np.float64]]:
    """Poses (K, 7) of `body` and `leg` at the states (K, a): position (m) and quaternion x, y, z, w."""
    height_m = means[:, space.coordinates(HEIGHT).start]
    return {BODY: _upright(height_m), LEG: _upright(np.maximum(height_m - standing_height_m, 0.0))}


def _upright(height_m: NDArray[np.float64]) -> NDArray[np.float64]:
    poses = np.zeros((len(height_m), 7))
    poses[:, 2], poses[:, 6] = height_m, 1.0
    return poses


def hopper_urdf(standing_height_m: float, name: str = "hopper") -> str:
    """The URDF document, metres; the same lengths give the same text."""
    robot = robot_element(name)
    for link_name, shapes in hopper_shapes(standing_height_m).items():
        link_element(robot, link_name, shapes)
    joint = joint_element(robot, JOINT, "prismatic", BODY, LEG)
    ElementTree.SubElement(joint, "axis", xyz="0 0 1")
    limits = {"effort": 0.0, "velocity": _FASTEST_M_S, "lower": -standing_height_m, "upper": 0.0}
    ElementTree.SubElement(joint, "limit", {name: number(value) for name, value in limits.items()})
    return urdf_text(robot)
