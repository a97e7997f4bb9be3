"""The hopper's state filters by name, each a compiled function over samples, and their trained parameters.

One `FilterModel`, a JSON file that people can read, holds an entry for each estimator that was trained: its parameters
(the paper's table II and three detection delays), by how much its covariance is scaled in each phase, how late and how
surely it sees each event. Nothing in a file is trusted: sizes, names, bounds and finiteness are checked.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hopper_estimation.estimators import bounce_events as bounce
from hopper_estimation.estimators import bounce_kernels
from hopper_estimation.estimators import encoder_kernels as encoder
from hopper_estimation.estimators import error_state_kernels as errors
from hopper_estimation.estimators import vertical_kernels as vertical
from hopper_estimation.estimators.samples import NOMINAL_DT_S
from hopper_estimation.model import phases
from hopper_estimation.model.configuration import HopperBody, HopperConfiguration
from hopper_estimation.model.phases import EVENTS, PHASES, Array, Body, Records
from onboard_estimation.base.atomic_file import read_once, write_atomically
from onboard_estimation.base.bounded_file import read_bounded_text
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.installed import resource

State = tuple[Records, ...]
_FEW = 64


class Filtered(NamedTuple):
    """What came of N samples.

    Attributes
    ----------
    out
        (N, 6): height, velocity, their covariance as the filter has it (zz, zv, vv), phase; height above the ground
        below. (N, 9) of a filter that tells the ground: its height, and what that adds to zz and zv. (N, 2) where no
        more than height and velocity was asked for.
    events
        (E,) of `phases.EVENT`; times since the filter's start, s.
    """

    out: Array
    events: Records


@dataclass(frozen=True)
class StateFilter:
    """A filter of height and vertical velocity with its phase logic.

    Attributes
    ----------
    starts
        Height (m), velocity (m/s), their covariance (2, 2) and the phase to the parts of a state before any sample.
    kernel
        Parameters (PARAMETER_COUNT,) of `phases`, robot, parts of the state, samples, `out` and `events` to how many
        events there are; the last two are written, the state is changed.
    kept
        Fields of each part that go on when height and velocity are set: the clock and filtered readings.
    columns
        Of what it tells; nine: it estimates the ground's height, where that changes.
    """

    starts: tuple[Callable[[float, float, Array, int], Records], ...]
    kernel: Callable[..., int]
    kept: tuple[Sequence[str], ...]
    columns: int = 6

    def new_state(self, height_m: float, velocity_m_s: float, covariance: Array, phase: int) -> State:
        """Before the first sample."""
        return tuple(start(height_m, velocity_m_s, covariance, phase) for start in self.starts)

    def set_to(self, old: State, height_m: float, velocity_m_s: float, covariance: Array, phase: int) -> State:
        """A state at that height and velocity, with the clock and the filtered readings of an older one."""
        state = self.new_state(height_m, velocity_m_s, covariance, phase)
        for part, old_part, names in zip(state, old, self.kept, strict=True):
            for name in names:
                part[name] = old_part[name]
        return state

    def run(
        self, parameters: Array, body: Body, state: State, signals: Records, room: Filtered | None = None
    ) -> Filtered:
        """Filter samples that follow on those before; `state` is changed, and `room` is written, if there is any."""
        if room is None:
            # No leg makes more than four events in 20 ms, and no sample more than four.
            count = len(signals)
            most = 4 * count if count <= _FEW else int(200.0 * float(signals["dt"].sum()))
            room = Filtered(np.empty((count, self.columns)), np.empty(4 + most, phases.EVENT))
        out = room.out[: len(signals)]
        found = self.kernel(parameters, body, *state, signals, out, room.events)
        return Filtered(out, room.events[:found])


def body_of(configuration: HopperConfiguration) -> Body:
    """What kernels know of a robot, and of the ground."""
    robot, step_m = configuration.robot, configuration.ground_step_stddev_m
    return Body(
        robot.standing_height_m, robot.gravity_m_s2, NOMINAL_DT_S, step_m if configuration.ground_changes else 0.0
    )


_HEARD = ("begun", "time", "y1", "y2", "h1", "h2", "h3")
_BOUNCE_KEPT = (*_HEARD, "bias", "bb", "bounce", "cc", "seen", "ratios")
_VERTICAL = {"kf1": vertical.KF1, "kf2": vertical.KF2, "kf3": vertical.KF3, "kf3_kf1": vertical.KF3}
_ERROR_STATE = {"eskf1": errors.ESKF1, "eskf2": errors.ESKF2}

NAMES = ("bounce", "bounce_encoder", "kf1", "kf2", "eskf1", "eskf2", "kf3", "kf3_kf1", *encoder.BASELINES)
"""All there are; the first is the default."""
ENCODER_NAMES = ("bounce_encoder", *encoder.BASELINES)
"""Estimators that need the leg's encoder; they have no parameters of their own to train."""
BIAS_NAMES = ("kf2", "eskf2")
"""Estimators that need the motors' duty cycles."""


