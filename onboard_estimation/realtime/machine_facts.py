"""Which computer a figure was measured on, in what state, and what processes take of it.

All of it is read from files of the kernel; what a computer does not have is left out. A Raspberry Pi names its board
and says whether it was throttled, as `vcgencmd get_throttled` does.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onboard_estimation.base import installed, ros2

_ROOT = Path("/")
_CPUS = "sys/devices/system/cpu"
_THROTTLED = "sys/devices/platform/soc/soc:firmware/get_throttled"
_IDLE = slice(4, 6)
"""Columns of /proc/stat in which no core works: idle, and waiting for a disk."""
PACKAGES = ("onboard_estimation", "numpy", "scipy", "numba")


def processor(root: Path = _ROOT) -> str:
    """Model of the processor, and of the board where it has a name."""
    cpuinfo = text_of(root / "proc/cpuinfo")
    model = field_of(cpuinfo, "model name") or platform.processor() or platform.machine()
    board = text_of(root / "proc/device-tree/model").strip("\0\n ") or field_of(cpuinfo, "Model")
    return f"{board}, {model}" if board else model


def governor(root: Path = _ROOT) -> str:
    """What sets the processor's clock; empty where nothing does."""
    found = {text_of(path).strip() for path in root.glob(f"{_CPUS}/cpu[0-9]*/cpufreq/scaling_governor")}
    return ", ".join(sorted(found - {""}))


def memory_gb() -> float:
    """All there is; 0 where the system does not tell."""
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1)
    except (AttributeError, ValueError, OSError):  # not on this system
        return 0.0


def versions(packages: Sequence[str] = PACKAGES) -> dict[str, str]:
    """Python and the packages that figures depend on."""
    return {"python": platform.python_version(), **installed.versions(packages)}


def state(root: Path = _ROOT) -> dict[str, Any]:
    """What changes from minute to minute: clock, temperature, throttling, load; only what there is."""
    clocks_khz = _numbers(root, f"{_CPUS}/cpu[0-9]*/cpufreq/scaling_cur_freq")
    fixed = field_of(text_of(root / "proc/cpuinfo"), "cpu MHz")
    hottest = max(_numbers(root, "sys/class/thermal/thermal_zone*/temp"), default=None)
    found = {
        "clock_mhz": round(max(clocks_khz) / 1e3) if clocks_khz else round(float(fixed)) if fixed else None,
        "temperature_c": None if hottest is None else round(hottest / 1e3, 1),
        "throttled": text_of(root / _THROTTLED).strip() or None,
        "load_average": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def machine(root: Path = _ROOT) -> dict[str, Any]:
    """What a figure needs beside it, of the computer and of the programs that ran; `state` as it is now."""
    highest_khz = _numbers(root, f"{_CPUS}/cpu[0-9]*/cpufreq/cpuinfo_max_freq")
    return {
        "date_utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "processor": processor(root),
        "architecture": platform.machine(),
        "cores": os.cpu_count() or 1,
        "governor": governor(root) or None,
        "highest_clock_mhz": max((round(one / 1e3) for one in highest_khz), default=None),
        "memory_gb": memory_gb(),
        "system": f"{platform.system()} {platform.release()}",
        "versions": versions(),
        "runtime": runtime(),
        "state": state(root),
    }


def runtime() -> str:
    """Which ROS 2 the nodes run on, with its middleware. Raises as `ros2.require` does."""
    ros2.require()
    return f"{ros2.name()}, {middleware()}"


def middleware() -> str:
    """The RMW that ROS 2 takes."""
    try:
        from rclpy.utilities import get_rmw_implementation_identifier

        return str(get_rmw_implementation_identifier())
    except Exception as error:  # the RMW that RMW_IMPLEMENTATION names is not there
        return f"unknown RMW ({error})"


def cpu_s(pid: int) -> float:
    """Time on a core that a process used so far, all its threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """Resident memory of a process now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def busy_s() -> float:
    """Time that all cores did not rest, up to a constant; where the machine is a virtual one, also what others had.

    Linux measures how long a core rests; what it does otherwise it asks at ticks of its own, every 4 ms on many. What
    works at multiples of that, as sensors at 125 Hz do, is then always seen or never.
    """
    first, *more = Path("/proc/stat").read_text().splitlines()
    cores = sum(line.startswith("cpu") for line in more)
    return cores * time.monotonic() - sum(map(int, first.split()[_IDLE])) / os.sysconf("SC_CLK_TCK")


def text_of(path: Path) -> str:
    """Of a file of the kernel; empty where there is none."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def number_in(path: Path) -> float | None:
    """What a file of the kernel says; None where it says none."""
    try:
        return float(text_of(path))
    except ValueError:
        return None


def _numbers(root: Path, pattern: str) -> list[float]:
    """What files of the kernel say, of those that say one."""
    return [value for path in root.glob(pattern) if (value := number_in(path)) is not None]


def field_of(text: str, name: str) -> str:
    """The first value of that name among lines `name : value`, empty where there is none."""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""
