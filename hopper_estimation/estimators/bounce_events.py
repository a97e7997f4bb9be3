"""What touchdowns, liftoffs, gaps and hands do to the state of the filter that goes by the bounce.

    x = (z, v, b, c)    height, velocity, bias of the acceleration, how much the robot's restitution differs
    g                   height of the ground below against that of the start, where it changes: z is above it

Compiled and written out: five numbers and fifteen of a symmetric matrix. See `bounce_kernels` for the whole. Constants
are those of robots and hands, with no part in training.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from hopper_estimation.estimators.vertical_kernels import FIT_SCALE, LARGEST_EXPONENT, SPEED_SCALE_M_S
from hopper_estimation.model import phases
from hopper_estimation.model.phases import STARTUP, Array, Record, Records, layout

STATE = layout(
    [
        *phases.HOP,
        *(
            (name, np.float64)
            for name in (
                *("z", "v", "bias", "bounce", "ground"),
                *("zz", "zv", "vv", "zb", "vb", "bb", "zc", "vc", "bc", "cc", "gg", "zg", "vg", "bg", "cg"),
                *("landed", "speed", "speed_variance", "landed_gap", "push"),
                *("grounded", "moving", "moving_s", "idle", "shock", "rested", "by_shock"),
                *("seen", "ratios", "trend"),
            )
        ),
    ]
)
"""Mean, and its covariance; of the last landing; what is known of a robot that rests or is held; how many touchdowns
are remembered, and the sum of their squared errors over what was foretold."""

BIAS_STDDEV_M_S2 = 0.15
"""What zeroing at rest leaves of scale and tilt errors: 1 % of gravity, and a degree."""
RESTITUTION_SPREAD = 0.06
"""Between robots of a design: 5 % of spring loss and preload, two grounds."""
AS_FORETOLD_HOPS = 2.0
"""So many touchdowns are taken to have been as far off as foretold, before any was seen."""
BIAS_WALK = 1e-4
"""(m/s^2)^2 a hop: some tenths of m/s^2 in ten minutes."""
RESTITUTION_WALK = 0.015
"""From hop to hop, standard deviation: rubber warms, and no two spots of a floor are alike."""
STANCE_SHARE = 0.5
"""Of the shock's integral that clipping, aliasing and the leg's own mass may take or add."""
SQUAT_STDDEV_M_S = 0.5
"""A maximum squat is seen some milliseconds early or late, at 10 g."""
LEFT_STDDEV_S = 0.01
"""By how much a stance is longer or shorter than trained, with height and stiffness: the flight is shifted by that."""
LONGEST_AFTER_S = 0.15
"""A liftoff that is seen later after it was due is another's."""
USUAL_AFTER_S = 0.05
"""Rotors push up to two weights, and training knows what they do until a liftoff is usually seen."""
BELOW_M = 0.15
"""Lower than the leg can be pressed: the touchdown was missed."""
ABOVE_M = 0.15
"""Uneven ground, and what a height may be off by when nothing says so."""
SHOCK_M_S2 = 40.0
SHOCK_RATE = 2.0 * np.pi * 10.0
"""No rotor pushes like that, and no knock does for so long: acceleration of a stance, low-passed at 10 Hz, wherever the
robot was thought to be."""
LEAST_POSITION_M = 0.005
"""Unevenness of flat ground, and of the foot."""
SEEN_STDDEV_S = 0.002
"""Of the delay with which touchdowns are seen, between robots and sensors."""
USUAL_RESTITUTION = 0.6
"""The trained fit is a factor on it."""
LEAST_PUSH_M_S = 0.8
"""A stance turns a robot round that fell from 5 cm; setting it down by hand does not."""
LEAST_PUSH_SHARE = 0.35
"""Of what turns the robot round, as the sensors tell it, with the high-g sensor missing."""
PUSH_SHARE = 0.4
"""By how much a landing's speed may be off that is told by the shock alone."""
UNSURE_M_S = 1.0
"""Standard deviation of a landing's speed beyond which the shock tells it better."""
SHOCK_SEEN_S = 0.006
"""How long a shock takes to be one, low-passed: the touchdown was at any time in that."""
IDLE_S = 0.01
"""How often a robot at rest, or in somebody's hands, is looked after."""
JITTER = 0.1
"""Share of a step by which it may differ from the usual one to be taken to first order."""
HIDDEN_S = 0.002
"""A gap that is remembered for so much may have hidden a touchdown."""
UNSEEN_PUSH_M_S = 1e3
"""Of a landing in a gap: its shock is believed."""
KNOWN_M = 0.5
"""A height that is known to so much tells where the ground is."""
STANDING_M = 0.1
"""A robot that did not bounce stands, its leg pressed or not."""
RESTING_M_S2 = 3.0
"""More than that is no robot that stands."""
NEVER_FLEW_S = 0.15
"""A robot that rests so soon after it seemed to leave the ground has not left it."""
CARRIED_M_S = 0.5
"""What is at rest by its readings may be carried at a steady speed."""
MOVED_M_S = 0.25
MOVED_S = 0.15
MOVING_TIME_S = 1.0
"""A robot whose readings add up to such a speed for so long was lifted, or takes off."""
SURPRISE = 2.5
"""A touchdown further off than so many standard deviations was not led to by what is modelled."""
ROOM_M = 3.0
ROOM_M_S = 2.0
ROOM_TIME_S = 2.0
"""A robot in somebody's hands is somewhere within reach."""
REMEMBERED = 0.8
"""Of how well touchdowns were foretold, from hop to hop: the last five count most."""
LONGEST_TREND = 2.5
"""Of touchdowns that are all off to one side, in standard deviations; by chance one in a hundred is longer."""
LEAST_ERROR_M, LARGEST_ERROR_M = 0.02, 1.0
SLOWEST_M_S = 0.3
"""Slower than that nothing lands."""
DEVIATIONS = 4.0
"""By how many standard deviations a height or speed may be off."""


