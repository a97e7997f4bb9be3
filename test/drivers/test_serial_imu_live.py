"""The serial driver on real pseudo-terminals: lost and found again, taken by others, and as a node over real DDS."""

from __future__ import annotations

import re
import resource
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import serial
from launched import Launch, recorded
from live_graph import await_being_heard, collect, listening_node, running, spin_until, wait_until
from node_here import nodes_here
from sensor_msgs.msg import Imu

from drivers.emulators.serial_imu import Reading, SerialDevice, SerialFaults
from drivers.lines import SerialLine
from drivers.serial_imu.frames import Settings
from hopper_estimation.serial_log import read_serial_log
from onboard_estimation.bags.bag import open_bag
from onboard_estimation.base.errors import UserError

TOLD = Settings(0, 0, low_g_range=3, gyro_range=3, high_g_range=1, low_pass=0, rate_hz=500)
PERIOD_NS = 2_000_000
AT_REST = np.array([0.02, -0.01, 0.03, 0.1, -0.2, 9.8])


@pytest.fixture
def port(tmp_path: Path) -> Path:
    return tmp_path / "port"


class Sender:
    """A device that sends in real time from when it is first asked to, while it is."""

    def __init__(self, port: Path, faults: SerialFaults | None = None) -> None:
        self.device = SerialDevice(port, TOLD, faults or SerialFaults())
        self._began_ns: int | None = None
        self._count = 0
        self._rng = np.random.default_rng(1)
        self.frozen = False  # the low-g sensor gives the same reading again

    def catch_up(self) -> bool:
        """Send what is due; true, for conditions."""
        if self._began_ns is None:
            self._began_ns = time.monotonic_ns()
        while self._count * PERIOD_NS <= time.monotonic_ns() - self._began_ns:
            value = AT_REST + self._rng.normal(0.0, 0.01, 6)
            high = AT_REST + self._rng.normal(0.0, 4.6, 6)
            value = np.where(self.frozen, AT_REST, value)
            self.device.send([Reading(self._count * PERIOD_NS, value, high)])
            self._count += 1
        return True


# The line


def test_a_line_is_opened_when_it_is_there_and_again_after_it_was_lost(port: Path) -> None:
    said: list[tuple[str, bool]] = []
    with closing(SerialLine(str(port), 921600, lambda *one: said.append(one))) as line:
        assert line.read(0.01) == b""
        assert not line.is_open
        hint = "plug the device in, or name its port (`ls /dev/ttyUSB* /dev/ttyACM*`)"
        assert said == [(f"{port} is not there: {hint}", True)]
        for count in (1, 2):
            device = SerialDevice(port, TOLD, SerialFaults())
            wait_until(lambda: line.read(0.01) == b"" and line.is_open, 10.0)
            device.send([Reading(0, AT_REST, AT_REST)])
            assert len(line.read(1.0)) > 60
            device.close()
            wait_until(lambda count=count: line.read(0.01) == b"" and line.losses == count, 10.0)
            assert not line.is_open
    assert sum("open at 921600 baud" in one and not is_bad for one, is_bad in said) == 2
    assert sum("trying again" in one and is_bad for one, is_bad in said) == 2


def test_a_port_that_another_program_has_is_said_to_be_taken(port: Path) -> None:
    said: list[str] = []
    device = SerialDevice(port, TOLD, SerialFaults())
    try:
        assert not device.is_taken()
        locked, heard = serial.Serial(str(port), exclusive=True), lambda sentence, _: said.append(sentence)
        with locked, closing(SerialLine(str(port), 921600, heard)) as line:
            assert line.read(0.01) == b""
            assert device.is_taken()
        assert not device.is_taken()
        assert len(said) == 1
        assert "in use by another program" in said[0]
    finally:
        device.close()


# The node


def stamp_s(message: Any) -> float:
    return float(message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec)


def line_status(reports: list[Any]) -> Any:
    """The newest of the line."""
    ours = [one for report in reports for one in report.status if one.name == "hopper/serial_imu: serial line"]
    return ours[-1] if ours else None


