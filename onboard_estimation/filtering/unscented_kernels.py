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
from onboard_estimation.filtering.manifold_kernels import Layout, Rows
from onboard_estimation.filtering.square_root import downdate, triangularise_into

SPREAD, CENTRE, OUTER, MEAN = range(4)


@njit(cache=True)
def draw(weights: Rows, layout: Layout, state: Rows) -> None:
    """Into `state` the sigma points of its mean (row 0) and root."""
    n = (state.shape[0] - 1) // 3
    steps = np.empty((2 * n, n))
    for column in range(n):
        for i in range(n):
            step = weights[SPREAD] * state[2 * n + 1 + i, column]
            steps[column, i] = step
            steps[n + column, i] = -step
    manifold.plus_into(state[:1], steps, layout, state[1 : 2 * n + 1])


@njit(cache=True)
def _factor(columns: Rows, centre: Rows, weights: Rows, lower: Rows) -> None:
    """Into `lower` the root of C C^T + w d d^T: columns C (n, m) are outer points and noise, d (n,) is the centre.

    `columns` is used up; its first column is the centre's to fill. A negative weight w is taken off at the end; where
    that leaves no positive matrix, the centre's share is left out: a larger covariance, still safe.
    """
    n = centre.shape[0]
    share = np.sqrt(max(weights[CENTRE], 0.0))
    for i in range(n):
        columns[i, 0] = share * centre[i]
    triangularise_into(columns, lower)
    if weights[CENTRE] < 0.0:
        reduced = lower[:n, :n].copy()
        if downdate(reduced, np.sqrt(-weights[CENTRE]) * centre):
            lower[:n, :n] = reduced


@njit(cache=True)
def _weighted(deviations: Rows, noise_root: Rows, weights: Rows) -> Rows:
    """(n, k + m) columns for `_factor` of deviations (k, n) and noise (n, m)."""
    k, n = deviations.shape
    columns = np.empty((n, k + noise_root.shape[1]))
    outer = np.sqrt(weights[OUTER])
    for i in range(n):
        for row in range(1, k):
            columns[i, row] = outer * deviations[row, i]
        for j in range(noise_root.shape[1]):
            columns[i, k + j] = noise_root[i, j]
    return columns


@njit(cache=True)
def predict_moments(moved: Rows, noise_root: Rows, weights: Rows, layout: Layout, state: Rows) -> None:
    """Into `state` the predicted state from the moved sigma points (2n + 1, a), with noise (n, q)."""
    n = noise_root.shape[0]
    deviations = np.empty((moved.shape[0], n))
    manifold.centred(moved, weights[MEAN:], layout, state[:1], deviations)
    _factor(_weighted(deviations, noise_root, weights), deviations[0], weights, state[2 * n + 1 :])
    draw(weights, layout, state)


@njit(cache=True)
def cross_covariance(before: Rows, moved: Rows, weights: Rows, layout: Layout) -> Rows:
    """(n, n) covariance of the errors of `state` before (rows) and of its moved sigma points (columns)."""
    n = (before.shape[0] - 1) // 3
    deviations, cross = np.empty((2 * n + 1, n)), np.empty((n, n))
    manifold.centred(moved, weights[MEAN:], layout, np.empty((1, moved.shape[1])), deviations)
    _cross(before, deviations, weights, cross)
    return cross.T.copy()


@njit(cache=True)
def _cross(state: Rows, deviations: Rows, weights: Rows, cross: Rows) -> None:
    """Into `cross` (m, n) the covariance of what deviates (2n + 1, m), rows, and the state, columns.

    The state's deviations are plus and minus the spread times the columns of the root, whose upper part is zero.
    """
    n = cross.shape[1]
    share = weights[OUTER] * weights[SPREAD]
    for i in range(cross.shape[0]):
        for j in range(n):
            total = 0.0
            for column in range(j + 1):
                total += state[2 * n + 1 + j, column] * (deviations[1 + column, i] - deviations[1 + n + column, i])
            cross[i, j] = share * total


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
    any case. Returns the NIS.
    """
    n, m = (before.shape[0] - 1) // 3, noise_root.shape[0]
    deviations, centre = np.empty((2 * n + 1, m)), np.empty((1, predicted.shape[1]))
    manifold.centred(predicted, weights[MEAN:], measured_layout, centre, deviations)
    seen = manifold.minus(measured.reshape(1, -1), centre, measured_layout, m)
    _factor(_weighted(deviations, noise_root, weights), deviations[0], weights, innovation_root)
    nis = 0.0
    for i in range(m):
        innovation[i] = seen[0, i]
        whitened = seen[0, i]
        for j in range(i):
            whitened -= innovation_root[i, j] * seen[0, j]
        seen[0, i] = whitened / innovation_root[i, i]
        nis += seen[0, i] * seen[0, i]
    if not nis <= threshold:
        return nis

    # K transposed (m, n): forward and backward substitution.
    gain = np.empty((m, n))
    _cross(before, deviations, weights, gain)
    for i in range(m):
        for c in range(n):
            for j in range(i):
                gain[i, c] -= innovation_root[i, j] * gain[j, c]
            gain[i, c] /= innovation_root[i, i]
    for i in range(m - 1, -1, -1):
        for c in range(n):
            for j in range(i + 1, m):
                gain[i, c] -= innovation_root[j, i] * gain[j, c]
            gain[i, c] /= innovation_root[i, i]

    # Columns of the corrected root: sqrt(w) (X - K Y) of the outer points, of the centre, and K R^1/2.
    columns = np.empty((n, 2 * n + 1 + m))
    step, middle = np.zeros((1, n)), np.zeros(n)
    outer = np.sqrt(weights[OUTER])
    for j in range(n):
        for column in range(n):
            spread = weights[SPREAD] * before[2 * n + 1 + j, column]
            up, down = spread, -spread
            for i in range(m):
                up -= gain[i, j] * deviations[1 + column, i]
                down -= gain[i, j] * deviations[1 + n + column, i]
            columns[j, 1 + column], columns[j, 1 + n + column] = outer * up, outer * down
        for column in range(m):
            total = 0.0
            for i in range(m):
                total += gain[i, j] * noise_root[i, column]
            columns[j, 2 * n + 1 + column] = total
        for i in range(m):
            step[0, j] += gain[i, j] * innovation[i]
            middle[j] -= gain[i, j] * deviations[0, i]
    if manifold.is_curved(layout):
        manifold.apply_right_jacobian(step[0], layout, columns)
        manifold.apply_right_jacobian(step[0], layout, middle.reshape(-1, 1))
    _factor(columns, middle, weights, state[2 * n + 1 :])
    manifold.plus_into(before[:1], step, layout, state[:1])
    draw(weights, layout, state)
    return nis
