"""A trained model of what the quasi-static chain leaves out, as the filter uses it and as a file keeps it.

Two forms, beside the paper's own (`paper_filter`):

- `calibrated`: dry friction, harness and lag of the population that the training runs come from; each robot's own
  deviation from them is estimated while the filter runs. Gaussian processes of joint angles and controls learn what
  remains, where they predict runs that they have not seen.
- `local`: the same without Gaussian processes. Each wheel and each joint has inputs of its own, so that nothing has
  2 N - 1 dimensions: for chains of any length.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Vector
from onboard_estimation.learning import model_file
from onboard_estimation.learning.model_file import ModelHeader, TrainingConditions
from onboard_estimation.learning.sparse import SparseGaussianProcesses
from salp_estimation.model import friction_kernels as friction
from salp_estimation.model.configuration import MIXED_DRAG, SalpConfiguration

Rows = NDArray[np.float64]

ROBOT = "salp"
_SHAPES = {
    "parameters": "p",
    "uncertainty": "p p",
    "spreads": "p",
    "residual_stddevs": "m",
    "correlation_times_s": "m",
    "force_stddevs": "3",
    "rest_stddevs": "m",
    "gyro_noise": "n 2",
    "held_out": "r 6",
}
SLIP = np.array([0.002, 0.002, 0.02, 0.015])
"""Speeds at which dry friction has reached 0.7 of its size: along and across (m/s), turning, joints (rad/s)."""
REST_S = 10.0
"""How a robot creeps while it rests changes no faster than this: its pull is that of a spring or of the floor."""


@dataclass(frozen=True, eq=False)
class Population:
    """Parameters of a chain of N links, and what is not known of them.

    Attributes
    ----------
    parameters
        (p,) common to all runs, see `friction_kernels`.
    uncertainty
        (p, p) their covariance.
    spreads
        (p,) standard deviations from run to run.
    residual_stddevs, correlation_times_s
        (N + 2,) of what is left of each rate (m/s, m/s, rad/s, ...), and how long it lasts.
    rest_stddevs
        (N + 2,) of each rate while the wheels stand: harness and floor make a chain creep.
    force_stddevs
        (3,) of forces on each wheel, along, across (N), turning (N m), that disturb the rates as the balance lets them:
        what the floor does beside friction.
    """

    parameters: Vector
    uncertainty: Rows
    spreads: Vector
    residual_stddevs: Vector
    correlation_times_s: Vector
    rest_stddevs: Vector
    force_stddevs: Vector = field(default_factory=lambda: np.zeros(3))

    def scale(self, gains: Rows) -> Rows:
        """Standard deviations (K, N + 2) of what is left of the rates, on which forces act by `gains` (K, N + 2, 3)."""
        out: Rows = np.sqrt(self.residual_stddevs**2 + gains @ self.force_stddevs**2)
        return out

    @property
    def prior(self) -> Rows:
        """(p, p) covariance of the parameters of a robot that was not among the runs."""
        out: Rows = self.uncertainty + np.diag(self.spreads**2)
        return out

    def turned_anyhow(self) -> Population:
        """The same where nobody knows how the room's axes lie: pulls of any direction, zero in the mean."""
        links = len(self.residual_stddevs) - 2
        x = friction.WHEEL * np.arange(links) + friction.PULL
        pulls = np.stack([self.parameters[x], self.parameters[x + 1]])
        parameters, uncertainty = self.parameters.copy(), self.uncertainty.copy()
        for axis in (x, x + 1):
            parameters[axis] = 0.0
            uncertainty[np.ix_(axis, axis)] += 0.5 * pulls.T @ pulls
        return replace(self, parameters=parameters, uncertainty=uncertainty)


