"""Several sensors of one state: whether each is to be believed, and which has fallen silent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Notice
from onboard_estimation.pipeline.estimator import FilterBreakdown

LONGEST_GAP_S = 100.0
"""The buffer resets the filter after longer gaps; this stands between the initial state and the first measurement."""
TRUST_READINGS = 20
WELL = 0.8
"""A sensor is well whose readings pass the gate in this share, averaged over about so many."""
SILENT_S = 1.0
"""A sensor that was not heard for longer confirms nothing, and is told of."""


class SensorTrust(NamedTuple):
    """What is known of one sensor of several that measure one state.

    Attributes
    ----------
    last_ns
        Stamp of its last reading that was used; None before the first.
    rejected_in_a_row
        Its last readings that the gate refused.
    trust
        Share of its readings that pass the gate, a running mean.
    is_silent
        Whether it was not heard for longer than `SILENT_S`, while others were.
    """

    last_ns: int | None = None
    rejected_in_a_row: int = 0
    trust: float = 0.0
    is_silent: bool = False


def bridged_s(duration_ns: int) -> float:
    """A time to predict over, s; FilterBreakdown where it is too long."""
    duration_s = duration_ns / NANOSECONDS_PER_SECOND
    if duration_s > LONGEST_GAP_S:
        raise FilterBreakdown(
            f"{duration_s:.0f} s without a measurement, more than {LONGEST_GAP_S:.0f} s are not bridged"
        )
    return duration_s


def others_are_well(sensors: tuple[SensorTrust, ...], link: int, stamp_ns: int) -> bool:
    """Whether the other sensors that are heard confirm the state, which all of them measure."""
    heard = 0
    for other, (last_ns, _, trust, _) in enumerate(sensors):
        if other == link or last_ns is None or stamp_ns - last_ns > SILENT_S * NANOSECONDS_PER_SECOND:
            continue
        if trust <= WELL:
            return False
        heard += 1
    return heard > 0


def fault_news(before: Mapping[str, str], after: Mapping[str, str], stamp_ns: int) -> tuple[Notice, ...]:
    """Notices on sensors whose fault, as `Estimator.sensor_faults` tells it, is new, another, or over."""
    if before == after:
        return ()
    said = [words for sensor, words in after.items() if before.get(sensor) != words]
    said += [f"{sensor} is as it should be again" for sensor in before if sensor not in after]
    return tuple(Notice(f"{words} (at {stamp_ns / NANOSECONDS_PER_SECOND:.3f} s)") for words in said)
