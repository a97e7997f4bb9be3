"""Where numba keeps compiled kernels on disk: one folder for each state of the sources.

numba's cache looks only at the file of the compiled function. A change in a function that it calls from another file
goes unnoticed, and the old machine code runs on. So the folder's name holds a hash of all that kernels depend on, and
numba is told when it is imported. The folder is found in this order:

1. `ONBOARD_ESTIMATION_CACHE_DIR`
2. `NUMBA_CACHE_DIR`, if the user set it
3. `$XDG_CACHE_HOME/onboard_estimation`, else `~/.cache/onboard_estimation`
4. where that cannot be written: a private temporary folder that goes with the process, and one warning

Within the folder `kernel_files` keeps them, so that processes which start together do not spoil each other's.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.abc import MetaPathFinder
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from onboard_estimation.base import installed, kernel_files

OVERRIDE_VARIABLE = "ONBOARD_ESTIMATION_CACHE_DIR"
NUMBA_VARIABLE = "NUMBA_CACHE_DIR"

COMPILERS = ("numba", "numpy")
_COMPILED = re.compile(rb"\b(njit|jit|vectorize|guvectorize|cfunc|overload|jitclass)\b")
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]*(\([^)]*\)|[^(\n]*)|import[ \t]+([^\n]+))", re.MULTILINE
)
_NOT_READ = re.compile(
    rb"#[^\n]*|\\\r?\n|\r|^if TYPE_CHECKING:(?:\n(?:[ \t][^\n]*)?)+", re.MULTILINE
)  # comments, continued lines, and what is imported for its types alone
FOLDER_PREFIX = "onboard_estimation-"
UNUSED_AFTER_DAYS = 30


def configure() -> Path:
    """Choose the folder, make it and tell numba, whether or not numba is imported already.

    Returns
    -------
    The folder, absolute. Functions that are decorated with `cache=True` from now on keep their machine code there;
    child processes inherit it through `NUMBA_CACHE_DIR`.
    """
    name = FOLDER_PREFIX + fingerprint()
    try:
        folder = _base_folder() / name
        _make_writable(folder)
    except (OSError, RuntimeError) as error:  # RuntimeError: no HOME and no entry in the user database
        folder = _temporary_folder(
            name, f"{error}; every start compiles anew. Set {OVERRIDE_VARIABLE} to a folder that can be written."
        )
    _tell_numba(folder)
    kernel_files.install(
        where_impossible=lambda reason: _tell_numba(
            _temporary_folder(name, f"{reason}, and its own way may mix them up; every start compiles anew")
        ),
        packages={module.partition(".")[0] for module, _ in _modules()},
    )
    return folder


def configure_for_numba() -> None:
    """`configure` when numba is imported, now where it is already: to choose the folder takes as long as a command."""
    if "numba" in sys.modules:
        configure()
    else:
        sys.meta_path.insert(0, _BeforeNumba())


class _BeforeNumba(MetaPathFinder):
    """Finds nothing, but is asked."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "numba":
            sys.meta_path.remove(self)
            configure()


def cache_folder(name: str) -> Path | None:
    """A folder of this user beside those of the kernels, removed like them; None where it cannot be made."""
    try:
        folder = _base_folder() / (FOLDER_PREFIX + name)
        _make_writable(folder)
    except (OSError, RuntimeError):
        return None
    return folder


def _tell_numba(folder: Path) -> None:
    os.environ[NUMBA_VARIABLE] = str(folder)
    numba_config = sys.modules.get("numba.core.config")
    if numba_config is not None:
        numba_config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]


def fingerprint() -> str:
    """Hash of every source that a kernel may come from, and of the versions that compile it: 16 hexadecimal digits.

    Where the sources lie is not in it: a copy in a workspace finds the kernels of the clone that it was made from.
    """
    return _digest(_sources(), *(f"{name}=={found}" for name, found in installed.versions(COMPILERS).items()))


def sources_fingerprint() -> str:
    """Hash of every module of our packages and of those that bring robots, wherever they lie: 16 hexadecimal digits."""
    return _digest(_modules())


def _digest(modules: Iterable[tuple[str, Path]], *versions: str) -> str:
    digest = hashlib.sha256()
    for name, path in sorted(modules):
        content = _content(path)
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    for one in versions:
        digest.update(f"{one}\0".encode())
    return digest.hexdigest()[:16]


