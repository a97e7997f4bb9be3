"""A stream of motion capture, whoever sends it: which frames follow, which poses count, how it fares."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivers.motion_capture.bodies import BodyPoses, plausible
from drivers.repeats import CountedRepeats
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Matrix
from onboard_estimation.pipeline.device_clock import DeviceClock
from onboard_estimation.ros.diagnostics import ERROR, OK, STALE, WARN

_FASTEST_HZ, _USUAL_GAP = 2000, 100
"""Numbers rise no faster than cameras expose; more by so many where the network holds frames back and loses some."""
_CONFIRMATIONS = 5
_SAME_BY_CHANCE = 10
"""The last digits of a body that is seen are noise: it is not where it was to all of them so often in a row."""
_COUNTS = ("frames", "lost", "late", "repeated", "doubted", "unstamped", "unconfirmed", "invalid_poses", "frozen_poses")
_CHANGES = ("reconnections", "model_changes")
_NO_FAULTS = ("frames", "model_changes")
_MISSED = {"occluded": "not seen", "frozen": "the same pose"}
"""Of a body, by the name of its count: why its pose is left out."""


Places = NDArray[np.intp] | None
"""(K,) among the names, of the bodies of a frame; beyond: of none. None: it is of all of them, in their order."""


def places_of(numbers: Iterable[Hashable], place_of: Mapping[Any, int], count: int) -> Places:
    """Among so many names, by what a stream numbers its bodies by."""
    found = [place_of.get(number, count) for number in numbers]
    return None if found == list(range(count)) else np.array(found, dtype=np.intp)


class StreamHealth:
    """Follows one stream from the start on, counts, and reports.

    Parameters
    ----------
    farthest_m
        From the origin: a pose beyond is none.
    say
        Takes a sentence, and whether it is bad.

    Attributes
    ----------
    counts
        `frames` that came. Of these are left out: `late` ones, whose number was before that of one that had come;
        `repeated` ones, of the same time as the one before; `doubted` ones, whose number did not follow; `unconfirmed`
        ones, while it was not known which bodies they were of; `unstamped` ones, whose time could not be mapped (or
        these are stamped by their arrival, as the driver says). Missing by their numbers are `lost`. Of poses,
        `invalid_poses` could not be, and `frozen_poses` were to the last digit where the body had been. The server was
        another `reconnections` times, its set of bodies `model_changes` times. Messages left out are counted under
        `unreadable_` and the reason.
    began_anew
        Whether the newest frame's number confirmed that numbers are counted anew: the server restarted.
    last_s
        When the newest frame came that followed, by the monotonic clock; NaN: none did.
    """

    def __init__(self, farthest_m: float, say: Callable[[str, bool], object]) -> None:
        self._farthest_m, self._say = farthest_m, say
        self.counts: dict[str, int] = dict.fromkeys((*_COUNTS, *_CHANGES), 0)
        self.began_anew = False
        self.last_s = math.nan
        self._last: tuple[int, int] | None = None  # number and arrival
        self._before = (0, 0)  # the number before the last, and how many were lost between
        self._step = 0
        self._suspects: list[tuple[int, int]] = []  # as the last, of frames in a row that do not follow it
        self._repeats = CountedRepeats()
        self._is_repeating = False
        self._names: tuple[str, ...] = ()
        self._places_m, self._stood = np.empty((0, 3)), np.empty(0, dtype=np.int64)  # of each body, for how many frames
        self._frozen: frozenset[str] = frozenset()
        self._missed = np.zeros((2, 0), dtype=np.int64)  # frames that a body was not seen in, and was frozen in
        self._since = self._missed
        self._latency_s = math.nan
        self._reported: dict[str, float] = {}
        self._reported_s = time.monotonic()

    def refuse(self, reason: str) -> None:
        """Count a message that could not be read; `reason` is one of a few words of the program's own."""
        name = f"unreadable_{reason.replace(' ', '_')}"
        self.counts[name] = self.counts.get(name, 0) + 1

    def forget_numbers(self) -> None:
        """The next frame follows none: the server is another, or was asked anew."""
        self._last, self._before = None, (0, 0)
        self._suspects.clear()

    def follows(self, number: int, device_time: float | None, arrived_ns: int) -> bool:
        """Count a frame; whether it is to be taken.

        One whose number falls, or rises by more than cameras can have exposed meanwhile, is left out. Where more follow
        it, and none follows the one before it, numbers go on from there: they `began_anew`, unless they fell by less
        than a network mixes frames.

        Parameters
        ----------
        number
            That the server counts by; one that sends every second frame counts by two: the least step is the usual one.
        device_time
            Of the exposure, in whatever unit; None: it is not told, and the number stands for it.
        arrived_ns
            When it came, ns since the epoch.
        """
        self.began_anew = False
        self.counts["frames"] += 1
        mark = number if device_time is None else device_time
        if not self._repeats.fresh(np.array([mark]))[0]:
            self.counts["repeated"] += 1
            return False
        step = _step(self._last, number, arrived_ns)
        if step is None and not self._is_confirmed(number, arrived_ns):
            return False
        self._suspects.clear()
        if step and self._last is not None:
            self._step = min(self._step or step, step)
            self._before = self._last[0], step // self._step - 1
            self.counts["lost"] += self._before[1]
        self._last, self.last_s = (number, arrived_ns), time.monotonic()
        return True

    def _is_confirmed(self, number: int, arrived_ns: int) -> bool:
        """Whether a number that does not follow is that of a restart: of one frame, it came late or is forged."""
        assert self._last is not None
        fell = self._last[0] - number
        if self._suspects and _step(self._suspects[-1], number, arrived_ns) is None:
            self._suspects.clear()
        self._suspects.append((number, arrived_ns))
        if len(self._suspects) < _CONFIRMATIONS:
            self.counts["late" if 0 < fell <= _USUAL_GAP else "doubted"] += 1
            return False
        if self._before[0] < self._suspects[0][0] < self._last[0]:
            self.counts["lost"] -= self._before[1]  # what made the gap was no frame of this stream
        elif not 0 < fell <= _USUAL_GAP:
            self.began_anew, self._step = True, 0
            self._say(
                f"frame numbers began anew, at {number}: a restart, or another recording; times are mapped anew", True
            )
        self._before = number, 0
        return True

    def placed(
        self,
        stamp_ns: int,
        arrived_ns: int,
        names: tuple[str, ...],
        places: Places,
        poses: Matrix,
        tracked: NDArray[np.bool_] | bool,
    ) -> BodyPoses:
        """A frame that goes out, of K `poses` (K, 7) in the world, at `places` among the names; True: all are tracked.

        Bodies are not tracked whose pose cannot be, or has been the same for long.
        """
        if names is not self._names:
            self._names = names
            self._places_m, self._stood = np.full((len(names), 3), np.nan), np.zeros(len(names), dtype=np.int64)
            self._missed = np.zeros((2, len(names)), dtype=np.int64)
            self._since = self._missed.copy()
        good = tracked & plausible(poses, self._farthest_m)
        if not good.all():  # a body without a quaternion is not seen, says NatNet 2.5
            self.counts["invalid_poses"] += int(np.count_nonzero(tracked & ~good & poses[:, 3:].any(axis=1)))
        if places is not None:
            kept = good & (places < len(names))
            rows, poses, good = poses[kept], np.zeros((len(names), 7)), np.zeros(len(names), dtype=np.bool_)
            poses[places[kept]], good[places[kept]] = rows, True
        self._latency_s = (arrived_ns - stamp_ns) / NANOSECONDS_PER_SECOND
        self._stood = np.where((poses[:, :3] == self._places_m).all(axis=1), self._stood + 1, 0)
        self._places_m, live = poses[:, :3].copy(), good & (self._stood <= _SAME_BY_CHANCE)
        if not live.all():
            frozen = good & ~live
            self.counts["frozen_poses"] += int(np.count_nonzero(frozen))
            self._missed += ~good, frozen
        return BodyPoses(stamp_ns, names, poses, live)

    def silence(self, began_s: float, now_s: float, silent_s: float) -> str:
        """A sentence where frames could come since then, and none has followed for so long; else empty."""
        since_s = now_s - (began_s if math.isnan(self.last_s) else max(began_s, self.last_s))
        return (
            f"connected, and no frame for {since_s:.1f} s: is the server live, or paused?" if since_s > silent_s else ""
        )

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
        frames = self.counts["frames"] - int(self._reported.get("frames", 0))
        missed_since = self._missed - self._since
        self._tell_of_repeats(missed_since[1])
        values: dict[str, float] = {**self.counts, "rate_hz": frames / max(now_s - self._reported_s, 1e-3)}
        values["latency_ms"] = 1e3 * self._latency_s
        if clock is not None:
            values |= {"clock_skew_ppm": clock.skew_ppm, "clock_stddev_us": 1e6 * clock.stddev_s}
            values |= {"clock_jumps": clock.jumps}
        level, text = self._state(trouble, values["rate_hz"], frames)
        statuses = [status("stream", level, text, values | dict(more))]
        for body, totals, missed in zip(self._names, self._missed.T.tolist(), missed_since.T.tolist(), strict=True):
            well = OK if not any(missed) else STALE if sum(missed) >= frames else WARN
            words = [f"{what} in {one}" for what, one in zip(_MISSED.values(), missed, strict=True) if one]
            text = f"{', '.join(words)} of {max(frames, sum(missed))} frames" if words else "tracked"
            statuses.append(status(body, well, text, dict(zip(_MISSED, totals, strict=True))))
        self._reported, self._since, self._reported_s = values, self._missed.copy(), now_s
        return statuses

    def _tell_of_repeats(self, frozen: NDArray[np.int64]) -> None:
        """Of frames and of bodies' poses (B,) that were sent again and again since the last report."""
        now = frozenset(name for name, one in zip(self._names, frozen.tolist(), strict=True) if one)
        new, self._frozen = now - self._frozen, now
        told = self._repeats.told("the stream", "is the server paused, or does it hang?")
        if bool(told) != self._is_repeating:
            self._say(told or "the stream gives new frames again", bool(told))
        self._is_repeating = bool(told)
        if new:
            self._say(
                f"{', '.join(sorted(new))}: the same position to the last digit in each frame, poses are left out: has "
                "the server lost sight of it, and sends the last one?",
                True,
            )

    def _state(self, trouble: str, rate_hz: float, frames: int) -> tuple[bytes, str]:
        if trouble:
            return ERROR, trouble
        if not frames:
            return STALE, "no frame since the last report"
        told = {key: count - self._reported.get(key, 0) for key, count in self.counts.items() if key not in _NO_FAULTS}
        wrong = ", ".join(f"{count:.0f} {key}" for key, count in told.items() if count)
        text = f"{rate_hz:.1f} frames a second, {len(self._names)} bodies"
        return (WARN, f"{text}; {wrong}") if wrong else (OK, text)


def _step(last: tuple[int, int] | None, number: int, arrived_ns: int) -> int | None:
    """By how much a number follows the last one; 0: it is the first; None: it does not follow."""
    if last is None:
        return 0
    passed_s = max(arrived_ns - last[1], 0) / NANOSECONDS_PER_SECOND
    return number - last[0] if 0 < number - last[0] <= _USUAL_GAP + _FASTEST_HZ * passed_s else None