def start_state(height_m: float, velocity_m_s: float, covariance: Array, phase: int) -> Records:
    """(1,) of `STATE` before the first sample, see `phases.new_filter_state`."""
    state = phases.new_filter_state(STATE, height_m, velocity_m_s, covariance, phase)
    state["bb"], state["cc"] = BIAS_STDDEV_M_S2**2, RESTITUTION_SPREAD**2
    state["seen"] = state["ratios"] = AS_FORETOLD_HOPS
    state["grounded"] = phase == STARTUP
    return state


@njit(cache=True, error_model="numpy", nogil=True)
def propagate(x: Record, step: float, noise: float) -> None:
    """Move the covariance on by `step` s with an acceleration noise of that density, (m/s^2)^2 s."""
    zz, zv, vv = x.zz, x.zv, x.vv
    zb, vb, bb = x.zb, x.vb, x.bb
    zc, vc, bc = x.zc, x.vc, x.bc
    half = 0.5 * step
    # z' = z + t v - t^2/2 b, v' = v - t b
    x.zz = (
        zz + step * (2.0 * zv + step * vv) - 2.0 * half * step * (zb + step * vb) + (half * step) ** 2 * bb
    ) + noise * step * step * step / 3.0
    x.zv = zv + step * (vv - zb - 1.5 * step * vb + half * step * bb) + noise * half * step
    x.vv = vv + step * (step * bb - 2.0 * vb) + noise * step
    x.zb = zb + step * (vb - half * bb)
    x.vb = vb - step * bb
    x.zc = zc + step * (vc - half * bc)
    x.vc = vc - step * bc
    x.zg += step * (x.vg - half * x.bg)
    x.vg -= step * x.bg


