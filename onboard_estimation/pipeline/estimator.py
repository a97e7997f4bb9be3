"""The contract of an estimator: two pure functions over one immutable state.

    state = estimator.start(initial)
    state, estimate, innovation, events, used = estimator.step(state, measurement)

The state holds all that measurements change: moments, the last stamp, counts of gates, the phase, random numbers to
come (`filtering.particle_weights`). An estimator itself holds its configuration and nothing else. So late data, a
restart, a replay and a breakdown are all the same thing: going on from a state that was kept.
`onboard_estimation.testing.check_robot` holds an estimator to it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Block, Estimate, FilteredBlock, Measurement, Notice, PhaseEvent
from onboard_estimation.filtering.gating import Innovation
from onboard_estimation.filtering.state_space import StateSpace

State = TypeVar("State")
"""An estimator's own frozen dataclass or NamedTuple; arrays in it are values: replaced, never written."""
Event = PhaseEvent | Notice


class FilterBreakdown(ArithmeticError):
    """A filter that cannot go on: a covariance that lost its sign, a state that is no number, an absurd innovation."""


class SensorsRefused(UserError):
    """Sensors that cannot be right at all, in one sentence: no measurement of theirs is filtered any more."""


class Step(NamedTuple):
    """What came of a measurement.

    Attributes
    ----------
    state
        After it.
    estimate
        At its stamp; None where there is none (yet), or nothing moved (a command).
    innovation
        What an update saw, whether or not the gate let it pass; None where nothing was corrected.
    events
        What it showed: events of the motion, and notices for the log.
    used
        False where the measurement was not looked at: its sensor is stuck, or it came too soon after the last one.
    """

    state: Any
    estimate: Estimate | None = None
    innovation: Innovation | None = None
    events: tuple[Event, ...] = ()
    used: bool = True


class Estimator(ABC, Generic[State]):
    """A robot's filter: measurements in the order of their stamps go in, estimates come out.

    Order, late measurements, NaN, readings beyond a limit, repeated stamps, jumps of the clock, what comes before the
    start, sensors switched off, counting and breakdowns are the pipeline's business: it never sees them.

    Attributes
    ----------
    space
        State space of the estimates.
    phases
        Names of the phases of its motion, by number; empty: it tells of none.
    held
        Blocks of the space that it takes as known before the run and never changes: it is not judged on them.
    linearised
        Whether its covariance is carried along by the derivatives of what moves its mean, as extended and unscented
        filters do with the whole state; false for particles, and for parts with covariances of another source.
    """

    space: StateSpace
    phases: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    linearised: bool = True

    @abstractmethod
    def start(self, initial: Estimate | None) -> State:
        """The state before the first measurement.

        Parameters
        ----------
        initial
            Mean and covariance in `space`, and the stamp that they belong to, at or before that of the first
            measurement. None: as the configuration says, from the first measurement on.
        """

    @abstractmethod
    def step(self, state: State, measurement: Measurement) -> Step:
        """Filter the next measurement; its stamp is never before the last one's.

        Raises
        ------
        SensorsRefused
            They cannot be right at all: nothing is filtered from then on.
        FilterBreakdown, ArithmeticError, ValueError, numpy.linalg.LinAlgError
            It cannot go on: the pipeline says so and goes on from the last good state.
        """

    def phase(self, state: State) -> str | None:
        """The phase that it is in, one of `phases`; None where it has none (yet)."""
        return None

    def health(self, state: State) -> Mapping[str, float]:
        """Figures on how well it does beyond its innovations, by name: live in the diagnostics, and of a run's end."""
        return {}

    def sensor_faults(self, state: State) -> Mapping[str, str]:
        """What is wrong at the moment with sensors that it does not believe, a sentence by sensor: for diagnostics."""
        return {}

    def learned(self, state: State) -> Any:
        """What it has learned of the robot by now, for pictures and reports of that robot; None: it learns nothing."""
        return None


@runtime_checkable
class BlockFilter(Protocol):
    """An estimator whose step is one compiled kernel, which takes many readings as well."""

    def filter_block(self, state: Any, block: Block) -> FilteredBlock | None:
        """The state after some of the next readings, and what `step` would give of each; equal to the last bit.

        Some: before the first that has a notice or inflates the covariance, and none that changes the state after the
        last that gives an estimate, if any does. None: the first of them is to be taken by itself.
        """


@runtime_checkable
class Smoother(Protocol):
    """An estimator that can look back, for use offline: its history is part of its state."""

    def smoothed(self, state: Any) -> list[Estimate]:
        """Estimates in order, each given all measurements of its interval, earlier and later ones.

        A new interval starts where the state was given anew: a reset, a pose that replaced the filter's.
        """
