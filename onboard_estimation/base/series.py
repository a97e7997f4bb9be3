"""What the robots' simulators share: topics of sensors and truth, stamps, gravity."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import IMU_PARTS, NANOSECONDS_PER_SECOND, Block, Channel, Limit, Vector

# Messages of whole recordings as arrays: what simulators give, and what evaluations read from bags.


@dataclass(frozen=True, eq=False)
class Series:
    """Messages of one topic as numbers: stamps (K,) int64 ns and values (K, d) as the channel's type sets them."""

    channel: Channel
    stamps_ns: NDArray[np.int64]
    values: NDArray[np.float64]

    def rows(self, rows: NDArray[np.int64] | slice) -> Series:
        """With some of its messages only, or in another order."""
        return replace(self, stamps_ns=self.stamps_ns[rows], values=self.values[rows])


MOST_AT_ONCE = 8192
"""Readings of a block of a recording."""


def blocks_of(series: Sequence[Series], arrival: NDArray[np.int64] | None = None) -> Iterator[Block]:
    """The readings of a recording in blocks.

    Parameters
    ----------
    series
        Each sensor's rows in the order of their stamps.
    arrival
        (M,) number of the series of each reading, in the order in which they are filtered; None: by their stamps, of
        one instant in the order of the series.
    """
    sensors, sizes = tuple(one.channel.sensor for one in series), tuple(one.values.shape[1] for one in series)
    if arrival is None:
        numbers = np.repeat(np.arange(len(series)), [len(one.stamps_ns) for one in series])
        stamps_ns = [np.empty(0, np.int64), *(one.stamps_ns for one in series)]
        arrival = numbers[np.argsort(np.concatenate(stamps_ns), kind="stable")]
    taken = [0] * len(series)
    for start in range(0, len(arrival), MOST_AT_ONCE):
        kinds = arrival[start : start + MOST_AT_ONCE].astype(np.int64)
        heard = np.unique(kinds).tolist()
        stamps, values = np.empty(len(kinds), np.int64), np.zeros((len(kinds), max(sizes[kind] for kind in heard)))
        for kind in heard:
            places = np.flatnonzero(kinds == kind)
            rows = slice(taken[kind], taken[kind] + len(places))
            stamps[places], values[places, : sizes[kind]] = series[kind].stamps_ns[rows], series[kind].values[rows]
            taken[kind] = rows.stop
        yield Block(sensors, sizes, kinds, stamps, values)


@dataclass(frozen=True, eq=False)
class Recording:
    """All that a bag of a robot would hold.

    Attributes
    ----------
    sensors
        Sensor and command topics.
    truth
        Ground truth topics: pose (7) or position (3) channels.
    """

    sensors: tuple[Series, ...]
    truth: tuple[Series, ...]


def run_start_ns(series: Iterable[Series]) -> int:
    """When a run starts: the median over the sensors, because one of them may have a clock of its own; 0 of nothing."""
    first = [one.stamps_ns.min() for one in series if len(one.stamps_ns)]
    return int(np.median(first)) if first else 0


@dataclass(frozen=True)
class Fault:
    """A change of what a sensor says, or of a simulated robot itself, over a part of a run.

    Attributes
    ----------
    name
        Of a sensor, and after a dot of its component: `imu/link_2.gyro_z`; or what changes of a robot: `wheel_2`.
    kind
        `offset`: added; `scale`: times; `noise`: white, by standard deviation; `drift`: added for each second of it;
        `clip`: to this magnitude; `stuck`: repeats its first reading; `silent`: sends none; `late`: stamps too late, s.
    size
        Of that, in the units of the component.
    from_s, until_s
        After the start of the run; all of the run by default.
    flag, text
        Option that asks for it, and what was typed, for messages.
    """

    name: str
    kind: Literal["offset", "scale", "noise", "drift", "clip", "stuck", "silent", "late"]
    size: float = 0.0
    from_s: float = -math.inf
    until_s: float = math.inf
    flag: str = "--fault"
    text: str = field(default="", compare=False)

    @property
    def sensor(self) -> str:
        """Its name without the component."""
        return self.name.partition(".")[0]

    @property
    def is_lasting(self) -> bool:
        """All of a run has it."""
        return self.from_s == -math.inf and self.until_s == math.inf

    def rows(self, series: Series, start_ns: int) -> NDArray[np.intp]:
        """Which messages of a run that starts at a stamp have it."""
        since_s = (series.stamps_ns - start_ns) / NANOSECONDS_PER_SECOND
        return np.flatnonzero((since_s >= self.from_s) & (since_s < self.until_s))

    def delayed(self, series: Series, start_ns: int) -> Series:
        """With stamps that are late."""
        stamps_ns = series.stamps_ns.copy()
        stamps_ns[self.rows(series, start_ns)] += round(self.size * NANOSECONDS_PER_SECOND)
        return replace(series, stamps_ns=stamps_ns)

    def misread(
        self, series: Series, columns: NDArray[np.intp], start_ns: int, rng: np.random.Generator, held: Held
    ) -> Series:
        """With other values in these columns, within the channel's limits.

        Parameters
        ----------
        held
            What stuck sensors repeat, kept from one piece of a recording to the next.
        """
        rows = self.rows(series, start_ns)
        if not len(rows):
            return series
        values = series.values.copy()
        where = np.ix_(rows, columns)
        read = values[where]
        if self.kind == "noise":
            read = read + rng.normal(0.0, self.size, read.shape)
        elif self.kind == "drift":
            begin_ns = start_ns + max(self.from_s, 0.0) * NANOSECONDS_PER_SECOND
            read = read + self.size * (series.stamps_ns[rows, None] - begin_ns) / NANOSECONDS_PER_SECOND
        elif self.kind == "clip":
            read = np.clip(read, -self.size, self.size)
        elif self.kind == "stuck":
            read = held.setdefault((series.channel.sensor, self), read[0])
        else:
            read = self.of(read)
        values[where] = read
        for limit in series.channel.limits:  # a wrong scale does not widen a sensor's range
            limited = columns[(columns >= limit.first) & (columns < limit.first + limit.count)]
            spoilt = np.ix_(rows, limited)
            values[spoilt] = np.clip(values[spoilt], -limit.largest, limit.largest)
        return replace(series, values=values)

    def of(self, value: Any) -> Any:
        """A value with the offset or scale."""
        return value * self.size if self.kind == "scale" else value + self.size


