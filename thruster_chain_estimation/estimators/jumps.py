"""Jumps in the middle of a run, told by what they would do to the innovations: no filter for each is needed.

A jump of some dimensions of a state adds its size times a known effect to the state's error from its onset on, and so
to the innovations. For every group of dimensions that may jump the effect goes along with the filter, and the size that
explains the innovations best is a least-squares fit: the separate-bias filter (Friedland, 1969), and its likelihood the
generalised likelihood ratio (Willsky and Jones, "A generalized likelihood ratio approach to the detection and
estimation of jumps in linear systems", 1976), the jump normal instead of unknown. The parameter filter looks for jumps
of each link's masses, the navigation for those of each bias. Where one of a bias is told, state and covariance become
what they would be had the bias been free from the onset on.

False alarms: the evidence is the ratio of the likelihoods with and without a jump, its size drawn from `JUMP`. Without
any it is a martingale with the mean one, so that it ever exceeds exp(`EVIDENCE`) with a probability of exp(-`EVIDENCE`)
(Ville's inequality): of 9 biases that are looked for anew every half second and every 3 s, 0.06 times an hour.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.filtering.moments import Seen, spread_by
from thruster_chain_estimation.estimators.inertial_kernels import unobservable
from thruster_chain_estimation.model import inertial_layout as parts

BIASES = (parts.GYRO_BIAS, parts.BIAS_X, parts.BIAS_Y)
NAMES = ("gyro", "accelerometer along x", "accelerometer along y")
UNITS = ("rad/s", "m/s^2", "m/s^2")
JUMP = np.array([0.05, 0.3, 0.3])
"""Deviation of a jump: rad/s, m/s^2; a few times what sensors of the class have at switch-on."""
EVIDENCE = 14.0
RESTART = (50, 300)
"""Ticks after which a jump is looked for from a later onset on: what shows at once, and what takes some pushes."""
LIKELY = 0.05
"""Share of the evidence from which on a bias may be the one."""


class Corrected(NamedTuple):
    """How a belief was: by what was `seen` of it, by `slopes` (k, n), as of a spread 1 / `share` times as large."""

    slopes: Matrix
    seen: Seen
    share: float = 1.0


class Jumps(NamedTuple):
    """What jumps of each of G groups of J dimensions, a while ago, would have done to a belief.

    Attributes
    ----------
    effect
        (n, G, J) on the belief's error now, by each dimension of each group.
    information, score
        (G, J, J), (G, J) of the innovations since then on the sizes of the jumps.
    age
        Innovations since then.
    """

    effect: NDArray[np.float64]
    information: NDArray[np.float64]
    score: Matrix
    age: int = 0

    @classmethod
    def of(cls, places: NDArray[np.intp], n: int) -> Jumps:
        """That have just been, of the dimensions at places (G, J) of a state (n,)."""
        groups, each = places.shape
        effect = np.zeros((n, groups, each))
        effect[places, np.arange(groups)[:, None], np.arange(each)] = 1.0
        return cls(effect, np.zeros((groups, each, each)), np.zeros((groups, each)))


@njit(cache=True)
def carried(jumps: Jumps, transition: Matrix) -> Jumps:
    """A transition, as `inertial_kernels.transform` takes it, later."""
    before = jumps.effect.reshape(len(jumps.effect), -1)
    effect = before.copy()
    for e in range(len(transition)):
        target, source, entry = effect[int(transition[e, 0])], before[int(transition[e, 1])], transition[e, 2]
        for k in range(len(source)):
            target[k] += entry * source[k]
    return Jumps(effect.reshape(jumps.effect.shape), jumps.information, jumps.score, jumps.age)


@njit(cache=True)
def seen_past(
    onsets: Onsets, transition: Matrix, by: Corrected, over: tuple[Vector, Vector], tight: NDArray[np.bool_], used: bool
) -> Onsets:
    """After a tick whose pins showed something; `over`: what the covariance was carried over by before and after."""
    return _past(onsets[0], transition, by, over, tight, used), _past(onsets[1], transition, by, over, tight, used)


@njit(cache=True)
def _past(
    jumps: Jumps, transition: Matrix, by: Corrected, over: tuple[Vector, Vector], tight: NDArray[np.bool_], used: bool
) -> Jumps:
    jumps = carried(jumps, transition)
    if not used:
        return corrected(jumps, by, False)
    directions, means = unobservable(over[0], tight)
    jumps = corrected(turned(jumps, directions, means), by, True)
    directions, means = unobservable(over[1], tight)
    return turned(jumps, directions, means)


@njit(cache=True)
def turned(jumps: Jumps, directions: Matrix, means: Matrix) -> Jumps:
    """After a transition I + directions^T means, both (k, n)."""
    flat = jumps.effect.reshape(len(jumps.effect), -1)
    effect = flat + directions.T @ spread_by(means, flat)
    return Jumps(effect.reshape(jumps.effect.shape), jumps.information, jumps.score, jumps.age)


@njit(cache=True)
def corrected(jumps: Jumps, by: Corrected, used: bool = True) -> Jumps:
    """After the belief was corrected, or, where that was not `used`, what would have corrected it was seen."""
    n, groups, each = jumps.effect.shape
    flat, whitener = jumps.effect.reshape(n, groups * each), np.sqrt(by.share) * by.seen.whitener
    expected = whitener @ spread_by(by.slopes, flat)
    if used:
        flat = flat - (whitener @ by.seen.spread).T @ expected
    score = jumps.score + (whitener @ by.seen.value @ expected).reshape(groups, each)
    information = jumps.information.copy()
    for group in range(groups):
        own = np.ascontiguousarray(expected[:, group * each : (group + 1) * each])
        information[group] += own.T @ own
    return Jumps(flat.reshape(n, groups, each), information, score, jumps.age + 1)


@njit(cache=True)
def evidence(jumps: Jumps, variances: Matrix) -> Vector:
    """(G,) log of the likelihood ratio of a jump of each group, with variances (G, J) beforehand, to none."""
    groups, each = jumps.score.shape
    found = np.zeros(groups)
    for group in range(groups):
        deviations = np.sqrt(variances[group])
        information = np.eye(each) + np.outer(deviations, deviations) * jumps.information[group]
        score = deviations * jumps.score[group]
        for i in range(each):  # information = L D L^T
            found[group] += 0.5 * score[i] ** 2 / information[i, i] - 0.5 * np.log(information[i, i])
            for k in range(i + 1, each):
                factor = information[k, i] / information[i, i]
                score[k] -= factor * score[i]
                information[k] -= factor * information[i]
    return found


Onsets = tuple[Jumps, Jumps]
"""Jumps of every bias, those of `BIASES` of each link in turn, at an onset each of `RESTART`."""


class BiasJump(NamedTuple):
    """A jump that was told.

    Attributes
    ----------
    biases
        Those that it may be, the likeliest first: those of `BIASES` of each link in turn.
    size
        Of the likeliest.
    """

    biases: tuple[int, ...]
    size: float


def no_bias_jumped(size: int, count: int) -> Onsets:
    """From now on, for a state of that size and a chain of `count` links."""
    fresh = Jumps.of(_places(count)[:, None], size)
    return fresh, fresh


def _places(count: int) -> NDArray[np.intp]:
    return (parts.LINK * np.arange(count)[:, None] + np.array(BIASES)).ravel()


def judged(onsets: Onsets, mean: Vector, covariance: Matrix) -> tuple[BiasJump | None, Vector, Matrix]:
    """What bias has jumped, if any has; mean (n,) and covariance (n, n) as they are then."""
    count = len(onsets[0].score) // len(BIASES)
    variances = np.tile(JUMP**2, count)
    odds = np.concatenate((evidence(onsets[0], variances[:, None]), evidence(onsets[1], variances[:, None])))
    if odds.max() < EVIDENCE:
        return None, mean, covariance
    weights = np.exp(odds - odds.max())
    weights /= weights.sum()
    variance = 1.0 / np.concatenate([one.information[:, 0, 0] + 1.0 / variances for one in onsets])
    size = variance * np.concatenate([one.score[:, 0] for one in onsets])
    sizes = np.diag(weights * (variance + size**2)) - np.outer(weights * size, weights * size)
    by = np.concatenate([one.effect[:, :, 0] for one in onsets], axis=1)
    # The onset is a guess, and what the filter has made of the jump before it is not in the fit: the bias stays open.
    opened = np.zeros(len(mean))
    np.add.at(opened, np.tile(_places(count), len(onsets)), weights * size**2)
    order = np.argsort(-weights)
    likely = dict.fromkeys(int(one) % len(variances) for one in order if weights[one] > LIKELY)
    jump = BiasJump(tuple(likely), float(size[order[0]]))
    return jump, mean + by @ (weights * size), covariance + by @ sizes @ by.T + np.diag(opened)


def begun_anew(onsets: Onsets) -> Onsets:
    """With later onsets where it is time."""
    if all(one.age < restart for one, restart in zip(onsets, RESTART, strict=True)):
        return onsets
    anew = no_bias_jumped(len(onsets[0].effect), len(onsets[0].score) // len(BIASES))
    (soon, late), (now, _) = onsets, anew
    return soon if soon.age < RESTART[0] else now, late if late.age < RESTART[1] else now
