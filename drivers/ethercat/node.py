"""A force-torque sensor and pressure sensors on EtherCAT as an rclpy node."""

from __future__ import annotations

import queue
import time
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any

import rclpy.clock
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import WrenchStamped
from rclpy.clock import ClockType
from rclpy.node import Node
from rclpy.qos import QoSProfile
from sensor_msgs.msg import FluidPressure
from std_srvs.srv import Trigger

from drivers.ethercat.bus import Bus
from drivers.ethercat.compensation import Compensation
from drivers.ethercat.configuration import EthercatConfiguration, EthercatHost
from drivers.ethercat.cycle import Cycle
from drivers.ethercat.decimation import Decimator
from drivers.ethercat.description import WRENCH as WRENCH_FIELDS
from drivers.ethercat.description_file import find
from drivers.ethercat.device import Device
from drivers.ethercat.health import bus_status, device_status
from drivers.ethercat.stream import Batch, PressureStream, WrenchStream
from drivers.ethercat.tare import Tare
from onboard_estimation.errors import UserError
from onboard_estimation.live.exact_bytes import serialized
from onboard_estimation.live.messages import new
from onboard_estimation.measurement import Channel, Measurement
from onboard_estimation.nodes.pacing import stay
from onboard_estimation.nodes.parameters import NodeParameters
from onboard_estimation.nodes.source import Take
from onboard_estimation.ros.frames import resolved_prefix
from onboard_estimation.ros.sensor_messages import header
from onboard_estimation.ros.serialized_sensors import SerializedSensor

_TICK_S = 0.004
_STREAM = QoSProfile(depth=500)
"""Reliable, for those who ask for it; who asks for less gets it all the same."""
_HEARD_S = 0.1
_REMIND_S = 5.0
_STAMP = attrgetter("stamp_ns")
WRENCH = Channel("wrench", "geometry_msgs/msg/WrenchStamped", "wrench")


