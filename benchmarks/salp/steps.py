"""Speed of the salp's kernels and filters against NumPy, FilterPy and scikit-learn."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from filterpy.kalman import MerweScaledSigmaPoints, UnscentedKalmanFilter
from numba import njit
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from benchmarks.measuring import Array, Row, Runner, agreement, case, filterpy_runner, interleaved, row, runge_kutta
from benchmarks.salp.against_cpp import gyro_reading
from benchmarks.salp.link_by_link import LinkByLink
from benchmarks.salp.runs import CONFIGURATION, ROBOT, TrainingSet, simulated, trained
from onboard_estimation.base.configuration import load
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Measurement
from onboard_estimation.filtering.state_space import StateSpace, angles, se2, vector
from onboard_estimation.filtering.unscented import Unscented
from onboard_estimation.learning import sparse
from onboard_estimation.learning.sparse_kernels import predict_means
from onboard_estimation.pipeline.pipeline import Pipeline
from salp_estimation.estimators.chain_estimator import COMMAND
from salp_estimation.estimators.paper_filter import PaperFilter, load_trained
from salp_estimation.estimators.residual_estimator import ResidualEstimator
from salp_estimation.estimators.residual_model import ResidualModel
from salp_estimation.model import chain_kernels as kernels
from salp_estimation.model.chain import Chain
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.training.paper_training import fitted
from salp_estimation.training.population import fit_population
from salp_estimation.training.residual_training import _residuals
from salp_estimation.training.runs import training_run

RUNS_UNASKED = ("unscented_step", "chain_velocity")
Model = Callable[[Array], Array]

STEP_S, STEPS = 0.05, 40
FILTER_TARGET, FILTER_TOLERANCE = 20.0, 1e-9
NUMPY, COMPILED = "FilterPy, NumPy model", "FilterPy, compiled model"
BEACONS = np.array([[60.0, 40.0], [-30.0, 80.0]])


class Task:
    """Two seconds of one model: start, noise and measurements, drawn from the models of all sigma points."""

    def __init__(
        self, start: Array, covariance: Array, process_root: Array, noise_root: Array, propagate: Model, measure: Model
    ) -> None:
        self.start, self.covariance = start, covariance
        self.process_root, self.noise_root = process_root, noise_root
        self.propagate, self.measure = propagate, measure
        rng, self.measured = np.random.default_rng(0), []
        truth = (start + np.linalg.cholesky(covariance) @ rng.normal(size=5))[None]
        for _ in range(STEPS):
            truth = propagate(truth)
            self.measured.append(measure(truth)[0] + noise_root @ rng.normal(size=3))

    def ours(self, space: StateSpace) -> Runner:
        """Runs our filter; the moments of all steps if asked."""
        tracker = Unscented(space)
        start = tracker.start(self.start, self.covariance)

        def run(record: bool = False) -> list[tuple[Array, Array]]:
            state, found = start, []
            for measured in self.measured:
                state = tracker.predict(state, self.propagate, self.process_root)
                state, _, _ = tracker.update(state, self.measure, measured, self.noise_root)
                if record:
                    found.append((state.mean, tracker.covariance(state)))
            return found

        return run

    def filterpy(self, propagate: Model, measure: Model) -> Runner:
        """Runs FilterPy's, with models of one state."""
        points = MerweScaledSigmaPoints(5, alpha=1.0, beta=0.0, kappa=0.0)
        tracker = UnscentedKalmanFilter(5, 3, STEP_S, measure, lambda x, dt: propagate(x), points)
        tracker.Q, tracker.R = self.process_root @ self.process_root.T, self.noise_root @ self.noise_root.T
        return filterpy_runner(tracker, self.start, self.covariance, self.measured)

    def rows(self, ours: Mapping[str, StateSpace], numpy: tuple[Model, Model], compiled: tuple[Model, Model],
             exact: str, quick: bool) -> list[Row]:  # fmt: skip
        """Each of ours against both; the numbers of `exact` are compared with theirs."""
        runners = {name: self.ours(space) for name, space in ours.items()}
        peers = {NUMPY: self.filterpy(*numpy), COMPILED: self.filterpy(*compiled)}
        apart = {name: agreement(runners[exact], peer, FILTER_TOLERANCE) for name, peer in peers.items()}
        samples = interleaved({**runners, **peers}, 5 if quick else 101)
        samples = {name: times / STEPS for name, times in samples.items()}
        return [
            case(name, samples, name, peer, FILTER_TARGET, largest_difference=apart[peer] if name == exact else None)
            for name in ours
            for peer in peers
        ]


