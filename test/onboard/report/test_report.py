"""Plots and report: self-contained, repeatable, safe with hostile names, and honest about what is missing."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import image
from matplotlib.colors import to_rgb
from numpy.typing import NDArray
from report_samples import (
    NO_BROWSER,
    Page,
    chain_points,
    chain_result,
    part_of,
    rendered,
    shortened,
    walk_result,
    with_nees,
    without_truth,
)
from scipy import stats

from onboard_estimation.base.measurement import Vector
from onboard_estimation.contract.picture import ellipse
from onboard_estimation.contract.result import Drawing, EvaluationResult, Picture, ReportSection
from onboard_estimation.report.charts import Chart, error_charts, thin, truth_centre, worst_window
from onboard_estimation.report.page import write_report
from onboard_estimation.report.plots import ESTIMATE, EVENTS, TRUTH, write_plots


@pytest.fixture(scope="module")
def chain() -> EvaluationResult:
    return chain_result()


@pytest.fixture(scope="module")
def walk() -> EvaluationResult:
    return walk_result()


@pytest.fixture(scope="module")
def written(chain: EvaluationResult, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chain's report and plots."""
    folder = tmp_path_factory.mktemp("written")
    settings = dict(matplotlib.rcParams)
    write_report(chain, folder)
    write_plots(chain, folder)
    assert dict(matplotlib.rcParams) == settings
    return folder


# The page


def policy_of(page: Page) -> str:
    return next(a["content"] or "" for tag, a in page.elements if tag == "meta" and "http-equiv" in a)


def test_page_loads_nothing_and_its_policy_allows_only_its_own_script(written: Path) -> None:
    page = Page(written / "report.html")
    for tag, attributes in page.elements:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form", "source", "video"), tag
        assert (attributes.get("href") or "#").startswith("#")  # on this page
        assert not {"src", "srcset", "data", "action", "style", "onclick", "onload"} & attributes.keys()
    addresses = set(re.findall(r"\bhttps?://[^\s\"'<>]+", page.source))
    assert addresses <= {"http://www.w3.org/2000/svg"}  # the name of SVG elements, never fetched
    assert "@import" not in page.source
    assert not re.search(r"url\((?!#)", page.source)
    policy = policy_of(page)
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    for code in (page.texts["script"][1], page.texts["style"][0]):
        digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert {path.name for path in written.iterdir()} == {"report.html", "plots"}


def test_embedded_numbers_are_those_of_the_result(chain: EvaluationResult, written: Path) -> None:
    data = Page(written / "report.html").data
    np.testing.assert_array_equal(data["time"], chain.time_s)
    scale = {"mm": 1000.0, "deg": 180.0 / np.pi}
    *errors, consistency = data["groups"]
    for group, nees, part in zip(errors, consistency["charts"], chain.parts.values(), strict=True):
        np.testing.assert_allclose(nees["lines"][0]["values"], part.nees, rtol=1e-5)
        np.testing.assert_allclose(nees["interval"], stats.chi2.interval(0.95, part.error.shape[1]))
        for index, chart in enumerate(group["charts"]):
            factor = scale[chart["unit"]]
            assert chart["label"] == part.names[index]
            np.testing.assert_allclose(chart["lines"][0]["values"], factor * part.error[:, index], rtol=1e-5)
            np.testing.assert_allclose(chart["band"], 3.0 * factor * part.stddev[:, index], rtol=1e-5)
    drawing, shown = chain.drawing, data["drawing"]
    assert drawing is not None
    count = len(chain.time_s)
    np.testing.assert_allclose(shown["estimate"], drawing.estimate.ravel(), rtol=1e-5)
    np.testing.assert_allclose(shown["truth"], drawing.truth.ravel(), rtol=1e-5)
    np.testing.assert_allclose(shown["ellipse"], drawing.ellipse.reshape(count, 4)[:, [0, 1, 3]].ravel(), rtol=1e-5)
    assert shown["points"] == drawing.estimate.shape[1]
    assert shown["axes"] == ["x (cm)", "y (cm)"]


