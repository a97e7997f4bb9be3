"""The hopper's filters as one pure step from samples to states: readings, phase and state kernels in a row.

Live, samples come one by one; a recording comes whole. Both run the same compiled functions in the same order, so that
phase decisions are identical.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hopper_estimation import readings_kernels as readings
from hopper_estimation.configuration import HopperConfiguration
from hopper_estimation.filter_kinds import Filtered, StateFilter
from hopper_estimation.filter_model import FilterEntry
from hopper_estimation.gathered import Gathered, gathered
from hopper_estimation.phases import DROP, STARTUP
from hopper_estimation.samples import Arrived, Samples
from hopper_estimation.vertical_kernels import Signals
from onboard_estimation.measurement import Measurement

Array = NDArray[np.float64]

START_DEVIATION = (0.05, 0.05)
"""Standard deviations of height (m) and velocity (m/s) of a robot that is said to stand."""


class FilterState(NamedTuple):
    """All that samples change; arrays are values, never written.

    Attributes
    ----------
    readings
        (STATE_SIZE,) of `readings_kernels`.
    vertical
        Of the filter's kind.
    """

    readings: Array
    vertical: Array


def reading_settings(configuration: HopperConfiguration) -> readings.ReadingSettings:
    """What the configuration says of the sensors, for the compiled functions."""
    sensors, robot = configuration.sensors, configuration.robot
    return readings.ReadingSettings(
        gravity=robot.gravity_m_s2,
        low_range=sensors.low_range_m_s2,
        high_range=sensors.high_range_m_s2,
        low_offset=sensors.low_offset_m_s2,
        high_offset=sensors.high_offset_m_s2,
        high_noise=sensors.high_noise_m_s2,
        rest_s=sensors.rest_s,
        rest_rate=sensors.rest_rate_rad_s,
        largest_tilt_cosine=float(np.cos(np.deg2rad(sensors.largest_tilt_deg))),
        stuck_readings=float(sensors.stuck_readings),
        silent_s=sensors.silent_s,
    )


def signals_of(settings: readings.ReadingSettings, state: Array, samples: Samples) -> Signals:
    """What filters take of samples; `state` (STATE_SIZE,) of `readings_kernels` is changed."""
    count = len(samples.dt)
    accelerations, usable = np.empty((count, 4)), np.empty(count, dtype=np.uint8)
    readings.vertical_accelerations(settings, state, samples, accelerations, usable)
    return Signals(samples.dt, accelerations, usable, samples.goal, samples.thrust, samples.leg)


class HopperFilter:
    """One of the hopper's filters with its trained parameters: functions over its state."""

    def __init__(self, configuration: HopperConfiguration, kind: StateFilter, entry: FilterEntry) -> None:
        self._configuration = configuration
        self._kind = kind
        self._parameters = entry.parameters
        self._settings = reading_settings(configuration)

    def standing(self) -> FilterState:
        """Of a robot that stands on the ground, before its first drop."""
        height = self._configuration.robot.standing_height_m
        vertical = self._kind.start(height, 0.0, np.diag([START_DEVIATION[0] ** 2, START_DEVIATION[1] ** 2]), STARTUP)
        return FilterState(readings.new_state(), vertical)

    def at(
        self, state: FilterState, height_m: float, velocity_m_s: float, covariance: Array, phase: int = DROP
    ) -> FilterState:
        """Going on from a height and velocity that are known, with their covariance (2, 2)."""
        started = self._kind.start(height_m, velocity_m_s, covariance, phase)
        return FilterState(state.readings, self._kind.going_on(started, state.vertical))

    def run(self, state: FilterState, samples: Samples) -> tuple[FilterState, Filtered]:
        """Filter samples that follow on those before."""
        after = FilterState(state.readings.copy(), state.vertical.copy())
        signals = signals_of(self._settings, after.readings, samples)
        return after, self._run(after, signals)

    def run_messages(
        self, state: FilterState, arrived: Arrived, measurements: Sequence[Measurement]
    ) -> tuple[FilterState, Arrived, Filtered, Gathered]:
        """Filter the samples of messages that arrived together, all of `samples.KINDS`."""
        after = FilterState(state.readings.copy(), state.vertical.copy())
        arrived, found = gathered(self._configuration, self._settings, arrived, after.readings, measurements)
        return after, arrived, self._run(after, found.signals), found

    def _run(self, state: FilterState, signals: Signals) -> Filtered:
        """Changes the state."""
        return self._kind.run(self._parameters, self._configuration, state.vertical, signals)
