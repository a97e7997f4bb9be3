"""What can be known of masses and inertias along runs of a thruster chain, beside what its filter claimed.

At the last true masses and inertias, else at the last estimated ones; at the estimated headings and rates. The report
has tables, a picture, a forecast.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.errors import UserError, printable
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Matrix, Vector
from onboard_estimation.base.presentation import format_number, percent
from onboard_estimation.base.series import Series
from onboard_estimation.contract.observed import ReplayedRun
from onboard_estimation.contract.result import EvaluationResult, Panel, PanelGroup
from onboard_estimation.contract.tracks import HeldValues
from onboard_estimation.contract.trained import ReportTable
from thruster_chain_estimation.judging import information, observability
from thruster_chain_estimation.model.configuration import ChainConfiguration, ThrusterChainConfiguration
from thruster_chain_estimation.model.space import COMMAND, TRUE_PARAMETERS

STEP_S = 0.01
"""Of the trajectory that sensitivities are taken along; samples within a step are averaged."""
_LIE_STEP_S = 0.05
_MOST_LINKS_OF_TWO_LETTERS = 4
_LONGEST_GAP_S = 0.1
"""Without a sample of a link's IMU for as long, nothing is seen of it."""
_MOST_INSTANTS = 60_000
_HIDDEN = 1e-9
"""Of the largest element of a Gramian: a direction with less is hidden."""
_MOST_LINES = 6
"""Links in a diagram of the picture."""


@dataclass(frozen=True, eq=False)
class ObservedRun:
    """A run seen through Theorem 4, Lie derivatives and information.

    Attributes
    ----------
    replayed, chain
        What was replayed and judged, and the robot by its design.
    least_n
        Thrust that does not start a thruster.
    time_s
        (K,) of the trajectory, since the first estimate.
    thrust_n
        (K, N) that acted, as far as is known.
    prior, estimate, predicted, claimed, error
        (2N,) standard deviations of `parameters` that the filter began with; (K, 2N) estimates, the least possible
        standard deviations, the filter's, and its errors; kg, kg m^2, NaN where not known.
    lie_time_s, conditions, seen
        At (L,) instants: Theorem 4, and rank and singular values.
    window_starts_s, window_smallest
        (W,) windows and the smallest eigenvalue of the Gramian, beside what symmetries hide.
    forecast
        From where the filter stood at the end.
    """

    replayed: ReplayedRun
    chain: ChainConfiguration
    least_n: float
    time_s: Vector
    thrust_n: Matrix
    prior: Vector
    estimate: Matrix
    predicted: Matrix
    claimed: Matrix
    error: Matrix
    lie_time_s: Vector
    conditions: observability.Conditions
    seen: observability.Observability
    window_starts_s: Vector
    window_smallest: Vector
    forecast: information.Forecast

    @property
    def parameters(self) -> tuple[str, ...]:
        """2N names: m1, ..., j1, ..."""
        return information.quantities(self.chain.count)[2 * self.chain.count : 4 * self.chain.count]


