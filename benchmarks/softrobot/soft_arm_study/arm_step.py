"""A step of pressure on a soft arm: what its tip did, and how far an arc of a circle must bend for that.

The bending is taken from where the tip's markers are, not from how their plate is turned: the plate sits on something
soft (see docs/softrobot_recordings.md), and position is what is to be predicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar

from benchmarks.softrobot.soft_arm_study.marked_bodies import read_tip_motion
from onboard_estimation.errors import UserError
from softrobot_estimation.constant_curvature import ConstantCurvatureSegment

Array = NDArray[np.float64]

READ_AT_S, HALF_WINDOW_S = 2.0, 0.25
"""Age at which a plateau is read, and half of how long it is averaged: all recordings reach it, and ring no more."""
VENTED_SHARE = 0.9
"""Of the farthest: where the tip was last beyond it, the valve opens."""
_VENTING_S = 0.05  # the last frames before, which may be of the return
_GAUSS_NEWTON_STEPS = 12


@dataclass(frozen=True, eq=False)
class PressureStep:
    """From the first motion until the arm is vented.

    Attributes
    ----------
    pressure_mbar
        What the valve was set to; nobody measured what the arm got.
    times_s
        (K,) since the tip began to move.
    displacements_m
        (K, 2) of the tip's markers: across the arm in the direction of bending, and along it away from the base.
    deflections_m
        (K,) length of the whole displacement, what goes sideways out of that plane included.
    length_m
        From the base's to the tip's markers, along the arm at rest.
    """

    pressure_mbar: float
    times_s: Array
    displacements_m: Array
    deflections_m: Array
    length_m: float

    @property
    def end_s(self) -> float:
        """Age at venting."""
        return float(self.times_s[-1])

    def plateau(self, age_s: float = READ_AT_S) -> tuple[Array, float]:
        """Mean displacement (2,) and deflection about that age, m."""
        chosen = np.abs(self.times_s - age_s) <= HALF_WINDOW_S
        if age_s - HALF_WINDOW_S < 0.0 or age_s > self.end_s or not chosen.any():
            raise UserError(
                f"at {self.pressure_mbar:g} mbar there is no plateau {age_s:g} s after the step: "
                f"the arm is vented after {self.end_s:.2f} s"
            )
        return self.displacements_m[chosen].mean(axis=0), float(self.deflections_m[chosen].mean())


def read_pressure_step(path: Path) -> PressureStep:
    """A recording of an arm (.c3d) whose name says the pressure.

    Raises
    ------
    UserError
        The name says no pressure, or `read_tip_motion` finds no motion.
    """
    motion = read_tip_motion(path)
    if motion.nominal_pressure_mbar is None:
        raise UserError(f"{path} says no pressure; name it as in 300mbar_V3.c3d")
    markers = motion.base_markers_m
    axis = np.linalg.svd(markers - markers.mean(axis=0))[2][2]  # across the base's plate
    length_m = float(axis @ motion.resting_offset_m)
    axis, length_m = (axis, length_m) if length_m > 0.0 else (-axis, -length_m)
    vented_s = motion.times_s[np.flatnonzero(motion.deflections_m > VENTED_SHARE * motion.deflections_m.max())[-1]]
    chosen = motion.between(0.0, vented_s - _VENTING_S)
    moved = motion.displacements_m[chosen]
    along = moved @ axis
    sideways = moved - np.outer(along, axis)
    direction = sideways.sum(axis=0) / np.linalg.norm(sideways.sum(axis=0))
    return PressureStep(
        pressure_mbar=float(motion.nominal_pressure_mbar),
        times_s=motion.times_s[chosen],
        displacements_m=np.column_stack([sideways @ direction, along]),
        deflections_m=motion.deflections_m[chosen],
        length_m=length_m,
    )


@dataclass(frozen=True)
class MarkedArc:
    """An arc of a circle with markers at its end, which do not sit on the backbone."""

    length_m: float
    offset_m: float
    """Of the markers' middle from the backbone's end, towards the side to which the arm bends."""

    @cached_property
    def segment(self) -> ConstantCurvatureSegment:
        """The arc. Only its shape is used: masses and stiffness are none of the arm's."""
        return ConstantCurvatureSegment(
            length_m=self.length_m,
            bending_radius_m=self.length_m,
            tip_mass_kg=1.0,
            damping_n_s_m=(0.0, 0.0, 0.0),
            bending_stiffness_n_m=0.0,
            elongation_stiffness_n_m=0.0,
            gravity_m_s2=(0.0, 0.0, 0.0),
        )

    def displacement(self, bending_rad: ArrayLike) -> Array:
        """(K, 2) of the markers, across and along, for bendings (K,)."""
        angles = np.atleast_1d(np.asarray(bending_rad, dtype=np.float64))
        states = np.zeros((len(angles), 6))
        states[:, 0] = angles * self.segment.bending_radius_m
        ends = self.segment.position(states)[:, [0, 2]] - [0.0, self.length_m]
        return np.asarray(ends + self.offset_m * np.column_stack([np.cos(angles) - 1.0, -np.sin(angles)]))

    def deflection(self, bending_rad: ArrayLike) -> Array:
        """(K,) how far the markers are from where they are at rest."""
        return np.asarray(np.linalg.norm(self.displacement(bending_rad), axis=1))

    def bending(self, displacements_m: ArrayLike) -> Array:
        """(K,) whose markers come nearest to displacements (K, 2)."""
        wanted = np.atleast_2d(np.asarray(displacements_m, dtype=np.float64))
        angles = 2.0 * wanted[:, 0] / self.length_m
        for _ in range(_GAUSS_NEWTON_STEPS):
            slopes = (self.displacement(angles + 1e-6) - self.displacement(angles - 1e-6)) / 2e-6
            missing = wanted - self.displacement(angles)
            angles = angles + (slopes * missing).sum(axis=1) / (slopes**2).sum(axis=1)
        return angles


def fit_arc(steps: Sequence[PressureStep], age_s: float = READ_AT_S) -> MarkedArc:
    """The arc as long as the markers are apart, with the offset that the plateaus of these steps fit best."""
    plateaus = np.array([step.plateau(age_s)[0] for step in steps])
    length_m = float(np.mean([step.length_m for step in steps]))

    def misfit_m2(offset_m: float) -> float:
        arc = MarkedArc(length_m, offset_m)
        return float(np.sum((arc.displacement(arc.bending(plateaus)) - plateaus) ** 2))

    found = minimize_scalar(misfit_m2, bounds=(-0.5 * length_m, 0.5 * length_m), method="bounded")
    return MarkedArc(length_m, float(found.x))
