"""`tune`: parameters that foretell recordings best, and whether they foretell others better too.

Each candidate with each recording is a task of some worker. Parameters that hardly change the score are found first and
left alone; the others are searched on a logarithmic scale. Then recordings are left out by turns: what was found with
the others is judged on them, which says whether tuning helped.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.configuration import Parameter, describe, to_mapping, to_parameter_file
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.kept_results import keepable, keeping
from onboard_estimation.base.parameter_file import leaves
from onboard_estimation.base.presentation import format_number, shown_alike, words
from onboard_estimation.base.workers import Workers
from onboard_estimation.campaigns.score import Score, Scored, score
from onboard_estimation.contract.robot import find_robot
from onboard_estimation.contract.trained import ReportTable
from onboard_estimation.judging.options import EvaluateOptions, TuningSettings
from onboard_estimation.judging.simulated_bags import SimulatedRun
from onboard_estimation.judging.sources import load_configuration
from onboard_estimation.learning.optimisation.methods import gradient
from onboard_estimation.learning.optimisation.minimise import minimise
from onboard_estimation.learning.optimisation.problem import (
    LINEAR,
    LOG,
    Problem,
    Progress,
    Settings,
)
from onboard_estimation.report.run_folder import content_hash

keepable(Score)
FACTOR = 30.0
"""A parameter is searched between its value divided by this and times this, where no bounds are given."""
_NOISE = re.compile(r"noise|stddev|error|walk|sigma|density|variance")
# What judges, or is drawn from when a run is judged: tuning it would move the goal.
_NOT_NOISE = re.compile(r"truth|^initial\.|probability|_time_s$")
_RANGE = re.compile(r"(?P<low>[^.]+(?:\.\d+)?(?:[eE][+-]?\d+)?)\.\.(?P<high>.+)")

_FORM = "write NAME=LOW..HIGH with LOW below HIGH, e.g. =0.001..0.1"


@dataclass(frozen=True)
class Tunable:
    """A parameter, or the common factor of all elements of one that is a list.

    Attributes
    ----------
    name
        Dotted.
    value
        Number or list, as configured.
    low, high
        Bounds, of a list those of the factor.
    scale
        `log` or `linear`.
    """

    name: str
    unit: str
    value: float | tuple[float, ...]
    low: float
    high: float
    scale: str

    @property
    def start(self) -> float:
        """Where the search begins: the value, or a factor of one."""
        return 1.0 if isinstance(self.value, tuple) else self.value

    @property
    def is_log(self) -> bool:
        """Searched on a logarithmic scale."""
        return self.scale == LOG

    def moved(self, factor: float) -> float:
        """The start times a factor, on a linear scale so many tenths of the range further, within the bounds."""
        moved = factor * self.start if self.is_log else self.start + (factor - 1.0) * 0.1 * (self.high - self.low)
        return min(max(moved, self.low), self.high)

    def changed(self, number: float) -> float | list[float]:
        """The parameter for a number between the bounds."""
        return [number * one for one in self.value] if isinstance(self.value, tuple) else number


Ranges = Mapping[str, tuple[float, float] | None]
"""Between which bounds parameters are searched, by their dotted names; None: a factor of 30 either way."""


def parse_ranges(texts: Sequence[str]) -> dict[str, tuple[float, float] | None]:
    """`NAME` or `NAME=LOW..HIGH`; UserError where a text is none, or a name comes twice."""
    ranges: dict[str, tuple[float, float] | None] = {}
    for text in texts:
        name, equals, span = text.partition("=")
        if name in ranges:
            raise UserError(f"--parameter {name} is given twice")
        found = _RANGE.fullmatch(span.strip())
        try:
            ranges[name] = (float(found["low"]), float(found["high"])) if found else None
        except ValueError:
            found = None
        if equals and not found:
            raise UserError(f"--parameter {text}: {_FORM}")
    return ranges


def tunables(configuration: Any, asked: Ranges = MappingProxyType({})) -> list[Tunable]:
    """What is to be tuned.

    Parameters
    ----------
    asked
        None: all whose names are those of noise, and that are not zero.

    Raises
    ------
    UserError
        No such parameter, no number, or no bounds: all faults in one line.
    """
    known = {one.name: one for one in describe(type(configuration)) if one.type_name.startswith("float")}
    values = {".".join(keys): value for keys, value in leaves(to_mapping(configuration))}
    if not asked:
        noise = [name for name in known if _NOISE.search(name.rpartition(".")[2]) and not _NOT_NOISE.search(name)]
        asked = {name: None for name in noise if _is_positive(values[name])}
        if not asked:
            raise UserError(f"no parameter is called noise: name some with --parameter; there are {', '.join(known)}")
    out: dict[str, Tunable] = {}
    faults = []
    for name, bounds in asked.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 3, 0.4)
            faults.append(
                f"--parameter {name}: no such number; {'the nearest are' if near else 'there are'} "
                f"{', '.join(near or known)}"
            )
            continue
        try:
            out[name] = _tunable(known[name], values[name], bounds)
        except UserError as error:
            faults.append(str(error))
    if faults:
        raise UserError("; ".join(faults))
    return list(out.values())


def problem_of(chosen: Sequence[Tunable]) -> Problem:
    """What an optimiser needs to know of them."""
    names, lows, highs, scales = zip(*((one.name, one.low, one.high, one.scale) for one in chosen), strict=True)
    return Problem(names, lows, highs, scales)


def _tunable(parameter: Parameter, value: Any, bounds: tuple[float, float] | None) -> Tunable:
    name = parameter.name
    if bounds is not None and not -math.inf < bounds[0] < bounds[1] < math.inf:
        raise UserError(f"--parameter {name}={bounds[0]:g}..{bounds[1]:g}: {_FORM}")
    if isinstance(value, list):
        if not _is_positive(value):
            raise UserError(
                f"--parameter {name}: the elements of a list share a factor, and one is not above 0: {value}"
            )
        low, high = bounds or (1.0 / FACTOR, FACTOR)
        return Tunable(name, parameter.unit, tuple(float(one) for one in value), low, high, LOG)
    value = float(value)
    if bounds is None:
        if value <= 0.0:
            raise UserError(f"--parameter {name} is {value:g}: say between which bounds, --parameter {name}=LOW..HIGH")
        bounds = value / FACTOR, value * FACTOR
        if parameter.minimum is not None:
            bounds = max(bounds[0], float(parameter.minimum)), bounds[1]
        if parameter.maximum is not None:
            bounds = bounds[0], min(bounds[1], float(parameter.maximum))
    low, high = bounds
    if not low <= value <= high:
        raise UserError(f"--parameter {name}: it is {value:g}, which is outside of {low:g}..{high:g}")
    return Tunable(name, parameter.unit, value, low, high, LOG if low > 0.0 else LINEAR)


def _is_positive(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return bool(values) and all(one > 0.0 for one in values)


Rows = NDArray[np.float64]
Recordings = Mapping[str, Path | SimulatedRun]
Tell = Callable[[float, str], None]

FEWEST_TO_LEAVE_OUT = 2
_TRIED = 3.0
"""Factor by which each parameter is moved both ways, to see whether it matters."""
_MATTERS = 2e-3
_PULL = 5e-4
"""Nats that ten times the value that a parameter began with costs: what does not matter stays where it was."""
_COUNT_TOLERANCE = 0.05
_ASTRAY = 30.0
"""Mean NEES per degree of freedom, of a run after tuning: the filter is lost there, whatever its noise."""
_TOGETHER = (1.0 / 30.0, 0.1, 1.0 / 3.0, 1.0, 3.0, 10.0, 30.0)
"""Common factors of all parameters, tried first: noise is often wrong as a whole."""
_NO_SCORE = (UserError, ArithmeticError, ValueError)
"""What a filter may raise with a candidate's parameters; anything else is a fault of ours."""


