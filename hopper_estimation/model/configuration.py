"""Parameters of the hopping robot and its estimators, and the topics that it speaks on."""

from __future__ import annotations

from dataclasses import dataclass, replace

from onboard_estimation.base.configuration import non_negative, parameter, positive
from onboard_estimation.base.measurement import Channel, Limit
from onboard_estimation.base.series import imu_channel, set_pose_channel
from onboard_estimation.pipeline.reading_limits import imu_limits


@dataclass(frozen=True)
class HopperBody:
    """What is known of the robot itself (paper, table of robot parameters)."""

    body_mass_kg: float = positive(0.5619, "mass of the body", "kg")
    leg_mass_kg: float = positive(0.0981, "mass of the leg", "kg")
    spring_n_m: float = positive(704.0, "constant of the main spring", "N/m")
    standing_height_m: float = positive(0.2683, "height of the body above the ground with the leg extended", "m")
    largest_height_m: float = positive(20.0, "heights that are commanded or set beyond it (and 5 %) are refused", "m")
    gravity_m_s2: float = parameter(9.80665, "magnitude of gravity here", unit="m/s^2", minimum=9.7, maximum=9.9)


@dataclass(frozen=True)
class HopperSensors:
    """Accelerometers: ranges, zeroing on the ground, and how long one may be silent."""

    low_range_m_s2: float = positive(
        156.9, "readings of the low-g sensor at 99 % of this are saturated (16 g), those beyond 105 % refused", "m/s^2"
    )
    high_range_m_s2: float = positive(1961.0, "the same of the high-g sensor (200 g)", "m/s^2")
    gyro_range_rad_s: float = positive(
        34.9, "readings of the low-g sensor's gyro beyond 105 % of this are refused (2000 deg/s)", "rad/s"
    )
    high_noise_m_s2: float = positive(5.0, "noise of a reading of the high-g sensor at rest", "m/s^2")
    low_offset_m_s2: float = positive(1.5, "largest zero offset of the low-g sensor: more is a fault", "m/s^2")
    high_offset_m_s2: float = positive(15.0, "largest zero offset of the high-g sensor: more is a fault", "m/s^2")
    rest_s: float = parameter(0.8, "sensors are zeroed after lying still for so long", unit="s", minimum=0.1)
    rest_rate_rad_s: float = positive(0.05, "at rest, the gyro varies by less (standard deviation)", "rad/s")
    largest_tilt_deg: float = parameter(
        25.0, "tilt at rest beyond which axes are taken for swapped", unit="deg", exclusive_minimum=0.0, maximum=80.0
    )
    silent_s: float = positive(0.01, "without a reading for so long the other sensor goes on alone", "s")
    stuck_readings: int = parameter(40, "so many equal readings in a row mean that a sensor is stuck", minimum=3)


@dataclass(frozen=True)
class HopperRotors:
    """Thrust from the commanded duty cycle: its square times full thrust."""

    full_thrust_weights: float = positive(2.0, "full thrust of all rotors over the weight")


@dataclass(frozen=True)
class HopperTrainingConfiguration:
    """How `train hopper` searches filter parameters."""

    individuals: int = parameter(1000, "in a generation", minimum=5, maximum=1_000_000)
    generations: int = parameter(20, "in all", minimum=1, maximum=100_000)
    seeds: tuple[int, ...] = parameter((0,), "runs with these seeds; the best is kept", minimum=0)
    threads: int = parameter(0, "that share the work; 0: one a core", minimum=0, maximum=1024)
    delays: bool = parameter(True, "search the delays of event detection too; false: the paper's form")


@dataclass(frozen=True)
class HopperConfiguration:
    """All parameters of the hopper."""

    robot: HopperBody = HopperBody()
    sensors: HopperSensors = HopperSensors()
    rotors: HopperRotors = HopperRotors()
    training: HopperTrainingConfiguration = HopperTrainingConfiguration()
    ground_changes: bool = parameter(
        False, "heights are above the ground of the start, summed up over changing ground, not above the ground below"
    )
    ground_step_stddev_m: float = parameter(
        0.04, "by how much ground that changes does so from hop to hop", unit="m", minimum=0.0, maximum=2.0
    )
    truth_stddev_m: float = non_negative(0.0003, "noise of the motion capture's height", "m")
    truth_velocity_stddev_m_s: float = non_negative(0.03, "noise of the velocity derived from it", "m/s")
    truth_body: str = parameter("body", "name of the motion capture's body")
    filter_model: str = parameter("", 'file of trained filter parameters; "" for those that come with the package')
    lag_s: float = parameter(0.05, "how late a reading may arrive", unit="s", minimum=0.0, maximum=10.0)


LOW_G = imu_channel("low_g")
HIGH_G = replace(imu_channel("high_g"), required=False, needs=("linear_acceleration",))
ATTITUDE = Channel("imu/attitude/data", "sensor_msgs/msg/Imu", "imu/attitude", field="orientation", required=False)
MOTOR_COUNT = 4
MOTORS = Channel(
    "motors/command",
    "sensor_msgs/msg/JointState",
    "motors/command",
    "position",
    tuple(f"motor_{i + 1}" for i in range(MOTOR_COUNT)),
    required=False,
    command=True,
)
COMMANDED_HEIGHT = Channel(
    "commanded_height", "geometry_msgs/msg/PointStamped", "commanded_height", required=False, command=True
)
LEG = Channel("leg/state", "sensor_msgs/msg/JointState", "leg/state", "position", ("leg",), required=False)
"""Compression of the leg: only the baselines that need an encoder listen to it."""


def limited_channels(configuration: HopperConfiguration) -> tuple[Channel, ...]:
    """All topics, known heights (`set_pose`) included, with the limits of what they tell."""
    robot, sensors = configuration.robot, configuration.sensors
    low = imu_limits(
        gyro=(sensors.gyro_range_rad_s, "sensors.gyro_range_rad_s"),
        accelerometer=(sensors.low_range_m_s2, "sensors.low_range_m_s2"),
    )
    high = imu_limits(gyro=None, accelerometer=(sensors.high_range_m_s2, "sensors.high_range_m_s2"))
    height = (Limit("height", 2, 1, robot.largest_height_m, "m", "robot.largest_height_m"),)
    compression = Limit("compression", 0, 1, robot.standing_height_m, "m", "robot.standing_height_m")
    return (
        replace(COMMANDED_HEIGHT, limits=height),
        replace(MOTORS, limits=(Limit("duty cycle", 0, MOTOR_COUNT, 1.0, ""),)),
        replace(set_pose_channel(), limits=height),
        replace(ATTITUDE, limits=(Limit("element of a unit quaternion", 0, 4, 1.0, ""),)),
        replace(LEG, limits=(compression,)),
        replace(HIGH_G, limits=high),
        replace(LOW_G, limits=low),
    )
