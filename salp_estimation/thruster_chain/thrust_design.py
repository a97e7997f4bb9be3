"""Pulse patterns that show a chain's masses and inertias best: a first observability-optimal input.

Time is cut into slots; in each, every thruster is on or off. Of all patterns with no more pulses than asked for, one is
searched that makes the parameter that is known worst at the end known best, by exchange: switch one pulse on or off,
or move it to another slot or thruster, as long as that helps. Each trial is a simulated run and the covariance that its
information leaves (`information.predict`): no filter, no random truth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.errors import UserError
from onboard_estimation.measurement import Matrix, Vector
from salp_estimation.thruster_chain.information import moved, predict
from salp_estimation.thruster_chain.observed_chain import ObservedChain, blocks

Pattern = NDArray[np.int64]
"""(slots, N) 1: on; 0: off; -1: reversed."""

_SHARE_OF_ALL = 0.1
"""Weight of the other parameters' mean in what is minimised: the worst one alone leaves long plateaus."""


@dataclass(frozen=True, eq=False)
class Task:
    """What is to be found out, and with what.

    Attributes
    ----------
    states
        (S, 5N + 2) states that the run may begin in; the worst is counted. One, the prior mean, is often enough.
    prior_stddev, noise_density
        (5N + 2,); the latter a random walk, per root second.
    limit_n
        Thrust of a pulse.
    slot_s, slots
        Length of a pulse, and how many slots the run has.
    rate_hz
        Samples a second of the IMUs.
    reversible
        Whether thrusters may push backwards.
    joint_travel_rad
        How far a joint may bend: patterns that bend one further are worth nothing. The model knows no end stops, and
        a chain that folds through itself would tell a lot.
    """

    chain: ObservedChain
    states: Matrix
    prior_stddev: Vector
    noise_density: Vector
    limit_n: float
    slot_s: float
    slots: int
    rate_hz: float
    reversible: bool = False
    joint_travel_rad: float = float("inf")

    def __post_init__(self) -> None:
        if not (self.limit_n > 0.0 and self.slot_s > 0.0 and self.slots > 0 and self.rate_hz * self.slot_s >= 1.0):
            raise UserError(
                f"a thrust of {self.limit_n:g} N in {self.slots} slots of {self.slot_s:g} s at {self.rate_hz:g} Hz: "
                "all must be above zero, with a sample in each slot at least"
            )

    def thrust(self, pattern: Pattern) -> tuple[Vector, Matrix]:
        """Time (K,) s and thrust (K, N), N, of a pattern, one instant after the last slot included."""
        samples = round(self.rate_hz * self.slot_s)
        held = np.vstack([np.repeat(pattern, samples, axis=0), np.zeros((1, pattern.shape[1]))])
        thrust = np.asarray(held * self.limit_n, dtype=np.float64)
        time = np.asarray(np.arange(len(thrust)) * (self.slot_s / samples), dtype=np.float64)
        return time, thrust

    def deviations(self, pattern: Pattern) -> Vector:
        """(2N,) predicted standard deviations of masses and inertias at the end, in shares of those before.

        Of the state where the worst share is largest; above 1 where a joint bends too far.
        """
        time, thrust = self.thrust(pattern)
        at = blocks(self.chain.count)
        parameters = np.arange(at.mass.start, at.inertia.stop)
        known = self.prior_stddev[parameters] == 0.0
        shares = []
        for state in self.states:
            path, _ = moved(self.chain, state, thrust, time)
            bent = float(np.abs(np.diff(path.states[:, at.theta], axis=1)).max(initial=0.0))
            if bent > self.joint_travel_rad:
                return np.full(len(parameters), bent / self.joint_travel_rad)
            left = predict(self.chain, path, self.prior_stddev, self.noise_density).stddev[-1, parameters]
            shares.append(left / np.where(known, 1.0, self.prior_stddev[parameters]))
        return max(shares, key=lambda one: float(one.max()))


@dataclass(frozen=True, eq=False)
class Design:
    """A pattern, its cost, what it leaves of each parameter's deviation (2N,), and how many patterns were tried."""

    pattern: Pattern
    cost: float
    shares: Vector
    tried: int


def cost(shares: Vector) -> float:
    """What a design minimises: logarithm of the largest share, and a little of all."""
    known = shares[shares > 0.0]
    return float(np.log(known.max()) + _SHARE_OF_ALL * np.log(known).mean())


def design(task: Task, starts: Sequence[ArrayLike], pulses: int, rng: np.random.Generator, most: int = 4000) -> Design:
    """The best pattern found from any of the starts.

    Parameters
    ----------
    starts
        Patterns (slots, N) to begin with, such as square waves.
    pulses
        How many pulses of all thrusters together a pattern may have.
    rng
        Order in which exchanges are tried.
    most
        Patterns tried at most, shared among the starts.

    Raises
    ------
    UserError
        A start of another shape, or with more pulses.
    """
    found = []
    for start in starts:
        pattern = np.array(start, dtype=np.int64)
        if pattern.shape != (task.slots, task.chain.count) or np.count_nonzero(pattern) > pulses:
            raise UserError(
                f"a pattern of {pattern.shape} with {np.count_nonzero(pattern)} pulses does not fit {task.slots} slots "
                f"of {task.chain.count} thrusters with {pulses} pulses at most"
            )
        found.append(_exchanged(task, pattern, pulses, rng, most // len(starts)))
    return min(found, key=lambda one: one.cost)


def _exchanged(task: Task, pattern: Pattern, pulses: int, rng: np.random.Generator, most: int) -> Design:
    """First improvement, until none is left or `most` patterns were tried."""
    best = task.deviations(pattern)
    lowest, tried, improved = cost(best), 1, True
    while improved and tried < most:
        improved = False
        for neighbour in _neighbours(pattern, pulses, task.reversible, rng):
            shares = task.deviations(neighbour)
            tried += 1
            if cost(shares) < lowest - 1e-6:
                pattern, best, lowest, improved = neighbour, shares, cost(shares), True
                break
            if tried >= most:
                break
    return Design(pattern, lowest, best, tried)


def _neighbours(pattern: Pattern, pulses: int, reversible: bool, rng: np.random.Generator) -> Iterator[Pattern]:
    """Patterns with one pulse switched, turned round, or moved, in random order."""
    on, off = np.argwhere(pattern != 0), np.argwhere(pattern == 0)
    levels = (1, -1) if reversible else (1,)
    changes: list[list[tuple[int, int, int]]] = [[(i, j, 0)] for i, j in on]
    if reversible:
        changes += [[(i, j, -int(pattern[i, j]))] for i, j in on]
    if len(on) < pulses:
        changes += [[(i, j, level)] for i, j in off for level in levels]
    changes += [[(i, j, 0), (k, m, level)] for i, j in on for k, m in off for level in levels]
    for number in rng.permutation(len(changes)):
        changed = pattern.copy()
        for i, j, level in changes[number]:
            changed[i, j] = level
        yield changed
