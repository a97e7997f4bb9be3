"""The paper's own filter: an Enhanced GP-UKF at 5 Hz, whose noise is what Gaussian processes say of themselves.

Andrews et al., "Pose estimation of a thruster-driven bioinspired multi-link robot", 2026, sections IV and V-B. State x:
pose g = (x, y, heading) along the room's axes and joint angles r. With u the rim speeds, and one exact Gaussian process
an output over (r, u), five of D_f and three of D_h for three links,

    x_k+1 = f(x_k, u_k) + GP_mu((x_k, u_k), D_f),    Q_k+1 = GP_Sigma((x_k, u_k), D_f),
    y_k   = h(x_k, u_k) + GP_mu((x_k, u_k), D_h),    R_k   = GP_Sigma((x_k, u_k), D_h),

f a period of q' = B(r) u, eq. (5), and h the turning rates of the links, eq. (6). Where the paper says nothing:

- residuals depend on (r, u) alone if that of the pose is an increment in the body frame: so it is here, and Q of the
  pose is turned into the room's axes;
- sigma points are Julier's, all of one weight (n + kappa = 5.5 for three links); Q and R are taken at the mean;
- a gyro's last sample within 0.1 s counts; there is no gate, and no bias is learned;
- kernels are squared exponentials of one length over standardised inputs, as `fitrgp` has them by default.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.spatial.distance import cdist

from onboard_estimation.base.atomic_file import read_once
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Estimate, Matrix, Measurement, Vector
from onboard_estimation.base.series import SET_POSE
from onboard_estimation.filtering.gating import Innovation
from onboard_estimation.filtering.planar import about_vertical
from onboard_estimation.learning import model_file
from onboard_estimation.learning.model_file import Arrays, ModelHeader
from onboard_estimation.pipeline.estimator import Estimator, Step
from onboard_estimation.pipeline.sensor_trust import bridged_s
from salp_estimation.estimators.chain_estimator import COMMAND, ChainInputs
from salp_estimation.estimators.residual_model import ROBOT, ResidualModel, chain_hash
from salp_estimation.model.configuration import PAPER, RESIDUAL_FORMS, SUPERSEDED, SalpConfiguration

Rows = NDArray[np.float64]

RATE_HZ = 5.0
PERIOD_NS = round(NANOSECONDS_PER_SECOND / RATE_HZ)
FRESH_S = 0.1
EQUAL_WEIGHT = 0.5
"""Julier's kappa: of the mean, twice that of any other point; so all weights are the same."""


@dataclass(frozen=True, eq=False)
class PaperModel:
    """D_f and D_h of a chain of N links, n points, and the hyper-parameters that they gave.

    Attributes
    ----------
    inputs
        (n, 2 N - 1): joint angles, rad, and rim speeds, m/s.
    targets
        (n, 2 N + 2) residuals: of a period's increments (m, m, rad, ...) and of the gyros (rad/s).
    hyper_parameters
        (2 N + 2, 3) signal variance, length, noise variance of each, of standardised inputs and outputs.
    held_out
        (0, 6): its training holds out no runs, see `ResidualModel`.
    """

    header: ModelHeader
    inputs: Rows
    targets: Rows
    hyper_parameters: Rows
    held_out: Rows = field(default_factory=lambda: np.zeros((0, 6)))

    @cached_property
    def processes(self) -> ExactProcesses:
        """Of all outputs, factorised."""
        return ExactProcesses(self.inputs, self.targets, self.hyper_parameters)

    def save(self, path: Path) -> None:
        """Write it to a file; UserError where that fails."""
        model_file.save(path, self.header, {name: getattr(self, name) for name in _SHAPES})

    @classmethod
    def of(cls, header: ModelHeader, arrays: Arrays, path: Path) -> PaperModel:
        """The model of a file's arrays; UserError where they do not fit together."""
        n = len(header.sensors)
        values = model_file.fitting(arrays, _SHAPES, f"{path}", d=2 * n - 1, m=2 * n + 2)
        count = len(values["inputs"])
        if not 2 <= count <= _MOST_POINTS:
            raise UserError(f"{path}: {count} points, where 2 to {_MOST_POINTS} can be used; train it anew")
        if values["hyper_parameters"].min() <= 0.0:
            raise UserError(f"{path}: variances or lengths that are not positive; train it anew")
        return cls(header, **values)


