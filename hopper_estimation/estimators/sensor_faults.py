"""What is wrong with the accelerometers, in sentences with a way out.

At the moment, by sensor: for the log, once an episode, and the diagnostics; why what was read at rest cannot be right;
and what the reader of an evaluation must know: missing, silent, stuck, clipped, at odds. The filter's own decisions
(`readings_kernels`), which are the same live and offline, are put into words here: it goes on with the other sensor
wherever one cannot be used.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from hopper_estimation.estimators import readings_kernels as readings
from hopper_estimation.estimators.filters import BIAS_NAMES, ENCODER_NAMES
from hopper_estimation.estimators.samples import ordered, parts_of
from hopper_estimation.model.configuration import ATTITUDE, HIGH_G, LEG, LOW_G, MOTORS, HopperConfiguration
from hopper_estimation.model.phases import Records
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.base.presentation import percent
from onboard_estimation.base.series import STANDARD_GRAVITY_M_S2, Series
from onboard_estimation.contract.result import Note

AT_ODDS = (
    "imu/high_g contradicts imu/low_g, at rest or in shocks: its axes, its sign or its scale are wrong; it is left "
    "out, and the filter goes on with imu/low_g alone. Turn or scale it in its driver"
)
GYRO_MOVED = (
    f"the gyro of imu/low_g reads over {readings.GYRO_MOVED_RAD_S:g} rad/s otherwise than at rest: its zero has moved; "
    "it is learned anew, and the tilt with it, from the pull over whole hops. Let the robot stand still to zero it"
)
_NO_ATTITUDE = "imu/attitude is silent: the tilt is that of the gyro of imu/low_g and of the pull over whole hops"
_STUCK = "{} repeats one reading: it is stuck, and {} goes on alone"
_SILENT = "imu/high_g is silent, and imu/low_g goes on alone: stance is clipped, and the covariance wider"
_NOT_ZEROED = (
    "it hops and never stood still for {:g} s (sensors.rest_s): the accelerometers are not zeroed, their offsets are "
    "taken as zero"
)
_ABOUT_ONE = 0.2
_CLIPPED, _MANY_CLIPPED = 0.99, 0.001
_MUCH = 0.01
"""Share of the run from which on a silent or stuck sensor is worth a sentence."""
_AT_LARGEST, _SMALLEST_SHOCK_M_S2 = 10, 100.0
"""So many readings of one largest size are no chance where that is a shock's."""
_WORDS = {LOW_G.sensor: "low-g", HIGH_G.sensor: "high-g"}
_OTHER = {LOW_G.sensor: HIGH_G.sensor, HIGH_G.sensor: LOW_G.sensor}
_WITHOUT = {
    HIGH_G.sensor: "the filter goes on with the low-g sensor alone: stance is clipped, and the covariance wider",
    LOW_G.sensor: "the filter goes on with the high-g sensor alone, whose offset drifts; attitude is that of the "
    "start, unless an attitude sensor tells it",
}


def sensor_faults(configuration: HopperConfiguration, trouble: int) -> dict[str, str]:
    """A sentence by sensor, without a full stop, by the bits of `readings_kernels.trouble`; empty where all is well."""
    low, high = LOW_G.sensor, HIGH_G.sensor
    words = {
        readings.HIGH_AT_ODDS: (high, AT_ODDS),
        readings.HIGH_SILENT: (high, _SILENT),
        readings.HIGH_STUCK: (high, _STUCK.format(high, low)),
        readings.LOW_STUCK: (low, _STUCK.format(low, high)),
        readings.NOT_ZEROED: (low, _NOT_ZEROED.format(configuration.sensors.rest_s)),
        readings.GYRO_MOVED: (low, GYRO_MOVED),
        readings.NO_ATTITUDE: (ATTITUDE.sensor, _NO_ATTITUDE),
    }
    return dict(words[bit] for bit in words if trouble & bit)


def rest_fault(configuration: HopperConfiguration, state: Records) -> str:
    """The sentence; empty where there is no fault.

    Parameters
    ----------
    state
        (1,) of `readings_kernels`.
    """
    fault = float(state[0]["fault"])
    if fault == 0.0:
        return ""
    x, y, z = (float(one) for one in state[0]["mean_low"])
    size = float(np.linalg.norm([x, y, z]))
    found = f"at rest imu/low_g reads x {x:.2f}, y {y:.2f}, z {z:.2f} m/s^2"
    sensors, gravity = configuration.sensors, configuration.robot.gravity_m_s2
    if abs(size - 1.0) < _ABOUT_ONE:
        return f"{found}, as if in g, and m/s^2 are needed: multiply by {STANDARD_GRAVITY_M_S2} in the driver"
    if fault == readings.FAULT_TILTED:
        axis = max(zip(("x", "y", "z"), (x, y, z), strict=True), key=lambda pair: abs(pair[1]))
        return (
            f"{found}, gravity along {'-' if axis[1] < 0 else ''}{axis[0]}, where it must be along z, up the leg: "
            "axes are swapped or the robot does not stand upright; turn the axes in the driver, or start upright "
            f"within {sensors.largest_tilt_deg:g} deg (sensors.largest_tilt_deg)"
        )
    if fault == readings.FAULT_ATTITUDE:
        up = state[0]["fault_up"]
        apart_deg = np.degrees(np.arccos(np.clip(up @ state[0]["mean_low"] / size, -1.0, 1.0)))
        return (
            f"{found}, and imu/attitude says that up is {apart_deg:.0f} deg away from there, at x {up[0]:.2f}, "
            f"y {up[1]:.2f}, z {up[2]:.2f}: its quaternion may be w first, inverse, or of a frame with z down; mend "
            "its driver, or do without it (--drop imu/attitude)"
        )
    return (
        f"{found}, {size:.2f} m/s^2 in all: {abs(size - gravity):.2f} from gravity, allowed are "
        f"{sensors.low_offset_m_s2:g} (sensors.low_offset_m_s2); is its scale set?"
    )


