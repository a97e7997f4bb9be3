"""The truth's clock against the IMU's, as `inspect` finds it: simulated motion, recorded walks, two recorded links.

The figures of "Can I trust the truth?" in `docs/evaluation.md`. The recordings' own offsets are not known: what is put
into the walks has to be found beside what was there, and two IMUs with one clock have to agree. Nothing is timed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.io import loadmat
from scipy.spatial.transform import Rotation

from benchmarks.measuring import Array, Row, recordings, row
from onboard_estimation.bags.bulk import Column
from onboard_estimation.contract.tracks import BodyTrack
from onboard_estimation.soundness.body_frames import find_frames
from onboard_estimation.soundness.clock_alignment import ClockReport, TrackedBody, find_offset
from recorded_robots.two_link.recordings import read_two_link_imu

GRAVITY_M_S2 = np.array([0.0, 0.0, 9.81])
START_NS = 1_700_000_000_000_000_000
_STEP_S = 1e-3


@dataclass(frozen=True)
class Moved:
    """How it is moved, and how badly it is measured."""

    duration_s: float = 30.0
    rate_rad_s: float = 1.2
    reach_m: float = 0.15
    band_hz: float = 1.5
    planar: bool = False
    imu_hz: float = 200.0
    truth_hz: float = 100.0
    gyro_noise_rad_s_sqrt_hz: float = float(np.deg2rad(0.005))
    gyro_bias_rad_s: float = 0.05
    gyro_scale: float = 0.01
    force_noise_m_s2_sqrt_hz: float = 0.004
    force_bias_m_s2: float = 0.3
    vibration_rad_s: float = 0.02
    vibration_m_s2: float = 0.2
    truth_stddev_m: float = 3e-4
    truth_stddev_rad: float = float(np.deg2rad(0.2))
    lost: float = 0.01
    holes: int = 3
    largest_offset_s: float = 0.02


class Truth(NamedTuple):
    """What is to be found: offset (s), rotation from the IMU's to the body's frame, place of the IMU in it (m)."""

    offset_s: float
    mounting: Rotation
    lever_m: Array


class Recorded(NamedTuple):
    """Stamps in ns; readings (N, 6), gyro first; poses (K, 7)."""

    imu_ns: NDArray[np.int64]
    readings: Array
    truth_ns: NDArray[np.int64]
    poses: Array
    truth: Truth


def readings_of(stamps_ns: NDArray[np.int64], values: Array, delay_ns: int = 0) -> Column:
    """Readings (N, 6) of an IMU alone in its bag, recorded so long after their stamps."""
    return Column(stamps_ns, stamps_ns + delay_ns, values, np.arange(len(stamps_ns)))


def record(seed: int, how: Moved = Moved()) -> Recorded:
    """One recording; everything is drawn anew for each seed."""
    rng = np.random.default_rng(seed)
    times = np.arange(-0.5, how.duration_s + 0.5, _STEP_S)

    def wandering(size: float) -> CubicSpline:
        knots = np.arange(times[0] - 0.5, times[-1] + 1.0, 0.4 / how.band_hz)
        return CubicSpline(knots, rng.normal(0.0, size, (len(knots), 3)))

    rate, place = wandering(how.rate_rad_s), wandering(how.reach_m)
    in_plane = np.array([0.0, 0.0, 1.0]) if how.planar else np.ones(3)
    rates, accelerations = in_plane * rate(times), place(times, 2)
    turns = Rotation.from_rotvec(_STEP_S * in_plane * rate(times[:-1] + _STEP_S / 2)).as_matrix()
    attitudes = np.empty((len(times), 3, 3))
    attitudes[0] = np.eye(3) if how.planar else Rotation.random(random_state=seed).as_matrix()
    for step, turn in enumerate(turns):
        attitudes[step + 1] = attitudes[step] @ turn
    mounting = (
        Rotation.from_euler("z", rng.uniform(-3.0, 3.0)) if how.planar else Rotation.random(random_state=seed + 1)
    )
    lever = rng.normal(0.0, 0.05, 3)
    turning = in_plane * rate(times, 1)
    forces = np.einsum("tji,tj->ti", attitudes, accelerations + GRAVITY_M_S2)
    forces += np.cross(turning, lever) + np.cross(rates, np.cross(rates, lever))
    found = Truth(float(rng.uniform(-1.0, 1.0) * how.largest_offset_s), mounting, lever)

    when = np.arange(rng.uniform(0.0, 1.0), how.duration_s * how.imu_hz) / how.imu_hz
    gyro = mounting.inv().apply(_at(when, times, rates)) * (1.0 + rng.normal(0.0, how.gyro_scale, 3))
    force = mounting.inv().apply(_at(when, times, forces))
    white = np.sqrt(how.imu_hz / 2.0)
    shaken = 2.0 * np.pi * (rng.uniform(15.0, 60.0) * when[:, None] + rng.uniform(0.0, 1.0, 3))
    gyro += rng.normal(0.0, how.gyro_bias_rad_s, 3) + how.vibration_rad_s * np.sin(shaken)
    gyro += rng.normal(0.0, how.gyro_noise_rad_s_sqrt_hz * white, gyro.shape)
    force += rng.normal(0.0, how.force_bias_m_s2, 3) + how.vibration_m_s2 * np.sin(shaken)
    force += rng.normal(0.0, how.force_noise_m_s2_sqrt_hz * white, force.shape)

    seen = np.round(
        (np.arange(rng.uniform(0.0, 1.0), how.duration_s * how.truth_hz) / how.truth_hz - times[0]) / _STEP_S
    )
    seen = seen[rng.uniform(size=len(seen)) > how.lost].astype(np.int64)
    for start in rng.uniform(0.0, how.duration_s, how.holes):
        hole = (times[seen] > start) & (times[seen] < start + rng.uniform(0.1, 0.6))
        seen = seen[~hole]
    shaken_by = Rotation.from_rotvec(rng.normal(0.0, how.truth_stddev_rad, (len(seen), 3)))
    positions = place(times[seen]) + rng.normal(0.0, how.truth_stddev_m, (len(seen), 3))
    poses = np.hstack([positions, (Rotation.from_matrix(attitudes[seen]) * shaken_by).as_quat()])
    return Recorded(_ns(when), np.hstack([gyro, force]), _ns(times[seen] - found.offset_s), poses, found)


def _at(when: Array, times: Array, values: Array) -> Array:
    return np.column_stack([np.interp(when, times, column) for column in values.T])


def _ns(times_s: Array) -> NDArray[np.int64]:
    return START_NS + np.round(times_s * 1e9).astype(np.int64)


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


def run(quick: bool) -> list[Row]:
    """Array of the simulated motions, the walks and the links."""
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


def simulated_rows(name: str, count: int) -> list[Row]:
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


def lever_row(count: int) -> Row:
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


def walk_row(path: Path) -> Row:
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


def link_row(path: Path) -> Row:
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
