"""Foxglove's layouts: the files are those of the robots as they are, and every path leads to a published number."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onboard_estimation.evaluation.message_factory import new
from onboard_estimation.live.foxglove_layout import layout
from onboard_estimation.measurement import Estimate, PhaseEvent
from onboard_estimation.nodes.outputs import published_topics
from onboard_estimation.robots import estimator_name, find_robot
from onboard_estimation.ros import phases
from onboard_estimation.ros.estimates import EstimateMessages

ROBOTS = ("hopper", "salp", "softrobot", "strapdown", "thruster_chain")
PATH = re.compile(r"(?P<topic>/[\w/]+)\.position\[(?P<index>\d+)\](?P<functions>\.@sqrt\.@mul\(3\))?")


def panels(part: Any) -> Iterator[dict[str, Any]]:
    if isinstance(part, dict):
        if part.get("type") == "panel":
            yield part
        for inner in part.values():
            yield from panels(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from panels(inner)


@pytest.mark.parametrize("name", ROBOTS)
def test_every_curve_is_a_number_of_the_robots_messages(name: str, repository: Path) -> None:
    robot = find_robot(name)
    found = json.loads((repository / "config" / f"{name}_foxglove.json").read_text(encoding="utf-8"))
    assert found == layout(robot), f"python -m onboard_estimation.live.foxglove_layout {name}"
    space = robot.estimator(robot.configuration_type(), estimator_name(robot, None)).space
    variances = np.arange(1.0, space.dimension + 1.0) ** 2  # the k-th deviation is k
    estimate = Estimate(1, space.origin(), np.diag(variances))
    outputs = [*EstimateMessages(space, new)(estimate)]
    if name == "hopper":
        outputs += phases.event_messages(new, PhaseEvent("apex", 1, 2, 0.01, 0, 1.3))
    messages = {f"/{name}/{output.topic}": output.message for output in outputs}
    deviations = []
    for panel in panels(found):
        for curve in panel["config"].get("paths", []):
            path = PATH.fullmatch(curve["value"])
            assert path is not None, curve
            number = float(messages[path["topic"]].position[int(path["index"])])
            if path["functions"]:
                deviations.append(number**0.5)
                continue
            assert messages[path["topic"]].name[int(path["index"])] == curve["label"]
    others = {topic for panel in panels(found) for topic in panel["config"].get("topics", {})}
    others |= {
        panel["config"]["topicPath"].partition(".")[0] for panel in panels(found) if "topicPath" in panel["config"]
    }
    others |= {one["config"]["topicToRender"] for one in panels(found) if "topicToRender" in one["config"]}
    assert others - {f"/{name}/markers"} <= set(published_topics(name))
    assert sorted(deviations) == [*range(1, space.dimension + 1)]


def test_panels_are_foxgloves() -> None:
    layouts = pytest.importorskip("foxglove.layouts")
    kinds = [layouts.ThreeDeePanel, layouts.PlotPanel, layouts.RawMessagesPanel, layouts.DiagnosticsSummaryPanel]
    known = {kind()._to_dict()["panelType"] for kind in kinds}
    assert {panel["panelType"] for panel in panels(layout(find_robot("hopper")))} == known
