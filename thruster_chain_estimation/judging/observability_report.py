"""What can be known of a thruster chain's masses and inertias in some runs: tables, a picture, a forecast."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onboard_estimation.base.errors import UserError, printable
from onboard_estimation.base.measurement import Vector
from onboard_estimation.base.presentation import format_number
from onboard_estimation.contract.observed import ReplayedRun
from onboard_estimation.contract.result import Panel, PanelGroup
from onboard_estimation.contract.trained import ReportTable
from thruster_chain_estimation.judging.observed_chain import assumed_chain
from thruster_chain_estimation.judging.observed_run import ObservedRun, observe_run
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration

_MOST_LINES = 6


@dataclass(frozen=True, eq=False)
class ChainRun:
    """A bag of a thruster chain: its name, what was seen in it, and sentences on its build."""

    name: str
    source: str
    estimator: str
    link_names: tuple[str, ...]
    least_n: float
    seen: ObservedRun
    warnings: tuple[str, ...]


def observed_chain_run(configuration: ThrusterChainConfiguration, run: ReplayedRun, window_s: float) -> ChainRun:
    """Look at what could be known over a run; UserError as by `observe_run`."""
    assumed = assumed_chain(configuration, papers=run.estimator.startswith("paper"))
    links = configuration.chain.link_names
    seen = observe_run(assumed, links, run.recording.series, run.result, window_s)
    warnings = tuple(configuration.chain.unobservable())
    return ChainRun(run.name, run.result.source, run.estimator, links, assumed.dead_band_n, seen, warnings)


@dataclass(frozen=True)
class ChainReport:
    """What could be known of masses and inertias, in runs of one kind of robot."""

    runs: Sequence[ChainRun]

    def summary(self) -> dict[str, Any]:
        """Figures and series of all runs."""
        return {"runs": [_mapping(run) for run in self.runs]}

    def columns(self) -> list[tuple[str, Vector, PanelGroup]]:
        """Of the only run; UserError where there are more."""
        if len(self.runs) > 1:
            raise UserError(f"--output: one picture shows one run of a thruster chain, and {len(self.runs)} are given")
        return _columns(self.runs[0])

    def tables(self) -> list[ReportTable]:
        """Of each run one of links and one of parameters."""
        return [table for run in self.runs for table in (_link_table(run), _parameter_table(run))]

    def sentences(self) -> list[str]:
        """Of each run, and what the columns mean."""
        out: list[str] = []
        for run in self.runs:
            named = f"{printable(run.name)}: " if len(self.runs) > 1 else ""
            told = (*_sentences(run), *run.warnings, f"at the end: {run.seen.forecast}")
            out += [f"{named}{sentence}" for sentence in told]
        return [*out, *_MEANINGS]


_MEANINGS = (
    "both met: share of the time in which both conditions of Theorem 4 hold for the link; row of F: how much thrust "
    "can turn it, median while something pushes (where it is zero the theorem's proof fails)",
    "standard deviations in per cent of the value: before the run, the least that any filter could reach (Cramer-Rao, "
    "nominal geometry), the filter's; m in kg, j in kg m^2",
    "singular values: what one prior deviation does, in standard deviations of one sample's noise; from exact Lie "
    "derivatives",
)


def _columns(run: ChainRun) -> list[tuple[str, Vector, PanelGroup]]:
    """Of a picture: Theorem 4 and the rank, masses, inertias."""
    seen, heading = run.seen, f"{run.source.upper()} data, {run.name}, estimator {run.estimator}"
    at = np.searchsorted(seen.time_s, seen.lie_time_s)
    worst = np.argsort(-(seen.predicted[-1] / np.where(seen.prior > 0.0, seen.prior, 1.0)), kind="stable")
    count = len(run.link_names)
    links = np.sort(list(dict.fromkeys((worst % count).tolist()))[:_MOST_LINES])

    def lines(values: Any) -> dict[str, Vector]:
        return {run.link_names[link]: values[:, link] for link in links}

    conditions = PanelGroup(
        "Conditions",
        (
            Panel("thrust", "N", lines(seen.thrust_n[at])),
            Panel("|u sin psi|", "N", lines(np.abs(seen.conditions.normal_n))),
            Panel("|net force|", "N", lines(np.abs(seen.conditions.net_n))),
            Panel("rank", "1", {"rank": seen.seen.rank.astype(float)}),
            Panel("smallest singular value", "1", {"of what can be observed": seen.seen.smallest_observable}),
        ),
    )
    out = [(f"Theorem 4 and rank: {heading}", seen.lie_time_s, conditions)]
    for title, offset, unit in (("masses", 0, "kg"), ("inertias", count, "kg m^2")):
        panels = tuple(_deviations(seen, offset + int(link), unit) for link in links)
        out.append(
            (f"Standard deviations of {title}: least possible and filter's", seen.time_s, PanelGroup(title, panels))
        )
    return out


def _deviations(seen: ObservedRun, index: int, unit: str) -> Panel:
    lines = {"least possible": seen.predicted[:, index], "filter": seen.claimed[:, index]}
    if np.isfinite(seen.error[:, index]).any():
        lines["|error|"] = np.abs(seen.error[:, index])
    return Panel(seen.parameters[index], unit, lines)


def _mapping(run: ChainRun) -> dict[str, Any]:
    """Figures and series of a run, for JSON."""
    seen = run.seen
    met = seen.conditions.met(run.least_n)
    return {
        "name": run.name,
        "source": run.source,
        "estimator": run.estimator,
        "states": list(seen.seen.states),
        "rank_largest": int(seen.seen.rank.max()),
        "smallest_singular_value_median": float(np.median(seen.seen.smallest_observable)),
        "hidden": dict(_hidden(run)),
        "conditions_met_share": dict(zip(run.link_names, met.mean(axis=0).tolist(), strict=True)),
        "parameters": {name: _figures(seen, index) for index, name in enumerate(seen.parameters)},
        "forecast": str(seen.forecast),
        "series": {
            "time_s": seen.lie_time_s,
            "normal_n": seen.conditions.normal_n,
            "net_n": seen.conditions.net_n,
            "turning": seen.conditions.turning,
            "rank": seen.seen.rank,
            "smallest_singular_value": seen.seen.smallest_observable,
            "gramian_time_s": seen.window_starts_s,
            "gramian_smallest_eigenvalue": seen.window_smallest,
        },
    }


def _figures(seen: ObservedRun, index: int) -> dict[str, float]:
    """Of one parameter, at the end of the run."""
    known = np.flatnonzero(np.isfinite(seen.error[:, index]))
    return {
        "prior_stddev": float(seen.prior[index]),
        "least_possible_stddev": float(seen.predicted[-1, index]),
        "filter_stddev": float(seen.claimed[-1, index]),
        "error": float(seen.error[known[-1], index]) if len(known) else float("nan"),
    }


def _hidden(run: ChainRun) -> list[tuple[str, float]]:
    """What is hidden, the most frequent first, with the share of instants."""
    found = Counter("; ".join(names) or "nothing" for names in run.seen.seen.unobservable)
    total = sum(found.values())
    return [(names, count / total) for names, count in found.most_common()]


def _link_table(run: ChainRun) -> ReportTable:
    met, turning = run.seen.conditions.met(run.least_n), run.seen.conditions.turning
    pushing = (turning > 0.0).any(axis=1)
    headings = ("u sin psi", "net force", "both met", "row of F")
    rows = []
    for link, name in enumerate(run.link_names):
        holds = (
            np.abs(one[:, link]) > run.least_n for one in (run.seen.conditions.normal_n, run.seen.conditions.net_n)
        )
        row = float(np.median(turning[pushing, link])) if pushing.any() else np.nan
        shares = (_percent(float(one.mean())) for one in (*holds, met[:, link]))
        rows.append((printable(name), *shares, _number(row)))
    title = f"{printable(run.name)} ({run.source}, estimator {run.estimator})"
    return ReportTable(title, ("link", *headings), tuple(rows), headings)


def _parameter_table(run: ChainRun) -> ReportTable:
    headings = ("estimate", "before", "least", "filter", "error")
    rows = []
    for index, name in enumerate(run.seen.parameters):
        value = float(run.seen.estimate[-1, index])
        shares = (f"{_number(100.0 * one / value)} %" for one in _figures(run.seen, index).values())
        rows.append((name, _number(value, 3), *shares))
    return ReportTable("", ("", *headings), tuple(rows), headings)


def _sentences(run: ChainRun) -> list[str]:
    seen = run.seen
    ranks = Counter(seen.seen.rank.tolist()).most_common(3)
    told = ", ".join(f"{rank} for {_percent(times / len(seen.lie_time_s))}" for rank, times in ranks)
    out = [f"rank of {len(seen.seen.states)} states: {told} of the time"]
    out += [f"hidden for {_percent(share)} of the time: {names}" for names, share in _hidden(run)[:2]]
    smallest = f"smallest singular value of what can be observed: {_number(np.median(seen.seen.smallest_observable))}"
    out.append(f"{smallest} (median)")
    if len(seen.window_smallest):
        low, median = np.quantile(seen.window_smallest, [0.05, 0.5])
        out.append(f"smallest eigenvalue of the Gramian over windows: {_number(median)} (median), {_number(low)} (5 %)")
    return out


def _number(value: float, digits: int = 2) -> str:
    return format_number(float(value), digits) if np.isfinite(value) else "-"


def _percent(share: float) -> str:
    return f"{100.0 * share:.0f} %" if share >= 0.01 else f"{100.0 * share:.1g} %"
