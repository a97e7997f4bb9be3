"""A good recording, spoilt in each way at any time, is named so; sound, it is not. Inputs of practitioners too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from onboard_estimation.base.measurement import IMU, NANOSECONDS_PER_SECOND
from onboard_estimation.inspection.inspect import inspect_bag
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.options import EvaluateOptions
from onboard_estimation.judging.sources import read_bag
from onboard_estimation.soundness.at_rest import resting_force_m_s2, wrong_force
from onboard_estimation.soundness.stretches import (
    LEAPS,
    longest_run,
    marked,
    stamps_of_another_age,
    unsound_poses,
    unsound_readings,
)

Rows = NDArray[np.float64]

RATE_HZ = 200.0
COUNT = 4000
STAMPS_NS = (np.arange(COUNT) * (NANOSECONDS_PER_SECOND / RATE_HZ)).astype(np.int64)
TIME_S = STAMPS_NS / NANOSECONDS_PER_SECOND

places = st.integers(50, COUNT - 1000)
lengths = st.integers(60, 900)


def poses() -> Rows:
    """A body that goes about and turns, at rest for the first two seconds; seen with the noise of motion capture."""
    noise = np.random.default_rng(1)
    moved = np.maximum(TIME_S - 2.0, 0.0)
    angle = 0.4 * moved
    out = np.zeros((COUNT, 7))
    out[:, :3] = np.column_stack([1.0 + moved * 0.5, np.sin(moved), 0.1 + 0.05 * np.cos(3.0 * moved)])
    out[:, :3] += noise.normal(0.0, 2e-4, (COUNT, 3))
    out[:, 5], out[:, 6] = np.sin(angle / 2.0), np.cos(angle / 2.0)
    out[:, 3:] += noise.normal(0.0, 5e-4, (COUNT, 4))
    out[:, 3:] /= np.linalg.norm(out[:, 3:], axis=1)[:, None]
    return out


def readings() -> Rows:
    """An IMU, at rest for the first two seconds."""
    noise = np.random.default_rng(2)
    moving = (TIME_S > 2.0)[:, None] * np.sin(np.outer(TIME_S, [3.0, 5.0, 7.0]))
    out = np.hstack([moving + noise.normal(0.0, 5e-3, (COUNT, 3)), 3.0 * moving + noise.normal(0.0, 0.05, (COUNT, 3))])
    out[:, IMU.linear_acceleration.start + 2] += 9.80665
    return out


POSES, READINGS = poses(), readings()


def test_what_is_sound_is_not_named() -> None:
    assert unsound_poses(STAMPS_NS, POSES) == []
    assert unsound_poses(STAMPS_NS, POSES[:, :3]) == []
    assert unsound_readings(STAMPS_NS, READINGS) == []
    assert stamps_of_another_age(STAMPS_NS, STAMPS_NS + 3_000_000) == []
    assert wrong_force(resting_force_m_s2(STAMPS_NS, READINGS[:, :3], READINGS[:, 3:])) == ""
    # Without noise, rest repeats itself; and a coarse sensor does.
    still = np.where((TIME_S < 5.0)[:, None], POSES[999], POSES)
    still[1000:] = POSES[1000:]
    assert unsound_poses(STAMPS_NS, still) == []
    smooth = np.tile(np.sin(np.maximum(TIME_S - 5.0, 0.0) ** 2)[:, None], (1, 6))
    assert unsound_readings(STAMPS_NS, smooth) == []
    assert unsound_readings(STAMPS_NS, np.round(READINGS)) == []


@given(places, lengths)
@settings(max_examples=40)
def test_a_pose_that_is_repeated(place: int, length: int) -> None:
    spoilt = POSES.copy()
    spoilt[place : place + length] = spoilt[place - 1]
    found = unsound_poses(STAMPS_NS, spoilt)
    travelled = np.linalg.norm(POSES[place + length, :3] - POSES[place - 1, :3])
    if travelled < 0.05:  # it stood there all the same, or was back
        return
    assert [(one.first, one.stop, one.why) for one in found] == [(place, place + length, "repeats its last pose")]


@given(places, st.integers(1, 900))
@settings(max_examples=40)
def test_the_origin_in_place_of_a_pose(place: int, length: int) -> None:
    spoilt = POSES.copy()
    spoilt[place : place + length] = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    (found,) = unsound_poses(STAMPS_NS, spoilt)
    assert (found.first, found.stop) == (place, place + length)
    assert "origin" in found.why


@given(places, st.integers(1, 900), st.booleans())
@settings(max_examples=40)
def test_a_leap_away_and_back(place: int, length: int, turned: bool) -> None:
    spoilt = POSES.copy()
    if turned:  # by 180 degrees about x: markers taken one for the other
        x, y, z, w = spoilt[place : place + length, 3:].T.copy()
        spoilt[place : place + length, 3:] = np.column_stack([w, z, -y, -x])
    else:
        spoilt[place : place + length, 1] += 0.6
    found = unsound_poses(STAMPS_NS, spoilt)
    assert [(one.first, one.stop, one.why) for one in found] == [(place, place + length, LEAPS)]


@given(places, lengths, st.booleans())
@settings(max_examples=40)
def test_a_sensor_that_stops_measuring(place: int, length: int, zeros: bool) -> None:
    spoilt = READINGS.copy()
    spoilt[place : place + length] = 0.0 if zeros else spoilt[place - 1]
    (found,) = unsound_readings(STAMPS_NS, spoilt)
    assert (found.first, found.stop) == (place, place + length)
    assert found.why == ("reads zero on all axes" if zeros else "repeats one reading")
    left = longest_run(~marked([found], COUNT))
    assert len(left) == max(place, COUNT - place - length)


@given(places, lengths, st.sampled_from([-1_451_260_363.0, -3600.0, 86_400.0, -1.0, 0.7]))
@settings(max_examples=40)
def test_stamps_of_another_age_cost_their_own_time(place: int, length: int, off_s: float) -> None:
    log_ns = STAMPS_NS + 1_767_225_600_000_000_000
    stamps_ns = log_ns - 2_000_000
    stamps_ns[place : place + length] += round(off_s * NANOSECONDS_PER_SECOND)
    (found,) = stamps_of_another_age(stamps_ns, log_ns)
    assert (found.first, found.stop) == (place, place + length)
    assert found.start_ns == log_ns[place]
    # Played in two halves of another day: neither is wrong.
    played = np.where(np.arange(COUNT) < COUNT // 2, log_ns - 10**14, log_ns - 2 * 10**14)
    assert stamps_of_another_age(played, log_ns) == []


@pytest.mark.parametrize(
    ("factor", "offset", "said"),
    [
        (1.0 / 9.80665, 0.0, "it is in g; its driver must multiply by 9.80665"),
        (1e3 / 9.80665, 0.0, "it is in mg"),
        (0.5, 0.0, "a factor of 2 would fit"),
        (1.0, -9.80665, "takes gravity off"),
    ],
)
def test_an_accelerometer_that_contradicts_gravity_at_rest(factor: float, offset: float, said: str) -> None:
    forces = READINGS[:, 3:] + np.array([0.0, 0.0, offset])
    assert said in wrong_force(resting_force_m_s2(STAMPS_NS, READINGS[:, :3], factor * forces))


WANTED = {
    "accelerometer_negated": "has the other sign",
    "clock_back_for_two_seconds": "stamps of another age (1980-01-06)",
    "clock_set_while_running": "stamps of another age (2016-01-01)",
    "imu_dead_to_the_end": "reads zero on all axes from 6.00 to 14.00 s",
    "imu_in_g": "it is in g",
    "imu_zeros_in_the_middle": "reads zero on all axes from 6.00 to 9.99 s",
    "odometry_nan_from_half": "NaN or infinite",
    "truth_orientation_identity": "never changes, while the gyro turns",
    "truth_quaternion_wxyz": "agrees with the gyro as w, x, y, z",
    "truth_repeats_last_pose": "repeats its last pose from 6.01 to 8.99 s",
}


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("case", WANTED)
def test_inspections_of_practitioners_recordings_name_the_fault_and_no_second_one(case: str, shared_data: Path) -> None:
    (bag,) = (shared_data / "practitioners" / case).glob("*.mcap.zstd")
    found = [one for one in inspect_bag(bag).findings if one.severity != "note" and "Gaps of" not in one.text]
    assert [WANTED[case] in one.text for one in found] == [True], found


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "said", "share", "error_m"),
    [
        ("clock_back_for_two_seconds", "has stamps of another age", 0.86, 2.0),  # two seconds of a walk are guessed
        ("imu_dead_to_the_end", "reads zero on all axes", 0.43, 0.1),
        ("truth_repeats_last_pose", "repeats its last pose", 1.0, 0.2),
    ],
)
def test_evaluations_of_practitioners_recordings_cost_what_is_spoilt_and_no_more(
    case: str, said: str, share: float, error_m: float, shared_data: Path
) -> None:
    (bag,) = (shared_data / "practitioners" / case).glob("*.mcap.zstd")
    source = read_bag(bag, EvaluateOptions(robot="strapdown"))
    assert sum(said in note for note in source.recording.notes) == 1
    result = judge(source.robot, source.configuration, source.estimators[0], source.recording)
    assert result.metrics["run"]["estimated_ratio"] == pytest.approx(share, abs=0.02)
    assert result.parts["position"].error[result.parts["position"].matched].max() < error_m
    assert ("estimates cover" in result.verdict) == (share < 0.99)


def test_too_little_of_a_recording_is_not_judged() -> None:
    from onboard_estimation.judging.verdict import is_too_small

    assert is_too_small(1.0, 0.1)
    assert is_too_small(0.15, 1.0)
    assert not is_too_small(0.5, 0.5)
    assert not is_too_small(0.0, 1.0)  # without a truth there is nothing to judge, which is said otherwise
