"""Files that are written whole or not at all: a reader never finds half of one, and an older one stays until then."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from onboard_estimation.errors import UserError, disk_fault


def write_atomically(path: Path, data: bytes, what: str) -> None:
    """Write a file beside its place and move it there; an interrupt, too, leaves no temporary file behind.

    Parameters
    ----------
    path
        In a folder that is there.
    what
        Begin of the sentence that says what could not be written.

    Raises
    ------
    UserError
        The file cannot be written.
    """
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}-", delete=False) as file:
            temporary = Path(file.name)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # a temporary file is for its user only
        temporary.replace(path)
    except BaseException as error:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink()
        if isinstance(error, OSError):
            needed = f"{len(data) / 1e6:.1f} MB needed, "
            raise UserError(f"{what}: cannot be written: {needed}{disk_fault(error, path.parent)}") from error
        raise
