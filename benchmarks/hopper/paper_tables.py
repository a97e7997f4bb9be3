"""The paper's own figures, of its robot and its hops: to stand beside ours with that label, never as ours.

Table IV and Table S1 (agility). The text at hand glued footnote marks to some times of
Table IV (0.58111 is 0.58 with mark 1 printed three times); they are taken off here.
"""

from __future__ import annotations

from typing import NamedTuple

SET_HEIGHTS_M = (1.0, 2.0, 3.0, 4.0)


class PublishedAgility(NamedTuple):
    """A row of Table IV: m, s, s, m/s, m/s."""

    platform: str
    hop_height_m: float
    stance_and_rebound_s: float
    cycle_s: float
    vertical_jumping_agility_m_s: float
    hopping_agility_m_s: float


TABLE_IV = (
    PublishedAgility("Salto", 1.008, 0.58, 1.03, 1.75, 1.96),
    PublishedAgility("Salto-1P", 1.252, 0.68, 1.15, 1.83, 2.18),
    PublishedAgility("Galago (animal)", 1.742, 0.78, 1.55, 2.24, 2.24),
    PublishedAgility("PogoDrone", 0.7, 4.18, 8.25, 0.17, 0.17),
    PublishedAgility("PogoX", 0.6, 0.44, 0.88, 1.37, 1.37),
    PublishedAgility("HopCopter", 1.63, 0.71, 1.37, 2.30, 2.37),
    PublishedAgility("MultiMo-MHR, true state", 3.92, 1.58, 2.60, 2.47, 3.01),
    PublishedAgility("MultiMo-MHR, estimated state", 4.02, 1.85, 2.86, 2.18, 2.81),
)


class PublishedHops(NamedTuple):
    """A row of Table S1: means and standard deviations, control by the true (GT) or the estimated (HVSE) state."""

    control: str
    hops: int
    hop_height_m: tuple[float, float]
    stance_s: tuple[float, float]
    stance_and_rebound_s: tuple[float, float]
    cycle_s: tuple[float, float]
    vertical_jumping_agility_m_s: float
    hopping_agility_m_s: float


TABLE_S1 = (
    PublishedHops("GT", 16, (1.03, 0.05), (0.059, 0.001), (0.68, 0.04), (1.18, 0.04), 1.52, 1.74),
    PublishedHops("HVSE", 18, (1.00, 0.00), (0.058, 0.002), (0.69, 0.06), (1.19, 0.08), 1.45, 1.68),
    PublishedHops("GT", 19, (2.02, 0.02), (0.067, 0.001), (0.98, 0.02), (1.68, 0.01), 2.05, 2.41),
    PublishedHops("HVSE", 28, (1.97, 0.11), (0.07, 0.001), (0.96, 0.11), (1.65, 0.13), 2.04, 2.39),
    PublishedHops("GT", 16, (3.03, 0.06), (0.069, 0.001), (1.26, 0.03), (2.14, 0.04), 2.40, 2.84),
    PublishedHops("HVSE", 39, (2.85, 0.15), (0.07, 0.001), (1.29, 0.11), (2.13, 0.13), 2.20, 2.68),
    PublishedHops("GT", 19, (3.78, 0.13), (0.071, 0.001), (1.71, 0.07), (2.72, 0.08), 2.21, 2.78),
    PublishedHops("HVSE", 36, (3.41, 0.29), (0.071, 0.001), (1.64, 0.19), (2.59, 0.24), 2.08, 2.63),
)
"""Rows in the order of the set heights 1, 2, 3 and 4 m."""