def observe_run(
    configuration: ThrusterChainConfiguration, run: ReplayedRun, window_s: float, joint: int | None = None
) -> ObservedRun:
    """What could be known over a replayed and judged run, with Gramians over windows of that length.

    Raises
    ------
    UserError
        No commands, a run too short or too long, or a joint asked for, which is shown of no thruster chain.
    """
    if joint is not None:
        raise UserError(f"--joint {joint}: a thruster chain's masses and inertias are shown, not its joint angles")
    assumed = information.assumed_chain(configuration, papers=run.estimator.startswith("paper"))
    link_names, count = configuration.chain.link_names, configuration.chain.count
    result, sensors = run.result, {one.channel.sensor: one for one in run.recording.series}
    if (command := sensors.get(COMMAND)) is None or not len(command.stamps_ns):
        raise UserError(f"no commands ({COMMAND}) were used, and without thrust nothing is told of masses")
    stamps = _grid(result.stamps_ns)
    rows = np.searchsorted(result.stamps_ns, stamps, side="right") - 1
    time = (stamps - result.stamps_ns[0]) / NANOSECONDS_PER_SECOND
    parameters = slice(2 * count, 4 * count)  # here as in `Blocks`
    estimate, weighed = result.mean[rows, parameters], run.recording.held.get(TRUE_PARAMETERS)
    true = np.full(estimate.shape, np.nan) if weighed is None else weighed.at(result.stamps_ns[rows])
    known = np.split(_constant(true, estimate), 2, axis=1)
    states = information.packed(*np.split(result.mean[rows, : 2 * count], 2, axis=1), *known)
    thrust = _acting(assumed, command, stamps)
    imus = {link: one for link, name in enumerate(link_names) if (one := sensors.get(f"imu/{name}")) is not None}
    steps = [np.median(np.diff(one.stamps_ns)) for one in imus.values() if len(one.stamps_ns) > 1]
    if steps:
        assumed = replace(assumed, rate_hz=float(NANOSECONDS_PER_SECOND / np.median(steps)))
    prior = _prior(assumed, result, states[0])
    prior_stddev = np.sqrt(np.diag(prior))
    path = information.Trajectory(time, states, thrust)
    chain = assumed.chain.averaged(assumed.rate_hz * STEP_S)
    least, _ = information.predict(chain, path, prior, assumed.noise_about(states[0]), _seen(imus, count, stamps))
    sparse = slice(None, None, round(_LIE_STEP_S / STEP_S))
    letters = 2 if count <= _MOST_LINKS_OF_TWO_LETTERS else 1
    faint = max(assumed.dead_band_n, 1e-3 * assumed.limit_n)
    lie_thrust = np.where(np.abs(thrust[sparse]) < faint, 0.0, thrust[sparse])
    starts, windows = information.gramians(chain, path, prior_stddev, window_s)
    best = information.forecast(assumed, *assumed.from_published(result.mean[-1], result.covariance[-1]))
    variances = np.diagonal(result.covariance[rows], axis1=1, axis2=2)
    return ObservedRun(
        run,
        configuration.chain,
        assumed.dead_band_n,
        time,
        thrust,
        prior_stddev[parameters],
        estimate,
        least[:, parameters],
        np.sqrt(variances[:, parameters]),
        estimate - true,
        time[sparse],
        observability.theorem_conditions(assumed.chain, states[sparse], lie_thrust),
        observability.observability(assumed.chain, states[sparse], lie_thrust, prior_stddev, letters),
        starts,
        _smallest_eigenvalues(windows, states, prior_stddev, time, starts),
        best,
    )


def _constant(true: Matrix, estimated: Matrix) -> Matrix:
    """(K, 2N) the last truth of each parameter, else the last estimate, all the time.

    Parameters that change along the trajectory would tell of a scale that no sensor sees.
    """
    known = np.where(np.isfinite(true).any(axis=0), true, estimated[-1])
    last = len(known) - 1 - np.isfinite(known)[::-1].argmax(axis=0)
    return np.tile(np.take_along_axis(known, last[None], axis=0), (len(true), 1))


def _prior(assumed: information.AssumedChain, result: EvaluationResult, state: Vector) -> Matrix:
    """Covariance (5N, 5N) that the filter began with; masses and inertias keep their relative deviations."""
    estimate, covariance = assumed.from_published(result.mean[0], result.covariance[0])
    at, factor = information.blocks(assumed.chain.count), np.ones_like(state)
    bodies = slice(at.mass.start, at.inertia.stop)
    factor[bodies] = state[bodies] / estimate[bodies]
    return covariance * np.outer(factor, factor)


