"""Compiled jointed navigation against an integration by SciPy, differences of the kernels, and NumPy's products."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

from thruster_chain_estimation.estimators import inertial_kernels as kernels
from thruster_chain_estimation.model import inertial_layout as layout

Array = NDArray[np.float64]

COUNT = 3
JOINTS, CHAIN = layout.LINK * COUNT, layout.chain_part(COUNT)
LINKS = layout.LINK * np.arange(COUNT)
TICK_S = 0.01
Given = Array | None


def own_of(state: Array, link: int) -> Array:
    """A link's part of the state."""
    return state[layout.LINK * link : layout.LINK * (link + 1)]


class Chain(NamedTuple):
    """A chain that moves: readings of its IMUs over a tick, its geometry, and a state with errors of all kinds."""

    readings: tuple[Array, ...]
    half: Array
    place: Array
    state: Array

    @classmethod
    def drawn(cls, seed: int) -> Chain:
        rng = np.random.default_rng(seed)
        stamps = np.arange(-0.005, 0.02, 0.005)
        readings = tuple(
            np.column_stack([stamps, rng.normal(0.0, 3.0, len(stamps)), rng.normal(0.0, 5.0, (len(stamps), 2))])
            for _ in range(COUNT)
        )
        state = rng.normal(0.0, 0.01, CHAIN + layout.CHAIN)
        state[LINKS + layout.HEADING] = rng.uniform(-np.pi, np.pi, COUNT)
        state[JOINTS:CHAIN] = rng.normal(0.0, 0.3, CHAIN - JOINTS)
        state[CHAIN:] = rng.normal(0.0, 0.5, layout.CHAIN)
        return cls(readings, rng.uniform(0.1, 0.2, COUNT), rng.uniform(-0.03, 0.03, (COUNT, 2)), state)

    def moved(self, state: Array) -> tuple[Array, Array]:
        """What `integrate` says of all links over a tick, (N, 7) and (N, 5, 7), without the variances of sampling."""
        moved, by = np.empty((COUNT, kernels.MOVED)), np.empty((COUNT, 5, layout.LINK))
        for link, readings in enumerate(self.readings):
            kernels.integrate(own_of(state, link), readings, 0.0, TICK_S, moved[link], by[link])
        moved[:, kernels.TURN_VARIANCE :] = 0.0
        return moved, by

    def predicted(
        self, state: Array, covariance: Given = None, noise: Given = None, push: Given = None, lasted: Given = None
    ) -> tuple[Array, Array]:
        """State and covariance after a tick; `push` (N, 5) is added to what the links did."""
        state = state.copy()
        covariance = np.zeros((len(state), len(state))) if covariance is None else covariance.copy()
        moved, by = self.moved(state)
        lasted_s = np.full(COUNT, TICK_S) if lasted is None else lasted
        did = kernels.Did(moved if push is None else moved + push, by, lasted_s, np.zeros(COUNT))
        noise = np.zeros(4) if noise is None else noise
        kernels.predict(state, covariance, kernels.Chain(self.half, self.place), did, noise)
        return state, covariance

    def gaps(self, state: Array) -> tuple[Array, Array]:
        """Residual and Jacobian of the pins, by clocks that say what the chain's own do."""
        residual, jacobian = np.empty(2 * COUNT - 2), np.empty((2 * COUNT - 2, len(state)))
        chain, labels = kernels.Chain(self.half, self.place), self.state[LINKS + layout.CLOCK].copy()
        kernels.expect_pins(state, np.array([1.0, -2.0, 3.0]), chain, labels, residual, jacobian)
        return residual, jacobian


def differences(function: Callable[[Array], Array], at: Array, step: float = 1e-5) -> Array:
    """Jacobian by central differences."""
    columns = [(function(at + step * e) - function(at - step * e)) / (2.0 * step) for e in np.eye(len(at))]
    return np.stack(columns, axis=-1)


