"""topic, service and param against a node in another process; and the texts they are made of."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any

import numpy as np
import pytest
import yaml
from evaluation_samples import command, refusal
from hypothesis import given, settings
from hypothesis import strategies as st
from live_graph import wait_until
from live_nodes import LONGEST_WAIT_S, SPIN, TALKER, running, start, stop

from onboard_estimation.base.errors import UserError
from onboard_estimation.commands.live_graph import parameter_value, rate
from onboard_estimation.live import by_hand, discovery, session
from onboard_estimation.live.messages import interface_class

IMU_TOPIC = "/salp/imu/link_1/data_raw"
PATIENTLY = ("--timeout", str(LONGEST_WAIT_S))


def out_of(*words: str) -> str:
    outcome = command(*words)
    assert (outcome.code, outcome.error) == (0, ""), outcome
    return outcome.out


def json_of(*words: str) -> Any:
    return json.loads(out_of(*words, "--json"))


# Against a running node.


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands wait as long as it takes for a node that is known to be there, and for its answers; else not long."""
    monkeypatch.setattr(discovery.settle, "__defaults__", (0.1, 0.3))
    monkeypatch.setattr(discovery, "NAMED_S", LONGEST_WAIT_S)
    monkeypatch.setattr(discovery, "_ANNOUNCED_S", LONGEST_WAIT_S)


