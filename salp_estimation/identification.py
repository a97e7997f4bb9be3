"""Drag coefficients of the chain from commands and motion capture (paper, section V-A).

The motion that follows from the coefficients, q' = B(r) u (eq. 5), is fitted to the measured one: an output-error fit.
Its linear regression (`drag_regressor.balance`) has the noisy q' among its regressors, so that plain least squares is
biased; it gives the start only. In the fit the noise is where it belongs, in the output; shapes and commands,
low-passed as the rates are, are as good as exact. Residuals are weighted by the inverse of their covariance, which is
estimated with the coefficients.

Wheels' matrices stay positive definite: by bounds where they are diagonal, by their Cholesky factors where they are
full. Commands and motion give coefficients up to a common factor only (thrust is d_xx u): d_xx of the first wheel is
held at its configured value, unless the wheels' effort is recorded.

Intervals are at 95 %, from a sandwich covariance with Newey and West's kernel, for low-passed residuals are correlated
in time. They tell the scatter from noise, not what the model leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import least_squares, lsq_linear

from onboard_estimation.errors import UserError
from onboard_estimation.measurement import Matrix, Vector
from salp_estimation import chain_kernels as kernels
from salp_estimation.chain import Chain
from salp_estimation.drag_regressor import (
    DragTerm,
    balance,
    coefficients,
    drag_matrices,
    drag_terms,
    predicted_rates,
    wheel_jacobians,
    with_drag,
)
from salp_estimation.long_run_covariance import long_run_covariance

Array = NDArray[np.float64]

NORMAL_95 = 1.959964
POOR_WIDTH = 0.1
"""A coefficient whose 95 % interval is wider than this share of its value is poorly determined."""

_SMALLEST = 1e-6  # lower bound of a wheel's coefficient, in its usual size
_ROUNDS = 3  # of estimating the residuals' covariance and the coefficients in turn
_LOST = 1e-10  # singular values below this share of the largest: a direction without any information


@dataclass(frozen=True, eq=False)
class Samples:
    """Instants of one recording at regular steps: low-passed alike, so that they belong to each other.

    Attributes
    ----------
    joint_angles, rates, controls
        (K, N - 1) rad, (K, N + 2) as `Motion.rates`, (K, N) rim speeds in m/s.
    steps
        (K,) int64: number of the regular step, increasing; gaps in the recording are gaps in the numbers.
    instants
        (K,) int64: which instants of the run's motion they are.
    step_s
        Length of a step, s.
    """

    joint_angles: Array
    rates: Array
    controls: Array
    steps: NDArray[np.int64]
    instants: NDArray[np.int64]
    step_s: float


@dataclass(frozen=True, eq=False)
class DragFit:
    """Coefficients of drag with their uncertainty.

    Attributes
    ----------
    terms
        P coefficients; the first, d_xx of wheel 1, is held.
    values
        (P,) SI units.
    covariance
        (P, P) of the values; infinite variances where the recordings hold no information at all.
    information
        (P - 1, P - 1) of the free coefficients if residuals were white: the inverse of their covariance then.
    noise_inflation
        (P,) How much larger variances are than with residuals that are white: what correlation in time costs.
    condition
        Condition number of the weighted regressor by the free coefficients, each in units of its value.
    residual_covariance
        (N + 2, N + 2) of the rates' residuals.
    samples
        Instants used.
    delay_s
        How much later the measured rates come than the commands, to first order.
    """

    chain: Chain
    terms: tuple[DragTerm, ...]
    values: Vector
    covariance: Matrix
    information: Matrix
    noise_inflation: Vector
    condition: float
    residual_covariance: Matrix
    samples: int
    delay_s: float

    @property
    def half_widths(self) -> Vector:
        """(P,) half of the 95 % intervals; infinite where undetermined."""
        out: Vector = NORMAL_95 * np.sqrt(np.diag(self.covariance))
        return out

    @property
    def reference(self) -> Vector:
        """(P,) what intervals are compared with: the value, for a mixed element the geometric mean of both axes'."""
        out = np.abs(self.values)
        wheels, _ = drag_matrices(self.terms, self.values, self.chain.link_count)
        for number, term in enumerate(self.terms):
            if term.element is not None and term.element[0] != term.element[1]:
                row, column = term.element
                out[number] = np.sqrt(wheels[term.index, row, row] * wheels[term.index, column, column])
        return out

    @property
    def poor(self) -> NDArray[np.bool_]:
        """(P,) whether the 95 % interval is wider than a tenth of the reference."""
        return np.asarray(2.0 * self.half_widths > POOR_WIDTH * self.reference, dtype=np.bool_)


