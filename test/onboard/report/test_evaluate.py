"""From bag to run folder: complete, repeatable to the last byte; and run folders side by side."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evaluation_samples import CONFIGURATION, command, refusal, salp_messages, write
from rich.console import Console

from onboard_estimation.bags.bag import open_bag
from onboard_estimation.base.atomic_file import to_json
from onboard_estimation.base.configuration import load, to_parameter_file
from onboard_estimation.base.errors import UserError
from onboard_estimation.commands.evaluate import show_several
from onboard_estimation.judging.options import EvaluateOptions, JudgeSettings, WhatIf, recorded
from onboard_estimation.report import run_folder
from onboard_estimation.report.comparison import Comparison, compare_runs
from onboard_estimation.report.evaluate import evaluate_bag
from salp_estimation.model.configuration import SalpConfiguration

SIMULATE = ["simulate", "salp", "--scenario", "ideal", "--gait", "forward", "--duration", "6", "--seed", "3"]


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def in_another_process(*words: str | Path, folder: Path) -> str:
    """Standard output of the command, with other hashes of strings than here."""
    done = subprocess.run(
        [sys.executable, "-m", "onboard_estimation", *map(str, words)],
        cwd=folder,
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the bag `b` and the run `run`, as the issue makes them."""
    folder = tmp_path_factory.mktemp("shown")
    assert command(*SIMULATE, "--output", folder / "b").code == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        outcome = command("evaluate", "b", "--output", "run", "--json")
    assert (outcome.code, outcome.error) == (0, "")
    (folder / "printed.json").write_text(outcome.out)
    return folder


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def test_a_run_folder_holds_all_that_it_should(shown: Path) -> None:
    found = set(files(shown / "run"))
    assert {"config.yaml", "metrics.json", "run.json", "report.html", "estimates/metadata.yaml"} <= found
    assert any(name.startswith("plots/") and name.endswith(".png") for name in found)
    run, metrics = read_json(shown / "run" / "run.json"), read_json(shown / "run" / "metrics.json")
    assert run["source"] == "simulated"
    assert run["matched_ratio"] == metrics["run"]["matched_ratio"] == 1.0
    assert run["command"] == "onboard-estimation evaluate b --robot salp --estimator ukf"
    assert run["versions"].keys() >= {"python", "numpy", "numba", "rosbags", "evo", "onboard_estimation"}
    assert load(SalpConfiguration, shown / "run" / "config.yaml", {}) == CONFIGURATION
    printed = read_json(shown / "printed.json")
    assert printed["metrics"] == metrics
    for key in ("verdict", "robot", "estimator", "source", "sensors", "notes", "command"):
        assert printed[key] == run[key]
    assert printed["folder"] == "run"
    # Over names and contents, sorted by name: to be had with any tool.
    digest = hashlib.sha256()
    for name, content in sorted(files(shown / "b").items()):
        digest.update(name.encode() + content)
    assert run["inputs_sha256"] == {"bag": digest.hexdigest()}


@pytest.mark.slow
def test_evaluating_twice_gives_identical_files_but_for_the_time(shown: Path, tmp_path: Path) -> None:
    """Once here, once in another process and to another place; and so does simulating."""
    in_another_process(*SIMULATE, "--output", tmp_path / "b", folder=tmp_path)
    assert files(tmp_path / "b") == files(shown / "b")
    out = in_another_process("evaluate", "b", "--output", tmp_path / "again", "--json", folder=shown)
    first, second = files(shown / "run"), files(tmp_path / "again")
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] in ([], ["run.json"])
    runs = [json.loads(one.pop("run.json")) for one in (first, second)]
    for run in runs:
        del run["created_utc"]
    assert runs[0] == runs[1]
    assert {**json.loads(out), "folder": "run"} == read_json(shown / "printed.json")


