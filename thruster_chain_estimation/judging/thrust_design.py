"""Thrusts from which a filter would know masses and inertias best: the observability-optimal inputs of the paper's end.

After the rest, time is cut into slots of the length of the paper's pulses; in each, every thruster pushes forward with
all its thrust, or does nothing. Of all patterns with as many pulses as the paper's square waves, of the same effort,
one is searched by exchange: move a pulse to another slot or thruster, as long as that helps. Each trial is a motion
from rest in a row, of the robot as designed, and what its information leaves (`information.predict`): no filter, no
random truth. What is minimised is the mean logarithm of the deviations of masses and inertias at the end of the last
slot, none of which is to be above that of the square waves. No joint is to bend beyond its travel (the model has no end
stops), no link to turn beyond its gyro's range. Gains of the thrusters are taken as known: no thrust tells the scale
that they share with masses and inertias.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.atomic_file import write_atomically
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Matrix, Vector
from onboard_estimation.base.presentation import format_number
from onboard_estimation.contract.trained import ReportTable
from thruster_chain_estimation.judging.information import (
    AssumedChain,
    assumed_chain,
    blocks,
    moved,
    predict,
    quantities,
)
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration

Pattern = NDArray[np.bool_]
"""(slots, N) whether a thruster pushes."""

STEP_S, SLOT_S = 0.01, 0.1
PERIOD_SLOTS = 3
"""Of the paper's square waves: one slot on, two off."""
LEAST_SLOTS, MOST_SLOTS = 3, 100
MOST_TRIALS = 1000
_PENALTY = 10.0


@dataclass(frozen=True, eq=False)
class ThrustDesign:
    """A pattern, and what it would leave of the deviations.

    Attributes
    ----------
    thrust_n
        (K, N) at instants `STEP_S` apart, from the start of the rest to the end of the last slot.
    parameters
        2N names: m1, ..., j1, ...
    before, waves, designed
        (2N,) standard deviations before, and at the end of square waves and of the design, kg and kg m^2.
    pulses, trials
        Of the pattern; patterns that were tried.
    """

    thrust_n: Matrix
    parameters: tuple[str, ...]
    before: Vector
    waves: Vector
    designed: Vector
    pulses: int
    trials: int

    def summary(self) -> dict[str, Any]:
        """Thrusts and deviations."""
        columns = zip(self.parameters, self.before, self.waves, self.designed, strict=True)
        deviations = {
            name: {"before": before, "square_waves": waves, "designed": designed}
            for name, before, waves, designed in columns
        }
        return {"pulses": self.pulses, "step_s": STEP_S, "thrust_n": self.thrust_n, "deviations": deviations}

    def sentences(self) -> list[str]:
        """What was compared."""
        ratio = self.designed / self.waves
        masses, inertias = (100.0 * np.exp(np.log(half).mean()) for half in np.split(ratio, 2))
        return [
            f"{self.pulses} pulses of {SLOT_S:g} s, as many as the paper's square waves have; {self.trials} patterns "
            "tried",
            f"predicted deviations, of those after the square waves: masses {masses:.0f} %, inertias {inertias:.0f} % "
            f"(geometric means), {100.0 * ratio.min():.0f} to {100.0 * ratio.max():.0f} %",
        ]

    def tables(self) -> list[ReportTable]:
        """Deviations by parameter, and when which thruster pushes."""
        headings = ("before", "square waves", "designed")
        rows = zip(self.parameters, self.before, self.waves, self.designed, strict=True)
        deviations = tuple((name, *(format_number(one, 3) for one in numbers)) for name, *numbers in rows)
        pushes = tuple((f"thruster {link + 1}", ", ".join(_pushes(one))) for link, one in enumerate(self.thrust_n.T))
        return [
            ReportTable("standard deviations, m in kg, j in kg m^2", ("", *headings), deviations, headings),
            ReportTable("the design", ("", "pushes [s]"), pushes),
        ]

    def write(self, file: Path) -> None:
        """A row `stamp_ns, u1, ...` at each change, for `thruster.commands`; UserError where it cannot be written."""
        changes = np.flatnonzero(np.r_[True, np.abs(np.diff(self.thrust_n, axis=0)).max(axis=1) > 0.0])
        step_ns, count = round(STEP_S * NANOSECONDS_PER_SECOND), self.thrust_n.shape[1]
        rows: list[list[Any]] = [["stamp_ns", *(f"u{link + 1}" for link in range(count))]]
        rows += [[at * step_ns, *self.thrust_n[at].tolist()] for at in changes.tolist()]
        rows.append([len(self.thrust_n) * step_ns, *[0.0] * count])
        write_atomically(file, "".join(",".join(map(str, row)) + "\n" for row in rows).encode(), str(file))


