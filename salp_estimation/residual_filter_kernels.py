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

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onboard_estimation.filtering.manifold_kernels import wrap
from onboard_estimation.learning.sparse_kernels import predict_means
from salp_estimation import friction_kernels as friction

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


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
    groups: Indices,
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
    centre = friction.rates(links, state[:a].copy(), controls, slopes, parameters, slip, start, by_parameters)
    root = covariance[:a, :a].copy()
    friction._factorise(root)
    count, spread, weight = 2 * a, np.sqrt(float(a)), 0.5 / a
    moved, inputs = np.empty((count, m)), np.empty((1, a + n))
    inputs[0, a:] = controls
    for k in range(count):
        sign = 1.0 if k < a else -1.0
        for i in range(a):
            inputs[0, i] = state[i] + (sign * spread * root[i, k % a] if i >= k % a else 0.0)
        moved[k] = friction.rates(links, inputs[0, :a].copy(), controls, slopes, parameters, slip, centre, none)
        if weights.shape[0] > 0:
            residual = predict_means(inducing, inverse_length_scales, groups, weights, inputs, 0, m)
            moved[k] += residual[0]
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
def expected_rates(
    links: int, state: Array, reference: Array, mean: Array, by_angles: Array, by_parameters: Array, stddevs: Array
) -> Array:
    """Rates (m,) at a state near the one that was linearised at (`reference`)."""
    a, m, p = links - 1, links + 2, by_parameters.shape[1]
    first, noise = a + 2 * links, a + 2 * links + p
    out = np.empty(m)
    for i in range(m):
        total = mean[i] + stddevs[i] * state[noise + i]
        for j in range(a):
            total += by_angles[i, j] * (state[j] - reference[j])
        for j in range(p):
            total += by_parameters[i, j] * (state[first + j] - reference[first + j])
        out[i] = total
    return out


