"""numba's folder on disk: renewed with the sources, and a start goes well wherever it cannot be written."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

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
SHOW_FOLDER = "import os, onboard_estimation; print(os.environ['NUMBA_CACHE_DIR'])"


@pytest.fixture
def tree(repository: Path, tmp_path: Path) -> Path:
    """Copy of the shared package's top modules, with a kernel and its callee in two files."""
    tree = tmp_path / "tree"
    package = tree / "onboard_estimation"
    package.mkdir(parents=True)
    for path in (repository / "onboard_estimation").glob("*.py"):
        shutil.copy(path, package)
    (package / "probe_kernel.py").write_text(KERNEL.format(callee="onboard_estimation.probe_callee"))
    (package / "probe_callee.py").write_text(CALLEE.format(factor=3.0))
    return tree


def environment(tree: Path, **variables: str) -> dict[str, str]:
    """Environment of a process that runs the copy, with a home of its own and no folder inherited from this process."""
    dropped = ("NUMBA_CACHE_DIR", "ONBOARD_ESTIMATION_CACHE_DIR", "XDG_CACHE_HOME")
    inherited = {name: value for name, value in os.environ.items() if name not in dropped}
    home = tree.parent / "home"
    home.mkdir(exist_ok=True)
    return {**inherited, "PYTHONPATH": str(tree), "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1", **variables}


def start(code: str, variables: Mapping[str, str]) -> subprocess.Popen[str]:
    """A process in a folder without packages, so that `import` finds the copy."""
    command = [sys.executable, "-c", code]
    return subprocess.Popen(
        command, env=dict(variables), cwd=os.sep, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    printed, errors = process.communicate(timeout=60)
    return process.returncode, printed.strip(), errors


def output(code: str, variables: Mapping[str, str]) -> str:
    exit_code, printed, errors = finish(start(code, variables))
    assert (exit_code, errors) == (0, "")
    return printed


@pytest.mark.slow
def test_edited_callee_in_another_file_counts_after_restart(tree: Path) -> None:
    variables = environment(tree)
    assert output(RUN_KERNEL, variables) == "6.0 0"
    assert output(RUN_KERNEL, variables) == "6.0 1"  # from the folder
    (tree / "onboard_estimation" / "probe_callee.py").write_text(CALLEE.format(factor=5.0))
    assert output(RUN_KERNEL, variables) == "10.0 0"


def test_edited_callee_of_a_robot_from_another_package_counts(tree: Path) -> None:
    laboratory = tree / "laboratory"
    laboratory.mkdir()
    (laboratory / "__init__.py").touch()
    (laboratory / "kernel.py").write_text("import onboard_estimation\n" + KERNEL.format(callee="laboratory.callee"))
    (laboratory / "callee.py").write_text(CALLEE.format(factor=3.0))
    information = tree / "laboratory-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: laboratory\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[onboard_estimation.robots]\ncrawler = laboratory.robot:ROBOT\n")
    code = "from laboratory.kernel import kernel; print(kernel(2.0))"
    assert output(code, environment(tree)) == "6.0"
    (laboratory / "callee.py").write_text(CALLEE.format(factor=5.0))
    assert output(code, environment(tree)) == "10.0"


def test_folder_is_private_and_the_same_again(tree: Path) -> None:
    first = Path(output(SHOW_FOLDER, environment(tree)))
    assert first.parent == tree.parent / "home" / ".cache" / "onboard_estimation"
    assert stat.S_IMODE(first.stat().st_mode) == 0o700
    assert output(SHOW_FOLDER, environment(tree)) == str(first)


@pytest.mark.parametrize("variable", ["ONBOARD_ESTIMATION_CACHE_DIR", "NUMBA_CACHE_DIR"])
def test_folder_of_the_user_is_taken(tree: Path, variable: str) -> None:
    chosen = tree.parent / "chosen"
    folder = Path(output(SHOW_FOLDER, environment(tree, **{variable: str(chosen)})))
    assert folder.parent == chosen
    assert folder.is_dir()


def test_xdg_cache_home_is_honoured(tree: Path) -> None:
    folder = Path(output(SHOW_FOLDER, environment(tree, XDG_CACHE_HOME=str(tree.parent / "xdg"))))
    assert folder.parent == tree.parent / "xdg" / "onboard_estimation"


def test_child_process_shares_the_folder_of_its_parent(tree: Path) -> None:
    folder = output(SHOW_FOLDER, environment(tree))
    assert output(SHOW_FOLDER, environment(tree, NUMBA_CACHE_DIR=folder)) == folder


def test_numba_imported_before_is_told(tree: Path) -> None:
    code = "import numba, onboard_estimation, os; print(numba.config.CACHE_DIR == os.environ['NUMBA_CACHE_DIR'])"
    assert output(code, environment(tree)) == "True"