def state_filter(name: str, robot: HopperBody) -> StateFilter:
    """The filter of that name; UserError with those there are."""
    masses = robot.body_mass_kg, robot.leg_mass_kg
    if name == "bounce":
        return StateFilter((bounce.start_state,), bounce_kernels.run, (_BOUNCE_KEPT,), 9)
    if name in _VERTICAL:
        start = partial(vertical.start_state, bias=vertical.ZEROED_BIAS_VARIANCE if name == "kf2" else 0.0)
        return StateFilter((start,), partial(vertical.run, _VERTICAL[name]), (_HEARD,))
    if name in _ERROR_STATE:
        kernel = partial(errors.run, _ERROR_STATE[name])
        return StateFilter((errors.start_state,), kernel, ((*_HEARD, "side_x", "side_y"),))
    if name == "bounce_encoder":
        starts = bounce.start_state, encoder.start_state, encoder.start_both
        kept = _BOUNCE_KEPT, (), ("own_done", "leg_done", "ratios")
        return StateFilter(starts, partial(encoder.run_both, encoder.encoder_of("dr1_best", *masses)), kept, 9)
    if name in encoder.BASELINES:
        kernel = partial(encoder.run, encoder.encoder_of(name, *masses))
        return StateFilter((encoder.start_state,), kernel, (("time", "count", "read"),))
    raise UserError(f"no estimator {name!r}; the hopper has {', '.join(NAMES)}")


# What was trained, and its file.

FORMAT = "hopper_filters"
FORMAT_VERSION = 1
DEFAULT_FILE = "config/hopper_filters.json"
_LARGEST_BYTES = 1_000_000


class FilterParameter(NamedTuple):
    """Name, unit and bounds of one filter parameter; `logarithmic`: searched on a logarithmic scale."""

    name: str
    unit: str
    lower: float
    upper: float
    logarithmic: bool
    meaning: str


