"""What every robot brings along, and how robots are found.

A robot is an object that an entry point of the group `onboard_estimation.robots` names, so that a laboratory adds its
own from its own package:

    entry_points={"onboard_estimation.robots": ["crawler = crawler_estimation.robot:ROBOT"]}

The least it brings is here: a configuration, the channels it listens to, an estimator, and which parts of its state the
ground truth tells. What only some robots can do (simulate, learn, be drawn, ...) are classes of
this room, which a robot is derived from.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.installed import load, offered
from onboard_estimation.base.measurement import Channel, Matrix, Measurement, neutral_value
from onboard_estimation.base.series import SET_POSE
from onboard_estimation.pipeline.estimator import Estimator
from onboard_estimation.pipeline.pipeline import Pipeline

GROUP = "onboard_estimation.robots"
Alignment = Literal["none", "start", "heading", "se3"]
Configuration = TypeVar("Configuration")
_Ability = TypeVar("_Ability", bound="Capability[Any]")
_EXERCISE_STEPS, _POSE_STEP = 24, 2  # a pose, once: some filters start from one, and do something else without


@dataclass(frozen=True)
class TruthSpecification:
    """What motion capture tells of a robot.

    Attributes
    ----------
    bodies
        Names of the bodies: topics `ground_truth/<body>/pose` or, without orientation, `ground_truth/<body>/position`.
    alignment
        `none`: estimate and truth share the world frame, and the truth gives the initial state. `heading`: the estimate
        starts at its own origin; before comparison it is moved and turned about the vertical onto the truth. For
        `start` and `se3` see `judging/alignment.py`; users may ask for another one.
    covariances
        Noise covariance (d, d) of the parts derived from the truth, per part. Parts that are not named are taken as
        exact.
    held
        Topics of what motion capture does not see (weighed masses): numbers that hold from each message's stamp until
        the next. They may be absent; channels are not required, their sensor is the name that `true_parts` is given.
    """

    bodies: tuple[str, ...]
    alignment: Alignment = "none"
    covariances: Mapping[str, Matrix] = field(default_factory=dict)
    held: tuple[Channel, ...] = ()


class Robot(ABC, Generic[Configuration]):
    """A robot that can be estimated; generic in the dataclass of its parameters.

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
        Dataclass of its parameters, see `onboard_estimation.base.configuration`.
    configuration_file
        Default parameter file among the resources, e.g. `config/salp.yaml`; None: the dataclass's defaults.
    estimators
        Names of its estimators; the first is the default.
    run_time_parameters
        Dotted names of parameters, or of whole sections, that may change while an estimator runs.
    """

    name: str
    summary: str
    settle_s: float = 0.0
    recovery_s: float = math.inf
    configuration_type: type[Configuration]
    configuration_file: str | None = None
    estimators: tuple[str, ...] = ("default",)
    run_time_parameters: tuple[str, ...] = ()

    @abstractmethod
    def channels(self, configuration: Configuration) -> tuple[Channel, ...]:
        """Topics that the estimators listen to."""

    def listened_channels(self, configuration: Configuration, estimator: str) -> tuple[Channel, ...]:
        """The topics of `channels` that one of its estimators makes use of, live: by default all."""
        return self.channels(configuration)

    @abstractmethod
    def estimator(self, configuration: Configuration, name: str) -> Estimator[Any]:
        """One of its estimators."""

    @abstractmethod
    def truth_specification(self, configuration: Configuration) -> TruthSpecification:
        """What motion capture tells of it."""

    @abstractmethod
    def true_parts(
        self, configuration: Configuration, bodies: Mapping[str, NDArray[np.float64]]
    ) -> dict[str, NDArray[np.float64]]:
        """Parts of the state by name, (K, a) each, from the bodies' poses (K, 7) or positions (K, 3) at K instants.

        What is `held` is among them, under its own name, where the recording has it; NaN before its first message.
        """

    def refuse_topics(self, configuration: Configuration, names: Collection[str]) -> None:
        """Raise UserError where the topics in its namespace, by relative names, are of a robot of another build.

        Topics that the user leaves out are among them, whether or not they are there.
        """

    def exercise(self, configuration: Configuration, estimator: str) -> None:
        """Run an estimator once over every kind of measurement, so that a node compiles nothing while it runs.

        By default on neutral values, some of each channel: what a filter has gathered may be folded up now and then.
        """
        channels = self.channels(configuration)
        pipeline = Pipeline(self.estimator(configuration, estimator), channels)
        readings = sorted((one for one in channels if one.sensor != SET_POSE), key=lambda one: not one.command)
        for step in range(_EXERCISE_STEPS):
            for channel in channels if step == _POSE_STEP else readings:
                pipeline.process(Measurement((step + 1) * 10_000_000, channel.sensor, neutral_value(channel)))
        stamp_ns = (_EXERCISE_STEPS + 1) * 10_000_000
        pipeline.process_all([Measurement(stamp_ns, one.sensor, neutral_value(one)) for one in readings])


class Capability(Robot[Configuration]):
    """What some robots can do; whoever needs it asks `isinstance(robot, Simulated)`, or `Simulated[Any].of(robot)`.

    Attributes
    ----------
    ability
        What a robot without it has not, in words: `simulator`.
    """

    ability: ClassVar[str]

    @classmethod
    def of(cls: type[_Ability], robot: Robot[Any]) -> _Ability:
        """The robot, where it can; else UserError that says which robots can."""
        if isinstance(robot, cls):
            return robot
        able = ", ".join(one.name for one in all_robots() if isinstance(one, cls))
        others = f"these robots have: {able}" if able else "no robot that is installed has"
        raise UserError(f"robot {robot.name!r} has no {cls.ability}; {others}")


def offline(place: str, *more: Any) -> Callable[..., Any]:
    """A robot's method that a function `module:name` does, imported when it is called: nodes do without what it needs.

    The function is given what the method is given, but for the robot, and `more` behind it.
    """
    module, _, name = place.partition(":")

    def method(robot: Robot[Any], *given: Any, **named: Any) -> Any:
        return getattr(import_module(module), name)(*given, *more, **named)

    return method


def robot_names() -> list[str]:
    """Names of all robots that installed packages offer."""
    return offered(GROUP)


def find_robot(name: str) -> Robot[Any]:
    """The robot of that name.

    Raises
    ------
    UserError
        No package offers it, or its entry point is broken.
    """
    return load(GROUP, "robot", name, Robot)


def all_robots() -> Iterator[Robot[Any]]:
    """All robots that load; a broken one of another package must not hide the rest."""
    for name in robot_names():
        try:
            yield find_robot(name)
        except UserError:
            continue


def estimator_name(robot: Robot[Any], asked: str | None) -> str:
    """The estimator asked for, else the robot's first; UserError where it has no such estimator."""
    name = asked or robot.estimators[0]
    if name not in robot.estimators:
        raise UserError(f"{robot.name} has no estimator {name!r}; it has {', '.join(robot.estimators)}")
    return name
