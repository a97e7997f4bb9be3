"""Compiled moments of the unscented filter: one kernel for what follows a motion, one for what follows a measurement.

Sigma points and root of the covariance are kept in one array `state` (3n + 1, a): first the 2n + 1 points, the mean and
then mean plus and minus the spread times each column of the root; below them the root itself, in n columns. The caller
brings the arrays for the results, because NumPy makes an array in a third of the time that numba takes to hand one out.

The weights come as an array (2n + 4,): spread, weights in the covariance of the centre and of every other point, then
the weights in the mean of all points.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from onboard_estimation.filtering import manifold_kernels as manifold
from onboard_estimation.filtering.manifold_kernels import Layout, Rows, Whole
from onboard_estimation.filtering.square_root import downdate, triangularise_into

SPREAD, CENTRE, OUTER, MEAN = range(4)

MISFIT = -1.0


@njit(cache=True)
def draw(weights: Rows, layout: Layout, state: Rows) -> None:
    """Into `state` the sigma points of its mean (row 0) and root."""
    n = (state.shape[0] - 1) // 3
    spread, root = weights[SPREAD], 2 * n + 1
    c, t, same, first = np.int64(0), np.int64(0), np.int64(0), np.int64(1)
    for block in range(layout.shape[0]):
        kind, size = layout[block, 0], layout[block, 1]
        if kind == manifold.VECTOR:  # as `plus_block` does it, without the cost of calling
            for e in range(size):
                for k in range(n):
                    step = spread * state[root + t + e, k]
                    state[1 + k, c + e] = state[0, c + e] + step
                    state[1 + n + k, c + e] = state[0, c + e] - step
        else:
            manifold.plus_block(state, same, state, spread, kind, size, c, root + t, state, first, n)
            manifold.plus_block(state, same, state, -spread, kind, size, c, root + t, state, first + n, n)
        c += 4 if kind == manifold.SO3 else size
        t += size


@njit(cache=True)
def _factor(columns: Rows, outer_count: int, weights: Rows, lower: Rows, first: Whole) -> None:
    """Into the rows of `lower` from `first` on the root of the weighted sum of squares of `columns` (n, .).

    The columns, which are used up, are deviations: of the centre and of the outer points, to be weighted; then noise. A
    negative weight of the centre is taken off at the end; where that leaves no positive matrix, the centre's share is
    left out: a larger covariance, still safe.
    """
    n, outer = columns.shape[0], np.sqrt(weights[OUTER])
    for i in range(n):
        for k in range(1, outer_count + 1):
            columns[i, k] *= outer
    if weights[CENTRE] < 0.0:
        taken = np.sqrt(-weights[CENTRE]) * columns[:, 0]
        for i in range(n):
            columns[i, 0] = 0.0
        triangularise_into(columns, lower, first)
        reduced = lower[first : first + n, :n].copy()
        if downdate(reduced, taken):
            for i in range(n):  # a slice that is assigned takes numba seconds to compile, for the message of its error
                for j in range(n):
                    lower[first + i, j] = reduced[i, j]
    else:
        centre = np.sqrt(weights[CENTRE])
        for i in range(n):
            columns[i, 0] *= centre
        triangularise_into(columns, lower, first)


@njit(cache=True)
def predict_moments(moved: Rows, noise_root: Rows, weights: Rows, layout: Layout, state: Rows) -> bool:
    """Into `state` the predicted state from the moved sigma points (2n + 1, a), with noise (n, q).

    False, and nothing done, where the shapes do not fit; asking here costs a tenth of what it costs in Python.
    """
    n, count = (state.shape[0] - 1) // 3, moved.shape[0]
    if moved.shape != (2 * n + 1, state.shape[1]) or noise_root.shape[0] != n:
        return False
    columns = np.empty((n, count + noise_root.shape[1]))
    manifold.centred(moved, weights, MEAN, layout, state, columns)
    for i in range(n):
        for j in range(noise_root.shape[1]):
            columns[i, count + j] = noise_root[i, j]
    _factor(columns, 2 * n, weights, state, 2 * n + 1)
    draw(weights, layout, state)
    return True


@njit(cache=True)
def _cross(state: Rows, deviations: Rows, weights: Rows, cross: Rows) -> None:
    """Into `cross` (m, n) the covariance of what deviates (m, 2n + 1), rows, and the state, columns.

    The state's deviations are plus and minus the spread times the columns of the root, whose upper part is zero.
    """
    n = cross.shape[1]
    share = weights[OUTER] * weights[SPREAD]
    for i in range(cross.shape[0]):
        for j in range(n):
            total = 0.0
            for k in range(j + 1):
                total += state[2 * n + 1 + j, k] * (deviations[i, 1 + k] - deviations[i, 1 + n + k])
            cross[i, j] = share * total


@njit(cache=True)
def _innovate(measured: Rows, centre: Rows, layout: Layout, innovation: Rows) -> None:
    """Into `innovation` (m,) what was measured less the mean of what was predicted, in the first row of `centre`."""
    if layout.shape[0] == 1 and layout[0, 0] == manifold.VECTOR:  # most are: saves the call
        for i in range(innovation.shape[0]):
            innovation[i] = measured[i] - centre[0, i]
    else:
        manifold.minus_into(measured.reshape(1, -1), centre, layout, innovation.reshape(-1, 1))


@njit(cache=True)
def _squared(root: Rows, innovation: Rows) -> float:
    """Innovation^T S^-1 innovation with S = L L^T, L = `root`."""
    nis = 0.0
    whitened = np.empty(innovation.shape[0])
    for i in range(innovation.shape[0]):
        rest = innovation[i]
        for j in range(i):
            rest -= root[i, j] * whitened[j]
        whitened[i] = rest / root[i, i]
        nis += whitened[i] * whitened[i]
    return nis


@njit(cache=True)
def _gain(root: Rows, cross: Rows) -> None:
    """In place, the covariance (m, n) of innovation and state becomes K transposed, by substitution there and back."""
    m, n = cross.shape
    for i in range(m):
        inverse = 1.0 / root[i, i]
        for c in range(n):
            rest = cross[i, c]
            for j in range(i):
                rest -= root[i, j] * cross[j, c]
            cross[i, c] = rest * inverse
    for i in range(m - 1, -1, -1):
        inverse = 1.0 / root[i, i]
        for c in range(n):
            rest = cross[i, c]
            for j in range(i + 1, m):
                rest -= root[j, i] * cross[j, c]
            cross[i, c] = rest * inverse


@njit(cache=True)
def _corrected_columns(before: Rows, gain: Rows, deviations: Rows, noise_root: Rows, spread: float) -> Rows:
    """(n, 2n + 1 + m) whose squares sum up to the corrected covariance: X - K Y of centre and outer points, K R^1/2."""
    (m, n), count = gain.shape, deviations.shape[1]
    columns = np.empty((n, count + m))
    for j in range(n):
        for k in range(count + m):
            columns[j, k] = 0.0
        for k in range(j + 1):
            columns[j, 1 + k] = spread * before[2 * n + 1 + j, k]
            columns[j, 1 + n + k] = -columns[j, 1 + k]
        for k in range(count):
            for i in range(m):
                columns[j, k] -= gain[i, j] * deviations[i, k]
        for k in range(m):
            for i in range(m):
                columns[j, count + k] += gain[i, j] * noise_root[i, k]
    return columns


@njit(cache=True)
def correct_moments(
    before: Rows,
    predicted: Rows,
    measured: Rows,
    noise_root: Rows,
    weights: Rows,
    layout: Layout,
    measured_layout: Layout,
    threshold: float,
    state: Rows,
    innovation: Rows,
    innovation_root: Rows,
) -> float:
    """Into `state` the state `before` corrected by a measurement (m,), unless the NIS is above the threshold.

    Takes the predicted measurements (2n + 1, .) of its sigma points. Writes the innovation (m,) and its root (m, m) in
    any case. Returns the NIS; MISFIT, and nothing done, where the shapes do not fit.
    """
    n, m, count = (before.shape[0] - 1) // 3, innovation.shape[0], predicted.shape[0]
    coordinates = manifold.coordinate_count(measured_layout)
    if predicted.shape != (2 * n + 1, coordinates) or measured.shape[0] != coordinates or noise_root.shape != (m, m):
        return MISFIT
    deviations, centre = np.empty((m, count)), np.empty((1, predicted.shape[1]))
    manifold.centred(predicted, weights, MEAN, measured_layout, centre, deviations)
    _innovate(measured, centre, measured_layout, innovation)
    columns = np.empty((m, count + m))
    for i in range(m):
        for k in range(count):
            columns[i, k] = deviations[i, k]
        for j in range(m):
            columns[i, count + j] = noise_root[i, j]
    _factor(columns, 2 * n, weights, innovation_root, np.int64(0))
    nis = _squared(innovation_root, innovation)
    if not nis <= threshold:
        return nis
    gain, step = np.empty((m, n)), np.empty((n, 1))
    _cross(before, deviations, weights, gain)
    _gain(innovation_root, gain)
    for j in range(n):
        step[j, 0] = 0.0
        for i in range(m):
            step[j, 0] += gain[i, j] * innovation[i]
    columns = _corrected_columns(before, gain, deviations, noise_root, weights[SPREAD])
    if manifold.is_curved(layout):
        manifold.apply_right_jacobian(step, layout, columns)
    _factor(columns, 2 * n, weights, state, 2 * n + 1)
    manifold.plus_into(before, step, layout, state, np.int64(1))
    draw(weights, layout, state)
    return nis
