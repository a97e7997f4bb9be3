"""Campaigns and tuning on several workers: what they cost, and what tuned noise is worth."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from benchmarks.core.clusters import cluster
from benchmarks.measuring import row
from onboard_estimation.base.installed import resource
from onboard_estimation.base.workers import Workers, all_of, open_workers
from onboard_estimation.campaigns.campaign import RESULTS, Case, run_campaign
from onboard_estimation.campaigns.score import Score, Scored, score
from onboard_estimation.campaigns.table import Table, cases_of, simulated_runs
from onboard_estimation.campaigns.tuning import tunables
from onboard_estimation.campaigns.tuning import tune as tune_parameters
from onboard_estimation.contract.robot import find_robot
from onboard_estimation.judging.options import EvaluateOptions, TuningSettings
from onboard_estimation.judging.simulated_bags import SimulatedRun
from onboard_estimation.judging.sources import load_configuration

Row = dict[str, Any]

RUNS, SECONDS = 200, 60.0
BLOCK = 20
CLUSTERS, CLUSTER_RUNS = (4, 8), 80
TASKS, TASK_BYTES = 10_000, 200_000
LEAST_RATIO, LARGEST_GROWTH = 1.8, 0.05
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


def campaigns(quick: bool) -> list[Row]:
    """Campaigns: 200 runs on two workers against one process, a simulated cluster, and what a scheduler costs.

    Runs are the salp's, scenario `ideal`, 60 s each, with their reports, all five gaits; kernels are compiled before.
    This process, one worker and two workers take turns, twenty runs at a time, since a virtual machine's speed changes
    within minutes; the workers' start is counted. The cluster is a Dask scheduler with workers that are processes of
    their own, each in a folder of its own, on this machine's cores, and its table is compared byte by byte with that of
    one process.
    """
    runs = 10 if quick else RUNS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = _own_rows(_cases(runs), folder)
        rows += _cluster_rows(folder, _cases(5 if quick else CLUSTER_RUNS), CLUSTERS[: 1 if quick else None])
        rows += _scheduler_rows(folder, 200 if quick else TASKS)
    return rows


def _cases(count: int) -> list[Case]:
    return cases_of(Table("salp", simulated_runs("salp", "ideal", [], range(count // 5), SECONDS)))


def _timed(cases: list[Case], folder: Path, workers: Workers) -> Timed:
    memory: list[list[float]] = []

    def watch(finished: int, failed: int) -> None:
        if finished % WATCHED_EVERY == 0:
            memory.append([float(one) for one in workers.everywhere(_memory_mb).values()])

    start = time.perf_counter()
    run_campaign(cases, folder, workers, progress=watch)
    seconds = time.perf_counter() - start
    return Timed(seconds, (folder / RESULTS).read_bytes(), np.array(memory))


def _own_rows(cases: list[Case], folder: Path) -> list[Row]:
    """All runs by no, one and two workers, block by block; their starts and first runs, less a run, are counted."""
    rng = np.random.default_rng(0)
    drawn = [cases[k] for k in rng.permutation(len(cases))]  # gaits take different times
    blocks = [drawn[k : k + BLOCK] for k in range(0, len(drawn), BLOCK)]
    starts: list[float] = []
    with ExitStack() as stack:
        teams = []
        for count in (0, 1, 2):
            begun = time.perf_counter()
            teams.append(stack.enter_context(open_workers(count)))
            _timed(cases[: max(count, 1)], folder / f"first_{count}", teams[-1])
            starts.append(time.perf_counter() - begun)
        found = [
            [_timed(block, folder / f"{number}_{place}", team) for place, team in enumerate(teams)]
            for number, block in enumerate(blocks)
        ]
    alone, one, two = np.array([[part.seconds for part in block] for block in found]).T
    one_start_s, two_start_s = (max(0.0, start - alone[0] / len(blocks[0])) for start in starts[1:])
    ratio, ratios = float(alone.sum() / (two.sum() + two_start_s)), alone / two
    overhead_s = float((one.sum() + one_start_s - alone.sum()) / len(cases))
    memory_mb = np.concatenate([block[2].memory_mb for block in found])
    half = len(memory_mb) // 2
    middle, last = (np.median(part, axis=0) for part in (memory_mb[half // 2 : half], memory_mb[-half // 2 :]))
    growth = float(np.max(last / middle - 1.0))
    equal = all(len({part.table for part in block}) == 1 for block in found)
    figure = (
        f"{alone.sum():.0f} s in one process, {two.sum():.0f} s on two workers and {two_start_s:.1f} s for their "
        f"start: {ratio:.2f} times faster (blocks of {BLOCK}, without it: {ratios.min():.2f} to {ratios.max():.2f})"
    )
    cost = f"{1e3 * overhead_s:.0f} ms a run, its start ({one_start_s:.1f} s) included"
    kept = f"{np.max(middle):.0f} MB in the second quarter, {np.max(last):.0f} MB in the last: {100 * growth:+.1f} %"
    return [
        row(f"{len(cases)} runs of 60 s", figure, f">= {LEAST_RATIO:g} times", ratio >= LEAST_RATIO),
        row(
            "what one worker costs more than none",
            cost,
            "<= 50 ms",
            overhead_s <= 0.050,
        ),
        row("memory of a worker", kept, f"<= {100.0 * LARGEST_GROWTH:.0f} % more", growth <= LARGEST_GROWTH),
        row("table of two workers and of one", "equal to the last byte" if equal else "other", "equal", equal),
    ]


def _cluster_rows(folder: Path, cases: list[Case], counts: Sequence[int]) -> list[Row]:
    with open_workers(0) as workers:
        expected = _timed(cases, folder / "expected", workers).table
    rows = []
    for count in counts:
        with _cluster(folder / f"cluster_{count}", count) as workers:
            found = _timed(cases, folder / f"of_{count}", workers)
        equal = found.table == expected
        figure = f"{'equal' if equal else 'other'} to one process's; {found.seconds:.0f} s on these cores"
        rows.append(row(f"{len(cases)} runs on a cluster of {count} workers", figure, "equal", equal))
    return rows


def _scheduler_rows(folder: Path, tasks: int) -> list[Row]:
    """Tasks that do nothing, and give back as much as a run with its report."""
    with _cluster(folder / "scheduler", 2) as workers:
        start = time.perf_counter()
        received = sum(len(one.value) for one in workers.results(_nothing, range(tasks)))
        seconds = time.perf_counter() - start
    assert received == tasks * TASK_BYTES
    return [
        row(
            f"{tasks} tasks of nothing, {TASK_BYTES / 1e3:.0f} kB each",
            f"{seconds:.0f} s, {1e3 * seconds / tasks:.1f} ms a task: scheduler, transfer and keeping account",
        )
    ]


@contextmanager
def _cluster(folder: Path, count: int) -> Iterator[Workers]:
    from distributed import Client

    with cluster(folder, count, {"PYTHONPATH": str(Path(__file__).parents[2])}) as one:
        with Client(one.address, set_as_default=False) as client:
            client.wait_for_workers(count, timeout=120.0)
        with open_workers(scheduler=one.address) as workers:
            yield workers


def _nothing(_: int) -> bytes:
    return bytes(TASK_BYTES)


def _memory_mb() -> float:
    import psutil

    return float(psutil.Process().memory_info().rss / 1e6)


GAITS = ("forward", "backward", "left", "right", "turning")
TEACHING, JUDGING, TUNED_S = range(7000, 7005), range(7100, 7120), 60.0
LOWEST, HIGHEST = 0.8, 1.25
CONFIG, PART = "config/salp_ideal.yaml", "joint_angles"


def tune(quick: bool) -> list[Row]:
    """Tuning from noise that is ten times too large or too small, on five recordings, judged on others.

    Simulated: the salp, five runs (one of each gait, seeds 7000 to 7004) teach; twenty others (seeds 7100 to 7119, each
    with an initial error and disturbances of its own) judge; 60 s each, in `ideal`. NEES is per degree of freedom, a
    mean over the runs that judge.
    """
    rows = []
    with open_workers(2) as workers:
        rows.append(_tuned_row("as shipped", "", _judged(_options({}), {}, workers), None))
        for factor in (10.0,) if quick else (10.0, 0.1):
            for by in ("truth", "innovations"):
                rows.append(_tuned(factor, by, workers, 40 if quick else 44))  # type: ignore[arg-type]
                print(rows[-1]["cells"], flush=True)
    return rows


def _options(overrides: Mapping[str, Any]) -> EvaluateOptions:
    return EvaluateOptions(robot="salp", config=resource(CONFIG), overrides=overrides)


def _recordings(seeds: range) -> dict[str, SimulatedRun]:
    runs = [(GAITS[place % len(GAITS)], seed) for place, seed in enumerate(seeds)]
    return {f"{gait} {seed}": SimulatedRun("salp", "ideal", gait, TUNED_S, seed) for gait, seed in runs}


def _judged(options: EvaluateOptions, changes: Mapping[str, Any], workers: Workers) -> list[Score]:
    tasks = [Scored(one, options, changes, "truth") for one in _recordings(JUDGING).values()]
    return all_of(score, tasks, workers=workers)


def _tuned(factor: float, by: Literal["truth", "innovations"], workers: Workers, evaluations: int) -> Row:
    """From all parameters that are tuned by default, times a factor."""
    known = tunables(load_configuration(find_robot("salp"), _options({})))
    wrong = _options(
        {one.name: one.changed(factor if isinstance(one.value, tuple) else factor * one.value) for one in known}
    )
    chosen = tunables(load_configuration(find_robot("salp"), wrong))
    settings = TuningSettings(by, evaluations=evaluations, folds=0)
    tuning = tune_parameters(_recordings(TEACHING), wrong, chosen, settings, workers)
    before, after = (_judged(wrong, changes, workers) for changes in ({}, tuning.values))
    found = _tuned_row(f"noise times {factor:g}", by, after, before)
    return found | {"values": dict(tuning.values), "met": LOWEST <= found["nees"] <= HIGHEST}


def _tuned_row(start: str, by: str, judged: list[Score], before: list[Score] | None) -> Row:
    def nees(some: list[Score]) -> float:
        return float(np.mean([one.nees[PART] for one in some]))

    def rms_deg(some: list[Score]) -> float:
        return float(np.median([one.rmse[f"{PART}.rmse_deg"] for one in some]))

    cells = {
        "begun with": start,
        "tuned by": by or "not tuned",
        "NEES of the joint angles before": "" if before is None else f"{nees(before):.3g}",
        "now (worst run that was not seen)": f"{nees(judged):.2f} ({max(one.nees[PART] for one in judged):.2f})",
        "RMS before": "" if before is None else f"{rms_deg(before):.2f} deg",
        "now": f"{rms_deg(judged):.2f} deg",
    }
    return {"case": f"salp, ideal, {start}, {by}", "table": "NEES after tuning", "cells": cells, "nees": nees(judged)}
