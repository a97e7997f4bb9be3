"""Shipped parameter files: every line is a parameter, with its default, and all there are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from live_nodes import start

from drivers.emulators.serial_imu import SerialFaults
from drivers.serial_imu.mounting import SerialImu
from onboard_estimation.base.configuration import describe, load
from onboard_estimation.base.installed import resource
from onboard_estimation.contract.robot import find_robot
from onboard_estimation.nodes.estimator import EstimatorHost
from onboard_estimation.nodes.markers import MarkerHost
from onboard_estimation.nodes.simulator import SimulatorHost

OTHERS: dict[str, dict[str, tuple[type, ...]]] = {
    "salp": {},
    "hopper": {"serial_imu": (SerialImu,), "serial_imu_emulator": (SerialFaults,)},
}


@pytest.mark.live
@pytest.mark.parametrize("name", OTHERS)
def test_those_of_nodes(name: str) -> None:
    robot: Any = find_robot(name)
    hosts = {f"{name}_estimator": (EstimatorHost,), f"{name}_simulator": (SimulatorHost,), "markers": (MarkerHost,)}
    content = yaml.safe_load(resource(f"config/{name}_nodes.yaml").read_text())
    assert set(content) == {f"/**/{node}" for node in (*hosts, *OTHERS[name])}
    # By name for this robot, where the nodes take the first there is.
    scenario = next(iter(robot.scenarios))
    named = {"scenario": scenario, "variant": robot.scenarios[scenario].variants[0], "robot": name}
    named |= {"estimator": robot.estimators[0], **({"rate_hz": 20.0} if name == "hopper" else {})}
    for node, kinds in (hosts | OTHERS[name]).items():
        rows = [row for kind in kinds for row in describe(kind)]
        defaults = {row.name: list(row.default) if isinstance(row.default, tuple) else row.default for row in rows}
        written = content[f"/**/{node}"]["ros__parameters"]
        assert written == {key: named.get(key, value) for key, value in defaults.items()}
        given = {key: tuple(value) if isinstance(value, list) else value for key, value in written.items()}
        for kind in kinds:
            load(kind, None, {row.name: given[row.name] for row in describe(kind)})


@pytest.mark.parametrize("name", ["salp", "hopper", "softrobot", "strapdown", "thruster_chain"])
def test_those_of_robots(name: str) -> None:
    kind = find_robot(name).configuration_type
    assert load(kind, resource(f"config/{name}.yaml")) == kind()


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("-p bodies:=[a,on]", "-p bodies:=[a,on], line 1: .* put each text in quotes"),
        ("-p volts:=[0,10.5]", "-p volts:=[0,10.5], line 1: .* write each number with a point"),
        ("-p bodies:=[]", "bodies: nothing, or an empty list, .*: leave it out"),
        ("--params-file FILE", "mixed.yaml, line 3: ROS 2 takes lists of one kind"),
    ],
)
def test_what_rclpy_has_no_words_for(given: str, said: str, tmp_path: Path) -> None:
    (file := tmp_path / "mixed.yaml").write_text("/**/hebi:\n  ros__parameters:\n    names: [x, y]\n")
    node = start("run", "optitrack", "--ros-args", *given.replace("FILE", str(file)).split())
    _, errors = node.communicate()
    assert node.returncode == 2
    assert re.search(said.replace("[", r"\["), errors)
    assert "Traceback" not in errors
