"""A clamped beam with a load at its end, at rest under gravity and vibrating about that rest, by two models.

`rod`: a plane rod of many elements that turn (bending, elastica) and shear, with any sag: the reference.
`arc`: one segment of constant curvature, `constant_curvature.py`, of the same stiffness per length.

An arc is not how a cantilever bends: its curvature has to fall to zero at the free end. With the same modulus E the arc
sags a third less under its own weight and a quarter less under a load at its end (1/12 for 1/8, and 1/4 for 1/3, of
load * length^3 / (E I)). Fitted to a sag it makes up for that with a modulus too small.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.optimize import least_squares, root

from benchmarks.softrobot.soft_arm_study.ring_down import Measured
from onboard_estimation.errors import UserError
from softrobot_estimation.constant_curvature import ConstantCurvatureSegment
from softrobot_estimation.integration_limits import linearised

Array = NDArray[np.float64]

GRAVITY_M_S2 = 9.81
SHEAR_CORRECTION = 5.0 / 6.0
"""Of a rectangular cross-section."""
_NEWTON_STEPS = 60
_START_PA, _BOUNDS_PA = 3e5, (5e4, 5e6)  # rubbers


@dataclass(frozen=True)
class Beam:
    """A straight beam of square cross-section, clamped at one end with its axis horizontal.

    Rubber keeps its volume: the shear modulus is a third of Young's modulus.
    """

    length_m: float
    side_m: float
    density_kg_m3: float
    load_height_m: float = 0.0
    """Of where the load hangs at the beam's end, above the middle of the cross-section."""
    shears: bool = True
    """False: the beam only bends, as in Euler's elastica; for comparison."""

    @property
    def area_m2(self) -> float:
        """Of the cross-section."""
        return self.side_m**2

    @property
    def second_moment_m4(self) -> float:
        """Of the cross-section."""
        return self.side_m**4 / 12.0


@dataclass(frozen=True)
class BeamMotion:
    """Rest and lowest mode."""

    sag_m: float
    turn_rad: float
    """Of the end's cross-section."""
    frequency_hz: float


BeamModel = Callable[[Beam, float, float], BeamMotion]
"""Of a beam, Young's modulus in Pa, and the load in kg."""


def rod(beam: Beam, youngs_modulus_pa: float, load_kg: float, elements: int = 40) -> BeamMotion:
    """Elements of equal length h, each turned by phi_i (down is positive) and sheared by gamma_i.

    The end of an element is h (cos phi - gamma sin phi, sin phi + gamma cos phi) from its start. Neighbours are joined
    by springs E I / h, the clamp is half an element away. Weight acts in the middles; the load is a point.

    Raises
    ------
    UserError
        Newton's method finds no rest: the beam is far too soft for its load.
    """
    n, h = elements, beam.length_m / elements
    bending = youngs_modulus_pa * beam.second_moment_m4 / h
    # A thousand times too stiff is as good as rigid, and still well conditioned.
    rigidity = (1.0 if beam.shears else 1e3) * SHEAR_CORRECTION * youngs_modulus_pa / 3.0 * beam.area_m2 * h
    springs = bending * (2.0 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1))
    springs[0, 0], springs[-1, -1] = 3.0 * bending, bending
    mass = beam.density_kg_m3 * beam.area_m2 * h
    # What hangs on the end of each element: those beyond it, half of itself, the load.
    weights = GRAVITY_M_S2 * h * (mass * (n - np.arange(n) - 0.5) + load_kg)
    lifted = GRAVITY_M_S2 * load_kg * beam.load_height_m
    phi, gamma = np.zeros(n), np.zeros(n)
    for _ in range(_NEWTON_STEPS):
        sines, cosines = np.sin(phi), np.cos(phi)
        by_turn = springs @ phi - weights * (cosines - gamma * sines)
        by_turn[-1] -= lifted * sines[-1]
        by_shear = rigidity * gamma - weights * cosines
        turned = springs + np.diag(weights * (sines + gamma * cosines))
        turned[-1, -1] -= lifted * cosines[-1]
        stiffness = np.block([[turned, np.diag(weights * sines)], [np.diag(weights * sines), rigidity * np.eye(n)]])
        change = np.linalg.solve(stiffness, -np.concatenate([by_turn, by_shear]))
        phi, gamma = phi + change[:n], gamma + change[n:]
        if np.abs(change).max() < 1e-11:
            break
    else:
        raise UserError(f"a beam of {youngs_modulus_pa:.3g} Pa finds no rest under {load_kg:g} kg; it is too soft")
    sines, cosines = np.sin(phi), np.cos(phi)
    forward = np.concatenate([-sines - gamma * cosines, -sines])
    downward = np.concatenate([cosines - gamma * sines, cosines])
    reach = h * np.hstack([np.tril(np.ones((n, n)), -1) + 0.5 * np.eye(n)] * 2)
    masses = mass * ((reach * forward).T @ (reach * forward) + (reach * downward).T @ (reach * downward))
    masses[:n, :n] += beam.density_kg_m3 * beam.second_moment_m4 * h * np.eye(n)
    end_forward, end_downward = h * forward, h * downward
    end_forward[n - 1] += beam.load_height_m * cosines[-1]
    end_downward[n - 1] += beam.load_height_m * sines[-1]
    masses += load_kg * (np.outer(end_forward, end_forward) + np.outer(end_downward, end_downward))
    squared = float(eigh(stiffness, masses, eigvals_only=True, subset_by_index=(0, 0))[0])
    return BeamMotion(
        sag_m=float(h * (sines + gamma * cosines).sum()),
        turn_rad=float(1.5 * phi[-1] - 0.5 * phi[-2]),
        frequency_hz=float(np.sqrt(max(squared, 0.0)) / (2.0 * np.pi)),
    )


