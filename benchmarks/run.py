"""Runs benchmarks, keeps their results in `results/` and writes `docs/results.md` from them.

    python -m benchmarks                    # all but those that take many minutes
    python -m benchmarks --list
    python -m benchmarks --only unscented_step --only evaluate_bag
    python -m benchmarks --quick            # fewer repetitions, only printed
    python -m benchmarks --show salp_hardware  # all that is kept of one, measured earlier

A benchmark is a module of this package with a first docstring line that says what it measures and a function
`run(quick)` that returns the cases of its result, see `timing.case`.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
from datetime import datetime, timezone
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.machine import machine, versions
from benchmarks.table import TABLE_FILE, shown, write_table

RESULTS = Path(__file__).parent / "results"
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""NumPy's linear algebra on the matrices of these benchmarks is fastest with one thread, by far on a busy machine."""
BENCHMARKS = ("unscented_step", "chain_velocity", "pipeline_cost", "evaluate_bag", "recorded_walks", "live_graph")
ON_REQUEST = (
    "bag_reading",
    "campaigns",
    "ethercat_wrench",
    "clock_alignment",
    "evaluate_hour",
    "from_nothing",
    "fuzz",
    "fuzz_bags",
    "hopper_filters",
    "hopper_foreign",
    "hopper_handled",
    "hopper_live",
    "hopper_sensor_faults",
    "hopper_step",
    "hopper_training",
    "hopper_uneven",
    "hopper_unknown",
    "live_hour",
    "marginalized_pf_step",
    "motion_capture",
    "pendulums",
    "residual_training",
    "salp_filter_step",
    "salp_foreign",
    "salp_hardware",
    "salp_noise",
    "salp_own",
    "salp_surprises",
    "salp_unknown",
    "serial_imu",
    "soft_arm",
    "softrobot_live",
    "softrobot_paper",
    "softrobot_unknown",
    "thruster_chain_paper",
    "thruster_chain_step",
    "thruster_chain_unknown",
    "tune",
    "two_link_imu",
    "vicon_stream",
    "walks_left_out",
)
"""Only with --only: they take from a few minutes to more than an hour."""


def summary(name: str) -> str:
    """What a benchmark measures, in a line."""
    spec = find_spec(f"benchmarks.{name}")
    text = Path(spec.origin or "").read_text(encoding="utf-8") if spec else ""
    return (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]


def commit() -> str:
    """The commit that is measured, with a mark where the working tree has changes of its own."""
    git = ["git", "-C", str(RESULTS.parent), "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()


def measure(name: str, quick: bool) -> dict[str, Any]:
    """A benchmark's result."""
    before = machine()
    try:
        benchmark = import_module(f"benchmarks.{name}")
    except ModuleNotFoundError as error:
        if error.name != "recorded_robots":
            raise
        sys.exit(f"{name} needs the recordings' own package: pip install ./examples/recorded_robots")
    return {
        "benchmark": name,
        "summary": summary(name),
        "date_utc": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": before,
        "versions": versions(),
        "cases": benchmark.run(quick),
    }


def load_results(folder: Path = RESULTS) -> list[dict[str, Any]]:
    """The kept results, in the order of the benchmarks."""
    paths = [folder / f"{name}.json" for name in (*BENCHMARKS, *ON_REQUEST)]
    return [json.loads(path.read_text()) for path in paths if path.exists()]


def main(arguments: list[str] | None = None) -> None:
    """The command; exit code 1 where a target was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Speed against peers, in the same run.")
    parser.add_argument("--list", action="store_true", help="list the benchmarks and end")
    parser.add_argument(
        "--only", action="append", metavar="NAME", choices=(*BENCHMARKS, *ON_REQUEST), help="may repeat"
    )
    parser.add_argument(
        "--show", metavar="NAME", choices=(*BENCHMARKS, *ON_REQUEST), help="print a kept result and end"
    )
    parser.add_argument("--quick", action="store_true", help="fewer repetitions; the results are only printed")
    options = parser.parse_args(arguments)
    if options.list:
        for name in (*BENCHMARKS, *ON_REQUEST):
            print(f"{name:16} {summary(name)}{' (only with --only)' if name in ON_REQUEST else ''}")
        return
    if options.show:
        print(shown(json.loads((RESULTS / f"{options.show}.json").read_text())))
        return
    for variable in ONE_THREAD:  # before anything imports NumPy
        os.environ.setdefault(variable, "1")
    missed = []
    for name in options.only or BENCHMARKS:
        print(f"\n{name}: {summary(name)}", flush=True)
        result = measure(name, options.quick)
        print(shown(result), flush=True)
        missed += [f"{name}: {row['case']}" for row in result["cases"] if row.get("met") is False]
        if not options.quick:
            RESULTS.mkdir(exist_ok=True)
            (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    if not options.quick:
        write_table(load_results())
        print(f"\nkept in {RESULTS.relative_to(Path.cwd()) if RESULTS.is_relative_to(Path.cwd()) else RESULTS}")
        print(f"table written to {TABLE_FILE.name}")
    for line in missed:
        print(f"target missed: {line}", file=sys.stderr)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
