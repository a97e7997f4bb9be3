"""The library `hebi-py`, which is optional (whoever has no HEBI modules needs none), and what its feedback says."""

from __future__ import annotations

import contextlib
import io
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.installed import optional

Array = NDArray[np.float64]


class Feedback(NamedTuple):
    """What N modules said at one time; NaN where a module has no such sensor.

    Attributes
    ----------
    received_us
        (N,) when it arrived at this host, us since the epoch; 0 or the same as before: that module did not answer.
    hardware_us
        (N,) when the module sent it, us of its own clock; 0: it did not tell.
    gyro, accelerometer
        (N, 3) rad/s and m/s^2 in the frame of the module's IMU.
    orientation_xyzw
        (N, 4) from the IMU's frame to the world, as the module estimates it.
    joints
        (3, N): position (rad), velocity (rad/s), effort (N m).
    """

    received_us: NDArray[np.int64]
    hardware_us: NDArray[np.int64]
    gyro: Array
    accelerometer: Array
    orientation_xyzw: Array
    joints: Array


_W_LAST = [1, 2, 3, 0]


def copied(feedback: Any) -> Feedback:
    """A `hebi.GroupFeedback`, whose arrays are views of a buffer that the library writes over."""
    return Feedback(
        feedback.receive_time_us.astype(np.int64),
        feedback.hardware_transmit_time_us.astype(np.int64),
        feedback.gyro.astype(np.float64),
        feedback.accelerometer.astype(np.float64),
        feedback.orientation.astype(np.float64)[:, _W_LAST],
        np.array([feedback.position, feedback.velocity, feedback.effort], dtype=np.float64),
    )


def hebi_library() -> Any:
    """The module `hebi`, with `hebi.util`; UserError with the way to get it where it is not installed."""
    beside = "; beside NumPy 2, which it works with though it asks for numpy<2: pip install --no-deps hebi-py"
    # It prints that optional packages for drawing and keyboards are not there, which is nobody's concern here.
    with contextlib.redirect_stdout(io.StringIO()):
        optional("hebi.util", "hebi-py", "hebi", beside)
        return import_module("hebi")
