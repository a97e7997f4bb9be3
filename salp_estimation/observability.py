"""How well the gyros of a chain see its joint angles: the paper's heuristic, and the observability Gramian.

Andrews et al., "Pose estimation of a thruster-driven bioinspired multi-link robot", 2026, section V-C and figure 8. The
gyros' rates h(r, u) = sum_i h_i(r) u_i, eq. (6), are linear in the rim speeds u.

- **Heuristic** (section V-C): Lambda = |dh/d alpha_j| for one joint j, and the share of each actuator i,
  lambda_i = <dh/d alpha_j, dh_i/d alpha_j u_i> / Lambda, so that Lambda = sum_i lambda_i. It looks at one instant and
  one joint alone: a joint may have a large Lambda and yet be confused with another one. Unit rad/s per rad = 1/s.
- **Gramian**: W(t0, t1) = integral of Phi(t, t0)^T C(t)^T C(t) Phi(t, t0) dt with C = dh/dr. It is no heuristic but
  the observability of the joint angles at t0 in the system linearised about the trajectory, for gyros of equal noise
  and a motion without any. Its smallest eigenvalue belongs to the combination of joint angles seen worst. Unit 1/s.

Differences of neighbouring gyros' rates are the joint rates, so that the linearised transition needs no further
derivative: dr/dt = E h(r, u), A = E C, where row j of E is -1 at gyro j and 1 at gyro j + 1. The joint angles' motion
does not depend on the pose, which the gyros do not see at all.

Joint limits are left out, as in `Chain.control_matrix`: at a limit h is no longer linear in u.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.measurement import Matrix, Vector
from salp_estimation import chain_kernels as kernels
from salp_estimation.chain import Chain

Rows = NDArray[np.float64]
Indices = NDArray[np.int64]

STEP_RAD = 1e-3
"""Step of the five-point differences. Their error is of the order of STEP^4 / 30 = 3e-14 times the fifth derivative and
of rounding / STEP = 1e-12; `test_observability.py` checks the sum against exact derivatives."""
WINDOW_S = 2.0
"""Window of the Gramian: a third of the gaits' period of 6 s."""
_LONGEST_SEGMENT_S = 0.25


@njit(cache=True, error_model="numpy")
def _jacobians(links: Rows, joint_angles: Rows, controls: Rows, joints: Indices, step: float) -> Rows:
    """Columns of C = dh/dr (k, N, joints) by five-point differences, each row under its own controls, no limits."""
    count, n = joint_angles.shape[0], links.shape[0]
    free = kernels.completed(links).copy()
    free[:, kernels.LOWER], free[:, kernels.UPPER] = -np.inf, np.inf
    points = np.zeros((4 * joints.size, n + 2))
    out = np.empty((count, n, joints.size))
    for k in range(count):
        for j, joint in enumerate(joints):
            for s in range(4):  # two steps less, one less, one more and two more
                points[4 * j + s, 3:] = joint_angles[k]
                points[4 * j + s, 3 + joint] += step * (s - 2 if s < 2 else s - 1)
        rates = kernels.gyro_rates(free, points, controls[k], 0.0)
        for j in range(joints.size):
            for g in range(n):
                out[k, g, j] = _difference(rates[4 * j : 4 * j + 4, g], step)
    return out


@njit(cache=True, error_model="numpy")
def _difference(values: Rows, step: float) -> float:
    return float((values[0] - 8.0 * values[1] + 8.0 * values[2] - values[3]) / (12.0 * step))


def measurement_jacobian(chain: Chain, joint_angles: ArrayLike, controls: ArrayLike) -> NDArray[np.float64]:
    """C = dh/dr, the gyros' rates differentiated by the joint angles, eq. (6).

    Parameters
    ----------
    joint_angles
        (K, N - 1), rad.
    controls
        (K, N) rim speeds, m/s.

    Returns
    -------
    (K, N, N - 1), 1/s: row of the gyro, column of the joint. NaN where an input is.

    Raises
    ------
    ValueError
        Shapes that do not fit.
    """
    r, u = _paired(chain, joint_angles, controls)
    return _jacobians(chain.links, r, u, np.arange(chain.link_count - 1), STEP_RAD)


def heuristic(chain: Chain, joint_angles: ArrayLike, controls: ArrayLike, joint: int) -> tuple[Vector, Matrix]:
    """Lambda (K,) and lambda_i (K, N) of one joint, 1/s (section V-C).

    Where Lambda is zero, as without any control, all lambda_i are zero. NaN where an input is.

    Parameters
    ----------
    joint_angles, controls
        (K, N - 1) rad and (K, N) rim speeds, m/s.
    joint
        Number of the joint, counted from zero.

    Raises
    ------
    ValueError
        Shapes that do not fit, or no such joint.
    """
    r, u = _paired(chain, joint_angles, controls)
    if not 0 <= joint < chain.link_count - 1:
        raise ValueError(f"no joint {joint}: the chain has {chain.link_count - 1}, counted from zero")
    only = np.array([joint])
    units = (np.tile(one, (len(u), 1)) for one in np.eye(chain.link_count))
    by_unit = np.stack([_jacobians(chain.links, r, one, only, STEP_RAD)[:, :, 0] for one in units], axis=1)
    parts = by_unit * u[:, :, None]
    whole = parts.sum(axis=1)
    total: Vector = np.linalg.norm(whole, axis=1)
    direction = np.divide(whole, total[:, None], out=np.zeros_like(whole), where=total[:, None] != 0.0)
    return total, np.einsum("kg,kig->ki", direction, parts)


