"""The simulator: momentum, energy and MuJoCo of its motion; what its IMUs read; what it records in pieces."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import simpson
from thruster_chains import pinned

from onboard_estimation.base.series import Recording
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration
from thruster_chain_estimation.model.dynamics import propagate, rods
from thruster_chain_estimation.robot import ROBOT
from thruster_chain_estimation.simulation import simulation_kernels as kernels
from thruster_chain_estimation.simulation.robot_build import hardware_build, hardware_scenario
from thruster_chain_estimation.simulation.simulator import laboratory_mixture, square_waves

CONFIGURATION = ThrusterChainConfiguration()
COUNT = 3


def drifting(**more: np.ndarray) -> tuple[kernels.Physics, np.ndarray]:
    """A chain with centres of mass off its links' middles, in free motion."""
    rng, none = np.random.default_rng(1), np.zeros(COUNT)
    free = {"film": none, "film_turning": none, "air": none, "slope": np.zeros(2), "friction": np.zeros(2), **more}
    physics = hardware_build(CONFIGURATION, hardware_scenario(), rng).physics._replace(**free)
    state = np.zeros(3 * COUNT + 4)
    state[:COUNT], state[COUNT : 2 * COUNT] = rng.uniform(-1.0, 1.0, COUNT), rng.uniform(-4.0, 4.0, COUNT)
    state[2 * COUNT + 2 : 2 * COUNT + 4] = 0.1, -0.2
    return physics._replace(joint=np.array([1.0, 0.0, 0.0, np.inf, 0.0, 0.0])), state


def driven(physics: kernels.Physics, state: np.ndarray, commands: np.ndarray) -> kernels.Motion:
    return kernels.drive(physics, state, commands, np.zeros((len(commands), COUNT, 2)), 0, 1e-3)


def whole(physics: kernels.Physics, state: np.ndarray) -> np.ndarray:
    """(4,) where the centre of mass is and how it moves."""
    place, velocity = np.empty((COUNT, 2)), np.empty((COUNT, 2))
    kernels.centres(physics, state, place, velocity)
    return physics.mass @ np.hstack([place, velocity]) / physics.mass.sum()


def test_free_motion_is_that_of_the_papers_equations_which_are_mujocos() -> None:
    """Of thrusters without a lag, for half a second."""
    physics, state = drifting(time_constant=np.zeros(COUNT))
    commands = np.tile([0.6, -0.5, 0.4], (500, 1))
    end, n = driven(physics, state, commands).states[-1], 2 * COUNT
    links = pinned(rods(np.zeros(COUNT), physics.angle, physics.thruster), physics.behind, physics.ahead)
    thrust = kernels.target_thrust(physics, commands[0])
    given = np.concatenate([1.0 / physics.mass, 1.0 / physics.inertia, thrust])[:, None]
    expected = np.concatenate([state[:n], whole(physics, state)])[:, None]
    propagate(links, given, expected, 0.5, 1e-3)
    np.testing.assert_allclose(np.concatenate([end[:n], whole(physics, end)]), expected[:, 0], rtol=1e-7, atol=1e-7)
    assert np.abs(end[:COUNT] - state[:COUNT]).max() > 0.3


def test_the_whole_moves_by_the_sum_of_the_thrusts() -> None:
    physics, state = drifting()
    commands = np.tile([0.6, -0.5, 0.4], (500, 1))
    motion = driven(physics, state, commands)
    direction, thrust = motion.states[:, :COUNT] + physics.angle, motion.states[:, 2 * COUNT + 4 :]
    force = np.stack([(thrust * np.cos(direction)).sum(axis=1), (thrust * np.sin(direction)).sum(axis=1)], axis=1)
    gained = whole(physics, motion.states[-1])[2:] - whole(physics, state)[2:]
    np.testing.assert_allclose(physics.mass.sum() * gained, simpson(force, dx=1e-3, axis=0), rtol=1e-6)
    # A thrust follows its command with its own lag and gain, but not one so small that it does not start.
    goal = np.where(commands[0] > 0.0, physics.gain, physics.reverse_gain) * commands[0]
    np.testing.assert_allclose(thrust[-1], goal * (1.0 - np.exp(-0.5 / physics.time_constant)), rtol=1e-6)
    np.testing.assert_array_equal(kernels.target_thrust(physics, 0.99 * physics.dead_band), 0.0)
    assert (kernels.target_thrust(physics, -1.01 * physics.dead_band) < 0.0).all()


def series(recording: Recording, topic: str) -> tuple[np.ndarray, np.ndarray]:
    (found,) = [one for one in (*recording.sensors, *recording.truth) if one.channel.topic == topic]
    return found.stamps_ns, found.values


