"""A hopper of two masses by SciPy's integration with exact events: the oracle of the tests of hops and agility."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.integrate import solve_ivp

STANDING_M = 0.268
GRAVITY = 9.80665
BODY_KG, LEG_KG = 0.5619, 0.0981
STIFFNESS, PRELOAD, LOSS = 704.0, 50.0, 6.0


@dataclass
class Hopped:
    """Dense motion with its events."""

    time_s: list[np.ndarray] = field(default_factory=list)
    height_m: list[np.ndarray] = field(default_factory=list)
    velocity_m_s: list[np.ndarray] = field(default_factory=list)
    touchdown_s: list[float] = field(default_factory=list)
    squat_s: list[float] = field(default_factory=list)
    liftoff_s: list[float] = field(default_factory=list)
    apex_s: list[float] = field(default_factory=list)
    apex_m: list[float] = field(default_factory=list)
    ground_m: list[float] = field(default_factory=list)

    def track(self, rate_hz: float = 600.0, stop_s: float = np.inf) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        time, height, velocity = (np.concatenate(x) for x in (self.time_s, self.height_m, self.velocity_m_s))
        grid = np.arange(time[0], min(time[-1], stop_s), 1.0 / rate_hz)
        return grid, np.interp(grid, time, height), np.interp(grid, time, velocity)


def hop(
    start_m: float = 2.0,
    hops: int = 4,
    grounds_m=(),
    drag: float = 0.04,
    rebound_thrust: float = 4.0,
    drop_thrust: float = 0.3,
    rest_s: float = 0.5,
) -> Hopped:
    """Dropped from a hop height; thrust per mass in rebound and drop, drag per mass and square of speed."""
    out = Hopped()
    time, ground = 0.0, 0.0
    state = np.array([STANDING_M + start_m, 0.0])

    def run(rate, end, direction):
        nonlocal time, state
        end.terminal, end.direction = True, direction
        solved = solve_ivp(
            rate, (0.0, 5.0), state, "DOP853", events=end, rtol=1e-9, atol=1e-11, max_step=0.02, dense_output=True
        )
        assert solved.status == 1
        last = solved.t[-1]
        ticks = np.append(np.arange(0.0, last, 2e-4), last)[1:]
        values = solved.sol(ticks)
        out.time_s.append(time + ticks)
        out.height_m.append(values[0])
        out.velocity_m_s.append(values[1])
        time += last
        state = solved.y[:, -1].copy()

    def fall(t, y):
        return [y[1], -GRAVITY + drop_thrust - drag * y[1] * abs(y[1])]

    def rise(t, y):
        return [y[1], -GRAVITY + rebound_thrust - drag * y[1] * abs(y[1])]

    def stand(t, y):
        squeezed = STANDING_M + ground - y[0]
        return [y[1], (PRELOAD + STIFFNESS * squeezed - LOSS * y[1]) / BODY_KG - GRAVITY]

    def touches(t, y):
        return y[0] - STANDING_M - ground

    ticks = np.arange(0.0, rest_s, 2e-4)
    out.time_s.append(ticks)
    out.height_m.append(np.full(len(ticks), state[0]))
    out.velocity_m_s.append(np.zeros(len(ticks)))
    time = rest_s
    for number in range(hops + 1):
        ground = grounds_m[number] if number < len(grounds_m) else 0.0
        run(fall, touches, -1)
        out.touchdown_s.append(time)
        out.ground_m.append(ground)
        run(stand, lambda t, y: y[1], 1)
        out.squat_s.append(time)
        run(stand, touches, 1)
        out.liftoff_s.append(time)
        state[1] *= BODY_KG / (BODY_KG + LEG_KG)  # the body pulls the leg along
        run(rise, lambda t, y: y[1], -1)
        out.apex_s.append(time)
        out.apex_m.append(float(state[0]))
    return out
