"""Thrusts that are designed: never worse than the square waves, within all limits, and read back by the simulator."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from onboard_estimation.base.errors import UserError
from thruster_chain_estimation.judging import thrust_design
from thruster_chain_estimation.judging.thrust_design import STEP_S, design
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration
from thruster_chain_estimation.robot import ROBOT
from thruster_chain_estimation.simulation.simulator import recorded_commands

PAPER = replace(ThrusterChainConfiguration(), imu_model="paper")


def test_of_few_patterns_the_best_is_found() -> None:
    """Three slots, one for all thrusters at first: of all 84 patterns by trying each."""
    found = design(PAPER, "paper_ukf", 0.3)
    assert found.pulses == 3
    assert (found.designed <= found.waves * 1.0001).all()
    rest, assumed = 20, thrust_design.assumed_chain(PAPER, papers=True)
    trial = thrust_design._Trial(assumed, rest, np.pi, PAPER.gyro.range_rad_s)
    costs = []
    for cells in product((False, True), repeat=9):
        if sum(cells) == 3:
            ratio = np.log(trial.deviations(np.array(cells).reshape(3, 3))[0] / found.waves)
            costs.append(ratio.mean() + 10.0 * max(ratio.max(), 0.0))
    ours = np.log(found.designed / found.waves)
    assert len(costs) == 84
    assert ours.mean() + 10.0 * max(ours.max(), 0.0) == pytest.approx(min(costs), abs=1e-6)


def test_limits_are_kept_and_the_table_is_what_was_designed(tmp_path: Path) -> None:
    tight = replace(PAPER, chain=replace(PAPER.chain, joint_travel_deg=10.0))
    found = design(tight, "robust", 0.6)
    assert found.thrust_n.max() <= tight.thruster.limit_n
    assert not found.thrust_n[: round(tight.initial.rest_s / STEP_S)].any()
    file = tmp_path / "thrusts.csv"
    found.write(file)
    at_s = STEP_S * np.arange(len(found.thrust_n) + 5)
    read = recorded_commands(str(file), 3)(at_s)
    np.testing.assert_array_equal(read[:-5], found.thrust_n)
    assert not read[-5:].any()
    sent = replace(tight, thruster=replace(tight.thruster, commands=str(file)))
    recording = ROBOT.simulate(sent, "thrusters", "physical", 0.5, np.random.default_rng(0))
    np.testing.assert_array_equal(recording.sensors[0].values, read[: len(recording.sensors[0].values)])


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--design 0.1: thrusts of 0.3 to 10 s are designed"):
        design(PAPER, "robust", 0.1)
    with pytest.raises(UserError, match="there is no table"):
        recorded_commands(str(tmp_path / "absent.csv"), 3)
