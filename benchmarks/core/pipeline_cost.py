"""Time per measurement of the estimators, alone and in the pipeline that orders, checks and counts what arrives.

Simulated recordings of a minute, from memory: LandSalp's commands and gyros at 20 Hz, and an IMU on a foot at 200 Hz.
The pipeline does for each measurement what a live node does, but for messages.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.timing import case, interleaved, rounded
from onboard_estimation.estimator import Estimator
from onboard_estimation.evaluation.recording import from_simulator
from onboard_estimation.measurement import Measurement
from onboard_estimation.pipeline import Pipeline
from onboard_estimation.robots import Robot, find_robot

RUNS_UNASKED = ("pipeline_cost",)
DURATION_S = 60.0
ROBOTS = ("salp", "strapdown")


def run(quick: bool) -> list[dict[str, Any]]:
    """Cases of all robots."""
    return [row for name in ROBOTS for row in _robot(find_robot(name), quick)]


def _robot(robot: Robot, quick: bool) -> list[dict[str, Any]]:
    configuration = robot.configuration_type()
    scenario = next(iter(robot.scenarios))
    variant = next(iter(robot.scenarios[scenario].variants), "")
    recording = robot.simulate(configuration, scenario, variant, DURATION_S, np.random.default_rng(1))
    loaded = from_simulator(recording, robot.truth_specification(configuration).bodies)
    measurements = list(loaded.measurements())

    def estimator() -> Estimator[Any]:
        return robot.estimator(configuration, robot.estimators[0])

    candidates = {
        "pipeline": lambda: Pipeline(estimator()).run(measurements),
        "filter alone": lambda: _filter(estimator(), measurements),
    }
    samples = interleaved(candidates, 2 if quick else 15, block_s=0.0)
    samples = {name: times / len(measurements) for name, times in samples.items()}
    label = f"{robot.name} ({robot.estimators[0]})"
    share = float(np.median(samples["pipeline"])) * len(measurements) / DURATION_S
    return [
        case(f"{label}, a measurement in the pipeline", samples, "pipeline", measurements=len(measurements)),
        case(f"{label}, a measurement in the filter alone", samples, "filter alone", measurements=len(measurements)),
        {
            "case": f"{label}, share of one core in real time",
            "figure": f"{100.0 * share:.2g} %",
            "share_of_a_core": rounded(share),
        },
    ]


def _filter(estimator: Estimator[Any], measurements: list[Measurement]) -> None:
    state = estimator.start(None)
    for measurement in measurements:
        state = estimator.step(state, measurement).state
