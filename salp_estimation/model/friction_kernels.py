"""Compiled rates of a chain with dry friction and a harness, and how they depend on what is not known exactly.

The quasi-static balance of the paper, eqs. (1) to (5), with four terms more: dry friction of wheels and joints, torque
of a harness at each joint, a lag of the actuators, and a pull W on each link that is fixed in the room, as of a floor
that is not level or of a cable. Their sizes are parameters, one row of WHEEL for each wheel and one of JOINT for each
joint, so that the number of parameters, and of inputs, of each part is the same for any number of links:

    sum_i J_i^T [s_i d_i v_i + F_i phi(v_i) - d_xx (1 + gain_i) (u_i - lag_i u_i') e_x - W_i] + joint torques = 0

with phi(v) = v / sqrt(v^2 + v_s^2), which is smooth: the rates follow from the parameters without jumps. Rates are
those of the base frame; inside, of link 1, where the Jacobians are built.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from salp_estimation.model import chain_kernels as chain

Array = NDArray[np.float64]

# Parameters of a wheel: dry friction along (N), across (N) and against turning (N m); factors on the three drag
# coefficients; thrust gained or lost, as a share; lag beyond that of the command (s); mounting angle (rad); pull along
# the room's x and y (N).
FRICTION, DRAG_FACTOR, GAIN, LAG, ANGLE, PULL = 0, 3, 6, 7, 8, 9
WHEEL = 11
# Of a joint: torque of the harness at zero angle (N m), its stiffness (N m/rad), dry friction (N m).
TORQUE, STIFFNESS, JOINT_FRICTION = 0, 1, 2
JOINT = 3

_LEAST_DRAG_FACTOR = 0.05

_ITERATIONS = 40
_CONVERGED = 1e-8


class Place(NamedTuple):
    """What the rates of a chain of N links follow from; SI units.

    Attributes
    ----------
    links
        (N, .) of the nominal chain, as `chain_kernels` reads them.
    joint_angles
        (N - 1,) rad.
    heading
        Of the base frame in the room, rad.
    controls, slopes
        (N,) rim speeds (m/s) and their time derivatives (m/s^2).
    parameters
        (11 N + 3 (N - 1),) as described above; friction and stiffness below zero count as zero.
    slip
        (4,) speeds v_s at which dry friction has reached 0.7 of its size: along, across (m/s), turning, joints (rad/s).
    """

    links: Array
    joint_angles: Array
    heading: float
    controls: Array
    slopes: Array
    parameters: Array
    slip: Array


@njit(cache=True, error_model="numpy")
def size_of(parameter: float, least: float = 0.0) -> tuple[float, float]:
    """Size of what cannot be less, and its derivative by the parameter: zero below, where nothing is learned."""
    return (parameter, 1.0) if parameter >= least else (least, 0.0)


@njit(cache=True, error_model="numpy")
def parameter_count(links: int) -> int:
    """Parameters of a chain of so many links."""
    return WHEEL * links + JOINT * (links - 1)


@njit(cache=True, error_model="numpy")
def _wheels(links: Array, joint_angles: Array, parameters: Array) -> tuple[Array, Array]:
    """As `chain_kernels.wheel_jacobians`, with the wheels' mounting angles as the parameters have them."""
    turned = np.empty(links.shape[0])
    for i in range(links.shape[0]):
        turned[i] = parameters[WHEEL * i + ANGLE]
    return chain.wheel_jacobians(links, joint_angles, turned)


@njit(cache=True, error_model="numpy")
def _room_axes(place: Place, to_base: Array) -> Array:
    """(2, 2) the room's x and y axes, in columns, along those of link 1, from which the base is turned by `to_base`."""
    c, s = np.cos(place.heading), np.sin(place.heading)
    cosine = c * to_base[0, 0] + s * to_base[0, 1]
    sine = s * to_base[0, 0] - c * to_base[0, 1]
    return np.array([[cosine, sine], [-sine, cosine]])


@njit(cache=True, error_model="numpy")
def _from_base(to_base: Array, rates: Array) -> Array:
    """Rates (N + 2,) of link 1 from those of the base; the upper left 2 x 2 of the map turns, below it are ones."""
    m = rates.shape[0]
    q = rates.copy()
    for c in range(3, m):
        q[2] -= to_base[2, c] * q[c]
    x, y = rates[0], rates[1]
    for c in range(2, m):
        x -= to_base[0, c] * q[c]
        y -= to_base[1, c] * q[c]
    q[0], q[1] = to_base[0, 0] * x + to_base[1, 0] * y, to_base[0, 1] * x + to_base[1, 1] * y
    return q


