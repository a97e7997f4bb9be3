"""Compiled vertical error-state Kalman filters: ESKF1 and ESKF2 of the paper (table I).

The nominal state is integrated from the readings, the filter estimates its error (section IV, equations 3 to 7, of
which only the vertical and the tilt that couples into it are left):

    nominal   z, v, tilt offset (t_x, t_y), accelerometer bias b, gyro biases (c_x, c_y)
    error     dz, dv, dt_x, dt_y, db, dc_x, dc_y

The attitude comes from outside: from a gyro or an attitude sensor. The tilt offset corrects it, a rotation vector about
the horizontal axes of a level frame, so that the specific force f that the given attitude yields in that frame becomes

    u   = f_z - g + t_x f_y - t_y f_x - f_z (t_x^2 + t_y^2) / 2 - b       vertical acceleration, to second order
    v'  = u,   z' = v,   t' = -c                                            nominal
    dv' = (f_y - t_x f_z) dt_x - (f_x + t_y f_z) dt_y - db                   error, the derivatives of u
    dt' = -dc

After every inferred measurement the error is added to the nominal state and begins anew at zero. The reset's Jacobian
is the identity here: small rotations about horizontal axes turn the tilt error about the vertical axis only.

Low-pass filters, phase logic and parameters are those of `vertical_kernels`; low-pass filters come before the
correction, so that an injected error acts at once. Inferred measurements: position at touchdown and liftoff, velocity
at max squat; ESKF2 adds the bias in flight, the corrected reading less thrust and gravity. The paper dropped the
velocity at liftoff, with which it saw instability.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hopper_estimation import phase_kernels
from hopper_estimation import vertical_kernels as kernels
from hopper_estimation.phases import APEX, DROP, LIFTOFF, MAX_SQUAT, REBOUND, STARTUP, TOUCHDOWN
from hopper_estimation.vertical_kernels import Body, Signals

Array = NDArray[np.float64]

ESKF1, ESKF2 = 0, 1

# Errors, and the nominal values that they are added to.
X_Z, X_V, X_TILT_X, X_TILT_Y, X_BIAS, X_GYRO_X, X_GYRO_Y = range(7)
ERROR_COUNT = 7
# Elements of a filter's state: the nominal values, what goes with them, and the covariance row by row.
(X_Y1, X_Y2, X_H1, X_H2, X_H3, X_SIDE_X, X_SIDE_Y, X_PHASE, X_SINCE, X_STILL, X_APEX, X_STARTED,
 X_TIME, X_GAP) = range(ERROR_COUNT, ERROR_COUNT + 14)  # fmt: skip
X_COVARIANCE = X_GAP + 1
STATE_SIZE = X_COVARIANCE + ERROR_COUNT**2

START_STDDEV = (0.01, 0.01, 0.1, 0.001, 0.001)
"""Standard deviations of tilt, accelerometer bias and gyro biases after zeroing: rad, rad, m/s^2, rad/s, rad/s."""

_SMALLEST = 1e-100
_TILT_WALK = 1e-5
"""Growth of the variance of the given attitude's error, rad^2/s: 0.2 deg in a second."""
_BIAS_WALK = 1e-4
"""(m/s^2)^2/s."""
_GYRO_WALK = 1e-8
"""(rad/s)^2/s."""
_LARGEST_TILT = 0.2
"""No attitude is wrong by more, rad: what is taken for tilt beyond it is something else."""
_LARGEST_GYRO_BIAS = 0.1
"""The same of the gyro, rad/s."""


def start_state(height_m: float, velocity_m_s: float, covariance: Array, phase: int) -> Array:
    """(STATE_SIZE,) at that height and velocity, with their covariance (2, 2), in that phase: before the first reading.

    Nothing is known of tilt and biases but that the sensors were zeroed.
    """
    state = np.zeros(STATE_SIZE)
    state[X_Z], state[X_V], state[X_PHASE] = height_m, velocity_m_s, phase
    full = np.diag(np.square(np.array([0.0, 0.0, *START_STDDEV])))
    full[:X_TILT_X, :X_TILT_X] = covariance
    state[X_COVARIANCE:] = full.ravel()
    return state


