"""Parameters of a planar chain of links with thrusters: what a laboratory knows of it before it has moved.

The defaults are the robot of the paper (`multilink_inertial_parameters`, Table II, and in the section `paper` Tables
III and IV), with sensors, thrusters and tolerances of the class that such robots are built with: an MPU-6050 and a fan
on each link. A robot with another number of links gives every list of `chain` anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np

from onboard_estimation.base.configuration import non_negative, parameter, positive
from onboard_estimation.base.measurement import Matrix, Vector

MOST_LINKS = 200
_ALONG = 1e-3  # of the sine of a thruster's angle: below, it pushes along its link


@dataclass(frozen=True)
class ChainConfiguration:
    """N links by design. Frame of a link: origin midway between its ends, x along it, y to its left."""

    link_names: tuple[str, ...] = parameter(
        ("link_1", "link_2", "link_3"),
        "names of the links in order, as in imu/<name>/data_raw and ground_truth/<name>/pose",
    )
    link_lengths_m: tuple[float, ...] = positive((0.25, 0.25, 0.25), "distance between the ends of each link", "m")
    masses_kg: tuple[float, ...] = positive((0.5, 0.5, 0.5), "mass of each link by its design", "kg")
    inertias_kg_m2: tuple[float, ...] = positive(
        (2.6e-3, 2.6e-3, 2.6e-3), "inertia of each link about its centre of mass by its design", "kg m^2"
    )
    thruster_x_m: tuple[float, ...] = parameter((0.0, 0.0, 0.0), "thruster in the link frame, x", unit="m")
    thruster_y_m: tuple[float, ...] = parameter((0.0, 0.0, 0.0), "thruster in the link frame, y", unit="m")
    thruster_angles_rad: tuple[float, ...] = parameter(
        (0.7853981633974483, 2.0943951023931953, -1.5707963267948966),
        "direction in which each thruster pushes its link, from the link's x",
        unit="rad",
    )
    imu_x_m: tuple[float, ...] = parameter((0.0, 0.0, 0.0), "IMU in the link frame, x", unit="m")
    imu_y_m: tuple[float, ...] = parameter((0.0, 0.0, 0.0), "IMU in the link frame, y", unit="m")
    joint_travel_deg: float = parameter(
        180.0, "end stops of the joints, either way", unit="deg", exclusive_minimum=0.0, maximum=180.0
    )

    def faults(self) -> Iterable[str]:
        """Numbers of elements that do not fit the number of links, doubled names, places off the link."""
        count = len(self.link_names)
        if not 2 <= count <= MOST_LINKS:
            yield f"link_names: {count} links given, a chain has 2 to {MOST_LINKS}"
        if len(set(self.link_names)) != count:
            yield f"link_names: names must differ, got {', '.join(self.link_names)}"
        for name in PER_LINK:
            if len(getattr(self, name)) != count:
                yield f"{name}: {len(getattr(self, name))} values given, {count} links need {count}"
        for name in ("thruster_x_m", "thruster_y_m", "imu_x_m", "imu_y_m"):
            for link, place_m, length_m in zip(self.link_names, getattr(self, name), self.link_lengths_m, strict=False):
                if not abs(place_m) <= length_m:
                    place = f"{place_m:g} m from the middle of {link}, which is {length_m:g} m long"
                    yield f"{name}: {place}; places are in the link's own frame"

    @property
    def count(self) -> int:
        """Number of links N."""
        return len(self.link_names)

    @property
    def lengths(self) -> Vector:
        """(N,) m."""
        return np.array(self.link_lengths_m)

    @property
    def masses(self) -> Vector:
        """(N,) by design, kg."""
        return np.array(self.masses_kg)

    @property
    def inertias(self) -> Vector:
        """(N,) by design, kg m^2."""
        return np.array(self.inertias_kg_m2)

    @property
    def thruster_places(self) -> Matrix:
        """(N, 2) in the link frames, m."""
        return np.column_stack([self.thruster_x_m, self.thruster_y_m])

    @property
    def thruster_angles(self) -> Vector:
        """(N,) rad."""
        return np.array(self.thruster_angles_rad)

    @property
    def imu_places(self) -> Matrix:
        """(N, 2) in the link frames, m."""
        return np.column_stack([self.imu_x_m, self.imu_y_m])

    def unobservable(self) -> list[str]:
        """One sentence for each thruster along its link: what then cannot be learned from its thrust (Theorem 4)."""
        return [
            f"the thruster of {link} pushes along the link (angle {angle:.4g} rad, its sine is {np.sin(angle):.2g}): "
            f"its own thrust does not turn {link}, so the inertia of {link} becomes unobservable (Theorem 4 needs "
            "u sin(psi) other than 0); only what the joints pass on of the other thrusters' work can still tell"
            for link, angle in zip(self.link_names, self.thruster_angles_rad, strict=True)
            if abs(np.sin(angle)) < _ALONG
        ]


PER_LINK = tuple(one.name for one in fields(ChainConfiguration) if one.name not in ("link_names", "joint_travel_deg"))
"""The lists of `ChainConfiguration` that have an element for each link."""


@dataclass(frozen=True)
class ToleranceConfiguration:
    """How far the robot may be from its design: bounds, as drawings and data sheets give them."""

    length_m: float = non_negative(5e-4, "of a link's length", "m")
    mass_fraction: float = parameter(0.3, "of a link's mass", exclusive_minimum=0.0, exclusive_maximum=1.0)
    inertia_fraction: float = parameter(0.3, "of a link's inertia", exclusive_minimum=0.0, exclusive_maximum=1.0)
    centre_of_mass_m: float = non_negative(
        0.01, "of a link's centre of mass from the middle of the link, each axis", "m"
    )
    thruster_place_m: float = non_negative(2e-3, "of a thruster's place, each axis", "m")
    thruster_angle_deg: float = non_negative(2.0, "of a thruster's direction", "deg")
    thrust_gain_fraction: float = parameter(0.1, "of thrust by command", minimum=0.0, exclusive_maximum=1.0)
    imu_place_m: float = non_negative(3e-3, "of an IMU's place, each axis", "m")
    imu_mounting_deg: float = non_negative(2.0, "of an IMU's axes against the link's, each axis", "deg")


@dataclass(frozen=True)
class ThrusterConfiguration:
    """One thruster on each link."""

    limit_n: float = positive(1.0, "largest thrust, either way; commands beyond it (and 5 %) are refused", "N")
    time_constant_s: tuple[float, float] = non_negative(
        (0.02, 0.06), "least and largest time constant of thrust after a command", "s"
    )
    delay_stddev_s: float = positive(
        0.002,
        "from a command's stamp to where its thrust begins to change; how well it is known that this is nothing is how "
        "well thrust tells what all IMUs' clocks have in common",
        "s",
    )
    dead_band_n: float = non_negative(0.06, "commands below do not start a thruster, at most", "N")
    commands: str = parameter(
        "",
        "table (.csv) of thrusts that the simulated robot of the scenario `thrusters` is sent, as `observability "
        "thruster_chain --design` writes it; empty: the paper's square waves",
    )

    def faults(self) -> Iterable[str]:
        """A least time constant above the largest."""
        least, largest = self.time_constant_s
        if least > largest:
            yield f"time_constant_s: the least, {least:g} s, is above the largest, {largest:g} s"


@dataclass(frozen=True)
class GyroConfiguration:
    """Gyro of a link's IMU, by its data sheet: of its three axes, z is used."""

    noise_density_rad_s_sqrt_hz: float = positive(8.7e-5, "white noise; 0.005 deg/s/sqrt(Hz)", "rad/s/sqrt(Hz)")
    bias_stddev_rad_s: float = positive(0.0175, "bias at switch-on, before it is seen at rest", "rad/s")
    bias_walk_rad_s_sqrt_s: float = non_negative(1.6e-4, "random walk of the bias while warming up", "rad/s/sqrt(s)")
    scale_fraction: float = parameter(0.01, "of the scale, a bound", minimum=0.0, exclusive_maximum=0.5)
    range_rad_s: float = positive(34.9, "readings beyond it (and 5 %) are refused; 2000 deg/s", "rad/s")


