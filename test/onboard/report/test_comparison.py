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
    """A folder with these files, of which a text or bytes stand as they are."""
    folder.mkdir(parents=True)
    for name, content in (("metrics.json", metrics), ("run.json", run)):
        if content is not None:
            text = content if isinstance(content, (str, bytes)) else json.dumps(content)
            (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def facts(robot: str = "salp", source: str = "simulated", bag: str = "bags/forward") -> dict[str, Any]:
    return {"robot": robot, "estimator": "ukf", "source": source, "bag": bag, "seed": 3}


def printed(comparison: Comparison, width: int = 160) -> str:
    console = Console(file=StringIO(), width=width, color_system=None)
    with console.capture() as captured:
        console.print(comparison.table())
    return captured.get()


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
    assert row(table, "Pose / x / Error max")[1:] == ["0.02", "0.03", "+50 %"]
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
    assert row(table, "Consistent") == ["Consistent", "-", "no", "no"]
    assert row(table, "source") == ["source", "simulated", "recorded", "unknown"]
    for said in ("are mixed", "not known of: other", "2 different robots", "2 different bags", "1 of 7 metrics"):
        assert said in " ".join(comparison.notes)


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
    ("files", "said"),
    [
        (('{"a": 1', facts()), "metrics.json cannot be read"),
        ((b"\xff\xfe{}", facts()), "metrics.json cannot be read"),
        (("[" * 100_000, facts()), "metrics.json cannot be read"),
        (("[1, 2]", facts()), "metrics.json holds a list, not a mapping"),
        ((CHAIN, "{"), "run.json cannot be read"),
    ],
)
def test_broken_files_are_one_line(tmp_path: Path, files: tuple[Any, Any], said: str) -> None:
    with pytest.raises(UserError) as caught:
        compare_runs([run_folder(tmp_path / "good", CHAIN, facts()), run_folder(tmp_path / "broken", *files)])
    assert str(tmp_path / "broken" / said.split()[0]) in str(caught.value)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_all_faults_are_named_at_once_and_comparing_takes_two(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"absent is no folder.*empty has no metrics\.json"):
        compare_runs([tmp_path / "absent", tmp_path / "empty"])
    with pytest.raises(UserError, match="two or more run folders, got 1"):
        compare_runs([tmp_path])
