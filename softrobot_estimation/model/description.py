"""How a soft robot looks: a plate on the sensor, a backbone of short cylinders, a plate at the tip; its stiffness."""

from __future__ import annotations

from typing import Any

import numpy as np

from onboard_estimation.base.measurement import Estimate, Matrix
from onboard_estimation.contract.description import Shape, Shapes, joint_element, link_element, robot_element, urdf_text
from onboard_estimation.filtering.state_space import StateSpace
from onboard_estimation.learning.reduced_rank import LearnedFunction
from onboard_estimation.ros.sensor_messages import New, header
from softrobot_estimation.model.configuration import SPACE, SoftRobotConfiguration
from softrobot_estimation.model.constant_curvature import (
    ConstantCurvatureSegment,
    coordinates_of_tip,
    tip_quaternion_xyzw,
)
from softrobot_estimation.model.grey_box import GreyBox, undamped_segment

BASE, TIP = "base", "tip"
PIECES = 8
OUTLINE_POINTS = 17
CELLS = 16
"""Either way."""
_TRIANGLE_LIST = 11  # of visualization_msgs/msg/Marker
_REACH = 0.7
"""Share of the box in which stiffness is learned: at its edge it is what it was before, for sure."""
_SOFT, _STIFF = np.array([0.27, 0.0, 0.33]), np.array([0.99, 0.91, 0.14])
_COLOUR_SPAN = 0.3
"""Share of the configured stiffness, down and up, over which the colours go."""
_ALPHA = 0.85
_CORNERS = np.array([[0, 0], [1, 0], [1, 1], [0, 0], [1, 1], [0, 1]])
"""Of the two triangles of a cell."""


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


def body_poses(configuration: SoftRobotConfiguration, space: StateSpace, means: Matrix) -> dict[str, Matrix]:
    """Poses (K, 7) of all bodies in the base's frame, on the arc that ends at the tips of these means (K, .)."""
    segment, plate_m, states = _arcs(configuration, space, means)
    poses = {BASE: np.tile([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], (len(means), 1))}
    for number, name in enumerate(piece_names()):
        middle = (number + 0.5) / PIECES
        turned = np.hstack([middle * states[:, :2], states[:, 2:]])
        poses[name] = np.hstack([segment.position(states, middle), tip_quaternion_xyzw(turned)])
    poses[TIP] = np.hstack([segment.position(states, offset_m=plate_m), tip_quaternion_xyzw(states)])
    return poses


def _arcs(
    configuration: SoftRobotConfiguration, space: StateSpace, means: Matrix
) -> tuple[ConstantCurvatureSegment, float, Matrix]:
    """The segment, how far its tip is beyond it (m), and states (K, 6) in which the tip is there."""
    segment, plate_m = undamped_segment(configuration), configuration.segment.tip_plate_thickness_m
    q = coordinates_of_tip(segment, means[:, space.coordinates("position")], plate_m)
    return segment, plate_m, np.hstack([q, np.zeros_like(q)])


def outline(configuration: SoftRobotConfiguration, space: StateSpace, means: Matrix) -> Matrix:
    """Backbone (K, P, 2) as one sees it along the base's z: how far and where to it is bent."""
    segment, plate_m, states = _arcs(configuration, space, means)
    points = [segment.position(states, share)[:, :2] for share in np.linspace(0.0, 1.0, OUTLINE_POINTS)]
    return np.stack([*points, segment.position(states, offset_m=plate_m)[:, :2]], axis=1)


def urdf(configuration: SoftRobotConfiguration) -> str:
    """URDF document: all bodies, each free in the one before, for URDF knows nothing that bends."""
    robot, solids = robot_element("softrobot"), shapes(configuration)
    before = None
    for body, parts in solids.items():
        link_element(robot, body, parts)
        if before is not None:
            joint_element(robot, f"{before}_to_{body}", "floating", before, body)
        before = body
    return urdf_text(robot)


class StiffnessSurface:
    """The learned stiffness for RViz: where the tip can be, coloured by the stiffness there, transparent where unknown.

    In the frame of the estimates, which is the base's.
    """

    def __init__(self, new: New, configuration: SoftRobotConfiguration, frame: str) -> None:
        self._new, self._frame = new, frame
        self._box = GreyBox(configuration)
        reach = _REACH * configuration.learning.half_width_rad
        ticks = np.linspace(-reach, reach, CELLS + 1)
        cells = np.stack(np.meshgrid(np.arange(CELLS), np.arange(CELLS), indexing="ij"), axis=-1).reshape(-1, 1, 2)
        self._bending = ticks[(cells + _CORNERS).reshape(-1, 2)]
        # One marker that is written anew: to make so many messages takes longer than a filter has.
        self._marker = new(
            "visualization_msgs/msg/Marker",
            ns="stiffness_map",
            type=_TRIANGLE_LIST,
            pose=new("geometry_msgs/msg/Pose", orientation=new("geometry_msgs/msg/Quaternion", w=1.0)),
            scale=new("geometry_msgs/msg/Vector3", x=1.0, y=1.0, z=1.0),
            points=[new("geometry_msgs/msg/Point") for _ in self._bending],
            colors=[new("std_msgs/msg/ColorRGBA") for _ in self._bending],
        )

    def marker(self, learned: LearnedFunction, estimate: Estimate) -> Any:
        """`visualization_msgs/msg/Marker`: triangles at the elongation of now. The same message, written anew."""
        places, colours = self.triangles(learned, estimate)
        marker = self._marker
        marker.header = header(self._new, estimate.stamp_ns, self._frame)
        for point, place in zip(marker.points, places.tolist(), strict=True):
            point.x, point.y, point.z = place
        for colour, shade in zip(marker.colors, colours.tolist(), strict=True):
            colour.r, colour.g, colour.b, colour.a = shade
        return marker

    def triangles(self, learned: LearnedFunction, estimate: Estimate) -> tuple[Matrix, Matrix]:
        """Corners (3 T, 3), m, in the base's frame, and their colours (3 T, 4): violet is soft, yellow is stiff."""
        box, tip = self._box, estimate.mean[SPACE.coordinates("position")]
        elongation_m = coordinates_of_tip(box.segment, tip[None], box.beyond_m)[0, 2]
        shapes = np.column_stack([self._bending, np.full(len(self._bending), elongation_m)])
        mean, stddev = (values[:, 0] for values in learned.predict(shapes))
        states = np.hstack([shapes, np.zeros_like(shapes)])
        places = box.segment.position(states, offset_m=box.beyond_m)
        share = np.clip(0.5 + 0.5 * (mean / box.stiffness - 1.0) / _COLOUR_SPAN, 0.0, 1.0)[:, None]
        # As sure as the prior is: nothing was learned there.
        known = np.clip(1.0 - stddev / stddev.max(), 0.0, 1.0)
        return places, np.hstack([(1.0 - share) * _SOFT + share * _STIFF, _ALPHA * known[:, None]])
