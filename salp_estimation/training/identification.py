"""Drag coefficients of the chain from commands and motion capture (paper, section V-A).

The motion that follows from the coefficients, q' = B(r) u (eq. 5), is fitted to the measured one: an output-error fit.
Its linear regression (`chain.balance`) has the noisy q' among its regressors, so that plain least squares is
biased; it gives the start only. In the fit the noise is where it belongs, in the output; shapes and commands,
low-passed as the rates are, are as good as exact. Residuals are weighted by the inverse of their covariance, which is
estimated with the coefficients.

Wheels' matrices stay positive definite by their Cholesky factors. Commands and motion give coefficients up to a common
factor only (thrust is d_xx u): d_xx of the first wheel is held at its configured value, unless the wheels' effort is
recorded.

What the recordings do not determine, or what takes up something that is no drag (friction, the harness), is kept as
configured, and the others are fitted with it (`fit_determined`).

Intervals are at 95 %, from a sandwich covariance by overlapping blocks, for low-passed residuals are correlated in
time. They tell the scatter from noise, not what the model leaves out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag, solve_triangular
from scipy.optimize import least_squares, lsq_linear

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.soundness.delay_fit import long_run_variance
from salp_estimation.model import chain_kernels as kernels
from salp_estimation.model.chain import Chain, DragTerms, balance, predicted_rates, wheel_jacobians

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

NORMAL_95 = 1.959964
POOR_WIDTH = 0.1
"""A coefficient whose 95 % interval is wider than this share of its value is poorly determined."""

FARTHEST = 10.0
"""Times its configured value, or a tenth of it: a coefficient further off is no drag, but what the model leaves out."""

_SMALLEST = 1e-6  # lower bound of a wheel's coefficient, in its usual size
_ROUNDS = 3  # of estimating the residuals' covariance and the coefficients in turn
_BLOCKS = 25.0, 100.0  # samples, from five periods of the cut-off: noise of a position, differentiated, anticorrelates
_LEAST_EXPLAINED = 0.5  # of the variance of measured forces: less is not thrust
_LOST = 1e-10  # singular values below this share of the largest: a direction without any information
_SHARE_NAMED = 0.3  # of the direction that is determined worst


@dataclass(frozen=True, eq=False)
class Samples:
    """Instants of one recording at regular steps: low-passed alike, so that they belong to each other.

    Attributes
    ----------
    joint_angles, rates, controls
        (K, N - 1) rad, (K, N + 2) as `Motion.rates`, (K, N) rim speeds in m/s.
    steps
        (K,) int64: number of the regular step, increasing; gaps in the recording are gaps in the numbers.
    step_s
        Length of a step, s.
    forces
        (K, N) forces at the rims by the wheels' measured effort, N; NaN where not known.
    """

    joint_angles: Array
    rates: Array
    controls: Array
    steps: NDArray[np.int64]
    step_s: float
    forces: Array | None = None


@dataclass(frozen=True, eq=False)
class DragFit:
    """Coefficients of drag with their uncertainty.

    Attributes
    ----------
    terms
        P coefficients; the first, d_xx of wheel 1, is held.
    free
        (P,) which were searched; the others are as configured.
    values
        (P,) SI units.
    covariance
        (P, P) of the values; infinite variances where the recordings hold no information at all.
    information
        (F, F) of the free coefficients if residuals were white: the inverse of their covariance then.
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
    terms: DragTerms
    free: Mask
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
        return NORMAL_95 * np.sqrt(np.diag(self.covariance))

    @property
    def reference(self) -> Vector:
        """(P,) what intervals are compared with: the value, for a mixed element the geometric mean of both axes'."""
        wheels, _ = self.terms.matrices(self.values)
        rows, columns = self.terms.elements
        means = np.sqrt(wheels[:, rows, rows] * wheels[:, columns, columns]).ravel()
        out = np.abs(self.values)
        out[self.terms.mixed] = means[self.terms.mixed[: len(means)]]
        return out

    @property
    def poor(self) -> Mask:
        """(P,) whether the 95 % interval is wider than a tenth of the reference."""
        return np.asarray(2.0 * self.half_widths > POOR_WIDTH * self.reference, dtype=np.bool_)


