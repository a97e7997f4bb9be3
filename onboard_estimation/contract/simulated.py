"""Robots that can be simulated."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

import numpy as np

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.base.series import Fault, Recording
from onboard_estimation.contract.robot import Capability, Configuration
from onboard_estimation.contract.trained import ShownReport


@dataclass(frozen=True)
class Scenario:
    """A simulated situation.

    Attributes
    ----------
    summary
        One line for the help.
    variants
        Values of `--gait` or whatever the robot calls them; the first is the default.
    as_modelled
        Its noise is what the filter is told of it: errors and innovations may not be far smaller than stated either.
    """

    summary: str
    variants: tuple[str, ...] = ()
    as_modelled: bool = False


class Simulation(Protocol):
    """A simulated robot that goes on and on."""

    def advance(self, stop_ns: int) -> Recording:
        """What it would record from where it stands up to a stamp, which is left out; starts at stamp zero."""


Place = tuple[tuple[str, ...], int | None]
"""Fields of a NamedTuple, and where in their arrays: None: all of it."""
Parts = TypeVar("Parts", bound=Any)


class Changing:
    """A simulation of a robot that can change while it runs.

    Attributes
    ----------
    changeable
        What can change, by name, and which parts of the robot that is.
    changes
        Offsets and scales of these: the scenario's, and what is added before the first piece.
    """

    changeable: Mapping[str, Place] = MappingProxyType({})
    changes: tuple[Fault, ...] = ()

    def in_force(self, time_s: float, name: str, value: Any) -> Any:
        """A value of that name with the changes that hold at a time after the start of the run, s."""
        for one in self.changes:
            if one.name == name and one.from_s <= time_s < one.until_s:
                value = one.of(value)
        return value

    def changed(self, parts: Parts, time_s: float) -> Parts:
        """The parts of the robot with the changes that hold at a time, s."""
        for name in dict.fromkeys(one.name for one in self.changes):
            fields, where = self.changeable[name]
            for field in fields:
                value = getattr(parts, field)
                if where is None:
                    value = self.in_force(time_s, name, value)
                else:
                    value = value.copy()
                    value[where] = self.in_force(time_s, name, value[where])
                parts = parts._replace(**{field: value})
        return parts

    def pieces(self, start_s: float, step_s: float, count: int, longest: int = 0) -> list[tuple[int, int]]:
        """Of so many steps from a time on, pieces (first, stop) in which no change begins or ends; 0: of any length."""
        times_s = {time_s for one in self.changes for time_s in (one.from_s, one.until_s) if math.isfinite(time_s)}
        inside = {step for time_s in times_s if 0 < (step := round((time_s - start_s) / step_s)) < count}
        bounds, longest = pairwise([0, *sorted(inside), count]), longest or max(count, 1)
        return [(row, min(row + longest, stop)) for first, stop in bounds for row in range(first, stop, longest)]


class Simulated(Capability[Configuration]):
    """A robot with a simulator.

    Attributes
    ----------
    scenarios
        What it can simulate, by name; the first is the default.
    real_rates
        The scenario whose sensors come as often as the real robot's; empty: the first.
    """

    ability = "simulator"
    scenarios: Mapping[str, Scenario]
    real_rates: str = ""

    @abstractmethod
    def simulate(
        self, configuration: Configuration, scenario: str, variant: str, duration_s: float, rng: np.random.Generator
    ) -> Recording:
        """A simulated recording of that scenario, starting at time zero; the variant is empty where it has none."""

    def known_in(self, configuration: Configuration, scenario: str, variant: str = "") -> Configuration:
        """What is known beforehand of a scenario's robot, which its bags bring along; by default as configured."""
        return configuration


class SimulatedLive(Simulated[Configuration]):
    """A robot whose simulator can go on without an end."""

    ability = "live simulator"

    def simulate(
        self, configuration: Configuration, scenario: str, variant: str, duration_s: float, rng: np.random.Generator
    ) -> Recording:
        """The first piece of `simulation`."""
        simulation = self.simulation(configuration, scenario, variant, rng)
        return simulation.advance(round(duration_s * NANOSECONDS_PER_SECOND) + 1)

    @abstractmethod
    def simulation(
        self,
        configuration: Configuration,
        scenario: str,
        variant: str,
        rng: np.random.Generator,
        imu_rate_hz: float = 0.0,
    ) -> Simulation:
        """The same piece by piece, for a live robot; another rate of the IMUs where one is given."""


def chosen_scenario(robot: Simulated[Any], scenario: str | None, variant: str | None) -> tuple[str, str]:
    """The scenario and the variant asked for, the first where none is; UserError where the robot has none such."""
    scenario = scenario or next(iter(robot.scenarios))
    if scenario not in robot.scenarios:
        raise UserError(f"{robot.name} has no scenario {scenario!r}; it has {', '.join(robot.scenarios)}")
    variants = robot.scenarios[scenario].variants or ("",)
    variant = variants[0] if variant is None else variant
    if variant not in variants:
        there = ", ".join(variants) or "none"
        raise UserError(f"{robot.name}, scenario {scenario}: no variant {variant!r}; there are {there}")
    return scenario, variant


# Robots that move by gaits.


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
