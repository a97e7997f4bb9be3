"""Compiled quasi-static motion of a chain of links with omniwheels, in O(N) per state.

The paper's equation (5), q' = D(r)^-1 D_u(r) u, assembles an (N + 2)-dimensional system and solves it. The same balance
of drag and thrust can be solved link by link, as the articulated-body algorithm does for inertias (Featherstone, "Rigid
body dynamics algorithms", 2008, chapter 7), with drag matrices in the place of inertias: from the last link to the
first, how the rest of the chain resists the motion of the joint before it; then from the first to the last, the rates.

All twists and wrenches are planar (x, y, rotation) and taken about the origin of link 1, along its axes.

A chain is told to the kernels as one array `links` (N, 16), see the column numbers below; a state as (x, y, heading of
the base frame, joint angles), (N + 2,).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onboard_estimation.filtering.manifold_kernels import wrap

Array = NDArray[np.float64]

LENGTH, WHEEL_X, WHEEL_Y, WHEEL_ANGLE = 0, 1, 2, 3
DRAG = 4  # nine columns, the wheel's drag matrix row by row
JOINT_DRAG, LOWER, UPPER = 13, 14, 15  # of the joint after the link
COLUMNS = 16


@njit(cache=True)
def geometry(links: Array, joint_angles: Array) -> tuple[Array, Array, Array]:
    """Headings (N,), joints (N - 1, 2) and wheel centres (N, 2) in the frame of link 1 (at its centre)."""
    n = links.shape[0]
    headings, joints, wheels = np.empty(n), np.empty((n - 1, 2)), np.empty((n, 2))
    heading = x = y = 0.0
    for i in range(n):
        cosine, sine = np.cos(heading), np.sin(heading)
        half = 0.5 * links[i, LENGTH]
        if i > 0:
            x += half * cosine
            y += half * sine
        headings[i] = heading
        wheels[i, 0] = x + cosine * links[i, WHEEL_X] - sine * links[i, WHEEL_Y]
        wheels[i, 1] = y + sine * links[i, WHEEL_X] + cosine * links[i, WHEEL_Y]
        if i < n - 1:
            x += half * cosine
            y += half * sine
            joints[i, 0], joints[i, 1] = x, y
            heading += joint_angles[i]
    return headings, joints, wheels


@njit(cache=True)
def _resistance(links: Array, link: int, heading: float, wheel: Array, drag: Array) -> tuple[float, float, float]:
    """Into `drag` (3, 3) the link's drag matrix X^T d X; returned, the wrench of a unit rim speed, X^T e_x d_xx."""
    angle = heading + links[link, WHEEL_ANGLE]
    cosine, sine = np.cos(angle), np.sin(angle)
    px, py = wheel[link, 0], wheel[link, 1]
    # Rows of X map the twist about the origin to the wheel's own: forward, sideways, turning.
    forward_turn, side_turn = -cosine * py + sine * px, sine * py + cosine * px
    x = ((cosine, sine, forward_turn), (-sine, cosine, side_turn), (0.0, 0.0, 1.0))
    for a in range(3):
        for b in range(3):
            total = 0.0
            for c in range(3):
                for e in range(3):
                    total += x[c][a] * links[link, DRAG + 3 * c + e] * x[e][b]
            drag[a, b] = total
    thrust = links[link, DRAG]
    return thrust * cosine, thrust * sine, thrust * forward_turn


