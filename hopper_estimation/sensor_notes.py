"""What the reader of an evaluation must know of the hopper's sensors: missing, silent, stuck, clipped, at odds.

The filter goes on with the other sensor wherever one cannot be used (`readings_kernels`); here it is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hopper_estimation.configuration import HopperConfiguration
from hopper_estimation.filters import BIAS_NAMES, ENCODER_NAMES
from hopper_estimation.samples import taken_of
from hopper_estimation.sensor_faults import AT_ODDS
from hopper_estimation.topics import HIGH_G, LEG, LOW_G, MOTORS
from onboard_estimation.capabilities.reported import Note
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.reading_limits import finite_readings
from onboard_estimation.series import Series

Array = NDArray[np.float64]

_CLIPPED = 0.99
_MANY_CLIPPED = 0.001
_MUCH = 0.01
"""Share of the run from which on a silent or stuck sensor is worth a sentence."""
_AT_LARGEST, _SMALLEST_SHOCK_M_S2 = 10, 100.0
"""So many readings of one largest size are no chance where that is a shock's."""
_WORDS = {LOW_G.sensor: "low-g", HIGH_G.sensor: "high-g"}
_OTHER = {LOW_G.sensor: HIGH_G.sensor, HIGH_G.sensor: LOW_G.sensor}


def sensor_notes(
    configuration: HopperConfiguration, estimator: str, series: Sequence[Series], start_ns: int
) -> list[Note]:
    """Notes on the sensors of an estimator from `start_ns` on, where the estimate starts."""
    found = {one.channel.sensor: _from(one, start_ns) for one in series}
    found = {name: one for name, one in found.items() if len(one.stamps_ns)}
    notes = []
    if HIGH_G.sensor not in found:
        sentence = (
            "Without imu/high_g the filter goes on with the low-g sensor alone: stance is clipped, and the covariance "
            "wider."
        )
        notes.append(Note(sentence, "no high-g sensor"))
    if LOW_G.sensor not in found:
        sentence = (
            "Without imu/low_g the filter goes on with the high-g sensor alone, whose offset drifts; attitude is that "
            "of the start, unless an attitude sensor tells it."
        )
        notes.append(Note(sentence, "no low-g sensor"))
    if estimator in ENCODER_NAMES and LEG.sensor not in found:
        without = "knows of no stance and no hop: it needs the leg's encoder"
        without = "goes by the bounce alone" if estimator == "bounce_encoder" else without
        sentence = f"Without leg/state {estimator} {without}."
        notes.append(Note(sentence, "no leg encoder"))
    if estimator in BIAS_NAMES and MOTORS.sensor not in found:
        sentence = f"Without motors/command {estimator} knows of no thrust: it does not estimate the bias in flight."
        notes.append(Note(sentence, "no motor commands"))
    there = [found[name] for name in (LOW_G.sensor, HIGH_G.sensor) if name in found]
    if not there:
        return notes
    span_ns = (min(int(one.stamps_ns[0]) for one in there), max(int(one.stamps_ns[-1]) for one in there))
    for one in there:
        notes += _silent(configuration, one, span_ns)
    faults = [note for one in there for note in _stuck(configuration, one)]
    if HIGH_G.sensor in found:
        faults += _clipped(configuration, found[HIGH_G.sensor])
    _, state = taken_of(configuration, list(found.values()))
    faults += _at_odds(float(state["at_odds_s"][0]), span_ns)
    notes += faults
    if not state["zeroed"][0]:
        sentence = (
            f"The robot never stood still for {configuration.sensors.rest_s:g} s (sensors.rest_s): the accelerometers "
            "are not zeroed, their offsets are taken as zero."
        )
        notes.append(Note(sentence, "sensors not zeroed"))
    return notes


def _percent(share: float) -> str:
    return f"{100.0 * share:.{0 if share > 0.1 else 1}f} %"


