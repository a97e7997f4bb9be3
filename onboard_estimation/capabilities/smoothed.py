"""Robots whose estimates can be smoothed offline."""

from __future__ import annotations

from abc import abstractmethod

from onboard_estimation.measurement import Estimate
from onboard_estimation.robots import Capability, Configuration
from onboard_estimation.smoother import Smoother


class Smoothed(Capability[Configuration]):
    """A robot with a smoother, for `evaluate --smooth`."""

    ability = "smoother (leave out --smooth: its filter is judged)"

    @abstractmethod
    def smoother(self, configuration: Configuration, name: str, initial: Estimate | None) -> Smoother:
        """As `estimator`: it filters, and smooths what it has filtered.

        Raises
        ------
        UserError
            Not in this configuration.
        """
