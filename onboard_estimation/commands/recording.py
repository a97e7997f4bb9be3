"""`onboard-estimation record` and `play`: bags of the live graph."""

from __future__ import annotations

import shlex
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from onboard_estimation.base.errors import UserError
from onboard_estimation.commands import arguments, output
from onboard_estimation.commands.arguments import JsonOption, argument, flag, option
from onboard_estimation.judging.options import path_word
from onboard_estimation.live.discovery import absolute
from onboard_estimation.live.schedule import PlayOptions
from onboard_estimation.live.session import graph_node, place, spun_node
from onboard_estimation.live.signals import stop_on_signal

_RECORDED_PERIOD_S, _PLAYED_PERIOD_S = 0.5, 0.2
_CLOCK_HZ = 40.0


@output.command(
    "record --all --output walk",
    "record /salp/odometry /salp/joint_states -o walk",
    'record --regex "^/salp/(imu|actuators)/" --storage sqlite3 -o walk',
)
def record(
    topics: Annotated[list[str] | None, argument("TOPIC...", "Topics to record.")] = None,
    bag: Annotated[
        Path | None, arguments.into("BAG", "Bag to write, a folder; `recorded_<time>` otherwise.", folder=True)
    ] = None,
    everything: Annotated[bool, flag("Record all topics.", "--all", "-a")] = False,
    regex: Annotated[str, option("PATTERN", "Topics whose name the expression is found in.", "--regex", "-e")] = "",
    exclude_regex: Annotated[str, option("PATTERN", "But not those.", "--exclude-regex", "-x")] = "",
    storage: Annotated[str, option("mcap|sqlite3", "Format of the bag.", "--storage", "-s")] = "mcap",
    include_hidden: Annotated[
        bool, flag("Also topics of which a part starts with an underscore.", "--include-hidden")
    ] = False,
    use_sim_time: Annotated[
        bool, flag("Log times from /clock; the messages' own stamps never change.", "--use-sim-time")
    ] = False,
    duration: Annotated[float, option("S", "End after S seconds; 0: with Ctrl-C.", "--duration", min=0.0)] = 0.0,
    json: JsonOption = False,
) -> None:
    """Record topics into a ROS 2 bag, until Ctrl-C. Topics that appear later are recorded too.

    The bag is what `ros2 bag record` makes: `ros2 bag play` and `onboard-estimation play` take it. Its file grows at
    its place and is handed to the disk every second, so that a robot that loses power keeps its recording.
    """
    from onboard_estimation.bags.writing import BagWriter
    from onboard_estimation.live.recorder import Recorded, Recorder, Selection, summary

    selection = Selection(everything, tuple(topics or ()), regex, exclude_regex, include_hidden)
    path = bag or Path(time.strftime("recorded_%Y_%m_%d-%H_%M_%S"))
    said = 0
    words = ["--ros-args", "-p", "use_sim_time:=true"] if use_sim_time else []
    with stop_on_signal() as stop, graph_node("recorder", cli_args=words) as node:
        recorder = Recorder(node, BagWriter(path, storage, grows=True), selection)
        typer.echo(f"recording to {path}; Ctrl-C ends it", err=True)
        now_and_then = output.every(_RECORDED_PERIOD_S)
        with output.steps(f"recording to {path}", quiet=json) as progress:

            def show(recorded: Recorded) -> None:
                nonlocal said
                if duration and recorded.duration_s >= duration:
                    stop.make()
                for note in recorded.notes[said:]:
                    typer.echo(f"WARNING: {note}", err=True)
                said = len(recorded.notes)
                if now_and_then():
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
        output.say_command("next: ", f"inspect {shlex.quote(path_word(path))}")


@output.command(
    "play walk",
    "play walk --rate 0.5 --loop --clock",
    "play walk --topics /salp/imu/link_1/data_raw --remap /salp/imu/link_1/data_raw:=/imu",
    "play walk --rate 0",
)
@arguments.taking_settings(PlayOptions())
def play(
    bag: Annotated[Path, argument("BAG", "Bag: a rosbag2 folder, .mcap, .db3 or ROS 1 .bag file.")],
    settings: Any = None,
    remap: Annotated[list[str] | None, option("FROM:=TO", "Another name for a topic.", "--remap", "-m")] = None,
    clock: Annotated[bool, flag("Publish the bag's time on /clock, at 40 Hz.", "--clock")] = False,
    json: JsonOption = False,
) -> None:
    """Play a bag into the live graph: every message at its log time, as its publishers offered it.

    Publishers are made first and found by the subscribers that are there, so that the first messages arrive.

    `--rate 0` plays in step: each message is published when every node that subscribes has taken the one before, so
    that a node gets all messages in the bag's order, as fast as it can.
    """
    from onboard_estimation.live.bag_player import Played, Player, summary

    options = replace(settings, clock_hz=_CLOCK_HZ if clock else 0.0)
    words = _ros_arguments(remap or [])
    with stop_on_signal() as stop, spun_node("bag_player", words, enable_rosout=False) as node:
        player = Player(node, bag, options, stop)
        now_and_then = output.every(_PLAYED_PERIOD_S)
        with output.steps(f"playing {bag}", quiet=json) as progress:

            def show(played: Played) -> None:
                if now_and_then():
                    speed = f"rate {options.rate:.2g}" if options.rate else "in step"
                    progress(f"{played.latest_s:.1f} of {player.duration_s:.1f} s, {speed}")

            player.run(lambda note: typer.echo(f"WARNING: {note}", err=True), show)
    if json:
        output.print_json({"path": str(bag), **asdict(player.played)})
    else:
        output.say(summary(bag, player.played))


def _ros_arguments(remap: list[str]) -> list[str]:
    words: list[str] = []
    for text in remap:
        before, sign, after = text.partition(":=")
        if not sign:
            raise UserError(f"--remap {text}: write --remap FROM:=TO")
        words += ["-r", f"{absolute(before)}:={absolute(after)}"]
    return ["--ros-args", *words] if words else []
