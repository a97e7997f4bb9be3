"""Would it notice? What an estimator told of a fault that was put into a run, and what its covariance still covers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Measurement
from onboard_estimation.base.series import run_start_ns
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.result import FAULT, EvaluationResult, PartResult
from onboard_estimation.filtering.consistency import coverage
from onboard_estimation.judging.options import is_part
from onboard_estimation.pipeline.pipeline import Pipeline

SOON_S = 5.0
"""A fault is to be told within this."""
COVERED = 0.97
"""Least share of the errors within three stated deviations that counts as covered; a Gaussian's is 0.997."""
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
    Rightly told is what names the faulty sensor, and of a change of the robot itself what names no sensor.
    """
    faults = [one for one in recording.injected if one.from_s >= 0.0]
    if not faults:
        return result
    start_ns, sensors = run_start_ns(recording.series), [one.channel.sensor for one in recording.series]
    since_s, from_s = float(result.stamps_ns[0] - start_ns) / NANOSECONDS_PER_SECOND, min(one.from_s for one in faults)
    faulty = {name for name in sensors if any(is_part(name, one.sensor) for one in faults)}
    after = [((one.stamp_ns - start_ns) / NANOSECONDS_PER_SECOND - from_s, one) for one in told]
    early, late = [one for one in after if one[0] < 0.0], [one for one in after if one[0] >= 0.0]
    names = [set(one.names(sensors)) for _, one in late]
    right = [one for one, named in zip(late, names, strict=True) if (named & faulty if faulty else not named)]
    figures: dict[str, Any] = {"from_s": from_s - since_s, "before_s": from_s, "false_alarms": len(early)}
    figures |= {key: found[0][0] for key, found in (("told_after_s", late), ("rightly_told_after_s", right)) if found}
    shares = {name: _covered(part, result, from_s - since_s) for name, part in result.parts.items()}
    if covered := [one["coverage_3_sigma_after"] for one in shares.values() if "coverage_3_sigma_after" in one]:
        figures["coverage_3_sigma_after"] = min(covered)
        is_told = figures.get("rightly_told_after_s", np.inf) <= SOON_S
        figures["told_soon_or_covered"] = float(is_told or min(covered) >= COVERED)
    result.metrics[FAULT] = {**figures, **shares}
    said = [f"Fault {' and '.join(one.text for one in faults)}: {_first(late) or 'not told'}."]
    if late[:1] != right[:1]:
        said.append(f"That names {', '.join(sorted(names[0])) or 'no sensor'}; rightly {_first(right) or 'not told'}.")
    alarms = f"{len(early) or 'No'} false alarm{'' if len(early) == 1 else 's'} in the {from_s:g} s before it"
    said.append(f"{alarms}{f', the first: {early[0][1].sentence}' if early else ''}.")
    end_s = since_s + float(result.time_s[-1])
    spans = np.array([(one.from_s, min(one.until_s, end_s)) for one in faults]) - since_s
    return replace(result, notes=(*said, *result.notes), events={**result.events, FAULT: spans})


def _first(told: Sequence[tuple[float, Told]]) -> str:
    return f"told after {told[0][0]:.2f} s: {told[0][1].sentence}" if told else ""


def _covered(part: PartResult, result: EvaluationResult, from_s: float) -> dict[str, float]:
    """Share of a part's errors within three stated deviations before and after a time, where there are any."""
    judged, is_after = part.judged(result.time_s, result.settle_s), result.time_s >= from_s
    where = {"before": judged & ~is_after, "after": judged & is_after}
    shares = {when: coverage(part.error[rows], part.stddev[rows], 3.0) for when, rows in where.items()}
    return {f"coverage_3_sigma_{when}": share for when, share in shares.items() if np.isfinite(share)}
