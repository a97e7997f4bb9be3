"""Scenario `hardware`: with nothing drawn the ideal model; forces that balance; draws that belong to a seed."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from onboard_estimation.base.series import Recording
from salp_estimation.model import chain_kernels
from salp_estimation.model.configuration import ChainConfiguration
from salp_estimation.model.gaits import GAITS
from salp_estimation.simulation import hardware_simulator
from salp_estimation.simulation.hardware_scenario import HardwareScenario, hardware_scenario
from salp_estimation.simulation.hardware_simulator import HardwareRobot, HardwareSimulation

Array = NDArray[np.float64]
CHAIN = ChainConfiguration()
STEP_NS = 2_500_000


def quiet() -> HardwareScenario:
    """No friction, harness, lag, delay, spread or noise of any kind."""
    words = (
        "friction_",
        "spread",
        "unevenness_n",
        "stiffness",
        "stddev",
        "delay",
        "walk",
        "vibration_rad",
        "lost",
        "latency",
    )

    def silenced(part: Any) -> Any:
        names = (one.name for one in fields(part))
        return replace(part, **{name: 0.0 for name in names if any(word in name for word in words)})

    whole = hardware_scenario()
    parts = ("floor", "harness", "actuator", "gyro", "capture")
    quieter = replace(whole, rest_s=0.0, **{name: silenced(getattr(whole, name)) for name in parts})
    gyro = replace(quieter.gyro, accelerometer_noise_m_s2=0.0)
    return replace(quieter, actuator=replace(quieter.actuator, lag_s=1e-9), gyro=gyro)


def simulation(seed: int, scenario: HardwareScenario | None = None, gait: str = "forward") -> HardwareSimulation:
    return HardwareSimulation(CHAIN, GAITS[gait].controls, np.random.default_rng(seed), scenario)


def states(recording: Recording) -> tuple[Array, Array]:
    """Times (K,), s, and states (K, N + 2) of the chain from the motion capture."""
    poses = np.stack([one.values for one in recording.truth], axis=1)
    headings = 2.0 * np.arctan2(poses[..., 5], poses[..., 6])
    links = np.concatenate([poses[..., :2], headings[..., None]], axis=-1)
    return recording.truth[0].stamps_ns / 1e9, CHAIN.build().state_from_links(links)


def gyros(recording: Recording) -> list[Array]:
    return [one.values[:, 2] for one in recording.sensors[1:]]


def test_with_nothing_drawn_it_is_the_ideal_model() -> None:
    """Constant rim speeds; the first of the simulator's steps is on the way to them, half of it counts."""
    controls = np.array([0.05, -0.03, 0.02])
    run = HardwareSimulation(
        CHAIN, lambda time_s: np.tile(controls, (len(time_s), 1)), np.random.default_rng(1), quiet()
    )
    recording = run.advance(3_000_000_000)
    time_s, found = states(recording)
    chain = CHAIN.build()
    start = found[:1]
    for k in range(24, len(time_s), 60):
        expected = chain.propagate(start, controls, float(time_s[k]) - 0.5e-9 * STEP_NS, 0.01)[0]
        np.testing.assert_allclose(found[k], expected, atol=2e-6)
    gyro = gyros(recording)
    for k in range(20, 600, 57):
        at = chain.propagate(start, controls, 0.005 * k - 0.5e-9 * STEP_NS, 0.01)[0, 3:]
        expected_rates = chain.gyro_rates(at, controls)
        np.testing.assert_allclose([one[k] for one in gyro], expected_rates, atol=2e-6)


