"""Estimate and truth of a robot as `visualization_msgs/msg/Marker` for RViz, without ROS.

    scene = Scene(new, robot, configuration, space, prefix="salp/")
    publisher.publish(scene.array([*scene.estimate(estimate), *scene.truth(stamp_ns, bodies), *scene.text(estimate)]))

Markers of the estimate are in `[prefix]odom`, or whatever frame the estimate is in; those of the truth in `world`.
Each has a namespace, which RViz can switch, and an id that stays from picture to picture, so that new ones replace old.

| namespace | what |
|---|---|
| `estimate`, `truth` | the bodies: boxes, wheels, joints; the outline of a robot without them |
| `position_95` | ellipse that holds the base's position with 95 % probability |
| `heading_95` | wedge that holds its heading with 95 % probability |
| `height_95` | of a robot of which only the height is known: beside it, the interval that holds it with 95 % |
| `bodies_95` | ellipses of the bodies' positions, with the joint angles' part in it |
| `estimate_path`, `truth_path` | the way so far |
| `error` | error against the truth and standard deviations |
| `legend` | which colour is which |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.base.measurement import Estimate, Vector
from onboard_estimation.contract import picture
from onboard_estimation.contract.description import Shape
from onboard_estimation.contract.reported import outline_of, poses_of_bodies, shapes_of_bodies
from onboard_estimation.contract.robot import Robot
from onboard_estimation.filtering.state_space import StateSpace
from onboard_estimation.ros.sensor_messages import New, axes, header
from onboard_estimation.ros.sensor_messages import pose as pose_message
from onboard_estimation.ros.transforms import ODOM, WORLD, composed, from_roll_pitch_yaw

# Constants of visualization_msgs/msg/Marker.
CUBE, SPHERE, CYLINDER, LINE_STRIP, LINE_LIST, TEXT, TRIANGLE_LIST = 1, 2, 3, 4, 5, 9, 11
ADD, DELETE_ALL = 0, 3

_MARKER = "visualization_msgs/msg/Marker"
_SHADE = {"body": 1.0, "wheel": 0.55, "joint": 0.35}
"""Brightness of a part's colour."""
_LETTERS, _LINE_WIDTH, _ABOVE, _WEDGE = 0.055, 0.008, 0.05, 0.35
"""As shares of the robot's length: letters, lines, height of what is drawn over the robot, radius of the wedge."""
_SPACE = 0.3
"""Width of a space, as share of the letters' height."""
_BESIDE, _CAP, _ASIDE = 0.3, 0.05, 0.8
"""Of a robot seen from the side: distance of the bar along x, half-width of its ends, distance of the legend."""
_WHITE = "#F0F0F0"


class _Place(NamedTuple):
    """Middle of the robot (3,), m; direction (3,) that is up in the picture; the height, of one seen from the side."""

    middle: Vector
    up: Vector
    height: picture.HeightUncertainty | None = None


