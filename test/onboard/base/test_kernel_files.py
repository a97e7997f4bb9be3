"""Compiled kernels that several processes write at once: never the machine code of another signature."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from onboard_estimation.base import kernel_files
from onboard_estimation.base.kernel_files import KernelFiles

KERNEL = """
from numba import njit

@njit(cache=True)
def total(values):
    result = 0.0
    for value in values:
        result += value
    return result

@njit(cache=True)
def hashed(text):
    return hash(text)
"""
USE = """
import sys
import numpy as np
import onboard_estimation
from probe import hashed, total
print(*(total(np.arange(10, dtype=one)) for one in sys.argv[1:]), len(total.stats.cache_hits))
"""
# Each file that a process writes is put in its place by os.replace, numba's own too; Path.replace calls it.
DELAYED = """
import os, signal, sys, time
from pathlib import Path

def say(what):
    Path(what).touch()

def await_(what):
    while not Path(what).exists():
        time.sleep(0.01)

class Kernels:
    count = 0

def delayed(source, target, replace=os.replace):
    Kernels.count += 1
    before(Kernels.count)
    replace(source, target)
    after(Kernels.count)

os.replace = delayed
"""
FIRST = """
def before(count):
    if count == 1:
        say("first looked")
        await_("second looked")
    else:
        await_("second done")

def after(count):
    say("first wrote")
"""
SECOND = """
def before(count):
    if count == 1:
        say("second looked")
        await_("first wrote")

def after(count):
    pass
"""
KILLED = """
def before(count):
    os.kill(os.getpid(), signal.SIGKILL if WHEN == "before" else 0)

def after(count):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def place_in(folder: Path) -> Path:
    """Folder with functions to compile, and of the processes that do."""
    (folder / "probe.py").write_text(KERNEL)
    return folder


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return place_in(tmp_path)


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Such a folder where the kernels are compiled for one type."""
    folder = place_in(tmp_path_factory.mktemp("warm"))
    assert printed(folder, USE + "assert hashed('some text') == hash('some text')", "float64") == "45.0 0"
    return folder


def started(place: Path, code: str, *dtypes: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *dtypes],
        cwd=place,
        env={**os.environ, "ONBOARD_ESTIMATION_CACHE_DIR": str(place / "cache")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def printed(place: Path, code: str, *dtypes: str) -> str:
    """Sums of 0 to 9, and how many signatures came from the disk."""
    out, errors = started(place, code, *dtypes).communicate()
    assert errors == ""
    return out.strip()


def kernels(place: Path) -> int:
    return len(list((place / "cache").rglob(f"*{kernel_files.SUFFIX}")))


@pytest.mark.slow
def test_two_cold_processes_with_two_signatures_give_a_third_the_right_sums(place: Path) -> None:
    """Both look before either has written; the first writes last. Machine code of the other type would sum bits."""
    first = started(place, DELAYED + FIRST + USE + "say('first done')", "float64")
    second = started(place, DELAYED + SECOND + USE + "say('second done')", "int64")
    for process in (first, second):
        assert process.communicate() == ("45.0 0\n", "")
    assert printed(place, USE, "int64", "float64") == "45.0 45.0 2"


@pytest.mark.slow
def test_a_process_killed_while_it_writes_leaves_nothing_wrong(warm: Path) -> None:
    """Before its file is in its place, and after it."""
    count = kernels(warm)
    for when, dtype, more in (("before", "int32", 0), ("after", "int64", 1)):
        killed = started(warm, DELAYED + KILLED.replace("WHEN", repr(when)) + USE, dtype)
        killed.communicate()
        assert killed.returncode == -signal.SIGKILL
        assert kernels(warm) == count + more
    assert printed(warm, USE, "int64", "float64", "int32") == "45.0 45.0 45.0 2"


@pytest.mark.slow
def test_a_kernel_that_asks_for_a_symbol_of_what_compiles_gets_it(warm: Path) -> None:
    """LLVM would end the process: strings are hashed with a secret of the interpreter that numba makes known."""
    code = "print(hashed('some text') == hash('some text'), len(hashed.stats.cache_hits))"
    assert printed(warm, USE + code) == "0\nTrue 1"


def test_a_file_that_is_damaged_or_of_another_key_counts_as_none(tmp_path: Path) -> None:
    files = KernelFiles(str(tmp_path), "total-5.py311", "stamp")
    files.save(("float64", "cpu"), "code for float64")
    (path,) = tmp_path.iterdir()
    files.save(("int64", "cpu"), "code for int64")
    (other,) = (one for one in tmp_path.iterdir() if one != path)
    whole = path.read_bytes()
    assert files.load(("float64", "cpu")) == "code for float64"
    assert files.load(("int32", "cpu")) is None
    assert KernelFiles(str(tmp_path), "total-5.py311", "later").load(("float64", "cpu")) is None
    flipped = (whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(0, len(whole), 3))
    for content in (other.read_bytes(), b"", *(whole[:length] for length in range(1, len(whole), 7)), *flipped):
        path.write_bytes(content)
        assert files.load(("float64", "cpu")) is None
    files.save(("float64", "cpu"), "code for float64")
    assert files.load(("float64", "cpu")) == "code for float64"
    files.flush()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_costs_a_warning_and_no_result(place: Path) -> None:
    """A limit on the size of files stands for the disk."""
    limit = "import resource, signal; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
    out, errors = started(place, limit + USE, "float64").communicate()
    assert out == "45.0 0\n"
    assert "RuntimeWarning: compiled kernels are not kept in " in errors
    assert "file too large" in errors
    assert not any(path.is_file() for path in (place / "cache").rglob("*"))
