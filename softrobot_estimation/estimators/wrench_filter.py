"""What filters on pressures and wrench have in common: stamps, hoses, sensors silent or stuck, and where it starts.

A pressure is held until the next one of its chamber. Whatever comes first at a stamp lets pass the time up to it, with
the pressures of before; the filter makes a step when a wrench comes to correct it, or much time has passed.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Estimate, Matrix, Measurement, Notice, Vector
from onboard_estimation.filtering.gating import Innovation
from onboard_estimation.pipeline.estimator import Estimator, FilterBreakdown, Step
from softrobot_estimation.model import grey_box_kernels as kernels
from softrobot_estimation.model.configuration import SPACE, WRENCH, SoftRobotConfiguration, pressure_channel
from softrobot_estimation.model.constant_curvature import state_of_tip
from softrobot_estimation.model.grey_box import STEP_S, GreyBox

Filtered = TypeVar("Filtered")

SILENT_S = 0.25
"""After which the pressure of a chamber may be any, and estimates come with pressures instead of wrenches."""
WAITING_S = 1.0
"""For the first pressure of a chamber, until somebody is told."""
FORGOTTEN_S = 5.0
"""What came before is damped away: of a longer pause only so much is integrated."""
STUCK_AFTER, WRENCH_STUCK_AFTER = 60, 12
"""Equal readings in a row: real ones have noise, and six of them at once are never equal for long."""

WEIGHED = 100
"""Wrenches from which the weight is read at the start."""

_SILENT_NS = round(SILENT_S * NANOSECONDS_PER_SECOND)
_TURNED = 1e-9
_ELEMENTS = tuple(f"{what}_{axis}" for what in ("force", "torque") for axis in "xyz")
_PIECE_S, _LONGEST_STEP_S = 0.01, 0.0105
"""Through which pressures are held; and through which a mean may stand for those that were read on the way."""
_IN_PLACE = np.eye(3)
_SETTLING_S = 4.0
_LARGEST_START_RAD = 2.0
_START_SHARE = 0.2
"""Standard deviation of where it starts bent by pressures, as a share of that."""


class Pending(NamedTuple):
    """A step that the filter has yet to make: through the mean of the pressures meanwhile."""

    mean_pa: Vector
    step_s: float
    moment_stddev_n_m: float


class FilterState(NamedTuple, Generic[Filtered]):
    """All that measurements change; by chamber.

    Attributes
    ----------
    initial
        What the filter was given to start from.
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
    wrench_ns
        When any of it last changed; before the first one, when the first of all measurements came.
    wrench_repeated
        (6,) how often each of its elements has been the same in a row.
    filtered
        Of the filter; None until all pressures were heard.
    pending
        From its stamp to `stamp_ns`; None: it is there.
    silent, standing
        Sensors that have been missing or stuck for too long, and elements of a wrench that is not.
    weighed
        The first readings of the weight: how many, and their sum, N.
    """

    initial: Estimate | None
    stamp_ns: int | None
    readings_pa: Vector
    chambers_pa: Vector
    heard_ns: tuple[int, ...]
    repeated: tuple[int, ...]
    wrench: Vector
    wrench_ns: int
    wrench_repeated: NDArray[np.int64]
    filtered: Filtered | None = None
    pending: Pending | None = None
    silent: tuple[str, ...] = ()
    standing: tuple[str, ...] = ()
    weighed: tuple[int, float] = (0, 0.0)
    rejected_in_a_row: int = 0


class WrenchFilter(Estimator[FilterState[Any]], Generic[Filtered]):
    """Tip and stiffness from pressures and wrench; what kind of filter it is, subclasses say."""

    space = SPACE
    linearised = False  # what it estimates is a part of what it filters; the rest starts anew

    def __init__(self, configuration: SoftRobotConfiguration) -> None:
        self.configuration = configuration
        self.grey_box = GreyBox(configuration)
        self._offsets_pa = self.grey_box.offsets_pa.tolist()
        names = configuration.chambers.names
        self._chamber_of = {pressure_channel(name).sensor: place for place, name in enumerate(names)}
        wrench, settings = configuration.wrench, configuration.filter
        self._into_base = wrench.into_base
        ranges = np.repeat([wrench.force_range_n, wrench.torque_range_n_m], 3)
        self._range = np.where(ranges > 0.0, ranges, np.inf)
        # One element alone may read the same again and again where its steps are coarser than its noise.
        noise, steps = (
            np.repeat(pair, 3)
            for pair in (
                [wrench.force_stddev_n, wrench.torque_stddev_n_m],
                [wrench.force_resolution_n, wrench.torque_resolution_n_m],
            )
        )
        self._is_noisy = noise >= steps
        offsets = np.repeat([wrench.force_drift_n, wrench.torque_drift_n_m], 3)
        self.offset_start = np.zeros(6)
        if wrench.tare == "with_robot":
            row, stiffness = self.grey_box.resting_row()[None], np.array([self.grey_box.stiffness])
            self.offset_start = -self.grey_box.loads(row, stiffness, np.zeros(len(names)))[0]
        # Zeroed in the morning: by now it is off by as much as it drifts in a run, and again.
        self.offset_stddev = np.sqrt(2.0) * offsets
        across = [settings.force_walk_n_sqrt_s] * 2 + [wrench.force_drift_n / np.sqrt(60.0)]
        self.offset_walk = np.array([*across, *[settings.torque_walk_n_m_sqrt_s] * 2, settings.torque_walk_n_m_sqrt_s])
        bending, elongation = settings.bending_rate_noise_rad_s_sqrt_s, settings.elongation_rate_noise_m_s_sqrt_s
        self.rate_walk = np.array([bending, bending, elongation])
        self.wrench_stddev = np.array(
            [settings.force_stddev_n] * 3 + [settings.torque_stddev_n_m] * 2 + [settings.twist_stddev_n_m]
        )
        # Of a chamber that may have any pressure: generalised forces by the mean size of their gains.
        unsure_pa = configuration.chambers.pressure_max_pa / np.sqrt(12.0)
        gains = np.abs(self.grey_box.gains).max(axis=1) * unsure_pa
        self._unsure_moment = float(gains[:2].max())
        self._unsure_elongation_m = float(gains[2]) / configuration.stiffness.axial_n_per_m

    @abstractmethod
    def begun(self, rows: Vector, stddev: Vector, stiffness: float, stiffness_stddev: float) -> Filtered:
        """A filter whose robot stands at a row (ROW,), with standard deviations of its columns, and that stiffness."""

    @abstractmethod
    def moved(self, filtered: Filtered, pending: Pending, chambers_pa: Vector) -> Filtered:
        """After a step; of chambers the pressures at its end."""

    @abstractmethod
    def eased(self, filtered: Filtered, share: float) -> Filtered:
        """With that share of the moments that nobody knows, and of their deviations: a chamber was heard again."""

    @abstractmethod
    def placed(self, filtered: Filtered, row: Vector, stddev: Vector) -> Filtered:
        """With another pose, its rates, what has relaxed, and moments: its first PAYLOAD columns."""

    @abstractmethod
    def corrected(
        self, filtered: Filtered, state: FilterState[Filtered], wrench: Vector
    ) -> tuple[Filtered, Innovation, int, tuple[Notice, ...]]:
        """After the pending step, if there is one, by a wrench (6,) in the base's frame, NaN where unknown.

        Rejections in a row with this one.
        """

    @abstractmethod
    def published(self, filtered: Filtered, chambers_pa: Vector) -> tuple[Vector, Matrix]:
        """Mean (7,) and covariance (7, 7), new ones, in `SPACE`: of a robot that is quite the grey box."""

    def start(self, initial: Estimate | None) -> FilterState[Filtered]:
        """Nothing heard yet."""
        count, stamp_ns = len(self._chamber_of), None if initial is None else initial.stamp_ns
        unheard, never = np.full(count, np.nan), (0,) * count
        return FilterState(
            initial, stamp_ns, unheard, unheard, never, never,
            wrench=np.full(6, np.nan), wrench_ns=stamp_ns or 0, wrench_repeated=np.zeros(6, dtype=np.int64),
        )  # fmt: skip

    def step(self, state: FilterState[Filtered], measurement: Measurement) -> Step:
        """A pressure or a wrench; see the module."""
        chamber, now_ns = self._chamber_of.get(measurement.sensor), measurement.stamp_ns
        if chamber is None and measurement.sensor != WRENCH.sensor:
            return Step(state, used=False)
        before_ns = now_ns if state.stamp_ns is None else state.stamp_ns
        if state.stamp_ns is None:
            state = state._replace(stamp_ns=now_ns, wrench_ns=now_ns)
        passed = state.filtered is not None and now_ns > before_ns
        if passed:
            state = self._waited(state, before_ns, now_ns)
        state, events = self._listened(state, before_ns, now_ns)
        if chamber is not None:
            state = self._with_pressure(state, chamber, measurement)
            if state.filtered is None or not (passed and now_ns - state.wrench_ns > _SILENT_NS):
                return Step(state, events=events)
            state = self._caught_up(state)
            return Step(state, self._estimate(state), events=events)
        state, wrench, found = self._with_wrench(state, measurement)
        filtered = state.filtered
        if filtered is None or wrench is None:
            return Step(state, events=(*events, *found), used=False)
        seen: Innovation | None = None
        if np.isnan(wrench).all():
            state = self._caught_up(state)
        else:
            filtered, seen, rejected, lost = self.corrected(filtered, state, wrench)
            state, found = state._replace(filtered=filtered, pending=None, rejected_in_a_row=rejected), (*found, *lost)
        return Step(state, self._estimate(state), seen, (*events, *found), used=seen is not None)

    def _with_pressure(
        self, state: FilterState[Filtered], chamber: int, measurement: Measurement
    ) -> FilterState[Filtered]:
        stamp_ns = measurement.stamp_ns
        gauge = float(measurement.value[0]) - self.configuration.pressure.ambient_pa - self._offsets_pa[chamber]
        readings, repeated = state.readings_pa.copy(), state.repeated[chamber] + 1
        if gauge != readings[chamber]:
            repeated = 0
        is_back = stamp_ns - state.heard_ns[chamber] > _SILENT_NS and repeated == 0
        quiet = self._quiet(state, stamp_ns) if is_back else 0
        readings[chamber] = gauge
        state = state._replace(
            readings_pa=readings,
            heard_ns=_with(state.heard_ns, chamber, stamp_ns) if repeated < STUCK_AFTER else state.heard_ns,
            repeated=_with(state.repeated, chamber, repeated),
        )
        if state.filtered is not None and is_back:
            # What it read last has long left the hose, and the moment that nobody knew was that of its pressure.
            state, chambers_pa = self._caught_up(state), state.chambers_pa.copy()
            assert state.filtered is not None
            chambers_pa[chamber] = gauge
            filtered = self.eased(state.filtered, self._moment_stddev(quiet - 1) / self._moment_stddev(quiet))
            if quiet == 1 and stamp_ns - state.wrench_ns > _SILENT_NS:  # a pause of all sensors is over
                filtered = self.placed(filtered, *self._standing(readings))
            return state._replace(chambers_pa=chambers_pa, filtered=filtered)
        if state.filtered is None and np.isfinite(readings).all():
            return state._replace(
                stamp_ns=stamp_ns, chambers_pa=readings, filtered=self._begun(state.initial, readings)
            )
        return state

    def _quiet(self, state: FilterState[Filtered], now_ns: int) -> int:
        """How many chambers have not been heard for too long."""
        return sum([now_ns - heard_ns > _SILENT_NS for heard_ns in state.heard_ns])

    def _moment_stddev(self, quiet: int) -> float:
        """Of moments that nobody knows, with so many chambers silent, N m."""
        return math.hypot(self.configuration.filter.moment_stddev_n_m, math.sqrt(quiet) * self._unsure_moment)

    def _with_wrench(
        self, state: FilterState[Filtered], measurement: Measurement
    ) -> tuple[FilterState[Filtered], Vector | None, tuple[Notice, ...]]:
        """With a wrench, and that (6,) in the base's frame: NaN where its elements are stuck, None where all are."""
        value = measurement.value
        repeated = np.where(value == state.wrench, state.wrench_repeated + 1, 0)
        stuck = repeated >= WRENCH_STUCK_AFTER
        wrench_ns = state.wrench_ns if stuck.all() else measurement.stamp_ns
        state = state._replace(wrench=value, wrench_ns=wrench_ns, wrench_repeated=repeated)
        if state.filtered is None or stuck.all():
            return state, None, ()
        wrench, unknown = self._into_base @ value, (stuck & self._is_noisy) | (np.abs(value) >= self._range)
        events: tuple[Notice, ...] = ()
        if unknown.any() or state.standing:
            standing = {_ELEMENTS[place]: float(value[place]) for place in np.flatnonzero(unknown)}
            events = tuple(
                Notice(
                    f"{name} of the wrench reads {reading:g} on and on, stuck or at the end of its range: it is left "
                    "out until it moves"
                )
                for name, reading in standing.items()
                if name not in state.standing
            )
            wrench[np.abs(self._into_base) @ unknown > _TURNED] = np.nan
            state = state._replace(standing=tuple(standing))
        weighed, doubts = self._weighed(state.weighed, wrench)
        return state._replace(weighed=weighed), wrench, (*events, *doubts)

    def _weighed(self, weighed: tuple[int, float], wrench: Vector) -> tuple[tuple[int, float], tuple[Notice, ...]]:
        """With one more reading of the weight, and what there is to be said of the first ones."""
        known, (count, total_n) = self.configuration, weighed
        if count == WEIGHED or math.isnan(along_n := float(wrench[:3] @ known.mounting.down_in_base)):
            return weighed, ()
        weighed = count, total_n = count + 1, total_n + along_n
        weight_n = known.segment.mass_kg * known.gravity_m_s2
        expected_n, found_n = (0.0 if known.wrench.tare == "with_robot" else weight_n), total_n / WEIGHED
        if count < WEIGHED or abs(found_n - expected_n) < 0.5 * weight_n:
            return weighed, ()
        return weighed, (
            Notice(
                f"the wrench starts with {found_n:.2f} N along gravity, and a robot of segment.mass_kg "
                f"{known.segment.mass_kg:g} puts {expected_n:.2f} N there with wrench.sign {known.wrench.sign} and "
                f"wrench.tare {known.wrench.tare}: one of them is wrong, and with it the estimate"
            ),
        )

    def _waited(self, state: FilterState[Filtered], start_ns: int, stamp_ns: int) -> FilterState[Filtered]:
        """Up to a stamp, in pieces, with the pressures that were read before; the filter follows when it has to."""
        elapsed_s = min((stamp_ns - start_ns) / NANOSECONDS_PER_SECOND, FORGOTTEN_S)
        pieces = math.ceil(elapsed_s / _PIECE_S - 1e-9)
        piece_s, chambers_pa = elapsed_s / pieces, state.chambers_pa
        for left in range(pieces - 1, -1, -1):
            quiet = self._quiet(state, stamp_ns - round(left * piece_s * NANOSECONDS_PER_SECOND))
            chambers_pa, mean_pa = self.grey_box.through_hoses(state.readings_pa, chambers_pa, piece_s)
            before, newest = state.pending, Pending(mean_pa, piece_s, self._moment_stddev(quiet))
            if before is not None and before.moment_stddev_n_m == newest.moment_stddev_n_m:
                together_s = before.step_s + piece_s
                if together_s <= _LONGEST_STEP_S:
                    mean_pa = (before.step_s * before.mean_pa + piece_s * mean_pa) / together_s
                    newest, before = Pending(mean_pa, together_s, newest.moment_stddev_n_m), None
            if before is not None:
                state = self._caught_up(state)
            state = state._replace(stamp_ns=stamp_ns, chambers_pa=chambers_pa, pending=newest)
        return state

    def _caught_up(self, state: FilterState[Filtered]) -> FilterState[Filtered]:
        """With the step that was pending, which no measurement corrects."""
        if state.pending is None or state.filtered is None:
            return state
        return state._replace(filtered=self.moved(state.filtered, state.pending, state.chambers_pa), pending=None)

    def _listened(
        self, state: FilterState[Filtered], stamp_ns: int, now_ns: int
    ) -> tuple[FilterState[Filtered], tuple[Notice, ...]]:
        """With the sensors that have been silent for too long, and a sentence on each new one of them."""
        names, waits = self.configuration.chambers.names, state.filtered is None
        if waits:
            waited = now_ns - stamp_ns > WAITING_S * NANOSECONDS_PER_SECOND
            silent = tuple(names[place] for place in np.flatnonzero(np.isnan(state.readings_pa))) if waited else ()
        else:
            deaf = now_ns - state.wrench_ns > _SILENT_NS
            if not (deaf or state.silent or now_ns - min(state.heard_ns) > _SILENT_NS):
                return state, ()
            quiet = [one for one, heard_ns in zip(names, state.heard_ns, strict=True) if now_ns - heard_ns > _SILENT_NS]
            silent = (*quiet, *[WRENCH.sensor] * deaf)
        events = tuple(Notice(_told_silent(name, waits)) for name in silent if name not in state.silent)
        return state._replace(silent=silent), events

    def _estimate(self, state: FilterState[Filtered]) -> Estimate:
        """Of what is published, with what a robot that is not quite the grey box may be off by."""
        known, box, settings = self.configuration, self.grey_box, self.configuration.filter
        assert state.stamp_ns is not None
        assert state.filtered is not None
        mean, covariance = self.published(state.filtered, state.chambers_pa)
        place = settings.place_stddev_m**2 + settings.place_share**2 * float(mean[0] ** 2 + mean[1] ** 2)
        # Elongation shows in no wrench: it is as unsure as axial stiffness and unheard chambers make it.
        longer_m = float(box.gains[2] @ state.chambers_pa) / known.stiffness.axial_n_per_m
        quiet = self._quiet(state, state.stamp_ns)
        unsure_m = math.hypot(
            known.model.axial_stiffness_spread * longer_m, math.sqrt(quiet) * self._unsure_elongation_m
        )
        along = unsure_m / (known.segment.length_m + box.beyond_m) * mean[:3]
        covariance[:3, :3] += place * _IN_PLACE + along[:, None] * along
        covariance[6, 6] += (settings.stiffness_share * mean[6]) ** 2
        if not np.isfinite(mean).all():
            raise FilterBreakdown("the model bends by more than a full circle")
        return Estimate(state.stamp_ns, mean, covariance)

    def _begun(self, initial: Estimate | None, readings_pa: Vector) -> Filtered:
        """Where it was given to be, else where those pressures hold it."""
        box, settings = self.grey_box, self.configuration.filter
        row, stddev = self._standing(readings_pa)
        stiffness, spread = box.stiffness, settings.stiffness_spread
        if initial is not None:
            mean = initial.mean
            place, velocity = (mean[SPACE.coordinates(name)] for name in ("position", "velocity"))
            row[:6], _ = state_of_tip(box.segment, place, velocity, box.beyond_m)
            row[6:12] = np.tile(row[:3], 2)
            total = float(1e-5 * readings_pa.sum())
            stiffness = float(mean[6]) / kernels.law(box.numbers, float(row[0] ** 2 + row[1] ** 2), total)
            deviations = np.sqrt(np.diag(initial.covariance))
            stddev = self._stddev(float(deviations[:3].max()), float(deviations[3:6].max()))
            spread = float(deviations[6] / mean[6])
        return self.begun(row, stddev, stiffness, spread)

    def _standing(self, readings_pa: Vector) -> tuple[Vector, Vector]:
        """(ROW,) where those pressures hold it, and standard deviations: the more, the more it is bent."""
        row, known = self._settled(readings_pa), self.configuration.initial
        bent = self.configuration.segment.length_m * float(np.hypot(row[0], row[1]))
        return row, self._stddev(known.position_stddev_m + _START_SHARE * bent, known.velocity_stddev_m_s)

    def _stddev(self, place: float, velocity: float) -> Vector:
        """(ROW,) of a robot whose tip's place and velocity are known to so much."""
        settings, stddev = self.configuration.filter, np.zeros(kernels.ROW)
        # A tip is its length times half its bending away from the straight one.
        length_m = self.configuration.segment.length_m
        angle, rate = 2.0 * place / length_m, 2.0 * velocity / length_m
        stddev[:6] = [angle, angle, 0.2 * place, rate, rate, 0.2 * velocity]
        stddev[6:12] = stddev[[0, 1, 2, 0, 1, 2]]
        stddev[kernels.MOMENTS : kernels.PAYLOAD] = settings.moment_stddev_n_m
        stddev[kernels.PAYLOAD] = settings.payload_stddev_kg
        stddev[kernels.REST : kernels.ROW] = settings.rest_moment_stddev_n_m
        return stddev

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


def _with(values: tuple[int, ...], place: int, value: int) -> tuple[int, ...]:
    return *values[:place], value, *values[place + 1 :]


def _told_silent(name: str, waiting: bool) -> str:
    """That a chamber, or the wrench, is not heard."""
    if waiting:
        return f"no pressure of {name} yet, {WAITING_S:g} s after the first measurement: the filter waits for it"
    if name == WRENCH.sensor:
        return (
            f"no news of the wrench for {SILENT_S:g} s, missing or stuck: until there is, the tip follows the "
            "pressures alone, and is less sure"
        )
    return (
        f"no news of the pressure in {name} for {SILENT_S:g} s, missing or stuck: from here on the filter "
        "counts on its last one, which may be off by the whole range"
    )
