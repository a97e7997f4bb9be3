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

Low-pass filters and phase logic are those of `phases`; low-pass filters come before the
correction, so that an injected error acts at once. Inferred measurements: position at touchdown and liftoff, velocity
at max squat; ESKF2 adds the bias in flight, the corrected reading less thrust and gravity. The paper dropped the
velocity at liftoff, with which it saw instability.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from hopper_estimation.estimators.vertical_kernels import STANDING_VV, thrust_excess
from hopper_estimation.model import phases
from hopper_estimation.model.phases import Array, Body, Records, Tuned, layout

ESKF1, ESKF2 = 0, 1

# Errors, and the nominal values that they are added to.
X_Z, X_V, X_TILT_X, X_TILT_Y, X_BIAS, X_GYRO_X, X_GYRO_Y = range(7)
ERROR_COUNT = 7
STATE = layout(
    [
        *phases.HOP,
        *((name, np.float64) for name in ("z", "v", "zz", "zv", "vv", "side_x", "side_y")),
        ("x", np.float64, ERROR_COUNT),
        ("p", np.float64, (ERROR_COUNT, ERROR_COUNT)),
    ]
)
"""Height and velocity at the start; filtered horizontal force, m/s^2; nominal values; covariance of the error."""

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


def start_state(height_m: float, velocity_m_s: float, covariance: Array, phase: int) -> Records:
    """(1,) of `STATE` before the first reading, see `phases.new_filter_state`.

    Nothing is known of tilt and biases but that the sensors were zeroed.
    """
    state = phases.new_filter_state(STATE, height_m, velocity_m_s, covariance, phase)
    state["x"][0, :X_TILT_X] = height_m, velocity_m_s
    state["p"] = np.diag(np.square([0.0, 0.0, *START_STDDEV]))
    state["p"][0, :X_TILT_X, :X_TILT_X] = covariance
    return state


@njit(cache=True, error_model="numpy", nogil=True)
def corrected_acceleration(x: Array, force_x: float, force_y: float, force_z: float, gravity: float) -> float:
    """u: vertical acceleration by the nominal values (7,) and the specific force in the given attitude, m/s^2."""
    tilt_x, tilt_y = x[X_TILT_X], x[X_TILT_Y]
    second = 0.5 * (tilt_x * tilt_x + tilt_y * tilt_y)
    return force_z * (1.0 - second) - gravity + tilt_x * force_y - tilt_y * force_x - x[X_BIAS]


@njit(cache=True, error_model="numpy", nogil=True)
def propagate(x: Array, step: float, force_x: float, force_y: float, force_z: float, gravity: float) -> None:
    """Nominal values (7,), and whatever follows them, one step on."""
    used = corrected_acceleration(x, force_x, force_y, force_z, gravity)
    x[X_Z] += step * (x[X_V] + 0.5 * step * used)
    x[X_V] += step * used
    x[X_TILT_X] -= step * x[X_GYRO_X]
    x[X_TILT_Y] -= step * x[X_GYRO_Y]


@njit(cache=True, error_model="numpy", nogil=True)
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


@njit(cache=True, error_model="numpy", nogil=True)
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
    for tilt, gyro in ((X_TILT_X, X_GYRO_X), (X_TILT_Y, X_GYRO_Y)):
        x[tilt] = min(max(x[tilt], -_LARGEST_TILT), _LARGEST_TILT)
        x[gyro] = min(max(x[gyro], -_LARGEST_GYRO_BIAS), _LARGEST_GYRO_BIAS)


