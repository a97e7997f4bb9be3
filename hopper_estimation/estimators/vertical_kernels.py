"""Compiled vertical state filters: KF1, KF2, KF3 of the paper.

One sample after another, with the phases and the low-passed acceleration y1 of `phases`:

    prediction                v += y1 dt, z += v dt + y1 dt^2 / 2, covariance with an acceleration noise
    inferred measurements     at touchdown and liftoff the leg is extended: z - v d = L
                              at max squat the body turns round: v - y1 d = 0
                              at liftoff v = s v, s = exp(fit), a fit of liftoff velocity and commanded height
                              in flight (KF2) the accelerometer's bias is its reading less thrust and gravity

(sections III and IV-A). The delays d, between an event and its detection, are ours: at 8 m/s a touchdown that is seen
10 ms late is 8 cm lower than the leg is long. Zero delays are the paper's form.

Readings that deserve less trust than usual make the covariance wider. The velocities that are inferred are inferred
from the estimate, and their trained weights belong to it: so that doubtful readings do not make them weigh more, their
variance grows by the same ratio as that of the velocity.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from hopper_estimation.model import phases
from hopper_estimation.model.phases import Array, Body, Record, Records, Tuned, layout

KF1, KF2, KF3 = 0, 1, 2

FIT_SCALE = 0.05
LARGEST_EXPONENT = 5.0
_FASTEST_M_S = 30.0
SPEED_SCALE_M_S = 5.0
_HEIGHT_SCALE_M = 4.0
_USUAL_GOAL_M = 2.0
LARGEST_SHARE = 1.0 - 1e-9
_BIAS_WALK = 1e-4
"""(m/s^2)^2/s."""
ZEROED_BIAS_VARIANCE = 0.01
"""Of KF2's bias, which starts at zero, what zeroing leaves."""
STANDING_VV = 1e-4
"""Variance of the velocity of a robot that stands, m^2/s^2."""


STATE = layout(
    [
        *phases.HOP,
        *((name, np.float64) for name in ("z", "v", "b", "zz", "zv", "vv", "zb", "vb", "bb", "distrusted")),
    ]
)
"""Height (m), vertical velocity (m/s) and bias of the acceleration (m/s^2; only KF2 has one), their covariance, and the
part of vv that comes from readings which deserve less trust than usual."""


def start_state(height_m: float, velocity_m_s: float, covariance: Array, phase: int, bias: float = 0.0) -> Records:
    """(1,) of `STATE` before the first sample, see `phases.new_filter_state`; `bias` is its variance."""
    state = phases.new_filter_state(STATE, height_m, velocity_m_s, covariance, phase)
    state["bb"] = bias
    return state


@njit(cache=True, error_model="numpy", nogil=True)
def predict(x: Record, step: float, acceleration: float, noise: float, doubt: float, with_bias: bool) -> None:
    """Over a step, s, with an acceleration, m/s^2, its variance and as much more doubt about it, (m/s^2)^2."""
    zz, zv, vv, zb, vb, bb = x.zz, x.zv, x.vv, x.zb, x.vb, x.bb
    half, used = 0.5 * step, acceleration - x.b
    x.z += step * (x.v + half * used)
    x.v += step * used
    if with_bias:
        # d(z, v)/db = (-dt^2/2, -dt), the bias walks slowly.
        zz += step * (2.0 * zv + step * vv) - step * step * (zb + step * vb) + 0.25 * step**4 * bb
        zv += step * (vv - zb - 1.5 * step * vb + 0.5 * step * step * bb)
        vv += step * (step * bb - 2.0 * vb)
        x.zb += step * (vb - half * bb)
        x.vb -= step * bb
        x.bb += _BIAS_WALK * step
    else:
        zz += step * (2.0 * zv + step * vv)
        zv += step * vv
    noise = (noise + doubt) * step * step
    x.zz, x.zv, x.vv = zz + half * half * noise, zv + half * noise, vv + noise
    x.distrusted += doubt * step * step


@njit(cache=True, error_model="numpy", nogil=True)
def update(x: Record, by_z: float, by_v: float, by_b: float, residual: float, variance: float, gap: float) -> None:
    """By a measurement of by_z z + by_v v + by_b b; `gap` is the variance that a gap before it adds."""
    z = by_z * x.zz + by_v * x.zv + by_b * x.zb
    v = by_z * x.zv + by_v * x.vv + by_b * x.vb
    b = by_z * x.zb + by_v * x.vb + by_b * x.bb
    gain = 1.0 / (by_z * z + by_v * v + by_b * b + variance + gap)
    before = x.vv
    x.z += z * gain * residual
    x.v += v * gain * residual
    x.b += b * gain * residual
    x.zz -= z * z * gain
    x.zv -= z * v * gain
    x.vv -= v * v * gain
    x.zb -= z * b * gain
    x.vb -= v * b * gain
    x.bb -= b * b * gain
    if by_b == 0.0:
        x.distrusted *= x.vv / before


