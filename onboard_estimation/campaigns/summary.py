"""What the runs of a campaign come to: figures of groups, consistency over runs, and what differs between groups.

For the terminal and for the page: figures as numbers, and as the cells of a table.

A group are the runs that differ in recording and seed alone. Groups are compared by pairs: runs that are alike but for
one label, so that what makes a recording hard is in both. Pairs of one recording, with several configurations, say the
same thing several times: their differences are averaged, and recordings are what is counted.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import bootstrap, permutation_test
from scipy.stats import t as student_t

from onboard_estimation.base.measurement import Vector
from onboard_estimation.base.presentation import percent, shown_alike, words
from onboard_estimation.campaigns.campaign import AXES, ERRORS, RUNS, Campaign, Row, figures_of, thinning
from onboard_estimation.contract.result import FAULT
from onboard_estimation.judging.told import SOON_S

GROUP_AXES = ("robot", "variant", "estimator", "configuration", "what_if")
COMPARED_AXES = ("estimator", "configuration", "what_if")
FIGURE_HEADINGS = ("group (runs)", "figure", "", "median", "worst", "NEES/dof", "1 sigma", "3 sigma")
FIGURE_CAPTION = (
    "NEES/dof is the mean over the runs of the squared error over the stated variance, per degree of freedom: 1 is "
    "consistent, more is overconfident, less too unsure; in brackets its 95 % interval from the scatter between runs. "
    "1 sigma, 3 sigma: share of the errors within (Gaussian: 0.683, 0.997)."
)
DIFFERENCE_HEADINGS = ("from, to", "figure", "", "recordings", "before", "after", "change", "in %", "")
SIGNIFICANCE = 0.05
"""Largest share of figures that are called different where both runs are the same."""
FEWEST_RECORDINGS = 6
"""Signs of fewer differences are all alike by chance more often than that: 2 / 2^5 is 0.06."""
LEAST_CHANGE = 0.05
"""Of a figure: what is less is none to choose by. Motion capture and initial errors that are drawn move it as much."""
_PERCENT = f"{100.0 * LEAST_CHANGE:g} %"
DIFFERENCE_CAPTION = (
    "Pairs of runs that are alike but for one label, averaged by recording; in brackets the 95 % interval of the mean "
    f"change over recordings. Better and worse: by {_PERCENT} or more, over {FEWEST_RECORDINGS} recordings or more; "
    "else how many would show so much. Of twenty figures of the same filter one may look another by chance."
)
_SEEN = 2.8
"""Standard errors of a mean change that is seen in four of five campaigns: 1.96 for `SIGNIFICANCE`, 0.84 for that."""
_FEWEST_RUNS, _RESAMPLES = 4, 4999
_CONSISTENCY = ("mean_nees_per_degree_of_freedom", "coverage_1_sigma", "coverage_3_sigma")
_MOST_SIGNS = 12
"""Of so many differences all signs are tried, which holds whatever their distribution; of more it is Student's t."""


class Figures(NamedTuple):
    """A figure over the runs of a group.

    Attributes
    ----------
    values
        (N,) one a run, NaN where a run has none.
    median, largest
        Over the runs that have it.
    worst
        The run with the largest.
    middle
        The run that is nearest to the median.
    """

    name: str
    values: Vector
    median: float
    largest: float
    worst: Row
    middle: Row


class PartConsistency(NamedTuple):
    """Is the stated uncertainty of a part right, over all runs of a group?

    Attributes
    ----------
    runs
        With truth and covariance.
    nees
        Mean over runs of each run's mean NEES per degree of freedom: 1 for a consistent filter.
    interval
        95 % interval of that mean, from the scatter between runs; NaN for few runs.
    within_1_sigma, within_3_sigma
        Share of the errors within one and three stated standard deviations, each run's counting alike.
    """

    runs: int
    nees: float
    interval: tuple[float, float]
    within_1_sigma: float
    within_3_sigma: float


