"""A small real estimator for tests of buffer and pipeline: position and velocity on a line, with commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from onboard_estimation.base.measurement import (
    NANOSECONDS_PER_SECOND,
    Block,
    Channel,
    Estimate,
    FilteredBlock,
    Measurement,
    PhaseEvent,
    filter_order,
)
from onboard_estimation.filtering.gating import Gate
from onboard_estimation.filtering.moments import Moments, predict, update
from onboard_estimation.filtering.state_space import StateSpace, vector
from onboard_estimation.pipeline.buffer import Filtered, MeasurementBuffer
from onboard_estimation.pipeline.estimator import Estimator, Step
from onboard_estimation.pipeline.pipeline import Pipeline

COMMAND = "thruster/command"
ROWS = {"range": np.array([[1.0, 0.0]]), "speed": np.array([[0.0, 1.0]]), "sonar": np.array([[1.0, 0.2]])}
NOISES = {"range": np.array([[0.01]]), "speed": np.array([[0.04]]), "sonar": np.array([[0.25]])}
JOINTS = "sensor_msgs/msg/JointState"
CHANNELS = (
    *(Channel(name, JOINTS, name, names=(name,)) for name in ROWS),
    Channel(COMMAND, JOINTS, COMMAND, command=True),
)


class Tracked(NamedTuple):
    moments: Moments
    stamp_ns: int | None = None
    acceleration: float = 0.0
    rejected: int = 0


class Tracker(Estimator[Tracked]):
    """Kalman filter of a point that a commanded acceleration drives."""

    space = StateSpace(vector("position", ("x",), "m"), vector("velocity", ("x",), "m/s"))

    def __init__(self, gate_probability: float = 0.997, recover_after: int = 20) -> None:
        self.gate = Gate(gate_probability, recover_after)

    def start(self, initial: Estimate | None) -> Tracked:
        if initial is None:
            return Tracked(Moments(np.zeros(2), np.diag([4.0, 1.0])))
        return Tracked(Moments(initial.mean, initial.covariance), initial.stamp_ns)

    def step(self, state: Tracked, measurement: Measurement) -> Step:
        state = moved(state, measurement.stamp_ns)
        if measurement.sensor == COMMAND:
            return Step(state._replace(acceleration=float(measurement.value[0])))
        row, noise = ROWS[measurement.sensor], NOISES[measurement.sensor]
        missing = measurement.value - row @ state.moments.mean
        moments, innovation, rejected = update(
            self.space, state.moments, missing, row, noise, self.gate, state.rejected
        )
        state = state._replace(moments=moments, rejected=rejected)
        return Step(state, Estimate(measurement.stamp_ns, *moments), innovation)


def moved(state: Tracked, stamp_ns: int) -> Tracked:
    step = 0.0 if state.stamp_ns is None else (stamp_ns - state.stamp_ns) / NANOSECONDS_PER_SECOND
    assert step >= 0.0, "time ran backwards"
    transition = np.array([[1.0, step], [0.0, 1.0]])
    mean = transition @ state.moments.mean + state.acceleration * np.array([0.5 * step**2, step])
    moments = predict(state.moments, mean, transition, step * np.diag([1e-4, 1e-2]))
    return state._replace(moments=moments, stamp_ns=stamp_ns)


class Bare:
    """An estimator as a buffer wants it, without a pipeline's checks."""

    def __init__(self, estimator: Estimator[Any], at_once: int = 0) -> None:
        self.estimator, self.resets, self.order = estimator, 0, filter_order(CHANNELS)
        self.at_once = at_once

    def rank(self, sensor: str) -> int:
        return self.order[sensor]

    @property
    def most_at_once(self) -> int:
        return self.at_once

    def step(self, state: Any, measurement: Measurement) -> Filtered:
        step = self.estimator.step(state, measurement)
        return Filtered(step.state, 1, [step.estimate] if step.estimate is not None else [], (), step.estimate)

    def gathered(self, measurements: Sequence[Measurement]) -> Block | None:
        return Block.of(measurements) if self.at_once and measurements else None

    def several(self, state: Any, block: Block) -> Filtered | None:
        """Some of them, as a compiled filter would."""
        block = block.rows(0, self.at_once)
        found = by_steps(self.estimator, state, block)
        if found is None:
            return None
        given = zip(block.stamps_ns[found.made_of].tolist(), found.means, found.covariances, strict=True)
        estimates = [Estimate(*one) for one in given]
        return Filtered(found.state, found.taken, estimates, (), estimates[-1])

    def restarted(self, state: Any) -> Any:
        self.resets += 1
        return self.estimator.start(None)


def by_steps(estimator: Estimator[Any], state: Any, block: Block) -> FilteredBlock | None:
    """What a compiled filter would make of a block: up to the last reading that gives an estimate."""
    given: list[tuple[int, Estimate]] = []
    events: list[PhaseEvent] = []
    after = state
    for number in range(len(block.kinds)):
        step = estimator.step(state, block.measurement(number))
        state = step.state
        events += [one for one in step.events if isinstance(one, PhaseEvent)]
        if step.estimate is not None:
            given.append((number, step.estimate))
            after, told = state, tuple(events)
    if not given:
        return None
    numbers = np.array([number for number, _ in given])
    means, covariances = (np.array([getattr(one, name) for _, one in given]) for name in ("mean", "covariance"))
    return FilteredBlock(after, int(numbers[-1]) + 1, numbers, means, covariances, told)


def buffer_of(estimator: Estimator[Any], *arguments: Any, **named: Any) -> MeasurementBuffer:
    return MeasurementBuffer(Bare(estimator), estimator.start(None), *arguments, **named)


def pipeline_of(estimator: Estimator[Any], **named: Any) -> Pipeline:
    return Pipeline(estimator, CHANNELS, **named)


def reading(time_s: float, sensor: str = "range", value: float = 0.0) -> Measurement:
    return Measurement(round(time_s * NANOSECONDS_PER_SECOND), sensor, np.array([value]))


def as_bytes(record: list[Estimate]) -> list[tuple[int, bytes, bytes]]:
    """Estimates for comparison to the last bit."""
    return [(estimate.stamp_ns, estimate.mean.tobytes(), estimate.covariance.tobytes()) for estimate in record]
