"""The report as it is used: first screen, what is folded away, colours that can be read, zoom, frames of any width."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from report_samples import NO_BROWSER, Page, chain_result, part_of, rendered, shortened, walk_result, without_truth

from onboard_estimation.contract.result import (
    COUNT,
    Drawing,
    EvaluationResult,
    KeyFigure,
    Panel,
    PanelGroup,
    Phases,
    ReportSection,
    key_figures,
)
from onboard_estimation.judging.metrics import all_metrics
from onboard_estimation.judging.verdict import verdict
from onboard_estimation.report.page import render, write_report
from onboard_estimation.report.plots import motion_figure, write_plots

TEMPLATES = Path(__file__).parents[3] / "onboard_estimation" / "report" / "assets"


def hopping_result(count: int = 4000) -> EvaluationResult:
    """Four hops of two seconds, drawn over time, with phases and a section that repeats one of the notes."""
    time_s = np.linspace(0.0, 8.0, count)
    height = 0.3 + 2.0 * np.abs(np.sin(0.5 * np.pi * time_s))
    error = np.full((count, 1), 0.05)
    part = part_of("height", ("z",), ("m",), height[:, None] - error, error, 2.0 * error)
    points = np.stack([np.column_stack([time_s, height - 0.3]), np.column_stack([time_s, height])], axis=1)
    ellipse = np.zeros((count, 2, 2))
    ellipse[:, 1, 1] = 0.01
    spans = {"stance": np.array([[t - 0.1, t + 0.1] for t in (2.0, 4.0, 6.0)])}
    spans["flight"] = np.array([[t + 0.1, t + 1.9] for t in (0.0, 2.0, 4.0, 6.0)])
    said = "4 hops, all seen."
    group = PanelGroup("Readings", (Panel("readings", "m/s^2", {"low-g": np.sin(time_s), "high-g": np.cos(time_s)}),))
    return replace(
        chain_result(2),
        robot="hopper",
        time_s=time_s,
        parts={"height": part},
        metrics={"height": {"z_rmse_m": 0.05, "coverage_1_sigma": 1.0, "coverage_3_sigma": 1.0}},
        drawing=Drawing(
            points, points - [0.0, 0.05], ellipse, points[:, 1], ("time (s)", "height (m)"), over_time=True
        ),
        phases=Phases(spans, "hop", np.array([[1.0, 3.0], [3.0, 5.0], [5.0, 7.0]])),
        notes=(said, "Low-g sensor clipped."),
        sections=(ReportSection("Hops", (said,), time_s, (group,)),),
    )


# The first screen


def test_first_come_verdict_figures_and_picture(tmp_path: Path) -> None:
    result = chain_result()
    page = Page(write_report(result, tmp_path))
    order = [tag if "id" not in attributes else f"#{attributes['id']}" for tag, attributes in page.elements]
    assert order.index("dl") < order.index("#scene") < order.index("#charts") < order.index("#time")
    assert order.index("dl") < order.index("table") < order.index("#charts")  # the read-out beside the picture
    assert page.source.index(result.verdict) < page.source.index("<dl")
    assert len(page.texts["dt"]) == len(page.texts["dd"]) == 5
    folded = [attributes for tag, attributes in page.elements if tag == "details"]
    assert len(folded) == 5  # all tables but the read-out
    assert not any("open" in attributes for attributes in folded)
    tables = sum(tag == "table" for tag, _ in page.elements)
    assert sum(text.count("metric") > 0 or "sensor" in text for text in page.texts["details"]) == tables - 1


@pytest.mark.parametrize("kind", ["whole", "no truth", "bare", "one estimate"])
def test_there_are_five_figures_whatever_is_missing(kind: str) -> None:
    result = chain_result(100)
    if kind == "no truth":
        parts = {name: without_truth(part) for name, part in result.parts.items()}
        result = replace(result, parts=parts, metrics={}, matched_ratio=0.0)
    elif kind == "bare":
        result = replace(result, parts={}, sensors={}, metrics={}, drawing=None)
    elif kind == "one estimate":
        result = shortened(result, 1)
    figures = key_figures(result)
    assert len(figures) == COUNT == 5
    assert len({figure.label for figure in figures}) == 5
    assert all(figure.label and figure.value and "_" not in figure.label for figure in figures)
    assert "nan" not in " ".join(figure.value for figure in figures)


def test_figures_are_those_of_the_metrics_in_words_and_units() -> None:
    def part(within_1: float, within_3: float, nees: float, **errors: float) -> dict[str, float]:
        consistency = {"coverage_1_sigma": within_1, "coverage_3_sigma": within_3}
        return {**errors, **consistency, "mean_nees_per_degree_of_freedom": nees}

    metrics = {
        "pose": part(0.9, 1.0, 0.15, position_ate_rmse_m=0.00843, heading_rmse_deg=3.182),
        "joint_angles": part(0.4, 0.987, 2.5, rmse_deg=0.0566),
    }
    figures = key_figures(replace(chain_result(10), metrics=metrics))
    assert [(one.label, one.value) for one in figures] == [
        ("Position error", "8.43 mm"),
        ("Heading error", "3.18 deg"),
        ("Joint angles: error", "0.0566 deg"),
        ("Errors within 1 / 3 sigma", "40 / 98.7 %"),  # of the worst part
        ("Squared error / claimed", "2.5"),
    ]
    own = KeyFigure("Apex height: error", "12.9 %", "mean of all hops")
    assert key_figures(replace(chain_result(10), figures=(own,)))[0] == own
    velocity = replace(walk_result(10), metrics={"velocity": {"rmse_m_per_s": 3.464}})
    assert key_figures(velocity)[0] == KeyFigure("Velocity: error", "3.46 m/s", "RMS")


@pytest.mark.parametrize("size", [0.2, 1.0, 40.0, 300.0])
def test_one_quantity_has_one_value_and_one_unit(size: float) -> None:
    """In the verdict, the figures, the tables, the axes and what explains the verdict, whatever its size."""
    walk = walk_result()
    parts = {}
    for name, one in {**walk.parts, **chain_result().parts}.items():
        known = replace(walk.parts["position"], name=name, names=one.names, units=one.units, convention="")
        d = len(one.names)
        error, stddev = size * known.error[:, [0] * d], size * known.stddev[:, [0] * d]
        estimate = np.zeros((len(error), 4)) if name == "attitude" else error
        truth = np.zeros_like(estimate)
        if name == "attitude":
            truth[:, 3] = estimate[:, 3] = 1.0
        parts[name] = replace(known, estimate=estimate, truth=truth, error=error, stddev=stddev)
    metrics = all_metrics(parts, walk.time_s, 6.0, walk.matched_ratio)
    said = verdict(parts, walk.time_s, 6.0, {}, walk.matched_ratio)
    page = Page(render(replace(walk, parts=parts, metrics=metrics, verdict=said)))
    told = dict(re.findall(r"(\w[\w ]*) within ([\d.]+ [\w/]+(?: and [\d.]+ deg)?) RMS", said))
    assert told.keys() == {"position", "velocity", "attitude", "pose", "joint angles"}
    rows = " ".join(re.sub(r"\s+", " ", row) for row in page.texts["tr"])
    units = {one["title"].partition(":")[0].lower(): one["charts"][0]["unit"] for one in page.data["groups"]}
    for name, shown in told.items():
        value, unit = shown.split(" and ")[0].split()
        assert re.search(rf"RMSE ?{re.escape(value)} ?{unit}\b", rows), (name, shown, rows)
        assert units[name] == unit
    figures = " ".join(one.value for one in key_figures(replace(walk, parts=parts, metrics=metrics)))
    assert told["position"] in figures
    assert told["velocity"] in figures
    assert "#errors" in {attributes.get("href") for tag, attributes in page.elements if tag == "a"}


def test_phases_have_names_and_cycles_a_button() -> None:
    result = hopping_result()
    page = Page(render(result))
    phases = page.data["phases"]
    assert phases["names"] == ["stance", "flight"]
    np.testing.assert_allclose(phases["spans"][0], result.phases.spans["stance"])  # type: ignore[union-attr]
    np.testing.assert_allclose(phases["cycles"], result.phases.cycles)  # type: ignore[union-attr]
    assert "One hop" in page.texts["button"]
    assert page.data["drawing"]["overTime"]
    assert page.data["drawing"]["axes"] == ["time (s)", "height (m)"]
    assert "One hop" not in Page(render(replace(result, phases=None))).texts["button"]
    assert page.text.count("4 hops, all seen.") == 1  # a section says it: not once more among the notes
    assert page.text.count("Low-g sensor clipped.") == 1


def test_the_height_over_time_is_plotted_with_its_phases(tmp_path: Path) -> None:
    result = hopping_result()
    names = {path.name for path in write_plots(result, tmp_path)}
    assert {"path.png", "motion.png"} & names == {"motion.png"}
    assert result.drawing is not None
    figure = motion_figure(result, result.drawing)
    whole, hop = figure.axes
    assert whole.get_xlim() == (0.0, 8.0)
    assert hop.get_xlim() == (3.0, 5.0)
    named = {text.get_text() for text in figure.legends[0].get_texts()}
    assert named == {"estimate", "truth", "stance", "flight"}


# Colours


def contrast(one: str, other: str) -> float:
    """Of two colours, from the relative luminance of WCAG 2."""
    parts = np.array([[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in (one, other)]) / 255.0
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    low, high = sorted(linear @ [0.2126, 0.7152, 0.0722])
    return float((high + 0.05) / (low + 0.05))


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_can_be_read_and_lines_be_seen(scheme: int) -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#d55e00", "#ffffff") == pytest.approx(3.87, abs=0.01)  # why legends are not in this orange
    style = (TEMPLATES / "page.css").read_text()
    variables = re.findall(r":root[^{]*\{([^}]*)\}", style)
    assert len(variables) == 2
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})\b", variables[scheme]))
    used = set(re.findall(r"(?<![\w-])color: var\(--([\w-]+)\)", style))
    used |= set(re.findall(r"text[^{}]*\{[^}]*fill: var\(--([\w-]+)\)", style))
    used |= set(re.findall(r'fillStyle = (?:scene\.)?color\("(faint|ink)"\)', (TEMPLATES / "scene.js").read_text()))
    assert {"ink", "faint", "truth", "estimate"} <= used
    for text, ground in product(used, ("page", "panel")):
        assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    lines = {"estimate", "truth", "event", *(f"series-{i}" for i in range(8))}
    for line, ground in product(lines, ("page", "panel")):
        assert contrast(colours[line], colours[ground]) >= 3.0, (line, ground)
    # No colour of text stands outside of the variables, where nobody would compute it.
    assert not re.search(r"(?<![\w-])color: *#", style.partition("* {")[2])


# In a browser, where there is one

WATCH = """<script>
    const faults = [];
    addEventListener("error", (event) => faults.push(event.message));
    const paths = () => document.querySelectorAll("svg path").length;
    const tell = () => parent.postMessage(JSON.stringify([innerWidth, faults, paths()]), "*");