@njit(cache=True, error_model="numpy", nogil=True)
def update(x: Record, hz: float, hv: float, hc: float, residual: float, variance: float) -> None:
    """A measurement hz z + hv v + hc c, with its residual and variance: mean and covariance."""
    z = x.zz * hz + x.zv * hv + x.zc * hc
    v = x.zv * hz + x.vv * hv + x.vc * hc
    b = x.zb * hz + x.vb * hv + x.bc * hc
    c = x.zc * hz + x.vc * hv + x.cc * hc
    g = x.zg * hz + x.vg * hv + x.cg * hc
    gain = 1.0 / (hz * z + hv * v + hc * c + variance)
    step = gain * residual
    x.z += z * step
    x.v += v * step
    x.bias += b * step
    x.bounce += c * step
    x.ground += g * step
    x.zz -= z * z * gain
    x.zv -= z * v * gain
    x.vv -= v * v * gain
    x.zb -= z * b * gain
    x.vb -= v * b * gain
    x.bb -= b * b * gain
    x.zc -= z * c * gain
    x.vc -= v * c * gain
    x.bc -= b * c * gain
    x.cc -= c * c * gain
    x.gg -= g * g * gain
    x.zg -= z * g * gain
    x.vg -= v * g * gain
    x.bg -= b * g * gain
    x.cg -= c * g * gain


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def step_of_ground(x: Record, stddev: float) -> None:
    """What is below the robot from now on may lie higher or lower by as much, m: its height above that with it."""
    variance = stddev * stddev
    x.zz += variance
    x.gg += variance
    x.zg -= variance


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def restitution(parameters: Array, speed: float) -> float:
    """e: speed after a bounce over the speed (m/s) before it, of the robots that training saw."""
    y = speed / SPEED_SCALE_M_S
    fit = (parameters[phases.VEL2] * y + parameters[phases.VEL1]) * y + parameters[phases.VEL0]
    exponent = min(max(FIT_SCALE * fit, -LARGEST_EXPONENT), LARGEST_EXPONENT)
    return USUAL_RESTITUTION * np.exp(exponent)


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def may_land(x: Record, length: float) -> bool:
    """Whether the robot may be at the leg's length above the ground, and falling."""
    low = x.z - DEVIATIONS * np.sqrt(x.zz) < length + ABOVE_M
    return low and x.v - DEVIATIONS * np.sqrt(x.vv) < 0.0


@njit(cache=True, error_model="numpy", nogil=True)
def forget_links(x: Record) -> None:
    """What height and velocity are off by says no more of the bias and the bounce."""
    x.zb, x.vb, x.zc, x.vc = 0.0, 0.0, 0.0, 0.0
    x.bg, x.cg = 0.0, 0.0


