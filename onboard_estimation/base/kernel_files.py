"""Compiled kernels on disk, one file for each signature, in place of numba's index and numbered data files.

numba (0.59 to 0.68) looks a signature up in an index, which names a data file `.1`, `.2`, ... Index and data are read
and written without a lock: two processes that compile different signatures of one function at once both take the
number that is free next, and from then on the index may lead to the machine code of another signature. That runs, and
gives wrong numbers. So does a process that ends between its two files.

Here the name of a file is the hash of its key, and the file says itself what it is: its key and its checksum. There is
nothing that two processes could write in different order, hence no lock that a dead process, or a folder on a network,
could spoil. A file that is damaged, unreadable or of another key counts as none, and the kernel is compiled.

A kernel that is loaded needs nothing of what numba compiles with. numba loads that all the same, scipy's linear algebra
among it: half of the time to a node's first kernel. Here it is left until a kernel is compiled, or until one is loaded
that asks for a symbol that is not known without: LLVM ends the process where it links what nobody knows.

numba knows a source file by its path and, up to 0.67, by its time, so that a copy (a colcon workspace, a wheel, another
clone) would compile everything anew. Here a package's kernels lie under its name, and what they are of is the content.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import inspect
import pickle
import struct
import sys
import warnings
from collections.abc import Callable, Collection, Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from onboard_estimation.base.atomic_file import write_atomically
from onboard_estimation.base.errors import UserError

SUFFIX = ".kernel"
"""Of each file; none of numba's own, so that neither takes the other's for its own."""

NUMBA_MODULE = "numba.core.caching"
_REPLACED = "IndexDataCacheFile"
_PARAMETERS = {
    "__init__": ["self", "cache_path", "filename_base", "source_stamp"],
    "save": ["self", "key", "data"],
    "load": ["self", "key"],
    "flush": ["self"],
}
_LOADS = "load_overload"
_LOADS_NAMES = {"self", "sig", "target_context", "refresh", "_guard_against_spurious_io_errors", "_load_overload"}
"""All that numba's method of `Cache` is made of."""
_DIGEST_BYTES = hashlib.sha256().digest_size
_SYMBOL_TABLE = 2  # type of a section
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_MADE_BY_THE_LINKER = frozenset({b"_GLOBAL_OFFSET_TABLE_"})


class KernelFiles:
    """The compiled signatures of one function; takes the place of numba's `IndexDataCacheFile`.

    Parameters
    ----------
    cache_path
        Folder.
    filename_base
        Begin of each file's name: module, function, line, Python's version.
    source_stamp
        What stands for the state of the source file; kernels of another state are not loaded.
    """

    def __init__(self, cache_path: str, filename_base: str, source_stamp: object) -> None:
        self._folder = Path(cache_path)
        self._base = filename_base
        self._stamp = source_stamp

    def load(self, key: object) -> Any:
        """What was saved under the key, or None."""
        try:
            content = self._path(key).read_bytes()
        except OSError:
            return None
        digest, content = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if hashlib.sha256(content).digest() != digest:
            return None
        stamp, saved_key, data = pickle.loads(content)  # noqa: S301 as numba does
        if (stamp, saved_key) != (self._stamp, key):
            return None
        if not can_be_linked(data):
            _load_what_compiles()
        return data

    def save(self, key: object, data: object) -> None:
        """Save under the key; where that fails (a full disk), the kernel runs all the same, and one warning says so."""
        from numba.core.serialize import dumps

        content = dumps((self._stamp, key, data))
        what = f"compiled kernels are not kept in {self._folder} and compile anew at the next start: {self._base}"
        try:
            write_atomically(self._path(key), hashlib.sha256(content).digest() + content, what)
        except UserError as error:
            warnings.warn(str(error), RuntimeWarning, stacklevel=2)

    def flush(self) -> None:
        """Remove all that was saved."""
        for path in self._folder.glob(f"{self._base}.*{SUFFIX}"):
            path.unlink(missing_ok=True)

    def _path(self, key: object) -> Path:
        # Types of numba that are equal have equal names; those of equal names may differ, hence the key in the file.
        name = hashlib.sha256(repr((self._stamp, key)).encode()).hexdigest()[:24]
        return self._folder / f"{self._base}.{name}{SUFFIX}"


def install(where_impossible: Callable[[str], None], packages: Collection[str] = ()) -> None:
    """Let numba keep its kernels this way, now where it is imported already, else as soon as it is.

    Parameters
    ----------
    where_impossible
        Called with a reason where this numba is built differently; its own way would not be safe in a shared folder.
    packages
        Top-level packages whose kernels are the same wherever they lie: the folder is of this state of their sources.
    """
    caching = sys.modules.get(NUMBA_MODULE)
    if caching is not None:
        _replace_in(caching, where_impossible, packages)
    elif not any(isinstance(finder, _WhenImported) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WhenImported(lambda module: _replace_in(module, where_impossible, packages)))