@njit(cache=True, error_model="numpy")
def predict(
    links: int,
    state: Array,
    covariance: Array,
    reference: Array,
    mean: Array,
    by_angles: Array,
    by_parameters: Array,
    left_over: Array,
    stddevs: Array,
    duration: float,
    correlation_times: Array,
    bias_walk: float,
    angle_noise: float,
    error_time: float,
    new_state: Array,
    new_covariance: Array,
) -> None:
    """Into `new_state` and `new_covariance` the state after a short time.

    Parameters
    ----------
    stddevs, correlation_times
        (m,) of the residual rates.
    bias_walk, angle_noise
        Densities of the random walks of biases (rad/s/sqrt(s)) and of joint angles and pose (rad or m/sqrt(s)).
    error_time
        What the linearisation leaves over stays about the same for so long, s: it counts as noise of that correlation.
    """
    a, m, p, size = links - 1, links + 2, by_parameters.shape[1], state.shape[0]
    first, noise, pose = a + 2 * links, a + 2 * links + p, size - 3
    rates = expected_rates(links, state, reference, mean, by_angles, by_parameters, stddevs)
    # Rows of the transition that are not the identity: joint angles, residual rates, pose.
    change = np.zeros((m, size))
    for i in range(m):
        for j in range(a):
            change[i, j] = duration * by_angles[i, j]
        for j in range(p):
            change[i, first + j] = duration * by_parameters[i, j]
        change[i, noise + i] = duration * stddevs[i]
    moved = change @ covariance
    turn = -duration * rates[2]
    c, s = np.cos(turn), np.sin(turn)
    # The adjoint of the inverse of the step, which carries an error before it to after it.
    half_sine = 1.0 if abs(turn) < 1e-9 else s / turn
    half_cosine = 0.5 * turn if abs(turn) < 1e-9 else (1.0 - c) / turn
    x = -duration * (half_sine * rates[0] - half_cosine * rates[1])
    y = -duration * (half_cosine * rates[0] + half_sine * rates[1])
    keep = np.exp(-duration / correlation_times)
    # Only these rows and columns change: joint angles, residual rates and pose. Their rows of transition x covariance:
    count = a + m + 3
    changed, rows = np.empty(count, dtype=np.int64), np.empty((count, size))
    for i in range(a):
        changed[i] = i
        rows[i] = covariance[i] + moved[3 + i]
    for i in range(m):
        changed[a + i] = noise + i
        rows[a + i] = keep[i] * covariance[noise + i]
    for i in range(3):
        changed[a + m + i] = pose + i
    for j in range(size):
        px, py, pt = covariance[pose, j], covariance[pose + 1, j], covariance[pose + 2, j]
        rows[a + m, j] = c * px - s * py + y * pt + moved[0, j]
        rows[a + m + 1, j] = s * px + c * py - x * pt + moved[1, j]
        rows[a + m + 2, j] = pt + moved[2, j]
    # And times the transition's transpose: of those columns only, the others stay.
    moved = rows @ change.T
    block = np.empty((count, count))
    for j in range(count):
        for i in range(a):
            block[j, i] = rows[j, i] + moved[j, 3 + i]
        for i in range(m):
            block[j, a + i] = keep[i] * rows[j, noise + i]
        px, py, pt = rows[j, pose], rows[j, pose + 1], rows[j, pose + 2]
        block[j, a + m] = c * px - s * py + y * pt + moved[j, 0]
        block[j, a + m + 1] = s * px + c * py - x * pt + moved[j, 1]
        block[j, a + m + 2] = pt + moved[j, 2]
    share = duration * max(duration, 2.0 * error_time)
    for i in range(a + 3):
        # Rows of the block and of what is left over: joint angles, then pose.
        row, rate = (i, 3 + i) if i < a else (m + i, i - a)
        for j in range(a + 3):
            column, other = (j, 3 + j) if j < a else (m + j, j - a)
            block[row, column] += share * left_over[rate, other]
        block[row, row] += angle_noise * angle_noise * duration
    for i in range(m):
        block[a + i, a + i] += 1.0 - keep[i] * keep[i]
    new_covariance[:] = covariance
    for i in range(count):
        for j in range(size):
            new_covariance[changed[i], j] = rows[i, j]
            new_covariance[j, changed[i]] = rows[i, j]
    for i in range(count):
        for j in range(count):
            new_covariance[changed[i], changed[j]] = 0.5 * (block[i, j] + block[j, i])
    for i in range(links):
        new_covariance[a + i, a + i] += bias_walk * bias_walk * duration
    new_state[:] = state
    for i in range(m):
        new_state[noise + i] *= keep[i]
    for i in range(a):
        new_state[i] = wrap(state[i] + duration * rates[3 + i])
    _move(new_state, duration * rates[0], duration * rates[1], duration * rates[2])


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
def update(
    links: int,
    link: int,
    measured: float,
    noise_variance: float,
    offset: float,
    state: Array,
    covariance: Array,
    reference: Array,
    mean: Array,
    by_angles: Array,
    by_parameters: Array,
    left_over: Array,
    stddevs: Array,
    error_share: float,
    threshold: float,
    new_state: Array,
    new_covariance: Array,
) -> tuple[float, float, float]:
    """Correct by one gyro's rate (rad/s), unless the NIS is above the threshold.

    Innovation, its variance, and the part of that which the linearisation left over, times `error_share`.

    `offset` is what the residual model adds to the measurement, `error_share` the factor on the variance of what the
    linearisation leaves over: more than one where it repeats itself.
    """
    a, m, p, size = links - 1, links + 2, by_parameters.shape[1], state.shape[0]
    first, noise = a + 2 * links, a + 2 * links + p
    rates = expected_rates(links, state, reference, mean, by_angles, by_parameters, stddevs)
    # Turning rate of the link: of the base, which has the mean heading, plus shares of the joint rates.
    mix = np.zeros(m)
    mix[2] = 1.0
    for j in range(a):
        mix[3 + j] = (1.0 if j < link else 0.0) - (links - 1.0 - j) / links
    turning = 0.0
    for i in range(2, m):
        turning += mix[i] * rates[i]
    factor = 1.0 + state[a + links + link]
    slope = np.zeros(size)
    repeated = 0.0
    for i in range(2, m):
        share = factor * mix[i]
        for j in range(a):
            slope[j] += share * by_angles[i, j]
        for j in range(p):
            slope[first + j] += share * by_parameters[i, j]
        slope[noise + i] = share * stddevs[i]
        for j in range(2, m):
            repeated += error_share * mix[i] * mix[j] * left_over[i, j]
    slope[a + link] = 1.0
    slope[a + links + link] = turning
    innovation = measured - factor * turning - state[a + link] - offset
    towards = covariance @ slope
    spread = np.dot(slope, towards) + noise_variance + repeated
    if not innovation * innovation / spread <= threshold:  # the NIS as the caller has it, to the last bit
        return innovation, spread, repeated
    correct(state, covariance, towards, innovation, spread, new_state, new_covariance)
    return innovation, spread, repeated


@njit(cache=True, error_model="numpy")
def correct(
    state: Array,
    covariance: Array,
    towards: Array,
    innovation: float,
    spread: float,
    new_state: Array,
    new_covariance: Array,
) -> None:
    """Into `new_state` and `new_covariance` the state corrected by a scalar innovation.

    Joseph's form (I - K H) P (I - K H)^T + K R K^T, multiplied out: P - K t^T - t K^T + K (H t + R) K^T with t = P H^T.
    It is symmetric to the last digit where P is, and stays the covariance of the corrected state for any gain.
    """
    size = state.shape[0]
    gain = towards / spread
    for i in range(size):
        own, along = gain[i], towards[i]
        for j in range(size):
            less = own * towards[j] + along * gain[j]
            new_covariance[i, j] = covariance[i, j] + (spread * (own * gain[j]) - less)
    new_state[:] = state
    for i in range(size - 3):
        new_state[i] += gain[i] * innovation
    _move(new_state, gain[size - 3] * innovation, gain[size - 2] * innovation, gain[size - 1] * innovation)
