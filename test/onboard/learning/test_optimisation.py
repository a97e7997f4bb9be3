"""Optimisers against functions with known minima, their bounds, and runs that are interrupted and continued."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from hopper_estimation.training.training import write_sensitivity
from onboard_estimation.base.errors import UserError
from onboard_estimation.learning.optimisation.methods import (
    adaptive_mutation,
    breed,
    genetic,
    group_sizes,
    rank_fitness,
    scattered_crossover,
    stochastic_universal_sampling,
)
from onboard_estimation.learning.optimisation.minimise import (
    METHODS,
    StoredRun,
    minimise,
    minimise_seeds,
    save_state,
    seed_path,
)
from onboard_estimation.learning.optimisation.problem import Problem, Progress, Result, Settings, sensitivity

Array = NDArray[np.float64]
EVERY_METHOD = pytest.mark.parametrize("method", ["genetic", "differential_evolution", "cma"])
SHORT = Settings(individuals=30, generations=8, seed=3)


def box(count: int, lower: float, upper: float, scale: str = "linear") -> Problem:
    names = tuple(f"p{number}" for number in range(count))
    return Problem(names, ("",) * count, (lower,) * count, (upper,) * count, (scale,) * count)


def rosenbrock(x: Array) -> Array:
    """0 at ones."""
    return (100.0 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1.0 - x[:, :-1]) ** 2).sum(axis=1)


def rastrigin(x: Array) -> Array:
    """0 at the origin, local minima close to all other whole numbers."""
    return (x**2 - 10.0 * np.cos(2.0 * np.pi * x) + 10.0).sum(axis=1)


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
    for name in ("method", "seed", "cost", "evaluations", "non_finite", "stopped"):
        assert getattr(first, name) == getattr(second, name), name


# -- known minima ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "individuals", "generations", "most"),
    [("genetic", 400, 60, 0.2), ("differential_evolution", 50, 200, 1e-6), ("cma", 20, 250, 1e-8)],
)
def test_rosenbrock_is_minimised(method: str, individuals: int, generations: int, most: float) -> None:
    problem = box(3, -2.0, 2.0)
    results = minimise_seeds(method, problem, rosenbrock, Settings(individuals, generations), seeds=range(3))
    assert np.median([one.cost for one in results.results]) < most
    best = results.best
    assert np.abs(best.best - 1.0).max() < 10.0 * np.sqrt(most)
    assert best.cost == rosenbrock(best.best[None])[0]


@pytest.mark.parametrize(("method", "individuals"), [("genetic", 200), ("differential_evolution", 100), ("cma", 60)])
def test_rastrigin_with_active_bounds(method: str, individuals: int) -> None:
    """The minimum within the box lies on its lower bound, 1, in every parameter: 1 each."""
    problem = box(3, 1.0, 5.2)
    results = minimise_seeds(method, problem, rastrigin, Settings(individuals, 80), seeds=range(5))
    assert np.median([one.cost for one in results.results]) == pytest.approx(3.0, abs=0.02)
    assert np.abs(results.best.best - 1.0).max() < 0.01


@EVERY_METHOD
def test_logarithmic_parameters_are_searched_by_powers_of_ten(method: str) -> None:
    """The same cost in the exponents must give the same run with linear parameters of the exponents."""
    target = np.array([-3.0, 0.5, -1.0])
    log = minimise(method, box(3, 1e-4, 1e1, "log"), lambda x: ((np.log10(x) - target) ** 2).sum(axis=1), SHORT)
    linear = minimise(method, box(3, -4.0, 1.0), lambda x: ((x - target) ** 2).sum(axis=1), SHORT)
    np.testing.assert_allclose(np.log10(log.best), linear.best, atol=1e-9)
    assert log.cost == pytest.approx(linear.cost, abs=1e-9)


# -- what holds for every method -------------------------------------------------------------------------------------


@EVERY_METHOD
def test_same_seed_same_result_other_seed_another(method: str) -> None:
    np.random.seed(5)  # noqa: NPY002 - the global state, which is the user's
    before = json.dumps(np.random.get_state()[1].tolist())  # noqa: NPY002
    first, second = (minimise(method, box(4, -2.0, 2.0), rosenbrock, SHORT) for _ in range(2))
    assert_same(first, second)
    assert json.dumps(np.random.get_state()[1].tolist()) == before  # noqa: NPY002
    other = minimise(method, box(4, -2.0, 2.0), rosenbrock, Settings(30, 8, seed=4))
    assert other.cost != first.cost


@EVERY_METHOD
@pytest.mark.parametrize("seed", range(4))
def test_bounds_are_kept_where_the_cost_pulls_out_of_them(method: str, seed: int) -> None:
    problem = Problem(
        ("tiny", "far", "log", "wide"),
        ("m", "", "", ""),
        (0.0, 1e6, 1e-12, -1e12),
        (1e-9, 1e6 + 0.1, 1e12, 1e12),
        ("linear", "linear", "log", "linear"),
    )
    lower, upper = np.array(problem.lower), np.array(problem.upper)

    def pull(x: Array) -> Array:
        share = problem.to_shares(x)
        return -(np.array([1.0, -1.0, 1.0, -1.0]) * share).sum(axis=1) * 1e6

    objective = Watched(pull)
    settings = Settings(24, 30, seed, elite_fraction=0.5, crossover_fraction=0.0, initial_step=1.0)
    result = minimise(method, problem, objective, settings, initial=lower)
    asked = np.concatenate(objective.populations)
    assert (asked >= lower).all()
    assert (asked <= upper).all()
    # It went most of the way from `lower`, of cost 0, to the corner that it is pulled to, of cost -2e6.
    assert result.cost < -1.6e6
    assert result.evaluations == len(asked)


@EVERY_METHOD
def test_bounds_are_kept_by_the_methods_not_only_by_cutting_off(method: str) -> None:
    """The corner pulls; whoever searches beyond it and is cut off would ask for it again and again."""
    asked: list[Array] = []

    def pull(shares: Array) -> Array:
        asked.append(shares.copy())
        return shares.sum(axis=1)

    METHODS[method](pull, box(5, 0.0, 1.0), Settings(30, 40), np.empty((0, 5)))
    shares = np.concatenate(asked)
    assert (shares >= 0.0).all()
    assert (shares <= 1.0).all()
    assert ((shares == 0.0) | (shares == 1.0)).mean() < 0.01


@given(
    st.floats(-1e9, 1e9),
    st.floats(1e-3, 1e9),
    st.floats(1e-9, 1e9),
    st.floats(1.01, 1e9),
    st.lists(st.floats(0.0, 1.0), min_size=1, max_size=5),
)
def test_shares_and_units_are_each_others_inverse_and_within_bounds(
    lower: float, width: float, least: float, factor: float, shares: list[float]
) -> None:
    problem = Problem(("a", "b"), ("", ""), (lower, least), (lower + width, least * factor), ("linear", "log"))
    given_shares = np.repeat(np.array([0.0, *shares, 1.0])[:, None], 2, axis=1)
    values = problem.to_units(given_shares)
    assert (values >= np.array(problem.lower)).all()
    assert (values <= np.array(problem.upper)).all()
    np.testing.assert_allclose(values[[0, -1]], [problem.lower, problem.upper], rtol=1e-13)
    precision = 1e-15 * max(abs(lower) / width, 1.0, 40.0 / np.log(factor))
    back = problem.to_shares(values)
    np.testing.assert_allclose(back, given_shares, atol=10.0 * precision)
    assert (back >= 0.0).all()
    assert (back <= 1.0).all()


@EVERY_METHOD
def test_history_and_counts(method: str) -> None:
    objective, told = Watched(), []
    result = minimise(method, box(3, -2.0, 2.0), objective, SHORT, told.append)
    costs = [rosenbrock(population) for population in objective.populations]
    assert len(costs) == SHORT.generations  # one call a generation, as large as can be
    assert result.evaluations == sum(len(one) for one in costs) <= SHORT.individuals * SHORT.generations
    best_costs = np.minimum.accumulate([one.min() for one in costs])
    assert (result.cost, result.non_finite) == (best_costs[-1], 0)
    shares = [(number + 1) / SHORT.generations for number in range(SHORT.generations)]
    assert told == [
        Progress(SHORT.seed, number + 1, float(best), share)
        for number, (best, share) in enumerate(zip(best_costs, shares, strict=True))
    ]


@EVERY_METHOD
def test_costs_that_are_not_finite_are_the_worst_and_counted(method: str) -> None:
    def holes(x: Array) -> Array:
        costs = rosenbrock(x)
        costs[x[:, 0] < 0.0] = np.nan
        costs[x[:, 1] < -1.0] = -np.inf
        costs[x[:, 1] > 1.9] = np.inf
        return costs

    objective = Watched(holes)
    result = minimise(method, box(3, -2.0, 2.0), objective, Settings(40, 25))
    asked = np.concatenate(objective.populations)
    assert result.non_finite == (~np.isfinite(holes(asked))).sum() > 0
    assert np.isfinite(result.cost)
    assert result.best[0] >= 0.0
    assert result.cost < 2.0


@EVERY_METHOD
def test_no_finite_cost_at_all_is_refused(method: str) -> None:
    objective = Watched(lambda x: np.full(len(x), np.nan))
    with pytest.raises(UserError, match=r"none of \d+ costs was finite"):
        minimise(method, box(3, -2.0, 2.0), objective, SHORT)
    assert len(objective.populations) <= SHORT.generations


@EVERY_METHOD
def test_initial_point_is_begun_with(method: str) -> None:
    objective = Watched()
    result = minimise(method, box(4, -2.0, 2.0), objective, SHORT, initial=[1.0, 1.0, 1.0, 0.9])
    if method == "cma":  # draws its first population around it
        spread = Watched()
        minimise(method, box(4, -2.0, 2.0), spread, SHORT)
        assert np.abs(objective.populations[0] - 1.0).mean() < np.abs(spread.populations[0] - 1.0).mean()
    else:
        np.testing.assert_allclose(objective.populations[0][0], [1.0, 1.0, 1.0, 0.9], rtol=1e-15)
        assert result.cost <= rosenbrock(np.array([[1.0, 1.0, 1.0, 0.9]]))[0] * (1.0 + 1e-9)


@EVERY_METHOD
@pytest.mark.parametrize("error", [ValueError("no such recording"), RuntimeError("full"), TypeError("wrong")])
def test_errors_of_the_objective_come_through(method: str, error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        minimise(method, box(3, -2.0, 2.0), Watched(fails_at=2, error=error), SHORT)
    assert caught.value is error


@EVERY_METHOD
def test_one_generation_is_the_first_population(method: str) -> None:
    result = minimise(method, box(3, -2.0, 2.0), rosenbrock, Settings(10, 1))
    assert result.evaluations == 10


def test_cma_says_why_it_stopped() -> None:
    result = minimise("cma", box(2, -2.0, 2.0), lambda x: (x**2).sum(axis=1), Settings(10, 1000))
    assert "tolfun" in result.stopped
    assert result.evaluations < 10 * 1000


def test_missing_cma_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cma", None)
    with pytest.raises(UserError, match=r"pip install 'onboard_estimation\[training\]'"):
        minimise("cma", box(3, -2.0, 2.0), rosenbrock, SHORT)


# -- methods without a population -----------------------------------------------------------------------------------


def bowl(x: Array) -> Array:
    return ((x - [0.9, -1.4, 0.2]) ** 2 * [1.0, 4.0, 9.0]).sum(axis=1) + 0.5 * (x[:, 0] - 0.9) * (x[:, 1] + 1.4)


@pytest.mark.parametrize(("method", "generations", "off"), [("gradient", 40, 1e-3), ("pattern", 60, 0.12)])
def test_a_narrow_bowl_is_descended_from_the_point_to_begin_with(method: str, generations: int, off: float) -> None:
    objective = Watched(bowl)
    result = minimise(
        method, box(3, -2.0, 2.0), objective, Settings(generations=generations, initial_step=0.125), initial=np.zeros(3)
    )
    np.testing.assert_allclose(result.best, [0.9, -1.4, 0.2], atol=off)
    np.testing.assert_array_equal(objective.populations[0][0], 0.0)
    assert result.cost == bowl(result.best[None])[0]
    assert len(objective.populations) <= generations
    assert {len(one) for one in objective.populations} == {7 if method == "gradient" else 1}


@pytest.mark.parametrize("method", ["gradient", "pattern"])
def test_without_a_population_bounds_are_kept_and_reached(method: str) -> None:
    objective = Watched(lambda x: -x.sum(axis=1))
    result = minimise(method, box(2, -1.5, 1.5), objective, Settings(generations=9, initial_step=0.34))
    np.testing.assert_array_equal(result.best, [1.5, 1.5])
    assert np.abs(np.concatenate(objective.populations)).max() == 1.5


def test_a_pattern_search_never_ends_worse_than_it_began() -> None:
    """Every other place is worse, or has no value."""
    result = minimise(
        "pattern",
        box(2, -2.0, 2.0),
        lambda x: np.where(x.any(axis=1), np.where(x[:, 0] != 0.0, np.nan, np.inf), -1.0),
        Settings(generations=50, initial_step=0.175),
        initial=np.zeros(2),
    )
    np.testing.assert_array_equal(result.best, 0.0)
    assert result.cost == -1.0
    assert result.evaluations < 20  # steps that lead nowhere get smaller, until it is over
    assert result.stopped == "steps are small"


@pytest.mark.parametrize("method", ["gradient", "pattern"])
def test_without_a_population_an_interrupted_run_is_continued_to_the_same_bits(method: str, tmp_path: Path) -> None:
    problem, settings, path = box(3, -2.0, 2.0), Settings(generations=8, initial_step=0.125), tmp_path / "state.npz"
    with pytest.raises(KeyboardInterrupt):
        minimise(method, problem, Watched(bowl, fails_at=4), settings, state_file=path)
    rest, whole = Watched(bowl), Watched(bowl)
    continued = minimise(method, problem, rest, settings, state_file=path)
    assert_same(continued, minimise(method, problem, whole, settings))
    assert len(rest.populations) == len(whole.populations) - 3


# -- the genetic algorithm's parts -----------------------------------------------------------------------------------


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=60), st.integers(0, 300), st.integers(0, 2**32))
def test_sampling_gives_everyone_the_expected_count_rounded_up_or_down(
    fitness: list[float], count: int, seed: int
) -> None:
    weights = np.array(fitness)
    chosen = stochastic_universal_sampling(np.random.default_rng(seed), weights, count)
    expected = count * weights / weights.sum()
    counts = np.bincount(chosen, minlength=len(weights))
    assert counts.sum() == count
    assert (counts >= np.floor(expected - 1e-9)).all()
    assert (counts <= np.ceil(expected + 1e-9)).all()


def test_sampling_is_unbiased() -> None:
    weights = np.array([1.0, 2.0, 0.3, 0.7])
    generator = np.random.default_rng(2)
    counts = sum(np.bincount(stochastic_universal_sampling(generator, weights, 3), minlength=4) for _ in range(20_000))
    # Each count is its expectation's floor or ceiling: a variance of at most 1/4 a draw.
    np.testing.assert_allclose(counts / 20_000, 3.0 * weights / 4.0, atol=4.0 * 0.5 / np.sqrt(20_000))


def test_fitness_depends_on_ranks_alone() -> None:
    costs = np.array([5.0, 1.0, 1e100, 2.0])
    np.testing.assert_allclose(rank_fitness(costs), 1.0 / np.sqrt([3.0, 1.0, 4.0, 2.0]))
    np.testing.assert_array_equal(rank_fitness(costs), rank_fitness(np.array([6.0, -4.0, 7.0, 5.0])))
    np.testing.assert_allclose(rank_fitness(np.array([1.0, 3.0, 3.0])), 1.0 / np.sqrt([1.0, 2.5, 2.5]))


def test_groups_of_the_paper_and_of_small_populations() -> None:
    assert group_sizes(Settings()) == (50, 800, 150)
    for individuals in range(5, 40):
        sizes = group_sizes(Settings(individuals))
        assert sum(sizes) == individuals
        assert min(sizes) >= 0
        assert sizes[0] >= 1
    assert group_sizes(Settings(100, elite_fraction=0.0, crossover_fraction=1.0)) == (0, 100, 0)


def test_crossover_takes_each_parameter_from_one_parent_by_a_fair_coin() -> None:
    generator = np.random.default_rng(0)
    first, second = generator.random((500, 20)), generator.random((500, 20))
    children = scattered_crossover(generator, first, second)
    of_first = children == first
    assert (of_first | (children == second)).all()
    assert abs(of_first.mean() - 0.5) < 4.0 * 0.5 / np.sqrt(of_first.size)
    assert of_first.mean(axis=1).std() > 0.0  # not the same cut for all


@pytest.mark.parametrize("step", [1e-3, 0.1, 1.0, 50.0])
def test_mutation_keeps_bounds_and_moves_even_from_corners(step: float) -> None:
    generator = np.random.default_rng(1)
    corners = generator.integers(0, 2, (400, 15)).astype(float)
    inside = generator.random((400, 15))
    for parents in (corners, inside, np.nextafter(corners, 0.5)):
        children = adaptive_mutation(generator, parents, step)
        assert (children >= 0.0).all()
        assert (children <= 1.0).all()
        moved = np.abs(children - parents)
        assert (moved.max(axis=1) > min(step, 0.1) / 4.0).all()
        assert np.median(moved) <= step
        if parents is inside:  # the step was reduced, not the child cut off at its bounds
            assert ((children > 0.0) & (children < 1.0)).all()


def test_mutation_is_normal_with_the_step_far_from_bounds() -> None:
    parents = np.full((4000, 5), 0.5)
    moves = adaptive_mutation(np.random.default_rng(4), parents, 0.02) - parents
    assert moves.std() == pytest.approx(0.02, rel=0.03)
    assert abs(moves.mean()) < 4.0 * 0.02 / np.sqrt(moves.size)
    np.testing.assert_allclose(np.cov(moves.T), 0.02**2 * np.eye(5), atol=4.0 * 0.02**2 / np.sqrt(4000) * 1.5)


def test_mutation_shrinks_with_the_generation() -> None:
    """Without crossover, and all parents equal, the children's spread is the step: initial_step / generation."""
    spreads = []

    def flat(shares: Array) -> Array:
        spreads.append(float(np.abs(shares - 0.5).mean()))
        return np.abs(shares - 0.5).sum(axis=1)  # the elite in the centre is the best, and nearly all parents

    settings = Settings(4000, 12, elite_fraction=0.5, crossover_fraction=0.0, initial_step=0.01)
    genetic(flat, box(3, 0.0, 1.0), settings, np.full((4000, 3), 0.5))
    ratio = spreads[1] / spreads[11]
    assert 2.0 < ratio < 12.0  # 11 for children of unmoved parents, less for those whose parents had moved
    assert spreads[1] == pytest.approx(0.01 * np.sqrt(2.0 / np.pi), rel=0.03)


