"""What benchmarks share: timing in turns, work in processes, recordings, and the rows of a result.

Timing is interleaved, A B A B ..., so that other load on the machine, and its clock, bear on all candidates alike. One
repetition times every candidate once, each over as many calls as fill a block that the clock resolves well. Ratios are
taken within a repetition, between neighbours in time, and summed up afterwards. Every candidate is called before its
first block, so that nothing is compiled while the clock runs.
"""

from __future__ import annotations

import gc
import hashlib
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from benchmarks.run import ONE_THREAD
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.installed import resource
from onboard_estimation.base.workers import open_workers, sharing
from onboard_estimation.contract.reproduced import Reproduced
from onboard_estimation.contract.robot import find_robot
from onboard_estimation.report.reproduction import overview

Array = NDArray[np.float64]
Row = dict[str, Any]
Candidate = Callable[[], object]
Samples = dict[str, Array]
Made = TypeVar("Made")

DECIMALS = 4
"""Significant digits that results keep."""


def interleaved(
    candidates: Mapping[str, Candidate],
    repetitions: int,
    block_s: float = 0.005,
    clock: Callable[[], float] = time.perf_counter,
) -> Samples:
    """Seconds per call of every candidate in every repetition, (repetitions,) each."""
    calls = {}
    for name, candidate in candidates.items():
        candidate()  # compiles, fills caches
        start = clock()
        candidate()
        calls[name] = max(1, math.ceil(block_s / max(clock() - start, 1e-9)))
    samples = {name: np.empty(repetitions) for name in candidates}
    collecting = gc.isenabled()
    gc.disable()
    try:
        for repetition in range(repetitions):
            for name, candidate in candidates.items():
                count = calls[name]
                start = clock()
                for _ in range(count):
                    candidate()
                samples[name][repetition] = (clock() - start) / count
    finally:
        if collecting:
            gc.enable()
    return samples


def spread(values: Array, unit: str = "s") -> dict[str, float]:
    """Median, tenth and ninetieth percentile, with the unit in the names."""
    low, middle, high = np.percentile(values, [10, 50, 90])
    named = {"median": middle, "p10": low, "p90": high}
    return {f"{name}_{unit}".rstrip("_"): rounded(value) for name, value in named.items()}


def rounded(value: float) -> float:
    """The value with as many digits as mean something."""
    return float(f"{value:.{DECIMALS}g}")


def case(
    name: str,
    samples: Samples,
    subject: str,
    peer: str | None = None,
    target_ratio: float | None = None,
    target_s: float | None = None,
    **further: Any,
) -> Row:
    """One row of a result: the subject, its peer if there is one, how many times faster, the target and whether met."""
    found: Row = {"case": name, "subject": subject, **spread(samples[subject])}
    if peer is not None:
        found |= {"peer": peer, **{f"peer_{key}": value for key, value in spread(samples[peer]).items()}}
        ratio = spread(samples[peer] / samples[subject], "")
        found |= {f"times_faster_{key}": value for key, value in ratio.items()}
    if target_ratio is not None:
        found |= {"target_times_faster": target_ratio, "met": found["times_faster_median"] >= target_ratio}
    if target_s is not None:
        found |= {"target_s": target_s, "met": found["median_s"] <= target_s}
    return found | further


def row(name: str, figure: str, target: str = "", met: Any = None, **numbers: Any) -> Row:
    """A case of a result that is a figure, not a ratio."""
    found = {"case": name, "figure": figure, "target": target, **numbers}
    return found if met is None else {**found, "met": bool(met)}


def cells_row(table: str, name: str, cells: Mapping[str, str], **numbers: Any) -> Row:
    """A case that is a line of a table of its own: what stands in its columns."""
    return {"case": name, "table": table, "cells": dict(cells), **numbers}


