"""A soft segment that bends to an arc of a circle: constant curvature, with stretch, pressures, gravity and base loads.

Thin over `curvature_kernels`, where the equations are. The paper's text holds no equations of this model; they follow
Mehl et al. (ICRA 2024) in the choice of q, and MODELS section 4. Left there on purpose: the mass may lie along the
backbone as well as at the tip, for a segment of rubber is as heavy as its plate; and loads are of the robot on its
base, as a force-torque sensor reads them (the papers' reaction of the base has the other sign).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.errors import UserError
from onboard_estimation.measurement import Matrix
from softrobot_estimation import curvature_kernels as kernels
from softrobot_estimation.configuration import SoftRobotConfiguration

Array = NDArray[np.float64]

_INVERSION_STEPS = 8


_INVERSION_STEPS = 8


@dataclass(frozen=True)
class ConstantCurvatureSegment:
    """Parameters of one segment and its motion; q = (dx, dy, dL) and rates in m and m/s are a state (6,).

    Every method takes one state (6,) or a batch (K, 6), and gives one row or K; a batch is, to the last bit, what its
    states give alone. `pressures_pa` is (C,) or (K, C), `stiffness_n_m` (3,) or (K, 3), see `stiffness`. Frames: the
    base's origin is where the segment starts, its z runs along the straight segment.
    """

    length_m: float
    """Of the unloaded segment, L0."""
    bending_radius_m: float
    """d: dx / d is the bending angle. It only scales dx and dy, and what goes with them."""
    tip_mass_kg: float
    """A point on the tangent at the segment's end, `tip_mass_offset_m` beyond it."""
    damping_n_s_m: tuple[float, float, float]
    """Viscous, along dx, dy, dL."""
    bending_stiffness_n_m: float
    """Along dx and dy, used where no other is given: a stiffness in N m/rad is d^2 of it."""
    elongation_stiffness_n_m: float
    """Along dL, likewise."""
    gravity_m_s2: tuple[float, float, float]
    """In the base's frame: (0, 0, 9.81) hanging, (0, 0, -9.81) upright."""
    chamber_angles_rad: tuple[float, ...] = ()
    """From the base's x towards y. A chamber under pressure bends the segment away from itself, and stretches it."""
    chamber_centre_radius_m: float = 0.0
    chamber_areas_m2: tuple[float, ...] = ()
    tip_mass_offset_m: float = 0.0
    backbone_mass_kg: float = 0.0
    """Spread evenly along the segment's length, and stretched with it."""
    backbone_points: int = 4
    """Gauss-Legendre points that stand for the spread mass: 4 give accelerations to 3e-5 up to 180 degrees."""

    @cached_property
    def arrays(self) -> tuple[Array, Array]:
        """The kernels' `segment` (8,) and `points` (n, 3)."""
        segment = np.array([self.length_m, self.bending_radius_m, *self.gravity_m_s2, *self.damping_n_s_m])
        points = [[1.0, self.tip_mass_offset_m, self.tip_mass_kg]] if self.tip_mass_kg > 0.0 else []
        if self.backbone_mass_kg > 0.0:
            places, weights = np.polynomial.legendre.leggauss(self.backbone_points)
            points += [
                [0.5 * (1.0 + x), 0.0, 0.5 * w * self.backbone_mass_kg] for x, w in zip(places, weights, strict=True)
            ]
        return segment, np.array(points)

    @cached_property
    def pressure_forces_m2(self) -> Array:
        """(3, C): generalised forces of unit pressures, each area times the change of its chamber's length with q.

        A chamber at angle a is L0 + dL - (dx cos a + dy sin a) r / d long, exactly, on an arc of a circle.
        """
        angles, arm = np.array(self.chamber_angles_rad), self.chamber_centre_radius_m / self.bending_radius_m
        lengths = np.vstack([-arm * np.cos(angles), -arm * np.sin(angles), np.ones_like(angles)])
        return np.asarray(lengths * np.array(self.chamber_areas_m2))

    def actuation(self, pressures_pa: ArrayLike) -> Array:
        """Generalised forces of gauge pressures: (C,) to (3,), (K, C) to (K, 3), N."""
        pressures = np.asarray(pressures_pa, dtype=np.float64)
        if pressures.shape[-1:] != (len(self.chamber_angles_rad),):
            raise UserError(
                f"pressures of shape {pressures.shape} for {len(self.chamber_angles_rad)} chambers; "
                "the last axis must have one for each"
            )
        # Not a matrix product: that sums in an order of its own for each size of batch.
        return np.asarray((pressures[..., None, :] * self.pressure_forces_m2).sum(axis=-1))

    def stiffness(self, bending_n_m: ArrayLike | None = None, elongation_n_m: ArrayLike | None = None) -> Array:
        """Rows (k, k, k_L) of scalars or of one for each particle (K,); the segment's own where none is given."""
        bending = np.asarray(self.bending_stiffness_n_m if bending_n_m is None else bending_n_m, dtype=np.float64)
        elongation = self.elongation_stiffness_n_m if elongation_n_m is None else elongation_n_m
        return np.stack(np.broadcast_arrays(bending, bending, np.asarray(elongation, dtype=np.float64)), axis=-1)

    def position(self, states: ArrayLike, fraction: float = 1.0, offset_m: float = 0.0) -> Array:
        """(3,) or (K, 3): of the backbone at a fraction of its length, or `offset_m` beyond on the tangent; m."""
        batch, one = _rows(states, 6, "states")
        out = np.empty((len(batch), kernels.MOTION))
        kernels.locate(self.arrays[0], fraction, offset_m, batch, out)
        return out[0, :3] if one else out[:, :3]

    def jacobian(self, states: ArrayLike, fraction: float = 1.0, offset_m: float = 0.0) -> tuple[Array, Array]:
        """J = dp/dq (3, 3) or (K, 3, 3) of that position, and Jdot qdot (3,) or (K, 3), m/s^2."""
        batch, one = _rows(states, 6, "states")
        out = np.empty((len(batch), kernels.MOTION))
        kernels.locate(self.arrays[0], fraction, offset_m, batch, out)
        jacobians, convective = out[:, 3:12].reshape(-1, 3, 3), out[:, 12:]
        return (jacobians[0], convective[0]) if one else (jacobians, convective)

    def tip_quaternion_xyzw(self, states: ArrayLike) -> Array:
        """(4,) or (K, 4): from the tip's axes, which are the base's where the segment is straight, to the base's."""
        batch, one = _rows(states, 6, "states")
        out = np.empty((len(batch), 4))
        kernels.rotations(self.arrays[0], batch, out)
        return out[0] if one else out

    def acceleration(
        self, states: ArrayLike, pressures_pa: ArrayLike | None = None, stiffness_n_m: ArrayLike | None = None
    ) -> Array:
        """Second rates of q, (3,) or (K, 3), m/s^2; NaN outside the domain (a full circle, no length left)."""
        batch, one = _rows(states, 6, "states")
        out = np.empty((len(batch), 3))
        kernels.accelerations(*self.arrays, batch, *self._forces(len(batch), pressures_pa, stiffness_n_m), out)
        return out[0] if one else out

    def base_load(
        self,
        states: ArrayLike,
        pressures_pa: ArrayLike | None = None,
        stiffness_n_m: ArrayLike | None = None,
        *,
        origin_m: Sequence[float] = (0.0, 0.0, 0.0),
    ) -> Array:
        """What the segment puts on its base: force (N) and torque about `origin_m` (N m), in the base's frame.

        Parameters
        ----------
        states, pressures_pa, stiffness_n_m
            As for the class.
        origin_m
            A point in the base's frame.

        Returns
        -------
        (6,) or (K, 6). At rest it is the weight.
        """
        batch, one = _rows(states, 6, "states")
        out, origin = np.empty((len(batch), 6)), np.array(origin_m, dtype=np.float64)
        forces = self._forces(len(batch), pressures_pa, stiffness_n_m)
        kernels.base_loads(*self.arrays, origin, batch, *forces, out)
        return out[0] if one else out

    def step(
        self,
        states: ArrayLike,
        step_s: float,
        pressures_pa: ArrayLike | None = None,
        stiffness_n_m: ArrayLike | None = None,
        *,
        sub_steps: int = 1,
    ) -> Array:
        """States after `step_s`, in equal sub-steps of the classical Runge-Kutta rule, pressures and stiffness held.

        How many sub-steps a step needs says `integration_limits.sub_steps`.
        """
        batch, one = _rows(states, 6, "states")
        if sub_steps < 1:
            raise UserError(f"{sub_steps} sub-steps; a step needs one or more")
        moved = batch.copy()
        forces = self._forces(len(batch), pressures_pa, stiffness_n_m)
        kernels.step(*self.arrays, moved, *forces, step_s / sub_steps, sub_steps)
        return moved[0] if one else moved

    def _forces(
        self, count: int, pressures_pa: ArrayLike | None, stiffness_n_m: ArrayLike | None
    ) -> tuple[Array, Array]:
        """Actuation and stiffness for the kernels: one row, or one for each of `count` states."""
        actuation, _ = _rows(np.zeros(3) if pressures_pa is None else self.actuation(pressures_pa), 3, "actuation")
        stiffness, _ = _rows(self.stiffness() if stiffness_n_m is None else stiffness_n_m, 3, "stiffness_n_m")
        for name, rows in (("pressures_pa", actuation), ("stiffness_n_m", stiffness)):
            if len(rows) not in (1, count):
                raise UserError(f"{len(rows)} rows of {name} for {count} states; give one for all, or one for each")
        return actuation, stiffness


