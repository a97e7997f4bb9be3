"""Speed of the paper's filter of a thruster chain against FilterPy.

Both filters have the same sigma points and the same models: the chain moved over 10 ms by one step of Runge and Kutta,
and the paper's IMUs. FilterPy calls them for one point at a time; they are the printed equations in NumPy, dense as the
paper has them, evaluated as they stand for each slope. Before anything is timed, means and covariances after a few
steps are compared. Corrections bend too little here to be iterated. NumPy's linear algebra has one thread for both.
Times are the processor's: on a machine that does nothing else they are the clock's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measuring import case, interleaved
from benchmarks.thruster_chain.peers import PrintedModel, filterpy_filter
from thruster_chain_estimation.estimators.paper_filter import SPREAD, PaperFilter
from thruster_chain_estimation.model.configuration import ChainConfiguration, ThrusterChainConfiguration

Array = NDArray[np.float64]

STEP_S = 0.01
TARGETS = {3: (90.0, 45e-6), 10: (60.0, 0.25e-3), 30: (45.0, 2e-3), 100: (110.0, 30e-3)}
"""By number of links: how many times faster, and the time of a step that goes with it."""
STRETCH_S = 10e-3
NUMPY = "FilterPy, NumPy model"
TOLERANCE = 1e-8
COMPARED_STEPS = 2


class Task:
    """A chain of so many links, well enough known, pushed by all of its thrusters."""

    def __init__(self, count: int) -> None:
        rng = np.random.default_rng(count)
        chain = ChainConfiguration(
            link_names=tuple(f"link_{i + 1}" for i in range(count)),
            link_lengths_m=(0.25,) * count,
            masses_kg=(0.5,) * count,
            inertias_kg_m2=(2.6e-3,) * count,
            thruster_x_m=(0.0,) * count,
            thruster_y_m=(0.0,) * count,
            thruster_angles_rad=tuple(rng.uniform(0.5, 2.5, count)),
            imu_x_m=(0.0,) * count,
            imu_y_m=(0.0,) * count,
        )
        self.configuration = replace(ThrusterChainConfiguration(), chain=chain, imu_model="paper")
        self.thrust, self.heard = rng.uniform(0.5, 1.0, count), np.arange(count)
        headings = np.cumsum(rng.normal(0.0, 0.2, count))
        self.mean = np.concatenate([headings, np.zeros(count), chain.masses, chain.inertias])
        self.stddev = np.concatenate(
            [np.full(count, 0.01), np.full(count, 0.005), 0.02 * chain.masses, 0.02 * chain.inertias]
        )
        self.printed = PrintedModel(0.5 * chain.lengths, chain.thruster_angles)
        self.printed.thrust = self.thrust
        truth = np.concatenate([np.log(self.mean[2 * count :]), self.mean[: 2 * count]])
        self.measured = []
        for _ in range(COMPARED_STEPS):
            truth = self.printed.move(truth, STEP_S)
            self.measured.append(
                self.printed.read(truth) + rng.normal(size=3 * count) * np.tile([0.01, 0.01, 0.001], count)
            )

    def ours(self) -> Callable[[int], list[tuple[Array, Array]]]:
        """Runs our filter through so many steps."""
        tracker = PaperFilter(self.configuration, dead_reckoned=False)
        start = tracker.start(self.mean, np.diag(self.stddev**2))

        def run(steps: int) -> list[tuple[Array, Array]]:
            moments, found = start, []
            for measured in self.measured[:steps]:
                moments = tracker.predict(moments, self.thrust, STEP_S)
                moments, _ = tracker.update(moments, self.thrust, self.heard, measured.reshape(-1, 3))
                found.append((moments.mean, moments.covariance))
            return found

        return run

    def filterpy(self, model: PrintedModel) -> Callable[[int], list[tuple[Array, Array]]]:
        """Runs FilterPy's through so many steps."""
        chain, paper, count = self.configuration.chain, self.configuration.paper, len(self.heard)
        start = PaperFilter(self.configuration, dead_reckoned=False).start(self.mean, np.diag(self.stddev**2))
        process = np.concatenate(
            [
                paper.mass_noise_kg / chain.masses,
                paper.inertia_noise_kg_m2 / chain.inertias,
                np.full(count, paper.heading_noise_rad),
                np.full(count, paper.rate_noise_rad_s),
            ]
        )
        noise = np.tile([paper.accelerometer_stddev_m_s2] * 2 + [paper.gyro_stddev_rad_s], count)
        alpha = SPREAD / np.sqrt(4 * count)
        tracker = filterpy_filter(
            model,
            STEP_S,
            start.mean,
            start.covariance,
            np.diag(process**2),
            np.diag(noise**2),
            alpha,
            alpha**2,
        )

        def run(steps: int) -> list[tuple[Array, Array]]:
            tracker.x, tracker.P, found = start.mean.copy(), start.covariance.copy(), []
            for measured in self.measured[:steps]:
                tracker.predict()
                tracker.update(measured)
                found.append((tracker.x, tracker.P))
            return found

        return run


def agreement(ours: Any, theirs: Any) -> float:
    """Largest difference after a few steps, in standard deviations; RuntimeError where they are not the same."""
    largest = 0.0
    for (mean, covariance), (other_mean, other) in zip(ours(COMPARED_STEPS), theirs(COMPARED_STEPS), strict=True):
        scale = np.sqrt(np.diag(other))
        largest = max(largest, np.abs((mean - other_mean) / scale).max())
        largest = max(largest, np.abs((covariance - other) / np.outer(scale, scale)).max())
    if not largest <= TOLERANCE:
        raise RuntimeError(f"our filter and FilterPy's differ by {largest:.2g} sigma, more than {TOLERANCE:g}")
    return largest


def thruster_chain_step(quick: bool) -> list[dict[str, Any]]:
    """One step of the paper's filter, 3 to 100 links (12 to 400 states), against FilterPy with the same model."""
    rows = []
    for count, (times, step_s) in TARGETS.items():
        task = Task(count)
        ours, theirs = task.ours(), task.filterpy(task.printed)
        difference = agreement(ours, theirs)
        repetitions = 2 if quick else (7 if count == 100 else 31)
        samples = interleaved(
            {name: lambda run=run: run(1) for name, run in (("ours", ours), (NUMPY, theirs))},
            repetitions,
            clock=time.process_time,
        )
        name = f"{count} links, {4 * count} states"
        rows.append(case(name, samples, "ours", NUMPY, times, largest_difference=difference))
        rows.append(case(f"{name}, processor time of a step", samples, "ours", target_s=step_s))
        if count == 100:
            rows.append(case(f"{name}, 100 steps a second (stretch)", samples, "ours", target_s=STRETCH_S))
    return rows
