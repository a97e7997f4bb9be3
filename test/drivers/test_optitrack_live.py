"""The node `optitrack` over real DDS, with the node `optitrack_emulator` and a simulator's truth."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pytest
from emulated_truth import Truth, ground_truth
from live_graph import (
    TF_IS_HERE,
    await_being_heard,
    collect,
    collect_transforms,
    listening_node,
    running,
    spin_until,
    spun,
)
from natnet_samples import NAMES, free_ports, poses

from drivers.emulators.natnet import NatNetServer, NatNetServerConfiguration

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.usefixtures("ros_domain")]


@pytest.fixture
def ports() -> tuple[str, ...]:
    """Parameters that both nodes share."""
    command, data = free_ports()
    return ("-p", f"command_port:={command}", "-p", f"data_port:={data}", "-p", "transport:=multicast")


def test_a_simulators_truth_comes_back_as_ground_truth(ports: tuple[str, ...], tmp_path: Path) -> None:
    streamed = ("-p", "bodies:=[link_1, link_2]", "-p", "clock_skew_ppm:=90.0", "-p", "occlude_every_s:=1.5")
    asked = ("-p", "largest_distance_m:=10000.0", "-p", "bodies:=[link_1=base, link_2]", "-p", "publish_tf:=true")
    with (
        ExitStack() as later,
        running("optitrack", tmp_path, *ports, *asked) as driver,
        listening_node() as node,
    ):
        driver.wait_for("for 10 s: no answer from a NatNet server")  # it goes on saying so
        assert "[WARN]" in driver.output
        emulator = later.enter_context(running("optitrack_emulator", tmp_path, *ports, *streamed))
        emulator.wait_for("bodies: link_1, link_2")
        truth = Truth(node, ("link_1", "link_2"))
        base, link = ground_truth(node, "base"), ground_truth(node, "link_2")
        transforms = collect_transforms(node)
        reports = collect(node, "diagnostic_msgs/msg/DiagnosticArray", "/diagnostics")
        await_being_heard(node, "/salp/optitrack", "/salp/optitrack_emulator")
        spin_until(node, lambda: len(base) > 250 and len(link) > 250 and (not TF_IS_HERE or bool(transforms)))
        assert "published: /salp/ground_truth/base/pose, /salp/ground_truth/link_2/pose" in driver.output
        # Each message has the number and the stamp of an instant; what was occluded is missing.
        assert np.median(np.abs(truth.errors_s(base))) < 0.002
        assert np.diff([one.pose.position.y for one in base]).max() > 10
        assert base[-1].header.frame_id == "world"
        frames = {one.child_frame_id for message in transforms for one in message.transforms}
        assert frames == ({"salp/truth/base", "salp/truth/link_2"} if TF_IS_HERE else set())
        ours = [one for report in reports for one in report.status if one.name == "salp/optitrack: stream"]
        figures = {one.key: float(one.value) for one in ours[-1].values}
        assert figures["lost"] == figures["reconnections"] == figures["of_other_senders"] == 0.0
        assert figures["frames"] > 100
        assert any("link_1: not" not in one.message and "not seen" in one.message for r in reports for one in r.status)
        assert emulator.stop() == driver.stop() == 0


def test_reports_and_transforms_that_fail_end_alone(ports: tuple[str, ...], capfd: pytest.CaptureFixture[str]) -> None:
    from drivers.motion_capture.node import OptitrackNode

    command, data = (int(one.partition(":=")[2]) for one in ports[1:4:2])
    server = NatNetServer(NAMES, NatNetServerConfiguration(command_port=command, data_port=data))
    with closing(server), spun(OptitrackNode, arguments=ports) as (node,):
        got = ground_truth(node, "base")
        node.destroy_publisher(node._diagnostics)
        node._tf = node._diagnostics

        def goes_on() -> bool:
            server.send(poses(stamp_ns=time.time_ns(), seed=time.time_ns() % 10**9))
            return len(got) > 200 and node._transforming.trouble != "" != node._reporting.trouble

        spin_until(node, goes_on)
    said = capfd.readouterr().err
    assert all(said.count(f"publishing {what} has ended") == 1 for what in ("/tf", "/diagnostics"))
