"""What all tests share."""

from __future__ import annotations

import fcntl
import itertools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

# Before NumPy is imported: with two pytest workers on two cores, threads of BLAS would only get in each other's way,
# and sums would come in another order on another machine.
for _library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

REPOSITORY = Path(__file__).resolve().parent.parent
_domains_tried = itertools.count()

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


@pytest.fixture
def ros_domain(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """ROS_DOMAIN_ID of this test alone: no other test, worker or run on this machine has it at the same time.

    Domains up to 100 keep clear of the ports that the system gives to others. Found on this machine only.
    """
    folder = Path(tempfile.gettempdir())
    for _ in range(100):
        domain = 1 + (os.getpid() * 7 + next(_domains_tried)) % 100
        try:
            lock = (folder / f"onboard_estimation_test_domain_{domain}.lock").open("a")
        except PermissionError:
            continue  # another user's
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            monkeypatch.setenv("ROS_DOMAIN_ID", str(domain))
            monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
            for name in ("ROS_LOCALHOST_ONLY", "ROS_STATIC_PEERS", "CYCLONEDDS_URI", "ROS_DISTRO"):
                monkeypatch.delenv(name, raising=False)
            yield domain
            return
    pytest.fail("all 100 ROS domains for tests are in use on this machine")
