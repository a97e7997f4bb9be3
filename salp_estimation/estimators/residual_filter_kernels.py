"""Compiled steps of the filter that learns: a chain with dry friction, residual rates and calibration states.

The state is, in this order, with N links, m = N + 2 and p parameters of `friction_kernels`:

    joint angles (N - 1) | gyro biases (N) | gyro scale errors (N) | parameters (p) | residual rates (m) | pose (3)

Given the joint angles, the rates are linear in everything else, to first order in parameters that are known to some
per cent. So only the joint angles need sigma points (Morelande & Moran, "An unscented transformation for conditionally
linear models", 2007): 2 (N - 1) of them, from which follow the rates' mean, their slope by statistical linearisation,
and what the slope leaves over. The rest is Kalman's algebra, in Joseph's form. The pose's error is a body-frame twist,
whose motion is exactly linear; residual rates are stationary first-order Markov processes of unit variance, so that
their correlation in time is part of the model and the filter may run at any rate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onboard_estimation.filtering.manifold_kernels import wrap
from onboard_estimation.learning.sparse_kernels import predict_means
from salp_estimation.model import friction_kernels as friction

Array = NDArray[np.float64]

ERROR_TIME_S = 1.0
"""What a linearisation leaves over repeats itself for about a sixth of a gait's cycle."""
LEAST = 4.0
"""So many parameters' worth is expected at least of a robot: of fewer the sum of squares says little."""


class Linearised(NamedTuple):
    """Rates near a state.

    Attributes
    ----------
    at_ns
        Where the drive of the wheels belongs to.
    reference
        (n,) the state.
    mean, stddevs
        (m,) of the rates, without residual rates, and of these.
    by_angles, by_parameters
        (m, N - 1) and (m, p) slopes.
    left_over
        (m, m) covariance of what the slopes leave over.
    offsets
        (N,) what the residual model adds to each gyro's rate.
    lasts_s
        (m,) how long residual rates last.
    """

    at_ns: int
    reference: Array
    mean: Array
    by_angles: Array
    by_parameters: Array
    left_over: Array
    stddevs: Array
    offsets: Array
    lasts_s: Array


@njit(cache=True, error_model="numpy")
def linearise(
    links: Array,
    state: Array,
    covariance: Array,
    controls: Array,
    slopes: Array,
    slip: Array,
    start: Array,
    inducing: Array,
    inverse_length_scales: Array,
    weights: Array,
) -> tuple[Array, Array, Array, Array, Array]:
    """Mean rates (m,), slopes by joint angles (m, N - 1) and parameters (m, p), what is left over (m, m), start (m,).

    Rates are those of `friction_kernels.rates` plus the means of a sparse residual model, see `sparse_kernels`, whose
    inputs are joint angles and controls; one without weights adds nothing. The last array is where the next iteration
    may start.
    """
    n = links.shape[0]
    a, m, p = n - 1, n + 2, friction.parameter_count(n)
    parameters = state[a + 2 * n : a + 2 * n + p].copy()
    by_parameters, none = np.empty((m, p)), np.empty((m, 0))
    place = friction.Place(links, state[:a].copy(), state[-1], controls, slopes, parameters, slip)
    centre = friction.rates(place, start, by_parameters)
    root = covariance[:a, :a].copy()
    friction.factorise(root)
    count, spread, weight = 2 * a, np.sqrt(float(a)), 0.5 / a
    moved, inputs = np.empty((count, m)), np.empty((1, a + n))
    for i in range(n):
        inputs[0, a + i] = controls[i]
    for k in range(count):
        sign = 1.0 if k < a else -1.0
        for i in range(a):
            inputs[0, i] = state[i] + (sign * spread * root[i, k % a] if i >= k % a else 0.0)
        place = friction.Place(links, inputs[0, :a].copy(), state[-1], controls, slopes, parameters, slip)
        here = friction.rates(place, centre, none)
        if weights.shape[0] > 0:
            residual = predict_means(inducing, inverse_length_scales, weights, inputs)
            for i in range(m):
                here[i] += residual[0, i]
        for i in range(m):
            moved[k, i] = here[i]
    mean, by_angles, left_over = np.zeros(m), np.zeros((m, a)), np.zeros((m, m))
    for k in range(count):
        mean += weight * moved[k]
    # Slope = cross-covariance times the inverse of the covariance = half differences over the spread times root^-1.
    for j in range(a):
        for i in range(m):
            by_angles[i, j] = (moved[j, i] - moved[a + j, i]) / (2.0 * spread)
    for i in range(m):
        for j in range(a - 1, -1, -1):
            for k in range(j + 1, a):
                by_angles[i, j] -= by_angles[i, k] * root[k, j]
            by_angles[i, j] /= root[j, j]
    deviation = np.empty(m)
    for k in range(count):
        sign = 1.0 if k < a else -1.0
        for i in range(m):
            deviation[i] = moved[k, i] - mean[i]
            for j in range(a):
                along = sign * spread * root[j, k % a] if j >= k % a else 0.0
                deviation[i] -= by_angles[i, j] * along
        for i in range(m):
            for j in range(m):
                left_over[i, j] += weight * deviation[i] * deviation[j]
    return mean, by_angles, by_parameters, left_over, centre


