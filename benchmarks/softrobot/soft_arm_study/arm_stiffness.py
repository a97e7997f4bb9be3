"""Stiffness of a soft arm against its bending, from few steps of pressure, and where other pressures bend it to.

    gain * pressure = stiffness(bending) * bending,    gain / stiffness(bending) = compliance + softening * bending

Chambers, masses and forces of the arm are not known, so that only stiffness over gain can be told, in mbar/rad. Weight
that always acts in one direction is in it, too: at rest, in one attitude, nothing sets it apart from stiffness.

The law has two numbers, both positive, and says how far it holds: beyond 1 / softening no bending bears the pressure.
As stiffness k and pressure p go it is the same as a constant stiffness and a chamber whose moment grows with bending,
k bending = p (gain + growth * bending).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import least_squares
from scipy.stats import t as student_t

from onboard_estimation.errors import UserError

Array = NDArray[np.float64]

PRIOR_SCATTER, PRIOR_READINGS = 0.02, 4
"""Standard deviation of log stiffness from run to run before anything is fitted, and how many readings that counts for.

An assumption: valves are set to a few percent, and the arm creeps by as much while its plateau is read.
"""
LARGEST_BENDING_RAD = np.pi
"""Up to which a bending is looked for: a half circle."""


@dataclass(frozen=True)
class BendingRange:
    """At one pressure: what the law says, and between what bounds it lies with the probability asked for."""

    expected_rad: float
    lower_rad: float
    upper_rad: float
    """At most LARGEST_BENDING_RAD: there it says that the law bounds it no more."""


@dataclass(frozen=True, eq=False)
class StiffnessLaw:
    """The two numbers, and how well they are known.

    Attributes
    ----------
    logarithms
        (2,) of compliance in rad/mbar and of softening in 1/mbar.
    covariance
        (2, 2) of these.
    scatter
        Standard deviation of log stiffness of one run, prior included.
    degrees_of_freedom
        Of Student's t for all that is said with `scatter`.
    """

    logarithms: Array
    covariance: Array
    scatter: float
    degrees_of_freedom: float

    @property
    def largest_pressure_mbar(self) -> float:
        """That the law can say anything of."""
        return float(np.exp(-self.logarithms[1]))

    def stiffness_mbar_rad(self, bending_rad: ArrayLike) -> Array:
        """Over gain, with the bending's shape."""
        compliance, softening = np.exp(self.logarithms)
        return np.asarray(1.0 / (compliance + softening * np.asarray(bending_rad, dtype=np.float64)))

    def log_stddev(self, bending_rad: ArrayLike) -> Array:
        """Standard deviation of the logarithm of `stiffness_mbar_rad` itself, without the scatter of a run."""
        gradient = _gradient(self.logarithms, np.asarray(bending_rad, dtype=np.float64))
        return np.asarray(np.sqrt(np.einsum("...i,ij,...j->...", gradient, self.covariance, gradient)))

    def bending_rad(self, pressure_mbar: ArrayLike) -> Array:
        """At rest, with the pressure's shape.

        Raises
        ------
        UserError
            A pressure is beyond what the law holds for.
        """
        pressure = np.asarray(pressure_mbar, dtype=np.float64)
        compliance, softening = np.exp(self.logarithms)
        if (pressure * softening >= 1.0).any():
            raise UserError(
                f"the stiffness found bears {self.largest_pressure_mbar:.0f} mbar at most, asked is "
                f"{pressure.max():.0f} mbar; fit it to recordings at higher pressures"
            )
        return np.asarray(compliance * pressure / (1.0 - softening * pressure))

    def range(self, pressure_mbar: float, probability: float = 0.9) -> BendingRange:
        """Of one run at that pressure.

        The bounds are the bendings whose own pressure, by the law, differs from that given by just as much as it is
        unsure there: no linearisation about the expected bending, which explodes where the arm hardly bears the
        pressure.
        """
        bendings = np.linspace(1e-5, LARGEST_BENDING_RAD, 20_000)
        factor = student_t.ppf(0.5 + 0.5 * probability, self.degrees_of_freedom)
        unsure = factor * np.hypot(self.log_stddev(bendings), self.scatter)
        missing = np.log(self.stiffness_mbar_rad(bendings) * bendings / pressure_mbar)
        inside = np.flatnonzero(np.abs(missing) <= unsure)
        if not len(inside):
            raise UserError(f"no bending up to {np.degrees(LARGEST_BENDING_RAD):.0f} deg fits {pressure_mbar:g} mbar")
        lower, upper = float(bendings[inside[0]]), float(bendings[inside[-1]])
        return BendingRange(float(self.bending_rad(pressure_mbar)), lower, upper)


def fit_stiffness(pressures_mbar: Sequence[float], bendings_rad: ArrayLike) -> StiffnessLaw:
    """The law that fits pairs of pressure and bending best, in log stiffness.

    An arm that stiffens as it bends is out of its reach: it gets a constant stiffness, and a scatter that shows it.

    Parameters
    ----------
    pressures_mbar, bendings_rad
        (n,) each, of two different pressures at least, all above zero.

    Raises
    ------
    UserError
        Too few, or not above zero.
    """
    pressures = np.array(pressures_mbar, dtype=np.float64)
    bendings = np.array(bendings_rad, dtype=np.float64)
    if len(np.unique(pressures)) < 2 or pressures.shape != bendings.shape:
        raise UserError(f"{len(pressures)} pressures and {len(bendings)} bendings; two different pairs are needed")
    if not (pressures > 0.0).all() or not (bendings > 0.0).all():
        raise UserError(f"pressures {pressures} mbar bend by {bendings} rad; all must be above zero")
    measured = np.log(pressures / bendings)
    start = np.array([-measured.max(), np.log(0.5 / pressures.max())])
    found = least_squares(
        lambda logs: measured + np.log(np.exp(logs[0]) + np.exp(logs[1]) * bendings),
        start,
        jac=lambda logs: -_gradient(logs, bendings),
        bounds=([-np.inf, np.log(1e-6 / pressures.max())], np.inf),
        x_scale=0.1,
    )
    freedom = len(pressures) - 2 + PRIOR_READINGS
    variance = (2.0 * found.cost + PRIOR_READINGS * PRIOR_SCATTER**2) / freedom
    gradient = _gradient(found.x, bendings)
    return StiffnessLaw(found.x, variance * np.linalg.pinv(gradient.T @ gradient), float(np.sqrt(variance)), freedom)


def _gradient(logarithms: Array, bendings_rad: Array) -> Array:
    """(..., 2) derivative of log stiffness with respect to both logarithms."""
    compliance, softening = np.exp(logarithms)
    whole = compliance + softening * bendings_rad
    return -np.stack(np.broadcast_arrays(compliance / whole, softening * bendings_rad / whole), axis=-1)