</script></head>"""


def with_script(path: Path, actions: str) -> Path:
    """The page with its faults watched, and something that is done once it stands; its policy would forbid both."""
    source = re.sub("<meta http-equiv[^>]*>", "", path.read_text()).replace("</head>", WATCH)
    path.write_text(source.replace("</body>", f"<script>{actions}</script></body>"))
    return path


@NO_BROWSER
def test_frames_of_any_width_and_hidden_ones_throw_nothing(tmp_path: Path) -> None:
    use = """
        const use = () => {
            for (const key of ["+", "ArrowRight", "-", "0", " "])
                document.body.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
            setTimeout(tell, 100);
        };
        addEventListener("message", use);
        use();
        """
    for name, result in (("chain", chain_result(200)), ("hopping", hopping_result(500))):
        with_script(write_report(result, tmp_path / name), use)
    widths = (0, 1, 40, 70, 320, 1280)
    frames = "".join(f'<iframe src="hopping/report.html" width="{w}" height="{w and 600}"></iframe>' for w in widths)
    hidden = '<div style="display: none"><iframe src="chain/report.html"></iframe></div>'
    # When all have told, the one that was hidden is shown and the widest made as narrow as can be; all tell again.
    (tmp_path / "frames.html").write_text(
        f"""<body>{frames}{hidden}<script>
        const frames = [...document.querySelectorAll("iframe")];
        let count = 0;
        addEventListener("message", (event) => {{
          const told = document.createElement("p");
          told.textContent = event.data;
          document.body.append(told);
          if (++count !== frames.length) return;
          document.querySelector("div").style.display = "block";
          frames[5].width = 0;
          setTimeout(() => {{ for (const frame of frames) frame.contentWindow.postMessage("again", "*"); }}, 100);
        }});
        </script></body>"""
    )
    page = rendered(tmp_path / "frames.html", "", tmp_path / "profile")
    told = [json.loads(html.unescape(text)) for text in re.findall(r"<p>(.*?)</p>", page)]
    assert [width for width, _, _ in told].count(0) >= 3  # hidden, narrow, and made narrow
    assert {width for width, _, _ in told} == {*widths, 300}
    assert len(told) == 2 * (len(widths) + 1)
    assert all(not faults for _, faults, _ in told), told
    assert all(paths > 0 for width, _, paths in told if width >= 320)


@NO_BROWSER
def test_a_drag_zooms_all_charts_and_a_double_click_takes_it_back(tmp_path: Path) -> None:
    actions = """
        const log = [], axes = () => [...document.querySelectorAll(".charts svg")].map((svg) => {
            const texts = [...svg.querySelectorAll("text")].map((text) => text.textContent);
            return texts.filter((text) => / s$/.test(text)).pop(); });
        const range = () => slider.min + ".." + slider.max;
        const note = () => log.push([...new Set(axes())].join() + " of " + axes().length + ": " + range());
        const slider = document.getElementById("time");
        const chart = document.querySelector("#charts svg"), box = chart.getBoundingClientRect();
        const at = (share) => box.left + 52 + share * (box.width - 60);
        const point = (kind, share, buttons) =>
            chart.dispatchEvent(new PointerEvent(kind, {clientX: at(share), buttons}));
        const click = (id) => document.getElementById(id).click();
        note();
        point("pointerdown", 0.25, 1); point("pointermove", 0.5, 1);
        log.push(document.querySelectorAll(".selection[width]:not([width='0'])").length);
        point("pointerup", 0.5, 0); note();
        log.push(location.hash);
        chart.dispatchEvent(new MouseEvent("dblclick")); note();
        click("zoom-cycle"); note();
        click("zoom-in"); note(); click("zoom-out"); note(); click("zoom-whole"); note();
        point("pointerdown", 0.5, 1); point("pointermove", 0.5, 1); point("pointerup", 0.5, 0); note();
        log.push(document.getElementById("now").textContent, faults.length);
        document.title = log.join("; ");
    """
    path = with_script(write_report(hopping_result(800), tmp_path), actions)
    title = re.search("<title>(.*?)</title>", rendered(path, "", tmp_path / "profile"))
    assert title is not None
    whole, selected, dragged, address, back, cycle, closer, wider, all_again, clicked, now, faults = title[1].split(
        "; "
    )

    def limits(noted: str) -> list[float]:
        return [float(number) for number in noted.partition(": ")[2].split("..")]

    count = int(whole.partition(" of ")[2].partition(":")[0])
    assert count == 3
    assert limits(whole) == limits(back) == limits(all_again) == limits(clicked) == [0.0, 8.0]
    assert int(selected) == count
    assert limits(dragged) == pytest.approx([2.0, 4.0], abs=0.03)
    assert re.match(r"[\d.]+ s of 3", dragged)  # one axis for all
    assert "&amp;from=2.0" in address
    assert limits(cycle) == pytest.approx([1.0, 3.0])
    assert limits(closer)[1] - limits(closer)[0] == pytest.approx(1.0)
    assert limits(wider)[1] - limits(wider)[0] == pytest.approx(2.0)
    assert float(now.split()[2]) == pytest.approx(4.0, abs=0.03)
    assert faults == "0"
