"""Robots that can be simulated."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.base.series import Recording
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
    """

    summary: str
    variants: tuple[str, ...] = ()


class Simulation(Protocol):
    """A simulated robot that goes on and on."""

    def advance(self, stop_ns: int) -> Recording:
        """What it would record from where it stands up to a stamp, which is left out; starts at stamp zero."""


class Simulated(Capability[Configuration]):
    """A robot with a simulator.

    Attributes
    ----------
    scenarios
        What it can simulate, by name; the first is the default.
    """

    ability = "simulator"
    scenarios: Mapping[str, Scenario]

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