@njit(cache=True, error_model="numpy", nogil=True)
def compare(x: Record, length: float, late: float) -> None:
    """Of a touchdown that is seen `late`, s: how far off it is, against what was foretold."""
    error = min(max(x.z - late * x.v - length, -LARGEST_ERROR_M), LARGEST_ERROR_M)
    error /= max(np.sqrt(x.zz), LEAST_ERROR_M)
    x.seen = REMEMBERED * x.seen + 1.0
    x.ratios = REMEMBERED * x.ratios + error * error
    x.trend = REMEMBERED * x.trend + error


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def widening(x: Record) -> float:
    """By how much what is told is less sure than what is known: as the last touchdowns were off, if they were."""
    return max(x.ratios / x.seen, 1.0)


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def doubt_bounce(x: Record) -> None:
    """A robot whose last touchdowns were all too high, or all too low, may bounce otherwise than it did."""
    doubt = abs(x.trend) / LONGEST_TREND
    b = max(min(doubt, BIAS_STDDEV_M_S2 / np.sqrt(x.bb)), 1.0)
    c = max(min(doubt, RESTITUTION_SPREAD / np.sqrt(x.cc)), 1.0)
    x.zb, x.vb, x.bb, x.bg = b * x.zb, b * x.vb, b * b * x.bb, b * x.bg
    x.zc, x.vc, x.cc, x.cg = c * x.zc, c * x.vc, c * c * x.cc, c * x.cg
    x.bc *= b * c


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def touch_down(parameters: Array, length: float, x: Record) -> None:
    """The leg is extended; how fast the robot comes is what it bounces by.

    After a gap the touchdown was at any time in it, the more likely the nearer to when it was foretold.
    """
    by_shock = x.by_shock != 0.0
    gap, delay = x.gap, parameters[phases.DELAY_TD]
    fast = max(-x.v, SLOWEST_M_S)
    late, unsure_s = delay, gap
    if gap > delay:
        foretold, even = fast * fast / x.zz, 12.0 / (gap * gap)
        late = ((length - x.z) / fast * foretold + 0.5 * gap * even) / (foretold + even)
        late, unsure_s = min(max(late, 0.0), gap), 1.0 / np.sqrt(foretold + even)
    if by_shock and not may_land(x, length):
        x.zz += (length - x.z) ** 2
    variance = KNOWN_M**2 if by_shock else 0.0  # or a hand caught it: the liftoff tells
    variance += parameters[phases.SIGMA_P] ** 2 + LEAST_POSITION_M**2
    within = gap * gap / 12.0 if gap > delay else gap * gap
    variance += (x.v**2 + x.vv) * (within + SEEN_STDDEV_S**2)
    residual = length - (x.z - late * x.v)
    spread = x.zz - 2.0 * late * x.zv + late * late * x.vv + variance
    if by_shock or residual * residual > SURPRISE**2 * spread:
        # What led there was no flight that tells of bias and bounce; or these are further off than any that were seen.
        forget_links(x)
        x.bb += BIAS_STDDEV_M_S2**2
        x.cc += RESTITUTION_SPREAD**2
    update(x, 1.0, -late, 0.0, residual, variance)
    x.landed, x.speed = x.time - late, max(-x.v, 0.0)
    x.speed_variance, x.landed_gap = x.vv, unsure_s


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def fall_time(x: Record, acceleration: float, length: float) -> float:
    """Until the robot is at the leg's length, s, where it is known well enough; infinite: it is not, or it rises."""
    z, v = x.z, x.v
    if v >= -SLOWEST_M_S or x.zz > KNOWN_M**2 or z < length - BELOW_M:
        return np.inf
    if z <= length:
        return 0.0
    # z + v t + a t^2 / 2 = L in the form that does without a difference of like numbers.
    root = v * v - 2.0 * acceleration * (z - length)
    return 2.0 * (z - length) / (np.sqrt(root) - v) if root >= 0.0 else np.inf


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def land_unseen(x: Record, time: float, fall: float, acceleration: float, length: float, flight_noise: float) -> None:
    """A touchdown in a gap, `fall` s after its last reading at `time`: the state then, without a measurement."""
    propagate(x, fall, flight_noise)
    x.v += acceleration * fall
    speed = max(-x.v, SLOWEST_M_S)
    x.grounded = 1.0
    x.landed, x.speed, x.speed_variance = time + fall, speed, x.vv
    x.landed_gap = np.sqrt(x.zz) / speed
    x.z = length


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def lift_off(parameters: Array, length: float, gravity: float, x: Record) -> None:
    """Velocity by the bounce, then the leg was extended. Without a landing: the leg is extended now."""
    speed, gap, position = x.speed, x.gap, parameters[phases.SIGMA_P] ** 2 + LEAST_POSITION_M**2
    if x.speed_variance > UNSURE_M_S**2:
        speed = max(x.push, 0.0) / (1.0 + USUAL_RESTITUTION)
        x.speed_variance = (PUSH_SHARE * speed) ** 2
    x.grounded = 0.0
    after = x.time - x.landed - parameters[phases.STANCE_TIME]
    if speed <= 0.0 or after > LONGEST_AFTER_S:
        update(x, 1.0, 0.0, 0.0, length - x.z, position + (x.v**2 + x.vv) * gap * gap)
        return
    after = max(after, 0.0)
    rebound = restitution(parameters, speed) * speed
    share = rebound / speed
    x.bb += BIAS_WALK
    x.cc += RESTITUTION_WALK**2
    spread = parameters[phases.SIGMA_V] * rebound / SPEED_SCALE_M_S
    late = x.landed_gap
    pushed = gravity * max(after - USUAL_AFTER_S, 0.0)
    variance = spread * spread + share * share * x.speed_variance + (gravity * late) ** 2 + pushed * pushed
    update(x, 0.0, 1.0, -rebound, rebound * (1.0 + x.bounce) - gravity * after - x.v, variance)
    fallen = 0.5 * gravity * after * after
    variance = position + (x.v**2 + x.vv) * late * late
    update(x, 1.0, -after, 0.0, length - (x.z - after * x.v - fallen), variance)
    x.speed = 0.0


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def add_doubt(x: Record, step: float, variance: float) -> None:
    """The velocity may have changed by as much, (m/s)^2, at any time in the last step, s."""
    x.vv += variance
    x.zv += 0.5 * step * variance
    x.zz += step * step * variance / 3.0


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def shock_variance(speed: float) -> float:
    """Of what a landing at that speed, m/s, seems to change the velocity by, (m/s)^2."""
    return (STANCE_SHARE * (1.0 + USUAL_RESTITUTION) * speed) ** 2


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def shift_variance(phase: int, velocity: float) -> float:
    """Of a rebound's height at that velocity, m/s, by when it began, m^2; the drop's own is larger."""
    return (LEFT_STDDEV_S * velocity) ** 2 if phase == phases.REBOUND else 0.0


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def turned_round(x: Record, push: float) -> bool:
    """Whether the shock of this stance, m/s, was enough for a bounce; what a gap hides of it is believed."""
    if x.gap > SHOCK_SEEN_S or x.landed_gap > SHOCK_SEEN_S:
        return True
    known = x.speed if x.speed_variance < UNSURE_M_S**2 else 0.0
    return push > max(LEAST_PUSH_M_S, LEAST_PUSH_SHARE * (1.0 + USUAL_RESTITUTION) * known)