Held = dict[tuple[str, Fault], Vector]
"""By sensor and fault."""

STANDARD_GRAVITY_M_S2 = 9.80665
SET_POSE = "set_pose"
TRUTH_TOPICS = "ground_truth"


@runtime_checkable
class ControlledByEstimate(Protocol):
    """A simulation (see `onboard_estimation.contract.simulated.Simulation`) whose controller can go by an estimate.

    Until the first estimate it goes by the truth.
    """

    def take_estimate(self, height_m: float, velocity_m_s: float, phase: int) -> None:
        """Go by this from now on: height over the ground of the start, vertical velocity, number of the phase.

        A phase that is not known has the number -1.
        """


def in_time_order(series: Iterable[Series]) -> list[tuple[int, Channel, Vector]]:
    """Stamp (ns), channel and value (d,) of each measurement; at one stamp in the order of the series."""
    rows = (
        (stamp_ns, one.channel, value)
        for one in series
        for stamp_ns, value in zip(one.stamps_ns.tolist(), one.values, strict=True)
    )
    return sorted(rows, key=itemgetter(0))


def imu_channel(name: str, limits: tuple[Limit, ...] = (), needs: tuple[str, ...] = tuple(IMU_PARTS)) -> Channel:
    """IMU of a link or body; see `imu_limits` for its ranges."""
    return Channel(f"imu/{name}/data_raw", "sensor_msgs/msg/Imu", f"imu/{name}", limits=limits, needs=needs)


def set_pose_channel() -> Channel:
    """Where the robot is, given from outside: RViz's "2D Pose Estimate", a beacon; the filter goes on from there."""
    return Channel("set_pose", "geometry_msgs/msg/PoseWithCovarianceStamped", SET_POSE, required=False)


def truth_channel(body: str) -> Channel:
    """Motion capture of a body, with its orientation."""
    return Channel(f"{TRUTH_TOPICS}/{body}/pose", "geometry_msgs/msg/PoseStamped", f"ground_truth/{body}")


def with_truth_topics(recording: Recording, topics: str) -> Recording:
    """With the motion capture of bodies on other topics than `ground_truth/<body>/pose`: `<topics>/<body>/pose`."""
    truth = []
    for one in recording.truth:
        moved = re.sub(rf"^{TRUTH_TOPICS}/([^/]+/pose)$", rf"{topics}/\1", one.channel.topic)
        truth.append(replace(one, channel=replace(one.channel, topic=moved)))
    return replace(recording, truth=tuple(truth))


def nearest(times: NDArray[Any], among: NDArray[Any]) -> NDArray[np.intp]:
    """(K,) which of (L,) rising times is nearest to each; of two as near, the earlier one."""
    after = np.clip(np.searchsorted(among, times), 1, max(len(among) - 1, 1))
    is_before = times - among[after - 1] <= among[np.minimum(after, len(among) - 1)] - times
    return np.where(is_before | (len(among) == 1), after - 1, after)


def stamps_ns(duration_s: float, rate_hz: float) -> NDArray[np.int64]:
    """(K,) stamps from zero to the duration, both included, at a rate."""
    count = int(np.floor(duration_s * rate_hz + 1e-9)) + 1
    return np.round(np.arange(count) * (NANOSECONDS_PER_SECOND / rate_hz)).astype(np.int64)


def stamps_between(start_ns: int, stop_ns: int, rate_hz: float) -> NDArray[np.int64]:
    """The stamps of that rate, counted from zero, from `start_ns` up to `stop_ns`, which is left out."""
    period_ns = NANOSECONDS_PER_SECOND / rate_hz
    first, last = int(start_ns / period_ns), int(np.ceil(stop_ns / period_ns))
    stamps: NDArray[np.int64] = np.round(np.arange(first, last + 1) * period_ns).astype(np.int64)
    return stamps[(stamps >= start_ns) & (stamps < stop_ns)]
