"""On what a result was measured."""

from __future__ import annotations

import os
import platform
from typing import Any

from onboard_estimation.realtime.machine_facts import memory_gb, processor
from onboard_estimation.realtime.machine_facts import versions as versions_of

PACKAGES = ("onboard_estimation", "numpy", "scipy", "numba", "filterpy", "rosbags", "evo", "matplotlib")


def machine() -> dict[str, Any]:
    """Processor, number of cores, memory, operating system, and load average of the last minute before the run."""
    return {
        "processor": processor(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": memory_gb(),
        "system": f"{platform.system()} {platform.release()}",
        "load_average_before": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def versions() -> dict[str, str]:
    """Python and the packages that figures depend on."""
    return versions_of(PACKAGES)
