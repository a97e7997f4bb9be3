"""Simulated robot of the paper's tables: the filters' own segment, of a stiffness that they do not know.

The stiffness in bending depends on (dx, dy) alone, smoothly; there is no lag, hysteresis, creep, tilt or drift, and all
that sensors add is white Gaussian noise. The truth is exact. The paper gives no numbers for its simulation: noise is
that of the configured sensors, the stiffness is drawn for each seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Matrix, Vector
from onboard_estimation.base.series import Recording, Series, truth_channel
from softrobot_estimation.model.configuration import (
    TRUE_STIFFNESS,
    WRENCH,
    SoftRobotConfiguration,
    pressure_channel,
    pressure_command_channel,
)
from softrobot_estimation.model.constant_curvature import tip_quaternion_xyzw
from softrobot_estimation.model.description import BASE, TIP
from softrobot_estimation.model.grey_box import GreyBox, nominal
from softrobot_estimation.simulation.simulated_signals import Stream, mixture, of_chambers, pneumatics

SUB_STEPS = 4
"""Of a sample's time; the stiffness is held through each. Doubling them moves the tip by less than 0.03 mm."""

_REGULATOR = (60.0, 0.9, 1e6)  # rad/s, damping ratio, Pa/s
_BUMPS, _REACH_RAD, _WIDTH_RAD, _HEIGHT = 6, 0.5, 0.25, 0.6
_MOST = 0.5  # share by which all bumps together change the stiffness
_SPREAD = 0.15  # of the nominal stiffness, as after a bench test


_ABSENT: Mapping[str, Any] = {
    "mounting.tilt_deg": (0.0, 0.0),
    "mounting.tilt_stddev_deg": 0.0,
    "wrench.tare": "without_robot",
    "wrench.force_resolution_n": 0.0,
    "wrench.torque_resolution_n_m": 0.0,
    "wrench.crosstalk_fraction": 0.0,
    "wrench.force_drift_n": 0.0,
    "wrench.torque_drift_n_m": 0.0,
    "pressure.offset_stddev_pa": 0.0,
    "truth.position_stddev_m": 0.0,
    "truth.orientation_stddev_deg": 0.0,
    "truth.alignment_stddev_m": 0.0,
    "truth.alignment_stddev_deg": 0.0,
    "model.damping_ratio_stddev": 0.0,
    "model.pressure_lag_s": 1e-6,
    "model.pressure_lag_stddev_s": 0.0,
    "model.axial_stiffness_spread": 0.0,
    "model.chamber_spread": 0.0,
    "model.shape_stddev_m": 1e-4,
    "filter.force_walk_n_sqrt_s": 1e-6,
    "filter.torque_walk_n_m_sqrt_s": 1e-7,
    "filter.payload_walk_kg_sqrt_s": 0.0,
    "filter.payload_stddev_kg": 1e-6,
    # Noise of the pressures, held for a sample's time, shakes the segment by this, and the filters hold their stiffness
    # through a sample in which the robot's changes by up to 24 %; tuned on seeds 1 to 12.
    "filter.moment_stddev_n_m": 0.001,
    "filter.bending_rate_noise_rad_s_sqrt_s": 0.2,
    "filter.elongation_rate_noise_m_s_sqrt_s": 0.03,
    "filter.rest_moment_stddev_n_m": 1e-5,
    "filter.stiffness_walk_sqrt_s": 0.5,
    "filter.stiffness_spread": 0.3,
    "filter.stiffness_share": 0.02,
    "filter.place_stddev_m": 1e-4,
    "filter.place_share": 0.005,
    "learning.deviation_share": 0.3,
    "learning.noise_share": 0.7,
}
"""What this simulation has not, and what filters may count on for it."""


def known_configuration(configuration: SoftRobotConfiguration) -> SoftRobotConfiguration:
    """What is known of that robot: the same, without all that this simulation has not."""
    wrench = configuration.wrench
    known = configuration.with_parameters(
        {
            **_ABSENT,
            "truth.rate_hz": wrench.rate_hz,
            "filter.force_stddev_n": wrench.force_stddev_n,
            "filter.torque_stddev_n_m": wrench.torque_stddev_n_m,
            "filter.twist_stddev_n_m": wrench.torque_stddev_n_m,
        }
    )
    return nominal(known)


class StiffnessMap:
    """Bending stiffness (N m/rad) over the angles of bending: a drawn mean and bumps, each way."""

    def __init__(self, nominal_n_m_per_rad: float, rng: np.random.Generator) -> None:
        self._mean = nominal_n_m_per_rad * (1.0 + _SPREAD * np.clip(rng.normal(), -2.0, 2.0))
        self._centres_rad = _REACH_RAD * rng.uniform(-1.0, 1.0, (_BUMPS, 2))
        self._heights = _HEIGHT * rng.choice([-1.0, 1.0], _BUMPS)

    def __call__(self, bending_rad: Matrix) -> Vector:
        """(K,) at angles (K, 2) towards x and y."""
        away = ((bending_rad[:, None] - self._centres_rad) ** 2).sum(axis=-1)
        bumps = (self._heights * np.exp(-0.5 * away / _WIDTH_RAD**2)).sum(axis=-1)
        stiffness: Vector = self._mean * (1.0 + _MOST * np.tanh(bumps / _MOST))
        return stiffness