@dataclass(frozen=True)
class AccelerometerConfiguration:
    """Accelerometer of a link's IMU, by its data sheet: of its three axes, x and y are used."""

    noise_density_m_s2_sqrt_hz: float = positive(3.9e-3, "white noise; 400 ug/sqrt(Hz)", "m/s^2/sqrt(Hz)")
    bias_stddev_m_s2: float = positive(0.16, "bias at switch-on, without what gravity adds by the mounting", "m/s^2")
    bias_walk_m_s2_sqrt_s: float = non_negative(2e-3, "random walk of the bias while warming up", "m/s^2/sqrt(s)")
    scale_fraction: float = parameter(0.01, "of the scale, a bound", minimum=0.0, exclusive_maximum=0.5)
    range_m_s2: float = positive(156.9, "readings beyond it (and 5 %) are refused; 16 g", "m/s^2")


@dataclass(frozen=True)
class ImuConfiguration:
    """IMU of each link: what both of its sensors share."""

    rate_hz: float = positive(200.0, "samples a second", "Hz")
    bandwidth_hz: float = positive(
        94.0, "of its low-pass: a sample's standard deviation is the noise density by the root of it", "Hz"
    )
    delay_s: float = non_negative(0.0025, "of that low-pass", "s")
    clock_offset_s: float = non_negative(0.01, "of its stamps against those of the commands, a bound", "s")


