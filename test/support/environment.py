"""The environment of a process that needs what the tests share."""

from __future__ import annotations

import os
from pathlib import Path


def with_support() -> dict[str, str]:
    """This process's environment, with the folder of this file among Python's paths."""
    paths = [str(Path(__file__).resolve().parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
