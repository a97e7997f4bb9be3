"""Judged runs for `thruster_chain_unknown`: recordings of unknown robots and simulated ones, a line of figures each."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.recordings import recordings
from benchmarks.run import ONE_THREAD
from onboard_estimation.errors import UserError
from onboard_estimation.evaluation.judge import judge
from onboard_estimation.evaluation.options import JudgeSettings
from onboard_estimation.evaluation.recording import LoadedRecording, from_simulator
from onboard_estimation.evaluation.result import EvaluationResult
from onboard_estimation.evaluation.simulated import simulated_recording
from onboard_estimation.pipeline import Pipeline
from salp_estimation.thruster_chain.configuration import (
    ChainConfiguration,
    GyroConfiguration,
    InitialConfiguration,
    ThrusterChainConfiguration,
)
from salp_estimation.thruster_chain.hardware_scenario import hardware_scenario
from salp_estimation.thruster_chain.robot import ROBOT
from salp_estimation.thruster_chain.training import train
from salp_estimation.thruster_chain.unknown_chain import read_unknown_chain

Array = NDArray[np.float64]
Line = dict[str, Any]

SETTLE_S = 5.0
"""Coverage of what is learned is counted from here on."""
FOUND_WITHIN_S = 10.0
"""A change of masses that is told so long after a load was taken up is that load; all others are false alarms."""
_CHANGED = re.compile(r"[Mm]asses changed at about ([0-9.]+) s")


@dataclass(frozen=True)
class Job:
    """A run and an estimator: a folder of `unknown_thruster_chain`, or a seed of a simulated scenario.

    `trained_with`: the run of the same robot whose motion capture it was calibrated with.
    """

    estimator: str
    folder: str = ""
    links: int = 0
    scenario: str = ""
    variant: str = ""
    seed: int = 0
    duration_s: float = 30.0
    trained_with: str = ""

    def loaded(self) -> tuple[ThrusterChainConfiguration, LoadedRecording]:
        """What is known of the robot, and its recording."""
        if self.folder:
            return recorded(self.folder)
        configuration = laboratory(self.links)
        return configuration, simulated_recording(
            ROBOT, configuration, self.scenario, self.variant, self.duration_s, self.seed
        )


def recorded(folder: str) -> tuple[ThrusterChainConfiguration, LoadedRecording]:
    """What is known of a robot of `unknown_thruster_chain`, and a run of it."""
    content = read_unknown_chain(recordings("unknown_thruster_chain") / folder)
    configuration = content.configurations["thruster_chain"]
    specification = ROBOT.truth_specification(configuration)
    return configuration, from_simulator(content.recording, specification.bodies, specification.held)


def laboratory(count: int) -> ThrusterChainConfiguration:
    """A chain as a laboratory builds it: the paper's links and thrusters' directions, parts not in the middle."""
    rng, angles = np.random.default_rng(count), (0.785398, 2.0944, -1.5708)

    def places(most_m: float) -> tuple[float, ...]:
        return tuple(rng.uniform(-most_m, most_m, count).tolist())

    chain = ChainConfiguration(
        link_names=tuple(f"link_{link + 1}" for link in range(count)),
        link_lengths_m=(0.25,) * count,
        masses_kg=(0.5,) * count,
        inertias_kg_m2=(2.6e-3,) * count,
        thruster_x_m=places(0.02),
        thruster_y_m=places(0.015),
        thruster_angles_rad=tuple(angles[link % 3] for link in range(count)),
        imu_x_m=places(0.03),
        imu_y_m=places(0.02),
        joint_travel_deg=110.0,
    )
    initial = InitialConfiguration(headings_rad=(0.0,) * count, heading_stddev_rad=0.005, rest_s=1.5)
    return ThrusterChainConfiguration(chain=chain, initial=initial, gyro=GyroConfiguration(range_rad_s=17.453))


def compute(jobs: Sequence[Job]) -> dict[Job, Line]:
    """Lines of all jobs, from as many processes as there are processors."""
    for name in ONE_THREAD:  # before a process of the pool imports NumPy
        os.environ[name] = "1"
    lines = {}
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        started = {pool.submit(judged, job): job for job in jobs}
        for number, future in enumerate(as_completed(started), 1):
            line = lines[started[future]] = future.result()
            what = {name: line.get(name) for name in ("heading_deg", "joint_deg", "processor_s")}
            print(f"{number} of {len(jobs)}: {started[future]} {what}", flush=True)
    return lines


def judged(job: Job) -> Line:
    """Figures of a run, by the same judge as a user's."""
    configuration, recording = job.loaded()
    start_s = time.process_time()
    with TemporaryDirectory() as folder:
        if job.trained_with:
            calibration = Path(folder) / "calibration.npz"
            _, other = recorded(job.trained_with)
            train(configuration, {job.trained_with: other}, [""]).save(calibration)
            configuration = replace(configuration, calibration=str(calibration))
        try:
            result = judge(ROBOT, configuration, job.estimator, recording, JudgeSettings(seed=job.seed))
        except UserError as error:
            return {"refused": str(error)}
    line = figures(configuration, recording, result)
    return {**line, "processor_s": round(time.process_time() - start_s, 2)}


