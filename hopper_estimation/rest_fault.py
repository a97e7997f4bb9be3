"""Why accelerometers that were looked at while the robot stood cannot be right, in a sentence with a way out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hopper_estimation import readings_kernels as readings
from hopper_estimation.configuration import HopperConfiguration

STANDARD_GRAVITY_M_S2 = 9.80665
_ABOUT_ONE = 0.2


def rest_fault(configuration: HopperConfiguration, state: NDArray[np.float64]) -> str | None:
    """The sentence; None where there is no fault.

    Parameters
    ----------
    state
        (STATE_SIZE,) of `readings_kernels`.
    """
    fault = float(state[readings.R_FAULT])
    if fault == 0.0:
        return None
    x, y, z = (float(one) for one in state[readings.R_MEAN_LOW : readings.R_MEAN_LOW + 3])
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