def unscented_step(quick: bool) -> list[Row]:
    """One unscented predict and update, five states and three measured, against FilterPy's UnscentedKalmanFilter.

    Models: a vehicle on a coordinated turn (a plain vector state), and the real one, LandSalp's pose and joint angles
    from three gyros, integrated over 50 ms by Runge-Kutta. FilterPy calls a model for each of its eleven sigma points,
    and gets it in two forms: the same equations written for one state in NumPy, as its users write them, and the
    compiled model that ours calls once for all points. Both filters run the same two seconds over and over; before
    anything is timed, means and covariances of all steps are compared. FilterPy's state is a vector: poses are compared
    with position, heading and joint angles as separate blocks, headings away from half a turn. "on SE(2)" is the state
    space that the robot uses, where the pose's error is a body twist: other numbers, a little more work.
    """
    return [*_vehicle(quick), *_landsalp(quick)]


@njit(cache=True)
def _turn_into(x: Array, out: Array) -> None:
    """Coordinated turn of a state: x, y, speed, course, turning rate; Euler's method."""
    out[0] = x[0] + STEP_S * x[2] * math.cos(x[3])
    out[1] = x[1] + STEP_S * x[2] * math.sin(x[3])
    out[2], out[3], out[4] = x[2], x[3] + STEP_S * x[4], x[4]


@njit(cache=True)
def _see_into(x: Array, out: Array) -> None:
    """Ranges of two beacons and turning rate."""
    for beacon in range(2):
        out[beacon] = math.sqrt((x[0] - BEACONS[beacon, 0]) ** 2 + (x[1] - BEACONS[beacon, 1]) ** 2)
    out[2] = x[4]


@njit(cache=True)
def _turn(points: Array) -> Array:
    out = np.empty_like(points)
    for k in range(len(points)):
        _turn_into(points[k], out[k])
    return out


@njit(cache=True)
def _see(points: Array) -> Array:
    out = np.empty((len(points), 3))
    for k in range(len(points)):
        _see_into(points[k], out[k])
    return out


@njit(cache=True)
def _turn_one(x: Array) -> Array:
    out = np.empty(5)
    _turn_into(x, out)
    return out


@njit(cache=True)
def _see_one(x: Array) -> Array:
    out = np.empty(3)
    _see_into(x, out)
    return out


def _turn_numpy(x: Array) -> Array:
    along = STEP_S * x[2]
    return np.array([x[0] + along * math.cos(x[3]), x[1] + along * math.sin(x[3]), x[2], x[3] + STEP_S * x[4], x[4]])


def _see_numpy(x: Array) -> Array:
    (ax, ay), (bx, by) = BEACONS.tolist()
    return np.array([math.hypot(x[0] - ax, x[1] - ay), math.hypot(x[0] - bx, x[1] - by), x[4]])


def _vehicle(quick: bool) -> list[Row]:
    start, covariance = np.array([0.0, 0.0, 5.0, 0.3, 0.1]), np.diag([1.0, 1.0, 0.25, 0.01, 0.0025])
    task = Task(start, covariance, np.diag([1e-3, 1e-3, 0.05, 1e-3, 0.01]), np.diag([0.2, 0.3, 0.01]), _turn, _see)
    ours = {"vehicle, vector state": StateSpace(vector("x", ("x", "y", "speed", "course", "rate"), ""))}
    return task.rows(ours, (_turn_numpy, _see_numpy), (_turn_one, _see_one), *ours, quick)


