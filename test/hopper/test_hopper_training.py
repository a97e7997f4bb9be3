"""Training of the hopper's filters: the cost by its formula, the search, what is calibrated, and the command."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evaluation_samples import command, refusal
from hopper_samples_for_tests import (
    CONFIGURATION,
    HIGH,
    LOW,
    STANDING_M,
    TRUTH,
    changed,
    hopping,
    loaded,
    plain_parameters,
    rows_of,
    values_by,
    without,
    write_bag,
)
from scipy.stats import norm

from benchmarks.hopper.trials import deviations
from hopper_estimation.estimators.filter_model import PARAMETERS, load_filters
from hopper_estimation.model import phases
from hopper_estimation.model.configuration import HopperTrainingConfiguration
from hopper_estimation.model.phases import APEX, PHASES
from hopper_estimation.training.filter_calibration import WITHIN_ONE, calibrated, filtered, judged, scale_and_floor
from hopper_estimation.training.filter_training import (
    SEARCHED,
    START_VARIANCES,
    FilterObjective,
    neutral_parameters,
    train_filter,
)
from hopper_estimation.training.trials import Trial, trials_of
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.series import Recording, Series
from onboard_estimation.learning.optimisation.problem import Progress

START = np.diag(START_VARIANCES)


@pytest.fixture(scope="module")
def trials() -> list[Trial]:
    """Two robots, seven hops each."""
    return trials_of(CONFIGURATION, {f"seed {seed}": loaded(hopping("1m", 14.0, seed)) for seed in (7, 8)})


# -------------------------------------------------------------------------------------------------------------- cost


def plain_cost(name: str, parameters: Any, trials: Sequence[Trial]) -> float:
    """The formula in plain Python: equations (8) to (10), with the weights that MODELS settles."""
    misses, told, judged = [], 0, 0
    squares_z, squares_v, samples = 0.0, 0.0, 0
    miscounts = 0.0
    surprises = []
    for trial in trials:
        run = filtered(CONFIGURATION, name, parameters, trial, START)
        apexes = [
            (
                float(trial.time_s[int(row["sample"])]),
                float(row["height"]),
                float(row["variance"]),
            )
            for row in run.events
            if int(row["kind"]) == APEX
        ]
        cycles = trial.hops.cycles
        told = 0
        for begin, end, true in zip(cycles.touchdown_s, cycles.next_touchdown_s, cycles.hop_height_m, strict=True):
            inside = [(height, variance) for at, height, variance in apexes if begin <= at < end]
            told += len(inside)
            misses.append(min(abs(inside[0][0] - STANDING_M - true) / true, 10.0) if inside else 1.0)
            likely = norm(0.0, np.sqrt(inside[0][1] / true**2 + 0.003**2)) if inside else None
            surprise = 10.0 if likely is None else -float(likely.logpdf(misses[-1])) - 0.5 * np.log(2.0 * np.pi)
            surprises.append(min(surprise, 10.0))
        judged += len(cycles)
        miscounts += abs(told - len(cycles))
        ez, ev = run.out[::4, 0] - trial.true_height_m[::4], run.out[::4, 1] - trial.true_velocity_m_s[::4]
        known = np.isfinite(ez) & np.isfinite(ev)
        # Trials weigh by their samples, each with its own mean.
        squares_z += float(np.mean(ez[known] ** 2)) * len(run.out)
        squares_v += float(np.mean(ev[known] ** 2)) * len(run.out)
        samples += len(run.out)
    rmse = np.sqrt(squares_z / samples) + np.sqrt(squares_v / samples)
    unlikely = 0.01 * (np.mean(surprises) + 4.0) if name == "bounce" else 0.0
    return float(np.mean(misses) + miscounts / judged + 0.01 * rmse + unlikely)


@pytest.mark.parametrize("name", list(SEARCHED))
def test_the_cost_is_that_of_the_formula(name: str, trials: list[Trial]) -> None:
    objective = FilterObjective(CONFIGURATION, name, trials, 1, delays=True)
    rng = np.random.default_rng(1)
    lower, upper = np.array(objective.problem().lower), np.array(objective.problem().upper)
    hand = plain_parameters()[list(objective.places)]
    population = np.array([hand, *(np.clip(hand * rng.uniform(0.6, 1.6, len(hand)), lower, upper) for _ in range(3))])
    costs = objective(population)
    expected = [plain_cost(name, objective.full(one[None])[0], trials) for one in population]
    np.testing.assert_allclose(costs, expected, rtol=1e-9)
    assert len(set(costs.tolist())) == 4
    assert 0.0 < costs[0] < 1.0


def test_missed_and_extra_hops_cost(trials: list[Trial]) -> None:
    """A filter that sees no touchdown pays for every hop; one that sees them everywhere for the wrong count."""
    objective = FilterObjective(CONFIGURATION, "kf1", trials, 1)
    blind, nervous = plain_parameters(), plain_parameters()
    blind[phases.JERK], blind[phases.F_PHASE] = 20000.0, 5.0
    nervous[phases.JERK], nervous[phases.F_PHASE] = 200.0, 400.0
    costs = objective(np.array([blind, nervous])[:, list(objective.places)])
    assert costs[0] == pytest.approx(plain_cost("kf1", blind, trials), rel=1e-9)
    assert costs[0] > 1.9
    assert costs[1] == pytest.approx(plain_cost("kf1", nervous, trials), rel=1e-9)
    assert costs[1] > 0.5


@pytest.mark.parametrize("name", ["bounce", "kf1", "kf2", "eskf1"])
def test_threads_change_nothing(name: str, trials: list[Trial]) -> None:
    rng = np.random.default_rng(2)
    problem = FilterObjective(CONFIGURATION, name, trials, 1).problem()
    population = problem.to_units(rng.random((21, problem.count)))
    costs = [FilterObjective(CONFIGURATION, name, trials, threads)(population) for threads in (1, 2, 3)]
    np.testing.assert_array_equal(costs[0], costs[1])
    np.testing.assert_array_equal(costs[0], costs[2])
    one_by_one = [float(FilterObjective(CONFIGURATION, name, trials, 1)(one[None])[0]) for one in population[:5]]
    np.testing.assert_array_equal(costs[0][:5], one_by_one)


# ------------------------------------------------------------------------------------------------------------ search

TINY = HopperTrainingConfiguration(individuals=30, generations=4, threads=1)


def test_a_little_training_helps_and_can_be_repeated(trials: list[Trial]) -> None:
    found = train_filter(CONFIGURATION, "kf1", trials, TINY)
    again = train_filter(CONFIGURATION, "kf1", trials, TINY)
    other = train_filter(CONFIGURATION, "kf1", trials, replace(TINY, seeds=(1, 2)))
    np.testing.assert_array_equal(found.entry.parameters, again.entry.parameters)
    assert not np.array_equal(found.entry.parameters, other.entry.parameters)
    assert other.search.best.cost == min(one.cost for one in other.search.results)
    neutral = plain_cost("kf1", neutral_parameters(), trials)
    assert found.search.best.cost < 0.5 * neutral
    assert found.search.best.cost == pytest.approx(plain_cost("kf1", found.entry.parameters, trials), rel=1e-9)
    for one, value in zip(PARAMETERS, found.entry.parameters, strict=True):
        assert one.lower <= value <= one.upper, one.name


def test_the_papers_form_has_no_delays(trials: list[Trial]) -> None:
    found = train_filter(CONFIGURATION, "kf1", trials, replace(TINY, generations=1, delays=False))
    places = [phases.DELAY_TD, phases.DELAY_MS, phases.DELAY_LO]
    assert found.entry.parameters[places].tolist() == [0.0, 0.0, 0.0]
    assert not any("delay" in name for name in found.objective.problem().names)


def test_an_interrupted_training_goes_on_where_it_was(trials: list[Trial], tmp_path: Path) -> None:
    whole = train_filter(CONFIGURATION, "kf3", trials, TINY)
    settings = replace(TINY, state_file=str(tmp_path / "state"))

    def interrupt(told: Progress) -> None:
        if told.generation == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_filter(CONFIGURATION, "kf3", trials, settings, interrupt)
    assert [one.name for one in tmp_path.iterdir()] == ["state_kf3_seed_0.npz"]
    computed: list[int] = []
    resumed = train_filter(CONFIGURATION, "kf3", trials, settings, lambda told: computed.append(told.generation))
    np.testing.assert_array_equal(resumed.entry.parameters, whole.entry.parameters)
    assert resumed.search.best.cost == whole.search.best.cost
    assert 1 not in computed, "it began anew"
    # On other recordings it is another search.
    with pytest.raises(UserError, match="state_kf3_seed_0"):
        train_filter(CONFIGURATION, "kf3", trials[:1], settings)


# ------------------------------------------------------------------------------------------------------- calibration


@pytest.mark.parametrize(("scale", "floor"), [(2.5, 0.0), (0.0, 0.3), (1.5, 0.2), (4.0, 0.05)])
def test_scale_and_floor_cover_synthetic_errors(scale: float, floor: float) -> None:
    rng = np.random.default_rng(3)
    sigma = rng.uniform(0.02, 0.5, size=8000)
    error = np.sqrt((scale * sigma) ** 2 + floor**2) * rng.normal(size=8000)
    a, b = scale_and_floor(error, sigma, 0.0)
    for rows in (sigma < 0.1, sigma > 0.3, sigma > 0.0):
        ratio = np.abs(error[rows]) / np.sqrt((a * sigma[rows]) ** 2 + b**2)
        assert 0.62 < np.mean(ratio < 1.0) < 0.80
        assert np.mean(ratio < 3.0) > 0.985


def test_a_small_standard_deviation_is_not_made_smaller() -> None:
    """It says nothing about errors of another kind, but it grows with readings that deserve less trust."""
    rng = np.random.default_rng(4)
    sigma = np.full(4000, 0.02)
    scale, floor = scale_and_floor(0.5 * rng.normal(size=4000), sigma, 0.0)
    assert scale > 0.8
    wanted = 0.5 * norm.ppf(0.5 + 0.5 * WITHIN_ONE)  # so many of the errors within one standard deviation
    assert np.hypot(scale * 0.02, floor) == pytest.approx(wanted, rel=0.1)


def test_heavy_tails_are_covered_at_three_sigma() -> None:
    rng = np.random.default_rng(5)
    error = 0.1 * rng.standard_t(2.5, size=20_000)
    scale, floor = scale_and_floor(error, np.full(20_000, 0.1), 0.0)
    assert np.mean(np.abs(error) < 3.0 * np.hypot(0.1 * scale, floor)) > 0.975


def test_a_filter_that_knows_how_sure_it_is_is_not_made_surer(trials: list[Trial]) -> None:
    """Its training hops are fewer than what may befall it; the paper's filters are scaled as their errors ask for."""
    rng = np.random.default_rng(6)
    sigma = np.full(4000, 0.5)
    error = 0.1 * rng.normal(size=4000)
    assert scale_and_floor(error, sigma, 0.0)[0] < 0.5
    assert scale_and_floor(error, sigma, 0.0, 1.0)[0] == 1.0
    entry = calibrated(CONFIGURATION, "bounce", plain_parameters(), trials)
    assert np.all(entry.height_scale >= 1.0)
    assert np.all(entry.velocity_scale >= 1.0)


