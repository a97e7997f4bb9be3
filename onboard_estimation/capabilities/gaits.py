"""Robots that move by gaits."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Protocol

from onboard_estimation.capabilities.trained import ShownReport
from onboard_estimation.robots import Capability, Configuration


class GaitReport(ShownReport, Protocol):
    """A gait, as the command `gait` shows it."""

    def write_picture(self, file: Path) -> None:
        """As a PNG file."""


class WithGaits(Capability[Configuration]):
    """A robot whose gaits can be shown and designed."""

    ability = "gaits"

    @abstractmethod
    def gait(
        self,
        configuration: Configuration,
        name: str,
        distance_m: float | None = None,
        turn_rad: float | None = None,
        period_s: float | None = None,
    ) -> GaitReport:
        """A gait and what a cycle of it does; designed where a distance, turn or period is given."""