@pytest.mark.parametrize("seed", range(5))
def test_elites_are_the_best_and_never_lost(seed: int) -> None:
    settings = Settings(60, 30, seed, elite_fraction=0.1)
    generator = np.random.default_rng(seed)
    population = generator.random((60, 3))
    costs = np.where(generator.random(60) < 0.3, 1e100, generator.integers(0, 40, 60))  # with ties
    elites, children = breed(generator, settings, 1, population, costs)
    assert len(set(elites.tolist())) == 6
    assert children.shape == (54, 3)
    np.testing.assert_array_equal(costs[elites], np.sort(costs)[:6])


def test_elites_stay_parents_with_their_own_costs() -> None:
    """Every child of the elite is a dead end, so that whatever is near it in any generation comes from itself.

    Where it was lost, or its cost given to another individual, its children would end, too.
    """
    elite = np.array([0.3, 0.6, 0.7])
    near: list[int] = []

    def cost(shares: Array) -> Array:
        distance = np.abs(shares - elite).max(axis=1)
        near.append(int(((distance > 0.0) & (distance < 1e-3)).sum()))
        return np.where(distance == 0.0, 0.0, np.where(distance < 1e-3, 1e100, 1.0))

    settings = Settings(100, 40, elite_fraction=0.01, crossover_fraction=0.0, initial_step=1e-4)
    genetic(cost, box(elite.size, 0.0, 1.0), settings, elite[None])
    # Expected are 6 or 7 of 99: it has rank 1, about all others share rank 51, and 1 / (1 + 99 / sqrt(51)) is 6.7 %.
    assert min(near[1:]) >= 5


