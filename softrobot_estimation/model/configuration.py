"""What is known of a pneumatic soft robot of one segment before it has moved: parameters, topics, state space.

The defaults are a hanging segment of 13 cm with three chambers on a six-axis force-torque sensor, as such robots are
built. Frames (right-handed):

- base: origin in the segment's mounting face, z along the unbent segment from base to tip (down where it hangs), x and
  y such that the chambers lie at their angles, counted from x towards y;
- sensor: of the force-torque sensor, on the base's z axis and turned about it;
- tip: origin on the outer face of the tip plate, axes as the base's where the segment is straight.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from onboard_estimation.base.configuration import non_negative, parameter, positive
from onboard_estimation.base.measurement import Channel, Matrix, Vector
from onboard_estimation.filtering.state_space import StateSpace, vector

# Parameters of a soft robot that `identify` finds in recordings, and of the filters that run on them.


@dataclass(frozen=True)
class BehaviourConfiguration:
    """How the robot departs from the nominal segment; the defaults are a nominal robot's."""

    bending_stiffening_per_rad2: float = parameter(
        0.0,
        "share by which stiffness grows with the square of a small bending, and levels off; below 0 it falls",
        unit="1/rad^2",
    )
    pressure_stiffening_per_100_kpa: float = parameter(
        0.0, "share by which stiffness in bending grows with the sum of the pressures", unit="1/(100 kPa)"
    )
    anisotropy: float = parameter(
        0.0, "share by which it is stiffer about y, and softer about x", minimum=-0.5, maximum=0.5
    )
    rest_bending_rad: tuple[float, float] = parameter(
        (0.0, 0.0), "bending towards x and y that it has by itself, without pressure and weight", unit="rad"
    )
    rest_elongation_m: float = parameter(0.0, "what it is longer than its nominal length", unit="m")
    bending_damping_ratio: float = parameter(
        0.08, "as a share of critical damping, straight", exclusive_minimum=0.0, maximum=2.0
    )
    bending_damping_growth_per_rad2: float = non_negative(
        0.0, "share by which damping grows with the square of the angle", "1/rad^2"
    )
    axial_damping_ratio: float = parameter(0.12, "as a share of critical damping", exclusive_minimum=0.0, maximum=2.0)
    chamber_gains: tuple[float, ...] = positive((1.0, 1.0, 1.0), "force of each chamber by its nominal one")
    moment_gain: float = positive(1.0, "what all chambers bend more than their places and areas say")
    chambers_turned_deg: float = parameter(
        0.0, "about the base's z from where they should be", unit="deg", minimum=-45.0, maximum=45.0
    )
    pressure_offsets_pa: tuple[float, ...] = parameter(
        (0.0, 0.0, 0.0), "what each transducer reads at no pressure", unit="Pa"
    )
    supply_lag_s: float = positive(0.02, "time constant of hose and chamber, behind the transducer", "s")
    relaxation_shares: tuple[float, float] = parameter(
        (0.1, 0.1), "of the stiffness that fades after a deformation: fast and slow", minimum=0.0, maximum=2.0
    )
    relaxation_times_s: tuple[float, float] = positive((0.2, 3.0), "in which each of them fades", "s")
    inertia_share: float = parameter(
        0.1545,
        "of the soft part's mass that moves as if it were at the tip: an arc has the inertia of a clamped beam with it",
        minimum=0.0,
        maximum=0.9,
    )
    load_share: float = parameter(
        0.0872, "the same for the load on the base: that of a clamped beam's first mode", minimum=0.0, maximum=0.9
    )

    def faults(self) -> Iterable[str]:
        """Shares that fade in the wrong order."""
        fast, slow = self.relaxation_times_s
        if fast >= slow:
            yield f"relaxation_times_s: {fast:g} s and {slow:g} s; the fast one comes first"


