"""Unified hopping agility: how fast a hopper moves up and down, from figures measured; and what forces do to it.

Equations 14, 15 and S1 to S10 of the paper, whose formulas the text at hand has lost; they follow from its words.

One cycle goes from an apex at the hop height h_prev through drop, stance and rebound to the next apex at h. Hop heights
are measured from the height at which the extended leg just touches the ground; accelerations are means over a phase.

Drop, from rest at h_prev. Thrust u_D points up and drag l_D against the motion, up too, so the body falls with

    a_D = g - u_D - l_D                                                                       (S1)
    v_touchdown = a_D t_drop                                    (speed)                       (S2)
    h_prev = a_D t_drop^2 / 2                                                                 (S3)

Stance: rho is the speed at liftoff over the speed at touchdown. Energy is lost below 1 and gained above.

    v_liftoff = rho v_touchdown                                                               (S4)

Rebound. Thrust u_R points up; drag l_R points down, so the body is slowed with

    a_R = g - u_R + l_R                                                                       (S5)
    0 = v_liftoff - a_R t_rebound                                                             (S6)
    h = v_liftoff t_rebound - a_R t_rebound^2 / 2 = a_R t_rebound^2 / 2                       (S7)

From S3, and from S6 and S7,

    t_drop = sqrt(2 h_prev / a_D),   t_rebound = sqrt(2 h / a_R)                              (S8, S9)

The metric, with eta = 0 the vertical jumping agility and with eta = 1 the hopping agility:

    UHA = (eta h_prev + h) / (eta t_drop + t_stance + t_rebound)                              (14, S10)
        = (eta h_prev + h) / (eta sqrt(2 h_prev / a_D) + t_stance + sqrt(2 h / a_R))          (15)

What a mean acceleration is. S2 needs the mean over time, S3 the one that gives the right time. Both agree where the
acceleration is constant.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.base.errors import UserError

Array = NDArray[np.float64]


def unified_hopping_agility(
    height_m: ArrayLike,
    previous_height_m: ArrayLike,
    stance_s: ArrayLike,
    rebound_s: ArrayLike,
    drop_s: ArrayLike,
    eta: float,
) -> Array:
    """UHA from what was measured, m/s; eq. (14), S10. Arguments broadcast.

    Parameters
    ----------
    height_m, previous_height_m
        Hop heights of this apex and of the one before it, m.
    stance_s, rebound_s, drop_s
        Touchdown to liftoff, liftoff to this apex, last apex to touchdown, s. With eta = 0 the drop may be NaN, and so
        may the previous height.
    eta
        0: vertical jumping agility; 1: hopping agility; between: a mixture.

    Raises
    ------
    UserError
        On negative heights or times and where no time passes at all.
    """
    if not 0.0 <= eta <= 1.0:
        raise UserError(f"eta is {eta:g}; it must be between 0 (vertical jumping agility) and 1 (hopping agility)")
    climbed = _not_negative("hop height", height_m, "m")
    passed = _not_negative("stance time", stance_s, "s") + _not_negative("rebound time", rebound_s, "s")
    if eta > 0.0:  # else 0 times a drop that was not seen would spoil the result
        climbed = climbed + eta * _not_negative("previous hop height", previous_height_m, "m")
        passed = passed + eta * _not_negative("drop time", drop_s, "s")
    if np.any(passed <= 0.0):
        raise UserError("a hop that takes no time has no agility: stance, rebound and drop time add up to 0 s")
    return np.asarray(climbed / passed)


def summary(
    height_m: ArrayLike, previous_height_m: ArrayLike, stance_s: ArrayLike, rebound_s: ArrayLike, drop_s: ArrayLike
) -> dict[str, Any]:
    """Means over hops, (N,) arrays with NaN where unknown; units in the names. Empty without a hop from apex to apex.

    Agility is the mean of the hops' own.
    """
    rows = np.column_stack(np.broadcast_arrays(height_m, previous_height_m, stance_s, rebound_s, drop_s)).astype(float)
    rows = rows[np.isfinite(rows).all(axis=1)]
    if not len(rows):
        return {}
    height, previous, stance, rebound, drop = rows.T
    jumping, hopping = (unified_hopping_agility(height, previous, stance, rebound, drop, eta) for eta in (0.0, 1.0))
    return {
        "hops": len(rows),
        "hop_height_m": float(height.mean()),
        "stance_s": float(stance.mean()),
        "stance_and_rebound_s": float((stance + rebound).mean()),
        "cycle_s": float((drop + stance + rebound).mean()),
        "vertical_jumping_agility_m_s": float(jumping.mean()),
        "hopping_agility_m_s": float(hopping.mean()),
    }


def _not_negative(name: str, value: ArrayLike, unit: str) -> Array:
    given = np.asarray(value, float)
    if np.any(given < 0.0):
        raise UserError(f"{name} is {np.nanmin(given):g} {unit}; it cannot be negative")
    return given
