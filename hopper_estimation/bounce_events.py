"""What touchdowns, liftoffs, gaps and hands do to the state of the filter that goes by the bounce.

Compiled functions over its state, see `bounce_kernels` for the whole. Constants are those of robots and hands, with no
part in training.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hopper_estimation import bounce_state as at
from hopper_estimation import phase_kernels
from hopper_estimation import vertical_kernels as kernels

Array = NDArray[np.float64]

BIAS_WALK = 1e-4
"""(m/s^2)^2 a hop: some tenths of m/s^2 in ten minutes."""
RESTITUTION_WALK = 0.005
"""From hop to hop."""
STANCE_SHARE = 0.5
"""Of the shock's integral that clipping, aliasing and the leg's own mass may take or add."""
SQUAT_STDDEV_M_S = 0.5
"""A maximum squat is seen some milliseconds early or late, at 10 g."""
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
LEAST_ERROR_M, LARGEST_ERROR_M = 0.02, 1.0
SLOWEST_M_S = 0.3
"""Slower than that nothing lands."""
DEVIATIONS = 4.0
"""By how many standard deviations a height or speed may be off."""


@njit(cache=True, error_model="numpy")
def restitution(parameters: Array, speed: float) -> float:
    """e: speed after a bounce over the speed (m/s) before it, of the robots that training saw."""
    x = speed / kernels.SPEED_SCALE_M_S
    fit = (parameters[kernels.VEL2] * x + parameters[kernels.VEL1]) * x + parameters[kernels.VEL0]
    exponent = min(max(kernels.FIT_SCALE * fit, -kernels.LARGEST_EXPONENT), kernels.LARGEST_EXPONENT)
    return USUAL_RESTITUTION * np.exp(exponent)


@njit(cache=True, error_model="numpy", nogil=True)
def may_land(state: Array, length: float) -> bool:
    """Whether the robot may be at the leg's length above the ground, and falling."""
    low = state[at.Z] - DEVIATIONS * np.sqrt(state[at.ZZ]) < length + ABOVE_M
    return low and state[at.V] - DEVIATIONS * np.sqrt(state[at.VV]) < 0.0


@njit(cache=True, error_model="numpy", nogil=True)
def forget_links(state: Array) -> None:
    """What height and velocity are off by says no more of the bias and the bounce."""
    state[at.ZB], state[at.VB], state[at.ZC], state[at.VC] = 0.0, 0.0, 0.0, 0.0
    state[at.BG], state[at.CG] = 0.0, 0.0


@njit(cache=True, error_model="numpy", nogil=True)
def compare(state: Array, length: float, late: float) -> None:
    """Of a touchdown that is seen `late`, s: how far off it is, against what was foretold."""
    error = min(abs(state[at.Z] - late * state[at.V] - length), LARGEST_ERROR_M)
    state[at.SEEN] = REMEMBERED * state[at.SEEN] + 1.0
    state[at.RATIOS] = REMEMBERED * state[at.RATIOS] + error * error / max(state[at.ZZ], LEAST_ERROR_M**2)


@njit(cache=True, error_model="numpy", nogil=True)
def widening(state: Array) -> float:
    """By how much what is told is less sure than what is known: as the last touchdowns were off, if they were."""
    return max(state[at.RATIOS] / state[at.SEEN], 1.0)


@njit(cache=True, error_model="numpy", nogil=True)
def touch_down(parameters: Array, length: float, state: Array, by_shock: bool) -> None:
    """The leg is extended; how fast the robot comes is what it bounces by.

    After a gap the touchdown was at any time in it, the more likely the nearer to when it was foretold.
    """
    gap, delay = state[at.GAP], parameters[kernels.DELAY_TD]
    fast = max(-state[at.V], SLOWEST_M_S)
    late, unsure_s = delay, gap
    if gap > delay:
        foretold, even = fast * fast / state[at.ZZ], 12.0 / (gap * gap)
        late = ((length - state[at.Z]) / fast * foretold + 0.5 * gap * even) / (foretold + even)
        late, unsure_s = min(max(late, 0.0), gap), 1.0 / np.sqrt(foretold + even)
    if by_shock and not may_land(state, length):
        state[at.ZZ] += (length - state[at.Z]) ** 2
    variance = KNOWN_M**2 if by_shock else 0.0  # or a hand caught it: the liftoff tells
    variance += parameters[kernels.SIGMA_P] ** 2 + LEAST_POSITION_M**2
    within = gap * gap / 12.0 if gap > delay else gap * gap
    variance += (state[at.V] ** 2 + state[at.VV]) * (within + SEEN_STDDEV_S**2)
    residual = length - (state[at.Z] - late * state[at.V])
    spread = state[at.ZZ] - 2.0 * late * state[at.ZV] + late * late * state[at.VV] + variance
    if by_shock or residual * residual > SURPRISE**2 * spread:
        # What led there was no flight that tells of bias and bounce; or these are further off than any that were seen.
        forget_links(state)
        state[at.BB] += at.BIAS_STDDEV_M_S2**2
        state[at.CC] += at.RESTITUTION_SPREAD**2
    at.update(state, 1.0, -late, 0.0, residual, variance)
    state[at.LANDED], state[at.SPEED] = state[at.TIME] - late, max(-state[at.V], 0.0)
    state[at.SPEED_VARIANCE], state[at.LANDED_GAP] = state[at.VV], unsure_s


