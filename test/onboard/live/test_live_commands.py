"""topic, node and param against a node in another process; and the texts they are made of."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import yaml
from evaluation_samples import command, refusal
from hypothesis import given
from hypothesis import strategies as st
from live_nodes import LONGEST_WAIT_S, SPIN, TALKER, running, start, stop

from onboard_estimation.errors import UserError
from onboard_estimation.live import discovery, message_text, parameters, session
from onboard_estimation.live.rate import RateMeter
from onboard_estimation.live.types import interface_class

IMU_HASH = "RIHS01_7d9a00ff131080897a5ec7e26e315954b8eae3353c3f995c55faf71574000b5b"
"""As ROS 2 Jazzy publishes it."""

IMU_TOPIC = "/salp/imu/link_1/data_raw"


def out_of(*words: str) -> str:
    outcome = command(*words)
    assert (outcome.code, outcome.error) == (0, ""), outcome
    return outcome.out


def json_of(*words: str) -> Any:
    return json.loads(out_of(*words, "--json"))


# Against a running node.


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands wait as long as it takes for a node that is known to be there, and for its answers."""
    monkeypatch.setattr(discovery, "EMPTY_S", LONGEST_WAIT_S)
    monkeypatch.setattr(discovery, "NAMED_S", LONGEST_WAIT_S)
    monkeypatch.setattr(discovery.settle, "__defaults__", (discovery.STILL_S, LONGEST_WAIT_S))
    monkeypatch.setattr(parameters, "ANSWER_S", LONGEST_WAIT_S)


