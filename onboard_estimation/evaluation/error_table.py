"""The errors of a run over time as a Parquet table: for figures over many runs, and for whoever wants to look."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.errors import UserError
from onboard_estimation.evaluation.result import EvaluationResult
from onboard_estimation.measurement import Vector
from onboard_estimation.workers import HINT

MOST_ROWS = 2000
MOST_TOGETHER = 1_000_000
"""Rows of all runs of a group."""
_STEPS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
"""So that runs of about the same length have rows at the same instants."""


class PartErrors(NamedTuple):
    """Errors of a part of the state, NaN where there is no truth.

    Attributes
    ----------
    names, units
        Of the d dimensions.
    error, stddev
        (K, d), in their units.
    nees
        (K,).
    settle_s
        What figures leave out at the start, s.
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    error: NDArray[np.float64]
    stddev: NDArray[np.float64]
    nees: Vector
    settle_s: float = 0.0


def thinning(runs: int) -> int:
    """Of how many instants one is looked at where so many runs are looked at together: memory is bounded."""
    return max(1, -(-runs * MOST_ROWS // MOST_TOGETHER))


def arrow() -> Any:
    """The package `pyarrow`, and its module `parquet` loaded; UserError where it is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise UserError(f"campaigns need pyarrow: {HINT}") from error
    return pyarrow


def write_errors(result: EvaluationResult, path: Path) -> None:
    """Write the errors of all parts: the estimates nearest to evenly spaced instants, `MOST_ROWS` of them at most.

    Columns: `time_s` since the first estimate, for each dimension `<part>.<name>.error` and `.stddev`, for each part
    `<part>.nees`; units and the start that figures leave out stand in the table's metadata.
    """
    pa = arrow()
    rows, time_s = _instants(result.time_s)
    columns: dict[str, Vector] = {"time_s": time_s}
    units: dict[str, str] = {}
    for part in result.parts.values():
        for column, (name, unit) in enumerate(zip(part.names, part.units, strict=True)):
            key = f"{part.name}.{name}"
            columns[f"{key}.error"], columns[f"{key}.stddev"] = part.error[rows, column], part.stddev[rows, column]
            units[key] = unit
        columns[f"{part.name}.nees"] = part.nees[rows]
    settle_s = result.metrics["run"]["left_out_at_start_s"]
    metadata = {"settle_s": f"{settle_s:g}", **{f"unit.{key}": unit for key, unit in units.items()}}
    pa.parquet.write_table(pa.table(columns).replace_schema_metadata(metadata), path)


def read_errors(path: Path, every: int = 1) -> tuple[Vector, dict[str, PartErrors]]:
    """Instants (K,), every n-th of them, and the parts by name."""
    table = arrow().parquet.read_table(path)
    metadata = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    columns = {name: table.column(name).to_numpy()[::every].copy() for name in table.column_names}
    parts: dict[str, list[str]] = {}
    for name in columns:
        if name.endswith(".error"):
            part, dimension = name.removesuffix(".error").split(".", 1)
            parts.setdefault(part, []).append(dimension)
    out = {
        part: PartErrors(
            tuple(names),
            tuple(metadata.get(f"unit.{part}.{name}", "") for name in names),
            np.column_stack([columns[f"{part}.{name}.error"] for name in names]),
            np.column_stack([columns[f"{part}.{name}.stddev"] for name in names]),
            columns[f"{part}.nees"],
            float(metadata.get("settle_s", 0.0)),
        )
        for part, names in parts.items()
    }
    return columns["time_s"], out


def _instants(time_s: Vector) -> tuple[NDArray[np.intp], Vector]:
    """Rows of the estimates nearest to evenly spaced instants, and these instants."""
    end_s = float(time_s[-1])
    step_s = next((one for one in _STEPS_S if end_s / one < MOST_ROWS), end_s / (MOST_ROWS - 1))
    spacing_s = float(np.median(np.diff(time_s))) if len(time_s) > 1 else step_s
    step_s = step_s * max(1, round(spacing_s / step_s))
    instants: Vector = step_s * np.arange(int(end_s / step_s + 1e-6) + 1, dtype=np.float64)
    after = np.clip(np.searchsorted(time_s, instants), 1, max(len(time_s) - 1, 1))
    if len(time_s) == 1:
        return np.zeros(len(instants), dtype=np.intp), instants
    rows: NDArray[np.intp] = np.where(instants - time_s[after - 1] <= time_s[after] - instants, after - 1, after)
    return rows, instants