@njit(cache=True, error_model="numpy")
def expected_rates(near: Linearised, state: Array) -> Array:
    """Rates (m,) at a state near the one that was linearised at."""
    m, p = near.by_parameters.shape
    a, noise = m - 3, state.shape[0] - 3 - m
    first = noise - p
    out = np.empty(m)
    for i in range(m):
        total = near.mean[i] + near.stddevs[i] * state[noise + i]
        for j in range(a):
            total += near.by_angles[i, j] * (state[j] - near.reference[j])
        for j in range(p):
            total += near.by_parameters[i, j] * (state[first + j] - near.reference[first + j])
        out[i] = total
    return out


@njit(cache=True, error_model="numpy")
def _by_state(near: Linearised, size: int, duration: float) -> Array:
    """(m, n) how the rates, times a duration, depend on the state."""
    m, p = near.by_parameters.shape
    a, noise = m - 3, size - 3 - m
    change = np.zeros((m, size))
    for i in range(m):
        for j in range(a):
            change[i, j] = duration * near.by_angles[i, j]
        for j in range(p):
            change[i, noise - p + j] = duration * near.by_parameters[i, j]
        change[i, noise + i] = duration * near.stddevs[i]
    return change


@njit(cache=True, error_model="numpy")
def _transported(columns: Array, moved: Array, rates: Array, keep: Array, duration: float) -> Array:
    """(2 N + 4, k) rows of the transition times `columns` (n, k), all that are not those of the identity.

    Joint angles, residual rates, pose: `moved` (m, k) by the rates, and the pose's error carried along by the adjoint
    of the inverse of the step.
    """
    m, size = keep.shape[0], columns.shape[0]
    a, noise, pose = m - 3, size - 3 - m, size - 3
    turn = -duration * rates[2]
    c, s = np.cos(turn), np.sin(turn)
    half_sine = 1.0 if abs(turn) < 1e-9 else s / turn
    half_cosine = 0.5 * turn if abs(turn) < 1e-9 else (1.0 - c) / turn
    x = -duration * (half_sine * rates[0] - half_cosine * rates[1])
    y = -duration * (half_cosine * rates[0] + half_sine * rates[1])
    rows = np.empty((a + m + 3, columns.shape[1]))
    for j in range(columns.shape[1]):
        for i in range(a):
            rows[i, j] = columns[i, j] + moved[3 + i, j]
        for i in range(m):
            rows[a + i, j] = keep[i] * columns[noise + i, j]
        px, py, pt = columns[pose, j], columns[pose + 1, j], columns[pose + 2, j]
        rows[a + m, j] = c * px - s * py + y * pt + moved[0, j]
        rows[a + m + 1, j] = s * px + c * py - x * pt + moved[1, j]
        rows[a + m + 2, j] = pt + moved[2, j]
    return rows


@njit(cache=True, error_model="numpy")
def _add_noise(block: Array, left_over: Array, keep: Array, angle_noise: float, duration: float) -> None:
    """In place, to the covariance (2 N + 4, 2 N + 4) of joint angles, residual rates and pose."""
    m = keep.shape[0]
    a = m - 3
    share = duration * max(duration, 2.0 * ERROR_TIME_S)  # the left over counts as noise of that correlation
    for i in range(a + 3):
        # Rows of the block and of what is left over: joint angles, then pose.
        row, rate = (i, 3 + i) if i < a else (m + i, i - a)
        for j in range(a + 3):
            column, other = (j, 3 + j) if j < a else (m + j, j - a)
            block[row, column] += share * left_over[other, rate]
        block[row, row] += angle_noise * angle_noise * duration
    for i in range(m):
        block[a + i, a + i] += 1.0 - keep[i] * keep[i]


