"""What pages say that a paper prints stands in `papers.yaml`; every paper has a robot, a command and a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from evaluation_samples import LINKS, command, salp_recording
from salp_noise import IDEAL_NOISE

from onboard_estimation.base.errors import UserError
from onboard_estimation.contract.recorded import LoadedRecording, from_simulator
from onboard_estimation.contract.reproduced import Item, Paper, Reproduced, papers
from onboard_estimation.contract.result import EvaluationResult
from onboard_estimation.contract.robot import Robot, all_robots
from onboard_estimation.contract.trained import ReportTable
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.side_by_side import side_by_side
from onboard_estimation.report.plots import panels_of
from onboard_estimation.report.reproduction import write_reproduction
from salp_estimation.robot import ROBOT as SALP

DOCS = Path(__file__).parents[2] / "docs"
ROBOTS = {one.paper: one.name for one in all_robots() if isinstance(one, Reproduced)}
QUOTED = re.compile(
    r"(?<![\w.])(-?\d+(?:\.\d+)?(?:e-?\d+)?) ?(%|\w+(?:/s)?)? \(((?:Table|Figure|Section|Equation) [\w-]+)\)"
)
SCALES = (1.0, 100.0, 1000.0)
"""Of units that a page has another prefix for: m as cm, s as ms."""


def numbers(printed: Any) -> Iterator[float]:
    if isinstance(printed, dict):
        printed = list(printed.values())
    if isinstance(printed, list):
        for one in printed:
            yield from numbers(one)
    elif isinstance(printed, int | float):
        yield float(printed)


def unfounded(page: str, paper: Paper) -> list[str]:
    """Quotes of a page that the file does not have."""
    wrong = []
    for quote in QUOTED.finditer(page):
        number, place = quote[1], quote[3]
        decimals = len(number.partition(".")[2]) if "e" not in number else 12
        known = [scale * one for one in numbers(paper.printed.get(place, {})) for scale in SCALES]
        if not any(round(one, decimals) == float(number) for one in known):
            wrong.append(quote[0])
    return wrong


def test_a_wrong_quote_is_seen() -> None:
    paper = Paper("one", "", "", "", {"Table I": {"ukf": {"error_m": 0.0123, "counts": [3, 4]}}})
    assert not unfounded("12.3 mm (Table I), 4 (Table I), 1 % of nothing (see Table I)", paper)
    assert unfounded("12.4 mm (Table I), 4 (Table II)", paper) == ["12.4 mm (Table I)", "4 (Table II)"]


@pytest.mark.parametrize("name", papers())
def test_pages_quote_what_the_file_has(name: str) -> None:
    paper = papers()[name]
    assert paper.printed
    assert not unfounded((DOCS / f"{ROBOTS[name]}.md").read_text(), paper)


def test_page_pictures_and_figures(tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    def draw() -> Figure:
        figure = Figure()
        panels_of(figure, "Errors", "simulated", (), 1, 1.0)
        return figure

    table = ReportTable("Ten seeds", ("filter", "printed, m", "ours, m"), (("ukf", "0.1", "<0.2"),), ("ours, m",))
    item = Item("Figure 5", "errors", "partly", "half of <it>.", (table,), draw, "A picture.")
    paper = Paper("one", "On hops", "Nobody", "preprint", {})
    page = write_reproduction(paper, [item], True, "onboard-estimation reproduce one", tmp_path).read_text()
    assert "SIMULATED" in page
    assert "half of &lt;it&gt;." in page
    assert "data:image/png" in page
    assert {one.name for one in tmp_path.iterdir()} == {"report.html", "reproduction.json", "figure_5.png"}


def test_papers_that_are_not_there() -> None:
    outcome = command("reproduce", "nothing")
    assert outcome.code == 2
    assert "no paper 'nothing'; there are landsalp, multilink, hopping, softrobot" in outcome.error


def test_a_recording_without_an_estimate_of_the_papers_filter_is_not_reproduced() -> None:
    """The one that it can be run on holds all the same."""
    good = from_simulator(salp_recording(10.0), LINKS)
    poor = replace(good)

    def judged(robot: Robot[Any], configuration: Any, estimator: str, recording: LoadedRecording) -> EvaluationResult:
        if recording is poor:
            raise UserError("it gave none")
        return judge(robot, configuration, estimator, recording)

    filters = {"the paper's": (IDEAL_NOISE, "ukf")}
    one, both = (
        side_by_side(SALP, filters, some, "Figure 5", judged) for some in ({"a": good}, {"a": good, "b": poor})
    )
    assert (one.outcome, both.outcome) == ("reproduced", "partly")
    assert "without an estimate: b, the paper's: it gave none" in both.because
