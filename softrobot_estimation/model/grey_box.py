"""A soft robot as its configuration has it, for filters and identification: arrays for `grey_box_kernels`.

How long a step of the integrator may be before the segment's fastest vibration grows in it follows from its linearised
model. There the segment is taken to be held at rest by whatever pressures that takes: then stiffness and mass are
symmetric, and a mode vibrates, creeps, or falls (an upright segment that is too soft), but never swings up by itself.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Matrix, Vector
from softrobot_estimation.model import grey_box_kernels as kernels
from softrobot_estimation.model.configuration import BehaviourConfiguration, SoftRobotConfiguration
from softrobot_estimation.model.constant_curvature import ConstantCurvatureSegment, with_damping_ratios

STEP_S = 0.008
"""Of the force-torque sensor; longer steps are divided."""
SAFETY = 0.8
"""Share of the limit that a step may take: pressures and states change the modes after they were linearised."""

_STABLE = 2.61
"""No mode that fades grows in a classical Runge-Kutta step as long as that over its eigenvalue's size, however damped
it is (2.61 to 2.83)."""
_ROUNDING = 1e-6

_NEWTON_STEPS, _NEWTON_DIFFERENCE, _NEWTON_SMALLEST = 12, 1e-5, 1e-13
_CORNER_BENDING_RAD = 1.5
_CORNER_ELONGATION = 0.2
_STIFFER = 1.5  # than the law has it, somewhere
_LEAST_TIP_KG = 1e-6  # the first point is the tip, where a payload hangs, also of a robot without a plate


def nominal(configuration: SoftRobotConfiguration) -> SoftRobotConfiguration:
    """Of the nominal model: an arc with damping and hoses as `model` has them, and nothing that `identify` finds."""
    model, count = configuration.model, configuration.chambers.count
    behaviour = BehaviourConfiguration(
        bending_damping_ratio=model.damping_ratio,
        axial_damping_ratio=model.damping_ratio,
        chamber_gains=(1.0,) * count,
        pressure_offsets_pa=(0.0,) * count,
        supply_lag_s=model.pressure_lag_s,
        relaxation_shares=(0.0, 0.0),
        inertia_share=0.0,
        load_share=0.0,
    )
    return replace(configuration, behaviour=behaviour)


def undamped_segment(configuration: SoftRobotConfiguration, share_at_tip: float = 0.0) -> ConstantCurvatureSegment:
    """The arc of a robot, with that share of its soft part's mass at the tip; the plate's is in the plate's middle."""
    known = configuration.segment
    soft_kg, plate_kg = known.mass_kg - known.tip_plate_mass_kg, known.tip_plate_mass_kg
    gx, gy, gz = configuration.gravity_in_base_m_s2.tolist()
    return ConstantCurvatureSegment(
        length_m=known.length_m,
        tip_mass_kg=max(plate_kg + share_at_tip * soft_kg, _LEAST_TIP_KG),
        tip_mass_offset_m=0.5 * known.tip_plate_thickness_m,
        backbone_mass_kg=(1.0 - share_at_tip) * soft_kg,
        bending_stiffness_n_m_per_rad=configuration.stiffness.bending_n_m_per_rad,
        elongation_stiffness_n_m=configuration.stiffness.axial_n_per_m,
        gravity_m_s2=(gx, gy, gz),
    )


