"""Robots with figures, notes and diagrams of their own in the report of a run."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.series import Series
from onboard_estimation.contract.description import Shapes
from onboard_estimation.contract.result import EvaluationResult, Note, ReportSection
from onboard_estimation.contract.robot import Capability, Configuration, Robot
from onboard_estimation.filtering.state_space import StateSpace


class Reported(Capability[Configuration]):
    """A robot that adds to the report of a run; each part may be left out.

    In all of them `series` is what was measured and commanded, one of each sensor, as it was replayed, and `result` the
    judged run: estimates, errors and truth by part.
    """

    ability = "report of its own"

    def metrics(
        self, configuration: Configuration, series: Sequence[Series], result: EvaluationResult
    ) -> dict[str, Any]:
        """Figures of this kind of robot alone, for `metrics.json` under the robot's name.

        Numbers, or mappings of them, by names with their units. The notes and sections come after, and find these
        figures in `result.metrics`.
        """
        return {}

    def notes(
        self, configuration: Configuration, series: Sequence[Series], result: EvaluationResult
    ) -> tuple[Note, ...]:
        """What the reader of an evaluation must know of this kind of robot alone."""
        return ()

    def stretches(self, configuration: Configuration, result: EvaluationResult) -> dict[str, NDArray[np.bool_]]:
        """Stretches of a run whose consistency is judged each on its own, such as phases.

        Returns
        -------
        (K,) where each is, by words that stand behind a quantity's name in a sentence: `while dropping`.
        """
        return {}

    def presented(
        self, configuration: Configuration, series: Sequence[Series], result: EvaluationResult
    ) -> EvaluationResult:
        """The result with what the report of this kind of robot begins with: key figures, drawing, phases."""
        return result

    def report_sections(
        self, configuration: Configuration, series: Sequence[Series], result: EvaluationResult
    ) -> tuple[ReportSection, ...]:
        """What the report of an evaluation shows of this kind of robot alone."""
        return ()


# Robots of more than one body, which are drawn with all of them.

Rows = NDArray[np.float64]


class Drawn(Capability[Configuration]):
    """A robot with bodies of its own: tf frames, markers, a URDF. One without is drawn as a point."""

    ability = "URDF or bodies to draw"

    @abstractmethod
    def body_poses(self, configuration: Configuration, space: StateSpace, means: Rows) -> dict[str, Rows]:
        """Poses (K, 7) of its bodies, in the order of their tf frames, at the states (K, a): position, quaternion."""

    @abstractmethod
    def body_shapes(self, configuration: Configuration) -> Shapes:
        """Solids of its bodies, for markers and URDF."""

    @abstractmethod
    def urdf(self, configuration: Configuration) -> str:
        """URDF for `robot_state_publisher`."""

    def outline(self, configuration: Configuration, space: StateSpace, means: Rows) -> Rows | None:
        """Polyline (K, P, 2) in metres from above at the states (K, a); None where the state has no position.

        By default a point.
        """
        return point_outline(space, means)


def poses_of_bodies(robot: Robot[Any], configuration: Any, space: StateSpace, means: Rows) -> dict[str, Rows]:
    """Poses of a robot's bodies, see `Drawn`; none where it is a single body."""
    return robot.body_poses(configuration, space, means) if isinstance(robot, Drawn) else {}


def shapes_of_bodies(robot: Robot[Any], configuration: Any) -> Shapes:
    """Solids of a robot's bodies, see `Drawn`; none where it is a single body."""
    return robot.body_shapes(configuration) if isinstance(robot, Drawn) else {}


def outline_of(robot: Robot[Any], configuration: Any, space: StateSpace, means: Rows) -> Rows | None:
    """A robot from above, see `Drawn`; a point where it is a single body."""
    return robot.outline(configuration, space, means) if isinstance(robot, Drawn) else point_outline(space, means)


def planar_position(space: StateSpace) -> slice | None:
    """Where x and y stand in a state's coordinates: in a block `pose` or `position`; None where there is neither."""
    for block in space.blocks:
        if block.name in ("pose", "position") and block.units[:2] == ("m", "m"):
            start = space.coordinates(block.name).start
            return slice(start, start + 2)
    return None


def point_outline(space: StateSpace, means: Rows) -> Rows | None:
    """The position (K, 1, 2) as a polyline of one point; None where the state has none."""
    position = planar_position(space)
    return None if position is None else means[:, None, position]