def figures(configuration: ThrusterChainConfiguration, recording: LoadedRecording, result: EvaluationResult) -> Line:
    """What is told of a run: errors at its end, coverage over its time, and when masses were said to have changed."""
    headings, masses, inertias, position = (
        result.parts[name] for name in ("headings", "masses", "inertias", "position")
    )
    moving, late = result.time_s > configuration.initial.rest_s, result.time_s > SETTLE_S
    end = np.flatnonzero(masses.matched)[-1]
    found, true = masses.estimate[end], masses.truth[end]
    line: Line = {
        "heading_deg": _rms_deg(headings.error[moving]),
        "joint_deg": _rms_deg(np.diff(headings.error[moving], axis=1)),
        "headings_covered": _covered(headings.error[moving], headings.stddev[moving]),
        "position_m": float(f"{np.sqrt(np.nanmean(np.sum(position.error**2, axis=1))):.3g}"),
        "position_covered": _covered(position.error, position.stddev),
        "ratios": _rounded(found / found.sum() / (true / true.sum()) - 1.0),
        "duration_s": round(float(result.time_s[-1]), 3),
        "broke_down": int(sum(row.get("breakdowns", 0) for row in result.sensors.values())),
        "messages": int(sum(row["received"] for row in result.sensors.values())),
    }
    for name, part in (("masses", masses), ("inertias", inertias)):
        line[name] = _rounded(part.error[end] / part.truth[end])
        line[f"{name}_stated"] = _rounded(part.stddev[end] / part.truth[end])
        line[f"{name}_covered"] = _covered(part.error[late], part.stddev[late])
    start_s = result.stamps_ns[0] / 1e9
    line["changes_s"] = [
        round(float(told.group(1)) - start_s, 2) for note in result.notes if (told := _CHANGED.search(note))
    ]
    return line


def step_share(count: int, duration_s: float = 10.0) -> float:
    """Processor time of the estimator for a second of a recording of a chain with so many links, compiled before."""
    configuration = laboratory(count)
    recording = simulated_recording(ROBOT, configuration, "hardware", "mixed", duration_s, 101)
    taken_s = []
    for _ in range(3):
        estimator = ROBOT.estimator(configuration, "robust")
        pipeline = Pipeline(estimator, ROBOT.channels(configuration), None, configuration.lag_s)
        start_s = time.process_time()
        for _ in pipeline.run(recording.measurements()):
            pass
        taken_s.append(time.process_time() - start_s)
    return min(taken_s) / duration_s


def scenario_load_s() -> float:
    """When the load of the scenario `load` is taken up."""
    return hardware_scenario().load.at_s


def _rms_deg(errors: Array) -> float:
    return float(f"{np.rad2deg(np.sqrt(np.nanmean(errors**2))):.4g}")


def _covered(errors: Array, stddevs: Array) -> float:
    sigmas = np.abs(errors / stddevs)
    return float(f"{np.mean(sigmas[np.isfinite(sigmas)] < 3.0):.4f}")


def _rounded(values: Sequence[float] | Array) -> list[float]:
    return [float(f"{value:.4g}") for value in values]