@njit(cache=True, error_model="numpy")
def predict(
    state: Array,
    covariance: Array,
    near: Linearised,
    duration: float,
    bias_walk: float,
    angle_noise: float,
) -> tuple[Array, Array]:
    """State and covariance after a short time.

    Parameters
    ----------
    bias_walk, angle_noise
        Densities of the random walks of biases (rad/s/sqrt(s)) and of joint angles and pose (rad or m/sqrt(s)).
    """
    m, size = near.mean.shape[0], state.shape[0]
    a, noise, pose = m - 3, size - 3 - m, size - 3
    rates, keep = expected_rates(near, state), np.exp(-duration / near.lasts_s)
    change = _by_state(near, size, duration)
    # F P F^T: only the rows and columns of joint angles, residual rates and pose change.
    rows = _transported(covariance, change @ covariance, rates, keep, duration)
    block = _transported(rows.T.copy(), (rows @ change.T).T.copy(), rates, keep, duration)
    _add_noise(block, near.left_over, keep, angle_noise, duration)
    count = block.shape[0]
    changed = np.empty(count, dtype=np.int64)
    for i in range(count):
        changed[i] = i if i < a else noise + i - a if i < a + m else pose + i - a - m
    new_state, new_covariance = state.copy(), covariance.copy()
    for i in range(count):
        for j in range(size):
            new_covariance[changed[i], j] = rows[i, j]
            new_covariance[j, changed[i]] = rows[i, j]
    for i in range(count):
        for j in range(count):
            new_covariance[changed[i], changed[j]] = 0.5 * (block[i, j] + block[j, i])
    for i in range(m - 2):
        new_covariance[a + i, a + i] += bias_walk * bias_walk * duration
    for i in range(m):
        new_state[noise + i] *= keep[i]
    for i in range(a):
        new_state[i] = wrap(state[i] + duration * rates[3 + i])
    _move(new_state, duration * rates[0], duration * rates[1], duration * rates[2])
    return new_state, new_covariance


@njit(cache=True, error_model="numpy")
def drift(state: Array, covariance: Array, first: int, population: Array, prior: Array, keep: float) -> None:
    """In place, parameters from `first` on become again, little by little, those of any robot.

    Each is a stationary first-order Markov process with the mean `population` (p,) and the covariance `prior` (p, p) of
    robots, `keep` its correlation over the step.
    """
    p, size = population.shape[0], state.shape[0]
    for i in range(p):
        row = first + i
        state[row] = population[i] + keep * (state[row] - population[i])
        for j in range(size):
            covariance[row, j] *= keep
            covariance[j, row] *= keep
    for i in range(p):
        for j in range(p):
            covariance[first + i, first + j] += (1.0 - keep * keep) * prior[i, j]


@njit(cache=True, error_model="numpy")
def _move(state: Array, forward: float, left: float, turn: float) -> None:
    """In place, the pose moved by a body-frame twist."""
    pose = state.shape[0] - 3
    sine = 1.0 if abs(turn) < 1e-9 else np.sin(turn) / turn
    cosine = 0.5 * turn if abs(turn) < 1e-9 else (1.0 - np.cos(turn)) / turn
    x, y = sine * forward - cosine * left, cosine * forward + sine * left
    c, s = np.cos(state[pose + 2]), np.sin(state[pose + 2])
    state[pose] += c * x - s * y
    state[pose + 1] += s * x + c * y
    state[pose + 2] = wrap(state[pose + 2] + turn)


@njit(cache=True, error_model="numpy")
def _link_shares(links: int, link: int) -> Array:
    """(m,) of the rates in the turning rate of a link: the base's, which has the mean heading, and joint rates."""
    mix = np.zeros(links + 2)
    mix[2] = 1.0
    for j in range(links - 1):
        mix[3 + j] = (1.0 if j < link else 0.0) - (links - 1.0 - j) / links
    return mix


