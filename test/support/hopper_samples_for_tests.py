"""Recordings of the simulated hopper to be spoilt, simulated once each, and a model that no training changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hopper_estimation.estimators.filters import TRAINED, FilterModel, untrained_entry
from hopper_estimation.model import phases
from hopper_estimation.model.configuration import HIGH_G, LOW_G, HopperConfiguration
from hopper_estimation.training.filter_training import neutral_parameters
from onboard_estimation.bags.writing import BagWriter
from onboard_estimation.base.series import Recording, Series
from onboard_estimation.contract.recorded import LoadedRecording, from_simulator
from onboard_estimation.contract.result import EvaluationResult
from onboard_estimation.contract.robot import find_robot
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.options import JudgeSettings
from onboard_estimation.judging.simulated_bags import write_series

Array = NDArray[np.float64]
Change = Callable[[Series], Series | None]

CONFIGURATION = HopperConfiguration()
ROBOT = find_robot("hopper")
LOW, HIGH = LOW_G.sensor, HIGH_G.sensor
STANDING_M = CONFIGURATION.robot.standing_height_m
GRAVITY = CONFIGURATION.robot.gravity_m_s2
TRUTH = "ground_truth/body"
REST_S, DROP_S = 2.0, 6.0
"""Of the simulator: it stands so long, and is dropped then."""


@cache
def hopping(variant: str = "1m", duration_s: float = 14.0, seed: int = 7, scenario: str = "hardware") -> Recording:
    """A simulated run, not to be changed."""
    return ROBOT.simulate(CONFIGURATION, scenario, variant, duration_s, np.random.default_rng(seed))


def changed(recording: Recording, changes: Mapping[str, Change]) -> Recording:
    """With some sensors changed, by name; a change that gives None leaves the sensor out."""

    def applied(all_series: tuple[Series, ...]) -> tuple[Series, ...]:
        found = (changes.get(one.channel.sensor, lambda same: same)(one) for one in all_series)
        return tuple(one for one in found if one is not None)

    unknown = set(changes) - {one.channel.sensor for one in (*recording.sensors, *recording.truth)}
    assert not unknown, unknown
    return Recording(applied(recording.sensors), applied(recording.truth))


def without(series: Series) -> None:
    """A change: the sensor is missing."""


def rows_of(chosen: Callable[[Array], NDArray[np.bool_]]) -> Callable[[Series], Series]:
    """A change: only the rows whose times (s) are chosen."""

    def apply(one: Series) -> Series:
        rows = chosen(one.stamps_ns * 1e-9)
        return replace(one, stamps_ns=one.stamps_ns[rows], values=one.values[rows])

    return apply


def every(count: int) -> Callable[[Series], Series]:
    """A change: only one row in so many."""
    return rows_of(lambda time_s: np.arange(len(time_s)) % count == 0)


def lost(share: float, seed: int = 0) -> Change:
    """A change: that share of the messages is lost at random."""
    rng = np.random.default_rng(seed)
    return rows_of(lambda time_s: rng.random(len(time_s)) >= share)


def values_by(change: Callable[[Array, Array], Array]) -> Change:
    """A change: other values (K, d), from the times (K,) in seconds and a copy of the values."""
    return lambda one: replace(one, values=change(one.stamps_ns * 1e-9, one.values.copy()))


def series_of(recording: Recording, sensor: str) -> Series:
    """One sensor's."""
    return next(one for one in (*recording.sensors, *recording.truth) if one.channel.sensor == sensor)


def loaded(recording: Recording) -> LoadedRecording:
    """As an evaluation has it, arriving in the order of the stamps."""
    return from_simulator(recording, ("body",) if recording.truth else ())


def arriving_late(recording: Recording, latest_s: Mapping[str, float], seed: int = 0) -> LoadedRecording:
    """The same arriving late by up to so many seconds, by sensor, each message for itself."""
    rng = np.random.default_rng(seed)
    plain = loaded(recording)
    times = []
    series = []
    for one in plain.series:
        late = rng.random(len(one.stamps_ns)) * latest_s.get(one.channel.sensor, 0.0)
        at = one.stamps_ns * 1e-9 + late
        order = np.argsort(at, kind="stable")
        times.append(at[order])
        series.append(replace(one, stamps_ns=one.stamps_ns[order], values=one.values[order]))
    numbers = np.repeat(np.arange(len(series)), [len(one.stamps_ns) for one in series])
    return replace(plain, series=tuple(series), arrival=numbers[np.argsort(np.concatenate(times), kind="stable")])


def judged(
    recording: Recording,
    estimator: str = "kf1",
    configuration: HopperConfiguration = CONFIGURATION,
    settings: JudgeSettings | None = None,
) -> EvaluationResult:
    """Evaluated with the package's own model."""
    return judge(ROBOT, configuration, estimator, loaded(recording), settings)


def write_bag(path: Path, recording: Recording) -> Path:
    """As a bag, as the simulator would have written it."""
    with BagWriter(path, custom_data={"source": "simulated", "robot": "hopper"}) as writer:
        write_series(writer, (*recording.sensors, *recording.truth), "/hopper")
    return path


def plain_parameters() -> Array:
    """(18,) parameters by hand: they hop along, without anything trained."""
    values = neutral_parameters()
    values[[phases.F_STATE, phases.F_PHASE, phases.JERK]] = 150.0, 60.0, 4000.0
    values[[phases.SIGMA_A, phases.SIGMA_V, phases.SIGMA_P]] = 3.0, 0.5, 0.01
    return values


def plain_model() -> FilterModel:
    """Those parameters for each estimator, with scales and delays that differ from phase to phase."""
    entry = replace(
        untrained_entry(),
        parameters=plain_parameters(),
        height_scale=np.array([1.0, 2.0, 3.0, 4.0, 5.0]),
        velocity_floor_m_s=np.array([0.1, 0.2, 0.3, 0.4, 0.5]),
        event_delay_s=np.array([0.008, 0.004, 0.006, 0.001]),
    )
    return FilterModel(dict.fromkeys(TRAINED, entry), {"made": "by hand, for tests"})
