"""A layout for Foxglove of any robot: the picture, each block of the state, its deviations, health, the phase.

Foxglove plots no sum of two topics, so three standard deviations are curves of their own beside the state, not a band.
The files in `config/` are what this module prints: `python -m onboard_estimation.live.foxglove_layout ROBOT`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

from onboard_estimation.evaluation.message_factory import new
from onboard_estimation.robots import Robot, estimator_name, find_robot
from onboard_estimation.ros.estimates import EstimateMessages


def layout(robot: Robot) -> dict[str, Any]:
    """For the robot as it is configured by default, in the namespace of its name; as Foxglove imports it."""
    configuration = robot.configuration_type()
    estimator = robot.estimator(configuration, estimator_name(robot, None))
    space, root = estimator.space, f"/{robot.name}"
    messages = EstimateMessages(space, new)
    size = space.dimension * (space.dimension + 1) // 2
    states = list(messages.message("state", 0, np.zeros(space.coordinate_count)).name)
    entries = list(messages.message("state_covariance", 0, np.zeros(size)).name)
    plots = []
    for block in dict.fromkeys(name.partition(".")[0] for name in states):
        values = [(i, name) for i, name in enumerate(states) if name.partition(".")[0] == block]
        sides = [(i, entry.partition(":")) for i, entry in enumerate(entries)]
        spread = [(i, one) for i, (one, _, other) in sides if one == other and one.partition(".")[0] == block]
        plots.append(_plot(block, [(f"{root}/state.position[{i}]", name) for i, name in values]))
        deviations = [(f"{root}/state_covariance.position[{i}].@sqrt.@mul(3)", f"3 sigma {one}") for i, one in spread]
        plots.append(_plot(f"{block}: three standard deviations", deviations))
    health: list[dict[str, Any]] = [_panel("DiagnosticsSummary", {"topicToRender": "/diagnostics"})]
    if getattr(estimator, "phases", ()):
        plots.append(_plot("phase", [(f"{root}/phase_state.position[0]", "phase")]))
        health.append(_panel("RawMessages", {"topicPath": f"{root}/phase.data"}))
    shown = ["markers", *(["path"] if "odometry" in messages.types() else [])]
    topics = {f"{root}/{name}": {"visible": True} for name in shown}
    picture = _panel("ThreeDee", {"fixedFrame": f"{robot.name}/map", "followTf": f"{robot.name}/map", "topics": topics})
    left = _split("column", [picture, *health])
    return {"version": 1, "content": _split("row", [left, {"type": "stack", "panels": _stacked(plots)}])}


def _plot(title: str, curves: list[tuple[str, str]]) -> dict[str, Any]:
    paths = [{"value": path, "label": label, "timestampMethod": "headerStamp"} for path, label in curves]
    return _panel("Plot", {"paths": paths}, title)


def _panel(kind: str, config: dict[str, Any], title: str | None = None) -> dict[str, Any]:
    named = {} if title is None else {"title": title}
    return {"type": "panel", "panelType": kind, "config": config, "version": 1, **named}


def _split(direction: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    items = [{"proportion": 1.0, "content": part} for part in parts]
    return {"type": "split", "direction": direction, "items": items}


def _stacked(panels: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"panel": panel, "size": 0.3} for panel in panels]


if __name__ == "__main__":
    print(json.dumps(layout(find_robot(sys.argv[1])), indent=1))
