"""Optimisers against functions with known minima, their bounds, and runs that are interrupted and continued."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.kept_results import KeptResults
from onboard_estimation.base.workers import sharers
from onboard_estimation.learning.optimisation.methods import (
    Method,
    genetic,
    gradient,
    pattern,
)
from onboard_estimation.learning.optimisation.minimise import minimise, minimise_seeds
from onboard_estimation.learning.optimisation.problem import Problem, Progress, Result, Settings, sensitivity

Array = NDArray[np.float64]
SHORT = Settings(individuals=30, generations=8, seed=3)
START = np.array([0.5, 0.5, 0.5])


def box(count: int, lower: float, upper: float, scale: str = "linear") -> Problem:
    names = tuple(f"p{number}" for number in range(count))
    return Problem(names, (lower,) * count, (upper,) * count, (scale,) * count)


CUBE = box(3, -2.0, 2.0)


def rosenbrock(x: Array) -> Array:
    """0 at ones."""
    return (100.0 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1.0 - x[:, :-1]) ** 2).sum(axis=1)


def holes(x: Array) -> Array:
    """Rosenbrock's function, where it is finite."""
    costs = rosenbrock(x)
    costs[x[:, 0] < 0.0] = np.nan
    costs[x[:, 1] < -1.0] = -np.inf
    costs[x[:, 1] > 1.9] = np.inf
    return costs


def bowl(x: Array) -> Array:
    return ((x - [0.9, -1.4, 0.2]) ** 2 * [1.0, 4.0, 9.0]).sum(axis=1) + 0.5 * (x[:, 0] - 0.9) * (x[:, 1] + 1.4)


class Watched:
    """An objective that keeps what it was asked, and can be interrupted, or fail, at one of its calls."""

    def __init__(self, function=rosenbrock, fails_at: int | None = None, error: BaseException | None = None) -> None:
        self.function, self.fails_at, self.error = function, fails_at, error or KeyboardInterrupt()
        self.populations: list[Array] = []

    def __call__(self, population: Array) -> Array:
        self.populations.append(population.copy())
        if self.fails_at == len(self.populations):
            raise self.error
        return self.function(population)


def assert_same(first: Result, second: Result) -> None:
    """To the last bit."""
    assert first.best.tobytes() == second.best.tobytes()
    for name in ("seed", "cost", "evaluations"):
        assert getattr(first, name) == getattr(second, name), name


# -- known minima ----------------------------------------------------------------------------------------------------


def test_rosenbrock_is_minimised() -> None:
    best = minimise(genetic, CUBE, rosenbrock, Settings(400, 60))
    assert best.cost < 0.2
    assert np.abs(best.best - 1.0).max() < 4.5
    assert best.cost == rosenbrock(best.best[None])[0]


@pytest.mark.parametrize(("method", "generations", "off"), [(gradient, 40, 1e-3), (pattern, 60, 0.12)])
def test_a_narrow_bowl_is_descended_from_the_point_to_begin_with(method: Method, generations: int, off: float) -> None:
    objective = Watched(bowl)
    settings = Settings(generations=generations, initial_step=0.125)
    result = minimise(method, CUBE, objective, settings, initial=np.zeros(3))
    np.testing.assert_allclose(result.best, [0.9, -1.4, 0.2], atol=off)
    np.testing.assert_array_equal(objective.populations[0][0], 0.0)
    assert result.cost == bowl(result.best[None])[0]
    assert len(objective.populations) <= generations
    assert {len(one) for one in objective.populations} == {7 if method is gradient else 1}


def test_logarithmic_parameters_are_searched_by_powers_of_ten() -> None:
    """The same cost in the exponents must give the same run with linear parameters of the exponents."""
    target = np.array([-3.0, 0.5, -1.0])
    log = minimise(genetic, box(3, 1e-4, 1e1, "log"), lambda x: ((np.log10(x) - target) ** 2).sum(axis=1), SHORT)
    linear = minimise(genetic, box(3, -4.0, 1.0), lambda x: ((x - target) ** 2).sum(axis=1), SHORT)
    np.testing.assert_allclose(np.log10(log.best), linear.best, atol=1e-9)
    assert log.cost == pytest.approx(linear.cost, abs=1e-9)


# -- what holds for the genetic algorithm ----------------------------------------------------------------------


def test_bounds_are_kept_where_the_cost_pulls_out_of_them() -> None:
    lower, upper = (0.0, 1e6, 1e-12, -1e12), (1e-9, 1e6 + 0.1, 1e12, 1e12)
    scale = ("linear", "linear", "log", "linear")
    problem = Problem(("tiny", "far", "log", "wide"), lower, upper, scale)
    pull = np.array([1.0, -1.0, 1.0, -1.0])
    objective = Watched(lambda x: -(pull * problem.to_shares(x)).sum(axis=1) * 1e6)
    settings = Settings(24, 30, elite_fraction=0.5, crossover_fraction=0.0, initial_step=1.0)
    result = minimise(genetic, problem, objective, settings, initial=lower)
    asked = np.concatenate(objective.populations)
    assert (asked >= lower).all()
    assert (asked <= upper).all()
    # It went most of the way from `lower`, of cost 0, to the corner that it is pulled to, of cost -2e6.
    assert result.cost < -1.6e6
    assert result.evaluations == len(asked)