@njit(cache=True, error_model="numpy")
def corrected_acceleration(x: Array, force_x: float, force_y: float, force_z: float, gravity: float) -> float:
    """u: vertical acceleration by the nominal values (7,) and the specific force in the given attitude, m/s^2."""
    tilt_x, tilt_y = x[X_TILT_X], x[X_TILT_Y]
    second = 0.5 * (tilt_x * tilt_x + tilt_y * tilt_y)
    return force_z * (1.0 - second) - gravity + tilt_x * force_y - tilt_y * force_x - x[X_BIAS]


@njit(cache=True, error_model="numpy")
def propagate(x: Array, step: float, force_x: float, force_y: float, force_z: float, gravity: float) -> None:
    """Nominal values (7,), and whatever follows them, one step on."""
    used = corrected_acceleration(x, force_x, force_y, force_z, gravity)
    x[X_Z] += step * (x[X_V] + 0.5 * step * used)
    x[X_V] += step * used
    x[X_TILT_X] -= step * x[X_GYRO_X]
    x[X_TILT_Y] -= step * x[X_GYRO_Y]


@njit(cache=True, error_model="numpy")
def propagate_covariance(
    x: Array, p: Array, step: float, force_x: float, force_y: float, force_z: float, noise: float
) -> None:
    """Covariance of the error (7, 7) one step on: P = F P F' + Q, F being the derivative of `propagate`.

    Parameters
    ----------
    x
        Nominal values before the step, (7,) and what follows them.
    noise
        Variance of the acceleration over the step, (m/s^2)^2.
    """
    half = 0.5 * step
    by_tilt_x, by_tilt_y = force_y - x[X_TILT_X] * force_z, -force_x - x[X_TILT_Y] * force_z
    # F differs from the identity in four rows: first they act on the rows of P, then on its columns.
    for j in range(ERROR_COUNT):
        u = by_tilt_x * p[X_TILT_X, j] + by_tilt_y * p[X_TILT_Y, j] - p[X_BIAS, j]
        p[X_Z, j] += step * (p[X_V, j] + half * u)
        p[X_V, j] += step * u
        p[X_TILT_X, j] -= step * p[X_GYRO_X, j]
        p[X_TILT_Y, j] -= step * p[X_GYRO_Y, j]
    for i in range(ERROR_COUNT):
        u = by_tilt_x * p[i, X_TILT_X] + by_tilt_y * p[i, X_TILT_Y] - p[i, X_BIAS]
        p[i, X_Z] += step * (p[i, X_V] + half * u)
        p[i, X_V] += step * u
        p[i, X_TILT_X] -= step * p[i, X_GYRO_X]
        p[i, X_TILT_Y] -= step * p[i, X_GYRO_Y]
    noise *= step * step
    p[X_Z, X_Z] += half * half * noise
    p[X_Z, X_V] += half * noise
    p[X_V, X_Z] += half * noise
    p[X_V, X_V] += noise
    p[X_TILT_X, X_TILT_X] += _TILT_WALK * step
    p[X_TILT_Y, X_TILT_Y] += _TILT_WALK * step
    p[X_BIAS, X_BIAS] += _BIAS_WALK * step
    p[X_GYRO_X, X_GYRO_X] += _GYRO_WALK * step
    p[X_GYRO_Y, X_GYRO_Y] += _GYRO_WALK * step


