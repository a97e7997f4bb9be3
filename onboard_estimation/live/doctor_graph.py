"""What the live graph needs: ROS 2, a domain, ports, and that two processes on this machine find each other."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path

from onboard_estimation import ros2
from onboard_estimation.errors import UserError
from onboard_estimation.live.doctor_machine import Finding, graded
from onboard_estimation.live.machine_facts import middleware
from onboard_estimation.live.session import discovery_range, domain_id, graph_node, port_is_free
from onboard_estimation.live.types import interface_class

EXCHANGE_S = 10.0

_FROM_AN_INSTALLATION = {
    "tf2_msgs": "nodes publish no tf, which RViz needs",
    "launch": "launch files run by `onboard-estimation launch`",
}
_PARTICIPANTS = 32
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
    yield Finding("DDS", "ok", middleware())
    for package, purpose in _FROM_AN_INSTALLATION.items():
        if importlib.util.find_spec(package) is None:
            yield Finding(
                package, "note", f"not installed: {purpose}", "an installed ROS 2 has it; PyPI's wheels do not"
            )


def _domain() -> Generator[Finding, None, int | None]:
    try:
        domain = domain_id()
    except UserError as error:
        yield Finding("domain", "fault", str(error), "export ROS_DOMAIN_ID=0")
        return None
    origin = "from ROS_DOMAIN_ID" if os.environ.get("ROS_DOMAIN_ID") else "ROS_DOMAIN_ID is not set"
    well, shared = domain <= _HIGHEST_LINUX_DOMAIN, ": its ports are among those that Linux gives to other programs"
    repair = f"use 0 to {_HIGHEST_LINUX_DOMAIN}"
    yield graded("domain", f"{domain} ({origin})", well=well, otherwise=shared, repair=repair)
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
    lost, repair = ": bursts of large messages may be lost", f"sudo sysctl -w net.core.rmem_max={8 * 2**20}"
    return graded("UDP buffer", text, well=size >= _GOOD_BUFFER_BYTES, otherwise=lost, repair=repair)


def _loopback() -> Finding:
    try:
        flags = int(Path("/sys/class/net/lo/flags").read_text(), 16)
    except (OSError, ValueError):
        return Finding("loopback", "note", "its state cannot be read here")
    if not flags & _UP_FLAG:
        return Finding("loopback", "fault", "lo is down", "sudo ip link set lo up")
    without = "up, without multicast: discovery on this machine goes by unicast, as is usual"
    return Finding("loopback", "ok", "up, with multicast" if flags & _MULTICAST_FLAG else without)


def _ports(domain: int) -> Finding:
    """The ports of DDS's participants: each process needs one of the first few."""
    taken = [index for index in range(_PARTICIPANTS) if not port_is_free(7410 + 250 * domain + 2 * index)]
    text = f"{len(taken)} of the first {_PARTICIPANTS} places of domain {domain} are in use"
    if len(taken) == _PARTICIPANTS:
        return Finding("ports", "fault", f"{text}: no further process can join", "end processes, or use another domain")
    repair = "end processes that are not needed, or use another domain"
    return graded("ports", text, well=len(taken) <= _PARTICIPANTS - 6, repair=repair)


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
            words = ["topic", "pub", topic, "std_msgs/msg/String", f'{{data: "{token}"}}', "--rate", "20"]
            child = subprocess.Popen(
                [sys.executable, "-m", "onboard_estimation", *words, "--timeout", f"{EXCHANGE_S:g}"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            try:
                while not arrived.wait(0.05) and child.poll() is None and time.monotonic() - started < EXCHANGE_S:
                    pass
            finally:
                child.kill()
                _, errors = child.communicate()
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
