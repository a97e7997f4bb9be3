"""One recording as the identification needs it: pressures, and where the tip was, at regular steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Matrix, Vector
from onboard_estimation.base.series import Series
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.tracks import HeldValues
from softrobot_estimation.judging.ground_truth import CaptureDelay, find_capture_delay, in_base
from softrobot_estimation.model.configuration import WRENCH, SoftRobotConfiguration
from softrobot_estimation.model.description import BASE, TIP

STEP_S = 0.02
"""Of the instants at which model and motion capture are compared."""
FORGOTTEN_S = 1.0
"""After which vibration from before a recording, or from a gap in the pressures, no longer counts."""

_RESTED_S = 1.0, 10.0
"""What the robot is taken to have stood under the first pressures: without any, and with some, for it creeps then."""
_WITHOUT = 0.03  # of the largest pressure
_LEAST_S = 5.0
_LEAST_MOTION_M = 1e-3
_LONGEST_FRAME = 1.5  # of the usual time between frames
_PRESSURE_GAP_S = 0.1
_UPSIDE_DOWN_DEG = 90.0


@dataclass(frozen=True, eq=False)
class Run:
    """One recording; times are s from its first pressure.

    Attributes
    ----------
    configuration
        With the tilt that motion capture shows.
    stamps_s, readings_pa
        (N,), (N, C): gauge pressures, each held until the next stamp. The first stamp is before the recording: the
        robot has rested under its first pressures.
    grid_s, tip_m, seen
        (G,), (G, 3), (G,): places of the tip in the base's frame by motion capture, and where they are known.
    delay
        Of motion capture behind the wrench.
    tilt_deg
        Of the base by motion capture, a rotation vector about x and y as `mounting.tilt_deg`; None without its pose.
    """

    name: str
    configuration: SoftRobotConfiguration
    stamps_s: Vector
    readings_pa: Matrix
    grid_s: Vector
    tip_m: Matrix
    seen: NDArray[np.bool_]
    delay: CaptureDelay
    tilt_deg: tuple[float, float] | None
    notes: tuple[str, ...] = ()


def run_from_recording(configuration: SoftRobotConfiguration, recording: LoadedRecording, name: str) -> Run:
    """What there is to fit.

    Raises
    ------
    UserError
        No motion capture of the tip, a chamber without pressures, too short, nothing moves, or upside down.
    """
    track = recording.tracks.get(TIP)
    if track is None or len(track.stamps_ns) < 2:
        raise UserError(
            f"{name}: no ground truth of the tip; identification fits the model to motion capture, so record "
            f"ground_truth/{TIP}/pose and ground_truth/{BASE}/pose, or name their topics with --topic"
        )
    start_ns, stamps_s, readings_pa = _pressures(configuration, recording.series, name)
    frames_s = (track.stamps_ns - start_ns) / NANOSECONDS_PER_SECOND
    first_s, last_s = max(FORGOTTEN_S, frames_s[0]), min(stamps_s[-1], frames_s[-1])
    if last_s - first_s < _LEAST_S:
        raise UserError(
            f"{name}: pressures and motion capture have {max(last_s - first_s, 0.0):.1f} s in common after the first "
            f"{FORGOTTEN_S:g} s; {_LEAST_S:g} s and more are needed"
        )
    grid_s = np.arange(first_s, last_s, STEP_S)
    frame_s = float(np.median(np.diff(frames_s)))
    poses, seen = track.at(
        start_ns + np.round(grid_s * NANOSECONDS_PER_SECOND).astype(np.int64), _LONGEST_FRAME * max(frame_s, STEP_S / 2)
    )
    seen &= ~_after_gaps(stamps_s, grid_s)
    if not seen.any():
        raise UserError(f"{name}: of {len(grid_s)} instants none has both a frame of the tip and pressures")
    base = recording.tracks.get(BASE)
    tilt_deg, notes = None, []
    if base is not None and len(base.stamps_ns):
        tip_m = in_base(poses[:, :3], base.values)
        track_in_base = in_base(track.values[:, :3], base.values)
        tilt_deg = _tilt_deg(configuration, base.values, name)
        configuration = configuration.with_parameters({"mounting.tilt_deg": tilt_deg})
    else:
        tip_m, track_in_base = poses[:, :3], track.values[:, :3]
        notes.append(
            "no pose of the base: places of the tip are taken to be in the base's frame, tilted as "
            f"mounting.tilt_deg {configuration.mounting.tilt_deg} says"
        )
    moved_m = float(np.ptp(tip_m[seen], axis=0).max())
    if moved_m < _LEAST_MOTION_M:
        raise UserError(
            f"{name}: the tip moves by {1e3 * moved_m:.2g} mm at most; bend it to every side, by centimetres"
        )
    wrench = next((one for one in recording.series if one.channel.sensor == WRENCH.sensor), None)
    delay = find_capture_delay(configuration, wrench, track.stamps_ns, track_in_base)
    tip_m = np.where(seen[:, None], tip_m, 0.0)
    return Run(
        name, configuration, stamps_s, readings_pa, grid_s, tip_m, seen, delay, tilt_deg, (*notes, *recording.notes)
    )


def _pressures(
    configuration: SoftRobotConfiguration, series: tuple[Series, ...], name: str
) -> tuple[int, Vector, Matrix]:
    """First stamp, stamps (N,) after it, and gauge readings (N, C): at each stamp the last one of each chamber."""
    by_sensor = {one.channel.sensor: one for one in series}
    columns: list[HeldValues] = []
    for chamber in configuration.chambers.names:
        one = by_sensor.get(f"pressure/{chamber}")
        held = None if one is None else HeldValues.clean(one.stamps_ns, one.values)
        if held is None or not len(held.stamps_ns):
            raise UserError(
                f"{name}: no pressures of {chamber}; the model has to know the pressures of all "
                f"{configuration.chambers.count} chambers (chambers.names)"
            )
        columns.append(held)
    start_ns = max(int(one.stamps_ns[0]) for one in columns)
    every = np.unique(np.concatenate([one.stamps_ns for one in columns]))
    every = every[every >= start_ns]
    readings = np.hstack([one.at(every) for one in columns]) - configuration.pressure.ambient_pa
    stamps_s = (every - start_ns) / NANOSECONDS_PER_SECOND
    under_pressure = bool((readings[0] > _WITHOUT * configuration.chambers.pressure_max_pa).any())
    return start_ns, np.append(-_RESTED_S[under_pressure], stamps_s), np.vstack([readings[:1], readings])


def _after_gaps(stamps_s: Vector, grid_s: Vector) -> NDArray[np.bool_]:
    """Where pressures are missing, or were a moment ago."""
    out = np.zeros(len(grid_s), dtype=np.bool_)
    for number in np.flatnonzero(np.diff(stamps_s[1:]) > _PRESSURE_GAP_S) + 1:
        out |= (grid_s > stamps_s[number]) & (grid_s < stamps_s[number + 1] + FORGOTTEN_S)
    return out


def _tilt_deg(configuration: SoftRobotConfiguration, base: Matrix, name: str) -> tuple[float, float]:
    """Turn of the base from exactly hanging or upright, by its poses in a world whose z is up."""
    down = Rotation.from_quat(base[:, 3:]).mean().inv().apply([0.0, 0.0, -1.0])
    attitude = configuration.mounting.attitude
    vertical = np.array([0.0, 0.0, 1.0 if attitude == "hanging" else -1.0])
    axis = np.cross(down, vertical)
    angle = float(np.arctan2(np.linalg.norm(axis), down @ vertical))
    if np.degrees(angle) > _UPSIDE_DOWN_DEG:
        other = "upright" if attitude == "hanging" else "hanging"
        raise UserError(
            f"{name}: by motion capture the base is turned {np.degrees(angle):.0f} deg from {attitude}: set "
            f"mounting.attitude={other}, or, where the capture's z is down, --mirror-truth yz"
        )
    x, y, _ = np.degrees(axis / max(float(np.linalg.norm(axis)), 1e-300) * angle).tolist()
    return x, y


def mean_tilt_deg(runs: Sequence[Run]) -> tuple[float, float] | None:
    """Over the runs that know it."""
    known = [run.tilt_deg for run in runs if run.tilt_deg is not None]
    if not known:
        return None
    x, y = np.mean(known, axis=0).tolist()
    return x, y
