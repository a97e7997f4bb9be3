"""Packages and resources; metadata and entry points are in setup.cfg (Humble's setuptools reads no [project])."""

from __future__ import annotations

from pathlib import Path

from setuptools import find_packages, setup

NAME = "onboard_estimation"


def packages() -> list[str]:
    """The top-level packages and all below them; `test`, `launch` and `config` are folders, not packages."""
    return find_packages(include=["*_estimation", "*_estimation.*", "drivers", "drivers.*"])


def data_files() -> list[tuple[str, list[str]]]:
    """(destination folder, files) for ament's index and for `share/onboard_estimation`, relative to the prefix."""
    share = Path("share") / NAME
    resources = [*Path("launch").glob("*.launch.py"), *(path for path in Path("config").rglob("*") if path.is_file())]
    sources_of: dict[str, list[str]] = {
        "share/ament_index/resource_index/packages": [f"resource/{NAME}"],
        str(share): ["package.xml"],
    }
    for path in sorted(resources):
        sources_of.setdefault(str(share / path.parent), []).append(str(path))
    return list(sources_of.items())


setup(
    packages=packages(),
    data_files=data_files(),
    # Not in setup.cfg: there it becomes an object, and colcon, which reads our settings as literals, breaks off.
    python_requires=">=3.10",
)
