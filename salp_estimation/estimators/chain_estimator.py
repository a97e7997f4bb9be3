"""What both estimators of a chain make of its messages: commands, one gyro per link, poses given from outside."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from onboard_estimation.base.measurement import (
    IMU,
    NANOSECONDS_PER_SECOND,
    POSE,
    Estimate,
    Matrix,
    Measurement,
    Notice,
    Vector,
)
from onboard_estimation.base.series import SET_POSE
from onboard_estimation.filtering.gating import Gate, Innovation
from onboard_estimation.filtering.planar import planar_covariance, planar_pose
from onboard_estimation.pipeline.estimator import Estimator, Event, Step
from onboard_estimation.pipeline.sensor_trust import (
    SILENT_S,
    TRUST_READINGS,
    SensorTrust,
    others_are_well,
)
from salp_estimation.estimators.gaussian_sum_start import WideComponent
from salp_estimation.model.configuration import SalpConfiguration

COMMAND = "actuators/command"
COMMAND_LAG_S = 0.05
"""Lag of the commands that a residual model starts from; what it lacks of the real one is among its parameters."""
STANDING_M_S = 1e-6
"""Slower commands count as none: the robot rests."""
_SILENT_NS = round(SILENT_S * NANOSECONDS_PER_SECOND)
GYRO_AXES = {"x": (0, 1.0), "y": (1, 1.0), "z": (2, 1.0), "-x": (0, -1.0), "-y": (1, -1.0), "-z": (2, -1.0)}

Filtered = TypeVar("Filtered")
Wheels = TypeVar("Wheels")


class Reading(NamedTuple):
    """A rate of the gyro of one link, and how long ago its last one was, s (infinite for the first)."""

    link: int
    rate_rad_s: float
    period_s: float


class GivenPose(NamedTuple):
    """A pose (3,) of the base from outside, with its covariance (3, 3) along the body's axes.

    `is_known` tells whether the covariance came with it; else it is the initial one.
    """

    pose: Vector
    covariance: Matrix
    is_known: bool


@dataclass(frozen=True, slots=True)
class ChainState(Generic[Filtered, Wheels]):
    """All that measurements change.

    Attributes
    ----------
    filtered
        Moments of the filter.
    wheels
        What the wheels do.
    stamp_ns
        Of the last measurement; None before the first, where no initial state was given.
    gyros
        By link.
    wide
        The same of a filter that began with wider joint angles, while both are followed.
    """

    filtered: Filtered
    wheels: Wheels
    stamp_ns: int | None
    gyros: tuple[SensorTrust, ...]
    wide: WideComponent[ChainState[Filtered, Wheels]] | None = None


class ChainInputs:
    """What estimators of a chain read from messages."""

    def __init__(self, configuration: SalpConfiguration) -> None:
        chain = configuration.chain
        self.configuration = configuration
        self._link_of = {f"imu/{name}": link for link, name in enumerate(chain.link_names)}
        self._wheel_radii_m = chain.signed_wheel_radii_m
        axis, self._gyro_sign = GYRO_AXES[configuration.gyro.axis]
        self._gyro_element = IMU.angular_velocity.start + axis
        self._initial_covariance = configuration.initial_covariance()

    def _rate(self, measurement: Measurement) -> float:
        """Turning rate that an IMU reads, rad/s."""
        return self._gyro_sign * float(measurement.value[self._gyro_element])

    def _given_pose(self, value: Vector) -> GivenPose:
        pose = planar_pose(value[None])[0]
        covariance = planar_covariance(value[POSE.covariance], float(pose[2]))
        if (np.diag(covariance) > 0.0).all():
            return GivenPose(pose, covariance, True)
        return GivenPose(pose, self._initial_covariance[:3, :3].copy(), False)


class ChainEstimator(ChainInputs, Estimator[ChainState[Filtered, Wheels]], Generic[Filtered, Wheels]):
    """Pose and shape of the chain.

    Measurements
    ------------
    actuators/command
        (N,) wheel speeds, rad/s, acting until the next command. Before the first one the robot is taken to stand.
    imu/<link>
        (6,) gyro and accelerometer; the gyro's axis `gyro.axis` is used. A gyro whose readings contradict a state that
        all others confirm is refused, however long: only where they do not, the filter itself may have gone astray.
    set_pose
        (43,) pose of the base and its covariance along the fixed axes; where x, y or heading has no variance, the
        initial one is taken.
    """

    def __init__(self, configuration: SalpConfiguration) -> None:
        super().__init__(configuration)
        self._gate = Gate(configuration.gate_probability, configuration.recover_after)
        self._least_period_ns = 0

    @abstractmethod
    def begun(self, mean: Vector, covariance: Matrix) -> tuple[Filtered, Wheels]:
        """Those moments and standing wheels at the start."""

    @abstractmethod
    def commanded(
        self, filtered: Filtered, wheels: Wheels, elapsed_ns: int, rim_speeds_m_s: Vector
    ) -> tuple[Filtered, Wheels]:
        """Other rim speeds (N,) are asked for, so long after the last measurement."""

    @abstractmethod
    def predicted(self, filtered: Filtered, wheels: Wheels, stamp_ns: int, elapsed_ns: int) -> tuple[Filtered, Wheels]:
        """Moved on to a stamp, so long after the last measurement."""

    @abstractmethod
    def corrected(
        self, filtered: Filtered, wheels: Wheels, stamp_ns: int, reading: Reading, gyro: SensorTrust, may_recover: bool
    ) -> tuple[Filtered, Innovation, int]:
        """Corrected by a gyro, what the update saw, and rejections in a row."""

    @abstractmethod
    def placed(self, filtered: Filtered, given: GivenPose) -> tuple[Filtered, Innovation | None]:
        """Told where it is."""

    @abstractmethod
    def published(self, filtered: Filtered) -> tuple[Vector, Matrix]:
        """Mean and covariance in `space`."""

    def start(self, initial: Estimate | None) -> ChainState[Filtered, Wheels]:
        """From an initial state, or at the origin, straight, with the configured standard deviations."""
        known = initial or self.default_start()
        stamp_ns = None if initial is None else initial.stamp_ns
        return ChainState(*self.begun(known.mean, known.covariance), stamp_ns, (SensorTrust(),) * len(self._link_of))

    def default_start(self) -> Estimate:
        """At the origin, straight, at any time."""
        return Estimate(0, self.space.origin(), self._initial_covariance)

    def step(self, state: ChainState[Filtered, Wheels], measurement: Measurement) -> Step:
        """Take a command, or predict to the measurement's stamp and correct."""
        stamp_ns, sensor, gyros = measurement.stamp_ns, measurement.sensor, state.gyros
        filtered, wheels = state.filtered, state.wheels
        elapsed_ns = 0 if state.stamp_ns is None else stamp_ns - state.stamp_ns
        innovation: Innovation | None
        events: tuple[Event, ...] = ()
        if sensor == COMMAND:
            rim_speeds = self._wheel_radii_m * measurement.value
            filtered, wheels = self.commanded(filtered, wheels, elapsed_ns, rim_speeds)
            return Step(ChainState(filtered, wheels, stamp_ns, gyros))
        if sensor == SET_POSE:
            filtered, wheels = self.predicted(filtered, wheels, stamp_ns, elapsed_ns)
            filtered, innovation = self.placed(filtered, self._given_pose(measurement.value))
        else:
            link = self._link_of[sensor]
            gyro = gyros[link]
            since_ns = None if gyro.last_ns is None else stamp_ns - gyro.last_ns
            if since_ns is not None and since_ns < self._least_period_ns:
                return Step(state, used=False)
            filtered, wheels = self.predicted(filtered, wheels, stamp_ns, elapsed_ns)
            reading = Reading(
                link, self._rate(measurement), np.inf if since_ns is None else since_ns / NANOSECONDS_PER_SECOND
            )
            # Before that many rejections nothing depends on the others.
            is_due = gyro.rejected_in_a_row + 1 >= self._gate.recover_after
            may_recover = not (is_due and others_are_well(gyros, link, stamp_ns))
            filtered, innovation, rejected = self.corrected(filtered, wheels, stamp_ns, reading, gyro, may_recover)
            trust = gyro.trust + (innovation.accepted - gyro.trust) / TRUST_READINGS
            gyros = (*gyros[:link], SensorTrust(stamp_ns, rejected, trust), *gyros[link + 1 :])
            if not may_recover and rejected == self._gate.recover_after > 0:
                events = (_contradiction(measurement, rejected),)
            if since_ns is not None and since_ns <= _SILENT_NS:  # not the first one after a gap of all
                gyros, silences = self._listened(gyros, stamp_ns)
                events = (*events, *silences)
        estimate = Estimate(stamp_ns, *self.published(filtered))
        return Step(ChainState(filtered, wheels, stamp_ns, gyros), estimate, innovation, events)

    def _listened(
        self, gyros: tuple[SensorTrust, ...], stamp_ns: int
    ) -> tuple[tuple[SensorTrust, ...], tuple[Notice, ...]]:
        """Gyros, with a notice of each that has fallen silent."""
        out, notices = list(gyros), []
        for sensor, link in self._link_of.items():
            gyro = gyros[link]
            if gyro.last_ns is not None and not gyro.is_silent and stamp_ns - gyro.last_ns > _SILENT_NS:
                out[link] = gyro._replace(is_silent=True)
                notices.append(_silence(sensor, gyro.last_ns))
        return tuple(out), tuple(notices)


def _silence(sensor: str, last_ns: int) -> Notice:
    return Notice(
        f"{sensor} is silent since {last_ns / NANOSECONDS_PER_SECOND:.3f} s: how its link turns is known from the "
        "commands and the other gyros alone, as surely as the covariance says"
    )


def _contradiction(measurement: Measurement, rejected: int) -> Notice:
    return Notice(
        f"{rejected} readings in a row of {measurement.sensor}, at "
        f"{measurement.stamp_ns / NANOSECONDS_PER_SECOND:.3f} s, contradict the state that the other gyros "
        "confirm: refused until they fit it"
    )