def figures(reports: list[Any]) -> dict[str, float]:
    return {one.key: float(one.value) for one in line_status(reports).values}


@pytest.mark.usefixtures("ros_domain")
@pytest.mark.live
@pytest.mark.slow
def test_the_node_publishes_and_outlives_a_full_disk_a_frozen_chip_and_its_device(port: Path, tmp_path: Path) -> None:
    raw, calibration = tmp_path / "raw.bin", tmp_path / "low_g.yaml"
    calibration.write_text("/**:\n  ros__parameters:\n    gyro:\n      bias_rad_s: [0.0, -0.01, 0.0]\n")
    calibrated = ("-p", f"mounting.low_g_calibration:={calibration}")
    arguments = ("-p", f"port:={port}", "-p", f"raw_log:={raw}", "-p", "mounting.low_g_axes:=-y x z", *calibrated)
    sender = Sender(port)
    with (
        running("serial_imu", tmp_path, *arguments, namespace="/hopper") as driver,
        listening_node(namespace="/hopper") as node,
    ):
        driver.wait_for("open at 921600 baud")
        low = collect(node, "sensor_msgs/msg/Imu", "imu/low_g/data_raw")
        high = collect(node, "sensor_msgs/msg/Imu", "imu/high_g/data_raw")
        reports = collect(node, "diagnostic_msgs/msg/DiagnosticArray", "/diagnostics")
        await_being_heard(node, "/hopper/serial_imu")
        spin_until(node, lambda: sender.catch_up() and len(low) > 700 and figures(reports)["samples"] > 300)
        found = figures(reports)
        assert found["lost"] == found["restarts"] == found["corrupted_crc"] == 0.0
        assert found["temperature_celsius"] == pytest.approx(25.0, abs=0.01)
        # Axes are the body's, variances those of the data sheets, and the gyro that is not there is marked so.
        np.testing.assert_allclose(rates(low[-500:]).mean(axis=0), [0.0, 0.02, 0.03], atol=0.003)
        assert low[-1].linear_acceleration_covariance[0] == pytest.approx((400e-6 * 9.80665) ** 2 * 260.0)
        assert high[-1].angular_velocity_covariance[0] == -1.0
        assert high[-1].header.frame_id == "hopper/imu_high_g"
        assert 0.0 < time.time() - stamp_s(low[-1]) < 60.0
        full, frozen, most = f"raw_log {raw} has ended: File too large", "imu/low_g reads the same all the time", 65_536
        resource.prlimit(driver.popen.pid, resource.RLIMIT_FSIZE, (most, most))
        spin_until(node, lambda: sender.catch_up() and full in line_status(reports).message)
        sender.frozen = True
        spin_until(node, lambda: sender.catch_up() and frozen in line_status(reports).message)
        assert line_status(reports).level == b"\x01"
        count = len(low), len(high)
        spin_until(node, lambda: sender.catch_up() and len(high) > count[1] + 500)
        assert len(low) == count[0]
        sender.frozen = False
        spin_until(node, lambda: sender.catch_up() and "gives new readings again" in driver.output)
        # Unplugged, and plugged in again: its clock begins anew.
        sender.device.close()
        driver.wait_for("trying again")
        sender = Sender(port)
        count, told = len(low), "the device has restarted"
        # What was on its way before may come late: only a device that goes on sending is seen to have restarted.
        spin_until(node, lambda: sender.catch_up() and len(low) > count + 300 and told in driver.output)
        log = read_serial_log(raw)
        sender.device.close()
        # Another device.
        device, noise = SerialDevice(port, TOLD, SerialFaults(byte_error_rate=0.5)), np.random.default_rng(0)

        def is_said() -> bool:
            device.send([Reading(0, noise.normal(size=6), None)])
            return "is the baud rate that of the firmware" in driver.output

        wait_until(is_said)
        device.close()
    assert "gravity along" not in driver.output
    assert "Traceback" not in driver.output
    for words in (full, frozen, "its RATE_HZ is 500, and expected.rate_hz 840", "trying again"):
        assert re.search("WARN.*" + re.escape(words), driver.output)
    assert driver.output.count(full) == driver.output.count(frozen) == 1
    assert re.search("INFO.*imu/low_g gives new readings again", driver.output)
    assert raw.stat().st_size == most
    assert log.counts["corrupted"] <= 2  # cut off where it was unplugged
    assert log.counts["samples"] > 1000