# -- interrupted and continued ---------------------------------------------------------------------------------------


@EVERY_METHOD
@pytest.mark.parametrize("interrupted_at", [1, 2, 5, 8])
def test_interrupted_run_is_continued_to_the_same_bits(method: str, interrupted_at: int, tmp_path: Path) -> None:
    problem, path = box(4, -2.0, 2.0), tmp_path / "runs" / "state.npz"
    whole = Watched()
    expected = minimise(method, problem, whole, SHORT)
    with pytest.raises(KeyboardInterrupt):
        minimise(method, problem, Watched(fails_at=interrupted_at), SHORT, state_file=path)
    assert path.exists() == (interrupted_at > 1)
    rest, told = Watched(), []
    result = minimise(method, problem, rest, SHORT, told.append, path)
    assert_same(result, expected)
    assert len(rest.populations) == SHORT.generations - (interrupted_at - 1)  # nothing is computed twice
    for here, there in zip(rest.populations, whole.populations[interrupted_at - 1 :], strict=True):
        assert here.tobytes() == there.tobytes()
    assert [one.generation for one in told] == list(range(interrupted_at, SHORT.generations + 1))
    assert [file.name for file in path.parent.iterdir()] == ["state.npz"]


@EVERY_METHOD
def test_finished_run_is_not_computed_again_and_can_be_lengthened(method: str, tmp_path: Path) -> None:
    problem, path, told = box(4, -2.0, 2.0), tmp_path / "state.npz", []
    first = minimise(method, problem, rosenbrock, SHORT, state_file=path)
    idle = Watched()
    assert_same(minimise(method, problem, idle, SHORT, told.append, path), first)
    assert idle.populations == []
    assert [one.share for one in told] == [1.0]
    longer = Settings(30, 14, seed=3)
    more = Watched()
    assert_same(minimise(method, problem, more, longer, state_file=path), minimise(method, problem, rosenbrock, longer))
    assert len(more.populations) == 6
    with pytest.raises(UserError, match="holds 14 generations, 8 are asked for"):
        minimise(method, problem, rosenbrock, SHORT, state_file=path)


