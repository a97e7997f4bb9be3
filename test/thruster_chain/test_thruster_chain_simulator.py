"""The simulator: momentum, energy and MuJoCo of its motion; what its IMUs read; what it records in pieces."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import simpson

from onboard_estimation.base.series import Recording
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration
from thruster_chain_estimation.robot import ROBOT
from thruster_chain_estimation.simulation import simulation_kernels as kernels
from thruster_chain_estimation.simulation.hardware_scenario import hardware_scenario
from thruster_chain_estimation.simulation.robot_build import hardware_build, papers_build
from thruster_chain_estimation.simulation.simulator import laboratory_mixture, square_waves

CONFIGURATION = ThrusterChainConfiguration()
COUNT = 3


def drifting(seed: int = 1) -> tuple[kernels.Physics, np.ndarray]:
    """A chain with centres of mass off its links' middles, in free motion."""
    rng = np.random.default_rng(seed)
    physics = hardware_build(CONFIGURATION, hardware_scenario(), rng).physics
    none = np.zeros(COUNT)
    physics = physics._replace(
        film=none,
        film_turning=none,
        air=none,
        slope=np.zeros(2),
        friction=np.zeros(2),
        joint=np.array([1.0, 0.0, 0.0, np.inf, 0.0, 0.0]),
    )
    state = np.zeros(3 * COUNT + 4)
    state[:COUNT], state[COUNT : 2 * COUNT] = rng.uniform(-1.0, 1.0, COUNT), rng.uniform(-4.0, 4.0, COUNT)
    state[2 * COUNT + 2 : 2 * COUNT + 4] = 0.1, -0.2
    return physics, state


def driven(physics: kernels.Physics, state: np.ndarray, commands: np.ndarray, held: int = 0) -> kernels.Motion:
    return kernels.drive(physics, state, commands, np.zeros((len(commands), COUNT, 2)), held, 1e-3)


def velocities(physics: kernels.Physics, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    place, velocity = np.empty((COUNT, 2)), np.empty((COUNT, 2))
    kernels.centres(physics, state, place, velocity)
    return place, velocity


def test_energy_and_momenta_are_kept_without_thrust() -> None:
    physics, state = drifting()
    motion = driven(physics, state, np.zeros((3000, COUNT)))

    def kept(state: np.ndarray) -> np.ndarray:
        place, velocity = velocities(physics, state)
        rate, mass = state[COUNT : 2 * COUNT], physics.mass[:, None]
        cross = place[:, 0] * velocity[:, 1] - place[:, 1] * velocity[:, 0]
        spin = physics.inertia @ rate + physics.mass @ cross
        energy = 0.5 * (physics.inertia @ rate**2 + (mass * velocity**2).sum())
        return np.array([energy, spin, *(mass * velocity).sum(axis=0)])

    np.testing.assert_allclose(kept(motion.states[-1]), kept(motion.states[0]), rtol=1e-9, atol=1e-10)


def test_the_whole_moves_by_the_sum_of_the_thrusts() -> None:
    physics, state = drifting()
    commands = np.tile([0.6, -0.5, 0.4], (500, 1))
    motion = driven(physics, state, commands)
    n = COUNT
    direction = motion.states[:, :n] + physics.angle
    thrust = motion.states[:, 2 * n + 4 :]
    force = np.stack([(thrust * np.cos(direction)).sum(axis=1), (thrust * np.sin(direction)).sum(axis=1)], axis=1)
    impulse = simpson(force, dx=1e-3, axis=0)
    before, after = (velocities(physics, motion.states[k])[1] for k in (0, -1))
    np.testing.assert_allclose(physics.mass @ (after - before), impulse, rtol=1e-6)
    # A thrust follows its command with its own lag and gain.
    goal = np.where(commands[0] > 0.0, physics.gain, physics.reverse_gain) * commands[0]
    np.testing.assert_allclose(thrust[-1], goal * (1.0 - np.exp(-0.5 / physics.time_constant)), rtol=1e-6)


def test_small_commands_do_not_start_a_thruster() -> None:
    physics, _ = drifting()
    np.testing.assert_array_equal(kernels.target_thrust(physics, 0.99 * physics.dead_band), 0.0)
    assert (kernels.target_thrust(physics, -1.01 * physics.dead_band) < 0.0).all()


def test_motion_is_that_of_mujoco() -> None:
    mujoco = pytest.importorskip("mujoco")
    physics = papers_build(CONFIGURATION, np.random.default_rng(2)).physics
    bodies = close = ""
    for link in range(COUNT):
        place, joint = ("0.125 0 0", _PLANE) if link == 0 else ("0.25 0 0", "")
        hinge = (
            '<joint name="h0" type="hinge" axis="0 0 1" pos="0 0 0"/>'
            if link == 0
            else (f'<joint name="h{link}" type="hinge" axis="0 0 1" pos="-0.125 0 0"/>')
        )
        bodies += (
            f'<body name="b{link}" pos="{place}">{joint}{hinge}<inertial pos="0 0 0" mass="{physics.mass[link]}" '
            f'diaginertia="{physics.inertia[link]} {physics.inertia[link]} {physics.inertia[link]}"/>'
        )
        close += "</body>"
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><option timestep="1e-4" gravity="0 0 0" integrator="RK4"/><worldbody>{bodies}{close}</worldbody>'
        "</mujoco>"
    )
    data = mujoco.MjData(model)
    commands = np.tile([1.0, -0.6, 0.8], (300, 1))
    motion = driven(physics, np.zeros(3 * COUNT + 4), commands)
    for _ in range(3000):
        mujoco.mj_kinematics(model, data)
        for link in range(COUNT):
            angle = np.arctan2(data.xmat[link + 1][3], data.xmat[link + 1][0]) + physics.angle[link]
            data.xfrc_applied[link + 1, :2] = commands[0, link] * np.array([np.cos(angle), np.sin(angle)])
        mujoco.mj_step(model, data)
    mujoco.mj_kinematics(model, data)
    headings = [np.arctan2(one[3], one[0]) for one in data.xmat[1:]]
    found = np.angle(np.exp(1j * (motion.states[-1, :COUNT] - headings)))
    # Its force is held through a step in the room's frame: first order in its step, 1e-4 s.
    np.testing.assert_allclose(found, 0.0, atol=2e-3)
    assert np.abs(motion.states[-1, :COUNT]).max() > 0.3


