"""Services of a player, `std_srvs/Trigger` under the names of rosbag2's: its own types come with a whole ROS 2 only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onboard_estimation.live.schedule import Schedule
from onboard_estimation.live.types import interface_class


def offer_services(node: Any, schedule: Schedule) -> None:
    """Create `~/pause`, `~/resume`, `~/toggle_paused` and `~/play_next` on the player's node."""
    actions: dict[str, Callable[[], Any]] = {
        "pause": schedule.pause,
        "resume": schedule.resume,
        "toggle_paused": lambda: toggle_paused(schedule),
        "play_next": schedule.step,
    }
    for name, action in actions.items():
        node.create_service(interface_class("std_srvs/srv/Trigger"), f"~/{name}", _answer(action))


def toggle_paused(schedule: Schedule) -> None:
    """Pause, or go on."""
    if schedule.paused:
        schedule.resume()
    else:
        schedule.pause()


def _answer(action: Callable[[], Any]) -> Callable[[Any, Any], Any]:
    def answer(request: Any, response: Any) -> Any:
        response.success = action() is not False
        return response

    return answer
