"""Sparse Gaussian processes: means and variances at a cost that does not grow with the training data.

Variational inducing points (Titsias 2009): M points, spread over the inputs, stand for all n training points. All
outputs share them and the length scales, so that a prediction takes one row of covariances. Away from the data the mean
fades to zero and the variance grows to the signal's variance, as those of an exact process do.
An exact one was no better on robots that it had not seen, five hundred times slower to train and two hundred to ask;
nor were length scales for each output, or inducing points that move along the bound's gradient (docs/results.md,
`residual_training`).

    model = fit(inputs, targets)
    means, variances = model.predict(inputs)
    arrays = model.mean_arrays                           # once, then in a loop:
    means = predict_means(*arrays, inputs)

Hyper-parameters are those of the greatest collapsed bound, Titsias, "Variational learning of inducing variables in
sparse Gaussian processes", AISTATS 2009, eq. (9): for an output with signal variance s^2 and noise variance r,

    F = log N(y | 0, r I + Q) - trace(K - Q) / (2 r),    Q = K_nu K_uu^-1 K_un.

Outputs that share length scales and inducing points share the unit covariance C (K = s^2 C), and with it all that
costs: with C_uu = L L^T, V = L^-1 C_un and H = V V^T = U diag(h) U^T, each output needs sums over the M eigenvalues h.
With the ratio q = s^2 / r and w = (U^T V y)^2,

    F = -n/2 log(2 pi r) - 1/2 sum log(1 + q h) - (y^T y - sum q w / (1 + q h)) / (2 r) - q/2 (n - sum h),

and the best r for given q follows in closed form from its third term.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cholesky, eigh, solve_triangular

from onboard_estimation.base.errors import UserError
from onboard_estimation.learning.model_file import fitting
from onboard_estimation.learning.sparse_kernels import cross_covariance, predict_means, predict_variances

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

Array = NDArray[np.float64]
Progress = Callable[[float, str], None]

START_LENGTH_SCALE, START_RATIO = 1.5, 20.0
"""Length scales and ratio of the signal's variance to the noise's at the start of the search, in normalised units."""
RATIO_BOUNDS = (1e-4, 1e6)
RELATIVE_TOLERANCE = 1e-7
_SHAPES = {
    "inducing": "1 M d",
    "length_scales": "1 d",
    "groups": "m",
    "weights": "m M",
    "projections": "1 M M",
    "shrinkages": "m M",
    "signal_variances": "m",
    "noise_variances": "m",
}
_SHARED = ("inducing", "length_scales", "projections")
"""Arrays of all outputs; in a file they have a leading axis of one, and `groups` (m,) is all zeros."""
FEWEST_POINTS = 20
LENGTH_SCALE_BOUNDS = (0.02, 5.0)
"""Length scales, in units of `input_scales`. The upper one keeps the variance growing away from the data, even along
an input that the training targets did not seem to depend on. Measured on gaits: from 10 to 5, errors inside the data
grow by a few hundredths of themselves, and the squared errors of a gait that was not trained, over their predicted
variance, fall from up to 20 to 6."""
NOISE_VARIANCE_BOUNDS = (1e-6, 1e2)
"""In units of the targets' mean square."""
JITTER = 1e-7
"""Added to the unit covariance of the inducing points, which is all but singular where length scales are long."""


def _normalised(inputs: ArrayLike, targets: ArrayLike) -> tuple[Array, Array, Array, Array, Array]:
    """Inputs (n, d) less their means and over their scales, targets (n, m) over theirs; means, scales and scales.

    Scales of inputs (d,) are standard deviations, 1 where an input never changed; those of targets (m,) root mean
    squares, 1 where a target is always zero. The targets' mean is left in: away from the data a prediction is to fade
    to zero, to the model without residuals.

    Raises
    ------
    UserError
        Wrong shapes, numbers that are not finite, or fewer than FEWEST_POINTS points.
    """
    x = np.ascontiguousarray(inputs, dtype=np.float64)
    y = np.ascontiguousarray(targets, dtype=np.float64)
    if x.ndim != 2 or y.ndim != 2 or len(x) != len(y) or 0 in (x.shape[-1], y.shape[-1]):
        raise UserError(f"training data: inputs (n, d) and targets (n, m) are needed, not {x.shape} and {y.shape}")
    bad = int((~(np.isfinite(x).all(axis=1) & np.isfinite(y).all(axis=1))).sum())
    if bad:
        raise UserError(f"training data: {bad} of {len(x)} points hold a number that is not finite; leave them out")
    if len(x) < FEWEST_POINTS:
        raise UserError(
            f"training data: {len(x)} points, at least {FEWEST_POINTS} are needed; record for longer or lower the "
            "interval between points"
        )
    scales = x.std(axis=0)
    scales[scales <= 1e-12 * np.abs(x).max(axis=0, initial=0.0)] = 1.0
    target_scales = np.sqrt(np.mean(y * y, axis=0))
    target_scales[target_scales == 0.0] = 1.0
    means = x.mean(axis=0)
    return (x - means) / scales, y / target_scales, means, scales, target_scales


