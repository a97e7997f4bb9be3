"""Observability of the joint angles against a dense model differentiated by the complex step, which is exact.

The oracle shares no code with the project: Jacobians written out link by link, D^-1 D_u by `numpy.linalg.solve`.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evaluation_samples import CONFIGURATION, command, refusal, salp_messages, salp_recording, write
from matplotlib import image
from report_samples import NO_BROWSER, Page, rendered
from scipy.integrate import solve_ivp
from scipy.stats import spearmanr

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.series import Series
from onboard_estimation.contract.recorded import from_simulator
from onboard_estimation.contract.result import EvaluationResult, Panel, PanelGroup, PartResult, ReportSection
from onboard_estimation.contract.robot import find_robot
from onboard_estimation.judging.judge import judge
from onboard_estimation.report.page import render
from onboard_estimation.report.plots import write_groups, write_plots
from salp_estimation.judging import observability
from salp_estimation.model.chain import Chain
from salp_estimation.training.runs import in_force, rim_speeds


class DenseChain:
    """Gyros' rates per unit rim speed, for complex joint angles as well."""

    def __init__(self, seed: int, n: int) -> None:
        rng = np.random.default_rng(seed)
        self.n = n
        self.lengths = rng.uniform(0.1, 0.5, n)
        self.places = rng.normal(scale=0.05, size=(n, 2))
        self.angles = rng.uniform(-np.pi, np.pi, n)
        roots = rng.normal(size=(n, 3, 3)) * np.array([5.0, 5.0, 0.5])[:, None]
        self.drag = roots @ roots.swapaxes(1, 2) + np.diag([2.0, 2.0, 0.02])
        self.joint_drag = rng.uniform(0.0, 0.05, n - 1)

    def build(self, **limits: float) -> Chain:
        return Chain.build(self.lengths, self.places, self.angles, self.drag, self.joint_drag, **limits)

    def gyros(self, r: np.ndarray) -> np.ndarray:
        """H(r) (N, N) with h = H u. Unknowns: twist of link 1 about its rear end in its axes, and the joint rates."""
        n = self.n
        headings = np.concatenate([[0.0], np.cumsum(r)])
        steps = self.lengths[:, None] * np.stack([np.cos(headings), np.sin(headings)], axis=1)
        ends = np.concatenate([np.zeros((1, 2)), np.cumsum(steps, axis=0)])
        drag = np.zeros((n + 2, n + 2), dtype=r.dtype)
        thrust = np.zeros((n + 2, n), dtype=r.dtype)
        for i in range(n):
            c, s = np.cos(headings[i]), np.sin(headings[i])
            along = 0.5 * self.lengths[i] + self.places[i, 0]
            wheel = ends[i] + np.array([c * along - s * self.places[i, 1], s * along + c * self.places[i, 1]])
            jacobian = np.zeros((3, n + 2), dtype=r.dtype)
            jacobian[0, 0] = jacobian[1, 1] = jacobian[2, 2] = 1.0
            jacobian[:2, 2] = -wheel[1], wheel[0]
            for j in range(i):
                arm = wheel - ends[j + 1]
                jacobian[:, 3 + j] = -arm[1], arm[0], 1.0
            c, s = np.cos(headings[i] + self.angles[i]), np.sin(headings[i] + self.angles[i])
            jacobian = np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]]) @ jacobian
            drag += jacobian.T @ self.drag[i] @ jacobian
            thrust[:, i] = jacobian[0] * self.drag[i, 0, 0]
        drag[3:, 3:] += np.diag(self.joint_drag)
        # The wheel's thrust acts along its x axis with d_xx alone, eq. (4).
        motion = np.linalg.solve(drag, thrust)
        return np.cumsum(motion[2:], axis=0)

    def derivative(self, r: np.ndarray, joint: int) -> np.ndarray:
        """dH / d alpha_j (gyro, actuator), to rounding."""
        moved = r.astype(complex)
        moved[joint] += 1e-30j
        return self.gyros(moved).imag / 1e-30


