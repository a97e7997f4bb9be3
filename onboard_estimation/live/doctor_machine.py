"""What the machine must give: clocks, serial ports, real-time capabilities, space, a cache, the right packages."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import resource
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import onboard_estimation
from onboard_estimation import installed, kernel_files
from onboard_estimation.kernel_cache import NUMBA_VARIABLE, OVERRIDE_VARIABLE
from onboard_estimation.live.machine_facts import governor
from onboard_estimation.live.warmup import is_temporary

_OPTIONAL = {
    "serial": ("pyserial", "IMUs on serial ports", "pip install 'onboard_estimation[serial]'"),
    "hebi": ("hebi-py", "HEBI actuators", "pip install 'onboard_estimation[hebi]'"),
    "pysoem": ("pysoem", "EtherCAT force sensors", "pip install pysoem"),
    "viser": ("viser", "`view`, live pictures without RViz", "pip install 'onboard_estimation[view]'"),
}
_CPUS = Path("/sys/devices/system/cpu")
_CAP_SYS_NICE = 23
_TIME_ERROR = 5
_JUMP_S = 1e-3
_WATCHED_S = 0.2
_LOW_BYTES, _VERY_LOW_BYTES = 5 * 10**9, 10**8


@dataclass(frozen=True)
class Finding:
    """One line of the doctor.

    Attributes
    ----------
    subject
        What was looked at.
    state
        `ok`; `note`: works, could be better, or is good to know; `fault`: something will not work.
    text
        What there is, with numbers.
    repair
        What to do about it, one line; empty where there is nothing to do.
    """

    subject: str
    state: Literal["ok", "note", "fault"]
    text: str
    repair: str = ""


def graded(subject: str, text: str, *, well: bool, otherwise: str = "", repair: str = "") -> Finding:
    """`ok` where it is well; else a note that says what else is to be known, and how to mend it."""
    return Finding(subject, "ok", text) if well else Finding(subject, "note", f"{text}{otherwise}", repair)


def check_machine() -> Iterator[Finding]:
    """All findings about the machine and the installation."""
    yield _python()
    yield _drivers()
    yield _cache()
    yield _space()
    yield _synchronisation()
    yield _clock_jumps()
    yield from _serial_ports()
    yield _optional_packages()
    yield _governor()
    yield _priority()
    yield _isolated()


def _python() -> Finding:
    running, there = sys.version_info[:2], installed.versions(("numpy", "numba"))
    text = f"Python {sys.version.split()[0]}, NumPy {there['numpy']}, numba {there['numba']}"
    wanted = "use Python 3.10 to 3.13"
    if running < (3, 10):
        return Finding("Python", "fault", text, wanted)
    newer = ": newer than what was tested"
    return graded("Python", text, well=running <= (3, 13), otherwise=newer, repair=wanted)


def _drivers() -> Finding:
    """Our top-level package `drivers` has a name that others may have too."""
    root = Path(onboard_estimation.__file__).resolve().parent.parent
    try:
        found = importlib.util.find_spec("drivers")
    except (ImportError, ValueError):
        found = None
    if found is None:
        return Finding("drivers", "fault", "the package `drivers` is not installed", "install onboard_estimation anew")
    places = [Path(place).resolve() for place in found.submodule_search_locations or [found.origin or "."]]
    if root / "drivers" in places:
        return Finding("drivers", "ok", "the package `drivers` is ours")
    return Finding(
        "drivers",
        "fault",
        f"another package `drivers` comes first: {places[0]}",
        f"start elsewhere, or put {root} before {places[0].parent} in PYTHONPATH",
    )


def _cache() -> Finding:
    folder = Path(os.environ[NUMBA_VARIABLE])
    if is_temporary(folder):
        return Finding(
            "kernel cache",
            "note",
            "its folder cannot be written: every start compiles for seconds",
            f"export {OVERRIDE_VARIABLE}=<folder that can be written>",
        )
    count = sum(1 for _ in folder.rglob(f"*{kernel_files.SUFFIX}"))
    text = f"{count} kernels in {folder}" if count else f"empty: {folder}"
    return graded("kernel cache", text, well=bool(count), repair="onboard-estimation warmup")


def _space() -> Finding:
    free = shutil.disk_usage(Path.cwd()).free
    text = f"{free / 1e9:.1f} GB free in {Path.cwd()}"
    if free < _VERY_LOW_BYTES:
        return Finding("disk", "fault", f"{text}: a recording would stop soon", "remove files, or record elsewhere")
    return graded("disk", text, well=free >= _LOW_BYTES, repair="remove files, or record elsewhere")


def _synchronisation() -> Finding:
    """Of the kernel's clock, asked with adjtimex(2) in its reading mode."""
    repair = "install and start chrony or systemd-timesyncd; on several machines, one must follow the other"
    try:
        library = ctypes.CDLL(None, use_errno=True)
        state = library.adjtimex(ctypes.create_string_buffer(512))
    except (OSError, AttributeError):
        state = -1
    if state == -1:
        return Finding("clock", "note", "whether it is synchronised cannot be asked here")
    if state == _TIME_ERROR:
        return Finding("clock", "note", "not synchronised (NTP): stamps of several machines cannot be compared", repair)
    return Finding("clock", "ok", "synchronised")


