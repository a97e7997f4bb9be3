"""Scenario `foreign`: what a laboratory's robot may do and no estimator of the salp has a term for.

Every seed draws its own sizes, from a generator of its own: with all magnitudes zero a seed is that of `hardware`, and
one effect can be switched on or off without changing the rest of the run. Magnitudes and their sources:
`config/salp_foreign.yaml`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.series import STANDARD_GRAVITY_M_S2
from onboard_estimation.contract.signals import magnitude, magnitudes, spread

Array = NDArray[np.float64]

FILE = "config/salp_foreign.yaml"
_LEAST_FRICTION = 0.2


@dataclass(frozen=True)
class ForeignScenario:
    """Magnitudes; zero: none of it. Without a file, none of any.

    Attributes
    ----------
    stribeck_share, stribeck_speed_m_s
        Friction at creeping speed beyond that of sliding, as a share; speed within which it falls.
    coupled_share
        How far friction along and across share one size, 1: wholly.
    ripple_share
        Standard deviation of the ripple of a wheel's friction from roller to roller, as a share.
    dust_share_min
        Standard deviation of the change of a wheel's friction in a minute, as a share, 1/min.
    slope_deg, link_mass_kg
        Standard deviation of the floor's slope, each axis; mass of a link, at its wheel.
    set_share, set_time_s
        Share of the deflection that the harness keeps when held for long; time constant of that.
    dead_band_m_s, sag_share_min
        Mean rim speed below which a wheel stands; mean loss of rim speed in a minute as the battery empties, 1/min.
    warm_up_rad_s, warm_up_time_s
        Standard deviation of how far a gyro's bias moves as it warms up; time constant of that.
    flexible_share, flexible_hz, flexible_damping
        Mean share of a link's rotation that goes through its first bending mode at the gyro; that mode's frequency and
        damping ratio.
    """

    stribeck_share: float = magnitude(0.0)
    stribeck_speed_m_s: float = magnitude(0.01, above_zero=True)
    coupled_share: float = magnitude(0.0, most=1.0)
    ripple_share: float = magnitude(0.0)
    dust_share_min: float = magnitude(0.0)
    slope_deg: float = magnitude(0.0, most=5.0)
    link_mass_kg: float = magnitude(1.0, above_zero=True)
    set_share: float = magnitude(0.0, most=0.99)
    set_time_s: float = magnitude(30.0, above_zero=True)
    dead_band_m_s: float = magnitude(0.0)
    sag_share_min: float = magnitude(0.0)
    warm_up_rad_s: float = magnitude(0.0)
    warm_up_time_s: float = magnitude(60.0, above_zero=True)
    flexible_share: float = magnitude(0.0)
    flexible_hz: float = magnitude(8.0, above_zero=True)
    flexible_damping: float = magnitude(0.02, most=0.99, above_zero=True)


foreign_scenario = cache(partial(magnitudes, ForeignScenario, FILE))
"""The magnitudes in the scenario file; UserError where it is not as it should be."""


class ForeignEffects:
    """What is drawn once a seed for a chain of N links, and how it acts.

    Parameters
    ----------
    rest_angles
        (N - 1,) of the harness at the start, rad.
    wheel_radius_m, rollers
        A wheel has so many rollers.
    """

    def __init__(
        self,
        scenario: ForeignScenario,
        rest_angles: Array,
        wheel_radius_m: float,
        rollers: int,
        rng: np.random.Generator,
    ) -> None:
        n = len(rest_angles) + 1
        draw = partial(spread, rng, 1.0)
        self._scenario, self._rest_angles, self._set = scenario, rest_angles, np.zeros(n - 1)
        self._rollers_per_m = rollers / wheel_radius_m
        self._phase = rng.uniform(0.0, 2.0 * np.pi, n)
        self._ripple = scenario.ripple_share * draw(n)
        self._dust = scenario.dust_share_min / 60.0 * draw(n)
        slope = np.deg2rad(scenario.slope_deg) * draw(2)
        self.downhill_n = -scenario.link_mass_kg * STANDARD_GRAVITY_M_S2 * slope
        """(2,) on each link, along the world's x and y."""
        self._dead_band_m_s = scenario.dead_band_m_s * (1.0 + 0.3 * draw(n))
        self._sag = scenario.sag_share_min / 60.0 * (1.0 + 0.3 * draw(n))
        self._warm_up = scenario.warm_up_rad_s * draw(n)
        self._flexible = scenario.flexible_share * (1.0 + 0.3 * draw(n))
        self._bent = np.zeros((n, 2))
        self._turning: Array | None = None

    def speeds(self, time_s: Array, speeds: Array) -> Array:
        """Rim speeds (K, N) at times (K,) after dead band and sag."""
        driven = np.where(np.abs(speeds) < self._dead_band_m_s, 0.0, speeds)
        return driven * (1.0 - self._sag * time_s[:, None])

    def friction(self, nominal: Array, twists: Array, turned_m: Array, time_s: float) -> Array:
        """Coulomb friction (N, 3) of wheels with these twists (N, 3) that have rolled so far (N,)."""
        s = self._scenario
        speed = np.hypot(twists[:, 0], twists[:, 1])
        share = 1.0 + s.stribeck_share * np.exp(-((speed / s.stribeck_speed_m_s) ** 2))
        share *= 1.0 + self._ripple * np.cos(self._rollers_per_m * turned_m + self._phase)
        share *= 1.0 + self._dust * time_s
        out = nominal * np.maximum(share, _LEAST_FRICTION)[:, None]
        part = (np.abs(twists[:, :2]) + 1e-3) / (speed[:, None] + 1e-3)
        out[:, :2] *= 1.0 - s.coupled_share + s.coupled_share * part
        return out

    def downhill(self, headings: Array) -> Array:
        """(N, 3) force of gravity on wheels whose driven directions have these headings (N,), along their axes."""
        c, s = np.cos(headings), np.sin(headings)
        x, y = self.downhill_n
        return np.column_stack([c * x + s * y, c * y - s * x, np.zeros(len(headings))])

    def rest_angles(self, joint_angles: Array, step_s: float) -> Array:
        """(N - 1,) of the harness, after it was held at these joint angles (N - 1,) for a step."""
        s = self._scenario
        wanted = s.set_share * (joint_angles - self._rest_angles)
        self._set += (1.0 - np.exp(-step_s / s.set_time_s)) * (wanted - self._set)
        return self._rest_angles + self._set

    def gyro_rates(self, time_s: Array, turning: Array) -> Array:
        """What is added to the gyros' rates (K, N) at times (K,): warming up, and links that bend.

        A bending mode driven by the link's angular acceleration: e'' + 2 z w e' + w^2 e = -share r', the gyro reads e'.
        """
        s = self._scenario
        out = self._warm_up * (1.0 - np.exp(-time_s / s.warm_up_time_s))[:, None]
        if s.flexible_share == 0.0:
            return out
        before = turning[:1] if self._turning is None else self._turning[None]
        jumps, self._turning = np.diff(np.vstack([before, turning]), axis=0), turning[-1]
        step_s = float(time_s[1] - time_s[0])
        omega, damping = 2.0 * np.pi * s.flexible_hz, s.flexible_damping
        damped = omega * np.sqrt(1.0 - damping**2)
        fade, c, d = np.exp(-damping * omega * step_s), np.cos(damped * step_s), np.sin(damped * step_s)
        lean = damping * omega / damped
        step = fade * np.array([[c + lean * d, d / damped], [-omega * omega * d / damped, c - lean * d]])
        for k, jump in enumerate(jumps):
            self._bent = self._bent @ step.T if k > 0 else self._bent
            self._bent[:, 1] -= self._flexible * jump
            out[k] += self._bent[:, 1]
        return out
