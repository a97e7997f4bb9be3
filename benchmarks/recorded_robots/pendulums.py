"""Recorded pendulums: what the filter foresees on swings that it did not learn from, and what it finds of the links.

The figures of `examples/recorded_robots/docs/pendulums.md`. Needs the recordings; nothing here is timed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import Array, Row, recordings, row
from onboard_estimation.base.configuration import load, to_mapping
from onboard_estimation.base.measurement import Measurement
from onboard_estimation.base.series import Series
from recorded_robots.pendulum.configuration import Pendulum
from recorded_robots.pendulum.estimator import ANGLES, TORQUES, PendulumEstimator
from recorded_robots.pendulum.figures import Figure, estimated, figures
from recorded_robots.pendulum.forecast import Forecasts, Motion, forecast
from recorded_robots.pendulum.recordings import read_actuated_pendulum, read_triple_pendulum

HORIZONS_S = (0.0, 0.05, 0.2, 0.5, 1.0)
AUTHORS = np.zeros((6, 3))
AUTHORS[:2] = (0.25817, 0.27943, 0.11862), (0.16, 0.20294, 0.18371)
AUTHORS[2:4] = (1.000e-4, 3.142e-4, 1.687e-4), (1.477e-3, 2.596e-4, 1e-5)
"""What the authors of the triple pendulum's recordings fitted, as parameters of the motion."""
LEAST_SQUARES = {"second_moment": 0.1745, "weight_moment": 3.497}
"""Of the single pendulum, kg m^2 and N m, by ../shared/data/README.md."""
LEAST_SQUARES_RATIOS, AUTHORS_RATIOS = (3.07, 4.9), (3.197, 4.147)
"""First by second moment of the double pendulum's joints, 1/m: by that page, and of its authors' model A0."""


@dataclass(frozen=True, eq=False)
class Filtered:
    """A recording with the filter's estimates at its angles."""

    estimator: PendulumEstimator
    motion: Motion
    means: Array
    covariances: Array
    mean_nis: float

    def figures(self) -> dict[str, Figure]:
        """What it has found at last."""
        return estimated(self.estimator, self.means[-1], self.covariances[-1])

    def forecasts(self) -> list[Forecasts]:
        """Over all horizons."""
        return forecast(self.estimator, self.motion, self.means, self.covariances, HORIZONS_S)


def run(quick: bool) -> list[Row]:
    """Rows of the triple, the single and the double pendulum."""
    actuated = recordings("actuated_pendulum")
    return [
        *triple_rows(recordings("triple_pendulum")),
        *single_rows(actuated / "single_ddp.csv"),
        *(one for name in ("double_A0_00", "double_A0_01") for one in double_rows(actuated / f"{name}.csv")),
    ]


def filtered(series: Sequence[Series], configuration: Pendulum) -> Filtered:
    """The filter over a whole recording; torques, where there are any, are as often measured as angles."""
    by_sensor = {one.channel.sensor: one for one in series}
    angles, torques = by_sensor[ANGLES], by_sensor.get(TORQUES)
    estimator = PendulumEstimator(configuration)
    state, means, covariances, nis = estimator.start(None), [], [], []
    for k, (stamp_ns, value) in enumerate(zip(angles.stamps_ns.tolist(), angles.values, strict=True)):
        if torques is not None:
            state = estimator.step(state, Measurement(stamp_ns, TORQUES, torques.values[k])).state
        step = estimator.step(state, Measurement(stamp_ns, ANGLES, value))
        state = step.state
        assert step.estimate is not None
        means.append(step.estimate.mean)
        covariances.append(step.estimate.covariance)
        if step.innovation is not None:
            nis.append(step.innovation.nis / len(value))
    motion = Motion.of(series, angles.values.shape[1])
    return Filtered(estimator, motion, np.array(means), np.array(covariances), float(np.mean(nis)))


def triple(path: Path, overrides: dict[str, Any] | None = None) -> tuple[Filtered, Filtered]:
    """The filter on every other segment, and on the others with the links held as it found them."""
    content = read_triple_pendulum(path)
    configuration = load(Pendulum, to_mapping(content.configurations["pendulum"]), overrides)
    whole = Motion.of(content.recording.sensors, 3)
    pieces = whole.pieces(configuration.longest_gap_s)

    def rows(first: int) -> list[Series]:
        chosen = np.concatenate([np.arange(piece.start, piece.stop) for piece in pieces[first::2]])
        return [one.rows(chosen) for one in content.recording.sensors]

    learned = filtered(rows(0), configuration)
    found = learned.estimator.parameters(learned.means[-1][6:])
    links = ("mass_kg", "centre_of_mass_m", "inertia_kg_m2", "viscous_friction_n_m_s", "dry_friction_n_m")
    unknown = ("mass", "centre_of_mass", "inertia", "viscous_friction", "dry_friction")
    values = {f"links.{name}": one.tolist() for name, one in zip(links, found[:5], strict=True)}
    values |= {f"unknown.{name}": [0.0] * 3 for name in unknown}
    return learned, filtered(rows(1), load(Pendulum, to_mapping(configuration), values))


