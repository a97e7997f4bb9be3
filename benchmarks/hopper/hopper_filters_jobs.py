"""Pieces of work of `hopper_filters`: done once, in parallel, each result kept in a file of its own.

A job is a function of a module of this package and what it is called with, all of it plain data; so is what it returns.
Results are kept in `scratch/hopper_filters/`, named by a hash of the job and of the code that it comes from: what is
there is not done again, and what changed since is not taken for it.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SCRATCH = Path(__file__).parent / "scratch" / "hopper_filters"
_ESTIMATION = (
    *("encoder_kernels", "error_state_kernels", "ground_height", "hop*", "local_polynomials", "contact_*"),
    *("bounce_*", "phases", "readings_kernels", "samples", "training_trials", "vertical_kernels"),
    *("filters", "filter_model"),
)
_WORDS_ONLY = ("hopper_report.py", "hopper_robot.py", "hopper_training.py", "hop_tables.py", "hopping_agility.py")
_TRAINING = ("cost_kernels", "filter_training", "filter_calibration")
CODE = (
    *(f"hopper_estimation/{name}.py" for name in (*_ESTIMATION, *_TRAINING)),
    "onboard_estimation/learning/optimisation/[!s]*.py",
    "config/hopper_hardware.yaml",
)
SEARCH_CODE = ("onboard_estimation/learning/optimisation/[!s]*.py",)
"""What decides on the course of a search, beside costs."""
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class Job:
    """A call.

    Attributes
    ----------
    function
        `module.name` in this package.
    arguments
        By name, plain data; as JSON, so that jobs can be compared.
    """

    function: str
    arguments: str

    @classmethod
    def of(cls, function: str, **arguments: Any) -> Job:
        """With these arguments."""
        return cls(function, json.dumps(arguments, sort_keys=True))

    def key(self) -> str:
        """Hash of the job and the code that it runs."""
        module = self.function.partition(".")[0]
        code = code_hash((*CODE, f"benchmarks/{module}.py"))
        return hashlib.sha256(f"{code} {self.function} {self.arguments}".encode()).hexdigest()[:16]

    def path(self) -> Path:
        """Where the result is kept."""
        return SCRATCH / f"{self.function.partition('.')[2]}_{self.key()}.json"


@lru_cache(maxsize=16)
def code_hash(patterns: tuple[str, ...]) -> str:
    """Of the files of this repository that fit the patterns."""
    files = sorted({path for pattern in patterns for path in ROOT.glob(pattern) if path.name not in _WORDS_ONLY})
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def result_of(job: Job) -> Any:
    """The kept result of a job; it is done where there is none."""
    path = job.path()
    if path.exists():
        return json.loads(path.read_text())
    module, _, name = job.function.partition(".")
    start_s = time.process_time()
    result = getattr(import_module(f"benchmarks.{module}"), name)(**json.loads(job.arguments))
    if isinstance(result, dict):
        result["processor_s"] = round(time.process_time() - start_s, 2)
    SCRATCH.mkdir(parents=True, exist_ok=True)
    # Whole or not at all, and never by two processes at once.
    whole = path.with_name(f"{os.getpid()}_{path.name}")
    whole.write_text(json.dumps(result))
    whole.replace(path)
    return result


def compute(jobs: Sequence[Job], workers: int | None = None) -> list[Any]:
    """Results of jobs in their order.

    Parameters
    ----------
    workers
        Processes; None: one for each core. 0: in this process.
    """
    unique = list(dict.fromkeys(jobs))
    missing = [job for job in unique if not job.path().exists()]
    if missing and len(missing) < len(unique):
        print(f"{len(unique) - len(missing)} of {len(unique)} are there from before", flush=True)
    start_s = time.monotonic()
    for number, job in enumerate(_done(missing, workers), 1):
        gone_s = time.monotonic() - start_s
        print(f"{number} of {len(missing)}, {gone_s:.0f} s: {job.function} {job.arguments[:110]}", flush=True)
    return [result_of(job) for job in jobs]


def _done(jobs: Sequence[Job], workers: int | None) -> Iterator[Job]:
    if workers == 0:
        for job in jobs:
            result_of(job)
            yield job
        return
    for name in _ONE_THREAD:  # before a process of the pool imports NumPy
        os.environ[name] = "1"
    with ProcessPoolExecutor(workers or os.cpu_count(), mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(result_of, job): job for job in jobs}
        for future in as_completed(futures):
            future.result()
            yield futures[future]
