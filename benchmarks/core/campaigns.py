"""Campaigns: 200 runs on two workers against one process, a simulated cluster, and what a scheduler costs.

Runs are the salp's, scenario `ideal`, 60 s each, with their reports, all five gaits; kernels are compiled before. This
process, one worker, two workers and, as what the machine can do, two processes that have nothing in common take turns,
twenty runs at a time, since a virtual machine's speed changes within minutes; the workers' start is counted. The
cluster is a Dask scheduler with workers that are processes of their own, each in a folder of its own, on this machine's
cores, and its table is compared byte by byte with that of one process. About 20 minutes.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.core.clusters import cluster
from onboard_estimation.evaluation.campaign import RESULTS, run_campaign
from onboard_estimation.evaluation.campaign_case import Case
from onboard_estimation.evaluation.campaign_table import Table, cases_of, simulated_runs
from onboard_estimation.workers import Workers, WorkersAsked, open_workers

Row = dict[str, Any]

RUNS, SECONDS = 200, 60.0
BLOCK = 20
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


class Turns(NamedTuple):
    """Blocks of runs by each in turn.

    Attributes
    ----------
    blocks
        (this process, one worker, two workers, seconds of two processes that have nothing in common).
    start_s
        What the start and the first runs of no, one and two workers take longer than a run.
    """

    blocks: list[tuple[Timed, Timed, Timed, float]]
    start_s: list[float]

    @property
    def seconds(self) -> list[tuple[float, ...]]:
        """Of each block."""
        return [(*(one.seconds for one in block[:3]), block[3]) for block in self.blocks]

    @property
    def are_equal(self) -> bool:
        """Whether the tables are."""
        return all(alone.table == one.table == two.table for alone, one, two, _ in self.blocks)


def run(quick: bool) -> list[Row]:
    """The rows of the table."""
    runs = 10 if quick else RUNS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cases = _cases(runs)
        rows = _own_rows(_in_turns(cases, folder), runs)
        rows += _cluster_rows(folder, _cases(10 if quick else CLUSTER_RUNS))
        rows += _scheduler_rows(folder, 200 if quick else TASKS)
    return rows


def _cases(count: int) -> list[Case]:
    return cases_of(Table("salp", simulated=simulated_runs("salp", "ideal", [], range(count // 5), SECONDS)))


def _timed(cases: list[Case], folder: Path, workers: Workers) -> Timed:
    memory: list[list[float]] = []

    def watch(finished: int, failed: int) -> None:
        if finished % WATCHED_EVERY == 0:
            memory.append([float(one) for one in workers.everywhere(_memory_mb).values()])

    start = time.perf_counter()
    run_campaign(cases, folder, workers, progress=watch)
    seconds = time.perf_counter() - start
    return Timed(seconds, (folder / RESULTS).read_bytes(), np.array(memory))


def _in_turns(cases: list[Case], folder: Path) -> Turns:
    """All runs by each, block by block."""
    rng = np.random.default_rng(0)
    drawn = [cases[k] for k in rng.permutation(len(cases))]  # gaits take different times
    blocks = [drawn[k : k + BLOCK] for k in range(0, len(drawn), BLOCK)]
    starts, found = [], []
    with ExitStack() as stack:
        teams = []
        for count in (0, 1, 2):
            begun = time.perf_counter()
            teams.append(stack.enter_context(open_workers(WorkersAsked(count))))
            _timed(cases[: max(count, 1)], folder / f"first_{count}", teams[-1])
            starts.append(time.perf_counter() - begun)
        pair = stack.enter_context(ProcessPoolExecutor(2, multiprocessing.get_context("spawn")))
        _apart(pair, cases[:2], folder / "first_pair")
        for number, block in enumerate(blocks):
            of_teams = [_timed(block, folder / f"{number}_{place}", team) for place, team in enumerate(teams)]
            found.append((*of_teams, _apart(pair, block, folder / f"{number}_pair")))
    single_s = found[0][0].seconds / len(blocks[0])
    return Turns(found, [max(0.0, start - single_s) for start in starts])


def _apart(pair: ProcessPoolExecutor, cases: list[Case], folder: Path) -> float:
    """Seconds that two processes take, each with half of the runs and a campaign of its own."""
    start = time.perf_counter()
    halves = (cases[::2], cases[1::2])
    for done in [pair.submit(_half, half, folder / str(number)) for number, half in enumerate(halves)]:
        done.result()
    return time.perf_counter() - start


def _half(cases: list[Case], folder: Path) -> None:
    with open_workers(WorkersAsked(0)) as workers:
        run_campaign(cases, folder, workers)


def _own_rows(turns: Turns, runs: int) -> list[Row]:
    alone, one, two, apart = (np.array(one) for one in zip(*turns.seconds, strict=True))
    ratio = float(alone.sum() / (two.sum() + turns.start_s[2]))
    ratios = alone / two
    overhead_s = float((one.sum() + turns.start_s[1] - alone.sum()) / runs)
    memory_mb = np.concatenate([block[2].memory_mb for block in turns.blocks])
    half = len(memory_mb) // 2
    middle, last = (np.median(part, axis=0) for part in (memory_mb[half // 2 : half], memory_mb[-half // 2 :]))
    growth = float(np.max(last / middle - 1.0))
    figures = (
        f"{alone.sum():.0f} s in one process, {two.sum():.0f} s on two workers and {turns.start_s[2]:.1f} s for their "
        f"start: {ratio:.2f} times faster (blocks of {BLOCK}, without it: {ratios.min():.2f} to {ratios.max():.2f})"
    )
    most = float(alone.sum() / apart.sum())
    return [
        _row(f"{runs} runs of 60 s", figures, f">= {LEAST_RATIO:g} times", ratio >= LEAST_RATIO),
        _row(
            "two processes that have nothing in common",
            f"{apart.sum():.0f} s: {most:.2f} times faster than one, which is what the machine can do; two workers "
            f"reach {100.0 * float(apart.sum() / two.sum()):.0f} % of it",
        ),
        _row(
            "what one worker costs more than none",
            f"{1e3 * overhead_s:.0f} ms a run, its start ({turns.start_s[1]:.1f} s) included",
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
            "table of two workers and of one",
            "equal to the last byte" if turns.are_equal else "other",
            "equal",
            turns.are_equal,
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
