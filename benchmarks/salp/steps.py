"""Speed of the salp's kernels and of the unscented filter against NumPy and FilterPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from filterpy.kalman import MerweScaledSigmaPoints, UnscentedKalmanFilter
from numba import njit
from numpy.typing import NDArray

from benchmarks.salp.peers import LinkByLink
from benchmarks.timing import case, interleaved, row
from onboard_estimation.filtering.state_space import StateSpace, angles, se2, vector
from onboard_estimation.filtering.unscented import Unscented
from salp_estimation.model import chain_kernels
from salp_estimation.model import chain_kernels as kernels
from salp_estimation.model.chain import Chain
from salp_estimation.model.configuration import SalpConfiguration

RUNS_UNASKED = ("unscented_step", "chain_velocity")
Array = NDArray[np.float64]
Model = Callable[[Array], Array]

STEP_S = 0.05
STEPS = 40
FILTER_TARGET = 20.0
FILTER_TOLERANCE = 1e-9
BEACONS = np.array([[60.0, 40.0], [-30.0, 80.0]])


class Task:
    """Two seconds of one model: start, noise and measurements, and filters that run through them."""

    def __init__(self, start: Array, covariance: Array, process_root: Array, noise_root: Array) -> None:
        self.start, self.covariance = start, covariance
        self.process_root, self.noise_root = process_root, noise_root
        self.measured: list[Array] = []

    def measure(self, propagate: Model, measure: Model) -> None:
        """Draw the true motion and its measurements from the models of sigma points."""
        rng = np.random.default_rng(0)
        truth = (self.start + np.linalg.cholesky(self.covariance) @ rng.normal(size=5))[None]
        for _ in range(STEPS):
            truth = propagate(truth)
            self.measured.append(measure(truth)[0] + self.noise_root @ rng.normal(size=3))

    def ours(self, space: StateSpace, propagate: Model, measure: Model) -> Callable[[], list[tuple[Array, Array]]]:
        """Runs our filter, with models of all sigma points; returns the moments of all steps if asked."""
        tracker = Unscented(space)
        start = tracker.start(self.start, self.covariance)

        def run(record: bool = False) -> list[tuple[Array, Array]]:
            state, found = start, []
            for measured in self.measured:
                state = tracker.predict(state, propagate, self.process_root)
                state, _, _ = tracker.update(state, measure, measured, self.noise_root)
                if record:
                    found.append((state.mean, tracker.covariance(state)))
            return found

        return run

    def filterpy(self, propagate: Model, measure: Model) -> Callable[[], list[tuple[Array, Array]]]:
        """Runs FilterPy's filter, with models of one state."""
        tracker = UnscentedKalmanFilter(
            dim_x=5,
            dim_z=3,
            dt=STEP_S,
            fx=lambda x, dt: propagate(x),
            hx=measure,
            points=MerweScaledSigmaPoints(5, alpha=1.0, beta=0.0, kappa=0.0),
        )
        tracker.Q, tracker.R = self.process_root @ self.process_root.T, self.noise_root @ self.noise_root.T

        def run(record: bool = False) -> list[tuple[Array, Array]]:
            found = []
            tracker.x, tracker.P = self.start.copy(), self.covariance.copy()
            for measured in self.measured:
                tracker.predict()
                tracker.update(measured)
                if record:
                    found.append((tracker.x, tracker.P))
            return found

        return run


def unscented_step(quick: bool) -> list[dict[str, Any]]:
    """One unscented predict and update, five states and three measured, against FilterPy's UnscentedKalmanFilter.

    Models: a vehicle on a coordinated turn (a plain vector state), and the real one, LandSalp's pose and joint angles
    from three gyros, integrated over 50 ms by Runge-Kutta. FilterPy calls a model for each of its eleven sigma points,
    and gets it in two forms: the same equations written for one state in NumPy, as its users write them, and the
    compiled model that ours calls once for all points. Both filters run the same two seconds over and over; before
    anything is timed, means and covariances of all steps are compared. FilterPy's state is a vector: poses are compared
    with position, heading and joint angles as separate blocks, headings away from half a turn. "on SE(2)" is the state
    space that the robot uses, where the pose's error is a body twist: other numbers, a little more work.
    """
    return [*_vehicle(quick), *_chain(quick)]


