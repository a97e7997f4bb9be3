"""What a run leaves behind: resolved configuration, hashes, versions, metrics, estimates as a bag, plots, report.

Everything but the times in `run.json` is the same when the same bag is evaluated again.

One run to a folder: who comes second learns it before the work, not after it. A claim is a name that the operating
system gives back when its process ends, however that ends; no file is left of it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from onboard_estimation.base import installed
from onboard_estimation.base.atomic_file import check_output, new_folder, to_json
from onboard_estimation.base.bounded_file import open_regular
from onboard_estimation.base.configuration import to_parameter_file
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.parameter_file import file_and_node
from onboard_estimation.contract.result import EvaluationResult
from onboard_estimation.filtering.state_space import StateSpace
from onboard_estimation.judging.options import Keep
from onboard_estimation.report.page import LIBRARIES, write_report
from onboard_estimation.report.plots import write_plots
from onboard_estimation.trajectories.written_estimates import write_estimates

_PIECE_BYTES = 1 << 20


@contextmanager
def claimed(folder: Path, numbered: bool = False) -> Iterator[Path]:
    """Claim a folder until the block is left.

    Parameters
    ----------
    numbered
        Where it is there, or claimed, take the first of `folder-2`, `folder-3`, ... that is free and not claimed.

    Raises
    ------
    UserError
        Another process, or another block of this one, has claimed it.
    """
    place, number = folder, 1
    while (numbered and place.exists()) or (claim := _claim(place)) is None:
        if not numbered:
            raise UserError(f"{place}: another process is writing a run there; name another --output, or wait for it")
        number += 1
        place = folder.with_name(f"{folder.name}-{number}")
    with claim:
        yield place


@contextmanager
def claimed_run(asked: Path | None, otherwise: Path) -> Iterator[Path]:
    """Claim the folder that was asked for, which must be free; else the other, numbered where that exists."""
    with claimed(asked or otherwise, numbered=asked is None) as folder:
        check_output(folder, folder=True)
        yield folder


def _claim(folder: Path) -> socket.socket | None:
    """A name in Linux's abstract namespace, which goes with this process; None where somebody else has it."""
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0onboard_estimation-run-{hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()}")
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            claim.close()
            return None  # any other error: this system has no such names, and no claims
    return claim


def content_hash(path: Path) -> str:
    """SHA-256, hexadecimal, of a file, or of all files of a folder with their names."""
    digest = hashlib.sha256()
    path, _ = file_and_node(path)
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    for file in files:
        digest.update(file.relative_to(path).as_posix().encode() if path.is_dir() else b"")
        with open_regular(file) as stream:
            while piece := stream.read(_PIECE_BYTES):
                digest.update(piece)
    return digest.hexdigest()


def content_hashes(inputs: Mapping[str, Path | None]) -> dict[str, str]:
    """Hashes of some files or folders, by role; OSError where one cannot be read."""
    return {role: content_hash(path) for role, path in inputs.items() if path}


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
    with new_folder(folder) as run:
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
    return result


def _run(result: EvaluationResult, hashes: Mapping[str, str], settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **result.facts,
        "bag": result.bag,
        "matched_ratio": result.matched_ratio,
        "sensors": result.sensors,
        "notes": list(result.notes),
        "sections": {section.title: list(section.sentences) for section in result.sections},
        "settings": dict(settings),
        "inputs_sha256": dict(hashes),
        "versions": {
            "python": platform.python_version(),
            "platform": platform.platform(),
            **installed.versions(LIBRARIES),
        },
        "created_utc": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