class EthercatWrenchNode(Node):
    """Reads a force-torque sensor and analogue pressure sensors on one EtherCAT bus, at the rate of its cycle.

    Publishes `wrench` (WrenchStamped), `pressure/<chamber>` (FluidPressure, absolute) and `/diagnostics`. Services
    (Trigger): `tare`, at rest; `clear_tare`. Stamps are those of the host's clock in the middle of a frame's way. A
    `Source`: an estimator in the same process gets the readings without messages. Parameters: `EthercatConfiguration`
    and `EthercatHost`.

    A bus on which nothing answers is waited for, and one that is lost is taken up again; devices other than described
    end the node.

    Raises
    ------
    UserError
        Parameters or a sensor's description at fault, all of them listed; pysoem is missing; the interface is not
        there, or raw Ethernet is not allowed.
    """

    def __init__(self) -> None:
        self._cycle: Cycle | None = None
        super().__init__("ethercat_wrench", automatically_declare_parameters_from_overrides=True)
        parameters: NodeParameters[EthercatConfiguration, EthercatHost] = NodeParameters(
            self, EthercatConfiguration, EthercatHost
        )
        self._configuration = configuration = parameters.configuration
        self._descriptions = [find(name) for name in configuration.bus.sensors]
        self._prefix = resolved_prefix(parameters.host.frame_prefix, self.get_namespace())
        self._told: queue.SimpleQueue[tuple[str, bool]] = queue.SimpleQueue()
        self._take: Take | None = None
        self._taken: frozenset[str] = frozenset()
        self._started = False
        self._reminded_s = self._looked_s = 0.0
        self._pressures: dict[int, PressureStream] = {}
        self._channels: dict[int, list[Channel]] = {}
        self._messages: dict[str, SerializedSensor] = {}
        self._outputs: dict[str, Any] = {}
        self._heard: frozenset[str] = frozenset()
        self._wrench = self._make_wrench()
        self._make_pressures()
        bus = configuration.bus
        self._bus = Bus(bus.interface, self._descriptions, bus.receive_timeout_us, self._tell)
        self._cycle = Cycle(
            self._bus, 1.0 / bus.cycle_hz, bus.spin_s, bus.lost_after_cycles, bus.realtime_priority, self._tell
        )
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", QoSProfile(depth=10))
        if self._wrench is not None:
            self._tare = Tare(configuration.wrench, self._wrench, partial(self._read, self._cycle))
            self.create_service(Trigger, "tare", self._on_tare)
            self.create_service(Trigger, "clear_tare", self._on_clear_tare)
        steady = rclpy.clock.Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(_TICK_S, partial(self._tick, self._cycle), clock=steady)
        period_s = parameters.host.diagnostics_period_s
        self.create_timer(period_s, partial(self._report, self._cycle), clock=steady)

    @property
    def measured_topics(self) -> frozenset[str]:
        """Those of the wrench and of the pressures."""
        return frozenset(self._outputs)

    def hand_to(self, take: Take, topics: Collection[str]) -> None:
        """See `Source`."""
        self._take, self._taken = take, frozenset(topics)

    def destroy_node(self) -> None:
        """Leave the devices in INIT and give the interface back."""
        if self._cycle is not None:
            self._cycle.close()
        super().destroy_node()

    def _make_wrench(self) -> WrenchStream | None:
        chosen, cycle_hz = self._configuration.wrench, self._configuration.bus.cycle_hz
        places = [place for place, one in enumerate(self._descriptions) if one.has_wrench]
        if len(places) > 1:
            names = ", ".join(self._descriptions[place].name for place in places)
            raise UserError(f"bus.sensors: {names} are force-torque sensors; this node reads one, start another one")
        if not places:
            return None
        self._channels[places[0]] = [WRENCH]
        self._offer(WRENCH, WrenchStamped, partial(_set_frame, self._prefix + chosen.frame))
        return WrenchStream(
            self._descriptions[places[0]],
            Compensation(chosen.mounting),
            self._decimator("wrench", chosen.decimation),
            1.0 if chosen.device_sign == "robot_on_sensor" else -1.0,
            chosen.latency_s,
            chosen.publish_faulty,
            max(20, round(chosen.tare_s * cycle_hz)),
        )

    def _make_pressures(self) -> None:
        chosen = self._configuration.pressure
        inputs = [
            (place, column) for place, one in enumerate(self._descriptions) for column in range(len(one.voltages))
        ]
        if len(chosen.chambers) > len(inputs):
            raise UserError(
                f"pressure.chambers: {len(chosen.chambers)} for {len(inputs)} analogue inputs of bus.sensors "
                f"{', '.join(self._configuration.bus.sensors)}"
            )
        scale, taken = chosen.scale, 0
        for place, description in enumerate(self._descriptions):
            named = [
                (column, name)
                for (where, column), name in zip(inputs, chosen.chambers, strict=False)
                if where == place and name
            ]
            if not named:
                continue
            self._pressures[place] = PressureStream(
                description,
                [column for column, _ in named],
                replace(scale, offsets_pa=scale.offsets_pa[taken : taken + len(named)]),
                self._decimator("pressures", chosen.decimation),
            )
            taken += len(named)
            self._channels[place] = [_pressure_channel(name) for _, name in named]
            for channel in self._channels[place]:
                self._offer(channel, FluidPressure, partial(_set_variance, chosen.variance_pa2))

    def _offer(self, channel: Channel, kind: Any, complete: Any) -> None:
        self._outputs[channel.topic] = self.create_publisher(kind, channel.topic, _STREAM)
        self._messages[channel.topic] = SerializedSensor(channel, new, serialized, self._prefix, complete)

    def _decimator(self, name: str, factor: int) -> Decimator | None:
        if factor == 1:
            return None
        cycle_hz = self._configuration.bus.cycle_hz
        decimator = Decimator(factor, 1.0 / cycle_hz)
        self.get_logger().info(
            f"{name}: {cycle_hz / factor:g} Hz, low-passed; {1e3 * decimator.delay_s:.1f} ms late, as the stamps know"
        )
        return decimator

    def _tell(self, sentence: str, is_bad: bool) -> None:
        """From any thread."""
        self._told.put((sentence, is_bad))

    def _tick(self, cycle: Cycle) -> None:
        if not self._started:  # only now: other nodes of the process may have taken long to be made
            self._started = True
            cycle.start()
        if cycle.refusal is not None:
            raise cycle.refusal
        now_s = time.monotonic()
        if now_s - self._looked_s > _HEARD_S:
            self._looked_s = now_s
            self._heard = frozenset(topic for topic, one in self._outputs.items() if one.get_subscription_count())
        news = False
        while not self._told.empty():
            sentence, is_bad = self._told.get()
            if is_bad:  # not one call of either: rclpy's loggers want one severity of each line
                self.get_logger().warning(sentence)
            else:
                self.get_logger().info(sentence)
            news = True
        if news:  # at once, not with the next report
            self._report(cycle)
        stay(partial(self._read, cycle), self.context.ok)

    def _read(self, cycle: Cycle) -> float:
        """Publish what has come, and hand it on; for how long the next may wait, s."""
        by_place: dict[int, tuple[Device, list[int], list[bytes]]] = {}
        while cycle.readings:
            device, stamp_ns, data = cycle.readings.popleft()
            _, stamps, pieces = by_place.setdefault(device.place, (device, [], []))
            stamps.append(stamp_ns)
            pieces.append(data)
        handed: list[Measurement] = []
        for place, (device, stamps, pieces) in by_place.items():
            stream = self._pressures.get(place)
            if self._wrench is not None and device.description.has_wrench:
                self._publish(WRENCH, self._wrench(device, stamps, b"".join(pieces)), slice(None), handed)
            elif stream is not None:
                batch = stream(device, stamps, b"".join(pieces))
                for column, channel in enumerate(self._channels[place]):
                    self._publish(channel, batch, slice(column, column + 1), handed)
        if not handed or self._take is None:
            return 0.0  # the executor has others to serve, too
        handed.sort(key=_STAMP)
        return self._take(handed)

    def _publish(self, channel: Channel, batch: Batch, columns: slice, handed: list[Measurement]) -> None:
        """One topic's part of a batch; a pressure that is NaN is none."""
        topic = channel.topic
        is_heard, is_taken = topic in self._heard, topic in self._taken
        if not is_heard and not is_taken:
            return
        publisher, message = self._outputs[topic], self._messages[topic]
        for stamp_ns, row in zip(*batch, strict=True):
            value = row[columns]
            if value[0] != value[0]:
                continue
            if is_heard:
                publisher.publish(message(stamp_ns, value))
            if is_taken:
                handed.append(Measurement(stamp_ns, channel.sensor, value))

    def _device_of_wrench(self) -> Device:
        for device in self._bus.devices:
            if device.description.has_wrench:
                return device
        raise UserError("no force-torque sensor answers")

    def _on_tare(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        return self._answer(response, lambda: self._tare.make(self._device_of_wrench()))

    def _on_clear_tare(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        return self._answer(response, lambda: self._tare.clear(self._device_of_wrench()))

    def _answer(self, response: Trigger.Response, do: Any) -> Trigger.Response:
        assert self._cycle is not None
        try:
            if self._cycle.trouble:
                raise UserError(self._cycle.trouble)
            response.success, response.message = True, do()
        except UserError as error:
            response.success, response.message = False, str(error)
        self.get_logger().info(response.message)
        return response

    def _report(self, cycle: Cycle) -> None:
        """Diagnostics, and a reminder of what is waited for."""
        now_s = time.monotonic()
        if cycle.trouble and now_s - self._reminded_s > _REMIND_S:
            self._reminded_s = now_s
            self.get_logger().warning(f"waiting: {cycle.trouble}")
        name = self.get_fully_qualified_name().strip("/")
        statuses = [bus_status(new, name, cycle, cycle.figures(), self._bus.expected)]
        statuses += [self._device_status(name, device) for device in self._bus.devices]
        stamp = header(new, self.get_clock().now().nanoseconds)
        self._diagnostics.publish(new("diagnostic_msgs/msg/DiagnosticArray", header=stamp, status=statuses))

    def _device_status(self, name: str, device: Device) -> Any:
        remarks = list(device.conversion.remarks) if device.conversion is not None else []
        values: dict[str, float] = {}
        said: Any = {}
        if self._wrench is not None and device.description.has_wrench:
            lost = self._tare.lost(device)
            remarks += [lost] if lost else []
            said = self._wrench.status.taken()
            zero = self._wrench.compensation.zero
            values = {
                "received": self._wrench.received,
                "refused": self._wrench.refused,
                "tared": self._tare.is_made,
                "tared_on_device": self._tare.on_device is not None,
                "tare_includes_weight": self._configuration.wrench.tare_includes_weight,
                **{f"zero_{part}": value for part, value in zip(WRENCH_FIELDS, zero, strict=True)},
            }
        stream = self._pressures.get(device.place)
        if stream is not None:
            said = stream.status.taken()
            values = {"received": stream.received}
            for channel, beyond in zip(self._channels[device.place], stream.beyond_taken(), strict=True):
                if beyond:
                    remarks.append(f"{channel.sensor}: {beyond} voltages that its sensor does not give: is a wire off?")
        return device_status(new, name, device, said, remarks, values)


def _pressure_channel(chamber: str) -> Channel:
    return Channel(f"pressure/{chamber}", "sensor_msgs/msg/FluidPressure", f"pressure/{chamber}")


def _set_frame(frame: str, message: Any) -> None:
    message.header.frame_id = frame


def _set_variance(variance: float, message: Any) -> None:
    message.variance = variance
