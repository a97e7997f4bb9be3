"""Robots that learn from recordings what their equations leave out."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from onboard_estimation.base.atomic_file import new_folder, plain, to_json
from onboard_estimation.base.configuration import to_parameter_file
from onboard_estimation.base.measurement import Channel
from onboard_estimation.base.presentation import shown_alike, words
from onboard_estimation.contract.robot import Capability, Configuration
from onboard_estimation.pipeline.estimator import Estimator

if TYPE_CHECKING:  # nodes load robots, and nothing of the evaluation
    from onboard_estimation.contract.recorded import LoadedRecording

# What commands show of a robot's work, a training or a gait: figures, sentences and tables.


@dataclass(frozen=True)
class ReportTable:
    """A table of a report; the headings in `right` stand over numbers."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: tuple[str, ...] = ()


class ShownReport(Protocol):
    """The outcome of a robot's work."""

    def summary(self) -> dict[str, Any]:
        """All figures, units in the names, for JSON."""

    def sentences(self) -> list[str]:
        """What it is, what it comes from, and what the reader must know."""

    def tables(self) -> list[ReportTable]:
        """What was found."""


@dataclass(frozen=True, eq=False)
class Learned:
    """What was learned from recordings: the outcome of `identify`, `train` and `tune`.

    Attributes
    ----------
    report
        With tables for people.
    written
        Files and folders by what they are: `model`, `folder`, `config`, `picture`, `figures`, `file`.
    """

    report: ShownReport
    written: Mapping[str, Path]

    @property
    def sentences(self) -> list[str]:
        """What it is, what it comes from, and what the reader must know."""
        return self.report.sentences()

    def summary(self) -> dict[str, Any]:
        """What `--json` prints: all figures, units in the names, and where they were written."""
        return dict(plain({**self.report.summary(), **{name: str(path) for name, path in self.written.items()}}))

    def __repr__(self) -> str:
        return f"<{', '.join(map(str, self.written.values()))}: {' '.join(self.sentences)}>"


class TrainingReport(ShownReport, Protocol):
    """A trained model, as the command `train` shows it."""

    def save(self, path: Path) -> Sequence[Path]:
        """Write the model's file, and pictures, whose paths are given, beside it; UserError where it cannot be."""


class Trained(Capability[Configuration]):
    """A robot that `train` makes models for.

    Attributes
    ----------
    model_parameter
        Name of the parameter that names the file of a trained model, for `--model`.
    training_forms
        Forms of the models that `train` makes.
    learns_without_truth
        Recordings without ground truth teach it too.
    """

    ability = "model to train"
    model_parameter: str
    training_forms: tuple[str, ...]
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


# Robots whose physical coefficients can be identified from recordings.


LEAST_GAIN = 0.05
"""Of an error: what changes it by less is no reason to use it, nor not to."""


class Gain(NamedTuple):
    """Errors of one quantity on recordings that were not fitted, as configured and with what was found from others.

    Attributes
    ----------
    part, figure
        Of an evaluation's metrics, e.g. `joint_angles` and `rmse_deg`.
    before, after
        Of each recording; infinite where the filter broke down.
    ratio
        95 % interval of the mean ratio of after to before.
    """

    part: str
    figure: str
    before: tuple[float, ...]
    after: tuple[float, ...]
    ratio: tuple[float, float]

    @property
    def means(self) -> tuple[float, float]:
        """Of before and of after."""
        return sum(self.before) / len(self.before), sum(self.after) / len(self.after)

    @property
    def verdict(self) -> str:
        """`better`, `worse` or `no difference shown`."""
        before, after = self.means
        if self.ratio[1] < 1.0 and after < (1.0 - LEAST_GAIN) * before:
            return "better"
        return "worse" if self.ratio[0] > 1.0 and after > (1.0 + LEAST_GAIN) * before else "no difference shown"

    def sentence(self, where: str) -> str:
        """What became of it."""
        label, shown, unit = shown_alike(self.figure, self.means)
        before, after = (one if value < math.inf else "lost" for one, value in zip(shown, self.means, strict=True))
        smaller = sum(now < then for then, now in zip(self.before, self.after, strict=True))
        counted = f", less on {smaller}" if len(self.before) > 1 else ""
        found = f"{before} {unit} before, {after} with what was found, on {where}{counted}"
        return f"{words(self.part)}, {label}: {found}: {self.verdict}."


