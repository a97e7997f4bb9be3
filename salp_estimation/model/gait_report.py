"""A gait of the chain as the command `gait` shows it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.contract.trained import ReportTable
from onboard_estimation.report.plots import BAND, ESTIMATE, SERIES, TRUTH, write_figure
from salp_estimation.model.configuration import ChainConfiguration, SalpConfiguration
from salp_estimation.model.gait_design import DesignedGait, describe, design, gait_for, named_motion
from salp_estimation.model.gait_fit import effort
from salp_estimation.model.gaits import FORWARD

_SNAPSHOTS = 5
_MOST_LABELLED = 8


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
        joints = np.rad2deg(designed.joints_rad).tolist()
        return {
            "gait": self.name,
            "origin": self.origin,
            "period_s": gait.period_s,
            "wheels": list(self.configuration.link_names),
            "offset_m_s": list(gait.offset),
            "sine_m_s": list(gait.sine),
            "cosine_m_s": list(gait.cosine),
            "net_motion": _pose(designed.states[-1, :3]),
            "net_motion_to_first_order": _pose(designed.first_order_motion),
            "net_shape_change_deg": np.rad2deg(designed.states[-1, 3:]).tolist(),
            **{f"joint_{name}_deg": row for name, row in zip(("lower", "upper", "mean"), joints, strict=True)},
            "peak_gyro_rates_rad_s": designed.peak_gyro_rates_rad_s.tolist(),
            "effort_m2_s2": effort(gait),
        }

    def sentences(self) -> list[str]:
        """What it is and where it leads."""
        designed = self.designed
        x, y, heading = designed.states[-1, :3]
        moved = f"{_signed(100.0 * x, 2)} cm forward, {_signed(100.0 * y, 2)} cm left"
        shape = float(np.abs(np.rad2deg(designed.states[-1, 3:])).max())
        return [
            f"{self.name}, {self.origin}: u(t) = offset + sine sin(2 pi t / T) + cosine cos(2 pi t / T), "
            f"T = {designed.gait.period_s:g} s",
            f"a cycle moves {moved} and turns {_signed(np.rad2deg(heading), 2)} deg; "
            f"joints come back to within {shape:.1g} deg; effort (mean |u|^2) {effort(designed.gait):.3g} m^2/s^2",
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
        joints: list[tuple[str, ...]] = [
            (f"alpha_{k}", *(f"{value:.2f}" for value in row))
            for k, row in enumerate(np.rad2deg(designed.joints_rad.T).tolist(), 1)
        ]
        motion: list[tuple[str, ...]] = [
            (what, _signed(100.0 * pose[0], 3), _signed(100.0 * pose[1], 3), _signed(np.rad2deg(pose[2]), 3))
            for what, pose in (
                ("integrated", designed.states[-1]),
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
        write_figure(file, partial(_figure, self.name, self.designed, self.configuration))


def gait_report(
    configuration: SalpConfiguration,
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
    links = configuration.chain
    chain = links.build()
    motion = named_motion(chain, name, distance_m, turn_rad)
    if distance_m is None and turn_rad is None and period_s is None:
        designed = describe(chain, gait_for(links, name))
    else:
        designed = design(chain, motion, 6.0 if period_s is None else period_s)
    published = designed.gait in (FORWARD, FORWARD.reversed())
    origin = "published for the real robot" if published else "designed for least effort"
    return ChainGaitReport(name, origin, links, designed)


def _table(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> ReportTable:
    return ReportTable("", headings, tuple(rows), headings[1:])


def _pose(pose: Any) -> dict[str, float]:
    x, y, heading = pose.tolist()
    return {"x_m": x, "y_m": y, "heading_deg": float(np.rad2deg(heading))}


def _signed(value: float, digits: int) -> str:
    """With its sign, and no minus before zero."""
    return f"{round(float(value), digits) + 0.0:+.{digits}f}"


def _figure(name: str, gait: DesignedGait, configuration: ChainConfiguration) -> Figure:
    """Controls, loop of shapes, the chain over a cycle, path (paper, figure 2)."""
    figure = Figure(figsize=(8.0, 6.4), layout="constrained")
    controls, shapes, snapshots, path = figure.subplots(2, 2).ravel()
    draw_controls(controls, gait, configuration.link_names)
    draw_shapes(shapes, gait)
    draw_snapshots(snapshots, gait.time_s, gait.states, configuration)
    _path(path, gait)
    figure.suptitle(f"gait {name}", fontweight="bold")
    return figure


def draw_controls(axes: Axes, gait: DesignedGait, names: tuple[str, ...]) -> None:
    """Rim speeds of a cycle."""
    controls = 100.0 * gait.gait.controls(gait.time_s)
    for index, name in enumerate(names):
        label = name if len(names) <= _MOST_LABELLED else None
        axes.plot(gait.time_s, controls[:, index], color=SERIES[index % len(SERIES)], label=label)
    axes.set(xlabel="time (s)", ylabel="rim speed (cm/s)", xlim=(0.0, gait.gait.period_s))
    if len(names) <= _MOST_LABELLED:
        axes.legend(loc="best", fontsize=7, framealpha=0.7)


def draw_shapes(axes: Axes, gait: DesignedGait) -> None:
    """The loop in the plane of two joint angles; of other chains all joint angles over time."""
    angles = np.rad2deg(gait.states[:, 3:])
    if angles.shape[1] != 2:
        for index in range(angles.shape[1]):
            axes.plot(gait.time_s, angles[:, index], color=SERIES[index % len(SERIES)])
        axes.set(xlabel="time (s)", ylabel="joint angles (deg)", xlim=(0.0, gait.gait.period_s))
        return
    axes.plot(*angles.T, color=ESTIMATE)
    for share in (0.125, 0.375, 0.625, 0.875):
        k = round(share * (len(angles) - 1))
        arrow = {"arrowstyle": "-|>", "color": ESTIMATE, "mutation_scale": 13.0, "shrinkA": 0.0, "shrinkB": 0.0}
        axes.annotate("", angles[k + 2], angles[k - 2], arrowprops=arrow)
    axes.plot(*angles[0], "o", color=TRUTH, markersize=5, label="start")
    axes.set(xlabel="alpha_1 (deg)", ylabel="alpha_2 (deg)", aspect="equal", adjustable="datalim")
    axes.legend(loc="best", fontsize=7, framealpha=0.7)


def draw_snapshots(axes: Axes, time_s: Vector, states: Matrix, configuration: ChainConfiguration) -> None:
    """The chain of states (K, N + 2) at quarters of a cycle, one below the other, over its place at the start."""
    at = np.linspace(0, len(time_s) - 1, _SNAPSHOTS).round().astype(int)
    outlines = 100.0 * configuration.build().outline(states[at])
    gap, rows_cm, bottom = 0.1 * float(np.ptp(outlines[0, :, 0])), [], 0.0
    for k, outline in zip(at, outlines, strict=True):
        row_cm = bottom - gap - max(0.0, float(outline[:, 1].max()))  # below all of the chain drawn before
        bottom = row_cm + min(0.0, float(outline[:, 1].min()))
        rows_cm.append(row_cm)
        down = np.array([0.0, row_cm])
        axes.plot(*(outlines[0] + down).T, color="#BBBBBB", linewidth=1.0, linestyle="--")
        axes.plot(*(outline + down).T, "o-", color=ESTIMATE, markersize=2.5, linewidth=1.8)
        axes.plot(*(100.0 * states[k, :2] + down), ".", color=TRUTH, markersize=6)
    axes.set_yticks(rows_cm, [f"{time_s[k]:.3g} s" for k in at])
    axes.set(xlabel="x (cm)", aspect="equal", adjustable="datalim")
    axes.grid(axis="y", visible=False)


def _path(axes: Axes, gait: DesignedGait) -> None:
    """Of the base frame, with the heading at the end."""
    path = 100.0 * gait.states[:, :2]
    axes.plot(*path.T, color=ESTIMATE)
    axes.plot(*path[0], "o", color=TRUTH, markersize=5, label="start")
    axes.plot(*path[-1], "s", color=BAND, markersize=5, label="after a cycle", markeredgecolor="black")
    span = max(1.0, float(np.ptp(path, axis=0).max()))
    for k, colour in ((0, TRUTH), (len(path) - 1, "black")):
        heading = gait.states[k, 2]
        tip = path[k] + 0.3 * span * np.array([np.cos(heading), np.sin(heading)])
        axes.annotate("", tip, path[k], arrowprops={"arrowstyle": "->", "color": colour, "lw": 1.0})
        axes.update_datalim([tip])
    axes.set(xlabel="x (cm)", ylabel="y (cm)", aspect="equal", adjustable="datalim")
    axes.margins(0.15)
    axes.legend(loc="best", fontsize=7, framealpha=0.7)
