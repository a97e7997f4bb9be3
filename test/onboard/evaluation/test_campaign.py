"""The figures of the issue: accuracy and consistency of the chain's filter over seeds, and how far the gaits move."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from evaluation_samples import CONFIGURATION, command, refusal
from numpy.typing import NDArray
from salp_noise import IDEAL_NOISE

from onboard_estimation.evaluation.bags import open_bag
from onboard_estimation.evaluation.campaign import PartCampaign, judge_campaign, simulated_runs
from onboard_estimation.evaluation.options import WhatIf
from onboard_estimation.evaluation.recording import load_recording
from onboard_estimation.evaluation.result import EvaluationResult
from onboard_estimation.evaluation.topics import match_topics
from onboard_estimation.filtering.consistency import chi_square_band
from onboard_estimation.robots import find_robot
from salp_estimation.configuration import SalpConfiguration

SALP = find_robot("salp")
SEEDS = range(20)
DURATION_S = 60.0
SETTLED_S = 6.0


def runs(
    gait: str,
    seeds: range,
    duration_s: float,
    what_if: WhatIf | None = None,
    configuration: SalpConfiguration = IDEAL_NOISE,
) -> list[EvaluationResult]:
    return simulated_runs(SALP, configuration, "ideal", gait, duration_s, seeds, "ukf", what_if=what_if)


@pytest.mark.slow
@pytest.mark.parametrize("gait", ["forward", "backward"])
def test_joint_angles_over_twenty_seeds(gait: str) -> None:
    """The issue's bounds, computed here from the results alone, and the campaign's own figures."""
    results = runs(gait, SEEDS, DURATION_S)
    joints = [result.parts["joint_angles"] for result in results]
    settled = results[0].time_s >= SETTLED_S
    rmse_deg = [np.rad2deg(np.sqrt(np.mean(part.error[settled] ** 2))) for part in joints]
    assert max(rmse_deg) <= 0.3
    assert np.median(rmse_deg) <= 0.1  # what an independent filter reaches
    averaged = np.mean([part.nees for part in joints], axis=0)
    low, high = chi_square_band(2, 0.95, len(SEEDS))
    inside = float(np.mean((averaged >= low) & (averaged <= high)))
    assert inside >= 0.8
    covered = float(np.mean([np.abs(part.error) <= 3.0 * part.stddev for part in joints]))
    assert covered >= 0.985

    campaign = judge_campaign(results)["joint_angles"]
    assert campaign.unit == "deg"
    assert campaign.rmse == pytest.approx(rmse_deg)
    assert campaign.consistency.share_in_band == pytest.approx(inside)
    assert campaign.consistency.coverage_3_sigma == pytest.approx(covered)
    assert campaign.consistency.runs == 20
    mapping = campaign.to_mapping()
    assert mapping["rmse_worst_deg"] == pytest.approx(max(rmse_deg))
    assert mapping["rmse_median_deg"] == pytest.approx(np.median(rmse_deg))
    # Each seed has an initial error of its own; nothing corrects the heading afterwards.
    initial_deg = np.rad2deg([result.parts["pose"].error[0, 2] for result in results])
    assert np.std(initial_deg) == pytest.approx(CONFIGURATION.initial.heading_stddev_deg, rel=0.5)


def true_states(path: Path, duration_s: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Pose of the base and joint angles (K, 5) at whole cycles, from the bag's own truth."""
    with open_bag(path) as bag:
        match = match_topics(SALP, CONFIGURATION, bag.topics)
        recording = load_recording(bag, SALP, match, WhatIf())
    start = recording.first_stamp_ns()
    stamps = start + np.arange(0.0, duration_s + 0.1, 6.0).astype(np.int64) * 1_000_000_000
    bodies = {body: track.at(stamps, 0.1)[0] for body, track in recording.tracks.items()}
    parts = SALP.true_parts(CONFIGURATION, bodies)
    return parts["pose"], parts["joint_angles"]


