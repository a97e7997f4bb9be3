"""What all tests share."""

from __future__ import annotations

import os
from pathlib import Path

# Before NumPy is imported: with two pytest workers on two cores, threads of BLAS would only get in each other's way,
# and sums would come in another order on another machine.
for _library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

REPOSITORY = Path(__file__).resolve().parent.parent

# The same examples in every run, and no example fails for being slow on a busy machine.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def repository() -> Path:
    """Root of the source tree."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of the recorded data; a test that asks for it is skipped where there is none."""
    named = os.environ.get("ONBOARD_ESTIMATION_DATA")
    folder = Path(named) if named else REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no recorded data in {folder}; name their folder in ONBOARD_ESTIMATION_DATA")
    return folder
