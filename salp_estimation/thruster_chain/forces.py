"""Smooth external forces on the links of a chain: thrust, gravity, drag of the water, friction of the joints.

Each is a function of plain numbers, which compiled loops over one state or over many take alike. `external_forces` sums
them up for one state, as `dynamics.accelerate` wants them. All are analytic, so complex states give exact derivatives
(the magnitude of a speed is written as the root of its square).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from salp_estimation.thruster_chain import chain_model as m
from salp_estimation.thruster_chain.dynamics import accelerate

Array = NDArray[np.float64]
Number = Any
"""float or complex."""


@njit(cache=True, error_model="numpy")
def resisted(speed: Number, linear: float, quadratic: float) -> Number:
    """Force against a speed: -(linear + quadratic |speed|) speed."""
    return -(linear + quadratic * np.sqrt(speed * speed)) * speed


@njit(cache=True, error_model="numpy")
def drag(
    cosine: Number,
    sine: Number,
    vx: Number,
    vy: Number,
    along: float,
    across: float,
    quadratic_along: float,
    quadratic_across: float,
) -> tuple[Number, Number]:
    """Drag on a link of that heading and velocity, in the room's frame, where the velocity is."""
    fx = resisted(cosine * vx + sine * vy, along, quadratic_along)
    fy = resisted(cosine * vy - sine * vx, across, quadratic_across)
    return cosine * fx - sine * fy, sine * fx + cosine * fy


@njit(cache=True, error_model="numpy")
def link_velocities(
    links: Array, pivoted: bool, heading: Array, rate: Array, mass: Array, centre: Array, velocity: Array
) -> None:
    """Into `velocity` (N, 2) those of the links' centres of mass, from that of the whole chain's, `centre` (2,).

    A chain on a pivot needs no `centre`.
    """
    total, x, y, px, py = 0.0 * mass[0], 0.0 * mass[0], 0.0 * mass[0], 0.0 * mass[0], 0.0 * mass[0]
    for i in range(links.shape[0]):
        c, s, w = np.cos(heading[i]), np.sin(heading[i]), rate[i]
        # A pin at (a, b) moves by w (-b', a') against the centre of mass, with (a', b') in the room's frame.
        bx = c * links[i, m.BEHIND_X] - s * links[i, m.BEHIND_Y]
        by = s * links[i, m.BEHIND_X] + c * links[i, m.BEHIND_Y]
        vx, vy = px + w * by, py - w * bx
        velocity[i, 0], velocity[i, 1] = vx, vy
        px = vx - w * (s * links[i, m.AHEAD_X] + c * links[i, m.AHEAD_Y])
        py = vy + w * (c * links[i, m.AHEAD_X] - s * links[i, m.AHEAD_Y])
        total, x, y = total + mass[i], x + mass[i] * vx, y + mass[i] * vy
    if not pivoted:
        for i in range(links.shape[0]):
            velocity[i, 0] += centre[0] - x / total
            velocity[i, 1] += centre[1] - y / total


@njit(cache=True, error_model="numpy")
def external_forces(
    links: Array,
    gravity: Array,
    heading: Array,
    rate: Array,
    velocity: Array,
    mass: Array,
    thrust: Array,
    force: Array,
    torque: Array,
) -> None:
    """Into `force` (N, 2) and `torque` (N,) all that acts on the links but the joints' forces, in the room's frame.

    Parameters
    ----------
    links, gravity
        Of the `ChainModel`.
    heading, rate, velocity
        (N,) rad, (N,) rad/s, (N, 2) of the centres of mass in the room's frame, m/s.
    mass, thrust
        (N,) kg, (N,) N.
    """
    count = links.shape[0]
    for i in range(count):
        c, s = np.cos(heading[i]), np.sin(heading[i])
        fx, fy = drag(
            c,
            s,
            velocity[i, 0],
            velocity[i, 1],
            links[i, m.DRAG_ALONG],
            links[i, m.DRAG_ACROSS],
            links[i, m.QUADRATIC_ALONG],
            links[i, m.QUADRATIC_ACROSS],
        )
        ux, uy = thrust[i] * links[i, m.THRUST_X], thrust[i] * links[i, m.THRUST_Y]
        force[i, 0] = fx + c * ux - s * uy + mass[i] * gravity[0]
        force[i, 1] = fy + s * ux + c * uy + mass[i] * gravity[1]
        torque[i] = thrust[i] * links[i, m.THRUST_ARM]
        torque[i] += resisted(rate[i], links[i, m.DRAG_TURNING], links[i, m.QUADRATIC_TURNING])
        friction = links[i, m.JOINT_FRICTION]
        if i > 0:
            torque[i] -= friction * (rate[i] - rate[i - 1])
            torque[i - 1] += friction * (rate[i] - rate[i - 1])
        else:
            torque[i] -= friction * rate[i]


@njit(cache=True, error_model="numpy")
def accelerate_under_forces(
    links: Array,
    gravity: Array,
    pivoted: bool,
    heading: Array,
    rate: Array,
    centre: Array,
    mass: Array,
    inertia: Array,
    thrust: Array,
    angular: Array,
    linear: Array,
    force: Array,
) -> None:
    """Into `angular` (N,), `linear` (N, 2) and `force` (N, 2) what a chain does and what pushes it, but the joints.

    Parameters
    ----------
    links, gravity, pivoted
        Of the `ChainModel`.
    heading, rate, centre
        (N,) rad, (N,) rad/s, (2,) velocity of the chain's centre of mass, m/s.
    mass, inertia, thrust
        (N,) kg, kg m^2, N.
    """
    count = links.shape[0]
    velocity, torque = np.empty((count, 2), linear.dtype), np.empty(count, linear.dtype)
    joint = np.empty((count + 1, 2), linear.dtype)
    link_velocities(links, pivoted, heading, rate, mass, centre, velocity)
    external_forces(links, gravity, heading, rate, velocity, mass, thrust, force, torque)
    behind, ahead = links[:, m.BEHIND_X : m.BEHIND_Y + 1], links[:, m.AHEAD_X : m.AHEAD_Y + 1]
    accelerate(heading, rate, mass, inertia, behind, ahead, force, torque, pivoted, angular, linear, joint)
