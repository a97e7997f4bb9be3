"""Gyros alone are honest; what the truth tells of a load; a silent IMU; URDF and outline."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.options import JudgeSettings
from onboard_estimation.judging.simulated_bags import simulated_recording
from onboard_estimation.judging.truth import truth_at
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration
from thruster_chain_estimation.robot import ROBOT

CONFIGURATION = ThrusterChainConfiguration()


@pytest.fixture(scope="module")
def hardware() -> LoadedRecording:
    return simulated_recording(ROBOT, CONFIGURATION, "hardware", "mixed", 10.0, 3)


def test_gyros_are_honest_on_hardware(hardware: LoadedRecording) -> None:
    result = judge(ROBOT, CONFIGURATION, "gyros", hardware)
    headings = result.parts["headings"]
    assert "masses" not in result.parts  # those of the design: it learns none
    assert np.nanmean(np.abs(headings.error) < 3.0 * headings.stddev) > 0.97
    # From an exact start, what is left is their scale, clock and bias.
    exact = judge(ROBOT, CONFIGURATION, "gyros", hardware, JudgeSettings(initial="exact"))
    assert np.sqrt(np.nanmean(exact.parts["headings"].error ** 2)) < np.deg2rad(4.0)


def test_a_load_changes_the_truth_when_it_is_taken_up() -> None:
    recording = simulated_recording(ROBOT, CONFIGURATION, "load", "mixed", 16.0, 2)
    stamps_ns = recording.series[0].stamps_ns
    known, valid = truth_at(ROBOT, CONFIGURATION, recording, stamps_ns, 0.1)
    masses, time_s = known["masses"][valid], (stamps_ns[valid] - stamps_ns[0]) / NANOSECONDS_PER_SECOND
    gained = masses[-1] - masses[0]
    assert sorted(np.round(gained, 6)) == [0.0, 0.0, 0.2]
    assert (masses[time_s < 14.9] == masses[0]).all()


def test_a_silent_imu_is_said_and_its_heading_becomes_unsure() -> None:
    recording = simulated_recording(ROBOT, CONFIGURATION, "thrusters", "physical", 3.0, 1)
    series = tuple(
        one.rows(one.stamps_ns < 1_000_000_000) if one.channel.sensor == "imu/link_2" else one
        for one in recording.series
    )
    numbers = np.concatenate([np.full(len(one.stamps_ns), number) for number, one in enumerate(series)])
    order = np.argsort(np.concatenate([one.stamps_ns for one in series]), kind="stable")
    result = judge(ROBOT, CONFIGURATION, "gyros", replace(recording, series=series, arrival=numbers[order]))
    assert any("imu/link_2 is silent" in note for note in result.notes)
    last = result.parts["headings"].stddev[-1]
    assert last[1] > 10.0 * last[0]


def test_urdf_and_outline() -> None:
    # An IMU elsewhere in the laboratory is none of a link.
    ROBOT.refuse_topics(CONFIGURATION, [f"imu/{name}/data_raw" for name in ("link_1", "link_2", "link_3", "table")])
    text = ROBOT.urdf(CONFIGURATION)
    assert text.count("<joint ") == 4
    assert 'name="joint_2" type="revolute"' in text
    space = ROBOT.estimator(CONFIGURATION, "gyros").space
    mean = space.origin()[None]
    mean[:, space.coordinates("masses")] = 0.5
    assert ROBOT.outline(CONFIGURATION, space, mean).shape == (1, 4, 2)
    np.testing.assert_allclose(ROBOT.body_poses(CONFIGURATION, space, mean)["link_2"][0, :3], 0.0, atol=1e-12)
