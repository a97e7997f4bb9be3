"""Robots that take more from the ground truth than poses to compare with."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import Estimate, Matrix, Vector
from onboard_estimation.base.series import Series
from onboard_estimation.contract.robot import Capability, Configuration
from onboard_estimation.filtering.state_space import StateSpace

if TYPE_CHECKING:  # nodes load robots, and nothing of the evaluation
    from onboard_estimation.contract.tracks import BodyTrack


class StartedFromTruth(Capability[Configuration]):
    """A robot that is told where it starts; others find their initial state by themselves."""

    ability = "initial state that the truth could give"

    @abstractmethod
    def initial_covariance(self, configuration: Configuration) -> Matrix:
        """(n, n) covariance of an initial state taken from the truth."""

    def known_before(self, configuration: Configuration) -> dict[str, Vector]:
        """Blocks of the initial state that are known before a run, whatever the truth says: masses by the drawing.

        Their errors are what they really are; of blocks that the truth gives, an error is drawn.
        """
        return {}


class WithTrueRates(Capability[Configuration]):
    """A robot whose state has derivatives of the truth."""

    ability = "derivatives of the truth in its state"

    @abstractmethod
    def true_rates(
        self, configuration: Configuration, tracks: Mapping[str, BodyTrack], stamps_ns: NDArray[np.int64]
    ) -> dict[str, NDArray[np.float64]]:
        """Parts of the state that are derivatives of the truth, by name: (K, a), NaN where unknown.

        Parameters
        ----------
        tracks
            By body, whole: stamps and poses or positions.
        stamps_ns
            (K,) instants at which all bodies were seen.
        """


class WithLateTruth(Capability[Configuration]):
    """A robot whose sensors tell by how much motion capture is stamped late, independently of any estimate."""

    ability = "sensors that tell how late its truth is stamped"

    @abstractmethod
    def truth_lateness(
        self, configuration: Configuration, series: Sequence[Series], tracks: Mapping[str, BodyTrack]
    ) -> tuple[float, str]:
        """Seconds by which the tracks' stamps are late, and a sentence on it; 0 and no sentence where it is not known.

        The evaluation takes it off before it compares.
        """


def initial_state(space: StateSpace, parts: Mapping[str, Vector], covariance: Matrix, stamp_ns: int) -> Estimate:
    """Estimate whose named blocks are `parts` and all others zero."""
    mean = space.origin()
    for name, value in parts.items():
        mean[space.coordinates(name)] = value
    return Estimate(stamp_ns, mean, covariance)
