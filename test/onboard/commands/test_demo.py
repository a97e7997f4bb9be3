"""`onboard-estimation demo`: what a newcomer sees first."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from evaluation_samples import command, salp_messages, write

from onboard_estimation.commands import demo
from onboard_estimation.judging.options import EvaluateOptions
from onboard_estimation.report import run_folder
from onboard_estimation.report.evaluate import Evaluation, evaluate_bag


def test_cost_progress_and_one_table_with_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_SECONDS", 6.0)
    monkeypatch.setattr(run_folder, "write_plots", lambda *_: None)
    outcome = command("demo", "strapdown", "--output", tmp_path / "out")
    assert outcome.code == 0, outcome.error
    first, cost, *_ = outcome.out.splitlines()
    assert first == f"strapdown: simulated and judged, into {tmp_path / 'out'}."
    assert re.search(r"\d+ s of processor time the first time.*; \d+ MB of disk", cost)
    # Nothing but lines where there is no terminal: each part when it begins.
    assert outcome.error.splitlines()[0] == "strapdown: simulating 6 s"
    assert "strapdown: evaluating" in outcome.error.splitlines()
    table = outcome.out[outcome.out.index("simulated run") :]
    assert re.search(r"strapdown +6 s, walk.* position +[\d.]+ (mm|cm) +[\d.]+ % +[\d.]+ %", table)
    assert outcome.out.count("simulated run") == 1
    assert "\N{REPLACEMENT CHARACTER}" not in outcome.out
    assert " strapdown/report.html " in table
    assert (tmp_path / "out" / "strapdown" / "report.html").is_file()


def test_a_filter_that_is_lost_has_no_error(tmp_path: Path) -> None:
    """Hundreds of centimetres on a path of 36 cm would look like a fault of the demonstration."""
    judged = evaluate_bag(write(tmp_path / "bag", salp_messages(3.0)), EvaluateOptions(), keep=None)
    result = judged.result
    assert "lost" not in str(demo._lines(judged, "as it is"))
    pose = {**result.metrics["pose"], "mean_nees_per_degree_of_freedom": 1e6}
    [row] = demo._lines(Evaluation(replace(result, metrics={**result.metrics, "pose": pose}), tmp_path), "as it is")
    assert row[3:6] == ("lost", "-", "-")
