"""Compiling every kernel before it is needed: each robot is simulated and evaluated for a short while.

Which kernels there are, with which types, shows only when a filter runs. numba tells of each that it compiles; those
that it finds in the cache it does not tell of, so that a second run compiles nothing.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.kernel_cache import compilations, configure
from onboard_estimation.contract.robot import Robot, find_robot, robot_names
from onboard_estimation.contract.simulated import Simulated, chosen_scenario

DURATION_S = 10.0
"""Of each simulation: long enough for a filter that finds its own start, short beside the compilation."""


@dataclass
class Warmth:
    """What a warm-up did.

    Attributes
    ----------
    folder
        Where the machine code is kept.
    compiled
        Names of the kernels that were compiled; a kernel comes once for each set of types.
    kept
        Whether the folder outlives this process.
    notes
        Robots that could not be run, with the reason.
    """

    folder: Path
    kept: bool
    compiled: list[str] = field(default_factory=list)
    robots: list[str] = field(default_factory=list)
    duration_s: float = 0.0
    notes: list[str] = field(default_factory=list)


def warm_up(names: list[str], progress: Callable[[str], None] = lambda step: None) -> Warmth:
    """Compile the kernels of these robots (none named: of all); UserError where a robot is unknown."""
    folder = configure()
    warmth = Warmth(folder, kept=not is_temporary(folder))
    robots = [find_robot(name) for name in names] if names else []
    for name in [] if names else robot_names():
        try:
            robots.append(find_robot(name))
        except UserError as error:
            warmth.notes.append(f"{name}: {error}")
    started = time.monotonic()
    for robot in robots:

        def compiling(kernel: str, robot: Robot = robot) -> None:
            warmth.compiled.append(kernel)
            progress(f"{robot.name}: compiling {kernel} ({len(warmth.compiled)} so far)")

        with compilations(compiling), tempfile.TemporaryDirectory(prefix="warmup-") as place:
            try:
                _exercise(robot, Path(place), progress)
            except UserError as error:
                warmth.notes.append(f"{robot.name}: {error}")
            else:
                warmth.robots.append(robot.name)
    warmth.duration_s = time.monotonic() - started
    return warmth


def is_temporary(folder: Path) -> bool:
    """Whether a cache folder goes with the process, because no other could be written."""
    return folder.parent.parent == Path(tempfile.gettempdir()) and "-kernels-" in folder.parent.name


def _exercise(robot: Robot, place: Path, progress: Callable[[str], None]) -> None:
    """Simulate the robot and evaluate it with each of its estimators."""
    import numpy as np

    from onboard_estimation.judging.options import EvaluateOptions
    from onboard_estimation.judging.simulated_bags import simulate_to_bag
    from onboard_estimation.judging.sources import load_configuration
    from onboard_estimation.report.evaluate import evaluate_bag

    if not isinstance(robot, Simulated):
        raise UserError("has no simulator; its kernels compile when it first runs")
    scenario, variant = chosen_scenario(robot, None, None)
    configuration = load_configuration(robot, EvaluateOptions())
    progress(f"{robot.name}: simulating")
    with np.errstate(all="ignore"):
        simulate_to_bag(robot, configuration, scenario, variant, DURATION_S, 0, place / "bag")
    for estimator in robot.estimators:
        progress(f"{robot.name}: {estimator}")
        evaluate_bag(place / "bag", EvaluateOptions(robot=robot.name, estimator=estimator), keep=None)
