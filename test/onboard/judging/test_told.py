"""Would it notice? What `evaluate` says of faults that begin amid a run: of every robot, by option and by the bag."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evaluation_samples import LINKS, command, salp_recording
from salp_noise import IDEAL_NOISE

from onboard_estimation.contract.recorded import from_simulator
from onboard_estimation.contract.result import FAULT, key_figures
from onboard_estimation.contract.robot import find_robot
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.options import EvaluateOptions, JudgeSettings, WhatIf, parse_faults
from onboard_estimation.judging.simulated_bags import simulated_recording
from onboard_estimation.judging.sources import load_configuration
from onboard_estimation.judging.told import Told
from onboard_estimation.judging.what_if import changed
from salp_estimation.robot import ROBOT as SALP

FAULTS = {
    "salp hardware": ("imu/link_2=silent@4..6", "wheel_2=*0.5@4"),
    "thruster_chain hardware": ("imu/link_2=stuck@4..6", "draught=+0.05@4"),
    "hopper hardware": ("imu/low_g.accel_z=*1.08@4",),
    "strapdown walk": ("imu/foot.gyro=clip 1@4",),
    "softrobot laboratory": ("wrench.force_z=+0.5@4", "stiffness=*0.7@4"),
}


def test_a_sentence_names_sensors_by_whole_words() -> None:
    sensors = ["imu/link_1", "imu/link_2", "imu/link_10"]
    assert Told(0, "the gyro of link_10, link_2: off by 3").names(sensors) == sensors[1:]
    assert Told(0, "imu/link_1 is stuck, not link_2").names(sensors) == sensors[:1]
    assert Told(0, "masses changed").names(sensors) == []
    assert Told(0, "it is silent", "imu/link_2").names(sensors) == ["imu/link_2"]


def test_a_silent_sensor_is_told_and_the_estimates_stay_the_same_to_the_bit() -> None:
    whole = from_simulator(salp_recording(10.0), LINKS)
    faulty = changed(whole, WhatIf(fault=("imu/link_2=silent@5",)))
    result = judge(SALP, IDEAL_NOISE, "ukf", faulty, JudgeSettings(settle_s=1.0))
    found = result.metrics[FAULT]
    assert found["from_s"] == pytest.approx(5.0, abs=0.1)
    assert found["false_alarms"] == 0
    assert set(found["joint_angles"]) == {"coverage_3_sigma_before", "coverage_3_sigma_after"}
    assert found["told_soon_or_covered"] in (0.0, 1.0)
    assert result.events[FAULT][0] == pytest.approx([found["from_s"], result.time_s[-1]])
    assert key_figures(result)[0].label == "Fault told"
    assert any(note.startswith("Fault imu/link_2=silent@5: ") for note in result.notes)
    # Watched or not, what is estimated is the same.
    again = judge(SALP, IDEAL_NOISE, "ukf", replace(faulty, injected=()), JudgeSettings())
    assert again.mean.tobytes() == result.mean.tobytes()
    assert FAULT not in again.metrics


@pytest.mark.parametrize(
    ("robot", "scenario", "change"),
    [
        ("salp", "hardware", "wheel_2=*0.5"),
        pytest.param("salp", "foreign", "load_1=*2", marks=pytest.mark.slow),
        pytest.param("thruster_chain", "hardware", "link_2.mass=+0.2", marks=pytest.mark.slow),
        pytest.param("softrobot", "laboratory", "stiffness=*0.7", marks=pytest.mark.slow),
    ],
)
def test_a_robot_is_the_same_until_it_changes(robot: str, scenario: str, change: str) -> None:
    found: Any = find_robot(robot)
    simulated = partial(simulated_recording, duration_s=4.0, seed=1)
    configuration = load_configuration(found, EvaluateOptions())
    variant = (found.scenarios[scenario].variants or ("",))[0]
    plain = simulated(found, configuration, scenario, variant)
    other = simulated(found, configuration, scenario, variant, faults=parse_faults(f"{change}@3"))
    before = [
        [one.rows(np.flatnonzero(one.stamps_ns < 2_900_000_000)).values.tobytes() for one in run.series]
        for run in (plain, other)
    ]
    assert before[0] == before[1]
    assert any(
        not np.array_equal(one.values, same.values) for one, same in zip(plain.series, other.series, strict=True)
    )


@pytest.mark.slow
@pytest.mark.parametrize("what", FAULTS)
def test_a_bag_tells_its_faults_and_evaluate_what_became_of_them(what: str, tmp_path: Path) -> None:
    robot, scenario = what.split()
    words = ["--scenario", scenario, *(word for one in FAULTS[what] for word in ("--fault", one))]
    bag, run = tmp_path / "bag", tmp_path / "run"
    made = command("simulate", robot, "--duration", "8", "--output", bag, "--json", *words)
    assert made.code == 0, made.error
    assert json.loads(made.out)["fault"] == "; ".join(FAULTS[what])
    outcome = command("evaluate", bag, "--output", run, "--json", "--fault", FAULTS[what][0].replace("@4", "@5"))
    assert outcome.code == 0, outcome.error
    found = json.loads(outcome.out)
    assert found["metrics"][FAULT]["false_alarms"] >= 0
    assert "Fault told" in found["figures"]
    for one in FAULTS[what]:
        assert any(one.partition("=")[0] in note for note in found["notes"])
    assert '"name": "fault"' in (run / "report.html").read_text().replace('"name":"', '"name": "')
    wrong = command("simulate", robot, "--duration", "1", "--output", tmp_path / "no", "--fault", "nothing=*2@0.5")
    assert wrong.code == 2
    assert "--fault nothing: no such sensor; there are " in wrong.error
