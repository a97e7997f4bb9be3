"""What is wrong with the accelerometers, in sentences with a way out.

At the moment, by sensor: for the log, once an episode, and the diagnostics; and why what was read at rest cannot be
right. The filter's own decisions (`readings_kernels`), which are the same live and offline, are put into words here.
"""

from __future__ import annotations

import numpy as np

from hopper_estimation import readings_kernels as readings
from hopper_estimation.configuration import HopperConfiguration
from hopper_estimation.phases import Records
from hopper_estimation.topics import HIGH_G, LOW_G
from onboard_estimation.simulation import STANDARD_GRAVITY_M_S2

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
_ABOUT_ONE = 0.2
_SILENT_S = 1.0
"""Shorter gaps are bridged, and not worth a sentence."""


def sensor_faults(configuration: HopperConfiguration, state: Records, hops: int) -> dict[str, str]:
    """A sentence by sensor, without a full stop; empty where all is well.

    Parameters
    ----------
    state
        (1,) of `readings_kernels`.
    hops
        Touchdowns so far.
    """
    sensors, low, high = configuration.sensors, LOW_G.sensor, HIGH_G.sensor
    begun = state[0]["zeroed"] > 0.0 or hops > 0
    silent_s = state[0]["high_silent"]
    found = {}
    if state[0]["at_odds"] > 0.0:
        found[high] = AT_ODDS
    elif silent_s > _SILENT_S and (begun or silent_s < np.inf):  # infinite before its first reading
        found[high] = _SILENT
    elif state[0]["high_equal"] >= sensors.stuck_readings:
        found[high] = _STUCK.format(high, low)
    if state[0]["low_equal"] >= sensors.stuck_readings:
        found[low] = _STUCK.format(low, high)
    elif hops > 0 and state[0]["zeroed"] == 0.0:
        found[low] = _NOT_ZEROED.format(sensors.rest_s)
    return found


def rest_fault(configuration: HopperConfiguration, state: Records) -> str | None:
    """The sentence; None where there is no fault.

    Parameters
    ----------
    state
        (1,) of `readings_kernels`.
    """
    fault = float(state[0]["fault"])
    if fault == 0.0:
        return None
    x, y, z = (float(one) for one in state[0]["mean_low"])
    size = float(np.linalg.norm([x, y, z]))
    found = f"at rest imu/low_g reads x {x:.2f}, y {y:.2f}, z {z:.2f} m/s^2"
    sensors, gravity = configuration.sensors, configuration.robot.gravity_m_s2
    if abs(size - 1.0) < _ABOUT_ONE:
        return f"{found}, as if in g, and m/s^2 are needed: multiply by {STANDARD_GRAVITY_M_S2} in the driver"
    if fault == readings.FAULT_TILTED:
        axis = max(zip(("x", "y", "z"), (x, y, z), strict=True), key=lambda pair: abs(pair[1]))
        return (
            f"{found}, gravity along {'-' if axis[1] < 0 else ''}{axis[0]}, where it must be along z, up the leg: "
            "axes are swapped or the robot does not stand upright; turn the axes in the driver, or start upright "
            f"within {sensors.largest_tilt_deg:g} deg (sensors.largest_tilt_deg)"
        )
    return (
        f"{found}, {size:.2f} m/s^2 in all: {abs(size - gravity):.2f} from gravity, allowed are "
        f"{sensors.low_offset_m_s2:g} (sensors.low_offset_m_s2); is its scale set?"
    )