def _landsalp(quick: bool) -> list[Row]:
    chain, controls = CONFIGURATION.chain.build(), np.array([0.05, -0.04, 0.03])
    links, equations = chain.links, LinkByLink(chain)

    def propagate(points: Array) -> Array:
        return kernels.propagate(links, points, controls, STEP_S, STEP_S)

    def measure(points: Array) -> Array:
        return kernels.gyro_rates(links, points, controls, 0.0)

    def derivative(x: Array) -> Array:
        rates = equations(x[3:], controls)
        cosine, sine = math.cos(x[2]), math.sin(x[2])
        rates[0], rates[1] = cosine * rates[0] - sine * rates[1], sine * rates[0] + cosine * rates[1]
        return rates

    def propagate_numpy(x: Array) -> Array:
        return runge_kutta(derivative, x, STEP_S)

    def measure_numpy(x: Array) -> Array:
        rates = equations(x[3:], controls)
        # The mean heading's rate is that of link 1 and a share of the joint rates; then joint by joint.
        first = rates[2] - (2.0 * rates[3] + rates[4]) / 3.0
        return np.array([first, first + rates[3], first + rates[3] + rates[4]])

    start, process_root = np.array([0.1, 0.2, 0.3, 0.1, -0.2]), np.diag([1e-4, 1e-4, 1e-3, 1e-3, 1e-3])
    task = Task(start, CONFIGURATION.initial_covariance(), process_root, 5e-3 * np.eye(3), propagate, measure)
    joints = angles("joint_angles", ("a", "b"))
    flat = StateSpace(vector("position", ("x", "y"), "m"), angles("heading", ("heading",)), joints)
    ours = {"LandSalp, same numbers": flat, "LandSalp, on SE(2)": StateSpace(se2("pose"), joints)}
    compiled = lambda x: propagate(x[None])[0], lambda x: measure(x[None])[0]
    return task.rows(ours, (propagate_numpy, measure_numpy), compiled, "LandSalp, same numbers", quick)


COUNTS, GROWTH_COUNTS = (3, 10, 30, 100), (10, 18, 32, 56, 100)
CHAIN_TARGET = 40.0
CHAIN_TOLERANCE = 1e-7  # the dense system of a hundred links is badly conditioned: NumPy is off by 3e-9


def chain_inputs(count: int) -> tuple[Chain, Array, Array]:
    """A chain like LandSalp, its links all different, joint angles of its sigma points (2 N + 5, N - 1), rim speeds."""
    rng = np.random.default_rng(count)
    drag = np.column_stack([rng.uniform(*bounds, count) for bounds in ((40.0, 80.0), (20.0, 90.0), (0.2, 0.8))])
    links = np.zeros((count, kernels.COLUMNS))
    links[:, kernels.DRAG : kernels.DRAG + 9 : 4] = drag
    links[:, kernels.LENGTH] = rng.uniform(0.2, 0.3, count)
    links[:, kernels.WHEEL_X : kernels.WHEEL_Y + 1] = rng.normal(scale=0.01, size=(count, 2))
    links[:, kernels.WHEEL_ANGLE] = np.deg2rad(rng.choice([-57.0, -130.0], count))
    links[:-1, kernels.JOINT_DRAG] = rng.uniform(0.01, 0.02, count - 1)
    links[:-1, kernels.LOWER], links[:-1, kernels.UPPER] = -np.pi, np.pi
    chain = Chain(links)
    rng = np.random.default_rng(1)
    return chain, rng.normal(scale=0.2, size=(2 * count + 5, count - 1)), rng.normal(scale=0.1, size=count)


def chain_velocity(quick: bool) -> list[Row]:
    """B(r) u of chains of 3 to 100 links: our compiled kernel against NumPy, for one state and for all sigma points.

    NumPy has our own recursion (the same sums). Both are called from Python, and the results compared before anything
    is timed. The growth is the exponent p of N^p that fits our times between 10 and 100 links best.
    """
    return [*(row for count in COUNTS for row in _against_numpy(count, quick)), *_growth(quick)]


