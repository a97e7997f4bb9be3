"""Links whose heading is not known any more: put where the pins say, and found again by what both sides of a pin feel.

A link at an end whose IMU is silent may do whatever it likes about its pin; after some tenths of a second its heading
may be any. No linear filter finds it again. But the acceleration of a pin is one vector, felt by the IMUs of both its
links: once the IMU is back, the angle between what the two felt, summed over time, is by how much the heading is wrong,
from whatever it is (Wahba's problem in the plane). Vectors of the room are complex numbers here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import Matrix, Vector
from thruster_chain_estimation.estimators import inertial_kernels as kernels
from thruster_chain_estimation.model import inertial_layout as parts

FOUND_RAD = 0.1
"""A heading is found again once it is known so well: from there on the pins' filter is linear."""
LEAST_TICKS, MOST_TICKS = 20, 500
"""Over which both sides of a pin are compared: 0.2 s, a few time constants of the thrusters; afresh after 5 s."""
ALIKE = 0.9
"""Least correlation of what both sides felt: a sensor that does not feel its pin finds nothing."""
APART_M_S, APART_M = 0.05, 1e-4
"""By which both sides of a pin may seem to part, by places of IMUs, clocks, and its play."""


class Felt(NamedTuple):
    """What both sides of a loose link's pin felt since it is heard again: sums over ticks of velocity changes.

    Attributes
    ----------
    crossed
        Sum of the anchor's times the conjugate of the loose link's, (m/s)^2.
    own, other
        Sums of squares, of the loose link's and the anchor's.
    ticks
        How many there were.
    """

    crossed: complex = 0.0
    own: float = 0.0
    other: float = 0.0
    ticks: int = 0

    def found(self, bias_m_s: float) -> tuple[float, float] | None:
        """By how much the heading is wrong, and its deviation, rad; None: that is not known yet.

        `bias_m_s`: deviation of what the accelerometers' biases add to a tick, all the time in one direction.
        """
        if self.ticks < LEAST_TICKS or abs(self.crossed) < ALIKE * np.sqrt(self.own * self.other):
            return None
        noise = (self.own + self.other - 2.0 * abs(self.crossed)) / (2.0 * self.ticks)
        stddev = float(np.sqrt((noise + self.ticks * bias_m_s**2) / self.own))
        return (float(np.angle(self.crossed)), stddev) if stddev < FOUND_RAD else None


NOTHING_FELT = Felt()


class Closing(NamedTuple):
    """How errors went as a joint was closed: those of `rows` (k,) became `by` (k, n) of what they were."""

    rows: NDArray[np.intp]
    by: Matrix


