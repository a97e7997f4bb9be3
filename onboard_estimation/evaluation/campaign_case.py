"""One run of a campaign: what it is, and doing it, on whatever worker.

A worker reads the bag where it lies, judges it, and gives the run folder's files back: it writes nothing that stays. A
trajectory that another filter made is judged in the place of a bag, or in one.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from onboard_estimation.errors import UserError, printable
from onboard_estimation.evaluation.content_hash import content_hashes
from onboard_estimation.evaluation.error_table import write_errors
from onboard_estimation.evaluation.evaluate import Evaluation, evaluated, read_bag
from onboard_estimation.evaluation.evaluate_trajectory import evaluate_trajectory, is_foreign
from onboard_estimation.evaluation.json_text import to_json
from onboard_estimation.evaluation.options import EvaluateOptions, recorded
from onboard_estimation.evaluation.presentation import flatten
from onboard_estimation.evaluation.run_folder import Keep
from onboard_estimation.evaluation.simulated import SimulatedRun, simulated_source

AXES = ("robot", "recording", "variant", "estimator", "configuration", "what_if", "seed")
"""What runs of a campaign differ in; of a bag, `recording` is the bag, of a simulation its scenario."""
FILES = ("config", "model", "truth", "times")
"""Options that name a file."""
ROW = "row.json"
ERRORS = "errors.parquet"
_LONGEST_NAME = 100

Files = Mapping[str, bytes]
"""Of a run folder by their paths in it: what a worker sends back."""


@dataclass(frozen=True)
class Case:
    """One run.

    Attributes
    ----------
    bag
        To be evaluated; None: what `simulated` says.
    options
        Of the evaluation, estimator included.
    labels
        What the run is called along each of `AXES`; empty along those that the campaign has not.
    contents
        SHA-256 of the files that the options name, by path: other contents are another run.
    """

    options: EvaluateOptions
    labels: Mapping[str, str]
    bag: Path | None = None
    simulated: SimulatedRun | None = None
    contents: Mapping[str, str] = field(default_factory=dict)
    keep: Keep = "reports"

    def files(self) -> list[Path]:
        """What the run reads."""
        named = (self.bag, *(getattr(self.options, name) for name in FILES))
        return [path for path in named if path is not None]

    @cached_property
    def identity(self) -> str:
        """Hash of all that the run is made of, but for the software and the bag's content."""
        options = recorded(self.options) | {"robot": self.options.robot, "estimator": self.options.estimator}
        files = {name: str(path) for name in FILES if (path := getattr(self.options, name)) is not None}
        simulated = None if self.simulated is None else asdict(self.simulated)
        what = {"bag": str(self.bag), "simulated": simulated, "options": options, "files": files, "keep": self.keep}
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
    if case.simulated is not None:
        source = simulated_source(case.simulated, case.options, [case.options.estimator])
        return evaluated(source, source.estimators[0], folder, keep=case.keep)
    assert case.bag is not None
    if is_foreign(case.bag, case.options):
        return evaluate_trajectory(case.bag, case.options, folder, keep=case.keep)
    with content_hashes({"bag": case.bag, "config": case.options.config}) as hashes:
        source = read_bag(case.bag, case.options, [case.options.estimator])
        return evaluated(source, source.estimators[0], folder, hashes, keep=case.keep)


def _row(case: Case, evaluation: Evaluation) -> dict[str, Any]:
    """What the run is called, and its figures: the numbers of `metrics.json` by their keys, joined by dots."""
    result = evaluation.result
    figures = {
        ".".join(keys): float(value)
        for keys, value in flatten(result.metrics)
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    return {
        "name": case.name,
        **case.labels,
        "robot": result.robot,
        "estimator": result.estimator,
        "identity": case.identity,
        "status": "done",
        "reason": "",
        "source": result.source,
        "verdict": result.verdict,
        "command": result.command,
        "asked": dict(case.labels),
        "parts": [name for name, part in result.parts.items() if part.matched.any()],
        "figures": figures,
    }
