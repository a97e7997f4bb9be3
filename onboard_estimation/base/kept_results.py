"""Results that a command keeps while it works, so that the same command, given again after Ctrl-C, takes them up.

They lie in a folder of the user's cache that is named for all that they depend on: what was asked, the content of the
recordings, the software. A command does the same tasks in the same order each time, so their numbers name the files.
The folder goes when the command is done; one that nobody goes on with goes with the compiled kernels of its time.

A file holds plain values alone (JSON, and arrays as `.npz`), also of dataclasses and named tuples that are `keepable`.
Reading one runs nothing that is in it; what is damaged is computed anew.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onboard_estimation.base.atomic_file import write_atomically
from onboard_estimation.base.bounded_file import read_bounded
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.kernel_cache import cache_folder
from onboard_estimation.base.workers import Finished, Workers, software


class KeptResults(Workers):
    """Workers whose results are written down, and not asked for where they are there."""

    def __init__(self, workers: Workers, folder: Path) -> None:
        self.count, self.about = workers.count, workers.about
        self._workers, self._folder, self._calls = workers, folder, 0

    def everywhere(self, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        return self._workers.everywhere(function, *arguments)

    def results(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Finished]:
        self._calls += 1
        missing = []
        for number in range(len(tasks)):
            kept = self._read(number)
            if kept is _NOTHING:
                missing.append(number)
            else:
                yield Finished(number, kept)
        for one in self._workers.results(function, [tasks[number] for number in missing]):
            number = missing[one.number]
            if one.error is None:
                self._keep(number, one.value)
            yield Finished(number, one.value, one.error)

    def once(self, compute: Callable[[], Any]) -> Any:
        self._calls += 1
        kept = self._read(0)
        if kept is _NOTHING:
            kept = compute()
            self._keep(0, kept)
        return kept

    def _read(self, number: int) -> Any:
        place = self._folder / f"{self._calls}-{number}.npz"
        try:
            with np.load(io.BytesIO(read_bounded(place, str(place), _MOST_BYTES)), allow_pickle=False) as arrays:
                return _value(json.loads(arrays[_TREE].tobytes()), arrays)
        except Exception:  # not there, or damaged, however: it is computed anew
            return _NOTHING

    def _keep(self, number: int, value: Any) -> None:
        place = self._folder / f"{self._calls}-{number}.npz"
        arrays: dict[str, Any] = {}
        # A full disk, or a value that is not plain, costs the way back, not the command.
        with suppress(UserError, TypeError):
            arrays[_TREE] = np.frombuffer(json.dumps(_plain(value, arrays)).encode(), dtype=np.uint8)
            file = io.BytesIO()
            np.savez(file, **arrays)
            write_atomically(place, file.getvalue(), f"result {place}")


_NOTHING = object()
_TREE = "tree"
_MOST_BYTES = 2**30
_KINDS: dict[str, Any] = {"list": list, "tuple": tuple}


def keepable(*kinds: type) -> None:
    """Dataclasses and named tuples whose values are to be kept; those of others are computed anew each time."""
    _KINDS.update({_name(kind): kind for kind in kinds})


def _name(kind: type) -> str:
    return kind.__name__ if kind in (list, tuple) else f"{kind.__module__}.{kind.__qualname__}"


def _plain(value: Any, arrays: dict[str, Any]) -> Any:
    """As JSON has it, arrays by their names among `arrays`; TypeError for what is no plain value."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, dict) and all(type(key) is str for key in value):
        return {key: _plain(one, arrays) for key, one in value.items()}
    if isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
        arrays[f"array_{len(arrays)}"] = value
        return ["", f"array_{len(arrays) - 1}"]
    name = _name(type(value))
    if name not in _KINDS:
        raise TypeError(f"a {name} is no plain value that can be kept")
    parts = [getattr(value, one.name) for one in fields(value)] if is_dataclass(value) else value
    return [name, *(_plain(one, arrays) for one in parts)]


def _value(plain: Any, arrays: Any) -> Any:
    """What `_plain` was given; numbers of NumPy come back as such."""
    if isinstance(plain, dict):
        return {key: _value(one, arrays) for key, one in plain.items()}
    if not isinstance(plain, list):
        return plain
    name, *parts = plain
    if not name:
        return arrays[parts[0]][()]
    kind, values = _KINDS[name], [_value(one, arrays) for one in parts]
    return kind(values) if kind in (list, tuple) else kind(*values)


@contextmanager
def keeping(workers: Workers, *asked: Any) -> Iterator[Workers]:
    """Workers whose results an interrupted block with the same `asked` has left, and leaves; all go with its end.

    Where nothing can be written they are the workers themselves.
    """
    name = hashlib.sha256(json.dumps([asked, software()], default=repr).encode()).hexdigest()[:24]
    folder = cache_folder(f"unfinished-{name}")
    if folder is None:
        yield workers
        return
    yield KeptResults(workers, folder)
    shutil.rmtree(folder, ignore_errors=True)
