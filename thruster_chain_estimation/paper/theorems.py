"""Theorems 3 and 4 of the paper against numbers: where its conditions hold, and the observability matrix's rank."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import Matrix
from onboard_estimation.contract.reproduced import Item
from onboard_estimation.contract.trained import ReportTable
from thruster_chain_estimation.judging.information import ObservedChain, assumed_chain, blocks, packed
from thruster_chain_estimation.judging.observability import observability, theorem_conditions
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration

SEED, STATES = 0, 300
_NONE = 1e-9
"""Of a condition, or of a row of F: below, it is zero."""


class _Known(NamedTuple):
    """(K,) of K states: whether both conditions hold of all links, and no row of F is zero; ranks of both IMUs."""

    met: NDArray[np.bool_]
    turned: NDArray[np.bool_]
    paper: NDArray[np.int64]
    physical: NDArray[np.int64]


def theorem_items(configuration: ThrusterChainConfiguration) -> tuple[Item, Item]:
    """Theorem 3, whose proof overlooks a case, and Theorem 4."""
    assumed, n = assumed_chain(configuration, papers=True), configuration.chain.count
    masses, inertias = configuration.chain.masses, configuration.chain.inertias
    states = np.tile(assumed.design, (STATES, 1))
    rng = np.random.default_rng(SEED)
    states[:, : 2 * n] = rng.uniform(-np.pi, np.pi, (STATES, 2 * n))
    thrust = rng.uniform(0.2, 1.0, (STATES, n)) * (rng.uniform(size=(STATES, n)) < 0.8) * assumed.limit_n
    psi = configuration.chain.thruster_angles
    folded = packed(np.where(np.arange(n) % 2, 0.0, -psi), 0.0, masses, inertias)[None]
    everything = np.full((1, n), assumed.limit_n)
    drawn, special = (
        _known(replace(assumed.chain, physical=False), z, u, assumed.prior_stddev)
        for z, u in ((states, thrust), (folded, everything))
    )
    whole = 4 * n
    turning = theorem_conditions(assumed.chain, folded, everything).turning[0]
    headings = ("states", "number", "no row of F is zero", f"rank {whole}, IMUs of (32)", "IMUs on links, largest rank")

    def line(name: str, known: _Known, at: NDArray[np.bool_]) -> tuple[str, ...]:
        largest = str(known.physical[at].max()) if at.any() else ""
        return name, str(at.sum()), *(str(one[at].sum()) for one in (known.turned, known.paper == whole)), largest

    table = ReportTable(
        f"three links, {STATES} states with a fifth of the thrusters off, seed {SEED}; Lie derivatives of first order",
        headings,
        (
            line("both conditions hold of all links", drawn, drawn.met),
            line("a condition fails of some link", drawn, ~drawn.met),
            line("headings -psi_1, 0, -psi_3, all thrusters on", special, special.met),
        ),
        headings[1:],
    )
    sines = np.abs(np.sin(psi)).min()
    third = Item(
        "Theorem 3",
        "no row of F is zero where no sin(psi) is",
        "reproduced" if special.turned.all() else "not reproduced",
        f"at headings -psi_1, 0, -psi_3 a row of F has nothing above {turning.min():.1g}, though the smallest sin(psi) "
        f"is {sines:.2g} in size: the proof permutes the columns of K without the sine's indices, and for equal masses "
        f"K_22 is 0. So the rank of (45) is {whole - (turning < _NONE).sum()} there; that of the whole matrix is "
        f"{special.paper[0]}",
        (table,),
    )
    met, full = int(drawn.met.sum()), int((drawn.paper[drawn.met] == whole).sum())
    holds = met == full and bool((special.paper == whole).all())
    other = int((drawn.paper[~drawn.met] == whole).sum())
    fourth = Item(
        "Theorem 4",
        "where both conditions hold, all states are observable",
        "reproduced" if holds else "partly" if full else "not reproduced",
        f"rank {whole} in {full} of {met} states in which both hold, and where Theorem 3 fails; it is sufficient, not "
        f"necessary: also in {other} of {STATES - met} in which one fails. IMUs as they are on links leave the common "
        f"heading hidden: rank {drawn.physical.max()} at most",
    )
    return third, fourth


def _known(chain: ObservedChain, states: Matrix, thrust_n: Matrix, prior_stddev: Matrix) -> _Known:
    conditions = theorem_conditions(chain, states, thrust_n)
    ranks = (
        observability(replace(chain, physical=physical), states, thrust_n, prior_stddev, letters=1).rank
        for physical in (False, True)
    )
    at = blocks(chain.count)
    assert not prior_stddev[at.gain].any()  # the paper's 4N states
    met, turned = (np.asarray(one.all(axis=1)) for one in (conditions.met(_NONE), conditions.turning > _NONE))
    return _Known(met, turned, *ranks)
