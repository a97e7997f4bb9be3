"""How well a filter with some parameters foretells a recording: the score that `tune` makes small.

By innovations, no truth is needed: minus the logarithm of the probability density that the filter gave to each
measurement before it saw it. The density is a contaminated normal: one measurement in 300 may be ten times as far off,
or outliers would be paid for with noise. What the gate refuses counts like all others, else it would be best to refuse
everything.

By truth it is the same of the errors: 0.5 (e^T P^-1 e + log |2 pi P|), a proper scoring rule (Gneiting and Raftery,
"Strictly proper scoring rules, prediction, and estimation", 2007), which asks for small errors and for a covariance
that fits them, at once.
"""

from __future__ import annotations

import copy
import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Estimate, Measurement
from onboard_estimation.base.presentation import headline_keys
from onboard_estimation.contract.result import EvaluationResult
from onboard_estimation.contract.robot import Robot
from onboard_estimation.filtering.gating import Innovation
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.options import EvaluateOptions
from onboard_estimation.judging.simulated_bags import SimulatedRun, simulated_source
from onboard_estimation.judging.sources import Source, read_bag
from onboard_estimation.pipeline.estimator import Estimator, Step

OUTLIER_SHARE, OUTLIER_FACTOR = 1.0 / 300.0, 10.0
_MOST_KEPT = 16
_NEES = "mean_nees_per_degree_of_freedom"


@dataclass(frozen=True)
class Scored:
    """What is to be scored: a recording, with a configuration.

    Attributes
    ----------
    recording
        A bag, or what is simulated.
    options
        As for `evaluate`, robot and estimator included.
    changes
        Parameters by dotted name, in the place of those of the options.
    """

    recording: Path | SimulatedRun
    options: EvaluateOptions
    changes: Mapping[str, Any]
    by: Literal["truth", "innovations"] | None


class Score(NamedTuple):
    """What came of it.

    Attributes
    ----------
    value
        Nats: a mean over innovations per dimension, or over instants and dimensions of the errors; less is better.
    dimensions
        Of all innovations, or of all parts of the state that have a truth.
    nees, rmse
        Mean NEES per degree of freedom, and the headline errors by their metric's name, by part; none without truth.
    """

    value: float
    dimensions: int
    nees: dict[str, float]
    rmse: dict[str, float]


def score(task: Scored) -> Score:
    """The score of a recording with a configuration.

    Raises
    ------
    UserError
        The recording or the configuration is none, the estimator gives no innovations, or there is no truth.
    """
    source = _source(task.recording, task.options)
    configuration = source.configured(
        replace(task.options, overrides={**task.options.overrides, **task.changes}),
    )
    name = source.estimators[0]
    innovations: dict[tuple[str, int], Innovation] = {}
    robot = _listening(source.robot, innovations) if task.by == "innovations" else source.robot
    result = judge(robot, configuration, name, source.recording, source.options.settings, bag=source.name)
    nees = {part: float(one[_NEES]) for part, one in result.metrics.items() if isinstance(one, dict) and _NEES in one}
    if task.by == "innovations":
        if not innovations:
            raise UserError(f"{source.robot.name} ({name}) gives no innovations: tune it --by truth")
        values = [contaminated_normal(one) for one in innovations.values()]
        count = sum(len(one.value) for one in innovations.values())
        return Score(math.fsum(values) / count, count, nees, headline_errors(result))
    value, count = _of_errors(result)
    if not count:
        raise UserError(f"{source.name} has no ground truth to tune by: --by innovations does without")
    return Score(value, count, nees, headline_errors(result))


def contaminated_normal(innovation: Innovation) -> float:
    """Minus the logarithm of the density of an innovation that is an outlier at times."""
    size = len(innovation.value)
    log_root = float(np.sum(np.log(np.abs(np.diagonal(innovation.root)))))
    usual = math.log1p(-OUTLIER_SHARE) - 0.5 * innovation.nis
    far = math.log(OUTLIER_SHARE) - 0.5 * innovation.nis / OUTLIER_FACTOR**2 - size * math.log(OUTLIER_FACTOR)
    return 0.5 * size * math.log(2.0 * math.pi) + log_root - float(np.logaddexp(usual, far))


def _of_errors(result: EvaluationResult) -> tuple[float, int]:
    """Mean over instants and dimensions, of all parts that have a truth."""
    settle_s = float(result.metrics["run"]["left_out_at_start_s"])
    total, count = 0.0, 0
    for part in result.parts.values():
        used = part.matched & (result.time_s >= settle_s) & np.isfinite(part.nees)
        if not used.any() or part.covariance is None:
            continue
        sign, log_determinant = np.linalg.slogdet(part.covariance[used])
        known = sign > 0.0
        size = len(part.names)
        one = 0.5 * (part.nees[used][known] + log_determinant[known] + size * math.log(2.0 * math.pi))
        total, count = total + float(np.mean(one)), count + size
    return (total / count if count else math.nan), count


def headline_errors(result: EvaluationResult) -> dict[str, float]:
    """Headline errors by name, of the parts that have a truth."""
    return {
        f"{part}.{key}": float(figures[key])
        for part, figures in result.metrics.items()
        if part in result.parts
        for key in headline_keys(figures)
    }


class _Listening(Estimator[Any]):
    """An estimator, step by step, whose innovations are kept: of a measurement that is filtered again, the last."""

    def __init__(self, inner: Estimator[Any], heard: dict[tuple[str, int], Innovation]) -> None:
        self._inner, self._heard = inner, heard
        self.space, self.phases = inner.space, inner.phases

    def start(self, initial: Estimate | None) -> Any:
        return self._inner.start(initial)

    def step(self, state: Any, measurement: Measurement) -> Step:
        step = self._inner.step(state, measurement)
        if step.innovation is not None:
            self._heard[measurement.sensor, measurement.stamp_ns] = step.innovation
        return step

    def phase(self, state: Any) -> str | None:
        return self._inner.phase(state)


def _listening(robot: Robot[Any], heard: dict[tuple[str, int], Innovation]) -> Robot[Any]:
    """The robot, whose estimators add what they see to `heard`."""
    listening = copy.copy(robot)
    listening.estimator = lambda *asked: _Listening(robot.estimator(*asked), heard)  # type: ignore[method-assign]
    return listening


_kept: OrderedDict[Any, Source] = OrderedDict()
"""Recordings that this process has read: each is scored with many configurations."""


def _source(recording: Path | SimulatedRun, options: EvaluateOptions) -> Source:
    stamp = recording.stat().st_mtime_ns if isinstance(recording, Path) else 0
    key = (recording, stamp, repr(options))
    if key not in _kept:
        if isinstance(recording, Path):
            _kept[key] = read_bag(recording, options)
        else:
            _kept[key] = simulated_source(recording, options)
        while len(_kept) > _MOST_KEPT:
            _kept.popitem(last=False)
    _kept.move_to_end(key)
    return _kept[key]
