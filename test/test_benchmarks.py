"""The table in the docs is the one of the kept results; every benchmark says what it measures. Nothing is timed."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.run import BENCHMARKS, ON_REQUEST, RESULTS, load_results, summary
from benchmarks.table import END, START, TABLE_FILE, render, replaced


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
        assert result["cases"]
        for row in result["cases"]:
            if "target_times_faster" in row:
                assert row["met"] == (row["times_faster_median"] >= row["target_times_faster"])


def test_only_what_stands_between_the_markers_is_replaced() -> None:
    assert replaced(f"before {START} old {END} after", "new") == f"before {START}\n\nnew\n{END} after"