def _from(one: Series, start_ns: int) -> Series:
    """A series from a stamp on, in the order of the stamps."""
    if not len(one.stamps_ns):
        return one
    if np.any(one.stamps_ns[1:] <= one.stamps_ns[:-1]):
        stamps, rows = np.unique(one.stamps_ns, return_index=True)
        one = replace(one, stamps_ns=stamps, values=one.values[rows])
    if not np.isfinite(one.values.sum()):
        finite = finite_readings(one.channel, one.values)  # a high-g sensor may have no gyro
        one = replace(one, stamps_ns=one.stamps_ns[finite], values=one.values[finite])
    first = int(np.searchsorted(one.stamps_ns, start_ns))
    return replace(one, stamps_ns=one.stamps_ns[first:], values=one.values[first:])


def _silent(configuration: HopperConfiguration, one: Series, span_ns: tuple[int, int]) -> list[Note]:
    """Where the sensor says nothing for longer than `silent_s`."""
    name = one.channel.sensor
    gaps_s = np.diff(one.stamps_ns, prepend=span_ns[0], append=span_ns[1]) / NANOSECONDS_PER_SECOND
    silent_s = float(gaps_s[gaps_s > configuration.sensors.silent_s].sum())
    run_s = (span_ns[1] - span_ns[0]) / NANOSECONDS_PER_SECOND
    if silent_s <= _MUCH * run_s:
        return []
    sentence = f"{name} is silent for {silent_s:.1f} of {run_s:.1f} s, where {_OTHER[name]} goes on alone."
    return [Note(sentence, f"{_WORDS[name]} sensor silent at times")]


def _stuck(configuration: HopperConfiguration, one: Series) -> list[Note]:
    """Where the sensor repeats one reading."""
    name, values = one.channel.sensor, one.values[:, 3:]
    changes = np.flatnonzero((values[1:] != values[:-1]).any(axis=1)) + 1
    lengths = np.diff(np.concatenate([[0], changes, [len(values)]]))
    share = float(lengths[lengths > configuration.sensors.stuck_readings].sum()) / len(values)
    if share <= _MUCH:
        return []
    sentence = (
        f"{name} repeats one reading in {_percent(share)} of its messages: it is stuck, and {_OTHER[name]} goes on "
        "alone there."
    )
    return [Note(sentence, f"{_WORDS[name]} sensor stuck")]


def _clipped(configuration: HopperConfiguration, high: Series) -> list[Note]:
    """Readings of the high-g sensor at its range, or at a smaller one than is configured."""
    size, limit = np.abs(high.values[:, 5]), configuration.sensors.high_range_m_s2
    share = float(np.mean(size >= _CLIPPED * limit))
    if share > _MANY_CLIPPED:
        sentence = (
            f"{_percent(share)} of the readings of imu/high_g are at their range ({limit:g} m/s^2, "
            "sensors.high_range_m_s2), where the low-g sensor goes on."
        )
        return [Note(sentence, "high-g sensor clipped")]
    largest = float(size.max())
    count = int(np.sum(size == largest))
    if largest < _SMALLEST_SHOCK_M_S2 or count < _AT_LARGEST or largest >= _CLIPPED * limit:
        return []
    sentence = (
        f"{count} readings of imu/high_g are {largest:g} m/s^2 and none is more: it is clipped below its range of "
        f"{limit:g} m/s^2; with --set sensors.high_range_m_s2={largest:g} these are not believed."
    )
    return [Note(sentence, "high-g sensor clipped")]


def _at_odds(left_out_s: float, span_ns: tuple[int, int]) -> list[Note]:
    """Where the filter left out the high-g sensor for what it says beside the low-g one, for a while or to the end."""
    if left_out_s == 0.0:
        return []
    run_s = (span_ns[1] - span_ns[0]) / NANOSECONDS_PER_SECOND
    return [Note(f"{AT_ODDS}. It was left out for {left_out_s:.1f} of {run_s:.1f} s.", "accelerometers at odds")]