def fit_determined(chain: Chain, runs: Sequence[Samples]) -> tuple[DragFit, dict[int, str]]:
    """The diagonal fit in which coefficients that are not determined are as configured.

    Returns
    -------
    The fit, and of each coefficient that was kept, by its number, what was found and why it does not hold.

    Raises
    ------
    UserError
        As `fit_drag`.
    """
    kept: dict[int, str] = {}
    while True:
        fit = fit_drag(chain, runs, kept=list(kept))
        if not (doubtful := undetermined(fit, fit.terms.coefficients(chain))):
            return fit, kept
        kept |= doubtful


def undetermined(fit: DragFit, configured: Vector) -> dict[int, str]:
    """Of each free coefficient that does not hold, by its number, what was found and why; mixed ones are not judged."""
    found = {}
    for number in np.flatnonzero(fit.free & ~fit.terms.mixed).tolist():
        value, half, before = float(fit.values[number]), float(fit.half_widths[number]), float(configured[number])
        share = value / before if before > 0.0 else 1.0
        if not half < value:
            found[number] = f"{value:.3g} +-{half:.2g}" if np.isfinite(half) else "nothing is told of it"
        elif share > FARTHEST:
            found[number] = f"{value:.3g} is {share:.3g} times the configured {before:.3g}"
        elif share < 1.0 / FARTHEST:
            found[number] = f"{value:.3g} is a {1.0 / share:.3g}th of the configured {before:.3g}"
    return found


def fit_drag(chain: Chain, runs: Sequence[Samples], full: bool = False, kept: Sequence[int] = ()) -> DragFit:
    """Coefficients that explain the motion of all runs best, the first d_xx held at the chain's own.

    Parameters
    ----------
    chain
        Geometry, and where the fit looks first.
    full
        Symmetric matrices of the wheels instead of diagonal ones.
    kept
        Numbers of the coefficients that stay as the chain has them, beside the first; of a diagonal fit.

    Raises
    ------
    UserError
        Too few instants, nothing is commanded, nothing moves, or the motion leaves the matrices open.
    """
    terms = DragTerms(chain.link_count, full)
    _refuse_rest(chain, runs, terms)
    free = np.ones(len(terms.kinds), dtype=np.bool_)
    free[[0, *kept]] = False
    problem = _Problem(chain, terms, runs, free)
    try:
        values = problem.linear_start()
        for _ in range(_ROUNDS):
            values = problem.minimise(values, whitening(problem.residual_covariance(values)))
        residual_covariance = problem.residual_covariance(values)
        weight = whitening(residual_covariance)
        return _with_intervals(chain, problem, values, weight, residual_covariance)
    except np.linalg.LinAlgError as error:
        raise UserError(
            f"the motion does not determine {', '.join(problem.worst_seen())}: other drag explains it as well. Give "
            f"bags of more and other gaits together{', or leave out --full' if full else ''}"
        ) from error


