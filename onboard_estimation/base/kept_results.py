"""Results that a command keeps while it works, so that the same command, given again after Ctrl-C, takes them up.

They lie in a folder of the user's cache that is named for all that they depend on: what was asked, the content of the
recordings, the software. A command does the same tasks in the same order each time, so their numbers name the files.
The folder goes when the command is done; one that nobody goes on with goes with the compiled kernels of its time.

A file is a pickle behind its checksum, as the kernels beside it; what is damaged is computed anew.
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

from onboard_estimation.base.atomic_file import read_sealed, write_sealed
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
            if kept is None:
                missing.append(number)
            else:
                yield Finished(number, *kept)
        for one in self._workers.results(function, [tasks[number] for number in missing]):
            number = missing[one.number]
            if one.error is None:
                self._keep(number, one.value)
            yield Finished(number, one.value, one.error)

    def once(self, compute: Callable[[], Any]) -> Any:
        self._calls += 1
        kept = self._read(0)
        if kept is None:
            kept = (compute(),)
            self._keep(0, *kept)
        return kept[0]

    def _read(self, number: int) -> tuple[Any] | None:
        """The value; None where it is not there, or damaged."""
        content = read_sealed(self._place(number))
        with suppress(Exception):  # as of another version of a library
            return None if content is None else (pickle.loads(content),)  # noqa: S301 as numba does beside it
        return None

    def _keep(self, number: int, value: Any) -> None:
        # A full disk, or a value that cannot be written, costs the way back, not the command.
        with suppress(UserError, pickle.PicklingError, AttributeError, TypeError):
            write_sealed(self._place(number), pickle.dumps(value), "result")

    def _place(self, number: int) -> Path:
        return self._folder / f"{self._calls}-{number}.kept"


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
