"""Driver of two inertial sensors on a serial line, as an rclpy node."""

from __future__ import annotations

import math
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from rclpy.qos import QoSProfile
from sensor_msgs.msg import Imu, Temperature

from drivers.at_rest import HIGH_G, LOW_G, HighGAlignment, faults, refuse_unless_still
from drivers.calibration.parameter_file import load_calibration
from drivers.lines import SerialLine
from drivers.node import MeasuringNode, set_variances
from drivers.serial_imu.frames import CLOCK_TICK_S, CLOCK_WRAP, Scales, SerialReadings
from onboard_estimation.base.configuration import bounded, parameter
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import IMU, NANOSECONDS_PER_SECOND, Matrix, Measurement, Vector
from onboard_estimation.base.series import imu_channel
from onboard_estimation.live.messages import new, serialized
from onboard_estimation.nodes.parameters import NodeParameters
from onboard_estimation.pipeline.device_clock import DeviceClock
from onboard_estimation.ros.diagnostics import ERROR, OK, WARN
from onboard_estimation.ros.message_templates import sensor_writer
from onboard_estimation.ros.sensor_messages import header
from onboard_estimation.ros.transforms import AUTOMATIC, resolved_prefix

# How a sensor sits on the body.

_DIRECTIONS = {
    name: sign * row
    for axis, row in zip("xyz", np.eye(3), strict=True)
    for name, sign in ((axis, 1.0), (f"+{axis}", 1.0), (f"-{axis}", -1.0))
}


def axes_matrix(text: str) -> Matrix:
    """(3, 3) from the sensor's to the body's axes.

    Parameters
    ----------
    text
        Which of the sensor's axes points along the body's x, y and z, e.g. `-y x z`.

    Raises
    ------
    UserError
        They are not three different axes, or make a left-handed frame.
    """
    words = text.replace(",", " ").split()
    if strange := [word for word in words if word not in _DIRECTIONS]:
        raise UserError(
            f"axes {text!r}: {strange[0]!r} is no axis; three of x, y, z, -x, -y, -z are needed, e.g. '-y x z'"
        )
    matrix = np.array([_DIRECTIONS[word] for word in words])
    if len(words) != 3 or np.linalg.matrix_rank(matrix) < 3:
        raise UserError(f"axes {text!r}: three different axes are needed, e.g. '-y x z'")
    if np.linalg.det(matrix) < 0.0:
        raise UserError(f"axes {text!r} make a left-handed frame: turn one of them round")
    return matrix


CHANNELS = {LOW_G: imu_channel("low_g"), HIGH_G: imu_channel("high_g")}
_SHORTEST_REST_S = 0.0002
_LOOK_S = 1.0
_CHECKED_AFTER_S = 2.0
_SILENT_S = 2.0
_RECENT = 2000


@dataclass(frozen=True)
class Mounting:
    """How the sensors sit on the body."""

    low_g_axes: str = parameter("x y z", "which of the low-g sensor's axes point along the body's x, y, z: '-y x z'")
    high_g_axes: str = parameter("x y z", "the same of the high-g sensor")
    low_g_calibration: str = parameter("", "file that `calibrate imu` wrote of the low-g sensor; empty: none")
    high_g_calibration: str = parameter("", "the same of the high-g sensor")
    align_at_start: bool = parameter(
        False, "align the high-g sensor to the low-g one when both first lie still; the hopper's filter does so itself"
    )

    def faults(self) -> list[str]:
        """Axes that are none."""
        found = []
        for name in ("low_g_axes", "high_g_axes"):
            try:
                axes_matrix(getattr(self, name))
            except UserError as error:
                found.append(f"{name}: {error}")
        return found


@dataclass(frozen=True)
class SerialImu:
    """What is known of the device."""

    mounting: Mounting = Mounting()
    latency_s: float = bounded(
        0.0, 0.0, 1.0, "least time from a reading to its arrival, which cannot be seen from here", "s"
    )