class _Problem:
    """Residuals of the predicted rates and what they depend on."""

    def __init__(self, chain: Chain, terms: DragTerms, runs: Sequence[Samples], free: Mask) -> None:
        self.terms, self.free = terms, free
        self.links = chain.link_count
        self.configured = terms.coefficients(chain)
        length_m = float(chain.links[:, kernels.LENGTH].mean())
        self.sizes = terms.sizes(self.configured[0], length_m)
        # A standard deviation of 1000 %: without weight where the recordings tell anything, decisive where nothing.
        self.anchors = 10.0 * np.where(self.configured > 0.0, self.configured, self.sizes)
        self.runs = runs
        self.rates = np.concatenate([run.rates for run in runs])
        self.controls = np.concatenate([run.controls for run in runs])
        self.jacobians = wheel_jacobians(chain, np.concatenate([run.joint_angles for run in runs]))

    def linear_start(self) -> Vector:
        """Least squares on the balance of forces, the first coefficient held, made positive definite."""
        rows = balance(self.jacobians, self.rates, self.controls, self.terms)
        forces = np.sqrt(np.mean(np.square(rows @ self.configured), axis=0))
        rows = (rows / np.maximum(forces, 1e-12)[:, None]).reshape(-1, len(self.sizes))
        free, sizes = self.free, self.sizes[self.free]
        known = -rows[:, ~free] @ self.configured[~free]
        # What the recordings do not tell stays where it is configured.
        anchor = 1e-6 * np.linalg.norm(rows[:, free] * sizes, ord=2) * np.eye(len(sizes))
        lower = np.where(self.terms.mixed, -np.inf, _SMALLEST)[free]
        solved = lsq_linear(
            np.vstack([rows[:, free] * sizes, anchor]),
            np.concatenate([known, anchor @ (self.configured[free] / sizes)]),
            bounds=(lower, np.inf),
        )
        return self._definite(_placed(self.configured, free, solved.x * sizes))

    def _definite(self, values: Vector) -> Vector:
        """The values with every wheel's matrix made safely positive definite by shrinking what couples its axes."""
        wheels, _ = self.terms.matrices(values)
        stddevs = np.sqrt(np.diagonal(wheels, axis1=1, axis2=2))
        smallest = np.linalg.eigvalsh(wheels / (stddevs[:, :, None] * stddevs[:, None]))[:, 0]
        shrink = np.where(smallest > 0.05, 1.0, 0.95 / (1.0 - np.minimum(smallest, 0.05)))
        shares = np.append(np.repeat(shrink, self.terms.wheels // self.links), np.ones(self.links - 1))
        return np.where(self.terms.mixed, shares * values, values)

    def minimise(self, values: Vector, weight: Matrix) -> Vector:
        """Coefficients of least squared weighted residuals, from these on."""
        free, count = self.free, self.terms.wheels

        def residuals(x: Vector) -> Vector:
            now, _ = self._coefficients(_placed(start, free, x))
            predicted, _ = predicted_rates(self.jacobians, self.controls, self.terms, now)
            anchor = (now - self.configured)[free] / self.anchors[free]
            return np.append(((predicted - self.rates) @ weight.T).ravel(), anchor)

        def jacobian(x: Vector) -> Matrix:
            now, inner = self._coefficients(_placed(start, free, x))
            _, outer = predicted_rates(self.jacobians, self.controls, self.terms, now)
            weighted = np.einsum("ab,kbp->kap", weight, outer).reshape(-1, len(self.sizes))
            return np.vstack([weighted, np.diag(1.0 / self.anchors)[free]]) @ inner[:, free]

        wheels, joints = self.terms.matrices(values / self.sizes)
        rows, columns = self.terms.elements
        factors = np.linalg.cholesky(wheels).swapaxes(1, 2)[:, rows, columns]
        lower = np.where(self.terms.mixed, -np.inf, np.sqrt(_SMALLEST))
        lower[count:] = 0.0
        start = np.append(factors, joints)
        solved = least_squares(
            residuals, np.maximum(start, lower)[free], jacobian,
            bounds=(lower[free], np.inf), x_scale="jac", xtol=1e-10, ftol=1e-12,
        )  # fmt: skip
        return _placed(self.configured, free, self._coefficients(_placed(start, free, solved.x))[0][free])

    def _coefficients(self, x: Vector) -> tuple[Vector, Matrix]:
        """Coefficients (P,) and their derivatives (P, P) by parameters (P,).

        These are, all in the usual sizes of the coefficients, elements of the Cholesky factors of the wheels' matrices,
        U^T U, and the joints' drag.
        """
        (rows, columns), count = self.terms.elements, self.terms.wheels
        upper, directions = np.zeros((self.links, 3, 3)), np.zeros((len(rows), 3, 3))
        upper[:, rows, columns] = x[:count].reshape(self.links, -1)
        directions[range(len(rows)), rows, columns] = 1.0
        wheels = (upper.swapaxes(1, 2) @ upper)[:, rows, columns]
        half = np.einsum("pba,nbc->npac", directions, upper)  # of the change of U^T U by each parameter
        slopes = (half + half.swapaxes(2, 3))[..., rows, columns].swapaxes(1, 2)
        inner = block_diag(*slopes, np.eye(len(x) - count))
        return self.sizes * np.append(wheels, x[count:]), self.sizes[:, None] * inner

    def worst_seen(self) -> list[str]:
        """Coefficients in the direction that the motion says least of, about the configured values."""
        _, slopes = predicted_rates(self.jacobians, self.controls, self.terms, self.configured)
        slopes = slopes[..., self.free] * self.sizes[self.free]
        direction = np.abs(np.linalg.eigh(np.einsum("kap,kaq->pq", slopes, slopes))[1][:, 0])
        numbers = np.flatnonzero(self.free)[direction > _SHARE_NAMED * direction.max()].tolist()
        return [coefficient_name(self.terms, number) for number in numbers]

    def residual_covariance(self, values: Vector) -> Matrix:
        """(N + 2, N + 2) second moments of the residuals of the rates."""
        predicted, _ = predicted_rates(self.jacobians, self.controls, self.terms, values)
        residual = self.rates - predicted
        return residual.T @ residual / max(len(residual) - len(values) / residual.shape[1], 1.0)


def _with_intervals(
    chain: Chain, problem: _Problem, values: Vector, weight: Matrix, residual_covariance: Matrix
) -> DragFit:
    """The fit with covariance, condition and delay."""
    terms = problem.terms
    predicted, slopes = predicted_rates(problem.jacobians, problem.controls, terms, values)
    residual = (problem.rates - predicted) @ weight.T
    free, sizes = problem.free, problem.sizes[problem.free]
    relative = np.einsum("ab,kbp->kap", weight, slopes[..., free]) * sizes
    information = np.einsum("kap,kaq->pq", relative, relative)
    scores = np.einsum("kap,ka->kp", relative, residual)
    bread, lost = _inverse(information)
    steps = [run.steps for run in problem.runs]
    spread = bread @ long_run_covariance(steps, scores, problem.runs[0].step_s) @ bread
    dof = max(residual.size - len(values), 1) / residual.size
    covariance = np.zeros((len(values), len(values)))
    squares = np.outer(sizes, sizes)
    covariance[np.ix_(free, free)] = spread / dof * squares
    unseen = np.flatnonzero(free)[lost]
    covariance[unseen, unseen] = np.inf
    values_scaled = np.abs(values[free]) / sizes
    singular = np.sqrt(np.linalg.eigvalsh(information * np.outer(values_scaled, values_scaled)).clip(min=0.0))
    condition = float(singular[-1] / singular[0]) if singular[0] > 0.0 else np.inf
    return DragFit(
        chain=terms.with_drag(chain, values),
        terms=terms,
        free=free,
        values=values,
        covariance=covariance,
        information=information / squares,
        noise_inflation=_placed(np.ones(len(values)), free, np.diag(spread) / dof / np.diag(bread).clip(min=1e-300)),
        condition=condition,
        residual_covariance=residual_covariance,
        samples=len(residual),
        delay_s=_delay(problem.runs, predicted, problem.rates, weight),
    )


def _placed(values: Vector, free: Mask, found: Vector) -> Vector:
    """Values (P,) with those that are free found."""
    out = values.copy()
    out[free] = found
    return out


def coefficient_name(terms: DragTerms, number: int, link_names: Sequence[str] = ()) -> str:
    """In words, e.g. `link_2 yy`, `joint 1`."""
    if number >= terms.wheels:
        return f"joint {number - terms.wheels + 1}"
    link = number // (terms.wheels // terms.links)
    return f"{link_names[link] if link_names else f'link {link + 1}'} {terms.kinds[number]}"


def _inverse(information: Matrix) -> tuple[Matrix, Mask]:
    """Pseudo-inverse of the information, and which coefficients have a part where there is none."""
    eigenvalues, vectors = np.linalg.eigh(information)
    blind = eigenvalues < _LOST**2 * eigenvalues[-1]
    seen = vectors[:, ~blind]
    lost: Mask = np.asarray((np.abs(vectors[:, blind]) > 1e-3).any(axis=1), dtype=np.bool_)
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
    ends = np.cumsum([len(run.steps) for run in runs])[:-1]
    for run, expected, seen in zip(runs, np.split(predicted, ends), np.split(rates, ends), strict=True):
        inside = np.flatnonzero((run.steps[2:] - run.steps[:-2]) == 2) + 1
        slope = (expected[inside + 1] - expected[inside - 1]) / (2.0 * run.step_s) @ weight.T
        error = (seen[inside] - expected[inside]) @ weight.T
        above -= float((slope * error).sum())
        below += float((slope * slope).sum())
    return above / below if below > 0.0 else 0.0


def _refuse_rest(chain: Chain, runs: Sequence[Samples], terms: DragTerms) -> None:
    """UserError where no coefficient can be seen at all."""
    count = sum(len(run.steps) for run in runs)
    wanted = len(terms.kinds)
    needed = 2 * wanted
    if count < needed:
        raise UserError(
            f"{count} instants of motion, {needed} or more are needed for {wanted} coefficients: "
            "a longer recording, or one with fewer gaps in the motion capture"
        )
    fastest = max(float(np.abs(run.controls).max()) for run in runs)
    rates = np.sqrt(np.mean(np.concatenate([np.square(run.rates) for run in runs]), axis=0))
    names = f"none of the {wanted} coefficients ({', '.join(dict.fromkeys(terms.kinds))}) can be seen"
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


def long_run_covariance(steps: Sequence[NDArray[np.int64]], scores: Matrix, step_s: float) -> Matrix:
    """Covariance (p, p) of the sum of the scores (K, p), correlated in time, of runs with K instants in all."""
    blocks_s = [step_s * samples for samples in _BLOCKS]
    out = np.zeros((scores.shape[1], scores.shape[1]))
    for run, part in zip(steps, np.split(scores, np.cumsum([len(run) for run in steps])[:-1]), strict=True):
        if len(run):
            out += long_run_variance(step_s * run.astype(np.float64), part, blocks_s)
    return out


@dataclass(frozen=True)
class DragScale:
    """Factor on all coefficients of a fit, its 95 % half-width, and where it comes from.

    Attributes
    ----------
    held
        The scale is not measured: the first wheel's d_xx stays as configured, `factor` is 1 and has no width.
    explained
        Share of the measured forces' variance that d_xx u explains; NaN without effort.
    reason
        One sentence for the report.
    """

    factor: float
    half_width: float
    held: bool
    explained: float
    reason: str


def drag_scale(fit: DragFit, samples: Sequence[Samples]) -> DragScale:
    """The common scale of all coefficients, which commands and motion leave open, from the wheels' measured effort.

    Torque over the wheel's radius is the thrust, and thrust is d_xx u (eq. 4). One number fits it over all wheels and
    recordings, by least squares, with an interval that knows correlation in time.
    """
    thrust_of = np.array([value for kind, value in zip(fit.terms.kinds, fit.values, strict=True) if kind == "xx"])
    forces, thrusts, kept = [], [], []
    for sample in samples:
        if sample.forces is not None:
            known = np.isfinite(sample.forces).all(axis=1)
            forces.append(sample.forces[known])
            thrusts.append(sample.controls[known] * thrust_of)
            kept.append(sample.steps[known])
    held = f"the first wheel's d_xx is held at its configured {fit.values[0]:.6g} N s/m"
    if sum(len(one) for one in forces) < 10:
        reason = f"The common scale cannot be seen from commands and motion and no wheel effort is recorded: {held}."
        return DragScale(1.0, 0.0, True, float("nan"), reason)
    force, thrust = np.concatenate(forces), np.concatenate(thrusts)
    factor = float((force * thrust).sum() / max(np.square(thrust).sum(), 1e-300))
    error = force - factor * thrust
    explained = float(1.0 - np.square(error).sum() / max(np.square(force - force.mean(axis=0)).sum(), 1e-300))
    if factor <= 0.0 or explained < _LEAST_EXPLAINED:
        reason = (
            f"The recorded wheel effort is not thrust (d_xx u explains {100.0 * explained:.0f} % of it, with a factor "
            f"of {factor:.3g}; check units and signs): {held}."
        )
        return DragScale(1.0, 0.0, True, explained, reason)
    scores = (thrust * error).sum(axis=1)[:, None]
    spread = float(long_run_covariance(kept, scores, samples[0].step_s)[0, 0])
    half_width = NORMAL_95 * np.sqrt(spread) / float(np.square(thrust).sum())
    sentence = (
        f"The common scale comes from the wheels' effort in {len(forces)} of {len(samples)} recordings: d_xx u "
        f"explains {100.0 * explained:.1f} % of it."
    )
    return DragScale(factor, half_width, False, explained, sentence)