def test_too_few_errors_are_guessed_generously() -> None:
    assert scale_and_floor(np.zeros(50), np.ones(50), 0.0) == (3.0, 0.1)


def test_a_calibrated_filter_covers_its_training_hops(trials: list[Trial]) -> None:
    for name in ("kf1", "eskf1"):
        entry = calibrated(CONFIGURATION, name, plain_parameters(), trials)
        runs = [judged(CONFIGURATION, name, entry, trial)[1].out for trial in trials]
        ratios = np.hstack([deviations(out, entry, trial) for out, trial in zip(runs, trials, strict=True)])
        for number, phase in enumerate(PHASES[:4]):
            for ratio in ratios[:, np.concatenate(runs)[:, 5] == number]:
                known = ratio[np.isfinite(ratio)]
                assert len(known) > 200, phase
                assert 0.55 < np.mean(known < 1.0) < 0.9, phase
                assert np.mean(known < 3.0) > 0.95, phase
        assert np.all(entry.event_delay_s >= 0.0)
        assert entry.event_delay_s.max() < 0.05
        assert entry.start_covariance[0] * entry.start_covariance[2] > entry.start_covariance[1] ** 2


# -------------------------------------------------------------------------------------------- recordings and command


def test_readings_that_are_no_numbers_are_left_out_of_the_training(trials: list[Trial]) -> None:
    def spoil(time_s: Any, values: Any) -> Any:
        values[100::50] = np.nan
        return values

    def left_out(one: Series) -> Series | None:
        return rows_of(lambda t: (np.arange(len(t)) < 100) | ((np.arange(len(t)) - 100) % 50 != 0))(one)

    spoilt, clean = (
        trials_of(CONFIGURATION, {"a": loaded(changed(hopping(), {LOW: change, HIGH: change}))})[0]
        for change in (values_by(spoil), left_out)
    )
    for name in ("low", "high", "side_x", "side_y"):
        np.testing.assert_array_equal(spoilt.signals[name], clean.signals[name])
        assert np.isfinite(spoilt.signals[name]).all()


