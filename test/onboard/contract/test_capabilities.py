"""What robots can do: asked by type, refused in one sentence that says who can."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from inspect import getclosurevars, signature
from typing import Any

import numpy as np
import pytest

from onboard_estimation import contract
from onboard_estimation.base.errors import UserError
from onboard_estimation.cli import main
from onboard_estimation.contract.reported import Drawn, outline_of, poses_of_bodies, shapes_of_bodies
from onboard_estimation.contract.robot import Capability, Robot, all_robots, find_robot
from onboard_estimation.contract.simulated import Simulated, SimulatedLive, WithGaits
from onboard_estimation.contract.trained import Trained
from onboard_estimation.filtering.state_space import StateSpace, se2, vector

MODULES = [import_module(f"{contract.__name__}.{one.name}") for one in pkgutil.iter_modules(contract.__path__)]
CAPABILITIES = {
    one
    for module in MODULES
    for one in vars(module).values()
    if isinstance(one, type) and issubclass(one, Capability) and one is not Capability
}


def test_every_capability_is_asked_by_type_and_refused_by_name() -> None:
    assert {Simulated, SimulatedLive, Drawn, Trained, WithGaits} < CAPABILITIES
    for capability in CAPABILITIES:
        able = [robot.name for robot in all_robots() if isinstance(robot, capability)]
        for robot in all_robots():
            if robot.name in able:
                assert capability.of(robot) is robot
                continue
            with pytest.raises(UserError) as refused:
                capability.of(robot)
            others = f"these robots have: {', '.join(able)}" if able else "no robot that is installed has"
            assert str(refused.value) == f"robot '{robot.name}' has no {capability.ability}; {others}"


def test_what_is_done_offline_is_there_and_takes_what_the_contract_gives() -> None:
    found = 0
    for robot in all_robots():
        for name, method in vars(type(robot)).items():
            if getattr(method, "__qualname__", "").startswith("offline."):
                place = getclosurevars(method).nonlocals
                function = getattr(import_module(place["module"]), place["name"])
                promised = next(vars(kind)[name] for kind in type(robot).__mro__[1:] if name in vars(kind))
                _, *wanted = signature(promised).parameters
                signature(function).bind(*wanted)
                assert isinstance(function, type) or list(signature(function).parameters)[: len(wanted)] == wanted
                found += 1
    assert found > 20


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("urdf", "strapdown"),
            "robot 'strapdown' has no URDF or bodies to draw; "
            "these robots have: hopper, salp, softrobot, thruster_chain",
        ),
        (("gait", "hopper", "forward"), "robot 'hopper' has no gaits; these robots have: salp"),
    ],
)
def test_commands_say_it_in_one_sentence(words: tuple[str, ...], said: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert said in " ".join(capfd.readouterr().err.split())


def test_a_robot_of_one_body_is_drawn_as_a_point() -> None:
    robot: Robot[Any] = find_robot("strapdown")
    configuration, space = robot.configuration_type(), StateSpace(se2("pose"))
    means = np.array([[1.0, 2.0, 0.5], [3.0, 4.0, 0.1]])
    np.testing.assert_array_equal(outline_of(robot, configuration, space, means), means[:, None, :2])
    assert outline_of(robot, configuration, StateSpace(vector("height", ("z",), "m")), means[:, :1]) is None
    assert poses_of_bodies(robot, configuration, space, means) == shapes_of_bodies(robot, configuration) == {}
