"""Files that are written whole or not at all: a reader never finds half of one, and an older one stays until then."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from onboard_estimation.base.errors import UserError, disk_fault


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
