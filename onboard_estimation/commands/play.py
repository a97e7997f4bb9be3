"""`onboard-estimation play`."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from onboard_estimation.commands import output

EXAMPLES = output.examples(
    "play walk",
    "play walk --rate 0.5 --loop --clock",
    "play walk --topics /salp/imu/link_1/data_raw --remap /salp/imu/link_1/data_raw:=/imu",
    "play walk --rate 0",
)

_SHOW_PERIOD_S = 0.2
_CLOCK_HZ = 40.0


def play(
    bag: Annotated[Path, typer.Argument(metavar="BAG", help="Bag: a rosbag2 folder, .mcap, .db3 or ROS 1 .bag file.")],
    rate: Annotated[
        float,
        typer.Option("--rate", "-r", metavar="R", help="Seconds of the bag per second; 0: in step, see above."),
    ] = 1.0,
    loop: Annotated[bool, typer.Option("--loop", "-l", help="Start anew at the end; stamps jump back then.")] = False,
    start_offset: Annotated[float, typer.Option(metavar="S", help="Leave out the first S seconds of the bag.")] = 0.0,
    topics: Annotated[
        list[str] | None, typer.Option("--topics", metavar="TOPIC", help="Play only this topic; may be repeated.")
    ] = None,
    remap: Annotated[
        list[str] | None, typer.Option("--remap", "-m", metavar="FROM:=TO", help="Another name for a topic.")
    ] = None,
    clock: Annotated[bool, typer.Option("--clock", help="Publish the bag's time on /clock.")] = False,
    clock_rate: Annotated[float, typer.Option(metavar="HZ", help="How often, with --clock.")] = _CLOCK_HZ,
    start_paused: Annotated[bool, typer.Option("--start-paused", "-p", help="Start in a pause.")] = False,
    wait_for_subscribers: Annotated[
        float, typer.Option(metavar="S", help="Wait up to S seconds for a first subscriber.")
    ] = 0.0,
    delay: Annotated[float, typer.Option(metavar="S", help="Wait S seconds before the first message.")] = 0.0,
    read_ahead: Annotated[int, typer.Option(metavar="N", help="Messages read before they are due.")] = 1000,
    json: output.JsonOption = False,
) -> None:
    """Play a bag into the live graph: every message at its log time, as its publishers offered it.

    Publishers are made first and found by the subscribers that are there, so that the first messages arrive.

    Keys: space pauses and goes on; `s` or the right arrow plays the next message in a pause; the up and down arrows
    change the rate by a tenth. The node `bag_player` has services for it: `onboard-estimation service call
    /bag_player/pause`, `resume`, `toggle_paused`, `play_next`.

    `--rate 0` plays in step: each message is published when every node that subscribes has taken the one before, so
    that a node gets all messages in the bag's order, as fast as it can.
    """
    from dataclasses import asdict

    from onboard_estimation.live import keyboard
    from onboard_estimation.live.bag_player import summary
    from onboard_estimation.live.player import Played, Player, PlayOptions
    from onboard_estimation.live.session import ros_context, spin_beside
    from onboard_estimation.live.signals import stop_on_signal

    options = PlayOptions(
        rate,
        loop,
        start_offset,
        tuple(topics or ()),
        clock_rate if clock else 0.0,
        start_paused,
        wait_for_subscribers,
        delay,
        read_ahead,
    )
    with stop_on_signal() as stop, ros_context(_ros_arguments(remap or [])):
        from rclpy.node import Node

        node = Node("bag_player", enable_rosout=False)
        with spin_beside(node):
            player = Player(node, bag, options, stop)
            schedule = player.schedule
            shown = time.monotonic()
            with output.steps(f"playing {bag}", quiet=json) as progress:

                def show_state() -> None:
                    state = " (pause)" if schedule.paused else ""
                    speed = f"rate {schedule.rate:.2g}" if rate else "in step"
                    progress(f"{player.played.latest_s:.1f} of {player.duration_s:.1f} s, {speed}{state}")

                def show(played: Played) -> None:
                    nonlocal shown
                    now = time.monotonic()
                    if now - shown >= _SHOW_PERIOD_S:
                        shown = now
                        show_state()

                def then_shown(action: Callable[[], object]) -> Callable[[], None]:
                    def act() -> None:
                        action()
                        show_state()  # no message comes in a pause, that would show it

                    return act

                actions = {
                    keyboard.SPACE: schedule.toggle_paused,
                    keyboard.RIGHT: schedule.step,
                    "s": schedule.step,
                    keyboard.UP: lambda: schedule.set_rate(schedule.rate * 1.1),
                    keyboard.DOWN: lambda: schedule.set_rate(schedule.rate / 1.1),
                }
                with keyboard.keys({key: then_shown(action) for key, action in actions.items()}):
                    player.run(lambda note: typer.echo(f"WARNING: {note}", err=True), show)
    if json:
        output.print_json({"path": str(bag), **asdict(player.played)})
    else:
        output.say(summary(bag, player.played))


def _ros_arguments(remap: list[str]) -> list[str]:
    from onboard_estimation.errors import UserError
    from onboard_estimation.live.discovery import absolute

    words: list[str] = []
    for text in remap:
        before, sign, after = text.partition(":=")
        if not sign:
            raise UserError(f"--remap {text}: write --remap FROM:=TO")
        words += ["-r", f"{absolute(before)}:={absolute(after)}"]
    return ["--ros-args", *words] if words else []
