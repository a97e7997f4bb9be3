"""What swings say of a pendulum's links, and what they cannot say without known torques.

The motion depends on the first moments p, the second moments J (see `dynamics`) and the frictions alone. Torques of
motors set their scale; free swings give ratios only. Which combinations a recording leaves open is computed, from the
information in its angles: exact derivatives of the motion with respect to the logarithms of the unknowns, less what an
unknown start of the motion could explain.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Matrix, Vector
from recorded_robots.pendulum import dynamics
from recorded_robots.pendulum.estimator import PendulumEstimator
from recorded_robots.pendulum.forecast import Motion

_STEP = 1e-30
"""Imaginary: the derivative is exact, whatever its size."""
_NULL = 1e-12
"""Of the largest eigenvalue: a combination that moves the angles a millionth as much is not seen at all."""
_WINDOW_S = 2.0


class Figure(NamedTuple):
    """A figure of the links.

    Attributes
    ----------
    value
        In SI units.
    gradient
        (F,) of its logarithm with respect to those of the unknowns.
    stddev_ratio
        Standard deviation of its logarithm: 0.1 means some 10 %.
    """

    value: float
    gradient: Vector
    stddev_ratio: float


def figures(parameters: NDArray[Any], length: Vector, names: Sequence[str]) -> dict[str, Any]:
    """What the motion depends on, by name and joint, from parameters (6, N), real or complex, and lengths (N,).

    `first_moment` p (kg m), `second_moment` J (kg m^2), `reduced_length` J / p (m: of the simple pendulum that swings
    alike), `first_moment_ratio` to that of the first joint, and `mass_ratio` to that of the first link.
    """
    first, second = dynamics.moments(parameters, length)
    mass, out = parameters[dynamics.MASS], dict[str, Any]()
    for i, name in enumerate(names):
        out |= {f"first_moment.{name}": first[i], f"second_moment.{name}": second[i]}
        out[f"reduced_length.{name}"] = second[i] / first[i]
        if i:
            out[f"first_moment_ratio.{name}"] = first[i] / first[0]
            out[f"mass_ratio.{name}"] = mass[i] / mass[0]
    return out


def estimated(estimator: PendulumEstimator, mean: Vector, covariance: Matrix) -> dict[str, Figure]:
    """The unknowns themselves and the `figures`, by name, from an estimate in the estimator's space."""
    names, length = estimator.configuration.links.joint_names, estimator.setting.length
    start = 2 * len(names)
    logarithms, spread = mean[start:], covariance[start:, start:]
    unknowns = [name.removeprefix("log_") for name in estimator.space.names[start:]]
    found = dict(zip(unknowns, zip(np.exp(logarithms), np.eye(len(unknowns)), strict=True), strict=True))
    moved = [figures(estimator.parameters(one), length, names) for one in _nudged(logarithms)]
    for name, value in figures(estimator.parameters(logarithms), length, names).items():
        found[name] = value, np.array([one[name].imag for one in moved]) / _STEP / value
    return {
        name: Figure(float(value), gradient, float(np.sqrt(gradient @ spread @ gradient)))
        for name, (value, gradient) in found.items()
    }


def _nudged(values: Vector) -> NDArray[np.complex128]:
    """(n, n) the values (n,), in each row another one with an imaginary step: so derivatives are exact."""
    return values + 1j * _STEP * np.eye(len(values))


def information(
    estimator: PendulumEstimator, motion: Motion, means: Matrix, logarithms: Vector, settle_s: float = 0.2
) -> Matrix:
    """(F, F) what the angles of a recording say of the logarithms of the unknowns, without prior and process noise.

    Parameters
    ----------
    means
        (K, a) estimates at the stamps of the motion, for where it starts in each window of two seconds.
    logarithms
        (F,) the unknowns about which derivatives are taken.
    """
    c, count = estimator.configuration, motion.angles.shape[1]
    total = np.zeros((len(logarithms), len(logarithms)))
    for window in _windows(motion, c.longest_gap_s, settle_s):
        seconds = np.diff(motion.stamps_ns[window]) / NANOSECONDS_PER_SECOND
        torques, columns = motion.torques[window][:-1], []
        for begun in _nudged(np.concatenate([means[window][0, : 2 * count], logarithms])):
            parameters = estimator.parameters(begun[2 * count :])
            moved = dynamics.simulate(
                begun[: 2 * count], parameters, torques, estimator.setting, seconds, c.longest_step_s
            )
            columns.append((moved[:, :count].imag / _STEP / c.noise.angle_stddev_rad).ravel())
        derivatives = np.array(columns).T
        start, _ = np.linalg.qr(derivatives[:, : 2 * count])
        unknown = derivatives[:, 2 * count :]
        unknown = unknown - start @ (start.T @ unknown)
        total += unknown.T @ unknown
    return total


def left_open(information_matrix: Matrix) -> Matrix:
    """(F, d) orthonormal combinations of the logarithms that a recording says nothing of."""
    values, vectors = np.linalg.eigh(information_matrix)
    combinations: Matrix = vectors[:, values < _NULL * values[-1]]
    return combinations


def is_seen(figure: Figure, open_combinations: Matrix) -> bool:
    """Whether a figure is the same however the combinations left open are chosen."""
    left = np.linalg.norm(figure.gradient @ open_combinations)
    return bool(left < 1e-4 * np.linalg.norm(figure.gradient))


def statement(estimator: PendulumEstimator, open_combinations: Matrix) -> str:
    """In a sentence, what cannot be told apart."""
    count = open_combinations.shape[1]
    names = [name.removeprefix("log_") for name in estimator.space.names[2 * len(estimator.setting.length) :]]
    if not count:
        return f"The angles tell all {len(names)} unknowns."
    scale = np.array([0.0 if name.startswith(("centre_of_mass", "gear")) else 1.0 for name in names])
    words = []
    if np.allclose(open_combinations @ (open_combinations.T @ scale), scale, atol=1e-6):
        words.append("the common scale of all masses, inertias and frictions (free swings give ratios only)")
        # Of what else is open, the share of the scale is taken such that the last friction stays.
        last = int(np.flatnonzero(scale)[-1])
        open_combinations = open_combinations - np.outer(scale, open_combinations[last])
        count -= 1
    if count:
        involved = [name for name, row in zip(names, open_combinations, strict=True) if np.abs(row).max() > 1e-4]
        words.append(f"{count} combination{'s' if count > 1 else ''} of {', '.join(involved)}")
    return f"Of {len(names)} unknowns the angles leave open {' and '.join(words)}."


def _windows(motion: Motion, longest_gap_s: float, settle_s: float) -> list[slice]:
    windows = []
    for piece in motion.pieces(longest_gap_s):
        seconds = (motion.stamps_ns[piece] - motion.stamps_ns[piece.start]) / NANOSECONDS_PER_SECOND
        edges = piece.start + np.searchsorted(seconds, np.arange(settle_s, seconds[-1] + _WINDOW_S, _WINDOW_S))
        windows += [slice(first, last) for first, last in itertools.pairwise(edges.tolist()) if last - first > 50]
    return windows