@njit(cache=True, error_model="numpy")
def factorise(matrix: Array) -> None:
    """In place, the lower Cholesky factor of a positive-definite matrix."""
    m = matrix.shape[0]
    for j in range(m):
        for k in range(j):
            for i in range(j, m):
                matrix[i, j] -= matrix[i, k] * matrix[j, k]
        root = np.sqrt(matrix[j, j])
        for i in range(j, m):
            matrix[i, j] /= root


@njit(cache=True, error_model="numpy")
def _solve(factor: Array, columns: Array) -> None:
    """In place, columns (m, k) become the solutions; the factor is lower."""
    m, count = columns.shape
    for i in range(m):
        for j in range(i):
            for k in range(count):
                columns[i, k] -= factor[i, j] * columns[j, k]
        for k in range(count):
            columns[i, k] /= factor[i, i]
    for i in range(m - 1, -1, -1):
        for j in range(i + 1, m):
            for k in range(count):
                columns[i, k] -= factor[j, i] * columns[j, k]
        for k in range(count):
            columns[i, k] /= factor[i, i]


@njit(cache=True, error_model="numpy")
def rates(place: Place, start: Array, sensitivities: Array) -> Array:
    """Rates (N + 2,) of the base frame and joints, forward, left, turning, joint rates; SI units.

    Parameters
    ----------
    start
        (N + 2,) rates that the iteration starts from; any, but near ones cost less.
    sensitivities
        (N + 2, parameters): the derivatives of the rates are written here; with no column nothing is.
    """
    m = place.links.shape[0] + 2
    jacobians, to_base = _wheels(place.links, place.joint_angles, place.parameters)
    room = _room_axes(place, to_base)
    q = _from_base(to_base, start)
    hessian, gradient = np.empty((m, m)), np.empty((m, 1))
    value = np.inf
    previous, step = q.copy(), np.zeros(m)
    share = 1.0
    for _ in range(_ITERATIONS):
        potential = _balance(place, jacobians, room, q, hessian, gradient)
        if potential > value + 1e-12 * abs(value) + 1e-15 and share > 1e-3:
            share *= 0.5  # the function is convex: a shorter step goes down
            for c in range(m):
                q[c] = previous[c] - share * step[c]
            continue
        value, share = potential, 1.0
        factorise(hessian)
        _solve(hessian, gradient)
        largest = 0.0
        for c in range(m):
            previous[c], step[c] = q[c], gradient[c, 0]
            q[c] -= step[c]
            largest = max(largest, abs(step[c]))
        if largest < _CONVERGED:
            break
    if sensitivities.shape[1] > 0:
        _balance(place, jacobians, room, q, hessian, gradient)
        factorise(hessian)
        _forces(place, jacobians, room, q, sensitivities)
        _solve(hessian, sensitivities)
        of_base = to_base @ sensitivities
        for c in range(m):
            for k in range(of_base.shape[1]):
                sensitivities[c, k] = of_base[c, k]
    return to_base @ q


@njit(cache=True, error_model="numpy")
def force_effects(place: Place, at: Array) -> Array:
    """(N + 2, 3) variance of each rate for forces of unit variance on every wheel: along, across (N), turning (N m).

    `at` (N + 2,) are the rates there. Where wheels slip a force moves the chain far, where friction holds hardly at
    all: an uneven floor disturbs a gait at some of its phases only.
    """
    n = place.links.shape[0]
    m = n + 2
    jacobians, to_base = _wheels(place.links, place.joint_angles, place.parameters)
    hessian, gradient = np.empty((m, m)), np.empty((m, 1))
    q, room = _from_base(to_base, at), _room_axes(place, to_base)
    _balance(place, jacobians, room, q, hessian, gradient)
    factorise(hessian)
    pushed = jacobians.reshape(3 * n, m).T.copy()
    _solve(hessian, pushed)
    pushed = to_base @ pushed
    out = np.zeros((m, 3))
    for i in range(n):
        for a in range(3):
            for c in range(m):
                out[c, a] += pushed[c, 3 * i + a] * pushed[c, 3 * i + a]
    return out


