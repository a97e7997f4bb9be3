"""The paper's filter of a thruster chain as functions on moments: its state, its noise, and the compiled steps.

It is what `multilink_inertial_parameters` describes (equations 29, 30, 33, 57 to 60), for any number of links, and
corrects once where the parameter `paper.iterated` is false. What the page leaves open is settled so: masses and
inertias are estimated as logarithms; the standard deviations that Tables III and IV give in kg and kg m^2 are taken at
the masses of the design; sigma points have no excess weight, so that covariances are sums of squares. They lie sqrt(12)
standard deviations out whatever the number of states, as the cubature rule has them for the paper's twelve: nearer ones
see too little of how the readings bend, and one first push in a thousand then leads to a wrong place; with the rule's
own sqrt(4 N) a long chain's headings would be turned by radians. Place and velocity of the centre of mass of the chain
ride along (last row of equation (11)): dead reckoning, with a covariance that grows.

The state has the parameters first, because they stay what they are while the chain moves (`_predicted`):

    log of the masses (N), log of the inertias (N), headings (N), turning rates (N), and, where the chain's place is
    dead-reckoned, x and y of its centre of mass, and of that one's velocity (4).

The correction is iterated where the readings bend within the state's uncertainty, as when a thruster is first heard of
with a mass and a heading that are hardly known: the readings' model is linearised anew, statistically, by the sigma
points of the corrected state (`_expected`). Without that, the first pulse leaves the filter far too sure of itself
(NEES 65 instead of 12).

**Hundreds of states.** `filtering.unscented` keeps roots of covariances, by Householder reflections over all 2n + 1
sigma points: 4 n^3 operations that no library does at the speed of a matrix product, which is right for the few states
of a vehicle and far too slow here. So covariances are full matrices; two Cholesky factors and five products a step are
left to BLAS. The price is that a correction subtracts: where a measurement shrinks a variance by more than 1e12 at
once, digits are gone. Sigma points are columns (., 2n + 1): the mean, the mean plus the spread times each column of the
lower root, and minus. With half the difference a_k and half the sum b_k of what becomes of the points of column k, both
from the centre's,

    mean = centre + d with d = sum b_k / s^2,   covariance = sum (a_k a_k^T + b_k b_k^T) / s^2,

where s is the spread: the same as van der Merwe's weighted sums with s = alpha sqrt(n + kappa) and beta = alpha^2, but
a sum of squares, without the large weights of either sign that a small alpha has. The cross-covariance with the state
before, whose own b_k is zero, is L A^T / s. What is linear in the state has no b_k: the part of the covariance that
comes from them is how much the model bends within the state's uncertainty.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.filtering.manifold_kernels import wrap
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration
from thruster_chain_estimation.model.dynamics import propagate, read_imus, rods

Indices = NDArray[np.int64]

SPREAD = math.sqrt(12.0)
LONGEST_STEP_S = 0.01
MOST_ITERATIONS = 6
BENT = 0.1
"""Share of a reading's own variance that bending may add to it before a correction is iterated."""
_CONVERGED = 0.01  # square of a step in standard deviations
_LEAST_VARIANCE = 1e-18  # what is known exactly at the start: the filter needs roots
_UNKNOWN_LOGARITHM = 1.0
"""Standard deviation of the logarithm of a mass of which nothing is known: any within a factor of three."""
_UNKNOWN_HEADING_RAD = math.pi / math.sqrt(3.0)
_OPEN = np.full(2, math.inf)
_BLOCK = 32


class Moments(NamedTuple):
    """A state of the filter; values, never written.

    Attributes
    ----------
    mean, covariance
        (n,) and (n, n).
    free
        (n,) what process noise acts on: not on parameters that are held.
    """

    mean: Vector
    covariance: Matrix
    free: NDArray[np.bool_]


class Seen(NamedTuple):
    """What k links read against what was predicted: (k, 3) x, y and rate, (k, 3, 3) lower roots, NIS.

    The latter, (k, 2), are those of all three readings and of the rate alone.
    """

    innovations: Matrix
    roots: NDArray[np.float64]
    nis: Vector


