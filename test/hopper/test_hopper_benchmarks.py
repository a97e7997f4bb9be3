"""Benchmarks of the hopper: pieces of work are done once and kept, peers have the same numbers. Nothing is timed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.hopper import hopper_filters_ground as ground
from benchmarks.hopper import hopper_filters_jobs as jobs
from benchmarks.hopper import hopper_filters_models as models
from benchmarks.hopper import hopper_filters_rates as rates
from benchmarks.hopper import hopper_filters_runs as runs
from benchmarks.hopper import hopper_filters_tables as tables
from benchmarks.hopper import hopper_step
from benchmarks.hopper.hopper_filters_models import Search
from hopper_estimation.hop_metrics import METRICS

SEED = 5950
TINY = Search("kf1", False, "genetic", 8, 2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(autouse=True)
def scratch(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where results are kept; runs are short."""
    monkeypatch.setattr(jobs, "SCRATCH", folder)
    monkeypatch.setattr(models, "SCRATCH", folder)
    monkeypatch.setattr(models, "TRAINING_S", {"1m": 9.0})
    monkeypatch.setattr(runs, "TEST_S", {"1m": 9.0})
    monkeypatch.setattr(ground, "HOPPING_S", 9.0)
    monkeypatch.setattr(rates, "HOPPING_S", 6.0)
    return folder


def test_a_piece_of_work_is_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    job = runs.judging_job("dr1", None, 0, 1, [SEED])
    (first,) = jobs.compute([job], 0)

    def fails(**_: object) -> None:
        raise AssertionError("done again")

    monkeypatch.setattr(runs, "judged", fails)
    assert jobs.compute([job, job], 0) == [first, first]
    with pytest.raises(AssertionError, match="done again"):
        jobs.result_of(runs.judging_job("dr1", None, 0, 1, [SEED + 1]))


def test_errors_by_hop_survive_as_plain_data() -> None:
    (line, aerial) = jobs.result_of(runs.judging_job("dr1", None, 0, 1, [SEED]))["errors"]
    found = runs.errors_of(line, "DR1")
    assert (found.estimator, found.part, aerial["part"]) == ("DR1", "cycle", "aerial")
    assert len(found) == len(line["touchdown_s"]) >= 5
    for metric in METRICS:
        np.testing.assert_array_equal(found.values[metric], line["values"][metric])
    assert tables.mean_of({"errors": [line]}, "m3", 1.0) == pytest.approx(np.mean(found.values["m3"]))
    assert np.isnan(tables.mean_of({"errors": [line]}, "m3", 2.0))


@pytest.mark.slow
def test_a_trained_filter_goes_through_every_piece() -> None:
    trained = jobs.result_of(models.training_job(TINY, 0, 1))
    assert trained["evaluations"] == 8 + 7
    judged = jobs.result_of(runs.judging_job("kf1", TINY, 0, 1, [SEED]))
    within = np.array(judged["within"])
    assert (within[..., 0] >= within[..., 2]).all()
    assert (within[..., 2] >= within[..., 1]).all()
    cycle, aerial = jobs.result_of(runs.control_job(TINY, 0, 1, SEED, "1m", 4.0))
    assert (cycle["control"], aerial["part"]) == ("SE", "aerial")
    assert cycle["values"]["m5"] == aerial["values"]["m5"]
    summed = jobs.result_of(ground.ground_job(TINY, 0, 1, "uneven", SEED))
    assert {len(errors) for errors in summed["errors_m"].values()} == {len(summed["change_m"])}
    assert np.ptp(summed["change_m"]) > 0.01
    sensed = jobs.result_of(rates.rate_job(TINY, 0, 1, 400.0, 2))
    assert np.array(sensed["mean"]).shape == np.array(sensed["exact"]).shape == (2, len(sensed["time_s"]))
    assert len(sensed["hops"]) == 2


def test_motion_of_the_sensing_frequencies_is_the_same_whatever_the_noise() -> None:
    heights = []
    for draw in (1, 2):
        made = rates.HopperSimulation(
            rates.HopperConfiguration(), "3m", np.random.default_rng(draw), rates.same_motion(noisy=True)
        )
        made.trace = []
        made.advance(8_000_000_000)
        heights.append(np.concatenate(made.trace)[:, 0])
    np.testing.assert_array_equal(*heights)


def test_peers_of_the_step_have_our_numbers() -> None:
    hopper_step._Samples().require_agreement()
