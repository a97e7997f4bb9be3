"""Gaits for any chain: the least effort that moves the body as wanted in a cycle and brings the shape back.

The paper's section III-B: first-order Fourier series, found from first-order Lie brackets and averaging
(`gait_brackets`), then fitted so that the exact motion of a cycle is the wanted one (`gait_fit`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from onboard_estimation.errors import UserError
from onboard_estimation.measurement import Matrix, Vector
from salp_estimation import chain_kernels as kernels
from salp_estimation.chain import Chain
from salp_estimation.gait_brackets import first_guess, first_order_motion
from salp_estimation.gait_fit import cycle, effort, exponential, fit, logarithm
from salp_estimation.gaits import Gait

MOTIONS = ("forward", "backward", "left", "right", "turning")
DISTANCE_M = 0.03
"""A cycle of the forward gait that is published for LandSalp, and of the others beside it."""
LANDSALP_TURN_RAD, LANDSALP_LENGTH_M = float(np.deg2rad(45.0)), 0.816
"""A cycle of the turning gait: the least multiple of 5 deg that takes more effort than the published forward gait, for
turning takes the most in the paper. A longer chain turns so much less that its ends sweep the same arc."""
LARGEST_TURN_RAD = float(np.deg2rad(170.0))

_STEPS = 192


@dataclass(frozen=True, eq=False)
class DesignedGait:
    """A gait and what a cycle of it does.

    Attributes
    ----------
    gait
        Rim speeds.
    nominal_rad
        (N - 1,) joint angles at the start of the cycle.
    net_motion, net_shape_rad
        (3,) pose after a cycle (x, y in m, heading in rad) seen from the pose before, and (N - 1,) what the joint
        angles have changed by.
    first_order_motion
        (3,) the same pose as Lie brackets and averaging predict it.
    effort_m2_s2
        Mean of |u|^2 over a cycle.
    joint_lower_rad, joint_upper_rad, joint_mean_rad
        (N - 1,) over a cycle.
    peak_gyro_rates_rad_s
        (N,) largest turning rates of the links.
    time_s, states
        (K,) and (K, N + 2): one cycle, from the origin.
    """

    gait: Gait
    nominal_rad: Vector
    net_motion: Vector
    net_shape_rad: Vector
    first_order_motion: Vector
    effort_m2_s2: float
    joint_lower_rad: Vector
    joint_upper_rad: Vector
    joint_mean_rad: Vector
    peak_gyro_rates_rad_s: Vector
    time_s: Vector = field(repr=False)
    states: Matrix = field(repr=False)


def design(
    chain: Chain,
    motion: str | tuple[float, float, float],
    period_s: float = 6.0,
    nominal: ArrayLike | None = None,
) -> DesignedGait:
    """The gait of least effort for a motion; the same arguments give the same gait.

    The reverse of a motion gets the exact reverse of its gait, u_b(t) = -u(-t).

    Parameters
    ----------
    motion
        One of `MOTIONS`, or the pose (x_m, y_m, heading_rad) after a cycle, seen from the pose before.
    nominal
        (N - 1,) joint angles at the start of each cycle, rad; straight by default.

    Raises
    ------
    UserError
        The motion cannot be had: a bracket that it needs is missing, the joints' limits are in the way, or it is too
        large for the fit to succeed.
    """
    pose = np.array(named_motion(chain, motion) if isinstance(motion, str) else motion, dtype=np.float64)
    shape = _shape(chain, nominal)
    _check(chain, pose, period_s, shape)
    twist = logarithm(pose)
    leading = twist[np.abs(twist) > 1e-9 * np.abs(twist).max()][0]
    if leading < 0.0:
        twist = -twist
    guess = first_guess(chain, twist, period_s, shape)
    gait = fit(chain, twist, guess, shape)
    return describe(chain, gait.reversed() if leading < 0.0 else gait, shape)


def named_motion(
    chain: Chain, name: str, distance_m: float | None = None, turn_rad: float | None = None
) -> tuple[float, float, float]:
    """Pose after a cycle of a motion of `MOTIONS`; by default 3 cm, or the turn that suits the chain's length.

    Raises
    ------
    UserError
        Another name, or a distance or turn that does not go with it.
    """
    if name not in MOTIONS:
        raise UserError(f"no gait {name!r}; there are {', '.join(MOTIONS)}")
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


def describe(chain: Chain, gait: Gait, nominal: ArrayLike | None = None) -> DesignedGait:
    """What a cycle of a gait does, designed or not; a joint stops at its limits."""
    shape = _shape(chain, nominal)
    states = cycle(chain, gait, shape, _STEPS)
    time_s = np.linspace(0.0, gait.period_s, _STEPS + 1)
    rates = [chain.gyro_rates(state[3:], u) for state, u in zip(states, gait.controls(time_s), strict=True)]
    return DesignedGait(
        gait=gait,
        nominal_rad=shape,
        net_motion=states[-1, :3],
        net_shape_rad=states[-1, 3:] - shape,
        first_order_motion=exponential(first_order_motion(chain, gait, shape)[:3]),
        effort_m2_s2=effort(gait),
        joint_lower_rad=states[:, 3:].min(axis=0),
        joint_upper_rad=states[:, 3:].max(axis=0),
        joint_mean_rad=states[:-1, 3:].mean(axis=0),
        peak_gyro_rates_rad_s=np.abs(rates).max(axis=0),
        time_s=time_s,
        states=states,
    )


def _shape(chain: Chain, nominal: ArrayLike | None) -> Vector:
    shape = np.zeros(chain.link_count - 1) if nominal is None else np.array(nominal, dtype=np.float64)
    if shape.shape != (chain.link_count - 1,):
        raise UserError(f"nominal shape: {shape.size} joint angles given, {chain.link_count} links have one less")
    return shape


def _check(chain: Chain, pose: Vector, period_s: float, shape: Vector) -> None:
    """UserError for what no gait can be designed for."""
    if pose.shape != (3,) or not np.isfinite(pose).all() or not np.abs(pose).max() > 0.0:
        raise UserError(f"motion {pose.tolist()}: give x (m), y (m) and turn (rad) of a cycle, not all zero")
    if abs(pose[2]) > LARGEST_TURN_RAD:
        turn, largest = np.rad2deg(pose[2]), np.rad2deg(LARGEST_TURN_RAD)
        raise UserError(f"turn {turn:.4g} deg a cycle: must be within {largest:.0f} deg either way")
    if not (np.isfinite(period_s) and period_s > 0.0):
        raise UserError(f"period {period_s:g} s: must be above 0")
    lower, upper = chain.links[:-1, kernels.LOWER], chain.links[:-1, kernels.UPPER]
    outside = np.flatnonzero(~((shape >= lower) & (shape <= upper)))
    if outside.size:
        joint = int(outside[0])
        limits = f"{np.rad2deg(lower[joint]):.4g} to {np.rad2deg(upper[joint]):.4g} deg"
        raise UserError(
            f"the cycle would start with joint {joint + 1} at {np.rad2deg(shape[joint]):.4g} deg, its limits are "
            f"{limits}: choose another nominal shape or other limits"
        )
