"""Services of a player: rosbag2's, and where ROS 2 is without `rosbag2_interfaces`, `std_srvs/Trigger` of those names.

`~/pause`, `~/resume`, `~/toggle_paused`, `~/play_next`; with rosbag2_interfaces also `~/is_paused`, `~/get_rate` and
`~/set_rate`, which have an answer or a number that a Trigger has not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onboard_estimation.errors import UserError
from onboard_estimation.live.schedule import Schedule
from onboard_estimation.live.types import interface_class


def offer_services(node: Any, schedule: Schedule) -> None:
    """Create the services on the player's node."""
    actions: dict[str, Callable[[], Any]] = {
        "pause": schedule.pause,
        "resume": schedule.resume,
        "toggle_paused": lambda: toggle_paused(schedule),
        "play_next": schedule.step,
    }
    try:
        kinds = {name: interface_class(f"rosbag2_interfaces/srv/{_camel(name)}") for name in actions}
        is_paused, get_rate, set_rate = (
            interface_class(f"rosbag2_interfaces/srv/{name}") for name in ("IsPaused", "GetRate", "SetRate")
        )
    except UserError:
        trigger = interface_class("std_srvs/srv/Trigger")
        for name, action in actions.items():
            node.create_service(trigger, f"~/{name}", _answer(action))
        return
    for name, action in actions.items():
        node.create_service(kinds[name], f"~/{name}", _answer(action))
    node.create_service(is_paused, "~/is_paused", lambda request, response: _set(response, "paused", schedule.paused))
    node.create_service(get_rate, "~/get_rate", lambda request, response: _set(response, "rate", schedule.rate))
    node.create_service(
        set_rate,
        "~/set_rate",
        lambda request, response: _set(response, "success", schedule.set_rate(request.rate)),
    )


def toggle_paused(schedule: Schedule) -> None:
    """Pause, or go on."""
    if schedule.paused:
        schedule.resume()
    else:
        schedule.pause()


def _answer(action: Callable[[], Any]) -> Callable[[Any, Any], Any]:
    def answer(request: Any, response: Any) -> Any:
        done = action()
        return _set(response, "success", done is not False) if hasattr(response, "success") else response

    return answer


def _set(response: Any, field: str, value: Any) -> Any:
    setattr(response, field, value)
    return response


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))
