"""Baselines with a leg encoder, BA1 and DR1: their parameters and how they start.

What the encoder's users publish, and so what these do not know: the encoder's scale error, thrust and drag in flight
(BA1), tilt beyond the given attitude, drifts of the accelerometer and how the stop's damping shares the momentum.

Two forms. `PUBLISHED` is a straight line through the last readings, and DR1 integrates from liftoff on. But the leg
still gains speed in those readings, and the accelerometer feels the shock of the stop after the encoder saw liftoff,
so that the momentum that is shared counts twice. `BEST` follows the gain with a parabola and lets the shock pass. The
numbers of both had the least apex error among those tried on training robots (seeds from 900100 on, no test seed).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hopper_estimation import encoder_kernels as kernels

Array = NDArray[np.float64]

PRESSED_M = 0.003
"""A leg that is pressed by more touches the ground: fifteen times the encoder's noise."""
SWITCH_G = 13.0
UNMODELLED = {kernels.BA1: 4.5, kernels.DR1: 0.05}
"""Growth of the velocity's variance in flight, (m/s)^2/s: thrust and drag; errors of the accelerometer."""


@dataclass(frozen=True)
class LiftoffFit:
    """How the state at liftoff comes from the encoder.

    Attributes
    ----------
    degree, readings
        Polynomial of the compression before the stop, 1 or 2, and how many readings it goes through.
    settle_s
        DR1: how long the accelerometer feels the stop's shock, s; in that time the flight is taken for ballistic.
    """

    degree: int
    readings: int
    settle_s: float


PUBLISHED = {kernels.BA1: LiftoffFit(1, 3, 0.0), kernels.DR1: LiftoffFit(1, 3, 0.0)}
BEST = {kernels.BA1: LiftoffFit(2, 24, 0.0), kernels.DR1: LiftoffFit(2, 16, 0.05)}


def encoder_parameters(
    kind: int, body_mass_kg: float, leg_mass_kg: float, noise_m: float = 0.0002, fit: LiftoffFit | None = None
) -> Array:
    """(PARAMETER_COUNT,) of `filter_encoder_samples`.

    Parameters
    ----------
    kind
        `encoder_kernels.BA1` or `encoder_kernels.DR1`.
    body_mass_kg, leg_mass_kg
        Masses that share the momentum at the stop.
    noise_m
        Noise of an encoder's reading, m.
    fit
        By default, that of `BEST`.
    """
    fit = fit or BEST[kind]
    parameters = np.empty(kernels.PARAMETER_COUNT)
    parameters[kernels.C_READINGS], parameters[kernels.C_DEGREE] = fit.readings, fit.degree
    parameters[kernels.C_PRESSED_M], parameters[kernels.C_NOISE_M] = PRESSED_M, noise_m
    parameters[kernels.C_SHARE] = body_mass_kg / (body_mass_kg + leg_mass_kg)
    parameters[kernels.C_UNMODELLED], parameters[kernels.C_SWITCH] = UNMODELLED[kind], SWITCH_G
    parameters[kernels.C_SETTLE_S] = fit.settle_s
    return parameters


def start_state(height_m: float, velocity_m_s: float, covariance: Array, phase: int) -> Array:
    """(STATE_SIZE,) before the first reading: height (m), velocity (m/s), their covariance (2, 2) and the phase."""
    state = np.zeros(kernels.STATE_SIZE)
    state[kernels.C_Z], state[kernels.C_V], state[kernels.C_PHASE] = height_m, velocity_m_s, phase
    state[kernels.C_PZZ], state[kernels.C_PZV] = covariance[0, 0], covariance[0, 1]
    state[kernels.C_PVV] = covariance[1, 1]
    return state
