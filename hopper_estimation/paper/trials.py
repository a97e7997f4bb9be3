"""Simulated robots that the paper's filters learn from, are judged on, and hop by the estimates of.

Every seed is another robot on another day. Each training seed has robots of its own, from 900000 up, and random numbers
of its own in the optimiser; test robots have seeds from 7000 up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from typing import Any

import numpy as np

from hopper_estimation.estimators.estimator import HopperEstimator
from hopper_estimation.estimators.filters import FilterEntry
from hopper_estimation.model.configuration import HopperConfiguration
from hopper_estimation.model.phases import PHASES
from hopper_estimation.robot import ROBOT
from hopper_estimation.training.filter_calibration import Trial, run_of, trial_of
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Measurement
from onboard_estimation.base.series import Recording, Series, in_time_order
from onboard_estimation.contract.recorded import LoadedRecording, from_simulator
from onboard_estimation.judging.simulated_bags import simulated_recording

CONFIGURATION = HopperConfiguration()
FIRST_TRAINING_SEED, FIRST_TEST_SEED = 900_000, 7000
START_S = 6.0
"""A run begins with rest on the ground and the flight to its first drop."""
HEIGHTS_M = {"1m": 1.0, "2m": 2.0, "3m": 3.0, "4m": 4.0}
TRAINING_S = {"1m": 5.2, "2m": 7.2, "3m": 8.8, "4m": 10.6}
TEST_S = {"1m": 20.0, "2m": 20.0, "3m": 24.0, "4m": 28.0}
"""Of hopping, by commanded height: about four hops of many robots; ten hops or more."""
_CONTROL_NS = 2_500_000
"""The paper's 400 Hz."""


def recorded(scenario: str, variant: str, seconds: float, seed: int) -> LoadedRecording:
    """A simulated recording, as an evaluation reads a bag."""
    return simulated_recording(ROBOT, CONFIGURATION, scenario, variant, seconds, seed)


def simulated(scenario: str, variant: str, seconds: float, seed: int) -> Trial:
    """The same as a trial of filters."""
    return trial_of(CONFIGURATION, f"{variant}, seed {seed}", recorded(scenario, variant, seconds, seed))


def at_heights(seeds: Iterable[int], hopping_s: Mapping[str, float], scenario: str = "hardware") -> list[Trial]:
    """Of robots at several commanded heights, so long each."""
    return [simulated(scenario, gait, START_S + seconds, seed) for seed in seeds for gait, seconds in hopping_s.items()]


@lru_cache(maxsize=2)
def learned_from(training_seed: int, robots: int) -> list[Trial]:
    """What a filter is trained on: the robots of a training seed."""
    first = FIRST_TRAINING_SEED + 10 * training_seed
    return at_heights(range(first, first + robots), TRAINING_S)


@lru_cache(maxsize=2)
def judged_on(robots: int, scenario: str = "hardware") -> list[Trial]:
    """The test robots, controlled by their true state."""
    return at_heights(range(FIRST_TEST_SEED, FIRST_TEST_SEED + robots), TEST_S, scenario)


told = partial(run_of, CONFIGURATION)
"""What a filter says over a recording, from its first drop on: name, entry, trial."""


def sensed(scenario: str, variant: str, seconds: float, seed: int, imu_rate_hz: float) -> Trial:
    """Of a robot whose accelerometers are read so often."""
    simulation = ROBOT.simulation(CONFIGURATION, scenario, variant, np.random.default_rng(seed), imu_rate_hz)
    recording = simulation.advance(round((START_S + seconds) * NANOSECONDS_PER_SECOND))
    return trial_of(CONFIGURATION, f"{imu_rate_hz:g} Hz, seed {seed}", _loaded(recording))


def controlled(entry: FilterEntry, seed: int, gait: str, seconds: float) -> Trial:
    """Of a test robot whose controller goes by KF1's estimate from the first drop on, 400 times a second."""
    simulation: Any = ROBOT.simulation(CONFIGURATION, "hardware", gait, np.random.default_rng(seed))
    estimator = HopperEstimator(CONFIGURATION, "kf1", entry)
    state, pieces = estimator.start(None), []
    drop_ns = round(START_S * NANOSECONDS_PER_SECOND)
    for stop_ns in range(_CONTROL_NS, drop_ns + round(seconds * NANOSECONDS_PER_SECOND) + 1, _CONTROL_NS):
        pieces.append(simulation.advance(stop_ns))
        newest = None
        for stamp_ns, channel, value in in_time_order(pieces[-1].sensors):
            state, estimate, *_ = estimator.step(state, Measurement(stamp_ns, channel.sensor, value))
            newest = estimate or newest
        if newest is not None and stop_ns > drop_ns:
            simulation.take_estimate(*newest.mean.tolist(), PHASES.index(estimator.phase(state)))
    whole = Recording(_joined(one.sensors for one in pieces), _joined(one.truth for one in pieces))
    return trial_of(CONFIGURATION, f"{gait}, seed {seed}, by its estimate", _loaded(whole))


def _joined(pieces: Iterable[tuple[Series, ...]]) -> tuple[Series, ...]:
    return tuple(
        Series(same[0].channel, *(np.concatenate([getattr(one, of) for one in same]) for of in ("stamps_ns", "values")))
        for same in zip(*pieces, strict=True)
    )


def _loaded(recording: Recording) -> LoadedRecording:
    specification = ROBOT.truth_specification(CONFIGURATION)
    return from_simulator(recording, specification.bodies, specification.held)
