"""Evaluated runs side by side, what they differ in before their figures: what `compare` prints of run folders."""

from __future__ import annotations

import itertools
import json
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from onboard_estimation.base.atomic_file import plain
from onboard_estimation.base.bounded_file import read_bounded_text
from onboard_estimation.base.errors import UserError, printable
from onboard_estimation.base.parameter_file import leaves, read_parameter_file
from onboard_estimation.base.presentation import format_number, shown_alike, words
from onboard_estimation.contract.result import FOREIGN
from onboard_estimation.judging import options

_FACTS = ("robot", "estimator", "source", "bag")
_UNKNOWN = "unknown"


@dataclass(frozen=True)
class Run:
    """What a run folder says.

    Attributes
    ----------
    name
        Name of the folder, made unique among the runs compared.
    facts
        `robot`, `estimator`, `source`, `bag` from `run.json`; `unknown` where it does not say.
    made
        What else it was made with and came to: verdict, options, parameters by their dotted names, hashes, versions.
    metrics
        Leaves of `metrics.json`; keys of nested groups joined by dots.
    """

    folder: Path
    name: str
    facts: Mapping[str, str]
    made: Mapping[str, str]
    metrics: Mapping[str, Any]


@dataclass(frozen=True)
class Comparison:
    """Runs side by side, and what the reader must know before comparing them."""

    runs: tuple[Run, ...]
    notes: tuple[str, ...]

    def keys(self) -> list[str]:
        """All metrics' keys in the order in which the runs name them."""
        return list(dict.fromkeys(key for run in self.runs for key in run.metrics))

    def differing(self) -> dict[str, list[str]]:
        """What the runs differ in, with one value a run, empty where a run has none: facts first."""
        each = [{**run.facts, **run.made} for run in self.runs]
        found = {key: [one.get(key, "") for one in each] for key in dict.fromkeys(itertools.chain(*each))}
        return {key: values for key, values in found.items() if len(set(values)) > 1}

    def summary(self) -> dict[str, Any]:
        """What `--json` prints: facts of the runs, what differs, of each metric one value a run (null: none)."""
        return {
            "runs": [{"folder": str(run.folder), "name": run.name, **run.facts} for run in self.runs],
            "differs": self.differing(),
            "metrics": {key: [plain(run.metrics.get(key)) for run in self.runs] for key in self.keys()},
            "notes": list(self.notes),
        }

    def table(self) -> Table:
        """For people: a row per metric, a column per run; of two runs also the change from the first to the second."""
        two = len(self.runs) == 2
        table = Table(title=None, header_style="bold")
        table.add_column("", overflow="fold")
        for run in self.runs:
            table.add_column(Text(printable(run.name)), justify="right", overflow="fold")
        if two:
            table.add_column("change", justify="right")
        differing = self.differing()
        alike = {fact: [run.facts[fact] for run in self.runs] for fact in _FACTS if fact not in differing}
        for section in (differing, alike):
            for name, said in section.items():
                table.add_row(Text(printable(name)), *(Text(printable(one) or "-") for one in said), *[""] * two)
            table.add_section()
        for key in self.keys():
            *groups, leaf = key.split(".")
            values = [run.metrics.get(key) for run in self.runs]
            label, shown, unit = shown_alike(leaf, values)
            label = " / ".join([words(groups[0]), *groups[1:], label] if groups else [label])
            shown = [one if key in run.metrics else "-" for one, run in zip(shown, self.runs, strict=True)]
            cells = (Text(printable(one)) for one in (f"{label} ({unit})" if unit else label, *shown))
            table.add_row(*cells, *([_change(*values)] if two else []))
        return table


def compare_runs(folders: Sequence[Path]) -> Comparison:
    """Read run folders for a comparison.

    Raises
    ------
    UserError
        With fewer than two folders, or where a folder is none of an evaluated run: all faults in one line.
    """
    if len(folders) < 2:
        raise UserError(f"compare needs two or more run folders, got {len(folders)}")
    faults: list[str] = []
    runs = []
    for folder, name in zip(folders, _unique_names(folders), strict=True):
        try:
            runs.append(_read_run(folder, name))
        except UserError as fault:
            faults.append(str(fault))
    if faults:
        raise UserError("; ".join(dict.fromkeys(faults)))
    return Comparison(tuple(runs), tuple(_notes(runs)))


