"""A disk that is full: one sentence with what was needed and what is free, and nothing half-written."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from bag_samples import IMU, imu
from evaluation_samples import refusal, salp_messages, write
from serial_lines import line, saved

from onboard_estimation.bags.writing import BagWriter
from onboard_estimation.base.atomic_file import write_atomically
from onboard_estimation.base.errors import UserError
from onboard_estimation.report.run_folder import claimed

START_NS = 1_700_000_000 * 10**9


@contextmanager
def largest_file(size_bytes: int) -> Iterator[None]:
    """A limit on the size of files stands for the disk: Python ignores its signal, and writing fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real one of 400 kB, where this user may mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    options = ["-t", "tmpfs", "-o", "size=400k", "none", str(disk)]
    if shutil.which("mount") is None or subprocess.run(["mount", *options], capture_output=True).returncode:
        pytest.skip("this user may not mount a file system")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)  # what still holds a file there lets go later


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def fill(path: Path, storage: Any) -> None:
    message = imu(10**9, (0.0, 0.0, 0.0), (0.0, 0.0, 9.81))
    with BagWriter(path, storage) as writer:
        for number in range(1000):
            writer.write("/imu", IMU, START_NS + number, message)


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_a_bag_that_does_not_fit_leaves_nothing(storage: Any, tmp_path: Path) -> None:
    """The disk is full at the file's head, at its first topic, in its messages or at its end."""
    for size_bytes in (100, 5_000, 100_000):
        full = pytest.raises(UserError, match=r"cannot write .*MB free in")
        with full, largest_file(size_bytes):
            fill(tmp_path / "bag", storage)
        assert left(tmp_path) == []


def test_a_file_that_does_not_fit_leaves_the_older_one(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    write_atomically(path, b"older", "model")
    needed = pytest.raises(UserError, match=r"^model: cannot be written: 1\.0 MB needed, file too large \(.*MB free in")
    with needed, largest_file(1000):
        write_atomically(path, bytes(1_000_000), "model")
    assert path.read_bytes() == b"older"
    assert left(tmp_path) == ["model.npz"]


def test_simulate_convert_and_evaluate_say_in_one_line_that_the_disk_is_full(small_disk: Path, tmp_path: Path) -> None:
    bag = write(tmp_path / "long", salp_messages())
    for words in (
        ("simulate", "salp", "--duration", "20", "--storage", "mcap"),
        ("convert", "serial_log", saved(tmp_path, *line(5000)), "--storage", "sqlite3"),
        ("evaluate", bag),  # the run, or its estimates, whichever the disk has no room for
    ):
        said = refusal(*words, "--output", small_disk / "out")
        assert said.startswith("cannot write ")
        assert "MB free in" in said
        assert left(small_disk) == []


def test_output_into_a_full_device_is_one_line() -> None:
    """What is printed, too, is written: `> /dev/full`."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "onboard_estimation", "--help"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot write ")
    assert len(done.stderr.splitlines()) == 1, done.stderr


# Two runs into one folder.


def test_the_second_run_into_a_folder_learns_it_at_once(tmp_path: Path) -> None:
    """Before its bag is read, which is not even there."""
    with claimed(tmp_path / "run"):
        said = refusal("evaluate", tmp_path / "no_bag", "--output", tmp_path / "run")
        assert said.startswith(f"{tmp_path / 'run'}: another process is writing a run there; ")
        with claimed(tmp_path / "run", numbered=True) as other:
            assert other == tmp_path / "run-2"
    assert "no_bag does not exist" in refusal("evaluate", tmp_path / "no_bag", "--output", tmp_path / "run")


def test_a_claim_ends_with_its_process_however_that_ends(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    process = os.fork()
    if not process:  # killed below
        try:
            with claimed(tmp_path / "run"):
                os.write(writing, b"claimed")
                signal.pause()
        finally:
            os._exit(1)  # nothing of pytest goes on here
    try:
        assert os.read(reading, 7) == b"claimed"
        with pytest.raises(UserError, match="another process is writing"), claimed(tmp_path / "run"):
            pass
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    with claimed(tmp_path / "run"), claimed(tmp_path / "another"):
        pass
