"""The soft robot's paper, made again: all of its tables and figures, with what it prints beside."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest

from onboard_estimation.base.errors import UserError
from onboard_estimation.contract.recorded import LoadedRecording, from_simulator
from onboard_estimation.contract.reproduced import find_paper
from onboard_estimation.report.plots import write_figure
from softrobot_estimation.model.configuration import SoftRobotConfiguration
from softrobot_estimation.model.description import BASE, TIP
from softrobot_estimation.paper.scenario import SETTLE_S, ahead, simulated, tracked
from softrobot_estimation.robot import ROBOT
from softrobot_estimation.simulation.paper_simulator import known_configuration

CONFIGURATION = SoftRobotConfiguration()
PAPER = find_paper("softrobot")


def recorded(duration_s: float) -> LoadedRecording:
    return from_simulator(ROBOT.simulate(CONFIGURATION, "paper", "", duration_s, np.random.default_rng(3)), (TIP, BASE))


@pytest.mark.slow
def test_every_table_and_figure_is_made_again() -> None:
    items = {one.place: one for one in ROBOT.reproduce(CONFIGURATION, {}, True)}
    assert [one for one in PAPER.printed if one != "Section VII-A"] == sorted(items, key=list(PAPER.printed).index)
    for item in items.values():
        for table in item.tables:
            assert len(set(table.headings)) == len(table.headings)
            assert all(len(row) == len(table.headings) for row in table.rows)
        if item.draw is not None:
            picture = BytesIO()
            write_figure(picture, item.draw)
            assert picture.getvalue()[:4] == b"\x89PNG"
    accuracy = {cell for row in items["Table I"].tables[0].rows for cell in row}
    for printed in list(PAPER.printed["Table I"].values())[:3]:
        assert {str(one) for one in printed.values()} <= accuracy
    (table,) = items["Table II"].tables
    assert "0.083 (0.053)" in table.rows[10]
    assert "more than 1" in table.rows[12]


@pytest.mark.slow
def test_with_the_true_stiffness_the_future_is_foreseen() -> None:
    run = simulated(CONFIGURATION, 201, 3.0)
    ukf = tracked(run, "ukf")

    def true_stiffness(rows: np.ndarray, starts: np.ndarray) -> np.ndarray:
        nearest = np.linalg.norm(rows[:, None, :2] - run.truth.states[None, :, :2], axis=2).argmin(axis=1)
        return np.asarray(run.stiffness[nearest])

    found = ahead(run, {"ukf": ukf, "true": ukf._replace(stiffness=true_stiffness)}, (0.005,))
    assert ukf.stamps_s[-1] - ukf.stamps_s[0] > 2.0 * SETTLE_S
    assert found["true"][20, 0.005].mean() < 0.005
    assert found["true"][20, 0.005].mean() < 0.2 * min(found[one][20, 0.005].mean() for one in ("ukf", "best"))


@pytest.mark.slow
def test_recordings_of_a_user_are_told_of() -> None:
    few = known_configuration(CONFIGURATION).with_parameters({"learning.particles": 100})
    tips, foreseen = ROBOT.reproduce(few, {"monday": recorded(16.0)}, False)
    assert ("monday", "ukf", "Position") in [row[:3] for row in tips.tables[0].rows]
    assert len(foreseen.tables[0].rows) == 5


def test_a_recording_that_is_too_short_is_refused() -> None:
    short = recorded(3.0)
    with pytest.raises(UserError, match=r"monday: .* frames of the tip over 3.0 s .* over 15 s are needed"):
        list(ROBOT.reproduce(CONFIGURATION, {"monday": short}, False))
