"""What an inspection of a bag finds out, as data: for the terminal (`inspection.render`) and for JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from onboard_estimation.base.atomic_file import plain
from onboard_estimation.judging.body_frames import FrameReport
from onboard_estimation.judging.clock_alignment import ClockReport

INTERVAL_EDGES = (0.0, 0.5, 0.9, 1.1, 1.5, 2.5, 5.0, math.inf)
"""Of the histogram of intervals between messages, in their median."""

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class TimingReport:
    """Times of one topic's messages, by their header stamps (log times where the type has no header).

    Attributes
    ----------
    rate_hz
        1 / median of the steps forward; None for less than two messages.
    duration_s
        From the first to the last message.
    regular
        Most steps are near the median, so that a gap means lost messages.
    gaps
        Steps longer than five median steps.
    longest_gap_s, longest_gap_at_s
        The longest of them, and when it starts, in seconds since the bag's start.
    duplicates
        Messages with the same time as the one before.
    backward_jumps, largest_backward_s
        Messages with an earlier time than the one before, and how far the farthest jumps.
    intervals
        Histogram of the steps forward, between `INTERVAL_EDGES`, in median steps; empty for less than two messages.
    """

    rate_hz: float | None
    duration_s: float
    regular: bool
    gaps: int
    longest_gap_s: float
    longest_gap_at_s: float
    duplicates: int
    backward_jumps: int
    largest_backward_s: float
    intervals: tuple[int, ...] = ()


@dataclass(frozen=True)
class TopicReport:
    """One topic.

    Attributes
    ----------
    has_header
        Times are header stamps; otherwise log times.
    undecodable
        Messages that are not what the topic's type says.
    tailed, longest_tail
        Messages with bytes behind their end, and the most such bytes of one; of topics that an estimator could read.
    not_finite
        Messages with NaN or infinity among the numbers that an estimator reads; None where they were not looked at.
    delay_median_s, delay_largest_s
        Log time minus header stamp: the median, and the value farthest from it. None without header.
    frames
        Every `header.frame_id`, the most frequent first.
    """

    name: str
    message_type: str
    count: int
    has_header: bool
    timing: TimingReport
    undecodable: int
    not_finite: int | None
    delay_median_s: float | None
    delay_largest_s: float | None
    frames: tuple[str, ...]
    tailed: int = 0
    longest_tail: int = 0


@dataclass(frozen=True)
class TruthReport:
    """Quality of one ground-truth topic.

    Attributes
    ----------
    coverage
        Share of the sensors' time with a pose at most five median steps away.
    longest_hole_s, longest_hole_at_s
        The longest time without a pose within the sensors' time, and when it starts, in seconds since the bag's start.
    jumps, first_jump_at_s
        Steps that no body makes: faster than 10 m/s (and over 1 cm) or 35 rad/s (and over 0.2 rad).
    flips
        Jumps that are a turn by 90, 120 or 180 degrees, as of markers that are taken one for the other.
    frozen_s, frozen_at_s
        The longest time with the very same pose, out of which the body jumps, and when it starts; 0 without such.
    largest_step_m, largest_turn_rad
        The largest step between neighbouring poses.
    unusable
        Poses with NaN, or whose quaternion is none.
    """

    topic: str
    coverage: float
    longest_hole_s: float
    longest_hole_at_s: float
    jumps: int
    first_jump_at_s: float
    largest_step_m: float
    largest_turn_rad: float
    unusable: int
    flips: int = 0
    frozen_s: float = 0.0
    frozen_at_s: float = 0.0


@dataclass(frozen=True)
class RobotReport:
    """Which of a known robot's topics are in the bag; names relative to the robot's namespace.

    Attributes
    ----------
    refused
        What the robot's estimators would refuse as beyond their sensors' ranges, one sentence a topic.
    """

    name: str
    present: tuple[str, ...]
    missing: tuple[str, ...]
    missing_required: tuple[str, ...]
    refused: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """One sentence for a person, and how bad it is."""

    severity: Severity
    text: str


@dataclass(frozen=True)
class Inspection:
    """A bag at one glance.

    Attributes
    ----------
    namespace
        What all topics start with (`/salp`), or empty; the findings leave it out.
    start_ns, duration_s
        By log time.
    findings
        What is wrong or worth knowing, the most important first.
    clocks
        What the motion tells of each IMU and the tracked body that it is on.
    frames
        Where the IMUs sit on their bodies, and which way is up.
    """

    path: str
    format: str
    distribution: str | None
    size_bytes: int
    namespace: str
    message_count: int
    start_ns: int
    duration_s: float
    damage: str | None
    topics: tuple[TopicReport, ...]
    truth: tuple[TruthReport, ...]
    robots: tuple[RobotReport, ...]
    clocks: tuple[ClockReport, ...] = ()
    frames: tuple[FrameReport, ...] = ()
    findings: tuple[Finding, ...] = ()

    def to_mapping(self) -> Mapping[str, Any]:
        """For JSON: plain dictionaries, lists, finite numbers, text and None."""
        found: Mapping[str, Any] = plain(asdict(self))
        return found

    def within_namespace(self) -> Inspection:
        """With all names of topics within the namespace."""
        return replace(
            self,
            topics=self._short(self.topics, "name"),
            truth=self._short(self.truth, "topic"),
            clocks=self._short(self.clocks, "sensor", "body", "rather"),
            frames=self._short(self.frames, "sensor", "body"),
        )

    def _short(self, reports: tuple[Any, ...], *names: str) -> tuple[Any, ...]:
        return tuple(
            replace(one, **{name: short_name(getattr(one, name), self.namespace) for name in names}) for one in reports
        )


def short_name(topic: str, namespace: str) -> str:
    """The topic's name within the namespace: `imu/link_1/data_raw` for `/salp/imu/link_1/data_raw`."""
    return topic.removeprefix(f"{namespace}/") if namespace else topic
