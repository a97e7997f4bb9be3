"""The node `bag_player` for launch files: plays a bag, with ROS 2 and without it.

Parameters: `bag` (path), `rate` (1.0; 0.0: in step with the nodes that listen), `loop`, `start_offset` (s), `topics`,
`exclude_topics`, `clock` (Hz, 0: no /clock), `start_paused`, `wait_for_subscribers` (s, 10), `wait_for_nodes` (full
names), `delay` (s). Ends with the bag.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onboard_estimation.base.errors import UserError
from onboard_estimation.live.player import Played, Player
from onboard_estimation.live.schedule import PlayOptions
from onboard_estimation.live.session import parameter, run_node
from onboard_estimation.live.signals import StopRequest


def main(arguments: list[str] | None = None) -> None:
    """Play until the bag ends, or a signal comes."""
    run_node("bag_player", _play, arguments)


def _play(node: Any, stop: StopRequest) -> None:
    bag = parameter(node, "bag", "")
    options = PlayOptions(
        rate=parameter(node, "rate", 1.0),
        loop=parameter(node, "loop", False),
        start_offset_s=parameter(node, "start_offset", 0.0),
        topics=parameter(node, "topics", ()),
        exclude_topics=parameter(node, "exclude_topics", ()),
        clock_hz=parameter(node, "clock", 0.0),
        start_paused=parameter(node, "start_paused", False),
        wait_for_subscribers_s=parameter(node, "wait_for_subscribers", 10.0),
        delay_s=parameter(node, "delay", 0.0),
        wait_for_nodes=parameter(node, "wait_for_nodes", ()),
    )
    if not bag:
        raise UserError("parameter bag is empty: it names the bag to play")
    player = Player(node, Path(bag), options, stop)
    log = node.get_logger()
    log.info(f"playing {bag}: {player.duration_s:.1f} s, {player.played.topic_count} topics, rate {options.rate:g}")
    player.run(log.warning)
    log.info(summary(bag, player.played))


def summary(path: Path | str, played: Played) -> str:
    """One line on what was played."""
    late = (
        f"; {played.late_count} messages were more than 0.1 s late, the worst {played.worst_late_s:.2f} s"
        if played.late_count
        else ""
    )
    return f"{path}: {played.message_count} messages on {played.topic_count} topics played{late}"


if __name__ == "__main__":
    main()
