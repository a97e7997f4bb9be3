"""A hopper that is caught, carried, thrown, knocked, set down and dropped again, as it ships."""

from __future__ import annotations

import pytest

from benchmarks.hopper.hands import judged_hands


@pytest.mark.parametrize("seed", [7190, 7191, 7192])
def test_hands_are_no_hops_and_what_follows_is_known(seed: int) -> None:
    found = judged_hands("bounce", seed)
    assert found.seconds > 100.0
    assert found.apexes == 0
    assert found.covered > 0.97
    assert found.covered_after > 0.95
    assert found.rms_after_m < 0.3
