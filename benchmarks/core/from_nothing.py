"""`make demo` and `make test` in fresh clones with empty caches: set-up, download and compilation included.

With the processor time, that of the demonstration alone, after the installation, and the disk that a clone takes then.

Clones what is committed. Takes about ten minutes and needs the package index.
"""

from __future__ import annotations

import os
import resource
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
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            clone, environment = folder / "clone", _environment(folder)
            subprocess.run(["git", "clone", "--quiet", str(REPOSITORY), str(clone)], check=True)
            set_up = ".venv/.runtime" if target == "demo" else ".venv/.development"
            set_up_s, set_up_cpu_s = _make(set_up, clone, environment)
            disk_mb = _size_mb(clone)
            taken_s, cpu_s = _make(target, clone, environment)
            further = {
                "set_up_cpu_s": round(set_up_cpu_s, 1),
                "cpu_s": round(cpu_s, 1),
                "set_up_disk_mb": round(disk_mb),
                "disk_mb": round(_size_mb(clone)),
            }
        samples = {"make": np.array([set_up_s + taken_s])}
        about = {"commit": commit, "repetitions": 1, "set_up_s": round(set_up_s, 1), **further}
        rows.append(case(f"make {target}", samples, "make", target_s=limit_s, **about))
    return rows


def _size_mb(folder: Path) -> float:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_symlink()) * 1e-6


def _make(target: str, clone: Path, environment: dict[str, str]) -> tuple[float, float]:
    """Seconds that a target takes, and of processor time; RuntimeError where it failed."""
    start, before = time.perf_counter(), _children_cpu_s()
    done = subprocess.run(["make", target], cwd=clone, env=environment, capture_output=True, text=True)
    taken = time.perf_counter() - start
    if done.returncode != 0:
        lines = (done.stdout + done.stderr).splitlines()[-40:]
        raise RuntimeError("\n".join([f"make {target} failed after {taken:.0f} s:", *lines]))
    return taken, _children_cpu_s() - before


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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