@dataclass(frozen=True)
class LeftOut:
    """A recording that was left out: its score as configured, and with what the others taught."""

    name: str
    before: Score
    after: Score


@dataclass(frozen=True)
class Tuning:
    """What came of it.

    Attributes
    ----------
    chosen
        What was searched.
    values
        Parameters by name, as found with all recordings.
    untouched
        Names of parameters that hardly change the score.
    at_bounds
        Names of those that ended at a bound.
    before, after
        By recording, of all: as configured and as found, with the recordings that taught.
    left_out
        What says whether it helped; empty where nothing could be left out.
    evaluations
        Scores that were computed.
    """

    settings: TuningSettings
    chosen: tuple[Tunable, ...]
    values: Mapping[str, Any]
    untouched: tuple[str, ...]
    at_bounds: tuple[str, ...]
    before: Mapping[str, Score]
    after: Mapping[str, Score]
    left_out: tuple[LeftOut, ...]
    evaluations: int

    @property
    def helped(self) -> bool | None:
        """On most recordings that were left out, and in their mean; None: nothing was left out."""
        if not self.left_out:
            return None
        changes = [one.after.value - one.before.value for one in self.left_out]
        return bool(np.mean(changes) < 0.0 and sum(change < 0.0 for change in changes) > len(changes) / 2)

    def sentences(self) -> list[str]:
        """What the reader must know."""
        out = []
        if self.untouched:
            out.append(f"Left as they were, for they hardly matter here: {', '.join(self.untouched)}.")
        if self.at_bounds:
            out.append(f"At a bound of what was searched: {', '.join(self.at_bounds)}; widen it with --parameter.")
        astray = [name for name, one in self.after.items() if max(one.nees.values(), default=0.0) > _ASTRAY]
        if astray:
            out.append(
                f"No noise explains the errors on {', '.join(astray)} (NEES beyond {_ASTRAY:g}): they weigh more than "
                "all others. Look at them, or leave them out."
            )
        if not self.left_out:
            out.append("Nothing was left out: whether it helps on other recordings is not known. Give three or more.")
            return out
        better = sum(one.after.value < one.before.value for one in self.left_out)
        change = float(np.median([one.before.value - one.after.value for one in self.left_out]))
        gain = f"{abs(change):.3g} nats a dimension {'better' if change > 0.0 else 'worse'} in the median"
        verdict = "It helps" if self.helped else "It does NOT help"
        out.append(f"{verdict} on recordings that were left out: better on {better} of {len(self.left_out)}, {gain}.")
        return out

    def summary(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            "by": self.settings.by,
            "parameters": {
                one.name: {"before": one.value, "after": self.values[one.name], "unit": one.unit} for one in self.chosen
            },
            "untouched": list(self.untouched),
            "at_bounds": list(self.at_bounds),
            "helped": self.helped,
            "left_out": [
                {"name": one.name, "before": one.before._asdict(), "after": one.after._asdict()}
                for one in self.left_out
            ],
            "evaluations": self.evaluations,
            "notes": self.sentences(),
        }

    def tables(self) -> list[ReportTable]:
        """What was found, and what it does to recordings that were left out."""
        numbers = ("before", "now")
        found = tuple((one.name, one.unit, shown(one.value), shown(self.values[one.name])) for one in self.chosen)
        tables = [ReportTable("Parameters", ("name", "unit", *numbers), found, numbers)]
        rows: list[tuple[str, ...]] = []
        for run in self.left_out:
            rows.append((run.name, "Score, less is better", "nats", shown(run.before.value), shown(run.after.value)))
            for part, nees in run.before.nees.items():
                now = run.after.nees.get(part, math.nan)
                rows.append(("", f"{words(part)}: NEES/dof", "", shown(nees), shown(now)))
            for key, rmse in run.before.rmse.items():
                part, _, leaf = key.partition(".")
                label, both, unit = shown_alike(leaf, (rmse, run.after.rmse.get(key, math.nan)))
                rows.append(("", f"{words(part)}: {label}", unit, *both))
        if rows:
            title, headings = "On bags that were left out", ("bag", "figure", "", *numbers)
            tables.append(ReportTable(title, headings, tuple(rows), numbers))
        return tables


