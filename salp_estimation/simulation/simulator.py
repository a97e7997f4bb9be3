"""Simulated LandSalp: what its gyros, its commands and the motion capture would record.

Scenario `ideal`: the motion follows the quasi-static model but for a little white noise on the wheels; gyros have white
noise, the motion capture white noise and no latency. Every magnitude stands in `IdealScenario`, with its source. The
estimator's configuration is separate from it, so that a user can get it wrong and see what happens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Channel, Vector
from onboard_estimation.base.series import (
    STANDARD_GRAVITY_M_S2,
    Recording,
    Series,
    imu_channel,
    stamps_between,
    truth_channel,
)
from onboard_estimation.filtering.planar import planar_poses
from salp_estimation.model.configuration import ChainConfiguration
from salp_estimation.model.gaits import Gait

Stamps = NDArray[np.int64]
Rows = NDArray[np.float64]
Track = tuple[Stamps, Rows]

_LONGEST_STEP_S = 0.005


@dataclass(frozen=True)
class IdealScenario:
    """Magnitudes of the scenario `ideal`.

    Attributes
    ----------
    gyro_rate_hz, gyro_noise_stddev_rad_s
        Rate of the IMUs and white noise of a sample: 20 Hz is the upper end of the paper's filter, 5 mrad/s what
        vibration leaves of a MEMS gyro at that rate.
    command_rate_hz
        Commands are held between their stamps. The real robot gets 200 a second; 20 keep the bag small.
    wheel_speed_noise_stddev_m_s
        White noise on each rim speed, held over a command's interval: a two-thousandth of the gaits' speeds.
    truth_rate_hz, truth_position_stddev_m, truth_heading_stddev_rad
        Motion capture of each link. The paper's ran at 240 Hz; 0.1 mm is a good calibration, 0.02 deg what markers
        0.3 m apart give with it.
    """

    gyro_rate_hz: float = 20.0
    gyro_noise_stddev_rad_s: float = 5e-3
    command_rate_hz: float = 20.0
    wheel_speed_noise_stddev_m_s: float = 5e-5
    truth_rate_hz: float = 120.0
    truth_position_stddev_m: float = 1e-4
    truth_heading_stddev_rad: float = float(np.deg2rad(0.02))


class SalpSimulation:
    """LandSalp in a gait, from a straight start at the origin at stamp zero.

    Parameters
    ----------
    rng
        Source of all noise: the same generator gives the same recording, if it is advanced in the same steps.
    """

    def __init__(
        self,
        configuration: ChainConfiguration,
        gait: Gait,
        rng: np.random.Generator,
        scenario: IdealScenario | None = None,
    ) -> None:
        self.scenario = scenario or IdealScenario()
        self._configuration = configuration
        self._chain = configuration.build()
        self._gait = gait
        self._rng = rng
        self._at_ns = 0  # where the next part starts
        self._state: Vector = np.zeros(self._chain.link_count + 2)
        self._state_ns = 0
        self._in_force: Vector = np.zeros(self._chain.link_count)

    def advance(self, stop_ns: int) -> Recording:
        """What is recorded from where it stands up to `stop_ns`, which is left out."""
        scenario, chain, rng = self.scenario, self._chain, self._rng
        command_ns, gyro_ns, truth_ns = (
            stamps_between(self._at_ns, stop_ns, rate_hz)
            for rate_hz in (scenario.command_rate_hz, scenario.gyro_rate_hz, scenario.truth_rate_hz)
        )
        self._at_ns = max(self._at_ns, stop_ns)
        commands = self._gait.controls(command_ns / NANOSECONDS_PER_SECOND)
        actual = commands + rng.normal(0.0, scenario.wheel_speed_noise_stddev_m_s, commands.shape)
        at_ns, states, speeds = self._drive(command_ns, actual, np.union1d(gyro_ns, truth_ns))

        at_gyro = np.searchsorted(at_ns, gyro_ns)
        rates = np.array([chain.gyro_rates(states[k, 3:], speeds[k]) for k in at_gyro]).reshape(-1, chain.link_count)
        rates += rng.normal(0.0, scenario.gyro_noise_stddev_rad_s, rates.shape)

        poses = chain.link_poses(states[np.searchsorted(at_ns, truth_ns)])
        poses[..., :2] += rng.normal(0.0, scenario.truth_position_stddev_m, poses[..., :2].shape)
        poses[..., 2] += rng.normal(0.0, scenario.truth_heading_stddev_rad, poses[..., 2].shape)
        imus = [_imu_values(rate) for rate in rates.T]
        return recorded(self._configuration, (command_ns, commands), [gyro_ns] * len(imus), imus, (truth_ns, poses))

    def _drive(self, command_ns: Stamps, actual: Rows, wanted_ns: Stamps) -> tuple[Stamps, Rows, Rows]:
        """All wanted and all command stamps (K,), the states (K, N + 2) there and the rim speeds (K, N) from there."""
        at_ns = np.union1d(command_ns, wanted_ns)
        number = np.searchsorted(command_ns, at_ns, side="right")  # of the command in force; 0: the last of before
        speeds = np.vstack([self._in_force, actual])[number]
        states = np.empty((len(at_ns), self._chain.link_count + 2))
        for k, stamp_ns in enumerate(at_ns.tolist()):
            duration_s = (stamp_ns - self._state_ns) / NANOSECONDS_PER_SECOND
            if duration_s > 0.0:
                moved = self._chain.propagate(self._state[None], self._in_force, duration_s, _LONGEST_STEP_S)
                self._state, self._state_ns = moved[0], stamp_ns
            states[k] = self._state
            self._in_force = speeds[k]
        return at_ns, states, speeds


def recorded(
    configuration: ChainConfiguration, commands: Track, imu_ns: Sequence[Stamps], imus: Sequence[Rows], poses: Track
) -> Recording:
    """What a bag holds of rim speeds (K, N), IMUs (K, 6) of each link and its poses (K, N, 3), with their stamps."""
    names = configuration.link_names
    speeds = commands[1] / configuration.signed_wheel_radii_m
    sensors = [Series(command_channel(configuration), commands[0], speeds)]
    sensors += [Series(imu_channel(name), at, imu) for name, at, imu in zip(names, imu_ns, imus, strict=True)]
    placed = planar_poses(poses[1][..., :2], poses[1][..., 2])
    truth = [Series(truth_channel(name), poses[0], placed[:, i]) for i, name in enumerate(names)]
    return Recording(tuple(sensors), tuple(truth))


def command_channel(configuration: ChainConfiguration) -> Channel:
    """Wheel speeds sent to the actuators, named after the links that they sit on."""
    return Channel(
        "actuators/command",
        "sensor_msgs/msg/JointState",
        "actuators/command",
        "velocity",
        configuration.link_names,
        command=True,
    )


def _imu_values(turning_rate: Vector) -> NDArray[np.float64]:
    """A level IMU: the rate about z, and gravity."""
    values = np.zeros((len(turning_rate), 6))
    values[:, 2] = turning_rate
    values[:, 5] = STANDARD_GRAVITY_M_S2
    return values
