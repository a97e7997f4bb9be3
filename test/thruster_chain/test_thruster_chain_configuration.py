"""Configuration and state of a thruster chain: what is refused with which numbers, and where its links are."""

from __future__ import annotations

import numpy as np
import pytest

from onboard_estimation.base.configuration import ConfigurationError, load
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.installed import resource
from thruster_chain_estimation.model.configuration import PER_LINK, ThrusterChainConfiguration
from thruster_chain_estimation.model.space import centre_of_mass, link_positions, link_velocities, outline
from thruster_chain_estimation.robot import ROBOT


def test_the_file_is_the_papers_robot() -> None:
    configuration = load(ThrusterChainConfiguration, resource("config/thruster_chain.yaml"))
    assert configuration == ThrusterChainConfiguration()
    chain = configuration.chain
    np.testing.assert_allclose(chain.thruster_angles, [np.pi / 4, 2 * np.pi / 3, -np.pi / 2])
    # The rod's inertia about its centre, with the half-length l: m l^2 / 3.
    np.testing.assert_allclose(chain.inertias, chain.masses * 0.125**2 / 3.0, rtol=2e-3)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"masses_kg": [0.5, 0.5]}, "chain: masses_kg: 2 values given, 3 links need 3"),
        ({"masses_kg": [0.5, -0.5, 0.5]}, "chain.masses_kg: [0.5, -0.5, 0.5]"),
        ({"link_names": ["a", "b", "a"]}, "names must differ, got a, b, a"),
        ({"link_names": ["a"]}, "1 links given, a chain has 2 to 200"),
        ({"imu_x_m": [26.0, 0.0, 0.0]}, "imu_x_m: 26 m from the middle of link_1, which is 0.25 m long"),
        ({"headings_rad": [0.1, 0.2], "given": True}, "initial.headings_rad: 2 values given, 3 links need 3"),
    ],
)
def test_impossible_robots_are_refused_with_their_numbers(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(ThrusterChainConfiguration, {"chain": changes} if "given" not in changes else {"initial": changes})
    assert any(words in fault for fault in caught.value.faults), caught.value.faults


def test_a_chain_too_long_for_robust_is_refused_before_it_is_filtered() -> None:
    count = 120
    lists = {name: [getattr(ThrusterChainConfiguration().chain, name)[0]] * count for name in PER_LINK}
    chain = {**lists, "link_names": [f"link_{link}" for link in range(count)]}
    long = load(ThrusterChainConfiguration, {"chain": chain, "initial": {"headings_rad": [0.0] * count}})
    with pytest.raises(UserError, match=r"120 links each second .* 35 s of a processor; take --estimator gyros"):
        ROBOT.estimator(long, "robust")
    ROBOT.estimator(long, "gyros")


def test_a_thruster_along_its_link_is_said_with_what_it_hides() -> None:
    chain = load(ThrusterChainConfiguration, {"chain": {"thruster_angles_rad": [0.8, 3.14159265, -1.5]}}).chain
    (sentence,) = chain.unobservable()
    assert "the thruster of link_2" in sentence
    assert "the inertia of link_2 becomes unobservable" in sentence
    assert not ThrusterChainConfiguration().chain.unobservable()


def test_links_by_the_papers_matrices() -> None:
    """Equations (2), (3), (14) to (16), as printed, of a chain of unequal links."""
    rng = np.random.default_rng(1)
    count = 5
    lengths, masses = rng.uniform(0.1, 0.4, count), rng.uniform(0.2, 1.0, count)
    headings, rates = rng.uniform(-3.0, 3.0, count), rng.normal(size=count)
    position, velocity = rng.normal(size=2), rng.normal(size=2)
    a = np.eye(count - 1, count) + np.eye(count - 1, count, k=1)
    d = np.eye(count - 1, count) - np.eye(count - 1, count, k=1)
    t = np.vstack([d, masses / masses.sum()])
    along = a @ np.diag(lengths / 2.0)
    x = np.linalg.solve(t, np.append(-along @ np.cos(headings), position[0]))
    y = np.linalg.solve(t, np.append(-along @ np.sin(headings), position[1]))
    vx = np.linalg.solve(t, np.append(along @ (np.sin(headings) * rates), velocity[0]))
    vy = np.linalg.solve(t, np.append(-along @ (np.cos(headings) * rates), velocity[1]))
    found = link_positions(lengths, headings[None], masses, position[None])
    np.testing.assert_allclose(found[0], np.column_stack([x, y]), atol=1e-13)
    moving = link_velocities(lengths, headings[None], rates[None], masses, velocity[None])
    np.testing.assert_allclose(moving[0], np.column_stack([vx, vy]), atol=1e-13)
    np.testing.assert_allclose(centre_of_mass(found, masses)[0], position, atol=1e-13)


def test_the_outline_goes_through_the_joints() -> None:
    chain = ThrusterChainConfiguration().chain
    headings = np.array([[0.0, np.pi / 2, 0.0]])
    line = outline(chain, headings, chain.masses, np.zeros((1, 2)))[0]
    np.testing.assert_allclose(np.diff(line, axis=0), [[0.25, 0.0], [0.0, 0.25], [0.25, 0.0]], atol=1e-12)
