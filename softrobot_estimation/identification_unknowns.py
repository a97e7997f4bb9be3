"""What `identify` looks for in a soft robot's recordings, and how far each may be from what a laboratory knows of it.

Every unknown has a normal prior about its configured value, those that cannot be negative in their logarithm. A fit
works in standard deviations of the priors, which makes all unknowns alike in size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from onboard_estimation.configuration import describe
from onboard_estimation.measurement import Vector
from softrobot_estimation.configuration import SoftRobotConfiguration

BENDING_STIFFNESS, AXIAL_STIFFNESS = "stiffness.bending_n_m_per_rad", "stiffness.axial_n_per_m"


@dataclass(frozen=True)
class _Prior:
    """Of a parameter.

    Attributes
    ----------
    stddev
        In the parameter's unit; of its logarithm where `logarithmic`.
    source
        Where that is known from.
    """

    name: str
    stddev: float
    logarithmic: bool
    source: str


def _priors(configuration: SoftRobotConfiguration) -> tuple[_Prior, ...]:
    share = "a share fades, of unknown size"
    return (
        _Prior(BENDING_STIFFNESS, 0.5, True, "one bench test at small deflection"),
        _Prior(AXIAL_STIFFNESS, 0.3, True, "one bench test"),
        _Prior("behaviour.bending_stiffening_per_rad2", 0.5, False, "silicone softens or stiffens when strained"),
        _Prior("behaviour.pressure_stiffening_per_100_kpa", 0.3, False, "inflated chambers are stiffer or thinner"),
        _Prior("behaviour.anisotropy", 0.05, False, "casting"),
        _Prior("behaviour.rest_bending_rad", 0.05, False, "casting, markers set up by hand"),
        _Prior("behaviour.rest_elongation_m", 0.001, False, "length to its last digit, markers set up by hand"),
        _Prior("behaviour.bending_damping_ratio", 0.5, True, "usual for silicone"),
        _Prior("behaviour.bending_damping_growth_per_rad2", 1.0, False, "unknown"),
        _Prior("behaviour.axial_damping_ratio", 0.5, True, "usual for silicone"),
        _Prior("behaviour.chamber_gains", 0.1, True, "nominal areas of cast chambers"),
        _Prior("behaviour.moment_gain", 0.08, True, "nominal places of cast chambers"),
        _Prior("behaviour.chambers_turned_deg", 1.7, False, "angles to a few degrees, markers set up by hand"),
        _Prior("behaviour.pressure_offsets_pa", configuration.pressure.offset_stddev_pa, False, "data sheet"),
        _Prior("behaviour.supply_lag_s", 1.0, True, "half a metre of hose"),
        _Prior("behaviour.relaxation_shares", 0.07, False, share),
        _Prior("behaviour.relaxation_times_s", 0.7, True, share),
        _Prior("behaviour.inertia_share", 0.1, False, "of a clamped beam, not quite the robot's shape"),
    )


@dataclass(frozen=True)
class Unknown:
    """One number.

    Attributes
    ----------
    name
        Dotted, of the parameter in the configuration.
    place
        Which of its numbers, where it has several.
    configured
        In its unit.
    stddev, logarithmic, source
        As the prior's.
    bounds
        Of what the fit works in: standard deviations from the configured value.
    """

    name: str
    place: int | None
    unit: str
    configured: float
    stddev: float
    logarithmic: bool
    source: str
    bounds: tuple[float, float]

    @property
    def label(self) -> str:
        """Without its section, with its number counted from one."""
        short = self.name.partition(".")[2]
        return short if self.place is None else f"{short}[{self.place + 1}]"

    def value(self, deviations: float) -> float:
        """In its unit, so many standard deviations from the configured value."""
        moved = self.stddev * deviations
        return self.configured * math.exp(moved) if self.logarithmic else self.configured + moved


def unknowns(configuration: SoftRobotConfiguration) -> tuple[Unknown, ...]:
    """All that there are, about the configured values."""
    described = {one.name: one for one in describe(SoftRobotConfiguration)}
    fast, slow = configuration.behaviour.relaxation_times_s
    between_s = math.sqrt(fast * slow)
    found = []
    for prior in _priors(configuration):
        if prior.stddev == 0.0:
            continue
        value = value_of(configuration, prior.name)
        several = isinstance(value, tuple)
        for place, configured in enumerate(value if several else (value,)):
            low, high = described[prior.name].minimum, described[prior.name].maximum
            if prior.name == "behaviour.relaxation_times_s":  # each keeps to its side, or they would change places
                low, high = (low, between_s) if place == 0 else (between_s, high)
            bounds = tuple(
                infinite if limit is None else _deviations(limit, configured, prior)
                for limit, infinite in ((low, -math.inf), (high, math.inf))
            )
            found.append(
                Unknown(
                    prior.name,
                    place if several else None,
                    described[prior.name].unit,
                    float(configured),
                    prior.stddev,
                    prior.logarithmic,
                    prior.source,
                    (bounds[0], bounds[1]),
                )
            )
    return tuple(found)


def _deviations(limit: float, configured: float, prior: _Prior) -> float:
    """From the configured value to a limit."""
    if prior.logarithmic:
        return math.log(limit / configured) / prior.stddev if limit > 0.0 else -math.inf
    return (limit - configured) / prior.stddev


def value_of(configuration: SoftRobotConfiguration, name: str) -> Any:
    """Of the parameter of that dotted name."""
    return reduce(getattr, name.split("."), configuration)


def with_values(
    configuration: SoftRobotConfiguration, wanted: Sequence[Unknown], deviations: Vector
) -> SoftRobotConfiguration:
    """The configuration with the unknowns (p,) standard deviations from where they were configured."""
    values: dict[str, Any] = {}
    for unknown, deviation in zip(wanted, np.asarray(deviations).tolist(), strict=True):
        value = unknown.value(deviation)
        if unknown.place is None:
            values[unknown.name] = value
        else:
            numbers = list(values.get(unknown.name, value_of(configuration, unknown.name)))
            numbers[unknown.place] = value
            values[unknown.name] = tuple(numbers)
    return with_parameters(configuration, values)


def with_parameters(configuration: SoftRobotConfiguration, values: Mapping[str, Any]) -> SoftRobotConfiguration:
    """The configuration with parameters by dotted names, one section deep."""
    sections: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        section, _, member = name.partition(".")
        sections.setdefault(section, {})[member] = value
    return replace(
        configuration,
        **{section: replace(getattr(configuration, section), **members) for section, members in sections.items()},
    )