def anchored(tight: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Each loose link (N,) and its neighbour toward the nearest tight one, those first that are next to a tight one."""
    held = np.flatnonzero(tight)
    pairs = []
    for link in np.flatnonzero(~tight) if len(held) else []:
        nearest = held[np.abs(held - link).argmin()]
        pairs.append((int(abs(nearest - link)), int(link), int(link + np.sign(nearest - link))))
    return [(link, anchor) for _, link, anchor in sorted(pairs)]


def pin_lever(mean: Vector, geometry: kernels.Chain, link: int, side: float) -> complex:
    """From the IMU of a link to its pin ahead (`side` 1) or behind (-1), m."""
    own = mean[parts.LINK * link : parts.LINK * (link + 1)]
    turned = np.exp(1j * own[parts.HEADING])
    return complex(complex(*kernels.lever(own, geometry, link, side)) * turned)


def pin_velocity_change(
    means: tuple[Vector, Vector],
    rates: tuple[Vector, Vector],
    moved: Vector,
    geometry: kernels.Chain,
    link: int,
    side: float,
) -> complex:
    """Of a link's pin over a tick, m/s, but for gravity: from means and rates before and after, and what it moved."""
    turned = [1j * rate[link] * pin_lever(mean, geometry, link, side) for mean, rate in zip(means, rates, strict=True)]
    return complex(moved[1], moved[2]) + turned[1] - turned[0]


def felt_more(felt: Felt, own: complex, other: complex) -> Felt:
    """With a tick more."""
    if felt.ticks >= MOST_TICKS:
        felt = NOTHING_FELT
    return Felt(
        felt.crossed + other * own.conjugate(), felt.own + abs(own) ** 2, felt.other + abs(other) ** 2, felt.ticks + 1
    )


def close_joint(
    mean: Vector,
    covariance: Matrix,
    geometry: kernels.Chain,
    rates: Vector,
    rate_stddev: float,
    pair: tuple[int, int],
    found: tuple[float, float] | None,
) -> Closing:
    """Close the joint of a loose link and its anchor, in place: pins are together, whatever the heading is.

    What hangs on the link on its other side stays where the anchor says: the next joint, or velocity and position of
    the chain, which are the first link's.

    Parameters
    ----------
    rates, rate_stddev
        (N,) rad/s; deviation of the loose link's.
    pair
        The loose link and its anchor.
    found
        By how much the heading was wrong, and its deviation against the anchor's; None: it stays as it is.
    """
    link, anchor = pair
    n, heading, side = len(mean), parts.LINK * link + parts.HEADING, float(anchor - link)
    first = parts.LINK * len(geometry.half)
    u = first + parts.JOINT * min(pair) + np.arange(2)
    d = u + 2
    # What is to stay put hangs on the loose link by this much of it, and goes along with u and d by this sign.
    is_first, beyond = link == 0 and anchor == 1, min(pair) - round(side)
    sign, held = (-1.0, parts.chain_part(len(geometry.half))) if is_first else (1.0, first + parts.JOINT * beyond)
    hangs_on = is_first or 0 <= beyond < len(geometry.half) - 1
    arm = pin_lever(mean, geometry, link, side)
    if not is_first:
        arm = side * (pin_lever(mean, geometry, link, -side) - arm)
    turned = arm * np.exp(1j * (found[0] if found else 0.0))
    mean[heading] += found[0] if found else 0.0
    rows = np.concatenate([[heading], u, d, held + np.arange(4 if hangs_on else 0)])
    by, noise, row = np.zeros((len(rows), n)), np.zeros((len(rows), 5)), {int(at): k for k, at in enumerate(rows)}
    by[0, parts.LINK * anchor + parts.HEADING if found else heading] = 1.0
    noise[0, 0] = found[1] if found else 0.0
    own, other = (side * rates[k] * pin_lever(mean, geometry, k, at) for k, at in ((link, side), (anchor, -side)))
    apart = 1j * (other - own)
    reach = abs(pin_lever(mean, geometry, link, side))
    for axis, along in enumerate((np.real, np.imag)):
        # i times i of what turns with a link.
        by[1 + axis] = along(own) * by[0]
        by[1 + axis, parts.LINK * anchor + parts.HEADING] -= along(other)
        noise[1 + axis] = along(own) * noise[0]
        noise[1 + axis, 1 + axis] = np.hypot(APART_M_S, reach * rate_stddev)
        noise[3 + axis, 3 + axis] = APART_M
        for old, new, stays in ((u[axis], along(apart), held + axis), (d[axis], 0.0, held + 2 + axis)):
            if hangs_on:
                mean[stays] += sign * (mean[old] - new)
                k = row[stays]
                by[k, [stays, old]] = 1.0, sign
                by[k] -= sign * by[row[old]]
                noise[k] -= sign * noise[row[old]]
            mean[old] = new
        if hangs_on:
            k = row[held + 2 + axis]
            mean[rows[k]] += along(arm - turned)
            by[k, heading] += along(1j * arm)
            by[k] -= along(1j * turned) * by[0]
            noise[k] -= along(1j * turned) * noise[0]
    spread = by @ covariance
    corner = spread @ by.T + noise @ noise.T
    covariance[rows], covariance[:, rows] = spread, spread.T
    covariance[np.ix_(rows, rows)] = 0.5 * (corner + corner.T)
    return Closing(rows, by)
