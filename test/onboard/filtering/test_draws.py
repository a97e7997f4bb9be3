"""Random numbers that are part of a state: the same again from a kept one, and none twice."""

from __future__ import annotations

import numpy as np

from onboard_estimation.filtering.particle_weights import Draws


def test_a_kept_state_gives_the_same_numbers_again() -> None:
    """However many were drawn from it or after it in the meantime, and of whatever kind; other keys give others."""
    kept = Draws(7)
    first, after = kept.generator()
    values = first.normal(size=100), first.integers(0, 2**62, size=100), first.permutation(50)
    second, _ = after.generator()
    second.normal(size=100_000)
    again, same = kept.generator()
    assert same == after == Draws(7, 1)
    np.testing.assert_array_equal(again.normal(size=100), values[0])
    np.testing.assert_array_equal(again.integers(0, 2**62, size=100), values[1])
    np.testing.assert_array_equal(again.permutation(50), values[2])
    of_others = [Draws(key).generator()[0].normal(size=10_000) for key in (1, 2**64, 2**128 - 1)]
    assert not np.isin(values[0], of_others).any()
