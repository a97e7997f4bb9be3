"""What drivers of motion capture share: axes, names, and plausible poses."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.transform import Rotation

from drivers.emulators.natnet import NatNetServerConfiguration
from drivers.emulators.vicon import ViconEmulatorConfiguration
from drivers.motion_capture.bodies import (
    MOST_BODIES,
    chosen_names,
    parsed_names,
    plausible,
    quaternions_of,
    to_stream,
    to_world,
    topic_name,
)
from drivers.motion_capture.optitrack_client import OptitrackConfiguration
from drivers.motion_capture.vicon_receiver import ViconConfiguration
from onboard_estimation.base.configuration import ConfigurationError, describe, load
from onboard_estimation.base.installed import resource

TO_Z_UP = Rotation.from_euler("x", 90, degrees=True)


def test_y_up_is_turned_by_a_quarter_about_x_with_the_bodies_axes_and_back_to_the_bit() -> None:
    rng = np.random.default_rng(1)
    positions, turns = rng.normal(size=(7, 3)), Rotation.random(7, random_state=2)
    poses = np.hstack([positions, turns.as_quat()])
    turned = to_world(poses, "y")
    np.testing.assert_allclose(turned[:, :3], TO_Z_UP.apply(positions), atol=1e-12)
    apart = Rotation.from_quat(turned[:, 3:]).inv() * (TO_Z_UP * turns * TO_Z_UP.inv())
    assert apart.magnitude().max() < 1e-12
    np.testing.assert_array_equal(to_stream(turned, "y"), poses)
    assert to_world(poses, "z") is poses
    np.testing.assert_allclose(to_world(np.eye(7)[1:2], "y"), np.eye(7)[2:3])


def test_matrices_become_quaternions_and_mirrored_ones_none() -> None:
    half_turns = Rotation.from_rotvec(np.pi * np.eye(3))
    turns = Rotation.concatenate([Rotation.random(200, random_state=3), half_turns, Rotation.identity(1)])
    matrices = turns.as_matrix()
    found = quaternions_of(matrices)
    assert (Rotation.from_quat(found).inv() * turns).magnitude().max() < 1e-7
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0)
    wrong = np.array([np.diag([1, 1, -1.0]), np.zeros((3, 3)), np.full((3, 3), np.nan), 1e200 * np.eye(3)])
    assert np.isnan(quaternions_of(wrong)).all()


@settings(max_examples=30)
@given(arrays(np.float64, (3, 7)))
def test_poses_that_cannot_be_are_known_whatever_numbers_come(any_poses: np.ndarray) -> None:
    assert plausible(any_poses, 1e5).shape == (3,)
    positions = np.array([[0, 0, 0.0], [np.nan, 0, 0], [80, 0, 61], [0, 0, 0], [0, 0, 0]])
    quaternions = np.array([[0, 0, 0, 1.0]] * 3 + [[0, 0, 0, 0.0], [np.inf, 0, 0, 1]])
    assert plausible(np.hstack([positions, quaternions]), 100.0).tolist() == [True, False, False, False, False]


@settings(max_examples=50)
@given(st.text())
def test_every_name_becomes_one_that_a_topic_can_have(name: str) -> None:
    assert parsed_names([f"anything={topic_name(name)}"])


def test_names_are_chosen_or_made() -> None:
    assert parsed_names(["Rigid Body=1=link_1", "base"]) == {"Rigid Body=1": "link_1", "base": "base"}
    for bad in (["a=b c"], ["a=_b"], ["a=b__c"], ["=b"], ["a=x", "b=x"], ["a=x", "a=y"]):
        with pytest.raises(ValueError, match="allowed"):
            parsed_names(bad)
    assert chosen_names({"b": "two"}, ["a", "b"]) == {"b": "two"}
    assert chosen_names({}, ["a b", "a_b", "1", "", "a b"]) == {"a b": "a_b", "a_b": "a_b_2", "1": "body_1", "": "body"}
    assert len(chosen_names({}, [str(number) for number in range(2 * MOST_BODIES)])) == MOST_BODIES


@pytest.mark.parametrize(
    "system",
    [(OptitrackConfiguration, NatNetServerConfiguration), (ViconConfiguration, ViconEmulatorConfiguration)],
)
def test_the_shipped_parameters_are_the_defaults(system: tuple[type[Any], type[Any]]) -> None:
    name = system[0].__name__.removesuffix("Configuration").lower()
    shipped = yaml.safe_load(resource(f"config/{name}.yaml").read_text())
    for node, kind in zip((name, f"{name}_emulator"), system, strict=True):
        values = shipped[f"/**/{node}"]["ros__parameters"]
        assert load(kind, values) == kind()
        # ROS 2 reads no empty list from a file.
        assert set(values) == {row.name for row in describe(kind)} - {"bodies"}


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"server": "motive-pc"}, "server: 'motive-pc', allowed: IPv4 address"),
        ({"server": "192.168.1.5"}, "interface: 127.0.0.1 does not lead to 192.168.1.5"),
        ({"multicast_group": "10.0.0.1"}, "multicast_group: 10.0.0.1, allowed: a multicast address"),
        ({"bodies": ["a=b c"]}, "bodies: 'a=b c', allowed: STREAM_NAME=topic_name"),
        ({"up_axis": "x"}, "up_axis"),
        ({"server": "239.1.1.1"}, "allowed: no multicast address"),
    ],
)
def test_faulty_parameters_are_refused(values: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(fault)):
        load(OptitrackConfiguration, values)
