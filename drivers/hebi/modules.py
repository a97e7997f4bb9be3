"""One module: its readings with times of its own clock as host time, whether it answers anew, and how it fares."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from drivers.hebi.library import Array, Feedback
from drivers.repeats import CountedRepeats
from onboard_estimation.base.measurement import Vector
from onboard_estimation.pipeline.device_clock import DeviceClock

_LARGEST_NORM_ERROR = 0.1
_TICK_S = 1e-6
_END_US = 2**31 * 1_000_000
"""Of what a stamp can hold."""
_ALIKE_BY_CHANCE = 20
"""Readings in a row of an IMU that works; of 999 of a module at rest no two were alike."""
_REMEDY = "power it off and on"


class Reading(NamedTuple):
    """What one module says in one feedback.

    Attributes
    ----------
    stamp_ns
        When it was sent, ns since the epoch of the host; None: an old feedback again, or its time cannot be right.
    imu
        (10,) see `checked_imu`.
    is_new
        Whether the IMU is not known to stand still.
    """

    stamp_ns: int | None
    imu: Vector
    is_new: bool


class Module:
    """What is known of a module from its feedback.

    Parameters
    ----------
    offset_ns
        See `DeviceClock`.
    has_noise
        Its IMU never reads the same for long; else that is nothing to be said.

    Attributes
    ----------
    received, missed, refused, repeated
        How many readings came; how many feedbacks of the group came without one of it; how many readings had a time
        that cannot follow those before; how many were those before again, by the module's clock or by their values.
    trouble
        `silent` or `frozen`: it has not answered, or not anew, for a while; empty: neither.
    """

    def __init__(
        self,
        name: str,
        silent_s: float,
        latency_s: float,
        offset_ns: Callable[[], int] | None = None,
        has_noise: bool = True,
    ) -> None:
        self.name = name
        self.received = self.missed = self.refused = 0
        self.trouble = ""
        self.clock = DeviceClock(_TICK_S, None, latency_s, offset_ns)
        self._silent_s, self._has_noise = silent_s, has_noise
        self._sent, self._measured = CountedRepeats(), CountedRepeats(_ALIKE_BY_CHANCE)
        self._received_us = 0
        self._reported: tuple[float, dict[str, int]] = (0.0, {})
        self.begin(0.0)

    @property
    def repeated(self) -> int:
        """See above."""
        return self._sent.count + self._measured.count

    def begin(self, now_s: float) -> None:
        """It may answer from now on."""
        self._heard_s = self._new_s = self._trouble_since_s = now_s
        self._reported = (now_s, self._reported[1])

    def reading(self, feedback: Feedback, place: int, now_s: float, by_arrival: bool = False) -> Reading | None:
        """Its reading in a feedback of the group, where it has this place; None: it did not answer.

        `by_arrival`: stamp it so, whatever its own clock says.
        """
        received_us, hardware_us = int(feedback.received_us[place]), int(feedback.hardware_us[place])
        if not 0 < received_us < _END_US or received_us == self._received_us:
            self.missed += 1
            return None
        self._received_us, self._heard_s = received_us, now_s
        self.received += 1
        imu = checked_imu(feedback, place)
        if hardware_us > 0 and not self._sent.fresh(np.array([hardware_us]))[0]:
            return Reading(None, imu, False)
        has_imu = self._has_noise and not np.isnan(imu[:6]).all()
        is_new = not has_imu or bool(self._measured.fresh(imu[None, :6])[0])
        if is_new:
            self._new_s = now_s
        # Without a time of its own there is none better than that of its arrival.
        stamp_ns: int | None = 1000 * received_us
        if hardware_us > 0 and not by_arrival:
            stamp_ns = self.clock.stamp_ns(hardware_us, 1000 * received_us)
        self.refused += stamp_ns is None
        return Reading(stamp_ns, imu, is_new)

    def state(self, now_s: float) -> tuple[str, str]:
        """A sentence where it is silent or frozen, else empty; and another on that this is over."""
        before, quiet_s, old_s = self.trouble, now_s - self._heard_s, now_s - self._new_s
        self.trouble = "silent" if quiet_s > self._silent_s else "frozen" if old_s > self._silent_s else ""
        if not self.trouble:
            how = "answers" if before == "silent" else "gives new readings"
            return "", f"module {self.name} {how} again, after {self._new_s - self._trouble_since_s:.1f} s"
        if not before:
            self._trouble_since_s = self._new_s
        if self.trouble == "silent":
            return f"module {self.name} has been silent for {quiet_s:.1f} s, after {self.received} readings", ""
        said = f"module {self.name} has given the same reading for {old_s:.1f} s"
        return f"{said}, {self.repeated} were left out: {_REMEDY}", ""

    def report(self, now_s: float) -> tuple[bool, str, dict[str, float]]:
        """Since the last report: whether all is well, in words, figures for /diagnostics."""
        clock, (before_s, before) = self.clock, self._reported
        counts = {"received": self.received, "lost": self.missed, "refused": self.refused, "clock_jumps": clock.jumps}
        self._reported = now_s, counts
        received, missed, refused, jumps = (count - before.get(name, 0) for name, count in counts.items())
        rate_hz = received / (now_s - before_s) if now_s > before_s else math.nan
        words = [f"{rate_hz:.1f} Hz"]
        words += [f"{missed} lost"] if missed else []
        words += [f"{refused} refused"] if refused else []
        words += [f"its clock started anew {jumps} times"] if jumps else []
        words += filter(None, (one.told(self.name, _REMEDY) for one in (self._sent, self._measured)))
        figures = {"clock_skew_ppm": clock.skew_ppm, "clock_stddev_us": 1e6 * clock.stddev_s}
        values = {"rate_hz": rate_hz, **counts, "repeated": self.repeated, **figures}
        return len(words) == 1 and received > 0, ", ".join(words), {**values, "clock_implausible": clock.implausible}


def checked_imu(feedback: Feedback, place: int) -> Array:
    """(10,) gyro (rad/s), accelerometer (m/s^2), attitude xyzw of a module; NaN for a part that is no measurement."""
    value = np.concatenate([feedback.gyro[place], feedback.accelerometer[place], feedback.orientation_xyzw[place]])
    for part in (slice(0, 3), slice(3, 6), slice(6, 10)):
        if not np.isfinite(value[part]).all():
            value[part] = np.nan
    if not abs(np.linalg.norm(value[6:]) - 1.0) < _LARGEST_NORM_ERROR:
        value[6:] = np.nan
    return value


def joint_values(feedback: Feedback, readings: list[Reading | None]) -> tuple[int, Vector] | None:
    """Newest stamp of the N modules' readings, and (3 N,) position (rad), velocity (rad/s), effort (N m) of each.

    NaN where a module did not answer anew; None where none did.
    """
    stamps = [one.stamp_ns if one is not None else None for one in readings]
    there = [stamp_ns for stamp_ns in stamps if stamp_ns is not None]
    answered = np.array([stamp_ns is not None for stamp_ns in stamps])
    return (max(there), np.where(answered, feedback.joints, np.nan).ravel()) if there else None
