"""The genetic algorithm of the hopper's paper (`hopper_phase_and_height.txt`, section IV-B).

Stochastic universal sampling of parents on rank-scaled fitness, elites, scattered uniform crossover, and
constraint-aware adaptive mutation. Individuals are shares of the parameters' ranges, (n,) in 0 to 1.

The paper's formula of the mutation was lost, and it gives no scaling of fitness and no first step size. Here: fitness
is 1 / sqrt(rank), MATLAB's default, with which the authors worked; a child is parent + step * direction with step =
initial_step / generation, which is halved until the child is within the bounds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from onboard_estimation.learning.optimisation.problem import Problem, Settings

Array = NDArray[np.float64]
Evaluate = Callable[[Array], Array]
"""Costs (P,) of shares (P, n); a large finite number where the objective's is not finite. One call a generation."""


def genetic(evaluate: Evaluate, problem: Problem, settings: Settings, start: Array) -> str:
    """Run the genetic algorithm for all generations, its first population with `start` (k, n) in it; returns ""."""
    generator = np.random.default_rng(settings.seed)
    population = first_population(generator, settings, start)
    costs = evaluate(population)
    for generation in range(1, settings.generations):
        elites, children = breed(generator, settings, generation, population, costs)
        population = np.concatenate([population[elites], children])
        costs = np.concatenate([costs[elites], evaluate(children)])  # elites keep their costs
    return ""


def breed(
    generator: np.random.Generator, settings: Settings, generation: int, population: Array, costs: Array
) -> tuple[NDArray[np.intp], Array]:
    """Indices (E,) of the elites, by ascending cost, and the children (P - E, n) that join them in the next generation.

    Parameters
    ----------
    generation
        That the children belong to; the first, random population is generation 0.
    population, costs
        (P, n) and (P,), of the generation before.
    """
    elite_count, crossover_count, mutation_count = group_sizes(settings)
    chosen = stochastic_universal_sampling(generator, rank_fitness(costs), 2 * crossover_count + mutation_count)
    # They come sorted: unshuffled, those that are to mutate would all be the last of the population.
    parents = generator.permutation(population[chosen])
    mothers, fathers, singles = np.split(parents, [crossover_count, 2 * crossover_count])
    children = [
        scattered_crossover(generator, mothers, fathers),
        adaptive_mutation(generator, singles, settings.initial_step / generation),
    ]
    return np.argsort(costs, kind="stable")[:elite_count], np.concatenate(children)


def first_population(generator: np.random.Generator, settings: Settings, start: Array) -> Array:
    """Shares (P, n): the rows of `start` (k, n), the rest drawn evenly from the whole range."""
    return np.concatenate([start, generator.random((settings.individuals - start.shape[0], start.shape[1]))])


def group_sizes(settings: Settings) -> tuple[int, int, int]:
    """Numbers of elites, of children by crossover and by mutation; at least one elite, unless their share is 0."""
    elites = max(round(settings.elite_fraction * settings.individuals), int(settings.elite_fraction > 0.0))
    crossed = min(round(settings.crossover_fraction * settings.individuals), settings.individuals - elites)
    return elites, crossed, settings.individuals - elites - crossed


def rank_fitness(costs: Array) -> Array:
    """Fitness (P,): 1 / sqrt(rank), rank 1 for the lowest cost; equal costs share their mean rank."""
    return 1.0 / np.sqrt(rankdata(costs))


def stochastic_universal_sampling(generator: np.random.Generator, fitness: Array, count: int) -> NDArray[np.intp]:
    """Indices (count,), sorted: one random number places `count` equally spaced pointers on the wheel of fitness.

    Everyone is chosen as often as expected, count * fitness / sum(fitness), rounded up or down (Baker, 1987).
    """
    edges = np.cumsum(fitness)
    pointers = (generator.random() + np.arange(count)) * (edges[-1] / max(count, 1))
    # Rounding may put the last pointer on the wheel's end.
    return np.minimum(np.searchsorted(edges, pointers, side="right"), len(fitness) - 1)


def scattered_crossover(generator: np.random.Generator, first: Array, second: Array) -> Array:
    """Children (K, n) of parents (K, n) and (K, n): each parameter is one of the two parents', by a fair coin."""
    return np.where(generator.random(first.shape) < 0.5, first, second)


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