PARAMETERS: tuple[FilterParameter, ...] = (
    FilterParameter("state_cutoff_hz", "Hz", 5.0, 400.0, True, "low-pass filter of the state"),
    FilterParameter("phase_cutoff_hz", "Hz", 5.0, 400.0, True, "low-pass filter of the phase"),
    FilterParameter("switching_g", "g", 12.0, 14.5, False, "low-g sensor up to here, then the high-g one"),
    FilterParameter("acceleration_stddev_m_s2", "m/s^2", 1e-4, 10.0, True, "acceleration"),
    FilterParameter("bias_stddev_m_s2", "m/s^2", 1e-4, 10.0, True, "bias measurement in flight"),
    FilterParameter("velocity_stddev_m_s", "m/s", 1e-4, 10.0, True, "velocity measurement"),
    FilterParameter("position_stddev_m", "m", 1e-4, 10.0, True, "position measurement"),
    FilterParameter("velocity_fit_2", "", -10.0, 10.0, False, "liftoff velocity: square"),
    FilterParameter("velocity_fit_1", "", -10.0, 10.0, False, "liftoff velocity: linear"),
    FilterParameter("velocity_fit_0", "", -10.0, 10.0, False, "liftoff velocity: constant"),
    FilterParameter("height_fit_1", "", -10.0, 10.0, False, "commanded height: linear"),
    FilterParameter("height_fit_0", "", -10.0, 10.0, False, "commanded height: constant"),
    FilterParameter("thrust_fit_1", "", -10.0, 10.0, False, "thrust of the commanded duty cycle: factor"),
    FilterParameter("thrust_fit_0", "", -10.0, 10.0, False, "the same: constant"),
    FilterParameter("touchdown_jerk_m_s3", "m/s^3", 200.0, 20000.0, True, "jerk of a touchdown"),
    FilterParameter("touchdown_delay_s", "s", 0.0, 0.06, False, "delay of the touchdown's detection"),
    FilterParameter("max_squat_delay_s", "s", 0.0, 0.03, False, "delay of the maximum squat's detection"),
    FilterParameter("liftoff_delay_s", "s", 0.0, 0.06, False, "delay of the liftoff's detection"),
    FilterParameter("stance_time_s", "s", 0.02, 0.3, True, "from touchdown to the extended leg"),
)
_ADDED = {"stance_time_s": 0.07}
"""Parameters that came after the first files, with values that older filters do not look at."""
TRAINED = ("bounce", "kf1", "kf2", "eskf1", "eskf2", "kf3")
"""Estimators with parameters of their own."""
MODEL_OF = {"kf3_kf1": "kf1", "bounce_encoder": "bounce"}
"""Estimators that take the parameters of another."""
_ABOVE_ZERO = 1e-30
_COVARIANCE = ("height_height_m2", "height_velocity_m2_s", "velocity_velocity_m2_s2")
_TOUCHDOWN = ("constant_m", "per_velocity_s", "per_apex_height", "stddev_m")
_BY_PHASE = ("height_scale", "height_floor_m", "velocity_scale", "velocity_floor_m_s")
_NUMBERS: dict[str, dict[str, tuple[float, float]]] = {
    "parameters": {one.name: (one.lower, one.upper) for one in PARAMETERS},
    "start_covariance": dict(zip(_COVARIANCE, [(_ABOVE_ZERO, 1e6), (-1e6, 1e6), (_ABOVE_ZERO, 1e6)], strict=True)),
    **dict.fromkeys(_BY_PHASE, dict.fromkeys(PHASES, (_ABOVE_ZERO, 1e7))),
    "event_delay_s": dict.fromkeys(EVENTS, (0.0, 1.0)),
    "event_stddev_s": dict.fromkeys(EVENTS, (_ABOVE_ZERO, 1.0)),
    "touchdown": {**dict.fromkeys(_TOUCHDOWN, (-10.0, 10.0)), "stddev_m": (_ABOVE_ZERO, 10.0)},
}
"""What a file has of an estimator: the names of its numbers, and their bounds."""


@dataclass(frozen=True, eq=False)
class FilterEntry:
    """One trained estimator.

    Attributes
    ----------
    parameters
        (18,) see `PARAMETERS`.
    start_covariance
        (3,) of height and velocity (zz, zv, vv) at the first drop: what the filter converges to at an apex.
    height_scale, height_floor_m, velocity_scale, velocity_floor_m_s
        (5,) by phase: with the filter's standard deviation s, the one that is published is sqrt((scale s)^2 + floor^2).
        Parameters are trained for accuracy, so that the filter's own covariance says little.
    event_delay_s, event_stddev_s
        (4,) how much later than it happened an event is seen, and the standard deviation of what is left.
    touchdown_fit, touchdown_stddev_m
        (3,) what the height told at a touchdown is too high by on ground that does not change: a constant (m), a part
        per velocity (s) and a part per height of the apex before; and the standard deviation of what is left.
    """

    parameters: Array
    start_covariance: Array
    height_scale: Array
    height_floor_m: Array
    velocity_scale: Array
    velocity_floor_m_s: Array
    event_delay_s: Array
    event_stddev_s: Array
    touchdown_fit: Array
    touchdown_stddev_m: float


@dataclass(frozen=True, eq=False)
class FilterModel:
    """Entries by name of the estimator, and what they were trained with, for people."""

    entries: Mapping[str, FilterEntry]
    training: Mapping[str, Any] = field(default_factory=dict)

    def entry(self, estimator: str, where: str = "this model") -> FilterEntry:
        """Of an estimator; UserError with those there are."""
        if estimator in encoder.BASELINES:
            return untrained_entry()
        name = MODEL_OF.get(estimator, estimator)
        if name not in self.entries:
            there = ", ".join(self.entries) or "none"
            raise UserError(
                f"{where} has no parameters of {name}, which {estimator} needs; it has {there} "
                f"(onboard-estimation train hopper BAG... --form {name})"
            )
        return self.entries[name]

    def save(self, path: Path) -> None:
        """Write the file; one that is there is replaced at once, or not at all."""
        entries: dict[str, Any] = {}
        for estimator, entry in self.entries.items():
            values = {name: getattr(entry, name).tolist() for name in _NUMBERS if name != "touchdown"}
            values["touchdown"] = [*entry.touchdown_fit.tolist(), entry.touchdown_stddev_m]
            entries[estimator] = {name: dict(zip(_NUMBERS[name], one, strict=True)) for name, one in values.items()}
        content = {"format": FORMAT, "version": FORMAT_VERSION, "estimators": entries, "training": dict(self.training)}
        text = json.dumps({**content, "checksum": _checksum(content)}, indent=1, allow_nan=False) + "\n"
        write_atomically(path, text.encode(), f"model {path}")


