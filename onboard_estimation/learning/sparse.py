"""Sparse Gaussian processes: means and variances at a cost that does not grow with the training data.

Variational inducing points (Titsias 2009, see `collapsed_bound`): M points, spread over the inputs, stand for all n
training points. All outputs share them and the length scales, so that a prediction takes one row of covariances. Away
from the data the mean fades to zero and the variance grows to the signal's variance, as those of an exact process do.
An exact one was no better on robots that it had not seen, five hundred times slower to train and two hundred to ask;
nor were length scales for each output, or inducing points that move along the bound's gradient (docs/benchmarks.md,
`residual_training`).

    model = fit(inputs, targets)
    means, variances = model.predict(inputs)
    arrays = model.mean_arrays                           # once, then in a loop:
    means = predict_means(*arrays, inputs)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.errors import UserError
from onboard_estimation.learning.collapsed_bound import Factors, collapsed_bound, noise_variances
from onboard_estimation.learning.sparse_kernels import predict_means, predict_variances
from onboard_estimation.learning.training_data import LENGTH_SCALE_BOUNDS, TrainingData, check_inputs

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

Array = NDArray[np.float64]
Progress = Callable[[float, str], None]

START_LENGTH_SCALE, START_RATIO = 1.5, 20.0
"""Length scales and ratio of the signal's variance to the noise's at the start of the search, in normalised units."""
RATIO_BOUNDS = (1e-4, 1e6)
RELATIVE_TOLERANCE = 1e-7
_SHARED = ("inducing", "length_scales", "projections")
"""Arrays of all outputs; in a file they have a leading axis of one, and `groups` (m,) is all zeros."""


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
        x = check_inputs(inputs, self.inducing.shape[1])
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
        arrays = {name: getattr(self, name) for name in ARRAY_NAMES if name != "groups"}
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
        missing = [name for name in ARRAY_NAMES if name not in arrays]
        if missing:
            raise UserError(f"not a sparse model: no array {', '.join(missing)}; train it again")
        values = {name: np.ascontiguousarray(arrays[name], dtype=np.float64) for name in ARRAY_NAMES}
        groups = values.pop("groups")
        if values["inducing"].ndim != 3 or groups.ndim != 1:
            raise UserError("not a sparse model: inducing points (1, M, d) and groups (m,) are needed; train it again")
        (_, points, d), m = values["inducing"].shape, len(groups)
        shapes = {
            "inducing": (1, points, d),
            "length_scales": (1, d),
            "weights": (m, points),
            "projections": (1, points, points),
            "shrinkages": (m, points),
            "signal_variances": (m,),
            "noise_variances": (m,),
        }
        wrong = [
            f"{name} {values[name].shape}, not {shape}" for name, shape in shapes.items() if values[name].shape != shape
        ]
        if wrong:
            raise UserError(f"sparse model with arrays that do not fit together: {'; '.join(wrong)}; train it again")
        if groups.any():
            raise UserError("sparse model: groups of outputs must all be 0; train it again")
        if not all(np.all(values[name] > 0.0) for name in ("length_scales", "signal_variances", "noise_variances")):
            raise UserError("sparse model with length scales or variances that are not positive; train it again")
        values |= {name: values[name][0] for name in _SHARED}
        return cls(**values, inputs=np.empty((0, d)), targets=np.empty((0, m)))


ARRAY_NAMES = (
    *("inducing", "length_scales", "groups", "weights"),
    *("projections", "shrinkages", "signal_variances", "noise_variances"),
)


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
    from scipy.linalg import solve_triangular  # nodes predict only

    data = TrainingData.normalised(inputs, targets)
    report = progress or (lambda fraction, text: None)
    inducing = spread_points(data.inputs, inducing_points)
    length_scales, ratios = _best(data, inducing, iterations, report)
    report(1.0, "done")
    factors = Factors.of(data.inputs, inducing, length_scales)
    noise = noise_variances(factors, data.targets, ratios)
    back = solve_triangular(factors.lower, factors.eigenvectors, trans=1, lower=True)
    rotated = factors.eigenvectors.T @ (factors.whitened @ data.targets)
    spread, scales = factors.eigenvalues[:, None] * ratios, data.target_scales
    return SparseGaussianProcesses(
        inducing=inducing * data.input_scales + data.input_means,
        length_scales=length_scales * data.input_scales,
        weights=np.ascontiguousarray((back @ (ratios * rotated / (1.0 + spread)) * scales).T),
        projections=np.ascontiguousarray(back.T),
        shrinkages=np.ascontiguousarray((spread / (1.0 + spread)).T),
        signal_variances=noise * ratios * scales**2,
        noise_variances=noise * scales**2,
        inputs=np.array(inputs, dtype=np.float64),
        targets=np.array(targets, dtype=np.float64),
    )


def _best(data: TrainingData, inducing: Array, iterations: int, report: Progress) -> tuple[Array, Array]:
    """Length scales (d,) and ratios (m,) of the greatest bound, in normalised units: L-BFGS-B on their logarithms."""
    from scipy.optimize import minimize  # nodes predict only

    d, m = data.inputs.shape[1], data.targets.shape[1]
    targets = np.ascontiguousarray(data.targets)
    done = 0

    def negative(theta: Array) -> tuple[float, Array]:
        value, *slopes = collapsed_bound(data.inputs, targets, inducing, np.exp(theta[:d]), np.exp(theta[d:]))
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