class Scene:
    """Markers of one robot.

    Parameters
    ----------
    new
        Makes a message from its type's name and fields, as for `EstimateMessages`.
    robot, configuration, space
        What is drawn.
    prefix
        Before the name of the estimate's frame, with its slash.
    frame
        Of the estimates: `odom`, or `map`.
    ink
        Colour of letters and of the position's ellipse: RViz's background is dark.
    """

    def __init__(
        self,
        new: New,
        robot: Robot,
        configuration: Any,
        space: StateSpace,
        prefix: str = "",
        frame: str = ODOM,
        ink: str = _WHITE,
    ) -> None:
        self.space = space
        self._ink = ink
        self._new, self._robot, self._configuration = new, robot, configuration
        self._frame = prefix + frame
        self._shapes = shapes_of_bodies(robot, configuration)
        self._size = picture.size_m(robot, configuration, space)

    def array(self, markers: Iterable[Any]) -> Any:
        """The `visualization_msgs/msg/MarkerArray` of all of them."""
        return self._new("visualization_msgs/msg/MarkerArray", markers=list(markers))

    def clear(self, stamp_ns: int) -> list[Any]:
        """Takes away all that was drawn: at a reset, before the rest of an array."""
        return [self._marker(stamp_ns, self._frame, "", 0, CUBE, _WHITE, action=DELETE_ALL)]

    def picture(
        self,
        estimate: Estimate,
        bodies: Mapping[str, Vector],
        ways: Iterable[ArrayLike],
        truth: Mapping[str, Vector] | None,
    ) -> list[Any]:
        """All of an instant but the legend: see `estimate`, `truth`, `path` (of the estimate, of the truth), `text`."""
        stamp_ns = estimate.stamp_ns
        drawn = [*self.estimate(estimate), *self.truth(stamp_ns, bodies)]
        for way, is_truth in zip(ways, (False, True), strict=True):
            drawn += self.path(stamp_ns, way, is_truth)
        return drawn + self.text(estimate, truth)

    def estimate(self, estimate: Estimate) -> list[Any]:
        """The robot where the estimate has it, and how sure that is."""
        stamp_ns = estimate.stamp_ns
        poses = poses_of_bodies(self._robot, self._configuration, self.space, estimate.mean[None])
        bodies = {name: pose[0] for name, pose in poses.items() if name in self._shapes}
        colour = picture.ESTIMATE_COLOUR
        drawn = self._bodies(stamp_ns, self._frame, "estimate", bodies, colour)
        outline = None
        if not drawn:
            outline = outline_of(self._robot, self._configuration, self.space, estimate.mean[None])
        if outline is not None:
            drawn = [self._outline(stamp_ns, outline[0])]
        return drawn + self._uncertainty(estimate)

    def truth(self, stamp_ns: int, bodies: Mapping[str, Vector]) -> list[Any]:
        """The bodies where motion capture has them: poses (7,) or positions (3,) in the world."""
        full = {name: np.concatenate([pose, [0.0, 0.0, 0.0, 1.0]])[:7] for name, pose in bodies.items()}
        return self._bodies(stamp_ns, WORLD, "truth", full, picture.TRUTH_COLOUR)

    def path(self, stamp_ns: int, points: ArrayLike, truth: bool = False) -> list[Any]:
        """The way so far, (K, 2) or (K, 3) in metres; none of fewer than two points."""
        rows = np.asarray(points, dtype=np.float64)
        if len(rows) < 2:
            return []
        frame, name = (WORLD, "truth_path") if truth else (self._frame, "estimate_path")
        colour = picture.TRUTH_COLOUR if truth else picture.ESTIMATE_COLOUR
        return [self._lines(stamp_ns, name, LINE_STRIP, rows, colour, alpha=0.8, frame=frame)]

    def text(self, estimate: Estimate, truth: Mapping[str, Vector] | None = None) -> list[Any]:
        """Errors and standard deviations beside the robot; `truth` as `picture.error_rows` takes it."""
        place = self._place(estimate)
        if place is None:
            return []
        rows = picture.error_rows(self.space, estimate, truth)
        words = picture.error_text(rows)
        height = _LETTERS * self._size
        # RViz centres a text on its place: it is raised by half of its lines, to stand clear of the robot.
        raised = place.middle + (0.35 * self._size + 0.5 * height * (words.count("\n") + 1)) * place.up
        return [self._letters(estimate.stamp_ns, "error", 0, words, raised, self._ink)]

    def legend(self, estimate: Estimate, truth: bool = True) -> list[Any]:
        """`estimate` and `truth` in their colours, below the robot; in front of a robot that is seen from the side."""
        place = self._place(estimate)
        if place is None:
            return []
        shown = "95 % bar" if place.height is not None else "95 % ellipses"
        entries = [(f"estimate, {shown}", picture.ESTIMATE_COLOUR)]
        entries += [("truth", picture.TRUTH_COLOUR)] if truth else []
        step = 1.3 * _LETTERS * self._size
        first = place.middle - 0.35 * self._size * place.up
        if place.height is not None:
            first = np.array([-_ASIDE * self._size, 0.0, 2.0 * step])
        return [
            self._letters(estimate.stamp_ns, "legend", index, words, first - index * step * place.up, colour)
            for index, (words, colour) in enumerate(entries)
        ]

    def _bodies(
        self, stamp_ns: int, frame: str, namespace: str, bodies: Mapping[str, Vector], colour: str
    ) -> list[Any]:
        ball = (Shape("box", (0.3 * self._size,) * 3),)  # of a body that nobody says more of
        solids = [(pose, shape) for name, pose in bodies.items() for shape in self._shapes.get(name, ball)]
        alpha = 0.9 if namespace == "estimate" else 0.45
        return [
            self._marker(
                stamp_ns,
                frame,
                namespace,
                index,
                CUBE if shape.kind == "box" else CYLINDER,
                colour,
                alpha,
                _SHADE[shape.part],
                pose=pose_message(
                    self._new, composed(pose, from_roll_pitch_yaw([*shape.position_m, *shape.rpy_rad])).tolist()
                ),
                scale=axes(self._new, "Vector3", shape.size_m),
            )
            for index, (pose, shape) in enumerate(solids)
        ]

    def _outline(self, stamp_ns: int, points: NDArray[np.float64]) -> Any:
        colour = picture.ESTIMATE_COLOUR
        if len(points) == 1:
            pose = pose_message(self._new, [*points[0].tolist(), 0.0, 0.0, 0.0, 0.0, 1.0])
            size = axes(self._new, "Vector3", [0.3 * self._size] * 3)
            return self._marker(stamp_ns, self._frame, "estimate", 0, SPHERE, colour, 0.9, pose=pose, scale=size)
        return self._lines(stamp_ns, "estimate", LINE_STRIP, points, colour, width=4.0)

    def _uncertainty(self, estimate: Estimate) -> list[Any]:
        stamp_ns, above = estimate.stamp_ns, _ABOVE * self._size
        height = picture.height_uncertainty(self.space, estimate)
        if height is not None:
            bar = picture.bar(height, _BESIDE * self._size, _CAP * self._size).reshape(-1, 3)
            return [self._lines(stamp_ns, "height_95", LINE_LIST, bar, picture.BAND_COLOUR)]
        base = picture.base_uncertainty(self.space, estimate)
        if base is None:
            return []
        outline = picture.ellipse(base.position_m, base.covariance_m2)
        above += base.height_m
        out = [self._lines(stamp_ns, "position_95", LINE_STRIP, outline, self._ink, above)]
        arc = picture.wedge(base, _WEDGE * self._size)
        if arc is not None:
            fan = np.stack([np.broadcast_to(base.position_m, arc[1:].shape), arc[:-1], arc[1:]], axis=1).reshape(-1, 2)
            unit, rows = axes(self._new, "Vector3", [1.0, 1.0, 1.0]), self.points(fan, above)
            look: tuple[Any, ...] = (TRIANGLE_LIST, picture.BAND_COLOUR, 0.5)
            out.append(self._marker(stamp_ns, self._frame, "heading_95", 0, *look, scale=unit, points=rows))
        segments = []
        poses = poses_of_bodies(self._robot, self._configuration, self.space, estimate.mean[None])
        covariances = picture.body_covariances(self._robot, self._configuration, self.space, estimate) if poses else {}
        for name, covariance in covariances.items():
            outline = picture.ellipse(poses[name][0, :2], covariance)
            flat = np.stack([outline[:-1], outline[1:]], axis=1).reshape(-1, 2)
            height = poses[name][0, 2] + _ABOVE * self._size
            segments.append(np.column_stack([flat, np.full(len(flat), height)]))
        if segments:
            out.append(self._lines(stamp_ns, "bodies_95", LINE_LIST, np.vstack(segments), picture.BAND_COLOUR))
        return out

    def _lines(
        self,
        stamp_ns: int,
        namespace: str,
        kind: int,
        rows: NDArray[np.float64],
        colour: str,
        height_m: float = 0.0,
        alpha: float = 0.9,
        width: float = 1.0,
        frame: str = "",
    ) -> Any:
        """Lines through points (K, 2), at that height, or (K, 3); by default in the frame of the estimate."""
        scale = axes(self._new, "Vector3", [width * _LINE_WIDTH * self._size, 0.0, 0.0])
        fields = {"scale": scale, "points": self.points(rows, height_m)}
        return self._marker(stamp_ns, frame or self._frame, namespace, 0, kind, colour, alpha, **fields)

    def _place(self, estimate: Estimate) -> _Place | None:
        """Where the robot is in the picture; None where its state does not say."""
        height = picture.height_uncertainty(self.space, estimate)
        if height is not None:
            return _Place(np.array([0.0, 0.0, height.height_m]), np.array([0.0, 0.0, 1.0]), height)
        base = picture.base_uncertainty(self.space, estimate)
        return None if base is None else _Place(np.append(base.position_m, base.height_m), np.array([0.0, 1.0, 0.0]))

    def _letters(self, stamp_ns: int, namespace: str, index: int, words: str, place: Vector, colour: str) -> Any:
        height = _LETTERS * self._size
        # RViz takes the width of a space from x; without it, that of letters a metre high.
        scale = axes(self._new, "Vector3", [_SPACE * height, 0.0, height])
        pose = pose_message(self._new, [*place.tolist(), 0.0, 0.0, 0.0, 1.0])
        return self._marker(stamp_ns, self._frame, namespace, index, TEXT, colour, pose=pose, scale=scale, text=words)

    def _marker(
        self,
        stamp_ns: int,
        frame: str,
        namespace: str,
        index: int,
        kind: int,
        colour: str,
        alpha: float = 1.0,
        shade: float = 1.0,
        action: int = ADD,
        **fields: Any,
    ) -> Any:
        red, green, blue = (shade * int(colour[at : at + 2], 16) / 255.0 for at in (1, 3, 5))
        return self._new(
            _MARKER,
            header=header(self._new, stamp_ns, frame),
            ns=namespace,
            id=index,
            type=kind,
            action=action,
            color=self._new("std_msgs/msg/ColorRGBA", r=red, g=green, b=blue, a=alpha),
            lifetime=self._new("builtin_interfaces/msg/Duration", sec=0, nanosec=0),  # until it is renewed
            **fields,
        )

    def points(self, rows: NDArray[np.float64], height_m: float = 0.0) -> Any:
        """As a marker has them: places (K, 2), at that height, or (K, 3)."""
        return [axes(self._new, "Point", [*row, height_m][:3]) for row in rows.tolist()]