def test_a_given_motion_is_integrated_as_scipy_does_it() -> None:
    """A smooth motion of an IMU with bias, scales and mounting, read at 1 kHz, against its equations of motion."""
    rate_bias, gyro_scale, bias, mounting = 0.02, 0.01, np.array([0.1, -0.2]), 0.03
    scale, apart = -0.008, 0.003  # along the link less, across it more
    start = 0.7

    def rate(t: Array | float) -> Array:
        return 2.0 * np.sin(3.0 * np.asarray(t) + 0.3)

    def force(t: Array | float) -> Array:
        return np.stack([4.0 * np.cos(5.0 * np.asarray(t)), 3.0 * np.sin(4.0 * np.asarray(t) + 1.0)], axis=-1)

    stamps, gain = np.arange(-0.001, 0.6, 0.001), 1.0 - np.array([scale + apart, scale - apart])
    raw = np.column_stack([stamps, rate(stamps) / (1.0 - gyro_scale) + rate_bias, force(stamps) / gain + bias])
    state = np.zeros(2 * layout.LINK)
    parts = layout.HEADING, layout.GYRO_BIAS, layout.GYRO_SCALE, layout.MOUNTING
    state[layout.LINK + np.array(parts)] = start, rate_bias, gyro_scale, mounting
    state[[layout.LINK + layout.ACCELEROMETER_SCALE, layout.LINK + layout.SCALE_APART]] = scale, apart
    state[[layout.LINK + layout.BIAS_X, layout.LINK + layout.BIAS_Y]] = bias

    def derivative(t: float, motion: Array) -> Array:
        c, s = np.cos(start + motion[0] + mounting), np.sin(start + motion[0] + mounting)
        return np.concatenate([[rate(t)], np.array([[c, -s], [s, c]]) @ force(t), motion[1:3]])

    for end_s in (0.0104, 0.2033, 0.5):  # between readings too
        expected = solve_ivp(derivative, (0.0002, end_s), np.zeros(5), rtol=1e-10, atol=1e-12).y[:, -1]
        moved, by = np.empty(kernels.MOVED), np.empty((5, layout.LINK))
        reached = kernels.integrate(own_of(state, 1), raw, 0.0002, end_s, moved, by)
        assert reached == pytest.approx(end_s, abs=1e-12)
        np.testing.assert_allclose(moved[:5], expected, rtol=0.0, atol=4e-6 * np.abs(expected).max())
    assert kernels.integrate(own_of(state, 1), raw, 0.0, 2.0, moved, by) == pytest.approx(stamps[-1])


def test_a_force_that_sets_in_between_readings_is_as_uncertain_as_it_is() -> None:
    """Anywhere within 10 ms: the velocity that a straight line gives errs by what is stated, in the mean."""
    at_s, after = np.arange(-0.02, 0.03, 0.01), 3.0
    errors, stated = [], []
    for onset_s in np.linspace(0.0, 0.01, 101)[:-1] + 5e-5:
        readings = np.zeros((len(at_s), 4))
        readings[:, 0], readings[:, 2] = at_s, np.where(at_s > onset_s, after, 0.0)
        moved, by = np.empty(kernels.MOVED), np.empty((5, layout.LINK))
        kernels.integrate(np.zeros(layout.LINK), readings, 0.0, 0.01, moved, by)
        errors.append(moved[1] - after * (0.01 - onset_s))
        stated.append(moved[kernels.VELOCITY_VARIANCE])
    # One variance for both axes: of a force along one of them it states the half.
    assert np.mean(np.square(errors)) == pytest.approx(2.0 * np.mean(stated), rel=0.01)


@pytest.mark.slow
def test_covariance_is_predicted_by_the_derivatives_of_the_state() -> None:
    """Of everything: F P F^T with F by central differences, gravity and the turned lever arms of errors included."""
    chain, rng = Chain.drawn(2), np.random.default_rng(2)
    n = len(chain.state)
    root = rng.normal(size=(n, n))
    covariance = root @ root.T
    lasted = TICK_S + np.array([2e-3, -1e-3, 3e-3])  # each on its own clock, while clocks are being found
    numeric = differences(lambda state: chain.predicted(state, lasted=lasted)[0], chain.state)
    _, predicted = chain.predicted(chain.state, covariance, lasted=lasted)
    np.testing.assert_allclose(
        predicted, numeric @ covariance @ numeric.T, rtol=0.0, atol=1e-7 * np.abs(predicted).max()
    )
    np.testing.assert_array_equal(predicted, predicted.T)


