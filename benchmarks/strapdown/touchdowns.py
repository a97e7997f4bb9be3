"""Touchdowns from the readings of one IMU: an impact, and then a stance.

Two signs have to come together, since each alone deceives. An **impact** is a jerk: the slope of the specific force's
size over several readings, above a threshold (the hopping phase estimator of "Optimized Kalman Filter based State
Estimation and Height Control in Hopping Robots", section II). A heel that strikes, a toe that slaps and a push-off all
have one. A **stance** is the claim of `contact`; a foot that shifts its weight leaves it and returns to it
without having been lifted. A stance without an impact was put down softly: it counts when it has lasted for a while,
if there was motion before it.

**When it happened.** A stance is recognised late, when a window of readings is calm. From there the readings are
integrated backwards: the foot has touched down when its speed against the one in the stance fell below a threshold for
good. Tilt and gravity are those of the stance's window, so that over some tenths of a second nothing drifts far.
Where the foot was slow long before (lowered by hand, say), its first impact is the touchdown.

Causal: a touchdown has the time at which it happened and the time of the reading at which it was seen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.signal import medfilt, savgol_filter
from scipy.spatial.transform import Rotation

from benchmarks.measuring import Array
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Vector
from onboard_estimation.base.series import STANDARD_GRAVITY_M_S2
from strapdown_estimation.estimators.contact import UNSEEN, Claim, ContactState, detected
from strapdown_estimation.model.configuration import Contact

_SATURATED = 0.99


@dataclass(frozen=True)
class TouchdownParameters:
    """What makes a touchdown of a stance; `docs/strapdown.md` says on which recordings the values were chosen.

    Attributes
    ----------
    impact_jerk_m_s3, jerk_readings
        An impact: the specific force's size grows faster than this, over so many readings.
    landed_speed_m_s
        Touched down once the speed against the one in stance is below this for good.
    look_back_s
        Impacts and speed are looked for so long before a stance.
    soft_s
        A stance without an impact counts once it has lasted so long, if it moved before.
    swing_s
        No new touchdown unless there was no contact for so long.
    largest_gyro_bias_rad_s
        Until the IMU has lain still once, a stance turns no faster than this (20 deg/s).
    accelerometer_range_m_s2
        Readings at this size are saturated (8 g); they are an impact.
    """

    impact_jerk_m_s3: float = 350.0
    jerk_readings: int = 3
    landed_speed_m_s: float = 0.1
    look_back_s: float = 0.5
    soft_s: float = 0.15
    swing_s: float = 0.3
    largest_gyro_bias_rad_s: float = 0.35
    accelerometer_range_m_s2: float = 78.4


class Touchdown(NamedTuple):
    """One touchdown.

    Attributes
    ----------
    happened_ns, seen_ns
        When the foot touched down, and the stamp of the reading that told it.
    impact
        Whether there was an impact; otherwise it was put down softly.
    saturated
        The accelerometer was beyond its range shortly before the stance: `happened_ns` may be late, by the length of
        that at most.
    """

    happened_ns: int
    seen_ns: int
    impact: bool
    saturated: bool


class TouchdownDetector:
    """Readings in order of their stamps go in, touchdowns come out.

    A foot that stands when the readings begin has not touched down.
    """

    def __init__(self, parameters: TouchdownParameters | None = None) -> None:
        self.parameters = parameters or TouchdownParameters()
        self._claims = Contact()
        self._window_ns = _nanoseconds(self._claims.window_s)
        self._contact = UNSEEN.calibrated(np.zeros(3), STANDARD_GRAVITY_M_S2)
        self._first_rest: ContactState | None = UNSEEN
        self._readings: deque[tuple[int, Vector]] = deque()
        self._impacts: deque[int] = deque()
        self._contact_until_ns: int | None = None
        self._landing: Touchdown | None = None
        self._swinging = False

    def add(self, stamp_ns: int, reading: Vector) -> Touchdown | None:
        """The touchdown that this reading shows, if any.

        Parameters
        ----------
        stamp_ns
            Later than that of the reading before.
        reading
            (6,) gyro x y z (rad/s), accelerometer x y z (m/s^2).
        """
        self._remember(stamp_ns, reading)
        in_contact, until_ns = self._stance(stamp_ns, reading).in_contact, self._contact_until_ns
        if in_contact or until_ns is None:
            self._contact_until_ns = stamp_ns
        if not in_contact:
            self._landing = None
            self._swinging |= until_ns is not None and stamp_ns - until_ns >= _nanoseconds(self.parameters.swing_s)
            return None
        if self._swinging:
            self._swinging, self._landing = False, self._land(stamp_ns)
        landing = self._landing
        if landing is None or not (
            landing.impact or stamp_ns - landing.seen_ns >= _nanoseconds(self.parameters.soft_s)
        ):
            return None
        self._landing = None
        return landing._replace(seen_ns=stamp_ns)

    def _stance(self, stamp_ns: int, reading: Vector) -> Claim:
        """What the contact detector says, which learns at the first rest what the IMU reads at rest.

        Until then the gyro counts as unbiased. The first rest is found by another detector, which takes what is steady
        for a bias; a turn that is faster than a bias is none.
        """
        self._contact = detected(self._claims, self._contact, stamp_ns, reading)
        claim = self._contact.claim
        if self._first_rest is None:
            return claim
        self._first_rest = detected(self._claims, self._first_rest, stamp_ns, reading)
        if self._first_rest.claim.at_rest:
            calm = np.mean([one for stamp, one in self._readings if stamp > stamp_ns - self._window_ns], axis=0)
            if np.abs(calm[:3]).max() <= self.parameters.largest_gyro_bias_rad_s:
                self._contact = self._contact.calibrated(calm[:3], float(np.linalg.norm(calm[3:])))
                self._first_rest = None
        return claim

    def _remember(self, stamp_ns: int, reading: Vector) -> None:
        self._readings.append((stamp_ns, reading))
        begin_ns = stamp_ns - _nanoseconds(self.parameters.look_back_s)
        # One more than the look-back holds, so that its first step is whole.
        while len(self._readings) > 2 and self._readings[1][0] <= begin_ns:
            self._readings.popleft()
        while self._impacts and self._impacts[0] < begin_ns:
            self._impacts.popleft()
        count = self.parameters.jerk_readings
        newest = [self._readings[k] for k in range(-min(count, len(self._readings)), 0)]
        if self._is_saturated(reading) or (len(newest) == count and jerk(newest) > self.parameters.impact_jerk_m_s3):
            self._impacts.append(stamp_ns)

    def _is_saturated(self, reading: Vector) -> bool:
        return bool(np.abs(reading[3:]).max() >= _SATURATED * self.parameters.accelerometer_range_m_s2)

    def _land(self, stamp_ns: int) -> Touchdown | None:
        """The touchdown of the stance claimed first at the stamp; None: neither impact nor motion before it."""
        stamps, readings = map(np.array, zip(*self._readings, strict=True))
        saturated = [k for k, one in enumerate(readings) if self._is_saturated(one)]
        # What a saturated reading hides has ended when it ends: nothing is integrated beyond it.
        first = saturated[-1] + 1 if saturated else 0
        calm = int(np.searchsorted(stamps, stamp_ns - self._window_ns, side="right"))
        speeds = speeds_before(stamps[first:], readings[first:], readings[max(calm, first) :, 3:].mean(axis=0))
        fast = np.flatnonzero(speeds > self.parameters.landed_speed_m_s)
        slow_ns = int(stamps[first + min(fast[-1] + 1, len(speeds) - 1)] if fast.size else stamps[first])
        if self._impacts:
            return Touchdown(max(slow_ns, self._impacts[0]), stamp_ns, True, bool(saturated))
        return Touchdown(slow_ns, stamp_ns, False, False) if fast.size else None


def find_touchdowns(
    stamps_ns: NDArray[np.int64], readings: Array, parameters: TouchdownParameters | None = None
) -> list[Touchdown]:
    """All touchdowns of a recording: stamps (K,) ns, readings (K, 6) gyro (rad/s) and accelerometer (m/s^2)."""
    detector = TouchdownDetector(parameters)
    found = (detector.add(stamp, reading) for stamp, reading in zip(stamps_ns.tolist(), readings, strict=True))
    return [one for one in found if one is not None]


def jerk(readings: Sequence[tuple[int, Vector]]) -> float:
    """Slope by least squares, m/s^3, of the specific force's size over readings: stamp (ns) and (6,) values each.

    The size, so that no mounting has to be known; over several readings, so that the noise of one counts for little.
    """
    times = np.array([stamp - readings[0][0] for stamp, _ in readings]) / NANOSECONDS_PER_SECOND
    sizes = np.sqrt([float(reading[3:] @ reading[3:]) for _, reading in readings])
    centred = times - times.mean()
    return float(centred @ sizes / (centred @ centred))


def speeds_before(stamps_ns: NDArray[np.int64], readings: Array, rest: Vector) -> Array:
    """Speeds (K,) against the last of K readings, m/s, by integration backwards; the last is zero.

    Parameters
    ----------
    stamps_ns, readings
        (K,) and (K, 6).
    rest
        (3,) specific force at the last one, as without acceleration.
    """
    steps = np.diff(stamps_ns) / NANOSECONDS_PER_SECOND
    rotation, forces = Rotation.identity(), readings[:, 3:].copy()
    # Into the frame of the last reading, from step to step (trapezoidal rule).
    for k in range(len(steps) - 1, -1, -1):
        rotation = rotation * Rotation.from_rotvec(-0.5 * steps[k] * (readings[k, :3] + readings[k + 1, :3]))
        forces[k] = rotation.apply(forces[k])
    changes = (0.5 * (forces[1:] + forces[:-1]) - rest) * steps[:, None]
    return np.append(np.linalg.norm(np.cumsum(changes[::-1], axis=0)[::-1], axis=1), 0.0)


def _nanoseconds(seconds: float) -> int:
    return round(seconds * NANOSECONDS_PER_SECOND)


class Matches(NamedTuple):
    """What was matched: found minus reference, s, of the matched pairs, and how many there are of each."""

    errors_s: Array
    reference_count: int
    found_count: int

    @property
    def recall(self) -> float:
        """Share of the reference that was found."""
        return len(self.errors_s) / max(self.reference_count, 1)

    @property
    def precision(self) -> float:
        """Share of those found that are in the reference."""
        return len(self.errors_s) / max(self.found_count, 1)


def together(matches: Sequence[Matches]) -> Matches:
    """Of several recordings."""
    errors_s, reference, found = zip(*matches, strict=True)
    return Matches(np.concatenate(errors_s), sum(reference), sum(found))


def match_onsets(reference_s: Array, found_s: Array, tolerance_s: float = 0.05) -> Matches:
    """Match as many as can be, one to one, within the tolerance (inclusive, to a microsecond).

    Taking the earliest pair that fits, again and again, matches the most that can be matched.
    """
    reference, found = np.sort(reference_s), np.sort(found_s)
    errors = []
    i = k = 0
    while i < len(reference) and k < len(found):
        error = float(found[k] - reference[i])
        if abs(error) <= tolerance_s + 1e-6:
            errors.append(error)
            i, k = i + 1, k + 1
        elif error < 0.0:
            k += 1
        else:
            i += 1
    return Matches(np.array(errors), len(reference), len(found))


def match_stances(stances: Array, found_s: Array, early_s: float = 0.05) -> Matches:
    """Match by stance instead of by time: found is what lies in a stance (M, 2), or up to `early_s` before its begin.

    The first in a stance is its match; any further one has none. Errors count from the stance's begin.
    """
    found = np.sort(found_s)
    inside = [found[(found >= begin - early_s) & (found <= end)] - begin for begin, end in stances]
    return Matches(np.array([one[0] for one in inside if one.size]), len(stances), len(found))


def cleaned_runs(flags: NDArray[np.bool_], times_s: Array, gap_s: float = 0.1, short_s: float = 0.1) -> Array:
    """Begins and ends (M, 2) of the runs in which a flag is set: gaps below `gap_s` merged, then short ones dropped.

    A run ends with its last sample.
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]]))).reshape(-1, 2)
    merged: list[list[float]] = []
    for begin, end in edges:
        run = [float(times_s[begin]), float(times_s[end - 1])]
        if merged and run[0] - merged[-1][1] < gap_s:
            merged[-1][1] = run[1]
        else:
            merged.append(run)
    return np.array([run for run in merged if run[1] - run[0] >= short_s]).reshape(-1, 2)