def _grid(stamps_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Stamps of the trajectory's instants."""
    step = round(STEP_S * NANOSECONDS_PER_SECOND)
    grid = np.arange(int(stamps_ns[0]), int(stamps_ns[-1]) + 1, step) if len(stamps_ns) else np.zeros(0, np.int64)
    if not 2 <= len(grid) <= _MOST_INSTANTS:
        may_be = f"{STEP_S:g} to {_MOST_INSTANTS * STEP_S:g} s"
        raise UserError(f"{len(grid) * STEP_S:.3g} s of estimates: observability takes runs of {may_be}")
    return grid


def _acting(assumed: information.AssumedChain, command: Series, stamps_ns: NDArray[np.int64]) -> Matrix:
    """Thrust (K, N) at the stamps: of the last command until then, through the thrusters' lag."""
    given = HeldValues.clean(command.stamps_ns, command.values)
    held = np.nan_to_num(HeldValues(given.stamps_ns, assumed.started(given.values)).at(stamps_ns))
    acting = assumed.acting(held, STEP_S)
    return np.where(np.abs(acting) < 1e-9, 0.0, acting)


def _seen(imus: Mapping[int, Series], count: int, stamps_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(K, 3N) where a link's IMU was heard shortly before."""
    heard = np.zeros((len(stamps_ns), count), dtype=np.bool_)
    for link, one in imus.items():
        usable = np.sort(one.stamps_ns[np.isfinite(one.values).any(axis=1)])
        place = np.searchsorted(usable, stamps_ns, side="right")
        last = np.concatenate([[np.iinfo(np.int64).min // 2], usable])[place]
        heard[:, link] = stamps_ns - last < _LONGEST_GAP_S * NANOSECONDS_PER_SECOND
    return np.repeat(heard, 3, axis=1)


def _smallest_eigenvalues(
    windows: NDArray[np.float64], states: Matrix, prior_stddev: Vector, time_s: Vector, starts_s: Vector
) -> Vector:
    """(W,) of each Gramian, beside what a symmetry hides: what is seen worst of all that can be seen."""
    out = []
    for gramian, row in zip(windows, np.searchsorted(time_s, starts_s), strict=True):
        largest, shown = float(np.abs(gramian).max()), gramian.copy()
        for unit in observability.common_directions(states[row], prior_stddev).values():
            if unit @ gramian @ unit < _HIDDEN * largest:
                shown += largest * np.outer(unit, unit)
        out.append(max(float(np.linalg.eigvalsh(shown)[0]), 0.0))
    return np.array(out)


@dataclass(frozen=True)
class ChainReport:
    """What could be known of masses and inertias, in runs of one kind of robot."""

    runs: Sequence[ObservedRun]

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
            named = f"{printable(run.replayed.name)}: " if len(self.runs) > 1 else ""
            told = (*_sentences(run), *run.chain.unobservable(), f"at the end: {run.forecast}")
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


def _columns(run: ObservedRun) -> list[tuple[str, Vector, PanelGroup]]:
    """Of a picture: Theorem 4 and the rank, masses, inertias."""
    at, count = np.searchsorted(run.time_s, run.lie_time_s), len(run.chain.link_names)
    worst = np.argsort(-(run.predicted[-1] / np.where(run.prior > 0.0, run.prior, 1.0)), kind="stable")
    links = np.sort(list(dict.fromkeys((worst % count).tolist()))[:_MOST_LINES])

    def lines(values: Any) -> dict[str, Vector]:
        return {run.chain.link_names[link]: values[:, link] for link in links}

    def deviations(index: int, unit: str) -> Panel:
        lines = {"least possible": run.predicted[:, index], "filter": run.claimed[:, index]}
        if np.isfinite(run.error[:, index]).any():
            lines["|error|"] = np.abs(run.error[:, index])
        return Panel(run.parameters[index], unit, lines)

    conditions = (
        Panel("thrust", "N", lines(run.thrust_n[at])),
        Panel("|u sin psi|", "N", lines(np.abs(run.conditions.normal_n))),
        Panel("|net force|", "N", lines(np.abs(run.conditions.net_n))),
        Panel("rank", "1", {"rank": run.seen.rank.astype(float)}),
        Panel("smallest singular value", "1", {"of what can be observed": run.seen.smallest_observable}),
    )
    source = run.replayed.result.source.upper()
    heading = f"Theorem 4 and rank: {source} data, {run.replayed.name}, estimator {run.replayed.estimator}"
    out = [(heading, run.lie_time_s, PanelGroup("Conditions", conditions))]
    for title, offset, unit in (("masses", 0, "kg"), ("inertias", count, "kg m^2")):
        group = PanelGroup(title, tuple(deviations(offset + int(link), unit) for link in links))
        out.append((f"Standard deviations of {title}: least possible and filter's", run.time_s, group))
    return out


def _mapping(run: ObservedRun) -> dict[str, Any]:
    """Figures and series of a run, for JSON."""
    met = run.conditions.met(run.least_n).mean(axis=0)
    return {
        "name": run.replayed.name,
        "source": run.replayed.result.source,
        "estimator": run.replayed.estimator,
        "states": list(run.seen.states),
        "rank_largest": int(run.seen.rank.max()),
        "smallest_singular_value_median": float(np.median(run.seen.smallest_observable)),
        "hidden": dict(_hidden(run)),
        "conditions_met_share": dict(zip(run.chain.link_names, met.tolist(), strict=True)),
        "parameters": {name: _figures(run, index) for index, name in enumerate(run.parameters)},
        "forecast": str(run.forecast),
        "series": {
            "time_s": run.lie_time_s,
            **run.conditions._asdict(),
            "rank": run.seen.rank,
            "smallest_singular_value": run.seen.smallest_observable,
            "gramian_time_s": run.window_starts_s,
            "gramian_smallest_eigenvalue": run.window_smallest,
        },
    }


def _figures(run: ObservedRun, index: int) -> dict[str, float]:
    """Of one parameter, at the end of the run."""
    error = run.error[np.isfinite(run.error[:, index]), index]
    return {
        "prior_stddev": float(run.prior[index]),
        "least_possible_stddev": float(run.predicted[-1, index]),
        "filter_stddev": float(run.claimed[-1, index]),
        "error": float(error[-1]) if len(error) else float("nan"),
    }


def _hidden(run: ObservedRun) -> list[tuple[str, float]]:
    """What is hidden, the most frequent first, with the share of instants."""
    found = Counter("; ".join(names) or "nothing" for names in run.seen.unobservable)
    return [(names, count / found.total()) for names, count in found.most_common()]


def _link_table(run: ObservedRun) -> ReportTable:
    (normal, net, turning), met = run.conditions, run.conditions.met(run.least_n)
    pushing = (turning > 0.0).any(axis=1)
    headings = ("u sin psi", "net force", "both met", "row of F")
    holds = (np.abs(normal) > run.least_n, np.abs(net) > run.least_n, met)
    rows = tuple(
        (
            printable(name),
            *(percent(float(one[:, link].mean())) for one in holds),
            format_number(np.median(turning[pushing, link]) if pushing.any() else np.nan, 2),
        )
        for link, name in enumerate(run.chain.link_names)
    )
    title = f"{printable(run.replayed.name)} ({run.replayed.result.source}, estimator {run.replayed.estimator})"
    return ReportTable(title, ("link", *headings), rows, headings)


def _parameter_table(run: ObservedRun) -> ReportTable:
    headings = ("estimate", "before", "least", "filter", "error")
    rows = []
    for index, (name, value) in enumerate(zip(run.parameters, run.estimate[-1], strict=True)):
        shares = (f"{format_number(100.0 * one / value, 2)} %" for one in _figures(run, index).values())
        rows.append((name, format_number(value), *shares))
    return ReportTable("", ("", *headings), tuple(rows), headings)


def _sentences(run: ObservedRun) -> list[str]:
    ranks = Counter(run.seen.rank.tolist()).most_common(3)
    told = ", ".join(f"{rank} for {percent(times / len(run.lie_time_s))}" for rank, times in ranks)
    out = [f"rank of {len(run.seen.states)} states: {told} of the time"]
    out += [f"hidden for {percent(share)} of the time: {names}" for names, share in _hidden(run)[:2]]
    smallest = format_number(np.median(run.seen.smallest_observable), 2)
    out.append(f"smallest singular value of what can be observed: {smallest} (median)")
    if len(run.window_smallest):
        low, median = (format_number(one, 2) for one in np.quantile(run.window_smallest, [0.05, 0.5]))
        out.append(f"smallest eigenvalue of the Gramian over windows: {median} (median), {low} (5 %)")
    return out
