"""On what a result was measured."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("onboard_estimation", "numpy", "scipy", "numba", "filterpy", "rosbags", "evo", "matplotlib")


def machine() -> dict[str, Any]:
    """Processor, number of cores, memory, operating system, and load average of the last minute before the run."""
    return {
        "processor": _field(Path("/proc/cpuinfo"), "model name") or platform.processor() or platform.machine(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(_memory_bytes() / 1e9, 1),
        "system": f"{platform.system()} {platform.release()}",
        "load_average_before": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def versions() -> dict[str, str]:
    """Python and the packages that figures depend on."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _field(path: Path, name: str) -> str:
    """The first value of that name in a file of `name : value` lines, empty where there is none."""
    if path.exists():
        for line in path.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == name:
                return value.strip()
    return ""


def _memory_bytes() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on this system
        return 0
