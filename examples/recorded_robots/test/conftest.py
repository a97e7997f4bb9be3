"""What the tests of this package share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of the recorded data; a test that asks for it is skipped where there is none."""
    beside = Path(__file__).resolve().parents[4] / "shared" / "data"
    folder = Path(os.environ.get("ONBOARD_ESTIMATION_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"no recorded data in {folder}; name their folder in ONBOARD_ESTIMATION_DATA")
    return folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of this package's tests, `make test` runs none: what the suite itself does is tested beside it."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.example)
