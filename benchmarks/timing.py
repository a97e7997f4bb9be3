"""Interleaved timing: A B A B ..., so that other load on the machine, and its clock, bear on all candidates alike.

One repetition times every candidate once, each over as many calls as fill a block that the clock resolves well. Ratios
are taken within a repetition, between neighbours in time, and summed up afterwards. Every candidate is called before
its first block, so that nothing is compiled while the clock runs.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Candidate = Callable[[], object]
Samples = dict[str, NDArray[np.float64]]

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


def spread(values: NDArray[np.float64], unit: str = "s") -> dict[str, float]:
    """Median, tenth and ninetieth percentile, with the unit in the names."""
    low, middle, high = np.percentile(values, [10, 50, 90])
    return {f"median_{unit}": rounded(middle), f"p10_{unit}": rounded(low), f"p90_{unit}": rounded(high)}


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
) -> dict[str, Any]:
    """One row of a result: the subject, its peer if there is one, how many times faster, the target and whether met."""
    row: dict[str, Any] = {"case": name, "subject": subject, **spread(samples[subject])}
    if peer is not None:
        row |= {"peer": peer, **{f"peer_{key}": value for key, value in spread(samples[peer]).items()}}
        ratio = samples[peer] / samples[subject]
        row |= {f"times_faster_{key}": value for key, value in spread(ratio, "").items()}
        row = {key.rstrip("_"): value for key, value in row.items()}
    if target_ratio is not None:
        row |= {"target_times_faster": target_ratio, "met": row["times_faster_median"] >= target_ratio}
    if target_s is not None:
        row |= {"target_s": target_s, "met": row["median_s"] <= target_s}
    return row | further


def row(name: str, figure: str, target: str = "", met: bool | None = None, **numbers: Any) -> dict[str, Any]:
    """A case of a result that is a figure, not a ratio."""
    case = {"case": name, "figure": figure, "target": target, **numbers}
    return case if met is None else {**case, "met": bool(met)}
