"""Runs benchmarks, keeps their results in `results/` and writes `docs/results.md` from them.

    python -m benchmarks                    # those that take a few minutes
    python -m benchmarks --list
    python -m benchmarks --only unscented_step --only evaluate_bag
    python -m benchmarks --quick            # fewer repetitions, only printed
    python -m benchmarks --show salp_hardware  # all that is kept of one, measured earlier
    python -m benchmarks --page             # the page from what is kept, with what is older than its code marked

A benchmark is a module in one of the folders of `HEADINGS`, its parts are the public functions whose only parameter is
`quick`: each returns the cases of a result (see `timing.case`), is named by itself (`run`: by its module) and says in
the first line of its docstring (`run`: of its module's) what it measures. Parts named in the module's
`RUNS_UNASKED` run without `--only`. Nothing has to be listed anywhere.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.table import HEADINGS, TABLE_FILE, shown, write_table

HERE = Path(__file__).parent
RESULTS = HERE / "results"
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
"""NumPy's linear algebra on the matrices of these benchmarks is fastest with one thread, by far on a busy machine."""


PACKAGES = ("onboard_estimation", "numpy", "scipy", "numba", "filterpy", "rosbags", "evo", "matplotlib")
"""What figures depend on."""


class Part(NamedTuple):
    """What is measured and kept at once, and where it is."""

    name: str
    folder: str
    module: str
    function: str
    summary: str
    unasked: bool


@cache
def parts() -> dict[str, Part]:
    """All of them by name, in the order of the page; modules are read, not imported."""
    found = {}
    for folder in HEADINGS:
        for path in sorted((HERE / folder).glob("*.py")):
            for one in _of_module(folder, path):
                found[one.name] = one
    return found


def _of_module(folder: str, path: Path) -> Iterable[Part]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    unasked: Sequence[str] = ()
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "RUNS_UNASKED":
            unasked = ast.literal_eval(node.value)
        if (
            isinstance(node, ast.FunctionDef)
            and not node.name.startswith("_")
            and ast.unparse(node.args) == "quick: bool"
        ):
            name, told = (path.stem, tree) if node.name == "run" else (node.name, node)
            summary = (ast.get_docstring(told) or "").partition("\n")[0]
            yield Part(name, folder, path.stem, node.name, summary, name in unasked)


def git(*words: str) -> str:
    """What git says of this repository; empty where it does not know."""
    command = ["git", "-C", str(HERE.parent), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def commit() -> str:
    """The commit that is measured, with a mark where the working tree has changes of its own."""
    return git("describe", "--always", "--dirty", "--exclude=*")


@cache
def _newest(folder: str) -> str:
    """The newest commit that changed the code that the benchmarks of a folder measure."""
    return git("log", "-1", "--format=%H", "--", *HEADINGS[folder][1])


def older(result: dict[str, Any]) -> bool:
    """Whether the code that a result tells of was changed after the commit of the result."""
    newest = _newest(parts()[result["benchmark"]].folder)
    return git("merge-base", newest or "HEAD", result["commit"].removesuffix("-dirty")) != newest


def measure(name: str, quick: bool) -> dict[str, Any]:
    """A part's result."""
    part = parts()[name]
    try:
        module = import_module(f"benchmarks.{part.folder}.{part.module}")
    except ModuleNotFoundError as error:
        if error.name != "recorded_robots":
            raise
        sys.exit(f"{name} needs the recordings' own package: pip install ./examples/recorded_robots")
    before = conditions(part)
    return {**before, "cases": getattr(module, part.function)(quick)}


def conditions(part: Part) -> dict[str, Any]:
    """What is measured, when, at which commit and on what."""
    from onboard_estimation.realtime.machine_facts import memory_gb, processor, versions

    return {
        "benchmark": part.name,
        "summary": part.summary,
        "date_utc": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": {
            "processor": processor(),
            "architecture": platform.machine(),
            "cores": os.cpu_count(),
            "memory_gb": memory_gb(),
            "system": f"{platform.system()} {platform.release()}",
            "load_average_before": round(os.getloadavg()[0], 2),
        },
        "versions": versions(PACKAGES),
    }


def load_results() -> dict[str, list[dict[str, Any]]]:
    """The kept results by folder, in the order of the page, each with whether it is `older` than what it measures."""
    found: dict[str, list[dict[str, Any]]] = {folder: [] for folder in HEADINGS}
    for name, part in parts().items():
        if (path := RESULTS / f"{name}.json").exists():
            result = json.loads(path.read_text())
            found[part.folder].append({**result, "older": older(result)})
    return found


def keep(result: dict[str, Any]) -> None:
    """A result, in place of an earlier one."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{result['benchmark']}.json").write_text(json.dumps(result, indent=1) + "\n")


def main(arguments: list[str] | None = None) -> None:
    """The command; exit code 1 where a target was missed."""
    known = parts()
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Speed against peers, in the same run.")
    parser.add_argument("--list", action="store_true", help="list the benchmarks and end")
    parser.add_argument("--only", action="append", metavar="NAME", choices=known, help="may repeat")
    parser.add_argument("--show", metavar="NAME", choices=known, help="print a kept result and end")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions; the results are only printed")
    parser.add_argument("--page", action="store_true", help="write the page anew from what is kept, and end")
    options = parser.parse_args(arguments)
    if options.list:
        for one in known.values():
            print(f"{one.name:22} {one.summary}{'' if one.unasked else ' (only with --only)'}")
        return
    if options.show:
        print(shown(json.loads((RESULTS / f"{options.show}.json").read_text())))
        return
    if options.page:
        write_table(load_results())
        return
    for variable in ONE_THREAD[:3]:  # before anything imports NumPy
        os.environ.setdefault(variable, "1")
    missed = []
    for name in options.only or [one.name for one in known.values() if one.unasked]:
        print(f"\n{name}: {known[name].summary}", flush=True)
        result = measure(name, options.quick)
        print(shown(result), flush=True)
        missed += [f"{name}: {row['case']}" for row in result["cases"] if row.get("met") is False]
        if not options.quick:
            keep(result)
    if not options.quick:
        write_table(load_results())
        print(f"\nkept in {RESULTS}; table written to {TABLE_FILE.name}")
    for line in missed:
        print(f"target missed: {line}", file=sys.stderr)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