def _against_numpy(count: int, quick: bool) -> list[Row]:
    chain, batch, controls = chain_inputs(count)
    links, recursion, rows, numpy = kernels.completed(chain.links), LinkByLink(chain), [], "NumPy, same sums"
    for name, joints in (("one state", batch[:1]), (f"{len(batch)} sigma points", batch)):
        theirs = joints[0] if len(joints) == 1 else joints
        ours = kernels.velocities(links, joints, controls)
        apart = float(np.abs(recursion(theirs, controls) - ours).max() / np.abs(ours).max())
        if not apart <= CHAIN_TOLERANCE:
            raise RuntimeError(
                f"B(r) u of {count} links: ours and NumPy's differ by {apart:.2g} of the largest velocity"
            )
        candidates = {
            "compiled": lambda joints=joints: kernels.velocities(links, joints, controls),
            numpy: lambda theirs=theirs: recursion(theirs, controls),
        }
        samples = interleaved(candidates, 5 if quick else 51, block_s=0.002)
        label = f"{count} links, {name}"
        rows.append(case(label, samples, "compiled", numpy, CHAIN_TARGET, largest_difference=apart))
    return rows


def _growth(quick: bool) -> list[Row]:
    rows, inputs = [], {count: chain_inputs(count) for count in GROWTH_COUNTS}
    for name, points in (("one state", slice(1)), ("2 N + 5 sigma points", slice(None))):
        candidates = {
            str(count): partial(kernels.velocities, kernels.completed(chain.links), joints[points], controls)
            for count, (chain, joints, controls) in inputs.items()
        }
        samples = interleaved(candidates, 5 if quick else 31, block_s=0.002)
        medians = [float(np.median(samples[str(count)])) for count in GROWTH_COUNTS]
        exponent = float(np.polyfit(np.log(GROWTH_COUNTS), np.log(medians), 1)[0])
        rows.append(row(f"growth of the time with N, {name}", f"N^{exponent:.2f}", "at most N^2", exponent <= 2.0))
    return rows


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
    population = fit_population(links, runs)
    targets = np.vstack([_residuals(links, population, run) for run in runs])
    sparse.fit(inputs[:100], targets[:100, :1], 10, iterations=2)  # compiles
    fits: dict[str, Callable[[], Any]] = {EXACT: lambda: _fit_exact(inputs, targets)}
    fits |= {f"{count} inducing points": partial(sparse.fit, inputs, targets, count) for count in (60, INDUCING, 150)}
    models, seconds, rows = {}, {}, []
    for name, fit in fits.items():
        start_s = time.process_time()
        models[name] = fit()
        seconds[name] = time.process_time() - start_s
        ratio, figure = seconds[EXACT] / seconds[name], f"{seconds[name]:.3g} s"
        target: tuple[Any, ...] = ()
        if name != EXACT:
            figure += f", {ratio:.0f} times faster than exact"
            target = f">= {TRAINING_TARGET:g} times", ratio >= TRAINING_TARGET
        rows.append(row(f"training {targets.shape[1]} outputs, {name}", figure, *target))
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


STEP_TARGET, STEP_TARGET_S, REAL_TIME_MARGIN = 12.0, 0.5e-3, 10.0
GAIT, SEED, PERIOD_S = "left", 800_000, 0.02
WARM_S, WARM_STEPS = 4.0, 10
"""The gait has run for two seconds."""
FORMS = ("calibrated", "local")
PEER = "the paper's filter, exact Gaussian processes"