@dataclass(frozen=True)
class FilterConfiguration:
    """What the filters `ukf` and `marginalized_pf` count on; `train` tunes what says so."""

    moment_stddev_n_m: float = positive(
        0.008, "of bending moments that no equation has: hysteresis, shape (tuned)", "N m"
    )
    moment_time_s: float = positive(0.3, "in which they change", "s")
    bending_rate_noise_rad_s_sqrt_s: float = positive(1.0, "white noise of the bending's acceleration", "rad/s/sqrt(s)")
    elongation_rate_noise_m_s_sqrt_s: float = positive(0.3, "the same of the elongation's", "m/s/sqrt(s)")
    stiffness_walk_sqrt_s: float = non_negative(
        0.005, "random walk of the stiffness's logarithm, `ukf` only (tuned)", "1/sqrt(s)"
    )
    stiffness_spread: float = positive(0.1, "standard deviation of the stiffness's logarithm at the start")
    force_stddev_n: float = positive(
        0.05, "of the wrench beside the model's: noise, and what the model has not (tuned)", "N"
    )
    torque_stddev_n_m: float = positive(0.002, "the same of its torques (tuned)", "N m")
    twist_stddev_n_m: float = positive(0.004, "the same of the torque about the base's z: an arc does not twist", "N m")
    force_walk_n_sqrt_s: float = positive(
        0.02, "random walk of the sensor's offset, drift and wrong shape", "N/sqrt(s)"
    )
    torque_walk_n_m_sqrt_s: float = positive(0.002, "the same of its torques (tuned)", "N m/sqrt(s)")
    rest_moment_stddev_n_m: float = positive(
        0.008, "of a bending moment that it always has: moulded bent, or tilted (tuned)", "N m"
    )
    payload_walk_kg_sqrt_s: float = non_negative(
        0.002, "random walk of a payload at the tip; it may come at any time", "kg/sqrt(s)"
    )
    payload_stddev_kg: float = positive(0.003, "of a payload at the start", "kg")
    place_stddev_m: float = non_negative(
        0.0005, "of the tip's place for a pose that is known: no robot is quite an arc", "m"
    )
    place_share: float = parameter(
        0.06, "and as a share of how far the tip is off the base's z (tuned)", minimum=0.0, maximum=1.0
    )
    stiffness_share: float = non_negative(
        0.12, "of the stiffness, beside what is estimated: it is known against moments of pressures alone"
    )


@dataclass(frozen=True)
class LearningConfiguration:
    """What `marginalized_pf` learns of the stiffness, a Gaussian process of bending and elongation, and how."""

    model: str = parameter("", "file of a stiffness that was learned before, by `train`; empty: from nothing")
    particles: int = parameter(500, "how many", minimum=50, maximum=20000)
    functions: int = parameter(40, "basis functions of the stiffness", minimum=4, maximum=400)
    kernel: str = parameter(
        "squared_exponential", "of the Gaussian process", choices=("squared_exponential", "matern_3_2", "matern_5_2")
    )
    half_width_rad: float = positive(1.4, "of the box over bending; beyond it nothing is learned", "rad")
    half_width_m: float = positive(0.1, "of the box over elongation, about that of half the largest pressure", "m")
    length_scale_rad: float = positive(0.4, "over which stiffness changes", "rad")
    length_scale_m: float = positive(0.1, "the same over elongation", "m")
    deviation_share: float = parameter(
        0.15, "standard deviation of the stiffness about its mean, as a share", exclusive_minimum=0.0, maximum=1.0
    )
    noise_share: float = parameter(
        0.3, "of that again, from one instant to the next, to begin with", exclusive_minimum=0.0, maximum=2.0
    )
    sample_weight: float = parameter(
        0.02, "how much each step's sample counts: those of some 50 steps err alike", exclusive_minimum=0.0, maximum=1.0
    )
    memory_s: float = positive(60.0, "after which what was learned is forgotten", "s")
    hyper_parameters: bool = parameter(
        False, "learn scale and length of the kernel, too (`algorithm_1` as well): four times the work"
    )
    seed: int = parameter(1, "of all random numbers", minimum=0)


SETTLE_S = 2.0
"""Until then what the state at the start was is forgotten, and hoses are filled."""

_LEAST_SPREAD_DEG = 1.0  # between chambers: two at one angle are one chamber
_FULL_TURN_DEG = 360.0


@dataclass(frozen=True)
class SegmentConfiguration:
    """The segment, a cylinder of soft material with a plate at its tip."""

    length_m: float = positive(0.128, "of the soft part, unbent and without pressure; the tip plate is beyond", "m")
    diameter_m: float = positive(0.044, "outer diameter", "m")
    mass_kg: float = positive(0.156, "all that hangs on the sensor, the tip plate included", "kg")
    tip_plate_thickness_m: float = non_negative(0.006, "from the end of the soft part to the tip", "m")
    tip_plate_mass_kg: float = non_negative(0.01, "of the plate, with what is fixed to it", "kg")

    def faults(self) -> Iterable[str]:
        """A plate as heavy as the whole."""
        if self.tip_plate_mass_kg >= self.mass_kg:
            yield f"tip_plate_mass_kg: {self.tip_plate_mass_kg:g} kg, and the whole robot is {self.mass_kg:g} kg"


