"""Errors that a user can mend: one clear line with numbers and a way out."""

from __future__ import annotations

import shutil
from pathlib import Path

# One error for both: the runtime, which needs nothing of the project, raises it as well.
from embedded_ros.errors import UserError as UserError

EXIT_BAD_INPUT = 2
"""Exit code of commands and nodes on bad input or wrong usage."""


def disk_fault(error: Exception, place: Path) -> str:
    """Why something could not be written, with what is free where it was to be: `no space left on device (3 MB free)`.

    Parameters
    ----------
    error
        An OSError, or one of sqlite3's.
    place
        A path on the same disk; it need not exist.
    """
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    reason = reason[:1].lower() + reason[1:]
    for folder in (place.absolute(), *place.absolute().parents):
        try:
            return f"{reason} ({shutil.disk_usage(folder).free / 1e6:.1f} MB free in {folder})"
        except OSError:
            continue
    return reason
