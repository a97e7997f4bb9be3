"""What both estimators of a chain make of its messages: commands, one gyro per link, poses given from outside."""

from __future__ import annotations

from abc import abstractmethod
from types import ModuleType
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from onboard_estimation.base.measurement import (
    IMU,
    NANOSECONDS_PER_SECOND,
    POSE,
    Block,
    Estimate,
    FilteredBlock,
    Innovations,
    Matrix,
    Measurement,
    Notice,
    Vector,
)
from onboard_estimation.base.series import SET_POSE
from onboard_estimation.filtering.gating import Gate, Innovation
from onboard_estimation.filtering.planar import planar_covariance, planar_pose
from onboard_estimation.pipeline.estimator import Estimator, Step
from onboard_estimation.pipeline.sensor_trust import bridged_s
from salp_estimation.estimators import gyro_kernels
from salp_estimation.estimators.gaussian_sum_start import WideComponent
from salp_estimation.estimators.gyro_kernels import Estimates, GateSettings, Readings, Records
from salp_estimation.model.configuration import SalpConfiguration

COMMAND = "actuators/command"
COMMAND_LAG_S = 0.05
"""Lag of the commands that a residual model starts from; what it lacks of the real one is among its parameters."""
STANDING_M_S = 1e-6
"""Slower commands count as none: the robot rests."""
GYRO_AXES = {"x": (0, 1.0), "y": (1, 1.0), "z": (2, 1.0), "-x": (0, -1.0), "-y": (1, -1.0), "-z": (2, -1.0)}

Filtered = TypeVar("Filtered")


class GivenPose(NamedTuple):
    """A pose (3,) of the base from outside, with its covariance (3, 3) along the body's axes.

    `is_known` tells whether the covariance came with it; else it is the initial one.
    """

    pose: Vector
    covariance: Matrix
    is_known: bool


class ChainState(NamedTuple, Generic[Filtered]):
    """All that measurements change; arrays are values, never written.

    Attributes
    ----------
    filtered
        Of the filter.
    gyros
        By link, see `gyro_kernels`.
    stamp_ns
        Of the last measurement; None before the first, where no initial state was given.
    wide
        The same of a filter that began with wider joint angles, while both are followed.
    history
        The last of the steps that led here, where somebody will look back.
    """

    filtered: Filtered
    gyros: Records
    stamp_ns: int | None
    wide: WideComponent[ChainState[Filtered]] | None = None
    history: Any = None


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


