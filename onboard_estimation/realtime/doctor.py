"""What the live graph needs of machine and installation, and that two processes on this machine find each other."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import onboard_estimation
from onboard_estimation.base import installed, kernel_files, ros2
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.kernel_cache import OVERRIDE_VARIABLE, configure
from onboard_estimation.live.messages import interface_class
from onboard_estimation.live.session import discovery_range, domain_id, graph_node
from onboard_estimation.realtime.machine_facts import governor, middleware, number_in
from onboard_estimation.realtime.warmup import is_temporary

EXCHANGE_S, _AFTER_S = 10.0, 1.0

_FROM_AN_INSTALLATION = {
    "tf2_msgs": "nodes publish no tf, which RViz needs",
    "launch": "launch files run by `onboard-estimation launch`",
}
_TIME_ERROR = 5
_LOW_BYTES, _VERY_LOW_BYTES = 5 * 10**9, 10**8
_HIGHEST_LINUX_DOMAIN = 101
_GOOD_BUFFER_BYTES = 4 * 2**20

_Found: TypeAlias = "tuple[Any, ...]"
"""State, text, and a repair where there is one, of a `Finding`."""


@dataclass(frozen=True)
class Finding:
    """One line of the doctor.

    Attributes
    ----------
    subject
        What was looked at.
    state
        `ok`; `note`: works, could be better, or is good to know; `fault`: something will not work.
    text
        What there is, with numbers.
    repair
        What to do about it, one line; empty where there is nothing to do.
    """

    subject: str
    state: Literal["ok", "note", "fault"]
    text: str
    repair: str = ""


def findings() -> Iterator[Finding]:
    """All of them; what needs ROS 2 or a domain is looked at only where there is one."""
    for subject, look in _LOOKS.items():
        for found in look():
            yield Finding(subject, *found)


def _graded(text: str, *, well: bool, otherwise: str = "", repair: str = "") -> _Found:
    """`ok` where it is well; else a note that says what else is to be known, and how to mend it."""
    return ("ok", text) if well else ("note", f"{text}{otherwise}", repair)


def _python() -> Iterator[_Found]:
    running, there = sys.version_info[:2], installed.versions(("numpy", "numba"))
    text = f"Python {sys.version.split()[0]}, NumPy {there['numpy']}, numba {there['numba']}"
    wanted = "use Python 3.10 to 3.13"
    if running < (3, 10):
        yield "fault", text, wanted
    else:
        yield _graded(text, well=running <= (3, 13), otherwise=": newer than what was tested", repair=wanted)


def _drivers() -> Iterator[_Found]:
    """Our top-level package `drivers` has a name that others may have too."""
    root = Path(onboard_estimation.__file__).resolve().parent.parent
    try:
        found = importlib.util.find_spec("drivers")
    except (ImportError, ValueError):
        found = None
    if found is None:
        yield "fault", "the package `drivers` is not installed", "install onboard_estimation anew"
        return
    places = [Path(place).resolve() for place in found.submodule_search_locations or [found.origin or "."]]
    if root / "drivers" in places:
        yield "ok", "the package `drivers` is ours"
    else:
        repair = f"start elsewhere, or put {root} before {places[0].parent} in PYTHONPATH"
        yield "fault", f"another package `drivers` comes first: {places[0]}", repair


def _cache() -> Iterator[_Found]:
    folder = configure()
    if is_temporary(folder):
        repair = f"export {OVERRIDE_VARIABLE}=<folder that can be written>"
        yield "note", "its folder cannot be written: every start compiles for seconds", repair
        return
    count = sum(1 for _ in folder.rglob(f"*{kernel_files.SUFFIX}"))
    text = f"{count} kernels in {folder}" if count else f"empty: {folder}"
    yield _graded(text, well=bool(count), repair="onboard-estimation warmup")


def _space() -> Iterator[_Found]:
    free = shutil.disk_usage(Path.cwd()).free
    text, repair = f"{free / 1e9:.1f} GB free in {Path.cwd()}", "remove files, or record elsewhere"
    if free < _VERY_LOW_BYTES:
        yield "fault", f"{text}: a recording would stop soon", repair
    else:
        yield _graded(text, well=free >= _LOW_BYTES, repair=repair)


def _synchronisation() -> Iterator[_Found]:
    """Of the kernel's clock, asked with adjtimex(2) in its reading mode."""
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(512))
    except (OSError, AttributeError):
        state = -1
    if state == -1:
        yield "note", "whether it is synchronised cannot be asked here"
    elif state == _TIME_ERROR:
        repair = "install and start chrony or systemd-timesyncd; on several machines, one must follow the other"
        yield "note", "not synchronised (NTP): stamps of several machines cannot be compared", repair
    else:
        yield "ok", "synchronised"


