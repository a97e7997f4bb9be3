"""Accelerations of a planar chain of rigid links, by the forces in its joints.

Each link is a rigid body with a mass, an inertia about its centre of mass, and two pins: `behind`, towards the link
before it, and `ahead`, towards the next. Vectors from the centre of mass to the pins are fixed in the link's frame, so
centres of mass may lie anywhere. With F_k the force that joint k exerts on link k (and -F_k on link k - 1),

    m_i a_i = f_i + F_i - F_{i+1},    j_i alpha_i = t_i + b_i x F_i - h_i x F_{i+1},

and both links of a joint accelerate alike where it holds them. The forces solve a block-tridiagonal system of 2 x 2
blocks: O(N). It gives the accelerations of equation (11) of `multilink_inertial_parameters` (Andrews and Morgansen,
"Modeling, observability, and inertial parameter estimation of a planar multi-link system with thrusters") and, beside
them, the true acceleration of each link, which the paper's equation (21) leaves out. A chain may hang on a pivot.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Rows = NDArray[np.float64]
Vector = NDArray[np.float64]


@njit(cache=True)
def accelerate(
    heading: Vector,
    rate: Vector,
    mass: Vector,
    inertia: Vector,
    behind: Rows,
    ahead: Rows,
    force: Rows,
    torque: Vector,
    pivoted: bool,
    angular: Vector,
    linear: Rows,
    joint: Rows,
) -> None:
    """Into `angular` (N,), `linear` (N, 2) and `joint` (N + 1, 2) what the chain does under given forces.

    Parameters
    ----------
    heading, rate
        (N,) of each link, counter-clockwise from the room's x, rad and rad/s.
    mass, inertia
        (N,) kg, and kg m^2 about the centre of mass.
    behind, ahead
        (N, 2) from the centre of mass to the pins, in the link's frame, m. The first `behind` and the last `ahead` are
        free ends; with `pivoted` the first `behind` is held by the room.
    force, torque
        (N, 2) sum of all forces but the joints', in the room's frame, N; (N,) their torque about the centre of mass.
    angular, linear
        Angular accelerations, rad/s^2, and accelerations of the centres of mass in the room's frame, m/s^2.
    joint
        Force of joint k on link k; that of the free ends is zero.

    Notes
    -----
    It is analytic in all of its inputs: with complex arrays, an imaginary part of 1e-30 gives exact derivatives.
    """
    count = mass.shape[0]
    first = 0 if pivoted else 1
    # Per link: the pins turned by a right angle, in the room's frame, and how the pins would accelerate freely.
    turned = np.empty((count, 4), joint.dtype)
    free = np.empty((count, 4), joint.dtype)
    for i in range(count):
        c, s = np.cos(heading[i]), np.sin(heading[i])
        bx, by = c * behind[i, 0] - s * behind[i, 1], s * behind[i, 0] + c * behind[i, 1]
        hx, hy = c * ahead[i, 0] - s * ahead[i, 1], s * ahead[i, 0] + c * ahead[i, 1]
        turned[i, 0], turned[i, 1], turned[i, 2], turned[i, 3] = -by, bx, -hy, hx
        ax, ay, alpha, w2 = force[i, 0] / mass[i], force[i, 1] / mass[i], torque[i] / inertia[i], rate[i] * rate[i]
        free[i, 0], free[i, 1] = ax - alpha * by - w2 * bx, ay + alpha * bx - w2 * by
        free[i, 2], free[i, 3] = ax - alpha * hy - w2 * hx, ay + alpha * hx - w2 * hy

    # Forward elimination: `upper` (2, 2 per joint) = D^-1 U, `joint` = D^-1 rhs.
    upper = np.zeros((count + 1, 4), joint.dtype)
    for k in range(count + 1):
        joint[k, 0] = joint[k, 1] = 0.0
    for k in range(first, count):
        im, ij = 1.0 / mass[k], 1.0 / inertia[k]
        bx, by, hx, hy = turned[k, 0], turned[k, 1], turned[k, 2], turned[k, 3]
        d00, d01, d11 = im + ij * bx * bx, ij * bx * by, im + ij * by * by
        r0, r1 = -free[k, 0], -free[k, 1]
        if k > 0:
            pm, pj = 1.0 / mass[k - 1], 1.0 / inertia[k - 1]
            px, py = turned[k - 1, 2], turned[k - 1, 3]
            d00 += pm + pj * px * px
            d01 += pj * px * py
            d11 += pm + pj * py * py
            r0 += free[k - 1, 2]
            r1 += free[k - 1, 3]
        d10 = d01
        if k > first:
            qx, qy = turned[k - 1, 0], turned[k - 1, 1]
            l00, l01 = -pm - pj * px * qx, -pj * px * qy
            l10, l11 = -pj * py * qx, -pm - pj * py * qy
            r0 -= l00 * joint[k - 1, 0] + l01 * joint[k - 1, 1]
            r1 -= l10 * joint[k - 1, 0] + l11 * joint[k - 1, 1]
            u00, u01, u10, u11 = upper[k - 1, 0], upper[k - 1, 1], upper[k - 1, 2], upper[k - 1, 3]
            d00 -= l00 * u00 + l01 * u10
            d10 -= l10 * u00 + l11 * u10
            d01 -= l00 * u01 + l01 * u11
            d11 -= l10 * u01 + l11 * u11
        det = 1.0 / (d00 * d11 - d01 * d10)
        joint[k, 0] = det * (d11 * r0 - d01 * r1)
        joint[k, 1] = det * (d00 * r1 - d10 * r0)
        if k < count - 1:
            u00, u01 = -im - ij * bx * hx, -ij * bx * hy
            u10, u11 = -ij * by * hx, -im - ij * by * hy
            upper[k, 0], upper[k, 1] = det * (d11 * u00 - d01 * u10), det * (d11 * u01 - d01 * u11)
            upper[k, 2], upper[k, 3] = det * (d00 * u10 - d10 * u00), det * (d00 * u11 - d10 * u01)
    for k in range(count - 2, first - 1, -1):
        joint[k, 0] -= upper[k, 0] * joint[k + 1, 0] + upper[k, 1] * joint[k + 1, 1]
        joint[k, 1] -= upper[k, 2] * joint[k + 1, 0] + upper[k, 3] * joint[k + 1, 1]

    for i in range(count):
        linear[i, 0] = (force[i, 0] + joint[i, 0] - joint[i + 1, 0]) / mass[i]
        linear[i, 1] = (force[i, 1] + joint[i, 1] - joint[i + 1, 1]) / mass[i]
        own = turned[i, 0] * joint[i, 0] + turned[i, 1] * joint[i, 1]
        others = turned[i, 2] * joint[i + 1, 0] + turned[i, 3] * joint[i + 1, 1]
        angular[i] = (torque[i] + own - others) / inertia[i]
