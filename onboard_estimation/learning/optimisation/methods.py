"""The ways to search: of the hopper's paper in `genetic`, SciPy's and CMA-ES's, and a pattern search.

All search in the unit box and are told one cost an individual, for as many at once as they have: a generation. Each is
called with (costs of shares, problem, settings, individuals to begin with), and returns why it ended before the last
generation, "" if it did not.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from onboard_estimation.errors import UserError
from onboard_estimation.learning.optimisation.genetic import Array, Evaluate, first_population, genetic
from onboard_estimation.learning.optimisation.problem import LOG, Problem, Settings

GRADIENT, PATTERN = "gradient", "pattern"
_DIFFERENCE, _HIGHEST = 0.1, 1e6
"""Of each coordinate, for slopes: wide, as gates make small steps; and of costs, which else have slopes without end."""
_GROWTH, _SMALLEST_SHARE = 1.5, 0.15
"""Of a pattern's step that leads on; and of the first step: with all steps below it, the search is over."""


def differential_evolution(evaluate: Evaluate, problem: Problem, settings: Settings, start: Array) -> str:
    """Run SciPy's differential evolution (best1bin, dithered) for all generations.

    The first population is drawn evenly, with `start` (k, n) in it. SciPy's own stop on convergence is off: the number
    of generations ends the run.
    """
    failures: list[Exception] = []

    def columns(shares: Array) -> Array:
        try:
            return evaluate(shares.T)
        except Exception as error:
            failures.append(error)
            raise

    generator = np.random.default_rng(settings.seed)
    # The argument's name changed in SciPy 1.15.
    name = "rng" if "rng" in inspect.signature(optimize.differential_evolution).parameters else "seed"
    try:
        optimize.differential_evolution(
            columns,
            [(0.0, 1.0)] * problem.count,
            maxiter=settings.generations - 1,
            init=first_population(generator, settings, start),
            tol=0.0,
            atol=-1.0,
            polish=False,
            updating="deferred",
            vectorized=True,
            **{name: generator},
        )
    except RuntimeError as error:
        if failures and error is not failures[-1]:  # SciPy takes some errors of the objective for its own
            raise failures[-1] from None
        raise
    return ""


def covariance_matrix_adaptation(evaluate: Evaluate, problem: Problem, settings: Settings, start: Array) -> str:
    """Run CMA-ES from the first row of `start` (k, n), or from the middle: it draws its own populations.

    Bounds are kept by cma's `BoundTransform`.

    Raises
    ------
    UserError
        The package `cma` is not installed, or there is one parameter only.
    """
    try:
        import cma  # takes a second, and is an extra
    except ImportError:
        raise UserError(
            "method cma needs the package cma, which is not installed: pip install 'onboard_estimation[training]', or "
            "choose the method genetic or differential_evolution"
        ) from None
    if problem.count < 2:
        raise UserError("method cma needs at least two parameters; choose the method genetic or differential_evolution")
    generator = np.random.default_rng(settings.seed)
    options = {
        "bounds": [0.0, 1.0],
        "BoundaryHandler": "BoundTransform",
        "popsize": settings.individuals,
        "maxiter": np.inf,  # the loop below ends it
        "randn": lambda *shape: generator.standard_normal(shape),
        "seed": np.nan,  # leave NumPy's global random numbers alone
        "verbose": -9,
    }
    strategy = cma.CMAEvolutionStrategy(_first(problem, start), settings.initial_step, options)
    for _ in range(settings.generations):
        stops = strategy.stop()
        if stops:
            return ", ".join(sorted(stops))
        solutions = strategy.ask()
        strategy.tell(solutions, evaluate(np.asarray(solutions)).tolist())
    return ""


def gradient(evaluate: Evaluate, problem: Problem, settings: Settings, start: Array) -> str:
    """Run SciPy's L-BFGS-B from the first row of `start`; all differences of a slope are one generation.

    Coordinates are logarithms, of a linear parameter tenths of its range.
    """
    count, first = problem.count, _first(problem, start)
    bounds = zip(problem.lower, problem.upper, problem.scale, strict=True)
    scales = np.array([np.log(high / low) if scale == LOG else 10.0 for low, high, scale in bounds])
    steps = _DIFFERENCE * np.vstack([np.zeros(count), np.eye(count), -np.eye(count)])

    def cost_and_slope(coordinates: Array) -> tuple[float, Array]:
        costs = np.minimum(evaluate(np.clip(first + (coordinates + steps) / scales, 0.0, 1.0)), _HIGHEST)
        return float(costs[0]), (costs[1 : count + 1] - costs[count + 1 :]) / (2.0 * _DIFFERENCE)

    found = optimize.minimize(
        cost_and_slope,
        np.zeros(count),
        jac=True,
        method="L-BFGS-B",
        bounds=np.column_stack([-first * scales, (1.0 - first) * scales]),
        options={"maxfun": settings.generations, "ftol": 1e-5, "gtol": 1e-4},
    )
    return str(found.message) if found.success else ""


def pattern(evaluate: Evaluate, problem: Problem, settings: Settings, start: Array) -> str:
    """Search along one parameter at a time from the first row of `start`, for few of them and costs that take seconds.

    Steps of every parameter grow where they lead on and are halved where neither direction does: a pattern search after
    Hooke and Jeeves. It asks for nothing smooth, and never ends worse than it began. A generation is one individual.
    """
    best, steps, used = _first(problem, start), np.full(problem.count, settings.initial_step), 1
    smallest, cost = _SMALLEST_SHARE * settings.initial_step, evaluate(best[None])[0]
    while used < settings.generations and (np.abs(steps) >= smallest).any():
        for place in np.flatnonzero(np.abs(steps) >= smallest):
            for sign in (1.0, -1.0):
                tried = best.copy()
                tried[place] = np.clip(best[place] + sign * steps[place], 0.0, 1.0)
                if tried[place] == best[place] or used >= settings.generations:
                    continue
                used += 1
                found = evaluate(tried[None])[0]
                if found < cost:
                    best, cost = tried, found
                    steps[place] *= sign * _GROWTH
                    break
            else:
                steps[place] *= 0.5
    return "" if used >= settings.generations else "steps are small"


def _first(problem: Problem, start: Array) -> NDArray[np.float64]:
    """The individual to begin with, (n,): the middle of the box where there is none."""
    return start[0].copy() if len(start) else np.full(problem.count, 0.5)


METHODS: dict[str, Callable[[Evaluate, Problem, Settings, Array], str]] = {
    "genetic": genetic,
    "differential_evolution": differential_evolution,
    "cma": covariance_matrix_adaptation,
    GRADIENT: gradient,
    PATTERN: pattern,
}
