"""What goes into a pipeline and what comes out: time-stamped vectors, free of ROS, files and clocks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

NANOSECONDS_PER_SECOND = 1_000_000_000


@dataclass(slots=True)  # frozen, it would cost three times as much to make, thousands of times a second
class Measurement:
    """One message of one sensor as numbers; a value: never written.

    Attributes
    ----------
    stamp_ns
        When it was measured: the message's `header.stamp`, nanoseconds since the epoch.
    sensor
        Name of the sensor, e.g. `imu/link_2`: the key of its counters and of its share of a pipeline.
    value
        (d,) float64. The elements follow from the message type, see `Channel`.
    """

    stamp_ns: int
    sensor: str
    value: Vector


@dataclass(slots=True)  # as above
class Estimate:
    """State of a filter at one instant; a value: never written.

    Attributes
    ----------
    stamp_ns
        Instant that the state belongs to, nanoseconds since the epoch.
    mean
        (a,) float64: coordinates of the state in its `StateSpace` (a quaternion has four).
    covariance
        (n, n) float64: covariance of the error in the tangent space at the mean (a rotation has three).
    """

    stamp_ns: int
    mean: Vector
    covariance: Matrix


class Notice(NamedTuple):
    """What only an estimator can see and somebody should know: a stuck sensor, a contradiction.

    Attributes
    ----------
    sentence
        For the log and for the notes of a run; names sensor and time.
    """

    sentence: str


class PhaseEvent(NamedTuple):
    """Something that happens between two phases of a robot's motion.

    Attributes
    ----------
    name
        What happened, e.g. `touchdown`.
    stamp_ns, seen_ns
        When it happened, and stamp of the measurement that it was seen in, nanoseconds since the epoch.
    stddev_s
        Standard deviation of the time of the event; NaN where it is not known.
    phase
        Number of the phase from then on.
    height_m
        Height of the body above the ground of the start at that time; NaN where it is not known.
    """

    name: str
    stamp_ns: int
    seen_ns: int
    stddev_s: float
    phase: int
    height_m: float = math.nan


class Block(NamedTuple):
    """M readings in the order in which a filter takes them.

    Attributes
    ----------
    sensors, sizes
        Names, and how many elements the values of each have.
    kinds
        (M,) int64: which of the sensors each is of.
    stamps_ns
        (M,) int64, nanoseconds since the epoch.
    values
        (M, W) float64, see `Measurement`; zeros behind those that are shorter than the widest.
    """

    sensors: tuple[str, ...]
    sizes: tuple[int, ...]
    kinds: NDArray[np.int64]
    stamps_ns: NDArray[np.int64]
    values: Matrix

    @classmethod
    def of(cls, measurements: Sequence[Measurement]) -> Block:
        """Of measurements, one or more; ValueError where those of one sensor have values of several sizes."""
        names, rows = [one.sensor for one in measurements], [one.value for one in measurements]
        lengths = [len(row) for row in rows]
        sizes = dict(zip(names, lengths, strict=True))
        number = {sensor: place for place, sensor in enumerate(sizes)}
        widest = max(lengths)
        if min(lengths) == widest:
            values = np.concatenate(rows).reshape(len(rows), widest)
        elif any(sizes[name] != length for name, length in zip(names, lengths, strict=True)):
            raise ValueError("values of several sizes")
        else:
            values = np.zeros((len(rows), widest))
            for place, row in enumerate(rows):
                values[place, : lengths[place]] = row
        stamps_ns = np.array([one.stamp_ns for one in measurements])
        return cls(tuple(sizes), tuple(sizes.values()), np.array([number[name] for name in names]), stamps_ns, values)

    def rows(self, start: int, stop: int) -> Block:
        """Some of them, that follow each other."""
        part = slice(start, stop)
        return Block(self.sensors, self.sizes, self.kinds[part], self.stamps_ns[part], self.values[part])

    def measurement(self, number: int) -> Measurement:
        """One of them."""
        kind = int(self.kinds[number])
        return Measurement(
            int(self.stamps_ns[number]), self.sensors[kind], self.values[number, : self.sizes[kind]].copy()
        )


class Innovations(NamedTuple):
    """What I updates of a block saw, see `onboard_estimation.filtering.gating.Innovation`.

    Attributes
    ----------
    of
        (I,) int64: numbers of the readings.
    value, stddev
        (I, m) measured minus predicted, and what its elements are divided by to be normalised.
    nis, accepted
        (I,) NIS, and whether the state was corrected.
    """

    of: NDArray[np.int64]
    value: Matrix
    stddev: Matrix
    nis: Vector
    accepted: NDArray[np.bool_]


class FilteredBlock(NamedTuple):
    """What came of readings that were filtered at once.

    Attributes
    ----------
    state
        After them.
    taken
        How many they are, from the first of the block; the last that changed the state gave an estimate, or none did.
    made_of
        (E,) int64, rising: number of the reading that each estimate came with.
    means, covariances
        (E, a) and (E, n, n), see `Estimate`.
    events
        In the order of being seen.
    innovations
        None of a filter without; readings without one are used as they are.
    left_out
        (L,) int64: numbers of the readings that were not looked at.
    """

    state: Any
    taken: int
    made_of: NDArray[np.int64]
    means: Matrix
    covariances: NDArray[np.float64]
    events: tuple[PhaseEvent, ...] = ()
    innovations: Innovations | None = None
    left_out: NDArray[np.int64] = np.empty(0, np.int64)


_POSITION = (("x", "m"), ("y", "m"), ("z", "m"))
_POSE = (*_POSITION, ("qx", ""), ("qy", ""), ("qz", ""), ("qw", ""))
# Rows and columns are x, y, z (m) and turns about them (rad).
_POSE_WITH_COVARIANCE = (*_POSE, *((f"covariance_{row}_{column}", "") for row in range(6) for column in range(6)))


def _by_axis(name: str, unit: str) -> tuple[tuple[str, str], ...]:
    return tuple((f"{name}_{axis}", unit) for axis in "xyz")


COMPONENTS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "sensor_msgs/msg/Imu": _by_axis("gyro", "rad/s") + _by_axis("accelerometer", "m/s^2"),
    "sensor_msgs/msg/FluidPressure": (("pressure", "Pa"),),
    "sensor_msgs/msg/MagneticField": _by_axis("field", "T"),
    "sensor_msgs/msg/Range": (("range", "m"),),
    "geometry_msgs/msg/PointStamped": _POSITION,
    "geometry_msgs/msg/PoseStamped": _POSE,
    "geometry_msgs/msg/TransformStamped": _POSE,
    "geometry_msgs/msg/PoseWithCovarianceStamped": _POSE_WITH_COVARIANCE,
    "geometry_msgs/msg/TwistStamped": _by_axis("linear", "m/s") + _by_axis("angular", "rad/s"),
    "geometry_msgs/msg/WrenchStamped": _by_axis("force", "N") + _by_axis("torque", "N m"),
    "nav_msgs/msg/Odometry": _POSE_WITH_COVARIANCE,
}
"""Name and unit of each element of a measurement's value by type of the message, but for those of joint states."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What some elements of a measurement's value can be at most.

    Attributes
    ----------
    what
        What they are, in words.
    first, count
        The elements.
    largest
        Largest magnitude; a sensor that reads it is saturated, beyond it there is no reading.
    unit
        Of `largest`; empty where it has none.
    parameter
        Dotted name of the configuration's parameter that holds it; empty where nobody can change it.
    """

    what: str
    first: int
    count: int
    largest: float
    unit: str
    parameter: str = ""


@dataclass(frozen=True, slots=True)
class Channel:
    """A topic that a robot listens to, and how its message becomes a measurement's value.

    | message type | value |
    |---|---|
    | `sensor_msgs/msg/Imu` | gyro x y z (rad/s), accelerometer x y z (m/s^2) |
    | the same with the field `orientation` | quaternion x y z w from the sensor's frame to the world |
    | `sensor_msgs/msg/JointState` | the array `field`, in the order of `names` |
    | `geometry_msgs/msg/PoseStamped`, `TransformStamped` | position x y z (m), quaternion x y z w |
    | `geometry_msgs/msg/PointStamped` | x y z (m) |
    | `geometry_msgs/msg/PoseWithCovarianceStamped` | as a pose, then 36 covariances along the fixed axes, row by row |
    | `nav_msgs/msg/Odometry` | the same; its velocities are not read |
    | `geometry_msgs/msg/TwistStamped` | velocity x y z (m/s), angular velocity x y z (rad/s) |
    | `geometry_msgs/msg/WrenchStamped` | force x y z (N), torque x y z (N m) |
    | `sensor_msgs/msg/FluidPressure` | pressure (Pa) |
    | `sensor_msgs/msg/MagneticField` | x y z (T) |
    | `sensor_msgs/msg/Range` | distance (m), NaN where it is not within the message's own limits |

    Attributes
    ----------
    topic
        Name relative to the robot's namespace, e.g. `imu/link_2/data_raw`.
    message_type
        Full name of the type, e.g. `sensor_msgs/msg/Imu`.
    sensor
        Name of the sensor in measurements and statistics, e.g. `imu/link_2`.
    field, names
        For joint states: which array, and the joints' order. For an attitude sensor: `orientation`.
    required
        A recording without this topic cannot be evaluated.
    limits
        Of elements of the value; others are refused beyond any robot's measure only, see `reading_limits`.
    command
        It tells what the robot is asked to do: of messages with one stamp commands are filtered first, for they act
        from then on, and the newest from before a filter's start still acts.
    needs
        Parts of the message that have to be there, e.g. `angular_velocity`; see `reading_parts`. What else is absent
        is NaN in the value.
    remedy
        What to do where its readings contradict the filter for seconds, for the end of a sentence; see `contradiction`.
    """

    topic: str
    message_type: str
    sensor: str
    field: Literal["position", "velocity", "effort", "orientation"] = "velocity"
    names: tuple[str, ...] = ()
    required: bool = True
    limits: tuple[Limit, ...] = ()
    command: bool = False
    needs: tuple[str, ...] = ()
    remedy: str = ""


def filter_order(channels: Iterable[Channel]) -> dict[str, int]:
    """Order of sensors among measurements with the same stamp: commands first, then as the robot lists its channels."""
    listed = list(channels)
    return {channel.sensor: place for place, channel in enumerate(sorted(listed, key=lambda one: not one.command))}


def value_size(channel: Channel) -> int | None:
    """Elements of a measurement's value; None for joint states without names, which have as many as their messages."""
    return len(component_names(channel)) or None


