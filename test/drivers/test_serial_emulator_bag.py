"""The emulated serial device plays a bag: what its driver reads is what the bag holds, in counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live_graph import await_being_heard, collect, listening_node, running, spin_until, spin_while_it_comes
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from drivers.emulators.serial_imu import HIGH_G, LOW_G, PlayedBag, SerialBag
from hopper_estimation.robot import ROBOT
from onboard_estimation.bags.bag import open_bag
from onboard_estimation.bags.message_types import new
from onboard_estimation.bags.writing import BagWriter
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.series import Recording, Series, imu_channel, truth_channel
from onboard_estimation.judging.simulated_bags import EPOCH_NS, write_series
from onboard_estimation.ros.sensor_messages import to_message

Stamps = NDArray[np.int64]
G = 9.80665
COUNTS_PER = np.array([16.4 * 180.0 / np.pi] * 3 + [2048.0 / G] * 3)
"""Counts per rad/s and per m/s^2, by the data sheet of the MPU-6050 at 2000 deg/s and 16 g."""
DIGITS_PER_M_S2 = 1.0 / (0.098 * G)
PERIOD_NS = 2_000_000
CONFIGURATION = ROBOT.configuration_type()


def noise(count: int, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal([0.0, 0.0, 0.0, 0.0, 0.0, G], 1.0, (count, 6))


def low(stamps: Stamps, seed: int = 0) -> Series:
    return Series(LOW_G, stamps, noise(len(stamps), seed))


def high(stamps: Stamps, seed: int = 1) -> Series:
    values = 10.0 * noise(len(stamps), seed)
    values[:, :3] = np.nan
    return Series(HIGH_G, stamps, values)


def written(path: Path, *series: Series, namespace: str = "/hopper") -> Path:
    with BagWriter(path) as writer:
        write_series(writer, series, namespace)
    return path


def played(path: Path, **asked: str) -> tuple[PlayedBag, dict[str, Series]]:
    """All of a bag, in pieces of 20 ms; by topic."""
    pieces: list[Recording] = []
    with open_bag(path) as bag:
        source = PlayedBag(bag, SerialBag(str(path), **asked), ROBOT, CONFIGURATION)
        while not source.is_over:
            pieces.append(source.advance(20_000_000 * (len(pieces) + 1)))
    found: dict[str, list[Series]] = {}
    for piece in pieces:
        for one in (*piece.sensors, *piece.truth):
            if len(one.stamps_ns):
                found.setdefault(one.channel.topic, []).append(one)
    return source, {
        topic: Series(
            parts[0].channel, np.concatenate([one.stamps_ns for one in parts]), np.vstack([one.values for one in parts])
        )
        for topic, parts in found.items()
    }


def regular(count: int, phase_ns: int = 0, jitter_ns: int = 0, seed: int = 0) -> Stamps:
    jitter = np.random.default_rng(seed).integers(-jitter_ns, jitter_ns + 1, count)
    return np.arange(1, count + 1, dtype=np.int64) * PERIOD_NS + phase_ns + jitter


# The bag


def nearest_pairs(low_ns: Stamps, high_ns: Stamps, furthest_ns: float) -> set[tuple[int, int]]:
    """By all distances: each the other's nearest, within that distance."""
    apart = np.abs(low_ns[:, None] - high_ns[None, :])
    return {
        (k, m)
        for k, m in enumerate(apart.argmin(axis=1).tolist())
        if apart[:, m].argmin() == k and apart[k, m] <= furthest_ns
    }


def test_readings_are_paired_with_their_nearest_and_none_is_lost(tmp_path: Path) -> None:
    seed = 1
    rng = np.random.default_rng(seed)
    low_ns = regular(700, 0, 100_000, seed)[rng.random(700) > 0.1]
    high_ns = regular(700, int(rng.integers(-700_000, 700_000)), 100_000, seed + 50)[rng.random(700) > 0.1]
    # The high-g ones are written late: messages of a bag need not be in the order of their stamps.
    path = tmp_path / "bag"
    with BagWriter(path) as writer:
        write_series(writer, [low(low_ns)], "/a/b")
        write_series(writer, [high(high_ns)], "/a/b")
    source, found = played(path)
    pairs = nearest_pairs(low_ns, high_ns, 0.5e9 / source.rate_hz)
    start_ns = min(low_ns[0], high_ns[0])
    expected_ns = high_ns.copy()
    for k, m in pairs:
        expected_ns[m] = low_ns[k]
    np.testing.assert_array_equal(found[LOW_G.topic].stamps_ns, low_ns - start_ns)
    np.testing.assert_array_equal(found[LOW_G.topic].values, low(low_ns).values)
    np.testing.assert_array_equal(found[HIGH_G.topic].stamps_ns, expected_ns - start_ns)
    np.testing.assert_array_equal(found[HIGH_G.topic].values, high(high_ns).values)
    assert source.unpaired == len(low_ns) + len(high_ns) - 2 * len(pairs)
    assert source.left_out == 0
    assert source.rate_hz == pytest.approx(500.0, rel=0.05)


