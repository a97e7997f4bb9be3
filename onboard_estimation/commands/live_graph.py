"""`onboard-estimation topic`, `service` and `param`, shaped as those of `ros2`."""

from __future__ import annotations

import itertools
import json as json_library
import queue
import time
from collections import deque
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from onboard_estimation.base.errors import UserError
from onboard_estimation.commands import output
from onboard_estimation.commands.arguments import JsonOption, argument, flag, option
from onboard_estimation.live import discovery
from onboard_estimation.live.messages import interface_class
from onboard_estimation.live.session import graph_node, place

topic = output.group(
    "Look into topics of the live graph: which there are, what they carry, how often; and publish on them."
)

TopicArgument = Annotated[str, argument("TOPIC", "Full name, e.g. `/salp/odometry`.")]
HiddenOption = Annotated[bool, flag("Also names of which a part starts with an underscore.", "--include-hidden")]


@topic.command("list", epilog=output.examples("topic list", "topic list -t", "topic list --verbose"))
def list_(
    show_types: Annotated[bool, flag("Show the types too.", "-t", "--show-types")] = False,
    verbose: Annotated[
        bool, flag("Show types, and the nodes that publish -> that subscribe.", "-v", "--verbose")
    ] = False,
    include_hidden: HiddenOption = False,
    json: JsonOption = False,
) -> None:
    """List the topics of all running nodes."""
    found: list[dict[str, Any]] = []
    with graph_node("topic_list") as node:
        discovery.settle(node)
        for name, types in sorted(node.get_topic_names_and_types()):
            ends = discovery.publishers(node, name), discovery.subscriptions(node, name)
            if any(ends) and (include_hidden or not discovery.is_hidden(name)):
                nodes = [sorted(discovery.names_of(one)) for one in ends]
                found.append({"name": name, "types": types, "publishers": nodes[0], "subscribers": nodes[1]})
    if json:
        output.print_json({"topics": found})
    elif not found:
        typer.echo(f"no topic in {place()}: is a node running, with the same ROS_DOMAIN_ID?", err=True)
    for one in () if json else found:
        line = f"{one['name']} [{', '.join(one['types'])}]" if show_types or verbose else one["name"]
        line += f": {', '.join(one['publishers'])} -> {', '.join(one['subscribers'])}" if verbose else ""
        typer.echo(line.rstrip())


@topic.command(
    "echo",
    epilog=output.examples(
        "topic echo /salp/odometry --once",
        "topic echo /salp/odometry --field pose.pose.position",
        "topic echo /salp/joint_states --json > joint_states.jsonl",
    ),
)
def echo(
    topic: TopicArgument,
    once: Annotated[bool, flag("Show one message and end.", "--once")] = False,
    field: Annotated[str | None, option("FIELD", "Only a part, e.g. `pose.pose.position.x` or `position[0]`.")] = None,
    full_length: Annotated[
        bool, flag("Cut nothing: arrays and texts end after 128 otherwise.", "-f", "--full-length")
    ] = False,
    timeout: Annotated[float, option("S", "Give up after S seconds without a message; 0: never.", min=0.0)] = 0.0,
    json: Annotated[bool, flag("Each message as a line of JSON, whole.", "--json")] = False,
) -> None:
    """Show the messages of a topic until Ctrl-C. Waits for a topic that is not there yet."""
    from onboard_estimation.live import by_hand

    arrived: queue.Queue[Any] = queue.Queue(maxsize=10_000)

    def put(message: Any) -> None:
        if not arrived.full():  # a slow terminal must not fill memory
            arrived.put(message)

    with graph_node("topic_echo") as node:
        name = discovery.follow(node, topic, timeout, put)
        while True:
            try:
                message = arrived.get(timeout=timeout or None)
            except queue.Empty:
                raise UserError(f"no message on {name} within {timeout:g} s in {place()}") from None
            # Shown in this thread, so that a closed pipe ends the command.
            value = message if field is None else by_hand.pick(message, field)
            if json:
                typer.echo(json_library.dumps(by_hand.to_plain(value)))
            else:
                typer.echo(by_hand.to_yaml(value, None if full_length else by_hand.LONGEST) + "---")
            if once:
                return


