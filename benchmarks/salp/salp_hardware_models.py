"""What `salp_hardware` compares: estimators of LandSalp, and the residual models that they are trained with.

Models are kept in `scratch/salp_hardware/`, named by a hash of the code and the settings that they come from: what is
there is not trained again, and what changed since is not taken for it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchmarks.scenarios import scenario_hash
from onboard_estimation.configuration import load
from onboard_estimation.evaluation.recording import LoadedRecording
from onboard_estimation.evaluation.simulated import simulated_recording
from onboard_estimation.resources import resource
from onboard_estimation.robots import find_robot
from salp_estimation.configuration import SalpConfiguration
from salp_estimation.gaits import GAITS
from salp_estimation.hardware_scenario import FILE
from salp_estimation.residual_training import train
from salp_estimation.training_runs import TrainingRun, training_run

ROOT = Path(__file__).parent.parent
SCRATCH = Path(__file__).parent / "scratch" / "salp_hardware"
SCENARIO = "hardware"
ALL_GAITS = tuple(GAITS)
FIRST_TRAINING_SEED = 900_000
"""Test seeds count from 100 and stay far below."""
_FORWARD_SEED = 910_000
_MODEL_CODE = ("chain*", "friction_kernels", "gait*", "hardware_*", "marker_flips", "motion", "population")
TRAINING_CODE = (
    *(f"salp_estimation/{name}.py" for name in _MODEL_CODE),
    "salp_estimation/doubted_start.py",
    "salp_estimation/residual_calibration.py",
    "salp_estimation/residual_estimator.py",
    "salp_estimation/residual_filter*.py",
    "salp_estimation/residual_training.py",
    "salp_estimation/training_runs.py",
    "onboard_estimation/learning/*.py",
)
FILTER_CODE = (
    *(f"salp_estimation/{name}.py" for name in _MODEL_CODE),
    *(f"salp_estimation/{name}.py" for name in ("configuration", "chain_estimator", "estimator", "model_error")),
    "salp_estimation/doubted_start.py",
    "salp_estimation/residual_estimator.py",
    *(f"salp_estimation/{name}.py" for name in ("residual_filter", "residual_filter_kernels", "residual_model")),
    "onboard_estimation/filtering/*.py",
    "onboard_estimation/learning/sparse*.py",
    "onboard_estimation/timing/*.py",
    "onboard_estimation/pipeline.py",
    "onboard_estimation/evaluation/judge.py",
)


@dataclass(frozen=True)
class TrainingSet:
    """Simulated runs to train with: so many robots (seeds) for each gait, or as many runs of the gait forward alone."""

    forward_only: bool = False
    gaits: tuple[str, ...] = ALL_GAITS
    seeds: int = 5
    duration_s: float = 20.5

    def runs(self) -> list[tuple[str, int]]:
        """Gait and seed of each."""
        if self.forward_only:
            return [("forward", _FORWARD_SEED + k) for k in range(len(self.gaits) * self.seeds)]
        numbers = enumerate(self.gaits)
        return [(gait, FIRST_TRAINING_SEED + 100 * number + k) for number, gait in numbers for k in range(self.seeds)]


@dataclass(frozen=True)
class Model:
    """A residual model: its form, and what it is trained with."""

    form: str
    data: TrainingSet


IDEAL_NOISE = "config/salp_ideal.yaml"


@dataclass(frozen=True)
class Subject:
    """One estimator as it is judged: without a model, with parameters of a file or set besides, or with a model."""

    name: str
    model: Model | None = None
    file: str | None = None
    settings: tuple[tuple[str, float], ...] = ()
    used_rate_hz: float = 50.0
    beacon_s: float | None = None
    scenario: str = SCENARIO

    def configuration(self) -> SalpConfiguration:
        """That of the robot; the model is trained where it is not there yet."""
        settings: dict[str, Any] = {**dict(self.settings), "gyro.used_rate_hz": self.used_rate_hz}
        if self.model is not None:
            settings["residual_model"] = str(trained(self.model))
        return load(SalpConfiguration, None if self.file is None else resource(self.file), settings)

    def key(self) -> str:
        """Hash of the code and settings that its figures come from."""
        return key(FILTER_CODE, asdict(self), "" if self.model is None else model_key(self.model))


def subjects(data: TrainingSet) -> dict[str, Subject]:
    """All that are compared, by their names on the command line."""
    forward = replace(data, forward_only=True)
    gp = "gaussian_process"
    return {
        "plain": Subject("plain, as shipped"),
        "ideal_noise": Subject("plain, noise of the scenario ideal", file=IDEAL_NOISE),
        "gp_forward": Subject("paper's form, forward only, inducing points", Model(gp, forward)),
        "gp_all": Subject("paper's form, all gaits, inducing points", Model(gp, data)),
        "local": Subject("local, all gaits", Model("local", data)),
        "calibrated_forward": Subject("calibrated, forward only", Model("calibrated", forward)),
        "calibrated": Subject("calibrated, all gaits", Model("calibrated", data)),
    }


@lru_cache(maxsize=4)
def code_hash(patterns: tuple[str, ...]) -> str:
    """Of the files of this repository that fit the patterns, with those of the scenario."""
    files = sorted({path for pattern in patterns for path in ROOT.glob(pattern)})
    digest = hashlib.sha256(scenario_hash(FILE).encode())
    for path in files:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def key(patterns: tuple[str, ...], *settings: object) -> str:
    """Hash of code and settings."""
    text = json.dumps([code_hash(patterns), settings], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def model_key(model: Model) -> str:
    """Hash of all that a model comes from."""
    return key(TRAINING_CODE, asdict(model), asdict(SalpConfiguration()))


def trained(model: Model) -> Path:
    """The file of a model; trained where it is not there yet."""
    name = f"{model.form}_{'forward' if model.data.forward_only else 'all'}"
    path = SCRATCH / f"{name}_{model_key(model)}.npz"
    if not path.exists():
        configuration = SalpConfiguration()
        recordings, runs = training_runs(model.data)
        hashes = [hashlib.sha256(run.rates.tobytes()).hexdigest() for run in runs]
        found, _ = train(configuration, runs, hashes, model.form, recordings=recordings)
        SCRATCH.mkdir(parents=True, exist_ok=True)
        # Whole or not at all, and never by two processes at once.
        whole = path.with_name(f"{os.getpid()}_{path.name}")
        found.save(whole)
        whole.replace(path)
    return path


def training_runs(data: TrainingSet) -> tuple[Sequence[LoadedRecording], Sequence[TrainingRun]]:
    """Simulated, and read as `train` reads a bag."""
    robot, configuration = find_robot("salp"), SalpConfiguration()
    recordings, runs = [], []
    for gait, seed in data.runs():
        recording = simulated_recording(robot, configuration, SCENARIO, gait, data.duration_s, seed)
        recordings.append(recording)
        runs.append(training_run(configuration, recording, f"{gait}, seed {seed}"))
    return recordings, runs
