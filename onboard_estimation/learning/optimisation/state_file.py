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
import struct
import tokenize
import zipfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.atomic_file import write_atomically
from onboard_estimation.errors import UserError
from onboard_estimation.installed import versions

FORMAT_VERSION = 1
LARGEST_FILE_BYTES = 256 * 1024 * 1024
# What zipfile, NumPy and json raise on damaged files.
_DAMAGE = (
    *(zipfile.BadZipFile, ValueError, TypeError, KeyError, EOFError, NotImplementedError, RuntimeError, SyntaxError),
    *(MemoryError, OverflowError, RecursionError, struct.error, tokenize.TokenError),
)
_LIBRARIES = ("numpy", "scipy", "cma")
_DIGEST_BYTES = 32
_DIMENSIONS = {"header": 1, "costs": 1, "sizes": 1, "digests": 2, "best": 1, "best_cost": 0}
_TYPES = {"header": np.uint8, "sizes": np.int64, "digests": np.uint8}  # the others: float64


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
    libraries: dict[str, str] = field(default_factory=lambda: library_versions())


def library_versions() -> dict[str, str]:
    """Of the libraries that the course of a run depends on, by name."""
    return versions(_LIBRARIES)


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
    way_out = "give another path, or delete it to start anew"
    try:
        size = path.stat().st_size
        if size > LARGEST_FILE_BYTES:
            raise UserError(f"{where}: {size / 1e6:.0f} MB, it has at most {LARGEST_FILE_BYTES / 1e6:.0f}; {way_out}")
        with zipfile.ZipFile(path) as archive:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise ValueError("compressed, so not written by this program")
        with np.load(path, allow_pickle=False) as content:
            arrays = {name: content[name] for name in content.files}
        return _run(arrays)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"{where}: cannot be read: {error.strerror or error}") from error
    except _DAMAGE as error:
        raise UserError(f"{where}: not the state of an optimisation, or damaged ({error}); {way_out}") from error


def _run(arrays: dict[str, NDArray[Any]]) -> StoredRun:
    """The run of a file's arrays; ValueError where they are none."""
    if set(arrays) != set(_DIMENSIONS):
        raise ValueError(f"arrays {', '.join(sorted(arrays))}")
    for name, value in arrays.items():
        if value.ndim != _DIMENSIONS[name] or value.dtype != _TYPES.get(name, np.float64):
            raise ValueError(f"array {name} of type {value.dtype} with {value.ndim} dimensions")
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