def _rows(values: ArrayLike, columns: int, name: str) -> tuple[Array, bool]:
    """As contiguous rows (K, columns), and whether it was a single one."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim not in (1, 2) or array.shape[-1] != columns:
        raise UserError(f"{name} of shape {array.shape}; it must be ({columns},) or (K, {columns})")
    return np.ascontiguousarray(np.atleast_2d(array)), array.ndim == 1


def nominal_segment(configuration: SoftRobotConfiguration) -> ConstantCurvatureSegment:
    """Constant-curvature model with the configuration's numbers; its `bending_radius_m` is the chambers' centre radius.

    Half of the plate's thickness beyond the soft part stands the plate's mass; the rest of the robot's is spread along
    it. Damping is that of the configured ratio, straight and without gravity.
    """
    known, chambers = configuration.segment, configuration.chambers
    radius_m = chambers.centre_radius_m
    gx, gy, gz = configuration.gravity_in_base_m_s2.tolist()
    undamped = ConstantCurvatureSegment(
        length_m=known.length_m,
        bending_radius_m=radius_m,
        tip_mass_kg=known.tip_plate_mass_kg,
        tip_mass_offset_m=0.5 * known.tip_plate_thickness_m,
        backbone_mass_kg=known.mass_kg - known.tip_plate_mass_kg,
        damping_n_s_m=(0.0, 0.0, 0.0),
        bending_stiffness_n_m=configuration.stiffness.bending_n_m_per_rad / radius_m**2,
        elongation_stiffness_n_m=configuration.stiffness.axial_n_per_m,
        gravity_m_s2=(gx, gy, gz),
        chamber_angles_rad=tuple(chambers.angles_rad.tolist()),
        chamber_centre_radius_m=chambers.centre_radius_m,
        chamber_areas_m2=(chambers.area_m2,) * chambers.count,
    )
    return with_damping_ratios(undamped, configuration.model.damping_ratio, configuration.model.damping_ratio)


def with_damping_ratios(segment: ConstantCurvatureSegment, bending: float, axial: float) -> ConstantCurvatureSegment:
    """The segment with those shares of critical damping, by its stiffness, where it is straight."""
    straight, inertia = np.zeros(6), np.zeros(3)
    for fraction, offset_m, mass_kg in segment.arrays[1].tolist():
        inertia += mass_kg * (segment.jacobian(straight, fraction, offset_m)[0] ** 2).sum(axis=0)
    ratios = np.array([bending, bending, axial])
    x, y, elongation = (2.0 * ratios * np.sqrt(segment.stiffness() * inertia)).tolist()
    return replace(segment, damping_n_s_m=(x, y, elongation))


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
    scale = segment.bending_radius_m * np.divide(bending, across, out=np.zeros_like(across), where=across > 0.0)
    q: Matrix = np.column_stack([scale[:, None] * positions[:, :2], length - segment.length_m])
    return q