_PLANE = '<joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/>'


def series(recording: Recording, topic: str) -> tuple[np.ndarray, np.ndarray]:
    (found,) = [one for one in (*recording.sensors, *recording.truth) if one.channel.topic == topic]
    return found.stamps_ns, found.values


def test_accelerometers_read_what_the_links_do() -> None:
    """The double derivative of the captured places, less gravity, in the links' frames."""
    quiet = replace(CONFIGURATION.paper, gyro_stddev_rad_s=1e-9, accelerometer_stddev_m_s2=1e-9)
    recording = ROBOT.simulate(
        replace(CONFIGURATION, paper=quiet), "thrusters", "physical", 3.0, np.random.default_rng(1)
    )
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


def test_the_papers_accelerometer_reads_thrust_over_mass_along_the_rooms_axes() -> None:
    recording = ROBOT.simulate(CONFIGURATION, "thrusters", "paper", 1.0, np.random.default_rng(1))
    _, commands = series(recording, "thrusters/command")
    _, parameters = series(recording, "ground_truth/inertial_parameters")
    for link, name in enumerate(CONFIGURATION.chain.link_names):
        _, poses = series(recording, f"ground_truth/{name}/pose")
        _, imu = series(recording, f"imu/{name}/data_raw")
        direction = 2.0 * np.arctan2(poses[:, 5], poses[:, 6]) + CONFIGURATION.chain.thruster_angles[link]
        own = commands[:, link] / parameters[0, link]
        expected = np.column_stack([own * np.cos(direction), own * np.sin(direction)])
        np.testing.assert_allclose(imu[:, 3:5], expected, atol=0.06)


def test_the_papers_second_of_square_waves() -> None:
    time_s = np.arange(100) * 0.01
    on = square_waves(COUNT)(time_s)[:, 0]
    first = np.concatenate([np.arange(20, 30), np.arange(50, 60), np.arange(80, 90)])
    np.testing.assert_array_equal(np.flatnonzero(on), first)
    assert on.max() == 1.0
    assert not square_waves(COUNT, without=1)(time_s)[:, 1].any()


def test_the_mixture_rests_first_and_stays_within_the_limit() -> None:
    pattern = laboratory_mixture(COUNT, 0.8, 1.5, np.random.default_rng(3), without=2)
    commands = pattern(np.arange(0.0, 40.0, 0.02))
    assert not commands[:75].any()
    assert 0.3 < np.abs(commands[:, :2]).max() <= 0.8
    assert not commands[:, 2].any()
    np.testing.assert_array_equal(pattern(np.array([7.0, 31.0])), commands[[350, 1550]])


@pytest.mark.parametrize("scenario", ["thrusters", "load"])
def test_in_pieces_it_goes_on_where_it_was(scenario: str) -> None:
    """The same robot and commands, whatever the pieces; without gaps or doubled stamps."""
    whole = ROBOT.simulation(CONFIGURATION, scenario, ROBOT.scenarios[scenario].variants[0], np.random.default_rng(5))
    parts = ROBOT.simulation(CONFIGURATION, scenario, ROBOT.scenarios[scenario].variants[0], np.random.default_rng(5))
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


def test_the_same_seed_gives_the_same_recording_and_another_another_robot() -> None:
    one, again, other = (
        ROBOT.simulate(CONFIGURATION, "hardware", "mixed", 3.0, np.random.default_rng(seed)) for seed in (7, 7, 8)
    )
    for first, second in zip(one.sensors, again.sensors, strict=True):
        np.testing.assert_array_equal(first.values, second.values)
    assert np.abs(one.truth[-1].values - other.truth[-1].values).max() > 1e-3


def test_hardware_stands_still_at_first_and_its_imus_are_not_calibrated() -> None:
    recording = ROBOT.simulate(CONFIGURATION, "hardware", "one_off", 10.0, np.random.default_rng(7))
    rest_ns = int(1e9 * hardware_scenario().rest_s)
    for name in CONFIGURATION.chain.link_names:
        stamps, poses = series(recording, f"ground_truth/{name}/pose")
        assert poses[stamps < rest_ns][:, :2].std(axis=0).max() < 3e-4
        stamps, imu = series(recording, f"imu/{name}/data_raw")
        resting = imu[stamps < rest_ns - 50_000_000].mean(axis=0)
        assert np.abs(resting[3:5]).max() > 0.01
        assert abs(resting[5] - 9.81) < 0.8
        assert 0.985 < len(stamps) / 2000 <= 1.0
    _, commands = series(recording, "thrusters/command")
    assert (np.abs(commands).max(axis=0) == 0.0).sum() == 1
