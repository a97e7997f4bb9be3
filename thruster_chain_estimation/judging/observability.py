"""Observability matrix of a thruster chain from Lie derivatives, exact to rounding (section IV of the paper).

The dynamics are control-affine, x' = f0(x) + sum_i f_i(x) u_i. A word of fields g1, g2, ... stands for the Lie
derivative L_.. L_g2 L_g1 h, with one nilpotent symbol for each letter and one for the direction of its gradient. Fields
are f0 and u_i f_i of every thruster that is on; words up to two letters. The paper takes f_i alone, one letter, and
leaves parts of the gradients out (zeroed "conservatively"); here nothing is left out. `dynamics` runs on the nilpotent
numbers as it stands: a `Jet` a + b e_1 + c e_2 + d e_1 e_2 + ... carries a value and all mixed derivatives in which
every symbol e_k, e_k^2 = 0, appears at most once. f(x + e v) = f(x) + e f'(x) v holds exactly, and x + e f(x) is the
flow of f as far as e can tell. No step, no cancellation.

Scaled, so that numbers mean something: columns by the prior standard deviation of their state, rows by the noise of one
sample, and a word of k letters by T^k / k!, its share in the output after T. A singular value s then says: one prior
standard deviation along its direction moves the outputs by s standard deviations of noise. Below 1, one sample hardly
tells; zero, no number of them does.

Theorem 4: with u_i sin(psi_i) and u_i + cos(theta_i + psi_i) f_x,i + sin(theta_i + psi_i) f_y,i other than zero for
every link, all states are locally observable to IMUs of the `paper` model. Its proof needs that no row of
F_ij = K_ij sin(theta_i - theta_j - psi_j), equation (53), is zero, and gets there (Theorem 3) by permuting the columns
of K without the sine's indices. That step fails: with N = 3 and equal masses K_22 = 0, and at
theta = (-psi_1, 0, -psi_3) row 2 of F is zero while both conditions hold. So F is given beside them, and what decides
is the rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import cycle, product
from math import factorial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.base.measurement import Estimate, Matrix, Vector
from onboard_estimation.contract.observed import Observed
from thruster_chain_estimation.judging.information import (
    AssumedChain,
    ObservedChain,
    blocks,
    forecast,
    given_and_motion,
    quantities,
)
from thruster_chain_estimation.model import dynamics

HORIZON_S = 0.1
"""T of the scaling: the length of one pulse of the paper's square waves."""
LETTERS = 2
"""Longest words."""
_MOST_SYMBOLS = LETTERS + 1
_RANK_TOLERANCE = 1e-10
"""Of the largest singular value: rounding leaves about 1e-15 of it."""
_NULL_SHARE = 1e-3
"""A state with less of its unit vector among the unobservable directions is called observable."""
_MOST_NUMBERS = 4_000_000
"""In one array of a batch; instants beyond are taken in turns."""


class Jet:
    """A number by products of symbols: part `mask` belongs to the product of the e_k whose bit k is set; 0: its value.

    Parts are arrays of many such numbers, and may have different shapes that broadcast against each other: what does
    not depend on a direction needs no axis of directions. Absent parts are zero.
    """

    __slots__ = ("parts",)
    __array_ufunc__ = None  # so that array * jet asks the jet

    def __init__(self, parts: Mapping[int, Matrix]) -> None:
        self.parts = dict(parts)

    def __add__(self, other: Jet | Matrix | float) -> Jet:
        parts = dict(self.parts)
        for mask, part in _parts(other).items():
            parts[mask] = parts[mask] + part if mask in parts else part
        return Jet(parts)

    __radd__ = __add__

    def __neg__(self) -> Jet:
        return Jet({mask: -part for mask, part in self.parts.items()})

    def __sub__(self, other: Jet | Matrix | float) -> Jet:
        return self + (-other)

    def __rsub__(self, other: Matrix | float) -> Jet:
        return -self + other

    def __mul__(self, other: Jet | Matrix | float) -> Jet:
        parts: dict[int, Matrix] = {}
        for mask, part in self.parts.items():
            for their_mask, their_part in _parts(other).items():
                if not mask & their_mask:
                    both = mask | their_mask
                    parts[both] = parts[both] + part * their_part if both in parts else part * their_part
        return Jet(parts)

    __rmul__ = __mul__

    def __truediv__(self, other: Jet) -> Jet:
        return self * (1.0 / other)

    def __rtruediv__(self, other: float) -> Jet:
        reciprocal = 1.0 / self.parts[0]
        return self._series(
            other * (-1.0) ** k * factorial(k) * reciprocal ** (k + 1) for k in range(_MOST_SYMBOLS + 1)
        )

    def sine_cosine(self) -> tuple[Jet, Jet]:
        sine, cosine = np.sin(self.parts[0]), np.cos(self.parts[0])
        return self._series(cycle((sine, cosine, -sine, -cosine))), self._series(cycle((cosine, -sine, -cosine, sine)))

    def _series(self, derivatives: Iterable[Matrix]) -> Jet:
        """Taylor's, of a function with these derivatives at the value: it ends, as powers of the nilpotent part do."""
        nilpotent = Jet({mask: part for mask, part in self.parts.items() if mask})
        total, power = Jet({}), Jet({0: np.ones(1)})
        for order, derivative in enumerate(derivatives):
            total, power = total + power * (derivative / factorial(order)), power * nilpotent
            if not power.parts:
                break
        return total

    def times(self, symbol: int) -> Jet:
        """The jet times e_symbol."""
        bit = 1 << symbol
        return Jet({mask | bit: part for mask, part in self.parts.items() if not mask & bit})


