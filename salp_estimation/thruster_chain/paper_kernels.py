"""One step of the paper's filter, compiled: all links of a chain predicted together, and corrected by their IMUs.

The state has the parameters first, because they stay what they are while the chain moves: their block of the root of
the covariance is a factor of its own, and only the points of their own columns have masses and inertias of their own.
In full it is

    log of the masses (N), log of the inertias (N), headings (N), turning rates (N), and, where the chain's place is
    dead-reckoned, x and y of its centre of mass, and of that one's velocity (4);

a filter holds some rows of it. Logarithms keep masses and inertias positive whatever a correction does.

The correction is iterated where the readings bend within the state's uncertainty, as when a thruster is first heard of
with a mass and a heading that are hardly known: the readings' model is linearised anew, statistically, by the sigma
points of the corrected state (Garcia-Fernandez, Svensson, Morelande, Sarkka, "Posterior linearization filter", 2015).
Without that, the first pulse leaves the filter far too sure of itself (NEES 50 instead of 12).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from onboard_estimation.filtering.large_unscented import (
    Array,
    Indices,
    add_square,
    deviations,
    draw,
    lower_root,
    mirror,
    solve_lower,
    times_transposed_root,
)
from salp_estimation.thruster_chain.batches import propagate, read_imus

MOST_ITERATIONS = 6
BENT = 0.1
"""Share of a reading's own variance that bending may add to it before a correction is iterated."""
_CONVERGED = 0.01  # square of a step in standard deviations