@topic.command(
    "pub",
    epilog=output.examples(
        "topic pub --once /salp/set_pose '{pose: {pose: {position: {x: 0.5, y: 0.1}, orientation: {w: 1.0}}}}'",
        "topic pub -r 20 /thruster_chain/actuators/command '{header: {stamp: now}, name: [thruster_1], effort: [0.2]}'",
        "topic pub --once /note std_msgs/msg/String '{data: start of run 3}'",
    ),
)
def pub(
    topic: TopicArgument,
    words: Annotated[
        list[str] | None, argument("[TYPE] [YAML]", "Its type, otherwise taken from the graph; fields, `stamp: now`.")
    ] = None,
    once: Annotated[bool, flag("Publish one message and end.", "-1", "--once")] = False,
    rate: Annotated[float, option("HZ", "Messages a second.", "-r", "--rate", min=0.01)] = 1.0,
    timeout: Annotated[float, option("S", "Give up after S seconds without a subscriber.", "--timeout", min=0.1)] = 5.0,
) -> None:
    """Publish on a topic that somebody subscribes to, until Ctrl-C or `--once`.

    A name that is not there is answered with those that are.
    """
    from onboard_estimation.live import by_hand

    wanted, fields = by_hand.split_words("msg", words or [])
    name = discovery.absolute(topic)
    with graph_node("topic_pub") as node:
        kind = interface_class(by_hand.find_type(node, "topic", name, wanted, node.get_topic_names_and_types))
        by_hand.fill(node, kind(), fields)
        publisher = node.create_publisher(kind, name, 10)
        if not discovery.wait_until(lambda: bool(publisher.get_subscription_count()), timeout):
            raise UserError(f"nobody subscribed to {name} within {timeout:g} s")
        while True:
            message = kind()
            by_hand.fill(node, message, fields)
            publisher.publish(message)
            if once:
                publisher.wait_for_all_acked()
                return
            time.sleep(1.0 / rate)


@topic.command("hz", epilog=output.examples("topic hz /salp/odometry", "topic hz /imu/link_1/data_raw --window 200"))
def hz(
    topic: TopicArgument,
    window: Annotated[
        int, option("N", "Messages that figures are of.", "-w", "--window", min=2, max=1_000_000)
    ] = 10_000,
    duration: Annotated[float, option("S", "End after S seconds; 0: with Ctrl-C.", "--duration", min=0.0)] = 0.0,
    json: Annotated[bool, flag("Each second a line of JSON.", "--json")] = False,
) -> None:
    """Show how often messages come: mean rate, shortest and longest gap, standard deviation. Once a second."""
    arrived: deque[tuple[int, int]] = deque(maxlen=window + 1)  # number, time [ns]
    numbers = itertools.count(1)

    def take(data: bytes) -> None:
        arrived.append((next(numbers), time.monotonic_ns()))

    with graph_node("topic_hz") as node:
        name = discovery.follow(node, topic, 0.0, take, raw=True)
        started, seen = time.monotonic(), list[Any]()
        due = started + 1.0
        while not duration or due <= started + duration + 1e-6:
            time.sleep(max(0.0, due - time.monotonic()))
            due += 1.0
            last = list(arrived)
            if len(last) > 1 and last[-1:] != seen:
                typer.echo(json_library.dumps(rate(last)) if json else _RATE.format(**rate(last)))
            elif not json:
                typer.echo(f"no new messages on {name}")
            seen = last[-1:]


_RATE = "average rate: {rate_hz:.3f}\n\tmin: {min_s:.3f}s max: {max_s:.3f}s std dev: {std_dev_s:.5f}s window: {window}"


