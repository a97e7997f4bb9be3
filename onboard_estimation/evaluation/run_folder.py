"""What a run leaves behind: resolved configuration, hashes, versions, metrics, estimates as a bag, plots, report.

Everything but the times in `run.json` is the same when the same bag is evaluated again.
"""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

from onboard_estimation import installed
from onboard_estimation.configuration import to_parameter_file
from onboard_estimation.errors import UserError, disk_fault
from onboard_estimation.evaluation.json_text import to_json
from onboard_estimation.evaluation.plots import write_plots
from onboard_estimation.evaluation.report import LIBRARIES, write_report
from onboard_estimation.evaluation.result import EvaluationResult
from onboard_estimation.evaluation.written_estimates import write_estimates
from onboard_estimation.filtering.state_space import StateSpace

Keep = Literal["figures", "reports", "everything"]


def check_free(folder: Path) -> None:
    """Raise UserError where a run cannot be written to that folder: it holds something, or its place is no folder."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists and is not empty; name another --output")
    existing = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    if not existing.is_dir():
        raise UserError(f"cannot write the run to {folder}: {existing} is no folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise UserError(f"cannot write the run to {folder}: no permission to write in {existing}")


def write_run(
    result: EvaluationResult,
    space: StateSpace,
    configuration: Any,
    hashes: Mapping[str, str],
    folder: Path,
    settings: Mapping[str, Any],
    estimates_rate_hz: float | None = None,
    progress: Callable[[str], None] = lambda step: None,
    keep: Keep = "everything",
) -> EvaluationResult:
    """Write a run folder; the result, with a note where something of it was left out of the folder.

    Parameters
    ----------
    configuration
        None: of a filter that is not ours nothing is known.
    hashes
        Of the files that the run depends on, by role (`bag`, `config`, `model`), see `content_hash`.
    settings
        What else was asked for, for `run.json`.
    estimates_rate_hz
        See `write_estimates`.
    keep
        `figures`: metrics, configuration and what is needed to repeat the run; `reports`: the report too; `everything`:
        plots and estimates as well.

    Raises
    ------
    UserError
        The folder exists and is not empty, or cannot be written.

    The folder appears when it is complete: it is written beside its place and moved there at the end.
    """
    check_free(folder)
    try:
        parent = folder.absolute().parent
        parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".run-", dir=parent, ignore_cleanup_errors=True) as workshop:
            run = Path(workshop) / "run"  # the workshop itself is closed to other users
            run.mkdir()
            if configuration is not None:
                (run / "config.yaml").write_text(to_parameter_file(configuration), encoding="utf-8")
            (run / "metrics.json").write_text(to_json(result.metrics), encoding="utf-8")
            if keep == "everything":
                progress("estimates")
                if note := write_estimates(result, space, run / "estimates", estimates_rate_hz):
                    result = replace(result, notes=(*result.notes, note))
                progress("plots")
                write_plots(result, run)
            if keep != "figures":
                progress("report")
                write_report(result, run)
            (run / "run.json").write_text(to_json(_run(result, hashes, settings)), encoding="utf-8")
            run.replace(folder)
            return result
    except OSError as error:
        raise UserError(
            f"cannot write the run to {folder}: {disk_fault(error, folder)}; nothing is left of it"
        ) from error


def versions() -> dict[str, str]:
    """Python, platform and the packages that figures depend on."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        **installed.versions(LIBRARIES),
    }


def _run(result: EvaluationResult, hashes: Mapping[str, str], settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "robot": result.robot,
        "estimator": result.estimator,
        "source": result.source,
        "bag": result.bag,
        "command": result.command,
        "verdict": result.verdict,
        "matched_ratio": result.matched_ratio,
        "sensors": result.sensors,
        "notes": list(result.notes),
        "sections": {section.title: list(section.sentences) for section in result.sections},
        "settings": dict(settings),
        "inputs_sha256": dict(hashes),
        "versions": versions(),
        "created_utc": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
