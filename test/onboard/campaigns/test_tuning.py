"""`tune`: the score is a density, wrong noise is found again, and what is left out says whether it helped."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from evaluation_samples import command, refusal, salp_messages, write
from scipy.stats import multivariate_normal

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.installed import resource
from onboard_estimation.base.measurement import Channel, Estimate, Measurement
from onboard_estimation.base.workers import Finished
from onboard_estimation.campaigns.score import (
    OUTLIER_FACTOR,
    OUTLIER_SHARE,
    Score,
    Scored,
    _Listening,
    contaminated_normal,
    score,
)
from onboard_estimation.campaigns.tuning import LeftOut, Tuning, _Search, tunables, tune
from onboard_estimation.contract.robot import find_robot
from onboard_estimation.filtering.gating import OPEN, Innovation
from onboard_estimation.filtering.moments import Moments, predict, update
from onboard_estimation.filtering.state_space import StateSpace, vector
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.options import EvaluateOptions, TuningSettings
from onboard_estimation.judging.simulated_bags import SimulatedRun, simulated_source
from onboard_estimation.judging.sources import load_configuration
from onboard_estimation.pipeline.estimator import Estimator, Step
from onboard_estimation.pipeline.pipeline import Pipeline

OPTIONS = EvaluateOptions(robot="salp", estimator="ukf", config=resource("config/salp_ideal.yaml"))
RUNS = {f"run {seed}": SimulatedRun("salp", "ideal", "forward", 8.0, seed) for seed in range(3)}


# The score.

SPACE = StateSpace(vector("place", ("x",), "m"))
PLACE = Channel("beacon/point", "geometry_msgs/msg/PointStamped", "beacon")
START, WALK, NOISE = 0.7**2, 0.3**2, 0.2**2


class WalkState(NamedTuple):
    moments: Moments
    stamp_ns: int | None = None


class Walk(Estimator[WalkState]):
    """A random walk that is measured."""

    space = SPACE

    def start(self, initial: Estimate | None) -> WalkState:
        return WalkState(Moments(np.zeros(1), np.array([[START]])))

    def step(self, state: WalkState, measurement: Measurement) -> Step:
        step_s = 0.0 if state.stamp_ns is None else (measurement.stamp_ns - state.stamp_ns) * 1e-9
        moments = predict(state.moments, state.moments.mean, np.eye(1), np.array([[WALK * step_s]]))
        difference = measurement.value[:1] - moments.mean
        moments, seen, _ = update(SPACE, moments, difference, np.eye(1), np.array([[NOISE]]), OPEN, 0)
        return Step(WalkState(moments, measurement.stamp_ns), Estimate(measurement.stamp_ns, *moments), seen)


def test_innovations_multiply_to_the_density_of_all_measurements() -> None:
    """Of a linear Gaussian robot, whose measurements have a joint density without any filter. One comes late."""
    rng = np.random.default_rng(3)
    time_s = np.cumsum(rng.uniform(0.01, 0.2, 40))
    values = np.cumsum(rng.normal(0.0, 0.1, 40))
    heard: dict[tuple[str, int], Innovation] = {}
    pipeline = Pipeline(_Listening(Walk(), heard), (PLACE,), lag_s=1.0)
    stamps = np.round(time_s * 1e9).astype(np.int64)
    order = [*range(20), 22, 21, 20, *range(23, 40)]
    pipeline.run(Measurement(int(stamps[k]), "beacon", np.array([values[k], 0.0, 0.0])) for k in order)
    assert len(heard) == 40
    total = sum(multivariate_normal.logpdf(one.value, np.zeros(1), one.covariance) for one in heard.values())
    exact_s = (stamps - stamps[0]) * 1e-9
    joint = START + WALK * np.minimum.outer(exact_s, exact_s) + NOISE * np.eye(40)
    assert total == pytest.approx(multivariate_normal.logpdf(values, np.zeros(40), joint), abs=1e-9)


@pytest.mark.parametrize("size", [0.0, 30.0])
def test_the_density_of_an_innovation_is_a_mixture(size: float) -> None:
    covariance = np.array([[2.0, 0.3], [0.3, 0.5]])
    value = size * np.array([0.4, -0.2])
    root = np.linalg.cholesky(covariance)
    innovation = Innovation(value, root, float(value @ np.linalg.solve(covariance, value)), False)
    usual, far = (multivariate_normal.logpdf(value, np.zeros(2), k**2 * covariance) for k in (1.0, OUTLIER_FACTOR))
    expected = -np.logaddexp(math.log(1.0 - OUTLIER_SHARE) + usual, math.log(OUTLIER_SHARE) + far)
    assert contaminated_normal(innovation) == pytest.approx(expected, rel=1e-12)


def test_the_score_by_truth_is_the_density_of_the_errors() -> None:
    run = RUNS["run 1"]
    found = score(Scored(run, OPTIONS, {}, "truth"))
    source = simulated_source(run, OPTIONS)
    result = judge(source.robot, source.configuration, "ukf", source.recording, source.options.settings)
    settled = result.time_s >= 6.0
    total = 0.0
    for part in result.parts.values():
        assert part.covariance is not None
        pairs = zip(part.error[settled], part.covariance[settled], strict=True)
        total -= np.mean([multivariate_normal.logpdf(e, np.zeros(len(e)), p) for e, p in pairs])
    assert found.value == pytest.approx(total / 5, rel=1e-9)
    assert found.dimensions == 5
    assert found.nees["joint_angles"] == result.metrics["joint_angles"]["mean_nees_per_degree_of_freedom"]
    assert found.rmse["joint_angles.rmse_deg"] == result.metrics["joint_angles"]["rmse_deg"]


def test_to_refuse_everything_is_no_way_to_a_good_score() -> None:
    """Noise a thousand times too small: the gate refuses all, and each refusal counts."""
    right, small, large = (
        score(Scored(RUNS["run 0"], OPTIONS, {"gyro.noise_stddev_rad_s": noise}, "innovations"))
        for noise in (0.005, 5e-6, 0.5)
    )
    assert right.dimensions == small.dimensions == large.dimensions
    assert right.value < large.value < small.value


def test_it_says_where_there_is_nothing_to_score(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"hopper \(bounce\) gives no innovations: tune it --by truth"):
        score(Scored(SimulatedRun("hopper", duration_s=1.0), EvaluateOptions(robot="hopper"), {}, "innovations"))
    samples = [one for one in salp_messages(1.0) if "ground_truth" not in one.topic]
    bag = write(tmp_path / "bag", samples)
    with pytest.raises(UserError, match="bag has no ground truth to tune by: --by innovations does without"):
        score(Scored(bag, OPTIONS, {}, "truth"))
    assert score(Scored(bag, OPTIONS, {}, "innovations")).nees == {}


# What is tuned.


def test_parameters_of_noise_are_found_by_their_names_with_bounds() -> None:
    for name in ("salp", "hopper", "thruster_chain", "two_link"):
        found = tunables(load_configuration(find_robot(name), EvaluateOptions()))
        assert found, name
        # What judges, or is drawn from when a run is judged, is not among them.
        assert not [one for one in found if "truth" in one.name or one.name.startswith("initial.")]
        assert all(one.low < one.high for one in found)
    pendulum = load_configuration(find_robot("pendulum"), EvaluateOptions())
    [walk, angle] = tunables(pendulum, {"noise.rate_walk_rad_s_sqrt_s": None, "noise.angle_stddev_rad": (0.5, 2.0)})
    assert (walk.start, walk.low, walk.high, walk.scale) == (1.0, pytest.approx(1.0 / 30.0), 30.0, "log")
    assert walk.changed(2.0) == [2.0 * one for one in pendulum.noise.rate_walk_rad_s_sqrt_s]
    assert (angle.low, angle.high) == (0.5, 2.0)
    salp = load_configuration(find_robot("salp"), EvaluateOptions())
    [probability] = tunables(salp, {"gate_probability": None})
    assert probability.high == 1.0  # no further than what is allowed
    [signed] = tunables(salp, {"chain.wheel_radius_m": (0.04, 0.05)})
    assert (signed.low, signed.high) == (0.04, 0.05)


# The search.


def test_a_parameter_that_changes_no_score_is_named() -> None:
    indifferent = tunables(load_configuration(find_robot("salp"), OPTIONS), {"gyro.range_rad_s": (30.0, 40.0)})
    with pytest.raises(UserError, match=r"none of these parameters changes the score .*: gyro\.range_rad_s"):
        tune(RUNS, OPTIONS, indifferent, TuningSettings("innovations"), Formula(lambda _: Score(1.0, 100, {}, {})))


def test_it_says_whether_it_helped() -> None:
    def left_out(*pairs: tuple[float, float]) -> Tuning:
        runs = tuple(
            LeftOut(str(n), Score(before, 1, {}, {}), Score(after, 1, {}, {}))
            for n, (before, after) in enumerate(pairs)
        )
        return Tuning(TuningSettings(), (), {}, (), (), {}, {}, runs, 1)

    assert left_out((2.0, 1.0), (2.0, 1.5), (2.0, 2.1)).helped is True
    assert left_out((2.0, 1.0), (2.0, 2.5), (2.0, 2.1)).helped is False
    assert left_out((2.0, 1.9), (2.0, 1.9), (2.0, 9.0)).helped is False  # worse in the mean
    assert left_out().helped is None
    lost = replace(
        left_out(), after={"good": Score(1.0, 1, {"pose": 1.1}, {}), "lost": Score(9.0, 1, {"pose": 99.0}, {})}
    )
    assert "No noise explains the errors on lost (NEES beyond 30)" in " ".join(lost.sentences())
    assert "It does NOT help" in left_out((1.0, 2.0)).sentences()[-1]
    assert "is not known" in left_out().sentences()[-1]


# The command.


@pytest.fixture(scope="module")
def bags(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("bags")
    return [write(folder / f"bag_{seed}", salp_messages(8.0, seed=seed)) for seed in (1, 2)]


def tuned(bags: list[Path], *words: Any) -> Any:
    fixed = ("--config", resource("config/salp_ideal.yaml"), "--workers", "0", "--folds", "2", "--evaluations", "20")
    return command("tune", "salp", *bags, *fixed, *words)


@pytest.mark.slow
def test_noise_ten_times_too_large_is_found_again_and_the_file_says_how(bags: list[Path], tmp_path: Path) -> None:
    """By innovations alone. The gyro's true noise is 5 mrad/s; each run's own sample is good to some per cent."""
    file = tmp_path / "tuned.yaml"
    words = ("--set", "gyro.noise_stddev_rad_s=0.05", "--parameter", "gyro.noise_stddev_rad_s", "--by", "innovations")
    done = tuned(bags, *words, "--output", file, "--json")
    assert done.code == 0, done.error
    found = json.loads(done.out)
    value = found["parameters"]["gyro.noise_stddev_rad_s"]
    assert (value["before"], value["unit"]) == (0.05, "rad/s")
    assert value["after"] == pytest.approx(0.005, rel=0.1)
    assert [one["name"] for one in found["left_out"]] == ["bag_1", "bag_2"]
    assert found["helped"] is True
    text = file.read_text()
    assert all(line.startswith("#") for line in text.partition("/**:")[0].splitlines())
    for said in ("# Tuned on", "It helps", "bag bag_1: sha256", "left out bag_2", "numpy", "0.05 before"):
        assert said in text
    loaded: Any = load_configuration(find_robot("salp"), EvaluateOptions(config=file))
    assert loaded.gyro.noise_stddev_rad_s == value["after"]
    before = file.read_bytes()
    assert "exists already" in refusal("tune", "salp", *bags, "--output", file)
    assert file.read_bytes() == before
    short = [write(tmp_path / f"short_{seed}", salp_messages(1.5, seed=seed)) for seed in (1, 2)]
    shown = tuned(short, "--parameter", "gyro.noise_stddev_rad_s", "--output", tmp_path / "t.yaml")
    assert "On bags that were left out" in shown.out
    assert sum("Joint angles:" in line for line in shown.out.splitlines()) == 2 * 2  # of each bag NEES and error
    assert f"evaluate BAG --config {tmp_path / 't.yaml'}" in shown.out
    assert max(len(line) for line in shown.out.splitlines() if "RMSE" in line) <= 100


class Formula:
    """Workers whose scores are those of a formula of one parameter, or whose every task ends with an error."""

    count, about = 1, "nobody"

    def __init__(self, of: Callable[[float], Score] | Exception) -> None:
        self._of = of

    def results(self, function: Any, tasks: Sequence[Scored]) -> Iterator[Finished]:
        for number, task in enumerate(tasks):
            if isinstance(self._of, Exception):
                yield Finished(number, None, self._of)
            else:
                yield Finished(number, self._of(task.changes.get("gyro.noise_stddev_rad_s", 0.005)))

    def everywhere(self, function: Any, *arguments: Any) -> dict[str, Any]:
        return {}


def test_a_candidate_that_a_filter_cannot_take_has_no_score_and_a_fault_of_ours_is_raised() -> None:
    chosen = tuple(tunables(load_configuration(find_robot("salp"), OPTIONS), {"gyro.noise_stddev_rad_s": None}))
    candidates = np.array([[0.005], [0.01]])

    def scores(error: Exception) -> Any:
        return _Search(RUNS, OPTIONS, TuningSettings(), chosen, Formula(error)).scores(candidates, ["run 0"])

    for error in (UserError("no estimate"), np.linalg.LinAlgError("not positive"), ZeroDivisionError()):
        assert scores(error) == [[None], [None]]
    with pytest.raises(KeyError):
        scores(KeyError("ours"))


@pytest.mark.parametrize(
    ("least", "kept", "expected", "at_bounds"),
    [
        (0.02, 0.0, 0.02, ()),
        (0.2, 0.0, 0.05, ("gyro.noise_stddev_rad_s",)),  # no further than was allowed
        (0.003, 0.004, 0.004, ()),  # smaller noise scores better, but its filter makes fewer updates
    ],
)
def test_the_least_score_of_what_compares(
    least: float, kept: float, expected: float, at_bounds: tuple[str, ...]
) -> None:
    def of(noise: float) -> Score:
        return Score(math.log(noise / least) ** 2, 100 if noise >= kept else 90, {}, {})

    chosen = tunables(load_configuration(find_robot("salp"), OPTIONS), {"gyro.noise_stddev_rad_s": (0.0005, 0.05)})
    settings = TuningSettings("innovations", evaluations=120, folds=0)
    found = tune(RUNS, OPTIONS, chosen, settings, Formula(of))
    assert found.values["gyro.noise_stddev_rad_s"] == pytest.approx(expected, rel=0.1)
    assert found.values["gyro.noise_stddev_rad_s"] >= kept
    assert found.at_bounds == at_bounds
    said = "At a bound of what was searched: gyro.noise_stddev_rad_s; widen it with --parameter."
    assert (said in found.sentences()) == bool(at_bounds)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--parameter", "gyro.nois_stddev_rad_s"), "no such number; the nearest are gyro.noise_stddev_rad_s"),
        (("--parameter", "gyro.axis"), "--parameter gyro.axis: no such number"),
        *(
            (("--parameter", f"lag_s={of}"), "write NAME=LOW..HIGH with LOW below HIGH")
            for of in ("1", "2..1", "0..inf")
        ),
        (("--parameter", "gyro.noise_stddev_rad_s=1..2"), "it is 0.005, which is outside of 1..2"),
        (("--parameter", "chain.joint_lower_deg"), "the elements of a list share a factor"),
        (("--parameter", "lag_s", "--parameter", "lag_s"), "--parameter lag_s is given twice"),
        (("--evaluations", "1"), "--evaluations"),
        (("gone",), "not there: gone"),
    ],
)
def test_what_cannot_be_tuned(words: tuple[str, ...], said: str, bags: list[Path], tmp_path: Path) -> None:
    assert said in refusal("tune", "salp", *bags, *words, "--output", tmp_path / "t.yaml")
    assert not (tmp_path / "t.yaml").exists()
    assert "a bag is given twice" in refusal("tune", "salp", bags[0], bags[0], "--output", tmp_path / "t.yaml")