def test_costs_that_are_not_finite_are_restored(tmp_path: Path) -> None:
    def holes(x: Array) -> Array:
        return np.where(x[:, 0] < 1.0, np.nan, rosenbrock(x))

    problem, path = box(4, -2.0, 2.0), tmp_path / "state.npz"
    with pytest.raises(KeyboardInterrupt):
        minimise("genetic", problem, Watched(holes, fails_at=5), SHORT, state_file=path)
    assert_same(minimise("genetic", problem, holes, SHORT, state_file=path), minimise("genetic", problem, holes, SHORT))


def test_state_of_another_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    minimise("genetic", box(3, -2.0, 2.0), rosenbrock, SHORT, state_file=path)
    before = path.read_bytes()
    data = Problem(("p0", "p1", "p2"), ("",) * 3, (-2.0,) * 3, (2.0,) * 3, ("linear",) * 3, "other recordings")
    for method, problem, settings, initial, difference in [
        ("cma", box(3, -2.0, 2.0), SHORT, None, "method is genetic, here cma"),
        ("genetic", box(4, -2.0, 2.0), SHORT, None, "names is"),
        ("genetic", box(3, -2.0, 2.5), SHORT, None, r"upper is \[2.0, 2.0, 2.0\], here \[2.5"),
        ("genetic", data, SHORT, None, "fingerprint is , here other recordings"),
        ("genetic", box(3, -2.0, 2.0), Settings(30, 8, seed=4), None, "seed is 3, here 4"),
        ("genetic", box(3, -2.0, 2.0), Settings(31, 8, seed=3), None, "individuals is 30, here 31"),
        ("genetic", box(3, -2.0, 2.0), SHORT, [0.0, 0.0, 0.0], "start is"),
    ]:
        objective = Watched()
        with pytest.raises(UserError, match=difference):
            minimise(method, problem, objective, settings, state_file=path, initial=initial)
        assert objective.populations == []
    assert path.read_bytes() == before


