"""`onboard-estimation topic`: list, echo, hz and info, shaped as those of `ros2`."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from onboard_estimation.commands import output

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Look into topics of the live graph: which there are, what they carry, how often.",
)

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="Full name, e.g. `/salp/odometry`.")]
HiddenOption = Annotated[
    bool, typer.Option("--include-hidden", help="Also names of which a part starts with an underscore.")
]

_NOT_PUBLISHED_S = 1.0


@app.command("list", epilog=output.examples("topic list", "topic list -t", "topic list --verbose"))
def list_(
    show_types: Annotated[bool, typer.Option("-t", "--show-types", help="Show the types too.")] = False,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Show types and numbers of publishers and subscribers.")
    ] = False,
    include_hidden: HiddenOption = False,
    json: output.JsonOption = False,
) -> None:
    """List the topics of all running nodes."""
    from onboard_estimation.live import discovery
    from onboard_estimation.live.session import graph_node, place

    with graph_node("topic_list") as node:
        discovery.settle(node)
        found = discovery.topics(node, include_hidden)
        counts = {
            name: (len(discovery.publishers(node, name)), len(discovery.subscriptions(node, name))) for name in found
        }
    if json:
        output.print_json(
            {
                "topics": [
                    {"name": name, "types": types, "publishers": counts[name][0], "subscribers": counts[name][1]}
                    for name, types in found.items()
                ]
            }
        )
    elif not found:
        typer.echo(f"no topic in {place()}: is a node running, with the same ROS_DOMAIN_ID?", err=True)
    elif verbose:
        for place_in_counts, (title, word) in enumerate((("Published", "publisher"), ("Subscribed", "subscriber"))):
            typer.echo(f"{title} topics:")
            for name, types in found.items():
                count = counts[name][place_in_counts]
                if count:
                    typer.echo(f" * {name} [{', '.join(types)}] {count} {word}{'s' if count > 1 else ''}")
            typer.echo("")
    else:
        for name, types in found.items():
            typer.echo(f"{name} [{', '.join(types)}]" if show_types else name)


@app.command("info", epilog=output.examples("topic info /salp/odometry", "topic info /salp/odometry --verbose"))
def info(
    topic: TopicArgument,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Show every publisher and subscription, with type hash and QoS.")
    ] = False,
    json: output.JsonOption = False,
) -> None:
    """Show the type of a topic, and who publishes and subscribes."""
    from onboard_estimation.live import discovery, qos
    from onboard_estimation.live.session import graph_node

    with graph_node("topic_info") as node:
        types = discovery.find_topic(node, topic)
        name = discovery.absolute(topic)
        writers, readers = discovery.publishers(node, name), discovery.subscriptions(node, name)
    if json:
        output.print_json(
            {
                "name": name,
                "types": types,
                "publishers": [qos.to_mapping(one) for one in writers],
                "subscriptions": [qos.to_mapping(one) for one in readers],
            }
        )
        return
    typer.echo(f"Type: {types[0] if len(types) == 1 else types}")
    for title, endpoints in (("Publisher", writers), ("Subscription", readers)):
        if verbose:
            typer.echo("")
        typer.echo(f"{title} count: {len(endpoints)}")
        if verbose and endpoints:
            typer.echo("\n" + "\n\n".join("\n".join(qos.describe(one)) for one in endpoints))


@app.command(
    "echo",
    epilog=output.examples(
        "topic echo /salp/odometry --once",
        "topic echo /salp/odometry --field pose.pose.position",
        "topic echo /salp/joint_states --csv",
    ),
)
def echo(
    topic: TopicArgument,
    once: Annotated[bool, typer.Option("--once", help="Show one message and end.")] = False,
    field: Annotated[
        str | None, typer.Option(metavar="FIELD", help="Only a part, e.g. `pose.pose.position.x` or `position[0]`.")
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="One line of values for each message.")] = False,
    no_arr: Annotated[bool, typer.Option("--no-arr", help="Show only type and length of arrays.")] = False,
    no_str: Annotated[bool, typer.Option("--no-str", help="Show only the length of texts.")] = False,
    full_length: Annotated[bool, typer.Option("-f", "--full-length", help="Cut nothing.")] = False,
    truncate_length: Annotated[
        int, typer.Option("-l", "--truncate-length", metavar="N", min=1, help="Arrays and texts are cut there.")
    ] = 128,
    flow_style: Annotated[bool, typer.Option("--flow-style", help="Each message in one line of YAML.")] = False,
    timeout: Annotated[
        float, typer.Option(metavar="S", min=0.0, help="Give up after S seconds without a message; 0: never.")
    ] = 0.0,
    json: Annotated[bool, typer.Option("--json", help="Each message as a line of JSON.")] = False,
) -> None:
    """Show the messages of a topic until Ctrl-C. Waits for a topic that is not there yet."""
    from json import dumps

    from onboard_estimation.live import message_text

    style = message_text.Style(None if full_length else truncate_length, no_arr, no_str, flow_style)

    def show(message: Any) -> None:
        value = message if field is None else message_text.pick(message, field)
        if json:
            typer.echo(dumps(message_text.to_json_value(value)))
        elif csv:
            typer.echo(message_text.to_csv(value, style), nl=False)
        else:
            typer.echo(message_text.to_yaml(value, style) + "---")

    _follow(topic, "topic_echo", timeout, show, once)


@app.command("hz", epilog=output.examples("topic hz /salp/odometry", "topic hz /imu/link_1/data_raw --window 200"))
def hz(
    topic: TopicArgument,
    window: Annotated[
        int, typer.Option("-w", "--window", metavar="N", min=2, max=1_000_000, help="Messages that figures are of.")
    ] = 10_000,
    duration: Annotated[
        float, typer.Option("--duration", metavar="S", min=0.0, help="End after S seconds; 0: with Ctrl-C.")
    ] = 0.0,
    json: Annotated[bool, typer.Option("--json", help="Each second a line of JSON.")] = False,
) -> None:
    """Show how often messages come: mean rate, shortest and longest gap, standard deviation. Once a second."""
    from dataclasses import asdict
    from json import dumps

    from onboard_estimation.live import watching
    from onboard_estimation.live.rate import RateMeter
    from onboard_estimation.live.session import graph_node

    meter = RateMeter(window)
    with graph_node("topic_hz") as node:
        watched = watching.wait_for_topic(node, topic, 0.0, _say_waiting)
        watching.subscribe_raw(node, watched, lambda data: meter.note(time.monotonic_ns()))
        started, seen = time.monotonic(), 0
        due = started + 1.0
        while not duration or due <= started + duration + 1e-6:
            time.sleep(max(0.0, due - time.monotonic()))
            due += 1.0
            rate = meter.read()
            if rate is None or meter.count == seen:
                if not json:
                    typer.echo(f"no new messages on {watched.name}")
            elif json:
                typer.echo(dumps(asdict(rate)))
            else:
                typer.echo(
                    f"average rate: {rate.rate_hz:.3f}\n\tmin: {rate.min_s:.3f}s max: {rate.max_s:.3f}s "
                    f"std dev: {rate.std_dev_s:.5f}s window: {rate.window}"
                )
            seen = meter.count


def _follow(topic: str, name: str, timeout_s: float, show: Any, once: bool) -> None:
    """Show messages as they come, in the main thread, so that a closed pipe ends the command."""
    import queue

    from onboard_estimation.errors import UserError
    from onboard_estimation.live import watching
    from onboard_estimation.live.session import graph_node, place

    with graph_node(name) as node:
        watched = watching.wait_for_topic(node, topic, timeout_s, _say_waiting)
        arrived: queue.Queue[Any] = queue.Queue(maxsize=10_000)

        def put(message: Any) -> None:
            if not arrived.full():  # a slow terminal must not fill memory
                arrived.put(message)

        watching.subscribe(node, watched, put)
        while True:
            try:
                show(arrived.get(timeout=timeout_s or None))
            except queue.Empty:
                raise UserError(f"no message on {watched.name} within {timeout_s:g} s in {place()}") from None
            if once:
                return


def _say_waiting(name: str, where: str) -> None:
    typer.echo(f"WARNING: topic [{name}] does not appear to be published yet in {where}; waiting", err=True)
