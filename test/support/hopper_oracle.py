"""A two-mass hopper integrated by SciPy with exact events: oracle of the tests of the hopper's simulator.

Written from the equations, not from the compiled motion: body at z, foot at y, compression s = L - (z - y),

    N = F_0 + k s + c_e max(s, 0) s' + [s < 0] (k_e s + c_e0 s'),   ground: max(k_g p - c_g y', 0) at a depth p > 0
    m_b z'' = N + T - D - m_b g,     m_l y'' = -N + F_g - m_l g.

Between two events (foot pushed or not, leg at its stop or not) the right-hand side is smooth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.integrate import solve_ivp

from hopper_estimation.model.dynamics import Plant


@dataclass
class Hops:
    """Events of the oracle's hops, and its motion."""

    touchdown_s: list[float] = field(default_factory=list)
    squat_s: list[float] = field(default_factory=list)
    liftoff_s: list[float] = field(default_factory=list)
    apex_s: list[float] = field(default_factory=list)
    apex_m: list[float] = field(default_factory=list)
    time_s: list[np.ndarray] = field(default_factory=list)
    state: list[np.ndarray] = field(default_factory=list)


def hanging(plant: Plant, height_m: float) -> np.ndarray:
    """(4,) z, z', y, y' of the robot in free fall, at rest: the preload presses the leg against its stop."""
    compression = -plant.preload / (plant.stiffness + plant.stop_stiffness)
    return np.array([height_m, 0.0, height_m - plant.length + compression, 0.0])


def hovering(plant: Plant, height_m: float) -> np.ndarray:
    """(4,) as `hanging`, but carried by the rotors: the leg hangs with its weight on the stop."""
    pull = plant.leg_mass * plant.gravity
    compression = -(plant.preload + pull) / (plant.stiffness + plant.stop_stiffness)
    return np.array([height_m, 0.0, height_m - plant.length + compression, 0.0])


def delayed_thrust(plant: Plant, duty: np.ndarray, tick_s: float) -> Callable[[float], float]:
    """Thrust over time from duty cycles (K,), one a tick from time zero on: delay, then a first-order lag, exactly."""
    delay = plant.thrust_delay_ticks
    wanted = plant.full_thrust * np.concatenate([np.zeros(delay), duty])[: len(duty)] ** 2
    keep = np.exp(-tick_s / plant.thrust_lag)
    at_tick = [0.0]
    for one in wanted:
        at_tick.append(one + (at_tick[-1] - one) * keep)

    def thrust(time_s: float) -> float:
        k = min(int(time_s / tick_s + 1e-9), len(wanted) - 1)
        return wanted[k] + (at_tick[k] - wanted[k]) * np.exp(-(time_s - k * tick_s) / plant.thrust_lag)

    return thrust


