"""What robots of a kind have in common, and by how much they differ: a mixed-effects regression of their rates.

The rates of run i follow the balance of `friction_kernels` with parameters theta + delta_i: theta is common to all
runs, delta_i ~ N(0, diag(spread^2)) is this run's own (another floor, another day, another robot), and what is left,
for each rate, is a stationary Markov process of its own standard deviation and correlation time. Spreads of wheels, and
of joints, are the same for all of a kind. All of it is estimated from measured rates: theta by generalised least
squares (Gauss-Newton, deltas integrated out), spreads by the greatest marginal likelihood, the rest from the
autocorrelation of what is left over. Laird & Ware, "Random-effects models for longitudinal data", 1982.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import minimize, nnls

from onboard_estimation.base.measurement import Vector
from salp_estimation.estimators.residual_model import SLIP, Population
from salp_estimation.model import friction_kernels as kernels
from salp_estimation.training.runs import TRAINING_RATE_HZ, TrainingRun

Rows = NDArray[np.float64]
Progress = Callable[[float, str], None]

_SPREAD_PRIOR = 4.0  # variance of the logarithm of a spread's square: a factor of e either way
_ROUNDS = 6
CREEP_M_S, CREEP_RAD_S = 2e-4, 2e-3
"""Of a robot whose wheels stand, pulled by its harness: rubber rollers creep by some 0.1 mm/s."""
_SMALLEST_TIME_S, _LONGEST_TIME_S = 0.1, 5.0


class Parameter(NamedTuple):
    """One parameter of a wheel or of a joint.

    Attributes
    ----------
    kind
        Those of one kind have the same spread.
    words, unit, factor
        For people: how it is called, the unit shown, and the factor to that.
    start, prior, spread
        Value at the start of the search, standard deviations of the prior of the common value and of the spread.
    """

    kind: str
    words: str
    unit: str
    factor: float
    start: float
    prior: float
    spread: float


WHEEL = (
    Parameter("along", "dry friction along", "N", 1.0, 0.2, 1.0, 0.1),
    Parameter("across", "dry friction across", "N", 1.0, 0.2, 1.0, 0.1),
    Parameter("turning", "dry friction against turning", "N m", 1.0, 0.004, 0.03, 0.003),
    Parameter("drag", "drag along, factor", "", 1.0, 1.0, 0.1, 0.03),
    Parameter("drag", "drag across, factor", "", 1.0, 1.0, 0.1, 0.03),
    Parameter("drag", "drag against turning, factor", "", 1.0, 1.0, 0.1, 0.03),
    Parameter("gain", "thrust gained", "%", 100.0, 0.0, 0.05, 0.02),
    Parameter("lag", "lag beyond 50 ms", "ms", 1000.0, 0.03, 0.1, 0.01),
    Parameter("angle", "wheel angle, deviation", "deg", 57.29577951308232, 0.0, 0.01, 0.01),
    # Floors of laboratories slope by 0.1 to 0.5 deg and a link weighs some 10 N; a cable pulls as much.
    Parameter("pull", "pull along the room's x", "N", 1.0, 0.0, 0.3, 0.03),
    Parameter("pull", "pull along the room's y", "N", 1.0, 0.0, 0.3, 0.03),
)
JOINT = (
    Parameter("torque", "harness torque at zero", "N m", 1.0, 0.0, 0.02, 0.005),
    Parameter("stiffness", "harness stiffness", "N m/rad", 1.0, 0.05, 0.5, 0.05),
    Parameter("joint friction", "dry friction of the joint", "N m", 1.0, 0.004, 0.03, 0.004),
)
"""In the order of `friction_kernels`."""


def parameters_of(links: int) -> tuple[Parameter, ...]:
    """Of a chain of so many links, in their order."""
    return WHEEL * links + JOINT * (links - 1)


def kinds(links: int) -> list[str]:
    """Kind of each parameter of a chain of so many links."""
    return [one.kind for one in parameters_of(links)]


def expected(links: Rows, run: TrainingRun, parameters: Vector) -> tuple[Rows, Rows, Rows]:
    """Rates (K, m) of a run, their derivatives (K, m, p) by the parameters, and the effects (K, m, 3) of forces."""
    count, m = run.rates.shape
    rates, slopes, gains = np.empty((count, m)), np.empty((count, m, len(parameters))), np.empty((count, m, 3))
    for k in range(count):
        asked = run.joint_angles[k].copy(), run.headings[k], run.controls[k].copy(), run.slopes[k].copy()
        place = kernels.Place(links, *asked, parameters, SLIP)
        rates[k] = kernels.rates(place, run.rates[k].copy(), slopes[k])
        gains[k] = kernels.force_effects(place, rates[k])
    return rates, slopes, gains


def fit_population(
    links: Rows, runs: Sequence[TrainingRun], progress: Progress = lambda fraction, text: None
) -> Population:
    """The population that a set of runs comes from.

    Parameters
    ----------
    links
        (N, .) of the nominal chain, `Chain.links`.
    """
    table = parameters_of(len(links))
    names = sorted({one.kind for one in table})
    group = np.array([names.index(one.kind) for one in table])
    prior_mean, prior_precision = np.array([one.start for one in table]), np.array([one.prior for one in table]) ** -2.0
    spreads = {one.kind: one.spread for one in table}
    start = 2.0 * np.log([spreads[name] for name in names])
    logarithms = start.copy()
    # The residuals to start with: some of the rates themselves, some by forces.
    found = Population(
        prior_mean,
        np.diag(1.0 / prior_precision),
        np.exp(0.5 * start)[group],
        np.array([5e-4, 5e-4] + [0.005] * len(links)),
        np.full(len(links) + 2, 0.7),
        creep(runs),
        np.array([0.05, 0.05, 0.003]),
    )
    for number in range(_ROUNDS):
        progress(number / _ROUNDS, f"friction and harness: round {number + 1} of {_ROUNDS}")
        parts = [_Run.of(links, run, found) for run in runs]
        step = np.zeros(len(table))
        for _ in range(4):
            variances = np.exp(logarithms)[group]
            precision, right = np.diag(prior_precision), prior_precision * (prior_mean - found.parameters)
            for part in parts:
                within = _inverse(np.diag(1.0 / variances) + part.information)
                precision = precision + part.information - part.information @ within @ part.information
                right = right + part.evidence - part.information @ within @ part.evidence
            uncertainty = _inverse(precision)
            step = uncertainty @ right
            logarithms = minimize(_spread_cost, logarithms, (parts, step, group, start), jac=True, method="L-BFGS-B").x
        found = _with_left(parts, found, step, np.exp(logarithms)[group])
        found = replace(found, parameters=found.parameters + step, uncertainty=uncertainty)
    progress(1.0, "friction and harness found")
    return replace(found, spreads=np.exp(0.5 * logarithms)[group])


def creep(runs: Sequence[TrainingRun]) -> Vector:
    """(m,) root mean square of the rates while the wheels stand, each run counted once, as is one of `CREEP`."""
    means = [np.mean(run.rest_rates**2, axis=0) for run in runs if len(run.rest_rates)]
    m = runs[0].rates.shape[1]
    assumed = np.array([CREEP_M_S] * 2 + [CREEP_RAD_S] * (m - 2))
    return np.sqrt(np.mean([*means, assumed**2], axis=0))


def run_effects(population: Population, links: Rows, run: TrainingRun) -> Vector:
    """(p,) the best guess of a run's own parameters, less the common ones."""
    part = _Run.of(links, run, population)
    return part.effects(np.zeros(len(population.parameters)), population.spreads**2)[0]


