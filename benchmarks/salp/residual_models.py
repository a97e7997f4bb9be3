"""Residual models of the salp: training against exact Gaussian processes, and a step of the filter that has them."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from benchmarks.salp.peers import ScikitLearnFilter
from benchmarks.salp.runs import TrainingSet, simulated, trained
from benchmarks.timing import Samples, case, interleaved, rounded
from onboard_estimation.configuration import load
from onboard_estimation.filtering.planar import planar_pose
from onboard_estimation.learning import sparse
from onboard_estimation.learning.sparse import SparseGaussianProcesses
from onboard_estimation.learning.sparse_kernels import predict_means, predict_variances
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Measurement
from onboard_estimation.pipeline import Pipeline
from onboard_estimation.robots import find_robot
from salp_estimation.chain_estimator import COMMAND
from salp_estimation.configuration import ChainConfiguration, SalpConfiguration
from salp_estimation.gaits import GAITS
from salp_estimation.hardware_simulator import HardwareSimulation
from salp_estimation.motion import Motion, motion_from_links
from salp_estimation.residual_estimator import ResidualEstimator
from salp_estimation.residual_model import ResidualModel, load_model
from salp_estimation.training_runs import training_run

Array = NDArray[np.float64]

DATA_RATE_HZ = 5.0


def residuals(seeds: Sequence[int], points: int) -> tuple[Array, Array, NDArray[np.int64]]:
    """Inputs (n, 5), targets (n, 8) and the number of the run (n,): a run of so many points for each seed and gait."""
    runs = [_residuals_of(gait, [seed, number], points) for seed in seeds for number, gait in enumerate(GAITS)]
    numbers = np.repeat(np.arange(len(runs)), points)
    return np.concatenate([inputs for inputs, _ in runs]), np.concatenate([targets for _, targets in runs]), numbers


def _residuals_of(gait: str, seed: list[int], points: int) -> tuple[Array, Array]:
    configuration = ChainConfiguration()
    chain, n = configuration.build(), len(configuration.link_names)
    simulation = HardwareSimulation(configuration, GAITS[gait].controls, np.random.default_rng(seed))
    rest_s = simulation.scenario.rest_s
    recording = simulation.advance(round((rest_s + points / DATA_RATE_HZ + 4.0) * NANOSECONDS_PER_SECOND))
    command, *imus = recording.sensors
    poses = [planar_pose(series.values) for series in recording.truth]
    names = configuration.link_names
    motion = motion_from_links(chain, [series.stamps_ns for series in recording.truth], poses, names)
    rim_speeds = command.values * configuration.signed_wheel_radii_m
    controls = motion.low_pass(motion.held(command.stamps_ns, rim_speeds))
    gyros = np.column_stack([_gyro(motion, series.stamps_ns, series.values[:, 2], rest_s) for series in imus])
    gyros = motion.low_pass(gyros)
    at_s = motion.stamps_ns / NANOSECONDS_PER_SECOND
    usable = motion.valid & np.isfinite(gyros).all(axis=1) & np.isfinite(controls).all(axis=1) & (at_s > rest_s + 1.0)
    chosen = np.flatnonzero(usable)[:: round(motion.rate_hz / DATA_RATE_HZ)][:points]
    inputs = np.concatenate([motion.states[chosen, 3:], controls[chosen]], axis=1)
    modelled = [
        np.concatenate([chain.velocity(row[: n - 1], row[n - 1 :]), chain.gyro_rates(row[: n - 1], row[n - 1 :])])
        for row in inputs
    ]
    return inputs, np.concatenate([motion.rates[chosen], gyros[chosen]], axis=1) - np.array(modelled)


def _gyro(motion: Motion, stamps_ns: NDArray[np.int64], rate_rad_s: Array, rest_s: float) -> Array:
    """A gyro's rate (K,) at the instants of the motion, less its mean at rest."""
    resting = stamps_ns < rest_s * NANOSECONDS_PER_SECOND
    return motion.sampled(stamps_ns, (rate_rad_s - rate_rad_s[resting].mean())[:, None])[:, 0]


Array = NDArray[np.float64]

TRAINING_SEEDS, TEST_SEEDS = (11, 12, 13, 14, 15), (21, 22, 23)
TRAINING_TARGET, PREDICTION_TARGET_S = 20.0, 0.3e-6
SIGMA_POINTS = 15
INDUCING = 100


class Exact:
    """scikit-learn's exact processes, one for each output, at their greatest likelihood from one start."""

    def __init__(self, inputs: Array, targets: Array) -> None:
        self._scales = inputs.std(axis=0)
        self._regressors = []
        for output in targets.T:
            size = np.sqrt(np.mean(output**2))
            kernel = ConstantKernel(1.0) * RBF([1.5] * inputs.shape[1], (0.02, 5.0)) + WhiteKernel(0.05)
            found = GaussianProcessRegressor(kernel, alpha=0.0).fit(inputs / self._scales, output / size)
            self._regressors.append((size, found))
        self.noise_variances = np.array([size**2 * np.exp(one.kernel_.theta[-1]) for size, one in self._regressors])

    def predict(self, inputs: Array) -> tuple[Array, Array]:
        """Means and latent variances (k, m)."""
        found = [(size, one.predict(inputs / self._scales, return_std=True)) for size, one in self._regressors]
        variances = np.column_stack([(size * deviation) ** 2 for size, (_, deviation) in found])
        return np.column_stack([size * mean for size, (mean, _) in found]), variances - self.noise_variances


