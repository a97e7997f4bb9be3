"""Which parameters of a filter have jumped: the likelihood of a jump of each group of them, without a filter for each.

The generalised likelihood ratio of Willsky and Jones, "A generalized likelihood ratio approach to the detection and
estimation of jumps in linear systems" (1976), a link at a time, its jump normal instead of unknown.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.filtering.moments import Seen


class Corrected(NamedTuple):
    """How a belief was: by what was `seen` of it, by `slopes` (k, n), as of a spread 1 / `share` times as large."""

    slopes: Matrix
    seen: Seen
    share: float = 1.0


class Jumps(NamedTuple):
    """What jumps of each link's parameters, a while ago, would have done to the belief.

    Attributes
    ----------
    effect
        (n, N, J) on the belief's error now, by each of a link's J parameters.
    information, score
        (N, J, J), (N, J) of the innovations since then on the sizes of the jumps.
    """

    effect: NDArray[np.float64]
    information: NDArray[np.float64]
    score: Matrix

    @classmethod
    def of(cls, places: NDArray[np.intp], n: int) -> Jumps:
        """That have just been, of parameters at places (N, J) of a state (n,)."""
        count, each = places.shape
        effect = np.zeros((n, count, each))
        effect[places, np.arange(count)[:, None], np.arange(each)] = 1.0
        return cls(effect, np.zeros((count, each, each)), np.zeros((count, each)))

    def after(self, transition: Matrix) -> Jumps:
        """A transition, as `inertial_kernels.transform` takes it, later."""
        rows, columns = transition[:, :2].astype(np.intp).T
        effect = self.effect.copy()
        effect[rows] += transition[:, 2, None, None] * self.effect[columns]
        return self._replace(effect=effect)

    def corrected(self, by: Corrected) -> Jumps:
        """After the belief was corrected."""
        whitener = np.sqrt(by.share) * by.seen.whitener
        expected = np.tensordot(whitener @ by.slopes, self.effect, 1)
        return Jumps(
            self.effect - np.tensordot((whitener @ by.seen.spread).T, expected, 1),
            self.information + np.einsum("mki,mkj->kij", expected, expected),
            self.score + np.tensordot(whitener @ by.seen.value, expected, 1),
        )

    def evidence(self, variances: Matrix) -> Vector:
        """(N,) log of the likelihood ratio of a jump of each link, with variances (N, J) beforehand, to none."""
        deviations = np.sqrt(variances)
        information = np.eye(variances.shape[1]) + deviations[:, :, None] * self.information * deviations[:, None, :]
        score = deviations * self.score
        sizes = np.linalg.solve(information, score[:, :, None])[:, :, 0]
        return np.asarray(0.5 * (score * sizes).sum(axis=1) - 0.5 * np.linalg.slogdet(information)[1])
