"""Driver of two inertial sensors on a serial line, as an rclpy node."""

from __future__ import annotations

import math
import time
from collections import deque
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
from sensor_msgs.msg import Imu

from drivers.at_rest import HIGH_G, LOW_G, faults
from drivers.lines import SerialLine
from drivers.node import MeasuringNode, NoRobot, set_variances
from drivers.repeats import CountedRepeats
from drivers.serial_imu.frames import CHIPS, CLOCK_TICK_S, CLOCK_WRAP
from drivers.serial_imu.mounting import Mounted, SerialImu
from drivers.serial_imu.readings import Scales, SerialReadings, short
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Measurement
from onboard_estimation.base.series import imu_channel
from onboard_estimation.live.messages import new, serialized
from onboard_estimation.nodes.parameters import NodeParameters
from onboard_estimation.pipeline.device_clock import DeviceClock, epoch_offset_ns
from onboard_estimation.ros.diagnostics import ERROR, OK, WARN
from onboard_estimation.ros.message_templates import sensor_writer
from onboard_estimation.ros.transforms import resolved_prefix

CHANNELS = {LOW_G: imu_channel("low_g"), HIGH_G: imu_channel("high_g")}
_SHORTEST_REST_S = 0.0002
_LOOK_S = 1.0
_CHECKED_AFTER_S = 2.0
_SILENT = 2
"""So many reports without a sample are said."""
_RECENT = 2000


