"""How often a live estimator's messages go out, and that it takes every reading all the same."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live_graph import await_being_heard, collect, collect_transforms, listening_node, running, spin_until

from onboard_estimation.base.measurement import Channel
from onboard_estimation.live.messages import interface_class, new
from onboard_estimation.ros.sensor_messages import to_message
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.robot import ROBOT

pytestmark = [pytest.mark.usefixtures("compiled_kernels", "ros_domain"), pytest.mark.live]
INSTANTS, PERIOD_NS, GYROS = 200, 5_000_000, 3


def channels() -> list[Channel]:
    return [channel for channel in ROBOT.channels(SalpConfiguration()) if channel.sensor.startswith(("imu", "act"))]


def received(reports: list[Any]) -> dict[str, int]:
    """How many readings of each gyro the node says that it received."""
    return {
        status.hardware_id: int(one.value)
        for status in (reports[-1].status if reports else ())
        for one in status.values
        if status.hardware_id.startswith("imu") and one.key == "received"
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [((), INSTANTS / 2), (("-p", "output_rate_hz:=0.0"), INSTANTS * 3)],
    ids=["by default", "everything"],
)
def test_estimates_go_out_as_often_as_asked(tmp_path: Path, arguments: tuple[str, ...], expected: float) -> None:
    with (
        running("salp_estimator", tmp_path, "-p", "diagnostics_period_s:=0.2", *arguments) as estimator,
        listening_node() as node,
    ):
        estimator.wait_for("estimator ukf")
        odometry = collect(node, "nav_msgs/msg/Odometry", "odometry")
        stddevs = collect(node, "sensor_msgs/msg/JointState", "joint_states_stddev")
        transforms = collect_transforms(node)
        reports = collect(node, "diagnostic_msgs/msg/DiagnosticArray", "/diagnostics")
        command, *gyros = channels()
        outputs = [
            node.create_publisher(interface_class(one.message_type), one.topic, 100) for one in (command, *gyros)
        ]
        await_being_heard(node, "/salp/salp_estimator")
        begin_ns, begin_s = time.time_ns(), time.monotonic()
        for number in range(INSTANTS):
            stamp_ns = begin_ns + number * PERIOD_NS
            outputs[0].publish(to_message(new, command, stamp_ns, np.ones(3)))
            for output, channel in zip(outputs[1:], gyros, strict=True):
                output.publish(to_message(new, channel, stamp_ns, np.array([0.0, 0.0, 0.1, 0.0, 0.0, 9.8])))
            while time.monotonic() < begin_s + number * 1e-9 * PERIOD_NS:
                spin_until(node, lambda: True)
                time.sleep(0.0005)
        every = {one.sensor: INSTANTS for one in gyros}
        spin_until(node, lambda: received(reports) == every)
    stamps_ns = [one.header.stamp.sec * 10**9 + one.header.stamp.nanosec for one in odometry]
    if expected == 3 * INSTANTS:
        # None comes of a gyro that is taken after another one of its instant that stands behind it in order.
        assert len(odometry) == pytest.approx(expected, rel=0.02)
    else:
        # One for each instant that is due, and once more where a gyro came after it had gone out.
        assert len(set(stamps_ns)) == pytest.approx(expected, abs=0.1 * expected + 2)
        assert np.diff(sorted(set(stamps_ns))).min() >= PERIOD_NS
    assert len(stddevs) == len(odometry)
    # tf warns of what it gets twice.
    sent = [one.transforms[0].header.stamp for one in transforms]
    assert len({(stamp.sec, stamp.nanosec) for stamp in sent}) == len(sent) <= INSTANTS / 4 + 2
