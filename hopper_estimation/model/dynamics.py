"""Compiled motion of a two-mass hopper: body and leg with a preloaded spring and a stop between them, thrust, drag.

Heights are along the world's vertical. With the body's centre of mass at z and the foot's point at y, the leg is
compressed by s = L - (z - y), L being the distance between both when the leg is extended. Body and leg push each other
apart with

    N = F_0 + k s + c_e max(s, 0) s'                main spring with its preload; losses grow with its extension
      + [s < 0] (k_e s + c_e0 s')                   stop that holds the leg when it is extended

and the ground pushes the foot with k_g p - c_g y' at a depth p > 0, never pulls. With thrust T and drag D

    m_b z'' = N + T - D - m_b g,     m_l y'' = -N + F_g - m_l g.

The model of the paper's appendix (parameter table) in the vertical; its rotations appear as tilt in the simulator. The
stop and the ground are stiff (1 ms), hence the fine step.

The accelerometers sit on a mount that rings: a mass on a spring and damper on the body, whose acceleration is what they
feel for a share of it. Each sensor's own filter and its sampling at its own rate follow, so that readings are aliased.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from hopper_estimation.model.phases import DROP, REBOUND, STANCE_DOWN, STANCE_UP, STARTUP, Array

STEP_S = 5e-5
TICK_STEPS = 50
"""The controller runs every so many steps: 400 Hz."""
CHIP_STEPS = 20
"""The accelerometers sample at 1 kHz inside."""

(HEIGHT, VELOCITY, FOOT, FOOT_VELOCITY, THRUST, COMMAND, RING, RING_RATE, LOW, HIGH, HELD_LOW, HELD_HIGH, ROTOR_ANGLE,
 PHASE, HOP, GROUND, DUTY) = range(17)  # fmt: skip
STATE_SIZE = 17

T_HEIGHT, T_VELOCITY, T_LOW, T_HIGH, T_COMPRESSION, T_ACCELERATION, T_GROUND, T_PHASE = range(8)
TRACE_SIZE = 8


class Plant(NamedTuple):
    """Constants of one simulated robot on one day; SI units."""

    body_mass: float
    leg_mass: float
    length: float
    preload: float
    stiffness: float
    loss: float
    stop_stiffness: float
    stop_damping: float
    ground_stiffness: float
    ground_damping: float
    drag: float
    """Force per square of speed, N s^2/m^2."""
    full_thrust: float
    thrust_lag: float
    thrust_delay_ticks: int
    gravity: float
    ring_frequency: float
    ring_damping: float
    ring_share: float
    vibration: float
    """Amplitude at full thrust, m/s^2."""
    rotor_frequency: float
    """At full thrust, Hz."""
    low_bandwidth: float
    high_bandwidth: float
    force: float = 0.0
    """Upwards on the body beside all others, N."""


# Of the height controller (paper, section II).
LARGEST_THRUST_WEIGHTS = 0.837
SMALLEST_DUTY = 0.05
"""The motors always turn."""
SLIDING_RANGE_M = 0.33
"""Beyond this error of the height the thrust is at its largest."""


class Law(NamedTuple):
    """What a run asks of the height controller; lengths in m."""

    lift: float
    """Full thrust in weights."""
    start_height: float
    rest_s: float
    drop_s: float


class Motion(NamedTuple):
    """What a stretch of K ticks is moved by, and what is noted of it.

    Attributes
    ----------
    law
        Of the controller.
    first_tick
        Number of the first.
    goals, gusts, supply
        (K,) per tick: commanded hop height (m above standing), vertical wind (m/s), thrust per command.
    grounds
        (H,) height of the ground at each hop, m.
    feedback
        (3,) height, velocity and phase that the controller goes by; NaN: the true ones.
    trace
        (K * TICK_STEPS, TRACE_SIZE), written: see `T_HEIGHT` and its fellows.
    duties
        (K,) written: duty cycle of the motors.
    """

    law: Law
    first_tick: int
    goals: Array
    gusts: Array
    supply: Array
    grounds: Array
    feedback: Array
    trace: Array
    duties: Array


@njit(cache=True, error_model="numpy")
def _wanted_ratio(height: float, velocity: float, phase: int, goal: float, length: float, g: float) -> float:
    """Thrust-to-weight ratio from the locomotion energy: up when it is short in the rebound, too much in the drop."""
    missing = goal - (height - length) - 0.5 * velocity * velocity / g
    if phase == DROP:
        missing = -missing
    elif phase != REBOUND:
        return 0.0
    if missing <= 0.0:
        return 0.0
    return LARGEST_THRUST_WEIGHTS * min(missing / SLIDING_RANGE_M, 1.0)


@njit(cache=True, error_model="numpy")
def _duty(plant: Plant, motion: Motion, k: int, time: float, height: float, velocity: float, phase: int) -> float:
    """Duty cycle of the motors in a tick, at a height above the ground (m): thrust goes with its square."""
    law, g, length, feedback = motion.law, plant.gravity, plant.length, motion.feedback
    if time < law.rest_s:
        return 0.0
    if time < law.drop_s:
        # Flown to the starting height by a controller of its own, along a ramp.
        share = min((time - law.rest_s) / (0.6 * (law.drop_s - law.rest_s)), 1.0)
        goal = length + law.start_height * share * share * (3.0 - 2.0 * share)
        ratio = min(max(1.0 + (9.0 * (goal - height) - 5.0 * velocity) / g, 0.0), 1.8)
    elif np.isnan(feedback[0]):
        ratio = _wanted_ratio(height, velocity, phase, motion.goals[k], length, g)
    else:
        ratio = _wanted_ratio(feedback[0], feedback[1], int(feedback[2]), motion.goals[k], length, g)
    return min(max(np.sqrt(ratio / law.lift), SMALLEST_DUTY), 1.0)


@njit(cache=True, error_model="numpy")
def _leg_force(plant: Plant, compression: float, rate: float) -> float:
    """N: what pushes body and leg apart, N, at a compression (m) and its rate (m/s)."""
    force = plant.preload + plant.stiffness * compression
    if compression > 0.0:
        return force + plant.loss * compression * rate
    return force + (plant.stop_stiffness * compression + plant.stop_damping * rate)


@njit(cache=True, error_model="numpy")
def _next_phase(phase: int, depth: float, compression: float, velocity: float) -> int:
    """True phase: in the air the foot does not touch and the leg is extended."""
    if phase == DROP and depth > 0.0:
        return STANCE_DOWN
    if phase == STANCE_DOWN and velocity >= 0.0:
        return STANCE_UP
    if phase == STANCE_UP and depth <= 0.0 and compression <= 0.0:
        return REBOUND
    if phase == REBOUND and velocity < 0.0:
        return DROP
    return phase


@njit(cache=True, error_model="numpy")
def advance(state: Array, delayed: Array, plant: Plant, motion: Motion) -> None:
    """Move the state (STATE_SIZE,) by a motion; `delayed` (D,) are thrust commands under way, by tick modulo D."""
    law, grounds, trace = motion.law, motion.grounds, motion.trace
    m_b, m_l, g, length = plant.body_mass, plant.leg_mass, plant.gravity, plant.length
    omega = 2.0 * np.pi * plant.ring_frequency
    low_gain = 1.0 - np.exp(-2.0 * np.pi * plant.low_bandwidth * STEP_S)
    high_gain = 1.0 - np.exp(-2.0 * np.pi * plant.high_bandwidth * STEP_S)
    lag_gain = 1.0 - np.exp(-STEP_S / plant.thrust_lag)
    z, v, y, u = state[HEIGHT], state[VELOCITY], state[FOOT], state[FOOT_VELOCITY]
    thrust, ring, ring_rate = state[THRUST], state[RING], state[RING_RATE]
    low, high, angle = state[LOW], state[HIGH], state[ROTOR_ANGLE]
    held_low, held_high = state[HELD_LOW], state[HELD_HIGH]
    phase, hop, ground = int(state[PHASE]), int(state[HOP]), state[GROUND]
    row = 0
    for k in range(motion.goals.shape[0]):
        tick = motion.first_tick + k
        time = tick * TICK_STEPS * STEP_S
        if time >= law.drop_s and phase == STARTUP:
            phase = DROP
        duty = _duty(plant, motion, k, time, z - ground if time >= law.drop_s else z, v, phase)
        motion.duties[k] = duty
        slot = tick % delayed.shape[0]
        command = delayed[(tick - plant.thrust_delay_ticks) % delayed.shape[0]] if plant.thrust_delay_ticks else duty
        delayed[slot] = duty
        wanted = plant.full_thrust * command * command * motion.supply[k]
        for n in range(TICK_STEPS):
            thrust += lag_gain * (wanted - thrust)
            s = length - (z - y)
            rate = u - v
            force = _leg_force(plant, s, rate)
            depth = ground - y
            push = max(plant.ground_stiffness * depth - plant.ground_damping * u, 0.0) if depth > 0.0 else 0.0
            wind = v - motion.gusts[k]
            acceleration = (force + thrust + plant.force - plant.drag * wind * abs(wind)) / m_b - g
            foot_acceleration = (push - force) / m_l - g
            v, u = v + acceleration * STEP_S, u + foot_acceleration * STEP_S
            z, y = z + v * STEP_S, y + u * STEP_S
            rose, phase = phase == REBOUND, _next_phase(phase, depth, s, v)
            if rose and phase == DROP:
                hop += 1
                ground = grounds[min(hop, grounds.shape[0] - 1)]
            # What the mount feels: specific force of the body, for a share of it through a ringing mount.
            felt = acceleration + g
            ring_acceleration = -felt - omega * omega * ring - 2.0 * plant.ring_damping * omega * ring_rate
            ring_rate += ring_acceleration * STEP_S
            ring += ring_rate * STEP_S
            mount = -omega * omega * ring - 2.0 * plant.ring_damping * omega * ring_rate
            level = thrust / plant.full_thrust
            angle += 2.0 * np.pi * plant.rotor_frequency * np.sqrt(max(level, 0.0)) * STEP_S
            felt_there = felt + plant.ring_share * (mount - felt) + plant.vibration * level * np.sin(angle)
            low, high = low + low_gain * (felt_there - low), high + high_gain * (felt_there - high)
            if (tick * TICK_STEPS + n) % CHIP_STEPS == 0:
                held_low, held_high = low, high
            trace[row, T_HEIGHT], trace[row, T_VELOCITY], trace[row, T_ACCELERATION] = z, v, acceleration
            trace[row, T_LOW], trace[row, T_HIGH], trace[row, T_COMPRESSION] = held_low, held_high, s
            trace[row, T_GROUND], trace[row, T_PHASE] = ground, phase
            row += 1
    angle = angle % (2.0 * np.pi)
    state[HEIGHT], state[VELOCITY], state[FOOT], state[FOOT_VELOCITY] = z, v, y, u
    state[THRUST], state[RING], state[RING_RATE], state[LOW], state[HIGH] = thrust, ring, ring_rate, low, high
    state[HELD_LOW], state[HELD_HIGH], state[ROTOR_ANGLE] = held_low, held_high, angle
    state[PHASE], state[HOP], state[GROUND] = phase, hop, ground