def test_page_says_what_the_run_was(
    chain: EvaluationResult, walk: EvaluationResult, written: Path, tmp_path: Path
) -> None:
    page = Page(written / "report.html")
    sensors = next(table for table in page.texts["table"] if "mean NIS" in table)
    assert all(name in sensors for name in chain.sensors)
    expected = ("SIMULATED", "salp, ukf", "bags/forward", chain.verdict, chain.command, *chain.notes)
    expected += ("1200 estimates in 60 s, truth for 95.1 % of them", f"numpy {np.__version__}")
    expected += ("The worst five seconds: 40.05 s to 45.05 s, RMS of the normalised error of pose 1.85",)
    assert [words for words in expected if words not in page.source and words not in page.text] == []
    rows = {re.sub(r"\s+", " ", row).strip() for row in page.texts["tr"]}  # metrics of any nesting
    assert {"Matched ratio95%", "Coverage 3 sigma0.998, 0.95, 1", "Error mean-1.2mm"} <= rows
    assert {"Consistentyes", "Biasnot availabledeg/min"} <= rows
    assert page.texts["summary"][-4:] == ["Whole run", "Pose", "Pose / x", "Joint angles"]
    recorded = Page(write_report(walk, tmp_path))
    assert "RECORDED" in recorded.text
    assert "SIMULATED" not in recorded.text
    assert recorded.data["events"][0]["name"] == "contact"
    np.testing.assert_allclose(recorded.data["events"][0]["spans"], walk.events["contact"])


PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(60))
HOSTILE = (
    "</script><script>window.hacked=1</script>",
    '"><img src=x onerror="window.hacked=1">',
    "{{data}} {{nothing}}",
    r"$\frac{1}{0$ & $x$ <!-- \u2028",
    "bell\x07 escape\x1b[31m null\x00 \u2028",
)


def test_hostile_names_stay_text_beside_infinities(tmp_path: Path) -> None:
    name = " ".join(HOSTILE)
    result = shortened(chain_result(60), 40)
    part = replace(result.parts["pose"], name=name, names=(name,) * 3, units=("m", name, "rad"), convention=name)
    stddev, nees = part.stddev.copy(), part.nees.copy()
    stddev[5], stddev[6], nees[5] = 0.0, np.inf, np.inf
    part = replace(part, stddev=stddev, nees=nees)
    assert result.drawing is not None
    hostile = replace(
        result,
        robot=name,
        estimator=name,
        source=name,
        bag=name,
        parts={name: part},
        drawing=replace(result.drawing, axes=(name, name)),
        sensors={name: {"received": 3, name: 1.5}},
        metrics={name: name, "group": {name: [name]}, f"{name}_m": 1.0},
        verdict=f"consistent: {name} RMS",
        command=name,
        notes=(name,),
        events={name: np.array([[0.1, 0.5]])},
    )
    page = Page(write_report(hostile, tmp_path))
    harmless = Page(write_report(result, tmp_path))
    assert {tag for tag, _ in page.elements} == {tag for tag, _ in harmless.elements}
    assert [tag for tag, _ in page.elements].count("script") == 2
    assert page.texts["script"][1] == harmless.texts["script"][1]
    clean = "".join(character if character.isprintable() else "\ufffd" for character in name)
    assert page.texts["h1"] == [f"{clean}, {clean}"]
    assert page.texts["li"][-1] == clean
    assert page.data["groups"][0]["charts"][0]["label"] == clean
    assert np.isnan(page.data["groups"][-1]["charts"][0]["lines"][0]["values"][5])
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", page.source)
    paths = write_plots(hostile, tmp_path)
    assert all(path.parent == tmp_path / "plots" and not is_blank(path) for path in paths)
    section = ReportSection("Map", (), result.time_s, (), (Picture(PNG, name),))
    page = Page(write_report(replace(result, sections=(section,)), tmp_path))
    [picture] = [attributes for tag, attributes in page.elements if tag == "img"]
    assert picture == {"src": f"data:image/png;base64,{base64.b64encode(PNG).decode()}", "alt": clean}
    assert "img-src data:;" in policy_of(page)