@njit(cache=True, error_model="numpy", nogil=True)
def fall_time(state: Array, acceleration: float, length: float) -> float:
    """Until the robot is at the leg's length, s, where it is known well enough; infinite: it is not, or it rises."""
    z, v = state[at.Z], state[at.V]
    if v >= -SLOWEST_M_S or state[at.ZZ] > KNOWN_M**2 or z < length - BELOW_M:
        return np.inf
    if z <= length:
        return 0.0
    # z + v t + a t^2 / 2 = L in the form that does without a difference of like numbers.
    root = v * v - 2.0 * acceleration * (z - length)
    return 2.0 * (z - length) / (np.sqrt(root) - v) if root >= 0.0 else np.inf


@njit(cache=True, error_model="numpy", nogil=True)
def land_unseen(
    state: Array, time: float, fall: float, acceleration: float, length: float, flight_noise: float
) -> None:
    """A touchdown in a gap, `fall` s after its last reading at `time`: the state then, without a measurement."""
    at.propagate(state, fall, flight_noise)
    state[at.V] += acceleration * fall
    speed = max(-state[at.V], SLOWEST_M_S)
    state[at.GROUNDED] = 1.0
    state[at.LANDED], state[at.SPEED], state[at.SPEED_VARIANCE] = time + fall, speed, state[at.VV]
    state[at.LANDED_GAP] = np.sqrt(state[at.ZZ]) / speed
    state[at.Z] = length


@njit(cache=True, error_model="numpy", nogil=True)
def lift_off(parameters: Array, length: float, gravity: float, state: Array) -> None:
    """Velocity by the bounce, then the leg was extended. Without a landing: the leg is extended now."""
    speed, gap, position = state[at.SPEED], state[at.GAP], parameters[kernels.SIGMA_P] ** 2 + LEAST_POSITION_M**2
    if state[at.SPEED_VARIANCE] > UNSURE_M_S**2:
        speed = max(state[at.PUSH], 0.0) / (1.0 + USUAL_RESTITUTION)
        state[at.SPEED_VARIANCE] = (PUSH_SHARE * speed) ** 2
    state[at.GROUNDED] = 0.0
    after = state[at.TIME] - state[at.LANDED] - parameters[kernels.STANCE_TIME]
    if speed <= 0.0 or after > LONGEST_AFTER_S:
        at.update(state, 1.0, 0.0, 0.0, length - state[at.Z], position + (state[at.V] ** 2 + state[at.VV]) * gap * gap)
        return
    after = max(after, 0.0)
    rebound = restitution(parameters, speed) * speed
    share = rebound / speed
    state[at.BB] += BIAS_WALK
    state[at.CC] += RESTITUTION_WALK**2
    spread = parameters[kernels.SIGMA_V] * rebound / kernels.SPEED_SCALE_M_S
    late = state[at.LANDED_GAP]
    pushed = gravity * max(after - USUAL_AFTER_S, 0.0)
    variance = spread * spread + share * share * state[at.SPEED_VARIANCE] + (gravity * late) ** 2 + pushed * pushed
    at.update(state, 0.0, 1.0, -rebound, rebound * (1.0 + state[at.BOUNCE]) - gravity * after - state[at.V], variance)
    fallen = 0.5 * gravity * after * after
    variance = position + (state[at.V] ** 2 + state[at.VV]) * late * late
    at.update(state, 1.0, -after, 0.0, length - (state[at.Z] - after * state[at.V] - fallen), variance)
    state[at.SPEED] = 0.0