@dataclass(frozen=True, eq=False)
class IdentificationReport(ShownReport, ABC):
    """Identified coefficients, as the command `identify` shows them.

    Attributes
    ----------
    subject, picture
        What was identified, and the name of the picture's file.
    configuration
        With all that was found.
    recordings
        Names of those that it comes from.
    notes
        What the reader must know, a sentence each.
    gains
        What the robot's default estimator gains from it; empty where that could not be tried.
    halved
        It was fitted on the first half of one recording for that, and filtered the second.
    without
        The configuration found without each recording, by its name; of a single one, from its first half.
    """

    subject: ClassVar[str]
    picture: ClassVar[str]
    configuration: Any
    recordings: tuple[str, ...]
    simulated: bool
    notes: tuple[str, ...]
    gains: tuple[Gain, ...] = field(default=(), kw_only=True)
    halved: bool = field(default=False, kw_only=True)
    without: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    @abstractmethod
    def parameters(self) -> Mapping[str, float | list[float]]:
        """Identified parameters by dotted name, as `--set` takes them."""

    @abstractmethod
    def found(self) -> dict[str, Any]:
        """What was found, units in the names, for JSON."""

    @abstractmethod
    def draw(self, path: Path) -> None:
        """Measured and predicted motion as PNG."""

    @property
    def source(self) -> str:
        """`simulated` or `recorded`."""
        return "simulated" if self.simulated else "recorded"

    @property
    def origin(self) -> str:
        """What it was found from, for a title."""
        count = len(self.recordings)
        return f"{count} recording{'s' if count > 1 else ''}, {self.source} data"

    @property
    def helps(self) -> bool | None:
        """Whether the filter gains from it; None: neither that nor the contrary is shown."""
        found = {one.verdict for one in self.gains} - {"no difference shown"}
        return "better" in found if len(found) == 1 else None

    @property
    def opinion(self) -> str:
        """Whether to use it, in a sentence, and what that rests on."""
        if not self.gains:
            return "Whether the filter gains from it is not known: it could not be tried on what was left out."
        if self.helps:
            return f"Use it: the filter is better with it on {self._left_out}."
        if self.helps is False:
            return f"Do not use it: the filter is worse with it on {self._left_out}."
        if any(one.verdict == "better" for one in self.gains):
            return f"Better in one quantity and worse in another, on {self._left_out}: use it for the one alone."
        return f"No difference shown on {self._left_out}: the filter does as well with the configuration given."

    @property
    def _left_out(self) -> str:
        count = max(len(one.before) for one in self.gains)
        half = "the second half of one bag (fitted on its first)"
        return half if self.halved else f"{count} left-out bag{'s' if count > 1 else ''}"

    def gain_sentences(self) -> list[str]:
        """Whether to use it, and the errors of each quantity."""
        return [self.opinion, *(one.sentence(self._left_out) for one in self.gains)]

    def sentences(self) -> list[str]:
        """What the reader must know."""
        return [*self.gain_sentences(), *self.notes]

    def summary(self) -> dict[str, Any]:
        """All figures, for JSON."""
        gains = [{**one._asdict(), "verdict": one.verdict} for one in self.gains]
        return {**self.found(), "helps": self.helps, "left_out": gains, "notes": self.sentences()}

    def write(self, folder: Path) -> list[Path]:
        """Write a new folder with a parameter file, a picture and the figures; their paths, the parameter file first.

        Raises
        ------
        UserError
            As `new_folder`.
        """
        names = ", ".join(self.recordings).encode("ascii", "backslashreplace").decode()
        today = datetime.now(tz=timezone.utc).date().isoformat()
        header = f"# {self.subject} identified on {today} from {self.source} data: {names}\n"
        header += "".join(f"# {sentence}\n" for sentence in self.gain_sentences())
        files = "identified.yaml", self.picture, "identification.json"
        with new_folder(folder) as place:
            parameters, picture, figures = (place / name for name in files)
            parameters.write_text(header + to_parameter_file(self.configuration), encoding="utf-8")
            figures.write_text(to_json(self.summary()), encoding="utf-8")
            self.draw(picture)
        return [folder / name for name in files]


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


# Robots whose estimates can be smoothed offline.


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
