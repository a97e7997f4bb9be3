"""The verdict on constructed results, and on simulated runs with a known fault."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from evaluation_samples import CONFIGURATION, salp_recording
from numpy.typing import NDArray
from salp_noise import IDEAL_NOISE
from scipy.signal import lfilter

from onboard_estimation.contract.recorded import from_simulator
from onboard_estimation.contract.result import PartResult
from onboard_estimation.filtering.consistency import nees
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.options import WhatIf
from onboard_estimation.judging.verdict import verdict
from onboard_estimation.judging.what_if import changed
from salp_estimation.robot import ROBOT as SALP

Rows = NDArray[np.float64]
TIMES = np.arange(0.0, 60.0, 0.05)
GOOD = {"used": 1200.0, "gated": 3.0, "mean_nis": 1.0, "mean_innovation_sigma": 0.01}


def correlated(rng: np.random.Generator, count: int, dimensions: int, memory_s: float) -> Rows:
    """Standard normal errors, correlated over that time (first-order Gauss-Markov), stationary from the start."""
    decay = np.exp(-0.05 / memory_s)
    white = rng.normal(size=(count, dimensions))
    white[1:] *= np.sqrt(1.0 - decay**2)
    out: Rows = lfilter([1.0], [1.0, -decay], white, axis=0)
    return out


def part(normalised: Rows, name: str = "joint_angles", stddev: float = 0.01) -> PartResult:
    d = normalised.shape[1]
    names = {3: ("x", "y", "heading"), 2: ("alpha_1", "alpha_2"), 1: ("scale",)}[d]
    units = {3: ("m", "m", "rad"), 2: ("rad", "rad"), 1: ("",)}[d]
    error = stddev * normalised
    squared, matched = np.sum(normalised**2, axis=1), np.isfinite(error).all(axis=1)
    return PartResult(name, names, units, error, 0.0 * error, error, np.full_like(error, stddev), squared, matched)


def say(
    *parts: PartResult,
    sensors: Mapping[str, Mapping[str, float]] | None = None,
    settle_s: float = 6.0,
    matched_ratio: float = 1.0,
    times: Rows = TIMES,
    stretches: Mapping[str, NDArray[np.bool_]] | None = None,
) -> str:
    named = {one.name: one for one in parts}
    return verdict(named, times, settle_s, sensors or {"imu/link_1": GOOD}, matched_ratio, stretches)


def test_a_consistent_filter() -> None:
    rng = np.random.default_rng(1)
    said = say(part(correlated(rng, len(TIMES), 3, 0.5), "pose"), part(correlated(rng, len(TIMES), 2, 0.5)))
    # Stated are 1 cm in x and y, 0.01 rad = 0.57 deg for each angle.
    found = re.fullmatch(
        r"consistent: pose within ([\d.]+) cm and ([\d.]+) deg RMS, joint angles within ([\d.]+) deg RMS", said
    )
    assert found is not None, said
    assert [float(number) for number in found.groups()] == pytest.approx([np.sqrt(2.0), 0.57, 0.57], rel=0.25)
    slow = np.cos(2.0 * np.pi * TIMES / 60.0 + np.array([[0.0], [1.0]])).T
    said = say(part(slow))
    assert re.match(r"undecided, for this run is worth [\d.]+ independent samples of joint angles, 5 are needed", said)


@pytest.mark.parametrize(("memory_s", "count"), [(5.0, 1200), (20.0, 1200), (0.05, 20)])
def test_an_exactly_consistent_filter_is_hardly_ever_accused(memory_s: float, count: int) -> None:
    """Twenty seeds, errors correlated over up to a third of the run, or one to three seconds only: at most two."""
    accused = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        parts = (part(correlated(rng, count, 3, memory_s), "pose"), part(correlated(rng, count, 2, memory_s)))
        accused += say(*parts, times=TIMES[:count], settle_s=6.0 if count > 60 else 0.0).startswith("overconfident")
    assert accused <= 2


@pytest.mark.parametrize("start_s", [20.0, 45.0])
def test_since_when_it_is_overconfident(start_s: float) -> None:
    normalised = correlated(np.random.default_rng(3), len(TIMES), 2, 0.2)
    normalised[:, 1] += np.where(np.greater_equal(TIMES, start_s), 8.0, 0.0)
    said = say(part(normalised))
    found = re.match(r"overconfident in alpha_2 \(joint angles\) by ([\d.]+) after (\d+) s", said)
    assert found is not None, said
    assert float(found[1]) == pytest.approx(np.sqrt(np.mean(normalised[TIMES >= 6.0, 1] ** 2)), rel=0.05)
    assert float(found[2]) == pytest.approx(start_s, abs=1.0)
    always = 5.0 * np.ones((len(TIMES), 2)) * np.sign(np.sin(7.0 * TIMES))[:, None]
    assert say(part(always)).startswith("overconfident in alpha_1 (joint angles) by 5:")  # from the start: no time


def test_what_lies_within_the_settling_time_does_not_count() -> None:
    normalised = correlated(np.random.default_rng(4), len(TIMES), 2, 0.5)
    normalised[TIMES < 6.0] = 50.0
    assert say(part(normalised)).startswith("consistent:")
    assert say(part(normalised), settle_s=0.0).startswith(("overconfident", "doubtful"))


def test_a_right_nees_with_a_wrong_coverage_is_not_consistent() -> None:
    """Errors of 1.2 sigma throughout: no factor to speak of, but none within one standard deviation."""
    signs = np.random.default_rng(12).choice([-1.0, 1.0], size=(len(TIMES), 1))
    doubt = "in height (0 % within 1 sigma, 68 expected)"
    assert say(part(1.2 * signs, "height")).startswith(f"overconfident {doubt}: height")
    assert say(part(0.9 * signs, "height")).startswith("consistent:")
    # A constant error is one sample, however long the run: chance may have made it.
    constant = say(part(np.full((len(TIMES), 1), 1.2), "height"))
    few = "this run is worth 1 independent sample, too few to prove it: height"
    assert constant.startswith(f"doubtful {doubt}; {few}")
    small, other = (
        part(np.full((len(TIMES), 1), 0.1), "height"),
        part(correlated(np.random.default_rng(17), 1200, 1, 0.05)),
    )
    assert say(small, other).startswith("too unsure in height (errors 0.1 of the stated ones), otherwise consistent:")
    doubtful = say(part(np.full((len(TIMES), 1), 1.2), "height"), replace(small, name="scale"))
    assert "; too unsure in scale (errors 0.1 of the stated ones): height within" in doubtful


def test_errors_beyond_three_sigma_too_often_are_not_consistent() -> None:
    """One in ten is a gross error; the others are small enough for the mean square to be right."""
    rng = np.random.default_rng(13)
    normalised = 0.5 * rng.normal(size=(len(TIMES), 1))
    normalised[rng.random(len(TIMES)) < 0.1] = 3.1
    said = say(part(normalised, "height"))
    assert said.startswith("overconfident in height (88.8 % within 3 sigma, 99.7 expected)"), said


def test_one_phase_that_is_too_sure_or_too_unsure_is_named() -> None:
    """A fifth of the run with errors of 2 sigma, the rest 0.8: on the whole consistent."""
    dropping = np.mod(TIMES, 1.0) < 0.2
    rng = np.random.default_rng(14)
    normalised = rng.normal(size=(len(TIMES), 1)) * np.where(dropping, 2.0, 0.8)[:, None]
    height = part(normalised, "height")
    assert say(height).startswith("consistent:")
    phases = {"while dropping": dropping, "while rebounding": ~dropping}
    assert say(height, stretches=phases).startswith("overconfident in height while dropping by 2")
    few = {"while dropping": dropping & (TIMES < 10.0)}  # sixteen estimates
    assert say(height, stretches=few).startswith("consistent:")
    # And one that is too unsure.
    rng = np.random.default_rng(15)
    unsure = part(rng.normal(size=(len(TIMES), 1)) * np.where(dropping, 0.1, 1.0)[:, None], "height")
    said = say(unsure, stretches=phases)
    assert said.startswith(
        "too unsure while dropping (errors at most 0.098 of the stated ones), otherwise consistent"
    ), said
    said = say(unsure, part(rng.normal(size=(len(TIMES), 1)), "velocity"), stretches=phases)
    assert said.startswith("too unsure in height while dropping (errors 0.098 of the stated ones), otherwise"), said


def correlated_pose(true_sign: float, stated_sign: float) -> PartResult:
    """x and y correlated by 0.9, heading by nothing; the filter states the correlation, or its opposite."""
    rng = np.random.default_rng(16)
    true, stated = (np.eye(3) for _ in range(2))
    true[0, 1] = true[1, 0] = 0.9 * true_sign
    stated[0, 1] = stated[1, 0] = 0.9 * stated_sign
    one = part(correlated(rng, len(TIMES), 3, 0.5) @ np.linalg.cholesky(true).T, "pose")
    covariance = np.broadcast_to(0.01**2 * stated, (len(TIMES), 3, 3))
    return replace(one, nees=nees(one.error, covariance), covariance=covariance)


def test_marginals_that_are_right_with_a_wrong_cross_covariance() -> None:
    """As a sign error in a Jacobian makes it: no dimension is accused, and the pair is named."""
    assert say(correlated_pose(1.0, 1.0)).startswith("consistent:")
    said = say(correlated_pose(1.0, -1.0))
    assert re.match(
        r"overconfident in pose taken together by [\d.]+, though not in any of it alone: "
        r"the cross-covariance of x and y is wrong, look at the Jacobians: pose within",
        said,
    ), said
    unknown = replace(correlated_pose(1.0, -1.0), covariance=None)
    assert "the cross-covariance between x, y, heading is wrong" in say(unknown)


def test_a_conservative_filter_and_one_of_which_a_part_is() -> None:
    normalised = 0.1 * correlated(np.random.default_rng(5), len(TIMES), 2, 0.5)
    unsure = part(normalised)
    assert say(unsure).startswith("conservative, errors are 0.098 of the stated ones: joint angles within 0.0")
    said = say(unsure, part(correlated(np.random.default_rng(6), len(TIMES), 3, 0.5), "pose"))
    assert re.match(r"too unsure in joint angles \(errors 0\.\d+ of the stated ones\), otherwise consistent: ", said), (
        said
    )


def test_without_truth() -> None:
    nothing = part(np.full((len(TIMES), 2), np.nan))
    assert say(nothing, matched_ratio=0.0) == "not judged: no estimate has a ground truth"
    assert say(matched_ratio=0.0) == "not judged: no estimate has a ground truth"
    loud = {"imu/link_2": {**GOOD, "mean_nis": 7.0}}
    assert say(nothing, sensors=loud).endswith("ground truth; imu/link_2 (mean NIS 7.0, expected 1)")


def test_a_truth_that_covers_a_part_is_said() -> None:
    normalised = correlated(np.random.default_rng(7), len(TIMES), 2, 0.5)
    normalised[TIMES > 24.0] = np.nan
    said = say(part(normalised), matched_ratio=0.4)
    assert said.startswith("consistent:")
    assert said.endswith("(truth covers 40 % of the run)")
    normalised[TIMES > 3.0] = np.nan  # all of it within the settling time
    assert say(part(normalised), matched_ratio=0.3).startswith("undecided")
    assert say(part(normalised), matched_ratio=0.05).startswith("not judged: truth covers 5 % of the run; 20 % of")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"mean_nis": 4.2}, "imu/link_2 (mean NIS 4.2, expected 1)"),
        ({"used": 900.0, "gated": 300.0}, "imu/link_2 (300 of 1200 refused)"),
        ({"mean_innovation_sigma": -0.8}, "the bias of imu/link_2 (mean innovation -0.80 sigma)"),
    ],
)
def test_the_conspicuous_sensor_is_the_suspect(row: dict[str, float], words: str) -> None:
    sensors = {"actuators/command": {"used": 1200.0, "gated": 0.0}, "imu/link_1": GOOD, "imu/link_2": {**GOOD, **row}}
    rng = np.random.default_rng(8)
    bad, good = part(4.0 * correlated(rng, len(TIMES), 2, 0.5)), part(correlated(rng, len(TIMES), 2, 0.5))
    assert f"; suspect {words}: joint angles within" in say(bad, sensors=sensors)
    assert say(good, sensors=sensors).startswith(f"consistent, but look at {words}:")
    assert "suspect" not in say(bad, sensors={"imu/link_1": GOOD})
    few = {"imu/link_2": {**GOOD, "used": 50.0, "gated": 0.0, "mean_innovation_sigma": 0.4}}
    assert "look at" not in say(good, sensors=few)


def test_lost_messages_come_before_what_follows_from_them() -> None:
    lost = {"received": 400.0, "used": 20.0, "gated": 0.0, "too_late": 380.0}
    refused = {**GOOD, "received": 400.0, "used": 200.0, "gated": 200.0}
    bad = part(3.0 * correlated(np.random.default_rng(9), len(TIMES), 2, 0.5))
    said = say(bad, sensors={"actuators/command": lost, "imu/link_1": refused})
    assert "; suspect actuators/command (380 of 400 messages lost):" in said


def test_what_is_stated_to_be_exact() -> None:
    exact = part(np.zeros((len(TIMES), 2)))
    exact.stddev[:, 0] = 0.0
    exact.nees[:] = np.nan  # a singular covariance has none
    assert say(exact).startswith("conservative")
    hinge = part(correlated(np.random.default_rng(18), len(TIMES), 2, 0.5))
    hinge.error[:, 0] = hinge.stddev[:, 0] = 0.0
    hinge.nees[:] = np.nan
    assert say(hinge).startswith("consistent:")
    wrong = part(np.full((len(TIMES), 2), 0.5))
    wrong.stddev[:, 0] = 0.0
    wrong.nees[:] = np.nan
    assert say(wrong).startswith("overconfident in alpha_1 (joint angles), which it states to be exact: joint angles")


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("link_3", r"overconfident in alpha_\d \(joint angles\) by .*; suspect .*imu/link_3 "),  # misleads the filter
        ("link_1", r".*(suspect|look at) (the bias of )?imu/link_1 "),  # the gate keeps it out
    ],
)
def test_a_biased_gyro_is_the_suspect(link: str, expected: str) -> None:
    """LandSalp, one gyro 0.03 rad/s (1.7 deg/s, six standard deviations of a sample) off."""
    recording = from_simulator(salp_recording(20.0, seed=5), CONFIGURATION.chain.link_names)
    said = judge(SALP, IDEAL_NOISE, "ukf", changed(recording, WhatIf(bias=(f"imu/{link}.gyro_z=0.03",)))).verdict
    assert re.match(expected, said), said
