"""`onboard-estimation record`."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Annotated

import typer

from onboard_estimation.commands import output

EXAMPLES = output.examples(
    "record --all --output walk",
    "record /salp/odometry /salp/joint_states -o walk",
    'record --regex "^/salp/(imu|actuators)/" --storage sqlite3 -o walk',
)

_SHOW_PERIOD_S = 0.5


def record(
    topics: Annotated[list[str] | None, typer.Argument(metavar="TOPIC...", help="Topics to record.")] = None,
    bag: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="BAG", help="Bag to write, a folder; `recorded_<time>` otherwise."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Record all topics.")] = False,
    regex: Annotated[
        str, typer.Option("--regex", "-e", metavar="PATTERN", help="Topics whose name the expression is found in.")
    ] = "",
    exclude_regex: Annotated[str, typer.Option("--exclude-regex", "-x", metavar="PATTERN", help="But not those.")] = "",
    storage: Annotated[
        str, typer.Option("--storage", "-s", metavar="mcap|sqlite3", help="Format of the bag.")
    ] = "mcap",
    include_hidden: Annotated[
        bool, typer.Option("--include-hidden", help="Also topics of which a part starts with an underscore.")
    ] = False,
    use_sim_time: Annotated[
        bool, typer.Option("--use-sim-time", help="Log times from /clock; the messages' own stamps never change.")
    ] = False,
    duration: Annotated[
        float, typer.Option("--duration", metavar="S", min=0.0, help="End after S seconds; 0: with Ctrl-C.")
    ] = 0.0,
    json: output.JsonOption = False,
) -> None:
    """Record topics into a ROS 2 bag, until Ctrl-C. Topics that appear later are recorded too.

    The bag is what `ros2 bag record` makes: `ros2 bag play` and `onboard-estimation play` take it. Its file grows at
    its place and is handed to the disk every second, so that a robot that loses power keeps its recording.
    """
    from dataclasses import asdict

    from onboard_estimation.evaluation.bag_writing import BagWriter
    from onboard_estimation.live.recorder import Recorded, Recorder, Selection, summary
    from onboard_estimation.live.session import graph_node, place
    from onboard_estimation.live.signals import stop_on_signal

    selection = Selection(everything, tuple(topics or ()), regex, exclude_regex, include_hidden)
    path = bag or Path(time.strftime("recorded_%Y_%m_%d-%H_%M_%S"))
    shown, said = time.monotonic(), 0
    with stop_on_signal() as stop, graph_node("recorder", **_simulated(use_sim_time)) as node:
        recorder = Recorder(node, BagWriter(path, storage, grows=True), selection)
        typer.echo(f"recording to {path}; Ctrl-C ends it", err=True)
        with output.steps(f"recording to {path}", quiet=json) as progress:

            def show(recorded: Recorded) -> None:
                nonlocal shown, said
                now = time.monotonic()
                if duration and recorded.duration_s >= duration:
                    stop.make()
                for note in recorded.notes[said:]:
                    typer.echo(f"WARNING: {note}", err=True)
                said = len(recorded.notes)
                if now - shown >= _SHOW_PERIOD_S:
                    shown = now
                    size = f"{recorded.size_bytes / 1e6:.1f} MB, {len(recorded.counts)} topics"
                    progress(f"{recorded.duration_s:.0f} s, {recorded.message_count} messages, {size}")

            recorder.run(stop, show)
    recorded = recorder.recorded
    if json:
        output.print_json({"path": str(path), "missing": recorder.missing(), **asdict(recorded)})
        return
    output.say(summary(path, recorded))
    if missing := recorder.missing():
        output.say(f"never seen in {place()}: {', '.join(missing)}")
    if recorded.message_count:
        output.say(f"next: {output.program()} inspect {shlex.quote(str(path))}")


def _simulated(use_sim_time: bool) -> dict[str, object]:
    if not use_sim_time:
        return {}
    from onboard_estimation import ros2

    ros2.require()
    from rclpy.parameter import Parameter

    return {"parameter_overrides": [Parameter("use_sim_time", value=True)]}
