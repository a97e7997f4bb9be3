"""Exact Gaussian processes, one per output, with a squared-exponential kernel and one length scale per input.

y = f(x) + noise, f ~ GP(0, s^2 exp(-1/2 sum_i (x_i - x'_i)^2 / l_i^2)). Hyper-parameters maximise the marginal
likelihood (Rasmussen & Williams 2006, eq. 2.30) along its analytic gradient (eq. 5.9). The mean is zero, so predictions
fade to zero away from the data: there the model without residuals stands.

One likelihood takes a Cholesky factor and an inverse, n^3 operations, in place; all else is small beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_solve, solve_triangular
from scipy.linalg.lapack import dpotrf, dpotri

from onboard_estimation.errors import UserError
from onboard_estimation.learning.kernels import cross_covariance, fill_covariance, likelihood_gradient_sums
from onboard_estimation.learning.training_data import (
    LENGTH_SCALE_BOUNDS,
    NOISE_VARIANCE_BOUNDS,
    SIGNAL_VARIANCE_BOUNDS,
    TrainingData,
    check_groups,
    check_inputs,
)

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

Array = NDArray[np.float64]
Progress = Callable[[float, str], None]

MOST_POINTS = 10_000
"""A matrix of 10 000 points takes 0.8 GB, and one is kept for each output."""
SUBSET_POINTS = 600
"""The search starts with so many of the points, where a step takes a fiftieth of the time."""
START = (1.5, 1.0, 0.05)
"""Length scales, signal variance, noise variance at the start of the search, in normalised units."""
RELATIVE_TOLERANCE = 1e-6
"""The search ends where the log likelihood grows by less than this share of itself: far below one."""
_CHUNK = 512


class LogMarginalLikelihood:
    """log p(y | X, theta) and its gradient for one output at a time, with the memory shared by all.

    theta holds logarithms: of the length scales (d), of the signal's variance, of the noise's variance.

    Parameters
    ----------
    inputs
        (n, d)
    """

    def __init__(self, inputs: Array) -> None:
        self.count = len(inputs)
        self._inputs = np.ascontiguousarray(inputs.T)
        self._matrix = np.empty((self.count, self.count))

    def __call__(self, theta: Array, targets: Array) -> tuple[float, Array]:
        """Value and gradient (d + 2,) for targets (n,); -inf and zeros where the covariance has no Cholesky factor."""
        d = len(self._inputs)
        signal, noise = float(np.exp(theta[d])), float(np.exp(theta[d + 1]))
        points = self._inputs / np.exp(theta[:d])[:, None]
        fill_covariance(points, signal, noise, self._matrix)
        # The upper triangle row by row is the lower one column by column, as LAPACK wants it: nothing is copied.
        factor, failed = dpotrf(self._matrix.T, lower=1, clean=0, overwrite_a=1)
        if failed:
            return -np.inf, np.zeros(d + 2)
        weights = cho_solve((factor, True), targets, check_finite=False)
        value = -0.5 * float(targets @ weights) - float(np.log(np.diagonal(factor)).sum())
        value -= 0.5 * len(targets) * np.log(2.0 * np.pi)
        dpotri(factor, lower=1, overwrite_c=1)
        by_input, by_signal, by_noise = likelihood_gradient_sums(points, self._matrix, weights)
        return value, np.concatenate([signal * by_input, [signal * by_signal, noise * by_noise]])


@dataclass(frozen=True, eq=False)
class ExactGaussianProcesses:
    """m Gaussian processes on the same n training points; see the module for the model.

    Attributes
    ----------
    inputs, targets
        (n, d) and (n, m), the training data.
    length_scales
        (m, d), in the inputs' units.
    signal_variances, noise_variances
        (m,), in the targets' units squared.
    """

    inputs: Array
    targets: Array
    length_scales: Array
    signal_variances: Array
    noise_variances: Array
    _factors: dict[int, tuple[Array, Array]] = field(default_factory=dict, repr=False, compare=False)

    def predict(self, inputs: ArrayLike) -> tuple[Array, Array]:
        """Means (k, m) and latent variances (k, m), without noise, at inputs (k, d); eqs. (2.25) and (2.26).

        Raises
        ------
        UserError
            The inputs have another number of columns than the training inputs.
        """
        x = check_inputs(inputs, self.inputs.shape[1])
        means, variances = np.empty((len(x), self.targets.shape[1])), np.empty((len(x), self.targets.shape[1]))
        for output, signal in enumerate(self.signal_variances):
            factor, weights = self.factor(output)
            for first in range(0, len(x), _CHUNK):
                part = slice(first, first + _CHUNK)
                covariance = signal * self._unit_covariance(output, x[part])
                means[part, output] = covariance @ weights
                explained = solve_triangular(factor, covariance.T, lower=True, check_finite=False)
                variances[part, output] = signal - np.einsum("ij,ij->j", explained, explained)
        return means, np.maximum(variances, 0.0)

    def leave_out(self, groups: ArrayLike) -> tuple[Array, Array]:
        """Each group's points predicted from all other groups, with the hyper-parameters as they are.

        With P = K^-1 and a = K^-1 y, the targets y_G of a group G less their prediction are P_GG^-1 a_G, and the
        prediction's covariance, of noise included, is P_GG^-1: Rasmussen & Williams, eqs. (5.10) to (5.12), for blocks
        in the place of single points.

        Parameters
        ----------
        groups
            (n,) labels of any kind, e.g. the number of the run that a point comes from.

        Returns
        -------
        Residuals (n, m), target minus prediction, and variances (n, m) of these residuals, noise included.

        Raises
        ------
        UserError
            Not a label for each training point, or fewer than two groups.
        """
        members = check_groups(groups, len(self.inputs))
        residuals, variances = np.empty_like(self.targets), np.empty_like(self.targets)
        for output in range(self.targets.shape[1]):
            factor, weights = self.factor(output)
            inverse, _ = dpotri(factor, lower=1)
            for member in members:
                block = inverse[np.ix_(member, member)]
                block = np.tril(block) + np.tril(block, -1).T
                covariance = np.linalg.inv(block)
                residuals[member, output] = covariance @ weights[member]
                variances[member, output] = np.diagonal(covariance)
        return residuals, variances

    def _unit_covariance(self, output: int, inputs: Array) -> Array:
        scales = self.length_scales[output]
        return cross_covariance(
            np.ascontiguousarray((inputs / scales).T), np.ascontiguousarray((self.inputs / scales).T)
        )

    def factor(self, output: int) -> tuple[Array, Array]:
        """Lower Cholesky factor (n, n) of the targets' covariance, zero above, and weights (n,) K^-1 y."""
        if output not in self._factors:
            covariance = self.signal_variances[output] * self._unit_covariance(output, self.inputs)
            covariance[np.diag_indices_from(covariance)] += self.noise_variances[output]
            factor, failed = dpotrf(covariance.T, lower=1, clean=1, overwrite_a=1)
            if failed:
                raise UserError(f"output {output}: noise too small for a positive-definite covariance")
            self._factors[output] = (factor, cho_solve((factor, True), self.targets[:, output], check_finite=False))
        return self._factors[output]