def _parts(number: Jet | Matrix | float) -> Mapping[int, Matrix]:
    return number.parts if isinstance(number, Jet) else {0: np.asarray(number)}


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
) -> Observability:
    """Rank, singular values and unobservable states of the scaled observability matrix at K instants.

    Parameters
    ----------
    states
        (K, 5N), see `information.Blocks`.
    thrust_n
        (K, N); thrusters at zero are off and give no field.
    prior_stddev
        (5N,) of the states; zero: it is known, and has no column.
    letters
        Longest words.
    """
    z, thrust = np.atleast_2d(np.asarray(states, float)), np.atleast_2d(np.asarray(thrust_n, float))
    stddev = np.asarray(prior_stddev, float)
    free = np.flatnonzero(stddev)
    names = tuple(quantities(chain.count)[column] for column in free)
    values, rank = np.zeros((len(z), len(free))), np.zeros(len(z), dtype=np.int64)
    unobservable: list[tuple[str, ...]] = [()] * len(z)
    for rows, on in _alike(thrust, len(free), letters):
        matrices = observability_matrices(chain, z[rows], thrust[rows], stddev, on, letters)
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
) -> Matrix:
    """Scaled observability matrices (K, 3N words, M); parameters as for `observability`, thrusters `on` for all K."""
    free = np.flatnonzero(prior_stddev)
    start = _started(states, prior_stddev, free)
    stacks = []
    for length in range(letters + 1):
        words = list(product((None, *on), repeat=length))
        at = start
        for letter in range(length):
            at = _flowed(chain, at, [word[letter] for word in words], thrust, symbol=1 + letter)
        shape = len(states), len(words), len(free)
        read = [one.parts.get((2 << length) - 1, np.zeros(1)) for one in _readings(chain, at, thrust)]
        gradient = np.stack([np.broadcast_to(one, shape) for one in read], axis=2)
        scaled = gradient / chain.noise[:, None] * (HORIZON_S**length / factorial(length))
        stacks.append(scaled.reshape(len(states), -1, len(free)))
    return np.concatenate(stacks, axis=1)


Jets = NDArray[np.object_]
"""Parts have the shapes (K or 1, words or 1, M or 1)."""


def _started(states: Matrix, stddev: Vector, free: NDArray[np.intp]) -> Jets:
    """The states as Jets (5N, 1), with symbol 0 times each scaled unit vector."""
    unit = stddev[:, None] * (np.arange(len(stddev))[:, None] == free)
    start = np.empty((len(stddev), 1), dtype=object)
    for row in range(len(stddev)):
        start[row, 0] = Jet({0: states[:, row, None, None]} | ({1: unit[row]} if unit[row].any() else {}))
    return start


def _flowed(chain: ObservedChain, at: Jets, field: list[int | None], thrust: Matrix, symbol: int) -> Jets:
    """x + e_symbol g(x), with a field g for each word: f0 (None), or u_i f_i, which is what the thrust adds to f0."""
    pushed = np.array([[one == link for one in field] for link in range(chain.count)])[:, None, :, None]
    by_link = thrust.T[:, :, None, None]
    drifting, slopes = _slopes(chain, at, 0.0 * by_link), _slopes(chain, at, by_link * pushed)
    taken_off = np.array([float(one is not None) for one in field])[:, None]
    after = at.copy()
    for row, (slope, drift) in enumerate(zip(slopes, drifting, strict=True)):
        after[row, 0] = at[row, 0] + (slope - drift * taken_off).times(symbol)
    return after


def _loaded(at: Jets, thrust: Matrix) -> tuple[Jets, Jets]:
    """The scratch of `dynamics`, from states (5N, 1) and thrust, N arrays."""
    count = len(thrust)
    pushed = np.empty((count, 1), dtype=object)
    for link in range(count):
        pushed[link, 0] = thrust[link]
    blocks_of, whole = np.zeros((count + 2) * dynamics.LINK, dtype=object), np.zeros(dynamics.WHOLE, dtype=object)
    given, motion = given_and_motion(at, pushed)
    dynamics.load_given(count, given, 0, 1, blocks_of, whole)
    dynamics.load_motion(count, motion, 0, 1, blocks_of)
    return blocks_of, whole


def _slopes(chain: ObservedChain, at: Jets, thrust: Matrix) -> list[Jet]:
    """Derivatives of headings and rates (2N)."""
    of_links, whole = _loaded(at, thrust)
    dynamics.push_links(chain.links, True, 1, of_links, whole)
    dynamics.move_links(chain.count, 1, of_links)
    turning = of_links[dynamics.LINK + dynamics.TURN : -dynamics.LINK : dynamics.LINK]
    return [*at[chain.count : 2 * chain.count, 0], *turning]


