"""Campaigns: 200 runs on two workers against one process, a simulated cluster, and what a scheduler costs.

Runs are the salp's, scenario `ideal`, 60 s each, with their reports, all five gaits; kernels are compiled before. The
cluster is a Dask scheduler with workers that are processes of their own, each in a folder of its own, on this machine's
cores, and its table is compared byte by byte with that of one process. About 20 minutes.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.clusters import cluster
from onboard_estimation.evaluation.campaign import RESULTS, Progress, run_campaign
from onboard_estimation.evaluation.campaign_case import Case
from onboard_estimation.evaluation.campaign_table import Table, cases_of, simulated_runs
from onboard_estimation.workers import Workers, WorkersAsked, open_workers

Row = dict[str, Any]

RUNS, SECONDS = 200, 60.0
CLUSTERS, CLUSTER_RUNS = (4, 8), 80
TASKS, TASK_BYTES = 10_000, 200_000
LEAST_RATIO, LARGEST_OVERHEAD_S, LARGEST_GROWTH = 1.8, 0.050, 0.05
WATCHED_EVERY = 10


class Timed(NamedTuple):
    """A campaign that was timed.

    Attributes
    ----------
    table
        Bytes of `results.parquet`.
    memory_mb
        (M, W) of the workers, every tenth run.
    """

    seconds: float
    table: bytes
    memory_mb: np.ndarray


def run(quick: bool) -> list[Row]:
    """The rows of the table."""
    runs = 10 if quick else RUNS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cases = _cases(runs)
        with open_workers(WorkersAsked(0)) as workers:
            _timed(cases[:1], folder / "compiled", workers)
            alone = _timed(cases, folder / "alone", workers)
        two = _of_this_machine(2, cases, folder / "two")
        one = _of_this_machine(1, cases, folder / "one")
        rows = _own_rows(alone, one, two, runs)
        rows += _cluster_rows(folder, _cases(10 if quick else CLUSTER_RUNS))
        rows += _scheduler_rows(folder, 200 if quick else TASKS)
    return rows


def _cases(count: int) -> list[Case]:
    return cases_of(Table("salp", simulated=simulated_runs("salp", "ideal", [], range(count // 5), SECONDS)))


def _timed(cases: list[Case], folder: Path, workers: Workers) -> Timed:
    memory: list[list[float]] = []

    def watch(progress: Progress) -> None:
        if progress.finished % WATCHED_EVERY == 0:
            memory.append([float(one) for one in workers.everywhere(_memory_mb).values()])

    start = time.perf_counter()
    run_campaign(cases, folder, workers, progress=watch)
    seconds = time.perf_counter() - start
    return Timed(seconds, (folder / RESULTS).read_bytes(), np.array(memory))


def _of_this_machine(count: int, cases: list[Case], folder: Path) -> Timed:
    """With the time that the workers take to start."""
    start = time.perf_counter()
    with open_workers(WorkersAsked(count)) as workers:
        found = _timed(cases, folder, workers)
    return found._replace(seconds=time.perf_counter() - start)


def _own_rows(alone: Timed, one: Timed, two: Timed, runs: int) -> list[Row]:
    ratio = alone.seconds / two.seconds
    overhead_s = (one.seconds - alone.seconds) / runs
    half = len(two.memory_mb) // 2
    middle, last = (np.median(part, axis=0) for part in (two.memory_mb[half // 2 : half], two.memory_mb[-half // 2 :]))
    growth = float(np.max(last / middle - 1.0))
    figures = f"{alone.seconds:.0f} s in one process, {two.seconds:.0f} s on two workers: {ratio:.2f} times faster"
    return [
        _row(f"{runs} runs of 60 s", figures, f">= {LEAST_RATIO:g} times", ratio >= LEAST_RATIO),
        _row(
            "what one worker costs more than none",
            f"{1e3 * overhead_s:.0f} ms a run, its start included",
            f"<= {1e3 * LARGEST_OVERHEAD_S:.0f} ms",
            overhead_s <= LARGEST_OVERHEAD_S,
        ),
        _row(
            "memory of a worker",
            f"{np.max(middle):.0f} MB in the second quarter, {np.max(last):.0f} MB in the last: {100 * growth:+.1f} %",
            f"<= {100.0 * LARGEST_GROWTH:.0f} % more",
            growth <= LARGEST_GROWTH,
        ),
        _row(
            "table of two workers and of one", "equal to the last byte", "equal", alone.table == two.table == one.table
        ),
    ]


def _cluster_rows(folder: Path, cases: list[Case]) -> list[Row]:
    with open_workers(WorkersAsked(0)) as workers:
        expected = _timed(cases, folder / "expected", workers).table
    rows = []
    for count in CLUSTERS:
        with _cluster(folder / f"cluster_{count}", count) as workers:
            found = _timed(cases, folder / f"of_{count}", workers)
        equal = found.table == expected
        figure = f"{'equal' if equal else 'other'} to one process's; {found.seconds:.0f} s on these cores"
        rows.append(_row(f"{len(cases)} runs on a cluster of {count} workers", figure, "equal", equal))
    return rows


def _scheduler_rows(folder: Path, tasks: int) -> list[Row]:
    """Tasks that do nothing, and give back as much as a run with its report."""
    with _cluster(folder / "scheduler", 2) as workers:
        start = time.perf_counter()
        received = sum(len(one.value) for one in workers.results(_nothing, range(tasks)))
        seconds = time.perf_counter() - start
    assert received == tasks * TASK_BYTES
    return [
        _row(
            f"{tasks} tasks of nothing, {TASK_BYTES / 1e3:.0f} kB each",
            f"{seconds:.0f} s, {1e3 * seconds / tasks:.1f} ms a task: scheduler, transfer and keeping account",
        )
    ]


@contextmanager
def _cluster(folder: Path, count: int) -> Iterator[Workers]:
    from distributed import Client

    with cluster(folder, count, {"PYTHONPATH": str(Path(__file__).parent.parent)}) as one:
        with Client(one.address, set_as_default=False) as client:
            client.wait_for_workers(count, timeout=120.0)
        with open_workers(WorkersAsked(scheduler=one.address)) as workers:
            yield workers


def _nothing(_: int) -> bytes:
    return bytes(TASK_BYTES)


def _memory_mb() -> float:
    import psutil

    return float(psutil.Process().memory_info().rss / 1e6)


def _row(case: str, figure: str, target: str = "", met: bool | None = None) -> Row:
    return {"case": case, "figure": figure} | ({} if met is None else {"target": target, "met": bool(met)})
