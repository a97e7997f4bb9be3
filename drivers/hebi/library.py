"""The library `hebi-py`, which is optional: whoever has no HEBI modules needs none."""

from __future__ import annotations

import contextlib
import io
from importlib import import_module
from typing import Any

from onboard_estimation.errors import UserError

LARGEST_FREQUENCY_HZ = 1000.0
"""Beyond it the library asks modules without a pause, and its thread takes a core."""


def hebi_library() -> Any:
    """The module `hebi`, with `hebi.util`; UserError with the way to get it where it is not installed."""
    try:
        # It prints that optional packages for drawing and keyboards are not there, which is nobody's concern here.
        with contextlib.redirect_stdout(io.StringIO()):
            import_module("hebi.util")
            return import_module("hebi")
    except (ImportError, OSError) as error:  # OSError: its binary is for another machine
        raise UserError(
            f"hebi-py cannot be loaded ({error}): pip install 'onboard_estimation[hebi]'; beside NumPy 2, which it "
            "works with though it asks for numpy<2: pip install --no-deps hebi-py"
        ) from error
