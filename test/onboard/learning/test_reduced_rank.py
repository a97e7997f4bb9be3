"""Reduced-rank Gaussian processes against brute force, numerical integrals and scikit-learn."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Matern

from onboard_estimation.base.errors import UserError
from onboard_estimation.learning import model_file
from onboard_estimation.learning.model_file import ModelHeader, TrainingConditions
from onboard_estimation.learning.reduced_rank import LearnedFunction, ReducedRankBasis

BOXES = [
    ((0.4,), (2.0,), (0.5,)),
    ((0.0, 1.0), (1.0, 3.0), (0.4, 0.7)),
    ((0.0, 0.0, 5.0), (1.0, 2.0, 1.5), (0.5, 0.9, 0.6)),
]
PEERS: dict[str, Any] = {
    "squared_exponential": RBF(1.0),
    "matern_3_2": Matern(1.0, nu=1.5),
    "matern_5_2": Matern(1.0, nu=2.5),
}


def header() -> ModelHeader:
    training = TrainingConditions(125.0, 1.0, 125, ("run",), ("",), ("0" * 64,), (-1.0, 0.0), (1.0, 2.0))
    names = (("dx", "dy"), ("m", "m"), ("stiffness",), ("N/m",))
    return ModelHeader("a function", "softrobot", ("wrench",), "1" * 64, *names, training, "0")


def learned() -> LearnedFunction:
    rng = np.random.default_rng(1)
    basis = ReducedRankBasis((0.0, 1.0), (1.0, 2.0), (0.5, 0.8), 12, "matern_5_2", margin=0.1)
    root = rng.normal(size=(12, 12))
    return LearnedFunction(basis, np.array([700.0]), rng.normal(size=(1, 12)), (root @ root.T)[None], np.array([3.0]))


@pytest.mark.parametrize("box", BOXES)
def test_functions_are_those_with_the_smallest_eigenvalues(box: Any) -> None:
    basis = ReducedRankBasis(*box, function_count=50)
    scaled = np.array(basis.half_widths) / np.array(basis.length_scales)
    every = np.array(list(product(range(1, 60 if len(scaled) < 3 else 25), repeat=len(scaled))))
    expected = np.sort(((0.5 * np.pi * every / scaled) ** 2).sum(axis=1))[:50]
    np.testing.assert_allclose(basis.eigenvalues, expected, rtol=1e-12)
    assert len({tuple(row) for row in basis.indices}) == 50


@pytest.mark.parametrize("box", BOXES)
def test_functions_are_the_printed_ones(box: Any) -> None:
    basis = ReducedRankBasis(*box, function_count=20)
    half, scales = np.array(basis.half_widths), np.array(basis.length_scales)
    places = np.array(basis.centre) + np.random.default_rng(3).uniform(-0.9, 0.9, (10, len(half))) * half
    q, length = (places - basis.centre) / scales, half / scales
    # Eqs. (4) and (5), in coordinates over length scales
    expected = np.prod(np.sin(np.pi * basis.indices * (q[:, None] + length) / (2.0 * length)) / np.sqrt(length), axis=2)
    found, clamped = basis.functions(places)
    assert clamped == 0
    np.testing.assert_allclose(found, expected, atol=1e-13)
    np.testing.assert_allclose(basis.functions(places, np.full(20, 3.0))[0], 3.0 * expected, atol=1e-12)


@pytest.mark.parametrize(("kernel", "box", "factor"), list(zip(PEERS, BOXES, (0.8, 1.0, 0.8), strict=True)))
def test_sum_of_functions_is_the_kernel_well_inside_the_box(kernel: Any, box: Any, factor: float) -> None:
    centre, half_widths, length_scales = (np.array(part, dtype=float) for part in box)
    d = len(centre)
    basis = ReducedRankBasis(*box, function_count={1: 300, 2: 1500, 3: 3000}[d], kernel=kernel)
    places = centre + np.random.default_rng(2).uniform(-0.3, 0.3, (40, d)) * half_widths
    phi, _ = basis.functions(places)
    approximate = phi * np.exp(basis.log_spectral_densities(np.log(factor))) @ phi.T
    exact = PEERS[kernel]((places - centre) / length_scales / factor)
    # Edges are 1.4 length scales away or more; Matern's spectrum falls slowly.
    np.testing.assert_allclose(approximate, exact, atol=0.08 if d == 3 or kernel == "matern_3_2" else 0.03)


def test_regression_is_that_of_the_full_process() -> None:
    rng = np.random.default_rng(3)
    basis = ReducedRankBasis((0.0,), (3.0,), (0.5,), 60)
    x, noise = rng.uniform(-1.5, 1.5, (60, 1)), 0.2
    y = np.sin(3.0 * x[:, 0]) + noise * rng.normal(size=60)
    phi, _ = basis.functions(x)
    prior = np.exp(basis.log_spectral_densities())
    covariance = np.linalg.inv(np.diag(1.0 / prior) + phi.T @ phi / noise**2)
    function = LearnedFunction(
        basis, np.zeros(1), (covariance @ phi.T @ y / noise**2)[None], covariance[None], np.array([noise])
    )
    peer = GaussianProcessRegressor(RBF(0.5), alpha=noise**2, optimizer=None).fit(x, y)
    places = np.linspace(-2.0, 2.0, 41)[:, None]
    mean, stddev = function.predict(places)
    expected_mean, expected_stddev = peer.predict(places, return_std=True)
    np.testing.assert_allclose(mean[:, 0], expected_mean, atol=2e-3)
    np.testing.assert_allclose(stddev[:, 0], expected_stddev, atol=2e-3)


def test_places_outside_are_taken_to_the_inner_box_and_counted() -> None:
    basis = ReducedRankBasis((1.0, 0.0), (2.0, 1.0), (1.0, 1.0), 9, margin=0.1)
    inside = np.array([[2.8, 0.9], [2.8, -0.2], [-0.8, 0.3]])
    outside = np.array([[50.0, 0.95], [2.8000001, -0.2], [np.nan, 0.3]])
    expected, none = basis.functions(inside * (1.0 - 1e-15))
    found, three = basis.functions(outside)
    assert (none, three) == (0, 3)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_what_is_no_basis_is_refused() -> None:
    basis = ReducedRankBasis((0.0, 0.0), (1.0, 1.0), (1.0, 1.0))
    wrong = {"half_widths": (1.0,), "length_scales": (1.0, np.inf), "centre": (np.nan, 0.0), "margin": 1.0}
    for name, value in {**wrong, "function_count": 0}.items():
        with pytest.raises(UserError, match=rf"no basis: .*{name}={re.escape(str(value))}"):
            replace(basis, **{name: value})


def test_learned_function_comes_back_from_its_file(tmp_path: Path) -> None:
    function, path, places = learned(), tmp_path / "stiffness.npz", np.random.default_rng(4).uniform(-1.0, 2.0, (20, 2))
    model_file.save(path, header(), function.arrays())
    told, arrays = model_file.load(path)
    back = LearnedFunction.of_arrays(arrays, told, "m")
    assert back.basis == function.basis
    for found, expected in zip(back.predict(places), function.predict(places), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_arrays_that_do_not_fit_are_refused() -> None:
    arrays = learned().arrays()
    for name, value, said in (
        ("weights", np.zeros((1, 11)), r"covariances \(1, 12, 12\), not \(1, 11, 11\)"),
        ("box", np.zeros((3, 3)), "box"),
        ("kernel", np.array([7]), "kernel 7"),
        ("box", np.zeros((3, 2)), "half_widths"),
    ):
        with pytest.raises(UserError, match=said):
            LearnedFunction.of_arrays({**arrays, name: value}, header(), "m")
    del arrays["margin"]
    with pytest.raises(UserError, match="no array margin"):
        LearnedFunction.of_arrays(arrays, header(), "m")
