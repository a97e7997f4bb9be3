"""Scenario `foreign`: what a hopping robot may do and no estimator of the hopper has a term for.

Every seed draws its own sizes, and many of them anew for each hop, from a generator of its own: one effect can be
switched on or off without changing what else is drawn. Magnitudes and their sources: `config/hopper_foreign.yaml`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from hopper_estimation.model import dynamics
from hopper_estimation.model.phases import REBOUND, STANCE_DOWN, STANCE_UP, Array
from onboard_estimation.contract.signals import magnitude, magnitudes, spread

FILE = "config/hopper_foreign.yaml"
_MOST_HOPS = 20_000
_TICK_S = dynamics.TICK_STEPS * dynamics.STEP_S
_EDGE_TICKS = 4
_USUAL_M, _USUAL_M_S = 2.0, 5.0
"""Commanded height without more or less push; speed of touchdown and liftoff that magnitudes are given for."""


@dataclass(frozen=True)
class ForeignScenario:
    """Magnitudes; zero: none of it. Without a file, none of any."""

    # standard deviation of the leg's own push from hop to hop, as a share of its preload
    push_scatter: float = magnitude(0.0)
    push_per_m: float = magnitude(0.0)  # 1/m: push by commanded height, of a hop before, as a share of the preload
    softest_ratio: float = magnitude(0.0)  # hardest over softest ground; 0 or 1: all alike
    edge_share: float = magnitude(0.0, most=1.0)  # share of landings that slip off an edge
    edge_m: float = magnitude(0.015)  # m: its mean height
    # deg: standard deviation of the pitch that a landing at 5 m/s sets off
    wobble_deg: float = magnitude(0.0, most=15.0)
    wobble_hz: float = magnitude(3.0, above_zero=True)  # Hz: frequency of that swing
    wobble_damping: float = magnitude(0.15, most=0.99, above_zero=True)  # its damping ratio
    lever_m: float = magnitude(0.0)  # m: standard deviation of the sensors' way beside the centre
    ringing_m_s2: float = magnitude(0.0)  # m/s^2: mean amplitude of the leg's ringing after a liftoff at 5 m/s
    ringing_hz: float = magnitude(35.0, above_zero=True)  # Hz: its mean frequency
    ringing_damping: float = magnitude(0.05, most=0.99, above_zero=True)  # its damping ratio
    # m/s^2: standard deviation of how far the low-g sensor's zero moves, each run
    low_warm_up_m_s2: float = magnitude(0.0)
    high_warm_up_m_s2: float = magnitude(0.0)  # m/s^2: the same of the high-g sensor
    warm_up_time_s: float = magnitude(60.0, above_zero=True)  # s: time constant of that
    shock_offset_m_s2: float = magnitude(0.0)  # m/s^2: standard deviation of the low-g sensor's zero after each shock


foreign_scenario = cache(partial(magnitudes, ForeignScenario, FILE))
"""The magnitudes in the scenario file; UserError where it is not as it should be."""


class ForeignEffects:
    """What is drawn once a seed, and how it acts."""

    def __init__(self, scenario: ForeignScenario, rng: np.random.Generator) -> None:
        s, draw = scenario, partial(spread, rng, 1.0)
        self._scenario = scenario
        self._push = s.push_scatter * draw(_MOST_HOPS)
        self._softness = max(s.softest_ratio, 1.0) ** rng.uniform(size=_MOST_HOPS)
        self._edge_m = (rng.uniform(size=_MOST_HOPS) < s.edge_share) * s.edge_m * (1.0 + 0.3 * draw(_MOST_HOPS))
        self._wobble = np.deg2rad(s.wobble_deg) * draw(_MOST_HOPS, 2)
        self._lever_m = s.lever_m * draw(2)
        self._ringing = s.ringing_m_s2 * (1.0 + 0.3 * draw(_MOST_HOPS))
        self._ringing_hz = s.ringing_hz * (1.0 + 0.15 * float(draw()))
        self._warm_up = np.array([s.low_warm_up_m_s2, s.high_warm_up_m_s2]) * draw(2)
        self._shocked = s.shock_offset_m_s2 * draw(_MOST_HOPS)
        self._goal = self._wanted = np.nan
        self._phase, self._tick = -1, 0
        self._landed, self._left = (-np.inf, 0.0, 0), (-np.inf, 0.0, 0)  # time, s; speed, m/s; hop
        self._ticks = np.zeros((0, 6))
        self._angle, self._rate = np.zeros((2, 2))
        self._kick = 2.0 * np.pi * s.wobble_hz / _USUAL_M_S
        self.swings = np.zeros((0, 4))
        """(K, 4) roll, pitch and their rates at the ticks that were just run, beside the robot's sway."""

    def advance(self, state: Array, delayed: Array, plant: dynamics.Plant, motion: dynamics.Motion) -> None:
        """As `dynamics.advance`, tick by tick, each with the leg's push and the ground of its hop."""
        self._ticks, self.swings = np.empty((len(motion.goals), 6)), np.empty((len(motion.goals), 4))
        self._tick = motion.first_tick
        for k in range(len(motion.goals)):
            phase, hop, time_s = int(state[dynamics.PHASE]), int(state[dynamics.HOP]), (motion.first_tick + k) * _TICK_S
            if phase != self._phase:
                if phase == STANCE_DOWN:
                    self._landed = (time_s, -float(state[dynamics.VELOCITY]), hop)
                    self._rate += self._kick * self._wobble[hop] * self._landed[1]
                    self._goal, self._wanted = self._wanted, float(motion.goals[k])
                elif phase == REBOUND:
                    self._left = (time_s, float(state[dynamics.VELOCITY]), hop)
                self._phase = phase
            if phase == STANCE_DOWN and round((time_s - self._landed[0]) / _TICK_S) == _EDGE_TICKS:
                state[dynamics.GROUND] -= self._edge_m[hop]
            self._ticks[k] = (*self._landed, *self._left)
            self.swings[k] = self._swing()
            rows = slice(k * dynamics.TICK_STEPS, (k + 1) * dynamics.TICK_STEPS)
            tick = motion._replace(
                first_tick=motion.first_tick + k,
                goals=motion.goals[k : k + 1],
                gusts=motion.gusts[k : k + 1],
                supply=motion.supply[k : k + 1],
                trace=motion.trace[rows],
                duties=motion.duties[k : k + 1],
            )
            dynamics.advance(state, delayed, self._plant(plant, phase, hop), tick)

    def _plant(self, plant: dynamics.Plant, phase: int, hop: int) -> dynamics.Plant:
        """Leg and ground of this hop."""
        soft, push = self._softness[hop], 0.0
        if phase == STANCE_UP:
            above_m = 0.0 if np.isnan(self._goal) else self._goal - _USUAL_M
            push = plant.preload * (self._push[hop] + self._scenario.push_per_m * above_m)
        return plant._replace(
            preload=plant.preload + push,
            ground_stiffness=plant.ground_stiffness / soft,
            ground_damping=plant.ground_damping * soft,
        )

    def _swing(self) -> Array:
        """A tick of the swing that landings set off: a damped oscillator, rate first."""
        s = self._scenario
        omega = 2.0 * np.pi * s.wobble_hz
        self._rate -= _TICK_S * (2.0 * s.wobble_damping * omega * self._rate + omega * omega * self._angle)
        self._angle += _TICK_S * self._rate
        return np.concatenate([self._angle, self._rate])

    def felt(self, since_start_s: Array, rates: Array) -> Array:
        """(M, 2) specific force along the leg that low-g and high-g sensor read beyond that of the body, m/s^2.

        Parameters
        ----------
        since_start_s
            (M,) since the first of the ticks that were just run.
        rates
            (K, 2) roll and pitch rates at the ticks.
        """
        s, time_s = self._scenario, self._tick * _TICK_S + since_start_s
        at_s, speed, hop = self._ticks[np.minimum((since_start_s / _TICK_S).astype(int), len(self._ticks) - 1), 3:].T
        since_s = np.where(np.isfinite(at_s), time_s - at_s, np.inf)
        omega = 2.0 * np.pi * self._ringing_hz
        ringing = np.exp(-s.ringing_damping * omega * since_s) * np.sin(omega * np.minimum(since_s, 1e3))
        ringing *= self._ringing[hop.astype(int)] * speed / _USUAL_M_S
        ticks_s = np.arange(len(rates)) * _TICK_S
        if len(rates) > 1:
            turning = np.gradient(rates, _TICK_S, axis=0) @ self._lever_m
            ringing = ringing + np.interp(since_start_s, ticks_s, turning)
        offsets = self._warm_up * (1.0 - np.exp(-time_s / s.warm_up_time_s))[:, None]
        landed = self._ticks[np.minimum((since_start_s / _TICK_S).astype(int), len(self._ticks) - 1), :3]
        offsets[:, 0] += np.where(np.isfinite(landed[:, 0]), self._shocked[landed[:, 2].astype(int)], 0.0)
        return ringing[:, None] + offsets