@dataclass(frozen=True)
class ChamberConfiguration:
    """Chambers along the segment, all alike."""

    names: tuple[str, ...] = parameter(("chamber_1", "chamber_2", "chamber_3"), "in order, as in pressure/<name>")
    angles_deg: tuple[float, ...] = parameter(
        (90.0, 210.0, 330.0), "of each chamber about the base's z, from its x towards its y", unit="deg"
    )
    centre_radius_m: float = positive(0.0126, "from the segment's axis to the middle of a chamber", "m")
    area_m2: float = positive(1.55e-4, "cross-section of a chamber", "m^2")
    pressure_max_pa: float = positive(67000.0, "largest gauge pressure", "Pa")

    def faults(self) -> Iterable[str]:
        """Too few chambers to bend both ways, numbers that do not fit, doubled names or places."""
        count = len(self.names)
        if count < 3:
            yield f"names: {count} chambers given; a segment that bends to every side has three or more"
        if len(set(self.names)) != count:
            yield f"names: names must differ, got {', '.join(self.names)}"
        if len(self.angles_deg) != count:
            yield f"angles_deg: {len(self.angles_deg)} values given, {count} chambers need {count}"
            return
        turned = sorted(angle % _FULL_TURN_DEG for angle in self.angles_deg)
        for one, other in pairwise([*turned, turned[0] + _FULL_TURN_DEG]):
            if other - one < _LEAST_SPREAD_DEG:
                yield f"angles_deg: two chambers at {one:g} deg"

    @property
    def count(self) -> int:
        """Number of chambers C."""
        return len(self.names)

    @property
    def angles_rad(self) -> Vector:
        """(C,) rad."""
        return np.radians(self.angles_deg)


@dataclass(frozen=True)
class StiffnessConfiguration:
    """Nominal stiffness, as of a bench test at small deflection."""

    bending_n_m_per_rad: float = positive(0.15, "moment for an angle of bending over the whole length", "N m/rad")
    axial_n_per_m: float = positive(1400.0, "force for an elongation", "N/m")


@dataclass(frozen=True)
class MountingConfiguration:
    """How the base stands in the room. The filter's model feels it as the direction of gravity."""

    attitude: Literal["hanging", "upright"] = parameter("hanging", "the base's z points down, or up")
    tilt_deg: tuple[float, float] = parameter(
        (0.0, 0.0),
        "turn of the base about its own x and y from exactly hanging or upright (one rotation vector), where somebody "
        "has measured it",
        unit="deg",
        minimum=-45.0,
        maximum=45.0,
    )
    tilt_stddev_deg: float = non_negative(1.0, "of either; what `roughly vertical` means", "deg")

    @property
    def down_in_base(self) -> Vector:
        """(3,) unit vector of gravity's direction in base coordinates."""
        # Rodrigues' formula, in place of scipy's rotations: 15 MB that a node does not need.
        x, y = np.radians(self.tilt_deg)
        angle = math.hypot(x, y)
        share = math.sin(angle) / angle if angle > 0.0 else 1.0
        return (1.0 if self.attitude == "hanging" else -1.0) * np.array([-share * y, share * x, math.cos(angle)])


