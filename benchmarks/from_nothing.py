"""`make demo` and `make test` in fresh clones with empty caches: set-up, download and compilation included.

Clones what is committed. Takes about ten minutes and needs the package index.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import case

REPOSITORY = Path(__file__).resolve().parent.parent
TARGETS_S = {"demo": 240.0, "test": 480.0}
INHERITED = ("PATH", "PYENV_ROOT", "LANG", "LC_ALL", "SSL_CERT_FILE", "ONBOARD_ESTIMATION_DATA")


def run(quick: bool) -> list[dict[str, Any]]:
    """A case for each target of the Makefile, one run each."""
    commit = subprocess.run(
        ["git", "-C", str(REPOSITORY), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    rows = []
    for target, limit_s in TARGETS_S.items():
        with tempfile.TemporaryDirectory() as folder:
            taken = np.array([_make(target, Path(folder))])
        rows.append(case(f"make {target}", {"make": taken}, "make", target_s=limit_s, commit=commit, repetitions=1))
    return rows


def _make(target: str, folder: Path) -> float:
    """Seconds that a target takes in a new clone; RuntimeError where it failed."""
    clone = folder / "clone"
    subprocess.run(["git", "clone", "--quiet", str(REPOSITORY), str(clone)], check=True)
    start = time.perf_counter()
    done = subprocess.run(["make", target], cwd=clone, env=_environment(folder), capture_output=True, text=True)
    taken = time.perf_counter() - start
    if done.returncode != 0:
        lines = (done.stdout + done.stderr).splitlines()[-40:]
        raise RuntimeError("\n".join([f"make {target} failed after {taken:.0f} s:", *lines]))
    return taken


def _environment(folder: Path) -> dict[str, str]:
    """As of a new user: no caches, no environment; only where packages come from is kept."""
    environment = {name: value for name, value in os.environ.items() if name in INHERITED or "proxy" in name.lower()}
    environment |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    settings = Path.home() / ".config" / "pip" / "pip.conf"
    if "PIP_CONFIG_FILE" not in environment and settings.exists():
        environment["PIP_CONFIG_FILE"] = str(settings)
    for name, place in (("HOME", "home"), ("XDG_CACHE_HOME", "cache"), ("PIP_CACHE_DIR", "pip"), ("TMPDIR", "tmp")):
        (folder / place).mkdir()
        environment[name] = str(folder / place)
    data = REPOSITORY.parent / "shared" / "data"
    if "ONBOARD_ESTIMATION_DATA" not in environment and data.is_dir():
        environment["ONBOARD_ESTIMATION_DATA"] = str(data)
    return environment
