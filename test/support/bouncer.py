"""A toy robot for tests of live nodes: a ball that goes up and down, whose height is measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.configuration import parameter
from onboard_estimation.base.measurement import Channel, Estimate, Matrix, Measurement, PhaseEvent
from onboard_estimation.base.series import Recording, Series, set_pose_channel, stamps_between
from onboard_estimation.contract.robot import TruthSpecification
from onboard_estimation.contract.simulated import Scenario, SimulatedLive
from onboard_estimation.filtering.state_space import StateSpace, vector
from onboard_estimation.pipeline.estimator import Estimator, Step

HEIGHT = Channel("height", "geometry_msgs/msg/PointStamped", "height")
PHASES = ("falling", "rising")
SPACE = StateSpace(vector("height", ("z",), "m"), vector("vertical_velocity", ("vz",), "m/s"))


@dataclass(frozen=True)
class Bouncer:
    stddev_m: float = parameter(0.01, "noise of the height", unit="m", exclusive_minimum=0.0)
    lag_s: float = parameter(0.5, "how late a measurement may be", unit="s", minimum=0.0)


class Bounce(NamedTuple):
    """Stamp, height and slope of the last measurement."""

    stamp_ns: int
    height_m: float
    slope_m_s: float


class BouncerEstimator(Estimator["Bounce | None"]):
    """The last height and the slope since the one before; an apex and a bottom where the slope changes its sign."""

    space = SPACE
    phases = PHASES

    def __init__(self, configuration: Bouncer) -> None:
        self._configuration = configuration

    def start(self, initial: Estimate | None) -> None:
        return None

    def step(self, state: Bounce | None, measurement: Measurement) -> Step:
        stamp_ns, height_m = measurement.stamp_ns, float(measurement.value[2])
        slope, events = 0.0, ()
        if measurement.sensor == HEIGHT.sensor and state is not None:
            slope = (height_m - state.height_m) / (1e-9 * (stamp_ns - state.stamp_ns))
            if slope * state.slope_m_s < 0.0:
                rising = int(slope > 0.0)
                name = "bottom" if rising else "apex"
                events = (PhaseEvent(name, state.stamp_ns, stamp_ns, 0.01, rising, state.height_m),)
        covariance = self._configuration.stddev_m**2 * np.eye(2)
        estimate = Estimate(stamp_ns, np.array([height_m, slope]), covariance)
        return Step(Bounce(stamp_ns, height_m, slope), estimate, None, events)

    def phase(self, state: Bounce | None) -> str | None:
        return None if state is None else PHASES[int(state.slope_m_s > 0.0)]


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

    def estimator(self, configuration: Bouncer, name: str) -> BouncerEstimator:
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
