"""Typed configuration: what is accepted, what is refused and how that is said, and that written files read back."""

from __future__ import annotations

import array
import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onboard_estimation.base.configuration import (
    ConfigurationError,
    load,
    parameter,
    to_mapping,
    to_parameter_file,
)
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.parameter_file import for_nodes, read_yaml, sections_of_others, to_yaml, yaml_value


@dataclass(frozen=True)
class Gyro:
    """One gyro."""

    noise_rad_s: float = parameter(0.005, "standard deviation of one sample", unit="rad/s", exclusive_minimum=0.0)
    axis: Literal["x", "y", "z"] = parameter("z", "axis that points up")


@dataclass(frozen=True)
class Filter:
    smallest_rad: float = parameter(-1.0, "lower bound", unit="rad")
    largest_rad: float = parameter(1.0, "upper bound", unit="rad")

    def faults(self) -> Iterator[str]:
        if self.smallest_rad >= self.largest_rad:
            yield f"smallest_rad {self.smallest_rad} must be below largest_rad {self.largest_rad}"


@dataclass(frozen=True)
class Robot:
    links: int = parameter(3, "number of links", minimum=2, maximum=100)
    gate_probability: float = parameter(0.997, "gate", exclusive_minimum=0.0, exclusive_maximum=1.0)
    frame: str = parameter("base_link", "frame of the body")
    smooth: bool = parameter(False, "smooth afterwards")
    offset_m: tuple[float, float, float] = parameter((0.0, 0.0, 0.0), "lever arm", unit="m", minimum=-1.0)
    signs: tuple[int, ...] = parameter((1, -1), "turning senses", choices=(1, -1))
    names: tuple[str, ...] = parameter((), "sensors")
    gyro: Gyro = Gyro()
    spare: Gyro = Gyro(noise_rad_s=0.1)
    filter: Filter = dataclasses.field(default_factory=Filter)


def faults(source: Any = None, overrides: Any = None, configuration: type = Robot) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as caught:
        load(configuration, source, overrides)
    return caught.value.faults