def paper_rows(robot: str, quick: bool) -> list[Row]:
    """A robot's paper made again (`onboard-estimation reproduce`), as rows: what came out, then each table."""
    found = Reproduced[Any].of(find_robot(robot))
    with open_workers(2) as team, sharing(team):
        items = list(found.reproduce(found.configuration_type(), {}, quick))
    summary = overview(items)
    rows = [cells_row("What came out", one[0], dict(zip(summary.headings, one, strict=True))) for one in summary.rows]
    for item in items:
        for table in item.tables:
            name = f"{item.place}, {table.title}"
            rows += [cells_row(name, one[0], dict(zip(table.headings, one, strict=True))) for one in table.rows]
    return rows


def middle_worst(values: ArrayLike, digits: int = 2, unit: str = "", scale: float = 1.0) -> str:
    """Median and, in brackets, the largest of several runs."""
    numbers = scale * np.asarray(values, dtype=np.float64)
    return f"{np.median(numbers):.{digits}f} ({np.max(numbers):.{digits}f}){unit}"


def rms(values: ArrayLike) -> float:
    """Root of the mean square of all that are numbers."""
    return float(np.sqrt(np.nanmean(np.square(values))))


def runge_kutta(slope: Callable[[Array], Array], state: Array, step_s: float) -> Array:
    """A step of the classical fourth-order rule, in NumPy."""
    k1 = slope(state)
    k2 = slope(state + 0.5 * step_s * k1)
    k3 = slope(state + 0.5 * step_s * k2)
    k4 = slope(state + step_s * k3)
    return state + step_s / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


def in_turns(function: Callable[..., Made], jobs: Iterable[Sequence[Any]], workers: int = 2) -> list[Made]:
    """What a function makes of each job's arguments, in their order, in processes; progress is printed."""
    for name in ONE_THREAD:  # before a process of the pool imports NumPy
        os.environ[name] = "1"
    found = []
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for number, one in enumerate(pool.map(function, *zip(*jobs, strict=True)), 1):
            found.append(one)
            print(f"{getattr(function, '__name__', 'done')} {number}", flush=True)
    return found


def recordings(*names: str) -> Path:
    """A folder of recordings that the repository does not hold: below ONBOARD_ESTIMATION_DATA, or beside it.

    Raises
    ------
    UserError
        It is not there.
    """
    data = Path(os.environ.get("ONBOARD_ESTIMATION_DATA", Path(__file__).parents[2] / "shared" / "data"))
    folder = data.joinpath(*names)
    if not folder.is_dir():
        raise UserError(f"the recordings are not in {folder}; set ONBOARD_ESTIMATION_DATA")
    return folder


def scenario_hash(file: str) -> str:
    """Which magnitudes simulations had: the first sixteen digits of the SHA-256 of a scenario file."""
    return hashlib.sha256(resource(file).read_bytes()).hexdigest()[:16]


Runner = Callable[..., list[tuple[Array, Array]]]
"""Runs a filter through its measurements; with `True`, gives mean and covariance after each."""


def filterpy_runner(tracker: Any, mean: Array, covariance: Array, measured: Sequence[Array]) -> Runner:
    """Runs FilterPy's from that start."""

    def run(record: bool = False) -> list[tuple[Array, Array]]:
        tracker.x, tracker.P, found = mean.copy(), covariance.copy(), []
        for one in measured:
            tracker.predict()
            tracker.update(one)
            if record:
                found.append((tracker.x, tracker.P))
        return found

    return run


def agreement(ours: Runner, theirs: Runner, tolerance: float, in_deviations: bool = False) -> float:
    """Largest difference of means and covariances over all steps; RuntimeError where they are not the same."""
    largest = 0.0
    for (mean, covariance), (other_mean, other) in zip(ours(True), theirs(True), strict=True):
        scale = np.sqrt(np.diag(other)) if in_deviations else np.ones(len(mean))
        largest = max(largest, np.abs((mean - other_mean) / scale).max())
        largest = max(largest, np.abs((covariance - other) / np.outer(scale, scale)).max())
    if not largest <= tolerance:
        raise RuntimeError(
            f"our filter and FilterPy's differ by {largest:.2g}, more than {tolerance:g}. FilterPy 2 is needed: "
            "older ones do not draw sigma points anew after a prediction"
        )
    return float(largest)
