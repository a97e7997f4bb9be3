"""A small real estimator for tests of buffer and pipeline: position and velocity on a line, with commands."""

from __future__ import annotations

import numpy as np

from onboard_estimation.filtering.gating import Gate
from onboard_estimation.filtering.kalman import KalmanFilter
from onboard_estimation.filtering.state_space import StateSpace, vector
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Estimate, Measurement
from onboard_estimation.pipeline import Estimator

COMMAND = "thruster/command"
ROWS = {"range": np.array([[1.0, 0.0]]), "speed": np.array([[0.0, 1.0]]), "sonar": np.array([[1.0, 0.2]])}
NOISES = {"range": np.array([[0.01]]), "speed": np.array([[0.04]]), "sonar": np.array([[0.25]])}


class Tracker(Estimator):
    """Kalman filter of a point that a commanded acceleration drives."""

    space = StateSpace(vector("position", ("x",), "m"), vector("velocity", ("x",), "m/s"))

    def __init__(self, gate_probability: float = 0.997, recover_after: int = 20) -> None:
        super().__init__()
        self.gate = Gate(gate_probability, recover_after)
        self.resets = -1
        self.reset()

    def reset(self) -> None:
        self.resets += 1
        self.filter = KalmanFilter(np.zeros(2), np.diag([4.0, 1.0]))
        self.stamp_ns: int | None = None
        self.acceleration = 0.0
        self.gate.restore(0)

    def snapshot(self):
        return self.filter.mean, self.filter.covariance, self.stamp_ns, self.acceleration, self.gate.snapshot()

    def restore(self, snapshot) -> None:
        self.filter.mean, self.filter.covariance, self.stamp_ns, self.acceleration, rejected = snapshot
        self.gate.restore(rejected)

    def apply(self, measurement: Measurement) -> Estimate | None:
        self.predict(measurement.stamp_ns)
        if measurement.sensor == COMMAND:
            self.acceleration = float(measurement.value[0])
            return None
        row, noise = ROWS[measurement.sensor], NOISES[measurement.sensor]
        self.last_innovation = self.filter.update_linear(measurement.value, row, noise, self.gate)
        return Estimate(measurement.stamp_ns, self.filter.mean, self.filter.covariance)

    def predict(self, stamp_ns: int) -> None:
        step = 0.0 if self.stamp_ns is None else (stamp_ns - self.stamp_ns) / NANOSECONDS_PER_SECOND
        assert step >= 0.0, "the buffer let time run backwards"
        self.stamp_ns = stamp_ns
        transition = np.array([[1.0, step], [0.0, 1.0]])
        offset = self.acceleration * np.array([0.5 * step**2, step])
        self.filter.predict_linear(transition, step * np.diag([1e-4, 1e-2]), offset)


def reading(time_s: float, sensor: str = "range", value: float = 0.0) -> Measurement:
    return Measurement(round(time_s * NANOSECONDS_PER_SECOND), sensor, np.array([value]))


def as_bytes(record: list[Estimate]) -> list[tuple[int, bytes, bytes]]:
    """Estimates for comparison to the last bit."""
    return [(estimate.stamp_ns, estimate.mean.tobytes(), estimate.covariance.tobytes()) for estimate in record]