def test_state_whose_course_differs_here_is_refused(tmp_path: Path) -> None:
    """As with another version of a library, which draws other numbers."""
    path = tmp_path / "state.npz"
    minimise("genetic", box(3, -2.0, 2.0), rosenbrock, SHORT, state_file=path)
    with np.load(path) as content:
        arrays = dict(content)
    arrays["digests"][4, 0] ^= 1
    np.savez(path, **arrays)
    with pytest.raises(UserError, match=r"generation 5 of 8 comes out differently here.*another state file"):
        minimise("genetic", box(3, -2.0, 2.0), rosenbrock, SHORT, state_file=path)


@pytest.mark.parametrize("damage", ["cut", "text", "empty", "pickle", "type", "sizes", "header", "names", "nan"])
def test_damaged_state_is_refused(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    minimise("genetic", box(3, -2.0, 2.0), rosenbrock, SHORT, state_file=path)
    data = path.read_bytes()
    with np.load(path) as content:
        arrays = dict(content)
    if damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif damage in ("text", "empty"):
        path.write_bytes(b"" if damage == "empty" else b"not an archive")
    else:
        arrays |= {
            "pickle": {"best": np.array([{"a": 1}], dtype=object)},
            "type": {"costs": arrays["costs"].astype(np.float32)},
            "sizes": {"sizes": arrays["sizes"] + 1},
            "header": {"header": np.frombuffer(b'{"format_version": 2}', dtype=np.uint8)},
            "names": {"more": np.zeros(3)},
            "nan": {"costs": np.full_like(arrays["costs"], np.nan)},
        }[damage]
        np.savez(path, **arrays)
    with pytest.raises(UserError, match="not the state of an optimisation, or damaged"):
        minimise("genetic", box(3, -2.0, 2.0), rosenbrock, SHORT, state_file=path)


def test_state_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be"):
        minimise("genetic", box(3, -2.0, 2.0), rosenbrock, SHORT, state_file=tmp_path / "file" / "state.npz")
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(UserError, match="cannot be written"):
        save_state(folder, StoredRun({}))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "folder"]