@njit(cache=True, error_model="numpy")
def gyro_slope(state: Array, near: Linearised, link: int) -> Array:
    """(n,) slope of one gyro's expected rate by the state."""
    m, p = near.by_parameters.shape
    links, a, noise = m - 2, m - 3, state.shape[0] - 3 - m
    first = noise - p
    mix, rates = _link_shares(links, link), expected_rates(near, state)
    turning = 0.0
    for i in range(2, m):
        turning += mix[i] * rates[i]
    factor = 1.0 + state[a + links + link]
    slope = np.zeros(state.shape[0])
    for i in range(2, m):
        share = factor * mix[i]
        for j in range(a):
            slope[j] += share * near.by_angles[i, j]
        for j in range(p):
            slope[first + j] += share * near.by_parameters[i, j]
        slope[noise + i] = share * near.stddevs[i]
    slope[a + link] = 1.0
    slope[a + links + link] = turning
    return slope


@njit(cache=True, error_model="numpy")
def update(
    state: Array,
    covariance: Array,
    near: Linearised,
    link: int,
    measured: float,
    noise_variance: float,
    error_share: float,
    threshold: float,
) -> tuple[float, float, float, Array, Array]:
    """Correct by one gyro's rate (rad/s), unless the NIS is above the threshold.

    Joseph's form (I - K H) P (I - K H)^T + K R K^T, multiplied out: P - K t^T - t K^T + K (H t + R) K^T with t = P H^T.
    It is symmetric to the last digit where P is, and stays the covariance of the corrected state for any gain.

    Returns
    -------
    Innovation, its variance, and the part of that which the linearisation left over, times `error_share`: the factor on
    the variance of what the linearisation leaves over, more than one where it repeats itself; state and covariance.
    """
    m = near.mean.shape[0]
    links, a = m - 2, m - 3
    mix, slope = _link_shares(links, link), gyro_slope(state, near, link)
    factor, turning = 1.0 + state[a + links + link], slope[a + links + link]
    repeated = 0.0
    for i in range(2, m):
        for j in range(2, m):
            repeated += error_share * mix[i] * mix[j] * near.left_over[i, j]
    innovation = measured - factor * turning - state[a + link] - near.offsets[link]
    towards = covariance @ slope
    spread = np.dot(slope, towards) + noise_variance + repeated
    if not innovation * innovation / spread <= threshold:  # the NIS as the caller has it, to the last bit
        return innovation, spread, repeated, state, covariance
    size, gain = state.shape[0], towards / spread
    new_state, new_covariance = state.copy(), np.empty_like(covariance)
    for i in range(size):
        own, along = gain[i], towards[i]
        for j in range(size):
            less = own * towards[j] + along * gain[j]
            new_covariance[i, j] = covariance[i, j] + (spread * (own * gain[j]) - less)
    for i in range(size - 3):
        new_state[i] += gain[i] * innovation
        if i < a:
            new_state[i] = wrap(new_state[i])
    _move(new_state, gain[size - 3] * innovation, gain[size - 2] * innovation, gain[size - 1] * innovation)
    return innovation, spread, repeated, new_state, new_covariance


@njit(cache=True, error_model="numpy")
def novelty(deviations: Array, covariance: Array, prior: Array) -> float:
    """How many times as far a robot is from those in training as they are from each other, squared.

    For a robot of the population, the square of what each parameter is found to be off by is in the mean its prior
    variance less what is still unknown of it. This is the sum of the squares over the sum of these expectations, each
    parameter in its spread: 1 for a robot of the population, and for one that is k times further off k^2; 0 where a
    model knows of no differences between robots.

    A prior that is so much too narrow also says too much of the joint angles, which are found together with the
    parameters. So their published variance is multiplied by it where that is more than held-out runs asked for: it is
    what an empirical Bayes estimate of the spread asks for, were all that is not known of the joint angles due to the
    parameters.

    Parameters
    ----------
    deviations, covariance
        (p,) the parameters less those of the population, and (p, p) of them.
    prior
        (p,) their variances from robot to robot.
    """
    squares = expected = 0.0
    for i in range(prior.shape[0]):
        if prior[i] > 0.0:
            squares += deviations[i] ** 2 / prior[i]
            expected += max(1.0 - covariance[i, i] / prior[i], 0.0)
        else:
            expected += 1.0  # no difference between robots was found in few runs: that it is so counts for the robot
    return float(squares / max(expected, LEAST))