def fit(
    inputs: ArrayLike,
    targets: ArrayLike,
    iterations: int = 30,
    progress: Progress | None = None,
) -> ExactGaussianProcesses:
    """Gaussian processes with hyper-parameters of the greatest marginal likelihood, each output its own.

    Parameters
    ----------
    inputs, targets
        (n, d) and (n, m), in any units.
    iterations
        Of L-BFGS-B on all points, at most, after a search on every so many-th point.
    progress
        Called with the share done in [0, 1] and a line of text.

    Raises
    ------
    UserError
        Training data of wrong shape, not finite, too few points or more than MOST_POINTS.
    """
    data = TrainingData.normalised(inputs, targets)
    count, outputs = data.targets.shape
    if count > MOST_POINTS:
        raise UserError(
            f"{count} training points: exact Gaussian processes take at most {MOST_POINTS}; "
            f"use every {-(-count // MOST_POINTS)}th point, or the sparse model"
        )
    report = progress or (lambda fraction, text: None)
    subset = slice(0, count, -(-count // SUBSET_POINTS))
    coarse, fine = LogMarginalLikelihood(data.inputs[subset]), LogMarginalLikelihood(data.inputs)
    found = np.empty((outputs, data.inputs.shape[1] + 2))
    for output in range(outputs):

        def step(iteration: int, value: float, output: int = output) -> None:
            report(
                (output + min(iteration / iterations, 1.0)) / outputs,
                f"output {output + 1} of {outputs}, iteration {iteration}: log likelihood {value:.1f}",
            )

        theta = np.log(np.array([START[0]] * data.inputs.shape[1] + [*START[1:]]))
        if coarse.count < count:
            theta = maximised(coarse, theta, data.targets[subset, output], 3 * iterations)
        found[output] = maximised(fine, theta, data.targets[:, output], iterations, step)
        report((output + 1) / outputs, f"output {output + 1} of {outputs} done")
    hyper = np.exp(found)
    squares = data.target_scales**2
    return ExactGaussianProcesses(
        np.array(inputs, dtype=np.float64),
        np.array(targets, dtype=np.float64),
        hyper[:, :-2] * data.input_scales,
        hyper[:, -2] * squares,
        hyper[:, -1] * squares,
    )


def maximised(
    likelihood: LogMarginalLikelihood,
    start: Array,
    targets: Array,
    iterations: int,
    report: Callable[[int, float], None] | None = None,
) -> Array:
    """Logarithms of hyper-parameters (d + 2,) that maximise the likelihood within bounds, by L-BFGS-B from `start`."""
    from scipy.optimize import minimize  # nodes predict only

    done = 0

    def negative(theta: Array) -> tuple[float, Array]:
        value, gradient = likelihood(theta, targets)
        # Where there is no Cholesky factor: a value that the line search turns back from.
        return (-value, -gradient) if np.isfinite(value) else (1e12, gradient)

    def count_iteration(intermediate_result: OptimizeResult) -> None:
        nonlocal done
        done += 1
        if report is not None:
            report(done, -float(intermediate_result.fun))

    bounds = [LENGTH_SCALE_BOUNDS] * (len(start) - 2) + [SIGNAL_VARIANCE_BOUNDS, NOISE_VARIANCE_BOUNDS]
    result = minimize(
        negative,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(np.log(lower), np.log(upper)) for lower, upper in bounds],
        callback=count_iteration,
        options={"maxiter": iterations, "ftol": RELATIVE_TOLERANCE},
    )
    return np.asarray(result.x)