@njit(cache=True, error_model="numpy")
def scratch_size(full: int, twice: int, n: int) -> int:
    """Length of the scratch for a full state of so many rows, twice the number of links, and n estimated rows.

    A hundred links need 7 MB, which to ask of the system at each step takes a fifth of the step.
    """
    columns = 2 * n + 1
    return (full + twice + 3 * twice // 2) * columns + 2 * (twice + 4) * n


@njit(cache=True, error_model="numpy")
def predict(
    links: Array,
    gravity: Array,
    pivoted: bool,
    rows: Indices,
    nominal: Array,
    mean: Array,
    covariance: Array,
    noise: Array,
    largest: Array,
    thrust: Array,
    duration: float,
    longest_step: float,
    spread: float,
    excess: float,
    scratch: Array,
) -> tuple[Array, Array]:
    """Mean (n,) and covariance (n, n) after `duration` seconds.

    Parameters
    ----------
    links, gravity, pivoted
        Of the `ChainModel`.
    rows
        (n,) rows of the full state that the filter has, ascending: parameters may be missing, motion may not.
    nominal
        (4N,) or (4N + 4,) full state; its other rows are held at these values.
    noise, largest
        (n,) variance that the process noise adds in a second, and the variance beyond which it adds no more.
    thrust
        (N,) N, constant over the time.
    longest_step
        Longest integration step, s.
    spread, excess
        Of the sigma points, see `large_unscented`.
    scratch
        Room for them, see `scratch_size`; what is in it does not matter.
    """
    n, twice = mean.shape[0], 2 * links.shape[0]
    fixed = np.searchsorted(rows, twice)
    root = lower_root(covariance)
    points, reciprocal, _, odds, evens = _room(scratch, nominal.shape[0], twice, n)
    _points(twice, rows, nominal, mean, root, spread, points, reciprocal)
    propagate(links, gravity, pivoted, reciprocal, points[twice:], thrust, duration, longest_step)

    moving = n - fixed
    odd, even, shift = odds[:moving], evens[:moving], np.empty(moving)
    deviations(points, rows[fixed:], n, spread, odd, even, shift)
    moved, out, block = mean.copy(), covariance.copy(), np.zeros((moving, moving))
    if fixed > 0:
        columns, parameters = np.ascontiguousarray(odd[:, :fixed]), np.ascontiguousarray(root[:fixed, :fixed])
        out[fixed:, :fixed] = np.dot(columns, parameters.T)
    add_square(1.0, odd, block)
    add_square(1.0, even, block)
    for i in range(moving):
        moved[fixed + i] = points[rows[fixed + i], 0] + shift[i]
        for j in range(i + 1):
            out[fixed + i, fixed + j] = block[i, j] + excess * shift[i] * shift[j]
    for j in range(n):
        out[j, j] += max(0.0, min(noise[j] * duration, largest[j] - out[j, j]))
    mirror(out)
    return moved, out


@njit(cache=True, error_model="numpy")
def update(
    physical: bool,
    links: Array,
    gravity: Array,
    pivoted: bool,
    rows: Indices,
    nominal: Array,
    mean: Array,
    covariance: Array,
    thrust: Array,
    spread: float,
    excess: float,
    heard: Indices,
    measured: Array,
    variances: Array,
    thresholds: Array,
    bent: float,
    scratch: Array,
    innovations: Array,
    roots: Array,
    nis: Array,
) -> tuple[Array, Array]:
    """Mean (n,) and covariance (n, n) corrected by readings of one instant; for the first arguments see `predict`.

    Parameters
    ----------
    physical
        Which model of an IMU.
    heard, measured, variances
        (k,) links; (k, 3) what their IMUs read; (3,) white noise.
    thresholds
        (2,) A link's accelerations are left out where its three readings have a NIS above the first; its turning rate
        as well where that alone has one above the second.
    bent
        The correction is iterated where bending adds more than this share of a reading's variance; infinite: never.
    innovations, roots, nis
        (k, 3), (k, 3, 3) and (k, 2), filled with what each link's readings were against the prediction; NIS of all
        three, and of the turning rate alone.
    """
    prior_mean, prior = mean, covariance
    at, spreading = mean, covariance
    pushed = turning = np.arange(heard.shape[0])
    gated = iterated = False
    iteration = 0
    while turning.shape[0] > 0:
        n, accelerations = mean.shape[0], 2 * pushed.shape[0]
        size = accelerations + turning.shape[0]
        root = lower_root(spreading)
        predicted, odd, bending = _see(
            physical, links, gravity, pivoted, rows, nominal, at, root, thrust, spread, excess, heard[pushed], scratch
        )
        gyros = np.searchsorted(rows, 3 * links.shape[0] + heard[turning])
        total, right = np.zeros((size, size)), np.empty((size, n + 1))
        _expect(iteration == 0, root, prior, odd, bending, gyros, total, right[:, :n])
        if iteration > 0:  # a linear model from points elsewhere
            predicted += np.dot(_slope(root, odd), prior_mean - at)
        bends = False
        for i in range(accelerations):
            right[i, n] = measured[pushed[i // 2], i % 2] - predicted[i]
            bends = bends or bending[i, i] > bent * variances[i % 2]
            total[i, i] += variances[i % 2]
        for i in range(turning.shape[0]):
            right[accelerations + i, n] = measured[turning[i], 2] - prior_mean[gyros[i]]
            total[accelerations + i, accelerations + i] += variances[2]
        mirror(total)
        if not gated:
            gated = True
            _judge(total, right[:, n], turning.shape[0], innovations, roots, nis)
            pushed = np.flatnonzero(nis[:, 0] <= thresholds[0])
            turning = np.flatnonzero((nis[:, 0] <= thresholds[0]) | (nis[:, 1] <= thresholds[1]))
            if pushed.shape[0] < heard.shape[0]:
                continue
        whitened = lower_root(total)
        solve_lower(whitened, right)
        gain = np.ascontiguousarray(right[:, :n].T)
        mean, covariance = prior_mean + np.dot(gain, np.ascontiguousarray(right[:, n])), prior.copy()
        add_square(-1.0, gain, covariance)
        mirror(covariance)
        iteration += 1
        if iteration == 1:
            iterated = bends
        if not iterated or iteration >= MOST_ITERATIONS:
            break
        largest = 0.0
        for j in range(n):
            largest = max(largest, (mean[j] - at[j]) ** 2 / covariance[j, j])
        if iteration > 1 and largest < _CONVERGED:
            break
        at, spreading = mean, covariance
    return mean, covariance


@njit(cache=True, error_model="numpy")
def _room(scratch: Array, full: int, twice: int, n: int) -> tuple[Array, Array, Array, Array, Array]:
    """Sigma points, reciprocals, readings, and two arrays for half differences and sums, out of the scratch."""
    columns, readings, rows = 2 * n + 1, 3 * twice // 2, twice + 4
    ends = np.cumsum(np.array([full * columns, twice * columns, readings * columns, rows * n, rows * n]))
    return (
        scratch[: ends[0]].reshape((full, columns)),
        scratch[ends[0] : ends[1]].reshape((twice, columns)),
        scratch[ends[1] : ends[2]].reshape((readings, columns)),
        scratch[ends[2] : ends[3]].reshape((rows, n)),
        scratch[ends[3] : ends[4]].reshape((rows, n)),
    )


@njit(cache=True, error_model="numpy")
def _points(
    twice: int,
    rows: Indices,
    nominal: Array,
    mean: Array,
    root: Array,
    spread: float,
    points: Array,
    reciprocal: Array,
) -> None:
    """Sigma points of the full state, and one by their masses and inertias."""
    n = mean.shape[0]
    following = 0
    for row in range(nominal.shape[0]):
        j = following if following < n and rows[following] == row else -1
        if j < 0:
            points[row] = nominal[row]
        else:
            following += 1
        if row < twice:
            centre, out = np.exp(-(nominal[row] if j < 0 else mean[j])), reciprocal[row]
            out[:] = centre
            for k in range(j + 1):  # the root has nothing to the right of its diagonal
                factor = np.exp(-spread * root[j, k])
                out[1 + k], out[1 + n + k] = centre * factor, centre / factor
    draw(mean, root, spread, rows, points)


@njit(cache=True, error_model="numpy")
def _see(
    physical: bool,
    links: Array,
    gravity: Array,
    pivoted: bool,
    rows: Indices,
    nominal: Array,
    mean: Array,
    root: Array,
    thrust: Array,
    spread: float,
    excess: float,
    heard: Indices,
    scratch: Array,
) -> tuple[Array, Array, Array]:
    """Predicted accelerations (2k,), the a_k / s (2k, n) of their points, and what bending adds to their covariance."""
    n, count, twice = mean.shape[0], heard.shape[0], 2 * links.shape[0]
    points, reciprocal, readings, odds, evens = _room(scratch, nominal.shape[0], twice, n)
    _points(twice, rows, nominal, mean, root, spread, points, reciprocal)
    read_imus(physical, links, gravity, pivoted, reciprocal, points[twice:], thrust, readings)
    order = np.empty(2 * count, np.int64)
    for i in range(2 * count):
        order[i] = 3 * heard[i // 2] + i % 2
    odd, even, shift = odds[: 2 * count], evens[: 2 * count], np.empty(2 * count)
    deviations(readings, order, n, spread, odd, even, shift)
    bending, predicted = np.zeros((2 * count, 2 * count)), shift
    add_square(1.0, even, bending)
    for i in range(2 * count):
        for j in range(i + 1):
            bending[i, j] += excess * shift[i] * shift[j]
    for i in range(2 * count):
        predicted[i] += readings[order[i], 0]
    mirror(bending)
    return predicted, odd, bending


@njit(cache=True, error_model="numpy")
def _expect(
    is_first: bool,
    root: Array,
    prior: Array,
    odd: Array,
    bending: Array,
    gyros: Indices,
    total: Array,
    cross: Array,
) -> None:
    """Into `total` (3k, 3k), its lower half, and `cross` (3k, n) covariances of the readings, and with the state.

    Turning rates are part of the state, at its places `gyros` (k,): theirs are read off the state's covariance.
    """
    accelerations = odd.shape[0]
    if is_first:
        times_transposed_root(odd, root, cross[:accelerations])
        add_square(1.0, odd, total)
    else:
        slope = _slope(root, odd)
        products = np.dot(slope, prior)
        cross[:accelerations] = products
        total[:accelerations, :accelerations] = np.dot(products, slope.T)
    total[:accelerations, :accelerations] += bending
    for i in range(gyros.shape[0]):
        row = total[accelerations + i]
        cross[accelerations + i] = prior[gyros[i]]
        for j in range(accelerations):
            row[j] = cross[j, gyros[i]]
        for j in range(i + 1):
            row[accelerations + j] = prior[gyros[i], gyros[j]]


@njit(cache=True, error_model="numpy")
def _slope(root: Array, odd: Array) -> Array:
    """A (m, n) with A L = odd: the statistical linearisation's slope."""
    return np.ascontiguousarray(np.linalg.solve(root.T, odd.T).T)


@njit(cache=True, error_model="numpy")
def _judge(total: Array, innovation: Array, count: int, innovations: Array, roots: Array, nis: Array) -> None:
    """Innovation of each link, its root and its NIS, from those of all."""
    own, right = np.empty((3, 3)), np.empty((3, 1))
    for link in range(count):
        places = (2 * link, 2 * link + 1, 2 * count + link)
        for i in range(3):
            innovations[link, i] = right[i, 0] = innovation[places[i]]
            for j in range(3):
                own[i, j] = total[max(places[i], places[j]), min(places[i], places[j])]
        roots[link] = lower_root(own)
        solve_lower(roots[link], right)
        nis[link, 0] = right[0, 0] ** 2 + right[1, 0] ** 2 + right[2, 0] ** 2
        nis[link, 1] = innovations[link, 2] ** 2 / own[2, 2]
