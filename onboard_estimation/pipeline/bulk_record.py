"""A whole recording filtered at once: what a robot whose filter is one compiled kernel over arrays may give.

The pipeline takes about ten microseconds to order, check and count a measurement, whatever its filter does. Where a
recording needs no more than being put in order, `in_filter_order` does that for all measurements together, and
`Pipeline.run_ordered` filters them in blocks. What comes out must equal the pipeline's record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Channel, filter_order
from onboard_estimation.base.series import Series
from onboard_estimation.pipeline.buffer import BufferCounters, MeasurementBuffer
from onboard_estimation.pipeline.reading_limits import ReadingCheck

Integers = NDArray[np.int64]


class Ordered(NamedTuple):
    """A recording in the order in which a pipeline filters it.

    Attributes
    ----------
    series
        Rows in the order of their stamps; (K, d) values, all finite.
    arrival
        (M,) int64: for each measurement in that order, the number of its series.
    counters, check
        What happened to each sensor's measurements on their way, as the pipeline counts it.
    messages
        What was said of them.
    """

    series: tuple[Series, ...]
    arrival: Integers
    counters: dict[str, BufferCounters]
    check: ReadingCheck
    messages: tuple[str, ...]


def in_filter_order(
    series: Sequence[Series],
    arrival: Integers,
    lag_s: float,
    channels: Iterable[Channel] = (),
) -> Ordered | None:
    """The recording as a pipeline orders it, with what it counts; None where its rules ask for more than an order.

    That is: a measurement later than the lag, a stamp that a sensor has twice, a step ahead that may be a jump of the
    clock. Measurements that come late within the lag are put in
    their place, those that the pipeline refuses are left out.

    Parameters
    ----------
    series
        One of each sensor, rows in the order of arrival.
    arrival
        (M,) int64: for each measurement in the order of arrival, the number of its series.
    lag_s
        How late a measurement may come and still be filtered in its place.
    channels
        Topics of the robot, in the order of measurements with one stamp, with the limits of their readings.
    """
    channels = tuple(channels)
    check, places = ReadingCheck(channels), filter_order(channels)
    counters = {one.channel.sensor: BufferCounters(received=0) for one in series}
    if len(counters) < len(series):
        return None
    kept, arrival, messages = _checked(series, arrival, check)
    names = [one.channel.sensor for one in kept]
    order = sorted(range(len(kept)), key=lambda number: (places.get(names[number], len(places)), names[number]))
    place = np.empty(len(kept), dtype=np.int64)
    place[order] = np.arange(len(kept))
    stamps = _by_arrival(kept, arrival)
    if not len(stamps):
        return None
    start, stop = int(stamps.min()), int(stamps.max())
    if stop - start > np.iinfo(np.int64).max // (2 * len(kept)):
        return None
    newest = np.maximum.accumulate(stamps)
    ahead = np.diff(stamps, prepend=stamps[:1])
    ahead[1:] = stamps[1:] - newest[:-1]
    lag_ns = round(lag_s * NANOSECONDS_PER_SECOND)
    if ahead.min() < -lag_ns or ahead.max() > round(MeasurementBuffer.clock_jump_s * NANOSECONDS_PER_SECOND):
        return None
    # Stamp and place among the sensors in one number: measurements are filtered in its order.
    keys = stamps
    keys -= start
    keys *= len(kept)
    keys += place[arrival]
    late = np.zeros(len(keys), dtype=np.bool_)
    late[1:] = keys[1:] < np.maximum.accumulate(keys)[:-1]
    late_counts = np.bincount(arrival[late], minlength=len(kept))
    if late.any():
        sorting = np.argsort(keys, kind="stable")
        keys, arrival = keys[sorting], arrival[sorting]
    if np.any(keys[1:] == keys[:-1]):
        return None
    ordered = []
    for number, one in enumerate(kept):
        if np.any(one.stamps_ns[1:] < one.stamps_ns[:-1]):
            one = one.rows(np.argsort(one.stamps_ns, kind="stable"))
        ordered.append(one)
        count = len(one.stamps_ns)
        counters[one.channel.sensor] = BufferCounters(
            received=count,
            late=int(late_counts[number]),
            stamps=count,
            first_ns=int(one.stamps_ns[0]) if count else 0,
            last_ns=int(one.stamps_ns[-1]) if count else 0,
        )
    # A pipeline knows nothing of a sensor that said nothing.
    heard = {name: one for name, one in counters.items() if one.received}
    return Ordered(tuple(ordered), arrival, heard, check, messages)


def _checked(
    series: Sequence[Series], arrival: Integers, check: ReadingCheck
) -> tuple[list[Series], Integers, tuple[str, ...]]:
    """Without the measurements that are refused, and what is said of them, in the order of arrival."""
    kept: list[Series] = []
    said: list[tuple[int, str]] = []
    keep: NDArray[np.bool_] | None = None
    for number, one in enumerate(series):
        refused, sentences = check.refused(one.channel.sensor, one.values)
        if len(refused):
            places = np.flatnonzero(arrival == number)
            keep = np.ones(len(arrival), dtype=np.bool_) if keep is None else keep
            keep[places[refused]] = False
            said += [(int(places[row]), sentence) for row, sentence in sentences]
            one = one.rows(np.delete(np.arange(len(one.values)), refused))
        kept.append(one)
    return kept, arrival if keep is None else arrival[keep], tuple(sentence for _, sentence in sorted(said))


def _by_arrival(series: Sequence[Series], arrival: Integers) -> Integers:
    """(M,) stamps in the order of arrival, a new array."""
    stamps = np.empty(len(arrival), dtype=np.int64)
    for number, one in enumerate(series):
        stamps[arrival == number] = one.stamps_ns
    return stamps
