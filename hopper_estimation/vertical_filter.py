"""The hopper's filters as one stateful step from samples to states: readings, phase and state kernels in a row.

Live, samples come one by one; a recording comes whole. Both run the same compiled functions in the same order, so that
phase decisions are identical.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hopper_estimation import readings_kernels as readings
from hopper_estimation import vertical_kernels as kernels
from hopper_estimation.configuration import HopperConfiguration
from hopper_estimation.filter_kinds import StateFilter
from hopper_estimation.filter_model import FilterEntry
from hopper_estimation.phases import DROP, STARTUP
from hopper_estimation.samples import NOMINAL_DT_S, Samples

Array = NDArray[np.float64]

START_DEVIATION = (0.05, 0.05)
"""Standard deviations of height (m) and velocity (m/s) of a robot that is said to stand."""


class Filtered(NamedTuple):
    """What came of N samples.

    Attributes
    ----------
    out
        (N, 6): height, velocity, their covariance as the filter has it (zz, zv, vv), phase.
    events
        (E, EVENT_SIZE), see `vertical_kernels`; times since the filter's start, s.
    """

    out: Array
    events: Array


@dataclass(frozen=True, slots=True)
class FilterState:
    """All that samples change; arrays are values, never written."""

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


class HopperFilter:
    """One of the hopper's estimators.

    Parameters
    ----------
    kind
        Which filter.
    entry
        Its trained parameters.
    """

    def __init__(self, configuration: HopperConfiguration, kind: StateFilter, entry: FilterEntry) -> None:
        self._configuration = configuration
        self._kind = kind
        self.entry = entry
        self._settings = reading_settings(configuration)
        self.state = self.standing()

    def standing(self) -> FilterState:
        """Of a robot that stands on the ground, before its first drop."""
        height = self._configuration.robot.standing_height_m
        deviation = START_DEVIATION
        vertical = self._kind.start(height, 0.0, np.diag([deviation[0] ** 2, deviation[1] ** 2]), STARTUP)
        return FilterState(readings.new_state(), vertical)

    def set_state(self, height_m: float, velocity_m_s: float, covariance: Array, phase: int = DROP) -> None:
        """Go on from a height and velocity that are known, with their covariance (2, 2)."""
        started = self._kind.start(height_m, velocity_m_s, covariance, phase)
        vertical = self._kind.going_on(started, self.state.vertical)
        self.state = replace(self.state, vertical=vertical)

    def run(self, samples: Samples) -> Filtered:
        """Filter samples that follow on those before."""
        count = len(samples.dt)
        state_r, state_v = self.state.readings.copy(), self.state.vertical.copy()
        accelerations = np.empty((count, 4))
        usable = np.empty(count, dtype=np.uint8)
        readings.vertical_accelerations(
            self._settings,
            state_r,
            samples.dt,
            samples.low,
            samples.high,
            samples.has,
            samples.up,
            accelerations,
            usable,
        )
        out = np.empty((count, 6))
        # No leg makes more than four events in 20 ms.
        events = np.empty((4 + int(200.0 * float(samples.dt.sum())), kernels.EVENT_SIZE))
        found = self._kind.run(
            self.entry.parameters,
            self._configuration.robot.standing_height_m,
            self._configuration.robot.gravity_m_s2,
            NOMINAL_DT_S,
            state_v,
            samples,
            accelerations,
            usable,
            out,
            events,
        )
        self.state = FilterState(state_r, state_v)
        return Filtered(out, events[: min(found, len(events))])
