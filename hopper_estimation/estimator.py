"""The hopper's estimators in the pipeline: messages in, height and vertical velocity with phase events out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hopper_estimation import vertical_kernels as kernels
from hopper_estimation.configuration import HopperConfiguration
from hopper_estimation.filter_kinds import state_filter
from hopper_estimation.filter_model import FilterEntry
from hopper_estimation.ground_height import DIRECT, GroundHeight
from hopper_estimation.phases import APEX, DROP, EVENTS, PHASE_AFTER, PHASES, STARTUP, TOUCHDOWN
from hopper_estimation.rest_fault import rest_fault
from hopper_estimation.samples import RANKS, SampleMaker, samples_of
from hopper_estimation.vertical_filter import HopperFilter
from onboard_estimation.bulk_record import BulkRecord, MeasurementSeries
from onboard_estimation.errors import UserError
from onboard_estimation.filtering.state_space import StateSpace, vector
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Estimate, Measurement, PhaseEvent
from onboard_estimation.pipeline import Estimator, FilterBreakdown
from onboard_estimation.simulation import SET_POSE
from onboard_estimation.use_counters import UseCounters

Array = NDArray[np.float64]

SPACE = StateSpace(vector("height", ("z",), "m"), vector("vertical_velocity", ("vz",), "m/s"))
_Z_VARIANCE = 7 + 2 * 6 + 2
_GRAVITY_M_S2 = 9.80665
_UNKNOWN_VARIANCE = 1e3
"""Of a pose that was set: a height with a larger variance, m^2, is none (RViz sets x, y and heading only)."""


class HopperEstimator(Estimator):
    """One of the hopper's filters.

    Parameters
    ----------
    name
        Of the estimator, see `filter_kinds`.
    entry
        Its trained parameters.
    initial
        Height and velocity to start from (None: standing); messages from before are left out.
    """

    phases = PHASES

    def __init__(
        self, configuration: HopperConfiguration, name: str, entry: FilterEntry, initial: Estimate | None = None
    ) -> None:
        super().__init__()
        self.space = SPACE
        self.name = name
        self._configuration = configuration
        self._entry = entry
        self._initial = initial
        # Variance and covariance by phase: the filter's, scaled, and a floor, see `FilterEntry`.
        z, v = entry.height_scale, entry.velocity_scale
        self._scales = np.column_stack([z**2, z * v, v**2])
        self._floors = np.column_stack([entry.height_floor_m**2, entry.velocity_floor_m_s**2])
        step = configuration.ground_step_stddev_m**2
        self._ground_gain = step / (step + entry.touchdown_stddev_m**2)
        self.refusal: str | None = None
        self._events: list[PhaseEvent] = []
        self.reset()

    def rank(self, sensor: str) -> int:
        """Order among messages with the same stamp: commands, attitude and leg, high-g, low-g."""
        return RANKS.get(sensor, 0)

    def reset(self) -> None:
        """As before the first message."""
        self._filter = HopperFilter(
            self._configuration, state_filter(self.name, self._configuration.robot), self._entry
        )
        if self._initial is not None:
            mean, covariance = self._initial.mean, self._initial.covariance
            self._filter.set_state(float(mean[0]), float(mean[1]), covariance, STARTUP)
        self._maker = SampleMaker(self._configuration)
        self._phase = STARTUP
        self._ground = GroundHeight(self._configuration.robot.standing_height_m)
        self._apex_m = float("nan")
        self.refusal = None
        self._events = []

    @property
    def phase(self) -> str | None:
        """The phase that the robot is in."""
        return PHASES[self._phase]

    def apply(self, measurement: Measurement) -> Estimate | None:
        """Filter a message; an estimate at each sample, see `hopper_samples`."""
        if self.refusal is not None or self._is_early(measurement.stamp_ns):
            self.left_out = True
            return None
        if measurement.sensor == SET_POSE:
            self._set_pose(measurement.value)
            return None
        samples = self._maker.add(measurement)
        if samples is None:
            return None
        result = self._filter.run(samples)
        self.refusal = rest_fault(self._configuration, self._filter.state.readings)
        if self.refusal is not None:
            raise FilterBreakdown(self.refusal)
        self._phase = int(result.out[0, 5])
        self._note(result.events, samples.stamps_ns, self._events)
        hops = np.array([self._ground.hops])
        out = self._above_start(result.out, np.array([self._ground_m]))
        return Estimate(measurement.stamp_ns, out[0, :2].copy(), self._covariances(out, hops)[0])

    def _is_early(self, stamp_ns: int) -> bool:
        return self._initial is not None and stamp_ns < self._initial.stamp_ns

    def _set_pose(self, value: Array) -> None:
        """A known height: the drop begins there."""
        height, variance = float(value[2]), float(value[_Z_VARIANCE])
        if not 0.0 < variance < _UNKNOWN_VARIANCE:
            return
        zz, zv, vv = self._entry.start_covariance
        self._filter.set_state(height, 0.0, np.array([[zz, zv], [zv, vv]]))
        self._ground = GroundHeight(self._configuration.robot.standing_height_m)
        self._phase = DROP

    @property
    def _ground_m(self) -> float:
        return self._ground.height_m(DIRECT) if self._configuration.ground_changes else 0.0

    def _above_start(self, out: Array, ground_m: Array) -> Array:
        """Heights above the ground of the start, from those above the ground of the last stance."""
        if self._configuration.ground_changes:
            out = out.copy()
            out[:, 0] += ground_m
        return out

    def _covariances(self, out: Array, hops: NDArray[np.int64]) -> Array:
        """(K, 2, 2) covariances as published: the filter's, scaled by phase, and the ground's after so many hops."""
        phase = out[:, 5].astype(np.int64)
        scale, floor = self._scales[phase], self._floors[phase]
        covariances = np.empty((len(out), 2, 2))
        covariances[:, 0, 0] = scale[:, 0] * out[:, 2] + floor[:, 0]
        covariances[:, 0, 1] = covariances[:, 1, 0] = scale[:, 1] * out[:, 3]
        covariances[:, 1, 1] = scale[:, 2] * out[:, 4] + floor[:, 1]
        if self._configuration.ground_changes:
            covariances[:, 0, 0] += hops * self._ground_gain * self._entry.touchdown_stddev_m**2
        return covariances

    def _note(self, events: Array, stamps_ns: NDArray[np.int64], into: list[PhaseEvent]) -> None:
        """Events of samples with these stamps, and what they say of the ground."""
        for row in events:
            kind, sample = int(row[kernels.E_KIND]), int(row[kernels.E_SAMPLE])
            seen_ns = int(stamps_ns[sample])
            late_ns = round(float(self._entry.event_delay_s[kind]) * NANOSECONDS_PER_SECOND)
            height = float(row[kernels.E_HEIGHT])
            if kind == TOUCHDOWN:
                self._ground = self._ground.after_hop(
                    self._apex_m, self._touchdown_height(height, float(row[kernels.E_VELOCITY]))
                )
                self._apex_m = float("nan")
            elif kind == APEX:
                self._apex_m = height
            into.append(
                PhaseEvent(
                    EVENTS[kind],
                    seen_ns - late_ns,
                    seen_ns,
                    float(self._entry.event_stddev_s[kind]),
                    PHASE_AFTER[kind],
                    height + self._ground_m,
                )
            )

    def _touchdown_height(self, height_m: float, velocity_m_s: float) -> float:
        """Height at a touchdown above the ground of the stance before, as far as it is believed: eq. (12), corrected.

        Training knows by how much a touchdown is told too high on level ground, and how that varies. The ground's
        change is then the mean of what is likely of it, given how much ground changes (`ground_step_stddev_m`).
        """
        standing = self._configuration.robot.standing_height_m
        apex = self._apex_m if math.isfinite(self._apex_m) else standing + velocity_m_s**2 / (2.0 * _GRAVITY_M_S2)
        constant, per_velocity, per_apex = self._entry.touchdown_fit
        change = height_m - standing - (constant + per_velocity * velocity_m_s + per_apex * apex)
        return standing + self._ground_gain * change

    def take_events(self) -> list[PhaseEvent]:
        """Those seen since the last call."""
        events, self._events = self._events, []
        return events

    def snapshot(self) -> Any:
        """All that messages change."""
        return (
            self._filter.state,
            self._maker.snapshot(),
            self._phase,
            self._ground,
            self._apex_m,
            tuple(self._events),
        )

    def restore(self, snapshot: Any) -> None:
        """Return to a snapshot."""
        self._filter.state, held, self._phase, self._ground, self._apex_m, events = snapshot
        self._maker.restore(held)
        self._events = list(events)

    def filter_recording(
        self, series: Sequence[MeasurementSeries], arrival: NDArray[np.int64], lag_s: float
    ) -> BulkRecord | None:
        """The whole recording at once, cut where a pose was set; UserError where the sensors cannot be right."""
        self.reset()
        early = self._initial.stamp_ns if self._initial is not None else None
        used = [_later(one, early) for one in series]
        samples = samples_of(self._configuration, used)
        poses = next((one for one in used if one.channel.sensor == SET_POSE), None)
        set_ns = poses.stamps_ns if poses is not None else np.empty(0, dtype=np.int64)
        cuts = [0, *np.searchsorted(samples.stamps_ns, set_ns, side="left").tolist(), len(samples.dt)]
        events: list[PhaseEvent] = []
        outs, grounds, counts = [], [], []
        for number, (start, stop) in enumerate(pairwise(cuts)):
            if number > 0 and poses is not None:
                self._set_pose(poses.values[number - 1])
            part = samples.part(start, stop)
            result = self._filter.run(part)
            if not np.isfinite(result.events).all():
                return None  # touchdowns without a height: the pipeline leaves out what they came from
            ground, hops = self._ground_along(result.events, part.stamps_ns, events)
            grounds.append(ground)
            counts.append(hops)
            outs.append(result.out)
        fault = rest_fault(self._configuration, self._filter.state.readings)
        if fault is not None:
            raise UserError(fault)
        out = self._above_start(np.concatenate(outs), np.concatenate(grounds))
        use = {
            one.channel.sensor: UseCounters(
                used=len(later.stamps_ns), left_out=len(one.stamps_ns) - len(later.stamps_ns)
            )
            for one, later in zip(series, used, strict=True)
        }
        return BulkRecord(
            samples.stamps_ns, out[:, :2].copy(), self._covariances(out, np.concatenate(counts)), use, (), tuple(events)
        )

    def _ground_along(
        self, found: Array, stamps_ns: NDArray[np.int64], into: list[PhaseEvent]
    ) -> tuple[Array, NDArray[np.int64]]:
        """(N,) height of the ground and number of hops at each sample, noting the events on the way."""
        ground, hops = np.empty(len(stamps_ns)), np.empty(len(stamps_ns), dtype=np.int64)
        filled = 0
        for row in found:
            if int(row[kernels.E_KIND]) == TOUCHDOWN:
                first = int(row[kernels.E_SAMPLE])
                ground[filled:first], hops[filled:first], filled = self._ground_m, self._ground.hops, first
            self._note(row[None], stamps_ns, into)
        ground[filled:], hops[filled:] = self._ground_m, self._ground.hops
        return ground, hops


def _later(one: MeasurementSeries, start_ns: int | None) -> MeasurementSeries:
    """A series from a stamp on."""
    if start_ns is None or not len(one.stamps_ns) or one.stamps_ns[0] >= start_ns:
        return one
    from onboard_estimation.series import Series

    first = int(np.searchsorted(one.stamps_ns, start_ns))
    return Series(one.channel, one.stamps_ns[first:], one.values[first:])
