"""Parameters of nodes: the same tests run on the embedded runtime and, where ROS 2 is sourced, on the real rclpy."""

from __future__ import annotations

import array
import math
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import embedded_ros

EMBEDDED = embedded_ros.install() is embedded_ros.Runtime.EMBEDDED

import rclpy  # noqa: E402
from rcl_interfaces.msg import (  # noqa: E402
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    ParameterEvent,
    SetParametersResult,
)
from rcl_interfaces.srv import (  # noqa: E402
    DescribeParameters,
    GetParameters,
    GetParameterTypes,
    ListParameters,
    SetParameters,
    SetParametersAtomically,
)
from rclpy.exceptions import (  # noqa: E402
    InvalidParameterException,
    InvalidParameterTypeException,
    InvalidParameterValueException,
    ParameterAlreadyDeclaredException,
    ParameterImmutableException,
    ParameterNotDeclaredException,
    ParameterUninitializedException,
)
from rclpy.executors import SingleThreadedExecutor  # noqa: E402
from rclpy.node import Node  # noqa: E402
from rclpy.parameter import (  # noqa: E402
    Parameter,
    get_parameter_value,
    parameter_value_to_python,
)

LONG_S = 60.0
Make = Callable[..., Node]
VALUES: list[tuple[str, Any]] = [
    ("BOOL", True),
    ("INTEGER", -3),
    ("DOUBLE", 0.25),
    ("STRING", "salp ä"),
    ("BYTE_ARRAY", [b"\x01", b"\xff"]),
    ("BOOL_ARRAY", [True, False]),
    ("INTEGER_ARRAY", [1, -2]),
    ("DOUBLE_ARRAY", [1.5, -2.0]),
    ("STRING_ARRAY", ["a", "b"]),
]


@pytest.fixture
def make(ros_domain: int) -> Iterator[Make]:
    """Makes nodes `tested`, destroyed at the end."""
    rclpy.init(args=[], signal_handler_options=rclpy.signals.SignalHandlerOptions.NO)
    nodes: list[Node] = []

    def made(*arguments: str, name: str = "tested", **options: Any) -> Node:
        cli_args = ["--ros-args", *arguments] if arguments else None
        nodes.append(Node(name, cli_args=cli_args, **options))
        return nodes[-1]

    try:
        yield made
    finally:
        for node in nodes:
            node.destroy_node()
        rclpy.try_shutdown()


# Values


@pytest.mark.parametrize(("kind", "value"), VALUES)
def test_a_value_keeps_its_type_through_a_message(kind: str, value: Any) -> None:
    parameter = Parameter("name", value=value)
    assert parameter.type_ == Parameter.Type[kind]
    received = Parameter.from_parameter_msg(parameter.to_parameter_msg()).value
    assert received == (array.array(received.typecode, value) if isinstance(received, array.array) else value)
    assert isinstance(received, array.array) is (kind in ("INTEGER_ARRAY", "DOUBLE_ARRAY"))
    assert parameter_value_to_python(parameter.get_parameter_value()) == value


def test_a_value_that_no_parameter_can_hold_is_refused() -> None:
    for value in ({"a": 1}, [1, 2.0], [1, "a"], object(), 1j):
        with pytest.raises(TypeError):
            Parameter("name", value=value)
    with pytest.raises(ValueError, match="do not agree"):
        Parameter("name", Parameter.Type.STRING, 1)
    with pytest.raises(TypeError):
        Parameter("name", "STRING", "a")


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("12", 12), ("1.5", 1.5), ("[1, 2]", [1, 2]), ("[a, b]", ["a", "b"]), ("salp", "salp"), ("", "")],
)
def test_texts_of_a_command_line_become_values(text: str, value: Any) -> None:
    assert parameter_value_to_python(get_parameter_value(text)) == value


# Declaring


@pytest.mark.parametrize(("kind", "value"), VALUES)
def test_a_declared_parameter_has_its_default_and_keeps_its_type(make: Make, kind: str, value: Any) -> None:
    node = make()
    assert node.declare_parameter("given", value).value == value
    assert node.get_parameter("given").type_ == Parameter.Type[kind]
    assert node.describe_parameter("given").type == Parameter.Type[kind].value
    other: Any = 1.5 if kind != "DOUBLE" else "text"
    (result,) = node.set_parameters([Parameter("given", value=other)])
    assert not result.successful
    assert "Wrong parameter type" in result.reason
    assert node.get_parameter("given").value == value