def _governor() -> Iterator[_Found]:
    found = governor()
    text = f"governor {found}" if found else "not set by this system (virtual machine, or fixed)"
    slow, repair = ": latencies are longer while the CPU is slow", "sudo cpupower frequency-set -g performance"
    yield _graded(text, well=found in ("", "performance"), otherwise=slow, repair=repair)


def _runtime() -> Iterator[_Found]:
    try:
        ros2.require()
    except UserError as error:
        yield "fault", "not here" if ros2.rclpy_folder() is None else "cannot be used", str(error)
    else:
        yield "ok", f"{ros2.name()}, in {ros2.rclpy_folder()}"


def _ros_is_usable() -> bool:
    return next(_runtime())[0] == "ok"


def _middleware() -> Iterator[_Found]:
    if _ros_is_usable():
        yield "ok", middleware()


def _package(name: str) -> Iterator[_Found]:
    if _ros_is_usable() and importlib.util.find_spec(name) is None:
        repair = "an installed ROS 2 has it; PyPI's wheels do not"
        yield "note", f"not installed: {_FROM_AN_INSTALLATION[name]}", repair


def _domain() -> Iterator[_Found]:
    try:
        domain = domain_id()
    except UserError as error:
        yield "fault", str(error), "export ROS_DOMAIN_ID=0"
        return
    origin = "from ROS_DOMAIN_ID" if os.environ.get("ROS_DOMAIN_ID") else "ROS_DOMAIN_ID is not set"
    well, shared = domain <= _HIGHEST_LINUX_DOMAIN, ": its ports are among those that Linux gives to other programs"
    yield _graded(f"{domain} ({origin})", well=well, otherwise=shared, repair=f"use 0 to {_HIGHEST_LINUX_DOMAIN}")


def _discovery() -> Iterator[_Found]:
    reach, peers = discovery_range(), os.environ.get("ROS_STATIC_PEERS", "")
    more, repair = f", and peers {peers}" if peers else "", "export ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST"
    if reach == "LOCALHOST":
        yield "ok", f"this machine only{more}"
    elif reach == "OFF":
        yield "fault", "off: no node finds another", repair
    else:
        text = f"{reach}: nodes can be reached from other machines{more}"
        yield "note", text, f"on one machine: {repair}, in every terminal alike"


def _receive_buffer() -> Iterator[_Found]:
    size = number_in(Path("/proc/sys/net/core/rmem_max"))
    if size is None:
        yield "note", "net.core.rmem_max cannot be read here"
        return
    text, lost = f"net.core.rmem_max is {size / 2**20:.2f} MiB", ": bursts of large messages may be lost"
    repair = f"sudo sysctl -w net.core.rmem_max={8 * 2**20}"
    yield _graded(text, well=size >= _GOOD_BUFFER_BYTES, otherwise=lost, repair=repair)


def _exchange() -> Iterator[_Found]:
    """Start a second process that publishes, and wait for its message."""
    if ros2.rclpy_folder() is None or next(_domain())[0] == "fault":
        return
    token = uuid.uuid4().hex
    topic = f"/_doctor_{os.getpid()}"
    arrived = threading.Event()
    errors, started = "", time.monotonic()
    try:
        with graph_node("doctor") as node:
            node.create_subscription(
                interface_class("std_msgs/msg/String"),
                topic,
                lambda message: arrived.set() if message.data == token else None,
                10,
            )
            words = ["topic", "pub", "--once", topic, "std_msgs/msg/String", f'{{data: "{token}"}}']
            words = [sys.executable, "-m", "onboard_estimation", *words, "--timeout", f"{EXCHANGE_S:g}"]
            with suppress(subprocess.TimeoutExpired):
                errors = subprocess.run(words, capture_output=True, text=True, timeout=2.0 * EXCHANGE_S).stderr
            arrived.wait(_AFTER_S)
    except UserError as error:
        yield "fault", str(error), "see the findings above"
        return
    if arrived.is_set():
        yield "ok", f"two processes exchanged a message ({time.monotonic() - started:.1f} s)"
        return
    text = f"no message between two processes on this machine within {EXCHANGE_S:g} s"
    last = (errors.strip().splitlines() or [""])[-1]
    repair = "allow UDP on the loopback interface (firewall), and unset ROS_STATIC_PEERS if it is set"
    yield "fault", f"{text}: {last[:200]}" if last else text, repair


_LOOKS: dict[str, Callable[[], Iterator[_Found]]] = {
    "Python": _python,
    "drivers": _drivers,
    "kernel cache": _cache,
    "disk": _space,
    "clock": _synchronisation,
    "CPU frequency": _governor,
    "ROS 2": _runtime,
    "DDS": _middleware,
    **{name: partial(_package, name) for name in _FROM_AN_INSTALLATION},
    "domain": _domain,
    "discovery": _discovery,
    "UDP buffer": _receive_buffer,
    "self-test": _exchange,
}
"""What is looked at, in the order of the report."""
