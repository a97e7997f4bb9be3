"""Speed of the hopper's filters: a sample of KF1 against the same source in Python, and a training run."""

from __future__ import annotations

from functools import partial
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from numba.core.registry import CPUDispatcher

from benchmarks.hopper.trials import unknown
from benchmarks.measuring import Row, case, interleaved, rounded
from hopper_estimation.estimators import vertical_kernels as kernels
from hopper_estimation.estimators.filters import body_of, filters_of, state_filter
from hopper_estimation.model import phases
from hopper_estimation.paper.trials import CONFIGURATION, FIRST_TRAINING_SEED, START_S, at_heights, simulated
from hopper_estimation.training.filter_training import PAPERS_FORM, FilterObjective
from onboard_estimation.learning.optimisation.methods import genetic
from onboard_estimation.learning.optimisation.minimise import minimise
from onboard_estimation.learning.optimisation.problem import Settings

OURS, SOURCE = "compiled", "same source, uncompiled"
PYTHON_SAMPLES = 3000
"""About two hops: pure Python takes some hundredths of a second for them."""
HOPPING_S = {"1m": 17.5, "2m": 24.0, "3m": 29.5, "4m": 36.0}
"""Fourteen hops each."""
TARGET_S = {1: 20.0, 2: 12.0}
"""Of a training, by threads, whatever the stamps."""


def hopper_step(quick: bool) -> list[Row]:
    """One sample of the hopper's KF1, compiled, against the same source in pure Python.

    A sample goes through both low-pass filters, the phase logic, prediction, covariance, and what updates it brings;
    four hops of a simulated recording, from the first drop on, with the package's own parameters.
    """
    run = Samples()
    run.require_agreement()
    candidates = {OURS: lambda: run.filter(kernels.run, run.count), SOURCE: lambda: run.filter(run.source, run.few)}
    samples = interleaved(candidates, 5 if quick else 41, block_s=0.01)
    samples = {OURS: samples[OURS] / run.count, SOURCE: samples[SOURCE] / run.few}
    label = "one sample: low-pass filters, phase, updates, covariance"
    return [
        case(label, samples, OURS, SOURCE, 300.0, recorded_samples=run.count),
        case(label, samples, OURS, target_s=20e-9, recorded_samples=run.count),
    ]


def uncompiled(function: Any) -> Any:
    """The same source, run by Python itself, with all that it calls."""
    plain = function.py_func
    known = {name: value for name, value in plain.__globals__.items() if not isinstance(value, CPUDispatcher)}
    for name in plain.__code__.co_names:
        value = plain.__globals__.get(name)
        if isinstance(value, CPUDispatcher):
            known[name] = uncompiled(value)
        elif isinstance(value, ModuleType) and value.__name__.startswith("hopper_estimation"):
            called = {one: getattr(value, one) for one in plain.__code__.co_names if hasattr(value, one)}
            plain_ones = {k: uncompiled(v) if isinstance(v, CPUDispatcher) else v for k, v in called.items()}
            known[name] = SimpleNamespace(**plain_ones)
    return FunctionType(plain.__code__, known, plain.__name__, plain.__defaults__)


class Samples:
    """A recording, from its first drop on, and both ways through it."""

    def __init__(self) -> None:
        self.trial = simulated("hardware", "2m", START_S + 8.0, 800_000)
        self.entry = filters_of("").entry("kf1")
        self.source = uncompiled(kernels.run)
        self.count = len(self.trial.signals)
        self.few = min(PYTHON_SAMPLES, self.count)
        self.out, self.events = np.empty((self.count, 6)), np.empty(self.count // 20, phases.EVENT)

    def filter(self, function: Any, count: int) -> int:
        """Our filter over so many samples, compiled or not; the number of events."""
        zz, zv, vv = self.entry.start_covariance
        new_state = state_filter("kf1", CONFIGURATION.robot).new_state
        states = new_state(self.trial.start_height_m, 0.0, np.array([[zz, zv], [zv, vv]]), phases.DROP)
        # With fields as attributes, for Python as for numba.
        records = (one.view(np.recarray) for one in (*states, self.trial.signals[:count], self.events))
        states, signals, events = records
        body = body_of(CONFIGURATION)
        found: int = function(kernels.KF1, self.entry.parameters, body, states, signals, self.out[:count], events)
        return found

    def require_agreement(self) -> None:
        """RuntimeError where the source gives other numbers, or there is no hop to time."""
        events = self.filter(kernels.run, self.few)
        ours = self.out[self.few - 1].copy()
        if events < 4:
            raise RuntimeError(f"{events} events in {self.few} samples: there must be a hop")
        if self.filter(self.source, self.few) != events or np.abs(self.out[self.few - 1] - ours).max() > 1e-8:
            raise RuntimeError(f"the source gives {self.out[self.few - 1]}, compiled {ours}")


def hopper_training(quick: bool) -> list[Row]:
    """A full training run as the paper's: genetic algorithm, 1000 individuals, 20 generations, about 110 hops.

    Two simulated robots at 1, 2, 3 and 4 m, with ideal stamps, on one thread and on two; and the recordings
    `unknown_hopper` of four robots, whose stamps jitter, with readings that are lost or late, on one thread. In turns,
    from recordings in memory to the best parameters, calibration left out. The paper needed about five hours on eight
    cores.
    """
    settings = Settings(individuals=100, generations=5) if quick else Settings(individuals=1000, generations=20)
    ideal = at_heights((FIRST_TRAINING_SEED + 900, FIRST_TRAINING_SEED + 901), HOPPING_S)
    learned = {
        ("kf1", "", 1): ideal,
        ("kf1", "", 2): ideal,
        ("kf1", ", real stamps", 1): unknown(),
        ("bounce", ", real stamps", 1): unknown(),
    }
    searches = {}
    for (form, stamps, threads), trials in learned.items():
        objective = FilterObjective(CONFIGURATION, form, trials, threads, PAPERS_FORM if form == "kf1" else {})
        name = f"{form}, {threads} thread{'s' if threads > 1 else ''}{stamps}"
        searches[name] = partial(minimise, genetic, objective.problem(), objective, settings)
    results = {name: search() for name, search in searches.items()}
    single, double = (results[name].cost for name in ("kf1, 1 thread", "kf1, 2 threads"))
    if single != double:
        raise RuntimeError(f"costs {single} on one thread and {double} on two")
    samples, out = interleaved(searches, 1 if quick else 3, block_s=0.0), []
    for ((_, _, threads), trials), (name, result) in zip(learned.items(), results.items(), strict=True):
        hops, count = sum(len(one.hops.cycles) for one in trials), sum(len(one.signals) for one in trials)
        label = f"training, {settings.individuals} x {settings.generations}, {hops} hops, {name}"
        sample_ns = 1e9 * float(np.median(samples[name])) * threads / (result.evaluations * count)
        about = {"evaluations": result.evaluations, "samples": count, "cost": result.cost}
        target_s = None if quick else TARGET_S[threads]
        out.append(case(label, samples, name, None, None, target_s, nanoseconds_per_sample=rounded(sample_ns), **about))
    return out
