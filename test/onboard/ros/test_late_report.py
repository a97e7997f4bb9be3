"""What comes too late for the filter is said in the node's log, not in its diagnostics only."""

from __future__ import annotations

import numpy as np
from bouncer import ROBOT, Bouncer, BouncerEstimator

from onboard_estimation.base.measurement import Measurement, neutral_value
from onboard_estimation.pipeline.pipeline import Pipeline
from onboard_estimation.ros.diagnostics import LateReport

CHANNEL = next(channel for channel in ROBOT.channels(Bouncer()) if channel.required)
START_NS = 1_700_000_000_000_000_000


def test_what_came_too_late_is_said_with_numbers_and_once() -> None:
    pipeline, report = Pipeline(BouncerEstimator(Bouncer()), lag_s=0.2), LateReport()

    def take(*at_ms: int) -> str:
        for one in at_ms:
            value = np.array(neutral_value(CHANNEL))
            pipeline.process(Measurement(START_NS + one * 1_000_000, CHANNEL.sensor, value))
        return report(pipeline)

    assert take(*range(0, 1000, 10)) == ""
    assert take(500, 510, *range(1000, 1100, 10)).startswith(f"left out as too late: 2 of 12 from {CHANNEL.sensor};")
    assert take(*range(1100, 2000, 10)) == ""
    assert take(1500, *range(2000, 2500, 10)) == ""  # one now and then is no news
