"""Hops in closed form: flights under constant accelerations, stances on a preloaded spring; known to any instant.

Dropped from a hop height, thrown up again with a share of the speed, lifted by rotors: these make up for what the
stance takes, so that each hop is `higher` times the one before.

With the compression s of the leg and p = F_0 / m - g, the stance is s'' = -w^2 s - p, s(0) = 0, s'(0) = the speed of
touchdown: an arc of a sine; at the liftoff the body pulls the leg along, which takes the rest of the share. Tests of a
filter that takes stances to last equally long have quintics in time instead, which take it themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import Polynomial

from hopper_estimation.model.phases import SIGNAL, Body

LENGTH, GRAVITY = 0.2683, 9.80665
BODY_KG, SPRING, PRELOAD = 0.5619, 704.0, 50.0
STANCE_S, PUSH_M_S2 = 0.065, 60.0
"""Of quintic stances: duration, and acceleration at their ends."""
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


def arguments_of(low, high=None, dt=None) -> tuple[np.ndarray, ...]:
    """dt, low, high, usable, goal and thrust of readings; by default both sensors read the same."""
    count = len(low)
    dt = np.full(count, NOMINAL_DT) if dt is None else dt
    high = low.copy() if high is None else high
    return dt, low, high, np.full(count, 3, np.uint8), np.full(count, 2.0), np.zeros(count)


Motion = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Heights and velocities from times since the beginning."""


@dataclass
class Hops:
    """Motion at times (N,): mean acceleration since the time before, height, velocity, compression; and its events."""

    pieces: list[tuple[float, Motion]]
    time: np.ndarray
    touchdown_s: list[float]
    squat_s: list[float]
    liftoff_s: list[float]
    apex_s: list[float]
    apex_m: list[float]
    ground_m: list[float]

    def __post_init__(self) -> None:
        self.dt = np.diff(self.time, prepend=self.time[0] - NOMINAL_DT)
        self.height, self.velocity = self.motion(self.time)
        before = self.motion(self.time[:1] - self.dt[0])[1]
        self.acceleration = np.diff(self.velocity, prepend=before) / self.dt
        stance = (np.searchsorted(self.touchdown_s, self.time) - np.searchsorted(self.liftoff_s, self.time)).astype(
            bool
        )
        self.compression = np.where(stance, LENGTH - self.height, 0.0)

    def motion(self, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Heights and velocities at any times."""
        at = np.searchsorted([begin for begin, _ in self.pieces], times + 1e-12, side="right") - 1
        height, velocity = np.empty((2, len(times)))
        for number, (begin, piece) in enumerate(self.pieces):
            inside = at == number
            height[inside], velocity[inside] = piece(times[inside] - begin)
        return height, velocity

    @property
    def events(self) -> list[tuple[int, float]]:
        """Kinds and times, in order, up to the last time."""
        by_kind = (self.touchdown_s, self.squat_s, self.liftoff_s, self.apex_s)
        found = ((kind, at) for hop in zip(*by_kind, strict=True) for kind, at in enumerate(hop))
        return [(kind, at) for kind, at in found if at <= self.time[-1]]

    def arguments(self, keep=None, low=None, high=None) -> tuple[np.ndarray, ...]:
        """Of a robot whose sensors are exact or read something else; of all samples or some."""
        keep = np.ones(len(self.time), bool) if keep is None else keep
        low, high = (self.acceleration.copy() if one is None else one for one in (low, high))
        return arguments_of(low[keep], high[keep], np.diff(self.time[keep], prepend=self.time[0] - NOMINAL_DT))

    def track(self, rate_hz: float = 600.0, stop_s: float = np.inf) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Times, heights and velocities at another rate."""
        times = np.arange(0.0, min(self.time[-1], stop_s), 1.0 / rate_hz)
        return times, *self.motion(times)


def _flight(height: float, velocity: float, acceleration: float) -> Motion:
    return lambda t: (height + velocity * t + 0.5 * acceleration * t**2, velocity + acceleration * t)


def _spring(level: float, speed: float, share: float) -> tuple[Motion, float, float]:
    """Motion, and times of the largest squat and of the liftoff."""
    omega, press = np.sqrt(SPRING / BODY_KG), PRELOAD / BODY_KG - GRAVITY
    squat_s = np.arctan2(speed * omega, press) / omega

    def motion(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sine, cosine = np.sin(omega * t), np.cos(omega * t)
        pressed = press / omega**2 * (cosine - 1.0) + speed / omega * sine
        return level - pressed, press / omega * sine - speed * cosine

    return motion, squat_s, 2.0 * squat_s


def _quintic(level: float, speed: float, share: float) -> tuple[Motion, float, float]:
    arc = speed * STANCE_S * (share * Polynomial([0, 0, 0, -4, 7, -3]) - Polynomial([0, 1, 0, -6, 8, -3]))
    arc += 0.5 * PUSH_M_S2 * STANCE_S**2 * Polynomial([0, 0, 1, -2, 1])
    turns = arc.deriv().roots()
    squat_s = STANCE_S * min(one.real for one in turns if abs(one.imag) < 1e-9 and 0.0 < one.real < 1.0)
    return lambda t: (level + arc(t / STANCE_S), arc.deriv()(t / STANCE_S) / STANCE_S), squat_s, STANCE_S


def exact_hops(
    height_m: float = 2.0,
    count: int = 4,
    restitution: float = 1.0,
    higher: float = 1.0,
    after_s: float = 0.3,
    scatter: float = 0.0,
    grounds_m: Sequence[float] = (),
    fall: float = GRAVITY,
    times: np.ndarray | None = None,
    quintic: bool = False,
) -> Hops:
    """`scatter`: of the share, drawn anew for each hop; `fall`: gravity less what the rotors lift in a drop."""
    at, rng, pieces, events = 0.0, np.random.default_rng(11), [], []
    for number in range(count):
        ground = grounds_m[number] if number < len(grounds_m) else 0.0
        share = restitution * (1.0 + scatter * rng.normal())
        drop_m, rise_m = (height_m * higher**k - ground for k in (number, number + 1))
        speed, level = np.sqrt(2.0 * fall * drop_m), LENGTH + ground
        pieces.append((at, _flight(level + drop_m, 0.0, -fall)))
        touchdown_s, rebound = at + speed / fall, share * speed
        stance, squat_s, stance_s = (_quintic if quintic else _spring)(level, speed, share)
        pieces.append((touchdown_s, stance))
        braked = rebound**2 / (2.0 * rise_m)
        pieces.append((touchdown_s + stance_s, _flight(level, rebound, -braked)))
        at = touchdown_s + stance_s + rebound / braked
        events.append((touchdown_s, touchdown_s + squat_s, touchdown_s + stance_s, at, level + rise_m, ground))
    pieces.append((at, _flight(LENGTH + height_m * higher**count, 0.0, -fall)))
    times = np.arange(1, int((at + after_s) * RATE_HZ)) / RATE_HZ if times is None else times
    return Hops(pieces, times, *(list(one) for one in zip(*events, strict=True)))
