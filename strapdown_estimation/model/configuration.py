"""Parameters of the strapped-down IMU's estimator; `config/strapdown.yaml` is written from here.

One set holds for every recording in `docs/strapdown.md`. The document says how far each may be moved before a recorded
walk leaves its bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from onboard_estimation.base.configuration import non_negative, parameter, positive


@dataclass(frozen=True)
class Imu:
    """The sensor: range, noise and biases."""

    name: str = parameter("foot", "the topic is imu/<name>/data_raw")
    accelerometer_range_m_s2: float = positive(
        78.4, "readings at this size are saturated (8 g), those beyond it (and 5 %) refused", "m/s^2"
    )
    gyro_range_rad_s: float = positive(
        20.9, "readings at this size are saturated (1200 deg/s), those beyond it (and 5 %) refused", "rad/s"
    )
    acceleration_noise_m_s2_sqrt_hz: float = positive(
        0.01, "noise density, with the errors that a datasheet leaves out: aliasing, vibration", "m/s^2/sqrt(Hz)"
    )
    rate_noise_rad_s_sqrt_hz: float = positive(0.001, "noise density, likewise", "rad/s/sqrt(Hz)")
    acceleration_noise_share_sqrt_hz: float = non_negative(
        0.005, "noise density added per m/s^2 that the IMU accelerates: scale, misalignment, aliasing", "1/sqrt(Hz)"
    )
    rate_noise_share_sqrt_hz: float = non_negative(
        0.002, "noise density added per rad/s of rotation: scale, misalignment", "1/sqrt(Hz)"
    )
    accelerometer_bias_stddev_m_s2: float = positive(0.05, "bias to be expected at start", "m/s^2")
    gyro_bias_stddev_rad_s: float = positive(0.005, "bias to be expected at start", "rad/s")
    accelerometer_bias_walk_m_s2_sqrt_s: float = non_negative(3e-4, "random walk of the bias", "m/s^2/sqrt(s)")
    gyro_bias_walk_rad_s_sqrt_s: float = non_negative(1e-4, "random walk of the bias", "rad/s/sqrt(s)")
    largest_step_s: float = positive(
        0.02, "longer steps between two readings are bridged in pieces; a gap beyond it hides any motion", "s"
    )
    hidden_acceleration_stddev_m_s2: float = non_negative(20.0, "what a gap or a saturated reading may hide", "m/s^2")
    hidden_rate_stddev_rad_s: float = non_negative(5.0, "what a gap or a saturated reading may hide", "rad/s")
    hidden_speed_stddev_m_s: float = positive(2.0, "how fast the IMU may move while the filter is lost", "m/s")
    longest_gap_s: float = positive(
        0.25, "a gap up to it is bridged; a longer one may hide any turn, the filter is lost until the IMU stands", "s"
    )
    stuck_readings: int = parameter(
        6, "so many equal readings in a row of a sensor that has noise at rest mean that it is stuck", minimum=3
    )


@dataclass(frozen=True)
class Start:
    """Alignment at rest: gravity gives the tilt, the gyro its bias; heading is zero by definition."""

    duration_s: float = positive(0.2, "the IMU has to lie still for so long", "s")
    gravity_m_s2: float = parameter(9.80665, "magnitude of gravity here", unit="m/s^2", minimum=9.7, maximum=9.9)
    gravity_stddev_m_s2: float = positive(
        0.02, "how well it is known (9.780 at the equator, 9.832 at the poles)", "m/s^2"
    )


@dataclass(frozen=True)
class Contact:
    """Ground contact, found from the readings' energy, and the zero-velocity update that it gives."""

    window_s: float = positive(0.055, "window of the energy, ending now", "s")
    acceleration_weight_rad_s_m: float = positive(0.2, "rad/s of energy per m/s^2 of deviation from gravity", "rad s/m")
    rest_energy_rad_s: float = positive(0.08, "contact below it, whatever went before", "rad/s")
    slow_energy_rad_s: float = non_negative(
        0.5, "a recent peak counts by what it is above this: slower motions have no swing", "rad/s"
    )
    relative_energy: float = parameter(
        0.2,
        "contact below this share of what the recent peak is above the slow",
        exclusive_minimum=0.0,
        exclusive_maximum=1.0,
    )
    peak_decay_s: float = positive(1.0, "time constant in which a peak is forgotten", "s")
    rest_duration_s: float = positive(0.3, "at rest, when below the rest energy for so long", "s")
    speed_stddev_m_s: float = positive(0.005, "speed of the point of contact: part that is always there", "m/s")
    speed_per_rate_m: float = non_negative(
        0.05, "part per rad/s of gyro reading: the foot rolls, the lever arm moves", "m"
    )
    speed_per_deviation_s: float = non_negative(0.01, "part per m/s^2 of deviation from gravity", "s")
    speed_correlation_s: float = non_negative(
        0.02, "that speed is correlated over this time, so samples within it count as one", "s"
    )
    lever_arm_stddev_m: float = positive(0.1, "distance from the point of contact to the IMU, per axis", "m")
    lever_arm_walk_m_sqrt_s: float = non_negative(
        0.02, "random walk of that distance: the foot rolls from heel to toe", "m/sqrt(s)"
    )
    sway_correlation_s: float = non_negative(
        0.25, "at rest, what the gyro shows beside its bias is swaying that is correlated over this time", "s"
    )
    gate_probability: float = parameter(
        0.999, "share of true contacts that pass the gate", exclusive_minimum=0.0, exclusive_maximum=1.0
    )
    recover_s: float = non_negative(
        0.055, "contacts refused for so long in all (a window of new readings), the velocity is doubted instead", "s"
    )
    release_s: float = non_negative(0.1, "without contact for so long, the foot has left the ground", "s")


@dataclass(frozen=True)
class Ground:
    """Heights that the foot stood at: a contact is at one of them, or on new ground."""

    enabled: bool = parameter(True, "use zero-height updates")
    settled_speed_m_s: float = positive(
        0.03, "the height counts once contact has brought the vertical speed's standard deviation below it", "m/s"
    )
    unevenness_m: float = positive(0.01, "standard deviation of the IMU's height among contacts on one level", "m")
    height_per_rate_m_s: float = non_negative(0.02, "added per rad/s of rotation, for a foot that is not flat", "m s")
    gate_probability: float = parameter(
        0.95,
        "a contact further from every level is on new ground; low, since a level missed costs little, and a stair "
        "taken for the floor is not mended",
        exclusive_minimum=0.0,
        exclusive_maximum=1.0,
    )
    largest_count: int = parameter(32, "levels to remember, the one not used for longest goes first", minimum=1)


@dataclass(frozen=True)
class Strapdown:
    """A strapped-down IMU that rests on the ground at times: foot-mounted, or on a hopping robot."""

    imu: Imu = field(default_factory=Imu)
    start: Start = field(default_factory=Start)
    contact: Contact = field(default_factory=Contact)
    ground: Ground = field(default_factory=Ground)
    truth_body: str = parameter("foot", "topics ground_truth/<body>/position or ground_truth/<body>/pose")
    truth_stddev_m: float = non_negative(0.01, "noise of the truth, with the marker's distance from the IMU", "m")
    lag_s: float = non_negative(0.2, "how late a measurement may arrive and still be filtered in order", "s")

    def faults(self) -> Iterator[str]:
        """Rules across parameters."""
        rest_s, window_s = self.contact.rest_duration_s, self.contact.window_s
        if rest_s < window_s:
            yield f"contact.rest_duration_s: {rest_s}, must not be shorter than contact.window_s ({window_s})"