class GreyBox:
    """Motion, loads and tip of batches of rows, see `grey_box_kernels`.

    Pressures are gauge pressures, Pa: (C,) for all rows, or (K, C).

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
        behaviour, chambers = configuration.behaviour, configuration.chambers
        self.stiffness = configuration.stiffness.bending_n_m_per_rad
        self.beyond_m = configuration.segment.tip_plate_thickness_m
        self.segment = with_damping_ratios(
            undamped_segment(configuration, behaviour.inertia_share),
            behaviour.bending_damping_ratio,
            behaviour.axial_damping_ratio,
        )
        loading = undamped_segment(configuration, behaviour.load_share)
        angles = chambers.angles_rad + np.radians(behaviour.chambers_turned_deg)
        arm_m = chambers.centre_radius_m * behaviour.moment_gain
        lengths = np.vstack([-arm_m * np.cos(angles), -arm_m * np.sin(angles), np.ones_like(angles)])
        self.gains = lengths * (chambers.area_m2 * np.array(behaviour.chamber_gains))
        self.offsets_pa = np.array(behaviour.pressure_offsets_pa)
        self.numbers = kernels.Numbers(
            *self.segment.arrays,
            load_masses=np.ascontiguousarray(loading.arrays[1][:, 2]),
            origin=np.array(configuration.wrench.origin_in_base_m),
            beyond=self.beyond_m,
            gains=self.gains,
            lag_s=behaviour.supply_lag_s,
            stiffness=self.stiffness,
            axial_stiffness=configuration.stiffness.axial_n_per_m,
            stiffening=behaviour.bending_stiffening_per_rad2,
            pressure_stiffening=behaviour.pressure_stiffening_per_100_kpa,
            anisotropy=behaviour.anisotropy,
            damping_growth=behaviour.bending_damping_growth_per_rad2,
            rest=np.array([*behaviour.rest_bending_rad, behaviour.rest_elongation_m]),
            shares=np.array(behaviour.relaxation_shares),
            times_s=np.array(behaviour.relaxation_times_s),
            moment_time_s=configuration.filter.moment_time_s,
        )
        self._largest_step_s = self._stable_step_s(1e-5 * chambers.count * chambers.pressure_max_pa)

    def _stable_step_s(self, total_pressure: float) -> float:
        """The longest step at which no vibration grows, with at most that sum of pressures (100 kPa)."""
        robot, long = self.numbers, _CORNER_ELONGATION * self.segment.length_m
        bent, squared = _CORNER_BENDING_RAD, 2.0 * _CORNER_BENDING_RAD**2
        corners = [[x, y, z] for x, y in ((0.0, 0.0), (bent, 0.0), (0.0, bent)) for z in (-0.5 * long, long)]
        stiffening = max(kernels.law(robot, b, p) for b in (0.0, squared) for p in (0.0, total_pressure))
        shares = sum(robot.shares.tolist())
        bending = _STIFFER * (stiffening * (1.0 + abs(robot.anisotropy)) + shares) * self.stiffness
        stiffest = np.array([bending, bending, _STIFFER * (1.0 + shares) * robot.axial_stiffness])
        x, y, z = self.segment.damping
        grown = 1.0 + robot.damping_growth * squared
        most_damped = replace(self.segment, damping=(grown * x, grown * y, z))
        return largest_stable_step_s(most_damped, corners, stiffest)

    def resting_row(self) -> Vector:
        """(ROW,) hanging or standing still without pressure, as bent and as long as it is then.

        Found by Newton's rule from where it would be without weight: it is the rest next to that, be it stable or not.
        """
        row = np.zeros(kernels.ROW)
        row[:3] = self.numbers.rest
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
        robot, state = self.numbers, np.concatenate([q, np.zeros(3)])
        bending = self.stiffness * kernels.law(robot, float(q[0] ** 2 + q[1] ** 2), 0.0)
        more = robot.anisotropy
        holding = np.array([bending * (1.0 + more), bending * (1.0 - more), robot.axial_stiffness])
        force = self.segment.stiffness * robot.rest - holding * q
        for fraction, offset, mass in robot.points:
            force += mass * np.array(self.segment.gravity_m_s2) @ self.segment.jacobian(state, fraction, offset)[0]
        return np.asarray(force)

    def propagate(self, rows: Matrix, stiffness: Vector, mean_pa: NDArray[np.float64], step_s: float) -> Matrix:
        """Rows (K, n) after a step through chambers' mean pressures, with stiffness (K,) N m/rad of each."""
        out, parts = np.empty_like(rows), sub_steps(step_s, self._largest_step_s)
        kernels.propagate(self.numbers, rows, stiffness, np.atleast_2d(mean_pa), step_s, parts, out)
        return out

    def loads(self, rows: Matrix, stiffness: Vector, pressures_pa: NDArray[np.float64]) -> Matrix:
        """(K, 6) what the rows put on the force-torque sensor, at its origin, in the base's frame; N, N m."""
        out = np.empty((len(rows), 6))
        kernels.loads(self.numbers, rows, stiffness, np.atleast_2d(pressures_pa), out)
        return out

    def tips(self, rows: Matrix, stiffness: Vector, pressures_pa: Vector) -> Matrix:
        """(K, 7) position (m) and velocity (m/s) of the tip in the base's frame, stiffness now (N m/rad)."""
        out = np.empty((len(rows), 7))
        kernels.tips(self.numbers, rows, stiffness, 1e-5 * pressures_pa.sum(), out)
        return out

    def through_hoses(self, readings_pa: Vector, chambers_pa: Vector, step_s: float) -> tuple[Vector, Vector]:
        """Pressures in the chambers (C,) after a step of held readings without offsets, and their mean over it."""
        after, mean = chambers_pa.copy(), np.empty_like(chambers_pa)
        kernels.chamber_pressures(readings_pa, self.numbers.lag_s, step_s, after, mean)
        return after, mean

    def simulate(self, stamps_s: Vector, readings_pa: Matrix, start: Vector) -> tuple[Matrix, Matrix]:
        """Rows (N, ROW) and places of the tip (N, 3) at the stamps, on gauge readings (N, C); NaN once it fell.

        Stamps do not fall; at one that comes again it is as before.
        """
        rows, places = np.empty((len(stamps_s), kernels.ROW)), np.empty((len(stamps_s), 3))
        longest_s, gauge_pa = SAFETY * self._largest_step_s, readings_pa - self.offsets_pa
        kernels.simulate(self.numbers, stamps_s, gauge_pa, start, longest_s, rows, places)
        return rows, places


