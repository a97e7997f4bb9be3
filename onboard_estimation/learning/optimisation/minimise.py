"""Minimise a cost over parameters within bounds, with one seed or several: the method is an argument, all else is one.

Whatever the method, a run tells its progress after each generation, and may be continued from its state file: every
cost that was computed, generation by generation. Optimisers are deterministic for a seed, so a run is continued by
running it again with the stored costs in place of the objective, up to where they end: exact for every method, whatever
it keeps inside, and quick, since the objective takes nearly all of the time. A digest of each generation's individuals
shows whether it really was the same run.

A state file is an `.npz` of plain arrays without pickle; one of them, `header`, holds JSON as UTF-8 bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.base.atomic_file import write_atomically
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.installed import versions
from onboard_estimation.learning.model_file import MOST_ARRAYS, read_arrays
from onboard_estimation.learning.optimisation.methods import METHODS
from onboard_estimation.learning.optimisation.problem import (
    Objective,
    Problem,
    Progress,
    ProgressCallback,
    Result,
    Settings,
)

WORST_COST = 1e100
"""Given to optimisers for a cost that is not finite; their arithmetic (means, squares) stays finite with it."""
FORMAT_VERSION = 1
LARGEST_FILE_BYTES = 256 * 1024 * 1024
LIBRARIES = ("numpy", "scipy", "cma")
"""That the course of a run depends on."""
_DIGEST_BYTES = 32
_KINDS = {"header": ("u1", 1), "costs": ("f8", 1), "sizes": ("i8", 1), "digests": ("u1", 2), "best": ("f8", 1)}
_KINDS["best_cost"] = ("f8", 0)
"""Type and dimensions of each array."""
_WAY_OUT = "give another path, or delete it to start anew"


def minimise(
    method: str,
    problem: Problem,
    objective: Objective,
    settings: Settings,
    progress: ProgressCallback | None = None,
    state_file: Path | None = None,
    initial: ArrayLike | None = None,
) -> Result:
    """Find parameters of low cost.

    The same seed gives the same result. A cost that is not finite, or 1e100 and more, counts as the worst.

    Parameters
    ----------
    method
        `genetic` (the hopper's paper, section IV-B), `differential_evolution` (SciPy), `cma` (CMA-ES), `gradient`
        (SciPy's L-BFGS-B with slopes by differences) or `pattern` (one parameter at a time).
    objective
        Costs (P,) of a population (P, n) in the parameters' units. Its exceptions pass through.
    progress
        Called after each generation that is computed.
    state_file
        Written after each generation. If it is there, the run is continued from it, with every method to the same
        result, bit by bit, as without the interruption. Asking for more generations lengthens a finished run.
        An interrupt (Ctrl-C) loses at most the generation that is being computed.
    initial
        (n,) or (k, n), individuals of the first population; the others are drawn evenly from the whole range. Methods
        without a population take the first as their starting point, and without one the middle of the range.

    Raises
    ------
    UserError
        A state file that is damaged or of another run, no finite cost at all, or the package `cma` is needed and not
        installed.
    """
    start = np.empty((0, problem.count)) if initial is None else problem.to_shares(np.atleast_2d(initial))
    run = _Run(method, problem, objective, settings, start, progress, state_file)
    METHODS[method](run.evaluate, problem, settings, start)
    return run.result()


def minimise_seeds(
    method: str,
    problem: Problem,
    objective: Objective,
    settings: Settings,
    seeds: Sequence[int],
    progress: ProgressCallback | None = None,
    state_file: Path | None = None,
) -> list[Result]:
    """`minimise` with each of several seeds, one after the other: the objective is what uses all cores.

    Parameters
    ----------
    settings
        Its own seed is not used.
    seeds
        Each once.
    progress
        Its share is that of all seeds together.
    state_file
        Each seed has its own: `training.npz` becomes `training_seed_3.npz`.

    Raises
    ------
    UserError
        As `minimise`; no seeds, or one of them twice.
    """
    if not seeds or len(set(seeds)) < len(seeds):
        raise UserError(f"seeds {list(seeds)}: at least one is needed, and each only once")
    results = []
    for number, seed in enumerate(seeds):

        def told(one: Progress, number: int = number) -> None:
            if progress is not None:
                progress(one._replace(share=(number + one.share) / len(seeds)))

        path = state_file and state_file.with_name(f"{state_file.stem}_seed_{seed}{state_file.suffix}")
        results.append(minimise(method, problem, objective, replace(settings, seed=seed), told, path))
    return results


@dataclass
class StoredRun:
    """What a state file holds; for whoever looks into it, also the best parameters so far and their cost.

    Attributes
    ----------
    identity
        Of problem, method and settings, as JSON knows it.
    libraries
        Versions of the libraries that it was made with.
    costs
        Of each generation that is done, (P,); infinite where the objective's was not finite.
    digests
        Of each generation's individuals.
    """

    identity: dict[str, Any]
    libraries: dict[str, str] = field(default_factory=lambda: versions(LIBRARIES))
    costs: list[NDArray[np.float64]] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)


class _Run:
    """Between an optimiser, which knows shares of ranges, and the objective, which knows parameters in their units.

    It keeps all costs, stores them, and replays what a state file at `path` holds.
    """

    def __init__(
        self,
        method: str,
        problem: Problem,
        objective: Objective,
        settings: Settings,
        start: NDArray[np.float64],
        progress: ProgressCallback | None,
        path: Path | None,
    ) -> None:
        self._method, self._problem, self._objective, self._settings = method, problem, objective, settings
        self._progress, self._path = progress, path
        self._best, self._best_cost, self._generation = np.empty(0), np.inf, 0
        # More generations continue the same run.
        limits = {name: value for name, value in asdict(settings).items() if name != "generations"}
        identity = {"method": method, "problem": asdict(problem), "settings": limits, "start": start.tolist()}
        identity = json.loads(json.dumps(identity))  # as the file has it: tuples become lists
        found = None if path is None else load_state(path)
        if found is not None:
            _require_same(found.identity, identity, path)
        self._stored = found or StoredRun(identity)
        self._restored = len(self._stored.costs)

    def evaluate(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Costs (P,) of one generation (P, n); `WORST_COST` where the objective's is not finite.

        The generation is stored before anything is told of it.
        """
        shares = np.ascontiguousarray(shares, dtype="<f8")  # SciPy's come by columns, compiled objectives want rows
        digest = hashlib.sha256(np.array(shares.shape, dtype="<i8").tobytes() + shares.tobytes()).digest()
        restored = self._generation < self._restored
        if restored and digest != self._stored.digests[self._generation]:
            raise UserError(self._other_course())
        if not restored:
            self._stored.costs.append(self._ask(shares))
            self._stored.digests.append(digest)
        costs = self._stored.costs[self._generation]
        self._generation += 1
        place = int(np.argmin(costs))
        if costs[place] < self._best_cost:
            self._best, self._best_cost = self._problem.to_units(shares[place]), float(costs[place])
        if not restored:
            if self._path is not None:
                save_state(self._path, self._stored, self._best, self._best_cost)
            self._report(min(1.0, self._generation / self._settings.generations))
        return np.where(np.isfinite(costs), costs, WORST_COST)

    def result(self) -> Result:
        """What came out; UserError if not one cost was finite."""
        if self._generation < self._restored:
            raise UserError(
                f"state file {self._path}: holds {self._restored} generations, {self._settings.generations} are asked "
                "for; ask for at least as many, or give another path"
            )
        evaluations = sum(map(len, self._stored.costs))
        if not np.isfinite(self._best_cost):
            raise UserError(
                f"none of {evaluations} costs was finite, so there is nothing to choose from: check the data that the "
                "cost is computed from, and the bounds"
            )
        if self._generation < self._settings.generations or self._restored == self._generation:
            self._report(1.0)
        return Result(self._method, self._settings.seed, self._best, self._best_cost, evaluations)

    def _ask(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        costs = np.asarray(self._objective(self._problem.to_units(shares)), dtype=np.float64)
        if costs.shape != shares.shape[:1]:
            raise ValueError(f"the objective gave costs of shape {costs.shape} for {len(shares)} individuals")
        return np.where(np.isfinite(costs) & (np.abs(costs) < WORST_COST), costs, np.inf)

    def _report(self, share: float) -> None:
        if self._progress is not None:
            self._progress(Progress(self._settings.seed, self._generation, self._best_cost, share))

    def _other_course(self) -> str:
        made_with = self._stored.libraries
        differences = [
            f"{name} {made_with.get(name)}, here {version}"
            for name, version in versions(LIBRARIES).items()
            if made_with.get(name) != version
        ]
        return (
            f"state file {self._path}: the run cannot be continued: generation {self._generation + 1} of "
            f"{self._restored} comes out differently here (made with {'; '.join(differences) or 'another machine'}). "
            "Start anew with another state file"
        )


def _require_same(found: dict[str, Any], identity: dict[str, Any], path: Path | None) -> None:
    there, here = ({**one, **one.get("problem", {}), **one.get("settings", {})} for one in (found, identity))
    differences = [
        f"{name} is {there.get(name)!s:.80}, here {here.get(name)!s:.80}"
        for name in sorted((there.keys() | here.keys()) - {"problem", "settings"})
        if there.get(name) != here.get(name)
    ]
    if differences:
        raise UserError(f"state file {path}: of another optimisation ({'; '.join(differences)}); {_WAY_OUT}")


def save_state(path: Path, run: StoredRun, best: NDArray[np.float64], best_cost: float) -> None:
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
        costs=np.concatenate(run.costs),
        sizes=np.array([len(costs) for costs in run.costs], dtype=np.int64),
        digests=np.frombuffer(b"".join(run.digests), dtype=np.uint8).reshape(-1, _DIGEST_BYTES),
        best=best,
        best_cost=np.float64(best_cost),
    )
    with suppress(OSError):  # said when the file cannot be written
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, buffer.getvalue(), f"state file {path}")


def load_state(path: Path) -> StoredRun | None:
    """The run in the file, or None where there is no such file.

    Raises
    ------
    UserError
        Not such a file, of another format version, too large, or damaged.
    """
    where, what = f"state file {path}", "the state of an optimisation"
    try:
        arrays: dict[str, NDArray[Any]] = read_arrays(path, where, what, _WAY_OUT, LARGEST_FILE_BYTES, MOST_ARRAYS)
        if {name: (value.dtype.str[1:], value.ndim) for name, value in arrays.items()} != _KINDS:
            raise ValueError(f"arrays {', '.join(f'{name} {value.dtype}' for name, value in sorted(arrays.items()))}")
        header = json.loads(arrays["header"].tobytes().decode())
        if header["format_version"] != FORMAT_VERSION:
            raise ValueError(f"not of format version {FORMAT_VERSION}")
        costs, sizes, digests = arrays["costs"], arrays["sizes"], arrays["digests"]
        if (sizes < 1).any() or sizes.sum() != len(costs) or digests.shape != (len(sizes), _DIGEST_BYTES):
            raise ValueError(f"{len(costs)} costs and {len(digests)} digests for {len(sizes)} generations")
        if np.isnan(costs).any():
            raise ValueError("a cost that is not a number")
        generations = np.split(costs, np.cumsum(sizes)[:-1]) if len(sizes) else []
        return StoredRun(
            dict(header["identity"]), dict(header["libraries"]), generations, [row.tobytes() for row in digests]
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{where}: not {what}, or damaged ({error}); {_WAY_OUT}") from error
