"""The segment as the configuration has it, and the segment's shape by the place of its tip."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onboard_estimation.measurement import Matrix
from softrobot_estimation.configuration import SoftRobotConfiguration
from softrobot_estimation.constant_curvature import ConstantCurvatureSegment

_INVERSION_STEPS = 8


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
