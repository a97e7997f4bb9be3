"""Results that a command keeps while it works, so that the same command, given again after Ctrl-C, takes them up.

They lie in a folder of the user's cache that is named for all that they depend on: what was asked, the content of the
recordings, the software. A command does the same tasks in the same order each time, so their numbers name the files.
The folder goes when the command is done; one that nobody goes on with goes with the compiled kernels of its time.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from onboard_estimation.base.atomic_file import write_atomically
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
        places = [self._folder / f"{self._calls}-{number}" for number in range(len(tasks))]
        missing = [number for number, place in enumerate(places) if not place.exists()]
        for number in sorted(set(range(len(tasks))) - set(missing)):
            yield Finished(number, _read(places[number]))
        for one in self._workers.results(function, [tasks[number] for number in missing]):
            number = missing[one.number]
            yield Finished(number, one.value if one.error else _kept(places[number], one.value), one.error)

    def once(self, compute: Callable[[], Any]) -> Any:
        self._calls += 1
        place = self._folder / f"{self._calls}"
        return _read(place) if place.exists() else _kept(place, compute())


def _read(place: Path) -> Any:
    return pickle.loads(place.read_bytes())  # noqa: S301 (a folder of this user alone)


def _kept(place: Path, value: Any) -> Any:
    with suppress(UserError):  # a full disk costs the way back, not the command
        write_atomically(place, pickle.dumps(value), f"result {place}")
    return value


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
