"""Compiled: vertical acceleration of the body from the readings of two accelerometers and a gyro.

Accelerometers are zeroed while the robot stands upright on the ground (paper, section VI): what they read then beside
gravity along the leg is their offset, mounting included. From then on the direction "up" in the body's frame follows
the gyro, freed of what it reads at rest, or an attitude sensor where there is one; accelerometers cannot see tilt in
flight. With u that direction, the vertical acceleration is

    a = f . u - g                                                                     eqs. (1), (3), (4)

A reading near its range is clipped, and the same reading over and over comes from a stuck sensor: neither is used, and
a stuck sensor's gyro turns nothing. A single high-g reading that is missing (lost, or a moment late) is told apart from
a sensor that is silent.

In shocks the two sensors must agree along the leg: a high-g sensor that is mounted upside down, has other axes or
another scale is left out, for the low-g one was held against gravity, until shocks agree again. One whose reading at
rest is farther from gravity than its offset may be is left out for good.

A fault found at rest stays, with the reading that it was found in: a robot that is put right later was still started
with sensors that cannot be right.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hopper_estimation.samples import Samples

Array = NDArray[np.float64]
Bits = NDArray[np.uint8]

LOW_USABLE, HIGH_USABLE, LOW_CLIPPED, HIGH_DUE = 1, 2, 4, 8

# Elements of the state. Offsets are valid once zeroed, means are of the rest that goes on.
(R_UP, R_LOW, R_HIGH, R_GYRO, R_MEAN_LOW, R_MEAN_HIGH, R_MEAN_GYRO) = range(0, 21, 3)
(R_REST, R_LOW_COUNT, R_HIGH_COUNT, R_ZEROED, R_FAULT, R_LOW_EQUAL, R_HIGH_EQUAL, R_LOW_LAST, R_HIGH_LAST,
 R_CLIPPED, R_STUCK, R_UP_KNOWN, R_HIGH_SILENT, R_COMPARED, R_BELOW, R_ABOVE, R_AT_ODDS,
 R_TURNED, R_AT_ODDS_S) = range(21, 40)  # fmt: skip
STATE_SIZE = 40

FAULT_TILTED, FAULT_OFFSET = 1.0, 2.0

_STILL_M_S2 = 1.5
_CLIPPED = 0.99
_NOISE_WIDTHS = 5.0
_RESTS_ALONE = 2.0
FOR_GOOD = 2.0
"""At odds at rest: what a shock says cannot mend it."""
SHOCK_M_S2, LEAST_RATIO, LARGEST_RATIO = 50.0, 0.6, 1.6
"""Readings along the leg beyond the first are compared; their ratios lie between the others, as a rule."""
_FALLING_M_S2 = 5.0
_FEWEST_SHOCKS, _MOST_SHOCKS, _MOST_OUTSIDE, _FEW_OUTSIDE = 24.0, 96.0, 0.5, 0.35
"""Of robots whose sensors agree, bandwidths and clocks of their own put up to a third of the ratios to one side."""
_LOW_ENOUGH = 0.9


class ReadingSettings(NamedTuple):
    """What is known of the sensors; SI units."""

    gravity: float
    low_range: float
    high_range: float
    low_offset: float
    high_offset: float
    high_noise: float
    rest_s: float
    rest_rate: float
    largest_tilt_cosine: float
    stuck_readings: float
    silent_s: float


@njit(cache=True, error_model="numpy")
def new_state() -> Array:
    """(STATE_SIZE,) before the first reading: upright, not zeroed."""
    state = np.zeros(STATE_SIZE)
    state[R_UP + 2] = 1.0
    state[R_HIGH_SILENT] = np.inf
    return state


@njit(cache=True, error_model="numpy")
def _turn(state: Array, rate: Array, dt: float) -> None:
    """Up as the body sees it after turning for `dt`: u' = -w x u, exact for a constant rate."""
    wx, wy = rate[0] - state[R_GYRO], rate[1] - state[R_GYRO + 1]
    wz = rate[2] - state[R_GYRO + 2]
    ux, uy, uz = state[R_UP], state[R_UP + 1], state[R_UP + 2]
    angle = np.sqrt(wx * wx + wy * wy + wz * wz) * dt
    if angle < 1e-12:
        return
    s = np.sin(angle) * dt / angle
    c = (1.0 - np.cos(angle)) * dt * dt / (angle * angle)
    along = wx * ux + wy * uy + wz * uz
    square = wx * wx + wy * wy + wz * wz
    state[R_UP] = ux - s * (wy * uz - wz * uy) + c * (wx * along - ux * square)
    state[R_UP + 1] = uy - s * (wz * ux - wx * uz) + c * (wy * along - uy * square)
    state[R_UP + 2] = uz - s * (wx * uy - wy * ux) + c * (wz * along - uz * square)


