"""Campaigns and tuning on several workers: what they cost, and what tuned noise is worth."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import Row, cells_row, row
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

_STARTS_WITHIN_S = 40.0


class Cluster:
    """Scheduler and workers, each in a folder of its own; `address` stays when they are started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{port}"
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, workers: int, environment: Mapping[str, str] | None = None) -> None:
        """Start a scheduler, and workers with one thread each; returns when it listens."""
        host, port = self.address.removeprefix("tcp://").split(":")
        self._spawn("scheduler", ["scheduler", "--host", host, "--port", port, "--no-dashboard"], environment)
        end = time.monotonic() + _STARTS_WITHIN_S
        while time.monotonic() < end:
            with suppress(OSError), socket.create_connection((host, int(port)), 1.0):
                break
            time.sleep(0.1)
        for number in range(workers):
            self.add_worker(f"worker_{number}", environment)

    def add_worker(self, name: str, environment: Mapping[str, str] | None = None) -> None:
        """Start one worker more."""
        words = ["worker", self.address, "--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1"]
        self._spawn(name, words, environment)

    def kill(self) -> None:
        """End all of them at once, as a power failure does."""
        for process in self._processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(20.0)
        self._processes.clear()

    def _spawn(self, name: str, words: list[str], environment: Mapping[str, str] | None = None) -> None:
        place = self._folder / name
        place.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "distributed.cli.dask_" + words[0], *words[1:]]
        with (place / "log").open("ab") as log:
            output: dict[str, Any] = {"stdout": log, "stderr": log, "env": {**os.environ, **(environment or {})}}
            self._processes.append(subprocess.Popen(command, cwd=place, start_new_session=True, **output))