def _clock_jumps() -> Finding:
    """Real time against monotonic time, for a moment."""
    before = time.time_ns() - time.monotonic_ns()
    time.sleep(_WATCHED_S)
    jump_s = (time.time_ns() - time.monotonic_ns() - before) / 1e9
    text = f"real and monotonic time moved apart by {jump_s * 1e3:+.3f} ms in {_WATCHED_S:g} s"
    repair = "wait until the clock has settled"
    set_now = ": the clock is being set"
    return graded("clock jumps", text, well=abs(jump_s) <= _JUMP_S, otherwise=set_now, repair=repair)


def _serial_ports() -> Iterator[Finding]:
    ports = sorted(port for pattern in ("ttyUSB*", "ttyACM*", "ttyAMA*") for port in Path("/dev").glob(pattern))
    if not ports:
        yield Finding("serial ports", "ok", "none connected")
    for port in ports:
        if os.access(port, os.R_OK | os.W_OK):
            yield Finding("serial ports", "ok", f"{port}")
        else:
            yield Finding(
                "serial ports",
                "fault",
                f"{port} may not be opened by this user",
                "sudo usermod -aG dialout $USER, then log in anew",
            )


def _optional_packages() -> Finding:
    missing = {name: about for name, about in _OPTIONAL.items() if importlib.util.find_spec(name) is None}
    there = ", ".join(about[0] for name, about in _OPTIONAL.items() if name not in missing) or "none"
    if not missing:
        return Finding("optional packages", "ok", there)
    text = "; ".join(f"{package} for {purpose}" for package, purpose, _ in missing.values())
    return Finding(
        "optional packages",
        "ok",
        f"installed: {there}. Not installed: {text}",
        "; ".join(dict.fromkeys(repair for _, _, repair in missing.values())),
    )


def _governor() -> Finding:
    found = governor()
    text = f"governor {found}" if found else "not set by this system (virtual machine, or fixed)"
    slow, repair = ": latencies are longer while the CPU is slow", "sudo cpupower frequency-set -g performance"
    return graded("CPU frequency", text, well=found in ("", "performance"), otherwise=slow, repair=repair)


def _priority() -> Finding:
    try:
        status = Path("/proc/self/status").read_text()
        effective = int(next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:")), 16)
    except (OSError, StopIteration, ValueError):
        effective = 0
    limit, _ = resource.getrlimit(resource.RLIMIT_RTPRIO)
    if effective >> _CAP_SYS_NICE & 1:
        return Finding("real-time priority", "ok", "allowed (CAP_SYS_NICE)")
    if limit != 0:
        return Finding("real-time priority", "ok", f"allowed up to {'any' if limit < 0 else limit} (rtprio)")
    return Finding(
        "real-time priority",
        "note",
        "not allowed; only drivers with cycles of 1 ms need it",
        "a line `<user> - rtprio 80` in /etc/security/limits.d/realtime.conf, then log in anew",
    )


def _isolated() -> Finding:
    try:
        cpus = (_CPUS / "isolated").read_text().strip()
    except OSError:
        cpus = ""
    count = os.cpu_count() or 1
    return Finding("CPUs", "ok", f"{count}, isolated for real-time work: {cpus or 'none'}")