def test_choosing_the_folder_does_not_import_numba(tree: Path) -> None:
    code = "import sys, onboard_estimation; print(sorted({'numba', 'numpy'} & set(sys.modules)))"
    assert output(code, environment(tree)) == "[]"


def test_read_only_install_without_a_home_warns_once_and_leaves_nothing(tree: Path) -> None:
    temporary = tree.parent / "temporary"
    temporary.mkdir()
    before = sorted(tree.rglob("*"))
    for path in [tree, *before]:
        path.chmod(path.stat().st_mode & ~0o222)
    try:  # HOME is no folder: root, who may write everywhere, cannot write there either
        exit_code, printed, errors = finish(
            start(RUN_KERNEL, environment(tree, HOME=os.devnull, TMPDIR=str(temporary)))
        )
    finally:
        for path in [tree, *before]:
            path.chmod(path.stat().st_mode | 0o200)
    assert (exit_code, printed) == (0, "6.0 0"), errors
    assert errors.count("RuntimeWarning: ") == 1
    assert "ONBOARD_ESTIMATION_CACHE_DIR" in errors
    assert list(temporary.iterdir()) == []
    assert sorted(tree.rglob("*")) == before


def test_user_without_any_home_starts(tree: Path) -> None:
    no_home = "import pathlib\ndef home(): raise RuntimeError('no home')\npathlib.Path.home = home\n"
    exit_code, printed, errors = finish(start(no_home + RUN_KERNEL, environment(tree)))
    assert (exit_code, printed) == (0, "6.0 0"), errors
    assert errors.count("RuntimeWarning: ") == 1


@pytest.mark.slow
def test_two_processes_starting_cold_at_once_both_succeed(tree: Path) -> None:
    variables = environment(tree)
    for process in [start(RUN_KERNEL, variables), start(RUN_KERNEL, variables)]:
        exit_code, printed, errors = finish(process)
        assert (exit_code, printed.split()[0], errors) == (0, "6.0", "")
    assert output(RUN_KERNEL, variables) == "6.0 1"


def test_folders_nobody_used_for_a_month_are_removed(tree: Path) -> None:
    base = tree.parent / "base"
    old, recent, foreign = base / "onboard_estimation-old", base / "onboard_estimation-recent", base / "other"
    for folder in (old, recent, foreign):
        folder.mkdir(parents=True)
    for folder in (old, foreign):
        os.utime(folder, (0, 0))
    folder = Path(output(SHOW_FOLDER, environment(tree, ONBOARD_ESTIMATION_CACHE_DIR=str(base))))
    assert sorted(base.iterdir()) == sorted([folder, recent, foreign])


def test_a_copy_elsewhere_finds_the_kernels_and_a_changed_copy_its_own(tree: Path) -> None:
    """As colcon installs a package, with other times and under another path."""
    variables = environment(tree)
    assert output(RUN_KERNEL, variables) == "6.0 0"
    copy = tree.parent / "workspace" / "lib" / "python3" / "site-packages"
    shutil.copytree(tree, copy, copy_function=shutil.copyfile)
    elsewhere = {**variables, "PYTHONPATH": str(copy)}
    assert output(SHOW_FOLDER, elsewhere) == output(SHOW_FOLDER, variables)
    assert output(RUN_KERNEL, elsewhere) == "6.0 1"
    shutil.rmtree(tree)
    assert output(RUN_KERNEL, elsewhere) == "6.0 1"
    (copy / "onboard_estimation" / "probe_callee.py").write_text(CALLEE.format(factor=5.0))
    assert output(RUN_KERNEL, elsewhere) == "10.0 0"


def test_a_script_s_kernel_is_known_by_its_path(tree: Path) -> None:
    """Of two scripts of one name, whose callees differ, neither runs the other's machine code."""
    for name, factor in (("one", 3.0), ("other", 5.0)):
        folder = tree.parent / name
        folder.mkdir()
        (folder / "script.py").write_text("import onboard_estimation\n" + KERNEL.format(callee="callee"))
        (folder / "callee.py").write_text(CALLEE.format(factor=factor))
        paths = os.pathsep.join([str(folder), str(tree)])
        code = "from script import kernel; print(kernel(2.0))"
        assert output(code, environment(tree, PYTHONPATH=paths)) == f"{2.0 * factor}"


def test_what_is_imported_for_its_types_alone_does_not_count(tree: Path) -> None:
    package = tree / "onboard_estimation"
    kernel = package / "probe_kernel.py"
    only_types = (
        "\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from onboard_estimation.probe_types import X\n"
    )
    kernel.write_text(only_types + kernel.read_text())
    (package / "probe_types.py").write_text("X = 1\n")
    first = output(SHOW_FOLDER, environment(tree))
    (package / "probe_types.py").write_text("X = 2\n")
    assert output(SHOW_FOLDER, environment(tree)) == first
    kernel.write_text("from onboard_estimation.probe_types import X\n" + kernel.read_text())
    assert output(SHOW_FOLDER, environment(tree)) != first