class SerialImuNode(MeasuringNode):
    """Reads MPU-6050 and H3LIS331DL from a microcontroller; protocol: `drivers.serial_imu.frames`.

    Publishes `imu/low_g/data_raw` and `imu/high_g/data_raw` (Imu: stamps in host time, variances by the data sheets, an
    absent gyro marked absent), and `/diagnostics`. A `Source`: an estimator in the same process gets the readings
    without messages. Parameters: `SerialImu`.

    A port that is not there, taken, or lost is said once, and opened as soon as it can be. Readings of a chip that
    repeats itself or is an unknown one are left out, counted and said. A raw log that cannot be written any more ends.

    Raises
    ------
    UserError
        Parameters or a calibration at fault; a raw log that is there already, or cannot be written.
    """

    def __init__(self) -> None:
        self._line: SerialLine | None = None
        self._log: FileIO | None = None
        super().__init__("serial_imu")
        self._configuration = configuration = NodeParameters(self, NoRobot, SerialImu).host
        self._mounted = Mounted(configuration.mounting, configuration.expected)
        self._device_clock = DeviceClock(CLOCK_TICK_S, CLOCK_WRAP, configuration.latency_s, epoch_offset_ns)
        self._readings = SerialReadings(self._device_clock, configuration.accept_clones)
        self._repeats = {name: CountedRepeats() for name in CHANNELS}
        self._log, self._logging = _new_file(configuration.raw_log), self.aside(f"raw_log {configuration.raw_log}")
        self._prefix = resolved_prefix(configuration.frame_prefix, self.get_namespace())
        self._line = line = SerialLine(configuration.port, configuration.baud, self.say)
        for channel in CHANNELS.values():
            self.offer_readings(channel, Imu)
        self._recent = {name: deque[Measurement](maxlen=_RECENT) for name in CHANNELS}
        self._scales: Scales | None = None
        self._before: dict[str, float] = {}
        self._bytes = 0
        self._silent = 0  # reports in a row
        self._check_at_s = math.inf
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
            self._logging(self._log.write, data)
        readings = self._readings.feed(data, received_ns)
        scales = self._readings.scales
        if scales is not None and scales is not self._scales:
            self._new_scales(scales)
        fresh = []
        for reading in readings:
            name = reading.sensor
            self._mounted(reading)
            self._recent[name].append(reading)
            if self._repeats[name].fresh(reading.value[None]):
                fresh.append(reading)
                self.publish(name, reading.stamp_ns, reading.value)
        return self.hand_over(fresh)

    def _new_scales(self, scales: Scales) -> None:
        """What goes with ranges and filter: ends, repeats by chance, templates of messages with their variances."""
        if self._scales is None:
            self._check_at_s = time.monotonic() + _CHECKED_AFTER_S
        self._scales = scales
        self._mounted.tell(scales)
        self.tell("settings", self._configuration.expected.difference(scales), "the device is set as expected")
        for name, channel in CHANNELS.items():
            self._repeats[name].by_chance = scales.equal_by_chance[name]
            complete = partial(set_variances, **scales.variances[name])
            self.messages[name] = sensor_writer(channel, new, serialized, self._prefix, complete)

    def _last_second(self, name: str) -> Any:
        """(K, 6) of the last second in which a sensor of the two was read."""
        newest_ns = max((recent[-1].stamp_ns for recent in self._recent.values() if recent), default=0)
        since_ns = newest_ns - NANOSECONDS_PER_SECOND
        return np.array([one.value for one in self._recent[name] if one.stamp_ns > since_ns]).reshape(-1, 6)

    def _report(self, line: SerialLine) -> None:
        """Once a second: who listens, diagnostics, what is to be said."""
        self.look_who_listens()
        now = self._counts(line)
        since = {key: value - self._before.get(key, 0.0) for key, value in now.items()}
        self._watch_chips(since)
        level, text = self._state(line, since)
        self.report([self.status("serial line", level, text, now)])
        self._say_silence(line, since)
        self._check_start()
        self._before = now

    def _counts(self, line: SerialLine) -> dict[str, float]:
        clock = self._device_clock
        return {
            "bytes": self._bytes,
            **self._readings.counts,
            **{f"readings_{short(name)}": one.fresh_count for name, one in self._repeats.items()},
            **{f"repeated_{short(name)}": one.count for name, one in self._repeats.items()},
            "gyro_late_us": 1e6 * self._scales.gyro_late_s if self._scales is not None else math.nan,
            "implausible_times": clock.implausible,
            "restarts": clock.jumps,
            "line_losses": line.losses,
            "clock_skew_ppm": clock.skew_ppm,
            "clock_stddev_us": 1e6 * clock.stddev_s,
            "temperature_celsius": self._readings.temperature_celsius,
        }

    def _state(self, line: SerialLine, since: dict[str, float]) -> tuple[bytes, str]:
        """Level and sentence, by the counts since the last report."""
        if not line.is_open:
            return ERROR, line.trouble
        if not since["samples"]:
            return ERROR, f"no sample since the last report; {since['bytes']:.0f} bytes came"
        kinds = ("lost", "corrupted", "restarts", "unread_low_g", "unread_high_g")
        counts = {kind: sum(n for key, n in since.items() if key.startswith(kind)) for kind in kinds}
        wrong = ", ".join(f"{count:.0f} {kind}" for kind, count in counts.items() if count)
        wrong = "; ".join(filter(None, [wrong, *self.troubles.values(), self._logging.trouble]))
        text = f"{since['samples'] / _LOOK_S:.0f} samples a second"
        return (WARN, f"{text}; {wrong}") if wrong else (OK, text)

    def _watch_chips(self, since: dict[str, float]) -> None:
        """One that repeats itself, one that is another."""
        for name, repeats in self._repeats.items():
            told = repeats.told(name, "its chip hangs; power it off and on")
            if told or since[f"readings_{short(name)}"]:
                self.tell(f"repeats of {name}", told, f"{name} gives new readings again")
        for name, identity in self._readings.left_out.items():
            chip, known = CHIPS[name]
            self.tell(
                f"chip of {name}",
                f"{name} says it is 0x{identity:02x}, an {chip} would say 0x{known:02x}: its readings are left out, "
                f"and accept_clones:=true takes them for an {chip}'s",
            )

    def _say_silence(self, line: SerialLine, since: dict[str, float]) -> None:
        """An open line that brings nothing that can be read."""
        if since["restarts"]:
            self.get_logger().warning("the device has restarted: its clock is mapped anew")
        self._silent += 1
        if since["samples"] != since["before_ranges"] or not line.is_open:
            self._silent = 0
        if self._silent < _SILENT:
            return
        said = "bytes arrive and no sample among them: is the baud rate that of the firmware, is it another device?"
        if not since["bytes"]:
            said = "the line is open and silent: is the device powered, and its firmware running?"
        elif since["samples"]:
            said = "samples arrive, but the device does not tell its ranges: is it another firmware?"
        self.remind(said)

    def _check_start(self) -> None:
        """Once, when both sensors have been there for a moment."""
        if self._scales is None or time.monotonic() < self._check_at_s:
            return
        self._check_at_s = math.inf
        known = [name for name in CHANNELS if name not in self._readings.left_out]
        found = list(faults({name: self._last_second(name) for name in known}, 1.0, self._scales.rate_hz))
        for sentence in found:
            self.get_logger().warning(sentence)
        if not found and not self.troubles:
            self.get_logger().info("both sensors are there, at their rate, and nothing speaks against them")


def _new_file(path: str) -> FileIO | None:
    try:
        return Path(path).open("xb", buffering=0) if path else None
    except FileExistsError as error:
        remedy = ", or remove it" if Path(path).is_file() else ": it is no file"
        raise UserError(f"raw_log: {path} exists already and is not overwritten; name another{remedy}") from error
    except OSError as error:
        raise UserError(f"raw_log: cannot write {path}: {error.strerror}") from error
