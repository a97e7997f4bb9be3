"""Feedback of a group of modules, from the library's thread to the node's."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
_LARGEST_NORM_ERROR = 0.1


def checked_imu(feedback: Feedback, place: int) -> Array:
    """(10,) gyro (rad/s), accelerometer (m/s^2), attitude xyzw of a module; NaN for a part that is no measurement."""
    value = np.concatenate([feedback.gyro[place], feedback.accelerometer[place], feedback.orientation_xyzw[place]])
    for part in (slice(0, 3), slice(3, 6), slice(6, 10)):
        if not np.isfinite(value[part]).all():
            value[part] = np.nan
    if not abs(np.linalg.norm(value[6:]) - 1.0) < _LARGEST_NORM_ERROR:
        value[6:] = np.nan
    return value


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


class FeedbackQueue:
    """The library's handler: copies, and nothing else, for it holds up the library's thread.

    Attributes
    ----------
    copied
        How many came.
    overflow
        How many of the oldest were dropped since nobody took them.
    faults
        How often a feedback could not be copied; of an exception the library only prints a line.
    """

    def __init__(self, length: int) -> None:
        self._waiting: deque[Feedback] = deque(maxlen=length)
        self.copied = self.overflow = self.faults = 0
        self._fault: Exception | None = None

    def __call__(self, feedback: Any) -> None:
        """Keep a copy; runs in the library's thread."""
        try:
            one = copied(feedback)
        except Exception as error:
            self.faults += 1
            self._fault = error
            return
        self.copied += 1
        self.overflow += len(self._waiting) == self._waiting.maxlen
        self._waiting.append(one)

    def taken(self) -> list[Feedback]:
        """All that waits, the oldest first."""
        found = []
        while True:
            try:
                found.append(self._waiting.popleft())
            except IndexError:
                return found

    def new_fault(self) -> Exception | None:
        """The newest exception since the last call."""
        fault, self._fault = self._fault, None
        return fault