def fit_drag(chain: Chain, runs: Sequence[Samples], full: bool = False) -> DragFit:
    """Coefficients that explain the motion of all runs best, the first d_xx held at the chain's own.

    Parameters
    ----------
    chain
        Geometry, and where the fit looks first.
    full
        Symmetric matrices of the wheels instead of diagonal ones.

    Raises
    ------
    UserError
        Too few instants, nothing is commanded, or nothing moves.
    """
    terms = drag_terms(chain.link_count, full)
    _refuse_rest(chain, runs, terms)
    problem = _Problem(chain, terms, runs)
    values = problem.linear_start()
    for _ in range(_ROUNDS):
        values = problem.minimise(values, whitening(problem.residual_covariance(values)))
    residual_covariance = problem.residual_covariance(values)
    weight = whitening(residual_covariance)
    return _with_intervals(chain, problem, values, weight, residual_covariance)


class _Problem:
    """Residuals of the predicted rates and what they depend on."""

    def __init__(self, chain: Chain, terms: tuple[DragTerm, ...], runs: Sequence[Samples]) -> None:
        self.terms = terms
        self.links = chain.link_count
        self.configured = coefficients(chain, terms)
        length_m = float(chain.links[:, kernels.LENGTH].mean())
        self.sizes = np.array([term.size(self.configured[0], length_m) for term in terms])
        # A standard deviation of 1000 %: without weight where the recordings tell anything, decisive where nothing.
        self.anchors = 10.0 * np.where(self.configured > 0.0, self.configured, self.sizes)
        self.runs = runs
        self.rates = np.concatenate([run.rates for run in runs])
        self.controls = np.concatenate([run.controls for run in runs])
        self.jacobians = wheel_jacobians(chain, np.concatenate([run.joint_angles for run in runs]))

    def linear_start(self) -> Vector:
        """Least squares on the balance of forces, the first coefficient held, made positive definite."""
        rows = balance(self.jacobians, self.rates, self.controls, self.terms)
        rows = (rows / np.maximum(np.sqrt(np.mean(np.square(rows @ self.configured), axis=0)), 1e-12)[:, None]).reshape(
            -1, len(self.terms)
        )
        free, known = rows[:, 1:] * self.sizes[1:], -rows[:, 0] * self.configured[0]
        # What the recordings do not tell stays where it is configured.
        anchor = 1e-6 * np.linalg.norm(free, ord=2) * np.eye(free.shape[1])
        lower = [-np.inf if term.kind in ("xy", "xt", "yt") else _SMALLEST for term in self.terms[1:]]
        solved = lsq_linear(
            np.vstack([free, anchor]),
            np.concatenate([known, anchor @ (self.configured[1:] / self.sizes[1:])]),
            bounds=(lower, np.inf),
        )
        return self._definite(np.concatenate([self.configured[:1], solved.x * self.sizes[1:]]))

    def _definite(self, values: Vector) -> Vector:
        """The values with every wheel's matrix made safely positive definite by shrinking what couples its axes."""
        wheels, _ = drag_matrices(self.terms, values, self.links)
        out = values.copy()
        for link, matrix in enumerate(wheels):
            diagonal = np.sqrt(np.diag(matrix))
            correlation = matrix / np.outer(diagonal, diagonal)
            smallest = float(np.linalg.eigvalsh(correlation)[0])
            shrink = 1.0 if smallest > 0.05 else 0.95 / (1.0 - smallest)
            for number, term in enumerate(self.terms):
                if term.index == link and term.kind in ("xy", "xt", "yt"):
                    out[number] *= shrink
        return out

    def minimise(self, values: Vector, weight: Matrix) -> Vector:
        """Coefficients of least squared weighted residuals, from these on."""
        full = any(term.kind == "xy" for term in self.terms)
        to_values, from_values, lower = _cholesky(self, values[0]) if full else _bounded(self, values[0])

        def residuals(x: Vector) -> Vector:
            now, _ = to_values(x)
            predicted, _ = predicted_rates(self.jacobians, self.controls, self.terms, now)
            anchor = (now - self.configured)[1:] / self.anchors[1:]
            return np.append(((predicted - self.rates) @ weight.T).ravel(), anchor)

        def jacobian(x: Vector) -> Matrix:
            now, inner = to_values(x)
            _, outer = predicted_rates(self.jacobians, self.controls, self.terms, now)
            weighted = np.einsum("ab,kbp->kap", weight, outer).reshape(-1, len(self.terms))
            return np.vstack([weighted, np.diag(1.0 / self.anchors)[1:]]) @ inner

        start = np.maximum(from_values(values), lower)
        solved = least_squares(
            residuals, start, jacobian, bounds=(lower, np.inf), x_scale="jac", xtol=1e-10, ftol=1e-12
        )
        return to_values(solved.x)[0]

    def residual_covariance(self, values: Vector) -> Matrix:
        """(N + 2, N + 2) second moments of the residuals of the rates."""
        predicted, _ = predicted_rates(self.jacobians, self.controls, self.terms, values)
        residual = self.rates - predicted
        out: Matrix = residual.T @ residual / max(len(residual) - len(values) / residual.shape[1], 1.0)
        return out