@njit(cache=True, error_model="numpy", nogil=True)
def add_doubt(state: Array, step: float, variance: float) -> None:
    """The velocity may have changed by as much, (m/s)^2, at any time in the last step, s."""
    state[at.VV] += variance
    state[at.ZV] += 0.5 * step * variance
    state[at.ZZ] += step * step * variance / 3.0


@njit(cache=True, error_model="numpy", nogil=True)
def shock_variance(speed: float) -> float:
    """Of what a landing at that speed, m/s, seems to change the velocity by, (m/s)^2."""
    return (STANCE_SHARE * (1.0 + USUAL_RESTITUTION) * speed) ** 2


@njit(cache=True, error_model="numpy", nogil=True)
def acceleration_noise(parameters: Array, state: Array, stance: bool, flight_noise: float) -> float:
    """Density of the acceleration's noise, (m/s^2)^2 s: over a stance, a share of what turns the robot round."""
    if not stance:
        return flight_noise
    return shock_variance(max(state[at.SPEED], 1.0)) / parameters[kernels.STANCE_TIME]


@njit(cache=True, error_model="numpy", nogil=True)
def turned_round(state: Array, push: float) -> bool:
    """Whether the shock of this stance, m/s, was enough for a bounce; what a gap hides of it is believed."""
    if state[at.GAP] > SHOCK_SEEN_S or state[at.LANDED_GAP] > SHOCK_SEEN_S:
        return True
    known = state[at.SPEED] if state[at.SPEED_VARIANCE] < UNSURE_M_S**2 else 0.0
    return push > max(LEAST_PUSH_M_S, LEAST_PUSH_SHARE * (1.0 + USUAL_RESTITUTION) * known)


@njit(cache=True, error_model="numpy", nogil=True)
def lose(state: Array, length: float) -> None:
    """A stance that does not end is a robot that stands; a flight that does not end is somewhere else."""
    state[at.SPEED] = 0.0
    if state[at.GROUNDED] != 0.0:
        at.update(state, 1.0, 0.0, 0.0, length - state[at.Z], STANDING_M**2)
        at.update(state, 0.0, 1.0, 0.0, -state[at.V], CARRIED_M_S**2)
    else:
        state[at.ZZ] += phase_kernels.LOST_HEIGHT_M**2
        state[at.VV] += phase_kernels.LOST_SPEED_M_S**2


@njit(cache=True, error_model="numpy", nogil=True)
def leave_ground(state: Array) -> None:
    """It is lifted, or takes off; where it was never seen to rest, it may have been anywhere from the beginning."""
    if state[at.GROUNDED] != 0.0 and state[at.RESTED] == 0.0:
        state[at.ZZ] += ROOM_M**2
        state[at.VV] += ROOM_M_S**2
    state[at.GROUNDED] = 0.0


@njit(cache=True, error_model="numpy", nogil=True)
def rest(state: Array, length: float, step: float, rests: bool) -> None:
    """A robot that rests on the ground stands on an extended leg; where it is in somebody's hands, nobody knows."""
    if state[at.GROUNDED] != 0.0:
        state[at.V], state[at.SPEED] = 0.0, 0.0
        state[at.Z] += (length - state[at.Z]) * min(10.0 * step, 1.0)
        state[at.ZZ], state[at.ZV], state[at.VV] = min(state[at.ZZ], 1e-2), 0.0, 1e-4
        state[at.ZG], state[at.VG] = 0.0, 0.0
        state[at.RESTED] = 1.0
        forget_links(state)
        return
    if rests:
        state[at.V], state[at.SPEED], state[at.VV], state[at.ZV] = 0.0, 0.0, CARRIED_M_S**2, 0.0
        state[at.ZZ] += CARRIED_M_S**2 * step * MOVING_TIME_S
    forget_links(state)  # hands tell nothing of the bias in flight, nor of the bounce
    state[at.VV] += state[at.BB] * step * ROOM_TIME_S
    wide = ROOM_TIME_S / step
    at.update(state, 1.0, 0.0, 0.0, length + 0.5 * ROOM_M - state[at.Z], ROOM_M**2 * wide)
    at.update(state, 0.0, 1.0, 0.0, -state[at.V], ROOM_M_S**2 * wide)