@njit(cache=True, error_model="numpy")
def _balance(place: Place, jacobians: Array, room: Array, q: Array, hessian: Array, gradient: Array) -> float:
    """Gradient (the forces that are left over) and Hessian of the potential that the rates minimise; its value."""
    links, joint_angles, _, controls, slopes, parameters, slip = place
    n = links.shape[0]
    hessian[:] = 0.0
    gradient[:] = 0.0
    potential = 0.0
    for i in range(n):
        own = parameters[WHEEL * i : WHEEL * (i + 1)]
        thrust = links[i, chain.DRAG] * (1.0 + own[GAIN]) * (controls[i] - own[LAG] * slopes[i])
        pull = room @ own[PULL : PULL + 2]
        for a in range(3):
            # Rotation before the wheel's own axes: columns that a link's wheel does not move are zero.
            speed = 0.0
            for c in range(3 + i):
                speed += jacobians[i, a, c] * q[c]
            drag = links[i, chain.DRAG + 4 * a] * size_of(own[DRAG_FACTOR + a], _LEAST_DRAG_FACTOR)[0]
            dry = size_of(own[FRICTION + a])[0]
            root = np.sqrt(speed * speed + slip[a] * slip[a])
            force = drag * speed + dry * speed / root
            potential += 0.5 * drag * speed * speed + dry * root
            given = thrust if a == 0 else 0.0
            if a < 2:
                given += jacobians[i, a, 0] * pull[0] + jacobians[i, a, 1] * pull[1]
            force -= given
            potential -= given * speed
            stiffness = drag + dry * slip[a] * slip[a] / (root * root * root)
            for c in range(3 + i):
                along = jacobians[i, a, c]
                gradient[c, 0] += along * force
                for d in range(c + 1):
                    hessian[c, d] += stiffness * along * jacobians[i, a, d]
    for j in range(n - 1):
        own = parameters[WHEEL * n + JOINT * j : WHEEL * n + JOINT * (j + 1)]
        rate, dry = q[3 + j], size_of(own[JOINT_FRICTION])[0]
        root = np.sqrt(rate * rate + slip[3] * slip[3])
        torque = own[TORQUE] - size_of(own[STIFFNESS])[0] * joint_angles[j]
        gradient[3 + j, 0] += links[j, chain.JOINT_DRAG] * rate + dry * rate / root - torque
        hessian[3 + j, 3 + j] += links[j, chain.JOINT_DRAG] + dry * slip[3] * slip[3] / (root * root * root)
        potential += 0.5 * links[j, chain.JOINT_DRAG] * rate * rate + dry * root - torque * rate
    return potential


@njit(cache=True, error_model="numpy")
def _forces(place: Place, jacobians: Array, room: Array, q: Array, out: Array) -> None:
    """Into `out` (N + 2, parameters) minus the derivatives of the left-over forces by the parameters."""
    links, joint_angles, _, controls, slopes, parameters, slip = place
    n = links.shape[0]
    out[:] = 0.0
    speed, force, stiffness = np.empty(3), np.empty(3), np.empty(3)
    for i in range(n):
        own = parameters[WHEEL * i : WHEEL * (i + 1)]
        asked = controls[i] - own[LAG] * slopes[i]
        for a in range(3):
            speed[a] = 0.0
            for c in range(3 + i):
                speed[a] += jacobians[i, a, c] * q[c]
            root = np.sqrt(speed[a] * speed[a] + slip[a] * slip[a])
            dry, by_friction = size_of(own[FRICTION + a])
            factor, by_factor = size_of(own[DRAG_FACTOR + a], _LEAST_DRAG_FACTOR)
            drag = links[i, chain.DRAG + 4 * a] * factor
            force[a] = drag * speed[a] + dry * speed[a] / root
            stiffness[a] = drag + dry * slip[a] * slip[a] / (root * root * root)
            for c in range(3 + i):
                along = jacobians[i, a, c]
                out[c, WHEEL * i + FRICTION + a] = -by_friction * along * speed[a] / root
                out[c, WHEEL * i + DRAG_FACTOR + a] = -by_factor * along * links[i, chain.DRAG + 4 * a] * speed[a]
        force[0] -= links[i, chain.DRAG] * (1.0 + own[GAIN]) * asked
        for c in range(3 + i):
            along, across = jacobians[i, 0, c], jacobians[i, 1, c]
            out[c, WHEEL * i + GAIN] = along * links[i, chain.DRAG] * asked
            out[c, WHEEL * i + LAG] = -along * links[i, chain.DRAG] * (1.0 + own[GAIN]) * slopes[i]
            # Turning the wheel's axes by a small angle mixes its first two rows: along gets across, across minus along.
            out[c, WHEEL * i + ANGLE] = -(
                across * force[0]
                - along * force[1]
                + along * stiffness[0] * speed[1]
                - across * stiffness[1] * speed[0]
            )
            for axis in range(2):
                shares = jacobians[i, :2, 0] * room[0, axis] + jacobians[i, :2, 1] * room[1, axis]
                out[c, WHEEL * i + PULL + axis] = shares[0] * along + shares[1] * across
    for j in range(n - 1):
        column = WHEEL * n + JOINT * j
        rate = q[3 + j]
        out[3 + j, column + TORQUE] = 1.0
        own = parameters[column : column + JOINT]
        by_stiffness = size_of(own[STIFFNESS])[1]
        by_friction = size_of(own[JOINT_FRICTION])[1]
        out[3 + j, column + STIFFNESS] = -by_stiffness * joint_angles[j]
        out[3 + j, column + JOINT_FRICTION] = -by_friction * rate / np.sqrt(rate * rate + slip[3] * slip[3])