class PaperSimulation:
    """The segment, driven by pressures that act from their stamps on; straight and at rest at stamp zero."""

    def __init__(self, configuration: SoftRobotConfiguration, rng: np.random.Generator) -> None:
        self._configuration = known_configuration(configuration)
        self._box = GreyBox(self._configuration)
        self.stiffness = StiffnessMap(configuration.stiffness.bending_n_m_per_rad, rng)
        chambers = configuration.chambers
        self._pattern = mixture(chambers.angles_rad, chambers.pressure_max_pa, rng)
        self._row, self._acting_pa = self._box.resting_row()[None], np.zeros(chambers.count)
        self._pneumatics = np.zeros((3, chambers.count))
        rate_hz = configuration.wrench.rate_hz
        self._sampled = Stream(rate_hz, rng.spawn(1)[0], chambers.count + 6)

    def advance(self, stop_ns: int) -> Recording:
        """What is recorded from where it stands up to `stop_ns`, which is left out."""
        known, box = self._configuration, self._box
        at_ns, noise = self._sampled.samples(stop_ns)
        set_points, count = self._pattern(at_ns / NANOSECONDS_PER_SECOND), known.chambers.count
        acting_pa = self._regulated(set_points)
        rows = self._driven(acting_pa)
        bending = self.stiffness(rows[:, :2])
        # A pressure acts from its stamp on: what the sensor reads at that stamp is still of the one before.
        before_pa = np.vstack([self._acting_pa, acting_pa])
        self._acting_pa = before_pa[-1]
        sizes = np.repeat([known.wrench.force_stddev_n, known.wrench.torque_stddev_n_m], 3)
        load = box.loads(rows, bending, before_pa[:-1])
        wrench = load @ known.wrench.into_base + sizes * noise[:, count : count + 6]
        read_pa = known.pressure.ambient_pa + acting_pa + known.pressure.noise_pa * noise[:, :count]
        sensors = (
            *of_chambers(
                pressure_command_channel, known.chambers.names, (at_ns, known.pressure.ambient_pa + set_points)
            ),
            *of_chambers(pressure_channel, known.chambers.names, (at_ns, read_pa)),
            Series(WRENCH, at_ns, wrench),
        )
        # The world's axes are the base's, turned so that gravity points down.
        turn = [0.0, 0.0, 0.0, 1.0] if known.mounting.attitude == "upright" else [1.0, 0.0, 0.0, 0.0]
        truth = (
            Series(truth_channel(TIP), at_ns, self._tip_poses(rows)),
            Series(truth_channel(BASE), at_ns, np.tile([0.0, 0.0, 0.0, *turn], (len(at_ns), 1))),
            Series(TRUE_STIFFNESS, at_ns, bending[:, None]),
        )
        return Recording(sensors, truth)

    def _regulated(self, set_points: Matrix) -> Matrix:
        """(K, C) pressures at the samples, smooth as a regulator's: steps would be pulses in the wrench."""
        count = set_points.shape[1]
        goals, step_s = np.repeat(set_points, SUB_STEPS, axis=0), 1.0 / (self._configuration.wrench.rate_hz * SUB_STEPS)
        outlets, chambers = np.empty_like(goals), np.empty_like(goals)
        pneumatics(np.tile(_REGULATOR, (count, 1)), np.ones(count), goals, step_s, self._pneumatics, outlets, chambers)
        return outlets[::SUB_STEPS]

    def _driven(self, pressures_pa: Matrix) -> Matrix:
        """(K, ROW) at the samples; the last one's pressures act until the first of the next piece."""
        rows = np.empty((len(pressures_pa), self._row.shape[1]))
        step_s = 1.0 / (self._configuration.wrench.rate_hz * SUB_STEPS)
        for k, acting_pa in enumerate(pressures_pa):
            rows[k] = self._row
            for _ in range(SUB_STEPS):
                self._row = self._box.propagate(self._row, self.stiffness(self._row[:, :2]), acting_pa, step_s)
        return rows

    def _tip_poses(self, rows: Matrix) -> Matrix:
        """(K, 7) in the world."""
        places = self._box.segment.position(rows[:, :6], offset_m=self._box.beyond_m)
        x, y, z, w = tip_quaternion_xyzw(rows[:, :6]).T
        if self._configuration.mounting.attitude == "upright":
            return np.column_stack([places, x, y, z, w])
        # Half a turn about x, and then the tip's.
        return np.column_stack([places * [1.0, -1.0, -1.0], w, -z, y, -x])
