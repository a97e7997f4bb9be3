"""Calibration of a chain: its own runs go in, one after the other, with motion capture or without.

Each run is filtered from what the runs before it left; motion capture corrects the navigation as one more sensor. What
lasts from one switch-on to the next is kept (`Calibration`), biases and clocks are not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Estimate, Vector
from onboard_estimation.contract.trained import ReportTable
from onboard_estimation.filtering.moments import Moments, part, put
from onboard_estimation.filtering.planar import planar_pose
from onboard_estimation.pipeline.pipeline import Pipeline
from thruster_chain_estimation.estimators.jointed_navigation import NavigationState
from thruster_chain_estimation.estimators.parameter_filter import ParameterState
from thruster_chain_estimation.estimators.robust_estimator import RobustEstimator, RobustState
from thruster_chain_estimation.model import inertial_layout, parameter_layout, space
from thruster_chain_estimation.model.calibration import Calibration
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration

if TYPE_CHECKING:
    from onboard_estimation.contract.recorded import LoadedRecording
    from onboard_estimation.contract.tracks import BodyTrack

EVERY = 5
"""Ticks between two frames that are used: 20 a second, so that their errors are not the same ones."""
LONGEST_GAP_S = 0.05
VELOCITY_STDDEV_M_S = 0.02
WIDENED = 1.5
"""Standard deviations are kept larger: another day is not quite like this one."""


class GuidedEstimator(RobustEstimator):
    """`RobustEstimator` that is told by motion capture where it is.

    Parameters
    ----------
    tracks
        Of the links by name; empty: it is not told.
    """

    def __init__(
        self,
        configuration: ThrusterChainConfiguration,
        calibration: Calibration | None,
        tracks: Mapping[str, BodyTrack],
    ) -> None:
        super().__init__(configuration, calibration)
        self._tracks = {
            link: tracks[name] for link, name in enumerate(configuration.chain.link_names) if name in tracks
        }

    def guided(
        self, state: RobustState, navigation: NavigationState, parameters: ParameterState, tick_s: float
    ) -> tuple[NavigationState, ParameterState]:
        """With the frames around a tick."""
        if state.ticks % EVERY or not self._tracks:
            return navigation, parameters
        at_ns = np.array([(state.start_ns or 0) + round(tick_s * NANOSECONDS_PER_SECOND)])
        poses = np.full((self.navigation.count, 3), np.nan)
        for link, track in self._tracks.items():
            values, valid = track.at(at_ns, LONGEST_GAP_S)
            if valid[0]:
                poses[link] = planar_pose(values)[0]
        truth = self.configuration.truth
        navigation = self.navigation.told_poses(
            navigation, poses[:, 2], poses[0, :2], np.deg2rad(truth.heading_stddev_deg), truth.position_stddev_m + 1e-3
        )
        return navigation, self.parameters.told_velocity(parameters, VELOCITY_STDDEV_M_S)


def _kept(estimator: RobustEstimator, state: RobustState, guided: bool) -> Calibration:
    count = estimator.configuration.chain.count
    imus = Moments(state.navigation.mean, state.navigation.covariance)
    parameters = part(state.parameters.belief, parameter_layout.lasting(count))
    if not guided:  # without the time of motion capture the delay is that of this day's clocks too
        put(parameters, np.array([estimator.parameters.chain + parameter_layout.DELAY]), estimator.parameters.delay)
    return Calibration(part(imus, inertial_layout.lasting(count)), parameters)


def _initial(configuration: ThrusterChainConfiguration, recording: LoadedRecording) -> Estimate | None:
    """At rest, as motion capture saw it first; None, and so as configured, where it did not see all links."""
    names, masses = configuration.chain.link_names, configuration.chain.masses
    if any(name not in recording.tracks for name in names):
        return None
    start_ns = max(int(recording.tracks[name].stamps_ns[0]) for name in names)
    poses = np.array([_resting(recording.tracks[name], start_ns, configuration.initial.rest_s) for name in names])
    mean = space.initial_mean(configuration, poses[:, 2], space.centre_of_mass(poses[None, :, :2], masses)[0])
    covariance = space.initial_covariance(configuration)
    headings = space.published_space(configuration).tangent("headings")
    covariance[headings, headings] = np.deg2rad(configuration.truth.heading_stddev_deg) ** 2 * np.eye(len(names))
    return Estimate(start_ns, mean, covariance)


def _resting(track: BodyTrack, start_ns: int, rest_s: float) -> Vector:
    """Mean pose (3,) over the rest."""
    first = int(np.searchsorted(track.stamps_ns, start_ns))
    last = int(np.searchsorted(track.stamps_ns, start_ns + 0.8 * rest_s * NANOSECONDS_PER_SECOND))
    poses = planar_pose(track.values[first : max(last, first + 1)])
    heading = np.arctan2(np.sin(poses[:, 2]).mean(), np.cos(poses[:, 2]).mean())
    return np.append(poses[:, :2].mean(axis=0), heading)


@dataclass(frozen=True)
class CalibrationReport:
    """A calibration, as the command `train` shows it."""

    calibration: Calibration
    configuration: ThrusterChainConfiguration
    runs: tuple[str, ...]
    hashes: tuple[str, ...]
    duration_s: float
    guided: int

    def save(self, path: Path) -> Sequence[Path]:
        """Write the file; UserError where it cannot be written."""
        self.calibration.save(path, self.configuration, self.runs, self.hashes, self.duration_s)
        return ()

    def summary(self) -> dict[str, Any]:
        """Means and standard deviations by link."""
        return {
            "runs": list(self.runs),
            "duration_s": self.duration_s,
            "runs_with_motion_capture": self.guided,
            "links": {
                name: {what: {"mean": mean, "stddev": stddev} for what, mean, stddev in self._of_link(link)}
                for link, name in enumerate(self.configuration.chain.link_names)
            },
        }

    def sentences(self) -> list[str]:
        """What it comes from, and what it cannot know."""
        return [
            f"Calibrated from {len(self.runs)} runs of {self.duration_s:.0f} s, {self.guided} with motion capture.",
            "Masses, inertias and thrusts have a scale in common that no run can show: it stays as uncertain as the "
            "thrusters' gains by their tolerance; ratios are known better.",
        ]

    def tables(self) -> list[ReportTable]:
        """What was found of each link."""
        rows = tuple(
            (name, what.replace("_", " "), f"{mean:.4g} +- {stddev:.2g}")
            for link, name in enumerate(self.configuration.chain.link_names)
            for what, mean, stddev in self._of_link(link)
        )
        return [ReportTable("Calibration", ("link", "what", "value"), rows, ("value",))]

    def _of_link(self, link: int) -> list[tuple[str, float, float]]:
        """Name, mean and standard deviation of what was found."""
        chain, (imus, parameters) = self.configuration.chain, self.calibration
        base, own = parameter_layout.LINK * link, len(imus.mean) // chain.count * link
        found = []
        for what, belief, at, design in (
            ("mass_kg", parameters, base + parameter_layout.LOG_MASS, chain.masses[link]),
            ("inertia_kg_m2", parameters, base + parameter_layout.LOG_INERTIA, chain.inertias[link]),
            ("thrust_by_command", parameters, base + parameter_layout.GAIN, None),
            ("thruster_direction_error_rad", parameters, base + parameter_layout.DIRECTION, None),
            ("gyro_scale_error", imus, own, None),
            ("imu_mounting_error_rad", imus, own + 1, None),
        ):
            mean, stddev = float(belief.mean[at]), float(np.sqrt(belief.covariance[at, at]))
            if design is not None:  # a logarithm
                mean = float(design * np.exp(mean))
                stddev *= mean
            found.append((what, mean + (what == "thrust_by_command"), stddev))
        return found


def train(
    configuration: ThrusterChainConfiguration,
    recordings: Mapping[str, LoadedRecording],
    hashes: Sequence[str],
    form: str | None = None,
    progress: Callable[[float, str], None] = lambda share, step: None,
) -> CalibrationReport:
    """Calibration from recordings, and what is to be said of it; UserError where a run does not do."""
    names = configuration.chain.link_names
    guided = sum(all(name in recording.tracks for name in names) for recording in recordings.values())
    if guided < len(recordings) > 1:
        raise UserError(
            f"{len(recordings) - guided} of {len(recordings)} runs lack motion capture of some links; each starts with "
            "other headings, so that such a run is to be given alone, with its own configuration (initial.headings_rad)"
        )
    calibration: Calibration | None = None
    for number, (name, recording) in enumerate(recordings.items()):
        progress(number / len(recordings), f"learning from {name}")
        estimator = GuidedEstimator(configuration, calibration, recording.tracks)
        pipeline = Pipeline(estimator, space.channels(configuration), _initial(configuration, recording))
        pipeline.run(recording.measurements())
        if pipeline.breakdowns or pipeline.state is None:
            why = next(iter(pipeline.messages), "it holds no measurement")
            raise UserError(f"{name}: the filter broke down in it ({why}); leave it out")
        calibration = _kept(estimator, pipeline.state, bool(recording.tracks))
    assert calibration is not None
    calibration = Calibration(*(Moments(one.mean, WIDENED**2 * one.covariance) for one in calibration))
    duration_s = sum(
        (max(one.stamps_ns[-1] for one in recording.series) - min(one.stamps_ns[0] for one in recording.series)) * 1e-9
        for recording in recordings.values()
    )
    return CalibrationReport(calibration, configuration, tuple(recordings), tuple(hashes), float(duration_s), guided)
