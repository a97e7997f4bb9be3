"""Residual models of the salp: training against exact Gaussian processes, and a step of the filter that has them."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from benchmarks.measuring import Samples, case, interleaved, row
from benchmarks.salp.peers import ScikitLearnFilter
from benchmarks.salp.runs import CONFIGURATION, TrainingSet, simulated, trained
from onboard_estimation.base.configuration import load
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Measurement
from onboard_estimation.contract.robot import find_robot
from onboard_estimation.learning import sparse
from onboard_estimation.learning.sparse_kernels import predict_means
from onboard_estimation.pipeline.pipeline import Pipeline
from salp_estimation.estimators.chain_estimator import COMMAND
from salp_estimation.estimators.residual_estimator import ResidualEstimator
from salp_estimation.estimators.residual_model import ResidualModel, load_model
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.training.population import nominal_population
from salp_estimation.training.residual_training import _residuals
from salp_estimation.training.runs import training_run

Array = NDArray[np.float64]
Row = dict[str, Any]

TRAINING_TARGET, PREDICTION_TARGET_S = 20.0, 0.3e-6
SIGMA_POINTS, INDUCING = 15, 100
EXACT = "exact, scikit-learn"


def residual_training(quick: bool) -> list[Row]:
    """Gaussian processes for residuals: inducing points against exact processes of scikit-learn.

    Residuals of 25 runs of LandSalp in the scenario `hardware` (five gaits, five robots, 5 Hz). Training in seconds of
    the processor, so that other load counts little.
    """
    runs = [training_run(CONFIGURATION, one(), "") for one in TrainingSet(seeds=2 if quick else 5).sources()]
    links = CONFIGURATION.chain.build().links
    inputs = np.vstack([np.hstack([run.joint_angles, run.controls]) for run in runs])
    targets = np.vstack([_residuals(links, nominal_population(len(links)), run) for run in runs])
    sparse.fit(inputs[:100], targets[:100, :1], 10, iterations=2)  # compiles
    fits: dict[str, Callable[[], Any]] = {EXACT: lambda: _fit_exact(inputs, targets)}
    fits |= {f"{count} inducing points": partial(sparse.fit, inputs, targets, count) for count in (60, INDUCING, 150)}
    models, seconds, rows = {}, {}, []
    for name, fit in fits.items():
        start_s = time.process_time()
        models[name] = fit()
        seconds[name] = time.process_time() - start_s
        ratio = seconds[EXACT] / seconds[name]
        case_name, figure = f"training {targets.shape[1]} outputs, {name}", f"{seconds[name]:.3g} s"
        if name == EXACT:
            rows.append(row(case_name, figure))
        else:
            target = f">= {TRAINING_TARGET:g} times", ratio >= TRAINING_TARGET
            rows.append(row(case_name, f"{figure}, {ratio:.0f} times faster than exact", *target))
    arrays, points = models[f"{INDUCING} inducing points"].mean_arrays, inputs[:SIGMA_POINTS]
    samples = interleaved({"means": lambda: predict_means(*arrays, points)}, 5 if quick else 51)
    samples["means"] /= len(points) * targets.shape[1]
    label = f"mean at one of {len(points)} sigma points, one output; {INDUCING} inducing points"
    return [*rows, case(label, samples, "means", target_s=PREDICTION_TARGET_S)]


def _fit_exact(inputs: Array, targets: Array) -> None:
    """scikit-learn's exact processes, one for each output, at their greatest likelihood from one start."""
    for output in targets.T:
        kernel = ConstantKernel(1.0) * RBF([1.5] * inputs.shape[1], (0.02, 5.0)) + WhiteKernel(0.05)
        size = np.sqrt(np.mean(output**2))
        GaussianProcessRegressor(kernel, alpha=0.0).fit(inputs / inputs.std(axis=0), output / size)


STEP_TARGET, STEP_TARGET_S = 12.0, 0.5e-3
REAL_TIME_MARGIN = 10.0
GAIT, SEED = "left", 800_000
PERIOD_S = 0.02
WARM_S = 4.0
"""The gait has run for two seconds."""
STEPS = 10
FORMS = ("calibrated", "local", "gaussian_process")
PEER = "scikit-learn, one batch"


def salp_filter_step(quick: bool) -> list[Row]:
    """One step of LandSalp's filter with residual models: constant-time models against exact Gaussian processes.

    A step is a prediction over 20 ms and a correction by each of the three gyros, on measurements of the scenario
    `hardware`, with the commands in between. Exact processes as scikit-learn predicts them for all sigma points of the
    paper's filter in one batch. Trained as in `salp_hardware`. Real time: all measurements of three gyros at 200 Hz,
    none left out, through `Pipeline.process`.
    """
    return step_rows(TrainingSet(seeds=1) if quick else TrainingSet(), 3 if quick else 31, 6.0 if quick else 20.0)


