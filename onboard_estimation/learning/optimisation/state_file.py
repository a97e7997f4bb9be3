"""The file that an interrupted run is continued from: every cost that was computed, generation by generation.

Optimisers are deterministic for a seed, so a run is continued by running it again with the stored costs in place of the
objective, up to where they end: exact for every method, whatever it keeps inside, and quick, since the objective takes
nearly all of the time. A digest of each generation's individuals shows whether it really was the same run.

A file is an `.npz` of plain arrays without pickle; one of them, `header`, holds JSON as UTF-8 bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.atomic_file import write_atomically
from onboard_estimation.errors import UserError
from onboard_estimation.installed import versions
from onboard_estimation.learning.model_file import MOST_ARRAYS, Arrays, read_arrays

FORMAT_VERSION = 1
LARGEST_FILE_BYTES = 256 * 1024 * 1024
LIBRARIES = ("numpy", "scipy", "cma")
"""That the course of a run depends on."""
_DIGEST_BYTES = 32
_KINDS = {"header": ("u1", 1), "costs": ("f8", 1), "sizes": ("i8", 1), "digests": ("u1", 2), "best": ("f8", 1)}
_KINDS["best_cost"] = ("f8", 0)
"""Type and dimensions of each array."""


@dataclass
class StoredRun:
    """What a state file holds.

    Attributes
    ----------
    identity
        Of problem, method and settings, as JSON knows it.
    costs
        Of each generation that is done, (P,); infinite where the objective's was not finite.
    digests
        Of each generation's individuals.
    best
        (n,), parameters with the lowest cost so far, in their units; empty while none was finite.
    best_cost
        Of `best`; infinite while none was finite.
    libraries
        Versions of the libraries that it was made with.
    """

    identity: dict[str, Any]
    costs: list[NDArray[np.float64]] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)
    best: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    best_cost: float = np.inf
    libraries: dict[str, str] = field(default_factory=lambda: versions(LIBRARIES))


def digest(population: NDArray[np.float64]) -> bytes:
    """SHA-256 of a population's shape and numbers."""
    shape = np.array(population.shape, dtype="<i8").tobytes()
    return hashlib.sha256(shape + np.ascontiguousarray(population, dtype="<f8").tobytes()).digest()


def save(path: Path, run: StoredRun) -> None:
    """Write it, all or nothing: whoever reads `path` meanwhile, or after an interrupt, finds the old or the new file.

    Raises
    ------
    UserError
        The file cannot be written.
    """
    header = {"format_version": FORMAT_VERSION, "libraries": run.libraries, "identity": run.identity}
    buffer = io.BytesIO()
    np.savez(
        buffer,
        header=np.frombuffer(json.dumps(header, sort_keys=True, allow_nan=False).encode(), dtype=np.uint8),
        costs=np.concatenate([np.empty(0), *run.costs]),
        sizes=np.array([len(costs) for costs in run.costs], dtype=np.int64),
        digests=np.frombuffer(b"".join(run.digests), dtype=np.uint8).reshape(-1, _DIGEST_BYTES),
        best=run.best,
        best_cost=np.float64(run.best_cost),
    )
    with suppress(OSError):  # said when the file cannot be written
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, buffer.getvalue(), f"state file {path}")


def load(path: Path) -> StoredRun | None:
    """The run in the file, or None where there is no such file.

    Raises
    ------
    UserError
        Not such a file, of another format version, too large, or damaged.
    """
    where = f"state file {path}"
    what, way_out = "the state of an optimisation", "give another path, or delete it to start anew"
    try:
        arrays = read_arrays(path, where, what, way_out, LARGEST_FILE_BYTES, MOST_ARRAYS)
    except FileNotFoundError:
        return None
    try:
        return _run(arrays)
    except (ValueError, KeyError, RecursionError) as error:
        raise UserError(f"{where}: not {what}, or damaged ({error}); {way_out}") from error


def _run(arrays: Arrays) -> StoredRun:
    """The run of a file's arrays; ValueError or KeyError where they are none."""
    if {name: (value.dtype.str[1:], value.ndim) for name, value in arrays.items()} != _KINDS:
        raise ValueError(f"arrays {', '.join(f'{name} {value.dtype}' for name, value in sorted(arrays.items()))}")
    header = json.loads(arrays["header"].tobytes().decode())
    if not isinstance(header, dict) or header.get("format_version") != FORMAT_VERSION:
        raise ValueError(f"not of format version {FORMAT_VERSION}")
    identity, libraries = header["identity"], header["libraries"]
    if not (isinstance(identity, dict) and isinstance(libraries, dict)):
        raise ValueError("a header without identity or libraries")
    costs, sizes, digests = arrays["costs"], arrays["sizes"], arrays["digests"]
    if (sizes < 1).any() or sizes.sum() != len(costs) or digests.shape != (len(sizes), _DIGEST_BYTES):
        raise ValueError(f"{len(costs)} costs and {len(digests)} digests for {len(sizes)} generations")
    if np.isnan(costs).any():
        raise ValueError("a cost that is not a number")
    return StoredRun(
        identity,
        np.split(costs, np.cumsum(sizes)[:-1]) if len(sizes) else [],
        [row.tobytes() for row in digests],
        arrays["best"],
        float(arrays["best_cost"]),
        libraries,
    )