def sensor_notes(
    configuration: HopperConfiguration, estimator: str, series: Sequence[Series], start_ns: int
) -> Iterator[Note]:
    """Notes on the sensors of an estimator from `start_ns` on, where the estimate starts."""
    rows = (one.rows(np.flatnonzero(one.stamps_ns >= start_ns)) for one in map(ordered, series))
    found = {one.channel.sensor: one for one in rows if len(one.stamps_ns)}
    for name, words in _WITHOUT.items():
        if name not in found:
            yield Note(f"Without {name} {words}.", f"no {_WORDS[name]} sensor")
    if estimator in ENCODER_NAMES and LEG.sensor not in found:
        words = "knows of no stance and no hop: it needs the leg's encoder"
        words = "goes by the bounce alone" if estimator == "bounce_encoder" else words
        yield Note(f"Without leg/state {estimator} {words}.", "no leg encoder")
    if estimator in BIAS_NAMES and MOTORS.sensor not in found:
        sentence = f"Without motors/command {estimator} knows of no thrust: it does not estimate the bias in flight."
        yield Note(sentence, "no motor commands")
    there = [found[name] for name in _OTHER if name in found]
    if not there:
        return
    span_ns = (min(int(one.stamps_ns[0]) for one in there), max(int(one.stamps_ns[-1]) for one in there))
    for one in there:
        yield from _silent_or_stuck(configuration, one, span_ns)
    if HIGH_G.sensor in found:
        yield from _clipped(configuration.sensors.high_range_m_s2, np.abs(found[HIGH_G.sensor].values[:, 5]))
    at_end = readings.new_state()
    deque(parts_of(readings.reading_settings(configuration), at_end, list(found.values())), maxlen=0)
    state = at_end[0]
    if state["at_odds_s"] > 0.0:
        run_s = (span_ns[1] - span_ns[0]) / NANOSECONDS_PER_SECOND
        left_out = f"It was left out for {state['at_odds_s']:.1f} of {run_s:.1f} s."
        yield Note(f"{AT_ODDS}. {left_out}", "accelerometers at odds")
    if state["gyro_ns"]:
        since_s = (state["gyro_ns"] - span_ns[0]) / NANOSECONDS_PER_SECOND
        yield Note(f"After {since_s:.1f} s {GYRO_MOVED}.", "gyro's zero moved")
    if not state["zeroed"]:
        yield Note(f"Accelerometers: {_NOT_ZEROED.format(configuration.sensors.rest_s)}.", "sensors not zeroed")


def _silent_or_stuck(configuration: HopperConfiguration, one: Series, span_ns: tuple[int, int]) -> Iterator[Note]:
    """Where the sensor says nothing for longer than `silent_s`, or repeats one reading."""
    name, values = one.channel.sensor, one.values[:, 3:]
    gaps_s = np.diff(one.stamps_ns, prepend=span_ns[0], append=span_ns[1]) / NANOSECONDS_PER_SECOND
    silent_s = float(gaps_s[gaps_s > configuration.sensors.silent_s].sum())
    run_s = (span_ns[1] - span_ns[0]) / NANOSECONDS_PER_SECOND
    if silent_s > _MUCH * run_s:
        sentence = f"{name} is silent for {silent_s:.1f} of {run_s:.1f} s, where {_OTHER[name]} goes on alone."
        yield Note(sentence, f"{_WORDS[name]} sensor silent at times")
    changes = np.flatnonzero((values[1:] != values[:-1]).any(axis=1)) + 1
    lengths = np.diff(np.concatenate([[0], changes, [len(values)]]))
    share = float(lengths[lengths > configuration.sensors.stuck_readings].sum()) / len(values)
    if share > _MUCH:
        repeated = f"{name} repeats one reading in {percent(share)} of its messages: it is stuck, and {_OTHER[name]}"
        yield Note(f"{repeated} goes on alone there.", f"{_WORDS[name]} sensor stuck")


def _clipped(limit: float, size: NDArray[np.float64]) -> Iterator[Note]:
    """Readings along the leg (K,) of the high-g sensor at its range, or at a smaller one than is configured."""
    share, largest = float(np.mean(size >= _CLIPPED * limit)), float(size.max())
    count = int(np.sum(size == largest))
    if share > _MANY_CLIPPED:
        yield Note(
            f"{percent(share)} of the readings of imu/high_g are at their range ({limit:g} m/s^2, "
            "sensors.high_range_m_s2), where the low-g sensor goes on.",
            "high-g sensor clipped",
        )
    elif count >= _AT_LARGEST and _SMALLEST_SHOCK_M_S2 <= largest < _CLIPPED * limit:
        yield Note(
            f"{count} readings of imu/high_g are {largest:g} m/s^2 and none is more: it is clipped below its range of "
            f"{limit:g} m/s^2; with --set sensors.high_range_m_s2={largest:g} these are not believed.",
            "high-g sensor clipped",
        )