class Settings(NamedTuple):
    """Of a filter, as its compiled steps take them.

    Attributes
    ----------
    links
        See `dynamics.rods`.
    physical
        Whether IMUs read what accelerometers do, see `dynamics`.
    noise, largest
        (n,) variance that the process noise adds in a second, and the variance beyond which it adds no more.
    variances
        (3,) white noise of an IMU's readings.
    spread, bent
        `SPREAD` and `BENT`; infinite: a correction is never iterated.
    given, motion, readings
        Room for the sigma points as `dynamics` takes them, (3N, 2n + 1), (n - 2N, 2n + 1), (3N, 2n + 1). What is in it
        does not matter; to ask the system for it at each step would take a fifth of the step of a hundred links.
    """

    links: Matrix
    physical: bool
    noise: Vector
    largest: Vector
    variances: Vector
    spread: float
    bent: float
    given: Matrix
    motion: Matrix
    readings: Matrix


Packed = Any
"""`Settings` or `Seen` as a plain tuple, which numba takes in a third of the time: 2 us of a step."""


@njit(cache=True, error_model="numpy")
def _draw(settings: Settings, mean: Matrix, root: Matrix, thrust: Matrix) -> None:
    """Sigma points as `dynamics` takes them into the settings' room, from mean, lower root, and thrusts (N,), N."""
    n, links, spread, given = len(mean), len(thrust), settings.spread, settings.given
    for j in range(2 * links):
        centre, out = np.exp(-mean[j]), given[j]
        out[:] = centre
        for k in range(j + 1):  # the root has nothing to the right of its diagonal
            factor = np.exp(-spread * root[j, k])
            out[1 + k], out[1 + n + k] = centre * factor, centre / factor
    for i in range(links):
        given[2 * links + i] = thrust[i]
    for j in range(2 * links, n):
        row, value = settings.motion[j - 2 * links], mean[j]
        row[0] = value
        plus, minus = row[1 : 1 + n], row[1 + n : 1 + 2 * n]
        for k in range(n):
            step = spread * root[j, k]
            plus[k], minus[k] = value + step, value - step


@njit(cache=True, error_model="numpy")
def predict(
    packed: Packed, mean: Matrix, covariance: Matrix, free: NDArray[np.bool_], thrust: Matrix, duration: float
) -> tuple[Matrix, Matrix]:
    """Mean (n,) and covariance (n, n) after `duration` seconds under thrusts (N,), N: equation (30), and Q of (59)."""
    settings, root = Settings(*packed), _lower_root(covariance)
    _draw(settings, mean, root, thrust)
    propagate(settings.links, settings.given, settings.motion, duration, LONGEST_STEP_S)
    mean, covariance = _predicted(mean, covariance, root, settings.motion, settings.spread)
    for j in range(len(mean)):
        if free[j]:
            room = settings.largest[j] - covariance[j, j]
            covariance[j, j] += max(0.0, min(settings.noise[j] * duration, room))
    _mirror(covariance)
    return mean, covariance