def test_declaring_follows_rclpys_rules(make: Make) -> None:
    node = make()
    node.declare_parameter("given", 1.0)
    with pytest.raises(ParameterAlreadyDeclaredException):
        node.declare_parameter("given", 1.0)
    with pytest.raises(InvalidParameterException):
        node.declare_parameter("", 1.0)
    with pytest.raises(ValueError, match="statically typed"):
        node.declare_parameter("nothing", None, ParameterDescriptor())
    with pytest.raises(ParameterNotDeclaredException):
        node.get_parameter("never")
    with pytest.raises(ParameterNotDeclaredException):
        node.set_parameters([Parameter("never", value=1)])
    node.declare_parameter("typed", Parameter.Type.INTEGER)
    with pytest.raises(ParameterUninitializedException):
        node.get_parameter("typed")
    assert node.get_parameter_or("typed", Parameter("typed", value=7)).value == 7
    assert node.get_parameter_or("never").type_ == Parameter.Type.NOT_SET
    assert node.set_parameters([Parameter("typed", value=5)])[0].successful
    assert node.get_parameter("typed").value == 5
    with pytest.warns(UserWarning, match="only providing its name"):
        node.declare_parameter("named")
    assert node.get_parameter("named").value is None
    declared = node.declare_parameters("gyro", [("noise", 0.1), ("name", "link_1", ParameterDescriptor())])
    assert [parameter.name for parameter in declared] == ["gyro.noise", "gyro.name"]
    assert {name: found.value for name, found in node.get_parameters_by_prefix("gyro").items()} == {
        "noise": 0.1,
        "name": "link_1",
    }


def test_parameters_can_be_undeclared_unless_they_are_read_only(make: Make) -> None:
    node = make()
    node.declare_parameter("loose", 1)
    node.declare_parameter("fixed", 1, ParameterDescriptor(read_only=True))
    node.undeclare_parameter("loose")
    assert not node.has_parameter("loose")
    with pytest.raises(ParameterImmutableException):
        node.undeclare_parameter("fixed")
    with pytest.raises(ParameterNotDeclaredException):
        node.undeclare_parameter("loose")
    (result,) = node.set_parameters([Parameter("fixed", value=2)])
    assert not result.successful
    assert "read-only" in result.reason


def test_a_dynamic_parameter_changes_its_type_and_can_go(make: Make) -> None:
    node = make()
    node.declare_parameter("dynamic", 1, ParameterDescriptor(dynamic_typing=True))
    assert node.set_parameters([Parameter("dynamic", value="text")])[0].successful
    assert node.describe_parameter("dynamic").type == Parameter.Type.STRING.value
    assert node.set_parameters([Parameter("dynamic")])[0].successful
    assert not node.has_parameter("dynamic")


def test_undeclared_parameters_where_they_are_allowed(make: Make) -> None:
    node = make(allow_undeclared_parameters=True)
    assert node.get_parameter("free").type_ == Parameter.Type.NOT_SET
    assert node.set_parameters([Parameter("free", value=1)])[0].successful
    assert node.set_parameters([Parameter("free", value="other type")])[0].successful
    assert node.get_parameter("free").value == "other type"


# Ranges


@pytest.mark.parametrize(
    ("value", "allowed"),
    [
        (0.0, True),
        (1.0, True),
        (0.5, True),
        (0.25, True),
        (0.3, False),
        (-0.1, False),
        (1.1, False),
        (1.0 + 1e-9, True),
    ],
)
def test_floating_point_ranges(make: Make, value: float, allowed: bool) -> None:
    node = make()
    bounds = FloatingPointRange(from_value=0.0, to_value=1.0, step=0.25)
    node.declare_parameter("gain", 0.5, ParameterDescriptor(floating_point_range=[bounds]))
    (result,) = node.set_parameters([Parameter("gain", value=value)])
    assert result.successful is allowed
    assert node.get_parameter("gain").value == (value if allowed else 0.5)


@pytest.mark.parametrize(
    ("value", "allowed"), [(10, True), (21, True), (13, True), (14, False), (9, False), (22, False)]
)
def test_integer_ranges(make: Make, value: int, allowed: bool) -> None:
    node = make()
    descriptor = ParameterDescriptor(integer_range=[IntegerRange(from_value=10, to_value=21, step=3)])
    node.declare_parameter("count", 10, descriptor)
    assert node.set_parameters([Parameter("count", value=value)])[0].successful is allowed


def test_a_default_outside_of_its_range_is_refused(make: Make) -> None:
    bounds = ParameterDescriptor(floating_point_range=[FloatingPointRange(from_value=0.0, to_value=1.0)])
    with pytest.raises(InvalidParameterValueException, match="gain"):
        make().declare_parameter("gain", 2.0, bounds)


# Callbacks


