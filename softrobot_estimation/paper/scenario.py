"""What the paper had, simulated: five seconds of fast motion of a segment of hidden stiffness, and filters on it.

The paper's coordinates are (dx, dy, dL), m, and its stiffness is in N/m. The length that makes dx of an angle is not in
its text; here it is d, the arm of a chamber's centre.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Vector
from onboard_estimation.contract.recorded import LoadedRecording, from_simulator
from softrobot_estimation.estimators.algorithm_1 import Algorithm1Estimator
from softrobot_estimation.judging.foresight import (
    STATES,
    Filtered,
    TrueStates,
    best_constant,
    errors,
    filtered,
    true_states,
)
from softrobot_estimation.model.configuration import TRUE_STIFFNESS, SoftRobotConfiguration
from softrobot_estimation.model.description import BASE, TIP
from softrobot_estimation.robot import ROBOT
from softrobot_estimation.simulation.paper_simulator import known_configuration

CYCLE_S = 45.0
"""Simulated of each robot: rest, steps, sinusoids, noise and circles."""
SETTLE_S = 1.0
"""Of a run, before models are asked to look ahead."""
HORIZONS = (5, 10, 20)
STEPS_S = (0.001, 0.0025, 0.005, 0.0075, 0.01)
SHARES = np.linspace(0.5, 1.6, 12)
"""Of the nominal stiffness, for the best constant."""

TUNED: Mapping[str, Any] = {
    "filter.force_stddev_n": 0.03,
    "filter.torque_stddev_n_m": 3e-4,
    "filter.twist_stddev_n_m": 3e-4,
    "filter.bending_rate_noise_rad_s_sqrt_s": 0.01,
    "filter.elongation_rate_noise_m_s_sqrt_s": 6e-4,
}
"""Sigma_e and Sigma_omega of `algorithm_1`, tuned by hand on seeds 1, 3 and 4, as the paper's were on its run."""
METHODS: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "particles_hyper_parameters": (
        "algorithm_1, hyper-parameters learned",
        "algorithm_1",
        {**TUNED, "learning.hyper_parameters": True},
    ),
    "particles": ("algorithm_1", "algorithm_1", TUNED),
    "ukf": ("ukf", "ukf", {}),
    "literal": ("algorithm_1, printed prior (zero mean, nu = 1)", "algorithm_1", TUNED),
    "marginalized_pf": ("ours (marginalized_pf)", "marginalized_pf", {}),
}
"""In words, estimators and their parameters, by name in Table I; then the printed prior, and ours."""
REPEATED = ("particles_hyper_parameters", "particles")


class Run(NamedTuple):
    """A robot's run, its true states, and its true stiffness at their stamps, N m/rad."""

    known: SoftRobotConfiguration
    recording: LoadedRecording
    truth: TrueStates
    stiffness: Vector


def simulated(configuration: SoftRobotConfiguration, seed: int, duration_s: float) -> Run:
    """The so many seconds of a robot's first cycle in which it bends fastest; all, where they are as long."""
    known = known_configuration(configuration)
    whole = ROBOT.simulate(configuration, "paper", "", CYCLE_S, np.random.default_rng(seed))
    recording = from_simulator(whole, (TIP, BASE), (TRUE_STIFFNESS,))
    truth = true_states(known, recording, exact=True)
    count = round(duration_s * known.wrench.rate_hz)
    summed = np.append(0.0, np.cumsum((truth.states[:, 3:5] ** 2).sum(axis=1)))
    start = int(np.argmax(summed[count:] - summed[:-count])) if count < len(truth.states) else 0
    inside, held = slice(start, start + count), recording.held[TRUE_STIFFNESS.sensor]
    stamps_ns = np.round(NANOSECONDS_PER_SECOND * truth.stamps_s[inside]).astype(np.int64)
    sensors = [one.channel.sensor for one in recording.series]
    recording = recording.within(int(stamps_ns[0]), int(stamps_ns[-1]) + 1, sensors)
    part = TrueStates(truth.stamps_s[inside], truth.states[inside], truth.known[inside], truth.frames_s)
    return Run(known, recording, part, held.values[np.searchsorted(held.stamps_ns, stamps_ns), 0])


