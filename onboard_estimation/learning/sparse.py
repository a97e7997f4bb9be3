"""Sparse Gaussian processes: means and variances at a cost that does not grow with the training data.

Variational inducing points (Titsias 2009, see `collapsed_bound`): M points, placed by k-means and on request moved
along the bound's gradient together with the hyper-parameters, stand for all n training points. Away from the data the
mean fades to zero and the variance grows to the signal's variance, as those of the exact process do.

    model = fit(inputs, targets)
    means, variances = model.predict(inputs)
    arrays = model.mean_arrays                                       # once, then in a loop:
    means = predict_means(*arrays, inputs, 0, model.output_count)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.errors import UserError
from onboard_estimation.learning.collapsed_bound import CollapsedBound, Factors, noise_variances
from onboard_estimation.learning.inducing_points import spread_points
from onboard_estimation.learning.sparse_kernels import predict_means, predict_variances
from onboard_estimation.learning.training_data import LENGTH_SCALE_BOUNDS, TrainingData, check_groups, check_inputs

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Progress = Callable[[float, str], None]

START_LENGTH_SCALE, START_RATIO = 1.5, 20.0
"""Length scales and ratio of the signal's variance to the noise's at the start of the search, in normalised units."""
RATIO_BOUNDS = (1e-4, 1e6)
FARTHEST_INDUCING = 0.5
"""How far beyond the range of the inputs an inducing point may move, in standard deviations."""
RELATIVE_TOLERANCE = 1e-7


@dataclass(frozen=True, eq=False)
class SparseGaussianProcesses:
    """m sparse Gaussian processes in g groups that share length scales and M inducing points.

    Attributes
    ----------
    inducing
        (g, M, d), in the inputs' units.
    length_scales
        (g, d), in the inputs' units.
    groups
        (m,), the group of each output.
    weights
        (m, M), in the targets' units; mean = unit covariances with the inducing points times weights.
    projections, shrinkages
        (g, M, M) and (m, M), see `sparse_kernels`.
    signal_variances, noise_variances
        (m,), in the targets' units squared.
    inputs, targets
        (n, d) and (n, m), the training data; none, n = 0, in a model that was loaded from a file.
    """

    KIND: ClassVar[str] = "sparse Gaussian processes"
    """In the header of files."""

    inducing: Array
    length_scales: Array
    groups: Indices
    weights: Array
    projections: Array
    shrinkages: Array
    signal_variances: Array
    noise_variances: Array
    inputs: Array = field(repr=False, compare=False)
    targets: Array = field(repr=False, compare=False)

    @property
    def output_count(self) -> int:
        """Number of outputs m."""
        return len(self.groups)

    @property
    def mean_arrays(self) -> tuple[Array, Array, Indices, Array]:
        """What `sparse_kernels.predict_means` takes before the inputs; made anew at each call."""
        return (*self._shared_arrays(), self.weights)

    @property
    def variance_arrays(self) -> tuple[Array, Array, Indices, Array, Array, Array]:
        """What `sparse_kernels.predict_variances` takes before the inputs; made anew at each call."""
        return (*self._shared_arrays(), self.projections, self.shrinkages, self.signal_variances)

    def _shared_arrays(self) -> tuple[Array, Array, Indices]:
        scaled = self.inducing / self.length_scales[:, None, :]
        return np.ascontiguousarray(scaled.transpose(0, 2, 1)), 1.0 / self.length_scales, self.groups

    def predict(self, inputs: ArrayLike) -> tuple[Array, Array]:
        """Means (k, m) and latent variances (k, m), without noise, at inputs (k, d).

        Raises
        ------
        UserError
            The inputs have another number of columns than the training inputs.
        """
        x = check_inputs(inputs, self.inducing.shape[2])
        means: Array = predict_means(*self.mean_arrays, x, 0, self.output_count)
        variances: Array = predict_variances(*self.variance_arrays, x, 0, self.output_count)
        return means, variances

    def leave_out(self, groups: ArrayLike) -> tuple[Array, Array]:
        """Each group's points predicted from all other groups; hyper-parameters and inducing points stay as they are.

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
            The model was loaded from a file and has no training data, not a label for each training point, or fewer
            than two groups.
        """
        if len(self.inputs) == 0:
            raise UserError("a model from a file holds no training data to leave out; train it again")
        members = check_groups(groups, len(self.inputs))
        residuals, variances = np.empty_like(self.targets), np.empty_like(self.targets)
        ratios = self.signal_variances / self.noise_variances
        for group in range(len(self.inducing)):
            outputs = np.flatnonzero(self.groups == group)
            whitened = Factors.of(self.inputs, self.inducing[group], self.length_scales[group]).whitened
            total, moments = whitened @ whitened.T, whitened @ self.targets[:, outputs]
            for member in members:
                own = whitened[:, member]
                h, vectors = np.linalg.eigh(total - own @ own.T)
                rotated = vectors.T @ (moments - own @ self.targets[np.ix_(member, outputs)])
                rotated_own = vectors.T @ own
                missing = 1.0 - np.sum(own * own, axis=0)
                for column, output in enumerate(outputs):
                    ratio, spread = ratios[output], 1.0 + ratios[output] * np.maximum(h, 0.0)
                    means = rotated_own.T @ (ratio * rotated[:, column] / spread)
                    residuals[member, output] = self.targets[member, output] - means
                    share = missing + np.sum(rotated_own**2 / spread[:, None], axis=0)
                    variances[member, output] = self.signal_variances[output] * np.maximum(share, 0.0)
        return residuals, variances + self.noise_variances

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """All that a prediction needs, by name, for `model_file.save`."""
        return {name: getattr(self, name) for name in ARRAY_NAMES}

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
        groups = values["groups"].astype(np.int64)
        if values["inducing"].ndim != 3 or groups.ndim != 1:
            raise UserError("not a sparse model: inducing points (g, M, d) and groups (m,) are needed; train it again")
        (g, points, d), m = values["inducing"].shape, len(groups)
        shapes = {
            "length_scales": (g, d),
            "weights": (m, points),
            "projections": (g, points, points),
            "shrinkages": (m, points),
            "signal_variances": (m,),
            "noise_variances": (m,),
        }
        wrong = [
            f"{name} {values[name].shape}, not {shape}" for name, shape in shapes.items() if values[name].shape != shape
        ]
        if wrong:
            raise UserError(f"sparse model with arrays that do not fit together: {'; '.join(wrong)}; train it again")
        if not np.array_equal(groups, values["groups"]) or (m and not (groups.min() >= 0 and groups.max() < g)):
            raise UserError(f"sparse model: groups of outputs must be whole numbers from 0 to {g - 1}; train it again")
        if not all(np.all(values[name] > 0.0) for name in ("length_scales", "signal_variances", "noise_variances")):
            raise UserError("sparse model with length scales or variances that are not positive; train it again")
        values.pop("groups")
        return cls(**values, groups=groups, inputs=np.empty((0, d)), targets=np.empty((0, m)))


ARRAY_NAMES = (
    *("inducing", "length_scales", "groups", "weights"),
    *("projections", "shrinkages", "signal_variances", "noise_variances"),
)


def fit(
    inputs: ArrayLike,
    targets: ArrayLike,
    inducing_points: int = 100,
    shared_length_scales: bool = True,
    iterations: int = 60,
    move_inducing_points: bool = False,
    progress: Progress | None = None,
) -> SparseGaussianProcesses:
    """Sparse Gaussian processes with hyper-parameters and inducing points of the greatest bound.

    Parameters
    ----------
    inputs, targets
        (n, d) and (n, m), in any units.
    inducing_points
        M, fewer where there are fewer different inputs.
    shared_length_scales
        One set of length scales and inducing points for all outputs: a prediction then takes one row of covariances
        for all outputs, and training one factorisation. Else each output has its own: some five times slower in both,
        and for the residuals of LandSalp's scenario `hardware` no better (see `benchmarks/residual_training.py`).
    iterations
        Of L-BFGS-B at most, twice: for the hyper-parameters, then for inducing points too.
    move_inducing_points
        Whether inducing points then move along the bound's gradient, which takes some five times as long, or stay where
        k-means put them. Where the noise is small it can lower errors by a third; else it hardly does.
    progress
        Called with the share done in [0, 1] and a line of text.

    Raises
    ------
    UserError
        Training data of wrong shape, not finite, or too few points.
    """
    data = TrainingData.normalised(inputs, targets)
    report = progress or (lambda fraction, text: None)
    outputs = data.targets.shape[1]
    start = spread_points(data.inputs, inducing_points)
    members = [list(range(outputs))] if shared_length_scales else [[output] for output in range(outputs)]
    parts = []
    for number, member in enumerate(members):
        search = _Search(data.inputs, np.ascontiguousarray(data.targets[:, member]), start)

        def step(share: float, bound: float, number: int = number) -> None:
            report((number + share) / len(members), f"group {number + 1} of {len(members)}: bound {bound:.1f}")

        search.run(iterations, move_inducing_points, step)
        parts.append(_posterior(data, member, search))
        report((number + 1) / len(members), f"group {number + 1} of {len(members)} done")
    stacked = {name: np.stack([part[name] for part in parts]) for name in ("inducing", "length_scales", "projections")}
    joined = {
        name: np.concatenate([part[name] for part in parts])
        for name in ("weights", "shrinkages", "signal_variances", "noise_variances")
    }
    groups = np.repeat(np.arange(len(members)), [len(member) for member in members]).astype(np.int64)
    return SparseGaussianProcesses(
        **stacked,
        **joined,
        groups=groups,
        inputs=np.array(inputs, dtype=np.float64),
        targets=np.array(targets, dtype=np.float64),
    )


class _Search:
    """L-BFGS-B over log length scales, log ratios and inducing points of one group, in normalised units."""

    def __init__(self, inputs: Array, targets: Array, inducing: Array) -> None:
        self._bound = CollapsedBound(inputs, targets)
        self._lowest, self._highest = inputs.min(axis=0) - FARTHEST_INDUCING, inputs.max(axis=0) + FARTHEST_INDUCING
        self.inducing = inducing
        self.length_scales = np.full(inputs.shape[1], START_LENGTH_SCALE)
        self.ratios = np.full(targets.shape[1], START_RATIO)

    def run(self, iterations: int, move: bool, report: Callable[[float, float], None]) -> None:
        """First the hyper-parameters, then, if inducing points are to `move`, all together."""
        stages = (False, True) if move else (False,)
        for number, moving in enumerate(stages):
            self._maximise(iterations, moving, report, (number / len(stages), 1.0 / len(stages)))

    def _maximise(
        self, iterations: int, moving: bool, report: Callable[[float, float], None], part: tuple[float, float]
    ) -> None:
        d, m = len(self.length_scales), len(self.ratios)
        start = [np.log(self.length_scales), np.log(self.ratios)]
        bounds = [np.log([LENGTH_SCALE_BOUNDS] * d), np.log([RATIO_BOUNDS] * m)]
        if moving:
            start.append(self.inducing.ravel())
            bounds.append(np.tile(np.column_stack([self._lowest, self._highest]), (len(self.inducing), 1)))
        fixed = self.inducing
        done = 0

        def unpacked(theta: Array) -> tuple[Array, Array, Array]:
            inducing = theta[d + m :].reshape(-1, d) if moving else fixed
            return inducing, np.exp(theta[:d]), np.exp(theta[d : d + m])

        def negative(theta: Array) -> tuple[float, Array]:
            value, by_inducing, by_length, by_ratio = self._bound(*unpacked(theta))
            parts = [by_length, by_ratio, by_inducing.ravel()] if moving else [by_length, by_ratio]
            return -value, -np.concatenate(parts)

        def count_iteration(intermediate_result: OptimizeResult) -> None:
            nonlocal done
            done += 1
            report(part[0] + part[1] * min(done / iterations, 1.0), -float(intermediate_result.fun))

        from scipy.optimize import minimize  # nodes predict only

        result = minimize(
            negative,
            np.concatenate(start),
            jac=True,
            method="L-BFGS-B",
            bounds=np.concatenate(bounds),
            callback=count_iteration,
            options={"maxiter": iterations, "ftol": RELATIVE_TOLERANCE},
        )
        self.inducing, self.length_scales, self.ratios = unpacked(np.asarray(result.x))


def _posterior(data: TrainingData, member: list[int], search: _Search) -> dict[str, Array]:
    """The arrays of one group of outputs, in the units of the data."""
    from scipy.linalg import solve_triangular  # nodes predict only

    targets = data.targets[:, member]
    factors = Factors.of(data.inputs, search.inducing, search.length_scales)
    noise = noise_variances(factors, targets, search.ratios)
    back = solve_triangular(factors.lower, factors.eigenvectors, trans=1, lower=True)
    rotated = factors.eigenvectors.T @ (factors.whitened @ targets)
    spread = factors.eigenvalues[:, None] * search.ratios
    scales = data.target_scales[member]
    return {
        "inducing": search.inducing * data.input_scales + data.input_means,
        "length_scales": search.length_scales * data.input_scales,
        "weights": np.ascontiguousarray((back @ (search.ratios * rotated / (1.0 + spread)) * scales).T),
        "projections": np.ascontiguousarray(back.T),
        "shrinkages": np.ascontiguousarray((spread / (1.0 + spread)).T),
        "signal_variances": noise * search.ratios * scales**2,
        "noise_variances": noise * scales**2,
    }
