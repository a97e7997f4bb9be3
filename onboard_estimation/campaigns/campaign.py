"""Campaigns: many runs, each a task of some worker, into one folder that an interruption leaves as good as it was.

`results.parquet` has a row for each run, `report.html` what to see in them, `runs/` a folder for each. A run's folder
appears when the run is complete; what is there is not done again.

A worker reads the bag where it lies, judges it, and gives the run folder's files back: it writes nothing that stays. A
trajectory that another filter made is judged in the place of a bag, or in one.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from onboard_estimation.base.atomic_file import check_output, new_folder, to_json, write_atomically
from onboard_estimation.base.bounded_file import read_bounded_text
from onboard_estimation.base.errors import UserError, disk_fault, first_of, printable
from onboard_estimation.base.installed import optional
from onboard_estimation.base.measurement import Vector
from onboard_estimation.base.parameter_file import leaves
from onboard_estimation.base.series import nearest
from onboard_estimation.base.workers import HERE, Workers, software
from onboard_estimation.campaigns.score import headline_errors
from onboard_estimation.contract.result import EvaluationResult
from onboard_estimation.judging.options import EvaluateOptions, Keep, recorded
from onboard_estimation.judging.simulated_bags import SimulatedRun, simulated_source
from onboard_estimation.report.evaluate import Evaluation, evaluate_bag, evaluate_trajectory, evaluated, is_foreign
from onboard_estimation.report.run_folder import claimed

AXES = ("robot", "recording", "variant", "estimator", "configuration", "what_if", "seed")
"""What runs of a campaign differ in; of a bag, `recording` is the bag, of a simulation its scenario."""
FILES = ("config", "model", "truth", "times")
"""Options that name a file."""
ROW = "row.json"
ERRORS = "errors.parquet"
_LONGEST_NAME = 100

Files = Mapping[str, bytes]
"""Of a run folder by their paths in it: what a worker sends back."""
RESULTS, REPORT, RUNS, ABOUT = "results.parquet", "report.html", "runs", "campaign.json"
_DESCRIPTION = ("name", *AXES, "status", "reason", "source", "verdict", "command", "folder")
MOST_NAMED = 3

Row = Mapping[str, Any]
"""Of a run: its labels, `status` (`done`, `failed`), `reason`, `verdict`, its `figures` by name, its `headlines`."""


@dataclass(frozen=True)
class Case:
    """One run.

    Attributes
    ----------
    recording
        A bag, or another filter's trajectory, to be evaluated; or what is simulated.
    options
        Of the evaluation, estimator included.
    labels
        What the run is called along each of `AXES`; empty along those that the campaign has not.
    contents
        SHA-256 of the files that the options name, by path: other contents are another run.
    """

    recording: Path | SimulatedRun
    options: EvaluateOptions
    labels: Mapping[str, str]
    contents: Mapping[str, str] = field(default_factory=dict)
    keep: Keep = "reports"

    def files(self) -> list[Path]:
        """What the run reads."""
        named = (self.recording, *(getattr(self.options, name) for name in FILES))
        return [path for path in named if isinstance(path, Path)]

    @cached_property
    def identity(self) -> str:
        """Hash of all that the run is made of, but for the software and the bag's content."""
        options = recorded(self.options) | {"robot": self.options.robot, "estimator": self.options.estimator}
        files = {name: str(path) for name in FILES if (path := getattr(self.options, name)) is not None}
        simulated = asdict(self.recording) if isinstance(self.recording, SimulatedRun) else None
        bag = "None" if simulated else str(self.recording)
        what = {"bag": bag, "simulated": simulated, "options": options, "files": files, "keep": self.keep}
        text = json.dumps(what | {"contents": dict(self.contents)}, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:10]

    @cached_property
    def name(self) -> str:
        """Of its run folder: its labels, and a few digits that tell it from runs that are called alike."""
        words = [f"seed-{label}" if axis == "seed" else label for axis, label in self.labels.items() if label]
        plain = re.sub(r"[^A-Za-z0-9_.]+", "-", "-".join(words)).strip("-.")
        return f"{plain[:_LONGEST_NAME]}-{self.identity}"


def run_case(case: Case) -> Files:
    """Do a run; what it leaves. Whatever goes wrong with it becomes its row."""
    try:
        with tempfile.TemporaryDirectory(prefix="onboard_estimation-") as scratch:
            folder = Path(scratch) / "run"
            evaluation = _evaluation(case, folder)
            write_errors(evaluation.result, folder / ERRORS)
            (folder / ROW).write_text(to_json(_row(case, evaluation)), encoding="utf-8")
            paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
            return {str(path.relative_to(folder)): path.read_bytes() for path in paths}
    except UserError as error:
        return failed(case, str(error))
    except MemoryError as error:
        return failed(case, f"out of memory ({error})" if str(error) else "out of memory")
    except Exception as error:
        return failed(case, f"{type(error).__name__}: {error}", traceback.format_exc())


