"""The ways to search: the genetic algorithm of the hopper's paper, SciPy's L-BFGS-B, and a pattern search.

All search in the unit box and are told one cost an individual, for as many at once as they have: a generation. Each is
called with (costs of shares, problem, settings, individuals to begin with).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from scipy.stats import rankdata

from onboard_estimation.learning.optimisation.problem import LOG, Problem, Settings

Array = NDArray[np.float64]
Evaluate = Callable[[Array], Array]
"""Costs (P,) of shares (P, n); a large finite number where the objective's is not finite. One call a generation."""
Method = Callable[[Evaluate, Problem, Settings, Array], None]

_DIFFERENCE, _HIGHEST = 0.1, 1e6
"""Of each coordinate, for slopes: wide, as gates make small steps; and of costs, which else have slopes without end."""
_GROWTH, _SMALLEST_SHARE = 1.5, 0.15
"""Of a pattern's step that leads on; and of the first step: with all steps below it, the search is over."""


def genetic(evaluate: Evaluate, problem: Problem, settings: Settings, start: Array) -> None:
    """Run the genetic algorithm of the hopper's paper for all generations (`hopper_phase_and_height.txt`, IV-B).

    Stochastic universal sampling of parents on rank-scaled fitness, elites, scattered uniform crossover, and
    constraint-aware adaptive mutation. Individuals are shares of the parameters' ranges, (n,) in 0 to 1.

    The paper's formula of the mutation was lost, and it gives no scaling of fitness and no first step size. Here:
    fitness is 1 / sqrt(rank), MATLAB's default, with which the authors worked; a child is parent + step * direction
    with step = initial_step / generation, which is halved until the child is within the bounds.
    """
    generator = np.random.default_rng(settings.seed)
    population = np.concatenate([start, generator.random((settings.individuals - start.shape[0], start.shape[1]))])
    costs = evaluate(population)
    elite_count = max(round(settings.elite_fraction * settings.individuals), int(settings.elite_fraction > 0.0))
    crossed = min(round(settings.crossover_fraction * settings.individuals), settings.individuals - elite_count)
    count = settings.individuals - elite_count + crossed  # of parents: two of each that is crossed
    for generation in range(1, settings.generations):
        chosen = stochastic_universal_sampling(generator, 1.0 / np.sqrt(rankdata(costs)), count)
        # They come sorted: unshuffled, those that are to mutate would all be the last of the population.
        parents = generator.permutation(population[chosen])
        mothers, fathers, singles = np.split(parents, [crossed, 2 * crossed])
        mixed = np.where(generator.random(mothers.shape) < 0.5, mothers, fathers)
        children = np.concatenate([mixed, adaptive_mutation(generator, singles, settings.initial_step / generation)])
        elites = np.argsort(costs, kind="stable")[:elite_count]
        population = np.concatenate([population[elites], children])
        costs = np.concatenate([costs[elites], evaluate(children)])  # elites keep their costs


def stochastic_universal_sampling(generator: np.random.Generator, fitness: Array, count: int) -> NDArray[np.intp]:
    """Indices (count,), sorted: one random number places `count` equally spaced pointers on the wheel of fitness.

    Everyone is chosen as often as expected, count * fitness / sum(fitness), rounded up or down (Baker, 1987).
    """
    edges = np.cumsum(fitness)
    pointers = (generator.random() + np.arange(count)) * (edges[-1] / max(count, 1))
    # Rounding may put the last pointer on the wheel's end.
    return np.minimum(np.searchsorted(edges, pointers, side="right"), len(fitness) - 1)


def adaptive_mutation(generator: np.random.Generator, parents: Array, step: float) -> Array:
    """Children (K, n) in 0 to 1 of parents (K, n): parent + step * direction, directions drawn from a normal law.

    A component that would leave the bounds is directed to its farther bound: a parent near a bound could else only
    move by next to nothing, in all its parameters. Where a child is still outside, its step is halved until it is not.
    """
    moves = step * generator.standard_normal(parents.shape)
    leaves = np.abs(parents + moves - 0.5) > 0.5
    moves = np.where(leaves, np.copysign(moves, 0.5 - parents), moves)
    room = np.where(moves > 0.0, 1.0 - parents, parents)
    excess = np.max(np.abs(moves) / np.maximum(room, np.finfo(np.float64).tiny), axis=1, initial=1.0, keepdims=True)
    halvings = np.ceil(np.log2(excess))
    return np.clip(parents + moves * 0.5**halvings, 0.0, 1.0)


def gradient(evaluate: Evaluate, problem: Problem, settings: Settings, start: Array) -> None:
    """Run SciPy's L-BFGS-B from the first row of `start`; all differences of a slope are one generation.

    Coordinates are logarithms, of a linear parameter tenths of its range.
    """
    count, first = problem.count, start[0]
    bounds = zip(problem.lower, problem.upper, problem.scale, strict=True)
    scales = np.array([np.log(high / low) if scale == LOG else 10.0 for low, high, scale in bounds])
    steps = _DIFFERENCE * np.vstack([np.zeros(count), np.eye(count), -np.eye(count)])

    def cost_and_slope(coordinates: Array) -> tuple[float, Array]:
        costs = np.minimum(evaluate(np.clip(first + (coordinates + steps) / scales, 0.0, 1.0)), _HIGHEST)
        return float(costs[0]), (costs[1 : count + 1] - costs[count + 1 :]) / (2.0 * _DIFFERENCE)

    optimize.minimize(
        cost_and_slope,
        np.zeros(count),
        jac=True,
        method="L-BFGS-B",
        bounds=np.column_stack([-first * scales, (1.0 - first) * scales]),
        options={"maxfun": settings.generations, "ftol": 1e-5, "gtol": 1e-4},
    )


def pattern(evaluate: Evaluate, problem: Problem, settings: Settings, start: Array) -> None:
    """Search along one parameter at a time from the first row of `start`, for few of them and costs that take seconds.

    Steps of every parameter grow where they lead on and are halved where neither direction does: a pattern search after
    Hooke and Jeeves. It asks for nothing smooth, and never ends worse than it began. A generation is one individual.
    """
    best, steps, used = start[0], np.full(problem.count, settings.initial_step), 1
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
