"""Touchdowns: on simulated walks with known ones, on recorded walks against Vicon, and on what is none."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.strapdown.touchdowns import (
    Touchdown,
    begun_later,
    find_touchdowns,
    match_onsets,
    match_stances,
    onsets,
    stances_from_force,
    stances_from_position,
)
from benchmarks.strapdown.walks import GO1, WALKS, Walk, load_walk, times_of
from recorded_robots.quadruped import contact_threshold, read_quadruped
from strapdown_estimation.simulation import simulator

LIFTS = "2018-02-09-11-16-53"


@cache
def walk(folder: Path, name: str) -> Walk:
    return load_walk(folder / "pyshoe_vicon" / f"{name}.mat")


@cache
def touchdowns(folder: Path, name: str) -> list[Touchdown]:
    return walk(folder, name).touchdowns()


def resting(count: int, bias_rad_s: float = 0.0) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Stamps at 200 Hz and readings of an IMU that lies still."""
    readings = np.random.default_rng(0).normal(0.0, [0.002] * 3 + [0.05] * 3, (count, 6))
    readings += np.array([*[bias_rad_s] * 3, 0.3, -9.5, 2.4])
    return 5_000_000 * np.arange(1, count + 1), readings


def reference_of(recording: Walk) -> NDArray[np.float64]:
    """Onsets by Vicon alone: slower than 0.2 m/s and low; the labels of the files are not used."""
    return onsets(stances_from_position(recording.position_m, recording.times_s), recording.times_s)


@pytest.mark.parametrize(("gait", "stairs"), [("fast", False), ("slow", True)])
def test_every_simulated_touchdown_is_found_once(gait: str, stairs: bool) -> None:
    """Nothing was chosen on these; the true instants are the simulator's own."""
    seed = 5
    recording = simulator.simulate(simulator.GAITS[gait], 30.0, np.random.default_rng(seed), stairs)
    motion = simulator.Walk(simulator.GAITS[gait], 30.0, np.random.default_rng(seed), stairs)
    imu = recording.sensors[0]
    found = find_touchdowns(imu.stamps_ns, imu.values)
    matches = match_onsets(motion.touchdown_s, times_of(found), 0.2)
    assert min(matches.recall, matches.precision) >= 0.97
    # The foot rolls off its heel for a fifth of the stance before it is slow.
    assert 0.0 <= np.median(matches.errors_s) < 0.15


@pytest.mark.parametrize("name", WALKS)
def test_recorded_landings_are_found(shared_data: Path, name: str) -> None:
    found = touchdowns(shared_data, name)
    matches = match_onsets(reference_of(walk(shared_data, name)), times_of(found))
    assert matches.reference_count >= 15
    assert min(matches.recall, matches.precision) >= 0.97
    delays = np.array([one.seen_ns - one.happened_ns for one in found]) * 1e-9
    assert 0.0 < delays.min() < delays.max() < 0.3
    assert np.median(delays) < 0.1


def test_lifts_by_hand_have_no_touchdown_in_the_air(shared_data: Path) -> None:
    recording, found = walk(shared_data, LIFTS), touchdowns(shared_data, LIFTS)
    stances = begun_later(stances_from_position(recording.position_m, recording.times_s), recording.times_s)
    matches = match_stances(stances, times_of(found))
    assert matches.reference_count == 14
    assert matches.precision == 1.0
    assert matches.recall >= 12 / 14
    height = recording.position_m[:, 2] - np.median(recording.position_m[:50, 2])
    assert (np.abs(np.interp(times_of(found), recording.times_s, height)) < 0.01).all()


def test_neither_lying_still_nor_a_knock_is_a_touchdown() -> None:
    """An impact alone: the stance is left for less than a swing takes."""
    assert find_touchdowns(*resting(4000, bias_rad_s=0.3)) == []
    stamps, readings = resting(2000)
    for begin in (500, 900, 1400):
        readings[begin : begin + 4, 3:] += [[20.0, 5.0, -30.0]]
    assert find_touchdowns(stamps, readings) == []


def test_quadruped(shared_data: Path) -> None:
    """Another animal, another sensor, nothing chosen on it: most touchdowns, and none that the force does not show."""
    content = read_quadruped(shared_data / "quadruped_foot" / "go1_slippery_surface.csv")
    imu, force = content.recording.sensors
    counts, times = force.values[:, 0], force.stamps_ns * 1e-9
    reference = onsets(stances_from_force(counts, times, contact_threshold(counts)), times)
    found = times_of(find_touchdowns(imu.stamps_ns, imu.values, GO1))
    assert len(reference) == 12
    matches = match_onsets(reference, found, 0.1)
    assert matches.recall >= 0.75
    assert matches.precision >= 0.9