def tracked(run: Run, method: str, seed: int = 1) -> Filtered:
    """A filter on a run; ArithmeticError where no particle has a weight any more."""
    _, name, parameters = METHODS[method]
    known = run.known.with_parameters({**parameters, "learning.seed": seed})
    estimator: Any = Algorithm1Estimator(known, True) if method == "literal" else ROBOT.estimator(known, name)
    return filtered(estimator, run.recording)


def accuracy(run: Run, found: Filtered) -> dict[str, float]:
    """As in Table I, of the tip, of the stiffness, and of a step's particles: all of the run, from its first wrench."""
    true, box, d = run.truth.at(found.stamps_s), found.estimator.grey_box, run.known.chambers.centre_radius_m
    squares = np.square(found.rows[:, :STATES] - true).mean(axis=0)
    rmse = 1e3 * np.sqrt(squares) * np.array([d, d, 1.0, d, d, 1.0])
    tips, places = (box.segment.position(one, offset_m=box.beyond_m) for one in (found.rows[:, :STATES], true))
    off = found.stiffness_now / np.interp(found.stamps_s, run.truth.stamps_s, run.stiffness) - 1.0
    return {
        "position_rmse_mm": float(rmse[:3].mean()),
        "velocity_rmse_mm_s": float(rmse[3:].mean()),
        "nmse": float((squares / run.truth.variances).mean()),
        "tip_rmse_mm": 1e3 * float(np.sqrt(np.square(tips - places).sum(axis=1).mean())),
        "stiffness_median_percent": 100.0 * float(np.median(np.abs(off))),
        "stiffness_rms_percent": 100.0 * float(np.sqrt(np.mean(off**2))),
        "effective_particles": found.estimator.health(found.state).get("mean_effective_particles", np.nan),
    }


Ahead = dict[str, dict[tuple[int, float], Vector]]
"""By model, NMSE (6,) after a number of steps of a size (s)."""


def ahead(run: Run, found: Mapping[str, Filtered], steps_s: Sequence[float] = STEPS_S) -> Ahead:
    """Of filters and of constants: `average`, the ukf's mean of the run, and `best`, with which this run is best.

    All start from true states, as the paper's must: 5 ms ahead its three models have one NMSE, a tenth of its filters'.
    """
    models: dict[str, tuple[Filtered, float | None]] = {}
    for name, one in found.items():
        rows = np.zeros_like(one.rows)
        rows[:, :STATES] = run.truth.at(one.stamps_s)
        models[name] = one._replace(rows=rows), None
    ukf = models["ukf"][0]
    models["average"] = ukf, float(ukf.stiffness_now[ukf.stamps_s > ukf.stamps_s[0] + SETTLE_S].mean())
    models["best"] = ukf, best_constant([(ukf, run.truth)], SHARES, HORIZONS[-1], 0.005, SETTLE_S)
    out: Ahead = {name: {} for name in models}
    for name, (one, constant) in models.items():
        for step_s in steps_s:
            by_count = errors(one, run.truth, HORIZONS, step_s, constant, SETTLE_S)
            out[name] |= {(count, step_s): value for count, value in by_count.items()}
    return out


class Judged(NamedTuple):
    """Of one robot: by method the accuracy of each Monte Carlo run, what was foreseen, the ukf's mean stiffness (N/m).

    A method that lost all particles has None.
    """

    accuracies: dict[str, list[dict[str, float] | None]]
    ahead: Ahead
    average_n_per_m: float


def judged(task: tuple[SoftRobotConfiguration, int, float, int]) -> Judged:
    """A robot of that seed, all methods on so many seconds of it, the paper's particles so many times.

    How far they see ahead is told of runs as short as the paper's.
    """
    configuration, seed, duration_s, runs = task
    run = simulated(configuration, seed, duration_s)
    accuracies: dict[str, list[dict[str, float] | None]] = {}
    first: dict[str, Filtered] = {}
    for method in METHODS:
        try:
            found = [tracked(run, method, one) for one in range(1, 1 + (runs if method in REPEATED else 1))]
        except ArithmeticError:
            accuracies[method] = [None]
            continue
        accuracies[method], first[method] = [accuracy(run, one) for one in found], found[0]
    average = float(first["ukf"].stiffness_now.mean()) / run.known.chambers.centre_radius_m**2
    return Judged(accuracies, ahead(run, first) if duration_s < CYCLE_S else {}, average)
