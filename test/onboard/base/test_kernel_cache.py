"""numba's folder on disk: renewed with the sources, and a start goes well wherever it cannot be written."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from onboard_estimation.base import kernel_cache

KERNEL = """
from numba import njit
from {callee} import scale

@njit(cache=True)
def kernel(x):
    return scale(x)
"""
CALLEE = """
from numba import njit

@njit
def scale(x):
    return {factor} * x
"""
RUN_KERNEL = "from onboard_estimation.probe_kernel import kernel; print(kernel(2.0), len(kernel.stats.cache_hits))"
SHOW_FOLDER = """
import os, sys, onboard_estimation
from onboard_estimation.base.kernel_cache import configure
assert str(configure()) == os.environ['NUMBA_CACHE_DIR']
assert not {'numba', 'numpy'} & set(sys.modules)
print(os.environ['NUMBA_CACHE_DIR'])
"""
VARIABLES = ("NUMBA_CACHE_DIR", "ONBOARD_ESTIMATION_CACHE_DIR", "XDG_CACHE_HOME")


@pytest.fixture
def tree(repository: Path, tmp_path: Path) -> Path:
    """Copy of the shared package's lowest modules, with a kernel and its callee in two files."""
    tree = tmp_path / "tree"
    package = tree / "onboard_estimation"
    package.mkdir(parents=True)
    for path in (repository / "onboard_estimation").glob("*.py"):
        shutil.copy(path, package)
    shutil.copytree(repository / "onboard_estimation" / "base", package / "base", ignore=shutil.ignore_patterns("_*_"))
    write_kernel(package, "onboard_estimation.probe_callee", 3.0, ("probe_kernel", "probe_callee"))
    return tree


def write_kernel(folder: Path, callee: str, factor: float, names: tuple[str, str] = ("kernel", "callee")) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{names[0]}.py").write_text("import onboard_estimation\n" + KERNEL.format(callee=callee))
    (folder / f"{names[1]}.py").write_text(CALLEE.format(factor=factor))


def run(code: str, tree: Path, **variables: str) -> tuple[int, str, str]:
    """Exit code and outputs of a process that runs the copy, with a home of its own and no folder inherited."""
    inherited = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    home = tree.parent / "home"
    home.mkdir(exist_ok=True)
    own = {"PYTHONPATH": str(tree), "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1", **variables}
    # In a folder without packages, so that `import` finds the copy.
    done = subprocess.run(
        [sys.executable, "-c", code], env={**inherited, **own}, cwd=os.sep, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout.strip(), done.stderr


def output(code: str, tree: Path, **variables: str) -> str:
    exit_code, printed, errors = run(code, tree, **variables)
    assert (exit_code, errors) == (0, "")
    return printed


@pytest.mark.slow
def test_a_copy_elsewhere_finds_the_kernels_and_one_with_an_edited_callee_its_own(tree: Path) -> None:
    """As colcon installs a package, with other times and under another path."""
    assert output(RUN_KERNEL, tree) == "6.0 0"
    copy = tree.parent / "workspace"
    shutil.copytree(tree, copy, copy_function=shutil.copyfile)
    shutil.rmtree(tree)
    assert output(RUN_KERNEL, copy) == "6.0 1"
    (copy / "onboard_estimation" / "probe_callee.py").write_text(CALLEE.format(factor=5.0))
    assert output(RUN_KERNEL, copy) == "10.0 0"


def test_what_a_kernel_is_made_of_changes_the_folder_and_nothing_else(tree: Path) -> None:
    package = tree / "onboard_estimation"
    kernel = package / "probe_kernel.py"
    only_types = (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from onboard_estimation.probe_types import X\n"
    )
    kernel.write_text(only_types + kernel.read_text())
    (package / "probe_types.py").write_text("X = 1\n")
    first = output(SHOW_FOLDER, tree)
    (package / "probe_types.py").write_text("X = 2\n")
    assert output(SHOW_FOLDER, tree) == first
    kernel.write_text("from onboard_estimation.probe_types import X\n" + kernel.read_text())
    assert (second := output(SHOW_FOLDER, tree)) != first
    # The callee of a robot from another package.
    write_kernel(tree / "laboratory", "laboratory.callee", 3.0)
    (tree / "laboratory" / "__init__.py").touch()
    information = tree / "laboratory-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: laboratory\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[onboard_estimation.robots]\ncrawler = laboratory.robot:ROBOT\n")
    assert (third := output(SHOW_FOLDER, tree)) != second
    write_kernel(tree / "laboratory", "laboratory.callee", 5.0)
    assert output(SHOW_FOLDER, tree) != third


