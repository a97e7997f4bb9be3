"""What the live graph needs: ROS 2, a domain, ports, and that two processes on this machine find each other."""

from __future__ import annotations

import importlib.util
import os
import select
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from onboard_estimation import ros2
from onboard_estimation.errors import UserError
from onboard_estimation.live.findings import Finding
from onboard_estimation.live.session import discovery_range, domain_id, graph_node, port_is_free
from onboard_estimation.live.types import interface_class

EXCHANGE_S = 10.0

_FROM_AN_INSTALLATION = {
    "tf2_msgs": "nodes publish no tf, which RViz needs",
    "launch": "launch files run by `onboard-estimation launch`",
}
_PARTICIPANTS = 32
_PERIOD_S = 0.05
_HIGHEST_LINUX_DOMAIN = 101
_MULTICAST_FLAG = 0x1000
_UP_FLAG = 0x1
_GOOD_BUFFER_BYTES = 4 * 2**20


def check_graph() -> Iterator[Finding]:
    """All findings about the graph; the last ones only where ROS 2 is."""
    yield from _runtime()
    is_here = ros2.rclpy_folder() is not None
    domain = yield from _domain()
    yield _discovery()
    yield _receive_buffer()
    yield _loopback()
    if domain is not None:
        yield _ports(domain)
    if is_here and domain is not None:
        yield exchange()


def _runtime() -> Iterator[Finding]:
    try:
        ros2.require()
    except UserError as error:
        yield Finding("ROS 2", "fault", "not here" if ros2.rclpy_folder() is None else "cannot be used", str(error))
        return
    yield Finding("ROS 2", "ok", f"{ros2.name()}, in {ros2.rclpy_folder()}")
    yield Finding("DDS", "ok", _rmw())
    for package, purpose in _FROM_AN_INSTALLATION.items():
        if importlib.util.find_spec(package) is None:
            yield Finding(
                package, "note", f"not installed: {purpose}", "an installed ROS 2 has it; PyPI's wheels do not"
            )


def _rmw() -> str:
    try:
        from rclpy.utilities import get_rmw_implementation_identifier

        return str(get_rmw_implementation_identifier())
    except Exception as error:  # the RMW that RMW_IMPLEMENTATION names is not there
        return f"unknown ({error})"


def _domain() -> Generator[Finding, None, int | None]:
    try:
        domain = domain_id()
    except UserError as error:
        yield Finding("domain", "fault", str(error), "export ROS_DOMAIN_ID=0")
        return None
    origin = "from ROS_DOMAIN_ID" if os.environ.get("ROS_DOMAIN_ID") else "ROS_DOMAIN_ID is not set"
    if domain > _HIGHEST_LINUX_DOMAIN:
        yield Finding(
            "domain",
            "note",
            f"{domain} ({origin}): its ports are among those that Linux gives to other programs",
            f"use 0 to {_HIGHEST_LINUX_DOMAIN}",
        )
    else:
        yield Finding("domain", "ok", f"{domain} ({origin})")
    return domain


def _discovery() -> Finding:
    reach = discovery_range()
    peers = os.environ.get("ROS_STATIC_PEERS", "")
    more = f", and peers {peers}" if peers else ""
    if reach == "LOCALHOST":
        return Finding("discovery", "ok", f"this machine only{more}")
    if reach == "OFF":
        return Finding(
            "discovery", "fault", "off: no node finds another", "export ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST"
        )
    return Finding(
        "discovery",
        "note",
        f"{reach}: nodes can be reached from other machines{more}",
        "on one machine: export ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST, in every terminal alike",
    )


def _receive_buffer() -> Finding:
    try:
        size = int(Path("/proc/sys/net/core/rmem_max").read_text())
    except (OSError, ValueError):
        return Finding("UDP buffer", "note", "net.core.rmem_max cannot be read here")
    text = f"net.core.rmem_max is {size / 2**20:.2f} MiB"
    if size >= _GOOD_BUFFER_BYTES:
        return Finding("UDP buffer", "ok", text)
    return Finding(
        "UDP buffer",
        "note",
        f"{text}: bursts of large messages may be lost",
        f"sudo sysctl -w net.core.rmem_max={8 * 2**20}",
    )


def _loopback() -> Finding:
    try:
        flags = int(Path("/sys/class/net/lo/flags").read_text(), 16)
    except (OSError, ValueError):
        return Finding("loopback", "note", "its state cannot be read here")
    if not flags & _UP_FLAG:
        return Finding("loopback", "fault", "lo is down", "sudo ip link set lo up")
    if flags & _MULTICAST_FLAG:
        return Finding("loopback", "ok", "up, with multicast")
    return Finding("loopback", "ok", "up, without multicast: discovery on this machine goes by unicast, as is usual")


def _ports(domain: int) -> Finding:
    """The ports of DDS's participants: each process needs one of the first few."""
    taken = [index for index in range(_PARTICIPANTS) if not port_is_free(7410 + 250 * domain + 2 * index)]
    text = f"{len(taken)} of the first {_PARTICIPANTS} places of domain {domain} are in use"
    if len(taken) == _PARTICIPANTS:
        return Finding("ports", "fault", f"{text}: no further process can join", "end processes, or use another domain")
    if len(taken) > _PARTICIPANTS - 6:
        return Finding("ports", "note", f"{text}", "end processes that are not needed, or use another domain")
    return Finding("ports", "ok", text)


def exchange() -> Finding:
    """Start a second process that publishes, and wait for its message."""
    token = uuid.uuid4().hex
    topic = f"/_doctor_{os.getpid()}"
    arrived = threading.Event()
    started = time.monotonic()
    try:
        with graph_node("doctor") as node:
            node.create_subscription(
                interface_class("std_msgs/msg/String"),
                topic,
                lambda message: arrived.set() if message.data == token else None,
                10,
            )
            child = subprocess.Popen(
                [sys.executable, "-m", __name__, topic, token],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            try:
                while not arrived.wait(0.05) and child.poll() is None and time.monotonic() - started < EXCHANGE_S:
                    pass
            finally:
                _, errors = _end(child)
    except UserError as error:
        return Finding("self-test", "fault", str(error), "see the findings above")
    if arrived.is_set():
        return Finding("self-test", "ok", f"two processes exchanged a message ({time.monotonic() - started:.1f} s)")
    last = (errors.strip().splitlines() or [""])[-1]
    return Finding(
        "self-test",
        "fault",
        f"no message between two processes on this machine within {EXCHANGE_S:g} s"
        + (f": {last[:200]}" if last else ""),
        "allow UDP on the loopback interface (firewall), and unset ROS_STATIC_PEERS if it is set",
    )


def _end(child: Any) -> tuple[str, str]:
    """Closing its input asks the partner to end."""
    try:
        out, errors = child.communicate(timeout=3.0)
    except subprocess.TimeoutExpired:
        child.kill()
        out, errors = child.communicate()
    return out or "", errors or ""


def partner() -> None:
    """The second process, `TOPIC WORD`: publishes the word until its standard input is closed."""
    topic, word = sys.argv[1:3]
    with graph_node("doctor_partner") as node:
        kind = interface_class("std_msgs/msg/String")
        publisher = node.create_publisher(kind, topic, 10)
        deadline = time.monotonic() + 3.0 * EXCHANGE_S
        while time.monotonic() < deadline and not select.select([sys.stdin], [], [], _PERIOD_S)[0]:
            publisher.publish(kind(data=word))


if __name__ == "__main__":
    partner()
