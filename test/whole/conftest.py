"""What tests of the whole share."""

from __future__ import annotations

from pathlib import Path

import pytest
from built_packages import build


@pytest.fixture(scope="session")
def built(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the sdist and with the wheel that is built from it."""
    return build(repository, tmp_path_factory.mktemp("build"))
