"""Which gaits would determine what a recording left poorly determined.

The information of a gait about the coefficients follows from the model alone: its shapes and commands, the slopes of
the predicted rates, and the residuals seen in the recordings at hand.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.measurement import Matrix, Vector
from salp_estimation import chain_kernels as kernels
from salp_estimation.chain import Chain
from salp_estimation.drag_regressor import predicted_rates, wheel_jacobians
from salp_estimation.gaits import Gait
from salp_estimation.identification import NORMAL_95, DragFit, whitening

_MARGIN_RAD = float(np.deg2rad(1.0))
_SETTLED_CYCLES = 2


def expected_half_widths(
    fit: DragFit, gaits: Mapping[str, Gait], step_s: float, duration_s: float = 60.0
) -> dict[str, Vector]:
    """95 % half-widths (P,) after a further recording of each gait, all else the same.

    Parameters
    ----------
    step_s
        Between the instants that a fit uses.
    """
    finite = np.isfinite(fit.half_widths)
    inflation = np.where(
        finite, fit.noise_inflation, np.median(fit.noise_inflation[finite][1:] if finite[1:].any() else 1.0)
    )
    weight = whitening(fit.residual_covariance)
    out = {}
    for name, gait in gaits.items():
        if len(gait.offset) != fit.chain.link_count:
            continue
        added = _information(fit, weight, gait, step_s, duration_s)
        # In units of each coefficient's own information, so that the inverse is well conditioned.
        total = fit.information + added
        root = np.sqrt(np.diag(total)).clip(min=1e-300)
        variance = np.diag(np.linalg.pinv(total / np.outer(root, root), hermitian=True)) / root**2
        out[name] = np.append(0.0, NORMAL_95 * np.sqrt(variance * inflation[1:]))
    return out


def gait_path(chain: Chain, gait: Gait, step_s: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Joint angles (K, N - 1) and rim speeds (K, N) of a gait's first cycles, from a straight start."""
    count = max(1, round(_SETTLED_CYCLES * gait.period_s / step_s))
    controls = gait.controls(step_s * np.arange(count))
    state = np.zeros((1, chain.link_count + 2))
    angles = np.empty((count, chain.link_count - 1))
    for k in range(count):
        angles[k] = state[0, 3:]
        state = chain.propagate(state, controls[k], step_s)
    return angles, controls


def _information(fit: DragFit, weight: Matrix, gait: Gait, step_s: float, duration_s: float) -> Matrix:
    """(P - 1, P - 1) of the free coefficients."""
    angles, controls = gait_path(fit.chain, gait, step_s)
    lower, upper = fit.chain.links[:-1, kernels.LOWER], fit.chain.links[:-1, kernels.UPPER]
    free = ((angles > lower + _MARGIN_RAD) & (angles < upper - _MARGIN_RAD)).all(axis=1)
    _, slopes = predicted_rates(wheel_jacobians(fit.chain, angles[free]), controls[free], fit.terms, fit.values)
    weighted = np.einsum("ab,kbp->kap", weight, slopes[..., 1:])
    cycles: float = duration_s / (step_s * len(angles))
    return np.asarray(cycles * np.einsum("kap,kaq->pq", weighted, weighted))
