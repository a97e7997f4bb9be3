"""Parameters of two jointed links; one set holds for every recording in `docs/two_link.md`, which says where from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from onboard_estimation.base.configuration import parameter

Kind = Literal["free", "hinge"]


@dataclass(frozen=True)
class Imus:
    """Both IMUs: ranges, noise and errors."""

    proximal: str = parameter(
        "proximal", "the topic of the first is imu/<name>/data_raw, its truth ground_truth/<name>"
    )
    distal: str = parameter("distal", "likewise of the second")
    gyro_range_rad_s: float = parameter(
        35.0, "readings beyond it (and 5 %) are refused", unit="rad/s", exclusive_minimum=0.0
    )
    accelerometer_range_m_s2: float = parameter(
        160.0, "readings beyond it (and 5 %) are refused", unit="m/s^2", exclusive_minimum=0.0
    )
    rate_stddev_rad_s: float = parameter(
        0.005, "noise of a gyro's reading: it enters by differentiation", unit="rad/s", minimum=0.0
    )
    rate_noise_rad_s_sqrt_hz: float = parameter(
        0.001, "noise density of a gyro", unit="rad/s/sqrt(Hz)", exclusive_minimum=0.0
    )
    rate_noise_share_sqrt_hz: float = parameter(
        0.003,
        "noise density added per rad/s of rotation: scale, misalignment, motion between two readings",
        unit="1/sqrt(Hz)",
        minimum=0.0,
    )
    gyro_bias_stddev_rad_s: float = parameter(0.02, "bias at start", unit="rad/s", exclusive_minimum=0.0)
    gyro_bias_walk_rad_s_sqrt_s: float = parameter(1e-4, "random walk of the bias", unit="rad/s/sqrt(s)", minimum=0.0)
    accelerometer_error_stddev_m_s2: float = parameter(
        0.1,
        "bias of an accelerometer with the errors of scale and axes, which change as it turns",
        unit="m/s^2",
        exclusive_minimum=0.0,
    )
    accelerometer_error_time_s: float = parameter(
        20.0, "that error is correlated over this time", unit="s", exclusive_minimum=0.0
    )
    longest_gap_s: float = parameter(
        0.1, "a sensor without a reading for longer is silent: its rate is not known", unit="s", exclusive_minimum=0.0
    )
    hidden_rate_stddev_rad_s: float = parameter(
        5.0, "how fast a link may turn while its sensor is silent", unit="rad/s", exclusive_minimum=0.0
    )


@dataclass(frozen=True)
class Joint:
    """The joint, and how its acceleration is seen from either link."""

    kind: Kind = parameter("free", "hinge: one axis, learned from the gyros; free: ball joint, two axes, or not known")
    proximal_lever_arm_m: tuple[float, float, float] = parameter(
        (0.0, 0.0, 0.0), "from the first IMU to the joint, in the IMU's frame", unit="m"
    )
    distal_lever_arm_m: tuple[float, float, float] = parameter(
        (0.0, 0.0, 0.0), "from the second IMU to the joint, in the IMU's frame", unit="m"
    )
    lever_arm_stddev_m: float = parameter(
        0.2, "how well both are known, per axis; the motion shows the rest", unit="m", exclusive_minimum=0.0
    )
    half_window_s: float = parameter(
        0.055,
        "angular acceleration is the slope of a polynomial through the readings so far to both sides; the filter waits "
        "for the later ones, the estimate does not",
        unit="s",
        exclusive_minimum=0.0,
    )
    interval_s: float = parameter(
        0.02, "the joint's acceleration is compared so often", unit="s", exclusive_minimum=0.0
    )
    acceleration_stddev_m_s2: float = parameter(
        0.05,
        "by which the joint's acceleration differs as seen from both links, per axis: play, bending, axes and scale",
        unit="m/s^2",
        exclusive_minimum=0.0,
    )
    acceleration_time_s: float = parameter(
        0.4,
        "that difference is correlated over this time, as the motion is: comparisons within it count as one",
        unit="s",
        minimum=0.0,
    )
    roughness_share: float = parameter(
        0.3,
        "standard deviation added per m/s^2 by which polynomials of degree 2 and 4 differ: impacts, motion too quick "
        "for the readings",
        minimum=0.0,
    )
    proximal_axis: tuple[float, float, float] = parameter(
        (0.0, 0.0, 0.0), "a hinge's axis in the first IMU's frame, of any length; zero: learned from the gyros"
    )
    distal_axis: tuple[float, float, float] = parameter(
        (0.0, 0.0, 0.0), "the same axis in the second IMU's frame, pointing the same way"
    )
    axis_stddev_rad: float = parameter(
        0.05, "error of the axes, given or as the gyros show them at first", unit="rad", exclusive_minimum=0.0
    )
    play_rad: float = parameter(0.005, "a hinge's axis wobbles by this, per axis", unit="rad", exclusive_minimum=0.0)
    play_time_s: float = parameter(
        1.0, "that wobble is correlated over this time, so comparisons within it count as one", unit="s", minimum=0.0
    )
    gate_probability: float = parameter(
        0.99,
        "share of good comparisons that pass the gate; what is refused are impacts in the joint",
        exclusive_minimum=0.0,
        exclusive_maximum=1.0,
    )
    recover_after: int = parameter(25, "refused so often in a row, the state is doubted instead", minimum=1)


@dataclass(frozen=True)
class Start:
    """What is known of the joint at the start."""

    rotation_vector_rad: tuple[float, float, float] = parameter(
        (0.0, 0.0, 0.0), "from the first IMU's frame to the second's", unit="rad"
    )
    rotation_stddev_rad: float = parameter(
        0.35, "how well that is known, per axis", unit="rad", exclusive_minimum=0.0, maximum=1.0
    )


@dataclass(frozen=True)
class TwoLink:
    """Two links with an IMU on each."""

    imus: Imus = field(default_factory=Imus)
    joint: Joint = field(default_factory=Joint)
    start: Start = field(default_factory=Start)
    truth_stddev_rad: float = parameter(
        0.01,
        "how well the truth's frames are aligned with the sensors', per axis of one against the other",
        unit="rad",
        minimum=0.0,
    )
    lag_s: float = parameter(
        0.1, "how late a measurement may arrive and still be filtered in order", unit="s", minimum=0.0
    )

    def faults(self) -> Iterator[str]:
        """Rules across parameters."""
        if self.imus.proximal == self.imus.distal:
            yield f"imus.distal: {self.imus.distal!r}, must be another name than imus.proximal"
        joint = self.joint
        if any(joint.proximal_axis) != any(joint.distal_axis):
            yield (
                f"joint.proximal_axis: {list(joint.proximal_axis)}, joint.distal_axis: {list(joint.distal_axis)}; "
                "give both or none"
            )
        if any(joint.proximal_axis) and joint.kind != "hinge":
            yield f"joint.proximal_axis: {list(joint.proximal_axis)}, only a hinge has one; set joint.kind to hinge"
        if self.imus.longest_gap_s <= joint.half_window_s:
            yield (
                f"imus.longest_gap_s: {self.imus.longest_gap_s}, must be longer than joint.half_window_s "
                f"({self.joint.half_window_s}), for which the filter waits"
            )
