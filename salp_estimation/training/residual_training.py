"""Training of residual models from runs with motion capture: see `residual_model` for their forms.

A regression knows the spread between robots from as many as it was given, perhaps two for each gait, and nothing of
the filter's own approximations, nor of what the model's form leaves out and repeats with each cycle of a gait. So the
filter itself is run on runs that were held out, from drawn initial errors, and the standard deviations of the pose and
of the joint angles that it publishes are multiplied by the factors that their errors ask for. What it weighs inside
stays as it is: with larger spreads or residuals it would also learn less, and be further off. Only training runs are
used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.kept_results import keepable
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Estimate, Vector
from onboard_estimation.base.workers import all_of, sharers
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.filtering.consistency import nees
from onboard_estimation.filtering.planar import planar_pose
from onboard_estimation.filtering.square_root import covariance_root
from onboard_estimation.learning import sparse
from onboard_estimation.learning.model_file import ModelHeader
from onboard_estimation.learning.sparse import SparseGaussianProcesses
from onboard_estimation.pipeline.pipeline import Pipeline
from salp_estimation.estimators.chain_estimator import COMMAND
from salp_estimation.estimators.residual_estimator import ResidualEstimator, initial_covariance
from salp_estimation.estimators.residual_model import Population, ResidualModel, header_of
from salp_estimation.model.configuration import RESIDUAL_FORMS, SalpConfiguration
from salp_estimation.model.gaits import SETTLE_S
from salp_estimation.training.population import (
    expected,
    fit_population,
    left_over,
    run_effects,
)
from salp_estimation.training.references import WORDS, loss_sentences, references, rms_deg, thinned
from salp_estimation.training.runs import TRAINING_RATE_HZ, TrainingRun, link_rates

Rows = NDArray[np.float64]
Progress = Callable[[float, str], None]
HeldOut: TypeAlias = tuple[str, LoadedRecording, ResidualModel, int]
"""A run that a model has not seen: its name, its recording, the model, and what draws its initial error."""

FEWEST_POINTS = 200
INDUCING_POINTS = 100
_FOLDS = 5
_FEW = 10
_WORTH_KEEPING = 0.95
"""A Gaussian process is kept where it leaves less than this share of the variance of runs that it has not seen."""
MOST_RATE_HZ = 100.0
"""Of the gyros on runs that are held out, where the filter uses all of their samples."""
LARGE_FACTOR = 3.0
"""Errors three times as large as stated: the model's form is not the robot's."""
_MOST_LINK_RUNS = 75  # links times runs
_SEED = 20260103
_COVERED = 0.985
"""Of the errors of held-out runs, within three standard deviations."""
UNJUDGED_FACTOR = math.tan(0.5 * math.pi * _COVERED) / 3.0
"""Where no two runs could be held out, 14: a spread known from two runs has one degree of freedom, and so much of
Student's t distribution then lies within three standard deviations."""


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
        Of the runs. With them it is judged how sure the filter may be.

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
    header = header_of(configuration, form, [run.label for run in runs], hashes, TRAINING_RATE_HZ, _inputs(runs))
    population, processes, notes = sharers().once(
        lambda: _learn(configuration, header, runs, lambda done, text: progress(share * done, text))
    )
    noise = np.nanmedian([run.gyro_noise for run in runs], axis=0)
    model = ResidualModel(header, population, processes, noise)
    if recordings is not None:
        judged = _judged(
            configuration, runs, recordings, model, lambda done, text: progress(share + (1.0 - share) * done, text)
        )
        model = replace(model, inflation=inflation(judged), held_out=_beside_references(judged, runs))
        notes = [*notes, *_verdict(judged, model.inflation), *loss_sentences(model.held_out)]
    progress(1.0, "done")
    return model, notes