def test_what_cannot_be_played_is_left_out_and_counted(tmp_path: Path) -> None:
    stamps, body = regular(500), truth_channel("body")
    bad, path = low(stamps.copy()), tmp_path / "bag"
    bad.values[100, 4] = np.inf
    bad.stamps_ns[[200, 300]] = bad.stamps_ns[199], 400_000_000_000
    truth = Series(body, np.array([-EPOCH_NS, stamps[5], stamps[50]]), np.eye(7)[[3, 3, 3]])
    with BagWriter(path) as writer:
        for one, logged_ns in ((bad, stamps), (high(stamps), stamps), (truth, stamps[[4, 5, 50]])):
            for k, row_ns in enumerate(logged_ns.tolist()):
                stamp_ns, kind = EPOCH_NS + int(one.stamps_ns[k]), one.channel.message_type
                message = to_message(new, one.channel, stamp_ns, one.values[k])
                writer.write(f"/hopper/{one.channel.topic}", kind, EPOCH_NS + row_ns, message)
    source, found = played(path)
    # Of the sensor: infinite, a stamp again, one seven minutes ahead; of the truth: a stamp that was not set.
    kept = np.delete(np.arange(500), [100, 200, 300])
    np.testing.assert_array_equal(found[LOW_G.topic].values, bad.values[kept])
    assert source.left_out == 4
    assert source.unpaired == 3
    np.testing.assert_array_equal(found[body.topic].stamps_ns, truth.stamps_ns[1:] - stamps[0])


def test_a_topic_that_is_not_there_is_answered_with_those_that_are(tmp_path: Path) -> None:
    stamps = regular(50)
    spare = Series(imu_channel("spare"), stamps, noise(50))
    path = written(tmp_path / "bag", low(stamps), spare)
    with pytest.raises(UserError, match=r"has no /imu/body; it has /hopper/imu/low_g/data_raw, /hopper/imu/spare"):
        played(path, low_g_topic="/imu/body")
    # Under another name, and without the other chip.
    source, found = played(path, low_g_topic="/hopper/imu/spare/data_raw")
    assert source.absent == HIGH_G.sensor
    assert set(found) == {LOW_G.topic}
    np.testing.assert_array_equal(found[LOW_G.topic].values, spare.values)
    with pytest.raises(UserError, match=r"neither imu/low_g/data_raw nor .*: set low_g_topic, .* /x/imu/spare"):
        played(written(tmp_path / "other", spare, namespace="/x"))


def test_topics_that_cannot_be_meant_are_refused(tmp_path: Path) -> None:
    """One topic for both chips, poses for readings, two robots: none is played as if one chip were not there."""
    stamps = regular(50)
    pose = Series(truth_channel("body"), stamps, np.tile(np.eye(7)[3], (50, 1)))
    path = written(tmp_path / "bag", low(stamps), high(stamps), pose)
    with pytest.raises(UserError, match="are both /hopper/imu/low_g/data_raw"):
        played(path, low_g_topic="/hopper/imu/low_g/data_raw", high_g_topic="/hopper/imu/low_g/data_raw")
    with pytest.raises(UserError, match=r"ground_truth/body/pose is of type geometry_msgs/msg/PoseStamped, not sensor"):
        played(path, low_g_topic="/hopper/ground_truth/body/pose")
    with BagWriter(tmp_path / "two") as writer:
        for namespace in ("/a", "/b"):
            write_series(writer, (low(stamps), high(stamps)), namespace)
    with pytest.raises(UserError, match=r"several robots \(/a, /b\)"):
        played(tmp_path / "two")
    both = {"low_g_topic": "/b/imu/low_g/data_raw", "high_g_topic": "/b/imu/high_g/data_raw"}
    assert set(played(tmp_path / "two", **both)[0].topics.values()) >= set(both.values())


# On the wire


@pytest.mark.usefixtures("ros_domain")
@pytest.mark.live
def test_the_driver_publishes_what_the_bag_holds(tmp_path: Path) -> None:
    """A bag, on a pseudo-terminal, through the driver: each reading one of the bag's, in order."""
    stamps, port = regular(1000, 0, 200_000), tmp_path / "port"
    truth = Series(truth_channel("body"), stamps[::5], np.random.default_rng(4).normal(size=(200, 7)))
    series = (low(stamps), high(stamps), truth)
    arguments = ("-p", f"link:={port}", "-p", f"bag:={written(tmp_path / 'bag', *series, namespace='/other')}")
    with (
        running("serial_imu", tmp_path, "-p", f"port:={port}", namespace="/hopper") as driver,
        listening_node(namespace="/hopper") as node,
    ):
        heard = {one.channel.topic: collect(node, one.channel.message_type, one.channel.topic) for one in series}
        await_being_heard(node, "/hopper/serial_imu")
        with running("serial_imu_emulator", tmp_path, *arguments, namespace="/hopper") as emulator:
            spin_until(node, lambda: "the bag is over" in emulator.output or emulator.popen.poll() is not None)
            assert "0 readings unpaired, 0 messages left out; the line is silent now" in emulator.output
            assert emulator.popen.poll() is None
            spin_while_it_comes(node, heard[LOW_G.topic])
        assert "Traceback" not in emulator.output + driver.output
    for sent, scale in ((series[0], COUNTS_PER), (series[1], np.full(3, DIGITS_PER_M_S2))):
        messages, columns = heard[sent.channel.topic], slice(6 - len(scale), 6)
        got = np.array([imu_values(one) for one in messages])[:, columns] * scale
        assert len(got) > 0.5 * len(stamps)  # a busy machine may lose some
        apart, rows = cKDTree(sent.values[:, columns] * scale).query(got, p=np.inf)
        assert apart.max() <= 0.5 + 1e-6
        if sent.channel is LOW_G:
            assert np.diff(rows).min() > 0
            stamps_ns = np.array([one.header.stamp.sec * 10**9 + one.header.stamp.nanosec for one in messages])
            assert np.median(np.abs(np.diff(stamps_ns) - np.diff(stamps[rows]))) < 5000
    poses = heard[truth.channel.topic]
    assert len(poses) > 0.5 * len(truth.stamps_ns)
    assert np.isin([one.pose.position.z for one in poses], truth.values[:, 2]).all()


def imu_values(message: Any) -> list[float]:
    parts = (message.angular_velocity, message.linear_acceleration)
    return [getattr(part, axis) for part in parts for axis in "xyz"]