def hop(
    plant: Plant,
    state: np.ndarray,
    start_s: float,
    stop_s: float,
    thrust: Callable[[float], float] | None = None,
    method: str = "DOP853",
) -> Hops:
    """Motion from `state` (4,) z, z', y, y' in the air, on level ground at zero, to a tolerance of 1e-9."""
    out = Hops()
    time, state, pushed, phase = start_s, state.copy(), False, "drop"

    def parts(y: np.ndarray) -> tuple[float, float, float, float]:
        compression, rate = plant.length - (y[0] - y[2]), y[3] - y[1]
        return compression, rate, -y[2], -plant.ground_stiffness * y[2] - plant.ground_damping * y[3]

    def ground(t: float, y: np.ndarray) -> float:  # positive where the ground pushes
        return min(parts(y)[2], parts(y)[3])

    def stop(t: float, y: np.ndarray) -> float:
        return parts(y)[0]

    def lift(t: float, y: np.ndarray) -> float:  # off the ground with the leg extended
        return min(y[2], -parts(y)[0]) if phase == "stance up" else 1.0

    def turn(t: float, y: np.ndarray) -> float:
        return y[1] if phase in ("stance down", "rebound") else 1.0  # else the turn just found is found again

    stopped = stop(time, state) < 0.0
    while time < stop_s:

        def rate(t: float, y: np.ndarray, pushed: bool = pushed, stopped: bool = stopped) -> list[float]:
            compression, speed, _, push = parts(y)
            force = plant.preload + plant.stiffness * compression
            if stopped:
                force += plant.stop_stiffness * compression + plant.stop_damping * speed
            else:
                force += plant.loss * compression * speed
            lift = (thrust(t) if thrust else 0.0) - plant.drag * y[1] * abs(y[1])
            return [
                y[1],
                (force + lift) / plant.body_mass - plant.gravity,
                y[3],
                ((push if pushed else 0.0) - force) / plant.leg_mass - plant.gravity,
            ]

        ground.terminal, ground.direction = True, -1 if pushed else 1
        stop.terminal, stop.direction = True, 1 if stopped else -1
        lift.terminal, lift.direction = True, 1
        turn.terminal = True
        turn.direction = 1 if phase == "stance down" else -1
        step = 0.0025 if thrust else 0.02  # the thrust bends at every tick
        solved = solve_ivp(
            rate,
            (time, stop_s),
            state,
            method,
            events=(ground, stop, lift, turn),
            rtol=1e-9,
            atol=1e-11,
            max_step=step,
            first_step=min(1e-6, stop_s - time),  # away from the event that has just been, or it is found again
        )
        out.time_s.append(solved.t)
        out.state.append(solved.y.T)
        time, state = float(solved.t[-1]), solved.y[:, -1]
        if solved.status == 0:
            break
        hit = [len(one) > 0 for one in solved.t_events]
        # On the edge, rounding would decide: look a nanosecond ahead. Two events may fall together.
        ahead = state + 1e-9 * np.asarray(rate(time, state))
        pushed, stopped = ground(time, ahead) > 0.0, stop(time, ahead) < 0.0
        if pushed and phase == "drop":
            phase = "stance down"
            out.touchdown_s.append(time)
        elif hit[3] and phase == "stance down":
            phase = "stance up"
            out.squat_s.append(time)
        elif hit[2] and phase == "stance up":
            phase = "rebound"
            out.liftoff_s.append(time)
        elif hit[3] and phase == "rebound":
            phase = "drop"
            out.apex_s.append(time)
            out.apex_m.append(float(state[0]))
    return out


def mujoco_stance(
    plant: Plant, start: np.ndarray, stop_s: float, step_s: float = 1e-5
) -> tuple[np.ndarray, np.ndarray]:
    """(K,) times and (K, 4) z, z', y, y' of the same robot without losses in MuJoCo, from a state (4,) on.

    Springs, stop and ground are tendons with a dead band: they pull only when longer, or push only when shorter.
    """
    import mujoco

    free = plant.length + plant.preload / plant.stiffness
    model = mujoco.MjModel.from_xml_string(f"""
    <mujoco>
      <option timestep="{step_s}" gravity="0 0 {-plant.gravity}" integrator="RK4"/>
      <worldbody>
        <body><joint name="z" type="slide" axis="0 0 1"/>
          <geom type="sphere" size=".01" mass="{plant.body_mass}" contype="0" conaffinity="0"/></body>
        <body><joint name="y" type="slide" axis="0 0 1"/>
          <geom type="sphere" size=".01" mass="{plant.leg_mass}" contype="0" conaffinity="0"/></body>
      </worldbody>
      <tendon>
        <fixed name="spring" stiffness="{plant.stiffness}" springlength="{free}">
          <joint joint="z" coef="1"/><joint joint="y" coef="-1"/></fixed>
        <fixed name="stop" stiffness="{plant.stop_stiffness}" springlength="0 {plant.length}">
          <joint joint="z" coef="1"/><joint joint="y" coef="-1"/></fixed>
        <fixed name="ground" stiffness="{plant.ground_stiffness}" springlength="0 1000">
          <joint joint="y" coef="1"/></fixed>
      </tendon>
    </mujoco>""")
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = start[[0, 2]], start[[1, 3]]
    rows = np.empty((round(stop_s / step_s / 5), 4))
    for row in rows:
        mujoco.mj_step(model, data, nstep=5)
        row[[0, 2]], row[[1, 3]] = data.qpos, data.qvel
    return 5 * step_s * np.arange(1, len(rows) + 1), rows
