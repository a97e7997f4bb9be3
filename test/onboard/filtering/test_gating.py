"""Gates by probability: thresholds from printed tables, shares of drawn innovations, the way back."""

from __future__ import annotations

import pytest

from onboard_estimation.filtering.gating import Gate, decide


@pytest.mark.parametrize(
    ("probability", "degrees", "threshold"), [(0.95, 1, 3.841), (0.95, 3, 7.815), (0.999, 10, 29.588)]
)
def test_threshold_is_that_of_the_printed_chi_square_tables(probability: float, degrees: int, threshold: float) -> None:
    assert Gate(probability).threshold(degrees) == pytest.approx(threshold, abs=5e-4)


@pytest.mark.parametrize("probability", [0.0, 1.001, float("nan")])
def test_probability_outside_zero_to_one_is_refused(probability: float) -> None:
    with pytest.raises(ValueError, match="gate probability must be in"):
        Gate(probability)


def test_recovers_after_so_many_rejections_in_a_row_only() -> None:
    gate, rejected, found = Gate(recover_after=3), 0, ""
    for fits in "--+------+":
        accepted, inflation, rejected = decide(gate, 1.0 if fits == "+" else 1e4, 1, rejected)
        assert accepted == (fits == "+")
        found += "r" if inflation > 1.0 else str(rejected)
    assert found == "12012r12r0"
    assert decide(gate, 1e4, 1, 10, may_recover=False) == (False, 1.0, 11), "other sensors confirm the state"
    assert decide(gate, 1e4, 1, 10).inflation > 1.0
    assert decide(Gate(recover_after=0), 1e4, 1, 1000).inflation == 1.0, "switched off"
