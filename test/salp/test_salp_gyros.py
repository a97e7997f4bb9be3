"""Gyros that contradict each other: refused while those that are heard confirm the state, and only then."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from salp_models import a_model

from onboard_estimation.base.measurement import Block, Measurement
from onboard_estimation.contract.recorded import from_simulator
from onboard_estimation.pipeline.pipeline import Pipeline
from onboard_estimation.pipeline.sensor_trust import SILENT_S
from salp_estimation.estimators.estimator import SalpEstimator
from salp_estimation.estimators.residual_estimator import ResidualEstimator
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.robot import ROBOT

CONFIGURATION = SalpConfiguration()
BURST = 6.0, 9.0


@pytest.fixture(scope="module")
def measurements() -> list[Measurement]:
    recording = ROBOT.simulate(CONFIGURATION, "ideal", "forward", 10.0, np.random.default_rng(5))
    return list(from_simulator(recording, CONFIGURATION.chain.link_names).measurements())


def estimator(kind: str, configuration: SalpConfiguration = CONFIGURATION) -> SalpEstimator | ResidualEstimator:
    return SalpEstimator(configuration) if kind == "plain" else ResidualEstimator(configuration, a_model())


def run(kind: str, measurements: list[Measurement]) -> Pipeline:
    pipeline = Pipeline(estimator(kind), ROBOT.channels(CONFIGURATION))
    pipeline.run(measurements)
    return pipeline


def spoilt(measurements: list[Measurement]) -> list[Measurement]:
    """The second gyro with a burst of nonsense."""
    offset = np.array([0.0, 0.0, 0.6, 0.0, 0.0, 0.0])
    return [
        replace(one, value=one.value + offset)
        if one.sensor == "imu/link_2" and BURST[0] < one.stamp_ns * 1e-9 < BURST[1]
        else one
        for one in measurements
    ]


def without(measurements: list[Measurement], sensors: tuple[str, ...], from_s: float) -> list[Measurement]:
    return [one for one in measurements if one.sensor not in sensors or one.stamp_ns < from_s * 1e9]


@pytest.mark.parametrize("kind", ["plain", "residual model"])
def test_gyro_that_the_others_contradict_is_refused_with_a_sentence(kind: str, measurements: list[Measurement]) -> None:
    pipeline = run(kind, spoilt(measurements))
    rows = pipeline.statistics()
    assert rows["imu/link_2"]["gated"] >= 59
    assert all(row["recoveries"] == 0 for row in rows.values())
    (sentence,) = pipeline.messages
    assert sentence.startswith("20 readings in a row of imu/link_2, at 7.000 s, contradict the state that the other")


def test_gyro_that_was_never_heard_does_not_doubt_the_others(measurements: list[Measurement]) -> None:
    """One of three is broken off: the one that is left still tells nonsense from the state."""
    pipeline = run("plain", without(spoilt(measurements), ("imu/link_3",), 0.0))
    assert pipeline.statistics()["imu/link_2"]["recoveries"] == 0
    assert len(pipeline.messages) == 1


def test_gyros_that_fell_silent_confirm_nothing(measurements: list[Measurement]) -> None:
    """They were well, but a second later the state may have gone astray without their knowing."""
    last_s = BURST[0] + 0.5
    alone = without(spoilt(measurements), ("imu/link_1", "imu/link_3"), last_s)
    assert run("plain", alone).statistics()["imu/link_2"]["recoveries"] > 0
    believed = [one for one in alone if one.stamp_ns < (last_s + SILENT_S - 0.06) * 1e9]
    pipeline = run("plain", believed)
    assert pipeline.statistics()["imu/link_2"]["recoveries"] == 0
    assert len(pipeline.messages) == 1


def test_a_gyro_that_falls_silent_is_told_of_once_each_time(measurements: list[Measurement]) -> None:
    def heard(at_s: float) -> bool:
        return not (3.0 < at_s < 5.0 or at_s > 8.0)

    silent = [one for one in measurements if one.sensor != "imu/link_2" or heard(one.stamp_ns * 1e-9)]
    first, second = run("plain", silent).messages
    assert first.startswith("imu/link_2 is silent since 3.000 s: how its link turns is known from the commands")
    assert second.startswith("imu/link_2 is silent since 8.000 s")
    # All together are not silent one by one: a gap of the whole robot.
    assert not run("plain", [one for one in measurements if heard(one.stamp_ns * 1e-9)]).messages


def test_a_clock_from_zero_is_a_clock(measurements: list[Measurement]) -> None:
    """The first reading of a gyro is not one that comes too soon after another at zero."""
    told = replace(CONFIGURATION, gyro=replace(CONFIGURATION.gyro, used_rate_hz=5.0))
    records = []
    for shift_ns in (0, 1_700_000_000_000_000_000):
        pipeline = Pipeline(estimator("residual model", told), ROBOT.channels(told))
        shifted = [replace(one, stamp_ns=one.stamp_ns + shift_ns) for one in measurements[:400]]
        records.append([(one.stamp_ns - shift_ns, one.mean.tobytes()) for one in pipeline.run(shifted)])
    assert records[0] == records[1]
    assert records[0][0][0] == 0


def test_what_blocks_leave_out_is_counted(measurements: list[Measurement]) -> None:
    gyro = replace(CONFIGURATION.gyro, used_rate_hz=5.0)
    known = replace(CONFIGURATION.initial, wrong_start_probability=0.0)  # else steps are taken until that is decided
    told = replace(CONFIGURATION, gyro=gyro, initial=known)
    tables = []
    for in_blocks in (False, True):
        pipeline = Pipeline(estimator("residual model", told), ROBOT.channels(told), in_blocks=in_blocks)
        for first in range(0, len(measurements), 30):
            pipeline.process_all(measurements[first : first + 30])
        tables.append(pipeline.statistics())
    assert tables[0] == tables[1]
    assert tables[0]["imu/link_1"]["left_out"] > 10


@pytest.mark.parametrize(("kind", "used_rate_hz"), [("plain", 0.0), ("residual model", 0.0), ("residual model", 5.0)])
@pytest.mark.parametrize("length", [3, 500])
def test_blocks_are_steps_to_the_last_bit(
    kind: str, used_rate_hz: float, length: int, measurements: list[Measurement]
) -> None:
    """Up to what is told, a refused gyro and a silent one, which is a step of its own."""
    gyro = replace(CONFIGURATION.gyro, used_rate_hz=used_rate_hz)
    known = replace(CONFIGURATION.initial, wrong_start_probability=0.0)
    ours: Any = estimator(kind, replace(CONFIGURATION, gyro=gyro, initial=known))
    given = without(spoilt(measurements), ("imu/link_3",), 8.5)
    alone = by_blocks = ours.start(None)
    first = stepped = left_out = 0
    while first < len(given):
        found = ours.filter_block(by_blocks, Block.of(given[first : first + length]))
        after = first + (1 if found is None else found.taken)
        steps = []
        for one in given[first:after]:
            steps.append(ours.step(alone, one))
            alone = steps[-1].state
        if found is None:
            by_blocks, stepped = ours.step(by_blocks, given[first]).state, stepped + 1
        else:
            by_blocks, made = found.state, [steps[place] for place in found.made_of]
            assert [one.estimate.covariance.tobytes() for one in made] == [one.tobytes() for one in found.covariances]
            assert [one.estimate.mean.tobytes() for one in made] == [one.tobytes() for one in found.means]
            assert [one.innovation.nis for one in made] == found.innovations.nis.tolist()
            assert not any(one.events for one in steps)
            assert [number for number, one in enumerate(steps) if not one.used] == found.left_out.tolist()
            left_out += len(found.left_out)
        first = after
    assert stepped < 0.2 * len(given)
    assert (left_out > 0.3 * len(given)) == (used_rate_hz > 0.0)
    np.testing.assert_array_equal(alone.gyros, by_blocks.gyros)