@dataclass(frozen=True, eq=False)
class SparseGaussianProcesses:
    """m sparse Gaussian processes that share length scales and M inducing points.

    Attributes
    ----------
    inducing
        (M, d), in the inputs' units.
    length_scales
        (d,), in the inputs' units.
    weights
        (m, M), in the targets' units; mean = unit covariances with the inducing points times weights.
    projections, shrinkages
        (M, M) and (m, M), see `sparse_kernels`.
    signal_variances, noise_variances
        (m,), in the targets' units squared.
    inputs, targets
        (n, d) and (n, m), the training data; none, n = 0, in a model that was loaded from a file.
    """

    inducing: Array
    length_scales: Array
    weights: Array
    projections: Array
    shrinkages: Array
    signal_variances: Array
    noise_variances: Array
    inputs: Array = field(repr=False, compare=False)
    targets: Array = field(repr=False, compare=False)

    @property
    def mean_arrays(self) -> tuple[Array, Array, Array]:
        """What `sparse_kernels.predict_means` takes before the inputs; made anew at each call."""
        return *self._scaled(), self.weights

    @property
    def variance_arrays(self) -> tuple[Array, Array, Array, Array, Array]:
        """What `sparse_kernels.predict_variances` takes before the inputs; made anew at each call."""
        return *self._scaled(), self.projections, self.shrinkages, self.signal_variances

    def _scaled(self) -> tuple[Array, Array]:
        return np.ascontiguousarray((self.inducing / self.length_scales).T), 1.0 / self.length_scales

    def predict(self, inputs: ArrayLike) -> tuple[Array, Array]:
        """Means (k, m) and latent variances (k, m), without noise, at inputs (k, d).

        Raises
        ------
        UserError
            The inputs have another number of columns than the training inputs.
        """
        x, d = np.ascontiguousarray(inputs, dtype=np.float64), self.inducing.shape[1]
        if x.ndim != 2 or x.shape[1] != d:
            raise UserError(f"inputs of shape (k, {d}) are needed, not {x.shape}")
        means: Array = predict_means(*self.mean_arrays, x)
        variances: Array = predict_variances(*self.variance_arrays, x)
        return means, variances

    def leave_out(self, groups: ArrayLike) -> Array:
        """Residuals (n, m) of each group's points, target minus prediction from all other groups.

        Hyper-parameters and inducing points stay as they are.

        Parameters
        ----------
        groups
            (n,) labels of any kind, e.g. the number of the run that a point comes from.
        """
        labels, residuals = np.asarray(groups), np.empty_like(self.targets)
        ratios = self.signal_variances / self.noise_variances
        whitened = Factors.of(self.inputs, self.inducing, self.length_scales).whitened
        total, moments = whitened @ whitened.T, whitened @ self.targets
        for label in np.unique(labels):
            member = np.flatnonzero(labels == label)
            own = whitened[:, member]
            h, vectors = np.linalg.eigh(total - own @ own.T)
            rotated = vectors.T @ (moments - own @ self.targets[member])
            rotated_own = vectors.T @ own
            for output, ratio in enumerate(ratios):
                means = rotated_own.T @ (ratio * rotated[:, output] / (1.0 + ratio * np.maximum(h, 0.0)))
                residuals[member, output] = self.targets[member, output] - means
        return residuals

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """All that a prediction needs, by name, for `model_file.save`."""
        arrays = {name: getattr(self, name) for name in _SHAPES if name != "groups"}
        arrays |= {name: arrays[name][None] for name in _SHARED}
        return {**arrays, "groups": np.zeros(len(self.weights), dtype=np.int64)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.generic]]) -> SparseGaussianProcesses:
        """The model of `arrays()`, without training data.

        Raises
        ------
        UserError
            An array is missing, or their shapes do not fit together.
        """
        values = fitting(arrays, _SHAPES, "sparse model")
        if values.pop("groups").any():
            raise UserError("sparse model: groups of outputs must all be 0; train it anew")
        if not all(np.all(values[name] > 0.0) for name in ("length_scales", "signal_variances", "noise_variances")):
            raise UserError("sparse model: length scales or variances that are not positive; train it anew")
        values |= {name: values[name][0] for name in _SHARED}
        nothing = np.empty((0, values["inducing"].shape[1])), np.empty((0, len(values["weights"])))
        return cls(**values, inputs=nothing[0], targets=nothing[1])