def trajectory(seed: int, n: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(scale=0.5, size=(count, n - 1)), rng.normal(scale=0.1, size=(count, n))


# Heuristic.


def test_oracle_is_the_chain_itself() -> None:
    dense = DenseChain(1, 4)
    (r,), (u,) = trajectory(2, 4, 1)
    np.testing.assert_allclose(dense.build().gyro_rates(r, u), dense.gyros(r) @ u, rtol=1e-10)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_lambda_and_its_shares_equal_exact_derivatives_of_the_dense_model(n: int) -> None:
    for seed in range(2):
        dense = DenseChain(seed, n)
        r, u = trajectory(10 + seed, n, 6)
        for joint in range(n - 1):
            total, shares = observability.heuristic(dense.build(), r, u, joint)
            for k in range(len(r)):
                columns = dense.derivative(r[k], joint) * u[k]
                gradient = columns.sum(axis=1)
                size = np.linalg.norm(gradient)
                scale = np.abs(columns).max()
                assert total[k] == pytest.approx(size, abs=1e-7 * scale)
                np.testing.assert_allclose(shares[k], gradient @ columns / size, rtol=0.0, atol=1e-7 * scale)


def test_jacobian_equals_differences_with_another_step_and_formula() -> None:
    dense = DenseChain(3, 5)
    chain = dense.build()
    r, u = trajectory(4, 5, 5)
    found = observability.measurement_jacobian(chain, r, u)
    step = 1e-5
    for k in range(len(r)):
        for joint in range(4):
            change = step * np.eye(4)[joint]
            rates = chain.gyro_rates(np.stack([r[k] + change, r[k] - change]), u[k])
            difference = (rates[0] - rates[1]) / (2.0 * step)
            np.testing.assert_allclose(found[k, :, joint], difference, rtol=0.0, atol=1e-6 * np.abs(found[k]).max())
            exact = dense.derivative(r[k], joint) @ u[k]
            np.testing.assert_allclose(found[k, :, joint], exact, rtol=0.0, atol=1e-8 * np.abs(found[k]).max())


def test_shares_sum_to_lambda_which_is_the_root_of_the_diagonal_of_c_transpose_c() -> None:
    chain = DenseChain(5, 5).build()
    r, u = trajectory(6, 5, 40)
    squares = np.einsum("kgj,kgj->kj", *[observability.measurement_jacobian(chain, r, u)] * 2)
    for joint in range(4):
        total, shares = observability.heuristic(chain, r, u, joint)
        np.testing.assert_allclose(shares.sum(axis=1), total, rtol=1e-10)
        np.testing.assert_allclose(total, np.sqrt(squares[:, joint]), rtol=1e-8)


def test_lambda_grows_with_the_input_and_not_with_its_sign() -> None:
    chain = DenseChain(7, 3).build()
    r, u = trajectory(8, 3, 10)
    total, shares = observability.heuristic(chain, r, u, 1)
    for factor in (-1.0, 2.5):
        other, others = observability.heuristic(chain, r, factor * u, 1)
        np.testing.assert_allclose(other, abs(factor) * total, rtol=1e-12)
        np.testing.assert_allclose(others, abs(factor) * shares, rtol=1e-9, atol=1e-12)


def test_nothing_commanded_is_nothing_seen_and_unknown_stays_unknown() -> None:
    chain = DenseChain(9, 3).build()
    r, u = trajectory(10, 3, 3)
    u[0] = 0.0
    r[1, 0] = np.nan
    total, shares = observability.heuristic(chain, r, u, 0)
    assert total[0] == 0.0
    np.testing.assert_array_equal(shares[0], 0.0)
    assert np.isnan(total[1])
    assert np.isnan(shares[1]).all()
    assert total[2] > 0.0


def test_joint_limits_are_left_out() -> None:
    """At a limit the rates are no longer linear in the controls: the stencil must not cross from one to the other."""
    dense = DenseChain(11, 3)
    r, u = trajectory(12, 3, 4)
    limited = dense.build(joint_lower_rad=float(r[0, 0]), joint_upper_rad=float(r[0, 0]) + 0.1)
    np.testing.assert_array_equal(
        observability.heuristic(limited, r, u, 0)[0], observability.heuristic(dense.build(), r, u, 0)[0]
    )


def test_shapes_that_do_not_fit_are_refused() -> None:
    chain = DenseChain(13, 3).build()
    r, u = trajectory(14, 3, 5)
    for bad_r, bad_u, joint in ((r[:4], u, 0), (r[:, :1], u, 0), (r, u[:, :2], 0), (r, u, 2), (r, u, -1)):
        with pytest.raises(ValueError, match=r"expected|no joint"):
            observability.heuristic(chain, bad_r, bad_u, joint)
    with pytest.raises(ValueError, match="increasing"):
        observability.gramians(chain, np.zeros(5), r, u)
    with pytest.raises(ValueError, match="longer than zero"):
        observability.gramians(chain, np.arange(5), r, u, 0.0)


# Gramian.


def smooth(time_s: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    joints, links = np.arange(n - 1), np.arange(n)
    r = 0.3 * np.sin(1.1 * time_s[:, None] + joints) + 0.1 * joints
    return r, 0.4 * np.cos(0.9 * time_s[:, None] + 2.0 * links)


@pytest.mark.parametrize("n", [3, 5])
def test_gramian_equals_its_integral_along_the_trajectory(n: int) -> None:
    """The paper's integral, with Phi and W integrated together by `solve_ivp` and the exact Jacobian.

    The windows start between two instants. Halving the interval leaves a quarter of the difference: second order.
    """
    dense = DenseChain(15, n)
    end, window = 2.42, 1.0112

    def slope(t: float, y: np.ndarray) -> np.ndarray:
        transition = y[: (n - 1) ** 2].reshape(n - 1, n - 1)
        (r,), (u,) = smooth(np.array([t]), n)
        seen = np.stack([dense.derivative(r, joint) @ u for joint in range(n - 1)], axis=1)
        rate = np.diff(seen, axis=0) @ transition
        return np.concatenate([rate.ravel(), (transition.T @ seen.T @ seen @ transition).ravel()])

    start = np.concatenate([np.eye(n - 1).ravel(), np.zeros((n - 1) ** 2)])
    solution = solve_ivp(slope, (end - window, end), start, rtol=1e-7, atol=1e-10)
    exact = solution.y[(n - 1) ** 2 :, -1].reshape(n - 1, n - 1)
    errors = []
    for step in (0.005, 0.0025):
        time = np.arange(round(end / step) + 1) * step
        found = observability.gramians(dense.build(), time, *smooth(time, n), window)[-1]
        errors.append(np.abs(found - exact).max() / np.abs(exact).max())
    assert errors[1] < 1e-3
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.2)


def test_gramian_is_unknown_where_its_window_is_not_covered() -> None:
    chain = DenseChain(17, 3).build()
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


def test_command_in_force_is_the_last_one_until_then() -> None:
    chain = replace(CONFIGURATION.chain, wheel_radius_m=0.5, wheel_signs=(1.0, -1.0, 1.0))
    channel = salp_recording().sensors[0].channel
    values = np.array([[4.0, 4.0, 4.0], [2.0, 2.0, 2.0], [np.nan, 1.0, 1.0]])
    given = Series(channel, np.array([30, 10, 40]), values)  # out of order, one not finite
    found = in_force(*rim_speeds(chain, given), np.array([5, 10, 29, 30, 99]))
    np.testing.assert_array_equal(found[:, 0], [0.0, 1.0, 1.0, 2.0, 2.0])
    np.testing.assert_array_equal(found[:, 1], -found[:, 0])


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


def groups_of(page: str) -> list[dict[str, Any]]:
    """Groups of charts of the page's only section, as its script reads them."""
    (section,) = Page(page).data["sections"]
    return list(section)


def test_report_has_the_panels_of_figure_8_for_each_joint(judged: tuple[EvaluationResult, Series]) -> None:
    result, commands = judged
    section = observability.section(CONFIGURATION.chain, seen_in(result, commands))
    page = render(replace(result, sections=(section,)))
    assert page.index("<h2>Errors over time") < page.index("<h2>Observability") < page.index("<h2>Sensors")
    joint_1, joint_2, gramian = groups_of(page)
    for group in (joint_1, joint_2):
        units = {panel["label"]: panel["unit"] for panel in group["charts"]}
        assert units == {"error and 3 sigma": "deg", "Lambda": "1/s", "lambda_i": "1/s", "commanded velocity": "m/s"}
        assert [panel["band"] is not None for panel in group["charts"]] == [True, False, False, False]
        assert [len(panel["lines"]) for panel in group["charts"]] == [1, 1, 3, 3]
        assert all(np.isfinite(line["values"]).any() for panel in group["charts"] for line in panel["lines"])
    (panel,) = gramian["charts"]
    assert len(panel["lines"]) == 1
    for sentence in section.sentences:
        assert sentence.replace("'", "&#x27;") in page
    assert "alpha_1: rank correlation of Lambda" in page
    assert "Evaluated at the true joint angles" in page
    assert "style=" not in page.partition("<h2>Observability")[2].partition("<h2>Sensors")[0]  # the policy forbids it
    # Without a section the page is as it was.
    assert "Observability" not in render(result)


def test_lines_of_the_report_are_where_the_numbers_are(judged: tuple[EvaluationResult, Series]) -> None:
    time = np.linspace(0.0, 10.0, 11)
    values = np.array([0.0, 1.0, 2.0, np.nan, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0])
    group = PanelGroup("ramp", (Panel("height", "s", {"height": values}),))
    page = render(replace(judged[0], sections=(ReportSection("Ramp & <b>", ("One < two.",), time, (group,)),)))
    assert "<h2>Ramp &amp; &lt;b&gt;</h2>" in page
    assert "<li>One &lt; two.</li>" in page
    (group,) = groups_of(page)
    (panel,) = group["charts"]
    assert (group["title"], panel["label"], panel["unit"]) == ("ramp", "height", "s")
    np.testing.assert_array_equal(panel["lines"][0]["values"], values)  # with its gap
    np.testing.assert_array_equal(group["time"], time)
    assert (panel["low"], panel["high"]) == pytest.approx((-0.4, 10.4))


@NO_BROWSER
def test_lines_are_drawn_where_the_numbers_are(judged: tuple[EvaluationResult, Series], tmp_path: Path) -> None:
    time = np.linspace(0.0, 10.0, 11)
    values = np.where(time == 3.0, np.nan, time)
    group = PanelGroup("ramp", (Panel("height", "s", {"height": values}),))
    section = ReportSection("Ramp", (), time, (group,))
    result = replace(judged[0], parts={}, time_s=time, sections=(section,), drawing=None)
    (tmp_path / "page.html").write_text(render(result))
    page = rendered(tmp_path / "page.html", "", tmp_path / "profile")
    svg = ElementTree.fromstring(re.findall(r"<svg.*?</svg>", page, re.DOTALL)[-1].replace("&nbsp;", " "))
    (path,) = [one for one in svg.iter() if one.get("class") == "line series-0"]
    pens, xs, ys = zip(*re.findall(r"([ML])([-\d.]+) ([-\d.]+)", path.get("d") or ""), strict=True)
    assert "".join(pens) == "MLLMLLLLLL"
    known = np.isfinite(values)
    width = float((svg.get("viewBox") or "").split()[2])
    np.testing.assert_allclose(np.array(xs, dtype=float), 52.0 + (width - 60.0) * time[known] / 10.0, atol=0.051)
    slope, offset = np.polyfit(values[known], np.array(ys, dtype=float), 1)
    np.testing.assert_allclose(np.array(ys, dtype=float), offset + slope * values[known], atol=0.1)
    assert slope == pytest.approx(-124.0 / 10.8, rel=0.01)


def test_long_recordings_are_thinned_and_long_chains_are_cut_and_both_are_said(
    judged: tuple[EvaluationResult, Series],
) -> None:
    time = np.arange(200_000) / 100.0
    lines = {f"link_{i}": np.sin(time + i) for i in range(30)}
    groups = tuple(PanelGroup(f"alpha_{j}", (Panel("lambda_i", "1/s", lines),)) for j in range(8))
    page = render(replace(judged[0], sections=(ReportSection("Long", (), time, groups),)))
    assert "of 200000 instants" in page
    assert len(page) < 3_000_000
    chain = DenseChain(19, 12)
    names = tuple(f"link_{i + 1}" for i in range(12))
    ones = (1.0,) * 12
    configuration = replace(
        CONFIGURATION.chain,
        link_names=names,
        link_lengths_m=tuple(chain.lengths),
        wheel_signs=ones,
        wheel_x_m=tuple(chain.places[:, 0]),
        wheel_y_m=tuple(chain.places[:, 1]),
        wheel_angles_deg=tuple(np.rad2deg(chain.angles)),
        wheel_drag_xx=ones,
        wheel_drag_yy=ones,
        wheel_drag_tt=ones,
        joint_drag=(0.01,) * 11,
        joint_lower_deg=(-120.0,) * 11,
        joint_upper_deg=(120.0,) * 11,
    )
    stamps = np.arange(200) * 50_000_000
    angles, speeds = smooth(stamps / 1e9, 12)
    nothing = 0.0 * angles
    part = PartResult(
        "joint_angles", (), (), angles, angles, nothing, 0.01 + nothing, nothing[:, 0], nothing[:, 0] == 0.0
    )
    channel = replace(salp_recording().sensors[0].channel, names=names)
    seen = observability.observe(configuration, Series(channel, stamps, speeds), stamps, part, 1.0)
    section = observability.section(configuration, seen)
    assert "Shown: 8 of 11 joints." in section.sentences
    assert "Shown: the 8 of 12 actuators with the largest shares." in section.sentences
    assert "too little varies" in section.sentences[0]
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


def test_run_folders_plots_hold_the_section_and_are_the_same_each_time(
    judged: tuple[EvaluationResult, Series], tmp_path: Path
) -> None:
    result, commands = judged
    section = observability.section(CONFIGURATION.chain, seen_in(result, commands))
    bare = replace(result, parts={}, drawing=None, sections=(section,))
    files = [write_plots(bare, tmp_path / name) for name in ("a", "b")]
    one, other = (next(path for path in paths if path.name == "section_observability.png") for paths in files)
    assert one.read_bytes() == other.read_bytes()
    drawn = image.imread(one)
    assert drawn.shape[0] > 600
    assert drawn.shape[1] > 1200
    assert drawn.std() > 0.05
    with pytest.raises(UserError, match="cannot write"):
        write_groups(one / "below.png", "", [("", section.time_s, section.groups[0])])


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
    text = command("observability", "salp", bag)
    assert text.code == 0
    assert "alpha_2" in text.out
    assert "heuristic" in text.out
    assert max(map(len, text.out.partition("- ")[0].splitlines())) <= 100


def test_command_refuses_with_a_way_out(bag: Path, tmp_path: Path) -> None:
    assert "these robots have: salp, thruster_chain" in refusal("observability", "strapdown", bag)
    assert "has 2 joint angles" in refusal("observability", "salp", bag, "--joint", "3")
    assert "above 0 s" in refusal("observability", "salp", bag, "--window", "0")
    taken = tmp_path / "taken.png"
    taken.touch()
    assert "exists already" in refusal("observability", "salp", bag, "--output", taken)
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text("{}")
    assert "is not as `evaluate` writes it" in refusal("observability", "salp", run)