@njit(cache=True, error_model="numpy")
def _rest_alone(settings: ReadingSettings, state: Array, dt: float, high: Array) -> None:
    """Zero the high-g sensor where there is no other: once, after a rest longer than a flight.

    Its noise and offset hide the difference between standing and falling.
    """
    still = True
    if state[R_HIGH_COUNT] > 0.0:
        for i in range(3):
            still = still and abs(high[3 + i] - state[R_MEAN_HIGH + i]) < _NOISE_WIDTHS * settings.high_noise
    if not still:
        state[R_REST] = state[R_LOW_COUNT] = state[R_HIGH_COUNT] = 0.0
        return
    state[R_REST] += dt if state[R_HIGH_COUNT] > 0.0 else 0.0
    state[R_HIGH_COUNT] += 1.0
    for i in range(3):
        state[R_MEAN_HIGH + i] += (high[3 + i] - state[R_MEAN_HIGH + i]) / state[R_HIGH_COUNT]
    if state[R_REST] < _RESTS_ALONE * settings.rest_s:
        return
    for i in range(3):
        offset = state[R_MEAN_HIGH + i] - (settings.gravity if i == 2 else 0.0)
        if abs(offset) < settings.high_offset:
            state[R_HIGH + i] = offset
    state[R_ZEROED] = 1.0


@njit(cache=True, error_model="numpy")
def _rest(settings: ReadingSettings, state: Array, dt: float, low: Array, high: Array, has: int) -> None:
    """Zero the sensors while the robot stands."""
    if state[R_FAULT] > 0.0:
        return
    if has == 2 and state[R_ZEROED] == 0.0:
        _rest_alone(settings, state, dt, high)
        return
    still = has & 1
    count = state[R_LOW_COUNT]
    if still and count > 0:
        for i in range(3):
            still = still and abs(low[3 + i] - state[R_MEAN_LOW + i]) < _STILL_M_S2
            still = still and abs(low[i] - state[R_MEAN_GYRO + i]) < 3.0 * settings.rest_rate
    if not still:
        if has & 1:
            state[R_REST] = state[R_LOW_COUNT] = state[R_HIGH_COUNT] = 0.0
        return
    state[R_REST] += dt if count > 0 else 0.0
    count += 1.0
    state[R_LOW_COUNT] = count
    for i in range(3):
        state[R_MEAN_LOW + i] += (low[3 + i] - state[R_MEAN_LOW + i]) / count
        state[R_MEAN_GYRO + i] += (low[i] - state[R_MEAN_GYRO + i]) / count
    if has & 2:
        state[R_HIGH_COUNT] += 1.0
        for i in range(3):
            state[R_MEAN_HIGH + i] += (high[3 + i] - state[R_MEAN_HIGH + i]) / state[R_HIGH_COUNT]
    if state[R_REST] < settings.rest_s:
        return
    x, y, z = state[R_MEAN_LOW], state[R_MEAN_LOW + 1], state[R_MEAN_LOW + 2]
    size = np.sqrt(x * x + y * y + z * z)
    fault = 0.0
    if z < settings.largest_tilt_cosine * size:
        fault = FAULT_TILTED
    elif abs(size - settings.gravity) > settings.low_offset:
        fault = FAULT_OFFSET
    if fault > 0.0:
        # A robot that fell over later is no reason to refuse what came before, nor to zero on its side.
        if state[R_ZEROED] == 0.0:
            state[R_FAULT] = fault
        return
    for i in range(3):
        down = settings.gravity if i == 2 else 0.0
        state[R_GYRO + i] = state[R_MEAN_GYRO + i]
        state[R_LOW + i] = state[R_MEAN_LOW + i] - down
        if state[R_HIGH_COUNT] > 0.0 and abs(state[R_MEAN_HIGH + i] - down) < settings.high_offset:
            state[R_HIGH + i] = state[R_MEAN_HIGH + i] - down
        elif state[R_HIGH_COUNT] > 0.0 and i == 2:
            state[R_AT_ODDS] = FOR_GOOD
        state[R_UP + i] = 1.0 if i == 2 else 0.0
    state[R_ZEROED] = 1.0


@njit(cache=True, error_model="numpy")
def _compare(settings: ReadingSettings, state: Array, low: float, high: float) -> None:
    """The two sensors along the leg in the same sample, m/s^2, freed of their offsets."""
    if state[R_TURNED] > 0.0 and abs(low) < _FALLING_M_S2:  # not amid a stance, half of which would be the other's
        state[R_AT_ODDS] = 1.0 - state[R_AT_ODDS]
        state[R_TURNED] = 0.0
    if not SHOCK_M_S2 < low < _LOW_ENOUGH * settings.low_range:
        return
    state[R_COMPARED] += 1.0
    state[R_BELOW] += high < LEAST_RATIO * low
    state[R_ABOVE] += high > LARGEST_RATIO * low
    if state[R_COMPARED] < _FEWEST_SHOCKS:
        return
    outside = max(state[R_BELOW], state[R_ABOVE]) / state[R_COMPARED]
    turned = outside < _FEW_OUTSIDE if state[R_AT_ODDS] > 0.0 else outside > _MOST_OUTSIDE
    if turned:  # bad for a while, or good again
        state[R_TURNED] = 1.0
        state[R_COMPARED] = state[R_BELOW] = state[R_ABOVE] = 0.0
    elif state[R_COMPARED] >= (_FEWEST_SHOCKS if state[R_AT_ODDS] > 0.0 else _MOST_SHOCKS):  # long ago counts less
        for i in (R_COMPARED, R_BELOW, R_ABOVE):
            state[i] *= 0.5


