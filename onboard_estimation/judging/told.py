"""Would it notice? What an estimator told of a fault that was put into a run, and what its covariance still covers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Measurement
from onboard_estimation.base.presentation import percent, quantity, words
from onboard_estimation.base.series import Fault
from onboard_estimation.contract.result import PartResult
from onboard_estimation.filtering.consistency import coverage
from onboard_estimation.judging.options import fault_text, is_part
from onboard_estimation.pipeline.pipeline import Pipeline

SOON_S = 5.0
"""A fault is to be told within this."""
COVERED = 0.97
"""Least share of the errors within three stated deviations after a fault that counts as covered: issue 36's, of which a
Gaussian's is 0.997."""
_FAULTS_EVERY_S = 0.1


class Told(NamedTuple):
    """A sentence to the user: newest stamp by then, and the sensor where it is of one's state."""

    stamp_ns: int
    sentence: str
    sensor: str = ""

    def names(self, sensors: Iterable[str]) -> list[str]:
        """Of some sensors, those that it is of; a sensor may be called by the end of its name: `link_2`."""
        if self.sensor:
            return [self.sensor]
        full = [one for one in sensors if _says(self.sentence, one)]
        return full or [one for one in sensors if _says(self.sentence, one.rpartition("/")[2])]


def _says(sentence: str, name: str) -> bool:
    return re.search(rf"(?<![\w/]){re.escape(name)}(?![\w/])", sentence) is not None


def watched(pipeline: Pipeline, measurements: Iterable[Measurement], told: list[Told]) -> Iterator[Measurement]:
    """The measurements of a pipeline, while it is kept when it told what, and when sensors were at fault."""
    count, faults, looked_ns = 0, dict[str, str](), 0
    for measurement in measurements:
        yield measurement
        stamp_ns = measurement.stamp_ns
        told += [Told(stamp_ns, sentence) for sentence in pipeline.messages[count:]]
        count = len(pipeline.messages)
        if abs(stamp_ns - looked_ns) >= _FAULTS_EVERY_S * NANOSECONDS_PER_SECOND:
            before, faults, looked_ns = faults, dict(pipeline.sensor_faults), stamp_ns
            told += [Told(stamp_ns, sentence, name) for name, sentence in faults.items() if name not in before]


def fault_figures(
    injected: Sequence[Fault],
    told: Sequence[Told],
    sensors: Sequence[str],
    since_s: float,
    parts: Mapping[str, PartResult],
    time_s: Any,
    settle_s: float,
) -> tuple[dict[str, Any], list[str]]:
    """Figures for `metrics.json` on faults that begin amid a run, and sentences on them; empty where there is none.

    Of several faults, from the first of them on.

    Parameters
    ----------
    told
        With stamps since the start of the run.
    sensors
        All of the recording.
    since_s
        When the estimates begin, after the start of the run.
    time_s, settle_s
        (K,) of the estimates since the first, and how much of that is not judged.
    """
    timed = [one for one in injected if one.from_s >= 0.0]
    if not timed:
        return {}, []
    from_s = min(one.from_s for one in timed)
    if from_s > since_s + time_s[-1]:
        said = f"The run ends after {since_s + time_s[-1]:.1f} s, before the fault."
        return {}, [said]
    of_sensors = {name for name in sensors for one in timed if is_part(name, one.sensor)}
    early = [one for one in told if one.stamp_ns < from_s * NANOSECONDS_PER_SECOND]
    late = [one for one in told if one.stamp_ns >= from_s * NANOSECONDS_PER_SECOND]
    right = [one for one in late if of_sensors.intersection(one.names(sensors))]
    figures: dict[str, Any] = {"from_s": from_s - since_s, "before_s": from_s, "false_alarms": len(early)}
    if from_s > 0.0:
        figures["false_alarms_per_h"] = len(early) * 3600.0 / from_s
    for key, found in (("told_after_s", late), ("named_after_s", right)):
        if found:
            figures[key] = found[0].stamp_ns / NANOSECONDS_PER_SECOND - from_s
    shares: dict[str, dict[str, float]] = {}
    for name, part in parts.items():
        judged = part.judged(time_s, settle_s)
        for when, where in (("before", time_s < from_s - since_s), ("after", time_s >= from_s - since_s)):
            if (share := coverage(part.error[judged & where], part.stddev[judged & where], 3.0)) >= 0.0:
                shares.setdefault(name, {})[f"coverage_3_sigma_{when}"] = share
    known = [one["coverage_3_sigma_after"] for one in shares.values() if "coverage_3_sigma_after" in one]
    if known:
        figures["coverage_3_sigma_after"] = min(known)
        is_told = figures.get("told_after_s", SOON_S + 1.0) <= SOON_S
        figures["told_soon_or_covered"] = float(is_told or min(known) >= COVERED)
    return {**figures, **shares}, list(_sentences(timed, early, late, right, sensors, figures, shares))


def _sentences(
    timed: Sequence[Fault],
    early: Sequence[Told],
    late: Sequence[Told],
    right: Sequence[Told],
    sensors: Sequence[str],
    figures: Mapping[str, Any],
    shares: Mapping[str, Mapping[str, float]],
) -> Iterator[str]:
    what = f"Fault {' and '.join(map(fault_text, timed))}"
    if not late:
        yield f"{what}: not told."
    else:
        named = late[0].names(sensors)
        who = f"names {', '.join(named)}" if named else "names no sensor"
        if named and late[0] not in right:
            who += ", where nothing is wrong"
        yield f"{what}: told after {quantity(figures['told_after_s'], 's')}, {who}: {late[0].sentence}."
    if right and right[0] is not late[0]:
        after = quantity(figures["named_after_s"], "s")
        yield f"The sensor itself is named after {after}: {right[0].sentence}."
    count = f"{len(early) or 'No'} false alarm{'' if len(early) == 1 else 's'}"
    first = f", the first: {early[0].sentence}" if early else ""
    yield f"{count} in the {figures['before_s']:g} s before it{first}."
    said = [
        f"{words(name).lower()} {' and '.join(percent(share) for share in one.values())}"
        for name, one in shares.items()
        if len(one) == 2
    ]
    if said:
        yield f"Errors within 3 sigma before and after it: {'; '.join(said)}."
