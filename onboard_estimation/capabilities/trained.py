"""Robots that learn from recordings what their equations leave out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from onboard_estimation.capabilities.tables import ShownReport
from onboard_estimation.robots import Capability, Configuration

if TYPE_CHECKING:  # nodes load robots, and nothing of the evaluation
    from onboard_estimation.evaluation.recording import LoadedRecording


class TrainingReport(ShownReport, Protocol):
    """A trained model, as the command `train` shows it."""

    def save(self, path: Path) -> None:
        """Write the model's file; UserError where it cannot be written."""


class Trained(Capability[Configuration]):
    """A robot that `train` makes models for.

    Attributes
    ----------
    model_parameter
        Name of the parameter that names the file of a trained model, for `--model`.
    training_forms
        Forms of the models that `train` makes.
    training_scenario
        Scenario that the demonstration trains in.
    model_suffix
        Of the file of a trained model.
    learns_without_truth
        Recordings without ground truth teach it too.
    """

    ability = "model to train"
    model_parameter: str
    training_forms: tuple[str, ...]
    training_scenario: str
    model_suffix: str = ".npz"
    learns_without_truth: bool = False

    @abstractmethod
    def check_model(self, path: Path) -> None:
        """Raise UserError where a file is none of this robot's models: `train` replaces no other."""

    @abstractmethod
    def train(
        self,
        configuration: Configuration,
        recordings: Mapping[str, LoadedRecording],
        hashes: Sequence[str],
        form: str | None = None,
        progress: Callable[[float, str], None] = lambda share, step: None,
    ) -> TrainingReport:
        """A model of what this robot's equations leave out.

        Parameters
        ----------
        recordings
            By name; with ground truth, but for a robot that learns without.
        hashes
            SHA-256 of each recording's data.
        form
            One of `training_forms`; None: the robot's choice.
        progress
            Takes the share that is done and what is done next.

        Raises
        ------
        UserError
            These recordings do not do.
        """