@dataclass(frozen=True)
class InitialConfiguration:
    """The initial state; masses and inertias start as designed, within the tolerances."""

    given: bool = parameter(
        False, "start from the headings and the position given here; false: from the ground truth, where there is some"
    )
    headings_rad: tuple[float, ...] = parameter(
        (0.0, 0.0, 0.0), "of each link, counter-clockwise from the room's x", unit="rad"
    )
    position_m: tuple[float, float] = parameter((0.0, 0.0), "of the centre of mass of all links, x and y", unit="m")
    heading_stddev_rad: float = positive(0.1, "of each link's heading", "rad")
    rate_stddev_rad_s: float = positive(5e-3, "of each link's turning rate", "rad/s")
    position_stddev_m: float = positive(0.01, "of the centre of mass, x and y", "m")
    velocity_stddev_m_s: float = positive(1e-3, "of the centre of mass, x and y; the robot starts at rest", "m/s")
    rest_s: float = non_negative(0.2, "the robot stands still at least so long after its first measurement", "s")


@dataclass(frozen=True)
class PaperConfiguration:
    """The paper's own figures, for the estimator `paper_ukf` and for the scenario `thrusters` (Tables III and IV)."""

    rate_hz: float = positive(100.0, "rate of its IMUs and of its filter's steps", "Hz")
    mass_stddev_kg: float = positive(0.1, "initial, of each mass", "kg")
    inertia_stddev_kg_m2: float = positive(1e-4, "initial, of each inertia", "kg m^2")
    heading_noise_rad: float = non_negative(5e-3, "process noise of a step, of each heading", "rad")
    rate_noise_rad_s: float = non_negative(1e-3, "process noise of a step, of each rate", "rad/s")
    mass_noise_kg: float = non_negative(1e-2, "process noise of a step, of each mass", "kg")
    inertia_noise_kg_m2: float = non_negative(7e-6, "process noise of a step, of each inertia", "kg m^2")
    accelerometer_stddev_m_s2: float = positive(0.01, "white noise of a sample, each axis", "m/s^2")
    gyro_stddev_rad_s: float = positive(1e-3, "white noise of a sample", "rad/s")
    iterated: bool = parameter(
        True, "iterate corrections where readings bend within the uncertainty; false: correct once, as the paper"
    )


@dataclass(frozen=True)
class TruthConfiguration:
    """Motion capture: its noise, which the evaluation adds to the filter's covariance when it judges it."""

    position_stddev_m: float = non_negative(1e-4, "of a link's x and y in a frame", "m")
    heading_stddev_deg: float = non_negative(0.02, "of a link's heading in a frame", "deg")
    alignment_stddev_deg: float = non_negative(
        0.0, "of the markers' frame against the link, the same all the time", "deg"
    )


@dataclass(frozen=True)
class ThrusterChainConfiguration:
    """All parameters of the estimators of headings, masses and inertias."""

    chain: ChainConfiguration = ChainConfiguration()
    tolerances: ToleranceConfiguration = ToleranceConfiguration()
    thruster: ThrusterConfiguration = ThrusterConfiguration()
    imu: ImuConfiguration = ImuConfiguration()
    gyro: GyroConfiguration = GyroConfiguration()
    accelerometer: AccelerometerConfiguration = AccelerometerConfiguration()
    initial: InitialConfiguration = InitialConfiguration()
    paper: PaperConfiguration = PaperConfiguration()
    truth: TruthConfiguration = TruthConfiguration()
    calibration: str = parameter(
        "", "file of what `train` found out of this very robot, for `robust`; empty: its design is all that is known"
    )
    imu_model: Literal["physical", "paper"] = parameter(
        "physical",
        "what `paper_ukf` takes an accelerometer to read: forces of joints and thruster in the link's frame, or what "
        "the paper's equation (21) has",
    )
    gravity_m_s2: float = positive(9.81, "at the laboratory", "m/s^2")
    gate_probability: float = parameter(
        0.997, "measurements less probable than one minus this are refused", exclusive_minimum=0.0, maximum=1.0
    )
    recover_after: int = parameter(
        20, "refusals in a row of one IMU until the covariance is inflated; 0: never", minimum=0
    )
    lag_s: float = non_negative(0.2, "how late a measurement may arrive and still be filtered in order", "s")

    def faults(self) -> Iterable[str]:
        """A number of initial headings that does not fit the number of links."""
        given, count = len(self.initial.headings_rad), self.chain.count
        if given != count and (self.initial.given or any(self.initial.headings_rad)):
            yield f"initial.headings_rad: {given} values given, {count} links need {count}"

    @property
    def initial_headings_rad(self) -> Vector:
        """(N,) as given; all zero where none are."""
        given = self.initial.headings_rad
        return np.array(given) if len(given) == self.chain.count else np.zeros(self.chain.count)

    @property
    def gyro_stddev_rad_s(self) -> float:
        """White noise of a gyro's sample."""
        return self.gyro.noise_density_rad_s_sqrt_hz * float(np.sqrt(self.imu.bandwidth_hz))

    @property
    def accelerometer_stddev_m_s2(self) -> float:
        """White noise of an accelerometer's sample, each axis."""
        return self.accelerometer.noise_density_m_s2_sqrt_hz * float(np.sqrt(self.imu.bandwidth_hz))
