"""Observability matrix of a thruster chain from Lie derivatives, exact to rounding (section IV of the paper).

The dynamics are control-affine, x' = f0(x) + sum_i f_i(x) u_i. A word of fields g1, g2, ... stands for the Lie
derivative L_.. L_g2 L_g1 h, with one nilpotent symbol for each letter and one for the direction of its gradient. Fields
are f0 and u_i f_i of every thruster that is on; words up to two letters. The paper takes f_i alone, one letter, and
leaves parts of the gradients out (zeroed "conservatively"); here nothing is left out.

Scaled, so that numbers mean something: columns by the prior standard deviation of their state, rows by the noise of one
sample, and a word of k letters by T^k / k!, its share in the output after T. A singular value s then says: one prior
standard deviation along its direction moves the outputs by s standard deviations of noise. Below 1, one sample hardly
tells; zero, no number of them does.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import factorial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.measurement import Matrix, Vector
from salp_estimation.thruster_chain import chain_jets
from salp_estimation.thruster_chain.chain_jets import JetState
from salp_estimation.thruster_chain.jets import Array, Jet
from salp_estimation.thruster_chain.observed_chain import ObservedChain, blocks, quantities

HORIZON_S = 0.1
"""T of the scaling: the length of one pulse of the paper's square waves."""
LETTERS = 2
"""Longest words."""
_RANK_TOLERANCE = 1e-10
"""Of the largest singular value: rounding leaves about 1e-15 of it."""
_NULL_SHARE = 1e-3
"""A state with less of its unit vector among the unobservable directions is called observable."""
_MOST_NUMBERS = 4_000_000
"""In one array of a batch; instants beyond are taken in turns."""


@dataclass(frozen=True, eq=False)
class Observability:
    """The observability matrix at K instants.

    Attributes
    ----------
    rank
        (K,) numerical.
    states
        Names of the M states that were not known beforehand.
    singular_values
        (K, M) scaled, descending; where there are fewer rows than states the last are zero.
    unobservable
        K times what no output tells: single states, then what they share, such as the common heading.
    """

    rank: NDArray[np.int64]
    states: tuple[str, ...]
    singular_values: Matrix
    unobservable: tuple[tuple[str, ...], ...]

    @property
    def smallest(self) -> Vector:
        """(K,) smallest singular value."""
        smallest: Vector = self.singular_values[:, -1]
        return smallest

    @property
    def smallest_observable(self) -> Vector:
        """(K,) smallest singular value of what can be observed at all: the one that the rank counts last."""
        last = np.maximum(self.rank - 1, 0)
        found: Vector = np.take_along_axis(self.singular_values, last[:, None], axis=1)[:, 0]
        return found


def observability(
    chain: ObservedChain,
    states: ArrayLike,
    thrust_n: ArrayLike,
    prior_stddev: ArrayLike,
    letters: int = LETTERS,
    drift: bool = True,
    horizon_s: float = HORIZON_S,
) -> Observability:
    """Rank, singular values and unobservable states of the scaled observability matrix at K instants.

    Parameters
    ----------
    states
        (K, 5N + 2), see `observed_chain.Blocks`.
    thrust_n
        (K, N); thrusters at zero are off and give no field.
    prior_stddev
        (5N + 2,) of the states; zero: it is known, and has no column.
    letters, drift
        Longest words, and whether f0 is one of their letters; `letters=1, drift=False` are the paper's fields.
    """
    z, thrust = np.atleast_2d(np.asarray(states, float)), np.atleast_2d(np.asarray(thrust_n, float))
    stddev = np.asarray(prior_stddev, float)
    free = np.flatnonzero(stddev)
    names = tuple(quantities(chain.count)[column] for column in free)
    values, rank = np.zeros((len(z), len(free))), np.zeros(len(z), dtype=np.int64)
    unobservable: list[tuple[str, ...]] = [()] * len(z)
    for rows, on in _alike(thrust, len(free), letters):
        matrices = observability_matrices(chain, z[rows], thrust[rows], stddev, on, letters, drift, horizon_s)
        _, found, directions = np.linalg.svd(matrices, full_matrices=matrices.shape[1] < len(free))
        values[rows, : found.shape[1]] = found
        unseen = values[rows] <= _RANK_TOLERANCE * found[:, :1]
        rank[rows] = len(free) - unseen.sum(axis=1)
        for row, hidden, basis in zip(rows, unseen, directions, strict=True):
            unobservable[row] = _named(basis[hidden], z[row], stddev, names)
    return Observability(rank, names, values, tuple(unobservable))