class ChainEstimator(ChainInputs, Estimator[ChainState[Filtered]], Generic[Filtered]):
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

    Attributes
    ----------
    kernels, settings
        Module of the compiled filter with `filter_readings` and `publish`, and what they take of the configuration.
    """

    kernels: ModuleType
    settings: Any

    def __init__(self, configuration: SalpConfiguration) -> None:
        super().__init__(configuration)
        gate = Gate(configuration.gate_probability, configuration.recover_after)
        self.gate = GateSettings(gate.threshold(1), gate.recover_after)
        self._kinds = {COMMAND: gyro_kernels.COMMAND, SET_POSE: gyro_kernels.OTHER, **self._link_of}

    @abstractmethod
    def begun(self, mean: Vector, covariance: Matrix) -> Filtered:
        """Those moments and standing wheels at the start."""

    @abstractmethod
    def placed(
        self, state: ChainState[Filtered], stamp_ns: int, given: GivenPose
    ) -> tuple[ChainState[Filtered], Innovation | None]:
        """Moved on to a stamp, and told where it is."""

    def published(self, filtered: Filtered) -> tuple[Vector, Matrix]:
        """Mean and covariance in `space`."""
        room = Estimates.room(1, self.space)
        self.kernels.publish(self.settings, filtered, room.means[0], room.covariances[0])
        return room.means[0], room.covariances[0]

    def taken(
        self, state: ChainState[Filtered], readings: Readings, alone: bool
    ) -> tuple[ChainState[Filtered], int, Estimates, bool]:
        """Readings filtered by one compiled call: all of them, or up to one that is to be taken `alone`, or not at all.

        State, how many they are, what came of them, and whether there is something to be told. Of fewer than all the
        state counts for nothing.
        """
        gyros, room = state.gyros.copy(), Estimates.room(len(readings.kinds), self.space)
        stamp_ns = gyro_kernels.NEVER if state.stamp_ns is None else state.stamp_ns
        filtered, count, found, told = self.kernels.filter_readings(
            self.settings, state.filtered, gyros, stamp_ns, readings, alone, room
        )
        used = (~room.left_out[:count]).nonzero()[0]
        last_ns = int(readings.stamps_ns[used[-1]]) if len(used) else state.stamp_ns
        return ChainState(filtered, gyros, last_ns, state.wide, state.history), count, room.first(found), told

    def start(self, initial: Estimate | None) -> ChainState[Filtered]:
        """From an initial state, or at the origin, straight, with the configured standard deviations."""
        known = initial or self.default_start()
        stamp_ns = None if initial is None else initial.stamp_ns
        return ChainState(self.begun(known.mean, known.covariance), gyro_kernels.unheard(len(self._link_of)), stamp_ns)

    def default_start(self) -> Estimate:
        """At the origin, straight, at any time."""
        return Estimate(0, self.space.origin(), self._initial_covariance)

    def step(self, state: ChainState[Filtered], measurement: Measurement) -> Step:
        """Take a command, or predict to the measurement's stamp and correct."""
        stamp_ns, sensor = measurement.stamp_ns, measurement.sensor
        if sensor == SET_POSE:
            after, seen = self.placed(state, stamp_ns, self._given_pose(measurement.value))
            return Step(after, Estimate(stamp_ns, *self.published(after.filtered)), seen)
        values = np.array(measurement.value, order="C", ndmin=2)
        readings = Readings(np.array([self._kinds[sensor]]), np.array([stamp_ns]), values)
        after, count, found, told = self.taken(state, readings, alone=True)
        if not count:
            bridged_s(self.pending_ns(state, stamp_ns))  # which is too long
        if sensor == COMMAND:
            return Step(after)
        ((value, stddev, nis, accepted, inflation),) = found.seen.tolist()
        innovation = Innovation(np.array([value]), np.array([[stddev]]), nis, accepted == 1.0, inflation)
        estimate = Estimate(stamp_ns, found.means[0], found.covariances[0])
        return Step(after, estimate, innovation, self._told(state.gyros, after.gyros, measurement) if told else ())

    def pending_ns(self, state: ChainState[Filtered], stamp_ns: int) -> int:
        """How long it is to be moved on to a stamp."""
        return 0 if state.stamp_ns is None else stamp_ns - state.stamp_ns

    def filter_block(self, state: ChainState[Filtered], block: Block) -> FilteredBlock | None:
        """Up to the last reading that is used before a pose that is set, or before one of which something is told."""
        kinds = np.array([self._kinds[sensor] for sensor in block.sensors])[block.kinds]
        others = (kinds == gyro_kernels.OTHER).nonzero()[0]
        kinds = kinds[: others[0] if len(others) else None]
        gyros = (kinds >= 0).nonzero()[0]
        last = int(gyros[-1]) + 1 if len(gyros) else len(kinds)
        while last:
            readings = Readings(kinds[:last], block.stamps_ns[:last], block.values[:last])
            after, count, found, _ = self.taken(state, readings, alone=False)
            last = int(found.made_of[-1]) + 1 if len(found.made_of) else 0
            if count == len(readings.kinds) and (not last or found.left_out[last:].all()):
                value, stddev, nis, accepted, _ = found.seen.T
                seen = Innovations(found.made_of, value[:, None], stddev[:, None], nis, accepted == 1.0)
                return FilteredBlock(after, count, *found[:3], (), seen, found.left_out.nonzero()[0])
        return None

    def _told(self, before: Records, after: Records, measurement: Measurement) -> tuple[Notice, ...]:
        """Notices of a gyro that begins to be refused, and of those that have fallen silent."""
        notices, link = [], self._link_of[measurement.sensor]
        if int(after[link]["rejected_in_a_row"]) == self.gate.recover_after > 0:
            notices.append(_contradiction(measurement, self.gate.recover_after))
        if (silent := after["is_silent"] & ~before["is_silent"]).any():
            sensors = [sensor for sensor, other in self._link_of.items() if silent[other]]
            notices += [_silence(sensor, int(before[self._link_of[sensor]]["last_ns"])) for sensor in sensors]
        return tuple(notices)


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
