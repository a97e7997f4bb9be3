"""A paper made again: page, pictures and figures of it in a folder; the page loads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from onboard_estimation.base.atomic_file import to_json, write_atomically
from onboard_estimation.base.workers import software
from onboard_estimation.contract.reproduced import Item, Paper
from onboard_estimation.contract.result import Picture
from onboard_estimation.contract.trained import ReportTable
from onboard_estimation.report.page import filled_page, pictures_html, report_table, section, text
from onboard_estimation.report.plots import write_figure

PAGE, FIGURES = "report.html", "reproduction.json"


def overview(items: Sequence[Item]) -> ReportTable:
    """A line for each table and figure: whether it came out as printed, and within what or why not."""
    rows = tuple((one.place, one.title, one.outcome, one.because) for one in items)
    return ReportTable("", ("place", "what it shows", "outcome", "because"), rows)


def as_json(paper: Paper, items: Sequence[Item], simulated: bool) -> dict[str, Any]:
    """All of it but the pictures."""
    told = []
    for one in items:
        tables = [{name: getattr(table, name) for name in ("title", "headings", "rows")} for table in one.tables]
        said = {name: getattr(one, name) for name in ("place", "title", "outcome", "because")}
        told.append({**said, "tables": tables})
    return {"paper": paper.name, "title": paper.title, "source": _source(simulated), "items": told}


def write_reproduction(paper: Paper, items: Sequence[Item], simulated: bool, command: str, folder: Path) -> Path:
    """Write page, figures as JSON, and each picture as a file into a folder that is there; returns the page's path.

    Parameters
    ----------
    command
        With which it was made.
    """
    sections = []
    for one in items:
        pictures = []
        if one.draw is not None:
            png = BytesIO()
            write_figure(png, one.draw)
            pictures = [Picture(png.getvalue(), one.caption)]
            name = f"{one.place.lower().replace(' ', '_')}.png"
            write_atomically(folder / name, png.getvalue(), f"picture {name}")
        tables = "".join(
            (f"<h3>{text(table.title)}</h3>\n" if table.title else "") + report_table(table) for table in one.tables
        )
        outcome = f"<p><b>{text(one.outcome.capitalize())}</b>: {text(one.because)}</p>\n"
        sections.append(section(f"{one.place}: {one.title}", outcome + tables + pictures_html(pictures)))
    fields = {
        "title": text(f"{paper.name}: {paper.title}"),
        "source": _source(simulated),
        "source_words": _source(simulated).upper(),
        "facts": text(f"{paper.authors}; {paper.published}. What is headed “printed” is from the paper."),
        "summary": report_table(overview(items)),
        "items": "".join(sections),
        "command": text(f"Made by {command}"),
    }
    page = filled_page("reproduction.html", fields, software())
    write_atomically(folder / PAGE, page.encode(), f"page of the paper {paper.name}")
    write_atomically(folder / FIGURES, to_json(as_json(paper, items, simulated)).encode(), FIGURES)
    return folder / PAGE


def _source(simulated: bool) -> str:
    return "simulated" if simulated else "recorded"
