"""Jumps of a sensor's bias in the middle of a run, told by what they would do to the pins.

A jump of one bias adds its size times a known signature to the state's error from its onset on, and so to the pins'
innovations. For every bias the signature goes along with the filter, and the size that explains the innovations best
is a least-squares fit; it is the separate-bias filter (Friedland, 1969), and its likelihood the generalised likelihood
ratio (Willsky and Jones, "A generalized likelihood ratio approach to the detection and estimation of jumps in linear
systems", 1976). Where a jump is told, state and covariance become what they would be had the bias been free from the
onset on.

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


class JumpEvidence(NamedTuple):
    """Of all biases that might have jumped, those of `BIASES` of each link in turn, at one onset and at another.

    Attributes
    ----------
    signature
        (n, 6N) what a jump by one does to the state's error.
    information, fitted
        (6N,) of the size of each jump, and that times the size.
    ages
        Ticks since each onset.
    """

    signature: Matrix
    information: Vector
    fitted: Vector
    ages: tuple[int, int] = (0, 0)


class Jump(NamedTuple):
    """A jump that was told.

    Attributes
    ----------
    biases
        Those that it may be, the likeliest first: numbers in the order of `JumpEvidence`.
    size, stddev
        Of the likeliest.
    age
        Ticks since its onset, at most.
    """

    biases: tuple[int, ...]
    size: float
    stddev: float
    age: int


def nothing_jumped(size: int, count: int) -> JumpEvidence:
    """From now on, for a state of that size and a chain of `count` links."""
    places = parts.LINK * np.arange(count)[:, None] + np.array(BIASES)
    signature = np.zeros((size, 2 * places.size))
    signature[np.tile(places.ravel(), 2), np.arange(2 * places.size)] = 1.0
    return JumpEvidence(signature, np.zeros(2 * places.size), np.zeros(2 * places.size))


@njit(cache=True)
def carried(signature: NDArray[np.float64], transition: NDArray[np.float64]) -> NDArray[np.float64]:
    """Over a transition I + entries, (E, 3) rows of row, column and entry."""
    result = signature.copy()
    for e in range(transition.shape[0]):
        row, column, entry = int(transition[e, 0]), int(transition[e, 1]), transition[e, 2]
        for c in range(signature.shape[1]):
            result[row, c] += entry * signature[column, c]
    return result


def seen_more(evidence: JumpEvidence, slopes: Matrix, seen: Seen, share: float, used: bool) -> JumpEvidence:
    """With what the pins showed, `slopes` (m, n) of the state, as of a spread 1 / `share` times as large."""
    told = seen.whitener @ (slopes @ evidence.signature)
    signature = evidence.signature
    if used:
        signature = signature - (seen.whitener @ seen.spread).T @ told
    information = evidence.information + share * np.sum(told**2, axis=0)
    fitted = evidence.fitted + share * (seen.whitened @ told)
    first, second = evidence.ages
    return JumpEvidence(signature, information, fitted, (first + 1, second + 1))


def log_odds(evidence: JumpEvidence) -> Vector:
    """(6N,) logs of the likelihoods' ratios, sizes drawn from `JUMP`."""
    spread = np.tile(JUMP**2, len(evidence.fitted) // len(JUMP))
    odds: Vector = 0.5 * evidence.fitted**2 / (evidence.information + 1.0 / spread)
    return odds - 0.5 * np.log1p(evidence.information * spread)


def judged(evidence: JumpEvidence, mean: Vector, covariance: Matrix) -> tuple[Jump | None, Vector, Matrix]:
    """What jumped, if anything did; mean (n,) and covariance (n, n) as they are then."""
    odds = log_odds(evidence)
    if odds.max() < EVIDENCE:
        return None, mean, covariance
    weights = np.exp(odds - odds.max())
    weights /= weights.sum()
    variance = 1.0 / (evidence.information + 1.0 / np.tile(JUMP**2, len(odds) // len(JUMP)))
    size = variance * evidence.fitted
    sizes = np.diag(weights * (variance + size**2)) - np.outer(weights * size, weights * size)
    by, half = evidence.signature, len(odds) // 2
    # The onset is a guess, and what the filter has made of the jump before it is not in the fit: the bias stays open.
    places = parts.LINK * np.arange(half // len(BIASES))[:, None] + np.array(BIASES)
    opened = np.zeros(len(mean))
    np.add.at(opened, np.tile(places.ravel(), 2), weights * size**2)
    order = np.argsort(-weights)
    likely = dict.fromkeys(int(one) % half for one in order if weights[one] > LIKELY)
    age = evidence.ages[order[0] // half]
    jump = Jump(tuple(likely), float(size[order[0]]), float(np.sqrt(variance[order[0]])), age)
    return jump, mean + by @ (weights * size), covariance + by @ sizes @ by.T + np.diag(opened)


def begun_anew(evidence: JumpEvidence) -> JumpEvidence:
    """With later onsets where it is time."""
    if all(age < restart for age, restart in zip(evidence.ages, RESTART, strict=True)):
        return evidence
    half = len(evidence.fitted) // 2
    anew = nothing_jumped(len(evidence.signature), half // len(BIASES))
    signature, information, fitted = (one.copy() for one in evidence[:3])
    ages = list(evidence.ages)
    for onset, restart in enumerate(RESTART):
        if ages[onset] >= restart:
            columns = slice(onset * half, (onset + 1) * half)
            signature[:, columns], information[columns], fitted[columns] = anew.signature[:, columns], 0.0, 0.0
            ages[onset] = 0
    return JumpEvidence(signature, information, fitted, (ages[0], ages[1]))