def test_runs_go_where_nothing_is(shown: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run_folder, "write_plots", lambda *_: None)
    bag = write(tmp_path / "bags" / "b", salp_messages(1.0))
    folders = [evaluate_bag(path, EvaluateOptions()).folder for path in (bag, Path("bags/b/"), bag)]
    assert folders == [Path("runs/b-salp"), Path("runs/b-salp-2"), Path("runs/b-salp-3")]
    monkeypatch.chdir(bag)
    result = evaluate_bag(Path(), EvaluateOptions(), tmp_path / "run").result
    assert (result.bag, result.source) == ("b", "recorded")  # it does not say that it was simulated


def test_an_interrupted_evaluation_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    bag = write(tmp_path / "bag", salp_messages(1.0))
    monkeypatch.setattr(run_folder, "write_plots", interrupt)
    outcome = command("evaluate", bag, "--output", tmp_path / "run")
    assert outcome.code == 130
    assert outcome.error == "interrupted\n"
    assert [path.name for path in tmp_path.iterdir()] == ["bag"]


@pytest.mark.usefixtures("without_pictures")
def test_what_was_asked_for_is_kept(tmp_path: Path) -> None:
    bag, file = write(tmp_path / "bag", salp_messages(2.0)), tmp_path / "salp.yaml"
    assert command("config", "salp", "--set", "gyro.noise_stddev_rad_s=0.01", "--output", file).code == 0
    words = ("--config", file, "--set", "gate_probability=0.99", "--drop", "imu/link_2", "--delay", "imu=1ms")
    outcome = command("evaluate", bag, "--output", tmp_path / "run", "--lag", "0.3", *words)
    assert outcome.code == 0, outcome.error
    run = read_json(tmp_path / "run" / "run.json")
    assert (run["settings"]["overrides"], run["settings"]["lag_s"]) == ({"gate_probability": 0.99}, 0.3)
    assert run["inputs_sha256"]["config"] == hashlib.sha256(file.read_bytes()).hexdigest()
    resolved = load(SalpConfiguration, tmp_path / "run" / "config.yaml", {})
    assert (resolved.gyro.noise_stddev_rad_s, resolved.gate_probability) == (0.01, 0.99)
    assert {"What if: left out imu/link_2.", "What if: delayed imu=0.001s."} <= set(run["notes"])


@pytest.mark.slow
def test_several_estimators_on_one_bag_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a run folder of its own, as it has alone; the bag is read once."""
    monkeypatch.setattr(run_folder, "write_plots", lambda *_: None)
    bag = tmp_path / "hops"
    assert command("simulate", "hopper", "--duration", "14", "--output", bag).code == 0
    words = ["evaluate", bag, "--robot", "hopper", "--estimator", "kf1", "--estimator", "kf3"]
    outcome = command(*words, "--output", tmp_path / "runs", "--estimates-rate", "50", "--json")
    assert outcome.code == 0, outcome.error
    found = json.loads(outcome.out)
    assert [one["estimator"] for one in found] == ["kf1", "kf3"]
    assert [Path(one["folder"]) for one in found] == [tmp_path / "runs" / "kf1", tmp_path / "runs" / "kf3"]
    for one in found:
        assert read_json(Path(one["folder"]) / "run.json")["command"] == one["command"]
    alone = command(*words[:-2], "--output", tmp_path / "alone", "--message-by-message", "--json")
    assert alone.code == 0, alone.error
    assert found[0]["metrics"] == json.loads(alone.out)["metrics"]
    assert found[0]["metrics"]["height"] != found[1]["metrics"]["height"]
    with open_bag(tmp_path / "runs" / "kf1" / "estimates") as estimates:
        assert 14 * 49 <= estimates.topics["/hopper/state"].count <= 14 * 50 + 1
        told = [estimates.deserialize(raw) for raw in estimates.messages(["/hopper/phase_events"])]
    assert len(told) > 10
    assert {message.source for message in told} == {"touchdown", "max_squat", "liftoff", "apex"}
    notes = read_json(tmp_path / "runs" / "kf1" / "run.json")["notes"]
    assert any("evenly thinned" in note for note in notes)
    said = refusal(*words[:4], "--estimator", "kf1", "--estimator", "kf1")
    assert said == "--estimator kf1 is given 2 times"
    assert "hopper has no estimator 'ukf'" in refusal(*words, "--estimator", "ukf")


@pytest.mark.parametrize(
    ("count", "name", "blocks"), [(2, "kf", 1), (8, "kf", 1), (12, "bounce_encoder", 3), (8, "n" * 60, 3)]
)
def test_a_table_of_several_estimators(count: int, name: str, blocks: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Estimators are columns, beside each other while there is room; a line for each verdict, whatever its length."""
    part = {"z_rmse_m": 0.0907, "coverage_1_sigma": 0.81, "mean_nees_per_degree_of_freedom": 0.8}
    one = {"robot": "hopper", "source": "simulated", "folder": "runs/x/a", "figures": {"Hops found": "9 of 9"}}
    one["verdict"] = f"doubtful in {'z, ' * 60}(position: 1 % expected): height within 54 cm RMS; no leg encoder"
    metrics = [{"run": {}, "height": part | {"z_rmse_m": 0.01 * (k + 1)}, "hopper": {}} for k in range(count)]
    show_several([{**one, "estimator": f"{name}{k}", "metrics": found} for k, found in enumerate(metrics)])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 120
    assert sum("Height: Z RMSE (cm)" in line for line in lines) == blocks
    assert sum(": doubtful in" in line for line in lines) == count
    assert "54 cm" not in " ".join(lines)  # the table has it