def test_callbacks_may_refuse(make: Make) -> None:
    node = make()
    node.declare_parameters("", [("a", 1), ("b", 1)])

    def even_only(parameters: list[Parameter]) -> SetParametersResult:
        odd = [parameter.name for parameter in parameters if parameter.value % 2]
        return SetParametersResult(successful=not odd, reason=f"odd: {odd}" if odd else "")

    node.add_on_set_parameters_callback(even_only)
    assert node.set_parameters([Parameter("a", value=4)])[0].successful
    assert node.get_parameter("a").value == 4
    (result,) = node.set_parameters([Parameter("a", value=5)])
    assert (result.successful, result.reason) == (False, "odd: ['a']")
    assert node.get_parameter("a").value == 4
    with pytest.raises(InvalidParameterValueException, match="odd"):
        node.declare_parameter("c", 3)
    assert not node.has_parameter("c")
    node.remove_on_set_parameters_callback(even_only)
    assert node.set_parameters_atomically([Parameter("a", value=1), Parameter("b", value=2)]).successful
    with pytest.raises(ValueError, match="not in list"):
        node.remove_on_set_parameters_callback(even_only)


def test_all_or_none_are_set_atomically(make: Make) -> None:
    node = make()
    node.declare_parameters("", [("a", 1), ("b", 1)])
    assert not node.set_parameters_atomically([Parameter("a", value=2), Parameter("b", value="text")]).successful
    assert node.get_parameter("a").value == 1
    with pytest.raises(ParameterNotDeclaredException):
        node.set_parameters_atomically([Parameter("a", value=2), Parameter("never", value=1)])
    assert node.get_parameter("a").value == 1


# Command line and files

FILE = """
/**:
  ros__parameters:
    everywhere: 1
    which: any
/*:
  ros__parameters:
    top_level: true
/salp/*:
  ros__parameters:
    in_salp: 1e-3
tested:
  ros__parameters:
    which: plain
/salp/tested:
  ros__parameters:
    which: salp
    nested: {deep: {value: [1.0, 2.5]}, "dotted.name": text}
    octal_looking: "010"
/salp:
  other:
    ros__parameters:
      which: other
"""


@pytest.fixture
def parameter_file(tmp_path: Path) -> str:
    file = tmp_path / "parameters.yaml"
    file.write_text(FILE, encoding="utf-8")
    return str(file)


def _values(node: Node) -> dict[str, Any]:
    own = ("use_sim_time", "start_type_description_service")
    return {name: parameter.value for name, parameter in node.get_parameters_by_prefix("").items() if name not in own}


@pytest.mark.parametrize(
    ("name", "namespace", "expected"),
    [
        ("tested", "", {"everywhere": 1, "which": "plain", "top_level": True}),
        (
            "tested",
            "/salp",
            {
                "everywhere": 1,
                "which": "salp",
                "in_salp": 0.001,
                "nested.deep.value": [1.0, 2.5],
                "nested.dotted.name": "text",
                "octal_looking": "010",
            },
        ),
        ("other", "/salp", {"everywhere": 1, "which": "other", "in_salp": 0.001}),
        ("tested", "/a/b", {"everywhere": 1, "which": "any"}),
    ],
)
def test_a_file_gives_each_node_its_own(
    make: Make, parameter_file: str, name: str, namespace: str, expected: dict[str, Any]
) -> None:
    node = make(
        "--params-file",
        parameter_file,
        name=name,
        namespace=namespace,
        automatically_declare_parameters_from_overrides=True,
    )
    assert _values(node) == expected


def test_the_later_prevails_and_the_constructor_over_all(make: Make, parameter_file: str) -> None:
    node = make(
        "-p", "which:=before", "--params-file", parameter_file, "-p", "rate:=2e2", "-p", "tested:list:=[1, 2]",
        "-p", "other:rate:=1.0", "-p", "text:=yes please", "-p", "flag:=on", "-p", "hexadecimal:=0x10",
        parameter_overrides=[Parameter("everywhere", value=3)],
    )  # fmt: skip
    assert node.declare_parameter("which", "default").value == "plain"
    assert node.declare_parameter("rate", 1.0).value == 200.0
    assert node.declare_parameter("list", [0]).value == [1, 2]
    assert node.declare_parameter("everywhere", 0).value == 3
    assert node.declare_parameter("text", "").value == "yes please"
    assert node.declare_parameter("flag", False).value is True
    assert node.declare_parameter("hexadecimal", 0).value == 16
    assert node.declare_parameter("top_level", False, ignore_override=True).value is False
    with pytest.raises(InvalidParameterTypeException, match="STRING"):
        make("-p", "rate:=2.0").declare_parameter("rate", "text")


