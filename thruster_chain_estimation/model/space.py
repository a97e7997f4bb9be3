"""The state that every estimator of a thruster chain tells, 4N + 4 dimensions by name, and where its links are."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import Channel, Limit, Matrix
from onboard_estimation.base.series import imu_channel
from onboard_estimation.filtering.state_space import StateSpace, angles, vector
from onboard_estimation.pipeline.reading_limits import imu_limits
from thruster_chain_estimation.model.configuration import ChainConfiguration, ThrusterChainConfiguration

BOUND_TO_STDDEV = float(1.0 / np.sqrt(3.0))
"""Of what is equally likely anywhere within a bound."""


@cache
def published_space(configuration: ThrusterChainConfiguration) -> StateSpace:
    """Headings, rates, masses and inertias of the N links; position and velocity of the centre of mass of them all."""
    link_names = configuration.chain.link_names
    return StateSpace(
        angles("headings", link_names),
        vector("rates", link_names, "rad/s"),
        vector("masses", link_names, "kg"),
        vector("inertias", link_names, "kg m^2"),
        vector("position", ("x", "y"), "m"),
        vector("velocity", ("x", "y"), "m/s"),
    )


def prior_stddev(configuration: ThrusterChainConfiguration) -> NDArray[np.float64]:
    """(4N + 4,) of the initial state: as configured, masses and inertias anywhere within their tolerances."""
    space, chain, initial = published_space(configuration), configuration.chain, configuration.initial
    tolerances = configuration.tolerances
    stddev = np.empty(space.dimension)
    stddev[space.tangent("headings")] = initial.heading_stddev_rad
    stddev[space.tangent("rates")] = initial.rate_stddev_rad_s
    stddev[space.tangent("masses")] = BOUND_TO_STDDEV * tolerances.mass_fraction * chain.masses
    stddev[space.tangent("inertias")] = BOUND_TO_STDDEV * tolerances.inertia_fraction * chain.inertias
    stddev[space.tangent("position")] = initial.position_stddev_m
    stddev[space.tangent("velocity")] = initial.velocity_stddev_m_s
    return stddev


def initial_mean(configuration: ThrusterChainConfiguration, headings: Matrix, position: Matrix) -> Matrix:
    """(4N + 4,) at rest, masses and inertias as designed, with headings (N,) and the centre of mass at a place (2,)."""
    chain = configuration.chain
    return np.concatenate([headings, np.zeros(chain.count), chain.masses, chain.inertias, position, np.zeros(2)])


def initial_covariance(configuration: ThrusterChainConfiguration) -> Matrix:
    """(4N + 4, 4N + 4) diagonal, see `prior_stddev`."""
    return np.diag(np.square(prior_stddev(configuration)))


def link_positions(lengths_m: Matrix, headings: Matrix, masses: Matrix, position: Matrix) -> Matrix:
    """Middles of the links (K, N, 2) from K states: equations (13) to (16), in O(N) for each.

    Parameters
    ----------
    lengths_m
        (N,) between the ends of each link; the paper's l_i are halves of them.
    headings, masses
        (K, N) rad and kg, or (N,) masses for all.
    position
        (K, 2) of the centre of mass of all links, m. As in the paper, a link's own lies in its middle.
    """
    along = 0.5 * np.asarray(lengths_m)[:, None] * np.stack([np.cos(headings), np.sin(headings)], axis=-1)
    chained = _chained(along)
    return chained + (position - centre_of_mass(chained, masses))[:, None]


def link_velocities(lengths_m: Matrix, headings: Matrix, rates: Matrix, masses: Matrix, velocity: Matrix) -> Matrix:
    """Velocities of the links' middles (K, N, 2), m/s, likewise: equations (15) and (16), on the right."""
    across = 0.5 * np.asarray(lengths_m)[:, None] * np.stack([-np.sin(headings), np.cos(headings)], axis=-1)
    chained = _chained(across * np.asarray(rates)[..., None])
    return chained + (velocity - centre_of_mass(chained, masses))[:, None]


