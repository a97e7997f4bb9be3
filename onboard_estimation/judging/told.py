"""Would it notice? What an estimator told of a fault that was put into a run, and what its covariance still covers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Measurement
from onboard_estimation.base.series import Fault, run_start_ns
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.result import FAULT, EvaluationResult, PartResult
from onboard_estimation.filtering.consistency import coverage
from onboard_estimation.judging.options import is_part
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


def with_fault(recording: LoadedRecording, told: Sequence[Told], result: EvaluationResult) -> EvaluationResult:
    """The result with what was told of faults that begin amid its run; as it is where there is none.

    Of several faults, from the first of them on. In the metrics as the group `fault`, as sentences, and as events.
    """
    faults = [one for one in recording.injected if one.from_s >= 0.0]
    if not faults:
        return result
    start_ns, sensors = run_start_ns(recording.series), [one.channel.sensor for one in recording.series]
    since_s = float(result.stamps_ns[0] - start_ns) / NANOSECONDS_PER_SECOND
    end_s, from_s = since_s + float(result.time_s[-1]), min(one.from_s for one in faults)
    after_s = [(one.stamp_ns - start_ns) / NANOSECONDS_PER_SECOND - from_s for one in told]
    early = [one for one, time_s in zip(told, after_s, strict=True) if time_s < 0.0]
    late = [(time_s, one) for one, time_s in zip(told, after_s, strict=True) if time_s >= 0.0]
    named = [(time_s, one) for time_s, one in late if _is_right(one.names(sensors), faults)]
    figures: dict[str, Any] = {"from_s": from_s - since_s, "before_s": from_s, "false_alarms": len(early)}
    figures |= {"told_after_s": late[0][0]} if late else {}
    figures |= {"named_after_s": named[0][0]} if named else {}
    shares = {name: _covered(part, result, from_s - since_s) for name, part in result.parts.items()}
    if covered := [one["coverage_3_sigma_after"] for one in shares.values() if "coverage_3_sigma_after" in one]:
        figures["coverage_3_sigma_after"] = min(covered)
        is_told_soon = bool(late) and late[0][0] <= SOON_S
        figures["told_soon_or_covered"] = float(is_told_soon or min(covered) >= COVERED)
    result.metrics[FAULT] = {**figures, **shares}
    said = [f"Fault {' and '.join(one.text for one in faults)}: {_first(late, faults, sensors)}"]
    if named[:1] != late[:1]:
        said += [f"The sensor itself is named after {time_s:.2f} s: {one.sentence}." for time_s, one in named[:1]]
    alarms = f"{len(early) or 'No'} false alarm{'' if len(early) == 1 else 's'} in the {from_s:g} s before it"
    said += [f"{alarms}{f', the first: {early[0].sentence}' if early else ''}."]
    spans = np.array([(one.from_s, min(one.until_s, end_s)) for one in faults]) - since_s
    return replace(result, notes=(*said, *result.notes), events={**result.events, FAULT: spans})


def _is_right(named: Sequence[str], faults: Sequence[Fault]) -> bool:
    return any(is_part(sensor, fault.sensor) for sensor in named for fault in faults)


def _covered(part: PartResult, result: EvaluationResult, from_s: float) -> dict[str, float]:
    """Share of a part's errors within three stated deviations before and after a time, where there are any."""
    judged, is_after = part.judged(result.time_s, result.settle_s), result.time_s >= from_s
    where = {"before": judged & ~is_after, "after": judged & is_after}
    shares = {when: coverage(part.error[rows], part.stddev[rows], 3.0) for when, rows in where.items()}
    return {f"coverage_3_sigma_{when}": share for when, share in shares.items() if np.isfinite(share)}


def _first(late: Sequence[tuple[float, Told]], faults: Sequence[Fault], sensors: Sequence[str]) -> str:
    """The first that was told, in words."""
    if not late:
        return "not told."
    time_s, one = late[0]
    named = one.names(sensors)
    who = f"names {', '.join(named)}" if named else "names no sensor"
    wrong = ", where nothing is wrong" if named and not _is_right(named, faults) else ""
    return f"told after {time_s:.2f} s, {who}{wrong}: {one.sentence}."