def observability_matrices(
    chain: ObservedChain,
    states: Matrix,
    thrust: Matrix,
    prior_stddev: Vector,
    on: tuple[int, ...],
    letters: int = LETTERS,
    drift: bool = True,
    horizon_s: float = HORIZON_S,
) -> Array:
    """Scaled observability matrices (K, 3N words, M); parameters as for `observability`, thrusters `on` for all K."""
    fields = ([None] if drift else []) + list(on)
    free = np.flatnonzero(prior_stddev)
    start = _started(chain, states, prior_stddev, free)
    stacks = []
    for length in range(letters + 1):
        words = list(product(fields, repeat=length))
        if not words:
            continue
        at = start
        for letter in range(length):
            at = _flowed(chain, at, [word[letter] for word in words], thrust, symbol=1 + letter)
        read = chain_jets.readings(chain, at, thrust[:, None, None])
        gradient = read.parts.get((2 << length) - 1, np.zeros(1))
        gradient = np.broadcast_to(gradient, (len(states), len(words), len(free), 3 * chain.count))
        scaled = gradient.swapaxes(2, 3) / chain.noise[:, None] * (horizon_s**length / factorial(length))
        stacks.append(scaled.reshape(len(states), -1, len(free)))
    return np.concatenate(stacks, axis=1)


def _started(chain: ObservedChain, states: Matrix, stddev: Vector, free: NDArray[np.intp]) -> JetState:
    """The state (K, 1, 1, .) with symbol 0 times each scaled unit vector (1, 1, M, .)."""
    unit = np.zeros((len(free), states.shape[1]))
    unit[np.arange(len(free)), free] = stddev[free]
    return JetState(*(Jet({0: states[:, None, None, one], 1: unit[None, None, :, one]}) for one in blocks(chain.count)))


def _flowed(chain: ObservedChain, at: JetState, field: list[int | None], thrust: Matrix, symbol: int) -> JetState:
    """x + e_symbol g(x), with a field g for each word (along axis 1): f0 (None) or u_i f_i."""
    drift = np.array([float(one is None) for one in field])[:, None, None]
    pushed = np.array([[float(one == link) for link in range(chain.count)] for one in field])[:, None]
    theta, omega, velocity = chain_jets.slopes(chain, at, thrust[:, None, None] * pushed, drift)
    return JetState(
        at.theta + theta.times(symbol),
        at.omega + omega.times(symbol),
        at.velocity + velocity.times(symbol),
        at.mass,
        at.inertia,
        at.gain,
    )


def _alike(thrust: Matrix, columns: int, letters: int) -> list[tuple[NDArray[np.intp], tuple[int, ...]]]:
    """Instants with the same thrusters on, in batches that fit into memory."""
    out = []
    patterns, which = np.unique(thrust != 0.0, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        rows = np.flatnonzero(which.reshape(-1) == number)
        on = tuple(int(link) for link in np.flatnonzero(pattern))
        numbers = (len(on) + 1) ** letters * columns * 4 * thrust.shape[1] ** 2
        size = max(1, _MOST_NUMBERS // numbers)
        out += [(rows[start : start + size], on) for start in range(0, len(rows), size)]
    return out


def _named(hidden: Matrix, state: Vector, stddev: Vector, names: tuple[str, ...]) -> tuple[str, ...]:
    """What a basis (r, M) of unobservable directions hides."""
    if not len(hidden):
        return ()
    lost = hidden.T @ hidden
    alone = np.diag(lost) > 1.0 - _NULL_SHARE
    found = [name for name, is_alone in zip(names, alone, strict=True) if is_alone]
    lost = np.where(np.logical_or.outer(alone, alone), 0.0, lost)
    for name, unit in common_directions(state, stddev).items():
        if unit @ lost @ unit > 1.0 - _NULL_SHARE:
            found.append(name)
            lost = lost - np.outer(unit, unit)
    mixed = [name for name, share in zip(names, np.diag(lost), strict=True) if share > _NULL_SHARE]
    if mixed:
        count = round(float(np.trace(lost)))
        found.append(f"{'a combination' if count == 1 else f'{count} combinations'} of {', '.join(mixed)}")
    return tuple(found)


def common_directions(state: ArrayLike, prior_stddev: ArrayLike) -> dict[str, Vector]:
    """Directions (M,) that symmetries hide where they hold: all headings together, and blocks that grow by one factor.

    Scaled unit vectors of the states that are not known; directions that would move a known one are left out.
    """
    z, stddev = np.asarray(state, float), np.asarray(prior_stddev, float)
    at, free = blocks((len(z) - 2) // 5), np.flatnonzero(stddev)
    heading, bodies, thrust = np.zeros((3, len(z)))
    heading[at.theta] = 1.0
    vx, vy = z[at.velocity]
    heading[at.velocity] = np.where(stddev[at.velocity] > 0.0, [-vy, vx], 0.0)
    bodies[at.mass], bodies[at.inertia], thrust[at.gain] = z[at.mass], z[at.inertia], z[at.gain]
    directions = {
        "the common heading": heading,
        "the common scale of masses, inertias and thrust": bodies + thrust,
        "the common scale of masses and inertias": bodies,
    }
    out = {}
    for name, direction in directions.items():
        if (stddev[direction != 0.0] > 0.0).all():
            scaled = direction[free] / stddev[free]
            out[name] = scaled / np.linalg.norm(scaled)
    return out