@pytest.mark.parametrize("n", [2, 6])
def test_the_forces_balance(n: int) -> None:
    """Written out again: drag, thrust, friction and torque of the rates that the kernel finds add up to nothing."""
    rng = np.random.default_rng(n)
    drag = np.column_stack([rng.uniform(40.0, 80.0, n), rng.uniform(20.0, 90.0, n), rng.uniform(0.2, 0.8, n)])
    links = np.zeros((n, chain_kernels.COLUMNS))
    links[:, chain_kernels.LENGTH] = 0.27
    links[:, chain_kernels.WHEEL_ANGLE] = rng.uniform(-np.pi, np.pi, n)
    jacobians = chain_kernels.wheel_jacobians(links, rng.uniform(-0.8, 0.8, n - 1), np.zeros(n))[0]
    push = np.column_stack([rng.normal(scale=3.0, size=(n, 2)), rng.normal(scale=0.01, size=n)])
    friction = np.column_stack([rng.uniform(0.2, 0.8, (n, 2)), rng.uniform(0.005, 0.02, n)])
    slip, joint_drag, joint_friction = np.array([0.003, 0.003, 0.03]), np.full(n - 1, 0.012), np.full(n - 1, 0.01)
    torque = rng.normal(scale=0.05, size=n - 1)
    links[:-1, chain_kernels.JOINT_DRAG] = joint_drag
    none = np.zeros(n), joint_friction, np.zeros(n - 1), np.zeros(n - 1)
    robot = hardware_simulator.Mechanics(links, drag, friction, slip, 0.02, *none)
    starts = np.zeros(n + 2), rng.normal(size=n + 2)
    found = [hardware_simulator.balance(robot, jacobians, start, push, torque) for start in starts]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6, atol=1e-8)
    twists = np.einsum("iac,c->ia", jacobians, found[0])
    forces = drag * twists + friction * np.tanh(twists / slip) - push
    total = np.einsum("iac,ia->c", jacobians, forces)
    total[3:] += joint_drag * found[0][3:] + joint_friction * np.tanh(found[0][3:] / 0.02) - torque
    assert np.abs(total).max() < 1e-6 * np.abs(push).max()


def test_what_belongs_to_a_seed_is_drawn_anew_and_spreads_as_the_scenario_says() -> None:
    scenario = hardware_scenario()
    robots = [HardwareRobot(CHAIN, scenario, np.random.default_rng(seed)) for seed in range(300)]
    names = "drag friction thrust delay_s stiffness rest_angles gyro_bias gyro_scale gyro_tilt marker_heading latency_s"
    for name in names.split():
        drawn = np.array([getattr(one, name, getattr(one.mechanics, name, None)) for one in robots])
        drawn = drawn.reshape(len(robots), -1)
        drawn = drawn[:, drawn.any(axis=0)]  # off the diagonal of the drag is nothing
        # A few are cut off at the same value: one in eighty.
        assert all(len(np.unique(column)) > 0.95 * len(robots) for column in drawn.T), name
    bias = np.array([one.gyro_bias for one in robots])
    # Cut off at 2.5 standard deviations; 2700 draws: the third of a per cent that is cut hardly shows.
    assert bias.std() == pytest.approx(scenario.gyro.bias_stddev_rad_s, rel=0.05)
    assert np.abs(bias).max() <= 2.5 * scenario.gyro.bias_stddev_rad_s
    assert abs(bias.mean()) < 4.0 * bias.std() / np.sqrt(bias.size)
    friction = np.array([one.mechanics.friction[:, 0] for one in robots])
    assert friction.mean() == pytest.approx(scenario.floor.friction_along_n, rel=0.02)
    assert friction.std() / friction.mean() == pytest.approx(scenario.floor.friction_spread, rel=0.1)
    assert friction.min() > 0.0


def test_advanced_in_pieces_it_runs_on() -> None:
    """Without noise pieces give what one run gives: state, lag, delay and phases are carried over."""
    noisy = hardware_scenario()
    scenario = replace(
        quiet(),
        rest_s=0.5,
        floor=replace(noisy.floor, unevenness_n=0.0, unevenness_n_m=0.0),
        harness=noisy.harness,
        actuator=noisy.actuator,
        gyro=replace(quiet().gyro, vibration_rad_s=noisy.gyro.vibration_rad_s),
        capture=replace(quiet().capture, latency_s=0.02),
    )
    whole = simulation(5, scenario).advance(4_000_000_000)
    run = simulation(5, scenario)
    pieces = [run.advance(stop) for stop in (1_000_000_000, 1_750_000_000, 4_000_000_000)]
    for number, one in enumerate((*whole.sensors, *whole.truth)):
        parts = [(*piece.sensors, *piece.truth)[number] for piece in pieces]
        np.testing.assert_array_equal(one.stamps_ns, np.concatenate([part.stamps_ns for part in parts]))
        values = np.concatenate([part.values for part in parts])
        # Vibration is summed up step by step from the piece's first sample: a step of phase at each start.
        tolerance = 0.02 if one.channel.sensor.startswith("imu") else 1e-9
        np.testing.assert_allclose(values, one.values, atol=tolerance)
