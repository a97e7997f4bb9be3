"""The node `bag_player` for launch files: plays a bag, with ROS 2 and without it.

Parameters: `bag` (path), `rate` (1.0; 0.0: in step with the nodes that listen), `loop`, `start_offset` (s), `topics`,
`exclude_topics`, `clock` (Hz, 0: no /clock), `start_paused`, `wait_for_subscribers` (s, 10), `wait_for_nodes` (full
names), `delay` (s). Ends with the bag.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onboard_estimation.errors import UserError
from onboard_estimation.live.player import Played, Player, PlayOptions
from onboard_estimation.live.session import run_node
from onboard_estimation.live.signals import StopRequest


def main(arguments: list[str] | None = None) -> None:
    """Play until the bag ends, or a signal comes."""
    run_node("bag_player", _play, arguments)


def _play(node: Any, stop: StopRequest) -> None:
    def parameter(name: str, default: Any) -> Any:
        return node.declare_parameter(name, default).value

    bag = str(parameter("bag", ""))
    options = PlayOptions(
        rate=float(parameter("rate", 1.0)),
        loop=bool(parameter("loop", False)),
        start_offset_s=float(parameter("start_offset", 0.0)),
        topics=tuple(topic for topic in parameter("topics", [""]) if topic),
        exclude_topics=tuple(topic for topic in parameter("exclude_topics", [""]) if topic),
        clock_hz=float(parameter("clock", 0.0)),
        start_paused=bool(parameter("start_paused", False)),
        wait_for_subscribers_s=float(parameter("wait_for_subscribers", 10.0)),
        delay_s=float(parameter("delay", 0.0)),
        wait_for_nodes=tuple(name for name in parameter("wait_for_nodes", [""]) if name),
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
