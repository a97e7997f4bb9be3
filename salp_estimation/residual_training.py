"""Training of residual models from runs with motion capture: see `residual_model` for their forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.errors import UserError
from onboard_estimation.learning import exact, sparse
from onboard_estimation.learning.model_file import package_version
from onboard_estimation.learning.model_header import ModelHeader, TrainingConditions
from onboard_estimation.measurement import Vector
from salp_estimation.configuration import SalpConfiguration
from salp_estimation.population import (
    Population,
    expected,
    fit_population,
    left_over,
    nominal_parameters,
    run_effects,
)
from salp_estimation.residual_model import FORMS, ROBOT, Processes, ResidualModel, chain_hash
from salp_estimation.training_runs import TRAINING_RATE_HZ, TrainingRun, link_rates

Rows = NDArray[np.float64]
Progress = Callable[[float, str], None]

FEWEST_POINTS = 200
INDUCING_POINTS = 100
_WORTH_KEEPING = 0.95
"""A Gaussian process is kept where it leaves less than this share of the variance of runs that it has not seen."""


def train(
    configuration: SalpConfiguration,
    runs: Sequence[TrainingRun],
    hashes: Sequence[str],
    form: str = "calibrated",
    exact_processes: bool = False,
    progress: Progress | None = None,
) -> tuple[ResidualModel, list[str]]:
    """A model and sentences on it.

    Parameters
    ----------
    hashes
        SHA-256 of each run's data.
    form
        One of FORMS.
    exact_processes
        Exact Gaussian processes in the place of sparse ones.

    Raises
    ------
    UserError
        Too few points or runs, or a form that there is not.
    """
    report = progress or (lambda fraction, text: None)
    if form not in FORMS:
        raise UserError(f"no form {form!r} of residual model; there are {', '.join(FORMS)}")
    count = sum(len(run.time_s) for run in runs)
    if count < FEWEST_POINTS or len(runs) < 2:
        raise UserError(
            f"{count} points of {len(runs)} runs at {TRAINING_RATE_HZ:g} Hz: at least {FEWEST_POINTS} points of 2 runs "
            f"are needed, {FEWEST_POINTS / TRAINING_RATE_HZ:.0f} s of motion in sight of the motion capture"
        )
    links = configuration.chain.build().links
    n = len(links)
    if form == "gaussian_process":
        population = _nominal(n)
    else:
        population = fit_population(links, runs, lambda share, text: report(0.5 * share, text))
    notes: list[str] = []
    processes: Processes | None = None
    residuals = [_residuals(links, population, run) for run in runs]
    if form != "local":
        inputs = np.vstack([np.hstack([run.joint_angles, run.controls]) for run in runs])
        targets = np.vstack(residuals)
        labels = np.repeat(np.arange(len(runs)), [len(run.time_s) for run in runs])
        start = 0.0 if form == "gaussian_process" else 0.5

        def learn(share: float, text: str) -> None:
            report(start + (1.0 - start) * share, f"Gaussian processes: {text}")

        if exact_processes:
            processes = exact.fit(inputs, targets, progress=learn)
        else:
            processes = sparse.fit(inputs, targets, INDUCING_POINTS, progress=learn)
        unseen, _ = processes.leave_out(labels)
        kept = (unseen**2).mean(axis=0) < _WORTH_KEEPING * (targets**2).mean(axis=0)
        names = _outputs(configuration)
        if form == "calibrated" and not kept[: n + 2].all():
            dropped = [name for name, keep in zip(names[: n + 2], kept, strict=False) if not keep]
            notes.append(f"Gaussian processes of {', '.join(dropped)} do not help with unseen runs and are left out")
        if form == "calibrated" and not kept[: n + 2].any():
            processes = None
        else:
            if form == "calibrated":
                processes = _only(processes, kept)
                unseen = np.where(kept, unseen, targets)
            pieces = np.split(unseen[:, : n + 2], np.cumsum([len(run.time_s) for run in runs])[:-1])
            stddevs, times_s = left_over(pieces)
            population = Population(population.parameters, population.uncertainty, population.spreads, stddevs, times_s)
    noise = np.nanmedian([run.gyro_noise for run in runs], axis=0)
    header = _header(configuration, runs, hashes, form)
    report(1.0, "done")
    return ResidualModel(header, population, processes, noise), notes


def _nominal(links: int) -> Population:
    p = 9 * links + 3 * (links - 1)
    m = links + 2
    return Population(nominal_parameters(links), np.zeros((p, p)), np.zeros(p), np.full(m, 1e-3), np.full(m, 1.0))


def _residuals(links: Rows, population: Population, run: TrainingRun) -> Rows:
    """(K, 2 N + 2) rates less those that are expected with the run's own parameters, gyros less measured rates."""
    parameters = population.parameters
    if population.spreads.any():
        parameters = parameters + run_effects(population, links, run)
    rates, _ = expected(links, run, parameters)
    return np.hstack([run.rates - rates, run.gyro - link_rates(run.rates)])


def _only(processes: Processes, kept: NDArray[np.bool_]) -> Processes:
    """The same with nothing to say of the outputs that are not kept: mean zero and hardly a variance."""
    signal = np.where(kept, processes.signal_variances, 1e-12 * processes.signal_variances)
    if isinstance(processes, sparse.SparseGaussianProcesses):
        weights = np.where(kept[:, None], processes.weights, 0.0)
        return sparse.SparseGaussianProcesses(
            processes.inducing,
            processes.length_scales,
            processes.groups,
            weights,
            processes.projections,
            processes.shrinkages,
            signal,
            processes.noise_variances,
            processes.inputs,
            processes.targets,
        )
    targets = np.where(kept, processes.targets, 0.0)
    return exact.ExactGaussianProcesses(
        processes.inputs, targets, processes.length_scales, signal, processes.noise_variances
    )


def _outputs(configuration: SalpConfiguration) -> list[str]:
    names = configuration.chain.link_names
    joints = [f"rate of alpha_{j + 1}" for j in range(len(names) - 1)]
    return ["forward speed", "left speed", "turning rate", *joints, *(f"imu/{name}" for name in names)]


def _header(
    configuration: SalpConfiguration, runs: Sequence[TrainingRun], hashes: Sequence[str], form: str
) -> ModelHeader:
    names = configuration.chain.link_names
    n = len(names)
    inputs = np.vstack([np.hstack([run.joint_angles, run.controls]) for run in runs])
    return ModelHeader(
        kind=form,
        robot=ROBOT,
        sensors=tuple(f"imu/{name}" for name in names),
        configuration_hash=chain_hash(configuration),
        input_names=(*(f"alpha_{j + 1}" for j in range(n - 1)), *(f"u_{i + 1}" for i in range(n))),
        input_units=("rad",) * (n - 1) + ("m/s",) * n,
        output_names=tuple(_outputs(configuration)),
        output_units=("m/s", "m/s") + ("rad/s",) * (2 * n),
        training=TrainingConditions(
            rate_hz=TRAINING_RATE_HZ,
            duration_s=float(len(inputs) / TRAINING_RATE_HZ),
            point_count=len(inputs),
            runs=tuple(run.label for run in runs),
            gaits=(),
            hashes=tuple(hashes),
            input_lowest=tuple(_listed(inputs.min(axis=0))),
            input_highest=tuple(_listed(inputs.max(axis=0))),
        ),
        package_version=package_version(),
    )


def _listed(values: Vector) -> list[float]:
    return [float(value) for value in values]
