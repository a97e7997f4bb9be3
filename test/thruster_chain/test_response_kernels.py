"""Response of a chain to its thrusters: the paper's equations, MuJoCo, SciPy's lags, and derivatives."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from thruster_chains import RandomChain, in_mujoco

from thruster_chain_estimation.model import parameter_layout as layout
from thruster_chain_estimation.model import response_kernels as kernels
from thruster_chain_estimation.model.dynamics import LANES, LINK

Array = NDArray[np.float64]

COUNT = 3
LIMIT_N = 1.0
SIZE = layout.chain_part(COUNT) + layout.CHAIN


class Pushed(NamedTuple):
    """A chain, and what it is given at an instant, in the order of `respond`."""

    headings: Array
    rates: Array
    velocities: Array
    thrust: Array
    bristles: Array
    design: Array
    reference: Array

    @classmethod
    def drawn(cls, seed: int) -> Pushed:
        rng = np.random.default_rng(seed)
        thrust = rng.normal(0.0, 0.3, (COUNT, 6))
        thrust[:, kernels.FORWARD], thrust[:, kernels.BACKWARD] = rng.uniform(0.1, 0.9, COUNT), 0.0
        headings, rates = rng.uniform(-np.pi, np.pi, COUNT), rng.normal(0.0, 2.0, COUNT)
        velocities = rng.normal(0.0, 0.3, (COUNT, 2))
        bristles = rng.uniform(-layout.BRISTLE_RAD, layout.BRISTLE_RAD, COUNT - 1)
        masses, inertias, halves = (rng.uniform(*one, COUNT) for one in ((0.3, 0.8), (2e-3, 5e-3), (0.1, 0.2)))
        places, angles = rng.uniform(-0.02, 0.02, (COUNT, 2)), rng.uniform(-np.pi, np.pi, COUNT)
        design = np.column_stack([masses, inertias, halves, places, angles])
        return cls(headings, rates, velocities, thrust, bristles, design, np.zeros(COUNT + 1))

    def respond(self, parameters: Array, extra: Array | None = None) -> Array:
        tried, out = np.repeat(parameters[:, None], LANES, axis=1), np.empty((COUNT + 2, LANES))
        more = np.repeat((np.zeros(3 * COUNT) if extra is None else extra)[:, None], LANES, axis=1)
        kernels.respond(given([self]), 0, tried, more, np.zeros((COUNT + 2) * LINK), out)
        assert (out == out[:, :1]).all()
        return out[:, 0]


def given(window: list[Pushed]) -> kernels.Given:
    """Of ticks with the same design."""
    return kernels.Given(*(np.stack([one[k] for one in window]) for k in range(5)), *window[0][5:], LIMIT_N)


def in_the_room(headings: Array, vectors: Array) -> Array:
    """Vectors (N, 2) of the links' frames in the room's."""
    c, s = np.cos(headings), np.sin(headings)
    return np.column_stack([c * vectors[:, 0] - s * vectors[:, 1], s * vectors[:, 0] + c * vectors[:, 1]])


def some_parameters(seed: int) -> Array:
    """All a little off."""
    rng = np.random.default_rng(seed)
    parameters = rng.normal(0.0, 0.05, SIZE)
    for link in range(COUNT):
        parameters[layout.LINK * link + layout.CENTRE_X : layout.LINK * link + layout.CENTRE_Y + 1] *= 0.2
    return parameters


def test_any_chain_is_mujoco_s() -> None:
    """Masses, inertias, centres of mass, thrust, thrusters and friction by parameters; an IMU in the first middle."""
    pytest.importorskip("mujoco")
    for seed in (1, 2):
        pushed, rng = Pushed.drawn(seed), np.random.default_rng(seed)
        parameters, friction = np.zeros(SIZE), np.array([0.0, 0.01, 0.003])
        own = parameters[: layout.LINK * COUNT].reshape(COUNT, layout.LINK)
        own[:] = 0.05 * rng.normal(size=own.shape)
        own[:, [layout.CENTRE_X, layout.CENTRE_Y, layout.THRUSTER_X, layout.THRUSTER_Y]] *= 0.2
        own[:, layout.LOG_LAG] = 0.0
        parameters[layout.LINK * COUNT + layout.VISCOUS : layout.chain_part(COUNT) : layout.JOINT] = friction[1:]
        mass, inertia = pushed.design[:, 0] * np.exp(own[:, 0]), pushed.design[:, 1] * np.exp(own[:, 1])
        centre = own[:, [layout.CENTRE_X, layout.CENTRE_Y]]
        along = np.column_stack([pushed.design[:, 2], np.zeros(COUNT)])
        angle = pushed.design[:, 5] + own[:, layout.DIRECTION]
        size = pushed.thrust[:, kernels.FORWARD] * (1.0 + own[:, layout.GAIN])
        force = size[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
        arm = pushed.design[:, 3:5] + own[:, [layout.THRUSTER_X, layout.THRUSTER_Y]] - centre
        torque = arm[:, 0] * force[:, 1] - arm[:, 1] * force[:, 0]
        moving = pushed.headings, pushed.rates, in_the_room(pushed.headings, force), torque
        chain = RandomChain(-along - centre, along - centre, mass, inertia, *moving)
        angular, _, readings = in_mujoco(chain, -centre, friction)
        found = pushed.respond(parameters)
        np.testing.assert_allclose(found[2:], angular, rtol=0.0, atol=1e-9 * np.abs(angular).max())
        np.testing.assert_allclose(found[:2], readings[0, :2], rtol=0.0, atol=1e-9 * np.abs(readings[0, :2]).max())


def test_drag_takes_energy_and_turns_a_link_as_an_integral_says() -> None:
    """Quadratic drag of a turning link, summed over strips, against a fine sum."""
    pushed = Pushed.drawn(4)._replace(rates=np.array([3.0, 0.0, 0.0]), bristles=np.zeros(COUNT - 1))
    pushed.thrust[:] = 0.0
    parameters = np.zeros(SIZE)
    parameters[layout.chain_part(COUNT) + layout.ACROSS_QUADRATIC] = 0.2
    turning, half = pushed.rates, pushed.design[:, 2]
    extra = np.zeros(3 * COUNT)
    for link in range(COUNT):
        _, vy = in_the_room(-pushed.headings[link : link + 1], pushed.velocities[link : link + 1])[0]
        arms = half[link] * np.linspace(-1.0, 1.0, 20001)
        speed = vy + turning[link] * arms
        extra[link] = -0.2 * np.mean(arms * np.abs(speed) * speed)
        extra[COUNT + 2 * link + 1] = -0.2 * np.mean(np.abs(speed) * speed)
    without = pushed.respond(np.zeros_like(parameters), extra)
    # Four strips of a kinked parabola: a few per cent at a link that turns about a point of its own.
    np.testing.assert_allclose(pushed.respond(parameters), without, rtol=0.0, atol=0.03 * np.abs(without).max())


def test_thrust_lags_as_scipy_has_it() -> None:
    """Steps forward and backward; derivatives by the log of the time constant, and in time."""
    steps = [(0.04, 0.6), (0.02, -0.8), (0.05, 0.0), (0.03, 0.3)]

    def responded(log_lag: float) -> Array:
        thrust = np.zeros((1, 6))
        for lasted_s, command in steps:
            kernels.advance_thrust(thrust, np.array([command]), np.array([0.05 * np.exp(log_lag)]), lasted_s)
        return thrust[0]

    now = np.zeros(2)
    for lasted_s, command in steps:
        asked = np.array([max(command, 0.0), min(command, 0.0)])
        found = solve_ivp(lambda _, y, asked=asked: (asked - y) / 0.05, (0.0, lasted_s), now, rtol=1e-10, atol=1e-12)
        now = found.y[:, -1]
    thrust = responded(0.0)
    np.testing.assert_allclose(thrust[: kernels.BACKWARD + 1], now, rtol=0.0, atol=1e-9)
    by_lag = (responded(1e-5) - responded(-1e-5)) / 2e-5
    np.testing.assert_allclose(thrust[kernels.FORWARD_BY_LAG : kernels.FORWARD_RATE], by_lag[:2], rtol=0.0, atol=1e-8)
    np.testing.assert_allclose(thrust[kernels.FORWARD_RATE :], (asked - now) / 0.05, rtol=0.0, atol=1e-7)


def test_expectation_and_its_derivatives_over_a_window() -> None:
    """Means over the ticks; the Jacobian against central differences of them, disturbances against `respond`."""
    window, parameters = [Pushed.drawn(seed) for seed in range(10, 15)], some_parameters(5)
    design, reference = window[0].design, np.full(COUNT + 1, 0.01)
    rows = [one._replace(design=design, reference=reference) for one in window]
    size, n = COUNT + 2, len(parameters)
    steps = np.full(n, 1e-7)
    steps[layout.chain_part(COUNT) + layout.POSITION_X] = 0.0

    def expected(parameters: Array) -> tuple[Array, Array, Array]:
        out = np.empty(size), np.empty((size, n)), np.empty((size, 3 * COUNT))
        kernels.expect(parameters, given(rows), steps, *out)
        return out

    predicted, jacobian, disturbed = expected(parameters)
    np.testing.assert_allclose(predicted, np.mean([one.respond(parameters) for one in rows], axis=0), rtol=1e-12)
    step = 1e-4
    numeric = np.stack(
        [(expected(parameters + step * e)[0] - expected(parameters - step * e)[0]) / (2.0 * step) for e in np.eye(n)],
        axis=1,
    )
    scale = np.abs(numeric).max(axis=0) + 1e-9
    np.testing.assert_allclose(jacobian / scale, numeric / scale, rtol=0.0, atol=2e-4)
    # What the motion does not depend on has no column, and all else has one.
    without = np.flatnonzero(~numeric.any(axis=0)) - layout.chain_part(COUNT)
    assert set(without) == {layout.POSITION_X, layout.POSITION_Y}
    middle, extra = rows[2], np.random.default_rng(0).normal(size=3 * COUNT)
    np.testing.assert_allclose(
        middle.respond(parameters, extra), middle.respond(parameters) + disturbed @ extra, rtol=1e-8
    )