def test_a_raw_log_goes_over_nothing_that_is_there_and_a_device_is_not_to_be_removed(tmp_path: Path) -> None:
    from drivers.serial_imu.node import _new_file

    kept = tmp_path / "kept"
    kept.write_bytes(b"frames")
    for path, way_out in ((kept, "name another, or remove it"), (Path("/dev/full"), "name another: it is no file")):
        with pytest.raises(UserError, match=f"{path} exists already and is not overwritten; {way_out}$"):
            _new_file(str(path))
    assert kept.read_bytes() == b"frames"


def test_reports_that_cannot_go_out_do_not_end_the_readings(port: Path, ros_domain: None) -> None:
    from drivers.serial_imu.node import SerialImuNode

    sender = Sender(port)
    with nodes_here(SerialImuNode) as made:
        here = made(f"port:={port}")
        low = here.listen(Imu, "imu/low_g/data_raw")
        here.until(lambda: sender.catch_up() and low and here.state("serial line").message)
        node = here.node
        node.destroy_publisher(node._diagnostics)
        here.until(lambda: sender.catch_up() and node._reporting.trouble)
        count = len(low)
        here.until(lambda: sender.catch_up() and len(low) > count + 300)
    sender.device.close()


def rates(messages: list[Any]) -> np.ndarray:
    return np.array([[getattr(one.angular_velocity, axis) for axis in "xyz"] for one in messages])


@pytest.mark.slow
@pytest.mark.usefixtures("compiled_kernels", "ros_domain")
@pytest.mark.live
def test_a_simulated_robot_on_the_wire_is_estimated(tmp_path: Path) -> None:
    """Driver, estimator and truth together, from a launch file: the hops found, the height right.

    Nothing is lost, but what a port holds no more when the machine had no time for the driver for seconds.
    """
    bag = tmp_path / "bag"
    words = ("source:=serial_emulator", "composed:=true", "hops:=1m", "seed:=4", f"record:={bag}")
    with Launch("hopper.launch.py", *words, log=tmp_path / "launch.log") as launch:
        launch.wait_for("both sensors are there")
        wait_until(lambda: recorded(bag, "/hopper/apex") >= 5)
        assert launch.interrupt() == 0, launch.output
    heights: dict[str, list[tuple[float, float]]] = {"odometry": [], "ground_truth/body/pose": []}
    lost: list[float] = []
    with open_bag(bag) as opened:
        assert opened.custom_data["source"] == "simulated"
        for raw in opened.messages():
            topic = raw.topic.removeprefix("/hopper/")
            if topic in heights:
                message = opened.deserialize(raw)
                pose = message.pose.pose if topic == "odometry" else message.pose
                stamp = message.header.stamp
                heights[topic].append((stamp.sec % 100_000 + 1e-9 * stamp.nanosec, pose.position.z))
            elif raw.topic == "/diagnostics":
                for status in opened.deserialize(raw).status:
                    lost += [float(one.value) for one in status.values if one.key == "lost"]
    assert lost
    assert max(lost) == 0.0 or "the line is full, the driver does not read" in launch.output
    estimate, truth = (np.array(heights[topic]) for topic in heights)
    settled = estimate[estimate[:, 0] > estimate[0, 0] + 8.0]
    error = settled[:, 1] - np.interp(settled[:, 0], truth[:, 0], truth[:, 1])
    assert np.sqrt(np.mean(error**2)) < 0.35
