"""A force-torque sensor and pressure sensors on EtherCAT as an rclpy node."""

from __future__ import annotations

import queue
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from itertools import repeat
from typing import Any

from geometry_msgs.msg import WrenchStamped
from sensor_msgs.msg import FluidPressure

from drivers.ethercat.configuration import EthercatConfiguration
from drivers.ethercat.cycle import Bus, Cycle
from drivers.ethercat.description import WRENCH as WRENCH_FIELDS
from drivers.ethercat.description import StatusBits, find
from drivers.ethercat.device import Device
from drivers.ethercat.stream import Readout, Stream, Wrench, pressure_readout
from drivers.node import MeasuringNode, NoRobot
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Channel, Measurement
from onboard_estimation.live.messages import new, serialized
from onboard_estimation.nodes.pacing import stay
from onboard_estimation.nodes.parameters import NodeParameters
from onboard_estimation.ros.diagnostics import ERROR, OK, WARN
from onboard_estimation.ros.message_templates import sensor_writer
from onboard_estimation.ros.transforms import resolved_prefix

_TICK_S = 0.004
_LOOK_S = 0.5
WRENCH = Channel("wrench", "geometry_msgs/msg/WrenchStamped", "wrench")


class EthercatWrenchNode(MeasuringNode):
    """Reads a force-torque sensor and analogue pressure sensors on one EtherCAT bus, at the rate of its cycle.

    Publishes `wrench` (WrenchStamped), `pressure/<chamber>` (FluidPressure, absolute) and `/diagnostics`. Services
    (Trigger): `tare`, at rest; `clear_tare`. Stamps are those of the host's clock in the middle of a frame's way. A
    `Source`: an estimator in the same process gets the readings without messages. Parameters: `EthercatConfiguration`.

    A bus on which nothing answers is waited for, and one that is lost is taken up again; devices other than described
    end the node.

    Raises
    ------
    UserError
        Parameters or a sensor's description at fault, all of them listed; pysoem is missing; the interface is not
        there, or raw Ethernet is not allowed.
    """

    def __init__(self) -> None:
        super().__init__("ethercat_wrench")
        self._configuration = configuration = NodeParameters(self, NoRobot, EthercatConfiguration).host
        self._descriptions = [find(name) for name in configuration.bus.sensors]
        self._prefix = resolved_prefix(configuration.frame_prefix, self.get_namespace())
        self._told: queue.SimpleQueue[tuple[str, bool]] = queue.SimpleQueue()
        self._started = False
        self._looked_s = 0.0
        self._standing: dict[int, str] = {}  # what is to be said of repeats, by the place of the device
        self._said_slow: set[int] = set()
        self._streams: dict[int, Stream] = {}  # by the place of their device
        self._wrench: Wrench | None = None
        self._make_wrench()
        self._make_pressures()
        self._bus = Bus(configuration.bus, self._descriptions, self.say)
        self._cycle = Cycle(self._bus, configuration.bus, self.say)
        self.every(_TICK_S, self._tick)
        self.every(configuration.diagnostics_period_s, self._report)

    def destroy_node(self) -> None:
        """Leave the devices in INIT and give the interface back."""
        self._cycle.close()
        super().destroy_node()

    def _make_wrench(self) -> None:
        chosen = self._configuration.wrench
        places = [place for place, one in enumerate(self._descriptions) if one.has_wrench]
        if len(places) > 1:
            names = ", ".join(self._descriptions[place].name for place in places)
            raise UserError(f"bus.sensors: {names} are force-torque sensors; this node reads one, start another one")
        if places:
            (place,) = places
            self._wrench = wrench = Wrench(chosen, self._configuration.bus.cycle_hz)
            readout = wrench.readout(self._descriptions[place])
            self._offer(place, WRENCH, readout, WrenchStamped, partial(_set_frame, self._prefix + chosen.frame))
            self.offer("tare", lambda: self._while_running(partial(wrench.tare, self._read)))
            self.offer("clear_tare", lambda: self._while_running(wrench.clear_tare))

    def _make_pressures(self) -> None:
        chosen, cycle_hz = self._configuration.pressure, self._configuration.bus.cycle_hz
        inputs = [(place, field) for place, one in enumerate(self._descriptions) for field in one.voltages]
        if len(chosen.chambers) > len(inputs):
            raise UserError(
                f"pressure.chambers: {len(chosen.chambers)} for {len(inputs)} analogue inputs of bus.sensors "
                f"{', '.join(self._configuration.bus.sensors)}"
            )
        offsets_pa = iter(chosen.offsets_pa or repeat(0.0))
        for (place, field), name in zip(inputs, chosen.chambers, strict=False):
            if name:
                channel = Channel(f"pressure/{name}", "sensor_msgs/msg/FluidPressure", f"pressure/{name}")
                readout = pressure_readout(self._descriptions[place], field, chosen, next(offsets_pa), cycle_hz)
                self._offer(place, channel, readout, FluidPressure, partial(_set_variance, chosen.variance_pa2))

    def _offer(
        self, place: int, channel: Channel, readout: Readout, kind: Any, complete: Callable[[Any], None]
    ) -> None:
        self.offer_readings(channel, kind)
        stream = Stream(self._descriptions[place], {}, self._configuration.bus.cycle_hz)
        self._streams.setdefault(place, stream).readouts[channel.sensor] = readout
        self.messages[channel.sensor] = sensor_writer(channel, new, serialized, self._prefix, complete)
        if (decimator := readout.decimator) is not None:
            told = f"{self._configuration.bus.cycle_hz / decimator.factor:g} Hz, low-passed"
            late_ms = 1e3 * decimator.delay_s
            self.get_logger().info(f"{channel.sensor}: {told}; {late_ms:.1f} ms late, as the stamps know")

    def say(self, sentence: str, is_bad: bool) -> None:
        """From any thread; the node's own logs it."""
        self._told.put((sentence, is_bad))

    def _while_running(self, action: Callable[[], str]) -> str:
        """UserError where the bus does not run."""
        if self._cycle.trouble:
            raise UserError(self._cycle.trouble)
        return action()

    def _tick(self) -> None:
        if not self._started:  # only now: other nodes of the process may have taken long to be made
            self._started = True
            self._cycle.start()
        if self._cycle.refusal is not None:
            raise self._cycle.refusal
        now_s = time.monotonic()
        if now_s - self._looked_s > _LOOK_S:
            self._looked_s = now_s
            self.look_who_listens()
            self._look_for_repeats()
        if not self._told.empty():
            while not self._told.empty():
                super().say(*self._told.get())
            self._report()  # at once, not with the next one
        stay(self._read, self.context.ok)

    def _look_for_repeats(self) -> None:
        for place, stream in self._streams.items():
            name, own = self._descriptions[place].name, stream.repeats
            before, now = self._standing.get(place, ""), own.told(name, "power it off and on")
            if now and own.per_fresh:  # its own rate is no fault
                asked_hz, now = self._configuration.bus.cycle_hz, ""
                if place not in self._said_slow:
                    self._said_slow.add(place)
                    own_hz = f"{asked_hz / own.per_fresh:.0f}"
                    told = f"{name} gives {own_hz} readings a second, bus.cycle_hz asks for {asked_hz:g}"
                    self.say(f"{told}: repeats are left out; bus.cycle_hz {own_hz} would do", False)
            self._standing[place] = now
            key = f"repeats of device {place}"
            if before or not now:  # not by a part of such a time
                self.tell(key, now and self.troubles.get(key, now), f"{name}: readings are fresh again")

    def _read(self) -> float:
        """Publish what has come, and hand it on; for how long the next may wait, s."""
        by_place: dict[int, tuple[Device, list[int], list[bytes]]] = {}
        while self._cycle.readings:
            device, stamp_ns, data = self._cycle.readings.popleft()
            _, stamps, pieces = by_place.setdefault(device.place, (device, [], []))
            stamps.append(stamp_ns)
            pieces.append(data)
        handed: list[Measurement] = []
        for place, (device, stamps, pieces) in by_place.items():
            if place in self._streams:
                for sensor, batch in self._streams[place](device, stamps, b"".join(pieces)).items():
                    for stamp_ns, value in zip(*batch, strict=True):
                        self.publish(sensor, stamp_ns, value)
                        if sensor in self._taken:
                            handed.append(Measurement(stamp_ns, sensor, value))
        return self.hand_over(handed)

    def _report(self) -> None:
        """Diagnostics, and a reminder of what is waited for."""
        self.remind(self._cycle.trouble)
        self.report([self._bus_status(), *map(self._device_status, self._bus.devices)])

    def _bus_status(self) -> Any:
        """Working counter, and how well the instants of the cycles were kept since the last report."""
        cycle = self._cycle
        figures, expected = cycle.figures(), self._bus.expected
        values: dict[str, float] = {
            "working_counter": cycle.counter,
            "working_counter_expected": expected,
            "cycles": cycle.cycles,
            "missed_working_counters": cycle.missed,
            "overruns": cycle.overruns,
            "overflow": cycle.overflow,
            "last_loss_s": cycle.lost_for_s,
            **{key: value for key, value in figures.items() if key.endswith("_us")},
        }
        if cycle.trouble:
            return self.status("bus", ERROR, cycle.trouble, values)
        told = [f"{figures['cycles']} cycles, working counter {cycle.counter} of {expected}"]
        told += [f"{figures['missed']} missed working counters"] if figures["missed"] else []
        told += [f"{figures['overruns']} instants left out, a cycle took too long"] if figures["overruns"] else []
        return self.status("bus", WARN if len(told) > 1 else OK, "; ".join(told), values)

    def _device_status(self, device: Device) -> Any:
        """Its state, what its status bits said since the last report, and what else is to be remarked."""
        remarks = list(device.conversion.remarks) if device.conversion is not None else []
        values: dict[str, float] = {"starts": device.starts}
        said: Mapping[StatusBits, int] = {}
        if (stream := self._streams.get(device.place)) is not None:
            said, stream.said = stream.said, Counter()
            refused = sum(readout.refused for readout in stream.readouts.values())
            values |= {"received": stream.received, "repeats": stream.repeats.count, "refused": refused}
            remarks += filter(None, [self._standing.get(device.place, "")])
            for sensor, readout in stream.readouts.items():
                remarks += [f"{sensor}: {readout.beyond} {readout.unlike}"] if readout.beyond else []
                readout.beyond = 0
        if device.description.has_wrench and self._wrench is not None:
            zero = self._wrench.zero
            values |= {
                "tared": self._wrench.is_tared,
                "tare_includes_weight": self._configuration.wrench.tare_includes_weight,
                **{f"zero_{part}": one for part, one in zip(WRENCH_FIELDS, zero, strict=True)},
            }
        sentences = [device.trouble] if device.trouble else []
        sentences += [f"{bits.level}: {bits.meaning} ({count} readings)" for bits, count in said.items()]
        is_error = device.trouble or any(bits.level != "warning" for bits in said)
        level = ERROR if is_error else WARN if said or remarks else OK
        part = f"{device.description.name} {device.position}"
        return self.status(part, level, "; ".join([*sentences, *remarks]) or "in operation", values)


def _set_frame(frame: str, message: Any) -> None:
    message.header.frame_id = frame


def _set_variance(variance: float, message: Any) -> None:
    message.variance = variance