def test_special_numbers_are_read(make: Make) -> None:
    node = make("-p", "a:=.inf", "-p", "b:=-.inf", "-p", "c:=.nan", "-p", "d:=-1.5e-3", "-p", "e:=[1.0, 2e0]")
    values = [node.declare_parameter(name, Parameter.Type.DOUBLE).value for name in "abd"]
    assert values == [math.inf, -math.inf, -0.0015]
    assert math.isnan(node.declare_parameter("c", 0.0).value)
    assert node.declare_parameter("e", [0.0]).value == [1.0, 2.0]


def test_files_that_make_no_sense_are_refused(ros_domain: int, tmp_path: Path) -> None:
    for content in ("a: [1", "tested:\n  value: 1\n", "- 1\n"):
        file = tmp_path / "wrong.yaml"
        file.write_text(content, encoding="utf-8")
        with pytest.raises(RuntimeError):
            rclpy.init(args=["x", "--ros-args", "--params-file", str(file)], context=rclpy.context.Context())
    missing = str(tmp_path / "missing.yaml")
    with pytest.raises(RuntimeError):
        rclpy.init(args=["x", "--ros-args", "--params-file", missing], context=rclpy.context.Context())


# From outside


@pytest.fixture
def ask(make: Make) -> Iterator[Callable[[type, Any], Any]]:
    """Calls a parameter service of the node `tested`, which another thread spins."""
    asking = make(name="asking")
    executor = SingleThreadedExecutor()
    executor.add_node(asking)
    thread = threading.Thread(target=executor.spin, daemon=True)
    thread.start()

    def asked(service: Any, name: str, **request: Any) -> Any:
        client = asking.create_client(service, f"tested/{name}")
        assert client.wait_for_service(LONG_S)
        return client.call(service.Request(**request), timeout_sec=LONG_S)

    asked.executor = executor  # type: ignore[attr-defined]
    yield asked
    executor.shutdown()
    thread.join(LONG_S)


def test_others_read_and_set_parameters(make: Make, ask: Any) -> None:
    node = make()
    events: list[ParameterEvent] = []
    node.declare_parameter("gain", 0.5, ParameterDescriptor(description="gain of the loop"))
    node.declare_parameter("gyro.noise", 0.1)
    node.declare_parameter("gyro.deep.name", "link_1")
    node.create_subscription(ParameterEvent, "/parameter_events", events.append, 100)
    ask.executor.add_node(node)
    answer = ask(GetParameters, "get_parameters", names=["gain", "gyro.deep.name"])
    assert [parameter_value_to_python(value) for value in answer.values] == [0.5, "link_1"]
    assert ask(GetParameters, "get_parameters", names=["gain", "never"]).values == []
    assert list(ask(GetParameterTypes, "get_parameter_types", names=["gain"]).types) == [Parameter.Type.DOUBLE.value]
    (described,) = ask(DescribeParameters, "describe_parameters", names=["gain"]).descriptors
    assert (described.name, described.type, described.description) == ("gain", 3, "gain of the loop")
    listed = ask(ListParameters, "list_parameters", prefixes=["gyro"], depth=1).result
    assert (list(listed.names), list(listed.prefixes)) == (["gyro.noise"], ["gyro"])
    listed = ask(ListParameters, "list_parameters", depth=ListParameters.Request.DEPTH_RECURSIVE).result
    assert {"gain", "gyro.noise", "gyro.deep.name", "use_sim_time"} <= set(listed.names)
    assert set(listed.prefixes) == {"gyro", "gyro.deep"}
    sent = [Parameter(name, value=value).to_parameter_msg() for name, value in (("gain", 0.75), ("gain", "text"))]
    sent.append(Parameter("never", value=1).to_parameter_msg())
    results = ask(SetParameters, "set_parameters", parameters=sent).results
    assert [result.successful for result in results] == [True, False, False]
    assert "undeclared" in results[2].reason
    both = [Parameter("gain", value=0.1).to_parameter_msg(), Parameter("never", value=1).to_parameter_msg()]
    assert not ask(SetParametersAtomically, "set_parameters_atomically", parameters=both).result.successful
    assert node.get_parameter("gain").value == 0.75
    ended = threading.Event()
    node.create_timer(0.01, lambda: ended.set() if any(each.changed_parameters for each in events) else None)
    assert ended.wait(LONG_S)
    (event,) = (each for each in events if each.changed_parameters)
    assert event.node == "/tested"
    assert event.changed_parameters[0].name == "gain"
    assert parameter_value_to_python(event.changed_parameters[0].value) == 0.75
