"""What a robot offers for smoothing offline: a filter that keeps what a backward pass needs."""

from __future__ import annotations

from abc import abstractmethod

from onboard_estimation.measurement import Estimate
from onboard_estimation.pipeline import Estimator


class Smoother(Estimator):
    """A robot's filter that can look back.

    It is fed as every estimator, by a `Pipeline`, which orders and counts the measurements; what it keeps of them is
    part of its snapshot, so that late measurements are smoothed in their place.
    """

    @abstractmethod
    def smoothed(self) -> list[Estimate]:
        """Estimates in order, each given all measurements of its interval, earlier and later ones.

        A new interval starts where the state was given anew: a reset, a pose that replaced the filter's.
        """