@dataclass(frozen=True)
class SerialImuHost:
    """What the node itself wants to know."""

    port: str = parameter("/dev/ttyUSB0", "serial port of the device")
    baud: int = bounded(921600, 1200, 10_000_000, "bits a second; 115200 are too few for 840 samples")
    raw_log: str = parameter("", "file to keep all bytes in, for `convert serial_log FILE`; empty: none")
    frame_prefix: str = parameter(AUTOMATIC, 'before the names of frames; "auto": the node\'s namespace')


class SerialImuNode(MeasuringNode):
    """Reads MPU-6050 and H3LIS331DL from a microcontroller; protocol: `drivers.serial_imu.frames`.

    Publishes `imu/low_g/data_raw` and `imu/high_g/data_raw` (Imu: stamps in host time, variances by the data sheets, an
    absent gyro marked absent), `imu/low_g/temperature` (Temperature), `/diagnostics`. Services (Trigger), of a robot at
    rest: `zero_gyro`; `align_high_g` takes off what the high-g sensor reads more than the other. A `Source`: an
    estimator in the same process gets the readings without messages. Parameters: `SerialImu` and `SerialImuHost`.

    A port that is not there, taken, or lost is said once, and opened as soon as it can be.

    Raises
    ------
    UserError
        Parameters or a calibration at fault; a raw log that is there already, or cannot be written.
    """

    def __init__(self) -> None:
        self._line: SerialLine | None = None
        self._log: BinaryIO | None = None
        super().__init__("serial_imu")
        parameters: NodeParameters[SerialImu, SerialImuHost] = NodeParameters(self, SerialImu, SerialImuHost)
        configuration, host = parameters.configuration, parameters.host
        mounting = configuration.mounting
        self._axes = {LOW_G: axes_matrix(mounting.low_g_axes), HIGH_G: axes_matrix(mounting.high_g_axes)}
        files = {LOW_G: mounting.low_g_calibration, HIGH_G: mounting.high_g_calibration}
        self._calibrations = {name: load_calibration(Path(file)) for name, file in files.items() if file}
        turned = {name for name, axes in self._axes.items() if not np.array_equal(axes, np.eye(3))}
        self._mounted = turned | set(self._calibrations)
        self._gyro_bias = np.zeros(3)
        self._alignment = HighGAlignment(mounting.align_at_start)
        self._device_clock = DeviceClock(CLOCK_TICK_S, CLOCK_WRAP, configuration.latency_s)
        self._readings = SerialReadings(self._device_clock)
        self._log = _new_file(host.raw_log)
        self._prefix = resolved_prefix(host.frame_prefix, self.get_namespace())
        self._line = line = SerialLine(host.port, host.baud, self.get_logger().info)
        for channel in CHANNELS.values():
            self.offer_readings(channel, Imu)
        self._recent = {name: deque[Measurement](maxlen=_RECENT) for name in CHANNELS}
        self._scales: Scales | None = None
        self._temperature = self.create_publisher(Temperature, "imu/low_g/temperature", QoSProfile(depth=10))
        self._before: dict[str, float] = {}
        self._bytes = 0
        self._silent_since_s = time.monotonic()
        self._check_at_s: float | None = None  # not known yet
        self.offer("zero_gyro", self._zero_gyro)
        self.offer("align_high_g", self._align_high_g)
        self.keep_reading(partial(self._read, line), partial(self._report, line))

    def destroy_node(self) -> None:
        """Give the port back."""
        if self._line is not None:
            self._line.close()
        if self._log is not None:
            self._log.close()
        super().destroy_node()

    def _read(self, line: SerialLine, timeout_s: float) -> None:
        """Pass on what arrives, and rest for as long as the next may wait."""
        data = line.read(timeout_s)
        if data:
            began_s = time.monotonic()
            rest_s = self._pass_on(data, time.time_ns())
            left_s = began_s + rest_s - time.monotonic()
            if left_s > _SHORTEST_REST_S:
                time.sleep(left_s)

    def _pass_on(self, data: bytes, received_ns: int) -> float:
        """Publish and hand over what the bytes hold; for how long the next may wait, s."""
        self._bytes += len(data)
        if self._log is not None:
            self._log.write(data)
        readings = self._readings.feed(data, received_ns)
        if self._readings.scales is not self._scales:
            self._new_scales(self._readings.scales)
        for reading in readings:
            name = reading.sensor
            if name in self._mounted:
                self._mount(reading)
            self._recent[name].append(reading)
            self.publish(name, reading.stamp_ns, reading.value)
        return self.hand_over(readings)

    def _mount(self, reading: Measurement) -> None:
        """Correct a reading, which is new, turn it to the body's axes, and take off what was found at rest."""
        value, name = reading.value, reading.sensor
        if name in self._calibrations:  # of the sensor's own axes
            value[:] = self._calibrations[name].apply(value)
        axes = self._axes[name]
        value[IMU.angular_velocity] = axes @ value[IMU.angular_velocity]
        value[IMU.linear_acceleration] = axes @ value[IMU.linear_acceleration]
        if name == LOW_G:
            value[IMU.angular_velocity] -= self._gyro_bias
        else:
            value[IMU.linear_acceleration] -= self._alignment.offset_m_s2

    def _new_scales(self, scales: Scales | None) -> None:
        """Templates of messages with the variances that go with the ranges."""
        self._scales = scales
        if scales is None:
            return
        accelerometers = {LOW_G: scales.low_variance, HIGH_G: scales.high_variance}
        for name, channel in CHANNELS.items():
            variances = {"angular_velocity": scales.gyro_variance, "linear_acceleration": accelerometers[name]}
            complete = partial(set_variances, **variances)
            self.messages[name] = sensor_writer(channel, new, serialized, self._prefix, complete)

    def _zero_gyro(self) -> str:
        values = self._last_second(LOW_G)
        refuse_unless_still(LOW_G, values)
        bias = values[:, IMU.angular_velocity].mean(axis=0)
        self._gyro_bias = self._gyro_bias + bias
        self._take_off(LOW_G, np.concatenate([bias, np.zeros(3)]))
        x, y, z = np.rad2deg(self._gyro_bias)
        return f"gyro at rest: x {x:.3f}, y {y:.3f}, z {z:.3f} deg/s, taken off"

    def _align_high_g(self) -> str:
        before = self._alignment.offset_m_s2
        sentence = self._alignment.align(self._last_second(LOW_G), self._last_second(HIGH_G))
        self._take_off(HIGH_G, np.concatenate([np.zeros(3), self._alignment.offset_m_s2 - before]))
        return sentence

    def _take_off(self, name: str, found: Vector) -> None:
        """From now on, and of copies of what is kept: whoever asks again finds what is left."""
        self._mounted.add(name)
        kept = self._recent[name]
        self._recent[name] = deque(
            (Measurement(one.stamp_ns, name, one.value - found) for one in kept), maxlen=kept.maxlen
        )

    def _last_second(self, name: str) -> Any:
        """(K, 6) of the last second in which a sensor of the two was read."""
        newest_ns = max((recent[-1].stamp_ns for recent in self._recent.values() if recent), default=0)
        since_ns = newest_ns - NANOSECONDS_PER_SECOND
        return np.array([one.value for one in self._recent[name] if one.stamp_ns > since_ns]).reshape(-1, 6)

    def _has_second(self) -> bool:
        """Whether both sensors have been there for so long."""
        kept = self._recent.values()
        return all(one and one[-1].stamp_ns - one[0].stamp_ns >= NANOSECONDS_PER_SECOND for one in kept)

    def _report(self, line: SerialLine) -> None:
        """Once a second: who listens, temperature, diagnostics, what is to be said."""
        self.look_who_listens()
        if self._log is not None:
            self._log.flush()
        celsius = self._readings.temperature_celsius
        if math.isfinite(celsius) and self._temperature.get_subscription_count():
            frame = header(new, self.get_clock().now().nanoseconds, f"{self._prefix}imu_low_g")
            self._temperature.publish(new("sensor_msgs/msg/Temperature", header=frame, temperature=celsius))
        if self._alignment.waits_for and self._has_second():
            with suppress(UserError):  # it is in the diagnostics
                self.get_logger().info(self._align_high_g())
        now = self._counts(line)
        since = {key: value - self._before.get(key, 0.0) for key, value in now.items()}
        level, text = self._state(line, since)
        self.report([self.status("serial line", level, text, now)])
        self._say_silence(line, since)
        self._check_start()
        self._before = now

    def _counts(self, line: SerialLine) -> dict[str, float]:
        found, clock = self._readings, self._device_clock
        return {
            "bytes": self._bytes,
            "samples": found.samples,
            "lost": found.lost,
            "before_ranges": found.before_ranges,
            **{f"corrupted_{fault}": count for fault, count in found.faults.items()},
            **{f"unread_{sensor.removeprefix('imu/')}": count for sensor, count in found.unread.items()},
            "implausible_times": clock.implausible,
            "restarts": clock.jumps,
            "line_losses": line.losses,
            "clock_skew_ppm": clock.skew_ppm,
            "clock_stddev_us": 1e6 * clock.stddev_s,
            "temperature_celsius": found.temperature_celsius,
            **{f"high_g_offset_{axis}_m_s2": one for axis, one in zip("xyz", self._alignment.offset_m_s2, strict=True)},
        }

    def _state(self, line: SerialLine, since: dict[str, float]) -> tuple[bytes, str]:
        """Level and sentence, by the counts since the last report."""
        if not line.is_open:
            return ERROR, line.trouble
        if not since["samples"]:
            return ERROR, f"no sample since the last report; {since['bytes']:.0f} bytes came"
        corrupted = sum(count for key, count in since.items() if key.startswith("corrupted"))
        told = {"lost": since["lost"], "corrupted": corrupted, "restarts": since["restarts"]}
        told |= {key: count for key, count in since.items() if key.startswith("unread")}
        wrong = ", ".join(f"{count:.0f} {key}" for key, count in told.items() if count)
        if self._alignment.waits_for:
            wrong = f"{wrong}; high-g not aligned: {self._alignment.waits_for}".removeprefix("; ")
        text = f"{since['samples'] / _LOOK_S:.0f} samples a second"
        return (WARN, f"{text}; {wrong}") if wrong else (OK, text)

    def _say_silence(self, line: SerialLine, since: dict[str, float]) -> None:
        """An open line that brings nothing that can be read."""
        if since["samples"] != since["before_ranges"] or not line.is_open:
            self._silent_since_s = time.monotonic()
        if since["restarts"]:
            self.get_logger().warning("the device has restarted: its clock is mapped anew")
        if time.monotonic() - self._silent_since_s < _SILENT_S:
            return
        self._silent_since_s = time.monotonic() + 4.0 * _SILENT_S  # not every second
        said = "bytes arrive and no sample among them: is the baud rate that of the firmware, is it another device?"
        if not since["bytes"]:
            said = "the line is open and silent: is the device powered, and its firmware running?"
        elif since["samples"]:
            said = "samples arrive, but the device does not tell its ranges: is one of its chips another?"
        self.get_logger().warning(said)

    def _check_start(self) -> None:
        """Once, when both sensors have been there for a moment."""
        settings, now_s = self._readings.settings, time.monotonic()
        if settings is not None and self._check_at_s is None:
            self._check_at_s = now_s + _CHECKED_AFTER_S
        if settings is None or self._check_at_s is None or now_s < self._check_at_s:
            return
        self._check_at_s = math.inf
        found = list(faults(self._last_second(LOW_G), self._last_second(HIGH_G), 1.0, settings.rate_hz))
        for sentence in found:
            self.get_logger().warning(sentence)
        if not found:
            self.get_logger().info("both sensors are there, at their rate, and nothing speaks against them")


def _new_file(path: str) -> BinaryIO | None:
    try:
        return Path(path).open("xb") if path else None
    except FileExistsError as error:
        raise UserError(f"raw_log: {path} exists already and is not overwritten; name another, or remove it") from error
    except OSError as error:
        raise UserError(f"raw_log: cannot write {path}: {error.strerror}") from error
