"""What `train` keeps of a soft robot: parameters of its filters, and its stiffness as particles have learned it.

One file without pickle (`onboard_estimation.learning.model_file`) for both filters. It holds the numbers of the robot
that it is of, for noise and stiffness are what its equations leave: with other equations they are others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

import numpy as np

from onboard_estimation.base.configuration import ConfigurationError, load, to_mapping
from onboard_estimation.base.errors import UserError, first_of
from onboard_estimation.base.measurement import Matrix
from onboard_estimation.learning import model_file
from onboard_estimation.learning.model_file import ModelHeader, TrainingConditions
from onboard_estimation.learning.reduced_rank import LearnedFunction
from softrobot_estimation.estimators.particle_estimator import stiffness_prior
from softrobot_estimation.model.configuration import SoftRobotConfiguration

KIND, ROBOT = "softrobot_filters", "softrobot"
FILTERS = ("ukf", "marginalized_pf")

_DESIGN = (
    *("segment.length_m", "segment.diameter_m", "segment.mass_kg"),
    *("segment.tip_plate_thickness_m", "segment.tip_plate_mass_kg"),
    *("chambers.angles_deg", "chambers.centre_radius_m", "chambers.area_m2"),
    *("stiffness.bending_n_m_per_rad", "stiffness.axial_n_per_m"),
    *("behaviour.bending_stiffening_per_rad2", "behaviour.pressure_stiffening_per_100_kpa", "behaviour.anisotropy"),
)
"""What makes a robot another one; the learned stiffness is a factor on what the law of `behaviour` says."""
_SHOWN_DIFFERENCES = 3
_INPUTS, _INPUT_UNITS = ("bending_x", "bending_y", "elongation"), ("rad", "rad", "m")
"""Of the stiffness."""


@dataclass(frozen=True, eq=False)
class FilterModel:
    """What was found.

    Attributes
    ----------
    tuned
        By filter, parameters by dotted name.
    stiffness
        N m/rad over bending (rad, rad) and elongation (m); None where only `ukf` was trained.
    """

    tuned: Mapping[str, Mapping[str, float]]
    stiffness: LearnedFunction | None

    def applied(self, configuration: SoftRobotConfiguration, estimator: str) -> SoftRobotConfiguration:
        """The configuration with what was tuned for a filter; as it is for the others."""
        if estimator not in FILTERS:
            return configuration
        if estimator not in self.tuned:
            raise UserError(
                f"model {configuration.learning.model}: trained for {', '.join(self.tuned)}, not for {estimator}; "
                f"train it with --form {estimator}, or without --form for both"
            )
        return load(SoftRobotConfiguration, to_mapping(configuration), self.tuned[estimator])

    def save(
        self,
        path: Path,
        configuration: SoftRobotConfiguration,
        runs: tuple[str, ...],
        hashes: tuple[str, ...],
        duration_s: float,
        reached: Matrix,
    ) -> None:
        """Write the file; UserError where it cannot be written. `reached` (K, 3): where the stiffness was learned."""
        design = _design(configuration)
        digest = hashlib.sha256(np.concatenate(list(design.values())).astype("<f8").tobytes()).hexdigest()
        lowest, highest = (), ()
        if self.stiffness is not None:
            lowest, highest = (tuple(ends.tolist()) for ends in (reached.min(axis=0), reached.max(axis=0)))
        rate_hz = configuration.wrench.rate_hz
        header = ModelHeader(
            kind=KIND,
            robot=ROBOT,
            sensors=("wrench", *(f"pressure/{name}" for name in configuration.chambers.names)),
            configuration_hash=digest,
            input_names=_INPUTS if self.stiffness else (),
            input_units=_INPUT_UNITS if self.stiffness else (),
            output_names=("stiffness",) if self.stiffness else (),
            output_units=("N m/rad",) if self.stiffness else (),
            training=TrainingConditions(
                rate_hz, duration_s, round(rate_hz * duration_s), runs, (), hashes, lowest, highest
            ),
        )
        arrays: model_file.Arrays = {f"design/{name}": value for name, value in design.items()}
        arrays |= {
            f"{estimator}/{name}": np.array([value])
            for estimator, tuned in self.tuned.items()
            for name, value in tuned.items()
        }
        model_file.save(path, header, arrays | (self.stiffness.arrays() if self.stiffness else {}))

    @classmethod
    def load(cls, path: Path, configuration: SoftRobotConfiguration) -> FilterModel:
        """From a file.

        Raises
        ------
        UserError
            Not such a file, damaged, of another robot, or with a stiffness of another prior than configured.
        """
        where = f"model {path}"
        header, arrays = model_file.load(path, KIND)
        _refuse_other_robot(_design(configuration), arrays, where)
        tuned: dict[str, dict[str, float]] = {}
        for key, value in arrays.items():
            estimator, _, name = key.partition("/")
            if estimator in FILTERS:
                if value.shape != (1,):
                    raise UserError(f"{where}: {value.size} numbers for {name}; train it anew")
                tuned.setdefault(estimator, {})[name] = float(value[0])
        if not tuned:
            raise UserError(f"{where}: no parameters of a filter; train it anew")
        stiffness = LearnedFunction.of_arrays(arrays, header, where) if "weights" in arrays else None
        model = cls(tuned, stiffness)
        if "marginalized_pf" in tuned:
            try:
                prior = stiffness_prior(model.applied(configuration, "marginalized_pf"))
            except ConfigurationError as error:
                raise UserError(f"{where}: a parameter that cannot be ({'; '.join(error.faults)})") from error
            if stiffness is None or stiffness.basis != prior.basis:
                raise UserError(
                    f"{where}: its stiffness was learned with other learning.functions, kernel, half_width_rad or "
                    "half_width_m; use those, or train it anew"
                )
        return model


def configured_model(configuration: SoftRobotConfiguration) -> FilterModel | None:
    """The model that a configuration names; None where it names none."""
    name = configuration.learning.model
    return FilterModel.load(Path(name), configuration) if name else None


def _design(configuration: SoftRobotConfiguration) -> dict[str, np.ndarray]:
    return {name: np.atleast_1d(np.asarray(attrgetter(name)(configuration), dtype=np.float64)) for name in _DESIGN}


def _refuse_other_robot(design: Mapping[str, np.ndarray], arrays: model_file.Arrays, where: str) -> None:
    """UserError with the numbers that are another robot's."""
    differences = []
    for name, mine in design.items():
        theirs = arrays.get(f"design/{name}", np.empty(0))
        if not np.array_equal(mine, theirs):
            both = (", ".join(f"{value:.6g}" for value in values) or "unknown" for values in (theirs, mine))
            differences.append("{} {}, here {}".format(name, *both))
    if differences:
        raise UserError(
            f"{where}: of another robot: {first_of(differences, _SHOWN_DIFFERENCES, '; ')}. Name the parameter file "
            "that it was trained with (--config), or train it anew"
        )
