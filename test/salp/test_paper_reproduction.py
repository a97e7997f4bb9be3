"""The LandSalp paper made again: every figure of it, what is printed, and a user's recordings."""

from __future__ import annotations

from io import BytesIO

import pytest

from onboard_estimation.base.errors import UserError
from onboard_estimation.contract.reproduced import Item, find_paper
from onboard_estimation.report.plots import write_figure
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.paper.runs import Drive
from salp_estimation.robot import ROBOT

CONFIGURATION = SalpConfiguration()
FIGURES = ["Figure 2", "Figure 3", "Figure 5", "Figure 6", "Section V-B", "Figure 7", "Section V-C", "Figure 8"]


def held(items: list[Item]) -> str:
    """All that the tables say, once they and the pictures are sound."""
    cells = []
    for item in items:
        assert item.because
        for table in item.tables:
            assert len(set(table.headings)) == len(table.headings)
            assert all(len(row) == len(table.headings) for row in table.rows)
            cells += [cell for row in table.rows for cell in row]
        if item.draw is not None:
            png = BytesIO()
            write_figure(png, item.draw)
            assert png.getvalue().startswith(b"\x89PNG")
    return " | ".join(cells)


@pytest.mark.slow
def test_every_figure_is_made_again() -> None:
    items = list(ROBOT.reproduce(CONFIGURATION, {}, True))
    assert [item.place for item in items] == FIGURES
    cells, printed = held(items), find_paper("landsalp").printed
    assert {"2250", "450", "degraded", "similar", "below 1"} <= set(cells.split(" | "))
    assert f"{printed['Section V-A']['forward_cm_per_cycle']} cm, {printed['Section V-A']['period_s']} s" in cells
    outcomes = {item.place: item.outcome for item in items}
    assert outcomes["Figure 2"] == "reproduced"
    assert outcomes["Section V-B"] == "partly"  # fewer points


@pytest.mark.slow
def test_of_a_users_recordings_the_last_one_judges() -> None:
    drives = [Drive("forward", 7, number, seconds) for number, seconds in enumerate((24.0, 24.0, 15.0))]
    recordings = {one.name: one.recording(CONFIGURATION) for one in drives}
    items = list(ROBOT.reproduce(CONFIGURATION, recordings, True))
    assert [item.place for item in items] == ["Figure 3", "Figure 6", "Figure 7"]
    assert {row[0] for row in items[-1].tables[0].rows} == {drives[-1].name}
    assert "ours (no model)" in held(items)
    last = {drives[-1].name: recordings[drives[-1].name]}
    with pytest.raises(UserError, match="1 recording: at least 2 are needed"):
        list(ROBOT.reproduce(CONFIGURATION, last, True))
