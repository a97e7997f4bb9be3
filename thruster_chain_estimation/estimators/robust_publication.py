"""Compiled: the estimate that both filters of `robust` make together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.filtering.manifold_kernels import wrap
from onboard_estimation.filtering.moments import Moments
from thruster_chain_estimation.estimators.inertial_kernels import UNSEEN_RAD_S, Chain, Stood
from thruster_chain_estimation.estimators.pin_kernels import first_middle
from thruster_chain_estimation.model import inertial_layout, parameter_layout

RATE_OF_REACH = 2.0
"""rad/s at which an unknown part of the chain may turn."""
ODOMETRY_M = 0.01
"""Deviation below which velocity (m/s) and position are not told."""


class Design(NamedTuple):
    """What is fixed of a chain.

    Attributes
    ----------
    geometry, masses, inertias
        As designed; (N,) kg and kg m^2.
    clock, clock_share, delay_s
        Variance of what clocks have in common, its share in that of the delay that thrust seems to have, and its mean.
    gyro_stddev_rad_s, centre_m
        Of a reading; of a link's own centre of mass.
    """

    geometry: Chain
    masses: Vector
    inertias: Vector
    clock: float
    clock_share: float
    delay_s: float
    gyro_stddev_rad_s: float
    centre_m: float


class Links(NamedTuple):
    """(N,) links that are not heard, and whose heading is lost; whether thrusters were asked for something."""

    blind: NDArray[np.bool_]
    lost: NDArray[np.bool_]
    pushed: bool


@njit(cache=True)
def publish(
    now_s: float, navigation: Stood, links: Links, beliefs: tuple[Moments, Moments], share: float, design: Design
) -> tuple[Vector, Matrix]:
    """Mean and covariance in `space.published_space` at an instant; `share` of the second belief."""
    count, known = len(design.masses), navigation.covariance
    told, spread = _weighed(beliefs, share, count)
    heading = inertial_layout.LINK * np.arange(count) + inertial_layout.HEADING
    clock, bias = heading + inertial_layout.CLOCK, heading + inertial_layout.GYRO_BIAS
    rates, lengths = navigation.rates, 2.0 * design.geometry.half
    # How late all stamps of IMUs are, by the delay of thrust; not where motion capture has told the navigation of it.
    late_s, surer, common = 0.0, 0.0, 0.0
    for i in range(count):
        for k in range(count):
            common += known[clock[i], clock[k]] / count**2
    if common >= 0.9 * design.clock:
        left = design.clock * (1.0 - design.clock_share) + design.clock_share**2 * spread[-1, -1]
        late_s, surer = design.clock_share * (told[-1] - design.delay_s), 0.9 * max(0.0, design.clock - left)
    late = now_s + late_s - navigation.labels_s + navigation.mean[clock]
    late = np.where(np.isfinite(late), late, 0.0)
    headings = navigation.mean[heading] + rates * late
    for i in range(count):
        headings[i] = wrap(headings[i])
    scales = np.concatenate((design.masses, design.inertias)) * np.exp(told[: 2 * count])
    middle, velocity = first_middle(navigation.mean, rates, design.geometry)
    velocity = velocity + told[-5:-3]
    middle = middle + told[-3:-1] + velocity * (now_s + late_s - navigation.tick_s)
    places, turning = _about_centre(lengths, headings, rates, scales[:count])
    mean = np.concatenate((headings, rates, scales, middle - places[0], velocity - turning[0]))
    covariance = np.zeros((len(mean), len(mean)))
    for i in range(count):
        covariance[count + i, count + i] = (UNSEEN_RAD_S if links.blind[i] else design.gyro_stddev_rad_s) ** 2
        for k in range(count):
            by = rates[i] * known[clock[i], heading[k]] + rates[k] * known[heading[i], clock[k]]
            turned = rates[i] * rates[k] * (known[clock[i], clock[k]] - surer)
            covariance[i, k] = known[heading[i], heading[k]] + by + turned
            covariance[count + i, count + k] += known[bias[i], bias[k]]
    for i in range(2 * count):
        for k in range(2 * count):
            covariance[2 * count + i, 2 * count + k] = spread[i, k] * scales[i] * scales[k]
    _put_odometry(covariance, navigation, spread, links, design)
    _put_centre(covariance, places, scales[:count], design.centre_m)
    return mean, covariance


@njit(cache=True)
def _weighed(beliefs: tuple[Moments, Moments], share: float, count: int) -> tuple[Vector, Matrix]:
    """(2N + 5,) logs of masses and inertias, errors of velocity and position, delay, and their covariance.

    Of both beliefs, weighed by the odds of a load: unsure as soon as there is reason to be.
    """
    links, chain = parameter_layout.LINK * np.arange(count), parameter_layout.chain_part(count)
    ways = chain + parameter_layout.VELOCITY_X + np.arange(4)
    delay = np.array([chain + parameter_layout.DELAY])
    at = np.concatenate((links + parameter_layout.LOG_MASS, links + parameter_layout.LOG_INERTIA, ways, delay))
    ours, other = beliefs
    apart, spread = other.mean[at] - ours.mean[at], np.empty((len(at), len(at)))
    for i in range(len(at)):
        for k in range(len(at)):
            spread[i, k] = (1.0 - share) * ours.covariance[at[i], at[k]] + share * other.covariance[at[i], at[k]]
            spread[i, k] += share * (1.0 - share) * apart[i] * apart[k]
    return ours.mean[at] + share * apart, spread


@njit(cache=True)
def _about_centre(lengths: Vector, headings: Vector, rates: Vector, masses: Vector) -> tuple[Matrix, Matrix]:
    """(N, 2) middles of the links about the centre of mass, and their velocities: see `space.link_positions`."""
    places, velocities = np.zeros((len(masses), 2)), np.zeros((len(masses), 2))
    for i in range(len(masses)):
        for k in range(i + 1):
            half = (0.5 if k == i else 1.0) * lengths[k]
            c, s = half * np.cos(headings[k]), half * np.sin(headings[k])
            places[i, 0] += c
            places[i, 1] += s
            velocities[i, 0] -= s * rates[k]
            velocities[i, 1] += c * rates[k]
    share = masses / masses.sum()
    return places - share @ places, velocities - share @ velocities


@njit(cache=True)
def _put_odometry(covariance: Matrix, navigation: Stood, spread: Matrix, links: Links, design: Design) -> None:
    """Position and velocity: the navigation's own, and the parameter filter's error of them, whichever is less."""
    count, known = len(design.masses), navigation.covariance
    heading = inertial_layout.LINK * np.arange(count) + inertial_layout.HEADING
    share, after, reach, held = design.masses / design.masses.sum(), 1.0, np.zeros((2, 2)), np.flatnonzero(~links.lost)
    by = np.empty((2, count))
    for i in range(count):  # see `space.first_by_headings`
        after -= share[i]
        across = design.geometry.half[i] * ((1.0 if i == 0 else 0.0) - share[i] - 2.0 * after)
        # A lost heading leaves what hangs on it anywhere within its reach, not beyond.
        across *= min(1.0, 1.0 / np.sqrt(max(covariance[i, i], 1e-12)))
        angle = navigation.mean[heading[i]]
        by[0, i], by[1, i] = -across * np.sin(angle), across * np.cos(angle)
    reach = by @ np.ascontiguousarray(covariance[:count, :count]) @ by.T
    together = 0.0
    for one in heading[held]:
        for other in heading[held]:
            together += known[one, other] / len(held) ** 2
    chain = inertial_layout.LINK * count + inertial_layout.JOINT * (count - 1)
    # Of the published space, the navigation's and the parameter filter's state: position, then velocity.
    for place, ours, theirs, wider in (
        (4 * count, chain + 2, 2 * count + 2, 1.0),
        (4 * count + 2, chain, 2 * count, RATE_OF_REACH**2),
    ):
        turned = np.zeros(2)
        for axis in range(2):
            for one in heading[held]:
                turned[axis] += known[ours + axis, one] / len(held)
        for i in range(2):
            for k in range(2):
                told = known[ours + i, ours + k]
                if links.pushed:
                    told = spread[theirs + i, theirs + k] + (ODOMETRY_M**2 if i == k else 0.0)
                    # Drag says nothing of a turn of the whole, by which the whole way is wrong.
                    told += turned[i] * turned[k] / max(together, 1e-12)
                covariance[place + i, place + k] = told + wider * reach[i, k]


@njit(cache=True)
def _put_centre(covariance: Matrix, links: Matrix, masses: Vector, centre_m: float) -> None:
    """Where the centre of mass is in the chain hangs on how heavy each link is, and on where in it.

    From the links' middles (N, 2) about it.
    """
    count, place = len(masses), 4 * len(masses)
    share = masses / masses.sum()
    by, told = np.ascontiguousarray(links.T) / masses.sum(), slice(2 * count, 4 * count)
    known = by @ np.ascontiguousarray(covariance[2 * count : 3 * count, told])
    own = np.ascontiguousarray(known[:, :count]) @ by.T + centre_m**2 * (share @ share) * np.eye(2)
    covariance[place : place + 2, place : place + 2] += own
    covariance[place : place + 2, told] += known
    covariance[told, place : place + 2] += known.T
