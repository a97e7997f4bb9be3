"""sdist and wheel of the source tree, as they would be published."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_PACKAGES = (path.parent.name for path in _ROOT.glob("*/__init__.py"))
TOP_LEVEL_PACKAGES = sorted(name for name in _PACKAGES if name != "benchmarks")
_NOT_SOURCE = shutil.ignore_patterns(
    ".*", "__pycache__", "*.egg-info", "build", "dist", "install", "log", "demo_output"
)


def build(repository: Path, folder: Path) -> Path:
    """The folder, with the sdist and with the wheel that is built from it; both hold two resources that are new."""
    source = folder / "source"
    shutil.copytree(repository, source, ignore=_NOT_SOURCE)
    (source / "config" / "deep").mkdir(parents=True)
    (source / "config" / "deep" / "robot.yaml").write_text("{}")
    (source / "launch" / "robot.launch.py").write_text("")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def packaged_files(repository: Path, pattern: str = "*") -> set[str]:
    """Files in the folders of the packages, relative to the repository, that an editable installation sees."""
    return {
        path.relative_to(repository).as_posix()
        for package in TOP_LEVEL_PACKAGES
        for path in (repository / package).rglob(pattern)
        if path.is_file() and path.parent.name != "__pycache__"
    }
