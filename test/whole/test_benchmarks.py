"""The table in the docs is the one of the kept results; every benchmark says what it measures. Nothing is timed."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.run import RESULTS, git, load_results, parts
from benchmarks.salp import accuracy, runs
from benchmarks.salp.runs import TrainingSet
from benchmarks.table import OLDER, TABLE_FILE, came_out, render, replaced, shown


def test_table_in_the_docs_is_that_of_the_results() -> None:
    """What is older than the code that it measures is marked, where git has the history that tells."""
    text, results = TABLE_FILE.read_text(), load_results()
    page = replaced(text, render(results))
    assert page.replace(OLDER, "") == text.replace(OLDER, ""), "`python -m benchmarks` writes the page"
    for folder, kept in results.items():
        for result in (one for one in kept if one["benchmark"].startswith("reproduce_")):
            robot = TABLE_FILE.with_name(f"{folder}.md").read_text()
            assert replaced(robot, came_out(result)) == robot, "`python -m benchmarks --page` writes it"
    if git("rev-parse", "--is-shallow-repository") == "false":
        lines = text.splitlines()
        unmarked = {line.split("`")[1] for line in lines if line.startswith("`") and not line.endswith(OLDER)}
        changed = {one["benchmark"] for some in results.values() for one in some if one["older"]}
        assert not changed & unmarked, "their code was changed: `python -m benchmarks --page` marks them"


def test_every_benchmark_says_what_it_measures_and_kept_results_are_whole() -> None:
    for name, part in parts().items():
        assert len(part.summary) > 20, name
    assert len({(part.folder, part.module) for part in parts().values()}) <= 25
    assert {name for name, part in parts().items() if part.unasked} == {
        *("unscented_step", "chain_velocity", "evaluate_bag", "recorded_walks", "live_graph")
    }
    kept = list(Path(RESULTS).glob("*.json"))
    assert {path.stem for path in kept} <= set(parts())
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


def test_training_and_test_seeds_are_never_shared() -> None:
    taught = TrainingSet().runs()
    assert len(set(taught)) == len(taught) == 25
    assert min(seed for _, seed in taught) >= runs.FIRST_TRAINING_SEED > accuracy.FIRST_TEST_SEED + 100
