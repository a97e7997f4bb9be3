"""Robots of which it can be told what their sensors let a filter know, for the command `observability`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Vector
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.result import EvaluationResult, PanelGroup
from onboard_estimation.contract.robot import Capability, Configuration
from onboard_estimation.contract.trained import ShownReport


class Observed(NamedTuple):
    """What is known at one moment: named numbers, and a sentence."""

    names: tuple[str, ...]
    values: Vector
    words: str


@dataclass(frozen=True, eq=False)
class ReplayedRun:
    """A recording, replayed and judged.

    Attributes
    ----------
    name, variant
        Of the bag or run folder; of the simulated motion, empty where the bag does not say it.
    """

    name: str
    variant: str
    estimator: str
    recording: LoadedRecording
    result: EvaluationResult


class ObservabilityReport(ShownReport, Protocol):
    """What the sensors told in some runs."""

    def columns(self) -> list[tuple[str, Vector, PanelGroup]]:
        """Of a picture: heading, time (K,) in s, diagrams. UserError where they are more than a picture holds."""


class DesignReport(ShownReport, Protocol):
    """Inputs from which a filter would know most, as `observability --design` shows them."""

    def write(self, file: Path) -> None:
        """As a table (.csv) over time; UserError where it cannot be written."""


class Observable(Capability[Configuration]):
    """A robot whose observability can be followed over a run.

    Attributes
    ----------
    observability_title
        Of the picture.
    """

    ability = "analysis of its observability"
    observability_title: str

    @abstractmethod
    def observed(self, configuration: Configuration, run: ReplayedRun, window_s: float, joint: int | None) -> Any:
        """What the sensors tell over a run, as `observability_report` takes it.

        Parameters
        ----------
        window_s
            Of the Gramian.
        joint
            The only joint to look at, counted from one; None: all.

        Raises
        ------
        UserError
            The run does not do, or the robot has no such joint.
        """

    @abstractmethod
    def observability_report(self, observed: Sequence[Any]) -> ObservabilityReport:
        """Of several runs of the robot."""

    def designed_inputs(self, configuration: Configuration, estimator: str, duration_s: float) -> DesignReport:
        """Inputs of that duration, within the robot's limits, from which that estimator would know most.

        Raises
        ------
        UserError
            The duration does not do, or the robot has no inputs that are designed for it.
        """
        raise UserError(f"--design: no inputs of {self.name} are designed for observability")