def agreement(ours: Any, theirs: Any) -> float:
    """Largest difference of means and covariances over all steps; RuntimeError where they are not the same."""
    largest = 0.0
    for (mean, covariance), (other_mean, other_covariance) in zip(ours(True), theirs(True), strict=True):
        largest = max(largest, np.abs(mean - other_mean).max(), np.abs(covariance - other_covariance).max())
    if not largest <= FILTER_TOLERANCE:
        raise RuntimeError(
            f"our filter and FilterPy's differ by {largest:.2g}, more than {FILTER_TOLERANCE:g}. FilterPy 2 is needed: "
            "older ones do not draw sigma points anew after a prediction"
        )
    return largest


def _cases(candidates: dict[str, Any], pairs: list[tuple[str, str, str]], quick: bool) -> list[dict[str, Any]]:
    """A case for each (name, ours, theirs)."""
    differences = {
        name: agreement(candidates[ours], candidates[theirs]) for name, ours, theirs in pairs if ours != "SE(2)"
    }
    samples = interleaved(candidates, 5 if quick else 101)
    samples = {name: times / STEPS for name, times in samples.items()}
    return [
        case(name, samples, ours, theirs, FILTER_TARGET, largest_difference=differences.get(name))
        for name, ours, theirs in pairs
    ]


@njit(cache=True)
def _turn(points: Array) -> Array:
    """Coordinated turn of states (k, 5): x, y, speed, course, turning rate; Euler's method."""
    out = np.empty_like(points)
    for k in range(points.shape[0]):
        along, course = STEP_S * points[k, 2], points[k, 3]
        out[k, 0] = points[k, 0] + along * math.cos(course)
        out[k, 1] = points[k, 1] + along * math.sin(course)
        out[k, 2], out[k, 3], out[k, 4] = points[k, 2], course + STEP_S * points[k, 4], points[k, 4]
    return out


@njit(cache=True)
def _see(points: Array) -> Array:
    """Ranges of two beacons and turning rate, (k, 3)."""
    out = np.empty((points.shape[0], 3))
    for k in range(points.shape[0]):
        for beacon in range(2):
            x, y = points[k, 0] - BEACONS[beacon, 0], points[k, 1] - BEACONS[beacon, 1]
            out[k, beacon] = math.sqrt(x * x + y * y)
        out[k, 2] = points[k, 4]
    return out


@njit(cache=True)
def _turn_compiled(x: Array) -> Array:
    """The same of one state (5,), for FilterPy."""
    out = np.empty(5)
    out[0] = x[0] + STEP_S * x[2] * math.cos(x[3])
    out[1] = x[1] + STEP_S * x[2] * math.sin(x[3])
    out[2], out[3], out[4] = x[2], x[3] + STEP_S * x[4], x[4]
    return out


@njit(cache=True)
def _see_compiled(x: Array) -> Array:
    out = np.empty(3)
    for beacon in range(2):
        out[beacon] = math.sqrt((x[0] - BEACONS[beacon, 0]) ** 2 + (x[1] - BEACONS[beacon, 1]) ** 2)
    out[2] = x[4]
    return out


def _turn_numpy(x: Array) -> Array:
    along = STEP_S * x[2]
    return np.array([x[0] + along * math.cos(x[3]), x[1] + along * math.sin(x[3]), x[2], x[3] + STEP_S * x[4], x[4]])


def _see_numpy(x: Array) -> Array:
    (ax, ay), (bx, by) = BEACONS.tolist()
    return np.array([math.hypot(x[0] - ax, x[1] - ay), math.hypot(x[0] - bx, x[1] - by), x[4]])