def _verdict(judged: Sequence[HeldOutErrors], factors: Vector) -> list[str]:
    """Sentences on what runs that were held out say of the model."""
    of_pose, factor = factors.tolist()
    if len(judged) < 2:
        return [
            "how sure the filter may be cannot be judged: fewer than two runs are long enough. Its standard deviations "
            f"are multiplied by {factor:.2g}, as two runs alone leave the spread in doubt: record longer ones"
        ]
    errors_deg = [one.rms_deg for one in judged]
    worst = judged[int(np.argmax(errors_deg))]
    found = [
        f"runs that were held out: joint angles off by {np.median(errors_deg):.1f} deg RMS in the median of "
        f"{len(judged)}, {worst.rms_deg:.1f} deg in the worst ({worst.label}); standard deviations are multiplied by "
        f"{factor:.2f}, those of the pose by {of_pose:.2f}, as these errors ask for"
    ]
    if factor > LARGE_FACTOR and len(judged) >= _FEW:  # fewer runs ask for more whatever the form
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
    header: ModelHeader,
    runs: Sequence[TrainingRun],
    report: Progress = lambda share, text: None,
) -> tuple[Population, SparseGaussianProcesses | None, list[str]]:
    """Population and Gaussian processes of the header's form, and sentences on them."""
    links = configuration.chain.build().links
    population = fit_population(links, runs, lambda share, text: report(0.5 * share, text))
    if header.kind == "local":
        return population, None, []
    targets = np.vstack([_residuals(links, population, run) for run in runs])
    labels = np.repeat(np.arange(len(runs)), [len(run.time_s) for run in runs])
    processes = sparse.fit(
        _inputs(runs),
        targets,
        INDUCING_POINTS,
        progress=lambda share, text: report(0.5 + 0.5 * share, f"Gaussian processes: {text}"),
    )
    unseen = processes.leave_out(labels)
    kept = (unseen**2).mean(axis=0) < _WORTH_KEEPING * (targets**2).mean(axis=0)
    dropped = [name for name, keep in zip(header.output_names, kept, strict=True) if not keep]
    notes = [f"Gaussian processes of {', '.join(dropped)} do not help with unseen runs and are left out"]
    if not kept.any():
        return population, None, notes
    unseen = np.where(kept, unseen, targets)[:, : len(links) + 2]
    stddevs, _ = left_over(np.split(unseen, np.cumsum([len(run.time_s) for run in runs])[:-1]))
    # What the doubt about the runs' own parameters hides is in the population's.
    population = replace(population, residual_stddevs=np.maximum(stddevs, population.residual_stddevs))
    return population, _only(processes, kept), notes if dropped else []


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
    report(0.0, f"held-out part 1 of {folds}")
    learned = all_of(
        partial(_learn, configuration, model.header),
        others,
        lambda done: report(0.6 * done / folds, f"held-out part {min(done + 1, folds)} of {folds}"),
    )
    models = [replace(model, population=one, processes=processes) for one, processes, _ in learned]
    held_out = [(runs[k].label, one, models[fold_of[k]], k) for k, one in enumerate(recordings)]
    return held_out_errors(configuration, held_out, lambda done, text: report(0.6 + 0.4 * done, text))


def _inputs(runs: Sequence[TrainingRun]) -> Rows:
    """(K, 2 N - 1) joint angles and controls of all runs."""
    return np.vstack([np.hstack([run.joint_angles, run.controls]) for run in runs])


def _residuals(links: Rows, population: Population, run: TrainingRun) -> Rows:
    """(K, 2 N + 2) rates less those that are expected with the run's own parameters, gyros less measured rates."""
    rates, _, _ = expected(links, run, population.parameters + run_effects(population, links, run))
    return np.hstack([run.rates - rates, run.gyro - link_rates(run.rates)])


def _only(processes: SparseGaussianProcesses, kept: NDArray[np.bool_]) -> SparseGaussianProcesses:
    """The same with nothing to say of the outputs that are not kept: mean zero and hardly a variance."""
    signal = np.where(kept, processes.signal_variances, 1e-12 * processes.signal_variances)
    return replace(processes, weights=np.where(kept[:, None], processes.weights, 0.0), signal_variances=signal)


# How sure the filter may be, by runs that were held out.


@dataclass(frozen=True, eq=False)
class HeldOutErrors:
    """Of a run that the model had not seen, its start left out.

    Attributes
    ----------
    errors_rad
        (K, N - 1) of the joint angles.
    ratios, nees
        Of the pose and of the joint angles: errors over the standard deviations stated by the filter (K, .), and the
        NEES per degree of freedom (K,).
    references_deg
        RMS errors by each of the `references`, where there are any.
    """

    label: str
    errors_rad: Rows
    ratios: tuple[Rows, Rows]
    nees: tuple[Vector, Vector]
    references_deg: tuple[float, ...] = ()

    @property
    def rms_deg(self) -> float:
        """Of all joint angles."""
        return float(np.rad2deg(np.sqrt(np.mean(self.errors_rad**2))))


keepable(Population, SparseGaussianProcesses, HeldOutErrors)


def _beside_references(judged: Sequence[HeldOutErrors], runs: Sequence[TrainingRun]) -> Rows:
    """(R, 6) as `ResidualModel.held_out`; the share within 3 sigma with the factor that the other runs ask for."""
    labels, rows = [run.label for run in runs], []
    for one in judged:
        factor = inflation([other for other in judged if other is not one])[1]
        within = float(np.mean(np.abs(one.ratios[1]) <= 3.0 * factor))
        rows.append((labels.index(one.label), one.rms_deg, *one.references_deg, within))
    return np.array(rows, dtype=np.float64).reshape(-1, 6)