def rate(arrived: Sequence[tuple[int, int]]) -> dict[str, float]:
    """Of messages, each a number and a time in nanoseconds: of the times between them, and the last number."""
    import numpy as np

    gaps_s = np.diff([time_ns for _, time_ns in arrived]) / 1e9
    figures = {"rate_hz": 1.0 / gaps_s.mean(), "min_s": gaps_s.min(), "max_s": gaps_s.max(), "std_dev_s": gaps_s.std()}
    return {**figures, "window": len(gaps_s), "count": arrived[-1][0]}


service = output.group("Call services of running nodes.")
param = output.group("Set parameters of running nodes.")

EXIT_REFUSED = 1

TimeoutOption = Annotated[float, option("S", "Give up after S seconds without an answer.", "--timeout", min=0.1)]
_KINDS = ((bool, "bool"), (int, "integer"), (float, "double"), (str, "string"))


@service.command(
    "call",
    epilog=output.examples(
        "service call /salp/reset",
        "service call /salp/imu/link_2/enable '{data: false}'",
        "service call /salp/reset std_srvs/srv/Trigger",
        "service call /salp/salp_estimator/list_parameters",
        "service call /salp/salp_estimator/get_parameters '{names: [gate_probability]}'",
    ),
)
def call(
    service: Annotated[str, argument("SERVICE", "Full name, e.g. `/salp/reset`.")],
    words: Annotated[
        list[str] | None, argument("[TYPE] [YAML]", "Its type, otherwise taken from the graph; fields of the request.")
    ] = None,
    timeout: TimeoutOption = 5.0,
    json: JsonOption = False,
) -> int:
    """Call a service and show its response. Exits with 1 where the response says `success: false`.

    A name that is not there is answered with those that are.
    """
    from onboard_estimation.live import by_hand

    wanted, fields = by_hand.split_words("srv", words or [])
    response = _call(service, wanted, fields, timeout)
    if json:
        output.print_json(by_hand.to_plain(response))
    else:
        typer.echo(by_hand.to_yaml(response), nl=False)
    return 0 if getattr(response, "success", True) else EXIT_REFUSED


@param.command(
    "set",
    epilog=output.examples(
        "param set /salp/salp_estimator gate_probability 0.99", "param set /ethercat_wrench_emulator fault.slave 2"
    ),
)
def set_(
    node: Annotated[str, argument("NODE", "Full name, e.g. `/salp/salp_estimator`.")],
    name: Annotated[str, argument("NAME", "Of the parameter, e.g. `gate_probability`.")],
    value: Annotated[str, argument("VALUE", "In YAML, as in a parameter file.")],
    timeout: TimeoutOption = 5.0,
) -> int:
    """Set a parameter of a running node. Exits with 1 and the reason where the node refuses.

    `topic list -v` shows the nodes; for reading, see the examples of `service call --help`.
    """
    fields = {"parameters": [{"name": name, "value": parameter_value(value)}]}
    response = _call(f"{node}/set_parameters", "rcl_interfaces/srv/SetParameters", fields, timeout)
    result = response.results[0]
    reason = f": {result.reason}" if result.reason else ""
    typer.echo(
        f"Set{'' if result.successful else 'ting'} parameter {'successful' if result.successful else 'failed'}{reason}",
        err=not result.successful,
    )
    return 0 if result.successful else EXIT_REFUSED


def _call(service: str, wanted: str | None, fields: dict[str, Any], timeout_s: float) -> Any:
    from onboard_estimation.live.by_hand import call

    with graph_node("service_call") as node:
        return call(node, service, wanted, fields, timeout_s)


def parameter_value(text: str) -> dict[str, Any]:
    """Fields of `rcl_interfaces/msg/ParameterValue`: the type is that of the value in YAML."""
    from onboard_estimation.base.parameter_file import read_yaml

    try:
        value, _ = read_yaml(text)
    except UserError:
        value = text
    several = isinstance(value, list)
    for number, (kind, word) in enumerate(_KINDS, 1):
        if all(type(one) is kind for one in (value if several else [value])):
            return {"type": number + 5 * several, f"{word}{'_array' * several}_value": value}
    raise UserError(f"{text[:80]}: a parameter holds a boolean, number or text, or a list of one of these")
