"""The hopper's estimators in the pipeline: messages in, height and vertical velocity with phase events out."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hopper_estimation.estimators import readings_kernels, samples
from hopper_estimation.estimators.filters import Filtered, FilterEntry, State, body_of, state_filter
from hopper_estimation.estimators.sensor_faults import rest_fault, sensor_faults
from hopper_estimation.model.configuration import LOW_G, HopperConfiguration
from hopper_estimation.model.phases import APEX, DROP, EVENTS, PHASE_AFTER, PHASES, STARTUP, TOUCHDOWN, Records, copied
from onboard_estimation.base.measurement import (
    NANOSECONDS_PER_SECOND,
    POSE,
    Block,
    Estimate,
    FilteredBlock,
    Measurement,
    PhaseEvent,
)
from onboard_estimation.base.series import SET_POSE
from onboard_estimation.filtering.state_space import StateSpace, vector
from onboard_estimation.pipeline.estimator import Estimator, FilterBreakdown, SensorsRefused, Step
from onboard_estimation.pipeline.sensor_trust import fault_news

Array = NDArray[np.float64]

SPACE = StateSpace(vector("height", ("z",), "m"), vector("vertical_velocity", ("vz",), "m/s"))
_Z, _ZZ = 2, 2 * 6 + 2
"""Places of the height in a position, and of its variance in a pose's covariance."""
_GRAVITY_M_S2 = 9.80665
_UNKNOWN_VARIANCE = 1e3
"""Of a pose that was set: a height with a larger variance, m^2, is none (RViz sets x, y and heading only)."""
START_DEVIATION = (0.05, 0.05)
"""Standard deviations of height (m) and velocity (m/s) of a robot that is said to stand."""


class Ground(NamedTuple):
    """The ground below the robot, summed up from touchdown to touchdown: eq. (12), see `report`.

    Attributes
    ----------
    height_m
        Against that of the start.
    hops
        Touchdowns counted.
    apex_m
        Height of the last apex above the ground last left; NaN: none was seen since the last touchdown.
    """

    height_m: float = 0.0
    hops: int = 0
    apex_m: float = math.nan


class HopperState(NamedTuple):
    """All that messages change; records are values, never written.

    Attributes
    ----------
    sample
        What arrived since the last sample, of `samples`.
    readings
        Of `readings_kernels`.
    vertical
        Of the filter's kind; the first part has the phase.
    ground
        Below the robot.
    trouble
        Of its sensors, see `readings_kernels.trouble`.
    """

    sample: Records
    readings: Records
    vertical: State
    ground: Ground
    trouble: int = 0


