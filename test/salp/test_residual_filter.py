"""Compiled steps of the filter that learns against plain dense algebra with numerical transitions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import expm, logm
from test_gait_design import equal_links

from salp_estimation.estimators import residual_filter_kernels as kernels
from salp_estimation.estimators.residual_model import SLIP
from salp_estimation.model import friction_kernels as friction
from salp_estimation.training.population import kinds

Array = NDArray[np.float64]
BIAS_WALK, ANGLE_NOISE, ERROR_TIME_S = 1e-3, 2e-3, 1.0


def twist_matrix(twist: Array) -> Array:
    return np.array([[0.0, -twist[2], twist[0]], [twist[2], 0.0, twist[1]], [0.0, 0.0, 0.0]])


def pose_matrix(pose: Array) -> Array:
    c, s = np.cos(pose[2]), np.sin(pose[2])
    return np.array([[c, -s, pose[0]], [s, c, pose[1]], [0.0, 0.0, 1.0]])


def moved(pose: Array, twist: Array) -> Array:
    """The pose times the exponential of a body-frame twist."""
    after = pose_matrix(pose) @ expm(twist_matrix(twist))
    return np.array([after[0, 2], after[1, 2], np.arctan2(after[1, 0], after[0, 0])])


def plus(state: Array, error: Array) -> Array:
    return np.concatenate([state[:-3] + error[:-3], moved(state[-3:], error[-3:])])


def minus(state: Array, reference: Array) -> Array:
    between = np.real(logm(np.linalg.solve(pose_matrix(reference[-3:]), pose_matrix(state[-3:]))))
    return np.concatenate([state[:-3] - reference[:-3], [between[0, 2], between[1, 2], between[1, 0]]])


@dataclass
class Case:
    """A state with its covariance, and a linearisation near it; places of the state's parts."""

    links: int
    state: Array
    covariance: Array
    reference: Array
    mean: Array
    by_angles: Array
    by_parameters: Array
    left_over: Array
    stddevs: Array
    times_s: Array

    @property
    def first(self) -> int:
        """Of the parameters."""
        return 3 * self.links - 1

    @property
    def noise(self) -> int:
        """First of the residual rates."""
        return self.first + friction.parameter_count(self.links)

    def rates(self, state: Array) -> Array:
        n = self.links
        error = state - self.reference
        out = self.mean + self.by_angles @ error[: n - 1] + self.by_parameters @ error[self.first : self.noise]
        result: Array = out + self.stddevs * state[self.noise : self.noise + n + 2]
        return result

    def linearised(self, offset: float = 0.0) -> kernels.Linearised:
        offsets = np.full(self.links, offset)
        slopes = self.by_angles, self.by_parameters
        return kernels.Linearised(
            0, self.reference, self.mean, *slopes, self.left_over, self.stddevs, offsets, self.times_s
        )


def a_case(n: int, seed: int = 0) -> Case:
    rng = np.random.default_rng(10 * n + seed)
    m, p = n + 2, friction.parameter_count(n)
    size = 3 * n - 1 + p + m + 3
    root = 0.05 * rng.normal(size=(size, size + 5)) / np.sqrt(size)
    state = 0.1 * rng.normal(size=size)
    state[-3:] = [1.0, -2.0, 2.5]
    wide, spread = rng.normal(size=(m, m)), rng.uniform(0.01, 0.1, m)
    return Case(
        n,
        state,
        root @ root.T,
        state + 0.01 * rng.normal(size=size),
        0.2 * rng.normal(size=m),
        0.3 * rng.normal(size=(m, n - 1)),
        0.1 * rng.normal(size=(m, p)),
        1e-4 * wide @ wide.T,
        spread,
        rng.uniform(0.2, 1.0, m),
    )


def predicted(case: Case, duration_s: float) -> tuple[Array, Array]:
    noise = BIAS_WALK, ANGLE_NOISE
    found: tuple[Array, Array] = kernels.predict(case.state, case.covariance, case.linearised(), duration_s, *noise)
    return found


def dense_prediction(case: Case, duration_s: float) -> tuple[Array, Array]:
    """F P F^T + Q, F by differences of the motion of the state and its error."""
    n, size = case.links, len(case.state)
    joints, biases = np.arange(n - 1), np.arange(n - 1, 2 * n - 1)
    residuals, pose = np.arange(case.noise, case.noise + n + 2), np.arange(size - 3, size)
    keep = np.exp(-duration_s / case.times_s)

    def motion(state: Array) -> Array:
        rates = case.rates(state)
        after = state.copy()
        after[joints] += duration_s * rates[3:]
        after[residuals] *= keep
        after[pose] = moved(state[pose], duration_s * rates[:3])
        return after

    after = motion(case.state)
    step = 1e-5 * np.eye(size)
    transition = np.column_stack(
        [
            (minus(motion(plus(case.state, one)), after) - minus(motion(plus(case.state, -one)), after)) / 2e-5
            for one in step
        ]
    )
    noise = np.zeros((size, size))
    moving = np.concatenate([pose, joints])  # in the order of the rates
    noise[np.ix_(moving, moving)] = (
        duration_s * 2.0 * ERROR_TIME_S * case.left_over + ANGLE_NOISE** 2 * duration_s * np.eye(n + 2)
    )
    noise[residuals, residuals] = 1.0 - keep**2
    noise[biases, biases] = BIAS_WALK**2 * duration_s
    return after, transition @ case.covariance @ transition.T + noise


