"""The common scale of all drag coefficients, from the wheels' measured effort.

Torque over the wheel's radius is the thrust, and thrust is d_xx u (paper, eq. 4). Commands and motion leave a common
factor of all coefficients open; one number fits it over all wheels and recordings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onboard_estimation.measurement import Vector
from salp_estimation.drag_regressor import DragTerm
from salp_estimation.identification import NORMAL_95, DragFit, Samples
from salp_estimation.identification_runs import Run
from salp_estimation.long_run_covariance import long_run_covariance
from salp_estimation.marker_flips import Mask

_LEAST_EXPLAINED = 0.5


@dataclass(frozen=True)
class DragScale:
    """Factor on all coefficients of a fit, its 95 % half-width, and where it comes from.

    Attributes
    ----------
    held
        The scale is not measured: the first wheel's d_xx stays as configured, `factor` is 1 and has no width.
    explained
        Share of the measured forces' variance that d_xx u explains; NaN without effort.
    reason
        One sentence for the report.
    """

    factor: float
    half_width: float
    held: bool
    explained: float
    reason: str


def drag_scale(fit: DragFit, runs: Sequence[Run], samples: Sequence[Samples]) -> DragScale:
    """Scale by least squares of the measured forces on d_xx u, with an interval that knows correlation in time."""
    thrust_of = _thrust(fit.terms, fit.values)
    forces, thrusts, kept = [], [], []
    for run, sample in zip(runs, samples, strict=True):
        if run.forces is None:
            continue
        measured = run.forces[sample.instants]
        known: Mask = np.asarray(np.isfinite(measured).all(axis=1), dtype=np.bool_)
        forces.append(measured[known])
        thrusts.append(sample.controls[known] * thrust_of)
        kept.append(sample.steps[known])
    held = f"the first wheel's d_xx is held at its configured {fit.values[0]:.6g} N s/m"
    if sum(len(one) for one in forces) < 10:
        return DragScale(
            1.0,
            0.0,
            True,
            float("nan"),
            f"The common scale cannot be seen from commands and motion and no wheel effort is recorded: {held}.",
        )
    force, thrust = np.concatenate(forces), np.concatenate(thrusts)
    factor = float((force * thrust).sum() / max(np.square(thrust).sum(), 1e-300))
    error = force - factor * thrust
    explained = float(1.0 - np.square(error).sum() / max(np.square(force - force.mean(axis=0)).sum(), 1e-300))
    if factor <= 0.0 or explained < _LEAST_EXPLAINED:
        return DragScale(
            1.0,
            0.0,
            True,
            explained,
            f"The recorded wheel effort is not thrust (d_xx u explains {100.0 * explained:.0f} % of it, with a factor "
            f"of {factor:.3g}; check units and signs): {held}.",
        )
    scores = (thrust * error).sum(axis=1)[:, None]
    spread = float(long_run_covariance(kept, scores, np.eye(1))[0, 0])
    half_width = NORMAL_95 * np.sqrt(spread) / float(np.square(thrust).sum())
    sentence = (
        f"The common scale comes from the wheels' effort in {len(forces)} of {len(runs)} recordings: d_xx u explains "
        f"{100.0 * explained:.1f} % of it."
    )
    return DragScale(factor, half_width, False, explained, sentence)


def _thrust(terms: tuple[DragTerm, ...], values: Vector) -> Vector:
    """(N,) d_xx of each wheel."""
    return np.array([value for term, value in zip(terms, values.tolist(), strict=True) if term.kind == "xx"])