Parametrisation = tuple[Callable[[Vector], tuple[Vector, Matrix]], Callable[[Vector], Vector], Vector]
"""From parameters to coefficients (P,) and their derivatives (P, p), back, and the parameters' lower bounds (p,)."""


def _bounded(problem: _Problem, held: float) -> Parametrisation:
    """Diagonal matrices: the free coefficients themselves in their usual sizes."""
    sizes = problem.sizes[1:]
    inner = np.vstack([np.zeros(len(sizes)), np.diag(sizes)])
    lower = np.array([0.0 if term.element is None else _SMALLEST for term in problem.terms[1:]])
    return lambda x: (np.append(held, x * sizes), inner), lambda values: values[1:] / sizes, lower


def _cholesky(problem: _Problem, held: float) -> Parametrisation:
    """Full matrices: lower Cholesky factors of the wheels' matrices in their usual sizes; joints as they are."""
    terms, links, sizes = problem.terms, problem.links, problem.sizes
    root = np.sqrt(sizes)  # of a diagonal element; terms of a wheel: xx xy xt yy yt tt
    count = len(terms) - 1
    rows, columns = np.triu_indices(3)

    def factor(x: Vector, link: int) -> Matrix:
        out = np.zeros((3, 3))
        # Upper triangle of the matrix, row by row, is the lower triangle of the factor, column by column.
        out[columns, rows] = np.append(np.sqrt(held / sizes[0]), x[:5]) if link == 0 else x[6 * link - 1 : 6 * link + 5]
        return out

    def to_values(x: Vector) -> tuple[Vector, Matrix]:
        values, inner = np.empty(len(terms)), np.zeros((len(terms), count))
        for link in range(links):
            lower = factor(x, link)
            scale = np.array([root[6 * link], root[6 * link + 3], root[6 * link + 5]])
            unit = np.outer(scale, scale)[rows, columns]
            values[6 * link : 6 * link + 6] = (lower @ lower.T)[rows, columns] * unit
            for number, (row, column) in enumerate(zip(rows, columns, strict=True)):
                parameter = 6 * link + number - 1
                if parameter < 0:
                    continue
                step = np.zeros((3, 3))
                step[column, row] = 1.0
                change = step @ lower.T
                inner[6 * link : 6 * link + 6, parameter] = (change + change.T)[rows, columns] * unit
        joints = np.arange(6 * links, len(terms))
        values[joints] = x[joints - 1] * sizes[joints]
        inner[joints, joints - 1] = sizes[joints]
        return values, inner

    def from_values(values: Vector) -> Vector:
        wheels, joints = drag_matrices(terms, values, links)
        parts = []
        for link, matrix in enumerate(wheels):
            scale = np.array([root[6 * link], root[6 * link + 3], root[6 * link + 5]])
            parts.append(np.linalg.cholesky(matrix / np.outer(scale, scale))[columns, rows])
        return np.concatenate([*parts, joints / sizes[6 * links :]])[1:]

    bounds = np.full(count, -np.inf)
    bounds[6 * links - 1 :] = 0.0
    return to_values, from_values, bounds


