"""Magnitudes of the scenarios `laboratory`, `payload` and `upright`, and a robot drawn from them.

They were fixed, with the reasons beside each, before any filter was run on them, and stay. Ranges are drawn from
evenly, `_stddev` and `_spread` (of a share) from normal distributions; all of it anew for each seed. What a data sheet
says (noise, digits, drift, crosstalk, offsets of transducers and marker bodies) stands in the robot's configuration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from onboard_estimation.base.measurement import Matrix, Vector
from softrobot_estimation.model.configuration import SoftRobotConfiguration
from softrobot_estimation.simulation.fine_chain_kernels import Chain

Range = tuple[float, float]


@dataclass(frozen=True)
class Magnitudes:
    """How far a robot is from its nominal numbers, and what else there is in a laboratory."""

    # The chain. Six pieces are within 0.6 mm of the elastica where it sags by 23 mm, and within 1.5 % of a beam's
    # first two frequencies; steps hold its fastest vibration, in elongation, twice as stiff as nominal.
    pieces: int = 6
    step_ns: int = 250_000
    # Dimensions and mass are known to their last digit.
    length_error_m: float = 5e-4
    mass_error_kg: float = 5e-4
    # Silicone of one recipe differs by 10 to 20 % in modulus between batches, and one bench test at small deflection
    # is not better.
    bending_spread: float = 0.15
    axial_spread: float = 0.10
    # Walls thin, or fibres tighten, as it bends: stiffness falls or rises by up to a factor of two.
    change_doublings: Range = (0.5, 1.0)
    change_bending_rad: Range = (0.3, 0.6)  # of the whole, at half of the change
    # Castings are uneven along the length by some per cent, and thicker at one end; seams make a direction stiffer.
    uneven_spread: float = 0.05
    taper: Range = (-0.15, 0.15)
    direction_spread: float = 0.03
    # Filled silicone dissipates 3 to 10 % of the moment at any rate, in springs that slip early and late.
    hysteresis: Range = (0.03, 0.10)  # of the elastic moment at the bending below
    hysteresis_bending_rad: float = 0.5
    hysteresis_slips: tuple[float, ...] = (0.2, 0.5, 1.0)  # shares of that bending
    # It creeps by 5 to 15 %, over seconds; 37 mm after 29 mm in 4.5 s has been seen on a real arm (docs).
    creep: Range = (0.05, 0.15)
    creep_times_s: tuple[Range, ...] = ((0.3, 1.0), (1.0, 3.0), (3.0, 10.0))
    # Loss at vibration: damping ratios of 0.05 to 0.15 at 4 Hz.
    loss: Range = (0.2, 0.5)
    loss_time_s: Range = (0.015, 0.035)
    viscosity_s: float = 1e-4
    # Chambers are cores pulled out by hand.
    area_spread: float = 0.04
    radius_spread: float = 0.03
    angle_stddev_deg: float = 2.0
    area_change: Range = (-0.8, 0.8)
    # Proportional valves with a pressure loop: 8 to 14 Hz, some overshoot, limited by their flow.
    regulator_hz: Range = (8.0, 14.0)
    regulator_damping: Range = (0.6, 1.0)
    regulator_rate_pa_s: Range = (2e5, 5e5)
    regulator_gain_spread: float = 0.005
    # Half a metre of hose of 2 mm and a chamber of 20 ml; chambers of one robot are alike within 10 %.
    lag_s: Range = (0.015, 0.050)
    lag_spread: float = 0.1
    pressure_step_pa: float = 25.0  # 12 bit of 1 bar
    # Hoses are fixed to base plate and frame: they pull as they creep and as pressure stiffens them.
    hose_force_n: float = 0.01
    hose_torque_n_m: float = 3e-4
    hose_period_s: Range = (20.0, 90.0)
    hose_force_n_pa: float = 1e-7
    # Force-torque sensor: first-order low-pass of its electronics; scale by its calibration; drift of one's day since
    # it was zeroed is that of some runs.
    low_pass_s: Range = (0.003, 0.008)
    scale_spread: float = 0.005
    crosstalk_arm_m: float = 0.03  # a force in a torque, and back: its size
    morning_drifts: float = 1.5
    warming_s: Range = (20.0, 120.0)
    # Read in one cycle, stamped on arrival by a host with other things to do.
    read_out_s: Range = (0.0005, 0.0015)
    jitter_stddev_s: float = 1.5e-4
    rare_share: float = 0.005
    rare_jitter_s: float = 1.5e-3
    largest_jitter_s: float = 5e-3
    lost_share: float = 0.002
    # Motion capture: exposure to arrival; hands and hoses in the way of the cameras.
    capture_delay_s: Range = (0.002, 0.012)
    gap_period_s: Range = (8.0, 100.0)  # of the tip, of the base
    gap_s: Range = (0.05, 0.6)
    base_place_stddev_m: float = 0.01
    base_heading_stddev_deg: float = 2.0
    base_height_m: float = 1.2
    # A bolt or a sensor on a thread.
    payload_kg: Range = (0.010, 0.040)
    payload_below_m: float = 0.010
    payload_at_s: Range = (16.0, 28.0)


class Build(NamedTuple):
    """A robot and its laboratory, as drawn.

    Attributes
    ----------
    chain
        As it is at first.
    payload_kg, payload_at_s
        What is hung on, and when; infinite: never.
    regulators
        (C, 4): angular frequency (rad/s), damping ratio, largest rate (Pa/s), gain.
    lags_s, offsets_pa
        (C,) of hoses with chambers, of transducers.
    mounted
        Orientation (base to world) and place (m) of the base.
    markers
        Offsets of the marker bodies of tip and base, poses in the bodies' frames: (2, 7).
    sensor
        (6, 6) from the load in the sensor's frame to what it measures.
    zero, warming
        (6,) reading without load at the start, and what it gains while it warms.
    warming_s, low_pass_s, read_out_s, capture_delay_s
        Time constants and delays.
    hoses
        (6, 3) of each row of the load in the base's frame: amplitude, period (s), phase; (6,) by mean pressure, 1/Pa.
    """

    chain: Chain
    payload_kg: float
    payload_at_s: float
    regulators: Matrix
    lags_s: Vector
    offsets_pa: Vector
    mounted: tuple[Rotation, Vector]
    markers: Matrix
    sensor: Matrix
    zero: Vector
    warming: Vector
    warming_s: float
    low_pass_s: float
    read_out_s: float
    capture_delay_s: float
    hoses: Matrix
    hoses_per_pa: Vector


def draw(
    configuration: SoftRobotConfiguration, magnitudes: Magnitudes, payload: bool, rng: np.random.Generator
) -> Build:
    """A robot like the configured one, with what nobody knows of it."""
    count, m = configuration.chambers.count, magnitudes
    tilt = np.radians(configuration.mounting.tilt_deg + configuration.mounting.tilt_stddev_deg * rng.normal(size=2))
    attitude = Rotation.from_euler("x", np.pi if configuration.mounting.attitude == "hanging" else 0.0)
    heading = Rotation.from_euler("z", m.base_heading_stddev_deg * rng.normal(), degrees=True)
    orientation = heading * attitude * Rotation.from_rotvec([*tilt, 0.0])
    gravity = orientation.inv().apply([0.0, 0.0, -configuration.gravity_m_s2])
    place = m.base_place_stddev_m * rng.normal(size=3) + [0.0, 0.0, m.base_height_m]
    known = configuration.wrench
    drift = np.repeat([known.force_drift_n, known.torque_drift_n_m], 3)
    hose_sizes = np.repeat([m.hose_force_n, m.hose_torque_n_m], 3)
    return Build(
        chain=_chain(configuration, m, gravity, rng),
        payload_kg=float(rng.uniform(*m.payload_kg)) if payload else 0.0,
        payload_at_s=float(rng.uniform(*m.payload_at_s)) if payload else np.inf,
        regulators=np.column_stack(
            [
                2.0 * np.pi * rng.uniform(*m.regulator_hz, count),
                rng.uniform(*m.regulator_damping, count),
                rng.uniform(*m.regulator_rate_pa_s, count),
                1.0 + m.regulator_gain_spread * rng.normal(size=count),
            ]
        ),
        lags_s=rng.uniform(*m.lag_s) * (1.0 + m.lag_spread * np.clip(rng.normal(size=count), -2.0, 2.0)),
        offsets_pa=configuration.pressure.offset_stddev_pa * rng.normal(size=count),
        mounted=(orientation, place),
        markers=_marker_offsets(configuration, rng),
        sensor=_sensor(configuration, m, rng),
        zero=m.morning_drifts * drift * rng.normal(size=6),
        warming=drift * rng.uniform(0.5, 1.0, 6) * rng.choice([-1.0, 1.0], 6),
        warming_s=float(rng.uniform(*m.warming_s)),
        low_pass_s=float(rng.uniform(*m.low_pass_s)),
        read_out_s=float(rng.uniform(*m.read_out_s)),
        capture_delay_s=float(rng.uniform(*m.capture_delay_s)),
        hoses=np.column_stack(
            [hose_sizes * rng.normal(size=6), rng.uniform(*m.hose_period_s, 6), rng.uniform(0.0, 2.0 * np.pi, 6)]
        ),
        hoses_per_pa=m.hose_force_n_pa * hose_sizes / m.hose_force_n * rng.normal(size=6),
    )


def with_payload(chain: Chain, payload_kg: float, magnitudes: Magnitudes) -> Chain:
    """The chain once something hangs on it: in the middle of the tip, a little below its face."""
    beyond = np.append(chain.beyond, chain.plate + magnitudes.payload_below_m)
    return chain._replace(mass=np.append(chain.mass, payload_kg), beyond=beyond)


def _chain(configuration: SoftRobotConfiguration, m: Magnitudes, gravity: Vector, rng: np.random.Generator) -> Chain:
    segment, chambers, n = configuration.segment, configuration.chambers, m.pieces
    length_m = segment.length_m + m.length_error_m * rng.uniform(-1.0, 1.0)
    mass_kg = segment.mass_kg - segment.tip_plate_mass_kg + m.mass_error_kg * rng.uniform(-1.0, 1.0)
    along = 1.0 + rng.uniform(*m.taper) * np.linspace(-1.0, 1.0, n)
    uneven = along * (1.0 + m.uneven_spread * rng.normal(size=n))
    uneven /= uneven.mean()
    bending = n * configuration.stiffness.bending_n_m_per_rad * (1.0 + m.bending_spread * _clipped(rng)) * uneven
    stretching = n * configuration.stiffness.axial_n_per_m * (1.0 + m.axial_spread * _clipped(rng)) * uneven
    stiffer, at = m.direction_spread * rng.normal(), rng.uniform(0.0, np.pi)
    c, s = stiffer * np.cos(2.0 * at), stiffer * np.sin(2.0 * at)
    slips = np.array(m.hysteresis_slips) * m.hysteresis_bending_rad / n
    shares = rng.uniform(*m.hysteresis) * m.hysteresis_bending_rad / n / (len(slips) * slips)
    creeping = rng.uniform(*m.creep) * rng.dirichlet(np.ones(len(m.creep_times_s)))
    times_s = [np.exp(rng.uniform(*np.log(one))) for one in m.creep_times_s]
    relaxing = np.column_stack([[*creeping, rng.uniform(*m.loss)], [*times_s, rng.uniform(*m.loss_time_s)]])
    angles = chambers.angles_rad + np.radians(m.angle_stddev_deg) * rng.normal(size=chambers.count)
    radii = chambers.centre_radius_m * (1.0 + m.radius_spread * rng.normal(size=chambers.count))
    areas = chambers.area_m2 * (1.0 + m.area_spread * rng.normal(size=chambers.count))
    doublings = rng.choice([-1.0, 1.0]) * rng.uniform(*m.change_doublings)
    return Chain(
        length=np.full(n, length_m / n),
        mass=np.append(np.full(n, mass_kg / n), segment.tip_plate_mass_kg),
        beyond=np.array([0.5 * segment.tip_plate_thickness_m]),
        plate=segment.tip_plate_thickness_m,
        gravity=gravity,
        origin=np.array(configuration.wrench.origin_in_base_m),
        bending=bending,
        stretching=stretching,
        change=np.array([2.0**doublings, rng.uniform(*m.change_bending_rad) / n]),
        direction=np.eye(2) + np.array([[c, s], [s, -c]]),
        relaxing=relaxing,
        # In elongation it slips where a chamber's wall is stretched as much as by the bending.
        slipping=np.column_stack([shares, slips, slips * chambers.centre_radius_m]),
        viscosity_s=m.viscosity_s,
        chambers=np.column_stack([areas, radii, np.cos(angles), np.sin(angles)]),
        area_change=rng.uniform(*m.area_change),
    )


def _clipped(rng: np.random.Generator) -> float:
    return float(np.clip(rng.normal(), -2.0, 2.0))


def _marker_offsets(configuration: SoftRobotConfiguration, rng: np.random.Generator) -> Matrix:
    truth = configuration.truth
    places = truth.alignment_stddev_m * rng.normal(size=(2, 3))
    turns = Rotation.from_rotvec(np.radians(truth.alignment_stddev_deg) * rng.normal(size=(2, 3)))
    return np.hstack([places, turns.as_quat()])


def _sensor(configuration: SoftRobotConfiguration, m: Magnitudes, rng: np.random.Generator) -> Matrix:
    """(6, 6): scale on the diagonal, crosstalk beside it, in units of force times an arm."""
    arms = np.repeat([1.0, m.crosstalk_arm_m], 3)
    mixed = configuration.wrench.crosstalk_fraction * rng.uniform(-1.0, 1.0, (6, 6))
    np.fill_diagonal(mixed, 1.0 + m.scale_spread * rng.normal(size=6))
    return np.asarray(mixed * arms[:, None] / arms)
