"""Training of the hopper's filters: the cost by its formula, the search, what is calibrated, the command, the files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evaluation_samples import command, refusal
from hopper_samples_for_tests import (
    CONFIGURATION,
    HIGH,
    LOW,
    ROBOT,
    STANDING_M,
    TRUTH,
    changed,
    every,
    hopping,
    judged,
    loaded,
    plain_model,
    plain_parameters,
    rows_of,
    values_by,
    without,
    write_bag,
)
from scipy.stats import norm

from benchmarks.hopper.trials import deviations
from hopper_estimation.estimators.filters import (
    PARAMETERS,
    TRAINED,
    FilterEntry,
    FilterModel,
    filters_of,
    load_filters,
)
from hopper_estimation.model import phases
from hopper_estimation.model.configuration import HopperTrainingConfiguration
from hopper_estimation.model.phases import APEX, PHASES
from hopper_estimation.training.filter_calibration import (
    WITHIN_ONE,
    Trial,
    calibrated,
    filtered,
    scale_and_floor,
    trials_of,
)
from hopper_estimation.training.filter_calibration import judged as judged_trial
from hopper_estimation.training.filter_training import (
    START_VARIANCES,
    FilterObjective,
    neutral_parameters,
    train_filter,
)
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.series import Recording

START = np.diag(START_VARIANCES)


@pytest.fixture(scope="module")
def trials() -> list[Trial]:
    """Two robots, seven hops each."""
    return trials_of(CONFIGURATION, {f"seed {seed}": loaded(hopping("1m", 14.0, seed)) for seed in (7, 8)})


# ----------------------------------------------------------------------------------------------------------------- cost


def plain_cost(name: str, parameters: Any, trials: Sequence[Trial]) -> float:
    """The formula in plain Python: equations (8) to (10), with the weights that MODELS settles."""
    misses, told, hops = [], 0, 0
    squares_z, squares_v, samples = 0.0, 0.0, 0
    miscounts = 0.0
    surprises = []
    for trial in trials:
        run = filtered(CONFIGURATION, name, parameters, trial, START)
        rows = [row for row in run.events if row["kind"] == APEX]
        apexes = [(trial.time_s[row["sample"]], row["height"], row["variance"]) for row in rows]
        cycles = trial.hops.cycles
        told = 0
        for begin, end, true in zip(cycles.touchdown_s, cycles.next_touchdown_s, cycles.hop_height_m, strict=True):
            inside = [(height, variance) for at, height, variance in apexes if begin <= at < end]
            told += len(inside)
            misses.append(min(abs(inside[0][0] - STANDING_M - true) / true, 10.0) if inside else 1.0)
            likely = norm(0.0, np.sqrt(inside[0][1] / true**2 + 0.003**2)) if inside else None
            surprise = 10.0 if likely is None else -float(likely.logpdf(misses[-1])) - 0.5 * np.log(2.0 * np.pi)
            surprises.append(min(surprise, 10.0))
        hops += len(cycles)
        miscounts += abs(told - len(cycles))
        ez, ev = run.out[::4, 0] - trial.true_height_m[::4], run.out[::4, 1] - trial.true_velocity_m_s[::4]
        known = np.isfinite(ez) & np.isfinite(ev)
        # Trials weigh by their samples, each with its own mean.
        squares_z += float(np.mean(ez[known] ** 2)) * len(run.out)
        squares_v += float(np.mean(ev[known] ** 2)) * len(run.out)
        samples += len(run.out)
    rmse = np.sqrt(squares_z / samples) + np.sqrt(squares_v / samples)
    unlikely = 0.01 * (np.mean(surprises) + 4.0) if name == "bounce" else 0.0
    return float(np.mean(misses) + miscounts / hops + 0.01 * rmse + unlikely)


def with_real_stamps(trial: Trial) -> Trial:
    """As robots record it: stamps that jitter, lost messages, high-g readings that come a sample late."""
    rng = np.random.default_rng(7)
    kept = rng.random(len(trial.time_s)) > 0.005
    signals = trial.signals[kept]
    late = trial.time_s[kept] + rng.uniform(0.0, 8e-5, kept.sum())
    signals["dt"][1:] = np.diff(late)
    signals["usable"][rng.random(len(late)) < 0.1] = 9
    height, velocity = trial.true_height_m[kept], trial.true_velocity_m_s[kept]
    return replace(trial, signals=signals, true_height_m=height, true_velocity_m_s=velocity, time_s=trial.time_s[kept])


@pytest.mark.parametrize(("name", "real"), [("eskf2", False), ("kf1", True), ("bounce", True)])
def test_the_cost_is_that_of_the_formula(name: str, real: bool, trials: list[Trial]) -> None:
    trials = [with_real_stamps(one) for one in trials] if real else trials
    objective = FilterObjective(CONFIGURATION, name, trials, 1)
    rng = np.random.default_rng(1)
    lower, upper = np.array(objective.problem().lower), np.array(objective.problem().upper)
    hand = plain_parameters()[list(objective.places)]
    population = np.array([hand, *(np.clip(hand * rng.uniform(0.6, 1.6, len(hand)), lower, upper) for _ in range(3))])
    costs = objective(population)
    expected = [plain_cost(name, objective.full(one[None])[0], trials) for one in population]
    np.testing.assert_allclose(costs, expected, rtol=1e-6 if real and name == "bounce" else 1e-9)
    assert len(set(costs.tolist())) == 4
    assert 0.0 < costs[0] < 1.0
    # Neither threads nor what else is computed with it change a cost.
    several = FilterObjective(CONFIGURATION, name, trials, 3)(np.tile(population, (4, 1)))
    np.testing.assert_array_equal(several, np.tile(costs, 4))


# --------------------------------------------------------------------------------------------------------------- search

TINY = HopperTrainingConfiguration(individuals=30, generations=4, threads=1)


def test_a_little_training_helps_and_can_be_repeated(trials: list[Trial]) -> None:
    found = train_filter(CONFIGURATION, "kf1", trials, TINY)
    other = train_filter(CONFIGURATION, "kf1", trials, replace(TINY, seeds=(1, 0)))
    again = other.results[1]
    np.testing.assert_array_equal(found.best.best, again.best)
    assert not np.array_equal(again.best, other.results[0].best)
    papers = train_filter(CONFIGURATION, "kf1", trials, replace(TINY, generations=1, delays=False))
    delays = [phases.DELAY_TD, phases.DELAY_MS, phases.DELAY_LO]
    assert papers.entry.parameters[delays].tolist() == [0.0, 0.0, 0.0]
    assert other.best.cost == min(one.cost for one in other.results)
    neutral = plain_cost("kf1", neutral_parameters(), trials)
    assert found.best.cost < 0.5 * neutral
    assert found.best.cost == pytest.approx(plain_cost("kf1", found.entry.parameters, trials), rel=1e-9)
    for one, value in zip(PARAMETERS, found.entry.parameters, strict=True):
        assert one.lower <= value <= one.upper, one.name


# ---------------------------------------------------------------------------------------------------------- calibration


@pytest.mark.parametrize(("scale", "floor"), [(2.5, 0.0), (0.0, 0.3)])
def test_scale_and_floor_cover_synthetic_errors(scale: float, floor: float) -> None:
    rng = np.random.default_rng(3)
    sigma = rng.uniform(0.02, 0.5, size=8000)
    error = np.sqrt((scale * sigma) ** 2 + floor**2) * rng.normal(size=8000)
    a, b = scale_and_floor(error, sigma, 0.0)
    for rows in (sigma < 0.1, sigma > 0.3, sigma > 0.0):
        ratio = np.abs(error[rows]) / np.sqrt((a * sigma[rows]) ** 2 + b**2)
        assert 0.62 < np.mean(ratio < 1.0) < 0.80
        assert np.mean(ratio < 3.0) > 0.985


def test_a_small_standard_deviation_is_not_made_smaller_nor_heavy_tails_uncovered() -> None:
    """It says nothing about errors of another kind, but it grows with readings that deserve less trust."""
    rng = np.random.default_rng(4)
    scale, floor = scale_and_floor(0.5 * rng.normal(size=4000), np.full(4000, 0.02), 0.0)
    assert scale > 0.8
    wanted = 0.5 * norm.ppf(0.5 + 0.5 * WITHIN_ONE)  # so many of the errors within one standard deviation
    assert np.hypot(scale * 0.02, floor) == pytest.approx(wanted, rel=0.1)
    error = 0.1 * rng.standard_t(2.5, size=20_000)
    scale, floor = scale_and_floor(error, np.full(20_000, 0.1), 0.0)
    assert np.mean(np.abs(error) < 3.0 * np.hypot(0.1 * scale, floor)) > 0.975
    assert scale_and_floor(np.zeros(50), np.ones(50), 0.0) == (3.0, 0.1), "too few: guessed generously"


def test_a_calibrated_filter_covers_its_training_hops(trials: list[Trial]) -> None:
    entry = calibrated(CONFIGURATION, "kf1", plain_parameters(), trials)
    runs = [judged_trial(CONFIGURATION, "kf1", entry, trial)[1].out for trial in trials]
    ratios = np.hstack([deviations(out, entry, trial) for out, trial in zip(runs, trials, strict=True)])
    for number, phase in enumerate(PHASES[:4]):
        for ratio in ratios[:, np.concatenate(runs)[:, 5] == number]:
            known = ratio[np.isfinite(ratio)]
            assert len(known) > 200, phase
            assert 0.55 < np.mean(known < 1.0) < 0.9, phase
            assert np.mean(known < 3.0) > 0.95, phase
    assert 0.0 <= entry.event_delay_s.min() <= entry.event_delay_s.max() < 0.05
    assert entry.start_covariance[0] * entry.start_covariance[2] > entry.start_covariance[1] ** 2
    # A filter that knows how sure it is is not made surer: its training hops are fewer than what may befall it.
    sure = calibrated(CONFIGURATION, "bounce", plain_parameters(), trials)
    assert min(sure.height_scale.min(), sure.velocity_scale.min()) >= 1.0
    assert entry.height_scale.min() < 1.0 or entry.velocity_scale.min() < 1.0


# ----------------------------------------------------------------------------------------------- recordings and command


def swapped(recording: Recording) -> Recording:
    swap = values_by(lambda t, v: v[:, [1, 2, 0, 4, 5, 3]])
    return changed(recording, {LOW: swap, HIGH: swap})


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (swapped, "Tuesday: at rest imu/low_g reads x "),
        (lambda r: changed(r, {TRUTH: without}), "Tuesday: no ground truth of body"),
        (lambda r: changed(r, {TRUTH: rows_of(lambda t: t < 8.0)}), "Tuesday: 1 whole hops in the ground truth"),
        (lambda r: changed(r, {TRUTH: every(12)}), "Tuesday: motion capture at 50 Hz"),
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
    kf1 = told["filters"]["kf1"]
    stored = load_filters(model).entries["kf1"]
    assert kf1["parameters"]["phase_cutoff_hz"] == pytest.approx(stored.parameters[phases.F_PHASE])
    assert {"m1", "m2", "m3", "m4"} == set(kf1["on_training_hops"])
    assert (tmp_path / "model_kf1_sensitivity.png").stat().st_size > 1000
    with_it = judged(hopping("1m", 14.0, 7), "kf1", replace(CONFIGURATION, filter_model=str(model)))
    assert with_it.metrics["hopper"]["hops"]["hops"] == 7
    model.write_text('{"mine": 1}')
    said = refusal("train", "hopper", *bags, "--output", model, *words)
    assert "exists and is no model that may be replaced" in said
    assert model.read_text() == '{"mine": 1}'
    assert "is a folder; name a file in it" in refusal("train", "hopper", *bags, "--output", tmp_path, *words)


# ------------------------------------------------------------------------------------------------------ files of models


def test_round_trip_is_exact_and_the_packages_own_filters_are_all_there(tmp_path: Path) -> None:
    path, training = tmp_path / "model.json", {"hops": 12, "recordings": {"a": "0" * 64}}
    entries = filters_of("").entries
    assert set(entries) == set(TRAINED)
    FilterModel(entries, training).save(path)
    found = load_filters(path)
    assert list(found.entries) == list(entries)
    assert found.training == training
    for name, entry in entries.items():
        for one in fields(FilterEntry):
            np.testing.assert_array_equal(getattr(found.entries[name], one.name), getattr(entry, one.name))
    for name in ROBOT.estimators:
        found.entry(name)


def test_a_changed_file_is_read_anew_and_one_from_before_stance_times_too(tmp_path: Path) -> None:
    """A node and an evaluation take what is there when they start."""
    path = tmp_path / "model.json"
    plain_model().save(path)
    first = filters_of(str(path))
    assert filters_of(str(path)) is first
    content = json.loads(path.read_text())
    del content["estimators"]["kf1"]["parameters"]["stance_time_s"]
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match="not that of its checksum: it was damaged, or changed by hand"):
        load_filters(path)
    del content["checksum"]
    path.write_text(json.dumps(content))
    os.utime(path, ns=(1, 1))
    assert filters_of(str(path)).entries["kf1"].parameters[phases.STANCE_TIME] == 0.07


def test_estimators_without_parameters_of_their_own() -> None:
    model = plain_model()
    assert model.entry("kf3_kf1") is model.entries["kf1"]
    assert model.entry("ba1").height_scale.tolist() == [1.0] * 5
    only = FilterModel({"kf2": model.entries["kf2"]})
    with pytest.raises(UserError, match=r"no parameters of kf1, which kf3_kf1 needs; it has kf2 .*--form kf1"):
        only.entry("kf3_kf1")


Damage = Callable[[dict[str, Any]], Any]


def put(*path: str, value: Any) -> Damage:
    def change(content: dict[str, Any]) -> Any:
        place = content
        for key in path[:-1]:
            place = place[key]
        if value is None:
            del place[path[-1]]
        else:
            place[path[-1]] = value
        return content

    return change


KF1 = ("estimators", "kf1")
VELOCITY_FIT = (*KF1, "parameters", "velocity_fit_0")
DAMAGES: list[tuple[Damage | bytes, str]] = [
    (b'{"format": "hopper_filters", "vers', "not a model of the hopper, or damaged"),
    (b" " * 1_000_001, "has 1,000,001 bytes, more than the 1,000,000 that are read"),
    (put("format", value="salp"), "not a model of"),
    (put("estimators", value={}), "holds no estimators"),
    (put("estimators", "kf9", value={}), "kf9 are not known; known are bounce, kf1, kf2"),
    (put(*KF1, "parameters", "switching_g", value=None), "parameters: must have state_cutoff_hz"),
    (put(*KF1, "parameters", "phase_cutoff_hz", value=4000.0), "is 4000.0, must be a number between 5 and 400"),
    *(
        (put(*VELOCITY_FIT, value=one), "must be a number between -10 and 10")
        for one in ("fast", True, 10**400, float("nan"))
    ),
    (put(*KF1, "start_covariance", "height_velocity_m2_s", value=5.0), "is none"),
    (put(*KF1, "event_stddev_s", "apex", value=0.0), "event_stddev_s: apex is 0.0"),
]


@pytest.mark.parametrize(("damage", "said"), DAMAGES)
def test_damage_is_said_in_one_sentence(damage: Damage | bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    plain_model().save(path)
    content = {name: value for name, value in json.loads(path.read_text()).items() if name != "checksum"}
    changed = damage if isinstance(damage, bytes) else json.dumps(damage(content)).encode()
    path.write_bytes(changed)
    with pytest.raises(UserError) as raised:
        load_filters(path)
    sentence = str(raised.value)
    assert said in sentence, sentence
    assert sentence.startswith(f"model {path}")
    assert "\n" not in sentence
    assert len(sentence) < 500 + len(str(path))
