"""Quantiles of the chi-square distribution against scipy's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import gammaincinv

from onboard_estimation.filtering.chi_square import chi_square_quantile

FREEDOMS = (1, 2, 3, 4, 6, 9, 12, 30, 47, 200, 1000)
PROBABILITIES = (1e-12, 1e-4, 0.025, 0.3, 0.5, 0.6827, 0.95, 0.997, 0.9999, 1.0 - 1e-9, 1.0 - 1e-12)


@pytest.mark.parametrize("degrees_of_freedom", FREEDOMS)
def test_as_scipy(degrees_of_freedom: int) -> None:
    ours = [chi_square_quantile(probability, degrees_of_freedom) for probability in PROBABILITIES]
    theirs = 2.0 * gammaincinv(0.5 * degrees_of_freedom, np.array(PROBABILITIES))
    np.testing.assert_allclose(ours, theirs, rtol=1e-13)


def test_ends() -> None:
    assert chi_square_quantile(1.0, 3) == math.inf
    assert chi_square_quantile(0.0, 3) == 0.0


@pytest.mark.parametrize(("probability", "degrees_of_freedom"), [(1.1, 1), (-0.1, 1), (math.nan, 1), (0.5, 0)])
def test_no_quantile(probability: float, degrees_of_freedom: int) -> None:
    with pytest.raises(ValueError, match="no quantile"):
        chi_square_quantile(probability, degrees_of_freedom)