def fit(
    inputs: ArrayLike,
    targets: ArrayLike,
    inducing_points: int = 100,
    iterations: int = 60,
    progress: Progress | None = None,
) -> SparseGaussianProcesses:
    """Sparse Gaussian processes with the hyper-parameters of the greatest bound.

    Parameters
    ----------
    inputs, targets
        (n, d) and (n, m), in any units.
    inducing_points
        M, fewer where there are fewer different inputs.
    iterations
        Of L-BFGS-B at most.
    progress
        Called with the share done in [0, 1] and a line of text.

    Raises
    ------
    UserError
        Training data of wrong shape, not finite, or too few points.
    """
    x, y, means, input_scales, scales = _normalised(inputs, targets)
    report = progress or (lambda fraction, text: None)
    inducing = spread_points(x, inducing_points)
    length_scales, ratios = _best(x, y, inducing, iterations, report)
    report(1.0, "done")
    factors = Factors.of(x, inducing, length_scales)
    noise, rotated = factors.noise_variances(y, ratios)
    back = solve_triangular(factors.lower, factors.eigenvectors, trans=1, lower=True)
    spread = factors.eigenvalues[:, None] * ratios
    return SparseGaussianProcesses(
        inducing=inducing * input_scales + means,
        length_scales=length_scales * input_scales,
        weights=np.ascontiguousarray((back @ (ratios * rotated / (1.0 + spread)) * scales).T),
        projections=np.ascontiguousarray(back.T),
        shrinkages=np.ascontiguousarray((spread / (1.0 + spread)).T),
        signal_variances=noise * ratios * scales**2,
        noise_variances=noise * scales**2,
        inputs=np.array(inputs, dtype=np.float64),
        targets=np.array(targets, dtype=np.float64),
    )


def _best(inputs: Array, targets: Array, inducing: Array, iterations: int, report: Progress) -> tuple[Array, Array]:
    """Length scales (d,) and ratios (m,) of the greatest bound, in normalised units: L-BFGS-B on their logarithms."""
    from scipy.optimize import minimize  # nodes predict only

    d, m, done = inputs.shape[1], targets.shape[1], 0

    def negative(theta: Array) -> tuple[float, Array]:
        value, *slopes = collapsed_bound(inputs, targets, inducing, np.exp(theta[:d]), np.exp(theta[d:]))
        return -value, -np.concatenate(slopes)

    def count_iteration(intermediate_result: OptimizeResult) -> None:
        nonlocal done
        done += 1
        bound = -float(intermediate_result.fun)
        report(min(done / iterations, 1.0), f"bound {bound:.1f}")

    start = [np.full(d, START_LENGTH_SCALE), np.full(m, START_RATIO)]
    found = minimize(
        negative,
        np.log(np.concatenate(start)),
        jac=True,
        method="L-BFGS-B",
        bounds=np.log([LENGTH_SCALE_BOUNDS] * d + [RATIO_BOUNDS] * m),
        callback=count_iteration,
        options={"maxiter": iterations, "ftol": RELATIVE_TOLERANCE},
    ).x
    return np.exp(found[:d]), np.exp(found[d:])


def spread_points(inputs: Array, count: int, rounds: int = 5) -> Array:
    """At most `count` points (M, d) spread over inputs (n, d), no two equal; the same for the same inputs.

    Gaits fill a thin curve in the space of inputs, and some parts of it are visited seldom. The farthest-point rule
    gives the seldom parts their points (what matters for the worst case): each is the farthest from those before it,
    the first the nearest to the mean. So many `rounds` of Lloyd's rule then move each to its cell's mean.
    """
    from scipy.spatial import cKDTree  # nodes take the points as they were found

    chosen = [int(np.argmin(np.sum((inputs - inputs.mean(axis=0)) ** 2, axis=1)))]
    distance = np.sum((inputs - inputs[chosen[0]]) ** 2, axis=1)
    while len(chosen) < count and distance.max() > 0.0:
        chosen.append(int(np.argmax(distance)))
        distance = np.minimum(distance, np.sum((inputs - inputs[chosen[-1]]) ** 2, axis=1))
    points = inputs[chosen]
    for _ in range(rounds):
        _, nearest = cKDTree(points).query(inputs)
        sizes = np.bincount(nearest, minlength=len(points))
        sums = np.stack([np.bincount(nearest, column, len(points)) for column in inputs.T], axis=1)
        points = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], points)
    return np.unique(points, axis=0)