def triple_rows(path: Path) -> list[Row]:
    """Forecasts on the segments not learned from, ratios beside the authors', and masses with their centres known."""
    learned, others = triple(path)
    rows = [
        row("triple, NIS per angle, segments not learned from", f"{others.mean_nis:.3g}"),
        *(forecast_row(one) for one in others.forecasts()),
    ]
    names = learned.estimator.configuration.links.joint_names
    authors = figures(AUTHORS, learned.estimator.setting.length, names)
    for name, one in learned.figures().items():
        if name.startswith(("reduced_length", "first_moment_ratio", "mass_ratio")):
            rows.append(compared(f"triple, {name}", one, float(authors[name]), 10.0))
    centres_known, _ = triple(path, {"unknown.centre_of_mass": [0.0] * 3})
    found = centres_known.estimator.parameters(centres_known.means[-1][6:])
    covariance, last = centres_known.covariances[-1][6:, 6:], 2
    for link in range(3):
        value, true = (one[2, link] / one[0, last] for one in (found, AUTHORS))
        gradient = np.zeros(len(covariance))
        gradient[3 + link], gradient[last] = 1.0, -1.0
        deviation = float(np.sqrt(gradient @ covariance @ gradient))
        case = f"triple, inertia of link {link + 1} by mass of link 3, centres of mass taken as known"
        rows.append(compared(case, Figure(value, gradient, deviation), true, None))
    return rows


def forecast_row(one: Forecasts) -> Row:
    """RMS in mrad, and coverage."""
    when = f"{one.horizon_s:g} s" if one.horizon_s else "one step (1 ms)"
    rms_mrad = 1e3 * one.rms_rad
    case = f"triple, forecast {when} ahead, segments not learned from"
    coverage = {"coverage_1_sigma": round(one.coverage(1.0), 3), "coverage_3_sigma": round(one.coverage(3.0), 3)}
    return row(case, f"{rms_mrad:.3g} mrad", "<= 5 mrad", rms_mrad <= 5.0, **coverage)


def single_rows(path: Path) -> list[Row]:
    """Moments beside least squares."""
    content = read_actuated_pendulum(path)
    done = filtered(content.recording.sensors, content.configurations["pendulum"])
    found, gravity = done.figures(), done.estimator.configuration.gravity_m_s2
    first, second = found["first_moment.joint_1"], found["second_moment.joint_1"]
    weight = Figure(gravity * first.value, first.gradient, first.stddev_ratio)
    return [
        row("single, NIS per angle", f"{done.mean_nis:.3g}"),
        compared("single, inertia about the joint, kg m^2", second, LEAST_SQUARES["second_moment"], 5.0),
        compared("single, m g l, N m", weight, LEAST_SQUARES["weight_moment"], 5.0),
    ]


def double_rows(path: Path) -> list[Row]:
    """Ratios of moments beside least squares and the authors' model."""
    content = read_actuated_pendulum(path)
    done = filtered(content.recording.sensors, content.configurations["pendulum"])
    rows = [row(f"{path.stem}, NIS per angle", f"{done.mean_nis:.3g}")]
    for joint, (squares, authors) in enumerate(zip(LEAST_SQUARES_RATIOS, AUTHORS_RATIOS, strict=True), 1):
        length = done.figures()[f"reduced_length.joint_{joint}"]
        ratio = Figure(1.0 / length.value, -length.gradient, length.stddev_ratio)
        compared_row = compared(f"{path.stem}, first by second moment of joint {joint}, 1/m", ratio, squares, None)
        rows.append(compared_row | {"off_authors_percent": round(100.0 * (ratio.value / authors - 1.0), 2)})
    return rows


def compared(case: str, found: Figure, reference: float, target_percent: float | None) -> Row:
    """A figure beside another's."""
    off = 100.0 * (found.value / reference - 1.0)
    sigmas = np.log(found.value / reference) / found.stddev_ratio
    figure = f"{found.value:.4g} +- {found.value * found.stddev_ratio:.2g}; {off:+.1f} % of {reference:.4g}"
    if target_percent is None:
        return row(case, figure)
    met = abs(off) <= target_percent and abs(sigmas) <= 3
    return row(case, figure, f"within {target_percent:g} %, 3 sigma", met)