def test_accelerometers_read_what_the_links_do() -> None:
    """The double derivative of the captured places, less gravity, in the links' frames."""
    quiet = replace(CONFIGURATION.paper, gyro_stddev_rad_s=1e-9, accelerometer_stddev_m_s2=1e-9)
    configuration = replace(CONFIGURATION, paper=quiet)
    recording = ROBOT.simulate(configuration, "thrusters", "physical", 3.0, np.random.default_rng(1))
    for name in CONFIGURATION.chain.link_names:
        _, poses = series(recording, f"ground_truth/{name}/pose")
        _, imu = series(recording, f"imu/{name}/data_raw")
        heading = np.unwrap(2.0 * np.arctan2(poses[:, 5], poses[:, 6]))
        moved = (poses[2:, :2] - 2.0 * poses[1:-1, :2] + poses[:-2, :2]) / 0.01**2
        c, s = np.cos(heading[1:-1]), np.sin(heading[1:-1])
        expected = np.column_stack([c * moved[:, 0] + s * moved[:, 1], -s * moved[:, 0] + c * moved[:, 1]])
        # Between two edges of the thrusts, where the acceleration has no steps.
        smooth = np.abs(np.diff(imu[:, 3:5], n=2, axis=0)).max(axis=1) < 0.05
        assert smooth.sum() > 100
        np.testing.assert_allclose(imu[1:-1, 3:5][smooth], expected[smooth], atol=0.05)
        np.testing.assert_allclose(imu[1:-1, 2], (heading[2:] - heading[:-2]) / 0.02, atol=0.2)
        np.testing.assert_allclose(imu[:, 5], CONFIGURATION.gravity_m_s2, atol=1e-6)


def test_the_papers_second_of_square_waves_and_the_mixture_that_rests_first() -> None:
    on = square_waves(COUNT)(np.arange(100) * 0.01)[:, 0]
    np.testing.assert_array_equal(np.flatnonzero(on), [*range(20, 30), *range(50, 60), *range(80, 90)])
    assert on.max() == 1.0
    pattern = laboratory_mixture(COUNT, 0.8, 1.5, np.random.default_rng(3), without=2)
    commands = pattern(np.arange(0.0, 40.0, 0.02))
    assert not commands[:75].any()
    assert 0.3 < np.abs(commands[:, :2]).max() <= 0.8
    assert not commands[:, 2].any()
    np.testing.assert_array_equal(pattern(np.array([7.0, 31.0])), commands[[350, 1550]])


@pytest.mark.parametrize("scenario", ["thrusters", "load"])
def test_in_pieces_it_goes_on_where_it_was(scenario: str) -> None:
    """The same robot and commands, whatever the pieces; without gaps or doubled stamps."""
    variant = ROBOT.scenarios[scenario].variants[0]
    whole, parts = (ROBOT.simulation(CONFIGURATION, scenario, variant, np.random.default_rng(5)) for _ in range(2))
    one = whole.advance(2_000_000_000)
    pieces = [parts.advance(stop) for stop in (300_000_000, 307_300_000, 1_250_000_000, 2_000_000_000)]
    for number, single in enumerate((*one.sensors, *one.truth)):
        stamps = np.concatenate([(*piece.sensors, *piece.truth)[number].stamps_ns for piece in pieces])
        assert (np.diff(stamps) > 0).all(), single.channel.topic
        if single.channel.command or single.channel.topic.endswith("parameters"):
            np.testing.assert_array_equal(stamps, single.stamps_ns)
    if scenario == "thrusters":
        for name in CONFIGURATION.chain.link_names:
            _, poses = series(one, f"ground_truth/{name}/pose")
            found = np.concatenate([series(piece, f"ground_truth/{name}/pose")[1] for piece in pieces])
            np.testing.assert_allclose(found, poses, atol=1e-12)


def test_hardware_stands_still_at_first_and_its_imus_are_not_calibrated() -> None:
    recording = ROBOT.simulate(CONFIGURATION, "hardware", "one_off", 5.0, np.random.default_rng(7))
    rest_ns = int(1e9 * hardware_scenario().rest_s)
    for name in CONFIGURATION.chain.link_names:
        stamps, poses = series(recording, f"ground_truth/{name}/pose")
        assert poses[stamps < rest_ns][:, :2].std(axis=0).max() < 3e-4
        stamps, imu = series(recording, f"imu/{name}/data_raw")
        resting = imu[stamps < rest_ns - 50_000_000].mean(axis=0)
        assert np.abs(resting[3:5]).max() > 0.01
        assert abs(resting[5] - 9.81) < 0.8
        assert 0.985 < len(stamps) / 1000 <= 1.0
    _, commands = series(recording, "thrusters/command")
    assert (np.abs(commands).max(axis=0) == 0.0).sum() == 1
