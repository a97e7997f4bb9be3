"""A pendulum of several links as a robot of the suite.

No recording of a pendulum has a truth of its own, only the angles that the filter is given; so they are not held
against it. Judged are

- the rates, against slopes of the recorded angles, which look ahead and back where the filter only looks back;
- forecasts: estimates moved ahead, up to a second, without the angles measured since, against those angles;
- masses and the like, against what others found (`benchmarks/recorded_robots/pendulums.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Channel
from onboard_estimation.base.presentation import quantity
from onboard_estimation.base.series import Series
from onboard_estimation.contract.reported import Reported
from onboard_estimation.contract.result import Note
from onboard_estimation.contract.robot import TruthSpecification
from onboard_estimation.contract.truth import WithTrueRates
from recorded_robots.pendulum import figures
from recorded_robots.pendulum.configuration import Pendulum, link_names
from recorded_robots.pendulum.estimator import PendulumEstimator, angle_channel, torque_channel
from recorded_robots.pendulum.forecast import Motion, forecast

if TYPE_CHECKING:
    from onboard_estimation.contract.result import EvaluationResult
    from onboard_estimation.contract.tracks import BodyTrack

Rows = NDArray[np.float64]

HORIZONS_S = (0.0, 0.05, 0.2, 0.5, 1.0)


class PendulumRobot(WithTrueRates[Pendulum], Reported[Pendulum]):
    """Links that hang one from the other on a pivot, free or driven by motors."""

    name = "pendulum"
    summary = "links that hang one from the other on a pivot: motion, masses, inertias and frictions from joint angles"
    settle_s = 0.2
    configuration_type = Pendulum
    estimators = ("ukf",)

    def channels(self, configuration: Pendulum) -> tuple[Channel, ...]:
        """Torques, if there are motors, and measured angles."""
        names = configuration.links.joint_names
        return torque_channel(names), angle_channel(names)

    def estimator(self, configuration: Pendulum, name: str) -> PendulumEstimator:
        """The unscented filter."""
        return PendulumEstimator(configuration)

    def truth_specification(self, configuration: Pendulum) -> TruthSpecification:
        """Headings of the links, and the noise of the rates that follow."""
        noise = np.diag(configuration.truth_rate_stddev_rad_s) ** 2
        return TruthSpecification(link_names(len(noise)), "none", {"joint_rates": noise})

    def true_parts(self, configuration: Pendulum, bodies: Mapping[str, Rows]) -> dict[str, Rows]:
        """None: where the headings were recorded, the filter was given them."""
        return {}

    def true_rates(
        self, configuration: Pendulum, tracks: Mapping[str, BodyTrack], stamps_ns: NDArray[np.int64]
    ) -> dict[str, Rows]:
        """Joint rates, by the slopes of parabolas through the links' headings; NaN at the ends of a stretch."""
        headings = np.column_stack(
            [_slopes(tracks[link], configuration, stamps_ns) for link in link_names(len(tracks))]
        )
        return {"joint_rates": np.diff(headings, axis=1, prepend=0.0)}

    def metrics(self, configuration: Pendulum, series: Sequence[Series], result: EvaluationResult) -> dict[str, Any]:
        """Forecasts by horizon; unknowns and what follows from them, with deviations, and which the angles tell."""
        estimator, motion, left_open = _left_open(configuration, series, result)
        forecasts = forecast(estimator, motion, result.mean, result.covariance, HORIZONS_S)
        found = figures.estimated(estimator, result.mean[-1], result.covariance[-1])
        out: dict[str, Any] = {
            f"forecast_{_horizon(one.horizon_s)}": {
                "rms_rad": one.rms_rad,
                "coverage_1_sigma": one.coverage(1.0),
                "coverage_3_sigma": one.coverage(3.0),
            }
            for one in forecasts
            if len(one.errors)
        }
        out["combinations_left_open"] = {"count": left_open.shape[1], "of": len(left_open)}
        # With its deviation as a share of it; what the angles do not tell rests on what was known before.
        told = {name for name, one in found.items() if figures.is_seen(one, left_open)}
        unknowns = {name.removeprefix("log_") for name in estimator.space.names}
        for group, names in (("told_by_the_angles", told), ("resting_on_the_prior", unknowns - told)):
            out[group] = {}
            for name in (name for name in found if name in names):
                out[group] |= {name: found[name].value, f"{name}_stddev_ratio": found[name].stddev_ratio}
        return out

    def notes(self, configuration: Pendulum, series: Sequence[Series], result: EvaluationResult) -> tuple[Note, ...]:
        """How far it foresees, and what cannot be told apart."""
        held = "Angles are not judged: the filter was given the recorded ones. The true rates are their slopes."
        notes = [Note(held)]
        found: Any = result.metrics[self.name]
        for horizon_s in HORIZONS_S[-1:0:-1]:
            if foreseen := found.get(f"forecast_{_horizon(horizon_s)}"):
                words = f"foresees angles {horizon_s:g} s ahead within {quantity(foreseen['rms_rad'], 'rad')} RMS"
                notes.append(Note(f"It {words}, over the whole run, while it learns.", words))
                break
        estimator, _, left_open = _left_open(configuration, series, result)
        notes.append(Note(figures.statement(estimator, left_open)))
        return tuple(notes)


def _left_open(
    configuration: Pendulum, series: Sequence[Series], result: EvaluationResult
) -> tuple[PendulumEstimator, Motion, Rows]:
    """Estimator, motion at the estimates, and the combinations of unknowns that the angles say nothing of."""
    estimator, joints = PendulumEstimator(configuration), len(configuration.links.joint_names)
    motion = Motion.of(series, joints).at(result.stamps_ns)
    told = figures.information(estimator, motion, result.mean, result.mean[-1][2 * joints :])
    return estimator, motion, figures.left_open(told)


def _horizon(horizon_s: float) -> str:
    return f"after_{horizon_s:g}_s" if horizon_s else "next"


def _slopes(track: BodyTrack, configuration: Pendulum, stamps_ns: NDArray[np.int64]) -> Rows:
    """(K,) rates of a body's heading at the stamps, rad/s."""
    from scipy.signal import savgol_filter  # slow to import, and needed offline only

    heading = np.unwrap(2.0 * np.arctan2(track.values[:, 5], track.values[:, 6]))
    steps_s = np.diff(track.stamps_ns) / NANOSECONDS_PER_SECOND
    slopes = np.full(len(heading), np.nan)
    gaps = np.flatnonzero(steps_s > configuration.longest_gap_s) + 1
    samples = max(3, 2 * round(0.5 * configuration.truth_window_s / float(np.median(steps_s))) + 1)
    for piece in np.split(np.arange(len(heading)), gaps):
        if len(piece) > samples:
            step_s = float(np.mean(steps_s[piece[:-1]]))
            inner = piece[samples // 2 : len(piece) - samples // 2]
            slopes[inner] = savgol_filter(heading[piece], samples, 2, 1, step_s)[samples // 2 : -(samples // 2)]
    place = np.minimum(np.searchsorted(track.stamps_ns, stamps_ns), len(track.stamps_ns) - 1)
    return np.where(track.stamps_ns[place] == stamps_ns, slopes[place], np.nan)


ROBOT = PendulumRobot()