def _sources() -> list[tuple[str, Path]]:
    """Modules (name, file) that a kernel may come from: those with numba's decorators, and what they import of these.

    A kernel's callees are compiled too, so they have decorators themselves, and constants come by an import. Other
    files (a node, a report) may change without a minute of compiling.
    """
    modules = dict(_modules())
    wanted = [name for name, path in modules.items() if _COMPILED.search(_content(path))]
    found: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name in modules and name not in found:
            found.add(name)
            wanted.extend(_imported(name, modules[name]))
    return [(name, modules[name]) for name in found]


def _modules() -> Iterator[tuple[str, Path]]:
    """(name, file) of the modules of our packages and of every package that brings a robot, none of them imported."""
    root = Path(__file__).resolve().parents[2]
    ours = {path.parent.name for path in (*root.glob("*_estimation/__init__.py"), *root.glob("drivers/__init__.py"))}
    for name in sorted(ours):
        yield from _modules_below(name, root / name)
    robots = {entry.module.partition(".")[0] for entry in entry_points(group="onboard_estimation.robots")}
    for name in robots - ours:
        with suppress(ImportError, ValueError):  # its entry point leads nowhere: whoever loads the robot says so
            spec = find_spec(name)
            if spec is None:
                continue
            if spec.submodule_search_locations is None:
                yield name, Path(spec.origin or "")
            for folder in spec.submodule_search_locations or ():
                yield from _modules_below(name, Path(folder))


def _modules_below(package: str, folder: Path) -> Iterator[tuple[str, Path]]:
    for path in folder.rglob("*.py"):
        parts = (package, *path.relative_to(folder).with_suffix("").parts)
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def _imported(name: str, path: Path) -> Iterator[str]:
    """Names that a module imports, each of which may be a module; found without parsing, which every start pays for."""
    package = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
    for base, names, modules in _IMPORT.findall(_NOT_READ.sub(b"", _content(path)).decode(errors="replace")):
        yield from (one.split()[0] for one in modules.split(",") if one.strip())
        level = len(base) - len(base.lstrip("."))
        module = ".".join([*package[: len(package) - level + 1], *filter(None, [base[level:]])]) if level else base
        yield module
        yield from (f"{module}.{one.split()[0]}" for one in names.strip("() ").split(",") if one.strip())


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # an editor's lock file, or one that it replaces just now
        return b""


def _base_folder() -> Path:
    """Absolute folder that holds one folder for each state of the sources."""
    if named := os.environ.get(OVERRIDE_VARIABLE):
        return Path(named).expanduser().absolute()
    if named := os.environ.get(NUMBA_VARIABLE):
        folder = Path(named).absolute()
        return folder.parent if folder.name.startswith(FOLDER_PREFIX) else folder  # set by our parent process
    named = os.environ.get("XDG_CACHE_HOME")
    return (Path(named).absolute() if named else Path.home() / ".cache") / "onboard_estimation"


def _make_writable(folder: Path) -> None:
    """Make the folder, readable for its user only (numba unpickles what it finds there), and mark it as used today."""
    if not folder.is_dir():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_unused(folder.parent)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"{folder} cannot be written")
    with suppress(OSError):
        os.utime(folder)


def _remove_unused(base: Path) -> None:
    """Remove folders of sources that nobody has started for a while; each edit of a source leaves one behind."""
    oldest_s = time.time() - UNUSED_AFTER_DAYS * 86400
    for folder in base.glob(f"{FOLDER_PREFIX}*"):
        with suppress(OSError):
            if folder.stat().st_mtime < oldest_s:
                shutil.rmtree(folder, ignore_errors=True)


def _temporary_folder(name: str, reason: str) -> Path:
    """A folder that goes with the process, and a warning that says why."""
    warnings.warn(f"compiled kernels are not kept: {reason}", RuntimeWarning, stacklevel=3)
    owner = os.getpid()
    base = tempfile.mkdtemp(prefix="onboard_estimation-kernels-")
    # Not when a forked child ends.
    atexit.register(lambda: shutil.rmtree(base, ignore_errors=True) if os.getpid() == owner else None)
    folder = Path(base) / name
    folder.mkdir()
    return folder


@contextmanager
def compilations(report: Callable[[str], None]) -> Iterator[None]:
    """Tell the name of each kernel that is compiled in the block, when that begins."""
    from numba.core import event

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            report(event.data["dispatcher"].py_func.__qualname__)

        def on_end(self, event: Any) -> None:
            pass

    with event.install_listener("numba:compile", Listener()):
        yield