def _with_intervals(
    chain: Chain, problem: _Problem, values: Vector, weight: Matrix, residual_covariance: Matrix
) -> DragFit:
    """The fit with covariance, condition and delay."""
    terms = problem.terms
    predicted, slopes = predicted_rates(problem.jacobians, problem.controls, terms, values)
    residual = (problem.rates - predicted) @ weight.T
    relative = np.einsum("ab,kbp->kap", weight, slopes[..., 1:]) * problem.sizes[1:]
    information = np.einsum("kap,kaq->pq", relative, relative)
    scores = np.einsum("kap,ka->kp", relative, residual)
    bread, lost = _inverse(information)
    spread = bread @ long_run_covariance([run.steps for run in problem.runs], scores, bread) @ bread
    white = np.diag(bread).clip(min=1e-300)
    dof = max(residual.size - len(terms), 1) / residual.size
    covariance = np.zeros((len(terms), len(terms)))
    covariance[1:, 1:] = spread / dof * np.outer(problem.sizes[1:], problem.sizes[1:])
    undetermined = np.flatnonzero(lost) + 1
    covariance[undetermined, undetermined] = np.inf
    values_scaled = np.abs(values[1:]) / problem.sizes[1:]
    singular = np.sqrt(np.linalg.eigvalsh(information * np.outer(values_scaled, values_scaled)).clip(min=0.0))
    condition = float(singular[-1] / singular[0]) if singular[0] > 0.0 else np.inf
    inflation = np.append(1.0, np.diag(spread) / dof / white)
    natural = information / np.outer(problem.sizes[1:], problem.sizes[1:])
    delay_s = _delay(problem.runs, predicted, problem.rates, weight)
    fitted = with_drag(chain, terms, values)
    return DragFit(
        chain=fitted,
        terms=terms,
        values=values,
        covariance=covariance,
        information=natural,
        noise_inflation=inflation,
        condition=condition,
        residual_covariance=residual_covariance,
        samples=len(residual),
        delay_s=delay_s,
    )


def _inverse(information: Matrix) -> tuple[Matrix, NDArray[np.bool_]]:
    """Pseudo-inverse of the information, and which coefficients have a part where there is none."""
    eigenvalues, vectors = np.linalg.eigh(information)
    blind = eigenvalues < _LOST**2 * eigenvalues[-1]
    seen = vectors[:, ~blind]
    lost: NDArray[np.bool_] = np.asarray((np.abs(vectors[:, blind]) > 1e-3).any(axis=1), dtype=np.bool_)
    return seen @ (seen / eigenvalues[~blind]).T, lost


def whitening(covariance: Matrix) -> Matrix:
    """W with W^T W the inverse of the covariance; a floor keeps data without noise from making it singular."""
    stddev = np.sqrt(np.diag(covariance)).clip(min=1e-9)
    correlation = covariance / np.outer(stddev, stddev) + 1e-6 * np.eye(len(stddev))
    factor = np.linalg.cholesky(correlation)
    return np.asarray(solve_triangular(factor, np.diag(1.0 / stddev), lower=True))


def _delay(runs: Sequence[Samples], predicted: Array, rates: Array, weight: Matrix) -> float:
    """Delay of the measured rates against the predicted ones, by least squares on the latter's slope."""
    above = below = 0.0
    first = 0
    for run in runs:
        part = slice(first, first + len(run.steps))
        first += len(run.steps)
        inside = np.flatnonzero((run.steps[2:] - run.steps[:-2]) == 2) + 1
        slope = (predicted[part][inside + 1] - predicted[part][inside - 1]) / (2.0 * run.step_s) @ weight.T
        error = (rates[part][inside] - predicted[part][inside]) @ weight.T
        above -= float((slope * error).sum())
        below += float((slope * slope).sum())
    return above / below if below > 0.0 else 0.0


def _refuse_rest(chain: Chain, runs: Sequence[Samples], terms: tuple[DragTerm, ...]) -> None:
    """UserError where no coefficient can be seen at all."""
    count = sum(len(run.steps) for run in runs)
    needed = 2 * len(terms)
    if count < needed:
        raise UserError(
            f"{count} instants of motion, {needed} or more are needed for {len(terms)} coefficients: "
            "a longer recording, or one with fewer gaps in the motion capture"
        )
    fastest = max(float(np.abs(run.controls).max()) for run in runs)
    rates = np.sqrt(np.mean(np.concatenate([np.square(run.rates) for run in runs]), axis=0))
    names = f"none of the {len(terms)} coefficients ({', '.join(dict.fromkeys(t.kind for t in terms))}) can be seen"
    if fastest < 1e-4:
        raise UserError(f"the wheels are never driven (rim speeds up to {fastest:.2g} m/s): {names}")
    if max(rates[0], rates[1], 0.1 * rates[2:].max()) < 0.01 * fastest:
        raise UserError(
            f"the chain does not move though its wheels are driven (rim speeds up to {fastest:.2g} m/s, base "
            f"{1000.0 * np.hypot(rates[0], rates[1]):.2g} mm/s, turning and joints up to "
            f"{np.rad2deg(rates[2:].max()):.2g} deg/s RMS): {names}"
        )
    if max(len(run.steps) for run in runs) < 10:
        raise UserError(f"all stretches of motion are shorter than 10 instants: {names}")
