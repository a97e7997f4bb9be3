"""`onboard-estimation record` and `play`: bags of the live graph."""

from __future__ import annotations

import os
import select
import shlex
import sys
import termios
import threading
import time
import tty
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from onboard_estimation.base import ros2
from onboard_estimation.base.errors import UserError
from onboard_estimation.commands import arguments, output
from onboard_estimation.commands.arguments import JsonOption, argument, flag, option
from onboard_estimation.judging.options import path_word
from onboard_estimation.live.discovery import absolute
from onboard_estimation.live.schedule import PlayOptions
from onboard_estimation.live.session import graph_node, place, spun_node
from onboard_estimation.live.signals import stop_on_signal

_RECORDED_PERIOD_S, _PLAYED_PERIOD_S = 0.5, 0.2
_RIGHT, _UP, _DOWN = "\x1b[C", "\x1b[A", "\x1b[B"
_KEY_PERIOD_S = 0.05


@output.command(
    "record --all --output walk",
    "record /salp/odometry /salp/joint_states -o walk",
    'record --regex "^/salp/(imu|actuators)/" --storage sqlite3 -o walk',
)
def record(
    topics: Annotated[list[str] | None, argument("TOPIC...", "Topics to record.")] = None,
    bag: Annotated[Path | None, arguments.into("BAG", "Bag to write, a folder; `recorded_<time>` otherwise.")] = None,
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
    with stop_on_signal() as stop, graph_node("recorder", **_simulated(use_sim_time)) as node:
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


def _simulated(use_sim_time: bool) -> dict[str, object]:
    if not use_sim_time:
        return {}
    ros2.require()
    from rclpy.parameter import Parameter

    return {"parameter_overrides": [Parameter("use_sim_time", value=True)]}


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
    clock: Annotated[bool, flag("Publish the bag's time on /clock.", "--clock")] = False,
    clock_rate: Annotated[float, option("HZ", "How often, with --clock.")] = 40.0,
    json: JsonOption = False,
) -> None:
    """Play a bag into the live graph: every message at its log time, as its publishers offered it.

    Publishers are made first and found by the subscribers that are there, so that the first messages arrive.

    Keys: space pauses and goes on; `s` or the right arrow plays the next message in a pause; the up and down arrows
    change the rate by a tenth. The node `bag_player` has services for it: `onboard-estimation service call
    /bag_player/pause`, `resume`, `toggle_paused`, `play_next`.

    `--rate 0` plays in step: each message is published when every node that subscribes has taken the one before, so
    that a node gets all messages in the bag's order, as fast as it can.
    """
    from onboard_estimation.live.bag_player import Played, Player, summary

    options = replace(settings, clock_hz=clock_rate if clock else 0.0)
    words = _ros_arguments(remap or [])
    with stop_on_signal() as stop, spun_node("bag_player", words, enable_rosout=False) as node:
        player = Player(node, bag, options, stop)
        schedule, now_and_then = player.schedule, output.every(_PLAYED_PERIOD_S)
        with output.steps(f"playing {bag}", quiet=json) as progress:

            def show_state() -> None:
                state = " (pause)" if schedule.paused else ""
                speed = f"rate {schedule.rate:.2g}" if options.rate else "in step"
                progress(f"{player.played.latest_s:.1f} of {player.duration_s:.1f} s, {speed}{state}")

            def show(played: Played) -> None:
                if now_and_then():
                    show_state()

            def then_shown(action: Callable[[], object]) -> Callable[[], None]:
                def act() -> None:
                    action()
                    show_state()  # no message comes in a pause, that would show it

                return act

            actions = {
                " ": schedule.toggle_paused,
                _RIGHT: schedule.step,
                "s": schedule.step,
                _UP: lambda: schedule.set_rate(schedule.rate * 1.1),
                _DOWN: lambda: schedule.set_rate(schedule.rate / 1.1),
            }
            with _keys({key: then_shown(action) for key, action in actions.items()}):
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


@contextmanager
def _keys(actions: Mapping[str, Callable[[], None]]) -> Iterator[bool]:
    """Call the action of each key that is pressed in the block, without Enter; whether there is a keyboard."""
    try:
        terminal = sys.stdin.fileno()
        # A background process that changes the terminal would be stopped by it.
        there = os.isatty(terminal) and os.tcgetpgrp(terminal) == os.getpgrp()
    except (OSError, ValueError, AttributeError):
        there = False
    if not there:
        yield False
        return
    before = termios.tcgetattr(terminal)
    ended = threading.Event()

    def listen() -> None:
        while not ended.is_set():
            if select.select([terminal], [], [], _KEY_PERIOD_S)[0]:
                pressed = os.read(terminal, 8).decode("ascii", "replace")
                if not pressed:
                    return
                action = actions.get(pressed) or actions.get(pressed[0])
                if action is not None:
                    action()

    thread = threading.Thread(target=listen, name="keyboard", daemon=True)
    try:
        tty.setcbreak(terminal)
        thread.start()
        yield True
    finally:
        ended.set()
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