def await_refusal_of_unknown(*words: str, said: tuple[str, ...]) -> None:
    """What a command says of a name that is not there, once it has seen the others in the short time that it waits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(discovery, "NAMED_S", 0.5)
        wait_until(lambda: (found := refusal(*words)) and all(one in found for one in said))


@pytest.mark.live
def test_a_running_node_is_asked_and_told(ros_domain: int, patient: None) -> None:
    with running(TALKER + SPIN):
        topics_are_listed_and_their_rates_measured(ros_domain)
        topics_are_echoed()
        services_are_called(ros_domain)
        parameters_are_set_and_read()
        messages_are_published_by_hand()


def topics_are_listed_and_their_rates_measured(domain: int) -> None:
    line, shown = f"{IMU_TOPIC} [sensor_msgs/msg/Imu]: /salp/talker ->", list[str]()
    # A busy machine may need longer than a user waits.
    wait_until(lambda: shown.append(command("topic", "list", "-v").out) or line in shown[-1].splitlines())
    assert "_internal" not in shown[-1]
    string = {"types": ["std_msgs/msg/String"], "publishers": [], "subscribers": ["/salp/talker"]}
    of_all = ("topic", "list", "--include-hidden")
    wait_until(lambda: {"name": "/salp/commands", **string} in json.loads(command(*of_all, "--json").out)["topics"])
    wait_until(lambda: "/salp/_internal" in command(*of_all).out)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROS_DOMAIN_ID", "101")
        assert "no topic in domain 101, this machine only" in command("topic", "list").error
    rate = json.loads(out_of("topic", "hz", IMU_TOPIC, "--json", "--duration", "3").splitlines()[-1])
    assert rate["window"] == rate["count"] - 1
    assert rate["min_s"] <= 1.0 / rate["rate_hz"] <= rate["max_s"]
    assert f"no topic /nothing within 0.2 s in domain {domain}, this machine only" in refusal(
        "topic", "echo", "/nothing", "--once", "--timeout", "0.2"
    )


def topics_are_echoed() -> None:
    # A message from before the command was started: durability is taken from the publisher.
    assert out_of("topic", "echo", "/salp/phase", "--once", *PATIENTLY) == "data: flight\n---\n"
    # Best effort: reliability too.
    text = out_of("topic", "echo", IMU_TOPIC, "--once")
    assert text.endswith("---\n")
    shown = yaml.safe_load(text.removesuffix("---\n"))
    assert (shown["header"]["frame_id"], shown["orientation"]["w"]) == ("imu", 1.0)
    assert shown["orientation_covariance"] == [0.0] * 9
    assert out_of("topic", "echo", IMU_TOPIC, "--once", "--field", "linear_acceleration.z") == "9.81\n---\n"
    fault = command("topic", "echo", IMU_TOPIC, "--once", "--field", "linear.z")
    assert fault.code == 2
    assert "no 'linear' there; its fields: header, orientation" in fault.error


def services_are_called(domain: int) -> None:
    assert out_of("service", "call", "/salp/reset", *PATIENTLY) == "success: true\nmessage: started anew\n"
    enable = ("service", "call", "/salp/imu/link_2/enable")
    assert json_of(*enable, "{data: true}", *PATIENTLY) == {"success": True, "message": "True"}
    refused = command(*enable, "std_srvs/srv/SetBool", "data: false", *PATIENTLY)
    assert (refused.code, refused.out, refused.error) == (1, "success: false\nmessage: 'False'\n", "")
    assert refusal(*enable, "{data: 2}") == "data: '2' is no boolean"
    assert "is of type std_srvs/srv/SetBool, not std_srvs/srv/Trigger" in refusal(*enable, "std_srvs/srv/Trigger")
    unknown = f"/salp/rest in domain {domain}, this machine only; did you mean /salp/reset?"
    there = "services there: /salp/imu/link_2/enable, /salp/reset, /salp/sleep"
    await_refusal_of_unknown("service", "call", "/salp/rest", said=(unknown, there))
    assert "/salp/sleep did not answer within 0.5 s" in refusal("service", "call", "/salp/sleep", "--timeout", "0.5")


def parameters_are_set_and_read() -> None:
    set_ = ("param", "set", "/salp/talker")
    for name, value in (("gate_probability", "0.9"), ("chain.names", "[c, d]")):
        assert out_of(*set_, name, value, *PATIENTLY) == "Set parameter successful\n"
    for name, value in (("gate_probability", "1.5"), ("fixed", "y"), ("count", "2.5")):
        refused = command(*set_, name, value, *PATIENTLY)
        assert (refused.code, refused.out) == (1, ""), (name, value)
        assert refused.error.startswith("Setting parameter failed: ")
    read = ("service", "call", "/salp/talker/get_parameters", "{names: [gate_probability, chain.names, fixed]}")
    first, second, third = json_of(*read, *PATIENTLY)["values"]
    assert (first["double_value"], second["string_array_value"], third["string_value"]) == (0.9, ["c", "d"], "x")
    mended = "did you mean /salp/talker/set_parameters?"
    await_refusal_of_unknown("param", "set", "/salp/walker", "count", "1", said=(mended,))


def messages_are_published_by_hand() -> None:
    before_s = time.time()
    fields = "{header: {frame_id: map, stamp: now}, pose: {pose: {position: {x: 1}, orientation: {w: 1e0}}}}"
    assert out_of("topic", "pub", "--once", "/salp/set_pose", fields, *PATIENTLY) == ""
    shown = json.loads(out_of("topic", "echo", "/salp/pose", "--once", "--json", *PATIENTLY))
    assert shown["header"]["frame_id"] == "map"
    assert before_s - 1.0 < shown["header"]["stamp"]["sec"] < time.time() + 1.0
    assert shown["pose"]["pose"]["position"] == {"x": 1.0, "y": 0.0, "z": 0.0}
    assert shown["pose"]["pose"]["orientation"]["w"] == 1.0
    short = refusal("topic", "pub", "--once", "/salp/set_pose", "{pose: {covariance: [1.0]}}")
    assert short == "pose.covariance: write a list of 36, not '[1.0]'"
    await_refusal_of_unknown("topic", "pub", "/salp/set_pos", "{}", said=("did you mean /salp/set_pose?",))
    unheard = refusal("topic", "pub", "/salp/phase", "--timeout", "0.5")
    assert "nobody subscribed to /salp/phase within 0.5 s" in unheard
    publisher = start("topic", "pub", "-r", "50", "/salp/commands", "data: go")
    try:
        assert out_of("topic", "echo", "/salp/commands", "--field", "data", "--once", *PATIENTLY) == "go\n---\n"
    finally:
        said = stop(publisher)
    assert said[1] == "interrupted\n"


def test_domains_and_names_that_are_none_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for domain in ("-1", "233", "one", "1.0"):
        monkeypatch.setenv("ROS_DOMAIN_ID", domain)
        with pytest.raises(UserError, match="whole number from 0 to 232"):
            session.domain_id()
    for name in ("", "/", "a b", "/a//b", "a/", "1a", "/\u00e4", "/a-b"):
        with pytest.raises(UserError, match="no name of a topic or node"):
            discovery.absolute(name)


# Messages as text, and from text.


def joint_state(**fields: Any) -> Any:
    return interface_class("sensor_msgs/msg/JointState")(**fields)


@pytest.mark.live
def test_messages_are_written_as_ros2_writes_them() -> None:
    """Long arrays and texts are cut; equal parts are written out."""
    message = joint_state(name=["a" * 200], position=np.arange(130.0).tolist())
    shown = yaml.safe_load(by_hand.to_yaml(message))
    assert shown["name"] == ["a" * 128 + "..."]
    assert shown["position"] == [*np.arange(128.0), "..."]
    assert shown["velocity"] == []
    whole = yaml.safe_load(by_hand.to_yaml(message, None))
    assert (whole["position"], whole["name"]) == (list(np.arange(130.0)), ["a" * 200])
    assert "&" not in by_hand.to_yaml(joint_state(position=[1.0], velocity=[1.0]))


@pytest.mark.live
def test_parts_of_messages_are_picked_by_name_and_index() -> None:
    message = joint_state(name=["a", "b"], position=[1.5, -2.0])
    message.header.stamp.sec = 7
    assert by_hand.pick(message, "header.stamp.sec") == 7
    assert by_hand.pick(message, "position[1]") == -2.0
    assert by_hand.to_yaml(by_hand.pick(message, "name")) == "- a\n- b\n"
    for path in ("nothing", "header.nothing", "position[2]", "header[0]", "__class__", "position.size", "name[0", ""):
        with pytest.raises(UserError, match="--field"):
            by_hand.pick(message, path)


@pytest.mark.live
def test_fields_of_every_kind_are_filled_from_yaml() -> None:
    kind, fields = by_hand.split_words(
        "msg",
        ["sensor_msgs/JointState", "{header: {frame_id: a, stamp: {sec: 3}}, name: [b, c], position: [1, -2e-3]}"],
    )
    assert kind == "sensor_msgs/msg/JointState"
    message = joint_state()
    by_hand.fill(None, message, fields)
    assert (message.header.frame_id, message.header.stamp.sec, list(message.name)) == ("a", 3, ["b", "c"])
    assert list(message.position) == [1.0, -0.002]
    nested = interface_class("diagnostic_msgs/msg/DiagnosticArray")()
    by_hand.fill(None, nested, {"status": [{"name": "a", "values": [{"key": "b", "value": "c"}]}]})
    assert nested.status[0].values[0].value == "c"


@pytest.mark.live
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"position": 1.0}, "position: write a list, not '1.0'"),
        ({"position": [True]}, r"position\[0\]: 'True' is no double"),
        ({"name": [1]}, r"name\[0\]: '1' is no string"),
        ({"header": {"stamp": {"sec": 2**31}}}, "header.stamp.sec: '2147483648' is no int32"),
        ({"header": {"stamp": "later"}}, r"header.stamp: write its fields \(sec, nanosec\), not 'later'"),
        ({"header": {"seq": 1}}, "no field 'seq' in header; its fields: stamp, frame_id"),
        ({1: 2}, "no field '1' in the message"),
    ],
)
def test_fields_that_do_not_fit_are_refused(fields: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        by_hand.fill(None, joint_state(), fields)


def test_words_that_are_no_fields_are_refused() -> None:
    for words in (["{data: true", ""], ["{data: true"], ["data:true"], ["[1]"], ["data: true", "x: 1"]):
        with pytest.raises(UserError, match=r"YAML|write"):
            by_hand.split_words("srv", words)


def test_values_that_no_parameter_holds_are_refused() -> None:
    for text in ("{a: 1}", "[1, a]", "[[1]]", "[true, 1]"):
        with pytest.raises(UserError, match="a parameter holds"):
            parameter_value(text)


@settings(max_examples=30)
@given(st.lists(st.integers(1, 10**10), min_size=1, max_size=30))
def test_rates_are_those_of_the_gaps(gaps_ns: list[int]) -> None:
    last = np.array(gaps_ns) / 1e9
    found = rate(list(enumerate([0, *itertools.accumulate(gaps_ns)], 1)))
    assert (found["window"], found["count"]) == (len(last), len(last) + 1)
    expected = [1.0 / last.mean(), last.min(), last.max(), last.std()]
    figures = [found[name] for name in ("rate_hz", "min_s", "max_s", "std_dev_s")]
    np.testing.assert_allclose(figures, expected, rtol=1e-9, atol=1e-12)
