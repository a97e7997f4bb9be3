"""The hopper's estimators in the pipeline: messages in, height and vertical velocity with phase events out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hopper_estimation.estimators import readings_kernels, samples
from hopper_estimation.estimators.filters import Filtered, FilterEntry, State, body_of, state_filter
from hopper_estimation.estimators.samples import Messages, Taken
from hopper_estimation.estimators.sensor_faults import rest_fault, sensor_faults
from hopper_estimation.model.configuration import LOW_G, HopperConfiguration
from hopper_estimation.model.phases import APEX, DROP, EVENTS, PHASE_AFTER, PHASES, STARTUP, TOUCHDOWN, Records, copied
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, POSE, Estimate, Measurement, PhaseEvent, Scanned
from onboard_estimation.base.series import SET_POSE, Series
from onboard_estimation.filtering.state_space import StateSpace, vector
from onboard_estimation.pipeline.bulk_record import FilteredRecording
from onboard_estimation.pipeline.estimator import Estimator, FilterBreakdown, SensorsRefused, Step
from onboard_estimation.pipeline.sensor_trust import fault_news
from onboard_estimation.pipeline.use_counters import UseCounters

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
    """

    sample: Records
    readings: Records
    vertical: State
    ground: Ground


class _Block(NamedTuple):
    """What came of messages: the state after them, E estimates and the stamps and numbers of their messages, events.

    `is_sound`: all that is known of the events is numbers.
    """

    state: HopperState
    means: Array
    covariances: Array
    stamps_ns: NDArray[np.int64]
    made_of: NDArray[np.int64]
    events: Sequence[PhaseEvent] = ()
    is_sound: bool = True


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
        return sensor_faults(self._configuration, state.readings, state.ground.hops)

    def step(self, state: HopperState, measurement: Measurement) -> Step:
        """Filter a message; an estimate at each sample, see `samples`."""
        if measurement.sensor == SET_POSE:
            return Step(self._at_pose(state, measurement.value))
        if measurement.sensor not in samples.KIND_OF:
            return Step(state)
        block = self._filtered(*self._taken(state, samples.messages_of([measurement])))
        if not len(block.means):
            return Step(block.state)
        notices = fault_news(self.sensor_faults(state), self.sensor_faults(block.state), measurement.stamp_ns)
        estimate = Estimate(measurement.stamp_ns, block.means[0], block.covariances[0])
        return Step(block.state, estimate, events=(*block.events, *notices))

    def scan(self, state: HopperState, measurements: Sequence[Measurement]) -> Scanned | None:
        """Up to the last reading of the low-g sensor, with which a sample is taken."""
        count = len(measurements)
        while count and measurements[count - 1].sensor != LOW_G.sensor:
            count -= 1
        if not count or any(one.sensor == SET_POSE for one in measurements[:count]):
            return None
        block = self._filtered(*self._taken(state, samples.messages_of(measurements[:count])))
        if self.sensor_faults(block.state) != self.sensor_faults(state):
            return None  # what there is to be said is found one by one
        found: list[tuple[Estimate | None, tuple[PhaseEvent, ...]]] = [(None, ())] * count
        for row, place in enumerate(block.made_of.tolist()):
            stamp_ns = measurements[place].stamp_ns
            seen = tuple(one for one in block.events if one.seen_ns == stamp_ns) if block.events else ()
            found[place] = Estimate(stamp_ns, block.means[row], block.covariances[row]), seen
        return Scanned(block.state, found, block.means, block.covariances)

    def filter_recording(
        self, state: HopperState, series: Sequence[Series], arrival: NDArray[np.int64], lag_s: float
    ) -> FilteredRecording | None:
        """The whole recording at once, cut where a pose was set."""
        state, taken = self._taken(state, samples.recorded_messages(series, arrival))
        poses = next((one for one in series if one.channel.sensor == SET_POSE), None)
        set_ns = poses.stamps_ns if poses is not None else np.empty(0, dtype=np.int64)
        cuts = [0, *np.searchsorted(taken.stamps_ns, set_ns, side="left").tolist(), len(taken.stamps_ns)]
        blocks = []
        for number, (start, stop) in enumerate(pairwise(cuts)):
            if number > 0 and poses is not None:
                state = self._at_pose(state, poses.values[number - 1])
            try:
                blocks.append(self._filtered(state, Taken._make(column[start:stop] for column in taken)))
            except FilterBreakdown:
                return None
            if not blocks[-1].is_sound:
                return None  # touchdowns without a height: the pipeline leaves out what they came from
            state = blocks[-1].state
        means, covariances, stamps_ns = (
            np.concatenate([getattr(one, name) for one in blocks]) for name in ("means", "covariances", "stamps_ns")
        )
        use = {one.channel.sensor: UseCounters(used=len(one.stamps_ns)) for one in series}
        return FilteredRecording(stamps_ns, means, covariances, use, (), tuple(e for one in blocks for e in one.events))

    def _at_pose(self, state: HopperState, value: Array) -> HopperState:
        """A known height: the drop begins there."""
        height, variance = float(value[POSE.position][_Z]), float(value[POSE.covariance][_ZZ])
        if not 0.0 < variance < _UNKNOWN_VARIANCE:
            return state
        zz, zv, vv = self._entry.start_covariance
        covariance = np.array([[max(zz, variance), zv], [zv, vv]])
        vertical = self._filter.set_to(state.vertical, height, 0.0, covariance, DROP)
        return state._replace(vertical=vertical, ground=Ground())

    def _taken(self, state: HopperState, messages: Messages) -> tuple[HopperState, Taken]:
        """Messages, all of `samples.KINDS`; SensorsRefused where their sensors cannot be right."""
        sample, readings = copied(state.sample), copied(state.readings)
        taken = samples.take(self._settings, sample, readings, messages)
        fault = rest_fault(self._configuration, readings)
        if fault is not None:
            raise SensorsRefused(fault)
        return state._replace(sample=sample, readings=readings), taken

    def _filtered(self, state: HopperState, taken: Taken) -> _Block:
        """Samples."""
        if not len(taken.signals):
            return _Block(state, np.empty((0, 2)), np.empty((0, 2, 2)), taken.stamps_ns, taken.made_of)
        vertical = tuple(map(copied, state.vertical))
        filtered = self._filter.run(self._entry.parameters, self._body, vertical, taken.signals)
        ground, above, events = self._along(state.ground, filtered, taken.stamps_ns)
        # One layout only: for another one numba would call its compiler back into a node that runs.
        means, covariances = _scaled(filtered.out, np.ascontiguousarray(above), self._scales, self._floors)
        after = state._replace(vertical=vertical, ground=ground)
        is_sound = all(np.isfinite(filtered.events[name]).all() for name in ("height", "velocity", "variance"))
        return _Block(after, means, covariances, taken.stamps_ns, taken.made_of, events, is_sound)

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