@dataclass(frozen=True, eq=False)
class _Run:
    """A run linearised at the parameters of a round, whitened and summed up."""

    errors: Rows
    slopes: Rows
    gains: Rows
    information: Rows
    evidence: Vector

    @classmethod
    def of(cls, links: Rows, run: TrainingRun, population: Population) -> _Run:
        rates, slopes, gains = expected(links, run, population.parameters)
        errors = run.rates - rates
        scale = population.scale(gains)
        p = len(population.parameters)
        information, evidence = np.zeros((p, p)), np.zeros(p)
        apart_s = np.abs(run.time_s[:, None] - run.time_s[None])
        for output in range(errors.shape[1]):
            covariance = np.exp(-apart_s / population.correlation_times_s[output])
            covariance[np.diag_indices_from(covariance)] += 1e-4
            both = np.column_stack([slopes[:, output], errors[:, output]]) / scale[:, output, None]
            white = solve_triangular(np.linalg.cholesky(covariance), both, lower=True, check_finite=False)
            information += white[:, :-1].T @ white[:, :-1]
            evidence += white[:, :-1].T @ white[:, -1]
        return cls(errors, slopes, gains, information, evidence)

    def effects(self, step: Vector, variances: Vector) -> tuple[Vector, Rows]:
        """Mean and covariance of the run's own parameters, the common ones moved by `step`."""
        covariance = _inverse(np.diag(1.0 / variances) + self.information)
        return covariance @ (self.evidence - self.information @ step), covariance

    def remainder(self, step: Vector, variances: Vector) -> tuple[Rows, Rows]:
        """What common and own parameters leave of the rates, (K, m), and what the doubt about the own ones hides.

        The latter (3, K, m) are expected products, of an instant with itself, the next and the next but one, of what
        the best guess of the own parameters has taken along: without it a fit of many parameters looks too good.
        """
        own, covariance = self.effects(step, variances)
        spread = self.slopes @ covariance
        hidden = np.zeros((3, *self.errors.shape))
        for k in range(3):
            count = len(self.errors) - k
            hidden[k, :count] = np.einsum("kmp,kmp->km", spread[k:], self.slopes[:count])
        out: Rows = self.errors - self.slopes @ (step + own)
        return out, hidden