def refusal_of_unknown(*words: str) -> str:
    """What a command says of a name that is not there, for which it does not wait long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(discovery, "NAMED_S", 2.0)
        return refusal(*words)


@pytest.mark.slow
def test_topics_of_a_running_node(ros_domain: int, patient: None) -> None:
    with running(TALKER + SPIN):
        listed = out_of("topic", "list", "-t").splitlines()
        assert f"{IMU_TOPIC} [sensor_msgs/msg/Imu]" in listed
        assert "/salp/phase [std_msgs/msg/String]" in listed
        assert "/salp/commands [std_msgs/msg/String]" in listed
        assert not any("_internal" in line for line in listed)
        found = {one["name"]: one for one in json_of("topic", "list", "--include-hidden")["topics"]}
        assert found["/salp/_internal"]["types"] == ["std_msgs/msg/String"]
        assert (found["/salp/commands"]["publishers"], found["/salp/commands"]["subscribers"]) == (0, 1)

        text = out_of("topic", "info", IMU_TOPIC, "-v")
        assert text.startswith("Type: sensor_msgs/msg/Imu\n\nPublisher count: 1\n\nNode name: talker\n")
        for line in ("Node namespace: /salp", f"Topic type hash: {IMU_HASH}", "Endpoint type: PUBLISHER"):
            assert f"\n{line}\n" in text
        assert "QoS profile:\n  Reliability: BEST_EFFORT\n" in text
        assert "  Durability: VOLATILE\n  Lifespan: Infinite\n" in text
        assert re.search(r"\nGID: ([0-9a-f]{2}\.){15}[0-9a-f]{2}\n", text)
        assert text.endswith("\nSubscription count: 0\n")
        assert "topics there: " in refusal_of_unknown("topic", "info", "/salp/nothing")

        assert len(out_of("topic", "hz", IMU_TOPIC, "--duration", "1", "--json").splitlines()) <= 1
        meter = start("topic", "hz", IMU_TOPIC, "--json")
        try:
            assert meter.stdout is not None
            rate = next(rate for line in meter.stdout if (rate := json.loads(line))["window"] > 2)
        finally:
            stop(meter)
        assert rate["window"] == rate["count"] - 1
        assert rate["min_s"] <= 1.0 / rate["rate_hz"] <= rate["max_s"]


def test_echo_of_a_running_node(ros_domain: int, patient: None) -> None:
    with running(TALKER + SPIN):
        # A message from before the command was started: durability is taken from the publisher.
        assert out_of("topic", "echo", "/salp/phase", "--once", "--timeout", "90") == "data: flight\n---\n"
        # Best effort: reliability too.
        text = out_of("topic", "echo", IMU_TOPIC, "--once")
        assert text.endswith("---\n")
        shown = yaml.safe_load(text.removesuffix("---\n"))
        assert shown["header"]["frame_id"] == "imu"
        assert shown["header"]["stamp"]["sec"] > 0
        assert shown["orientation"]["w"] == 1.0
        assert shown["orientation_covariance"] == [0.0] * 9
        assert out_of("topic", "echo", IMU_TOPIC, "--once", "--field", "linear_acceleration.z") == "9.81\n---\n"
        fault = command("topic", "echo", IMU_TOPIC, "--once", "--field", "linear.z")
        assert fault.code == 2
        assert "no field 'linear' in sensor_msgs/msg/Imu; it has header, orientation" in fault.error
    fault = command("topic", "echo", "/salp/phase", "--once", "--timeout", "0.2")
    assert (fault.code, fault.out) == (2, "")
    assert f"no topic /salp/phase within 0.2 s in domain {ros_domain}, this machine only" in fault.error


@pytest.mark.slow
def test_nodes_and_parameters_of_a_running_node(ros_domain: int, patient: None) -> None:
    with running(TALKER + SPIN):
        assert out_of("node", "list") == "/salp/talker\n"
        found = json_of("node", "info", "/salp/talker")
        assert found["publishers"][IMU_TOPIC] == ["sensor_msgs/msg/Imu"]
        assert found["subscribers"]["/salp/commands"] == ["std_msgs/msg/String"]
        assert found["service_servers"]["/salp/talker/get_parameters"] == ["rcl_interfaces/srv/GetParameters"]
        assert found["service_clients"] == {}
        text = out_of("node", "info", "/salp/talker")
        assert text.startswith("/salp/talker\n  Subscribers:\n")
        assert "\n  Publishers:\n    /parameter_events: rcl_interfaces/msg/ParameterEvent\n    " in text
        assert "nodes there: /salp/talker" in refusal_of_unknown("node", "info", "/nobody")

        names = ("chain.names", "count", "fixed", "gate_probability", "use_sim_time")
        listed = out_of("param", "list").splitlines()
        assert listed[0] == "/salp/talker:"
        assert {f"  {name}" for name in names} <= set(listed[1:])
        assert out_of("param", "get", "/salp/talker", "gate_probability") == "Double value is: 0.997\n"
        fault = refusal("param", "get", "/salp/talker", "nothing")
        assert fault.startswith("/salp/talker has no parameter nothing; it has: chain.names, count")

        # The type of a parameter stays: a whole number becomes the double that it is, text does not become a number.
        assert out_of("param", "set", "/salp/talker", "gate_probability", "1") == "Set parameter successful\n"
        assert out_of("param", "get", "/salp/talker", "gate_probability") == "Double value is: 1.0\n"
        for name, value in (("gate_probability", "1.5"), ("fixed", "y"), ("count", "2.5"), ("count", "many")):
            refused = command("param", "set", "/salp/talker", name, value)
            assert (refused.code, refused.out) == (1, ""), (name, value)
            assert refused.error.startswith("Setting parameter failed: ")
        assert out_of("param", "set", "/salp/talker", "chain.names", "[c, d]") == "Set parameter successful\n"
        dumped = yaml.safe_load(out_of("param", "dump", "/salp/talker"))["/salp/talker"]["ros__parameters"]
        assert (dumped["chain"], dumped["count"], dumped["fixed"]) == ({"names": ["c", "d"]}, 3, "x")
        described = out_of("param", "describe", "/salp/talker", "gate_probability", "fixed")
        assert "  Type: double\n  Description: of gating\n" in described
        assert "    Min value: 0.5\n    Max value: 1.0\n" in described
        assert "    Read only: true\n" in described


def test_an_empty_domain_is_said_to_be_empty(ros_domain: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "EMPTY_S", 0.2)
    monkeypatch.setattr(discovery, "NAMED_S", 0.2)
    for words in (("topic", "list"), ("node", "list"), ("param", "list")):
        outcome = command(*words)
        assert (outcome.code, outcome.out) == (0, "")
        assert f"in domain {ros_domain}, this machine only" in outcome.error
    assert "no nodes there at all" in refusal("node", "info", "/salp/talker")


@pytest.mark.parametrize("domain", ["-1", "233", "one", "1.0"])
def test_a_domain_that_is_none_is_refused(domain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROS_DOMAIN_ID", domain)
    with pytest.raises(UserError, match="whole number from 0 to 232"):
        session.domain_id()


@pytest.mark.parametrize("name", ["", "/", "a b", "/a//b", "a/", "1a", "/ä", "/a-b"])
def test_names_that_are_none_are_refused(name: str) -> None:
    with pytest.raises(UserError, match="no name of a topic or node"):
        discovery.absolute(name)


# Messages as text.


@pytest.fixture(scope="module")
def runtime() -> None:
    session.install_runtime()


def joint_state(**fields: Any) -> Any:
    return interface_class("sensor_msgs/msg/JointState")(**fields)


def test_arrays_and_texts_are_cut_as_ros2_cuts_them(runtime: None) -> None:
    message = joint_state(name=["a" * 200], position=np.arange(130.0).tolist())
    shown = yaml.safe_load(message_text.to_yaml(message))
    assert shown["name"] == ["a" * 128 + "..."]
    assert shown["position"] == [*np.arange(128.0), "..."]
    assert shown["velocity"] == []
    whole = yaml.safe_load(message_text.to_yaml(message, message_text.Style(truncate=None)))
    assert whole["position"] == list(np.arange(130.0))
    assert whole["name"] == ["a" * 200]


def test_arrays_and_texts_can_be_left_out(runtime: None) -> None:
    message = joint_state(name=["a", "b"], position=[1.0, 2.0, 3.0])
    shown = yaml.safe_load(message_text.to_yaml(message, message_text.Style(no_arr=True, no_str=True)))
    assert shown["name"] == "<sequence type: string, length: 2>"
    assert shown["position"] == "<sequence type: double, length: 3>"
    assert shown["header"]["frame_id"] == "<string length: <0>>"
    imu = yaml.safe_load(
        message_text.to_yaml(interface_class("sensor_msgs/msg/Imu")(), message_text.Style(no_arr=True))
    )
    assert imu["orientation_covariance"] == "<array type: double[9]>"


def test_equal_parts_are_written_out_and_flow_style_is_one_line(runtime: None) -> None:
    message = joint_state(position=[1.0], velocity=[1.0])
    assert "&" not in message_text.to_yaml(message)
    assert message_text.to_yaml(message, message_text.Style(flow=True)).count("\n") == 1


def test_csv_holds_every_value_in_the_order_of_the_fields(runtime: None) -> None:
    message = joint_state(name=["a,b", 'c"d'], position=[1.5, -2.0])
    (row,) = csv.reader(io.StringIO(message_text.to_csv(message)))
    assert row == ["0", "0", "", "a,b", 'c"d', "1.5", "-2.0"]


def test_parts_of_messages_are_picked_by_name_and_index(runtime: None) -> None:
    message = joint_state(name=["a", "b"], position=[1.5, -2.0])
    message.header.stamp.sec = 7
    assert message_text.pick(message, "header.stamp.sec") == 7
    assert message_text.pick(message, "position[1]") == -2.0
    assert message_text.to_yaml(message_text.pick(message, "name")) == "- a\n- b\n"
    for path in ("nothing", "header.nothing", "position[2]", "header[0]", "__class__", "position.size", "name[0", ""):
        with pytest.raises(UserError, match="--field"):
            message_text.pick(message, path)


# Parameters.


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("true", parameters.BOOL, True),
        ("3", parameters.INTEGER, 3),
        ("-3.5", parameters.DOUBLE, -3.5),
        ("hello", parameters.STRING, "hello"),
        ("'3'", parameters.STRING, "3"),
        ("[true, false]", parameters.BOOLS, [True, False]),
        ("[1, 2]", parameters.INTEGERS, [1, 2]),
        ("[1, 2.5]", parameters.DOUBLES, [1.0, 2.5]),
        ("[a, b]", parameters.STRINGS, ["a", "b"]),
        ("2026-01-01", parameters.STRING, "2026-01-01"),
        ("~", parameters.STRING, "~"),
        ("a: b: c", parameters.STRING, "a: b: c"),
    ],
)
def test_values_of_parameters_keep_their_type(runtime: None, text: str, kind: int, value: Any) -> None:
    parsed = parameters.parse(text)
    assert (parsed.type, parameters.to_python(parsed)) == (kind, value)


@pytest.mark.parametrize("text", ["{a: 1}", "[1, a]", "[[1]]", "9223372036854775808", "[true, 1]"])
def test_values_that_no_parameter_holds_are_refused(runtime: None, text: str) -> None:
    with pytest.raises(UserError):
        parameters.parse(text)


@given(st.dictionaries(st.from_regex(r"[a-z]{1,3}(\.[a-z]{1,3}){0,2}", fullmatch=True), st.integers(), max_size=6))
def test_nested_parameters_are_the_same_parameters(values: dict[str, int]) -> None:
    def flat(level: dict[str, Any], prefix: str = "") -> dict[str, int]:
        out: dict[str, int] = {}
        for name, value in level.items():
            out.update(flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value})
        return out

    assert flat(parameters.nested(values)) == values


# Rates.


@given(st.lists(st.integers(1, 10**10), min_size=1, max_size=30), st.integers(2, 40))
def test_rates_are_those_of_the_window(gaps_ns: list[int], window: int) -> None:
    meter = RateMeter(window)
    times = np.concatenate([[0], np.cumsum(gaps_ns)])
    for time_ns in times.tolist():
        meter.note(time_ns)
    rate = meter.read()
    assert rate is not None
    last = np.array(gaps_ns[-window:]) / 1e9
    assert (rate.window, rate.count) == (len(last), len(times))
    expected = [1.0 / last.mean(), last.min(), last.max(), last.std()]
    np.testing.assert_allclose([rate.rate_hz, rate.min_s, rate.max_s, rate.std_dev_s], expected, rtol=1e-9, atol=1e-12)


def test_help_of_each_command_teaches() -> None:
    for words in (
        *(("topic", name) for name in ("list", "info", "echo", "hz")),
        *(("node", name) for name in ("list", "info")),
        *(("param", name) for name in ("list", "get", "set", "dump", "describe")),
        *((name,) for name in ("record", "play", "doctor", "warmup")),
    ):
        outcome = command(*words, "--help")
        assert outcome.code == 0
        assert f"onboard-estimation {' '.join(words)}" in outcome.out, words


def test_commands_start_without_numerical_libraries() -> None:
    """A start costs what is imported: `topic` needs none of these."""
    code = (
        "import sys\nfrom onboard_estimation import cli\n"
        "from onboard_estimation.live import discovery, message_text, session, watching\n"
        "print(sorted({'numba', 'scipy', 'matplotlib', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout == "[]\n"