def linearised(
    segment: ConstantCurvatureSegment, coordinates: ArrayLike, stiffness_n_m: ArrayLike | None = None
) -> Matrix:
    """(6, 6) derivative of a state's rates with respect to it, where the segment is held at rest at q (3,)."""
    at = np.concatenate([np.asarray(coordinates, dtype=np.float64), np.zeros(3)])
    stiffness = segment.stiffness if stiffness_n_m is None else np.asarray(stiffness_n_m, dtype=np.float64)
    holding = stiffness * at[:3]
    for fraction, offset, mass in segment.arrays[1]:
        holding = holding - mass * np.array(segment.gravity_m_s2) @ segment.jacobian(at, fraction, offset)[0]
    # Accelerations are quadratic in rates, so that only the differences in q need to be short.
    lengths = np.repeat([1e-5, 1.0], 3)
    both = np.vstack([at + np.diag(lengths), at - np.diag(lengths)])
    values = segment.accelerations(both, holding, stiffness)
    out = np.zeros((6, 6))
    out[:3, 3:] = np.eye(3)
    out[3:] = ((values[:6] - values[6:]) / (2.0 * lengths[:, None])).T
    return out


def largest_stable_step_s(
    segment: ConstantCurvatureSegment, coordinates: ArrayLike, stiffness_n_m: ArrayLike | None = None
) -> float:
    """Longest step at which no vibration grows, at any of the places given.

    Parameters
    ----------
    coordinates
        q, (3,) or (K, 3): the corners of where the segment will be. A shorter or more bent one vibrates faster.
    stiffness_n_m
        (3,): take the highest.

    Raises
    ------
    UserError
        For a place outside the model's domain.
    """
    systems = np.array([linearised(segment, place, stiffness_n_m) for place in np.atleast_2d(coordinates)])
    if not np.isfinite(systems).all():
        raise UserError(
            "no stable step for a segment outside the model's domain: bent by a full circle or more, or without length"
        )
    return _STABLE / float(np.abs(np.linalg.eigvals(systems)).max())


def sub_steps(step_s: float, largest_step_s: float) -> int:
    """Into how many equal parts a step has to be divided, each at most SAFETY of the largest stable step."""
    if not (math.isfinite(step_s) and step_s > 0.0 and largest_step_s > 0.0):
        raise UserError(f"a step of {step_s} s with a limit of {largest_step_s} s; both must be above zero")
    return max(1, math.ceil(step_s / (SAFETY * largest_step_s) - _ROUNDING))
