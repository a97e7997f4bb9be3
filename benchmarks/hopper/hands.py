"""Hopper in somebody's hands: caught out of a hop, carried, thrown with motors off, knocked, set down, lifted again.

Each recording is of simulated hops (`hardware`), then of two minutes of hands, drawn anew for each seed, then of the
same hops from their first drop on. Hands are given as smooth heights over time, their shocks and the noise of the
sensors put on top: accelerations of people's movements are 0.2 to 2 g, steps are 1.6 to 2.1 Hz and 2 cm, knocks 3 to
15 g for 4 to 10 ms, a landing in a hand takes a fifth of a second.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.polynomial import Polynomial

from benchmarks.hopper.trials import CONFIGURATION, deviations, simulated, told
from benchmarks.measuring import Array, rms
from hopper_estimation.estimators.filter_model import filters_of
from hopper_estimation.estimators.samples import NOMINAL_DT_S
from hopper_estimation.model.phases import APEX, SIGNAL, TOUCHDOWN, Records
from hopper_estimation.training.trials import Trial

_GRAVITY, _STANDING_M = CONFIGURATION.robot.gravity_m_s2, CONFIGURATION.robot.standing_height_m
_LOW_NOISE, _HIGH_NOISE, _LOW_RANGE = 0.15, 4.6, 156.9


class Handled(NamedTuple):
    """Seconds of hands; hops and touchdowns told in them; the height's errors within three standard deviations in them,
    and from the second touchdown after them on, with the height's RMS error there, m."""

    seconds: float
    apexes: int
    touchdowns: int
    covered: float
    covered_after: float
    rms_after_m: float


class Hand:
    """Heights over time, moved from one to the next."""

    def __init__(self, height_m: float, velocity_m_s: float) -> None:
        self._at = height_m, velocity_m_s
        self._pieces: list[Array] = []

    def move(self, height_m: float, seconds: float, velocity_m_s: float = 0.0) -> None:
        """By a quintic with no acceleration at its ends."""
        start, speed = self._at
        far, before, after = height_m - start, speed * seconds, velocity_m_s * seconds
        third, fourth = 10 * far - 6 * before - 4 * after, -15 * far + 8 * before + 7 * after
        shape = Polynomial([start, before, 0, third, fourth, 6 * far - 3 * before - 3 * after])
        self._pieces.append(shape(_times(seconds) / seconds))
        self._at = height_m, velocity_m_s

    def hold(self, seconds: float, step_m: float = 0.0, steps_hz: float = 1.8) -> None:
        """Still, or walking."""
        t = _times(seconds)
        fade = np.clip(np.minimum(t, seconds - t) / 0.5, 0.0, 1.0)
        self._pieces.append(self._at[0] + fade * step_m * np.sin(2.0 * np.pi * steps_hz * t))

    def throw(self, speed_m_s: float) -> None:
        """Up in a quarter of a second, free until it is back, caught in another."""
        start = self._at[0]
        top = start + 0.12 * speed_m_s
        self.move(top, 0.25, speed_m_s)
        t = _times(2.0 * speed_m_s / _GRAVITY)
        self._pieces.append(top + speed_m_s * t - 0.5 * _GRAVITY * t**2)
        self._at = top, -speed_m_s
        self.move(start, 0.25)

    @property
    def height_m(self) -> Array:
        """(N,) at each sample."""
        return np.concatenate(self._pieces)


def _times(seconds: float) -> Array:
    count = max(int(seconds / NOMINAL_DT_S), 2)
    return np.arange(1, count + 1) / count * seconds