@pytest.mark.parametrize("n", [2, 3])
def test_prediction_is_that_of_dense_algebra(n: int) -> None:
    case = a_case(n)
    state, covariance = predicted(case, 0.02)
    dense_state, dense = dense_prediction(case, 0.02)
    np.testing.assert_allclose(state, dense_state, rtol=1e-9, atol=1e-12)
    # The kernel takes the twist's own error to first order: an error of a few thousandths, for so short a time.
    change = np.abs(dense - case.covariance).max()
    assert np.abs(covariance - dense).max() < 2e-3 * change
    np.testing.assert_array_equal(covariance, covariance.T)
    assert np.linalg.eigvalsh(covariance)[0] > 0.0


def updated(case: Case, link: int, measured: float, threshold: float) -> tuple[float, float, Array, Array]:
    near = case.linearised(offset=0.02)
    innovation, spread, _, state, covariance = kernels.update(
        case.state, case.covariance, near, link, measured, 4e-4, 3.0, threshold
    )
    return innovation, spread, state, covariance


@pytest.mark.parametrize("n", [2, 3])
def test_correction_is_josephs_form(n: int) -> None:
    case = a_case(n, 3)
    for link in range(n):
        case.state[2 * n - 1 + link] = 0.0  # scale: the variance of what is left over is taken without it
        size = len(case.state)

        def turning(rates: Array, own: int = link) -> float:
            """Heading rate of the link: the base has their mean."""
            relative = np.concatenate([[0.0], np.cumsum(rates[3:])])
            return float(rates[2] + relative[own] - relative.mean())

        def gyro(state: Array, own: int = link) -> float:
            scale, bias = state[2 * n - 1 + own], state[n - 1 + own]
            return (1.0 + scale) * turning(case.rates(state), own) + bias + 0.02

        step = 1e-4 * np.eye(size)
        slope = np.array([(gyro(plus(case.state, one)) - gyro(plus(case.state, -one))) / 2e-4 for one in step])
        weights = np.array([turning(one) for one in np.eye(n + 2)])
        variance = 4e-4 + 3.0 * weights @ case.left_over @ weights
        measured = gyro(case.state) + 0.03
        expected_spread = slope @ case.covariance @ slope + variance
        gain = case.covariance @ slope / expected_spread
        keep = np.eye(size) - np.outer(gain, slope)
        expected = keep @ case.covariance @ keep.T + variance * np.outer(gain, gain)
        innovation, spread, state, covariance = updated(case, link, measured, 100.0)
        assert innovation == pytest.approx(0.03, rel=1e-9)
        assert spread == pytest.approx(expected_spread, rel=1e-7)
        np.testing.assert_allclose(state, plus(case.state, gain * 0.03), rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(covariance, expected, rtol=0.0, atol=1e-8 * np.abs(expected).max())
        np.testing.assert_array_equal(covariance, covariance.T)


@pytest.mark.parametrize(("n", "learned"), [(3, False), (4, True)])
def test_linearisation_is_an_unscented_regression(n: int, learned: bool) -> None:
    rng = np.random.default_rng(n)
    configuration = equal_links(n, wheel_angles_deg=tuple(rng.uniform(-150.0, -30.0, n)))
    links = configuration.build().links
    a, m, p, d = n - 1, n + 2, friction.parameter_count(n), 2 * n - 1
    state = np.zeros(3 * n - 1 + p + m + 3)
    state[:a], state[-1] = rng.uniform(-0.5, 0.5, a), 1.2
    typical = {"along": 0.4, "across": 0.5, "drag": 1.0, "stiffness": 0.2, "joint friction": 0.01, "lag": 0.03}
    state[3 * n - 1 : 3 * n - 1 + p] = [typical.get(kind, 0.003) for kind in kinds(n)]
    root = 0.1 * rng.normal(size=(a, a + 2))
    spread = root @ root.T
    covariance = np.eye(len(state))
    covariance[:a, :a] = spread
    controls, slopes = rng.uniform(-0.1, 0.1, n), rng.normal(scale=0.05, size=n)
    points = 4 if learned else 1
    inducing, scales = rng.normal(size=(d, points)), np.full(d, 1.5)
    weights = 0.02 * rng.normal(size=(m, points)) if learned else np.zeros((0, 1))

    mean, by_angles, by_parameters, left_over, start = kernels.linearise(
        links, state, covariance, controls, slopes, SLIP, np.zeros(m), inducing, scales, weights
    )

    def rates(angles: Array) -> Array:
        parameters = state[3 * n - 1 : 3 * n - 1 + p]
        none = np.empty((m, 0))
        out = friction.rates(
            friction.Place(links, angles, state[-1], controls, slopes, parameters, SLIP), np.zeros(m), none
        )
        if learned:
            apart = 1.5 * np.concatenate([angles, controls])[:, None] - inducing
            out = out + weights @ np.exp(-0.5 * (apart**2).sum(axis=0))
        return out

    columns = np.sqrt(a) * np.linalg.cholesky(spread).T
    steps = np.vstack([columns, -columns])
    values = np.array([rates(state[:a] + one) for one in steps])
    expected_mean = values.mean(axis=0)
    slope = ((values - expected_mean).T @ steps / (2 * a)) @ np.linalg.inv(spread)
    rest = values - expected_mean - steps @ slope.T
    np.testing.assert_allclose(mean, expected_mean, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(by_angles, slope, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(left_over, rest.T @ rest / (2 * a), rtol=1e-5, atol=1e-10)
    sensitivities = np.empty((m, p))
    parameters = state[3 * n - 1 : 3 * n - 1 + p].copy()
    place = friction.Place(links, state[:a].copy(), state[-1], controls, slopes, parameters, SLIP)
    centre = friction.rates(place, mean, sensitivities)
    np.testing.assert_allclose(start, centre, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(by_parameters, sensitivities, rtol=1e-5, atol=1e-8)
