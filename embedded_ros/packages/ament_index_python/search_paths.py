"""Prefixes that a sourced workspace names."""

from __future__ import annotations

import os
from pathlib import Path

AMENT_PREFIX_PATH = "AMENT_PREFIX_PATH"


def get_search_paths() -> list[str]:
    """Folders of AMENT_PREFIX_PATH that exist; none where no workspace is sourced, which is no error here."""
    return [prefix for prefix in os.environ.get(AMENT_PREFIX_PATH, "").split(os.pathsep) if _is_folder(prefix)]


def _is_folder(prefix: str) -> bool:
    return bool(prefix) and Path(prefix).is_dir()
