"""The table in the docs is the one of the kept results; every benchmark says what it measures. Nothing is timed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.run import BENCHMARKS, ON_REQUEST, RESULTS, load_results, summary
from benchmarks.salp import salp_filter_step, salp_hardware, salp_hardware_models, salp_hardware_runs
from benchmarks.salp.salp_hardware_models import Subject, TrainingSet
from benchmarks.table import END, START, TABLE_FILE, case_lines, further_lines, render, replaced, shown
from onboard_estimation.evaluation.judge import judge
from onboard_estimation.evaluation.options import JudgeSettings
from onboard_estimation.evaluation.simulated import simulated_recording
from onboard_estimation.robots import find_robot

TINY = TrainingSet(gaits=("left", "turning"), seeds=2, duration_s=13.0)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where benchmarks keep models: trained once for all tests here."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture
def scratch(tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where benchmarks keep runs; the runs are short."""
    monkeypatch.setattr(salp_hardware_models, "SCRATCH", models)
    monkeypatch.setattr(salp_hardware_runs, "SCRATCH", tmp_path)
    monkeypatch.setattr(salp_hardware_runs, "SETTLE_S", 2.5)  # shorter runs
    return tmp_path


def test_table_in_the_docs_is_that_of_the_results() -> None:
    text = TABLE_FILE.read_text()
    assert replaced(text, render(load_results())) == text


def test_every_benchmark_says_what_it_measures_and_kept_results_are_whole() -> None:
    for name in (*BENCHMARKS, *ON_REQUEST):
        assert len(summary(name)) > 20
    kept = list(Path(RESULTS).glob("*.json"))
    assert {path.stem for path in kept} >= set(BENCHMARKS)
    for path in kept:
        result = json.loads(path.read_text())
        assert result["benchmark"] == path.stem
        assert result["machine"]["cores"] >= 1
        assert result["versions"]["numpy"]
        assert result["commit"] in shown(result)
        assert result["cases"]
        for row in result["cases"]:
            if "target_times_faster" in row:
                assert row["met"] == (row["times_faster_median"] >= row["target_times_faster"])


def test_only_what_stands_between_the_markers_is_replaced() -> None:
    assert replaced(f"before {START} old {END} after", "new") == f"before {START}\n\nnew\n{END} after"


def test_cases_with_cells_stand_in_tables_of_their_own() -> None:
    cells = [{"case": f"{k}", "table": name, "cells": {"a": str(k), "b": "x"}} for k, name in enumerate("TTU")]
    result = {"cases": [{"case": "c", "figure": "1"}, *cells]}
    assert case_lines(result) == ["| c | 1 | | | |  |"]
    assert further_lines(result) == [
        *("", "T:", "", "| a | b |", "|---|---|", "| 0 | x |", "| 1 | x |"),
        *("", "U:", "", "| a | b |", "|---|---|", "| 2 | x |"),
    ]


def test_training_and_test_seeds_are_never_shared() -> None:
    plan = salp_hardware.Plan()
    assert max(plan.seeds, plan.rate_seeds, plan.beacon_seeds) < salp_hardware_models.FIRST_TRAINING_SEED
    runs = [run for forward in (False, True) for run in replace(TrainingSet(), forward_only=forward).runs()]
    assert len(set(runs)) == len(runs) == 50
    assert min(seed for _, seed in runs) >= salp_hardware_models.FIRST_TRAINING_SEED


@pytest.mark.slow
def test_runs_are_judged_as_by_judge() -> None:
    robot, configuration = find_robot("salp"), Subject("plain").configuration()
    recording = simulated_recording(robot, configuration, "hardware", "turning", 2.5, 3)
    expected = judge(robot, configuration, "ukf", recording, JudgeSettings(seed=3))
    record, truth = salp_hardware_runs.replayed(robot, configuration, recording, 3)
    np.testing.assert_array_equal(record.stamps_ns, expected.stamps_ns)
    np.testing.assert_array_equal(record.means, expected.mean)
    for name, part in expected.parts.items():
        np.testing.assert_array_equal(truth[name], part.truth)


@pytest.mark.slow
def test_hardware_benchmark_runs_and_goes_on_where_it_stopped(
    scratch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = replace(
        salp_hardware.QUICK,
        estimators=("plain", "ideal_noise", "local"),
        gaits=("left",),
        seeds=2,
        duration_s=4.5,
        data=TINY,
    )
    rows = salp_hardware.rows(plan)
    kept = (scratch / "runs.jsonl").read_text()
    assert len(kept.splitlines()) == 6  # three estimators on two test seeds
    table = {row["estimator"]: row for row in rows if "cells" in row}
    assert len(table) == 3
    assert all(0.0 <= row["pose_share_in_band"] <= 1.0 and row["seeds"] == 2 for row in table.values())
    assert table["local, all gaits"]["joint_rmse_median_deg"] < table["plain, as shipped"]["joint_rmse_median_deg"]
    capsys.readouterr()
    assert salp_hardware.rows(plan) == rows
    assert "6 of 6 runs are there from before" in capsys.readouterr().out
    assert (scratch / "runs.jsonl").read_text() == kept


def test_drift_is_smaller_with_a_beacon(scratch: Path) -> None:
    plan = replace(salp_hardware.QUICK, estimators=(), gaits=("left",), data=TINY, beacon_s=3.0, beacon_seeds=1)
    rows = salp_hardware.rows(replace(plan, beacon_duration_s=9.0, followed="local"))
    drift = {row["beacon_s"]: row for row in rows if row.get("table", "").startswith("Drift")}
    assert drift[3.0]["position_rms_cm"][1] < drift[None]["position_rms_cm"][1]


@pytest.mark.slow
def test_filter_step_benchmark_runs(scratch: Path, models: Path) -> None:
    rows = salp_filter_step.rows(TINY, 1, 4.3, ("local",))
    peers = [row.get("peer") for row in rows]
    assert peers == ["scikit-learn, one batch", None, None]
    assert {path.name.split("_all_")[0] for path in models.glob("*.npz")} >= {"local", "gaussian_process"}