# -- several seeds ---------------------------------------------------------------------------------------------------


def test_seeds_are_the_single_runs_in_order(tmp_path: Path) -> None:
    problem, seeds, told = box(4, -2.0, 2.0), [7, 2, 5, 11], []
    path = tmp_path / "state.npz"
    found = minimise_seeds("genetic", problem, rosenbrock, SHORT, seeds, told.append, path)
    for seed, result in zip(seeds, found.results, strict=True):
        assert_same(result, minimise("genetic", problem, rosenbrock, Settings(30, 8, seed)))
        assert seed_path(path, seed).exists()
    assert found.best.cost == min(one.cost for one in found.results)
    assert [one.share for one in told] == pytest.approx(np.arange(1, 33) / 32)
    assert [one.seed for one in told] == np.repeat(seeds, 8).tolist()
    again = minimise_seeds("genetic", problem, Watched(fails_at=1), SHORT, seeds, state_file=path)
    assert [one.cost for one in again.results] == [one.cost for one in found.results]


# -- wrong use -------------------------------------------------------------------------------------------------------


def test_faults_of_a_problem_are_said_all_at_once() -> None:
    with pytest.raises(UserError) as caught:
        Problem(("a", "a", "c"), ("",) * 3, (0.0, 2.0, -1.0), (np.inf, 1.0, 1.0), ("linear", "cubic", "log"))
    for fault in ("a is there 2 times", "0 and inf", "2 and 1", "'cubic'", "lower bound -1"):
        assert fault in str(caught.value)
    with pytest.raises(UserError, match="numbers of values that differ"):
        Problem(("a",), (), (0.0,), (1.0,), ("linear",))
    with pytest.raises(UserError, match="there is no parameter"):
        Problem((), (), (), (), ())


