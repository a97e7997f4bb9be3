"""What filters on pressures and wrench have in common: stamps, hoses, sensors silent or stuck, and where it starts.

A pressure is held until the next one of its chamber. Whatever comes first at a stamp moves the filter up to it, with
the pressures of before; a wrench then corrects it.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.estimator import Estimator, FilterBreakdown, Step
from onboard_estimation.filtering.gating import Innovation
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Estimate, Matrix, Measurement, Notice, Vector
from softrobot_estimation import grey_box_kernels as kernels
from softrobot_estimation.channels import WRENCH, pressure_channel
from softrobot_estimation.configuration import SoftRobotConfiguration
from softrobot_estimation.grey_box import STEP_S, GreyBox
from softrobot_estimation.nominal_segment import coordinates_of_tip
from softrobot_estimation.space import SPACE

Filtered = TypeVar("Filtered")

SILENT_S = 0.25
"""After which the pressure of a chamber may be any, and estimates come with pressures instead of wrenches."""
FORGOTTEN_S = 5.0
"""What came before is damped away: of a longer pause only so much is integrated."""
STUCK_AFTER = 60
"""Equal readings in a row: real ones have noise."""

_PIECE_S = 0.01
_PLACE = np.arange(3)
_SETTLING_S = 4.0
_LARGEST_START_RAD = 2.0
_START_SHARE = 0.2
"""Standard deviation of where it starts bent by pressures, as a share of that."""


class Sensors(NamedTuple):
    """What has been heard; (C,) by chamber.

    Attributes
    ----------
    stamp_ns
        Up to which the filter has come; None before the first measurement.
    readings_pa
        Last gauge pressures, without the transducers' offsets; NaN before the first.
    chambers_pa
        Pressures behind the hoses.
    heard_ns
        When a chamber's reading last changed.
    repeated
        How often it has been the same in a row.
    wrench
        Last one (6,), as it was sent.
    wrench_ns, wrench_repeated
        The same of the wrench.
    """

    stamp_ns: int | None
    readings_pa: Vector
    chambers_pa: Vector
    heard_ns: NDArray[np.int64]
    repeated: NDArray[np.int64]
    wrench: Vector
    wrench_ns: int
    wrench_repeated: int


class FilterState(NamedTuple, Generic[Filtered]):
    """All that measurements change; `filtered` is None until all pressures were heard."""

    sensors: Sensors
    initial: Estimate | None
    filtered: Filtered | None = None
    silent: tuple[str, ...] = ()
    rejected_in_a_row: int = 0


class WrenchFilter(Estimator[FilterState[Any]], Generic[Filtered]):
    """Tip and stiffness from pressures and wrench; what kind of filter it is, subclasses say."""

    space = SPACE

    def __init__(self, configuration: SoftRobotConfiguration) -> None:
        self.configuration = configuration
        self.grey_box = GreyBox(configuration)
        names = configuration.chambers.names
        self._chamber_of = {pressure_channel(name).sensor: place for place, name in enumerate(names)}
        wrench, settings = configuration.wrench, configuration.filter
        sign = 1.0 if wrench.sign == "robot_on_sensor" else -1.0
        self._into_base = sign * np.kron(np.eye(2), wrench.base_from_sensor)
        offsets = np.repeat([wrench.force_drift_n, wrench.torque_drift_n_m], 3)
        self.offset_start = np.zeros(6)
        if wrench.tare == "with_robot":
            row, stiffness = self.grey_box.resting_row()[None], np.array([self.grey_box.stiffness])
            self.offset_start = -self.grey_box.loads(row, stiffness, np.zeros(len(names)))[0]
        # Zeroed in the morning: by now it is off by as much as it drifts in a run, and again.
        self.offset_stddev = np.sqrt(2.0) * offsets
        across = [settings.force_walk_n_sqrt_s] * 2 + [wrench.force_drift_n / np.sqrt(60.0)]
        self.offset_walk = np.array([*across, *[settings.torque_walk_n_m_sqrt_s] * 2, settings.torque_walk_n_m_sqrt_s])
        self.wrench_stddev = np.array(
            [settings.force_stddev_n] * 3 + [settings.torque_stddev_n_m] * 2 + [settings.twist_stddev_n_m]
        )
        turning = configuration.chambers.area_m2 * configuration.chambers.centre_radius_m
        self._unsure_moment = turning * configuration.chambers.pressure_max_pa / np.sqrt(12.0)

    @abstractmethod
    def begun(self, rows: Vector, stddev: Vector, stiffness: float, stiffness_stddev: float) -> Filtered:
        """A filter whose robot stands at a row (ROW,), with standard deviations of its columns, and that stiffness."""

    @abstractmethod
    def moved(self, filtered: Filtered, mean_pa: Vector, step_s: float, moment_stddev_n_m: float) -> Filtered:
        """After a step through chambers' mean pressures (C,)."""

    @abstractmethod
    def corrected(
        self, filtered: Filtered, wrench: Vector, chambers_pa: Vector, rejected_in_a_row: int
    ) -> tuple[Filtered, Innovation, int, tuple[Notice, ...]]:
        """By a wrench (6,) in the base's frame; rejections in a row with this one."""

    @abstractmethod
    def published(self, filtered: Filtered, chambers_pa: Vector) -> tuple[Vector, Matrix]:
        """Mean (7,) and covariance (7, 7), new ones, in `SPACE`: of a robot that is quite the grey box."""

    def start(self, initial: Estimate | None) -> FilterState[Filtered]:
        """Nothing heard yet."""
        count = len(self._chamber_of)
        stamp_ns = None if initial is None else initial.stamp_ns
        sensors = Sensors(
            stamp_ns,
            np.full(count, np.nan),
            np.full(count, np.nan),
            np.zeros(count, dtype=np.int64),
            np.zeros(count, dtype=np.int64),
            np.full(6, np.nan),
            stamp_ns or 0,
            0,
        )
        return FilterState(sensors, initial)

    def step(self, state: FilterState[Filtered], measurement: Measurement) -> Step:
        """A pressure or a wrench; see the module."""
        chamber = self._chamber_of.get(measurement.sensor)
        if chamber is None and measurement.sensor != WRENCH.sensor:
            return Step(state, used=False)
        state, moved = self._moved_to(state, measurement.stamp_ns)
        state, events = self._listened(state, measurement.stamp_ns)
        if chamber is not None:
            state = self._with_pressure(state, chamber, measurement)
            late = measurement.stamp_ns - state.sensors.wrench_ns > SILENT_S * NANOSECONDS_PER_SECOND
            return Step(state, self._estimate(state) if moved and late else None, events=events)
        return self._with_wrench(state, measurement, events)

    def _with_pressure(
        self, state: FilterState[Filtered], chamber: int, measurement: Measurement
    ) -> FilterState[Filtered]:
        sensors, stamp_ns = state.sensors, measurement.stamp_ns
        gauge = measurement.value[0] - self.configuration.pressure.ambient_pa - self.grey_box.offsets_pa[chamber]
        readings, heard, repeated = sensors.readings_pa.copy(), sensors.heard_ns.copy(), sensors.repeated.copy()
        repeated[chamber] = repeated[chamber] + 1 if gauge == readings[chamber] else 0
        if repeated[chamber] < STUCK_AFTER:
            heard[chamber] = stamp_ns
        readings[chamber] = gauge
        sensors = sensors._replace(readings_pa=readings, heard_ns=heard, repeated=repeated)
        if state.filtered is None and np.isfinite(readings).all():
            sensors = sensors._replace(stamp_ns=stamp_ns, chambers_pa=readings)
            return state._replace(sensors=sensors, filtered=self._begun(state.initial, readings))
        return state._replace(sensors=sensors)

    def _with_wrench(self, state: FilterState[Filtered], measurement: Measurement, events: tuple[Notice, ...]) -> Step:
        sensors = state.sensors
        repeated = sensors.wrench_repeated + 1 if np.array_equal(sensors.wrench, measurement.value) else 0
        stuck = repeated >= STUCK_AFTER
        wrench_ns = sensors.wrench_ns if stuck else measurement.stamp_ns
        state = state._replace(
            sensors=sensors._replace(wrench=measurement.value, wrench_ns=wrench_ns, wrench_repeated=repeated)
        )
        if repeated == STUCK_AFTER:
            events += (Notice(f"the wrench has not changed for {STUCK_AFTER} readings: it is left out until it does"),)
        if state.filtered is None or stuck:
            return Step(state, events=events, used=False)
        filtered, seen, rejected, found = self.corrected(
            state.filtered, self._into_base @ measurement.value, state.sensors.chambers_pa, state.rejected_in_a_row
        )
        state = state._replace(filtered=filtered, rejected_in_a_row=rejected)
        return Step(state, self._estimate(state), seen, (*events, *found))

    def _moved_to(self, state: FilterState[Filtered], stamp_ns: int) -> tuple[FilterState[Filtered], bool]:
        """Up to a stamp, in pieces, with the pressures that were read before; whether there was anything to do."""
        sensors, filtered = state.sensors, state.filtered
        if filtered is None or sensors.stamp_ns is None or stamp_ns <= sensors.stamp_ns:
            return state, False
        elapsed_s = min((stamp_ns - sensors.stamp_ns) / NANOSECONDS_PER_SECOND, FORGOTTEN_S)
        pieces = int(np.ceil(elapsed_s / _PIECE_S - 1e-9))
        settings, chambers_pa = self.configuration.filter, sensors.chambers_pa
        moment = settings.moment_stddev_n_m
        if state.silent:
            moment = float(np.hypot(moment, len(state.silent) * self._unsure_moment))
        for _ in range(pieces):
            chambers_pa, mean_pa = self.grey_box.through_hoses(sensors.readings_pa, chambers_pa, elapsed_s / pieces)
            filtered = self.moved(filtered, mean_pa, elapsed_s / pieces, moment)
        sensors = sensors._replace(stamp_ns=stamp_ns, chambers_pa=chambers_pa)
        return state._replace(sensors=sensors, filtered=filtered), True

    def _listened(self, state: FilterState[Filtered], now_ns: int) -> tuple[FilterState[Filtered], tuple[Notice, ...]]:
        """With the chambers whose pressure has not changed for too long, and a sentence on each new one of them."""
        if state.filtered is None:
            return state, ()
        quiet = now_ns - state.sensors.heard_ns > SILENT_S * NANOSECONDS_PER_SECOND
        if not quiet.any() and not state.silent:
            return state, ()
        names = self.configuration.chambers.names
        silent = tuple(names[place] for place in np.flatnonzero(quiet))
        events = tuple(
            Notice(
                f"no news of the pressure in {name} for {SILENT_S:g} s, missing or stuck: from here on the filter "
                "counts on its last one, which may be off by the whole range"
            )
            for name in silent
            if name not in state.silent
        )
        return state._replace(silent=silent), events

    def _estimate(self, state: FilterState[Filtered]) -> Estimate | None:
        sensors = state.sensors
        if state.filtered is None or sensors.stamp_ns is None:
            return None
        mean, covariance = self.published(state.filtered, sensors.chambers_pa)
        settings = self.configuration.filter
        place = settings.place_stddev_m**2 + settings.place_share**2 * float(mean[0] ** 2 + mean[1] ** 2)
        covariance[_PLACE, _PLACE] += place
        covariance[6, 6] += (settings.stiffness_share * mean[6]) ** 2
        if not np.isfinite(mean).all():
            raise FilterBreakdown("the model bends by more than a full circle")
        return Estimate(sensors.stamp_ns, mean, covariance)

    def _begun(self, initial: Estimate | None, readings_pa: Vector) -> Filtered:
        """Where it was given to be, else where those pressures hold it."""
        box, settings, known = self.grey_box, self.configuration.filter, self.configuration.initial
        length_m = self.configuration.segment.length_m
        row, stddev = self._settled(readings_pa), np.zeros(kernels.ROW)
        place, velocity = known.position_stddev_m, known.velocity_stddev_m_s
        stiffness, spread = box.stiffness, settings.stiffness_spread
        if initial is not None:
            segment, mean = box.segment, initial.mean
            row[:3] = coordinates_of_tip(segment, mean[None, SPACE.coordinates("position")], box.beyond_m)[0]
            jacobian, _ = segment.jacobian(row[:6], offset_m=box.beyond_m)
            row[3:6] = np.linalg.solve(jacobian, mean[SPACE.coordinates("velocity")])
            row[6:12] = np.tile(row[:3], 2)
            total = float(1e-5 * readings_pa.sum())
            stiffness = float(mean[6]) / kernels.law(box.behaviour, float(row[0] ** 2 + row[1] ** 2), total)
            deviations = np.sqrt(np.diag(initial.covariance))
            place, velocity = float(deviations[:3].max()), float(deviations[3:6].max())
            spread = float(deviations[6]) / stiffness
        else:
            place += _START_SHARE * length_m * float(np.hypot(row[0], row[1]))
        # A tip is its length times half its bending away from the straight one.
        angle, rate = 2.0 * place / length_m, 2.0 * velocity / length_m
        stddev[:6] = [angle, angle, 0.2 * place, rate, rate, 0.2 * velocity]
        stddev[6:12] = stddev[[0, 1, 2, 0, 1, 2]]
        stddev[kernels.MOMENTS : kernels.PAYLOAD] = settings.moment_stddev_n_m
        stddev[kernels.PAYLOAD] = settings.payload_stddev_kg
        stddev[kernels.REST : kernels.ROW] = settings.rest_moment_stddev_n_m
        return self.begun(row, stddev, stiffness, spread)

    def _settled(self, readings_pa: Vector) -> Vector:
        """(ROW,) at rest under those pressures; as without them where it would fall over."""
        box = self.grey_box
        resting = box.resting_row()
        row, stiffness = resting[None].copy(), np.array([box.stiffness])
        for _ in range(round(_SETTLING_S / STEP_S)):
            row = box.propagate(row, stiffness, readings_pa, STEP_S)
        if not np.hypot(row[0, 0], row[0, 1]) < _LARGEST_START_RAD:
            return resting
        row[0, 3:6] = 0.0
        row[0, 6:12] = np.tile(row[0, :3], 2)
        settled: Vector = row[0]
        return settled