@pytest.mark.slow
def test_noise_goes_where_a_push_of_an_imu_goes() -> None:
    """White noise of a tick: a turn of each link, and a velocity whose half comes over the tick as way."""
    chain = Chain.drawn(3)
    noise = np.array([4e-6, 9e-6, 1e-8, 2e-8])
    before, expected = chain.predicted(chain.state)[0], np.zeros((len(chain.state),) * 2)
    for link in range(COUNT):
        for part, density in ((0, noise[0]), (1, noise[1]), (2, noise[1])):
            push = np.zeros((COUNT, kernels.MOVED))
            push[link, part] = 1e-6
            if part:
                push[link, part + 2] = 0.5 * TICK_S * 1e-6
            gain = (chain.predicted(chain.state, push=push)[0] - before) / 1e-6
            expected += TICK_S * density * np.outer(gain, gain)
        own = layout.LINK * link
        expected[own + layout.GYRO_BIAS, own + layout.GYRO_BIAS] += TICK_S * noise[2]
        for part in (layout.BIAS_X, layout.BIAS_Y):
            expected[own + part, own + part] += TICK_S * noise[3]
        expected[own + layout.CLOCK, own + layout.CLOCK] += TICK_S * 9e-10  # 30 us in a second's root
    _, covariance = chain.predicted(chain.state, noise=noise)
    np.testing.assert_allclose(covariance, expected, rtol=0.0, atol=1e-5 * noise[1] * TICK_S)


def test_derivatives_of_the_gaps() -> None:
    """Where clocks are as the labels have them; what else there is of a late pin is of second order."""
    chain = Chain.drawn(4)
    residual, jacobian = chain.gaps(chain.state)
    np.testing.assert_allclose(residual, -chain.state[JOINTS:CHAIN].reshape(-1, 4)[:, 2:].ravel())
    numeric = differences(lambda state: -chain.gaps(state)[0], chain.state)
    np.testing.assert_allclose(jacobian, numeric, rtol=0.0, atol=1e-9)


def turned(state: Array, by_rad: float) -> Array:
    """The same chain after a turn of the whole room."""
    out, c, s = state.copy(), np.cos(by_rad), np.sin(by_rad)
    out[LINKS + layout.HEADING] += by_rad
    out[JOINTS:] = (state[JOINTS:].reshape(-1, 2) @ np.array([[c, s], [-s, c]])).ravel()
    return out


def scaled(chain: Chain, state: Array, by: float) -> Array:
    """The same readings, of a chain that is larger, and of accelerometers that read too little."""
    out = state.copy()
    out[LINKS + layout.ACCELEROMETER_SCALE] = 1.0 - (1.0 + by) * (1.0 - state[LINKS + layout.ACCELEROMETER_SCALE])
    out[LINKS + layout.SCALE_APART] *= 1.0 + by
    for axis, part in enumerate((layout.PLACE_X, layout.PLACE_Y)):
        out[LINKS + part] += by * (chain.place[:, axis] + state[LINKS + part])
    out[LINKS + layout.HALF_LENGTH] += by * (chain.half + state[LINKS + layout.HALF_LENGTH])
    out[JOINTS:] *= 1.0 + by
    return out


def test_turn_and_scale_stay_unobserved_by_a_correction() -> None:
    """The information about them is the same before and after, in the directions that they have before and after."""
    chain, rng = Chain.drawn(6), np.random.default_rng(6)
    n = len(chain.state)
    change = rng.normal(0.0, 0.02, n)
    change[LINKS + layout.ACCELEROMETER_SCALE] = 0.0  # its own direction is minus one, to first order

    def directions(state: Array) -> Array:
        step = 1e-6
        turn = (turned(state, step) - turned(state, -step)) / (2.0 * step)
        scale = (scaled(chain, state, step) - scaled(chain, state, -step)) / (2.0 * step)
        return np.column_stack([turn, scale])

    state = chain.state.copy()
    state[LINKS + layout.ACCELEROMETER_SCALE] = 0.0
    before, after = directions(state), directions(state + change)
    # Nothing is known of them, and the rest of the state quite well.
    covariance = 1e-4 * np.eye(n) + 10.0 * before @ before.T
    carried = kernels.keep_unobservable(covariance, change, COUNT)
    np.testing.assert_allclose(carried, carried.T, rtol=0.0, atol=1e-12)

    def information(covariance: Array, along: Array) -> Array:
        return np.diag(along.T @ np.linalg.solve(covariance, along))

    np.testing.assert_allclose(information(carried, after), information(covariance, before), rtol=1e-5)
    assert (information(covariance, after) > 10.0 * information(covariance, before)).all()