def _read_run(folder: Path, name: str) -> Run:
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder: give run folders, as evaluate writes them")
    path = folder / "metrics.json"
    if not path.exists():
        raise UserError(f"{folder} has no metrics.json: evaluate BAG --output {folder} writes one")
    metrics = {".".join(keys): value for keys, value in leaves(read_mapping(path))}
    run_path = folder / "run.json"
    facts = read_mapping(run_path) if run_path.exists() else {}
    known = {fact: value if isinstance(value := facts.get(fact), str) else _UNKNOWN for fact in _FACTS}
    parameters = read_parameter_file(path)[0] if (path := folder / "config.yaml").exists() else {}
    return Run(folder, name, known, _made(facts, parameters), metrics)


def _made(facts: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, str]:
    """What a run was made with and came to, as far as `run.json` and `config.yaml` say."""
    settings, hashes, versions = (
        value if isinstance(value := facts.get(key), dict) else {} for key in ("settings", "inputs_sha256", "versions")
    )
    typed = ""
    with suppress(KeyError, TypeError, ValueError):  # of a version with other options
        typed = shlex.join(options.words(replace(options.recalled(settings), overrides={})))  # parameters tell those
    named = {".".join(keys[2:]): str(value) for keys, value in leaves(parameters)}  # behind node and ros__parameters
    contents = {f"content of {role}": str(value)[:12] for role, value in hashes.items()}
    return {"verdict": str(facts.get("verdict", "")), "options": typed, **named, **contents, **versions}


def read_mapping(path: Path) -> dict[str, Any]:
    """Content of a JSON file of a run folder; UserError where it is damaged or holds no mapping."""
    text = read_bounded_text(path, str(path))
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise UserError(f"{path} cannot be read ({fault}): repeat the evaluation") from fault
    if not isinstance(content, dict):
        raise UserError(f"{path} holds a {type(content).__name__}, not a mapping: repeat the evaluation")
    return content


def _unique_names(folders: Sequence[Path]) -> list[str]:
    """The folders' own names; where two are alike their paths, numbered if the folder is the same."""
    names = [folder.resolve().name for folder in folders]
    if len(set(names)) < len(names):
        names = [str(folder) for folder in folders]
    return [
        name if names.count(name) == 1 else f"{name} ({names[: index + 1].count(name)})"
        for index, name in enumerate(names)
    ]


def _notes(runs: Sequence[Run]) -> list[str]:
    notes = []
    known = {fact: sorted({run.facts[fact] for run in runs} - {_UNKNOWN, FOREIGN}) for fact in _FACTS}
    if len(known["source"]) > 1:
        notes.append("Simulated and recorded runs are mixed: their figures do not compare.")
    if unknown := [run.name for run in runs if run.facts["source"] == _UNKNOWN]:
        notes.append(f"Whether simulated or recorded is not known of: {', '.join(unknown)} (no source in run.json).")
    for fact, meaning in (("robot", "robots"), ("bag", "bags")):
        if len(known[fact]) > 1:
            notes.append(f"The runs are of {len(known[fact])} different {meaning}.")
    every = set().union(*(run.metrics for run in runs))
    shared = set.intersection(*(set(run.metrics) for run in runs))
    if shared != every:
        notes.append(f"{len(shared)} of {len(every)} metrics are in all runs; `-` marks those a run does not have.")
    return notes


def _change(first: Any, second: Any) -> str:
    """Relative change in per cent; empty where there is none to state."""
    values = [plain(value) for value in (first, second)]
    if any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in values) or not values[0]:
        return ""
    change = 100.0 * (values[1] - values[0]) / abs(values[0])
    if 0.0 < abs(change) < 0.01:
        return "< 0.01 %"
    return f"{'+' if change > 0 else ''}{format_number(change, 3)} %"
