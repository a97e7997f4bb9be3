"""The truth's clock against the IMU's, as `inspect` finds it: simulated motion, recorded walks, two recorded links.

The figures of "Can I trust the truth?" in `docs/evaluation.md`. The recordings' own offsets are not known: what is put
into the walks has to be found beside what was there, and two IMUs with one clock have to agree. Nothing is timed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat
from scipy.spatial.transform import Rotation

from benchmarks.drivers.moving_imu import Moved, Recorded, readings_of, record
from benchmarks.measuring import recordings, row
from onboard_estimation.contract.tracks import BodyTrack
from onboard_estimation.judging.body_frames import find_frames
from onboard_estimation.judging.clock_alignment import ClockReport, TrackedBody, find_offset
from recorded_robots.two_link.recordings import read_two_link_imu

Rows = NDArray[np.float64]

MOTIONS = {
    "turned by hand": Moved(),
    "turned slowly": Moved(rate_rad_s=0.25, band_hz=0.7),
    "in a plane, gyro z alone": Moved(planar=True),
    "position alone, 0.15 m": Moved(rate_rad_s=0.3),
}
INJECTED_MS = tuple(range(-20, 21, 5))
_LARGEST_ERROR_S = 0.5e-3
_LARGEST_WALK_ERROR_S = 3e-3
_COVERAGE = 0.97


def run(quick: bool) -> list[dict[str, Any]]:
    """Rows of the simulated motions, the walks and the links."""
    walks = sorted(recordings("pyshoe_vicon").glob("*.mat"))
    links = sorted(recordings("two_link_imu").glob("*.mat"))
    rows = [one for name in MOTIONS for one in simulated_rows(name, 10 if quick else 100)]
    rows.append(lever_row(5 if quick else 50))
    return [*rows, *(walk_row(path) for path in walks), *(link_row(path) for path in links)]


def found_in(recorded: Recorded, name: str) -> ClockReport:
    """The offset, from as much as that motion's case has."""
    readings = recorded.readings.copy()
    if MOTIONS[name].planar:
        readings[:, [0, 1, 3, 4, 5]] = np.nan
    columns = 3 if name.startswith("position") else 7
    track = BodyTrack.clean("body", recorded.truth_ns, recorded.poses[:, :columns])
    return find_offset("imu", "body", readings_of(recorded.imu_ns, readings), TrackedBody(track, 0.0))


def simulated_rows(name: str, count: int) -> list[dict[str, Any]]:
    """Error and coverage over seeds, each with an offset of its own between -20 and 20 ms."""
    errors, sigmas, plain, refused = [], [], [], 0
    for seed in range(count):
        recorded = record(5000 + seed, MOTIONS[name])
        report = found_in(recorded, name)
        if report.offset_s is None or report.stddev_s is None:
            refused += 1
            continue
        errors.append(abs(report.offset_s - recorded.truth.offset_s))
        sigmas.append(errors[-1] / report.stddev_s)
        if name in ("turned by hand", "turned slowly"):
            plain.append(abs(correlated_s(recorded) - recorded.truth.offset_s))
    covered = float(np.mean(np.array(sigmas) < 3.0))
    case, asked = f"30 s {name}, {count} seeds", name == "turned by hand"
    figure = f"{1e3 * np.median(errors):.3f} ms, {1e3 * max(errors):.3f} ms"
    if plain:
        figure += f" (peak of the rates' correlation: {1e3 * np.median(plain):.2f}, {1e3 * max(plain):.2f})"
    figure += f"; {refused} refused" if refused else ""
    held = (f"<= {1e3 * _LARGEST_ERROR_S} ms", max(errors) <= _LARGEST_ERROR_S and not refused) if asked else ()
    cover = () if name.startswith("position") else (f">= {_COVERAGE}", covered >= _COVERAGE)
    return [
        row(f"{case}: error, median and worst", figure, *held),
        row(f"{case}: within 3 sigma", f"{covered:.2f}", *cover),
    ]


