"""Does an IMU contradict gravity? Its accelerometer at rest, and its gyro by how gravity turns: no truth is needed."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import IMU, NANOSECONDS_PER_SECOND, Channel, Matrix
from onboard_estimation.base.series import STANDARD_GRAVITY_M_S2, Series
from onboard_estimation.soundness.stretches import FEWEST_DEAD, marked, runs, unsound_readings, unsound_sentences

Integers = NDArray[np.int64]

_REST_NS = NANOSECONDS_PER_SECOND // 4
_RESTING_RAD_S, _RESTING_SHARE, _FEWEST_RESTS = 0.05, 0.03, 4
_GRAVITY_OFF, _OFFSET_OF_RANGE, _NO_GRAVITY_M_S2 = 0.1, 0.01, 0.5
_UNITS = {STANDARD_GRAVITY_M_S2: "it is in g", STANDARD_GRAVITY_M_S2 / 1e3: "it is in mg"}

_DEGREES = 180.0 / np.pi
_NEAR_FACTOR, _MOST_LEFT = 0.25, 0.5
_FASTEST_RAD_S, _OFTEN = 40.0, 0.02
_FEWEST_TURNS, _LEAST_TURNED_M_S2 = 12, 1.0

NOISY_TYPES = frozenset({"sensor_msgs/msg/Imu", "geometry_msgs/msg/WrenchStamped"})
"""Of sensors that never repeat a reading by chance."""


def resting_force_m_s2(stamps_ns: Integers, rates: Matrix, forces: Matrix) -> float | None:
    """Median size of an accelerometer's readings (K, 3) while the gyro (K, 3) rests: 9.8; None where it never does."""
    stamps_ns, rates, forces, starts, counts = _in_windows(stamps_ns, rates, forces)
    if len(stamps_ns) < FEWEST_DEAD:
        return None

    def moments(values: Matrix) -> tuple[Matrix, Matrix]:
        mean = np.add.reduceat(values, starts) / counts
        square = np.add.reduceat(values**2, starts) / counts
        return mean, np.sqrt(np.maximum(square - mean**2, 0.0))

    turning, shaking = moments(rates)
    force, spread = moments(forces)
    rests = (counts[:, 0] >= 5) & (np.hypot(turning, shaking).max(axis=1) < _RESTING_RAD_S)
    size = np.linalg.norm(force, axis=1)
    rests &= spread.max(axis=1) < _RESTING_SHARE * np.maximum(size, STANDARD_GRAVITY_M_S2)
    rests &= spread.any(axis=1)  # what never changes is dead
    lasting = [size[first:stop] for first, stop in runs(rests) if stop - first >= _FEWEST_RESTS]  # not in the air
    return float(np.median(np.concatenate(lasting))) if lasting else None


