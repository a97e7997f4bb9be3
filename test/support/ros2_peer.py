"""An ordinary rclpy program, one side of a conversation: run by a real ROS 2's interpreter or by ours.

    python ros2_peer.py ROLE [ARGUMENT...] [--ros-args ...]

Each role says what it sees as lines of JSON, and ends on SIGINT with exit code 0.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any

if os.environ.get("ONBOARD_ESTIMATION_RUNTIME") == "embedded":
    import embedded_ros

    embedded_ros.install()

import rclpy
from builtin_interfaces.msg import Time
from geometry_msgs.msg import TransformStamped
from nav_msgs.msg import Odometry
from rcl_interfaces.msg import FloatingPointRange, ParameterDescriptor, SetParametersResult
from rclpy.event_handler import PublisherEventCallbacks, SubscriptionEventCallbacks
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.qos import (
    DurabilityPolicy,
    HistoryPolicy,
    LivelinessPolicy,
    QoSProfile,
    ReliabilityPolicy,
    qos_profile_sensor_data,
)
from rclpy.time import Time as RclpyTime
from rclpy.utilities import remove_ros_args
from sensor_msgs.msg import Imu, JointState
from std_msgs.msg import Empty, String
from std_srvs.srv import SetBool, Trigger
from tf2_msgs.msg import TFMessage
from tf2_ros import Buffer, StaticTransformBroadcaster, TransformBroadcaster, TransformException, TransformListener

LATCHED = QoSProfile(
    depth=3,
    history=HistoryPolicy.KEEP_LAST,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)
RELIABLE = QoSProfile(depth=100, reliability=ReliabilityPolicy.RELIABLE)
TOPICS: dict[str, tuple[Any, QoSProfile]] = {
    "imu": (Imu, qos_profile_sensor_data),
    "joint_states": (JointState, RELIABLE),
    "odometry": (Odometry, RELIABLE),
    "tf_like": (TFMessage, RELIABLE),
    "empty": (Empty, RELIABLE),
    "latched": (String, LATCHED),
}


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def message(topic: str, number: int) -> Any:
    """The message of this number, the same on both sides."""
    stamp = Time(sec=1000 + number, nanosec=number * 1000)
    if topic == "imu":
        imu = Imu(angular_velocity_covariance=[float(number)] * 9)
        imu.header.stamp, imu.header.frame_id = stamp, f"link_{number}"
        imu.angular_velocity.z = number / 3.0
        imu.orientation_covariance[0] = -1.0
        return imu
    if topic == "joint_states":
        names = [f"joint_{index}" for index in range(number % 4)]
        joints = JointState(name=names, position=[number / 7.0 + index for index in range(len(names))])
        joints.header.stamp = stamp
        return joints
    if topic == "odometry":
        odometry = Odometry(child_frame_id="base_link")
        odometry.header.stamp, odometry.header.frame_id = stamp, "odom"
        odometry.pose.covariance[35] = number / 11.0
        odometry.twist.twist.linear.x = -number / 13.0
        return odometry
    if topic == "tf_like":
        transforms = []
        for index in range(1 + number % 3):
            transform = TransformStamped(child_frame_id=f"child_{index}")
            transform.header.stamp, transform.header.frame_id = stamp, "parent ä"
            transform.transform.translation.y = index + number / 17.0
            transforms.append(transform)
        return TFMessage(transforms=transforms)
    return Empty() if topic == "empty" else String(data=f"latched {number}")


def digest(received: Any) -> str:
    return hashlib.sha256(repr(received).encode()).hexdigest()[:16]


class Publish(Node):
    """Publishes numbered messages on every topic, and five latched ones at once, of which three are kept."""

    def __init__(self) -> None:
        super().__init__("publishing")
        self._made = {topic: self.create_publisher(kind, topic, qos) for topic, (kind, qos) in TOPICS.items()}
        self._number = 0
        for number in range(5):
            self._made["latched"].publish(message("latched", number))
        self.create_timer(0.02, self._tick)
        say(ready=True)

    def _tick(self) -> None:
        for topic, publisher in self._made.items():
            if topic != "latched":
                sent = message(topic, self._number)
                publisher.publish(sent)
                say(topic=topic, digest=digest(sent))
        self._number += 1


class Subscribe(Node):
    """Says of every message which one it is: its topic and the digest of its text."""

    def __init__(self) -> None:
        super().__init__("subscribing")
        for topic, (kind, qos) in TOPICS.items():
            self.create_subscription(kind, topic, self._receiver(topic), qos)
        say(ready=True)

    def _receiver(self, topic: str) -> Callable[[Any], None]:
        return lambda received: say(topic=topic, digest=digest(received))


class Incompatible(Node):
    """Asks for what is not offered (or offers less than is asked for) and says what it hears of it."""

    def __init__(self, side: str) -> None:
        super().__init__(f"incompatible_{side}")
        weak = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        strong = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)
        if side == "offering":
            events = PublisherEventCallbacks(incompatible_qos=self._heard)
            self._kept: Any = self.create_publisher(String, "uneven", weak, event_callbacks=events)
            self.create_timer(0.05, lambda: self._kept.publish(String(data="unheard")))
        else:
            listening = SubscriptionEventCallbacks(incompatible_qos=self._heard)
            self._kept = self.create_subscription(
                String, "uneven", lambda received: say(received=received.data), strong, event_callbacks=listening
            )
        say(ready=True)

    def _heard(self, event: Any) -> None:
        say(total_count=event.total_count, last_policy_kind=str(int(event.last_policy_kind)))


class Serve(Node):
    """Two services, and one whose answer takes its time."""

    def __init__(self) -> None:
        super().__init__("serving")
        self.create_service(Trigger, "trigger", self._trigger)
        self.create_service(SetBool, "enable", self._enable)
        self._calls = 0
        say(ready=True)

    def _trigger(self, _: Any, response: Any) -> Any:
        self._calls += 1
        response.success, response.message = True, f"call {self._calls} ä"
        return response

    def _enable(self, request: Any, response: Any) -> Any:
        response.success, response.message = not request.data, f"data was {request.data}"
        return response


class CallAgain(Node):
    """Asks five times a second, and says the answers; questions without an answer are left alone."""

    def __init__(self) -> None:
        super().__init__("calling_again")
        self._trigger = self.create_client(Trigger, "trigger")
        self.create_timer(0.2, self._tick)
        say(ready=True)

    def _tick(self) -> None:
        if self._trigger.service_is_ready():
            self._trigger.call_async(Trigger.Request()).add_done_callback(self._answered)

    def _answered(self, future: Any) -> None:
        say(trigger=future.result().message)


def call() -> None:
    """Calls every service of `Serve`: one after the other, and several at once."""
    node = Node("calling")
    trigger, enable = node.create_client(Trigger, "trigger"), node.create_client(SetBool, "enable")
    for client in (trigger, enable):
        say(available=client.wait_for_service(timeout_sec=15.0), service=client.srv_name)
    for _ in range(3):
        future = trigger.call_async(Trigger.Request())
        rclpy.spin_until_future_complete(node, future, timeout_sec=10.0)
        say(trigger=_answer(future))
    futures = [enable.call_async(SetBool.Request(data=bool(index % 2))) for index in range(6)]
    for future in futures:
        rclpy.spin_until_future_complete(node, future, timeout_sec=10.0)
    say(enable=[_answer(future) for future in futures])


def _answer(future: Any) -> Any:
    return [future.result().success, future.result().message] if future.done() else None


class Parameters(Node):
    """Parameters of all types, with a range, a read-only one, and a callback that refuses."""

    def __init__(self) -> None:
        super().__init__("parameters")
        self.declare_parameters(
            "",
            [
                ("gain", 0.5, _described("gain of the loop", floating=(0.0, 1.0, 0.0))),
                ("name", "salp"),
                ("count", 3),
                ("enabled", True),
                ("weights", [1.0, 2.5]),
                ("links", ["a", "b"]),
                ("indices", [1, 2]),
                ("flags", [True, False]),
                ("raw", [b"\x01", b"\xff"]),
                ("fixed", 7, ParameterDescriptor(read_only=True)),
                ("nested.deep.value", 1.5),
            ],
        )
        self.add_on_set_parameters_callback(self._check)
        say(ready=True)

    def _check(self, parameters: Any) -> Any:
        for parameter in parameters:
            if parameter.name == "name" and not parameter.value:
                return SetParametersResult(successful=False, reason="a name must not be empty")
        return SetParametersResult(successful=True)


def _described(text: str, floating: tuple[float, float, float]) -> Any:
    low, high, step = floating
    bounds = FloatingPointRange(from_value=low, to_value=high, step=step)
    return ParameterDescriptor(description=text, floating_point_range=[bounds])


class Broadcast(Node):
    """A static transform and one that moves."""

    def __init__(self) -> None:
        super().__init__("broadcasting")
        self._static, self._moving = StaticTransformBroadcaster(self), TransformBroadcaster(self)
        self._static.sendTransform(self._transform("base", "sensor", 0.25))
        self._number = 0
        self.create_timer(0.05, self._tick)
        say(ready=True)

    def _transform(self, parent: str, child: str, x: float) -> TransformStamped:
        made = TransformStamped(child_frame_id=child)
        made.header.stamp, made.header.frame_id = self.get_clock().now().to_msg(), parent
        made.transform.translation.x = x
        return made

    def _tick(self) -> None:
        self._moving.sendTransform(self._transform("odom", "base", 1.0))


class Lookup(Node):
    """Says where the sensor is."""

    def __init__(self) -> None:
        super().__init__("looking_up")
        self._buffer = Buffer()
        self._listener = TransformListener(self._buffer, self)
        self.create_timer(0.1, self._tick)
        say(ready=True)

    def _tick(self) -> None:
        try:
            found = self._buffer.lookup_transform("odom", "sensor", RclpyTime())
        except TransformException as missing:
            say(missing=type(missing).__name__)
        else:
            say(x=found.transform.translation.x, frames=[found.header.frame_id, found.child_frame_id])


class Graph(Node):
    """Everything that rclpy tells of the graph, once a second."""

    def __init__(self, *topics: str) -> None:
        super().__init__("looking")
        self._topics = topics
        self.create_timer(0.5, self._look)

    def _look(self) -> None:
        named = sorted(set(self.get_node_names_and_namespaces()))
        per_node = {}
        for name, namespace in named:
            try:
                per_node[f"{namespace.rstrip('/')}/{name}"] = {
                    "publishes": self.get_publisher_names_and_types_by_node(name, namespace),
                    "subscribes": self.get_subscriber_names_and_types_by_node(name, namespace),
                    "serves": self.get_service_names_and_types_by_node(name, namespace),
                    "calls": self.get_client_names_and_types_by_node(name, namespace),
                }
            except Exception as gone:  # between two questions
                per_node[name] = str(gone)
        say(
            nodes=named,
            topics=sorted(self.get_topic_names_and_types()),
            services=sorted(self.get_service_names_and_types()),
            per_node=per_node,
            publishers={topic: _endpoints(self.get_publishers_info_by_topic(topic)) for topic in self._topics},
            subscriptions={topic: _endpoints(self.get_subscriptions_info_by_topic(topic)) for topic in self._topics},
        )


def _endpoints(found: Any) -> list[dict[str, Any]]:
    told = []
    for info in found:
        qos = info.qos_profile
        told.append(
            {
                "node": f"{info.node_namespace.rstrip('/')}/{info.node_name}",
                "type": info.topic_type,
                "hash": str(info.topic_type_hash),
                "side": int(info.endpoint_type),
                "reliability": ReliabilityPolicy(qos.reliability).name,
                "durability": DurabilityPolicy(qos.durability).name,
                "liveliness": LivelinessPolicy(qos.liveliness).name,
                "lifespan": qos.lifespan.nanoseconds,
                "deadline": qos.deadline.nanoseconds,
                "depth": qos.depth,
                "gid": len(info.endpoint_gid),
            }
        )
    return sorted(told, key=lambda entry: str(entry["node"]))


NODES: dict[str, Callable[..., Node]] = {
    "publish": Publish,
    "subscribe": Subscribe,
    "incompatible": Incompatible,
    "serve": Serve,
    "call_again": CallAgain,
    "parameters": Parameters,
    "broadcast": Broadcast,
    "lookup": Lookup,
    "graph": Graph,
}


def main() -> None:
    rclpy.init(args=sys.argv)
    role, *arguments = remove_ros_args(sys.argv)[1:]
    try:
        if role == "call":
            call()
        else:
            rclpy.spin(NODES[role](*arguments))
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        rclpy.try_shutdown()


if __name__ == "__main__":
    main()
