"""Every robot that is installed keeps the contract, with each of its estimators, the trained ones too."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.salp_models import a_model

from hopper_estimation.robot import ROBOT as HOPPER
from onboard_estimation.base.series import Series
from onboard_estimation.contract.recorded import from_simulator
from onboard_estimation.contract.robot import find_robot
from onboard_estimation.judging.simulated_bags import simulated_recording
from onboard_estimation.testing import Check, broken_promises, check_robot, checks, statistics
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.robot import ROBOT as SALP
from salp_estimation.training.paper_training import fitted
from softrobot_estimation.model.configuration import LearningConfiguration, SoftRobotConfiguration

FEW_PARTICLES = SoftRobotConfiguration(learning=LearningConfiguration(particles=50))
ROBOTS: dict[str, Any] = {"salp": None, "strapdown": None, "softrobot": FEW_PARTICLES}
SLOW_TO_COMPILE = {"thruster_chain": None}
SLOW_TO_SIMULATE = ("softrobot",)
"""Whose statistics over seeds take longer than all of its other checks."""
BASELINES = ("ba1", "dr1", "ba1_best", "dr1_best")
ALIKE = ("kf2", "kf3", "kf3_kf1", "eskf1")
"""Filters of one class with `kf1` and `eskf2`."""
OVERSURE = "algorithm_1-errors_are_as_large_as_stated"
"""The soft robot's paper: few particles that share one past state too small an error of the stiffness."""

TWO_RUNS_TEACH = {"a_whole_turn_changes_nothing", "innovations_are_white", "commands_explain_the_readings_best"}
"""What a salp does not keep whose friction and harness two runs of 27 s have taught: a harness is a spring that knows
whole turns of a joint, and of friction more is left out than the noise of gyros that the other two find."""


def is_slow(name: str, check: Check) -> bool:
    is_statistical = check.promise.__module__ == statistics.__name__
    return name in SLOW_TO_COMPILE or (name in SLOW_TO_SIMULATE and is_statistical)


def every_check() -> list[object]:
    return [
        pytest.param(check, id=f"{name}-{check}", marks=pytest.mark.slow if is_slow(name, check) else ())
        for name, configuration in {**ROBOTS, **SLOW_TO_COMPILE}.items()
        for check in checks(find_robot(name), configuration)
        if str(check) != OVERSURE
    ]


@pytest.mark.parametrize("check", every_check())
def test_robot(check: Check) -> None:
    check()


@pytest.fixture(scope="module")
def hops() -> tuple[Series, ...]:
    """The hopper first lands after seven seconds: one reading in thirty tells all of its phases."""
    recording = HOPPER.simulate(HOPPER.configuration_type(), "hardware", "mixed", 8.0, np.random.default_rng(1))
    return tuple(one.rows(slice(None, None, 30)) for one in recording.sensors)


@pytest.mark.parametrize(
    "estimator",
    [pytest.param(one, marks=pytest.mark.slow if one in (*BASELINES, *ALIKE) else ()) for one in HOPPER.estimators],
)
def test_hopper(estimator: str, hops: tuple[Series, ...]) -> None:
    check_robot(HOPPER, None, estimator, hops)


@pytest.mark.slow
def test_the_salp_with_a_model_that_was_trained(tmp_path: Path) -> None:
    configuration, recordings = SalpConfiguration(), {}
    for seed, gait in enumerate(("forward", "turning")):
        simulation = SALP.simulation(configuration, "hardware", gait, np.random.default_rng(seed), imu_rate_hz=50.0)
        bodies = configuration.chain.link_names
        recordings[gait] = from_simulator(simulation.advance(27_000_000_000), bodies)
    SALP.train(configuration, recordings, ("", ""), "calibrated").save(tmp_path / "model.npz")
    broken = broken_promises(SALP, replace(configuration, residual_model=str(tmp_path / "model.npz")))
    assert set(broken) <= TWO_RUNS_TEACH


# In a process for each estimator, forked from one in which no kernel is there yet: what others have compiled, or loaded
# from the cache, hides nothing. A kernel that is loaded counts, so that the cache need not be empty.
COUNT_KERNELS = """
import multiprocessing
import sys
import numpy as np
from numba.core.dispatcher import Dispatcher
from onboard_estimation.base.configuration import load, to_mapping
from onboard_estimation.contract.recorded import from_simulator
from onboard_estimation.contract.robot import find_robot
from onboard_estimation.pipeline.pipeline import Pipeline

robot, seconds, parameter = find_robot(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
default = robot.configuration_type()

def kernels():
    found = {one for module in list(sys.modules.values()) for one in list(vars(module).values())
             if isinstance(one, Dispatcher)}
    return {(one.__module__, one.__name__, str(signature)) for one in found for signature in one.signatures}

def simulated(scenario):
    variant = next(iter(robot.scenarios[scenario].variants), "")
    recording = robot.simulate(default, scenario, variant, seconds, np.random.default_rng(1))
    return list(from_simulator(recording, ()).measurements())

def left_by_exercise(estimator, in_blocks, model, given):
    known = load(robot.configuration_type, to_mapping(default), {parameter: model} if model else {})
    before = kernels()
    robot.exercise(known, estimator)
    exercised = kernels()
    pipeline = Pipeline(robot.estimator(known, estimator), robot.channels(known), in_blocks=in_blocks)
    assert len(exercised) > len(before) + 2 and pipeline.run(given), estimator
    return [f"{estimator} {model}, in_blocks={in_blocks}: {one}" for one in sorted(kernels() - exercised)]

context = multiprocessing.get_context("fork")
scenario = next(iter(robot.scenarios))
with context.Pool(1, maxtasksperchild=1) as pool:
    given = pool.apply(simulated, (scenario,))
    runs = [(one, in_blocks, model, given) for one in robot.estimators for in_blocks in (True, False)
            for model in sys.argv[4:] or [""]]
    for found in pool.starmap(left_by_exercise, runs, chunksize=1):
        print(*found, sep="\\n", end="\\n" if found else "")
"""


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words, marks=pytest.mark.slow if words[0] != "strapdown" else ())
        for words in (("strapdown", "8"), ("softrobot", "3"), ("hopper", "12"), ("salp", "6"), ("thruster_chain", "6"))
    ],
    ids=lambda words: words[0],
)
def test_an_exercised_filter_compiles_nothing_in_the_run(words: tuple[str, ...], tmp_path: Path) -> None:
    models = [""]
    if words[0] == "salp":
        known = SalpConfiguration()
        runs = {one: simulated_recording(SALP, known, "hardware", one, 27.0, 700) for one in ("forward", "turning")}
        for form, model in (("local", a_model()), ("paper", fitted(known, runs, ("", ""), most_points=50))):
            model.save(tmp_path / form)
            models.append(str(tmp_path / form))
    parameter = getattr(find_robot(words[0]), "model_parameter", "")
    words = (*words, parameter, *models)
    found = subprocess.run([sys.executable, "-c", COUNT_KERNELS, *words], capture_output=True, text=True, timeout=600)
    assert found.returncode == 0, found.stderr
    assert found.stdout == ""