def held_out_errors(
    configuration: SalpConfiguration, held_out: Sequence[HeldOut], progress: Progress
) -> list[HeldOutErrors]:
    """Those of runs that are long enough to tell; of many runs some, from the first to the last."""
    most = max(2, _MOST_LINK_RUNS // len(configuration.chain.link_names))
    chosen = [held_out[round(k)] for k in np.linspace(0, len(held_out) - 1, min(most, len(held_out)))]

    def done(count: int) -> None:
        progress(count / len(chosen), f"is the filter as sure as it should be? run {count + 1} of {len(chosen)}")

    done(0)
    found = all_of(partial(_errors, configuration), chosen, lambda count: done(min(count, len(chosen) - 1)))
    return [one for one in found if one is not None]


def inflation(judged: Sequence[HeldOutErrors]) -> Vector:
    """(2,) what standard deviations of pose and joint angles are to be multiplied by.

    At least 1, and a lot where less than two runs can tell. With it the mean NEES of the held-out runs is the number of
    degrees of freedom, and `_COVERED` of their errors lie within three standard deviations, in either half of them:
    errors that grow with time decide, for the runs to come may be longer. Of n runs the mean is not that of all the
    others to come: as of a variance that n samples tell, (n + 1) / (n - 1) more is allowed for.
    """
    count = len(judged)
    if count < 2:
        return np.full(2, UNJUDGED_FACTOR)
    squares = np.ones((2, 5))
    for part, half in product((0, 1), (0, 1)):
        mean = np.mean([np.array_split(one.nees[part], 2)[half].mean() for one in judged])
        ratios = np.abs(np.concatenate([np.array_split(one.ratios[part], 2)[half].ravel() for one in judged]))
        squares[part, 2 * half : 2 * half + 2] = mean, (np.quantile(ratios, _COVERED) / 3.0) ** 2
    return np.sqrt(np.maximum(squares.max(axis=1) * (count + 1.0) / (count - 1.0), 1.0))


def _errors(configuration: SalpConfiguration, held_out: HeldOut) -> HeldOutErrors | None:
    """None for a run that is too short."""
    label, recording, model, seed = held_out
    names = configuration.chain.link_names
    measurements = thinned(recording.series, configuration.gyro.used_rate_hz or MOST_RATE_HZ)
    stamps = np.unique([one.stamp_ns for one in measurements if one.sensor != COMMAND])
    at = stamps[:: max(1, len(stamps) // 2000)]
    poses, there = zip(*(recording.tracks[name].at(at, 0.1) for name in names), strict=True)
    valid = np.all(there, axis=0)
    if valid.sum() < 20:
        return None
    states = configuration.chain.build().state_from_links(np.stack([planar_pose(one[valid]) for one in poses], axis=1))
    true_ns = at[valid]
    n = len(names)
    covariance = initial_covariance(configuration)
    error = covariance_root(covariance) @ np.random.default_rng(seed + _SEED).normal(size=len(covariance))
    error[n + 2 :] = error[:2] = 0.0
    covariance[:2] = covariance[:, :2] = 0.0  # what is found of the position is its drift alone
    estimator = ResidualEstimator(configuration, model, as_stated=True)
    space = estimator.space
    mean = space.plus(np.concatenate([states[0], np.zeros(n)]), error)
    initial = Estimate(int(true_ns[0]), mean, covariance)
    channels = [series.channel for series in recording.series]
    record = Pipeline(estimator, channels, initial, configuration.lag_s).run(measurements)
    known = {int(stamp): state for stamp, state in zip(true_ns, states, strict=True)}
    start_ns = int(true_ns[0]) + round(SETTLE_S * NANOSECONDS_PER_SECOND)
    judged = [one for one in record if one.stamp_ns >= start_ns and one.stamp_ns in known]
    if len(judged) < 20:
        return None
    at_ns = np.array([one.stamp_ns for one in judged])
    true = np.array([known[stamp] for stamp in at_ns.tolist()])
    noise, errors, ratios, per_degree = configuration.true_covariances(), [], [], []
    for name, values in {"pose": true[:, :3], "joint_angles": true[:, 3:]}.items():
        here, tangent = space.coordinates(name), space.tangent(name)
        errors.append(space.part(name).minus([one.mean[here] for one in judged], values))
        spread = np.array([one.covariance[tangent, tangent] for one in judged]) + noise[name]
        ratios.append(errors[-1] / np.sqrt(np.diagonal(spread, axis1=1, axis2=2)))
        per_degree.append(nees(errors[-1], spread) / spread.shape[-1])
    beside = references(configuration, recording.series, initial, at_ns)
    beside_deg = tuple(rms_deg(beside[name], true[:, 3:]) for name in WORDS)
    return HeldOutErrors(label, errors[1], (ratios[0], ratios[1]), (per_degree[0], per_degree[1]), beside_deg)