@dataclass(frozen=True, eq=False)
class ResidualModel:
    """What was learned of a chain of N links.

    Attributes
    ----------
    header
        What it was trained for and with; `kind` is its form.
    population
        Parameters of the rates.
    processes
        Gaussian processes with inputs (joint angles, controls), 2 N - 1 in all, and outputs (N + 2 rates, N gyros), or
        None.
    gyro_noise
        (N, 2): standard deviation of a gyro's sample at rest, rad/s, and its growth with the wheel's rim speed, 1/m.
    inflation
        (2,) what the filter's standard deviations of the pose and of the joint angles are multiplied by, as they are
        published: see `residual_training`.
    held_out
        (R, 6) of each run that a training held out: its number in the header; RMS errors of the joint angles, deg, by
        the filter, and by what it should beat: without a model, by integrated commands, assumed straight; the share of
        the filter's errors within three standard deviations.
    """

    header: ModelHeader
    population: Population
    processes: SparseGaussianProcesses | None
    gyro_noise: Rows
    inflation: Vector = field(default_factory=lambda: np.ones(2))
    held_out: Rows = field(default_factory=lambda: np.zeros((0, 6)))

    @property
    def link_count(self) -> int:
        """N."""
        return len(self.gyro_noise)

    def save(self, path: Path) -> None:
        """Write it to a file; UserError where that fails."""
        arrays: model_file.Arrays = {**vars(self.population), "gyro_noise": self.gyro_noise}
        arrays |= {"inflation": self.inflation, "held_out": self.held_out}
        if self.processes is not None:
            arrays |= {f"sparse_{name}": value for name, value in self.processes.arrays().items()}
        model_file.save(path, self.header, arrays)

    @classmethod
    def of(cls, header: ModelHeader, arrays: model_file.Arrays, path: Path) -> ResidualModel:
        """The model of a file's arrays; UserError where they do not fit together."""
        links = len(header.sensors)
        p = friction.parameter_count(links)
        arrays = {"held_out": np.zeros((0, 6)), **arrays}  # older files have none
        values = model_file.fitting(arrays, _SHAPES, f"{path}", p=p, m=links + 2, n=links)
        if not all((values[name] > 0.0).all() for name in ("residual_stddevs", "correlation_times_s", "rest_stddevs")):
            raise UserError(f"{path}: standard deviations or correlation times that are not positive; train it anew")
        if not all((values[name] >= 0.0).all() for name in ("spreads", "force_stddevs", "gyro_noise")):
            raise UserError(f"{path}: standard deviations below zero; train it anew")
        model_file.refuse_no_covariance(values["uncertainty"], f"{path}: uncertainty")
        noise, held_out = values.pop("gyro_noise"), values.pop("held_out")
        told = np.asarray(arrays.get("inflation", [1.0]), dtype=np.float64).ravel()  # older files: one, or none
        if len(told) not in (1, 2) or told.min() < 1.0:
            raise UserError(f"{path}: an inflation that is no number from 1 on; train it anew")
        return cls(header, Population(**values), _processes(arrays, path), noise, np.resize(told, 2), held_out)


def _processes(arrays: model_file.Arrays, path: Path) -> SparseGaussianProcesses | None:
    if any(name.startswith("exact_") for name in arrays):
        raise UserError(f"{path}: exact Gaussian processes, which are not read any more; train it anew")
    sparse = {name[7:]: value for name, value in arrays.items() if name.startswith("sparse_")}
    return SparseGaussianProcesses.from_arrays(sparse) if sparse else None


def header_of(
    configuration: SalpConfiguration,
    form: str,
    runs: Sequence[str],
    hashes: Sequence[str],
    rate_hz: float,
    inputs: Rows,
    increments: bool = False,
) -> ModelHeader:
    """The header of a model of these inputs (K, 2 N - 1), of runs by name, and the SHA-256 of their data.

    Its outputs are N + 2 rates and N gyros, or increments of the pose and the joint angles instead of the rates.
    """
    links = configuration.chain.link_names
    n, sensors = len(links), tuple(f"imu/{name}" for name in links)
    joints = tuple(f"alpha_{joint + 1}" for joint in range(n - 1))
    moved = ("forward", "left", "turn", *joints)
    rates = ("forward speed", "left speed", "turning rate", *(f"rate of {joint}" for joint in joints))
    length, angle = ("m", "rad") if increments else ("m/s", "rad/s")
    return ModelHeader(
        kind=form,
        robot=ROBOT,
        sensors=sensors,
        configuration_hash=chain_hash(configuration),
        input_names=(*joints, *(f"u_{i + 1}" for i in range(n))),
        input_units=("rad",) * (n - 1) + ("m/s",) * n,
        output_names=(*(moved if increments else rates), *sensors),
        output_units=(length,) * 2 + (angle,) * n + ("rad/s",) * n,
        training=TrainingConditions(
            rate_hz=rate_hz,
            duration_s=float(len(inputs) / rate_hz),
            point_count=len(inputs),
            runs=tuple(runs),
            gaits=(),
            hashes=tuple(hashes),
            input_lowest=tuple(inputs.min(axis=0).tolist()),
            input_highest=tuple(inputs.max(axis=0).tolist()),
        ),
    )


def chain_hash(configuration: SalpConfiguration) -> str:
    """SHA-256 of all that a model's residuals depend on: the nominal chain and the axis of the gyros."""
    chain = {name: value for name, value in asdict(configuration.chain).items() if name not in MIXED_DRAG or any(value)}
    content = {"chain": chain, "axis": configuration.gyro.axis}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
