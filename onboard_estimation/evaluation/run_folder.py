"""What a run leaves behind: resolved configuration, hashes, versions, metrics, estimates as a bag, plots, report.

Everything but the times in `run.json` is the same when the same bag is evaluated again.
"""

from __future__ import annotations

import hashlib
import os
import platform
import tempfile
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from onboard_estimation.configuration import to_parameter_file
from onboard_estimation.errors import UserError
from onboard_estimation.evaluation.bag_writing import BagWriter, new
from onboard_estimation.evaluation.bulk_writing import serialise_alike
from onboard_estimation.evaluation.json_text import to_json
from onboard_estimation.evaluation.plots import write_plots
from onboard_estimation.evaluation.report import write_report
from onboard_estimation.evaluation.result import EvaluationResult
from onboard_estimation.filtering.state_space import StateSpace
from onboard_estimation.ros.estimates import EstimateMessages

_PACKAGES = ("onboard_estimation", "numpy", "scipy", "numba", "rosbags", "evo", "matplotlib")


def free_folder(path: Path) -> Path:
    """The path if nothing is there, else the first of `path-2`, `path-3`, ... that is free."""
    candidate, number = path, 1
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.name}-{number}")
    return candidate


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
    inputs: Mapping[str, Path],
    folder: Path,
    settings: Mapping[str, Any],
    progress: Callable[[str], None] = lambda step: None,
) -> None:
    """Write a run folder.

    Parameters
    ----------
    inputs
        Files that the run depends on, by role (`bag`, `config`, `model`); their hashes are kept.
    settings
        What else was asked for, for `run.json`.

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
            (run / "config.yaml").write_text(to_parameter_file(configuration), encoding="utf-8")
            (run / "metrics.json").write_text(to_json(result.metrics), encoding="utf-8")
            progress("estimates")
            write_estimates(result, space, run / "estimates")
            progress("plots")
            write_plots(result, run)
            progress("report")
            write_report(result, run)
            (run / "run.json").write_text(to_json(_run(result, inputs, settings)), encoding="utf-8")
            run.replace(folder)
    except OSError as error:
        raise UserError(f"cannot write the run to {folder}: {error.strerror or error}") from error


def write_estimates(result: EvaluationResult, space: StateSpace, path: Path) -> None:
    """The record as a bag, with the messages that a live node publishes."""
    messages = EstimateMessages(space, new, frame_id="map" if result.parts else "odom")
    stamps_ns = result.stamps_ns.tolist()
    serialised = {}
    for topic, message_type, values in messages.numbers(result.mean, result.covariance):
        make = partial(messages.message, topic)
        serialised[topic] = message_type, serialise_alike(message_type, make, result.stamps_ns, values)
    with BagWriter(path) as writer:
        for row, stamp_ns in enumerate(stamps_ns):
            for topic, (message_type, rows) in serialised.items():
                writer.write_serialized(f"/{result.robot}/{topic}", message_type, stamp_ns, rows[row].data)


def versions() -> dict[str, str]:
    """Python, platform and the packages that figures depend on."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _run(result: EvaluationResult, inputs: Mapping[str, Path], settings: Mapping[str, Any]) -> dict[str, Any]:
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
        "inputs_sha256": {role: content_hash(path) for role, path in inputs.items()},
        "versions": versions(),
        "created_utc": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def content_hash(path: Path) -> str:
    """SHA-256, hexadecimal, of a file, or of all files of a folder with their names."""
    digest = hashlib.sha256()
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    for file in files:
        digest.update(file.relative_to(path).as_posix().encode() if path.is_dir() else b"")
        with file.open("rb") as stream:
            while piece := stream.read(1 << 20):
                digest.update(piece)
    return digest.hexdigest()