def correlated_s(recorded: Recorded) -> float:
    """As it is done otherwise: the peak of the correlation of the rates' magnitudes, through a parabola."""
    start, stop = recorded.truth_ns[0], recorded.truth_ns[-1]
    grid = np.arange(start, stop, 5_000_000)
    rotations = Rotation.from_quat(recorded.poses[:, 3:])
    steps = np.diff(recorded.truth_ns)
    rates = (rotations[:-1].inv() * rotations[1:]).magnitude() / (steps / 1e9)
    true = np.interp(grid, recorded.truth_ns[:-1] + steps // 2, rates)
    seen = np.interp(grid, recorded.imu_ns, np.linalg.norm(recorded.readings[:, :3], axis=1))
    true, seen = true - true.mean(), seen - seen.mean()
    lags = np.arange(-20, 21)
    scores = np.array([np.sum(true[20:-20] * seen[20 + lag : len(seen) - 20 + lag]) for lag in lags])
    peak = int(np.clip(np.argmax(scores), 1, len(lags) - 2))
    before, at, after = scores[peak - 1 : peak + 2]
    return float((lags[peak] + 0.5 * (before - after) / (before - 2.0 * at + after)) * 5e-3)


def lever_row(count: int) -> dict[str, Any]:
    """Lever arms of about 9 cm, drawn anew for each seed."""
    errors, sigmas = [], []
    for seed in range(count):
        recorded = record(7000 + seed)
        imu = readings_of(recorded.imu_ns, recorded.readings)
        body = TrackedBody(BodyTrack.clean("body", recorded.truth_ns, recorded.poses), 0.0)
        report = find_frames(find_offset("imu", "body", imu, body), imu, body)
        missed = np.abs(np.array(report.lever_m) - recorded.truth.lever_m)
        errors.append(float(np.linalg.norm(missed)))
        sigmas += (missed / np.array(report.lever_stddev_m)).tolist()
    covered = float(np.mean(np.array(sigmas) < 3.0))
    case = f"lever arm, 30 s turned by hand, {count} seeds: error, median and worst; within 3 sigma"
    figure = f"{1e3 * np.median(errors):.1f} mm, {1e3 * max(errors):.1f} mm; {covered:.2f}"
    return row(case, figure, f">= {_COVERAGE}", covered >= _COVERAGE)


def walk_row(path: Path) -> dict[str, Any]:
    """What is put into a recorded walk, found from every second position."""
    content = loadmat(path)
    times = 1_000_000_000 + np.round(content["ts"].ravel() * 1e9).astype(np.int64)
    imu = readings_of(times, content["imu"][:, [3, 4, 5, 0, 1, 2]])
    positions = content["gt"] * [1.0, -1.0, 1.0]

    def found(rows: slice, injected_ms: float) -> ClockReport:
        track = BodyTrack.clean("foot", times[rows] - round(1e6 * injected_ms), positions[rows])
        return find_offset("imu", "foot", imu, TrackedBody(track, 0.0))

    as_is = found(slice(None), 0.0)
    misses = []
    for number, injected_ms in enumerate(INJECTED_MS):
        report = found(slice(number % 2, None, 2), injected_ms)
        if as_is.offset_s is None or report.offset_s is None:
            misses.append(np.inf)
        else:
            misses.append(abs(report.offset_s - as_is.offset_s - 1e-3 * injected_ms))
    own = "refused"
    if as_is.offset_s is not None:
        own = f"{1e3 * as_is.offset_s:.1f} +- {3e3 * (as_is.stddev_s or 0.0):.1f} ms"
    case = f"walk {path.stem}: {INJECTED_MS[0]} to {INJECTED_MS[-1]} ms put in, worst error"
    figure = f"{1e3 * max(misses):.2f} ms (as it was recorded: {own}, 3 sigma)"
    return row(case, figure, f"<= {1e3 * _LARGEST_WALK_ERROR_S:g} ms", max(misses) <= _LARGEST_WALK_ERROR_S)


def link_row(path: Path) -> dict[str, Any]:
    """By how much each gyro lags the reference as it was recorded."""
    recording = read_two_link_imu(path, truth_as_recorded=True).recording
    reports = []
    for sensor, truth in zip(recording.sensors, recording.truth, strict=True):
        readings = readings_of(sensor.stamps_ns, sensor.values)
        track = BodyTrack.clean("link", truth.stamps_ns, truth.values)
        reports.append(find_offset(sensor.channel.topic, truth.channel.topic, readings, TrackedBody(track, 0.0)))
    offsets = [one.offset_s for one in reports if one.offset_s is not None]
    stddevs = [one.stddev_s or 0.0 for one in reports]
    agree = len(offsets) == 2 and abs(offsets[0] - offsets[1]) < 3.0 * float(np.hypot(*stddevs))
    each = " and ".join(
        f"{1e3 * offset:.2f} +- {3e3 * sure:.2f}" for offset, sure in zip(offsets, stddevs, strict=False)
    )
    met = agree and all(offset > 5e-3 for offset in offsets)
    case = f"two links, {path.stem}: gyros behind the reference"
    return row(case, f"{each} ms (3 sigma)", "both found, one clock", met)