def gramians(
    chain: Chain, time_s: ArrayLike, joint_angles: ArrayLike, controls: ArrayLike, window_s: float = WINDOW_S
) -> NDArray[np.float64]:
    """Observability Gramians W(t - window, t) of the joint angles, for the window that ends at each instant.

    Parameters
    ----------
    time_s
        (K,) increasing.
    joint_angles, controls
        (K, N - 1) rad and (K, N) m/s: the trajectory that the system is linearised about.
    window_s
        Length of the window, above zero.

    Returns
    -------
    (K, N - 1, N - 1), 1/s. NaN where the window begins before the first instant, holds a NaN, or has instants more than
    0.25 s apart, over which the integral would be a guess. The effort grows with K, the instants in a window, and N^3.

    Raises
    ------
    ValueError
        Shapes that do not fit, time that does not increase, or no window.
    """
    r, u = _paired(chain, joint_angles, controls)
    time = np.ascontiguousarray(time_s, dtype=np.float64)
    if time.shape != (len(r),) or not (np.diff(time) > 0.0).all():
        raise ValueError(f"expected {len(r)} increasing times, got shape {time.shape}")
    if not window_s > 0.0:
        raise ValueError(f"the window must be longer than zero, got {window_s} s")
    return _gramians(time, measurement_jacobian(chain, r, u), window_s)


def _gramians(time: Vector, jacobians: Rows, window_s: float) -> Rows:
    """Gramians (K, n, n) from C (K, N, n), which is taken as piecewise linear.

    Windows grow backwards, all at once: W(t', t) = W(t', t'') + Phi(t'', t')^T W(t'', t) Phi(t'', t').
    """
    count, n = len(time), jacobians.shape[2]
    total = np.zeros((count, n, n))
    duration = np.diff(time)
    own, transitions = _segments(jacobians[:-1], jacobians[1:], duration)
    own[duration > _LONGEST_SEGMENT_S] = np.nan
    begin = time - window_s
    total[time[0] > begin + 1e-9 * window_s] = np.nan
    ends = np.flatnonzero(np.isfinite(total[:, 0, 0]))  # of windows that still grow, by the segment before
    back = 1
    while len(ends):
        first = ends - back
        whole = time[first] >= begin[ends]
        grown, cut = ends[whole], ends[~whole]
        if len(cut):
            # The window starts within this segment.
            k = cut - back
            share = ((begin[cut] - time[k]) / duration[k])[:, None, None]
            start = (1.0 - share) * jacobians[k] + share * jacobians[k + 1]
            piece, across = _segments(start, jacobians[k + 1], time[k + 1] - begin[cut])
            piece[duration[k] > _LONGEST_SEGMENT_S] = np.nan
            total[cut] = piece + across.swapaxes(1, 2) @ total[cut] @ across
        k = grown - back
        total[grown] = own[k] + transitions[k].swapaxes(1, 2) @ total[grown] @ transitions[k]
        # At the very first instant a window may be short by a rounding error.
        ends = grown[(time[k] > begin[grown]) & (k > 0)]
        back += 1
    return total


def _segments(before: Rows, after: Rows, duration: Vector) -> tuple[Rows, Rows]:
    """Gramian and transition Phi of pieces of the trajectory (k, n, n), with C (k, N, n) at their ends.

    Both of second order: the trapezoid, and the Cayley form with A = E C at the middle.
    """
    half = 0.25 * duration[:, None, None] * np.diff(before + after, axis=1)
    identity = np.eye(before.shape[2])
    transition = np.linalg.solve(identity - half, identity + half)
    then = after @ transition
    seen = before.swapaxes(1, 2) @ before + then.swapaxes(1, 2) @ then
    gramian: Rows = 0.5 * duration[:, None, None] * seen
    return gramian, np.asarray(transition, dtype=np.float64)


def smallest_eigenvalues(matrices: NDArray[np.float64]) -> Vector:
    """(K,) smallest eigenvalues of symmetric matrices (K, n, n); NaN where a matrix holds a NaN."""
    known = np.isfinite(matrices).all(axis=(1, 2))
    out: Vector = np.full(len(matrices), np.nan)
    out[known] = np.linalg.eigvalsh(matrices[known])[:, 0]
    return out


def _paired(chain: Chain, joint_angles: ArrayLike, controls: ArrayLike) -> tuple[Matrix, Matrix]:
    r = np.ascontiguousarray(joint_angles, dtype=np.float64)
    u = np.ascontiguousarray(controls, dtype=np.float64)
    n = chain.link_count
    if r.ndim != 2 or r.shape[1] != n - 1 or u.shape != (len(r), n):
        raise ValueError(
            f"expected joint angles (K, {n - 1}) and controls (K, {n}), got shapes {r.shape} and {u.shape}"
        )
    return r, u
