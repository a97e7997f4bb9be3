"""`identify`: coefficients from recordings, and whether the robot's filter gains from them on recordings not fitted.

Recordings are left out of the fit by turns, of a single one the second half, and filtered by the robot's default
estimator with the configuration given and with what the others told. A coefficient may fit a motion and yet be none.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import t as student

from onboard_estimation.base.errors import UserError
from onboard_estimation.campaigns.score import headline_errors
from onboard_estimation.campaigns.tuning import left_out_together
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.trained import Gain, IdentificationReport, Identified
from onboard_estimation.judging.judge import judge

_FOLDS = 5
_SPREAD, _WEIGHT = 0.1, 2
"""Standard deviation of the logarithm of a ratio of errors from bag to bag, as supposed before, and as of how many."""

Fold = tuple[Mapping[str, LoadedRecording], Mapping[str, LoadedRecording]]
"""Recordings that are fitted, and those that are filtered then."""


def identify_recordings(
    robot: Identified[Any],
    configuration: Any,
    recordings: Mapping[str, LoadedRecording],
    full: bool = False,
    cutoff_hz: float | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> IdentificationReport:
    """Coefficients from all recordings, and what the default estimator gains from them on those left out by turns.

    Raises
    ------
    UserError
        As `Identified.identify`.
    """
    report = robot.identify(configuration, recordings, full, cutoff_hz, progress)
    errors: dict[str, list[tuple[float, float]]] = defaultdict(list)
    notes: list[str] = []
    without: dict[str, Any] = {}
    for fitted, left_out in _folds(
        recordings, [one.sensor for one in robot.listened_channels(configuration, robot.estimators[0])]
    ):
        names = ", ".join(left_out)
        progress(f"without {names}")
        try:
            found = robot.identify(configuration, fitted, cutoff_hz=cutoff_hz).configuration
            before = [_errors(robot, configuration, one) for one in left_out.values()]
        except UserError as error:
            notes.append(f"Whether it helps could not be tried without {names}: {error}.")
            continue
        without |= dict.fromkeys(left_out, found)
        for (name, recording), known in zip(left_out.items(), before, strict=True):
            try:
                after = _errors(robot, found, recording)
            except UserError as error:
                notes.append(f"With what was found there is no estimate of {name}: {error}.")
                after = {}
            for key, value in known.items():
                errors[key].append((value, after.get(key, math.inf)))
    gains = tuple(_gain(key, pairs) for key, pairs in errors.items())
    halved = len(recordings) == 1
    return replace(report, gains=gains, halved=halved, without=without, notes=(*report.notes, *notes))


def _folds(recordings: Mapping[str, LoadedRecording], heard: Collection[str]) -> Iterator[Fold]:
    """Of those to be filtered only what is heard by the estimator."""
    spans = {}
    for name, one in recordings.items():
        stamps = np.concatenate([series.stamps_ns for series in one.series])
        spans[name] = int(stamps.min()), int(stamps.max()) + 1
    for names in left_out_together(list(recordings), _FOLDS, seed=0):
        others = {name: one for name, one in recordings.items() if name not in names}
        yield others, {name: recordings[name].within(*spans[name], heard) for name in names}
    if len(recordings) == 1:
        [(name, one)] = recordings.items()
        start, stop = spans[name]
        middle = start + (stop - start) // 2
        everything = [series.channel.sensor for series in one.series]
        yield {name: one.within(start, middle, everything)}, {name: one.within(middle, stop, heard)}


def _errors(robot: Identified[Any], configuration: Any, recording: LoadedRecording) -> dict[str, float]:
    return headline_errors(judge(robot, configuration, robot.estimators[0], recording))


def _gain(key: str, pairs: Sequence[tuple[float, float]]) -> Gain:
    """With the 95 % interval of the mean ratio, by Student's t; what is supposed of its spread counts as two bags."""
    before, after = np.array(pairs).T
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(after) - np.log(before)
    part, _, figure = key.partition(".")
    mean, freedom = float(np.mean(logs)), _WEIGHT + len(logs) - 1
    if not math.isfinite(mean):
        return Gain(part, figure, tuple(before), tuple(after), (math.inf, math.inf))
    variance = (_WEIGHT * _SPREAD**2 + float(np.sum((logs - mean) ** 2))) / freedom
    half = float(student.ppf(0.975, freedom)) * math.sqrt(variance / len(logs))
    return Gain(part, figure, tuple(before), tuple(after), (math.exp(mean - half), math.exp(mean + half)))
