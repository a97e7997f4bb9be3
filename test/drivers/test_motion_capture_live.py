"""Drivers of motion capture over real DDS, each with its emulator's node: truth in, truth out."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from emulated_truth import Truth, ground_truth
from live_graph import (
    await_being_heard,
    collect,
    listening_node,
    running,
    spin_until,
    spun,
)
from natnet_samples import LOOPBACK, NAMES, free_ports, poses

from drivers.emulators.natnet import NatNetServer, NatNetServerConfiguration

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.usefixtures("ros_domain")]


class System(NamedTuple):
    """Its emulator's faults; what the driver reports without a server, says in the course of it, and counts as 0."""

    faults: tuple[str, ...]
    absent: str
    said: tuple[str, ...]
    never: tuple[str, ...] = ()


SYSTEMS = {
    "optitrack": System(
        ("clock_skew_ppm:=90.0", "occlusion_rate:=0.3"),
        "no answer from a NatNet server",
        ("waiting: no answer", "published: /salp/ground_truth/box/pose, /salp/ground_truth/arm/pose"),
        ("lost", "reconnections", "of_other_senders"),
    ),
    # It is there for longer than the driver waits, 5 s at most, before it tries again.
    "vicon": System(
        ("rate_hz:=100.0", "occlusion_rate:=0.3", "restart_every_s:=7.0", "restart_takes_s:=1.5"),
        "trying again",
        ("the server knows box, link", "frame numbers began anew"),
    ),
}


def optitrack_ports() -> tuple[str, ...]:
    """Parameters that both nodes share."""
    command, data = free_ports()
    return (f"command_port:={command}", f"data_port:={data}", "transport:=multicast")


def parameters(*words: str) -> list[str]:
    return [word for one in words for word in ("-p", one)]


@pytest.mark.parametrize("name", SYSTEMS)
def test_truth_comes_out_as_it_went_in_without_what_is_occluded_and_a_server_that_was_away_is_found(
    name: str, tmp_path: Path
) -> None:
    system = SYSTEMS[name]
    with socket.create_server((LOOPBACK, 0)) as free:
        ports = optitrack_ports() if name == "optitrack" else (f"port:={free.getsockname()[1]}",)
    asked = parameters(*ports, "largest_distance_m:=10000.0", "bodies:=[box, link=arm]")
    streamed = parameters(*ports, "bodies:=[box, link]", *system.faults)
    with ExitStack() as later, running(name, tmp_path, *asked) as driver, listening_node() as node:
        reports = collect(node, "diagnostic_msgs/msg/DiagnosticArray", "/diagnostics")
        both = [ground_truth(node, one) for one in ("box", "arm")]
        spin_until(
            node, lambda: system.absent in driver.output and (name == "vicon" or system.said[0] in driver.output)
        )
        emulator = later.enter_context(running(f"{name}_emulator", tmp_path, *streamed))
        truth = Truth(node, ("box", "link"))
        await_being_heard(node, f"/salp/{name}", f"/salp/{name}_emulator")

        def places() -> list[set[int]]:
            return [{round(one.pose.position.y) for one in messages} for messages in both]

        def are_apart() -> bool:
            """Each is occluded by itself."""
            box, arm = places()
            return min(len(box & arm), len(box - arm), len(arm - box)) > 20

        spin_until(node, lambda: all(words in driver.output for words in system.said) and are_apart())
        counts = [len(messages) for messages in both]
        spin_until(node, lambda: all(len(got) > count + 100 for got, count in zip(both, counts, strict=True)))
        spin_until(node, lambda: reports[-1].status[0].level != b"\2")  # the trouble is over
        assert emulator.stop() == driver.stop() == 0
    assert "[WARN]" in driver.output
    for messages in both:
        assert np.median(np.abs(truth.errors_s(messages)[:200])) < 0.003
        assert messages[-1].header.frame_id == "world"
    statuses = [one for report in reports for one in report.status]
    assert any(one.level == b"\2" and system.absent in one.message for one in statuses)
    assert any(one.level == b"\1" and "not seen in" in one.message for one in statuses)
    figures = {one.key: one.value for one in reports[-1].status[0].values}
    assert all(float(figures[count]) == 0.0 for count in system.never)


def test_reports_that_fail_end_alone(capfd: pytest.CaptureFixture[str]) -> None:
    from drivers.motion_capture.node import OptitrackNode

    ports = optitrack_ports()
    command, data = (int(one.partition(":=")[2]) for one in ports[:2])
    server = NatNetServer(NAMES, NatNetServerConfiguration(command_port=command, data_port=data))
    with closing(server), spun(OptitrackNode, arguments=parameters(*ports)) as (node,):
        got = ground_truth(node, "base")
        node.destroy_publisher(node._diagnostics)

        def goes_on() -> bool:
            server.send(poses(stamp_ns=time.time_ns(), seed=time.time_ns() % 10**9))
            return len(got) > 200 and node._reporting.trouble != ""

        spin_until(node, goes_on)
    assert capfd.readouterr().err.count("publishing /diagnostics has ended") == 1