@njit(cache=True, error_model="numpy")
def inject(
    x: Array, p: Array, column: Array, first: int, second: int, weight: float, residual: float, variance: float
) -> None:
    """Measurement of error `first` plus `weight` times error `second`; the error is added to the nominal values.

    Parameters
    ----------
    x, p
        Nominal values (7,) and what follows them; covariance (7, 7); both changed.
    column
        (7,) to work in.
    residual, variance
        Measurement less what the nominal values predict, and its variance.
    """
    for i in range(ERROR_COUNT):
        column[i] = p[i, first] + weight * p[i, second]
    gain = 1.0 / (column[first] + weight * column[second] + variance)
    for i in range(ERROR_COUNT):
        x[i] += column[i] * gain * residual
        for j in range(i + 1):  # both halves the same, however much was rounded
            left = p[i, j] - column[i] * column[j] * gain
            # Correlations that die away from update to update would become subnormal numbers, which are slow.
            p[i, j] = p[j, i] = left if abs(left) > _SMALLEST else 0.0
    x[X_TILT_X] = min(max(x[X_TILT_X], -_LARGEST_TILT), _LARGEST_TILT)
    x[X_TILT_Y] = min(max(x[X_TILT_Y], -_LARGEST_TILT), _LARGEST_TILT)
    x[X_GYRO_X] = min(max(x[X_GYRO_X], -_LARGEST_GYRO_BIAS), _LARGEST_GYRO_BIAS)
    x[X_GYRO_Y] = min(max(x[X_GYRO_Y], -_LARGEST_GYRO_BIAS), _LARGEST_GYRO_BIAS)


