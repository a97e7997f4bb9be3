"""What `/diagnostics` says of messages that could not be read, and the log of what comes too late for the filter."""

from __future__ import annotations

import numpy as np
from bouncer import ROBOT as BOUNCER
from bouncer import Bouncer, BouncerEstimator

from onboard_estimation.bags.message_types import new
from onboard_estimation.base.measurement import Measurement, neutral_value
from onboard_estimation.pipeline.pipeline import Pipeline
from onboard_estimation.ros.diagnostics import OK, STALE, WARN, HealthReport, LossReport
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.robot import ROBOT

SENSOR = "imu/link_1"


def test_what_cannot_be_read_is_a_warning_until_it_can_again() -> None:
    configuration = SalpConfiguration()
    channels = [channel for channel in ROBOT.channels(configuration) if channel.sensor == SENSOR]
    pipeline = Pipeline(ROBOT.estimator(configuration, "ukf"), channels)
    report = HealthReport(new, "salp/salp_estimator")

    def status(unreadable: int) -> tuple[int, str, dict[str, str]]:
        found = report(pipeline, channels, 1, 3_599_732, {SENSOR: {"unreadable": unreadable}}).status
        assert {one.key: one.value for one in found[0].values}["estimates"] == "3599732"
        (sensor,) = (one for one in found if one.hardware_id == SENSOR)
        return sensor.level, sensor.message, {one.key: one.value for one in sensor.values}

    level, text, values = status(2)  # before any that could
    assert (level, text, values["unreadable"]) == (WARN[0], "2 messages could not be read", "2")
    assert status(2)[:2] == (STALE[0], "silent since the last report, 0 before")
    for stamp_ns in range(0, 100_000_000, 10_000_000):
        pipeline.process(Measurement(stamp_ns, SENSOR, np.zeros(6)))
    level, text, values = status(2)
    assert (level, text, values["received"], values["unreadable"]) == (OK[0], "100.0 Hz", "10", "2")
    assert status(5)[:2] == (WARN[0], "3 messages could not be read")


def test_what_came_too_late_is_said_with_numbers_and_once() -> None:
    (channel,) = (one for one in BOUNCER.channels(Bouncer()) if one.required)
    pipeline, report = Pipeline(BouncerEstimator(Bouncer()), lag_s=0.2), LossReport()

    def take(*at_ms: int) -> str:
        for one in at_ms:
            stamp_ns = 1_700_000_000_000_000_000 + one * 1_000_000
            pipeline.process(Measurement(stamp_ns, channel.sensor, np.array(neutral_value(channel))))
        return " ".join(report(pipeline, {}))

    assert take(*range(0, 1000, 10)) == ""
    assert take(500, 510, *range(1000, 1100, 10)).startswith(f"left out as too late: 2 of 12 from {channel.sensor};")
    assert take(*range(1100, 2000, 10)) == ""
    assert take(1500, *range(2000, 2500, 10)) == ""  # one now and then is no news
    pipeline.process(Measurement(1_700_000_003_000_000_000, channel.sensor, np.array(neutral_value(channel))))
    (said,) = report(pipeline, {channel.sensor: {"lost": 7}})
    assert f"7 of 8 from {channel.sensor};" in said
    assert report(pipeline, {channel.sensor: {"lost": 7}}) == []
