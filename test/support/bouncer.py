"""A toy robot for tests of live nodes: a ball that goes up and down, whose height is measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.capabilities.simulated import Scenario, SimulatedLive
from onboard_estimation.configuration import parameter
from onboard_estimation.filtering.state_space import StateSpace, vector
from onboard_estimation.measurement import Channel, Estimate, Matrix, Measurement, PhaseEvent
from onboard_estimation.pipeline import Estimator
from onboard_estimation.robots import TruthSpecification
from onboard_estimation.series import Recording, Series
from onboard_estimation.simulation import set_pose_channel, stamps_between

HEIGHT = Channel("height", "geometry_msgs/msg/PointStamped", "height")
PHASES = ("falling", "rising")
SPACE = StateSpace(vector("height", ("z",), "m"), vector("vertical_velocity", ("vz",), "m/s"))


@dataclass(frozen=True)
class Bouncer:
    stddev_m: float = parameter(0.01, "noise of the height", unit="m", exclusive_minimum=0.0)
    lag_s: float = parameter(0.5, "how late a measurement may be", unit="s", minimum=0.0)


class BouncerEstimator(Estimator):
    """The last height and the slope since the one before; an apex and a bottom where the slope changes its sign."""

    space = SPACE
    phases = PHASES

    def __init__(self, configuration: Bouncer) -> None:
        super().__init__()
        self._configuration = configuration
        self._events: list[PhaseEvent] = []
        self.reset()

    def reset(self) -> None:
        self._last: tuple[int, float, float] | None = None  # stamp, height, slope

    def apply(self, measurement: Measurement) -> Estimate | None:
        stamp_ns = measurement.stamp_ns
        if measurement.sensor != HEIGHT.sensor or self._last is None:
            self._last = stamp_ns, float(measurement.value[2]), 0.0
        else:
            before_ns, before_m, slope_before = self._last
            slope = (measurement.value[2] - before_m) / (1e-9 * (stamp_ns - before_ns))
            if slope * slope_before < 0.0:
                rising = int(slope > 0.0)
                name = "bottom" if rising else "apex"
                self._events.append(PhaseEvent(name, before_ns, stamp_ns, 0.01, rising, before_m))
            self._last = stamp_ns, float(measurement.value[2]), float(slope)
        return Estimate(stamp_ns, np.array(self._last[1:]), self._configuration.stddev_m**2 * np.eye(2))

    @property
    def phase(self) -> str | None:
        return None if self._last is None else PHASES[int(self._last[2] > 0.0)]

    def take_events(self) -> list[PhaseEvent]:
        events, self._events = self._events, []
        return events

    def snapshot(self) -> Any:
        return self._last

    def restore(self, snapshot: Any) -> None:
        self._last = snapshot


class BouncerSimulation:
    """Height 1 m + 0.5 m sin(2 pi t), until an estimate comes.

    From then on x and y tell what the controller has: the number of the phase and the height.
    """

    def __init__(self) -> None:
        self._at_ns = 0
        self._taken: tuple[float, int] | None = None

    def take_estimate(self, height_m: float, velocity_m_s: float, phase: int) -> None:
        self._taken = height_m, phase

    def advance(self, stop_ns: int) -> Recording:
        stamps = stamps_between(self._at_ns, stop_ns, 100.0)
        heights = np.zeros((len(stamps), 3))
        heights[:, 2] = 1.0 + 0.5 * np.sin(2e-9 * np.pi * stamps)
        if self._taken is not None:
            heights[:, 1], heights[:, 0] = self._taken
        given = stamps_between(self._at_ns, stop_ns, 2.0)
        poses = np.zeros((len(given), 43))
        poses[:, 2], poses[:, 6] = 1.0, 1.0
        self._at_ns = stop_ns
        return Recording((Series(HEIGHT, stamps, heights), Series(set_pose_channel(), given, poses)), ())


class BouncerRobot(SimulatedLive[Bouncer]):
    name = "bouncer"
    summary = "a ball that bounces"
    configuration_type = Bouncer
    scenarios: Mapping[str, Scenario] = {"ball": Scenario("up and down")}

    def channels(self, configuration: Bouncer) -> tuple[Channel, ...]:
        return (HEIGHT, set_pose_channel())

    def estimator(self, configuration: Bouncer, name: str, initial: Estimate | None) -> BouncerEstimator:
        return BouncerEstimator(configuration)

    def truth_specification(self, configuration: Bouncer) -> TruthSpecification:
        return TruthSpecification(("ball",))

    def true_parts(self, configuration: Bouncer, bodies: Mapping[str, NDArray[np.float64]]) -> dict[str, Matrix]:
        return {"height": bodies["ball"][:, 2:3]}

    def simulation(
        self, configuration: Bouncer, scenario: str, variant: str, rng: np.random.Generator, imu_rate_hz: float = 0.0
    ) -> BouncerSimulation:
        return BouncerSimulation()


ROBOT = BouncerRobot()
