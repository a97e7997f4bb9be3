"""Frames of `/tf` as topics of poses, against products of matrices; poses in forms that are not read, named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bag_samples import NOETIC, START_NS, Sample, header, imu, type_of, vector, write_ros1, write_rosbag2
from evaluation_samples import command, refusal
from numpy.typing import NDArray
from rosbags.typesys import get_types_from_msg
from scipy.spatial.transform import Rotation, Slerp

from onboard_estimation.bags.bag import open_bag
from onboard_estimation.bags.message_types import jazzy_types, new
from onboard_estimation.bags.topics import TRANSFORM
from onboard_estimation.bags.transform_trees import read_topics
from onboard_estimation.bags.writing import BagWriter
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Channel

TREE = "tf2_msgs/msg/TFMessage"
COUNT, PERIOD_NS = 40, 10_000_000
if TREE not in NOETIC.fielddefs:
    NOETIC.register(get_types_from_msg("geometry_msgs/TransformStamped[] transforms", TREE))


def transform(stamp_ns: int, parent: str, child: str, value: NDArray[np.float64]) -> Any:
    place, turn = vector(*value[:3]), type_of("geometry_msgs/msg/Quaternion")(*value[3:])
    inner = type_of("geometry_msgs/msg/Transform")(place, turn)
    return type_of(TRANSFORM)(header(stamp_ns, parent), child, inner)


def random_poses(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """That turn less than half round between two of them."""
    turns = Rotation.from_rotvec(np.cumsum(rng.normal(0.0, 0.3, (count, 3)), axis=0))
    return np.hstack([rng.normal(0.0, 2.0, (count, 3)), turns.as_quat()])


def matrices(poses: NDArray[np.float64]) -> NDArray[np.float64]:
    out = np.tile(np.eye(4), (len(poses), 1, 1))
    out[:, :3, :3], out[:, :3, 3] = Rotation.from_quat(poses[:, 3:]).as_matrix(), poses[:, :3]
    return out


def laboratory(left: NDArray[np.float64], odom: NDArray[np.float64], mounts: NDArray[np.float64]) -> list[Sample]:
    """`left` in `vicon`, which is fixed in `world`, with a sensor on it; `base` in `odom`, which drifts in `world`."""
    fixed = [("world", "vicon", mounts[0]), ("left", "sensor", mounts[1]), ("vicon", "left", mounts[1])]
    samples = [Sample("/tf_static", TREE, START_NS, type_of(TREE)([transform(0, *one) for one in fixed]))]
    for k, (body, drift) in enumerate(zip(left, odom, strict=True)):
        stamp = START_NS + k * PERIOD_NS
        both = [transform(stamp, "/vicon", "left", body), transform(stamp, "odom", "base", body)]
        samples.append(Sample("/tf", TREE, stamp + 1000, type_of(TREE)(both)))
        if k % 3 == 0:
            one = [transform(stamp, "world", "odom", drift), transform(stamp, "other", "lost", body)]
            one += [transform(stamp, parent, "twin", body) for parent in ("world", "odom")]
            samples.append(Sample("/tf", TREE, stamp + 2000, type_of(TREE)(one)))
    return samples


@pytest.mark.parametrize("form", ["mcap", "sqlite3", "ros1"])
def test_frames_are_read_through_what_lies_between_and_refused_by_name(tmp_path: Path, form: str) -> None:
    rng = np.random.default_rng(3)
    left, odom, mounts = random_poses(rng, COUNT), random_poses(rng, COUNT), random_poses(rng, 2)
    samples = laboratory(left, odom, mounts)
    path = tmp_path / "bag"
    path = write_ros1(path.with_suffix(".bag"), samples) if form == "ros1" else write_rosbag2(path, samples, form)
    with open_bag(path) as bag:
        assert [name for name, kind in bag.types.items() if kind == TRANSFORM] == [
            "/tf:base", "/tf:left", "/tf:lost", "/tf:odom", "/tf:twin"
        ]  # fmt: skip

        def read(*frames: str) -> list[Any]:
            names = [f"/tf:{frame}" for frame in frames]
            found = read_topics(bag, {name: Channel(name, TRANSFORM, name) for name in names})
            return [found[name] for name in names]

        alone, sensor, base = read("vicon:left")[0], *read("sensor", "world:base")
        np.testing.assert_array_equal(alone.values, left)
        np.testing.assert_array_equal(alone.stamps_ns, START_NS + PERIOD_NS * np.arange(COUNT))
        expected = matrices(mounts[:1]) @ matrices(left) @ matrices(mounts[1:])
        np.testing.assert_allclose(matrices(sensor.values), expected, atol=1e-12)
        known, at = np.arange(0, COUNT, 3), np.arange(COUNT)
        turns = Slerp(known, Rotation.from_quat(odom[known, 3:]))(at).as_quat()
        between = np.column_stack([*(np.interp(at, known, odom[known, axis]) for axis in range(3)), turns])
        np.testing.assert_allclose(matrices(base.values), matrices(between) @ matrices(left), atol=1e-12)
        for frames, said in (
            (("left", "lost"), r"connects the frames that poses are given in \(left in world, lost in other\)"),
            (("right",), "does not tell the pose of right; it has base, left, lost"),
            (("odom:left",), "does not tell the pose of left in odom"),
            (("vicon",), "vicon is fixed to world, it never moves"),
            (("twin",), "twin is given in world and in odom: name the one meant, as /tf:FIXED:twin"),
        ):
            with pytest.raises(UserError, match=said):
                read(*frames)


@pytest.mark.usefixtures("without_pictures")
def test_a_frame_is_offered_as_truth_and_taken(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    left = random_poses(rng, COUNT)
    samples = laboratory(left, left, random_poses(rng, 2))
    still = imu(START_NS, (0.0, 0.0, 0.0), (0.0, 0.0, 9.81))
    samples.append(Sample("/imu/foot/data_raw", "sensor_msgs/msg/Imu", START_NS, still))
    bag, file = write_rosbag2(tmp_path / "bag", samples), tmp_path / "a.txt"
    rows = [f"{START_NS + k * PERIOD_NS} {' '.join(map(repr, row))}" for k, row in enumerate(left.tolist())]
    file.write_text("\n".join(rows))
    words = ("--truth", bag, "--topic", "ground_truth=/tf:vicon:left", "--output", tmp_path / "run")
    taken = command("evaluate", file, *words)
    assert "attitude within 0 deg RMS" in taken.out
    assert "--topic ground_truth/BODY/transform=/tf:left" in command("inspect", bag).out.replace("\n", "")
    wrong = refusal("evaluate", bag, "--topic", "ground_truth/foot/pose=/tf:left")
    assert "--topic ground_truth/foot/transform=/tf:left" in wrong


def test_poses_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    kinds = {
        "/array": ("geometry_msgs/msg/PoseArray", None, "several in a message"),
        "/bare": ("geometry_msgs/msg/Pose", None, "without a stamp"),
        "/bodies": ("mocap4r2_msgs/msg/RigidBodies", "", "a type that the bag does not define"),
        "/drawn": ("visualization_msgs/msg/Marker", None, "a type of its own"),
        "/path": ("nav_msgs/msg/Path", None, "several in a message"),
        "/vicon": ("vicon_receiver/msg/Position", "float32 x_trans\nstring segment_name\n", "without a stamp"),
    }
    others = {"/imu": ("sensor_msgs/msg/Imu", None, ""), "/map": ("nav_msgs/msg/OccupancyGrid", None, "")}
    with BagWriter(tmp_path / "bag") as writer:
        for topic, (message_type, definition, _) in (kinds | others).items():
            writer.add_topic(topic, message_type, definition)
            data = jazzy_types().serialize_cdr(new(message_type), message_type) if definition is None else bytes(40)
            writer.write_serialized(topic, message_type, START_NS, data)
    told = "; ".join(f"{topic} ({message_type}, {why})" for topic, (message_type, _, why) in kinds.items())
    said = f"Poses that cannot be read as they are: {told}. Publish those of the body alone"
    assert said in " ".join(command("inspect", tmp_path / "bag").out.replace("note", "").split())
    (tmp_path / "a.tum").write_text("0 0 0 0 0 0 0 1\n")
    assert said in refusal("evaluate", tmp_path / "a.tum", "--truth", tmp_path / "bag")