def arc(beam: Beam, youngs_modulus_pa: float, load_kg: float) -> BeamMotion:
    """One segment of constant curvature; the load is in the middle of its end, and there is no shear.

    Raises
    ------
    UserError
        No rest is found.
    """
    segment = ConstantCurvatureSegment(
        length_m=beam.length_m,
        bending_radius_m=beam.length_m,
        tip_mass_kg=load_kg,
        backbone_mass_kg=beam.density_kg_m3 * beam.area_m2 * beam.length_m,
        damping_n_s_m=(0.0, 0.0, 0.0),
        bending_stiffness_n_m=youngs_modulus_pa * beam.second_moment_m4 / beam.length_m**3,
        elongation_stiffness_n_m=youngs_modulus_pa * beam.area_m2 / beam.length_m,
        gravity_m_s2=(GRAVITY_M_S2, 0.0, 0.0),
    )

    def state(values: Array) -> Array:
        return np.array([values[0], 0.0, values[1], 0.0, 0.0, 0.0]) * beam.length_m

    rest = root(lambda values: segment.acceleration(state(values))[[0, 2]], [0.1, 0.0], tol=1e-12)
    if not rest.success:
        raise UserError(f"an arc of {youngs_modulus_pa:.3g} Pa finds no rest under {load_kg:g} kg; it is too soft")
    at = state(rest.x)
    rates = np.linalg.eigvals(linearised(segment, at[:3])[np.ix_([3, 5], [0, 2])])
    return BeamMotion(
        sag_m=float(segment.position(at)[0]),
        turn_rad=float(at[0] / beam.length_m),
        frequency_hz=float(np.sqrt(max(-rates.real.max(), 0.0)) / (2.0 * np.pi)),
    )


def fit_modulus(model: BeamModel, beam: Beam, measured: Mapping[float, Measured], figure: str) -> Measured:
    """Young's modulus (Pa) whose beam has a figure of BeamMotion as measured at each load (kg).

    The uncertainty is one standard deviation by those of the figures, and larger where these do not fit together.
    """

    def misfits(logs: Array) -> Array:
        motions = [model(beam, float(np.exp(logs[0])), load_kg) for load_kg in measured]
        rows = zip(motions, measured.values(), strict=True)
        return np.array([(getattr(motion, figure) - one.value) / one.uncertainty for motion, one in rows])

    found = least_squares(
        misfits, np.log([_START_PA]), bounds=(np.log(_BOUNDS_PA[0]), np.log(_BOUNDS_PA[1])), diff_step=1e-5
    )
    spread = max(1.0, 2.0 * float(found.cost) / max(1, len(measured) - 1))
    modulus = float(np.exp(found.x[0]))
    return Measured(modulus, modulus * float(np.sqrt(spread / np.sum(found.jac**2))))
