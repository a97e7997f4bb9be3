"""The hopper's paper, made again: every table and figure, its criteria, its filter with the printed parameters."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from hopper_samples_for_tests import hopping, loaded

from hopper_estimation.estimators.filters import PARAMETERS
from hopper_estimation.model.configuration import HopperConfiguration
from hopper_estimation.model.phases import DROP, REBOUND
from hopper_estimation.paper.figures import HOPS, statistics
from hopper_estimation.paper.reproduction import judged_errors, reproduce
from hopper_estimation.paper.study import hop_errors_of, paper_entry, shipped, table_two
from hopper_estimation.paper.trials import CONFIGURATION, controlled, simulated, told
from onboard_estimation.base.errors import UserError
from onboard_estimation.contract.reproduced import Item, find_paper
from onboard_estimation.report.plots import write_figure

PAPER = find_paper("hopping")
UNSHOWN = ("hops", "stddevs")
RESULTS = [place for place in PAPER.printed if place.startswith(("Table", "Figure"))]


@pytest.fixture(scope="module")
def items() -> dict[str, Item]:
    return {one.place: one for one in reproduce(HopperConfiguration(), {}, quick=True)}


def numbers(value: Any) -> list[float]:
    """All that are shown: neither counts nor what goes into a figure only."""
    if isinstance(value, dict):
        value = [one for name, one in value.items() if name not in UNSHOWN]
    if isinstance(value, list):
        return [one for each in value for one in numbers(each)]
    return [float(value)] if isinstance(value, int | float) else []


@pytest.mark.slow
def test_every_table_and_figure_is_there_in_the_papers_order(items: dict[str, Item]) -> None:
    assert set(items) == {*RESULTS, "Figure 8"}
    for place, one in items.items():
        for table in one.tables:
            assert len(set(table.headings)) == len(table.headings)
            assert all(table.headings[1:])
            assert all(len(row) == len(table.headings) for row in table.rows)
        if place.startswith("Figure"):
            assert one.draw is not None
            write_figure(BytesIO(), one.draw)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["Table II", "Table III", "Table IV", "Table S1", "Table S2", "Table S3"])
def test_tables_hold_what_is_printed(place: str, items: dict[str, Item]) -> None:
    shown = {cell for table in items[place].tables for row in table.rows for cell in row[1:]}
    for value in numbers(PAPER.printed[place]):
        ways = {f"{value:g}", f"{value:.2f}", f"{1000.0 * value:.4g}", f"{value:.4g}"}
        assert ways & shown, value


@pytest.mark.slow
def test_agility_and_the_honest_apex_time(items: dict[str, Item]) -> None:
    assert items["Table IV"].outcome == "reproduced"
    times = next(one for one in items["Table III"].tables if one.title.startswith("M4"))
    assert len(times.headings) == 4
    own = next(row for row in times.rows if row[0].startswith("HVSE1"))
    assert float(own[2]) > float(own[3])


def test_the_shipped_model_has_table_two() -> None:
    entry, printed = paper_entry(), PAPER.printed["Table II"]
    places = table_two(filter_only=True)
    assert len(places) == 6
    for place, value in places.items():
        assert entry.parameters[place] == value == printed[PARAMETERS[place].name]
    assert len(table_two(filter_only=False)) == 11


def test_errors_are_judged_by_their_order_and_size() -> None:
    printed = {"m1": {"ba1": [3.0, 4.0], "kf3": [2.0, 2.0], "hvse1": [1.0, 1.0]}}
    assert judged_errors(printed, printed)[0] == "reproduced"
    better = {"m1": {**printed["m1"], "hvse1": [0.3, 0.3]}}
    outcome, because = judged_errors(printed, better)
    assert outcome == "partly"
    assert "6 of 6 pairs" in because
    assert "0.30 to 0.30" in because
    turned = {"m1": {"ba1": [1.0, 1.0], "kf3": [2.0, 2.0], "hvse1": [3.0, 4.0]}}
    assert judged_errors(printed, turned)[0] == "not reproduced"


def test_a_random_walk_of_the_grounds_height_is_foretold() -> None:
    rng = np.random.default_rng(3)
    hops = 0.01 + 0.04 * rng.normal(size=(4000, HOPS))
    last_size, _, _, mean, stddev, foretold = statistics(np.column_stack([np.zeros(4000), np.cumsum(hops, axis=1)]))
    assert mean == pytest.approx(0.01, abs=1e-3)
    assert stddev == pytest.approx(0.04, rel=0.01)
    assert foretold == pytest.approx(last_size, rel=0.05)


def test_errors_in_flight_and_apexes_by_the_velocity() -> None:
    trial = simulated("hardware", "1m", 11.0, 7001)
    entry = shipped("kf1")
    found = hop_errors_of(CONFIGURATION, "kf1", entry, trial)
    out = told("kf1", entry, trial).out
    cycles = trial.hops.cycles
    rows = (trial.time_s >= cycles.touchdown_s[1]) & (trial.time_s < cycles.next_touchdown_s[1])
    rows &= (out[:, 5] == REBOUND) | (out[:, 5] == DROP)
    truth = trial.true_height_m[rows]
    assert found["m1_flight"][1] == pytest.approx(100.0 * np.abs(out[rows, 0] - truth).sum() / truth.sum(), rel=1e-9)
    at_once = hop_errors_of(CONFIGURATION, "kf1", replace(entry, event_delay_s=np.zeros(4)), trial)
    np.testing.assert_array_equal(at_once["m4"], found["m4_zero"])
    assert np.nanmean(found["m4_zero"]) > np.nanmean(found["m4"])


@pytest.mark.slow
def test_a_robot_that_goes_by_its_estimate_hops_otherwise() -> None:
    by_truth = simulated("hardware", "1m", 11.0, 7001)
    trial = controlled(shipped("kf1"), 7001, "1m", 5.0)
    assert len(trial.hops.cycles) >= 3
    heights = trial.hops.cycles.hop_height_m
    assert np.abs(heights - 1.0).max() < 0.5
    assert np.abs(heights[1:3] - by_truth.hops.cycles.hop_height_m[1:3]).max() > 1e-3


@pytest.mark.slow
def test_recordings_of_a_users_own() -> None:
    own = {f"day {seed}": loaded(hopping("1m", 14.0, seed)) for seed in (7, 8)}
    found = {one.place: one for one in reproduce(HopperConfiguration(), own, quick=True)}
    assert list(found) == ["Table III", "Figure 7", "Figure 8"]
    assert [row[0] for row in found["Table III"].tables[0].rows][-1] == "bounce"
    assert {row[1] for row in found["Figure 8"].tables[0].rows} >= {"kf1", "kf1, Table II", "bounce"}
    with pytest.raises(UserError, match="no ground truth"):
        list(reproduce(HopperConfiguration(), {"Monday": replace(own["day 7"], tracks={})}, quick=True))
