"""The paper's own figures, of its robot and its hops: to stand beside ours with that label, never as ours.

Table III and Table S3 (errors), Table IV and Table S1 (agility). The text at hand glued footnote marks to some times of
Table IV (0.58111 is 0.58 with mark 1 printed three times); they are taken off here.
"""

from __future__ import annotations

from typing import NamedTuple

ROBOT = "MultiMo-MHR, as published"
SET_HEIGHTS_M = (1.0, 2.0, 3.0, 4.0)


class PublishedErrors(NamedTuple):
    """A row of Table S3.

    Attributes
    ----------
    by_height
        At 1, 2, 3 and 4 m.
    pooled
        Over all hops.
    statistics
        t-test of the row against HVSE2, as printed. The baselines' 138 degrees of freedom do not go with 191 hops.
    """

    metric: str
    estimator: str
    control: str
    by_height: tuple[float, float, float, float]
    pooled: float
    statistics: str = ""


TABLE_S3 = (
    PublishedErrors("m1", "BA1", "GT", (171.9, 157.7, 193.5, 248.8), 196.8, "t(138) = 30.97, p = 0.00"),
    PublishedErrors("m1", "DR1", "GT", (39.10, 30.06, 29.10, 74.01), 44.05, "t(138) = 5.62, p = 0.00"),
    PublishedErrors("m1", "KF3", "GT", (50.02, 44.12, 51.64, 89.64), 60.45, "t(138) = 7.49, p = 0.00"),
    PublishedErrors("m1", "HVSE1", "GT", (24.64, 20.29, 13.81, 25.60), 21.24, "t(189) = 0.99, p = 0.32"),
    PublishedErrors("m1", "HVSE2", "SE", (25.18, 22.48, 13.88, 19.79), 19.46),
    PublishedErrors("m1", "HVSE3 (aerial)", "GT", (21.36, 19.71, 13.51, 25.38), 20.21),
    PublishedErrors("m1", "HVSE4 (aerial)", "SE", (25.17, 21.91, 13.48, 19.52), 18.97),
    PublishedErrors("m2", "BA1", "GT", (143.1, 136.5, 174.7, 245.0), 179.9, "t(138) = 24.15, p = 0.00"),
    PublishedErrors("m2", "DR1", "GT", (24.24, 19.14, 17.97, 48.46), 28.15, "t(138) = 3.17, p = 0.00"),
    PublishedErrors("m2", "KF3", "GT", (30.91, 27.19, 31.70, 57.35), 37.84, "t(138) = 5.24, p = 0.00"),
    PublishedErrors("m2", "HVSE1", "GT", (28.52, 21.52, 12.44, 16.13), 19.58, "t(189) = 0.31, p = 0.76"),
    PublishedErrors("m2", "HVSE2", "SE", (25.53, 21.95, 15.73, 17.36), 19.11),
    PublishedErrors("m2", "HVSE3 (aerial)", "GT", (24.88, 18.78, 11.37, 13.63), 17.08),
    PublishedErrors("m2", "HVSE4 (aerial)", "SE", (21.98, 19.59, 13.35, 14.78), 16.50),
    PublishedErrors("m3", "BA1", "GT", (57.34, 51.72, 54.53, 53.23), 53.85, "t(138) = 32.01, p = 0.00"),
    PublishedErrors("m3", "DR1", "GT", (29.04, 22.13, 22.47, 73.30), 43.36, "t(138) = 5.90, p = 0.00"),
    PublishedErrors("m3", "KF3", "GT", (37.28, 33.24, 40.75, 81.82), 50.11, "t(138) = 7.38, p = 0.00"),
    PublishedErrors("m3", "HVSE1", "GT", (13.50, 12.25, 8.81, 19.68), 13.77, "t(189) = 0.83, p = 0.41"),
    PublishedErrors("m3", "HVSE2", "SE", (14.79, 14.36, 8.11, 14.62), 12.49),
    PublishedErrors("m4", "BA1", "GT", (0.3305, 0.4653, 0.6987, 0.9950), 0.7140, "t(138) = 16.83, p = 0.00"),
    PublishedErrors("m4", "DR1", "GT", (0.0554, 0.0583, 0.0659, 0.2430), 0.1323, "t(138) = 2.66, p = 0.00"),
    PublishedErrors("m4", "KF3", "GT", (0.0726, 0.0830, 0.1178, 0.2483), 0.1388, "t(138) = 4.17, p = 0.00"),
    PublishedErrors("m4", "HVSE1", "GT", (0.0611, 0.0581, 0.0369, 0.0956), 0.0641, "t(189) = 0.96, p = 0.34"),
    PublishedErrors("m4", "HVSE2", "SE", (0.0524, 0.0611, 0.0505, 0.0695), 0.0588),
    PublishedErrors("m5", "HVSE1", "GT", (0.0477, 0.0294, 0.0562, 0.2190), 0.0912, "t(170) = 5.87, p = 0.00"),
    PublishedErrors("m5", "HVSE2", "SE", (0.0353, 0.0959, 0.1773, 0.5885), 0.2597),
)
"""Table S3; its pooled columns are Table III."""


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