@njit(cache=True, error_model="numpy", nogil=True)
def inferred(t: Tuned, x: Array, p: Array, column: Array, event: int, gap: float, y1: float) -> None:
    """The measurements that an event infers, at a gap, s, and a level of acceleration, m/s^2; see `inject`."""
    parameters = t.parameters
    if event in (phases.TOUCHDOWN, phases.LIFTOFF):
        delay = parameters[phases.DELAY_TD] if event == phases.TOUCHDOWN else parameters[phases.DELAY_LO]
        variance = parameters[phases.SIGMA_P] ** 2 + (x[X_V] ** 2 + p[X_V, X_V]) * gap**2
        residual = t.body.length - (x[X_Z] - delay * x[X_V])  # z - v d = L
        inject(x, p, column, X_Z, X_V, -delay, residual, variance)
    elif event == phases.MAX_SQUAT:
        residual = parameters[phases.DELAY_MS] * y1 - x[X_V]
        inject(x, p, column, X_V, X_V, 0.0, residual, parameters[phases.SIGMA_V] ** 2)


@njit(cache=True, error_model="numpy", nogil=True)
def stood(x: Array, p: Array, step: float, length: float) -> None:
    """A robot that stands, after a step, s: its height nears the leg's length."""
    x[X_V] = 0.0
    x[X_Z] += (length - x[X_Z]) * min(10.0 * step, 1.0)
    height_variance = min(p[X_Z, X_Z], 1e-2)
    for i in range(ERROR_COUNT):
        p[X_Z, i] = p[X_V, i] = p[i, X_Z] = p[i, X_V] = 0.0
    p[X_Z, X_Z], p[X_V, X_V] = height_variance, STANDING_VV


@njit(cache=True, error_model="numpy", nogil=True)
def run(
    kind: int, parameters: Array, body: Body, states: Records, signals: Records, out: Array, events: Records
) -> int:
    """A filter over one `SIGNAL` after another; how many events were found. As `vertical_kernels.run`.

    `kind` is `ESKF1` or `ESKF2`, `states` (1,) of `STATE`. The commanded height is not
    used: no velocity is inferred at liftoff.
    """
    state, t, found, gravity = states[0], phases.tuned(parameters, body), 0, body.gravity
    x, p, column = state.x, state.p, np.empty(ERROR_COUNT)
    for n in range(len(signals)):
        s = signals[n]
        if state.begun == 0.0:
            state.side_x, state.side_y = s.side_x, s.side_y
        a, used, doubt, rise, gain1, gain2 = phases.listen(t, state, s)
        state.side_x += gain1 * (s.side_x - state.side_x)
        state.side_y += gain1 * (s.side_y - state.side_y)
        force = state.side_x, state.side_y, used + gravity
        propagate_covariance(x, p, s.dt, *force, parameters[phases.SIGMA_A] ** 2 + doubt)
        propagate(x, s.dt, *force, gravity)
        event = phases.seen(t, state, s, x[X_V], rise, gain2)
        if event == phases.LOST:
            p[X_Z, X_Z] += phases.LOST_HEIGHT_M**2
            p[X_V, X_V] += phases.LOST_SPEED_M_S**2
        if event >= 0:
            found = phases.add_event(events, found, event, n, state.time, x[X_Z], x[X_V], p[X_Z, X_Z])
            inferred(t, x, p, column, event, state.gap, state.y1)
        elif kind == ESKF2 and phases.flies_on(state, event) and not np.isnan(s.thrust):
            # The bias alone: sideways forces in flight are noise and shocks, which would pass for tilt.
            upwards = corrected_acceleration(x, s.side_x, s.side_y, a + gravity, gravity)
            excess = thrust_excess(t, upwards, s.thrust)
            inject(x, p, column, X_BIAS, X_BIAS, 0.0, excess, parameters[phases.SIGMA_B] ** 2)
        rests = abs(a) < phases.STILL_M_S2 + 0.5 * abs(state.y1) and abs(state.y1) < phases.STILL_M_S2
        if phases.enter(state, event, rests, s.dt):
            stood(x, p, s.dt, body.length)
        out[n, 0], out[n, 1] = x[X_Z], x[X_V]
        if out.shape[1] > 2:
            out[n, 2], out[n, 3], out[n, 4], out[n, 5] = p[X_Z, X_Z], p[X_Z, X_V], p[X_V, X_V], state.phase
    return found
