"""Observability of a thruster chain by Lie derivatives, against Cauchy's formula.

The oracle's way to derivatives is another: flows and outputs at complex arguments on circles, whose Fourier
coefficients are the mixed derivatives to rounding.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from observed_chains import PAPER_ANGLES, drawn_state, paper_chain, paper_prior, paper_state
from thruster_chains import drawn_links, read, slope

from thruster_chain_estimation.judging.information import ObservedChain, given_and_motion, packed
from thruster_chain_estimation.judging.observability import (
    HORIZON_S,
    observability,
    observability_matrices,
    theorem_conditions,
)

Array = np.ndarray


def cauchy(chain: ObservedChain, z: Array, thrust: Array, word: tuple[int | None, ...], direction: Array) -> Array:
    """d/de L_word h (x + e direction) at 0, from a torus of complex numbers for e and the letters."""
    count, points, radius = chain.count, 8, 2e-2

    def field(letter: int | None, at: Array) -> Array:
        without = slope(chain.links, at, np.zeros(count))
        return without if letter is None else slope(chain.links, at, thrust * (np.arange(count) == letter)) - without

    circle = radius * np.exp(2j * np.pi * np.arange(points) / points)
    symbols = np.array(list(product(circle, repeat=len(word) + 1))).T
    at = z[:, None] + symbols[0] * direction[:, None]
    for letter, symbol in zip(word, symbols[1:], strict=True):
        at[: 2 * count] += symbol * field(letter, at)
    outputs = read(chain.physical, chain.links, *given_and_motion(at, thrust[:, None]))
    return np.mean(outputs / np.prod(symbols, axis=0), axis=1).real


@pytest.mark.parametrize("physical", [False, True])
def test_matrix_is_that_of_mixed_lie_derivatives_along_drift_and_thrusts(physical: bool) -> None:
    count = 2
    chain = ObservedChain(drawn_links(count, 7), physical=physical)
    z, thrust = drawn_state(count, 8), np.array([0.7, -0.4])
    stddev, horizon = packed(np.full(count, 0.3), 0.2, 0.05, 3e-4, 0.04), HORIZON_S
    on = (0, 1)
    matrix = observability_matrices(chain, z[None], thrust[None], stddev, on)[0]
    blocks_of_rows = matrix.reshape(-1, 3 * count, len(stddev))
    words = [word for length in range(3) for word in product((None, *on), repeat=length)]
    assert len(blocks_of_rows) == len(words) == 13
    for number in (0, 1, 3, 4, 6, 8, 11):
        word = words[number]
        scale = horizon ** len(word) / (2.0 if len(word) == 2 else 1.0) / chain.noise
        for column in (1, 2, 4, 6, 9):
            exact = scale * cauchy(chain, z, thrust, word, stddev[column] * np.eye(len(stddev))[column])
            np.testing.assert_allclose(
                blocks_of_rows[number, :, column], exact, rtol=1e-8, atol=1e-9 * np.abs(blocks_of_rows[number]).max()
            )


@pytest.mark.parametrize("seed", [None, 1])
def test_all_states_are_observable_to_the_papers_imus_and_the_heading_is_not_to_real_ones(seed: int | None) -> None:
    state = paper_state(seed)
    for letters in (1, 2):
        by_paper = observability(paper_chain(), state, np.ones(3), paper_prior(), letters)
        assert by_paper.rank == 12
        assert by_paper.unobservable == ((),)
        assert by_paper.singular_values[:, -1] > 1.0
        physical = observability(paper_chain(True), state, np.ones(3), paper_prior(), letters)
        assert physical.rank == 11
        assert physical.unobservable == (("the common heading",),)
        assert physical.singular_values[:, -1] < 1e-9 < physical.smallest_observable


def test_scale_of_thrust_that_is_not_known_hides_that_of_masses_and_inertias() -> None:
    found = observability(paper_chain(True), paper_state(1), np.ones(3), paper_prior(gain=0.05))
    assert found.rank == 13
    assert found.unobservable == (("the common heading", "the common scale of masses, inertias and thrust"),)
    off = observability(paper_chain(True), paper_state(1), np.zeros(3), paper_prior())
    assert off.unobservable == (("the common heading", "the common scale of masses and inertias"),)


def test_thruster_along_its_link_leaves_an_inertia_unknown_where_no_other_turns_the_link() -> None:
    both = observability(paper_chain(angles=(np.pi / 2, np.pi / 3)), paper_state(count=2), np.ones(2), paper_prior(2))
    assert both.rank == 8
    # Straight chain, all thrust along it: nothing turns.
    along = observability(paper_chain(angles=(0.0, np.pi)), paper_state(count=2), np.ones(2), paper_prior(2))
    assert set(along.unobservable[0]) == {"j1", "j2"}
    # One thruster is enough for both.
    one = observability(paper_chain(angles=(0.0, np.pi / 3)), paper_state(count=2), np.ones(2), paper_prior(2))
    assert one.rank == 8


def test_thruster_that_is_off_hides_its_links_mass_from_the_papers_model_only() -> None:
    thrust = np.array([1.0, 0.0, 1.0])
    by_paper = observability(paper_chain(), paper_state(), thrust, paper_prior(), letters=0)
    physical = observability(paper_chain(True), paper_state(), thrust, paper_prior(), letters=1)
    assert {"m2", "theta2"} <= set(by_paper.unobservable[0])
    assert physical.unobservable == (("the common heading",),)


def test_proof_of_theorem_3_fails_where_models_says_and_the_rank_does_not() -> None:
    """K_22 = 0 for equal masses: at theta = (-psi_1, 0, -psi_3) row 2 of F is zero while both conditions hold."""
    chain = paper_chain()
    state = packed([-PAPER_ANGLES[0], 0.0, -PAPER_ANGLES[2]], 0.0, 0.5, 2.6e-3)
    found = theorem_conditions(chain, state, np.ones(3))
    assert found.met().all()
    assert found.turning[0, 1] < 1e-15 < 0.1 < found.turning[0, [0, 2]].min()
    assert theorem_conditions(chain, paper_state(), np.ones(3)).turning.min() > 0.1
    # Parts of the gradients that the proof leaves out tell j2 all the same.
    assert observability(chain, state, np.ones(3), paper_prior(), letters=1).rank == 12