@pytest.mark.parametrize(("gait", "sign"), [("forward", 1.0), ("backward", -1.0)])
def test_a_cycle_of_the_gait_moves_three_centimetres(gait: str, sign: float, tmp_path: Path) -> None:
    path = tmp_path / "bag"
    done = command("simulate", "salp", "--gait", gait, "--duration", "30", "--seed", "3", "--output", path, "--json")
    assert done.code == 0
    poses, joints = true_states(path, 30.0)
    steps = np.diff(poses, axis=0)
    forward_cm = 100.0 * (steps[:, 0] * np.cos(poses[:-1, 2]) + steps[:, 1] * np.sin(poses[:-1, 2]))
    # Motion capture is good to 0.1 mm, wheels to 0.05 mm/s: a cycle scatters by some 0.1 mm.
    assert np.mean(forward_cm) == pytest.approx(3.0 * sign, abs=0.05)
    assert np.abs(forward_cm - 3.0 * sign).max() < 0.1
    assert abs(np.rad2deg(poses[-1, 2] - poses[0, 2])) < 0.5  # over five cycles
    assert np.abs(np.rad2deg(joints[-1] - joints[0])).max() < 0.5


@pytest.mark.slow
def test_the_figures_tell_a_fault() -> None:
    """The same bounds fail where they should: a gyro with a bias."""
    campaign = judge_campaign(runs("forward", range(4), 30.0, WhatIf(bias=("imu/link_3.gyro_z=0.03",))))
    assert campaign["joint_angles"].rmse is not None
    assert max(campaign["joint_angles"].rmse) > 0.3
    assert campaign["joint_angles"].consistency.share_in_band < 0.5


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    done = command("campaign", "salp", "--seeds", "2", "--first-seed", "5", "--duration", "10", "--json")
    assert done.code == 0
    assert done.error == ""
    found = json.loads(done.out)
    assert found["source"] == "simulated"
    assert found["seeds"] == [5, 6]
    for gait in ("forward", "backward"):
        campaign = judge_campaign(runs(gait, range(5, 7), 10.0, configuration=CONFIGURATION))
        joints = found["variants"][gait]["joint_angles"]
        assert joints["rmse_by_seed_deg"] == pytest.approx(campaign["joint_angles"].rmse)
        nees = campaign["joint_angles"].consistency.nees_per_degree_of_freedom
        assert joints["consistency"]["nees_per_degree_of_freedom"] == pytest.approx(nees)
        assert "rmse_by_seed_deg" not in found["variants"][gait]["pose"]  # metres and degrees have no common RMS
    table = command("campaign", "salp", "--seeds", "1", "--duration", "8", "--gait", "backward").out
    assert "backward" in table
    assert "forward" not in table
    assert "simulated" in table
    assert max(len(line) for line in table.splitlines() if "backward" in line) <= 100


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("salq",), "no robot 'salq'; installed are:"),
        (("salp", "--gait", "sideways"), "salp, scenario ideal: no variant 'sideways'; there are forward, backward"),
        (("salp", "--scenario", "sea"), "salp has no scenario 'sea'; it has ideal"),
        (("salp", "--estimator", "ekf", "--seeds", "1"), "salp has no estimator 'ekf'; it has ukf"),
        (("salp", "--duration", "0"), "--duration 0: must be above 0 s"),
        (("salp", "--seeds", "0"), "--seeds"),
        (("salp", "--drop", "imu/link_9", "--seeds", "1", "--duration", "1"), "--drop imu/link_9: no such sensor"),
        (("salp", "--set", "gyro.axis=w"), "gyro.axis"),
    ],
)
def test_what_no_campaign_can_be_made_of(words: tuple[str, ...], said: str) -> None:
    assert said in refusal("campaign", *words)


def test_parts_without_a_common_unit_have_no_rms() -> None:
    campaign = judge_campaign(runs("forward", range(1), 8.0))
    assert isinstance(campaign["pose"], PartCampaign)
    assert campaign["pose"].rmse is None
    assert campaign["pose"].unit is None