@njit(cache=True, error_model="numpy")
def update(
    packed: Packed,
    mean: Matrix,
    covariance: Matrix,
    thrust: Matrix,
    heard: Indices,
    measured: Matrix,
    thresholds: Matrix,
    into: Packed,
) -> tuple[Matrix, Matrix]:
    """Mean (n,) and covariance (n, n) corrected by readings of one instant, equation (33) with R of (60).

    All accelerations come first, then all rates.

    Parameters
    ----------
    heard, measured
        (k,) links; (k, 3) what their IMUs read.
    thresholds
        (2,) A link's accelerations are left out where its three readings have a NIS above the first; its turning rate
        as well where that alone has one above the second.
    into
        A `Seen` to be filled.
    """
    settings, seen = Settings(*packed), Seen(*into)
    prior, pushed = (mean, covariance), 2 * len(heard)
    rates, used, bends = 3 * len(thrust) + heard, np.arange(3 * len(heard)), False
    for iteration in range(MOST_ITERATIONS):
        root, at = _lower_root(covariance), mean
        outputs = _read(settings, at, root, thrust, heard)
        found, total, cross, bending = _expected(*prior, outputs, rates, settings.spread, root, at, iteration > 0)
        for i in range(len(found)):
            link, axis = (i // 2, i % 2) if i < pushed else (i - pushed, 2)
            found[i] = measured[link, axis] - found[i]
            total[i, i] += settings.variances[axis]
        if iteration == 0:
            used = _judge(found, total, thresholds, seen)
        if len(used) == 0:
            break
        for row in used:
            if row < pushed and bending[row, row] > settings.bent * settings.variances[row % 2]:
                bends = True
        if len(used) < len(found):
            found, total, cross = found[used], total[used][:, used], cross[used]
        mean, covariance = _corrected(*prior, found, total, cross)
        if not bends or (iteration > 0 and np.max((mean - at) ** 2 / np.diag(covariance)) < _CONVERGED):
            break
    return mean, covariance


@njit(cache=True, error_model="numpy")
def _read(settings: Settings, mean: Matrix, root: Matrix, thrust: Matrix, heard: Indices) -> Matrix:
    """What the accelerometers of the links that were heard read at the sigma points, (2k, 2n + 1)."""
    _draw(settings, mean, root, thrust)
    read_imus(settings.physical, settings.links, settings.given, settings.motion, settings.readings)
    out = np.empty((2 * len(heard), settings.readings.shape[1]))
    for k in range(len(heard)):
        out[2 * k : 2 * k + 2] = settings.readings[3 * heard[k] : 3 * heard[k] + 2]
    return out


@njit(cache=True, error_model="numpy")
def _judge(innovation: Matrix, total: Matrix, thresholds: Matrix, seen: Seen) -> Indices:
    """Into `seen` the innovation of each link, its root and its NIS, from those of all; which readings are used."""
    count = len(seen.nis)
    used = np.zeros(3 * count, np.bool_)
    for link in range(count):
        places = np.array((2 * link, 2 * link + 1, 2 * count + link))
        own, right = total[places][:, places], np.ascontiguousarray(innovation[places]).reshape(3, 1)
        seen.innovations[link], seen.roots[link] = right[:, 0], _lower_root(own)
        _solve_lower(seen.roots[link], right)
        seen.nis[link, 0] = np.sum(right**2)
        seen.nis[link, 1] = innovation[places[2]] ** 2 / own[2, 2]
        whole = seen.nis[link, 0] <= thresholds[0]
        used[places[:2]] = whole
        used[places[2]] = whole or seen.nis[link, 1] <= thresholds[1]
    return np.flatnonzero(used)


@njit(cache=True, error_model="numpy")
def _lower_root(covariance: Matrix) -> Matrix:
    """Lower L (n, n) with L L^T = P; numpy.linalg.LinAlgError where P is not positive definite."""
    return np.linalg.cholesky(covariance)  # type: ignore[return-value]  # NumPy says "floating" only


@njit(cache=True, error_model="numpy")
def _deviations(points: Matrix, spread: float) -> tuple[Matrix, Matrix, Matrix]:
    """What became of the points (r, 2n + 1): its mean (r,), and a_k / s and b_k / s (r, n)."""
    r, n, share = points.shape[0], points.shape[1] // 2, 0.5 / spread
    mean, odd, even = np.empty(r), np.empty((r, n)), np.empty((r, n))
    for i in range(r):
        row = points[i]
        plus, minus, a, b = row[1 : 1 + n], row[1 + n : 1 + 2 * n], odd[i], even[i]
        centre, total = row[0], 0.0
        for k in range(n):
            up, down = plus[k] - centre, minus[k] - centre
            a[k] = share * (up - down)
            b[k] = share * (up + down)
        for k in range(n):
            total += b[k]
        mean[i] = centre + total / spread
    return mean, odd, even


@njit(cache=True, error_model="numpy")
def _predicted(mean: Matrix, covariance: Matrix, root: Matrix, moved: Matrix, spread: float) -> tuple[Matrix, Matrix]:
    """Mean (n,) and covariance (n, n), its lower half, once the last states have `moved` (r, 2n + 1); others rest."""
    fixed = mean.shape[0] - moved.shape[0]
    centre, odd, even = _deviations(moved, spread)
    after, out, block = mean.copy(), covariance.copy(), np.zeros((moved.shape[0], moved.shape[0]))
    _add_square(1.0, odd, block)
    _add_square(1.0, even, block)
    if fixed > 0:
        resting = np.ascontiguousarray(root[:fixed, :fixed])
        out[fixed:, :fixed] = np.dot(np.ascontiguousarray(odd[:, :fixed]), resting.T)
    out[fixed:, fixed:], after[fixed:] = block, centre
    return after, out


@njit(cache=True, error_model="numpy")
def _expected(
    mean: Matrix,
    covariance: Matrix,
    outputs: Matrix,
    places: Indices,
    spread: float,
    root: Matrix,
    at: Matrix,
    elsewhere: bool,
) -> tuple[Matrix, Matrix, Matrix, Matrix]:
    """Of a model's outputs (b, 2n + 1), and then of the states at `places` (l,), which are measured as they are.

    The points are those of the mean `at` (n,) and of a lower root. Where they were drawn `elsewhere` than from the
    state's own moments, by the statistical linearisation there (Garcia-Fernandez, Svensson, Morelande, Sarkka,
    "Posterior linearization filter", 2015).

    Returns
    -------
    Means (b + l,); covariance (b + l, b + l); that with the state (b + l, n); what bending adds (b, b).
    """
    found, odd, even = _deviations(outputs, spread)
    size, both = len(found), len(found) + len(places)
    means, bending = np.empty(both), np.zeros((size, size))
    total, cross = np.zeros((both, both)), np.empty((both, len(mean)))
    _add_square(1.0, even, bending)
    if elsewhere:
        slope = np.ascontiguousarray(np.linalg.solve(root.T, odd.T).T)
        products = np.dot(slope, covariance)
        found += np.dot(slope, mean - at)
        cross[:size], total[:size, :size] = products, np.dot(products, slope.T)
    else:
        cross[:size] = np.dot(odd, root.T)
        _add_square(1.0, odd, total)
    means[:size] = found
    total[:size, :size] += bending
    means[size:], cross[size:] = mean[places], covariance[places]
    total[size:] = cross[:, places].T
    _mirror(total)
    return means, total, cross, bending


@njit(cache=True, error_model="numpy")
def _corrected(
    mean: Matrix, covariance: Matrix, innovation: Matrix, total: Matrix, cross: Matrix
) -> tuple[Matrix, Matrix]:
    """Mean (n,) and covariance (n, n) after an innovation (m,) of covariance `total` (m, m)."""
    right = np.empty((cross.shape[0], cross.shape[1] + 1))
    right[:, :-1], right[:, -1] = cross, innovation
    _solve_lower(_lower_root(total), right)
    gain, out = np.ascontiguousarray(right[:, :-1].T), covariance.copy()
    _add_square(-1.0, gain, out)
    _mirror(out)
    return mean + np.dot(gain, np.ascontiguousarray(right[:, -1])), out


@njit(cache=True, error_model="numpy")
def _add_square(sign: float, factor: Matrix, out: Matrix) -> None:
    """Add sign A A^T of A (r, n) to the lower half of `out` (>= r, >= r); what is above it is of no use afterwards."""
    r = factor.shape[0]
    if r == 0:
        return
    step = r if r <= 3 * _BLOCK else (r + 3) // 4  # by bands: half of the product would be for nothing
    for first in range(0, r, step):
        last = min(first + step, r)
        product = np.dot(factor[first:last], factor[:last].T)
        for i in range(first, last):
            row, added = out[i], product[i - first]
            for j in range(last):
                row[j] += sign * added[j]


@njit(cache=True, error_model="numpy")
def _solve_lower(root: Matrix, right: Matrix) -> None:
    """In place, X (m, c) with L X = B (m, c), forward substitution block by block."""
    m, columns = right.shape
    for first in range(0, m, _BLOCK):
        last = min(first + _BLOCK, m)
        if first > 0:
            done = np.dot(np.ascontiguousarray(root[first:last, :first]), right[:first])
            right[first:last] -= done
        for i in range(first, last):
            row = right[i]
            for j in range(first, i):
                factor, other = root[i, j], right[j]
                for c in range(columns):
                    row[c] -= factor * other[c]
            inverse = 1.0 / root[i, i]
            for c in range(columns):
                row[c] *= inverse


@njit(cache=True, error_model="numpy")
def _mirror(matrix: Matrix) -> None:
    """The lower half of a square matrix into its upper half."""
    for i in range(matrix.shape[0]):
        for j in range(i):
            matrix[j, i] = matrix[i, j]


class PaperFilter:
    """The filter of one configuration; it has no state.

    Parameters
    ----------
    configuration
        Geometry, design, and the section `paper`.
    dead_reckoned
        Whether place and velocity of the centre of mass are states as well; the paper's filter has 4N states.
    """

    def __init__(self, configuration: ThrusterChainConfiguration, dead_reckoned: bool = True) -> None:
        chain, paper = configuration.chain, configuration.paper
        self.count, self._size = chain.count, 4 * chain.count + 4 * dead_reckoned
        n, accelerometer = chain.count, paper.accelerometer_stddev_m_s2
        # Where the published state, headings and rates first, finds its parts in the filter's.
        self._places = np.r_[2 * n : 4 * n, 0 : 2 * n, 4 * n : self._size]
        # Q of (59), Table IV.
        noise, largest = np.zeros(self._size), np.full(self._size, math.inf)
        noise[:n], noise[n : 2 * n] = paper.mass_noise_kg / chain.masses, paper.inertia_noise_kg_m2 / chain.inertias
        noise[2 * n : 3 * n], noise[3 * n : 4 * n] = paper.heading_noise_rad, paper.rate_noise_rad_s
        largest[: 2 * n], largest[2 * n : 3 * n] = _UNKNOWN_LOGARITHM, _UNKNOWN_HEADING_RAD
        largest[3 * n : 4 * n] = configuration.gyro.range_rad_s / math.sqrt(3.0)
        self.links = rods(chain.lengths, chain.thruster_angles, chain.thruster_places, chain.imu_places)
        self._largest = largest**2
        self._packed = (
            self.links,
            configuration.imu_model == "physical",
            noise**2 * paper.rate_hz,
            self._largest,
            np.square([accelerometer, accelerometer, paper.gyro_stddev_rad_s]),  # R of (60), Table IV
            SPREAD,
            BENT if paper.iterated else math.inf,
        )

    def _with_room(self) -> Packed:
        """The settings with the room, which is no part of the filter: a step changes nothing of it."""
        return (*self._packed, *_room(len(self.links), self._size))

    def start(self, mean: Vector, covariance: Matrix) -> Moments:
        """From a published mean (4N + 4,) and covariance; masses and inertias without variance are held.

        Raises
        ------
        UserError
            Masses or inertias that are not positive.
        """
        n, places = self.count, self._places
        parameters, scale = mean[2 * n : 4 * n], np.ones(self._size)
        for place in np.flatnonzero(~((parameters > 0.0) & np.isfinite(parameters))):
            what, unit = ("mass", "kg") if place < n else ("inertia", "kg m^2")
            raise UserError(f"{what} of link {place % n + 1}: {parameters[place]:g} {unit}; it must be positive")
        scale[: 2 * n] = parameters
        own, wide = np.empty(self._size), np.empty((self._size, self._size))
        own[places] = mean[: self._size]
        own[: 2 * n] = np.log(scale[: 2 * n])
        wide[np.ix_(places, places)] = covariance[: self._size, : self._size]
        wide /= np.outer(scale, scale)
        exact = np.diag(wide) <= 0.0
        wide[exact, exact] = _LEAST_VARIANCE
        return Moments(own, wide, ~exact | (np.arange(self._size) >= 2 * n))

    def predict(self, moments: Moments, thrust: Vector, duration_s: float) -> Moments:
        """After that many seconds under thrusts (N,), N."""
        return Moments(*predict(self._with_room(), *moments, thrust, duration_s), moments.free)

    def update(
        self, moments: Moments, thrust: Vector, heard: Indices, measured: Matrix, thresholds: Vector = _OPEN
    ) -> tuple[Moments, Seen]:
        """Corrected by what the IMUs of the links `heard` (k,) read (k, 3): x and y, m/s^2, and turning rate, rad/s.

        A link's accelerations are left out where the NIS of its readings is above the first threshold; its rate as well
        where that alone has one above the second.
        """
        k = len(heard)
        seen = Seen(np.empty((k, 3)), np.empty((k, 3, 3)), np.empty((k, 2)))
        mean, covariance, free = moments
        after = update(self._with_room(), mean, covariance, thrust, heard, measured, thresholds, tuple(seen))
        return Moments(*after, free), seen

    def inflated(self, moments: Moments, factor: float) -> Moments:
        """With so many times the covariance, but nothing less certain than what is not known at all."""
        wider = moments.covariance * factor
        shrunk = np.minimum(1.0, np.sqrt(self._largest / np.diag(wider)))
        return moments._replace(covariance=wider * np.outer(shrunk, shrunk))

    def published(self, moments: Moments) -> tuple[Vector, Matrix]:
        """Mean and covariance with headings in (-pi, pi], masses in kg (medians), inertias in kg m^2."""
        n, places, mean, scale = self.count, self._places, moments.mean.copy(), moments.free.astype(np.float64)
        mean[: 2 * n] = np.exp(mean[: 2 * n])
        scale[: 2 * n] *= mean[: 2 * n]
        mean[2 * n : 3 * n] = [wrap(heading) for heading in mean[2 * n : 3 * n]]
        covariance = moments.covariance * np.outer(scale, scale)
        return mean[places], covariance[np.ix_(places, places)]


@lru_cache(maxsize=4)
def _room(links: int, size: int) -> tuple[Matrix, Matrix, Matrix]:
    """Shared by all filters of that size: kernels hold the interpreter's lock, so that no two run at a time."""
    columns = 2 * size + 1
    return np.empty((3 * links, columns)), np.empty((size - 2 * links, columns)), np.empty((3 * links, columns))
