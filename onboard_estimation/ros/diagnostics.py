"""Health of each sensor and of the filter as `diagnostic_msgs/DiagnosticArray`, and what a node waits for, in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from onboard_estimation.base.measurement import Channel
from onboard_estimation.pipeline.pipeline import Pipeline
from onboard_estimation.ros.sensor_messages import New, header

OK, WARN, ERROR, STALE = b"\x00", b"\x01", b"\x02", b"\x03"

_MUCH_GATED = 0.05
"""Share of refused measurements, of those since the last report, that is worth a warning; the gate means to refuse
three in a thousand."""
_MUCH_LATE = 0.05
"""Share of measurements that came too late, of those since the last report, that the log is told."""
_LOST = {
    "lost": "lost on the way here, or in the full queue of this node",
    "invalid": "not finite",
    "out_of_range": "beyond the sensor's range",
    "incomplete": "without a part that is needed",
    "too_late": "too late",
    "stray": "stray",
}


@dataclass
class HealthReport:
    """Statuses since the last report; keeps the counters of then.

    Parameters
    ----------
    new
        Makes a message, as for `EstimateMessages`.
    name
        Of the node, before the names of the sensors.
    """

    new: New
    name: str
    _before: dict[str, dict[str, float]] = field(default_factory=dict)

    def __call__(
        self,
        pipeline: Pipeline,
        channels: Sequence[Channel],
        stamp_ns: int,
        estimates: int,
        arrivals: Mapping[str, Mapping[str, int]] = MappingProxyType({}),
        several: Mapping[str, str] = MappingProxyType({}),
    ) -> Any:
        """The message.

        Parameters
        ----------
        estimates
            How many there were so far.
        arrivals, several
            See `Arrivals.counters` and `Arrivals.several`.
        """
        now, faults = pipeline.statistics(), pipeline.sensor_faults
        statuses = [self._filter_status(pipeline, estimates)]
        if pipeline.estimator.phases:
            statuses.append(self._phase_status(pipeline))
        for channel in channels:
            counters = now.get(channel.sensor, {})
            arrived = arrivals.get(channel.sensor, {})
            if counters or any(arrived.values()):
                now[channel.sensor] = counters = {**counters, **arrived}
            fault = several.get(channel.sensor) or faults.get(channel.sensor, "")
            if channel.required or counters or fault:
                before = self._before.get(channel.sensor, {})
                statuses.append(self._sensor_status(channel, counters, before, fault))
        self._before = now
        return self.new("diagnostic_msgs/msg/DiagnosticArray", header=header(self.new, stamp_ns), status=statuses)

    def _filter_status(self, pipeline: Pipeline, estimates: int) -> Any:
        level, text = OK, "running"
        if estimates == 0:
            level, text = WARN, "no estimate yet"
        elif pipeline.breakdowns:
            level, text = WARN, f"broke down {pipeline.breakdowns} times and went on from its last good state"
        values = {
            "estimates": estimates,
            "breakdowns": pipeline.breakdowns,
            "clock_jumps": pipeline.clock_jumps,
            **pipeline.health,
        }
        return self._status("filter", level, text, values)

    def _phase_status(self, pipeline: Pipeline) -> Any:
        phase = pipeline.phase
        if phase is None:
            return self._status("phase", WARN, "no phase yet", {})
        return self._status("phase", OK, phase, {"phase": pipeline.estimator.phases.index(phase)})

    def _sensor_status(
        self, channel: Channel, now: Mapping[str, float], before: Mapping[str, float], fault: str
    ) -> Any:
        def since(counter: str) -> float:
            return now.get(counter, 0.0) - before.get(counter, 0.0)

        if not now:
            return self._status(channel.sensor, STALE, f"waiting for {channel.topic}: 0 messages", {"received": 0})
        rate_hz = now.get("rate_hz", math.nan)
        level, text = OK, f"{rate_hz:.1f} Hz" if math.isfinite(rate_hz) else "first message"
        text += "; losses are not counted by this middleware" if now.get("losses_unknown") else ""
        received = since("received")
        lost = [f"{since(counter):.0f} {word}" for counter, word in _LOST.items() if since(counter)]
        if since("unreadable"):
            level, text = WARN, f"{since('unreadable'):.0f} messages could not be read"
        elif received == 0 and channel.required:
            level, text = STALE, f"silent since the last report, {now.get('received', 0.0):.0f} before"
        elif fault or lost:
            level, text = WARN, ", ".join([*([fault] if fault else []), *lost])
        elif received == 0:  # such as commands, which come when there is something to command
            text = f"optional; {now['received']:.0f} so far, none at the moment"
        elif since("gated") > _MUCH_GATED * received:
            level, text = WARN, f"{since('gated'):.0f} of {received:.0f} measurements refused by the gate"
        return self._status(channel.sensor, level, text, now)

    def _status(self, part: str, level: bytes, text: str, values: Mapping[str, float]) -> Any:
        return status(self.new, self.name, part, level, text, values)


def status(new: New, name: str, part: str, level: bytes, text: str, values: Mapping[str, float]) -> Any:
    """A `diagnostic_msgs/msg/DiagnosticStatus` of a part (a sensor, a filter) of the node of that name."""
    return new(
        "diagnostic_msgs/msg/DiagnosticStatus",
        level=level,
        name=f"{name}: {part}",
        message=text,
        hardware_id=part,
        values=[new("diagnostic_msgs/msg/KeyValue", key=key, value=_figure(value)) for key, value in values.items()],
    )


def _figure(value: float) -> str:
    """Counts to the last digit, whatever else there is to six."""
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.6g}"


def waiting_sentence(pipeline: Pipeline, channels: Sequence[Channel], names: Mapping[str, str]) -> str:
    """What required topics have not sent anything, as a log says it; empty where all have.

    Parameters
    ----------
    names
        Full name in the graph of each channel's topic.
    """
    seen = pipeline.statistics()
    silent = [names[channel.topic] for channel in channels if channel.required and channel.sensor not in seen]
    return f"waiting for {', '.join(f'{name}: 0 messages' for name in silent)}" if silent else ""


@dataclass
class LossReport:
    """What was lost or came too late since it was asked last, as a log says it; keeps the counters of then."""

    _before: dict[str, dict[str, float]] = field(default_factory=dict)

    def __call__(self, pipeline: Pipeline, arrivals: Mapping[str, Mapping[str, int]]) -> list[str]:
        """A sentence on what was lost, see `Arrivals.counters`, and one on what came too late, where it was much."""
        now = {sensor: {"lost": 0, **one, **arrivals.get(sensor, {})} for sensor, one in pipeline.statistics().items()}
        lost, late = [], []
        for sensor, counters in now.items():
            before = self._before.get(sensor, {})
            received, missing, behind = (
                counters[name] - before.get(name, 0) for name in ("received", "lost", "too_late")
            )
            if missing:
                lost.append(f"{missing:.0f} of {missing + received:.0f} from {sensor}")
            if behind > _MUCH_LATE * received > 0.0:
                late.append(f"{behind:.0f} of {received:.0f} from {sensor}")
        self._before = now
        sentences = {
            "lost on the way here, or in this node's full queue: {}; the node stood still, this computer is too busy "
            "for it, or the way loses messages": lost,
            "left out as too late: {}; this computer is too busy for the node, or the sensors' clocks or ways differ "
            "by more than lag_s": late,
        }
        return [sentence.format(", ".join(found)) for sentence, found in sentences.items() if found]
