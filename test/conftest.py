"""What all tests share."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

# Before NumPy is imported: with two pytest workers on two cores, threads of BLAS would only get in each other's way,
# and sums would come in another order on another machine.
for _library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
# Nodes of tests look for each other on this machine only, those of `ros_domain` in a domain of their own as well.
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
# `nohup make test &` and cron start processes with SIGINT ignored, which all that the tests start would inherit: not
# those programs only that take it in any case, but also Python programs of the tests, and pytest itself.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

from onboard_estimation.base import ros2  # noqa: E402

REPOSITORY = Path(__file__).resolve().parent.parent
# Fast DDS 3, from Kilted on, warns of the name that Fast DDS 2 reads.
_fast_dds = "FASTRTPS" if any(older in ros2.name() for older in ("humble", "iron", "jazzy")) else "FASTDDS"
os.environ.setdefault(
    f"{_fast_dds}_DEFAULT_PROFILES_FILE", str(REPOSITORY / "test" / "support" / "quick_discovery.xml")
)
_domains_tried = itertools.count()

# The same examples in every run, and no example fails for being slow on a busy machine.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")


def pytest_sessionstart(session: pytest.Session) -> None:
    """In continuous integration tests of live nodes are run, not skipped, wherever ROS 2 can be installed."""
    if os.environ.get("CI") and ros2.rclpy_folder() is None and ros2.wheels_exist():
        pytest.exit(f"ROS 2 is not here: {ros2.how_to_install()}", returncode=1)


def pytest_sessionfinish() -> None:
    """Fast DDS's shared memory of processes that were killed: a small /dev/shm is full after some hundreds."""
    a_minute_ago = time.time() - 60.0
    for lock in Path("/dev/shm").glob("fastrtps_[0-9a-f]*_el"):
        with contextlib.suppress(OSError), lock.open() as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)  # its owner has it as long as it lives
            if lock.stat().st_mtime < a_minute_ago:
                Path(str(lock).removesuffix("_el")).unlink(missing_ok=True)
                lock.unlink()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what needs ROS 2 where there is none."""
    if ros2.rclpy_folder() is None:
        skip = pytest.mark.skip(reason=f"ROS 2 is not here: {ros2.how_to_install()}")
        for item in items:
            if item.get_closest_marker("live"):
                item.add_marker(skip)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Compile the kernels before the first test where one of them waits for processes that need them.

    A minute of compiling on an idle machine is many on a busy one, and several processes that start together would each
    compile the same: no test has to guess how long that takes. Workers share the work, one robot each.
    """
    if not any("compiled_kernels" in getattr(item, "fixturenames", ()) for item in session.items):
        return
    from onboard_estimation.base import kernel_cache

    folder = kernel_cache.configure()
    robots = ["salp", "hopper", "strapdown"]
    if any(item.path.parent.name == "thruster_chain" and item.get_closest_marker("slow") for item in session.items):
        robots.append("thruster_chain")
    if any(item.path.parent.name == "softrobot" and item.get_closest_marker("slow") for item in session.items):
        robots.append("softrobot")
    if os.environ.get("PYTEST_XDIST_WORKER", "gw0") != "gw0":
        robots.reverse()
    for robot in robots:
        compiled = folder / f"compiled_for_tests_{robot}_{sys.implementation.cache_tag}"
        with compiled.with_suffix(".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not compiled.exists():
                command = [sys.executable, "-m", "onboard_estimation", "warmup", robot]
                if subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=False).returncode == 0:
                    compiled.touch()


@pytest.fixture(scope="session")
def compiled_kernels() -> None:
    """Asks for the kernels to be compiled before the first test; see `pytest_collection_finish`."""


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
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plots and report take four fifths of the time of a short evaluation, and have tests of their own."""
    from onboard_estimation.report import run_folder

    for part in ("write_plots", "write_report"):
        monkeypatch.setattr(run_folder, part, lambda *_: None)


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
            for name in ("ROS_LOCALHOST_ONLY", "ROS_STATIC_PEERS"):
                monkeypatch.delenv(name, raising=False)
            yield domain
            return
    pytest.fail("all 100 ROS domains for tests are in use on this machine")