def written(folder: Path, text: str) -> Path:
    path = folder / "parameters.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("node", ["/**", "/robot_1/salp_estimator"])
def test_parameter_file_with_nested_and_dotted_names(tmp_path: Path, node: str) -> None:
    parameters = "links: 4\n    gyro:\n      axis: x\n    spare.axis: 'y'"
    path = written(tmp_path, f"{node}:\n  ros__parameters:\n    {parameters}\n")
    robot = load(Robot, path)
    assert (robot.links, robot.gyro.axis, robot.spare.axis, robot.spare.noise_rad_s) == (4, "x", "y", 0.1)


def test_overrides_prevail_integers_become_floats_and_arrays_tuples() -> None:
    robot = load(Robot, {"gyro": {"noise_rad_s": 0.1}, "links": 4}, {"gyro.noise_rad_s": 0.2})
    assert (robot.gyro.noise_rad_s, robot.links) == (0.2, 4)
    robot = load(
        Robot, {"gate_probability": np.float64(0.5), "offset_m": np.array([1, 2, 3]), "signs": array.array("q", [1])}
    )
    assert robot.offset_m == (1.0, 2.0, 3.0)
    assert [type(element) for element in (*robot.offset_m, robot.gate_probability)] == [float] * 4
    assert robot.signs == (1,)


def test_numbers_are_those_of_ros2_and_what_only_yaml_1_1_takes_for_one_stays_text(tmp_path: Path) -> None:
    for text in ("1:30", "2017-11-22", "0b11", "1_000", "010", "<<"):
        file = written(tmp_path, f"/**: {{ros__parameters: {{gate_probability: 1e-3, frame: {text}}}}}")
        assert (load(Robot, file).frame, load(Robot, file).gate_probability) == (text, 0.001)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("links", 1, "links: 1 is not allowed; has to be an integer >= 2 and <= 100"),
        ("links", True, "links: true is not allowed; has to be an integer >= 2 and <= 100"),
        ("gate_probability", "0.5", "gate_probability: '0.5' is not allowed; has to be a number > 0.0 and < 1.0"),
        ("gyro.noise_rad_s", math.nan, "gyro.noise_rad_s: nan is not allowed; has to be a number > 0.0 (rad/s)"),
        ("gyro.noise_rad_s", 10**400, "is not allowed; has to be a number > 0.0 (rad/s)"),
        ("gyro.axis", "w", "gyro.axis: 'w' is not allowed; has to be one of x, y, z"),
        ("smooth", 1, "smooth: 1 is not allowed; has to be true or false"),
        ("frame", 3, "frame: 3 is not allowed; has to be a text in quotes"),
        ("offset_m", [0, 0, -2], "[0, 0, -2] is not allowed; has to be a list of 3 numbers, each >= -1.0 (m)"),
        ("offset_m", [0.0, 0.0], "[0.0, 0.0] is not allowed; has to be a list of 3 numbers, each >= -1.0 (m)"),
        ("signs", [1, 2], "signs: [1, 2] is not allowed; has to be a list of integers, each one of 1, -1"),
        ("names", "ab", "names: 'ab' is not allowed; has to be a list of texts"),
        ("gyro", 3, "gyro: 3 is not allowed; it holds gyro.axis, gyro.noise_rad_s"),
        ("gyro.nois_rad_s", 3, "gyro.nois_rad_s: unknown parameter; did you mean gyro.noise_rad_s?"),
        ("device", None, "device: unknown parameter"),
    ],
)
def test_refused_value_is_said_with_what_is_allowed(name: str, value: Any, said: str) -> None:
    (fault,) = faults({name: value})
    assert fault.endswith(said)
    (fault,) = faults({}, {name: value})
    assert fault.endswith(said)


def test_integers_beyond_those_of_ros2_are_refused() -> None:
    @dataclass(frozen=True)
    class Seeded:
        seed: int = parameter(0, "seed")

    globals()["Seeded"] = Seeded
    assert load(Seeded, {"seed": 2**63 - 1}).seed == 2**63 - 1
    assert len(faults({"seed": 2**63}, configuration=Seeded)) == 1


def test_all_faults_are_listed_together(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """/**:
  ros__parameters:
    links: 1
    gate: 0.5
    gyro: {noise_rad_s: -1.0, noise_rad_s: -2.0, axis: up}
    filter: {smallest_rad: 2.0}
    smooth: true
    smooth: false
""",
    )
    with pytest.raises(ConfigurationError) as caught:
        load(Robot, path)
    assert caught.value.faults == (
        "noise_rad_s: given twice, in lines 5 and 5",
        "smooth: given twice, in lines 7 and 8",
        "links: 1 is not allowed; has to be an integer >= 2 and <= 100",
        "gyro.noise_rad_s: -2.0 is not allowed; has to be a number > 0.0 (rad/s)",
        "gyro.axis: 'up' is not allowed; has to be one of x, y, z",
        "filter: smallest_rad 2.0 must be below largest_rad 1.0",
        "gate: unknown parameter",
    )
    lines = str(caught.value).splitlines()
    assert lines[0] == f"{path}: 7 faults"
    assert [line.strip() for line in lines[1:]] == list(caught.value.faults)


FLEET = """/**: {ros__parameters: {links: 4, frame: all}}
/robot_1/salp_estimator: {ros__parameters: {frame: mine, colour: red}}
robot_2: {salp_estimator: {ros__parameters: {frame: yours}}, markers: {ros__parameters: {links: 5}}}
/**/imu: {ros__parameters: {frame: hers}}
/robot_2/imu: {ros__parameters: {frame: his}}
"""


@dataclass(frozen=True)
class Beside:
    colour: str = parameter("", "of the node, not of the robot")


@pytest.mark.parametrize(
    ("asked", "node", "frame"),
    [
        ("", "/robot_1/salp_estimator", "mine"),
        (":/robot_2/salp_estimator", "salp_estimator", "yours"),
        (":markers", "salp_estimator", "all"),
        ("", "other", "all"),
        ("", "imu", "his"),
    ],
)
def test_of_a_file_for_several_nodes_a_node_gets_its_sections(
    tmp_path: Path, asked: str, node: str, frame: str
) -> None:
    path = written(tmp_path, FLEET)
    robot = load(Robot, f"{path}{asked}", None, node, Beside)
    assert (robot.links, robot.frame) == (5 if asked == ":markers" else 4, frame)
    with pytest.raises(ConfigurationError, match="colour: unknown parameter"):  # on the command line it is of no use
        load(Robot, f"{path}{asked}", {"colour": "red"}, node, Beside)


def test_what_is_for_all_nodes_can_be_for_some_alone(tmp_path: Path) -> None:
    whole, some = written(tmp_path, FLEET), tmp_path / "some.yaml"
    some.write_text(for_nodes(whole, ["salp_estimator", "imu"]) or "")
    for node in ("/robot_1/salp_estimator", "/robot_2/salp_estimator", "/robot_2/imu", "/imu"):
        assert load(Robot, some, None, node, Beside) == load(Robot, whole, None, node, Beside)
    with pytest.raises(ConfigurationError, match="none for /other"):
        load(Robot, some, None, "/other")
    assert for_nodes(written(tmp_path, "/**: {ros__parameters: 5}"), ["imu"]) is None


def test_a_section_that_cannot_be_chosen_or_is_for_nobody_is_said(tmp_path: Path) -> None:
    path = written(tmp_path, FLEET)
    several = "parameters for several nodes (/robot_1/salp_estimator, /robot_2/salp_estimator"
    with pytest.raises(ConfigurationError) as caught:
        load(Robot, path, None, "salp_estimator")
    assert caught.value.faults == (f"{several}): choose one, FILE:/robot_2/salp_estimator",)
    assert faults(path) == (f"{several}, /robot_2/markers, /**/imu, /robot_2/imu): choose one, FILE:/robot_2/imu",)
    others = sections_of_others(path, ["/robot_1/salp_estimator", "/robot_2/imu"])
    assert others == ["/robot_2/salp_estimator", "/robot_2/markers"]
    path.write_text("markers: {ros__parameters: {colour: red}}")
    with pytest.raises(
        ConfigurationError, match=r"for /markers, none for salp_estimator: call .*, or choose one, FILE:"
    ):
        load(Robot, path, None, "salp_estimator")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("links: 4", "no ros__parameters: a ROS 2 parameter file has"),
        ("/**: {ros__parameters: {? [1, 2] : 3}}", "line 1: a name is a text, not a sequence"),
        ("/**: [1,\n 2", "is no valid parameter file: line 2, column 3"),
        ("/**: {ros__parameters: {links: &n 4, frame: *n}}", ": line 1, column 45: ROS 2 reads no aliases"),
        ("/**: {ros__parameters: {frame: !!python/name:os.system x}}", "is no valid parameter file: line 1"),
        ("[" * 1000, "is no valid parameter file: "),
    ],
)
def test_malformed_file_is_said_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UserError) as caught:
        load(Robot, path)
    assert said in str(caught.value)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"missing\.yaml: cannot be read: No such file"):
        load(Robot, tmp_path / "missing.yaml")
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"a: \xff")
    with pytest.raises(UserError, match=r"is no UTF-8 text \(byte 3\)"):
        load(Robot, path)


def test_parameter_file_comments_every_line() -> None:
    text = to_parameter_file(Robot())
    assert "      noise_rad_s: 0.005  # standard deviation of one sample [rad/s], > 0.0\n" in text
    assert "    gyro:  # One gyro.\n" in text
    assert text.startswith("/**:\n  ros__parameters:\n    links: 3  # number of links, >= 2 and <= 100\n")


finite = st.floats(allow_nan=False, allow_infinity=False)
gyros = st.builds(
    Gyro,
    noise_rad_s=st.floats(min_value=0.0, exclude_min=True, allow_infinity=False),
    axis=st.sampled_from("xyz"),
)
texts = st.text(st.characters(codec="utf-8"))
robots = st.builds(
    Robot,
    links=st.integers(2, 100),
    gate_probability=st.floats(0.0, 1.0, exclude_min=True, exclude_max=True),
    frame=texts,
    smooth=st.booleans(),
    offset_m=st.tuples(*[st.floats(min_value=-1.0, allow_infinity=False)] * 3),
    signs=st.lists(st.sampled_from([1, -1])).map(tuple),
    names=st.lists(texts).map(tuple),
    gyro=gyros,
    spare=gyros,
    filter=st.tuples(finite, finite)
    .filter(lambda pair: pair[0] != pair[1])
    .map(lambda pair: Filter(min(pair), max(pair))),
)


@given(robots)
@settings(max_examples=30)
def test_written_file_and_mapping_read_back(tmp_path_factory: pytest.TempPathFactory, robot: Robot) -> None:
    text, mapping = to_parameter_file(robot), to_mapping(robot)
    assert load(Robot, written(tmp_path_factory.getbasetemp(), text)) == load(Robot, mapping) == robot
    assert yaml.safe_load(text) == {"/**": {"ros__parameters": mapping}}


ROS_TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
ROS_SCALARS = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | ROS_TEXTS
SPELLED = """
1e-3 1E3 .5 5. 5.e3 +.5 -0.0 -0 0x1F -0x1F 0b11 1_000 1:30 2017-11-22 yes No on OFF y N tRue inf
-inf nan .inf -.inf .nan -.nan infinity 1e309x 1e16 9223372036854775807 1,5 1.2.3 1e e5 = << '1' "y" 0o17 0x /a -a
""".split()  # noqa: SIM905


@pytest.mark.live
@settings(max_examples=8, deadline=None)
@given(st.lists(ROS_SCALARS, min_size=30, max_size=60))
@example([5e-324, -2.3e-310, 2.0**-1022, 1.7976931348623157e308, -0.0, 1e16, 1e-05, math.inf, math.nan])
@example(
    ["1e3", "08", "010", "0x1p3", "nan", "-Infinity", "on", "n", "~", "null", ".5x", "12:30", "", "\x85", "\u2028a\n"]
)
def test_ros2_reads_a_written_value_as_it_was_and_a_spelled_one_as_we_do(
    tmp_path_factory: pytest.TempPathFactory, values: list[Any]
) -> None:
    import rclpy
    from rclpy.node import Node

    named = {f"p{number}": value for number, value in enumerate(values)}
    lines = "".join(f"s{number}: {text}\n" for number, text in enumerate(SPELLED))
    spelled = read_yaml(lines, of_ros=True)[0]
    path = tmp_path_factory.getbasetemp() / "of_ros.yaml"
    text = to_yaml({"/**": {"ros__parameters": named}}) + "".join(f"    {line}\n" for line in lines.splitlines())
    path.write_text(text, encoding="utf-8")
    context = rclpy.Context()
    rclpy.init(args=["--ros-args", "--params-file", str(path)], context=context)
    try:
        node = Node("reader", context=context, automatically_declare_parameters_from_overrides=True)
        read = {name: one.value for name, one in node.get_parameters_by_prefix("").items()}
        node.destroy_node()
    finally:
        rclpy.shutdown(context=context)
    assert {name: repr(read[name]) for name in spelled} == {name: repr(value) for name, value in spelled.items()}
    assert {name: repr(read[name]) for name in named} == {name: repr(value) for name, value in named.items()}
    for same in (yaml.safe_load(to_yaml(named)), yaml_value(to_yaml(named, default_flow_style=True))):
        assert repr(same) == repr(named)


@settings(max_examples=40)
@given(st.text() | st.binary())
def test_any_file_is_read_or_refused_but_never_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, content: str | bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    try:
        load(Robot, path)
    except UserError as error:
        assert str(path) in str(error)  # noqa: PT017  either outcome is right


def test_of_a_sentence_that_would_fill_the_screen_the_middle_is_left_out() -> None:
    said = str(UserError("model x: " + "9" * 100_000 + "; copy it again"))
    assert len(said) < 5000
    assert said.startswith("model x: 9")
    assert said.endswith("9; copy it again")