@dataclass(frozen=True)
class WrenchConfiguration:
    """Force-torque sensor between the base plate and the frame, by its data sheet."""

    origin_in_base_m: tuple[float, float, float] = parameter(
        (0.0, 0.0, -0.0142), "where it measures torque, in base coordinates", unit="m"
    )
    angle_about_base_z_deg: float = parameter(
        30.0, "Rz of it turns a vector of the sensor's frame into the base's", unit="deg", minimum=-360.0, maximum=360.0
    )
    sign: Literal["robot_on_sensor", "sensor_on_robot"] = parameter(
        "robot_on_sensor", "whose force on whom the messages hold; the weight of a hanging robot on it is positive in z"
    )
    tare: Literal["without_robot", "with_robot"] = parameter(
        "without_robot", "when it was zeroed: before the robot was fixed to it (weight is read), or with it at rest"
    )
    rate_hz: float = positive(125.0, "samples a second", "Hz")
    force_stddev_n: float = positive(0.009, "white noise of a sample", "N")
    torque_stddev_n_m: float = positive(1e-4, "white noise of a sample", "N m")
    force_resolution_n: float = non_negative(0.00625, "step of a reading", "N")
    torque_resolution_n_m: float = non_negative(3.125e-5, "step of a reading", "N m")
    force_range_n: float = non_negative(
        0.0, "largest reading: what comes up to it is left out; 0: nobody knows it", "N"
    )
    torque_range_n_m: float = non_negative(0.0, "the same of its torques", "N m")
    crosstalk_fraction: float = parameter(0.01, "of one axis in another, a bound", minimum=0.0, exclusive_maximum=1.0)
    force_drift_n: float = non_negative(0.03, "drift in a run while it warms", "N")
    torque_drift_n_m: float = non_negative(1e-3, "drift in a run while it warms", "N m")

    @property
    def base_from_sensor(self) -> Matrix:
        """(3, 3) rotation of a vector in sensor coordinates into base coordinates."""
        angle = math.radians(self.angle_about_base_z_deg)
        cosine, sine = math.cos(angle), math.sin(angle)
        return np.array([[cosine, -sine, 0.0], [sine, cosine, 0.0], [0.0, 0.0, 1.0]])

    @property
    def into_base(self) -> Matrix:
        """(6, 6) orthogonal: from a message to what the robot puts on the sensor, in the base's axes."""
        sign = 1.0 if self.sign == "robot_on_sensor" else -1.0
        return np.asarray(np.kron(sign * np.eye(2), self.base_from_sensor), dtype=np.float64)


@dataclass(frozen=True)
class PressureConfiguration:
    """Transducers of gauge pressure at the regulators, whose messages hold absolute pressure."""

    ambient_pa: float = positive(
        101325.0, "taken off the messages' absolute pressure; whoever publishes gauge pressure has added it", "Pa"
    )
    rate_hz: float = positive(125.0, "samples a second", "Hz")
    noise_pa: float = positive(70.0, "white noise of a sample", "Pa")
    offset_stddev_pa: float = non_negative(250.0, "of a transducer that nobody has zeroed", "Pa")


@dataclass(frozen=True)
class TruthConfiguration:
    """Motion capture: its noise, which the evaluation adds to the filter's covariance when it judges it."""

    rate_hz: float = positive(100.0, "frames a second", "Hz")
    position_stddev_m: float = non_negative(1e-4, "of a body in a frame", "m")
    orientation_stddev_deg: float = non_negative(0.1, "of a body in a frame", "deg")
    alignment_stddev_m: float = non_negative(3e-4, "of a marker body against the part it is on, always the same", "m")
    alignment_stddev_deg: float = non_negative(0.3, "of a marker body's axes, always the same", "deg")


@dataclass(frozen=True)
class ModelConfiguration:
    """The nominal model: what no data sheet says of it, and standard deviations of all that it rests on."""

    damping_ratio: float = parameter(
        0.15, "of bending and of elongation, each as a share of critical damping", exclusive_minimum=0.0, maximum=2.0
    )
    damping_ratio_stddev: float = non_negative(0.1, "of that")
    pressure_lag_s: float = positive(0.025, "time constant of hose and chamber, behind the transducer", "s")
    pressure_lag_stddev_s: float = non_negative(0.015, "of that", "s")
    bending_stiffness_spread: float = parameter(
        0.3,
        "standard deviation of the stiffness in bending, as a share: it changes with bending, creep and hysteresis",
        minimum=0.0,
        exclusive_maximum=1.0,
    )
    axial_stiffness_spread: float = parameter(
        0.2, "standard deviation of the axial stiffness, as a share", minimum=0.0, exclusive_maximum=1.0
    )
    chamber_spread: float = parameter(
        0.05, "standard deviation of a chamber's force and torque, as a share", minimum=0.0, exclusive_maximum=1.0
    )
    shape_stddev_m: float = positive(
        0.002,
        "of the tip's place, each axis, for the segment is no arc of a circle; it comes and goes with its vibration",
        "m",
    )


@dataclass(frozen=True)
class InitialConfiguration:
    """How far the robot may be from hanging straight, without pressure, when a filter starts."""

    position_stddev_m: float = positive(0.01, "of the tip, each axis", "m")
    velocity_stddev_m_s: float = positive(0.05, "of the tip, each axis", "m/s")