def untrained_entry() -> FilterEntry:
    """Of an estimator whose covariance is meant as it is."""
    one, none, start = np.ones(len(PHASES)), np.zeros(len(EVENTS)), np.array([0.01**2, 0.0, 0.1**2])
    middle = np.array([0.5 * (each.lower + each.upper) for each in PARAMETERS])
    return FilterEntry(middle, start, one, 1e-3 * one, one, 1e-2 * one, none, none + 2e-3, np.zeros(3), 0.1)


def _checksum(content: Mapping[str, Any]) -> str:
    """SHA-256, hexadecimal, of what a file holds, however it is written down."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def load_filters(path: Path) -> FilterModel:
    """The model of a file.

    Raises
    ------
    UserError
        Not there, no such file, of another version, or with numbers that are missing, not finite or out of bounds.
    """
    where = f"model {path}"
    text = read_bounded_text(path, where, _LARGEST_BYTES, "make one with `onboard-estimation train hopper`")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: not a model of the hopper, or damaged ({error}); train it anew") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise UserError(f"{where}: not a model of `onboard-estimation train hopper`")
    if content.get("version") != FORMAT_VERSION:
        raise UserError(f"{where}: version {content.get('version')!r}, this program reads {FORMAT_VERSION}; train anew")
    told = content.pop("checksum", None)  # none in a file that an older version wrote
    if told not in (None, _checksum(content)):
        raise UserError(
            f"{where}: its content is not that of its checksum: it was damaged, or changed by hand; train it anew, or "
            "take the checksum out of the file"
        )
    estimators = content.get("estimators")
    if not isinstance(estimators, dict) or not estimators:
        raise UserError(f"{where}: holds no estimators; train it anew")
    unknown = [str(name) for name in estimators if name not in TRAINED]
    if unknown:
        raise UserError(f"{where}: estimators {', '.join(unknown)} are not known; known are {', '.join(TRAINED)}")
    entries = {name: _entry(one, f"{where}, {name}") for name, one in estimators.items()}
    training = content.get("training")
    return FilterModel(entries, training if isinstance(training, dict) else {})


def _entry(content: Any, where: str) -> FilterEntry:
    if not isinstance(content, dict):
        raise UserError(f"{where}: no mapping; train it anew")
    given = content.get("parameters")
    content = {**content, "parameters": {**_ADDED, **given}} if isinstance(given, dict) else content
    values = {name: _numbers(content.get(name), f"{where}, {name}", bounds) for name, bounds in _NUMBERS.items()}
    start, touchdown = values["start_covariance"], values.pop("touchdown")
    if start[1] ** 2 >= start[0] * start[2]:
        raise UserError(f"{where}: start_covariance is none: {start.tolist()}")
    return FilterEntry(**values, touchdown_fit=touchdown[:3], touchdown_stddev_m=float(touchdown[3]))


def _numbers(found: Any, where: str, bounds: Mapping[str, tuple[float, float]]) -> Array:
    if not isinstance(found, dict) or set(found) != set(bounds):
        raise UserError(f"{where}: must have {', '.join(bounds)}")
    for key, (low, high) in bounds.items():
        if type(found[key]) not in (int, float) or not low <= found[key] <= high:
            shown = f"{found[key]!r:.40}"
            raise UserError(f"{where}: {key} is {shown}, must be a number between {low:g} and {high:g}; train it anew")
    return np.array([found[key] for key in bounds], dtype=np.float64)


def filters_of(path: str) -> FilterModel:
    """The model of the file that a configuration names; of an empty name, the one that comes with the package."""
    return _read_once(Path(path) if path else resource(DEFAULT_FILE))


_read_once = read_once(load_filters)
