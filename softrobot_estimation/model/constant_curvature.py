"""A soft segment that bends to an arc of a circle: constant curvature, with stretch; its shape, masses and stiffness.

Thin over `curvature_kernels`, where the equations are; how it moves under pressures, and what it puts on its base, has
`grey_box`. The paper's text holds no equations of this model; they follow Mehl et al. (ICRA 2024) in the choice of q,
and MODELS section 4. Left there on purpose: the mass may lie along the backbone as well as at the tip, for a segment of
rubber is as heavy as its plate; and loads are of the robot on its base, as a force-torque sensor reads them (the
papers' reaction of the base has the other sign).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.base.measurement import Matrix
from softrobot_estimation.model import curvature_kernels as kernels

Array = NDArray[np.float64]

_INVERSION_STEPS = 8


@dataclass(frozen=True)
class ConstantCurvatureSegment:
    """One segment; q = (bx, by, dL), rad and m, and its rates are a state (6,).

    Every method takes one state (6,) or a batch (K, 6), and gives one row or K; a batch is, to the last bit, what its
    states give alone. Frames: the base's origin is where the segment starts, its z runs along the straight segment.
    """

    length_m: float
    """Of the unloaded segment, L0."""
    tip_mass_kg: float
    """A point on the tangent at the segment's end, `tip_mass_offset_m` beyond it."""
    bending_stiffness_n_m_per_rad: float
    elongation_stiffness_n_m: float
    gravity_m_s2: tuple[float, float, float]
    """In the base's frame: (0, 0, 9.81) hanging, (0, 0, -9.81) upright."""
    damping: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Viscous, along bx, by (N m s/rad) and dL (N s/m)."""
    tip_mass_offset_m: float = 0.0
    backbone_mass_kg: float = 0.0
    """Spread evenly along the segment's length, and stretched with it."""
    backbone_points: int = 4
    """Gauss-Legendre points that stand for the spread mass: 4 give accelerations to 3e-5 up to 180 degrees."""

    @cached_property
    def arrays(self) -> tuple[Array, Array]:
        """The kernels' `segment` (7,) and `points` (n, 3)."""
        segment = np.array([self.length_m, *self.gravity_m_s2, *self.damping])
        points = [[1.0, self.tip_mass_offset_m, self.tip_mass_kg]] if self.tip_mass_kg > 0.0 else []
        if self.backbone_mass_kg > 0.0:
            places, weights = np.polynomial.legendre.leggauss(self.backbone_points)
            points += [
                [0.5 * (1.0 + x), 0.0, 0.5 * w * self.backbone_mass_kg] for x, w in zip(places, weights, strict=True)
            ]
        return segment, np.array(points)

    @property
    def stiffness(self) -> Array:
        """(3,) along q."""
        bending = self.bending_stiffness_n_m_per_rad
        return np.array([bending, bending, self.elongation_stiffness_n_m])

    def position(self, states: ArrayLike, fraction: float = 1.0, offset_m: float = 0.0) -> Array:
        """(3,) or (K, 3): of the backbone at a fraction of its length, or `offset_m` beyond on the tangent; m."""
        return self._located(states, fraction, offset_m)[..., :3]

    def jacobian(self, states: ArrayLike, fraction: float = 1.0, offset_m: float = 0.0) -> tuple[Array, Array]:
        """J = dp/dq (3, 3) or (K, 3, 3) of that position, and Jdot qdot (3,) or (K, 3), m/s^2."""
        out = self._located(states, fraction, offset_m)
        return out[..., 3:12].reshape(*out.shape[:-1], 3, 3), out[..., 12:]

    def _located(self, states: ArrayLike, fraction: float, offset_m: float) -> Array:
        """(MOTION,) or (K, MOTION), see `curvature_kernels`."""
        array = np.asarray(states, dtype=np.float64)
        out = np.empty((*array.shape[:-1], kernels.MOTION))
        kernels.locate(self.arrays[0], fraction, offset_m, np.atleast_2d(array), np.atleast_2d(out))
        return out


def tip_quaternion_xyzw(states: ArrayLike) -> Array:
    """(4,) or (K, 4): from the tip's axes, which are the base's where the segment is straight, to the base's."""
    array = np.asarray(states, dtype=np.float64)
    out = np.empty((*array.shape[:-1], 4))
    kernels.rotations(np.atleast_2d(array), np.atleast_2d(out))
    return out


def with_damping_ratios(segment: ConstantCurvatureSegment, bending: float, axial: float) -> ConstantCurvatureSegment:
    """The segment with those shares of critical damping, by its stiffness, where it is straight."""
    straight, inertia = np.zeros(6), np.zeros(3)
    for fraction, offset_m, mass_kg in segment.arrays[1].tolist():
        inertia += mass_kg * (segment.jacobian(straight, fraction, offset_m)[0] ** 2).sum(axis=0)
    ratios = np.array([bending, bending, axial])
    x, y, elongation = (2.0 * ratios * np.sqrt(segment.stiffness * inertia)).tolist()
    return replace(segment, damping=(x, y, elongation))


def coordinates_of_tip(segment: ConstantCurvatureSegment, positions: Matrix, offset_m: float) -> Matrix:
    """q (K, 3) of the arcs that end `offset_m` before the places (K, 3), on the tangent there.

    Bent by less than 180 degrees. An arc from the origin, z at its start, is turned at its end by twice the angle of
    its chord. The offset is taken off along the tangent of the last round, which leaves a share offset / length of the
    error each time.
    """
    across = np.hypot(positions[:, 0], positions[:, 1])
    along, bending = positions[:, 2], np.zeros(len(positions))
    for _ in range(_INVERSION_STEPS):
        end_across, end_along = across - offset_m * np.sin(bending), along - offset_m * np.cos(bending)
        bending = 2.0 * np.arctan2(end_across, end_along)
    chord = np.hypot(across - offset_m * np.sin(bending), along - offset_m * np.cos(bending))
    length = chord / np.sinc(0.5 * bending / np.pi)  # chord = length sin(t / 2) / (t / 2)
    scale = np.divide(bending, across, out=np.zeros_like(across), where=across > 0.0)
    q: Matrix = np.column_stack([scale[:, None] * positions[:, :2], length - segment.length_m])
    return q
