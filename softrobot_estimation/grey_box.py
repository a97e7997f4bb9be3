"""A soft robot as its configuration has it, for filters and identification: arrays for `grey_box_kernels`.

Bending is in rad here (`bending_radius_m` is 1), stiffness in bending in N m/rad.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onboard_estimation.measurement import Matrix, Vector
from softrobot_estimation import grey_box_kernels as kernels
from softrobot_estimation.configuration import SoftRobotConfiguration
from softrobot_estimation.constant_curvature import ConstantCurvatureSegment, with_damping_ratios
from softrobot_estimation.integration_limits import SAFETY, largest_stable_step_s, sub_steps

STEP_S = 0.008
"""Of the force-torque sensor; longer steps are divided."""

_NEWTON_STEPS, _NEWTON_DIFFERENCE, _NEWTON_SMALLEST = 12, 1e-5, 1e-13
_CORNER_BENDING_RAD = 1.5
_CORNER_ELONGATION = 0.2
_STIFFER = 1.5  # than the law has it, somewhere
_LEAST_TIP_KG = 1e-6  # the first point is the tip, where a payload hangs, also of a robot without a plate


class GreyBox:
    """Motion, loads and tip of batches of rows, see `grey_box_kernels`; pressures are gauge pressures (C,), Pa.

    Attributes
    ----------
    stiffness
        Of the configuration, N m/rad: where the law's factor is 1.
    gains
        (3, C) generalised forces (N m, N m, N) of unit pressures.
    offsets_pa
        (C,) what the transducers read at no pressure.
    """

    def __init__(self, configuration: SoftRobotConfiguration) -> None:
        known, behaviour, chambers = configuration.segment, configuration.behaviour, configuration.chambers
        self.stiffness = configuration.stiffness.bending_n_m_per_rad
        self.lag_s = behaviour.supply_lag_s
        self.beyond_m = known.tip_plate_thickness_m
        self._origin = np.array(configuration.wrench.origin_in_base_m)
        soft_kg = known.mass_kg - known.tip_plate_mass_kg
        axial = configuration.stiffness.axial_n_per_m
        gx, gy, gz = configuration.gravity_in_base_m_s2.tolist()
        segment = ConstantCurvatureSegment(
            length_m=known.length_m,
            bending_radius_m=1.0,
            tip_mass_kg=max(known.tip_plate_mass_kg + behaviour.inertia_share * soft_kg, _LEAST_TIP_KG),
            tip_mass_offset_m=0.5 * known.tip_plate_thickness_m,
            backbone_mass_kg=(1.0 - behaviour.inertia_share) * soft_kg,
            damping_n_s_m=(0.0, 0.0, 0.0),
            bending_stiffness_n_m=self.stiffness,
            elongation_stiffness_n_m=axial,
            gravity_m_s2=(gx, gy, gz),
        )
        self.segment = with_damping_ratios(segment, behaviour.bending_damping_ratio, behaviour.axial_damping_ratio)
        self._segment, self._points = self.segment.arrays
        loading = replace(
            self.segment,
            tip_mass_kg=max(known.tip_plate_mass_kg + behaviour.load_share * soft_kg, _LEAST_TIP_KG),
            backbone_mass_kg=(1.0 - behaviour.load_share) * soft_kg,
        )
        self._load_masses = np.ascontiguousarray(loading.arrays[1][:, 2])
        angles = chambers.angles_rad + np.radians(behaviour.chambers_turned_deg)
        areas = chambers.area_m2 * np.array(behaviour.chamber_gains)
        arm_m = chambers.centre_radius_m * behaviour.moment_gain
        self.gains = np.vstack([-arm_m * np.cos(angles), -arm_m * np.sin(angles), np.ones_like(angles)]) * areas
        self.offsets_pa = np.array(behaviour.pressure_offsets_pa)
        self.behaviour = np.array(
            [
                behaviour.bending_stiffening_per_rad2,
                behaviour.pressure_stiffening_per_100_kpa,
                behaviour.anisotropy,
                *behaviour.rest_bending_rad,
                behaviour.rest_elongation_m,
                behaviour.bending_damping_growth_per_rad2,
                *behaviour.relaxation_shares,
                *behaviour.relaxation_times_s,
                axial,
                self.stiffness,
                configuration.filter.moment_time_s,
            ]
        )
        bent, long = _CORNER_BENDING_RAD, _CORNER_ELONGATION * known.length_m
        corners = [[x, y, z] for x, y in ((0.0, 0.0), (bent, 0.0), (0.0, bent)) for z in (-0.5 * long, long)]
        squared, pressure = 2.0 * _CORNER_BENDING_RAD**2, 1e-5 * chambers.count * chambers.pressure_max_pa
        stiffening = max(kernels.law(self.behaviour, b, p) for b in (0.0, squared) for p in (0.0, pressure))
        shares = sum(behaviour.relaxation_shares)
        stiffest = self.segment.stiffness(
            _STIFFER * (stiffening * (1.0 + abs(behaviour.anisotropy)) + shares) * self.stiffness,
            _STIFFER * (1.0 + shares) * axial,
        )
        x, y, z = self.segment.damping_n_s_m
        grown = 1.0 + behaviour.bending_damping_growth_per_rad2 * squared
        most_damped = replace(self.segment, damping_n_s_m=(grown * x, grown * y, z))
        self._largest_step_s = largest_stable_step_s(most_damped, corners, stiffest)

    def resting_row(self) -> Vector:
        """(ROW,) hanging or standing still without pressure, as bent and as long as it is then.

        Found by Newton's rule from where it would be without weight: it is the rest next to that, be it stable or not.
        """
        row = np.zeros(kernels.ROW)
        row[:3] = self.behaviour[[kernels.REST_X, kernels.REST_Y, kernels.REST_ELONGATION]]
        away = _NEWTON_DIFFERENCE * np.eye(3)
        for _ in range(_NEWTON_STEPS):
            slope = np.array([self._unbalanced(row[:3] + one) - self._unbalanced(row[:3] - one) for one in away]).T
            change = np.linalg.solve(slope / (2.0 * _NEWTON_DIFFERENCE), self._unbalanced(row[:3]))
            row[:3] -= change
            if np.abs(change).max() < _NEWTON_SMALLEST:
                break
        row[kernels.RELAXED : kernels.MOMENTS] = np.tile(row[:3], 2)
        return row

    def _unbalanced(self, q: Vector) -> Vector:
        """(3,) generalised force that is left over at rest at q, without pressure and all relaxed."""
        behaviour, state = self.behaviour, np.concatenate([q, np.zeros(3)])
        rest = behaviour[[kernels.REST_X, kernels.REST_Y, kernels.REST_ELONGATION]]
        bending = self.stiffness * kernels.law(behaviour, float(q[0] ** 2 + q[1] ** 2), 0.0)
        more = behaviour[kernels.ANISOTROPY]
        holding = np.array([bending * (1.0 + more), bending * (1.0 - more), behaviour[kernels.AXIAL_STIFFNESS]])
        force = self.segment.stiffness() * rest - holding * q
        for fraction, offset, mass in self._points:
            force += mass * np.array(self.segment.gravity_m_s2) @ self.segment.jacobian(state, fraction, offset)[0]
        return np.asarray(force)

    def propagate(self, rows: Matrix, stiffness: Vector, mean_pa: Vector, step_s: float) -> Matrix:
        """Rows (K, n) after a step through chambers' mean pressures (C,), with stiffness (K,) N m/rad of each."""
        out = np.empty_like(rows)
        parts = sub_steps(step_s, self._largest_step_s)
        kernels.propagate(
            self.behaviour, self._segment, self._points, rows, stiffness, self.gains @ mean_pa, 1e-5 * mean_pa.sum(),
            step_s, parts, out,
        )  # fmt: skip
        return out

    def loads(self, rows: Matrix, stiffness: Vector, pressures_pa: Vector) -> Matrix:
        """(K, 6) what the rows put on the force-torque sensor, at its origin, in the base's frame; N, N m."""
        out = np.empty((len(rows), 6))
        kernels.loads(
            self.behaviour, self._segment, self._points, self._load_masses, self._origin, rows, stiffness,
            self.gains @ pressures_pa, 1e-5 * pressures_pa.sum(), out,
        )  # fmt: skip
        return out

    def tips(self, rows: Matrix, stiffness: Vector, pressures_pa: Vector) -> Matrix:
        """(K, 7) position (m) and velocity (m/s) of the tip in the base's frame, stiffness now (N m/rad)."""
        out = np.empty((len(rows), 7))
        kernels.tips(self.behaviour, self._segment, self.beyond_m, rows, stiffness, 1e-5 * pressures_pa.sum(), out)
        return out

    def through_hoses(self, readings_pa: Vector, chambers_pa: Vector, step_s: float) -> tuple[Vector, Vector]:
        """Pressures in the chambers (C,) after a step of held readings without offsets, and their mean over it."""
        after, mean = chambers_pa.copy(), np.empty_like(chambers_pa)
        kernels.chamber_pressures(readings_pa, self.lag_s, step_s, after, mean)
        return after, mean

    def simulate(self, stamps_s: Vector, readings_pa: Matrix, start: Vector) -> tuple[Matrix, Matrix]:
        """Rows (N, ROW) and places of the tip (N, 3) at the stamps, on gauge readings (N, C); NaN once it fell.

        Stamps do not fall; at one that comes again it is as before.
        """
        rows, places = np.empty((len(stamps_s), kernels.ROW)), np.empty((len(stamps_s), 3))
        kernels.simulate(
            self.behaviour, self._segment, self._points, self.beyond_m, self.gains, self.lag_s, stamps_s,
            readings_pa - self.offsets_pa, start, self.stiffness, SAFETY * self._largest_step_s, rows, places,
        )  # fmt: skip
        return rows, places