def first_by_headings(lengths_m: Matrix, headings: Matrix, masses: Matrix) -> Matrix:
    """(2, N) how the first link's middle moves about the centre of mass of all, by each heading (N,)."""
    across = 0.5 * np.asarray(lengths_m) * np.stack([-np.sin(headings), np.cos(headings)])
    share = masses / masses.sum()
    # Of half a link that is turned, the link itself sees once, and all links after it see twice.
    seen: Matrix = np.eye(len(share))[0] - share - 2.0 * (1.0 - np.cumsum(share))
    return across * seen


def centre_of_mass(links: Matrix, masses: Matrix) -> Matrix:
    """(K, 2) of links whose own centres are at (K, N, 2), with masses (N,) or (K, N): equation (13)."""
    share = np.broadcast_to(masses, links.shape[:-1])
    whole = share.sum(axis=-1, keepdims=True)
    # A state's origin has no masses: then all links count alike.
    share = np.where(whole > 0.0, share / np.where(whole > 0.0, whole, 1.0), 1.0 / links.shape[-2])
    mean: Matrix = np.einsum("kn,knc->kc", share, links)
    return mean


def outline(chain: ChainConfiguration, headings: Matrix, masses: Matrix, position: Matrix) -> Matrix:
    """Polyline (K, N + 1, 2) through the ends of the links; parameters as for `link_positions`."""
    middles = link_positions(chain.lengths, headings, masses, position)
    half = 0.5 * chain.lengths[:, None] * np.stack([np.cos(headings), np.sin(headings)], axis=-1)
    return np.concatenate([middles[:, :1] - half[:, :1], middles + half], axis=1)


def _chained(half: Matrix) -> Matrix:
    """(K, N, 2) middles of links whose halves are vectors (K, N, 2), from the free end of the first on."""
    ends = np.cumsum(2.0 * half, axis=-2)
    return ends - half


# Topics of a thruster chain: commands to its thrusters, an IMU on each link, true inertial parameters.

COMMAND = "thrusters/command"
TRUE_PARAMETERS = "inertial_parameters"


def command_channel(link_names: tuple[str, ...], limit_n: float | None = None) -> Channel:
    """Commanded thrusts, N, named after the links that the thrusters sit on; negative: reverse."""
    limits: tuple[Limit, ...] = ()
    if limit_n is not None:
        limits = (Limit("thrust", 0, len(link_names), limit_n, "N", "thruster.limit_n"),)
    return Channel(COMMAND, "sensor_msgs/msg/JointState", COMMAND, "effort", link_names, limits=limits, command=True)


def parameter_names(link_names: tuple[str, ...]) -> tuple[str, ...]:
    """Names of the 2N inertial parameters: masses, then inertias."""
    return tuple(f"{block}.{link}" for block in ("masses", "inertias") for link in link_names)


def true_parameters_channel(link_names: tuple[str, ...]) -> Channel:
    """Weighed masses (kg) and inertias about the links' centres of mass (kg m^2); they hold until the next message."""
    return Channel(
        f"ground_truth/{TRUE_PARAMETERS}",
        "sensor_msgs/msg/JointState",
        TRUE_PARAMETERS,
        "position",
        parameter_names(link_names),
        required=False,
    )


def channels(configuration: ThrusterChainConfiguration) -> tuple[Channel, ...]:
    """All that the estimators listen to."""
    names = configuration.chain.link_names
    ranges = imu_limits(
        gyro=(configuration.gyro.range_rad_s, "gyro.range_rad_s"),
        accelerometer=(configuration.accelerometer.range_m_s2, "accelerometer.range_m_s2"),
    )
    imus = (imu_channel(name, ranges) for name in names)
    return (command_channel(names, configuration.thruster.limit_n), *imus)