def test_faults_of_settings_are_said_all_at_once() -> None:
    with pytest.raises(UserError) as caught:
        Settings(4, 0, -1, elite_fraction=0.3, crossover_fraction=0.8, initial_step=0.0)
    for fault in ("individuals is 4", "generations is 0", "seed is -1", "in 0 to 0.7", "initial_step is 0"):
        assert fault in str(caught.value)


def test_wrong_use_is_refused() -> None:
    problem = box(3, -2.0, 2.0)
    with pytest.raises(UserError, match="unknown optimiser 'annealing'; there are genetic, differential_"):
        minimise("annealing", problem, rosenbrock, SHORT)
    with pytest.raises(UserError, match=r"p1 = 2\.5 is outside of its bounds -2 to 2"):
        minimise("genetic", problem, rosenbrock, SHORT, initial=[0.0, 2.5, 0.0])
    with pytest.raises(UserError, match="outside of its bounds"):
        minimise("genetic", problem, rosenbrock, SHORT, initial=[0.0, np.nan, 0.0])
    with pytest.raises(UserError, match="3 are needed"):
        minimise("genetic", problem, rosenbrock, SHORT, initial=[0.0, 0.0])
    with pytest.raises(UserError, match="at most 30 rows"):
        minimise("genetic", problem, rosenbrock, SHORT, initial=np.zeros((31, 3)))
    with pytest.raises(UserError, match="at least two parameters"):
        minimise("cma", box(1, 0.0, 1.0), lambda x: x[:, 0], SHORT)
    with pytest.raises(UserError, match="each only once"):
        minimise_seeds("genetic", problem, rosenbrock, SHORT, [1, 1])
    with pytest.raises(ValueError, match="for 30 individuals"):
        minimise("genetic", problem, lambda x: np.zeros(len(x) + 1), SHORT)


