"""Files that are written whole or not at all: a reader never finds half of one, and an older one stays until then.

Whether a place can be written is tried before the work whose result it shall hold.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from onboard_estimation.base.errors import UserError, disk_fault

_PROBE_BYTES = 4096
Content = TypeVar("Content")


def read_once(read: Callable[[Path], Content]) -> Callable[[Path], Content]:
    """The same of a file, which is read again only where it has changed since."""
    kept = lru_cache(maxsize=8)(lambda path, changed_ns: read(path))

    def content(path: Path) -> Content:
        changed_ns = 0
        with suppress(OSError):  # what is wrong with it, reading says
            changed_ns = path.stat().st_mtime_ns
        return kept(path.absolute(), changed_ns)

    return content


def write_atomically(path: Path, data: bytes, what: str) -> None:
    """Write a file beside its place and move it there; an interrupt, too, leaves no temporary file behind.

    Parameters
    ----------
    path
        Folders above it are made where they are not there.
    what
        Begin of the sentence that says what could not be written.

    Raises
    ------
    UserError
        The file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent, ignore_cleanup_errors=True) as place:
            new = Path(place) / "new"
            with new.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            new.replace(path)
    except OSError as error:
        needed = f"{len(data) / 1e6:.1f} MB needed, "
        raise UserError(f"{what}: cannot be written: {needed}{disk_fault(error, path)}") from error


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder to be filled beside its place, and moved there when the block ends; nothing is left of one that fails.

    Raises
    ------
    UserError
        As `check_output`; the disk is full, or fails.
    """
    check_output(folder, folder=True)
    try:
        parent = folder.absolute().parent
        parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=parent, ignore_cleanup_errors=True) as workshop:
            place = Path(workshop) / folder.absolute().name  # the workshop itself is closed to other users
            place.mkdir()
            yield place
            check_output(folder, folder=True)
            place.replace(folder)
    except OSError as error:
        raise UserError(f"cannot write {folder}: {disk_fault(error, folder)}; nothing is left of it") from error


def check_output(path: Path, folder: bool = False, replaced: bool = False, endings: Sequence[str] = ()) -> None:
    """Refuse a place that cannot be written, by trying it.

    Parameters
    ----------
    folder
        A folder is to be written, else a file; folders above it may be absent.
    replaced
        What is there may be replaced, or gone on with; whoever writes refuses what he does not replace.
    endings
        Of the file's name, one of them.

    Raises
    ------
    UserError
        Something is there (an empty folder may be), the name cannot be one, or nothing can be written at that place.
    """
    if endings and path.suffix not in endings:
        raise UserError(f"--output {path}: the name must end in {' or '.join(endings)}")
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            path.lstat()  # raises where a name is too long
            _refuse_what_is_there(path, folder, replaced)
        # What is new is made beside its place, and moved there.
        above = path.absolute().parents
        place = path if folder and replaced and path.exists() else next(one for one in above if one.exists())
        if not place.is_dir():
            raise UserError(f"cannot write {path}: {place} is no folder")
        with tempfile.TemporaryFile(dir=place) as probe:
            probe.write(bytes(_PROBE_BYTES))
            probe.flush()
    except OSError as error:
        raise UserError(f"cannot write {path}: {disk_fault(error, path)}") from error


def _refuse_what_is_there(path: Path, folder: bool, replaced: bool) -> None:
    if folder != path.is_dir():
        said = "exists and is no folder; name another --output" if folder else "is a folder; name a file in it"
        raise UserError(f"{path} {said}")
    if not replaced and not folder:
        raise UserError(f"{path} exists already; name another --output")
    if not replaced and path.is_mount():
        raise UserError(f"{path} is where a disk is mounted, and cannot be replaced; name a folder in it")
    if not replaced and any(path.iterdir()):
        raise UserError(f"{path} exists already and is not empty; name another --output")


# JSON as this project writes it: indented, keys sorted, no numbers that JSON does not have.


def to_json(value: Any) -> str:
    """Indented JSON with sorted keys; NaN and infinities become null."""
    return json.dumps(plain(value), indent=2, sort_keys=True, allow_nan=False) + "\n"


def plain(value: Any) -> Any:
    """The value as JSON has it: mappings, lists, text and numbers; null for what is not finite."""
    if isinstance(value, Mapping):
        return {str(key): plain(element) for key, element in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(element) for element in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
