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
from onboard_estimation.filtering.moments import Seen
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

    def after(self, transition: Matrix) -> Jumps:
        """A transition, as `inertial_kernels.transform` takes it, later."""
        return self._replace(effect=_carried(self.effect, transition))

    def turned(self, directions: Matrix, means: Matrix) -> Jumps:
        """After a transition I + directions^T means, both (k, n)."""
        return self._replace(effect=self.effect + np.tensordot(directions.T, np.tensordot(means, self.effect, 1), 1))

    def corrected(self, by: Corrected, used: bool = True) -> Jumps:
        """After the belief was corrected, or, where that was not `used`, what would have corrected it was seen."""
        whitener = np.sqrt(by.share) * by.seen.whitener
        expected = np.tensordot(whitener @ by.slopes, self.effect, 1)
        effect = self.effect - np.tensordot((whitener @ by.seen.spread).T, expected, 1) if used else self.effect
        information = self.information + np.einsum("mki,mkj->kij", expected, expected)
        score = self.score + np.tensordot(whitener @ by.seen.value, expected, 1)
        return Jumps(effect, information, score, self.age + 1)

    def evidence(self, variances: Matrix) -> Vector:
        """(G,) log of the likelihood ratio of a jump of each group, with variances (G, J) beforehand, to none."""
        deviations = np.sqrt(variances)
        information = np.eye(variances.shape[1]) + deviations[:, :, None] * self.information * deviations[:, None, :]
        score = deviations * self.score
        sizes = np.linalg.solve(information, score[:, :, None])[:, :, 0]
        return np.asarray(0.5 * (score * sizes).sum(axis=1) - 0.5 * np.linalg.slogdet(information)[1])


@njit(cache=True)
def _carried(effect: NDArray[np.float64], transition: NDArray[np.float64]) -> NDArray[np.float64]:
    """Over a transition I + entries, (E, 3) rows of row, column and entry."""
    result = effect.copy()
    for e in range(transition.shape[0]):
        row, column, entry = int(transition[e, 0]), int(transition[e, 1]), transition[e, 2]
        result[row] += entry * effect[column]
    return result


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


Onsets = tuple[Jumps, ...]
"""Jumps of every bias, those of `BIASES` of each link in turn, at an onset each of `RESTART`."""


def no_bias_jumped(size: int, count: int) -> Onsets:
    """From now on, for a state of that size and a chain of `count` links."""
    return (Jumps.of(_places(count)[:, None], size),) * len(RESTART)


def _places(count: int) -> NDArray[np.intp]:
    return (parts.LINK * np.arange(count)[:, None] + np.array(BIASES)).ravel()


def judged(onsets: Onsets, mean: Vector, covariance: Matrix) -> tuple[BiasJump | None, Vector, Matrix]:
    """What bias has jumped, if any has; mean (n,) and covariance (n, n) as they are then."""
    count = len(onsets[0].score) // len(BIASES)
    variances = np.tile(JUMP**2, count)
    odds = np.concatenate([one.evidence(variances[:, None]) for one in onsets])
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
    return tuple(one if one.age < restart else now for one, restart, now in zip(onsets, RESTART, anew, strict=True))