@dataclass(frozen=True)
class SoftRobotConfiguration:
    """All that is known beforehand of a soft robot and its sensors."""

    segment: SegmentConfiguration = SegmentConfiguration()
    chambers: ChamberConfiguration = ChamberConfiguration()
    stiffness: StiffnessConfiguration = StiffnessConfiguration()
    mounting: MountingConfiguration = MountingConfiguration()
    wrench: WrenchConfiguration = WrenchConfiguration()
    pressure: PressureConfiguration = PressureConfiguration()
    truth: TruthConfiguration = TruthConfiguration()
    model: ModelConfiguration = ModelConfiguration()
    initial: InitialConfiguration = InitialConfiguration()
    behaviour: BehaviourConfiguration = BehaviourConfiguration()
    filter: FilterConfiguration = FilterConfiguration()
    learning: LearningConfiguration = LearningConfiguration()
    gravity_m_s2: float = positive(9.81, "at the laboratory", "m/s^2")

    def faults(self) -> Iterable[str]:
        """Chambers that are not inside the segment, or numbers of them that are not one for each."""
        for name in ("chamber_gains", "pressure_offsets_pa"):
            given = len(getattr(self.behaviour, name))
            if given != self.chambers.count:
                yield f"behaviour.{name}: {given} numbers for {self.chambers.count} chambers"
        if self.chambers.centre_radius_m >= 0.5 * self.segment.diameter_m:
            yield (
                f"chambers.centre_radius_m: {self.chambers.centre_radius_m:g} m is outside of a segment of "
                f"segment.diameter_m {self.segment.diameter_m:g} m"
            )

    def with_parameters(self, values: Mapping[str, Any]) -> SoftRobotConfiguration:
        """This with other parameters, by dotted names, one section deep."""
        sections: dict[str, dict[str, Any]] = {}
        for name, value in values.items():
            section, _, member = name.partition(".")
            sections.setdefault(section, {})[member] = value
        return replace(self, **{name: replace(getattr(self, name), **members) for name, members in sections.items()})

    @property
    def gravity_in_base_m_s2(self) -> Vector:
        """(3,) acceleration of gravity in base coordinates, by the mounting as it is known."""
        return self.gravity_m_s2 * self.mounting.down_in_base

    @property
    def resting_force_in_sensor_n(self) -> Vector:
        """(3,) force that the resting robot's weight shows in the wrench, in sensor coordinates, by its mass."""
        if self.wrench.tare == "with_robot":
            return np.zeros(3)
        return self.segment.mass_kg * self.gravity_in_base_m_s2 @ self.wrench.into_base[:3, :3]


# What goes into its estimators and what comes out: topics, and the state space of all estimates.

WRENCH = Channel("wrench", "geometry_msgs/msg/WrenchStamped", "wrench")
TRUE_STIFFNESS = Channel(
    "ground_truth/stiffness", "sensor_msgs/msg/JointState", "stiffness", "position", ("bending",), required=False
)
"""Of a simulated robot, N m/rad: moment over angle, for the whole length. It holds until the next message."""


SPACE = StateSpace(
    vector("position", ("x", "y", "z"), "m"),
    vector("velocity", ("x", "y", "z"), "m/s"),
    vector("stiffness", ("bending",), "N m/rad"),
)
"""Place and velocity of the tip (the middle of its plate's outer face) in the base's frame, and what moment an angle of
bending over the whole length takes now."""


def pressure_channel(chamber: str) -> Channel:
    """Absolute pressure at a chamber's regulator, Pa."""
    return Channel(f"pressure/{chamber}", "sensor_msgs/msg/FluidPressure", f"pressure/{chamber}")


def pressure_command_channel(chamber: str) -> Channel:
    """Set point of a chamber's regulator as absolute pressure, Pa; an estimator can do without."""
    topic = f"pressure/{chamber}/command"
    return Channel(topic, "sensor_msgs/msg/FluidPressure", topic, required=False, command=True)


def channels(chambers: Sequence[str]) -> tuple[Channel, ...]:
    """All that is recorded: set points, pressures, wrench."""
    pressures = (channel(name) for channel in (pressure_command_channel, pressure_channel) for name in chambers)
    return (*pressures, WRENCH)
