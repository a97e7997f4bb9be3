"""What the parameter filter learns of a chain, where it stands, and how far it may be from the design.

| block | parts |
|---|---|
| link | log mass, log inertia, centre of mass x y, thrust by command, reverse thrust against forward, direction, thruster place x y, log time constant |
| joint | stiffness, torque at rest, viscous friction, dry friction |
| chain | drag along and across a link, each linear and quadratic; delay of the thrusters, curvature of their thrust; errors of the inertial navigation's velocity and position; velocity of the air |

Everything but drag and friction is an error against the configuration.
"""  # noqa: E501

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onboard_estimation.base.measurement import Vector
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration
from thruster_chain_estimation.model.inertial_layout import clock_stddev_s
from thruster_chain_estimation.model.space import BOUND_TO_STDDEV

LOG_MASS, LOG_INERTIA, CENTRE_X, CENTRE_Y, GAIN, REVERSE, DIRECTION, THRUSTER_X, THRUSTER_Y, LOG_LAG = range(10)
LINK = 10
STIFFNESS, REST_TORQUE, VISCOUS, DRY = range(4)
JOINT = 4
(
    ALONG_LINEAR,
    ALONG_QUADRATIC,
    ACROSS_LINEAR,
    ACROSS_QUADRATIC,
    DELAY,
    CURVATURE,
    VELOCITY_X,
    VELOCITY_Y,
    POSITION_X,
    POSITION_Y,
    AIR_X,
    AIR_Y,
) = range(12)
CHAIN = 12

AIR_M_S = 0.05  # of each axis: half of what passes for still air where people sit (ISO 7730 takes 0.1 m/s)
AIR_TIME_S = 20.0  # in which a room's circulation turns over at a table of 2 m
BRISTLE_RAD = 0.02  # turn over which dry friction builds up (Dahl, "A solid friction model", 1968)


@njit(cache=True)
def chain_part(count: int) -> int:
    """Where the block of the chain starts."""
    return LINK * count + JOINT * (count - 1)


def lag_bounds_s(configuration: ThrusterChainConfiguration) -> tuple[float, float]:
    """Least and largest time constant of the thrusters; what is learned is the log of one by their geometric mean."""
    least, largest = configuration.thruster.time_constant_s
    return max(least, 1e-3), max(largest, 1e-3)


def prior(configuration: ThrusterChainConfiguration) -> tuple[Vector, Vector]:
    """Mean (n,) and standard deviations (n,).

    Friction, drag and stiffness are not on any data sheet: their deviations are shares of what the thrusters can do,
    with a link's half length as lever, and speeds of 0.5 m/s and 2 rad/s.
    """
    count, tolerances, thruster = configuration.chain.count, configuration.tolerances, configuration.thruster
    torque = thruster.limit_n * 0.5 * float(configuration.chain.lengths.mean())
    least, largest = lag_bounds_s(configuration)
    link = np.empty(LINK)
    link[LOG_MASS], link[LOG_INERTIA] = tolerances.mass_fraction, tolerances.inertia_fraction
    link[[CENTRE_X, CENTRE_Y]] = tolerances.centre_of_mass_m
    link[GAIN], link[REVERSE] = tolerances.thrust_gain_fraction, 0.5 * tolerances.thrust_gain_fraction
    link[DIRECTION] = np.deg2rad(tolerances.thruster_angle_deg)
    link[[THRUSTER_X, THRUSTER_Y]] = tolerances.thruster_place_m
    link *= BOUND_TO_STDDEV
    link[LOG_LAG] = 0.5 * np.log(largest / least) + 0.05
    joint = torque * np.array([0.04, 0.02, 0.02, 0.02])
    drag = thruster.limit_n * np.array([0.2, 0.4, 0.3, 0.5])
    # As the IMUs see it: what their clocks have in common looks the same.
    delay = np.hypot(thruster.delay_stddev_s, clock_stddev_s(configuration) / np.sqrt(count))
    chain = np.concatenate([drag, [delay, 0.1], np.full(4, 1e-3), np.full(2, AIR_M_S)])
    stddev = np.concatenate([np.tile(link, count), np.tile(joint, count - 1), chain])
    mean = np.zeros(len(stddev))
    mean[chain_part(count) : chain_part(count) + 4] = 0.5 * drag
    return mean, stddev


def inertial(count: int) -> NDArray[np.intp]:
    """Places of masses, inertias and centres of mass: what a load changes."""
    return np.array([LINK * link + part for link in range(count) for part in range(CENTRE_Y + 1)])


def lasting(count: int) -> NDArray[np.intp]:
    """Places of all that stays with a robot: everything but the errors of the navigation."""
    return np.arange(chain_part(count) + VELOCITY_X)
