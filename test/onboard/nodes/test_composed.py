"""Source and estimator in one process: the same estimates as offline, everything still published, clear refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from evaluation_samples import command
from launched import Launch, recorded
from live_graph import wait_until
from live_nodes import start

from onboard_estimation.bags.bag import open_bag
from onboard_estimation.base.measurement import Estimate, Measurement, filter_order
from onboard_estimation.base.series import Series
from onboard_estimation.pipeline.pipeline import Pipeline
from onboard_estimation.ros.measurements import stamp_ns, to_measurement
from salp_estimation.robot import ROBOT

CONFIGURATION = ROBOT.configuration_type()
SCENARIO, GAIT, SENSOR, SEED = "hardware", "forward", "imu/link_1", 3
PIECE_NS = 100_000_000
"""What the simulator node simulates at a time; noise is drawn piece by piece."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "which nodes? composed [PACKAGE/]EXECUTABLE... [--ros-args ...]"),
        (("bag_player", "hopper_estimator"), "bag_player cannot run in one process with others"),
        (("elsewhere/driver",), "no executable 'driver' in package 'elsewhere'; it has: none"),
    ],
)
def test_what_cannot_run_together_is_said_before_anything_runs(words: tuple[str, ...], sentence: str) -> None:
    out, errors = (composed := start("run", "composed", *words, "--ros-args", "-r", "__ns:=/hopper")).communicate()
    assert (composed.returncode, out) == (2, "")
    assert sentence in errors
    assert "Traceback" not in errors


@pytest.mark.live
def test_only_a_source_with_a_driver_here_is_composed() -> None:
    ended = command("launch", "hopper.launch.py", "composed:=true", "source:=hardware", "drivers:=false")
    assert ended.code != 0
    assert "with source:=hardware there is no driver to run with the estimator" in ended.error


def simulated(seconds: float) -> list[Series]:
    """What the simulator node simulates, as it does."""
    simulation = ROBOT.simulation(CONFIGURATION, SCENARIO, GAIT, np.random.default_rng(SEED), 0.0)
    pieces = range(1, round(seconds * 1e9 / PIECE_NS) + 1)
    return [one for piece in pieces for one in simulation.advance(piece * PIECE_NS).sensors]


def offline(series: list[Series], epoch_ns: int) -> list[Estimate]:
    """What a pipeline makes of the same simulation."""
    channels = ROBOT.listened_channels(CONFIGURATION, "ukf")
    order = filter_order(channels)
    readings = [
        Measurement(epoch_ns + stamp, one.channel.sensor, value)
        for one in series
        if one.channel.sensor in order
        for stamp, value in zip(one.stamps_ns.tolist(), one.values, strict=True)
    ]
    readings.sort(key=lambda one: (one.stamp_ns, order[one.sensor]))
    return Pipeline(ROBOT.estimator(CONFIGURATION, "ukf"), channels).run(readings)


@pytest.mark.slow
@pytest.mark.usefixtures("compiled_kernels", "ros_domain")
@pytest.mark.live
def test_the_estimates_are_those_of_the_simulation_to_the_last_bit(tmp_path: Path) -> None:
    """Three gyros are read at each instant, and commands come between."""
    bag = tmp_path / "bag"
    words = ("composed:=true", f"seed:={SEED}", f"record:={bag}", "markers:=false", "initial_from_truth:=false")
    chosen = (f"scenario:={SCENARIO}", f"gait:={GAIT}")
    with Launch("salp.launch.py", *words, *chosen, log=tmp_path / "launch.log") as launch:
        launch.wait_for("without messages between, from salp_simulator")
        wait_until(lambda: recorded(bag, "/salp/state") >= 200)
        assert launch.interrupt() == 0, launch.output
    (channel,) = (one for one in ROBOT.channels(CONFIGURATION) if one.sensor == SENSOR)
    readings, states, covariances = [], {}, {}
    with open_bag(bag) as opened:
        for raw in opened.messages():
            if raw.topic == f"/salp/{channel.topic}":
                readings.append(to_measurement(channel, opened.deserialize(raw)))
            elif raw.topic in ("/salp/state", "/salp/state_covariance"):
                message = opened.deserialize(raw)
                kept = states if raw.topic.endswith("state") else covariances
                kept[stamp_ns(message)] = np.array(message.position)
    # When the simulation began shows in its first reading that was recorded.
    seconds = 1e-9 * (max(states) - readings[0].stamp_ns) + 20.0
    series = simulated(seconds)
    stamps_ns = np.concatenate([one.stamps_ns for one in series if one.channel.sensor == SENSOR])
    values = np.concatenate([one.values for one in series if one.channel.sensor == SENSOR])
    (first,) = np.flatnonzero((values == readings[0].value).all(axis=1))
    epoch_ns = readings[0].stamp_ns - int(stamps_ns[first])
    rows = {at_ns: row for row, at_ns in enumerate(stamps_ns.tolist())}
    for reading in readings:  # a busy machine loses some on their way to the recorder, and none to the estimator
        np.testing.assert_array_equal(reading.value, values[rows[reading.stamp_ns - epoch_ns]])
    found = {one.stamp_ns: one for one in offline(series, epoch_ns)}
    assert len(states) >= 200
    for at_ns, mean in states.items():
        np.testing.assert_array_equal(mean, found[at_ns].mean)
        if at_ns in covariances:
            whole = found[at_ns].covariance
            np.testing.assert_array_equal(covariances[at_ns], whole[np.triu_indices(len(whole))])
