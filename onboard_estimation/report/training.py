"""The page of a training, beside the model: what it comes from, what was found, the pictures; it loads nothing."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from onboard_estimation.base.atomic_file import write_atomically
from onboard_estimation.base.workers import software
from onboard_estimation.contract.result import Picture
from onboard_estimation.contract.trained import ReportTable, TrainingReport
from onboard_estimation.report.page import filled_page, pictures_html, report_table, section, text


def write_training_page(
    robot: str,
    report: TrainingReport,
    model: Path,
    pictures: Sequence[Path],
    hashes: Mapping[str, str],
    simulated: bool,
) -> Path:
    """Write `<model>.html` beside the model, and return its path.

    Parameters
    ----------
    pictures
        PNG files, which the page holds.
    hashes
        SHA-256 of each recording by its name.

    Raises
    ------
    UserError
        It cannot be written, or the installation lacks a part of it.
    """
    source = "simulated" if simulated else "recorded"
    shown = [Picture(one.read_bytes(), f"{one.stem.replace('_', ' ')}.") for one in pictures]
    recordings = ReportTable("", ("recording", "SHA-256"), tuple(hashes.items()))
    fields = {
        "title": text(f"{robot}: {model.name}"),
        "source": source,
        "source_words": source.upper(),
        "sentences": "".join(f"<li>{text(sentence)}</li>\n" for sentence in report.sentences()),
        "tables": "".join(section(one.title[:1].upper() + one.title[1:], report_table(one)) for one in report.tables()),
        "pictures": pictures_html(shown),
        "recordings": report_table(recordings),
        "command": text(f"onboard-estimation evaluate BAG --model {shlex.quote(str(model))}"),
    }
    path = page_of(model)
    page = filled_page("training.html", fields, software())
    write_atomically(path, page.encode(), f"page of the model {model}")
    return path


def page_of(model: Path) -> Path:
    """Where the page of a model lies."""
    return model.with_name(f"{model.name}.html")
