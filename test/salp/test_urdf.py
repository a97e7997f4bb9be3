"""The chain's URDF: plain XML by the format's rules, and its frames where the model has the links."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from evaluation_samples import command, refusal
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from salp_estimation.model.configuration import ChainConfiguration, SalpConfiguration
from salp_estimation.robot import ROBOT

Poses = dict[str, NDArray[np.float64]]

FOUR = ChainConfiguration(
    link_names=("head", "a", "b", "tail"),
    link_lengths_m=(0.3, 0.2, 0.25, 0.1),
    wheel_signs=(1.0,) * 4,
    wheel_x_m=(0.01, 0.0, -0.02, 0.0),
    wheel_y_m=(0.0, 0.01, 0.0, -0.01),
    wheel_angles_deg=(10.0, -60.0, 90.0, 180.0),
    wheel_drag_xx=(50.0,) * 4,
    wheel_drag_yy=(40.0,) * 4,
    wheel_drag_tt=(0.5,) * 4,
    joint_drag=(0.01, 0.02, 0.03),
    joint_lower_deg=(-90.0, -20.0, -120.0),
    joint_upper_deg=(90.0, 100.0, 30.0),
)


def numbers(element: ElementTree.Element, name: str) -> NDArray[np.float64]:
    return np.array([float(word) for word in element.attrib[name].split()])


def matrix(origin: ElementTree.Element) -> NDArray[np.float64]:
    out = np.eye(4)
    out[:3, :3] = Rotation.from_euler("xyz", numbers(origin, "rpy")).as_matrix()
    out[:3, 3] = numbers(origin, "xyz")
    return out


def forward(urdf: ElementTree.Element, angles: dict[str, float]) -> Poses:
    """Every link's matrix in the root, by URDF's rules alone."""
    joints = {joint.find("child").attrib["link"]: joint for joint in urdf.findall("joint")}  # type: ignore[union-attr]
    names = [link.attrib["name"] for link in urdf.findall("link")]

    def pose(name: str) -> NDArray[np.float64]:
        if name not in joints:
            return np.eye(4)
        joint = joints[name]
        parent, origin, axis = joint.find("parent"), joint.find("origin"), joint.find("axis")
        assert parent is not None
        assert origin is not None
        turn = np.eye(4)
        if joint.attrib["type"] == "revolute":
            assert axis is not None
            turn[:3, :3] = Rotation.from_rotvec(numbers(axis, "xyz") * angles[joint.attrib["name"]]).as_matrix()
        return pose(parent.attrib["link"]) @ matrix(origin) @ turn

    return {name: pose(name) for name in names}


@pytest.mark.parametrize("chain", [ChainConfiguration(), FOUR])
def test_links_are_where_the_model_has_them(chain: ChainConfiguration) -> None:
    rng = np.random.default_rng(1)
    urdf = ElementTree.fromstring(ROBOT.urdf(SalpConfiguration(chain=chain)))
    joints = len(chain.link_names) - 1
    for _ in range(5):
        state = np.concatenate([[0.0, 0.0, 0.0], rng.uniform(-2.0, 2.0, joints)])
        links = chain.build().link_poses(state)[0]
        poses = forward(urdf, {f"alpha_{j + 1}": state[3 + j] for j in range(joints)})
        cosine, sine = np.cos(links[0, 2]), np.sin(links[0, 2])
        for name, (x, y, heading) in zip(chain.link_names, links, strict=True):
            dx, dy = x - links[0, 0], y - links[0, 1]
            place = [cosine * dx + sine * dy, cosine * dy - sine * dx, 0.0]
            np.testing.assert_allclose(poses[name][:3, 3], place, atol=1e-9)
            turn = Rotation.from_matrix(poses[name][:3, :3]).as_rotvec()
            off = turn - [0.0, 0.0, heading - links[0, 2]]
            np.testing.assert_allclose(np.cos(off), 1.0, atol=1e-12)


def test_the_file_in_config_is_up_to_date(repository: Path) -> None:
    text = (repository / "config" / "salp.urdf").read_text(encoding="utf-8")
    assert text == ROBOT.urdf(SalpConfiguration()), "onboard-estimation urdf salp > config/salp.urdf"


def test_the_command_prints_and_writes_it(tmp_path: Path) -> None:
    assert command("urdf", "salp").out == ROBOT.urdf(SalpConfiguration())
    file = tmp_path / "long.urdf"
    changed = command("urdf", "salp", "--set", "chain.link_lengths_m=[0.3, 0.3, 0.3]", "--output", file)
    assert changed.code == 0, changed.error
    origin = ElementTree.parse(file).find("joint[@name='alpha_1']/origin")
    assert origin is not None
    np.testing.assert_allclose(numbers(origin, "xyz"), [0.15, 0.0, 0.0])
    assert "exists already" in refusal("urdf", "salp", "--output", file)
    assert "no URDF" in refusal("urdf", "strapdown")