def _vehicle(quick: bool) -> list[dict[str, Any]]:
    task = Task(
        np.array([0.0, 0.0, 5.0, 0.3, 0.1]),
        np.diag([1.0, 1.0, 0.25, 0.01, 0.0025]),
        np.diag([1e-3, 1e-3, 0.05, 1e-3, 0.01]),
        np.diag([0.2, 0.3, 0.01]),
    )
    task.measure(_turn, _see)
    candidates = {
        "vector": task.ours(StateSpace(vector("x", ("x", "y", "speed", "course", "rate"), "")), _turn, _see),
        "FilterPy, NumPy model": task.filterpy(_turn_numpy, _see_numpy),
        "FilterPy, compiled model": task.filterpy(_turn_compiled, _see_compiled),
    }
    pairs = [
        ("vehicle, vector state", "vector", "FilterPy, NumPy model"),
        ("vehicle, vector state", "vector", "FilterPy, compiled model"),
    ]
    return _cases(candidates, pairs, quick)


def _chain(quick: bool) -> list[dict[str, Any]]:
    configuration = SalpConfiguration()
    chain = configuration.chain.build()
    links, controls = chain.links, np.array([0.05, -0.04, 0.03])
    equations = LinkByLink(chain)

    def propagate(points: Array) -> Array:
        return chain_kernels.propagate(links, points, controls, STEP_S, STEP_S)

    def measure(points: Array) -> Array:
        return chain_kernels.gyro_rates(links, points, controls, 0.0)

    def derivative(x: Array) -> Array:
        rates = equations(x[3:], controls)
        cosine, sine = math.cos(x[2]), math.sin(x[2])
        rates[0], rates[1] = cosine * rates[0] - sine * rates[1], sine * rates[0] + cosine * rates[1]
        return rates

    def propagate_numpy(x: Array) -> Array:
        k1 = derivative(x)
        k2 = derivative(x + 0.5 * STEP_S * k1)
        k3 = derivative(x + 0.5 * STEP_S * k2)
        k4 = derivative(x + STEP_S * k3)
        return x + STEP_S / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)

    def measure_numpy(x: Array) -> Array:
        rates = equations(x[3:], controls)
        # The mean heading's rate is that of link 1 and a share of the joint rates; then joint by joint.
        first = rates[2] - (2.0 * rates[3] + rates[4]) / 3.0
        return np.array([first, first + rates[3], first + rates[3] + rates[4]])

    task = Task(
        np.array([0.1, 0.2, 0.3, 0.1, -0.2]),
        configuration.initial_covariance(),
        np.diag([1e-4, 1e-4, 1e-3, 1e-3, 1e-3]),
        5e-3 * np.eye(3),
    )
    task.measure(propagate, measure)
    flat = StateSpace(
        vector("position", ("x", "y"), "m"), angles("heading", ("heading",)), angles("joint_angles", ("a", "b"))
    )
    curved = StateSpace(se2("pose"), angles("joint_angles", ("a", "b")))
    candidates = {
        "vector and angles": task.ours(flat, propagate, measure),
        "SE(2)": task.ours(curved, propagate, measure),
        "FilterPy, NumPy model": task.filterpy(propagate_numpy, measure_numpy),
        "FilterPy, compiled model": task.filterpy(lambda x: propagate(x[None])[0], lambda x: measure(x[None])[0]),
    }
    pairs = [
        (f"LandSalp{state}", ours, theirs)
        for state, ours in ((", same numbers", "vector and angles"), (", on SE(2)", "SE(2)"))
        for theirs in ("FilterPy, NumPy model", "FilterPy, compiled model")
    ]
    return _cases(candidates, pairs, quick)


COUNTS = (3, 10, 30, 100)
GROWTH_COUNTS = (10, 18, 32, 56, 100)
CHAIN_TARGET = 40.0
CHAIN_TOLERANCE = 1e-7  # the dense system of a hundred links is badly conditioned: NumPy is off by 3e-9


