"""What a robot must bring along, and how robots are found.

A robot is an object that an entry point of the group `onboard_estimation.robots` names, so that a laboratory adds its
own from its own package:

    entry_points={"onboard_estimation.robots": ["crawler = crawler_estimation.robot:ROBOT"]}

`Robot` has a default for all that can be left out: the least a robot brings is a configuration, the channels it
listens to, an estimator, and which parts of its state the ground truth tells.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.description import Shapes
from onboard_estimation.errors import UserError
from onboard_estimation.estimator import Estimator
from onboard_estimation.filtering.state_space import StateSpace
from onboard_estimation.measurement import (
    NANOSECONDS_PER_SECOND,
    Channel,
    Estimate,
    Matrix,
    Measurement,
    Vector,
    neutral_value,
)
from onboard_estimation.pipeline import Pipeline

if TYPE_CHECKING:  # nodes load robots, and nothing of the evaluation
    from onboard_estimation.evaluation.result import EvaluationResult

GROUP = "onboard_estimation.robots"
Alignment = Literal["none", "heading"]


@dataclass(frozen=True)
class TruthSpecification:
    """What motion capture tells of a robot.

    Attributes
    ----------
    bodies
        Names of the bodies: topics `ground_truth/<body>/pose` or, without orientation, `ground_truth/<body>/position`.
    alignment
        `none`: estimate and truth share the world frame, and the truth gives the initial state. `heading`: the estimate
        starts at its own origin; before comparison it is moved and turned about the vertical onto the truth.
    covariances
        Noise covariance (d, d) of the parts derived from the truth, per part. Parts that are not named are taken as
        exact.
    """

    bodies: tuple[str, ...]
    alignment: Alignment = "none"
    covariances: Mapping[str, Matrix] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Series:
    """Messages of one topic as numbers: stamps (K,) int64 ns and values (K, d) as the channel's type sets them."""

    channel: Channel
    stamps_ns: NDArray[np.int64]
    values: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Recording:
    """What a simulator gives: all that a bag of the robot would hold.

    Attributes
    ----------
    sensors
        Sensor and command topics.
    truth
        Ground truth topics: pose (7) or position (3) channels.
    """

    sensors: tuple[Series, ...]
    truth: tuple[Series, ...]


class Simulation(Protocol):
    """A simulated robot that goes on and on."""

    def advance(self, stop_ns: int) -> Recording:
        """What it would record from where it stands up to a stamp, which is left out; starts at stamp zero."""


@dataclass(frozen=True)
class Scenario:
    """A simulated situation.

    Attributes
    ----------
    summary
        One line for the help.
    variants
        Values of `--gait` or whatever the robot calls them; the first is the default.
    """

    summary: str
    variants: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Panel:
    """One diagram over time.

    Attributes
    ----------
    label, unit
        Of the vertical axis; the unit as computed (`rad`, `m/s`): it is shown in degrees, centimetres and so on.
    lines
        (K,) float64 in `unit` by name, NaN where unknown.
    band
        (K,) half-width of a band about zero, such as three standard deviations; None: no band.
    """

    label: str
    unit: str
    lines: Mapping[str, Vector]
    band: Vector | None = None


@dataclass(frozen=True, eq=False)
class PanelGroup:
    """Diagrams that belong together, one below the other."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, eq=False)
class ReportSection:
    """What a robot adds to the report of a run.

    Attributes
    ----------
    sentences
        What was found and what the diagrams mean, in order.
    time_s
        (K,) seconds since the first estimate, for all panels.
    """

    title: str
    sentences: tuple[str, ...]
    time_s: Vector
    groups: tuple[PanelGroup, ...]


class IdentificationReport(Protocol):
    """Identified coefficients, as the command `identify` shows them."""

    @property
    def title(self) -> str:
        """What was identified from what."""

    @property
    def condition(self) -> float:
        """Condition number of the regressor."""

    @property
    def coefficients(self) -> tuple[Any, ...]:
        """Each with name, value, low, high (95 %), unit, ratio, configured, poor, held."""

    @property
    def validations(self) -> tuple[Any, ...]:
        """One of each recording: name, and signals with name, unit, rms, rms_before, explained."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader must know, one sentence each."""

    def parameters(self) -> dict[str, list[float]]:
        """Identified parameters by dotted name."""

    def summary(self) -> dict[str, Any]:
        """All figures, for JSON."""

    def write(self, folder: Path) -> list[Path]:
        """Write a parameter file, a picture and the figures; their paths, the parameter file first."""