def handled(height_m: float, velocity_m_s: float, drop_m: float, rng: np.random.Generator) -> tuple[Records, Array]:
    """Two minutes from a height and velocity to rest at another height: signals, and (N,) the height."""
    hand = Hand(height_m, velocity_m_s)
    hand.move(max(height_m + 0.1 * velocity_m_s, 0.4), 0.2)
    hand.move(1.2, 1.0)
    hand.hold(5.0)
    hand.hold(20.0, 0.02, rng.uniform(1.6, 2.1))
    hand.hold(8.0)
    for speed in (rng.uniform(2.0, 3.0), rng.uniform(3.5, 5.0)):
        hand.throw(speed)
        hand.hold(3.0)
    hand.move(_STANDING_M, 2.0)
    down = len(hand.height_m)
    hand.hold(25.0)
    hand.move(1.0, 1.5)
    hand.hold(10.0, 0.02, rng.uniform(1.6, 2.1))
    hand.move(_STANDING_M, 3.0)
    hand.hold(20.0)
    hand.move(drop_m, 3.0)
    height = hand.height_m
    acceleration = np.gradient(np.gradient(height, NOMINAL_DT_S), NOMINAL_DT_S)
    acceleration[down : down + 10] += rng.uniform(20.0, 60.0)
    for _ in range(12):  # knocks while it stands or is held, which move it nowhere
        at, long = int(rng.integers(down + 1700, len(height) - 4000)), int(rng.integers(3, 9))
        push = rng.uniform(30.0, 150.0)
        acceleration[at : at + long] += push
        acceleration[at + long : at + 3 * long] -= 0.5 * push
    count = len(height)
    signals = np.zeros(count, SIGNAL)
    signals["dt"], signals["usable"] = NOMINAL_DT_S, 3
    low = acceleration + _GRAVITY + _LOW_NOISE * rng.normal(size=count)
    signals["low"] = np.clip(low, -_LOW_RANGE, _LOW_RANGE) - _GRAVITY
    signals["high"] = acceleration + _HIGH_NOISE * rng.normal(size=count) + 0.5 * rng.normal()
    for name in ("goal", "thrust", "leg"):
        signals[name] = np.nan
    return signals, height


def judged_hands(name: str, seed: int) -> Handled:
    """What this filter, as it ships, says of the recording of this seed."""
    rng = np.random.default_rng(seed)
    hops = simulated("hardware", "mixed", 40.0, seed)
    aloft = (hops.true_height_m > 0.6) & (np.arange(len(hops.time_s)) > len(hops.time_s) // 2)
    stop = int(rng.choice(np.flatnonzero(aloft)))
    caught = float(hops.true_height_m[stop]), float(hops.true_velocity_m_s[stop])
    signals, height_m = handled(*caught, hops.start_height_m, rng)
    whole = np.concatenate([hops.signals[:stop], signals, hops.signals])
    true_m = np.concatenate([hops.true_height_m[:stop], height_m, hops.true_height_m])
    entry = filters_of("").entry(name)
    trial = Trial(
        name, whole, hops.start_height_m, true_m, np.full_like(true_m, np.nan), np.cumsum(whole["dt"]), hops.hops
    )
    out, events = told(name, entry, trial)
    height, _ = deviations(out, entry, trial)
    inside, known = height < 3.0, np.isfinite(height)
    samples, kinds = events["sample"], events["kind"]
    begin, end = stop, stop + len(height_m)
    there = (samples >= begin) & (samples < end)
    # An apex before the hand has stopped it is one.
    hops_told = there & (kinds == APEX) & (samples > begin + 0.2 / NOMINAL_DT_S)
    landings = samples[(kinds == TOUCHDOWN) & (samples >= end)].astype(np.int64)
    number = np.arange(len(true_m))
    hands = known & (number >= begin) & (number < end)
    sane = known & (number >= (landings[1] if len(landings) > 1 else end))
    return Handled(
        len(height_m) * NOMINAL_DT_S,
        int(hops_told.sum()),
        int((there & (kinds == TOUCHDOWN)).sum()),
        float(inside[hands].mean()),
        float(inside[sane].mean()),
        rms(out[sane, 0] - true_m[sane]),
    )
