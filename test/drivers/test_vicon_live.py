"""The node `vicon` against the node `vicon_emulator`: truth in, truth out, over real TCP and the live graph."""

from __future__ import annotations

import socket
from pathlib import Path

import numpy as np
import pytest
from emulated_truth import Truth, ground_truth
from live_graph import TF_IS_HERE, collect, collect_transforms, listening_node, running, spin_until


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.usefixtures("ros_domain")
def test_truth_comes_out_as_it_went_in_occluded_bodies_are_missing_and_a_server_that_restarts_is_found_again(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = f"port:={free.getsockname()[1]}"
    faults = ["occlusion_rate:=0.3", "restart_every_s:=4.0", "restart_takes_s:=1.5"]
    emulated = [word for one in (port, "bodies:=[box, link]", "rate_hz:=100.0", *faults) for word in ("-p", one)]
    with (
        listening_node() as node,
        running("vicon_emulator", tmp_path, *emulated),
        running(
            "vicon",
            tmp_path,
            "-p",
            port,
            "-p",
            "largest_distance_m:=10000.0",
            "-p",
            "bodies:=[box, link=arm]",
            "-p",
            "publish_tf:=true",
        ) as driver,
    ):
        truth = Truth(node, ("box", "link"))
        both = [ground_truth(node, name) for name in ("box", "arm")]
        transforms = collect_transforms(node)
        reports = collect(node, "diagnostic_msgs/msg/DiagnosticArray", "/diagnostics")
        spin_until(node, lambda: "frame numbers began anew" in driver.output)
        counts = [len(messages) for messages in both]
        spin_until(node, lambda: all(len(got) > count + 100 for got, count in zip(both, counts, strict=True)))
        spin_until(node, lambda: reports[-1].status[0].level != b"\2")  # the trouble is over
        assert "the server knows box, link" in driver.output
        assert driver.stop() == 0
    for messages in both:
        assert abs(np.median(truth.errors_s(messages)[:200])) < 0.003
    box, arm = ({round(one.pose.position.y) for one in messages} for messages in both)
    assert min(len(box & arm), len(box - arm), len(arm - box)) > 20  # each is occluded by itself
    if TF_IS_HERE:
        together: list[set[str]] = [{one.child_frame_id for one in message.transforms} for message in transforms]
        assert {1, 2} <= {len(names) for names in together}
        assert set().union(*together) == {"salp/truth/box", "salp/truth/arm"}
    else:
        assert driver.output.count("no tf: tf2_msgs is not installed") == 1
    statuses = [one for report in reports for one in report.status]
    assert any(one.level == b"\2" and "trying again" in one.message for one in statuses)
    assert any(one.level == b"\1" and "not seen in" in one.message for one in statuses)