@dataclass(frozen=True)
class Group:
    """Runs that differ in recording and seed alone.

    Attributes
    ----------
    labels
        What they share, by axis.
    rows
        Of the runs that are done.
    figures
        One headline a part of the state.
    consistency
        By part.
    """

    labels: Mapping[str, str]
    rows: tuple[Row, ...]
    failed: int
    figures: tuple[Figures, ...]
    consistency: Mapping[str, PartConsistency]

    def name(self, axes: Sequence[str]) -> str:
        """Its labels along some axes."""
        return ", ".join(label for axis in axes if (label := self.labels[axis])) or "all runs"

    def fault_sentence(self) -> str:
        """When a fault that was put into the runs was told, and whether they stayed covered; empty where none was."""
        names = ("told_after_s", "rightly_told_after_s", "told_soon_or_covered", "false_alarms", "before_s")
        after_s, right_s, noticed, alarms, watched_s = _known(figures_of(self.rows), FAULT, names)
        if not len(alarms):
            return ""
        when = f", after {np.median(after_s):.2g} s (median), {after_s.max():.2g} s (worst)" if len(after_s) else ""
        hourly = 3600.0 * alarms.sum() / watched_s.sum() if watched_s.any() else math.nan
        return (
            f"Fault told in {len(after_s)} of {len(alarms)} runs{when}; rightly in {len(right_s)}; within "
            f"{SOON_S:g} s or covered in {percent(noticed.mean()) if len(noticed) else 'none known'}; "
            f"{alarms.sum():g} false alarms before it, {hourly:.3g} an hour."
        )

    def lines(self, axes: Sequence[str]) -> Iterator[tuple[Figures, tuple[str, ...]]]:
        """A figure and its line under `FIGURE_HEADINGS`; its name stands in the first alone."""
        label = f"{self.name(axes)} ({len(self.rows)})"
        for one in self.figures:
            judged = self.consistency.get(one.name.partition(".")[0])
            consistency = ("-", "-", "-")
            if judged is not None:
                nees = f"{judged.nees:.2f}" + _between(judged.interval, [f"{bound:.2f}" for bound in judged.interval])
                consistency = (nees, f"{judged.within_1_sigma:.3f}", f"{judged.within_3_sigma:.3f}")
            yield one, (label, *_in_words(one.name, one.median, one.largest), *consistency)
            label = ""


class Difference(NamedTuple):
    """What changes where one label does, over pairs of runs that are alike otherwise.

    Attributes
    ----------
    axis, before, after
        Which label, and what it is in both.
    figure
        Of which.
    pairs, recordings
        How many pairs, of how many recordings.
    mean_before, mean_after, mean_change
        Of the figure over the recordings, and of its difference.
    interval
        95 % interval of the mean change by Student's t over the recordings; NaN for one recording.
    p_value
        Of as large a mean change where both are the same, and the signs of the recordings' differences are chance.
    needed
        Recordings in which a change by `LEAST_CHANGE` would be seen, by the scatter of the differences.
    """

    axis: str
    before: str
    after: str
    figure: str
    pairs: int
    recordings: int
    mean_before: float
    mean_after: float
    mean_change: float
    interval: tuple[float, float]
    p_value: float
    needed: int

    @property
    def verdict(self) -> str:
        """`better`, `worse`, `less than 5 %`, `no difference shown`, `too few recordings`."""
        low, high = self.interval
        if self.recordings < FEWEST_RECORDINGS:
            return "too few recordings"
        if self.p_value >= SIGNIFICANCE or low <= 0.0 <= high:
            return "no difference shown"
        if abs(self.mean_change) < LEAST_CHANGE * self.mean_before:
            return f"less than {_PERCENT}"
        return "better" if high < 0.0 else "worse"

    def cells(self) -> tuple[str, ...]:
        """A line under `DIFFERENCE_HEADINGS`."""
        means = self.mean_before, self.mean_after, self.mean_change
        name, unit, before, after, change, *bounds = _in_words(self.figure, *means, *self.interval)
        change += _between(self.interval, bounds)
        share = f"{100.0 * self.mean_change / self.mean_before:+.1f}" if self.mean_before > 0.0 else "-"
        said = self.verdict
        if said not in ("better", "worse") and self.needed > self.recordings:
            said += f": {_PERCENT} needs {self.needed if self.needed < 1000 else '1000 or more'}"
        labels = f"{self.before or 'default'} to {self.after}", name, unit
        return (*labels, str(self.recordings), before, after, change, share, said)


def groups_of(campaign: Campaign) -> tuple[Group, ...]:
    """The groups in the order of their first runs."""
    gathered: dict[tuple[str, ...], list[Row]] = {}
    for row in campaign.rows:
        gathered.setdefault(tuple(str(row.get(axis, "")) for axis in GROUP_AXES), []).append(row)
    return tuple(_group(dict(zip(GROUP_AXES, labels, strict=True)), rows) for labels, rows in gathered.items())


def differing_axes(groups: Sequence[Group]) -> list[str]:
    """Along which axes groups differ."""
    return [axis for axis in GROUP_AXES if len({group.labels[axis] for group in groups}) > 1]


def differences(campaign: Campaign) -> Iterator[Difference]:
    """Every label of an axis against the axis's first, in each headline figure."""
    done = [row for row in campaign.rows if row["status"] == "done"]
    asked = pd.DataFrame([row["asked"] for row in done], columns=AXES)  # a filter may call itself by another name
    figures = figures_of(done)
    for axis in COMPARED_AXES:
        labels = list(asked[axis].unique())
        others = [one for one in AXES if one != axis]
        own = [one for one in others if one not in COMPARED_AXES]
        for after, name in itertools.product(labels[1:], headline_names(done)):
            table = asked.assign(value=figures[name]).pivot(index=others, columns=axis, values="value")
            pairs = table[[labels[0], after]].dropna()
            if len(pairs):
                means = pairs.groupby(own, sort=False).mean().to_numpy()
                yield compared(axis, labels[0], after, name, len(pairs), means)


def headline_names(rows: Sequence[Row]) -> list[str]:
    """One figure a part of the state, see `headline_keys`, of all these runs."""
    return list(dict.fromkeys(name for row in rows for name in row.get("headlines", ())))