class GaitReport(Protocol):
    """A gait, as the command `gait` shows it."""

    def figures(self) -> dict[str, Any]:
        """All numbers, units in the names."""

    def sentences(self) -> list[str]:
        """What it is and where it leads."""

    def tables(self) -> list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
        """Title, headings and rows of each."""

    def write_picture(self, file: Path) -> None:
        """As a PNG file."""


@dataclass(frozen=True)
class Note:
    """What the reader of a judged run must know.

    Attributes
    ----------
    sentence
        With its full stop.
    verdict
        A few words for the verdict; empty: it does not touch the verdict.
    """

    sentence: str
    verdict: str = ""


@dataclass(frozen=True)
class TrainingTable:
    """A table of a training report; the headings in `right` stand over numbers."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: tuple[str, ...] = ()


class TrainingReport(Protocol):
    """A trained model, as the command `train` shows it."""

    def summary(self) -> dict[str, Any]:
        """All figures, units in the names."""

    def sentences(self) -> list[str]:
        """What it was trained with, and what the reader must know."""

    def tables(self) -> list[TrainingTable]:
        """What was found."""

    def save(self, path: Path) -> None:
        """Write the model's file; UserError where it cannot be written."""


class Robot(ABC):
    """A robot that can be estimated.

    Attributes
    ----------
    name
        As users type it; the entry point must have the same name.
    summary
        One line for the help.
    settle_s
        Start of a run that is left out of the metrics, while the filter settles, seconds.
    recovery_s
        Within what time after bad data ended its errors are again within a few of the standard deviations that it
        states, seconds; infinite: it states none.
    configuration_type
        Dataclass of its parameters, see `onboard_estimation.configuration`.
    configuration_file
        Default parameter file among the resources, e.g. `config/salp.yaml`; None: the dataclass's defaults.
    estimators
        Names of its estimators; the first is the default.
    scenarios
        What it can simulate, by name; the first is the default.
    run_time_parameters
        Dotted names of parameters, or of whole sections, that may change while an estimator runs.
    model_parameter
        Name of the parameter that names the file of a trained model, for `--model`; None: there is none.
    training_forms
        Forms of the models that `train` makes.
    training_scenario
        Scenario that the demonstration trains in; None: it trains nothing.
    model_suffix
        Of the file of a trained model.
    """

    name: str
    summary: str
    settle_s: float = 0.0
    recovery_s: float = math.inf
    configuration_type: type
    configuration_file: str | None = None
    estimators: tuple[str, ...] = ("default",)
    scenarios: Mapping[str, Scenario] = {}
    run_time_parameters: tuple[str, ...] = ()
    model_parameter: str | None = None
    training_forms: tuple[str, ...] = ()
    training_scenario: str | None = None
    model_suffix: str = ".npz"

    @abstractmethod
    def channels(self, configuration: Any) -> tuple[Channel, ...]:
        """Topics that the estimators listen to."""

    def listened_channels(self, configuration: Any, estimator: str) -> tuple[Channel, ...]:
        """The topics of `channels` that one of its estimators makes use of, live: by default all."""
        return self.channels(configuration)

    @abstractmethod
    def estimator(self, configuration: Any, name: str) -> Estimator[Any]:
        """One of its estimators."""

    def smoother(self, configuration: Any, name: str) -> Estimator[Any]:
        """The same for `evaluate --smooth`: an estimator that is a `Smoother` as well.

        Raises
        ------
        UserError
            This robot has no smoother, or not in this configuration.
        """
        raise UserError(f"--smooth: robot {self.name!r} has no smoother; judge its filter instead, without --smooth")

    @abstractmethod
    def truth_specification(self, configuration: Any) -> TruthSpecification:
        """What motion capture tells of it."""

    @abstractmethod
    def true_parts(
        self, configuration: Any, bodies: Mapping[str, NDArray[np.float64]]
    ) -> dict[str, NDArray[np.float64]]:
        """Parts of the state by name, (K, a) each, from the bodies' poses (K, 7) or positions (K, 3) at K instants."""

    def true_rates(
        self, configuration: Any, tracks: Mapping[str, Any], stamps_ns: NDArray[np.int64]
    ) -> dict[str, NDArray[np.float64]]:
        """Parts of the state that are derivatives of the truth, by name: (K, a), NaN where unknown. By default none.

        Parameters
        ----------
        tracks
            `BodyTrack` of the evaluation by body, whole: stamps and poses or positions.
        stamps_ns
            (K,) instants at which all bodies were seen.
        """
        return {}

    def initial_covariance(self, configuration: Any) -> Matrix | None:
        """(n, n) covariance of an initial state taken from the truth; None where the robot finds its own."""
        return None

    def outline(self, configuration: Any, space: StateSpace, means: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Polyline (K, P, 2) in metres that draws the robot from above at the states (K, a).

        By default a point at the position; None, and no drawing, where the state has none.
        """
        position = planar_position(space)
        return None if position is None else means[:, None, position]

    def simulate(
        self, configuration: Any, scenario: str, variant: str, duration_s: float, rng: np.random.Generator
    ) -> Recording:
        """A simulated recording of that scenario, starting at time zero."""
        simulation = self.simulation(configuration, scenario, variant, rng)
        return simulation.advance(round(duration_s * NANOSECONDS_PER_SECOND) + 1)

    def body_poses(
        self, configuration: Any, space: StateSpace, means: NDArray[np.float64]
    ) -> dict[str, NDArray[np.float64]]:
        """Poses (K, 7) of its bodies, in the order of their tf frames, at the states (K, a): position, quaternion xyzw.

        By default none: the base is the whole robot.
        """
        return {}

    def body_shapes(self, configuration: Any) -> Shapes:
        """Solids of its bodies, for markers and URDF; by default none, and it is drawn as its outline."""
        return {}

    def urdf(self, configuration: Any) -> str | None:
        """URDF for `robot_state_publisher`; None where it has none."""
        return None

    def simulation(
        self, configuration: Any, scenario: str, variant: str, rng: np.random.Generator, imu_rate_hz: float = 0.0
    ) -> Simulation:
        """The same piece by piece, without an end, for a live robot; another rate of the IMUs where one is given."""
        raise UserError(f"robot {self.name!r} has no simulator")

    def gait(
        self,
        configuration: Any,
        name: str,
        distance_m: float | None = None,
        turn_rad: float | None = None,
        period_s: float | None = None,
    ) -> GaitReport:
        """A gait and what a cycle of it does; designed where a distance, turn or period is given."""
        raise UserError(f"robot {self.name!r} has no gaits")

    def report_sections(
        self, configuration: Any, series: Sequence[Series], result: EvaluationResult
    ) -> tuple[ReportSection, ...]:
        """What the report of an evaluation shows of this kind of robot alone; by default nothing.

        Parameters
        ----------
        series
            What was measured and commanded, one of each sensor, as it was replayed.
        result
            The judged run: estimates, errors and truth by part.
        """
        return ()

    def presented(self, configuration: Any, series: Sequence[Series], result: EvaluationResult) -> EvaluationResult:
        """The result with what the report of this kind of robot begins with: key figures, drawing, phases.

        By default as it is. Parameters are those of `report_sections`.
        """
        return result

    def metrics(self, configuration: Any, series: Sequence[Series], result: EvaluationResult) -> dict[str, Any]:
        """Figures of this kind of robot alone, for `metrics.json` under the robot's name; by default none.

        Numbers, or mappings of them, by names with their units. Parameters are those of `report_sections`; the notes
        and sections come after, and find these figures in `result.metrics`.
        """
        return {}

    def stretches(self, configuration: Any, result: EvaluationResult) -> dict[str, NDArray[np.bool_]]:
        """Stretches of a run whose consistency is judged each on its own, such as phases; by default none.

        Returns
        -------
        (K,) where each is, by words that stand behind a quantity's name in a sentence: `while dropping`.
        """
        return {}

    def notes(self, configuration: Any, series: Sequence[Series], result: EvaluationResult) -> tuple[Note, ...]:
        """What the reader of an evaluation must know of this kind of robot alone; by default nothing.

        Parameters are those of `report_sections`.
        """
        return ()

    def check_model(self, path: Path) -> None:
        """Raise UserError where a file is none of this robot's models: `train` replaces no other."""
        from onboard_estimation.learning import model_file  # nodes without a model do without

        model_file.load(path)

    def train(
        self,
        configuration: Any,
        recordings: Mapping[str, Any],
        hashes: Sequence[str],
        form: str | None = None,
        exact: bool = False,
        progress: Callable[[float, str], None] = lambda share, step: None,
    ) -> TrainingReport:
        """A model of what this robot's equations leave out.

        Parameters
        ----------
        recordings
            With ground truth, by name (`LoadedRecording` of the evaluation).
        hashes
            SHA-256 of each recording's data.
        form
            One of `training_forms`; None: the robot's choice.
        exact
            Exact Gaussian processes in the place of faster ones.
        progress
            Takes the share that is done and what is done next.

        Raises
        ------
        UserError
            This robot learns nothing, or these recordings do not do.
        """
        raise UserError(f"robot {self.name!r} has no model to train")

    def identification_channels(self, configuration: Any) -> tuple[Channel, ...]:
        """Topics that `identify` makes use of beside those of the estimators; each may be absent from a bag."""
        return ()

    def identify(
        self, configuration: Any, recordings: Mapping[str, Any], full: bool = False, cutoff_hz: float | None = None
    ) -> IdentificationReport:
        """Physical coefficients from recordings with ground truth, by name (`LoadedRecording` of the evaluation)."""
        raise UserError(f"robot {self.name!r} has no coefficients to identify")

    def exercise(self, configuration: Any, estimator: str) -> None:
        """Run an estimator once over every kind of measurement, so that all its kernels are compiled.

        By default on neutral values, a few of each channel.
        """
        pipeline = Pipeline(self.estimator(configuration, estimator), self.channels(configuration))
        for step in range(3):
            for channel in self.channels(configuration):
                pipeline.process(Measurement((step + 1) * 10_000_000, channel.sensor, neutral_value(channel)))


def planar_position(space: StateSpace) -> slice | None:
    """Where x and y stand in a state's coordinates: in a block `pose` or `position`; None where there is neither."""
    for block in space.blocks:
        if block.name in ("pose", "position") and block.units[:2] == ("m", "m"):
            start = space.coordinates(block.name).start
            return slice(start, start + 2)
    return None


@cache
def _found() -> dict[str, Any]:
    return {point.name: point for point in entry_points(group=GROUP)}


def robot_names() -> list[str]:
    """Names of all robots that installed packages offer."""
    return sorted(_found())


def find_robot(name: str) -> Robot:
    """The robot of that name.

    Raises
    ------
    UserError
        No package offers it, or its entry point is broken.
    """
    points = _found()
    if name not in points:
        raise UserError(f"no robot {name!r}; installed are: {', '.join(robot_names()) or 'none'}")
    try:
        robot = points[name].load()
    except (ImportError, AttributeError) as error:
        raise UserError(f"robot {name!r} cannot be loaded from {points[name].value!r}: {error}") from error
    if not isinstance(robot, Robot):
        raise UserError(f"entry point {points[name].value!r} of robot {name!r} is no Robot but {type(robot).__name__}")
    return robot


def all_robots() -> Iterator[Robot]:
    """All robots that load; a broken one of another package must not hide the rest."""
    for name in robot_names():
        try:
            yield find_robot(name)
        except UserError:
            continue


def estimator_name(robot: Robot, asked: str | None) -> str:
    """The estimator asked for, else the robot's first; UserError where it has no such estimator."""
    name = asked or robot.estimators[0]
    if name not in robot.estimators:
        raise UserError(f"{robot.name} has no estimator {name!r}; it has {', '.join(robot.estimators)}")
    return name


def initial_state(space: StateSpace, parts: Mapping[str, Vector], covariance: Matrix, stamp_ns: int) -> Estimate:
    """Estimate whose named blocks are `parts` and all others zero."""
    mean = space.origin()
    for name, value in parts.items():
        mean[space.coordinates(name)] = value
    return Estimate(stamp_ns, mean, covariance)
