"""What is wrong with the accelerometers at the moment, by sensor: for the log, once an episode, and the diagnostics.

The filter's own decisions (`readings_kernels`), which are the same live and offline, are put into words here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hopper_estimation import readings_kernels as readings
from hopper_estimation.configuration import HopperConfiguration
from hopper_estimation.topics import HIGH_G, LOW_G

AT_ODDS = (
    "imu/high_g contradicts imu/low_g, at rest or in shocks: its axes, its sign or its scale are wrong; it is left "
    "out, and the filter goes on with imu/low_g alone. Turn or scale it in its driver"
)
_STUCK = "{} repeats one reading: it is stuck, and {} goes on alone"
_SILENT = "imu/high_g is silent, and imu/low_g goes on alone: stance is clipped, and the covariance wider"
_NOT_ZEROED = (
    "it hops and never stood still for {:g} s (sensors.rest_s): the accelerometers are not zeroed, their offsets are "
    "taken as zero"
)
_SILENT_S = 1.0
"""Shorter gaps are bridged, and not worth a sentence."""


def sensor_faults(configuration: HopperConfiguration, state: NDArray[np.float64], hops: int) -> dict[str, str]:
    """A sentence by sensor, without a full stop; empty where all is well.

    Parameters
    ----------
    state
        (STATE_SIZE,) of `readings_kernels`.
    hops
        Touchdowns so far.
    """
    sensors, low, high = configuration.sensors, LOW_G.sensor, HIGH_G.sensor
    begun = state[readings.R_ZEROED] > 0.0 or hops > 0
    silent_s = state[readings.R_HIGH_SILENT]
    found = {}
    if state[readings.R_AT_ODDS] > 0.0:
        found[high] = AT_ODDS
    elif silent_s > _SILENT_S and (begun or silent_s < np.inf):  # infinite before its first reading
        found[high] = _SILENT
    elif state[readings.R_HIGH_EQUAL] >= sensors.stuck_readings:
        found[high] = _STUCK.format(high, low)
    if state[readings.R_LOW_EQUAL] >= sensors.stuck_readings:
        found[low] = _STUCK.format(low, high)
    elif hops > 0 and state[readings.R_ZEROED] == 0.0:
        found[low] = _NOT_ZEROED.format(sensors.rest_s)
    return found