@njit(cache=True)
def _solve_balance(
    links: Array,
    headings: Array,
    joints: Array,
    wheels: Array,
    controls: Array,
    locked: NDArray[np.bool_],
    rates: Array,
    drives: Array,
) -> tuple[float, float, float]:
    """Twist of link 1 (returned) and joint rates (written) at which thrust and drag balance; locked joints stand.

    Into `drives` the torque (N m) that would turn each joint if it were free to: of a locked one, what its stop bears.
    """
    n = links.shape[0]
    drag, total = np.empty((3, 3)), np.zeros((3, 3))
    bias = np.zeros(3)
    resisted = np.empty((n, 3))  # A S of the joint before the link
    pushed, stiffness = np.empty(n), np.empty(n)  # S^T b and S^T A S + d
    for back in range(n):
        i = n - 1 - back
        fx, fy, ft = _resistance(links, i, headings[i], wheels, drag)
        total += drag
        bias[0] += fx * controls[i]
        bias[1] += fy * controls[i]
        bias[2] += ft * controls[i]
        if i == 0:
            break
        # The joint's unit twist about the origin is (y, -x, 1).
        sx, sy = joints[i - 1, 1], -joints[i - 1, 0]
        for a in range(3):
            resisted[i, a] = total[a, 0] * sx + total[a, 1] * sy + total[a, 2]
        stiffness[i] = sx * resisted[i, 0] + sy * resisted[i, 1] + resisted[i, 2] + links[i - 1, JOINT_DRAG]
        pushed[i] = sx * bias[0] + sy * bias[1] + bias[2]
        if locked[i - 1]:
            continue
        for a in range(3):
            bias[a] -= resisted[i, a] * pushed[i] / stiffness[i]
            for b in range(3):
                total[a, b] -= resisted[i, a] * resisted[i, b] / stiffness[i]
    vx, vy, turn = _solve3(total, bias)
    x, y, w = vx, vy, turn
    for i in range(1, n):
        drive = pushed[i] - resisted[i, 0] * x - resisted[i, 1] * y - resisted[i, 2] * w
        drives[i - 1] = drive
        rate = 0.0 if locked[i - 1] else drive / stiffness[i]
        rates[i - 1] = rate
        x += rate * joints[i - 1, 1]
        y -= rate * joints[i - 1, 0]
        w += rate
    return vx, vy, turn


@njit(cache=True)
def _solve3(a: Array, b: Array) -> tuple[float, float, float]:
    """Solution of a symmetric positive definite 3 x 3 system by Cholesky's factors."""
    l00 = np.sqrt(a[0, 0])
    l10, l20 = a[1, 0] / l00, a[2, 0] / l00
    l11 = np.sqrt(a[1, 1] - l10 * l10)
    l21 = (a[2, 1] - l20 * l10) / l11
    l22 = np.sqrt(a[2, 2] - l20 * l20 - l21 * l21)
    z0 = b[0] / l00
    z1 = (b[1] - l10 * z0) / l11
    z2 = (b[2] - l20 * z0 - l21 * z1) / l22
    x2 = z2 / l22
    x1 = (z1 - l21 * x2) / l11
    return (z0 - l10 * x1 - l20 * x2) / l00, x1, x2


@njit(cache=True)
def velocity_into(links: Array, joint_angles: Array, controls: Array, out: Array) -> float:
    """Into `out` (N + 2,) the base frame's body velocity and the joint rates; returned, link 1's turning rate.

    The base frame is the mean of the wheel positions and of the link headings. A joint at its limit that is driven
    further stands, and the links on both sides move as one. Which joints stand is a linear complementarity problem, for
    one that stands may free another; it is solved by Murty's least-index pivoting, one joint at a time.
    """
    n = links.shape[0]
    headings, joints, wheels = geometry(links, joint_angles)
    locked, drives = np.zeros(n, dtype=np.bool_), np.empty(n)
    rates = out[3:]
    vx = vy = turn = 0.0
    for _ in range(8 * n):  # rounding could make it go round for ever
        vx, vy, turn = _solve_balance(links, headings, joints, wheels, controls, locked, rates, drives)
        wrong = -1
        for j in range(n - 1):
            outward = 0.0
            if joint_angles[j] <= links[j, LOWER]:
                outward = -drives[j]
            elif joint_angles[j] >= links[j, UPPER]:
                outward = drives[j]
            if (outward > 0.0 and not locked[j]) or (outward < 0.0 and locked[j]):
                wrong = j
                break
        if wrong < 0:
            break
        locked[wrong] = not locked[wrong]
    x, y, w = vx, vy, turn
    mean_x = mean_y = mean_w = mean_heading = 0.0
    for i in range(n):
        if i > 0:
            x += rates[i - 1] * joints[i - 1, 1]
            y -= rates[i - 1] * joints[i - 1, 0]
            w += rates[i - 1]
        mean_x += x - w * wheels[i, 1]
        mean_y += y + w * wheels[i, 0]
        mean_w += w
        mean_heading += headings[i]
    cosine, sine = np.cos(mean_heading / n), np.sin(mean_heading / n)
    out[0] = (cosine * mean_x + sine * mean_y) / n
    out[1] = (cosine * mean_y - sine * mean_x) / n
    out[2] = mean_w / n
    return turn


