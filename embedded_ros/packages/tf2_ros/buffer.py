"""The buffer of transforms that programs ask."""

from __future__ import annotations

import time as _time
from collections.abc import Callable
from typing import Any, TypeAlias

from builtin_interfaces.msg import Time as Stamp
from geometry_msgs.msg import Quaternion, Transform, TransformStamped, Vector3
from rclpy.clock_type import ClockType
from rclpy.constants import S_TO_NS
from rclpy.duration import Duration
from rclpy.logging import get_logger
from rclpy.task import Future
from rclpy.time import Time

from tf2_ros._buffer_core import BufferCore
from tf2_ros._rotation import Rigid, composed
from tf2_ros.exceptions import TransformException

_DEFAULT_CACHE_TIME = Duration(seconds=10)
_LOOK_AGAIN_S = 0.02
_NO_TIME = Duration()
# When a transform is asked for: of rclpy, or out of a message's header.
Instant: TypeAlias = Time | Stamp


class Buffer:
    """Transforms of the last 10 s (`cache_time`), with interpolation.

    `lookup_transform(target, source, time)` gives the transform that takes coordinates in `source` to `target`, at a
    `rclpy.time.Time` or at a message's `header.stamp`; zero asks for the latest. With a timeout it waits, so another
    thread has to spin the listener's node.
    """

    def __init__(self, cache_time: Duration | None = None, node: Any = None) -> None:
        self._core = BufferCore((cache_time or _DEFAULT_CACHE_TIME).nanoseconds)
        self._waiting: list[tuple[Future, Callable[[], bool]]] = []  # with whether it can be answered
        self._logger = node.get_logger() if node is not None else get_logger("tf2_buffer")

    def set_transform(self, transform: TransformStamped, authority: str) -> None:
        """Remember a transform; one that makes no sense is reported and left out."""
        self._insert(transform, static=False)

    def set_transform_static(self, transform: TransformStamped, authority: str) -> None:
        """Remember a transform for all times."""
        self._insert(transform, static=True)

    def _insert(self, message: TransformStamped, *, static: bool) -> None:
        vector, rotation = message.transform.translation, message.transform.rotation
        stamp = message.header.stamp
        refused = self._core.insert(
            message.header.frame_id,
            message.child_frame_id,
            _nanoseconds(stamp),
            ((vector.x, vector.y, vector.z), (rotation.x, rotation.y, rotation.z, rotation.w)),
            static=static,
        )
        if refused:
            self._logger.warning(f"left out: {refused}", throttle_duration_sec=1.0)
        elif self._waiting:
            self._answer_waiting()

    def _answer_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future, answers in waiting:
            if future.done() or future.cancelled():
                continue
            if answers():
                future.set_result(True)
            else:
                self._waiting.append((future, answers))

    def clear(self) -> None:
        """Forget everything that is not static."""
        self._core.clear()

    def lookup_transform(
        self, target_frame: str, source_frame: str, time: Instant, timeout: Duration = _NO_TIME
    ) -> TransformStamped:
        """Transform of coordinates in `source_frame` into `target_frame` at a time.

        Raises
        ------
        TransformException
            Its subclasses: LookupException, ConnectivityException, ExtrapolationException, InvalidArgumentException.
        """
        self._wait(lambda: self.can_transform(target_frame, source_frame, time), timeout)
        transform, stamp_ns = self._core.lookup(target_frame, source_frame, _nanoseconds(time))
        return _message(transform, stamp_ns, target_frame, source_frame)

    def lookup_transform_full(
        self,
        target_frame: str,
        target_time: Instant,
        source_frame: str,
        source_time: Instant,
        fixed_frame: str,
        timeout: Duration = _NO_TIME,
    ) -> TransformStamped:
        """Transform of `source_frame` at one time into `target_frame` at another, over a frame that did not move."""
        asked = (target_frame, target_time, source_frame, source_time, fixed_frame)
        self._wait(lambda: self.can_transform_full(*asked), timeout)
        to_fixed, _ = self._core.lookup(fixed_frame, source_frame, _nanoseconds(source_time))
        to_target, stamp_ns = self._core.lookup(target_frame, fixed_frame, _nanoseconds(target_time))
        return _message(composed(to_target, to_fixed), stamp_ns, target_frame, source_frame)

    async def lookup_transform_async(self, target_frame: str, source_frame: str, time: Instant) -> TransformStamped:
        """`lookup_transform` once it can be answered."""
        await self.wait_for_transform_async(target_frame, source_frame, time)
        return self.lookup_transform(target_frame, source_frame, time)

    def wait_for_transform_async(self, target_frame: str, source_frame: str, time: Instant) -> Future:
        """Future that is done once the transform can be looked up."""
        return self._once(lambda: self.can_transform(target_frame, source_frame, time))

    async def lookup_transform_full_async(
        self, target_frame: str, target_time: Instant, source_frame: str, source_time: Instant, fixed_frame: str
    ) -> TransformStamped:
        """`lookup_transform_full` once it can be answered."""
        asked = (target_frame, target_time, source_frame, source_time, fixed_frame)
        await self.wait_for_transform_full_async(*asked)
        return self.lookup_transform_full(*asked)

    def wait_for_transform_full_async(
        self, target_frame: str, target_time: Instant, source_frame: str, source_time: Instant, fixed_frame: str
    ) -> Future:
        """Future that is done once `lookup_transform_full` can be answered."""
        asked = (target_frame, target_time, source_frame, source_time, fixed_frame)
        return self._once(lambda: self.can_transform_full(*asked))

    def _once(self, answers: Callable[[], bool]) -> Future:
        """Future that is done once the question can be answered."""
        future = Future()
        if answers():
            future.set_result(True)
        else:
            self._waiting.append((future, answers))
        return future

    def can_transform(
        self,
        target_frame: str,
        source_frame: str,
        time: Instant,
        timeout: Duration = _NO_TIME,
        return_debug_tuple: bool = False,
    ) -> Any:
        """Whether `lookup_transform` would answer; with `return_debug_tuple` (whether, why not)."""
        reason = ""

        def answers() -> bool:
            nonlocal reason
            try:
                self._core.lookup(target_frame, source_frame, _nanoseconds(time))
            except TransformException as error:
                reason = str(error)
                return False
            reason = ""
            return True

        can = self._wait(answers, timeout)
        return (can, reason) if return_debug_tuple else can

    def can_transform_full(
        self,
        target_frame: str,
        target_time: Instant,
        source_frame: str,
        source_time: Instant,
        fixed_frame: str,
        timeout: Duration = _NO_TIME,
        return_debug_tuple: bool = False,
    ) -> Any:
        """Whether `lookup_transform_full` would answer; with `return_debug_tuple` (whether, why not)."""
        to_fixed = self.can_transform(fixed_frame, source_frame, source_time, timeout, True)
        to_target = self.can_transform(target_frame, fixed_frame, target_time, timeout, True)
        can = to_fixed[0] and to_target[0]
        return (can, to_fixed[1] or to_target[1]) if return_debug_tuple else can

    def _wait(self, answers: Any, timeout: Duration) -> bool:
        end_s = _time.monotonic() + timeout.nanoseconds * 1e-9
        while not answers():
            left_s = end_s - _time.monotonic()
            if left_s <= 0.0:
                return False
            _time.sleep(min(left_s, _LOOK_AGAIN_S))
        return True

    def all_frames_as_yaml(self) -> str:
        """All frames with their parents and times, as YAML."""
        return self._core.as_yaml()

    def get_latest_common_time(self, target_frame: str, source_frame: str) -> Time:
        """Latest time for which the transform is known; 0 if it is static."""
        _, stamp_ns = self._core.lookup(target_frame, source_frame, 0)
        return Time(nanoseconds=stamp_ns, clock_type=ClockType.ROS_TIME)

    def transform(self, *args: Any, **kwargs: Any) -> Any:
        """Not supported."""
        raise NotImplementedError("tf2_ros.Buffer.transform(): look the transform up and apply it")

    def transform_full(self, *args: Any, **kwargs: Any) -> Any:
        """Not supported."""
        raise NotImplementedError("tf2_ros.Buffer.transform_full(): look the transform up and apply it")


def _nanoseconds(time: Instant) -> int:
    if isinstance(time, Time):
        return time.nanoseconds
    if isinstance(time, Stamp):
        return time.sec * S_TO_NS + time.nanosec
    raise TypeError(
        f"a rclpy.time.Time or a stamp (builtin_interfaces.msg.Time) is needed, not a {type(time).__name__}"
    )


def _message(transform: Rigid, stamp_ns: int, target: str, source: str) -> TransformStamped:
    (x, y, z), (qx, qy, qz, qw) = transform
    message = TransformStamped(
        child_frame_id=source,
        transform=Transform(translation=Vector3(x=x, y=y, z=z), rotation=Quaternion(x=qx, y=qy, z=qz, w=qw)),
    )
    message.header.frame_id = target
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp_ns, S_TO_NS)
    return message