def test_history_and_counts() -> None:
    """Costs that are not finite are the worst; another seed is another run; NumPy's own is left alone."""
    objective, told = Watched(holes), []
    np.random.seed(5)  # noqa: NPY002 - the global state, which is the user's
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    result = minimise(genetic, CUBE, objective, SHORT, told.append)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    costs = [holes(population) for population in objective.populations]
    assert len(costs) == SHORT.generations  # one call a generation, as large as can be
    assert result.evaluations == sum(len(one) for one in costs) <= SHORT.individuals * SHORT.generations
    best_costs = np.minimum.accumulate([one[np.isfinite(one)].min() for one in costs])
    assert result.cost == best_costs[-1] == holes(result.best[None])[0]
    assert told == [
        Progress(SHORT.seed, number + 1, best, (number + 1) / SHORT.generations)
        for number, best in enumerate(best_costs.tolist())
    ]
    assert minimise(genetic, CUBE, holes, Settings(30, 8, seed=4)).cost != result.cost


def test_no_finite_cost_at_all_is_refused_and_errors_of_the_objective_come_through() -> None:
    objective = Watched(lambda x: np.full(len(x), np.nan))
    with pytest.raises(UserError, match=r"none of \d+ costs was finite"):
        minimise(genetic, CUBE, objective, SHORT)
    assert len(objective.populations) <= SHORT.generations
    for error in (ValueError("no such recording"), RuntimeError("full")):
        with pytest.raises(type(error)) as caught:
            minimise(genetic, CUBE, Watched(fails_at=2, error=error), SHORT)
        assert caught.value is error


# -- the genetic algorithm's parts -----------------------------------------------------------------------------------


def test_mutation_shrinks_with_the_generation() -> None:
    """Without crossover, and all parents equal, the children's spread is the step: initial_step / generation."""
    spreads = []

    def flat(shares: Array) -> Array:
        spreads.append(float(np.abs(shares - 0.5).mean()))
        return np.abs(shares - 0.5).sum(axis=1)  # the elite in the centre is the best, and nearly all parents

    settings = Settings(4000, 12, elite_fraction=0.5, crossover_fraction=0.0, initial_step=0.01)
    genetic(flat, box(3, 0.0, 1.0), settings, np.full((4000, 3), 0.5))
    assert 2.0 < spreads[1] / spreads[11] < 12.0  # 11 for children of unmoved parents, less for those of moved ones
    assert spreads[1] == pytest.approx(0.01 * np.sqrt(2.0 / np.pi), rel=0.03)


# -- interrupted and continued ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [genetic, gradient, pattern])
def test_an_interrupted_run_is_continued_to_the_same_bits(method: Method, tmp_path: Path) -> None:
    """Where some costs are not finite; what is done is kept as `train` keeps it."""

    def kept(objective: Watched) -> Result:
        team = KeptResults(sharers(), tmp_path)
        return minimise(method, CUBE, lambda population: team.once(lambda: objective(population)), SHORT, None, START)

    whole, rest = Watched(holes), Watched(holes)
    expected = minimise(method, CUBE, whole, SHORT, None, START)
    with pytest.raises(KeyboardInterrupt):
        kept(Watched(holes, 4))
    assert_same(kept(rest), expected)
    # Nothing is computed twice.
    assert [one.tobytes() for one in rest.populations] == [one.tobytes() for one in whole.populations[3:]]


def test_seeds_are_the_single_runs_in_order() -> None:
    seeds, told = [7, 2, 5], []
    found = minimise_seeds(genetic, CUBE, rosenbrock, SHORT, seeds, told.append)
    for seed, result in zip(seeds, found, strict=True):
        assert_same(result, minimise(genetic, CUBE, rosenbrock, Settings(30, 8, seed)))
    assert [one.share for one in told] == pytest.approx(np.arange(1, 25) / 24)
    assert [one.seed for one in told] == np.repeat(seeds, 8).tolist()


# -- wrong use -------------------------------------------------------------------------------------------------------


def test_wrong_use_is_refused() -> None:
    with pytest.raises(ValueError, match="outside of the bounds"):
        minimise(genetic, CUBE, rosenbrock, SHORT, initial=[0.0, np.nan, 0.0])
    with pytest.raises(UserError, match="each only once"):
        minimise_seeds(genetic, CUBE, rosenbrock, SHORT, [1, 1])
    with pytest.raises(ValueError, match="for 30 individuals"):
        minimise(genetic, CUBE, lambda x: np.zeros(len(x) + 1), SHORT)


# -- sensitivity -----------------------------------------------------------------------------------------------------


def test_sensitivity_of_a_power_law() -> None:
    """cost = a^2 / b: 2.1 % and -0.990 % of cost for 1 % of a and b; d is zero, of which there are no percents."""
    names, lower, upper = ("a", "b", "c", "d"), (1.0, 0.5, -1.0, -1.0), (3.2, 9.0, 1.0, 1.0)
    problem = Problem(names, lower, upper, ("linear", "log", "linear", "linear"))
    calls = Watched(lambda x: np.where(x[:, 2] > -0.51, x[:, 0] ** 2 / x[:, 1] + 0.0 * x[:, 2], np.nan))
    found = sensitivity(problem, calls, [3.0, 2.0, -0.5, 0.0], [10.0, -5.0, 1.0])
    assert len(calls.populations) == 1
    np.testing.assert_array_equal(found.changes_percent, [-5.0, 1.0, 10.0])
    np.testing.assert_allclose(found.cost_changes_percent[0], [-9.75, 2.01, np.nan], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.cost_changes_percent[1], [100 / 19, -100 / 101, -100 / 11], atol=1e-9)
    np.testing.assert_allclose(found.cost_changes_percent[2], [0.0, 0.0, np.inf], atol=1e-12)
    assert np.isnan(found.cost_changes_percent[3]).all()
    np.testing.assert_allclose(found.largest_ratios, [2.01, 20 / 19, 0.0, np.nan], atol=1e-9)
    for cost in (0.0, np.nan):
        with pytest.raises(UserError, match="no percents of it"):
            sensitivity(problem, lambda x, cost=cost: np.full(len(x), cost), [3.0, 2.0, -0.5, 0.5], [1.0])
