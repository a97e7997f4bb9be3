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
from filterpy.kalman import MerweScaledSigmaPoints, UnscentedKalmanFilter

from benchmarks.measuring import Array, Row, agreement, case, filterpy_runner, interleaved, runge_kutta
from onboard_estimation.base.measurement import Matrix, Vector
from thruster_chain_estimation.estimators.paper_filter import SPREAD, PaperFilter
from thruster_chain_estimation.model.configuration import ChainConfiguration, ThrusterChainConfiguration


def angular_accelerations(
    half_length: Vector, heading: Vector, rate: Vector, mass: Vector, inertia: Vector, force: Matrix
) -> Vector:
    """(N,) angular accelerations, third row of equation (11), rad/s^2.

    Parameters
    ----------
    half_length
        (N,) m.
    heading, rate
        (N,) rad, rad/s.
    mass, inertia
        (N,) kg, kg m^2.
    force
        (N, 2) net forces in the room's frame, thrust included, N; the joints' are not part of it.
    """
    lvl, km = _couplings(half_length, mass)
    cosine, sine = np.cos(heading), np.sin(heading)
    generalised = lvl * (np.outer(sine, sine) + np.outer(cosine, cosine))  # eq. (9)
    generalised[np.diag_indices_from(generalised)] += inertia
    w = lvl * (np.outer(sine, cosine) - np.outer(cosine, sine))  # eq. (10)
    pushed = km @ force
    right = -w @ rate**2 + half_length * (sine * pushed[:, 0] - cosine * pushed[:, 1])
    solved: Vector = np.linalg.solve(generalised, right)
    return solved


def _couplings(half_length: Vector, mass: Vector) -> tuple[Matrix, Matrix]:
    """L V L and K M of equations (7) and (8), (N, N) each: what masses and lengths alone determine."""
    added, differenced = _sums(len(mass)), _differences(len(mass))
    reciprocal = 1.0 / mass
    spread = np.linalg.solve((differenced * reciprocal) @ differenced.T, np.hstack([added, differenced]))
    v, k = np.split(added.T @ spread, 2, axis=1)
    return half_length[:, None] * v * half_length, k * reciprocal


def _sums(count: int) -> Matrix:
    """A of equation (2), (N - 1, N)."""
    return np.eye(count - 1, count) + np.eye(count - 1, count, k=1)


def _differences(count: int) -> Matrix:
    """D of equation (3), (N - 1, N)."""
    return np.eye(count - 1, count) - np.eye(count - 1, count, k=1)


class PrintedModel:
    """Equations (11), (12) and (33) of a chain of rods under constant thrust.

    Parameters
    ----------
    half_length, thruster_angles
        (N,) m and rad.
    """

    def __init__(self, half_length: Array, thruster_angles: Array) -> None:
        self.half_length, self.thruster_angles = half_length, thruster_angles
        self.thrust = np.zeros_like(half_length)

    def forces(self, heading: Array) -> Array:
        """(N, 2) of the thrusters, in the room's frame."""
        angle = heading + self.thruster_angles
        return self.thrust[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])

    def move(self, state: Array, duration: float) -> Array:
        """The state (4N,) after a step of Runge and Kutta."""
        mass, inertia = np.split(np.exp(state[: len(state) // 2]), 2)

        def slope(motion: Array) -> Array:
            heading, rate = np.split(motion, 2)
            force = self.forces(heading)
            turn = angular_accelerations(self.half_length, heading, rate, mass, inertia, force)
            return np.concatenate([rate, turn])

        moved = runge_kutta(slope, state[len(state) // 2 :], duration)
        return np.concatenate([state[: len(state) // 2], moved])

    def read(self, state: Array) -> Array:
        """(3N,) what the IMUs in the centres of mass read: equation (33)."""
        mass, _, heading, rate = np.split(state, 4)
        return np.column_stack([self.forces(heading) / np.exp(mass)[:, None], rate]).ravel()


def filterpy_filter(
    model: PrintedModel,
    period: float,
    mean: Array,
    covariance: Array,
    process: Array,
    noise: Array,
    alpha: float,
    beta: float,
    kappa: float = 0.0,
) -> UnscentedKalmanFilter:
    """FilterPy's unscented filter of that model; `process` (4N, 4N) and `noise` (3N, 3N) are covariances."""
    points = MerweScaledSigmaPoints(len(mean), alpha, beta, kappa)
    tracker = UnscentedKalmanFilter(len(mean), len(noise), period, model.read, model.move, points)
    tracker.x, tracker.P, tracker.Q, tracker.R = mean.copy(), covariance.copy(), process, noise
    return tracker


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
