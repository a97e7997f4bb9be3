"""Compiled kernels that several processes write at once: never the machine code of another signature."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
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
"""
USE = """
import sys
import numpy as np
import onboard_estimation
from probe import total
print(total(np.arange(10, dtype=sys.argv[1])), len(total.stats.cache_hits))
"""
# Each file that a process writes is put in its place by os.replace, numba's own too; Path.replace calls it.
DELAYED = """
import os, sys, time
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
import signal

def before(count):
    if count == AT:
        os.kill(os.getpid(), signal.SIGKILL)

def after(count):
    if count == -AT:
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Folder with a function to compile, and of the processes that do."""
    (tmp_path / "probe.py").write_text(KERNEL)
    return tmp_path


def started(place: Path, code: str, dtype: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, dtype],
        cwd=place,
        env={**os.environ, "ONBOARD_ESTIMATION_CACHE_DIR": str(place / "cache")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def printed(place: Path, code: str, dtype: str) -> str:
    """Sum of 0 to 9, and how many signatures came from the disk."""
    out, errors = started(place, code, dtype).communicate(timeout=90)
    assert errors == ""
    return out.strip()


def kernels(place: Path) -> Iterator[Path]:
    return (path for path in (place / "cache").rglob("*") if path.is_file())


@pytest.mark.slow
def test_two_cold_processes_with_two_signatures_give_a_third_the_right_sums(place: Path) -> None:
    """Both look before either has written; the first writes last. Machine code of the other type would sum bits."""
    first = started(place, DELAYED + FIRST + USE + "say('first done')", "float64")
    second = started(place, DELAYED + SECOND + USE + "say('second done')", "int64")
    for process in (first, second):
        out, errors = process.communicate(timeout=90)
        assert (out, errors) == ("45.0 0\n", "")
    assert printed(place, USE, "int64") == "45.0 1"
    assert printed(place, USE, "float64") == "45.0 1"


@pytest.mark.parametrize("at", [1, -1])
@pytest.mark.slow
def test_a_process_killed_while_it_writes_leaves_nothing_wrong(place: Path, at: int) -> None:
    """Before its first file is in its place, and after it."""
    assert printed(place, USE, "float64") == "45.0 0"
    killed = started(place, DELAYED + KILLED.replace("AT", str(at)) + USE, "int64")
    killed.communicate(timeout=90)
    assert killed.returncode == -signal.SIGKILL
    assert printed(place, USE, "int64") == ("45.0 0" if at > 0 else "45.0 1")
    assert printed(place, USE, "float64") == "45.0 1"


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
    for content in (other.read_bytes(), b"", *(whole[:length] for length in range(1, len(whole), 7))):
        path.write_bytes(content)
        assert files.load(("float64", "cpu")) is None
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert files.load(("float64", "cpu")) is None
    files.save(("float64", "cpu"), "code for float64")
    assert files.load(("float64", "cpu")) == "code for float64"
    files.flush()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_costs_a_warning_and_no_result(place: Path) -> None:
    """A limit on the size of files stands for the disk."""
    limit = "import resource, signal; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
    out, errors = started(place, limit + USE, "float64").communicate(timeout=90)
    assert out == "45.0 0\n"
    assert "RuntimeWarning: compiled kernels are not kept in " in errors
    assert "File too large" in errors
    assert list(kernels(place)) == []


def test_a_numba_that_is_built_differently_shares_nothing(place: Path) -> None:
    code = (
        "import os, onboard_estimation, numba.core.caching as caching\n"
        "from onboard_estimation import kernel_cache\n"
        "class IndexDataCacheFile(caching.IndexDataCacheFile):\n"
        "    def save(self, key, data, more):\n"
        "        pass\n"
        "caching.IndexDataCacheFile = IndexDataCacheFile\n"
        "kernel_cache.configure()\n"
        "print(os.environ['NUMBA_CACHE_DIR'])\n"
    )
    out, errors = started(place, code, "").communicate(timeout=90)
    assert "has no IndexDataCacheFile.save(key, data)" in errors
    assert errors.count("RuntimeWarning: ") == 1
    assert not out.startswith(str(place))
    assert not Path(out.strip()).exists()  # it went with the process


HASHING = """
from numba import njit

@njit(cache=True)
def hashed(text):
    return hash(text)
"""
LOADED = """
import sys
import numpy as np
import onboard_estimation
from probe import total
print(total(np.arange(10.0)), len(total.stats.cache_hits), "numba.cpython.setobj" in sys.modules)
"""
HASHED = """
import onboard_estimation
from hashing import hashed
print(hashed("text of some length") == hash("text of some length"), len(hashed.stats.cache_hits))
"""
COMPILED_AFTER = """
import onboard_estimation
import numpy as np
from numba import njit
from probe import total

total(np.arange(10.0))
twice = njit(lambda values: 2.0 * total(values) + np.linalg.norm(values))
print(twice(np.arange(10.0)) > 90.0, total(np.arange(10, dtype=np.int8)))
"""


@pytest.mark.slow
def test_a_kernel_is_loaded_without_what_compiles_and_others_compile_after_it(place: Path) -> None:
    assert printed(place, LOADED, "") == "45.0 0 True"
    assert printed(place, LOADED, "") == "45.0 1 False"
    assert printed(place, COMPILED_AFTER, "") == "True 45.0"


@pytest.mark.slow
def test_a_kernel_that_asks_for_a_symbol_of_what_compiles_gets_it(place: Path) -> None:
    """LLVM would end the process: strings are hashed with a secret of the interpreter that numba makes known."""
    (place / "hashing.py").write_text(HASHING)
    assert printed(place, HASHED, "") == "True 0"
    assert printed(place, HASHED, "") == "True 1"


@pytest.mark.parametrize("known", [True, False])
def test_what_compiles_is_loaded_before_a_kernel_that_asks_for_what_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    loaded: list[str] = []
    monkeypatch.setattr(kernel_files, "can_be_linked", lambda data: known)
    monkeypatch.setattr(kernel_files, "_load_what_compiles", lambda: loaded.append("all"))
    files = KernelFiles(str(tmp_path), "probe", "stamp")
    files.save("key", "a kernel")
    assert files.load("other") is None
    assert loaded == []
    assert files.load("key") == "a kernel"
    assert loaded == ([] if known else ["all"])