def shown(value: Any) -> str:
    """A number, or several."""
    values = value if isinstance(value, (list, tuple)) else [value]
    return ", ".join(format_number(float(one), 3) if math.isfinite(one) else "none" for one in values)


@dataclass
class _Search:
    """Scores of candidates, on workers."""

    recordings: Recordings
    options: EvaluateOptions
    settings: TuningSettings
    chosen: tuple[Tunable, ...]
    workers: Workers
    counts: dict[str, int] = field(default_factory=dict)
    evaluations: int = 0

    def scores(self, candidates: Rows, names: Sequence[str]) -> list[list[Score | None]]:
        """(P, R) of candidates (P, n) on recordings; None where there is none.

        One recording after the other, since a worker that has read one keeps it.
        """
        tasks = [self.task(name, self.changes(candidate)) for name in names for candidate in candidates]
        self.evaluations += len(tasks)
        found: list[Score | None] = [None] * len(tasks)
        for finished in self.workers.results(score, tasks):
            if finished.error is not None and not isinstance(finished.error, _NO_SCORE):
                raise finished.error
            found[finished.number] = finished.value
        return [found[row :: len(candidates)] for row in range(len(candidates))]

    def task(self, name: str, changes: Mapping[str, Any]) -> Scored:
        """Each recording starts with an error of its own."""
        seed = self.options.settings.seed + list(self.recordings).index(name)
        options = replace(self.options, settings=replace(self.options.settings, seed=seed))
        return Scored(self.recordings[name], options, changes, self.settings.by)

    def changes(self, candidate: Rows) -> dict[str, Any]:
        return {one.name: one.changed(float(number)) for one, number in zip(self.chosen, candidate, strict=True)}

    def costs(self, candidates: Rows, names: Sequence[str]) -> Rows:
        """(P,) mean score over recordings; infinite where a candidate cannot be compared."""
        starts = np.array([one.start for one in self.chosen])
        out = np.full(len(candidates), np.inf)
        for row, scores in enumerate(self.scores(candidates, names)):
            if all(self._compares(name, one) for name, one in zip(names, scores, strict=True)):
                logs = np.array(
                    [_decades(one, x, x0) for one, x, x0 in zip(self.chosen, candidates[row], starts, strict=True)]
                )
                out[row] = np.mean([one.value for one in scores if one is not None]) + _PULL * float(logs @ logs)
        return out

    def _compares(self, name: str, one: Score | None) -> bool:
        """A filter that makes fewer updates is not better for it."""
        if one is None or not math.isfinite(one.value):
            return False
        known = self.counts.get(name, one.dimensions)
        return abs(one.dimensions - known) <= _COUNT_TOLERANCE * known

    def best(self, names: Sequence[str], tell: Tell) -> Rows:
        """(n,) the candidate of least cost on these recordings."""
        begun = self._scaled(names)
        tell(0.1, "each by itself")
        batch = 2 * len(self.chosen) + 1
        generations = max(2, self.settings.evaluations // batch)
        settings = Settings(generations=generations)

        def told(progress: Progress) -> None:
            done = f"candidate {progress.generation * batch}, score {progress.best_cost:.4f}"
            tell(0.1 + 0.9 * progress.share, done)

        problem = problem_of(self.chosen)
        found = minimise(gradient, problem, lambda rows: self.costs(rows, names), settings, told, initial=begun).best
        # What it began with may still be the best.
        both = np.vstack([[one.start for one in self.chosen], begun, found])
        return np.asarray(both[int(np.argmin(self.costs(both, names)))])

    def _scaled(self, names: Sequence[str]) -> Rows:
        """All parameters by the common factor that does best."""
        candidates = np.array(
            [[one.moved(factor) if one.is_log else one.start for one in self.chosen] for factor in _TOGETHER]
        )
        return np.asarray(candidates[int(np.argmin(self.costs(candidates, names)))])


def tune(
    recordings: Recordings,
    options: EvaluateOptions,
    chosen: Sequence[Tunable],
    settings: TuningSettings,
    workers: Workers,
    tell: Tell = lambda share, step: None,
) -> Tuning:
    """Search parameters, and judge on recordings that were left out; what was interrupted is gone on with.

    Parameters
    ----------
    recordings
        By name.
    options
        As for `evaluate`, robot and estimator included.
    tell
        Takes the share that is done and what is done next.

    Raises
    ------
    UserError
        A recording cannot be scored as configured; the message names it. No parameter matters.
    """
    paths = [one for one in recordings.values() if isinstance(one, Path)]
    robot = None if options.robot is None else find_robot(options.robot)  # else each bag says it
    configured = robot and to_parameter_file(load_configuration(robot, options, paths[0] if paths else None))
    contents = [content_hash(one) if isinstance(one, Path) else one for one in (*recordings.values(), options.model)]
    asked = "tune", list(recordings), contents, configured, options, list(chosen), settings
    with keeping(workers, *asked) as kept:
        return _searched(_Search(recordings, options, settings, tuple(chosen), kept), tell)


def _searched(search: _Search, tell: Tell) -> Tuning:
    chosen, settings, names = search.chosen, search.settings, list(search.recordings)
    folds = left_out_together(names, settings.folds, settings.seed)
    parts = 1 + len(folds)
    tell(0.0, "as configured")
    before = _as_configured(search, names)
    search.counts = {name: one.dimensions for name, one in before.items()}
    tell(0.02, f"which of {len(chosen)} parameters matter")
    matters = _which_matter(search, names, before)
    untouched = tuple(one.name for one, matter in zip(chosen, matters, strict=True) if not matter)
    search.chosen = tuple(one for one, matter in zip(chosen, matters, strict=True) if matter)
    if not search.chosen:
        raise UserError(f"none of these parameters changes the score of these recordings: {', '.join(untouched)}")

    def searching(part: int, what: str) -> Tell:
        return lambda share, step: tell(0.1 + 0.9 * (part + share) / parts, f"{what}: {step}")

    best = search.best(names, searching(0, "all recordings"))
    [after] = search.scores(best[None], names)
    left_out = []
    for number, fold in enumerate(folds):
        others = [name for name in names if name not in fold]
        found = search.best(others, searching(1 + number, f"without {', '.join(fold)}"))
        [scores] = search.scores(found[None], fold)
        left_out += [LeftOut(name, before[name], one or _NONE) for name, one in zip(fold, scores, strict=True)]
    left_out.sort(key=lambda one: names.index(one.name))
    shares = problem_of(search.chosen).to_shares(best)
    return Tuning(
        settings,
        search.chosen,
        search.changes(best),
        untouched,
        tuple(one.name for one, share in zip(search.chosen, shares, strict=True) if not 0.01 < share < 0.99),
        before,
        {name: one or _NONE for name, one in zip(names, after, strict=True)},
        tuple(left_out),
        search.evaluations,
    )


_NONE = Score(math.inf, 0, {}, {})
"""Of a recording that the filter gives no estimate of."""


def _decades(one: Tunable, value: float, start: float) -> float:
    """By how many powers of ten it moved; of a linear one in shares of its range."""
    return math.log10(value / start) if one.is_log else (value - start) / (one.high - one.low)


def left_out_together(names: Sequence[str], folds: int, seed: int) -> list[list[str]]:
    """Which recordings are left out together, drawn; none where there are less than two."""
    count = min(folds, len(names))
    if len(names) < FEWEST_TO_LEAVE_OUT or count < 2:
        return []
    order = np.random.default_rng(seed).permutation(len(names))
    return [[names[place] for place in sorted(order[fold::count])] for fold in range(count)]


def _as_configured(search: _Search, names: Sequence[str]) -> dict[str, Score]:
    tasks = [search.task(name, {}) for name in names]
    found: dict[str, Score] = {}
    for finished in search.workers.results(score, tasks):
        name = names[finished.number]
        if finished.error is not None:
            said = str(finished.error)
            raise UserError(said if name in said else f"{name}: {said}") from finished.error
        found[name] = finished.value
        if not math.isfinite(finished.value.value):
            raise UserError(f"{name} has no finite score as configured: {finished.value.value}")
    return {name: found[name] for name in names}


def _which_matter(search: _Search, names: Sequence[str], before: Mapping[str, Score]) -> list[bool]:
    """Each moved by a factor both ways, the others as configured."""
    start = np.array([one.start for one in search.chosen])
    moved = np.tile(start, (2 * len(start), 1))
    for place, one in enumerate(search.chosen):
        moved[2 * place : 2 * place + 2, place] = one.moved(1.0 / _TRIED), one.moved(_TRIED)

    def change(row: Sequence[Score | None]) -> float:
        known = [(before[name], after) for name, after in zip(names, row, strict=True) if after is not None]
        return max((abs(after.value - was.value) for was, after in known), default=math.inf)

    changes = [change(row) for row in search.scores(moved, names)]
    return [max(both) >= _MATTERS for both in zip(changes[::2], changes[1::2], strict=True)]
