"""Where the parts stand in the state of the jointed inertial navigation, and how far they may be at the start.

One block of each link, one of each joint, one of the chain:

| block | parts |
|---|---|
| link | heading, gyro bias and scale, accelerometer biases x y, mounting angle, IMU place x y, clock, accelerometer scale, half length, and by how much the scale along differs from that across, halved |
| joint k, links k and k + 1 | velocity of the IMU before it against the one behind it (room), gap of the pins (room) |
| chain | velocity and position of the first link's IMU (room), gravity along the table (room) |

Places, half lengths, mounting, scales and clocks are errors against what the configuration says.
"""  # noqa: E501

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import Vector
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration
from thruster_chain_estimation.model.space import BOUND_TO_STDDEV

(
    HEADING,
    GYRO_BIAS,
    GYRO_SCALE,
    BIAS_X,
    BIAS_Y,
    MOUNTING,
    PLACE_X,
    PLACE_Y,
    CLOCK,
    ACCELEROMETER_SCALE,
    HALF_LENGTH,
    SCALE_APART,
) = range(12)
LINK = 12
SCALED = (PLACE_X, PLACE_Y, HALF_LENGTH, SCALE_APART)
"""Of a link, what grows with the common scale of lengths and accelerometers."""
JOINT = 4
CHAIN = 6

SLOPE_RAD = np.deg2rad(0.1)  # of a table that was levelled with a spirit level


def chain_part(count: int) -> int:
    """Where the block of the chain starts."""
    return LINK * count + JOINT * (count - 1)


def lasting(count: int) -> NDArray[np.intp]:
    """Places in the state of what stays with a robot from one switch-on to the next."""
    parts = GYRO_SCALE, MOUNTING, PLACE_X, PLACE_Y, ACCELEROMETER_SCALE, HALF_LENGTH, SCALE_APART
    return np.array([LINK * link + part for link in range(count) for part in parts])


def clock_stddev_s(configuration: ThrusterChainConfiguration) -> float:
    """Of each IMU's clock."""
    return float(BOUND_TO_STDDEV * configuration.imu.clock_offset_s)


def prior_stddev(configuration: ThrusterChainConfiguration) -> Vector:
    """(n,) of everything but headings and position, which the start brings; those are zero here.

    What a laboratory says it knows to a tolerance lies anywhere within, where no more is said (JCGM 100:2008, "Guide to
    the expression of uncertainty in measurement", 4.3.7), as what data sheets bound does. Lengths are taken whole:
    between two pins there is their play as well.
    """
    count = configuration.chain.count
    gyro, accelerometer, tolerances = configuration.gyro, configuration.accelerometer, configuration.tolerances
    mounting = BOUND_TO_STDDEV * np.deg2rad(tolerances.imu_mounting_deg)
    leaked = configuration.gravity_m_s2 * mounting
    link = np.zeros(LINK)
    link[GYRO_BIAS] = gyro.bias_stddev_rad_s
    link[GYRO_SCALE] = BOUND_TO_STDDEV * gyro.scale_fraction
    link[[BIAS_X, BIAS_Y]] = np.hypot(accelerometer.bias_stddev_m_s2, leaked)
    link[MOUNTING] = mounting
    link[[PLACE_X, PLACE_Y]] = BOUND_TO_STDDEV * tolerances.imu_place_m
    link[CLOCK] = clock_stddev_s(configuration)
    link[[ACCELEROMETER_SCALE, SCALE_APART]] = np.sqrt(0.5) * BOUND_TO_STDDEV * accelerometer.scale_fraction
    link[HALF_LENGTH] = 0.5 * tolerances.length_m
    joint = np.full(JOINT, 1e-4)
    chain = np.array([1e-4, 1e-4, 0.0, 0.0, *2 * [configuration.gravity_m_s2 * SLOPE_RAD]])
    return np.concatenate([np.tile(link, count), np.tile(joint, count - 1), chain])
