"""The buffer of transforms that programs ask."""

from __future__ import annotations

import time as _time
from typing import Any, TypeAlias

from builtin_interfaces.msg import Time as Stamp
from geometry_msgs.msg import Quaternion, Transform, TransformStamped, Vector3
from rclpy.constants import S_TO_NS
from rclpy.duration import Duration
from rclpy.logging import get_logger
from rclpy.time import Time

from embedded_ros.absent import AbsentMethod
from tf2_ros._buffer_core import BufferCore
from tf2_ros._rotation import Rigid
from tf2_ros.exceptions import TransformException

_DEFAULT_CACHE_TIME = Duration(seconds=10)
_LOOK_AGAIN_S = 0.02
_NO_TIME = Duration()
_TWO = "look up two transforms, by way of the frame that stands still"
_WAIT = "ask can_transform in a timer, or give lookup_transform a timeout"
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

    all_frames_as_yaml = AbsentMethod("look at /tf with 'onboard-estimation view'")
    can_transform_full = AbsentMethod(_TWO)
    get_latest_common_time = AbsentMethod("look the transform up at Time() and take its header.stamp")
    lookup_transform_async = AbsentMethod(_WAIT)
    lookup_transform_full = AbsentMethod(_TWO)
    lookup_transform_full_async = AbsentMethod(_TWO)
    transform = AbsentMethod()
    transform_full = AbsentMethod()
    wait_for_transform_async = AbsentMethod(_WAIT)
    wait_for_transform_full_async = AbsentMethod(_WAIT)

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

    def _wait(self, answers: Any, timeout: Duration) -> bool:
        end_s = _time.monotonic() + timeout.nanoseconds * 1e-9
        while not answers():
            left_s = end_s - _time.monotonic()
            if left_s <= 0.0:
                return False
            _time.sleep(min(left_s, _LOOK_AGAIN_S))
        return True


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