def failed(case: Case, reason: str, trace: str = "") -> Files:
    """What is left of a run that failed."""
    said = printable(" ".join(reason.split()))
    row = {"name": case.name, **case.labels, "identity": case.identity, "status": "failed", "reason": said}
    return {ROW: to_json(row).encode(), **({"traceback.txt": trace.encode()} if trace else {})}


def _evaluation(case: Case, folder: Path) -> Evaluation:
    if isinstance(case.recording, SimulatedRun):
        source = simulated_source(case.recording, case.options)
        return evaluated(source, source.estimators[0], folder, keep=case.keep)
    if is_foreign(case.recording, case.options):
        return evaluate_trajectory(case.recording, case.options, folder, keep=case.keep)
    return evaluate_bag(case.recording, case.options, folder, keep=case.keep)


def _row(case: Case, evaluation: Evaluation) -> dict[str, Any]:
    """What the run is called, and its figures: the numbers of `metrics.json` by their keys, joined by dots."""
    result = evaluation.result
    figures = {
        ".".join(keys): float(value)
        for keys, value in leaves(result.metrics)
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    return {
        "name": case.name,
        **case.labels,
        **result.facts,
        "identity": case.identity,
        "status": "done",
        "reason": "",
        "asked": dict(case.labels),
        "parts": [name for name, part in result.parts.items() if part.matched.any()],
        "headlines": sorted(headline_errors(result)),
        "figures": figures,
    }


@dataclass(frozen=True)
class Campaign:
    """A campaign that is through.

    Attributes
    ----------
    rows
        One a run, in the order of the table.
    earlier
        How many of them had been done before it was started this time.
    """

    folder: Path
    rows: tuple[Row, ...]
    earlier: int = 0

    @property
    def failures(self) -> list[Row]:
        """Rows of the runs that failed."""
        return [row for row in self.rows if row["status"] == "failed"]


def run_campaign(
    cases: Sequence[Case],
    folder: Path,
    workers: Workers,
    about: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], None] = lambda finished, failed: None,
) -> Campaign:
    """Do all runs that are not done yet, and write the table of all.

    Parameters
    ----------
    folder
        Of the campaign; one that was interrupted goes on.
    about
        What was asked for, for `campaign.json`.
    progress
        Takes how many runs are done, those of an earlier start among them, and how many of this one's have failed.

    Raises
    ------
    UserError
        The folder is something else's, or of a campaign of another version; files are not there on some worker; the
        disk is full, or the scheduler gone: what is done is kept.
    """
    optional("pyarrow", "pyarrow", "campaign")
    with claimed(folder):
        _begin(folder, about or {})
        _refuse_absent_files(cases, workers)
        rows = {case.identity: row for case in cases if (row := _read_row(folder, case)) is not None}
        earlier = sum(row["status"] == "done" for row in rows.values())
        waiting = [case for case in cases if rows.get(case.identity, {}).get("status") != "done"]
        count = earlier
        failures = 0
        progress(count, failures)
        for finished in workers.results(run_case, waiting):
            case = waiting[finished.number]
            files = finished.value
            if finished.error is not None:
                files = failed(case, str(finished.error) or type(finished.error).__name__)
            row = _kept(folder, case, files, count)
            rows[case.identity] = row
            count, failures = count + 1, failures + (row["status"] == "failed")
            progress(count, failures)
        campaign = Campaign(folder, tuple(rows[case.identity] for case in cases), earlier)
        write_results(campaign)
        return campaign


def figures_of(rows: Sequence[Row]) -> pd.DataFrame:
    """Figures of runs, a row a run and a column a figure, NaN where a run has not one."""
    return pd.DataFrame([row.get("figures", {}) for row in rows], dtype=np.float64)


def write_results(campaign: Campaign) -> Path:
    """Write `results.parquet`: labels and what came of each run, then its figures, NaN where a run has not one."""
    described = [
        {name: row.get(name, "") for name in _DESCRIPTION} | {"folder": f"{RUNS}/{row['name']}"}
        for row in campaign.rows
    ]
    content = pd.concat([pd.DataFrame(described), figures_of(campaign.rows)], axis=1).to_parquet(index=False)
    path = campaign.folder / RESULTS
    write_atomically(path, content, f"table of the campaign {campaign.folder}")
    return path