def swapped(recording: Recording) -> Recording:
    swap = values_by(lambda t, v: v[:, [1, 2, 0, 4, 5, 3]])
    return changed(recording, {LOW: swap, HIGH: swap})


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (swapped, "Tuesday: at rest imu/low_g reads x "),
        (lambda r: changed(r, {TRUTH: without}), "Tuesday: no ground truth of body"),
        (lambda r: changed(r, {TRUTH: rows_of(lambda t: t < 8.0)}), "Tuesday: 1 whole hops in the ground truth"),
        (
            lambda r: changed(r, {TRUTH: rows_of(lambda t: np.arange(len(t)) % 12 == 0)}),
            "Tuesday: motion capture at 50 Hz",
        ),
        (lambda r: changed(r, {LOW: without, HIGH: without}), "Tuesday: no readings of imu/low_g or imu/high_g"),
    ],
)
def test_recordings_that_do_not_do_are_named(spoil: Any, said: str) -> None:
    with pytest.raises(UserError) as raised:
        trials_of(CONFIGURATION, {"Monday": loaded(hopping()), "Tuesday": loaded(spoil(hopping()))})
    assert str(raised.value).startswith(said)
    assert "\n" not in str(raised.value)


def test_train_and_evaluate_from_the_command_line(tmp_path: Path) -> None:
    bags = [write_bag(tmp_path / f"day_{seed}", hopping("1m", 14.0, seed)) for seed in (7, 8)]
    model = tmp_path / "model.json"
    settings = ["training.individuals=20", "training.generations=2", "training.threads=1"]
    words = [word for one in settings for word in ("--set", one)]
    outcome = command("train", "hopper", *bags, "--form", "kf1", "--output", model, "--json", *words)
    assert outcome.code == 0, outcome.error
    told = json.loads(outcome.out)
    assert told["trials"] == {"day_7": {"hops": 7}, "day_8": {"hops": 7}}
    assert told["hops"] == 14
    kf1 = told["filters"]["kf1"]
    stored = load_filters(model).entries["kf1"]
    assert kf1["parameters"]["phase_cutoff_hz"] == pytest.approx(stored.parameters[phases.F_PHASE])
    assert {"m1", "m2", "m3", "m4"} == set(kf1["on_training_hops"])
    assert (tmp_path / "model_kf1_sensitivity.png").stat().st_size > 1000
    run = tmp_path / "run"
    assert command("evaluate", bags[0], "--model", model, "--output", run, "--json").code == 0
    found = json.loads((run / "metrics.json").read_text())["hopper"]["hops"]
    assert found["hops"] == 7
    # A model is replaced, anything else is not.
    assert command("train", "hopper", *bags, "--output", model, "--json", *words).code == 0
    model.write_text('{"mine": 1}')
    said = refusal("train", "hopper", *bags, "--output", model, *words)
    assert "exists and is no model that may be replaced" in said
    assert model.read_text() == '{"mine": 1}'
