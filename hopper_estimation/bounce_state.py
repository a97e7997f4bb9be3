"""State of the filter that goes by the bounce: its layout, its start, and its covariance over time and measurements.

    x = (z, v, b, c)    height, velocity, bias of the acceleration, how much the robot's restitution differs
    g                   height of the ground below against that of the start, where it changes: z is above it

Compiled and written out: five numbers and fifteen of a symmetric matrix. See `bounce_kernels` for what they mean.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hopper_estimation.phases import STARTUP

Array = NDArray[np.float64]

# Elements of a filter's state: the mean, its covariance, filtered readings, phase, the last landing.
(Z, V, BIAS, BOUNCE, ZZ, ZV, VV, ZB, VB, BB, ZC, VC, BC, CC, Y1, Y2, H1, H2, H3,
 PHASE, SINCE, STILL, STARTED, TIME, GAP, LANDED, SPEED, SPEED_VARIANCE,
 LANDED_GAP, PUSH, GROUNDED, MOVING, MOVING_S, IDLE, SHOCK, RESTED, GROUND, GG, ZG, VG, BG, CG,
 SEEN, RATIOS) = range(44)  # fmt: skip
STATE_SIZE = 44

BIAS_STDDEV_M_S2 = 0.15
"""What zeroing at rest leaves of scale and tilt errors: 1 % of gravity, and a degree."""
RESTITUTION_SPREAD = 0.06
"""Between robots of a design: 5 % of spring loss and preload, two grounds."""
AS_FORETOLD_HOPS = 2.0
"""So many touchdowns are taken to have been as far off as foretold, before any was seen."""


def start_state(height_m: float, velocity_m_s: float, covariance: Array, phase: int) -> Array:
    """(STATE_SIZE,) before the first sample, with the covariance (2, 2) of height and velocity."""
    state = np.zeros(STATE_SIZE)
    state[Z], state[V], state[PHASE] = height_m, velocity_m_s, phase
    state[[ZZ, ZV, VV]] = covariance[0, 0], covariance[0, 1], covariance[1, 1]
    state[[SEEN, RATIOS]] = AS_FORETOLD_HOPS
    state[GROUNDED] = 1.0 if phase == STARTUP else 0.0
    state[BB], state[CC] = BIAS_STDDEV_M_S2**2, RESTITUTION_SPREAD**2
    return state


@njit(cache=True, error_model="numpy", inline="always")
def propagate(state: Array, step: float, noise: float) -> None:
    """Move the covariance on by `step` s with an acceleration noise of that density, (m/s^2)^2 s."""
    zz, zv, vv = state[ZZ], state[ZV], state[VV]
    zb, vb, bb = state[ZB], state[VB], state[BB]
    zc, vc, bc = state[ZC], state[VC], state[BC]
    half = 0.5 * step
    # z' = z + t v - t^2/2 b, v' = v - t b
    state[ZZ] = (
        zz + step * (2.0 * zv + step * vv) - 2.0 * half * step * (zb + step * vb) + (half * step) ** 2 * bb
    ) + noise * step * step * step / 3.0
    state[ZV] = zv + step * (vv - zb - 1.5 * step * vb + half * step * bb) + noise * half * step
    state[VV] = vv + step * (step * bb - 2.0 * vb) + noise * step
    state[ZB] = zb + step * (vb - half * bb)
    state[VB] = vb - step * bb
    state[ZC] = zc + step * (vc - half * bc)
    state[VC] = vc - step * bc
    state[ZG] += step * (state[VG] - half * state[BG])
    state[VG] -= step * state[BG]


@njit(cache=True, error_model="numpy", nogil=True)
def update(state: Array, hz: float, hv: float, hc: float, residual: float, variance: float) -> None:
    """A measurement hz z + hv v + hc c, with its residual and variance: mean and covariance."""
    z = state[ZZ] * hz + state[ZV] * hv + state[ZC] * hc
    v = state[ZV] * hz + state[VV] * hv + state[VC] * hc
    b = state[ZB] * hz + state[VB] * hv + state[BC] * hc
    c = state[ZC] * hz + state[VC] * hv + state[CC] * hc
    g = state[ZG] * hz + state[VG] * hv + state[CG] * hc
    gain = 1.0 / (hz * z + hv * v + hc * c + variance)
    step = gain * residual
    state[Z] += z * step
    state[V] += v * step
    state[BIAS] += b * step
    state[BOUNCE] += c * step
    state[GROUND] += g * step
    state[ZZ] -= z * z * gain
    state[ZV] -= z * v * gain
    state[VV] -= v * v * gain
    state[ZB] -= z * b * gain
    state[VB] -= v * b * gain
    state[BB] -= b * b * gain
    state[ZC] -= z * c * gain
    state[VC] -= v * c * gain
    state[BC] -= b * c * gain
    state[CC] -= c * c * gain
    state[GG] -= g * g * gain
    state[ZG] -= z * g * gain
    state[VG] -= v * g * gain
    state[BG] -= b * g * gain
    state[CG] -= c * g * gain


@njit(cache=True, error_model="numpy", nogil=True)
def step_of_ground(state: Array, stddev: float) -> None:
    """What is below the robot from now on may lie higher or lower by as much, m: its height above that with it."""
    variance = stddev * stddev
    state[ZZ] += variance
    state[GG] += variance
    state[ZG] -= variance