def _readings(chain: ObservedChain, at: Jets, thrust: Matrix) -> list[Jet]:
    """What the IMUs read (3N), link by link: acceleration along x, y, turning rate."""
    of_links, whole = _loaded(at, thrust.T[:, :, None, None])
    dynamics.read_links(chain.physical, chain.links, 1, of_links, whole)
    ends = dynamics.LINK * np.arange(1, chain.count + 1)
    return [of_links[end + row] for end in ends for row in (dynamics.AX, dynamics.AY, dynamics.RATE)]


def _alike(thrust: Matrix, columns: int, letters: int) -> list[tuple[NDArray[np.intp], tuple[int, ...]]]:
    """Instants with the same thrusters on, in batches that fit into memory."""
    out = []
    patterns, which = np.unique(thrust != 0.0, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        rows = np.flatnonzero(which.reshape(-1) == number)
        on = tuple(int(link) for link in np.flatnonzero(pattern))
        numbers = (len(on) + 1) ** letters * columns * 40
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
    at, free = blocks(len(z) // 5), np.flatnonzero(stddev)
    heading, bodies, thrust = np.zeros((3, len(z)))
    heading[at.theta] = 1.0
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


class Conditions(NamedTuple):
    """At K instants, per link; zero is where a condition fails.

    Attributes
    ----------
    normal_n
        (K, N) thrust across the link, u sin(psi), N.
    net_n
        (K, N) all external forces along the thrust's direction, thrust included, N.
    turning
        (K, N) largest element of the link's row of F over the thrusters that are on: how much thrust can turn it.
    """

    normal_n: Matrix
    net_n: Matrix
    turning: Matrix

    def met(self, least_n: float = 0.0) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """(K, N) whether both conditions hold by more than `least_n`."""
        return (np.abs(self.normal_n) > least_n) & (np.abs(self.net_n) > least_n)


def theorem_conditions(chain: ObservedChain, states: ArrayLike, thrust_n: ArrayLike) -> Conditions:
    """From states (K, 5N) and commanded thrust (K, N)."""
    z, command = np.atleast_2d(np.asarray(states, float)), np.atleast_2d(np.asarray(thrust_n, float))
    at, links = blocks(chain.count), chain.links
    thrust = command * z[:, at.gain]
    psi = np.arctan2(links[:, dynamics.THRUST_Y], links[:, dynamics.THRUST_X])
    direction = z[:, at.theta] + psi
    centred = links.copy()
    centred[:, [dynamics.IMU_X, dynamics.IMU_Y]] = 0.0
    given, motion = given_and_motion(z.T, command.T)
    pushed = np.empty((3 * chain.count, len(z)))  # the paper's IMUs read external forces by mass
    dynamics.read_imus(False, centred, given, motion, pushed)
    net = z[:, at.mass] * (np.cos(direction) * pushed[::3].T + np.sin(direction) * pushed[1::3].T)
    between = z[:, at.theta][:, :, None] - direction[:, None, :]
    rows = np.abs(_k(z[:, at.mass]) * np.sin(between)) * (thrust != 0.0)[:, None, :]
    return Conditions(thrust * np.sin(psi), net, rows.max(axis=2))


def _k(mass: Matrix) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """K = A^T (D M D^T)^-1 D of equation (8), times M, (K, N, N): dimensionless."""
    count = mass.shape[1]
    added, differenced = np.eye(count - 1, count) + np.eye(count - 1, count, 1), np.eye(count - 1, count)
    differenced = differenced - np.eye(count - 1, count, 1)
    weighted = differenced / mass[:, None, :]
    return added.T @ np.linalg.solve(weighted @ differenced.T, weighted)


def observed_now(assumed: AssumedChain, link_names: tuple[str, ...], estimate: Estimate, thrust_n: Vector) -> Observed:
    """From what an estimator tells and the thrust (N,) that is commanded.

    Named are `normal_n.<link>` and `net_n.<link>`, the two sides of Theorem 4, N; `turning.<link>`, its row of F;
    `rank`, of `states`; `smallest`, the smallest scaled singular value of what can be observed. In words, which push
    would tell most, and what no output tells at this instant.
    """
    state, whole = assumed.from_published(estimate.mean, estimate.covariance)
    thrust = assumed.started(thrust_n)
    conditions = theorem_conditions(assumed.chain, state, thrust)
    seen = observability(assumed.chain, state, thrust, assumed.prior_stddev, letters=1)
    words = str(forecast(assumed, state, whole))
    if seen.unobservable[0]:
        words += f"; nothing tells at this moment: {', '.join(seen.unobservable[0])}"
    names = tuple(f"{side}.{link}" for side in conditions._fields for link in link_names)
    told = [seen.rank[0], len(seen.states), seen.smallest_observable[0]]
    values = np.concatenate([*(side[0] for side in conditions), told])
    return Observed((*names, "rank", "states", "smallest"), values, words)