# -- sensitivity -----------------------------------------------------------------------------------------------------


def test_sensitivity_of_a_power_law() -> None:
    """cost = a^2 / b: 2.1 % and -0.990 % of cost for 1 % of a and b, whatever their values."""
    problem = Problem(("a", "b", "c"), ("m", "s", ""), (1.0, 0.5, -1.0), (3.2, 9.0, 1.0), ("linear", "log", "linear"))
    calls = Watched(lambda x: x[:, 0] ** 2 / x[:, 1] + 0.0 * x[:, 2])
    found = sensitivity(problem, calls, [3.0, 2.0, -0.5], [10.0, -5.0, 0.0, 1.0])
    assert len(calls.populations) == 1
    np.testing.assert_array_equal(found.changes_percent, [-5.0, 0.0, 1.0, 10.0])
    np.testing.assert_allclose(found.cost_changes_percent[0], [-9.75, 0.0, 2.01, np.nan], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.cost_changes_percent[1], [100 / 19, 0.0, -100 / 101, -100 / 11], atol=1e-9)
    np.testing.assert_allclose(found.cost_changes_percent[2], 0.0, atol=1e-12)
    np.testing.assert_allclose(found.values[1], [1.9, 2.0, 2.02, 2.2])
    np.testing.assert_allclose(found.largest_ratios, [2.01, 20 / 19, 0.0], atol=1e-9)
    assert found.cost == 4.5


def test_sensitivity_leaves_out_what_has_no_percents() -> None:
    problem = box(2, -1.0, 1.0)
    found = sensitivity(problem, lambda x: np.where(x[:, 1] > 0.5, np.nan, 2.0), [0.0, 0.5], [-10.0, 10.0])
    assert np.isnan(found.cost_changes_percent[0]).all()
    np.testing.assert_array_equal(found.cost_changes_percent[1], [0.0, np.inf])
    np.testing.assert_array_equal(found.largest_ratios, [np.nan, 0.0])
    for cost in (0.0, np.nan):
        with pytest.raises(UserError, match="no percents of it"):
            sensitivity(problem, lambda x, cost=cost: np.full(len(x), cost), [0.5, 0.5], [1.0])
    with pytest.raises(UserError, match="outside of its bounds"):
        sensitivity(problem, rosenbrock, [2.0, 0.0], [1.0])
    with pytest.raises(UserError, match="at least one is needed"):
        sensitivity(problem, rosenbrock, [0.5, 0.0], [])


def test_sensitivity_is_drawn_the_same_each_time(tmp_path: Path) -> None:
    problem = box(9, -4.0, 4.0)
    optimum = np.array([1.0, 2.0, 3.0, 0.0, -1.0, 0.5, 3.99, 1.0, 1.0])
    weights = 10.0 ** np.arange(-4, 5)
    found = sensitivity(
        problem, lambda x: 1.0 + ((x - optimum) ** 2 * weights).sum(axis=1), optimum, np.linspace(-10, 10, 9)
    )
    paths = [tmp_path / name for name in ("first.png", "second.png")]
    for path in paths:
        write_sensitivity(found, path, "$odd title")
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UserError, match="cannot write"):
        write_sensitivity(found, paths[0] / "below.png")
