"""Magnitudes of the hopper's scenarios: a real leg, rotors, two cheap accelerometers and motion capture.

They were fixed, with the reasons that `config/hopper_hardware.yaml` gives beside each, before any filter was tuned.
What differs from one robot, or one day, to the next is drawn anew for each seed: see `hopper_simulator`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial

from onboard_estimation.base.configuration import load, non_negative, parameter, positive, to_mapping
from onboard_estimation.contract.signals import magnitudes

FILE = "config/hopper_hardware.yaml"


@dataclass(frozen=True)
class LegScenario:
    """Spring, stop, foot and ground."""

    preload_n: float = non_negative(50.0, "force of the main spring with the leg extended", "N")
    loss_n_s_m2: float = non_negative(90.0, "loss of the main spring: force per rate and extension", "N s/m^2")
    stiffness_spread: float = parameter(0.03, "spread of the spring constant, as a share", minimum=0.0, maximum=0.3)
    preload_spread: float = parameter(0.05, "spread of the preload, as a share", minimum=0.0, maximum=0.3)
    loss_spread: float = parameter(0.10, "spread of the loss, as a share", minimum=0.0, maximum=0.3)
    stop_stiffness_n_m: float = positive(1e5, "stop of the extended leg", "N/m")
    stop_damping_n_s_m: float = non_negative(100.0, "its damping", "N s/m")
    stop_spread: float = parameter(0.15, "spread of both, as a share", minimum=0.0, maximum=0.3)
    ground_stiffness_n_m: float = positive(4e4, "foot on the ground", "N/m")
    ground_damping_n_s_m: float = non_negative(60.0, "its damping", "N s/m")
    ground_spread: float = parameter(0.3, "spread of both, as a share", minimum=0.0, maximum=0.4)
    foot_unevenness_m: float = non_negative(0.002, "unevenness of flat ground from hop to hop", "m")
    step_m: float = non_negative(0.04, "step of uneven ground from hop to hop", "m")


@dataclass(frozen=True)
class RotorScenario:
    """Thrust, drag and vibration."""

    lift_weights: float = parameter(2.0, "full thrust over weight", exclusive_minimum=1.0)
    thrust_spread: float = parameter(0.05, "spread of the thrust per command, as a share", minimum=0.0, maximum=0.3)
    lag_s: float = positive(0.04, "time constant of the thrust", "s")
    delay_s: float = parameter(0.0125, "delay before it", unit="s", minimum=0.0, maximum=0.1)
    sag_share: float = parameter(0.08, "share of the thrust lost over two minutes", minimum=0.0, exclusive_maximum=1.0)
    drag_n_s2_m2: float = non_negative(0.045, "drag per square of speed", "N s^2/m^2")
    drag_spread: float = parameter(0.1, "spread of the drag, as a share", minimum=0.0, maximum=0.3)
    gust_m_s: float = non_negative(0.3, "standard deviation of vertical gusts", "m/s")
    gust_time_s: float = positive(0.8, "their correlation time", "s")
    vibration_m_s2: float = parameter(
        10.0, "amplitude of the rotors' vibration at full thrust", unit="m/s^2", minimum=0
    )
    rotor_frequency_hz: float = positive(700.0, "its frequency at full thrust", "Hz")


@dataclass(frozen=True)
class MountScenario:
    """How the sensors sit on the body."""

    frequency_hz: float = positive(190.0, "resonance of the board", "Hz")
    frequency_spread: float = parameter(0.1, "its spread, as a share", minimum=0.0, maximum=0.3)
    damping: float = positive(0.06, "damping ratio")
    share: float = parameter(0.3, "share of what is felt that goes through the resonance", minimum=0.0, maximum=1.0)
    tilt_stddev_deg: float = non_negative(1.0, "tilt of each sensor against the leg", "deg")
    lateral_share: float = non_negative(0.03, "share of the vertical shock that shows sideways")


@dataclass(frozen=True)
class AccelerometerScenario:
    """One accelerometer."""

    range_m_s2: float = positive(156.9, "largest reading", "m/s^2")
    bandwidth_hz: float = positive(260.0, "of its own filter", "Hz")
    noise_m_s2: float = non_negative(0.1, "white noise of a reading", "m/s^2")
    step_m_s2: float = non_negative(0.00479, "one digit", "m/s^2")
    scale_stddev: float = parameter(0.005, "scale error, as a share", minimum=0.0, maximum=0.2)
    drift_m_s2: float = non_negative(0.05, "drift of the zero within a trial", "m/s^2")
    offset_m_s2: float = non_negative(0.3, "zero offset of each axis at the start", "m/s^2")


@dataclass(frozen=True)
class AttitudeScenario:
    """Attitude sensor."""

    rate_hz: float = positive(200.0, "rate", "Hz")
    error_deg: float = non_negative(0.8, "error of roll and pitch, slowly varying", "deg")
    error_time_s: float = positive(2.0, "its correlation time", "s")


@dataclass(frozen=True)
class EncoderScenario:
    """Encoder of the leg, for the baselines that need one."""

    noise_m: float = non_negative(0.0002, "white noise", "m")
    step_m: float = non_negative(0.0001, "one digit", "m")
    scale_stddev: float = parameter(0.01, "scale error, as a share", minimum=0.0, maximum=0.2)


@dataclass(frozen=True)
class CaptureScenario:
    """Motion capture of the body."""

    rate_hz: float = positive(600.0, "rate", "Hz")
    position_stddev_m: float = non_negative(0.0003, "white noise of each axis", "m")
    attitude_stddev_deg: float = non_negative(0.05, "white noise of each angle", "deg")
    latency_s: float = parameter(
        0.002, "mean latency that the stamps do not account for", unit="s", minimum=0.0, maximum=0.015
    )
    latency_spread_s: float = non_negative(0.001, "standard deviation of the latency", "s")
    start_stddev_m: float = positive(0.01, "error of the given starting height", "m")


@dataclass(frozen=True)
class HopperScenario:
    """All magnitudes of the scenarios."""

    rest_s: float = parameter(2.0, "the robot stands still so long", unit="s", minimum=0.5)
    drop_s: float = parameter(6.0, "it is dropped after", unit="s", minimum=3.0)
    leg: LegScenario = LegScenario()
    rotors: RotorScenario = RotorScenario()
    mount: MountScenario = MountScenario()
    low_g: AccelerometerScenario = AccelerometerScenario()
    high_g: AccelerometerScenario = AccelerometerScenario(1961.0, 780.0, 4.6, 0.961, 0.015, 0.5, 5.0)
    imu_rate_hz: float = parameter(840.0, "rate of both IMUs", unit="Hz", exclusive_minimum=0.0, maximum=5000.0)
    jitter_s: float = non_negative(3e-5, "standard deviation of the time of a reading", "s")
    lost_share: float = parameter(0.001, "share of readings that are lost", minimum=0.0, exclusive_maximum=1.0)
    gyro_noise_rad_s: float = non_negative(0.0014, "white noise of the gyro", "rad/s")
    gyro_bias_rad_s: float = non_negative(0.01, "bias of the gyro", "rad/s")
    gyro_shock_rad_s_per_m_s2: float = non_negative(2e-4, "gyro reading per acceleration", "rad s/m")
    attitude: AttitudeScenario = AttitudeScenario()
    sway_deg: float = parameter(
        2.5,
        "tilt of the hopping robot, each axis, before it is smoothed over 50 ms",
        unit="deg",
        minimum=0.0,
        maximum=15.0,
    )
    sway_time_s: float = positive(0.25, "its correlation time", "s")
    encoder: EncoderScenario = EncoderScenario()
    capture: CaptureScenario = CaptureScenario()


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