@dataclass(frozen=True)
class Factors:
    """What follows from inducing points and length scales alone.

    Covariances C_uu (M, M), with `JITTER`, and C_un (M, n); L (M, M) lower, V (M, n), h (M,) and U (M, M).
    """

    among: Array
    cross: Array
    lower: Array
    whitened: Array
    eigenvalues: Array
    eigenvectors: Array

    @classmethod
    def of(cls, inputs: Array, inducing: Array, length_scales: Array) -> Factors:
        """For inputs (n, d), inducing points (M, d) and length scales (d,)."""
        x, z = (np.ascontiguousarray((points / length_scales).T) for points in (inputs, inducing))
        among, cross = cross_covariance(z, z), cross_covariance(z, x)
        among[np.diag_indices_from(among)] += JITTER
        lower = cholesky(among, lower=True, check_finite=False)
        whitened = solve_triangular(lower, cross, lower=True, check_finite=False)
        eigenvalues, eigenvectors = eigh(whitened @ whitened.T, driver="evd", check_finite=False)
        return cls(among, cross, lower, whitened, np.maximum(eigenvalues, 0.0), eigenvectors)

    def noise_variances(self, targets: Array, ratios: Array) -> tuple[Array, Array]:
        """(m,) that maximise the bound, within NOISE_VARIANCE_BOUNDS, for q = `ratios` (m,); and U^T V y (M, m)."""
        rotated = self.eigenvectors.T @ (self.whitened @ targets)
        explained = np.sum(ratios * rotated**2 / (1.0 + self.eigenvalues[:, None] * ratios), axis=0)
        noise = (np.sum(targets**2, axis=0) - explained) / len(targets)
        return np.clip(noise, *NOISE_VARIANCE_BOUNDS), rotated


def collapsed_bound(
    inputs: Array, targets: Array, inducing: Array, length_scales: Array, ratios: Array
) -> tuple[float, Array, Array]:
    """The bound at its best noise variances, summed over outputs that share length scales and inducing points.

    Parameters
    ----------
    inputs, targets, inducing
        (n, d), (n, m) and (M, d).
    length_scales, ratios
        (d,) and (m,); a ratio is of the signal's variance to the noise's.

    Returns
    -------
    The bound, and its derivatives with respect to log length scales (d,) and log ratios (m,).
    """
    x, z = inputs / length_scales, inducing / length_scales
    factors = Factors.of(inputs, inducing, length_scales)
    h, y, n = factors.eigenvalues, targets, len(x)
    noise, rotated = factors.noise_variances(y, ratios)
    spread = 1.0 + h[:, None] * ratios
    unexplained = np.sum(y * y, axis=0) - np.sum(ratios * rotated**2 / spread, axis=0)
    missing = n - h.sum()
    value = -0.5 * (n * np.log(2.0 * np.pi * noise) + np.log(spread).sum(axis=0) + unexplained / noise)
    value -= 0.5 * ratios * missing
    by_ratio = np.sum(rotated**2 / spread**2, axis=0) / noise - np.sum(h[:, None] / spread, axis=0) - missing

    # With the weights a of the mean, c_u^T a, b = (y - C_nu a) / r and W = L^-T U, sums over outputs:
    # dF/dC_un = sum a b^T + W diag(sum q^2 h / (1 + q h)) U^T V,
    # dF/dC_uu = -1/2 sum a a^T / s^2 - 1/2 W diag(sum q^2 h^2 / (1 + q h)) W^T.
    back = solve_triangular(factors.lower, factors.eigenvectors, trans=1, lower=True, check_finite=False)
    weights = back @ (ratios * rotated / spread)
    errors = (y - factors.cross.T @ weights) / noise
    share = np.sum(ratios**2 * h[:, None] / spread, axis=1)
    by_cross = weights @ errors.T + (back * share) @ (factors.eigenvectors.T @ factors.whitened)
    by_among = -0.5 * ((weights / (ratios * noise)) @ weights.T + (back * (share * h)) @ back.T)

    # dC_jk / dlog l_i = C_jk (z_ij - x_ik)^2, in scaled coordinates.
    by_cross *= factors.cross
    by_among *= factors.among
    rows, columns, among_rows = by_cross.sum(axis=1), by_cross.sum(axis=0), by_among.sum(axis=1)
    by_length = rows @ z**2 + columns @ x**2 - 2.0 * np.sum(z * (by_cross @ x), axis=0)
    by_length += 2.0 * (among_rows @ z**2 - np.sum(z * (by_among @ z), axis=0))
    return float(value.sum()), by_length, 0.5 * ratios * by_ratio
