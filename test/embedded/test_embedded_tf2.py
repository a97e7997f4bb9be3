"""Transforms: numbers against SciPy's rotations; the same tests run on a real tf2_ros where ROS 2 is sourced."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation, Slerp

import embedded_ros

EMBEDDED = embedded_ros.install() is embedded_ros.Runtime.EMBEDDED
embedded_only = pytest.mark.skipif(not EMBEDDED, reason="what only the embedded runtime does")

import rclpy  # noqa: E402
from geometry_msgs.msg import TransformStamped  # noqa: E402
from rclpy.duration import Duration  # noqa: E402
from rclpy.node import Node  # noqa: E402
from rclpy.time import Time  # noqa: E402
from tf2_ros import (  # noqa: E402
    Buffer,
    ConnectivityException,
    ExtrapolationException,
    LookupException,
    StaticTransformBroadcaster,
    TransformBroadcaster,
    TransformException,
    TransformListener,
)

LONG_S = 60.0
lengths = st.floats(-100.0, 100.0, allow_subnormal=False)
poses = st.tuples(
    st.tuples(lengths, lengths, lengths), st.tuples(*[st.floats(-3.0, 3.0, allow_subnormal=False)] * 3)
).map(lambda parts: (np.array(parts[0]), Rotation.from_rotvec(parts[1])))
Pose = tuple[np.ndarray, Rotation]


def at(seconds: float) -> Time:
    return Time(nanoseconds=round(seconds * 1e9))


def message(parent: str, child: str, pose: Pose, seconds: float = 1.0) -> TransformStamped:
    made = TransformStamped(child_frame_id=child)
    made.header.frame_id = parent
    made.header.stamp = at(seconds).to_msg()
    made.transform.translation.x, made.transform.translation.y, made.transform.translation.z = map(float, pose[0])
    rotation = made.transform.rotation
    rotation.x, rotation.y, rotation.z, rotation.w = map(float, pose[1].as_quat())
    return made


def pose_of(found: TransformStamped) -> Pose:
    vector, rotation = found.transform.translation, found.transform.rotation
    return np.array([vector.x, vector.y, vector.z]), Rotation.from_quat(
        [rotation.x, rotation.y, rotation.z, rotation.w]
    )


def composed(first: Pose, second: Pose) -> Pose:
    """Of coordinates: second, then first."""
    return first[0] + first[1].apply(second[0]), first[1] * second[1]


def inverted(pose: Pose) -> Pose:
    return -pose[1].inv().apply(pose[0]), pose[1].inv()


def assert_same(found: TransformStamped, expected: Pose) -> None:
    position, rotation = pose_of(found)
    np.testing.assert_allclose(position, expected[0], atol=1e-9)
    assert (rotation * expected[1].inv()).magnitude() < 1e-7


@given(poses, poses, poses)
def test_transforms_are_composed_along_the_tree(world_odom: Pose, odom_base: Pose, world_camera: Pose) -> None:
    buffer = Buffer()
    buffer.set_transform(message("world", "odom", world_odom), "test")
    buffer.set_transform(message("odom", "base", odom_base), "test")
    buffer.set_transform_static(message("world", "camera", world_camera, 0.0), "test")
    found = buffer.lookup_transform("world", "base", at(1.0))
    assert (found.header.frame_id, found.child_frame_id) == ("world", "base")
    assert found.header.stamp == at(1.0).to_msg()
    world_base = composed(world_odom, odom_base)
    assert_same(found, world_base)
    assert_same(buffer.lookup_transform("base", "world", at(1.0)), inverted(world_base))
    assert_same(buffer.lookup_transform("camera", "base", at(1.0)), composed(inverted(world_camera), world_base))
    assert_same(buffer.lookup_transform("base", "base", at(1.0)), (np.zeros(3), Rotation.identity()))


@given(poses, poses, st.floats(0.0, 1.0))
def test_between_two_times_transforms_are_interpolated(first: Pose, second: Pose, fraction: float) -> None:
    buffer = Buffer()
    buffer.set_transform(message("odom", "base", first, 1.0), "test")
    buffer.set_transform(message("odom", "base", second, 3.0), "test")
    moment = at(1.0 + 2.0 * fraction)
    exact = (moment.nanoseconds - 1e9) / 2e9
    rotation = Slerp([0.0, 1.0], Rotation.concatenate([first[1], second[1]]))([exact])[0]
    position, found = pose_of(buffer.lookup_transform("odom", "base", moment))
    np.testing.assert_allclose(position, (1.0 - exact) * first[0] + exact * second[0], atol=1e-7)
    if (first[1].inv() * second[1]).magnitude() < 3.1:  # half a turn can be made in two ways
        assert (found * rotation.inv()).magnitude() < 1e-6


def still(x: float = 0.0) -> Pose:
    return np.array([x, 0.0, 0.0]), Rotation.identity()


def test_the_latest_common_time_is_taken_where_none_is_given() -> None:
    buffer = Buffer()
    for seconds in (1.0, 2.0, 3.0):
        buffer.set_transform(message("odom", "base", still(seconds), seconds), "test")
    for seconds in (1.0, 2.5):
        buffer.set_transform(message("base", "link", still(), seconds), "test")
    buffer.set_transform_static(message("link", "imu", still(), 0.0), "test")
    found = buffer.lookup_transform("odom", "imu", Time())
    assert found.header.stamp == at(2.5).to_msg()
    assert found.transform.translation.x == pytest.approx(2.5)


def test_there_is_nothing_before_and_after_what_is_known() -> None:
    buffer = Buffer()
    buffer.set_transform(message("odom", "base", still(), 1.0), "test")
    buffer.set_transform(message("odom", "base", still(), 2.0), "test")
    for seconds, direction in ((0.5, "past"), (2.5, "future")):
        with pytest.raises(ExtrapolationException, match=direction):
            buffer.lookup_transform("odom", "base", at(seconds))
        assert not buffer.can_transform("odom", "base", at(seconds))
        can, reason = buffer.can_transform("odom", "base", at(seconds), return_debug_tuple=True)
        assert not can
        assert direction in reason
    with pytest.raises(LookupException, match="nowhere"):
        buffer.lookup_transform("odom", "nowhere", at(1.0))
    buffer.set_transform(message("island", "tree", still(), 1.0), "test")
    with pytest.raises(ConnectivityException):
        buffer.lookup_transform("odom", "tree", at(1.0))
    assert issubclass(ConnectivityException, TransformException)


def test_transforms_are_kept_for_the_time_of_the_cache() -> None:
    buffer = Buffer(cache_time=Duration(seconds=2))
    for seconds in range(1, 8):
        buffer.set_transform(message("odom", "base", still(float(seconds)), float(seconds)), "test")
    assert buffer.lookup_transform("odom", "base", at(5.5)).transform.translation.x == pytest.approx(5.5)
    with pytest.raises(ExtrapolationException):
        buffer.lookup_transform("odom", "base", at(3.5))
    buffer.set_transform(message("odom", "base", still(99.0), 1.0), "test")  # too late to be of use
    with pytest.raises(ExtrapolationException):
        buffer.lookup_transform("odom", "base", at(1.0))
    late = Buffer()
    for seconds in (1.0, 3.0, 2.0):  # late, and of use
        late.set_transform(message("odom", "base", still(seconds**2), seconds), "test")
    assert late.lookup_transform("odom", "base", at(2.0)).transform.translation.x == pytest.approx(4.0)


def test_a_transform_that_makes_no_sense_is_left_out() -> None:
    buffer = Buffer()
    broken = message("odom", "base", still(float("nan")))
    for wrong in (broken, message("base", "base", still()), message("", "base", still())):
        buffer.set_transform(wrong, "test")
        assert not buffer.can_transform("odom", "base", at(1.0))


@embedded_only
def test_a_loop_of_frames_is_found() -> None:
    buffer = Buffer()
    for parent, child in (("a", "b"), ("b", "c"), ("c", "a")):
        buffer.set_transform(message(parent, child, still()), "test")
    buffer.set_transform(message("x", "y", still()), "test")
    with pytest.raises(TransformException):
        buffer.lookup_transform("a", "x", at(1.0))
    with pytest.raises(TransformException):
        buffer.lookup_transform("a", "x", Time())


@pytest.fixture
def node(ros_domain: int) -> Iterator[Node]:
    rclpy.init(args=[], signal_handler_options=rclpy.signals.SignalHandlerOptions.NO)
    made = Node("transforming")
    try:
        yield made
    finally:
        made.destroy_node()
        rclpy.try_shutdown()


def spin_until(node: Node, condition: Any) -> bool:
    end_s = time.monotonic() + LONG_S
    while not condition() and time.monotonic() < end_s:
        rclpy.spin_once(node, timeout_sec=0.05)
    return bool(condition())


def test_transforms_pass_from_broadcasters_to_a_listener(node: Node) -> None:
    static = StaticTransformBroadcaster(node)
    static.sendTransform(message("base", "imu", still(0.1)))
    static.sendTransform([message("base", "camera", still(0.2))])
    buffer = Buffer()
    TransformListener(buffer, node)  # later than what it is to hear
    moving = TransformBroadcaster(node)
    assert spin_until(node, lambda: moving.pub_tf.get_subscription_count() == 1)
    moving.sendTransform([message("odom", "base", still(float(second)), float(second)) for second in (1, 2)])
    assert spin_until(node, lambda: all(buffer.can_transform("odom", child, at(1.5)) for child in ("imu", "camera")))
    assert buffer.lookup_transform("odom", "imu", at(1.5)).transform.translation.x == pytest.approx(1.6)
    assert buffer.lookup_transform("odom", "camera", at(1.5)).transform.translation.x == pytest.approx(1.7)


def test_a_listener_with_its_own_thread_lets_lookups_wait(node: Node) -> None:
    buffer = Buffer()
    listener = TransformListener(buffer, node, spin_thread=True)
    sender = Node("sending")
    broadcaster = TransformBroadcaster(sender)
    try:
        end_s = time.monotonic() + LONG_S
        while broadcaster.pub_tf.get_subscription_count() == 0 and time.monotonic() < end_s:
            time.sleep(0.01)
        broadcaster.sendTransform(message("odom", "base", still(3.0)))
        found = buffer.lookup_transform("odom", "base", Time(), timeout=Duration(seconds=LONG_S))
        assert found.transform.translation.x == pytest.approx(3.0)
        assert not buffer.can_transform("odom", "base", at(9.0), timeout=Duration(seconds=0.05))
    finally:
        sender.destroy_node()
        listener.executor.shutdown()


@embedded_only
def test_lookups_that_are_not_here_say_what_to_do_instead() -> None:
    for name, instead in (("lookup_transform_full", "stands still"), ("wait_for_transform_async", "timeout")):
        with pytest.raises(NotImplementedError, match=rf"tf2_ros.*Buffer\.{name}\(\): .*{instead}"):
            getattr(Buffer(), name)("odom", "base", at(1.0))