def _pushes(thrust_n: Vector) -> Iterator[str]:
    """From when to when a thruster is on."""
    edges = np.flatnonzero(np.diff(np.r_[0.0, thrust_n, 0.0] > 0.0)) * STEP_S
    return (f"{start:.2g} to {stop:.2g}" for start, stop in zip(edges[::2], edges[1::2], strict=True))


@dataclass(frozen=True, eq=False)
class _Trial:
    """What a pattern is tried with: the robot as a filter takes it, and steps of rest before the first slot."""

    assumed: AssumedChain
    rest: int
    travel_rad: float
    range_rad_s: float

    def thrust(self, pattern: Pattern) -> Matrix:
        """(K, N) commands, N."""
        held = np.repeat(pattern, round(SLOT_S / STEP_S), axis=0) * self.assumed.limit_n
        return np.vstack([np.zeros((self.rest, pattern.shape[1])), held])

    def deviations(self, pattern: Pattern) -> tuple[Vector, float]:
        """(2N,) predicted at the end, and by how much a joint bends or a link turns beyond its limit, as a share."""
        assumed, thrust = self.assumed, self.assumed.acting(self.thrust(pattern), STEP_S)
        chain, at = assumed.chain.averaged(assumed.rate_hz * STEP_S), blocks(assumed.chain.count)
        path, _ = moved(chain, assumed.design, thrust, STEP_S * np.arange(len(thrust), dtype=np.float64))
        bent = np.abs(np.diff(path.states[:, at.theta], axis=1)).max() / self.travel_rad
        turned = np.abs(path.states[:, at.omega]).max() / self.range_rad_s
        left = predict(chain, path, assumed.prior_stddev, assumed.noise_density)[0][-1]
        return left[at.mass.start : at.inertia.stop], max(float(max(bent, turned)) - 1.0, 0.0)


def design(configuration: ThrusterChainConfiguration, estimator: str, duration_s: float) -> ThrustDesign:
    """Thrusts of that duration after the rest, for what that estimator is told of robot and noise.

    Raises
    ------
    UserError
        A duration of too few or too many slots.
    """
    slots, chain = round(duration_s / SLOT_S), configuration.chain
    if not LEAST_SLOTS <= slots <= MOST_SLOTS:
        may_be = f"{LEAST_SLOTS * SLOT_S:g} to {MOST_SLOTS * SLOT_S:g} s"
        raise UserError(f"--design {duration_s:g}: thrusts of {may_be} are designed, in pulses of {SLOT_S:g} s")
    assumed, at = assumed_chain(configuration, papers=estimator.startswith("paper")), blocks(chain.count)
    known = np.where(np.arange(len(assumed.design)) < at.gain.start, assumed.prior_stddev, 0.0)
    assumed = replace(assumed, prior_stddev=known)
    rest, travel_rad = round(configuration.initial.rest_s / STEP_S), float(np.deg2rad(chain.joint_travel_deg))
    trial = _Trial(assumed, rest, travel_rad, configuration.gyro.range_rad_s)
    pattern = np.repeat((np.arange(slots)[::-1] % PERIOD_SLOTS == 0)[:, None], chain.count, axis=1)
    waves, _ = trial.deviations(pattern)

    def cost(one: Pattern) -> float:
        left, beyond = trial.deviations(one)
        ratio = np.log(left / waves)
        return float(ratio.mean() + _PENALTY * (max(float(ratio.max()), 0.0) + beyond))

    pattern, trials = _exchanged(pattern, cost)
    return ThrustDesign(
        trial.thrust(pattern),
        quantities(chain.count)[at.mass.start : at.inertia.stop],
        assumed.prior_stddev[at.mass.start : at.inertia.stop],
        waves,
        trial.deviations(pattern)[0],
        int(pattern.sum()),
        trials,
    )


def _exchanged(pattern: Pattern, cost: Any) -> tuple[Pattern, int]:
    """The first exchange that helps, in random order, until none does or `MOST_TRIALS` were tried; and how many."""
    rng, lowest, trials, improved = np.random.default_rng(0), cost(pattern), 1, True
    while improved and trials < MOST_TRIALS:
        on, off = np.argwhere(pattern), np.argwhere(~pattern)
        improved = False
        for number in rng.permutation(len(on) * len(off))[: MOST_TRIALS - trials]:
            other = pattern.copy()
            other[tuple(on[number // len(off)])], other[tuple(off[number % len(off)])] = False, True
            trials += 1
            if (found := cost(other)) < lowest - 1e-6:
                pattern, lowest, improved = other, found, True
                break
    return pattern, trials