def test_the_same_is_written_whatever_the_users_plot_settings(written: Path, tmp_path: Path) -> None:
    with matplotlib.rc_context({"lines.linewidth": 9.0, "savefig.dpi": 30, "axes.facecolor": "red"}):
        second = [write_report(chain_result(), tmp_path), *write_plots(chain_result(), tmp_path)]
    for path in second:
        assert path.read_bytes() == (written / path.relative_to(tmp_path)).read_bytes(), path.name
        assert str(tmp_path).encode() not in path.read_bytes()


def test_long_record_of_a_long_chain_stays_below_three_megabytes(tmp_path: Path) -> None:
    count, joints = 12_000, 99
    generator = np.random.default_rng(0)
    time_s = np.arange(count) / 20.0
    error = generator.standard_normal((count, joints))
    error[7777] = 9.0  # must survive the thinning
    names = tuple(f"alpha_{i}" for i in range(joints))
    part = part_of("joint_angles", names, ("rad",) * joints, np.zeros((count, joints)), error, np.ones((count, joints)))
    points = np.cumsum(generator.normal(0.1, 0.1, (count, joints + 2, 2)), axis=1)
    drawing = Drawing(points, points, np.tile(np.eye(2), (count, 1, 1)), points[:, 0])
    result = replace(chain_result(2), time_s=time_s, parts={"joint_angles": part}, drawing=drawing)
    path = write_report(result, tmp_path)
    assert path.stat().st_size < 3_000_000
    page = Page(path)
    assert len(page.data["time"]) <= 2000
    assert time_s[7777] in page.data["time"]
    assert len(page.data["groups"][0]["charts"]) == 8
    assert "the 8 of 99 dimensions with the largest error/sigma are shown" in page.text
    assert f"Shown: {len(page.data['time'])} of 12000 instants" in page.text


# What may be missing


def test_parts_without_truth_say_so(walk: EvaluationResult, tmp_path: Path) -> None:
    page = Page(write_report(walk, tmp_path))
    groups = {group["title"]: group for group in page.data["groups"]}
    assert list(groups)[:3] == ["Position: error", "Velocity: standard deviation", "Attitude: standard deviation"]
    velocity = groups["Velocity: standard deviation"]
    assert velocity["charts"][0]["note"] == "not known"
    assert np.isnan(velocity["charts"][0]["lines"][0]["values"]).all()
    assert page.data["worst"] is not None


def test_no_truth_at_all_says_so(chain: EvaluationResult, tmp_path: Path) -> None:
    assert chain.drawing is not None
    blind = replace(
        chain,
        parts={name: without_truth(part) for name, part in chain.parts.items()},
        drawing=replace(chain.drawing, truth=np.full_like(chain.drawing.truth, np.nan)),
        matched_ratio=0.0,
    )
    page = Page(write_report(blind, tmp_path))
    assert "no truth: errors are unknown" in page.text
    assert "the worst five seconds cannot be found" in page.text
    assert page.data["worst"] is None
    assert "worst-go" not in {attributes.get("id") for _, attributes in page.elements}
    short = shortened(blind, 1)  # a record of one estimate
    page = Page(write_report(short, tmp_path))
    np.testing.assert_array_equal(page.data["time"], short.time_s)
    paths = write_plots(short, tmp_path)
    assert len(paths) == len(short.parts) + 3
    assert not any(is_blank(path) for path in paths)


# Plots


def pixels(path: Path) -> NDArray[np.float64]:
    return np.asarray(image.imread(path), dtype=np.float64)[..., :3]


def is_blank(path: Path) -> bool:
    return bool(pixels(path).std() < 0.02)


def share_of_colour(path: Path, colour: str) -> float:
    distance = np.abs(pixels(path) - np.array(to_rgb(colour))).max(axis=-1)
    return float(np.mean(distance < 0.02))


def test_plots_show_what_they_are_named_for(written: Path, walk: EvaluationResult, tmp_path: Path) -> None:
    names = {path.name: path for path in (written / "plots").iterdir()}
    assert set(names) == {"errors_pose.png", "errors_joint_angles.png", "nees.png", "coverage.png", "path.png"}
    for path in names.values():
        assert not is_blank(path), path.name
        assert share_of_colour(path, ESTIMATE) > 1e-3, path.name
        assert share_of_colour(path, "white") > 0.3, path.name
    assert share_of_colour(names["path.png"], TRUTH) > 1e-3
    walked = {path.name: path for path in write_plots(walk, tmp_path / "walk")}
    assert share_of_colour(walked["errors_position.png"], EVENTS[0]) > 1e-3
    # A part without truth: the band is there, an error line is not (only its sample in the legend).
    assert share_of_colour(walked["errors_velocity.png"], ESTIMATE) < 3e-4