_MOST_POINTS = 5000
"""Of a file: each of 2 N + 2 processes takes n^2 numbers, of the paper's 2250 points 40 MB."""
_SHAPES = {"inputs": "k d", "targets": "k m", "hyper_parameters": "m 3"}


class ExactProcesses:
    """m exact Gaussian processes over the same n inputs, (n, d) and (n, m), each with hyper-parameters of its own.

    About the targets' mean, with k(a, b) = c exp(-|a - b|^2 / (2 l^2)) and a sample's noise r, all standardised.
    """

    def __init__(self, inputs: Rows, targets: Rows, hyper_parameters: Rows) -> None:
        self._hyper_parameters = hyper_parameters
        self._centre, self._scale = moments(inputs)
        self._mean, self._stddev = moments(targets)
        self._inputs = (inputs - self._centre) / self._scale
        standard, distances = (targets - self._mean) / self._stddev, squared_distances(self._inputs, self._inputs)
        self._factors, weights = [], []
        for (signal, length, noise), target in zip(hyper_parameters, standard.T, strict=True):
            covariance = signal * np.exp(-0.5 / length**2 * distances)
            covariance[np.diag_indices_from(covariance)] += noise
            factor = cholesky(covariance.T, lower=True, overwrite_a=True, check_finite=False)
            self._factors.append(factor)
            weights.append(cho_solve((factor, True), target, check_finite=False))
        self._weights = np.array(weights)

    def means(self, at: Rows, outputs: slice) -> Rows:
        """GP_mu (k, outputs) at inputs (k, d)."""
        distances = squared_distances((at - self._centre) / self._scale, self._inputs)
        found = [
            signal * np.exp(-0.5 / length**2 * distances) @ weights
            for (signal, length, _), weights in zip(
                self._hyper_parameters[outputs], self._weights[outputs], strict=True
            )
        ]
        means: Rows = self._mean[outputs] + self._stddev[outputs] * np.column_stack(found)
        return means

    def variances(self, at: Vector, outputs: slice) -> Vector:
        """GP_Sigma (outputs,) of a sample at an input (d,): with its noise."""
        distances = squared_distances(((at - self._centre) / self._scale)[None], self._inputs)[0]
        found = []
        for (signal, length, noise), factor in zip(
            self._hyper_parameters[outputs], self._factors[outputs], strict=True
        ):
            covariances = signal * np.exp(-0.5 / length**2 * distances)
            told = solve_triangular(factor, covariances, lower=True, check_finite=False)
            found.append(signal + noise - told @ told)
        variances: Vector = self._stddev[outputs] ** 2 * found
        return variances


def moments(columns: Rows) -> tuple[Vector, Vector]:
    """Means and standard deviations (d,) of columns (n, d); 1 where nothing varies."""
    stddevs = columns.std(axis=0)
    return columns.mean(axis=0), np.where(stddevs > 0.0, stddevs, 1.0)


def squared_distances(a: Rows, b: Rows) -> Rows:
    """(k, n) of (k, d) and (n, d)."""
    out: Rows = cdist(a, b, "sqeuclidean")
    return out


def sigma_points(mean: Vector, covariance: Matrix) -> tuple[Rows, Vector]:
    """Points (2n + 1, n) of Julier's and their weights, for mean and covariance alike."""
    n = len(mean)
    reach = np.linalg.cholesky((n + EQUAL_WEIGHT) * covariance).T
    weights = np.full(2 * n + 1, 0.5 / (n + EQUAL_WEIGHT))
    weights[0] = EQUAL_WEIGHT / (n + EQUAL_WEIGHT)
    return np.vstack([mean, mean + reach, mean - reach]), weights


def moved(poses: Rows, increments: Rows) -> Rows:
    """Poses (k, 3) after increments (k, 3) of the body frame, in whose middle it has half turned."""
    x, y, heading = poses.T
    forward, left, turn = increments.T
    middle = heading + 0.5 * turn
    cosine, sine = np.cos(middle), np.sin(middle)
    return np.column_stack([x + cosine * forward - sine * left, y + sine * forward + cosine * left, heading + turn])


def wrapped(mean: Vector) -> Vector:
    """A state (N + 2,) with its angles within -pi and pi."""
    return np.concatenate([mean[:2], np.arctan2(np.sin(mean[2:]), np.cos(mean[2:]))])