@njit(cache=True, error_model="numpy", nogil=True)
def assumed_goal(goal: float, apex: float, length: float) -> float:
    """Commanded hop height, m; where none was (NaN) that of the last hop, with its apex at `apex` (0: none)."""
    if not np.isnan(goal):
        return goal
    return max(apex - length, 0.0) if apex > 0.0 else _USUAL_GOAL_M


@njit(cache=True, error_model="numpy", nogil=True)
def liftoff_velocity(parameters: Array, velocity: float, goal: float) -> float:
    """s v: the liftoff velocity that is inferred from the estimated one (m/s), no faster than any leg is.

    Without a bound, parameters that a training tries let the velocity grow from hop to hop until it is no number.
    """
    x, y = velocity / SPEED_SCALE_M_S, goal / _HEIGHT_SCALE_M
    fit = (parameters[phases.VEL2] * x + parameters[phases.VEL1]) * x + parameters[phases.VEL0]
    fit = fit + parameters[phases.CH1] * y + parameters[phases.CH0]
    share = np.exp(min(max(FIT_SCALE * fit, -LARGEST_EXPONENT), LARGEST_EXPONENT))
    return min(max(share * velocity, -_FASTEST_M_S), _FASTEST_M_S)


@njit(cache=True, error_model="numpy", nogil=True)
def infer(kind: int, t: Tuned, x: Record, event: int, goal: float) -> None:
    """Update by the measurements that an event infers, at a commanded height, m."""
    p, with_all = t.parameters, kind != KF3
    if event == phases.TOUCHDOWN or (event == phases.LIFTOFF and with_all):
        delay = p[phases.DELAY_TD] if event == phases.TOUCHDOWN else p[phases.DELAY_LO]
        at_any_time = (x.v * x.v + x.vv) * x.gap * x.gap
        update(x, 1.0, -delay, 0.0, t.body.length - (x.z - delay * x.v), p[phases.SIGMA_P] ** 2, at_any_time)
    if with_all and (event in (phases.MAX_SQUAT, phases.LIFTOFF)):
        wanted = p[phases.DELAY_MS] * x.y1
        if event == phases.LIFTOFF:
            wanted = liftoff_velocity(p, x.v, goal)
        share = min(x.distrusted / x.vv, LARGEST_SHARE)
        update(x, 0.0, 1.0, 0.0, wanted - x.v, p[phases.SIGMA_V] ** 2 / (1.0 - share), 0.0)


@njit(cache=True, error_model="numpy", nogil=True)
def thrust_excess(t: Tuned, acceleration: float, thrust: float) -> float:
    """Of an acceleration in flight over thrust less gravity, m/s^2: a measurement of the bias."""
    p = t.parameters
    return acceleration - (p[phases.THRUST1] * thrust + p[phases.THRUST0] * 0.1 - t.body.gravity)


@njit(cache=True, error_model="numpy", nogil=True)
def run(
    kind: int, parameters: Array, body: Body, states: Records, signals: Records, out: Array, events: Records
) -> int:
    """A filter over one `SIGNAL` after another; how many events were found.

    Parameters
    ----------
    kind
        `KF1`, `KF2`, `KF3`.
    parameters
        (PARAMETER_COUNT,) of `phases`.
    states
        (1,) of `STATE`, changed.
    out
        (N, 6) or (N, 2), written: z, v, their covariance (zz, zv, vv) and the phase after each sample.
    events
        (M,) of `EVENT`, written; events beyond M are lost.
    """
    x, t, found = states[0], phases.tuned(parameters, body), 0
    for n in range(len(signals)):
        s = signals[n]
        a, used, doubt, rise, _, gain2 = phases.listen(t, x, s)
        predict(x, s.dt, used, parameters[phases.SIGMA_A] ** 2, doubt, kind == KF2)
        event = phases.seen(t, x, s, x.v, rise, gain2)
        if event == phases.LOST:  # in a phase that no robot stays in: it is somewhere else
            x.zz += phases.LOST_HEIGHT_M**2
            x.vv += phases.LOST_SPEED_M_S**2
            x.distrusted += phases.LOST_SPEED_M_S**2
        if event >= 0:
            found = phases.add_event(events, found, event, n, x.time, x.z, x.v, x.zz)
            infer(kind, t, x, event, assumed_goal(s.goal, x.apex, body.length))
            x.apex = x.z if event == phases.APEX else x.apex
        elif kind == KF2 and phases.flies_on(x, event) and not np.isnan(s.thrust):
            excess = thrust_excess(t, a, s.thrust)
            update(x, 0.0, 0.0, 1.0, excess - x.b, parameters[phases.SIGMA_B] ** 2, 0.0)
        rests = max(abs(a), abs(x.y1)) < phases.STILL_M_S2
        if phases.enter(x, event, rests, s.dt):  # it stands: its height nears the leg's length
            x.z += (body.length - x.z) * min(10.0 * s.dt, 1.0)
            x.zz, x.vv = min(x.zz, 1e-2), STANDING_VV
            x.v = x.zv = x.zb = x.vb = x.distrusted = 0.0
        out[n, 0], out[n, 1] = x.z, x.v
        if out.shape[1] > 2:
            out[n, 2], out[n, 3], out[n, 4], out[n, 5] = x.zz, x.zv, x.vv, x.phase
    return found
