"""A gait of the chain as the command `gait` shows it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onboard_estimation.capabilities.tables import ReportTable
from salp_estimation.configuration import ChainConfiguration
from salp_estimation.gait_design import DesignedGait, describe, design, named_motion
from salp_estimation.gait_picture import write_gait_picture
from salp_estimation.gaits import FORWARD, gait_for


@dataclass(frozen=True, eq=False)
class ChainGaitReport:
    """A gait, what a cycle of it does, and how it was come by."""

    name: str
    origin: str
    configuration: ChainConfiguration
    designed: DesignedGait

    def summary(self) -> dict[str, Any]:
        """All numbers, units in the names."""
        designed, gait = self.designed, self.designed.gait
        return {
            "gait": self.name,
            "origin": self.origin,
            "period_s": gait.period_s,
            "wheels": list(self.configuration.link_names),
            "offset_m_s": list(gait.offset),
            "sine_m_s": list(gait.sine),
            "cosine_m_s": list(gait.cosine),
            "net_motion": _pose(designed.net_motion),
            "net_motion_to_first_order": _pose(designed.first_order_motion),
            "net_shape_change_deg": np.rad2deg(designed.net_shape_rad).tolist(),
            "joint_lower_deg": np.rad2deg(designed.joint_lower_rad).tolist(),
            "joint_upper_deg": np.rad2deg(designed.joint_upper_rad).tolist(),
            "joint_mean_deg": np.rad2deg(designed.joint_mean_rad).tolist(),
            "peak_gyro_rates_rad_s": designed.peak_gyro_rates_rad_s.tolist(),
            "effort_m2_s2": designed.effort_m2_s2,
        }

    def sentences(self) -> list[str]:
        """What it is and where it leads."""
        designed = self.designed
        x, y, heading = designed.net_motion
        moved = f"{_signed(100.0 * x, 2)} cm forward, {_signed(100.0 * y, 2)} cm left"
        shape = float(np.abs(np.rad2deg(designed.net_shape_rad)).max())
        return [
            f"{self.name}, {self.origin}: u(t) = offset + sine sin(2 pi t / T) + cosine cos(2 pi t / T), "
            f"T = {designed.gait.period_s:g} s",
            f"a cycle moves {moved} and turns {_signed(np.rad2deg(heading), 2)} deg; "
            f"joints come back to within {shape:.1g} deg; effort (mean |u|^2) {designed.effort_m2_s2:.3g} m^2/s^2",
        ]

    def tables(self) -> list[ReportTable]:
        """Wheels, joints, motion."""
        designed, gait = self.designed, self.designed.gait
        names = self.configuration.link_names
        wheels: list[tuple[str, ...]] = [
            (name, *(_signed(value, 6) for value in row[:3]), f"{row[3]:.3f}")
            for name, *row in zip(
                names, gait.offset, gait.sine, gait.cosine, designed.peak_gyro_rates_rad_s.tolist(), strict=True
            )
        ]
        degrees = np.rad2deg([designed.joint_lower_rad, designed.joint_upper_rad, designed.joint_mean_rad]).T
        joints: list[tuple[str, ...]] = [
            (f"alpha_{k + 1}", *(f"{value:.2f}" for value in row)) for k, row in enumerate(degrees.tolist())
        ]
        motion: list[tuple[str, ...]] = [
            (what, _signed(100.0 * pose[0], 3), _signed(100.0 * pose[1], 3), _signed(np.rad2deg(pose[2]), 3))
            for what, pose in (
                ("integrated", designed.net_motion),
                ("Lie brackets and averaging", designed.first_order_motion),
            )
        ]
        return [
            _table(("wheel", "offset (m/s)", "sine (m/s)", "cosine (m/s)", "peak gyro rate (rad/s)"), wheels),
            _table(("joint", "lowest (deg)", "highest (deg)", "mean (deg)"), joints),
            _table(("motion of a cycle", "forward (cm)", "left (cm)", "turn (deg)"), motion),
        ]

    def write_picture(self, file: Path) -> None:
        """Controls, shapes, snapshots and path as a PNG file."""
        write_gait_picture({self.name: self.designed}, self.configuration, file)


def gait_report(
    configuration: ChainConfiguration,
    name: str,
    distance_m: float | None = None,
    turn_rad: float | None = None,
    period_s: float | None = None,
) -> ChainGaitReport:
    """The gait that simulations use, or one designed for another distance, turn or period.

    Raises
    ------
    UserError
        No such gait, or the chain cannot be moved so.
    """
    chain = configuration.build()
    motion = named_motion(chain, name, distance_m, turn_rad)
    if distance_m is None and turn_rad is None and period_s is None:
        gait = gait_for(configuration, name)
        published = gait in (FORWARD, FORWARD.reversed())
        origin = "published for the real robot" if published else "designed for least effort"
        return ChainGaitReport(name, origin, configuration, describe(chain, gait))
    designed = design(chain, motion, 6.0 if period_s is None else period_s)
    return ChainGaitReport(name, "designed for least effort", configuration, designed)


def _table(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> ReportTable:
    return ReportTable("", headings, tuple(rows), headings[1:])


def _pose(pose: Any) -> dict[str, float]:
    x, y, heading = pose.tolist()
    return {"x_m": x, "y_m": y, "heading_deg": float(np.rad2deg(heading))}


def _signed(value: float, digits: int) -> str:
    """With its sign, and no minus before zero."""
    return f"{round(float(value), digits) + 0.0:+.{digits}f}"
