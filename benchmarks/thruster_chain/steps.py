"""Speed of the paper's filter of a thruster chain against FilterPy.

Both filters have the same sigma points and the same models: the chain moved over 10 ms by one step of Runge and Kutta,
and the paper's IMUs. FilterPy calls them for one point at a time; they are the printed equations in NumPy, dense as the
paper has them, evaluated as they stand for each slope. Before anything is timed, means and covariances after a few
steps are compared. Corrections bend too little here to be iterated. NumPy's linear algebra has one thread for both.
Times are the processor's: on a machine that does nothing else they are the clock's.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from filterpy.kalman import UnscentedKalmanFilter

from benchmarks.measuring import Array, Row, case, interleaved
from benchmarks.peers import agreement, filterpy_runner
from benchmarks.thruster_chain.peers import PrintedModel, filterpy_filter
from thruster_chain_estimation.estimators.paper_filter import SPREAD, PaperFilter
from thruster_chain_estimation.model.configuration import ChainConfiguration, ThrusterChainConfiguration

STEP_S = 0.01
TARGETS = {3: (90.0, 45e-6), 10: (60.0, 0.25e-3), 30: (45.0, 2e-3), 100: (110.0, 30e-3)}
"""By number of links: how many times faster, and the time of a step that goes with it."""
STRETCH_S = 10e-3
NUMPY = "FilterPy, NumPy model"
TOLERANCE, COMPARED_STEPS = 1e-8, 2


class Task:
    """A chain of so many links, well enough known, pushed by all of its thrusters."""

    def __init__(self, count: int) -> None:
        rng, zeros = np.random.default_rng(count), (0.0,) * count
        self.chain = chain = ChainConfiguration(
            link_names=tuple(f"link_{i + 1}" for i in range(count)),
            link_lengths_m=(0.25,) * count,
            masses_kg=(0.5,) * count,
            inertias_kg_m2=(2.6e-3,) * count,
            thruster_angles_rad=tuple(rng.uniform(0.5, 2.5, count)),
            **dict.fromkeys(("thruster_x_m", "thruster_y_m", "imu_x_m", "imu_y_m"), zeros),
        )
        configuration = replace(ThrusterChainConfiguration(), chain=chain, imu_model="paper")
        self.paper, self.tracker = configuration.paper, PaperFilter(configuration, dead_reckoned=False)
        self.thrust, self.heard = rng.uniform(0.5, 1.0, count), np.arange(count)
        headings = np.cumsum(rng.normal(0.0, 0.2, count))
        mean = np.concatenate([headings, np.zeros(count), chain.masses, chain.inertias])
        known = np.concatenate([np.repeat([0.01, 0.005], count), 0.02 * chain.masses, 0.02 * chain.inertias])
        self.start = self.tracker.start(mean, np.diag(known**2))
        self.printed = PrintedModel(0.5 * chain.lengths, chain.thruster_angles)
        self.printed.thrust = self.thrust
        truth, noise = (
            np.concatenate([np.log(mean[2 * count :]), mean[: 2 * count]]),
            np.tile([0.01, 0.01, 1e-3], count),
        )
        self.measured = []
        for _ in range(COMPARED_STEPS):
            truth = self.printed.move(truth, STEP_S)
            self.measured.append(self.printed.read(truth) + rng.normal(size=3 * count) * noise)

    def ours(self, record: bool, steps: int = COMPARED_STEPS) -> list[tuple[Array, Array]]:
        """Runs our filter through so many steps."""
        moments, found = self.start, []
        for measured in self.measured[:steps]:
            moments = self.tracker.predict(moments, self.thrust, STEP_S)
            moments, _ = self.tracker.update(moments, self.thrust, self.heard, measured.reshape(-1, 3))
            found.append((moments.mean, moments.covariance))
        return found

    def filterpy(self) -> UnscentedKalmanFilter:
        """FilterPy's filter."""
        chain, paper, count = self.chain, self.paper, len(self.heard)
        learned = paper.mass_noise_kg / chain.masses, paper.inertia_noise_kg_m2 / chain.inertias
        process = np.concatenate([*learned, np.repeat([paper.heading_noise_rad, paper.rate_noise_rad_s], count)])
        noise = np.tile([paper.accelerometer_stddev_m_s2] * 2 + [paper.gyro_stddev_rad_s], count)
        alpha, covariances = SPREAD / np.sqrt(4 * count), (np.diag(process**2), np.diag(noise**2))
        return filterpy_filter(self.printed, STEP_S, *self.start[:2], *covariances, alpha, alpha**2)


def thruster_chain_step(quick: bool) -> list[Row]:
    """One step of the paper's filter, 3 to 100 links (12 to 400 states), against FilterPy with the same model."""
    rows = []
    for count, (times, step_s) in TARGETS.items():
        task = Task(count)
        tracker = task.filterpy()
        theirs = [filterpy_runner(tracker, *task.start[:2], task.measured[:steps]) for steps in (1, COMPARED_STEPS)]
        difference = agreement(task.ours, theirs[1], TOLERANCE, in_deviations=True)
        candidates = {"ours": lambda task=task: task.ours(False, 1), NUMPY: theirs[0]}
        repetitions = 2 if quick else (7 if count == 100 else 31)
        samples = interleaved(candidates, repetitions, clock=time.process_time)
        name = f"{count} links, {4 * count} states"
        rows.append(case(name, samples, "ours", NUMPY, times, largest_difference=difference))
        rows.append(case(f"{name}, processor time of a step", samples, "ours", target_s=step_s))
        if count == 100:
            rows.append(case(f"{name}, 100 steps a second (stretch)", samples, "ours", target_s=STRETCH_S))
    return rows