def _with_left(parts: Sequence[_Run], before: Population, step: Vector, variances: Vector) -> Population:
    """With what is left of the rates: sizes by least squares of the squares, correlation times of what they scale."""
    found = [part.remainder(step, variances) for part in parts]
    outputs = len(before.residual_stddevs)
    rows, squares = [], []
    for part, (error, hidden) in zip(parts, found, strict=True):
        weight = before.scale(part.gains) ** -2.0
        for output in range(outputs):
            own = np.zeros((len(error), outputs))
            own[:, output] = 1.0
            rows.append(np.hstack([own, part.gains[:, output]]) * weight[:, output, None])
            squares.append((error[:, output] ** 2 + hidden[0, :, output]) * weight[:, output])
    design, right = np.vstack(rows), np.concatenate(squares)
    columns = np.maximum(np.abs(design).max(axis=0), 1e-300)
    fitted = nnls(design / columns, right)[0] / columns
    # A rate that forces explain whole keeps a twentieth of its size: no filter should trust a model without bounds.
    whole = np.mean([(error**2 + hidden[0]).mean(axis=0) for error, hidden in found], axis=0)
    stddevs = np.sqrt(np.maximum(fitted[:outputs], 0.0025 * whole))
    left = replace(before, residual_stddevs=stddevs, force_stddevs=np.sqrt(fitted[outputs:]))
    scaled, sums = [], []
    for part, (error, hidden) in zip(parts, found, strict=True):
        scale = left.scale(part.gains)
        scaled.append(error / scale)
        count = len(error)
        sums.append(
            np.array([(hidden[k, : count - k] / (scale[k:] * scale[: count - k])).sum(axis=0) for k in range(3)])
        )
    return replace(left, correlation_times_s=left_over(scaled, sums)[1])


def _spread_cost(
    logarithms: Vector, parts: Sequence[_Run], step: Vector, group: NDArray[np.int64], start: Vector
) -> tuple[float, Vector]:
    """Minus the logarithm of the marginal likelihood of the spreads, with its gradient."""
    variances = np.exp(logarithms)[group]
    value = 0.5 * float(((logarithms - start) ** 2).sum()) / _SPREAD_PRIOR
    slope = np.zeros(len(variances))
    for part in parts:
        own, covariance = part.effects(step, variances)
        value -= 0.5 * float(np.linalg.slogdet(covariance)[1]) - 0.5 * float(np.log(variances).sum())
        value -= 0.5 * float(own @ (part.evidence - part.information @ step))
        slope += 0.5 * (1.0 - (np.diag(covariance) + own**2) / variances)
    return value, np.bincount(group, slope, len(start)) + (logarithms - start) / _SPREAD_PRIOR


def left_over(remainders: Sequence[Rows], hidden: Sequence[Rows] | None = None) -> tuple[Vector, Vector]:
    """Standard deviations (m,) and correlation times (m,), s, of Markov processes with these samples (K, m) each.

    From the autocovariances at one and two steps: noise of the measurement, which has none, does not count. `hidden`
    (3, m) of each is added to the sums of products at none, one and two steps.
    """

    def lagged(k: int) -> Vector:
        products = [(one[k:] * one[: len(one) - k]).sum(axis=0) for one in remainders]
        products += [one[k] for one in hidden or ()]
        counts = [len(one) - k for one in remainders]
        return np.sum(products, axis=0) / max(sum(counts), 1)

    whole, first, second = lagged(0), lagged(1), lagged(2)
    step_s = 1.0 / TRAINING_RATE_HZ
    keep = np.clip(
        second / np.maximum(first, 1e-300), np.exp(-step_s / _SMALLEST_TIME_S), np.exp(-step_s / _LONGEST_TIME_S)
    )
    variances = np.clip(first / keep, 0.1 * whole, whole)
    return np.sqrt(variances), -step_s / np.log(keep)


def _inverse(matrix: Rows) -> Rows:
    return np.linalg.inv(matrix).astype(np.float64)