@njit(cache=True)
def velocities(links: Array, joint_angles: Array, controls: Array) -> Array:
    """B(r) u for a batch: (k, N + 2) from joint angles (k, N - 1) and rim speeds (N,), m/s."""
    out = np.empty((joint_angles.shape[0], links.shape[0] + 2))
    for row in range(out.shape[0]):
        velocity_into(links, joint_angles[row], controls, out[row])
    return out


@njit(cache=True)
def control_matrix(links: Array, joint_angles: Array) -> Array:
    """B(r), (N + 2, N): configuration velocity for a unit rim speed of each wheel, joint limits left out."""
    n = links.shape[0]
    free = links.copy()
    free[:, LOWER], free[:, UPPER] = -np.inf, np.inf
    columns = np.empty((n, n + 2))
    unit = np.zeros(n)
    for i in range(n):
        unit[i] = 1.0
        velocity_into(free, joint_angles, unit, columns[i])
        unit[i] = 0.0
    return np.ascontiguousarray(columns.T)


@njit(cache=True)
def gyro_rates(links: Array, points: Array, controls: Array) -> Array:
    """Turning rates (k, N) of all links at the states `points` (k, N + 2), eq. (6)."""
    n = links.shape[0]
    out = np.empty((points.shape[0], n))
    velocity = np.empty(n + 2)
    for row in range(points.shape[0]):
        out[row, 0] = velocity_into(links, points[row, 3:], controls, velocity)
        for i in range(1, n):
            out[row, i] = out[row, i - 1] + velocity[2 + i]
    return out


@njit(cache=True)
def gyro_rate(links: Array, points: Array, controls: Array, link: int) -> Array:
    """Turning rate (k, 1) of one link (counted from zero) at the states `points` (k, N + 2)."""
    out = np.empty((points.shape[0], 1))
    velocity = np.empty(links.shape[0] + 2)
    for row in range(points.shape[0]):
        rate = velocity_into(links, points[row, 3:], controls, velocity)
        for i in range(link):
            rate += velocity[3 + i]
        out[row, 0] = rate
    return out


@njit(cache=True)
def _derivative(links: Array, local: Array, controls: Array, velocity: Array, out: Array) -> None:
    """Time derivative of (x, y, heading, joint angles) in fixed axes; `velocity` is scratch space."""
    velocity_into(links, local[3:], controls, velocity)
    cosine, sine = np.cos(local[2]), np.sin(local[2])
    out[:] = velocity
    out[0] = cosine * velocity[0] - sine * velocity[1]
    out[1] = sine * velocity[0] + cosine * velocity[1]


@njit(cache=True)
def propagate(links: Array, points: Array, controls: Array, duration: float, longest_step: float) -> Array:
    """States (k, N + 2) after `duration` seconds under constant controls: Runge-Kutta, joints kept in limits."""
    n = points.shape[1]
    steps = max(1, int(np.ceil(duration / longest_step - 1e-9)))
    h = duration / steps
    out = points.copy()
    k1, k2, k3, k4 = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    stage, velocity = np.empty(n), np.empty(n)
    for row in range(points.shape[0]):
        state = out[row]
        for _ in range(steps):
            _derivative(links, state, controls, velocity, k1)
            for i in range(n):
                stage[i] = state[i] + 0.5 * h * k1[i]
            _derivative(links, stage, controls, velocity, k2)
            for i in range(n):
                stage[i] = state[i] + 0.5 * h * k2[i]
            _derivative(links, stage, controls, velocity, k3)
            for i in range(n):
                stage[i] = state[i] + h * k3[i]
            _derivative(links, stage, controls, velocity, k4)
            for i in range(n):
                state[i] += h / 6.0 * (k1[i] + 2.0 * k2[i] + 2.0 * k3[i] + k4[i])
            for j in range(n - 3):
                state[3 + j] = min(max(state[3 + j], links[j, LOWER]), links[j, UPPER])
        state[2] = wrap(state[2])
    return out