class PaperState(NamedTuple):
    """State of the filter; arrays are values, never written.

    Attributes
    ----------
    mean, covariance
        (N + 2,), (N + 2, N + 2) of x_k.
    controls
        (N,) u_k, m/s.
    at_ns
        Of the instant k; None before the first measurement.
    command
        (N,) as last told, m/s.
    gyros, heard_ns
        (N,) last rates, rad/s, and their stamps.
    """

    mean: Vector
    covariance: Matrix
    controls: Vector
    at_ns: int | None
    command: Vector
    gyros: Vector
    heard_ns: tuple[int | None, ...]


class PaperFilter(ChainInputs, Estimator[PaperState]):
    """Pose and shape of the chain as the paper estimates them, five times a second.

    A pose from outside replaces the filter's, whose joint angles stay.
    """

    linearised = False  # sigma points reach 12 deg, over which the processes' means bend

    def __init__(self, configuration: SalpConfiguration, model: PaperModel) -> None:
        super().__init__(configuration)
        self._chain, self._model = configuration.chain.build(), model
        self.space = self._chain.space()
        self._f, self._h = slice(0, self.space.dimension), slice(self.space.dimension, None)

    def start(self, initial: Estimate | None) -> PaperState:
        """From an initial state, or at the origin, straight, with the configured standard deviations."""
        count = len(self.configuration.chain.link_names)
        mean = self.space.origin() if initial is None else wrapped(initial.mean)
        covariance = self._initial_covariance if initial is None else initial.covariance
        at_ns = None if initial is None else initial.stamp_ns
        covariance, rest = self._turned(covariance, float(mean[2])), np.zeros(count)
        return PaperState(mean, covariance, rest, at_ns, rest, np.zeros(count), (None,) * count)

    def step(self, state: PaperState, measurement: Measurement) -> Step:
        """Keep a command or a gyro's reading; where a period is over, predict and correct."""
        stamp_ns, sensor = measurement.stamp_ns, measurement.sensor
        if state.at_ns is None:
            state = state._replace(at_ns=stamp_ns)
        if sensor == COMMAND:
            command = self._wheel_radii_m * measurement.value
            return Step(
                state._replace(command=command, controls=command if stamp_ns == state.at_ns else state.controls)
            )
        if sensor == SET_POSE:
            state = self._placed(self._up_to(state, stamp_ns, whole=False), measurement)
            return Step(state._replace(controls=state.command), self._published(state, stamp_ns))
        link = self._link_of[sensor]
        gyros = state.gyros.copy()
        gyros[link] = self._rate(measurement)
        heard_ns = (*state.heard_ns[:link], stamp_ns, *state.heard_ns[link + 1 :])
        state = state._replace(gyros=gyros, heard_ns=heard_ns)
        assert state.at_ns is not None
        if stamp_ns < state.at_ns + PERIOD_NS:
            return Step(state)
        state = self._up_to(state, stamp_ns, whole=True)._replace(controls=state.command)
        fresh = [one for one, ns in enumerate(heard_ns) if ns is not None and stamp_ns - ns < FRESH_S * 1e9]
        mean, covariance, innovation = self.corrected(state.mean, state.covariance, state.controls, gyros, fresh)
        state = state._replace(mean=mean, covariance=covariance)
        return Step(state, self._published(state, stamp_ns), innovation)

    def predicted(self, mean: Vector, covariance: Matrix, u: Vector, share: float = 1.0) -> tuple[Vector, Matrix]:
        """x_k+1 and its covariance from those of x_k, under u_k (N,); or after a share of the period."""
        points, weights = sigma_points(mean, covariance)
        step = self._chain.velocity(points[:, 3:], u) / RATE_HZ  # eq. (5)
        step += self._model.processes.means(self._inputs(points, u), self._f)
        q = share * self._variances(mean, u, self._f)
        points = np.hstack([moved(points[:, :3], share * step[:, :3]), points[:, 3:] + share * step[:, 3:]])
        after: Vector = weights @ points
        apart = points - after
        spread = (weights[:, None] * apart).T @ apart + self._turned(np.diag(q), float(mean[2]))
        return after, spread

    def corrected(
        self, mean: Vector, covariance: Matrix, u: Vector, gyros: Vector, heard: list[int]
    ) -> tuple[Vector, Matrix, Innovation]:
        """x_k and its covariance given y_k: `gyros` (N,) of the links that are heard."""
        points, weights = sigma_points(mean, covariance)
        expected = self._chain.gyro_rates(points[:, 3:], u)  # eq. (6)
        expected = (expected + self._model.processes.means(self._inputs(points, u), self._h))[:, heard]
        r = self._variances(mean, u, self._h)
        seen: Vector = weights @ expected
        apart = expected - seen
        s = (weights[:, None] * apart).T @ apart + np.diag(r[heard])
        cross = (weights[:, None] * (points - mean)).T @ apart
        gain, innovation = np.linalg.solve(s, cross.T).T, gyros[heard] - seen
        after = covariance - gain @ s @ gain.T
        root: Matrix = np.asarray(np.linalg.cholesky(s), dtype=np.float64)
        nis = float(np.square(np.linalg.solve(root, innovation)).sum())
        return mean + gain @ innovation, 0.5 * (after + after.T), Innovation(innovation, root, nis, True)

    def _variances(self, mean: Vector, u: Vector, outputs: slice) -> Vector:
        return self._model.processes.variances(self._inputs(mean[None], u)[0], outputs)

    def _up_to(self, state: PaperState, stamp_ns: int, whole: bool) -> PaperState:
        """Predicted by all periods that are over until then, and by the begun one unless only whole ones count."""
        assert state.at_ns is not None
        periods = bridged_s(stamp_ns - state.at_ns) * RATE_HZ
        mean, covariance, count = state.mean, state.covariance, math.floor(periods + 1e-9)
        for _ in range(count):
            mean, covariance = self.predicted(mean, covariance, state.controls)
        at_ns = state.at_ns + count * PERIOD_NS
        if not whole and stamp_ns > at_ns:
            mean, covariance = self.predicted(mean, covariance, state.controls, periods - count)
            at_ns = stamp_ns
        return state._replace(mean=mean, covariance=covariance, at_ns=at_ns)

    def _placed(self, state: PaperState, measurement: Measurement) -> PaperState:
        given = self._given_pose(measurement.value)
        mean, covariance = state.mean.copy(), state.covariance.copy()
        mean[:3] = given.pose
        covariance[:3, :] = covariance[:, :3] = 0.0
        turn = about_vertical(given.pose[2])
        covariance[:3, :3] = turn @ given.covariance @ turn.T
        return state._replace(mean=mean, covariance=covariance)

    def _published(self, state: PaperState, stamp_ns: int) -> Estimate:
        mean = wrapped(state.mean)
        return Estimate(stamp_ns, mean, self._turned(state.covariance, -mean[2]))

    @staticmethod
    def _turned(covariance: Matrix, heading: float) -> Matrix:
        """From the body's axes into the room's."""
        turn = np.eye(len(covariance))
        turn[:3, :3] = about_vertical(heading)
        out: Matrix = turn @ covariance @ turn.T
        return out

    @staticmethod
    def _inputs(states: Rows, u: Vector) -> Rows:
        return np.hstack([states[:, 3:], np.tile(u, (len(states), 1))])


# Which filter a file's model is for.


def read_model(path: Path) -> PaperModel | ResidualModel:
    """The model of a file, of any form.

    Raises
    ------
    UserError
        No such file, damaged, of another version, or not a model of this kind of robot.
    """
    header, arrays = model_file.load(path, *RESIDUAL_FORMS, PAPER, SUPERSEDED)
    if header.kind == SUPERSEDED:
        raise UserError(
            f"{path}: models of the form {SUPERSEDED} are not read any more; train one with --form {PAPER} to compare "
            f"with the paper, or with --form {RESIDUAL_FORMS[0]} to use it"
        )
    return (PaperModel if header.kind == PAPER else ResidualModel).of(header, arrays, path)


_read_once = read_once(read_model)


def load_trained(name: str, configuration: SalpConfiguration) -> PaperModel | ResidualModel:
    """The model of a file for this configuration; read once as long as the file stays the same.

    Raises
    ------
    UserError
        See `read_model`; trained for another chain, other sensors or another form of them.
    """
    model = _read_once(Path(name))
    names = tuple(f"imu/{link}" for link in configuration.chain.link_names)
    model.header.require(ROBOT, names, chain_hash(configuration), name)
    return model