@njit(cache=True, error_model="numpy", nogil=True)
def filter_error_samples(
    kind: int,
    parameters: Array,
    body: Body,
    state: Array,
    signals: Signals,
    out: Array,
    events: Array,
) -> int:
    """Filter samples one after another; how many events were found.

    Parameters
    ----------
    kind
        `ESKF1`, `ESKF2`.
    state
        (STATE_SIZE,), changed.

    The others are those of `vertical_kernels.filter_samples`. `goal` is not used: no velocity is inferred at liftoff.
    """
    length, gravity, nominal_dt, _ = body
    dt, acceleration, usable, _, thrust, _ = signals
    f1, f2 = 2.0 * np.pi * parameters[kernels.F_STATE], 2.0 * np.pi * parameters[kernels.F_PHASE]
    gain1, gain2 = f1 * nominal_dt / (1.0 + f1 * nominal_dt), f2 * nominal_dt / (1.0 + f2 * nominal_dt)
    switch = parameters[kernels.SWITCH] * gravity
    q = parameters[kernels.SIGMA_A] ** 2
    r_p, r_v, r_b = parameters[kernels.SIGMA_P] ** 2, parameters[kernels.SIGMA_V] ** 2, parameters[kernels.SIGMA_B] ** 2
    threshold = parameters[kernels.JERK] * phase_kernels.JERK_STEPS
    record = out.shape[0] > 0
    column = np.empty(ERROR_COUNT)
    x = state[:X_COVARIANCE]
    p = state[X_COVARIANCE:].reshape(ERROR_COUNT, ERROR_COUNT)
    y1, y2, h1, h2, h3 = state[X_Y1], state[X_Y2], state[X_H1], state[X_H2], state[X_H3]
    side_x, side_y = state[X_SIDE_X], state[X_SIDE_Y]
    phase, since, still, apex = int(state[X_PHASE]), state[X_SINCE], state[X_STILL], state[X_APEX]
    started, time, gap = state[X_STARTED], state[X_TIME], state[X_GAP]
    found = 0
    for n in range(dt.shape[0]):
        step = dt[n]
        g1, g2 = gain1, gain2
        if abs(step - nominal_dt) > 1e-5:
            g1, g2 = f1 * step / (1.0 + f1 * step), f2 * step / (1.0 + f2 * step)
        a, distrust = phase_kernels.choose(int(usable[n]), acceleration[n, 0], acceleration[n, 1], y1, gravity, switch)
        is_gap, over_gap = step > phase_kernels.GAP_STEPS * nominal_dt, y1
        gap = phase_kernels.remembered_gap(gap, step, nominal_dt)
        if is_gap:
            over_gap, unknown = phase_kernels.acceleration_over_gap(step, y1, a)
            distrust += unknown
        if started == 0.0:
            y1, y2, h1, h2, h3, started = a, a, a, a, a, 1.0
            side_x, side_y = acceleration[n, 2], acceleration[n, 3]
        y1 += g1 * (a - y1)
        y2 += g2 * (a - y2)
        side_x += g1 * (acceleration[n, 2] - side_x)
        side_y += g1 * (acceleration[n, 3] - side_y)
        rise = y2 - h3
        h3, h2, h1 = h2, h1, y2
        force = (over_gap if is_gap else y1) + gravity
        propagate_covariance(x, p, step, side_x, side_y, force, q + distrust)
        propagate(x, step, side_x, side_y, force, gravity)
        since += step
        time += step
        # A third of the time that the readings of the rise span. Stamps of a sender that was held up stand close
        # together; what they are of did not.
        usual = step if abs(step - nominal_dt) <= 1e-5 else max(step, nominal_dt)
        over = gap / phase_kernels.JERK_STEPS + (0.0 if is_gap else usual)
        limit = threshold * over
        if usable[n] & 7 == 2:
            limit += g2 * phase_kernels.ALONE_RISE_M_S2
        event = phase_kernels.phase_event(phase, since, x[X_V], y2, rise, limit)
        if usable[n] & 8 and phase_kernels.awaits_high(int(usable[n]), acceleration[n, 0], gravity, switch):
            event = phase_kernels.NO_EVENT
        if event == phase_kernels.LOST:
            p[X_Z, X_Z] += phase_kernels.LOST_HEIGHT_M**2
            p[X_V, X_V] += phase_kernels.LOST_SPEED_M_S**2
            phase, since = STARTUP, 0.0
        # A robot that stands: supported, and not moving for longer than any flight's balance of forces lasts.
        still = (
            still + step
            if abs(a) < phase_kernels.STILL_M_S2 + 0.5 * abs(y1) and abs(y1) < phase_kernels.STILL_M_S2
            else 0.0
        )
        if event >= 0:
            found = phase_kernels.add_event(events, found, event, time, x[X_Z], x[X_V], p[X_Z, X_Z], n)
            if event in (TOUCHDOWN, LIFTOFF):
                delay = parameters[kernels.DELAY_TD] if event == TOUCHDOWN else parameters[kernels.DELAY_LO]
                variance = r_p + (x[X_V] ** 2 + p[X_V, X_V]) * gap**2
                inject(x, p, column, X_Z, X_V, -delay, length - (x[X_Z] - delay * x[X_V]), variance)  # z - v d = L
            elif event == MAX_SQUAT:
                inject(x, p, column, X_V, X_V, 0.0, parameters[kernels.DELAY_MS] * y1 - x[X_V], r_v)
            if event == APEX:
                apex = x[X_Z]
                phase = DROP
            else:
                phase = event + 1
            since = 0.0
        elif kind == ESKF2 and phase in (DROP, REBOUND) and thrust[n] == thrust[n]:
            # The bias alone: sideways forces in flight are noise and shocks, which would pass for tilt.
            pushed = parameters[kernels.THRUST1] * thrust[n] + parameters[kernels.THRUST0] * 0.1 - gravity
            excess = corrected_acceleration(x, acceleration[n, 2], acceleration[n, 3], a + gravity, gravity) - pushed
            inject(x, p, column, X_BIAS, X_BIAS, 0.0, excess, r_b)
        if still > phase_kernels.STILL_S and event < 0:
            phase, since = STARTUP, 0.0
            x[X_V] = 0.0
            x[X_Z] += (length - x[X_Z]) * min(10.0 * step, 1.0)
            height_variance = min(p[X_Z, X_Z], 1e-2)
            p[: X_V + 1] = 0.0
            p[:, : X_V + 1] = 0.0
            p[X_Z, X_Z], p[X_V, X_V] = height_variance, 1e-4
        if record:
            out[n, 0], out[n, 1], out[n, 2] = x[X_Z], x[X_V], p[X_Z, X_Z]
            out[n, 3], out[n, 4], out[n, 5] = p[X_Z, X_V], p[X_V, X_V], phase
    state[X_Y1], state[X_Y2], state[X_H1], state[X_H2], state[X_H3] = y1, y2, h1, h2, h3
    state[X_SIDE_X], state[X_SIDE_Y] = side_x, side_y
    state[X_PHASE], state[X_SINCE], state[X_STILL], state[X_APEX] = phase, since, still, apex
    state[X_STARTED], state[X_TIME], state[X_GAP] = started, time, gap
    return found
