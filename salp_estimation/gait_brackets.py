"""What a small cycle of thrusts does to a chain, to first order: Lie brackets of the columns of B(r) and averaging.

A cycle whose mean is zero moves the chain by the area that it encloses in each plane of two wheels times the bracket of
these two wheels' vector fields; a constant thrust adds its own motion (Yang et al., "Geometric data-driven multi-jet
locomotion inspired by salps", 2025, as the paper takes it up in section III-B). N wheels have N directions of their own
and up to N (N - 1) / 2 brackets; pose and shape have N + 2 dimensions.

Vectors of N + 2 numbers are motions in the base frame: forward, left (m), turning (rad), then the joint angles (rad).
Where they stand for the motion of a cycle they are exponential coordinates: the constant velocity that gives it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space, orth
from scipy.optimize import minimize

from onboard_estimation.errors import UserError
from onboard_estimation.measurement import Matrix, Vector
from salp_estimation.chain import Chain
from salp_estimation.gaits import Gait

_ANGLE_STEP_RAD = 1e-4
_REACHED = 0.05
"""Share of a motion that the brackets may miss, for the fit to make up; more counts as a direction that they lack."""


def lie_brackets(chain: Chain, joint_angles: Vector) -> NDArray[np.float64]:
    """Brackets (N, N, N + 2) of the vector fields of wheels i and j at the joint angles (N - 1,), per (m/s)^2.

    Four small moves, i, j, back i and back j, each for the time e, end at e^2 [i, j]. For left-invariant fields on
    SE(2) the bracket is the commutator of the body velocities, and the fields' change with the shape comes on top.
    """
    control = chain.control_matrix(joint_angles)
    steps = _ANGLE_STEP_RAD * np.eye(chain.link_count - 1)
    slopes = np.array(
        [chain.control_matrix(joint_angles + step) - chain.control_matrix(joint_angles - step) for step in steps]
    ) / (2.0 * _ANGLE_STEP_RAD)
    along = np.einsum("ki,kaj->ija", control[3:], slopes)  # change of field j along field i
    out = along - along.swapaxes(0, 1)
    x, y, turning = control[:3]
    out[..., 0] += np.outer(y, turning) - np.outer(turning, y)
    out[..., 1] += np.outer(turning, x) - np.outer(x, turning)
    return np.asarray(out, dtype=np.float64)


def enclosed_areas(gait: Gait) -> Matrix:
    """(N, N) signed areas, m^2, that the distances run by wheels i and j enclose in a cycle; antisymmetric."""
    sine, cosine = np.array(gait.sine), np.array(gait.cosine)
    areas = gait.period_s**2 / (4.0 * np.pi) * (np.outer(cosine, sine) - np.outer(sine, cosine))
    return np.asarray(areas, dtype=np.float64)


def first_order_motion(chain: Chain, gait: Gait, joint_angles: Vector) -> NDArray[np.float64]:
    """Exponential coordinates (N + 2,) of a cycle: its constant thrust, and its areas times the brackets."""
    constant = gait.period_s * chain.control_matrix(joint_angles) @ np.array(gait.offset)
    brackets = np.einsum("ij,ija->a", enclosed_areas(gait), lie_brackets(chain, joint_angles))
    return np.asarray(constant + 0.5 * brackets, dtype=np.float64)


def first_guess(chain: Chain, twist: Vector, period_s: float, joint_angles: Vector) -> Gait:
    """The gait of least harmonic effort that gives a motion to first order.

    What no constant thrust can do is left to the brackets: a loop in the plane of thrusts whose bracket does it with
    the least area. The plane belongs to the largest singular value of a combination of the brackets, and the
    combination follows from a convex problem, the dual of: least area, subject to the motion.

    Parameters
    ----------
    twist
        (3,) exponential coordinates of the body's motion in a cycle; the shape is to come back.

    Raises
    ------
    UserError
        Thrusts and brackets together lack a direction that the motion needs.
    """
    count = chain.link_count
    wanted = np.concatenate([twist, np.zeros(count - 1)])
    control, brackets = chain.control_matrix(joint_angles), lie_brackets(chain, joint_angles)
    missing = null_space(control.T)  # (N + 2, d): what no constant thrust does
    needed = missing.T @ wanted
    if np.linalg.norm(needed) < 1e-9 * np.linalg.norm(wanted):
        return _with_offset(control, wanted, np.zeros((2, count)), brackets, period_s)
    # Motion per unit of Ac_i As_j, in the directions needed: (d, N, N), antisymmetric.
    forms = period_s**2 / (4.0 * np.pi) * np.einsum("ijq,qd->dij", brackets, missing)
    # From here on in the directions that the brackets have; the fit makes up for the little that may be left out.
    reached = _reached(forms, needed, wanted)
    forms, needed = np.einsum("dij,dr->rij", forms, reached), reached.T @ needed
    aside = null_space(needed[None])  # weights needed + aside y value the wanted motion alike

    def combination(y: Vector) -> Matrix:
        return np.asarray(np.tensordot(needed + aside @ y, forms, 1), dtype=np.float64)

    y = np.zeros(aside.shape[1])
    if y.size:
        simplex = np.vstack([y, np.linalg.norm(needed) * np.eye(y.size)])
        options = {"initial_simplex": simplex}
        y = minimize(lambda y: np.linalg.norm(combination(y), 2), y, method="Nelder-Mead", options=options).x
    left, values, right = np.linalg.svd(combination(y))
    amplitude = np.linalg.norm(needed) / np.sqrt(values[0])
    return _with_offset(control, wanted, amplitude * np.array([right[0], left[:, 0]]), brackets, period_s)


def _with_offset(control: Matrix, wanted: Vector, harmonics: Matrix, brackets: Matrix, period_s: float) -> Gait:
    """The gait with these sines and cosines (2, N) and the constant thrust that makes up for the rest of the motion."""
    sine, cosine = harmonics
    loop = Gait((0.0,) * len(sine), tuple(sine.tolist()), tuple(cosine.tolist()), period_s)
    rest = wanted - 0.5 * np.einsum("ij,ija->a", enclosed_areas(loop), brackets)
    offset = np.linalg.lstsq(control * period_s, rest, rcond=None)[0]
    return Gait(tuple(offset.tolist()), loop.sine, loop.cosine, period_s)


def _reached(forms: NDArray[np.float64], needed: Vector, wanted: Vector) -> Matrix:
    """(d, rank) orthonormal directions that the brackets have; UserError where they leave out a part of the motion."""
    first, second = np.triu_indices(forms.shape[1], 1)
    directions = orth(forms[:, first, second], rcond=1e-9)
    lacking = float(np.linalg.norm(needed - directions @ (directions.T @ needed)) / np.linalg.norm(needed))
    if lacking > _REACHED:
        count = forms.shape[1]
        x, y, turn = 100.0 * wanted[0], 100.0 * wanted[1], np.rad2deg(wanted[2])
        raise UserError(
            f"no gait for {x:.3g} cm forward, {y:.3g} cm left and {turn:.3g} deg a cycle: pose and shape have "
            f"{count + 2} directions, of which {count} wheels drive {count + 2 - len(needed)} and their Lie brackets "
            f"add {directions.shape[1]}; {100.0 * lacking:.0f} % of what the brackets would have to do is out of "
            "reach. Ask for another motion, or turn the wheels otherwise (chain.wheel_angles_deg)"
        )
    return np.asarray(directions, dtype=np.float64)
