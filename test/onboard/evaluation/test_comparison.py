"""Runs side by side: numbers, what is missing, and broken folders in one line."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from onboard_estimation.base.errors import UserError
from onboard_estimation.report.comparison import Comparison, compare_runs

CHAIN = {
    "joint_angle_rmse_deg": 0.2,
    "matched_ratio": 1.0,
    "pose": {"nees_mean": 3.1, "x": {"error_max_m": 0.02}},
    "joint_angles": {"coverage_3_sigma": [0.99, 1.0]},
}
FACTS = {"estimator": "ukf", "source": "simulated", "bag": "bags/forward"}
WALK = {"position_ate_rmse_m": 0.0412, "matched_ratio": 0.98, "consistent": False}


def run_folder(folder: Path, metrics: Any, run: Any = None) -> Path:
    folder.mkdir(parents=True)
    (folder / "metrics.json").write_text(metrics if isinstance(metrics, str) else json.dumps(metrics))
    if run is not None:
        (folder / "run.json").write_text(run if isinstance(run, str) else json.dumps(run))
    return folder


def facts(robot: str = "salp", source: str = "simulated", bag: str = "bags/forward") -> dict[str, Any]:
    return {"robot": robot, "estimator": "ukf", "source": source, "bag": bag, "seed": 3}


def printed(comparison: Comparison, width: int = 160) -> str:
    console = Console(file=StringIO(), width=width, color_system=None)
    console.print(comparison.table())
    output = console.file
    assert isinstance(output, StringIO)
    return output.getvalue()


def row(table: str, label: str) -> list[str]:
    line = next(line for line in table.splitlines() if label in line)
    return [cell.strip() for cell in line.strip()[1:-1].split("│")]


def test_two_runs_of_one_robot(tmp_path: Path) -> None:
    better = {**CHAIN, "joint_angle_rmse_deg": 0.15, "pose": {"nees_mean": 3.1, "x": {"error_max_m": 0.03}}}
    comparison = compare_runs([run_folder(tmp_path / "a", CHAIN, facts()), run_folder(tmp_path / "b", better, facts())])
    assert comparison.notes == ()
    table = printed(comparison)
    assert row(table, "robot") == ["robot", "salp", "salp", ""]
    assert row(table, "Joint angle RMSE") == ["Joint angle RMSE (degrees)", "0.2", "0.15", "-25 %"]
    assert row(table, "Pose / x / Error max") == ["Pose / x / Error max (metres)", "0.02", "0.03", "+50 %"]
    assert row(table, "Pose / NEES mean")[1:] == ["3.1", "3.1", "0 %"]
    assert row(table, "Coverage 3 sigma")[1:] == ["0.99, 1", "0.99, 1", ""]


def test_mapping_is_strict_json_with_one_value_per_run(tmp_path: Path) -> None:
    text = '{"joint_angle_rmse_deg": NaN, "bias": [1.0, Infinity], "runs": 3}'
    comparison = compare_runs([run_folder(tmp_path / "a", CHAIN, facts()), run_folder(tmp_path / "b", text, facts())])
    mapping = json.loads(json.dumps(comparison.mapping(), allow_nan=False))
    assert mapping["metrics"]["joint_angle_rmse_deg"] == [0.2, None]
    assert mapping["metrics"]["bias"] == [None, [1.0, None]]
    assert mapping["metrics"]["pose.x.error_max_m"] == [0.02, None]
    assert mapping["runs"][0] == {"folder": str(tmp_path / "a"), "name": "a", "robot": "salp", **FACTS}
    assert row(printed(comparison), "Joint angle RMSE")[1:] == ["0.2", "not available", ""]


def test_three_runs_of_different_robots_say_what_does_not_compare(tmp_path: Path) -> None:
    folders = [
        run_folder(tmp_path / "chain", CHAIN, facts()),
        run_folder(tmp_path / "walk", WALK, facts("strapdown", "recorded", "walks/1")),
        run_folder(tmp_path / "other", WALK, None),
    ]
    comparison = compare_runs(folders)
    table = printed(comparison)
    assert "change" not in table
    assert row(table, "Position ATE RMSE") == ["Position ATE RMSE (metres)", "-", "0.0412", "0.0412"]
    assert row(table, "Matched ratio") == ["Matched ratio (share, 0 to 1)", "1", "0.98", "0.98"]
    assert row(table, "Consistent") == ["Consistent", "-", "no", "no"]
    assert row(table, "source") == ["source", "simulated", "recorded", "unknown"]
    notes = " ".join(comparison.notes)
    assert "Simulated and recorded runs are mixed" in notes
    assert "not known of: other" in notes
    assert "2 different robots" in notes
    assert "2 different bags" in notes
    assert "1 of 7 metrics are in all runs" in notes


def test_folders_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    first = run_folder(tmp_path / "one" / "run", CHAIN, facts())
    second = run_folder(tmp_path / "two" / "run", CHAIN, facts())
    assert [run.name for run in compare_runs([first, second]).runs] == [str(first), str(second)]
    assert [run.name for run in compare_runs([first, first]).runs] == [f"{first} (1)", f"{first} (2)"]


def test_names_do_not_reach_the_terminal_as_commands(tmp_path: Path) -> None:
    hostile = run_folder(tmp_path / "[red]x[bold]", {"a[bold]": "\x1b[2J[link=x]y"}, facts("\x1b]0;title\x07"))
    table = printed(compare_runs([hostile, run_folder(tmp_path / "b", CHAIN, facts())]))
    assert not {"\x1b", "\x07"} & set(table)
    for literal in ("[red]x[bold]", "[link=x]y", "A[bold]"):
        assert literal in table


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"a": 1', "cannot be read"),
        ("", "cannot be read"),
        ("[1, 2]", "holds a list, not a mapping"),
        ("3", "holds a int, not a mapping"),
        ("[" * 100_000, "cannot be read"),
    ],
)
def test_broken_metrics_are_one_line(tmp_path: Path, content: str, expected: str) -> None:
    good, broken = run_folder(tmp_path / "good", CHAIN, facts()), run_folder(tmp_path / "broken", content, facts())
    with pytest.raises(UserError, match=expected) as caught:
        compare_runs([good, broken])
    assert str(broken / "metrics.json") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_broken_run_json_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    good = run_folder(tmp_path / "good", CHAIN, facts())
    broken = run_folder(tmp_path / "broken", CHAIN, "{")
    with pytest.raises(UserError, match=r"run\.json cannot be read"):
        compare_runs([good, broken])
    (broken / "run.json").write_text("{}")
    (broken / "metrics.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(UserError, match=r"metrics\.json cannot be read"):
        compare_runs([good, broken])


def test_all_faults_are_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError) as caught:
        compare_runs([tmp_path / "absent", tmp_path / "empty"])
    assert "absent is no folder" in str(caught.value)
    assert "empty has no metrics.json" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("count", [0, 1])
def test_comparing_takes_two(tmp_path: Path, count: int) -> None:
    with pytest.raises(UserError, match=f"two or more run folders, got {count}"):
        compare_runs([tmp_path] * count)
