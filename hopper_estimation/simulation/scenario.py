"""Magnitudes of the hopper's scenarios: a real leg, rotors, two cheap accelerometers and motion capture.

They were fixed, with the reasons that `config/hopper_hardware.yaml` gives beside each, before any filter was tuned.
What differs from one robot, or one day, to the next is drawn anew for each seed: see `hopper_simulator`.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from functools import cache, partial

from onboard_estimation.base.configuration import load, parameter, to_mapping
from onboard_estimation.contract.signals import magnitude, magnitudes

FILE = "config/hopper_hardware.yaml"


@dataclass(frozen=True)
class LegScenario:
    """Spring, stop, foot and ground."""

    preload_n: float = magnitude()  # N: force of the main spring with the leg extended
    loss_n_s_m2: float = magnitude()  # N s/m^2: loss of the main spring: force per rate and extension
    stiffness_spread: float = magnitude(most=0.3)  # spread of the spring constant, as a share
    preload_spread: float = magnitude(most=0.3)  # spread of the preload, as a share
    loss_spread: float = magnitude(most=0.3)  # spread of the loss, as a share
    stop_stiffness_n_m: float = magnitude(above_zero=True)  # N/m: stop of the extended leg
    stop_damping_n_s_m: float = magnitude()  # N s/m: its damping
    stop_spread: float = magnitude(most=0.3)  # spread of both, as a share
    ground_stiffness_n_m: float = magnitude(above_zero=True)  # N/m: foot on the ground
    ground_damping_n_s_m: float = magnitude()  # N s/m: its damping
    ground_spread: float = magnitude(most=0.4)  # spread of both, as a share
    foot_unevenness_m: float = magnitude()  # m: unevenness of flat ground from hop to hop
    step_m: float = magnitude()  # m: step of uneven ground from hop to hop


@dataclass(frozen=True)
class RotorScenario:
    """Thrust, drag and vibration."""

    lift_weights: float = parameter(MISSING, "", exclusive_minimum=1.0)  # full thrust over weight
    thrust_spread: float = magnitude(most=0.3)  # spread of the thrust per command, as a share
    lag_s: float = magnitude(above_zero=True)  # s: time constant of the thrust
    delay_s: float = magnitude(most=0.1)  # s: delay before it
    sag_share: float = magnitude(most=0.99)  # share of the thrust lost over two minutes
    drag_n_s2_m2: float = magnitude()  # N s^2/m^2: drag per square of speed
    drag_spread: float = magnitude(most=0.3)  # spread of the drag, as a share
    gust_m_s: float = magnitude()  # m/s: standard deviation of vertical gusts
    gust_time_s: float = magnitude(above_zero=True)  # s: their correlation time
    vibration_m_s2: float = magnitude()  # m/s^2: amplitude of the rotors' vibration at full thrust
    rotor_frequency_hz: float = magnitude(above_zero=True)  # Hz: its frequency at full thrust


@dataclass(frozen=True)
class MountScenario:
    """How the sensors sit on the body."""

    frequency_hz: float = magnitude(above_zero=True)  # Hz: resonance of the board
    frequency_spread: float = magnitude(most=0.3)  # its spread, as a share
    damping: float = magnitude(above_zero=True)  # damping ratio
    share: float = magnitude(most=1.0)  # share of what is felt that goes through the resonance
    tilt_stddev_deg: float = magnitude()  # deg: tilt of each sensor against the leg
    lateral_share: float = magnitude()  # share of the vertical shock that shows sideways


@dataclass(frozen=True)
class AccelerometerScenario:
    """One accelerometer."""

    range_m_s2: float = magnitude(above_zero=True)  # m/s^2: largest reading
    bandwidth_hz: float = magnitude(above_zero=True)  # Hz: of its own filter
    noise_m_s2: float = magnitude()  # m/s^2: white noise of a reading
    step_m_s2: float = magnitude()  # m/s^2: one digit
    scale_stddev: float = magnitude(most=0.2)  # scale error, as a share
    drift_m_s2: float = magnitude()  # m/s^2: drift of the zero within a trial
    offset_m_s2: float = magnitude()  # m/s^2: zero offset of each axis at the start


@dataclass(frozen=True)
class AttitudeScenario:
    """Attitude sensor."""

    rate_hz: float = magnitude(above_zero=True)  # Hz: rate
    error_deg: float = magnitude()  # deg: error of roll and pitch, slowly varying
    error_time_s: float = magnitude(above_zero=True)  # s: its correlation time


@dataclass(frozen=True)
class EncoderScenario:
    """Encoder of the leg, for the baselines that need one."""

    noise_m: float = magnitude()  # m: white noise
    step_m: float = magnitude()  # m: one digit
    scale_stddev: float = magnitude(most=0.2)  # scale error, as a share


@dataclass(frozen=True)
class CaptureScenario:
    """Motion capture of the body."""

    rate_hz: float = magnitude(above_zero=True)  # Hz: rate
    position_stddev_m: float = magnitude()  # m: white noise of each axis
    attitude_stddev_deg: float = magnitude()  # deg: white noise of each angle
    latency_s: float = magnitude(most=0.015)  # s: mean latency that the stamps do not account for
    latency_spread_s: float = magnitude()  # s: standard deviation of the latency
    start_stddev_m: float = magnitude(above_zero=True)  # m: error of the given starting height


@dataclass(frozen=True)
class HopperScenario:
    """All magnitudes of the scenarios."""

    leg: LegScenario
    rotors: RotorScenario
    mount: MountScenario
    low_g: AccelerometerScenario
    high_g: AccelerometerScenario
    attitude: AttitudeScenario
    encoder: EncoderScenario
    capture: CaptureScenario
    rest_s: float = parameter(MISSING, "", minimum=0.5)  # s: the robot stands still so long
    drop_s: float = parameter(MISSING, "", minimum=3.0)  # s: it is dropped after
    imu_rate_hz: float = magnitude(most=5000.0, above_zero=True)  # Hz: rate of both IMUs
    jitter_s: float = magnitude()  # s: standard deviation of the time of a reading
    lost_share: float = magnitude(most=0.99)  # share of readings that are lost
    gyro_noise_rad_s: float = magnitude()  # rad/s: white noise of the gyro
    gyro_bias_rad_s: float = magnitude()  # rad/s: bias of the gyro
    gyro_shock_rad_s_per_m_s2: float = magnitude()  # rad s/m: gyro reading per acceleration
    # deg: tilt of the hopping robot, each axis, before it is smoothed over 50 ms
    sway_deg: float = magnitude(most=15.0)
    sway_time_s: float = magnitude(above_zero=True)  # s: its correlation time


hopper_scenario = cache(partial(magnitudes, HopperScenario, FILE))
"""The magnitudes in the scenario file; UserError where it is not as it should be."""


_NONE = """
    leg.stiffness_spread leg.preload_spread leg.loss_spread leg.stop_spread leg.ground_spread leg.foot_unevenness_m
    rotors.thrust_spread rotors.sag_share rotors.drag_spread rotors.gust_m_s rotors.vibration_m_s2
    mount.share mount.tilt_stddev_deg mount.lateral_share mount.frequency_spread
    low_g.scale_stddev low_g.drift_m_s2 high_g.scale_stddev high_g.drift_m_s2 high_g.step_m_s2
    jitter_s lost_share gyro_shock_rad_s_per_m_s2 sway_deg capture.latency_s capture.latency_spread_s
"""
_LITTLE = {
    "low_g.noise_m_s2": 0.05,
    "high_g.noise_m_s2": 0.05,
    "attitude.error_deg": 0.05,
    "capture.start_stddev_m": 0.001,
}


@cache
def ideal_scenario() -> HopperScenario:
    """The same robot without spreads, disturbances and errors of sensors, but for a little white noise."""
    return load(HopperScenario, to_mapping(hopper_scenario()), {**dict.fromkeys(_NONE.split(), 0.0), **_LITTLE})
