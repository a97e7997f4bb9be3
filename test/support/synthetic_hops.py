"""Hops in closed form: a body on a preloaded spring without losses, in flight under a constant force.

With the compression s of the leg and p = F_0 / m - g, the stance is s'' = -w^2 s - p, s(0) = 0, s'(0) = the speed of
touchdown: an arc of a sine, after which the body leaves as fast as it came. So every hop is as high as the one before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hopper_estimation.model.phases import SIGNAL, Body

LENGTH, GRAVITY = 0.2683, 9.80665
BODY_KG, SPRING, PRELOAD = 0.5619, 704.0, 50.0
RATE_HZ = 840.0
NOMINAL_DT = 1.0 / RATE_HZ
BODY = Body(LENGTH, GRAVITY, NOMINAL_DT)


def signals(dt, low, high, usable, goal, thrust, side=None, leg=None) -> np.ndarray:
    """What kernels take, from its columns."""
    made = np.empty(len(dt), SIGNAL)
    made["side_x"], made["side_y"] = (0.0, 0.0) if side is None else side.T
    made["leg"] = np.nan if leg is None else leg
    made["dt"], made["low"], made["high"] = dt, low, high
    made["usable"], made["goal"], made["thrust"] = usable, goal, thrust
    return made


@dataclass
class Hops:
    """(N,) each: time step, mean vertical acceleration over the step, height and velocity at its end, compression."""

    dt: np.ndarray
    acceleration: np.ndarray
    height: np.ndarray
    velocity: np.ndarray
    compression: np.ndarray
    apex_m: float
    events: list[tuple[int, float]]

    @property
    def time(self) -> np.ndarray:
        return np.cumsum(self.dt)

    def arguments(self) -> tuple[np.ndarray, ...]:
        """dt, low, high, usable, goal, thrust of a robot whose sensors are exact."""
        count = len(self.dt)
        low = self.acceleration.copy()
        usable = np.full(count, 3, np.uint8)
        return self.dt, low, low.copy(), usable, np.full(count, 2.0), np.zeros(count)


def exact_hops(height_m: float = 2.0, count: int = 4, lift: float = 0.0, times: np.ndarray | None = None) -> Hops:
    """Dropped from a hop height, `lift` being the thrust's acceleration in flight; sampled at `times` if given."""
    fall = GRAVITY - lift
    speed, omega = np.sqrt(2.0 * fall * height_m), np.sqrt(SPRING / BODY_KG)
    press = PRELOAD / BODY_KG - GRAVITY
    flight, stance = speed / fall, 2.0 * np.arctan2(speed * omega, press) / omega
    period = 2.0 * flight + stance
    if times is None:
        times = np.arange(1, int(count * period * RATE_HZ) + 1) / RATE_HZ

    def motion(t):
        tau = t % period
        since = tau - flight
        s = press / omega**2 * (np.cos(omega * since) - 1.0) + speed / omega * np.sin(omega * since)
        rate = -press / omega * np.sin(omega * since) + speed * np.cos(omega * since)
        rise = since - stance
        z = np.where(
            since < 0.0,
            LENGTH + height_m - 0.5 * fall * tau**2,
            np.where(rise < 0.0, LENGTH - s, LENGTH + speed * rise - 0.5 * fall * rise**2),
        )
        v = np.where(since < 0.0, -fall * tau, np.where(rise < 0.0, -rate, speed - fall * rise))
        return z, v, np.where((since >= 0.0) & (rise < 0.0), s, 0.0)

    z, v, s = motion(times)
    dt = np.diff(times, prepend=times[0] - NOMINAL_DT)
    before = np.concatenate([motion(times[:1] - dt[0])[1], v[:-1]])
    moments = (flight, flight + 0.5 * stance, flight + stance, period)
    events = [(kind, hop * period + at) for hop in range(count) for kind, at in enumerate(moments)]
    events = [one for one in events if one[1] <= times[-1]]
    return Hops(dt, (v - before) / dt, z, v, s, LENGTH + height_m, events)
