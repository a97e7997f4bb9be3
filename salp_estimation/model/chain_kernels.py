"""Compiled quasi-static motion of a chain of links with omniwheels, in O(N) per state, for batches of states.

The paper's equation (5), q' = D(r)^-1 D_u(r) u, assembles an (N + 2)-dimensional system and solves it. The same balance
of drag and thrust can be solved link by link, as the articulated-body algorithm does for inertias (Featherstone, "Rigid
body dynamics algorithms", 2008, chapter 7), with drag matrices in the place of inertias: from the last link to the
first, how the rest of the chain resists the motion of the joint before it; then from the first to the last, the rates.

All twists and wrenches are planar (x, y, rotation), of a link about its rear end and along its own axes. There a link's
drag matrix is constant and a joint's twist is (0, 0, 1).

Each step is a chain of dependent sums that leaves a processor waiting, so up to LANES states are solved side by side:
every quantity is a row with one number a state, and the innermost loops run along these rows, which the compiler turns
into vector instructions. It does so only where it sees that rows do not overlap: hence flat scratch arrays with rows at
fixed offsets, and slices taken outside the loops.

A chain is told to the kernels as one array `links` (N, 27), see the column numbers below; the last eleven, which follow
from the others, may be zero and are then computed at every call. A state is (x, y, heading of the base frame, joint
angles), (N + 2,).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onboard_estimation.filtering.manifold_kernels import sine_cosine, wrap

Array = NDArray[np.float64]

LENGTH, WHEEL_X, WHEEL_Y, WHEEL_ANGLE = 0, 1, 2, 3
DRAG = 4  # nine columns, the wheel's drag matrix row by row
JOINT_DRAG, LOWER, UPPER = 13, 14, 15  # of the joint after the link
# What `completed` adds, all about the link's rear end: its drag matrix, its wrench at unit rim speed, its wheel.
DRAG_XX, DRAG_XY, DRAG_YY, DRAG_XT, DRAG_YT, DRAG_TT = range(16, 22)
THRUST_X, THRUST_Y, THRUST_T, PLACE_X, PLACE_Y = range(22, 27)
COLUMNS = 27

LANES = 16
"""States side by side: two vectors of the widest processors, so that one is computed while the other waits."""

# Offsets of the rows of `work`. Towards the base: drag matrix and wrench of the rest of the chain. Away from it: twist
# of a link, cosine and sine of its heading seen from link 1, sums over all wheels, whether a joint was taken wrongly.
_XX, _XY, _YY, _XT, _YT, _TT, _FX, _FY, _FT = range(0, 9 * LANES, LANES)
_VX, _VY, _TURN, _COSINE, _SINE, _SUM_X, _SUM_Y, _SUM_TURN, _WRONG = range(9 * LANES, 18 * LANES, LANES)
_WORK = 18 * LANES

# Offsets of the rows that `joints` has for the joint before each link: sine and cosine of its angle; the rates, slowest
# and fastest, at which it stays within its limits; one where it is free, zero where a limit holds it, and the rate at
# which it is held then, else zero. The moment that would turn it is MOMENT less COLUMN times the twist of the link
# before; its rate is that moment times YIELD, which is zero where it is held, and the rate at which it is held. RESIST
# is the moment that a unit rate of it takes.
_ANGLE_SINE, _ANGLE_COSINE, _SLOWEST, _FASTEST, _FREE, _HELD = range(0, 6 * LANES, LANES)
_MOMENT, _COLUMN_X, _COLUMN_Y, _COLUMN_T, _YIELD, _RESIST, _RATE = range(6 * LANES, 13 * LANES, LANES)
_JOINT = 13 * LANES


@njit(cache=True, error_model="numpy")
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


@njit(cache=True, error_model="numpy")
def wheel_jacobians(links: Array, joint_angles: Array, turned: Array) -> tuple[Array, Array]:
    """Twists of the wheels and of the base frame from the rates of link 1 (at its centre, its axes) and of the joints.

    Wheels are mounted turned further by `turned` (N,), rad.

    Returns
    -------
    (N, 3, N + 2) of the wheels, each along its own axes, and (N + 2, N + 2) of the base frame and joints.
    """
    n = links.shape[0]
    headings, joints, wheels = geometry(links, joint_angles)
    jacobians, to_base = np.zeros((n, 3, n + 2)), np.zeros((n + 2, n + 2))
    share = 1.0 / n
    mean_heading = 0.0
    for i in range(n):
        mean_heading += share * headings[i]
    for i in range(n):
        heading = headings[i] + links[i, WHEEL_ANGLE] + turned[i]
        c, s = np.cos(heading), np.sin(heading)
        jacobians[i, 0, 0], jacobians[i, 0, 1] = c, s
        jacobians[i, 1, 0], jacobians[i, 1, 1] = -s, c
        to_base[0, 0] += share
        to_base[1, 1] += share
        for column in range(2, 3 + i):
            x, y = wheels[i, 0], wheels[i, 1]
            if column > 2:
                x -= joints[column - 3, 0]
                y -= joints[column - 3, 1]
            jacobians[i, 0, column] = s * x - c * y
            jacobians[i, 1, column] = c * x + s * y
            jacobians[i, 2, column] = 1.0
            to_base[0, column] -= share * y
            to_base[1, column] += share * x
            to_base[2, column] += share
    c, s = np.cos(mean_heading), np.sin(mean_heading)
    for column in range(n + 2):
        x, y = to_base[0, column], to_base[1, column]
        to_base[0, column], to_base[1, column] = c * x + s * y, c * y - s * x
        if column > 2:
            to_base[column, column] = 1.0
    return jacobians, to_base


@njit(cache=True, error_model="numpy")
def completed(links: Array) -> Array:
    """The links with drag X^T d X, eq. (3), and thrust X^T e_x d_xx, eq. (4); as they are where they have them."""
    if links[0, DRAG_XX] > 0.0:
        return links
    out = links.copy()
    for i in range(links.shape[0]):
        s, c = sine_cosine(links[i, WHEEL_ANGLE])
        px, py = 0.5 * links[i, LENGTH] + links[i, WHEEL_X], links[i, WHEEL_Y]
        # X maps the link's twist to the wheel's own (forward, sideways, turning): (c, s, ft), (-s, c, st), (0, 0, 1).
        ft, st = s * px - c * py, c * px + s * py
        d00, d01, d02 = links[i, DRAG], links[i, DRAG + 1], links[i, DRAG + 2]
        d11, d12, d22 = links[i, DRAG + 4], links[i, DRAG + 5], links[i, DRAG + 8]
        # The first two rows of X^T d
        x0, x1, x2 = c * d00 - s * d01, c * d01 - s * d11, c * d02 - s * d12
        y0, y1, y2 = s * d00 + c * d01, s * d01 + c * d11, s * d02 + c * d12
        out[i, DRAG_XX], out[i, DRAG_XY], out[i, DRAG_YY] = x0 * c - x1 * s, x0 * s + x1 * c, y0 * s + y1 * c
        out[i, DRAG_XT], out[i, DRAG_YT] = x0 * ft + x1 * st + x2, y0 * ft + y1 * st + y2
        out[i, DRAG_TT] = ft * (d00 * ft + 2.0 * (d01 * st + d02)) + st * (d11 * st + 2.0 * d12) + d22
        out[i, THRUST_X], out[i, THRUST_Y], out[i, THRUST_T] = d00 * c, d00 * s, d00 * ft
        out[i, PLACE_X], out[i, PLACE_Y] = px, py
    return out


@njit(cache=True, error_model="numpy")
def unlimited(links: Array) -> Array:
    """The links, completed, with joints that turn freely."""
    free = completed(links).copy()
    free[:, LOWER], free[:, UPPER] = -np.inf, np.inf
    return free


@njit(cache=True, error_model="numpy")
def _velocity(
    links: Array, states: Array, controls: Array, joints: Array, work: Array, out: Array, within_s: float
) -> None:
    """Into `out` (N + 3, count) the time derivative of the states (N + 2, count), and turning rates of link 1.

    The position's is along the axes that headings refer to. A joint at its limit that is driven further stands, and
    the links on both sides move as one; before its limit it is no faster than gets it there `within_s`, as in the
    time-stepping of Stewart and Trinkle (1996). Which joints are held is a linear complementarity problem, for one that
    is held may free another; it is solved by Murty's least-index pivoting, one joint at a time.
    """
    n, count = links.shape[0], states.shape[1]
    for i in range(1, n):
        joint = joints[i * _JOINT : (i + 1) * _JOINT]
        lower, upper = links[i - 1, LOWER], links[i - 1, UPPER]
        for k in range(count):
            angle = states[2 + i, k]
            joint[_ANGLE_SINE + k], joint[_ANGLE_COSINE + k] = sine_cosine(angle)
            # At a limit 0 / 0 is to be 0.
            joint[_SLOWEST + k] = min((lower - angle) / within_s, 0.0) if angle > lower else 0.0
            joint[_FASTEST + k] = max((upper - angle) / within_s, 0.0) if angle < upper else 0.0
            joint[_FREE + k], joint[_HELD + k] = 1.0, 0.0
    for _ in range(8 * n):  # rounding could make it go round for ever
        _gather(links, controls, joints, count, work)
        _solve_base(links, controls[0], count, work)
        for k in range(count):
            out[n + 2, k] = work[_TURN + k]
        if not _spread(links, joints, count, work):
            break
    share = 1.0 / n
    for k in range(count):
        mean_heading = 0.0
        for i in range(1, n):
            mean_heading += share * (n - i) * states[2 + i, k]
        # From the axes of link 1 to those of the base frame, then to the fixed ones.
        s, c = sine_cosine(states[2, k] - mean_heading)
        out[0, k] = share * (c * work[_SUM_X + k] - s * work[_SUM_Y + k])
        out[1, k] = share * (s * work[_SUM_X + k] + c * work[_SUM_Y + k])
        out[2, k] = share * work[_SUM_TURN + k]
    for i in range(1, n):
        joint = joints[i * _JOINT : (i + 1) * _JOINT]
        for k in range(count):
            out[2 + i, k] = joint[_RATE + k]


@njit(cache=True, error_model="numpy")
def _gather(links: Array, controls: Array, joints: Array, count: int, work: Array) -> None:
    """Into the rows `_XX` to `_FT`, drag matrix and wrench of the whole chain but link 1 at the rear end of link 1."""
    for k in range(_FT + LANES):
        work[k] = 0.0
    for i in range(links.shape[0] - 1, 0, -1):
        joint = joints[i * _JOINT : (i + 1) * _JOINT]
        u, length, joint_drag = controls[i], links[i - 1, LENGTH], links[i - 1, JOINT_DRAG]
        drag_xx, drag_xy, drag_yy = links[i, DRAG_XX], links[i, DRAG_XY], links[i, DRAG_YY]
        drag_xt, drag_yt, drag_tt = links[i, DRAG_XT], links[i, DRAG_YT], links[i, DRAG_TT]
        thrust_x, thrust_y, thrust_t = u * links[i, THRUST_X], u * links[i, THRUST_Y], u * links[i, THRUST_T]
        for k in range(count):
            xx, xy, yy = work[_XX + k] + drag_xx, work[_XY + k] + drag_xy, work[_YY + k] + drag_yy
            xt, yt, tt = work[_XT + k] + drag_xt, work[_YT + k] + drag_yt, work[_TT + k] + drag_tt
            fx, fy, ft = work[_FX + k] + thrust_x, work[_FY + k] + thrust_y, work[_FT + k] + thrust_t
            # Into the axes of the link before, still about the joint.
            c, s = joint[_ANGLE_COSINE + k], joint[_ANGLE_SINE + k]
            ax, ay, bx, by = c * xx - s * xy, c * xy - s * yy, s * xx + c * xy, s * xy + c * yy
            xx, xy, yy = c * ax - s * ay, s * ax + c * ay, s * bx + c * by
            ex, ey = c * xt - s * yt, s * xt + c * yt
            fx, fy = c * fx - s * fy, s * fx + c * fy
            joint[_MOMENT + k], joint[_RESIST + k] = ft, tt + joint_drag
            give = joint[_FREE + k] / (tt + joint_drag)
            # From the front to the rear end of the link before. The column (ex, ey, et) is the wrench that a turn of
            # the joint meets; a free joint turns until its own drag takes up the moment: so much is not felt before it.
            xt, yt, et, ft = ex + length * xy, ey + length * yy, tt + length * ey, ft + length * fy
            tt += length * (ey + yt)
            joint[_COLUMN_X + k], joint[_COLUMN_Y + k], joint[_COLUMN_T + k], joint[_YIELD + k] = ex, ey, et, give
            turned, gx, gy, gt = give * joint[_MOMENT + k] + joint[_HELD + k], give * ex, give * ey, give * et
            work[_XX + k], work[_XY + k], work[_YY + k] = xx - gx * ex, xy - gx * ey, yy - gy * ey
            work[_XT + k], work[_YT + k], work[_TT + k] = xt - gx * et, yt - gy * et, tt - gt * et
            work[_FX + k], work[_FY + k], work[_FT + k] = fx - turned * ex, fy - turned * ey, ft - turned * et


@njit(cache=True, error_model="numpy")
def _solve_base(links: Array, control: float, count: int, work: Array) -> None:
    """Twist of link 1 at its rear end, from the rows `_XX` to `_FT` (L D L^T of a 3 x 3 matrix); starts the sums."""
    place_x, place_y = links[0, PLACE_X], links[0, PLACE_Y]
    drag_xx, drag_xy, drag_yy = links[0, DRAG_XX], links[0, DRAG_XY], links[0, DRAG_YY]
    drag_xt, drag_yt, drag_tt = links[0, DRAG_XT], links[0, DRAG_YT], links[0, DRAG_TT]
    thrust_x, thrust_y = control * links[0, THRUST_X], control * links[0, THRUST_Y]
    thrust_t = control * links[0, THRUST_T]
    for k in range(count):
        xx, xy, yy = work[_XX + k] + drag_xx, work[_XY + k] + drag_xy, work[_YY + k] + drag_yy
        xt, yt, tt = work[_XT + k] + drag_xt, work[_YT + k] + drag_yt, work[_TT + k] + drag_tt
        fx, fy, ft = work[_FX + k] + thrust_x, work[_FY + k] + thrust_y, work[_FT + k] + thrust_t
        l10, l20 = xy / xx, xt / xx
        yy, yt, fy = yy - l10 * xy, yt - l20 * xy, fy - l10 * fx
        l21 = yt / yy
        turn = (ft - l20 * fx - l21 * fy) / (tt - l20 * xt - l21 * yt)
        vy = fy / yy - l21 * turn
        vx = fx / xx - l10 * vy - l20 * turn
        work[_VX + k], work[_VY + k], work[_TURN + k] = vx, vy, turn
        work[_COSINE + k], work[_SINE + k] = 1.0, 0.0
        work[_SUM_X + k], work[_SUM_Y + k], work[_SUM_TURN + k] = vx - turn * place_y, vy + turn * place_x, turn
        work[_WRONG + k] = 0.0


@njit(cache=True, error_model="numpy")
def _spread(links: Array, joints: Array, count: int, work: Array) -> bool:
    """Into `joints` their rates, into `work` the sums over all wheels; true where another set of joints must stand."""
    for i in range(1, links.shape[0]):
        joint = joints[i * _JOINT : (i + 1) * _JOINT]
        length = links[i - 1, LENGTH]
        place_x, place_y = links[i, PLACE_X], links[i, PLACE_Y]
        for k in range(count):
            x, y, turn = work[_VX + k], work[_VY + k], work[_TURN + k]
            met = joint[_COLUMN_X + k] * x + joint[_COLUMN_Y + k] * y + joint[_COLUMN_T + k] * turn
            free, held, slowest, fastest = joint[_FREE + k], joint[_HELD + k], joint[_SLOWEST + k], joint[_FASTEST + k]
            moment = joint[_MOMENT + k] - met - joint[_RESIST + k] * held
            rate = joint[_YIELD + k] * moment + held
            joint[_RATE + k] = rate
            # Murty's pivoting: the first joint that is too fast, or held and driven in, is turned over.
            # `&` and `|`, because `and` and `or` would branch.
            back = ((moment > 0.0) & (held < fastest)) | ((moment < 0.0) & (held > slowest))
            wrong = ((free == 1.0) & ((rate > fastest) | (rate < slowest))) | ((free == 0.0) & back)
            turned = wrong & (work[_WRONG + k] == 0.0)
            joint[_HELD + k] = (0.0 if free == 0.0 else (fastest if rate > fastest else slowest)) if turned else held
            joint[_FREE + k] = 1.0 - free if turned else free
            work[_WRONG + k] = 1.0 if wrong else work[_WRONG + k]
            c, s = joint[_ANGLE_COSINE + k], joint[_ANGLE_SINE + k]
            y += length * turn
            vx, vy, turn = c * x + s * y, c * y - s * x, turn + rate
            work[_VX + k], work[_VY + k], work[_TURN + k] = vx, vy, turn
            c, s = work[_COSINE + k] * c - work[_SINE + k] * s, work[_SINE + k] * c + work[_COSINE + k] * s
            work[_COSINE + k], work[_SINE + k] = c, s
            x, y = vx - turn * place_y, vy + turn * place_x
            work[_SUM_X + k] += c * x - s * y
            work[_SUM_Y + k] += s * x + c * y
            work[_SUM_TURN + k] += turn
    wrongs = 0.0
    for k in range(count):
        wrongs += work[_WRONG + k]
    return wrongs > 0.0


@njit(cache=True, error_model="numpy")
def _space(links: Array, states: int) -> tuple[Array, Array, Array, Array]:
    """Room for so many states (N + 2, count), heading zero, for their derivatives (N + 3, count), `joints` and `work`.

    One state is solved alone, more in whole vectors of eight, up to LANES at a time.
    """
    n, count = links.shape[0], 1 if states < 2 else min(LANES, (states + 7) // 8 * 8)
    space = np.empty((n + 2, count))
    for k in range(count):
        space[2, k] = 0.0
    return space, np.empty((n + 3, count)), np.empty(n * _JOINT), np.empty(_WORK)


@njit(cache=True, error_model="numpy")
def _load(points: Array, first: int, states: Array, skipped: int) -> None:
    """Rows of `points` from `first` on into the columns of `states`, below its first `skipped` rows.

    Columns beyond the last row repeat it.
    """
    for k in range(states.shape[1]):
        row = min(first + k, points.shape[0] - 1)
        for j in range(points.shape[1]):
            states[skipped + j, k] = points[row, j]


@njit(cache=True, error_model="numpy")
def _store(columns: Array, points: Array, first: int) -> None:
    """The columns into the rows of `points` from `first` on."""
    for k in range(min(columns.shape[1], points.shape[0] - first)):
        for j in range(points.shape[1]):
            points[first + k, j] = columns[j, k]


@njit(cache=True, error_model="numpy")
def velocities(links: Array, joint_angles: Array, controls: Array) -> Array:
    """B(r) u for a batch: (k, N + 2) from joint angles (k, N - 1) and rim speeds (N,), m/s.

    The base frame is the mean of the wheel positions and of the link headings; its velocity is along its own axes.
    """
    links = completed(links)
    out = np.empty((joint_angles.shape[0], links.shape[0] + 2))
    states, rates, joints, work = _space(links, out.shape[0])
    for first in range(0, out.shape[0], states.shape[1]):
        _load(joint_angles, first, states, 3)
        _velocity(links, states, controls, joints, work, rates, 0.0)
        _store(rates, out, first)
    return out


@njit(cache=True, error_model="numpy")
def control_matrix(links: Array, joint_angles: Array) -> Array:
    """B(r), (N + 2, N): configuration velocity for a unit rim speed of each wheel, joint limits left out."""
    n = links.shape[0]
    free = unlimited(links)
    states, rates, joints, work = _space(links, 1)
    _load(joint_angles.reshape(1, -1), 0, states, 3)
    out = np.empty((n + 2, n))
    unit = np.zeros(n)
    for i in range(n):
        unit[i] = 1.0
        _velocity(free, states, unit, joints, work, rates, 0.0)
        unit[i] = 0.0
        for j in range(n + 2):
            out[j, i] = rates[j, 0]
    return out


@njit(cache=True, error_model="numpy")
def gyro_rates(links: Array, points: Array, controls: Array, within_s: float) -> Array:
    """Turning rates (k, N) of all links at the states `points` (k, N + 2), eq. (6).

    Joints slow down before their limits if they would pass them `within_s`: rates that jump at a limit make a filter
    take the scatter of its sigma points, some held and some not, for what its gyros tell.
    """
    n = links.shape[0]
    links = completed(links)
    out = np.empty((points.shape[0], n))
    states, rates, joints, work = _space(links, out.shape[0])
    for first in range(0, out.shape[0], states.shape[1]):
        _load(points, first, states, 0)
        _velocity(links, states, controls, joints, work, rates, within_s)
        for i in range(n):
            for k in range(states.shape[1]):
                rates[i, k] = rates[n + 2, k] if i == 0 else rates[i - 1, k] + rates[2 + i, k]
        _store(rates, out, first)
    return out


@njit(cache=True, error_model="numpy")
def propagate(links: Array, points: Array, controls: Array, duration: float, longest_step: float) -> Array:
    """States (k, N + 2) after `duration` seconds under constant controls: Runge-Kutta, joints kept in limits."""
    n = links.shape[0]
    steps = max(1, int(np.ceil(duration / longest_step - 1e-9)))
    h = duration / steps
    links = completed(links)
    states, slopes, joints, work = _space(links, points.shape[0])
    stages, sums = np.empty_like(states), np.empty_like(states)
    out = np.empty_like(points)
    count = states.shape[1]
    for first in range(0, out.shape[0], count):
        _load(points, first, states, 0)
        for _ in range(steps):
            # A slice that is assigned takes numba seconds to compile, for the message of its error.
            for j in range(n + 2):
                for k in range(count):
                    stages[j, k], sums[j, k] = states[j, k], 0.0
            for weight, ahead in ((1.0, 0.5), (2.0, 0.5), (2.0, 1.0), (1.0, 0.0)):
                _velocity(links, stages, controls, joints, work, slopes, h)
                for j in range(n + 2):
                    for k in range(count):
                        sums[j, k] += weight * slopes[j, k]
                        stages[j, k] = states[j, k] + ahead * h * slopes[j, k]
            for j in range(n + 2):
                lower, upper = (links[j - 3, LOWER], links[j - 3, UPPER]) if j > 2 else (-np.inf, np.inf)
                for k in range(count):
                    states[j, k] = min(max(states[j, k] + h / 6.0 * sums[j, k], lower), upper)
        for k in range(count):
            states[2, k] = wrap(states[2, k])
        _store(states, out, first)
    return out
