"""The library `pysoem`, which is optional: whoever has no EtherCAT needs none."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from onboard_estimation.errors import UserError


def pysoem_library() -> Any:
    """The module `pysoem`, with the GIL given up in its calls; UserError with the way to get it where it is missing."""
    try:
        library = import_module("pysoem")
    except (ImportError, OSError) as error:
        raise UserError(f"pysoem cannot be loaded ({error}): pip install 'onboard_estimation[ethercat]'") from error
    # Off by default: the whole process would stand still while a frame is under way.
    library.settings.always_release_gil = True
    return library