def onsets(runs: Array, times_s: Array) -> Array:
    """Begins of runs; see `begun_later`."""
    return begun_later(runs, times_s)[:, 0]


def begun_later(runs: Array, times_s: Array) -> Array:
    """Runs (M, 2) without one that begins with the recording, or within 50 ms of that: its begin was not seen."""
    return runs[runs[:, 0] > times_s[0] + 0.05]


def speed_from_position(position_m: Array, times_s: Array, samples: int = 9) -> Array:
    """Speed (K,), m/s, of positions (K, 3): of a parabola through `samples` of their running medians of as many."""
    position = np.column_stack([medfilt(column, samples) for column in position_m.T])
    step_s = float(np.median(np.diff(times_s)))
    return np.linalg.norm(savgol_filter(position, samples, 2, deriv=1, delta=step_s, axis=0), axis=1)


def stances_from_position(position_m: Array, times_s: Array, speed_m_s: float = 0.2, height_m: float = 0.05) -> Array:
    """Stances (M, 2) that motion capture shows: slower than `speed_m_s` and no higher than `height_m`.

    The position (K, 3) has z up; the height counts from the median of the first 50 samples, at rest, and is a median
    over 9 samples, which takes single outliers away. Gaps under 100 ms are merged.
    """
    height = medfilt(position_m[:, 2], 9) - np.median(position_m[:50, 2])
    slow = speed_from_position(position_m, times_s) < speed_m_s
    return cleaned_runs(slow & (height < height_m), times_s, short_s=0.0)


def stances_from_force(force: Array, times_s: Array, threshold: float) -> Array:
    """Stances (M, 2) in which the force is above a threshold: gaps under 100 ms merged, runs under 50 ms dropped."""
    return cleaned_runs(force > threshold, times_s, short_s=0.05)