def compared(axis: str, before: str, after: str, name: str, pairs: int, found: NDArray[np.float64]) -> Difference:
    """The difference between the means of a figure before and after (N, 2), a row a recording."""
    count, changes = len(found), found[:, 1] - found[:, 0]
    mean_before, mean_after = np.mean(found, axis=0).tolist()
    change, scatter = float(np.mean(changes)), float(np.std(changes, ddof=min(count - 1, 1)))
    error = scatter / math.sqrt(count)
    half = float(student_t.ppf(1.0 - 0.5 * SIGNIFICANCE, count - 1)) * error  # NaN of one recording
    p_value = 1.0
    if count > _MOST_SIGNS:
        p_value = 2.0 * float(student_t.sf(abs(change) / max(error, 1e-300), count - 1))
    elif count > 1:
        p_value = float(permutation_test((changes,), np.mean, permutation_type="samples").pvalue)
    needed, least = FEWEST_RECORDINGS, LEAST_CHANGE * mean_before
    if least > 0.0:
        needed = max(needed, math.ceil((_SEEN * scatter / least) ** 2))
    means, interval = (mean_before, mean_after, change), (change - half, change + half)
    return Difference(axis, before, after, name, pairs, count, *means, interval, p_value, needed)


def interval_of_mean(values: Vector) -> tuple[float, float]:
    """95 % interval of the mean of independent values (N,), by bootstrap (BCa); NaN where there are few."""
    if len(values) < _FEWEST_RUNS or not np.isfinite(values).all():
        return float("nan"), float("nan")
    if np.ptp(values) == 0.0:
        return float(values[0]), float(values[0])
    found = bootstrap((values,), np.mean, n_resamples=_RESAMPLES, rng=np.random.default_rng(0)).confidence_interval
    return float(found.low), float(found.high)


def worst_runs(groups: Sequence[Group], count: int = 5) -> list[Row]:
    """The runs that stand out most: largest headline figure, in medians of all runs."""
    rows = [row for group in groups for row in group.rows]
    figures = figures_of(rows)[headline_names(rows)]
    medians = figures.median()
    marks = (figures / medians[medians > 0.0]).max(axis=1).astype(np.float64)
    return [rows[place] for place in marks[marks > 0.0].nlargest(count).index]


def _group(labels: Mapping[str, str], rows: Sequence[Row]) -> Group:
    done = tuple(row for row in rows if row["status"] == "done")
    figures, found = figures_of(done), []
    for name in headline_names(done):
        if len(known := figures[name].dropna()):
            median, worst = float(known.median()), done[known.idxmax()]
            middle = done[(known - median).abs().idxmin()]
            found.append(Figures(name, figures[name].to_numpy(), median, float(known.max()), worst, middle))
    consistency = {}
    for part in dict.fromkeys(part for row in done for part in row["parts"]):
        means, *within = _known(figures, part, _CONSISTENCY)
        if len(within[0]):
            shares = (float(one.mean()) for one in within)
            interval = interval_of_mean(means.to_numpy())
            consistency[part] = PartConsistency(len(within[0]), float(means.mean()), interval, *shares)
    return Group(labels, done, len(rows) - len(done), tuple(found), consistency)


def _known(figures: pd.DataFrame, part: str, names: Iterable[str]) -> list[pd.Series[float]]:
    """Figures of a part, of the runs that have each."""
    return [figures.get(f"{part}.{name}", pd.Series(dtype=np.float64)).dropna() for name in names]


def errors_over_time(folder: Path, rows: Sequence[Row]) -> dict[str, tuple[str, list[pd.DataFrame]]]:
    """By part the unit of its first dimension, and of each run the magnitude of all dimensions of this unit.

    Columns: `time_s`, `error`, `stddev`; of many runs so few instants that memory holds them.
    """
    parts: dict[str, tuple[str, list[pd.DataFrame]]] = {}
    for row in rows:
        run = pd.read_parquet(folder / RUNS / row["name"] / ERRORS)
        for part, keys in itertools.groupby(run.attrs, lambda key: key.partition(".")[0]):
            first, *others = keys
            alike = [first, *(key for key in others if run.attrs[key] == run.attrs[first])]
            sizes = {
                name: np.linalg.norm(run[[f"{key}.{name}" for key in alike]], axis=1) for name in ("error", "stddev")
            }
            frame = run[["time_s"]].assign(**sizes)[:: thinning(len(rows))]
            parts.setdefault(part, (run.attrs[first], []))[1].append(frame)
    return parts


def _in_words(name: str, *values: float) -> tuple[str, ...]:
    """A figure in words, the symbol of its unit, and values of it in that."""
    part, _, key = name.partition(".")
    label, shown, unit = shown_alike(key, values)
    return f"{words(part)}: {label}", unit, *shown


def _between(interval: tuple[float, float], shown: Sequence[str]) -> str:
    """An interval behind its number; nothing where there is none."""
    return "" if np.isnan(interval[0]) else f" ({shown[0]} to {shown[1]})"
