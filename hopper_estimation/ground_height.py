"""Height of the ground over many hops, summed up from each hop's change; equations 11 to 13 of the paper.

A position update at touchdown sets the height back to that of the extended leg, and so forgets where the ground is.
What the filter thought just before tells it: with the estimated heights z_apex and z_touchdown of hop k, both before
the update and above the ground that the robot left, and the standing height z_s,

    drop_k = z_apex,k - z_touchdown,k
    change_drops,k  = drop_(k-1) - drop_k           a shorter drop: the ground is higher                     (11)
    change_direct,k = z_touchdown,k - z_s                                                                    (12)
    change_k = (change_drops,k + change_direct,k) / 2                                                        (13)

(The formulas are lost in the text at hand; these are its words. It subtracts no z_s in (12) where heights count from
touchdown.)

What (11) assumes. (12) holds for any hop. (11) holds only where the absolute height of the apex stays the same from hop
to hop. It carries no more information: with the apex's own change, which the filter knows, put in, it becomes (12).
What it does is to assume. Its sum telescopes to drop_0 - drop_N and cannot drift, so on flat ground with steady hops
the mean (13) has half the drift of (12). On a staircase climbed with hops of a set height above the step just left, all
drops are alike, (11) is zero, and (13) finds half of the staircase. So the weight of (11) is the caller's to choose:
`PAPER_DROP_WEIGHT` where apexes are held at an absolute height or the ground is level, `DIRECT` where neither is known.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

PAPER_DROP_WEIGHT = 0.5
"""Weight of eq. (11) in eq. (13)."""
DIRECT = 0.0
"""Weight of eq. (11) for ground and apexes of which nothing is known: eq. (12) alone."""


def ground_changes(
    apex_height_m: ArrayLike, touchdown_height_m: ArrayLike, standing_height_m: float
) -> tuple[Array, Array]:
    """Change of the ground's height at each of N touchdowns by eq. (11) and by eq. (12), each (N,), m.

    Parameters
    ----------
    apex_height_m, touchdown_height_m
        (N,) estimated heights above the ground last left, the second just before its update, m. An apex that was not
        seen (NaN) counts as a drop like the one before; the first hop, which has no drop before it, counts with eq.
        (12).
    """
    apex, touchdown = np.asarray(apex_height_m, float), np.asarray(touchdown_height_m, float)
    direct = touchdown - standing_height_m
    drop = apex - touchdown
    seen = np.maximum.accumulate(np.where(np.isfinite(drop), np.arange(len(drop)), -1))
    drop = np.where(seen >= 0, drop[np.maximum(seen, 0)], np.nan)
    from_drops = direct.copy()
    later = np.isfinite(drop[:-1])
    from_drops[1:][later] = (drop[:-1] - drop[1:])[later]
    return from_drops, direct


def ground_heights(
    apex_height_m: ArrayLike, touchdown_height_m: ArrayLike, standing_height_m: float, drop_weight: float
) -> Array:
    """(N,) height of the ground after each of N touchdowns, m: the sum of the changes, eq. (13)."""
    from_drops, direct = ground_changes(apex_height_m, touchdown_height_m, standing_height_m)
    return np.cumsum(drop_weight * from_drops + (1.0 - drop_weight) * direct)


def drift_m(estimated_m: ArrayLike, true_m: ArrayLike, hops: int) -> Array:
    """Error of the ground height that `hops` hops add, over every stretch of so many, m.

    Parameters
    ----------
    estimated_m, true_m
        (N,) ground heights after each touchdown; the start, before the first, is zero in both.
    hops
        Length of a stretch.

    Returns
    -------
    (N - hops + 1,) float64 with signs: stretches overlap, so that they are not independent. Empty for shorter runs.
    """
    error = np.concatenate(([0.0], np.asarray(estimated_m, float) - np.asarray(true_m, float)))
    return error[hops:] - error[:-hops]


def summary(
    apex_height_m: ArrayLike,
    touchdown_height_m: ArrayLike,
    true_ground_m: ArrayLike,
    standing_height_m: float,
    hops: int = 30,
) -> dict[str, Any]:
    """Mean size of the drift over `hops` hops by eq. (12) and by eq. (13); units in the names.

    `true_ground_m` (N,) is the ground of each touchdown against that of the start.
    """
    out: dict[str, Any] = {"touchdowns": int(np.size(true_ground_m)), "drift_hops": hops}
    for name, weight in (("direct", DIRECT), ("paper", PAPER_DROP_WEIGHT)):
        estimated = ground_heights(apex_height_m, touchdown_height_m, standing_height_m, weight)
        drift = drift_m(estimated, true_ground_m, hops)
        if len(drift):
            out[f"ground_height_{name}_drift_mean_abs_m"] = float(np.mean(np.abs(drift)))
        out[f"ground_height_{name}_final_error_m"] = float(estimated[-1] - np.asarray(true_ground_m)[-1])
    return out