def test_json_has_no_numbers_that_json_does_not_have() -> None:
    text = to_json({"b": float("nan"), "a": (1, np.float64(2.5), np.array([1.0, np.inf])), 3: {"x": np.bool_(True)}})
    assert json.loads(text, parse_constant=lambda name: pytest.fail(name)) == {
        "3": {"x": True},
        "a": [1, 2.5, [1.0, None]],
        "b": None,
    }
    assert text.endswith("}\n")


CHAIN = {
    "joint_angle_rmse_deg": 0.2,
    "matched_ratio": 1.0,
    "pose": {"nees_mean": 3.1, "x": {"error_max_m": 0.02}},
    "joint_angles": {"coverage_3_sigma": [0.99, 1.0]},
}
FACTS = {"estimator": "ukf", "source": "simulated", "bag": "bags/forward"}
WALK = {"position_ate_rmse_m": 0.0412, "matched_ratio": 0.98, "consistent": False}


def run_of(folder: Path, metrics: Any, run: Any = None) -> Path:
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
    comparison = compare_runs([run_of(tmp_path / "a", CHAIN, facts()), run_of(tmp_path / "b", better, facts())])
    assert comparison.notes == ()
    table = printed(comparison)
    assert row(table, "robot") == ["robot", "salp", "salp", ""]
    assert row(table, "Joint angle RMSE") == ["Joint angle RMSE (deg)", "0.2", "0.15", "-25 %"]
    assert row(table, "Pose / x / Error max") == ["Pose / x / Error max (cm)", "2", "3", "+50 %"]
    assert row(table, "Coverage 3 sigma")[1:] == ["0.99, 1", "0.99, 1", ""]
    other = compare_runs([comparison.runs[0].folder, run_of(tmp_path / "c", '{"joint_angle_rmse_deg": NaN}', facts())])
    mapping = json.loads(json.dumps(other.summary(), allow_nan=False))  # strict JSON with one value per run
    assert mapping["metrics"]["joint_angle_rmse_deg"] == [0.2, None]
    assert mapping["metrics"]["pose.x.error_max_m"] == [0.02, None]
    assert mapping["runs"][0] == {"folder": str(tmp_path / "a"), "name": "a", "robot": "salp", **FACTS}
    assert row(printed(other), "Joint angle RMSE")[1:] == ["0.2", "not available", ""]


