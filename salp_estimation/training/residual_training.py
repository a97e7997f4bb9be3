"""Training of residual models from runs with motion capture: see `residual_model` for their forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.workers import all_of
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.learning import sparse
from onboard_estimation.learning.model_file import ModelHeader, TrainingConditions
from onboard_estimation.learning.sparse import SparseGaussianProcesses
from salp_estimation.estimators.residual_calibration import (
    LARGE_FACTOR,
    HeldOut,
    HeldOutErrors,
    held_out_errors,
    inflation,
)
from salp_estimation.estimators.residual_model import ROBOT, Population, ResidualModel, chain_hash
from salp_estimation.model.configuration import RESIDUAL_FORMS, SalpConfiguration
from salp_estimation.training.population import expected, fit_population, left_over, nominal_population, run_effects
from salp_estimation.training.runs import TRAINING_RATE_HZ, TrainingRun, link_rates

Rows = NDArray[np.float64]
Progress = Callable[[float, str], None]

FEWEST_POINTS = 200
INDUCING_POINTS = 100
_FOLDS = 5
_FEW = 10
_WORTH_KEEPING = 0.95
"""A Gaussian process is kept where it leaves less than this share of the variance of runs that it has not seen."""


def train(
    configuration: SalpConfiguration,
    runs: Sequence[TrainingRun],
    hashes: Sequence[str],
    form: str = "calibrated",
    progress: Progress = lambda share, text: None,
    recordings: Sequence[LoadedRecording] | None = None,
) -> tuple[ResidualModel, list[str]]:
    """A model and sentences on it.

    Parameters
    ----------
    hashes
        SHA-256 of each run's data.
    form
        One of `RESIDUAL_FORMS`.
    recordings
        Of the runs. With them it is judged how sure the filter may be, see `residual_calibration`.

    Raises
    ------
    UserError
        Too few points or runs, or a form that there is not.
    """
    if form not in RESIDUAL_FORMS:
        raise UserError(f"no form {form!r} of residual model; there are {', '.join(RESIDUAL_FORMS)}")
    count = sum(len(run.time_s) for run in runs)
    if count < FEWEST_POINTS or len(runs) < 2:
        raise UserError(
            f"{count} points of {len(runs)} runs at {TRAINING_RATE_HZ:g} Hz: at least {FEWEST_POINTS} points of 2 runs "
            f"are needed, {FEWEST_POINTS / TRAINING_RATE_HZ:.0f} s of motion in sight of the motion capture"
        )
    share = 0.5 if recordings is not None else 1.0
    population, processes, notes = _learn(configuration, form, runs, lambda done, text: progress(share * done, text))
    noise = np.nanmedian([run.gyro_noise for run in runs], axis=0)
    model = ResidualModel(_header(configuration, runs, hashes, form), population, processes, noise)
    if recordings is not None:
        judged = _judged(
            configuration, runs, recordings, model, lambda done, text: progress(share + (1.0 - share) * done, text)
        )
        model = replace(model, inflation=inflation(judged))
        notes = [*notes, *_verdict(judged, model.inflation)]
    progress(1.0, "done")
    return model, notes


def _verdict(judged: Sequence[HeldOutErrors], factor: float) -> list[str]:
    """Sentences on what runs that were held out say of the model."""
    if len(judged) < 2:
        return [
            "how sure the filter may be cannot be judged: fewer than two runs could be held out. Its standard "
            f"deviations are multiplied by {factor:g}, which has been enough for other robots: record more runs"
        ]
    errors_deg = [one.rms_deg for one in judged]
    worst = judged[int(np.argmax(errors_deg))]
    found = [
        f"runs that were held out: joint angles off by {np.median(errors_deg):.1f} deg RMS in the median of "
        f"{len(judged)}, {worst.rms_deg:.1f} deg in the worst ({worst.label}); standard deviations are multiplied by "
        f"{factor:.2f}, as these errors ask for"
    ]
    if factor > LARGE_FACTOR:
        found.append(
            f"a factor beyond {LARGE_FACTOR:g} says that the form of the model is not the robot's: try another --form, "
            "and look at the configuration of the chain (lengths, wheels, signs)"
        )
    if len(judged) < _FEW:
        found.append(
            f"{len(judged)} runs tell little of other days and gaits: how sure the filter may be is allowed for as by "
            "so few, and known better with two runs of each gait on two days"
        )
    return found


def _learn(
    configuration: SalpConfiguration,
    form: str,
    runs: Sequence[TrainingRun],
    report: Progress = lambda share, text: None,
) -> tuple[Population, SparseGaussianProcesses | None, list[str]]:
    """Population and Gaussian processes of a form, and sentences on them."""
    links = configuration.chain.build().links
    n = len(links)
    if form == "gaussian_process":
        population = nominal_population(n)
    else:
        population = fit_population(links, runs, lambda share, text: report(0.5 * share, text))
    if form == "local":
        return population, None, []
    inputs = np.vstack([np.hstack([run.joint_angles, run.controls]) for run in runs])
    targets = np.vstack([_residuals(links, population, run) for run in runs])
    labels = np.repeat(np.arange(len(runs)), [len(run.time_s) for run in runs])
    start = 0.0 if form == "gaussian_process" else 0.5

    def learn(share: float, text: str) -> None:
        report(start + (1.0 - start) * share, f"Gaussian processes: {text}")

    processes = sparse.fit(inputs, targets, INDUCING_POINTS, progress=learn)
    unseen = processes.leave_out(labels)
    notes = []
    if form == "calibrated":
        kept = (unseen**2).mean(axis=0) < _WORTH_KEEPING * (targets**2).mean(axis=0)
        dropped = [name for name, keep in zip(_outputs(configuration), kept, strict=True) if not keep]
        if dropped:
            notes = [f"Gaussian processes of {', '.join(dropped)} do not help with unseen runs and are left out"]
        if not kept.any():
            return population, None, notes
        processes = _only(processes, kept)
        unseen = np.where(kept, unseen, targets)
    pieces = np.split(unseen[:, : n + 2], np.cumsum([len(run.time_s) for run in runs])[:-1])
    stddevs, times_s = left_over(pieces)
    if form == "calibrated":  # what the doubt about the runs' own parameters hides is in the population's
        stddevs, times_s = np.maximum(stddevs, population.residual_stddevs), population.correlation_times_s
    population = replace(population, residual_stddevs=stddevs, correlation_times_s=times_s)
    return population, processes, notes


def _judged(
    configuration: SalpConfiguration,
    runs: Sequence[TrainingRun],
    recordings: Sequence[LoadedRecording],
    model: ResidualModel,
    report: Progress,
) -> list[HeldOutErrors]:
    """Each fifth of the runs, judged with a model of the others.

    Fifths and not halves, because a model of half the runs has seen half as many robots and is less sure for it.
    """
    folds = min(_FOLDS, len(runs))
    # Drawn, because bags are often given gait by gait.
    fold_of = np.random.default_rng(len(runs)).permutation(len(runs)) % folds
    others = [[run for k, run in enumerate(runs) if fold_of[k] != fold] for fold in range(folds)]
    if min(map(len, others)) < 2:
        return []
    report(0.0, f"held-out part 1 of {folds}")
    learned = all_of(
        partial(_learn, configuration, model.header.kind),
        others,
        lambda done: report(0.6 * done / folds, f"held-out part {min(done + 1, folds)} of {folds}"),
    )
    models = [replace(model, population=one, processes=processes) for one, processes, _ in learned]
    held_out = [HeldOut(runs[k].label, one, models[fold_of[k]], k) for k, one in enumerate(recordings)]
    return held_out_errors(configuration, held_out, lambda done, text: report(0.6 + 0.4 * done, text))


def _residuals(links: Rows, population: Population, run: TrainingRun) -> Rows:
    """(K, 2 N + 2) rates less those that are expected with the run's own parameters, gyros less measured rates."""
    parameters = population.parameters
    if population.spreads.any():
        parameters = parameters + run_effects(population, links, run)
    rates, _, _ = expected(links, run, parameters)
    return np.hstack([run.rates - rates, run.gyro - link_rates(run.rates)])


def _only(processes: SparseGaussianProcesses, kept: NDArray[np.bool_]) -> SparseGaussianProcesses:
    """The same with nothing to say of the outputs that are not kept: mean zero and hardly a variance."""
    signal = np.where(kept, processes.signal_variances, 1e-12 * processes.signal_variances)
    return replace(processes, weights=np.where(kept[:, None], processes.weights, 0.0), signal_variances=signal)


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
            input_lowest=tuple(inputs.min(axis=0).tolist()),
            input_highest=tuple(inputs.max(axis=0).tolist()),
        ),
    )
