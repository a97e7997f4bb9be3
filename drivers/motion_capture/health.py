"""How a stream of motion capture fares, for `/diagnostics`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from drivers.motion_capture.bodies import BodyPoses
from onboard_estimation.ros.diagnostics import ERROR, OK, STALE, WARN
from onboard_estimation.timing.device_clock import DeviceClock


class StreamHealth:
    """Counts of one stream since the start, and its report.

    Attributes
    ----------
    frames, lost, late
        Frames that came; missing by their numbers; whose number was before that of one that had come.
    reconnections, model_changes
        How often the server, or its set of bodies, was another than before.
    unstamped
        Frames whose time could not be mapped: left out, or stamped by their arrival, as the driver says.
    unreadable
        Messages left out, by reason.
    """

    def __init__(self) -> None:
        self.frames = self.lost = self.late = self.reconnections = self.model_changes = self.unstamped = 0
        self.unreadable: dict[str, int] = {}
        self._number: int | None = None
        self._names: tuple[str, ...] = ()
        self._occluded = np.zeros(0, dtype=np.int64)
        self._since = self._occluded
        self._latency_s, self._largest_latency_s = math.nan, math.nan
        self._before: dict[str, float] = {}
        self._reported_s = time.monotonic()

    def refuse(self, reason: str) -> None:
        """Count a message that could not be read; `reason` is one of a few words of the program's own."""
        self.unreadable[reason] = self.unreadable.get(reason, 0) + 1

    def forget_number(self) -> None:
        """The next frame's number follows none: the server is another, or was asked anew."""
        self._number = None

    def count(self, number: int) -> bool:
        """Count a frame by its number; whether it is newer than those before."""
        self.frames += 1
        if self._number is not None:
            if number <= self._number:
                self.late += 1
                return False
            self.lost += number - self._number - 1
        self._number = number
        return True

    def fallen_by(self, number: int) -> int:
        """How far a number is below the newest."""
        return 0 if self._number is None else self._number - number

    def take(self, poses: BodyPoses, latency_s: float) -> None:
        """A frame that goes out; the latency is from exposure to here."""
        if poses.names != self._names:
            self._names = poses.names
            self._occluded = np.zeros(len(poses.names), dtype=np.int64)
            self._since = self._occluded.copy()
        self._occluded += ~poses.tracked
        self._latency_s = latency_s
        self._largest_latency_s = max(latency_s, self._largest_latency_s) if self._frames_since() else latency_s

    def statuses(
        self, status: Callable[..., Any], trouble: str, clock: DeviceClock | None, more: Mapping[str, float]
    ) -> list[Any]:
        """Since the last call: one for the stream, one for each of its bodies.

        Parameters
        ----------
        status
            Makes one, see `DriverNode.status`.
        trouble
            Empty where the stream runs.
        """
        now_s = time.monotonic()
        frames, period_s = self._frames_since(), max(now_s - self._reported_s, 1e-3)
        values = self._values(frames / period_s, clock) | dict(more)
        level, text = self._state(trouble, values, frames)
        statuses = [status("stream", level, text, values)]
        for body, count, before in zip(self._names, self._occluded.tolist(), self._since.tolist(), strict=True):
            missed = count - before
            well = OK if not missed else STALE if missed >= frames else WARN
            words = f"not seen in {missed} of {max(frames, missed)} frames" if missed else "tracked"
            statuses.append(status(body, well, words, {"occluded": count}))
        self._before, self._since, self._reported_s = values, self._occluded.copy(), now_s
        return statuses

    def _frames_since(self) -> int:
        return self.frames - int(self._before.get("frames", 0))

    def _values(self, rate_hz: float, clock: DeviceClock | None) -> dict[str, float]:
        values: dict[str, float] = {
            "frames": self.frames,
            "lost": self.lost,
            "late": self.late,
            "rate_hz": rate_hz,
            "unstamped": self.unstamped,
            "reconnections": self.reconnections,
            "model_changes": self.model_changes,
            "latency_ms": 1e3 * self._latency_s,
            "largest_latency_ms": 1e3 * self._largest_latency_s,
        }
        if clock is not None:
            values |= {"clock_skew_ppm": clock.skew_ppm, "clock_stddev_us": 1e6 * clock.stddev_s}
            values |= {"clock_jumps": clock.jumps}
        return values | {f"unreadable_{reason.replace(' ', '_')}": n for reason, n in self.unreadable.items()}

    def _state(self, trouble: str, now: Mapping[str, float], frames: int) -> tuple[bytes, str]:
        if trouble:
            return ERROR, trouble
        if not frames:
            return STALE, "no frame since the last report"
        told = {
            key: count - self._before.get(key, 0.0)
            for key, count in now.items()
            if key in ("lost", "late", "unstamped", "reconnections") or key.startswith("unreadable")
        }
        wrong = ", ".join(f"{count:.0f} {key}" for key, count in told.items() if count)
        text = f"{now['rate_hz']:.1f} frames a second, {len(self._names)} bodies"
        return (WARN, f"{text}; {wrong}") if wrong else (OK, text)
