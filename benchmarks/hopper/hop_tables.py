"""Tables of hops in the paper's layout: errors by set height with t-tests (Tables III, S3), agility (Tables IV, S1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from benchmarks.hopper import paper_tables
from hopper_estimation import agility
from hopper_estimation.hop_metrics import METRICS, HopErrors, mean_of
from hopper_estimation.hops import HopCycles
from onboard_estimation.capabilities.tables import ReportTable
from onboard_estimation.errors import UserError

Array = NDArray[np.float64]

METRIC_WORDS = {
    "m1": "(M1) mean nMAE of height",
    "m2": "(M2) mean nMAE of velocity",
    "m3": "(M3) MAPE of apex height",
    "m4": "(M4) MAE of apex time",
    "m5": "(M5) MAE of apex height to command",
}
METRIC_UNITS = {"m1": "%", "m2": "%", "m3": "%", "m4": "s", "m5": "m"}
_SAME_HEIGHT_M = 1e-3


class TTest(NamedTuple):
    """Two-tailed t-test: t, degrees of freedom, p, and whether hops were paired."""

    t: float
    degrees_of_freedom: float
    p: float
    paired: bool

    def __str__(self) -> str:
        kind = ", paired" if self.paired else ""
        return f"t({self.degrees_of_freedom:g}) = {self.t:.2f}, p = {self.p:.2g}{kind}"


def t_test(first: ArrayLike, second: ArrayLike, paired: bool = False) -> TTest | None:
    """Whether two sets of hops have the same mean error; None where the test is not defined.

    Parameters
    ----------
    first, second
        Errors by hop; those that are not finite are left out, with `paired` in pairs.
    paired
        The same hops were judged with both: the test is that of their differences, and sees much smaller ones. Else the
        hops are different ones, as the paper's are: Student's test with a common variance, n_1 + n_2 - 2 degrees of
        freedom.

    Successive hops resemble each other, which neither form knows: p is too small rather than too large.
    """
    from scipy import stats

    one, other = np.asarray(first, float), np.asarray(second, float)
    if paired:
        if one.shape != other.shape:
            raise UserError(f"{one.size} and {other.size} hops cannot be paired; compare them unpaired")
        known = np.isfinite(one) & np.isfinite(other)
        one, other = one[known], other[known]
        if len(one) < 2 or np.ptp(one - other) == 0.0:
            return None
        result = stats.ttest_rel(one, other)
        return TTest(float(result.statistic), len(one) - 1, float(result.pvalue), True)
    one, other = one[np.isfinite(one)], other[np.isfinite(other)]
    if len(one) < 2 or len(other) < 2 or (np.ptp(one) == 0.0 and np.ptp(other) == 0.0):
        return None
    result = stats.ttest_ind(one, other, equal_var=True)
    return TTest(float(result.statistic), len(one) + len(other) - 2, float(result.pvalue), False)


@dataclass(frozen=True)
class ErrorRow:
    """One metric of one estimator.

    Attributes
    ----------
    by_height
        Means by set height, in the table's order; NaN: no hop.
    pooled
        Mean over all hops, each counted alike (as the paper's).
    hops, missed, extra
        All hops, those without a value of this metric, and those told but not there.
    comparison
        Against the reference estimator; None: it is the reference, or no test is defined.
    """

    metric: str
    estimator: str
    control: str
    by_height: tuple[float, ...]
    pooled: float
    unit: str
    hops: int
    missed: int
    extra: int
    comparison: TTest | None


@dataclass(frozen=True)
class ErrorTable:
    """Rows by metric, then by estimator; `reference` is what the others are compared to."""

    set_heights_m: tuple[float, ...]
    reference: str
    rows: tuple[ErrorRow, ...]

    def summary(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "set_heights_m": list(self.set_heights_m),
            "compared_to": self.reference,
            "rows": [
                asdict(row) | {"comparison": row.comparison._asdict() if row.comparison else None} for row in self.rows
            ],
        }

    def report_table(self, with_paper: bool = True) -> ReportTable:
        """To show; with the paper's rows below each metric, marked as another robot's."""
        heights = tuple(f"{height:g} m" for height in self.set_heights_m)
        pooled = f"{min(self.set_heights_m):g}-{max(self.set_heights_m):g} m" if heights else "all"
        headings = ("metric", "estimator", "control", *heights, pooled, "unit", "hops", f"against {self.reference}")
        rows: list[tuple[str, ...]] = []
        for metric in METRICS:
            for row in (one for one in self.rows if one.metric == metric):
                counts = f"{row.hops}" + (f" (-{row.missed})" if row.missed else "")
                counts += f" (+{row.extra})" if row.extra else ""
                figures = [_figure(value, row.unit) for value in (*row.by_height, row.pooled)]
                compared = str(row.comparison) if row.comparison else ""
                rows.append((METRIC_WORDS[metric], row.estimator, row.control, *figures, row.unit, counts, compared))
            if with_paper:
                rows += [self._paper_row(one) for one in paper_tables.TABLE_S3 if one.metric == metric]
        title = "errors by hop, touchdown to touchdown (-: hops without this figure, +: hops told that were not there)"
        if with_paper:
            title += f"; rows of {paper_tables.ROBOT}, are another robot's and no result of this run"
        return ReportTable(title, headings, tuple(rows), (*heights, pooled, "hops"))

    def _paper_row(self, one: paper_tables.PublishedErrors) -> tuple[str, ...]:
        unit = METRIC_UNITS[one.metric]
        published = dict(zip(paper_tables.SET_HEIGHTS_M, one.by_height, strict=True))
        figures = [_figure(published.get(height, np.nan), unit) for height in self.set_heights_m]
        estimator = f"{one.estimator}, {paper_tables.ROBOT}"
        pooled = _figure(one.pooled, unit)
        return METRIC_WORDS[one.metric], estimator, one.control, *figures, pooled, unit, "", one.statistics


def error_table(
    errors: Sequence[HopErrors],
    reference: str | None = None,
    set_heights_m: Sequence[float] = paper_tables.SET_HEIGHTS_M,
    paired: bool | None = None,
) -> ErrorTable:
    """Table of errors over estimators.

    Parameters
    ----------
    errors
        One for each estimator and part; several with the same estimator, control and part (several runs) are pooled.
    reference
        Estimator that the others are compared to; by default the first.
    set_heights_m
        Columns. Hops with another command, or none, count in the pooled column only.
    paired
        Whether t-tests pair the hops; by default where both were judged on the very same ones.

    Raises
    ------
    UserError
        Where there is nothing to show, or the reference is not among the estimators.
    """
    if not errors:
        raise UserError("no estimator was judged; there is nothing to put in a table")
    groups: dict[tuple[str, str], list[HopErrors]] = {}
    for one in errors:
        name = one.estimator + (" (aerial)" if one.part == "aerial" else "")
        groups.setdefault((name, one.control), []).append(one)
    names = list(dict.fromkeys(name for name, _ in groups))
    reference = reference or names[0]
    if reference not in names:
        raise UserError(f"the reference {reference!r} was not judged; there are {', '.join(names)}")
    base = next(key for key in groups if key[0] == reference)
    heights = tuple(float(height) for height in set_heights_m)
    rows = []
    for metric in METRICS:
        for (name, control), group in groups.items():
            # The aerial part changes the points of M1 and M2 only.
            if group[0].part == "aerial" and metric not in ("m1", "m2"):
                continue
            values, commands = _joined(group, metric)
            if np.isnan(values).all():
                continue
            compared = None
            if (name, control) != base:
                together = _same_hops(groups[base], group) if paired is None else paired
                compared = t_test(values, _joined(groups[base], metric)[0], together)
            by_height = tuple(mean_of(values[np.abs(commands - height) < _SAME_HEIGHT_M]) for height in heights)
            rows.append(
                ErrorRow(
                    metric,
                    name,
                    control,
                    by_height,
                    mean_of(values),
                    METRIC_UNITS[metric],
                    len(values),
                    int(np.isnan(values).sum()),
                    sum(len(one.matches.extra) for one in group),
                    compared,
                )
            )
    return ErrorTable(heights, reference, tuple(rows))


def hop_agility_table(
    runs: Sequence[tuple[str, HopCycles, ArrayLike]], set_heights_m: Sequence[float] = paper_tables.SET_HEIGHTS_M
) -> ReportTable:
    """Table S1 from hops: means and standard deviations by set height and control.

    Parameters
    ----------
    runs
        Control (`GT` or `SE`), hop cycles, commanded hop height of each (N,); runs of the same control are pooled.

    Agilities are means over hops, each with its own h_prev; hops without an apex before them count for the other
    columns and for the vertical jumping agility.
    """
    headings = (
        *("set height, m", "control", "hops", "hop height, m", "t_stance, s", "t_stance + t_rebound, s"),
        *("t_cycle, s", "vertical jumping agility, m/s", "hopping agility, m/s"),
    )
    rows = []
    controls = list(dict.fromkeys(control for control, _, _ in runs))
    for height in set_heights_m:
        for control in controls:
            columns = np.concatenate(
                [_hop_columns(cycles, command) for name, cycles, command in runs if name == control]
            )
            chosen = columns[np.abs(columns[:, 0] - height) < _SAME_HEIGHT_M, 1:]
            if len(chosen):
                spread = [_mean_and_deviation(one, 3) for one in chosen.T]
                rows.append((f"{height:g}", control, str(len(chosen)), *spread))
    return ReportTable("hops by set height, mean ± standard deviation", headings, tuple(rows), headings[2:])


def published_agility_table(ours: Sequence[tuple[str, float, float, float]] = ()) -> ReportTable:
    """Table IV with the agilities computed from its heights and times by eq. (14) beside the printed ones.

    Parameters
    ----------
    ours
        Further rows: name, hop height (m), stance and rebound time (s), cycle time (s) of hops of constant height.
    """
    headings = (
        *("platform", "hop height, m", "t_stance + t_rebound, s", "t_cycle, s"),
        *("vertical jumping agility, m/s", "as printed (jumping)", "hopping agility, m/s", "as printed (hopping)"),
    )
    rows = []
    for one in paper_tables.TABLE_IV:
        jumping, hopping = _constant(one.hop_height_m, one.stance_and_rebound_s, one.cycle_s)
        printed = (f"{one.vertical_jumping_agility_m_s:.2f}", f"{one.hopping_agility_m_s:.2f}")
        times = (f"{one.hop_height_m:g}", f"{one.stance_and_rebound_s:.2f}", f"{one.cycle_s:.2f}")
        rows.append((one.platform, *times, f"{jumping:.2f}", printed[0], f"{hopping:.2f}", printed[1]))
    for name, height, rising_s, cycle_s in ours:
        jumping, hopping = _constant(height, rising_s, cycle_s)
        times = (f"{height:.2f}", f"{rising_s:.2f}", f"{cycle_s:.2f}")
        rows.append((name, *times, f"{jumping:.2f}", "", f"{hopping:.2f}", ""))
    return ReportTable("agility, platforms as published", headings, tuple(rows), headings[1:])


def _constant(height_m: float, rising_s: float, cycle_s: float) -> tuple[float, float]:
    """Both agilities of hops of one height."""
    jumping = agility.vertical_jumping_agility(height_m, 0.0, rising_s)
    return float(jumping), float(agility.hopping_agility(height_m, height_m, cycle_s))


def _hop_columns(cycles: HopCycles, command_m: ArrayLike) -> Array:
    """(N, 7): command, hop height, stance, stance and rebound, apex to apex, both agilities."""
    height, stance, rebound, drop = cycles.hop_height_m, cycles.stance_s, cycles.rebound_s, cycles.drop_s
    commands = np.broadcast_to(np.asarray(command_m, float), height.shape)
    jumping = agility.vertical_jumping_agility(height, stance, rebound)
    cycle = drop + stance + rebound
    hopping = agility.hopping_agility(height, cycles.drop_height_m, cycle)
    return np.column_stack([commands, height, stance, stance + rebound, cycle, jumping, hopping])


def _joined(group: Sequence[HopErrors], metric: str) -> tuple[Array, Array]:
    """Errors and commands of all runs, (N,) each."""
    values = np.concatenate([one.values[metric] for one in group])
    return values, np.concatenate([one.command_m for one in group])


def _same_hops(first: Sequence[HopErrors], second: Sequence[HopErrors]) -> bool:
    """Whether two groups were judged on the same true hops: their touchdowns are the same numbers."""
    one, other = (np.concatenate([run.touchdown_s for run in group]) for group in (first, second))
    return np.array_equal(one, other)


def _mean_and_deviation(values: Array, digits: int) -> str:
    known = values[np.isfinite(values)]
    if not len(known):
        return "-"
    return f"{known.mean():.{digits}f} ± {known.std(ddof=1) if len(known) > 1 else 0.0:.{digits}f}"


def _figure(value: float, unit: str) -> str:
    if np.isnan(value):
        return "-"
    return f"{value:.1f}" if unit == "%" else f"{value:.3f}"
