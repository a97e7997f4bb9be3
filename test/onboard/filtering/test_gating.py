"""Gates by probability: thresholds from printed tables, shares of drawn innovations, the way back."""

from __future__ import annotations

import numpy as np
import pytest

from onboard_estimation.filtering.gating import Gate, Innovation


def innovation(nis: float, size: int = 1) -> Innovation:
    return Innovation(np.full(size, np.sqrt(nis / size)), np.eye(size), nis, accepted=False)


@pytest.mark.parametrize(
    ("probability", "degrees", "threshold"),
    [(0.95, 1, 3.841), (0.95, 2, 5.991), (0.95, 3, 7.815), (0.99, 6, 16.812), (0.999, 10, 29.588)],
)
def test_threshold_is_that_of_the_printed_chi_square_tables(probability: float, degrees: int, threshold: float) -> None:
    assert Gate(probability).threshold(degrees) == pytest.approx(threshold, abs=5e-4)


def test_share_of_good_measurements_that_pass_is_the_probability() -> None:
    squares = np.sum(np.random.default_rng(0).normal(size=(200_000, 3)) ** 2, axis=1)
    assert np.mean(squares <= Gate(0.9).threshold(3)) == pytest.approx(0.9, abs=0.003)


def test_probability_one_lets_everything_pass() -> None:
    assert Gate(1.0).threshold(3) == np.inf


@pytest.mark.parametrize("probability", [0.0, -0.1, 1.001, float("nan")])
def test_probability_outside_zero_to_one_is_refused(probability: float) -> None:
    with pytest.raises(ValueError, match="gate probability must be in"):
        Gate(probability)


def test_recovers_after_so_many_rejections_in_a_row_only() -> None:
    gate = Gate(recover_after=3)
    decisions = [False, False, True, False, False, False, False, False, False, True]
    assert [gate.count(accepted) for accepted in decisions] == [
        False, False, False, False, False, True, False, False, True, False,
    ]  # fmt: skip


def test_never_recovers_where_that_is_switched_off() -> None:
    gate = Gate(recover_after=0)
    assert not any(gate.count(False) for _ in range(1000))


def test_snapshot_brings_the_count_of_rejections_back() -> None:
    gate = Gate(recover_after=3)
    gate.count(False)
    gate.count(False)
    snapshot = gate.snapshot()
    assert gate.count(False)
    gate.restore(snapshot)
    assert gate.count(False)


def test_inflation_is_the_ratio_to_the_threshold_and_never_shrinks() -> None:
    gate = Gate(0.95)
    assert gate.inflation(innovation(38.41)) == pytest.approx(10.0, rel=1e-3)
    assert gate.inflation(innovation(59.91, size=2)) == pytest.approx(10.0, rel=1e-3)
    assert gate.inflation(innovation(0.1)) == 1.0


def test_innovation_shows_its_covariance() -> None:
    root = np.array([[2.0, 0.0], [1.0, 3.0]])
    np.testing.assert_allclose(Innovation(np.zeros(2), root, 0.0, True).covariance, [[4.0, 2.0], [2.0, 10.0]])