def test_ellipse_holds_95_percent() -> None:
    covariance = np.array([[4.0, 1.5], [1.5, 1.0]])
    centre = np.array([3.0, -2.0])
    outline = ellipse(centre, covariance) - centre
    square = np.einsum("ki,ij,kj->k", outline, np.linalg.inv(covariance), outline)
    np.testing.assert_allclose(square, stats.chi2.ppf(0.95, 2))


# What is chosen to be shown


def test_worst_window_against_all_windows() -> None:
    generator = np.random.default_rng(2)
    time_s = np.cumsum(generator.exponential(0.05, 400))
    nees = generator.chisquare(3, 400) * (1.0 + np.sin(time_s))
    nees[generator.random(400) < 0.3] = np.nan
    nees[100:160] = np.nan
    windows = [(time_s >= start) & (time_s <= start + 5.0) for start in time_s if start + 5.0 <= time_s[-1]]
    most = max(np.isfinite(nees[window]).sum() for window in windows)
    rms = max(
        np.sqrt(np.nanmean(nees[window]) / 3.0) for window in windows if np.isfinite(nees[window]).sum() >= 0.5 * most
    )
    found = worst_window(with_nees(time_s, nees))
    assert found is not None
    assert found.normalised_rms == pytest.approx(rms)
    inside = (time_s >= found.start_s) & (time_s <= found.end_s)
    assert np.sqrt(np.nanmean(nees[inside]) / 3.0) == pytest.approx(rms)


def test_worst_window_of_a_short_record_of_a_single_instant_with_truth_and_without_any() -> None:
    time_s = np.arange(1000) / 20.0
    nees = np.full(1000, 3.0)
    nees[300:800] = np.nan
    nees[500] = 1000.0  # the only truth for seconds: no window
    found = worst_window(with_nees(time_s, nees))
    assert found is not None
    assert found.normalised_rms == pytest.approx(1.0)
    found = worst_window(with_nees(time_s[:40], np.full(40, 12.0)))
    assert found is not None
    assert (found.start_s, found.end_s, found.normalised_rms) == pytest.approx((0.0, 1.95, 2.0))
    assert worst_window(with_nees(time_s[:40], np.full(40, np.nan))) is None


@settings(max_examples=40)
@given(count=st.integers(1, 400), limit=st.integers(3, 100), spike=st.integers(0, 399))
def test_thinning_keeps_the_worst_the_first_and_the_last(count: int, limit: int, spike: int) -> None:
    nees = np.ones(count)
    nees[spike % count] = 50.0
    chosen = thin(with_nees(np.arange(count) * 0.1, nees), limit)
    assert len(chosen) <= max(limit, 3)
    assert np.all(np.diff(chosen) > 0)
    assert {0, count - 1, spike % count} <= set(chosen.tolist())


def charts_of_errors(
    time_s: Vector,
    error: NDArray[np.float64],
    stddev: NDArray[np.float64],
    names: tuple[str, ...],
    units: tuple[str, ...],
) -> tuple[Chart, ...]:
    part = part_of("a", names, units, np.zeros_like(error), error, stddev)
    return error_charts(replace(chain_result(2), time_s=time_s, parts={"a": part}))[0].charts


def test_only_the_start_may_be_off_scale() -> None:
    time_s = np.arange(1000) / 10.0
    stddev = np.radians(0.1 + 10.0 * np.exp(-time_s))[:, None]
    error = 0.5 * stddev
    (start,) = charts_of_errors(time_s, error, stddev, ("a",), ("rad",))
    assert start.unit == "deg"
    assert start.high == -start.low < 1.0
    assert start.note == "first 7 s off scale: 3 sigma to 30, error to 5 deg"
    late = error.copy()
    late[900:] = np.radians(40.0)  # divergence at the end must be seen in full
    (end,) = charts_of_errors(time_s, late, stddev, ("a",), ("rad",))
    assert end.high > 40.0
    assert end.note == ""
    of_two_kinds = np.ones((1000, 3)) * np.array([1e-3, 0.6, 1e-3])
    shown = charts_of_errors(time_s, of_two_kinds, of_two_kinds, ("x", "y", "h"), ("m", "m", "rad"))
    assert [chart.unit for chart in shown] == ["cm", "cm", "deg"]  # those of a kind share their unit