def _in_windows(
    stamps_ns: Integers, rates: Matrix, forces: Matrix
) -> tuple[Integers, Matrix, Matrix, NDArray[np.intp], Integers]:
    """Usable rows of an IMU, the first of each quarter of a second, and how many each has (W, 1)."""
    usable = np.isfinite(rates).all(axis=1) & np.isfinite(forces).all(axis=1)
    if not usable.all():  # those of a long recording take room
        stamps_ns, rates, forces = stamps_ns[usable], rates[usable], forces[usable]
    starts = np.flatnonzero(np.diff((stamps_ns - stamps_ns[:1]) // _REST_NS, prepend=-1))
    counts = np.diff(np.append(starts, len(stamps_ns)))[:, None]
    return stamps_ns, rates, forces, starts, counts


def wrong_force(resting_m_s2: float | None, largest_m_s2: float = 0.0) -> str:
    """What is wrong with an accelerometer that reads this at rest, in words that follow its name; empty: nothing.

    Parameters
    ----------
    largest_m_s2
        Its largest reading: the offset of a sensor for shocks is about a hundredth of its range.
    """
    allowed_m_s2 = max(_GRAVITY_OFF * STANDARD_GRAVITY_M_S2, _OFFSET_OF_RANGE * largest_m_s2)
    if resting_m_s2 is None or abs(resting_m_s2 - STANDARD_GRAVITY_M_S2) < allowed_m_s2:
        return ""
    reads = f"reads {resting_m_s2:.3g} at rest, where gravity is 9.81 m/s^2"
    for factor, words in _UNITS.items():
        if abs(resting_m_s2 * factor / STANDARD_GRAVITY_M_S2 - 1.0) < _GRAVITY_OFF:
            return f"{reads}: {words}; its driver must multiply by {factor:.6g}"
    if resting_m_s2 < _NO_GRAVITY_M_S2:
        return f"{reads}: its driver takes gravity off, which estimators need"
    factor = STANDARD_GRAVITY_M_S2 / resting_m_s2
    return f"{reads}: a range or scale is set wrong, a factor of {factor:.3g} would fit"


def turns_of_gravity(stamps_ns: Integers, rates: Matrix, forces: Matrix) -> float | None:
    """How far the accelerometer's (K, 3) gravity turns against what the gyro (K, 3) says: 1; a 57th where that is in
    deg/s, negative where the axes of one of them are left-handed; None where it is not told.

    The force f turns in the body as df = -(w x f) dt; over a quarter of a second that is compared with how the mean of
    f changes, by least squares. Where a body is shaken more than it is turned, nothing is told.
    """
    stamps_ns, rates, forces, starts, counts = _in_windows(stamps_ns, rates, forces)
    if len(stamps_ns) < FEWEST_DEAD:
        return None
    steps_s = np.minimum(np.diff(stamps_ns) / NANOSECONDS_PER_SECOND, 0.1)[:, None]
    turned = np.vstack([np.zeros(3), np.cumsum(np.cross(forces, rates)[1:] * steps_s, axis=0)])
    # Means over neighbouring windows; what is summed up is averaged alike.
    said = np.diff(np.add.reduceat(turned, starts) / counts, axis=0)
    felt = np.diff(np.add.reduceat(forces, starts) / counts, axis=0)
    near = np.diff(stamps_ns[starts]) < 2 * _REST_NS
    said, felt = said[near], felt[near]
    if len(said) < _FEWEST_TURNS or np.sqrt(np.mean(said**2)) < _LEAST_TURNED_M_S2 or not felt.any():
        return None
    factor = float(np.sum(said * felt) / np.sum(said**2))
    left = float(np.sum((felt - factor * said) ** 2) / np.sum(felt**2))
    return factor if left < _MOST_LEFT else None


def wrong_rate(stamps_ns: Integers, rates: Matrix, forces: Matrix) -> str:
    """What is wrong with a gyro (K, 3) beside an accelerometer (K, 3), in words after its name; empty: nothing."""
    multiply = f"; its driver must multiply by {np.pi / 180.0:.6g}"
    factor = turns_of_gravity(stamps_ns, rates, forces)
    if factor is not None and abs(factor * _DEGREES - 1.0) < _NEAR_FACTOR:
        return f"is in deg/s, as gravity turns in it{multiply}"
    fastest = np.where(np.isfinite(rates), np.abs(rates), 0.0).max(axis=1, initial=0.0)
    if (fastest > _FASTEST_RAD_S).mean() > _OFTEN:
        return f"reads up to {fastest.max():.3g}, where such gyros end at 35 rad/s: it is in deg/s{multiply}"
    return _dead_axis(rates)


def _ranges(values: Matrix) -> Matrix:
    """(3,) from the smallest to the largest of each axis of (K, 3); along rows, NumPy takes ten times as long."""
    return np.array([np.ptp(axis) for axis in values.T])


def _dead_axis(values: Matrix) -> str:
    """The one axis (K, 3) that never changes while the other two do: planar sensors lack two."""
    still = _ranges(values) == 0.0 if len(values) > 1 and np.isfinite(values).all() else np.zeros(3, dtype=np.bool_)
    if np.count_nonzero(still) != 1:
        return ""
    axis = int(np.argmax(still))
    reads = f"reads {values[0, axis] + 0.0:.3g} along {'xyz'[axis]} throughout"
    return f"{reads}, while its other axes change: that one is dead"


def is_imu(channel: Channel) -> bool:
    """Whether readings of the channel are rates and forces."""
    return channel.message_type == "sensor_msgs/msg/Imu" and channel.field != "orientation"


def dead(channel: Channel, stamps_ns: Integers, values: Matrix, zero_ns: int) -> list[str]:
    """Sentences on a sensor that stops measuring."""
    if channel.message_type not in NOISY_TYPES or channel.field == "orientation":
        return []
    stretches = unsound_readings(stamps_ns, values)
    return unsound_sentences(channel.sensor, stretches, zero_ns, "; the sensor, or its line, is dead then")


def contradict_gravity(sensors: Iterable[Series]) -> dict[str, str]:
    """By topic a sentence on each IMU whose accelerometer, or gyro, contradicts gravity."""
    said = {one.channel.topic: _contradicting(one) for one in sensors if is_imu(one.channel)}
    return {topic: sentence for topic, sentence in said.items() if sentence}


def _contradicting(sensor: Series) -> str:
    if unsound := unsound_readings(sensor.stamps_ns, sensor.values):
        sensor = sensor.rows(np.flatnonzero(~marked(unsound, len(sensor.stamps_ns))))
    stamps, readings = sensor.stamps_ns, sensor.values
    rates, forces = readings[:, IMU.angular_velocity], readings[:, IMU.linear_acceleration]
    largest = float(np.where(np.isfinite(forces), np.abs(forces), 0.0).max(initial=0.0))
    words = wrong_force(resting_force_m_s2(stamps, rates, forces), largest)
    if not words and len(rates) > 1 and _ranges(rates).all():  # else it is planar, and feels no change along its axis
        words = _dead_axis(forces)
    if words:
        return f"The accelerometer of {sensor.channel.sensor} {words}."
    words = wrong_rate(stamps, rates, forces)
    return f"The gyro of {sensor.channel.sensor} {words}." if words else ""
