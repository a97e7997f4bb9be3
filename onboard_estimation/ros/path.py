"""The way of the last minutes as `nav_msgs/Path`, thinned so that it stays light."""

from __future__ import annotations

from collections import deque
from typing import Any

from onboard_estimation.ros.estimates import New
from onboard_estimation.ros.thinning import Thinning


class Trail:
    """Collects the poses of odometry.

    Parameters
    ----------
    new
        Makes a message, as for `EstimateMessages`.
    rate_hz, length
        At most so many poses a second, and in all.
    """

    def __init__(self, new: New, rate_hz: float = 5.0, length: int = 1000) -> None:
        self._new = new
        self._thinning = Thinning(rate_hz)
        self._poses: deque[Any] = deque(maxlen=length)
        self._last_ns: int | None = None

    def clear(self) -> None:
        """Forget the way."""
        self._poses.clear()
        self._thinning.clear()
        self._last_ns = None

    def is_due(self, stamp_ns: int) -> bool:
        """Whether a pose of that stamp is to be added; one from before the last starts the way anew."""
        if self._last_ns is not None and stamp_ns < self._last_ns:
            self.clear()
        self._last_ns = stamp_ns
        return self._thinning.passes(stamp_ns)

    def add(self, odometry: Any) -> Any:
        """Add the pose of a `nav_msgs/Odometry`; the path as it is now."""
        header = odometry.header
        self._poses.append(
            self._new("geometry_msgs/msg/PoseStamped", header=header, pose=odometry.pose.pose),
        )
        return self._new("nav_msgs/msg/Path", header=header, poses=list(self._poses))
