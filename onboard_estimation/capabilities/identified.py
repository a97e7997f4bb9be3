"""Robots whose physical coefficients can be identified from recordings."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from onboard_estimation.capabilities.tables import ShownReport
from onboard_estimation.measurement import Channel
from onboard_estimation.robots import Capability, Configuration

if TYPE_CHECKING:  # nodes load robots, and nothing of the evaluation
    from onboard_estimation.evaluation.recording import LoadedRecording


class IdentificationReport(ShownReport, Protocol):
    """Identified coefficients, as the command `identify` shows them."""

    def parameters(self) -> Mapping[str, float | list[float]]:
        """Identified parameters by dotted name, as `--set` takes them."""

    def write(self, folder: Path) -> list[Path]:
        """Write a parameter file, a picture and the figures; their paths, the parameter file first."""


class Identified(Capability[Configuration]):
    """A robot with coefficients that `identify` finds."""

    ability = "coefficients to identify"

    @abstractmethod
    def identify(
        self,
        configuration: Configuration,
        recordings: Mapping[str, LoadedRecording],
        full: bool = False,
        cutoff_hz: float | None = None,
        progress: Callable[[str], None] = lambda step: None,
    ) -> IdentificationReport:
        """Physical coefficients from recordings with ground truth, by name.

        Parameters
        ----------
        recordings
            By name.
        full, cutoff_hz
            As the command's `--full` and `--cutoff`.
        progress
            Takes what is done next.

        Raises
        ------
        UserError
            What cannot be identified, with the numbers and what would help.
        """

    def identification_channels(self, configuration: Configuration) -> tuple[Channel, ...]:
        """Topics that `identify` makes use of beside those of the estimators; each may be absent from a bag."""
        return ()