@contextmanager
def cluster(folder: Path, workers: int, environment: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """A cluster that ends with the block."""
    one = Cluster(folder)
    try:
        one.start(workers, environment)
        yield one
    finally:
        one.kill()


RUNS, SECONDS, BLOCK = 200, 60.0, 20
CLUSTERS, CLUSTER_RUNS = (4, 8), 80
TASKS, TASK_BYTES = 10_000, 200_000
LEAST_RATIO, LARGEST_GROWTH, WATCHED_EVERY = 1.8, 0.05, 10


def campaigns(quick: bool) -> list[Row]:
    """Campaigns: 200 runs on two workers against one process, a simulated cluster, and what a scheduler costs.

    Runs are the salp's, scenario `ideal`, 60 s each, with their reports, all five gaits; kernels are compiled before.
    This process, one worker and two workers take turns, twenty runs at a time, since a virtual machine's speed changes
    within minutes; the workers' start is counted. The cluster is a Dask scheduler with workers that are processes of
    their own, each in a folder of its own, on this machine's cores, and its table is compared byte by byte with that of
    one process.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = _own_rows(_cases(10 if quick else RUNS), folder)
        rows += _cluster_rows(folder, _cases(5 if quick else CLUSTER_RUNS), CLUSTERS[: 1 if quick else None])
        return [*rows, _scheduler_row(folder, 200 if quick else TASKS)]


def _cases(count: int) -> list[Case]:
    return cases_of(Table("salp", simulated_runs("salp", "ideal", [], range(count // 5), SECONDS)))


def _timed(cases: list[Case], folder: Path, workers: Workers, memory: list[list[float]] | None = None) -> Any:
    """Seconds of a campaign, and bytes of its table; `memory` gets (W,) MB of the workers every tenth run."""

    def watch(finished: int, failed: int) -> None:
        if memory is not None and finished % WATCHED_EVERY == 0:
            memory.append([float(one) for one in workers.everywhere(_memory_mb).values()])

    start = time.perf_counter()
    run_campaign(cases, folder, workers, progress=watch)
    return time.perf_counter() - start, (folder / RESULTS).read_bytes()


def _own_rows(cases: list[Case], folder: Path) -> list[Row]:
    """All runs by no, one and two workers, block by block; their starts and first runs, less a run, are counted."""
    rng = np.random.default_rng(0)
    drawn = [cases[k] for k in rng.permutation(len(cases))]  # gaits take different times
    starts: list[float] = []
    memory: list[list[float]] = []
    seconds, equal = [], True
    with ExitStack() as stack:
        teams = []
        for count in (0, 1, 2):
            begun = time.perf_counter()
            teams.append(stack.enter_context(open_workers(count)))
            _timed(cases[: max(count, 1)], folder / f"first_{count}", teams[-1])
            starts.append(time.perf_counter() - begun)
        for k in range(0, len(drawn), BLOCK):
            watched = (None, None, memory)
            found = [_timed(drawn[k : k + BLOCK], folder / f"{k}_{n}", teams[n], watched[n]) for n in range(3)]
            seconds.append([one[0] for one in found])
            equal &= len({one[1] for one in found}) == 1
    alone, one, two = np.array(seconds).T
    one_start_s, two_start_s = (max(0.0, start - alone[0] / min(BLOCK, len(cases))) for start in starts[1:])
    ratio, ratios = float(alone.sum() / (two.sum() + two_start_s)), alone / two
    overhead_s = float((one.sum() + one_start_s - alone.sum()) / len(cases))
    memory_mb, half = np.array(memory), len(memory) // 2
    middle, last = (np.median(part, axis=0) for part in (memory_mb[half // 2 : half], memory_mb[-half // 2 :]))
    growth = float(np.max(last / middle - 1.0))
    figure = f"{alone.sum():.0f} s in one process, {two.sum():.0f} s on two workers and {two_start_s:.1f} s for their "
    figure += f"start: {ratio:.2f} times faster (blocks of {BLOCK}, without it: {ratios.min():.2f} to "
    figure += f"{ratios.max():.2f})"
    cost = f"{1e3 * overhead_s:.0f} ms a run, its start ({one_start_s:.1f} s) included"
    kept = f"{np.max(middle):.0f} MB in the second quarter, {np.max(last):.0f} MB in the last: {100 * growth:+.1f} %"
    return [
        row(f"{len(cases)} runs of 60 s", figure, f">= {LEAST_RATIO:g} times", ratio >= LEAST_RATIO),
        row("what one worker costs more than none", cost, "<= 50 ms", overhead_s <= 0.050),
        row("memory of a worker", kept, f"<= {100.0 * LARGEST_GROWTH:.0f} % more", growth <= LARGEST_GROWTH),
        row("table of two workers and of one", "equal to the last byte" if equal else "other", "equal", equal),
    ]


def _cluster_rows(folder: Path, cases: list[Case], counts: Sequence[int]) -> list[Row]:
    with open_workers(0) as workers:
        _, expected = _timed(cases, folder / "expected", workers)
    rows = []
    for count in counts:
        with _cluster(folder / f"cluster_{count}", count) as workers:
            seconds, found = _timed(cases, folder / f"of_{count}", workers)
        figure = f"{'equal' if found == expected else 'other'} to one process's; {seconds:.0f} s on these cores"
        rows.append(row(f"{len(cases)} runs on a cluster of {count} workers", figure, "equal", found == expected))
    return rows


def _scheduler_row(folder: Path, tasks: int) -> Row:
    """Tasks that do nothing, and give back as much as a run with its report."""
    with _cluster(folder / "scheduler", 2) as workers:
        start = time.perf_counter()
        received = sum(len(one.value) for one in workers.results(_nothing, range(tasks)))
        seconds = time.perf_counter() - start
    assert received == tasks * TASK_BYTES
    figure = f"{seconds:.0f} s, {1e3 * seconds / tasks:.1f} ms a task: scheduler, transfer and keeping account"
    return row(f"{tasks} tasks of nothing, {TASK_BYTES / 1e3:.0f} kB each", figure)


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
    evaluations, robot = 40 if quick else 44, find_robot("salp")
    shipped = EvaluateOptions(robot="salp", config=resource(CONFIG))
    known = tunables(load_configuration(robot, shipped))
    with open_workers(2) as workers:

        def judged(options: EvaluateOptions, changes: Mapping[str, Any]) -> list[Score]:
            tasks = [Scored(one, options, changes, "truth") for one in _recordings(JUDGING).values()]
            return all_of(score, tasks, workers=workers)

        rows = [_tuned_row("as shipped", "", judged(shipped, {}), [])]
        for factor, by in product((10.0,) if quick else (10.0, 0.1), ("truth", "innovations")):
            changed = {
                one.name: one.changed(factor if isinstance(one.value, tuple) else factor * one.value) for one in known
            }
            wrong = replace(shipped, overrides=changed)
            settings = TuningSettings(by, evaluations=evaluations, folds=0)  # type: ignore[arg-type]
            chosen = tunables(load_configuration(robot, wrong))
            tuning = tune_parameters(_recordings(TEACHING), wrong, chosen, settings, workers)
            found = _tuned_row(f"noise times {factor:g}", by, judged(wrong, tuning.values), judged(wrong, {}))
            rows.append(found | {"values": dict(tuning.values), "met": LOWEST <= found["nees"] <= HIGHEST})
            print(rows[-1]["cells"], flush=True)
    return rows


def _recordings(seeds: range) -> dict[str, SimulatedRun]:
    runs = [(GAITS[place % len(GAITS)], seed) for place, seed in enumerate(seeds)]
    return {f"{gait} {seed}": SimulatedRun("salp", "ideal", gait, TUNED_S, seed) for gait, seed in runs}


def _tuned_row(start: str, by: str, judged: list[Score], before: list[Score]) -> Row:
    """What the runs that judge say now, and what they said before."""
    nees, nees_before = ([one.nees[PART] for one in some] for some in (judged, before))
    rms_deg, rms_before_deg = (
        f"{np.median([one.rmse[f'{PART}.rmse_deg'] for one in some]):.2f} deg" if some else ""
        for some in (judged, before)
    )
    cells = {
        "begun with": start,
        "tuned by": by or "not tuned",
        "NEES of the joint angles before": f"{np.mean(nees_before):.3g}" if before else "",
        "now (worst run that was not seen)": f"{np.mean(nees):.2f} ({max(nees):.2f})",
        "RMS before": rms_before_deg,
        "now": rms_deg,
    }
    return cells_row("NEES after tuning", f"salp, ideal, {start}, {by}", cells, nees=float(np.mean(nees)))
