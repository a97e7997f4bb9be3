"""The learned stiffness for RViz: where the tip can be, coloured by the stiffness there, transparent where unknown."""

from __future__ import annotations

from typing import Any

import numpy as np

from onboard_estimation.base.measurement import Estimate, Matrix
from onboard_estimation.learning.reduced_rank import LearnedFunction
from onboard_estimation.ros.sensor_messages import New, header
from softrobot_estimation.model.channels import SPACE
from softrobot_estimation.model.configuration import SoftRobotConfiguration
from softrobot_estimation.model.constant_curvature import coordinates_of_tip
from softrobot_estimation.model.grey_box import GreyBox

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


class StiffnessSurface:
    """Makes the marker; in the frame of the estimates, which is the base's."""

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
