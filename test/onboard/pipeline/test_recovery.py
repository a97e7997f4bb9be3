"""After bad data every robot is sane again within the time that it states: `Robot.recovery_s`.

Sane: the error within five of the standard deviations that are stated, at every instant from then on. Bad data that
goes unseen while it lasts may well mislead; what is refused, missing or stuck may not, at any time.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from onboard_estimation.base.series import Recording
from onboard_estimation.contract.recorded import from_simulator
from onboard_estimation.contract.robot import find_robot
from onboard_estimation.judging.alignment import align_heading
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.replay import replay
from onboard_estimation.pipeline.pipeline import Pipeline

Array = NDArray[np.float64]

DURATION_S = 14.0
MOST_SIGMA = 5.0
SCENARIOS = {"hopper": "hardware", "salp": "ideal", "strapdown": "walk"}
IMUS = {"hopper": ("imu/low_g", "imu/high_g"), "salp": ("imu/link_2",), "strapdown": ("imu/foot",)}
RANGES = {"hopper": (34.0, 156.0), "salp": (34.0, 156.0), "strapdown": (20.0, 78.0)}


@cache
def recording(name: str) -> Recording:
    robot = find_robot(name)
    scenario = SCENARIOS[name]
    variant = next(iter(robot.scenarios[scenario].variants), "")
    return robot.simulate(robot.configuration_type(), scenario, variant, DURATION_S, np.random.default_rng(1))


def spoilt(values: Array, kind: str, name: str) -> Array:
    """The readings (K, 6) of a sensor that went bad."""
    constants = {"nan": np.nan, "1e6": -1e6, "zeros": 0.0}
    if kind in constants:
        return np.full_like(values, constants[kind])
    if kind == "stuck":
        return np.repeat(values[:1], len(values), axis=0)
    if kind == "flipped":
        return -values
    assert kind == "noise"
    largest = np.repeat(RANGES[name], 3)
    return np.asarray(np.random.default_rng(0).uniform(-largest, largest, values.shape))


def with_fault(name: str, sensor: str, kind: str, start_s: float, stop_s: float) -> Recording:
    whole, sensors = recording(name), []
    for one in whole.sensors:
        time_s = one.stamps_ns * 1e-9
        bad = (time_s >= start_s) & (time_s < stop_s)
        if one.channel.sensor == sensor:
            values = one.values.copy()
            values[bad] = spoilt(values[bad], kind, name)
            one = replace(one, values=values)
        sensors.append(one)
    return replace(whole, sensors=tuple(sensors))


class Errors(NamedTuple):
    """(K,) seconds; (K,) largest error in standard deviations; what was said."""

    time_s: Array
    sigma: Array
    said: str


def errors_of(name: str, given: Recording, known_s: float) -> Errors:
    robot = find_robot(name)
    configuration, bodies = robot.configuration_type(), robot.truth_specification(robot.configuration_type()).bodies
    loaded = from_simulator(given, bodies)
    if name != "strapdown":
        result = judge(robot, configuration, robot.estimators[0], loaded)
        parts = result.parts.values()
        sigma = np.concatenate([np.abs(part.error) / part.stddev for part in parts], axis=1)
        return Errors(result.stamps_ns * 1e-9, np.nan_to_num(sigma).max(axis=1), " ".join(result.notes))
    # Origin and heading are its own: they are fitted before anything went bad, and not again.
    found = replay(robot, configuration, robot.estimators[0], loaded, None, configuration.lag_s)
    time_s, position = found.record.stamps_ns * 1e-9, found.record.means[:, :3]
    (truth,) = given.truth
    true = np.column_stack([np.interp(time_s, truth.stamps_ns * 1e-9, column) for column in truth.values[:, :3].T])
    before = time_s < known_s
    fit = align_heading(position[before], true[before])
    covariance = fit.rotation @ found.record.covariances[:, :3, :3] @ fit.rotation.T
    stddev = np.sqrt(np.einsum("nii->ni", covariance) + configuration.truth_stddev_m**2)
    return Errors(time_s, (np.abs(fit.positions(position) - true) / stddev).max(axis=1), " ".join(found.messages))


@pytest.mark.parametrize(
    ("kind", "duration_s"),
    [("nan", 2.0), ("1e6", 0.1), ("zeros", 0.1), ("stuck", 2.0), ("flipped", 2.0), ("noise", 0.1), ("noise", 2.0)],
)
@pytest.mark.parametrize(("name", "sensor"), [(name, sensor) for name, sensors in IMUS.items() for sensor in sensors])
def test_sane_again_within_the_time_that_is_stated(name: str, sensor: str, kind: str, duration_s: float) -> None:
    start_s = 6.3
    stop_s = start_s + duration_s
    found = errors_of(name, with_fault(name, sensor, kind, start_s, stop_s), start_s)
    late = found.time_s >= stop_s + find_robot(name).recovery_s
    assert late.sum() > 50
    assert found.sigma[late].max() < MOST_SIGMA
    if kind in ("nan", "1e6"):  # refused: known to be missing
        assert found.sigma.max() < MOST_SIGMA
    if name == "strapdown" and (duration_s > 0.1 or kind == "noise"):
        contradicted = kind in ("flipped", "noise")
        assert ("the ground contradicts" if contradicted else "lost until it stands on the ground") in found.said
    if name == "strapdown" and kind in ("stuck", "zeros"):
        assert found.sigma.max() < MOST_SIGMA
        assert "equal readings in a row of imu/foot" in found.said


@pytest.mark.parametrize("name", IMUS)
def test_a_clock_set_back_is_told_and_the_filter_starts_anew(name: str) -> None:
    """From 6.3 s on all stamps are three seconds less. What starts anew begins at its own origin, and says so."""
    robot, back_ns, at_ns = find_robot(name), 3_000_000_000, 6_300_000_000
    configuration = robot.configuration_type()
    bodies = robot.truth_specification(configuration).bodies
    given = list(from_simulator(recording(name), bodies).measurements())
    turned = [replace(one, stamp_ns=one.stamp_ns - back_ns) if one.stamp_ns >= at_ns else one for one in given]
    pipeline = Pipeline(
        robot.estimator(configuration, robot.estimators[0]),
        robot.channels(configuration),
        lag_s=configuration.lag_s,
    )
    record = pipeline.run(turned)
    said = [message for message in pipeline.messages if message.startswith("clock jumped by -")]
    assert len(said) == pipeline.clock_jumps == 1
    assert said[0].endswith("filter reset")
    assert all(np.isfinite(one.mean).all() for one in record)