def components(channel: Channel) -> tuple[tuple[str, str], ...]:
    """Name, and unit if it has one, of each element of a measurement's value; none for joint states without names."""
    if channel.field == "orientation":
        return _POSE[3:]
    return COMPONENTS.get(channel.message_type, tuple((name, "") for name in channel.names))


def component_names(channel: Channel) -> tuple[str, ...]:
    """Names of the elements of a measurement's value, see `components`."""
    return tuple(name for name, _ in components(channel))


def neutral_value(channel: Channel) -> Vector:
    """(d,) a value that a sensor may have: zeros, an attitude without a turn; none of joint states without names."""
    value = np.zeros(value_size(channel) or 0)
    if channel.field == "orientation":
        value[3] = 1.0
    return value


# Where the parts of a message stand in a measurement's value, by the names that ROS gives them.


class IMU:
    """`sensor_msgs/msg/Imu`: rates in rad/s, specific forces in m/s^2, both x y z in the sensor's frame."""

    angular_velocity = slice(0, 3)
    linear_acceleration = slice(3, 6)


class ATTITUDE:
    """`sensor_msgs/msg/Imu` of a channel whose field is `orientation`: quaternion x y z w, sensor to world."""

    orientation = slice(0, 4)


class POSE:
    """`geometry_msgs/msg/PoseStamped`, and with `covariance` `PoseWithCovarianceStamped`.

    Position in m, quaternion x y z w, 36 covariances along the fixed axes, row by row.
    """

    position = slice(0, 3)
    orientation = slice(3, 7)
    covariance = slice(7, 43)


class POINT:
    """`geometry_msgs/msg/PointStamped`, m."""

    point = slice(0, 3)


class WRENCH:
    """`geometry_msgs/msg/WrenchStamped`: N and N m."""

    force = slice(0, 3)
    torque = slice(3, 6)


class TWIST:
    """`geometry_msgs/msg/TwistStamped`: m/s and rad/s, both x y z."""

    linear = slice(0, 3)
    angular = slice(3, 6)


IMU_PARTS: Mapping[str, slice] = {
    "angular_velocity": IMU.angular_velocity,
    "linear_acceleration": IMU.linear_acceleration,
}
"""Parts that a message of an IMU may say it lacks: element 0 of their covariance is -1."""
