"""Gates by probability: thresholds from printed tables, shares of drawn innovations, the way back."""

from __future__ import annotations

import numpy as np
import pytest

from onboard_estimation.filtering.gating import OPEN, Gate, Innovation, decide


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
    assert Gate(1.0).threshold(3) == OPEN.threshold(1) == np.inf
    assert decide(OPEN, 1e300, 3, 0) == (True, 1.0, 0)


@pytest.mark.parametrize("probability", [0.0, -0.1, 1.001, float("nan")])
def test_probability_outside_zero_to_one_is_refused(probability: float) -> None:
    with pytest.raises(ValueError, match="gate probability must be in"):
        Gate(probability)


def recoveries(gate: Gate, passes: list[bool], may_recover: bool = True) -> list[bool]:
    """Where a filter that keeps the count is inflated; every decision on the way is looked at."""
    rejected, found = 0, []
    for fits in passes:
        before = rejected
        accepted, inflation, rejected = decide(gate, 1.0 if fits else 1e4, 1, before, may_recover)
        assert accepted == fits
        assert rejected == (0 if fits or inflation > 1.0 else before + 1)
        found.append(inflation > 1.0)
    return found


def test_recovers_after_so_many_rejections_in_a_row_only() -> None:
    passes = [False, False, True, False, False, False, False, False, False, True]
    assert recoveries(Gate(recover_after=3), passes) == [
        False, False, False, False, False, True, False, False, True, False,
    ]  # fmt: skip


def test_never_recovers_where_that_is_switched_off() -> None:
    assert not any(recoveries(Gate(recover_after=0), [False] * 1000))


def test_rejections_count_on_while_other_sensors_confirm_the_state() -> None:
    gate = Gate(recover_after=3)
    assert not any(recoveries(gate, [False] * 10, may_recover=False))
    assert decide(gate, 1e4, 1, 10, may_recover=False) == (False, 1.0, 11)
    assert decide(gate, 1e4, 1, 10).inflation > 1.0


def test_the_count_is_all_that_a_decision_needs_of_the_past() -> None:
    gate = Gate(recover_after=3)
    assert decide(gate, 1e4, 1, 2) == decide(gate, 1e4, 1, 2)
    assert decide(gate, 1e4, 1, 2).inflation > 1.0 == decide(gate, 1e4, 1, 1).inflation


def test_inflation_is_the_ratio_to_the_threshold() -> None:
    gate = Gate(0.95, recover_after=1)
    assert decide(gate, 38.41, 1, 0).inflation == pytest.approx(10.0, rel=1e-3)
    assert decide(gate, 59.91, 2, 0).inflation == pytest.approx(10.0, rel=1e-3)
    assert decide(gate, gate.threshold(1), 1, 0) == (True, 1.0, 0)


def test_what_is_no_number_is_rejected_and_inflates_nothing() -> None:
    assert decide(Gate(recover_after=1), float("nan"), 1, 5) == (False, 1.0, 0)


def test_innovation_shows_its_covariance() -> None:
    root = np.array([[2.0, 0.0], [1.0, 3.0]])
    np.testing.assert_allclose(Innovation(np.zeros(2), root, 0.0, True).covariance, [[4.0, 2.0], [2.0, 10.0]])
