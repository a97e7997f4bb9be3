"""Observability of the joint angles against differences of a dense model that shares no code with the project."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from evaluation_samples import CONFIGURATION, command, refusal, salp_messages, salp_recording, write
from matplotlib import image
from report_samples import Page
from scipy.integrate import solve_ivp
from scipy.stats import spearmanr
from test_chain import DenseChain, random_chain
from test_gait_design import equal_links

from onboard_estimation.base.series import Series
from onboard_estimation.contract.recorded import from_simulator
from onboard_estimation.contract.result import EvaluationResult, PartResult
from onboard_estimation.contract.robot import find_robot
from onboard_estimation.judging.judge import judge
from onboard_estimation.report.page import render
from salp_estimation.judging import observability


def derivative(dense: DenseChain, r: np.ndarray, joint: int) -> np.ndarray:
    """dH / d alpha_j (gyro, actuator) of the gyros' rates H u, by five-point differences."""
    step = np.zeros(len(r))
    step[joint] = 1e-3
    rates = [dense.motion(r + count * step)[1] for count in (-2, -1, 1, 2)]
    return (rates[0] - 8.0 * rates[1] + 8.0 * rates[2] - rates[3]) / 0.012


def trajectory(seed: int, n: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(scale=0.5, size=(count, n - 1)), rng.normal(scale=0.1, size=(count, n))


# Heuristic.


@pytest.mark.parametrize("n", [2, 4])
def test_lambda_and_its_shares_equal_derivatives_of_the_dense_model(n: int) -> None:
    for seed in range(1):
        dense = random_chain(seed, n)
        r, u = trajectory(10 + seed, n, 6)
        for joint in range(n - 1):
            total, shares = observability.heuristic(dense.build(), r, u, joint)
            for k in range(len(r)):
                columns = derivative(dense, r[k], joint) * u[k]
                gradient = columns.sum(axis=1)
                size = np.linalg.norm(gradient)
                scale = np.abs(columns).max()
                assert total[k] == pytest.approx(size, abs=1e-7 * scale)
                np.testing.assert_allclose(shares[k], gradient @ columns / size, rtol=0.0, atol=1e-7 * scale)


def test_nothing_commanded_is_nothing_seen_and_unknown_stays_unknown() -> None:
    chain = random_chain(9, 3).build()
    r, u = trajectory(10, 3, 3)
    u[0] = 0.0
    r[1, 0] = np.nan
    total, shares = observability.heuristic(chain, r, u, 0)
    assert total[0] == 0.0
    np.testing.assert_array_equal(shares[0], 0.0)
    assert np.isnan(total[1])
    assert np.isnan(shares[1]).all()
    assert total[2] > 0.0


# Gramian.


def smooth(time_s: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    joints, links = np.arange(n - 1), np.arange(n)
    r = 0.3 * np.sin(1.1 * time_s[:, None] + joints) + 0.1 * joints
    return r, 0.4 * np.cos(0.9 * time_s[:, None] + 2.0 * links)


def test_gramian_equals_its_integral_along_the_trajectory() -> None:
    """The paper's integral, with Phi and W integrated together by `solve_ivp` and the exact Jacobian.

    The windows start between two instants. Halving the interval leaves a quarter of the difference: second order.
    """
    n = 3
    dense = random_chain(15, n)
    end, window = 2.42, 0.5112

    def slope(t: float, y: np.ndarray) -> np.ndarray:
        transition = y[: (n - 1) ** 2].reshape(n - 1, n - 1)
        (r,), (u,) = smooth(np.array([t]), n)
        seen = np.stack([derivative(dense, r, joint) @ u for joint in range(n - 1)], axis=1)
        rate = np.diff(seen, axis=0) @ transition
        return np.concatenate([rate.ravel(), (transition.T @ seen.T @ seen @ transition).ravel()])

    start = np.concatenate([np.eye(n - 1).ravel(), np.zeros((n - 1) ** 2)])
    solution = solve_ivp(slope, (end - window, end), start, rtol=1e-6, atol=1e-9)
    exact = solution.y[(n - 1) ** 2 :, -1].reshape(n - 1, n - 1)
    errors = []
    for step in (0.005, 0.0025):
        time = np.arange(round(end / step) + 1) * step
        found = observability.gramians(dense.build(), time, *smooth(time, n), window)[-1]
        errors.append(np.abs(found - exact).max() / np.abs(exact).max())
    assert errors[1] < 1e-3
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.2)


def test_gramian_is_unknown_where_its_window_is_not_covered() -> None:
    chain = random_chain(17, 3).build()
    time = np.arange(0.0, 6.0001, 0.05)
    r, u = smooth(time, 3)
    kept = np.abs(time - 3.0) > 0.2  # a gap of 0.45 s
    known = np.isfinite(observability.smallest_eigenvalues(observability.gramians(chain, time, r, u, 1.0)))
    np.testing.assert_array_equal(known, time > 1.0 - 1e-6)
    gapped = observability.smallest_eigenvalues(observability.gramians(chain, time[kept], r[kept], u[kept], 1.0))
    crossing = (time[kept] > 3.0) & (time[kept] < 3.2 + 1.0 - 1e-6)
    np.testing.assert_array_equal(np.isfinite(gapped), (time[kept] > 1.0 - 1e-6) & ~crossing)
    r[60] = np.nan
    spoilt = observability.smallest_eigenvalues(observability.gramians(chain, time, r, u, 1.0))
    np.testing.assert_array_equal(np.isnan(spoilt[60:80]), True)
    assert np.isfinite(spoilt[82:]).all()
    np.testing.assert_array_equal(observability.gramians(chain, time, r * 0.0, u * 0.0, 1.0)[-1], 0.0)


# Relation to the filter, and commands.


def test_relation_finds_the_lag_and_equals_scipys_rank_correlation() -> None:
    rng = np.random.default_rng(18)
    time = np.arange(0.0, 60.0, 0.05)
    wave = np.convolve(rng.normal(size=len(time) + 40), np.hanning(21), mode="same")
    total, stddev = wave[40:], np.exp(-wave[28:-12])  # stddev at t is that of Lambda 0.6 s earlier
    found = observability.relation(time, total, stddev, settle_s=6.0)
    assert found.lag_s == pytest.approx(0.6)
    assert found.strongest == pytest.approx(-1.0, abs=1e-6)
    rows = time >= 6.0
    assert found.instants == rows.sum()
    assert found.at_once == pytest.approx(spearmanr(total[rows], stddev[rows]).statistic, abs=1e-9)
    still = observability.relation(time, np.zeros_like(total), stddev, 6.0)
    assert np.isnan(still.strongest)
    assert np.isnan(observability.relation(time, total, stddev, 59.5).strongest)


# Report, picture and command.


@pytest.fixture(scope="module")
def judged() -> tuple[EvaluationResult, Series]:
    robot = find_robot("salp")
    recording = from_simulator(salp_recording(), robot.truth_specification(CONFIGURATION).bodies)
    return judge(robot, CONFIGURATION, "ukf", recording, bag="forward"), recording.series[0]


def seen_in(result: EvaluationResult, commands: Series, truth: bool = True) -> observability.Observability:
    part = result.parts["joint_angles"]
    part = part if truth else replace(part, truth=np.full_like(part.truth, np.nan))
    return observability.observe(CONFIGURATION.chain, commands, result.stamps_ns, part, 6.0)


def test_report_has_the_panels_of_figure_8_for_each_joint(judged: tuple[EvaluationResult, Series]) -> None:
    result, commands = judged
    section = observability.section(CONFIGURATION.chain, seen_in(result, commands))
    page = render(replace(result, sections=(section,)))
    assert page.index("<h2>Errors over time") < page.index("<h2>Observability") < page.index("<h2>Sensors")
    ((joint_1, joint_2, gramian),) = Page(page).data["sections"]
    for group in (joint_1, joint_2):
        units = {panel["label"]: panel["unit"] for panel in group["charts"]}
        assert units == {"error and 3 sigma": "deg", "Lambda": "1/s", "lambda_i": "1/s", "commanded velocity": "m/s"}
        assert [len(panel["lines"]) for panel in group["charts"]] == [1, 1, 3, 3]
        assert all(np.isfinite(line["values"]).any() for panel in group["charts"] for line in panel["lines"])
    assert len(gramian["charts"][0]["lines"]) == 1
    assert "alpha_1: rank correlation of Lambda" in page
    assert "Evaluated at the true joint angles" in page


def test_long_chains_are_cut_and_that_is_said() -> None:
    configuration, stamps = equal_links(12), np.arange(200) * 50_000_000
    angles, speeds = smooth(stamps / 1e9, 12)
    nothing = 0.0 * angles
    part = PartResult(
        "joint_angles", (), (), angles, angles, nothing, 0.01 + nothing, nothing[:, 0], nothing[:, 0] == 0.0
    )
    channel = replace(salp_recording().sensors[0].channel, names=configuration.link_names)
    seen = observability.observe(configuration, Series(channel, stamps, speeds), stamps, part, 1.0)
    sentences = observability.section(configuration, seen).sentences
    assert "Shown: 8 of 11 joints." in sentences
    assert "Shown: the 8 of 12 actuators with the largest shares." in sentences
    totals = np.linalg.norm(observability.measurement_jacobian(configuration.build(), angles, seen.controls), axis=1)
    best_seen = set(np.argsort(np.median(totals, axis=0))[8:])
    assert best_seen.isdisjoint(one.joint for one in seen.joints)


def test_without_truth_the_estimate_is_taken_and_that_is_said(judged: tuple[EvaluationResult, Series]) -> None:
    result, commands = judged
    seen = seen_in(result, commands, truth=False)
    assert seen.true_share == 0.0
    assert any("estimated joint angles" in one for one in observability.section(CONFIGURATION.chain, seen).sentences)
    part = result.parts["joint_angles"]
    total, _ = observability.heuristic(CONFIGURATION.chain.build(), part.estimate, seen.controls, 0)
    np.testing.assert_array_equal(seen.joints[0].total, total)
    assert not np.array_equal(total, seen_in(result, commands).joints[0].total)


@pytest.fixture(scope="module")
def bag(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("observability") / "forward", salp_messages(6.0))


@pytest.mark.slow
def test_command_shows_bag_and_run_alike(bag: Path, tmp_path: Path) -> None:
    run, picture = tmp_path / "run", tmp_path / "figure.png"
    assert command("evaluate", bag, "--output", run).code == 0
    outcome = command("observability", bag, run, "--joint", "1", "--json", "--output", picture)
    assert outcome.code == 0, outcome.error
    first, second = json.loads(outcome.out)["runs"]
    assert image.imread(picture).shape[1] > 800
    for one in (first, second):
        assert [joint["joint"] for joint in one["joints"]] == ["alpha_1"]
        assert one["share_of_instants_with_truth"] > 0.95
        series = one["series"]
        assert len(series["time_s"]) == len(series["joints"]["alpha_1"]["lambda_per_s"]) > 110
        assert sum(one["joints"][0]["share_of_actuators"].values()) == pytest.approx(1.0)
    # A run's estimates are those that the same bag gives when it is replayed.
    for name in ("lambda_per_s", "error_deg"):
        values = [np.array(one["series"]["joints"]["alpha_1"][name], dtype=float) for one in (first, second)]
        np.testing.assert_allclose(values[0], values[1], rtol=0.0, atol=1e-9)


def test_command_refuses_with_a_way_out(bag: Path, tmp_path: Path) -> None:
    assert "these robots have: salp, thruster_chain" in refusal("observability", "strapdown", bag)
    assert "has 2 joint angles" in refusal("observability", "salp", bag, "--joint", "3")
    taken = tmp_path / "taken.png"
    taken.touch()
    assert "exists already" in refusal("observability", "salp", bag, "--output", taken)
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text("{}")
    assert "is not as `evaluate` writes it" in refusal("observability", "salp", run)
