"""Robots whose estimates can be smoothed offline."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from onboard_estimation.estimator import Estimator
from onboard_estimation.robots import Capability, Configuration


class Smoothed(Capability[Configuration]):
    """A robot with a smoother, for `evaluate --smooth`."""

    ability = "smoother (leave out --smooth: its filter is judged)"

    @abstractmethod
    def smoother(self, configuration: Configuration, name: str) -> Estimator[Any]:
        """As `estimator`, one that is a `Smoother` as well: it filters, and smooths what it has filtered.

        Raises
        ------
        UserError
            Not in this configuration.
        """