def step_rows(data: TrainingSet, repetitions: int, duration_s: float, forms: tuple[str, ...] = FORMS) -> list[Row]:
    """Cases with models of this training set; a recording of at least 5 s."""
    settings = SalpConfiguration()
    measurements = list(simulated("hardware", GAIT, SEED, duration_s)().measurements())
    with tempfile.TemporaryDirectory() as name:
        files = {form: trained(Path(name), form, data.sources()).settings for form in {*forms, "gaussian_process"}}
        models = {form: load_model(str(one["residual_model"]), settings) for form, one in files.items()}
        real_time = [_real_time(form, files[form], measurements, duration_s, repetitions) for form in forms]
    processes = models["gaussian_process"].processes
    assert processes is not None
    taught = [training_run(settings, source(), str(number)) for number, source in enumerate(data.sources())]
    inputs = np.vstack([np.hstack([run.joint_angles, run.controls]) for run in taught])
    peer = ScikitLearnFilter(settings.chain.build().links, processes, inputs, processes.predict(inputs)[0])
    candidates: dict[str, Callable[[], object]] = {form: _steps(models[form], measurements) for form in forms}
    candidates[PEER] = _peer_step(peer, measurements)
    samples = interleaved(candidates, repetitions, block_s=0.02)
    samples = {name: times if name == PEER else times / STEPS for name, times in samples.items()}
    out = []
    for form in forms:
        label = f"one step at {1.0 / PERIOD_S:g} Hz, three links, {form}"
        out.append(case(label, samples, form, PEER, STEP_TARGET, training_points=len(inputs)))
        out.append(case(f"{label}, at most", samples, form, target_s=STEP_TARGET_S))
    return [*out, *real_time]


def _steps(model: ResidualModel, measurements: list[Measurement]) -> Callable[[], object]:
    """Ten steps from a state in the middle of a run, with the measurements that the filter uses at 50 Hz."""
    base = SalpConfiguration()
    estimator = ResidualEstimator(replace(base, gyro=replace(base.gyro, used_rate_hz=0.0)), model)
    thinned = _thinned(measurements)
    warm_ns, start = round(WARM_S * NANOSECONDS_PER_SECOND), estimator.start(None)
    for measurement in thinned:
        if measurement.stamp_ns >= warm_ns:
            break
        start = estimator.step(start, measurement).state
    stop_ns = warm_ns + round(STEPS * PERIOD_S * NANOSECONDS_PER_SECOND)
    block = [one for one in thinned if warm_ns <= one.stamp_ns < stop_ns]

    def steps() -> None:
        state = start
        for measurement in block:
            state = estimator.step(state, measurement).state

    return steps


def _thinned(measurements: list[Measurement]) -> list[Measurement]:
    """All commands, and of each gyro one sample in every period."""
    out: list[Measurement] = []
    last: dict[str, int] = {}
    for one in measurements:
        period = int(one.stamp_ns / NANOSECONDS_PER_SECOND / PERIOD_S)
        if one.sensor == COMMAND or last.get(one.sensor) != period:
            last[one.sensor] = period
            out.append(one)
    return out


def _peer_step(peer: ScikitLearnFilter, measurements: list[Measurement]) -> Callable[[], object]:
    """One step of the peer with a command and the gyros of the middle of the run."""
    base = SalpConfiguration()
    before = [one for one in measurements if one.stamp_ns <= WARM_S * NANOSECONDS_PER_SECOND]
    newest = {one.sensor: one.value for one in before}
    gyro = np.array([newest[f"imu/{name}"][2] for name in base.chain.link_names])
    mean, covariance, controls = peer.mean, peer.covariance, base.chain.signed_wheel_radii_m * newest[COMMAND]
    return lambda: peer.step(mean, covariance, controls, gyro, PERIOD_S)


def _real_time(
    form: str, model: Mapping[str, Any], measurements: list[Measurement], duration_s: float, repetitions: int
) -> Row:
    """How much faster than the robot all gyros at 200 Hz are filtered, with arrival in order of stamps."""
    configuration = load(SalpConfiguration, None, {**model, "gyro.used_rate_hz": 0.0})
    robot = find_robot("salp")

    def filtered() -> None:
        estimator, channels = robot.estimator(configuration, "ukf"), robot.channels(configuration)
        pipeline = Pipeline(estimator, channels, lag_s=configuration.lag_s)
        for measurement in measurements:
            pipeline.process(measurement)

    samples: Samples = interleaved({"pipeline": filtered}, min(repetitions, 5), block_s=0.0)
    share = samples["pipeline"] / duration_s
    margin = 1.0 / float(np.median(share))
    case_name = f"real time at 200 Hz, three gyros and commands through the pipeline, {form}"
    figure = f"{margin:.1f} times faster: {100.0 / margin:.1f} % of a core"
    return row(case_name, figure, f">= {REAL_TIME_MARGIN:g} times", margin >= REAL_TIME_MARGIN)
