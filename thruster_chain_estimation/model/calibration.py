"""What is known of one robot beyond its design: scales and places of its IMUs, masses, thrusters, drag.

A file of plain numbers without pickle, see `onboard_estimation.learning.model_file`.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from onboard_estimation.base.errors import UserError
from onboard_estimation.filtering.moments import Moments
from onboard_estimation.learning import model_file
from onboard_estimation.learning.model_file import ModelHeader, TrainingConditions
from thruster_chain_estimation.model import inertial_layout, parameter_layout
from thruster_chain_estimation.model.configuration import PER_LINK, ThrusterChainConfiguration

KIND = "thruster_chain_calibration"
ROBOT = "thruster_chain"


class Calibration(NamedTuple):
    """What is known of what lasts from one switch-on to the next.

    Attributes
    ----------
    imus, parameters
        In the orders of `inertial_layout.lasting` and `parameter_layout.lasting`.
    """

    imus: Moments
    parameters: Moments

    def save(
        self,
        path: Path,
        configuration: ThrusterChainConfiguration,
        runs: tuple[str, ...],
        hashes: tuple[str, ...],
        duration_s: float,
    ) -> None:
        """Write the file; UserError where it cannot be written."""
        conditions = TrainingConditions(100.0, duration_s, round(100.0 * duration_s), runs, (), hashes, (), ())
        sensors = tuple(f"imu/{name}" for name in configuration.chain.link_names)
        header = ModelHeader(KIND, ROBOT, sensors, design_hash(configuration), (), (), (), (), conditions)
        arrays = {
            f"{name}_{part}": values for name, one in self._asdict().items() for part, values in one._asdict().items()
        }
        model_file.save(path, header, arrays)

    @classmethod
    def load(cls, path: Path, configuration: ThrusterChainConfiguration) -> Calibration:
        """From a file.

        Raises
        ------
        UserError
            Not a calibration, or one of a robot of another design.
        """
        where, chain = f"model {path}", configuration.chain
        header, arrays = model_file.load(path, KIND)
        sensors = tuple(f"imu/{name}" for name in chain.link_names)
        header.require(ROBOT, sensors, design_hash(configuration), where)
        priors = {
            "imus": inertial_layout.prior_stddev(configuration)[inertial_layout.lasting(chain.count)],
            "parameters": parameter_layout.prior(configuration)[1][parameter_layout.lasting(chain.count)],
        }
        beliefs = []
        for name, stddev in priors.items():
            shapes = {f"{name}_mean": "n", f"{name}_covariance": "n n"}
            mean, covariance = model_file.fitting(arrays, shapes, where, n=len(stddev)).values()
            if not mean.any():
                raise UserError(f"{where}: all {len(mean)} numbers of {name}_mean are zero; train it anew")
            model_file.refuse_no_covariance(covariance, f"{where}: {name}_covariance")
            # Nothing is in no doubt but what was not in doubt before.
            if certain := int(np.sum(covariance.diagonal()[stddev > 0.0] <= 0.0)):
                raise UserError(f"{where}: {certain} of {len(mean)} variances of {name} are zero; train it anew")
            beliefs.append(Moments(mean, covariance))
        return cls(*beliefs)


def design_hash(configuration: ThrusterChainConfiguration) -> str:
    """SHA-256 of the design that a calibration is an error against."""
    chain = configuration.chain
    design = np.array([getattr(chain, name) for name in PER_LINK], dtype="<f8")
    return hashlib.sha256(design.tobytes()).hexdigest()