def _begin(folder: Path, about: Mapping[str, Any]) -> None:
    """A folder for the campaign, or the one that it goes on in."""
    record = folder / ABOUT
    check_output(folder, folder=True, replaced=record.is_file())
    if not record.is_file():
        try:
            (folder / RUNS).mkdir(parents=True, exist_ok=True)
            record.write_text(to_json({**about, "software": software()}), encoding="utf-8")
        except OSError as error:
            raise UserError(f"cannot write the campaign to {folder}: {disk_fault(error, folder)}") from error
        return
    there, here = _begun_with(folder), software()
    other = [f"{name} {there.get(name)}, now {version}" for name, version in here.items() if there.get(name) != version]
    if other:
        raise UserError(
            f"{folder} was begun with {'; '.join(other)}: runs of both do not compare; name another --output"
        )


def can_go_on(folder: Path) -> bool:
    """Whether a campaign was begun there with this very software."""
    try:
        return _begun_with(folder) == software()
    except UserError:
        return False


def _begun_with(folder: Path) -> Mapping[str, str]:
    """Software that a campaign was begun with; UserError where the folder does not say."""
    record = folder / ABOUT
    text = read_bounded_text(record, str(record))
    try:
        return {str(name): str(version) for name, version in json.loads(text)["software"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"{record} cannot be read ({error}); name another --output") from error


def _refuse_absent_files(cases: Sequence[Case], workers: Workers) -> None:
    """Raise UserError where bags, configurations or models are not there: on every worker, or on some."""
    wanted = list(dict.fromkeys(str(path) for case in cases for path in case.files()))
    if not wanted:
        return
    faults = []
    for address, found in workers.everywhere(_absent, wanted).items():
        if isinstance(found, BaseException):
            raise UserError(f"worker {address}: {found}")
        if found:
            where = "" if address == HERE else f" on {address}"
            faults.append(f"not there{where}: {first_of(found, MOST_NAMED)}")
    if faults:
        raise UserError(first_of(faults, 1, rest="; and so on {} more workers"))


def _absent(paths: Sequence[str]) -> list[str]:
    return [path for path in paths if not Path(path).exists()]


def _kept(folder: Path, case: Case, files: Files, before: int) -> Row:
    """The run's folder in its place, and its row."""
    place = folder / RUNS / case.name
    try:
        shutil.rmtree(place, ignore_errors=True)  # what failed before
        with new_folder(place) as fresh:
            for name, content in files.items():
                (fresh / name).parent.mkdir(parents=True, exist_ok=True)
                (fresh / name).write_bytes(content)
    except UserError as error:
        raise UserError(f"{error}; {before} runs are kept: make room and run the same command, it goes on") from error
    row = _read_row(folder, case)
    assert row is not None
    return row


def _read_row(folder: Path, case: Case) -> Row | None:
    """None where there is none of this run that can be read: such a run is done again."""
    with suppress(UserError, ValueError, RecursionError):
        row = json.loads(read_bounded_text(folder / RUNS / case.name / ROW, ROW))
        if isinstance(row, dict) and row.get("status") in ("done", "failed") and row.get("identity") == case.identity:
            return row
    return None


MOST_ROWS = 2000
MOST_TOGETHER = 1_000_000
"""Rows of all runs of a group."""
_STEPS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
"""So that runs of about the same length have rows at the same instants."""


def thinning(runs: int) -> int:
    """Of how many instants one is looked at where so many runs are looked at together: memory is bounded."""
    return max(1, -(-runs * MOST_ROWS // MOST_TOGETHER))


def write_errors(result: EvaluationResult, path: Path) -> None:
    """Write the errors of all parts: the estimates nearest to evenly spaced instants, `MOST_ROWS` of them at most.

    Columns: `time_s` since the first estimate, for each dimension `<part>.<name>.error` and `.stddev`, for each part
    `<part>.nees`, NaN where there is no truth; units by `<part>.<name>` are the attributes of the frame.
    """
    rows, time_s = _instants(result.time_s)
    columns: dict[str, Vector] = {"time_s": time_s}
    units: dict[str, str] = {}
    for part in result.parts.values():
        for column, (name, unit) in enumerate(zip(part.names, part.units, strict=True)):
            key = f"{part.name}.{name}"
            columns[f"{key}.error"], columns[f"{key}.stddev"] = part.error[rows, column], part.stddev[rows, column]
            units[key] = unit
        columns[f"{part.name}.nees"] = part.nees[rows]
    frame = pd.DataFrame(columns)
    frame.attrs = units
    frame.to_parquet(path)


def _instants(time_s: Vector) -> tuple[NDArray[np.intp], Vector]:
    """Rows of the estimates nearest to evenly spaced instants, and these instants."""
    end_s = float(time_s[-1])
    step_s = next((one for one in _STEPS_S if end_s / one < MOST_ROWS), end_s / (MOST_ROWS - 1))
    spacing_s = float(np.median(np.diff(time_s))) if len(time_s) > 1 else step_s
    step_s = step_s * max(1, round(spacing_s / step_s))
    instants: Vector = step_s * np.arange(int(end_s / step_s + 1e-6) + 1, dtype=np.float64)
    return nearest(instants, time_s), instants
