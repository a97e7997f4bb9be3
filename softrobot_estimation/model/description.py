"""How a soft robot looks: a plate on the sensor, a backbone of short cylinders, a plate at the tip."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np

from onboard_estimation.base.measurement import Matrix
from onboard_estimation.contract.description import Shape, Shapes, robot_element, urdf_text, visual
from softrobot_estimation.model.configuration import SoftRobotConfiguration
from softrobot_estimation.model.constant_curvature import coordinates_of_tip, tip_quaternion_xyzw
from softrobot_estimation.model.grey_box import undamped_segment

BASE, TIP = "base", "tip"
PIECES = 8
OUTLINE_POINTS = 17


def piece_names() -> list[str]:
    """Of the backbone, from the base on."""
    return [f"backbone_{number}" for number in range(1, PIECES + 1)]


def shapes(configuration: SoftRobotConfiguration) -> Shapes:
    """Solids in the frames of their bodies, each with z along the backbone, towards the tip."""
    segment = configuration.segment
    behind = abs(configuration.wrench.origin_in_base_m[2]) or segment.tip_plate_thickness_m
    length, plate = segment.length_m / PIECES, segment.tip_plate_thickness_m or 0.1 * segment.length_m / PIECES
    wide = segment.diameter_m
    piece = (Shape("cylinder", (0.9 * wide, 0.9 * wide, length)),)
    return {
        BASE: (Shape("cylinder", (wide, wide, behind), (0.0, 0.0, -0.5 * behind), part="joint"),),
        **dict.fromkeys(piece_names(), piece),
        TIP: (Shape("cylinder", (wide, wide, plate), (0.0, 0.0, -0.5 * plate), part="wheel"),),
    }


def body_poses(configuration: SoftRobotConfiguration, tips: Matrix) -> dict[str, Matrix]:
    """Poses (K, 7) of all bodies in the base's frame, on the arc that ends at the tips (K, 3), m."""
    segment, plate_m = undamped_segment(configuration), configuration.segment.tip_plate_thickness_m
    states = np.zeros((len(tips), 6))
    states[:, :3] = coordinates_of_tip(segment, tips, plate_m)
    poses = {BASE: np.tile([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], (len(tips), 1))}
    for number, name in enumerate(piece_names()):
        middle = (number + 0.5) / PIECES
        turned = np.hstack([middle * states[:, :2], states[:, 2:]])
        poses[name] = np.hstack([segment.position(states, middle), tip_quaternion_xyzw(turned)])
    poses[TIP] = np.hstack([segment.position(states, offset_m=plate_m), tip_quaternion_xyzw(states)])
    return poses


def outline(configuration: SoftRobotConfiguration, tips: Matrix) -> Matrix:
    """Backbone (K, P, 2) as one sees it along the base's z: how far and where to it is bent."""
    segment, plate_m = undamped_segment(configuration), configuration.segment.tip_plate_thickness_m
    states = np.zeros((len(tips), 6))
    states[:, :3] = coordinates_of_tip(segment, tips, plate_m)
    points = [segment.position(states, share)[:, :2] for share in np.linspace(0.0, 1.0, OUTLINE_POINTS)]
    return np.stack([*points, segment.position(states, offset_m=plate_m)[:, :2]], axis=1)


def urdf(configuration: SoftRobotConfiguration, name: str) -> str:
    """URDF document: all bodies, each free in the one before, for URDF knows nothing that bends."""
    robot, solids = robot_element(name), shapes(configuration)
    before = None
    for body, parts in solids.items():
        link = ElementTree.SubElement(robot, "link", name=body)
        for shape in parts:
            visual(link, shape)
        if before is not None:
            joint = ElementTree.SubElement(robot, "joint", name=f"{before}_to_{body}", type="floating")
            ElementTree.SubElement(joint, "parent", link=before)
            ElementTree.SubElement(joint, "child", link=body)
        before = body
    return urdf_text(robot)
