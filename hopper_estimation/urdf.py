"""URDF of the hopper, for `robot_state_publisher` and RViz's RobotModel.

Its root is `body`, so that `base_link` -> `body` stays the estimator's; the leg hangs on it by a prismatic joint whose
position is the height of the foot in the body's frame: minus the standing height with the leg extended, and never above
the centre of mass.
"""

from __future__ import annotations

from xml.etree import ElementTree

from hopper_estimation.description import BODY, LEG, hopper_shapes
from onboard_estimation.description import number, robot_element, urdf_text, visual

JOINT = "leg_slide"

_FASTEST_M_S = 10.0
"""URDF asks for a limit of every joint's speed: that of a fall from 5 m."""


def hopper_urdf(standing_height_m: float, name: str = "hopper") -> str:
    """The URDF document, metres; the same lengths give the same text."""
    robot = robot_element(name)
    for link_name, shapes in hopper_shapes(standing_height_m).items():
        link = ElementTree.SubElement(robot, "link", name=link_name)
        for shape in shapes:
            visual(link, shape)
    joint = ElementTree.SubElement(robot, "joint", name=JOINT, type="prismatic")
    ElementTree.SubElement(joint, "parent", link=BODY)
    ElementTree.SubElement(joint, "child", link=LEG)
    ElementTree.SubElement(joint, "axis", xyz="0 0 1")
    limit = ElementTree.SubElement(joint, "limit", effort="0", velocity=number(_FASTEST_M_S))
    limit.set("lower", number(-standing_height_m))
    limit.set("upper", number(0.0))
    return urdf_text(robot)
