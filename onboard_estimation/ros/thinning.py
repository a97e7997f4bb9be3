"""Which of many messages go out where only so many a second are wanted; the way of the last minutes, thinned."""

from __future__ import annotations

from collections import deque
from typing import Any

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.ros.sensor_messages import New


class Thinning:
    """Lets stamps through, at most so many a second; stamps that fall back begin anew.

    It keeps to a grid where stamps come faster than that: of 125 Hz, 100 are four in five, not every other one.

    Parameters
    ----------
    rate_hz
        Of what is let through; 0: all of it.
    repeats
        What has the stamp of the last one that passed does so as well: it is better known by then.
    """

    def __init__(self, rate_hz: float, repeats: bool = False) -> None:
        self._repeats = repeats
        self._period_ns = round(NANOSECONDS_PER_SECOND / rate_hz) if rate_hz else 0
        self.clear()

    def clear(self) -> None:
        """Begin anew: the next stamp passes."""
        self._due_ns: int | None = None
        self._passed_ns: int | None = None

    def time_left_ns(self, stamp_ns: int) -> int:
        """How much later than this a stamp has to be to pass; 0: it passes itself."""
        return 0 if self._due_ns is None else min(max(self._due_ns - stamp_ns, 0), self._period_ns)

    def passes(self, stamp_ns: int) -> bool:
        """Whether one of this stamp goes out; it is taken to have gone then."""
        period_ns, due_ns = self._period_ns, self._due_ns
        if self._repeats and stamp_ns == self._passed_ns:
            return True
        if due_ns is not None and -period_ns <= stamp_ns - due_ns < 0:
            return False
        keeps_step = due_ns is not None and 0 <= stamp_ns - due_ns < period_ns
        self._passed_ns = stamp_ns
        self._due_ns = (due_ns if keeps_step and due_ns is not None else stamp_ns) + period_ns
        return True


class Trail:
    """The way of the last minutes as `nav_msgs/Path`, from the poses of odometry, so that it stays light.

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
        self._poses.append(self._new("geometry_msgs/msg/PoseStamped", header=header, pose=odometry.pose.pose))
        return self._new("nav_msgs/msg/Path", header=header, poses=list(self._poses))