def salp_filter_step(quick: bool) -> list[Row]:
    """One step of LandSalp's filter with residual models: constant-time models against exact Gaussian processes.

    A step is a prediction over 20 ms and a correction by each of the three gyros, on measurements of the scenario
    `hardware`, with the commands in between; of the paper's filter (form `paper`), one over 0.2 s and a correction by
    all three. Trained as in `salp_hardware`. Real time: all measurements of three
    gyros at 200 Hz, none left out, through `Pipeline.process`.
    """
    data, repetitions, duration_s = (TrainingSet(seeds=1), 3, 6.0) if quick else (TrainingSet(), 31, 20.0)
    measurements = list(simulated("hardware", GAIT, SEED, duration_s)().measurements())
    candidates: dict[str, Callable[[], object]] = {}
    real_time = []
    with tempfile.TemporaryDirectory() as name:
        for form in FORMS:
            settings = trained(Path(name), form, data.sources()).settings
            candidates[form] = _steps(str(settings["residual_model"]), measurements)
            real_time.append(_real_time(form, settings, measurements, duration_s, repetitions))
    taught = {f"run {number}": source() for number, source in enumerate(data.sources())}
    peer = PaperFilter(CONFIGURATION, fitted(CONFIGURATION, taught, [""] * len(taught)))
    candidates[PEER] = _peer_step(peer, measurements)
    samples = interleaved(candidates, repetitions, block_s=0.02)
    samples = {name: times if name == PEER else times / WARM_STEPS for name, times in samples.items()}
    rows = []
    for form in FORMS:
        label = f"one step at {1.0 / PERIOD_S:g} Hz, three links, {form}"
        rows.append(case(label, samples, form, PEER, STEP_TARGET))
        rows.append(case(f"{label}, at most", samples, form, target_s=STEP_TARGET_S))
    return [*rows, *real_time]


def _steps(model: str, measurements: list[Measurement]) -> Callable[[], object]:
    """Ten steps from a state in the middle of a run, with the measurements that the filter uses at 50 Hz."""
    known = load_trained(model, CONFIGURATION)
    assert isinstance(known, ResidualModel)
    all_used = replace(CONFIGURATION, gyro=replace(CONFIGURATION.gyro, used_rate_hz=0.0))
    estimator = ResidualEstimator(all_used, known)
    thinned = _thinned(measurements)
    warm_ns, start = round(WARM_S * NANOSECONDS_PER_SECOND), estimator.start(None)
    for measurement in thinned:
        if measurement.stamp_ns >= warm_ns:
            break
        start = estimator.step(start, measurement).state
    stop_ns = warm_ns + round(WARM_STEPS * PERIOD_S * NANOSECONDS_PER_SECOND)
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


def _peer_step(peer: PaperFilter, measurements: list[Measurement]) -> Callable[[], object]:
    """One step of the peer with a command and the gyros of the middle of the run."""
    newest = {one.sensor: one.value for one in measurements if one.stamp_ns <= WARM_S * NANOSECONDS_PER_SECOND}
    gyros = np.array([newest[f"imu/{name}"][2] for name in CONFIGURATION.chain.link_names])
    controls = CONFIGURATION.chain.signed_wheel_radii_m * newest[COMMAND]
    mean, covariance = np.zeros(5), np.diag([1e-4] * 2 + [4e-3] * 3)

    def step() -> object:
        return peer.corrected(*peer.predicted(mean, covariance, controls), controls, gyros, [0, 1, 2])

    return step


def _real_time(
    form: str, model: Mapping[str, Any], measurements: list[Measurement], duration_s: float, repetitions: int
) -> Row:
    """How much faster than the robot all gyros at 200 Hz are filtered, with arrival in order of stamps."""
    configuration = load(SalpConfiguration, None, {**model, "gyro.used_rate_hz": 0.0})

    def filtered() -> None:
        estimator, channels = ROBOT.estimator(configuration, "ukf"), ROBOT.channels(configuration)
        pipeline = Pipeline(estimator, channels, lag_s=configuration.lag_s)
        for measurement in measurements:
            pipeline.process(measurement)

    samples = interleaved({"pipeline": filtered}, min(repetitions, 5), block_s=0.0)
    margin = duration_s / float(np.median(samples["pipeline"]))
    name = f"real time at 200 Hz, three gyros and commands through the pipeline, {form}"
    figure = f"{margin:.1f} times faster: {100.0 / margin:.1f} % of a core"
    return row(name, figure, f">= {REAL_TIME_MARGIN:g} times", margin >= REAL_TIME_MARGIN)


def salp_gyro_reading(quick: bool) -> list[Row]:
    """Processor time for each reading of LandSalp's gyros: alone, in the pipeline, and of a plain C++ filter.

    Three gyros and the commands at 200 Hz, scenario `hardware`; commands are among what is timed. Alone: one by one,
    and in blocks of as many readings as a live node gets at once.
    """
    return gyro_reading(quick)
