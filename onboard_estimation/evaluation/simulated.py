"""A simulated recording to be judged, without the way through a bag."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onboard_estimation.capabilities.simulated import Simulated, chosen_scenario
from onboard_estimation.errors import UserError
from onboard_estimation.evaluation.evaluate import Source, load_configuration
from onboard_estimation.evaluation.options import EvaluateOptions
from onboard_estimation.evaluation.recording import LoadedRecording, from_simulator
from onboard_estimation.robots import estimator_name, find_robot

LONGEST_S = 36_000.0


def check_duration(duration_s: float) -> None:
    """Raise UserError where nothing can be simulated for so long."""
    if not 0.0 < duration_s <= LONGEST_S:
        raise UserError(f"--duration {duration_s:g}: must be above 0 s and at most {LONGEST_S:g} s")


@dataclass(frozen=True)
class SimulatedRun:
    """What is simulated; `scenario` and `variant` may be left out (None, the robot's first) until `checked`.

    Attributes
    ----------
    seed
        Of all noise and disturbances, and of the initial error of what is estimated.
    """

    robot: str
    scenario: str | None = None
    variant: str | None = None
    duration_s: float = 60.0
    seed: int = 0

    def checked(self) -> SimulatedRun:
        """With the scenario and variant that it comes to; UserError where there is no such robot or scenario."""
        check_duration(self.duration_s)
        robot = Simulated[Any].of(find_robot(self.robot))
        scenario, variant = chosen_scenario(robot, self.scenario, self.variant)
        return replace(self, scenario=scenario, variant=variant)

    def name(self) -> str:
        """For reports: `forward, seed 3`."""
        return ", ".join(word for word in (self.scenario, self.variant, f"seed {self.seed}") if word)


def simulated_source(run: SimulatedRun, options: EvaluateOptions, estimators: Sequence[str | None] = (None,)) -> Source:
    """Simulate a recording; of the options those of a bag's topics are not looked at.

    Raises
    ------
    UserError
        No such robot, scenario, variant or estimator, or options that do not fit.
    """
    run = run.checked()
    robot = Simulated[Any].of(find_robot(run.robot))
    configuration = load_configuration(robot, options)
    assert run.scenario is not None
    assert run.variant is not None
    names = tuple(estimator_name(robot, asked) for asked in estimators)
    recording = simulated_recording(robot, configuration, run.scenario, run.variant, run.duration_s, run.seed).changed(
        options.what_if
    )
    variant = ["--gait", run.variant] if run.variant else []
    again = ["onboard-estimation", "campaign", run.robot, "--scenario", run.scenario, *variant]
    again += ["--duration", f"{run.duration_s:g}", "--seeds", "1", "--first-seed", str(run.seed)]
    known = robot.known_in(configuration, run.scenario)
    settings = replace(options.settings, seed=run.seed)
    options = replace(options, settings=settings)
    return Source(run.name(), tuple(again), options, robot, known, names, recording, None, run.scenario)


def simulated_recording(
    robot: Simulated[Any], configuration: Any, scenario: str, variant: str, duration_s: float, seed: int
) -> LoadedRecording:
    """A simulated recording as a bag of it would be read."""
    rng = np.random.default_rng(seed)
    recording = robot.simulate(configuration, scenario, variant, duration_s, rng)
    specification = robot.truth_specification(configuration)
    return from_simulator(recording, specification.bodies, specification.held)
