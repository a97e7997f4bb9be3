"""Random numbers that are part of a state: the same again from a kept one, and none twice."""

from __future__ import annotations

import numpy as np
import pytest

from onboard_estimation.filtering.particle_weights import Draws


def numbers(draws: Draws, size: int = 1000) -> np.ndarray:
    return draws.generator()[0].normal(size=size)


def test_a_kept_state_gives_the_same_numbers_again() -> None:
    """However many were drawn from it or after it in the meantime, and of whatever kind."""
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


def test_how_much_a_step_draws_changes_nothing_of_the_next() -> None:
    after = []
    for size in (0, 1, 12345):
        generator, following = Draws(3, 5).generator()
        generator.normal(size=size)
        after.append(numbers(following))
    np.testing.assert_array_equal(after[0], after[1])
    np.testing.assert_array_equal(after[0], after[2])


def test_generators_do_not_overlap() -> None:
    """Philox counts: blocks of four numbers from one place on. The places of neighbours are 2**192 blocks apart."""
    starts = []
    for count in (0, 1, 2, 1000, 2**64 - 1):
        counter = Draws(1, count).generator()[0].bit_generator.state["state"]["counter"]
        starts.append(sum(int(part) << (64 * place) for place, part in enumerate(counter)))
    assert starts == [count << 192 for count in (0, 1, 2, 1000, 2**64 - 1)]
    drawn = [Draws(1, count).generator()[0].integers(0, 2**63, size=5000) for count in range(20)]
    assert len(np.unique(drawn)) == 100_000


@pytest.mark.parametrize("other", [1, 2, 2**64, 2**128 - 1])
def test_other_keys_give_other_numbers(other: int) -> None:
    mine, theirs = numbers(Draws(0), 10_000), numbers(Draws(other), 10_000)
    assert abs(np.corrcoef(mine, theirs)[0, 1]) < 0.05
    assert not np.isin(mine, theirs).any()


def test_numbers_of_steps_are_independent_and_standard() -> None:
    """The first ten numbers of each of 20000 steps, as a particle filter draws them."""
    draws, rows = Draws(42), []
    for _ in range(20_000):
        generator, draws = draws.generator()
        rows.append(generator.normal(size=10))
    values = np.array(rows)
    assert draws.taken == 20_000
    np.testing.assert_allclose(values.mean(axis=0), 0.0, atol=0.03)
    np.testing.assert_allclose(np.cov(values.T), np.eye(10), atol=0.04)
    assert abs(np.mean(values[1:, 0] * values[:-1, 0])) < 0.03
