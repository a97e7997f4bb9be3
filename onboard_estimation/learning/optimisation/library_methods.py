"""Maintained optimisers: SciPy's differential evolution, and CMA-ES of the package `cma`.

Both search in the unit box and are told one cost an individual, for a whole generation at once.
"""

from __future__ import annotations

import inspect

import numpy as np
from scipy import optimize

from onboard_estimation.errors import UserError
from onboard_estimation.learning.optimisation.genetic import Array, Evaluate, first_population
from onboard_estimation.learning.optimisation.problem import Settings


def differential_evolution(evaluate: Evaluate, settings: Settings, start: Array) -> str:
    """Run SciPy's differential evolution (best1bin, dithered) for all generations; returns "".

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
            [(0.0, 1.0)] * start.shape[1],
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


def covariance_matrix_adaptation(evaluate: Evaluate, settings: Settings, start: Array) -> str:
    """Run CMA-ES; returns which of its criteria stopped it before the last generation, "" if none did.

    It starts at the first row of `start` (k, n), or in the middle of the range where there is none; it has no use for
    others, as it draws its own populations. Bounds are kept by cma's `BoundTransform`.

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
    if start.shape[1] < 2:
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
    centre = start[0] if start.shape[0] else np.full(start.shape[1], 0.5)
    strategy = cma.CMAEvolutionStrategy(centre, settings.initial_step, options)
    for _ in range(settings.generations):
        stops = strategy.stop()
        if stops:
            return ", ".join(sorted(stops))
        solutions = strategy.ask()
        strategy.tell(solutions, evaluate(np.asarray(solutions)).tolist())
    return ""
