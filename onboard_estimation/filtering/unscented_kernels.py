"""Compiled moments of the unscented filter: one kernel for what follows a motion, one for what follows a measurement.

Sigma points and root of the covariance are kept in one array `state` (3n + 1, a): first the 2n + 1 points, the mean and
then mean plus and minus sqrt(n) times each column of the root; below them the root itself, in n columns. The caller
brings the arrays for the results, because NumPy makes an array in a third of the time that numba takes to hand one out.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from onboard_estimation.filtering import manifold_kernels as manifold
from onboard_estimation.filtering.manifold_kernels import Layout, Rows, Whole
from onboard_estimation.filtering.square_root import divide_by_square, normalised_square, triangularise_into

MISFIT = -1.0


@njit(cache=True)
def draw(layout: Layout, state: Rows) -> None:
    """Into `state` the sigma points of its mean (row 0) and root."""
    n = (state.shape[0] - 1) // 3
    spread, root = np.sqrt(n), 2 * n + 1
    c, t, same, first = np.int64(0), np.int64(0), np.int64(0), np.int64(1)
    for block in range(layout.shape[0]):
        kind, size = layout[block, 0], layout[block, 1]
        manifold.plus_block(state, same, state, spread, kind, size, c, root + t, state, first, n)
        manifold.plus_block(state, same, state, -spread, kind, size, c, root + t, state, first + n, n)
        c += 4 if kind == manifold.SO3 else size
        t += size


@njit(cache=True)
def inflate(layout: Layout, state: Rows, factor: float) -> None:
    """In place, so many times the covariance."""
    n = (state.shape[0] - 1) // 3
    for i in range(2 * n + 1, state.shape[0]):
        for j in range(n):
            state[i, j] *= np.sqrt(factor)
    draw(layout, state)


@njit(cache=True)
def _factor(columns: Rows, points: int, lower: Rows, first: Whole) -> None:
    """Into the rows of `lower` from `first` on the root of the sum of squares of `columns` (n, .), which are used up.

    So many of them are deviations of sigma points, to be weighted; the others are noise.
    """
    share = np.sqrt(1.0 / points)
    for i in range(columns.shape[0]):
        for k in range(points):
            columns[i, k] *= share
    triangularise_into(columns, lower, first)


@njit(cache=True)
def predict_moments(moved: Rows, noise_root: Rows, layout: Layout, state: Rows) -> bool:
    """Into `state` the predicted state from the moved sigma points (2n + 1, a), with noise (n, q).

    False, and nothing done, where the shapes do not fit; asking here costs a tenth of what it costs in Python.
    """
    n = (state.shape[0] - 1) // 3
    if moved.shape != (2 * n + 1, state.shape[1]) or noise_root.shape[0] != n:
        return False
    columns = np.empty((n, 2 * n + noise_root.shape[1]))
    manifold.centred(moved, layout, state, columns)
    for i in range(n):
        for j in range(noise_root.shape[1]):
            columns[i, 2 * n + j] = noise_root[i, j]
    _factor(columns, 2 * n, state, 2 * n + 1)
    draw(layout, state)
    return True


@njit(cache=True)
def _cross(state: Rows, deviations: Rows, cross: Rows) -> None:
    """Into `cross` (m, n) the covariance of what deviates (m, 2n), rows, and the state, columns.

    The state's deviations are plus and minus sqrt(n) times the columns of the root, whose upper part is zero.
    """
    n = cross.shape[1]
    share = 0.5 / n * np.sqrt(n)
    for i in range(cross.shape[0]):
        for j in range(n):
            total = 0.0
            for k in range(j + 1):
                total += state[2 * n + 1 + j, k] * (deviations[i, k] - deviations[i, n + k])
            cross[i, j] = share * total


@njit(cache=True)
def _corrected_columns(before: Rows, gain: Rows, deviations: Rows, noise_root: Rows) -> Rows:
    """(n, 2n + m) whose squares sum up to the corrected covariance: X - K Y of the points, K R^1/2."""
    (m, n), count = gain.shape, deviations.shape[1]
    columns, spread = np.empty((n, count + m)), np.sqrt(n)
    for j in range(n):
        for k in range(count + m):
            columns[j, k] = 0.0
        for k in range(j + 1):
            columns[j, k] = spread * before[2 * n + 1 + j, k]
            columns[j, n + k] = -columns[j, k]
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
    n, m = (before.shape[0] - 1) // 3, innovation.shape[0]
    coordinates = manifold.coordinate_count(measured_layout)
    if predicted.shape != (2 * n + 1, coordinates) or measured.shape[0] != coordinates or noise_root.shape != (m, m):
        return MISFIT
    deviations, centre = np.empty((m, 2 * n)), np.empty((1, predicted.shape[1]))
    manifold.centred(predicted, measured_layout, centre, deviations)
    manifold.minus_into(measured.reshape(1, -1), centre, measured_layout, innovation.reshape(-1, 1))
    columns = np.empty((m, 2 * n + m))
    for i in range(m):
        for k in range(2 * n):
            columns[i, k] = deviations[i, k]
        for j in range(m):
            columns[i, 2 * n + j] = noise_root[i, j]
    _factor(columns, 2 * n, innovation_root, np.int64(0))
    nis = normalised_square(innovation_root, innovation)
    if not nis <= threshold:
        return nis
    gain, step = np.empty((m, n)), np.empty((n, 1))
    _cross(before, deviations, gain)
    divide_by_square(innovation_root, gain)
    for j in range(n):
        step[j, 0] = 0.0
        for i in range(m):
            step[j, 0] += gain[i, j] * innovation[i]
    columns = _corrected_columns(before, gain, deviations, noise_root)
    if manifold.is_curved(layout):
        manifold.apply_right_jacobian(step, layout, columns)
    _factor(columns, 2 * n, state, 2 * n + 1)
    manifold.plus_into(before, step, layout, state, np.int64(1))
    draw(layout, state)
    return nis