class HopperEstimator(Estimator[HopperState]):
    """One of the hopper's filters.

    Parameters
    ----------
    name
        Of the estimator, see `filters`.
    entry
        Its trained parameters.
    """

    phases = PHASES
    space = SPACE
    linearised = False  # its variances are scaled, see `FilterEntry`

    def __init__(self, configuration: HopperConfiguration, name: str, entry: FilterEntry) -> None:
        self._configuration = configuration
        self._entry = entry
        self._filter = state_filter(name, configuration.robot)
        self._body = body_of(configuration)
        self._settings = readings_kernels.reading_settings(configuration)
        # Variance and covariance by phase: the filter's, scaled, and a floor, see `FilterEntry`.
        z, v = entry.height_scale, entry.velocity_scale
        self._scales = np.column_stack([z**2, z * v, v**2])
        self._floors = np.column_stack([entry.height_floor_m**2, entry.velocity_floor_m_s**2])
        step = configuration.ground_step_stddev_m**2
        self._ground_gain = step / (step + entry.touchdown_stddev_m**2)

    def start(self, initial: Estimate | None) -> HopperState:
        """Standing, or at the given height and velocity."""
        (height, velocity), covariance = (self._body.length, 0.0), np.diag(np.square(START_DEVIATION))
        if initial is not None:
            (height, velocity), covariance = initial.mean.tolist(), initial.covariance
        vertical = self._filter.new_state(height, velocity, covariance, STARTUP)
        return HopperState(samples.nothing_arrived(), readings_kernels.new_state(), vertical, Ground())

    def phase(self, state: HopperState) -> str:
        """The phase that the robot is in."""
        return PHASES[int(state.vertical[0]["phase"][0])]

    def sensor_faults(self, state: HopperState) -> dict[str, str]:
        """See `hopper_estimation.estimators.sensor_faults`."""
        return sensor_faults(self._configuration, state.trouble)

    def step(self, state: HopperState, measurement: Measurement) -> Step:
        """Filter a message; an estimate at each sample, see `samples`."""
        if measurement.sensor == SET_POSE:
            return Step(self._at_pose(state, measurement.value))
        if measurement.sensor not in samples.KIND_OF:
            return Step(state)
        found, _ = self._filtered(state, Block.of([measurement]))
        if not len(found.means):
            return Step(found.state)
        notices = fault_news(self.sensor_faults(state), self.sensor_faults(found.state), measurement.stamp_ns)
        estimate = Estimate(measurement.stamp_ns, found.means[0], found.covariances[0])
        return Step(found.state, estimate, events=(*found.events, *notices))

    def filter_block(self, state: HopperState, block: Block) -> FilteredBlock | None:
        """Up to the last reading of the low-g sensor, with which a sample is taken, or to a pose that is set."""
        if SET_POSE in block.sensors:
            poses = np.flatnonzero(block.kinds == block.sensors.index(SET_POSE))
            block = block.rows(0, int(poses[0]) if len(poses) else len(block.kinds))
        if LOW_G.sensor not in block.sensors:
            return None
        lows = (block.kinds == block.sensors.index(LOW_G.sensor)).nonzero()[0]
        if not len(lows):
            return None
        found, is_sound = self._filtered(state, block.rows(0, int(lows[-1]) + 1))
        # What there is to be said is found one by one, and touchdowns without a height.
        return found if is_sound and found.state.trouble == state.trouble else None

    def _at_pose(self, state: HopperState, value: Array) -> HopperState:
        """A known height: the drop begins there."""
        height, variance = float(value[POSE.position][_Z]), float(value[POSE.covariance][_ZZ])
        if not 0.0 < variance < _UNKNOWN_VARIANCE:
            return state
        zz, zv, vv = self._entry.start_covariance
        covariance = np.array([[max(zz, variance), zv], [zv, vv]])
        vertical = self._filter.set_to(state.vertical, height, 0.0, covariance, DROP)
        return state._replace(vertical=vertical, ground=Ground())

    def _filtered(self, state: HopperState, block: Block) -> tuple[FilteredBlock, bool]:
        """Samples, and whether all that is known of their events is numbers.

        SensorsRefused where the sensors cannot be right.
        """
        sample, readings = copied(state.sample), copied(state.readings)
        taken = samples.take(self._settings, sample, readings, block)
        trouble = readings_kernels.trouble(self._settings, readings, state.ground.hops)
        if trouble & readings_kernels.IMPOSSIBLE:
            raise SensorsRefused(rest_fault(self._configuration, readings))
        state = state._replace(sample=sample, readings=readings, trouble=trouble)
        if not len(taken.signals):
            nothing = np.empty((0, 2)), np.empty((0, 2, 2))
            return FilteredBlock(state, len(block.kinds), taken.made_of, *nothing), True
        vertical = tuple(map(copied, state.vertical))
        filtered = self._filter.run(self._entry.parameters, self._body, vertical, taken.signals)
        ground, above, events = self._along(state.ground, filtered, taken.stamps_ns)
        # One layout only: for another one numba would call its compiler back into a node that runs.
        means, covariances = _scaled(filtered.out, np.ascontiguousarray(above), self._scales, self._floors)
        if ground.hops != state.ground.hops:
            trouble = readings_kernels.trouble(self._settings, readings, ground.hops)
        state = state._replace(vertical=vertical, ground=ground, trouble=trouble)
        is_sound = not events or all(
            np.isfinite(filtered.events[name]).all() for name in ("height", "velocity", "variance")
        )
        return FilteredBlock(state, len(block.kinds), taken.made_of, means, covariances, tuple(events)), is_sound

    def _along(
        self, ground: Ground, filtered: Filtered, stamps_ns: NDArray[np.int64]
    ) -> tuple[Ground, Array, list[PhaseEvent]]:
        """The ground after samples with these stamps; (N, 3) what it adds at each to height, variance, covariance."""
        told = filtered.out[:, 6:] if filtered.out.shape[1] > 6 else None
        if not len(filtered.events):
            return ground, self._added(ground, len(stamps_ns)) if told is None else told, []
        events = []
        firsts, grounds = [0], [self._added(ground, 1)]
        for row in filtered.events:
            kind, sample, height = int(row["kind"]), int(row["sample"]), float(row["height"])
            if kind == TOUCHDOWN:
                if told is None:
                    ground = self._after_hop(ground, height, float(row["velocity"]))
                else:
                    ground = ground._replace(height_m=float(told[sample, 0]), hops=ground.hops + 1)
                firsts.append(sample)
                grounds.append(self._added(ground, 1))
            elif kind == APEX:
                ground = ground._replace(apex_m=height)
            seen_ns = int(stamps_ns[sample])
            late_ns = round(float(self._entry.event_delay_s[kind]) * NANOSECONDS_PER_SECOND)
            stddev_s = float(self._entry.event_stddev_s[kind])
            if self._configuration.ground_changes:
                # The leg is extended at a touchdown, and what was foretold went into the ground.
                height = ground.height_m + (self._body.length if kind == TOUCHDOWN else height)
            events.append(PhaseEvent(EVENTS[kind], seen_ns - late_ns, seen_ns, stddev_s, PHASE_AFTER[kind], height))
        if told is None:
            told = np.repeat(np.concatenate(grounds), np.diff([*firsts, len(stamps_ns)]), axis=0)
        return ground, told, events

    def _added(self, ground: Ground, count: int) -> Array:
        """(count, 3) what a ground that was summed up adds to height, its variance, its covariance with velocity."""
        if not self._configuration.ground_changes:
            return np.zeros((count, 3))
        unsure_m2 = self._ground_gain * self._entry.touchdown_stddev_m**2
        return np.tile([ground.height_m, ground.hops * unsure_m2, 0.0], (count, 1))

    def _after_hop(self, ground: Ground, height_m: float, velocity_m_s: float) -> Ground:
        """After a touchdown at that height above the ground of the stance before: eq. (12), corrected.

        Training knows by how much a touchdown is seen too high on level ground, and how that varies. The ground's
        change is then the mean of what is likely of it, given how much ground changes (`ground_step_stddev_m`).
        """
        standing = self._body.length
        apex = ground.apex_m if math.isfinite(ground.apex_m) else standing + velocity_m_s**2 / (2.0 * _GRAVITY_M_S2)
        constant, per_velocity, per_apex = self._entry.touchdown_fit
        change = height_m - standing - (constant + per_velocity * velocity_m_s + per_apex * apex)
        believed_m = standing + self._ground_gain * change
        if not math.isfinite(believed_m):
            raise FilterBreakdown(f"hop {ground.hops + 1}: the height at touchdown is {believed_m}, not a number of m")
        return Ground(ground.height_m + (believed_m - standing), ground.hops + 1)


@njit(cache=True, error_model="numpy")
def _scaled(out: Array, ground: Array, scales: Array, floors: Array) -> tuple[Array, Array]:
    """(N, 2) means and (N, 2, 2) covariances from the filter's: scaled by phase, above the ground of the start.

    `ground` (N, 3) is what that adds to them; `scales` and `floors` by phase.
    """
    means, covariances = np.empty((len(out), 2)), np.empty((len(out), 2, 2))
    for n in range(len(out)):
        z, v, zz, zv, vv, phase = out[n, :6]
        scale, floor = scales[int(phase)], floors[int(phase)]
        means[n, 0], means[n, 1] = z + ground[n, 0], v
        covariances[n, 0, 0] = scale[0] * zz + floor[0] + ground[n, 1]
        covariances[n, 0, 1] = covariances[n, 1, 0] = scale[1] * zv + ground[n, 2]
        covariances[n, 1, 1] = scale[2] * vv + floor[1]
    return means, covariances