def residual_training(quick: bool) -> list[dict[str, Any]]:
    """Gaussian processes for residuals: inducing points against exact processes of scikit-learn.

    Trained on 25 runs of LandSalp in the scenario `hardware` (five gaits, five robots, 450 s at 5 Hz), judged on runs
    of three other robots. Errors are in standard deviations of each target; the negative log predictive density (NLPD)
    is a mean over points and outputs with targets in these units, and smaller is better; the normalised squared error
    is one where the predicted variance is right. The model knows none of the robots it is judged on.
    """
    inputs, targets, _ = residuals(TRAINING_SEEDS[: 2 if quick else None], 60 if quick else 90)
    tests = residuals(TEST_SEEDS[: 1 if quick else None], 60 if quick else 150)[:2]
    sparse.fit(inputs[:100], targets[:100, :1], 10, iterations=2)  # compiles
    fits: dict[str, Callable[[], Exact | SparseGaussianProcesses]] = {
        "exact, scikit-learn": lambda: Exact(inputs, targets)
    }
    for count in (60, INDUCING, 150):
        fits[f"{count} inducing points"] = lambda points=count: sparse.fit(inputs, targets, points)
    models, seconds = {}, {}
    for name, fit in fits.items():
        start = time.process_time()
        models[name] = fit()
        seconds[name] = time.process_time() - start
    rows = _training(seconds) + [_accuracy(name, model, *tests) for name, model in models.items()]
    chosen = models[f"{INDUCING} inducing points"]
    assert isinstance(chosen, SparseGaussianProcesses)
    return [*rows, *_predictions(chosen, inputs[:SIGMA_POINTS], 5 if quick else 51)]


def _training(seconds: dict[str, float]) -> list[dict[str, Any]]:
    """Seconds of the processor, so that other load counts little."""
    rows = []
    for name, took_s in seconds.items():
        row = {"case": f"training eight outputs, {name}", "figure": f"{took_s:.3g} s", "processor_s": rounded(took_s)}
        if "scikit-learn" not in name:
            ratio = seconds["exact, scikit-learn"] / took_s
            row |= {"figure": f"{took_s:.3g} s, {ratio:.0f} times faster than exact", "times_faster": rounded(ratio)}
            row |= {"target": f">= {TRAINING_TARGET:g} times", "met": ratio >= TRAINING_TARGET}
        rows.append(row)
    return rows


def _accuracy(name: str, model: Exact | SparseGaussianProcesses, inputs: Array, targets: Array) -> dict[str, Any]:
    size = targets.std(axis=0)
    means, latent = model.predict(inputs)
    variances = latent + model.noise_variances
    errors = (means - targets) / size
    squares = (means - targets) ** 2 / variances
    nlpd = 0.5 * (np.log(2.0 * np.pi * variances / size**2) + squares).mean()
    figures = {
        "rms_error": float(np.sqrt(np.mean(errors**2))),
        "worst_error": float(np.abs(errors).max()),
        "nlpd": float(nlpd),
        "normalised_squared_error": float(squares.mean()),
    }
    text = (
        f"RMS error {figures['rms_error']:.3f}, worst {figures['worst_error']:.2f}; "
        f"NLPD {figures['nlpd']:.2f}; "
        f"normalised squared error {figures['normalised_squared_error']:.2f}"
    )
    return {"case": f"other robots, {name}", "figure": text} | {key: rounded(value) for key, value in figures.items()}


def _predictions(model: SparseGaussianProcesses, inputs: Array, repetitions: int) -> list[dict[str, Any]]:
    outputs = len(model.weights)
    samples = interleaved(
        {
            "means": lambda arrays=model.mean_arrays: predict_means(*arrays, inputs),
            "variances": lambda arrays=model.variance_arrays: predict_variances(*arrays, inputs[:1]),
        },
        repetitions,
    )
    samples["means"] /= len(inputs) * outputs
    label = f"mean at one of {len(inputs)} sigma points, one output; {INDUCING} inducing points"
    return [
        case(label, samples, "means", target_s=PREDICTION_TARGET_S),
        case(f"variances of {outputs} outputs at one point", samples, "variances"),
    ]


Array = NDArray[np.float64]
Row = dict[str, Any]

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
    return {
        "case": f"real time at 200 Hz, three gyros and commands through the pipeline, {form}",
        "figure": f"{margin:.1f} times faster: {100.0 / margin:.1f} % of a core",
        "share_of_a_core": rounded(float(np.median(share))),
        "share_of_a_core_p90": rounded(float(np.percentile(share, 90))),
        "margin": rounded(margin),
        "target": f">= {REAL_TIME_MARGIN:g} times",
        "met": margin >= REAL_TIME_MARGIN,
    }
