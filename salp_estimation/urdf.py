"""URDF of a chain, for `robot_state_publisher` and RViz's RobotModel.

Its root is the first link, so that `base_link` -> `link_1` stays the estimator's. Frames `link_i` lie at the centres of
the links, as everywhere else here, but a URDF joint turns the frame that it carries: so each joint carries a frame
`<link>_hinge` at the link's rear end, and the link hangs on it. Joints are named as in `joint_states`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np

from onboard_estimation.description import Shapes, number, origin, robot_element, urdf_text, visual
from salp_estimation.configuration import ChainConfiguration
from salp_estimation.description import chain_shapes

HINGE = "_hinge"

_FASTEST_RAD_S = 2.0 * math.pi
"""URDF asks for a limit of every joint's speed; the chain's joints are passive, nothing is known of one."""


def chain_urdf(chain: ChainConfiguration, name: str = "salp") -> str:
    """The URDF document of a chain, metres and radians; the same configuration gives the same text."""
    names = chain.build().space().block("joint_angles").names
    limits = np.deg2rad(np.column_stack([chain.joint_lower_deg, chain.joint_upper_deg])).tolist()
    hinges = [
        Hinge(name, lower, upper, drag)
        for name, (lower, upper), drag in zip(names, limits, chain.joint_drag, strict=True)
    ]
    return links_urdf(name, chain.link_names, chain.link_lengths_m, hinges, chain_shapes(chain))


class Hinge(NamedTuple):
    """A joint between two links: name, limits (rad) and damping (N m s)."""

    name: str
    lower_rad: float
    upper_rad: float
    damping: float


def links_urdf(
    name: str, link_names: Sequence[str], lengths_m: Sequence[float], hinges: Sequence[Hinge], shapes: Shapes
) -> str:
    """The URDF document of links that hang together at their ends; `shapes` are in the frames of their middles."""
    robot = robot_element(name)
    for index, link_name in enumerate(link_names):
        if index > 0:
            hinge, half_before, half = hinges[index - 1], 0.5 * lengths_m[index - 1], 0.5 * lengths_m[index]
            ElementTree.SubElement(robot, "link", name=link_name + HINGE)
            joint = _joint(robot, hinge.name, "revolute", link_names[index - 1], link_name + HINGE)
            origin(joint, (half_before, 0.0, 0.0))
            ElementTree.SubElement(joint, "axis", xyz="0 0 1")
            limit = ElementTree.SubElement(joint, "limit", effort="0", velocity=number(_FASTEST_RAD_S))
            limit.set("lower", number(hinge.lower_rad))
            limit.set("upper", number(hinge.upper_rad))
            ElementTree.SubElement(joint, "dynamics", damping=number(hinge.damping), friction="0")
            fixed = _joint(robot, link_name + HINGE + "_to_link", "fixed", link_name + HINGE, link_name)
            origin(fixed, (half, 0.0, 0.0))
        link = ElementTree.SubElement(robot, "link", name=link_name)
        for shape in shapes[link_name]:
            visual(link, shape)
    return urdf_text(robot)


def _joint(robot: ElementTree.Element, name: str, kind: str, parent: str, child: str) -> ElementTree.Element:
    joint = ElementTree.SubElement(robot, "joint", name=name, type=kind)
    ElementTree.SubElement(joint, "parent", link=parent)
    ElementTree.SubElement(joint, "child", link=child)
    return joint