@njit(cache=True, error_model="numpy", nogil=True)
def lose(x: Record, length: float) -> None:
    """A stance that does not end is a robot that stands; a flight that does not end is somewhere else."""
    x.speed = 0.0
    if x.grounded != 0.0:
        update(x, 1.0, 0.0, 0.0, length - x.z, STANDING_M**2)
        update(x, 0.0, 1.0, 0.0, -x.v, CARRIED_M_S**2)
    else:
        x.zz += phases.LOST_HEIGHT_M**2
        x.vv += phases.LOST_SPEED_M_S**2


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def leave_ground(x: Record) -> None:
    """It is lifted, or takes off; where it was never seen to rest, it may have been anywhere from the beginning."""
    if x.grounded != 0.0 and x.rested == 0.0:
        x.zz += ROOM_M**2
        x.vv += ROOM_M_S**2
    x.grounded = 0.0


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def rest(x: Record, length: float, step: float, rests: bool) -> None:
    """A robot that rests on the ground stands on an extended leg; where it is in somebody's hands, nobody knows."""
    if x.grounded != 0.0:
        x.v, x.speed = 0.0, 0.0
        x.z += (length - x.z) * min(10.0 * step, 1.0)
        x.zz, x.zv, x.vv = min(x.zz, 1e-2), 0.0, 1e-4
        x.zg, x.vg = 0.0, 0.0
        x.rested = 1.0
        forget_links(x)
        return
    if rests:
        x.v, x.speed, x.vv, x.zv = 0.0, 0.0, CARRIED_M_S**2, 0.0
        x.zz += CARRIED_M_S**2 * step * MOVING_TIME_S
    forget_links(x)  # hands tell nothing of the bias in flight, nor of the bounce
    x.vv += x.bb * step * ROOM_TIME_S
    wide = ROOM_TIME_S / step
    update(x, 1.0, 0.0, 0.0, length + 0.5 * ROOM_M - x.z, ROOM_M**2 * wide)
    update(x, 0.0, 1.0, 0.0, -x.v, ROOM_M_S**2 * wide)


@njit(cache=True, error_model="numpy", nogil=True)
def wait(x: Record, step: float, y1: float) -> None:
    """A step, s, of a robot that does not hop: whether its readings add up to a motion."""
    x.idle += step
    x.moving += step * (y1 - x.moving / MOVING_TIME_S)
    x.moving_s = x.moving_s + step if abs(x.moving) > MOVED_M_S else 0.0