def test_true_centre_of_points_fixed_to_links() -> None:
    """The base frame of the chain, a mean of points offset from the links, is found in the truth exactly."""
    generator = np.random.default_rng(4)
    pose, joints = generator.normal(0, 0.3, (200, 3)), generator.normal(0, 0.3, (200, 2))
    true_pose, true_joints = (
        pose + generator.normal(0, 0.05, pose.shape),
        joints + generator.normal(0, 0.1, joints.shape),
    )

    def mean_of_wheels(points: NDArray[np.float64]) -> NDArray[np.float64]:
        along = np.diff(points, axis=1) / 0.272
        across = np.stack((-along[..., 1], along[..., 0]), axis=-1)
        middles = 0.5 * (points[:, 1:] + points[:, :-1])
        return (middles + 0.014 * along + np.array([0.0091, -0.0107, 0.0091])[:, None] * across).mean(axis=1)

    estimate, truth = chain_points(pose, joints), chain_points(true_pose, true_joints)
    drawing = Drawing(estimate, truth, np.zeros((200, 2, 2)), mean_of_wheels(estimate))
    np.testing.assert_allclose(truth_centre(drawing), mean_of_wheels(truth), atol=1e-9)


# In a browser, where there is one


@NO_BROWSER
def test_controls_choose_the_time(chain: EvaluationResult, tmp_path: Path) -> None:
    """The address, the slider, the button to the worst seconds, a chart that is clicked, the space bar."""
    actions = """<script>
        const log = [], note = () => log.push(document.getElementById("now").textContent);
        note(); log.push(document.querySelector("main, body").textContent.match(/-?[0-9.]+ mm/g).join(" "));
        const slider = document.getElementById("time");
        slider.value = 12.5; slider.dispatchEvent(new Event("input")); note();
        document.getElementById("worst-go").click(); note();
        const chart = document.querySelector("#charts svg"), box = chart.getBoundingClientRect();
        chart.dispatchEvent(new PointerEvent("pointerdown", {clientX: box.right - 8, buttons: 1})); note();
        const space = () => document.body.dispatchEvent(new KeyboardEvent("keydown", {key: " ", bubbles: true}));
        space(); log.push(document.getElementById("play").textContent);
        space(); log.push(document.getElementById("play").textContent);
        document.title = log.join("; ");
    </script></body>"""
    path = write_report(chain, tmp_path)
    source = re.sub("<meta http-equiv[^>]*>", "", path.read_text()).replace("</body>", actions)
    path.write_text(source)
    page = rendered(path, "#t=41", tmp_path / "profile")
    title = re.search("<title>(.*?)</title>", page)
    assert title is not None
    times = [float(found) for found in re.findall(r"Error at ([\d.]+) s", title[1])]
    assert times == pytest.approx([41.0, 12.5, 40.05, 59.95], abs=0.06)
    assert f"{1000.0 * chain.parts['pose'].error[820, 1]:.1f} mm" in title[1]
    assert title[1].endswith("Pause; Play")
    assert page.count("<svg") == page.count('class="cursor"') == 7  # three and two errors, two NEES


@NO_BROWSER
def test_script_runs_with_one_estimate_and_hostile_names(chain: EvaluationResult, tmp_path: Path) -> None:
    single = shortened(chain, 1)
    part = replace(without_truth(single.parts["pose"]), name=HOSTILE[0], names=(HOSTILE[1],) * 3)
    hostile = replace(single, parts={"pose": part}, events={HOSTILE[1]: np.array([[0.0, 0.1]])})
    page = rendered(write_report(hostile, tmp_path), "", tmp_path / "profile")
    assert "Error at 0.00 s" in page
    assert page.count("<svg") == 3
    assert "<img" not in page
    assert page.count("<script") == 2