@njit(cache=True, error_model="numpy", nogil=True)
def vertical_accelerations(
    settings: ReadingSettings,
    state: Array,
    samples: Samples,
    out: Array,
    usable: Bits,
) -> None:
    """Vertical accelerations of samples one after another.

    Parameters
    ----------
    state
        (STATE_SIZE,), changed.
    out
        (N, 4), written: vertical acceleration by the low-g and the high-g sensor, gravity taken off, and the specific
        force along two horizontal axes, m/s^2.
    usable
        (N,), written: `LOW_USABLE`, `HIGH_USABLE`, `LOW_CLIPPED`, `HIGH_DUE`.
    """
    _, dt, lows, highs, has, up, _, _, _ = samples
    for n in range(dt.shape[0]):
        there = int(has[n])
        reading, shock = lows[n], highs[n]
        low_stuck = high_stuck = False
        if there & 1:
            mark = reading[3] + 3.0 * reading[4] + 7.0 * reading[5]
            state[R_LOW_EQUAL] = state[R_LOW_EQUAL] + 1.0 if mark == state[R_LOW_LAST] else 0.0
            state[R_LOW_LAST] = mark
            low_stuck = state[R_LOW_EQUAL] >= settings.stuck_readings
        state[R_HIGH_SILENT] += dt[n]
        if there & 2:
            mark = shock[3] + 3.0 * shock[4] + 7.0 * shock[5]
            state[R_HIGH_EQUAL] = state[R_HIGH_EQUAL] + 1.0 if mark == state[R_HIGH_LAST] else 0.0
            state[R_HIGH_LAST] = mark
            high_stuck = state[R_HIGH_EQUAL] >= settings.stuck_readings
            state[R_HIGH_SILENT] = 0.0
        state[R_STUCK] += low_stuck + high_stuck
        if there & 1 and not low_stuck:
            _turn(state, reading, dt[n])
        if not np.isnan(up[n, 0]):
            for i in range(3):
                state[R_UP + i] = up[n, i]
            state[R_UP_KNOWN] = 1.0
        moving = (there & 1) * (not low_stuck) + (there & 2) * (not high_stuck)
        _rest(settings, state, dt[n], reading, shock, moving)
        bits = 0
        if there & 1:
            if abs(reading[5]) >= _CLIPPED * settings.low_range:
                state[R_CLIPPED] += 1.0
                bits |= LOW_CLIPPED
            elif not low_stuck:
                bits |= LOW_USABLE
        if there & 2 and not high_stuck and abs(shock[5]) < _CLIPPED * settings.high_range:
            bits |= HIGH_USABLE
        if not there & 2 and state[R_HIGH_SILENT] <= settings.silent_s:
            bits |= HIGH_DUE
        if bits & LOW_USABLE and bits & HIGH_USABLE and state[R_AT_ODDS] < FOR_GOOD:
            _compare(settings, state, reading[5] - state[R_LOW + 2], shock[5] - state[R_HIGH + 2])
        if state[R_AT_ODDS] > 0.0:
            state[R_AT_ODDS_S] += dt[n]
            bits &= ~(HIGH_USABLE | HIGH_DUE)
        ux, uy, uz = state[R_UP], state[R_UP + 1], state[R_UP + 2]
        fx, fy, fz = reading[3] - state[R_LOW], reading[4] - state[R_LOW + 1], reading[5] - state[R_LOW + 2]
        out[n, 0] = fx * ux + fy * uy + fz * uz - settings.gravity
        gx, gy, gz = shock[3] - state[R_HIGH], shock[4] - state[R_HIGH + 1], shock[5] - state[R_HIGH + 2]
        out[n, 1] = gx * ux + gy * uy + gz * uz - settings.gravity
        if moving == 2 and state[R_ZEROED] == 0.0 and state[R_REST] > 0.0:
            out[n, 1] = 0.0  # of unknown offset, and nothing moves: taken for standing
        if bits & LOW_USABLE == 0 and bits & HIGH_USABLE:
            fx, fy, fz = gx, gy, gz
        # Two horizontal axes: the body's x and y, as far as they are level.
        norm = np.sqrt(max(1.0 - ux * ux, 1e-6))
        ax, ay, az = norm, -ux * uy / norm, -ux * uz / norm
        out[n, 2] = fx * ax + fy * ay + fz * az
        out[n, 3] = fx * (uy * az - uz * ay) + fy * (uz * ax - ux * az) + fz * (ux * ay - uy * ax)
        usable[n] = bits