def test_the_folder_is_private_and_where_the_user_wants_it(tree: Path) -> None:
    """And choosing it imports no numba."""
    first = Path(output(SHOW_FOLDER, tree))
    assert first.parent == tree.parent / "home" / ".cache" / "onboard_estimation"
    assert stat.S_IMODE(first.stat().st_mode) == 0o700
    chosen = str(tree.parent / "chosen")
    for variable, below in zip(VARIABLES, (".", ".", "onboard_estimation"), strict=True):
        folder = Path(output(SHOW_FOLDER, tree, **{variable: chosen}))
        assert (folder.parent, folder.is_dir()) == (Path(chosen) / below, True)
    assert output(SHOW_FOLDER, tree, NUMBA_CACHE_DIR=str(first)) == str(first)  # of a parent process


def test_read_only_install_without_a_home_warns_once_and_leaves_nothing(tree: Path) -> None:
    temporary = tree.parent / "temporary"
    temporary.mkdir()
    before = sorted(tree.rglob("*"))
    for path in [tree, *before]:
        path.chmod(path.stat().st_mode & ~0o222)
    try:  # HOME is no folder: root, who may write everywhere, cannot write there either
        exit_code, printed, errors = run(RUN_KERNEL, tree, HOME=os.devnull, TMPDIR=str(temporary))
    finally:
        for path in [tree, *before]:
            path.chmod(path.stat().st_mode | 0o200)
    assert (exit_code, printed) == (0, "6.0 0"), errors
    assert errors.count("RuntimeWarning: ") == 1
    assert "ONBOARD_ESTIMATION_CACHE_DIR" in errors
    assert list(temporary.iterdir()) == []
    assert sorted(tree.rglob("*")) == before


@pytest.fixture
def unset(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No folder is named, and what this process chooses is put back."""
    import numba

    monkeypatch.setattr(numba.config, "CACHE_DIR", numba.config.CACHE_DIR)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_folders_nobody_used_for_a_month_are_removed(tmp_path: Path, unset: pytest.MonkeyPatch) -> None:
    """And a numba that was imported before is told of the new one."""
    import numba

    old, recent, foreign = (tmp_path / name for name in ("onboard_estimation-old", "onboard_estimation-recent", "a"))
    for folder in (old, recent, foreign):
        folder.mkdir()
    for folder in (old, foreign):
        os.utime(folder, (0, 0))
    unset.setenv("ONBOARD_ESTIMATION_CACHE_DIR", str(tmp_path))
    folder = kernel_cache.configure()
    assert sorted(tmp_path.iterdir()) == sorted([folder, recent, foreign])
    assert numba.config.CACHE_DIR == os.environ["NUMBA_CACHE_DIR"] == str(folder)


def test_a_user_without_any_home_gets_a_folder_that_goes_with_the_process(unset: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("no home")

    unset.setattr(Path, "home", no_home)
    with pytest.warns(RuntimeWarning, match="no home"):
        assert kernel_cache.configure().is_dir()


def test_a_script_s_kernel_is_known_by_its_path(tree: Path) -> None:
    """Of two scripts of one name, whose callees differ, neither runs the other's machine code."""
    paths = [str(tree.parent / name) for name in ("one", "other")]
    for path, factor in zip(paths, (3.0, 5.0), strict=True):
        write_kernel(Path(path), "callee", factor)
    code = f"import sys\nfor path in {paths}:\n    sys.path.insert(0, path)\n    import kernel\n"
    code += "    print(kernel.kernel(2.0))\n    del sys.modules['kernel'], sys.modules['callee']"
    assert output(code, tree) == "6.0\n10.0"
