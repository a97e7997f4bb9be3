"""Results whose rows are made one by one: new ones take the place of the old in the kept file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.machine import machine, versions


def keep_rows(benchmark: str, docstring: str, rows: Iterable[dict[str, Any]], order: Sequence[str]) -> None:
    """Put rows into the kept result of a benchmark, in the order of their cases; its first line is the summary."""
    path = Path(__file__).parent / "results" / f"{benchmark}.json"
    kept = json.loads(path.read_text())["cases"] if path.exists() else []
    found = {row["case"]: row for row in (*kept, *rows)}
    result = {
        "benchmark": benchmark,
        "summary": docstring.splitlines()[0],
        "date_utc": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": versions(),
        "cases": [found[name] for name in order if name in found],
    }
    path.write_text(json.dumps(result, indent=1) + "\n")
