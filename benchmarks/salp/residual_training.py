"""Gaussian processes for residuals: inducing points against exact processes of scikit-learn.

Trained on 25 runs of LandSalp in the scenario `hardware` (five gaits, five robots, 450 s at 5 Hz) and judged on runs of
three other robots. Errors are in standard deviations of each target; the negative log predictive density (NLPD) is a
mean over points and outputs with targets in these units, and smaller is better; the normalised squared error is one
where the predicted variance is right. The model knows none of the robots it is judged on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from benchmarks.salp.residual_data import residuals
from benchmarks.timing import case, interleaved, rounded
from onboard_estimation.learning import sparse
from onboard_estimation.learning.sparse import SparseGaussianProcesses
from onboard_estimation.learning.sparse_kernels import predict_means, predict_variances

Array = NDArray[np.float64]

TRAINING_SEEDS, TEST_SEEDS = (11, 12, 13, 14, 15), (21, 22, 23)
TRAINING_TARGET, PREDICTION_TARGET_S = 20.0, 0.3e-6
SIGMA_POINTS = 15
INDUCING = 100


class Exact:
    """scikit-learn's exact processes, one for each output, at their greatest likelihood from one start."""

    def __init__(self, inputs: Array, targets: Array) -> None:
        self._scales = inputs.std(axis=0)
        self._regressors = []
        for output in targets.T:
            size = np.sqrt(np.mean(output**2))
            kernel = ConstantKernel(1.0) * RBF([1.5] * inputs.shape[1], (0.02, 5.0)) + WhiteKernel(0.05)
            found = GaussianProcessRegressor(kernel, alpha=0.0).fit(inputs / self._scales, output / size)
            self._regressors.append((size, found))
        self.noise_variances = np.array([size**2 * np.exp(one.kernel_.theta[-1]) for size, one in self._regressors])

    def predict(self, inputs: Array) -> tuple[Array, Array]:
        """Means and latent variances (k, m)."""
        found = [(size, one.predict(inputs / self._scales, return_std=True)) for size, one in self._regressors]
        variances = np.column_stack([(size * deviation) ** 2 for size, (_, deviation) in found])
        return np.column_stack([size * mean for size, (mean, _) in found]), variances - self.noise_variances


def run(quick: bool) -> list[dict[str, Any]]:
    """Training, accuracy on other robots, predictions."""
    inputs, targets, _ = residuals(TRAINING_SEEDS[: 2 if quick else None], 60 if quick else 90)
    tests = residuals(TEST_SEEDS[: 1 if quick else None], 60 if quick else 150)[:2]
    sparse.fit(inputs[:100], targets[:100, :1], 10, iterations=2)  # compiles
    fits: dict[str, Callable[[], Exact | SparseGaussianProcesses]] = {
        "exact, scikit-learn": lambda: Exact(inputs, targets)
    }
    for count in (60, INDUCING, 150):
        fits[f"{count} inducing points"] = lambda points=count: sparse.fit(inputs, targets, points)
    models, seconds = {}, {}
    for name, fit in fits.items():
        start = time.process_time()
        models[name] = fit()
        seconds[name] = time.process_time() - start
    rows = _training(seconds) + [_accuracy(name, model, *tests) for name, model in models.items()]
    chosen = models[f"{INDUCING} inducing points"]
    assert isinstance(chosen, SparseGaussianProcesses)
    return [*rows, *_predictions(chosen, inputs[:SIGMA_POINTS], 5 if quick else 51)]


def _training(seconds: dict[str, float]) -> list[dict[str, Any]]:
    """Seconds of the processor, so that other load counts little."""
    rows = []
    for name, took_s in seconds.items():
        row = {"case": f"training eight outputs, {name}", "figure": f"{took_s:.3g} s", "processor_s": rounded(took_s)}
        if "scikit-learn" not in name:
            ratio = seconds["exact, scikit-learn"] / took_s
            row |= {"figure": f"{took_s:.3g} s, {ratio:.0f} times faster than exact", "times_faster": rounded(ratio)}
            row |= {"target": f">= {TRAINING_TARGET:g} times", "met": ratio >= TRAINING_TARGET}
        rows.append(row)
    return rows


def _accuracy(name: str, model: Exact | SparseGaussianProcesses, inputs: Array, targets: Array) -> dict[str, Any]:
    size = targets.std(axis=0)
    means, latent = model.predict(inputs)
    variances = latent + model.noise_variances
    errors = (means - targets) / size
    squares = (means - targets) ** 2 / variances
    nlpd = 0.5 * (np.log(2.0 * np.pi * variances / size**2) + squares).mean()
    figures = {
        "rms_error": float(np.sqrt(np.mean(errors**2))),
        "worst_error": float(np.abs(errors).max()),
        "nlpd": float(nlpd),
        "normalised_squared_error": float(squares.mean()),
    }
    text = (
        f"RMS error {figures['rms_error']:.3f}, worst {figures['worst_error']:.2f}; "
        f"NLPD {figures['nlpd']:.2f}; "
        f"normalised squared error {figures['normalised_squared_error']:.2f}"
    )
    return {"case": f"other robots, {name}", "figure": text} | {key: rounded(value) for key, value in figures.items()}


def _predictions(model: SparseGaussianProcesses, inputs: Array, repetitions: int) -> list[dict[str, Any]]:
    outputs = len(model.weights)
    samples = interleaved(
        {
            "means": lambda arrays=model.mean_arrays: predict_means(*arrays, inputs),
            "variances": lambda arrays=model.variance_arrays: predict_variances(*arrays, inputs[:1]),
        },
        repetitions,
    )
    samples["means"] /= len(inputs) * outputs
    label = f"mean at one of {len(inputs)} sigma points, one output; {INDUCING} inducing points"
    return [
        case(label, samples, "means", target_s=PREDICTION_TARGET_S),
        case(f"variances of {outputs} outputs at one point", samples, "variances"),
    ]
