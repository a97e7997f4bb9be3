"""Gaits for any chain: the least effort that moves the body as wanted in a cycle and brings the shape back.

The paper's section III-B: first-order Fourier series, found from first-order Lie brackets and averaging, then fitted so
that the exact motion of a cycle is the wanted one (`gait_fit`).

A cycle whose mean is zero moves the chain by the area that it encloses in each plane of two wheels times the bracket of
these two wheels' vector fields; a constant thrust adds its own motion (Yang et al., "Geometric data-driven multi-jet
locomotion inspired by salps", 2025, as the paper takes it up in section III-B). N wheels have N directions of their own
and up to N (N - 1) / 2 brackets; pose and shape have N + 2 dimensions.

Vectors of N + 2 numbers are motions in the base frame: forward, left (m), turning (rad), then the joint angles (rad).
Where they stand for the motion of a cycle they are exponential coordinates: the constant velocity that gives it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space, orth
from scipy.optimize import minimize

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Matrix, Vector
from salp_estimation.model import chain_kernels as kernels
from salp_estimation.model.chain import Chain
from salp_estimation.model.configuration import ChainConfiguration
from salp_estimation.model.gait_fit import cycle, exponential, fit, logarithm
from salp_estimation.model.gaits import GAITS, Gait

DISTANCE_M = 0.03
"""A cycle of the forward gait that is published for LandSalp, and of the others beside it."""
LANDSALP_TURN_RAD, LANDSALP_LENGTH_M = float(np.deg2rad(45.0)), 0.816
"""A cycle of the turning gait: the least multiple of 5 deg that takes more effort than the published forward gait, for
turning takes the most in the paper. A longer chain turns so much less that its ends sweep the same arc."""
LARGEST_TURN_RAD = float(np.deg2rad(170.0))

_STEPS = 192
_ANGLE_STEP_RAD = 1e-4
_REACHED = 0.05
"""Share of a motion that the brackets may miss, for the fit to make up; more counts as a direction that they lack."""


@dataclass(frozen=True, eq=False)
class DesignedGait:
    """A gait and what a cycle of it does.

    Attributes
    ----------
    gait
        Rim speeds.
    first_order_motion
        (3,) pose after a cycle (x, y in m, heading in rad), as Lie brackets and averaging predict it.
    joints_rad
        (3, N - 1) lowest, highest and mean joint angles over a cycle.
    peak_gyro_rates_rad_s
        (N,) largest turning rates of the links.
    time_s, states
        (K,) and (K, N + 2): one cycle, from the origin, straight.
    """

    gait: Gait
    first_order_motion: Vector
    joints_rad: Matrix
    peak_gyro_rates_rad_s: Vector
    time_s: Vector
    states: Matrix


def design(
    chain: Chain,
    motion: str | tuple[float, float, float],
    period_s: float = 6.0,
) -> DesignedGait:
    """The gait of least effort for a motion; the same arguments give the same gait.

    The reverse of a motion gets the exact reverse of its gait, u_b(t) = -u(-t).

    Parameters
    ----------
    motion
        One of `GAITS`, or the pose (x_m, y_m, heading_rad) after a cycle, seen from the pose before.

    Raises
    ------
    UserError
        The motion cannot be had: a bracket that it needs is missing, the joints' limits are in the way, or it is too
        large for the fit to succeed.
    """
    pose = np.array(named_motion(chain, motion) if isinstance(motion, str) else motion, dtype=np.float64)
    _check(chain, pose, period_s)
    twist = logarithm(pose)
    leading = twist[np.abs(twist) > 1e-9 * np.abs(twist).max()][0]
    if leading < 0.0:
        twist = -twist
    gait = fit(chain, twist, first_guess(chain, twist, period_s))
    return describe(chain, gait.reversed() if leading < 0.0 else gait)


def named_motion(
    chain: Chain, name: str, distance_m: float | None = None, turn_rad: float | None = None
) -> tuple[float, float, float]:
    """Pose after a cycle of a motion of `GAITS`; by default 3 cm, or the turn that suits the chain's length.

    Raises
    ------
    UserError
        Another name, or a distance or turn that does not go with it.
    """
    if name not in GAITS:
        raise UserError(f"no gait {name!r}; there are {', '.join(GAITS)}")
    if name == "turning":
        if distance_m is not None:
            raise UserError("a distance does not go with the gait 'turning': give a turn")
        length_m = float(chain.links[:, kernels.LENGTH].sum())
        default_rad = LANDSALP_TURN_RAD * min(1.0, LANDSALP_LENGTH_M / length_m)
        return (0.0, 0.0, default_rad if turn_rad is None else turn_rad)
    if turn_rad is not None:
        raise UserError(f"a turn does not go with the gait {name!r}: give a distance")
    distance_m = DISTANCE_M if distance_m is None else distance_m
    if not distance_m > 0.0:
        raise UserError(f"distance {distance_m:g} m: must be above 0; the other direction has its own gait")
    x, y = {"forward": (1.0, 0.0), "backward": (-1.0, 0.0), "left": (0.0, 1.0), "right": (0.0, -1.0)}[name]
    return (x * distance_m, y * distance_m, 0.0)


def describe(chain: Chain, gait: Gait) -> DesignedGait:
    """What a cycle of a gait does, designed or not; a joint stops at its limits."""
    states = cycle(chain, gait, _STEPS)
    time_s = np.linspace(0.0, gait.period_s, _STEPS + 1)
    rates = [chain.gyro_rates(state[3:], u) for state, u in zip(states, gait.controls(time_s), strict=True)]
    angles = states[:, 3:]
    return DesignedGait(
        gait=gait,
        first_order_motion=exponential(first_order_motion(chain, gait)[:3]),
        joints_rad=np.array([angles.min(axis=0), angles.max(axis=0), angles[:-1].mean(axis=0)]),
        peak_gyro_rates_rad_s=np.abs(rates).max(axis=0),
        time_s=time_s,
        states=states,
    )


def _check(chain: Chain, pose: Vector, period_s: float) -> None:
    """UserError for what no gait can be designed for."""
    if pose.shape != (3,) or not np.isfinite(pose).all() or not np.abs(pose).max() > 0.0:
        raise UserError(f"motion {pose.tolist()}: give x (m), y (m) and turn (rad) of a cycle, not all zero")
    if abs(pose[2]) > LARGEST_TURN_RAD:
        turn, largest = np.rad2deg(pose[2]), np.rad2deg(LARGEST_TURN_RAD)
        raise UserError(f"turn {turn:.4g} deg a cycle: must be within {largest:.0f} deg either way")
    if not (np.isfinite(period_s) and period_s > 0.0):
        raise UserError(f"period {period_s:g} s: must be above 0")
    lower, upper = chain.links[:-1, kernels.LOWER], chain.links[:-1, kernels.UPPER]
    outside = np.flatnonzero((lower > 0.0) | (upper < 0.0))
    if outside.size:
        joint = int(outside[0])
        limits = f"{np.rad2deg(lower[joint]):.4g} to {np.rad2deg(upper[joint]):.4g} deg"
        raise UserError(
            f"the cycle would start with joint {joint + 1} at 0 deg, its limits are {limits}: choose other limits"
        )


def lie_brackets(chain: Chain) -> NDArray[np.float64]:
    """Brackets (N, N, N + 2) of the vector fields of wheels i and j of the straight chain, per (m/s)^2.

    Four small moves, i, j, back i and back j, each for the time e, end at e^2 [i, j]. For left-invariant fields on
    SE(2) the bracket is the commutator of the body velocities, and the fields' change with the shape comes on top.
    """
    steps = _ANGLE_STEP_RAD * np.eye(chain.link_count - 1)
    control = chain.control_matrix(0.0 * steps[0])
    ahead, behind = (np.array([chain.control_matrix(sign * step) for step in steps]) for sign in (1.0, -1.0))
    slopes = (ahead - behind) / (2.0 * _ANGLE_STEP_RAD)
    along = np.einsum("ki,kaj->ija", control[3:], slopes)  # change of field j along field i
    out = along - along.swapaxes(0, 1)
    x, y, turning = control[:3]
    out[..., 0] += np.outer(y, turning) - np.outer(turning, y)
    out[..., 1] += np.outer(turning, x) - np.outer(x, turning)
    return np.asarray(out, dtype=np.float64)


def enclosed_areas(gait: Gait) -> Matrix:
    """(N, N) signed areas, m^2, that the distances run by wheels i and j enclose in a cycle; antisymmetric."""
    _, sine, cosine = gait.coefficients
    areas = gait.period_s**2 / (4.0 * np.pi) * (np.outer(cosine, sine) - np.outer(sine, cosine))
    return np.asarray(areas, dtype=np.float64)


def first_order_motion(chain: Chain, gait: Gait) -> NDArray[np.float64]:
    """Exponential coordinates (N + 2,) of a cycle: its constant thrust, and its areas times the brackets."""
    constant = gait.period_s * chain.control_matrix(np.zeros(chain.link_count - 1)) @ np.array(gait.offset)
    brackets = np.einsum("ij,ija->a", enclosed_areas(gait), lie_brackets(chain))
    return np.asarray(constant + 0.5 * brackets, dtype=np.float64)


def first_guess(chain: Chain, twist: Vector, period_s: float) -> Gait:
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
    control, brackets = chain.control_matrix(np.zeros(count - 1)), lie_brackets(chain)
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
    loop = Gait.of([np.zeros(len(wanted) - 2), *harmonics], period_s)
    rest = wanted - 0.5 * np.einsum("ij,ija->a", enclosed_areas(loop), brackets)
    return Gait.of([np.linalg.lstsq(control * period_s, rest, rcond=None)[0], *harmonics], period_s)


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


@lru_cache(maxsize=64)
def gait_for(configuration: ChainConfiguration, name: str) -> Gait:
    """A gait of `GAITS` for any chain: the constants for LandSalp's geometry and drag, else designed once.

    Raises
    ------
    UserError
        The chain cannot be moved so.
    """
    chain = configuration.build()
    if name in GAITS and _is_landsalp(chain) and _has_room(chain, GAITS[name]):
        return GAITS[name]
    return design(chain, name).gait


def _is_landsalp(chain: Chain) -> bool:
    landsalp = ChainConfiguration().build()
    return np.array_equal(chain.links[:, : kernels.LOWER], landsalp.links[:, : kernels.LOWER])


def _has_room(chain: Chain, gait: Gait) -> bool:
    """Whether no joint comes to its limits in a cycle from the straight shape."""
    angles = cycle(Chain(kernels.unlimited(chain.links)), gait, 96)[:, 3:]
    lower, upper = chain.links[:-1, kernels.LOWER], chain.links[:-1, kernels.UPPER]
    return bool((angles > lower).all() and (angles < upper).all())