def chain_of(count: int) -> Chain:
    """A chain like LandSalp, of any length, every link a little different."""
    rng = np.random.default_rng(count)
    drag = np.column_stack(
        [rng.uniform(40.0, 80.0, count), rng.uniform(20.0, 90.0, count), rng.uniform(0.2, 0.8, count)]
    )
    return Chain.build(
        rng.uniform(0.2, 0.3, count),
        rng.normal(scale=0.01, size=(count, 2)),
        np.deg2rad(rng.choice([-57.0, -130.0], count)),
        drag,
        rng.uniform(0.01, 0.02, count - 1),
    )


def chain_velocity(quick: bool) -> list[dict[str, Any]]:
    """B(r) u of chains of 3 to 100 links: our compiled kernel against NumPy, for one state and for all sigma points.

    NumPy has our own recursion (the same sums). Both are called from Python, and the results compared before anything
    is timed. The growth is the exponent p of N^p that fits our times between 10 and 100 links best.
    """
    return [*(row for count in COUNTS for row in _against_numpy(count, quick)), *_growth(quick)]


def inputs(count: int) -> tuple[Chain, Array, Array]:
    """A chain, joint angles of its sigma points (2 N + 5, N - 1) and rim speeds."""
    rng = np.random.default_rng(1)
    return chain_of(count), rng.normal(scale=0.2, size=(2 * count + 5, count - 1)), rng.normal(scale=0.1, size=count)


def chain_agreement(count: int) -> float:
    """Largest difference between the two, relative to the largest velocity; RuntimeError where they do not agree."""
    chain, batch, controls = inputs(count)
    ours = kernels.velocities(kernels.completed(chain.links), batch, controls)
    peers = [LinkByLink(chain)(angles, controls) for angles in (batch, batch[0])]
    largest = max(float(np.abs(peer - (ours if peer.ndim == 2 else ours[0])).max()) for peer in peers)
    largest /= float(np.abs(ours).max())
    if not largest <= CHAIN_TOLERANCE:
        raise RuntimeError(f"B(r) u of {count} links: ours and NumPy's differ by {largest:.2g} of the largest velocity")
    return largest


def _against_numpy(count: int, quick: bool) -> list[dict[str, Any]]:
    difference = chain_agreement(count)
    chain, batch, controls = inputs(count)
    links, recursion = kernels.completed(chain.links), LinkByLink(chain)
    rows = []
    for name, joints in (("one state", batch[:1]), (f"{len(batch)} sigma points", batch)):
        theirs = joints[0] if len(joints) == 1 else joints
        candidates = {
            "compiled": lambda joints=joints: kernels.velocities(links, joints, controls),
            "NumPy, same sums": lambda theirs=theirs: recursion(theirs, controls),
        }
        samples = interleaved(candidates, 5 if quick else 51, block_s=0.002)
        label = f"{count} links, {name}"
        rows.append(case(label, samples, "compiled", "NumPy, same sums", CHAIN_TARGET, largest_difference=difference))
    return rows


def _growth(quick: bool) -> list[dict[str, Any]]:
    single, batch = {}, {}
    for count in GROWTH_COUNTS:
        chain, angles, controls = inputs(count)
        links = kernels.completed(chain.links)
        single[str(count)] = lambda links=links, r=angles[:1], u=controls: kernels.velocities(links, r, u)
        batch[str(count)] = lambda links=links, r=angles, u=controls: kernels.velocities(links, r, u)
    rows = []
    for name, candidates in (("one state", single), ("2 N + 5 sigma points", batch)):
        samples = interleaved(candidates, 5 if quick else 31, block_s=0.002)
        medians = [float(np.median(samples[str(count)])) for count in GROWTH_COUNTS]
        exponent = float(np.polyfit(np.log(GROWTH_COUNTS), np.log(medians), 1)[0])
        rows.append(row(f"growth of the time with N, {name}", f"N^{exponent:.2f}", "at most N^2", exponent <= 2.0))
    return rows
