"""Names of a robot's frames, and the transform from `map` to `odom` that takes up what is set from outside.

`world` -> `map` -> `odom` -> `base_link`: the filter's state lives in `map`. A pose set from outside makes it jump
there; `odom` -> `base_link`, and with it the odometry, must not (REP-105), so `map` -> `odom` takes the jump.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onboard_estimation.filtering.manifold_kernels import SE2
from onboard_estimation.filtering.state_space import StateSpace
from onboard_estimation.measurement import Estimate, Vector

AUTOMATIC = "auto"


def resolved_prefix(asked: str, namespace: str) -> str:
    """What goes before the names of frames: what was asked for, `auto` meaning the node's namespace; with a slash."""
    prefix = namespace if asked == AUTOMATIC else asked
    prefix = prefix.strip("/")
    return f"{prefix}/" if prefix else ""


class MapToOdom:
    """Planar transform from `map` to `odom`: the identity until a pose is set.

    Parameters
    ----------
    space
        Of the estimates; only those with a planar `pose` can be moved, all others stay.
    """

    def __init__(self, space: StateSpace) -> None:
        planar = any(block.name == "pose" and block.kind == SE2 for block in space.blocks)
        self._pose = space.coordinates("pose") if planar else None
        self.reset()

    def reset(self) -> None:
        """Back to the identity."""
        self.pose: Vector = np.zeros(3)  # x, y (m), heading (rad) of odom in map
        self._last: Vector | None = None  # of the base in odom
        self._waiting = False

    @property
    def can_move(self) -> bool:
        """Whether a pose that is set moves it: a height has no pose in the plane, and is set in `odom` itself."""
        return self._pose is not None

    @property
    def is_identity(self) -> bool:
        """Whether no pose was ever set."""
        return not self.pose.any()

    def take_up_next(self) -> None:
        """The next estimate has jumped: keep the base where it is in `odom`."""
        self._waiting = self._pose is not None and self._last is not None

    def __call__(self, estimate: Estimate) -> Estimate:
        """The estimate in `odom`; its covariance, a body-frame one, stays."""
        if self._pose is None:
            return estimate
        base = estimate.mean[self._pose]
        if self._waiting and self._last is not None:
            self.pose = _compose(base, _inverse(self._last))
            self._waiting = False
        if self.is_identity:
            self._last = base
            return estimate
        mean = estimate.mean.copy()
        mean[self._pose] = self._last = _compose(_inverse(self.pose), base)
        return replace(estimate, mean=mean)


def _compose(first: Vector, second: Vector) -> Vector:
    """Planar pose `second`, given in the frame `first`."""
    cosine, sine = np.cos(first[2]), np.sin(first[2])
    heading = first[2] + second[2]
    return np.array(
        [
            first[0] + cosine * second[0] - sine * second[1],
            first[1] + sine * second[0] + cosine * second[1],
            np.arctan2(np.sin(heading), np.cos(heading)),
        ]
    )


def _inverse(pose: Vector) -> Vector:
    cosine, sine = np.cos(pose[2]), np.sin(pose[2])
    return np.array([-cosine * pose[0] - sine * pose[1], sine * pose[0] - cosine * pose[1], -pose[2]])