def test_what_two_runs_differ_in_stands_before_their_figures(tmp_path: Path) -> None:
    quiet = replace(CONFIGURATION, gyro=replace(CONFIGURATION.gyro, noise_stddev_rad_s=0.001))
    biased = EvaluateOptions(what_if=WhatIf(bias={"imu/link_3.gyro_z": 0.01}), settings=JudgeSettings(bulk=False))
    for name, configuration, options, model in (
        ("a", CONFIGURATION, EvaluateOptions(), "1" * 64),
        ("b", quiet, biased, "2" * 64),
    ):
        known = {"settings": recorded(options), "inputs_sha256": {"bag": "0" * 64, "model": model}}
        run = facts() | known | {"verdict": f"consistent: {name}", "versions": {"numpy": "2.0", "evo": model[:1]}}
        (run_of(tmp_path / name, CHAIN, run) / "config.yaml").write_text(to_parameter_file(configuration))
    comparison = compare_runs([tmp_path / "a", tmp_path / "b"])
    differs = {
        "verdict": ["consistent: a", "consistent: b"],
        "options": ["", "--bias imu/link_3.gyro_z=0.01 --message-by-message"],
        "gyro.noise_stddev_rad_s": [str(CONFIGURATION.gyro.noise_stddev_rad_s), "0.001"],
        "content of model": ["1" * 12, "2" * 12],
        "evo": ["1", "2"],
    }
    assert comparison.differing() == json.loads(json.dumps(comparison.summary()))["differs"] == differs
    table = printed(comparison)
    assert row(table, "options") == ["options", "-", differs["options"][1], ""]
    places = [table.index(name) for name in (*differs, "estimator", "Joint angle RMSE")]
    assert max(places[: len(differs)]) < places[-2] < places[-1]


def test_three_runs_of_different_robots_say_what_does_not_compare(tmp_path: Path) -> None:
    folders = [
        run_of(tmp_path / "chain", CHAIN, facts()),
        run_of(tmp_path / "walk", WALK, facts("strapdown", "recorded", "walks/1")),
        run_of(tmp_path / "other", WALK, None),
    ]
    comparison = compare_runs(folders)
    table = printed(comparison)
    assert "change" not in table
    assert row(table, "Consistent") == ["Consistent", "-", "no", "no"]
    assert row(table, "source") == ["source", "simulated", "recorded", "unknown"]
    for said in ("are mixed", "not known of: other", "2 different robots", "2 different bags", "1 of 7 metrics"):
        assert said in " ".join(comparison.notes)


def test_folders_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    first = run_of(tmp_path / "one" / "run", CHAIN, facts())
    second = run_of(tmp_path / "two" / "run", CHAIN, facts())
    assert [run.name for run in compare_runs([first, second]).runs] == [str(first), str(second)]
    assert [run.name for run in compare_runs([first, first]).runs] == [f"{first} (1)", f"{first} (2)"]


def test_names_do_not_reach_the_terminal_as_commands(tmp_path: Path) -> None:
    hostile = run_of(tmp_path / "[red]x[bold]", {"a[bold]": "\x1b[2J[link=x]y"}, facts("\x1b]0;title\x07"))
    table = printed(compare_runs([hostile, run_of(tmp_path / "b", CHAIN, facts())]))
    assert not {"\x1b", "\x07"} & set(table)
    for literal in ("[red]x[bold]", "[link=x]y", "A[bold]"):
        assert literal in table


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (('{"a": 1', facts()), "metrics.json cannot be read"),
        (("[" * 100_000, facts()), "metrics.json cannot be read"),
        (("[1, 2]", facts()), "metrics.json holds a list, not a mapping"),
        ((CHAIN, "{"), "run.json cannot be read"),
    ],
)
def test_broken_files_are_one_line(tmp_path: Path, files: tuple[Any, Any], said: str) -> None:
    with pytest.raises(UserError) as caught:
        compare_runs([run_of(tmp_path / "good", CHAIN, facts()), run_of(tmp_path / "broken", *files)])
    assert str(tmp_path / "broken" / said.split()[0]) in str(caught.value)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_all_faults_are_named_at_once_and_comparing_takes_two(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"absent is no folder.*empty has no metrics\.json"):
        compare_runs([tmp_path / "absent", tmp_path / "empty"])
    with pytest.raises(UserError, match="two or more run folders, got 1"):
        compare_runs([tmp_path])