def _replace_in(caching: ModuleType, where_impossible: Callable[[str], None], packages: Collection[str]) -> None:
    theirs = getattr(caching, _REPLACED, None)
    if theirs is KernelFiles:
        return
    for name, parameters in _PARAMETERS.items():
        if list(inspect.signature(getattr(theirs, name, print)).parameters) != parameters:
            numba = getattr(sys.modules.get("numba"), "__version__", "of this version")
            where_impossible(f"numba {numba} has no {_REPLACED}.{name}({', '.join(parameters[1:])})")
            return
    setattr(caching, _REPLACED, KernelFiles)
    cache = getattr(caching, "Cache", None)
    code = getattr(getattr(cache, _LOADS, None), "__code__", None)
    if code is not None and {*code.co_varnames, *code.co_names} == _LOADS_NAMES:
        setattr(cache, _LOADS, _load_overload)
    _know_by_name(caching, packages)


def _know_by_name(caching: ModuleType, packages: Collection[str]) -> None:
    """Folders by a package's name, and stamps by content."""
    locator, source = getattr(caching, "_CacheLocator", None), getattr(caching, "_SourceFileBackedLocatorMixin", None)
    by_path = getattr(locator, "get_suitable_cache_subpath", None)
    if locator is None or source is None or by_path is None:
        return  # a numba of another build finds its kernels by path: slower in a copy, and as right

    def folder(cls: type, py_file: str) -> str:
        name = package_of(Path(py_file).resolve())
        return name if name.partition(".")[0] in packages else str(by_path(py_file))

    locator.get_suitable_cache_subpath = classmethod(folder)
    source.get_source_stamp = lambda self: hashlib.sha256(Path(self._py_file).read_bytes()).hexdigest()


def package_of(source: Path) -> str:
    """Dotted name of the package that a source file lies in; empty where it is in none."""
    parts: list[str] = []
    folder = source.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    return ".".join(parts)


def _load_overload(cache: Any, sig: Any, target_context: Any) -> Any:
    """In place of numba's `Cache.load_overload`, which refreshes the context first: loads all that compiles."""
    try:
        from numba.core.runtime import nrt

        nrt.rtsys.initialize(target_context)  # memory of arrays: kernels that are loaded call it
    except (ImportError, AttributeError):  # a numba of another build
        target_context.refresh()
    with cache._guard_against_spurious_io_errors():
        loaded = cache._load_overload(sig, target_context)
        if loaded is not None:
            return loaded
    target_context.refresh()
    return None


def _load_what_compiles() -> None:
    from numba.core.registry import cpu_target

    cpu_target.target_context.refresh()


class _WhenImported(MetaPathFinder):
    """Calls a function with numba's module once it is imported: importing numba for that would cost every start."""

    def __init__(self, then: Callable[[ModuleType], None]) -> None:
        self._then = then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module's own specification, with the call added."""
        if fullname != NUMBA_MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_call(module: ModuleType) -> None:
            execute(module)
            self._then(module)

        spec.loader.exec_module = execute_and_call  # type: ignore[method-assign]
        return spec


def can_be_linked(payload: Any) -> bool:
    """Whether all that a kernel needs is known to LLVM already, before numba has loaded what it compiles with.

    Parameters
    ----------
    payload
        What numba keeps of a kernel (its `CompileResult` reduced).

    Returns
    -------
    False as well where the payload is built otherwise, or not for 64-bit Linux.
    """
    import llvmlite.binding

    try:
        _, kind, (code, _) = payload[0]
        names = undefined_symbols(code) if kind == "object" else None
    except (TypeError, ValueError, IndexError, KeyError):
        return False
    if names is None:
        return False
    return all(llvmlite.binding.address_of_symbol(name.decode()) for name in names - _MADE_BY_THE_LINKER)


def undefined_symbols(code: bytes) -> set[bytes] | None:
    """Names that an object file in ELF, 64-bit and little-endian, does not define itself; None for any other file."""
    if code[:6] != b"\x7fELF\x02\x01":
        return None
    try:
        (start,), (size, count) = struct.unpack_from("<Q", code, 0x28), struct.unpack_from("<HH", code, 0x3A)
        sections = [_SECTION.unpack_from(code, start + i * size) for i in range(count)]
        found = set()
        for _, kind, _, _, offset, length, strings, _, _, _ in sections:
            if kind != _SYMBOL_TABLE:
                continue
            names = sections[strings][4]
            for name, _, _, section, _, _ in _SYMBOL.iter_unpack(code[offset : offset + length]):
                if section == 0 and name:
                    found.add(code[names + name : code.index(b"\0", names + name)])
    except (struct.error, IndexError, ValueError):
        return None
    return found if sections else None
