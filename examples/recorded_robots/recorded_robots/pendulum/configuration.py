"""Parameters of a pendulum's estimator; the defaults are those of the triple one, see `docs/pendulums.md`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from onboard_estimation.base.configuration import parameter
from onboard_estimation.base.measurement import Matrix
from onboard_estimation.base.series import STANDARD_GRAVITY_M_S2

QUANTITIES = {
    "mass": "mass_kg",
    "centre_of_mass": "centre_of_mass_m",
    "inertia": "inertia_kg_m2",
    "viscous_friction": "viscous_friction_n_m_s",
    "dry_friction": "dry_friction_n_m",
    "gear_friction": "gear_friction",
}
"""What may be unknown of a link, in the order of the rows of `dynamics`, and its name among the links' parameters."""


def link_names(count: int) -> tuple[str, ...]:
    """Of so many links, as their bodies are called in the truth."""
    return tuple(f"link_{i + 1}" for i in range(count))


@dataclass(frozen=True)
class Links:
    """The links from the pivot on, as they are thought to be before the first measurement."""

    joint_names: tuple[str, ...] = parameter(("joint_1", "joint_2", "joint_3"), "of the joints, the pivot first")
    lengths_m: tuple[float, ...] = parameter(
        (0.1728, 0.2287, 0.3),
        "of each link from joint to joint; the last one's does not matter",
        unit="m",
        exclusive_minimum=0.0,
    )
    mass_kg: tuple[float, ...] = parameter((0.2, 0.2, 0.2), "of each link", unit="kg", exclusive_minimum=0.0)
    centre_of_mass_m: tuple[float, ...] = parameter(
        (0.16, 0.20294, 0.18371), "from the joint that each link hangs on", unit="m", exclusive_minimum=0.0
    )
    inertia_kg_m2: tuple[float, ...] = parameter(
        (2e-4, 2e-4, 2e-4), "of each link about its centre of mass", unit="kg m^2", exclusive_minimum=0.0
    )
    viscous_friction_n_m_s: tuple[float, ...] = parameter(
        (5e-4, 5e-4, 5e-4), "of each joint per rad/s", unit="N m s", exclusive_minimum=0.0
    )
    dry_friction_n_m: tuple[float, ...] = parameter((5e-4, 5e-4, 5e-4), "of each joint", unit="N m", minimum=0.0)
    gear_friction: tuple[float, ...] = parameter(
        (0.0, 0.0, 0.0), "share of each motor's torque that its gear loses", minimum=0.0, exclusive_maximum=1.0
    )


@dataclass(frozen=True)
class Unknown:
    """How far off each may be: standard deviation of its logarithm (0.1: some 10 %); 0: known, and held."""

    mass: tuple[float, ...] = parameter((0.5, 0.5, 0.5), "of each mass", minimum=0.0)
    centre_of_mass: tuple[float, ...] = parameter(
        (0.005, 0.005, 0.005), "of each distance to the centre of mass", minimum=0.0
    )
    inertia: tuple[float, ...] = parameter((0.7, 0.7, 0.7), "of each inertia", minimum=0.0)
    viscous_friction: tuple[float, ...] = parameter((1.0, 1.0, 1.0), "of each viscous friction", minimum=0.0)
    dry_friction: tuple[float, ...] = parameter((1.0, 1.0, 1.0), "of each dry friction", minimum=0.0)
    gear_friction: tuple[float, ...] = parameter((0.0, 0.0, 0.0), "of each gear's share", minimum=0.0)


@dataclass(frozen=True)
class Noise:
    """How far angles and model are trusted."""

    angle_stddev_rad: tuple[float, ...] = parameter(
        (1e-4, 1e-4, 1e-4),
        "noise of each measured joint angle, with what lasts for several samples",
        unit="rad",
        exclusive_minimum=0.0,
    )
    rate_walk_rad_s_sqrt_s: tuple[float, ...] = parameter(
        (0.07, 0.12, 0.07),
        "random walk of each joint's rate: torques that the model leaves out",
        unit="rad/s/sqrt(s)",
        minimum=0.0,
    )
    parameter_walk_sqrt_s: float = parameter(
        3e-3,
        "random walk of the logarithms of what is unknown: keeps them from being too sure",
        unit="1/sqrt(s)",
        minimum=0.0,
    )


@dataclass(frozen=True)
class Pendulum:
    """Links that hang one from the other on a pivot; angles of the joints are measured, torques of motors known."""

    links: Links = field(default_factory=Links)
    unknown: Unknown = field(default_factory=Unknown)
    noise: Noise = field(default_factory=Noise)
    gravity_m_s2: float = parameter(STANDARD_GRAVITY_M_S2, "downwards", unit="m/s^2", minimum=0.0)
    smooth_rate_rad_s: float = parameter(
        0.05, "rate within which dry friction turns round", unit="rad/s", exclusive_minimum=0.0
    )
    initial_rate_stddev_rad_s: float = parameter(
        5.0, "of each joint's rate, at the start and after a gap", unit="rad/s", exclusive_minimum=0.0
    )
    longest_gap_s: float = parameter(
        0.1,
        "after a longer gap the motion starts anew, with what is known of the links",
        unit="s",
        exclusive_minimum=0.0,
    )
    longest_step_s: float = parameter(0.005, "longest integration step", unit="s", exclusive_minimum=0.0)
    gate_probability: float = parameter(
        0.9999, "share of good angles that pass the gate", exclusive_minimum=0.0, exclusive_maximum=1.0
    )
    start_anew_after: int = parameter(
        20, "refused angles in a row after which the motion starts anew, as after a gap", minimum=1
    )
    truth_window_s: float = parameter(
        0.011, "the true rates are slopes of the recorded angles over so long", unit="s", exclusive_minimum=0.0
    )
    truth_rate_stddev_rad_s: tuple[float, ...] = parameter(
        (0.002, 0.003, 0.003), "noise of such a slope, for each joint", unit="rad/s", minimum=0.0
    )
    lag_s: float = parameter(
        0.05, "how late a measurement may arrive and still be filtered in order", unit="s", minimum=0.0
    )

    def faults(self) -> Iterator[str]:
        """Rules across parameters."""
        count = len(self.links.joint_names)
        given = {"truth_rate_stddev_rad_s": self.truth_rate_stddev_rad_s}
        for section in ("links", "unknown", "noise"):
            given |= {f"{section}.{name}": value for name, value in vars(getattr(self, section)).items()}
        for name, value in given.items():
            if isinstance(value, tuple) and len(value) != count:
                yield f"{name}: {len(value)} numbers for {count} joints"
        for name, parameter_name in QUANTITIES.items():
            values, deviations = getattr(self.links, parameter_name), getattr(self.unknown, name)
            for joint, value, deviation in zip(self.links.joint_names, values, deviations, strict=False):
                if deviation > 0.0 and value == 0.0:
                    yield f"links.{parameter_name}: 0 at {joint} has no logarithm; hold it, with unknown.{name} 0"

    def parameters(self) -> Matrix:
        """(6, N) as `dynamics` takes them."""
        return np.array([getattr(self.links, name) for name in QUANTITIES.values()])

    def deviations(self) -> Matrix:
        """(6, N) standard deviations of their logarithms."""
        return np.array([getattr(self.unknown, name) for name in QUANTITIES])
